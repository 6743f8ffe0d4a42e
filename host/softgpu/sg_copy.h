/* SPDX-License-Identifier: MIT */
/* Copies: what sg_drv_memcpy.c (one row, and the work itself) shares with sg_drv_memcpy3d.c. */
#ifndef SG_COPY_H
#define SG_COPY_H

#include "sg_array.h"
#include "sg_graph.h"

struct sg_copy {
    uint8_t *dst;
    const uint8_t *src;
    size_t width, height, depth;   /* bytes, rows, slices */
    size_t dst_pitch, dst_slice;   /* bytes from row to row, slice to slice */
    size_t src_pitch, src_slice;
    struct sg_array *dst_array, *src_array; /* where dst and src lie in one; see sg_copy_new() */
    uint8_t dst_on, src_on; /* 1 + the device that reaches them; 0: that of the copy's stream */
};

struct sg_copy_op {
    struct sg_op op;
    struct sg_copy c;
    void *staged;
    size_t staged_bytes;
};

enum sg_place { SG_PLACE_HOST, SG_PLACE_DEVICE, SG_PLACE_ANY };

/* From here on it is worth asking the kernel whether there is memory of the host. */
#define SG_ASK_ABOVE (64u << 20)
#define PTR(p) ((uint64_t)(uintptr_t)(p))

/* Whether [addr, addr+span) may be used so; says whether it is pageable host memory. */
CUresult sg_copy_check(enum sg_place place, uint64_t addr, uint64_t span, bool write,
                       bool *pageable);
/* An operation with references of its own to the arrays of c; NULL: no memory. */
struct sg_copy_op *sg_copy_new(const struct sg_copy *c);
CUresult sg_copy_issue(struct sg_ctx *ctx, CUstream stream, const struct sg_copy *c, bool async,
                       bool src_pageable, bool dst_pageable);
/* Drops c's references to arrays. */
void sg_copy_done(struct sg_copy *c);

#endif
