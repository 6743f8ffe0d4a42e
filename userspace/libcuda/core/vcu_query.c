/* SPDX-License-Identifier: MIT */
/* Queries of events and streams, and times between events, that need no answer of the worker: see
 * wait.h. vcu_answers.c keeps the answers. */
#include "link/answers.h"

#include "vgp_guest.h"

static CUresult query_ask(uint64_t handle, const struct vcu_wait_latest *latest)
{
    const struct vcu_question q = vcu_answer_begin(handle, latest);
    CUresult r;

    if (VGP_HANDLE_TYPE(handle) == VGP_H_EVENT)
        r = vgp_call_vgpEventWatch((CUevent)(uintptr_t)handle, q.word, q.sequence);
    else
        r = vgp_call_vgpStreamWatch((CUstream)(uintptr_t)handle, q.word, q.sequence);
    vcu_answer_end(handle, &q, r);
    return r;
}

/* The context may have failed since vcu_query_may_answer(), before the worker was done: the worker's reply then has the error. */
static bool still_unknown(CUresult r, uint64_t context)
{
    return r == CUDA_ERROR_UNKNOWN || (r == CUDA_SUCCESS && !vcu_query_may_answer(context));
}

CUresult vcu_event_query(CUevent event)
{
    const struct vcu_wait_latest none = {0};
    uint64_t handle = (uintptr_t)event;
    CUresult r;

    /* The data of an event of other processes is no context. */
    if (atomic_load_explicit(&vcu_answers_graphs_record, memory_order_relaxed) ||
        !vcu_query_may_answer((uintptr_t)vcu_handle_data(handle, VGP_H_EVENT)))
        return vgp_call_cuEventQuery(event);
    r = vcu_answer_look(handle, &none);
    return still_unknown(r, (uintptr_t)vcu_handle_data(handle, VGP_H_EVENT)) ? query_ask(handle, &none) : r;
}

CUresult vcu_stream_query_sent(CUstream stream)
{
    uint64_t handle = (uintptr_t)stream;
    struct vcu_wait_latest latest;
    CUresult r;

    if (VGP_HANDLE_TYPE(handle) != VGP_H_STREAM || vcu_current_context() == 0 ||
        vcu_check_context() != CUDA_SUCCESS ||
        !vcu_query_may_answer((uintptr_t)vcu_handle_data(handle, VGP_H_STREAM)))
        return vgp_call_cuStreamQuery(stream);
    latest = vcu_wait_latest(stream);
    r = vcu_answer_look(handle, &latest);
    return still_unknown(r, (uintptr_t)vcu_handle_data(handle, VGP_H_STREAM)) ? query_ask(handle, &latest)
                                                                              : r;
}

/* True if answers about the event are known to last: none to learn from the worker, no recording unseen. */
static bool event_answers(CUevent event)
{
    return vcu_query_may_answer((uintptr_t)vcu_handle_data((uintptr_t)event, VGP_H_EVENT)) &&
           !atomic_load_explicit(&vcu_answers_graphs_record, memory_order_relaxed);
}

CUresult vcu_event_elapsed(float *milliseconds, CUevent start, CUevent end)
{
    uint64_t changes;
    float answer = 0;
    CUresult r;

    if (!event_answers(start) || !event_answers(end))
        return vgp_call_cuEventElapsedTime_v2(milliseconds, start, end);
    if (!vcu_elapsed_look((uintptr_t)start, (uintptr_t)end, &answer, &changes)) {
        r = vgp_call_cuEventElapsedTime_v2(&answer, start, end);
        if (r != CUDA_SUCCESS)
            return r;
        vcu_elapsed_learn((uintptr_t)start, (uintptr_t)end, changes, answer);
    }
    *milliseconds = answer;
    return CUDA_SUCCESS;
}

CUresult vcu_event_wait(CUevent event)
{
    uint64_t changes, start = 0;
    float milliseconds = 0;
    int32_t result = CUDA_ERROR_UNKNOWN;
    CUresult r;

    if (vcu.worker_minor >= 12 && event_answers(event))
        start = vcu_elapsed_expected((uintptr_t)event, &changes);
    if (start == 0 || !vgp_handle_live(start, VGP_H_EVENT))
        return vgp_call_cuEventSynchronize(event);
    r = vgp_call_vgpEventElapse(event, (CUevent)(uintptr_t)start, &result, &milliseconds);
    if (r == CUDA_SUCCESS && result == CUDA_SUCCESS)
        vcu_elapsed_learn(start, (uintptr_t)event, changes, milliseconds);
    return r;
}
