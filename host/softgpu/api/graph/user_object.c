/* SPDX-License-Identifier: MIT */
/* Driver API: user objects. */
#include <limits.h>

#include "api/api.h"

/* ---- entry points ---- */

#define SG_UOBJ(var, h) \
    SG_INIT(); \
    SG_AUTO struct sg_uobj *var = SG_LOOKUP((h), SG_T_UOBJ); \
    if (!var) \
    return CUDA_ERROR_INVALID_VALUE

CUresult CUDAAPI cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
                                    unsigned int initialRefcount, unsigned int flags)
{
    SG_INIT();
    if (!object_out || !destroy || !initialRefcount || initialRefcount > INT_MAX ||
        flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    return sg_uobj_new(ptr, destroy, initialRefcount, object_out) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuUserObjectRetain(CUuserObject object, unsigned int count)
{
    SG_UOBJ(u, object);
    if (!count || count > INT_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    sg_uobj_retain(u, count);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuUserObjectRelease(CUuserObject object, unsigned int count)
{
    SG_UOBJ(u, object);
    return count && count <= INT_MAX ? sg_uobj_release(u, count) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
                                         unsigned int flags)
{
    CUresult r = CUDA_SUCCESS;

    SG_GRAPH(g, graph);
    SG_AUTO struct sg_uobj *u = SG_LOOKUP(object, SG_T_UOBJ);

    if (!u || !count || count > INT_MAX || flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sg_graph_lock);
    if (!sg_urefs_add(&g->urefs, u, count))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&sg_graph_lock);
    if (r == CUDA_SUCCESS && flags & CU_GRAPH_USER_OBJECT_MOVE)
        r = sg_uobj_release(u, count);
    return r;
}

CUresult CUDAAPI cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
    SG_GRAPH(g, graph);
    SG_AUTO struct sg_uobj *u = SG_LOOKUP(object, SG_T_UOBJ);

    if (!u || !count || count > INT_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sg_graph_lock);
    bool gone, ok = sg_urefs_drop(&g->urefs, u, count, &gone);

    pthread_mutex_unlock(&sg_graph_lock);
    if (gone)
        sg_uobj_let_go(u);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
