/* SPDX-License-Identifier: MIT */
/* Executable graphs, for the two files that make, launch and change them. */
#ifndef SG_GEXEC_H
#define SG_GEXEC_H

#include "sg_graph.h"

struct gexec {
    struct sg_obj obj;
    unsigned long long flags;
    struct sg_program *program; /* replaced as a whole, under sg_graph_lock */
    struct sg_graph *only; /* a reference: the graph that may have no other; or NULL */
    struct sg_stream *last; /* of the last launch, a reference; under sg_graph_lock */
    uint64_t last_seq;
    struct sg_ghold hold; /* under sg_graph_lock */
    /* Launches from the device; under sg_graph_lock (sg_gdevice.c). */
    struct gexec *next_known;
    uint64_t name;  /* what kernels call it */
    bool uploaded;  /* since it was last changed */
    bool queued;    /* a kernel launched it, and it has not begun */
    bool running;
};

/* ---- graphs that kernels launch (sg_gdevice.c) ---- */

/* May the device launch p, or op as a node of such a graph? Else 801, or 1 when it is empty. */
CUresult sg_gdev_check(const struct sg_ctx *ctx, const struct sg_program *p,
                       CUgraphInstantiateResult *why, uint64_t *node);
CUresult sg_gdev_check_op(const struct sg_ctx *ctx, CUgraphNodeType type, struct sg_op *op);
void sg_gdev_add(struct gexec *x);  /* it has its handle, which is its name; under the lock */
void sg_gdev_drop(struct gexec *x); /* under the lock; not in the list: nothing happens */
/* Runs p, and then what its kernels launched; x: may be NULL. */
CUresult sg_gdev_run(struct gexec *x, struct sg_program *p, struct sg_gclaim *claim,
                     struct sg_stream *s);
/* A kernel of s->genv has ended: runs what it launched to be forgotten. */
CUresult sg_gdev_drain(struct sg_stream *s);
/* The steps of p, in the graph that s runs. */
CUresult sg_program_run(struct sg_program *p, struct sg_gclaim *claim, struct sg_stream *s);
struct sg_program *sg_graph_op_program(struct sg_op *op); /* of a launch that was captured */
/* Has the work of the context to stop? */
CUresult sg_stream_stopped(const struct sg_stream *s);
/* Exported for whoever loads the library: what kernels call it in place of its handle. */
CUresult sg_graph_exec_name(CUgraphExec hGraphExec, uint64_t name);

#define SG_GEXEC(var, h)                                                                           \
    SG_AUTO struct gexec *var = NULL;                                                              \
    do {                                                                                           \
        CUresult sg_rc_ = sg_check_init();                                                         \
        if (sg_rc_ != CUDA_SUCCESS)                                                                \
            return sg_rc_;                                                                         \
        var = SG_LOOKUP((h), SG_T_GEXEC);                                                          \
        if (!var)                                                                                  \
            return CUDA_ERROR_INVALID_VALUE;                                                       \
    } while (0)

#endif
