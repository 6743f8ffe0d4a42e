/* SPDX-License-Identifier: MIT */
/* cuMemcpy3DPeer: with a distinct value in each field it has the same effect as cuMemcpy3D. */
#include "conform.h"

#include <stdlib.h>
#include <string.h>

#define BYTES 16384u

enum { DEVICE, HOST, ARRAY, KINDS };
static const CUmemorytype types[] = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_ARRAY};

struct side {
    CUdeviceptr d;
    uint8_t *h;
    CUarray a;
};

static void make(struct side *s)
{
    const CUDA_ARRAY3D_DESCRIPTOR desc = {
        .Width = 64, .Height = 16, .Depth = 8, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};

    NEED(cuMemAlloc(&s->d, BYTES));
    s->h = calloc(1, BYTES);
    NEED(cuArray3DCreate(&s->a, &desc));
}

static void end(struct side *s)
{
    NEED(cuMemFree(s->d));
    NEED(cuArrayDestroy(s->a));
    free(s->h);
}

static CUDA_MEMCPY3D whole_array(void)
{
    return (CUDA_MEMCPY3D){.WidthInBytes = 64,
                           .Height = 16,
                           .Depth = 8,
                           .srcPitch = 64,
                           .srcHeight = 16,
                           .dstPitch = 64,
                           .dstHeight = 16};
}

/* Copies all bytes of a side from or to `bytes`. */
static void move(struct side *s, int kind, uint8_t *bytes, bool in)
{
    CUDA_MEMCPY3D c = whole_array();

    if (kind == HOST) {
        memcpy(in ? s->h : bytes, in ? bytes : s->h, BYTES);
    } else if (kind == DEVICE && in) {
        NEED(cuMemcpyHtoD(s->d, bytes, BYTES));
    } else if (kind == DEVICE) {
        NEED(cuMemcpyDtoH(bytes, s->d, BYTES));
    } else {
        c.srcMemoryType = in ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_ARRAY;
        c.dstMemoryType = in ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_HOST;
        c.srcHost = c.dstHost = bytes;
        c.srcArray = c.dstArray = s->a;
        NEED(cuMemcpy3D(&c));
    }
}

CASE(peer_fields, CF_CTX)
{
    uint8_t *pattern = malloc(BYTES), *zero = calloc(1, BYTES), *want = calloc(1, BYTES),
            *got = calloc(1, BYTES);
    unsigned same = 0, changed = 0, later = 0;
    struct side from, to;
    CUcontext ctx;
    CUstream s;

    NEED(cuCtxGetCurrent(&ctx));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    cf_pattern(pattern, BYTES, 5);
    make(&from);
    make(&to);
    for (int k = 0; k < KINDS * KINDS; k++) {
        const int a = k / KINDS, b = k % KINDS;
        CUDA_MEMCPY3D plain = {.srcXInBytes = 3,
                               .srcY = 2,
                               .srcZ = 1,
                               .srcMemoryType = types[a],
                               .srcHost = from.h,
                               .srcDevice = from.d,
                               .srcArray = from.a,
                               .srcPitch = 96,
                               .srcHeight = 12,
                               .dstXInBytes = 7,
                               .dstY = 4,
                               .dstZ = 2,
                               .dstMemoryType = types[b],
                               .dstHost = to.h,
                               .dstDevice = to.d,
                               .dstArray = to.a,
                               .dstPitch = 80,
                               .dstHeight = 14,
                               .WidthInBytes = 41,
                               .Height = 9,
                               .Depth = 5};
        CUDA_MEMCPY3D_PEER peer = {.srcXInBytes = plain.srcXInBytes,
                                   .srcY = plain.srcY,
                                   .srcZ = plain.srcZ,
                                   .srcMemoryType = plain.srcMemoryType,
                                   .srcHost = plain.srcHost,
                                   .srcDevice = plain.srcDevice,
                                   .srcArray = plain.srcArray,
                                   .srcContext = ctx,
                                   .srcPitch = plain.srcPitch,
                                   .srcHeight = plain.srcHeight,
                                   .dstXInBytes = plain.dstXInBytes,
                                   .dstY = plain.dstY,
                                   .dstZ = plain.dstZ,
                                   .dstMemoryType = plain.dstMemoryType,
                                   .dstHost = plain.dstHost,
                                   .dstDevice = plain.dstDevice,
                                   .dstArray = plain.dstArray,
                                   .dstContext = ctx,
                                   .dstPitch = plain.dstPitch,
                                   .dstHeight = plain.dstHeight,
                                   .WidthInBytes = plain.WidthInBytes,
                                   .Height = plain.Height,
                                   .Depth = plain.Depth};

        move(&from, a, pattern, true);
        move(&to, b, zero, true);
        NEED(cuMemcpy3D(&plain));
        move(&to, b, want, false);
        changed += memcmp(want, zero, BYTES) != 0;
        move(&to, b, zero, true);
        NEED(cuMemcpy3DPeer(&peer));
        move(&to, b, got, false);
        same += memcmp(want, got, BYTES) == 0;
        move(&to, b, zero, true);
        NEED(cuMemcpy3DPeerAsync(&peer, s));
        NEED(cuStreamSynchronize(s));
        move(&to, b, got, false);
        later += memcmp(want, got, BYTES) == 0;
    }
    cf_u64("copied", changed, KINDS * KINDS);
    cf_u64("same", same, KINDS * KINDS);
    cf_u64("same_async", later, KINDS * KINDS);
    end(&from);
    end(&to);
    NEED(cuStreamDestroy(s));
    free(pattern);
    free(zero);
    free(want);
    free(got);
}
