// SPDX-License-Identifier: GPL-2.0-only
/* Runs of physically contiguous pages: see vgpu_runs.h. The caller provides the locking. */
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/string.h>

#include "vgpu_runs.h"
#include "vgpu_fault.h"

/* First allocation: enough for a buffer on huge pages; 256 bytes. */
#define VGPU_RUNS_FIRST 16

static int vgpu_runs_grow(struct vgpu_runs *runs)
{
	u32 cap = runs->cap ? runs->cap * 2 : VGPU_RUNS_FIRST;
	struct vgpu_run *run;

	if (cap < runs->cap)
		return -ENOMEM;
	run = kvmalloc_array(cap, sizeof(*run), GFP_KERNEL_ACCOUNT);
	if (!run)
		return -ENOMEM;
	if (runs->n)
		memcpy(run, runs->run, array_size(runs->n, sizeof(*run)));
	kvfree(runs->run);
	runs->run = run;
	runs->cap = cap;
	return 0;
}

/**
 * vgpu_runs_add - append one page
 * @runs: the list, zeroed before the first call
 * @pfn: page frame of the page; extends the last run if adjacent to its end
 *
 * Return: 0 or -ENOMEM (the list is unchanged).
 */
int vgpu_runs_add(struct vgpu_runs *runs, u64 pfn)
{
	struct vgpu_run *last = runs->n ? &runs->run[runs->n - 1] : NULL;
	int err;

	if (last && last->pfn + last->npages == pfn) {
		last->npages++;
		runs->npages++;
		return 0;
	}
	if (runs->n == runs->cap) {
		err = vgpu_runs_grow(runs);
		if (err)
			return err;
	}
	runs->run[runs->n++] = (struct vgpu_run){ .pfn = pfn, .npages = 1 };
	runs->npages++;
	return 0;
}

/**
 * vgpu_runs_free - free the list of runs (the pages are released by the caller)
 * @runs: the list; empty afterwards
 */
void vgpu_runs_free(struct vgpu_runs *runs)
{
	kvfree(runs->run);
	memset(runs, 0, sizeof(*runs));
}

/**
 * vgpu_runs_slice - the next part of at most @max runs
 * @runs: the list
 * @max: runs in one request, not 0
 * @slice: in: the previous part (zeroed for the first call); out: the next part
 *
 * Return: false after the last part.
 */
bool vgpu_runs_slice(const struct vgpu_runs *runs, u32 max, struct vgpu_slice *slice)
{
	u32 i;

	slice->first += slice->n;
	slice->offset += slice->bytes;
	slice->bytes = 0;
	slice->n = min(max, runs->n - slice->first);
	for (i = 0; i < slice->n; i++)
		slice->bytes += runs->run[slice->first + i].npages << PAGE_SHIFT;
	slice->more = slice->first + slice->n < runs->n;
	return slice->n != 0;
}

/**
 * vgpu_runs_encode - encode a part of the list in the format of the device
 * @runs: the list
 * @slice: the part
 * @out: room for slice->n entries
 *
 * Addresses of pages are guest-physical: the device accesses guest memory without an IOMMU
 * (otherwise the driver does not offer PIN, see vgpu_validate()).
 */
void vgpu_runs_encode(const struct vgpu_runs *runs, const struct vgpu_slice *slice,
		      struct vgpu_pin_run *out)
{
	u32 i;

	for (i = 0; i < slice->n; i++) {
		const struct vgpu_run *run = &runs->run[slice->first + i];

		out[i].addr = cpu_to_le64(run->pfn << PAGE_SHIFT);
		out[i].len = cpu_to_le64(run->npages << PAGE_SHIFT);
	}
}
