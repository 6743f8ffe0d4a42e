/* SPDX-License-Identifier: MIT */
/* Copies and memset. */
#ifndef SG_COPY_H
#define SG_COPY_H

#include "runtime/runtime.h"

struct sg_copy {
    uint8_t *dst;
    const uint8_t *src;
    size_t width, height, depth; /* bytes, rows, slices */
    size_t dst_pitch, dst_slice; /* bytes from row to row, slice to slice */
    size_t src_pitch, src_slice;
    SG_COUNTED struct sg_array *dst_array, *src_array; /* where dst and src lie in one; see sg_copy_new() */
    uint8_t dst_on, src_on;          /* 1 + the device that reaches them; 0: that of the copy's stream */
    bool dst_pageable, src_pageable; /* the caller's own memory, of which nothing is known here */
    bool past;                       /* linear: stored past the caches */
    uint64_t generation; /* sg_mem_generation from before both sides were found; 0: they must be looked up */
};

struct sg_copy_op {
    struct sg_op op;
    struct sg_copy c;
    void *staged;
    size_t staged_bytes;
};

enum sg_place { SG_PLACE_HOST, SG_PLACE_DEVICE, SG_PLACE_ANY };

/* Up to here the caller does the work itself when nothing is in its way: it is cheaper than
 * waking a thread (memmove moves that much in some 100 us). */
#define SG_INLINE_BYTES (1u << 20)
/* From here on it is worth asking the kernel whether there is memory of the host. */
#define SG_ASK_ABOVE (64u << 20)
#define PTR(p) ((uint64_t)(uintptr_t)(p))

/* Whether [addr, addr+span) may be used so; says whether it is pageable host memory. */
CUresult sg_copy_check(enum sg_place place, uint64_t addr, uint64_t span, bool write, bool *pageable);
/* An operation with references of its own to the arrays of c; NULL: no memory. */
struct sg_copy_op *sg_copy_new(const struct sg_copy *c);
CUresult sg_copy_issue(struct sg_ctx *ctx, CUstream stream, const struct sg_copy *c, bool async,
                       bool src_pageable, bool dst_pageable);
/* Whether linear copies that this thread issues are stored past the caches. */
void sg_copy_past_caches(bool past);
/* Drops c's references to arrays. */
void sg_copy_done(struct sg_copy *c);

/* One side of a copy of rows and slices. */
struct sg_copy_side {
    CUmemorytype type;
    uint64_t base;
    size_t x, y, z, pitch, rows;      /* pitch and rows: 0 means as many as are copied */
    SG_LENT const struct sg_ctx *ctx; /* of a copy between contexts; else NULL */
};

/* What locates a side of that memory type: an address, or the handle of an array. */
#define SG_COPY_BASE(p, side) \
    ((p)->side##MemoryType == CU_MEMORYTYPE_HOST    ? PTR((p)->side##Host) \
     : (p)->side##MemoryType == CU_MEMORYTYPE_ARRAY ? PTR((p)->side##Array) \
                                                    : (p)->side##Device)
/* Which bytes a copy of w bytes, h rows and d slices is of. On success c has references to arrays, which
 * sg_copy_done() drops. */
CUresult sg_copy_resolve(struct sg_copy_side *dst, struct sg_copy_side *src, size_t w, size_t h, size_t d,
                         struct sg_copy *c, bool *src_pageable, bool *dst_pageable);
/* The sides of a copy as cuMemcpy3D has them. */
void sg_copy_sides(const CUDA_MEMCPY3D *p, struct sg_copy_side *dst, struct sg_copy_side *src);
/* The operation of a copy node, and the parameters of one that was captured. */
CUresult sg_copy_op(const CUDA_MEMCPY3D *p, struct sg_op **out);
void sg_copy_describe(struct sg_op *op, CUDA_MEMCPY3D *p);

/* ---- memset ---- */

CUresult sg_set_issue(struct sg_ctx *ctx, CUstream stream, const CUDA_MEMSET_NODE_PARAMS *p, bool async);
/* The operation of a memset node, and the parameters of one that was captured. */
CUresult sg_set_op(const CUDA_MEMSET_NODE_PARAMS *p, struct sg_op **out);
void sg_set_describe(struct sg_op *op, CUDA_MEMSET_NODE_PARAMS *p);

#endif
