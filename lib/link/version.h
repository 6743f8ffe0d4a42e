/* SPDX-License-Identifier: MIT */
/* The driver version reported to programs of this guest, the same from libcuda and libnvidia-ml. */
#ifndef LNK_VERSION_H
#define LNK_VERSION_H

/* The value of VGPU_DRIVER_VERSION (1000 to 99999), for testing a program's behaviour with
   another driver: only the number changes, not the entry points. 0: not set, or out of range. */
int lnk_driver_version_wanted(void);

/*
 * The version to report on a host whose driver reports `host` (13000 for CUDA 13.0; 0: unknown):
 * the lower of the host's and of the API offered here, unless VGPU_DRIVER_VERSION overrides it.
 */
int lnk_driver_version(int host);

#endif
