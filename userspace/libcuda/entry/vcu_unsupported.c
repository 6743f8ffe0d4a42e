/* SPDX-License-Identifier: MIT */
/* Entry points that are exported and refused: the generated ones call this function. */
#include "../core/core.h"

CUresult vgp_unsupported(const char *name, const char *why)
{
    CUresult r = vcu_check_init();

    if (r == CUDA_SUCCESS) {
        lnk_trace_refusal(name, why);
        vcu_logs_reason(name, "%s", why);
        r = CUDA_ERROR_NOT_SUPPORTED;
    }
    vcu_logs_failure(name, r);
    return r;
}
