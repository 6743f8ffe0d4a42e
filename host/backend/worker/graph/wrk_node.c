/* SPDX-License-Identifier: MIT */
/* Building graphs call by call: graphs, edges, and simple nodes. */
#include "node.h"

#include <stdlib.h>
#include <string.h>

static bool all_zero(const uint8_t *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (p[i])
            return false;
    }
    return true;
}

CUresult wrk_where_get(struct wrk_call *c, struct wrk_where *w, uint32_t op, uint64_t graph, uint64_t target,
                       uint64_t exec, const uint64_t *dependencies, uint32_t n, const void *edges,
                       uint32_t edge_bytes)
{
    CUresult r = CUDA_SUCCESS;

    memset(w, 0, sizeof(*w));
    if (op > (c->w->minor < 8 ? VGP_NODE_CAPTURE : VGP_NODE_POST))
        return wrk_malformed(c, "no node operation number %u", op);
    if (op != VGP_NODE_POST && c->rec->reply_slot == VGP_NO_REPLY)
        return wrk_malformed(c, "no reply slot");
    c->builds = op == VGP_NODE_POST ? graph : 0;
    w->op = op >= VGP_NODE_NAME ? VGP_NODE_ADD : op;
    if (op >= VGP_NODE_NAME) {
        r = wrk_graph_reserve(c, target, VGP_H_GRAPH_NODE);
        if (r != CUDA_SUCCESS)
            return r;
        w->name = target;
        op = VGP_NODE_ADD;
    }
    if (!wrk_edges_ok(edges, edge_bytes, n, &w->edges))
        return wrk_malformed(c, "edge data does not fit the dependencies");
    if (all_zero(edges, edge_bytes))
        w->edges = NULL; /* ordinary ones, which every call can add */
    if (op == VGP_NODE_ADD) {
        r = wrk_graph_get(c, graph, &w->graph);
        if (r == CUDA_SUCCESS)
            w->in = w->graph->object;
        if (r == CUDA_SUCCESS)
            r = wrk_gnodes_get(c, w->graph, dependencies, n, true, &w->deps);
        w->ndeps = n;
    } else if (op != VGP_NODE_CAPTURE) {
        r = wrk_gnode_get(c, target, &w->target);
        if (r == CUDA_SUCCESS)
            w->at = w->target->object;
    }
    if (r == CUDA_SUCCESS && op == VGP_NODE_EXEC)
        r = wrk_handle_get(c, exec, VGP_H_GRAPH_EXEC, false, (void **)&w->exec);
    if (r == CUDA_SUCCESS && op == VGP_NODE_EXEC && wrk_exec_stale(w->exec))
        r = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (r != CUDA_SUCCESS || op == VGP_NODE_CAPTURE)
        return r;
    w->names = op == VGP_NODE_EXEC  ? wrk_exec_names(w->exec)
               : op == VGP_NODE_ADD ? &w->graph->names
                                    : &w->target->graph->names;
    wrk_naming_for(c, w->names);
    return w->names ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void wrk_where_end(struct wrk_where *w)
{
    free(w->deps);
}

/* Adds edges with data to a new node: the calls that add nodes do not accept them. */
static CUresult add_edges(struct wrk_call *c, struct wrk_where *w, CUgraphNode node)
{
    CUgraphNode *to = calloc(w->ndeps + 1, sizeof(*to));
    CUresult r;

    if (!to)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < w->ndeps; i++)
        to[i] = node;
    if (wrk_provider.cuGraphAddDependencies_v2)
        r = wrk_provider.cuGraphAddDependencies_v2(w->graph->object, w->deps, to, w->edges, w->ndeps);
    else
        r = wrk_missing(c, "cuGraphAddDependencies_v2");
    free(to);
    return r;
}

CUresult wrk_added(struct wrk_call *c, struct wrk_where *w, CUresult r, CUgraphNode node, uint64_t *handle)
{
    struct wrk_gnode *n;

    if (r != CUDA_SUCCESS)
        return r;
    if (w->edges)
        r = add_edges(c, w, node);
    n = r == CUDA_SUCCESS ? wrk_gnode_named(c->w, w->graph, node, w->name) : NULL;
    if (n) {
        *handle = n->handle;
        return CUDA_SUCCESS;
    }
    if (wrk_provider.cuGraphDestroyNode)
        wrk_provider.cuGraphDestroyNode(node);
    return r != CUDA_SUCCESS ? r : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult wrk_node_context(struct wrk_call *c, uint64_t handle, CUcontext *out)
{
    *out = NULL; /* the calling one */
    return handle ? wrk_handle_get(c, handle, VGP_H_CONTEXT, true, (void **)out) : wrk_naming_context(c);
}

struct search {
    const void *object;
    uint64_t handle;
};

static void node_compare(struct wrk_handle_entry *e, uint64_t handle, void *arg)
{
    struct search *s = arg;

    if (e->object == s->object)
        s->handle = handle;
}

uint64_t wrk_handle_of(struct wrk_worker *w, unsigned type, const void *object)
{
    struct search s = {.object = object};

    if (object)
        wrk_handles_each(&w->handles, type, node_compare, &s);
    return s.handle;
}

/* ---- graphs ---- */

CUresult wrk_graph_made(struct wrk_call *c, CUgraph object, uint64_t *handle)
{
    struct wrk_graph *g = wrk_graph_of(c->w, object);

    if (!g) {
        if (wrk_provider.cuGraphDestroy)
            wrk_provider.cuGraphDestroy(object);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    g->client = true;
    *handle = g->handle;
    return CUDA_SUCCESS;
}

CUresult wrk_do_vgpGraphNew(struct wrk_call *c, const struct vgp_args_vgpGraphNew *a)
{
    CUresult r = wrk_graph_reserve(c, a->graph, VGP_H_GRAPH);
    CUgraph object = NULL;
    struct wrk_graph *g;

    c->builds = c->rec->reply_slot == VGP_NO_REPLY ? a->graph : 0;
    if (r != CUDA_SUCCESS)
        return r;
    if (!wrk_provider.cuGraphCreate || !wrk_provider.cuGraphDestroy)
        return wrk_missing(c, "cuGraphCreate");
    r = wrk_provider.cuGraphCreate(&object, 0);
    if (r != CUDA_SUCCESS)
        return r;
    g = wrk_graph_named(c->w, object, a->graph);
    if (!g) {
        wrk_provider.cuGraphDestroy(object);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    g->client = true;
    return CUDA_SUCCESS;
}

bool wrk_graph_is_clients(struct wrk_call *c, uint64_t graph)
{
    struct wrk_graph *g;

    return wrk_graph_get_any(c, graph, &g) == CUDA_SUCCESS && g->client;
}

void wrk_graph_gone(struct wrk_call *c, uint64_t graph)
{
    struct wrk_graph *g;

    if (wrk_graph_get_any(c, graph, &g) == CUDA_SUCCESS)
        wrk_graph_forget(c->w, g);
}

CUresult wrk_node_found(struct wrk_call *c, uint64_t graph, CUgraphNode object, uint64_t *handle)
{
    struct wrk_gnode *n = NULL;
    struct wrk_graph *g;
    CUresult r = wrk_graph_get(c, graph, &g);

    if (r == CUDA_SUCCESS && (n = wrk_gnode_of(c->w, g, object)) == NULL)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    *handle = n ? n->handle : 0;
    return r;
}

CUresult wrk_graph_child(struct wrk_call *c, uint64_t node, CUgraph object, uint64_t *handle)
{
    struct wrk_gnode *n;
    struct wrk_graph *g;
    CUresult r = wrk_gnode_get(c, node, &n);

    if (r != CUDA_SUCCESS)
        return r;
    g = wrk_graph_of(c->w, object);
    if (!g)
        return CUDA_ERROR_OUT_OF_MEMORY;
    wrk_graph_adopt(n, g);
    *handle = g->handle;
    return CUDA_SUCCESS;
}

/* ---- what a node is for the client ---- */

bool wrk_node_is_copy(struct wrk_call *c, uint64_t node)
{
    struct wrk_gnode *n;

    return wrk_gnode_get(c, node, &n) == CUDA_SUCCESS && n->cookie;
}

uint64_t wrk_node_graph(struct wrk_call *c, uint64_t node)
{
    struct wrk_gnode *n;

    return wrk_gnode_get(c, node, &n) == CUDA_SUCCESS ? n->graph->handle : 0;
}

uint32_t wrk_node_type(struct wrk_call *c, uint64_t node, CUgraphNodeType own)
{
    struct wrk_gnode *n;

    if (wrk_gnode_get(c, node, &n) != CUDA_SUCCESS)
        return own;
    if (n->cookie)
        return CU_GRAPH_NODE_TYPE_MEMCPY;
    switch (own == CU_GRAPH_NODE_TYPE_HOST ? wrk_host_node_semaphores(n->object) : VGP_EXTSEM_NONE) {
    case VGP_EXTSEM_SIGNAL:
        return CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL;
    case VGP_EXTSEM_WAIT:
        return CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT;
    default:
        return own;
    }
}

/* Copies of two-half nodes have two halves as well. */
static bool clone_joined(struct wrk_call *c, const struct wrk_graph *from, struct wrk_graph *to)
{
    for (const struct wrk_gnode *n = from->nodes; n; n = n->next) {
        CUgraphNode part[3];
        const CUgraphNode was[3] = {n->object, n->in, n->out};
        uint64_t handle = 0;

        if (!n->cookie && n->in == n->out)
            continue;
        for (int i = 0; i < 3; i++) {
            if (wrk_provider.cuGraphNodeFindInClone(&part[i], was[i], to->object) != CUDA_SUCCESS)
                return false;
        }
        if (!wrk_gnode_join(c->w, to, part[0], part[1], part[2], n->cookie, &handle))
            return false;
    }
    return true;
}

CUresult wrk_graph_cloned(struct wrk_call *c, uint64_t from, CUgraph object, uint64_t *handle)
{
    struct wrk_graph *g = wrk_graph_of(c->w, object), *was;
    CUresult r = wrk_graph_get(c, from, &was);

    if (r != CUDA_SUCCESS || !g || !wrk_graph_names(&g->names, was) || !clone_joined(c, was, g)) {
        if (g)
            wrk_graph_forget(c->w, g);
        wrk_provider.cuGraphDestroy(object);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    wrk_urefs_copy(g, was);
    g->client = true;
    *handle = g->handle;
    return CUDA_SUCCESS;
}

void wrk_node_builds(struct wrk_call *c, uint64_t node)
{
    if (c->rec->reply_slot == VGP_NO_REPLY)
        c->builds = wrk_node_graph(c, node);
}

bool wrk_node_captured(struct wrk_call *c, uint64_t node)
{
    struct wrk_gnode *n;

    return wrk_gnode_get(c, node, &n) == CUDA_SUCCESS &&
           (wrk_capture_into(n->graph->object) || wrk_capture_within(NULL, n));
}

void wrk_node_gone(struct wrk_call *c, uint64_t node)
{
    struct wrk_gnode *n;

    if (wrk_gnode_get(c, node, &n) != CUDA_SUCCESS)
        return;
    if (n->in != n->out)
        wrk_provider.cuGraphDestroyNode(n->in == n->object ? n->out : n->in);
    wrk_gnode_forget(c->w, n);
}

CUresult wrk_do_vgpGraphEdges(struct wrk_call *c, const struct vgp_args_vgpGraphEdges *a,
                              const uint64_t *from, const uint64_t *to, const void *edgeData)
{
    CUresult (*v2)(CUgraph, const CUgraphNode *, const CUgraphNode *, const CUgraphEdgeData *, size_t) =
        a->remove ? wrk_provider.cuGraphRemoveDependencies_v2 : wrk_provider.cuGraphAddDependencies_v2;
    CUresult (*v1)(CUgraph, const CUgraphNode *, const CUgraphNode *, size_t) =
        a->remove ? wrk_provider.cuGraphRemoveDependencies : wrk_provider.cuGraphAddDependencies;
    CUgraphNode *f = NULL, *t = NULL;
    const CUgraphEdgeData *edges;
    struct wrk_graph *g;
    CUresult r;

    if (c->rec->reply_slot == VGP_NO_REPLY)
        c->builds = a->graph;
    r = wrk_graph_get(c, a->graph, &g);
    if (r != CUDA_SUCCESS)
        return r;
    if (a->from_len != a->to_len || !wrk_edges_ok(edgeData, a->edgeData_len, a->from_len, &edges))
        return wrk_malformed(c, "edges with unequal numbers of ends");
    if (!v2 && (edges || !v1))
        return wrk_missing(c, "cuGraphAddDependencies_v2");
    r = wrk_gnodes_get(c, g, from, a->from_len, true, &f);
    if (r == CUDA_SUCCESS)
        r = wrk_gnodes_get(c, g, to, a->to_len, false, &t);
    if (r == CUDA_SUCCESS)
        r = v2 ? v2(g->object, f, t, edges, a->from_len) : v1(g->object, f, t, a->from_len);
    free(f);
    free(t);
    return r;
}

bool wrk_node_joined(struct wrk_call *c, uint64_t node)
{
    struct wrk_gnode *n;

    return wrk_gnode_get(c, node, &n) == CUDA_SUCCESS && n->in != n->out;
}

CUresult wrk_node_enable_joined(struct wrk_call *c, CUgraphExec exec, uint64_t node, unsigned enabled)
{
    struct wrk_host_func *f = NULL;
    struct wrk_gnode *n;
    CUresult r = wrk_gnode_get(c, node, &n);

    if (r != CUDA_SUCCESS)
        return r;
    if (n->changed || wrk_exec_has_func(exec, n, n->cookie)) {
        wrk_notify_detail(c->w, "a copy of pageable memory that was changed cannot be switched off "
                                "or on");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    r = wrk_provider.cuGraphNodeSetEnabled(exec, n->object, enabled);
    if (r == CUDA_SUCCESS && enabled) {
        CUDA_HOST_NODE_PARAMS p = {0};

        if (!wrk_provider.cuGraphHostNodeGetParams)
            return wrk_missing(c, "cuGraphHostNodeGetParams");
        r = wrk_provider.cuGraphHostNodeGetParams(wrk_gnode_func(n), &p);
        f = p.userData; /* valid: the node's graph holds a reference */
        if (r == CUDA_SUCCESS && p.fn != wrk_host_func_run)
            return CUDA_ERROR_UNKNOWN;
    }
    return r == CUDA_SUCCESS ? wrk_exec_set_func(exec, n, f) : r;
}

/* ---- nodes ---- */

static bool has_joined(const struct wrk_graph *g)
{
    for (const struct wrk_gnode *n = g->nodes; n; n = n->next) {
        if (n->cookie || n->in != n->out)
            return true;
    }
    return false;
}

/* Two-half nodes in a node's copy of a child graph. */
static CUresult join_copy(struct wrk_call *c, struct wrk_where *w, const struct wrk_graph *child,
                          CUgraphNode node)
{
    struct wrk_gnode *n = wrk_gnode_of(c->w, w->graph, node);
    CUgraph object = NULL;
    struct wrk_graph *copy = NULL;

    if (wrk_provider.cuGraphChildGraphNodeGetGraph && wrk_provider.cuGraphNodeFindInClone &&
        wrk_provider.cuGraphChildGraphNodeGetGraph(node, &object) == CUDA_SUCCESS)
        copy = wrk_graph_of(c->w, object);
    if (copy)
        wrk_graph_adopt(n, copy);
    if (copy && clone_joined(c, child, copy))
        return CUDA_SUCCESS;
    wrk_notify_detail(c->w, "a child graph that copies pageable memory");
    if (wrk_provider.cuGraphDestroyNode && wrk_provider.cuGraphDestroyNode(node) == CUDA_SUCCESS)
        wrk_gnode_forget(c->w, n);
    return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult child_node(struct wrk_call *c, struct wrk_where *w, struct wrk_graph *child, uint64_t *handle)
{
    CUgraphNode node = NULL;
    CUgraph was = NULL;
    CUresult r;

    bool joined = has_joined(child);

    if (w->op != VGP_NODE_CAPTURE && !wrk_graph_names(w->names, child))
        return CUDA_ERROR_OUT_OF_MEMORY;

    if (joined && w->op == VGP_NODE_EXEC) { /* which takes no references to host functions */
        wrk_notify_detail(c->w, "an exchanged child graph that copies pageable memory");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    switch (w->op) {
    case VGP_NODE_ADD:
        if (!wrk_provider.cuGraphAddChildGraphNode)
            return wrk_missing(c, "cuGraphAddChildGraphNode");
        r = wrk_provider.cuGraphAddChildGraphNode(&node, w->graph->object, w->deps, wrk_where_n(w),
                                                  child->object);
        r = wrk_added(c, w, r, node, handle);
        return r == CUDA_SUCCESS && joined ? join_copy(c, w, child, node) : r;
    case VGP_NODE_EXEC:
        if (!wrk_provider.cuGraphExecChildGraphNodeSetParams)
            return wrk_missing(c, "cuGraphExecChildGraphNodeSetParams");
        if (wrk_provider.cuGraphChildGraphNodeGetGraph &&
            wrk_provider.cuGraphChildGraphNodeGetGraph(w->target->object, &was) == CUDA_SUCCESS &&
            !wrk_extsem_alike(was, child->object))
            return CUDA_ERROR_INVALID_VALUE; /* nodes of other types */
        return wrk_provider.cuGraphExecChildGraphNodeSetParams(w->exec, w->target->object, child->object);
    default:
        return wrk_malformed(c, "a child graph cannot be set");
    }
}

CUresult wrk_do_vgpGraphChildNode(struct wrk_call *c, const struct vgp_args_vgpGraphChildNode *a,
                                  const uint64_t *dependencies, const void *edgeData,
                                  struct vgp_ret_vgpGraphChildNode *ret)
{
    struct wrk_graph *child;
    struct wrk_where w;
    CUresult r = WRK_WHERE(&w);

    if (r == CUDA_SUCCESS)
        r = wrk_graph_get(c, a->child, &child);
    if (r == CUDA_SUCCESS)
        r = child_node(c, &w, child, &ret->node);
    wrk_where_end(&w);
    return r;
}

void wrk_host_func_refused(struct wrk_call *c, uint64_t cookie)
{
    struct wrk_host_func *f;

    if (c->rec->reply_slot != VGP_NO_REPLY || wrk_notify(c->w, VGP_NOTIFY_RELEASED, cookie, NULL, 0, 0))
        return;
    f = wrk_host_func_new(c->w, cookie, false);
    if (f)
        wrk_host_func_put(f); /* notifies the guest when there is room */
}

CUresult wrk_host_func_sent(struct wrk_host_func *f, CUresult r)
{
    if (r != CUDA_SUCCESS)
        wrk_host_func_put(f);
    return r;
}

CUresult wrk_host_node(struct wrk_call *c, struct wrk_where *w, uint64_t cookie,
                       enum vgp_extsem_op semaphores, uint64_t *handle)
{
    CUDA_HOST_NODE_PARAMS p = {.fn = wrk_host_func_run};
    struct wrk_host_func *f;
    CUgraphNode node = NULL;
    CUresult r;

    if (!wrk_provider.cuGraphAddHostNode || !wrk_provider.cuGraphHostNodeSetParams ||
        !wrk_provider.cuGraphExecHostNodeSetParams)
        return wrk_missing(c, "cuGraphAddHostNode");
    if (w->op != VGP_NODE_ADD && wrk_host_node_semaphores(w->target->object) != semaphores)
        return CUDA_ERROR_INVALID_VALUE; /* a node of another type */
    if (w->op == VGP_NODE_EXEC) {
        f = wrk_host_func_new(c->w, cookie, false);
        if (!f)
            return CUDA_ERROR_OUT_OF_MEMORY;
        wrk_host_func_set_semaphores(f, semaphores);
        r = wrk_exec_set_func(w->exec, w->target, f);
        if (r != CUDA_SUCCESS)
            wrk_host_func_drop(f);
        else
            wrk_host_func_put(f);
        return r;
    }
    struct wrk_graph *g = w->op == VGP_NODE_ADD ? w->graph : w->target->graph;
    r = wrk_host_func_for(c->w, g->object, cookie, &f);
    if (r != CUDA_SUCCESS)
        return r;
    wrk_host_func_set_semaphores(f, semaphores);
    p.userData = f;
    if (w->op == VGP_NODE_SET)
        return wrk_provider.cuGraphHostNodeSetParams(w->target->object, &p);
    r = wrk_provider.cuGraphAddHostNode(&node, g->object, w->deps, wrk_where_n(w), &p);
    return wrk_added(c, w, r, node, handle);
}
