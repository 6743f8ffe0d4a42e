// SPDX-License-Identifier: GPL-2.0-only
/* Client slots and region ids: see vgpu_id.h. The caller provides the locking. */
#include <linux/errno.h>
#include <linux/minmax.h>

#include "vgpu_id.h"
#include "vgpu_fault.h"

/**
 * vgpu_ids_init - make all ids free
 * @ids: the set
 * @count: number of ids, at most VGPU_MAX_CLIENTS are used
 */
void vgpu_ids_init(struct vgpu_ids *ids, u32 count)
{
	bitmap_zero(ids->busy, VGPU_MAX_CLIENTS);
	ids->count = min_t(u32, count, VGPU_MAX_CLIENTS);
	ids->cursor = 0;
}

/**
 * vgpu_ids_alloc - take a free id
 * @ids: the set
 *
 * Return: the id, or -ENOSPC.
 */
int vgpu_ids_alloc(struct vgpu_ids *ids)
{
	unsigned long id = find_next_zero_bit(ids->busy, ids->count, ids->cursor);

	if (id >= ids->count)
		id = find_first_zero_bit(ids->busy, ids->count);
	if (id >= ids->count)
		return -ENOSPC;
	__set_bit(id, ids->busy);
	ids->cursor = id + 1 < ids->count ? id + 1 : 0;
	return id;
}

/**
 * vgpu_ids_free - release an id
 * @ids: the set
 * @id: return value of vgpu_ids_alloc(); ignored if not allocated
 */
void vgpu_ids_free(struct vgpu_ids *ids, u32 id)
{
	if (id < ids->count)
		__clear_bit(id, ids->busy);
}

/**
 * vgpu_region_id_alloc - store a region under a new id
 * @regions: the client's regions, initialised with XA_FLAGS_ALLOC1
 * @entry: the region
 * @next: cursor kept by the caller: ids are allocated in turn, so that a freed id is not reused at
 *	once
 * @id: out: never 0
 *
 * Return: 0, -ENOMEM, or -EBUSY when all ids are taken.
 */
int vgpu_region_id_alloc(struct xarray *regions, void *entry, u32 *next, u32 *id)
{
	int err = xa_alloc_cyclic(regions, id, entry, XA_LIMIT(1, U32_MAX), next, GFP_KERNEL);

	return err < 0 ? err : 0; /* 1: the counter wrapped */
}
