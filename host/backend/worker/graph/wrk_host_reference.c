/* SPDX-License-Identifier: MIT */
/* Host functions of graph nodes; a user object of the provider holds such a function as long as a graph can run it. */
#include "graph.h"

#include "vgp_worker.h"

static void host_func_gone(void *arg)
{
    wrk_host_func_put(arg);
}

/* A driver without user objects (before 11.3) keeps it for as long as the client lives. */
CUresult wrk_host_func_for(struct wrk_worker *w, CUgraph g, uint64_t cookie, struct wrk_host_func **out)
{
    struct wrk_host_func *f = wrk_host_func_new(w, cookie, false);
    CUuserObject object;
    CUresult r;

    if (!f)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = f;
    if (!wrk_provider.cuUserObjectCreate || !wrk_provider.cuGraphRetainUserObject ||
        !wrk_provider.cuUserObjectRelease)
        return CUDA_SUCCESS;
    r = wrk_provider.cuUserObjectCreate(&object, f, host_func_gone, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
    if (r != CUDA_SUCCESS) {
        wrk_host_func_drop(f);
        return r;
    }
    r = wrk_provider.cuGraphRetainUserObject(g, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
    if (r != CUDA_SUCCESS)
        wrk_provider.cuUserObjectRelease(object, 1);
    return r;
}

enum vgp_extsem_op wrk_host_node_semaphores(CUgraphNode node)
{
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    CUDA_HOST_NODE_PARAMS p = {0};

    if (!wrk_provider.cuGraphNodeGetType || !wrk_provider.cuGraphHostNodeGetParams ||
        wrk_provider.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS || type != CU_GRAPH_NODE_TYPE_HOST ||
        wrk_provider.cuGraphHostNodeGetParams(node, &p) != CUDA_SUCCESS || p.fn != wrk_host_func_run ||
        !p.userData)
        return VGP_EXTSEM_NONE;
    return wrk_host_func_semaphores(p.userData);
}

void wrk_host_func_nothing(void *unused)
{
    (void)unused;
}
