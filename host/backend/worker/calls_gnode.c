/* SPDX-License-Identifier: MIT */
/* Building graphs call by call: graphs, edges, and the nodes that need little explanation. */
#include "gnode.h"

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

CUresult vgb_where_get(struct vgb_call *c, struct vgb_where *w, uint32_t op, uint64_t graph,
                       uint64_t target, uint64_t exec, const uint64_t *dependencies, uint32_t n,
                       const void *edges, uint32_t edge_bytes)
{
    CUresult r = CUDA_SUCCESS;

    memset(w, 0, sizeof(*w));
    w->op = op;
    if (op > VGP_NODE_CAPTURE)
        return vgb_malformed(c, "no node operation number %u", op);
    if (!vgb_edges_ok(edges, edge_bytes, n, &w->edges))
        return vgb_malformed(c, "edge data does not fit the dependencies");
    if (all_zero(edges, edge_bytes))
        w->edges = NULL; /* ordinary ones, which every call can add */
    if (op == VGP_NODE_ADD) {
        r = vgb_graph_get(c, graph, &w->graph);
        if (r == CUDA_SUCCESS)
            r = vgb_gnodes_get(c, w->graph, dependencies, n, true, &w->deps);
        w->ndeps = n;
    } else if (op != VGP_NODE_CAPTURE) {
        r = vgb_gnode_get(c, target, &w->target);
    }
    if (r == CUDA_SUCCESS && op == VGP_NODE_EXEC)
        r = vgb_handle_get(c, exec, VGP_H_GRAPH_EXEC, false, (void **)&w->exec);
    return r;
}

void vgb_where_end(struct vgb_where *w)
{
    free(w->deps);
}

/* Edges of a new node that carry data: the calls that add nodes take none. */
static CUresult add_edges(struct vgb_call *c, struct vgb_where *w, CUgraphNode node)
{
    CUgraphNode *to = calloc(w->ndeps + 1, sizeof(*to));
    CUresult r;

    if (!to)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < w->ndeps; i++)
        to[i] = node;
    if (vgb_provider.cuGraphAddDependencies_v2)
        r = vgb_provider.cuGraphAddDependencies_v2(w->graph->object, w->deps, to, w->edges,
                                                   w->ndeps);
    else
        r = vgb_missing(c, "cuGraphAddDependencies_v2");
    free(to);
    return r;
}

CUresult vgb_added(struct vgb_call *c, struct vgb_where *w, CUresult r, CUgraphNode node,
                   uint64_t *handle)
{
    struct vgb_gnode *n;

    if (r != CUDA_SUCCESS)
        return r;
    if (w->edges)
        r = add_edges(c, w, node);
    n = r == CUDA_SUCCESS ? vgb_gnode_of(c->w, w->graph, node) : NULL;
    if (n) {
        *handle = n->handle;
        return CUDA_SUCCESS;
    }
    if (vgb_provider.cuGraphDestroyNode)
        vgb_provider.cuGraphDestroyNode(node);
    return r != CUDA_SUCCESS ? r : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult vgb_node_context(struct vgb_call *c, uint64_t handle, CUcontext *out)
{
    return vgb_handle_get(c, handle, VGP_H_CONTEXT, true, (void **)out);
}

struct search {
    const void *object;
    uint64_t handle;
};

static void compare(struct vgb_handle_entry *e, uint64_t handle, void *arg)
{
    struct search *s = arg;

    if (e->object == s->object)
        s->handle = handle;
}

uint64_t vgb_handle_of(struct vgb_worker *w, unsigned type, const void *object)
{
    struct search s = {.object = object};

    if (object)
        vgb_handles_each(&w->handles, type, compare, &s);
    return s.handle;
}

/* ---- graphs ---- */

CUresult vgb_do_vgpGraphCreate(struct vgb_call *c, const struct vgp_args_vgpGraphCreate *a,
                               struct vgp_ret_vgpGraphCreate *ret)
{
    CUgraph object = NULL;

    if (!vgb_provider.cuGraphCreate || !vgb_provider.cuGraphDestroy)
        return vgb_missing(c, "cuGraphCreate");
    CUresult r = vgb_provider.cuGraphCreate(&object, a->flags);
    if (r != CUDA_SUCCESS)
        return r;
    struct vgb_graph *g = vgb_graph_of(c->w, object);
    if (!g) {
        vgb_provider.cuGraphDestroy(object);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    g->client = true;
    ret->graph = g->handle;
    return CUDA_SUCCESS;
}

/* The copies of nodes that are two for the provider are two as well. */
static bool clone_joined(struct vgb_call *c, const struct vgb_graph *from, struct vgb_graph *to)
{
    for (const struct vgb_gnode *n = from->nodes; n; n = n->next) {
        CUgraphNode part[3];
        const CUgraphNode was[3] = {n->object, n->in, n->out};
        uint64_t handle;

        if (!n->cookie && n->in == n->out)
            continue;
        for (int i = 0; i < 3; i++) {
            if (vgb_provider.cuGraphNodeFindInClone(&part[i], was[i], to->object) != CUDA_SUCCESS)
                return false;
        }
        if (!vgb_gnode_join(c->w, to, part[0], part[1], part[2], n->cookie, &handle))
            return false;
    }
    return true;
}

CUresult vgb_do_vgpGraphClone(struct vgb_call *c, const struct vgp_args_vgpGraphClone *a,
                              struct vgp_ret_vgpGraphClone *ret)
{
    CUgraph object = NULL;
    struct vgb_graph *g, *from;
    CUresult r = vgb_graph_get(c, a->graph, &from);

    if (r != CUDA_SUCCESS)
        return r;
    if (!vgb_provider.cuGraphClone || !vgb_provider.cuGraphDestroy ||
        !vgb_provider.cuGraphNodeFindInClone)
        return vgb_missing(c, "cuGraphClone");
    r = vgb_provider.cuGraphClone(&object, from->object);
    if (r != CUDA_SUCCESS)
        return r;
    g = vgb_graph_of(c->w, object);
    if (!g || !clone_joined(c, from, g)) {
        if (g)
            vgb_graph_forget(c->w, g);
        vgb_provider.cuGraphDestroy(object);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    g->client = true;
    ret->clone = g->handle;
    return CUDA_SUCCESS;
}

CUresult vgb_do_vgpGraphNodeFindInClone(struct vgb_call *c,
                                        const struct vgp_args_vgpGraphNodeFindInClone *a,
                                        struct vgp_ret_vgpGraphNodeFindInClone *ret)
{
    CUgraphNode object = NULL;
    struct vgb_graph *g;
    struct vgb_gnode *n;
    CUresult r = vgb_graph_get(c, a->clone, &g);

    if (r == CUDA_SUCCESS)
        r = vgb_gnode_get(c, a->node, &n);
    if (r != CUDA_SUCCESS)
        return r;
    if (!vgb_provider.cuGraphNodeFindInClone)
        return vgb_missing(c, "cuGraphNodeFindInClone");
    r = vgb_provider.cuGraphNodeFindInClone(&object, n->object, g->object);
    if (r != CUDA_SUCCESS)
        return r;
    n = vgb_gnode_of(c->w, g, object);
    ret->found = n ? n->handle : 0;
    return n ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult vgb_do_vgpGraphDestroyNode(struct vgb_call *c,
                                    const struct vgp_args_vgpGraphDestroyNode *a)
{
    struct vgb_gnode *n;
    CUresult r = vgb_gnode_get(c, a->node, &n);

    if (r != CUDA_SUCCESS)
        return r;
    if (!vgb_provider.cuGraphDestroyNode)
        return vgb_missing(c, "cuGraphDestroyNode");
    r = vgb_provider.cuGraphDestroyNode(n->object);
    if (r != CUDA_SUCCESS)
        return r;
    if (n->in != n->out)
        vgb_provider.cuGraphDestroyNode(n->in == n->object ? n->out : n->in);
    vgb_gnode_forget(c->w, n);
    return CUDA_SUCCESS;
}

CUresult vgb_do_vgpGraphEdges(struct vgb_call *c, const struct vgp_args_vgpGraphEdges *a,
                              const uint64_t *from, const uint64_t *to, const void *edgeData)
{
    CUresult (*v2)(CUgraph, const CUgraphNode *, const CUgraphNode *, const CUgraphEdgeData *,
                   size_t) = a->remove ? vgb_provider.cuGraphRemoveDependencies_v2
                                       : vgb_provider.cuGraphAddDependencies_v2;
    CUresult (*v1)(CUgraph, const CUgraphNode *, const CUgraphNode *, size_t) =
        a->remove ? vgb_provider.cuGraphRemoveDependencies : vgb_provider.cuGraphAddDependencies;
    CUgraphNode *f = NULL, *t = NULL;
    const CUgraphEdgeData *edges;
    struct vgb_graph *g;
    CUresult r = vgb_graph_get(c, a->graph, &g);

    if (r != CUDA_SUCCESS)
        return r;
    if (a->from_len != a->to_len || !vgb_edges_ok(edgeData, a->edgeData_len, a->from_len, &edges))
        return vgb_malformed(c, "edges with unequal numbers of ends");
    if (!v2 && (edges || !v1))
        return vgb_missing(c, "cuGraphAddDependencies_v2");
    r = vgb_gnodes_get(c, g, from, a->from_len, true, &f);
    if (r == CUDA_SUCCESS)
        r = vgb_gnodes_get(c, g, to, a->to_len, false, &t);
    if (r == CUDA_SUCCESS)
        r = v2 ? v2(g->object, f, t, edges, a->from_len) : v1(g->object, f, t, a->from_len);
    free(f);
    free(t);
    return r;
}

CUresult vgb_do_vgpGraphNodeInfo(struct vgb_call *c, const struct vgp_args_vgpGraphNodeInfo *a,
                                 struct vgp_ret_vgpGraphNodeInfo *ret)
{
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    struct vgb_gnode *n;
    CUresult r = vgb_gnode_get(c, a->node, &n);

    if (r != CUDA_SUCCESS)
        return r;
    if (!vgb_provider.cuGraphNodeGetType)
        return vgb_missing(c, "cuGraphNodeGetType");
    r = vgb_provider.cuGraphNodeGetType(n->object, &type);
    switch (type == CU_GRAPH_NODE_TYPE_HOST ? vgb_host_node_semaphores(n->object)
                                            : VGP_EXTSEM_NONE) {
    case VGP_EXTSEM_SIGNAL: type = CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL; break;
    case VGP_EXTSEM_WAIT: type = CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT; break;
    default: break;
    }
    ret->type = n->cookie ? CU_GRAPH_NODE_TYPE_MEMCPY : (uint32_t)type;
    ret->graph = n->graph->handle;
    return r;
}

CUresult vgb_do_vgpGraphChild(struct vgb_call *c, const struct vgp_args_vgpGraphChild *a,
                              struct vgp_ret_vgpGraphChild *ret)
{
    CUgraph object = NULL;
    struct vgb_graph *g;
    struct vgb_gnode *n;
    CUresult r = vgb_gnode_get(c, a->node, &n);

    if (r != CUDA_SUCCESS)
        return r;
    if (!vgb_provider.cuGraphChildGraphNodeGetGraph)
        return vgb_missing(c, "cuGraphChildGraphNodeGetGraph");
    r = vgb_provider.cuGraphChildGraphNodeGetGraph(n->object, &object);
    if (r != CUDA_SUCCESS)
        return r;
    g = vgb_graph_of(c->w, object);
    if (!g)
        return CUDA_ERROR_OUT_OF_MEMORY;
    vgb_graph_adopt(n, g);
    ret->graph = g->handle;
    return CUDA_SUCCESS;
}

/* Both halves: a host function cannot be switched off, but another be put in its place. */
static CUresult enable_joined(struct vgb_call *c, CUgraphExec exec, const struct vgb_gnode *n,
                              unsigned enabled)
{
    struct vgb_host_func *f = NULL;
    CUresult r;

    if (n->changed || vgb_exec_has_func(exec, vgb_gnode_func(n))) {
        vgb_notify_detail(c->w, "a copy of pageable memory that was changed cannot be switched off "
                                "or on");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    r = vgb_provider.cuGraphNodeSetEnabled(exec, n->object, enabled);
    if (r == CUDA_SUCCESS && enabled) {
        CUDA_HOST_NODE_PARAMS p = {0};

        if (!vgb_provider.cuGraphHostNodeGetParams)
            return vgb_missing(c, "cuGraphHostNodeGetParams");
        r = vgb_provider.cuGraphHostNodeGetParams(vgb_gnode_func(n), &p);
        f = p.userData;
        if (r == CUDA_SUCCESS && p.fn != vgb_host_func_run)
            return CUDA_ERROR_UNKNOWN;
    }
    return r == CUDA_SUCCESS ? vgb_exec_switch_func(exec, vgb_gnode_func(n), f) : r;
}

CUresult vgb_do_vgpGraphNodeEnabled(struct vgb_call *c,
                                    const struct vgp_args_vgpGraphNodeEnabled *a,
                                    struct vgp_ret_vgpGraphNodeEnabled *ret)
{
    unsigned enabled = a->value;
    CUgraphExec exec;
    struct vgb_gnode *n;
    CUresult r = vgb_handle_get(c, a->exec, VGP_H_GRAPH_EXEC, false, (void **)&exec);

    if (r == CUDA_SUCCESS)
        r = vgb_gnode_get(c, a->node, &n);
    if (r != CUDA_SUCCESS)
        return r;
    if (!vgb_provider.cuGraphNodeSetEnabled || !vgb_provider.cuGraphNodeGetEnabled)
        return vgb_missing(c, "cuGraphNodeSetEnabled");
    if (n->cookie && n->in == n->out && !a->set) {
        enabled = 1; /* it cannot be switched off */
    } else if (n->cookie && n->in == n->out) {
        vgb_notify_detail(c->w, "a copy between pageable memories cannot be switched off");
        r = CUDA_ERROR_NOT_SUPPORTED;
    } else if (!a->set) {
        r = vgb_provider.cuGraphNodeGetEnabled(exec, n->object, &enabled);
    } else if (n->cookie || n->in != n->out) {
        r = enable_joined(c, exec, n, enabled);
    } else {
        r = vgb_provider.cuGraphNodeSetEnabled(exec, n->object, enabled);
    }
    ret->enabled = enabled;
    return r;
}

/* ---- nodes ---- */

CUresult vgb_do_vgpGraphEmptyNode(struct vgb_call *c, const struct vgp_args_vgpGraphEmptyNode *a,
                                  const uint64_t *dependencies, const void *edgeData,
                                  struct vgp_ret_vgpGraphEmptyNode *ret)
{
    CUgraphNode node = NULL;
    struct vgb_where w;
    CUresult r = VGB_WHERE(&w);

    if (r == CUDA_SUCCESS && a->op != VGP_NODE_ADD)
        r = vgb_malformed(c, "an empty node has no parameters");
    if (r == CUDA_SUCCESS && !vgb_provider.cuGraphAddEmptyNode)
        r = vgb_missing(c, "cuGraphAddEmptyNode");
    if (r == CUDA_SUCCESS) {
        r = vgb_provider.cuGraphAddEmptyNode(&node, w.graph->object, w.deps, vgb_where_n(&w));
        r = vgb_added(c, &w, r, node, &ret->node);
    }
    vgb_where_end(&w);
    return r;
}

static bool has_joined(const struct vgb_graph *g)
{
    for (const struct vgb_gnode *n = g->nodes; n; n = n->next) {
        if (n->cookie || n->in != n->out)
            return true;
    }
    return false;
}

/* The copy that a node has of a child graph: its nodes of two halves are that as well. */
static CUresult join_copy(struct vgb_call *c, struct vgb_where *w, const struct vgb_graph *child,
                          CUgraphNode node)
{
    struct vgb_gnode *n = vgb_gnode_of(c->w, w->graph, node);
    CUgraph object = NULL;
    struct vgb_graph *copy = NULL;

    if (vgb_provider.cuGraphChildGraphNodeGetGraph && vgb_provider.cuGraphNodeFindInClone &&
        vgb_provider.cuGraphChildGraphNodeGetGraph(node, &object) == CUDA_SUCCESS)
        copy = vgb_graph_of(c->w, object);
    if (copy)
        vgb_graph_adopt(n, copy);
    if (copy && clone_joined(c, child, copy))
        return CUDA_SUCCESS;
    vgb_notify_detail(c->w, "a child graph that copies pageable memory");
    if (vgb_provider.cuGraphDestroyNode && vgb_provider.cuGraphDestroyNode(node) == CUDA_SUCCESS)
        vgb_gnode_forget(c->w, n);
    return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult child_node(struct vgb_call *c, struct vgb_where *w, struct vgb_graph *child,
                           uint64_t *handle)
{
    CUgraphNode node = NULL;
    CUgraph was = NULL;
    CUresult r;

    bool joined = has_joined(child);

    if (joined && w->op == VGP_NODE_EXEC) { /* which takes no references to its host functions */
        vgb_notify_detail(c->w, "an exchanged child graph that copies pageable memory");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    switch (w->op) {
    case VGP_NODE_ADD:
        if (!vgb_provider.cuGraphAddChildGraphNode)
            return vgb_missing(c, "cuGraphAddChildGraphNode");
        r = vgb_provider.cuGraphAddChildGraphNode(&node, w->graph->object, w->deps,
                                                  vgb_where_n(w), child->object);
        r = vgb_added(c, w, r, node, handle);
        return r == CUDA_SUCCESS && joined ? join_copy(c, w, child, node) : r;
    case VGP_NODE_EXEC:
        if (!vgb_provider.cuGraphExecChildGraphNodeSetParams)
            return vgb_missing(c, "cuGraphExecChildGraphNodeSetParams");
        if (vgb_provider.cuGraphChildGraphNodeGetGraph &&
            vgb_provider.cuGraphChildGraphNodeGetGraph(w->target->object, &was) == CUDA_SUCCESS &&
            !vgb_extsem_alike(was, child->object))
            return CUDA_ERROR_INVALID_VALUE; /* nodes of other types */
        return vgb_provider.cuGraphExecChildGraphNodeSetParams(w->exec, w->target->object,
                                                               child->object);
    default:
        return vgb_malformed(c, "a child graph cannot be set");
    }
}

CUresult vgb_do_vgpGraphChildNode(struct vgb_call *c, const struct vgp_args_vgpGraphChildNode *a,
                                  const uint64_t *dependencies, const void *edgeData,
                                  struct vgp_ret_vgpGraphChildNode *ret)
{
    struct vgb_graph *child;
    struct vgb_where w;
    CUresult r = VGB_WHERE(&w);

    if (r == CUDA_SUCCESS)
        r = vgb_graph_get(c, a->child, &child);
    if (r == CUDA_SUCCESS)
        r = child_node(c, &w, child, &ret->node);
    vgb_where_end(&w);
    return r;
}

CUresult vgb_host_node(struct vgb_call *c, struct vgb_where *w, uint64_t cookie,
                       enum vgp_extsem_op semaphores, uint64_t *handle)
{
    CUDA_HOST_NODE_PARAMS p = {.fn = vgb_host_func_run};
    struct vgb_host_func *f;
    CUgraphNode node = NULL;
    CUresult r;

    if (!vgb_provider.cuGraphAddHostNode || !vgb_provider.cuGraphHostNodeSetParams ||
        !vgb_provider.cuGraphExecHostNodeSetParams)
        return vgb_missing(c, "cuGraphAddHostNode");
    if (w->op != VGP_NODE_ADD && vgb_host_node_semaphores(w->target->object) != semaphores)
        return CUDA_ERROR_INVALID_VALUE; /* a node of another type */
    if (w->op == VGP_NODE_EXEC) {
        f = vgb_host_func_new(c->w, cookie, false);
        if (!f)
            return CUDA_ERROR_OUT_OF_MEMORY;
        vgb_host_func_set_semaphores(f, semaphores);
        r = vgb_exec_set_func(w->exec, w->target->object, f);
        if (r != CUDA_SUCCESS)
            vgb_host_func_free(f);
        return r;
    }
    struct vgb_graph *g = w->op == VGP_NODE_ADD ? w->graph : w->target->graph;
    r = vgb_host_func_for(c->w, g->object, cookie, &f);
    if (r != CUDA_SUCCESS)
        return r;
    vgb_host_func_set_semaphores(f, semaphores);
    p.userData = f;
    if (w->op == VGP_NODE_SET)
        return vgb_provider.cuGraphHostNodeSetParams(w->target->object, &p);
    r = vgb_provider.cuGraphAddHostNode(&node, g->object, w->deps, vgb_where_n(w), &p);
    return vgb_added(c, w, r, node, handle);
}

CUresult vgb_do_vgpGraphHostNode(struct vgb_call *c, const struct vgp_args_vgpGraphHostNode *a,
                                 const uint64_t *dependencies, const void *edgeData,
                                 struct vgp_ret_vgpGraphHostNode *ret)
{
    struct vgb_where w;
    CUresult r = VGB_WHERE(&w);

    if (r == CUDA_SUCCESS && w.op == VGP_NODE_CAPTURE)
        r = vgb_malformed(c, "host functions are captured by another call");
    if (r == CUDA_SUCCESS)
        r = vgb_host_node(c, &w, a->cookie, VGP_EXTSEM_NONE, &ret->node);
    vgb_where_end(&w);
    return r;
}

CUresult vgb_do_vgpGraphHostNodeGet(struct vgb_call *c,
                                    const struct vgp_args_vgpGraphHostNodeGet *a,
                                    struct vgp_ret_vgpGraphHostNodeGet *ret)
{
    CUDA_HOST_NODE_PARAMS p = {0};
    struct vgb_gnode *n;
    CUresult r = vgb_gnode_get(c, a->node, &n);

    if (r != CUDA_SUCCESS)
        return r;
    if (n->cookie || vgb_host_node_semaphores(n->object) != VGP_EXTSEM_NONE)
        return CUDA_ERROR_INVALID_VALUE; /* it is a copy, or for semaphores */
    if (!vgb_provider.cuGraphHostNodeGetParams)
        return vgb_missing(c, "cuGraphHostNodeGetParams");
    r = vgb_provider.cuGraphHostNodeGetParams(n->object, &p);
    if (r != CUDA_SUCCESS)
        return r;
    if (p.fn != vgb_host_func_run || !p.userData)
        return CUDA_ERROR_UNKNOWN;
    ret->cookie = vgb_host_func_cookie(p.userData);
    return CUDA_SUCCESS;
}

static CUresult event_node(struct vgb_call *c, struct vgb_where *w, CUevent event, bool wait,
                           uint64_t *handle)
{
    CUresult (*add)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUevent) =
        wait ? vgb_provider.cuGraphAddEventWaitNode : vgb_provider.cuGraphAddEventRecordNode;
    CUresult (*set)(CUgraphNode, CUevent) = wait ? vgb_provider.cuGraphEventWaitNodeSetEvent
                                                 : vgb_provider.cuGraphEventRecordNodeSetEvent;
    CUresult (*exec)(CUgraphExec, CUgraphNode, CUevent) =
        wait ? vgb_provider.cuGraphExecEventWaitNodeSetEvent
             : vgb_provider.cuGraphExecEventRecordNodeSetEvent;
    CUgraphNode node = NULL;
    CUresult r;

    if (!add || !set || !exec)
        return vgb_missing(c, "cuGraphAddEventRecordNode and its kin");
    if (w->op == VGP_NODE_SET)
        return set(w->target->object, event);
    if (w->op == VGP_NODE_EXEC)
        return exec(w->exec, w->target->object, event);
    if (w->op != VGP_NODE_ADD)
        return vgb_malformed(c, "event nodes are captured by other calls");
    r = add(&node, w->graph->object, w->deps, vgb_where_n(w), event);
    return vgb_added(c, w, r, node, handle);
}

CUresult vgb_do_vgpGraphEventNode(struct vgb_call *c, const struct vgp_args_vgpGraphEventNode *a,
                                  const uint64_t *dependencies, const void *edgeData,
                                  struct vgp_ret_vgpGraphEventNode *ret)
{
    struct vgb_where w;
    CUevent event;
    CUresult r = VGB_WHERE(&w);

    if (r == CUDA_SUCCESS)
        r = vgb_handle_get(c, a->event, VGP_H_EVENT, false, (void **)&event);
    if (r == CUDA_SUCCESS)
        r = event_node(c, &w, event, a->wait != 0, &ret->node);
    vgb_where_end(&w);
    return r;
}

CUresult vgb_do_vgpGraphEventNodeGet(struct vgb_call *c,
                                     const struct vgp_args_vgpGraphEventNodeGet *a,
                                     struct vgp_ret_vgpGraphEventNodeGet *ret)
{
    CUresult (*get)(CUgraphNode, CUevent *) = a->wait
                                                  ? vgb_provider.cuGraphEventWaitNodeGetEvent
                                                  : vgb_provider.cuGraphEventRecordNodeGetEvent;
    CUevent event = NULL;
    struct vgb_gnode *n;
    CUresult r = vgb_gnode_get(c, a->node, &n);

    if (r != CUDA_SUCCESS)
        return r;
    if (!get)
        return vgb_missing(c, "cuGraphEventRecordNodeGetEvent");
    r = get(n->object, &event);
    if (r == CUDA_SUCCESS)
        ret->event = vgb_handle_of(c->w, VGP_H_EVENT, event);
    return r;
}
