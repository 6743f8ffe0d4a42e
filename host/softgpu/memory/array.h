/* SPDX-License-Identifier: MIT */
/*
 * CUDA arrays and mipmapped arrays. Their memory is not in the table of device memory: no device
 * address leads to it. It consists of consecutive rows and slices (or layers, or cube faces) and
 * lives as long as a handle, copy, node, texture or surface references it.
 */
#ifndef SG_ARRAY_H
#define SG_ARRAY_H

#include "base/base.h"
#include "memory/texture.h"

#define SG_ROW_ALIGN 16 /* bytes: the widest access of a surface */

/* Memory of an array, or of all levels of a mipmapped array. */
struct sg_store {
    _Atomic uint32_t refs;
    int device;      /* device whose quota is charged */
    uint64_t charge; /* bytes charged */
    uint8_t *data;
};

struct sg_array {
    struct sg_obj obj;
    const void *ctx; /* owning context; compare only */
    int device;
    CUDA_ARRAY3D_DESCRIPTOR desc; /* as requested; for a level: with the level's size */
    uint32_t elem;                /* bytes per element: 1, 2, 4, 8 or 16 */
    size_t width, height, depth;  /* elements, rows, slices: each at least 1 */
    size_t row;                   /* bytes of the elements of a row */
    /* bytes between rows and between slices; multiples of SG_ROW_ALIGN */
    size_t pitch, slice;
    struct sg_store *store; /* a reference */
    uint8_t *data;          /* first element, in store */
    bool is_level;          /* level of a mipmapped array: not destroyed on its own */
};

struct sg_mipmap {
    struct sg_obj obj;
    const void *ctx; /* owning context; compare only */
    int device;
    CUDA_ARRAY3D_DESCRIPTOR desc;
    unsigned nlevels;
    struct sg_array *level[SG_LEVELS_MAX]; /* each a reference */
};

/* Layout of a format's elements. */
struct sg_format {
    enum sg_texel_kind kind;
    unsigned bytes;    /* per channel: 1, 2 or 4 */
    unsigned channels; /* number of channels if the format implies it, else 0 */
    bool normalized;   /* always read as [0, 1] or [-1, 1] */
};
/* 0, 1 (no such format) or 801 with a detail line (block compressed, planar, packed). */
CUresult sg_format_get(CUarray_format format, struct sg_format *out);
/* Size of an element of that format, in bytes; 1 if the number of channels does not fit. */
CUresult sg_format_element(CUarray_format format, unsigned channels, uint32_t *bytes);

/* Checks the descriptor (1, 801), allocates memory (2), creates and registers the object. */
CUresult sg_array_new(struct sg_ctx *ctx, const CUDA_ARRAY3D_DESCRIPTOR *desc, struct sg_array **out);
CUresult sg_mipmap_new(struct sg_ctx *ctx, const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels,
                       struct sg_mipmap **out);

#endif
