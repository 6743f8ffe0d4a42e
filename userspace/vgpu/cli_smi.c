/* SPDX-License-Identifier: MIT */
/*
 * vgpu smi: what people look at nvidia-smi for, through our libnvidia-ml.so.1. Inside of a guest, or
 * with VGPU_SOCKET, it looks at the GPU that is there; else it starts a backend as `vgpu run` does.
 */
#include <dlfcn.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../libnvidia-ml/nvml_abi.h"
#include "cli_config.h"
#include "cli_smi.h"
#include "vgpu_cli.h"

static void help(void)
{
    printf("usage: vgpu smi [OPTIONS]\n"
           "\n"
           "Shows the GPU as nvidia-smi does: name, memory, utilisation, processes of this guest.\n"
           "\n"
           "  -L, --list-gpus         one line a GPU, with its UUID\n"
           "  -q, --query             everything that is known\n"
           "  --query-gpu=FIELDS --format=csv[,noheader][,nounits]\n"
           "                          the named values, comma separated\n"
           "  --help-query-gpu        the names that --query-gpu takes\n"
           "  -i, --id=N              only that GPU: number, UUID or place on the bus\n"
           "  --gpu soft|nvidia|auto  start a backend with this GPU, as `vgpu run` does. Without it\n"
           "                          a GPU of ours that is there (VGPU_SOCKET, /dev/vgpu0) is used,\n"
           "                          and where there is none, --gpu " VGPU_CLI_GPU "\n"
           "  -h, --help              this text\n"
           "\n"
           "What the GPU does not say is N/A. Exit status: 0; 2 wrong use; 6 no such GPU; 9 no driver\n"
           "or backend; 12 no libnvidia-ml.so.1; 255 another error of NVML.\n");
}

/* ---- NVML ---- */

static void *nvml;

/* One type for all of its functions: they are called with what each takes. */
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
typedef nvmlReturn_t (*nvml_fn)();

static nvmlReturn_t nothing()
{
    return NVML_ERROR_FUNCTION_NOT_FOUND;
}

static nvml_fn fn(const char *name)
{
    void *sym = dlsym(nvml, name);
    nvml_fn f = nothing;

    if (sym)
        memcpy(&f, &sym, sizeof(f));
    return f;
}

static int open_nvml(void)
{
    const char *folder = vgpu_cli_path_if_there(VGPU_PART_NVML);
    char *path = folder ? vgpu_cli_format("%s/libnvidia-ml.so.1", folder) : NULL;
    nvmlReturn_t r;

    nvml = dlopen(path ? path : "libnvidia-ml.so.1", RTLD_NOW);
    if (!nvml) {
        printf("vgpu smi: %s\n", dlerror());
        return 12;
    }
    r = fn("nvmlInit_v2")();
    if (r != NVML_SUCCESS) {
        printf("vgpu smi has failed because it could not communicate with the driver (NVML error "
               "%d); `vgpu doctor` says why\n", (int)r);
        return r == NVML_ERROR_DRIVER_NOT_LOADED || r == NVML_ERROR_NO_PERMISSION ? 9 : 255;
    }
    return 0;
}

static void __attribute__((format(printf, 3, 4)))
put(struct smi_gpu *g, enum smi_value which, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    vsnprintf(g->value[which], sizeof(g->value[which]), format, ap);
    va_end(ap);
}

static void take_number(struct smi_gpu *g, nvmlDevice_t d, enum smi_value which, const char *name)
{
    unsigned value = 0;

    if (fn(name)(d, &value) == NVML_SUCCESS)
        put(g, which, "%u", value);
}

static void take_kind(struct smi_gpu *g, nvmlDevice_t d, enum smi_value which, const char *name,
                      unsigned kind)
{
    unsigned value = 0;

    if (fn(name)(d, kind, &value) == NVML_SUCCESS)
        put(g, which, "%u", value);
}

static void take_text(struct smi_gpu *g, nvmlDevice_t d, enum smi_value which, const char *name)
{
    char text[96];

    if (fn(name)(d, text, (unsigned)sizeof(text)) == NVML_SUCCESS)
        put(g, which, "%s", text);
}

static void take_watts(struct smi_gpu *g, nvmlDevice_t d, enum smi_value which, const char *name)
{
    unsigned mw = 0;

    if (fn(name)(d, &mw) == NVML_SUCCESS)
        put(g, which, "%u.%02u", mw / 1000, mw % 1000 / 10);
}

static void take_state(struct smi_gpu *g, nvmlDevice_t d, enum smi_value which, const char *name,
                       const char *off, const char *on)
{
    unsigned value = 0;

    if (fn(name)(d, &value) == NVML_SUCCESS)
        put(g, which, "%s", value ? on : off);
}

static void take_pair(struct smi_gpu *g, nvmlDevice_t d, enum smi_value first, enum smi_value second,
                      const char *name)
{
    unsigned a = 0, b = 0;

    if (fn(name)(d, &a, &b) == NVML_SUCCESS) {
        put(g, first, "%s", a ? "Enabled" : "Disabled");
        put(g, second, "%s", b ? "Enabled" : "Disabled");
    }
}

static void take_memory(struct smi_gpu *g, nvmlDevice_t d)
{
    nvmlMemory_v2_t m = { .version = NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2u) };

    if (fn("nvmlDeviceGetMemoryInfo_v2")(d, &m) != NVML_SUCCESS)
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

    if (fn("nvmlDeviceGetComputeRunningProcesses_v3")(d, &n, list) != NVML_SUCCESS)
        return;
    for (unsigned i = 0; i < n && i < 64; i++) {
        struct smi_process *p = &g->processes[g->nprocesses++];

        p->pid = list[i].pid;
        p->memory_mib = list[i].used + 1 == 0 ? -1 : (long)(list[i].used >> 20);
        if (fn("nvmlSystemGetProcessName")(p->pid, p->name, (unsigned)sizeof(p->name)) !=
            NVML_SUCCESS)
            strcpy(p->name, "?");
        for (char *c = p->name; *c; c++) {
            if ((unsigned char)*c < 0x20 || *c == 0x7f)
                *c = '?'; /* a process names itself as it likes */
        }
    }
}

static void take_all(const struct smi *s, struct smi_gpu *g, nvmlDevice_t d)
{
    static const char *const modes[] = { "Default", "Exclusive_Thread", "Prohibited",
                                         "Exclusive_Process" };
    nvmlUtilization_t u;
    nvmlPciInfo_t pci;
    unsigned value = 0, low = 0, high = 0;
    int major = 0, minor = 0;

    take_number(g, d, SMI_INDEX, "nvmlDeviceGetIndex");
    put(g, SMI_COUNT, "%u", s->count);
    put(g, SMI_DRIVER, "%s", s->driver);
    take_text(g, d, SMI_NAME, "nvmlDeviceGetName");
    take_text(g, d, SMI_UUID, "nvmlDeviceGetUUID");
    take_text(g, d, SMI_SERIAL, "nvmlDeviceGetSerial");
    take_text(g, d, SMI_VBIOS, "nvmlDeviceGetVbiosVersion");
    if (fn("nvmlDeviceGetPciInfo_v3")(d, &pci) == NVML_SUCCESS) {
        put(g, SMI_BUS_ID, "%s", pci.bus_id);
        put(g, SMI_PCI_DOMAIN, "0x%04X", pci.domain);
        put(g, SMI_PCI_BUS, "0x%02X", pci.bus);
        put(g, SMI_PCI_DEVICE, "0x%02X", pci.device);
    }
    if (fn("nvmlDeviceGetPerformanceState")(d, &value) == NVML_SUCCESS)
        put(g, SMI_PSTATE, "P%u", value);
    take_memory(g, d);
    if (fn("nvmlDeviceGetUtilizationRates")(d, &u) == NVML_SUCCESS) {
        put(g, SMI_UTIL_GPU, "%u", u.gpu);
        put(g, SMI_UTIL_MEMORY, "%u", u.memory);
    }
    take_kind(g, d, SMI_TEMPERATURE, "nvmlDeviceGetTemperature", NVML_TEMPERATURE_GPU);
    take_number(g, d, SMI_FAN, "nvmlDeviceGetFanSpeed");
    take_watts(g, d, SMI_POWER_DRAW, "nvmlDeviceGetPowerUsage");
    take_watts(g, d, SMI_POWER_LIMIT, "nvmlDeviceGetPowerManagementLimit");
    take_watts(g, d, SMI_POWER_ENFORCED, "nvmlDeviceGetEnforcedPowerLimit");
    take_watts(g, d, SMI_POWER_DEFAULT, "nvmlDeviceGetPowerManagementDefaultLimit");
    if (fn("nvmlDeviceGetPowerManagementLimitConstraints")(d, &low, &high) == NVML_SUCCESS) {
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
    if (fn("nvmlDeviceGetComputeMode")(d, &value) == NVML_SUCCESS && value < 4)
        put(g, SMI_COMPUTE_MODE, "%s", modes[value]);
    take_state(g, d, SMI_PERSISTENCE, "nvmlDeviceGetPersistenceMode", "Disabled", "Enabled");
    take_pair(g, d, SMI_MIG, SMI_MIG_PENDING, "nvmlDeviceGetMigMode");
    take_pair(g, d, SMI_ECC, SMI_ECC_PENDING, "nvmlDeviceGetEccMode");
    take_number(g, d, SMI_PCIE_GEN, "nvmlDeviceGetCurrPcieLinkGeneration");
    take_number(g, d, SMI_PCIE_GEN_MAX, "nvmlDeviceGetMaxPcieLinkGeneration");
    take_number(g, d, SMI_PCIE_WIDTH, "nvmlDeviceGetCurrPcieLinkWidth");
    take_number(g, d, SMI_PCIE_WIDTH_MAX, "nvmlDeviceGetMaxPcieLinkWidth");
    if (fn("nvmlDeviceGetCudaComputeCapability")(d, &major, &minor) == NVML_SUCCESS)
        put(g, SMI_CC, "%d.%d", major, minor);
    take_state(g, d, SMI_DISPLAY_ACTIVE, "nvmlDeviceGetDisplayActive", "Disabled", "Enabled");
    take_state(g, d, SMI_DISPLAY_MODE, "nvmlDeviceGetDisplayMode", "Disabled", "Enabled");
    take_processes(g, d);
}

static int gather(struct smi *s, const char *only)
{
    unsigned n = 0, kept = 0;
    int r = open_nvml();

    if (r)
        return r;
    fn("nvmlSystemGetDriverVersion")(s->driver, (unsigned)sizeof(s->driver));
    fn("nvmlSystemGetNVMLVersion")(s->nvml, (unsigned)sizeof(s->nvml));
    fn("nvmlSystemGetCudaDriverVersion_v2")(&s->cuda);
    if (fn("nvmlDeviceGetCount_v2")(&n) != NVML_SUCCESS)
        return 255;
    s->gpus = vgpu_cli_alloc((n + 1) * sizeof(*s->gpus));
    s->count = n;
    for (unsigned i = 0; i < n; i++) {
        struct smi_gpu *g = &s->gpus[kept];
        nvmlDevice_t d, wanted;

        if (fn("nvmlDeviceGetHandleByIndex_v2")(i, &d) != NVML_SUCCESS)
            return 255;
        if (only && !(strspn(only, "0123456789") == strlen(only) && (unsigned)atoi(only) == i) &&
            !(fn("nvmlDeviceGetHandleByUUID")(only, &wanted) == NVML_SUCCESS && wanted == d) &&
            !(fn("nvmlDeviceGetHandleByPciBusId_v2")(only, &wanted) == NVML_SUCCESS && wanted == d))
            continue;
        take_all(s, g, d);
        kept++;
    }
    s->count = kept;
    if (only && !s->count) {
        printf("No devices were found: there is no GPU %s\n", only);
        return 6;
    }
    return 0;
}

/* ---- what is printed ---- */

static const char *or_na(const char *text)
{
    return *text ? text : "N/A";
}

static void print_list(const struct smi *s)
{
    for (unsigned i = 0; i < s->count; i++)
        printf("GPU %s: %s (UUID: %s)\n", s->gpus[i].value[SMI_INDEX],
               or_na(s->gpus[i].value[SMI_NAME]), or_na(s->gpus[i].value[SMI_UUID]));
}

static void print_row(const char *left, const char *middle, const char *right)
{
    printf("| %-39.39s | %21.21s | %20.20s |\n", left, middle, right);
}

static void print_gpu_rows(const struct smi_gpu *g)
{
    const char (*v)[96] = g->value;
    char power[32], memory[64], temp[24], util[16], fan[16], left[64], middle[32], right[32];

    snprintf(power, sizeof(power), "%.6s%s / %.6s%s", or_na(v[SMI_POWER_DRAW]),
             *v[SMI_POWER_DRAW] ? "W" : "", or_na(v[SMI_POWER_LIMIT]),
             *v[SMI_POWER_LIMIT] ? "W" : "");
    snprintf(memory, sizeof(memory), "%.9sMiB / %.9sMiB", or_na(v[SMI_MEMORY_USED]),
             or_na(v[SMI_MEMORY_TOTAL]));
    snprintf(temp, sizeof(temp), "%.4s%s", or_na(v[SMI_TEMPERATURE]), *v[SMI_TEMPERATURE] ? "C" : "");
    snprintf(util, sizeof(util), "%.4s%s", or_na(v[SMI_UTIL_GPU]), *v[SMI_UTIL_GPU] ? "%" : "");
    snprintf(fan, sizeof(fan), "%.4s%s", or_na(v[SMI_FAN]), *v[SMI_FAN] ? "%" : "");
    snprintf(left, sizeof(left), "%3.3s  %-23.23s %10.10s", v[SMI_INDEX], v[SMI_NAME],
             or_na(v[SMI_PERSISTENCE]));
    snprintf(middle, sizeof(middle), "%-16.16s %4.4s", or_na(v[SMI_BUS_ID]),
             *v[SMI_DISPLAY_ACTIVE] ? (v[SMI_DISPLAY_ACTIVE][0] == 'E' ? "On" : "Off") : "N/A");
    print_row(left, middle, or_na(v[SMI_ECC]));
    snprintf(left, sizeof(left), "%4.4s %4.4s  %-5.5s %21.21s", fan, temp, or_na(v[SMI_PSTATE]),
             power);
    snprintf(right, sizeof(right), "%6.6s %13.13s", util, or_na(v[SMI_COMPUTE_MODE]));
    print_row(left, memory, right);
    print_row("", "", or_na(v[SMI_MIG]));
}

static void print_table(const struct smi *s)
{
    static const char edge[] = "+-----------------------------------------+-----------------------+-"
                               "---------------------+";
    static const char line[] = "+---------------------------------------------------------------------"
                               "--------------------+";
    char cuda[16];
    time_t now = time(NULL);
    unsigned shown = 0;
    char when[64];

    strftime(when, sizeof(when), "%a %b %e %H:%M:%S %Y", localtime(&now));
    snprintf(cuda, sizeof(cuda), "%d.%d", s->cuda / 1000, s->cuda % 1000 / 10);
    printf("%s\n%s\n", when, line);
    printf("| VGPU-SMI %-22.22s Driver Version: %-14.14s CUDA Version: %-10.10s |\n",
           VGPU_CLI_VERSION, s->driver, cuda);
    printf("%s\n", edge);
    print_row("GPU  Name                 Persistence-M", "Bus-Id         Disp.A", "Volatile Uncorr. ECC");
    print_row("Fan  Temp  Perf           Pwr:Usage/Cap", "Memory-Usage", "GPU-Util  Compute M.");
    print_row("", "", "MIG M.");
    for (unsigned i = 0; i < s->count; i++) {
        printf("%s\n", edge);
        print_gpu_rows(&s->gpus[i]);
    }
    printf("%s\n\n%s\n", edge, line);
    printf("| %-87s |\n", "Processes:");
    printf("| %3s %10s  %s  %-53s %10s  |\n%s\n", "GPU", "PID", "Type", "Process name",
           "GPU Memory", line);
    for (unsigned i = 0; i < s->count; i++) {
        const struct smi_gpu *g = &s->gpus[i];

        for (unsigned k = 0; k < g->nprocesses; k++, shown++) {
            const char *name = g->processes[k].name;
            size_t n = strlen(name);
            char memory[24];

            snprintf(memory, sizeof(memory), "%ldMiB", g->processes[k].memory_mib);
            printf("| %3.3s %10u     C  %s%-*.*s %10s  |\n", g->value[SMI_INDEX], g->processes[k].pid,
                   n > 53 ? "..." : "", n > 53 ? 50 : 53, 53, n > 53 ? name + n - 50 : name,
                   g->processes[k].memory_mib < 0 ? "N/A" : memory);
        }
    }
    if (!shown)
        printf("| %-87s |\n", " No running processes found");
    printf("%s\n", line);
}

/* -q: title (value SMI_VALUES), or a name with its value and unit. */
static const struct row {
    int indent;
    const char *name;
    enum smi_value value;
    const char *unit;
} rows[] = {
    { 1, "Product Name", SMI_NAME, "" },
    { 1, "Display Mode", SMI_DISPLAY_MODE, "" },
    { 1, "Display Active", SMI_DISPLAY_ACTIVE, "" },
    { 1, "Persistence Mode", SMI_PERSISTENCE, "" },
    { 1, "MIG Mode", SMI_VALUES, "" },
    { 2, "Current", SMI_MIG, "" },
    { 2, "Pending", SMI_MIG_PENDING, "" },
    { 1, "Serial Number", SMI_SERIAL, "" },
    { 1, "GPU UUID", SMI_UUID, "" },
    { 1, "VBIOS Version", SMI_VBIOS, "" },
    { 1, "Compute Capability", SMI_CC, "" },
    { 1, "PCI", SMI_VALUES, "" },
    { 2, "Bus", SMI_PCI_BUS, "" },
    { 2, "Device", SMI_PCI_DEVICE, "" },
    { 2, "Domain", SMI_PCI_DOMAIN, "" },
    { 2, "Bus Id", SMI_BUS_ID, "" },
    { 2, "PCIe Generation Current", SMI_PCIE_GEN, "" },
    { 2, "PCIe Generation Max", SMI_PCIE_GEN_MAX, "" },
    { 2, "Link Width Current", SMI_PCIE_WIDTH, "x" },
    { 2, "Link Width Max", SMI_PCIE_WIDTH_MAX, "x" },
    { 1, "Fan Speed", SMI_FAN, " %" },
    { 1, "Performance State", SMI_PSTATE, "" },
    { 1, "FB Memory Usage", SMI_VALUES, "" },
    { 2, "Total", SMI_MEMORY_TOTAL, " MiB" },
    { 2, "Reserved", SMI_MEMORY_RESERVED, " MiB" },
    { 2, "Used", SMI_MEMORY_USED, " MiB" },
    { 2, "Free", SMI_MEMORY_FREE, " MiB" },
    { 1, "Compute Mode", SMI_COMPUTE_MODE, "" },
    { 1, "Utilization", SMI_VALUES, "" },
    { 2, "Gpu", SMI_UTIL_GPU, " %" },
    { 2, "Memory", SMI_UTIL_MEMORY, " %" },
    { 1, "ECC Mode", SMI_VALUES, "" },
    { 2, "Current", SMI_ECC, "" },
    { 2, "Pending", SMI_ECC_PENDING, "" },
    { 1, "Temperature", SMI_VALUES, "" },
    { 2, "GPU Current Temp", SMI_TEMPERATURE, " C" },
    { 1, "Power Readings", SMI_VALUES, "" },
    { 2, "Power Draw", SMI_POWER_DRAW, " W" },
    { 2, "Power Limit", SMI_POWER_LIMIT, " W" },
    { 2, "Default Power Limit", SMI_POWER_DEFAULT, " W" },
    { 2, "Enforced Power Limit", SMI_POWER_ENFORCED, " W" },
    { 2, "Min Power Limit", SMI_POWER_MIN, " W" },
    { 2, "Max Power Limit", SMI_POWER_MAX, " W" },
    { 1, "Clocks", SMI_VALUES, "" },
    { 2, "Graphics", SMI_CLOCK_GR, " MHz" },
    { 2, "SM", SMI_CLOCK_SM, " MHz" },
    { 2, "Memory", SMI_CLOCK_MEM, " MHz" },
    { 2, "Video", SMI_CLOCK_VIDEO, " MHz" },
    { 1, "Max Clocks", SMI_VALUES, "" },
    { 2, "Graphics", SMI_MAX_GR, " MHz" },
    { 2, "SM", SMI_MAX_SM, " MHz" },
    { 2, "Memory", SMI_MAX_MEM, " MHz" },
};

static void print_everything(const struct smi *s)
{
    printf("\n==============VGPU-SMI LOG==============\n\n");
    printf("%-50s: %s\n", "Driver Version", s->driver);
    printf("%-50s: %d.%d\n", "CUDA Version", s->cuda / 1000, s->cuda % 1000 / 10);
    printf("%-50s: %s\n\n", "NVML Version", s->nvml);
    printf("%-50s: %u\n", "Attached GPUs", s->count);
    for (unsigned i = 0; i < s->count; i++) {
        const struct smi_gpu *g = &s->gpus[i];

        printf("GPU %s\n", or_na(g->value[SMI_BUS_ID]));
        for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
            const struct row *r = &rows[k];

            if (r->value == SMI_VALUES)
                printf("%*s%s\n", 4 * r->indent, "", r->name);
            else
                printf("%*s%-*s: %s%s\n", 4 * r->indent, "", 50 - 4 * r->indent, r->name,
                       or_na(g->value[r->value]), *g->value[r->value] ? r->unit : "");
        }
        printf("    %-46s%s\n", "Processes", g->nprocesses ? "" : ": None");
        for (unsigned k = 0; k < g->nprocesses; k++) {
            printf("        %-42s: %u\n", "Process ID", g->processes[k].pid);
            printf("            %-38s: C\n", "Type");
            printf("            %-38s: %s\n", "Name", g->processes[k].name);
            printf("            %-38s: %ld MiB\n", "Used GPU Memory", g->processes[k].memory_mib);
        }
    }
}

/* ---- the command ---- */

/* No GPU of ours is at hand: the same command again, under `vgpu run`. */
static int again_under_run(const char *gpu, int argc, char **argv)
{
    static char self[PATH_MAX];
    struct vgpu_cli_list list = { 0 };
    struct vgpu_cli_spawn spawn = { .keep_fd = { -1, -1 }, .foreground = true };
    int signals;
    pid_t pid;

    if (readlink("/proc/self/exe", self, sizeof(self) - 1) <= 0)
        vgpu_cli_die("cannot find out where the vgpu binary is: is /proc mounted?");
    vgpu_cli_way(&list, gpu, false, NULL);
    vgpu_cli_add(&list, "%s", self);
    vgpu_cli_add(&list, "smi");
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--gpu=", 6) == 0)
            continue;
        if (strcmp(argv[i], "--gpu") == 0)
            i++;
        else
            vgpu_cli_add(&list, "%s", argv[i]);
    }
    signals = vgpu_cli_signals();
    spawn.argv = list.items;
    pid = vgpu_cli_spawn(&spawn);
    if (pid < 0)
        vgpu_cli_die("cannot run %s again", self);
    vgpu_cli_exit_as(vgpu_cli_wait(pid, signals));
}

enum { OPT_QUERY_GPU = 1000, OPT_FORMAT, OPT_HELP_QUERY, OPT_GPU };
static const struct option options[] = {
    { "list-gpus", no_argument, NULL, 'L' },
    { "query", no_argument, NULL, 'q' },
    { "query-gpu", required_argument, NULL, OPT_QUERY_GPU },
    { "format", required_argument, NULL, OPT_FORMAT },
    { "help-query-gpu", no_argument, NULL, OPT_HELP_QUERY },
    { "id", required_argument, NULL, 'i' },
    { "gpu", required_argument, NULL, OPT_GPU },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

int vgpu_cli_smi(int argc, char **argv)
{
    const char *fields = NULL, *format = NULL, *only = NULL, *gpu = NULL;
    char **given = vgpu_cli_alloc(((size_t)argc + 1) * sizeof(*given));
    bool list = false, query = false;
    struct smi s = { .count = 0 };
    int option, r;

    memcpy(given, argv, (size_t)argc * sizeof(*given)); /* getopt_long() reorders argv */
    while ((option = getopt_long(argc, argv, "Lqi:h", options, NULL)) != -1) {
        switch (option) {
        case 'L':
            list = true;
            break;
        case 'q':
            query = true;
            break;
        case 'i':
            only = optarg;
            break;
        case OPT_QUERY_GPU:
            fields = optarg;
            break;
        case OPT_FORMAT:
            format = optarg;
            break;
        case OPT_HELP_QUERY:
            smi_query_help();
            return 0;
        case OPT_GPU:
            vgpu_cli_check_gpu(optarg, false);
            gpu = optarg;
            break;
        case 'h':
            help();
            return 0;
        default:
            printf("see `vgpu smi --help`\n");
            return 2;
        }
    }
    if (optind != argc) {
        printf("'%s' is not understood; see `vgpu smi --help`\n", argv[optind]);
        return 2;
    }
    if (gpu || !vgpu_cli_gpu_is_here())
        return again_under_run(gpu, argc, given);
    r = gather(&s, only);
    if (r)
        return r;
    if (fields)
        r = smi_query(&s, fields, format);
    else if (list)
        print_list(&s);
    else if (query)
        print_everything(&s);
    else
        print_table(&s);
    fn("nvmlShutdown")();
    return r;
}
