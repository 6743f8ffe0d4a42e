/* SPDX-License-Identifier: MIT */
/* The checks and the packing of a launch, apart from sending it, so that a test can drive them. */
#ifndef VCU_LAUNCH_H
#define VCU_LAUNCH_H

#include "code.h"

/* More attributes than cuda.h has ids are a mistake of the caller. */
#define VCU_MAX_LAUNCH_ATTRIBUTES 32

struct vcu_launch {
    uint32_t grid[3], block[3];
    uint32_t shared; /* dynamic, bytes */
    CUstream stream;
    uint32_t flags; /* VGP_LAUNCH_* */
    uint32_t attributes;
    uint32_t *attribute_ids; /* the caller's; not used by plain launches */
    CUlaunchAttributeValue *attribute_values;
};

/*
 * Checks for the errors that a launch reports at once (cuLaunchKernel's documentation). `dev` is
 * the device's attribute array; `kernel`: the handle is a CUkernel. *why names the reason.
 */
CUresult vcu_launch_check(const int *dev, const struct vcu_func *f, bool kernel, const struct vcu_launch *l,
                          const char **why);
/* True if the provider is sure to accept a launch that vcu_launch_check() accepts. Not sure: the
 * first launch of a function, which may load it, and a grid with clusters. `before`: set when the
 * function has been accepted by another call than a launch. */
bool vcu_launch_sure(const struct vcu_func *f, const _Atomic bool *before);
/*
 * A function with .reqntid takes blocks of one shape, which no attribute tells. True: blocks of this
 * shape have been accepted, or those of two shapes. Else the launch needs a reply, and then
 * vcu_block_accepted().
 */
bool vcu_block_known(const struct vcu_func *f, const uint32_t block[3]);
void vcu_block_accepted(struct vcu_func *f, const uint32_t block[3]);
/*
 * Packs kernelParams into buffer (at least f->param_bytes long) or takes the buffer of `extra`.
 * CUDA_ERROR_INVALID_VALUE: both or neither given, an unknown extra id, too large.
 */
CUresult vcu_launch_pack(const struct vcu_func *f, void **params, void **extra, uint8_t *buffer,
                         const void **data, uint32_t *size);

#endif
