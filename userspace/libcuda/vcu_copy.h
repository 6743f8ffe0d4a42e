/* SPDX-License-Identifier: MIT */
/* One normal form for every copy: up to three dimensions, host or device on either side. */
#ifndef VCU_COPY_H
#define VCU_COPY_H

#include "vcu_memory.h"

struct vcu_copy_end {
    bool device;
    uint64_t addr;   /* of the first byte that is copied */
    uint64_t pitch;  /* bytes from row to row */
    uint64_t height; /* rows from plane to plane */
};

struct vcu_copy {
    struct vcu_copy_end dst, src;
    uint64_t width;         /* bytes */
    uint64_t height, depth; /* rows, planes */
    CUstream stream;
    bool async;
};

/* Linear copy of n bytes. */
CUresult vcu_copy_linear(const char *call, bool dst_device, uint64_t dst, bool src_device,
                         uint64_t src, uint64_t n, CUstream stream, bool async);
/* Checks and runs a copy; context and stream are checked here. */
CUresult vcu_copy_run(const char *call, struct vcu_copy *c);
/* Pure part, for the test: merges rows and planes that follow each other without a gap. */
void vcu_copy_simplify(struct vcu_copy *c);

#endif
