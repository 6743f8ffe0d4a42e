/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vgpu-cuda: device core. Creates the queues and the memory of the client
 * windows, and answers configuration reads from a copy that is fixed when the
 * device is created.
 */
#include "qemu/osdep.h"
#include <sys/resource.h>
#include "vgpu-cuda.h"
#include "trace.h"

/* Four eventfds per queue, and a reserve for the rest of QEMU. */
#define VGC_FDS_PER_QUEUE 4
#define VGC_OTHER_FDS 96

static void vgc_get_config(VirtIODevice *vdev, uint8_t *config)
{
    memcpy(config, &VGC_DEVICE(vdev)->config, sizeof(struct vgpu_config));
}

static uint64_t vgc_get_features(VirtIODevice *vdev, uint64_t features,
                                 Error **errp)
{
    VgcDevice *d = VGC_DEVICE(vdev);

    virtio_add_feature(&features, VGPU_F_PIN);
    virtio_add_feature(&features, VGPU_F_PING);
    /* vhost has no message for the reset of one queue. */
    virtio_clear_feature(&features, VIRTIO_F_RING_RESET);
    return vgc_link_features(d, features);
}

static VGC_SET_STATUS_TYPE vgc_set_status(VirtIODevice *vdev, uint8_t status)
{
    vgc_link_set_status(VGC_DEVICE(vdev), status);
    VGC_SET_STATUS_RETURN;
}

static void vgc_handle_output(VirtIODevice *vdev, VirtQueue *vq)
{
    /*
     * The broker handles the queues, but QEMU's clean-up paths can call this.
     */
}

/*
 * Since QEMU 8.0 a negative index means the configuration interrupt, which
 * vhost does not send.
 */
static void vgc_guest_notifier_mask(VirtIODevice *vdev, int idx, bool mask)
{
    VgcDevice *d = VGC_DEVICE(vdev);

    if (idx >= 0 && d->started) {
        vhost_virtqueue_mask(&d->vhost, vdev, idx, mask);
    }
}

static bool vgc_guest_notifier_pending(VirtIODevice *vdev, int idx)
{
    VgcDevice *d = VGC_DEVICE(vdev);

    return idx >= 0 && d->started && vhost_virtqueue_pending(&d->vhost, idx);
}

static struct vhost_dev *vgc_get_vhost(VirtIODevice *vdev)
{
    return &VGC_DEVICE(vdev)->vhost;
}

/*
 * Returns guest memory that the broker cannot map, or NULL. The broker needs a
 * file descriptor and MAP_SHARED.
 */
static const char *vgc_unshared_memory(MemoryRegion *mr)
{
    MemoryRegion *sub;
    const char *name;

    if (!mr) {
        return "none";
    }
    if (memory_region_is_ram(mr)) {
        bool shared = qemu_ram_is_shared(mr->ram_block) &&
                      memory_region_get_fd(mr) >= 0;

        return shared ? NULL : memory_region_name(mr);
    }
    QTAILQ_FOREACH(sub, &mr->subregions, subregions_link) {
        name = vgc_unshared_memory(sub);
        if (name) {
            return name;
        }
    }
    return NULL;
}

/* Adds up the queues of all realized devices. */
static int vgc_add_queues(Object *obj, void *opaque)
{
    unsigned int *queues = opaque;
    VgcDevice *d = (VgcDevice *)object_dynamic_cast(obj, TYPE_VGC_DEVICE);

    if (d) {
        *queues += d->nqueues;
    }
    return 0;
}

static bool vgc_check_host(VgcDevice *d, Error **errp)
{
    MachineState *machine = MACHINE(qdev_get_machine());
    const char *unshared = vgc_unshared_memory(machine->ram);
    unsigned int queues = VGPU_VQ_DOORBELL + d->limits.clients;
    struct rlimit fds;
    rlim_t need;

    object_child_foreach_recursive(object_get_root(), vgc_add_queues, &queues);
    need = VGC_FDS_PER_QUEUE * queues + VGC_OTHER_FDS;
    if (unshared) {
        error_setg(errp,
                   "vgpu-cuda: the guest's memory ('%s') is not shared with "
                   "the broker: add -object memory-backend-memfd,id=mem,"
                   "size=%" PRIu64 "M,share=on -machine memory-backend=mem",
                   unshared, (uint64_t)machine->ram_size / MiB);
        return false;
    }
    if (!getrlimit(RLIMIT_NOFILE, &fds) && fds.rlim_cur < need) {
        error_setg(errp,
                   "vgpu-cuda: clients=%u needs %" PRIu64 " file descriptors "
                   "but the limit is %" PRIu64 ": run 'ulimit -n %" PRIu64 "' "
                   "before QEMU or lower clients",
                   d->limits.clients, (uint64_t)need, (uint64_t)fds.rlim_cur,
                   (uint64_t)need);
        return false;
    }
    return true;
}

/*
 * QEMU refers to the owner of a region as long as a view of the guest's memory
 * has it, which is longer than the device is plugged in. @d has a count of its
 * own, but its memory goes with the PCI device.
 */
Object *vgc_window_owner(VgcDevice *d)
{
    return OBJECT(qdev_get_parent_bus(DEVICE(d))->parent);
}

/* Creates a sealed memfd, so that the broker can rely on its size. */
static bool vgc_create_window(VgcDevice *d, Error **errp)
{
    uint64_t size = vgc_bar_size(&d->config);
    Error *err = NULL;
    int fd;

    fd = qemu_memfd_create(VGC_WINDOW_MEMFD, size, false, 0,
                           F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL, errp);
    if (fd < 0) {
        return false;
    }
    memory_region_init_ram_from_fd(&d->window, vgc_window_owner(d),
                                   VGC_WINDOW_MEMFD, size, RAM_SHARED, fd, 0,
                                   &err);
    if (err) {
        close(fd);
        error_propagate(errp, err);
        return false;
    }
    return true;
}

void vgc_trap_doorbells(VgcDevice *d, bool trap)
{
    BusState *qbus = BUS(qdev_get_parent_bus(DEVICE(d)));
    VirtioBusClass *k = VIRTIO_BUS_GET_CLASS(qbus);
    unsigned int i;

    for (i = 0; d->trap_doorbells && i < d->nqueues; i++) {
        k->ioeventfd_assign(qbus->parent,
                            virtio_queue_get_host_notifier(d->queues[i]), i,
                            !trap);
    }
}

static void vgc_create_queues(VgcDevice *d)
{
    VirtIODevice *vdev = VIRTIO_DEVICE(d);
    unsigned int i;

    /*
     * virtio_init() accepts only ids of devices that QEMU implements: start
     * from one of those.
     */
    virtio_init(vdev, VIRTIO_ID_GPIO, sizeof(struct vgpu_config));
    vdev->device_id = VGPU_VIRTIO_ID;
    vdev->name = "vgpu-cuda";

    d->nqueues = VGPU_VQ_DOORBELL + d->limits.clients;
    d->queues = g_new0(VirtQueue *, d->nqueues);
    d->vhost_vqs = g_new0(struct vhost_virtqueue, d->nqueues);
    for (i = 0; i < d->nqueues; i++) {
        int size = VGC_DOORBELL_QUEUE_SIZE;

        if (i == VGPU_VQ_CONTROL) {
            size = VGC_CONTROL_QUEUE_SIZE;
        } else if (i == VGPU_VQ_EVENT) {
            size = VGC_EVENT_QUEUE_SIZE;
        }
        d->queues[i] = virtio_add_queue(vdev, size, vgc_handle_output);
    }
}

static void vgc_delete_queues(VgcDevice *d)
{
    unsigned int i;

    for (i = 0; i < d->nqueues; i++) {
        virtio_delete_queue(d->queues[i]);
    }
    g_free(d->queues);
    d->queues = NULL;
    g_free(d->vhost_vqs);
    d->vhost_vqs = NULL;
    virtio_cleanup(VIRTIO_DEVICE(d));
}

static void vgc_realize(DeviceState *dev, Error **errp)
{
    VgcDevice *d = VGC_DEVICE(dev);
    struct vgpu_config offer;

    d->limits.pin_runs = VGPU_MAX_PIN_RUNS;
    if (!vgc_check_timeout(d->answer_timeout, errp) ||
        !vgc_check_limits(&d->limits, errp) || !vgc_check_host(d, errp) ||
        !vgc_connect_check(d, errp) || !vgc_block_migration(d, errp)) {
        return;
    }
    if (!vhost_user_init(&d->vhost_user, &d->chardev, errp)) {
        goto unblock_migration;
    }
    vgc_create_queues(d);
    if (!vgc_link_connect(d, &offer, errp) ||
        !vgc_merge_config(&offer, &d->limits, &d->config, errp) ||
        !vgc_create_window(d, errp)) {
        goto disconnect;
    }
    if (!vgc_link_configure(d, errp)) {
        goto delete_window;
    }
    vgc_link_follow(d);
    vgc_connect_keep(d);
    return;

delete_window:
    object_unparent(OBJECT(&d->window));
disconnect:
    vgc_link_fini(d);
    vgc_delete_queues(d);
    vhost_user_cleanup(&d->vhost_user);
unblock_migration:
    vgc_del_blocker(&d->migration_blocker);
}

static void vgc_unrealize(DeviceState *dev)
{
    VgcDevice *d = VGC_DEVICE(dev);

    /*
     * The window is still part of the PCI device's BAR, and is freed with @dev.
     */
    vgc_link_fini(d);
    vgc_delete_queues(d);
    vhost_user_cleanup(&d->vhost_user);
    vgc_del_blocker(&d->migration_blocker);
}

static bool vgc_get_connected(Object *obj, Error **errp)
{
    return VGC_DEVICE(obj)->connected;
}

static bool vgc_get_started(Object *obj, Error **errp)
{
    return VGC_DEVICE(obj)->started;
}

VGC_PROPERTIES vgc_properties[] = {
    DEFINE_PROP_CHR("chardev", VgcDevice, chardev),
    DEFINE_PROP_UINT32("clients", VgcDevice, limits.clients,
                       VGC_DEFAULT_CLIENTS),
    DEFINE_PROP_SIZE("window-size", VgcDevice, limits.window_size,
                     VGC_DEFAULT_WINDOW_SIZE),
    DEFINE_PROP_SIZE("vram-quota", VgcDevice, limits.vram_quota, 0),
    DEFINE_PROP_SIZE("pin-quota", VgcDevice, limits.pin_quota, 0),
    DEFINE_PROP_UINT32("answer-timeout", VgcDevice, answer_timeout,
                       VGC_DEFAULT_ANSWER_TIMEOUT),
    DEFINE_PROP_BOOL("x-trap-doorbells", VgcDevice, trap_doorbells, false),
    VGC_END_OF_PROPERTIES
};

static void vgc_describe_properties(ObjectClass *klass)
{
    object_class_property_set_description(klass, "chardev",
        "Socket chardev connected to the broker, vgpu-backend (required)");
    object_class_property_set_description(klass, "clients",
        "Guest processes that can use the GPU at the same time, 1 to 254");
    object_class_property_set_description(klass, "window-size",
        "Shared memory per client for commands and replies, power of two, "
        "at least 4M");
    object_class_property_set_description(klass, "vram-quota",
        "Device memory for the whole VM in bytes, 0 = no limit");
    object_class_property_set_description(klass, "pin-quota",
        "Guest memory that may be pinned for the GPU in bytes, 0 = no limit");
    object_class_property_set_description(klass, "answer-timeout",
        "Milliseconds that the broker may take to start or to stop, 100 to "
        "3600000; then the connection is given up");
    object_class_property_set_description(klass, "x-trap-doorbells",
        "For tests: each write to a doorbell goes through QEMU, slower, where "
        "-trace virtio_queue_notify shows it");
    object_class_property_add_bool(klass, "connected", vgc_get_connected, NULL);
    object_class_property_set_description(klass, "connected",
                                          "The broker is connected");
    object_class_property_add_bool(klass, "started", vgc_get_started, NULL);
    object_class_property_set_description(klass, "started",
                                          "The broker serves the guest driver");
}

static void vgc_class_init(ObjectClass *klass, VGC_CLASS_DATA *data)
{
    DeviceClass *dc = DEVICE_CLASS(klass);
    VirtioDeviceClass *vdc = VIRTIO_DEVICE_CLASS(klass);

    device_class_set_props(dc, vgc_properties);
    vgc_describe_properties(klass);
    dc->desc = "CUDA GPU served by a broker process";
    /* Usable only behind the PCI glue, which has the shared-memory BAR. */
    dc->user_creatable = false;
    set_bit(DEVICE_CATEGORY_MISC, dc->categories);

    vdc->realize = vgc_realize;
    vdc->unrealize = vgc_unrealize;
    vdc->get_config = vgc_get_config;
    vdc->get_features = vgc_get_features;
    vdc->set_status = vgc_set_status;
    vdc->guest_notifier_mask = vgc_guest_notifier_mask;
    vdc->guest_notifier_pending = vgc_guest_notifier_pending;
    vdc->get_vhost = vgc_get_vhost;
}

static const TypeInfo vgc_device_info = {
    .name = TYPE_VGC_DEVICE,
    .parent = TYPE_VIRTIO_DEVICE,
    .instance_size = sizeof(VgcDevice),
    .class_init = vgc_class_init,
};

static void vgc_register_types(void)
{
    type_register_static(&vgc_device_info);
}

type_init(vgc_register_types)
