/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vgpu-cuda: PCI glue. BAR 1 is MSI-X, BAR 2 the virtio registers and
 * doorbells, BAR 4 the client windows (64 bit, prefetchable).
 */
#include "qemu/osdep.h"
#include "vgpu-cuda.h"
#include "hw/virtio/virtio-pci.h"

OBJECT_DECLARE_TYPE(VgcPCI, VgcPCIClass, VGC_PCI)

#define VGC_MSIX_BAR 1
#define VGC_MODERN_BAR 2
#define VGC_WINDOW_BAR 4
#define VGC_PCI_CLASS_ID 0x1200 /* processing accelerator */
/*
 * Configuration change, control queue, event queue. Doorbells never interrupt.
 */
#define VGC_VECTORS 3

struct VgcPCI {
    VirtIOPCIProxy parent_obj;
    VgcDevice vdev;
};

struct VgcPCIClass {
    VirtioPCIClass parent_class;
    DeviceRealize parent_dc_realize;
};

/*
 * Adds the capability with the location of the windows (virtio 1.2, 4.1.4.7).
 * virtio-pci has virtio_pci_add_shm_cap() for this, but not yet in QEMU 7.2.
 */
static void vgc_pci_add_shm_cap(PCIDevice *dev, uint64_t size)
{
    struct virtio_pci_cap64 cap = {
        .cap.cap_len = sizeof(cap),
        .cap.cfg_type = VIRTIO_PCI_CAP_SHARED_MEMORY_CFG,
        .cap.bar = VGC_WINDOW_BAR,
        .cap.id = VGPU_SHMID_WINDOWS,
        .cap.length = cpu_to_le32((uint32_t)size),
        .length_hi = cpu_to_le32(size >> 32),
    };
    int offset = pci_add_capability(dev, PCI_CAP_ID_VNDR, 0, sizeof(cap),
                                    &error_abort);

    memcpy(dev->config + offset + PCI_CAP_FLAGS, &cap.cap.cap_len,
           sizeof(cap) - PCI_CAP_FLAGS);
}

/* Called by virtio-pci when the proxy is ready. */
static void vgc_pci_realize(VirtIOPCIProxy *proxy, Error **errp)
{
    VgcDevice *d = &VGC_PCI(proxy)->vdev;

    if (proxy->nvectors == DEV_NVECTORS_UNSPECIFIED) {
        proxy->nvectors = VGC_VECTORS;
    }
    proxy->msix_bar_idx = VGC_MSIX_BAR;
    proxy->modern_mem_bar_idx = VGC_MODERN_BAR;
    if (!qdev_realize(DEVICE(d), BUS(&proxy->bus), errp)) {
        return;
    }
    pci_register_bar(&proxy->pci_dev, VGC_WINDOW_BAR,
                     PCI_BASE_ADDRESS_SPACE_MEMORY |
                     PCI_BASE_ADDRESS_MEM_PREFETCH |
                     PCI_BASE_ADDRESS_MEM_TYPE_64,
                     &d->window);
    vgc_pci_add_shm_cap(&proxy->pci_dev, memory_region_size(&d->window));
}

/* Called before virtio-pci lays out its BAR, which depends on these flags. */
static void vgc_pci_dc_realize(DeviceState *dev, Error **errp)
{
    VirtIOPCIProxy *proxy = VIRTIO_PCI(dev);

    /*
     * A doorbell is mapped into a single guest process, so each needs its own
     * page.
     */
    proxy->flags |= VIRTIO_PCI_FLAG_PAGE_PER_VQ;
    VGC_PCI_GET_CLASS(dev)->parent_dc_realize(dev, errp);
}

VGC_PROPERTIES vgc_pci_properties[] = {
    DEFINE_PROP_UINT32("vectors", VirtIOPCIProxy, nvectors,
                       DEV_NVECTORS_UNSPECIFIED),
    VGC_END_OF_PROPERTIES
};

static void vgc_pci_class_init(ObjectClass *klass, VGC_CLASS_DATA *data)
{
    DeviceClass *dc = DEVICE_CLASS(klass);
    VirtioPCIClass *k = VIRTIO_PCI_CLASS(klass);
    PCIDeviceClass *pk = PCI_DEVICE_CLASS(klass);

    k->realize = vgc_pci_realize;
    device_class_set_parent_realize(dc, vgc_pci_dc_realize,
                                    &VGC_PCI_CLASS(klass)->parent_dc_realize);
    device_class_set_props(dc, vgc_pci_properties);
    dc->desc = "CUDA GPU served by a broker process";
    set_bit(DEVICE_CATEGORY_MISC, dc->categories);
    pk->vendor_id = VGPU_PCI_VENDOR_ID;
    pk->device_id = 0; /* virtio-pci makes it 0x1040 + the virtio id */
    pk->class_id = VGC_PCI_CLASS_ID;
}

static void vgc_pci_instance_init(Object *obj)
{
    VgcPCI *p = VGC_PCI(obj);

    virtio_instance_init_common(obj, &p->vdev, sizeof(p->vdev),
                                TYPE_VGC_DEVICE);
}

/* Only the non-transitional type: the device has no legacy driver. */
static const VirtioPCIDeviceTypeInfo vgc_pci_info = {
    .base_name = TYPE_VGC_PCI,
    .non_transitional_name = "vgpu-cuda",
    .instance_size = sizeof(VgcPCI),
    .class_size = sizeof(VgcPCIClass),
    .instance_init = vgc_pci_instance_init,
    .class_init = vgc_pci_class_init,
};

static void vgc_pci_register_types(void)
{
    virtio_pci_types_register(&vgc_pci_info);
}

type_init(vgc_pci_register_types)
