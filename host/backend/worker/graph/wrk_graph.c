/* SPDX-License-Identifier: MIT */
/* Executable graphs, and the content of graphs. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#include "vgp_worker.h"

#define NEST_MAX 64 /* maximum nesting depth of child graphs */

/* Nodes of a graph, malloc'd, at least one element. */
static CUresult nodes_of(CUgraph g, CUgraphNode **out, size_t *n)
{
    CUgraphNode *list;
    CUresult r;

    *n = 0;
    if (!wrk_provider.cuGraphGetNodes)
        return CUDA_ERROR_NOT_SUPPORTED;
    r = wrk_provider.cuGraphGetNodes(g, NULL, n);
    if (r != CUDA_SUCCESS)
        return r;
    list = calloc(*n + 1, sizeof(*list));
    if (!list)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = *n ? wrk_provider.cuGraphGetNodes(g, list, n) : CUDA_SUCCESS;
    if (r != CUDA_SUCCESS)
        free(list);
    else
        *out = list;
    return r;
}

static bool runs_in_guest(CUgraphNode n)
{
    CUDA_HOST_NODE_PARAMS p = {0};

    return !wrk_provider.cuGraphHostNodeGetParams ||
           wrk_provider.cuGraphHostNodeGetParams(n, &p) != CUDA_SUCCESS || p.fn != wrk_host_func_nothing;
}

/* Number of host functions run by a launch of the graph. */
static uint32_t count_host_nodes(CUgraph g, unsigned depth)
{
    CUgraphNode *list;
    uint64_t sum = 0;
    size_t n;

    if (depth == NEST_MAX || !wrk_provider.cuGraphNodeGetType || nodes_of(g, &list, &n) != CUDA_SUCCESS)
        return VGP_HOST_NODES_UNKNOWN;
    for (size_t i = 0; i < n && sum < VGP_HOST_NODES_UNKNOWN; i++) {
        CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
        CUgraph child = NULL;

        wrk_provider.cuGraphNodeGetType(list[i], &type);
        if (type == CU_GRAPH_NODE_TYPE_HOST)
            sum += runs_in_guest(list[i]);
        /* The graphs of conditional nodes cannot have any. */
        else if (type == CU_GRAPH_NODE_TYPE_GRAPH && wrk_provider.cuGraphChildGraphNodeGetGraph &&
                 wrk_provider.cuGraphChildGraphNodeGetGraph(list[i], &child) == CUDA_SUCCESS)
            sum += count_host_nodes(child, depth + 1);
    }
    free(list);
    return sum < VGP_HOST_NODES_UNKNOWN ? (uint32_t)sum : VGP_HOST_NODES_UNKNOWN;
}

uint32_t wrk_graph_host_nodes(CUgraph g)
{
    return wrk_host_nodes_made ? count_host_nodes(g, 0) : 0;
}

/* Handle of the node named by an error; 0 if not in the graph, or in a child graph and unknown: a
 * record would attribute the node to this graph and outlive the child graph. */
static uint64_t name_node(struct wrk_worker *w, struct wrk_graph *g, CUgraphNode node)
{
    struct wrk_gnode *n = node ? wrk_gnode_known(node) : NULL;
    CUgraphNode *list;
    size_t count;

    for (struct wrk_graph *at = n ? n->graph : NULL; at; at = at->parent ? at->parent->graph : NULL) {
        if (at == g)
            return n->handle;
    }
    if (n || !node || nodes_of(g->object, &list, &count) != CUDA_SUCCESS)
        return 0;
    for (size_t i = 0; i < count && !n; i++)
        n = list[i] == node ? wrk_gnode_of(w, g, node) : NULL;
    free(list);
    return n ? n->handle : 0;
}

static CUresult instantiate_graph(struct wrk_call *c, const struct vgp_args_vgpGraphInstantiate *a,
                                  struct wrk_graph *g, CUstream upload, CUgraphExec *exec,
                                  struct vgp_ret_vgpGraphInstantiate *ret)
{
    CUDA_GRAPH_INSTANTIATE_PARAMS p = {.flags = a->flags, .hUploadStream = upload};
    CUresult r;

    if (!wrk_provider.cuGraphInstantiateWithParams) {
        if (!wrk_provider.cuGraphInstantiateWithFlags)
            return wrk_missing(c, "cuGraphInstantiateWithFlags");
        r = wrk_provider.cuGraphInstantiateWithFlags(exec, g->object, a->flags);
        ret->result = r == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
        return r;
    }
    r = wrk_provider.cuGraphInstantiateWithParams(exec, g->object, &p);
    ret->result = (uint32_t)p.result_out;
    ret->errorNode = name_node(c->w, g, p.hErrNode_out);
    return r;
}

CUresult wrk_do_vgpGraphInstantiate(struct wrk_call *c, const struct vgp_args_vgpGraphInstantiate *a,
                                    struct vgp_ret_vgpGraphInstantiate *ret)
{
    CUgraphExec exec = NULL;
    struct wrk_graph *g;
    CUstream upload;
    bool device = (a->flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0;
    CUresult r = wrk_handle_reserve(c, a->exec, VGP_H_GRAPH_EXEC);

    if (r == CUDA_SUCCESS && device && !wrk_provider.sg_graph_exec_name)
        r = wrk_missing(c, "sg_graph_exec_name (graphs that the device launches)");
    if (r == CUDA_SUCCESS)
        r = wrk_graph_get(c, a->graph, &g);
    if (r == CUDA_SUCCESS)
        r = wrk_handle_get(c, a->uploadStream, VGP_H_STREAM, true, (void **)&upload);
    if (r != CUDA_SUCCESS)
        return r;
    r = instantiate_graph(c, a, g, upload, &exec, ret);
    if (r == CUDA_SUCCESS && device) {
        r = wrk_provider.sg_graph_exec_name(exec, a->exec);
        if (r != CUDA_SUCCESS && wrk_provider.cuGraphExecDestroy)
            wrk_provider.cuGraphExecDestroy(exec);
    }
    ret->status = (uint32_t)r;
    if (r == CUDA_SUCCESS && (!wrk_exec_made(exec, g) || !wrk_extsem_made(exec, g->object))) {
        wrk_provider.cuGraphExecDestroy(exec);
        r = CUDA_ERROR_OUT_OF_MEMORY;
        ret->status = (uint32_t)r;
    }
    if (r != CUDA_SUCCESS)
        return CUDA_SUCCESS; /* failure and its reason are in `status` */
    wrk_handle_put(c, a->exec, VGP_H_GRAPH_EXEC, exec);
    ret->hostNodes = wrk_graph_host_nodes(g->object);
    return CUDA_SUCCESS;
}

bool wrk_exec_name(CUgraphExec exec, struct wrk_call *c, uint64_t graph)
{
    struct wrk_namer *names = wrk_exec_names(exec);
    struct wrk_graph *g;

    return names && wrk_graph_get(c, graph, &g) == CUDA_SUCCESS && wrk_graph_names(names, g);
}

uint64_t wrk_node_named(struct wrk_call *c, uint64_t graph, CUgraphNode node)
{
    struct wrk_graph *g;

    return node && wrk_graph_get(c, graph, &g) == CUDA_SUCCESS ? name_node(c->w, g, node) : 0;
}

/* ---- lists ---- */

struct list {
    size_t n;
    CUgraphNode *from, *to; /* to: for edges only */
    CUgraphEdgeData *edges; /* NULL: all ordinary, or not a list of edges */
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

    if (wrk_provider.cuGraphGetEdges_v2)
        r = wrk_provider.cuGraphGetEdges_v2(g, NULL, NULL, NULL, &l->n);
    else if (wrk_provider.cuGraphGetEdges)
        r = wrk_provider.cuGraphGetEdges(g, NULL, NULL, &l->n);
    else
        return CUDA_ERROR_NOT_SUPPORTED;
    if (r != CUDA_SUCCESS || !l->n)
        return r;
    if (!list_room(l))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (wrk_provider.cuGraphGetEdges_v2)
        return wrk_provider.cuGraphGetEdges_v2(g, l->from, l->to, l->edges, &l->n);
    return wrk_provider.cuGraphGetEdges(g, l->from, l->to, &l->n);
}

static CUresult roots_of(CUgraph g, struct list *l)
{
    CUresult r;

    if (!wrk_provider.cuGraphGetRootNodes)
        return CUDA_ERROR_NOT_SUPPORTED;
    r = wrk_provider.cuGraphGetRootNodes(g, NULL, &l->n);
    if (r != CUDA_SUCCESS || !l->n)
        return r;
    return list_room(l) ? wrk_provider.cuGraphGetRootNodes(g, l->from, &l->n) : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Neighbours of a node: its dependencies or its dependents. */
static CUresult list_neighbours(CUgraphNode node, bool dependents, struct list *l)
{
    CUresult (*v2)(CUgraphNode, CUgraphNode *, CUgraphEdgeData *, size_t *) =
        dependents ? wrk_provider.cuGraphNodeGetDependentNodes_v2
                   : wrk_provider.cuGraphNodeGetDependencies_v2;
    CUresult (*v1)(CUgraphNode, CUgraphNode *, size_t *) =
        dependents ? wrk_provider.cuGraphNodeGetDependentNodes : wrk_provider.cuGraphNodeGetDependencies;
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

/* The second half of a node, or the edge between its halves: hidden from the client. */
static bool edge_is_hidden(const struct list *l, size_t i, uint32_t what)
{
    struct wrk_gnode *n = wrk_gnode_known(l->from[i]);

    if (!n || n->in == n->out)
        return false;
    return what == VGP_LIST_EDGES ? wrk_gnode_known(l->to[i]) == n
                                  : what == VGP_LIST_NODES && l->from[i] != n->object;
}

/* A client reads a long list in pages. The list of the last page is kept while only list pages are
 * requested, so that the cost of a page depends on its size, not the graph's. Dispatcher only. */
static struct {
    struct list l;
    uint32_t what;
    uint64_t object; /* handle; 0: no list */
    uint64_t total;  /* entries visible to the client */
    uint64_t first;  /* number of the first entry not sent yet ... */
    size_t at;       /* ... and its index in the list */
    /* the worker's count when the list was read: the end of a call may change a graph, too */
    uint64_t landings;
} paged;

void wrk_graph_list_forget(void)
{
    if (!paged.object)
        return;
    list_free(&paged.l);
    memset(&paged, 0, sizeof(paged));
}

static CUresult graph_fill(struct wrk_worker *w, struct wrk_graph *g, const struct vgp_args_vgpGraphList *a,
                           struct vgp_ret_vgpGraphList *ret, struct vgp_outs_vgpGraphList *o)
{
    const struct list *l = &paged.l;
    const uint32_t room = a->room < VGP_LIST_MAX ? a->room : VGP_LIST_MAX;

    if (a->first < paged.first)
        paged.first = paged.at = 0;
    ret->total = paged.total;
    for (; paged.at < l->n && ret->from_len < room; paged.at++) {
        const size_t i = paged.at;
        const uint32_t k = ret->from_len;
        struct wrk_gnode *from;

        if (edge_is_hidden(l, i, a->what) || paged.first++ < a->first)
            continue;
        from = wrk_gnode_of(w, g, l->from[i]);
        if (!from)
            return CUDA_ERROR_OUT_OF_MEMORY;
        o->from[k] = from->handle;
        ret->from_len++;
        if (a->what == VGP_LIST_EDGES) {
            struct wrk_gnode *to = wrk_gnode_of(w, g, l->to[i]);

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

/* Reads the list for a page from the provider, unless it is the list of the previous page. */
static CUresult list_of(const struct wrk_worker *w, const struct vgp_args_vgpGraphList *a,
                        const struct wrk_graph *g, const struct wrk_gnode *n)
{
    struct list *l = &paged.l;
    CUresult r;

    if (paged.object == a->object && paged.what == a->what && paged.landings == w->waits.landings)
        return CUDA_SUCCESS;
    wrk_graph_list_forget();
    paged.object = a->object;
    paged.what = a->what;
    paged.landings = w->waits.landings;
    if (n)
        r = list_neighbours(a->what == VGP_LIST_DEPENDENTS ? n->out : n->in, a->what == VGP_LIST_DEPENDENTS,
                            l);
    else if (a->what == VGP_LIST_NODES)
        r = nodes_of(g->object, &l->from, &l->n);
    else
        r = a->what == VGP_LIST_ROOTS ? roots_of(g->object, l) : edges_of(g->object, l);
    for (size_t i = 0; r == CUDA_SUCCESS && i < l->n; i++)
        paged.total += !edge_is_hidden(l, i, a->what);
    return r;
}

CUresult wrk_do_vgpGraphList(struct wrk_call *c, const struct vgp_args_vgpGraphList *a,
                             struct vgp_ret_vgpGraphList *ret, struct vgp_outs_vgpGraphList *o)
{
    struct wrk_graph *g = NULL;
    struct wrk_gnode *n = NULL;
    CUresult r;

    if (a->what > VGP_LIST_DEPENDENTS)
        return wrk_malformed(c, "no list number %u", a->what);
    if (a->what >= VGP_LIST_DEPENDENCIES)
        r = wrk_gnode_get(c, a->object, &n);
    else
        r = wrk_graph_get(c, a->object, &g);
    if (r != CUDA_SUCCESS)
        return r;
    r = list_of(c->w, a, g, n);
    if (r == CUDA_SUCCESS)
        r = graph_fill(c->w, n ? n->graph : g, a, ret, o);
    if (r != CUDA_SUCCESS)
        wrk_graph_list_forget();
    return r;
}

CUresult wrk_do_vgpGraphUserObject(struct wrk_call *c, const struct vgp_args_vgpGraphUserObject *a)
{
    struct wrk_graph *g;
    void *entry;
    CUresult r = wrk_graph_get(c, a->graph, &g);

    if (r == CUDA_SUCCESS)
        r = wrk_handle_get(c, a->object, VGP_H_USER_OBJECT, false, &entry);
    if (r != CUDA_SUCCESS)
        return r;
    if (!wrk_provider.cuGraphRetainUserObject || !wrk_provider.cuGraphReleaseUserObject)
        return wrk_missing(c, "cuGraphRetainUserObject");
    return a->release ? wrk_user_object_release(g, entry, a->count)
                      : wrk_user_object_retain(g, entry, a->count, a->flags);
}
