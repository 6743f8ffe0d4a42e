/* SPDX-License-Identifier: MIT */
/* Calls the units of higher folders, in the order of the list. */
#include "units.h"

#include <stddef.h>

static const struct vcu_unit_ops *const none[] = {NULL};
static const struct vcu_unit_ops *const *all = none;
_Atomic unsigned vcu_units_watching;

void vcu_units_set(const struct vcu_unit_ops *const *units)
{
    all = units;
}

#define EACH(u) for (const struct vcu_unit_ops *const *u = all; *u != NULL; u++)

CUresult vcu_units_connected(void)
{
    CUresult res = CUDA_SUCCESS;

    EACH(u)
    {
        if ((*u)->connected != NULL && res == CUDA_SUCCESS)
            res = (*u)->connected();
    }
    return res;
}

void vcu_units_context_ending(struct vcu_context *c)
{
    EACH(u)
    {
        if ((*u)->context_ending != NULL)
            (*u)->context_ending(c);
    }
}

void vcu_units_context_gone(struct vcu_context *c)
{
    EACH(u)
    {
        if ((*u)->context_gone != NULL)
            (*u)->context_gone(c);
    }
}

void vcu_units_before_work(void)
{
    EACH(u)
    {
        if ((*u)->before_work != NULL)
            (*u)->before_work();
    }
}

void vcu_units_after_wait(bool everything)
{
    EACH(u)
    {
        if ((*u)->after_wait != NULL)
            (*u)->after_wait(everything);
    }
}

void vcu_units_wait_answered(void)
{
    EACH(u)
    {
        if ((*u)->wait_answered != NULL)
            (*u)->wait_answered();
    }
}

void vcu_units_notify(uint16_t type, uint64_t cookie, const uint8_t *data, uint32_t size)
{
    EACH(u)
    {
        if ((*u)->notify != NULL && (*u)->notify(type, cookie, data, size))
            return;
    }
}

CUresult vcu_units_capture_copy(const char *call, const struct vcu_copy *c)
{
    EACH(u)
    {
        if ((*u)->capture_copy != NULL)
            return (*u)->capture_copy(call, c);
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}

bool vcu_units_memory_private(uint64_t addr, uint64_t n)
{
    EACH(u)
    {
        if ((*u)->memory_private != NULL)
            return (*u)->memory_private(addr, n);
    }
    return false;
}
