/* SPDX-License-Identifier: MIT */
/* Driver API: version, entry points by name, profiler control, and unimplemented calls. */
#include <string.h>

#include <cudaProfiler.h>

#include "api/device/entry.h"
#include "api/api.h"

#undef cuGetProcAddress /* the header keeps this name mapped to _v2 in every mode */

CUresult CUDAAPI cuDriverGetVersion(int *driverVersion)
{
    if (!driverVersion)
        return CUDA_ERROR_INVALID_VALUE;
    *driverVersion = VGP_API_VERSION; /* also before cuInit, as documented */
    return CUDA_SUCCESS;
}

/* Called by every generated entry point without another definition. */
int sg_unsupported(const char *name)
{
    CUresult r = sg_check_init();

    if (r != CUDA_SUCCESS)
        return r;
    return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "%s: not supported by this device", name);
}

static const struct sg_entry *find_entry(const char *symbol, int version, bool per_thread, bool *known)
{
    const struct sg_entry *best = NULL;

    for (const struct sg_entry *e = sg_entries; e->name; e++) {
        if (e->per_thread != per_thread || strcmp(e->name, symbol))
            continue;
        *known = true;
        if (e->version <= version && (!best || e->version > best->version))
            best = e;
    }
    return best;
}

/* The newest variant that is not newer than the version asked for. */
CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult *symbolStatus)
{
    const struct sg_entry *best = NULL;
    bool known = false;

    if (!symbol || !pfn ||
        (flags &
         ~(cuuint64_t)(CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        best = find_entry(symbol, cudaVersion, true, &known);
    if (!best)
        best = find_entry(symbol, cudaVersion, false, &known);
    *pfn = best ? best->fn : NULL;
    if (symbolStatus)
        *symbolStatus = best    ? CU_GET_PROC_ADDRESS_SUCCESS
                        : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return best || symbolStatus ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND; /* the status says it (driver 580) */
}
