// SPDX-License-Identifier: GPL-2.0-only
/* Resources described by the device: configuration space, shared-memory region, doorbells. */
#include <linux/cc_platform.h>
#include <linux/device.h>
#include <linux/ioport.h>
#include <linux/pci.h>
#include <linux/virtio_config.h>
#include <uapi/linux/virtio_pci.h>

#include "vgpu.h"

/**
 * vgpu_cfg_get - read and check the configuration space
 * @vdev: the device
 * @cfg: out
 *
 * Reads each field once: each access may be a message from QEMU to its backend.
 *
 * Return: 0, -ENODEV or -EINVAL with the reason in the log.
 */
int vgpu_cfg_get(struct virtio_device *vdev, struct vgpu_cfg *cfg)
{
	struct vgpu_config raw;
	const char *why = NULL;
	unsigned int off;
	int err;

	for (off = 0; off < offsetof(struct vgpu_config, window_size); off += sizeof(u32))
		vdev->config->get(vdev, off, (u8 *)&raw + off, sizeof(u32));
	for (; off < sizeof(raw); off += sizeof(u64))
		vdev->config->get(vdev, off, (u8 *)&raw + off, sizeof(u64));

	err = vgpu_check_config(&raw, cfg, &why);
	if (err)
		dev_err(&vdev->dev, "the vgpu-cuda device is refused: %s\n", why);
	return err;
}

#if IS_ENABLED(CONFIG_PCI)
static bool vgpu_cap_read(struct pci_dev *pdev, u8 want, struct vgpu_notify_cap *cap)
{
	int pos;
	u8 type;

	for (pos = pci_find_capability(pdev, PCI_CAP_ID_VNDR); pos;
	     pos = pci_find_next_capability(pdev, pos, PCI_CAP_ID_VNDR)) {
		pci_read_config_byte(pdev, pos + offsetof(struct virtio_pci_cap, cfg_type), &type);
		pci_read_config_byte(pdev, pos + offsetof(struct virtio_pci_cap, bar), &cap->bar);
		/*
		 * A BAR number above 5 is reserved: a capability with such a BAR is to be ignored
		 * (virtio).
		 */
		if (type != want || cap->bar > 5)
			continue;
		pci_read_config_byte(pdev, pos + offsetof(struct virtio_pci_cap, cap_len),
				     &cap->cap_len);
		pci_read_config_dword(pdev, pos + offsetof(struct virtio_pci_cap, offset),
				      &cap->offset);
		pci_read_config_dword(pdev, pos + offsetof(struct virtio_pci_cap, length),
				      &cap->length);
		/*
		 * Present after the notification capability only; unused for the other
		 * capabilities.
		 */
		pci_read_config_dword(pdev, pos + offsetof(struct virtio_pci_notify_cap,
							   notify_off_multiplier),
				      &cap->multiplier);
		return true;
	}
	return false;
}

/*
 * Reads queue_notify_off of all queues. The driver's probe runs before the virtio core sets up
 * queues, so queue_select has no other user.
 */
static int vgpu_notify_offsets(struct pci_dev *pdev, struct vgpu_res *res)
{
	struct vgpu_notify_cap cap = {};
	struct virtio_pci_common_cfg __iomem *common;
	unsigned int i, n;

	if (!vgpu_cap_read(pdev, VIRTIO_PCI_CAP_COMMON_CFG, &cap) ||
	    !vgpu_range_ok(cap.offset, sizeof(*common), pci_resource_len(pdev, cap.bar)))
		return -EINVAL;
	common = pci_iomap_range(pdev, cap.bar, cap.offset, sizeof(*common));
	if (!common)
		return -ENOMEM;
	n = min_t(unsigned int, ioread16(&common->num_queues), ARRAY_SIZE(res->notify_off));
	for (i = 0; i < n; i++) {
		iowrite16(i, &common->queue_select);
		res->notify_off[i] = ioread16(&common->queue_notify_off);
	}
	pci_iounmap(pdev, common);
	return 0;
}

static int vgpu_notify_get(struct virtio_device *vdev, struct vgpu_res *res)
{
	struct vgpu_notify_cap cap;
	const char *why = NULL;
	struct pci_dev *pdev;
	int err;

	if (!vdev->dev.parent || !dev_is_pci(vdev->dev.parent)) {
		dev_err(&vdev->dev, "the vgpu-cuda device is refused: it is not on PCI\n");
		return -ENODEV;
	}
	pdev = to_pci_dev(vdev->dev.parent);
	if (!vgpu_cap_read(pdev, VIRTIO_PCI_CAP_NOTIFY_CFG, &cap)) {
		dev_err(&vdev->dev, "the vgpu-cuda device is refused: no notification capability\n");
		return -ENODEV;
	}
	err = vgpu_check_notify(&cap, pci_resource_len(pdev, cap.bar), &why);
	if (!err && !(pci_resource_flags(pdev, cap.bar) & IORESOURCE_MEM)) {
		why = "its doorbells are not in memory";
		err = -EINVAL;
	}
	if (!err) {
		err = vgpu_notify_offsets(pdev, res);
		why = "its common configuration cannot be read";
	}
	if (err) {
		dev_err(&vdev->dev, "the vgpu-cuda device is refused: %s\n", why);
		return err;
	}
	res->notify = pci_resource_start(pdev, cap.bar) + cap.offset;
	res->notify_len = cap.length;
	res->notify_mult = cap.multiplier;
	return 0;
}
#else
static int vgpu_notify_get(struct virtio_device *vdev, struct vgpu_res *res)
{
	dev_err(&vdev->dev, "the vgpu-cuda device is refused: this kernel has no PCI\n");
	return -ENODEV;
}
#endif

#ifdef CONFIG_VGPU_CUDA_KUNIT_TEST
/* Memory of the device in unit tests, which is not on PCI. */
const struct vgpu_res *vgpu_res_for_test;
/* Set by unit tests to simulate an encrypted guest. */
bool vgpu_encrypted_for_test;
#else
#define vgpu_encrypted_for_test false
#endif

/**
 * vgpu_guest_ok - check that the guest can share memory with the device
 * @vdev: the device, for the log
 *
 * Return: 0, or -EOPNOTSUPP with the reason in the log.
 */
int vgpu_guest_ok(struct virtio_device *vdev)
{
	const char *why = NULL;
	int err = vgpu_check_guest(cc_platform_has(CC_ATTR_GUEST_MEM_ENCRYPT) ||
				   vgpu_encrypted_for_test, &why);

	if (err)
		dev_err(&vdev->dev, "the vgpu-cuda device is refused: %s\n", why);
	return err;
}

/**
 * vgpu_res_get - locate and claim the device's memory
 * @vdev: the device
 * @res: out
 *
 * The claim ends with the driver's binding to the device.
 */
int vgpu_res_get(struct virtio_device *vdev, struct vgpu_res *res)
{
	struct virtio_shm_region shm;
	int err;

#ifdef CONFIG_VGPU_CUDA_KUNIT_TEST
	if (vgpu_res_for_test) {
		*res = *vgpu_res_for_test;
		return 0;
	}
#endif
	err = vgpu_notify_get(vdev, res);
	if (err)
		return err;
	if (!virtio_get_shm_region(vdev, &shm, VGPU_SHMID_WINDOWS)) {
		dev_err(&vdev->dev, "the vgpu-cuda device is refused: no shared-memory region\n");
		return -ENODEV;
	}
	if (!devm_request_mem_region(&vdev->dev, shm.addr, shm.len, "vgpu windows")) {
		dev_err(&vdev->dev, "the shared-memory region is in use by someone else\n");
		return -EBUSY;
	}
	res->windows = shm.addr;
	res->windows_len = shm.len;
	return 0;
}
