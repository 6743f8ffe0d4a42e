/* SPDX-License-Identifier: MIT */
#ifndef FZ_MUTATE_H
#define FZ_MUTATE_H

#include <stddef.h>
#include <stdint.h>

/* A change of PTX text: half the time libFuzzer's own, else by lines and words. Returns the
 * size. */
size_t fz_mutate(uint8_t *data, size_t size, size_t max, unsigned seed);

#endif
