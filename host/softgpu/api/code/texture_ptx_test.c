/* SPDX-License-Identifier: MIT */
/*
 * Texture and surface instructions that nvcc does not emit, written by hand: queries, offsets,
 * gathers, halves, formatted stores, reductions, references and samplers of modules; and what is
 * refused. Values follow from contents that are simple functions of the position.
 */
#include "api/api_test.h"

static CUcontext context;

static int setup(void **state)
{
    (void)state;
    if (cuInit(0) != CUDA_SUCCESS)
        return -1;
    return cuCtxCreate_v2(&context, 0, 0) != CUDA_SUCCESS;
}

static int teardown(void **state)
{
    (void)state;
    return cuCtxDestroy_v2(context) != CUDA_SUCCESS;
}

/* A module with one kernel k(handle, out): decls before it, body in it. */
static CUmodule load(const char *target, const char *decls, const char *body)
{
    static char text[16384];
    CUmodule m;
    int n = snprintf(text, sizeof(text),
                     ".version 8.3\n.target %s\n.address_size 64\n%s\n"
                     ".visible .entry k(.param .u64 p0, .param .u64 p1)\n{\n"
                     ".reg .pred %%p<8>;\n.reg .b16 %%h<8>;\n.reg .b32 %%r<32>;\n"
                     ".reg .f32 %%f<32>;\n.reg .b64 %%rd<16>;\n"
                     "ld.param.u64 %%rd1, [p0];\nld.param.u64 %%rd2, [p1];\n"
                     "mov.u32 %%r0, %%tid.x;\nmul.wide.u32 %%rd3, %%r0, 64;\n"
                     "add.u64 %%rd2, %%rd2, %%rd3;\n%s\nret;\n}\n",
                     target, decls, body);

    assert_true(n > 0 && n < (int)sizeof(text));
    OK(cuModuleLoadData(&m, text));
    return m;
}

/* Runs k over 32 lanes; each has 16 words of results. */
static CUresult run(CUmodule m, uint64_t handle, uint32_t out[32][16])
{
    CUdeviceptr p;
    CUfunction f;
    CUresult r;
    void *args[] = {&handle, &p};

    OK(cuModuleGetFunction(&f, m, "k"));
    OK(cuMemAlloc_v2(&p, 32 * 64));
    r = cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, args, NULL);
    if (r == CUDA_SUCCESS)
        r = cuMemcpyDtoH_v2(out, p, 32 * 64);
    if (r == CUDA_SUCCESS)
        OK(cuMemFree_v2(p));
    return r;
}

/* An array of 8 x 4 (x depth) elements; channel c of (x, y, z) is 100 z + 10 y + x + c / 4. */
static CUarray pattern(CUDA_ARRAY3D_DESCRIPTOR d)
{
    static float f[8 * 8 * 8 * 4];
    size_t h = d.Height ? d.Height : 1, z = d.Depth ? d.Depth : 1, n = 0;
    CUarray a;

    for (size_t k = 0; k < z; k++) {
        for (size_t j = 0; j < h; j++) {
            for (size_t i = 0; i < d.Width; i++) {
                for (unsigned c = 0; c < d.NumChannels; c++)
                    f[n++] = (float)(100 * k + 10 * j + i) + (float)c * 0.25f;
            }
        }
    }
    OK(cuArray3DCreate_v2(&a, &d));
    CUDA_MEMCPY3D m = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcHost = f,
                       .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                       .dstArray = a,
                       .WidthInBytes = d.Width * 4 * d.NumChannels,
                       .Height = h,
                       .Depth = z};
    OK(cuMemcpy3D_v2(&m));
    return a;
}

static CUtexObject texture(CUarray a, CUDA_TEXTURE_DESC t)
{
    CUDA_RESOURCE_DESC r = {.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = a};
    CUtexObject o;

    OK(cuTexObjectCreate(&o, &r, &t, NULL));
    return o;
}

static CUsurfObject surface(CUarray a)
{
    CUDA_RESOURCE_DESC r = {.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = a};
    CUsurfObject o;

    OK(cuSurfObjectCreate(&o, &r));
    return o;
}

static const CUDA_ARRAY3D_DESCRIPTOR plane = {8, 4, 0, CU_AD_FORMAT_FLOAT, 4, 0};

static float f_of(uint32_t u)
{
    float f;

    memcpy(&f, &u, 4);
    return f;
}

static void test_queries(void **state)
{
    static const char body[] =
        "txq.width.b32 %r1, [%rd1];\ntxq.height.b32 %r2, [%rd1];\ntxq.depth.b32 %r3, [%rd1];\n"
        "txq.channel_data_type.b32 %r4, [%rd1];\ntxq.channel_order.b32 %r5, [%rd1];\n"
        "txq.normalized_coords.b32 %r6, [%rd1];\ntxq.array_size.b32 %r7, [%rd1];\n"
        "txq.num_mipmap_levels.b32 %r8, [%rd1];\ntxq.level.width.b32 %r9, [%rd1], 2;\n"
        "txq.num_samples.b32 %r10, [%rd1];\ntxq.filter_mode.b32 %r11, [%rd1];\n"
        "txq.addr_mode_1.b32 %r12, [%rd1];\n"
        "istypep.texref %p1, %rd1;\nselp.u32 %r13, 1, 0, %p1;\n"
        "istypep.surfref %p1, %rd1;\nselp.u32 %r14, 1, 0, %p1;\n"
        "st.global.v4.u32 [%rd2], {%r1, %r2, %r3, %r4};\n"
        "st.global.v4.u32 [%rd2+16], {%r5, %r6, %r7, %r8};\n"
        "st.global.v4.u32 [%rd2+32], {%r9, %r10, %r11, %r12};\n"
        "st.global.v2.u32 [%rd2+48], {%r13, %r14};";
    static const uint32_t want[14] = {16, 8, 0, 0x10d2, 0x10b5, 1, 3, 5, 4, 1, 1, 2, 1, 0};
    CUDA_ARRAY3D_DESCRIPTOR d = {16, 8, 3, CU_AD_FORMAT_UNSIGNED_INT8, 4, CUDA_ARRAY3D_LAYERED};
    CUDA_RESOURCE_DESC r = {.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY};
    CUDA_TEXTURE_DESC t = {.addressMode = {0, CU_TR_ADDRESS_MODE_MIRROR, 0},
                           .filterMode = CU_TR_FILTER_MODE_LINEAR,
                           .flags = CU_TRSF_NORMALIZED_COORDINATES};
    uint32_t out[32][16];
    CUtexObject o;
    CUmodule m;

    (void)state;
    OK(cuMipmappedArrayCreate(&r.res.mipmap.hMipmappedArray, &d, 5));
    OK(cuTexObjectCreate(&o, &r, &t, NULL));
    m = load("sm_80", "", body);
    OK(run(m, o, out));
    for (int i = 0; i < 14; i++)
        assert_int_equal(out[31][i], want[i]);
    OK(cuModuleUnload(m));

    CUarray a = pattern((CUDA_ARRAY3D_DESCRIPTOR){8, 4, 3, CU_AD_FORMAT_FLOAT, 2, CUDA_ARRAY3D_SURFACE_LDST});
    m = load("sm_80", "",
             "suq.width.b32 %r1, [%rd1];\nsuq.height.b32 %r2, [%rd1];\nsuq.depth.b32 %r3, [%rd1];\n"
             "suq.channel_data_type.b32 %r4, [%rd1];\nsuq.channel_order.b32 %r5, [%rd1];\n"
             "suq.array_size.b32 %r6, [%rd1];\nistypep.surfref %p1, %rd1;\nselp.u32 %r7, 1, 0, %p1;\n"
             "st.global.v4.u32 [%rd2], {%r1, %r2, %r3, %r4};\n"
             "st.global.v2.u32 [%rd2+16], {%r5, %r6};\nst.global.u32 [%rd2+24], %r7;");
    OK(run(m, surface(a), out));
    assert_true(out[0][0] == 8 && out[0][1] == 4 && out[0][2] == 3 && out[0][3] == 0x10de &&
                out[0][4] == 0x10b2 && out[0][5] == 0 && out[0][6] == 1);
    OK(cuModuleUnload(m));
}

/* Offsets of elements, with tex and tld4; a sink; a predicate that says all is there. */
static void test_offsets(void **state)
{
    static const char body[] =
        "cvt.rn.f32.u32 %f1, %r0;\nadd.f32 %f1, %f1, 0f3F000000;\nmov.f32 %f2, 0f3FC00000;\n"
        "tex.2d.v4.f32.f32 {%f3, _, %f4, _}|%p1, [%rd1, {%f1, %f2}], {2, -1};\n"
        "tex.1d.v4.f32.f32 {%f5, %f6, _, _}, [%rd1, {%f1}], {1};\n"
        "tex.level.2d.v4.f32.s32 {%f7, _, _, _}, [%rd1, {%r0, 2}], 0, {-1, 1};\n"
        "mov.f32 %f10, 0f40400000;\n"
        "tld4.g.2d.v4.f32.f32 {%f11, %f12, %f13, %f14}, [%rd1, {%f10, %f2}], {1, 0};\n"
        "selp.f32 %f8, %f4, 0fBF800000, %p1;\n"
        "st.global.v4.f32 [%rd2], {%f3, %f8, %f5, %f6};\nst.global.f32 [%rd2+16], %f7;\n"
        "st.global.v4.f32 [%rd2+32], {%f11, %f12, %f13, %f14};";
    uint32_t out[32][16];
    CUtexObject o =
        texture(pattern(plane),
                (CUDA_TEXTURE_DESC){.addressMode = {CU_TR_ADDRESS_MODE_CLAMP, CU_TR_ADDRESS_MODE_CLAMP, 0}});
    CUmodule m = load("sm_80", "", body);

    (void)state;
    OK(run(m, o, out));
    for (int i = 0; i < 8; i++) {
        float at2 = (float)(i + 2 < 8 ? i + 2 : 7), at1 = (float)(i + 1 < 8 ? i + 1 : 7);

        assert_true(f_of(out[i][0]) == at2 && f_of(out[i][1]) == at2 + 0.5f); /* row 1 - 1 */
        assert_true(f_of(out[i][2]) == at1 && f_of(out[i][3]) == at1 + 0.25f);
        assert_true(f_of(out[i][4]) == 30 + (float)(i ? i - 1 : 0));
        /* around (3 + 1, 1.5): columns 3 and 4, rows 1 and 2; from the lower left, against the
           clock */
        assert_true(f_of(out[i][8]) == 23.25f && f_of(out[i][9]) == 24.25f && f_of(out[i][10]) == 14.25f &&
                    f_of(out[i][11]) == 13.25f);
    }
    OK(cuTexObjectDestroy(o));
    OK(cuModuleUnload(m));
}

/* Halves: four registers of 16 bits, and pairs. A predicate switches lanes off. */
static void test_halves(void **state)
{
    static const char body[] =
        "cvt.rn.f32.u32 %f1, %r0;\nmov.f32 %f2, 0f40200000;\nmov.u32 %r5, 77;\nmov.u32 %r6, 77;\n"
        "setp.lt.u32 %p2, %r0, 4;\n"
        "tex.2d.v4.f16.f32 {%h1, %h2, %h3, %h4}, [%rd1, {%f1, %f2}];\n"
        "@%p2 tex.2d.v2.f16x2.f32 {%r5, %r6}, [%rd1, {%f1, %f2}];\n"
        "mov.b32 %r1, {%h1, %h2};\nmov.b32 %r2, {%h3, %h4};\n"
        "st.global.v4.u32 [%rd2], {%r1, %r2, %r5, %r6};";
    uint32_t out[32][16];
    CUtexObject o = texture(pattern(plane), (CUDA_TEXTURE_DESC){0});
    CUmodule m = load("sm_80", "", body);

    (void)state;
    OK(run(m, o, out));
    /* 23, 23.25, 23.5, 23.75 as halves */
    assert_int_equal(out[3][0], 0x4dd04dc0);
    assert_int_equal(out[3][1], 0x4df04de0);
    assert_int_equal(out[3][2], out[3][0]);
    assert_int_equal(out[3][3], out[3][1]);
    assert_true(out[9][2] == 77 && out[9][3] == 77);
    OK(cuModuleUnload(m));
}

/* sust.p: values become what the format says, with limits. */
static void test_formatted(void **state)
{
    static const char body[] =
        "cvt.s32.u32 %r1, %r0;\nmov.u32 %r2, 300;\nmov.u32 %r3, -5;\nmov.u32 %r4, 17;\n"
        "sust.p.2d.v4.b32.zero [%rd1, {%r1, 1}], {%r2, %r3, %r4, %r1};\n"
        "mul.lo.u32 %r5, %r1, 4;\nsuld.b.2d.v4.b8.zero {%h1, %h2, %h3, %h4}, [%rd1, {%r5, 1}];\n"
        "cvt.u32.u8 %r6, %h1;\ncvt.u32.u8 %r7, %h2;\ncvt.u32.u8 %r8, %h3;\ncvt.u32.u8 %r9, %h4;\n"
        "st.global.v4.u32 [%rd2], {%r6, %r7, %r8, %r9};";
    CUDA_ARRAY3D_DESCRIPTOR d = {8, 4, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, CUDA_ARRAY3D_SURFACE_LDST};
    uint32_t out[32][16];
    CUmodule m = load("sm_80", "", body);
    CUarray a;

    (void)state;
    OK(cuArray3DCreate_v2(&a, &d));
    OK(run(m, surface(a), out));
    assert_true(out[5][0] == 255 && out[5][1] == 255 && out[5][2] == 17 && out[5][3] == 5);
    assert_true(out[8][0] == 0 && out[8][3] == 0); /* out of bounds: dropped, and read as zero */
    d.Format = CU_AD_FORMAT_SIGNED_INT8;
    OK(cuArray3DCreate_v2(&a, &d));
    OK(run(m, surface(a), out));
    assert_true(out[5][0] == 127 && out[5][1] == 251 && out[5][2] == 17 && out[5][3] == 5);
    OK(cuModuleUnload(m));
    m = load("sm_80", "",
             "mov.f32 %f1, 0f40490FDB;\nsust.p.2d.v2.b32.trap [%rd1, {2, 1}], {0f3F000000, 0fC0000000};\n"
             "suld.b.2d.b32.trap %r1, [%rd1, {8, 1}];\nst.global.u32 [%rd2], %r1;");
    d.Format = CU_AD_FORMAT_HALF;
    d.NumChannels = 2;
    OK(cuArray3DCreate_v2(&a, &d));
    OK(run(m, surface(a), out));
    assert_int_equal(out[0][0], 0xc0003800u);
    OK(cuModuleUnload(m));
}

/* All lanes reduce into the same elements. */
static void test_reductions(void **state)
{
    static const char body[] =
        "cvt.u64.u32 %rd4, %r0;\n"
        "sured.b.add.2d.u32.trap [%rd1, {0, 0}], %r0;\nsured.b.max.2d.u32.trap [%rd1, {4, 0}], %r0;\n"
        "not.b32 %r1, %r0;\nsured.b.min.2d.s32.trap [%rd1, {8, 0}], %r1;\n"
        "sured.b.or.2d.b32.trap [%rd1, {12, 0}], %r0;\nsured.p.add.2d.b32.trap [%rd1, {4, 0}], 2;\n"
        "sured.b.add.2d.u64.trap [%rd1, {24, 0}], %rd4;\n"
        "sured.b.add.2d.u32.zero [%rd1, {64, 0}], %r0;\n"
        "bar.sync 0;\nsuld.b.2d.v4.b32.trap {%r1, %r2, %r3, %r4}, [%rd1, {0, 0}];\n"
        "suld.b.2d.v4.b32.trap {%r5, %r6, %r7, %r8}, [%rd1, {16, 0}];\n"
        "st.global.v4.u32 [%rd2], {%r1, %r2, %r3, %r4};\n"
        "st.global.v4.u32 [%rd2+16], {%r5, %r6, %r7, %r8};";
    CUDA_ARRAY3D_DESCRIPTOR d = {8, 4, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, CUDA_ARRAY3D_SURFACE_LDST};
    uint32_t out[32][16];
    CUmodule m = load("sm_80", "", body);
    CUarray a;

    (void)state;
    OK(cuArray3DCreate_v2(&a, &d));
    OK(run(m, surface(a), out));
    assert_int_equal(out[0][0], 496);
    assert_int_equal(out[0][1], 31);
    assert_int_equal(out[0][2], (uint32_t)-32);
    assert_int_equal(out[0][3], 31);
    assert_int_equal(out[0][4], 64);
    assert_int_equal(out[0][6], 496);
    OK(cuModuleUnload(m));
}

/*
 * Elements of 8 bytes in rows of 12: no access is in two lines of the cache, where a locked one
 * would stop every processor. Clamped are the last 8 bytes of the row that are one element.
 */
static void test_reductions_aligned(void **state)
{
    static const char body[] =
        "mov.b64 %rd4, 0x0000000200000001;\nsetp.ne.u32 %p1, %r0, 0;\n@%p1 bra OUT;\n"
        "sured.b.add.2d.u64.clamp [%rd1, {800, 0}], %rd4;\nsured.b.or.2d.b64.clamp [%rd1, {-8, 1}], %rd4;\n"
        "sured.b.add.2d.u64.trap [%rd1, {0, 1}], %rd4;\nsured.b.add.2d.u64.zero [%rd1, {8, 0}], %rd4;\n"
        "sust.b.2d.v2.b32.clamp [%rd1, {800, 2}], {7, 8};\n"
        "suld.b.2d.b32.trap %r1, [%rd1, {0, 0}];\nsuld.b.2d.b32.trap %r2, [%rd1, {4, 0}];\n"
        "suld.b.2d.b32.trap %r3, [%rd1, {8, 0}];\nsuld.b.2d.b64.trap %rd5, [%rd1, {0, 1}];\n"
        "suld.b.2d.b32.trap %r4, [%rd1, {8, 2}];\n"
        "st.global.v4.u32 [%rd2], {%r1, %r2, %r3, %r4};\nst.global.u64 [%rd2+16], %rd5;\nOUT:";
    CUDA_ARRAY3D_DESCRIPTOR d = {3, 3, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, CUDA_ARRAY3D_SURFACE_LDST};
    static const uint32_t zeros[12];
    CUDA_MEMCPY2D fill = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = zeros,
                          .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                          .WidthInBytes = 12,
                          .Height = 3};
    uint32_t out[32][16];
    CUmodule m = load("sm_80", "", body);

    (void)state;
    OK(cuArray3DCreate_v2(&fill.dstArray, &d));
    OK(cuMemcpy2D_v2(&fill));
    OK(run(m, surface(fill.dstArray), out));
    assert_int_equal(out[0][0], 1);
    assert_int_equal(out[0][1], 2);
    assert_int_equal(out[0][2], 0);
    assert_int_equal(out[0][3], 0);
    assert_int_equal(out[0][4], 2);
    assert_int_equal(out[0][5], 4);
    fill.WidthInBytes = 16; /* what fills up a row is no part of it */
    IS(cuMemcpy2D_v2(&fill), INVALID_VALUE);
    OK(cuArrayDestroy(fill.dstArray));
    OK(cuModuleUnload(m));
}

/* Module-level .texref and .surfref, bound through the old calls. */
static void test_references(void **state)
{
    static const char decls[] = ".global .texref tref;\n.global .surfref sref;\n";
    static const char body[] =
        "cvt.rn.f32.u32 %f1, %r0;\nadd.f32 %f1, %f1, 0f3F000000;\nmov.u64 %rd5, tref;\n"
        "tex.1d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [tref, {%f1}];\n"
        "tex.1d.v4.f32.s32 {%f6, _, _, _}, [%rd5, {%r0}];\n"
        "mul.lo.u32 %r1, %r0, 16;\nsuld.b.1d.b32.zero %r2, [sref, {%r1}];\n"
        "st.global.v4.f32 [%rd2], {%f2, %f3, %f6, %f6};\nst.global.u32 [%rd2+16], %r2;";
    CUmodule m = load("sm_80", decls, body);
    CUDA_ARRAY3D_DESCRIPTOR d = {8, 0, 0, CU_AD_FORMAT_FLOAT, 4, CUDA_ARRAY3D_SURFACE_LDST};
    CUarray a = pattern(d), got;
    CUarray_format format;
    CUaddress_mode mode;
    CUfilter_mode filter;
    uint32_t out[32][16];
    float linear[8], bias, color[4] = {1, 2, 3, 4}, lo, hi;
    CUdeviceptr p, q;
    unsigned flags;
    int channels;
    size_t off;
    CUsurfref s;
    CUtexref t, u;

    (void)state;
    IS(cuModuleGetTexRef(&t, m, "none"), NOT_FOUND);
    IS(cuModuleGetTexRef(&t, m, "sref"), NOT_FOUND);
    IS(cuModuleGetTexRef(NULL, m, "tref"), INVALID_VALUE);
    OK(cuModuleGetTexRef(&t, m, "tref"));
    OK(cuModuleGetSurfRef(&s, m, "sref"));
    IS(cuTexRefGetArray(&got, t), INVALID_VALUE); /* nothing bound */
    IS(cuTexRefSetArray(t, a, 2), INVALID_VALUE);
    OK(cuTexRefSetArray(t, a, 0));
    OK(cuTexRefSetArray(t, a, CU_TRSA_OVERRIDE_FORMAT));
    OK(cuTexRefGetArray(&got, t));
    assert_ptr_equal(got, a);
    OK(cuTexRefGetFormat(&format, &channels, t));
    assert_true(format == CU_AD_FORMAT_FLOAT && channels == 4);
    OK(cuTexRefSetAddressMode(t, 0, CU_TR_ADDRESS_MODE_BORDER));
    OK(cuTexRefGetAddressMode(&mode, t, 0));
    assert_int_equal(mode, CU_TR_ADDRESS_MODE_BORDER);
    IS(cuTexRefSetAddressMode(t, 3, CU_TR_ADDRESS_MODE_WRAP), INVALID_VALUE);
    OK(cuTexRefSetFilterMode(t, CU_TR_FILTER_MODE_LINEAR));
    OK(cuTexRefGetFilterMode(&filter, t));
    assert_int_equal(filter, CU_TR_FILTER_MODE_LINEAR);
    OK(cuTexRefSetBorderColor(t, color));
    memset(color, 0, sizeof(color));
    OK(cuTexRefGetBorderColor(color, t));
    assert_true(color[3] == 4);
    OK(cuTexRefSetMipmapLevelBias(t, 0.5f));
    OK(cuTexRefGetMipmapLevelBias(&bias, t));
    assert_true(bias == 0.5f);
    OK(cuTexRefSetMipmapLevelClamp(t, 1, 2));
    OK(cuTexRefGetMipmapLevelClamp(&lo, &hi, t));
    assert_true(lo == 1 && hi == 2);
    OK(cuTexRefSetMaxAnisotropy(t, 4));
    OK(cuTexRefGetMaxAnisotropy(&channels, t));
    assert_int_equal(channels, 4);
    IS(cuTexRefSetFlags(t, 0x80), INVALID_VALUE);
    OK(cuTexRefSetFlags(t, 0));
    OK(cuTexRefGetFlags(&flags, t));
    OK(cuSurfRefSetArray(s, a, 0));
    OK(cuSurfRefGetArray(&got, s));
    assert_ptr_equal(got, a);
    OK(run(m, 0, out));
    for (int i = 0; i < 32; i++) {
        assert_true(f_of(out[i][0]) == (i < 8 ? (float)i : 1));
        assert_true(f_of(out[i][1]) == (i < 8 ? (float)i + 0.25f : 2));
        assert_true(f_of(out[i][4]) == (i < 8 ? (float)i : 0));
    }
    /* Linear memory, from an address that is not aligned. */
    for (int i = 0; i < 8; i++)
        linear[i] = 50 + (float)i;
    OK(cuMemAlloc_v2(&p, 64));
    OK(cuMemcpyHtoD_v2(p + 16, linear, 32));
    OK(cuTexRefSetFormat(t, CU_AD_FORMAT_FLOAT, 1));
    IS(cuTexRefSetAddress_v2(NULL, t, p + 16, 32), INVALID_VALUE);
    OK(cuTexRefSetAddress_v2(&off, t, p + 16, 32));
    assert_int_equal(off, 16);
    OK(cuTexRefGetAddress_v2(&q, t));
    assert_int_equal(q, p + 16);
    OK(run(m, 0, out));
    for (int i = 4; i < 12; i++)
        assert_true(f_of(out[i][2]) == 50 + (float)(i - 4));
    OK(cuTexRefCreate(&u));
    OK(cuTexRefDestroy(u));
    IS(cuTexRefDestroy(u), INVALID_VALUE);
    OK(cuModuleUnload(m));
    IS(cuTexRefGetFlags(&flags, t), INVALID_VALUE);
    OK(cuArrayDestroy(a));
}

/* Independent mode: the sampler is a variable of its own, or another handle. */
static void test_samplers(void **state)
{
    static const char decls[] =
        ".global .samplerref near = { addr_mode_0 = wrap, addr_mode_1 = wrap, filter_mode = nearest };\n"
        ".global .samplerref lin = { addr_mode_0 = clamp_to_edge, filter_mode = linear };\n";
    static const char body[] =
        "cvt.rn.f32.u32 %f1, %r0;\nmul.f32 %f1, %f1, 0f3E000000;\nmov.f32 %f2, 0f3E000000;\n"
        "tex.2d.v4.f32.f32 {%f3, _, _, _}, [%rd1, near, {%f1, %f2}];\n"
        "tex.2d.v4.f32.f32 {%f4, _, _, _}, [%rd1, lin, {%f1, %f2}];\n"
        "mov.u64 %rd6, lin;\nistypep.samplerref %p1, %rd6;\nselp.f32 %f5, 0f3F800000, 0f00000000, %p1;\n"
        "istypep.texref %p1, %rd6;\nselp.f32 %f6, 0f3F800000, 0f00000000, %p1;\n"
        "st.global.v4.f32 [%rd2], {%f3, %f4, %f5, %f6};";
    CUmodule m = load("sm_80, texmode_independent", decls, body);
    CUtexObject o = texture(pattern(plane), (CUDA_TEXTURE_DESC){.flags = CU_TRSF_NORMALIZED_COORDINATES});
    uint32_t out[32][16];

    (void)state;
    OK(run(m, o, out));
    for (int i = 0; i < 32; i++) { /* x is i / 8 of the width, the edge of an element */
        assert_true(f_of(out[i][0]) == (float)(i % 8));
        assert_true(f_of(out[i][1]) == (i == 0 ? 0 : i < 8 ? (float)i - 0.5f : 7));
        assert_true(f_of(out[i][2]) == 1 && f_of(out[i][3]) == 0);
    }
    OK(cuModuleUnload(m));
    OK(cuTexObjectDestroy(o));
}

/* The element that a coordinate of so many elements names in a row of 8; -1: the border. */
static int addressed(const char *mode, int x)
{
    if (!strcmp(mode, "wrap"))
        return x & 7;
    if (!strcmp(mode, "mirror"))
        return x & 8 ? 7 - (x & 7) : x & 7;
    if (!strcmp(mode, "clamp_to_border"))
        return x < 0 || x > 7 ? -1 : x;
    return x < 0 ? 0 : x > 7 ? 7 : x;
}

/* Each address mode that a sampler may have, before the row, in it and behind it. */
static void test_sampler_modes(void **state)
{
    static const char *const modes[] = {"wrap", "clamp_to_edge", "mirror", "clamp_to_border", "clamp_ogl"};
    static const char body[] =
        "cvt.rn.f32.u32 %f1, %r0;\nadd.f32 %f1, %f1, 0fC1780000;\nmul.f32 %f1, %f1, 0f3E000000;\n" /* (i - 15.5) / 8 */
        "mov.f32 %f2, 0f3E000000;\ntex.2d.v4.f32.f32 {%f3, _, _, _}, [%rd1, s, {%f1, %f2}];\n"
        "st.global.v4.f32 [%rd2], {%f3, %f3, %f3, %f3};";
    CUtexObject o = texture(pattern(plane), (CUDA_TEXTURE_DESC){.flags = CU_TRSF_NORMALIZED_COORDINATES});
    uint32_t out[32][16];
    char decl[200];

    (void)state;
    for (unsigned k = 0; k < sizeof(modes) / sizeof(modes[0]); k++) {
        snprintf(decl, sizeof(decl), ".global .samplerref s = { addr_mode_0 = %s, filter_mode = nearest };\n",
                 modes[k]);
        CUmodule m = load("sm_80, texmode_independent", decl, body);

        OK(run(m, o, out));
        for (int i = 0; i < 32; i++) {
            const int at = addressed(modes[k], i - 16);

            if (f_of(out[i][0]) != (at < 0 ? 0 : (float)at))
                fail_msg("%s, element %d: %g", modes[k], i - 16, (double)f_of(out[i][0]));
        }
        OK(cuModuleUnload(m));
    }
    OK(cuTexObjectDestroy(o));
}

static void refused(const char *insn, CUresult at_load)
{
    static char text[2048];
    CUmodule m;
    CUresult r;

    snprintf(text, sizeof(text),
             ".version 8.3\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p0)\n{\n"
             ".reg .f32 %%f<8>;\n.reg .b32 %%r<8>;\n.reg .b64 %%rd<4>;\n"
             "ld.param.u64 %%rd1, [p0];\n%s\nret;\n}\n",
             insn);
    r = cuModuleLoadData(&m, text);
    if (at_load == CUDA_ERROR_NOT_SUPPORTED && r == CUDA_SUCCESS) { /* said at the launch */
        uint64_t zero = 0;
        void *args[] = {&zero};
        CUfunction f;

        OK(cuModuleGetFunction(&f, m, "k"));
        r = cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL);
        OK(cuModuleUnload(m));
    }
    if (r != at_load)
        fail_msg("%s: %d instead of %d", insn, (int)r, (int)at_load);
}

static void test_refused(void **state)
{
    (void)state;
    refused("tex.2dms.v4.f32.s32 {%f1,%f2,%f3,%f4}, [%rd1, {%r1,%r1,%r1,%r1}];", CUDA_ERROR_NOT_SUPPORTED);
    refused("tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%rd1, {%f1,%f2}], %f3;", CUDA_ERROR_NOT_SUPPORTED);
    refused("suld.p.2d.v4.b32.trap {%r1,%r2,%r3,%r4}, [%rd1, {%r1,%r2}];", CUDA_ERROR_INVALID_PTX);
    refused("tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%rd1, {%f1}];", CUDA_ERROR_INVALID_PTX);
    refused("tex.2d.v4.f32.f32 {%f1,%f2,%f3}, [%rd1, {%f1,%f2}];", CUDA_ERROR_INVALID_PTX);
    refused("tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%r1, {%f1,%f2}];", CUDA_ERROR_INVALID_PTX);
    refused("tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%rd1, {%rd1,%f2}];", CUDA_ERROR_INVALID_PTX);
    refused("tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%rd1];", CUDA_ERROR_INVALID_PTX);
    refused("ld.global.u32 %r1, [%rd1, {%r1}];", CUDA_ERROR_INVALID_PTX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queries),       cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_halves),        cmocka_unit_test(test_formatted),
        cmocka_unit_test(test_reductions),    cmocka_unit_test(test_reductions_aligned),
        cmocka_unit_test(test_references),    cmocka_unit_test(test_samplers),
        cmocka_unit_test(test_sampler_modes), cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, setup, teardown) != 0;
}
