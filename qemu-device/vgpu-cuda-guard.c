/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vgpu-cuda: timeout of synchronous requests to the broker. The thread that
 * waits holds the big lock, so another thread, without the lock, shuts the
 * connection down when a request takes longer than answer-timeout. Also rate
 * limits of messages that a guest can provoke.
 */
#include "qemu/osdep.h"
#include "io/channel-socket.h"
#include "vgpu-cuda.h"

static void *vgc_guard_thread(void *opaque)
{
    VgcGuard *g = opaque;

    if (qemu_sem_timedwait(&g->done, g->ms) < 0) {
        g->gave_up = true;
        shutdown(g->sioc->fd, SHUT_RDWR);
    }
    return NULL;
}

/*
 * A reference keeps the socket open until the guard ends. A duplicate
 * descriptor would too, but without free descriptors dup() fails, and the
 * request would have no timeout.
 */
void vgc_guard_begin(VgcDevice *d, VgcGuard *g)
{
    Chardev *chr = qemu_chr_fe_get_driver(&d->chardev);
    SocketChardev *s = chr ? SOCKET_CHARDEV(chr) : NULL;

    g->ms = d->answer_timeout;
    g->gave_up = false;
    g->sioc = s && !d->guarded ? s->sioc : NULL;
    if (g->sioc) {
        d->guarded = true;
        object_ref(OBJECT(g->sioc));
        qemu_sem_init(&g->done, 0);
        qemu_thread_create(&g->thread, "vgpu-guard", vgc_guard_thread, g,
                           QEMU_THREAD_JOINABLE);
    }
}

void vgc_guard_end(VgcDevice *d, VgcGuard *g)
{
    if (g->sioc) {
        d->guarded = false;
        qemu_sem_post(&g->done);
        qemu_thread_join(&g->thread);
        qemu_sem_destroy(&g->done);
        object_unref(OBJECT(g->sioc));
        if (g->gave_up && vgc_may_report(d)) {
            error_report("vgpu-cuda: the broker has not answered for %d ms "
                         "(answer-timeout): the connection is given up", g->ms);
        }
    }
}

/* A burst, then a trickle, so that a guest cannot fill a disk over days. */
bool vgc_may_report(VgcDevice *d)
{
    int64_t now = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);
    int64_t more = (now - d->reports_ms) / VGC_REPORT_MS;

    if (more > 0) {
        d->reports_ms += more * VGC_REPORT_MS;
        d->reports = MAX(d->reports - more, 0);
    }
    if (d->reports >= VGC_REPORT_BURST) {
        d->reports_dropped++;
        return false;
    }
    if (d->reports_dropped) {
        warn_report("vgpu-cuda: %" PRIu64 " further messages were dropped",
                    d->reports_dropped);
        d->reports_dropped = 0;
    }
    d->reports++;
    return true;
}

bool vgc_may_start(VgcDevice *d)
{
    int64_t now = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);

    if (now - d->failed_ms >= VGC_FAILED_MS) {
        d->failed_ms = now;
        d->failed_starts = 0;
    }
    return d->failed_starts < VGC_FAILED_STARTS;
}

/* Like virtio_error(), which prints a line each time. */
void vgc_break(VgcDevice *d)
{
    VirtIODevice *vdev = VIRTIO_DEVICE(d);

    if (vgc_may_report(d)) {
        virtio_error(vdev,
                     "vgpu-cuda: the guest's CUDA programs fail until %sthe "
                     "guest driver has reset the device",
                     d->connected ? "" : "vgpu-backend is back and ");
        return;
    }
    if (virtio_vdev_has_feature(vdev, VIRTIO_F_VERSION_1)) {
        vdev->status |= VIRTIO_CONFIG_S_NEEDS_RESET;
        virtio_notify_config(vdev);
    }
    vdev->broken = true;
}
