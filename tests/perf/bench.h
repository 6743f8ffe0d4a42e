/* SPDX-License-Identifier: MIT */
/* The bench: samples, their medians, and its measurements. Times in nanoseconds. */
#ifndef BENCH_H
#define BENCH_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A growing set of samples, sorted on the first query of a quantile. */
struct samples {
    double *v;
    size_t n, room;
    bool sorted;
};
void samples_add(struct samples *s, double v);
/* Quantile q in 0..1; 0 without samples. */
double samples_at(struct samples *s, double q);

/* ---- echoes of MESSAGE bytes by another process (echo.c) ---- */
#define MESSAGE 64
enum echo_kind { ECHO_SHM, ECHO_UNIX, ECHO_TCP, ECHO_KINDS };
extern const char *const echo_names[];
struct echo;
/* Starts an echo server by fork, so before the first CUDA call. NULL on failure. */
struct echo *echo_start(enum echo_kind kind);
/* The shared-memory server polls, but only between wake and rest. */
void echo_wake(struct echo *e);
void echo_rest(struct echo *e);
/* One round trip; adds its time unless s is NULL. */
bool echo_once(struct echo *e, struct samples *s);
void echo_stop(struct echo *e);
int echo_pid(const struct echo *e);

/* ---- a copy by two threads through pieces of memory, without a protocol (pipe.c) ---- */

/* The thread polls only while awake. */
void pipe_wake(bool awake);
/* Binds the thread, which must have been awake once. */
void pipe_bind(int cpu);
/*
 * Copies n bytes and returns the time, ns; back: this thread empties the pieces filled by the
 * other, else vice versa.
 */
double pipe_once(void *to, const void *from, size_t n, bool back);

/* ---- the driver API, loaded from one library (api.c) ---- */

/* clang-format off */
#define API_CALLS(X) \
    X(cuInit, cuInit) X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain) \
    X(cuCtxSetCurrent, cuCtxSetCurrent) X(cuMemGetInfo, cuMemGetInfo_v2) \
    X(cuModuleLoadData, cuModuleLoadData) X(cuModuleGetFunction, cuModuleGetFunction) \
    X(cuLaunchKernel, cuLaunchKernel) X(cuCtxSynchronize, cuCtxSynchronize) \
    X(cuMemAlloc, cuMemAlloc_v2) X(cuMemFree, cuMemFree_v2) X(cuMemHostAlloc, cuMemHostAlloc) \
    X(cuMemFreeHost, cuMemFreeHost) \
    X(cuMemAllocAsync, cuMemAllocAsync) X(cuMemFreeAsync, cuMemFreeAsync) \
    X(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool) X(cuMemPoolSetAttribute, cuMemPoolSetAttribute) \
    X(cuMemcpyHtoD, cuMemcpyHtoD_v2) \
    X(cuMemcpyDtoH, cuMemcpyDtoH_v2) X(cuStreamQuery, cuStreamQuery) \
    X(cuDeviceGetName, cuDeviceGetName) X(cuMemsetD8, cuMemsetD8_v2) \
    X(cuMemsetD8Async, cuMemsetD8Async) X(cuStreamCreate, cuStreamCreate) \
    X(cuStreamDestroy, cuStreamDestroy_v2) \
    X(cuStreamSynchronize, cuStreamSynchronize) X(cuEventCreate, cuEventCreate) \
    X(cuEventRecord, cuEventRecord) X(cuEventElapsedTime, cuEventElapsedTime_v2) \
    X(cuEventSynchronize, cuEventSynchronize) X(cuEventQuery, cuEventQuery) \
    X(cuStreamWaitEvent, cuStreamWaitEvent) X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2) \
    X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2) X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2) \
    X(cuLaunchHostFunc, cuLaunchHostFunc) X(cuStreamBeginCapture, cuStreamBeginCapture_v2) \
    X(cuStreamEndCapture, cuStreamEndCapture) X(cuGraphDestroy, cuGraphDestroy) \
    X(cuGraphCreate, cuGraphCreate) X(cuGraphAddKernelNode, cuGraphAddKernelNode_v2) \
    X(cuGraphAddEmptyNode, cuGraphAddEmptyNode) X(cuGraphAddDependencies, cuGraphAddDependencies_v2) \
    X(cuGraphDestroyNode, cuGraphDestroyNode) X(cuGraphAddMemsetNode, cuGraphAddMemsetNode) \
    X(cuGraphAddMemcpyNode, cuGraphAddMemcpyNode) X(cuGraphAddHostNode, cuGraphAddHostNode) \
    X(cuGraphAddEventRecordNode, cuGraphAddEventRecordNode) \
    X(cuGraphAddEventWaitNode, cuGraphAddEventWaitNode) \
    X(cuGraphAddChildGraphNode, cuGraphAddChildGraphNode) X(cuGraphAddNode, cuGraphAddNode_v2) \
    X(cuGraphAddBatchMemOpNode, cuGraphAddBatchMemOpNode) X(cuArrayCreate, cuArrayCreate_v2) \
    X(cuImportExternalSemaphore, cuImportExternalSemaphore) \
    X(cuGraphAddExternalSemaphoresSignalNode, cuGraphAddExternalSemaphoresSignalNode) \
    X(cuGraphConditionalHandleCreate, cuGraphConditionalHandleCreate) \
    X(cuGraphAddExternalSemaphoresWaitNode, cuGraphAddExternalSemaphoresWaitNode) \
    X(cuCtxGetCurrent, cuCtxGetCurrent) \
    X(cuFuncSetAttribute, cuFuncSetAttribute) \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor) \
    X(cuOccupancyMaxPotentialBlockSize, cuOccupancyMaxPotentialBlockSize) \
    X(cuStreamGetFlags, cuStreamGetFlags) X(cuStreamGetPriority, cuStreamGetPriority) \
    X(cuStreamGetId, cuStreamGetId) X(cuStreamGetCtx, cuStreamGetCtx) \
    X(cuStreamGetDevice, cuStreamGetDevice) X(cuStreamCreateWithPriority, cuStreamCreateWithPriority) \
    X(cuCtxGetLimit, cuCtxGetLimit) X(cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange)
/* clang-format on */

/* PTX of a module with the kernel add(u64 p, u32 n, u32 v): p[i] += v for i < n. */
extern const char api_ptx[];

struct api {
    void *lib;
#define X(field, symbol) __typeof__(&symbol) field;
    API_CALLS(X)
#undef X
    CUcontext ctx;
    CUmodule mod;
    CUfunction add; /* add(u64 p, u32 n, u32 v) */
};
/*
 * Loads, initialises, makes the primary context current, loads the kernel. On failure prints a line
 * and returns false.
 */
bool api_open(struct api *a, const char *library);
/* Makes this library's context current (each library has a current context of its own). */
CUresult api_launch(struct api *a, CUdeviceptr p, unsigned n, unsigned v);

/* Processor time of `pid` and its threads, ns, from /proc; 0 if it has ended. */
uint64_t cpu_ns(int pid);
/* Binds all threads of a process to one processor; -1: to all. */
void bind_to(int pid, int cpu);
/* Finds up to `max` descendants of `pid` whose name starts with `name`. */
size_t descendants(int pid, const char *name, int *out, size_t max);

#endif
