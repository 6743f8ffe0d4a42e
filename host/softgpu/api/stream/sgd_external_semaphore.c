/* SPDX-License-Identifier: MIT */
/*
 * Driver API: external semaphores and the nodes of graphs that signal or wait for them. The objects
 * are the operating system's (lib/extsem/extsem.h); a stream's thread signals them, or sleeps until
 * they are signalled.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"

#include "lib/driver/driver.h"

#define SG_EXTSEM_SLICE 100 /* ms between checks of a wait whether its context has ended */

/* ---- objects ---- */

/* why: for the log, or NULL. */
static CUresult refuse_semaphore(const char *call, CUresult r, const char *why)
{
    return r != CUDA_SUCCESS && why ? sg_fail(r, "%s: %s", call, why) : r;
}

CUresult sgd_cuImportExternalSemaphore(CUexternalSemaphore *extSem_out,
                                       const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *semHandleDesc)
{
    const char *why = NULL;
    CUresult r = cua_semaphore_check(extSem_out, semHandleDesc, &why);

    if (r == CUDA_SUCCESS)
        r = cua_semaphore_import(extSem_out, semHandleDesc, &why);
    return refuse_semaphore("cuImportExternalSemaphore", r, why);
}

/* ---- operations ---- */

struct extsem_op {
    struct sg_op op;
    bool wait;
    unsigned n;
    SG_COUNTED struct vgp_extsem **sem; /* each a reference */
    CUexternalSemaphore *handles;       /* these two: as given, for GetParams */
    union {
        CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *signal;
        CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *wait;
        void *any;
    } params;
};

/* The context under a stream that has ended: its own, or the green context; NULL: neither. */
static struct sg_ctx *context_of_ended(const struct sg_stream *s)
{
    if (!atomic_load(&s->ctx->alive) || s->ctx->abort)
        return s->ctx;
    return s->green && !atomic_load(&s->green->alive) ? s->green : NULL;
}

/* When a context ends, its waits are abandoned, and operations after the wait do not run. */
static int wait_for(struct vgp_extsem *sem, uint64_t value, const struct sg_stream *s)
{
    int rc;

    while ((rc = vgp_extsem_wait(sem, value, SG_EXTSEM_SLICE)) == 0) {
        struct sg_ctx *ctx = context_of_ended(s);

        if (ctx) {
            atomic_store(&ctx->cut, true);
            return 0;
        }
    }
    return rc;
}

static CUresult extsem_run(struct sg_op *op, struct sg_stream *s)
{
    struct extsem_op *o = (struct extsem_op *)op;

    for (unsigned i = 0; i < o->n; i++) {
        uint64_t value =
            o->wait ? o->params.wait[i].params.fence.value : o->params.signal[i].params.fence.value;
        int rc = o->wait ? wait_for(o->sem[i], value, s) : vgp_extsem_signal(o->sem[i], value);

        if (rc < 0) {
            sg_log("external semaphore: %s: %s", o->wait ? "wait" : "signal", strerror(-rc));
            sg_set_fault(s->ctx, CUDA_ERROR_OPERATING_SYSTEM);
            return CUDA_ERROR_OPERATING_SYSTEM;
        }
        if (rc == 0 && o->wait)
            return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        if (rc == 1 && !o->wait)
            sg_log("external semaphore: a timeline does not go back to %llu: it stays",
                   (unsigned long long)value);
    }
    return CUDA_SUCCESS;
}

static void extsem_drop(struct sg_op *op)
{
    struct extsem_op *o = (struct extsem_op *)op;

    for (unsigned i = 0; i < o->n; i++)
        vgp_extsem_put(o->sem[i]);
    free(o->sem);
    free(o->handles);
    free(o->params.any);
    free(o);
}

static CUresult build_semaphores(bool wait, const CUexternalSemaphore *handles, const void *params,
                                 unsigned n, struct sg_op **out)
{
    size_t size =
        wait ? sizeof(CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS) : sizeof(CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS);
    const char *why = NULL;
    struct extsem_op *o;
    CUresult r = cua_semaphores_check(wait, handles, params, n);

    if (r != CUDA_SUCCESS)
        return r;
    o = calloc(1, sizeof(*o));
    if (!o)
        return CUDA_ERROR_OUT_OF_MEMORY;
    o->op.run = extsem_run;
    o->op.drop = extsem_drop;
    o->op.node_type = wait ? CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT : CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL;
    o->wait = wait;
    o->n = n;
    o->sem = calloc(n, sizeof(*o->sem));
    o->handles = malloc(n * sizeof(*o->handles));
    o->params.any = malloc(n * size);
    r = CUDA_ERROR_OUT_OF_MEMORY;
    if (o->sem && o->handles && o->params.any) {
        memcpy(o->handles, handles, n * sizeof(*handles));
        memcpy(o->params.any, params, n * size);
        r = cua_semaphores_get(wait, o->handles, n, o->sem, &why);
        r = refuse_semaphore(wait ? "wait" : "signal", r, why);
    }
    if (r != CUDA_SUCCESS) {
        if (!o->sem)
            o->n = 0;
        extsem_drop(&o->op);
        return r;
    }
    *out = &o->op;
    return CUDA_SUCCESS;
}

static CUresult issue_semaphores(bool wait, const CUexternalSemaphore *handles, const void *params,
                                 unsigned n, struct sg_stream *s)
{
    struct sg_op *op;
    CUresult r = build_semaphores(wait, handles, params, n, &op);

    return r == CUDA_SUCCESS ? sg_issue(s, op, wait ? SG_ISSUE_ASYNC : SG_ISSUE_INLINE) : r;
}

CUresult sgd_cuSignalExternalSemaphoresAsync(const CUexternalSemaphore *extSemArray,
                                             const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *paramsArray,
                                             unsigned int numExtSems, struct sg_stream *s)
{
    return issue_semaphores(false, extSemArray, paramsArray, numExtSems, s);
}

CUresult sgd_cuWaitExternalSemaphoresAsync(const CUexternalSemaphore *extSemArray,
                                           const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *paramsArray,
                                           unsigned int numExtSems, struct sg_stream *s)
{
    return issue_semaphores(true, extSemArray, paramsArray, numExtSems, s);
}

/* ---- nodes ---- */

static CUgraphNodeType type_of(bool wait)
{
    return wait ? CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT : CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL;
}

/* The calls about nodes have no other word for a semaphore that is none. */
static CUresult node_op(bool wait, const CUexternalSemaphore *handles, const void *params, unsigned n,
                        struct sg_op **out)
{
    CUresult r = build_semaphores(wait, handles, params, n, out);

    return r == CUDA_ERROR_INVALID_HANDLE ? CUDA_ERROR_INVALID_VALUE : r;
}

static CUresult add_node(bool wait, CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t ndeps,
                         const CUexternalSemaphore *handles, const void *params, unsigned n)
{
    struct sg_op *op;
    CUresult r = node_op(wait, handles, params, n, &op);

    return r != CUDA_SUCCESS ? r : sg_graph_add(out, g, deps, ndeps, type_of(wait), op, NULL, NULL);
}

static CUresult set_node(bool wait, struct sg_node *node, const CUexternalSemaphore *handles,
                         const void *params, unsigned n)
{
    struct sg_op *op;
    CUresult r;

    if (node->type != type_of(wait))
        return CUDA_ERROR_INVALID_VALUE;
    r = node_op(wait, handles, params, n, &op);
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&sg_graph_lock);
    sg_node_set_op(node, op, &r);
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

/* The number of semaphores cannot change, according to cuda.h. */
static CUresult set_exec(bool wait, CUgraphExec exec, CUgraphNode hNode, const CUexternalSemaphore *handles,
                         const void *params, unsigned n)
{
    struct sg_op *op;
    unsigned has = 0;
    CUresult r;

    SG_NODE(node, hNode);
    if (!exec || node->type != type_of(wait))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sg_graph_lock);
    has = ((struct extsem_op *)node->gop->op)->n;
    pthread_mutex_unlock(&sg_graph_lock);
    if (n != has)
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "the node has %u semaphores, not %u", has, n);
    r = node_op(wait, handles, params, n, &op);
    return r != CUDA_SUCCESS ? r : sg_exec_replace(exec, hNode, type_of(wait), op);
}

/* The arrays belong to the node until its parameters change. */
static CUresult get_node(bool wait, struct sg_node *node, struct extsem_op *out)
{
    if (node->type != type_of(wait))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sg_graph_lock);
    *out = *(struct extsem_op *)node->gop->op;
    pthread_mutex_unlock(&sg_graph_lock);
    return CUDA_SUCCESS;
}

#define SG_EXTSEM_NODE(KIND, WAIT, STRUCT, FIELD) \
    CUresult sgd_cuGraphAddExternalSemaphores##KIND##Node(CUgraphNode *phGraphNode, CUgraph hGraph, \
                                                          const CUgraphNode *dependencies, \
                                                          size_t numDependencies, const STRUCT *p) \
    { \
        return add_node(WAIT, phGraphNode, hGraph, dependencies, numDependencies, p->extSemArray, \
                        p->paramsArray, p->numExtSems); \
    } \
    CUresult sgd_cuGraphExternalSemaphores##KIND##NodeSetParams(struct sg_node *node, const STRUCT *p) \
    { \
        return set_node(WAIT, node, p->extSemArray, p->paramsArray, p->numExtSems); \
    } \
    CUresult sgd_cuGraphExecExternalSemaphores##KIND##NodeSetParams(CUgraphExec hGraphExec, \
                                                                    CUgraphNode hNode, const STRUCT *p) \
    { \
        return set_exec(WAIT, hGraphExec, hNode, p->extSemArray, p->paramsArray, p->numExtSems); \
    } \
    CUresult sgd_cuGraphExternalSemaphores##KIND##NodeGetParams(struct sg_node *node, STRUCT *p) \
    { \
        struct extsem_op o; \
        CUresult r = get_node(WAIT, node, &o); \
\
        if (r == CUDA_SUCCESS) \
            *p = (STRUCT){.extSemArray = o.handles, .paramsArray = o.params.FIELD, .numExtSems = o.n}; \
        return r; \
    }

SG_EXTSEM_NODE(Signal, false, CUDA_EXT_SEM_SIGNAL_NODE_PARAMS, signal)
SG_EXTSEM_NODE(Wait, true, CUDA_EXT_SEM_WAIT_NODE_PARAMS, wait)
