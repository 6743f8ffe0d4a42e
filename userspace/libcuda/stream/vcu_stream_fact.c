/* SPDX-License-Identifier: MIT */
/*
 * Flags, priority and id of streams: see stream.h. They are kept with the stream's handle, so that
 * they end with it. Word 0 holds flags and priority, word 1 the id (0: not known). Flags and priority
 * of default streams are kept with their context: word 0 those of the legacy stream, word 1 those of
 * the streams of all threads, which are the same until the priority of one is changed.
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
enum { WORD_LEGACY, WORD_THREADS };

/* Where a fact is kept; without a handle: nowhere. */
struct place {
    uint64_t handle, context; /* context: of the stream */
    enum vgp_handle_type type;
    unsigned word;
};

static struct place settings_place(CUstream stream)
{
    const uint64_t handle = (uintptr_t)stream;
    const struct vcu_context *c;

    if (handle > (uintptr_t)CU_STREAM_PER_THREAD)
        return (struct place){handle, (uintptr_t)vcu_handle_data(handle, VGP_H_STREAM), VGP_H_STREAM,
                              WORD_SETTINGS};
    c = vcu_context_find(NULL);
    if (c == NULL || c->green != 0)
        return (struct place){0};
    return (struct place){c->handle, c->handle, VGP_H_CONTEXT,
                          stream == CU_STREAM_PER_THREAD ? WORD_THREADS : WORD_LEGACY};
}

static uint64_t place_read(const struct place *p)
{
    return p->handle == 0 ? 0 : vcu_handle_fact(p->handle, p->type, p->word);
}

static void place_write(const struct place *p, uint64_t was, uint64_t fact)
{
    if (p->handle != 0)
        vcu_handle_learn(p->handle, p->type, p->word, was, fact);
}

/* The fact; 0 while the worker must be asked: it may have an error to report. */
static uint64_t place_known(const struct place *p)
{
    const uint64_t fact = place_read(p);

    return fact != 0 && vcu_check_usable() == CUDA_SUCCESS && vcu_query_may_answer(p->context) ? fact : 0;
}

static uint64_t with_flags(uint64_t fact, unsigned flags)
{
    return flags > FLAGS_MAX ? fact : fact | FLAGS_KNOWN | (uint64_t)flags << FLAGS_SHIFT;
}

static uint64_t with_priority(uint64_t fact, int priority)
{
    return (fact & LOW) | PRIORITY_KNOWN | (uint64_t)(uint32_t)priority << PRIORITY_SHIFT;
}

bool vcu_stream_flags_known(CUstream stream, unsigned int *flags)
{
    const struct place p = settings_place(stream);
    const uint64_t fact = place_known(&p);

    if (!(fact & FLAGS_KNOWN))
        return false;
    *flags = (unsigned)(fact >> FLAGS_SHIFT) & FLAGS_MAX;
    return true;
}

CUresult vcu_stream_flags_learn(CUstream stream, unsigned int flags)
{
    const struct place p = settings_place(stream);
    const uint64_t fact = place_read(&p);

    if (!(fact & FLAGS_KNOWN))
        place_write(&p, fact, with_flags(fact, flags));
    return CUDA_SUCCESS;
}

uint64_t vcu_stream_settings(CUstream stream)
{
    const struct place p = settings_place(stream);

    return place_read(&p);
}

bool vcu_stream_priority_known(CUstream stream, int *priority)
{
    const struct place p = settings_place(stream);
    const uint64_t fact = place_known(&p);

    if (!(fact & PRIORITY_KNOWN))
        return false;
    *priority = (int)(uint32_t)(fact >> PRIORITY_SHIFT);
    return true;
}

CUresult vcu_stream_priority_learn(CUstream stream, uint64_t before, int priority)
{
    const struct place p = settings_place(stream);

    /* After a change, the streams of threads differ, and cuDevicePrimaryCtxReset() may undo it. */
    if (p.type == VGP_H_STREAM || (before & LOW) >> CHANGE_SHIFT == 0)
        place_write(&p, before, with_priority(before, priority));
    return CUDA_SUCCESS;
}

bool vcu_stream_id_known(CUstream stream, unsigned long long *id)
{
    const uint64_t handle = (uintptr_t)stream;
    const struct place p = {handle, (uintptr_t)vcu_handle_data(handle, VGP_H_STREAM), VGP_H_STREAM, WORD_ID};
    const uint64_t fact = place_known(&p);

    if (fact != 0)
        *id = fact;
    return fact != 0;
}

CUresult vcu_stream_id_learn(CUstream stream, unsigned long long id)
{
    vcu_handle_learn((uintptr_t)stream, VGP_H_STREAM, WORD_ID, 0, id);
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
    const struct place p = settings_place(stream);
    uint64_t was, now;

    while (p.handle != 0 && vgp_handle_live(p.handle, p.type)) {
        was = place_read(&p);
        now = ((was & LOW) + (UINT64_C(1) << CHANGE_SHIFT)) & LOW & ~(uint64_t)PRIORITY_KNOWN;
        if (p.type == VGP_H_CONTEXT && now >> CHANGE_SHIFT != 1)
            now = was; /* changed once, changed for good */
        if (vcu_handle_learn(p.handle, p.type, p.word, was, now))
            break;
    }
    return r;
}
