/* SPDX-License-Identifier: MIT */
/*
 * Settings of GPU core dumps (lib/driver/coredump.h). No dump is ever written, because the state
 * of the GPU is in the worker, which may write no files; so enabling one is refused.
 */
#include "core.h"

#include "vgp_entry.h"

CUresult vcu_coredump_told(const char *call, CUresult r)
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
