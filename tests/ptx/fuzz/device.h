/* SPDX-License-Identifier: MIT */
/* The device memory of a fuzz target: the driver half's functions required by exec/exec.h. */
#ifndef FZ_DEVICE_H
#define FZ_DEVICE_H

#include "ptx/ptx.h"
#include "memory/texture.h"

/* Zeroed memory with a live entry in the checked table; ends the process when there is none. */
void *fz_alloc(size_t size);
/* fz_alloc() between two margins that the table does not contain; `fill` is the byte in all of it. */
void *fz_alloc_between(size_t size, size_t margin, uint8_t fill);
void fz_free_all(void);
void fz_no_print(void *ctx, const char *text, size_t len);
/* textures.c: fills the arrays anew; memory that a texture reads as a buffer, its size in bytes. */
void fz_textures(uint64_t buffer, size_t bytes);
/* For sg_launch.texture: the lower four bits of a handle say which, so that most handles are
 * some. */
const struct sg_texture *fz_texture(void *textures, uint64_t handle, bool surface);

#endif
