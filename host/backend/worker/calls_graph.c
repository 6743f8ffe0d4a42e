/* SPDX-License-Identifier: MIT */
/* Executable graphs, and what a graph consists of. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#include "vgp_worker.h"

#define NEST_MAX 64 /* child graphs within child graphs that are looked into */

/* Nodes of a graph, malloc'd, at least one long. */
static CUresult nodes_of(CUgraph g, CUgraphNode **out, size_t *n)
{
    CUgraphNode *list;
    CUresult r;

    *n = 0;
    if (!vgb_provider.cuGraphGetNodes)
        return CUDA_ERROR_NOT_SUPPORTED;
    r = vgb_provider.cuGraphGetNodes(g, NULL, n);
    if (r != CUDA_SUCCESS)
        return r;
    list = calloc(*n + 1, sizeof(*list));
    if (!list)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = *n ? vgb_provider.cuGraphGetNodes(g, list, n) : CUDA_SUCCESS;
    if (r != CUDA_SUCCESS)
        free(list);
    else
        *out = list;
    return r;
}

static bool runs_in_guest(CUgraphNode n)
{
    CUDA_HOST_NODE_PARAMS p = {0};

    return !vgb_provider.cuGraphHostNodeGetParams ||
           vgb_provider.cuGraphHostNodeGetParams(n, &p) != CUDA_SUCCESS ||
           p.fn != vgb_host_func_nothing;
}

/* Host functions that one launch of the graph runs. */
static uint32_t count_host_nodes(CUgraph g, unsigned depth)
{
    CUgraphNode *list;
    uint64_t sum = 0;
    size_t n;

    if (depth == NEST_MAX || !vgb_provider.cuGraphNodeGetType ||
        nodes_of(g, &list, &n) != CUDA_SUCCESS)
        return VGP_HOST_NODES_UNKNOWN;
    for (size_t i = 0; i < n && sum < VGP_HOST_NODES_UNKNOWN; i++) {
        CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
        CUgraph child = NULL;

        vgb_provider.cuGraphNodeGetType(list[i], &type);
        if (type == CU_GRAPH_NODE_TYPE_HOST)
            sum += runs_in_guest(list[i]);
        /* The graphs of conditional nodes cannot have any. */
        else if (type == CU_GRAPH_NODE_TYPE_GRAPH && vgb_provider.cuGraphChildGraphNodeGetGraph &&
                 vgb_provider.cuGraphChildGraphNodeGetGraph(list[i], &child) == CUDA_SUCCESS)
            sum += count_host_nodes(child, depth + 1);
    }
    free(list);
    return sum < VGP_HOST_NODES_UNKNOWN ? (uint32_t)sum : VGP_HOST_NODES_UNKNOWN;
}

static uint32_t host_nodes(CUgraph g)
{
    return vgb_host_nodes_made ? count_host_nodes(g, 0) : 0;
}

/* The handle of a node that an error names; 0 when it is none of the graph's, as in a child. */
static uint64_t name_node(struct vgb_worker *w, struct vgb_graph *g, CUgraphNode node)
{
    struct vgb_gnode *n = node ? vgb_gnode_of(w, g, node) : NULL;

    return n ? n->handle : 0;
}

static CUresult instantiate(struct vgb_call *c, const struct vgp_args_vgpGraphInstantiate *a,
                            struct vgb_graph *g, CUstream upload, CUgraphExec *exec,
                            struct vgp_ret_vgpGraphInstantiate *ret)
{
    CUDA_GRAPH_INSTANTIATE_PARAMS p = {.flags = a->flags, .hUploadStream = upload};
    CUresult r;

    if (!vgb_provider.cuGraphInstantiateWithParams) {
        if (!vgb_provider.cuGraphInstantiateWithFlags)
            return vgb_missing(c, "cuGraphInstantiateWithFlags");
        r = vgb_provider.cuGraphInstantiateWithFlags(exec, g->object, a->flags);
        ret->result = r == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS
                                        : CUDA_GRAPH_INSTANTIATE_ERROR;
        return r;
    }
    r = vgb_provider.cuGraphInstantiateWithParams(exec, g->object, &p);
    ret->result = (uint32_t)p.result_out;
    ret->errorNode = name_node(c->w, g, p.hErrNode_out);
    return r;
}

CUresult vgb_do_vgpGraphInstantiate(struct vgb_call *c,
                                    const struct vgp_args_vgpGraphInstantiate *a,
                                    struct vgp_ret_vgpGraphInstantiate *ret)
{
    CUgraphExec exec = NULL;
    struct vgb_graph *g;
    CUstream upload;
    bool device = (a->flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0;
    CUresult r = vgb_handle_reserve(c, a->exec, VGP_H_GRAPH_EXEC);

    if (r == CUDA_SUCCESS && device && !vgb_cu.graph_exec_name)
        r = vgb_missing(c, "sg_graph_exec_name (graphs that the device launches)");
    if (r == CUDA_SUCCESS)
        r = vgb_graph_get(c, a->graph, &g);
    if (r == CUDA_SUCCESS)
        r = vgb_handle_get(c, a->uploadStream, VGP_H_STREAM, true, (void **)&upload);
    if (r != CUDA_SUCCESS)
        return r;
    r = instantiate(c, a, g, upload, &exec, ret);
    if (r == CUDA_SUCCESS && device) {
        r = vgb_cu.graph_exec_name(exec, a->exec);
        if (r != CUDA_SUCCESS && vgb_provider.cuGraphExecDestroy)
            vgb_provider.cuGraphExecDestroy(exec);
    }
    ret->status = (uint32_t)r;
    if (r == CUDA_SUCCESS && !vgb_extsem_made(exec, g->object)) {
        vgb_provider.cuGraphExecDestroy(exec);
        r = CUDA_ERROR_OUT_OF_MEMORY;
        ret->status = (uint32_t)r;
    }
    if (r != CUDA_SUCCESS)
        return CUDA_SUCCESS; /* status says so, and why */
    vgb_handle_put(c, a->exec, VGP_H_GRAPH_EXEC, exec);
    vgb_exec_made(exec, g->object);
    ret->hostNodes = host_nodes(g->object);
    return CUDA_SUCCESS;
}

CUresult vgb_do_vgpGraphExecUpdate(struct vgb_call *c,
                                   const struct vgp_args_vgpGraphExecUpdate *a,
                                   struct vgp_ret_vgpGraphExecUpdate *ret)
{
    CUgraphExecUpdateResultInfo info = {.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    CUgraphExec exec;
    struct vgb_graph *g;
    CUresult r = vgb_handle_get(c, a->exec, VGP_H_GRAPH_EXEC, false, (void **)&exec);

    if (r == CUDA_SUCCESS)
        r = vgb_graph_get(c, a->graph, &g);
    if (r != CUDA_SUCCESS)
        return r;
    if (!vgb_provider.cuGraphExecUpdate_v2)
        return vgb_missing(c, "cuGraphExecUpdate_v2");
    info.errorNode = vgb_extsem_changed(exec, g->object);
    if (info.errorNode) {
        info.result = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        r = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    } else {
        r = vgb_provider.cuGraphExecUpdate_v2(exec, g->object, &info);
    }
    ret->status = (uint32_t)r;
    ret->result = (uint32_t)info.result;
    ret->errorNode = name_node(c->w, g, info.errorNode);
    ret->errorFromNode = name_node(c->w, g, info.errorFromNode);
    ret->hostNodes = r == CUDA_SUCCESS ? host_nodes(g->object) : 0;
    if (r == CUDA_SUCCESS)
        vgb_exec_updated(exec);
    return CUDA_SUCCESS;
}

CUresult vgb_do_vgpGraphDestroy(struct vgb_call *c, const struct vgp_args_vgpGraphDestroy *a)
{
    struct vgb_graph *g;
    CUresult r = vgb_graph_get(c, a->graph, &g);

    if (r != CUDA_SUCCESS)
        return r;
    if (!vgb_provider.cuGraphDestroy)
        return vgb_missing(c, "cuGraphDestroy");
    if (!g->client)
        return CUDA_ERROR_INVALID_VALUE; /* a capture or a node has it */
    r = vgb_provider.cuGraphDestroy(g->object);
    if (r == CUDA_SUCCESS)
        vgb_graph_forget(c->w, g);
    return r;
}

/* ---- lists ---- */

struct list {
    size_t n;
    CUgraphNode *from, *to; /* to: of edges only */
    CUgraphEdgeData *edges; /* NULL: all ordinary, or a list without edges */
};

static void list_free(struct list *l)
{
    free(l->from);
    free(l->to);
    free(l->edges);
}

static bool list_room(struct list *l)
{
    l->from = calloc(l->n + 1, sizeof(*l->from));
    l->to = calloc(l->n + 1, sizeof(*l->to));
    l->edges = calloc(l->n + 1, sizeof(*l->edges));
    return l->from && l->to && l->edges;
}

static CUresult edges_of(CUgraph g, struct list *l)
{
    CUresult r;

    if (vgb_provider.cuGraphGetEdges_v2)
        r = vgb_provider.cuGraphGetEdges_v2(g, NULL, NULL, NULL, &l->n);
    else if (vgb_provider.cuGraphGetEdges)
        r = vgb_provider.cuGraphGetEdges(g, NULL, NULL, &l->n);
    else
        return CUDA_ERROR_NOT_SUPPORTED;
    if (r != CUDA_SUCCESS || !l->n)
        return r;
    if (!list_room(l))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (vgb_provider.cuGraphGetEdges_v2)
        return vgb_provider.cuGraphGetEdges_v2(g, l->from, l->to, l->edges, &l->n);
    return vgb_provider.cuGraphGetEdges(g, l->from, l->to, &l->n);
}

static CUresult roots_of(CUgraph g, struct list *l)
{
    CUresult r;

    if (!vgb_provider.cuGraphGetRootNodes)
        return CUDA_ERROR_NOT_SUPPORTED;
    r = vgb_provider.cuGraphGetRootNodes(g, NULL, &l->n);
    if (r != CUDA_SUCCESS || !l->n)
        return r;
    return list_room(l) ? vgb_provider.cuGraphGetRootNodes(g, l->from, &l->n)
                        : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The neighbours of a node: what it depends on, or what depends on it. */
static CUresult neighbours(CUgraphNode node, bool dependents, struct list *l)
{
    CUresult (*v2)(CUgraphNode, CUgraphNode *, CUgraphEdgeData *, size_t *) =
        dependents ? vgb_provider.cuGraphNodeGetDependentNodes_v2
                   : vgb_provider.cuGraphNodeGetDependencies_v2;
    CUresult (*v1)(CUgraphNode, CUgraphNode *, size_t *) =
        dependents ? vgb_provider.cuGraphNodeGetDependentNodes
                   : vgb_provider.cuGraphNodeGetDependencies;
    CUresult r;

    if (!v1 && !v2)
        return CUDA_ERROR_NOT_SUPPORTED;
    r = v2 ? v2(node, NULL, NULL, &l->n) : v1(node, NULL, &l->n);
    if (r != CUDA_SUCCESS || !l->n)
        return r;
    if (!list_room(l))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return v2 ? v2(node, l->from, l->edges, &l->n) : v1(node, l->from, &l->n);
}

/* The second half of a node, or the edge between the two halves: not for the client to see. */
static bool hidden(const struct list *l, size_t i, uint32_t what)
{
    struct vgb_gnode *n = vgb_gnode_known(l->from[i]);

    if (!n || n->in == n->out)
        return false;
    return what == VGP_LIST_EDGES ? vgb_gnode_known(l->to[i]) == n
                                  : what == VGP_LIST_NODES && l->from[i] != n->object;
}

static CUresult fill(struct vgb_worker *w, struct vgb_graph *g, const struct list *l,
                     const struct vgp_args_vgpGraphList *a, struct vgp_ret_vgpGraphList *ret,
                     struct vgp_outs_vgpGraphList *o)
{
    uint32_t room = a->room < VGP_LIST_MAX ? a->room : VGP_LIST_MAX;

    for (size_t i = 0; i < l->n; i++) {
        struct vgb_gnode *from;
        uint32_t k = ret->from_len;

        if (hidden(l, i, a->what))
            continue;
        if (ret->total++ < a->first || k == room)
            continue;
        from = vgb_gnode_of(w, g, l->from[i]);
        if (!from)
            return CUDA_ERROR_OUT_OF_MEMORY;
        o->from[k] = from->handle;
        ret->from_len++;
        if (a->what == VGP_LIST_EDGES) {
            struct vgb_gnode *to = vgb_gnode_of(w, g, l->to[i]);

            if (!to)
                return CUDA_ERROR_OUT_OF_MEMORY;
            o->to[k] = to->handle;
            ret->to_len++;
        }
        if (a->what >= VGP_LIST_EDGES) {
            o->edgeData[k] = 0;
            if (l->edges)
                memcpy(&o->edgeData[k], &l->edges[i], sizeof(l->edges[i]));
            ret->edgeData_len++;
        }
    }
    return CUDA_SUCCESS;
}

CUresult vgb_do_vgpGraphList(struct vgb_call *c, const struct vgp_args_vgpGraphList *a,
                             struct vgp_ret_vgpGraphList *ret, struct vgp_outs_vgpGraphList *o)
{
    struct list l = {0};
    struct vgb_graph *g = NULL;
    struct vgb_gnode *n = NULL;
    CUresult r;

    if (a->what > VGP_LIST_DEPENDENTS)
        return vgb_malformed(c, "no list number %u", a->what);
    if (a->what >= VGP_LIST_DEPENDENCIES)
        r = vgb_gnode_get(c, a->object, &n);
    else
        r = vgb_graph_get(c, a->object, &g);
    if (r != CUDA_SUCCESS)
        return r;
    if (n) {
        g = n->graph;
        bool dependents = a->what == VGP_LIST_DEPENDENTS;

        r = neighbours(dependents ? n->out : n->in, dependents, &l);
    } else if (a->what == VGP_LIST_NODES) {
        r = nodes_of(g->object, &l.from, &l.n);
    } else {
        r = a->what == VGP_LIST_ROOTS ? roots_of(g->object, &l) : edges_of(g->object, &l);
    }
    if (r == CUDA_SUCCESS)
        r = fill(c->w, g, &l, a, ret, o);
    list_free(&l);
    return r;
}
