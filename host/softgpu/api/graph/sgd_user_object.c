/* SPDX-License-Identifier: MIT */
/* Driver API: user objects. */
#include <limits.h>

#include "api/api.h"

/* ---- entry points ---- */

CUresult sgd_cuUserObjectRetain(struct sg_uobj *u, unsigned int count)
{
    sg_uobj_retain(u, count);
    return CUDA_SUCCESS;
}

CUresult sgd_cuGraphReleaseUserObject(struct sg_graph *g, struct sg_uobj *u, unsigned int count)
{
    pthread_mutex_lock(&sg_graph_lock);
    bool gone, ok = sg_urefs_drop(&g->urefs, u, count, &gone);

    pthread_mutex_unlock(&sg_graph_lock);
    if (gone)
        sg_uobj_let_go(u);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sgd_cuGraphRetainUserObject(struct sg_graph *g, struct sg_uobj *u, unsigned int count,
                                     unsigned int flags)
{
    CUresult r = CUDA_SUCCESS;

    pthread_mutex_lock(&sg_graph_lock);
    if (!sg_urefs_add(&g->urefs, u, count))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&sg_graph_lock);
    if (r == CUDA_SUCCESS && flags & CU_GRAPH_USER_OBJECT_MOVE) {
        r = sg_uobj_release(u, count);
        if (r != CUDA_SUCCESS) /* the program has fewer: a refused call leaves the graph none of them */
            sgd_cuGraphReleaseUserObject(g, u, count);
    }
    return r;
}
