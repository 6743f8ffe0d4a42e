/* SPDX-License-Identifier: MIT */
/*
 * Answers of queries of events and streams, for any number of queries and any completion already
 * observed.
 */
#include "conform.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#define STREAMS 3
#define EVENTS 8
#define STEPS 400

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Queries until complete; false: never completed. */
static bool comes(CUevent e, CUstream s)
{
    double end = seconds() + 60;
    CUresult r;

    while ((r = e ? cuEventQuery(e) : cuStreamQuery(s)) == CUDA_ERROR_NOT_READY) {
        if (seconds() > end)
            return false;
    }
    return r == CUDA_SUCCESS;
}

static unsigned next_random(unsigned n)
{
    static uint64_t state = 88172645463325252u;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state % n);
}

/* ---- many queries in any order, compared with a model ---- */

struct world {
    CUstream stream[STREAMS];
    /* NULL: no gate in the stream. At most one, as host functions may run one after another. */
    struct cf_gate *gate[STREAMS];
    int closed; /* stream with a closed gate, or -1 */
    CUevent event[EVENTS];
    int on[EVENTS];         /* the stream of the latest record; -1: none */
    unsigned order[EVENTS]; /* of that record */
    bool complete[EVENTS];  /* completion was observed */
    bool behind[EVENTS];    /* behind a closed gate */
    unsigned records, stale, never, early;
    CUdeviceptr p;
};

/* Marks earlier work of the stream as complete. */
static void seen(struct world *w, int stream, unsigned order)
{
    for (int i = 0; i < EVENTS; i++)
        w->complete[i] |= w->on[i] == stream && w->order[i] <= order;
}

static void check(struct world *w, int i)
{
    CUresult r = cuEventQuery(w->event[i]);

    if (w->on[i] < 0 || w->complete[i])
        w->never += r != CUDA_SUCCESS;
    else if (w->behind[i])
        w->early += r != CUDA_ERROR_NOT_READY;
    else if (r == CUDA_SUCCESS)
        seen(w, w->on[i], w->order[i]);
    else
        w->stale += r != CUDA_ERROR_NOT_READY;
}

static void open_gate(struct world *w, int s)
{
    if (!w->gate[s])
        return;
    cf_gate_open(w->gate[s]);
    w->gate[s] = NULL;
    w->closed = -1;
    for (int i = 0; i < EVENTS; i++)
        w->behind[i] &= w->on[i] != s;
}

static void record(struct world *w, int i, int s)
{
    w->stale += cf_fill(w->p, 64, 1, w->stream[s]) != CUDA_SUCCESS;
    w->stale += cuEventRecord(w->event[i], w->stream[s]) != CUDA_SUCCESS;
    w->on[i] = s;
    w->order[i] = ++w->records;
    w->complete[i] = false;
    w->behind[i] = w->gate[s] != NULL;
}

static void renew(struct world *w, int i)
{
    w->stale += cuEventDestroy(w->event[i]) != CUDA_SUCCESS;
    w->stale += cuEventCreate(&w->event[i], CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS;
    w->on[i] = -1;
    w->complete[i] = w->behind[i] = false;
}

/* Waits in one of several ways, after which all work of the stream is complete. */
static void wait_for(struct world *w, int s)
{
    unsigned how = next_random(4);

    open_gate(w, s);
    if (how == 2 && w->closed >= 0)
        how = 0;
    if (how == 0)
        w->stale += cuStreamSynchronize(w->stream[s]) != CUDA_SUCCESS;
    else if (how == 1)
        w->never += !comes(NULL, w->stream[s]);
    else if (how == 2)
        cf_gate_open(cf_gate_put(w->stream[s])); /* it has run, so earlier work is complete */
    else if (cuMemcpyDtoHAsync(&(uint32_t){0}, w->p, 4, w->stream[s]) != CUDA_SUCCESS ||
             cuStreamSynchronize(w->stream[s]) != CUDA_SUCCESS)
        w->stale++;
    seen(w, s, w->records);
    if (how != 2)
        w->never += cuStreamQuery(w->stream[s]) != CUDA_SUCCESS;
}

CASE(query_random, CF_ALONE | CF_CTX)
{
    struct world w = {.closed = -1};

    NEED(cuMemAlloc(&w.p, 4096));
    for (int i = 0; i < STREAMS; i++)
        NEED(cuStreamCreate(&w.stream[i], CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < EVENTS; i++) {
        NEED(cuEventCreate(&w.event[i], CU_EVENT_DISABLE_TIMING));
        w.on[i] = -1;
    }
    for (unsigned step = 0; step < STEPS; step++) {
        int s = (int)next_random(STREAMS), e = (int)next_random(EVENTS);

        switch (next_random(8)) {
        case 0:
            if (w.closed < 0 && !cf_real()) { /* a GPU's gate also blocks other streams */
                w.gate[s] = cf_gate_put(w.stream[s]);
                w.closed = s;
            }
            break;
        case 1:
            wait_for(&w, s);
            break;
        case 2:
            renew(&w, e);
            break;
        case 3:
            if (w.on[e] < 0 || w.behind[e])
                break;
            w.never += !comes(w.event[e], NULL);
            seen(&w, w.on[e], w.order[e]);
            break;
        case 4:
            if (w.gate[s])
                w.early += cuStreamQuery(w.stream[s]) != CUDA_ERROR_NOT_READY;
            break;
        default:
            record(&w, e, s);
        }
        for (unsigned i = 0; i < EVENTS; i++)
            check(&w, (int)i);
    }
    for (int s = 0; s < STREAMS; s++) {
        open_gate(&w, s);
        w.never += !comes(NULL, w.stream[s]);
        seen(&w, s, w.records);
    }
    for (int i = 0; i < EVENTS; i++)
        check(&w, i);
    cf_u64("complete_and_not_seen", w.never, 0);
    cf_u64("seen_before_it_was", w.early, 0);
    cf_u64("other_errors", w.stale, 0);
    for (int i = 0; i < EVENTS; i++)
        cuEventDestroy(w.event[i]);
    for (int i = 0; i < STREAMS; i++)
        cuStreamDestroy(w.stream[i]);
    OK("free", cuMemFree(w.p));
}

/* ---- one thread records, another queries ---- */

static struct {
    CUcontext context;
    CUevent event;
    atomic_uint closed; /* odd: the latest record is behind a closed gate; even: unknown */
    atomic_bool end;
    unsigned wrong, asked;
} two;

static void *asks(void *arg)
{
    (void)arg;
    two.wrong += cuCtxSetCurrent(two.context) != CUDA_SUCCESS;
    while (!atomic_load(&two.end)) {
        unsigned before = atomic_load(&two.closed);
        CUresult r = cuEventQuery(two.event);

        /* It was behind the gate from before the query until after it. */
        if (before % 2 == 1 && atomic_load(&two.closed) == before)
            two.wrong += r != CUDA_ERROR_NOT_READY;
        else
            two.wrong += r != CUDA_ERROR_NOT_READY && r != CUDA_SUCCESS;
        two.asked++;
    }
    return NULL;
}

CASE(query_threads, CF_ALONE | CF_CTX)
{
    unsigned never = 0, rounds = 60;
    pthread_t thread;
    CUstream s;

    NEED(cuCtxGetCurrent(&two.context));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&two.event, CU_EVENT_DISABLE_TIMING));
    cf_need_true("a thread", pthread_create(&thread, NULL, asks, NULL) == 0);
    for (unsigned i = 0; i < rounds; i++) {
        struct cf_gate *g = cf_gate_put(s);

        never += cuEventRecord(two.event, s) != CUDA_SUCCESS;
        atomic_fetch_add(&two.closed, 1);
        usleep(next_random(300));
        atomic_fetch_add(&two.closed, 1);
        cf_gate_open(g);
        never += !comes(two.event, NULL);
        if (next_random(2))
            never += cuStreamSynchronize(s) != CUDA_SUCCESS;
    }
    atomic_store(&two.end, true);
    pthread_join(thread, NULL);
    cf_u64("never", never, 0);
    cf_u64("wrong", two.wrong, 0);
    cf_true("asked", two.asked != 0);
    OK("destroy", cuEventDestroy(two.event));
    OK("destroy_stream", cuStreamDestroy(s));
}

/* ---- records other than by cuEventRecord ---- */

CASE(query_graph_event, CF_ALONE | CF_CTX)
{
    CUgraphNode node;
    CUgraphExec exec;
    CUgraph graph;
    CUstream s;
    CUevent e;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK("record", cuEventRecord(e, s));
    OK("sync", cuStreamSynchronize(s));
    OK("query", cuEventQuery(e));
    OK("query_again", cuEventQuery(e));
    NEED(cuGraphCreate(&graph, 0));
    OK("node", cuGraphAddEventRecordNode(&node, graph, NULL, 0, e));
    NEED(cuGraphInstantiate(&exec, graph, 0));
    struct cf_gate *g = cf_gate_put(s);
    OK("launch", cuGraphLaunch(exec, s));
    RC("recorded_by_the_graph", cuEventQuery(e), CUDA_ERROR_NOT_READY);
    cf_gate_open(g);
    cf_true("comes", comes(e, NULL));
    OK("destroy", cuGraphExecDestroy(exec));
    OK("destroy_graph", cuGraphDestroy(graph));
    OK("destroy_event", cuEventDestroy(e));
    OK("destroy_stream", cuStreamDestroy(s));
}

CASE(query_captured_event, CF_ALONE | CF_CTX)
{
    CUgraph graph;
    CUstream s;
    CUevent e;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK("record", cuEventRecord(e, s));
    OK("sync", cuStreamSynchronize(s));
    OK("query", cuEventQuery(e));
    OK("query_again", cuEventQuery(e));
    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK("captured", cuEventRecord(e, s));
    OK("end", cuStreamEndCapture(s, &graph));
    RC("of_a_capture", cuEventQuery(e), CUDA_ERROR_INVALID_VALUE);
    OK("record_again", cuEventRecord(e, s));
    cf_true("comes", comes(e, NULL));
    OK("stream", cuStreamQuery(s));
    OK("destroy_graph", cuGraphDestroy(graph));
    OK("destroy_event", cuEventDestroy(e));
    OK("destroy_stream", cuStreamDestroy(s));
}

/* The context has ended, and with it the stream and the event. */
CASE(query_after_context, CF_ALONE | CF_CTX)
{
    CUcontext c;
    CUevent e;

    NEED(cuCtxCreate(&c, NULL, 0, 0));
    NEED(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK("record", cuEventRecord(e, NULL));
    OK("sync", cuCtxSynchronize());
    OK("query", cuEventQuery(e));
    OK("query_again", cuEventQuery(e));
    OK("destroy", cuCtxDestroy(c));
    cf_true("gone", cuEventQuery(e) != CUDA_SUCCESS);
}

/* A program that only polls gets the error. */
CASE(query_error, CF_ALONE | CF_CTX)
{
    CUdeviceptr bad = 16;
    double end = seconds() + 60;
    CUresult r = CUDA_SUCCESS, again;
    CUstream s;
    CUevent e;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    struct cf_gate *g = cf_gate_put(s);
    OK("launch", cf_fill(bad, 64, 1, s));
    OK("record", cuEventRecord(e, s));
    RC("event", cuEventQuery(e), CUDA_ERROR_NOT_READY);
    RC("stream", cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    RC("event_again", cuEventQuery(e), CUDA_ERROR_NOT_READY);
    cf_gate_open(g);
    do {
        r = cuEventQuery(e);
    } while (r == CUDA_ERROR_NOT_READY && seconds() < end);
    RC("fault", r, CUDA_ERROR_ILLEGAL_ADDRESS);
    again = cuStreamQuery(s);
    RC("fault_of_the_stream", again, CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* A query of the legacy stream while a blocking stream captures is an error, and the capture continues. */
CASE(query_capture_implicit, CF_CTX)
{
    CUstream blocking = NULL, other = NULL;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    CUgraph g = NULL;

    NEED(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    NEED(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK("before", cuStreamIsCapturing(NULL, &status));
    NEED(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    RC("null", cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    RC("legacy", cuStreamIsCapturing(CU_STREAM_LEGACY, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    RC("info", cuStreamGetCaptureInfo(NULL, &status, &id, NULL, NULL, NULL, NULL),
       CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    RC("no_status", cuStreamIsCapturing(NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    OK("other", cuStreamIsCapturing(other, &status));
    cf_u64("other_status", status, CU_STREAM_CAPTURE_STATUS_NONE);
    OK("itself", cuStreamIsCapturing(blocking, &status));
    cf_u64("itself_status", status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK("end", cuStreamEndCapture(blocking, &g));
    OK("graph", cuGraphDestroy(g));
    OK("after", cuStreamIsCapturing(NULL, &status));
    cf_u64("after_status", status, CU_STREAM_CAPTURE_STATUS_NONE);
    /* A non-blocking stream is unaffected. */
    NEED(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK("beside", cuStreamIsCapturing(NULL, &status));
    cf_u64("beside_status", status, CU_STREAM_CAPTURE_STATUS_NONE);
    NEED(cuStreamEndCapture(other, &g));
    NEED(cuGraphDestroy(g));
    NEED(cuStreamDestroy(other));
    NEED(cuStreamDestroy(blocking));
}
