/* SPDX-License-Identifier: MIT */
/* Driver API: handles of conditional nodes. */
#include "api/api.h"

CUresult sgd_cuGraphConditionalHandleCreate(CUgraphConditionalHandle *pHandle_out, struct sg_graph *g,
                                            CUcontext ctx, unsigned int defaultLaunchValue,
                                            unsigned int flags)
{
    struct sg_ctx *current = NULL;
    CUresult r = CUDA_SUCCESS;

    SG_AUTO struct sg_ctx *named = ctx ? sg_ctx_find_base(ctx) : NULL;

    if (ctx && !named)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!ctx && (r = sg_current(&current)) != CUDA_SUCCESS)
        return r;
    return sg_cond_new(g, named ? named->id : current->id, defaultLaunchValue,
                       flags & CU_GRAPH_COND_ASSIGN_DEFAULT, pHandle_out);
}
