/* SPDX-License-Identifier: MIT */
/* vgpu smi: NVML's values for each GPU, as text. */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../libnvidia-ml/nvml_abi.h"
#include "smi/smi.h"
#include "base/vgpu_cli.h"

static void *nvml;

/* A common type for all of NVML's functions, which are called with their own arguments. */
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
typedef nvmlReturn_t (*nvml_fn)();

static nvmlReturn_t function_missing()
{
    return NVML_ERROR_FUNCTION_NOT_FOUND;
}

static nvml_fn nvml_function(const char *name)
{
    void *sym = dlsym(nvml, name);
    nvml_fn f = function_missing;

    if (sym)
        memcpy(&f, &sym, sizeof(f));
    return f;
}

int smi_open(void)
{
    const char *folder = vgpu_cli_path_if_there(VGPU_PART_NVML);
    char *path = folder ? vgpu_cli_format("%s/libnvidia-ml.so.1", folder) : NULL;
    nvmlReturn_t r;

    nvml = dlopen(path ? path : "libnvidia-ml.so.1", RTLD_NOW);
    if (!nvml) {
        vgpu_cli_say("smi: %s", dlerror());
        return 12;
    }
    r = nvml_function("nvmlInit_v2")();
    if (r != NVML_SUCCESS) {
        vgpu_cli_say("smi has failed because it could not communicate with the driver (NVML error "
                     "%d); `vgpu doctor` says why",
                     (int)r);
        return r == NVML_ERROR_DRIVER_NOT_LOADED || r == NVML_ERROR_NO_PERMISSION ? 9 : 255;
    }
    return 0;
}

/* Process names are chosen by the process, and NVML's values for a GPU come from a worker: makes
 * them a single line without terminal control characters. */
static void make_harmless(char *text)
{
    for (char *c = text; *c; c++) {
        if ((unsigned char)*c < 0x20)
            *c = '?';
    }
    vgpu_cli_harmless(text);
}

static void __attribute__((format(printf, 3, 4)))
put(struct smi_gpu *g, enum smi_value which, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    vsnprintf(g->value[which], sizeof(g->value[which]), format, ap);
    va_end(ap);
    make_harmless(g->value[which]);
}

static void take_number(struct smi_gpu *g, nvmlDevice_t d, enum smi_value which, const char *name)
{
    unsigned value = 0;

    if (nvml_function(name)(d, &value) == NVML_SUCCESS)
        put(g, which, "%u", value);
}

static void take_kind(struct smi_gpu *g, nvmlDevice_t d, enum smi_value which, const char *name,
                      unsigned kind)
{
    unsigned value = 0;

    if (nvml_function(name)(d, kind, &value) == NVML_SUCCESS)
        put(g, which, "%u", value);
}

static void take_text(struct smi_gpu *g, nvmlDevice_t d, enum smi_value which, const char *name)
{
    char text[96];

    if (nvml_function(name)(d, text, (unsigned)sizeof(text)) == NVML_SUCCESS)
        put(g, which, "%s", text);
}

static void take_watts(struct smi_gpu *g, nvmlDevice_t d, enum smi_value which, const char *name)
{
    unsigned mw = 0;

    if (nvml_function(name)(d, &mw) == NVML_SUCCESS)
        put(g, which, "%u.%02u", mw / 1000, mw % 1000 / 10);
}

static void take_state(struct smi_gpu *g, nvmlDevice_t d, enum smi_value which, const char *name,
                       const char *off, const char *on)
{
    unsigned value = 0;

    if (nvml_function(name)(d, &value) == NVML_SUCCESS)
        put(g, which, "%s", value ? on : off);
}

static void take_pair(struct smi_gpu *g, nvmlDevice_t d, enum smi_value first, enum smi_value second,
                      const char *name)
{
    unsigned a = 0, b = 0;

    if (nvml_function(name)(d, &a, &b) == NVML_SUCCESS) {
        put(g, first, "%s", a ? "Enabled" : "Disabled");
        put(g, second, "%s", b ? "Enabled" : "Disabled");
    }
}

static void take_memory(struct smi_gpu *g, nvmlDevice_t d)
{
    nvmlMemory_v2_t m = {.version = NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2u)};

    if (nvml_function("nvmlDeviceGetMemoryInfo_v2")(d, &m) != NVML_SUCCESS)
        return;
    put(g, SMI_MEMORY_TOTAL, "%llu", m.total >> 20);
    put(g, SMI_MEMORY_RESERVED, "%llu", m.reserved >> 20);
    put(g, SMI_MEMORY_USED, "%llu", m.used >> 20);
    put(g, SMI_MEMORY_FREE, "%llu", m.free >> 20);
}

static void take_processes(struct smi_gpu *g, nvmlDevice_t d)
{
    nvmlProcessInfo_v2_t list[64];
    unsigned n = 64;

    if (nvml_function("nvmlDeviceGetComputeRunningProcesses_v3")(d, &n, list) != NVML_SUCCESS)
        return;
    for (unsigned i = 0; i < n && i < 64; i++) {
        struct smi_process *p = &g->processes[g->nprocesses++];

        p->pid = list[i].pid;
        p->memory_mib = list[i].used + 1 == 0 ? -1 : (long)(list[i].used >> 20);
        if (nvml_function("nvmlSystemGetProcessName")(p->pid, p->name, (unsigned)sizeof(p->name)) !=
            NVML_SUCCESS)
            strcpy(p->name, "?");
        make_harmless(p->name);
    }
}

static void take_all(const struct smi *s, struct smi_gpu *g, nvmlDevice_t d)
{
    static const char *const modes[] = {"Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process"};
    nvmlUtilization_t u;
    nvmlPciInfo_t pci;
    unsigned value = 0, low = 0, high = 0;
    unsigned long long reasons = 0;
    int major = 0, minor = 0;

    take_number(g, d, SMI_INDEX, "nvmlDeviceGetIndex");
    put(g, SMI_TIMESTAMP, "%s", s->when);
    put(g, SMI_COUNT, "%u", s->count);
    put(g, SMI_DRIVER, "%s", s->driver);
    take_text(g, d, SMI_NAME, "nvmlDeviceGetName");
    take_text(g, d, SMI_UUID, "nvmlDeviceGetUUID");
    take_text(g, d, SMI_SERIAL, "nvmlDeviceGetSerial");
    take_text(g, d, SMI_VBIOS, "nvmlDeviceGetVbiosVersion");
    if (nvml_function("nvmlDeviceGetPciInfo_v3")(d, &pci) == NVML_SUCCESS) {
        put(g, SMI_BUS_ID, "%s", pci.bus_id);
        put(g, SMI_PCI_DOMAIN, "0x%04X", pci.domain);
        put(g, SMI_PCI_BUS, "0x%02X", pci.bus);
        put(g, SMI_PCI_DEVICE, "0x%02X", pci.device);
        if (pci.ids) /* 0: the software GPU has no PCI ids */
            put(g, SMI_PCI_ID, "0x%08X", pci.ids);
        if (pci.subsystem)
            put(g, SMI_PCI_SUB_ID, "0x%08X", pci.subsystem);
    }
    if (nvml_function("nvmlDeviceGetPerformanceState")(d, &value) == NVML_SUCCESS)
        put(g, SMI_PSTATE, "P%u", value);
    take_memory(g, d);
    if (nvml_function("nvmlDeviceGetUtilizationRates")(d, &u) == NVML_SUCCESS) {
        put(g, SMI_UTIL_GPU, "%u", u.gpu);
        put(g, SMI_UTIL_MEMORY, "%u", u.memory);
    }
    take_kind(g, d, SMI_TEMPERATURE, "nvmlDeviceGetTemperature", NVML_TEMPERATURE_GPU);
    take_number(g, d, SMI_FAN, "nvmlDeviceGetFanSpeed");
    take_watts(g, d, SMI_POWER_DRAW, "nvmlDeviceGetPowerUsage");
    take_watts(g, d, SMI_POWER_LIMIT, "nvmlDeviceGetPowerManagementLimit");
    take_watts(g, d, SMI_POWER_ENFORCED, "nvmlDeviceGetEnforcedPowerLimit");
    take_watts(g, d, SMI_POWER_DEFAULT, "nvmlDeviceGetPowerManagementDefaultLimit");
    if (nvml_function("nvmlDeviceGetPowerManagementLimitConstraints")(d, &low, &high) == NVML_SUCCESS) {
        put(g, SMI_POWER_MIN, "%u.%02u", low / 1000, low % 1000 / 10);
        put(g, SMI_POWER_MAX, "%u.%02u", high / 1000, high % 1000 / 10);
    }
    take_kind(g, d, SMI_CLOCK_GR, "nvmlDeviceGetClockInfo", NVML_CLOCK_GRAPHICS);
    take_kind(g, d, SMI_CLOCK_SM, "nvmlDeviceGetClockInfo", NVML_CLOCK_SM);
    take_kind(g, d, SMI_CLOCK_MEM, "nvmlDeviceGetClockInfo", NVML_CLOCK_MEM);
    take_kind(g, d, SMI_CLOCK_VIDEO, "nvmlDeviceGetClockInfo", NVML_CLOCK_VIDEO);
    take_kind(g, d, SMI_MAX_GR, "nvmlDeviceGetMaxClockInfo", NVML_CLOCK_GRAPHICS);
    take_kind(g, d, SMI_MAX_SM, "nvmlDeviceGetMaxClockInfo", NVML_CLOCK_SM);
    take_kind(g, d, SMI_MAX_MEM, "nvmlDeviceGetMaxClockInfo", NVML_CLOCK_MEM);
    if (nvml_function("nvmlDeviceGetComputeMode")(d, &value) == NVML_SUCCESS && value < 4)
        put(g, SMI_COMPUTE_MODE, "%s", modes[value]);
    take_state(g, d, SMI_PERSISTENCE, "nvmlDeviceGetPersistenceMode", "Disabled", "Enabled");
    take_pair(g, d, SMI_MIG, SMI_MIG_PENDING, "nvmlDeviceGetMigMode");
    take_pair(g, d, SMI_ECC, SMI_ECC_PENDING, "nvmlDeviceGetEccMode");
    take_number(g, d, SMI_PCIE_GEN, "nvmlDeviceGetCurrPcieLinkGeneration");
    take_number(g, d, SMI_PCIE_GEN_MAX, "nvmlDeviceGetMaxPcieLinkGeneration");
    take_number(g, d, SMI_PCIE_WIDTH, "nvmlDeviceGetCurrPcieLinkWidth");
    take_number(g, d, SMI_PCIE_WIDTH_MAX, "nvmlDeviceGetMaxPcieLinkWidth");
    if (nvml_function("nvmlDeviceGetCudaComputeCapability")(d, &major, &minor) == NVML_SUCCESS)
        put(g, SMI_CC, "%d.%d", major, minor);
    if (nvml_function("nvmlDeviceGetCurrentClocksEventReasons")(d, &reasons) == NVML_SUCCESS)
        put(g, SMI_CLOCK_REASONS, "0x%016llX", reasons);
    take_state(g, d, SMI_DISPLAY_ACTIVE, "nvmlDeviceGetDisplayActive", "Disabled", "Enabled");
    take_state(g, d, SMI_DISPLAY_MODE, "nvmlDeviceGetDisplayMode", "Disabled", "Enabled");
    take_processes(g, d);
}

static void take_time(struct smi *s)
{
    struct timespec now;
    size_t n;

    clock_gettime(CLOCK_REALTIME, &now);
    n = strftime(s->when, sizeof(s->when), "%Y/%m/%d %H:%M:%S", localtime(&now.tv_sec));
    snprintf(s->when + n, sizeof(s->when) - n, ".%03d", (int)(now.tv_nsec / 1000000));
}

/* True if the comma-separated list of numbers, UUIDs and PCI addresses contains the GPU. */
static bool is_listed(const char *list, unsigned index, nvmlDevice_t d)
{
    char *text = vgpu_cli_format("%s", list), *save = NULL;
    nvmlDevice_t wanted;
    bool found = false;

    for (char *word = strtok_r(text, ", ", &save); word && !found; word = strtok_r(NULL, ", ", &save))
        found =
            (strspn(word, "0123456789") == strlen(word) && (unsigned)atoi(word) == index) ||
            (nvml_function("nvmlDeviceGetHandleByUUID")(word, &wanted) == NVML_SUCCESS && wanted == d) ||
            (nvml_function("nvmlDeviceGetHandleByPciBusId_v2")(word, &wanted) == NVML_SUCCESS && wanted == d);
    free(text);
    return found;
}

int smi_gather(struct smi *s, const char *only)
{
    unsigned n = 0, kept = 0;

    memset(s, 0, sizeof(*s));
    take_time(s);
    nvml_function("nvmlSystemGetDriverVersion")(s->driver, (unsigned)sizeof(s->driver));
    nvml_function("nvmlSystemGetNVMLVersion")(s->nvml, (unsigned)sizeof(s->nvml));
    nvml_function("nvmlSystemGetCudaDriverVersion_v2")(&s->cuda);
    make_harmless(s->driver);
    make_harmless(s->nvml);
    if (nvml_function("nvmlDeviceGetCount_v2")(&n) != NVML_SUCCESS)
        return 255;
    s->gpus = vgpu_cli_alloc((n + 1) * sizeof(*s->gpus)); /* zeroed */
    s->count = n;
    for (unsigned i = 0; i < n; i++) {
        struct smi_gpu *g = &s->gpus[kept];
        nvmlDevice_t d;

        if (nvml_function("nvmlDeviceGetHandleByIndex_v2")(i, &d) != NVML_SUCCESS)
            return 255;
        if (only && !is_listed(only, i, d))
            continue;
        take_all(s, g, d);
        kept++;
    }
    s->count = kept;
    if (only && !s->count) {
        vgpu_cli_say("No devices were found: there is no GPU %s", only);
        return 6;
    }
    return 0;
}

void smi_free(struct smi *s)
{
    free(s->gpus);
    memset(s, 0, sizeof(*s));
}

void smi_close(void)
{
    nvml_function("nvmlShutdown")();
}
