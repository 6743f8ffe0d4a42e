// SPDX-License-Identifier: MIT
/*
 * Round trips without a free processor: beside processes that only compute, libcuda and an echo
 * over a blocking unix socket in turn, in one run. The limits are ratios of the two.
 *
 *   crowd-bench [--quick] [--json FILE] [--ours LIBRARY]
 */
#define _GNU_SOURCE
#include "bench.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOGS_MAX 64u
/* Ratio to the echo of a blocking socket in the same run. */
#define MEDIAN_LIMIT 1.3
#define TAIL_LIMIT 3.0

static struct api ours;
static FILE *json;
static unsigned missed;

static pid_t hog_start(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (volatile uint64_t n = 0;; n++)
            ;
    }
    return pid;
}

static bool info_once(struct samples *s)
{
    size_t a, b;
    uint64_t t0 = now_ns();
    CUresult res = ours.cuMemGetInfo(&a, &b);

    if (res) {
        printf("cuMemGetInfo: %d\n", res);
        return false;
    }
    samples_add(s, (double)(now_ns() - t0));
    return true;
}

static bool launch_once(CUdeviceptr p, struct samples *s)
{
    uint64_t t0 = now_ns();
    CUresult res = api_launch(&ours, p, 1, 1);

    if (!res)
        res = ours.cuCtxSynchronize();
    if (res) {
        printf("launch and wait: %d\n", res);
        return false;
    }
    samples_add(s, (double)(now_ns() - t0));
    return true;
}

static void row(const char *name, unsigned hogs, struct samples *s, struct samples *echo)
{
    double median = samples_at(s, 0.5), tail = samples_at(s, 0.99);
    double m = median / samples_at(echo, 0.5), t = tail / samples_at(echo, 0.99);

    printf("  %2u  %-28s %9.2f %9.2f %9.2f", hogs, name, median / 1e3, tail / 1e3, samples_at(s, 1) / 1e3);
    if (s != echo)
        printf(" %7.2f %7.2f", m, t);
    printf("\n");
    if (json)
        fprintf(json,
                ",\n  \"%s, %u computing\": {\"median_ns\": %.0f, \"p99_ns\": %.0f, \"of_socket\": %.3f, "
                "\"p99_of_socket\": %.3f}",
                name, hogs, median, tail, m, t);
}

static bool beside(unsigned hogs, struct echo *echo, CUdeviceptr p, bool quick)
{
    struct samples socket = {0}, info = {0}, launch = {0};
    unsigned rounds = quick ? 3 : 20, each = quick ? 100 : 500;
    pid_t pids[HOGS_MAX];
    bool ok = true;

    for (unsigned i = 0; i < hogs; i++)
        pids[i] = hog_start();
    for (unsigned r = 0; ok && r < rounds; r++) {
        for (unsigned i = 0; ok && i < each; i++)
            ok = echo_once(echo, &socket);
        for (unsigned i = 0; ok && i < each; i++)
            ok = info_once(&info);
        for (unsigned i = 0; ok && i < each / 4; i++)
            ok = launch_once(p, &launch);
    }
    for (unsigned i = 0; i < hogs; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    if (!ok)
        return false;
    row("unix socket, blocking", hogs, &socket, &socket);
    row("ours (cuMemGetInfo)", hogs, &info, &socket);
    row("ours (launch and wait)", hogs, &launch, &socket);
    if (hogs) {
        double m = samples_at(&info, 0.5) / samples_at(&socket, 0.5);
        double t = samples_at(&info, 0.99) / samples_at(&socket, 0.99);

        printf("      median of the socket's <= %.1f: %s; p99 <= %.1f: %s\n", MEDIAN_LIMIT,
               m <= MEDIAN_LIMIT ? "met" : "MISSED", TAIL_LIMIT, t <= TAIL_LIMIT ? "met" : "MISSED");
        missed += (m > MEDIAN_LIMIT) + (t > TAIL_LIMIT);
    }
    return true;
}

int main(int argc, char **argv)
{
    const char *library = "libcuda.so.1", *path = NULL;
    unsigned processors = (unsigned)sysconf(_SC_NPROCESSORS_ONLN), passed = 0, failed = 0;
    const unsigned hogs[] = {0, processors, 2 * processors, 4 * processors};
    struct echo *echo;
    CUdeviceptr p = 0;
    bool quick = false;

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--quick"))
            quick = true;
        else if (!strcmp(argv[i], "--json") && i + 1 < argc)
            path = argv[++i];
        else if (!strcmp(argv[i], "--ours") && i + 1 < argc)
            library = argv[++i];
        else {
            fprintf(stderr, "usage: crowd-bench [--quick] [--json FILE] [--ours LIBRARY]\n");
            return 2;
        }
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!(echo = echo_start(ECHO_UNIX)) || !api_open(&ours, library) || ours.cuMemAlloc(&p, 4096))
        return 1;
    if (path && !(json = fopen(path, "w"))) {
        perror(path);
        return 2;
    }
    if (json)
        fprintf(json, "{\n  \"processors\": %u", processors);
    printf("round trips in microseconds beside computing processes, %u processors\n", processors);
    printf(
        "computing                             median       p99       max  of the socket's: median, p99\n");
    for (unsigned i = 0; i < sizeof(hogs) / sizeof(hogs[0]); i++) {
        if (hogs[i] <= HOGS_MAX && beside(hogs[i], echo, p, quick))
            passed++;
        else
            failed++;
    }
    echo_stop(echo);
    if (json) {
        fprintf(json, "\n}\n");
        fclose(json);
    }
    printf("targets missed: %u\n", missed);
    printf("crowd-bench: %u passed, %u failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
