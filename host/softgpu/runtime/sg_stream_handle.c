/* SPDX-License-Identifier: MIT */
/* Resolves stream handles, and the default streams of threads. */
#include <stdlib.h>

#include "runtime/runtime.h"

/* Gives back the calling thread's streams of contexts that went away. */
static void forget_dying(struct sg_tls *t)
{
    for (unsigned i = 0; i < t->nptds; i++) {
        struct sg_stream *own = t->ptds[i];

        if (own->dying) {
            t->ptds[i--] = t->ptds[--t->nptds];
            sg_obj_put(&own->obj);
        }
    }
}

void sg_tls_streams_forget(void)
{
    struct sg_tls *t = sg_tls();

    if (t)
        forget_dying(t);
}

static CUresult per_thread_stream(struct sg_ctx *ctx, struct sg_stream **out)
{
    struct sg_tls *t = sg_tls();
    struct sg_stream **grown, *s;
    CUresult r;

    if (!t)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (sg_current_self(ctx) != ctx) /* documented with cuStreamGetCtx_v2 */
        return sg_fail(CUDA_ERROR_INVALID_HANDLE, "a green context has no per-thread default stream");
    forget_dying(t);
    for (unsigned i = 0; i < t->nptds; i++) {
        if (t->ptds[i]->ctx == ctx) {
            *out = t->ptds[i];
            sg_obj_get(&(*out)->obj);
            return CUDA_SUCCESS;
        }
    }
    grown = realloc(t->ptds, (t->nptds + 1) * sizeof(*grown));
    if (!grown)
        return CUDA_ERROR_OUT_OF_MEMORY;
    t->ptds = grown;
    r = sg_stream_new(ctx, 0, 0, &s);
    if (r != CUDA_SUCCESS)
        return r;
    s->per_thread = true;
    t->ptds[t->nptds++] = s;
    sg_obj_get(&s->obj);
    *out = s;
    return CUDA_SUCCESS;
}

void sg_tls_streams_free(struct sg_tls *t)
{
    for (unsigned i = 0; i < t->nptds; i++) {
        sg_stream_retire(t->ptds[i]);
        sg_obj_put(&t->ptds[i]->obj);
    }
    free(t->ptds);
    t->ptds = NULL;
    t->nptds = 0;
}

/* Streams outlive their green context in name only (cuGreenCtxDestroy). */
static CUresult still_there(struct sg_stream **s)
{
    if (!(*s)->green || sg_ctx_alive((*s)->green))
        return CUDA_SUCCESS;
    sg_obj_put(&(*s)->obj);
    *s = NULL;
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult sg_stream_get(struct sg_ctx *ctx, CUstream h, struct sg_stream **out)
{
    if (h == NULL || h == SG_LEGACY) {
        *out = sg_current_self(ctx)->legacy;
        sg_obj_get(&(*out)->obj);
        return CUDA_SUCCESS;
    }
    if (h == SG_PER_THREAD)
        return per_thread_stream(ctx, out);
    *out = SG_LOOKUP(h, SG_T_STREAM);
    if (*out && (*out)->ctx != ctx) {
        sg_obj_put(&(*out)->obj);
        *out = NULL;
    }
    return *out ? still_there(out) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sg_stream_get_any(CUstream h, struct sg_stream **out)
{
    struct sg_ctx *ctx;
    CUresult r = sg_check_init();

    if (r != CUDA_SUCCESS)
        return r;
    if ((uintptr_t)h > 2) {
        *out = SG_LOOKUP(h, SG_T_STREAM);
        if (*out) {
            struct sg_tls *t = sg_tls();

            if (t && t->in_callback) {
                sg_obj_put(&(*out)->obj);
                *out = NULL;
                return CUDA_ERROR_NOT_PERMITTED;
            }
            return still_there(out);
        }
    }
    r = sg_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    return sg_stream_get(ctx, h, out);
}

CUresult sg_window_check(int device, const CUaccessPolicyWindow *w)
{
    const int most = sg_attr(device, CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE);

    if (w->num_bytes > (size_t)most)
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "an access policy window of %zu bytes, at most %d",
                       w->num_bytes, most);
    if ((unsigned)w->hitProp > CU_ACCESS_PROPERTY_PERSISTING ||
        (unsigned)w->missProp > CU_ACCESS_PROPERTY_STREAMING)
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "an access policy window with hitProp %d, missProp %d",
                       (int)w->hitProp, (int)w->missProp);
    return CUDA_SUCCESS;
}
