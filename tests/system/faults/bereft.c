// SPDX-License-Identifier: MIT
/*
 * bereft CASE     starts work that ends only with its worker, prints "bereft: ready", exits with 0
 *                 if the worker's death was reported as in cuda.h; rig.py kills or stops the worker
 * bereft --list   the cases
 *
 * Each case starts work behind a stream that waits for ever, or calls in a loop, and ends when the
 * death is reported. Ending is half of the test: faults.py kills it after a timeout. A case that
 * ends before its worker does was given a false completion. A line on standard output gives the
 * result.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BIG (48u << 20) /* pageable copy in many pieces, larger than the staging area */
#define SILENT_MS 1500  /* silence required after the end, ms */

static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                          ".visible .entry nothing()\n{\nret;\n}\n";

static CUstream stuck, other; /* stuck: blocking, waits for a word that is never written */
static CUdeviceptr word, big;
static CUfunction nothing;
static CUevent behind; /* recorded in stuck */

static int fail(const char *what, long r)
{
    printf("bereft: %s: %ld\n", what, r);
    return 1;
}

#define TRY(call) \
    do { \
        CUresult r_ = (call); \
        if (r_ != CUDA_SUCCESS) \
            return fail(#call, r_); \
    } while (0)
#define NEED(what) \
    do { \
        if (!(what)) \
            return fail("not true: " #what, __LINE__); \
    } while (0)

static void pause_ms(unsigned ms)
{
    const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    nanosleep(&t, NULL);
}

static int start(void)
{
    CUcontext c;
    CUmodule m;

    TRY(cuInit(0));
    TRY(cuDevicePrimaryCtxRetain(&c, 0));
    TRY(cuCtxSetCurrent(c));
    TRY(cuModuleLoadData(&m, ptx));
    TRY(cuModuleGetFunction(&nothing, m, "nothing"));
    TRY(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    TRY(cuMemAlloc(&word, 4096));
    TRY(cuMemAlloc(&big, BIG));
    TRY(cuMemsetD8(word, 0, 4096));
    TRY(cuCtxSynchronize());
    TRY(cuStreamCreate(&stuck, CU_STREAM_DEFAULT));
    TRY(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    return 0;
}

static int stick(void)
{
    TRY(cuStreamWaitValue32(stuck, word, 1, CU_STREAM_WAIT_VALUE_EQ));
    TRY(cuEventCreate(&behind, CU_EVENT_DISABLE_TIMING));
    TRY(cuEventRecord(behind, stuck));
    return 0;
}

static void ready(void)
{
    printf("bereft: ready\n");
    fflush(stdout);
}

/* ---- asynchronous notifications ---- */

struct told {
    unsigned calls;
    CUresult status;
    const struct told *before; /* previous entry of the same stream */
    int early;                 /* arrived before that entry */
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t some = PTHREAD_COND_INITIALIZER;
static unsigned told, ran,
    gate; /* callbacks that came; host functions and destructors that ran; the gate is open */

static void CUDA_CB on_callback(CUstream s, CUresult status, void *arg)
{
    struct told *t = arg;

    (void)s;
    pthread_mutex_lock(&lock);
    t->calls++;
    t->status = status;
    t->early |= t->before != NULL && t->before->calls == 0;
    told++;
    pthread_cond_broadcast(&some);
    pthread_mutex_unlock(&lock);
}

/* Blocks the thread that runs callbacks. */
static void CUDA_CB on_gate(CUstream s, CUresult status, void *arg)
{
    on_callback(s, status, arg);
    pthread_mutex_lock(&lock);
    while (!gate)
        pthread_cond_wait(&some, &lock);
    pthread_mutex_unlock(&lock);
}

static void CUDA_CB on_host(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    ran++;
    pthread_cond_broadcast(&some);
    pthread_mutex_unlock(&lock);
}

/* Without a timeout: the tester has one. */
static void await(const volatile unsigned *counter, unsigned n)
{
    pthread_mutex_lock(&lock);
    while (*counter < n)
        pthread_cond_wait(&some, &lock);
    pthread_mutex_unlock(&lock);
}

/* True if each was called once, in its stream's order, with the error returned by calls. */
static int all_told(const struct told *t, unsigned n)
{
    CUresult error = cuCtxSynchronize();

    pause_ms(SILENT_MS);
    NEED(error != CUDA_SUCCESS);
    for (unsigned i = 0; i < n; i++) {
        if (t[i].calls != 1 || t[i].status != error || t[i].early) {
            printf("bereft: callback %u of %u: %u calls, status %d, early %d; calls return %d\n", i, n,
                   t[i].calls, t[i].status, t[i].early, error);
            return 1;
        }
    }
    printf("bereft: %u callbacks told %d\n", n, error);
    return 0;
}

static int add(CUstream s, struct told *t, const struct told *before)
{
    t->before = before;
    TRY(cuStreamAddCallback(s, on_callback, t, 0));
    return 0;
}

static int callbacks(void)
{
    static struct told t[600]; /* more than one per bucket of the library's table */

    for (unsigned i = 0; i < 600; i++) {
        if (add(stuck, &t[i], i == 0 ? NULL : &t[i - 1]))
            return 1;
    }
    ready();
    await(&told, 600);
    return all_told(t, 600);
}

/* Another thread is in a callback when the worker dies: later callbacks wait, and are called. */
static int callback_running(void)
{
    static struct told first, t[3];

    TRY(cuStreamAddCallback(other, on_gate, &first, 0));
    for (unsigned i = 0; i < 3; i++) {
        if (add(other, &t[i], i == 0 ? &first : &t[i - 1]))
            return 1;
    }
    await(&told, 1);
    ready();
    NEED(cuStreamSynchronize(stuck) != CUDA_SUCCESS);
    pthread_mutex_lock(&lock);
    gate = 1;
    pthread_cond_broadcast(&some);
    pthread_mutex_unlock(&lock);
    await(&told, 4);
    NEED(first.status == CUDA_SUCCESS && first.calls == 1);
    return all_told(t, 3);
}

static int host_function(void)
{
    static struct told t;

    TRY(cuLaunchHostFunc(stuck, on_host, NULL));
    if (add(stuck, &t, NULL))
        return 1;
    TRY(cuLaunchHostFunc(stuck, on_host, NULL));
    ready();
    await(&told, 1);
    NEED(all_told(&t, 1) == 0);
    NEED(ran == 0);
    return 0;
}

static int make_graph(CUgraph *g, CUgraphExec *e)
{
    static char page[4096];
    const CUDA_HOST_NODE_PARAMS p = {.fn = on_host};
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = word,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = page,
                          .WidthInBytes = sizeof(page),
                          .Height = 1,
                          .Depth = 1};
    CUcontext c;
    CUgraphNode host, node;

    TRY(cuCtxGetCurrent(&c));
    TRY(cuGraphCreate(g, 0));
    TRY(cuGraphAddHostNode(&host, *g, NULL, 0, &p));
    TRY(cuGraphAddMemcpyNode(&node, *g, &host, 1, &copy, c));
    TRY(cuGraphInstantiate(e, *g, 0));
    return 0;
}

static int graph_nodes(void)
{
    static struct told t;
    CUgraph g;
    CUgraphExec e;

    if (make_graph(&g, &e))
        return 1;
    TRY(cuGraphLaunch(e, stuck));
    if (add(stuck, &t, NULL))
        return 1;
    ready();
    await(&told, 1);
    NEED(all_told(&t, 1) == 0);
    NEED(ran == 0);
    return 0;
}

/* Only the running graph holds the object, so it ends with the worker. */
static int object_in_flight(void)
{
    CUuserObject o;
    CUgraph g;
    CUgraphExec e;

    if (make_graph(&g, &e))
        return 1;
    TRY(cuGraphExecDestroy(e));
    TRY(cuUserObjectCreate(&o, NULL, on_host, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    TRY(cuGraphRetainUserObject(g, o, 1, CU_GRAPH_USER_OBJECT_MOVE));
    TRY(cuGraphInstantiate(&e, g, 0));
    TRY(cuGraphLaunch(e, stuck));
    TRY(cuGraphExecDestroy(e));
    TRY(cuGraphDestroy(g));
    ready();
    await(&ran, 1);
    pause_ms(SILENT_MS);
    NEED(ran == 1);
    NEED(cuUserObjectRelease(o, 1) != CUDA_SUCCESS);
    return 0;
}

/* The program holds references, which keep the object alive. */
static int object_owned(void)
{
    CUuserObject o;

    TRY(cuUserObjectCreate(&o, NULL, on_host, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    TRY(cuUserObjectRetain(o, 2));
    TRY(cuUserObjectRelease(o, 1));
    ready();
    NEED(cuStreamSynchronize(stuck) != CUDA_SUCCESS);
    pause_ms(SILENT_MS);
    NEED(ran == 0);
    NEED(cuUserObjectRelease(o, 1) != CUDA_SUCCESS);
    pause_ms(SILENT_MS);
    NEED(ran == 0);
    NEED(cuUserObjectRelease(o, 1) != CUDA_SUCCESS);
    await(&ran, 1);
    pause_ms(SILENT_MS);
    NEED(ran == 1);
    return 0;
}

/* A graph of the program holds the object, so the program may still use it. */
static int object_in_graph(void)
{
    CUuserObject o;
    CUgraph g;

    TRY(cuGraphCreate(&g, 0));
    TRY(cuUserObjectCreate(&o, NULL, on_host, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    TRY(cuGraphRetainUserObject(g, o, 1, CU_GRAPH_USER_OBJECT_MOVE));
    ready();
    NEED(cuStreamSynchronize(stuck) != CUDA_SUCCESS);
    pause_ms(SILENT_MS);
    NEED(ran == 0);
    return 0;
}

/* A wait that is never signalled, a signal behind another stream's wait, callbacks behind both. */
static int semaphores(void)
{
    static struct told t[2];
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC d = {.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD};
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS w = {0};
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS g = {0};
    int fds[2] = {eventfd(0, EFD_NONBLOCK), eventfd(0, EFD_NONBLOCK)};
    CUexternalSemaphore wait, signal;
    uint64_t value;

    d.handle.fd = dup(fds[0]);
    TRY(cuImportExternalSemaphore(&wait, &d));
    d.handle.fd = dup(fds[1]);
    TRY(cuImportExternalSemaphore(&signal, &d));
    TRY(cuWaitExternalSemaphoresAsync(&wait, &w, 1, other));
    TRY(cuSignalExternalSemaphoresAsync(&signal, &g, 1, stuck));
    if (add(other, &t[0], NULL) || add(stuck, &t[1], NULL))
        return 1;
    ready();
    await(&told, 2);
    NEED(all_told(t, 2) == 0);
    NEED(read(fds[1], &value, sizeof(value)) < 0); /* no work was done, so there was no signal */
    return 0;
}

static unsigned lines;
static void CUDA_CB on_log(void *arg, CUlogLevel level, char *text, size_t n)
{
    (void)arg, (void)level;
    lines += n != 0 && strstr(text, "cuStreamSynchronize") != NULL;
}

static int logs(void)
{
    CUlogsCallbackHandle h;

    TRY(cuLogsRegisterCallback(on_log, NULL, &h));
    ready();
    NEED(cuStreamSynchronize(stuck) != CUDA_SUCCESS);
    NEED(lines == 1);
    return 0;
}

/* The child has no such state, and does not get the parent's callback. */
static int forked(void)
{
    static struct told t;
    int status = -1;
    pid_t child;

    if (add(stuck, &t, NULL))
        return 1;
    child = fork();
    if (child == 0) {
        CUresult r = cuCtxSynchronize();

        pause_ms(3 * SILENT_MS);
        _exit(r != CUDA_ERROR_NOT_INITIALIZED || told != 0);
    }
    ready();
    await(&told, 1);
    NEED(all_told(&t, 1) == 0);
    NEED(waitpid(child, &status, 0) == child && status == 0);
    return 0;
}

/* ---- blocking calls ---- */

static int is_told(const char *call, CUresult r)
{
    CUresult then = cuCtxSynchronize();

    printf("bereft: %s returns %d, then %d\n", call, r, then);
    return r == CUDA_SUCCESS || r != then;
}

#define WAITS(name, ...) \
    static int name(void) \
    { \
        ready(); \
        return is_told(#name, (__VA_ARGS__)); \
    }

static char host[BIG];
WAITS(stream_synchronize, cuStreamSynchronize(stuck))
WAITS(context_synchronize, cuCtxSynchronize())
WAITS(event_synchronize, cuEventSynchronize(behind))
WAITS(copy_down, cuMemcpyDtoH(host, big, BIG))
WAITS(copy_up, cuMemcpyHtoD(big, host, BIG))
WAITS(copy_small, cuMemcpyDtoH(host, big, 4))
WAITS(copy_down_async, cuMemcpyDtoHAsync(host, big, BIG, stuck))
WAITS(free_memory, cuMemFree(big))

/* Repeats calls until one fails; each does as much as possible without waiting. */
#define REPEATS(name, ...) \
    static int name(void) \
    { \
        CUresult r; \
\
        ready(); \
        do \
            r = (__VA_ARGS__); \
        while (r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_READY); \
        return is_told(#name, r); \
    }

REPEATS(stream_query, cuStreamQuery(stuck))
REPEATS(event_query, cuEventQuery(behind))
REPEATS(launches, cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stuck, NULL, NULL))
REPEATS(copies_up_async, cuMemcpyHtoDAsync(big, host, BIG, stuck))
REPEATS(waits_for_nothing, cuStreamSynchronize(other))

/* Broker and worker map the memory; without them it is an error, not a smaller allocation. */
static int pinned(void)
{
    CUresult r = CUDA_SUCCESS;
    unsigned n = 0;

    ready();
    for (; r == CUDA_SUCCESS; n++) {
        void *p, *q;

        r = cuMemHostAlloc(&p, 8 << 20, 0);
        if (r == CUDA_SUCCESS)
            r = cuMemFreeHost(p);
        q = aligned_alloc(4096, 1 << 20);
        if (r == CUDA_SUCCESS)
            r = cuMemHostRegister(q, 1 << 20, 0);
        if (r == CUDA_SUCCESS)
            r = cuMemHostUnregister(q);
        free(q);
    }
    NEED(cuMemHostAlloc((void **)&behind, 64 << 20, 0) != CUDA_SUCCESS);
    return is_told("pinned", r);
}

/* Maps memory of a multicast team without devices. */
static int multicast(void)
{
    CUmulticastObjectProp p = {.numDevices = 1, .size = 2 << 20};
    CUmemGenericAllocationHandle h;
    CUdeviceptr at;
    int can = 0;

    TRY(cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0));
    if (!can) {
        printf("bereft: not run\n");
        return 0;
    }
    TRY(cuMulticastGetGranularity(&p.size, &p, CU_MULTICAST_GRANULARITY_RECOMMENDED));
    TRY(cuMulticastCreate(&h, &p));
    TRY(cuMemAddressReserve(&at, p.size, 0, 0, 0));
    ready();
    return is_told("multicast", cuMemMap(at, p.size, 0, h, 0));
}

/* ---- threads while submitting ---- */

#define THREADS 4u
#define EACH 20000u

static struct told *many[THREADS];
static unsigned accepted[THREADS];

static void *submitter(void *arg)
{
    const unsigned me = (unsigned)(uintptr_t)arg;
    CUresult r = CUDA_SUCCESS;
    CUcontext c;
    CUstream s;

    if (cuDevicePrimaryCtxRetain(&c, 0) || cuCtxSetCurrent(c) || cuStreamCreate(&s, CU_STREAM_NON_BLOCKING))
        return NULL;
    for (unsigned i = 0; r == CUDA_SUCCESS; i++) {
        struct told *t = &many[me][accepted[me]];

        r = cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL);
        if (r == CUDA_SUCCESS && i % 3 == 0)
            r = cuMemcpyHtoDAsync(big, host, 4096 * me, s);
        if (r != CUDA_SUCCESS)
            break;
        if (accepted[me] == EACH) {
            pause_ms(1);
            continue;
        }
        t->before = accepted[me] == 0 ? NULL : t - 1;
        r = cuStreamAddCallback(s, on_callback, t, 0);
        accepted[me] += r == CUDA_SUCCESS;
    }
    return (void *)(uintptr_t)r;
}

/* A callback is called if and only if its call succeeded. */
static int submitting(void)
{
    pthread_t threads[THREADS];
    unsigned all = 0;

    for (unsigned i = 0; i < THREADS; i++) {
        many[i] = calloc(EACH + 1, sizeof(**many));
        NEED(many[i] != NULL);
        pthread_create(&threads[i], NULL, submitter, (void *)(uintptr_t)i);
    }
    await(&told, 100);
    ready();
    for (unsigned i = 0; i < THREADS; i++) {
        void *r;

        pthread_join(threads[i], &r);
        NEED(r != NULL);
        all += accepted[i];
    }
    await(&told, all);
    pause_ms(SILENT_MS);
    for (unsigned i = 0; i < THREADS; i++) {
        for (unsigned k = 0; k <= accepted[i]; k++) {
            const struct told *t = &many[i][k];

            if (t->calls != (k < accepted[i]) || t->early) {
                printf("bereft: thread %u, callback %u of %u: %u calls, early %d\n", i, k, accepted[i],
                       t->calls, t->early);
                return 1;
            }
        }
    }
    printf("bereft: %u callbacks accepted, each came once\n", all);
    return 0;
}

#define CASE(name) \
    { \
#name, name \
    }
static const struct {
    const char *name;
    int (*run)(void);
} cases[] = {
    CASE(callbacks),
    CASE(callback_running),
    CASE(host_function),
    CASE(graph_nodes),
    CASE(object_in_flight),
    CASE(object_owned),
    CASE(object_in_graph),
    CASE(semaphores),
    CASE(logs),
    CASE(forked),
    CASE(stream_synchronize),
    CASE(context_synchronize),
    CASE(event_synchronize),
    CASE(copy_down),
    CASE(copy_up),
    CASE(copy_small),
    CASE(copy_down_async),
    CASE(free_memory),
    CASE(stream_query),
    CASE(event_query),
    CASE(launches),
    CASE(copies_up_async),
    CASE(waits_for_nothing),
    CASE(pinned),
    CASE(multicast),
    CASE(submitting),
};

int main(int argc, char **argv)
{
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (argc == 2 && strcmp(argv[1], "--list") == 0)
            printf("%s\n", cases[i].name);
        else if (argc == 2 && strcmp(argv[1], cases[i].name) == 0)
            return start() || stick() || cases[i].run();
    }
    return argc == 2 && strcmp(argv[1], "--list") == 0 ? 0 : 2;
}
