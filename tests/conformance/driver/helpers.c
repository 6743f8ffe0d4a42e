// SPDX-License-Identifier: MIT
/* Shared by several cases: the module of kernels.cu, launches, patterns, the gate. */
#include "conform.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

static CUmodule module;

CUmodule cf_module(void)
{
    if (!module)
        NEED(cuModuleLoadData(&module, cf_ptx));
    return module;
}

void cf_module_forget(void)
{
    module = NULL; /* the end of the primary context unloads it */
}

CUfunction cf_func(const char *name)
{
    CUfunction f = NULL;
    NEED(cuModuleGetFunction(&f, cf_module(), name));
    return f;
}

CUresult cf_launch(CUfunction f, unsigned grid, unsigned block, unsigned shared, CUstream s, void **params)
{
    return cuLaunchKernel(f, grid, 1, 1, block, 1, 1, shared, s, params, NULL);
}

CUresult cf_fill(CUdeviceptr p, unsigned n, unsigned v, CUstream s)
{
    void *params[] = {&p, &n, &v};
    return cf_launch(cf_func("k_fill"), (n + 127) / 128, 128, 0, s, params);
}

bool cf_filled(CUdeviceptr p, unsigned n, unsigned v)
{
    uint32_t *h = calloc(n, sizeof(*h));
    bool ok = h && cuMemcpyDtoH(h, p, (size_t)n * sizeof(*h)) == CUDA_SUCCESS;

    for (unsigned i = 0; ok && i < n; i++)
        ok = h[i] == v + i;
    free(h);
    return ok;
}

static uint32_t step(uint32_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 17;
    *x ^= *x << 5;
    return *x;
}

void cf_pattern(void *p, size_t n, unsigned seed)
{
    uint32_t x = seed * 2654435761u | 1;
    unsigned char *b = p;
    for (size_t i = 0; i < n; i++)
        b[i] = (unsigned char)(i & 3 ? x >> (8 * (i & 3)) : step(&x));
}

bool cf_is_pattern(const void *p, size_t n, unsigned seed)
{
    uint32_t x = seed * 2654435761u | 1;
    const unsigned char *b = p;
    for (size_t i = 0; i < n; i++)
        if (b[i] != (unsigned char)(i & 3 ? x >> (8 * (i & 3)) : step(&x)))
            return false;
    return true;
}

struct cf_gate {
    sem_t open, ended;
};

static void CUDA_CB gate_fn(void *p)
{
    struct cf_gate *g = p;
    while (sem_wait(&g->open))
        ;
    sem_post(&g->ended);
}

/*
 * A GPU's driver loads a module, and by default each function at its first launch, when the
 * context's streams are idle: behind a gate it would wait for ever. Functions launched there are
 * therefore loaded before.
 */
static void load_all(void)
{
    static const char *const names[] = {"k_nop", "k_fill", "k_add", "k_work"};
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUfunction f = NULL;

    if (cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS)
        return;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (cuModuleGetFunction(&f, cf_module(), names[i]) == CUDA_SUCCESS)
            cuFuncLoad(f);
    cuThreadExchangeStreamCaptureMode(&mode);
}

struct cf_gate *cf_gate_put(CUstream s)
{
    struct cf_gate *g = calloc(1, sizeof(*g));

    load_all();
    cf_need_true("memory for a gate", g != NULL);
    sem_init(&g->open, 0, 0);
    sem_init(&g->ended, 0, 0);
    NEED(cuLaunchHostFunc(s, gate_fn, g));
    return g;
}

void cf_gate_open(struct cf_gate *g)
{
    sem_post(&g->open);
    while (sem_wait(&g->ended))
        ;
    free(g);
}

int cf_child_status(pid_t pid)
{
    int status = -1;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

int cf_spawn(const char *mode, const char *arg, char *out, size_t out_size)
{
    int p[2];
    size_t n = 0;

    if (pipe2(p, O_CLOEXEC))
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(p[1], 1);
        execl("/proc/self/exe", "conform", "--mode", mode, arg, (char *)NULL);
        _exit(127);
    }
    close(p[1]);
    while (out && n + 1 < out_size) {
        ssize_t k = read(p[0], out + n, out_size - 1 - n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            break;
        n += (size_t)k;
    }
    if (out_size) {
        out[n] = 0;
        out[strcspn(out, "\n")] = 0; /* keeps the first line only */
    }
    int status = cf_child_status(pid);
    close(p[0]);
    return status;
}
