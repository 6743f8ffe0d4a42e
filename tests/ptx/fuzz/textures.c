/* SPDX-License-Identifier: MIT */
/*
 * Textures and surfaces for fuzz_exec: one of each shape. Accesses to an array do not query its memory, so
 * its elements end exactly where AddressSanitizer's guard begins.
 */
#include "device.h"

#include <stdlib.h>
#include <string.h>

struct shape {
    enum sg_texel_kind kind;
    uint8_t bytes, channels, dims, w, h, d, nlevels;
    bool layered, cube, as_float;
    enum sg_address_mode mode;
    bool linear, normalized;
};

static const struct shape shapes[] = {
    {SG_TEXEL_FLOAT, 4, 1, 1, 7, 1, 1, 1, false, false, false, SG_CLAMP, true, false},
    {SG_TEXEL_FLOAT, 4, 4, 2, 5, 3, 1, 1, false, false, false, SG_WRAP, true, true},
    {SG_TEXEL_UINT, 1, 4, 2, 6, 6, 1, 3, false, false, true, SG_MIRROR, true, true},
    {SG_TEXEL_SINT, 2, 2, 3, 3, 5, 4, 3, false, false, false, SG_BORDER, false, true},
    {SG_TEXEL_HALF, 2, 4, 2, 4, 4, 6, 1, false, true, false, SG_CLAMP, true, true},
    {SG_TEXEL_UINT, 4, 2, 2, 4, 2, 3, 1, true, false, false, SG_BORDER, false, false},
    {SG_TEXEL_HALF, 2, 1, 1, 9, 1, 2, 1, true, false, false, SG_WRAP, true, true},
    {SG_TEXEL_SINT, 1, 1, 2, 2, 2, 12, 2, true, true, true, SG_CLAMP, true, true},
    {SG_TEXEL_UINT, 4, 1, 1, 64, 1, 1, 1, false, false, false, SG_CLAMP, false, false}, /* see below */
};
#define N (sizeof(shapes) / sizeof(shapes[0]))
#define BUFFER (N - 1) /* linear memory: half of it lies behind the allocation's end */

static struct sg_texture all[2][N]; /* textures, surfaces */
static size_t sizes[N][SG_LEVELS_MAX];

static void level(struct sg_texture *t, const struct shape *s, uint32_t k, size_t *size)
{
    struct sg_tex_level *l = &t->level[k];

    l->width = s->w >> k ? (uint32_t)s->w >> k : 1;
    l->height = s->h >> k ? (uint32_t)s->h >> k : 1;
    l->depth = s->layered || s->cube ? s->d : s->d >> k ? (uint32_t)s->d >> k : 1;
    l->pitch = (uint64_t)l->width * t->elem;
    l->slice = l->pitch * l->height;
    *size = l->slice * l->depth;
    if (t->checked)
        return;
    l->data = (uintptr_t)malloc(*size);
    if (!l->data)
        abort();
}

static void make(size_t i)
{
    const struct shape *s = &shapes[i];
    struct sg_texture *t = &all[0][i];

    *t = (struct sg_texture){.kind = s->kind,
                             .bytes = s->bytes,
                             .channels = s->channels,
                             .elem = (uint32_t)s->bytes * s->channels,
                             .dims = s->dims,
                             .layered = s->layered,
                             .cube = s->cube,
                             .as_float = s->as_float,
                             .nlevels = s->nlevels,
                             .address = {s->mode, s->mode, s->mode},
                             .linear = s->linear,
                             .mip_linear = s->nlevels > 1,
                             .normalized = s->normalized,
                             .max_lod = 9,
                             .border = {1, 2, 3, 4},
                             .checked = i == BUFFER,
                             .buffer = i == BUFFER};
    for (uint32_t k = 0; k < s->nlevels; k++)
        level(t, s, k, &sizes[i][k]);
    all[1][i] = *t;
    all[1][i].surface = true;
    all[1][i].nlevels = 1;
}

void fz_textures(uint64_t buffer, size_t bytes)
{
    if (!all[0][0].nlevels)
        for (size_t i = 0; i < N; i++)
            make(i);
    for (size_t i = 0; i < N; i++)
        for (uint32_t k = 0; k < shapes[i].nlevels; k++)
            if (i != BUFFER)
                memset((void *)(uintptr_t)all[0][i].level[k].data, (int)(0x31 * (i + k)), sizes[i][k]);
    all[0][BUFFER].level[0].data = buffer + bytes - sizes[BUFFER][0] / 2;
}

const struct sg_texture *fz_texture(void *textures, uint64_t handle, bool surface)
{
    const uint64_t i = handle & 15;

    (void)textures;
    return i >= N || (surface && i == BUFFER) ? NULL : &all[surface][i];
}
