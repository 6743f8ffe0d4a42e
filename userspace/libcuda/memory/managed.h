/* SPDX-License-Identifier: MIT */
/* __managed__ variables: the guest's side. vcu_managed.c describes the guarantees. */
#ifndef VCU_MANAGED_H
#define VCU_MANAGED_H

#include "../core/core.h"

/* Gives a variable of the current context its pages in this process and its present content.
 * NOT_SUPPORTED: its address is in use in this process. Known variables are left unchanged. */
CUresult vcu_managed_add(const char *call, uint64_t owner, uint64_t addr, uint64_t size);
/* Forgets the variables of a module or library, or of a context (0: ignored). */
void vcu_managed_forget(uint64_t owner, uint64_t context);
/* Called before work is sent: copies the program's writes to the device; and after a wait: copies
 * the device's writes back. */
extern const struct vcu_unit_ops vcu_managed_unit;

#endif
