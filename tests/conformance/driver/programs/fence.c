// SPDX-License-Identifier: MIT
/*
 * A stream waits for a real fence: one of the kernel's vgem driver, as a sync_file. All of DRM goes through libdrm.
 * Exit status 0: passed, 1: failed, 77: there is no such fence here, with the reason.
 */
#include "conform.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <xf86drm.h>
#include <xf86drmMode.h>

#include "vgem.h"

/* Linux, include/uapi/drm/vgem_drm.h, which neither libdrm nor Debian's linux-libc-dev has. */
struct vgem_attach {
    uint32_t handle, flags, fence, pad;
};
struct vgem_signal {
    uint32_t fence, flags;
};
#define ATTACH DRM_IOWR(DRM_COMMAND_BASE + 1, struct vgem_attach)
#define SIGNAL DRM_IOW(DRM_COMMAND_BASE + 2, struct vgem_signal)
#define WRITER 1

/* linux/dma-buf.h has it since Linux 6.0; the headers of a build machine may be older. */
struct sync_export {
    uint32_t flags; /* 1: what a reader waits for */
    int32_t fd;
};
#define EXPORT _IOWR('b', 2, struct sync_export)

static int say(int status, const char *what)
{
    printf("%s: %s%s%s\n", status == 77 ? "not run" : "FAIL", what, status == 77 ? ": " : "",
           status == 77 ? strerror(errno) : "");
    return status;
}

/* A fence that is signalled by its number: its sync_file. */
static int new_fence(int device, uint32_t *fence)
{
    struct vgem_attach a = {.flags = WRITER};
    struct sync_export e = {.flags = 1};
    uint32_t pitch;
    uint64_t size;
    int fd;

    if (drmModeCreateDumbBuffer(device, 1024, 1, 32, 0, &a.handle, &pitch, &size) != 0 ||
        drmPrimeHandleToFD(device, a.handle, DRM_CLOEXEC, &fd) != 0 || drmIoctl(device, ATTACH, &a) != 0 ||
        ioctl(fd, EXPORT, &e) != 0)
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
    int device = vgem_open();

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
    if (drmIoctl(device, SIGNAL, &signal) != 0)
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
