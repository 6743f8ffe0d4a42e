/* SPDX-License-Identifier: MIT */
/*
 * The entry points of CUDA 2 and 3: structures with 32-bit addresses and sizes (_v1), and launches
 * prepared step by step. Needs cuda.h's internal declarations.
 */
#ifndef CUA_LEGACY_H
#define CUA_LEGACY_H

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>
#include <stdint.h>

/* A size clamped to 32 bits. */
unsigned int cua_clamped(size_t n);
/* The reason for not returning an address. */
extern const char cua_too_far[];

/* NULL: all zero. */
CUDA_MEMCPY2D cua_wide_2d(const CUDA_MEMCPY2D_v1 *p);
CUDA_MEMCPY3D cua_wide_3d(const CUDA_MEMCPY3D_v1 *p);
CUDA_ARRAY_DESCRIPTOR cua_wide_array(const CUDA_ARRAY_DESCRIPTOR_v1 *p);
CUDA_ARRAY3D_DESCRIPTOR cua_wide_array3d(const CUDA_ARRAY3D_DESCRIPTOR_v1 *p);
/* An array without depth as cuArray3DCreate() describes it. */
CUDA_ARRAY3D_DESCRIPTOR cua_deep_array(const CUDA_ARRAY_DESCRIPTOR *p);
CUDA_KERNEL_NODE_PARAMS cua_wide_kernel(const CUDA_KERNEL_NODE_PARAMS_v1 *p);
CUDA_KERNEL_NODE_PARAMS_v1 cua_narrow_kernel(const CUDA_KERNEL_NODE_PARAMS *p);
/* Sizes are clamped. */
CUDA_ARRAY_DESCRIPTOR_v1 cua_narrow_array(const CUDA_ARRAY_DESCRIPTOR *p);
CUDA_ARRAY3D_DESCRIPTOR_v1 cua_narrow_array3d(const CUDA_ARRAY3D_DESCRIPTOR *p);

/* ---- cua_legacy_launch.c ---- */

/* The launch settings of a function; created by the first setter, freed with free(). */
struct cua_old_launch;

/* A copy of the settings for a launch. */
struct cua_old_args {
    unsigned block[3], shared;
    size_t size;           /* cuParamSetSize */
    unsigned char *params; /* `bytes` bytes; freed by the caller */
};

/* The setters. They change the record at *old, which belongs to a function with `bytes` bytes of
   parameters. INVALID_VALUE, OUT_OF_MEMORY. */
CUresult cua_old_set_block(struct cua_old_launch **old, unsigned bytes, int x, int y, int z);
CUresult cua_old_set_shared(struct cua_old_launch **old, unsigned bytes, unsigned shared);
CUresult cua_old_set_size(struct cua_old_launch **old, unsigned bytes, unsigned size);
CUresult cua_old_set_param(struct cua_old_launch **old, unsigned bytes, int offset, const void *value,
                           unsigned n);
/* The settings for a launch of width x height blocks; unset values are zero, as in a new
   function. */
CUresult cua_old_get(struct cua_old_launch *const *old, unsigned bytes, int width, int height,
                     struct cua_old_args *out);

#endif
