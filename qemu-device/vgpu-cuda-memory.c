/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vgpu-cuda: the memory that the broker may use, and the check that the guest's
 * rings are in it.
 */
#include "qemu/osdep.h"
#include "qemu/units.h"
#include "vgpu-cuda.h"

/* True for part of the windows of another vgpu-cuda of the VM. */
static bool vgc_is_foreign(VgcDevice *d, const struct vhost_memory_region *r)
{
    ram_addr_t offset;
    MemoryRegion *mr = memory_region_from_host(
        (void *)(uintptr_t)r->userspace_addr, &offset);
    Object *owner = mr ? memory_region_owner(mr) : NULL;

    return owner && owner != vgc_window_owner(d) &&
           object_dynamic_cast(owner, TYPE_VGC_PCI);
}

/*
 * Returns the memory of the VM without the windows of other vgpu-cuda devices.
 * These are ordinary RAM to QEMU, but each belongs to one broker: another
 * broker could not tell them from its own, and its workers must not access
 * them.
 */
struct vhost_memory *vgc_own_memory(VgcDevice *d, const struct vhost_memory *all)
{
    struct vhost_memory *own = g_malloc0(
        sizeof(*own) + all->nregions * sizeof(own->regions[0]));
    uint32_t i;

    for (i = 0; i < all->nregions; i++) {
        if (!vgc_is_foreign(d, &all->regions[i])) {
            own->regions[own->nregions++] = all->regions[i];
        }
    }
    return own;
}

/*
 * True if the part of a ring is in guest RAM that the broker has in its table.
 * Windows are excluded: their BAR can be moved, and vhost aborts QEMU when a
 * ring loses its memory.
 */
static bool vgc_part_is_shared(VgcDevice *d, hwaddr addr, hwaddr size)
{
    MemoryRegionSection section =
        memory_region_find(VIRTIO_DEVICE(d)->dma_as->root, addr, 1);
    MemoryRegion *mr = section.mr;
    uint64_t host = 0;
    uint32_t i;

    if (!mr) {
        return false;
    }
    if (memory_region_is_ram(mr) && !section.readonly &&
        qemu_ram_is_shared(mr->ram_block) &&
        object_dynamic_cast(memory_region_owner(mr), TYPE_MEMORY_BACKEND)) {
        host = (uintptr_t)memory_region_get_ram_ptr(mr) +
               section.offset_within_region;
    }
    memory_region_unref(mr);
    for (i = 0; host && i < d->vhost.mem->nregions; i++) {
        const struct vhost_memory_region *r = &d->vhost.mem->regions[i];

        if (host >= r->userspace_addr && size <= r->memory_size &&
            host - r->userspace_addr <= r->memory_size - size) {
            return true;
        }
    }
    return false;
}

/*
 * The first MiB is RAM in pieces that the guest switches on and off with
 * registers of the chipset (PAM, SMRAM). No driver needs rings there.
 */
#define VGC_RINGS_FROM (1 * MiB)

static bool vgc_ring_is_high(VgcDevice *d, int n)
{
    VirtIODevice *vdev = VIRTIO_DEVICE(d);

    return virtio_queue_get_desc_addr(vdev, n) >= VGC_RINGS_FROM &&
           virtio_queue_get_avail_addr(vdev, n) >= VGC_RINGS_FROM &&
           virtio_queue_get_used_addr(vdev, n) >= VGC_RINGS_FROM;
}

static bool vgc_ring_is_shared(VgcDevice *d, int n)
{
    VirtIODevice *vdev = VIRTIO_DEVICE(d);

    return vgc_part_is_shared(d, virtio_queue_get_desc_addr(vdev, n),
                              virtio_queue_get_desc_size(vdev, n)) &&
           vgc_part_is_shared(d, virtio_queue_get_avail_addr(vdev, n),
                              virtio_queue_get_avail_size(vdev, n)) &&
           vgc_part_is_shared(d, virtio_queue_get_used_addr(vdev, n),
                              virtio_queue_get_used_size(vdev, n));
}

bool vgc_rings_are_shared(VgcDevice *d)
{
    VirtIODevice *vdev = VIRTIO_DEVICE(d);
    unsigned int n;

    if (virtio_vdev_has_feature(vdev, VIRTIO_F_IOMMU_PLATFORM)) {
        return true; /* the broker asks QEMU for each address */
    }
    for (n = 0; n < d->nqueues; n++) {
        /* vhost skips queues that have not been set up. */
        if (!virtio_queue_get_desc_addr(vdev, n)) {
            continue;
        }
        if (!vgc_ring_is_high(d, n)) {
            if (vgc_may_report(d)) {
                error_report("vgpu-cuda: the guest has put the rings of queue %u "
                             "into the first MiB, where its memory can be "
                             "switched off", n);
            }
            return false;
        }
        if (!vgc_ring_is_shared(d, n)) {
            if (vgc_may_report(d)) {
                error_report("vgpu-cuda: the guest has put the rings of queue %u "
                             "where the broker has no memory", n);
            }
            return false;
        }
    }
    return true;
}
