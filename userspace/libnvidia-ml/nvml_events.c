/* SPDX-License-Identifier: MIT */
/*
 * Event sets. Events of the host's GPU do not reach guests: a device supports no event type, so
 * none can be registered, and waiting for a set ends at its timeout.
 */
#define _GNU_SOURCE
#include "library.h"

#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#define SETS_MAX 64

typedef struct nvml_event_set {
    atomic_bool used;
} * nvmlEventSet_t;

/*
 * A handle is an address in this array, as for devices: any other value is refused and never
 * dereferenced.
 */
static struct nvml_event_set sets[SETS_MAX];

static struct nvml_event_set *find_event_set(nvmlEventSet_t handle)
{
    for (unsigned i = 0; i < SETS_MAX; i++) {
        if (handle == &sets[i] && atomic_load(&sets[i].used))
            return &sets[i];
    }
    return NULL;
}

NVML_CALL(nvmlEventSetCreate, (nvmlEventSet_t * set), (set), "set=%p",
          r == NVML_SUCCESS ? (void *)*set : NULL)
{
    if (set == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < SETS_MAX; i++) {
        bool is_used = false;

        if (atomic_compare_exchange_strong(&sets[i].used, &is_used, true)) {
            *set = &sets[i];
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_INSUFFICIENT_RESOURCES;
}

NVML_CALL(nvmlEventSetFree, (nvmlEventSet_t set), (set), "set=%p", (void *)set)
{
    struct nvml_event_set *s = find_event_set(set);

    if (s == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    atomic_store(&s->used, false);
    return NVML_SUCCESS;
}

NVML_CALL(nvmlDeviceGetSupportedEventTypes, (nvmlDevice_t device, unsigned long long *types), (device, types),
          "types=%llu", r == NVML_SUCCESS ? *types : 0)
{
    if (nvml_device(device) == NULL || types == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    *types = 0;
    return NVML_SUCCESS;
}

NVML_CALL(nvmlDeviceRegisterEvents, (nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set),
          (device, types, set), "types=%llu set=%p", types, (void *)set)
{
    if (nvml_device(device) == NULL || find_event_set(set) == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    return types == 0 ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

/* Does not hold the connection, so that nvmlShutdown() of another thread need not wait. */
static nvmlReturn_t wait_for(nvmlEventSet_t set, const void *data, unsigned timeout_ms)
{
    struct timespec left = {timeout_ms / 1000, timeout_ms % 1000 * 1000000};
    nvmlReturn_t r = nvml_enter();

    if (r != NVML_SUCCESS)
        return r;
    nvml_leave();
    if (find_event_set(set) == NULL || data == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
    return NVML_ERROR_TIMEOUT;
}

#define WAIT(name) \
    NVML_EXPORT nvmlReturn_t name(nvmlEventSet_t set, void *data, unsigned timeout_ms); \
    NVML_EXPORT nvmlReturn_t name(nvmlEventSet_t set, void *data, unsigned timeout_ms) \
    { \
        uint64_t t0 = lnk_trace_now(); \
        nvmlReturn_t r = wait_for(set, data, timeout_ms); \
\
        if (__builtin_expect(lnk_trace_on, 0)) \
            nvml_trace(#name, r, t0, "set=%p timeoutms=%u", (void *)set, timeout_ms); \
        return r; \
    }
WAIT(nvmlEventSetWait)
WAIT(nvmlEventSetWait_v2)
