/* SPDX-License-Identifier: MIT */
/*
 * The kernel's interface is stable and small, so it is spelled out here and nothing depends on libdrm.
 * Layouts and numbers: Linux, include/uapi/drm/drm.h.
 */
#define _GNU_SOURCE
#include "extsem_drm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

struct drm_cap {
    uint64_t capability, value;
};
struct drm_destroy {
    uint32_t handle, pad;
};
struct drm_from_fd {
    uint32_t handle, flags;
    int32_t fd;
    uint32_t pad;
};
struct drm_wait {
    uint64_t handles; /* pointers travel as numbers */
    int64_t until_ns; /* CLOCK_MONOTONIC */
    uint32_t count, flags, first, pad;
};
struct drm_timeline_wait {
    uint64_t handles, points;
    int64_t until_ns;
    uint32_t count, flags, first, pad;
};
struct drm_list {
    uint64_t handles;
    uint32_t count, pad;
};
struct drm_timeline_list {
    uint64_t handles, points;
    uint32_t count, flags;
};

#define GET_CAP _IOWR('d', 0x0c, struct drm_cap)
#define DESTROY _IOWR('d', 0xc0, struct drm_destroy)
#define FD_TO_HANDLE _IOWR('d', 0xc2, struct drm_from_fd)
#define WAIT _IOWR('d', 0xc3, struct drm_wait)
#define RESET _IOWR('d', 0xc4, struct drm_list)
#define SIGNAL _IOWR('d', 0xc5, struct drm_list)
#define TIMELINE_WAIT _IOWR('d', 0xca, struct drm_timeline_wait)
#define QUERY _IOWR('d', 0xcb, struct drm_timeline_list)
#define TIMELINE_SIGNAL _IOWR('d', 0xcd, struct drm_timeline_list)

#define CAP_TIMELINE 0x14
#define WAIT_ALL 1u
#define WAIT_FOR_SUBMIT 2u /* also when nobody has promised a signal yet */

#define FIRST_RENDER 128 /* minor numbers of render nodes; of 64 at most */
#define RENDER_NODES 64

static int call(int device, unsigned long request, void *arg)
{
    int rc;

    do {
        rc = ioctl(device, request, arg);
    } while (rc != 0 && (errno == EINTR || errno == EAGAIN));
    return rc == 0 ? 0 : -errno;
}

int vgp_extsem_drm_import(int fd, bool timeline, int *device, uint32_t *handle, const char **why)
{
    *why = "a DRM syncobj, but no render node of this machine takes it";
    for (unsigned i = 0; i < RENDER_NODES; i++) {
        struct drm_cap cap = {.capability = CAP_TIMELINE};
        struct drm_from_fd from = {.fd = fd};
        char path[40];
        int node;

        snprintf(path, sizeof(path), "/dev/dri/renderD%u", FIRST_RENDER + i);
        node = open(path, O_RDWR | O_CLOEXEC);
        if (node < 0)
            continue;
        if ((!timeline || (call(node, GET_CAP, &cap) == 0 && cap.value != 0)) &&
            call(node, FD_TO_HANDLE, &from) == 0) {
            *device = node;
            *handle = from.handle;
            return 0;
        }
        close(node);
    }
    return -EOPNOTSUPP;
}

void vgp_extsem_drm_close(int device, uint32_t handle)
{
    struct drm_destroy d = {.handle = handle};

    call(device, DESTROY, &d);
    close(device);
}

int vgp_extsem_drm_signal(int device, uint32_t handle, bool timeline, uint64_t value)
{
    uint64_t point = 0;
    struct drm_timeline_list t = {.handles = (uintptr_t)&handle, .points = (uintptr_t)&point, .count = 1};
    struct drm_list l = {.handles = (uintptr_t)&handle, .count = 1};
    int rc;

    if (!timeline)
        return call(device, SIGNAL, &l);
    rc = call(device, QUERY, &t);
    if (rc == 0 && point >= value)
        return 1;
    point = value;
    return rc != 0 ? rc : call(device, TIMELINE_SIGNAL, &t);
}

int vgp_extsem_drm_wait(int device, uint32_t handle, bool timeline, uint64_t value, int milliseconds)
{
    struct timespec ts;
    int rc;

    if (timeline && value == 0)
        return 1; /* point 0 means something else to the kernel */
    clock_gettime(CLOCK_MONOTONIC, &ts);
    const int64_t until = ((int64_t)ts.tv_sec * 1000 + milliseconds) * 1000000 + ts.tv_nsec;
    struct drm_wait w = {
        .handles = (uintptr_t)&handle, .until_ns = until, .count = 1, .flags = WAIT_ALL | WAIT_FOR_SUBMIT};
    struct drm_timeline_wait t = {
        .handles = w.handles, .points = (uintptr_t)&value, .until_ns = until, .count = 1, .flags = w.flags};
    struct drm_list l = {.handles = w.handles, .count = 1};

    rc = timeline ? call(device, TIMELINE_WAIT, &t) : call(device, WAIT, &w);
    if (rc == -ETIME)
        return 0;
    if (rc == 0 && !timeline)
        rc = call(device, RESET, &l); /* a wait takes the signal */
    return rc != 0 ? rc : 1;
}
