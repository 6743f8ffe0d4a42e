/* SPDX-License-Identifier: MIT */
/* Tensor maps by the driver API: the requirements of the manual, each just kept and just broken; a tile into
   and out of a kernel. A device of capability 9.0. */
#include "api/api_test.h"

static CUcontext context;
static CUdeviceptr memory;

static int setup(void **state)
{
    (void)state;
    setenv("VGPU_SOFT_CC", "9.0", 1);
    if (cuInit(0) != CUDA_SUCCESS || cuCtxCreate_v2(&context, 0, 0) != CUDA_SUCCESS)
        return -1;
    return cuMemAlloc_v2(&memory, 1 << 20) != CUDA_SUCCESS;
}

static int teardown(void **state)
{
    (void)state;
    return cuMemFree_v2(memory) != CUDA_SUCCESS || cuCtxDestroy_v2(context) != CUDA_SUCCESS;
}

/* The arguments of all three calls. */
struct arguments {
    CUtensorMapDataType type;
    cuuint32_t rank;
    uint64_t offset; /* of the address */
    cuuint64_t dims[6], strides[5];
    cuuint32_t box[6], steps[6];
    CUtensorMapInterleave interleave;
    CUtensorMapSwizzle swizzle;
    CUtensorMapL2promotion promotion;
    CUtensorMapFloatOOBfill fill;
    int lower[3], upper[3];
    cuuint32_t channels, pixels;
    CUtensorMapIm2ColWideMode mode;
};

static const struct arguments tiled = {.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                                       .rank = 3,
                                       .dims = {64, 32, 16, 1, 1},
                                       .strides = {256, 8192, 16, 16},
                                       .box = {16, 8, 4, 1, 1},
                                       .steps = {1, 1, 1, 1, 1}},
                              columns = {.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                                         .rank = 4,
                                         .dims = {64, 9, 7, 4, 1},
                                         .strides = {128, 1152, 8064, 16},
                                         .steps = {1, 1, 1, 1, 1},
                                         .lower = {-1, -1},
                                         .upper = {-1, -1},
                                         .channels = 32,
                                         .pixels = 64,
                                         .swizzle = CU_TENSOR_MAP_SWIZZLE_64B};

static CUresult encode_tiled(CUtensorMap *m, const struct arguments *a)
{
    return cuTensorMapEncodeTiled(m, a->type, a->rank, (void *)(uintptr_t)(memory + a->offset), a->dims,
                                  a->strides, a->box, a->steps, a->interleave, a->swizzle, a->promotion,
                                  a->fill);
}

static CUresult encode_columns(CUtensorMap *m, const struct arguments *a)
{
    return cuTensorMapEncodeIm2col(m, a->type, a->rank, (void *)(uintptr_t)(memory + a->offset), a->dims,
                                   a->strides, a->lower, a->upper, a->channels, a->pixels, a->steps,
                                   a->interleave, a->swizzle, a->promotion, a->fill);
}

static CUresult encode_wide(CUtensorMap *m, const struct arguments *a)
{
    return cuTensorMapEncodeIm2colWide(m, a->type, a->rank, (void *)(uintptr_t)(memory + a->offset), a->dims,
                                       a->strides, a->lower[0], a->upper[0], a->channels, a->pixels, a->steps,
                                       a->interleave, a->mode, a->swizzle, a->promotion, a->fill);
}

typedef CUresult encode_fn(CUtensorMap *m, const struct arguments *a);

/* A refusal writes nothing. */
static void expect(encode_fn *encode, const struct arguments *a, CUresult want, const char *what)
{
    CUtensorMap m, untouched;
    CUresult r;

    memset(&m, 0x5a, sizeof(m));
    untouched = m;
    r = encode(&m, a);
    if (r != want)
        fail_msg("%s: %d, expected %d", what, r, want);
    if (want != CUDA_SUCCESS && memcmp(&m, &untouched, sizeof(m)))
        fail_msg("%s: refused, and written", what);
}

#define CASE(encode, base, result, ...) \
    do { \
        struct arguments a = base; \
        __VA_ARGS__; \
        expect(encode, &a, CUDA_##result, #__VA_ARGS__); \
    } while (0)
#define GOOD(...) CASE(encode, base, SUCCESS, __VA_ARGS__)
#define BAD(...) CASE(encode, base, ERROR_INVALID_VALUE, __VA_ARGS__)
#define NONE(...) CASE(encode, base, ERROR_NOT_SUPPORTED, __VA_ARGS__)

/* What tiled and im2col maps have in common; base: valid arguments without a swizzle of rank 3 or more. */
static void sweep_tensor(encode_fn *encode, const struct arguments base)
{
    GOOD((void)0);
    BAD(a.rank = 0);
    BAD(a.rank = 6);
    BAD(a.rank = UINT32_MAX);
    BAD(a.type = CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B + 1);
    BAD(a.type = (CUtensorMapDataType)256);
    BAD(a.type = (CUtensorMapDataType)-1);
    GOOD(a.offset = 16);
    BAD(a.offset = 8);
    BAD(a.offset = 1);
    GOOD(a.dims[1] = 1ull << 32);
    BAD(a.dims[1] = (1ull << 32) + 1);
    BAD(a.dims[0] = 0);
    BAD(a.dims[2] = UINT64_MAX);
    GOOD(a.strides[1] = (1ull << 40) - 16);
    BAD(a.strides[1] = 1ull << 40);
    BAD(a.strides[0] = a.strides[0] + 8);
    BAD(a.strides[1] = UINT64_MAX);
    GOOD(a.steps[1] = 8);
    BAD(a.steps[1] = 9);
    BAD(a.steps[2] = 0);
    BAD(a.steps[2] = 256 + 1);
    GOOD(a.steps[0] = 0); /* ignored without an interleave */
    BAD(a.interleave = (CUtensorMapInterleave)3);
    BAD(a.interleave = (CUtensorMapInterleave)-1);
    BAD(a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B + 1);
    BAD(a.swizzle = (CUtensorMapSwizzle)-1);
    GOOD(a.promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
    BAD(a.promotion = (CUtensorMapL2promotion)4);
    GOOD(a.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
    BAD(a.fill = (CUtensorMapFloatOOBfill)2);
    BAD(a.type = CU_TENSOR_MAP_DATA_TYPE_UINT32; a.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
    /* valid, and not available here */
    NONE(a.interleave = CU_TENSOR_MAP_INTERLEAVE_16B; a.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE);
    NONE(a.interleave = CU_TENSOR_MAP_INTERLEAVE_32B; a.swizzle = CU_TENSOR_MAP_SWIZZLE_32B);
    BAD(a.interleave = CU_TENSOR_MAP_INTERLEAVE_32B; a.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE);
    BAD(a.interleave = CU_TENSOR_MAP_INTERLEAVE_32B; a.swizzle = CU_TENSOR_MAP_SWIZZLE_32B; a.offset = 16);
    BAD(a.interleave = CU_TENSOR_MAP_INTERLEAVE_32B; a.swizzle = CU_TENSOR_MAP_SWIZZLE_32B;
        a.strides[0] += 16);
    BAD(a.interleave = CU_TENSOR_MAP_INTERLEAVE_16B; a.steps[0] = 0);
}

static void tiled_arguments(void **state)
{
    encode_fn *const encode = encode_tiled;
    const struct arguments base = tiled;
    static const struct {
        CUtensorMapSwizzle swizzle;
        cuuint32_t span;
    } swizzles[] = {{CU_TENSOR_MAP_SWIZZLE_32B, 32},
                    {CU_TENSOR_MAP_SWIZZLE_64B, 64},
                    {CU_TENSOR_MAP_SWIZZLE_128B, 128},
                    {CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B, 128},
                    {CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B, 128},
                    {CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B, 128}};

    (void)state;
    sweep_tensor(encode, base);
    GOOD(a.rank = 1);
    GOOD(a.rank = 5);
    GOOD(a.box[1] = 256);
    BAD(a.box[1] = 257);
    BAD(a.box[0] = 0);
    BAD(a.box[2] = 65536 + 4);
    BAD(a.box[0] = 15); /* 60 bytes */
    GOOD(a.rank = 2);
    BAD(a.rank = 2; a.interleave = CU_TENSOR_MAP_INTERLEAVE_16B);
    for (size_t k = 0; k < sizeof(swizzles) / sizeof(swizzles[0]); k++) {
        GOOD(a.swizzle = swizzles[k].swizzle; a.box[0] = swizzles[k].span / 4);
        BAD(a.swizzle = swizzles[k].swizzle; a.box[0] = swizzles[k].span / 4 + 4);
    }
    NONE(a.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B; a.box[0] = 32);
    BAD(a.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B; a.box[0] = 32; a.dims[0] = 65);
    NONE(a.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B; a.box[0] = 128; a.dims[0] = 256);
    BAD(a.type = CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B; a.box[0] = 64; a.dims[0] = 256);
    BAD(a.type = CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B; a.box[0] = 128; a.dims[0] = 192);
    BAD(a.type = CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B; a.box[0] = 128; a.dims[0] = 256; a.offset = 16);
    BAD(a.type = CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B; a.box[0] = 128; a.dims[0] = 256;
        a.swizzle = CU_TENSOR_MAP_SWIZZLE_64B);
}

static void column_arguments(void **state)
{
    encode_fn *encode = encode_columns;
    struct arguments base = columns;

    (void)state;
    sweep_tensor(encode, base);
    BAD(a.rank = 2);
    GOOD(a.rank = 3; a.lower[0] = -32768);
    BAD(a.rank = 3; a.lower[0] = -32769);
    GOOD(a.rank = 3; a.upper[0] = 32767);
    BAD(a.rank = 3; a.upper[0] = 32768);
    GOOD(a.lower[1] = -128);
    BAD(a.lower[1] = -129);
    BAD(a.upper[0] = 128);
    GOOD(a.rank = 5; a.lower[2] = -16; a.upper[2] = 15);
    BAD(a.rank = 5; a.lower[2] = -17);
    BAD(a.rank = 5; a.upper[2] = 16);
    GOOD(a.upper[0] = -8; a.lower[0] = 0);
    BAD(a.upper[0] = -9; a.lower[0] = 0); /* 9 columns less 9 */
    BAD(a.channels = 0);
    BAD(a.channels = 40); /* 80 bytes */
    BAD(a.channels = 4);
    GOOD(a.channels = 256; a.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE);
    BAD(a.channels = 264; a.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE);
    GOOD(a.pixels = 1024);
    BAD(a.pixels = 1025);
    BAD(a.pixels = 0);
    /* wide: valid maps are not available */
    encode = encode_wide;
    NONE((void)0);
    NONE(a.mode = CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128; a.pixels = 5000);
    BAD(a.pixels = 1025);
    BAD(a.mode = (CUtensorMapIm2ColWideMode)2);
    BAD(a.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE);
    BAD(a.swizzle = CU_TENSOR_MAP_SWIZZLE_32B);
    BAD(a.lower[0] = -32769);
    BAD(a.upper[0] = -9; a.lower[0] = 0);
    BAD(a.rank = 2);
}

static void pointers(void **state)
{
    const struct arguments *a = &tiled;
    void *address = (void *)(uintptr_t)memory;
    _Alignas(128) uint8_t bytes[192] = {0};
    CUtensorMap m;

    (void)state;
    IS(encode_tiled(NULL, a), INVALID_VALUE);
    IS(encode_tiled((CUtensorMap *)(void *)(bytes + 32), a), INVALID_VALUE);
    OK(encode_tiled((CUtensorMap *)(void *)(bytes + 64), a));
    IS(cuTensorMapEncodeTiled(&m, a->type, 3, address, NULL, a->strides, a->box, a->steps, 0, 0, 0, 0),
       INVALID_VALUE);
    IS(cuTensorMapEncodeTiled(&m, a->type, 3, address, a->dims, NULL, a->box, a->steps, 0, 0, 0, 0),
       INVALID_VALUE);
    OK(cuTensorMapEncodeTiled(&m, a->type, 1, address, a->dims, NULL, a->box, a->steps, 0, 0, 0, 0));
    IS(cuTensorMapEncodeTiled(&m, a->type, 3, address, a->dims, a->strides, NULL, a->steps, 0, 0, 0, 0),
       INVALID_VALUE);
    IS(cuTensorMapEncodeTiled(&m, a->type, 3, address, a->dims, a->strides, a->box, NULL, 0, 0, 0, 0),
       INVALID_VALUE);
    IS(cuTensorMapEncodeIm2col(&m, columns.type, 4, address, columns.dims, columns.strides, NULL,
                               columns.upper, 32, 64, columns.steps, 0, 0, 0, 0),
       INVALID_VALUE);
    OK(encode_tiled(&m, a));
    OK(cuTensorMapReplaceAddress(&m, (void *)(uintptr_t)(memory + 4096)));
    IS(cuTensorMapReplaceAddress(&m, (void *)(uintptr_t)(memory + 8)), INVALID_VALUE);
    IS(cuTensorMapReplaceAddress(NULL, address), INVALID_VALUE);
    memset(&m, 0, sizeof(m));
    IS(cuTensorMapReplaceAddress(&m, address), INVALID_VALUE);
}

static void no_context(void **state)
{
    CUcontext popped;
    CUtensorMap m;

    (void)state;
    OK(cuCtxPopCurrent_v2(&popped));
    OK(encode_tiled(&m, &tiled));
    OK(cuCtxPushCurrent_v2(popped));
}

static const char text[] =
    ".version 8.3\n.target sm_90\n.address_size 64\n"
    ".visible .entry k(.param .align 64 .b8 in[128], .param .align 64 .b8 out[128])\n{\n"
    ".reg .pred %p<2>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<4>;\n"
    ".shared .align 1024 .b8 tile[2048];\n.shared .align 8 .b64 bar;\n"
    "mov.u32 %r0, %tid.x;\nmov.u32 %r1, tile;\nmov.u32 %r2, bar;\n"
    "mov.b64 %rd0, in;\ncvta.param.u64 %rd0, %rd0;\nmov.b64 %rd1, out;\ncvta.param.u64 %rd1, %rd1;\n"
    "mov.u32 %r3, %ctaid.x;\nshl.b32 %r3, %r3, 4;\nmov.u32 %r4, %ctaid.y;\nshl.b32 %r4, %r4, 5;\n"
    "setp.ne.u32 %p0, %r0, 0;\n@%p0 bra W;\nmbarrier.init.shared::cta.b64 [%r2], 1;\n"
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 2048;\n"
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
    "[%r1], [%rd0, {%r3, %r4}], [%r2];\n"
    "W: bar.sync 0;\nL: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0;\n@!%p1 bra L;\n"
    /* each thread doubles four elements */
    "shl.b32 %r5, %r0, 4;\nadd.u32 %r5, %r5, %r1;\nmov.u32 %r6, 0;\n"
    "A: ld.shared.u32 %r7, [%r5];\nadd.u32 %r7, %r7, %r7;\nst.shared.u32 [%r5], %r7;\n"
    "add.u32 %r5, %r5, 4;\nadd.u32 %r6, %r6, 1;\nsetp.lt.u32 %p1, %r6, 4;\n@%p1 bra A;\n"
    "fence.proxy.async.shared::cta;\nbar.sync 0;\n@%p0 bra E;\n"
    "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1, {%r3, %r4}], [%r1];\n"
    "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nE: ret;\n}\n";

/* Tiles of 16 x 32 elements, of which the last ones leave the tensor of 100 x 90. */
static void tiles(void **state)
{
    const cuuint64_t dims[2] = {100, 90}, stride = 400;
    const cuuint32_t box[2] = {16, 32}, steps[2] = {1, 1};
    static uint32_t in[90 * 100], out[91 * 100];
    CUtensorMap from, to;
    void *parameters[] = {&from, &to};
    CUfunction f;
    CUmodule m;

    (void)state;
    for (uint32_t k = 0; k < 90 * 100; k++)
        in[k] = k * 7 + 1;
    OK(cuMemcpyHtoD_v2(memory, in, sizeof(in)));
    OK(cuMemsetD32_v2(memory + 65536, 0xdeadbeef, sizeof(out) / 4));
    OK(cuTensorMapEncodeTiled(&from, CU_TENSOR_MAP_DATA_TYPE_UINT32, 2, (void *)(uintptr_t)memory, dims,
                              &stride, box, steps, 0, CU_TENSOR_MAP_SWIZZLE_64B, 0, 0));
    to = from;
    OK(cuTensorMapReplaceAddress(&to, (void *)(uintptr_t)(memory + 65536)));
    OK(cuModuleLoadData(&m, text));
    OK(cuModuleGetFunction(&f, m, "k"));
    OK(cuLaunchKernel(f, 7, 3, 1, 128, 1, 1, 0, NULL, parameters, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH_v2(out, memory + 65536, sizeof(out)));
    for (uint32_t k = 0; k < 90 * 100; k++)
        assert_int_equal(out[k], 2 * in[k]);
    for (uint32_t k = 90 * 100; k < 91 * 100; k++)
        assert_int_equal(out[k], 0xdeadbeef);
    OK(cuModuleUnload(m));
}

static void attribute(void **state)
{
    int value = 0;

    (void)state;
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 0));
    assert_int_equal(value, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attribute), cmocka_unit_test(tiled_arguments), cmocka_unit_test(column_arguments),
        cmocka_unit_test(pointers),  cmocka_unit_test(no_context),      cmocka_unit_test(tiles),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
