/* SPDX-License-Identifier: MIT */
/* External semaphore signal and wait nodes. */
#include "../stream/stream.h"
#include "graph.h"

#include "vgp_entry.h"
#include "vgp_guest.h"

static uint32_t semaphore_code(bool wait)
{
    return wait ? VGP_EXTSEM_WAIT : VGP_EXTSEM_SIGNAL;
}

/* The operation of a node, with a reference. */
static CUresult of_node(CUgraphNode node, bool wait, struct vcu_semas **out)
{
    uint64_t cookie = 0;
    CUresult res = vgp_call_vgpGraphExtSemNodeGet(node, semaphore_code(wait), &cookie);

    if (res != CUDA_SUCCESS)
        return res;
    *out = vcu_semas_of(cookie);
    return *out == NULL ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

/* The number of semaphores cannot change in an executable graph, as cuda.h says. */
static CUresult check_number(const char *call, const struct vgp_where *w, bool wait, unsigned n)
{
    struct vcu_semas *s;
    unsigned has;
    CUresult res;

    if (w->op != VGP_NODE_EXEC)
        return CUDA_SUCCESS;
    res = of_node(w->target, wait, &s);
    if (res != CUDA_SUCCESS)
        return res;
    has = s->n;
    vcu_semas_put(s);
    return has == n
               ? CUDA_SUCCESS
               : VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, call, "the node has %u semaphores, not %u", has, n);
}

static CUresult node_of(const char *call, const struct vgp_where *w, bool wait,
                        const CUexternalSemaphore *handles, const void *params, unsigned n, uint64_t *node)
{
    struct vgp_where where = *w;
    struct vcu_semas *s;
    uint64_t cookie;
    CUresult res = vcu_semas_served(call);

    if (res == CUDA_SUCCESS)
        res = check_number(call, w, wait, n);
    if (res == CUDA_SUCCESS)
        res = vcu_semas_new(call, wait, handles, params, n, &s);
    if (res == CUDA_ERROR_INVALID_HANDLE)
        return CUDA_ERROR_INVALID_VALUE; /* these calls have no other error for it */
    if (res != CUDA_SUCCESS)
        return res;
    cookie = vcu_semas_keep(s, false, &res);
    if (cookie == 0)
        return res;
    vcu_where_post(&where); /* where it fails, the worker releases the operation */
    res = vgp_call_vgpGraphExtSemNode(VGP_WHERE(&where), semaphore_code(wait), cookie, node);
    vcu_hostfunc_kept(cookie, res);
    return res;
}

CUresult vcu_extsem_signal_node(const char *call, const struct vgp_where *w,
                                const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *p, uint64_t *node)
{
    return p == NULL ? CUDA_ERROR_INVALID_VALUE
                     : node_of(call, w, false, p->extSemArray, p->paramsArray, p->numExtSems, node);
}

CUresult vcu_extsem_wait_node(const char *call, const struct vgp_where *w,
                              const CUDA_EXT_SEM_WAIT_NODE_PARAMS *p, uint64_t *node)
{
    return p == NULL ? CUDA_ERROR_INVALID_VALUE
                     : node_of(call, w, true, p->extSemArray, p->paramsArray, p->numExtSems, node);
}

/* The node keeps the operation alive as long as it may run. */
static CUresult semaphore_node_get(CUgraphNode node, bool wait, const void *out, struct vcu_semas **s)
{
    CUresult res = vcu_check_init();

    if (res == CUDA_SUCCESS && (!vcu_node_ok(node) || out == NULL))
        res = CUDA_ERROR_INVALID_VALUE;
    return res == CUDA_SUCCESS ? of_node(node, wait, s) : res;
}

#define EXTSEM_NODE(KIND, WAIT, STRUCT, FIELD) \
    CUresult vcu_cuGraphExternalSemaphores##KIND##NodeGetParams(CUgraphNode hNode, STRUCT *params_out) \
    { \
        struct vcu_semas *s; \
        CUresult res = semaphore_node_get(hNode, WAIT, params_out, &s); \
\
        if (res != CUDA_SUCCESS) \
            return res; \
        *params_out = \
            (STRUCT){.extSemArray = s->handles, .paramsArray = s->params.FIELD, .numExtSems = s->n}; \
        vcu_semas_put(s); \
        return CUDA_SUCCESS; \
    }

EXTSEM_NODE(Signal, false, CUDA_EXT_SEM_SIGNAL_NODE_PARAMS, signal)
EXTSEM_NODE(Wait, true, CUDA_EXT_SEM_WAIT_NODE_PARAMS, wait)
