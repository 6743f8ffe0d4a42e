/* SPDX-License-Identifier: MIT */
/*
 * CUDA arrays and mipmapped arrays. Their memory is not in the table of device memory: no device
 * address leads to it. It consists of consecutive rows and slices (or layers, or cube faces) and
 * lives as long as it is referenced by the handle, a copy, a node, a texture or a surface.
 */
#ifndef SG_ARRAY_H
#define SG_ARRAY_H

#include "base/base.h"
#include "memory/texture.h"

#define SG_ROW_ALIGN 16 /* bytes: as the widest access of a surface */

/* Memory of one array, or of all levels of a mipmapped one. */
struct sg_store {
    _Atomic uint32_t refs;
    int device;      /* whose quota it counts against */
    uint64_t charge; /* bytes of that */
    uint8_t *data;
};

struct sg_array {
    struct sg_obj obj;
    const void *ctx; /* compare only */
    int device;
    CUDA_ARRAY3D_DESCRIPTOR desc; /* as asked for; of a level: with the level's size */
    uint32_t elem;                /* bytes per element: 1, 2, 4, 8 or 16 */
    size_t width, height, depth;  /* elements, rows, slices: each at least 1 */
    size_t row;                   /* bytes of a row's elements */
    size_t pitch, slice;          /* bytes from row to row, slice to slice: multiples of SG_ROW_ALIGN */
    struct sg_store *store;       /* a reference */
    uint8_t *data;                /* first element, in store */
    bool is_level;                /* of a mipmapped array: not destroyed by itself */
};

struct sg_mipmap {
    struct sg_obj obj;
    const void *ctx; /* compare only */
    int device;
    CUDA_ARRAY3D_DESCRIPTOR desc;
    unsigned nlevels;
    struct sg_array *level[SG_LEVELS_MAX]; /* each a reference */
};

/* The parts of a format's elements. */
struct sg_format {
    enum sg_texel_kind kind;
    unsigned bytes;    /* per channel: 1, 2 or 4 */
    unsigned channels; /* of formats that say it, else 0 */
    bool normalized;   /* always read as [0, 1] or [-1, 1] */
};
/* 0, 1 (no such format) or 801 with a detail line (block compressed, planar, packed). */
CUresult sg_format_get(CUarray_format format, struct sg_format *out);
/* Bytes of an element of that format; 1 when the number of channels does not fit. */
CUresult sg_format_element(CUarray_format format, unsigned channels, uint32_t *bytes);

/* Checks the descriptor (1, 801), takes memory (2) and makes the object, registered. */
CUresult sg_array_new(struct sg_ctx *ctx, const CUDA_ARRAY3D_DESCRIPTOR *desc, struct sg_array **out);
CUresult sg_mipmap_new(struct sg_ctx *ctx, const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels,
                       struct sg_mipmap **out);

#endif
