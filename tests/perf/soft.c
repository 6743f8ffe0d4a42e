// SPDX-License-Identifier: MIT
/*
 * soft-bench [--quick] [--json FILE] --provider LIBRARY
 *
 * Cost of the software GPU compared with the C library on the same machine, and the speed-up by a
 * second core: copies and memset beside memcpy and memset, launches, loading of a large module, a
 * kernel run by one and by two threads. Compared operations are interleaved in one run. Exit status
 * 1: a failure.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MODULE_BYTES (11u << 20) /* size of the largest module in ggml's CUDA backend, as text */

static unsigned passed, failed;
static FILE *json;

static void row(const char *name, double ours, double theirs, const char *unit)
{
    const double ratio = theirs > 0 ? ours / theirs : 0;

    printf("  %-44s %10.2f", name, ours);
    if (theirs > 0)
        printf(" %10.2f %8.2f", theirs, ratio);
    printf("  %s\n", unit);
    if (json)
        fprintf(json, "%s\n  \"%s\": {\"value\": %.4g, \"beside\": %.4g, \"unit\": \"%s\"}",
                passed ? "," : "{", name, ours, theirs, unit);
    passed++;
}

static void fail(const char *name)
{
    printf("  %-44s failed\n", name);
    failed++;
}

/* Measures GB/s of copies and memsets of one size. */
static void memory(struct api *a, size_t n, unsigned rounds)
{
    char *from = malloc(n), *to = malloc(n), name[64];
    struct samples s[6] = {{0}};
    CUdeviceptr d = 0;
    bool ok = from && to && !a->cuMemAlloc(&d, n);

    if (ok) {
        memset(from, 1, n);
        memset(to, 2, n);
    }
    for (unsigned r = 0; ok && r < rounds + 2; r++) {
        uint64_t t[7];

        t[0] = now_ns();
        memcpy(to, from, n);
        __asm__ volatile("" ::: "memory");
        t[1] = now_ns();
        ok &= !a->cuMemcpyHtoD(d, from, n);
        t[2] = now_ns();
        ok &= !a->cuMemcpyDtoH(to, d, n);
        t[3] = now_ns();
        memset(to, (int)r, n);
        __asm__ volatile("" ::: "memory");
        t[4] = now_ns();
        ok &= !a->cuMemsetD8(d, (unsigned char)r, n) && !a->cuCtxSynchronize();
        t[5] = now_ns();
        for (int i = 0; i < 5 && r > 1; i++) /* the first rounds touch the pages */
            samples_add(&s[i], (double)n / (double)(t[i + 1] - t[i] + 1));
    }
    snprintf(name, sizeof(name), "to device, %zu KiB", n >> 10);
    ok ? row(name, samples_at(&s[1], 0.5), samples_at(&s[0], 0.5), "GB/s, beside memcpy") : fail(name);
    snprintf(name, sizeof(name), "to host, %zu KiB", n >> 10);
    ok ? row(name, samples_at(&s[2], 0.5), samples_at(&s[0], 0.5), "GB/s, beside memcpy") : fail(name);
    snprintf(name, sizeof(name), "memset, %zu KiB", n >> 10);
    ok ? row(name, samples_at(&s[4], 0.5), samples_at(&s[3], 0.5), "GB/s, beside memset") : fail(name);
    for (int i = 0; i < 6; i++)
        free(s[i].v);
    if (d)
        a->cuMemFree(d);
    free(from);
    free(to);
}

/* An empty kernel: cost of a launch, alone and queued, and of a block. */
static void launches(struct api *a, unsigned rounds)
{
    static const char text[] =
        ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry e() { ret; }\n";
    struct samples alone = {0}, many = {0}, blocks = {0};
    CUmodule m;
    CUfunction f;
    bool ok = !a->cuModuleLoadData(&m, text) && !a->cuModuleGetFunction(&f, m, "e");

    for (unsigned r = 0; ok && r < rounds + 1; r++) {
        uint64_t t = now_ns(), u;

        ok &= !a->cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL) && !a->cuCtxSynchronize();
        u = now_ns();
        if (r)
            samples_add(&alone, (double)(u - t) / 1000);
        t = now_ns();
        for (int i = 0; i < 100; i++)
            ok &= !a->cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
        ok &= !a->cuCtxSynchronize();
        u = now_ns();
        if (r)
            samples_add(&many, (double)(u - t) / 1000 / 100);
        t = now_ns();
        ok &= !a->cuLaunchKernel(f, 10000, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL) && !a->cuCtxSynchronize();
        u = now_ns();
        if (r)
            samples_add(&blocks, (double)(u - t) / 1000 / 10000);
    }
    ok ? row("an empty kernel, and wait", samples_at(&alone, 0.5), 0, "us") : fail("an empty kernel");
    ok ? row("an empty kernel, each of 100", samples_at(&many, 0.5), 0, "us") : fail("100 kernels");
    ok ? row("a block of one warp, each of 10000", samples_at(&blocks, 0.5), 0, "us") : fail("blocks");
    free(alone.v);
    free(many.v);
    free(blocks.v);
}

/* A text of 11 MiB: loads it, which decodes every kernel to find errors; looks up and runs a single
   kernel, the only one compiled. */
static void large_module(struct api *a)
{
    char *text = malloc(MODULE_BYTES + 65536);
    size_t n, names = 0;
    uint64_t t[4];
    CUmodule m;
    CUfunction f;
    char name[32];

    if (!text) {
        fail("a module of 11 MiB");
        return;
    }
    n = (size_t)sprintf(text, ".version 7.0\n.target sm_75\n.address_size 64\n");
    for (; n < MODULE_BYTES; names++) {
        n += (size_t)sprintf(text + n,
                             ".visible .entry k%zu(.param .u64 p)\n{\n.reg .b32 %%r<9>;\n"
                             ".reg .b64 %%rd<3>;\nld.param.u64 %%rd1, [p];\nmov.u32 %%r1, %%tid.x;\n",
                             names);
        for (int i = 0; i < 120; i++)
            n += (size_t)sprintf(text + n, "\tmad.lo.s32 \t%%r%d, %%r%d, %d, %%r1;\n", i % 8 + 1,
                                 (i + 3) % 8 + 1, i);
        n += (size_t)sprintf(text + n, "ret;\n}\n");
    }
    sprintf(name, "k%zu", names / 2);
    t[0] = now_ns();
    bool ok = !a->cuModuleLoadData(&m, text);
    t[1] = now_ns();
    ok = ok && !a->cuModuleGetFunction(&f, m, name);
    t[2] = now_ns();
    CUdeviceptr p = 0;
    void *args[] = {&p};

    ok = ok && !a->cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, args, NULL) && !a->cuCtxSynchronize();
    t[3] = now_ns();
    printf("  (%zu kernels)\n", names);
    ok ? row("a module of 11 MiB: load", (double)(t[1] - t[0]) / 1e6, 0, "ms") : fail("a module of 11 MiB");
    ok ? row("a module of 11 MiB: first kernel found and run", (double)(t[3] - t[1]) / 1e6, 0, "ms")
       : fail("a module of 11 MiB: first kernel");
    free(text);
}

/*
 * A process whose software GPU has the given number of threads; it measures a round per byte read.
 */
struct scaled {
    int ask, answer, pid;
};

static void scaled_child(const char *provider, int ask, int answer, unsigned loops)
{
    static const char text[] =
        ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry s(.param .u32 n)\n{\n"
        ".reg .b32 %r<5>; .reg .f32 %f<3>; .reg .pred %p;\nld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x;\n"
        "cvt.rn.f32.u32 %f1, %r2; mov.f32 %f2, 0f3F000000;\n"
        "L: fma.rn.f32 %f1, %f1, %f2, %f2; mad.lo.s32 %r2, %r2, 3, %r1; sub.u32 %r1, %r1, 1;\n"
        "setp.ne.u32 %p, %r1, 0; @%p bra L;\nret;\n}\n";
    static struct api a;
    CUmodule m;
    CUfunction f = NULL;
    bool ok = api_open(&a, provider) && !a.cuModuleLoadData(&m, text) && !a.cuModuleGetFunction(&f, m, "s");
    void *args[] = {&loops};
    char c;

    while (read(ask, &c, 1) == 1) {
        uint64_t t = now_ns();

        ok = ok && !a.cuLaunchKernel(f, 64, 1, 1, 256, 1, 1, 0, NULL, args, NULL) && !a.cuCtxSynchronize();
        t = ok ? now_ns() - t : 0;
        if (write(answer, &t, sizeof(t)) != sizeof(t))
            break;
    }
    _exit(0);
}

static bool scaled_start(struct scaled *s, const char *provider, const char *threads, unsigned loops)
{
    int ask[2], answer[2];

    if (pipe(ask) || pipe(answer))
        return false;
    s->pid = fork();
    if (!s->pid) {
        close(ask[1]);
        close(answer[0]);
        setenv("VGPU_SOFT_THREADS", threads, 1);
        scaled_child(provider, ask[0], answer[1], loops);
    }
    close(ask[0]);
    close(answer[1]);
    s->ask = ask[1];
    s->answer = answer[0];
    return s->pid > 0;
}

static uint64_t scaled_round(struct scaled *s)
{
    uint64_t t = 0;

    if (write(s->ask, "g", 1) != 1 || read(s->answer, &t, sizeof(t)) != (ssize_t)sizeof(t))
        return 0;
    return t;
}

/* Forks, so called before the first CUDA call of this process. */
static void scaling(const char *provider, unsigned loops, unsigned rounds)
{
    struct scaled s[2] = {{.pid = -1}, {.pid = -1}};
    struct samples one = {0}, two = {0};
    bool ok = sysconf(_SC_NPROCESSORS_ONLN) >= 2;

    if (!ok) {
        printf("  not run: scaling: this machine has one processor\n");
        return;
    }
    ok = scaled_start(&s[0], provider, "1", loops) && scaled_start(&s[1], provider, "2", loops);
    for (unsigned r = 0; ok && r < rounds + 1; r++) {
        const uint64_t t1 = scaled_round(&s[0]), t2 = scaled_round(&s[1]);

        ok = t1 && t2;
        if (r) {
            samples_add(&one, (double)t1 / 1e6);
            samples_add(&two, (double)t2 / 1e6);
        }
    }
    for (int i = 0; i < 2 && s[i].pid > 0; i++) { /* both: the second inherits the first's */
        close(s[i].ask);
        close(s[i].answer);
    }
    for (int i = 0; i < 2 && s[i].pid > 0; i++)
        waitpid(s[i].pid, NULL, 0);
    if (ok) /* the best round excludes the effect of other programs on a core */
        row("64 blocks of 256: one thread / two threads", samples_at(&one, 0), samples_at(&two, 0),
            "ms; the ratio is the scaling, aim 1.8");
    else
        fail("scaling");
    free(one.v);
    free(two.v);
}

int main(int argc, char **argv)
{
    static struct api a;
    const char *provider = NULL, *json_file = NULL;
    bool quick = false;

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--quick"))
            quick = true;
        else if (i + 1 < argc && !strcmp(argv[i], "--provider"))
            provider = argv[++i];
        else if (i + 1 < argc && !strcmp(argv[i], "--json"))
            json_file = argv[++i];
    }
    if (json_file && !(json = fopen(json_file, "w")))
        failed++;
    printf("the software GPU beside the C library, and by itself\n"
           "  %-44s %10s %10s %8s\n",
           "", "ours", "beside", "ratio");
    if (provider)
        scaling(provider, quick ? 50 : 40000, quick ? 1 : 9);
    if (!provider || !api_open(&a, provider)) {
        fprintf(stderr, "soft-bench: no device, or --provider is missing\n");
        return 1;
    }
    for (size_t n = 64 << 10; n <= (quick ? 1u << 20 : 64u << 20); n *= 16)
        memory(&a, n, quick ? 2 : 31);
    launches(&a, quick ? 2 : 51);
    large_module(&a);
    if (json) {
        fputs(passed ? "\n}\n" : "{}\n", json);
        fclose(json);
    }
    printf("soft-bench: %u passed, %u failed\n", passed, failed);
    return failed != 0;
}
