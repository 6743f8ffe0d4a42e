/* SPDX-License-Identifier: MIT */
/*
 * External semaphores. The objects belong to the guest, so the guest signals them and waits for
 * them, in a host function that it runs in stream order and that ends afterwards. A graph node is
 * such a function, too; its purpose is stored in the function, so that it survives clones and
 * captures.
 */
#include "node.h"

#include <stdlib.h>
#include <string.h>

#define NEST_MAX 64 /* child graphs within child graphs */

static bool kind_is_known(uint32_t what)
{
    return what == VGP_EXTSEM_SIGNAL || what == VGP_EXTSEM_WAIT;
}

/* Adds it as the next node of a capturing stream. */
static CUresult extsem_capture(struct wrk_call *c, CUstream stream, uint64_t cookie, enum vgp_extsem_op what)
{
    struct wrk_host_func *f;
    CUgraphNode last;
    CUgraph g;
    CUresult r = wrk_capture_front(stream, &g, &last);

    if (r == CUDA_SUCCESS)
        r = wrk_host_func_for(c->w, g, cookie, &f);
    if (r != CUDA_SUCCESS)
        return r;
    wrk_host_func_set_semaphores(f, what);
    return wrk_provider.cuLaunchHostFunc(stream, wrk_host_func_run, f);
}

CUresult wrk_do_vgpExtSemOp(struct wrk_call *c, const struct vgp_args_vgpExtSemOp *a)
{
    CUstream stream;
    CUresult r = wrk_handle_get(c, a->stream, VGP_H_STREAM, true, (void **)&stream);

    if (r != CUDA_SUCCESS)
        return r;
    if (!kind_is_known(a->what))
        return wrk_malformed(c, "no operation on semaphores has number %u", a->what);
    if (!wrk_provider.cuLaunchHostFunc)
        return wrk_missing(c, "cuLaunchHostFunc");
    if (a->capture != (uint32_t)wrk_stream_captured(stream))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; /* a capture began, or ended, meanwhile */
    if (a->capture)
        return extsem_capture(c, stream, a->cookie, a->what);
    struct wrk_host_func *f = wrk_host_func_new(c->w, a->cookie, true);
    if (!f)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (a->what == VGP_EXTSEM_WAIT)
        return wrk_host_func_wait(c->w, stream, f);
    r = wrk_provider.cuLaunchHostFunc(stream, wrk_host_func_run, f);
    if (r != CUDA_SUCCESS)
        wrk_host_func_put(f);
    return r;
}

/* ---- updates of executable graphs ---- */

/* Host nodes of a graph and its child graphs, in the provider's order. */
struct types {
    uint8_t *what; /* enum vgp_extsem_op */
    CUgraphNode *node;
    size_t n, room;
    bool any; /* any entry is not NONE */
};

static void types_free(struct types *t)
{
    free(t->what);
    free(t->node);
}

static bool types_add(struct types *t, CUgraphNode node)
{
    if (t->n == t->room) {
        size_t room = 2 * t->room + 64;
        uint8_t *what = realloc(t->what, room);
        CUgraphNode *list = what ? realloc(t->node, room * sizeof(*list)) : NULL;

        if (what)
            t->what = what;
        if (!list)
            return false;
        t->node = list;
        t->room = room;
    }
    t->node[t->n] = node;
    t->what[t->n] = (uint8_t)wrk_host_node_semaphores(node);
    t->any |= t->what[t->n++] != VGP_EXTSEM_NONE;
    return true;
}

static bool collect_types(CUgraph g, struct types *t, unsigned depth)
{
    CUgraphNode *list;
    bool ok = true;
    size_t n = 0;

    if (depth == NEST_MAX || wrk_provider.cuGraphGetNodes(g, NULL, &n) != CUDA_SUCCESS)
        return false;
    list = calloc(n + 1, sizeof(*list));
    if (!list || (n && wrk_provider.cuGraphGetNodes(g, list, &n) != CUDA_SUCCESS)) {
        free(list);
        return false;
    }
    for (size_t i = 0; ok && i < n; i++) {
        CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
        CUgraph child = NULL;

        wrk_provider.cuGraphNodeGetType(list[i], &type);
        if (type == CU_GRAPH_NODE_TYPE_HOST)
            ok = types_add(t, list[i]);
        else if (type == CU_GRAPH_NODE_TYPE_GRAPH && wrk_provider.cuGraphChildGraphNodeGetGraph &&
                 wrk_provider.cuGraphChildGraphNodeGetGraph(list[i], &child) == CUDA_SUCCESS)
            ok = collect_types(child, t, depth + 1);
    }
    free(list);
    return ok;
}

static bool can_collect(void)
{
    return wrk_semaphores_made && wrk_provider.cuGraphGetNodes && wrk_provider.cuGraphNodeGetType;
}

bool wrk_extsem_made(CUgraphExec exec, CUgraph g)
{
    struct types t = {0};
    bool ok = true;

    if (!can_collect())
        return true;
    ok = collect_types(g, &t, 0) && wrk_exec_set_types(exec, t.any ? t.what : NULL, t.n);
    if (ok && t.any)
        t.what = NULL; /* taken over */
    types_free(&t);
    return ok;
}

/* If the numbers of nodes differ, the provider reports the error. */
CUgraphNode wrk_extsem_changed(CUgraphExec exec, CUgraph g)
{
    struct types t = {0};
    CUgraphNode found = NULL;
    const uint8_t *is;
    size_t n;

    if (!can_collect() || !collect_types(g, &t, 0)) {
        types_free(&t);
        return NULL;
    }
    is = wrk_exec_types(exec, &n);
    for (size_t i = 0; (!is || n == t.n) && !found && i < t.n; i++) {
        if (t.what[i] != (is ? is[i] : VGP_EXTSEM_NONE))
            found = t.node[i];
    }
    types_free(&t);
    return found;
}

bool wrk_extsem_alike(CUgraph a, CUgraph b)
{
    struct types s = {0}, t = {0};
    bool same = true;

    if (can_collect() && collect_types(a, &s, 0) && collect_types(b, &t, 0))
        same = s.n != t.n || s.n == 0 || !memcmp(s.what, t.what, s.n);
    types_free(&s);
    types_free(&t);
    return same;
}
