/* SPDX-License-Identifier: MIT */
/*
 * Textures and surfaces as kernels see them: what nvcc makes of tests-ptx/tex.cu, compared with a
 * reference of its own that follows the formulas of CUDA C++ Programming Guide, "Texture Fetching",
 * coordinate by coordinate (the code under test works with indices).
 */
#include <math.h>
#include <sched.h>

#include "api/code/texture_model_test.h"

#define N 700

CUmodule module;
CUcontext context;
const char *ptx_path = SG_TEX_PTX;

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

static void close_to(const char *what, int i, const float *s, const float got[4], const double want[4])
{
    for (int c = 0; c < 4; c++) {
        if (fabs(got[c] - want[c]) > 2e-5 * fmax(1, fabs(want[c])))
            fail_msg("%s sample %d (%g, %g, %g, %g) channel %d: %.9g, expected %.9g", what, i, (double)s[0],
                     (double)s[1], (double)s[2], (double)s[3], c, (double)got[c], want[c]);
    }
}

enum fourth { NOTHING, LAYER, LOD };

static void compare(struct tex_ref *r, const char *kernel, enum fourth w)
{
    bool norm = r->t.flags & CU_TRSF_NORMALIZED_COORDINATES;
    static float s[N][4], got[N][4];
    double want[4];

    for (int i = 0; i < N; i++) {
        const size_t n[3] = {r->w, r->h, r->d};

        for (int k = 0; k < 3; k++) {
            float size = norm ? 1.0f : (float)n[k];

            s[i][k] = ref_rndf(-1.5f * size, 2.5f * size);
            if (i % 7 == 0) /* middles and edges of elements */
                s[i][k] =
                    (float)((int)(ref_rnd() % (2 * (unsigned)n[k] + 1))) * 0.5f / (norm ? (float)n[k] : 1.0f);
        }
        s[i][3] = w == LOD ? ref_rndf(-1, (float)r->levels + 1) : (float)(int)(ref_rnd() % (r->d + 2)) - 1;
    }
    run(kernel, r->tex, &s[0][0], got);
    for (int i = 0; i < N; i++) {
        float layer = fminf(fmaxf(s[i][3], 0), (float)r->d - 1);

        ref_expected(r, s[i], w == LOD ? s[i][3] : 0,
                     w == LAYER               ? (size_t)layer
                     : w == LOD && r->layered ? 1
                                              : 0,
                     want);
        close_to(kernel, i, s[i], got[i], want);
    }
}

static const CUarray_format float_formats[] = {CU_AD_FORMAT_FLOAT,          CU_AD_FORMAT_UNSIGNED_INT8,
                                               CU_AD_FORMAT_SIGNED_INT8,    CU_AD_FORMAT_HALF,
                                               CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_SIGNED_INT16};

/* Every address mode, filter, kind of coordinate and format, in 1, 2 and 3 dimensions. */
static void test_modes(void **state)
{
    static const char *const kernels[] = {"t1", "t2", "t3"};

    (void)state;
    for (int dims = 1; dims <= 3; dims++) {
        for (unsigned m = 0; m < 16; m++) {
            struct tex_ref r = {.w = 13,
                                .h = dims > 1 ? 6 : 1,
                                .d = dims > 2 ? 5 : 1,
                                .dims = dims,
                                .levels = 1,
                                .channels = 1 << m % 3,
                                .format = float_formats[(m + (unsigned)dims) % 6]};

            for (int k = 0; k < 3; k++)
                r.t.addressMode[k] = (CUaddress_mode)((m + (unsigned)k) & 3);
            r.t.filterMode = m & 4 ? CU_TR_FILTER_MODE_LINEAR : CU_TR_FILTER_MODE_POINT;
            r.t.flags = m & 8 ? CU_TRSF_NORMALIZED_COORDINATES : 0;
            for (int c = 0; c < 4; c++)
                r.t.borderColor[c] = 0.25f * (float)c - 0.5f;
            ref_make(&r);
            compare(&r, kernels[dims - 1], NOTHING);
            if (dims == 2)
                compare(&r, "t2_resident", NOTHING);
            ref_drop(&r);
        }
    }
}

static void test_layers(void **state)
{
    (void)state;
    for (int dims = 1; dims <= 2; dims++) {
        for (int lin = 0; lin < 2; lin++) {
            struct tex_ref r = {.w = 9,
                                .h = dims > 1 ? 7 : 1,
                                .d = 4,
                                .dims = dims,
                                .levels = 1,
                                .channels = 2,
                                .layered = true,
                                .format = CU_AD_FORMAT_FLOAT};

            r.t.filterMode = (CUfilter_mode)lin;
            r.t.flags = CU_TRSF_NORMALIZED_COORDINATES;
            ref_make(&r);
            compare(&r, dims == 1 ? "ta1" : "ta2", LAYER);
            ref_drop(&r);
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
            struct tex_ref r = {.w = 24,
                                .h = dims > 1 ? 16 : 1,
                                .d = which == 3 ? 3
                                     : dims > 2 ? 8
                                                : 1,
                                .dims = dims,
                                .levels = 4,
                                .channels = 4,
                                .layered = which == 3,
                                .format = float_formats[m % 6]};

            r.t.filterMode = (CUfilter_mode)(m & 1);
            r.t.mipmapFilterMode = (CUfilter_mode)(m >> 1 & 1);
            r.t.maxMipmapLevelClamp = m & 4 ? 2.3f : 100;
            r.t.minMipmapLevelClamp = m & 4 ? 0.6f : 0;
            r.t.mipmapLevelBias = m & 4 ? -0.25f : 0;
            r.t.flags = CU_TRSF_NORMALIZED_COORDINATES;
            ref_make(&r);
            compare(&r, kernels[which], LOD);
            ref_drop(&r);
        }
    }
}

/* The level follows from the derivatives: steps of 2^k elements are level k. */
static void test_gradients(void **state)
{
    static float s[N][4], got[N][4];
    double want[4];
    struct tex_ref r = {.w = 32,
                        .h = 32,
                        .d = 1,
                        .dims = 2,
                        .levels = 5,
                        .channels = 1,
                        .format = CU_AD_FORMAT_FLOAT,
                        .t = {.flags = CU_TRSF_NORMALIZED_COORDINATES, .maxMipmapLevelClamp = 10}};

    (void)state;
    ref_make(&r);
    for (int i = 0; i < N; i++) {
        s[i][0] = ref_rndf(0, 1);
        s[i][1] = ref_rndf(0, 1);
        s[i][2] = (float)(1 << i % 7) / 64; /* half an element to a whole side */
        s[i][3] = (float)(1 << i / 7 % 7) / 64;
    }
    run("t2_grad", r.tex, &s[0][0], got);
    for (int i = 0; i < N; i++) {
        ref_expected(&r, s[i], log2(fmax(s[i][2], s[i][3]) * 32), 0, want);
        close_to("t2_grad", i, s[i], got[i], want);
    }
    ref_drop(&r);
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
        struct tex_ref r = {
            .w = 8,
            .h = 8,
            .d = layered ? 18 : 6,
            .dims = 2,
            .levels = 1,
            .channels = 4,
            .layered = layered,
            .cube = true,
            .format = CU_AD_FORMAT_FLOAT,
            .t = {.filterMode = (CUfilter_mode)(m & 1), .flags = CU_TRSF_NORMALIZED_COORDINATES}};

        ref_make(&r);
        for (int i = 0; i < N; i++) {
            for (int k = 0; k < 3; k++)
                s[i][k] = ref_rndf(-3, 3);
            s[i][3] = (float)(int)(ref_rnd() % 5) - 1;
        }
        run(layered ? "tacube" : "tcube", r.tex, &s[0][0], got);
        for (int i = 0; i < N; i++) {
            float layer = fminf(fmaxf(s[i][3], 0), 2);
            size_t slice = face_of(s[i], &p[0], &p[1]) + (layered ? 6 * (size_t)layer : 0);
            double x[3] = {p[0] * 8, p[1] * 8, 0};

            ref_one_level(&r, 0, x, slice, want);
            close_to("cube", i, s[i], got[i], want);
        }
        ref_drop(&r);
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
                                         {a, -1, -b}, {a, -b, 1},  {-a, -b, -1}};

                memcpy(faces[f][j][i], dir[f], sizeof(dir[f]));
            }
        }
    }
    OK(cuArray3DCreate_v2(&res.res.array.hArray, &d));
    CUDA_MEMCPY3D m = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcHost = faces,
                       .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                       .dstArray = res.res.array.hArray,
                       .WidthInBytes = 256,
                       .Height = 16,
                       .Depth = 6};
    OK(cuMemcpy3D_v2(&m));
    OK(cuTexObjectCreate(&tex, &res, &t, NULL));
    for (int i = 0; i < N; i++) { /* around the edge between +x and +z, and near corners */
        float e = ref_rndf(-0.06f, 0.06f);

        s[i][0] = e < 0 ? 1 : 1 - e;
        s[i][2] = e < 0 ? 1 + e : 1;
        s[i][1] = i % 3 ? ref_rndf(-0.9f, 0.9f) : ref_rndf(0.95f, 1) * (i & 1 ? 1.0f : -1.0f);
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
    struct tex_ref r = {.w = 9,
                        .h = 5,
                        .d = 1,
                        .dims = 2,
                        .levels = 1,
                        .channels = 4,
                        .format = CU_AD_FORMAT_FLOAT,
                        .t = {.addressMode = {CU_TR_ADDRESS_MODE_WRAP, CU_TR_ADDRESS_MODE_MIRROR},
                              .flags = CU_TRSF_NORMALIZED_COORDINATES}};

    (void)state;
    ref_make(&r);
    for (int i = 0; i < N; i++) {
        s[i][0] = ref_rndf(-1, 2);
        s[i][1] = ref_rndf(-1, 2);
    }
    for (int comp = 0; comp < 4; comp += 3) {
        run(comp ? "g3" : "g0", r.tex, &s[0][0], got);
        for (int i = 0; i < N; i++) {
            for (int k = 0; k < 4; k++) {
                double p[3] = {floor(s[i][0] * 9.0 - 0.5) + corner[k][0] + 0.5,
                               floor(s[i][1] * 5.0 - 0.5) + corner[k][1] + 0.5, 0};

                ref_texel(&r, 0, p, 0, v);
                want[k] = v[comp];
            }
            close_to("gather", i, s[i], got[i], want);
        }
    }
    ref_drop(&r);
}

/* Integers that stay integers, of every width and sign: not filtered, whatever the object says. */
static void test_integers(void **state)
{
    static const CUarray_format formats[] = {CU_AD_FORMAT_UNSIGNED_INT8,  CU_AD_FORMAT_SIGNED_INT8,
                                             CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_SIGNED_INT16,
                                             CU_AD_FORMAT_UNSIGNED_INT32, CU_AD_FORMAT_SIGNED_INT32};
    static float s[N][4];
    static int32_t got[N][4];
    double want[4];

    (void)state;
    for (int n = 0; n < 12; n++) {
        const int f = n % 6;
        struct tex_ref r = {.w = 11,
                            .h = 4,
                            .d = 1,
                            .dims = 2,
                            .levels = 1,
                            .channels = 4,
                            .format = formats[f],
                            .t = {.flags = CU_TRSF_READ_AS_INTEGER}};

        r.t.addressMode[0] = CU_TR_ADDRESS_MODE_BORDER;
        for (int c = 0; c < 4; c++) /* of both signs where there are two */
            r.t.borderColor[c] = (float)((f & 1 ? -100 : 0) + 70 * c);
        r.t.filterMode = n < 6 ? CU_TR_FILTER_MODE_POINT : CU_TR_FILTER_MODE_LINEAR;
        ref_make(&r);
        r.t.filterMode = CU_TR_FILTER_MODE_POINT; /* the object has its own copy */
        for (int i = 0; i < N; i++) {
            s[i][0] = ref_rndf(-4, 15);
            s[i][1] = ref_rndf(-4, 8);
        }
        run(f & 1 ? "t2_i" : "t2_u", r.tex, &s[0][0], got);
        for (int i = 0; i < N; i++) {
            ref_expected(&r, s[i], 0, 0, want);
            for (int c = 0; c < 4; c++)
                assert_int_equal(got[i][c], (int32_t)want[c]);
        }
        ref_drop(&r);
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
    struct tex_ref r = {
        .w = 4, .h = 4, .d = 1, .dims = 2, .levels = 1, .channels = 1, .format = CU_AD_FORMAT_FLOAT};

    (void)state;
    bad_handle(0);
    bad_handle(~0ull);
    bad_handle((CUtexObject)(uintptr_t)&r);
    ref_make(&r);
    bad_handle(r.tex); /* of another context */
    bad_handle((CUtexObject)(uintptr_t)r.array);
    ref_drop(&r);
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
    struct tex_ref r = {
        .w = 4, .h = 4, .d = 1, .dims = 2, .levels = 1, .channels = 1, .format = CU_AD_FORMAT_FLOAT};
    CUDA_TEXTURE_DESC t;
    CUdeviceptr c, o;
    CUfunction f;
    CUstream stream;
    int n = N, open = 0;
    void *args[] = {&r.tex, &c, &o, &n};

    (void)state;
    ref_make(&r);
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
        cmocka_unit_test(test_modes),           cmocka_unit_test(test_layers),
        cmocka_unit_test(test_levels),          cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_cubes),           cmocka_unit_test(test_seamless),
        cmocka_unit_test(test_gather),          cmocka_unit_test(test_integers),
        cmocka_unit_test(test_memory),          cmocka_unit_test(test_surfaces),
        cmocka_unit_test(test_surface_bounds),  cmocka_unit_test(test_handles),
        cmocka_unit_test(test_destroyed_later), cmocka_unit_test(test_views_of_layers),
        cmocka_unit_test(test_views_of_levels),
    };

    if (!*ptx_path) {
        printf("[  SKIPPED ] texture_fetch_test\nnot run: texture_fetch_test: there is no nvcc\n"
               "[  SKIPPED ] texture_fetch_test\n");
        return 0;
    }
    return cmocka_run_group_tests(compiled, setup, teardown) != 0;
}
