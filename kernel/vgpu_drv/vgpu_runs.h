/* SPDX-License-Identifier: GPL-2.0-only */
/* Runs of physically contiguous pages, for storing and sending pinned memory. Pure. */
#ifndef VGPU_RUNS_H
#define VGPU_RUNS_H

#include <linux/types.h>

#include "uapi/vgpu_device.h"

/**
 * struct vgpu_run - contiguous pages
 * @pfn: first page frame
 * @npages: not 0
 */
struct vgpu_run {
	u64 pfn;
	u64 npages;
};

/**
 * struct vgpu_runs - a growing list of runs
 * @run: @n valid entries, @cap allocated
 * @n: number of runs
 * @cap: number of runs allocated
 * @npages: pages in all runs
 */
struct vgpu_runs {
	struct vgpu_run *run;
	u32 n;
	u32 cap;
	u64 npages;
};

/**
 * struct vgpu_slice - the part of a list that goes into one PIN request
 * @first: index of its first run
 * @n: number of runs
 * @offset: of the part in the region, bytes
 * @bytes: length of the part
 * @more: further parts follow
 */
struct vgpu_slice {
	u32 first;
	u32 n;
	u64 offset;
	u64 bytes;
	bool more;
};

int vgpu_runs_add(struct vgpu_runs *runs, u64 pfn);
void vgpu_runs_free(struct vgpu_runs *runs);
bool vgpu_runs_slice(const struct vgpu_runs *runs, u32 max, struct vgpu_slice *slice);
void vgpu_runs_encode(const struct vgpu_runs *runs, const struct vgpu_slice *slice,
		      struct vgpu_pin_run *out);

#endif
