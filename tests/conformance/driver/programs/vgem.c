/* SPDX-License-Identifier: MIT */
#include "vgem.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <xf86drm.h>
#include <xf86drmMode.h>

/* From include/uapi/drm/vgem_drm.h of Linux, absent from libdrm and Debian's linux-libc-dev. */
struct vgem_attach {
    uint32_t handle, flags, fence, pad;
};
struct vgem_signal {
    uint32_t fence, flags;
};
#define ATTACH DRM_IOWR(DRM_COMMAND_BASE + 1, struct vgem_attach)
#define SIGNAL DRM_IOW(DRM_COMMAND_BASE + 2, struct vgem_signal)
#define WRITER 1

/* In linux/dma-buf.h since Linux 6.0; the headers of a build machine may be older. */
struct sync_export {
    uint32_t flags; /* 1: the fences that a reader waits for */
    int32_t fd;
};
#define EXPORT _IOWR('b', 2, struct sync_export)

int vgem_fence_new(int device, uint32_t *fence)
{
    struct vgem_attach a = {.flags = WRITER};
    struct sync_export e = {.flags = 1};
    uint32_t pitch;
    uint64_t size;
    int fd, failed;

    if (drmModeCreateDumbBuffer(device, 1024, 1, 32, 0, &a.handle, &pitch, &size) != 0 ||
        drmPrimeHandleToFD(device, a.handle, DRM_CLOEXEC, &fd) != 0)
        return -1;
    failed = drmIoctl(device, ATTACH, &a) != 0 || ioctl(fd, EXPORT, &e) != 0;
    close(fd);
    if (failed)
        return -1;
    *fence = a.fence;
    return e.fd;
}

int vgem_fence_signal(int device, uint32_t fence)
{
    struct vgem_signal signal = {.fence = fence};

    return drmIoctl(device, SIGNAL, &signal);
}
