/* SPDX-License-Identifier: MIT */
/* What the calls about nodes of one type have in common. */
#ifndef WRK_GNODE_H
#define WRK_GNODE_H

#include "graph.h"
#include "vgp_worker.h"

#define WRK_WHERE(w) \
    wrk_where_get(c, (w), a->op, a->graph, a->target, a->exec, dependencies, a->dependencies_len, edgeData, \
                  a->edgeData_len)

/* A node that runs a host function of the guest: a plain one, or one for external semaphores. */
CUresult wrk_host_node(struct wrk_call *c, struct wrk_where *w, uint64_t cookie,
                       enum vgp_extsem_op semaphores, uint64_t *handle);
/* The call that brought a host function has failed; where it was posted the guest is told of its end, once more where a
 * graph has it already. */
void wrk_host_func_refused(struct wrk_call *c, uint64_t cookie);

#endif
