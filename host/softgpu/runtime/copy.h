/* SPDX-License-Identifier: MIT */
/* Copies and memset. */
#ifndef SG_COPY_H
#define SG_COPY_H

#include "runtime/runtime.h"

struct sg_copy {
    uint8_t *dst;
    const uint8_t *src;
    size_t width, height, depth; /* bytes, rows, slices */
    size_t dst_pitch, dst_slice; /* bytes between rows and between slices */
    size_t src_pitch, src_slice;
    /* set where dst or src lies in an array; see sg_copy_new() */
    SG_COUNTED struct sg_array *dst_array, *src_array;
    /* 1 + device that accesses each side; 0: the device of the copy's stream */
    uint8_t dst_on, src_on;
    bool dst_pageable, src_pageable; /* memory of the caller, unknown to the memory table */
    bool past;                       /* linear copy: stored past the caches */
    /* sg_mem_generation read before both sides were looked up; 0: look them up again */
    uint64_t generation;
};

struct sg_copy_op {
    struct sg_op op;
    struct sg_copy c;
    void *staged;
    size_t staged_bytes;
};

enum sg_place { SG_PLACE_HOST, SG_PLACE_DEVICE, SG_PLACE_ANY };

/* Up to this size the caller copies in its own thread if no work is pending: that is cheaper
   than waking a thread (memmove moves this much in some 100 us). */
#define SG_INLINE_BYTES (1u << 20)
/* From this size on it is worth asking the kernel whether the host memory is mapped. */
#define SG_ASK_ABOVE (64u << 20)
#define PTR(p) ((uint64_t)(uintptr_t)(p))

/* Checks that [addr, addr+span) may be used this way, and whether it is pageable host memory. */
CUresult sg_copy_check(enum sg_place place, uint64_t addr, uint64_t span, bool write, bool *pageable);
/* An operation that holds its own references to the arrays of c. NULL: out of memory. */
struct sg_copy_op *sg_copy_new(const struct sg_copy *c);
CUresult sg_copy_issue(struct sg_ctx *ctx, CUstream stream, const struct sg_copy *c, bool async,
                       bool src_pageable, bool dst_pageable);
/* Selects whether linear copies issued by this thread are stored past the caches. */
void sg_copy_past_caches(bool past);
/* Drops c's references to arrays. */
void sg_copy_done(struct sg_copy *c);

/* One side of a copy of rows and slices. */
struct sg_copy_side {
    CUmemorytype type;
    uint64_t base;
    size_t x, y, z, pitch, rows;      /* pitch and rows: 0 means the copied width and height */
    SG_LENT const struct sg_ctx *ctx; /* set for copies between contexts, else NULL */
};

/* Location of a side, by memory type: an address, or the handle of an array. */
#define SG_COPY_BASE(p, side) \
    ((p)->side##MemoryType == CU_MEMORYTYPE_HOST    ? PTR((p)->side##Host) \
     : (p)->side##MemoryType == CU_MEMORYTYPE_ARRAY ? PTR((p)->side##Array) \
                                                    : (p)->side##Device)
/* Computes the bytes covered by a copy of w bytes, h rows and d slices. On success c holds
   references to arrays, which sg_copy_done() drops. */
CUresult sg_copy_resolve(struct sg_copy_side *dst, struct sg_copy_side *src, size_t w, size_t h, size_t d,
                         struct sg_copy *c, bool *src_pageable, bool *dst_pageable);
/* The two sides of a cuMemcpy3D copy. */
void sg_copy_sides(const CUDA_MEMCPY3D *p, struct sg_copy_side *dst, struct sg_copy_side *src);
/* The operation of a copy node; the parameters of a captured copy. */
CUresult sg_copy_op(const CUDA_MEMCPY3D *p, struct sg_op **out);
void sg_copy_describe(struct sg_op *op, CUDA_MEMCPY3D *p);

/* ---- memset ---- */

CUresult sg_set_issue(struct sg_ctx *ctx, CUstream stream, const CUDA_MEMSET_NODE_PARAMS *p, bool async);
/* The operation of a memset node; the parameters of a captured memset. */
CUresult sg_set_op(const CUDA_MEMSET_NODE_PARAMS *p, struct sg_op **out);
void sg_set_describe(struct sg_op *op, CUDA_MEMSET_NODE_PARAMS *p);

#endif
