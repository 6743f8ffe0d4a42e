/* SPDX-License-Identifier: MIT */
/*
 * Advice about managed memory, prefetching and discarding. Managed memory does not migrate here
 * (device attribute 89 is 0): what concerns a GPU is refused as cuda.h says for such devices; the
 * rest is kept for cuMemRangeGetAttribute, per page, as the manual says.
 */
#include <stdlib.h>
#include <string.h>

#include "vcu_memory.h"

#include "../../protocol/generated/vgp_entry.h"
#include "../../protocol/vgp_guest_rt.h"

/* A managed allocation or variable. */
struct range {
    uint64_t id, base, size;
};

/* A place: CUmemLocationType and id; type 0: none. */
struct place {
    int type, id;
};

/* What holds from the end of the segment before to here. */
struct segment {
    uint64_t end;
    bool read_mostly, by_host;
    uint64_t by; /* bit i: device i */
    struct place preferred, last;
};

/* An allocation about which something was said; its segments cover it without a gap. */
struct known {
    struct known *next;
    uint64_t id, start; /* of the allocation */
    uint64_t base;      /* of its first page */
    size_t n, room;
    struct segment *seg;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards everything below */
static struct known *first;

static struct known **find(uint64_t id)
{
    struct known **p = &first;

    while (*p && (*p)->id != id)
        p = &(*p)->next;
    return p;
}

/* Is that allocation still there? Ids are never used again. */
static bool alive(const struct known *k)
{
    struct vcu_place p;

    return vcu_memory_find(k->start, &p) && p.m.buffer_id == k->id;
}

static void drop_dead(void)
{
    for (struct known **p = &first; *p;) {
        struct known *k = *p;

        if (alive(k)) {
            p = &k->next;
            continue;
        }
        *p = k->next;
        free(k->seg);
        free(k);
    }
}

/* Room for two more segments, which is what one change can need. */
static bool reserve(struct known *k)
{
    size_t room = k->room ? 2 * k->room : 8;
    struct segment *seg;

    if (k->n + 2 <= k->room)
        return true;
    seg = realloc(k->seg, room * sizeof(*seg));
    if (!seg)
        return false;
    k->seg = seg;
    k->room = room;
    return true;
}

static struct known *make(const struct range *r, uint64_t base, uint64_t end)
{
    struct known *k = calloc(1, sizeof(*k));

    drop_dead();
    if (!k || !reserve(k)) {
        free(k);
        return NULL;
    }
    k->id = r->id;
    k->start = r->base;
    k->base = base;
    k->n = 1;
    k->seg[0] = (struct segment){.end = end};
    k->next = first;
    first = k;
    return k;
}

/* Makes `at` the border of two segments; the index of the one that begins there. */
static size_t cut(struct known *k, uint64_t at)
{
    size_t i = 0;

    if (at <= k->base)
        return 0;
    while (i < k->n && k->seg[i].end < at)
        i++;
    if (i == k->n || k->seg[i].end == at)
        return i < k->n ? i + 1 : i;
    memmove(&k->seg[i + 1], &k->seg[i], (k->n - i) * sizeof(k->seg[0]));
    k->seg[i].end = at;
    k->n++;
    return i + 1;
}

static bool same(const struct segment *a, const struct segment *b)
{
    return a->read_mostly == b->read_mostly && a->by_host == b->by_host && a->by == b->by &&
           a->preferred.type == b->preferred.type && a->preferred.id == b->preferred.id &&
           a->last.type == b->last.type && a->last.id == b->last.id;
}

static void join(struct known *k)
{
    size_t n = 0;

    for (size_t i = 1; i < k->n; i++) {
        if (same(&k->seg[n], &k->seg[i]))
            k->seg[n].end = k->seg[i].end;
        else
            k->seg[++n] = k->seg[i];
    }
    k->n = n + 1;
}

#define PREFETCHED 0 /* beside CUmem_advise */

static void apply(struct segment *s, int what, struct place at)
{
    bool host = at.type != CU_MEM_LOCATION_TYPE_DEVICE;
    uint64_t bit = host ? 0 : 1ull << (at.id & 63);

    switch (what) {
    case PREFETCHED:
        s->last = at;
        break;
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        s->read_mostly = what == CU_MEM_ADVISE_SET_READ_MOSTLY;
        break;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        s->preferred = at;
        break;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        s->preferred = (struct place){0, 0};
        break;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
        s->by |= bit;
        s->by_host |= host;
        break;
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
        s->by &= ~bit;
        s->by_host &= !host;
        break;
    }
}

/* Whole pages: documented for advice as for prefetching. */
static CUresult keep(const struct range *r, uint64_t from, uint64_t count, int what,
                     struct place at)
{
    uint64_t page = 4096, base = r->base & ~(page - 1);
    uint64_t end = (r->base + r->size + page - 1) & ~(page - 1);
    CUresult res = CUDA_ERROR_OUT_OF_MEMORY;
    struct known *k;

    pthread_mutex_lock(&lock);
    k = *find(r->id);
    if (!k)
        k = make(r, base, end);
    if (k && reserve(k)) {
        size_t i = cut(k, from & ~(page - 1));
        size_t n = cut(k, (from + count + page - 1) & ~(page - 1));

        for (; i < n; i++)
            apply(&k->seg[i], what, at);
        join(k);
        res = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return res;
}

static struct place common(struct place a, struct place b)
{
    return a.type == b.type && a.id == b.id ? a : (struct place){0, 0};
}

/* What holds for all of a range. */
static struct segment sum(const struct range *r, uint64_t from, uint64_t count)
{
    struct segment all = {0};
    const struct known *k;
    bool begun = false;

    pthread_mutex_lock(&lock);
    k = *find(r->id);
    for (size_t i = 0; k && i < k->n; i++) {
        const struct segment *s = &k->seg[i];
        uint64_t start = i ? k->seg[i - 1].end : k->base;

        if (s->end <= from || start >= from + count)
            continue;
        if (!begun) {
            all = *s;
            begun = true;
            continue;
        }
        all.read_mostly &= s->read_mostly;
        all.by_host &= s->by_host;
        all.by &= s->by;
        all.preferred = common(all.preferred, s->preferred);
        all.last = common(all.last, s->last);
    }
    pthread_mutex_unlock(&lock);
    return all;
}

/* A place as the attributes say it that know GPUs and the host only. */
static int as_device(struct place p)
{
    if (p.type == 0)
        return CU_DEVICE_INVALID;
    return p.type == CU_MEM_LOCATION_TYPE_DEVICE ? p.id : CU_DEVICE_CPU;
}

static CUresult accessed_by(const struct segment *s, int *out, size_t bytes)
{
    size_t n = bytes / sizeof(*out), k = 0;

    if (n == 0 || bytes % sizeof(*out) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < 64 && k < n; i++) {
        if (s->by >> i & 1)
            out[k++] = i;
    }
    if (s->by_host && k < n)
        out[k++] = CU_DEVICE_CPU;
    while (k < n)
        out[k++] = CU_DEVICE_INVALID;
    return CUDA_SUCCESS;
}

/* One attribute of a range that was checked. */
static CUresult answer(void *data, size_t bytes, CUmem_range_attribute attribute,
                       const struct segment *s)
{
    int v;

    switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        v = s->read_mostly;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
        v = as_device(s->preferred);
        break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
        v = as_device(s->last);
        break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
        v = s->preferred.type;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
        v = s->preferred.id;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
        v = s->last.type;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
        v = s->last.id;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
        return data ? accessed_by(s, data, bytes) : CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!data || bytes != sizeof(v))
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(data, &v, sizeof(v));
    return CUDA_SUCCESS;
}

/* ---- entry points ---- */

static CUresult check_managed(CUdeviceptr ptr, size_t count, struct range *g)
{
    struct vcu_place p;

    if (count == 0 || !vcu_memory_find(ptr, &p) ||
        (p.m.kind != VCU_MEM_MANAGED && p.m.kind != VCU_MEM_SHADOW) ||
        !vgp_range_ok(ptr - p.start, count, p.size))
        return CUDA_ERROR_INVALID_VALUE;
    *g = (struct range){ p.m.buffer_id, p.start, p.size };
    return CUDA_SUCCESS;
}

static CUresult no_migration(const char *call)
{
    return VCU_REFUSE(CUDA_ERROR_INVALID_DEVICE, call,
                      "managed memory does not migrate (device attribute 89 is 0)");
}

/* As for a host without NUMA: one node. */
static CUresult check_location(const char *call, const CUmemLocation *loc, struct place *at)
{
    switch (loc->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return no_migration(call);
    case CU_MEM_LOCATION_TYPE_HOST:
        *at = (struct place){ CU_MEM_LOCATION_TYPE_HOST, 0 };
        return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        if (loc->id != 0)
            return CUDA_ERROR_INVALID_VALUE;
        /* fall through */
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        *at = (struct place){ CU_MEM_LOCATION_TYPE_HOST_NUMA, 0 };
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult vcu_cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                            CUmemLocation location)
{
    bool by = advice == CU_MEM_ADVISE_SET_ACCESSED_BY || advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
    struct place at = { 0, 0 };
    struct range g;
    CUresult r = vcu_check_context();

    if (r != CUDA_SUCCESS)
        return r;
    if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
        return CUDA_ERROR_INVALID_VALUE;
    r = check_managed(devPtr, count, &g);
    if (r == CUDA_SUCCESS && (by || advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION))
        r = check_location("cuMemAdvise", &location, &at);
    if (r == CUDA_SUCCESS && by && at.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
        r = CUDA_ERROR_INVALID_VALUE;
    return r == CUDA_SUCCESS ? keep(&g, devPtr, count, (int)advice, at) : r;
}

CUresult vcu_cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
    CUmemLocation location = { .type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST
                                                               : CU_MEM_LOCATION_TYPE_DEVICE,
                               .id = device == CU_DEVICE_CPU ? 0 : device };

    return vcu_cuMemAdvise_v2(devPtr, count, advice, location);
}

/* Documented: the stream's device must have attribute 89, wherever the memory is to go. */
CUresult vcu_cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                                   unsigned int flags, CUstream hStream)
{
    struct range g;
    CUresult r = vcu_check_context();

    if (r != CUDA_SUCCESS)
        return r;
    if (!vcu_stream_ok(vcu_stream(hStream)))
        return vcu_stream_error(vcu_stream(hStream));
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    (void)location;
    r = check_managed(devPtr, count, &g);
    return r == CUDA_SUCCESS ? no_migration("cuMemPrefetchAsync") : r;
}

CUresult vcu_cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
                                CUstream hStream)
{
    CUmemLocation location = { .type = dstDevice == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST
                                                                  : CU_MEM_LOCATION_TYPE_DEVICE,
                               .id = dstDevice == CU_DEVICE_CPU ? 0 : dstDevice };

    return vcu_cuMemPrefetchAsync_v2(devPtr, count, location, 0, hStream);
}

/* What a batch of n ranges has to be, with or without places. */
static CUresult batch(const char *call, CUdeviceptr *dptrs, size_t *sizes, size_t n, size_t *idxs,
                      size_t nlocs, unsigned long long flags, CUstream stream)
{
    struct range g;

    if (n == 0 || dptrs == NULL || sizes == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vcu_stream_ok(stream))
        return vcu_stream_error(stream);
    if (stream == NULL || stream == CU_STREAM_LEGACY)
        return VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, call, "not on the legacy default stream");
    for (size_t i = 0; i < nlocs; i++) {
        if (i != 0 ? idxs[i] <= idxs[i - 1] || idxs[i] >= n : idxs[0] != 0)
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < n; i++) {
        if (check_managed(dptrs[i], sizes[i], &g) != CUDA_SUCCESS)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return no_migration(call);
}

CUresult vcu_cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
                                     CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs,
                                     size_t numPrefetchLocs, unsigned long long flags,
                                     CUstream hStream)
{
    CUresult r = vcu_check_context();

    if (r != CUDA_SUCCESS)
        return r;
    if (prefetchLocs == NULL || prefetchLocIdxs == NULL || numPrefetchLocs == 0 ||
        numPrefetchLocs > count)
        return CUDA_ERROR_INVALID_VALUE;
    return batch("cuMemPrefetchBatchAsync", dptrs, sizes, count, prefetchLocIdxs, numPrefetchLocs,
                 flags, vcu_stream(hStream));
}

CUresult vcu_cuMemDiscardBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
                                    unsigned long long flags, CUstream hStream)
{
    CUresult r = vcu_check_context();

    return r == CUDA_SUCCESS ? batch("cuMemDiscardBatchAsync", dptrs, sizes, count, NULL, 0, flags,
                                     vcu_stream(hStream))
                             : r;
}

CUresult vcu_cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
                                               CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs,
                                               size_t numPrefetchLocs, unsigned long long flags,
                                               CUstream hStream)
{
    CUresult r = vcu_check_context();

    if (r != CUDA_SUCCESS)
        return r;
    if (prefetchLocs == NULL || prefetchLocIdxs == NULL || numPrefetchLocs == 0 ||
        numPrefetchLocs > count)
        return CUDA_ERROR_INVALID_VALUE;
    return batch("cuMemDiscardAndPrefetchBatchAsync", dptrs, sizes, count, prefetchLocIdxs,
                 numPrefetchLocs, flags, vcu_stream(hStream));
}

CUresult vcu_cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute,
                                    CUdeviceptr devPtr, size_t count)
{
    struct segment s;
    struct range g;
    CUresult r;

    r = vcu_check_context();
    if (r != CUDA_SUCCESS)
        return r;
    r = check_managed(devPtr, count, &g);
    if (r != CUDA_SUCCESS)
        return r;
    s = sum(&g, devPtr, count);
    return answer(data, dataSize, attribute, &s);
}

CUresult vcu_cuMemRangeGetAttributes(void **data, size_t *dataSizes,
                                     CUmem_range_attribute *attributes, size_t numAttributes,
                                     CUdeviceptr devPtr, size_t count)
{
    struct segment s;
    struct range g;
    CUresult r;

    r = vcu_check_context();
    if (r != CUDA_SUCCESS)
        return r;
    if (!data || !dataSizes || !attributes || !numAttributes)
        return CUDA_ERROR_INVALID_VALUE;
    r = check_managed(devPtr, count, &g);
    if (r != CUDA_SUCCESS)
        return r;
    s = sum(&g, devPtr, count);
    for (size_t i = 0; i < numAttributes && r == CUDA_SUCCESS; i++)
        r = answer(data[i], dataSizes[i], attributes[i], &s);
    return r;
}
