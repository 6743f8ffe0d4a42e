/* SPDX-License-Identifier: MIT */
/*
 * Graphs launched by kernels: in PTX these are external functions without a body, which compilers
 * and linkers know as the driver's (cuda_device_runtime_api.h).
 */
#include "ptx/decode.h"

#include <string.h>

#define NONE SG_OPND_NONE
#define E_NOT_SUPPORTED 801u /* cudaErrorNotSupported */

/* cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) */
static int graph_launch(struct sg_dec *d, const struct sg_call *c)
{
    uint32_t r = sg_temp(d, SG_TY_U32);
    uint32_t exec = sg_call_arg(d, &c->args[0], SG_TY_U64);

    sg_emit(d, SG_OP_graph_launch, r, exec, sg_call_arg(d, &c->args[1], SG_TY_U64), NONE);
    return d->err ? d->err : sg_call_ret(d, &c->rets[0], SG_TY_U32, r);
}

/*
 * cudaGraphKernelNodeSetParam() and related functions change a graph node that is updatable from
 * the device. No node is updatable here (CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE is
 * refused), so the kernel gets an error, too.
 */
static bool node_update(struct sg_dec *d, const char *name, const struct sg_call *c)
{
    static const struct {
        const char *name;
        uint32_t nargs;
    } calls[] = {{"SetParam", 4}, {"SetEnabled", 2}, {"SetGridDim", 2}, {"UpdatesApply", 2}};
    uint32_t r;

    if (strncmp(name, "cudaGraphKernelNode", 19) || c->nrets != 1)
        return false;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        if (strcmp(name + 19, calls[i].name) || c->nargs != calls[i].nargs)
            continue;
        r = sg_temp(d, SG_TY_U32);
        sg_emit(d, SG_OP_mov_b32, r, sg_const32(d, E_NOT_SUPPORTED), NONE, NONE);
        if (!d->err)
            sg_call_ret(d, &c->rets[0], SG_TY_U32, r);
        return true;
    }
    return false;
}

bool sg_call_graph(struct sg_dec *d, const char *name, const struct sg_call *c)
{
    if (!strcmp(name, "cudaGraphLaunch") && c->nargs == 2 && c->nrets == 1) {
        graph_launch(d, c);
        return true;
    }
    return node_update(d, name, c);
}
