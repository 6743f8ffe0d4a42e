/* SPDX-License-Identifier: MIT */
/*
 * Peak memory of a graph launch. Memory freed by the graph is in use between its two nodes; memory
 * left allocated counts all the time. Nodes without an order between them may run concurrently. Of
 * all allocations in use at some time, one was made last. The result is therefore the maximum, over
 * all allocations, of its size plus that of all memory that may be in use when it is made:
 * allocations without a path from their free node to it and without a path from it to their
 * allocation node. It is never less than the memory in use, and exact if nodes are totally ordered.
 */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#include "vgb_sum.h"
#include "vgp_worker.h"

#define PEAK_MEM_MAX 4096u /* with more allocations in a graph, their sum is used */
/* Maximum words of bitmaps processed over all nodes and edges; beyond it the sum is used, too. */
#define PEAK_WORK_MAX ((size_t)1 << 26)

struct order {
    uint32_t *first, *next; /* by node, by edge: outgoing edges */
    uint32_t *missing;      /* incoming edges of a node not walked yet */
    uint32_t *queue;
    uint64_t *over;  /* by node: bitmap of allocations freed before it begins */
    uint64_t *begun; /* by node: bitmap of allocations made before it begins */
    uint64_t *own;   /* for the current node, after its end: freed, then allocated */
    uint32_t *at;    /* by node, plus an end entry: start of its allocations in `mine` */
    uint32_t *mine;  /* 2 * index of the allocation, + 1 if freed */
    size_t words;
};

static void order_free(struct order *o)
{
    free(o->first);
    free(o->next);
    free(o->missing);
    free(o->queue);
    free(o->over);
    free(o->begun);
    free(o->own);
    free(o->at);
    free(o->mine);
}

/* Sorts allocations and frees by node. */
static void order_mem(struct order *o, size_t nodes, const struct wrk_peak_mem *mem, size_t nmem)
{
    for (size_t m = 0; m < nmem; m++) {
        o->at[mem[m].alloc + 2]++;
        if (mem[m].free < nodes)
            o->at[mem[m].free + 2]++;
    }
    for (size_t i = 2; i < nodes + 2; i++)
        o->at[i] += o->at[i - 1];
    for (size_t m = 0; m < nmem; m++) {
        o->mine[o->at[mem[m].alloc + 1]++] = 2 * (uint32_t)m;
        if (mem[m].free < nodes)
            o->mine[o->at[mem[m].free + 1]++] = 2 * (uint32_t)m + 1;
    }
}

static bool order_new(struct order *o, size_t nodes, const uint32_t (*edges)[2], size_t nedges,
                      const struct wrk_peak_mem *mem, size_t nmem)
{
    o->words = (nmem + 63) / 64;
    o->own = malloc((2 * o->words + 1) * sizeof(*o->own));
    o->at = calloc(nodes + 2, sizeof(*o->at));
    o->mine = malloc((2 * nmem + 1) * sizeof(*o->mine));
    o->first = malloc((nodes + 1) * sizeof(*o->first));
    o->next = malloc((nedges + 1) * sizeof(*o->next));
    o->missing = calloc(nodes + 1, sizeof(*o->missing));
    o->queue = malloc((nodes + 1) * sizeof(*o->queue));
    o->over = calloc(nodes * o->words + 1, sizeof(*o->over));
    o->begun = calloc(nodes * o->words + 1, sizeof(*o->begun));
    if (!o->first || !o->next || !o->missing || !o->queue || !o->over || !o->begun || !o->own || !o->at ||
        !o->mine)
        return false;
    order_mem(o, nodes, mem, nmem);
    memset(o->first, 0xff, (nodes + 1) * sizeof(*o->first));
    for (size_t i = 0; i < nedges; i++) {
        o->next[i] = o->first[edges[i][0]];
        o->first[edges[i][0]] = (uint32_t)i;
        o->missing[edges[i][1]]++;
    }
    return true;
}

/* Computes the allocations freed and made at the end of node v, in o->own. */
static void end_node(struct order *o, uint32_t v)
{
    memcpy(o->own, o->over + v * o->words, o->words * sizeof(*o->own));
    memcpy(o->own + o->words, o->begun + v * o->words, o->words * sizeof(*o->own));
    for (uint32_t i = o->at[v]; i < o->at[v + 1]; i++) {
        const uint32_t m = o->mine[i] / 2;

        o->own[(o->mine[i] & 1 ? 0 : o->words) + m / 64] |= UINT64_C(1) << (m % 64);
    }
}

/* Fills o->over and o->begun; false: the edges form a cycle. */
static bool memory_peak_walk(struct order *o, size_t nodes, const uint32_t (*edges)[2])
{
    size_t head = 0, tail = 0;

    for (uint32_t v = 0; v < nodes; v++) {
        if (!o->missing[v])
            o->queue[tail++] = v;
    }
    while (head < tail) {
        uint32_t v = o->queue[head++];

        end_node(o, v);
        for (uint32_t e = o->first[v]; e != UINT32_MAX; e = o->next[e]) {
            uint64_t *then_over = o->over + edges[e][1] * o->words;
            uint64_t *then_begun = o->begun + edges[e][1] * o->words;

            for (size_t k = 0; k < o->words; k++) {
                then_over[k] |= o->own[k];
                then_begun[k] |= o->own[o->words + k];
            }
            if (!--o->missing[edges[e][1]])
                o->queue[tail++] = edges[e][1];
        }
    }
    return tail == nodes;
}

static bool order_has(const uint64_t *bits, const struct order *o, uint32_t node, size_t m)
{
    return bits[node * o->words + m / 64] >> (m % 64) & 1;
}

uint64_t wrk_peak(size_t nodes, const uint32_t (*edges)[2], size_t nedges, const struct wrk_peak_mem *mem,
                  size_t nmem)
{
    struct order o = {0};
    uint64_t kept = 0, all = 0, peak = 0;

    for (size_t m = 0; m < nmem; m++) {
        all = vgb_sum(all, mem[m].bytes);
        if (mem[m].free == WRK_PEAK_KEPT)
            kept = vgb_sum(kept, mem[m].bytes);
    }
    if (nmem > PEAK_MEM_MAX || (nodes + nedges) * (nmem / 64 + 1) > PEAK_WORK_MAX ||
        !order_new(&o, nodes, edges, nedges, mem, nmem) || !memory_peak_walk(&o, nodes, edges)) {
        order_free(&o);
        return all;
    }
    for (size_t b = 0; b < nmem; b++) {
        uint64_t sum = mem[b].bytes;

        if (mem[b].free == WRK_PEAK_KEPT)
            continue;
        for (size_t a = 0; a < nmem; a++) {
            if (a != b && mem[a].free != WRK_PEAK_KEPT && !order_has(o.over, &o, mem[b].alloc, a) &&
                !order_has(o.begun, &o, mem[a].alloc, b))
                sum = vgb_sum(sum, mem[a].bytes);
        }
        if (sum > peak)
            peak = sum;
    }
    order_free(&o);
    return vgb_sum(kept, peak);
}

/* ---- of a graph of the provider ---- */

struct view {
    CUgraphNode *node; /* sorted by address */
    size_t nodes, nedges, nmem;
    uint32_t (*edges)[2];
    VGB_OWNED struct wrk_peak_mem *mem;
    uint64_t *address; /* by mem */
};

static void view_free(struct view *v)
{
    free(v->node);
    free(v->edges);
    free(v->mem);
    free(v->address);
}

static int by_address(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

    return x < y ? -1 : x > y;
}

static uint32_t index_of(const struct view *v, CUgraphNode n)
{
    const CUgraphNode *at = bsearch(&n, v->node, v->nodes, sizeof(n), by_address);

    return at ? (uint32_t)(at - v->node) : UINT32_MAX;
}

/* False: not reported by the provider, so the order is unknown. */
static bool read_edges(struct view *v, CUgraph g)
{
    CUgraphNode *from = NULL, *to = NULL;
    CUgraphEdgeData *data = NULL;
    bool v2 = wrk_provider.cuGraphGetEdges_v2 != NULL, ok = false;
    size_t n = 0;

    if ((v2                             ? wrk_provider.cuGraphGetEdges_v2(g, NULL, NULL, NULL, &n)
         : wrk_provider.cuGraphGetEdges ? wrk_provider.cuGraphGetEdges(g, NULL, NULL, &n)
                                        : CUDA_ERROR_NOT_SUPPORTED) != CUDA_SUCCESS)
        return false;
    from = calloc(n + 1, sizeof(*from));
    to = calloc(n + 1, sizeof(*to));
    data = calloc(n + 1, sizeof(*data));
    v->edges = calloc(n + 1, sizeof(*v->edges));
    if (from && to && data && v->edges)
        ok = !n || (v2 ? wrk_provider.cuGraphGetEdges_v2(g, from, to, data, &n)
                       : wrk_provider.cuGraphGetEdges(g, from, to, &n)) == CUDA_SUCCESS;
    for (size_t i = 0; ok && i < n; i++) {
        v->edges[i][0] = index_of(v, from[i]);
        v->edges[i][1] = index_of(v, to[i]);
        ok = v->edges[i][0] != UINT32_MAX && v->edges[i][1] != UINT32_MAX;
    }
    v->nedges = ok ? n : 0;
    free(from);
    free(to);
    free(data);
    return ok;
}

static void memory_peak_add(struct view *v, uint32_t alloc, uint32_t free_, uint64_t bytes, uint64_t address)
{
    v->mem[v->nmem] = (struct wrk_peak_mem){alloc, free_, bytes};
    v->address[v->nmem++] = address;
}

/* Part of a node; a child graph counts as a step that uses the memory it frees itself and keeps the
 * rest. */
static bool read_node(struct view *v, uint32_t i, int device, unsigned depth)
{
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    CUDA_MEM_ALLOC_NODE_PARAMS p;
    struct wrk_graph_mem inside = {0};
    CUgraph child = NULL;

    wrk_provider.cuGraphNodeGetType(v->node[i], &type);
    memset(&p, 0, sizeof(p));
    if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
        wrk_provider.cuGraphMemAllocNodeGetParams(v->node[i], &p) == CUDA_SUCCESS &&
        (device == WRK_ANY_DEVICE || device == p.poolProps.location.id))
        memory_peak_add(v, i, WRK_PEAK_KEPT, p.bytesize, p.dptr);
    if (type == CU_GRAPH_NODE_TYPE_GRAPH &&
        wrk_provider.cuGraphChildGraphNodeGetGraph(v->node[i], &child) == CUDA_SUCCESS &&
        wrk_graph_mem_of(child, device, depth + 1, &inside)) {
        memory_peak_add(v, i, WRK_PEAK_KEPT, inside.kept, 0);
        memory_peak_add(v, i, i, inside.passing, 0);
        return true;
    }
    return type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE;
}

/* Allocation at an address. */
struct named {
    uint64_t address;
    size_t m;
};

static int by_named(const void *a, const void *b)
{
    const uint64_t x = ((const struct named *)a)->address, y = ((const struct named *)b)->address;

    return x < y ? -1 : x > y;
}

/* If out of memory, all allocations are assumed to stay. */
static void read_frees(struct view *v)
{
    struct named *named = malloc((v->nmem + 1) * sizeof(*named));

    for (size_t m = 0; named && m < v->nmem; m++)
        named[m] = (struct named){v->address[m], m};
    if (named)
        qsort(named, v->nmem, sizeof(*named), by_named);
    for (uint32_t i = 0; named && i < v->nodes && wrk_provider.cuGraphMemFreeNodeGetParams; i++) {
        CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
        CUdeviceptr at = 0;

        wrk_provider.cuGraphNodeGetType(v->node[i], &type);
        if (type != CU_GRAPH_NODE_TYPE_MEM_FREE ||
            wrk_provider.cuGraphMemFreeNodeGetParams(v->node[i], &at) != CUDA_SUCCESS)
            continue;
        const struct named *is =
            bsearch(&(struct named){.address = at}, named, v->nmem, sizeof(*named), by_named);

        if (is && at)
            v->mem[is->m].free = i;
    }
    free(named);
}

bool wrk_graph_mem_of(CUgraph g, int device, unsigned depth, struct wrk_graph_mem *out)
{
    struct view v = {0};
    bool found = false;
    size_t n = 0;

    *out = (struct wrk_graph_mem){0};
    if (depth == WRK_GRAPH_NEST_MAX || wrk_provider.cuGraphGetNodes(g, NULL, &n) != CUDA_SUCCESS || !n)
        return false;
    v.node = calloc(n, sizeof(*v.node));
    v.mem = calloc(2 * n, sizeof(*v.mem));
    v.address = calloc(2 * n, sizeof(*v.address));
    if (!v.node || !v.mem || !v.address) {
        view_free(&v);
        out->passing = UINT64_MAX;
        return true;
    }
    if (wrk_provider.cuGraphGetNodes(g, v.node, &n) == CUDA_SUCCESS) {
        v.nodes = n;
        qsort(v.node, n, sizeof(*v.node), by_address);
        for (uint32_t i = 0; i < n; i++)
            found |= read_node(&v, i, device, depth);
    }
    if (found && v.nmem) {
        if (read_edges(&v, g))
            read_frees(&v); /* otherwise all memory is assumed in use all the time */
        for (size_t m = 0; m < v.nmem; m++) {
            if (v.mem[m].free == WRK_PEAK_KEPT)
                out->kept = vgb_sum(out->kept, v.mem[m].bytes);
        }
        out->passing = wrk_peak(v.nodes, (const uint32_t(*)[2])v.edges, v.nedges, v.mem, v.nmem);
        out->passing -= out->passing == UINT64_MAX ? 0 : out->kept;
    }
    view_free(&v);
    return found;
}
