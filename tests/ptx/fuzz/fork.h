/* SPDX-License-Identifier: MIT */
/* For targets with a process per input: shared coverage, and the ends of the processes. */
#ifndef FUZZ_FORK_H
#define FUZZ_FORK_H

#include <stddef.h>
#include <stdint.h>

#define FZ_BAD_EXIT 77 /* of libFuzzer and of the sanitizers here */

/* Once, before the first input. */
void fz_share_counters(void);
/* Runs an input in a separate process, which it ends; aborts when that process ended by a signal or
 * a sanitizer. 0. */
int fz_in_child(const char *name, void (*run)(const uint8_t *data, size_t size), const uint8_t *data,
                size_t size);

/* Diagnostics for an input that rarely hangs: the /proc data of a descriptor, and the position of
 * each thread. */
void fz_say_stacks(int fd);

/* In place of dlsym(3) where worker/core/wrk_provider.c looks for the pthread_create() that it stands in
   front of: the sanitizer's, which must know each thread that is detached. */
void *fz_dlsym(void *from, const char *name);

#endif
