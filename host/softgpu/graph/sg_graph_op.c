/* SPDX-License-Identifier: MIT */
/* The lock of graphs, and the operations that nodes, their clones and programs share. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "graph/graph.h"

/* Recursive: the last reference to a graph may be dropped with or without the lock held. */
pthread_mutex_t sg_graph_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

struct sg_graph_op *sg_graph_op_new(struct sg_op *op)
{
    struct sg_graph_op *gop = calloc(1, sizeof(*gop));

    if (!gop) {
        if (op)
            sg_op_end(op);
        return NULL;
    }
    atomic_init(&gop->refs, 1);
    gop->op = op;
    return gop;
}

void sg_graph_op_get(struct sg_graph_op *gop)
{
    atomic_fetch_add(&gop->refs, 1);
}

void sg_graph_op_put(struct sg_graph_op *gop)
{
    if (gop && atomic_fetch_sub(&gop->refs, 1) == 1) {
        if (gop->op)
            sg_op_end(gop->op);
        free(gop);
    }
}
