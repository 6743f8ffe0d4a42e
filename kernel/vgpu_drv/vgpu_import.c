// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: import
 *
 * A region with the pages of a dma-buf of another driver (vgem, udmabuf, virtio-gpu), or of this
 * driver. The driver attaches to the dma-buf with the device that will use the memory. Mappings of
 * most exporters hold page frames without pages (VM_PFNMAP), so PIN of such a mapping would be
 * refused.
 *
 * The worker gets guest-physical addresses. The DMA API returns these for a device without an IOMMU
 * in front of it and without bounce buffers; any other address is refused, and so is memory that is
 * not RAM of the guest: the memory of another device lies behind addresses that the host cannot map
 * into a worker.
 */
#include <linux/device.h>
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/file.h>
#include <linux/iommu.h>
#include <linux/mm.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "vgpu_compat.h"
#include "vgpu.h"

static enum dma_data_direction vgpu_import_direction(const struct vgpu_region *region)
{
	return region->dirty ? DMA_BIDIRECTIONAL : DMA_TO_DEVICE;
}

static bool vgpu_is_ram(u64 pfn)
{
	return pfn_valid(pfn) && !PageReserved(pfn_to_page(pfn)) &&
	       !is_zone_device_page(pfn_to_page(pfn));
}

/*
 * Adds the pages of a segment that lie in [@first, @last) of the dma-buf; the segment begins at
 * @pos.
 */
static int vgpu_import_segment(struct vgpu_region *region, struct device *dev, dma_addr_t addr,
			       u64 pos, u64 npages, u64 first, u64 last)
{
	u64 i, pfn = PHYS_PFN(addr);
	int err;

	for (i = max(first, pos); i < min(last, pos + npages); i++) {
		if (!vgpu_is_ram(pfn + i - pos) ||
		    dma_need_sync(dev, addr + ((i - pos) << PAGE_SHIFT)))
			return -EOPNOTSUPP;
		err = vgpu_runs_add(&region->runs, pfn + i - pos);
		if (err)
			return err;
	}
	return 0;
}

static int vgpu_import_pages(struct vgpu_region *region, u64 first, u64 last)
{
	struct device *dev = region->attach->dev;
	struct scatterlist *sg;
	u64 pos = 0;
	int i, err;

	for_each_sgtable_dma_sg(region->sgt, sg, i) {
		if (!PAGE_ALIGNED(sg_dma_address(sg)) || !PAGE_ALIGNED(sg_dma_len(sg)))
			return -EOPNOTSUPP;
		err = vgpu_import_segment(region, dev, sg_dma_address(sg), pos,
					  sg_dma_len(sg) >> PAGE_SHIFT, first, last);
		if (err)
			return err;
		pos += sg_dma_len(sg) >> PAGE_SHIFT;
		cond_resched();
	}
	/* The exporter has mapped less than the dma-buf's size. */
	return pos < last ? -EOPNOTSUPP : 0;
}

/* Maps the error of an exporter that refuses this device, which is not a fixed number. */
static int vgpu_import_errno(long err)
{
	return err == -ENOMEM || err == -EINTR ? err : -EOPNOTSUPP;
}

/* On failure @region->attach is NULL, and the caller keeps its reference of @dmabuf. */
static int vgpu_import_attach(struct vgpu_client *client, struct vgpu_region *region,
			      struct dma_buf *dmabuf)
{
	struct device *dev = client->dev->dma_dev;
	struct dma_buf_attachment *attach;

	if (device_iommu_mapped(dev))
		return -EOPNOTSUPP;
	attach = dma_buf_attach(dmabuf, dev);
	if (IS_ERR(attach))
		return vgpu_import_errno(PTR_ERR(attach));
	region->sgt = vgpu_attachment_map(attach, vgpu_import_direction(region));
	if (IS_ERR_OR_NULL(region->sgt)) {
		int err = region->sgt ? vgpu_import_errno(PTR_ERR(region->sgt)) : -EOPNOTSUPP;

		dma_buf_detach(dmabuf, attach);
		return err;
	}
	region->attach = attach;
	return 0;
}

/**
 * vgpu_import_release - detach the dma-buf of an imported region
 * @region: the region, no longer mapped by the worker and not held by a dma-buf, so its client and
 *	the device still exist
 */
void vgpu_import_release(struct vgpu_region *region)
{
	struct dma_buf *dmabuf = region->attach->dmabuf;

	vgpu_attachment_unmap(region->attach, region->sgt, vgpu_import_direction(region));
	dma_buf_detach(dmabuf, region->attach);
	dma_buf_put(dmabuf);
}

static int vgpu_import_check_file(const struct dma_buf *dmabuf, const struct vgpu_import *arg)
{
	fmode_t mode = dmabuf->file->f_mode;

	if (!(mode & FMODE_READ))
		return -EACCES;
	if (!(arg->flags & VGPU_PIN_FLAG_READONLY) && !(mode & FMODE_WRITE))
		return -EACCES;
	return vgpu_range_ok(arg->offset, arg->length, dmabuf->size) ? 0 : -EINVAL;
}

/**
 * vgpu_import_dmabuf - the part of vgpu_import() after the look-up of the dma-buf
 * @client: the client, locked, allowed to have one more region
 * @arg: as for vgpu_import(); the descriptor is ignored
 * @dmabuf: the dma-buf; the caller keeps its reference
 */
int vgpu_import_dmabuf(struct vgpu_client *client, struct vgpu_import *arg, struct dma_buf *dmabuf)
{
	struct vgpu_pin pin = { .addr = arg->addr, .length = arg->length, .flags = arg->flags };
	u64 first = arg->offset >> PAGE_SHIFT, npages = arg->length >> PAGE_SHIFT;
	struct vgpu_region *region;
	int err = vgpu_import_check_file(dmabuf, arg);

	if (err)
		return err;
	region = vgpu_region_new(client, npages, arg->flags);
	if (IS_ERR(region))
		return PTR_ERR(region);
	err = vgpu_import_attach(client, region, dmabuf);
	if (err)
		goto put;
	get_dma_buf(dmabuf); /* reference of the region */
	err = vgpu_import_pages(region, first, first + npages);
	if (!err)
		err = vgpu_region_enter(client, region, &pin);
	if (err)
		goto put;
	arg->region = pin.region;
	arg->worker_va = pin.worker_va;
	return 0;
put:
	vgpu_region_put(region);
	return err;
}

/**
 * vgpu_import - VGPU_IOCTL_IMPORT
 * @client: the client, locked
 * @arg: checked by vgpu_check_import(); region and worker_va are written
 *
 * Return: 0 or an error; then nothing stays imported, except memory that the device may still
 * access.
 */
int vgpu_import(struct vgpu_client *client, struct vgpu_import *arg)
{
	struct dma_buf *dmabuf;
	int err = vgpu_pin_allowed(client, arg->addr, arg->length);

	if (err)
		return err;
	dmabuf = dma_buf_get(arg->fd);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	err = vgpu_import_dmabuf(client, arg, dmabuf);
	dma_buf_put(dmabuf);
	return err;
}
