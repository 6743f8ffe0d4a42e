/* SPDX-License-Identifier: MIT */
/*
 * Settings of GPU core dumps (lib/driver/coredump.h). No dump is ever written, because the state
 * of the GPU is in the worker, which may write no files; so enabling one is refused.
 */
#include "core.h"

#include "vgp_entry.h"

static CUresult told(const char *call, CUresult r)
{
    return r == CUDA_ERROR_NOT_SUPPORTED ? VCU_REFUSE(r, call, "no GPU core dump is written") : r;
}

void vcu_coredump_begin(struct vcu_context *c)
{
    cua_coredump_begin(&c->coredump);
}

void vcu_coredump_forget(struct vcu_context *c)
{
    cua_coredump_forget(&c->coredump);
}

CUresult vcu_cuCoredumpGetAttribute(CUcoredumpSettings attrib, void *value, size_t *size)
{
    CUresult r = vcu_check_context();

    return r == CUDA_SUCCESS ? cua_coredump_get(&vcu_context_find(NULL)->coredump, attrib, value, size) : r;
}

CUresult vcu_cuCoredumpSetAttribute(CUcoredumpSettings attrib, void *value, size_t *size)
{
    CUresult r = vcu_check_context();

    if (r == CUDA_SUCCESS)
        r = cua_coredump_set(&vcu_context_find(NULL)->coredump, attrib, value, size);
    return told("cuCoredumpSetAttribute", r);
}

CUresult vcu_cuCoredumpSetAttributeGlobal(CUcoredumpSettings attrib, void *value, size_t *size)
{
    CUresult r = vcu_check_init();

    if (r == CUDA_SUCCESS)
        r = cua_coredump_set(NULL, attrib, value, size);
    return told("cuCoredumpSetAttributeGlobal", r);
}
