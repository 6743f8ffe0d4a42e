/* SPDX-License-Identifier: MIT */
/*
 * Shared code of the steps of firstcall: the driver's functions, found at run time, and a context
 * and a module that are made when the first step needs them.
 */
#ifndef FIRSTCALL_H
#define FIRSTCALL_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Every function that a step calls. cuda.h renames some of them (_v2, ...): members are called like
 * the symbols. */
/* clang-format off */
#define FC_CALLS(X) \
    X(cuInit) X(cuDriverGetVersion) X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetAttribute) \
    X(cuDeviceTotalMem) X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) X(cuCtxSynchronize) X(cuCtxGetLimit) \
    X(cuMemAlloc) X(cuMemFree) X(cuMemGetInfo) X(cuMemcpyHtoD) X(cuMemcpyDtoH) X(cuMemcpyHtoDAsync) \
    X(cuMemcpyDtoHAsync) X(cuMemsetD8) X(cuMemAllocHost) X(cuMemFreeHost) X(cuMemHostRegister) \
    X(cuMemHostUnregister) X(cuMemHostGetDevicePointer) X(cuMemAllocManaged) X(cuModuleLoadData) \
    X(cuModuleUnload) X(cuModuleGetFunction) X(cuLaunchKernel) X(cuLaunchCooperativeKernel) X(cuStreamCreate) \
    X(cuStreamDestroy) X(cuStreamSynchronize) X(cuLaunchHostFunc) X(cuStreamWaitValue32) X(cuStreamWriteValue32) \
    X(cuEventCreate) X(cuEventRecord) X(cuEventSynchronize) X(cuEventElapsedTime) X(cuEventDestroy) \
    X(cuArrayCreate) X(cuArrayDestroy) X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemCreate) X(cuMemRelease) \
    X(cuMemMap) X(cuMemUnmap) X(cuMemSetAccess) X(cuMemGetAllocationGranularity) X(cuMemExportToShareableHandle) \
    X(cuMemImportFromShareableHandle) X(cuMemPoolCreate) X(cuMemPoolDestroy) X(cuMemAllocFromPoolAsync) \
    X(cuMemFreeAsync) X(cuGraphCreate) X(cuGraphAddKernelNode) X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) \
    X(cuGraphExecDestroy) X(cuGraphDestroy) X(cuIpcGetMemHandle) X(cuIpcOpenMemHandle) X(cuIpcCloseMemHandle) \
    X(cuIpcGetEventHandle) X(cuIpcOpenEventHandle) X(cuLibraryLoadData) X(cuLibraryGetKernel) \
    X(cuKernelGetParamInfo) X(cuKernelGetAttribute)
/* clang-format on */

#define FC_MEMBER_(name) __typeof__(name) *name;
#define FC_MEMBER(name) FC_MEMBER_(name)
struct fc_calls {
    FC_CALLS(FC_MEMBER)
};

struct fc {
    struct fc_calls cu;
    const char *library; /* path given to dlopen */
    const char *self;    /* this program, for steps that start a second process */
    CUdevice device;
    CUcontext context; /* NULL until a step needs it */
    CUmodule module;   /* likewise */
    char note[240];    /* text that a step adds to its result */
};

/* A step of the table: FC_ALONE runs in a separate process because it leaves the context
 * unusable. */
enum { FC_ALONE = 1 };
struct fc_step {
    const char *name;
    CUresult (*run)(struct fc *fc);
    int limit; /* seconds after which the step counts as hanging */
    int flags;
};

/* Tables of steps, ended by a NULL name. */
extern const struct fc_step fc_basic_steps[], fc_memory_steps[], fc_work_steps[], fc_share_steps[];

/* The primary context of device 0, made current. */
CUresult fc_context(struct fc *fc);
/* A kernel of firstcall_kernels.cu; loads the module first when needed. */
CUresult fc_kernel(struct fc *fc, const char *name, CUfunction *f);
/* Loads the kernels' PTX with a comment in front, so that a cache of compiled code knows it or
 * not. */
CUresult fc_load(struct fc *fc, const char *comment, CUmodule *module);
/* The same text, for other calls. */
const char *fc_text(void);
/* Launches f on one block of `threads` threads. */
CUresult fc_launch(struct fc *fc, CUfunction f, unsigned threads, CUstream s, void **params);
/* Seconds of the monotonic clock. */
double fc_now(void);
/* Adds text to the step's result; printf's rules. */
void fc_note(struct fc *fc, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The second process of the IPC steps: opens the handle given in hexadecimal, writes, ends with the
 * result. */
CUresult fc_peer(struct fc *fc, const char *kind, const char *hex);

/* Leaves the step with the result of a call that failed. */
#define FC_TRY(call) \
    do { \
        CUresult fc_result_ = (call); \
        if (fc_result_ != CUDA_SUCCESS) { \
            if (!fc->note[0]) \
                fc_note(fc, "at %.80s", #call); \
            return fc_result_; \
        } \
    } while (0)

#endif
