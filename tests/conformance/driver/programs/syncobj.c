// SPDX-License-Identifier: MIT
/*
 * syncobj TEST: DRM syncobjs of the guest's virtio-gpu as external semaphores: the GPU signals and
 * the kernel waits, and vice versa. All DRM calls go through libdrm. Exit status 0: passed, 1:
 * failed (the line names the check), 77: cannot run here, with the reason. `syncobj list` lists the
 * tests.
 */
#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <xf86drm.h>

#include "drm_device.h"
#include "vgem.h"

#define SECOND 1000000000ll
#define LONG (120 * SECOND) /* longer than an emulated guest under load needs, ns */
#define FOR_SUBMIT DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT

/* ---- the GPU ---------------------------------------------------------------------------------- */

/* Waits until word 0 is not 0, then sets word 1. */
static const char ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
                          ".visible .entry late(.param .u64 p) {\n"
                          " .reg .pred q; .reg .b32 r<2>; .reg .b64 d<1>;\n"
                          " ld.param.u64 d0, [p];\n"
                          "again: ld.volatile.global.u32 r0, [d0]; setp.eq.u32 q, r0, 0; @q bra again;\n"
                          " mov.u32 r1, 1; st.volatile.global.u32 [d0+4], r1; ret; }\n";

static CUstream stream;
static volatile uint32_t *words; /* of the kernel */

static void gpu(void)
{
    CUcontext ctx;

    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&ctx, 0));
    OK(cuCtxSetCurrent(ctx));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemHostAlloc((void **)(uintptr_t)&words, 4096, 0));
}

static void launch_late(void)
{
    CUdeviceptr p = (uintptr_t)words;
    void *params[] = {&p};
    CUmodule module;
    CUfunction f;

    words[0] = words[1] = 0;
    OK(cuModuleLoadData(&module, ptx));
    OK(cuModuleGetFunction(&f, module, "late"));
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static CUresult import(CUexternalSemaphore *s, int fd, bool timeline)
{
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC d = {
        .type = timeline ? CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD
                         : CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD,
        .handle.fd = fd,
    };

    return cuImportExternalSemaphore(s, &d);
}

static CUresult gpu_signal(CUexternalSemaphore s, uint64_t value)
{
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS p = {.params.fence.value = value};

    return cuSignalExternalSemaphoresAsync(&s, &p, 1, stream);
}

static CUresult gpu_wait(CUexternalSemaphore s, uint64_t value)
{
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS p = {.params.fence.value = value};

    return cuWaitExternalSemaphoresAsync(&s, &p, 1, stream);
}

/* ---- the kernel ------------------------------------------------------------------------------- */

static int64_t after(int64_t ns)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * SECOND + ts.tv_nsec + ns;
}

/* Opens a node of virtio-gpu: the render node, or the primary node. */
static int open_virtio_gpu(bool render)
{
    int device = drm_device_open("virtio_gpu"), node;
    uint64_t has = 0;
    char *path;

    if (device < 0)
        check_not_run("virtio_gpu");
    if (drmGetCap(device, DRM_CAP_SYNCOBJ_TIMELINE, &has) != 0 || has == 0) {
        errno = EOPNOTSUPP;
        check_not_run("the virtio-gpu of this kernel has no syncobjs (Linux 6.6 has them: make newer-guest)");
    }
    if (!render)
        return device;
    path = drmGetRenderDeviceNameFromFd(device);
    CHECK(path != NULL);
    node = open(path, O_RDWR | O_CLOEXEC);
    CHECK(node >= 0);
    free(path);
    close(device);
    return node;
}

static uint32_t new_syncobj(int device, int *fd)
{
    uint32_t handle = 0;

    CHECK(drmSyncobjCreate(device, 0, &handle) == 0);
    CHECK(drmSyncobjHandleToFD(device, handle, fd) == 0);
    return handle;
}

static int wait_binary(int device, uint32_t handle, int64_t ns, unsigned flags)
{
    return drmSyncobjWait(device, &handle, 1, after(ns), flags, NULL);
}

static int wait_point(int device, uint32_t handle, uint64_t point, int64_t ns)
{
    return drmSyncobjTimelineWait(device, &handle, &point, 1, after(ns), FOR_SUBMIT, NULL);
}

static uint64_t point_of(int device, uint32_t handle)
{
    uint64_t point = 0;

    CHECK(drmSyncobjQuery(device, &handle, &point, 1) == 0);
    return point;
}

/* ---- binary ----------------------------------------------------------------------------------- */

static void test_binary_signal(void)
{
    int device = open_virtio_gpu(false), fd;
    uint32_t handle = new_syncobj(device, &fd);
    CUexternalSemaphore s;

    gpu();
    OK(import(&s, fd, false));
    CHECK(fcntl(fd, F_GETFD) < 0 && errno == EBADF); /* CUDA has taken ownership */
    for (int round = 0; round < 3; round++) {
        launch_late();
        OK(gpu_signal(s, 0));
        CHECK(wait_binary(device, handle, SECOND / 20, FOR_SUBMIT) == -ETIME);
        words[0] = 1;
        CHECK(wait_binary(device, handle, LONG, FOR_SUBMIT) == 0);
        CHECK(words[1] == 1); /* all work before the signal has completed */
        CHECK(drmSyncobjReset(device, &handle, 1) == 0);
        OK(cuStreamSynchronize(stream));
    }
    OK(cuDestroyExternalSemaphore(s));
    CHECK(drmSyncobjDestroy(device, handle) == 0);
}

static void test_binary_wait(void)
{
    int device = open_virtio_gpu(true), fd;
    uint32_t handle = new_syncobj(device, &fd);
    CUexternalSemaphore s;

    gpu();
    OK(import(&s, fd, false));
    for (int round = 0; round < 3; round++) {
        OK(gpu_wait(s, 0));
        usleep(150000); /* longer than a waiter sleeps at a time */
        RC(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        CHECK(drmSyncobjSignal(device, &handle, 1) == 0);
        OK(cuStreamSynchronize(stream));
        /* The wait has consumed the signal: the syncobj has no fence. */
        CHECK(wait_binary(device, handle, 0, 0) == -EINVAL);
    }
    CHECK(drmSyncobjSignal(device, &handle, 1) == 0); /* before the wait */
    OK(gpu_wait(s, 0));
    OK(cuStreamSynchronize(stream));
    OK(cuDestroyExternalSemaphore(s));
}

/* The syncobj has an unsignalled fence, as after a submission of another driver. */
static void test_binary_fence(void)
{
    int device = open_virtio_gpu(false), vgem = drm_device_open("vgem"), fd, file;
    uint32_t handle = new_syncobj(device, &fd), fence;
    CUexternalSemaphore s;

    if (vgem < 0)
        check_not_run("vgem");
    gpu();
    OK(cuStreamSynchronize(stream));
    OK(import(&s, fd, false));
    file = vgem_fence_new(vgem, &fence);
    CHECK(file >= 0 && drmSyncobjImportSyncFile(device, handle, file) == 0);
    close(file);
    OK(gpu_wait(s, 0));
    RC(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    if (vgem_fence_signal(vgem, fence) != 0)
        check_not_run("the kernel signalled the fence first");
    OK(cuStreamSynchronize(stream));
    OK(cuDestroyExternalSemaphore(s));
}

/* ---- timelines -------------------------------------------------------------------------------- */

struct waiter {
    int device;
    uint32_t handle;
    uint64_t point;
    int result;
};

static void *wait_in_thread(void *arg)
{
    struct waiter *w = arg;

    w->result = wait_point(w->device, w->handle, w->point, LONG);
    return NULL;
}

static void test_timeline_signal(void)
{
    int device = open_virtio_gpu(true), fd;
    uint32_t handle = new_syncobj(device, &fd);
    struct waiter w = {.device = device, .handle = handle, .point = 7, .result = 1};
    CUexternalSemaphore s;
    pthread_t t;

    gpu();
    OK(import(&s, fd, true));
    CHECK(pthread_create(&t, NULL, wait_in_thread, &w) == 0); /* waits before any submission */
    OK(gpu_signal(s, 3));
    OK(cuStreamSynchronize(stream));
    CHECK(point_of(device, handle) == 3 && wait_point(device, handle, 3, 0) == 0);
    CHECK(wait_point(device, handle, 4, SECOND / 20) == -ETIME);
    launch_late();
    OK(gpu_signal(s, 7));
    CHECK(wait_point(device, handle, 7, SECOND / 20) == -ETIME);
    words[0] = 1;
    CHECK(pthread_join(t, NULL) == 0 && w.result == 0 && words[1] == 1);
    OK(cuStreamSynchronize(stream));
    OK(gpu_signal(s, 6)); /* below: ignored */
    OK(cuStreamSynchronize(stream));
    CHECK(point_of(device, handle) == 7);
    OK(gpu_signal(s, 1ull << 40));
    OK(cuStreamSynchronize(stream));
    CHECK(point_of(device, handle) == 1ull << 40);
    OK(cuDestroyExternalSemaphore(s));
}

static void test_timeline_wait(void)
{
    int device = open_virtio_gpu(false), fd;
    uint32_t handle = new_syncobj(device, &fd);
    uint64_t three = 3, five = 5;
    CUexternalSemaphore s;

    gpu();
    OK(import(&s, fd, true));
    OK(gpu_wait(s, 5));
    CHECK(drmSyncobjTimelineSignal(device, &handle, &three, 1) == 0);
    usleep(150000);
    RC(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    CHECK(drmSyncobjTimelineSignal(device, &handle, &five, 1) == 0);
    OK(cuStreamSynchronize(stream));
    OK(gpu_wait(s, 4)); /* already passed */
    OK(gpu_wait(s, 5)); /* nothing is consumed */
    OK(gpu_wait(s, 0));
    OK(cuStreamSynchronize(stream));
    CHECK(point_of(device, handle) == 5);
    OK(cuDestroyExternalSemaphore(s));
}

static void test_timeline_fence(void)
{
    int device = open_virtio_gpu(false), vgem = drm_device_open("vgem"), fd, file;
    uint32_t handle = new_syncobj(device, &fd), fence, binary = 0;
    CUexternalSemaphore s;

    if (vgem < 0)
        check_not_run("vgem");
    gpu();
    OK(cuStreamSynchronize(stream));
    OK(import(&s, fd, true));
    CHECK(drmSyncobjCreate(device, 0, &binary) == 0);
    file = vgem_fence_new(vgem, &fence);
    CHECK(file >= 0 && drmSyncobjImportSyncFile(device, binary, file) == 0);
    close(file);
    CHECK(drmSyncobjTransfer(device, handle, 4, binary, 0, 0) == 0);
    OK(gpu_wait(s, 4));
    RC(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    if (vgem_fence_signal(vgem, fence) != 0)
        check_not_run("the kernel signalled the fence first");
    OK(cuStreamSynchronize(stream));
    OK(gpu_signal(s, 5)); /* after a signal of another driver */
    OK(cuStreamSynchronize(stream));
    CHECK(wait_point(device, handle, 5, 0) == 0);
    OK(cuDestroyExternalSemaphore(s));
}

/* Another process, without a GPU, answers each signal. */
static void test_timeline_process(void)
{
    int device = open_virtio_gpu(true), fd, status = -1;
    uint32_t handle = new_syncobj(device, &fd), own = 0;
    CUexternalSemaphore s;
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0) {
        device = open_virtio_gpu(false);
        CHECK(drmSyncobjFDToHandle(device, fd, &own) == 0);
        for (uint64_t point = 1; point < 9; point += 2) {
            uint64_t next = point + 1;

            CHECK(wait_point(device, own, point, LONG) == 0);
            CHECK(drmSyncobjTimelineSignal(device, &own, &next, 1) == 0);
        }
        _exit(0);
    }
    gpu();
    OK(import(&s, fd, true));
    CHECK(drmSyncobjDestroy(device, handle) == 0); /* held by the semaphore */
    close(device);
    for (uint64_t point = 1; point < 9; point += 2) {
        OK(gpu_signal(s, point));
        OK(gpu_wait(s, point + 1));
    }
    OK(cuStreamSynchronize(stream));
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    OK(cuDestroyExternalSemaphore(s));
}

/* ---- the end ---------------------------------------------------------------------------------- */

static void test_destroyed(void)
{
    int device = open_virtio_gpu(false), fd;
    uint32_t handle = new_syncobj(device, &fd);
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC d = {
        .type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD, .handle.fd = fd, .flags = 1};
    CUexternalSemaphore s, same;

    gpu();
    RC(cuImportExternalSemaphore(&s, &d), CUDA_ERROR_INVALID_VALUE);
    CHECK(fcntl(fd, F_GETFD) >= 0); /* the descriptor stays open */
    OK(import(&same, dup(fd), false));
    OK(import(&s, fd, false));
    RC(import(&s, fd, false), CUDA_ERROR_INVALID_VALUE); /* closed by the earlier import */
    OK(gpu_wait(s, 0));
    OK(cuDestroyExternalSemaphore(s)); /* held by the work */
    RC(cuDestroyExternalSemaphore(s), CUDA_ERROR_INVALID_HANDLE);
    RC(gpu_signal(s, 0), CUDA_ERROR_INVALID_HANDLE);
    RC(gpu_wait(s, 0), CUDA_ERROR_INVALID_HANDLE);
    RC(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    CHECK(drmSyncobjSignal(device, &handle, 1) == 0);
    OK(cuStreamSynchronize(stream));
    OK(gpu_signal(same, 0));
    CHECK(wait_binary(device, handle, LONG, FOR_SUBMIT) == 0);
    /* Both ends are closed while a wait sleeps, and the context ends. */
    OK(cuStreamSynchronize(stream));
    CHECK(drmSyncobjReset(device, &handle, 1) == 0);
    OK(gpu_wait(same, 0));
    close(device);
    OK(cuDestroyExternalSemaphore(same));
    OK(cuDevicePrimaryCtxReset(0));
}

/*
 * For virtgpu.sh, which kills it while a wait sleeps, or removes virtio-gpu: that ends the wait
 * with an error.
 */
static void test_hold(void)
{
    int device = open_virtio_gpu(false), fd;
    CUexternalSemaphore s;

    new_syncobj(device, &fd);
    gpu();
    OK(import(&s, fd, true));
    OK(gpu_wait(s, 1));
    puts("holding");
    fflush(stdout);
    RC(cuStreamSynchronize(stream), CUDA_ERROR_OPERATING_SYSTEM);
    RC(gpu_signal(s, 2), CUDA_ERROR_OPERATING_SYSTEM);
    puts("held");
}

static const struct {
    const char *name;
    void (*run)(void);
} tests[] = {
    {"binary_signal", test_binary_signal},
    {"binary_wait", test_binary_wait},
    {"binary_fence", test_binary_fence},
    {"timeline_signal", test_timeline_signal},
    {"timeline_wait", test_timeline_wait},
    {"timeline_fence", test_timeline_fence},
    {"timeline_process", test_timeline_process},
    {"destroyed", test_destroyed},
    /* Not in the list: */
    {"hold", test_hold},
};
#define NUMBER (sizeof(tests) / sizeof(tests[0]))

int main(int argc, char **argv)
{
    const char *name = argc == 2 ? argv[1] : "";
    bool list = strcmp(name, "list") == 0;

    for (size_t i = 0; i < NUMBER; i++) {
        if (list && i < NUMBER - 1)
            puts(tests[i].name);
        if (strcmp(name, tests[i].name) == 0) {
            alarm(600); /* against a hang, in an emulated guest under load, s */
            tests[i].run();
            return 0;
        }
    }
    return list ? 0 : 2;
}
