/* SPDX-License-Identifier: MIT */
/*
 * What libnvidia-ml.so.1 in the guest asks: usage of the GPU by the clients of this broker, and
 * values of the host's own NVML where the provider is NVIDIA's. The host's NVML is loaded by the
 * first question, in the sandbox; it needs no other files than the driver. Its ABI (names, numbers,
 * structures) is the one that NVIDIA documents in the NVML API reference.
 */
#include "calls.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NVML_SUCCESS 0
#define NVML_NOT_SUPPORTED 3
#define NVML_FUNCTION_NOT_FOUND 13
#define HOST_DEVICES_MAX 64
#define HOST_PROCESSES_MAX 128

struct host_memory { /* nvmlMemory_t */
    unsigned long long total, free, used;
};
struct host_memory_v2 { /* nvmlMemory_v2_t */
    unsigned version;
    unsigned long long total, reserved, free, used;
};
struct host_process { /* nvmlProcessInfo_t */
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};
struct host_pci { /* nvmlPciInfo_t */
    char legacy[16];
    unsigned domain, bus, device, ids, subsystem;
    char bus_id[32];
};

static struct {
    bool tried;
    void *dl; /* NULL: no usable NVML on this host */
    void *devices[HOST_DEVICES_MAX];
} host;

static void *nvml_find(const char *name)
{
    return host.dl ? dlsym(host.dl, name) : NULL;
}

/* Functions through dlsym, without a cast that ISO C does not define. */
#define FIND(slot, name) \
    do { \
        void *sym_ = nvml_find(name); \
        memcpy(&(slot), &sym_, sizeof(slot)); \
    } while (0)

static void load_host(void)
{
    int (*init)(void), (*by_pci)(const char *, void **);

    if (host.tried)
        return;
    host.tried = true;
    if (!wrk_capabilities.host_nvml)
        return;
    /* A test provider that replaces a driver may also replace its NVML. */
    init = (int (*)(void))(uintptr_t)dlsym(wrk_capabilities.library, "nvmlInit_v2");
    bool stand_in = init && init() == NVML_SUCCESS;
    host.dl = stand_in ? wrk_capabilities.library : wrk_provider_sibling("libnvidia-ml.so.1");
    FIND(init, "nvmlInit_v2");
    FIND(by_pci, "nvmlDeviceGetHandleByPciBusId_v2");
    if (!init || !by_pci || init() != NVML_SUCCESS) {
        if (host.dl && !stand_in)
            dlclose(host.dl);
        host.dl = NULL;
        return;
    }
    for (int i = 0; i < wrk_capabilities.device_count && i < HOST_DEVICES_MAX; i++) {
        CUdevice dev;
        char pci[32];

        if (wrk_provider.cuDeviceGet(&dev, i) == CUDA_SUCCESS && wrk_provider.cuDeviceGetPCIBusId &&
            wrk_provider.cuDeviceGetPCIBusId(pci, (int)sizeof(pci), dev) == CUDA_SUCCESS &&
            by_pci(pci, &host.devices[i]) != NVML_SUCCESS)
            host.devices[i] = NULL;
    }
}

static void *host_device(uint32_t ordinal)
{
    load_host();
    return host.dl && ordinal < HOST_DEVICES_MAX ? host.devices[ordinal] : NULL;
}

void wrk_nvml_text(const char *name, char *to, size_t room)
{
    int (*get)(char *, unsigned);

    load_host();
    FIND(get, name);
    if (!get || get(to, (unsigned)room - 1) != NVML_SUCCESS)
        to[0] = '\0';
    to[room - 1] = '\0';
}

uint32_t wrk_nvml_flags(const struct wrk_worker *w)
{
    const uint32_t from_host = host.dl ? VGP_NVML_HOST : 0;

    /* Without NVML the clients' total usage cannot be attributed to one of several devices. */
    if (w->quota.limit || (!host.dl && wrk_capabilities.device_count == 1))
        return from_host | VGP_NVML_MEMORY;
    return host.dl ? from_host | VGP_NVML_MEMORY | VGP_NVML_SHARED : from_host;
}

int wrk_cuda_version(void)
{
    return wrk_capabilities.driver_version;
}

/* Fills in the processes of a device; returns their number. */
static unsigned host_processes(void *device, struct host_process list[HOST_PROCESSES_MAX])
{
    int (*get)(void *, unsigned *, struct host_process *);
    unsigned n = HOST_PROCESSES_MAX;

    FIND(get, "nvmlDeviceGetComputeRunningProcesses_v3");
    if (!get)
        FIND(get, "nvmlDeviceGetComputeRunningProcesses_v2");
    if (!get || get(device, &n, list) != NVML_SUCCESS)
        return 0;
    return n < HOST_PROCESSES_MAX ? n : HOST_PROCESSES_MAX;
}

uint64_t wrk_nvml_own_memory(void)
{
    struct host_process list[HOST_PROCESSES_MAX];
    unsigned pid = (unsigned)getpid();
    uint64_t sum = 0;

    load_host();
    for (int i = 0; host.dl && i < HOST_DEVICES_MAX; i++) {
        unsigned n = host.devices[i] ? host_processes(host.devices[i], list) : 0;

        for (unsigned k = 0; k < n; k++)
            sum += list[k].pid == pid && list[k].used + 1 != 0 ? list[k].used : 0;
    }
    return sum;
}

/* Replaces the counted values by the driver's values for the workers. */
static void host_process_memory(void *device, struct vgb_msg *m)
{
    struct host_process list[HOST_PROCESSES_MAX];
    unsigned n = host_processes(device, list);

    for (unsigned i = 0; i < n; i++) {
        for (unsigned k = 0; k < m->nruns; k++) {
            if (m->uses[k].worker == list[i].pid && list[i].used + 1 != 0)
                m->uses[k].memory = list[i].used;
        }
    }
}

static bool host_memory(void *device, struct vgp_ret_vgpNvmlUsage *r)
{
    int (*get2)(void *, struct host_memory_v2 *), (*get)(void *, struct host_memory *);
    struct host_memory_v2 m2 = {.version = (unsigned)sizeof(m2) | 2u << 24};
    struct host_memory m;

    FIND(get2, "nvmlDeviceGetMemoryInfo_v2");
    FIND(get, "nvmlDeviceGetMemoryInfo");
    if (get2 && get2(device, &m2) == NVML_SUCCESS) {
        r->total = m2.total;
        r->reserved = m2.reserved;
        r->used = m2.used;
        return true;
    }
    if (!get || get(device, &m) != NVML_SUCCESS)
        return false;
    r->total = m.total;
    r->used = m.used;
    return true;
}

CUresult wrk_do_vgpNvmlUsage(struct wrk_call *c, const struct vgp_args_vgpNvmlUsage *a,
                             struct vgp_ret_vgpNvmlUsage *r, struct vgp_outs_vgpNvmlUsage *o)
{
    void *device = host_device(a->ordinal);
    struct vgb_msg m;
    CUdevice dev;
    size_t total = 0;
    CUresult e = wrk_provider.cuDeviceGet(&dev, (int)a->ordinal);

    if (e != CUDA_SUCCESS)
        return e;
    wrk_control_usage(c->w, &m);
    if (!device || c->w->quota.limit || !host_memory(device, r)) {
        if (wrk_provider.cuDeviceTotalMem_v2)
            wrk_provider.cuDeviceTotalMem_v2(&total, dev);
        r->total = m.value && m.value < total ? m.value : total;
        r->used = m.va < r->total ? m.va : r->total;
    }
    if (device)
        host_process_memory(device, &m);
    r->cpuNs = m.offset;
    r->nowNs = vgb_now_ns();
    r->count = (uint32_t)m.length;
    for (unsigned i = 0; i < m.nruns; i++) {
        o->processes[3 * i] = m.uses[i].pid;
        o->processes[3 * i + 1] = m.uses[i].memory;
        o->processes[3 * i + 2] = 0;
        r->processes_len = 3 * (i + 1);
    }
    return CUDA_SUCCESS;
}

/* ---- single values ---- */

enum form { FORM_U, FORM_UU, FORM_UA, FORM_Q, FORM_S, FORM_PCI };
static const struct {
    const char *name;
    enum form form;
} questions[VGP_NVML_WHATS] = {
    [VGP_NVML_SERIAL] = {"nvmlDeviceGetSerial", FORM_S},
    [VGP_NVML_BRAND] = {"nvmlDeviceGetBrand", FORM_U},
    [VGP_NVML_UTILIZATION] = {"nvmlDeviceGetUtilizationRates", FORM_UU},
    [VGP_NVML_POWER_USAGE] = {"nvmlDeviceGetPowerUsage", FORM_U},
    [VGP_NVML_POWER_LIMIT] = {"nvmlDeviceGetPowerManagementLimit", FORM_U},
    [VGP_NVML_POWER_LIMITS] = {"nvmlDeviceGetPowerManagementLimitConstraints", FORM_UU},
    [VGP_NVML_POWER_DEFAULT] = {"nvmlDeviceGetPowerManagementDefaultLimit", FORM_U},
    [VGP_NVML_POWER_ENFORCED] = {"nvmlDeviceGetEnforcedPowerLimit", FORM_U},
    [VGP_NVML_TEMPERATURE] = {"nvmlDeviceGetTemperature", FORM_UA},
    [VGP_NVML_TEMPERATURE_LIMIT] = {"nvmlDeviceGetTemperatureThreshold", FORM_UA},
    [VGP_NVML_FAN_SPEED] = {"nvmlDeviceGetFanSpeed", FORM_U},
    [VGP_NVML_CLOCK] = {"nvmlDeviceGetClockInfo", FORM_UA},
    [VGP_NVML_MAX_CLOCK] = {"nvmlDeviceGetMaxClockInfo", FORM_UA},
    [VGP_NVML_PSTATE] = {"nvmlDeviceGetPerformanceState", FORM_U},
    [VGP_NVML_COMPUTE_MODE] = {"nvmlDeviceGetComputeMode", FORM_U},
    [VGP_NVML_PERSISTENCE] = {"nvmlDeviceGetPersistenceMode", FORM_U},
    [VGP_NVML_DISPLAY_ACTIVE] = {"nvmlDeviceGetDisplayActive", FORM_U},
    [VGP_NVML_DISPLAY_MODE] = {"nvmlDeviceGetDisplayMode", FORM_U},
    [VGP_NVML_ECC_MODE] = {"nvmlDeviceGetEccMode", FORM_UU},
    [VGP_NVML_MIG_MODE] = {"nvmlDeviceGetMigMode", FORM_UU},
    [VGP_NVML_ARCHITECTURE] = {"nvmlDeviceGetArchitecture", FORM_U},
    [VGP_NVML_GPU_CORES] = {"nvmlDeviceGetNumGpuCores", FORM_U},
    [VGP_NVML_BUS_WIDTH] = {"nvmlDeviceGetMemoryBusWidth", FORM_U},
    [VGP_NVML_PCIE_GEN] = {"nvmlDeviceGetCurrPcieLinkGeneration", FORM_U},
    [VGP_NVML_PCIE_WIDTH] = {"nvmlDeviceGetCurrPcieLinkWidth", FORM_U},
    [VGP_NVML_PCIE_MAX_GEN] = {"nvmlDeviceGetMaxPcieLinkGeneration", FORM_U},
    [VGP_NVML_PCIE_MAX_WIDTH] = {"nvmlDeviceGetMaxPcieLinkWidth", FORM_U},
    [VGP_NVML_VBIOS] = {"nvmlDeviceGetVbiosVersion", FORM_S},
    [VGP_NVML_ENERGY] = {"nvmlDeviceGetTotalEnergyConsumption", FORM_Q},
    [VGP_NVML_CLOCK_REASONS] = {"nvmlDeviceGetCurrentClocksThrottleReasons", FORM_Q},
    [VGP_NVML_PCI_IDS] = {"nvmlDeviceGetPciInfo_v3", FORM_PCI},
};

static int ask_host(void *device, uint32_t what, uint32_t argument, struct vgp_ret_vgpNvmlGet *r,
                    struct vgp_outs_vgpNvmlGet *o)
{
    unsigned u[2] = {0, 0};
    unsigned long long q = 0;
    struct host_pci pci;
    union {
        int (*u)(void *, unsigned *);
        int (*uu)(void *, unsigned *, unsigned *);
        int (*pair)(void *, unsigned *);
        int (*ua)(void *, unsigned, unsigned *);
        int (*q)(void *, unsigned long long *);
        int (*s)(void *, char *, unsigned);
        int (*pci)(void *, struct host_pci *);
    } fn;
    int status;

    FIND(fn, questions[what].name);
    if (!fn.u)
        return NVML_FUNCTION_NOT_FOUND;
    switch (questions[what].form) {
    case FORM_U:
        status = fn.u(device, &u[0]);
        break;
    case FORM_UU: /* the utilisation is a structure of two numbers */
        status = what == VGP_NVML_UTILIZATION ? fn.pair(device, u) : fn.uu(device, &u[0], &u[1]);
        break;
    case FORM_UA:
        status = fn.ua(device, argument, &u[0]);
        break;
    case FORM_Q:
        status = fn.q(device, &q);
        break;
    case FORM_PCI:
        memset(&pci, 0, sizeof(pci));
        status = fn.pci(device, &pci);
        u[0] = pci.ids;
        u[1] = pci.subsystem;
        break;
    default:
        status = fn.s(device, o->text, (unsigned)sizeof(o->text) - 1);
        break;
    }
    o->text[sizeof(o->text) - 1] = '\0';
    r->first = questions[what].form == FORM_Q ? q : u[0];
    r->second = u[1];
    return status;
}

CUresult wrk_do_vgpNvmlGet(struct wrk_call *c, const struct vgp_args_vgpNvmlGet *a,
                           struct vgp_ret_vgpNvmlGet *r, struct vgp_outs_vgpNvmlGet *o)
{
    void *device = host_device(a->ordinal);

    (void)c;
    r->status = NVML_NOT_SUPPORTED;
    if (device && a->what < VGP_NVML_WHATS && questions[a->what].name)
        r->status = ask_host(device, a->what, a->argument, r, o);
    r->text_len = (uint32_t)strlen(o->text) + 1;
    return CUDA_SUCCESS;
}
