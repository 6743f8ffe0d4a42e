// SPDX-License-Identifier: MIT
/* Stream capture: effect of calls on a captured stream, and errors. */
#include "conform.h"

#include <pthread.h>

#define N 1000u

static CUstream new_stream(void)
{
    CUstream s = NULL;
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
}

static CUresult add(CUdeviceptr p, unsigned n, unsigned v, CUstream s)
{
    void *params[] = {&p, &n, &v};
    return cf_launch(cf_func("k_add"), (n + 127) / 128, 128, 0, s, params);
}

static CUdeviceptr words(unsigned n)
{
    CUdeviceptr p = 0;
    NEED(cuMemAlloc(&p, n * 4));
    NEED(cuMemsetD32(p, 0, n));
    return p;
}

/* Instantiates, launches once, waits. */
static CUresult once(CUgraph g, CUstream s)
{
    CUgraphExec x = NULL;
    CUresult r = cuGraphInstantiate(&x, g, 0);
    if (r == CUDA_SUCCESS)
        r = cuGraphLaunch(x, s);
    if (r == CUDA_SUCCESS)
        r = cuStreamSynchronize(s);
    if (x)
        cuGraphExecDestroy(x);
    return r;
}

CASE(capture_basic, CF_CTX)
{
    CUstream s = new_stream();
    CUdeviceptr p = words(N);
    CUstreamCaptureStatus status = 9;
    CUgraph g = NULL;
    CUgraphExec x = NULL;
    CUgraphNode nodes[8] = {0};
    size_t n = 0;

    OK("begin", cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK("is", cuStreamIsCapturing(s, &status));
    cf_u64("is_active", status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK("fill", cf_fill(p, N, 5, s));
    OK("add", add(p, N, 1, s));
    OK("memset", cuMemsetD32Async(p + 4 * (N - 1), 77, 1, s));
    OK("end", cuStreamEndCapture(s, &g));
    cf_true("graph", g != NULL);
    OK("is_2", cuStreamIsCapturing(s, &status));
    cf_u64("is_none", status, CU_STREAM_CAPTURE_STATUS_NONE);
    cf_true("nothing_ran", !cf_filled(p, N - 1, 6));
    OK("count", cuGraphGetNodes(g, NULL, &n));
    cf_u64("count_value", n, 3);
    n = 8;
    OK("nodes", cuGraphGetNodes(g, nodes, &n));
    cf_u64("nodes_value", n, 3);
    cf_true("nodes_there", nodes[0] && nodes[1] && nodes[2] && !nodes[3]);
    OK("instantiate", cuGraphInstantiate(&x, g, 0));
    OK("upload", cuGraphUpload(x, s));
    OK("destroy_graph", cuGraphDestroy(g));
    OK("launch", cuGraphLaunch(x, s));
    OK("sync", cuStreamSynchronize(s));
    cf_true("ran", cf_filled(p, N - 1, 6));
    OK("clear", cuMemsetD32(p, 0, N));
    for (int i = 0; i < 50; i++)
        NEED(cuGraphLaunch(x, s));
    OK("sync_2", cuStreamSynchronize(s));
    cf_true("ran_again", cf_filled(p, N - 1, 6));
    OK("destroy", cuGraphExecDestroy(x));
    OK("free", cuMemFree(p));
    OK("destroy_stream", cuStreamDestroy(s));
}

CASE(capture_params_copied, CF_CTX)
{
    CUstream s = new_stream();
    CUdeviceptr p = words(N);
    unsigned n = N, v = 11;
    void *params[] = {&p, &n, &v};
    CUdeviceptr keep = p;
    CUgraph g = NULL;

    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK("launch", cf_launch(cf_func("k_fill"), (N + 127) / 128, 128, 0, s, params));
    v = 99;
    n = 0;
    p = 0;
    NEED(cuStreamEndCapture(s, &g));
    OK("run", once(g, s));
    cf_true("as_captured", cf_filled(keep, N, 11));
    NEED(cuGraphDestroy(g));
    NEED(cuMemFree(keep));
    NEED(cuStreamDestroy(s));
}

CASE(capture_fork_join, CF_CTX)
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr p = words(N), q = words(N);
    CUevent fork = NULL, join = NULL;
    CUgraph g = NULL;
    CUgraphNode from[8], to[8];
    size_t n = 0;

    NEED(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    NEED(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    NEED(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK("first", cf_fill(p, N, 1, a));
    OK("record", cuEventRecord(fork, a));
    OK("wait", cuStreamWaitEvent(b, fork, 0));
    OK("other", cf_fill(q, N, 2, b));
    OK("second", add(p, N, 1, a));
    OK("record_back", cuEventRecord(join, b));
    OK("wait_back", cuStreamWaitEvent(a, join, 0));
    OK("last", add(q, N, 3, a));
    OK("end", cuStreamEndCapture(a, &g));
    OK("edges", cuGraphGetEdges(g, NULL, NULL, NULL, &n));
    cf_u64("edges_count", n, 4);
    n = 8;
    OK("edges_list", cuGraphGetEdges(g, from, to, NULL, &n));
    cf_u64("edges_list_count", n, 4);
    n = 0;
    OK("roots", cuGraphGetRootNodes(g, NULL, &n));
    cf_u64("roots_count", n, 1);
    n = 1;
    OK("root", cuGraphGetRootNodes(g, from, &n));
    n = 0;
    OK("dependents", cuGraphNodeGetDependentNodes(from[0], NULL, NULL, &n));
    cf_u64("dependents_count", n, 2);
    n = 0;
    OK("dependencies", cuGraphNodeGetDependencies(from[0], NULL, NULL, &n));
    cf_u64("dependencies_count", n, 0);
    OK("run", once(g, a));
    cf_true("right", cf_filled(p, N, 2) && cf_filled(q, N, 5));
    /* The event belongs to a capture that has ended. */
    RC_IN("captured_event", cuEventSynchronize(join), CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE,
          CUDA_ERROR_CAPTURED_EVENT);
    NEED(cuGraphDestroy(g));
    NEED(cuEventDestroy(fork));
    NEED(cuEventDestroy(join));
    NEED(cuStreamDestroy(a));
    NEED(cuStreamDestroy(b));
    NEED(cuMemFree(p));
    NEED(cuMemFree(q));
}

CASE(capture_errors, CF_CTX)
{
    CUstream s = new_stream(), other = new_stream();
    CUgraph g = (CUgraph)1;
    CUgraphExec x = NULL;
    CUstreamCaptureStatus status = 9;
    CUevent e = NULL;

    NEED(cuEventCreate(&e, 0));
    RC("mode", cuStreamBeginCapture(s, 7), CUDA_ERROR_INVALID_VALUE);
    RC("legacy", cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL),
       CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    RC("legacy_named", cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_GLOBAL),
       CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    RC("end_none", cuStreamEndCapture(s, &g), CUDA_ERROR_ILLEGAL_STATE);
    RC("end_null", cuStreamEndCapture(s, NULL), CUDA_ERROR_ILLEGAL_STATE);
    RC("is_null", cuStreamIsCapturing(s, NULL), CUDA_ERROR_INVALID_VALUE);
    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    RC("begin_twice", cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_ERROR_ILLEGAL_STATE);
    RC("query", cuStreamQuery(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    OK("is", cuStreamIsCapturing(s, &status));
    cf_u64("is_invalidated", status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    RC("launch_after", cf_launch(cf_func("k_nop"), 1, 1, 0, s, NULL), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    RC("end_invalid", cuStreamEndCapture(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    cf_true("end_invalid_graph", g == NULL);
    OK("usable", cuStreamSynchronize(s));
    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    RC("sync", cuStreamSynchronize(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    RC("end_invalid_2", cuStreamEndCapture(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    /* An event recorded outside. */
    NEED(cuEventRecord(e, other));
    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    RC("isolation", cuStreamWaitEvent(s, e, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    RC("end_invalid_3", cuStreamEndCapture(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    /* Two captures are joined. */
    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    NEED(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
    NEED(cf_launch(cf_func("k_nop"), 1, 1, 0, other, NULL));
    NEED(cuEventRecord(e, other));
    RC("merge", cuStreamWaitEvent(s, e, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    RC("end_invalid_4", cuStreamEndCapture(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    RC("end_invalid_5", cuStreamEndCapture(other, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    /* A branch that is not joined, and an attempt to end the capture in a branch. */
    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    NEED(cf_launch(cf_func("k_nop"), 1, 1, 0, s, NULL));
    NEED(cuEventRecord(e, s));
    NEED(cuStreamWaitEvent(other, e, 0));
    NEED(cf_launch(cf_func("k_nop"), 1, 1, 0, other, NULL));
    RC("unjoined", cuStreamEndCapture(s, &g), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    OK("is_none", cuStreamIsCapturing(other, &status));
    cf_u64("is_none_value", status, CU_STREAM_CAPTURE_STATUS_NONE);
    /* Invalid handles. */
    RC("instantiate_null", cuGraphInstantiate(&x, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    RC("launch_null", cuGraphLaunch(NULL, s), CUDA_ERROR_INVALID_VALUE);
    RC("destroy_null", cuGraphDestroy(NULL), CUDA_ERROR_INVALID_VALUE);
    RC("exec_destroy_null", cuGraphExecDestroy(NULL), CUDA_ERROR_INVALID_VALUE);
    NEED(cuEventDestroy(e));
    NEED(cuStreamDestroy(s));
    NEED(cuStreamDestroy(other));
}

/* Work on the legacy stream while a blocking stream is captured. */
CASE(capture_implicit, CF_CTX)
{
    CUstream s = NULL;
    CUdeviceptr p = words(16);
    CUgraph g = NULL;

    NEED(cuStreamCreate(&s, CU_STREAM_DEFAULT));
    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    RC("launch", cf_launch(cf_func("k_nop"), 1, 1, 0, NULL, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    RC("end", cuStreamEndCapture(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    RC("memset", cuMemsetD32Async(p, 0, 4, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    RC("end_2", cuStreamEndCapture(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    NEED(cuMemFree(p));
    NEED(cuStreamDestroy(s));
}

struct end_arg {
    CUcontext ctx;
    CUstream s;
    CUresult r;
};

static void *end_it(void *p)
{
    struct end_arg *a = p;
    CUgraph g = NULL;
    cuCtxSetCurrent(a->ctx);
    a->r = cuStreamEndCapture(a->s, &g);
    if (a->r == CUDA_SUCCESS)
        cuGraphDestroy(g);
    return NULL;
}

CASE(capture_threads, CF_CTX)
{
    struct end_arg a = {.s = new_stream()};
    CUgraph g = NULL;
    pthread_t t;

    NEED(cuCtxGetCurrent(&a.ctx));
    NEED(cuStreamBeginCapture(a.s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    pthread_create(&t, NULL, end_it, &a);
    pthread_join(t, NULL);
    RC("wrong_thread", a.r, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    RC("end", cuStreamEndCapture(a.s, &g), CUDA_ERROR_ILLEGAL_STATE); /* ended nevertheless */
    NEED(cuStreamBeginCapture(a.s, CU_STREAM_CAPTURE_MODE_RELAXED));
    pthread_create(&t, NULL, end_it, &a);
    pthread_join(t, NULL);
    RC("relaxed", a.r, CUDA_SUCCESS);
    NEED(cuStreamDestroy(a.s));
}

CASE(capture_info, CF_CTX)
{
    CUstream s = new_stream();
    CUstreamCaptureStatus status = 9;
    cuuint64_t id = 0, id2 = 0;
    CUgraph g = NULL, g2 = NULL;
    const CUgraphNode *deps = NULL;
    CUgraphNode first = NULL, both[2];
    size_t n = 9;

    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK("empty", cuStreamGetCaptureInfo(s, &status, &id, &g, &deps, NULL, &n));
    cf_u64("empty_count", n, 0);
    cf_true("empty_id", id != 0 && g != NULL);
    NEED(cf_launch(cf_func("k_nop"), 1, 1, 0, s, NULL));
    OK("one", cuStreamGetCaptureInfo(s, &status, &id2, &g2, &deps, NULL, &n));
    cf_u64("one_count", n, 1);
    cf_true("same", id == id2 && g == g2);
    first = n == 1 ? deps[0] : NULL;
    NEED(cf_launch(cf_func("k_nop"), 1, 1, 0, s, NULL));
    OK("two", cuStreamGetCaptureInfo(s, &status, NULL, NULL, &deps, NULL, &n));
    cf_true("moved", n == 1 && deps[0] != first);
    both[0] = first;
    both[1] = n == 1 ? deps[0] : NULL;
    OK("set", cuStreamUpdateCaptureDependencies(s, both, NULL, 2, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    OK("three", cuStreamGetCaptureInfo(s, &status, NULL, NULL, &deps, NULL, &n));
    cf_u64("three_count", n, 2);
    RC("set_wrong", cuStreamUpdateCaptureDependencies(s, both, NULL, 2, 8), CUDA_ERROR_INVALID_VALUE);
    NEED(cf_launch(cf_func("k_nop"), 1, 1, 0, s, NULL));
    OK("end", cuStreamEndCapture(s, &g));
    cf_true("end_same", g == g2);
    OK("edges", cuGraphGetEdges(g, NULL, NULL, NULL, &n));
    cf_u64("edges_count", n, 3);
    RC("set_after", cuStreamUpdateCaptureDependencies(s, both, NULL, 1, 0), CUDA_ERROR_ILLEGAL_STATE);
    NEED(cuGraphDestroy(g));
    NEED(cuStreamDestroy(s));
}

static void CUDA_CB count_up(void *p)
{
    ++*(int *)p;
}

CASE(capture_host_func, CF_CTX)
{
    CUstream s = new_stream();
    CUdeviceptr p = words(N);
    CUgraph g = NULL;
    CUgraphExec x = NULL;
    int calls = 0;

    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK("fill", cf_fill(p, N, 1, s));
    OK("host", cuLaunchHostFunc(s, count_up, &calls));
    OK("host_2", cuLaunchHostFunc(s, count_up, &calls));
    OK("add", add(p, N, 1, s));
    OK("end", cuStreamEndCapture(s, &g));
    cf_true("not_yet", calls == 0);
    OK("instantiate", cuGraphInstantiate(&x, g, 0));
    NEED(cuGraphDestroy(g));
    for (int i = 0; i < 5; i++)
        NEED(cuGraphLaunch(x, s));
    OK("sync", cuStreamSynchronize(s));
    cf_u64("calls", (uint64_t)calls, 10);
    cf_true("right", cf_filled(p, N, 2));
    OK("destroy", cuGraphExecDestroy(x));
    NEED(cuMemFree(p));
    NEED(cuStreamDestroy(s));
}

/*
 * The graph of a capture to an existing graph need not be returned; a forked stream may be
 * destroyed after the join.
 */
CASE(capture_to_graph_ends, CF_CTX)
{
    CUstream s = new_stream(), fork = new_stream();
    CUdeviceptr p = words(N);
    CUgraph g = NULL;
    CUgraphExec x = NULL;
    CUevent a = NULL, b = NULL;
    size_t n = 0;

    NEED(cuEventCreate(&a, 0));
    NEED(cuEventCreate(&b, 0));
    NEED(cuGraphCreate(&g, 0));
    OK("begin", cuStreamBeginCaptureToGraph(s, g, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK("fill", cf_fill(p, N, 1, s));
    OK("record", cuEventRecord(a, s));
    OK("fork", cuStreamWaitEvent(fork, a, 0));
    OK("add", add(p, N, 1, fork));
    OK("record_fork", cuEventRecord(b, fork));
    OK("join", cuStreamWaitEvent(s, b, 0));
    OK("destroy_fork", cuStreamDestroy(fork));
    OK("end", cuStreamEndCapture(s, NULL));
    OK("nodes", cuGraphGetNodes(g, NULL, &n));
    cf_u64("nodes_count", n, 2);
    OK("instantiate", cuGraphInstantiate(&x, g, 0));
    OK("launch", cuGraphLaunch(x, s));
    OK("sync", cuStreamSynchronize(s));
    cf_true("right", cf_filled(p, N, 2));
    NEED(cuGraphExecDestroy(x));
    NEED(cuGraphDestroy(g));
    /* Without the join the end of the capture fails. */
    NEED(cuStreamCreate(&fork, CU_STREAM_NON_BLOCKING));
    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    NEED(cf_fill(p, N, 1, s));
    NEED(cuEventRecord(a, s));
    NEED(cuStreamWaitEvent(fork, a, 0));
    NEED(add(p, N, 1, fork));
    NEED(cuStreamDestroy(fork));
    RC("unjoined", cuStreamEndCapture(s, NULL), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    RC("ended", cuStreamEndCapture(s, &g), CUDA_ERROR_ILLEGAL_STATE);
    NEED(cuEventDestroy(a));
    NEED(cuEventDestroy(b));
    NEED(cuMemFree(p));
    NEED(cuStreamDestroy(s));
}

CASE(capture_pinned, CF_CTX)
{
    CUstream s = new_stream();
    CUdeviceptr p = words(N), q = words(N);
    uint32_t *in = NULL, *out = NULL;
    CUgraph g = NULL;
    CUgraphExec x = NULL;
    bool ok = true;

    NEED(cuMemAllocHost((void **)&in, N * 4));
    NEED(cuMemAllocHost((void **)&out, N * 4));
    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK("in", cuMemcpyHtoDAsync(p, in, N * 4, s));
    OK("add", add(p, N, 1, s));
    OK("between", cuMemcpyDtoDAsync(q, p, N * 4, s));
    OK("out", cuMemcpyDtoHAsync(out, q, N * 4, s));
    OK("end", cuStreamEndCapture(s, &g));
    OK("instantiate", cuGraphInstantiate(&x, g, 0));
    for (unsigned k = 1; k < 4; k++) {
        for (unsigned i = 0; i < N; i++)
            in[i] = i * k;
        NEED(cuGraphLaunch(x, s));
        NEED(cuStreamSynchronize(s));
        for (unsigned i = 0; i < N; i++)
            ok &= out[i] == i * k + 1;
    }
    cf_true("bytes_of_each_launch", ok);
    NEED(cuGraphExecDestroy(x));
    NEED(cuGraphDestroy(g));
    NEED(cuMemFreeHost(in));
    NEED(cuMemFreeHost(out));
    NEED(cuMemFree(p));
    NEED(cuMemFree(q));
    NEED(cuStreamDestroy(s));
}

CASE(capture_update, CF_CTX)
{
    CUstream s = new_stream();
    CUdeviceptr p = words(N);
    CUgraphExecUpdateResultInfo info;
    CUgraph g = NULL;
    CUgraphExec x = NULL;

    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    NEED(cf_fill(p, N, 1, s));
    NEED(cuStreamEndCapture(s, &g));
    NEED(cuGraphInstantiate(&x, g, 0));
    NEED(cuGraphDestroy(g));
    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    NEED(cf_fill(p, N, 500, s));
    NEED(cuStreamEndCapture(s, &g));
    memset(&info, 0xff, sizeof(info));
    OK("update", cuGraphExecUpdate(x, g, &info));
    cf_u64("update_result", info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    NEED(cuGraphDestroy(g));
    NEED(cuGraphLaunch(x, s));
    NEED(cuStreamSynchronize(s));
    cf_true("updated", cf_filled(p, N, 500));
    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    NEED(cf_fill(p, N, 500, s));
    NEED(cf_fill(p, N, 500, s));
    NEED(cuStreamEndCapture(s, &g));
    RC("update_more", cuGraphExecUpdate(x, g, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    cf_u64("update_more_result", info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    RC("update_null", cuGraphExecUpdate(x, g, NULL), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    RC("update_no_exec", cuGraphExecUpdate(NULL, g, &info), CUDA_ERROR_INVALID_VALUE);
    RC("update_no_graph", cuGraphExecUpdate(x, NULL, &info), CUDA_ERROR_INVALID_VALUE);
    NEED(cuGraphDestroy(g));
    NEED(cuGraphExecDestroy(x));
    NEED(cuMemFree(p));
    NEED(cuStreamDestroy(s));
}

/* An executable graph launched during a capture becomes a child of the new graph. */
CASE(capture_nested, CF_CTX)
{
    CUstream s = new_stream();
    CUdeviceptr p = words(N);
    CUgraph g = NULL, outer = NULL;
    CUgraphExec x = NULL;

    NEED(cuMemsetD32(p, 0, N));
    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    NEED(add(p, N, 2, s));
    NEED(cuStreamEndCapture(s, &g));
    NEED(cuGraphInstantiate(&x, g, 0));
    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    NEED(cf_fill(p, N, 1, s));
    /* A GPU's driver (580) refuses this. */
    const CUresult r = cuGraphLaunch(x, s);
    RC_IN("launch_in_capture", r, CUDA_SUCCESS, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    RC("launch_in_capture_2", cuGraphLaunch(x, s), r);
    RC("end", cuStreamEndCapture(s, &outer),
       r == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    NEED(cuGraphExecDestroy(x));
    NEED(cuGraphDestroy(g));
    if (outer) {
        OK("run", once(outer, s));
        cf_true("right", cf_filled(p, N, 5));
        NEED(cuGraphDestroy(outer));
    }
    NEED(cuMemFree(p));
    NEED(cuStreamDestroy(s));
}

/* Per-thread default streams can be captured; a stream that captures can be destroyed. */
CASE(capture_streams, CF_CTX)
{
    CUstream s = new_stream();
    CUdeviceptr p = words(N);
    CUgraph g = NULL;

    NEED(cuStreamBeginCapture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK("per_thread", cf_fill(p, N, 3, CU_STREAM_PER_THREAD));
    OK("per_thread_end", cuStreamEndCapture(CU_STREAM_PER_THREAD, &g));
    OK("per_thread_run", once(g, CU_STREAM_PER_THREAD));
    cf_true("per_thread_right", cf_filled(p, N, 3));
    NEED(cuGraphDestroy(g));
    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    NEED(cf_fill(p, N, 4, s));
    OK("destroy_capturing", cuStreamDestroy(s));
    OK("alloc_after", cuMemFree(p));
}

static CUresult end_and_destroy(CUstream s, size_t *nodes)
{
    CUgraph g = NULL;
    CUresult r = cuStreamEndCapture(s, &g);

    *nodes = 0;
    if (r == CUDA_SUCCESS) {
        NEED(cuGraphGetNodes(g, NULL, nodes));
        NEED(cuGraphDestroy(g));
    }
    return r;
}

/*
 * Changes of the set of captured streams and events between two calls are visible to the next call.
 */
CASE(capture_changes, CF_CTX)
{
    CUstream s[3] = {new_stream(), new_stream(), new_stream()};
    CUstreamCaptureStatus status;
    CUdeviceptr p = words(8);
    CUevent e = NULL, f = NULL;
    size_t n = 0;

    NEED(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    NEED(cuEventCreate(&f, CU_EVENT_DISABLE_TIMING));
    NEED(cf_fill(p, 8, 0, s[0]));
    NEED(cuCtxSynchronize());
    /* An event recorded again outside no longer belongs to the capture. */
    NEED(cuStreamBeginCapture(s[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    OK("first", cf_fill(p, 8, 1, s[0]));
    OK("record", cuEventRecord(e, s[0]));
    OK("record_outside", cuEventRecord(e, s[2]));
    OK("wait_outside", cuStreamWaitEvent(s[1], e, 0));
    OK("status_outside", cuStreamIsCapturing(s[1], &status));
    cf_u64("status_outside_value", status, CU_STREAM_CAPTURE_STATUS_NONE);
    RC("wait_inside", cuStreamWaitEvent(s[0], e, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    RC("fill_after", cf_fill(p, 8, 1, s[0]), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    RC("end_outside", end_and_destroy(s[0], &n), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    /* An event of an ended capture, during the next capture. */
    NEED(cuStreamBeginCapture(s[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    NEED(cuEventRecord(e, s[0]));
    OK("end_first", end_and_destroy(s[0], &n));
    NEED(cuStreamBeginCapture(s[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    OK("fill_next", cf_fill(p, 8, 1, s[0]));
    OK("record_next", cuEventRecord(e, s[0]));
    OK("join_next", cuStreamWaitEvent(s[1], e, 0));
    OK("status_next", cuStreamIsCapturing(s[1], &status));
    cf_u64("status_next_value", status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK("fill_joined", cf_fill(p, 8, 2, s[1]));
    OK("memset_joined", cuMemsetD32Async(p, 0, 8, s[1]));
    OK("record_joined", cuEventRecord(f, s[1]));
    OK("join_back", cuStreamWaitEvent(s[0], f, 0));
    OK("join_twice", cuStreamWaitEvent(s[0], f, 0));
    /* A stream joins again after it was part of a capture, and of another. */
    OK("end_next", end_and_destroy(s[0], &n));
    cf_u64("end_next_nodes", n, 3);
    OK("status_ended", cuStreamIsCapturing(s[1], &status));
    cf_u64("status_ended_value", status, CU_STREAM_CAPTURE_STATUS_NONE);
    NEED(cuStreamBeginCapture(s[2], CU_STREAM_CAPTURE_MODE_RELAXED));
    NEED(cuEventRecord(f, s[2]));
    OK("join_other", cuStreamWaitEvent(s[1], f, 0));
    NEED(cuStreamBeginCapture(s[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    RC("begin_joined", cuStreamBeginCapture(s[1], CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_ERROR_ILLEGAL_STATE);
    OK("fill_other", cf_fill(p, 8, 3, s[1]));
    NEED(cuEventRecord(e, s[1]));
    RC("merge", cuStreamWaitEvent(s[0], e, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    RC("end_merge", end_and_destroy(s[0], &n), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    RC("end_merge_other", end_and_destroy(s[2], &n), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    /* Captured work has not run. */
    NEED(cuCtxSynchronize());
    cf_true("not_run", cf_filled(p, 8, 0));
    NEED(cuEventDestroy(e));
    NEED(cuEventDestroy(f));
    for (int i = 0; i < 3; i++)
        NEED(cuStreamDestroy(s[i]));
    NEED(cuMemFree(p));
}
