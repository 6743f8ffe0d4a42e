/* SPDX-License-Identifier: MIT */
/* CUDA arrays and mipmapped arrays: descriptors, memory, copies, refusals. */
#include "api/api_test.h"

static CUarray make(size_t w, size_t h, size_t d, CUarray_format f, unsigned ch, unsigned flags)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = {w, h, d, f, ch, flags}, got;
    CUarray a;

    OK(cuArray3DCreate_v2(&a, &desc));
    memset(&got, 0xff, sizeof(got));
    OK(cuArray3DGetDescriptor_v2(&got, a));
    assert_true(got.Width == w && got.Height == h && got.Depth == d && got.Format == f &&
                got.NumChannels == ch && got.Flags == flags);
    return a;
}

static void refused(size_t w, size_t h, size_t d, CUarray_format f, unsigned ch, unsigned flags,
                    CUresult want)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = {w, h, d, f, ch, flags};
    CUarray a;

    assert_int_equal(cuArray3DCreate_v2(&a, &desc), want);
}

static void test_create(void **state)
{
    CUcontext c = ctx_begin();
    CUDA_ARRAY_DESCRIPTOR d2 = {64, 32, CU_AD_FORMAT_FLOAT, 4}, got;
    CUDA_ARRAY_SPARSE_PROPERTIES sp;
    CUDA_ARRAY_MEMORY_REQUIREMENTS mr;
    size_t f0, f1, total, n;
    CUarray a, plane;

    (void)state;
    OK(cuMemGetInfo_v2(&f0, &total));
    OK(cuArrayCreate_v2(&a, &d2));
    OK(cuMemGetInfo_v2(&f1, &total));
    assert_int_equal(f0 - f1, 64 * 32 * 16);
    OK(cuArrayGetDescriptor_v2(&got, a));
    assert_true(got.Width == 64 && got.Height == 32 && got.Format == CU_AD_FORMAT_FLOAT &&
                got.NumChannels == 4);
    IS(cuArrayGetPlane(&plane, a, 0), INVALID_VALUE);
    IS(cuArrayGetSparseProperties(&sp, a), INVALID_VALUE);
    IS(cuArrayGetMemoryRequirements(&mr, a, 0), INVALID_VALUE);
    IS(cuArrayGetDescriptor_v2(NULL, a), INVALID_VALUE);
    OK(cuArrayDestroy(a));
    IS(cuArrayDestroy(a), INVALID_HANDLE);
    IS(cuArrayDestroy(NULL), INVALID_HANDLE);
    IS(cuArrayDestroy((CUarray)c), INVALID_HANDLE);
    IS(cuArrayGetDescriptor_v2(&got, a), INVALID_HANDLE);
    OK(cuMemGetInfo_v2(&f1, &total));
    assert_int_equal(f0, f1);
    IS(cuArrayCreate_v2(NULL, &d2), INVALID_VALUE);
    IS(cuArrayCreate_v2(&a, NULL), INVALID_VALUE);
    OK(cuDeviceGetTexture1DLinearMaxWidth(&n, CU_AD_FORMAT_FLOAT, 4, 0));
    assert_true(n >= 1 << 27);
    IS(cuDeviceGetTexture1DLinearMaxWidth(&n, CU_AD_FORMAT_FLOAT, 3, 0), INVALID_VALUE);

    static const CUarray_format formats[] = {CU_AD_FORMAT_UNSIGNED_INT8,  CU_AD_FORMAT_UNSIGNED_INT16,
                                             CU_AD_FORMAT_UNSIGNED_INT32, CU_AD_FORMAT_SIGNED_INT8,
                                             CU_AD_FORMAT_SIGNED_INT16,   CU_AD_FORMAT_SIGNED_INT32,
                                             CU_AD_FORMAT_HALF,           CU_AD_FORMAT_FLOAT};
    static const struct {
        size_t w, h, d;
        unsigned flags;
    } shapes[] = {{100, 0, 0, 0},
                  {100, 3, 0, 0},
                  {10, 3, 5, 0},
                  {10, 0, 5, CUDA_ARRAY3D_LAYERED},
                  {10, 4, 5, CUDA_ARRAY3D_LAYERED},
                  {8, 8, 6, CUDA_ARRAY3D_CUBEMAP},
                  {8, 8, 12, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED},
                  {100, 3, 0, CUDA_ARRAY3D_SURFACE_LDST},
                  {100, 3, 0, CUDA_ARRAY3D_TEXTURE_GATHER}};
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        for (size_t f = 0; f < 8; f++) {
            for (unsigned ch = 1; ch <= 4; ch *= 2)
                OK(cuArrayDestroy(
                    make(shapes[s].w, shapes[s].h, shapes[s].d, formats[f], ch, shapes[s].flags)));
        }
    }
    ctx_end(c);
}

static void test_create_refused(void **state)
{
    CUcontext c = ctx_begin();
    const CUarray_format f = CU_AD_FORMAT_FLOAT;
    size_t free_bytes, total;

    (void)state;
    OK(cuMemGetInfo_v2(&free_bytes, &total));
    refused(0, 0, 0, f, 1, 0, CUDA_ERROR_INVALID_VALUE);
    refused(4, 4, 0, f, 3, 0, CUDA_ERROR_INVALID_VALUE);
    refused(4, 4, 0, f, 0, 0, CUDA_ERROR_INVALID_VALUE);
    refused(4, 4, 0, (CUarray_format)0x77, 1, 0, CUDA_ERROR_INVALID_VALUE);
    refused(4, 4, 0, CU_AD_FORMAT_UNORM_INT8X4, 1, 0, CUDA_ERROR_INVALID_VALUE);
    refused(4, 4, 0, CU_AD_FORMAT_NV12, 1, 0, CUDA_ERROR_NOT_SUPPORTED);
    refused(4, 4, 0, CU_AD_FORMAT_BC7_UNORM, 4, 0, CUDA_ERROR_NOT_SUPPORTED);
    refused(4, 4, 0, f, 1, CUDA_ARRAY3D_SPARSE, CUDA_ERROR_NOT_SUPPORTED);
    refused(4, 4, 0, f, 1, CUDA_ARRAY3D_DEFERRED_MAPPING, CUDA_ERROR_NOT_SUPPORTED);
    refused(4, 4, 0, f, 1, 0x1000, CUDA_ERROR_INVALID_VALUE);
    refused(200000, 0, 0, f, 1, 0, CUDA_ERROR_INVALID_VALUE);
    refused(SIZE_MAX, 1, 0, f, 1, 0, CUDA_ERROR_INVALID_VALUE);
    refused(40000, 0, 0, f, 1, CUDA_ARRAY3D_SURFACE_LDST, CUDA_ERROR_INVALID_VALUE);
    refused(4, 0, 4, f, 1, 0, CUDA_ERROR_INVALID_VALUE);
    refused(4, 4, 0, f, 1, CUDA_ARRAY3D_LAYERED, CUDA_ERROR_INVALID_VALUE);
    refused(4, 5, 6, f, 1, CUDA_ARRAY3D_CUBEMAP, CUDA_ERROR_INVALID_VALUE);
    refused(4, 4, 12, f, 1, CUDA_ARRAY3D_CUBEMAP, CUDA_ERROR_INVALID_VALUE);
    refused(4, 4, 7, f, 1, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED, CUDA_ERROR_INVALID_VALUE);
    refused(4, 4, 4, f, 1, CUDA_ARRAY3D_TEXTURE_GATHER, CUDA_ERROR_INVALID_VALUE);
    refused(16384, 16384, 16384, f, 4, 0, CUDA_ERROR_OUT_OF_MEMORY);
    ctx_end(c);
}

static void test_copies(void **state)
{
    CUcontext c = ctx_begin();
    CUarray a1 = make(32, 0, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0);
    CUarray b1 = make(32, 0, 0, CU_AD_FORMAT_FLOAT, 1, 0);
    CUarray wide = make(32, 0, 0, CU_AD_FORMAT_FLOAT, 2, 0);
    uint32_t in[32], out[32] = {0};
    CUdeviceptr p;
    CUstream s;

    (void)state;
    for (uint32_t i = 0; i < 32; i++)
        in[i] = i * 7 + 1;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc_v2(&p, 128));
    OK(cuMemcpyAtoH_v2(out, a1, 0, 128));
    assert_int_equal(out[5], 0); /* new memory is zero */
    OK(cuMemcpyHtoA_v2(a1, 0, in, 128));
    OK(cuMemcpyAtoD_v2(p, a1, 0, 128));
    OK(cuMemcpyDtoA_v2(b1, 16, p, 64));
    OK(cuMemcpyAtoA_v2(b1, 0, a1, 64, 16));
    OK(cuMemcpyAtoHAsync_v2(out, b1, 0, 128, s));
    OK(cuStreamSynchronize(s));
    assert_memory_equal(out, in + 16, 16);
    assert_memory_equal(out + 4, in, 64);
    assert_int_equal(out[20], 0);
    OK(cuMemcpyHtoAAsync_v2(a1, 4, in, 4, s));
    OK(cuStreamSynchronize(s));
    OK(cuMemcpyAtoH_v2(out, a1, 4, 4));
    assert_int_equal(out[0], in[0]);
    OK(cuMemcpyHtoA_v2(a1, 0, in, 0));
    IS(cuMemcpyHtoA_v2(a1, 2, in, 4), INVALID_VALUE);
    OK(cuMemcpyHtoA_v2(a1, 0, in + 4, 6)); /* not whole elements */
    OK(cuMemcpyAtoH_v2(out, a1, 0, 8));
    assert_memory_equal(out, in + 4, 6);
    IS(cuMemcpyHtoA_v2(a1, 4, in, 128), INVALID_VALUE);
    IS(cuMemcpyHtoA_v2(a1, SIZE_MAX - 3, in, 4), INVALID_VALUE);
    IS(cuMemcpyHtoA_v2(a1, 0, NULL, 4), INVALID_VALUE);
    IS(cuMemcpyHtoA_v2(NULL, 0, in, 4), INVALID_VALUE);
    IS(cuMemcpyHtoA_v2((CUarray)s, 0, in, 4), INVALID_VALUE);
    IS(cuMemcpyAtoD_v2(p + 4, a1, 0, 128), INVALID_VALUE);
    IS(cuMemcpyAtoA_v2(wide, 0, a1, 0, 8), INVALID_VALUE);
    OK(cuArrayDestroy(a1));
    IS(cuMemcpyAtoH_v2(out, a1, 0, 128), INVALID_VALUE);
    ctx_end(c);
}

static void test_copies_2d_3d(void **state)
{
    CUcontext c = ctx_begin();
    CUarray a = make(10, 6, 4, CU_AD_FORMAT_UNSIGNED_INT16, 1, 0);
    uint16_t in[4 * 8 * 16], out[4 * 6 * 10];
    CUDA_MEMCPY3D m = {0};
    CUDA_MEMCPY2D q = {0};
    CUmemcpyAttributes unused;

    (void)state;
    (void)unused;
    for (unsigned i = 0; i < sizeof(in) / 2; i++)
        in[i] = (uint16_t)(i + 1);
    m.srcMemoryType = CU_MEMORYTYPE_HOST;
    m.srcHost = in;
    m.srcPitch = 32;
    m.srcHeight = 8;
    m.srcXInBytes = 4;
    m.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    m.dstArray = a;
    m.dstXInBytes = 6;
    m.dstY = 1;
    m.dstZ = 2;
    m.WidthInBytes = 10;
    m.Height = 4;
    m.Depth = 2;
    OK(cuMemcpy3D_v2(&m));
    CUDA_MEMCPY3D r = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                       .srcArray = a,
                       .dstMemoryType = CU_MEMORYTYPE_HOST,
                       .dstHost = out,
                       .WidthInBytes = 20,
                       .Height = 6,
                       .Depth = 4};
    memset(out, 0xff, sizeof(out));
    OK(cuMemcpy3DAsync_v2(&r, NULL));
    for (unsigned z = 0; z < 4; z++) {
        for (unsigned y = 0; y < 6; y++) {
            for (unsigned x = 0; x < 10; x++) {
                bool copied = x >= 3 && x < 8 && y >= 1 && y < 5 && z >= 2;
                unsigned want = copied ? in[((z - 2) * 8 + y - 1) * 16 + x - 3 + 2] : 0;

                assert_int_equal(out[(z * 6 + y) * 10 + x], want);
            }
        }
    }
    m.dstZ = 3;
    IS(cuMemcpy3D_v2(&m), INVALID_VALUE);
    m.dstZ = 0;
    m.dstY = 3;
    IS(cuMemcpy3D_v2(&m), INVALID_VALUE);
    m.dstY = 0;
    m.dstXInBytes = 12;
    IS(cuMemcpy3D_v2(&m), INVALID_VALUE);
    m.dstXInBytes = 5;
    IS(cuMemcpy3D_v2(&m), INVALID_VALUE);
    r.reserved0 = out; /* must be NULL */
    IS(cuMemcpy3D_v2(&r), INVALID_VALUE);
    IS(cuMemcpy3DAsync_v2(&r, NULL), INVALID_VALUE);
    r.reserved0 = NULL;
    r.reserved1 = out;
    IS(cuMemcpy3D_v2(&r), INVALID_VALUE);
    r.reserved1 = NULL;
    OK(cuMemcpy3D_v2(&r));

    q.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    q.srcArray = a;
    q.srcPitch = SIZE_MAX; /* ignored */
    q.srcXInBytes = 6;
    q.dstMemoryType = CU_MEMORYTYPE_HOST;
    q.dstHost = out;
    q.WidthInBytes = 10;
    q.Height = 6;
    OK(cuMemcpy2D_v2(&q));
    OK(cuMemcpy2DUnaligned_v2(&q));
    OK(cuMemcpy2DAsync_v2(&q, NULL));
    assert_int_equal(out[0], 0);

    CUDA_MEMCPY3D_PEER peer = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                               .srcArray = a,
                               .srcContext = c,
                               .dstMemoryType = CU_MEMORYTYPE_HOST,
                               .dstHost = out,
                               .WidthInBytes = 20,
                               .Height = 6,
                               .Depth = 4};
    OK(cuMemcpy3DPeer(&peer));
    peer.srcContext = NULL; /* ignored for an array */
    OK(cuMemcpy3DPeer(&peer));
    OK(cuMemAlloc_v2(&peer.srcDevice, 480));
    peer.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    IS(cuMemcpy3DPeer(&peer), INVALID_CONTEXT);
    peer.srcContext = c;
    OK(cuMemcpy3DPeer(&peer));
    OK(cuMemFree_v2(peer.srcDevice));
    ctx_end(c);
}

static void test_copies_batch(void **state)
{
    CUcontext c = ctx_begin();
    CUarray a = make(4, 4, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0);
    uint32_t in[16], out[4] = {0};
    CUstream s;

    (void)state;
    for (uint32_t i = 0; i < 16; i++)
        in[i] = i + 1;
    OK(cuStreamCreate(&s, 0));
    CUDA_MEMCPY3D_BATCH_OP ops[2] = {
        {.src = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr = {.ptr = (CUdeviceptr)in}},
         .dst = {.type = CU_MEMCPY_OPERAND_TYPE_ARRAY, .op.array = {.array = a}},
         .extent = {4, 4, 1},
         .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM},
    };
    OK(cuMemcpy3DBatchAsync_v2(1, ops, 0, s));
    ops[0].src = ops[0].dst;
    ops[0].src.op.array.offset.x = 1;
    ops[0].src.op.array.offset.y = 2;
    ops[0].dst =
        (CUmemcpy3DOperand){.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr = {.ptr = (CUdeviceptr)out}};
    ops[0].extent = (CUextent3D){2, 2, 1};
    OK(cuMemcpy3DBatchAsync_v2(1, ops, 0, s));
    OK(cuStreamSynchronize(s));
    assert_true(out[0] == 10 && out[1] == 11 && out[2] == 14 && out[3] == 15);
    ops[0].extent.width = SIZE_MAX;
    IS(cuMemcpy3DBatchAsync_v2(1, ops, 0, s), INVALID_VALUE);
    ops[0].src.op.array.array = (CUarray)s;
    IS(cuMemcpy3DBatchAsync_v2(1, ops, 0, s), INVALID_VALUE);
    ctx_end(c);
}

static void test_mipmap(void **state)
{
    CUcontext c = ctx_begin();
    CUDA_ARRAY3D_DESCRIPTOR d = {20, 8, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0}, got;
    size_t f0, f1, total;
    uint8_t in[80 * 8], out[80 * 8];
    CUmipmappedArray m;
    CUarray level[5], again;

    (void)state;
    OK(cuMemGetInfo_v2(&f0, &total));
    OK(cuMipmappedArrayCreate(&m, &d, 99)); /* clamped to 1 + floor(log2(20)) */
    for (unsigned i = 0; i < 5; i++) {
        OK(cuMipmappedArrayGetLevel(&level[i], m, i));
        OK(cuArray3DGetDescriptor_v2(&got, level[i]));
        assert_int_equal(got.Width, 20 >> i);
        assert_int_equal(got.Height, i < 3 ? 8 >> i : 1);
        memset(in, (int)i + 1, sizeof(in));
        CUDA_MEMCPY2D q = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = in,
                           .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                           .dstArray = level[i],
                           .WidthInBytes = got.Width * 4,
                           .Height = got.Height};
        OK(cuMemcpy2D_v2(&q));
    }
    IS(cuMipmappedArrayGetLevel(&again, m, 5), INVALID_VALUE);
    OK(cuMipmappedArrayGetLevel(&again, m, 2));
    assert_ptr_equal(again, level[2]);
    for (unsigned i = 0; i < 5; i++) {
        OK(cuMemcpyAtoH_v2(out, level[i], 0, 4));
        assert_int_equal(out[3], i + 1);
    }
    IS(cuArrayDestroy(level[1]), INVALID_HANDLE);
    OK(cuMipmappedArrayDestroy(m));
    IS(cuMipmappedArrayDestroy(m), INVALID_HANDLE);
    IS(cuArray3DGetDescriptor_v2(&got, level[1]), INVALID_HANDLE);
    OK(cuMemGetInfo_v2(&f1, &total));
    assert_int_equal(f0, f1);
    d = (CUDA_ARRAY3D_DESCRIPTOR){8, 8, 8, CU_AD_FORMAT_FLOAT, 1, 0};
    OK(cuMipmappedArrayCreate(&m, &d, 3));
    OK(cuMipmappedArrayGetLevel(&again, m, 2));
    OK(cuArray3DGetDescriptor_v2(&got, again));
    assert_int_equal(got.Depth, 2);
    OK(cuMipmappedArrayDestroy(m));
    d.Flags = CUDA_ARRAY3D_LAYERED;
    OK(cuMipmappedArrayCreate(&m, &d, 0)); /* one level */
    IS(cuMipmappedArrayGetLevel(&again, m, 1), INVALID_VALUE);
    OK(cuMipmappedArrayGetLevel(&again, m, 0));
    d.Width = 100000;
    IS(cuMipmappedArrayCreate(&m, &d, 1), INVALID_VALUE);
    ctx_end(c); /* with one left */
}

/* Nodes with arrays: added, and captured; what they say about themselves; life beyond the
   handle. */
static void test_nodes(void **state)
{
    CUcontext c = ctx_begin();
    CUarray a = make(8, 2, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0);
    uint32_t in[16], out[16] = {0};
    CUDA_MEMCPY3D got, up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                             .srcHost = in,
                             .srcPitch = 32,
                             .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                             .dstArray = a,
                             .WidthInBytes = 32,
                             .Height = 2,
                             .Depth = 1};
    CUDA_MEMCPY2D down = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                          .srcArray = a,
                          .srcXInBytes = 4,
                          .srcY = 1,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = out,
                          .WidthInBytes = 16,
                          .Height = 1};
    CUgraphNode n, nodes[4];
    CUgraphExec x, y;
    CUgraph g, h;
    CUstream s;
    size_t count = 4;

    (void)state;
    for (uint32_t i = 0; i < 16; i++)
        in[i] = 100 + i;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuGraphCreate(&g, 0));
    OK(cuGraphAddMemcpyNode(&n, g, NULL, 0, &up, c));
    OK(cuGraphMemcpyNodeGetParams(n, &got));
    assert_ptr_equal(got.dstArray, a);
    up.dstArray = (CUarray)s;
    IS(cuGraphMemcpyNodeSetParams(n, &up), INVALID_VALUE);
    OK(cuGraphInstantiateWithFlags(&x, g, 0));
    OK(cuGraphLaunch(x, s));
    OK(cuStreamSynchronize(s));
    OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemcpy2DAsync_v2(&down, s));
    OK(cuStreamEndCapture(s, &h));
    OK(cuGraphGetNodes(h, nodes, &count));
    assert_int_equal(count, 1);
    OK(cuGraphMemcpyNodeGetParams(nodes[0], &got));
    assert_int_equal(got.srcMemoryType, CU_MEMORYTYPE_ARRAY);
    assert_ptr_equal(got.srcArray, a);
    assert_true(got.srcXInBytes == 4 && got.srcY == 1 && got.srcZ == 0);
    OK(cuGraphInstantiateWithFlags(&y, h, 0));
    OK(cuArrayDestroy(a));
    OK(cuGraphLaunch(y, s)); /* the node keeps the memory, whatever it is worth */
    OK(cuStreamSynchronize(s));
    assert_int_equal(out[0], 109);
    assert_int_equal(out[3], 112);
    ctx_end(c);
}

const struct CMUnitTest array_tests[] = {
    cmocka_unit_test(test_create),       cmocka_unit_test(test_create_refused), cmocka_unit_test(test_copies),
    cmocka_unit_test(test_copies_2d_3d), cmocka_unit_test(test_copies_batch),   cmocka_unit_test(test_mipmap),
    cmocka_unit_test(test_nodes),
};
const size_t n_array_tests = sizeof(array_tests) / sizeof(array_tests[0]);
