/* SPDX-License-Identifier: MIT */
/*
 * VGPU_SOFT_PROFILE, see exec/profile.h. Kernels of the same name share a line: they may come from
 * several modules. The file has its full size from the beginning and is written through a mapping,
 * because the sandbox does not let files grow; unused lines are empty.
 */
#define _GNU_SOURCE
#include "exec/profile.h"
#include "lib/clock/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

bool sg_native_on;

#define FILE_BYTES (1u << 20) /* some 5000 lines */
#define MAX_FILES 1000        /* PATH, PATH.1, ...; one per process */
/* kernels, and as many of their handlers as fit; the rest is merged */
#define MAX_RECORDS 4096
#define MAX_HANDLERS 256
#define NUMBERS 84 /* bytes of a line before the name */

struct handler {
    char name[48];
    uint64_t count;
    size_t at; /* offset of its line; 0: none yet */
    struct handler *next;
};

struct record {
    char *kernel;
    uint64_t launches, blocks, insns, ns;
    size_t at;
    uint32_t nhandlers;
    struct handler *handlers;
    struct record *next;
};

static struct {
    pthread_mutex_t lock;
    char *text; /* FILE_BYTES; NULL: off */
    size_t end;
    uint32_t nrecords;
    struct record *records;
} prof = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char head[] =
    "#           ns   launches     blocks      warp insns  ns/insn  native code  kernel\n"
    "# calls/launch   of handlers from native code: handler, kernel\n";

/* The first of PATH, PATH.1, ... that does not exist yet. */
static int open_new(const char *v)
{
    char path[4096];
    int fd = -1;

    /* A worker has made the file before it entered its sandbox. */
    if (!strncmp(v, "/proc/self/fd/", 14))
        return open(v, O_RDWR | O_CLOEXEC);
    for (int i = 0; i < MAX_FILES && fd < 0; i++) {
        const int n = i ? snprintf(path, sizeof(path), "%s.%d", v, i) : snprintf(path, sizeof(path), "%s", v);

        errno = ENAMETOOLONG;
        if (n >= (int)sizeof(path))
            break;
        fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    return fd;
}

void sg_profile_open(void)
{
    const char *v = getenv("VGPU_SOFT_PROFILE");
    char *p = MAP_FAILED;
    int fd;

    if (prof.text || !v || !*v)
        return;
    fd = open_new(v);
    if (fd >= 0 && !ftruncate(fd, FILE_BYTES))
        p = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        fprintf(stderr, "libcuda-soft: VGPU_SOFT_PROFILE=%s: cannot write: %m\n", v);
    } else {
        memset(p, '\n', FILE_BYTES);
        memcpy(p, head, sizeof(head) - 1);
        prof.end = sizeof(head) - 1;
        prof.text = p;
    }
    if (fd >= 0)
        close(fd);
}

bool sg_profile_on(void)
{
    return prof.text != NULL;
}

uint64_t sg_profile_cpu(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t sg_profile_now(void)
{
    return clk_now_ns();
}

/* Writes a line with its name: appended the first time; later only the numbers are updated. */
static void put_line(size_t *at, const char *numbers, const char *name, const char *more)
{
    const size_t n = strlen(name), m = strlen(more);
    char *p = prof.text + prof.end;

    if (!*at) {
        if (FILE_BYTES - prof.end < NUMBERS + n + m + 2)
            return;
        memcpy(p + NUMBERS, name, n);
        p[NUMBERS + n] = ' ';
        memcpy(p + NUMBERS + n + 1, more, m);
        *at = prof.end;
        prof.end += NUMBERS + n + m + 2;
    }
    memcpy(prof.text + *at, numbers, NUMBERS);
}

static struct record *record_of(const char *kernel)
{
    struct record *r;

    for (r = prof.records; r; r = r->next)
        if (!strcmp(r->kernel, kernel))
            return r;
    if (prof.nrecords == MAX_RECORDS || !(r = calloc(1, sizeof(*r))))
        return NULL;
    r->kernel = strdup(kernel);
    if (!r->kernel) {
        free(r);
        return NULL;
    }
    r->next = prof.records;
    prof.records = r;
    prof.nrecords++;
    return r;
}

static const char *state_of(const struct sg_code *c)
{
    return c->jit ? "yes" : !sg_native_on ? "no: off" : c->calls ? "no: calls" : "no: room";
}

void sg_profile_launch(const struct sg_code *c, uint64_t blocks, uint64_t insns, uint64_t ns)
{
    char line[NUMBERS + 64];
    struct record *r;

    pthread_mutex_lock(&prof.lock);
    r = record_of(c->name);
    if (r) {
        r->launches++;
        r->blocks += blocks;
        r->insns += insns;
        r->ns += ns;
        snprintf(line, sizeof(line), "%14llu %10llu %10llu %15llu %8.2f  %-11s  %*s",
                 (unsigned long long)r->ns, (unsigned long long)r->launches, (unsigned long long)r->blocks,
                 (unsigned long long)r->insns, (double)r->ns / (double)(r->insns ? r->insns : 1), state_of(c),
                 64, "");
        line[NUMBERS] = '\0';
        put_line(&r->at, line, r->kernel, "");
        for (struct handler *h = r->launches & (r->launches - 1) ? NULL : r->handlers; h; h = h->next) {
            const uint64_t count = __atomic_load_n(&h->count, __ATOMIC_RELAXED);

            if (!count)
                continue;
            snprintf(line, sizeof(line), "%14.1f %*s", (double)count / (double)r->launches, NUMBERS, "");
            line[NUMBERS] = '\0';
            put_line(&h->at, line, h->name, r->kernel);
        }
    }
    pthread_mutex_unlock(&prof.lock);
}

uint64_t *sg_profile_counter(const char *kernel, const char *op, const char *why)
{
    struct handler *h = NULL;
    struct record *r;
    char name[sizeof(h->name)];

    if (!prof.text)
        return NULL;
    snprintf(name, sizeof(name), "%s%s", op ? op : "?", why);
    pthread_mutex_lock(&prof.lock);
    r = record_of(kernel);
    for (h = r ? r->handlers : NULL; h && strcmp(h->name, name); h = h->next)
        ;
    if (r && !h && r->nhandlers < MAX_HANDLERS && (h = calloc(1, sizeof(*h)))) {
        memcpy(h->name, name, sizeof(name));
        h->next = r->handlers;
        r->handlers = h;
        r->nhandlers++;
    }
    pthread_mutex_unlock(&prof.lock);
    return h ? &h->count : NULL;
}
