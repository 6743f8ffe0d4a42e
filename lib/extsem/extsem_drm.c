/* SPDX-License-Identifier: MIT */
/*
 * The calls are libdrm's (xf86drm.h). It is loaded when the first object is imported: few programs
 * have such objects, and the others should run without libdrm.
 */
#define _GNU_SOURCE
#include "extsem_drm.h"
#include "../clock/clock.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#if !__has_include(<xf86drm.h>)
#error "libdrm's headers are missing: install libdrm-dev (Debian) or libdrm-devel (Fedora)"
#endif
#include <xf86drm.h>

#define FIRST_RENDER 128 /* minor numbers of render nodes; of 64 at most */
#define RENDER_NODES 64
#define WAIT_FLAGS (DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL | DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT)

/* Since libdrm 2.4.99, of 2019. */
#define CALLS(X) \
    X(drmGetCap) \
    X(drmSyncobjFDToHandle) \
    X(drmSyncobjDestroy) \
    X(drmSyncobjSignal) \
    X(drmSyncobjReset) \
    X(drmSyncobjWait) \
    X(drmSyncobjTimelineSignal) \
    X(drmSyncobjTimelineWait) \
    X(drmSyncobjQuery)

static struct {
    pthread_mutex_t lock;
    bool loaded; /* for good */
#define MEMBER(name) __typeof__(name) *name;
    CALLS(MEMBER)
#undef MEMBER
} drm = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool load_libdrm(void)
{
    void *library = dlopen("libdrm.so.2", RTLD_NOW | RTLD_LOCAL);

    if (library == NULL)
        return false;
#define FIND(name) \
    if ((drm.name = (__typeof__(name) *)dlsym(library, #name)) == NULL) { \
        dlclose(library); \
        return false; \
    }
    CALLS(FIND)
#undef FIND
    return true;
}

/* Retried while it fails: libdrm may be installed meanwhile. */
static bool have_libdrm(void)
{
    bool loaded;

    pthread_mutex_lock(&drm.lock);
    loaded = drm.loaded || (drm.loaded = load_libdrm());
    pthread_mutex_unlock(&drm.lock);
    return loaded;
}

/* Some calls of libdrm return the error, others set errno. */
static int negative_errno(int rc)
{
    return rc == 0 ? 0 : -errno;
}

int vgp_extsem_drm_import(int fd, bool timeline, int *device, uint32_t *handle, const char **why)
{
    if (!have_libdrm()) {
        *why = "a DRM syncobj, but libdrm.so.2 cannot be loaded (Debian: install libdrm2)";
        return -EOPNOTSUPP;
    }
    *why = "a DRM syncobj, but no render node of this machine takes it";
    for (unsigned i = 0; i < RENDER_NODES; i++) {
        uint64_t timelines = 0;
        char path[40];
        int node;

        snprintf(path, sizeof(path), "/dev/dri/renderD%u", FIRST_RENDER + i);
        node = open(path, O_RDWR | O_CLOEXEC);
        if (node < 0)
            continue;
        if ((!timeline ||
             (drm.drmGetCap(node, DRM_CAP_SYNCOBJ_TIMELINE, &timelines) == 0 && timelines != 0)) &&
            drm.drmSyncobjFDToHandle(node, fd, handle) == 0) {
            *device = node;
            return 0;
        }
        close(node);
    }
    return -EOPNOTSUPP;
}

void vgp_extsem_drm_close(int device, uint32_t handle)
{
    drm.drmSyncobjDestroy(device, handle);
    close(device);
}

int vgp_extsem_drm_signal(int device, uint32_t handle, bool timeline, uint64_t value)
{
    uint64_t point = 0;
    int rc;

    if (!timeline)
        return negative_errno(drm.drmSyncobjSignal(device, &handle, 1));
    rc = negative_errno(drm.drmSyncobjQuery(device, &handle, &point, 1));
    if (rc == 0 && point >= value)
        return 1;
    return rc != 0 ? rc : negative_errno(drm.drmSyncobjTimelineSignal(device, &handle, &value, 1));
}

int vgp_extsem_drm_wait(int device, uint32_t handle, bool timeline, uint64_t value, int milliseconds)
{
    int rc;

    if (timeline && value == 0)
        return 1; /* point 0 means something else to the kernel */
    const int64_t until = (int64_t)clk_now_ns() + (int64_t)milliseconds * CLK_NS_IN_MS;
    rc = timeline ? drm.drmSyncobjTimelineWait(device, &handle, &value, 1, until, WAIT_FLAGS, NULL)
                  : drm.drmSyncobjWait(device, &handle, 1, until, WAIT_FLAGS, NULL);
    rc = negative_errno(rc);
    if (rc == -ETIME)
        return 0;
    if (rc == 0 && !timeline)
        rc = negative_errno(drm.drmSyncobjReset(device, &handle, 1)); /* a wait takes the signal */
    return rc != 0 ? rc : 1;
}
