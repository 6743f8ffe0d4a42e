/* SPDX-License-Identifier: GPL-2.0-only */
/* Allocator of small numbers: client slots and region ids. Pure. */
#ifndef VGPU_ID_H
#define VGPU_ID_H

#include <linux/bitmap.h>
#include <linux/xarray.h>

#include "uapi/vgpu_device.h"

/**
 * struct vgpu_ids - a set of ids 0..@count-1
 * @busy: bit set: in use
 * @count: 1..VGPU_MAX_CLIENTS
 * @cursor: start of the next search: a freed id is reused last, so that a late message about its
 *	former owner does not reach the next
 */
struct vgpu_ids {
	DECLARE_BITMAP(busy, VGPU_MAX_CLIENTS);
	u32 count;
	u32 cursor;
};

void vgpu_ids_init(struct vgpu_ids *ids, u32 count);
int vgpu_ids_alloc(struct vgpu_ids *ids);
void vgpu_ids_free(struct vgpu_ids *ids, u32 id);
int vgpu_region_id_alloc(struct xarray *regions, void *entry, u32 *next, u32 *id);

#endif
