/* SPDX-License-Identifier: MIT */
/*
 * Results: names, texts (lib/driver has the table), and their formatting for the trace.
 */
#include "../core.h"

#include <string.h>

/* ---- results, for the trace ------------------------------------------------------------------ */

static const char *result_name(int result)
{
    return cua_error_name((CUresult)result);
}

/*
 * Results reported by VGPU_TRACE=refusals. Not refusals: "still running", the runtime's clean-up
 * after the end of the library, and names that were queried and not found (cuGetProcAddress reports
 * them itself).
 */
static bool is_failure(const char *name, int result)
{
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY || result == CUDA_ERROR_DEINITIALIZED)
        return false;
    return result != CUDA_ERROR_NOT_FOUND || strncmp(name, "cuGetProcAddress", 16) != 0;
}

const struct lnk_trace_results lnk_trace_results = {result_name, is_failure};

void vcu_trace_call(const char *name, CUresult r, uint64_t t0_ns, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    lnk_trace_result(name, (int)r, t0_ns, fmt, ap);
    va_end(ap);
}
