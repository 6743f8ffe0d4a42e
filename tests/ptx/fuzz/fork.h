/* SPDX-License-Identifier: MIT */
/* For targets whose inputs have a process each: coverage that the processes share, and their ends. */
#ifndef FUZZ_FORK_H
#define FUZZ_FORK_H

#include <stddef.h>
#include <stdint.h>

#define FZ_BAD_EXIT 77 /* of libFuzzer and of the sanitizers here */

/* Once, before the first input. */
void fz_share_counters(void);
/* Runs it in a process of its own, which it ends; aborts when that ended by a signal or a sanitizer. 0. */
int fz_in_child(const char *name, void (*run)(const uint8_t *data, size_t size), const uint8_t *data,
                size_t size);

/* What an input that hangs seldom leaves behind: what /proc says of a descriptor, and where each thread stands. */
void fz_say_stacks(int fd);

#endif
