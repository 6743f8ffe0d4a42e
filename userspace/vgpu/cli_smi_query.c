/* SPDX-License-Identifier: MIT */
/* vgpu smi --query-gpu=...: names, units and CSV form of nvidia-smi. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_smi.h"
#include "vgpu_cli.h"

static const struct field {
    const char *name, *unit;
    enum smi_value value;
    const char *help;
} fields_known[] = {
    { "index", NULL, SMI_INDEX, "number of the GPU, from 0" },
    { "count", NULL, SMI_COUNT, "number of GPUs" },
    { "name", NULL, SMI_NAME, "name that the GPU gives itself" },
    { "gpu_name", NULL, SMI_NAME, "the same" },
    { "uuid", NULL, SMI_UUID, "as cuDeviceGetUuid says" },
    { "gpu_uuid", NULL, SMI_UUID, "the same" },
    { "serial", NULL, SMI_SERIAL, "of the board" },
    { "driver_version", NULL, SMI_DRIVER, "of the host's driver; see the README of libnvidia-ml" },
    { "vbios_version", NULL, SMI_VBIOS, "" },
    { "pci.bus_id", NULL, SMI_BUS_ID, "domain:bus:device.function, of the host" },
    { "gpu_bus_id", NULL, SMI_BUS_ID, "the same" },
    { "pci.domain", NULL, SMI_PCI_DOMAIN, "" },
    { "pci.bus", NULL, SMI_PCI_BUS, "" },
    { "pci.device", NULL, SMI_PCI_DEVICE, "" },
    { "pstate", NULL, SMI_PSTATE, "performance state, P0 is the highest" },
    { "compute_cap", NULL, SMI_CC, "compute capability" },
    { "compute_mode", NULL, SMI_COMPUTE_MODE, "" },
    { "memory.total", "MiB", SMI_MEMORY_TOTAL, "" },
    { "memory.reserved", "MiB", SMI_MEMORY_RESERVED, "by the driver" },
    { "memory.used", "MiB", SMI_MEMORY_USED, "" },
    { "memory.free", "MiB", SMI_MEMORY_FREE, "" },
    { "utilization.gpu", "%", SMI_UTIL_GPU, "share of the last sample period with work" },
    { "utilization.memory", "%", SMI_UTIL_MEMORY, "" },
    { "temperature.gpu", NULL, SMI_TEMPERATURE, "degrees C" },
    { "fan.speed", "%", SMI_FAN, "" },
    { "power.draw", "W", SMI_POWER_DRAW, "" },
    { "power.limit", "W", SMI_POWER_LIMIT, "" },
    { "enforced.power.limit", "W", SMI_POWER_ENFORCED, "" },
    { "power.default_limit", "W", SMI_POWER_DEFAULT, "" },
    { "power.min_limit", "W", SMI_POWER_MIN, "" },
    { "power.max_limit", "W", SMI_POWER_MAX, "" },
    { "clocks.gr", "MHz", SMI_CLOCK_GR, "" },
    { "clocks.current.graphics", "MHz", SMI_CLOCK_GR, "" },
    { "clocks.sm", "MHz", SMI_CLOCK_SM, "" },
    { "clocks.current.sm", "MHz", SMI_CLOCK_SM, "" },
    { "clocks.mem", "MHz", SMI_CLOCK_MEM, "" },
    { "clocks.current.memory", "MHz", SMI_CLOCK_MEM, "" },
    { "clocks.video", "MHz", SMI_CLOCK_VIDEO, "" },
    { "clocks.max.gr", "MHz", SMI_MAX_GR, "" },
    { "clocks.max.sm", "MHz", SMI_MAX_SM, "" },
    { "clocks.max.mem", "MHz", SMI_MAX_MEM, "" },
    { "persistence_mode", NULL, SMI_PERSISTENCE, "" },
    { "mig.mode.current", NULL, SMI_MIG, "" },
    { "mig.mode.pending", NULL, SMI_MIG_PENDING, "" },
    { "ecc.mode.current", NULL, SMI_ECC, "" },
    { "ecc.mode.pending", NULL, SMI_ECC_PENDING, "" },
    { "pcie.link.gen.current", NULL, SMI_PCIE_GEN, "" },
    { "pcie.link.gen.max", NULL, SMI_PCIE_GEN_MAX, "" },
    { "pcie.link.width.current", NULL, SMI_PCIE_WIDTH, "" },
    { "pcie.link.width.max", NULL, SMI_PCIE_WIDTH_MAX, "" },
    { "display_active", NULL, SMI_DISPLAY_ACTIVE, "" },
    { "display_mode", NULL, SMI_DISPLAY_MODE, "" },
};
#define KNOWN (sizeof(fields_known) / sizeof(fields_known[0]))
#define QUERY_MAX 128

void smi_query_help(void)
{
    printf("Names for --query-gpu, as nvidia-smi has them; [N/A] is what the GPU does not say:\n\n");
    for (size_t i = 0; i < KNOWN; i++)
        printf("  %-26s %s%s%s%s\n", fields_known[i].name, fields_known[i].help,
               fields_known[i].unit ? " [" : "", fields_known[i].unit ? fields_known[i].unit : "",
               fields_known[i].unit ? "]" : "");
}

static const struct field *find(const char *name)
{
    for (size_t i = 0; i < KNOWN; i++) {
        if (strcmp(fields_known[i].name, name) == 0)
            return &fields_known[i];
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

int smi_query(const struct smi *s, const char *fields, const char *format)
{
    const struct field *list[QUERY_MAX];
    char *text = vgpu_cli_format("%s", fields), *save = NULL;
    bool header, units;
    size_t n = 0;

    if (!parse_format(format, &header, &units)) {
        printf("\"--format=\" switch is missing or wrong: csv[,noheader][,nounits]\n");
        return 2;
    }
    for (char *word = strtok_r(text, ", ", &save); word; word = strtok_r(NULL, ", ", &save)) {
        const struct field *f = find(word);

        if (!f || n == QUERY_MAX) {
            printf("Field \"%s\" is not a valid field to query.\n", word);
            return 2;
        }
        list[n++] = f;
    }
    free(text);
    if (!n) {
        printf("No field to query; see vgpu smi --help-query-gpu\n");
        return 2;
    }
    for (size_t i = 0; header && i < n; i++)
        printf("%s%s%s%s%s", i ? ", " : "", list[i]->name, list[i]->unit ? " [" : "",
               list[i]->unit ? list[i]->unit : "", list[i]->unit ? "]" : "");
    if (header)
        printf("\n");
    for (unsigned g = 0; g < s->count; g++) {
        for (size_t i = 0; i < n; i++) {
            const char *value = s->gpus[g].value[list[i]->value];
            bool unit = units && list[i]->unit && *value;

            printf("%s%s%s%s", i ? ", " : "", *value ? value : "[N/A]", unit ? " " : "",
                   unit ? list[i]->unit : "");
        }
        printf("\n");
    }
    return 0;
}
