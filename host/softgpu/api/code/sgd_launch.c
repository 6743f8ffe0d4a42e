/* SPDX-License-Identifier: MIT */
/* Driver API: kernel launches. */
#include "api/api.h"

#include "lib/attribute/attribute.h"

static CUresult launch_request(const struct sg_launch_request *q)
{
    SG_AUTO struct sg_stream *s = NULL;
    struct sg_op *op;
    CUresult r;

    SG_CTX(ctx);
    if (!q->f)
        return CUDA_ERROR_INVALID_HANDLE;
    r = q->window ? sg_window_check(ctx->device, q->window) : CUDA_SUCCESS;
    if (r == CUDA_SUCCESS)
        r = sg_stream_get(ctx, q->stream, &s);
    if (r == CUDA_SUCCESS)
        r = sg_launch_build(ctx, s->green, q, &op);
    return r == CUDA_SUCCESS ? sg_issue(s, op, SG_ISSUE_ASYNC) : r;
}

/* ---- entry points ---- */

CUresult CUDAAPI cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                                unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                                void **kernelParams, void **extra)
{
    struct sg_launch_request q = {f,
                                  {gridDimX, gridDimY, gridDimZ},
                                  {blockDimX, blockDimY, blockDimZ},
                                  sharedMemBytes,
                                  hStream,
                                  false,
                                  kernelParams,
                                  extra,
                                  {0, 0, 0},
                                  false,
                                  NULL};

    return launch_request(&q);
}

CUresult CUDAAPI cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                           unsigned int gridDimZ, unsigned int blockDimX,
                                           unsigned int blockDimY, unsigned int blockDimZ,
                                           unsigned int sharedMemBytes, CUstream hStream, void **kernelParams)
{
    struct sg_launch_request q = {f,
                                  {gridDimX, gridDimY, gridDimZ},
                                  {blockDimX, blockDimY, blockDimZ},
                                  sharedMemBytes,
                                  hStream,
                                  true,
                                  kernelParams,
                                  NULL,
                                  {0, 0, 0},
                                  false,
                                  NULL};

    return launch_request(&q);
}

/* Checks an attribute that names an event, which is recorded behind the launch in `stream`: see
   record_events(). */
static CUresult check_event(struct sg_ctx *ctx, CUstream stream, const CUlaunchAttribute *a)
{
    SG_AUTO struct sg_event *e = SG_LOOKUP(*att_event(a), SG_T_EVENT);
    SG_AUTO struct sg_stream *s = NULL;
    CUresult r;

    if (!e)
        return sg_fail(CUDA_ERROR_INVALID_HANDLE, "launch attribute %s: no event", att_object_name(a->id));
    if (sg_cc(ctx->device) < 10 * att_event_capability(a->id))
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "launch attribute %s", att_object_name(a->id));
    r = sg_stream_get(ctx, stream, &s);
    if (r == CUDA_SUCCESS && e->obj.owner != s->ctx)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == CUDA_SUCCESS && (att_event_flags(a) || !(e->flags & CU_EVENT_DISABLE_TIMING) || e->ipc))
        r = CUDA_ERROR_INVALID_VALUE;
    return r;
}

/* Records the events of a launch behind its kernel: cuda.h lets a dependent wait until it is complete. */
static CUresult record_events(const CUlaunchConfig *c, CUstream stream)
{
    CUresult r = CUDA_SUCCESS;

    for (unsigned i = 0; r == CUDA_SUCCESS && i < c->numAttrs; i++) {
        const CUevent *event = att_event(&c->attrs[i]);

        if (event)
            r = cuEventRecordWithFlags(*event, stream, 0);
    }
    return r;
}

/*
 * Honours the attribute, ignores it as a hint, or refuses it by name. (The manual promises no
 * effect of the ignored attributes; the full serialisation used here is allowed by
 * PROGRAMMATIC_STREAM_SERIALIZATION; for PREFERRED_CLUSTER_DIMENSION see
 * check_preferred_cluster().)
 */
static CUresult apply_attribute(struct sg_ctx *ctx, struct sg_launch_request *q, const CUlaunchAttribute *a)
{
    if (a->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
        q->cooperative = a->value.cooperative != 0;
    if (a->id == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW)
        q->window = &a->value.accessPolicyWindow;
    if (a->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
        return sg_cluster_dimension(a->value.clusterDim.x, a->value.clusterDim.y, a->value.clusterDim.z,
                                    q->cluster);
    switch (att_launch_class(a->id)) {
    case ATT_PLAIN:
        return CUDA_SUCCESS;
    case ATT_OBJECT:
        if (att_event(a))
            return check_event(ctx, q->stream, a);
        if (!att_launch_active(a))
            return CUDA_SUCCESS;
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "launch attribute %s", att_object_name(a->id));
    default:
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "launch attribute %d is unknown or not for launches",
                       (int)a->id);
    }
}

/* Clusters always have the regular size, which the preferred size allows; but the preferred size
   must be a multiple of the regular size and divide the grid (CUlaunchAttributeID). */
static CUresult check_preferred_cluster(const CUlaunchConfig *c, struct sg_launch_request *q)
{
    for (unsigned i = 0; i < c->numAttrs; i++) {
        const CUlaunchAttributeValue *v = &c->attrs[i].value;

        if (c->attrs[i].id != CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION)
            continue;
        const unsigned preferred[] = {v->preferredClusterDim.x, v->preferredClusterDim.y,
                                      v->preferredClusterDim.z};

        q->preferred |= preferred[0] || preferred[1] || preferred[2];
        if (!q->cluster[0])
            continue;
        for (unsigned k = 0; k < 3; k++) {
            if (!preferred[k] || preferred[k] % q->cluster[k] || q->grid[k] % preferred[k])
                return sg_fail(
                    CUDA_ERROR_INVALID_CLUSTER_SIZE,
                    "a preferred cluster dimension that is no multiple of the cluster dimension, or "
                    "does not divide the grid");
        }
    }
    return CUDA_SUCCESS;
}

static CUresult launch_ex(const CUlaunchConfig *c, CUfunction f, void **kernelParams, void **extra,
                          CUstream stream)
{
    SG_CTX(ctx);
    if (!c || c->numAttrs > SG_ATTRS_MAX || (c->numAttrs && !c->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    struct sg_launch_request q = {f,
                                  {c->gridDimX, c->gridDimY, c->gridDimZ},
                                  {c->blockDimX, c->blockDimY, c->blockDimZ},
                                  c->sharedMemBytes,
                                  stream,
                                  false,
                                  kernelParams,
                                  extra,
                                  {0, 0, 0},
                                  false,
                                  NULL};

    for (unsigned i = 0; i < c->numAttrs; i++) {
        CUresult r = apply_attribute(ctx, &q, &c->attrs[i]);

        if (r != CUDA_SUCCESS)
            return r;
    }
    CUresult r = check_preferred_cluster(c, &q);

    if (r == CUDA_SUCCESS)
        r = launch_request(&q);
    return r == CUDA_SUCCESS ? record_events(c, stream) : r;
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
                                  void **extra)
{
    return launch_ex(config, f, kernelParams, extra, config ? config->hStream : NULL);
}

CUresult CUDAAPI cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
                                       void **extra)
{
    return launch_ex(config, f, kernelParams, extra, config ? SG_PTSZ(config->hStream) : NULL);
}
