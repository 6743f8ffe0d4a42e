/* SPDX-License-Identifier: MIT */
#include <math.h>

#include "api/code/texture_model_test.h"

static uint32_t seed = 12345;

uint32_t ref_rnd(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

float ref_rndf(float lo, float hi)
{
    return lo + (hi - lo) * (float)(ref_rnd() & 0xffff) / 65535.0f;
}

static size_t bytes_of(CUarray_format f)
{
    return f == CU_AD_FORMAT_UNSIGNED_INT8 || f == CU_AD_FORMAT_SIGNED_INT8 ? 1
           : f == CU_AD_FORMAT_FLOAT || f == CU_AD_FORMAT_UNSIGNED_INT32 || f == CU_AD_FORMAT_SIGNED_INT32
               ? 4
               : 2;
}

static double half_value(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    double v = e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);

    return h & 0x8000 ? -v : v;
}

/* A random element in p, and what it is worth in the texture's read mode. */
float ref_element(const struct tex_ref *r, uint8_t *p)
{
    bool as_int = r->t.flags & CU_TRSF_READ_AS_INTEGER;
    uint32_t u = ref_rnd();
    uint16_t h = (uint16_t)u;
    float f;

    switch (r->format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
        *p = (uint8_t)u;
        return as_int ? *p : *p / 255.0f;
    case CU_AD_FORMAT_SIGNED_INT8:
        *p = (uint8_t)u;
        return as_int ? (int8_t)*p : fmaxf((float)(int8_t)*p / 127.0f, -1.0f);
    case CU_AD_FORMAT_UNSIGNED_INT16:
        memcpy(p, &h, 2);
        return as_int ? h : h / 65535.0f;
    case CU_AD_FORMAT_SIGNED_INT16:
        memcpy(p, &h, 2);
        return as_int ? (int16_t)h : fmaxf((float)(int16_t)h / 32767.0f, -1.0f);
    case CU_AD_FORMAT_HALF:
        h &= 0xbfff; /* finite */
        memcpy(p, &h, 2);
        return (float)half_value(h);
    case CU_AD_FORMAT_FLOAT:
        f = ref_rndf(-8, 8);
        memcpy(p, &f, 4);
        return f;
    default: /* 32-bit integers, small enough for floats */
        u &= 0xffff;
        memcpy(p, &u, 4);
        return (float)u;
    }
}

static size_t at_level(size_t n, int l)
{
    return n >> l ? n >> l : 1;
}

static void fill(struct tex_ref *r, int l, CUarray a)
{
    size_t w = at_level(r->w, l), h = at_level(r->h, l), d = r->layered || r->cube ? r->d : at_level(r->d, l);
    size_t eb = bytes_of(r->format), elem = eb * (size_t)r->channels;
    uint8_t *raw = calloc(w * h * d, elem);
    CUDA_MEMCPY3D m = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcHost = raw,
                       .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                       .dstArray = a,
                       .WidthInBytes = w * elem,
                       .Height = h,
                       .Depth = d};

    r->data[l] = calloc(w * h * d, 4 * sizeof(float));
    for (size_t i = 0; i < w * h * d; i++) {
        for (int c = 0; c < 4; c++)
            r->data[l][i * 4 + (size_t)c] = c < r->channels ? ref_element(r, raw + i * elem + (size_t)c * eb)
                                            : c == 3        ? 1.0f
                                                            : 0;
    }
    OK(cuMemcpy3D_v2(&m));
    free(raw);
}

void ref_make(struct tex_ref *r)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {r->w,
                                 r->dims > 1 ? r->h : 0,
                                 r->dims > 2 || r->layered || r->cube ? r->d : 0,
                                 r->format,
                                 (unsigned)r->channels,
                                 (r->layered ? CUDA_ARRAY3D_LAYERED : 0) |
                                     (r->cube ? CUDA_ARRAY3D_CUBEMAP : 0)};
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_ARRAY};

    if (r->levels > 1) {
        OK(cuMipmappedArrayCreate(&r->mip, &d, (unsigned)r->levels));
        for (int l = 0; l < r->levels; l++) {
            OK(cuMipmappedArrayGetLevel(&r->array, r->mip, (unsigned)l));
            fill(r, l, r->array);
        }
        res.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
        res.res.mipmap.hMipmappedArray = r->mip;
    } else {
        OK(cuArray3DCreate_v2(&r->array, &d));
        fill(r, 0, r->array);
        res.res.array.hArray = r->array;
    }
    OK(cuTexObjectCreate(&r->tex, &res, &r->t, NULL));
}

void ref_drop(struct tex_ref *r)
{
    OK(cuTexObjectDestroy(r->tex));
    if (r->levels > 1)
        OK(cuMipmappedArrayDestroy(r->mip));
    else
        OK(cuArrayDestroy(r->array));
    for (int l = 0; l < 8; l++)
        free(r->data[l]);
    memset(r->data, 0, sizeof(r->data));
}

/* The element that coordinate x (of an element's middle, in elements) names; -1: border. */
static long by_coordinate(const struct tex_ref *r, int k, double x, size_t n)
{
    CUaddress_mode m = r->t.addressMode[k];
    double u = x / (double)n;

    if (!(r->t.flags & CU_TRSF_NORMALIZED_COORDINATES) && m != CU_TR_ADDRESS_MODE_BORDER)
        m = CU_TR_ADDRESS_MODE_CLAMP;
    if (r->cube)
        m = CU_TR_ADDRESS_MODE_CLAMP;
    if (m == CU_TR_ADDRESS_MODE_WRAP)
        u -= floor(u);
    else if (m == CU_TR_ADDRESS_MODE_MIRROR)
        u = fmod(fabs(floor(u)), 2) < 0.5 ? u - floor(u) : 1 - (u - floor(u));
    else if (m == CU_TR_ADDRESS_MODE_BORDER && (x < 0 || x >= (double)n))
        return -1;
    x = u * (double)n;
    return x < 0 ? 0 : x >= (double)n ? (long)n - 1 : (long)floor(x);
}

void ref_texel(const struct tex_ref *r, int l, const double x[3], size_t slice, double out[4])
{
    size_t w = at_level(r->w, l), h = r->dims > 1 ? at_level(r->h, l) : 1,
           d = r->dims > 2 ? at_level(r->d, l) : 1;
    long i = by_coordinate(r, 0, x[0], w), j = r->dims > 1 ? by_coordinate(r, 1, x[1], h) : 0,
         k = r->dims > 2 ? by_coordinate(r, 2, x[2], d) : 0;

    for (int c = 0; c < 4; c++) {
        if (i < 0 || j < 0 || k < 0)
            out[c] = c < r->channels ? r->t.borderColor[c] : c == 3;
        else
            out[c] = r->data[l][((((size_t)k + slice) * h + (size_t)j) * w + (size_t)i) * 4 + (size_t)c];
    }
}

/* The value at one level: x in elements of that level. */
void ref_one_level(const struct tex_ref *r, int l, const double x[3], size_t slice, double out[4])
{
    double sum[4] = {0}, v[4], p[3], frac[3], base[3];

    if (r->t.filterMode == CU_TR_FILTER_MODE_POINT) {
        for (int k = 0; k < 3; k++)
            p[k] = floor(x[k]) + 0.5;
        ref_texel(r, l, p, slice, out);
        return;
    }
    for (int k = 0; k < 3; k++) {
        base[k] = floor(x[k] - 0.5);
        frac[k] = rint((x[k] - 0.5 - base[k]) * 256) / 256; /* ties are not specified */
    }
    for (int i = 0; i < 1 << r->dims; i++) {
        double w = 1;

        for (int k = 0; k < 3; k++) {
            int b = i >> k & 1;

            p[k] = base[k] + b + 0.5;
            if (k < r->dims)
                w *= b ? frac[k] : 1 - frac[k];
        }
        ref_texel(r, l, p, slice, v);
        for (int c = 0; c < 4; c++)
            sum[c] += w * v[c];
    }
    memcpy(out, sum, sizeof(sum));
}

static void position(const struct tex_ref *r, int l, const float s[4], double x[3])
{
    const double n[3] = {(double)at_level(r->w, l), (double)at_level(r->h, l), (double)at_level(r->d, l)};

    for (int k = 0; k < 3; k++)
        x[k] = r->t.flags & CU_TRSF_NORMALIZED_COORDINATES ? s[k] * n[k] : s[k];
}

void ref_expected(const struct tex_ref *r, const float s[4], double lod, size_t slice, double out[4])
{
    double x[3], hi[4], w;
    int l;

    lod = fmin(fmax(lod + r->t.mipmapLevelBias, r->t.minMipmapLevelClamp), r->t.maxMipmapLevelClamp);
    lod = fmin(fmax(lod, 0), r->levels - 1);
    if (r->t.mipmapFilterMode == CU_TR_FILTER_MODE_POINT) {
        l = (int)floor(lod + 0.5);
        position(r, l, s, x);
        ref_one_level(r, l, x, slice, out);
        return;
    }
    l = (int)floor(lod);
    w = rint((lod - l) * 256) / 256;
    position(r, l, s, x);
    ref_one_level(r, l, x, slice, out);
    if (w == 0)
        return;
    position(r, l + 1, s, x);
    ref_one_level(r, l + 1, x, slice, hi);
    for (int c = 0; c < 4; c++)
        out[c] = (1 - w) * out[c] + w * hi[c];
}
