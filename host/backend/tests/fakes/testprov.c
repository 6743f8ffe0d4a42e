/* SPDX-License-Identifier: MIT */
/*
 * A provider for tests: host memory as device memory, streams that are busy for a time that the
 * test chooses, and ways to misbehave. cuMemsetD8Async(dst, value, n, stream):
 *   VALUE_BUSY    the stream is busy for n milliseconds
 *   VALUE_CRASH   writes through a null pointer
 *   VALUE_SYSCALL makes a system call that every sandbox forbids
 *   VALUE_FAULT   every call gives CUDA_ERROR_ILLEGAL_ADDRESS from now on
 *   VALUE_RELEASE ends what is long (testprov_long.c)
 *   VALUE_NVML    NVML says from now on that this process has n MiB; with $VGPU_TEST_NVML only
 *   VALUE_PRINT   prints to standard output, as device printf does
 *   VALUE_ASSERT  prints to standard error, as a failed device assert does
 *   VALUE_SHM     makes or opens a file in /dev/shm: how often that was done is what is printed; n > 0: writes up to n MiB
 *   VALUE_CACHE   uses the folder for compiled code (testprov_cache.c)
 *   VALUE_CONNECT connects to sockets (testprov_cache.c), and prints what came of it
 *   VALUE_ENVIRON prints the names of the environment's variables, a line each, and how much of a freed block the next one has
 *
 * VGPU_TEST_HMM in the environment: kernels reach all memory of the process (testprov_green.c).
 * VGPU_TEST_NO_PIN in the environment: no memory can be registered.
 * VGPU_TEST_RESET_KEEPS in the environment: a reset takes no reference to the primary context away.
 * VGPU_TEST_VERSION in the environment: the version of the driver (13000: 13.0).
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <time.h>
#include <unistd.h>

#include "testprov.h"

/* Takes all that /dev/shm gives, up to n MiB; says how many it got. */
static CUresult fill_shm(size_t n)
{
    static const char some[1 << 20];
    int fd = shm_open("/vgpu-fill", O_RDWR | O_CREAT, 0600);
    size_t got = 0;

    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    while (got < n && write(fd, some, sizeof(some)) == (ssize_t)sizeof(some))
        got++;
    printf("filled %zu\n", got);
    fflush(stdout);
    close(fd);
    shm_unlink("/vgpu-fill");
    return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream hs);
CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t n);

/* Their memory is kept, so that a stale use is seen for sure. */
struct stream {
    uint64_t until;
    CUcontext ctx;
    bool ended;
    struct stream *next;
};
struct event {
    uint64_t at;
    CUcontext ctx;
    bool ended;
};

bool testprov_event_live(const void *e)
{
    return !((const struct event *)e)->ended;
}

static struct event *event_of(CUevent e)
{
    if (((struct event *)e)->ended)
        abort();
    return (struct event *)e;
}

static struct stream legacy, *streams;
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;
static volatile uintptr_t nowhere = 8; /* a variable, so that the compiler does not know */
static unsigned context_object;
static __thread CUcontext current;
static CUresult fault;

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void sleep_until(uint64_t t)
{
    struct timespec ts = {.tv_sec = (time_t)(t / 1000000000u), .tv_nsec = (long)(t % 1000000000u)};

    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

static struct stream *stream_of(CUstream s)
{
    if ((uintptr_t)s < 3)
        return &legacy;
    if (((struct stream *)s)->ended)
        abort();
    return (struct stream *)s;
}

CUresult cuCtxSetCurrent(CUcontext c)
{
    if (testprov_green_ended(c))
        abort();
    current = c;
    return CUDA_SUCCESS;
}

CUcontext testprov_current(void)
{
    return current;
}

/* What a context has ends with it. */
static void streams_end(CUcontext c)
{
    pthread_mutex_lock(&streams_lock);
    for (struct stream *s = streams; s; s = s->next) {
        if (s->ctx == c && !s->ended)
            testprov_stream_ends((CUstream)s);
        s->ended |= s->ctx == c;
    }
    pthread_mutex_unlock(&streams_lock);
}

static atomic_bool primary_ending;

/* With VGPU_TEST_LONG_PRIMARY it takes long. */
static void primary_ends(void)
{
    if (getenv("VGPU_TEST_LONG_PRIMARY")) {
        primary_ending = true;
        testprov_long();
        primary_ending = false;
    }
    streams_end((CUcontext)(void *)&context_object);
    testprov_context_ends();
}

static atomic_uint primary_refs;

void testprov_primary_hold(void)
{
    primary_refs++;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d)
{
    (void)d;
    if (primary_ending) /* who ends it takes all references away */
        abort();
    testprov_primary_hold();
    *c = (CUcontext)(void *)&context_object;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d)
{
    (void)d;
    if (!primary_refs)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--primary_refs == 0)
        primary_ends();
    return CUDA_SUCCESS;
}

/* With VGPU_TEST_RESET_KEEPS the references stay, and with them the context. */
CUresult cuDevicePrimaryCtxReset_v2(CUdevice d)
{
    (void)d;
    if (getenv("VGPU_TEST_RESET_KEEPS"))
        return CUDA_SUCCESS;
    if (atomic_exchange(&primary_refs, 0))
        primary_ends();
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice d, unsigned *flags, int *active)
{
    (void)d;
    *flags = 0;
    *active = primary_refs != 0;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *c, unsigned flags, CUdevice d)
{
    (void)d;
    *c = current = testprov_context(flags);
    return *c ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuCtxDestroy_v2(CUcontext c)
{
    testprov_context_long(c);
    if (testprov_context_kept(c))
        return CUDA_ERROR_NOT_PERMITTED;
    streams_end(c);
    return c == (CUcontext)(void *)&context_object ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *s, unsigned flags)
{
    struct stream *made = calloc(1, sizeof(*made));

    (void)flags;
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->ctx = current;
    pthread_mutex_lock(&streams_lock);
    made->next = streams;
    streams = made;
    pthread_mutex_unlock(&streams_lock);
    *s = (CUstream)made;
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream s)
{
    stream_of(s)->ended = true;
    testprov_stream_ends(s);
    return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream s)
{
    if (fault)
        return fault;
    if (testprov_stream_asked(s))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return now_ns() < stream_of(s)->until ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream s)
{
    sleep_until(stream_of(s)->until);
    return fault;
}

CUresult cuCtxSynchronize(void)
{
    uint64_t until = legacy.until;

    pthread_mutex_lock(&streams_lock);
    for (const struct stream *s = streams; s; s = s->next) {
        if (s->ctx == current && s->until > until)
            until = s->until;
    }
    pthread_mutex_unlock(&streams_lock);
    sleep_until(until);
    return fault;
}

CUresult cuEventCreate(CUevent *e, unsigned flags)
{
    (void)flags;
    if (getenv("VGPU_TEST_NO_EVENTS"))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *e = calloc(1, sizeof(struct event));
    if (!*e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    ((struct event *)*e)->ctx = current;
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent e)
{
    event_of(e)->ended = true;
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent e, CUstream s)
{
    const struct stream *on = stream_of(s);

    if (on != &legacy && on->ctx != event_of(e)->ctx)
        return CUDA_ERROR_INVALID_HANDLE; /* as CUDA has it */
    event_of(e)->at = on->until;
    return fault;
}

CUresult cuEventQuery(CUevent e)
{
    if (fault)
        return fault;
    return now_ns() < event_of(e)->at ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent e)
{
    sleep_until(event_of(e)->at);
    event_of(e);
    return fault;
}

CUresult cuEventElapsedTime_v2(float *ms, CUevent from, CUevent to)
{
    if (now_ns() < event_of(from)->at || now_ns() < event_of(to)->at)
        return CUDA_ERROR_NOT_READY;
    *ms = (float)((double)(int64_t)(event_of(to)->at - event_of(from)->at) / 1e6);
    return CUDA_SUCCESS;
}

static CUdeviceptr slow_memory; /* of LONG_BYTES: freeing it takes long */

CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n)
{
    if (fault)
        return fault;
    *p = n <= (1u << 30) ? (CUdeviceptr)(uintptr_t)calloc(1, n) : 0;
    if (n == LONG_BYTES)
        slow_memory = *p;
    return *p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFree_v2(CUdeviceptr p)
{
    if (p && p == slow_memory)
        testprov_long();
    free((void *)(uintptr_t)p);
    return fault;
}

/* Handles as a driver's: bytes that mean something on the whole host, which no guest may see. */
struct ipc {
    unsigned char mark[56];
    uint64_t object;
};

static void fill(void *out, uint64_t object)
{
    struct ipc h = {.object = object};

    memset(h.mark, IPC_MARK, sizeof(h.mark));
    memcpy(out, &h, sizeof(h));
}

static bool real(const void *handle, uint64_t *object)
{
    struct ipc h;

    memcpy(&h, handle, sizeof(h));
    *object = h.object;
    for (unsigned i = 0; i < sizeof(h.mark); i++) {
        if (h.mark[i] != IPC_MARK)
            return false;
    }
    return true;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr p)
{
    *base = p;
    *size = 4096;
    return CUDA_SUCCESS;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *h, CUdeviceptr p)
{
    fill(h, p);
    return fault;
}

static CUdeviceptr opened; /* latest */
static CUcontext opened_in;

/* Of another process: the address cannot be used here, so the test only looks at it. */
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *p, CUipcMemHandle h, unsigned flags)
{
    uint64_t object;

    if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || !real(&h, &object))
        return CUDA_ERROR_UNKNOWN;
    *p = opened = object;
    opened_in = current;
    return CUDA_SUCCESS;
}

/* In the context that has opened it, as with the software GPU. */
CUresult cuIpcCloseMemHandle(CUdeviceptr p)
{
    if (p && p == opened && current != opened_in)
        return CUDA_ERROR_INVALID_CONTEXT;
    return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *h, CUevent e)
{
    fill(h, (uintptr_t)e);
    return fault;
}

CUresult cuIpcOpenEventHandle(CUevent *e, CUipcEventHandle h)
{
    uint64_t object;

    return real(&h, &object) ? cuEventCreate(e, 0) : CUDA_ERROR_UNKNOWN;
}

static CUresult copy(void *to, const void *from, size_t n)
{
    if (fault)
        return fault;
    memcpy(to, from, n);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr d, const void *s, size_t n, CUstream st)
{
    (void)st;
    return copy((void *)(uintptr_t)d, s, n);
}

CUresult cuMemcpyDtoHAsync_v2(void *d, CUdeviceptr s, size_t n, CUstream st)
{
    (void)st;
    return copy(d, (void *)(uintptr_t)s, n);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream st)
{
    (void)st;
    return copy((void *)(uintptr_t)d, (void *)(uintptr_t)s, n);
}

CUresult cuMemcpyAsync(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream st)
{
    (void)st;
    return copy((void *)(uintptr_t)d, (void *)(uintptr_t)s, n);
}

static uint8_t *at3d(const void *host, CUdeviceptr dev, CUmemorytype type, size_t pitch, size_t height,
                     size_t y, size_t z)
{
    uint8_t *base = type == CU_MEMORYTYPE_HOST ? (uint8_t *)(uintptr_t)host : (uint8_t *)(uintptr_t)dev;

    return base + (z * height + y) * pitch;
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *p, CUstream st)
{
    (void)st;
    for (size_t z = 0; z < p->Depth; z++) {
        for (size_t y = 0; y < p->Height; y++)
            copy(at3d(p->dstHost, p->dstDevice, p->dstMemoryType, p->dstPitch, p->dstHeight, y, z),
                 at3d(p->srcHost, p->srcDevice, p->srcMemoryType, p->srcPitch, p->srcHeight, y, z),
                 p->WidthInBytes);
    }
    return fault;
}

static CUresult count_in_shm(void)
{
    int fd = shm_open("/vgpu-test", O_RDWR | O_CREAT, 0600);
    char c = '1';

    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    if (read(fd, &c, 1) == 1)
        c++;
    if (pwrite(fd, &c, 1, 0) == 1)
        printf("shm %c\n", c);
    fflush(stdout);
    close(fd);
    return CUDA_SUCCESS;
}

/* Bytes of a freed block that a new one of the same size still has, of 200. All are different: of memory that is filled
 * with some byte one may be the same. */
static unsigned left_in_heap(void)
{
    unsigned char *volatile block = malloc(200);
    unsigned left = 0;

    if (!block)
        return 200;
    for (unsigned i = 0; i < 200; i++)
        ((volatile unsigned char *)block)[i] = (unsigned char)(i + 1);
    free(block);
    block = malloc(200);
    for (unsigned i = 0; block && i < 200; i++)
        left += ((volatile unsigned char *)block)[i] == i + 1;
    free(block);
    return left > 1 ? left : 0;
}

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream hs)
{
    switch (value) {
    case VALUE_BUSY:
        stream_of(hs)->until = testprov_gpu(n, dst != 0, stream_of(hs)->until);
        return CUDA_SUCCESS;
    case VALUE_CRASH:
        *(volatile int *)nowhere = 1;
        return CUDA_SUCCESS;
    case VALUE_SYSCALL:
        return ptrace(PTRACE_TRACEME, 0, NULL, NULL) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
    case VALUE_FAULT:
        fault = CUDA_ERROR_ILLEGAL_ADDRESS;
        return fault;
    case VALUE_NVML:
        testprov_nvml_bytes = n << 20;
        return CUDA_SUCCESS;
    case VALUE_RELEASE:
        return testprov_release() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case VALUE_PRINT:
        printf("hello from the device\n");
        fflush(stdout);
        return CUDA_SUCCESS;
    case VALUE_ASSERT:
        fprintf(stderr, "assertion failed on the device\n");
        return CUDA_SUCCESS;
    case VALUE_SHM:
        return n ? fill_shm(n) : count_in_shm();
    case VALUE_CACHE:
        return testprov_cache((unsigned)n) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
    case VALUE_CONNECT:
        testprov_connect();
        return CUDA_SUCCESS;
    case VALUE_ENVIRON:
        for (char **e = environ; *e; e++)
            printf("%.*s\n", (int)strcspn(*e, "="), *e);
        printf("heap keeps %u\n(end)\n", left_in_heap());
        fflush(stdout);
        return CUDA_SUCCESS;
    default:
        memset((void *)(uintptr_t)dst, value, n);
        return fault;
    }
}

CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t n)
{
    return cuMemsetD8Async(dst, value, n, NULL);
}

#define NEVER_NS \
    1800000000000ull /* a stream that is busy for longer than this does not come to its functions */

struct host_func {
    CUhostFn fn;
    void *data;
    uint64_t at; /* when what was issued before it is complete */
};

static void *run_host_func(void *arg)
{
    struct host_func f = *(struct host_func *)arg;

    free(arg);
    sleep_until(f.at);
    f.fn(f.data);
    return NULL;
}

CUresult cuLaunchHostFunc(CUstream s, CUhostFn fn, void *data)
{
    struct host_func *f;
    pthread_t t;

    if (stream_of(s)->until > now_ns() + NEVER_NS)
        return CUDA_SUCCESS;
    f = malloc(sizeof(*f));

    f->fn = fn;
    f->data = data;
    f->at = stream_of(s)->until;
    if (pthread_create(&t, NULL, run_host_func, f))
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_detach(t);
    return CUDA_SUCCESS;
}
