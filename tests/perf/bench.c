// SPDX-License-Identifier: MIT
/*
 * bench [--quick] [--json FILE] [--ours LIBRARY] --provider LIBRARY
 *
 * Measures this project's libcuda (found by the usual search, or --ours) beside the provider called
 * directly, and beside plain echoes, all in one run and interleaved: only the ratios count, as the
 * absolute figures on a shared machine change from minute to minute. Exit status 0: everything was
 * measured; targets are printed, not enforced.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool quick;
static const char *ours_path = "libcuda.so.1", *provider_path;
static struct api ours, provider;
static FILE *json;
static const char *separator = "";

/* Writes a figure to the JSON file. */
static void note(const char *name, const char *unit, double v)
{
    if (json)
        fprintf(json, "%s\n  \"%s\": {\"value\": %.6g, \"unit\": \"%s\"}", separator, name, v, unit);
    separator = ",";
}

static unsigned targets; /* numbers the ratios, as names may repeat */

static void target(const char *name, double got, const char *relation, double want)
{
    bool met = relation[0] == '<' ? got <= want : got >= want;
    printf("  %-46s %8.3g   target %s %g   %s\n", name, got, relation, want, met ? "met" : "MISSED");
    char key[96];
    snprintf(key, sizeof(key), "ratio %u %s", ++targets, name);
    note(key, "", got);
}

static bool broken(const char *what, CUresult r)
{
    if (r)
        fprintf(stderr, "bench: %s: error %d\n", what, r);
    return r != CUDA_SUCCESS;
}

/* ---- round trips ---- */

static double round_trip_ns;

/*
 * Processors available to client and server: the scheduler's placement has more effect than the
 * code.
 */
enum placement { ANYWHERE, APART, TOGETHER, PLACEMENTS };
static const char *const placements[] = {"anywhere", "two processors", "one processor"};

static void place(enum placement p, struct echo **echoes)
{
    int workers[64], server = p == ANYWHERE ? -1 : p == APART ? 1 : 0;
    size_t n = descendants(getppid(), "vgpu-worker", workers, 64);

    bind_to(getpid(), p == ANYWHERE ? -1 : 0);
    for (size_t i = 0; i < n; i++)
        bind_to(workers[i], server);
    for (int k = 0; k < ECHO_KINDS; k++)
        bind_to(echo_pid(echoes[k]), server);
}

static bool round_trips_at(enum placement where, struct echo **echoes)
{
    struct samples s[ECHO_KINDS + 1] = {0};
    unsigned rounds = quick ? 2 : 10, each = quick ? 100 : 1000;
    size_t a, b;

    place(where, echoes);
    for (unsigned r = 0; r < rounds; r++) {
        for (int k = 0; k < ECHO_KINDS; k++) {
            echo_wake(echoes[k]);
            for (unsigned i = 0; i < each / 10; i++)
                echo_once(echoes[k], NULL);
            for (unsigned i = 0; i < each; i++)
                if (!echo_once(echoes[k], &s[k]))
                    return false;
            echo_rest(echoes[k]);
        }
        for (unsigned i = 0; i < each + each / 10; i++) {
            uint64_t t0 = now_ns();
            CUresult res = ours.cuMemGetInfo(&a, &b);
            if (broken("cuMemGetInfo", res))
                return false;
            if (i >= each / 10)
                samples_add(&s[ECHO_KINDS], (double)(now_ns() - t0));
        }
    }
    printf("round trip of %d bytes, microseconds, %-23s  median      p99\n", MESSAGE, placements[where]);
    for (int k = 0; k <= ECHO_KINDS; k++) {
        const char *name = k < ECHO_KINDS ? echo_names[k] : "our ring (cuMemGetInfo)";
        char key[96];
        printf("  %-46s %8.2f %8.2f\n", name, samples_at(&s[k], 0.5) / 1e3, samples_at(&s[k], 0.99) / 1e3);
        snprintf(key, sizeof(key), "round trip %s, %s, median", name, placements[where]);
        note(key, "ns", samples_at(&s[k], 0.5));
        snprintf(key, sizeof(key), "round trip %s, %s, p99", name, placements[where]);
        note(key, "ns", samples_at(&s[k], 0.99));
    }
    round_trip_ns = samples_at(&s[ECHO_KINDS], 0.5);
    target("round trip / shared memory", round_trip_ns / samples_at(&s[ECHO_SHM], 0.5), "<=", 3);
    target("TCP echo / round trip", samples_at(&s[ECHO_TCP], 0.5) / round_trip_ns, ">=", 15);
    place(ANYWHERE, echoes);
    return true;
}

static bool round_trips(struct echo **echoes)
{
    if (sysconf(_SC_NPROCESSORS_ONLN) > 1 &&
        (!round_trips_at(TOGETHER, echoes) || !round_trips_at(APART, echoes)))
        return false;
    return round_trips_at(ANYWHERE, echoes);
}

/* ---- issuing launches ---- */

/*
 * The worker sleeps when a burst begins, because the provider was measured meanwhile and a wait
 * without work is answered by libcuda. Waking it is a cost of its own, paid by the first launch of
 * every other burst. Before the remaining bursts a call that is always sent wakes it.
 */
static bool issue(void)
{
    struct samples s[2] = {0}, first = {0};
    struct api *apis[] = {&ours, &provider};
    CUdeviceptr p[2] = {0};
    unsigned rounds = quick ? 10 : 300, burst = 64;

    for (int k = 0; k < 2; k++)
        if (broken("cuMemAlloc", apis[k]->cuMemAlloc(&p[k], 4096)) ||
            broken("cuMemsetD8", apis[k]->cuMemsetD8(p[k], 0, 4096)))
            return false;
    for (unsigned r = 0; r < rounds; r++)
        for (int k = 0; k < 2; k++) {
            bool asleep = k == 0 && r % 2 == 1;
            size_t a, b;

            if (broken("cuCtxSynchronize", apis[k]->cuCtxSynchronize()) ||
                (!asleep && broken("cuMemGetInfo", apis[k]->cuMemGetInfo(&a, &b))))
                return false;
            for (unsigned i = 0; i < burst; i++) {
                uint64_t t0 = now_ns();
                CUresult res = api_launch(apis[k], p[k], 32, 1);
                samples_add(asleep && i == 0 ? &first : &s[k], (double)(now_ns() - t0));
                if (broken("cuLaunchKernel", res))
                    return false;
            }
            if (broken("cuCtxSynchronize", apis[k]->cuCtxSynchronize()))
                return false;
        }
    for (int k = 0; k < 2; k++) { /* each launch ran exactly once */
        uint32_t v = 0;
        if (broken("cuMemcpyDtoH", apis[k]->cuMemcpyDtoH(&v, p[k], 4)))
            return false;
        if (v != rounds * burst) {
            fprintf(stderr, "bench: %u of %u launches ran\n", v, rounds * burst);
            return false;
        }
        apis[k]->cuMemFree(p[k]);
    }
    printf("issue of one asynchronous launch, microseconds\n  %-46s %8s %8s\n", "", "median", "p99");
    printf("  %-46s %8.2f %8.2f\n", "ours", samples_at(&s[0], 0.5) / 1e3, samples_at(&s[0], 0.99) / 1e3);
    printf("  %-46s %8.2f %8.2f\n", "ours, the first after a pause", samples_at(&first, 0.5) / 1e3,
           samples_at(&first, 0.99) / 1e3);
    printf("  %-46s %8.2f %8.2f\n", "provider called directly", samples_at(&s[1], 0.5) / 1e3,
           samples_at(&s[1], 0.99) / 1e3);
    note("issue ours median", "ns", samples_at(&s[0], 0.5));
    note("issue ours p99", "ns", samples_at(&s[0], 0.99));
    note("issue ours first median", "ns", samples_at(&first, 0.5));
    note("issue provider median", "ns", samples_at(&s[1], 0.5));
    note("issue provider p99", "ns", samples_at(&s[1], 0.99));
    target("issue / round trip", samples_at(&s[0], 0.5) / round_trip_ns, "<=", 0.5);
    return true;
}

/* ---- a launch and its synchronisation; launches without end ---- */

static bool launches(void)
{
    struct samples s[2] = {0}, many[2] = {0};
    struct api *apis[] = {&ours, &provider};
    CUdeviceptr p[2] = {0};
    unsigned rounds = quick ? 50 : 2000, burst = quick ? 500 : 5000;

    for (int k = 0; k < 2; k++)
        if (broken("cuMemAlloc", apis[k]->cuMemAlloc(&p[k], 4096)))
            return false;
    for (unsigned r = 0; r < rounds; r++)
        for (int k = 0; k < 2; k++) {
            uint64_t t0 = now_ns();
            if (broken("cuLaunchKernel", api_launch(apis[k], p[k], 32, 1)) ||
                broken("cuCtxSynchronize", apis[k]->cuCtxSynchronize()))
                return false;
            samples_add(&s[k], (double)(now_ns() - t0));
        }
    for (unsigned r = 0; r < 3; r++)
        for (int k = 0; k < 2; k++) {
            uint64_t t0 = now_ns();
            for (unsigned i = 0; i < burst; i++)
                if (broken("cuLaunchKernel", api_launch(apis[k], p[k], 32, 1)))
                    return false;
            if (broken("cuCtxSynchronize", apis[k]->cuCtxSynchronize()))
                return false;
            samples_add(&many[k], (double)(now_ns() - t0) / burst);
        }
    printf("one-warp kernels, microseconds: launch and synchronise (median, p99); each of %u in a row\n",
           burst);
    for (int k = 0; k < 2; k++) {
        printf("  %-46s %8.2f %8.2f %8.2f\n", k ? "provider called directly" : "ours",
               samples_at(&s[k], 0.5) / 1e3, samples_at(&s[k], 0.99) / 1e3, samples_at(&many[k], 0.5) / 1e3);
        note(k ? "launch and synchronise provider" : "launch and synchronise ours", "ns",
             samples_at(&s[k], 0.5));
        note(k ? "launch in a row provider" : "launch in a row ours", "ns", samples_at(&many[k], 0.5));
        apis[k]->cuMemFree(p[k]);
    }
    return true;
}

/* ---- copies ---- */

struct side {
    CUdeviceptr dev;
    void *host[2]; /* pageable, pinned */
};

static double copy_once(struct api *a, struct side *s, int pinned, int back, size_t n)
{
    uint64_t t0 = now_ns();
    CUresult r =
        back ? a->cuMemcpyDtoH(s->host[pinned], s->dev, n) : a->cuMemcpyHtoD(s->dev, s->host[pinned], n);
    return broken("copy", r) ? -1 : (double)(now_ns() - t0);
}

static bool copies(void)
{
    struct api *apis[] = {&ours, &provider};
    struct side side[2] = {0};
    size_t largest = quick ? 4u << 20 : 256u << 20;
    static const char *const kinds[] = {"pageable", "pinned"}, *const ways[] = {"to device", "to host"};
    double worst = 1e9;

    for (int k = 0; k < 2; k++) {
        side[k].host[0] = malloc(largest);
        if (!side[k].host[0] || broken("cuMemAlloc", apis[k]->cuMemAlloc(&side[k].dev, largest)) ||
            broken("cuMemHostAlloc", apis[k]->cuMemHostAlloc(&side[k].host[1], largest, 0)))
            return false;
        memset(side[k].host[0], k + 1, largest);
        memset(side[k].host[1], k + 3, largest);
    }
    printf("copies, GB/s: ours, the provider called directly, ratio\n");
    for (int pinned = 0; pinned < 2; pinned++)
        for (int back = 0; back < 2; back++)
            for (size_t n = 4096; n <= largest; n *= 4) {
                struct samples s[2] = {0};
                unsigned reps = n >= 64u << 20 ? 5 : n >= 1u << 20 ? 15 : 200;
                for (unsigned r = 0; r < (quick ? 3 : reps) + 2; r++)
                    for (int k = 0; k < 2; k++) {
                        double t = copy_once(apis[k], &side[k], pinned, back, n);
                        if (t < 0)
                            return false;
                        if (r >= 2)
                            samples_add(&s[k], t);
                    }
                double o = (double)n / samples_at(&s[0], 0.5), d = (double)n / samples_at(&s[1], 0.5);
                char key[96];
                printf("  %-9s %-10s %8zu KiB %10.2f %8.2f   %.2f%s\n", kinds[pinned], ways[back], n >> 10, o,
                       d, o / d, n >= 1u << 20 && o / d < 0.8 ? "  below 0.8" : "");
                snprintf(key, sizeof(key), "copy %s %s %zu ours", kinds[pinned], ways[back], n);
                note(key, "GB/s", o);
                snprintf(key, sizeof(key), "copy %s %s %zu provider", kinds[pinned], ways[back], n);
                note(key, "GB/s", d);
                if (n >= 1u << 20 && o / d < worst)
                    worst = o / d;
                free(s[0].v);
                free(s[1].v);
            }
    target("worst copy of 1 MiB or more / provider", worst, ">=", 0.8);
    for (int k = 0; k < 2; k++) {
        unsigned char *h = side[k].host[1];
        if (h[0] != k + 3 || h[largest - 1] != k + 3) {
            fprintf(stderr, "bench: a copy changed its bytes\n");
            return false;
        }
        apis[k]->cuMemFreeHost(side[k].host[1]);
        apis[k]->cuMemFree(side[k].dev);
        free(side[k].host[0]);
    }
    return true;
}

/* ---- copies of pageable memory beside the same without a protocol ---- */

/*
 * Binds two threads, or the client and its workers, to a processor each, if there are two: the
 * scheduler's placement has more effect than their work.
 */
static void place_pipeline(bool apart)
{
    int workers[64];
    const size_t n = descendants(getppid(), "vgpu-worker", workers, 64);

    if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
        return;
    bind_to(getpid(), apart ? 0 : -1);
    for (size_t i = 0; i < n; i++)
        bind_to(workers[i], apart ? 1 : -1);
    if (apart)
        pipe_bind(1);
}

static bool pipeline(void)
{
    static const size_t sizes[] = {64 << 10, 256 << 10, 1 << 20, 4 << 20, 64 << 20};
    static const char *const ways[] = {"to device", "to host"};
    const size_t largest = quick ? 4u << 20 : 64u << 20;
    struct side side = {.host = {malloc(largest)}};
    unsigned char *bare = malloc(largest);
    double worst = 1e9;

    if (!side.host[0] || !bare || broken("cuMemAlloc", ours.cuMemAlloc(&side.dev, largest)))
        return false;
    memset(side.host[0], 7, largest);
    memset(bare, 7, largest);
    pipe_wake(true);
    place_pipeline(true);
    printf("pageable copies, GB/s: ours, a bare pipeline of two threads, ratio\n");
    for (int back = 0; back < 2; back++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] <= largest; i++) {
            const size_t n = sizes[i];
            struct samples s[2] = {0};
            unsigned reps = quick ? 3 : n > 4u << 20 ? 15 : n > 256u << 10 ? 100 : 400;
            char key[96];

            for (unsigned r = 0; r < reps + 2; r++) {
                size_t a, b;
                double t;

                /* A call that is always sent wakes the worker. */
                if (broken("cuMemGetInfo", ours.cuMemGetInfo(&a, &b)) ||
                    (t = copy_once(&ours, &side, 0, back, n)) < 0)
                    return false;
                if (r >= 2)
                    samples_add(&s[0], t);
                pipe_wake(true);
                pipe_once(bare, side.host[0], 4096, back); /* until its thread runs */
                t = back ? pipe_once(side.host[0], bare, n, back) : pipe_once(bare, side.host[0], n, back);
                pipe_wake(false);
                if (r >= 2)
                    samples_add(&s[1], t);
            }
            const double o = (double)n / samples_at(&s[0], 0.5), b = (double)n / samples_at(&s[1], 0.5);

            printf("  %-10s %8zu KiB %19.2f %8.2f   %.2f%s\n", ways[back], n >> 10, o, b, o / b,
                   o / b < 0.9 ? "  below 0.9" : "");
            snprintf(key, sizeof(key), "pipeline %s %zu ours", ways[back], n);
            note(key, "GB/s", o);
            snprintf(key, sizeof(key), "pipeline %s %zu bare", ways[back], n);
            note(key, "GB/s", b);
            worst = o / b < worst ? o / b : worst;
            free(s[0].v);
            free(s[1].v);
        }
    place_pipeline(false);
    target("worst copy / bare pipeline of two threads", worst, ">=", 0.9);
    if (((unsigned char *)side.host[0])[largest - 1] != 7 || bare[largest - 1] != 7) {
        fprintf(stderr, "bench: a copy changed its bytes\n");
        return false;
    }
    ours.cuMemFree(side.dev);
    free(side.host[0]);
    free(bare);
    return true;
}

/* ---- from exec to the first kernel's result ---- */

static int first_main(const char *library)
{
    struct api a;
    CUdeviceptr p = 0;
    uint32_t v = 5;
    return !(api_open(&a, library) && !a.cuMemAlloc(&p, 4) && !a.cuMemcpyHtoD(p, &v, 4) &&
             !api_launch(&a, p, 1, 37) && !a.cuMemcpyDtoH(&v, p, 4) && v == 42);
}

static double first_once(const char *library)
{
    uint64_t t0 = now_ns();
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "bench", "--first", library, (char *)NULL);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    return status ? -1 : (double)(now_ns() - t0);
}

static bool first_kernel(void)
{
    struct samples s[2] = {0};
    for (unsigned i = 0; i < (quick ? 2u : 15u); i++)
        for (int k = 0; k < 2; k++) {
            double t = first_once(k ? provider_path : ours_path);
            if (t < 0) {
                fprintf(stderr, "bench: the first kernel failed\n");
                return false;
            }
            samples_add(&s[k], t);
        }
    printf("from exec to the first kernel's result and exit, milliseconds\n");
    printf("  %-46s %8.2f\n  %-46s %8.2f\n", "ours", samples_at(&s[0], 0.5) / 1e6, "provider called directly",
           samples_at(&s[1], 0.5) / 1e6);
    note("first kernel ours", "ns", samples_at(&s[0], 0.5));
    note("first kernel provider", "ns", samples_at(&s[1], 0.5));
    return true;
}

/* ---- idle ---- */

static bool idle(void)
{
    int pids[64];
    uint64_t before[65], after;
    unsigned seconds = quick ? 1 : 5;
    double client, back = 0;
    /* `vgpu run` is the parent of this process and of the backend. */
    size_t n = descendants(getppid(), "vgpu-worker", pids, 63);

    n += descendants(getppid(), "vgpu-backend", pids + n, 1);
    usleep(300000);
    for (size_t i = 0; i < n; i++)
        before[i] = cpu_ns(pids[i]);
    before[n] = cpu_ns(getpid());
    sleep(seconds);
    for (size_t i = 0; i < n; i++) {
        after = cpu_ns(pids[i]);
        back += after > before[i] ? (double)(after - before[i]) : 0;
    }
    client = (double)(cpu_ns(getpid()) - before[n]);
    printf("processor time while idle, percent of one core over %u s\n", seconds);
    printf("  %-46s %8.4f\n", "client", client / seconds / 1e7);
    note("idle client", "percent", client / seconds / 1e7);
    if (!n) {
        printf("not run: idle backend: its processes are not visible from here\n");
        return true;
    }
    printf("  backend and %2zu workers%*s %8.4f\n", n - 1, 24, "", back / seconds / 1e7);
    note("idle backend and workers", "percent", back / seconds / 1e7);
    target("idle percent, client and backend", (client + back) / seconds / 1e7, "<=", 0.1);
    return true;
}

int main(int argc, char **argv)
{
    const char *json_path = NULL;
    struct echo *echoes[ECHO_KINDS];
    char name[128] = "";
    unsigned failed = 0;
    static const struct {
        const char *name;
        bool (*run)(void);
    } parts[] = {{"issue", issue},       {"launches", launches},  {"copies", copies},
                 {"pipeline", pipeline}, {"first", first_kernel}, {"idle", idle}};
    const size_t nparts = sizeof(parts) / sizeof(parts[0]);
    const char *only = NULL;
    unsigned ran = 1;

    if (argc == 3 && !strcmp(argv[1], "--first"))
        return first_main(argv[2]);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--quick"))
            quick = true;
        else if (!strcmp(argv[i], "--json") && i + 1 < argc)
            json_path = argv[++i];
        else if (!strcmp(argv[i], "--ours") && i + 1 < argc)
            ours_path = argv[++i];
        else if (!strcmp(argv[i], "--provider") && i + 1 < argc)
            provider_path = argv[++i];
        else if (!strcmp(argv[i], "--only") && i + 1 < argc)
            only = argv[++i];
        else
            provider_path = NULL, i = argc;
    }
    if (!provider_path) {
        fprintf(stderr,
                "usage: bench [--quick] [--only PART] [--json FILE] [--ours LIBRARY] --provider LIBRARY\n"
                "PART, after the round trips: issue, launches, copies, pipeline, first or idle\n");
        return 2;
    }
    for (size_t i = 0; only && i <= nparts; i++) {
        if (i == nparts) {
            fprintf(stderr, "bench: there is no part '%s'; see bench --help\n", only);
            return 2;
        }
        if (!strcmp(only, parts[i].name))
            break;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int k = 0; k < ECHO_KINDS; k++)
        if (!(echoes[k] = echo_start(k)))
            return 2;
    if (!api_open(&ours, ours_path) || !api_open(&provider, provider_path))
        return 1;
    if (json_path && !(json = fopen(json_path, "w"))) {
        perror(json_path);
        return 2;
    }
    provider.cuDeviceGetName(name, sizeof(name), 0);
    printf("bench%s: %s, %ld processors\n", quick ? " (short)" : "", name, sysconf(_SC_NPROCESSORS_ONLN));
    if (json)
        fprintf(json, "{\n  \"device\": \"%s\"", name);
    separator = ",";
    failed += !round_trips(echoes);
    for (int k = 0; k < ECHO_KINDS; k++)
        echo_stop(echoes[k]);
    for (size_t i = 0; i < nparts; i++)
        if (!only || !strcmp(only, parts[i].name)) {
            ran++;
            failed += !parts[i].run();
        }
    if (json) {
        fprintf(json, "\n}\n");
        fclose(json);
    }
    printf("bench: %u passed, %u failed, 0 skipped\n", ran - failed, failed);
    return failed != 0;
}
