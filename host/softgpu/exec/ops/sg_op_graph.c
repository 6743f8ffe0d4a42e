/* SPDX-License-Identifier: MIT */
/* Handlers: graphs launched by kernels; graph/sg_graph_device_graph.c performs the launches. */
#include "exec/ops/handler.h"

#define E_NOT_SUPPORTED 801u /* cudaErrorNotSupported */

HANDLER(graph_launch)
{
    const struct sg_launch *l = w->cta->launch;
    u32 *d = DST(u32, d);

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);

        d[i] = l->graphs ? l->graphs->launch(l->graph, SRC(u64, a)[i], SRC(u64, b)[i]) : E_NOT_SUPPORTED;
    }
    return SG_NEXT;
}

/* %current_graph_exec; there is a single sequence of graphs, which does not advance while a grid
   runs. */
HANDLER(sreg_current_graph_exec)
{
    const struct sg_launch *l = w->cta->launch;
    const u64 self = l->graphs ? l->graphs->self(l->graph) : 0;

    STORE(u64, self);
    return SG_NEXT;
}

#include "exec/ops/graph.def"

#include "exec/table/rows.h"

const struct sg_opdef sg_ops_graph[] = {
#include "exec/ops/graph.def"
    {0},
};
