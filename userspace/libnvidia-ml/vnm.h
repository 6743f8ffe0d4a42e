/* SPDX-License-Identifier: MIT */
/*
 * Internals of the guest's libnvidia-ml.so.1. It has a connection and a worker of its own, apart
 * from libcuda's: a process that only looks (a monitor, PyTorch before it forks) must not count as
 * one that uses CUDA. No CUDA context is made.
 *
 * Locks: `lock` (read: a call is under way; write: connect, shut down), `sample_lock` (a leaf).
 */
#ifndef VNM_H
#define VNM_H

#include <stdbool.h>
#include <stdint.h>

#include "../../lib/link/link.h"
#include "nvml_abi.h"

#define VNM_DEVICES_MAX 64
#define VNM_ATTRIBUTES_MAX 192
#define VNM_PROCESSES_MAX 64

/* One GPU; constant while connected. An nvmlDevice_t is its address. */
struct vnm_device {
    char name[256];
    unsigned char uuid[16];
    bool has_uuid;
    uint64_t total_memory; /* bytes, the share of the VM */
    char pci_bus_id[32];
    int attributes[VNM_ATTRIBUTES_MAX]; /* CUdevice_attribute */
    uint64_t cpu_ns, now_ns;            /* the last sample of the workers' processor time */
    unsigned utilization;               /* percent, from the last two samples */
};

struct vnm_client {
    unsigned users; /* nvmlInit less nvmlShutdown */
    bool connected;
    struct lnk_transport transport;
    struct lnk_ring ring;
    int device_count;
    struct vnm_device devices[VNM_DEVICES_MAX];
    uint32_t flags; /* enum vgp_nvml_flags */
    char driver_version[80];
    int cuda_version; /* of the host's driver: 13000 */
    char nvml_version[80];
};
extern struct vnm_client vnm;

/* ---- vnm_client.c ---- */

/* Begins a call: UNINITIALIZED, or SUCCESS with the connection held until vnm_leave. */
nvmlReturn_t vnm_enter(void);
void vnm_leave(void);
nvmlReturn_t vnm_init(unsigned flags);
nvmlReturn_t vnm_shutdown(void);
/* What a failed call to the worker means for NVML's caller. */
nvmlReturn_t vnm_result(int cuda_result);

/* ---- vnm_device.c ---- */

/* The device, or NULL when the handle is none that we gave out. */
struct vnm_device *vnm_device(nvmlDevice_t handle);
unsigned vnm_ordinal(const struct vnm_device *d);
/* Copies a text by NVML's rule: INSUFFICIENT_SIZE when it does not fit with its NUL. */
nvmlReturn_t vnm_put(char *to, unsigned room, const char *text);
/* Asks the host's NVML; NOT_SUPPORTED where there is none. Outputs may be NULL. */
nvmlReturn_t vnm_ask(const struct vnm_device *d, unsigned what, unsigned argument, uint64_t *first,
                     uint64_t *second, char *text, unsigned room);

/* ---- tracing: libcuda's, with NVML's names of results ---- */

/* How the trace reads results of NVML (vnm_trace.c). */
extern const struct lnk_trace_results vnm_trace_results;

/* `what` is a format for the arguments, as for printf. */
void vnm_trace(const char *name, nvmlReturn_t r, uint64_t t0, const char *what, ...)
    __attribute__((format(printf, 4, 5)));
void vnm_why(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void vnm_refusal(const char *name);
const char *vnm_error_name(nvmlReturn_t r);

/*
 * Defines the export `name` around the body that follows: the check that NVML is initialised, the
 * connection held meanwhile, the trace. WHAT...: format and values of the arguments.
 */
#define VNM_EXPORT __attribute__((visibility("default")))
#define VNM_CALL(name, parameters, arguments, ...)                                                 \
    static nvmlReturn_t do_##name parameters;                                                      \
    VNM_EXPORT nvmlReturn_t name parameters;                                                       \
    VNM_EXPORT nvmlReturn_t name parameters                                                        \
    {                                                                                              \
        uint64_t t0 = lnk_trace_now();                                                             \
        nvmlReturn_t r = vnm_enter();                                                              \
                                                                                                   \
        if (r == NVML_SUCCESS) {                                                                   \
            r = do_##name arguments;                                                               \
            vnm_leave();                                                                           \
        }                                                                                          \
        if (__builtin_expect(lnk_trace_on, 0))                                                     \
            vnm_trace(#name, r, t0, __VA_ARGS__);                                                  \
        return r;                                                                                  \
    }                                                                                              \
    static nvmlReturn_t do_##name parameters

#endif
