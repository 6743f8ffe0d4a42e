/* SPDX-License-Identifier: MIT */
/* Functions that the files of entry points share. */
#ifndef SG_API_H
#define SG_API_H

#include "graph/graph.h"

#include "softgpu/newer.h"
#include "softgpu/entries.h"

/* The calling thread's stack of contexts; CUDA_ERROR_NOT_PERMITTED inside a callback (api/device/context.c). */
CUresult sg_thread_get(struct sg_tls **out);
/* The context of a handle, with a reference, also after it failed; NULL and all ones name the current one. */
CUresult sg_ctx_named(CUcontext h, struct sg_ctx **out);
/* A context whose work may be waited for; else CUDA_ERROR_INVALID_CONTEXT, its error, or what a capture forbids. */
CUresult sg_ctx_waitable(CUcontext h, struct sg_ctx **out);
struct sg_green;
/* A green context; also with CUDA_ERROR_CONTEXT_IS_DESTROYED (api/device/green.c). */
CUresult sg_green_get(CUgreenCtx h, struct sg_green **out);

/* A texture or surface object that is not being destroyed (api/code/texture_object.c). */
CUresult sg_texobj_get(uint64_t h, enum sg_type type, struct sg_texobj **out);

static inline CUresult sg_check_context(void)
{
    struct sg_ctx *ctx;

    return sg_current(&ctx);
}
static inline CUresult sg_check_device(CUdevice dev)
{
    SG_INIT();
    SG_CHECK_DEVICE(dev);
    return CUDA_SUCCESS;
}

#define SG_THREAD(var) \
    struct sg_tls *var = NULL; \
    do { \
        CUresult sg_rc_ = sg_thread_get(&(var)); \
        if (sg_rc_ != CUDA_SUCCESS) \
            return sg_rc_; \
    } while (0)
/* Of entries.def: an object that a handle names, with a reference until the end of the scope; returns what the look-up
 * says. That leaves NULL or a reference in var, also where it fails. */
#define SG_OBJECT(type, var, look_up) \
    SG_AUTO type *var = NULL; \
    do { \
        CUresult sg_rc_ = (look_up); \
        if (sg_rc_ != CUDA_SUCCESS) \
            return sg_rc_; \
    } while (0)
#define SG_FIND(object, handle, type, error) (((object) = SG_LOOKUP(handle, type)) ? CUDA_SUCCESS : (error))

struct cua_reserved;
/* A reserved address (api/memory/vmm.c): the reservation, and the mapping in it; map_size 0: none. */
bool sg_vmm_find(uint64_t addr, struct cua_reserved *out);

/* Ends a mapped buffer of external memory (api/memory/external.c); false: there is none at ptr. */
bool sg_external_free(CUdeviceptr ptr, CUresult *r);

/* Adds delta to what the pool behind a handle has in use (api/memory/pool.c). */
void sg_pool_account(uint64_t handle, int64_t delta);

#endif
