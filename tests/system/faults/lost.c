// SPDX-License-Identifier: MIT
/*
 * liblost.so: the software GPU as a provider that can be lost. On SIGUSR1 this worker's GPU has
 * fallen off the bus: from then on every call that accesses it returns
 * CUDA_ERROR_DEVICE_UNAVAILABLE, waiting calls return, and running work never completes. All other
 * functions are those of libcuda-soft.so.1, which this library is linked to: dlsym() finds them
 * through it.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

static volatile sig_atomic_t lost;

static void on_signal(int sig)
{
    (void)sig;
    lost = 1;
}

__attribute__((constructor)) static void start(void)
{
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

    sigaction(SIGUSR1, &sa, NULL);
}

#define GONE CUDA_ERROR_DEVICE_UNAVAILABLE
#define NEXT(name, ...) \
    static CUresult (*next)(__VA_ARGS__); \
    if (!next) { \
        void *sym_ = dlsym(RTLD_NEXT, name); \
        memcpy(&next, &sym_, sizeof(sym_)); \
    } \
    if (lost) \
        return GONE;

/* Replaces a wait of the driver, ending when the GPU is lost. */
#define WAIT(query, arg) \
    for (;;) { \
        struct timespec ts = {0, 1000000}; \
        CUresult r_ = query(arg); \
        if (r_ != CUDA_ERROR_NOT_READY) \
            return r_; \
        nanosleep(&ts, NULL); \
    }

/* A lost GPU completes nothing, so that the worker has to wait, by the functions here. */
bool sg_event_when(CUevent event, void (*fn)(void *arg, CUresult r), void *arg);
bool sg_event_when(CUevent event, void (*fn)(void *arg, CUresult r), void *arg)
{
    (void)event;
    (void)fn;
    (void)arg;
    return false;
}

CUresult cuStreamQuery(CUstream s)
{
    NEXT("cuStreamQuery", CUstream)
    return next(s);
}

CUresult cuEventQuery(CUevent e)
{
    NEXT("cuEventQuery", CUevent)
    return next(e);
}

CUresult cuStreamSynchronize(CUstream s){WAIT(cuStreamQuery, s)}

CUresult cuEventSynchronize(CUevent e){WAIT(cuEventQuery, e)}

CUresult cuCtxSynchronize(void){WAIT(cuStreamQuery, CU_STREAM_LEGACY)}

CUresult cuEventRecord(CUevent e, CUstream s)
{
    NEXT("cuEventRecord", CUevent, CUstream)
    return next(e, s);
}

CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n)
{
    NEXT("cuMemAlloc_v2", CUdeviceptr *, size_t)
    return next(p, n);
}

CUresult cuMemFree_v2(CUdeviceptr p)
{
    NEXT("cuMemFree_v2", CUdeviceptr)
    return next(p);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream s)
{
    NEXT("cuMemcpyHtoDAsync_v2", CUdeviceptr, const void *, size_t, CUstream)
    return next(to, from, n, s);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream s)
{
    NEXT("cuMemcpyDtoHAsync_v2", void *, CUdeviceptr, size_t, CUstream)
    return next(to, from, n, s);
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, CUstream s, void **params, void **extra)
{
    NEXT("cuLaunchKernel", CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
         CUstream, void **, void **)
    return next(f, gx, gy, gz, bx, by, bz, shared, s, params, extra);
}
