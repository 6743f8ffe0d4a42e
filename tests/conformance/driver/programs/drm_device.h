/* SPDX-License-Identifier: MIT */
#ifndef DRM_DEVICE_H
#define DRM_DEVICE_H

/* The primary node of the first device of a driver of the kernel ("vgem", "virtio_gpu"); the caller closes it.
 * -1: no such device (ENODEV). */
int drm_device_open(const char *driver);

#endif
