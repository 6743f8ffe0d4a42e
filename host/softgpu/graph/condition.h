/* SPDX-License-Identifier: MIT */
/* Numbers of conditional nodes, for graph/sg_graph_condition.c and graph/sg_graph_condition_node.c. */
#ifndef SG_GRAPH_CONDITION_H
#define SG_GRAPH_CONDITION_H

#include "graph/graph.h"

struct sg_cond {
    struct sg_obj obj; /* registered while references exist */
    uint32_t ctx_id;   /* context whose kernels may set it */
    uint32_t start;    /* at the beginning of each launch, when assign */
    bool assign;
    bool used;        /* a node uses it */
    unsigned holders; /* under sg_graph_lock */
    uint64_t list;    /* number of the list that took it last; under sg_graph_lock */
    uint64_t graph;   /* handle of the graph it was made for */
    _Atomic uint32_t value;
};

/* Adds a holder, which has a reference; without a holder kernels do not find the number any more. */
void sg_cond_get(struct sg_cond *c);

#endif
