/* SPDX-License-Identifier: MIT */
/* Streams, captures, events, contexts. */
#include "sequences.h"

static CUresult create(void)
{
    return cuStreamCreate(SEQ_SLOT(stream), seq_random(2));
}
static CUresult destroy(void)
{
    return cuStreamDestroy_v2(SEQ_ANY(stream));
}
static CUresult begin(void)
{
    static const CUstreamCaptureMode modes[] = {
        CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL};

    return cuStreamBeginCapture_v2(SEQ_ANY(stream), modes[seq_random(3)]);
}
static CUresult begin_to_graph(void)
{
    return cuStreamBeginCaptureToGraph(SEQ_ANY(stream), SEQ_ANY(graph), SEQ_SLOT(node), NULL, seq_random(2),
                                       CU_STREAM_CAPTURE_MODE_RELAXED);
}
static CUresult end(void)
{
    return cuStreamEndCapture(SEQ_ANY(stream), SEQ_SLOT(graph));
}

/* The dependencies of the next captured call, and the graph: handles like any others. */
static CUresult info(void)
{
    CUstreamCaptureStatus status;
    const CUgraphNode *front;
    cuuint64_t id;
    CUgraph g = NULL;
    size_t n = 0;
    CUresult r = cuStreamGetCaptureInfo_v2(SEQ_ANY(stream), &status, &id, &g, &front, &n);

    if (r == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        SEQ_PUT(graph, g);
        for (size_t i = 0; i < n && i < 3; i++)
            SEQ_PUT(node, front[i]);
    }
    return r;
}
static CUresult set_front(void)
{
    return cuStreamUpdateCaptureDependencies_v2(SEQ_ANY(stream), SEQ_SLOT(node), NULL, seq_random(2),
                                                seq_random(2));
}
static CUresult event_create(void)
{
    return cuEventCreate(SEQ_SLOT(event), 0);
}
static CUresult event_destroy(void)
{
    return cuEventDestroy_v2(SEQ_ANY(event));
}
static CUresult record(void)
{
    return cuEventRecord(SEQ_ANY(event), SEQ_ANY(stream));
}
static CUresult wait(void)
{
    return cuStreamWaitEvent(SEQ_ANY(stream), SEQ_ANY(event), 0);
}
static CUresult query(void)
{
    return seq_random(2) ? cuStreamQuery(SEQ_ANY(stream)) : cuEventQuery(SEQ_ANY(event));
}
static CUresult host(void)
{
    return cuLaunchHostFunc(SEQ_ANY(stream), seq_host_function, NULL);
}

/* Destroys a context other than the primary, or replaces it. */
static CUresult context(void)
{
    CUcontext *c = &seq.context[1 + seq_random(seq_slots > 2 ? 2 : 1)];
    CUresult r = CUDA_SUCCESS;

    if (*c && seq_random(2)) {
        r = cuCtxDestroy_v2(*c);
        *c = NULL;
    } else if (!*c) {
        r = cuCtxCreate_v2(c, 0, 0);
    }
    cuCtxSetCurrent(seq_home());
    return r;
}
static CUresult current(void)
{
    return cuCtxSetCurrent(SEQ_ANY(context) ?: seq_home());
}

static CUresult green_create(void)
{
    CUdevResource all;
    CUdevResourceDesc desc;
    CUresult r = cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM);

    if (r == CUDA_SUCCESS)
        r = cuDevResourceGenerateDesc(&desc, &all, 1);
    return r == CUDA_SUCCESS ? cuGreenCtxCreate(SEQ_SLOT(green), desc, 0, CU_GREEN_CTX_DEFAULT_STREAM) : r;
}
static CUresult green_stream(void)
{
    return cuGreenCtxStreamCreate(SEQ_SLOT(stream), SEQ_ANY(green), CU_STREAM_NON_BLOCKING, 0);
}
static CUresult green_destroy(void)
{
    return cuGreenCtxDestroy(SEQ_ANY(green));
}

/* Short waits for other threads and streams. */
static CUresult synchronize(void)
{
    switch (seq_random(3)) {
    case 0:
        return cuStreamSynchronize(SEQ_ANY(stream));
    case 1:
        return cuEventSynchronize(SEQ_ANY(event));
    default:
        return cuCtxSynchronize();
    }
}
static CUresult write_value(void)
{
    return seq_random(2) ? cuStreamWriteValue32_v2(SEQ_ANY(stream), seq_memory(), 1, 0)
                         : cuStreamWaitValue32_v2(SEQ_ANY(stream), seq_memory(), 0, CU_STREAM_WAIT_VALUE_GEQ);
}
static CUresult attach(void)
{
    return cuStreamAttachMemAsync(SEQ_ANY(stream), SEQ_ANY(managed), 0,
                                  seq_random(2) ? CU_MEM_ATTACH_GLOBAL : CU_MEM_ATTACH_SINGLE);
}
static CUresult copy_attributes(void)
{
    return cuStreamCopyAttributes(SEQ_ANY(stream), SEQ_ANY(stream));
}
static CUresult green_context(void)
{
    CUcontext c;
    CUresult r = cuCtxFromGreenCtx(&c, SEQ_ANY(green));

    if (r == CUDA_SUCCESS) /* beyond the slots of contexts that are destroyed */
        seq.context[seq_slots > 3 ? 3 + seq_random(seq_slots - 3) : 3] = c;
    return r;
}
static CUresult green_event(void)
{
    return seq_random(2) ? cuGreenCtxRecordEvent(SEQ_ANY(green), SEQ_ANY(event))
                         : cuGreenCtxWaitEvent(SEQ_ANY(green), SEQ_ANY(event));
}
static CUresult context_event(void)
{
    return seq_random(2) ? cuCtxRecordEvent(SEQ_ANY(context), SEQ_ANY(event))
                         : cuCtxWaitEvent(SEQ_ANY(context), SEQ_ANY(event));
}

const struct seq_step seq_stream_steps[] = {
    {"cu...Synchronize", synchronize, 1},
    {"cuStreamWriteValue32, WaitValue32", write_value, 1},
    {"cuStreamAttachMemAsync", attach, 1},
    {"cuStreamCopyAttributes", copy_attributes, 1},
    {"cuCtxFromGreenCtx", green_context, 1},
    {"cuGreenCtxRecordEvent, WaitEvent", green_event, 1},
    {"cuCtxRecordEvent, WaitEvent", context_event, 1},
    {"cuStreamCreate", create, 2},
    {"cuStreamDestroy", destroy, 1},
    {"cuStreamBeginCapture", begin, 3},
    {"cuStreamBeginCaptureToGraph", begin_to_graph, 2},
    {"cuStreamEndCapture", end, 3},
    {"cuStreamGetCaptureInfo", info, 3},
    {"cuStreamUpdateCaptureDependencies", set_front, 2},
    {"cuEventCreate", event_create, 2},
    {"cuEventDestroy", event_destroy, 1},
    {"cuEventRecord", record, 3},
    {"cuStreamWaitEvent", wait, 3},
    {"cu...Query", query, 1},
    {"cuLaunchHostFunc", host, 2},
    {"cuCtxCreate, cuCtxDestroy", context, 1},
    {"cuCtxSetCurrent", current, 2},
    {"cuGreenCtxCreate", green_create, 1},
    {"cuGreenCtxStreamCreate", green_stream, 1},
    {"cuGreenCtxDestroy", green_destroy, 1},
    {NULL, NULL, 0},
};
