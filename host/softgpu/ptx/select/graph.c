/* SPDX-License-Identifier: MIT */
/*
 * Graphs launched by kernels: in PTX these are external functions without a body, which compilers
 * and linkers know as the driver's (cuda_device_runtime_api.h).
 */
#include "ptx/decode.h"

#include <string.h>

#define NONE SG_OPND_NONE

/* cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) */
static int graph_launch(struct sg_dec *d, const struct sg_call *c)
{
    uint32_t r = sg_temp(d, SG_TY_U32);
    uint32_t exec = sg_call_arg(d, &c->args[0], SG_TY_U64);

    sg_emit(d, "graph.launch", r, exec, sg_call_arg(d, &c->args[1], SG_TY_U64), NONE);
    return d->err ? d->err : sg_call_ret(d, &c->rets[0], SG_TY_U32, r);
}

bool sg_call_graph(struct sg_dec *d, const char *name, const struct sg_call *c)
{
    if (!strcmp(name, "cudaGraphLaunch") && c->nargs == 2 && c->nrets == 1) {
        graph_launch(d, c);
        return true;
    }
    return false;
}
