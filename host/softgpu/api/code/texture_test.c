/* SPDX-License-Identifier: MIT */
/* Texture and surface objects and references: descriptors, refusals. */
#include <time.h>

#include "api/api_test.h"

static CUarray make(size_t w, size_t h, size_t d, CUarray_format f, unsigned ch, unsigned flags)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = {w, h, d, f, ch, flags};
    CUarray a;

    OK(cuArray3DCreate_v2(&a, &desc));
    return a;
}

static CUresult create(const CUDA_RESOURCE_DESC *r, CUDA_TEXTURE_DESC t, const CUDA_RESOURCE_VIEW_DESC *v)
{
    CUtexObject o;
    CUresult rc = cuTexObjectCreate(&o, r, &t, v);

    if (rc == CUDA_SUCCESS)
        OK(cuTexObjectDestroy(o));
    return rc;
}

static void test_texture_objects(void **state)
{
    CUcontext c = ctx_begin();
    CUDA_RESOURCE_DESC r = {.resType = CU_RESOURCE_TYPE_ARRAY}, rr;
    CUDA_TEXTURE_DESC t = {.addressMode = {CU_TR_ADDRESS_MODE_MIRROR, CU_TR_ADDRESS_MODE_WRAP, 0},
                           .filterMode = CU_TR_FILTER_MODE_LINEAR,
                           .flags = CU_TRSF_NORMALIZED_COORDINATES,
                           .maxAnisotropy = 3},
                      tt;
    CUDA_RESOURCE_VIEW_DESC v;
    CUtexObject o;
    CUdeviceptr p;

    (void)state;
    r.res.array.hArray = make(16, 8, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0);
    OK(cuTexObjectCreate(&o, &r, &t, NULL));
    OK(cuTexObjectGetResourceDesc(&rr, o));
    assert_memory_equal(&r, &rr, sizeof(r));
    OK(cuTexObjectGetTextureDesc(&tt, o));
    assert_memory_equal(&t, &tt, sizeof(t));
    IS(cuTexObjectGetResourceViewDesc(&v, o), INVALID_VALUE);
    IS(cuTexObjectGetTextureDesc(NULL, o), INVALID_VALUE);
    IS(cuSurfObjectGetResourceDesc(&rr, o), INVALID_VALUE);
    OK(cuTexObjectDestroy(o));
    IS(cuTexObjectDestroy(o), INVALID_VALUE);
    OK(cuTexObjectDestroy(0));
    OK(cuSurfObjectDestroy(0));
    IS(cuTexObjectGetResourceDesc(&rr, o), INVALID_VALUE);
    IS(cuTexObjectCreate(NULL, &r, &t, NULL), INVALID_VALUE);
    IS(cuTexObjectCreate(&o, NULL, &t, NULL), INVALID_VALUE);
    IS(cuTexObjectCreate(&o, &r, NULL, NULL), INVALID_VALUE);

    tt = t;
    tt.addressMode[1] = (CUaddress_mode)4;
    IS(create(&r, tt, NULL), INVALID_VALUE);
    tt = t;
    tt.filterMode = (CUfilter_mode)2;
    IS(create(&r, tt, NULL), INVALID_VALUE);
    tt = t;
    tt.flags = 0x80;
    IS(create(&r, tt, NULL), INVALID_VALUE);
    tt.flags = CU_TRSF_READ_AS_INTEGER; /* with linear filtering */
    OK(create(&r, tt, NULL));
    tt.filterMode = CU_TR_FILTER_MODE_POINT;
    OK(create(&r, tt, NULL));
    tt.flags = CU_TRSF_SEAMLESS_CUBEMAP;
    IS(create(&r, tt, NULL), INVALID_VALUE);
    rr = r;
    rr.flags = 1;
    IS(create(&rr, t, NULL), INVALID_VALUE);
    rr = r;
    rr.resType = (CUresourcetype)7;
    IS(create(&rr, t, NULL), INVALID_VALUE);
    rr = r;
    rr.res.array.hArray = (CUarray)c;
    IS(create(&rr, t, NULL), INVALID_VALUE);
    rr.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    IS(create(&rr, t, NULL), INVALID_VALUE);

    OK(cuMemAlloc_v2(&p, 4096));
    rr = (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_LINEAR,
                              .res.linear = {p, CU_AD_FORMAT_FLOAT, 2, 4096}};
    OK(create(&rr, t, NULL));
    rr.res.linear.devPtr = p + 4;
    IS(create(&rr, t, NULL), INVALID_VALUE);
    rr.res.linear.devPtr = p;
    rr.res.linear.sizeInBytes = 4104; /* behind the memory: fetches there fault */
    OK(create(&rr, t, NULL));
    rr.res.linear.devPtr = 512;
    IS(create(&rr, t, NULL), INVALID_VALUE);
    rr.res.linear.devPtr = p;
    rr.res.linear.sizeInBytes = 4;
    IS(create(&rr, t, NULL), INVALID_VALUE);
    rr.res.linear.devPtr = 0;
    IS(create(&rr, t, NULL), INVALID_VALUE);
    rr = (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_PITCH2D,
                              .res.pitch2D = {p, CU_AD_FORMAT_HALF, 1, 32, 64, 64}};
    OK(create(&rr, t, NULL));
    rr.res.pitch2D.height = 65;
    IS(create(&rr, t, NULL), INVALID_VALUE);
    rr.res.pitch2D.height = 8;
    rr.res.pitch2D.pitchInBytes = 60;
    IS(create(&rr, t, NULL), INVALID_VALUE);
    rr.res.pitch2D.pitchInBytes = 32;
    IS(create(&rr, t, NULL), INVALID_VALUE);
    ctx_end(c);
}

static void test_texture_views(void **state)
{
    CUcontext c = ctx_begin();
    CUDA_ARRAY3D_DESCRIPTOR d = {16, 16, 6, CU_AD_FORMAT_UNSIGNED_INT8, 4, CUDA_ARRAY3D_LAYERED};
    CUDA_RESOURCE_DESC r = {.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY};
    CUDA_TEXTURE_DESC t = {.flags = CU_TRSF_NORMALIZED_COORDINATES};
    CUDA_RESOURCE_VIEW_DESC v = {.format = CU_RES_VIEW_FORMAT_UINT_1X32,
                                 .width = 16,
                                 .height = 16,
                                 .depth = 6,
                                 .firstMipmapLevel = 1,
                                 .lastMipmapLevel = 3,
                                 .firstLayer = 2,
                                 .lastLayer = 5},
                            got, w;
    CUtexObject o;

    (void)state;
    OK(cuMipmappedArrayCreate(&r.res.mipmap.hMipmappedArray, &d, 5));
    OK(cuTexObjectCreate(&o, &r, &t, &v));
    OK(cuTexObjectGetResourceViewDesc(&got, o));
    assert_memory_equal(&v, &got, sizeof(v));
    t.flags = 0; /* mipmapped arrays need normalized coordinates */
    IS(create(&r, t, NULL), INVALID_VALUE);
    t.flags = CU_TRSF_NORMALIZED_COORDINATES;
    w = v;
    w.lastMipmapLevel = 5;
    IS(create(&r, t, &w), INVALID_VALUE);
    w = v;
    w.lastLayer = 6;
    IS(create(&r, t, &w), INVALID_VALUE);
    w = v;
    w.width = 8;
    IS(create(&r, t, &w), INVALID_VALUE);
    w = v;
    w.format = CU_RES_VIEW_FORMAT_UINT_2X32;
    IS(create(&r, t, &w), INVALID_VALUE);
    w.format = CU_RES_VIEW_FORMAT_UNSIGNED_BC1;
    IS(create(&r, t, &w), NOT_SUPPORTED);
    w.format = (CUresourceViewFormat)0x30;
    IS(create(&r, t, &w), INVALID_VALUE);
    ctx_end(c);
}

static void test_surface_objects(void **state)
{
    CUcontext c = ctx_begin();
    CUDA_RESOURCE_DESC r = {.resType = CU_RESOURCE_TYPE_ARRAY}, got;
    CUsurfObject s;
    CUdeviceptr p;

    (void)state;
    r.res.array.hArray = make(16, 8, 0, CU_AD_FORMAT_FLOAT, 1, 0);
    OK(cuSurfObjectCreate(&s, &r)); /* CUDA_ARRAY3D_SURFACE_LDST is for references */
    OK(cuSurfObjectDestroy(s));
    r.res.array.hArray = make(16, 8, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SURFACE_LDST);
    OK(cuSurfObjectCreate(&s, &r));
    OK(cuSurfObjectGetResourceDesc(&got, s));
    assert_memory_equal(&r, &got, sizeof(r));
    IS(cuTexObjectDestroy(s), INVALID_VALUE);
    OK(cuSurfObjectDestroy(s));
    IS(cuSurfObjectDestroy(s), INVALID_VALUE);
    IS(cuSurfObjectCreate(NULL, &r), INVALID_VALUE);
    IS(cuSurfObjectCreate(&s, NULL), INVALID_VALUE);
    OK(cuMemAlloc_v2(&p, 4096));
    r = (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_LINEAR,
                             .res.linear = {p, CU_AD_FORMAT_FLOAT, 2, 4096}};
    IS(cuSurfObjectCreate(&s, &r), INVALID_VALUE);
    ctx_end(c);
}

#define RETIRED 8000u
#define MEASURED 1000u

/* Makes n objects that are destroyed at once; returns processor time of the best fifth, seconds. */
static double pairs(const CUDA_RESOURCE_DESC *r, unsigned n)
{
    const CUDA_TEXTURE_DESC t = {0};
    double best = 1e9;

    for (unsigned k = 0; k < 5; k++) {
        struct timespec a, b;
        double took;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
        for (unsigned i = 0; i < n / 5; i++)
            OK(create(r, t, NULL));
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
        took = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
        best = took < best ? took : best;
    }
    return best;
}

/* Cost of a call is independent of the number of retired objects; all end when the work is complete. */
static void test_retired_objects(void **state)
{
    CUcontext c = ctx_begin(), other;
    CUDA_RESOURCE_DESC r = {.resType = CU_RESOURCE_TYPE_ARRAY};
    struct gate g = {0};
    size_t before, after, total;
    double few, many;
    CUstream s;

    (void)state;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuMemGetInfo_v2(&before, &total));
    r.res.array.hArray = make(16, 8, 0, CU_AD_FORMAT_FLOAT, 1, 0);
    OK(cuLaunchHostFunc(s, gate_wait, &g));
    few = pairs(&r, MEASURED);
    pairs(&r, RETIRED - 2 * MEASURED);
    many = pairs(&r, MEASURED);
    if (many > 4 * few)
        fail_msg("%.1f us a call instead of %.1f", many * 5e6 / MEASURED, few * 5e6 / MEASURED);
    OK(cuArrayDestroy(r.res.array.hArray)); /* the objects keep its memory */
    OK(cuMemGetInfo_v2(&after, &total));
    assert_true(after < before);
    gate_open(&g);
    OK(cuStreamSynchronize(s));
    OK(cuCtxCreate_v2(&other, 0, 0)); /* a call in any context looks at them */
    r.res.array.hArray = make(16, 8, 0, CU_AD_FORMAT_FLOAT, 1, 0);
    pairs(&r, 5);
    OK(cuArrayDestroy(r.res.array.hArray));
    OK(cuMemGetInfo_v2(&after, &total));
    assert_int_equal(after, before);
    OK(cuCtxDestroy_v2(other));
    OK(cuCtxSetCurrent(c));
    OK(cuStreamDestroy_v2(s));
    ctx_end(c);
}

const struct CMUnitTest tex_tests[] = {
    cmocka_unit_test(test_texture_objects),
    cmocka_unit_test(test_texture_views),
    cmocka_unit_test(test_surface_objects),
    cmocka_unit_test(test_retired_objects),
};
const size_t n_tex_tests = sizeof(tex_tests) / sizeof(tex_tests[0]);
