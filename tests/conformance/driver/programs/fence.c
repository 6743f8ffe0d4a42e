// SPDX-License-Identifier: MIT
/*
 * A stream waits for a real fence: one of the kernel's vgem driver, as a sync_file. The interfaces are
 * spelled out (Linux, include/uapi/drm, linux/dma-buf.h), because the kernel's headers on a build machine
 * may be older. Exit status 0: passed, 1: failed, 77: there is no such fence here, with the reason.
 */
#include "conform.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct drm_version {
    int major, minor, patch;
    size_t name_len;
    char *name;
    size_t date_len;
    char *date;
    size_t desc_len;
    char *desc;
};
struct drm_dumb {
    uint32_t height, width, bpp, flags, handle, pitch;
    uint64_t size;
};
struct drm_prime {
    uint32_t handle, flags;
    int32_t fd;
};
struct vgem_attach {
    uint32_t handle, flags, fence, pad;
};
struct vgem_signal {
    uint32_t fence, flags;
};
struct sync_export {
    uint32_t flags; /* 1: what a reader waits for */
    int32_t fd;
};
#define VERSION _IOWR('d', 0x00, struct drm_version)
#define PRIME _IOWR('d', 0x2d, struct drm_prime)
#define DUMB _IOWR('d', 0xb2, struct drm_dumb)
#define ATTACH _IOWR('d', 0x41, struct vgem_attach)
#define SIGNAL _IOW('d', 0x42, struct vgem_signal)
#define EXPORT _IOWR('b', 2, struct sync_export)

static int say(int status, const char *what)
{
    printf("%s: %s%s%s\n", status == 77 ? "not run" : "FAIL", what, status == 77 ? ": " : "",
           status == 77 ? strerror(errno) : "");
    return status;
}

/* A node of the vgem driver, or -1. */
static int open_vgem(void)
{
    for (int i = 0; i < 64; i++) {
        char name[16] = "", path[40];
        struct drm_version v = {.name = name, .name_len = sizeof(name) - 1};
        int fd;

        snprintf(path, sizeof(path), "/dev/dri/card%d", i);
        fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd >= 0 && ioctl(fd, VERSION, &v) == 0 && !strcmp(name, "vgem"))
            return fd;
        if (fd >= 0)
            close(fd);
    }
    errno = ENODEV;
    return -1;
}

/* A fence that is signalled by its number: its sync_file. */
static int new_fence(int device, uint32_t *fence)
{
    struct drm_dumb b = {.height = 1, .width = 1024, .bpp = 32};
    struct vgem_attach a = {.flags = 1}; /* a writer's */
    struct drm_prime p = {0};
    struct sync_export e = {.flags = 1};

    if (ioctl(device, DUMB, &b) != 0)
        return -1;
    a.handle = p.handle = b.handle;
    if (ioctl(device, PRIME, &p) != 0 || ioctl(device, ATTACH, &a) != 0 || ioctl(p.fd, EXPORT, &e) != 0)
        return -1;
    *fence = a.fence;
    return e.fd;
}

int main(void)
{
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC d = {.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD};
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS sp = {0};
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wp = {0};
    struct vgem_signal signal = {0};
    CUexternalSemaphore s;
    CUcontext ctx;
    CUstream stream;
    int device = open_vgem();

    if (device < 0)
        return say(77, "no device of the vgem driver");
    /* The fence is signalled by the kernel after 10 s, so everything else comes before it. */
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx) ||
        cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) || cuStreamSynchronize(stream))
        return say(1, "no context");
    d.handle.fd = new_fence(device, &signal.fence);
    if (d.handle.fd < 0)
        return say(77, "vgem gives no sync_file");
    if (cuImportExternalSemaphore(&s, &d))
        return say(1, "the import of a sync_file");
    if (cuSignalExternalSemaphoresAsync(&s, &sp, 1, stream) != CUDA_ERROR_NOT_SUPPORTED)
        return say(1, "a sync_file can be signalled");
    if (cuWaitExternalSemaphoresAsync(&s, &wp, 1, stream))
        return say(1, "the wait");
    if (cuStreamQuery(stream) != CUDA_ERROR_NOT_READY)
        return say(1, "the stream did not wait for the fence");
    if (ioctl(device, SIGNAL, &signal) != 0)
        return say(77, "the fence was signalled by the kernel before us");
    if (cuStreamSynchronize(stream))
        return say(1, "the stream after the fence");
    if (cuWaitExternalSemaphoresAsync(&s, &wp, 1, stream) || cuStreamSynchronize(stream))
        return say(1, "a second wait for the same fence");
    if (cuDestroyExternalSemaphore(s))
        return say(1, "the end of the semaphore");
    puts("fence ok");
    return 0;
}
