// SPDX-License-Identifier: MIT
/* Steps with work: streams, events, modules, linking, graphs, captures, host functions, contexts. */
#include "steps.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

const char steps_ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                         ".visible .entry add(.param .u64 p, .param .u32 n)\n{\n"
                         ".reg .u32 %r<3>; .reg .u64 %d<3>; .reg .pred %q;\n"
                         "ld.param.u64 %d0, [p]; ld.param.u32 %r0, [n]; cvta.to.global.u64 %d0, %d0;\n"
                         "mov.u32 %r1, %tid.x; setp.ge.u32 %q, %r1, %r0; @%q ret;\n"
                         "mul.wide.u32 %d1, %r1, 4; add.u64 %d0, %d0, %d1;\n"
                         "ld.global.u32 %r2, [%d0]; add.u32 %r2, %r2, 1; st.global.u32 [%d0], %r2; ret;\n}\n";

static CUresult launch(CUfunction f, CUdeviceptr p, CUstream s)
{
    uint32_t n = 32;
    void *args[] = {&p, &n};

    return cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, s, args, NULL);
}

/* Compares the first word at p. */
static CUresult word_is(CUdeviceptr p, uint32_t want)
{
    uint32_t got;
    CUresult r = cuMemcpyDtoH(&got, p, 4);

    return r != CUDA_SUCCESS ? r : got == want ? CUDA_SUCCESS : STEPS_WRONG;
}

static CUresult events(void)
{
    CUstream a = NULL, b = NULL;
    CUevent e = NULL, f = NULL;
    float ms;
    CUresult r;

    TRY(cuStreamCreate(&a, 0));
    TRY(cuStreamCreateWithPriority(&b, CU_STREAM_NON_BLOCKING, 0));
    TRY(cuEventCreate(&e, 0));
    TRY(cuEventCreate(&f, CU_EVENT_BLOCKING_SYNC));
    TRY(cuEventRecord(e, a));
    TRY(cuStreamWaitEvent(b, e, 0));
    TRY(cuEventRecord(f, b));
    TRY(cuEventSynchronize(f));
    TRY(cuEventElapsedTime(&ms, e, f));
out:
    if (f)
        ALSO(cuEventDestroy(f));
    if (e)
        ALSO(cuEventDestroy(e));
    if (b)
        ALSO(cuStreamDestroy(b));
    if (a)
        ALSO(cuStreamDestroy(a));
    return r;
}

static CUresult module(void)
{
    CUdeviceptr p = 0;
    CUmodule m = NULL;
    CUfunction f;
    CUresult r;

    TRY(cuModuleLoadData(&m, steps_ptx));
    TRY(cuModuleGetFunction(&f, m, "add"));
    TRY(cuMemAlloc(&p, 128));
    TRY(cuMemsetD32(p, 4, 32));
    TRY(launch(f, p, NULL));
    r = word_is(p, 5);
out:
    if (p)
        ALSO(cuMemFree(p));
    if (m)
        ALSO(cuModuleUnload(m));
    return r;
}

static CUresult library(void)
{
    CUlibrary l = NULL;
    CUkernel k;
    CUfunction f;
    CUdeviceptr p = 0;
    CUresult r;

    TRY(cuLibraryLoadData(&l, steps_ptx, NULL, NULL, 0, NULL, NULL, 0));
    TRY(cuLibraryGetKernel(&k, l, "add"));
    TRY(cuKernelGetFunction(&f, k));
    TRY(cuMemAlloc(&p, 128));
    TRY(cuMemsetD32(p, 4, 32));
    TRY(launch((CUfunction)k, p, NULL));
    r = word_is(p, 5);
out:
    if (p)
        ALSO(cuMemFree(p));
    if (l)
        ALSO(cuLibraryUnload(l));
    return r;
}

static CUresult linking(void)
{
    char log[256];
    CUjit_option option[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES};
    void *value[] = {log, (void *)sizeof(log)};
    CUlinkState l = NULL;
    CUmodule m = NULL;
    void *image;
    size_t n;
    CUresult r;

    TRY(cuLinkCreate(2, option, value, &l));
    TRY(cuLinkAddData(l, CU_JIT_INPUT_PTX, (void *)(uintptr_t)steps_ptx, strlen(steps_ptx) + 1, "one", 0,
                      NULL, NULL));
    TRY(cuLinkComplete(l, &image, &n));
    TRY(cuModuleLoadData(&m, image));
out:
    if (m)
        ALSO(cuModuleUnload(m));
    if (l)
        ALSO(cuLinkDestroy(l));
    return r;
}

static void CUDA_CB on_host(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
}

static CUresult host_function(void)
{
    static atomic_int called; /* a call may arrive after the step has given up */
    int before = atomic_load(&called);
    CUstream s = NULL;
    CUresult r;

    TRY(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    TRY(cuLaunchHostFunc(s, on_host, &called));
    TRY(cuStreamSynchronize(s));
    r = atomic_load(&called) == before + 1 ? CUDA_SUCCESS : STEPS_WRONG;
out:
    if (s)
        ALSO(cuStreamDestroy(s));
    return r;
}

static CUresult graph(void)
{
    static atomic_int called;
    CUgraph g = NULL, copy = NULL;
    CUgraphExec x = NULL;
    CUgraphNode set, run, host, node;
    CUdeviceptr p = 0;
    uint32_t n = 32;
    void *args[] = {&p, &n};
    CUDA_MEMSET_NODE_PARAMS memset_node = {.value = 6, .elementSize = 4, .width = 32, .height = 1};
    CUDA_KERNEL_NODE_PARAMS kernel = {.func = steps_add,
                                      .gridDimX = 1,
                                      .gridDimY = 1,
                                      .gridDimZ = 1,
                                      .blockDimX = 32,
                                      .blockDimY = 1,
                                      .blockDimZ = 1,
                                      .kernelParams = args};
    CUDA_HOST_NODE_PARAMS call = {.fn = on_host, .userData = &called};
    CUgraphExecUpdateResultInfo info;
    CUcontext c;
    CUresult r;

    TRY(cuCtxGetCurrent(&c));
    TRY(cuMemAlloc(&p, 128));
    memset_node.dst = p;
    TRY(cuGraphCreate(&g, 0));
    TRY(cuGraphAddMemsetNode(&set, g, NULL, 0, &memset_node, c));
    TRY(cuGraphAddKernelNode(&run, g, &set, 1, &kernel));
    TRY(cuGraphAddHostNode(&host, g, &run, 1, &call));
    TRY(cuGraphAddEmptyNode(&node, g, &host, 1));
    TRY(cuGraphClone(&copy, g));
    TRY(cuGraphAddChildGraphNode(&node, g, NULL, 0, copy));
    TRY(cuGraphDestroyNode(node));
    TRY(cuGraphInstantiate(&x, g, 0));
    TRY(cuGraphLaunch(x, NULL));
    TRY(cuStreamSynchronize(NULL));
    TRY(word_is(p, 7));
    memset_node.value = 8;
    TRY(cuGraphExecMemsetNodeSetParams(x, set, &memset_node, c));
    TRY(cuGraphLaunch(x, NULL));
    TRY(word_is(p, 9));
    TRY(cuGraphExecUpdate(x, copy, &info));
out:
    if (x)
        ALSO(cuGraphExecDestroy(x));
    if (copy)
        ALSO(cuGraphDestroy(copy));
    if (g)
        ALSO(cuGraphDestroy(g));
    if (p)
        ALSO(cuMemFree(p));
    return r;
}

static CUresult capture(void)
{
    static uint32_t from[32] = {3};
    CUgraph g = NULL, ended = NULL;
    CUgraphExec x = NULL;
    CUstream s = NULL;
    CUdeviceptr p = 0;
    bool capturing = false;
    CUresult r;

    TRY(cuMemAlloc(&p, 128));
    TRY(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    TRY(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    capturing = true;
    TRY(cuMemcpyHtoDAsync(p, from, sizeof(from), s));
    TRY(launch(steps_add, p, s));
    capturing = false;
    TRY(cuStreamEndCapture(s, &g));
    TRY(cuGraphInstantiate(&x, g, 0));
    TRY(cuGraphLaunch(x, s));
    TRY(cuStreamSynchronize(s));
    r = word_is(p, 4);
out:
    if (capturing) {
        cuStreamEndCapture(s, &ended); /* reports invalidation, if invalidated */
        if (ended)
            ALSO(cuGraphDestroy(ended));
    }
    if (x)
        ALSO(cuGraphExecDestroy(x));
    if (g)
        ALSO(cuGraphDestroy(g));
    if (s)
        ALSO(cuStreamDestroy(s));
    if (p)
        ALSO(cuMemFree(p));
    return r;
}

static CUresult user_object(void)
{
    static atomic_int called;
    CUuserObject o = NULL;
    CUgraph g = NULL;
    CUresult r;

    TRY(cuGraphCreate(&g, 0));
    TRY(cuUserObjectCreate(&o, &called, on_host, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    TRY(cuGraphRetainUserObject(g, o, 1, 0));
out:
    if (o)
        ALSO(cuUserObjectRelease(o, 1));
    if (g)
        ALSO(cuGraphDestroy(g));
    return r;
}

static CUresult context(void)
{
    CUcontext c = NULL, was, popped;
    CUdeviceptr p;
    CUresult r;

    TRY(cuCtxGetCurrent(&was));
    TRY(cuCtxCreate(&c, NULL, 0, 0));
    TRY(cuMemAlloc(&p, 4096)); /* freed with the context */
    TRY(cuMemsetD8(p, 1, 4096));
    TRY(cuCtxSynchronize());
out:
    if (c) {
        ALSO(cuCtxDestroy(c));
        cuCtxGetCurrent(&popped);
        if (popped == c)
            cuCtxPopCurrent(&popped);
    }
    ALSO(cuCtxSetCurrent(was));
    return r;
}

static CUresult memory_operations(void)
{
    CUstream s = NULL;
    CUdeviceptr p = 0;
    CUresult r;

    TRY(cuMemAlloc(&p, 64));
    TRY(cuMemsetD32(p, 5, 16));
    TRY(cuCtxSynchronize()); /* only this makes the awaited value visible */
    TRY(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    TRY(cuStreamWaitValue32(s, p, 5, CU_STREAM_WAIT_VALUE_EQ));
    TRY(cuStreamWriteValue32(s, p, 6, 0));
    TRY(cuStreamSynchronize(s));
    r = word_is(p, 6);
out:
    if (s)
        ALSO(cuStreamDestroy(s));
    if (p)
        ALSO(cuMemFree(p));
    return r;
}

const struct step steps_work[] = {
    {"events", events},
    {"module", module},
    {"library", library},
    {"linking", linking},
    {"host_function", host_function},
    {"graph", graph},
    {"capture", capture},
    {"user_object", user_object},
    {"context", context, .keeps = true}, /* the record of a context (core/wrk_context.c) */
    {"memory_operations", memory_operations},
    {NULL, NULL}};
