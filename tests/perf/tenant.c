// SPDX-License-Identifier: MIT
/*
 * A client of a shared GPU, driven by tenancy.py: prints "ready", and for each line of its standard
 * input runs that load and answers with a line.
 *
 *   greedy MS       kernels of 64 blocks, two in flight: "work LAUNCHES"
 *   tail COUNT      one kernel at a time, pauses of 5 ms in between: "tail P50 P99", microseconds
 *   tiny MS         empty kernels at the maximum rate: "work LAUNCHES"
 *   copies MS       copies of 1 MiB to the device: "work COPIES"
 *   streams MS      a stream for each kernel, many at once: "work LAUNCHES"
 *   graph MS        graphs of 10,000 nodes, in sequence: "work NODES"
 *   endless 0       a kernel that never ends, without a wait: "work 1"
 */
#include "bench.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                          ".visible .entry spin(.param .u64 p, .param .u32 n)\n{\n"
                          ".reg .u32 %r<6>; .reg .u64 %d<3>; .reg .pred %q;\n"
                          "ld.param.u64 %d0, [p]; ld.param.u32 %r0, [n]; cvta.to.global.u64 %d0, %d0;\n"
                          "mov.u32 %r1, %tid.x; mov.u32 %r2, 0;\n"
                          "again: setp.ge.u32 %q, %r2, %r0; @%q bra end;\n"
                          "mad.lo.u32 %r1, %r1, 1664525, 1013904223; add.u32 %r2, %r2, 1; bra again;\n"
                          "end: mov.u32 %r3, %ctaid.x; mul.wide.u32 %d1, %r3, 4; add.u64 %d0, %d0, %d1;\n"
                          "st.global.u32 [%d0], %r1; ret;\n}\n";

static struct api api;
static CUfunction spin;
static CUdeviceptr out;
static unsigned rounds = 2000; /* iterations of a block's loop */

#define NODES 10000u
#define STREAMS 64u
#define CALL(name) static __typeof__(&name) p_##name
CALL(cuStreamCreate);
CALL(cuStreamDestroy_v2);
CALL(cuGraphCreate);
CALL(cuGraphAddKernelNode_v2);
CALL(cuGraphInstantiateWithFlags);
CALL(cuGraphLaunch);

static bool find_calls(void)
{
    *(void **)&p_cuStreamCreate = dlsym(api.lib, "cuStreamCreate");
    *(void **)&p_cuStreamDestroy_v2 = dlsym(api.lib, "cuStreamDestroy_v2");
    *(void **)&p_cuGraphCreate = dlsym(api.lib, "cuGraphCreate");
    *(void **)&p_cuGraphAddKernelNode_v2 = dlsym(api.lib, "cuGraphAddKernelNode_v2");
    *(void **)&p_cuGraphInstantiateWithFlags = dlsym(api.lib, "cuGraphInstantiateWithFlags");
    *(void **)&p_cuGraphLaunch = dlsym(api.lib, "cuGraphLaunch");
    return p_cuStreamCreate && p_cuStreamDestroy_v2 && p_cuGraphCreate && p_cuGraphAddKernelNode_v2 &&
           p_cuGraphInstantiateWithFlags && p_cuGraphLaunch;
}

static bool launch(unsigned blocks, unsigned n)
{
    void *args[] = {&out, &n};

    return api.cuLaunchKernel(spin, blocks, 1, 1, 32, 1, 1, 0, NULL, args, NULL) == CUDA_SUCCESS;
}

static bool launch_in_streams(void)
{
    CUstream s[STREAMS];
    unsigned n = 16;
    void *args[] = {&out, &n};

    for (unsigned i = 0; i < STREAMS; i++) {
        if (p_cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING) ||
            api.cuLaunchKernel(spin, 1, 1, 1, 32, 1, 1, 0, s[i], args, NULL))
            return false;
    }
    for (unsigned i = 0; i < STREAMS; i++) {
        if (p_cuStreamDestroy_v2(s[i])) /* its work continues */
            return false;
    }
    return true;
}

/* Nodes without dependencies. */
static bool launch_graph(void)
{
    static CUgraphExec exec;
    unsigned n = 16;
    void *args[] = {&out, &n};
    CUDA_KERNEL_NODE_PARAMS_v2 p = {.func = spin,
                                    .gridDimX = 1,
                                    .gridDimY = 1,
                                    .gridDimZ = 1,
                                    .blockDimX = 32,
                                    .blockDimY = 1,
                                    .blockDimZ = 1,
                                    .kernelParams = args};
    CUgraphNode node;
    CUgraph g;

    if (!exec) {
        if (p_cuGraphCreate(&g, 0))
            return false;
        for (unsigned i = 0; i < NODES; i++) {
            if (p_cuGraphAddKernelNode_v2(&node, g, NULL, 0, &p))
                return false;
        }
        if (p_cuGraphInstantiateWithFlags(&exec, g, 0))
            return false;
    }
    return p_cuGraphLaunch(exec, NULL) == CUDA_SUCCESS;
}

static long work(const char *how, long ms)
{
    static char data[1 << 20];
    long done = 0;

    if (!strcmp(how, "graph") && (!launch_graph() || api.cuCtxSynchronize())) /* made by the first */
        return -1;
    uint64_t end = now_ns() + (uint64_t)ms * 1000000u;

    if (!strcmp(how, "endless"))
        return launch(64, 0xffffffffu) ? 1 : -1;
    while (now_ns() < end) {
        if (!strcmp(how, "copies")) {
            if (api.cuMemcpyHtoD(out, data, sizeof(data)))
                return -1;
            done++;
            continue;
        }
        if (!strcmp(how, "streams") || !strcmp(how, "graph")) {
            bool graph = *how == 'g';

            if (!(graph ? launch_graph() : launch_in_streams()) || api.cuCtxSynchronize())
                return -1;
            done += graph ? NODES : STREAMS;
            continue;
        }
        bool tiny = !strcmp(how, "tiny");
        unsigned batch = tiny ? 64 : 2;

        for (unsigned i = 0; i < batch; i++) {
            if (!launch(tiny ? 1 : 64, tiny ? 0 : rounds))
                return -1;
        }
        if (api.cuCtxSynchronize())
            return -1;
        done += batch;
    }
    return done;
}

static bool tail(long count)
{
    struct samples s = {0};

    for (long i = 0; i < count; i++) {
        uint64_t t = now_ns();

        if (!launch(64, rounds) || api.cuCtxSynchronize())
            return false;
        samples_add(&s, (double)(now_ns() - t) / 1000);
        usleep(5000);
    }
    printf("tail %.0f %.0f\n", samples_at(&s, 0.5), samples_at(&s, 0.99));
    return true;
}

int main(void)
{
    char line[100], how[20];
    CUmodule m;
    long n;

    if (!api_open(&api, "libcuda.so.1") || !find_calls())
        return 1;
    if (api.cuModuleLoadData(&m, ptx) || api.cuModuleGetFunction(&spin, m, "spin") ||
        api.cuMemAlloc(&out, 1 << 20) || !launch(64, 1) || api.cuCtxSynchronize())
        return 1;
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        if (sscanf(line, "%19s %ld", how, &n) != 2)
            return 2;
        if (!strcmp(how, "tail")) {
            if (!tail(n))
                return 1;
        } else {
            printf("work %ld\n", work(how, n));
        }
        fflush(stdout);
    }
    return 0;
}
