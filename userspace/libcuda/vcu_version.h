/* SPDX-License-Identifier: MIT */
/* The driver version that this guest's programs meet; libcuda and libnvidia-ml say the same. */
#ifndef VCU_VERSION_H
#define VCU_VERSION_H

/*
 * The version of the API that is offered, whatever the host has (13000 for CUDA 13.0), or what
 * VGPU_DRIVER_VERSION says (1000 to 99999; anything else is ignored): for trying out what a program
 * does with an older driver. Only the number changes, not the entry points.
 */
int vcu_driver_version(void);

#endif
