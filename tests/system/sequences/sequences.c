/* SPDX-License-Identifier: MIT */
/*
 * Random sequences of driver-API calls on few live handles. Objects freed too early, used after
 * their end or counted wrongly are detected by the sanitizer of the library under test: build
 * host/softgpu with one.
 *
 *   sequences [--first SEED] [--seconds N] [--seeds N] [--steps N] [--threads N] [--limit SECONDS]
 *             [--jobs N] [--counts] [--once] [--trace] [--reports FOLDER]
 *
 * Each seed runs in a separate process; a single thread makes the same calls for the same seed. A
 * process ended by a signal or a sanitizer is a finding, as is one that does not end in time: it
 * prints its threads' stacks. A new file in FOLDER is a finding, too: the report of another process
 * that does the library's work. Exit status 1: a finding.
 */
#define _GNU_SOURCE
#include "sequences.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HANG_EXIT 9
/*
 * Calls without a single success that cannot be due to chance: the rarest succeed once in seventy,
 * but many seeds lose their context early.
 */
#define SILENT_CALLS 3000u
#define STEPS_MAX 400u

struct seq_objects seq;
CUfunction seq_setter, seq_fault;
char seq_host[SEQ_BYTES];
static __thread uint64_t seq_state;
static unsigned home, host_us = 50, hold_ms = 2; /* of this seed */

static struct seq_step steps[STEPS_MAX];
static unsigned nsteps, nfamilies, family[STEPS_MAX];
static unsigned weight[STEPS_MAX], weights; /* of this seed */
static unsigned per_seed = 600;
unsigned seq_threads = 1, seq_slots = SEQ_SLOTS;
static unsigned limit_s = 60;
static bool trace;
/* Shared by all processes. */
static struct {
    _Atomic uint64_t calls[STEPS_MAX], good[STEPS_MAX];
} * counts;

unsigned seq_random(unsigned n)
{
    seq_state ^= seq_state << 13;
    seq_state ^= seq_state >> 7;
    seq_state ^= seq_state << 17;
    return (unsigned)((seq_state >> 11) % n);
}

static _Atomic bool held;

void seq_hold(bool on)
{
    held = on;
}

void seq_host_function(void *argument)
{
    (void)argument;
    for (unsigned ms = 0; held && ms < hold_ms; ms++)
        usleep(1000);
    usleep(host_us);
}

CUcontext seq_home(void)
{
    return seq.context[home] ?: seq.context[0];
}

static void seed_thread(uint64_t seed)
{
    seq_state = seed * 0x9e3779b97f4a7c15u + 1;
    for (unsigned i = 0; i < 20; i++)
        seq_random(2);
}

static void steps_of(const struct seq_step *list)
{
    for (; list->call && nsteps < STEPS_MAX; list++) {
        family[nsteps] = nfamilies;
        steps[nsteps++] = *list;
    }
    nfamilies++;
}

/*
 * Each seed makes some calls often and others never: an even mixture seldom gets far with any
 * object.
 */
static void weigh_steps(void)
{
    static const unsigned factor[] = {0, 1, 2, 2, 8}, family_factor[] = {0, 0, 1, 4};
    unsigned of_family = 0;

    for (unsigned i = 0; i < nsteps; i++) {
        if (i == 0 || family[i] != family[i - 1])
            of_family = family_factor[seq_random(4)];
        weights += weight[i] = steps[i].weight * of_family * factor[seq_random(5)];
    }
    weight[0]++; /* at least one is always available */
    weights++;
}

void seq_count(unsigned at, CUresult r)
{
    counts->calls[at]++;
    counts->good[at] += r == CUDA_SUCCESS;
    if (trace)
        fprintf(stderr, "%s: %d\n", steps[at].call, (int)r);
}

void seq_noise(void)
{
    unsigned at = seq_random(weights), i = 0;

    while (at >= weight[i])
        at -= weight[i++];
    seq_count(i, steps[i].run());
}

static void all_steps(void)
{
    for (unsigned i = 0, n; i < per_seed; i += n ?: 1) {
        n = seq_plot();
        if (!n)
            seq_noise();
    }
}

/* Adds an act of a plot: counted, but not a step by itself. */
static unsigned step_counted(const char *what)
{
    if (nsteps == STEPS_MAX) {
        fprintf(stderr, "too many acts\n");
        exit(2);
    }
    family[nsteps] = nfamilies;
    steps[nsteps] = (struct seq_step){.call = what};
    return nsteps++;
}

/* A process that hangs prints the stack of each thread, if the sanitizers' library is present. */
extern void __sanitizer_print_stack_trace(void) __attribute__((weak));
extern int __asan_report_present(void) __attribute__((weak));

static _Atomic unsigned stacks_shown;

static void show_stack(int signal_number)
{
    (void)signal_number;
    fprintf(stderr, "thread %ld:\n", (long)gettid());
    if (__sanitizer_print_stack_trace)
        __sanitizer_print_stack_trace();
    stacks_shown++;
}

static void on_alarm(int signal_number)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *e;

    (void)signal_number;
    while (tasks && (e = readdir(tasks)) != NULL) {
        const pid_t thread = (pid_t)atoi(e->d_name);
        const unsigned before = stacks_shown;

        if (thread <= 0 || tgkill(getpid(), thread, SIGUSR1))
            continue;
        for (unsigned ms = 0; ms < 500 && stacks_shown == before; ms++)
            usleep(1000);
    }
    _exit(HANG_EXIT);
}

static void *other_thread(void *seed)
{
    seed_thread((uint64_t)(uintptr_t)seed);
    if (cuCtxSetCurrent(seq_home()) != CUDA_SUCCESS)
        return NULL;
    all_steps();
    return NULL;
}

static bool begin(void)
{
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&seq.context[0], 0) || cuCtxSetCurrent(seq.context[0]) ||
        cuMemAlloc_v2(&seq.memory[0], 1 << 16) || cuModuleLoadData(&seq.module[0], seq_ptx))
        return false;
    for (unsigned i = 1; i < 3; i++)
        seq.memory[i] = seq.memory[0] + SEQ_BYTES * i;
    for (unsigned i = 0; i < SEQ_SLOTS; i++)
        if (cuModuleGetFunction(&seq.function[i], seq.module[0], "store"))
            return false;
    if (cuModuleGetFunction(&seq_setter, seq.module[0], "set"))
        return false;
    if (home && (cuCtxCreate_v2(&seq.context[home], 0, 0) || cuModuleLoadData(&seq.module[1], seq_ptx) ||
                 cuModuleGetFunction(&seq_fault, seq.module[1], "fault")))
        return false;
    for (unsigned i = 0; i < 3; i++)
        if (cuStreamCreate(&seq.stream[i], CU_STREAM_NON_BLOCKING) || cuEventCreate(&seq.event[i], 0) ||
            cuGraphCreate(&seq.graph[i], 0))
            return false;
    return true;
}

static void child(uint64_t seed)
{
    pthread_t t[8];

    signal(SIGUSR1, show_stack);
    signal(SIGALRM, on_alarm);
    alarm(limit_s);
    seed_thread(seed);
    weigh_steps();
    seq_plots_choose();
    seq_slots = 2 + seq_random(SEQ_SLOTS - 1);
    home = seq_random(3) == 0;
    host_us = seq_random(3) ? 50 : 2000;
    hold_ms = seq_random(4) ? 4 : 30;
    if (!begin()) {
        fprintf(stderr, "the library does not start\n");
        _exit(3);
    }
    for (unsigned i = 1; i < seq_threads; i++)
        if (pthread_create(&t[i], NULL, other_thread, (void *)(uintptr_t)(seed + i * 1000003)))
            _exit(3);
    all_steps();
    for (unsigned i = 1; i < seq_threads; i++)
        pthread_join(t[i], NULL);
    /* A thread of the library may be about to print a report. */
    while (__asan_report_present && __asan_report_present())
        usleep(1000);
    _exit(0);
}

/* Number of files in a folder; NULL: 0. */
static unsigned reports_in(const char *folder)
{
    DIR *d = folder ? opendir(folder) : NULL;
    struct dirent *e;
    unsigned n = 0;

    while (d && (e = readdir(d)) != NULL)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

static void show_counts(void)
{
    for (unsigned i = 0; i < nsteps; i++)
        printf("%-36s %8llu calls, %8llu succeeded\n", steps[i].call, (unsigned long long)counts->calls[i],
               (unsigned long long)counts->good[i]);
}

#define JOBS_MAX 16u
static struct {
    pid_t pid; /* 0: free */
    unsigned long long seed;
} job[JOBS_MAX];

/* Waits for a seed's process; 0: another process ended. */
static unsigned seed_ended(unsigned jobs, const char *folder, unsigned long long *done, unsigned *findings)
{
    static unsigned reports;
    unsigned k = 0;
    int status;
    const pid_t pid = waitpid(-1, &status, 0);

    if (pid < 0)
        exit(2);
    while (k < jobs && job[k].pid != pid)
        k++;
    if (k == jobs) /* the process with IPC handles */
        return 0;
    job[k].pid = 0;
    ++*done;
    if (reports_in(folder) > reports) { /* a worker ends after its client */
        reports = reports_in(folder);
        ++*findings;
        printf("FAIL: seed %llu or one of the %u before it: a report in %s\n", job[k].seed, jobs, folder);
    }
    if (status == 0)
        return 1;
    ++*findings;
    printf(
        "FAIL: seed %llu: %s %d; again: sequences --first %llu --seeds 1 --steps %u --threads %u --trace\n",
        job[k].seed, WIFSIGNALED(status) ? "signal" : "status",
        WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), job[k].seed, per_seed, seq_threads);
    return 1;
}

int main(int argc, char **argv)
{
    unsigned long long first = 1, seeds = 1000000000, seconds = 60, done = 0, calls = 0, good = 0;
    unsigned findings = 0, silent = 0, jobs = 1;
    const char *folder = NULL;
    bool counted = false, once = false;
    time_t until;

    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;

        if (!strcmp(argv[i], "--counts"))
            counted = true;
        else if (!strcmp(argv[i], "--once"))
            once = true;
        else if (!strcmp(argv[i], "--trace"))
            trace = true;
        else if (value && !strcmp(argv[i], "--reports"))
            folder = argv[++i];
        else if (value && !strcmp(argv[i], "--first"))
            first = strtoull(argv[++i], NULL, 0);
        else if (value && !strcmp(argv[i], "--seeds"))
            seeds = strtoull(argv[++i], NULL, 0);
        else if (value && !strcmp(argv[i], "--seconds"))
            seconds = strtoull(argv[++i], NULL, 0);
        else if (value && !strcmp(argv[i], "--steps"))
            per_seed = (unsigned)strtoul(argv[++i], NULL, 0);
        else if (value && !strcmp(argv[i], "--limit"))
            limit_s = (unsigned)strtoul(argv[++i], NULL, 0);
        else if (value && !strcmp(argv[i], "--jobs"))
            jobs = (unsigned)strtoul(argv[++i], NULL, 0);
        else if (value && !strcmp(argv[i], "--threads"))
            seq_threads = (unsigned)strtoul(argv[++i], NULL, 0);
        else
            seq_threads = 0;
    }
    if (seq_threads < 1 || seq_threads > 8 || jobs < 1 || jobs > JOBS_MAX) {
        fprintf(stderr,
                "usage: sequences [--first SEED] [--seconds N] [--seeds N] [--steps N] [--threads 1..8] "
                "[--limit SECONDS] [--jobs 1..16] [--counts] [--once] [--trace] [--reports FOLDER]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (counts == MAP_FAILED)
        return 2;
    steps_of(seq_graph_steps);
    nfamilies--; /* as above, for families */
    steps_of(seq_node_steps);
    steps_of(seq_stream_steps);
    steps_of(seq_memory_steps);
    steps_of(seq_code_steps);
    steps_of(seq_share_steps);
    seq_plots_begin(step_counted);
    if (!seq_share_begin()) {
        fprintf(stderr, "the process with IPC handles does not start\n");
        return 2;
    }
    until = time(NULL) + (time_t)seconds;
    for (unsigned long long seed = first, under_way = 0;;) {
        if (under_way < jobs && seed - first < seeds && time(NULL) < until && !(once && findings)) {
            unsigned k = 0;

            while (job[k].pid)
                k++;
            job[k].seed = seed++;
            job[k].pid = fork();
            if (job[k].pid == 0)
                child(job[k].seed);
            if (job[k].pid < 0)
                return 2;
            under_way++;
            continue;
        }
        if (!under_way)
            break;
        under_way -= seed_ended(jobs, folder, &done, &findings);
    }
    if (counted)
        show_counts();
    for (unsigned i = 0; i < nsteps; i++) {
        calls += counts->calls[i];
        good += counts->good[i];
        if (!counts->good[i] &&
            (counts->calls[i] ? counts->calls[i] >= SILENT_CALLS : done >= SILENT_CALLS)) {
            silent++;
            printf("FAIL: %s succeeded in none of %llu calls: the sequences do not reach it\n", steps[i].call,
                   (unsigned long long)counts->calls[i]);
        }
    }
    printf("%llu seeds, %u threads: %llu calls, %llu succeeded, %u findings\n", done, seq_threads, calls,
           good, findings);
    return findings || silent;
}
