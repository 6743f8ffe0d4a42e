/* SPDX-License-Identifier: MIT */
/* The driver version that this guest's programs meet; libcuda and libnvidia-ml say the same. */
#ifndef LNK_VERSION_H
#define LNK_VERSION_H

/* What VGPU_DRIVER_VERSION says (1000 to 99999), for trying out what a program does with another driver: only
   the number changes, not the entry points. 0: it is not set, or says anything else. */
int lnk_driver_version_wanted(void);

/*
 * The version to report over a host whose driver says `host` (13000 for CUDA 13.0; 0: not known): the lesser
 * of the host's and of the API that is offered here, unless VGPU_DRIVER_VERSION replaces it.
 */
int lnk_driver_version(int host);

#endif
