/* SPDX-License-Identifier: MIT */
/*
 * The test provider's device resources, green contexts and multicast objects. Its resources hold a
 * pointer and marked bytes, as a driver's may: given anything else it answers UNKNOWN, and no guest may
 * see them. Multicast objects refuse with UNKNOWN what CUDA would wait for.
 */
#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "vgp_newer.h"
#include "testprov.h"

#define SMS 16u

struct origin {
    unsigned split;
};
struct secret {
    struct origin *origin;
    unsigned char mark[64];
};
struct green {
    unsigned sms;
};
struct team {
    unsigned devices, added;
};

static struct origin device_origin, made[8192];
static unsigned nmade;

static void fill(CUdevResource *r, struct origin *o, unsigned count)
{
    struct secret s = {.origin = o};

    memset(r, 0, sizeof(*r));
    memset(s.mark, IPC_MARK, sizeof(s.mark));
    memcpy(r->_internal_padding, &s, sizeof(s));
    r->type = CU_DEV_RESOURCE_TYPE_SM;
    r->sm.smCount = count;
    r->sm.minSmPartitionSize = r->sm.smCoscheduledAlignment = 2;
}

static struct origin *real(const CUdevResource *r)
{
    struct secret s;

    memcpy(&s, r->_internal_padding, sizeof(s));
    for (unsigned i = 0; i < sizeof(s.mark); i++) {
        if (s.mark[i] != IPC_MARK)
            return NULL;
    }
    return s.origin == &device_origin || (s.origin >= made && s.origin < made + nmade) ? s.origin : NULL;
}

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *r, CUdevResourceType type)
{
    if (device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    fill(r, &device_origin, SMS);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevResource(CUcontext c, CUdevResource *r, CUdevResourceType type)
{
    return c ? cuDeviceGetDevResource(0, r, type) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx g, CUdevResource *r, CUdevResourceType type)
{
    CUresult res = cuDeviceGetDevResource(0, r, type);

    if (res == CUDA_SUCCESS)
        r->sm.smCount = ((struct green *)g)->sms;
    return res;
}

CUresult cuDevSmResourceSplitByCount(CUdevResource *out, unsigned *n, const CUdevResource *in,
                                     CUdevResource *left, unsigned flags, unsigned min)
{
    unsigned size = min < 2 ? 2 : (min + 1) / 2 * 2, groups = in->sm.smCount / size;

    (void)flags;
    if (!real(in) || nmade == sizeof(made) / sizeof(made[0]))
        return CUDA_ERROR_UNKNOWN;
    if (!out || *n > groups)
        *n = groups;
    if (!out)
        return CUDA_SUCCESS;
    made[nmade].split = nmade;
    for (unsigned i = 0; i < *n; i++)
        fill(&out[i], &made[nmade], size);
    if (*n * size < in->sm.smCount)
        fill(left, &made[nmade], in->sm.smCount - *n * size);
    nmade++;
    return CUDA_SUCCESS;
}

/* Groups as they are asked for; where nothing is said, of four. */
CUresult cuDevSmResourceSplit(CUdevResource *out, unsigned n, const CUdevResource *in, CUdevResource *left,
                              unsigned flags, CU_DEV_SM_RESOURCE_GROUP_PARAMS *groups)
{
    unsigned rest = in->sm.smCount;

    if (!real(in) || flags || nmade == sizeof(made) / sizeof(made[0]))
        return CUDA_ERROR_UNKNOWN;
    made[nmade].split = nmade;
    for (unsigned i = 0; i < n; i++) {
        for (unsigned k = 0; k < sizeof(groups->reserved) / sizeof(groups->reserved[0]); k++) {
            if (groups[i].reserved[k])
                return CUDA_ERROR_UNKNOWN;
        }
        groups[i].smCount = groups[i].smCount ? groups[i].smCount : 4;
        if (groups[i].smCount > rest)
            return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        rest -= groups[i].smCount;
        if (out)
            fill(&out[i], &made[nmade], groups[i].smCount);
    }
    if (rest)
        fill(left, &made[nmade], rest);
    nmade++;
    return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *out, CUdevResource *r, unsigned n)
{
    struct green *g = calloc(1, sizeof(*g));

    for (unsigned i = 0; i < n; i++) {
        if (!g || !real(&r[i]) || real(&r[i]) != real(&r[0])) {
            free(g);
            return CUDA_ERROR_UNKNOWN;
        }
        g->sms += r[i].sm.smCount;
    }
    *out = (CUdevResourceDesc)(void *)g;
    return CUDA_SUCCESS;
}

static _Atomic(void *) latest_green;

bool testprov_is_green(CUcontext c)
{
    return c && c == atomic_load(&latest_green);
}

CUresult cuGreenCtxCreate(CUgreenCtx *out, CUdevResourceDesc desc, CUdevice d, unsigned flags)
{
    struct green *g = malloc(sizeof(*g));

    if (!g || d || flags != CU_GREEN_CTX_DEFAULT_STREAM) {
        free(g);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *g = *(const struct green *)(const void *)desc;
    testprov_primary_hold();
    atomic_store(&latest_green, (void *)g);
    *out = (CUgreenCtx)(void *)g;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d);

static _Atomic(void *) ended_green; /* the latest; its address is not used anew before the next one ends */

bool testprov_green_ended(const void *context)
{
    return context && context == atomic_load(&ended_green);
}

CUresult cuGreenCtxDestroy(CUgreenCtx g)
{
    free(atomic_exchange(&ended_green, (void *)g));
    return cuDevicePrimaryCtxRelease_v2(0);
}

CUresult cuCtxFromGreenCtx(CUcontext *c, CUgreenCtx g)
{
    *c = (CUcontext)(void *)g;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *s, unsigned flags);

CUresult cuGreenCtxStreamCreate(CUstream *s, CUgreenCtx g, unsigned flags, int priority)
{
    (void)priority;
    return ((struct green *)g)->sms ? cuStreamCreate(s, flags) : CUDA_ERROR_UNKNOWN;
}

CUresult cuEventRecord(CUevent e, CUstream s);

CUresult cuGreenCtxRecordEvent(CUgreenCtx g, CUevent e)
{
    return ((struct green *)g)->sms ? cuEventRecord(e, NULL) : CUDA_ERROR_UNKNOWN;
}

CUresult cuGreenCtxWaitEvent(CUgreenCtx g, CUevent e)
{
    return ((struct green *)g)->sms && e ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

/* ---- multicast objects ---- */

/* All else is 0 here, unless VGPU_TEST_HMM is set: then kernels reach all memory of the process. */
CUresult cuDeviceGetAttribute(int *v, CUdevice_attribute a, CUdevice d)
{
    (void)d;
    *v = a == CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED ||
         a == CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK ||
         a == CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED ||
         (a == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS && getenv("VGPU_TEST_HMM"));
    return CUDA_SUCCESS;
}

CUresult cuMulticastGetGranularity(size_t *n, const CUmulticastObjectProp *prop,
                                   CUmulticastGranularity_flags option)
{
    *n = option == CU_MULTICAST_GRANULARITY_MINIMUM ? prop->numDevices << 20 : prop->size;
    return CUDA_SUCCESS;
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *h, const CUmulticastObjectProp *prop)
{
    struct team *t = calloc(1, sizeof(*t));

    if (!t || prop->handleTypes || prop->flags) {
        free(t);
        return CUDA_ERROR_UNKNOWN;
    }
    t->devices = prop->numDevices;
    *h = (CUmemGenericAllocationHandle)(uintptr_t)t;
    return CUDA_SUCCESS;
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle h, CUdevice d)
{
    struct team *t = (struct team *)(uintptr_t)h;

    if (t->added >> d & 1 || d > 7)
        return CUDA_ERROR_INVALID_VALUE;
    t->added |= 1u << d;
    return CUDA_SUCCESS;
}

static bool complete(CUmemGenericAllocationHandle h)
{
    const struct team *t = (const struct team *)(uintptr_t)h;

    return (unsigned)__builtin_popcount(t->added) == t->devices;
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle h, size_t offset, CUmemGenericAllocationHandle m,
                            size_t at, size_t n, unsigned long long flags)
{
    (void)offset;
    (void)at;
    return complete(h) && m && n && !flags ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle h, size_t offset, CUdeviceptr p, size_t n,
                             unsigned long long flags)
{
    (void)offset;
    return complete(h) && p && n && !flags ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle h, CUdevice d, size_t offset, size_t n)
{
    (void)offset;
    return complete(h) && d >= 0 && n ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

/* ---- decompression: the algorithm is to copy, into memory of this process that the test allocated ---- */

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute a, CUdeviceptr p)
{
    if (a != CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE || !p)
        return CUDA_ERROR_INVALID_VALUE;
    *(unsigned char *)data = 1;
    return CUDA_SUCCESS;
}

CUresult cuMemBatchDecompressAsync(CUmemDecompressParams *p, size_t n, unsigned flags, size_t *at, CUstream s)
{
    (void)s;
    for (size_t i = 0; i < n; i++) {
        if (flags || p[i].algo != CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE || !p[i].src || !p[i].dst) {
            *at = i;
            return CUDA_ERROR_INVALID_VALUE;
        }
        memcpy(p[i].dst, p[i].src, p[i].srcNumBytes);
        *p[i].dstActBytes = (cuuint32_t)p[i].srcNumBytes;
    }
    return CUDA_SUCCESS;
}
