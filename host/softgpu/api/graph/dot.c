/* SPDX-License-Identifier: MIT */
/* Driver API: a graph as a Graphviz file. CUDA does not document its form. */
#include <stdio.h>

#include "api/api.h"

static const char *name_of(CUgraphNodeType type)
{
    static const char *const names[] = {
        "KERNEL",       "MEMCPY",       "MEMSET",           "HOST",           "GRAPH",     "EMPTY",
        "WAIT_EVENT",   "EVENT_RECORD", "EXT_SEMAS_SIGNAL", "EXT_SEMAS_WAIT", "MEM_ALLOC", "MEM_FREE",
        "BATCH_MEM_OP", "CONDITIONAL"};

    return (unsigned)type < sizeof(names) / sizeof(names[0]) ? names[type] : "?";
}

static void print_graph(FILE *f, const struct sg_graph *g, unsigned depth)
{
    if (depth == SG_NEST_MAX)
        return;
    sg_graph_settle(g);
    fprintf(f, "subgraph cluster_%llx {\nlabel=\"graph_%u\"\n", (unsigned long long)g->obj.handle,
            (unsigned)(g->obj.handle >> 4));
    for (size_t i = 0; i < g->n; i++) {
        const struct sg_node *n = g->nodes[i];

        fprintf(f, "\"%llx\"[shape=\"record\" label=\"{%s | %u", (unsigned long long)n->obj.handle,
                name_of(n->type), (unsigned)(n->obj.handle >> 4));
        if (n->mem)
            fprintf(f, " | 0x%llx, %llu bytes", (unsigned long long)n->mem->addr,
                    (unsigned long long)n->mem->size);
        fprintf(f, "}\"];\n");
        if (n->child)
            print_graph(f, n->child, depth + 1);
        for (unsigned b = 0; n->cond && b < n->cond->size; b++)
            print_graph(f, n->cond->body[b], depth + 1);
    }
    for (size_t i = 0; i < g->n; i++) {
        for (size_t k = 0; k < g->nodes[i]->ndeps; k++)
            fprintf(f, "\"%llx\" -> \"%llx\";\n", (unsigned long long)g->nodes[i]->deps[k]->obj.handle,
                    (unsigned long long)g->nodes[i]->obj.handle);
    }
    fprintf(f, "}\n");
}

/* The flags say which details to add: of those this prints what nodes of memory have, always. */
CUresult sgd_cuGraphDebugDotPrint(struct sg_graph *g, const char *path, unsigned int flags)
{
    FILE *f;

    (void)flags;
    if (!path)
        return CUDA_ERROR_INVALID_VALUE;
    f = fopen(path, "w");
    if (!f)
        return sg_fail(CUDA_ERROR_OPERATING_SYSTEM, "cuGraphDebugDotPrint: cannot write %s", path);
    fprintf(f, "digraph dot {\n");
    pthread_mutex_lock(&sg_graph_lock);
    print_graph(f, g, 0);
    pthread_mutex_unlock(&sg_graph_lock);
    fprintf(f, "}\n");
    bool failed = ferror(f) != 0;

    return fclose(f) != 0 || failed ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}
