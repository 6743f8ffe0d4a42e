/* SPDX-License-Identifier: MIT */
/* cuLaunchHostFunc and cuStreamAddCallback: a host function that runs once, behind what its stream has. */
#include "graph.h"
#include "node.h"

#include "vgp_worker.h"

/* One run behind what the stream has. callback: also where the stream fails. */
static CUresult launch_once(struct wrk_call *c, uint64_t stream_handle, uint64_t cookie, bool callback)
{
    struct wrk_host_func *f;
    CUstream stream;
    CUresult r = wrk_handle_get(c, stream_handle, VGP_H_STREAM, true, (void **)&stream);

    if (r != CUDA_SUCCESS)
        return r;
    if (callback ? !wrk_provider.cuStreamAddCallback : !wrk_provider.cuLaunchHostFunc)
        return wrk_missing(c, callback ? "cuStreamAddCallback" : "cuLaunchHostFunc");
    if (wrk_stream_captured(stream))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; /* it would run more than once */
    f = wrk_host_func_new(c->w, cookie, true);
    if (!f)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = callback ? wrk_provider.cuStreamAddCallback(stream, wrk_host_func_call_back, f, 0)
                 : wrk_provider.cuLaunchHostFunc(stream, wrk_host_func_run, f);
    if (r != CUDA_SUCCESS)
        wrk_host_func_put(f);
    return r;
}

/* The guest's call has returned already: a refused function is released, or its program would wait for it. */
static CUresult launched(struct wrk_call *c, uint64_t cookie, CUresult r)
{
    if (r != CUDA_SUCCESS)
        wrk_host_func_refused(c, cookie);
    return r;
}

CUresult wrk_do_vgpLaunchHostFunc(struct wrk_call *c, const struct vgp_args_vgpLaunchHostFunc *a)
{
    return launched(c, a->cookie, launch_once(c, a->stream, a->cookie, false));
}

CUresult wrk_do_vgpAddCallback(struct wrk_call *c, const struct vgp_args_vgpAddCallback *a)
{
    return launched(c, a->cookie, launch_once(c, a->stream, a->cookie, true));
}
