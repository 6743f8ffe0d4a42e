/* SPDX-License-Identifier: MIT */
/*
 * Textures and surfaces as kernels see them: what nvcc makes of tests-ptx/tex.cu, compared with a
 * reference of its own that follows the formulas of CUDA C++ Programming Guide, "Texture Fetching",
 * coordinate by coordinate (the code under test works with indices).
 */
#include <math.h>
#include <sched.h>

#include "sg_drv_test.h"

#define N 700

static CUmodule module;
static CUcontext context;
static const char *ptx_path = SG_TEX_PTX;

CUcontext ctx_begin(void)
{
    CUcontext c;

    OK(cuInit(0));
    OK(cuCtxCreate_v2(&c, 0, 0));
    return c;
}

static int setup(void **state)
{
    (void)state;
    context = ctx_begin();
    return *ptx_path && cuModuleLoad(&module, ptx_path) == CUDA_SUCCESS ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return cuCtxDestroy_v2(context) != CUDA_SUCCESS;
}

/* ---- a texture with its contents, and the reference ---- */

struct ref {
    size_t w, h, d; /* of level 0; d: slices, layers or faces */
    int dims, channels, levels;
    bool layered, cube;
    CUarray_format format;
    float *data[8]; /* what the elements are, as floats before normalization: 4 channels each */
    CUtexObject tex;
    CUDA_TEXTURE_DESC t;
    CUmipmappedArray mip;
    CUarray array;
};

static uint32_t seed = 12345;

static uint32_t rnd(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

static float rndf(float lo, float hi)
{
    return lo + (hi - lo) * (float)(rnd() & 0xffff) / 65535.0f;
}

static size_t bytes_of(CUarray_format f)
{
    return f == CU_AD_FORMAT_UNSIGNED_INT8 || f == CU_AD_FORMAT_SIGNED_INT8 ? 1
           : f == CU_AD_FORMAT_FLOAT || f == CU_AD_FORMAT_UNSIGNED_INT32 ||
                   f == CU_AD_FORMAT_SIGNED_INT32
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
static float element(const struct ref *r, uint8_t *p)
{
    bool as_int = r->t.flags & CU_TRSF_READ_AS_INTEGER;
    uint32_t u = rnd();
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
        f = rndf(-8, 8);
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

static void fill(struct ref *r, int l, CUarray a)
{
    size_t w = at_level(r->w, l), h = at_level(r->h, l),
           d = r->layered || r->cube ? r->d : at_level(r->d, l);
    size_t eb = bytes_of(r->format), elem = eb * (size_t)r->channels;
    uint8_t *raw = calloc(w * h * d, elem);
    CUDA_MEMCPY3D m = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = raw,
                       .dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = a,
                       .WidthInBytes = w * elem, .Height = h, .Depth = d};

    r->data[l] = calloc(w * h * d, 4 * sizeof(float));
    for (size_t i = 0; i < w * h * d; i++) {
        for (int c = 0; c < 4; c++)
            r->data[l][i * 4 + (size_t)c] =
                c < r->channels ? element(r, raw + i * elem + (size_t)c * eb) : c == 3 ? 1.0f : 0;
    }
    OK(cuMemcpy3D_v2(&m));
    free(raw);
}

static void make(struct ref *r)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {r->w, r->dims > 1 ? r->h : 0,
                                 r->dims > 2 || r->layered || r->cube ? r->d : 0, r->format,
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

static void drop(struct ref *r)
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
static long by_coordinate(const struct ref *r, int k, double x, size_t n)
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

static void texel(const struct ref *r, int l, const double x[3], size_t slice, double out[4])
{
    size_t w = at_level(r->w, l), h = r->dims > 1 ? at_level(r->h, l) : 1,
           d = r->dims > 2 ? at_level(r->d, l) : 1;
    long i = by_coordinate(r, 0, x[0], w), j = r->dims > 1 ? by_coordinate(r, 1, x[1], h) : 0,
         k = r->dims > 2 ? by_coordinate(r, 2, x[2], d) : 0;

    for (int c = 0; c < 4; c++) {
        if (i < 0 || j < 0 || k < 0)
            out[c] = c < r->channels ? r->t.borderColor[c] : c == 3;
        else
            out[c] = r->data[l][((((size_t)k + slice) * h + (size_t)j) * w + (size_t)i) * 4 +
                                (size_t)c];
    }
}

/* The value at one level: x in elements of that level. */
static void one_level(const struct ref *r, int l, const double x[3], size_t slice, double out[4])
{
    double sum[4] = {0}, v[4], p[3], frac[3], base[3];

    if (r->t.filterMode == CU_TR_FILTER_MODE_POINT) {
        for (int k = 0; k < 3; k++)
            p[k] = floor(x[k]) + 0.5;
        texel(r, l, p, slice, out);
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
        texel(r, l, p, slice, v);
        for (int c = 0; c < 4; c++)
            sum[c] += w * v[c];
    }
    memcpy(out, sum, sizeof(sum));
}

static void position(const struct ref *r, int l, const float s[4], double x[3])
{
    const double n[3] = {(double)at_level(r->w, l), (double)at_level(r->h, l),
                         (double)at_level(r->d, l)};

    for (int k = 0; k < 3; k++)
        x[k] = r->t.flags & CU_TRSF_NORMALIZED_COORDINATES ? s[k] * n[k] : s[k];
}

static void expected(const struct ref *r, const float s[4], double lod, size_t slice, double out[4])
{
    double x[3], hi[4], w;
    int l;

    lod = fmin(fmax(lod + r->t.mipmapLevelBias, r->t.minMipmapLevelClamp), r->t.maxMipmapLevelClamp);
    lod = fmin(fmax(lod, 0), r->levels - 1);
    if (r->t.mipmapFilterMode == CU_TR_FILTER_MODE_POINT) {
        l = (int)floor(lod + 0.5);
        position(r, l, s, x);
        one_level(r, l, x, slice, out);
        return;
    }
    l = (int)floor(lod);
    w = rint((lod - l) * 256) / 256;
    position(r, l, s, x);
    one_level(r, l, x, slice, out);
    if (w == 0)
        return;
    position(r, l + 1, s, x);
    one_level(r, l + 1, x, slice, hi);
    for (int c = 0; c < 4; c++)
        out[c] = (1 - w) * out[c] + w * hi[c];
}

/* ---- running a kernel over N samples ---- */

static void run(const char *kernel, CUtexObject tex, const float *samples, void *out)
{
    CUdeviceptr c, o;
    CUfunction f;
    int n = N;
    void *args[] = {&tex, &c, &o, &n};

    OK(cuModuleGetFunction(&f, module, kernel));
    OK(cuMemAlloc_v2(&c, N * 16));
    OK(cuMemAlloc_v2(&o, N * 16));
    OK(cuMemcpyHtoD_v2(c, samples, N * 16));
    OK(cuLaunchKernel(f, (N + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, args, NULL));
    OK(cuMemcpyDtoH_v2(out, o, N * 16));
    OK(cuMemFree_v2(c));
    OK(cuMemFree_v2(o));
}

static void close_to(const char *what, int i, const float *s, const float got[4],
                     const double want[4])
{
    for (int c = 0; c < 4; c++) {
        if (fabs(got[c] - want[c]) > 2e-5 * fmax(1, fabs(want[c])))
            fail_msg("%s sample %d (%g, %g, %g, %g) channel %d: %.9g, expected %.9g", what, i,
                     (double)s[0], (double)s[1], (double)s[2], (double)s[3], c, (double)got[c],
                     want[c]);
    }
}

enum fourth { NOTHING, LAYER, LOD };

static void compare(struct ref *r, const char *kernel, enum fourth w)
{
    bool norm = r->t.flags & CU_TRSF_NORMALIZED_COORDINATES;
    static float s[N][4], got[N][4];
    double want[4];

    for (int i = 0; i < N; i++) {
        const size_t n[3] = {r->w, r->h, r->d};

        for (int k = 0; k < 3; k++) {
            float size = norm ? 1.0f : (float)n[k];

            s[i][k] = rndf(-1.5f * size, 2.5f * size);
            if (i % 7 == 0) /* middles and edges of elements */
                s[i][k] = (float)((int)(rnd() % (2 * (unsigned)n[k] + 1))) * 0.5f /
                          (norm ? (float)n[k] : 1.0f);
        }
        s[i][3] = w == LOD ? rndf(-1, (float)r->levels + 1) : (float)(int)(rnd() % (r->d + 2)) - 1;
    }
    run(kernel, r->tex, &s[0][0], got);
    for (int i = 0; i < N; i++) {
        float layer = fminf(fmaxf(s[i][3], 0), (float)r->d - 1);

        expected(r, s[i], w == LOD ? s[i][3] : 0,
                 w == LAYER ? (size_t)layer : w == LOD && r->layered ? 1 : 0, want);
        close_to(kernel, i, s[i], got[i], want);
    }
}

static const CUarray_format float_formats[] = {
    CU_AD_FORMAT_FLOAT,      CU_AD_FORMAT_UNSIGNED_INT8,  CU_AD_FORMAT_SIGNED_INT8,
    CU_AD_FORMAT_HALF,       CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_SIGNED_INT16};

/* Every address mode, filter, kind of coordinate and format, in 1, 2 and 3 dimensions. */
static void test_modes(void **state)
{
    static const char *const kernels[] = {"t1", "t2", "t3"};

    (void)state;
    for (int dims = 1; dims <= 3; dims++) {
        for (unsigned m = 0; m < 16; m++) {
            struct ref r = {.w = 13, .h = dims > 1 ? 6 : 1, .d = dims > 2 ? 5 : 1, .dims = dims,
                            .levels = 1, .channels = 1 << m % 3,
                            .format = float_formats[(m + (unsigned)dims) % 6]};

            for (int k = 0; k < 3; k++)
                r.t.addressMode[k] = (CUaddress_mode)((m + (unsigned)k) & 3);
            r.t.filterMode = m & 4 ? CU_TR_FILTER_MODE_LINEAR : CU_TR_FILTER_MODE_POINT;
            r.t.flags = m & 8 ? CU_TRSF_NORMALIZED_COORDINATES : 0;
            for (int c = 0; c < 4; c++)
                r.t.borderColor[c] = 0.25f * (float)c - 0.5f;
            make(&r);
            compare(&r, kernels[dims - 1], NOTHING);
            if (dims == 2)
                compare(&r, "t2_resident", NOTHING);
            drop(&r);
        }
    }
}

static void test_layers(void **state)
{
    (void)state;
    for (int dims = 1; dims <= 2; dims++) {
        for (int lin = 0; lin < 2; lin++) {
            struct ref r = {.w = 9, .h = dims > 1 ? 7 : 1, .d = 4, .dims = dims, .levels = 1,
                            .channels = 2, .layered = true, .format = CU_AD_FORMAT_FLOAT};

            r.t.filterMode = (CUfilter_mode)lin;
            r.t.flags = CU_TRSF_NORMALIZED_COORDINATES;
            make(&r);
            compare(&r, dims == 1 ? "ta1" : "ta2", LAYER);
            drop(&r);
        }
    }
}

static void test_levels(void **state)
{
    static const char *const kernels[] = {"t1_lod", "t2_lod", "t3_lod", "ta2_lod"};

    (void)state;
    for (int which = 0; which < 4; which++) {
        for (unsigned m = 0; m < 8; m++) {
            int dims = which == 3 ? 2 : which + 1;
            struct ref r = {.w = 24, .h = dims > 1 ? 16 : 1, .d = which == 3 ? 3 : dims > 2 ? 8 : 1,
                            .dims = dims, .levels = 4, .channels = 4, .layered = which == 3,
                            .format = float_formats[m % 6]};

            r.t.filterMode = (CUfilter_mode)(m & 1);
            r.t.mipmapFilterMode = (CUfilter_mode)(m >> 1 & 1);
            r.t.maxMipmapLevelClamp = m & 4 ? 2.3f : 100;
            r.t.minMipmapLevelClamp = m & 4 ? 0.6f : 0;
            r.t.mipmapLevelBias = m & 4 ? -0.25f : 0;
            r.t.flags = CU_TRSF_NORMALIZED_COORDINATES;
            make(&r);
            compare(&r, kernels[which], LOD);
            drop(&r);
        }
    }
}

/* The level follows from the derivatives: steps of 2^k elements are level k. */
static void test_gradients(void **state)
{
    static float s[N][4], got[N][4];
    double want[4];
    struct ref r = {.w = 32, .h = 32, .d = 1, .dims = 2, .levels = 5, .channels = 1,
                    .format = CU_AD_FORMAT_FLOAT,
                    .t = {.flags = CU_TRSF_NORMALIZED_COORDINATES, .maxMipmapLevelClamp = 10}};

    (void)state;
    make(&r);
    for (int i = 0; i < N; i++) {
        s[i][0] = rndf(0, 1);
        s[i][1] = rndf(0, 1);
        s[i][2] = (float)(1 << i % 7) / 64; /* half an element to a whole side */
        s[i][3] = (float)(1 << i / 7 % 7) / 64;
    }
    run("t2_grad", r.tex, &s[0][0], got);
    for (int i = 0; i < N; i++) {
        expected(&r, s[i], log2(fmax(s[i][2], s[i][3]) * 32), 0, want);
        close_to("t2_grad", i, s[i], got[i], want);
    }
    drop(&r);
}

/* Face and place on it: the table in CUDA C++ Programming Guide, "Cubemap Textures". */
static size_t face_of(const float d[3], double *s, double *t)
{
    double x = d[0], y = d[1], z = d[2], m;

    if (fabs(x) >= fabs(y) && fabs(x) >= fabs(z)) {
        m = fabs(x);
        *s = ((x > 0 ? -z : z) / m + 1) / 2;
        *t = (-y / m + 1) / 2;
        return x > 0 ? 0 : 1;
    }
    if (fabs(y) >= fabs(z)) {
        m = fabs(y);
        *s = (x / m + 1) / 2;
        *t = ((y > 0 ? z : -z) / m + 1) / 2;
        return y > 0 ? 2 : 3;
    }
    m = fabs(z);
    *s = ((z > 0 ? x : -x) / m + 1) / 2;
    *t = (-y / m + 1) / 2;
    return z > 0 ? 4 : 5;
}

static void test_cubes(void **state)
{
    static float s[N][4], got[N][4];
    double want[4], p[2];

    (void)state;
    for (unsigned m = 0; m < 4; m++) {
        bool layered = m & 2;
        struct ref r = {.w = 8, .h = 8, .d = layered ? 18 : 6, .dims = 2, .levels = 1,
                        .channels = 4, .layered = layered, .cube = true,
                        .format = CU_AD_FORMAT_FLOAT,
                        .t = {.filterMode = (CUfilter_mode)(m & 1),
                              .flags = CU_TRSF_NORMALIZED_COORDINATES}};

        make(&r);
        for (int i = 0; i < N; i++) {
            for (int k = 0; k < 3; k++)
                s[i][k] = rndf(-3, 3);
            s[i][3] = (float)(int)(rnd() % 5) - 1;
        }
        run(layered ? "tacube" : "tcube", r.tex, &s[0][0], got);
        for (int i = 0; i < N; i++) {
            float layer = fminf(fmaxf(s[i][3], 0), 2);
            size_t slice = face_of(s[i], &p[0], &p[1]) + (layered ? 6 * (size_t)layer : 0);
            double x[3] = {p[0] * 8, p[1] * 8, 0};

            one_level(&r, 0, x, slice, want);
            close_to("cube", i, s[i], got[i], want);
        }
        drop(&r);
    }
}

/*
 * Seamless: a field that is continuous on the cube is continuous across its edges too. Each face
 * holds a linear function of the direction, so that neighbours agree where they meet.
 */
static void test_seamless(void **state)
{
    static float s[N][4], got[N][4], faces[6][16][16][4];
    CUDA_ARRAY3D_DESCRIPTOR d = {16, 16, 6, CU_AD_FORMAT_FLOAT, 4, CUDA_ARRAY3D_CUBEMAP};
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_ARRAY};
    CUDA_TEXTURE_DESC t = {.filterMode = CU_TR_FILTER_MODE_LINEAR,
                           .flags = CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SEAMLESS_CUBEMAP};
    CUtexObject tex;

    (void)state;
    for (int f = 0; f < 6; f++) {
        for (int j = 0; j < 16; j++) {
            for (int i = 0; i < 16; i++) {
                float a = (2 * (float)i + 1) / 16 - 1, b = (2 * (float)j + 1) / 16 - 1;
                const float dir[6][3] = {{1, -b, -a}, {-1, -b, a}, {a, 1, b},
                                         {a, -1, -b}, {a, -b, 1}, {-a, -b, -1}};

                memcpy(faces[f][j][i], dir[f], sizeof(dir[f]));
            }
        }
    }
    OK(cuArray3DCreate_v2(&res.res.array.hArray, &d));
    CUDA_MEMCPY3D m = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = faces,
                       .dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = res.res.array.hArray,
                       .WidthInBytes = 256, .Height = 16, .Depth = 6};
    OK(cuMemcpy3D_v2(&m));
    OK(cuTexObjectCreate(&tex, &res, &t, NULL));
    for (int i = 0; i < N; i++) { /* around the edge between +x and +z, and near corners */
        float e = rndf(-0.06f, 0.06f);

        s[i][0] = e < 0 ? 1 : 1 - e;
        s[i][2] = e < 0 ? 1 + e : 1;
        s[i][1] = i % 3 ? rndf(-0.9f, 0.9f) : rndf(0.95f, 1) * (i & 1 ? 1.0f : -1.0f);
    }
    run("tcube", tex, &s[0][0], got);
    for (int i = 0; i < N; i++) {
        /* between the middles of two edge elements the field is their mean: within 1/16 of it */
        for (int k = 0; k < 3; k++)
            assert_true(fabsf(got[i][k] - s[i][k]) < 0.07f);
    }
    /* Exactly on the edge the two sides count the same: x = z. */
    s[0][0] = s[0][2] = 1;
    s[0][1] = 1.0f / 16;
    run("tcube", tex, &s[0][0], got);
    assert_true(fabsf(got[0][0] - got[0][2]) < 1e-5f);
    assert_true(fabsf(got[0][0] - 31.0f / 32) < 1e-5f); /* the mean of 1 and 1 - 1/16 */
    OK(cuTexObjectDestroy(tex));
    OK(cuArrayDestroy(res.res.array.hArray));
}

static void test_gather(void **state)
{
    static const int corner[4][2] = {{0, 1}, {1, 1}, {1, 0}, {0, 0}};
    static float s[N][4], got[N][4];
    double v[4], want[4];
    struct ref r = {.w = 9, .h = 5, .d = 1, .dims = 2, .levels = 1, .channels = 4,
                    .format = CU_AD_FORMAT_FLOAT,
                    .t = {.addressMode = {CU_TR_ADDRESS_MODE_WRAP, CU_TR_ADDRESS_MODE_MIRROR},
                          .flags = CU_TRSF_NORMALIZED_COORDINATES}};

    (void)state;
    make(&r);
    for (int i = 0; i < N; i++) {
        s[i][0] = rndf(-1, 2);
        s[i][1] = rndf(-1, 2);
    }
    for (int comp = 0; comp < 4; comp += 3) {
        run(comp ? "g3" : "g0", r.tex, &s[0][0], got);
        for (int i = 0; i < N; i++) {
            for (int k = 0; k < 4; k++) {
                double p[3] = {floor(s[i][0] * 9.0 - 0.5) + corner[k][0] + 0.5,
                               floor(s[i][1] * 5.0 - 0.5) + corner[k][1] + 0.5, 0};

                texel(&r, 0, p, 0, v);
                want[k] = v[comp];
            }
            close_to("gather", i, s[i], got[i], want);
        }
    }
    drop(&r);
}

/* Integers that stay integers, of every width and sign. */
static void test_integers(void **state)
{
    static const CUarray_format formats[] = {
        CU_AD_FORMAT_UNSIGNED_INT8,  CU_AD_FORMAT_SIGNED_INT8,    CU_AD_FORMAT_UNSIGNED_INT16,
        CU_AD_FORMAT_SIGNED_INT16,   CU_AD_FORMAT_UNSIGNED_INT32, CU_AD_FORMAT_SIGNED_INT32};
    static float s[N][4];
    static int32_t got[N][4];
    double want[4];

    (void)state;
    for (int f = 0; f < 6; f++) {
        struct ref r = {.w = 11, .h = 4, .d = 1, .dims = 2, .levels = 1, .channels = 4,
                        .format = formats[f], .t = {.flags = CU_TRSF_READ_AS_INTEGER}};

        r.t.addressMode[0] = CU_TR_ADDRESS_MODE_BORDER;
        r.t.borderColor[1] = 7;
        make(&r);
        for (int i = 0; i < N; i++) {
            s[i][0] = rndf(-4, 15);
            s[i][1] = rndf(-4, 8);
        }
        run(f & 1 ? "t2_i" : "t2_u", r.tex, &s[0][0], got);
        for (int i = 0; i < N; i++) {
            expected(&r, s[i], 0, 0, want);
            for (int c = 0; c < 4; c++)
                assert_int_equal(got[i][c], (int32_t)want[c]);
        }
        drop(&r);
    }
}

/* Linear memory (elements out of bounds are zero) and rows with a pitch. */
static void test_memory(void **state)
{
    static float s[N][4], got[N][4];
    float data[96];
    CUdeviceptr p;
    CUDA_TEXTURE_DESC t = {.filterMode = CU_TR_FILTER_MODE_LINEAR};
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_LINEAR};
    CUtexObject tex;

    (void)state;
    for (int i = 0; i < 96; i++)
        data[i] = (float)i * 1.5f + 1;
    OK(cuMemAlloc_v2(&p, sizeof(data)));
    OK(cuMemcpyHtoD_v2(p, data, sizeof(data)));
    res.res.linear.devPtr = p;
    res.res.linear.format = CU_AD_FORMAT_FLOAT;
    res.res.linear.numChannels = 2;
    res.res.linear.sizeInBytes = sizeof(data);
    OK(cuTexObjectCreate(&tex, &res, &t, NULL));
    for (int i = 0; i < N; i++)
        s[i][0] = (float)(i % 60) - 6;
    run("t1_fetch", tex, &s[0][0], got);
    for (int i = 0; i < N; i++) {
        int k = i % 60 - 6;
        bool in = k >= 0 && k < 48;

        assert_true(got[i][0] == (in ? data[2 * k] : 0));
        assert_true(got[i][1] == (in ? data[2 * k + 1] : 0));
    }
    OK(cuTexObjectDestroy(tex));
    res = (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_PITCH2D};
    res.res.pitch2D.devPtr = p;
    res.res.pitch2D.format = CU_AD_FORMAT_FLOAT;
    res.res.pitch2D.numChannels = 1;
    res.res.pitch2D.width = 13;
    res.res.pitch2D.height = 6;
    res.res.pitch2D.pitchInBytes = 64;
    OK(cuTexObjectCreate(&tex, &res, &t, NULL));
    s[0][0] = 3.5f;
    s[0][1] = 2.5f; /* the middle of an element */
    s[1][0] = 4.0f;
    s[1][1] = 3.0f; /* between four */
    run("t2", tex, &s[0][0], got);
    assert_true(got[0][0] == data[2 * 16 + 3]);
    assert_true(fabsf(got[1][0] - (data[35] + data[36] + data[51] + data[52]) / 4) < 1e-4f);
    OK(cuTexObjectDestroy(tex));
    OK(cuMemFree_v2(p));
}

/* ---- surfaces ---- */

static void surface(const char *kernel, CUDA_ARRAY3D_DESCRIPTOR d, size_t eb)
{
    size_t h = d.Height ? d.Height : 1, z = d.Depth ? d.Depth : 1, n = d.Width * h * z;
    uint8_t *in = calloc(n, eb * d.NumChannels), *out = calloc(n, eb * d.NumChannels);
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_ARRAY};
    int w = (int)d.Width, hh = (int)h;
    CUsurfObject s;
    CUfunction f;
    void *args[] = {&s, &w, &hh};

    d.Flags |= CUDA_ARRAY3D_SURFACE_LDST;
    OK(cuArray3DCreate_v2(&res.res.array.hArray, &d));
    for (size_t i = 0; i < n * eb * d.NumChannels; i++)
        in[i] = (uint8_t)rnd();
    CUDA_MEMCPY3D m = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = in,
                       .dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = res.res.array.hArray,
                       .WidthInBytes = d.Width * eb * d.NumChannels, .Height = h, .Depth = z};
    OK(cuMemcpy3D_v2(&m));
    OK(cuSurfObjectCreate(&s, &res));
    OK(cuModuleGetFunction(&f, module, kernel));
    OK(cuLaunchKernel(f, (unsigned)(d.Width + 31) / 32, (unsigned)h, (unsigned)z, 32, 1, 1, 0, NULL,
                      args, NULL));
    CUDA_MEMCPY3D b = {.dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = out,
                       .srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = res.res.array.hArray,
                       .WidthInBytes = m.WidthInBytes, .Height = h, .Depth = z};
    OK(cuMemcpy3D_v2(&b));
    for (size_t i = 0; i < n; i++) {
        uint64_t v = 0, got = 0, mask = eb * d.NumChannels == 8 ? ~0ull : (1ull << 8 * eb) - 1;

        memcpy(&v, in + i * eb * d.NumChannels, eb * d.NumChannels);
        memcpy(&got, out + i * eb * d.NumChannels, eb * d.NumChannels);
        assert_int_equal(got, (3 * v + 1) & mask);
    }
    OK(cuSurfObjectDestroy(s));
    OK(cuArrayDestroy(res.res.array.hArray));
    free(in);
    free(out);
}

static void test_surfaces(void **state)
{
    const CUarray_format u32 = CU_AD_FORMAT_UNSIGNED_INT32;

    (void)state;
    surface("s1_u32", (CUDA_ARRAY3D_DESCRIPTOR){77, 0, 0, u32, 1, 0}, 4);
    surface("s2_u8", (CUDA_ARRAY3D_DESCRIPTOR){77, 5, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0}, 1);
    surface("s2_u16", (CUDA_ARRAY3D_DESCRIPTOR){77, 5, 0, CU_AD_FORMAT_UNSIGNED_INT16, 1, 0}, 2);
    surface("s3_u32", (CUDA_ARRAY3D_DESCRIPTOR){33, 5, 3, u32, 1, 0}, 4);
    surface("sa1_u32", (CUDA_ARRAY3D_DESCRIPTOR){33, 0, 3, u32, 1, CUDA_ARRAY3D_LAYERED}, 4);
    surface("sa2_u32", (CUDA_ARRAY3D_DESCRIPTOR){33, 5, 3, u32, 1, CUDA_ARRAY3D_LAYERED}, 4);
    surface("sc_u32", (CUDA_ARRAY3D_DESCRIPTOR){12, 12, 6, u32, 1, CUDA_ARRAY3D_CUBEMAP}, 4);
    surface("s2_u64", (CUDA_ARRAY3D_DESCRIPTOR){33, 5, 0, u32, 2, 0}, 4);
}

/* What happens out of bounds; a context of its own, for one of the modes ends it. */
static void test_surface_bounds(void **state)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {4, 3, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1,
                                 CUDA_ARRAY3D_SURFACE_LDST};
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_ARRAY};
    CUcontext c = ctx_begin();
    uint32_t data[12], got;
    CUdeviceptr o;
    CUsurfObject s;
    CUmodule m;
    CUfunction f;
    int x, y, mode;
    void *args[] = {&s, &o, &x, &y, &mode};

    (void)state;
    for (uint32_t i = 0; i < 12; i++)
        data[i] = 100 + i;
    OK(cuModuleLoad(&m, ptx_path));
    OK(cuModuleGetFunction(&f, m, "bounds"));
    OK(cuMemAlloc_v2(&o, 4));
    OK(cuArray3DCreate_v2(&res.res.array.hArray, &d));
    CUDA_MEMCPY2D up = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = data,
                        .dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = res.res.array.hArray,
                        .WidthInBytes = 16, .Height = 3};
    OK(cuMemcpy2D_v2(&up));
    OK(cuSurfObjectCreate(&s, &res));
    mode = 2;
    x = 16;
    y = 1;
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    OK(cuMemcpyDtoH_v2(&got, o, 4));
    assert_int_equal(got, 0);
    mode = 1;
    y = 7; /* the last element */
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    OK(cuMemcpyDtoH_v2(&got, o, 4));
    assert_int_equal(got, 111);
    CUDA_MEMCPY2D down = {.dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = data,
                          .srcMemoryType = CU_MEMORYTYPE_ARRAY,
                          .srcArray = res.res.array.hArray, .WidthInBytes = 16, .Height = 3};
    OK(cuMemcpy2D_v2(&down));
    for (uint32_t i = 0; i < 12; i++)
        assert_int_equal(data[i], i == 11 ? 1000 : 100 + i);
    mode = 0;
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    IS(cuCtxSynchronize(), LAUNCH_FAILED);
    cuCtxDestroy_v2(c);
    OK(cuCtxSetCurrent(context));
}

/* ---- handles ---- */

static void bad_handle(CUtexObject h)
{
    CUcontext c = ctx_begin();
    CUdeviceptr p;
    CUmodule m;
    CUfunction f;
    int n = 1;
    void *args[] = {&h, &p, &p, &n};

    OK(cuModuleLoad(&m, ptx_path));
    OK(cuModuleGetFunction(&f, m, "t2"));
    OK(cuMemAlloc_v2(&p, 64));
    OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, args, NULL));
    IS(cuCtxSynchronize(), ILLEGAL_ADDRESS);
    cuCtxDestroy_v2(c);
    OK(cuCtxSetCurrent(context));
}

static void test_handles(void **state)
{
    struct ref r = {.w = 4, .h = 4, .d = 1, .dims = 2, .levels = 1, .channels = 1,
                    .format = CU_AD_FORMAT_FLOAT};

    (void)state;
    bad_handle(0);
    bad_handle(~0ull);
    bad_handle((CUtexObject)(uintptr_t)&r);
    make(&r);
    bad_handle(r.tex); /* of another context */
    bad_handle((CUtexObject)(uintptr_t)r.array);
    drop(&r);
    bad_handle(r.tex);
}

static void CUDA_CB until_open(void *flag)
{
    while (!__atomic_load_n((int *)flag, __ATOMIC_ACQUIRE))
        sched_yield();
}

/* What was issued before an object or array went away has it. */
static void test_destroyed_later(void **state)
{
    static float s[N][4], got[N][4];
    struct ref r = {.w = 4, .h = 4, .d = 1, .dims = 2, .levels = 1, .channels = 1,
                    .format = CU_AD_FORMAT_FLOAT};
    CUDA_TEXTURE_DESC t;
    CUdeviceptr c, o;
    CUfunction f;
    CUstream stream;
    int n = N, open = 0;
    void *args[] = {&r.tex, &c, &o, &n};

    (void)state;
    make(&r);
    for (int i = 0; i < N; i++)
        s[i][0] = s[i][1] = (float)(i % 4) + 0.5f;
    OK(cuModuleGetFunction(&f, module, "t2"));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc_v2(&c, N * 16));
    OK(cuMemAlloc_v2(&o, N * 16));
    OK(cuMemcpyHtoD_v2(c, s, N * 16));
    OK(cuLaunchHostFunc(stream, until_open, &open));
    OK(cuLaunchKernel(f, (N + 127) / 128, 1, 1, 128, 1, 1, 0, stream, args, NULL));
    OK(cuTexObjectDestroy(r.tex));
    OK(cuArrayDestroy(r.array));
    IS(cuTexObjectDestroy(r.tex), INVALID_VALUE);
    IS(cuTexObjectGetTextureDesc(&t, r.tex), INVALID_VALUE);
    __atomic_store_n(&open, 1, __ATOMIC_RELEASE);
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH_v2(got, o, N * 16));
    for (int i = 0; i < N; i++)
        assert_true(got[i][0] == r.data[0][(i % 4 * 4 + i % 4) * 4]);
    free(r.data[0]);
    OK(cuMemFree_v2(c));
    OK(cuMemFree_v2(o));
    OK(cuStreamDestroy_v2(stream));
    bad_handle(r.tex);
}

int main(void)
{
    const struct CMUnitTest compiled[] = {
        cmocka_unit_test(test_modes), cmocka_unit_test(test_layers),
        cmocka_unit_test(test_levels), cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_cubes), cmocka_unit_test(test_seamless),
        cmocka_unit_test(test_gather), cmocka_unit_test(test_integers),
        cmocka_unit_test(test_memory), cmocka_unit_test(test_surfaces),
        cmocka_unit_test(test_surface_bounds), cmocka_unit_test(test_handles),
        cmocka_unit_test(test_destroyed_later),
    };

    if (!*ptx_path) {
        printf("[  SKIPPED ] sg_tex_test\nnot run: sg_tex_test: there is no nvcc\n"
               "[  SKIPPED ] sg_tex_test\n");
        return 0;
    }
    return cmocka_run_group_tests(compiled, setup, teardown) != 0;
}
