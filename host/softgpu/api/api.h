/* SPDX-License-Identifier: MIT */
/* Functions shared by the files of entry points. */
#ifndef SG_API_H
#define SG_API_H

#include "graph/graph.h"

#include "softgpu/newer.h"
#include "softgpu/entries.h"

/* The calling thread's context stack; CUDA_ERROR_NOT_PERMITTED inside a callback
   (api/device/sgd_context.c). */
CUresult sg_thread_get(struct sg_tls **out);
/* The context of a handle, with a reference, even if the context has failed. NULL and a handle
   of all ones name the current context. */
CUresult sg_ctx_named(CUcontext h, struct sg_ctx **out);
/* A context whose work may be waited for. Otherwise CUDA_ERROR_INVALID_CONTEXT, the context's
   error, or the error of a capture that forbids waiting. */
CUresult sg_ctx_waitable(CUcontext h, struct sg_ctx **out);
struct sg_green;
/* A green context; a reference is returned with CUDA_ERROR_CONTEXT_IS_DESTROYED, too
   (api/device/sgd_green.c). */
CUresult sg_green_get(CUgreenCtx h, struct sg_green **out);

/* A texture or surface object that is not being destroyed (api/code/sgd_texture_object.c). */
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
/* For entries.def: the object that a handle names, with a reference held until the end of the
   scope. Evaluates to the result of the look-up, which leaves NULL or a reference in var even on
   failure. */
#define SG_OBJECT(type, var, look_up) \
    SG_AUTO type *var = NULL; \
    do { \
        CUresult sg_rc_ = (look_up); \
        if (sg_rc_ != CUDA_SUCCESS) \
            return sg_rc_; \
    } while (0)
#define SG_FIND(object, handle, type, error) (((object) = SG_LOOKUP(handle, type)) ? CUDA_SUCCESS : (error))

struct cua_reserved;
/* Finds the reservation around a reserved address and the mapping in it (api/memory/sgd_vmm.c);
   map_size 0: no mapping. */
bool sg_vmm_find(uint64_t addr, struct cua_reserved *out);

/* Ends the mapped buffer of external memory at ptr (api/memory/sgd_external.c). Returns false if
   there is none. */
bool sg_external_free(CUdeviceptr ptr, CUresult *r);

/* Adds delta to the memory in use of the pool behind a handle (api/memory/sgd_pool.c). */
void sg_pool_account(uint64_t handle, int64_t delta);

#endif
