/* SPDX-License-Identifier: MIT */
/*
 * Flags, priority and id of streams: see stream.h. They are kept with the stream's handle, so that
 * they end with it. Word 0 holds flags and priority, word 1 the id (0: not known).
 */
#include "stream.h"

#include "vgp_guest.h"

#define FLAGS_KNOWN 0x1u
#define PRIORITY_KNOWN 0x2u
#define FLAGS_SHIFT 2   /* flags: 14 bits */
#define CHANGE_SHIFT 16 /* number of changes of the priority: 16 bits */
#define PRIORITY_SHIFT 32
#define FLAGS_MAX 0x3fffu
#define LOW UINT64_C(0xffffffff)

enum { WORD_SETTINGS, WORD_ID };

/* The stream's word; 0 while the worker must be asked: it may have an error to report. */
static uint64_t stream_known(CUstream stream, unsigned word)
{
    const uint64_t handle = (uintptr_t)stream, fact = vcu_handle_fact(handle, VGP_H_STREAM, word);

    if (fact == 0 || vcu_check_usable() != CUDA_SUCCESS ||
        !vcu_query_may_answer((uintptr_t)vcu_handle_data(handle, VGP_H_STREAM)))
        return 0;
    return fact;
}

static uint64_t with_flags(uint64_t fact, unsigned flags)
{
    return flags > FLAGS_MAX ? fact : fact | FLAGS_KNOWN | (uint64_t)flags << FLAGS_SHIFT;
}

static uint64_t with_priority(uint64_t fact, int priority)
{
    return (fact & LOW) | PRIORITY_KNOWN | (uint64_t)(uint32_t)priority << PRIORITY_SHIFT;
}

CUresult vcu_stream_flags(CUstream stream, unsigned int *flags)
{
    uint64_t fact = stream_known(stream, WORD_SETTINGS);
    unsigned answer = 0;
    CUresult r;

    if (fact & FLAGS_KNOWN) {
        *flags = (unsigned)(fact >> FLAGS_SHIFT) & FLAGS_MAX;
        return CUDA_SUCCESS;
    }
    fact = vcu_handle_fact((uintptr_t)stream, VGP_H_STREAM, WORD_SETTINGS);
    r = vgp_call_cuStreamGetFlags(stream, &answer);
    if (r != CUDA_SUCCESS)
        return r;
    if (!(fact & FLAGS_KNOWN))
        vcu_handle_learn((uintptr_t)stream, VGP_H_STREAM, WORD_SETTINGS, fact, with_flags(fact, answer));
    *flags = answer;
    return CUDA_SUCCESS;
}

CUresult vcu_stream_priority(CUstream stream, int *priority)
{
    uint64_t fact = stream_known(stream, WORD_SETTINGS);
    int answer = 0;
    CUresult r;

    if (fact & PRIORITY_KNOWN) {
        *priority = (int)(uint32_t)(fact >> PRIORITY_SHIFT);
        return CUDA_SUCCESS;
    }
    /* Read before the call: an answer older than a change is not kept. */
    fact = vcu_handle_fact((uintptr_t)stream, VGP_H_STREAM, WORD_SETTINGS);
    r = vgp_call_cuStreamGetPriority(stream, &answer);
    if (r != CUDA_SUCCESS)
        return r;
    vcu_handle_learn((uintptr_t)stream, VGP_H_STREAM, WORD_SETTINGS, fact, with_priority(fact, answer));
    *priority = answer;
    return CUDA_SUCCESS;
}

CUresult vcu_stream_id(CUstream stream, unsigned long long *id)
{
    const uint64_t fact = stream_known(stream, WORD_ID);
    unsigned long long answer = 0;
    CUresult r;

    if (fact != 0) {
        *id = fact;
        return CUDA_SUCCESS;
    }
    r = vgp_call_cuStreamGetId(stream, &answer);
    if (r != CUDA_SUCCESS)
        return r;
    vcu_handle_learn((uintptr_t)stream, VGP_H_STREAM, WORD_ID, 0, answer);
    *id = answer;
    return CUDA_SUCCESS;
}

CUresult vcu_stream_created(CUstream stream, unsigned flags, int priority)
{
    const struct vcu_context *c = vcu_context_find(NULL);
    uint64_t fact;

    if (c == NULL || c->green != 0)
        return CUDA_SUCCESS;
    fact = with_flags(0, flags);
    /* The driver clamps every other priority to its range. */
    vcu_handle_learn((uintptr_t)stream, VGP_H_STREAM, WORD_SETTINGS, 0,
                     priority == 0 ? with_priority(fact, 0) : fact);
    return CUDA_SUCCESS;
}

CUresult vcu_stream_changed(CUstream stream, CUresult r)
{
    uint64_t was, now;

    do {
        was = vcu_handle_fact((uintptr_t)stream, VGP_H_STREAM, WORD_SETTINGS);
        now = ((was & LOW) + (UINT64_C(1) << CHANGE_SHIFT)) & LOW & ~(uint64_t)PRIORITY_KNOWN;
    } while (!vcu_handle_learn((uintptr_t)stream, VGP_H_STREAM, WORD_SETTINGS, was, now) &&
             vgp_handle_live((uintptr_t)stream, VGP_H_STREAM));
    return r;
}
