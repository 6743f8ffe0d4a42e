/* SPDX-License-Identifier: GPL-2.0-only */
/* Runs of physically contiguous pages: how pinned memory is stored and sent. Pure. */
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
 * struct vgpu_runs - a list of runs that grows
 * @run: @n valid entries, @cap allocated
 * @n: number of runs
 * @cap: room
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
 * @offset: bytes before it
 * @bytes: bytes in it
 * @more: further runs follow
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
