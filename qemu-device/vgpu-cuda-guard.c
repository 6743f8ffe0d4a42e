/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vgpu-cuda: an end for synchronous requests to the broker. A thread that does not
 * hold the big lock, which the thread that waits has, shuts the connection down when
 * a request takes longer than answer-timeout.
 */
#include "qemu/osdep.h"
#include "io/channel-socket.h"
#include "vgpu-cuda.h"

static void *vgc_guard_thread(void *opaque)
{
    VgcGuard *g = opaque;

    if (qemu_sem_timedwait(&g->done, g->ms) < 0) {
        error_report("vgpu-cuda: the broker has not answered for %d ms "
                     "(answer-timeout): the connection is given up", g->ms);
        shutdown(g->fd, SHUT_RDWR);
    }
    return NULL;
}

void vgc_guard_begin(VgcDevice *d, VgcGuard *g)
{
    Chardev *chr = qemu_chr_fe_get_driver(&d->chardev);
    SocketChardev *s = chr ? SOCKET_CHARDEV(chr) : NULL;

    g->ms = d->answer_timeout;
    g->fd = s && s->sioc && !d->guarded ? qemu_dup(s->sioc->fd) : -1;
    if (g->fd >= 0) {
        d->guarded = true;
        qemu_sem_init(&g->done, 0);
        qemu_thread_create(&g->thread, "vgpu-guard", vgc_guard_thread, g,
                           QEMU_THREAD_JOINABLE);
    }
}

void vgc_guard_end(VgcDevice *d, VgcGuard *g)
{
    if (g->fd >= 0) {
        d->guarded = false;
        qemu_sem_post(&g->done);
        qemu_thread_join(&g->thread);
        qemu_sem_destroy(&g->done);
        close(g->fd);
    }
}
