// SPDX-License-Identifier: MIT
/*
 * Arrays, mipmapped arrays, texture and surface objects: copies of all sizes, kernels, invalid
 * input.
 */
#include "conform.h"

static CUarray make(size_t w, size_t h, size_t d, CUarray_format f, unsigned ch, unsigned flags)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = {w, h, d, f, ch, flags};
    CUarray a = NULL;

    NEED(cuArray3DCreate(&a, &desc));
    return a;
}

/*
 * Copies up, to another array, and down again, at an odd position, through pageable or pinned
 * memory.
 */
static void round_trip(const char *check, size_t w, size_t h, size_t d, bool pinned, CUstream s)
{
    CUarray a = make(w + 3, h + 2, d > 1 ? d + 1 : 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0);
    CUarray b = make(w + 3, h + 2, d > 1 ? d + 1 : 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0);
    size_t n = w * 4 * h * d;
    unsigned char *in, *out;
    bool ok;

    if (pinned) {
        NEED(cuMemHostAlloc((void **)&in, n, 0));
        NEED(cuMemHostAlloc((void **)&out, n, 0));
    } else {
        in = malloc(n);
        out = malloc(n);
    }
    cf_need_true("memory", in && out);
    cf_pattern(in, n, (unsigned)n);
    memset(out, 0xee, n);
    CUDA_MEMCPY3D up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = in,
                        .srcPitch = w * 4,
                        .srcHeight = h,
                        .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                        .dstArray = a,
                        .dstXInBytes = 8,
                        .dstY = 1,
                        .WidthInBytes = w * 4,
                        .Height = h,
                        .Depth = d};
    CUDA_MEMCPY3D across = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                            .srcArray = a,
                            .srcXInBytes = 8,
                            .srcY = 1,
                            .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                            .dstArray = b,
                            .dstXInBytes = 4,
                            .dstY = 2,
                            .WidthInBytes = w * 4,
                            .Height = h,
                            .Depth = d};
    CUDA_MEMCPY3D down = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                          .srcArray = b,
                          .srcXInBytes = 4,
                          .srcY = 2,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = out,
                          .dstPitch = w * 4,
                          .dstHeight = h,
                          .WidthInBytes = w * 4,
                          .Height = h,
                          .Depth = d};
    if (s)
        ok = !cuMemcpy3DAsync(&up, s) && !cuMemcpy3DAsync(&across, s) && !cuMemcpy3DAsync(&down, s) &&
             !cuStreamSynchronize(s);
    else
        ok = !cuMemcpy3D(&up) && !cuMemcpy3D(&across) && !cuMemcpy3D(&down);
    cf_true(check, ok && cf_is_pattern(out, n, (unsigned)n));
    NEED(cuArrayDestroy(a));
    NEED(cuArrayDestroy(b));
    if (pinned) {
        NEED(cuMemFreeHost(in));
        NEED(cuMemFreeHost(out));
    } else {
        free(in);
        free(out);
    }
}

CASE(array_copies, CF_CTX)
{
    static const struct {
        size_t w, h, d;
    } sizes[] = {{1, 1, 1}, {7, 3, 1}, {30, 4, 5}, {100, 90, 1}, {700, 300, 1}, {257, 65, 33}};
    char check[64];
    CUstream s;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int how = 0; how < 4; how++) {
            snprintf(check, sizeof(check), "%zux%zux%zu_%s_%s", sizes[i].w, sizes[i].h, sizes[i].d,
                     how & 1 ? "pinned" : "pageable", how & 2 ? "async" : "sync");
            round_trip(check, sizes[i].w, sizes[i].h, sizes[i].d, how & 1, how & 2 ? s : NULL);
        }
    }
    NEED(cuStreamDestroy(s));
}

CASE(array_rows, CF_CTX)
{
    CUarray a = make(256, 0, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0);
    CUarray b = make(256, 0, 0, CU_AD_FORMAT_FLOAT, 1, 0);
    unsigned in[256], out[256];
    CUdeviceptr p = 0;

    for (unsigned i = 0; i < 256; i++)
        in[i] = 3 * i + 1;
    NEED(cuMemAlloc(&p, sizeof(in)));
    OK("host_to_array", cuMemcpyHtoA(a, 0, in, sizeof(in)));
    OK("array_to_device", cuMemcpyAtoD(p, a, 16, 512));
    OK("device_to_array", cuMemcpyDtoA(b, 64, p, 512));
    OK("array_to_array", cuMemcpyAtoA(b, 0, a, 960, 64));
    OK("array_to_host", cuMemcpyAtoH(out, b, 0, 576));
    cf_true("values", !memcmp(out, in + 240, 64) && !memcmp(out + 16, in + 4, 512));
    OK("odd_size", cuMemcpyHtoA(a, 0, in, 6)); /* not whole elements (driver 580) */
    RC("too_far", cuMemcpyHtoA(a, 4, in, sizeof(in)), CUDA_ERROR_INVALID_VALUE);
    RC("far_away", cuMemcpyHtoA(a, (size_t)1 << 40, in, 4), CUDA_ERROR_INVALID_VALUE);
    OK("nothing", cuMemcpyHtoA(a, 0, in, 0));
    NEED(cuMemFree(p));
    NEED(cuArrayDestroy(a));
    NEED(cuArrayDestroy(b));
}

CASE(array_batch, CF_CTX)
{
    CUarray a = make(16, 4, 0, CU_AD_FORMAT_UNSIGNED_INT16, 2, 0);
    unsigned in[64], out[6] = {0};
    CUdeviceptr p = 0;
    CUstream s = NULL;

    for (unsigned i = 0; i < 64; i++)
        in[i] = 11 * i + 2;
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuMemAlloc(&p, sizeof(in)));
    NEED(cuMemcpyHtoD(p, in, sizeof(in)));
    CUDA_MEMCPY3D_BATCH_OP op = {.src = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr = {.ptr = p}},
                                 .dst = {.type = CU_MEMCPY_OPERAND_TYPE_ARRAY, .op.array = {.array = a}},
                                 .extent = {16, 4, 1},
                                 .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    OK("up", cuMemcpy3DBatchAsync(1, &op, 0, s));
    op.src = op.dst;
    op.src.op.array.offset.x = 5;
    op.src.op.array.offset.y = 1;
    op.dst = (CUmemcpy3DOperand){.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr = {.ptr = p}};
    op.extent = (CUextent3D){3, 2, 1};
    OK("down", cuMemcpy3DBatchAsync(1, &op, 0, s));
    OK("wait", cuStreamSynchronize(s));
    NEED(cuMemcpyDtoH(out, p, sizeof(out)));
    cf_true("values", !memcmp(out, in + 21, 12) && !memcmp(out + 3, in + 37, 12));
    op.src.op.array.offset.x = 14;
    RC("too_far", cuMemcpy3DBatchAsync(1, &op, 0, s), CUDA_ERROR_INVALID_VALUE);
    NEED(cuStreamDestroy(s));
    NEED(cuMemFree(p));
    NEED(cuArrayDestroy(a));
}

CASE(array_descriptors, CF_CTX)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {8, 8, 12, CU_AD_FORMAT_HALF, 2, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED},
                            got;
    CUDA_ARRAY_DESCRIPTOR f = {10, 5, CU_AD_FORMAT_FLOAT, 1}, g;
    CUmipmappedArray m = NULL;
    CUarray a = NULL, level = NULL;

    OK("create_3d", cuArray3DCreate(&a, &d));
    OK("describe_3d", cuArray3DGetDescriptor(&got, a));
    cf_true("same_3d", got.Width == 8 && got.Height == 8 && got.Depth == 12 && got.Format == d.Format &&
                           got.NumChannels == 2 && got.Flags == d.Flags);
    OK("destroy", cuArrayDestroy(a));
    OK("create", cuArrayCreate(&a, &f));
    OK("describe", cuArrayGetDescriptor(&g, a));
    cf_true("same", g.Width == 10 && g.Height == 5 && g.Format == f.Format && g.NumChannels == 1);
    NEED(cuArrayDestroy(a));
    d.NumChannels = 3;
    RC("channels", cuArray3DCreate(&a, &d), CUDA_ERROR_INVALID_VALUE);
    d = (CUDA_ARRAY3D_DESCRIPTOR){0, 0, 0, CU_AD_FORMAT_FLOAT, 1, 0};
    RC("empty", cuArray3DCreate(&a, &d), CUDA_ERROR_INVALID_VALUE);
    RC("null", cuArray3DCreate(&a, NULL), CUDA_ERROR_INVALID_VALUE);
    d = (CUDA_ARRAY3D_DESCRIPTOR){32, 16, 0, CU_AD_FORMAT_FLOAT, 1, 0};
    OK("mipmapped", cuMipmappedArrayCreate(&m, &d, 4));
    OK("level", cuMipmappedArrayGetLevel(&level, m, 2));
    OK("describe_level", cuArray3DGetDescriptor(&got, level));
    cf_true("half_twice", got.Width == 8 && got.Height == 4);
    RC("no_level", cuMipmappedArrayGetLevel(&level, m, 4), CUDA_ERROR_INVALID_VALUE);
    OK("destroy_mipmapped", cuMipmappedArrayDestroy(m));
    /*
     * The number of levels follows from the longest side; layers and faces do not count as sides.
     */
    for (unsigned i = 0; i < 4; i++) {
        static const CUDA_ARRAY3D_DESCRIPTOR shapes[] = {
            {2, 2, 9, CU_AD_FORMAT_FLOAT, 1, 0},
            {4, 2, 9, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_LAYERED},
            {2, 2, 6, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_CUBEMAP},
            {2, 2, 12, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED}};
        static const unsigned levels[] = {4, 3, 2, 2};

        NEED(cuMipmappedArrayCreate(&m, &shapes[i], 9));
        OK("last_level", cuMipmappedArrayGetLevel(&level, m, levels[i] - 1));
        RC("behind_the_last", cuMipmappedArrayGetLevel(&level, m, levels[i]), CUDA_ERROR_INVALID_VALUE);
        NEED(cuMipmappedArrayDestroy(m));
    }
}

CASE(array_handles, CF_CTX | CF_UB)
{
    CUarray a = make(4, 4, 0, CU_AD_FORMAT_FLOAT, 1, 0);
    CUDA_ARRAY3D_DESCRIPTOR d;
    CUDA_RESOURCE_DESC r = {.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = a};
    CUDA_TEXTURE_DESC t = {.flags = 0};
    CUtexObject o = 0;
    float f[16] = {0};

    OK("create", cuTexObjectCreate(&o, &r, &t, NULL));
    NEED(cuArrayDestroy(a));
    RC("destroyed", cuArray3DGetDescriptor(&d, a), CUDA_ERROR_INVALID_HANDLE);
    RC("destroyed_twice", cuArrayDestroy(a), CUDA_ERROR_INVALID_HANDLE);
    RC("copy", cuMemcpyHtoA(a, 0, f, 16), CUDA_ERROR_INVALID_VALUE);
    RC("texture", cuTexObjectCreate(&o, &r, &t, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("surface_as_texture", cuSurfObjectDestroy(o), CUDA_ERROR_INVALID_VALUE);
    OK("destroy", cuTexObjectDestroy(o));
    RC("twice", cuTexObjectDestroy(o), CUDA_ERROR_INVALID_VALUE);
    RC("invented", cuTexObjectDestroy(0x123456789ull), CUDA_ERROR_INVALID_VALUE);
    OK("destroy_none", cuTexObjectDestroy(0));
    OK("destroy_no_surface", cuSurfObjectDestroy(0));
}

/* Nodes, added and captured, with pinned and with pageable memory. */
CASE(array_nodes, CF_CTX)
{
    CUarray a = make(64, 8, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0);
    unsigned *pinned = NULL, in[16 * 4], out[16 * 4] = {0};
    CUgraphNode n = NULL, nodes[8];
    size_t count = 8;
    CUDA_MEMCPY3D got;
    CUgraphExec x = NULL;
    CUgraph g = NULL;
    CUcontext c = NULL;
    CUstream s = NULL;

    NEED(cuCtxGetCurrent(&c));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuMemHostAlloc((void **)&pinned, sizeof(in), 0));
    for (unsigned i = 0; i < 64; i++)
        pinned[i] = in[i] = 7 * i + 5;
    for (int pageable = 0; pageable < 2; pageable++) {
        CUDA_MEMCPY3D up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                            .srcHost = pageable ? in : pinned,
                            .srcPitch = 64,
                            .srcHeight = 4,
                            .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                            .dstArray = a,
                            .dstXInBytes = 12,
                            .dstY = 3,
                            .WidthInBytes = 64,
                            .Height = 4,
                            .Depth = 1};

        OK("create", cuGraphCreate(&g, 0));
        OK("add", cuGraphAddMemcpyNode(&n, g, NULL, 0, &up, c));
        OK("params", cuGraphMemcpyNodeGetParams(n, &got));
        cf_true("place", got.dstMemoryType == CU_MEMORYTYPE_ARRAY && got.dstArray == a &&
                             got.dstXInBytes == 12 && got.dstY == 3);
        OK("instantiate", cuGraphInstantiate(&x, g, 0));
        OK("launch", cuGraphLaunch(x, s));
        OK("wait", cuStreamSynchronize(s));
        OK("destroy_exec", cuGraphExecDestroy(x));
        OK("destroy", cuGraphDestroy(g));

        CUDA_MEMCPY2D down = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                              .srcArray = a,
                              .srcXInBytes = 12,
                              .srcY = 3,
                              .dstMemoryType = CU_MEMORYTYPE_HOST,
                              .dstHost = pageable ? out : pinned,
                              .dstPitch = 64,
                              .WidthInBytes = 64,
                              .Height = 4};
        memset(down.dstHost, 0, sizeof(in));
        OK("begin", cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
        OK("captured", cuMemcpy2DAsync(&down, s));
        OK("end", cuStreamEndCapture(s, &g));
        OK("nodes", cuGraphGetNodes(g, nodes, &count));
        OK("captured_params", cuGraphMemcpyNodeGetParams(nodes[0], &got));
        cf_true("captured_place", got.srcMemoryType == CU_MEMORYTYPE_ARRAY && got.srcArray == a &&
                                      got.srcXInBytes == 12 && got.srcY == 3);
        OK("instantiate_2", cuGraphInstantiate(&x, g, 0));
        OK("launch_2", cuGraphLaunch(x, s));
        OK("wait_2", cuStreamSynchronize(s));
        cf_true("values", !memcmp(down.dstHost, in, sizeof(in)));
        NEED(cuGraphExecDestroy(x));
        NEED(cuGraphDestroy(g));
    }
    NEED(cuMemFreeHost(pinned));
    NEED(cuStreamDestroy(s));
    NEED(cuArrayDestroy(a));
}

/* Kernels read through a texture and write through a surface. */
CASE(array_kernels, CF_CTX)
{
    CUarray a = make(16, 8, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SURFACE_LDST);
    CUDA_RESOURCE_DESC r = {.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = a}, rr;
    CUDA_TEXTURE_DESC t = {.addressMode = {CU_TR_ADDRESS_MODE_CLAMP, CU_TR_ADDRESS_MODE_CLAMP},
                           .filterMode = CU_TR_FILTER_MODE_LINEAR},
                      tt;
    CUDA_RESOURCE_VIEW_DESC v = {.format = CU_RES_VIEW_FORMAT_FLOAT_1X32, .width = 16, .height = 8}, vv;
    CUtexObject tex = 0;
    CUsurfObject surf = 0;
    float in[128], out[128];
    CUdeviceptr p = 0;
    void *args[] = {&tex, &surf, &p};
    bool ok = true;

    for (int i = 0; i < 128; i++)
        in[i] = (float)(i * 2);
    CUDA_MEMCPY2D m = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcHost = in,
                       .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                       .dstArray = a,
                       .WidthInBytes = 64,
                       .Height = 8};
    NEED(cuMemcpy2D(&m));
    NEED(cuMemAlloc(&p, sizeof(out)));
    OK("texture", cuTexObjectCreate(&tex, &r, &t, &v));
    OK("surface", cuSurfObjectCreate(&surf, &r));
    OK("resource", cuTexObjectGetResourceDesc(&rr, tex));
    cf_true("same_array", rr.resType == r.resType && rr.res.array.hArray == a);
    OK("description", cuTexObjectGetTextureDesc(&tt, tex));
    cf_true("same_description",
            tt.filterMode == t.filterMode && tt.addressMode[0] == CU_TR_ADDRESS_MODE_CLAMP);
    OK("view", cuTexObjectGetResourceViewDesc(&vv, tex));
    cf_true("same_view", vv.format == v.format && vv.width == 16);
    OK("surface_resource", cuSurfObjectGetResourceDesc(&rr, surf));
    OK("launch", cf_launch(cf_func("k_texture"), 1, 128, 0, NULL, args));
    NEED(cuMemcpyDtoH(out, p, sizeof(out)));
    for (int i = 0; i < 128; i++)
        ok = ok && out[i] == (i % 16 == 15 ? in[i] : in[i] + 1);
    cf_true("between_two", ok);
    CUDA_MEMCPY2D back = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                          .srcArray = a,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = out,
                          .WidthInBytes = 64,
                          .Height = 8};
    NEED(cuMemcpy2D(&back));
    for (int i = 0; i < 128; i++)
        ok = ok && out[i] == in[i] + 0.5f;
    cf_true("written", ok);
    OK("destroy_texture", cuTexObjectDestroy(tex));
    OK("destroy_surface", cuSurfObjectDestroy(surf));
    NEED(cuArrayDestroy(a));
    NEED(cuMemFree(p));
}

/* A kernel with an invalid or destroyed handle: its context ends. */
static void dead_handle(CUtexObject tex, CUsurfObject surf)
{
    CUdeviceptr p = 0;
    void *args[] = {&tex, &surf, &p};

    NEED(cuMemAlloc(&p, 512));
    OK("launch", cf_launch(cf_func("k_texture"), 1, 128, 0, NULL, args));
    RC("ended", cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

CASE(array_bad_handle, CF_CTX | CF_ALONE | CF_UB)
{
    dead_handle(0x1234, 0);
}

static void objects(CUtexObject *tex, CUsurfObject *surf)
{
    CUarray a = make(16, 8, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SURFACE_LDST);
    CUDA_RESOURCE_DESC r = {.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = a};
    CUDA_TEXTURE_DESC t = {.flags = 0};

    NEED(cuTexObjectCreate(tex, &r, &t, NULL));
    NEED(cuSurfObjectCreate(surf, &r));
}

CASE(array_ended_texture, CF_CTX | CF_ALONE | CF_UB)
{
    CUtexObject tex;
    CUsurfObject surf;

    objects(&tex, &surf);
    OK("destroy", cuTexObjectDestroy(tex));
    dead_handle(tex, surf);
}

CASE(array_ended_surface, CF_CTX | CF_ALONE | CF_UB)
{
    CUtexObject tex;
    CUsurfObject surf;

    objects(&tex, &surf);
    OK("destroy", cuSurfObjectDestroy(surf));
    dead_handle(tex, surf);
}
