// SPDX-License-Identifier: MIT
/*
 * Operations of the driver API through one library, for a comparison of libraries (peers.py):
 *
 *  peer LIBRARY GROUP [--quick]   a line "ROW VALUE us" for each row, or "ROW error CAUSE"
 *  peer --list                    a line "GROUP ROW..." for each group
 *  peer --spin                    computes until killed
 *
 * Results are compared with the expected ones: success without the work is an error. Only the calls
 * of a group are looked up, so that a library that lacks other calls can run it. Exit status 1: a
 * row is an error.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Names as cuda.h maps them: cuMemAlloc is cuMemAlloc_v2. */
#define NAME(symbol) #symbol
#define SYMBOL(symbol) NAME(symbol)
/* clang-format off */
#define PEER_CALLS(X) \
    X(cuInit) X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) X(cuCtxSynchronize) X(cuMemGetInfo) \
    X(cuModuleLoadData) X(cuModuleGetFunction) X(cuModuleUnload) X(cuLaunchKernel) \
    X(cuMemAlloc) X(cuMemFree) X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemcpyHtoD) X(cuMemcpyDtoH) \
    X(cuMemsetD8) X(cuStreamCreate) X(cuStreamSynchronize) X(cuStreamBeginCapture) X(cuStreamEndCapture) \
    X(cuEventCreate) X(cuEventRecord) X(cuEventQuery) X(cuGraphInstantiate) X(cuGraphLaunch)
/* clang-format on */

static struct {
#define X(symbol) __typeof__(&symbol) symbol;
    PEER_CALLS(X)
#undef X
} cu;

static const char *library;
static bool quick;
static CUfunction add;
static CUdeviceptr counter;
static unsigned counted;
static char cause[128];
static unsigned errors;

static bool fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (!cause[0]) /* keeps the first error of a row, not its consequences */
        vsnprintf(cause, sizeof(cause), format, args);
    va_end(args);
    return false;
}

static bool succeeded(const char *call, CUresult res)
{
    return res == CUDA_SUCCESS || fail("%s=%d", call, res);
}

/* True if the call exists and succeeds. */
#define TRY(symbol, ...) \
    (cu.symbol ? succeeded(SYMBOL(symbol), cu.symbol(__VA_ARGS__)) : fail("no_%s", SYMBOL(symbol)))

static void report(const char *row, bool ok, struct samples *s)
{
    if (ok)
        printf("%s %.4f us\n", row, samples_at(s, 0.5) / 1e3);
    else
        printf("%s error %s\n", row, cause);
    errors += !ok;
    free(s->v);
    *s = (struct samples){0};
}

/* True if a row continues: at least `least` samples, then up to `most` within the time of a row. */
static bool more(const struct samples *s, size_t least, size_t most, uint64_t since)
{
    if (quick)
        return s->n < 3;
    return s->n < least || (s->n < most && now_ns() - since < 300000000u);
}

static bool launch(CUfunction f, CUdeviceptr p, CUstream stream)
{
    unsigned n = 1, v = 1;
    void *params[] = {&p, &n, &v};

    return TRY(cuLaunchKernel, f, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL);
}

/* True if the counter in device memory equals the number of launches. */
static bool counter_right(void)
{
    uint32_t v = 0;

    if (!TRY(cuMemcpyDtoH, &v, counter, sizeof(v)))
        return false;
    return v == counted || fail("wrong_count_%u_of_%u", v, counted);
}

static bool start(void)
{
    void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    CUcontext ctx;
    CUmodule mod;
    uint32_t zero = 0;

    if (!lib) {
        fprintf(stderr, "peer: %s\n", dlerror());
        return fail("not_loaded");
    }
#define X(symbol) *(void **)&cu.symbol = dlsym(lib, SYMBOL(symbol));
    PEER_CALLS(X)
#undef X
    return TRY(cuInit, 0) && TRY(cuDevicePrimaryCtxRetain, &ctx, 0) && TRY(cuCtxSetCurrent, ctx) &&
           TRY(cuModuleLoadData, &mod, api_ptx) && TRY(cuModuleGetFunction, &add, mod, "add") &&
           TRY(cuMemAlloc, &counter, 4096) && TRY(cuMemcpyHtoD, counter, &zero, sizeof(zero));
}

/* ---- rows; names: the rows of the group ---- */

/* True if the amount of free memory changes with an allocation, so the device provides it. */
static bool info_follows(void)
{
    size_t before = 0, after = 0, total = 0, size = 64u << 20;
    CUdeviceptr p;

    if (!TRY(cuMemGetInfo, &before, &total) || !TRY(cuMemAlloc, &p, size) || !TRY(cuMemsetD8, p, 1, size) ||
        !TRY(cuCtxSynchronize) || !TRY(cuMemGetInfo, &after, &total) || !TRY(cuMemFree, p))
        return false;
    return (before <= total && after + size <= before) || fail("free_memory_does_not_follow");
}

static void info(const char *const *names)
{
    struct samples s = {0};
    bool ok = info_follows();

    for (uint64_t since = now_ns(); ok && more(&s, 20, 5000, since);) {
        size_t a, b;
        uint64_t t0 = now_ns();
        ok = TRY(cuMemGetInfo, &a, &b);
        samples_add(&s, (double)(now_ns() - t0));
    }
    report(names[0], ok, &s);
}

static bool usable(CUdeviceptr p, size_t size, uint8_t value)
{
    uint8_t ends[2] = {0};

    if (!TRY(cuMemsetD8, p, value, size) || !TRY(cuMemcpyDtoH, &ends[0], p, 1) ||
        !TRY(cuMemcpyDtoH, &ends[1], p + size - 1, 1))
        return false;
    return (ends[0] == value && ends[1] == value) || fail("wrong_data");
}

static void alloc(const char *const *names)
{
    struct samples s = {0};
    bool ok = true;

    for (uint64_t since = now_ns(); ok && more(&s, 20, 2000, since);) {
        CUdeviceptr p = 0;
        uint64_t t0 = now_ns();
        ok = TRY(cuMemAlloc, &p, 1u << 20);
        uint64_t t1 = now_ns();
        ok = ok && (s.n % 16 || usable(p, 1u << 20, (uint8_t)(s.n + 1))); /* untimed */
        uint64_t t2 = now_ns();
        ok = ok && TRY(cuMemFree, p);
        samples_add(&s, (double)(now_ns() - t2 + t1 - t0));
    }
    report(names[0], ok, &s);
}

static void launch_wait(const char *const *names)
{
    struct samples s = {0};
    bool ok = true;

    for (uint64_t since = now_ns(); ok && more(&s, 20, 5000, since); counted++) {
        uint64_t t0 = now_ns();
        ok = launch(add, counter, NULL) && TRY(cuCtxSynchronize);
        samples_add(&s, (double)(now_ns() - t0));
    }
    ok = ok && counter_right();
    report(names[0], ok, &s);
}

static void issue(const char *const *names)
{
    struct samples s = {0}, run = {0};
    unsigned burst = quick ? 200 : 5000;
    bool ok = true;

    for (uint64_t since = now_ns(); ok && more(&s, 1, 5, since);) {
        uint64_t t0 = now_ns();
        for (unsigned i = 0; ok && i < burst; i++)
            ok = launch(add, counter, NULL);
        samples_add(&s, (double)(now_ns() - t0) / burst);
        ok = ok && TRY(cuCtxSynchronize);
        samples_add(&run, (double)(now_ns() - t0) / burst);
        counted += burst;
        ok = ok && counter_right();
    }
    report(names[0], ok, &s);
    report(names[1], ok, &run);
}

static void event(const char *const *names)
{
    struct samples s = {0};
    CUevent e = NULL;
    bool ok = TRY(cuEventCreate, &e, CU_EVENT_DISABLE_TIMING) && launch(add, counter, NULL) &&
              TRY(cuEventRecord, e, NULL) && TRY(cuCtxSynchronize);

    counted++;
    ok = ok && counter_right();
    for (uint64_t since = now_ns(); ok && more(&s, 20, 20000, since);) {
        uint64_t t0 = now_ns();
        ok = TRY(cuEventQuery, e);
        samples_add(&s, (double)(now_ns() - t0));
    }
    report(names[0], ok, &s);
}

#define GRAPH_NODES 20u
static void graph(const char *const *names)
{
    struct samples s = {0};
    CUstream stream = NULL;
    CUgraph g = NULL;
    CUgraphExec x = NULL;
    bool ok = TRY(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING) &&
              TRY(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);

    for (unsigned i = 0; ok && i < GRAPH_NODES; i++)
        ok = launch(add, counter, stream);
    ok = ok && TRY(cuStreamEndCapture, stream, &g) && TRY(cuGraphInstantiate, &x, g, 0);
    for (uint64_t since = now_ns(); ok && more(&s, 20, 2000, since); counted += GRAPH_NODES) {
        uint64_t t0 = now_ns();
        ok = TRY(cuGraphLaunch, x, stream) && TRY(cuStreamSynchronize, stream);
        samples_add(&s, (double)(now_ns() - t0));
    }
    ok = ok && counter_right();
    report(names[0], ok, &s);
}

static void module(const char *const *names)
{
    struct samples s = {0};
    bool ok = true;

    for (uint64_t since = now_ns(); ok && more(&s, 10, 500, since); counted++) {
        CUmodule mod = NULL;
        CUfunction f = NULL;
        uint64_t t0 = now_ns();
        ok = TRY(cuModuleLoadData, &mod, api_ptx) && TRY(cuModuleGetFunction, &f, mod, "add");
        uint64_t t1 = now_ns();
        ok = ok && launch(f, counter, NULL) && TRY(cuCtxSynchronize); /* untimed */
        uint64_t t2 = now_ns();
        ok = ok && TRY(cuModuleUnload, mod);
        samples_add(&s, (double)(now_ns() - t2 + t1 - t0));
    }
    ok = ok && counter_right();
    report(names[0], ok, &s);
}

/* ---- copies ---- */

static const size_t sizes[] = {4u << 10, 64u << 10, 1u << 20, 16u << 20};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))
#define END 8u /* bytes at either end that differ between copies */
#define IN_A_ROW 8u

static void stamp(uint8_t *p, size_t n, uint8_t value)
{
    memset(p, value, END);
    memset(p + n - END, value, END);
}

static void pattern(uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i += 4) {
        uint32_t v = (uint32_t)i * 2654435761u;
        memcpy(p + i, &v, sizeof(v));
    }
}

static bool same(const uint8_t *a, const uint8_t *b, size_t n)
{
    return !memcmp(a, b, n) || fail("wrong_data");
}

/*
 * A copy to the device may return before its end: times several copies of different data with the
 * wait for all.
 */
static bool copies_to(struct samples *s, uint8_t *host, uint8_t *check, CUdeviceptr p, size_t n)
{
    uint8_t value = 0, ends[2 * END] = {0};
    bool ok = true;

    pattern(host, n);
    for (uint64_t since = now_ns(); ok && more(s, 3, 200, since);) {
        uint64_t t0 = now_ns();
        for (unsigned i = 0; ok && i < IN_A_ROW; i++) {
            stamp(host, n, ++value);
            ok = TRY(cuMemcpyHtoD, p, host, n);
        }
        ok = ok && TRY(cuCtxSynchronize);
        samples_add(s, (double)(now_ns() - t0) / IN_A_ROW);
        ok = ok && TRY(cuMemcpyDtoH, ends, p, END) && TRY(cuMemcpyDtoH, ends + END, p + n - END, END) &&
             same(ends, host, END) && same(ends + END, host + n - END, END);
    }
    memset(check, 0, n);
    return ok && TRY(cuMemcpyDtoH, check, p, n) && same(check, host, n);
}

/*
 * Before each copy the device's data changes at both ends and the host's copy is overwritten there.
 */
static bool copies_from(struct samples *s, uint8_t *host, uint8_t *check, CUdeviceptr p, size_t n)
{
    uint8_t value = 0;
    bool ok;

    pattern(check, n);
    ok = TRY(cuMemcpyHtoD, p, check, n);
    memset(host, 0, n);
    for (uint64_t since = now_ns(); ok && more(s, 5, 1000, since);) {
        stamp(check, n, ++value);
        stamp(host, n, (uint8_t)~value);
        ok = TRY(cuMemsetD8, p, value, END) && TRY(cuMemsetD8, p + n - END, value, END) &&
             TRY(cuCtxSynchronize);
        uint64_t t0 = now_ns();
        ok = ok && TRY(cuMemcpyDtoH, host, p, n);
        samples_add(s, (double)(now_ns() - t0));
        ok = ok && same(host, check, END) && same(host + n - END, check + n - END, END);
    }
    return ok && same(host, check, n);
}

static bool copy_row(struct samples *s, size_t n, bool pinned, bool to)
{
    uint8_t *host = NULL, *check = malloc(n);
    CUdeviceptr p = 0;
    bool ok;

    cause[0] = 0;
    ok = check || fail("no_memory");
    if (ok && pinned)
        ok = TRY(cuMemHostAlloc, (void **)&host, n, 0);
    else if (ok)
        host = malloc(n);
    ok = ok && (host || fail("no_memory"));
    ok = ok && TRY(cuMemAlloc, &p, n) && (to ? copies_to : copies_from)(s, host, check, p, n);
    if (p)
        ok = TRY(cuMemFree, p) && ok;
    if (!pinned)
        free(host);
    else if (host)
        ok = TRY(cuMemFreeHost, host) && ok;
    free(check);
    return ok;
}

static void copies(const char *const *names, bool pinned)
{
    for (size_t i = 0; i < 2 * SIZES; i++) {
        struct samples s = {0};
        bool ok = copy_row(&s, sizes[i % SIZES], pinned, i < SIZES);
        report(names[i], ok, &s);
    }
}

static void pageable(const char *const *names)
{
    copies(names, false);
}

static void pinned(const char *const *names)
{
    copies(names, true);
}

/* ---- from exec to the first result: a process each, which reports the time ---- */

static int first_result(void)
{
    counted = 1;
    bool ok = start() && launch(add, counter, NULL) && counter_right();

    if (ok)
        printf("%llu\n", (unsigned long long)now_ns());
    else
        printf("%s\n", cause);
    return !ok;
}

static bool first_once(struct samples *s)
{
    char line[sizeof(cause)] = "", *end = line;
    int fds[2], status = 0;
    uint64_t t0 = now_ns();

    if (pipe(fds))
        return fail("no_pipe");
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        close(fds[0]);
        close(fds[1]);
        execl("/proc/self/exe", "peer", library, "first", NULL);
        _exit(127);
    }
    close(fds[1]);
    FILE *f = fdopen(fds[0], "r");
    if (!f || !fgets(line, sizeof(line), f))
        line[0] = 0;
    if (f)
        fclose(f);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return fail("no_process");
    line[strcspn(line, "\n")] = 0;
    unsigned long long t1 = strtoull(line, &end, 10);
    if (WIFSIGNALED(status))
        return fail("signal_%d", WTERMSIG(status));
    if (end == line || *end)
        return fail("%s", line[0] ? line : "no_answer");
    samples_add(s, (double)(t1 - t0));
    return true;
}

static void first(const char *const *names)
{
    struct samples s = {0};
    bool ok = true;

    for (uint64_t since = now_ns(); ok && more(&s, 3, 20, since);)
        ok = first_once(&s);
    report(names[0], ok, &s);
}

#define COPY_ROWS(kind) \
    kind "-to-device-4K", kind "-to-device-64K", kind "-to-device-1M", kind "-to-device-16M", \
        kind "-to-host-4K", kind "-to-host-64K", kind "-to-host-1M", kind "-to-host-16M"

static const struct group {
    const char *name;
    void (*run)(const char *const *names);
    bool starts_itself;
    const char *rows[2 * SIZES + 1];
} groups[] = {
    {"info", info, false, {"synchronous-call"}},
    {"alloc", alloc, false, {"alloc-free-1M"}},
    {"launch", launch_wait, false, {"launch-synchronize"}},
    {"issue", issue, false, {"launch-issue", "launch-issue-and-run"}},
    {"event", event, false, {"event-query"}},
    {"graph", graph, false, {"graph-20-nodes"}},
    {"module", module, false, {"module-load-unload"}},
    {"pageable", pageable, false, {COPY_ROWS("pageable")}},
    {"pinned", pinned, false, {COPY_ROWS("pinned")}},
    {"start", first, true, {"exec-first-result"}},
};
#define GROUPS (sizeof(groups) / sizeof(groups[0]))

static int list(void)
{
    for (size_t i = 0; i < GROUPS; i++) {
        printf("%s", groups[i].name);
        for (size_t k = 0; groups[i].rows[k]; k++)
            printf(" %s", groups[i].rows[k]);
        printf("\n");
    }
    return 0;
}

static _Noreturn void spin(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (volatile uint64_t n = 0;; n++)
        ;
}

static int usage(void)
{
    fprintf(stderr, "usage: peer LIBRARY GROUP [--quick] | --list | --spin\n");
    return 2;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 2 && !strcmp(argv[1], "--spin"))
        spin();
    if (argc == 2)
        return !strcmp(argv[1], "--list") ? list() : usage();
    if (argc < 3 || argc > 4 || (argc == 4 && strcmp(argv[3], "--quick")))
        return usage();
    library = argv[1];
    quick = argc == 4;
    if (!strcmp(argv[2], "first"))
        return first_result();
    for (size_t i = 0; i < GROUPS; i++) {
        if (strcmp(groups[i].name, argv[2]))
            continue;
        if (groups[i].starts_itself || start())
            groups[i].run(groups[i].rows);
        else
            for (size_t k = 0; groups[i].rows[k]; k++)
                report(groups[i].rows[k], false, &(struct samples){0});
        return errors != 0;
    }
    return usage();
}
