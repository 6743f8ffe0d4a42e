/* SPDX-License-Identifier: MIT */
/* Which of the host's devices the application sees, and in what order (visible.c). */
#ifndef VCU_VISIBLE_H
#define VCU_VISIBLE_H

#include "core.h"

/*
 * What CUDA_VISIBLE_DEVICES (`text`, NULL: not set) and CUDA_DEVICE_ORDER (`order`, or NULL) make of n
 * devices: fills list[] with indices into `all` and returns how many there are. *why is a static text for
 * the element at which the list ended early, or NULL.
 */
int vcu_visible_choose(const char *text, const char *order, const struct vcu_device *all, int n,
                       int list[VCU_MAX_DEVICES], const char **why);

/* Keeps of vcu.devices what the environment shows, in its order; says on the trace when that changes
   anything. CUDA_ERROR_NO_DEVICE: nothing is left. Called by cuInit, before there are contexts. */
CUresult vcu_visible_apply(void);

#endif
