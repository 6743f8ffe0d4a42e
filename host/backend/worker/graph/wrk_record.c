/* SPDX-License-Identifier: MIT */
/* Records of graphs and nodes: handle to object and back. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#include "lib/hash/hash.h"

/* ---- object to record: an open hash by address, linear probing ---- */

struct map {
    struct {
        const void *key; /* NULL: empty */
        void *value;
    } * VGB_OWNED slot;
    size_t room, count; /* room: a power of two */
};

static struct map graphs, nodes;

static size_t record_place(const struct map *m, const void *key)
{
    return (size_t)hsh_number(0, (uintptr_t)key) & (m->room - 1);
}

static void *map_get(const struct map *m, const void *key)
{
    if (!m->room || !key)
        return NULL;
    for (size_t i = record_place(m, key); m->slot[i].key; i = (i + 1) & (m->room - 1)) {
        if (m->slot[i].key == key)
            return m->slot[i].value;
    }
    return NULL;
}

static void map_insert(struct map *m, const void *key, void *value)
{
    size_t i = record_place(m, key);

    while (m->slot[i].key)
        i = (i + 1) & (m->room - 1);
    m->slot[i].key = key;
    m->slot[i].value = value;
    m->count++;
}

static bool map_put(struct map *m, const void *key, void *value)
{
    if (2 * (m->count + 1) > m->room) {
        struct map bigger = {.room = m->room ? 2 * m->room : 64};

        bigger.slot = calloc(bigger.room, sizeof(*bigger.slot));
        if (!bigger.slot)
            return false;
        for (size_t i = 0; i < m->room; i++) {
            if (m->slot[i].key)
                map_insert(&bigger, m->slot[i].key, m->slot[i].value);
        }
        free(m->slot);
        *m = bigger;
    }
    map_insert(m, key, value);
    return true;
}

static void map_drop(struct map *m, const void *key)
{
    size_t hole, i;

    if (!m->room)
        return;
    for (hole = record_place(m, key); m->slot[hole].key != key; hole = (hole + 1) & (m->room - 1)) {
        if (!m->slot[hole].key)
            return;
    }
    m->count--;
    /* Moves entries that probed past the hole into it. */
    for (i = (hole + 1) & (m->room - 1); m->slot[i].key; i = (i + 1) & (m->room - 1)) {
        size_t home = record_place(m, m->slot[i].key);

        if (((i - home) & (m->room - 1)) >= ((i - hole) & (m->room - 1))) {
            m->slot[hole] = m->slot[i];
            hole = i;
        }
    }
    m->slot[hole].key = NULL;
}

struct wrk_graph *wrk_graph_known(CUgraph object)
{
    return map_get(&graphs, object);
}

bool wrk_capture_within(const struct wrk_graph *g, const struct wrk_gnode *n)
{
    for (unsigned i = 0; i < wrk_captures; i++) {
        const struct wrk_graph *at = wrk_graph_known(wrk_capture_graph(i));

        for (; at; at = at->parent ? at->parent->graph : NULL) {
            if (at == g || (n && at->parent == n))
                return true;
        }
    }
    return false;
}

/* ---- handle to record ---- */

CUresult wrk_graph_get_any(struct wrk_call *c, uint64_t handle, struct wrk_graph **out)
{
    return wrk_handle_get(c, handle, VGP_H_GRAPH, false, (void **)out);
}

static CUresult graph_is_usable(struct wrk_call *c, struct wrk_graph *g)
{
    c->told |= g->failed != CUDA_SUCCESS;
    if (g->failed != CUDA_SUCCESS)
        return g->failed;
    return wrk_namer_stale(&g->names) || (wrk_namer_stale(&wrk_capturing) && wrk_capture_within(g, NULL))
               ? CUDA_ERROR_CONTEXT_IS_DESTROYED
               : CUDA_SUCCESS;
}

bool wrk_graph_names(struct wrk_namer *to, const struct wrk_graph *from)
{
    for (const struct wrk_namer *n = &from->names; n; n = n->up) {
        if (!wrk_namer_copy(to, n))
            return false;
    }
    return !wrk_capture_within(from, NULL) || wrk_namer_copy(to, &wrk_capturing);
}

CUresult wrk_graph_get(struct wrk_call *c, uint64_t handle, struct wrk_graph **out)
{
    CUresult r = wrk_graph_get_any(c, handle, out);

    return r == CUDA_SUCCESS ? graph_is_usable(c, *out) : r;
}

CUresult wrk_gnode_get(struct wrk_call *c, uint64_t handle, struct wrk_gnode **out)
{
    CUresult r = wrk_handle_get(c, handle, VGP_H_GRAPH_NODE, false, (void **)out);

    return r == CUDA_SUCCESS ? graph_is_usable(c, (*out)->graph) : r;
}

CUresult wrk_graph_object_any(struct wrk_call *c, uint64_t handle, CUgraph *object)
{
    struct wrk_graph *g;
    CUresult r = wrk_graph_get_any(c, handle, &g);

    if (r == CUDA_SUCCESS)
        *object = g->object;
    return r;
}

CUresult wrk_graph_object(struct wrk_call *c, uint64_t handle, CUgraph *object)
{
    struct wrk_graph *g;
    CUresult r = wrk_graph_get(c, handle, &g);

    if (r == CUDA_SUCCESS)
        *object = g->object;
    return r;
}

CUresult wrk_node_object(struct wrk_call *c, uint64_t handle, CUgraphNode *object)
{
    struct wrk_gnode *n;
    CUresult r = wrk_gnode_get(c, handle, &n);

    if (r == CUDA_SUCCESS)
        *object = n->object;
    return r;
}

CUresult wrk_gnodes_get(struct wrk_call *c, const struct wrk_graph *g, const uint64_t *handles, uint32_t n,
                        bool from, CUgraphNode **out)
{
    CUgraphNode *list = calloc(n + 1, sizeof(*list));

    if (!list)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        struct wrk_gnode *node;
        CUresult r = wrk_gnode_get(c, handles[i], &node);

        if (r != CUDA_SUCCESS || (g && node->graph != g)) {
            free(list);
            return CUDA_ERROR_INVALID_VALUE;
        }
        list[i] = from ? node->out : node->in;
    }
    *out = list;
    return CUDA_SUCCESS;
}

bool wrk_edges_ok(const void *data, uint32_t bytes, uint32_t edges, const CUgraphEdgeData **out)
{
    _Static_assert(sizeof(CUgraphEdgeData) == 8, "as on the wire");

    *out = bytes ? data : NULL;
    return !bytes || bytes == edges * sizeof(CUgraphEdgeData);
}

/* ---- records ---- */

CUresult wrk_graph_reserve(struct wrk_call *c, uint64_t name, enum vgp_handle_type type)
{
    if (VGP_HANDLE_INDEX(name) < VGP_HANDLE_GUEST_FIRST)
        return wrk_malformed(c, "handle %#llx is not the guest's to mint", (unsigned long long)name);
    return wrk_handle_reserve(c, name, type);
}

/* Handle of a new record, added to the table; 0: no memory, or too many. */
static uint64_t record_enter(struct wrk_worker *w, enum vgp_handle_type type, void *record, uint64_t name)
{
    if (!name)
        return wrk_handles_mint(&w->handles, type, record);
    if (wrk_handles_reserve(&w->handles, name, type) != CUDA_SUCCESS)
        return 0;
    wrk_handles_put(&w->handles, name, type, record, 0);
    return name;
}

struct wrk_graph *wrk_graph_of(struct wrk_worker *w, CUgraph object)
{
    return wrk_graph_named(w, object, 0);
}

struct wrk_graph *wrk_graph_named(struct wrk_worker *w, CUgraph object, uint64_t name)
{
    struct wrk_graph *g = wrk_graph_known(object);

    if (g || !object)
        return g;
    g = calloc(1, sizeof(*g));
    if (!g)
        return NULL;
    g->object = object;
    g->handle = record_enter(w, VGP_H_GRAPH, g, name);
    if (!g->handle || !map_put(&graphs, object, g)) {
        wrk_handles_remove(&w->handles, g->handle, VGP_H_GRAPH);
        free(g);
        return NULL;
    }
    return g;
}

struct wrk_gnode *wrk_gnode_of(struct wrk_worker *w, struct wrk_graph *g, CUgraphNode object)
{
    return wrk_gnode_named(w, g, object, 0);
}

struct wrk_gnode *wrk_gnode_named(struct wrk_worker *w, struct wrk_graph *g, CUgraphNode object,
                                  uint64_t name)
{
    struct wrk_gnode *n = map_get(&nodes, object);

    if (n)
        return n->graph == g ? n : NULL; /* nodes of another graph are not found */
    if (!object)
        return NULL;
    n = calloc(1, sizeof(*n));
    if (!n)
        return NULL;
    n->object = n->in = n->out = object;
    n->graph = g;
    n->handle = record_enter(w, VGP_H_GRAPH_NODE, n, name);
    if (!n->handle || !map_put(&nodes, object, n)) {
        wrk_handles_remove(&w->handles, n->handle, VGP_H_GRAPH_NODE);
        free(n);
        return NULL;
    }
    n->next = g->nodes;
    if (n->next)
        n->next->prev = n;
    g->nodes = n;
    return n;
}

struct wrk_gnode *wrk_gnode_known(CUgraphNode object)
{
    return map_get(&nodes, object);
}

bool wrk_gnode_join(struct wrk_worker *w, struct wrk_graph *g, CUgraphNode object, CUgraphNode in,
                    CUgraphNode out, uint64_t cookie, uint64_t *handle)
{
    struct wrk_gnode *n = wrk_gnode_named(w, g, object, *handle);
    CUgraphNode other = in == object ? out : in;

    if (!n)
        return false;
    if (other != object && !map_put(&nodes, other, n)) {
        wrk_gnode_forget(w, n); /* the caller destroys it */
        return false;
    }
    n->in = in;
    n->out = out;
    n->cookie = cookie;
    *handle = n->handle;
    return true;
}

bool wrk_graph_call_failed(struct wrk_call *c, CUresult r)
{
    const struct wrk_handle_entry *e = wrk_handles_find(&c->w->handles, c->builds, VGP_H_GRAPH);

    if (!c->builds)
        return false;
    if (e && ((struct wrk_graph *)e->object)->failed == CUDA_SUCCESS)
        ((struct wrk_graph *)e->object)->failed = r;
    if (!c->told)
        wrk_async_graph_failed(c->w, c->rec->call, r);
    return true;
}

/* Removes a node from its graph; the caller handles its child graph. */
static void drop_node(struct wrk_worker *w, struct wrk_gnode *n)
{
    if (n->prev)
        n->prev->next = n->next;
    else
        n->graph->nodes = n->next;
    if (n->next)
        n->next->prev = n->prev;
    map_drop(&nodes, n->object);
    map_drop(&nodes, n->in == n->object ? n->out : n->in);
    wrk_handles_remove(&w->handles, n->handle, VGP_H_GRAPH_NODE);
    free(n->bodies);
    free(n);
}

void wrk_graph_adopt(struct wrk_gnode *n, struct wrk_graph *g)
{
    if (g->parent)
        return;
    g->parent = n;
    g->names.up = &n->graph->names;
    g->next = n->child;
    n->child = g;
}

/* Removes g from its parent. */
static void leave_parent(struct wrk_graph *g)
{
    struct wrk_graph **p = g->parent ? &g->parent->child : NULL;

    while (p && *p != g)
        p = &(*p)->next;
    if (p)
        *p = g->next;
    g->parent = NULL;
    g->names.up = NULL;
}

/* Without recursion: the guest controls the nesting depth. */
void wrk_graph_forget(struct wrk_worker *w, struct wrk_graph *g)
{
    struct wrk_graph *top = g;

    leave_parent(g);
    for (;;) {
        while (g->nodes && !g->nodes->child)
            drop_node(w, g->nodes);
        if (g->nodes) {
            g = g->nodes->child; /* deeper first */
            continue;
        }
        struct wrk_gnode *parent = g->parent;
        bool last = g == top;

        leave_parent(g);
        map_drop(&graphs, g->object);
        wrk_urefs_clear(g);
        wrk_namer_clear(w, &g->names);
        wrk_handles_remove(&w->handles, g->handle, VGP_H_GRAPH);
        free(g->conditions);
        free(g);
        if (last)
            return;
        g = parent->graph;
    }
}

void wrk_gnode_forget(struct wrk_worker *w, struct wrk_gnode *n)
{
    while (n->child)
        wrk_graph_forget(w, n->child);
    drop_node(w, n);
}
