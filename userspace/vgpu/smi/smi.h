/* SPDX-License-Identifier: MIT */
/* vgpu smi: NVML's values for a GPU, as text. */
#ifndef CLI_SMI_H
#define CLI_SMI_H

#include <stdbool.h>

enum smi_value {
    SMI_INDEX,
    SMI_COUNT,
    SMI_NAME,
    SMI_UUID,
    SMI_SERIAL,
    SMI_DRIVER,
    SMI_VBIOS,
    SMI_BUS_ID,
    SMI_PCI_DOMAIN,
    SMI_PCI_BUS,
    SMI_PCI_DEVICE,
    SMI_PSTATE,
    SMI_MEMORY_TOTAL,
    SMI_MEMORY_RESERVED,
    SMI_MEMORY_USED,
    SMI_MEMORY_FREE,
    SMI_UTIL_GPU,
    SMI_UTIL_MEMORY,
    SMI_TEMPERATURE,
    SMI_FAN,
    SMI_POWER_DRAW,
    SMI_POWER_LIMIT,
    SMI_POWER_ENFORCED,
    SMI_POWER_DEFAULT,
    SMI_POWER_MIN,
    SMI_POWER_MAX,
    SMI_CLOCK_GR,
    SMI_CLOCK_SM,
    SMI_CLOCK_MEM,
    SMI_CLOCK_VIDEO,
    SMI_MAX_GR,
    SMI_MAX_SM,
    SMI_MAX_MEM,
    SMI_COMPUTE_MODE,
    SMI_PERSISTENCE,
    SMI_MIG,
    SMI_MIG_PENDING,
    SMI_ECC,
    SMI_ECC_PENDING,
    SMI_PCIE_GEN,
    SMI_PCIE_GEN_MAX,
    SMI_PCIE_WIDTH,
    SMI_PCIE_WIDTH_MAX,
    SMI_CC,
    SMI_DISPLAY_ACTIVE,
    SMI_DISPLAY_MODE,
    SMI_TIMESTAMP,
    SMI_PCI_ID,
    SMI_PCI_SUB_ID,
    SMI_CLOCK_REASONS,
    SMI_VALUES,
    SMI_APP_PID,
    SMI_APP_NAME,
    SMI_APP_MEMORY /* memory of a process */
};

struct smi_process {
    unsigned pid;
    long memory_mib; /* MiB; -1: unknown */
    char name[128];
};

/* Values of a GPU as text; empty: no value, shown as N/A. */
struct smi_gpu {
    char value[SMI_VALUES][96];
    struct smi_process processes[64];
    unsigned nprocesses;
};

struct smi {
    char driver[80], nvml[80], when[40];
    int cuda;
    unsigned count;
    struct smi_gpu *gpus;
};

/* Opens NVML. Returns 0, or the exit status after a message. */
int smi_open(void);
enum smi_host_form { SMI_HOST_TABLE, SMI_HOST_ALL, SMI_HOST_JSON };
/* Prints this host's backends with their workers and guest processes, every loop_ms, or once (0).
 * Returns an exit status. */
int smi_host(enum smi_host_form form, long loop_ms);
/* Reads all values; only: a list of GPUs (number, UUID, PCI address), or NULL for all. Returns 0 or
 * the exit status. smi_free() frees the allocations. */
int smi_gather(struct smi *s, const char *only);
void smi_free(struct smi *s);
void smi_close(void);

void smi_print_table(const struct smi *s);
void smi_print_list(const struct smi *s); /* -L */
/* Prints -q; only: the words of -d, or NULL for all. */
void smi_print_everything(const struct smi *s, const char *only);
bool smi_displays_ok(const char *list); /* true if all words of -d are known */

/* Prints --query-gpu, and with apps --query-compute-apps. first: the first of a loop, which has the
 * header. Returns an exit status. */
bool smi_format_ok(const char *format); /* true if all words of --format are known */
int smi_query(const struct smi *s, const char *fields, const char *format, bool apps, bool first);
/* Prints the names supported by --query-gpu or --query-compute-apps. */
void smi_query_help(bool apps);

#endif
