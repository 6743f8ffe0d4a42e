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
};

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
