/* SPDX-License-Identifier: MIT */
/*
 * Programs that only poll memory: background work of the library and the device completes without
 * any further CUDA call. Each way twice, both times after an idle period in which all threads have
 * gone to sleep.
 */
#include "conform.h"

#include <unistd.h>

#define REST_US 60000
#define LIMIT_S 20

struct word {
    volatile uint32_t *at; /* mapped host memory */
    CUdeviceptr d;
};

struct way {
    const char *name;
    void (*prepare)(struct word *w);
    /* Issues work that soon sets the word to `value`. */
    void (*issue)(struct word *w, uint32_t value);
    void (*end)(void);
};

static CUstream s, t;
static CUevent event;
static CUgraph graph;
static CUgraphExec exec;
static struct word *target;
static uint32_t wanted; /* by atomic accesses, as the word */

static void CUDA_CB put(void *p)
{
    (void)p;
    __atomic_store_n(target->at, __atomic_load_n(&wanted, __ATOMIC_RELAXED), __ATOMIC_RELEASE);
}

static void CUDA_CB put_after(CUstream stream, CUresult r, void *p)
{
    (void)stream;
    (void)r;
    put(p);
}

static void streams(struct word *w)
{
    target = w;
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
}

static void streams_end(void)
{
    NEED(cuStreamDestroy(s));
    NEED(cuStreamDestroy(t));
    NEED(cuEventDestroy(event));
}

static void by_host_func(struct word *w, uint32_t value)
{
    (void)w;
    __atomic_store_n(&wanted, value, __ATOMIC_RELAXED);
    NEED(cuLaunchHostFunc(s, put, NULL));
}

static void by_callback(struct word *w, uint32_t value)
{
    (void)w;
    __atomic_store_n(&wanted, value, __ATOMIC_RELAXED);
    NEED(cuStreamAddCallback(s, put_after, NULL, 0));
}

/* Two dependent operations in two streams. */
static void by_two_streams(struct word *w, uint32_t value)
{
    (void)w;
    NEED(cuLaunchHostFunc(s, put, NULL)); /* puts the previous value */
    NEED(cuEventRecord(event, s));
    NEED(cuStreamWaitEvent(t, event, 0));
    __atomic_store_n(&wanted, value, __ATOMIC_RELAXED);
    NEED(cuLaunchHostFunc(t, put, NULL));
}

static void by_write_value(struct word *w, uint32_t value)
{
    NEED(cuStreamWriteValue32(s, w->d, value, 0));
}

/* After a wait that is ended by a write of this processor. */
static void by_waiting(struct word *w, uint32_t value)
{
    w->at[1] = 0;
    NEED(cuStreamWaitValue32(s, w->d + 4, value, CU_STREAM_WAIT_VALUE_EQ));
    NEED(cuStreamWriteValue32(s, w->d, value, 0));
    usleep(REST_US);
    w->at[1] = value;
}

static void by_kernel(struct word *w, uint32_t value)
{
    NEED(cf_fill(w->d, 1, value, s));
}

static void by_memset(struct word *w, uint32_t value)
{
    NEED(cuMemsetD32Async(w->d, value, 1, s));
}

static CUdeviceptr source;

static void copy_prepare(struct word *w)
{
    streams(w);
    NEED(cuMemAlloc(&source, 4));
}

static void by_copy(struct word *w, uint32_t value)
{
    NEED(cuMemsetD32Async(source, value, 1, s));
    NEED(cuMemcpyDtoHAsync((void *)(uintptr_t)w->at, source, 4, s));
}

static void copy_end(void)
{
    NEED(cuMemFree(source));
    streams_end();
}

static void graph_prepare(struct word *w)
{
    CUDA_HOST_NODE_PARAMS p = {put, NULL};
    CUgraphNode n;

    streams(w);
    NEED(cuGraphCreate(&graph, 0));
    NEED(cuGraphAddHostNode(&n, graph, NULL, 0, &p));
    NEED(cuGraphInstantiate(&exec, graph, 0));
}

static void by_graph(struct word *w, uint32_t value)
{
    (void)w;
    __atomic_store_n(&wanted, value, __ATOMIC_RELAXED);
    NEED(cuGraphLaunch(exec, s));
}

static void captured_prepare(struct word *w)
{
    streams(w);
    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    NEED(cuLaunchHostFunc(s, put, NULL));
    NEED(cuStreamEndCapture(s, &graph));
    NEED(cuGraphInstantiate(&exec, graph, 0));
}

static void graph_end(void)
{
    NEED(cuGraphExecDestroy(exec));
    NEED(cuGraphDestroy(graph));
    streams_end();
}

/* The destructor of an object kept by a graph. */
static void by_user_object(struct word *w, uint32_t value)
{
    CUuserObject o;

    (void)w;
    __atomic_store_n(&wanted, value, __ATOMIC_RELAXED);
    NEED(cuGraphCreate(&graph, 0));
    NEED(cuUserObjectCreate(&o, NULL, put, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    NEED(cuGraphRetainUserObject(graph, o, 1, CU_GRAPH_USER_OBJECT_MOVE));
    NEED(cuGraphDestroy(graph));
}

/* Many at once: the last value counts. */
static void by_many(struct word *w, uint32_t value)
{
    for (unsigned i = 0; i < 40; i++)
        by_host_func(w, value);
}

static const struct way ways[] = {
    {"host_func", streams, by_host_func, streams_end},
    {"callback", streams, by_callback, streams_end},
    {"two_streams", streams, by_two_streams, streams_end},
    {"many", streams, by_many, streams_end},
    {"write_value", streams, by_write_value, streams_end},
    {"wait_value", streams, by_waiting, streams_end},
    {"kernel", streams, by_kernel, streams_end},
    {"memset", streams, by_memset, streams_end},
    {"copy", copy_prepare, by_copy, copy_end},
    {"graph", graph_prepare, by_graph, graph_end},
    {"captured", captured_prepare, by_graph, graph_end},
    {"user_object", streams, by_user_object, streams_end},
};

static bool seen(const struct word *w, uint32_t value)
{
    for (unsigned i = 0; i < LIMIT_S * 1000u; i++) {
        if (__atomic_load_n(w->at, __ATOMIC_ACQUIRE) == value)
            return true;
        usleep(1000);
    }
    return false;
}

static void poll_for(const struct way *way)
{
    struct word w;
    void *p = NULL;
    char name[64];

    NEED(cuMemHostAlloc(&p, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    w.at = p;
    NEED(cuMemHostGetDevicePointer(&w.d, p, 0));
    memset(p, 0, 4096);
    way->prepare(&w);
    for (uint32_t i = 1; i <= 2; i++) {
        usleep(REST_US);
        way->issue(&w, i);
        snprintf(name, sizeof(name), "%s_%u", way->name, i);
        if (!cf_true(name, seen(&w, i)))
            break;
    }
    NEED(cuCtxSynchronize());
    way->end();
    NEED(cuMemFreeHost(p));
}

/* Each in a separate process, so that no thread of the library was started before. */
#define POLLED(i, ident) \
    CASE(polled_##ident, CF_CTX | CF_ALONE) \
    { \
        poll_for(&ways[i]); \
    }
POLLED(0, host_func)
POLLED(1, callback)
POLLED(2, two_streams)
POLLED(3, many)
POLLED(4, write_value)
POLLED(5, wait_value)
POLLED(6, kernel)
POLLED(7, memset)
POLLED(8, copy)
POLLED(9, graph)
POLLED(10, captured)
POLLED(11, user_object)

/* In sequence in one process. */
CASE(polled_in_turn, CF_CTX | CF_ALONE)
{
    for (unsigned i = sizeof(ways) / sizeof(ways[0]); i-- > 0;)
        poll_for(&ways[i]);
}
