/* SPDX-License-Identifier: MIT */
/*
 * What a texture or surface handle stands for when a kernel uses it: the seam between the driver
 * half, which makes these (sg_texobj.c, sg_drv_texref.c), and the interpreter, which fetches through
 * them (sg_tex_fetch.c, sg_exec_ops_tex.c). Needs no cuda.h.
 */
#ifndef SG_TEX_H
#define SG_TEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SG_LEVELS_MAX 18 /* 1 + log2 of the largest extent, 131072 */

/* What the channels of an element are. */
enum sg_texel_kind { SG_TEXEL_UINT, SG_TEXEL_SINT, SG_TEXEL_HALF, SG_TEXEL_FLOAT };

/* CUaddress_mode has the same numbers. */
enum sg_address_mode { SG_WRAP, SG_CLAMP, SG_MIRROR, SG_BORDER };

struct sg_tex_level {
    uint64_t data; /* address of the first element */
    uint32_t width, height, depth; /* elements, rows, slices (layers, faces): each at least 1 */
    uint64_t pitch, slice;         /* bytes from row to row, slice to slice */
};

struct sg_texture {
    bool surface;  /* for suld and sust, not for tex */
    bool checked;  /* data are device addresses: each access is checked as a kernel's */
    bool buffer;   /* linear memory: elements out of bounds read as zero */
    enum sg_texel_kind kind;
    uint32_t bytes, channels; /* per channel: 1, 2, 4; 1, 2, 4 */
    uint32_t elem;            /* bytes per element */
    uint32_t dims;            /* 1, 2, 3: of one layer */
    bool layered, cube;       /* slices are layers, faces */
    bool as_float;   /* integers are read as [0, 1] or [-1, 1] */
    uint32_t nlevels;
    struct sg_tex_level level[SG_LEVELS_MAX];
    /* the sampler */
    enum sg_address_mode address[3];
    bool linear, mip_linear; /* filters */
    bool normalized;         /* coordinates are [0, 1) */
    bool srgb, seamless;
    float bias, min_lod, max_lod;
    float border[4];
};

/* A coordinate vector and what comes with it, as tex has them. */
struct sg_tex_at {
    uint32_t dims;       /* of the instruction: coordinates used, of a cube 3 */
    bool cube, layered;  /* of the instruction */
    bool integer;        /* i has the coordinates, else f */
    uint32_t layer;
    float f[3];
    int32_t i[3];
    int32_t offset[3];   /* added to the element's indices */
    bool grad;           /* dx, dy give the level of detail, else lod */
    float lod;
    float dx[3], dy[3];
};

/* One channel: an integer or the bits of a float. */
union sg_texel {
    uint32_t u;
    int32_t s;
    float f;
};

/*
 * Copies size bytes at a checked device address to buf; false: not accessible, and the fetch is
 * given up. Called for textures with `checked` only.
 */
typedef bool (*sg_tex_read_fn)(void *ctx, uint64_t addr, void *buf, uint32_t size);

/* Whether a fetch delivers floats (else integers). */
static inline bool sg_tex_is_float(const struct sg_texture *t)
{
    return t->kind >= SG_TEXEL_HALF || t->as_float;
}

/*
 * Fetches as CUDA C++ Programming Guide, "Texture Fetching", says. out: four channels; those that the
 * texture does not have are 0, 0, 1. False when read() said so.
 */
bool sg_tex_fetch(const struct sg_texture *t, const struct sg_tex_at *at, sg_tex_read_fn read,
                  void *ctx, union sg_texel out[4]);
/* The channel comp (0 to 3) of the four elements that linear filtering would use (tld4). */
bool sg_tex_gather(const struct sg_texture *t, const struct sg_tex_at *at, unsigned comp,
                   sg_tex_read_fn read, void *ctx, union sg_texel out[4]);

#endif
