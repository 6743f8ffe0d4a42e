/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Differences between the kernel versions supported by this driver (6.1 and later). No other file
 * of the driver depends on the kernel's version.
 */
#ifndef VGPU_COMPAT_H
#define VGPU_COMPAT_H

#include <linux/dma-buf.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/time_namespace.h>
#include <linux/version.h>
#include <linux/virtio.h>
#include <linux/virtio_config.h>

/*
 * 6.4: doorbells that carry the ring's index. Not used, as the doorbell's value must be constant.
 */
#ifndef VIRTIO_F_NOTIFICATION_DATA
#define VIRTIO_F_NOTIFICATION_DATA 38
#endif

/* Offset of the caller's time namespace to CLOCK_MONOTONIC; the kernel exports no conversion. */
static inline s64 vgpu_monotonic_offset_ns(void)
{
	struct timespec64 offset = {};

	timens_add_monotonic(&offset);
	return timespec64_to_ns(&offset);
}

/* 6.3: vm_flags may only be changed through helpers. */
static inline void vgpu_vm_flags(struct vm_area_struct *vma, unsigned long set, unsigned long clear)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_mod(vma, set, clear);
#else
	vma->vm_flags = (vma->vm_flags | set) & ~clear;
#endif
}

/*
 * Before 6.2 a read-only long-term pin may catch the shared zero page or a page that is about to be
 * replaced by copy-on-write, unless the copy is forced first (FOLL_FORCE | FOLL_WRITE was the rule
 * for drivers). From 6.2 on the pin itself handles both.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
#define VGPU_FOLL_READONLY 0
#else
#define VGPU_FOLL_READONLY (FOLL_FORCE | FOLL_WRITE)
#endif

/* 6.13: the name of a namespace is a string. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
#define VGPU_IMPORT_NS_DMA_BUF MODULE_IMPORT_NS("DMA_BUF")
#else
#define VGPU_IMPORT_NS_DMA_BUF MODULE_IMPORT_NS(DMA_BUF)
#endif

/*
 * 6.2 and later releases of 6.1: the core takes the reservation lock, in separate functions. Kbuild
 * detects them: no version number of 6.1 identifies the change.
 */
static inline struct sg_table *vgpu_attachment_map(struct dma_buf_attachment *attach,
						   enum dma_data_direction dir)
{
#ifdef VGPU_DMA_BUF_UNLOCKED
	return dma_buf_map_attachment_unlocked(attach, dir);
#else
	return dma_buf_map_attachment(attach, dir);
#endif
}

static inline void vgpu_attachment_unmap(struct dma_buf_attachment *attach, struct sg_table *sgt,
					 enum dma_data_direction dir)
{
#ifdef VGPU_DMA_BUF_UNLOCKED
	dma_buf_unmap_attachment_unlocked(attach, sgt, dir);
#else
	dma_buf_unmap_attachment(attach, sgt, dir);
#endif
}

/**
 * struct vgpu_vq_spec - parameters of a virtqueue
 * @name: for /proc/interrupts, never NULL (NULL means "skip this queue")
 * @callback: interrupt handler, or NULL for a queue that takes no vector
 */
struct vgpu_vq_spec {
	const char *name;
	void (*callback)(struct virtqueue *vq);
};

/* 6.11: virtio_find_vqs() takes one array of structures in place of two arrays. */
static inline int vgpu_find_vqs(struct virtio_device *vdev, unsigned int n, struct virtqueue **vqs,
				const struct vgpu_vq_spec *spec)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
	struct virtqueue_info *info = kcalloc(n, sizeof(*info), GFP_KERNEL);
	unsigned int i;
	int err;

	if (!info)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		info[i].name = spec[i].name;
		info[i].callback = spec[i].callback;
	}
	err = virtio_find_vqs(vdev, n, vqs, info, NULL);
	kfree(info);
	return err;
#else
	vq_callback_t **callbacks = kcalloc(n, sizeof(*callbacks), GFP_KERNEL);
	const char **names = kcalloc(n, sizeof(*names), GFP_KERNEL);
	int err = -ENOMEM;
	unsigned int i;

	if (callbacks && names) {
		for (i = 0; i < n; i++) {
			callbacks[i] = spec[i].callback;
			names[i] = spec[i].name;
		}
		err = virtio_find_vqs(vdev, n, vqs, callbacks, names, NULL);
	}
	kfree(names);
	kfree(callbacks);
	return err;
#endif
}

#ifdef CONFIG_VGPU_CUDA_KUNIT_TEST
/* Device of the unit tests: find_vqs() of struct virtio_config_ops, and its callee. */
int vgpu_fake_make_vqs(struct virtio_device *vdev, unsigned int n, struct virtqueue **vqs,
		       const struct vgpu_vq_spec *spec);

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
static inline int vgpu_fake_find_vqs(struct virtio_device *vdev, unsigned int n,
				     struct virtqueue *vqs[], struct virtqueue_info info[],
				     struct irq_affinity *desc)
{
	struct vgpu_vq_spec *spec = kcalloc(n, sizeof(*spec), GFP_KERNEL);
	unsigned int i;
	int err;

	if (!spec)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		spec[i] = (struct vgpu_vq_spec){ info[i].name, info[i].callback };
	err = vgpu_fake_make_vqs(vdev, n, vqs, spec);
	kfree(spec);
	return err;
}
#else
static inline int vgpu_fake_find_vqs(struct virtio_device *vdev, unsigned int n,
				     struct virtqueue *vqs[], vq_callback_t *callbacks[],
				     const char * const names[], const bool *ctx,
				     struct irq_affinity *desc)
{
	struct vgpu_vq_spec *spec = kcalloc(n, sizeof(*spec), GFP_KERNEL);
	unsigned int i;
	int err;

	if (!spec)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		spec[i] = (struct vgpu_vq_spec){ names[i], callbacks[i] };
	err = vgpu_fake_make_vqs(vdev, n, vqs, spec);
	kfree(spec);
	return err;
}
#endif
#endif

/*
 * Before 6.12 the virtio core leaves change notifications off when a driver refuses to freeze,
 * which would hide VIRTIO_CONFIG_S_NEEDS_RESET from then on.
 */
static inline void vgpu_freeze_refused(struct virtio_device *vdev)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
	spin_lock_irq(&vdev->config_lock);
	vdev->config_enabled = true;
	spin_unlock_irq(&vdev->config_lock);
#endif
}

#endif
