/* SPDX-License-Identifier: MIT */
/*
 * Unsupported functions of NVML. They ignore their arguments: on x86-64 a caller may pass any
 * arguments to a function that reads none.
 */
#include "library.h"

static nvmlReturn_t refuse_call(const char *name)
{
    uint64_t t0 = lnk_trace_now();
    nvmlReturn_t r = nvml_enter();

    if (r == NVML_SUCCESS) {
        nvml_leave();
        r = NVML_ERROR_NOT_SUPPORTED;
        nvml_refusal(name);
    }
    nvml_trace(name, r, t0, "%s", "");
    return r;
}

#define REFUSE(name) \
    NVML_EXPORT nvmlReturn_t name(void); \
    NVML_EXPORT nvmlReturn_t name(void) \
    { \
        return refuse_call(#name); \
    }
#include "names.def"
