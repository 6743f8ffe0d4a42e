/* SPDX-License-Identifier: MIT */
/*
 * Internals of the guest's libnvidia-ml.so.1. It has its own connections and workers, one for each
 * backend, apart from libcuda's: a process that only monitors (a monitor, PyTorch before it forks)
 * must not count as a user of CUDA. No CUDA context is created.
 *
 * Locks: `lock` (read: during a call; write: connect, shut down), `sample_lock` (a leaf).
 */
#ifndef NVML_LIBRARY_H
#define NVML_LIBRARY_H

#include <stdbool.h>
#include <stdint.h>

#include "../../lib/link/link.h"
#include "nvml_abi.h"

#define NVML_DEVICES_MAX 64
#define NVML_ATTRIBUTES_MAX 192
#define NVML_PROCESSES_MAX 64

/* A connection to a backend. */
struct nvml_link {
    struct lnk_transport transport;
    struct lnk_ring ring;
    uint32_t flags; /* enum vgp_nvml_flags */
};

/* A GPU; constant while connected. Its address is the nvmlDevice_t. */
struct nvml_device {
    struct nvml_link *link;
    unsigned ordinal; /* ordinal on that connection */
    char name[256];
    unsigned char uuid[16];
    bool has_uuid;
    uint64_t total_memory; /* the VM's share, bytes */
    char pci_bus_id[32];
    int attributes[NVML_ATTRIBUTES_MAX]; /* indexed by CUdevice_attribute */
    uint64_t cpu_ns, now_ns;             /* last sample: workers' CPU time, sample time, ns */
    unsigned utilization;                /* percent, from the last two samples */
};

struct nvml_client {
    unsigned users; /* number of nvmlInit calls less nvmlShutdown calls */
    bool connected;
    struct nvml_link *links; /* backends that answered; allocated by each connect */
    unsigned link_count;
    int device_count;
    struct nvml_device devices[NVML_DEVICES_MAX];
    char driver_version[80]; /* from the first backend */
    int cuda_version;        /* of the host's driver, e.g. 13000 */
    char nvml_version[80];
};
extern struct nvml_client nvml;

/* ---- nvml_client.c ---- */

/* Begins a call. Returns UNINITIALIZED, or SUCCESS with the connection held until nvml_leave. */
nvmlReturn_t nvml_enter(void);
void nvml_leave(void);
nvmlReturn_t nvml_init(unsigned flags);
nvmlReturn_t nvml_shutdown(void);
/* Returns the NVML result for a failed call to the worker. */
nvmlReturn_t nvml_result(int cuda_result);

/* ---- nvml_device.c ---- */

/* Returns the device, or NULL for a handle that is not one of this library's. */
struct nvml_device *nvml_device(nvmlDevice_t handle);
unsigned nvml_ordinal(const struct nvml_device *d);
/* Returns the device's ordinal at its backend and directs the calling thread's next call there. */
unsigned nvml_at(const struct nvml_device *d);
/* Copies a text by NVML's rule: INSUFFICIENT_SIZE when it does not fit with its NUL. */
nvmlReturn_t nvml_put(char *to, unsigned room, const char *text);
/* Queries the host's NVML; NOT_SUPPORTED without it. Outputs may be NULL. */
nvmlReturn_t nvml_ask(const struct nvml_device *d, unsigned what, unsigned argument, uint64_t *first,
                      uint64_t *second, char *text, unsigned room);

/* ---- trace: libcuda's, with NVML's names of results ---- */

/* Formatting of NVML results for the trace (nvml_trace.c). */
extern const struct lnk_trace_results nvml_trace_results;

/* `what`: printf format of the arguments. */
void nvml_trace(const char *name, nvmlReturn_t r, uint64_t t0, const char *what, ...)
    __attribute__((format(printf, 4, 5)));
void nvml_why(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void nvml_refusal(const char *name);
const char *nvml_error_name(nvmlReturn_t r);

/*
 * Defines the export `name` around the body that follows: the check that NVML is initialised, the
 * held connection, the trace. WHAT...: format and values of the arguments.
 */
#define NVML_EXPORT __attribute__((visibility("default")))
#define NVML_CALL(name, parameters, arguments, ...) \
    static nvmlReturn_t do_##name parameters; \
    NVML_EXPORT nvmlReturn_t name parameters; \
    NVML_EXPORT nvmlReturn_t name parameters \
    { \
        uint64_t t0 = lnk_trace_now(); \
        nvmlReturn_t r = nvml_enter(); \
\
        if (r == NVML_SUCCESS) { \
            r = do_##name arguments; \
            nvml_leave(); \
        } \
        if (__builtin_expect(lnk_trace_on, 0)) \
            nvml_trace(#name, r, t0, __VA_ARGS__); \
        return r; \
    } \
    static nvmlReturn_t do_##name parameters

#endif
