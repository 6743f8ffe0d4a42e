/* SPDX-License-Identifier: MIT */
/*
 * Memory that graphs allocate. An allocation node has its address from the beginning and keeps it
 * for as long as anything can use it; bytes are counted while launches have it. What a launch frees
 * again counts once for the most that is allocated at one time, which is what cuGraphLaunch checks.
 *
 * Memory that was counted stays reserved for graphs until cuDeviceGraphMemTrim, as in NVIDIA's
 * driver, so that the next launch cannot fail for want of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sg_graph.h"

_Atomic unsigned sg_gmem_live;

/* Under sg_graph_lock. */
static struct account {
    uint64_t used, used_high, reserved, reserved_high;
} account[SG_MAX_DEVICES];

static uint64_t rounded(uint64_t size)
{
    return (size + 511) & ~511ull; /* as memory is given out */
}

static bool take(int device, uint64_t bytes)
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

static void give(int device, uint64_t bytes)
{
    account[device].used -= bytes;
}

/* ---- objects ---- */

void sg_gmem_get(struct sg_gmem *m)
{
    if (m)
        m->refs++;
}

void sg_gmem_put(struct sg_gmem *m)
{
    if (!m || --m->refs)
        return;
    sg_mem_release(m->addr);
    atomic_fetch_sub(&sg_gmem_live, 1);
    free(m->access);
    free(m);
}

static CUresult gmem_new(struct sg_graph *g, int device, uint64_t size, struct sg_gmem **out)
{
    struct sg_gmem *m = calloc(1, sizeof(*m));
    CUresult r;

    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->refs = 1;
    m->size = size;
    m->device = device;
    m->owner = g;
    r = sg_mem_alloc_graph(sg_devices[device].primary, m, size, &m->addr);
    if (r != CUDA_SUCCESS) {
        free(m);
        return r;
    }
    atomic_fetch_add(&sg_gmem_live, 1);
    *out = m;
    return CUDA_SUCCESS;
}

/* The allocation that starts there. */
static struct sg_gmem *find(uint64_t addr)
{
    struct sg_mem_info info;

    return sg_mem_find(addr, &info) && info.base == addr ? info.graph : NULL;
}

bool sg_gmem_dormant(uint64_t addr)
{
    struct sg_mem_info info;

    return atomic_load(&sg_gmem_live) && sg_mem_find(addr, &info) && info.dormant;
}

CUresult sg_gmem_fault(struct sg_stream *s, const char *what)
{
    char text[96];

    snprintf(text, sizeof(text), "%s of a graph's memory that is not allocated", what);
    sg_device_fail(text);
    sg_set_fault(s->ctx, CUDA_ERROR_ILLEGAL_ADDRESS);
    return CUDA_ERROR_ILLEGAL_ADDRESS;
}

static void claim(struct sg_gmem *m)
{
    sg_gmem_get(m);
    if (m->claims++ == 0)
        sg_mem_set_dormant(m->addr, false);
}

static void unclaim(struct sg_gmem *m)
{
    if (--m->claims == 0)
        sg_mem_set_dormant(m->addr, true);
    sg_gmem_put(m);
}

/* ---- launches ---- */

/* What one step does when the launch is issued; false: undo. */
static CUresult announce(const struct sg_program *p, size_t i, bool again, struct sg_gclaim *c)
{
    struct sg_gmem *m = p->step[i].mem;

    if (p->step[i].other != SIZE_MAX) /* the launch itself allocates and frees it */
        return CUDA_SUCCESS;
    if (p->step[i].type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
        if (!m->unfreed)
            return sg_fail(CUDA_ERROR_INVALID_VALUE,
                           "cuGraphLaunch: frees memory that is not allocated");
        m->unfreed = false;
        c->taken[i] = true;
        return CUDA_SUCCESS;
    }
    if (m->unfreed)
        return again ? CUDA_SUCCESS /* as freed and allocated again */
                     : sg_fail(CUDA_ERROR_INVALID_VALUE,
                               "cuGraphLaunch: memory of the launch before is not freed");
    if (!take(m->device, rounded(m->size)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    claim(m);
    m->unfreed = true;
    c->taken[i] = true;
    return CUDA_SUCCESS;
}

static void revoke(const struct sg_program *p, struct sg_gclaim *c)
{
    for (size_t i = p->n; i-- > 0;) {
        struct sg_gmem *m = p->step[i].mem;

        if (!c->taken[i])
            continue;
        m->unfreed = p->step[i].type == CU_GRAPH_NODE_TYPE_MEM_FREE;
        if (!m->unfreed) {
            give(m->device, rounded(m->size));
            unclaim(m);
        }
    }
}

/* The most that a launch has at one time of what it frees itself: steps run one after the other. */
static void find_peak(const struct sg_program *p, uint64_t peak[SG_MAX_DEVICES])
{
    uint64_t now[SG_MAX_DEVICES] = {0};

    for (size_t i = 0; i < p->n; i++) {
        const struct sg_gmem *m = p->step[i].mem;

        if (!m || p->step[i].other == SIZE_MAX)
            continue;
        if (p->step[i].type == CU_GRAPH_NODE_TYPE_MEM_FREE)
            now[m->device] -= rounded(m->size);
        else
            now[m->device] += rounded(m->size);
        if (now[m->device] > peak[m->device])
            peak[m->device] = now[m->device];
    }
}

/* Raises what is held to the peak of one more launch. False: not enough memory, nothing changed. */
static bool hold_peak(struct sg_ghold *h, const uint64_t peak[SG_MAX_DEVICES])
{
    uint64_t more[SG_MAX_DEVICES];
    int d;

    for (d = 0; d < SG_MAX_DEVICES; d++) {
        more[d] = peak[d] > h->held[d] ? peak[d] - h->held[d] : 0;
        if (more[d] && !take(d, more[d]))
            break;
    }
    if (d < SG_MAX_DEVICES) {
        while (d-- > 0)
            give(d, more[d]);
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
        give(d, h->held[d]);
        h->held[d] = 0;
    }
}

CUresult sg_gclaim_new(const struct sg_program *p, bool again, struct sg_ghold *hold,
                       struct sg_gclaim **out)
{
    struct sg_gclaim *c = calloc(1, sizeof(*c));
    uint64_t peak[SG_MAX_DEVICES] = {0};
    CUresult r = CUDA_SUCCESS;

    if (!c || !(c->taken = calloc(p->n + 1, sizeof(*c->taken)))) {
        free(c);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    c->hold = hold;
    find_peak(p, peak);
    for (size_t i = 0; i < p->n && r == CUDA_SUCCESS; i++) {
        if (p->step[i].mem)
            r = announce(p, i, again, c);
    }
    if (r == CUDA_SUCCESS && !hold_peak(hold, peak))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS) {
        revoke(p, c);
        free(c->taken);
        free(c);
        return r == CUDA_ERROR_OUT_OF_MEMORY
                   ? sg_fail(r, "cuGraphLaunch: not enough device memory for the graph") : r;
    }
    *out = c;
    return CUDA_SUCCESS;
}

void sg_gclaim_step(const struct sg_program *p, size_t i)
{
    struct sg_gmem *m = p->step[i].mem;

    pthread_mutex_lock(&sg_graph_lock);
    if (p->step[i].type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
        if (p->step[i].other != SIZE_MAX)
            claim(m);
    } else {
        if (p->step[i].other == SIZE_MAX)
            give(m->device, rounded(m->size));
        unclaim(m);
    }
    pthread_mutex_unlock(&sg_graph_lock);
}

void sg_gclaim_end(const struct sg_program *p, struct sg_gclaim *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&sg_graph_lock);
    if (!c->issued)
        revoke(p, c);
    /* What a launch that was cut short would have freed. */
    for (size_t i = 0; c->issued && c->done < p->n && i < p->n; i++) {
        const struct sg_step *st = &p->step[i];

        if (!st->mem || st->type != CU_GRAPH_NODE_TYPE_MEM_FREE || i < c->done)
            continue;
        if (st->other == SIZE_MAX)
            give(st->mem->device, rounded(st->mem->size));
        if (st->other == SIZE_MAX || st->other < c->done)
            unclaim(st->mem);
    }
    let_peak_go(c->hold);
    pthread_mutex_unlock(&sg_graph_lock);
    free(c->taken);
    free(c);
}

CUresult sg_gmem_free(uint64_t addr, struct sg_gmem **out)
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;

    pthread_mutex_lock(&sg_graph_lock);
    struct sg_gmem *m = find(addr);

    if (m && m->unfreed) {
        m->unfreed = false;
        sg_gmem_get(m);
        *out = m;
        r = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

void sg_gmem_unclaim(struct sg_gmem *m)
{
    pthread_mutex_lock(&sg_graph_lock);
    give(m->device, rounded(m->size));
    unclaim(m);
    sg_gmem_put(m);
    pthread_mutex_unlock(&sg_graph_lock);
}

/* ---- nodes ---- */

static CUresult check_props(const CUmemPoolProps *p, const CUmemAccessDesc *access, size_t n)
{
    if (p->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        p->handleTypes != CU_MEM_HANDLE_TYPE_NONE || n > sg_config.ndevices || (n && !access))
        return CUDA_ERROR_INVALID_VALUE;
    if (p->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return p->location.type == CU_MEM_LOCATION_TYPE_HOST ||
                       p->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA
                   ? sg_fail(CUDA_ERROR_NOT_SUPPORTED, "graph nodes that allocate host memory")
                   : CUDA_ERROR_INVALID_VALUE;
    if ((unsigned)p->location.id >= sg_config.ndevices)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; i++) {
        /* As for pools: the device that the memory is on reaches it in any case. */
        if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            (unsigned)access[i].location.id >= sg_config.ndevices ||
            (access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE &&
             (access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE ||
              access[i].location.id == p->location.id)))
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/* Lets the devices named in `access` reach m, besides the one that it is on. */
static bool keep_access(struct sg_gmem *m, const CUmemAccessDesc *access, size_t n)
{
    uint32_t all = SG_ACCESS_OF(m->device);

    for (size_t i = 0; i < n; i++) {
        if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            all |= SG_ACCESS_OF(access[i].location.id);
    }
    sg_mem_set_access(m->addr, all);
    if (!n)
        return true;
    m->access = malloc(n * sizeof(*access));
    if (!m->access)
        return false;
    memcpy(m->access, access, n * sizeof(*access));
    m->naccess = n;
    return true;
}

/* Adds a node of m, whose reference it takes over (also on failure). Under the lock. */
static CUresult add_locked(CUgraphNode *out, struct sg_graph *g, const CUgraphNode *dependencies,
                           size_t n, CUgraphNodeType type, struct sg_gmem *m)
{
    struct sg_node **deps = NULL, *node;
    CUresult r = CUDA_ERROR_INVALID_VALUE;

    if (out && (!n || dependencies))
        r = sg_nodes_get_locked(g, dependencies, n, &deps);
    if (r == CUDA_SUCCESS)
        r = sg_node_new(g, type, NULL, deps, n, &node);
    sg_nodes_put(deps, n);
    if (r != CUDA_SUCCESS) {
        sg_gmem_put(m);
        return r;
    }
    node->mem = m;
    g->has_memory = true;
    *out = SG_HANDLE(CUgraphNode, node);
    sg_obj_put(&node->obj);
    return CUDA_SUCCESS;
}

/* May graph g get a node that frees m, or (NULL) one that allocates? */
static CUresult may_add(const struct sg_graph *g, const struct sg_gmem *m)
{
    if (g->owned) /* documented for children that were moved, and for bodies of conditions */
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED,
                       "memory nodes in a graph that belongs to a node of another");
    if (!m)
        return CUDA_SUCCESS;
    if (m->freed_inside || (m->owner == g ? m->freed_outside : false))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < g->n; i++) {
        if (g->nodes[i]->mem == m && g->nodes[i]->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
            return CUDA_ERROR_INVALID_VALUE; /* twice in the same graph */
    }
    return CUDA_SUCCESS;
}

static void note_free(const struct sg_graph *g, struct sg_gmem *m)
{
    if (m->owner == g)
        m->freed_inside = true;
    else
        m->freed_outside = true;
}

CUresult CUDAAPI cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                        const CUgraphNode *dependencies, size_t numDependencies,
                                        CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
    CUDA_MEM_ALLOC_NODE_PARAMS *p = nodeParams;
    struct sg_gmem *m = NULL;
    CUresult r;

    SG_GRAPH(g, hGraph);
    if (!p || !p->bytesize || !phGraphNode || (numDependencies && !dependencies))
        return CUDA_ERROR_INVALID_VALUE;
    r = check_props(&p->poolProps, p->accessDescs, p->accessDescCount);
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&sg_graph_lock);
    r = may_add(g, NULL);
    if (r == CUDA_SUCCESS)
        r = gmem_new(g, p->poolProps.location.id, p->bytesize, &m);
    if (r == CUDA_SUCCESS && !keep_access(m, p->accessDescs, p->accessDescCount)) {
        sg_gmem_put(m);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (r == CUDA_SUCCESS) {
        uint64_t addr = m->addr;

        r = add_locked(phGraphNode, g, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_MEM_ALLOC,
                       m);
        if (r == CUDA_SUCCESS)
            p->dptr = addr;
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

CUresult CUDAAPI cuGraphMemAllocNodeGetParams(CUgraphNode hNode,
                                              CUDA_MEM_ALLOC_NODE_PARAMS *params_out)
{
    SG_NODE(n, hNode);
    if (!params_out || n->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        return CUDA_ERROR_INVALID_VALUE;
    memset(params_out, 0, sizeof(*params_out));
    params_out->poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params_out->poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params_out->poolProps.location.id = n->mem->device;
    params_out->accessDescs = n->mem->access;
    params_out->accessDescCount = n->mem->naccess;
    params_out->bytesize = n->mem->size;
    params_out->dptr = n->mem->addr;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                       const CUgraphNode *dependencies, size_t numDependencies,
                                       CUdeviceptr dptr)
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;

    SG_GRAPH(g, hGraph);
    if (!phGraphNode || (numDependencies && !dependencies))
        return r;
    pthread_mutex_lock(&sg_graph_lock);
    struct sg_gmem *m = find(dptr);

    if (m)
        r = may_add(g, m);
    if (r == CUDA_SUCCESS) {
        sg_gmem_get(m);
        r = add_locked(phGraphNode, g, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_MEM_FREE,
                       m);
        if (r == CUDA_SUCCESS)
            note_free(g, m);
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

CUresult CUDAAPI cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out)
{
    SG_NODE(n, hNode);
    if (!dptr_out || n->type != CU_GRAPH_NODE_TYPE_MEM_FREE)
        return CUDA_ERROR_INVALID_VALUE;
    *dptr_out = n->mem->addr;
    return CUDA_SUCCESS;
}

/* ---- capture ---- */

bool sg_capture_alloc(struct sg_stream *s, int device, uint64_t bytes, uint32_t access,
                      CUdeviceptr *dptr, CUresult *r)
{
    CUmemAccessDesc peers[SG_MAX_DEVICES];
    struct sg_gmem *m = NULL;
    size_t n = 0;
    bool captured;

    if (!atomic_load(&sg_captures))
        return false;
    pthread_mutex_lock(&sg_graph_lock);
    captured = s->front->capture != NULL;
    if (captured) {
        struct sg_graph *g = s->front->capture->graph;

        *r = s->front->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : may_add(g, NULL);
        if (*r == CUDA_SUCCESS)
            *r = gmem_new(g, device, bytes, &m);
        for (unsigned d = 0; d < sg_config.ndevices; d++) {
            if ((int)d != device && (access & SG_ACCESS_OF(d)))
                peers[n++] = (CUmemAccessDesc){{CU_MEM_LOCATION_TYPE_DEVICE, (int)d},
                                               CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        }
        if (*r == CUDA_SUCCESS && !keep_access(m, peers, n)) {
            sg_gmem_put(m);
            *r = CUDA_ERROR_OUT_OF_MEMORY;
        }
        if (*r == CUDA_SUCCESS) {
            uint64_t addr = m->addr;

            sg_capture_memory(s, CU_GRAPH_NODE_TYPE_MEM_ALLOC, m, r);
            if (*r == CUDA_SUCCESS)
                *dptr = addr;
        }
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return captured;
}

bool sg_capture_free(struct sg_stream *s, CUdeviceptr dptr, CUresult *r)
{
    bool captured;

    if (!atomic_load(&sg_captures))
        return false;
    pthread_mutex_lock(&sg_graph_lock);
    captured = s->front->capture != NULL;
    if (captured) {
        struct sg_graph *g = s->front->capture->graph;
        struct sg_gmem *m = find(dptr);

        *r = s->front->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
             : m                        ? may_add(g, m)
                                        : CUDA_ERROR_INVALID_VALUE;
        if (*r == CUDA_SUCCESS) {
            sg_gmem_get(m);
            sg_capture_memory(s, CU_GRAPH_NODE_TYPE_MEM_FREE, m, r);
            if (*r == CUDA_SUCCESS)
                note_free(g, m);
        }
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return captured;
}

/* ---- devices ---- */

CUresult CUDAAPI cuDeviceGraphMemTrim(CUdevice device)
{
    SG_INIT();
    SG_CHECK_DEVICE(device);
    pthread_mutex_lock(&sg_graph_lock);
    struct account *a = &account[device];

    sg_mem_uncharge(device, a->reserved - a->used);
    a->reserved = a->used;
    pthread_mutex_unlock(&sg_graph_lock);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr,
                                              void *value)
{
    CUresult r = CUDA_SUCCESS;
    cuuint64_t v = 0;

    SG_INIT();
    SG_CHECK_DEVICE(device);
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sg_graph_lock);
    const struct account *a = &account[device];

    switch (attr) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
        v = a->used;
        break;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
        v = a->used_high;
        break;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        v = a->reserved;
        break;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        v = a->reserved_high;
        break;
    default:
        r = CUDA_ERROR_INVALID_VALUE;
        break;
    }
    pthread_mutex_unlock(&sg_graph_lock);
    if (r == CUDA_SUCCESS)
        memcpy(value, &v, sizeof(v));
    return r;
}

CUresult CUDAAPI cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr,
                                              void *value)
{
    cuuint64_t v;

    SG_INIT();
    SG_CHECK_DEVICE(device);
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&v, value, sizeof(v));
    if (v || (attr != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH &&
              attr != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH))
        return CUDA_ERROR_INVALID_VALUE; /* documented: high watermarks only, and only to zero */
    pthread_mutex_lock(&sg_graph_lock);
    struct account *a = &account[device];

    if (attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
        a->used_high = a->used;
    else
        a->reserved_high = a->reserved;
    pthread_mutex_unlock(&sg_graph_lock);
    return CUDA_SUCCESS;
}
