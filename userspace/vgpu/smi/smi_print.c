/* SPDX-License-Identifier: MIT */
/* vgpu smi: the table, -L and -q, in nvidia-smi's form. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/cli_config.h"
#include "smi/smi.h"
#include "base/vgpu_cli.h"

static const char *or_na(const char *text)
{
    return *text ? text : "N/A";
}

void smi_print_list(const struct smi *s)
{
    for (unsigned i = 0; i < s->count; i++)
        printf("GPU %s: %s (UUID: %s)\n", s->gpus[i].value[SMI_INDEX], or_na(s->gpus[i].value[SMI_NAME]),
               or_na(s->gpus[i].value[SMI_UUID]));
}

static void print_row(const char *left, const char *middle, const char *right)
{
    printf("| %-39.39s | %22.22s | %20.20s |\n", left, middle, right);
}

static void print_gpu_rows(const struct smi_gpu *g)
{
    const char(*v)[96] = g->value;
    char power[32], memory[64], temp[24], util[16], fan[16], left[64], middle[32], right[32];

    snprintf(power, sizeof(power), "%.6s%s / %.6s%s", or_na(v[SMI_POWER_DRAW]), *v[SMI_POWER_DRAW] ? "W" : "",
             or_na(v[SMI_POWER_LIMIT]), *v[SMI_POWER_LIMIT] ? "W" : "");
    snprintf(memory, sizeof(memory), "%.9sMiB / %.9sMiB", or_na(v[SMI_MEMORY_USED]),
             or_na(v[SMI_MEMORY_TOTAL]));
    snprintf(temp, sizeof(temp), "%.4s%s", or_na(v[SMI_TEMPERATURE]), *v[SMI_TEMPERATURE] ? "C" : "");
    snprintf(util, sizeof(util), "%.4s%s", or_na(v[SMI_UTIL_GPU]), *v[SMI_UTIL_GPU] ? "%" : "");
    snprintf(fan, sizeof(fan), "%.4s%s", or_na(v[SMI_FAN]), *v[SMI_FAN] ? "%" : "");
    snprintf(left, sizeof(left), "%3.3s  %-23.23s %10.10s", v[SMI_INDEX], v[SMI_NAME],
             or_na(v[SMI_PERSISTENCE]));
    snprintf(middle, sizeof(middle), "%-16.16s %5.5s", or_na(v[SMI_BUS_ID]),
             *v[SMI_DISPLAY_ACTIVE] ? (v[SMI_DISPLAY_ACTIVE][0] == 'E' ? "On" : "Off") : "N/A");
    print_row(left, middle, or_na(v[SMI_ECC]));
    snprintf(left, sizeof(left), "%4.4s %4.4s  %-5.5s %21.21s", fan, temp, or_na(v[SMI_PSTATE]), power);
    snprintf(right, sizeof(right), "%6.6s %13.13s", util, or_na(v[SMI_COMPUTE_MODE]));
    print_row(left, memory, right);
    print_row("", "", or_na(v[SMI_MIG]));
}

void smi_print_table(const struct smi *s)
{
    static const char edge[] = "+-----------------------------------------+------------------------+-"
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
    printf("| VGPU-SMI %-22.22s Driver Version: %-14.14s CUDA Version: %-10.10s |\n", VGPU_CLI_VERSION,
           s->driver, cuda);
    printf("%s\n", edge);
    print_row("GPU  Name                 Persistence-M", "Bus-Id          Disp.A", "Volatile Uncorr. ECC");
    print_row("Fan  Temp  Perf           Pwr:Usage/Cap", "Memory-Usage", "GPU-Util  Compute M.");
    print_row("", "", "MIG M.");
    for (unsigned i = 0; i < s->count; i++) {
        printf("%s\n", edge);
        print_gpu_rows(&s->gpus[i]);
    }
    printf("%s\n\n%s\n", edge, line);
    printf("| %-87s |\n", "Processes:");
    printf("| %3s %10s  %s  %-53s %10s  |\n%s\n", "GPU", "PID", "Type", "Process name", "GPU Memory", line);
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

/* Rows of -q: a title (value SMI_VALUES), or a name with its value and unit. */
static const struct row {
    int indent;
    const char *name;
    enum smi_value value;
    const char *unit;
} rows[] = {
    {1, "Product Name", SMI_NAME, ""},
    {1, "Display Mode", SMI_DISPLAY_MODE, ""},
    {1, "Display Active", SMI_DISPLAY_ACTIVE, ""},
    {1, "Persistence Mode", SMI_PERSISTENCE, ""},
    {1, "MIG Mode", SMI_VALUES, ""},
    {2, "Current", SMI_MIG, ""},
    {2, "Pending", SMI_MIG_PENDING, ""},
    {1, "Serial Number", SMI_SERIAL, ""},
    {1, "GPU UUID", SMI_UUID, ""},
    {1, "VBIOS Version", SMI_VBIOS, ""},
    {1, "Compute Capability", SMI_CC, ""},
    {1, "PCI", SMI_VALUES, ""},
    {2, "Bus", SMI_PCI_BUS, ""},
    {2, "Device", SMI_PCI_DEVICE, ""},
    {2, "Domain", SMI_PCI_DOMAIN, ""},
    {2, "Bus Id", SMI_BUS_ID, ""},
    {2, "PCIe Generation Current", SMI_PCIE_GEN, ""},
    {2, "PCIe Generation Max", SMI_PCIE_GEN_MAX, ""},
    {2, "Link Width Current", SMI_PCIE_WIDTH, "x"},
    {2, "Link Width Max", SMI_PCIE_WIDTH_MAX, "x"},
    {1, "Fan Speed", SMI_FAN, " %"},
    {1, "Performance State", SMI_PSTATE, ""},
    {1, "FB Memory Usage", SMI_VALUES, ""},
    {2, "Total", SMI_MEMORY_TOTAL, " MiB"},
    {2, "Reserved", SMI_MEMORY_RESERVED, " MiB"},
    {2, "Used", SMI_MEMORY_USED, " MiB"},
    {2, "Free", SMI_MEMORY_FREE, " MiB"},
    {1, "Compute Mode", SMI_COMPUTE_MODE, ""},
    {1, "Utilization", SMI_VALUES, ""},
    {2, "Gpu", SMI_UTIL_GPU, " %"},
    {2, "Memory", SMI_UTIL_MEMORY, " %"},
    {1, "ECC Mode", SMI_VALUES, ""},
    {2, "Current", SMI_ECC, ""},
    {2, "Pending", SMI_ECC_PENDING, ""},
    {1, "Temperature", SMI_VALUES, ""},
    {2, "GPU Current Temp", SMI_TEMPERATURE, " C"},
    {1, "Power Readings", SMI_VALUES, ""},
    {2, "Power Draw", SMI_POWER_DRAW, " W"},
    {2, "Power Limit", SMI_POWER_LIMIT, " W"},
    {2, "Default Power Limit", SMI_POWER_DEFAULT, " W"},
    {2, "Enforced Power Limit", SMI_POWER_ENFORCED, " W"},
    {2, "Min Power Limit", SMI_POWER_MIN, " W"},
    {2, "Max Power Limit", SMI_POWER_MAX, " W"},
    {1, "Clocks", SMI_VALUES, ""},
    {2, "Graphics", SMI_CLOCK_GR, " MHz"},
    {2, "SM", SMI_CLOCK_SM, " MHz"},
    {2, "Memory", SMI_CLOCK_MEM, " MHz"},
    {2, "Video", SMI_CLOCK_VIDEO, " MHz"},
    {1, "Max Clocks", SMI_VALUES, ""},
    {2, "Graphics", SMI_MAX_GR, " MHz"},
    {2, "SM", SMI_MAX_SM, " MHz"},
    {2, "Memory", SMI_MAX_MEM, " MHz"},
};

/* Words of -d, as in nvidia-smi, for rows of indent 1 and the rows below them. */
static const struct display {
    const char *word, *name;
} displays[] = {
    {"MEMORY", "FB Memory Usage"},  {"UTILIZATION", "Utilization"}, {"ECC", "ECC Mode"},
    {"TEMPERATURE", "Temperature"}, {"POWER", "Power Readings"},    {"CLOCK", "Clocks"},
    {"CLOCK", "Max Clocks"},        {"COMPUTE", "Compute Mode"},    {"PERFORMANCE", "Performance State"},
    {"PIDS", "Processes"},
};
#define DISPLAYS (sizeof(displays) / sizeof(displays[0]))

/* True if the word is in a comma-separated list. */
static bool is_word(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (const char *p = list; p; p = strchr(p, ',')) {
        p += strspn(p, ", ");
        if (strncasecmp(p, word, n) == 0 && (p[n] == '\0' || p[n] == ',' || p[n] == ' '))
            return true;
    }
    return false;
}

bool smi_displays_ok(const char *list)
{
    char *text = vgpu_cli_format("%s", list), *save = NULL;
    bool ok = true, any = false;

    for (char *word = strtok_r(text, ", ", &save); word; word = strtok_r(NULL, ", ", &save)) {
        size_t i = 0;

        while (i < DISPLAYS && strcasecmp(displays[i].word, word) != 0)
            i++;
        ok = ok && i < DISPLAYS;
        any = true;
    }
    free(text);
    return ok && any;
}

static bool is_shown(const char *only, const char *name)
{
    for (size_t i = 0; only && i < DISPLAYS; i++) {
        if (strcmp(displays[i].name, name) == 0 && is_word(only, displays[i].word))
            return true;
    }
    return only == NULL;
}

static void print_processes(const struct smi_gpu *g)
{
    printf("    %-46s%s\n", "Processes", g->nprocesses ? "" : ": None");
    for (unsigned k = 0; k < g->nprocesses; k++) {
        printf("        %-42s: %u\n", "Process ID", g->processes[k].pid);
        printf("            %-38s: C\n", "Type");
        printf("            %-38s: %s\n", "Name", g->processes[k].name);
        if (g->processes[k].memory_mib < 0)
            printf("            %-38s: N/A\n", "Used GPU Memory");
        else
            printf("            %-38s: %ld MiB\n", "Used GPU Memory", g->processes[k].memory_mib);
    }
}

void smi_print_everything(const struct smi *s, const char *only)
{
    printf("\n==============VGPU-SMI LOG==============\n\n");
    printf("%-50s: %s\n", "Driver Version", s->driver);
    printf("%-50s: %d.%d\n", "CUDA Version", s->cuda / 1000, s->cuda % 1000 / 10);
    printf("%-50s: %s\n\n", "NVML Version", s->nvml);
    printf("%-50s: %u\n", "Attached GPUs", s->count);
    for (unsigned i = 0; i < s->count; i++) {
        const struct smi_gpu *g = &s->gpus[i];
        bool shown = true;

        printf("GPU %s\n", or_na(g->value[SMI_BUS_ID]));
        for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
            const struct row *r = &rows[k];

            shown = r->indent > 1 ? shown : is_shown(only, r->name);
            if (!shown)
                continue;
            if (r->value == SMI_VALUES)
                printf("%*s%s\n", 4 * r->indent, "", r->name);
            else
                printf("%*s%-*s: %s%s\n", 4 * r->indent, "", 50 - 4 * r->indent, r->name,
                       or_na(g->value[r->value]), *g->value[r->value] ? r->unit : "");
        }
        if (is_shown(only, "Processes"))
            print_processes(g);
    }
}
