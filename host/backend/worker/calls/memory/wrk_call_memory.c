/* SPDX-License-Identifier: MIT */
/* Handlers of device memory. */
#include "../calls.h"

#include "lib/driver/errors.h"

#include <string.h>

static CUresult finish_free(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    struct wrk_freeing entry;

    /* The entry first: once freed, the dispatcher may be given the same address again. */
    if (!wrk_quota_free_begin(w, wait->arg[0], &entry))
        return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_VALUE;
    CUresult f = wrk_provider.cuMemFree_v2((CUdeviceptr)wait->arg[0]);

    if (wait->blocking && r == CUDA_SUCCESS && f == CUDA_SUCCESS)
        r = f;
    wrk_quota_free_end(w, &entry, f == CUDA_SUCCESS);
    return r != CUDA_SUCCESS ? r : f;
}

CUresult wrk_do_cuMemFree_v2(struct wrk_call *c, const struct vgp_args_cuMemFree_v2 *a)
{
    struct wrk_wait *wait;
    CUcontext of;
    bool other; /* the provider waits for the work of another context, too, or of any */

    if (!wrk_provider.cuMemFree_v2)
        return wrk_missing(c, "cuMemFree");
    other = wrk_quota_context(c->w, a->dptr, &of) && of != wrk_base_context(c->w->current);
    if (other)
        wrk_call_uses(c, of);
    wait = wrk_wait_new(c);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    /* Freeing waits for the device: do that first, without blocking, then free. */
    wait->finish = finish_free;
    wait->arg[0] = a->dptr;
    CUresult r = wrk_wait_add_context(c, wait);
    wait->blocking |= other;
    if (r != CUDA_SUCCESS && cua_error_is_sticky(r))
        return wrk_wait_fail(c, wait, r);
    return wrk_wait_start(c, wait);
}
