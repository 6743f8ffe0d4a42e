/* SPDX-License-Identifier: MIT */
/* scale-bench: kinds of objects, and the cost of an operation while many are alive. */
#ifndef SCALE_H
#define SCALE_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* clang-format off */
#define SCALE_CALLS(X) \
    X(cuInit, cuInit) X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent, cuCtxSetCurrent) \
    X(cuCtxSynchronize, cuCtxSynchronize) X(cuMemAlloc, cuMemAlloc_v2) X(cuMemFree, cuMemFree_v2) \
    X(cuMemAllocAsync, cuMemAllocAsync) X(cuMemFreeAsync, cuMemFreeAsync) X(cuMemHostAlloc, cuMemHostAlloc) \
    X(cuMemFreeHost, cuMemFreeHost) X(cuMemHostRegister, cuMemHostRegister_v2) \
    X(cuMemHostUnregister, cuMemHostUnregister) X(cuEventCreate, cuEventCreate) X(cuEventRecord, cuEventRecord) \
    X(cuEventDestroy, cuEventDestroy_v2) X(cuStreamCreate, cuStreamCreate) X(cuStreamDestroy, cuStreamDestroy_v2) \
    X(cuStreamSynchronize, cuStreamSynchronize) X(cuLaunchKernel, cuLaunchKernel) \
    X(cuModuleLoadData, cuModuleLoadData) X(cuModuleUnload, cuModuleUnload) X(cuModuleGetFunction, cuModuleGetFunction) \
    X(cuLibraryLoadData, cuLibraryLoadData) X(cuLibraryUnload, cuLibraryUnload) \
    X(cuLibraryGetKernel, cuLibraryGetKernel) X(cuTexObjectCreate, cuTexObjectCreate) \
    X(cuTexObjectDestroy, cuTexObjectDestroy) X(cuMemAddressReserve, cuMemAddressReserve) \
    X(cuMemCreate, cuMemCreate) X(cuMemMap, cuMemMap) X(cuMemSetAccess, cuMemSetAccess) X(cuMemUnmap, cuMemUnmap) \
    X(cuMemsetD8, cuMemsetD8_v2) X(cuPointerGetAttribute, cuPointerGetAttribute) X(cuGraphCreate, cuGraphCreate) X(cuGraphAddKernelNode, cuGraphAddKernelNode_v2) \
    X(cuGraphInstantiate, cuGraphInstantiateWithFlags) X(cuGraphLaunch, cuGraphLaunch) \
    X(cuGraphExecUpdate, cuGraphExecUpdate_v2) X(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams_v2) \
    X(cuGraphGetNodes, cuGraphGetNodes) X(cuGraphDestroyNode, cuGraphDestroyNode) X(cuGraphExecDestroy, cuGraphExecDestroy) X(cuGraphDestroy, cuGraphDestroy) \
    X(cuStreamBeginCapture, cuStreamBeginCapture_v2) X(cuStreamEndCapture, cuStreamEndCapture)
/* clang-format on */

struct scale_api {
#define X(field, symbol) __typeof__(&symbol) field;
    SCALE_CALLS(X)
#undef X
    CUmodule module;
    CUfunction kernel; /* e(u64), empty */
};
extern struct scale_api scale_api;
extern const char scale_ptx[];

#define SCALE_ROWS 10
/* Results of a process, for its parent. */
struct scale_result {
    double us[SCALE_ROWS]; /* processor time of an operation, us; < 0: not measured */
    double bytes;          /* memory per object of all processes, bytes */
    CUresult error;
    unsigned at; /* on error: number of live objects */
};

struct scale_kind {
    const char *name;
    unsigned size[3];
    const char *note;              /* reason for a lower number, or NULL */
    const char *rows[SCALE_ROWS];  /* make, use, drop; or the operations measured by run() */
    CUresult (*setup)(unsigned n); /* or NULL */
    CUresult (*make)(unsigned i);
    CUresult (*warm)(unsigned i); /* once per object, not measured; or NULL */
    CUresult (*use)(unsigned i);  /* or NULL */
    CUresult (*drop)(unsigned i);
    void (*run)(unsigned n, struct scale_result *r); /* replaces all of these; or NULL */
};
extern const struct scale_kind scale_kinds[];
extern const size_t scale_nkinds;

/* Processor time so far, us, and resident memory, of all participating processes. */
double scale_cpu_us(void);
double scale_resident(void);
/*
 * True if all work is done in this process: single operations are measured, on objects not in any
 * cache.
 */
bool scale_cold(void);
/* Empties the caches, runs the operation on another object, then measures it on i, us. */
double scale_cold_us(CUresult (*run)(unsigned), unsigned other, unsigned i, CUresult *r);

#endif
