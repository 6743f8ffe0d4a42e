/* SPDX-License-Identifier: MIT */
/* Fences of the kernel's vgem driver, signalled by a program. */
#ifndef VGEM_H
#define VGEM_H

#include <stdint.h>

/*
 * Creates a fence as a sync_file, and returns its number for vgem_fence_signal(); the kernel
 * signals it after 10 s. -1: errno.
 */
int vgem_fence_new(int device, uint32_t *fence);
/* 0; -1: errno. */
int vgem_fence_signal(int device, uint32_t fence);

#endif
