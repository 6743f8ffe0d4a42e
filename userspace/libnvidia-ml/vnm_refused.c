/* SPDX-License-Identifier: MIT */
/*
 * The functions of NVML that are not served. They take no notice of their arguments: on x86-64 a
 * caller may pass what it likes to a function that reads none of it.
 */
#include "vnm.h"

static nvmlReturn_t refuse(const char *name)
{
    uint64_t t0 = lnk_trace_now();
    nvmlReturn_t r = vnm_enter();

    if (r == NVML_SUCCESS) {
        vnm_leave();
        r = NVML_ERROR_NOT_SUPPORTED;
        vnm_refusal(name);
    }
    vnm_trace(name, r, t0, "%s", "");
    return r;
}

#define REFUSE(name)                                                                               \
    VNM_EXPORT nvmlReturn_t name(void);                                                            \
    VNM_EXPORT nvmlReturn_t name(void)                                                             \
    {                                                                                              \
        return refuse(#name);                                                                      \
    }
#include "vnm_names.def"
