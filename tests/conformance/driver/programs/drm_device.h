/* SPDX-License-Identifier: MIT */
#ifndef DRM_DEVICE_H
#define DRM_DEVICE_H

/*
 * Opens the primary node of the first device of a kernel driver ("vgem", "virtio_gpu"), to be
 * closed by the caller. -1: no such device (ENODEV).
 */
int drm_device_open(const char *driver);

#endif
