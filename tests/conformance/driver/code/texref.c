// SPDX-License-Identifier: MIT
/* Texture and surface references, which PTX still has and nvcc no longer writes. */
#define __CUDA_API_VERSION_INTERNAL 1
#include "conform.h"

/* Lane i: t_ref at i + 0.5 and at texel i, the first word of s_ref's element i. */
static const char ptx[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".global .texref t_ref;\n.global .surfref s_ref;\n"
    ".visible .entry k_ref(.param .u64 p0)\n{\n"
    ".reg .b32 %r<8>;\n.reg .f32 %f<8>;\n.reg .b64 %rd<8>;\n"
    "ld.param.u64 %rd1, [p0];\nmov.u32 %r0, %tid.x;\nmul.wide.u32 %rd2, %r0, 16;\n"
    "add.u64 %rd1, %rd1, %rd2;\ncvt.rn.f32.u32 %f1, %r0;\nadd.f32 %f1, %f1, 0f3F000000;\n"
    "tex.1d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [t_ref, {%f1}];\n"
    "tex.1d.v4.f32.s32 {%f4, %f5, %f6, %f7}, [t_ref, {%r0}];\n"
    "mul.lo.u32 %r1, %r0, 4;\nsuld.b.1d.b32.zero %r2, [s_ref, {%r1}];\n"
    "st.global.f32 [%rd1], %f2;\nst.global.f32 [%rd1+4], %f4;\nst.global.u32 [%rd1+8], %r2;\n"
    "ret;\n}\n";

struct lane {
    float at, texel, word, unused;
};

static CUresult run(CUmodule m, struct lane out[16])
{
    CUfunction f = NULL;
    CUdeviceptr p = 0;
    void *args[] = {&p};
    CUresult r;

    NEED(cuModuleGetFunction(&f, m, "k_ref"));
    NEED(cuMemAlloc_v2(&p, 16 * sizeof(*out)));
    r = cuLaunchKernel(f, 1, 1, 1, 16, 1, 1, 0, NULL, args, NULL);
    if (r == CUDA_SUCCESS)
        r = cuMemcpyDtoH_v2(out, p, 16 * sizeof(*out));
    NEED(cuMemFree_v2(p));
    return r;
}

static CUarray row(const float *v, unsigned n)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {
        .Width = n, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1, .Flags = CUDA_ARRAY3D_SURFACE_LDST};
    CUarray a = NULL;

    NEED(cuArray3DCreate_v2(&a, &d));
    NEED(cuMemcpyHtoA_v2(a, 0, v, 4 * n));
    return a;
}

CASE(texref_module, CF_CTX)
{
    float v[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct lane out[16];
    CUtexref t = NULL, again = NULL;
    CUsurfref s = NULL;
    CUmodule m = NULL;
    CUarray a = row(v, 8), got = NULL;
    CUarray_format format = 0;
    CUfunction f = NULL;
    unsigned flags = 9;
    int channels = 0;
    bool ok = true;

    NEED(cuModuleLoadData(&m, ptx));
    RC("none", cuModuleGetTexRef(&t, m, "t_none"), CUDA_ERROR_NOT_FOUND);
    RC("other_kind", cuModuleGetTexRef(&t, m, "s_ref"), CUDA_ERROR_NOT_FOUND);
    RC("null", cuModuleGetTexRef(NULL, m, "t_ref"), CUDA_ERROR_INVALID_VALUE);
    RC("name_null", cuModuleGetTexRef(&t, m, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("surface_null", cuModuleGetSurfRef(NULL, m, "s_ref"), CUDA_ERROR_INVALID_VALUE);
    RC("surface_none", cuModuleGetSurfRef(&s, m, "t_ref"), CUDA_ERROR_NOT_FOUND);
    OK("texture", cuModuleGetTexRef(&t, m, "t_ref"));
    OK("again", cuModuleGetTexRef(&again, m, "t_ref"));
    cf_true("same", t == again);
    OK("surface", cuModuleGetSurfRef(&s, m, "s_ref"));
    RC("nothing", cuTexRefGetArray(&got, t), CUDA_ERROR_INVALID_VALUE);
    RC("surface_nothing", cuSurfRefGetArray(&got, s), CUDA_ERROR_INVALID_VALUE);
    OK("flags_none", cuTexRefSetArray(t, a, 0));
    OK("bind", cuTexRefSetArray(t, a, CU_TRSA_OVERRIDE_FORMAT));
    OK("bound", cuTexRefGetArray(&got, t));
    cf_true("bound_same", got == a);
    RC("no_mipmap", cuTexRefGetMipmappedArray((CUmipmappedArray *)&got, t), CUDA_ERROR_INVALID_VALUE);
    OK("format", cuTexRefGetFormat(&format, &channels, t));
    cf_true("format_value", format == CU_AD_FORMAT_FLOAT && channels == 1);
    OK("border", cuTexRefSetAddressMode(t, 0, CU_TR_ADDRESS_MODE_BORDER));
    OK("plain", cuTexRefSetFlags(t, 0));
    OK("flags", cuTexRefGetFlags(&flags, t));
    cf_u64("flags_value", flags, 0);
    OK("linear", cuTexRefSetFilterMode(t, CU_TR_FILTER_MODE_LINEAR));
    CUDA_ARRAY_DESCRIPTOR no_surface = {.Width = 8, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUarray b = NULL;
    NEED(cuArrayCreate_v2(&b, &no_surface));
    RC("surface_flag", cuSurfRefSetArray(s, b, 0), CUDA_ERROR_INVALID_VALUE);
    NEED(cuArrayDestroy(b));
    OK("surface_bind", cuSurfRefSetArray(s, a, 0));
    OK("surface_bound", cuSurfRefGetArray(&got, s));
    cf_true("surface_same", got == a);
    OK("run", run(m, out));
    for (int i = 0; i < 16; i++) {
        ok = ok && out[i].at == (i < 8 ? v[i] : 0);
        ok = ok && out[i].word == (i < 8 ? v[i] : 0);
    }
    cf_true("values", ok);
    NEED(cuModuleGetFunction(&f, m, "k_ref"));
    OK("parameter", cuParamSetTexRef(f, CU_PARAM_TR_DEFAULT, t));
    OK("parameter_unit", cuParamSetTexRef(f, 0, t));
    RC("parameter_none", cuParamSetTexRef(f, CU_PARAM_TR_DEFAULT, NULL), CUDA_ERROR_INVALID_HANDLE);
    if (!cf_real()) /* a physical GPU's driver destroys it */
        RC("destroy_module's", cuTexRefDestroy(t), CUDA_ERROR_INVALID_VALUE);
    OK("unload", cuModuleUnload(m));
    NEED(cuArrayDestroy(a));
}

CASE(texref_stale, CF_CTX | CF_UB)
{
    CUtexref t = NULL;
    CUmodule m = NULL;
    unsigned flags;

    NEED(cuModuleLoadData(&m, ptx));
    NEED(cuModuleGetTexRef(&t, m, "t_ref"));
    NEED(cuModuleUnload(m));
    RC("flags", cuTexRefGetFlags(&flags, t), CUDA_ERROR_INVALID_VALUE);
    RC("set", cuTexRefSetFlags(t, 0), CUDA_ERROR_INVALID_VALUE);
    RC("null", cuTexRefSetFlags(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    RC("module", cuModuleGetTexRef(&t, m, "t_ref"), CUDA_ERROR_INVALID_HANDLE);
    OK("create", cuTexRefCreate(&t));
    OK("destroy", cuTexRefDestroy(t));
    RC("destroy_again", cuTexRefDestroy(t), CUDA_ERROR_INVALID_VALUE);
    RC("array_dead", cuTexRefSetArray(t, NULL, CU_TRSA_OVERRIDE_FORMAT), CUDA_ERROR_INVALID_VALUE);
}

/* Linear memory; an address that is not aligned is bound from below, which kernels make up for. */
CASE(texref_linear, CF_CTX)
{
    float v[64];
    struct lane out[16];
    CUtexref t = NULL;
    CUsurfref s = NULL;
    CUmodule m = NULL;
    CUarray a;
    CUdeviceptr p = 0, q = 0;
    CUDA_ARRAY_DESCRIPTOR d = {16, 2, CU_AD_FORMAT_FLOAT, 1};
    CUDA_ARRAY_DESCRIPTOR_v1 d1 = {16, 2, CU_AD_FORMAT_FLOAT, 1};
    CUdeviceptr_v1 narrow = 0;
    size_t offset = 9;
    unsigned small = 9;
    bool ok = true;

    for (int i = 0; i < 64; i++)
        v[i] = 100 + (float)i;
    a = row(v, 8);
    NEED(cuModuleLoadData(&m, ptx));
    NEED(cuModuleGetTexRef(&t, m, "t_ref"));
    NEED(cuModuleGetSurfRef(&s, m, "s_ref"));
    NEED(cuSurfRefSetArray(s, a, 0));
    NEED(cuMemAlloc_v2(&p, 4096));
    NEED(cuMemcpyHtoD_v2(p, v, sizeof(v)));
    RC("no_address", cuTexRefGetAddress_v2(&q, t), CUDA_ERROR_INVALID_VALUE);
    OK("format", cuTexRefSetFormat(t, CU_AD_FORMAT_FLOAT, 1));
    RC("format_wrong", cuTexRefSetFormat(t, CU_AD_FORMAT_FLOAT, 3), CUDA_ERROR_INVALID_VALUE);
    if (!cf_real()) /* a physical GPU's driver takes it */
        RC("format_negative", cuTexRefSetFormat(t, CU_AD_FORMAT_FLOAT, -1), CUDA_ERROR_INVALID_VALUE);
    OK("set", cuTexRefSetAddress_v2(&offset, t, p, 256));
    cf_u64("offset", offset, 0);
    OK("address", cuTexRefGetAddress_v2(&q, t));
    cf_true("address_value", p == q);
    OK("run", run(m, out));
    for (int i = 0; i < 16; i++)
        ok = ok && out[i].texel == v[i];
    cf_true("values", ok);
    OK("set_4", cuTexRefSetAddress_v2(&offset, t, p + 16, 64));
    cf_u64("offset_4", offset, 16);
    RC("set_null", cuTexRefSetAddress_v2(NULL, t, p + 16, 64), CUDA_ERROR_INVALID_VALUE);
    OK("set_past",
       cuTexRefSetAddress_v2(&offset, t, p, 8192)); /* accesses are checked, as those of objects */
    OK("set_back", cuTexRefSetAddress_v2(&offset, t, p, 256));
    OK("set_2d", cuTexRefSetAddress2D_v3(t, &d, p, 64));
    RC("set_2d_null", cuTexRefSetAddress2D_v3(t, NULL, p, 64), CUDA_ERROR_INVALID_VALUE);
    RC("set_2d_pitch", cuTexRefSetAddress2D_v2(t, &d, p, 4), CUDA_ERROR_INVALID_VALUE);
    if (!cf_real()) { /* a physical GPU's driver wants a context of the old interface */
        RC("old", cuTexRefSetAddress(&small, t, 512, 64), CUDA_ERROR_INVALID_VALUE);
        RC("old_2d", cuTexRefSetAddress2D(t, &d1, 512, 64), CUDA_ERROR_INVALID_VALUE);
        RC("old_2d_null", cuTexRefSetAddress2D(t, NULL, 512, 64), CUDA_ERROR_INVALID_VALUE);
        RC("old_get", cuTexRefGetAddress(&narrow, t), CUDA_ERROR_INVALID_VALUE);
    }
    NEED(cuModuleUnload(m));
    NEED(cuMemFree_v2(p));
    NEED(cuArrayDestroy(a));
}

CASE(texref_sampler, CF_CTX)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {.Width = 16, .Height = 16, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUmipmappedArray mip = NULL, got = NULL;
    CUtexref t = NULL;
    CUaddress_mode mode = 9;
    CUfilter_mode filter = 9;
    float bias = 0, lo = 0, hi = 0, color[4] = {1, 2, 3, 4}, back[4] = {0};
    int n = 0;

    OK("create", cuTexRefCreate(&t));
    RC("create_null", cuTexRefCreate(NULL), CUDA_ERROR_INVALID_VALUE);
    OK("address", cuTexRefSetAddressMode(t, 1, CU_TR_ADDRESS_MODE_MIRROR));
    OK("address_get", cuTexRefGetAddressMode(&mode, t, 1));
    cf_u64("address_value", mode, CU_TR_ADDRESS_MODE_MIRROR);
    RC("address_dim", cuTexRefSetAddressMode(t, 3, CU_TR_ADDRESS_MODE_WRAP), CUDA_ERROR_INVALID_VALUE);
    if (!cf_real()) /* a physical GPU's driver takes any mode */
        RC("address_wrong", cuTexRefSetAddressMode(t, 0, 77), CUDA_ERROR_INVALID_VALUE);
    RC("address_null", cuTexRefGetAddressMode(NULL, t, 0), CUDA_ERROR_INVALID_VALUE);
    OK("filter", cuTexRefSetFilterMode(t, CU_TR_FILTER_MODE_LINEAR));
    OK("filter_get", cuTexRefGetFilterMode(&filter, t));
    cf_u64("filter_value", filter, CU_TR_FILTER_MODE_LINEAR);
    if (!cf_real())
        RC("filter_wrong", cuTexRefSetFilterMode(t, 5), CUDA_ERROR_INVALID_VALUE);
    OK("mip_filter", cuTexRefSetMipmapFilterMode(t, CU_TR_FILTER_MODE_LINEAR));
    OK("mip_filter_get", cuTexRefGetMipmapFilterMode(&filter, t));
    cf_u64("mip_filter_value", filter, CU_TR_FILTER_MODE_LINEAR);
    OK("bias", cuTexRefSetMipmapLevelBias(t, 0.5f));
    OK("bias_get", cuTexRefGetMipmapLevelBias(&bias, t));
    cf_true("bias_value", bias == 0.5f);
    OK("clamp", cuTexRefSetMipmapLevelClamp(t, 1, 3));
    OK("clamp_get", cuTexRefGetMipmapLevelClamp(&lo, &hi, t));
    cf_true("clamp_value", lo == 1 && hi == 3);
    RC("clamp_null", cuTexRefGetMipmapLevelClamp(&lo, NULL, t), CUDA_ERROR_INVALID_VALUE);
    OK("anisotropy", cuTexRefSetMaxAnisotropy(t, 8));
    OK("anisotropy_get", cuTexRefGetMaxAnisotropy(&n, t));
    cf_u64("anisotropy_value", (uint64_t)n, 8);
    OK("color", cuTexRefSetBorderColor(t, color));
    OK("color_get", cuTexRefGetBorderColor(back, t));
    cf_true("color_value", !memcmp(color, back, sizeof(back)));
    RC("color_null", cuTexRefSetBorderColor(t, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("color_get_null", cuTexRefGetBorderColor(NULL, t), CUDA_ERROR_INVALID_VALUE);
    RC("flags_wrong", cuTexRefSetFlags(t, 0x80), CUDA_ERROR_INVALID_VALUE);
    NEED(cuMipmappedArrayCreate(&mip, &d, 3));
    OK("mipmap", cuTexRefSetMipmappedArray(t, mip, CU_TRSA_OVERRIDE_FORMAT));
    OK("mipmap_get", cuTexRefGetMipmappedArray(&got, t));
    cf_true("mipmap_same", got == mip);
    RC("mipmap_array", cuTexRefGetArray((CUarray *)&got, t), CUDA_ERROR_INVALID_VALUE);
    OK("destroy", cuTexRefDestroy(t));
    NEED(cuMipmappedArrayDestroy(mip));
}

/* Arrays that are ordinary ones have nothing to say about sparse or deferred memory. */
CASE(array_requirements, CF_CTX)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {.Width = 16, .Height = 16, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUDA_ARRAY_MEMORY_REQUIREMENTS need;
    CUDA_ARRAY_SPARSE_PROPERTIES sparse;
    CUarrayMapInfo map = {0};
    CUmipmappedArray mip = NULL;
    CUarray a = NULL;

    NEED(cuArray3DCreate_v2(&a, &d));
    NEED(cuMipmappedArrayCreate(&mip, &d, 2));
    RC("array", cuArrayGetMemoryRequirements(&need, a, 0), CUDA_ERROR_INVALID_VALUE);
    RC("mipmap", cuMipmappedArrayGetMemoryRequirements(&need, mip, 0), CUDA_ERROR_INVALID_VALUE);
    RC("sparse", cuArrayGetSparseProperties(&sparse, a), CUDA_ERROR_INVALID_VALUE);
    RC("sparse_mipmap", cuMipmappedArrayGetSparseProperties(&sparse, mip), CUDA_ERROR_INVALID_VALUE);
    RC("map_null", cuMemMapArrayAsync(NULL, 1, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("map_nothing", cuMemMapArrayAsync(&map, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    NEED(cuArrayDestroy(a));
    NEED(cuMipmappedArrayDestroy(mip));
    if (!cf_real()) { /* what is not offered; a GPU may offer it */
        RC("map", cuMemMapArrayAsync(&map, 1, NULL), CUDA_ERROR_NOT_SUPPORTED);
        d.Flags = CUDA_ARRAY3D_SPARSE;
        RC("create_sparse", cuArray3DCreate_v2(&a, &d), CUDA_ERROR_NOT_SUPPORTED);
        d.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
        RC("create_deferred", cuMipmappedArrayCreate(&mip, &d, 2), CUDA_ERROR_NOT_SUPPORTED);
    }
}
