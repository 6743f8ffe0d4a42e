/* SPDX-License-Identifier: MIT */
/* __managed__ variables: the guest's side. managed.c describes the guarantees. */
#ifndef VCU_MANAGED_H
#define VCU_MANAGED_H

#include "../core/core.h"

/* Gives a variable of the current context its pages here and its present content. NOT_SUPPORTED:
   its address is taken in this process. Known variables are left as they are. */
CUresult vcu_managed_add(const char *call, uint64_t owner, uint64_t addr, uint64_t size);
/* Forgets the variables of a module or library, or of a context (0: not asked for). */
void vcu_managed_forget(uint64_t owner, uint64_t context);
/* Before work is sent, what the program wrote goes to the device; after the program has waited, what the
   device wrote comes here. */
extern const struct vcu_unit_ops vcu_managed_unit;

#endif
