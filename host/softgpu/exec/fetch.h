/* SPDX-License-Identifier: MIT */
/* Texture fetching. */
#ifndef SG_FETCH_H
#define SG_FETCH_H

#include "memory/texture.h"

/* The coordinates of a fetch and the modifiers of the tex instruction. */
struct sg_tex_at {
    uint32_t dims;      /* number of coordinates of the instruction; 3 for a cube */
    bool cube, layered; /* set by the instruction */
    bool integer;       /* the coordinates are in i, else in f */
    uint32_t layer;
    float f[3];
    int32_t i[3];
    int32_t offset[3]; /* added to the element indices */
    bool grad;         /* dx and dy determine the level of detail, else lod */
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
 * Copies size bytes from a checked device address to buf. False: not accessible, and the fetch is
 * abandoned. Called only for textures with `checked`.
 */
typedef bool (*sg_tex_read_fn)(void *ctx, uint64_t addr, void *buf, uint32_t size);

/*
 * Fetches as specified by CUDA C++ Programming Guide, "Texture Fetching". out: four channels;
 * channels missing in the texture are 0, 0, 1. Returns false if read() failed.
 */
bool sg_tex_fetch(const struct sg_texture *t, const struct sg_tex_at *at, sg_tex_read_fn read, void *ctx,
                  union sg_texel out[4]);
/* Channel comp (0 to 3) of the four elements that linear filtering would use (tld4). */
bool sg_tex_gather(const struct sg_texture *t, const struct sg_tex_at *at, unsigned comp, sg_tex_read_fn read,
                   void *ctx, union sg_texel out[4]);

#endif
