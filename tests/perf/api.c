// SPDX-License-Identifier: MIT
/* A library with the driver API, its kernel, and data of processes from /proc. */
#define _GNU_SOURCE
#include "bench.h"

#include <dirent.h>
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char api_ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                       ".visible .entry add(.param .u64 p, .param .u32 n, .param .u32 v)\n{\n"
                       ".reg .u32 %r<6>; .reg .u64 %d<3>; .reg .pred %q;\n"
                       "ld.param.u64 %d0, [p]; ld.param.u32 %r0, [n]; ld.param.u32 %r1, [v];\n"
                       "cvta.to.global.u64 %d0, %d0;\n"
                       "mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n"
                       "mad.lo.u32 %r2, %r2, %r3, %r4; setp.ge.u32 %q, %r2, %r0; @%q bra end;\n"
                       "mul.wide.u32 %d1, %r2, 4; add.u64 %d0, %d0, %d1;\n"
                       "ld.global.u32 %r5, [%d0]; add.u32 %r5, %r5, %r1; st.global.u32 [%d0], %r5;\n"
                       "end: ret;\n}\n";

void samples_add(struct samples *s, double v)
{
    if (s->n == s->room) {
        s->room = s->room ? s->room * 2 : 1024;
        s->v = realloc(s->v, s->room * sizeof(*s->v));
        if (!s->v)
            abort();
    }
    s->v[s->n++] = v;
    s->sorted = false;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double samples_at(struct samples *s, double q)
{
    if (!s->n)
        return 0;
    if (!s->sorted)
        qsort(s->v, s->n, sizeof(*s->v), compare);
    s->sorted = true;
    return s->v[(size_t)(q * (double)(s->n - 1) + 0.5)];
}

bool api_open(struct api *a, const char *library)
{
    CUresult r;

    memset(a, 0, sizeof(*a));
    /*
     * RTLD_LOCAL, and this program is not linked to libcuda: libraries with equal symbol names stay
     * separate.
     */
    a->lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!a->lib) {
        fprintf(stderr, "bench: %s\n", dlerror());
        return false;
    }
#define X(field, symbol) \
    *(void **)&a->field = dlsym(a->lib, #symbol); \
    if (!a->field) { \
        fprintf(stderr, "bench: %s has no " #symbol "\n", library); \
        return false; \
    }
    API_CALLS(X)
#undef X
    if ((r = a->cuInit(0)) || (r = a->cuDevicePrimaryCtxRetain(&a->ctx, 0)) ||
        (r = a->cuCtxSetCurrent(a->ctx)) || (r = a->cuModuleLoadData(&a->mod, api_ptx)) ||
        (r = a->cuModuleGetFunction(&a->add, a->mod, "add"))) {
        fprintf(stderr, "bench: %s: error %d at the start\n", library, r);
        return false;
    }
    return true;
}

CUresult api_launch(struct api *a, CUdeviceptr p, unsigned n, unsigned v)
{
    void *params[] = {&p, &n, &v};
    return a->cuLaunchKernel(a->add, (n + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, params, NULL);
}

uint64_t cpu_ns(int pid)
{
    char path[300];
    uint64_t sum = 0;
    struct dirent *d;

    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    DIR *dir = opendir(path);
    while (dir && (d = readdir(dir))) {
        unsigned long long t = 0;
        if (d->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "/proc/%d/task/%s/schedstat", pid, d->d_name);
        FILE *f = fopen(path, "r");
        if (f && fscanf(f, "%llu", &t) == 1)
            sum += t;
        if (f)
            fclose(f);
    }
    if (dir)
        closedir(dir);
    return sum;
}

void bind_to(int pid, int cpu)
{
    char path[64];
    struct dirent *d;
    cpu_set_t set;

    CPU_ZERO(&set);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (cpu < 0 || i == cpu)
            CPU_SET(i, &set);
    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    DIR *dir = opendir(path);
    while (dir && (d = readdir(dir)))
        if (d->d_name[0] != '.')
            sched_setaffinity(atoi(d->d_name), sizeof(set), &set);
    if (dir)
        closedir(dir);
}

/* Reads parent and name of a process; false if it has ended. */
static bool about(int pid, int *parent, char name[32])
{
    char path[64], text[512];

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, 255, f) : 0;
    if (f)
        fclose(f);
    text[n] = 0;
    char *open = strchr(text, '('), *close = strrchr(text, ')');
    if (!open || !close)
        return false;
    snprintf(name, 32, "%.*s", (int)(close - open - 1), open + 1);
    /* A program started through /proc/self/exe or a descriptor has a different name there. */
    snprintf(path, sizeof(path), "/proc/%d/exe", pid);
    ssize_t k = readlink(path, text + 256, 255);
    if (k > 0) {
        text[256 + k] = 0;
        char *slash = strrchr(text + 256, '/');
        snprintf(name, 32, "%.31s", slash ? slash + 1 : text + 256);
    }
    return sscanf(close + 1, " %*c %d", parent) == 1;
}

static bool descends(int pid, int from)
{
    char name[32];
    for (int depth = 0; pid > 1 && depth < 16; depth++) {
        if (pid == from)
            return true;
        if (!about(pid, &pid, name))
            return false;
    }
    return false;
}

size_t descendants(int pid, const char *name, int *out, size_t max)
{
    DIR *dir = opendir("/proc");
    struct dirent *d;
    size_t n = 0;

    while (dir && (d = readdir(dir)) && n < max) {
        char its[32];
        int parent, p = atoi(d->d_name);
        if (p > 0 && about(p, &parent, its) && !strncmp(its, name, strlen(name)) && descends(p, pid))
            out[n++] = p;
    }
    if (dir)
        closedir(dir);
    return n;
}
