/* SPDX-License-Identifier: MIT */
/* Common parts of the calls for nodes of a type. */
#ifndef WRK_GNODE_H
#define WRK_GNODE_H

#include "graph.h"
#include "vgp_worker.h"

#define WRK_WHERE(w) \
    wrk_where_get(c, (w), a->op, a->graph, a->target, a->exec, dependencies, a->dependencies_len, edgeData, \
                  a->edgeData_len)

#endif
