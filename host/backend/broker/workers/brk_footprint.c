/* SPDX-License-Identifier: MIT */
/* Memory that a worker takes, and that the host has left: bounds of the pool. */
#define _GNU_SOURCE
#include "workers.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define LOOK_NS 1000000000u
#define UNKNOWN (UINT64_C(256) << 20) /* rather too much: of NVIDIA's driver */

/* The start of a file of /proc as text; false: unreadable. */
static bool footprint_read(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return false;
    text[n] = '\0';
    return true;
}

uint64_t brk_footprint_of(pid_t pid)
{
    unsigned long long all, resident, shared;
    char path[40], text[200];

    snprintf(path, sizeof(path), "/proc/%ld/statm", (long)pid);
    if (!footprint_read(path, text, sizeof(text)) ||
        sscanf(text, "%llu %llu %llu", &all, &resident, &shared) != 3 || resident < shared)
        return UNKNOWN;
    return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t brk_footprint_available(uint64_t now_ns)
{
    static uint64_t looked_ns, bytes;
    unsigned long long kib = 0;
    char text[600];

    if (looked_ns && now_ns - looked_ns < LOOK_NS)
        return bytes;
    looked_ns = now_ns;
    const char *line =
        footprint_read("/proc/meminfo", text, sizeof(text)) ? strstr(text, "MemAvailable:") : NULL;

    bytes = line && sscanf(line, "MemAvailable: %llu", &kib) == 1 ? kib * 1024 : UINT64_MAX;
    const uint64_t left = brk_cgroup_memory_left(BRK_CGROUP_MOUNT);

    if (bytes > left)
        bytes = left;
    bytes = bytes == UINT64_MAX ? 0 : bytes ? bytes : 1; /* 0 means unknown */
    return bytes;
}

unsigned brk_footprint_processors(void)
{
    static unsigned n;

    if (!n)
        n = (unsigned)get_nprocs();
    return n;
}
