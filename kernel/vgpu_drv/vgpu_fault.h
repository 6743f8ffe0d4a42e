/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fault injection for the KUnit suites only: the k-th request of a task to the kernel in this
 * driver fails, and resources taken by the driver are counted. The kernel's own failslab leaves
 * GFP_KERNEL alone unless configured through debugfs, which a unit test cannot reach.
 *
 * To be included last in a file, or in vgpu.h. Empty without CONFIG_VGPU_CUDA_KUNIT_TEST.
 */
#ifndef VGPU_FAULT_H
#define VGPU_FAULT_H

#ifdef CONFIG_VGPU_CUDA_KUNIT_TEST
#include <linux/gfp.h>
#include <linux/idr.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/virtio.h>
#include <linux/xarray.h>

bool vgpu_fault_hit(gfp_t gfp);
void *vgpu_fault_took(void *p);
void vgpu_fault_gave(const void *p);
void vgpu_fault_memory(struct page *page, unsigned int npages);
int vgpu_fault_pinned(void);
int vgpu_fault_pin(unsigned long addr, int n, unsigned int flags, struct page **pages);
void vgpu_fault_unpin(struct page **pages, unsigned long n);
void vgpu_fault_unpin_range(struct page *page, unsigned long n, bool dirty);
unsigned int vgpu_fault_pin_flags(void);
unsigned int vgpu_fault_dirtied(void);

/**
 * struct vgpu_fault_maps - device pages that were mapped and unmapped, see vgpu_fault_maps()
 * @pfn: last page frame of a page fault
 * @first: first page frame of the last range
 * @n: number of page frames of the last range, which are contiguous, or 0
 * @unmapped: the last mappings that were unmapped as a whole
 * @unmaps: number of times
 */
struct vgpu_fault_maps {
	unsigned long pfn;
	unsigned long first;
	unsigned int n;
	const struct address_space *unmapped[4];
	unsigned int unmaps;
};

struct vgpu_fault_maps *vgpu_fault_maps(void);
vm_fault_t vgpu_fault_insert(struct vm_area_struct *vma, unsigned long addr, unsigned long pfn);
int vgpu_fault_apply(struct mm_struct *mm, unsigned long addr, unsigned long size, pte_fn_t fn,
		     void *data);
void vgpu_fault_unmap(struct address_space *mapping, loff_t first, loff_t len, int even_cows);
void vgpu_fault_deliver(bool on);
unsigned long vgpu_fault_to_user(void __user *to, const void *from, unsigned long n);
unsigned long vgpu_fault_from_user(void *to, const void __user *from, unsigned long n);

static inline void *vgpu_fault_kzalloc(size_t size, gfp_t gfp)
{
	return vgpu_fault_hit(gfp) ? NULL : vgpu_fault_took(kzalloc(size, gfp));
}

static inline void *vgpu_fault_kcalloc(size_t n, size_t size, gfp_t gfp)
{
	return vgpu_fault_hit(gfp) ? NULL : vgpu_fault_took(kcalloc(n, size, gfp));
}

static inline void *vgpu_fault_kvmalloc_array(size_t n, size_t size, gfp_t gfp)
{
	return vgpu_fault_hit(gfp) ? NULL : vgpu_fault_took(kvmalloc_array(n, size, gfp));
}

static inline void vgpu_fault_kfree(const void *p)
{
	vgpu_fault_gave(p);
	kfree(p);
}

static inline void vgpu_fault_kvfree(const void *p)
{
	vgpu_fault_gave(p);
	kvfree(p);
}

static inline unsigned long vgpu_fault_get_free_page(gfp_t gfp)
{
	return vgpu_fault_hit(gfp) ? 0 : __get_free_page(gfp);
}

static inline int vgpu_fault_ida_alloc_max(struct ida *ida, unsigned int max, gfp_t gfp)
{
	return vgpu_fault_hit(gfp) ? -ENOMEM : ida_alloc_max(ida, max, gfp);
}

static inline int vgpu_fault_misc_register(struct miscdevice *misc)
{
	return vgpu_fault_hit(GFP_KERNEL) ? -ENOMEM : misc_register(misc);
}

static inline int vgpu_fault_add_sgs(struct virtqueue *vq, struct scatterlist *sgs[],
				     unsigned int out, unsigned int in, void *data, gfp_t gfp)
{
	return vgpu_fault_hit(gfp) ? -ENOMEM : virtqueue_add_sgs(vq, sgs, out, in, data, gfp);
}

static inline int vgpu_fault_add_inbuf(struct virtqueue *vq, struct scatterlist *sg,
				       unsigned int n, void *data, gfp_t gfp)
{
	return vgpu_fault_hit(gfp) ? -ENOMEM : virtqueue_add_inbuf(vq, sg, n, data, gfp);
}

static inline int vgpu_fault_xa_alloc_cyclic(struct xarray *xa, u32 *id, void *entry,
					     struct xa_limit limit, u32 *next, gfp_t gfp)
{
	return vgpu_fault_hit(gfp) ? -ENOMEM : xa_alloc_cyclic(xa, id, entry, limit, next, gfp);
}

static inline void *vgpu_fault_xa_store(struct xarray *xa, unsigned long index, void *entry,
					gfp_t gfp)
{
	return vgpu_fault_hit(gfp) ? xa_mk_internal(-ENOMEM) : xa_store(xa, index, entry, gfp);
}

#undef kzalloc
#undef kcalloc
#undef kvmalloc_array
#undef kfree
#undef kvfree
#undef __get_free_page
#define kzalloc vgpu_fault_kzalloc
#define kcalloc vgpu_fault_kcalloc
#define kvmalloc_array vgpu_fault_kvmalloc_array
#define kfree vgpu_fault_kfree
#define kvfree vgpu_fault_kvfree
#define __get_free_page vgpu_fault_get_free_page
#define ida_alloc_max vgpu_fault_ida_alloc_max
#define misc_register vgpu_fault_misc_register
#define virtqueue_add_sgs vgpu_fault_add_sgs
#define virtqueue_add_inbuf vgpu_fault_add_inbuf
#define xa_alloc_cyclic vgpu_fault_xa_alloc_cyclic
#define xa_store vgpu_fault_xa_store
#define copy_from_user vgpu_fault_from_user
#define copy_to_user vgpu_fault_to_user
#define pin_user_pages_fast vgpu_fault_pin
#define unpin_user_pages vgpu_fault_unpin
#define unpin_user_page_range_dirty_lock vgpu_fault_unpin_range
#define vmf_insert_pfn vgpu_fault_insert
#define apply_to_page_range vgpu_fault_apply
#define unmap_mapping_range vgpu_fault_unmap
#endif

#endif
