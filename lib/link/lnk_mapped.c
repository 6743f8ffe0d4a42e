/* SPDX-License-Identifier: MIT */
/* Finds the mapped memory of this process, and the calls that access device memory. */
#define _GNU_SOURCE
#include "mapped.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

bool lnk_memory_mapped(const void *p, uint64_t n)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)p & ~(page - 1);

    if (n == 0)
        return true;
    if (n > UINTPTR_MAX - (uintptr_t)p)
        return false;
    /* MS_ASYNC starts nothing; the purpose is the ENOMEM error for unmapped pages. */
    return msync((void *)start, (uintptr_t)p + n - start, MS_ASYNC) == 0 || errno != ENOMEM;
}

/* ---- mappings of a range ---- */

/* The ioctl PROCMAP_QUERY of /proc/PID/maps (Linux 6.11); older headers lack it. */
struct procmap_query {
    uint64_t size, flags, address;                       /* in */
    uint64_t start, end, vma_flags, page, offset, inode; /* out */
    uint32_t major, minor, name_size, build_id_size;     /* sizes: in and out; 0: not wanted */
    uint64_t name, build_id;
};
#define PROCMAP_QUERY _IOWR('f', 17, struct procmap_query)
#define PROCMAP_NEXT 0x10u /* the mapping that contains the address, else the next one */
#define PROCMAP_SHARED 0x08u

/* The first mapping that ends after an address. Returns false if there is none (errno ENOENT),
   or if the system does not report mappings. */
static bool part_at(int maps, uint64_t address, struct lnk_mapping *p)
{
    struct procmap_query q = {.size = sizeof(q), .flags = PROCMAP_NEXT, .address = address};

    if (ioctl(maps, PROCMAP_QUERY, &q) != 0)
        return false;
    *p = (struct lnk_mapping){.start = q.start,
                              .end = q.end,
                              .offset = q.offset,
                              .inode = q.inode,
                              .major = q.major,
                              .minor = q.minor,
                              .access = {q.vma_flags & 1 ? 'r' : '-', q.vma_flags & 2 ? 'w' : '-',
                                         q.vma_flags & 4 ? 'x' : '-',
                                         q.vma_flags & PROCMAP_SHARED ? 's' : 'p'}};
    return true;
}

/* Calls fn for a mapping as far as it lies in [from, to). */
static bool tell_part(struct lnk_mapping p, uint64_t from, uint64_t to,
                      bool (*fn)(const struct lnk_mapping *p, void *arg), void *arg)
{
    if (p.start < from) {
        p.offset += from - p.start;
        p.start = from;
    }
    if (p.end > to)
        p.end = to;
    return fn(&p, arg);
}

/* Queries only the mappings of a range: a process may have tens of thousands. Returns false if
   the system does not report mappings. */
static bool each_part_asked(int maps, uint64_t from, uint64_t to,
                            bool (*fn)(const struct lnk_mapping *p, void *arg), void *arg)
{
    struct lnk_mapping p;

    errno = 0;
    for (uint64_t at = from; at < to; at = p.end) {
        if (!part_at(maps, at, &p))
            return errno == ENOENT;
        if (p.start >= to || !tell_part(p, from, to, fn, arg))
            return true;
    }
    return true;
}

bool lnk_each_mapping(const void *va, uint64_t length, bool (*fn)(const struct lnk_mapping *p, void *arg),
                      void *arg)
{
    uint64_t from = (uintptr_t)va, to = from + length;
    FILE *f = fopen("/proc/self/maps", "re");
    struct lnk_mapping p;
    char *line = NULL;
    size_t room = 0;

    if (f == NULL)
        return false;
    if (each_part_asked(fileno(f), from, to, fn, arg)) {
        fclose(f);
        return true;
    }
    while (getline(&line, &room, f) > 0) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64, &p.start, &p.end, p.access,
                   &p.offset, &p.major, &p.minor, &p.inode) != 7 ||
            p.end <= from)
            continue;
        if (p.start >= to || !tell_part(p, from, to, fn, arg))
            break;
    }
    free(line);
    fclose(f);
    return true;
}
