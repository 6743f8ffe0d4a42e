/* SPDX-License-Identifier: MIT */
/* __managed__ variables: the guest's side of them. What is promised stands in vcu_managed.c. */
#ifndef VCU_MANAGED_H
#define VCU_MANAGED_H

#include "vcu.h"

/* How many variables there are; nothing below needs to be called while it is 0. */
extern _Atomic unsigned vcu_managed_live;
static inline bool vcu_managed_any(void)
{
    return __builtin_expect(atomic_load_explicit(&vcu_managed_live, memory_order_relaxed) != 0, 0);
}

/* Gives a variable of the current context its pages here and its present content. NOT_SUPPORTED:
   its address is taken in this process. Known variables are left as they are. */
CUresult vcu_managed_add(const char *call, uint64_t owner, uint64_t addr, uint64_t size);
/* Forgets the variables of a module or library, or of a context (0: not asked for). */
void vcu_managed_forget(uint64_t owner, uint64_t context);
/* True for calls that may make the device read or write memory. */
bool vcu_managed_is_work(uint16_t call);
/* Before such a call is sent: what the program wrote goes to the device. */
void vcu_managed_before_work(void);
/* After the program has waited: what the device wrote comes here. everything: for the whole context. */
void vcu_managed_after_wait(bool everything);

#endif
