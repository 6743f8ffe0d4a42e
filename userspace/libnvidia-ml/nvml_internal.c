/* SPDX-License-Identifier: MIT */
/*
 * Functions that nvidia-smi uses beyond the documented API: a table that NVIDIA does not document.
 * nvidia-smi takes the library for its own release if the table is known, and checks the table's
 * size and for NULL before each call. Only entries whose function NVIDIA has published are served,
 * from its own stand-in for NVML (github.com/NVIDIA/k8s-test-infra, pkg/gpu/mocknvml): the lists of
 * processes. nvidia-smi shows the values of the remaining entries as N/A.
 */
#include "library.h"

#include <string.h>

#define ENTRY_COMPUTE_PROCESSES 213
#define ENTRY_GRAPHICS_PROCESSES 214
#define ENTRY_MPS_PROCESSES 215
#define ENTRIES (ENTRY_MPS_PROCESSES + 1)

/* A process in the table's list: the documented structure and its name. */
struct process {
    unsigned pid;
    unsigned long long used; /* device memory, bytes */
    unsigned gpu_instance, compute_instance;
    unsigned long long protected_used;
    char name[4096];
};
_Static_assert(sizeof(struct process) == 4128, "layout of the list");

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                     nvmlProcessInfo_v2_t *infos);
nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length);

/* *count: in: capacity of `list`; out: number of processes. */
static nvmlReturn_t compute_processes(nvmlDevice_t device, unsigned *count, struct process *list)
{
    nvmlProcessInfo_v2_t infos[NVML_PROCESSES_MAX];
    unsigned n = NVML_PROCESSES_MAX;
    nvmlReturn_t r;

    if (count == NULL || (list == NULL && *count != 0))
        return NVML_ERROR_INVALID_ARGUMENT;
    r = nvmlDeviceGetComputeRunningProcesses_v3(device, &n, infos);
    if (r != NVML_SUCCESS)
        return r;
    n = n < *count ? n : *count;
    for (unsigned i = 0; i < n; i++) {
        list[i] = (struct process){.pid = infos[i].pid,
                                   .used = infos[i].used,
                                   .gpu_instance = 0xffffffffu,
                                   .compute_instance = 0xffffffffu};
        /*
         * The name of another user's process may be hidden, and nvidia-smi drops rows without a
         * name.
         */
        if (nvmlSystemGetProcessName(infos[i].pid, list[i].name, sizeof(list[i].name)) != NVML_SUCCESS ||
            !list[i].name[0])
            strcpy(list[i].name, "[Not Found]");
    }
    *count = n;
    return NVML_SUCCESS;
}

/* Neither graphics nor MPS is available in a guest. */
static nvmlReturn_t no_processes(nvmlDevice_t device, unsigned *count, struct process *list)
{
    (void)list;
    if (nvml_device(device) == NULL || count == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = 0;
    return NVML_SUCCESS;
}

typedef nvmlReturn_t (*entry)(nvmlDevice_t, unsigned *, struct process *);
union slot {
    uint64_t size; /* first entry: size of the table, bytes */
    entry function;
};
static const union slot smi_table[ENTRIES] = {
    [0] = {.size = sizeof(smi_table)},
    [ENTRY_COMPUTE_PROCESSES] = {.function = compute_processes},
    [ENTRY_GRAPHICS_PROCESSES] = {.function = no_processes},
    [ENTRY_MPS_PROCESSES] = {.function = no_processes},
};
static const unsigned char smi_table_id[16] = {0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e,
                                               0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4};

NVML_EXPORT nvmlReturn_t nvmlInternalGetExportTable(const void **table, const void *id);
NVML_EXPORT nvmlReturn_t nvmlInternalGetExportTable(const void **table, const void *id)
{
    uint64_t t0 = lnk_trace_now();
    nvmlReturn_t r = NVML_ERROR_INVALID_ARGUMENT;

    if (table != NULL && id != NULL && memcmp(id, smi_table_id, sizeof(smi_table_id)) == 0) {
        *table = smi_table;
        r = NVML_SUCCESS;
    }
    if (__builtin_expect(lnk_trace_on, 0))
        nvml_trace("nvmlInternalGetExportTable", r, t0, "id=%s", r == NVML_SUCCESS ? "nvidia-smi" : "?");
    return r;
}
