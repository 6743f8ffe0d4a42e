/* SPDX-License-Identifier: MIT */
/* Filter in front of the provider that charges device memory to the quota. Also counts without a
 * limit, as NVML shows each client's usage. */
#include "../calls.h"

#include "vgb_sum.h"

/* The worker of this process: the wrapped functions have the provider's signatures. */
static struct wrk_worker *self;
static const struct vgp_provider *lower; /* functions below this filter */

/*
 * What an allocation takes of the device. Drivers hand out small ones in steps of 512 bytes and map
 * the others in pages of 2 MiB. The software GPU's own rounding is in what it says that it holds.
 */
static uint64_t device_bytes(uint64_t n)
{
    uint64_t step = wrk_capabilities.private_memory ? 1 : n < 1u << 20 ? 512 : 2u << 20;

    return n > UINT64_MAX - step ? UINT64_MAX : (n + step - 1) / step * step;
}

static CUresult account_memory(CUresult r, uint64_t address, uint64_t bytes)
{
    /* without an entry, for which wrk_quota_take_for() has made room, it would stay charged */
    if (r != CUDA_SUCCESS)
        wrk_quota_give(self, bytes);
    else
        wrk_quota_remember(self, address, bytes, wrk_base_context(self->current));
    return r;
}

/* Memory of a pool is the pool's, which no context ends; the software GPU ends it with its context. */
static CUresult account_pool(CUresult r, uint64_t address, uint64_t bytes)
{
    if (r == CUDA_SUCCESS && !wrk_capabilities.private_memory)
        wrk_quota_remember(self, address, bytes, NULL);
    else
        account_memory(r, address, bytes);
    return r;
}

static CUresult q_alloc(CUdeviceptr *p, size_t n)
{
    uint64_t held = device_bytes(n);

    if (!wrk_quota_take_for(self, held))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = lower->cuMemAlloc_v2(p, n);
    return account_memory(r, *p, held);
}

static CUresult q_managed(CUdeviceptr *p, size_t n, unsigned flags)
{
    uint64_t held = device_bytes(n);

    if (!wrk_quota_take_for(self, held))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = lower->cuMemAllocManaged(p, n, flags);
    return account_memory(r, *p, held);
}

static CUresult q_pitch(CUdeviceptr *p, size_t *pitch, size_t width, size_t height, unsigned elem)
{
    /* The pitch is only known afterwards: drivers round it to 512 at most. */
    uint64_t row = width + 511 < width ? UINT64_MAX : (width + 511) / 512 * 512, n;

    if (__builtin_mul_overflow(row, (uint64_t)height, &n))
        n = UINT64_MAX; /* without a limit the provider decides */
    n = device_bytes(n);
    if (!wrk_quota_take_for(self, n))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = lower->cuMemAllocPitch_v2(p, pitch, width, height, elem);
    return account_memory(r, *p, n);
}

/*
 * A driver honours a hint where nothing is mapped in this process: where its own things may be,
 * none is passed on. The software GPU decides by what it has reserved itself, and asks for nothing
 * else.
 */
static CUresult q_reserve(CUdeviceptr *p, size_t n, size_t align, CUdeviceptr hint, unsigned long long flags)
{
    if (!wrk_capabilities.software_policy &&
        (align > UINT64_MAX - n || !wrk_layout_may_keep(hint, (uint64_t)n + align)))
        hint = 0;
    /* No memory, but an entry in the provider's tables. */
    if (!wrk_limits_unnamed(&self->handles))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = lower->cuMemAddressReserve(p, n, align, hint, flags);

    self->handles.unnamed += r == CUDA_SUCCESS;
    return r;
}

/* The whole of a reservation, as documented. */
static CUresult q_unreserve(CUdeviceptr p, size_t n)
{
    CUresult r = lower->cuMemAddressFree(p, n);

    self->handles.unnamed -= r == CUDA_SUCCESS && self->handles.unnamed;
    return r;
}

/* On a captured stream these create nodes: memory is charged when the graph is launched. */
static CUresult made_node(CUresult r)
{
    wrk_memory_nodes_made += r == CUDA_SUCCESS;
    return r;
}

static CUresult q_async(CUdeviceptr *p, size_t n, CUstream s)
{
    uint64_t held = device_bytes(n);

    if (wrk_stream_captured(s))
        return made_node(lower->cuMemAllocAsync(p, n, s));
    if (!wrk_quota_take_for(self, held))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = lower->cuMemAllocAsync(p, n, s);
    return account_pool(r, *p, held);
}

static CUresult q_pool(CUdeviceptr *p, size_t n, CUmemoryPool pool, CUstream s)
{
    uint64_t held = device_bytes(n);

    if (wrk_stream_captured(s))
        return made_node(lower->cuMemAllocFromPoolAsync(p, n, pool, s));
    if (!wrk_quota_take_for(self, held))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = lower->cuMemAllocFromPoolAsync(p, n, pool, s);
    return account_pool(r, *p, held);
}

static CUresult q_free_async(CUdeviceptr p, CUstream s)
{
    if (wrk_stream_captured(s))
        return made_node(lower->cuMemFreeAsync(p, s));
    CUresult r = lower->cuMemFreeAsync(p, s);

    /* A second time: the guest, which hears of it later, has no name for the memory any more. */
    if (r == CUDA_ERROR_OUT_OF_MEMORY)
        r = lower->cuMemFreeAsync(p, s);
    if (r == CUDA_SUCCESS)
        wrk_quota_forget(self, p);
    return r;
}

#define SOFT_ROW_ALIGN 16u /* of the software GPU's arrays (memory/array.h), bytes; charge_test compares */

/* An extent of this level of a mipmap; 0 stays 0. */
static uint64_t level_extent(uint64_t n, unsigned level)
{
    return n && !(n >> level) ? 1 : n >> level;
}

/* Bytes of one level of an array, or of the array itself (level 0). */
static uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned level)
{
    static const unsigned char size[] = {[CU_AD_FORMAT_UNSIGNED_INT8] = 1,
                                         [CU_AD_FORMAT_SIGNED_INT8] = 1,
                                         [CU_AD_FORMAT_UNSIGNED_INT16] = 2,
                                         [CU_AD_FORMAT_SIGNED_INT16] = 2,
                                         [CU_AD_FORMAT_HALF] = 2};
    const bool layers = d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    unsigned f = (unsigned)d->Format;
    uint64_t n = f < sizeof(size) && size[f] ? size[f] : 4;
    const uint64_t dims[] = {d->NumChannels, level_extent(d->Width, level), level_extent(d->Height, level),
                             layers ? d->Depth : level_extent(d->Depth, level)};

    for (unsigned i = 0; i < 4; i++) {
        if (dims[i] && __builtin_mul_overflow(n, dims[i], &n))
            return UINT64_MAX;
        if (i == 1 && wrk_capabilities.private_memory && n <= UINT64_MAX - SOFT_ROW_ALIGN)
            n = (n + SOFT_ROW_ALIGN - 1) / SOFT_ROW_ALIGN * SOFT_ROW_ALIGN;
    }
    return n;
}

static CUresult q_array(CUarray *a, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    uint64_t n = device_bytes(array_bytes(d, 0));

    if (!wrk_quota_take_for(self, n))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = lower->cuArray3DCreate_v2(a, d);
    return account_memory(r, (uintptr_t)*a, n);
}

/* On a waiter, too. The entry first: once destroyed, the dispatcher may be given the same address
 * again. */
static CUresult q_array_destroy(CUarray a)
{
    struct wrk_freeing f;
    CUresult r;

    if (!wrk_quota_free_begin(self, (uintptr_t)a, &f))
        return CUDA_ERROR_INVALID_HANDLE;
    r = lower->cuArrayDestroy(a);
    wrk_quota_free_end(self, &f, r == CUDA_SUCCESS);
    return r;
}

/* The software GPU pads the rows of each level; without padding all levels take less than twice the
 * first. */
static uint64_t mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
    uint64_t sum = array_bytes(d, 0);

    if (levels > 1 && !wrk_capabilities.private_memory)
        return vgb_sum(sum, sum);
    for (unsigned i = 1; i < levels && i < 64 && (d->Width | d->Height | d->Depth) >> i; i++)
        sum = vgb_sum(sum, array_bytes(d, i));
    return sum;
}

static CUresult q_mipmap(CUmipmappedArray *m, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
    uint64_t n = device_bytes(mipmap_bytes(d, levels));

    if (!wrk_quota_take_for(self, n))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = lower->cuMipmappedArrayCreate(m, d, levels);
    return account_memory(r, (uintptr_t)*m, n);
}

static CUresult q_mipmap_destroy(CUmipmappedArray m)
{
    struct wrk_freeing f;
    CUresult r;

    if (!wrk_quota_free_begin(self, (uintptr_t)m, &f))
        return CUDA_ERROR_INVALID_HANDLE;
    r = lower->cuMipmappedArrayDestroy(m);
    wrk_quota_free_end(self, &f, r == CUDA_SUCCESS);
    return r;
}

static CUresult q_info(size_t *free_bytes, size_t *total)
{
    CUresult r = lower->cuMemGetInfo_v2(free_bytes, total);
    uint64_t held = wrk_quota_held(self);
    uint64_t left = self->quota.limit > held ? self->quota.limit - held : 0;

    if (!self->quota.limit)
        return r;
    if (r == CUDA_SUCCESS && *total > self->quota.limit)
        *total = self->quota.limit;
    if (r == CUDA_SUCCESS && *free_bytes > left)
        *free_bytes = left;
    return r;
}

#define SAMPLE_NS UINT64_C(50000000) /* maximum age of a cached answer of NVML, ns */

static uint64_t sampled_at;

/* What the driver holds for this process beyond what was counted: contexts, variables of modules,
 * memory of threads. As NVML says, which is asked now and then only; 0: it does not. */
static uint64_t beyond_counted(void)
{
    static uint64_t beyond;
    uint64_t now = vgb_now_ns(), all;

    if (sampled_at && now - sampled_at < SAMPLE_NS)
        return beyond;
    sampled_at = now;
    all = wrk_nvml_own_memory();
    beyond = all > self->quota.used ? all - self->quota.used : 0;
    return beyond;
}

void wrk_provider_took(void)
{
    sampled_at = 0;
}

/*
 * Bytes of device memory that the provider holds for this process, on all devices: one quota is for
 * all of them. Where device memory is this process's alone, the provider says it, whatever context is
 * current, if any. cuMemGetInfo() would say it of the current device. Else what was counted, and what
 * NVML knows beyond that.
 */
static uint64_t provider_used(void)
{
    uint64_t graphs, beyond;

    if (wrk_capabilities.private_memory)
        return lower->sg_memory_held();
    graphs = wrk_graph_memory_reserved();
    beyond = beyond_counted();
    /* NVML counts those of graphs, too */
    return self->quota.used + (graphs > beyond ? graphs : beyond);
}

/*
 * Receiver of sg_set_room(). Any call that uses a library for the first time in a context allocates
 * its variables. A module is loaded on a waiter, which may not ask the broker: a module beyond the
 * whole quota is refused here, any other that is too large when the load lands (code/wrk_call_load.c).
 */
static bool variables_have_room(void *arg, uint64_t bytes)
{
    struct wrk_worker *w = arg;
    const uint64_t limit = __atomic_load_n(&w->quota.limit, __ATOMIC_RELAXED);

    if (!pthread_equal(pthread_self(), w->quota.dispatcher))
        return !limit || bytes <= limit;
    if (!wrk_quota_take(w, bytes))
        return false;
    wrk_quota_give(w, bytes); /* once allocated, they are part of what the provider reports */
    return true;
}

void wrk_memory_filter(struct wrk_worker *w, struct vgp_provider *table, const struct vgp_provider *below)
{
    self = w;
    lower = below;
    w->quota.held = provider_used;
    if (lower->sg_set_room)
        lower->sg_set_room(variables_have_room, w);
#define WRAP(field, fn) \
    if (lower->field) \
    table->field = fn
    WRAP(cuMemAlloc_v2, q_alloc);
    WRAP(cuMemAllocManaged, q_managed);
    WRAP(cuMemAllocPitch_v2, q_pitch);
    WRAP(cuMemAddressReserve, q_reserve);
    WRAP(cuMemAddressFree, q_unreserve);
    WRAP(cuMemAllocAsync, q_async);
    WRAP(cuMemAllocFromPoolAsync, q_pool);
    WRAP(cuMemFreeAsync, q_free_async);
    WRAP(cuArray3DCreate_v2, q_array);
    WRAP(cuArrayDestroy, q_array_destroy);
    WRAP(cuMipmappedArrayCreate, q_mipmap);
    WRAP(cuMipmappedArrayDestroy, q_mipmap_destroy);
    WRAP(cuMemGetInfo_v2, q_info);
#undef WRAP
}
