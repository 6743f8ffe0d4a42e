/* SPDX-License-Identifier: MIT */
#ifndef VGEM_H
#define VGEM_H

/* A node of the kernel's vgem driver, whose buffers and fences are memory's: the caller closes it.
 * -1: there is none (ENODEV). */
int vgem_open(void);

#endif
