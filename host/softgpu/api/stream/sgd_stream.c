/* SPDX-License-Identifier: MIT */
/* Driver API: streams and host functions. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"

#define SG_PRIORITY_GREATEST (-5) /* as returned by cuCtxGetStreamPriorityRange */

/* A stream of the calling thread's context, or any live stream if no context needs to be
   current. */
#define SG_STREAM(var, h) \
    SG_AUTO struct sg_stream *var = NULL; \
    do { \
        CUresult sg_rc_ = sg_stream_get_any((h), &(var)); \
        if (sg_rc_ != CUDA_SUCCESS) \
            return sg_rc_; \
    } while (0)
#define SG_STICKY(s) \
    do { \
        CUresult sg_rc_ = (CUresult)atomic_load(&(s)->ctx->sticky); \
        if (sg_rc_ != CUDA_SUCCESS) \
            return sg_rc_; \
    } while (0)

/* Documented: clamped to the nearest priority. */
static int nearest_priority(int priority)
{
    if (priority > 0)
        return 0;
    return priority < SG_PRIORITY_GREATEST ? SG_PRIORITY_GREATEST : priority;
}

CUresult sg_stream_create(struct sg_ctx *ctx, unsigned flags, int priority, CUstream *out)
{
    struct sg_stream *s;
    CUresult r;

    r = sg_stream_new(ctx, flags, nearest_priority(priority), &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (sg_obj_register(&s->obj))
        *out = SG_HANDLE(CUstream, s);
    else
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS)
        sg_stream_retire(s);
    sg_obj_put(&s->obj);
    return r;
}

/* Returns at once; issued work continues, as documented. */
CUresult CUDAAPI cuStreamDestroy_v2(CUstream hStream)
{
    if ((uintptr_t)hStream <= 2) {
        SG_CTX(ctx);
        (void)ctx;
        return CUDA_ERROR_INVALID_HANDLE;
    }
    SG_STREAM(s, hStream);
    sg_stream_retire(s);
    return CUDA_SUCCESS;
}

CUresult sgd_cuStreamSynchronize(struct sg_stream *s)
{
    CUresult r = sg_capture_check_wait(s);

    if (r != CUDA_SUCCESS)
        return r;
    sg_stream_synchronize(s);
    return sg_see_fault(s->ctx);
}

CUresult sgd_cuStreamQuery(struct sg_stream *s)
{
    bool idle = sg_stream_is_complete(s);
    CUresult r;

    SG_STICKY(s);
    r = sg_capture_check_wait(s);
    if (r != CUDA_SUCCESS)
        return r;
    return idle ? sg_see_fault(s->ctx) : CUDA_ERROR_NOT_READY;
}

CUresult sgd_cuStreamGetCtx_v2(struct sg_stream *s, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
    *pCtx = SG_HANDLE(CUcontext, s->ctx);
    if (pGreenCtx)
        *pGreenCtx = (CUgreenCtx)(uintptr_t)(s->green ? s->green->green : 0);
    return CUDA_SUCCESS;
}

CUresult sgd_cuStreamAttachMemAsync(CUdeviceptr dptr, size_t length)
{
    struct sg_mem_info info;

    if (!sg_mem_find(dptr, &info) || info.kind != SG_MEM_MANAGED || info.base != dptr ||
        (length && length != info.size))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS; /* both sides may access managed memory at any time */
}

/* ---- attributes ---- */

CUresult sgd_cuStreamGetAttribute(struct sg_stream *s, CUstreamAttrID attr, CUstreamAttrValue *value)
{
    CUstreamAttrValue v;

    memset(&v, 0, sizeof(v)); /* the whole union is the answer, as of a kernel node's attributes */
    switch (attr) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        v.accessPolicyWindow = s->window;
        break;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        v.syncPolicy = s->sync_policy;
        break;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        v.priority = s->priority;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    *value = v;
    return CUDA_SUCCESS;
}

CUresult sgd_cuStreamSetAttribute(struct sg_stream *s, CUstreamAttrID attr, const CUstreamAttrValue *param)
{
    CUresult r;

    switch (attr) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        r = sg_window_check(s->ctx->device, &param->accessPolicyWindow);
        if (r == CUDA_SUCCESS)
            s->window = param->accessPolicyWindow;
        return r;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        if (param->syncPolicy < CU_SYNC_POLICY_AUTO || param->syncPolicy > CU_SYNC_POLICY_BLOCKING_SYNC)
            return CUDA_ERROR_INVALID_VALUE;
        s->sync_policy = param->syncPolicy;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        s->priority = nearest_priority(param->priority);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult sgd_cuStreamCopyAttributes(struct sg_stream *dst, struct sg_stream *src)
{
    dst->window = src->window;
    dst->sync_policy = src->sync_policy;
    dst->priority = src->priority;
    return CUDA_SUCCESS;
}

/* ---- capture; see also api/stream/sgd_capture.c ---- */

CUresult sgd_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CUstreamCaptureMode old;
    struct sg_tls *t;

    t = sg_tls();
    if (!t)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    old = t->capture_mode;
    t->capture_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}

/* ---- host functions ---- */

struct host_op {
    struct sg_op op;
    CUhostFn fn;
    CUstreamCallback callback;
    CUstream handle;
    void *user;
};

static CUresult host_run(struct sg_op *op, struct sg_stream *s)
{
    struct host_op *o = (struct host_op *)op;
    struct sg_tls *t = sg_tls();
    CUresult status = (CUresult)atomic_load(&s->ctx->fault);

    if (t)
        t->in_callback = true; /* calls to this API from the callback are refused, as documented */
    if (o->callback)
        o->callback(o->handle, status, o->user);
    else if (status == CUDA_SUCCESS)
        o->fn(o->user);
    if (t)
        t->in_callback = false;
    return status;
}

static void host_drop(struct sg_op *op)
{
    free(op);
}

static CUresult host_issue(CUstream h, CUhostFn fn, CUstreamCallback callback, void *user)
{
    struct host_op *o;

    SG_STREAM(s, h);
    SG_STICKY(s);
    if (!fn && !callback)
        return CUDA_ERROR_INVALID_VALUE;
    o = calloc(1, sizeof(*o));
    if (!o)
        return CUDA_ERROR_OUT_OF_MEMORY;
    o->op.run = host_run;
    o->op.node_type = callback ? -1 : CU_GRAPH_NODE_TYPE_HOST;
    o->op.drop = host_drop;
    o->op.run_always = true;
    o->fn = fn;
    o->callback = callback;
    o->handle = h;
    o->user = user;
    return sg_issue(s, &o->op, SG_ISSUE_ASYNC);
}

CUresult sg_host_op(const CUDA_HOST_NODE_PARAMS *p, struct sg_op **out)
{
    struct host_op *o;

    if (!p->fn)
        return CUDA_ERROR_INVALID_VALUE;
    o = calloc(1, sizeof(*o));
    if (!o)
        return CUDA_ERROR_OUT_OF_MEMORY;
    o->op.run = host_run;
    o->op.drop = host_drop;
    o->op.run_always = true;
    o->op.node_type = CU_GRAPH_NODE_TYPE_HOST;
    o->fn = p->fn;
    o->user = p->userData;
    *out = &o->op;
    return CUDA_SUCCESS;
}

void sg_host_describe(struct sg_op *op, CUDA_HOST_NODE_PARAMS *p)
{
    *p = (CUDA_HOST_NODE_PARAMS){((struct host_op *)op)->fn, ((struct host_op *)op)->user};
}

CUresult CUDAAPI cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
    return host_issue(hStream, fn, NULL, userData);
}

CUresult sgd_cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData)
{
    return host_issue(hStream, NULL, callback, userData);
}

/* ---- the same with the per-thread default stream instead of 0 ---- */
