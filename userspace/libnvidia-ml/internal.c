/* SPDX-License-Identifier: MIT */
/*
 * What nvidia-smi asks for beside the documented API: a table of functions that NVIDIA does not document. It takes the
 * library for one of its own release when that knows the table, and it looks at the table's size and for NULL before
 * each call. Only those entries are here of which NVIDIA has said publicly what they do, in its own stand-in for NVML
 * (github.com/NVIDIA/k8s-test-infra, pkg/gpu/mocknvml): the lists of processes. What nvidia-smi would learn from the others it shows as
 * N/A.
 */
#include "library.h"

#include <string.h>

#define ENTRY_COMPUTE_PROCESSES 213
#define ENTRY_GRAPHICS_PROCESSES 214
#define ENTRY_MPS_PROCESSES 215
#define ENTRIES (ENTRY_MPS_PROCESSES + 1)

/* One process as the table's list has it: the documented one, and its name. */
struct process {
    unsigned pid;
    unsigned long long used; /* bytes */
    unsigned gpu_instance, compute_instance;
    unsigned long long protected_used;
    char name[4096];
};
_Static_assert(sizeof(struct process) == 4128, "layout of the list");

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                     nvmlProcessInfo_v2_t *infos);
nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length);

/* *count: in, the room of `list`; out, how many there are in it. */
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
        /* That of another user's process may be hidden: nvidia-smi drops a row without a name. */
        if (nvmlSystemGetProcessName(infos[i].pid, list[i].name, sizeof(list[i].name)) != NVML_SUCCESS ||
            !list[i].name[0])
            strcpy(list[i].name, "[Not Found]");
    }
    *count = n;
    return NVML_SUCCESS;
}

/* Neither graphics nor MPS reaches a guest. */
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
    uint64_t size; /* of the first: bytes of the table */
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
