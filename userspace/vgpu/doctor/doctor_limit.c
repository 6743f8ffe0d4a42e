/* SPDX-License-Identifier: MIT */
/* The limits of vgpu-backend in a trace's texts: which limit was reached, and the remedy. */
#include <string.h>

#include "doctor/doctor.h"
#include "base/vgpu_cli.h"

#define CEILING "--memory-policy ceiling"

/* Limits of docs/tenancy.md; `vgpu ctl set` changes them as well. */
static const char *const limits[] = {
    "vram-quota",    "pin-quota",           "blob-quota",     "max-clients",      "start-rate",
    "client-memory", "client-threads",      "client-streams", "client-handles",   "client-printf",
    "client-image",  "client-compile-time", "client-queue",   "client-time-limit"};

/* Returns the limit whose option a text contains, as broker and workers write it: "the limit of N
 * is met (vgpu-backend --NAME)"; NULL: none. */
static const char *limit_named(const char *text)
{
    for (size_t i = 0; text && i < sizeof(limits) / sizeof(limits[0]); i++) {
        size_t n = strlen(limits[i]);

        for (const char *at = text; (at = strstr(at, "--")) != NULL; at += 2) {
            if (strncmp(at + 2, limits[i], n) == 0 && strchr(" ),;:", at[2 + n]))
                return limits[i];
        }
    }
    return NULL;
}

bool vgpu_cli_names_limit(const char *text)
{
    return limit_named(text) || (text && strstr(text, CEILING));
}

const char *vgpu_cli_limit_remedy(const char *text)
{
    const char *limit = limit_named(text);

    if (text && strstr(text, CEILING))
        return "all VMs of the GPU together use its memory (" CEILING
               "): fewer or smaller programs, or a lower "
               "--vram-quota of the other VMs";
    return limit ? vgpu_cli_format(
                       "raise --%s of vgpu-backend (or `vgpu ctl set %s` while it runs), or have the "
                       "program need less",
                       limit, limit)
                 : NULL;
}
