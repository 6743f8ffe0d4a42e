/* SPDX-License-Identifier: MIT */
/*
 * Memory allocated by graphs. An allocation node has its address from its creation and keeps it as
 * long as anything can use it; the bytes are accounted while a launch owns them. Memory that a
 * launch frees itself is accounted by its peak, which cuGraphLaunch checks.
 *
 * Accounted memory stays reserved for graphs until cuDeviceGraphMemTrim, as in NVIDIA's driver, so
 * that the next launch cannot fail for lack of memory.
 */
#include <stdlib.h>

#include "graph/graph.h"

/* Under sg_graph_lock. */
static struct account {
    uint64_t used, used_high, reserved, reserved_high;
} account[SG_MAX_DEVICES];

static uint64_t rounded_size(uint64_t size)
{
    return (size + 511) & ~511ull; /* as memory is given out */
}

static bool reserve_bytes(int device, uint64_t bytes)
{
    struct account *a = &account[device];
    uint64_t more = a->used + bytes > a->reserved ? a->used + bytes - a->reserved : 0;

    if (more && !sg_mem_charge(device, more))
        return false;
    a->reserved += more;
    a->used += bytes;
    if (a->used > a->used_high)
        a->used_high = a->used;
    if (a->reserved > a->reserved_high)
        a->reserved_high = a->reserved;
    return true;
}

static void return_bytes(int device, uint64_t bytes)
{
    account[device].used -= bytes;
}

/* ---- objects ---- */

void sg_graph_memory_get(struct sg_graph_memory *m)
{
    if (m)
        m->refs++;
}

void sg_graph_memory_put(struct sg_graph_memory *m)
{
    if (!m || --m->refs)
        return;
    sg_mem_release(m->addr);
    atomic_fetch_sub(&sg_graph_memory_live, 1);
    free(m->access);
    free(m);
}

CUresult sg_graph_memory_new(struct sg_graph *g, int device, uint64_t size, struct sg_graph_memory **out)
{
    struct sg_graph_memory *m = calloc(1, sizeof(*m));
    CUresult r;

    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->refs = 1;
    m->size = size;
    m->device = device;
    m->owner = g->id;
    r = sg_mem_alloc_graph(sg_devices[device].primary, m, size, &m->addr);
    if (r != CUDA_SUCCESS) {
        free(m);
        return r;
    }
    atomic_fetch_add(&sg_graph_memory_live, 1);
    *out = m;
    return CUDA_SUCCESS;
}

struct sg_graph_memory *sg_graph_memory_find(uint64_t addr)
{
    struct sg_mem_info info;

    return sg_mem_find(addr, &info) && info.base == addr ? info.graph : NULL;
}

static void claim_memory(struct sg_graph_memory *m)
{
    sg_graph_memory_get(m);
    if (m->claims++ == 0)
        sg_mem_set_dormant(m->addr, false);
}

static void unclaim_memory(struct sg_graph_memory *m)
{
    if (--m->claims == 0)
        sg_mem_set_dormant(m->addr, true);
    sg_graph_memory_put(m);
}

/* Ends a claim whose memory was charged when it was announced. */
static void end_claim(struct sg_graph_memory *m)
{
    return_bytes(m->device, rounded_size(m->size));
    unclaim_memory(m);
}

/* ---- launches ---- */

/* The effect of a step when the launch is issued. Returns false if it must be undone. */
static CUresult announce_step(const struct sg_program *p, size_t i, bool again, struct sg_gclaim *c)
{
    struct sg_graph_memory *m = p->step[i].mem;

    if (p->step[i].other != SIZE_MAX) /* the launch itself allocates and frees it */
        return CUDA_SUCCESS;
    if (p->step[i].type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
        if (!m->unfreed)
            return sg_fail(CUDA_ERROR_INVALID_VALUE, "cuGraphLaunch: frees memory that is not allocated");
        m->unfreed = false;
        m->by = NULL;
        c->taken[i] = true;
        return CUDA_SUCCESS;
    }
    if (m->unfreed)
        return again ? CUDA_SUCCESS /* as freed and allocated again */
                     : sg_fail(CUDA_ERROR_INVALID_VALUE,
                               "cuGraphLaunch: memory of the launch before is not freed");
    if (!reserve_bytes(m->device, rounded_size(m->size)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    claim_memory(m);
    m->unfreed = true;
    m->by = c;
    c->taken[i] = true;
    return CUDA_SUCCESS;
}

/*
 * Undoes announce_step(). Other threads may have made calls meanwhile: memory that the launch would have
 * allocated may have been freed, and then the claim ends with that call; memory that it would have
 * freed may have been allocated again, and then it is freed here.
 */
static void revoke_steps(const struct sg_program *p, struct sg_gclaim *c)
{
    for (size_t i = p->n; i-- > 0;) {
        struct sg_graph_memory *m = p->step[i].mem;

        if (!c->taken[i])
            continue;
        if (p->step[i].type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
            if (m->unfreed)
                end_claim(m);
            m->unfreed = true;
        } else if (m->by == c) {
            m->unfreed = false;
            m->by = NULL;
            end_claim(m);
        }
    }
}

/* Raises the held memory to the peak of one more launch. Returns false, with nothing changed, if
   there is not enough memory. */
static bool hold_peak(struct sg_ghold *h, const uint64_t peak[SG_MAX_DEVICES])
{
    uint64_t more[SG_MAX_DEVICES];
    int d;

    for (d = 0; d < SG_MAX_DEVICES; d++) {
        more[d] = peak[d] > h->held[d] ? peak[d] - h->held[d] : 0;
        if (more[d] && !reserve_bytes(d, more[d]))
            break;
    }
    if (d < SG_MAX_DEVICES) {
        while (d-- > 0)
            return_bytes(d, more[d]);
        return false;
    }
    for (d = 0; d < SG_MAX_DEVICES; d++)
        h->held[d] += more[d];
    h->pending++;
    return true;
}

static void let_peak_go(struct sg_ghold *h)
{
    if (--h->pending)
        return;
    for (int d = 0; d < SG_MAX_DEVICES; d++) {
        return_bytes(d, h->held[d]);
        h->held[d] = 0;
    }
}

CUresult sg_gclaim_new(const struct sg_program *p, bool again, struct sg_ghold *hold, struct sg_gclaim **out)
{
    struct sg_gclaim *c = calloc(1, sizeof(*c));
    CUresult r = CUDA_SUCCESS;

    if (!c || !(c->taken = calloc(p->n + 1, 2 * sizeof(*c->taken)))) {
        free(c);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    c->ran = c->taken + p->n + 1;
    c->hold = hold;
    for (size_t i = 0; i < p->n && r == CUDA_SUCCESS; i++) {
        if (p->step[i].mem)
            r = announce_step(p, i, again, c);
    }
    if (r == CUDA_SUCCESS && !hold_peak(hold, p->peak))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS) {
        revoke_steps(p, c);
        free(c->taken);
        free(c);
        return r == CUDA_ERROR_OUT_OF_MEMORY
                   ? sg_fail(r, "cuGraphLaunch: not enough device memory for the graph")
                   : r;
    }
    *out = c;
    return CUDA_SUCCESS;
}

void sg_gclaim_step(const struct sg_program *p, struct sg_gclaim *c, size_t i)
{
    struct sg_graph_memory *m = p->step[i].mem;

    pthread_mutex_lock(&sg_graph_lock);
    const size_t other = p->step[i].other;

    c->ran[i] = true;
    if (other != SIZE_MAX && c->ran[other] != (p->step[i].type == CU_GRAPH_NODE_TYPE_MEM_FREE)) {
        /* The two are unordered and the free comes first: no claim ends or begins. */
    } else if (p->step[i].type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
        if (other != SIZE_MAX)
            claim_memory(m);
    } else {
        if (other == SIZE_MAX)
            return_bytes(m->device, rounded_size(m->size));
        unclaim_memory(m);
    }
    pthread_mutex_unlock(&sg_graph_lock);
}

void sg_gclaim_end(const struct sg_program *p, struct sg_gclaim *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&sg_graph_lock);
    if (!c->issued)
        revoke_steps(p, c);
    /* Frees the memory that an aborted launch would have freed. */
    for (size_t i = 0; c->issued && i < p->n; i++) {
        const struct sg_step *st = &p->step[i];

        if (!st->mem || st->type != CU_GRAPH_NODE_TYPE_MEM_FREE || c->ran[i])
            continue;
        if (st->other == SIZE_MAX)
            return_bytes(st->mem->device, rounded_size(st->mem->size));
        if (st->other == SIZE_MAX || c->ran[st->other])
            unclaim_memory(st->mem);
    }
    let_peak_go(c->hold);
    pthread_mutex_unlock(&sg_graph_lock);
    free(c->taken);
    free(c);
}

CUresult sg_graph_memory_free(uint64_t addr, struct sg_graph_memory **out)
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;

    pthread_mutex_lock(&sg_graph_lock);
    struct sg_graph_memory *m = sg_graph_memory_find(addr);

    if (m && m->unfreed) {
        m->unfreed = false;
        m->by = NULL;
        sg_graph_memory_get(m);
        *out = m;
        r = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

void sg_graph_memory_unclaim(struct sg_graph_memory *m)
{
    pthread_mutex_lock(&sg_graph_lock);
    end_claim(m);
    sg_graph_memory_put(m);
    pthread_mutex_unlock(&sg_graph_lock);
}

/* ---- graph memory of a device ---- */

void sg_graph_memory_trim(int device)
{
    pthread_mutex_lock(&sg_graph_lock);
    struct account *a = &account[device];

    sg_mem_uncharge(device, a->reserved - a->used);
    a->reserved = a->used;
    pthread_mutex_unlock(&sg_graph_lock);
}

bool sg_graph_memory_attribute(int device, CUgraphMem_attribute attr, cuuint64_t *value)
{
    bool ok = true;

    pthread_mutex_lock(&sg_graph_lock);
    const struct account *a = &account[device];

    switch (attr) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
        *value = a->used;
        break;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
        *value = a->used_high;
        break;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        *value = a->reserved;
        break;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        *value = a->reserved_high;
        break;
    default:
        ok = false;
        break;
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return ok;
}

void sg_graph_memory_reset_high(int device, CUgraphMem_attribute attr)
{
    pthread_mutex_lock(&sg_graph_lock);
    struct account *a = &account[device];

    if (attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
        a->used_high = a->used;
    else
        a->reserved_high = a->reserved;
    pthread_mutex_unlock(&sg_graph_lock);
}
