// SPDX-License-Identifier: MIT
/*
 * Arrays of two devices: copy nodes into them with the context of either, also after a reset of one
 * device.
 */
#include "conform.h"

#define WIDTH 64u
#define HEIGHT 8u
#define BYTES (WIDTH * HEIGHT * 4)

static CUcontext contexts[2];
static CUarray arrays[2];
static uint32_t *in;

/* The pinned memory belongs to the device that is not reset. */
static void start(int stays)
{
    const CUDA_ARRAY3D_DESCRIPTOR d = {WIDTH, HEIGHT, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0};

    NEED(cuInit(0));
    for (int i = 0; i < 2; i++) {
        NEED(cuDevicePrimaryCtxRetain(&contexts[i], i));
        NEED(cuCtxSetCurrent(contexts[i]));
        NEED(cuArray3DCreate(&arrays[i], &d));
    }
    NEED(cuCtxSetCurrent(contexts[stays]));
    NEED(cuMemHostAlloc((void **)&in, BYTES, CU_MEMHOSTALLOC_PORTABLE));
}

static CUresult add(CUgraph g, int array, int context)
{
    const CUDA_MEMCPY3D up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                              .srcHost = in,
                              .srcPitch = WIDTH * 4,
                              .srcHeight = HEIGHT,
                              .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                              .dstArray = arrays[array],
                              .WidthInBytes = WIDTH * 4,
                              .Height = HEIGHT,
                              .Depth = 1};
    CUgraphNode node;

    return cuGraphAddMemcpyNode(&node, g, NULL, 0, &up, contexts[context]);
}

static bool holds(int array, const uint32_t *want)
{
    static uint32_t out[BYTES / 4];
    const CUDA_MEMCPY2D down = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                                .srcArray = arrays[array],
                                .dstMemoryType = CU_MEMORYTYPE_HOST,
                                .dstHost = out,
                                .dstPitch = WIDTH * 4,
                                .WidthInBytes = WIDTH * 4,
                                .Height = HEIGHT};

    memset(out, 0, sizeof(out));
    return cuMemcpy2D(&down) == CUDA_SUCCESS && memcmp(out, want, BYTES) == 0;
}

/*
 * Adds a node that copies into that device's array, with either context, and checks the result of a
 * launch.
 */
static void fill(const char *check, int array, int context, unsigned seed)
{
    CUgraphExec x = NULL;
    CUgraph g = NULL;

    NEED(cuCtxSetCurrent(contexts[context]));
    cf_pattern(in, BYTES, seed);
    NEED(cuGraphCreate(&g, 0));
    OK("add", add(g, array, context));
    OK("instantiate", cuGraphInstantiate(&x, g, 0));
    OK("launch", cuGraphLaunch(x, NULL));
    OK("wait", cuStreamSynchronize(NULL));
    NEED(cuCtxSetCurrent(contexts[array]));
    cf_true(check, holds(array, in));
    NEED(cuGraphExecDestroy(x));
    NEED(cuGraphDestroy(g));
}

CASE(devices_array_nodes, CF_ALONE | CF_TWO)
{
    start(0);
    for (unsigned i = 0; i < 2; i++) {
        for (int array = 1; array >= 0; array--) {
            fill("own", array, array, 3 + 9 * i + (unsigned)array);
            fill("other", array, !array, 5 + 9 * i + (unsigned)array);
        }
    }
}

/* The arrays of a device end with its context; those of the other device are unchanged. */
static void reset(int device)
{
    CUgraph g = NULL;

    start(!device);
    NEED(cuCtxSetCurrent(contexts[!device]));
    OK("reset", cuDevicePrimaryCtxReset(device));
    NEED(cuDevicePrimaryCtxRetain(&contexts[device], device));
    NEED(cuCtxSetCurrent(contexts[device]));
    NEED(cuGraphCreate(&g, 0));
    for (int i = 0; i < 2; i++)
        RC("gone", add(g, device, i), CUDA_ERROR_INVALID_VALUE);
    NEED(cuGraphDestroy(g));
    fill("other_device", !device, !device, 9);
}

CASE(devices_array_reset_0, CF_ALONE | CF_TWO | CF_UB)
{
    reset(0);
}

CASE(devices_array_reset_1, CF_ALONE | CF_TWO | CF_UB)
{
    reset(1);
}
