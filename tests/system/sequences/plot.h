/* SPDX-License-Identifier: MIT */
/* Plots: families of short stories about few objects, see plot.c. */
#ifndef SEQUENCES_PLOT_H
#define SEQUENCES_PLOT_H

#include "sequences.h"

#define SEQ_CAST 2u
#define SEQ_CAST_NODES 3u
#define SEQ_ACTS_MAX 24u

/*
 * Handles of the plot played by a thread. Objects created by a call are usually also stored where
 * the mixture's calls find them.
 */
struct seq_cast {
    CUcontext context, own; /* own: created for this plot; NULL: none, or destroyed */
    CUfunction function, fault;
    CUdeviceptr memory;
    CUstream stream[SEQ_CAST];
    CUevent event[SEQ_CAST];
    CUgraph graph[SEQ_CAST], sub[SEQ_CAST]; /* sub: within the graph */
    CUgraphNode node[SEQ_CAST][SEQ_CAST_NODES];
    CUgraphExec exec[SEQ_CAST];
    CUgraphConditionalHandle condition[SEQ_CAST];
    CUuserObject user[SEQ_CAST];
    CUmodule module[SEQ_CAST];
    CUlibrary library[SEQ_CAST];
    CUmemoryPool pool[SEQ_CAST];
    CUdeviceptr allocated[SEQ_CAST], reserved[SEQ_CAST];
    CUmemGenericAllocationHandle physical[SEQ_CAST];
    CUarray array[SEQ_CAST];
    CUtexObject texture[SEQ_CAST];
    unsigned nodes;           /* number of nodes used of each graph */
    int type[SEQ_CAST_NODES]; /* of node[...][k] */
};
extern __thread struct seq_cast seq_cast;
#define CAST_SLOT(kind) (&seq_cast.kind[seq_random(SEQ_CAST)])
#define CAST_ANY(kind) (*CAST_SLOT(kind))

struct seq_act {
    const char *what; /* for the counts */
    CUresult (*run)(void);
};
struct seq_plot {
    const char *name; /* NULL: the end of the list */
    bool alone;       /* in a context of its own, in which a kernel may fault */
    unsigned nacts;
    const struct seq_act *acts;
};
extern const struct seq_plot seq_graph_plots[], seq_other_plots[];
#define SEQ_PLOT(name, alone, acts) \
    { \
        name, alone, sizeof(acts) / sizeof((acts)[0]), acts \
    }

/* Acts shared by several families. */
CUresult seq_act_hold(void);
CUresult seq_act_release(void);
CUresult seq_act_launch_graph(void);
CUresult seq_act_instantiate(void);
CUresult seq_act_destroy_graph(void);
CUresult seq_act_destroy_exec(void);
CUresult seq_act_synchronize(void);
CUresult seq_act_fault(void);
CUresult seq_act_destroy_context(void);

#endif
