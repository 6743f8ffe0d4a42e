/* SPDX-License-Identifier: MIT */
/* Queries of events and streams, times between events and waits for events that need no answer of the
 * worker: see wait.h. vcu_answers.c keeps the answers. */
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

bool vcu_event_elapsed_known(float *milliseconds, CUevent start, CUevent end, uint64_t *changes)
{
    float answer = 0;

    if (!event_answers(start) || !event_answers(end) ||
        !vcu_elapsed_look((uintptr_t)start, (uintptr_t)end, &answer, changes))
        return false;
    *milliseconds = answer;
    return true;
}

CUresult vcu_event_elapsed_learn(CUevent start, CUevent end, uint64_t changes, float milliseconds)
{
    vcu_elapsed_learn((uintptr_t)start, (uintptr_t)end, changes, milliseconds);
    return CUDA_SUCCESS;
}

/* ---- waits ---- */

bool vcu_event_covered(CUevent event)
{
    return event_answers(event) && atomic_load_explicit(&vcu_parked_loose, memory_order_relaxed) == 0 &&
           vcu_answer_complete((uintptr_t)event) && vcu_wait_told() && event_answers(event);
}

uint64_t vcu_event_asked(CUevent event)
{
    const struct vcu_wait_latest none = {0};

    return event_answers(event) ? vcu_answer_begin((uintptr_t)event, &none).number : 0;
}

CUresult vcu_event_waited(CUevent event, uint64_t question)
{
    if (question != 0)
        vcu_answer_end((uintptr_t)event, &(struct vcu_question){.number = question}, CUDA_SUCCESS);
    return CUDA_SUCCESS;
}

/* What a wait brings along; `result` is of the time, not of the wait. */
struct brought {
    struct vcu_elapsed_pair pair;
    int32_t result;
    float milliseconds;
};

/* True if the pair's events are live, of this context (0: of any), and answers about them last. */
static bool brought_usable(const struct brought *b, uint64_t context)
{
    const uint64_t of = (uintptr_t)vcu_handle_data(b->pair.end, VGP_H_EVENT);

    return vgp_handle_live(b->pair.start, VGP_H_EVENT) && vgp_handle_live(b->pair.end, VGP_H_EVENT) &&
           event_answers((CUevent)(uintptr_t)b->pair.start) &&
           event_answers((CUevent)(uintptr_t)b->pair.end) && (context == 0 || of == context);
}

static CUresult brought_learn(const struct brought *b, CUresult r)
{
    if (r == CUDA_SUCCESS && b->result == CUDA_SUCCESS)
        vcu_elapsed_learn(b->pair.start, b->pair.end, b->pair.changes, b->milliseconds);
    return r;
}

CUresult vcu_event_wait(CUevent event)
{
    struct brought b = {.result = CUDA_ERROR_UNKNOWN};

    if (vcu.worker_minor < 12 || !event_answers(event) || !vcu_elapsed_expected((uintptr_t)event, &b.pair) ||
        !brought_usable(&b, 0))
        return vgp_call_cuEventSynchronize(event);
    return brought_learn(
        &b, vgp_call_vgpEventElapse(event, (CUevent)(uintptr_t)b.pair.start, &b.result, &b.milliseconds));
}

CUresult vcu_stream_wait_sent(CUstream stream)
{
    struct brought b = {.result = CUDA_ERROR_UNKNOWN};

    if (vcu.worker_minor < 13 || !vcu_elapsed_awaited(&stream, &b.pair) || !brought_usable(&b, 0))
        return vgp_call_cuStreamSynchronize(stream);
    return brought_learn(&b, vgp_call_vgpStreamElapse(stream, (CUevent)(uintptr_t)b.pair.start,
                                                      (CUevent)(uintptr_t)b.pair.end, &b.result,
                                                      &b.milliseconds));
}

CUresult vcu_context_wait_sent(void)
{
    struct brought b = {.result = CUDA_ERROR_UNKNOWN};

    if (vcu.worker_minor < 13 || !vcu_elapsed_awaited(NULL, &b.pair) ||
        !brought_usable(&b, vcu_current_context()))
        return vgp_call_vgpCtxSynchronize(0);
    return brought_learn(&b,
                         vgp_call_vgpCtxElapse((CUevent)(uintptr_t)b.pair.start,
                                               (CUevent)(uintptr_t)b.pair.end, &b.result, &b.milliseconds));
}
