/* SPDX-License-Identifier: MIT */
/*
 * A driver library that computes like the software GPU and behaves like NVIDIA's driver where the two differ.
 * It wraps libcuda-soft.so.1, which serves all functions not defined here, and hides the functions by which
 * the backend recognises the software GPU (see the Makefile). So workers treat it like NVIDIA's library: with
 * NVIDIA's policy of system calls, folder for compiled code and NVML, and with capture of its output.
 *
 *   cuInit starts permanent threads and names them through their files under /proc; it looks for MPS and
 *     listens on an abstract socket; if that is forbidden it returns 304
 *   a kernel's parameters are known only while a context is current; cuFuncSetCacheConfig refuses a CUkernel
 *   an event can be recorded only in streams of its own context
 *   use of a linker on several threads crashes the process
 *   loading modules and libraries, linking, registering memory and destroying arrays blocks for
 *     VGPU_TEST_BLOCK_MS milliseconds (default 10000)
 *   the streams of a process share CHANNELS queues of QUEUE launches: a launch into a full queue blocks until
 *     the oldest launch of the queue has run
 *   printf and the text of a failed assert go to standard output and standard error
 *   kernels reach all memory of the process: attribute 88 is 1
 *   IPC: a process cannot open its own handles; event handles need /dev/shm; memory freed by the exporter is
 *     gone for importers
 *   compiled code is cached in CUDA_CACHE_PATH: a file for each text, "hit" or "miss" in its `as-nvidia.log`
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define QUEUE 1024
#define CHANNELS 8
#define THREADS 3
#define KEPT_HANDLES 64

/* The software GPU's function of that name, called with the same arguments. */
#define REAL(name, ...) (((__typeof__(&name))(uintptr_t)real_function(#name))(__VA_ARGS__))
static void *real_function(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static void block(void)
{
    const char *text = getenv("VGPU_TEST_BLOCK_MS");
    long ms = text ? atol(text) : 10000;
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

/* ---- start ---- */

static void *stay(void *arg)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

    pthread_mutex_lock(&lock);
    for (;;)
        pthread_cond_wait(&never, &lock);
    return arg;
}

static bool started;

static void *say_number(void *arg)
{
    *(_Atomic pid_t *)arg = gettid();
    return stay(arg);
}

static bool named(pid_t thread)
{
    char path[64];
    FILE *f;

    snprintf(path, sizeof(path), "/proc/self/task/%d/comm", (int)thread);
    f = fopen(path, "w");
    return f && fputs("cuda-as-nvidia", f) >= 0 && !fclose(f);
}

/* MPS is never found here, but a policy that permits the search causes one of these two errors. */
static bool no_mps(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "/tmp/nvidia-mps/control"};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), on = 1;
    bool none;

    if (fd < 0)
        return false;
    none = !setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) &&
           connect(fd, (struct sockaddr *)&a, sizeof(a)) && (errno == ENOENT || errno == ECONNREFUSED);
    close(fd);
    return none;
}

static bool listens(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int n = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "cuda-uvmfd-as-nvidia-%d", (int)getpid());

    return fd >= 0 && !bind(fd, (struct sockaddr *)&a, (socklen_t)(sizeof(sa_family_t) + 1 + (size_t)n)) &&
           !listen(fd, 128);
}

static void start(void)
{
    static _Atomic pid_t numbers[THREADS];
    pthread_t t;

    started = no_mps() && listens();
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&t, NULL, say_number, (void *)&numbers[i])) {
            started = false;
            return;
        }
        pthread_detach(t);
        while (!numbers[i])
            sched_yield();
        started = started && named(numbers[i]);
    }
}

CUresult cuInit(unsigned flags)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, start);
    return started ? REAL(cuInit, flags) : CUDA_ERROR_OPERATING_SYSTEM;
}

static bool context_is_current(void)
{
    CUcontext c = NULL;

    return REAL(cuCtxGetCurrent, &c) == CUDA_SUCCESS && c;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size)
{
    return context_is_current() ? REAL(cuKernelGetParamInfo, kernel, index, offset, size)
                                : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    CUresult r = REAL(cuDeviceGetAttribute, value, attribute, device);

    if (r == CUDA_SUCCESS && attribute == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS)
        *value = 1;
    return r;
}

/* ---- code ---- */

static void keep(const void *image)
{
    const char *folder = getenv("CUDA_CACHE_PATH"), *p = image;
    uint64_t hash = 14695981039346656037u;
    char path[4200];
    struct stat st;
    bool hit;
    int fd;

    if (!folder || memcmp(p, "//", 2)) /* texts alone: they have an end */
        return;
    for (; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 1099511628211u;
    snprintf(path, sizeof(path), "%s/%llx", folder, (unsigned long long)hash & 15);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/%llx/%llx", folder, (unsigned long long)hash & 15,
             (unsigned long long)hash);
    hit = !stat(path, &st);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    snprintf(path, sizeof(path), "%s/as-nvidia.log", folder);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd >= 0) {
        dprintf(fd, "%s\n", hit ? "hit" : "miss");
        close(fd);
    }
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    keep(image);
    block();
    return REAL(cuModuleLoadData, module, image);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned n, CUjit_option *options,
                            void **values)
{
    keep(image);
    block();
    return REAL(cuModuleLoadDataEx, module, image, n, options, values);
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *image, CUjit_option *jit, void **jit_values,
                           unsigned jits, CUlibraryOption *options, void **values, unsigned n)
{
    block();
    return REAL(cuLibraryLoadData, library, image, jit, jit_values, jits, options, values, n);
}

/* Linkers that live, each with its thread. */
#define LINKS 1024
static struct {
    _Atomic(CUlinkState) state;
    _Atomic pid_t thread;
} links[LINKS];

static void same_thread(CUlinkState state)
{
    for (unsigned i = 0; i < LINKS; i++) {
        if (links[i].state == state && links[i].thread != gettid()) {
            fprintf(stderr, "as_nvidia: a linker is used on another thread\n");
            abort();
        }
    }
}

CUresult cuLinkCreate_v2(unsigned n, CUjit_option *options, void **values, CUlinkState *state)
{
    CUresult r = REAL(cuLinkCreate_v2, n, options, values, state);

    for (unsigned i = 0; r == CUDA_SUCCESS && i < LINKS; i++) {
        CUlinkState none = NULL;

        if (!atomic_compare_exchange_strong(&links[i].state, &none, *state))
            continue;
        links[i].thread = gettid();
        break;
    }
    return r;
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name,
                          unsigned n, CUjit_option *options, void **values)
{
    same_thread(state);
    return REAL(cuLinkAddData_v2, state, type, data, size, name, n, options, values);
}

CUresult cuLinkComplete(CUlinkState state, void **image, size_t *size)
{
    same_thread(state);
    block();
    return REAL(cuLinkComplete, state, image, size);
}

CUresult cuLinkDestroy(CUlinkState state)
{
    same_thread(state);
    for (unsigned i = 0; i < LINKS; i++) {
        CUlinkState gone = state;

        if (atomic_compare_exchange_strong(&links[i].state, &gone, NULL))
            break;
    }
    return REAL(cuLinkDestroy, state);
}

CUresult cuFuncSetCacheConfig(CUfunction f, CUfunc_cache config)
{
    const char *name = NULL;

    return REAL(cuKernelGetName, &name, (CUkernel)(void *)f) == CUDA_SUCCESS
               ? CUDA_ERROR_INVALID_HANDLE
               : REAL(cuFuncSetCacheConfig, f, config);
}

/* ---- events ---- */

/* The context of each event; a collision forgets the older event, which is then never refused. */
#define EVENTS 65536
static struct {
    _Atomic(CUevent) event;
    _Atomic(CUcontext) context;
} made_in[EVENTS];

static size_t place_of(CUevent event)
{
    return ((uintptr_t)event >> 4) * 0x9e3779b97f4a7c15u >> 48;
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    CUresult r = REAL(cuEventCreate, event, flags);
    CUcontext context = NULL;

    if (r == CUDA_SUCCESS) {
        REAL(cuCtxGetCurrent, &context);
        made_in[place_of(*event)].event = *event;
        made_in[place_of(*event)].context = context;
    }
    return r;
}

static bool fits(CUevent event, CUstream stream)
{
    CUcontext context = NULL;

    return made_in[place_of(event)].event != event ||
           REAL(cuStreamGetCtx, stream, &context) != CUDA_SUCCESS ||
           made_in[place_of(event)].context == context;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    return fits(event, stream) ? REAL(cuEventRecord, event, stream) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags)
{
    return fits(event, stream) ? REAL(cuEventRecordWithFlags, event, stream, flags)
                               : CUDA_ERROR_INVALID_HANDLE;
}

/* ---- memory ---- */

CUresult cuMemHostRegister_v2(void *p, size_t size, unsigned flags)
{
    block();
    return REAL(cuMemHostRegister_v2, p, size, flags);
}

CUresult cuArrayDestroy(CUarray array)
{
    block();
    return REAL(cuArrayDestroy, array);
}

/* ---- the queues ---- */

static struct channel {
    pthread_mutex_t lock;
    CUevent queue[QUEUE];
    uint64_t queued;
} channels[CHANNELS] = {[0 ... CHANNELS - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};

static bool captures(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    return REAL(cuStreamIsCapturing, stream, &status) != CUDA_SUCCESS ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* After a launch: takes a place in the queue. Further launches wait until the oldest launch has left its
   place. */
static void take_place(CUstream stream)
{
    struct channel *c = &channels[((uintptr_t)stream >> 4) * 0x9e3779b97f4a7c15u >> 61];
    CUevent *place;

    if (captures(stream))
        return;
    pthread_mutex_lock(&c->lock);
    place = &c->queue[c->queued++ % QUEUE];
    if (*place)
        REAL(cuEventSynchronize, *place);
    else if (REAL(cuEventCreate, place, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        *place = NULL;
    if (*place)
        REAL(cuEventRecord, *place, stream);
    pthread_mutex_unlock(&c->lock);
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, CUstream stream, void **params, void **extra)
{
    CUresult r = REAL(cuLaunchKernel, f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);

    if (r == CUDA_SUCCESS)
        take_place(stream);
    return r;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
    CUresult r = REAL(cuLaunchKernelEx, config, f, params, extra);

    if (r == CUDA_SUCCESS)
        take_place(config->hStream);
    return r;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    CUresult r = REAL(cuGraphLaunch, exec, stream);

    if (r == CUDA_SUCCESS)
        take_place(stream);
    return r;
}

/* ---- sharing between processes ---- */

static struct {
    unsigned char bytes[KEPT_HANDLES][64];
    unsigned n;
} made;

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr p)
{
    CUresult r = REAL(cuIpcGetMemHandle, handle, p);

    if (r == CUDA_SUCCESS)
        memcpy(made.bytes[made.n++ % KEPT_HANDLES], handle, 64);
    return r;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *p, CUipcMemHandle handle, unsigned flags)
{
    for (unsigned i = 0; i < made.n && i < KEPT_HANDLES; i++) {
        if (!memcmp(made.bytes[i], &handle, 64))
            return CUDA_ERROR_INVALID_CONTEXT;
    }
    return REAL(cuIpcOpenMemHandle_v2, p, handle, flags);
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
    char name[64];
    int fd;

    snprintf(name, sizeof(name), "/cuda.shm.%d", (int)getpid());
    fd = shm_open(name, O_RDWR | O_CREAT, 0600);
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    close(fd);
    shm_unlink(name);
    return REAL(cuIpcGetEventHandle, handle, event);
}
