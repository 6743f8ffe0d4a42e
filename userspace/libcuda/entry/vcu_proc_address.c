/* SPDX-License-Identifier: MIT */
/*
 * cuGetProcAddress: the newest variant of a name that the caller's CUDA version knows. The table is
 * generated from the toolkit's cudaTypedefs.h (protocol/cuda_symbols.tsv).
 */
#include "../core/core.h"

#include <string.h>

#include "vgp_entry.h"
#include "../../../protocol/vgp_guest_rt.h"

/* The first row of a name; the rows of a name are adjacent, in ascending order of versions. */
static const struct vgp_proc *first_row(const char *name, unsigned *count)
{
    unsigned low = 0, high = vgp_proc_count;

    while (low < high) {
        unsigned mid = (low + high) / 2;

        if (strcmp(vgp_procs[mid].name, name) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    *count = 0;
    while (low + *count < vgp_proc_count && strcmp(vgp_procs[low + *count].name, name) == 0)
        ++*count;
    return *count == 0 ? NULL : &vgp_procs[low];
}

CUresult vcu_cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                                 CUdriverProcAddressQueryResult *symbolStatus)
{
    CUdriverProcAddressQueryResult ignored;
    CUresult absent = CUDA_SUCCESS; /* the status says it (driver 580) */
    const struct vgp_proc *row, *best = NULL;
    unsigned count;
    int hidden;

    if (symbolStatus == NULL) { /* the runtime passes NULL */
        symbolStatus = &ignored;
        absent = CUDA_ERROR_NOT_FOUND;
    }
    if (symbol == NULL || pfn == NULL ||
        (flags & ~(cuuint64_t)(CU_GET_PROC_ADDRESS_LEGACY_STREAM |
                               CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *pfn = NULL;
    row = first_row(symbol, &count);
    if (vcu_fault_spec != NULL && vcu_fault_number("hide", symbol, &hidden)) {
        row = NULL;
        count = 0;
    }
    for (unsigned i = 0; i < count; i++) {
        if (row[i].version <= cudaVersion && (best == NULL || row[i].version > best->version))
            best = &row[i];
    }
    if (best == NULL) {
        *symbolStatus =
            row == NULL ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
        if (*symbol != '\0' && lnk_trace_on)
            lnk_why("cuGetProcAddress", "%s: %s", symbol,
                    row == NULL ? "no such name in any CUDA that is known here"
                                : "the requested CUDA version is older than the name");
        return absent;
    }
    *symbolStatus = CU_GET_PROC_ADDRESS_SUCCESS;
    *pfn = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0 && best->fn_per_thread != NULL
               ? best->fn_per_thread
               : best->fn;
    return CUDA_SUCCESS;
}
