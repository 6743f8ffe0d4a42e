/* SPDX-License-Identifier: MIT */
/*
 * vgpu smi --query-gpu=... and --query-compute-apps=...: names, units and CSV form of nvidia-smi.
 * Names with SMI_VALUES are known to nvidia-smi and not supported here: scripts get [N/A], not an
 * error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "smi/smi.h"
#include "base/vgpu_cli.h"

struct field {
    const char *name, *unit;
    enum smi_value value;
    const char *help;
};

static const struct field gpu_fields[] = {
    {"index", NULL, SMI_INDEX, "number of the GPU, from 0"},
    {"count", NULL, SMI_COUNT, "number of GPUs"},
    {"name", NULL, SMI_NAME, "name that the GPU gives itself"},
    {"gpu_name", NULL, SMI_NAME, "the same"},
    {"uuid", NULL, SMI_UUID, "as cuDeviceGetUuid says"},
    {"gpu_uuid", NULL, SMI_UUID, "the same"},
    {"serial", NULL, SMI_SERIAL, "of the board"},
    {"driver_version", NULL, SMI_DRIVER, "of the host's driver"},
    {"vbios_version", NULL, SMI_VBIOS, ""},
    {"pci.bus_id", NULL, SMI_BUS_ID, "domain:bus:device.function, of the host"},
    {"gpu_bus_id", NULL, SMI_BUS_ID, "the same"},
    {"pci.domain", NULL, SMI_PCI_DOMAIN, ""},
    {"pci.bus", NULL, SMI_PCI_BUS, ""},
    {"pci.device", NULL, SMI_PCI_DEVICE, ""},
    {"pstate", NULL, SMI_PSTATE, "performance state, P0 is the highest"},
    {"compute_cap", NULL, SMI_CC, "compute capability"},
    {"compute_mode", NULL, SMI_COMPUTE_MODE, ""},
    {"memory.total", "MiB", SMI_MEMORY_TOTAL, ""},
    {"memory.reserved", "MiB", SMI_MEMORY_RESERVED, "by the driver"},
    {"memory.used", "MiB", SMI_MEMORY_USED, ""},
    {"memory.free", "MiB", SMI_MEMORY_FREE, ""},
    {"utilization.gpu", "%", SMI_UTIL_GPU, "share of the last sample period with work"},
    {"utilization.memory", "%", SMI_UTIL_MEMORY, ""},
    {"temperature.gpu", NULL, SMI_TEMPERATURE, "degrees C"},
    {"fan.speed", "%", SMI_FAN, ""},
    {"power.draw", "W", SMI_POWER_DRAW, ""},
    {"power.limit", "W", SMI_POWER_LIMIT, ""},
    {"enforced.power.limit", "W", SMI_POWER_ENFORCED, ""},
    {"power.default_limit", "W", SMI_POWER_DEFAULT, ""},
    {"power.min_limit", "W", SMI_POWER_MIN, ""},
    {"power.max_limit", "W", SMI_POWER_MAX, ""},
    {"clocks.gr", "MHz", SMI_CLOCK_GR, ""},
    {"clocks.current.graphics", "MHz", SMI_CLOCK_GR, ""},
    {"clocks.sm", "MHz", SMI_CLOCK_SM, ""},
    {"clocks.current.sm", "MHz", SMI_CLOCK_SM, ""},
    {"clocks.mem", "MHz", SMI_CLOCK_MEM, ""},
    {"clocks.current.memory", "MHz", SMI_CLOCK_MEM, ""},
    {"clocks.video", "MHz", SMI_CLOCK_VIDEO, ""},
    {"clocks.max.gr", "MHz", SMI_MAX_GR, ""},
    {"clocks.max.sm", "MHz", SMI_MAX_SM, ""},
    {"clocks.max.mem", "MHz", SMI_MAX_MEM, ""},
    {"persistence_mode", NULL, SMI_PERSISTENCE, ""},
    {"mig.mode.current", NULL, SMI_MIG, ""},
    {"mig.mode.pending", NULL, SMI_MIG_PENDING, ""},
    {"ecc.mode.current", NULL, SMI_ECC, ""},
    {"ecc.mode.pending", NULL, SMI_ECC_PENDING, ""},
    {"pcie.link.gen.current", NULL, SMI_PCIE_GEN, ""},
    {"pcie.link.gen.max", NULL, SMI_PCIE_GEN_MAX, ""},
    {"pcie.link.width.current", NULL, SMI_PCIE_WIDTH, ""},
    {"pcie.link.width.max", NULL, SMI_PCIE_WIDTH_MAX, ""},
    {"display_active", NULL, SMI_DISPLAY_ACTIVE, ""},
    {"display_mode", NULL, SMI_DISPLAY_MODE, ""},
    {"display_attached", NULL, SMI_DISPLAY_MODE, ""},
    {"timestamp", NULL, SMI_TIMESTAMP, "when it was asked"},
    {"pci.device_id", NULL, SMI_PCI_ID, ""},
    {"pci.sub_device_id", NULL, SMI_PCI_SUB_ID, ""},
    {"gpu_serial", NULL, SMI_SERIAL, "of the board"},
    {"clocks.current.video", "MHz", SMI_CLOCK_VIDEO, ""},
    {"clocks.max.graphics", "MHz", SMI_MAX_GR, ""},
    {"clocks.max.memory", "MHz", SMI_MAX_MEM, ""},
    {"clocks_event_reasons.active", NULL, SMI_CLOCK_REASONS, ""},
    {"clocks_throttle_reasons.active", NULL, SMI_CLOCK_REASONS, "the same"},
    {"pcie.link.gen.gpumax", NULL, SMI_PCIE_GEN_MAX, ""},
    {"accounting.mode", NULL, SMI_VALUES, ""},
    {"accounting.buffer_size", NULL, SMI_VALUES, ""},
    {"addressing_mode", NULL, SMI_VALUES, ""},
    {"driver_model.current", NULL, SMI_VALUES, ""},
    {"driver_model.pending", NULL, SMI_VALUES, ""},
    {"inforom.img", NULL, SMI_VALUES, ""},
    {"inforom.oem", NULL, SMI_VALUES, ""},
    {"inforom.ecc", NULL, SMI_VALUES, ""},
    {"inforom.pwr", NULL, SMI_VALUES, ""},
    {"gom.current", NULL, SMI_VALUES, ""},
    {"gom.pending", NULL, SMI_VALUES, ""},
    {"utilization.encoder", "%", SMI_VALUES, ""},
    {"utilization.decoder", "%", SMI_VALUES, ""},
    {"utilization.jpeg", "%", SMI_VALUES, ""},
    {"utilization.ofa", "%", SMI_VALUES, ""},
    {"encoder.stats.sessionCount", NULL, SMI_VALUES, ""},
    {"encoder.stats.averageFps", NULL, SMI_VALUES, ""},
    {"encoder.stats.averageLatency", NULL, SMI_VALUES, ""},
    {"temperature.memory", NULL, SMI_VALUES, ""},
    {"temperature.gpu.tlimit", NULL, SMI_VALUES, ""},
    {"power.management", NULL, SMI_VALUES, ""},
    {"power.draw.average", "W", SMI_VALUES, ""},
    {"power.draw.instant", "W", SMI_VALUES, ""},
    {"module.power.draw.average", "W", SMI_VALUES, ""},
    {"module.power.draw.instant", "W", SMI_VALUES, ""},
    {"clocks.applications.graphics", "MHz", SMI_VALUES, ""},
    {"clocks.applications.gr", "MHz", SMI_VALUES, ""},
    {"clocks.applications.memory", "MHz", SMI_VALUES, ""},
    {"clocks.applications.mem", "MHz", SMI_VALUES, ""},
    {"clocks.default_applications.graphics", "MHz", SMI_VALUES, ""},
    {"clocks.default_applications.memory", "MHz", SMI_VALUES, ""},
    {"retired_pages.single_bit_ecc.count", NULL, SMI_VALUES, ""},
    {"retired_pages.double_bit.count", NULL, SMI_VALUES, ""},
    {"retired_pages.pending", NULL, SMI_VALUES, ""},
    {"remapped_rows.correctable", NULL, SMI_VALUES, ""},
    {"remapped_rows.uncorrectable", NULL, SMI_VALUES, ""},
    {"remapped_rows.pending", NULL, SMI_VALUES, ""},
    {"remapped_rows.failure", NULL, SMI_VALUES, ""},
    {"ecc.errors.corrected.volatile.total", NULL, SMI_VALUES, ""},
    {"ecc.errors.corrected.volatile.device_memory", NULL, SMI_VALUES, ""},
    {"ecc.errors.corrected.aggregate.total", NULL, SMI_VALUES, ""},
    {"ecc.errors.uncorrected.volatile.total", NULL, SMI_VALUES, ""},
    {"ecc.errors.uncorrected.volatile.device_memory", NULL, SMI_VALUES, ""},
    {"ecc.errors.uncorrected.aggregate.total", NULL, SMI_VALUES, ""},
    {"gsp.mode.current", NULL, SMI_VALUES, ""},
    {"gsp.mode.default", NULL, SMI_VALUES, ""},
    {"fabric.state", NULL, SMI_VALUES, ""},
    {"fabric.status", NULL, SMI_VALUES, ""},
};

static const struct field app_fields[] = {
    {"timestamp", NULL, SMI_TIMESTAMP, ""},
    {"gpu_name", NULL, SMI_NAME, ""},
    {"gpu_bus_id", NULL, SMI_BUS_ID, ""},
    {"gpu_serial", NULL, SMI_SERIAL, ""},
    {"gpu_uuid", NULL, SMI_UUID, ""},
    {"pid", NULL, SMI_APP_PID, "of this guest"},
    {"process_name", NULL, SMI_APP_NAME, ""},
    {"name", NULL, SMI_APP_NAME, "the same"},
    {"used_gpu_memory", "MiB", SMI_APP_MEMORY, ""},
    {"used_memory", "MiB", SMI_APP_MEMORY, "the same"},
};
#define QUERY_MAX 128

static const struct field *table_of(bool apps, size_t *n)
{
    *n = apps ? sizeof(app_fields) / sizeof(app_fields[0]) : sizeof(gpu_fields) / sizeof(gpu_fields[0]);
    return apps ? app_fields : gpu_fields;
}

void smi_query_help(bool apps)
{
    size_t n;
    const struct field *list = table_of(apps, &n);

    printf("Names for --query-%s, as nvidia-smi has them; [N/A] is what the GPU does not say:\n\n",
           apps ? "compute-apps" : "gpu");
    for (size_t i = 0; i < n; i++)
        printf("  %-40s %s%s%s%s\n", list[i].name,
               list[i].value == SMI_VALUES ? "not served: always [N/A]" : list[i].help,
               list[i].unit ? " [" : "", list[i].unit ? list[i].unit : "", list[i].unit ? "]" : "");
}

static const struct field *find_field(const char *name, bool apps)
{
    size_t n;
    const struct field *list = table_of(apps, &n);

    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i].name, name) == 0)
            return &list[i];
    }
    return NULL;
}

static bool parse_format(const char *format, bool *header, bool *units)
{
    char *text = vgpu_cli_format("%s", format ? format : ""), *save = NULL;
    bool csv = false, ok = true;

    *header = *units = true;
    for (char *word = strtok_r(text, ", ", &save); word; word = strtok_r(NULL, ", ", &save)) {
        if (strcmp(word, "csv") == 0)
            csv = true;
        else if (strcmp(word, "noheader") == 0)
            *header = false;
        else if (strcmp(word, "nounits") == 0)
            *units = false;
        else
            ok = false;
    }
    free(text);
    return ok && csv;
}

/* Prints a line; p: the process for --query-compute-apps, or NULL. */
static void print_line(const struct smi_gpu *g, const struct smi_process *p, const struct field *const *list,
                       size_t n, bool units)
{
    for (size_t i = 0; i < n; i++) {
        const char *value = "";
        char number[32];

        switch (list[i]->value) {
        case SMI_APP_PID:
            snprintf(number, sizeof(number), "%u", p->pid);
            value = number;
            break;
        case SMI_APP_NAME:
            value = p->name;
            break;
        case SMI_APP_MEMORY:
            snprintf(number, sizeof(number), "%ld", p->memory_mib);
            value = p->memory_mib < 0 ? "" : number;
            break;
        case SMI_VALUES:
            break;
        default:
            value = g->value[list[i]->value];
            break;
        }
        printf("%s%s%s%s", i ? ", " : "", *value ? value : "[N/A]",
               units && list[i]->unit && *value ? " " : "",
               units && list[i]->unit && *value ? list[i]->unit : "");
    }
    printf("\n");
}

bool smi_format_ok(const char *format)
{
    bool header, units;

    return parse_format(format, &header, &units);
}

int smi_query(const struct smi *s, const char *fields, const char *format, bool apps, bool first)
{
    const struct field *list[QUERY_MAX];
    char *text = vgpu_cli_format("%s", fields), *save = NULL;
    bool header, units;
    size_t n = 0;

    if (!parse_format(format, &header, &units)) {
        vgpu_cli_say("\"--format=\" switch is missing or wrong: csv[,noheader][,nounits]");
        return VGPU_CLI_USAGE;
    }
    for (char *word = strtok_r(text, ", ", &save); word; word = strtok_r(NULL, ", ", &save)) {
        const struct field *f = find_field(word, apps);

        if (!f || n == QUERY_MAX) {
            vgpu_cli_say("Field \"%s\" is not a valid field to query; see `vgpu smi --help-query-%s`", word,
                         apps ? "compute-apps" : "gpu");
            return VGPU_CLI_USAGE;
        }
        list[n++] = f;
    }
    free(text);
    if (!n) {
        vgpu_cli_say("No field to query; see `vgpu smi --help-query-%s`", apps ? "compute-apps" : "gpu");
        return VGPU_CLI_USAGE;
    }
    for (size_t i = 0; first && header && i < n; i++)
        printf("%s%s%s%s%s", i ? ", " : "", list[i]->name, list[i]->unit ? " [" : "",
               list[i]->unit ? list[i]->unit : "", list[i]->unit ? "]" : ""); /* nounits too */
    if (first && header)
        printf("\n");
    for (unsigned g = 0; g < s->count; g++) {
        if (!apps)
            print_line(&s->gpus[g], NULL, list, n, units);
        for (unsigned k = 0; apps && k < s->gpus[g].nprocesses; k++)
            print_line(&s->gpus[g], &s->gpus[g].processes[k], list, n, units);
    }
    return 0;
}
