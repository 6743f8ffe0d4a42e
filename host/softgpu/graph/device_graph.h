/* SPDX-License-Identifier: MIT */
/* Launches made by the kernels of a running graph: graph/sg_graph_run.c, graph/sg_graph_device_graph.c. */
#ifndef SG_DEVICE_GRAPH_H
#define SG_DEVICE_GRAPH_H

#include "graph/graph.h"

/* A graph that is to run. */
struct sg_glaunch {
    SG_OWNED struct sg_glaunch *next;
    SG_COUNTED struct sg_graph_exec *exec; /* a reference, or NULL */
    SG_COUNTED struct sg_program *program; /* a reference */
    bool device;                           /* exec->queued stands for it */
};

struct sg_glaunches {
    SG_OWNED struct sg_glaunch *first, **last;
};

/* A graph that runs. Lists and counts: under sg_graph_lock. */
struct sg_genv {
    SG_LENT struct sg_graph_exec *exec; /* NULL: unknown to the device */
    struct sg_glaunches forget, sibling, tail;
    unsigned forgotten, tails, depth;
    unsigned above;  /* levels of the graphs that run around it on this thread */
    unsigned levels; /* levels, including its own */
};

/* A launch of p, and of x, which may be NULL; it holds references. NULL: out of memory. */
struct sg_glaunch *sg_glaunch_new(struct sg_graph_exec *x, struct sg_program *p);
/* Appends g, which the list then owns. */
void sg_glaunches_add(struct sg_glaunches *l, struct sg_glaunch *g);

#endif
