/* SPDX-License-Identifier: MIT */
/* The environment of workers: only variables meant for them, no secrets, and the settings of their heap. */
#define _GNU_SOURCE
#include "workers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

extern char **environ;

static const char *const names[] = {
    "VGPU_SOCKET", /* brk_main.c: a provider that is our own libcuda must find no broker */
    "LD_LIBRARY_PATH", "LANG",         "LC_ALL",        "TZ",          "GLIBC_TUNABLES",
    "ASAN_OPTIONS",    "LSAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"};
static const char *const prefixes[] = {"VGPU_SOFT_", "VGPU_TEST_", "CUDA_"};

static bool meant_for_workers(const char *variable)
{
    const size_t n = strcspn(variable, "=");

    if (!strncmp(variable, "CUDA_INJECTION", 14)) /* loads a library into every program */
        return false;
    if (!strncmp(variable, "CUDA_CACHE_", 11)) /* a folder shared with other programs */
        return false;
    for (unsigned i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        if (!strncmp(variable, prefixes[i], strlen(prefixes[i])))
            return true;
    }
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (n == strlen(names[i]) && !strncmp(variable, names[i], n))
            return true;
    }
    return false;
}

/*
 * Heap of the workers: freed and new memory is filled with a byte that each broker draws, so that a block read before it is
 * written, or after it is freed, has neither the data nor the pointers of another; and each block goes through the lists whose
 * links the C library checks. An operator's own GLIBC_TUNABLES take precedence. docs/results/hardening.md has the cost.
 */
static char *heap_settings(void)
{
    static char text[128];
    unsigned char fill = 0;

    if (getrandom(&fill, 1, GRND_NONBLOCK) != 1 || !fill)
        fill = 0xa5;
    snprintf(text, sizeof(text),
             "GLIBC_TUNABLES=glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0:glibc.malloc.perturb=%u",
             fill);
    return text;
}

char **brk_worker_environment(void)
{
    /* A context created beside a running MPS daemon would be a client of it, and a fault would end
     * all other clients. */
    static char no_mps[] = "CUDA_MPS_PIPE_DIRECTORY=/nonexistent";
    static char no_cache[] = "CUDA_CACHE_DISABLE=1", cache[64], cache_size[64];
    size_t n = 0, count = 0;
    char **out;

    while (environ && environ[count])
        count++;
    out = calloc(count + 5, sizeof(*out));
    for (size_t i = 0; out && i < count; i++) {
        if (meant_for_workers(environ[i]))
            out[n++] = environ[i];
    }
    if (out && !getenv("GLIBC_TUNABLES"))
        out[n++] = heap_settings();
    if (out && !getenv("CUDA_MPS_PIPE_DIRECTORY"))
        out[n++] = no_mps;
    if (out && brk_opt.cache_fd < 0) {
        out[n++] = no_cache;
    } else if (out) {
        if (brk_opt.jit_cache_shm && brk_opt.shm_fd >= 0)
            snprintf(cache, sizeof(cache), "CUDA_CACHE_PATH=/dev/shm/" BRK_SHM_CACHE);
        else
            snprintf(cache, sizeof(cache), "CUDA_CACHE_PATH=/proc/self/fd/%d", BRK_WORKER_CACHE_FD);
        snprintf(cache_size, sizeof(cache_size), "CUDA_CACHE_MAXSIZE=%llu",
                 (unsigned long long)brk_opt.jit_cache);
        out[n++] = cache;
        out[n++] = cache_size;
    }
    return out;
}
