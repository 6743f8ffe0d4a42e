/* SPDX-License-Identifier: MIT */
/* Questions to the provider whether work is complete, and what its answers mean. */
#include "completion.h"

#include "vgp_provider.h"

struct wrk_answer wrk_answer_of(CUresult result)
{
    struct wrk_answer a = {.state = WRK_UNKNOWN, .result = result};

    if (result == CUDA_SUCCESS)
        a.state = WRK_COMPLETE;
    else if (result == CUDA_ERROR_NOT_READY)
        a.state = WRK_RUNNING;
    return a;
}

struct wrk_answer wrk_ask_event(const struct vgp_provider *from, CUevent event)
{
    return wrk_answer_of(from->cuEventQuery ? from->cuEventQuery(event) : CUDA_ERROR_NOT_SUPPORTED);
}

struct wrk_answer wrk_ask_stream(const struct vgp_provider *from, CUstream stream)
{
    return wrk_answer_of(from->cuStreamQuery ? from->cuStreamQuery(stream) : CUDA_ERROR_NOT_SUPPORTED);
}

struct wrk_answer wrk_await_event(const struct vgp_provider *from, CUevent event)
{
    return wrk_answer_of(from->cuEventSynchronize ? from->cuEventSynchronize(event)
                                                  : CUDA_ERROR_NOT_SUPPORTED);
}

struct wrk_answer wrk_await_stream(const struct vgp_provider *from, CUstream stream)
{
    return wrk_answer_of(from->cuStreamSynchronize ? from->cuStreamSynchronize(stream)
                                                   : CUDA_ERROR_NOT_SUPPORTED);
}

struct wrk_answer wrk_await_context(const struct vgp_provider *from)
{
    return wrk_answer_of(from->cuCtxSynchronize ? from->cuCtxSynchronize() : CUDA_ERROR_NOT_SUPPORTED);
}
