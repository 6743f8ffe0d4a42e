/* SPDX-License-Identifier: MIT */
/* DRM synchronization objects, exported by Vulkan drivers as OPAQUE_FD and as timeline
   semaphores. */
#ifndef VGP_EXTSEM_DRM_H
#define VGP_EXTSEM_DRM_H

#include <stdbool.h>
#include <stdint.h>

/* Finds a render node that accepts the object. 0, or a negative errno with a constant text. The
   caller keeps the descriptor. */
int vgp_extsem_drm_import(int fd, bool timeline, int *device, uint32_t *handle, const char **why);
void vgp_extsem_drm_close(int device, uint32_t handle);
/* As vgp_extsem_signal() and vgp_extsem_wait(). */
int vgp_extsem_drm_signal(int device, uint32_t handle, bool timeline, uint64_t value);
int vgp_extsem_drm_wait(int device, uint32_t handle, bool timeline, uint64_t value, int milliseconds);

#endif
