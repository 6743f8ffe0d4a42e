/* SPDX-License-Identifier: MIT */
/* Steps of firstcall: kernels, streams, events, graphs, and how much work a driver takes before it blocks. */
#include "firstcall.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static CUresult launch(struct fc *fc)
{
    int n = 64, value = 41;
    CUdeviceptr p;
    CUfunction f;
    void *params[] = {&p, &n};

    FC_TRY(fc_kernel(fc, "fc_add", &f));
    FC_TRY(fc->cu.cuMemAlloc(&p, 256));
    FC_TRY(fc->cu.cuMemcpyHtoD(p, &value, sizeof(value)));
    FC_TRY(fc_launch(fc, f, 64, NULL, params));
    FC_TRY(fc->cu.cuMemcpyDtoH(&value, p, sizeof(value)));
    if (value != 42) {
        fc_note(fc, "WRONG: %d instead of 42", value);
        return CUDA_ERROR_UNKNOWN;
    }
    return fc->cu.cuMemFree(p);
}

static CUresult print(struct fc *fc)
{
    CUfunction f;
    int value = 42;
    void *params[] = {&value};

    FC_TRY(fc_kernel(fc, "fc_print", &f));
    FC_TRY(fc_launch(fc, f, 1, NULL, params));
    /* The text goes to standard output, between the lines of the protocol with the parent. */
    return fc->cu.cuCtxSynchronize();
}

static CUresult device_assert(struct fc *fc)
{
    CUfunction f;
    int value = 1;
    void *params[] = {&value};
    CUresult first, second;

    FC_TRY(fc_kernel(fc, "fc_assert", &f));
    FC_TRY(fc_launch(fc, f, 1, NULL, params));
    first = fc->cu.cuCtxSynchronize();
    second = fc->cu.cuCtxSynchronize();
    fc_note(fc, "expected 710; the next call answers %d", (int)second);
    return first;
}

static void count_up(void *data)
{
    ++*(volatile int *)data;
}

static CUresult host_function(struct fc *fc)
{
    volatile int calls = 0;

    FC_TRY(fc_context(fc));
    FC_TRY(fc->cu.cuLaunchHostFunc(NULL, count_up, (void *)&calls));
    FC_TRY(fc->cu.cuCtxSynchronize());
    fc_note(fc, "called %d times", calls);
    return calls == 1 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static CUresult stream_values(struct fc *fc)
{
    CUdeviceptr p;
    CUstream s;
    unsigned value = 0;

    FC_TRY(fc_context(fc));
    FC_TRY(fc->cu.cuMemAlloc(&p, 4));
    FC_TRY(fc->cu.cuMemsetD8(p, 0, 4));
    /* The fill is in the legacy stream, for which the second stream does not wait. */
    FC_TRY(fc->cu.cuCtxSynchronize());
    FC_TRY(fc->cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    FC_TRY(fc->cu.cuStreamWriteValue32(s, p, 5, 0));
    FC_TRY(fc->cu.cuStreamWaitValue32(s, p, 5, CU_STREAM_WAIT_VALUE_GEQ));
    FC_TRY(fc->cu.cuStreamSynchronize(s));
    FC_TRY(fc->cu.cuMemcpyDtoH(&value, p, 4));
    FC_TRY(fc->cu.cuStreamDestroy(s));
    FC_TRY(fc->cu.cuMemFree(p));
    return value == 5 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static CUresult event_time(struct fc *fc)
{
    unsigned long long ns = 50000000;
    void *params[] = {&ns};
    CUevent from, to;
    CUfunction f;
    float ms = 0;

    FC_TRY(fc_kernel(fc, "fc_spin", &f));
    FC_TRY(fc->cu.cuEventCreate(&from, 0));
    FC_TRY(fc->cu.cuEventCreate(&to, 0));
    FC_TRY(fc->cu.cuEventRecord(from, NULL));
    FC_TRY(fc_launch(fc, f, 1, NULL, params));
    FC_TRY(fc->cu.cuEventRecord(to, NULL));
    FC_TRY(fc->cu.cuEventSynchronize(to));
    FC_TRY(fc->cu.cuEventElapsedTime(&ms, from, to));
    fc_note(fc, "a kernel of 50 ms took %.2f ms", (double)ms);
    FC_TRY(fc->cu.cuEventDestroy(from));
    return fc->cu.cuEventDestroy(to);
}

static CUresult cooperative(struct fc *fc)
{
    CUdeviceptr p;
    CUfunction f;
    void *params[] = {&p};
    int value = 0;

    FC_TRY(fc_kernel(fc, "fc_grid", &f));
    FC_TRY(fc->cu.cuMemAlloc(&p, 256));
    FC_TRY(fc->cu.cuLaunchCooperativeKernel(f, 4, 1, 1, 32, 1, 1, 0, NULL, params));
    FC_TRY(fc->cu.cuMemcpyDtoH(&value, p, 4));
    FC_TRY(fc->cu.cuMemFree(p));
    fc_note(fc, "%d, 6 expected", value);
    return value == 6 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

/* A graph of one kernel whose parameters come as one buffer (`extra`). */
static CUresult graph_extra(struct fc *fc)
{
    struct {
        CUdeviceptr values;
        int n;
    } packed = {.n = 64};
    size_t size = sizeof(CUdeviceptr) + sizeof(int);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    CUDA_KERNEL_NODE_PARAMS node = {.gridDimX = 1,
                                    .gridDimY = 1,
                                    .gridDimZ = 1,
                                    .blockDimX = 64,
                                    .blockDimY = 1,
                                    .blockDimZ = 1,
                                    .extra = extra};
    CUgraphNode added;
    CUgraphExec exec;
    CUgraph graph;
    int value = 0;

    FC_TRY(fc_kernel(fc, "fc_add", &node.func));
    FC_TRY(fc->cu.cuMemAlloc(&packed.values, 256));
    FC_TRY(fc->cu.cuMemsetD8(packed.values, 0, 256));
    FC_TRY(fc->cu.cuGraphCreate(&graph, 0));
    FC_TRY(fc->cu.cuGraphAddKernelNode(&added, graph, NULL, 0, &node));
    FC_TRY(fc->cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 3; i++)
        FC_TRY(fc->cu.cuGraphLaunch(exec, NULL));
    FC_TRY(fc->cu.cuMemcpyDtoH(&value, packed.values, 4));
    FC_TRY(fc->cu.cuGraphExecDestroy(exec));
    FC_TRY(fc->cu.cuGraphDestroy(graph));
    FC_TRY(fc->cu.cuMemFree(packed.values));
    fc_note(fc, "%d, 3 expected", value);
    return value == 3 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

/*
 * How many launches are accepted behind a stream that waits, before a launch blocks: all streams wait for a word in
 * pinned memory, which a thread sets once the launches stall (or all are issued).
 */
enum { FILL_MAX = 20000, STALL_US = 200000 };

struct fill {
    volatile unsigned *word;
    volatile int progress; /* waits and launches that were accepted */
    volatile int done;
};

static void *release_when_stalled(void *data)
{
    struct fill *fill = data;
    int before = -1;

    while (!fill->done && fill->progress != before) {
        before = fill->progress;
        usleep(STALL_US);
    }
    *fill->word = 1;
    return NULL;
}

static CUresult fill_streams(struct fc *fc, int count)
{
    CUstream streams[64];
    struct fill fill = {0};
    CUdeviceptr word, p;
    CUfunction f;
    CUresult result = CUDA_SUCCESS;
    pthread_t thread;
    void *base;
    int n = 1, blocked = -1;
    void *params[] = {&p, &n};

    FC_TRY(fc_kernel(fc, "fc_add", &f));
    FC_TRY(fc->cu.cuMemAlloc(&p, 256));
    FC_TRY(fc->cu.cuMemAllocHost(&base, 4096));
    fill.word = base;
    *fill.word = 0;
    FC_TRY(fc->cu.cuMemHostGetDevicePointer(&word, base, 0));
    /* The driver loads a function at its first launch, and then waits for all streams. */
    FC_TRY(fc_launch(fc, f, 1, NULL, params));
    for (int i = 0; i < count; i++)
        FC_TRY(fc->cu.cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    FC_TRY(fc->cu.cuCtxSynchronize());
    if (pthread_create(&thread, NULL, release_when_stalled, &fill))
        return CUDA_ERROR_OPERATING_SYSTEM;
    /* Streams beyond the number of the GPU's queues share one: a wait may block behind another's. */
    for (int i = 0; i < count && result == CUDA_SUCCESS; i++) {
        result = fc->cu.cuStreamWaitValue32(streams[i], word, 1, CU_STREAM_WAIT_VALUE_GEQ);
        fill.progress++;
        if (*fill.word) {
            fc_note(fc, "the wait of stream %d blocked", i);
            blocked = i;
            break;
        }
    }
    for (int i = 0; i < FILL_MAX && result == CUDA_SUCCESS && blocked < 0; i++) {
        result = fc_launch(fc, f, 1, streams[i % count], params);
        fill.progress++;
        /* The word was set while this launch was under way: it had blocked. */
        if (*fill.word)
            blocked = i;
    }
    fill.done = 1;
    pthread_join(thread, NULL);
    if (result == CUDA_SUCCESS)
        result = fc->cu.cuCtxSynchronize();
    for (int i = 0; i < count; i++)
        fc->cu.cuStreamDestroy(streams[i]);
    if (fc->note[0])
        return result;
    if (blocked < 0)
        fc_note(fc, "%d launches did not block", FILL_MAX);
    else
        fc_note(fc, "launch %d blocked", blocked);
    return result;
}

static CUresult fill_1(struct fc *fc)
{
    return fill_streams(fc, 1);
}

static CUresult fill_8(struct fc *fc)
{
    return fill_streams(fc, 8);
}

static CUresult fill_64(struct fc *fc)
{
    return fill_streams(fc, 64);
}

const struct fc_step fc_work_steps[] = {
    {"launch", launch, 30, 0},
    {"printf", print, 30, 0},
    {"host_function", host_function, 20, 0},
    {"stream_values", stream_values, 20, 0},
    {"event_time", event_time, 20, 0},
    {"cooperative", cooperative, 20, 0},
    {"graph_extra", graph_extra, 20, 0},
    {"fill_1_stream", fill_1, 60, FC_ALONE},
    {"fill_8_streams", fill_8, 60, FC_ALONE},
    {"fill_64_streams", fill_64, 60, FC_ALONE},
    {"assert", device_assert, 30, FC_ALONE},
    {NULL, NULL, 0, 0},
};
