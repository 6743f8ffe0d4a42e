/* SPDX-License-Identifier: MIT */
/* Texture fetching. */
#ifndef SG_FETCH_H
#define SG_FETCH_H

#include "memory/texture.h"

/* A coordinate vector and what comes with it, as tex has them. */
struct sg_tex_at {
    uint32_t dims;      /* of the instruction: coordinates used, of a cube 3 */
    bool cube, layered; /* of the instruction */
    bool integer;       /* i has the coordinates, else f */
    uint32_t layer;
    float f[3];
    int32_t i[3];
    int32_t offset[3]; /* added to the element's indices */
    bool grad;         /* dx, dy give the level of detail, else lod */
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

/*
 * Fetches as CUDA C++ Programming Guide, "Texture Fetching", says. out: four channels; those that the
 * texture does not have are 0, 0, 1. False when read() said so.
 */
bool sg_tex_fetch(const struct sg_texture *t, const struct sg_tex_at *at, sg_tex_read_fn read, void *ctx,
                  union sg_texel out[4]);
/* The channel comp (0 to 3) of the four elements that linear filtering would use (tld4). */
bool sg_tex_gather(const struct sg_texture *t, const struct sg_tex_at *at, unsigned comp, sg_tex_read_fn read,
                   void *ctx, union sg_texel out[4]);

#endif
