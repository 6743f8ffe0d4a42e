/* SPDX-License-Identifier: MIT */
/* cuLaunchHostFunc and cuStreamAddCallback. */
#include "stream.h"

#include "vgp_entry.h"
#include "vgp_guest.h"

/* An error is the call's, unless the worker has requested the run before its end. */
static CUresult host_launch_answered(uint64_t cookie, CUresult res)
{
    if (res != CUDA_SUCCESS)
        return vcu_hostfunc_cancel(cookie) ? res : CUDA_SUCCESS;
    vcu_hostfunc_sent(cookie);
    return CUDA_SUCCESS;
}

/* Into the graph that the stream is being captured into. */
static CUresult host_launch_capture(CUstream stream, CUhostFn fn, void *user)
{
    CUresult res;
    uint64_t cookie = vcu_hostfunc_keep(fn, user, NULL, &res);

    if (cookie == 0)
        return res;
    if (vcu_capture_post(stream)) /* where it fails, the worker releases it */
        res = vgp_call_vgpCapturedHostFunc((struct vgp_intent){.posted = true}, stream, cookie);
    else
        res = vgp_call_vgpCaptureHostFunc(stream, cookie);
    vcu_hostfunc_kept(cookie, res);
    return res;
}

CUresult vcu_cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
    CUresult res = vcu_check_context();
    uint64_t cookie;

    if (res != CUDA_SUCCESS)
        return res;
    hStream = vcu_stream(hStream);
    if (!vcu_stream_ok(hStream))
        return vcu_stream_error(hStream);
    if (fn == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (vcu_stream_captured(hStream))
        return host_launch_capture(hStream, fn, userData);
    cookie = vcu_hostfunc_once(fn, NULL, hStream, userData, &res);
    return cookie == 0 ? res : host_launch_answered(cookie, vgp_call_vgpLaunchHostFunc(hStream, cookie));
}

CUresult vcu_cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData,
                                 unsigned int flags)
{
    CUresult res = vcu_check_context();
    uint64_t cookie;

    if (res != CUDA_SUCCESS)
        return res;
    hStream = vcu_stream(hStream);
    if (!vcu_stream_ok(hStream))
        return vcu_stream_error(hStream);
    if (callback == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (vcu_stream_captured(hStream))
        return vcu_capture_spoil("cuStreamAddCallback", hStream);
    cookie = vcu_hostfunc_once(NULL, callback, hStream, userData, &res);
    if (cookie == 0)
        return res;
    /* A worker before 1.10 runs a callback as a host function: not where the stream has failed. */
    res = vcu.worker_minor >= 10 ? vgp_call_vgpAddCallback(hStream, cookie)
                                 : vgp_call_vgpLaunchHostFunc(hStream, cookie);
    return host_launch_answered(cookie, res);
}
