/* SPDX-License-Identifier: MIT */
/*
 * Texture fetching: CUDA C++ Programming Guide, "Texture Fetching" and "Cubemap Textures".
 * Positions are computed in double, so that the product of a coordinate and a size is exact.
 * Weights have 8 bits of fraction; filtered values are summed in single precision.
 */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "exec/fetch.h"

/* The state of a fetch. */
struct fetch {
    const struct sg_texture *t;
    sg_tex_read_fn read;
    void *ctx;
    bool failed;
};

/* A position in a level, in elements. */
struct spot {
    double x[3];
    uint32_t slice; /* layer, face, or both; 0 in volumes */
};

/* ---- an element ---- */

static float from_srgb(float v)
{
    return v <= 0.04045f ? v / 12.92f : powf((v + 0.055f) / 1.055f, 2.4f);
}

/* For 8 or 16 bits: larger integers are never read as floats. */
static float normalize_texel(const struct sg_texture *t, union sg_texel v)
{
    const float max = (float)((1u << (8 * t->bytes - (t->kind == SG_TEXEL_SINT))) - 1);

    if (t->kind == SG_TEXEL_UINT)
        return (float)v.u / max;
    return fmaxf((float)v.s / max, -1.0f);
}

static union sg_texel read_channel(const struct sg_texture *t, const uint8_t *p)
{
    union sg_texel v = {0};
    uint16_t h;
    int16_t s;

    switch (t->bytes) {
    case 1:
        if (t->kind == SG_TEXEL_SINT)
            v.s = (int8_t)*p;
        else
            v.u = *p;
        break;
    case 2:
        memcpy(&h, p, 2);
        memcpy(&s, p, 2);
        if (t->kind == SG_TEXEL_HALF)
            v.f = sg_f16_to_f32(h);
        else if (t->kind == SG_TEXEL_SINT)
            v.s = s;
        else
            v.u = h;
        break;
    default:
        memcpy(&v, p, 4);
        break;
    }
    if (t->as_float) /* only integers of 8 or 16 bits */
        v.f = normalize_texel(t, v);
    return v;
}

static void missing_texel(const struct sg_texture *t, union sg_texel out[4])
{
    for (int c = 0; c < 4; c++)
        out[c].u = 0;
    if (sg_tex_is_float(t))
        out[3].f = 1.0f;
    else
        out[3].u = 1;
}

static void decode_texel(const struct sg_texture *t, const uint8_t *p, union sg_texel out[4])
{
    missing_texel(t, out);
    for (uint32_t c = 0; c < t->channels; c++) {
        out[c] = read_channel(t, p + c * t->bytes);
        if (t->srgb && c < 3 && t->kind == SG_TEXEL_UINT && t->bytes == 1 && t->as_float)
            out[c].f = from_srgb(out[c].f);
    }
}

static void border_texel(const struct sg_texture *t, union sg_texel out[4])
{
    missing_texel(t, out);
    for (uint32_t c = 0; c < t->channels; c++) {
        if (sg_tex_is_float(t))
            out[c].f = t->border[c];
        else if (t->kind == SG_TEXEL_SINT)
            out[c].s = (int32_t)fmax(-2147483648.0, fmin(t->border[c], 2147483647.0));
        else
            out[c].u = (uint32_t)fmax(0.0, fmin(t->border[c], 4294967295.0));
    }
}

static void load_texel(struct fetch *f, const struct sg_tex_level *l, const int64_t at[3], uint32_t slice,
                       union sg_texel out[4])
{
    const uint64_t addr = l->data + ((uint64_t)at[2] + slice) * l->slice + (uint64_t)at[1] * l->pitch +
                          (uint64_t)at[0] * f->t->elem;
    uint8_t buf[16];

    if (!f->t->checked) {
        decode_texel(f->t, (const uint8_t *)(uintptr_t)addr, out);
    } else if (f->read(f->ctx, addr, buf, f->t->elem)) {
        decode_texel(f->t, buf, out);
    } else {
        f->failed = true;
        missing_texel(f->t, out);
    }
}

/* The index that the address mode makes of i; -1: the border colour. */
static int64_t wrap_address(enum sg_address_mode m, int64_t i, int64_t n)
{
    int64_t k;

    switch (m) {
    case SG_WRAP:
        k = i % n;
        return k < 0 ? k + n : k;
    case SG_MIRROR:
        k = i % (2 * n);
        k = k < 0 ? k + 2 * n : k;
        return k < n ? k : 2 * n - 1 - k;
    case SG_BORDER:
        return i < 0 || i >= n ? -1 : i;
    default:
        return i < 0 ? 0 : i >= n ? n - 1 : i;
    }
}

/* ---- cube maps ---- */

/* Face and position on it, both coordinates from -1 to 1. */
static uint32_t cube_face(const double d[3], double *s, double *t)
{
    const double ax = fabs(d[0]), ay = fabs(d[1]), az = fabs(d[2]);
    double m, sc, tc;
    uint32_t face;

    if (ax >= ay && ax >= az) {
        face = d[0] >= 0 ? 0 : 1;
        m = ax;
        sc = d[0] >= 0 ? -d[2] : d[2];
        tc = -d[1];
    } else if (ay >= az) {
        face = d[1] >= 0 ? 2 : 3;
        m = ay;
        sc = d[0];
        tc = d[1] >= 0 ? d[2] : -d[2];
    } else {
        face = d[2] >= 0 ? 4 : 5;
        m = az;
        sc = d[2] >= 0 ? d[0] : -d[0];
        tc = -d[1];
    }
    *s = m > 0 ? sc / m : 0;
    *t = m > 0 ? tc / m : 0;
    return face;
}

/* The inverse: the direction of (s, t) on the face at distance m. */
static void cube_direction(uint32_t face, double s, double t, double m, double d[3])
{
    const double v[6][3] = {{m, -t, -s}, {-m, -t, s}, {s, m, t}, {s, -m, -t}, {s, -t, m}, {-s, -t, -m}};

    memcpy(d, v[face], sizeof(v[face]));
}

/* The element beyond an edge of a face: the adjacent element of the neighbouring face. */
static void beyond_edge(struct fetch *f, const struct sg_tex_level *l, uint32_t cube, uint32_t face,
                        const int64_t at[3], union sg_texel out[4])
{
    const double n = l->width;
    double d[3], s, t;
    int64_t to[3] = {0, 0, 0};
    double p[2], m = 1.0;

    for (int k = 0; k < 2; k++) {
        p[k] = (2.0 * (double)at[k] + 1.0) / n - 1.0;
        if (p[k] > 1.0 || p[k] < -1.0) { /* folded over the edge: as far behind it as it was out */
            m = 2.0 - fabs(p[k]);
            p[k] = p[k] < 0 ? -1.0 : 1.0;
        }
    }
    cube_direction(face, p[0], p[1], m, d);
    /* The coordinate that crossed the edge becomes the largest, which selects the neighbouring
       face. */
    face = cube_face(d, &s, &t);
    to[0] = wrap_address(SG_CLAMP, (int64_t)floor((s + 1.0) * 0.5 * n), l->width);
    to[1] = wrap_address(SG_CLAMP, (int64_t)floor((t + 1.0) * 0.5 * n), l->height);
    load_texel(f, l, to, cube * 6 + face, out);
}

/* Seamless: at a corner, where three faces meet, the mean of their elements. */
static void seamless_texel(struct fetch *f, const struct sg_tex_level *l, const int64_t at[3], uint32_t slice,
                           union sg_texel out[4])
{
    const int64_t n = l->width;
    const int64_t c[3] = {wrap_address(SG_CLAMP, at[0], n), wrap_address(SG_CLAMP, at[1], n), 0};
    const bool ox = c[0] != at[0], oy = c[1] != at[1];
    const int64_t across[3] = {at[0], c[1], 0}, down[3] = {c[0], at[1], 0};
    union sg_texel v[3][4];

    if (!ox && !oy) {
        load_texel(f, l, c, slice, out);
    } else if (!ox || !oy) {
        beyond_edge(f, l, slice / 6, slice % 6, at, out);
    } else {
        load_texel(f, l, c, slice, v[0]);
        beyond_edge(f, l, slice / 6, slice % 6, across, v[1]);
        beyond_edge(f, l, slice / 6, slice % 6, down, v[2]);
        for (int k = 0; k < 4; k++)
            out[k].f = (v[0][k].f + v[1][k].f + v[2][k].f) / 3.0f;
    }
}

/* ---- elements by index, through the address modes ---- */

/* Integers that stay integers are not filtered, whatever the object specifies: the driver
   accepts such an object. */
static bool is_filtered(const struct sg_texture *t)
{
    return t->linear && sg_tex_is_float(t);
}

static void fetch_element(struct fetch *f, const struct sg_tex_level *l, const int64_t at[3], uint32_t slice,
                          union sg_texel out[4])
{
    const int64_t size[3] = {l->width, l->height, f->t->dims == 3 ? l->depth : 1};
    int64_t to[3];

    if (f->t->cube && f->t->seamless && is_filtered(f->t)) {
        seamless_texel(f, l, at, slice, out);
        return;
    }
    for (int k = 0; k < 3; k++) {
        if (f->t->buffer && (at[k] < 0 || at[k] >= size[k])) {
            memset(out, 0, 4 * sizeof(*out)); /* tex1Dfetch out of range */
            return;
        }
        to[k] = wrap_address(f->t->address[k], at[k], size[k]);
        if (to[k] < 0) {
            border_texel(f->t, out);
            return;
        }
    }
    load_texel(f, l, to, slice, out);
}

/* Converts a position to an integer: NaN becomes 0; far positions stay out of range. */
static int64_t whole_number(double v)
{
    if (isnan(v))
        return 0;
    v = floor(v);
    return v < -1e15 ? -1000000000000000 : v > 1e15 ? 1000000000000000 : (int64_t)v;
}

static void sample_point(struct fetch *f, const struct sg_tex_level *l, const struct spot *p,
                         const int32_t offset[3], union sg_texel out[4])
{
    int64_t at[3];

    for (int k = 0; k < 3; k++)
        at[k] = whole_number(p->x[k]) + offset[k];
    fetch_element(f, l, at, p->slice, out);
}

/* Weighted mean of the 2, 4 or 8 elements around a position. */
static void sample_linear(struct fetch *f, const struct sg_tex_level *l, const struct spot *p,
                          const int32_t offset[3], uint32_t dims, union sg_texel out[4])
{
    int64_t base[3] = {0, 0, 0};
    float weight[3] = {0, 0, 0}, sum[4] = {0, 0, 0, 0};

    for (uint32_t k = 0; k < dims; k++) {
        const double b = p->x[k] - 0.5;

        base[k] = whole_number(b) + offset[k];
        /* 9 bits with a fraction of 8, so that 1 is representable */
        weight[k] = isfinite(b) ? (float)(rint((b - floor(b)) * 256.0) / 256.0) : 0.0f;
    }
    for (uint32_t i = 0; i < 1u << dims; i++) {
        int64_t at[3] = {base[0], base[1], base[2]};
        union sg_texel v[4];
        float w = 1.0f;

        for (uint32_t k = 0; k < dims; k++) {
            at[k] += i >> k & 1;
            w *= i >> k & 1 ? weight[k] : 1.0f - weight[k];
        }
        if (w == 0.0f)
            continue; /* elements of weight 0 are not read: they may be infinite */
        fetch_element(f, l, at, p->slice, v);
        for (int c = 0; c < 4; c++)
            sum[c] += w * v[c].f;
    }
    for (int c = 0; c < 4; c++)
        out[c].f = sum[c];
}

/* ---- from coordinates to a position in a level ---- */

static uint32_t clamp_layer(uint32_t layer, uint32_t n)
{
    return (int32_t)layer < 0 ? 0 : layer >= n ? n - 1 : layer;
}

static void place_sample(const struct sg_texture *t, const struct sg_tex_level *l, const struct sg_tex_at *at,
                         struct spot *p)
{
    const double size[3] = {l->width, l->height, l->depth};

    memset(p, 0, sizeof(*p));
    if (at->cube) {
        const double d[3] = {at->f[0], at->f[1], at->f[2]};
        double s, q;
        uint32_t face = cube_face(d, &s, &q);

        p->x[0] = (s + 1.0) * 0.5 * size[0];
        p->x[1] = (q + 1.0) * 0.5 * size[1];
        if (t->cube)
            p->slice = clamp_layer(at->layered ? at->layer : 0, l->depth / 6) * 6 + face;
        return;
    }
    for (uint32_t k = 0; k < at->dims; k++) {
        p->x[k] = at->integer ? at->i[k] : at->f[k];
        if (t->normalized && !at->integer)
            p->x[k] *= size[k];
    }
    if (t->dims < 3)
        p->slice = clamp_layer(at->layered ? at->layer : 0, l->depth);
}

static void sample_level(struct fetch *f, uint32_t level, const struct sg_tex_at *at, union sg_texel out[4])
{
    const struct sg_tex_level *l = &f->t->level[level];
    const uint32_t dims = at->cube ? 2 : at->dims < f->t->dims ? at->dims : f->t->dims;
    struct spot p;

    place_sample(f->t, l, at, &p);
    if (is_filtered(f->t) && !at->integer)
        sample_linear(f, l, &p, at->offset, dims, out);
    else
        sample_point(f, l, &p, at->offset, out);
}

/* ---- level of detail ---- */

/* Length of one step of the derivative, in elements of level 0. */
static double footprint_of(const struct sg_texture *t, const struct sg_tex_at *at, const float g[3])
{
    const double size[3] = {t->level[0].width, t->level[0].height, t->level[0].depth};
    double sum = 0;

    if (at->cube) {
        const double d[3] = {at->f[0], at->f[1], at->f[2]};
        double e[3] = {d[0] + g[0], d[1] + g[1], d[2] + g[2]}, s, q, m = 0, n = 0;

        /* The difference of the two directions, both at the distance of the face. */
        cube_face(d, &s, &q);
        for (int k = 0; k < 3; k++) {
            m = fmax(m, fabs(d[k]));
            n = fmax(n, fabs(e[k]));
        }
        for (int k = 0; k < 3 && m > 0 && n > 0; k++) {
            const double step = (e[k] / n - d[k] / m) * 0.5 * size[0];

            sum += step * step;
        }
        return sqrt(sum);
    }
    for (uint32_t k = 0; k < at->dims; k++) {
        const double step = g[k] * (t->normalized ? size[k] : 1.0);

        sum += step * step;
    }
    return sqrt(sum);
}

static double level_of_detail(const struct sg_texture *t, const struct sg_tex_at *at)
{
    double lod = at->lod;

    if (at->grad) {
        const double r = fmax(footprint_of(t, at, at->dx), footprint_of(t, at, at->dy));

        lod = r > 0 ? log2(r) : -1000.0;
    }
    if (isnan(lod))
        lod = 0;
    lod = fmin(fmax(lod + t->bias, t->min_lod), t->max_lod);
    return fmin(fmax(lod, 0.0), t->nlevels - 1);
}

bool sg_tex_fetch(const struct sg_texture *t, const struct sg_tex_at *at, sg_tex_read_fn read, void *ctx,
                  union sg_texel out[4])
{
    struct fetch f = {t, read, ctx, false};
    const double lod = t->nlevels > 1 ? level_of_detail(t, at) : 0.0;
    union sg_texel next[4];
    uint32_t level;
    float w;

    if (t->nlevels <= 1 || !t->mip_linear || !sg_tex_is_float(t)) {
        sample_level(&f, (uint32_t)floor(lod + 0.5), at, out);
        return !f.failed;
    }
    level = (uint32_t)floor(lod);
    w = (float)(rint((lod - level) * 256.0) / 256.0);
    sample_level(&f, level, at, out);
    if (w > 0.0f) { /* implies that level is not the last */
        sample_level(&f, level + 1, at, next);
        for (int c = 0; c < 4; c++)
            out[c].f = (1.0f - w) * out[c].f + w * next[c].f;
    }
    return !f.failed;
}

bool sg_tex_gather(const struct sg_texture *t, const struct sg_tex_at *at, unsigned comp, sg_tex_read_fn read,
                   void *ctx, union sg_texel out[4])
{
    static const uint8_t order[4][2] = {{0, 1}, {1, 1}, {1, 0}, {0, 0}}; /* from the lower left */
    struct fetch f = {t, read, ctx, false};
    const struct sg_tex_level *l = &t->level[0];
    union sg_texel v[4];
    struct spot p;

    place_sample(t, l, at, &p);
    for (int k = 0; k < 4; k++) {
        const int64_t to[3] = {whole_number(p.x[0] - 0.5) + at->offset[0] + order[k][0],
                               whole_number(p.x[1] - 0.5) + at->offset[1] + order[k][1], 0};

        fetch_element(&f, l, to, p.slice, v);
        out[k] = v[comp & 3];
    }
    return !f.failed;
}
