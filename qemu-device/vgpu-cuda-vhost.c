/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vgpu-cuda: the link to the broker (vhost-user front end).
 *
 * States: not connected -> connected (vhost initialised, configuration sent) ->
 * started (the guest driver is up and the broker serves the queues). When the
 * broker dies, a bottom half takes the link back to "not connected", because
 * the close can be noticed in the middle of a vhost request; a running driver
 * sees VIRTIO_CONFIG_S_NEEDS_RESET. When the chardev reconnects, the link is
 * connected again at once, and started when the driver has reset the device.
 *
 * Pausing the VM does not stop the service: to the broker, a stopped ring means
 * that the driver is gone, which ends the guest's CUDA work. A paused VM cannot
 * be migrated or saved with this device, so the rings need not be quiescent.
 *
 * Requests to the broker are synchronous and made under the big lock, as in all
 * of QEMU's vhost-user devices. The VM stands still meanwhile, so they are
 * bounded: a guard shuts the connection down when a request takes longer than
 * answer-timeout, which is then handled like any loss of the broker. Requests
 * that the guest can cause at any time, by a change of its memory map or of an
 * interrupt's mask, are guarded where vhost calls vhost-user; a start and a
 * stop are guarded as a whole.
 */
#include "qemu/osdep.h"
#include "io/channel-socket.h"
#include "vgpu-cuda.h"
#include "trace.h"

/* Offered to the guest only if the broker offers them too. */
static const int vgc_feature_bits[] = {
    VGPU_F_PIN,
    VGPU_F_PING,
    VIRTIO_F_VERSION_1,
    VIRTIO_F_NOTIFY_ON_EMPTY,
    VIRTIO_RING_F_INDIRECT_DESC,
    VIRTIO_RING_F_EVENT_IDX,
    VIRTIO_F_RING_PACKED,
    VIRTIO_F_IOMMU_PLATFORM,
    VIRTIO_F_RING_RESET,
    VHOST_INVALID_FEATURE_BIT
};

/*
 * Called by QEMU's memory core whenever the guest's memory map has changed, by
 * an action of the guest or of the user.
 */
static int vgc_set_mem_table(struct vhost_dev *dev, struct vhost_memory *mem)
{
    VgcDevice *d = container_of(dev, VgcDevice, vhost);
    struct vhost_memory *own = vgc_own_memory(d, mem);
    VgcGuard guard;
    int ret;

    /* vhost-user reads dev->mem only during the call. */
    dev->mem = own;
    vgc_guard_begin(d, &guard);
    ret = d->broker_ops->vhost_set_mem_table(dev, own);
    vgc_guard_end(d, &guard);
    dev->mem = mem;
    g_free(own);
    return ret;
}

/*
 * The guest can mask interrupts at any rate. The broker need not answer, but
 * the socket fills up if it does not read its messages.
 */
static int vgc_set_vring_call(struct vhost_dev *dev, struct vhost_vring_file *file)
{
    VgcDevice *d = container_of(dev, VgcDevice, vhost);
    VgcGuard guard;
    int ret;

    vgc_guard_begin(d, &guard);
    ret = d->broker_ops->vhost_set_vring_call(dev, file);
    vgc_guard_end(d, &guard);
    return ret;
}

/*
 * vhost-user's operations, except those the guest can cause: these hide foreign
 * windows and have a timeout.
 */
static void vgc_guard_ops(VgcDevice *d)
{
    d->broker_ops = d->vhost.vhost_ops;
    d->guarded_ops = *d->broker_ops;
    d->guarded_ops.vhost_set_mem_table = vgc_set_mem_table;
    d->guarded_ops.vhost_set_vring_call = vgc_set_vring_call;
    d->vhost.vhost_ops = &d->guarded_ops;
}

/*
 * True if the broker has closed the connection; peeks into a socket that is
 * still open.
 */
static bool vgc_peer_is_gone(VgcDevice *d)
{
    Chardev *chr = qemu_chr_fe_get_driver(&d->chardev);
    SocketChardev *s = SOCKET_CHARDEV(chr);
    char byte;

    return !chr->be_open || !s->sioc ||
           recv(s->sioc->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

bool vgc_block_migration(VgcDevice *d, Error **errp)
{
    error_setg(&d->migration_blocker,
               "vgpu-cuda: the VM cannot be migrated or saved, because "
               "the state of its GPU work is in host processes");
    return vgc_add_blocker(&d->migration_blocker, errp) >= 0;
}

/* QEMU reports the latest reason, and vhost adds its own at each connection. */
static void vgc_renew_blocker(VgcDevice *d)
{
    Error *err = NULL;

    vgc_del_blocker(&d->migration_blocker);
    if (!vgc_block_migration(d, &err)) {
        if (vgc_may_report(d)) {
            error_report_err(err);
        } else {
            error_free(err);
        }
    }
}

static bool vgc_do_connect(VgcDevice *d, struct vgpu_config *offer, Error **errp)
{
    ERRP_GUARD();
    int ret;

    d->vhost_user.supports_config = true;
    d->vhost = (struct vhost_dev) {
        .vqs = d->vhost_vqs,
        .nvqs = d->nqueues,
        .vq_index_end = d->nqueues,
    };
    ret = vhost_dev_init(&d->vhost, &d->vhost_user, VHOST_BACKEND_TYPE_USER, 0,
                         errp);
    if (ret < 0) {
        /*
         * A broker in use closes at once, as vhost-user has no error message.
         */
        if (vgc_peer_is_gone(d)) {
            error_free(*errp);
            *errp = NULL;
            error_setg(errp,
                       "vgpu-cuda: the broker does not answer as a vhost-user "
                       "back end should: it has closed the connection of "
                       "chardev '%s'. It serves one virtual machine, and "
                       "another one may be using it: start a vgpu-backend of "
                       "its own for this one",
                       qemu_chr_fe_get_driver(&d->chardev)->label);
        } else {
            error_prepend(errp,
                          "vgpu-cuda: the broker does not answer as a "
                          "vhost-user back end should: ");
        }
        return false;
    }
    d->connected = true;
    vgc_renew_blocker(d);
    vgc_guard_ops(d);

    ret = vhost_dev_get_config(&d->vhost, (uint8_t *)offer, sizeof(*offer),
                               errp);
    if (ret < 0) {
        error_prepend(errp, "vgpu-cuda: the broker does not tell its "
                      "configuration: ");
        return false;
    }
    trace_vgc_offer(le32_to_cpu(offer->abi_version),
                    le32_to_cpu(offer->max_clients),
                    le64_to_cpu(offer->window_size));
    return true;
}

bool vgc_link_connect(VgcDevice *d, struct vgpu_config *offer, Error **errp)
{
    VgcGuard guard;
    bool ok;

    vgc_guard_begin(d, &guard);
    ok = vgc_do_connect(d, offer, errp);
    vgc_guard_end(d, &guard);
    return ok;
}

bool vgc_link_configure(VgcDevice *d, Error **errp)
{
    VgcGuard guard;
    int ret;

    vgc_guard_begin(d, &guard);
    ret = vhost_dev_set_config(&d->vhost, (uint8_t *)&d->config, 0,
                               sizeof(d->config), VGC_SET_CONFIG_TYPE);
    vgc_guard_end(d, &guard);
    if (ret < 0) {
        error_setg_errno(errp, -ret,
                         "vgpu-cuda: the broker refuses the configuration");
        return false;
    }
    return true;
}

static void vgc_link_disconnect(VgcDevice *d)
{
    if (d->connected) {
        d->connected = false;
        vhost_dev_cleanup(&d->vhost);
    }
}

/* Starts the broker's service of the queues. Needs a connected link. */
static bool vgc_link_start(VgcDevice *d)
{
    VirtIODevice *vdev = VIRTIO_DEVICE(d);
    BusState *qbus = BUS(qdev_get_parent_bus(DEVICE(vdev)));
    VirtioBusClass *k = VIRTIO_BUS_GET_CLASS(qbus);
    VgcGuard guard;
    uint64_t lost = vdev->guest_features &
                    ~vgc_link_features(d, vdev->guest_features);
    unsigned int i;
    int ret;

    if (lost) {
        if (vgc_may_report(d)) {
            error_report("vgpu-cuda: the broker lacks features 0x%" PRIx64
                         " that the guest uses", lost);
        }
        return false;
    }
    if (!vgc_rings_are_shared(d)) {
        return false;
    }
    ret = vhost_dev_enable_notifiers(&d->vhost, vdev);
    if (ret < 0) {
        if (vgc_may_report(d)) {
            error_report("vgpu-cuda: no doorbells: %s", strerror(-ret));
        }
        return false;
    }
    ret = k->set_guest_notifiers(qbus->parent, d->vhost.nvqs, true);
    if (ret < 0) {
        if (vgc_may_report(d)) {
            error_report("vgpu-cuda: no interrupts: %s", strerror(-ret));
        }
        goto disable_host_notifiers;
    }
    vhost_ack_features(&d->vhost, vgc_feature_bits, vdev->guest_features);
    vgc_guard_begin(d, &guard);
    ret = vhost_dev_start(&d->vhost, vdev, true);
    d->started = ret >= 0;
    /* vhost has no vector masked yet; from here on virtio-pci masks. */
    for (i = 0; d->started && i < d->vhost.nvqs; i++) {
        vhost_virtqueue_mask(&d->vhost, vdev, i, false);
        /*
         * vhost aborts QEMU when part of a ring loses its memory, which a guest
         * can cause with registers of the chipset (TSEG). Without the address
         * vhost does not check: the broker gets the new memory table, and stops
         * serving a ring that is no longer in it.
         */
        d->vhost_vqs[i].desc_phys = 0;
    }
    vgc_guard_end(d, &guard);
    if (ret < 0) {
        if (vgc_may_report(d)) {
            error_report("vgpu-cuda: the broker does not start: %s",
                         strerror(-ret));
        }
        goto unset_guest_notifiers;
    }
    vgc_trap_doorbells(d, true);
    trace_vgc_start(d->nqueues);
    return true;

unset_guest_notifiers:
    k->set_guest_notifiers(qbus->parent, d->vhost.nvqs, false);
disable_host_notifiers:
    vhost_dev_disable_notifiers(&d->vhost, vdev);
    return false;
}

/*
 * Replaces vhost-user when the connection is closed: every request would fail
 * and be reported, once per queue. The position in a ring is irrelevant then,
 * because the driver has to reset the device.
 */
static int vgc_dead_get_vq_index(struct vhost_dev *dev, int idx)
{
    return idx;
}

static int vgc_dead_get_vring_base(struct vhost_dev *dev,
                                   struct vhost_vring_state *ring)
{
    ring->num = 0;
    return 0;
}

static const VhostOps vgc_dead_ops = {
    .vhost_get_vq_index = vgc_dead_get_vq_index,
    .vhost_get_vring_base = vgc_dead_get_vring_base,
};

/*
 * Returns when the broker has answered for every queue, and so no longer
 * accesses guest memory: only then is a reset acknowledged to the guest.
 * Returns at once if the broker is dead; if it does not answer, closes the
 * connection after answer-timeout.
 */
static void vgc_link_stop(VgcDevice *d)
{
    VirtIODevice *vdev = VIRTIO_DEVICE(d);
    BusState *qbus = BUS(qdev_get_parent_bus(DEVICE(vdev)));
    VirtioBusClass *k = VIRTIO_BUS_GET_CLASS(qbus);
    const VhostOps *ops = d->vhost.vhost_ops;
    VgcGuard guard;

    if (!d->started) {
        return;
    }
    d->started = false;
    if (d->closed) {
        d->vhost.vhost_ops = &vgc_dead_ops;
    }
    d->stopping = true; /* if closed meanwhile: see vgc_link_event() */
    vgc_guard_begin(d, &guard);
    vhost_dev_stop(&d->vhost, vdev, true);
    vgc_guard_end(d, &guard);
    d->stopping = false;
    d->vhost.vhost_ops = ops;
    if (k->set_guest_notifiers(qbus->parent, d->vhost.nvqs, false) < 0 &&
        vgc_may_report(d)) {
        error_report("vgpu-cuda: cannot unbind the interrupts");
    }
    vgc_trap_doorbells(d, false);
    vhost_dev_disable_notifiers(&d->vhost, vdev);
    trace_vgc_stop();
}

static void vgc_link_clean_up(VgcDevice *d)
{
    if (vgc_may_report(d)) {
        warn_report("vgpu-cuda: the connection to the broker is lost");
    }
    vgc_link_stop(d);
    vgc_link_disconnect(d);
    qemu_chr_fe_disconnect(&d->chardev);
    d->closed = false;
    vgc_link_follow(d);
    vgc_connect_later(d);
}

/* The connection has ended, or the service could not be started. */
static void vgc_link_fault(void *opaque)
{
    VgcDevice *d = opaque;
    VirtIODevice *vdev = VIRTIO_DEVICE(d);

    trace_vgc_fault(d->closed, d->connected, d->started);
    if (d->closed) {
        vgc_link_clean_up(d);
    }
    /* A driver that has reset the device since is not notified. */
    if (vdev->status & VIRTIO_CONFIG_S_DRIVER_OK && !d->started &&
        !(vdev->status & VIRTIO_CONFIG_S_NEEDS_RESET)) {
        vgc_break(d);
    }
}

/*
 * The chardev has connected again: brings the new broker into the state of the
 * old.
 */
static void vgc_link_reconnect(VgcDevice *d)
{
    struct vgpu_config offer, merged;
    VgcLimits limits = vgc_config_limits(&d->config);
    Error *err = NULL;

    if (!vgc_link_connect(d, &offer, &err) ||
        !vgc_merge_config(&offer, &limits, &merged, &err)) {
        goto refuse;
    }
    /* The guest has read the configuration, and the BAR's size is fixed. */
    if (memcmp(&merged, &d->config, sizeof(merged))) {
        error_setg(&err,
                   "vgpu-cuda: the new broker offers less than the one before: "
                   "restart it with the same limits, or restart the VM");
        goto refuse;
    }
    if (!vgc_link_configure(d, &err)) {
        goto refuse;
    }
    g_clear_pointer(&d->refusal, g_free);
    if (vgc_may_report(d)) {
        info_report("vgpu-cuda: connected to the broker again");
    }
    return;

refuse:
    /* The chardev reconnects every second: report each reason once. */
    if (g_strcmp0(d->refusal, error_get_pretty(err)) && vgc_may_report(d)) {
        g_free(d->refusal);
        d->refusal = g_strdup(error_get_pretty(err));
        error_report_err(err);
    } else {
        error_free(err);
    }
    vgc_link_disconnect(d);
    qemu_chr_fe_disconnect(&d->chardev);
    vgc_connect_later(d);
}

static void vgc_link_event(void *opaque, QEMUChrEvent event)
{
    VgcDevice *d = opaque;

    switch (event) {
    case CHR_EVENT_OPENED:
        if (!d->connected) {
            vgc_link_reconnect(d);
        }
        break;
    case CHR_EVENT_CLOSED:
        if (d->connected) {
            /* No further event until the bottom half has cleaned up. */
            d->closed = true;
            if (d->stopping) {
                d->vhost.vhost_ops = &vgc_dead_ops;
            }
            qemu_chr_fe_set_handlers(&d->chardev, NULL, NULL, NULL, NULL, NULL,
                                     NULL, false);
            qemu_bh_schedule(d->fault_bh);
        }
        break;
    case CHR_EVENT_BREAK:
    case CHR_EVENT_MUX_IN:
    case CHR_EVENT_MUX_OUT:
        break;
    }
}

static void vgc_link_start_later(void *opaque)
{
    VgcDevice *d = opaque;

    vgc_link_set_status(d, VIRTIO_DEVICE(d)->status);
}

void vgc_link_follow(VgcDevice *d)
{
    if (!d->fault_bh) {
        d->fault_bh = qemu_bh_new(vgc_link_fault, d);
        d->start_timer = timer_new_ms(QEMU_CLOCK_REALTIME, vgc_link_start_later,
                                      d);
    }
    qemu_chr_fe_set_handlers(&d->chardev, NULL, NULL, vgc_link_event, NULL, d,
                             NULL, true);
}

void vgc_link_fini(VgcDevice *d)
{
    vgc_connect_fini(d);
    g_clear_pointer(&d->refusal, g_free);
    qemu_chr_fe_set_handlers(&d->chardev, NULL, NULL, NULL, NULL, NULL, NULL,
                             false);
    if (d->fault_bh) {
        qemu_bh_delete(d->fault_bh);
        d->fault_bh = NULL;
        timer_free(d->start_timer);
        d->start_timer = NULL;
    }
    vgc_link_stop(d);
    vgc_link_disconnect(d);
}

void vgc_link_set_status(VgcDevice *d, uint8_t status)
{
    VirtIODevice *vdev = VIRTIO_DEVICE(d);
    bool up = status & VIRTIO_CONFIG_S_DRIVER_OK;

    trace_vgc_set_status(status, d->connected, d->started);
    if (!up) {
        vgc_link_stop(d);
    } else if (!d->started) {
        bool whole = !vdev->broken && d->connected;

        if (whole && !vgc_may_start(d)) {
            timer_mod(d->start_timer, d->failed_ms + VGC_FAILED_MS);
            return;
        }
        /* QEMU itself breaks a device whose rings it cannot map. */
        if (!whole || !vgc_link_start(d)) {
            d->failed_starts += whole;
            /*
             * In a bottom half: the caller's update of the status would
             * overwrite NEEDS_RESET.
             */
            qemu_bh_schedule(d->fault_bh);
        }
    }
}

uint64_t vgc_link_features(VgcDevice *d, uint64_t features)
{
    return vhost_get_features(&d->vhost, vgc_feature_bits, features);
}
