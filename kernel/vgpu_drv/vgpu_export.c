// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: export
 *
 * A dma-buf of pages that a client has pinned. The dma-buf holds the region: the pages stay pinned,
 * and charged to the user that pinned them, until the dma-buf is released, even after the end of
 * the client, its process and the device. The host is not told about the dma-buf: the worker has
 * the pages as long as the client has them pinned.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/file.h>
#include <linux/iosys-map.h>
#include <linux/mm.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "vgpu_compat.h"
#include "vgpu.h"

VGPU_IMPORT_NS_DMA_BUF;

/**
 * struct vgpu_exported - private data of an exported dma-buf
 * @region: owner of the pages, referenced
 * @npages: number of @pages
 * @pages: the exported part of the region
 */
struct vgpu_exported {
	struct vgpu_region *region;
	unsigned int npages;
	struct page **pages;
};

static struct sg_table *vgpu_exported_map(struct dma_buf_attachment *attach,
					  enum dma_data_direction dir)
{
	struct vgpu_exported *exported = attach->dmabuf->priv;
	unsigned int max = ALIGN_DOWN(dma_get_max_seg_size(attach->dev), PAGE_SIZE);
	struct sg_table *sgt = kzalloc(sizeof(*sgt), GFP_KERNEL);
	int err;

	if (!sgt)
		return ERR_PTR(-ENOMEM);
	err = sg_alloc_table_from_pages_segment(sgt, exported->pages, exported->npages, 0,
						(unsigned long)exported->npages << PAGE_SHIFT,
						max_t(unsigned int, max, PAGE_SIZE), GFP_KERNEL);
	if (err)
		goto free;
	err = dma_map_sgtable(attach->dev, sgt, dir, 0);
	if (!err)
		return sgt;
	sg_free_table(sgt);
free:
	kfree(sgt);
	return ERR_PTR(err);
}

static void vgpu_exported_unmap(struct dma_buf_attachment *attach, struct sg_table *sgt,
				enum dma_data_direction dir)
{
	dma_unmap_sgtable(attach->dev, sgt, dir, 0);
	sg_free_table(sgt);
	kfree(sgt);
}

static vm_fault_t vgpu_exported_fault(struct vm_fault *vmf)
{
	struct vgpu_exported *exported = vmf->vma->vm_private_data;

	if (vmf->pgoff >= exported->npages)
		return VM_FAULT_SIGBUS;
	return vmf_insert_pfn(vmf->vma, vmf->address & PAGE_MASK,
			      page_to_pfn(exported->pages[vmf->pgoff]));
}

static const struct vm_operations_struct vgpu_exported_vm_ops = {
	.fault = vgpu_exported_fault,
};

/*
 * Maps page frames: the pages are anonymous memory of a process, which must not be counted by a
 * second mapping. The mapping holds the file, and thereby the pages. The core has checked the
 * range.
 */
static int vgpu_exported_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	vgpu_vm_flags(vma, VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP, 0);
	vma->vm_private_data = dmabuf->priv;
	vma->vm_ops = &vgpu_exported_vm_ops;
	return 0;
}

static int vgpu_exported_vmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	struct vgpu_exported *exported = dmabuf->priv;
	void *p = vmap(exported->pages, exported->npages, VM_MAP, PAGE_KERNEL);

	if (!p)
		return -ENOMEM;
	iosys_map_set_vaddr(map, p);
	return 0;
}

static void vgpu_exported_vunmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	vunmap(map->vaddr);
}

static void vgpu_exported_free(struct vgpu_exported *exported)
{
	vgpu_region_put(exported->region);
	kvfree(exported->pages);
	kfree(exported);
}

static void vgpu_exported_release(struct dma_buf *dmabuf)
{
	vgpu_exported_free(dmabuf->priv);
}

/* The CPUs and devices are coherent (x86): begin and end of CPU access need no callback. */
static const struct dma_buf_ops vgpu_exported_ops = {
	.map_dma_buf = vgpu_exported_map,
	.unmap_dma_buf = vgpu_exported_unmap,
	.mmap = vgpu_exported_mmap,
	.vmap = vgpu_exported_vmap,
	.vunmap = vgpu_exported_vunmap,
	.release = vgpu_exported_release,
};

/* Collects the pages of a part of the region; both ends are inside the region. */
static void vgpu_export_pages(const struct vgpu_runs *runs, u64 first, u64 n, struct page **pages)
{
	u64 i, pos = 0, run_end;
	u32 r;

	for (r = 0; r < runs->n && n; r++, pos = run_end) {
		run_end = pos + runs->run[r].npages;
		for (i = max(first, pos); i < run_end && n; i++, n--)
			*pages++ = pfn_to_page(runs->run[r].pfn + i - pos);
		cond_resched();
	}
}

static struct dma_buf *vgpu_export_make(struct vgpu_region *region, u64 first, u64 npages)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct vgpu_exported *exported;
	struct dma_buf *dmabuf;

	if (npages > INT_MAX)
		return ERR_PTR(-EINVAL);
	exported = kzalloc(sizeof(*exported), GFP_KERNEL_ACCOUNT);
	if (!exported)
		return ERR_PTR(-ENOMEM);
	exported->pages = kvmalloc_array(npages, sizeof(*exported->pages), GFP_KERNEL_ACCOUNT);
	if (!exported->pages) {
		kfree(exported);
		return ERR_PTR(-ENOMEM);
	}
	vgpu_export_pages(&region->runs, first, npages, exported->pages);
	exported->npages = npages;
	exported->region = region;
	kref_get(&region->ref);

	info.ops = &vgpu_exported_ops;
	info.size = npages << PAGE_SHIFT;
	info.flags = O_RDWR;
	info.priv = exported;
	dmabuf = dma_buf_export(&info);
	if (IS_ERR(dmabuf))
		vgpu_exported_free(exported);
	return dmabuf;
}

/**
 * vgpu_export - VGPU_IOCTL_EXPORT
 * @client: the client, locked
 * @call: checked by vgpu_check_export(); fd and dmabuf are written. To be followed by
 *	vgpu_export_install() or vgpu_export_drop().
 *
 * Return: 0 or an error.
 */
int vgpu_export(struct vgpu_client *client, struct vgpu_export_call *call)
{
	struct vgpu_export *arg = &call->uapi;
	struct vgpu_region *region;
	int err, fd;

	lockdep_assert_held(&client->lock);
	err = vgpu_client_usable(client);
	if (err)
		return err;
	region = xa_load(&client->regions, arg->region);
	if (!region || region->stuck)
		return -ENOENT;
	if (region->attach)
		return -EOPNOTSUPP; /* the descriptor used for the import can be passed on */
	if (!region->dirty)
		return -EACCES;
	if (!vgpu_range_ok(arg->offset, arg->length, region->runs.npages << PAGE_SHIFT))
		return -EINVAL;
	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0)
		return fd;
	call->dmabuf = vgpu_export_make(region, arg->offset >> PAGE_SHIFT,
					arg->length >> PAGE_SHIFT);
	if (IS_ERR(call->dmabuf)) {
		put_unused_fd(fd);
		return PTR_ERR(call->dmabuf);
	}
	arg->fd = fd;
	return 0;
}

/**
 * vgpu_export_install - install the descriptor after its number was delivered to the caller
 * @call: of vgpu_export()
 */
void vgpu_export_install(struct vgpu_export_call *call)
{
	fd_install(call->uapi.fd, call->dmabuf->file);
}

/**
 * vgpu_export_drop - drop the dma-buf when the number could not be delivered to the caller
 * @call: of vgpu_export()
 */
void vgpu_export_drop(struct vgpu_export_call *call)
{
	put_unused_fd(call->uapi.fd);
	dma_buf_put(call->dmabuf);
}
