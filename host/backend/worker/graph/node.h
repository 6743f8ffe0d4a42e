/* SPDX-License-Identifier: MIT */
/* Common parts of the calls for nodes of a type. */
#ifndef WRK_GNODE_H
#define WRK_GNODE_H

#include "graph.h"
#include "vgp_worker.h"

#define WRK_WHERE(w) \
    wrk_where_get(c, (w), a->op, a->graph, a->target, a->exec, dependencies, a->dependencies_len, edgeData, \
                  a->edgeData_len)

/*
 * Adds or changes a node that runs a host function of the guest, plain or for external semaphores.
 */
CUresult wrk_host_node(struct wrk_call *c, struct wrk_where *w, uint64_t cookie,
                       enum vgp_extsem_op semaphores, uint64_t *handle);
/* Handles the failure of a call that introduced a host function. If the call was posted, the guest
 * is notified of the function's end, once more if a graph already holds it. */
void wrk_host_func_refused(struct wrk_call *c, uint64_t cookie);

#endif
