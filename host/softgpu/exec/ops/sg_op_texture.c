/* SPDX-License-Identifier: MIT */
/* Handlers: texture fetches and queries (PTX ISA 9.7.10); exec/sg_fetch.c does the fetching. */
#include "exec/ops/texture.h"
#include "base/half.h"

#include <stdio.h>

#define EACH SG_EACH_LANE

/* ---- handles ---- */

const struct sg_texture *sg_tex_peek(struct sg_warp *w, u64 handle, bool surface)
{
    struct sg_cta *c = w->cta;
    struct sg_tex_cached *e = &c->tex_cache[(handle >> 4 ^ handle >> 28) & (SG_TEX_CACHE - 1)];
    const struct sg_texture *t;

    if (e->t && e->handle == handle && e->surface == surface)
        return e->t;
    t = c->launch->texture ? c->launch->texture(c->launch->textures, handle, surface) : NULL;
    if (t)
        *e = (struct sg_tex_cached){handle, surface, t};
    return t;
}

const struct sg_texture *sg_tex_of(struct sg_warp *w, const struct sg_insn *in, u32 lane, u64 handle,
                                   bool surface)
{
    const struct sg_texture *t = sg_tex_peek(w, handle, surface);
    char text[80];

    if (t && !t->nlevels) /* a sampler alone */
        t = NULL;
    if (!t) {
        snprintf(text, sizeof(text), "0x%llx is no %s", (unsigned long long)handle,
                 surface ? "surface" : "texture");
        sg_fault_set(w, in, lane, SG_ERR_ADDRESS, text);
    }
    return t;
}

/* ---- operands ---- */

HANDLER(tex_arg)
{
    memcpy(w->cta->tex.arg[in->imm], SRC(u32, a), sizeof(w->cta->tex.arg[0]));
    return SG_NEXT;
}

HANDLER(tex_val32)
{
    const u32 *a = SRC(u32, a);

    for (int i = 0; i < SG_LANES; i++)
        w->cta->tex.val[in->imm][i] = a[i];
    return SG_NEXT;
}

HANDLER(tex_val64)
{
    memcpy(w->cta->tex.val[in->imm], SRC(u64, a), sizeof(w->cta->tex.val[0]));
    return SG_NEXT;
}

HANDLER(tex_res32)
{
    const u64 *v = w->cta->tex.val[in->imm];

    STORE(u32, (u32)v[i]);
    return SG_NEXT;
}

HANDLER(tex_res64)
{
    const u64 *v = w->cta->tex.val[in->imm];

    STORE(u64, v[i]);
    return SG_NEXT;
}

/* ---- fetches ---- */

struct reader {
    struct sg_warp *w;
    const struct sg_insn *in;
    u32 lane;
};

static bool read_memory(void *ctx, u64 addr, void *buf, u32 size)
{
    struct reader *r = ctx;

    return sg_lane_read(r->w, r->in, r->lane, SG_SP_GLOBAL, addr, buf, size);
}

static float arg_f(const struct sg_warp *w, u32 k, u32 lane)
{
    float f;

    memcpy(&f, &w->cta->tex.arg[k][lane], 4);
    return f;
}

static void gather_args(const struct sg_warp *w, const struct sg_insn *in, u32 lane, struct sg_tex_at *at)
{
    const u32 x = in->aux;
    const struct sg_tex_scratch *s = &w->cta->tex;

    memset(at, 0, sizeof(*at));
    at->dims = SG_TX_DIMS(x);
    at->cube = x & SG_TX_CUBE;
    at->layered = x & SG_TX_LAYERED;
    at->integer = x & SG_TX_INT;
    at->grad = x & SG_TX_GRAD;
    at->layer = at->layered ? s->arg[SG_TA_LAYER][lane] : 0;
    for (u32 k = 0; k < at->dims; k++) {
        at->i[k] = (s32)s->arg[SG_TA_COORD + k][lane];
        at->f[k] = arg_f(w, SG_TA_COORD + k, lane);
        at->offset[k] = (s32)s->arg[SG_TA_OFFSET + k][lane];
        at->dx[k] = at->grad ? arg_f(w, SG_TA_DX + k, lane) : 0;
        at->dy[k] = at->grad ? arg_f(w, SG_TA_DY + k, lane) : 0;
    }
    if (!at->grad)
        at->lod = at->integer ? (float)(s32)s->arg[SG_TA_LOD][lane] : arg_f(w, SG_TA_LOD, lane);
}

static u16 to_half(const struct sg_texture *t, union sg_texel v)
{
    return sg_tex_is_float(t) ? sg_f32_to_f16(v.f, 0) : (u16)v.u;
}

static void put_result(struct sg_warp *w, const struct sg_insn *in, u32 lane, const struct sg_texture *t,
                       const union sg_texel v[4])
{
    u64(*val)[SG_LANES] = w->cta->tex.val;

    if (in->aux & SG_TX_F16X2) {
        for (int k = 0; k < 2; k++)
            val[k][lane] = to_half(t, v[2 * k]) | (u32)to_half(t, v[2 * k + 1]) << 16;
        return;
    }
    for (int k = 0; k < 4; k++)
        val[k][lane] = in->aux & SG_TX_F16 ? to_half(t, v[k]) : v[k].u;
}

/* Combines the texture of a handle with the sampler of another (independent mode). */
static void mix_sampler(struct sg_texture *mix, const struct sg_texture *t, const struct sg_texture *s)
{
    *mix = *t;
    memcpy(mix->border, s->border, sizeof(mix->border));
    mix->linear = s->linear && sg_tex_is_float(t) && !t->buffer;
    mix->mip_linear = s->mip_linear;
    mix->normalized = t->normalized && s->normalized;
    for (int k = 0; k < 3; k++) {
        mix->address[k] = s->address[k];
        if (t->cube || (!mix->normalized && s->address[k] != SG_BORDER))
            mix->address[k] = SG_CLAMP;
    }
    if (s->nlevels) { /* a sampler variable has no levels of detail of its own */
        mix->bias = s->bias;
        mix->min_lod = s->min_lod;
        mix->max_lod = s->max_lod;
    }
}

/* in->b: handle of the sampler (independent mode); otherwise the same as in->a. */
static int fetch_texture(struct sg_warp *w, const struct sg_insn *in, bool four)
{
    const u64 *h = SRC(u64, a), *hs = SRC(u64, b);

    EACH(w->mask)
    {
        const struct sg_texture *t = sg_tex_of(w, in, i, h[i], false), *s;
        struct reader r = {w, in, i};
        union sg_texel v[4];
        struct sg_texture mix;
        struct sg_tex_at at;
        bool ok;

        if (!t)
            return SG_FAULTED;
        if (hs[i] != h[i]) {
            s = sg_tex_peek(w, hs[i], false);
            if (!s)
                return sg_fault_set(w, in, i, SG_ERR_ADDRESS, "no sampler");
            mix_sampler(&mix, t, s);
            t = &mix;
        }
        gather_args(w, in, i, &at);
        ok = four ? sg_tex_gather(t, &at, SG_TX_COMP(in->aux), read_memory, &r, v)
                  : sg_tex_fetch(t, &at, read_memory, &r, v);
        if (!ok)
            return SG_FAULTED;
        put_result(w, in, i, t, v);
    }
    return SG_NEXT;
}

HANDLER(tex_fetch)
{
    return fetch_texture(w, in, false);
}

HANDLER(tex_gather)
{
    return fetch_texture(w, in, true);
}

/* ---- queries: types and orders are numbered as in OpenCL, as required by PTX ---- */

static u32 data_type(const struct sg_texture *t)
{
    const u32 size = t->bytes >> 1; /* 0, 1, 2 */

    switch (t->kind) {
    case SG_TEXEL_HALF:
        return 0x10dd;
    case SG_TEXEL_FLOAT:
        return 0x10de;
    case SG_TEXEL_SINT:
        return (t->as_float ? 0x10d0 : 0x10d7) + size;
    default:
        return (t->as_float ? 0x10d2 : 0x10da) + size;
    }
}

static u32 query_texture(const struct sg_texture *t, u32 what, u32 lod)
{
    const struct sg_tex_level *l = &t->level[lod < t->nlevels ? lod : t->nlevels - 1];

    switch (what) {
    case SG_TQ_WIDTH:
        return l->width;
    case SG_TQ_HEIGHT:
        return t->dims > 1 ? l->height : 0;
    case SG_TQ_DEPTH:
        return t->dims > 2 ? l->depth : 0;
    case SG_TQ_CHANNEL_DATA_TYPE:
        return data_type(t);
    case SG_TQ_CHANNEL_ORDER:
        return t->channels == 1 ? 0x10b0 : t->channels == 2 ? 0x10b2 : 0x10b5;
    case SG_TQ_NORMALIZED_COORDS:
        return t->normalized;
    case SG_TQ_ARRAY_SIZE:
        return t->layered ? l->depth / (t->cube ? 6 : 1) : 0;
    case SG_TQ_NUM_MIPMAP_LEVELS:
        return t->nlevels;
    case SG_TQ_NUM_SAMPLES:
        return 1;
    case SG_TQ_FORCE_UNNORMALIZED_COORDS:
        return 0;
    case SG_TQ_FILTER_MODE:
        return t->linear;
    case SG_TQ_ADDR_MODE_0:
    case SG_TQ_ADDR_MODE_1:
    case SG_TQ_ADDR_MODE_2:
        return t->address[what - SG_TQ_ADDR_MODE_0];
    default: /* SG_TQ_MEMORY_LAYOUT: row by row */
        return 0;
    }
}

/* e: nonzero for a surface */
HANDLER(tex_query)
{
    const u64 *h = SRC(u64, a);
    const u32 *lod = SRC(u32, b);
    u32 *d = DST(u32, d);
    u32 r[SG_LANES];

    EACH(w->mask)
    {
        const struct sg_texture *t = sg_tex_of(w, in, i, h[i], in->aux);

        if (!t)
            return SG_FAULTED;
        r[i] = query_texture(t, (u32)in->imm, lod[i]);
    }
    EACH(w->mask) d[i] = r[i];
    return SG_NEXT;
}

/* imm: enum sg_opaque_kind. A texture has a sampler, but is none. */
HANDLER(tex_is)
{
    const u64 *h = SRC(u64, a);
    u32 r = 0;

    EACH(w->mask)
    {
        const struct sg_texture *t = sg_tex_peek(w, h[i], in->imm == SG_OPAQUE_SURFREF);

        if (t && (in->imm == SG_OPAQUE_SAMPLERREF) == !t->nlevels)
            r |= 1u << i;
    }
    sg_set_pred(w, in->d, r);
    return SG_NEXT;
}

#include "exec/ops/texture.def"

#include "exec/table/rows.h"

const struct sg_opdef sg_ops_tex[] = {
#include "exec/ops/texture.def"
    {0},
};
