// SPDX-License-Identifier: MIT
/*
 * CONFORM_BUSY=1: while a case runs, two threads of the same process keep streams of their own
 * busy: launches, copies, fills, events, waits between streams, host functions, graphs, and objects
 * created and destroyed while in use. One thread uses the primary context, like the case, the other
 * a context of its own. A sanitizer in the worker thereby sees a case's calls concurrently with
 * streams and host functions (scripts/san.sh).
 *
 * Each round is waited for, so that little is queued and a case that waits for its context ends.
 * Memory is allocated before the case begins and freed after its end, as cases check the amount in
 * use. The results of a round and the number of its host functions are checked; only failures print
 * a line.
 */
#include "busy.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define N_STREAMS 3
#define WORDS 1024u
#define PAUSE_NS 500000 /* between rounds: leaves time for the case, ns */

struct lane {
    CUstream stream;
    CUdeviceptr dev;
    uint32_t *host; /* pinned */
    CUevent event;
};

struct busy {
    pthread_t thread;
    bool started, own_context;
    pthread_barrier_t ready;
    CUcontext ctx;
    CUmodule module;
    CUfunction fill, add;
    struct lane lane[N_STREAMS];
    CUgraphExec exec;
    atomic_uint called; /* number of host functions run */
    unsigned asked;
    unsigned rounds;
    CUresult result;     /* first unexpected result */
    const char *what;    /* call that returned it */
    atomic_bool stopped; /* by busy_end() */
};

static struct busy threads[2];

static void CUDA_CB count(void *p)
{
    atomic_fetch_add((atomic_uint *)p, 1);
}

static bool good(struct busy *b, const char *what, CUresult r)
{
    if (r == CUDA_SUCCESS)
        return true;
    if (b->result == CUDA_SUCCESS) {
        b->result = r;
        b->what = what;
    }
    return false;
}
#define GOOD(call) good(b, #call, (call))

static bool launch(struct busy *b, CUfunction f, CUdeviceptr p, unsigned v, CUstream s)
{
    unsigned n = WORDS;
    void *params[] = {&p, &n, &v};

    return GOOD(cuLaunchKernel(f, WORDS / 128, 1, 1, 128, 1, 1, 0, s, params, NULL));
}

/* Creates a graph of a fill, a host function and a copy, on the last lane's memory. */
static bool make_graph(struct busy *b)
{
    const struct lane *l = &b->lane[N_STREAMS - 1];
    CUgraph g = NULL;
    bool ok = GOOD(cuStreamBeginCapture(l->stream, CU_STREAM_CAPTURE_MODE_RELAXED)) &&
              launch(b, b->fill, l->dev, 7, l->stream) &&
              GOOD(cuLaunchHostFunc(l->stream, count, &b->called)) &&
              GOOD(cuMemcpyDtoHAsync(l->host, l->dev, WORDS * 4, l->stream)) &&
              GOOD(cuStreamEndCapture(l->stream, &g)) && GOOD(cuGraphInstantiate(&b->exec, g, 0));

    if (g)
        cuGraphDestroy(g);
    return ok;
}

static bool set_up(struct busy *b)
{
    if (b->own_context) {
        if (!GOOD(cuCtxCreate(&b->ctx, NULL, 0, 0)))
            return false;
    } else if (!GOOD(cuDevicePrimaryCtxRetain(&b->ctx, 0)) || !GOOD(cuCtxSetCurrent(b->ctx))) {
        return false;
    }
    if (!GOOD(cuModuleLoadData(&b->module, cf_ptx)) ||
        !GOOD(cuModuleGetFunction(&b->fill, b->module, "k_fill")) ||
        !GOOD(cuModuleGetFunction(&b->add, b->module, "k_add")))
        return false;
    for (unsigned i = 0; i < N_STREAMS; i++) {
        struct lane *l = &b->lane[i];

        if (!GOOD(cuStreamCreate(&l->stream, CU_STREAM_NON_BLOCKING)) ||
            !GOOD(cuMemAlloc(&l->dev, WORDS * 4)) || !GOOD(cuMemAllocHost((void **)&l->host, WORDS * 4)) ||
            !GOOD(cuEventCreate(&l->event, CU_EVENT_DISABLE_TIMING)))
            return false;
    }
    return make_graph(b);
}

/*
 * Orders the lanes by events; then destroys the objects of this round while they may still be in
 * use.
 */
static bool round_of(struct busy *b)
{
    const unsigned v = b->rounds;
    CUstream extra = NULL;
    CUevent late = NULL;
    bool ok = GOOD(cuStreamCreate(&extra, CU_STREAM_NON_BLOCKING)) && GOOD(cuEventCreate(&late, 0));

    for (unsigned i = 0; ok && i + 1 < N_STREAMS; i++) {
        struct lane *l = &b->lane[i];

        ok = GOOD(cuMemsetD32Async(l->dev, v, WORDS, l->stream)) && launch(b, b->add, l->dev, 5, l->stream) &&
             GOOD(cuLaunchHostFunc(l->stream, count, &b->called)) &&
             GOOD(cuMemcpyDtoHAsync(l->host, l->dev, WORDS * 4, l->stream)) &&
             GOOD(cuEventRecord(l->event, l->stream)) &&
             GOOD(cuStreamWaitEvent(b->lane[i + 1].stream, l->event, 0));
        b->asked += ok;
    }
    if (ok && GOOD(cuGraphLaunch(b->exec, b->lane[N_STREAMS - 1].stream)))
        b->asked++;
    ok = ok && GOOD(cuEventRecord(late, b->lane[N_STREAMS - 1].stream)) &&
         GOOD(cuStreamWaitEvent(extra, late, 0)) && GOOD(cuLaunchHostFunc(extra, count, &b->called));
    b->asked += ok;
    if (late)
        ok = GOOD(cuEventDestroy(late)) && ok;
    if (extra)
        ok = GOOD(cuStreamSynchronize(extra)) && GOOD(cuStreamDestroy(extra)) && ok;
    for (unsigned i = 0; ok && i < N_STREAMS; i++) {
        const CUresult r = cuStreamQuery(b->lane[i].stream);

        ok = r == CUDA_ERROR_NOT_READY || good(b, "cuStreamQuery", r);
        ok = ok && GOOD(cuStreamSynchronize(b->lane[i].stream));
        ok = ok && (b->lane[i].host[WORDS - 1] == (i + 1 < N_STREAMS ? v + 5 : 7 + WORDS - 1) ||
                    good(b, "the words of a round", CUDA_ERROR_UNKNOWN));
    }
    ok = ok && (atomic_load(&b->called) == b->asked || good(b, "the calls of a round", CUDA_ERROR_UNKNOWN));
    b->rounds++;
    return ok;
}

static void tear_down(struct busy *b)
{
    if (b->exec)
        cuGraphExecDestroy(b->exec);
    for (unsigned i = 0; i < N_STREAMS; i++) {
        struct lane *l = &b->lane[i];

        if (l->stream)
            cuStreamDestroy(l->stream);
        if (l->event)
            cuEventDestroy(l->event);
        if (l->dev)
            cuMemFree(l->dev);
        if (l->host)
            cuMemFreeHost(l->host);
    }
    if (b->module)
        cuModuleUnload(b->module);
    if (b->own_context && b->ctx)
        cuCtxDestroy(b->ctx);
    else if (b->ctx)
        cuDevicePrimaryCtxRelease(0);
}

static void *thread_main(void *arg)
{
    const struct timespec pause = {0, PAUSE_NS};
    struct busy *b = arg;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    /* A case may capture in a mode that forbids calls of other threads. */
    bool ok = GOOD(cuThreadExchangeStreamCaptureMode(&mode)) && set_up(b) && round_of(b);

    pthread_barrier_wait(&b->ready);
    while (ok && !atomic_load(&b->stopped)) {
        ok = round_of(b);
        nanosleep(&pause, NULL);
    }
    pthread_barrier_wait(&b->ready); /* the case is over */
    tear_down(b);
    return NULL;
}

bool busy_wanted(void)
{
    return getenv("CONFORM_BUSY") != NULL;
}

void busy_begin(void)
{
    for (unsigned i = 0; i < 2; i++) {
        struct busy *b = &threads[i];

        memset(b, 0, sizeof(*b));
        b->own_context = i == 1;
        pthread_barrier_init(&b->ready, NULL, 2);
        b->started = !pthread_create(&b->thread, NULL, thread_main, b);
        if (b->started)
            pthread_barrier_wait(&b->ready);
    }
}

void busy_end(bool usable)
{
    for (unsigned i = 0; i < 2; i++) {
        struct busy *b = &threads[i];

        if (!b->started) {
            cf_true("busy.thread", false);
            continue;
        }
        atomic_store(&b->stopped, true);
        pthread_barrier_wait(&b->ready);
        pthread_join(b->thread, NULL);
        pthread_barrier_destroy(&b->ready);
        b->started = false;
        /* A case that leaves its context unusable also ends these threads. */
        if (usable && b->result != CUDA_SUCCESS)
            cf_rc(b->what, b->result, CUDA_SUCCESS);
    }
}
