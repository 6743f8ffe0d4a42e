// SPDX-License-Identifier: MIT
/* The process: fork, exec, exit with work in flight; the hidden modes of the program. */
#include "stream/other_api.h"
#include "peer.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

static bool ready(void)
{
    CUcontext c;
    return cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&c, 0) == CUDA_SUCCESS &&
           cuCtxSetCurrent(c) == CUDA_SUCCESS;
}

/* A small complete program. */
static bool mode_good(void)
{
    CUmodule m;
    CUfunction f;
    CUdeviceptr p = 0;
    unsigned n = 1000, v = 7;
    void *params[] = {&p, &n, &v};

    bool ok = ready() && cuModuleLoadData(&m, cf_ptx) == CUDA_SUCCESS &&
              cuModuleGetFunction(&f, m, "k_fill") == CUDA_SUCCESS && cuMemAlloc(&p, 4000) == CUDA_SUCCESS &&
              cf_launch(f, 8, 128, 0, NULL, params) == CUDA_SUCCESS && cf_filled(p, n, v);
    puts(ok ? "good" : "bad");
    return ok;
}

/* Exits with a kernel that never ends, without waiting for it: by exit, _exit or a signal. */
static bool mode_busy(const char *how)
{
    CUmodule m;
    CUfunction f;
    CUdeviceptr p = 0;
    unsigned limit = 0;
    CUdeviceptr out = 0;
    void *params[] = {&p, &out, &limit};

    bool ok = ready() && cuModuleLoadData(&m, cf_ptx) == CUDA_SUCCESS &&
              cuModuleGetFunction(&f, m, "k_wait") == CUDA_SUCCESS && cuMemAlloc(&p, 4) == CUDA_SUCCESS &&
              cuMemAlloc(&out, 4) == CUDA_SUCCESS && cuMemsetD8(p, 0, 4) == CUDA_SUCCESS &&
              cf_launch(f, 1, 32, 0, NULL, params) == CUDA_SUCCESS;
    puts(ok ? "busy" : "bad");
    fflush(stdout);
    if (!strcmp(how, "_exit"))
        _exit(ok ? 0 : 2);
    if (!strcmp(how, "kill"))
        raise(SIGKILL);
    return ok;
}

static volatile sig_atomic_t stop;

static void leave(int signal)
{
    (void)signal;
    stop = 1;
}

/* Works until a signal arrives: copies and launches, each waited for. */
static bool mode_work(const char *how)
{
    CUdeviceptr p = 0;
    CUcontext c = NULL;

    if (!strcmp(how, "handler"))
        signal(SIGTERM, leave);
    if (!ready() || cuCtxGetCurrent(&c) != CUDA_SUCCESS || cuMemAlloc(&p, 1 << 20) != CUDA_SUCCESS)
        return false;
    puts("working");
    fflush(stdout);
    while (!stop) {
        if (cuCtxSynchronize() != CUDA_SUCCESS || cuMemsetD8Async(p, 1, 1 << 20, NULL) != CUDA_SUCCESS)
            return false;
    }
    exit(3); /* with work in flight */
}

static CUdeviceptr left_over;

/* Runs when the process exits: before or after libcuda's own exit handlers. */
static void at_the_end(void)
{
    CUdeviceptr p;
    CUresult r = cuMemAlloc(&p, 64);
    bool ok = r == CUDA_SUCCESS || r == CUDA_ERROR_DEINITIALIZED;

    ok &= r != CUDA_SUCCESS || cuMemFree(left_over) == CUDA_SUCCESS;
    fputs(ok ? "late " : "bad ", stdout);
    fflush(stdout);
}

static void __attribute__((destructor)) very_late(void)
{
    if (left_over != 0)
        at_the_end();
}

/* Calls from an exit handler registered before cuInit, and from a destructor. */
static bool mode_late(void)
{
    atexit(at_the_end);
    return ready() && cuMemAlloc(&left_over, 4096) == CUDA_SUCCESS;
}

bool cf_mode_run(const char *mode, const char *arg)
{
    if (!strcmp(mode, "good"))
        return mode_good();
    if (!strcmp(mode, "busy"))
        return mode_busy(arg);
    if (!strcmp(mode, "work"))
        return mode_work(arg);
    if (!strcmp(mode, "late"))
        return mode_late();
    if (!strcmp(mode, "peer"))
        return peer_main(arg);
    if (!strcmp(mode, "semaphore"))
        return ready() && cf_sem_leave(arg);
    fprintf(stderr, "conform: no mode %s\n", mode);
    return false;
}

CASE(process_fork, CF_ALONE | CF_CTX)
{
    CUdeviceptr p = 0;
    char out[64];
    int status;

    NEED(cuMemAlloc(&p, 4000));
    NEED(cf_fill(p, 1000, 4, NULL));
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        CUdeviceptr q;
        CUcontext c;
        int n, bad = 0;
        uint32_t v;
        bad |= (cuMemAlloc(&q, 64) != CUDA_ERROR_NOT_INITIALIZED) << 0;
        bad |= (cuCtxSynchronize() != CUDA_ERROR_NOT_INITIALIZED) << 1;
        bad |= (cuMemcpyDtoH(&v, p, 4) != CUDA_ERROR_NOT_INITIALIZED) << 2;
        bad |= (cuCtxGetCurrent(&c) != CUDA_ERROR_NOT_INITIALIZED) << 3;
        bad |= (cuDeviceGetCount(&n) != CUDA_ERROR_NOT_INITIALIZED) << 4;
        bad |= (cuInit(0) != CUDA_ERROR_NOT_INITIALIZED) << 5;
        bad |= (cuMemFree(p) != CUDA_ERROR_NOT_INITIALIZED) << 6;
        _exit(bad);
    }
    status = cf_child_status(pid);
    cf_u64("child_bad_calls", (uint64_t)status, 0);
    cf_true("parent_data", cf_filled(p, 1000, 4));
    OK("parent_launch", cf_fill(p, 1000, 5, NULL));
    cf_true("parent_result", cf_filled(p, 1000, 5));
    status = cf_spawn("good", "", out, sizeof(out));
    cf_u64("exec_status", (uint64_t)status, 0);
    cf_str("exec_child", out, "good");
    pid = fork();
    if (pid == 0)
        exit(0); /* exit handlers of the child must not disturb the parent */
    status = cf_child_status(pid);
    cf_u64("child_exit", (uint64_t)status, 0);
    OK("parent_again", cf_fill(p, 1000, 6, NULL));
    cf_true("parent_again_result", cf_filled(p, 1000, 6));
    OK("free", cuMemFree(p));
}

/* fork before cuInit: the child works like any process. */
CASE(process_fork_first, CF_ALONE)
{
    int status, n = 0;

    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(ready() ? 0 : 1);
    status = cf_child_status(pid);
    cf_u64("child", (uint64_t)status, 0);
    OK("init", cuInit(0));
    OK("count", cuDeviceGetCount(&n));
}

CASE(process_exit_busy, CF_ALONE | CF_UB)
{
    char out[64];
    cf_u64("exit_status", (uint64_t)cf_spawn("busy", "exit", out, sizeof(out)), 0);
    cf_str("exit", out, "busy");
    cf_u64("_exit_status", (uint64_t)cf_spawn("busy", "_exit", out, sizeof(out)), 0);
    cf_str("_exit", out, "busy");
    cf_u64("kill_status", (uint64_t)cf_spawn("busy", "kill", out, sizeof(out)), SIGKILL);
    cf_str("kill", out, "busy");
    cf_u64("next_status", (uint64_t)cf_spawn("good", "", out, sizeof(out)), 0);
    cf_str("next", out, "good");
}

/* Two concurrent processes, with equal addresses or not: neither sees the other's data. */
CASE(process_two, CF_ALONE | CF_CTX)
{
    CUdeviceptr p = 0;
    char out[64];

    NEED(cuMemAlloc(&p, 4000));
    NEED(cf_fill(p, 1000, 77, NULL));
    for (int i = 0; i < 2; i++)
        cf_u64(i ? "second_status" : "first_status", (uint64_t)cf_spawn("good", "", out, sizeof(out)), 0);
    cf_true("mine", cf_filled(p, 1000, 77));
    OK("free", cuMemFree(p));
}

/* SIGTERM during calls: by default it ends the process; with a handler the program decides. */
static void term(const char *how, const char *check, int want)
{
    char text[64] = "", line[64];
    int p[2], status;
    pid_t pid;

    cf_need_true("pipe", pipe(p) == 0);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        dup2(p[1], 1);
        close(p[0]);
        close(p[1]);
        execl("/proc/self/exe", "conform", "--mode", "work", how, (char *)NULL);
        _exit(127);
    }
    close(p[1]);
    for (size_t n = 0; n < sizeof(text) - 1 && strchr(text, '\n') == NULL;) {
        ssize_t k = read(p[0], text + n, sizeof(text) - 1 - n);

        if (!k || (k < 0 && errno != EINTR))
            break;
        n += k > 0 ? (size_t)k : 0;
    }
    kill(pid, SIGTERM); /* at any point of its loop */
    status = cf_child_status(pid);
    close(p[0]);
    snprintf(line, sizeof(line), "%s_began", check);
    cf_true(line, !strcmp(text, "working\n"));
    cf_u64(check, (uint64_t)status, (uint64_t)want);
}

CASE(process_sigterm, CF_ALONE)
{
    char out[64];

    term("default", "killed", SIGTERM);
    term("handler", "handled", 3 << 8);
    cf_u64("next_status", (uint64_t)cf_spawn("good", "", out, sizeof(out)), 0);
    cf_str("next", out, "good");
}

CASE(process_late_calls, CF_ALONE)
{
    char out[64];

    cf_u64("status", (uint64_t)cf_spawn("late", "", out, sizeof(out)), 0);
    cf_str("calls", out, "late late ");
}
