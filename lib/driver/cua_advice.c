/* SPDX-License-Identifier: MIT */
/* Advice about managed memory, stored per page, as documented in the manual. */
#include "advice.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The advice from the end of the previous segment to here. */
struct segment {
    uint64_t end;
    bool read_mostly, by_host;
    uint64_t by; /* bit i: device i */
    struct cua_place preferred, last;
};

/* An allocation with stored advice; its segments cover it without gaps. */
struct known {
    struct known *next;
    uint64_t id, start; /* id and start of the allocation */
    uint64_t base;      /* address of its first page */
    size_t n, room;
    struct segment *seg;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards everything below */
static struct known *first;

static struct known **find_known(uint64_t id)
{
    struct known **p = &first;

    while (*p && (*p)->id != id)
        p = &(*p)->next;
    return p;
}

static void drop_dead(cua_alive_fn *alive)
{
    for (struct known **p = &first; *p;) {
        struct known *k = *p;

        if (alive(k->id, k->start)) {
            p = &k->next;
            continue;
        }
        *p = k->next;
        free(k->seg);
        free(k);
    }
}

/* Makes room for two more segments, the maximum that one change needs. */
static bool reserve_segments(struct known *k)
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

static struct known *make_advice(const struct cua_range *r, uint64_t base, uint64_t end, cua_alive_fn *alive)
{
    struct known *k = calloc(1, sizeof(*k));

    drop_dead(alive);
    if (!k || !reserve_segments(k)) {
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

/* Splits segments at `at`; returns the index of the segment that begins there. */
static size_t cut_segment(struct known *k, uint64_t at)
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

static bool same_state(const struct segment *a, const struct segment *b)
{
    return a->read_mostly == b->read_mostly && a->by_host == b->by_host && a->by == b->by &&
           a->preferred.type == b->preferred.type && a->preferred.id == b->preferred.id &&
           a->last.type == b->last.type && a->last.id == b->last.id;
}

static void join_segments(struct known *k)
{
    size_t n = 0;

    for (size_t i = 1; i < k->n; i++) {
        if (same_state(&k->seg[n], &k->seg[i]))
            k->seg[n].end = k->seg[i].end;
        else
            k->seg[++n] = k->seg[i];
    }
    k->n = n + 1;
}

static void apply_advice(struct segment *s, int what, struct cua_place at)
{
    bool host = at.type != CU_MEM_LOCATION_TYPE_DEVICE;
    uint64_t bit = host ? 0 : 1ull << (at.id & 63);

    switch (what) {
    case CUA_PREFETCHED:
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
        s->preferred = (struct cua_place){0, 0};
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
CUresult cua_advice_keep(const struct cua_range *r, uint64_t from, uint64_t count, int what,
                         struct cua_place at, cua_alive_fn *alive)
{
    uint64_t page = 4096, base = r->base & ~(page - 1);
    uint64_t end = (r->base + r->size + page - 1) & ~(page - 1);
    CUresult res = CUDA_ERROR_OUT_OF_MEMORY;
    struct known *k;

    pthread_mutex_lock(&lock);
    k = *find_known(r->id);
    if (!k)
        k = make_advice(r, base, end, alive);
    if (k && reserve_segments(k)) {
        size_t i = cut_segment(k, from & ~(page - 1));
        size_t n = cut_segment(k, (from + count + page - 1) & ~(page - 1));

        for (; i < n; i++)
            apply_advice(&k->seg[i], what, at);
        join_segments(k);
        res = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return res;
}

static struct cua_place common_place(struct cua_place a, struct cua_place b)
{
    return a.type == b.type && a.id == b.id ? a : (struct cua_place){0, 0};
}

/* The advice that holds for all of a range. */
static struct segment sum_segments(const struct cua_range *r, uint64_t from, uint64_t count)
{
    struct segment all = {0};
    const struct known *k;
    bool begun = false;

    pthread_mutex_lock(&lock);
    k = *find_known(r->id);
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
        all.preferred = common_place(all.preferred, s->preferred);
        all.last = common_place(all.last, s->last);
    }
    pthread_mutex_unlock(&lock);
    return all;
}

/* A location as a device number, for attributes that only distinguish GPUs and the host. */
static int as_device(struct cua_place p)
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

/* An attribute of a checked range. */
static CUresult answer_attribute(void *data, size_t bytes, CUmem_range_attribute attribute,
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

CUresult cua_advice_attribute(const struct cua_range *r, uint64_t from, uint64_t count, void *data,
                              size_t bytes, CUmem_range_attribute attribute)
{
    struct segment s = sum_segments(r, from, count);

    return answer_attribute(data, bytes, attribute, &s);
}

CUresult cua_advice_attributes(const struct cua_range *r, uint64_t from, uint64_t count, void **data,
                               size_t *bytes, CUmem_range_attribute *attributes, size_t n)
{
    struct segment s = sum_segments(r, from, count);
    CUresult res = CUDA_SUCCESS;

    for (size_t i = 0; i < n && res == CUDA_SUCCESS; i++)
        res = answer_attribute(data[i], bytes[i], attributes[i], &s);
    return res;
}

CUresult cua_advice_place(const CUmemLocation *loc, struct cua_place *at)
{
    switch (loc->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        *at = (struct cua_place){CU_MEM_LOCATION_TYPE_DEVICE, loc->id};
        return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST:
        *at = (struct cua_place){CU_MEM_LOCATION_TYPE_HOST, 0};
        return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        if (loc->id != 0)
            return CUDA_ERROR_INVALID_VALUE;
        /* fall through */
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        *at = (struct cua_place){CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUmemLocation cua_location_of(CUdevice device)
{
    return device == CU_DEVICE_CPU ? (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST}
                                   : (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
}
