/* SPDX-License-Identifier: MIT */
/* The environment options of the software GPU. README.md lists them. */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

#define SG_MEMORY_DEFAULT (4ull << 30)
#define SG_MEMORY_MIN (16ull << 20)   /* below this not even a context's own needs fit */
#define SG_MEMORY_MAX (4096ull << 30) /* keeps size sums far from overflow */
#define SG_THREADS_MAX 256            /* more threads than any host we know has cores to give */

/* a capability that no GPU has, so cuBLAS falls back to its PTX */
#define SG_LIBRARY_CC_DEFAULT 130

struct sg_config sg_config;

static bool refuse_setting(const char *name, const char *value, const char *why)
{
    fprintf(stderr, "libcuda-soft: %s=%s: %s\n", name, value, why);
    return false;
}

/* Digits with an optional K, M, G or T suffix (powers of 1024). */
static bool parse_size(const char *s, uint64_t *out)
{
    char *end;
    unsigned shift = 0;
    unsigned long long v;

    if (!isdigit((unsigned char)s[0]))
        return false;
    errno = 0;
    v = strtoull(s, &end, 10);
    if (errno)
        return false;
    switch (toupper((unsigned char)*end)) {
    case 'T':
        shift += 10; /* fall through */
    case 'G':
        shift += 10; /* fall through */
    case 'M':
        shift += 10; /* fall through */
    case 'K':
        shift += 10;
        end++;
        break;
    default:
        break;
    }
    if (*end || (shift && v >> (64 - shift)))
        return false;
    *out = v << shift;
    return true;
}

/* The profiles, in ascending order. */
static const struct {
    const char *text;
    int major, minor;
} known[] = {{"7.5", 7, 5}, {"8.0", 8, 0},   {"8.6", 8, 6},   {"8.9", 8, 9},
             {"9.0", 9, 0}, {"10.0", 10, 0}, {"12.0", 12, 0}, {"13.0", 13, 0}};

const char *sg_config_profile(unsigned target)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if ((unsigned)(10 * known[i].major + known[i].minor) >= target)
            return known[i].text;
    return NULL;
}

/* One capability for each device, separated by commas. */
static bool load_cc(void)
{
    const char *all = getenv("VGPU_SOFT_CC"), *v = all && *all ? all : "8.0";

    for (sg_config.ndevices = 0;; v++) {
        size_t n = strcspn(v, ","), i = 0;

        while (i < sizeof(known) / sizeof(known[0]) &&
               (strlen(known[i].text) != n || strncmp(v, known[i].text, n)))
            i++;
        if (i == sizeof(known) / sizeof(known[0]) || sg_config.ndevices == SG_MAX_DEVICES)
            return refuse_setting(
                "VGPU_SOFT_CC", all,
                "must be 7.5, 8.0, 8.6, 8.9, 9.0, 10.0, 12.0 or 13.0, or up to 8 of them: a,b,...");
        sg_config.cc[sg_config.ndevices].major = known[i].major;
        sg_config.cc[sg_config.ndevices++].minor = known[i].minor;
        v += n;
        if (!*v)
            return true;
    }
}

/* "major.minor", or "off": libraries see the same capability as programs. */
static bool load_library_cc(void)
{
    const char *v = getenv("VGPU_SOFT_LIBRARY_CC");
    unsigned major, minor;
    int n = 0;

    sg_config.library_cc = SG_LIBRARY_CC_DEFAULT;
    if (!v || !*v)
        return true;
    if (!strcmp(v, "off")) {
        sg_config.library_cc = 0;
        return true;
    }
    if (!isdigit((unsigned char)v[0]) || sscanf(v, "%2u.%1u%n", &major, &minor, &n) != 2 || v[n] || major < 5)
        return refuse_setting("VGPU_SOFT_LIBRARY_CC", v, "must be a capability from 5.0 to 99.9, or off");
    sg_config.library_cc = (int)(10 * major + minor);
    return true;
}

bool sg_config_load(void)
{
    const char *v;
    uint64_t n;

    if (!load_cc() || !load_library_cc())
        return false;

    v = getenv("VGPU_SOFT_JIT"); /* read by sg_jit_init() */
    if (v && *v && strcmp(v, "0") && strcmp(v, "1"))
        return refuse_setting("VGPU_SOFT_JIT", v, "must be 0 or 1");

    v = getenv("VGPU_SOFT_ISA"); /* read by sg_op_isa() */
    if (v && *v && strcmp(v, "base") && strcmp(v, "avx2") && strcmp(v, "avx512") && strcmp(v, "avx512fp16"))
        return refuse_setting("VGPU_SOFT_ISA", v, "must be base, avx2, avx512 or avx512fp16");

    sg_config.memory = SG_MEMORY_DEFAULT;
    v = getenv("VGPU_SOFT_MEMORY");
    if (v && *v) {
        if (!parse_size(v, &n) || n < SG_MEMORY_MIN || n > SG_MEMORY_MAX)
            return refuse_setting("VGPU_SOFT_MEMORY", v, "must be a size from 16M to 4096G");
        sg_config.memory = n;
    }

    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    sg_config.threads = cpus < 1 ? 1 : cpus > SG_THREADS_MAX ? SG_THREADS_MAX : (unsigned)cpus;
    v = getenv("VGPU_SOFT_THREADS");
    if (v && *v) {
        if (!parse_size(v, &n) || n < 1 || n > SG_THREADS_MAX)
            return refuse_setting("VGPU_SOFT_THREADS", v, "must be a number from 1 to 256");
        sg_config.threads = (unsigned)n;
    }

    v = getenv("VGPU_SOFT_WATCHDOG");
    if (v && *v && !parse_size(v, &sg_config.watchdog))
        return refuse_setting("VGPU_SOFT_WATCHDOG", v, "must be a number of warp instructions (0: off)");

    v = getenv("VGPU_SOFT_ATOMICS");
    if (v && *v && strcmp(v, "ordered") && strcmp(v, "relaxed"))
        return refuse_setting("VGPU_SOFT_ATOMICS", v, "must be ordered or relaxed");
    sg_config.relaxed = v && !strcmp(v, "relaxed");

    v = getenv("VGPU_SOFT_POISON");
    sg_config.poison = v && !strcmp(v, "1");
    return true;
}
