/* SPDX-License-Identifier: MIT */
/*
 * The texture or surface behind a handle, as a kernel uses it: the interface between the driver
 * half, which creates these objects (module/sg_texture_object.c, api/code/sgd_texture_reference.c), and
 * the interpreter, which fetches through them (exec/sg_fetch.c, exec/ops/sg_op_texture.c). Does not need
 * cuda.h.
 */
#ifndef SG_TEX_H
#define SG_TEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SG_LEVELS_MAX 18 /* 1 + log2 of the largest extent, 131072 */

/* Channel type of an element. */
enum sg_texel_kind { SG_TEXEL_UINT, SG_TEXEL_SINT, SG_TEXEL_HALF, SG_TEXEL_FLOAT };

/* Numbered as CUaddress_mode. */
enum sg_address_mode { SG_WRAP, SG_CLAMP, SG_MIRROR, SG_BORDER };

struct sg_tex_level {
    uint64_t data;                 /* address of the first element */
    uint32_t width, height, depth; /* elements, rows, slices (layers, faces): each at least 1 */
    uint64_t pitch, slice;         /* bytes between rows and between slices */
};

struct sg_texture {
    bool surface; /* for suld and sust, not for tex */
    bool checked; /* `data` holds device addresses: each access is checked like a kernel's */
    bool buffer;  /* linear memory: elements out of bounds read as zero */
    enum sg_texel_kind kind;
    uint32_t bytes, channels; /* bytes per channel: 1, 2, 4; number of channels: 1, 2, 4 */
    uint32_t elem;            /* bytes per element */
    uint32_t dims;            /* 1, 2, 3; of a single layer */
    bool layered, cube;       /* slices are layers; slices are cube faces */
    bool as_float;            /* integers are normalized to [0, 1] or [-1, 1] */
    uint32_t nlevels;
    struct sg_tex_level level[SG_LEVELS_MAX];
    /* the sampler */
    enum sg_address_mode address[3];
    bool linear, mip_linear; /* filters */
    bool normalized;         /* coordinates range over [0, 1) */
    bool srgb, seamless;
    float bias, min_lod, max_lod;
    float border[4];
};

/* True if a fetch returns floats, false if integers. */
static inline bool sg_tex_is_float(const struct sg_texture *t)
{
    return t->kind >= SG_TEXEL_HALF || t->as_float;
}

#endif
