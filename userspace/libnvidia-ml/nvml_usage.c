/* SPDX-License-Identifier: MIT */
/* Values that change while programs run and that guests may see: memory, utilisation, processes. */
#include "library.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "vgp_guest.h"

/* Minimum distance of two samples of the processor time, ns. */
#define SAMPLE_NS 100000000u

struct usage {
    uint64_t total, reserved, used, cpu_ns, now_ns;
    uint32_t count, rows;
    uint64_t processes[3 * NVML_PROCESSES_MAX];
};

static nvmlReturn_t ask_usage(const struct nvml_device *d, struct usage *u)
{
    uint32_t n = 3 * NVML_PROCESSES_MAX;
    CUresult res;

    memset(u, 0, sizeof(*u));
    res = vgp_call_vgpNvmlUsage(nvml_at(d), &u->total, &u->reserved, &u->used, &u->cpu_ns, &u->now_ns,
                                &u->count, u->processes, &n);
    u->rows = n / 3;
    return nvml_result((int)res);
}

/* ---- memory ---- */

static nvmlReturn_t memory_usage(nvmlDevice_t device, struct usage *u)
{
    struct nvml_device *d = nvml_device(device);
    nvmlReturn_t r;

    if (d == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if ((d->link->flags & VGP_NVML_MEMORY) == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    r = ask_usage(d, u);
    /* Numbers of the worker: their sum may exceed the total, and 64 bits. */
    if (u->reserved > u->total)
        u->reserved = u->total;
    if (u->used > u->total - u->reserved)
        u->used = u->total - u->reserved;
    return r;
}

NVML_CALL(nvmlDeviceGetMemoryInfo, (nvmlDevice_t device, nvmlMemory_t *m), (device, m),
          "total=%llu free=%llu used=%llu", r == NVML_SUCCESS ? m->total : 0, r == NVML_SUCCESS ? m->free : 0,
          r == NVML_SUCCESS ? m->used : 0)
{
    struct usage u;
    nvmlReturn_t r;

    if (m == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    r = memory_usage(device, &u);
    if (r != NVML_SUCCESS)
        return r;
    m->total = u.total;
    m->used = u.used + u.reserved;
    m->free = u.total - m->used;
    return NVML_SUCCESS;
}

NVML_CALL(nvmlDeviceGetMemoryInfo_v2, (nvmlDevice_t device, nvmlMemory_v2_t *m), (device, m),
          "total=%llu free=%llu used=%llu", r == NVML_SUCCESS ? m->total : 0, r == NVML_SUCCESS ? m->free : 0,
          r == NVML_SUCCESS ? m->used : 0)
{
    struct usage u;
    nvmlReturn_t r;

    if (m == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (m->version != NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2u))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    r = memory_usage(device, &u);
    if (r != NVML_SUCCESS)
        return r;
    m->total = u.total;
    m->reserved = u.reserved;
    m->used = u.used;
    m->free = u.total - u.used - u.reserved;
    return NVML_SUCCESS;
}

/* ---- utilisation ---- */

static pthread_mutex_t sample_lock = PTHREAD_MUTEX_INITIALIZER;

/* Returns the utilisation between the last sample and this one, percent. */
static unsigned share_of(const struct nvml_device *d, const struct usage *u)
{
    uint64_t share;

    if (u->cpu_ns < d->cpu_ns)
        return 0; /* processor time has decreased: a worker has ended */
    share = (u->cpu_ns - d->cpu_ns) * 100 / (u->now_ns - d->now_ns);
    return share > 100 ? 100 : (unsigned)share;
}

/*
 * Utilisation without the host's NVML: the workers' processor time between two samples, as a share
 * of a single processor, at most 100 %. The first call waits for the second sample. The clock is
 * the worker's and is not trusted: at most two samples are taken.
 */
static nvmlReturn_t sample_usage(struct nvml_device *d, unsigned *percent)
{
    const struct timespec pause = {0, SAMPLE_NS};
    struct usage u;
    nvmlReturn_t r = NVML_SUCCESS;

    pthread_mutex_lock(&sample_lock);
    for (bool first = !d->now_ns;; first = false) {
        r = ask_usage(d, &u);
        if (r == NVML_SUCCESS && !u.now_ns) {
            nvml_why("nvmlDeviceGetUtilizationRates", "the worker's clock says 0");
            r = NVML_ERROR_UNKNOWN;
        }
        if (r != NVML_SUCCESS || (!first && u.now_ns - d->now_ns < SAMPLE_NS))
            break; /* too early: keeps the last value */
        d->utilization = first ? 0 : share_of(d, &u);
        d->cpu_ns = u.cpu_ns;
        d->now_ns = u.now_ns;
        if (!first)
            break;
        nanosleep(&pause, NULL);
    }
    *percent = d->utilization;
    pthread_mutex_unlock(&sample_lock);
    return r;
}

NVML_CALL(nvmlDeviceGetUtilizationRates, (nvmlDevice_t device, nvmlUtilization_t *u), (device, u),
          "gpu=%u memory=%u", r == NVML_SUCCESS ? u->gpu : 0, r == NVML_SUCCESS ? u->memory : 0)
{
    struct nvml_device *d = nvml_device(device);
    uint64_t gpu = 0, mem = 0;
    unsigned percent = 0;
    nvmlReturn_t r;

    if (d == NULL || u == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if ((d->link->flags & VGP_NVML_HOST) != 0) {
        r = nvml_ask(d, VGP_NVML_UTILIZATION, 0, &gpu, &mem, NULL, 0);
    } else {
        r = sample_usage(d, &percent);
        gpu = mem = percent; /* the software GPU's threads both compute and copy */
    }
    if (r == NVML_SUCCESS) {
        u->gpu = (unsigned)gpu;
        u->memory = (unsigned)mem;
    }
    return r;
}

/* ---- processes ---- */

static nvmlReturn_t list_processes(nvmlDevice_t device, unsigned *count, void *infos, bool v1)
{
    struct nvml_device *d = nvml_device(device);
    struct usage u;
    unsigned room;
    nvmlReturn_t r;

    if (d == NULL || count == NULL || (infos == NULL && *count != 0))
        return NVML_ERROR_INVALID_ARGUMENT;
    r = ask_usage(d, &u);
    if (r != NVML_SUCCESS)
        return r;
    room = *count;
    *count = u.rows;
    if (u.rows > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < u.rows; i++) {
        const uint64_t *row = &u.processes[3 * i];

        if (v1)
            ((nvmlProcessInfo_v1_t *)infos)[i] = (nvmlProcessInfo_v1_t){(unsigned)row[0], row[1]};
        else
            ((nvmlProcessInfo_v2_t *)infos)[i] =
                (nvmlProcessInfo_v2_t){(unsigned)row[0], row[1], 0xffffffffu, 0xffffffffu};
    }
    return NVML_SUCCESS;
}

/* Neither graphics nor MPS is available in a guest: their lists are empty. */
static nvmlReturn_t no_processes(nvmlDevice_t device, unsigned *count)
{
    if (nvml_device(device) == NULL || count == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = 0;
    return NVML_SUCCESS;
}

#define PROCESSES(name, type, body) \
    NVML_CALL(name, (nvmlDevice_t device, unsigned *count, type *infos), (device, count, infos), \
              "infos=%p count=%u", (void *)infos, count != NULL ? *count : 0) \
    { \
        (void)infos; \
        return body; \
    }
PROCESSES(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t,
          list_processes(device, count, infos, true))
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t,
          list_processes(device, count, infos, false))
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_v2_t,
          list_processes(device, count, infos, false))
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t, no_processes(device, count))
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t, no_processes(device, count))
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_v2_t, no_processes(device, count))
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t, no_processes(device, count))
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t, no_processes(device, count))
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_v2_t, no_processes(device, count))
