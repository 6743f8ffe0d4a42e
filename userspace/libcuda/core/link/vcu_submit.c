/* SPDX-License-Identifier: MIT */
/* Implements the functions called by the generated encoders: records and replies on the process's
 * ring. */
#include "../core.h"

#include <stdlib.h>
#include <string.h>

#include "vgp_calls.h"
#include "../../../../protocol/vgp_facts.h"

/* The library's part of struct vgp_submit. */
struct submit {
    struct lnk_call call;
    struct vcu_wait_token wait;
    uint16_t number;
    bool answered; /* asynchronous, and yet with a reply: see vgp_submit_begin */
};
_Static_assert(sizeof(struct submit) <= sizeof(((struct vgp_submit *)0)->priv), "priv is too small");

static struct submit *submit_state(struct vgp_submit *s)
{
    return (struct submit *)s->priv;
}

/* Replies are copied out of shared memory before they are decoded. Freed with the thread. */
static __thread uint8_t payload_small[512] __attribute__((aligned(16)));

static bool needs_answer(uint16_t call)
{
    return __builtin_expect(atomic_load_explicit(&vcu_captures, memory_order_relaxed) != 0, 0) &&
           call != VGP_vgpCopy /* declares its own reply */ && !(vgp_facts(call) & VGP_FACT_CANNOT_FAIL);
}

/* A number that the worker does not know would end the client. */
static CUresult too_new(uint16_t call)
{
    unsigned since = vgp_call_since(call);

    if (since <= vcu.worker_minor)
        return CUDA_SUCCESS;
    return VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, "libcuda",
                      "%s came with protocol %d.%u, the worker speaks %d.%u: update the host",
                      vgp_call_name(call), VGP_VERSION_MAJOR, since, VGP_VERSION_MAJOR, vcu.worker_minor);
}

/* The place of a stream: by the index of its handle; default streams by context, per-thread streams
 * by thread. Two streams with the same place cause unneeded throttling, never too little. */
static uint32_t place_of(uint64_t stream)
{
    if (stream == (uintptr_t)CU_STREAM_PER_THREAD)
        return VCU_ROOM_STREAMS + VCU_ROOM_CONTEXTS + vcu_thread()->number % VCU_ROOM_THREADS;
    if (stream <= (uintptr_t)CU_STREAM_LEGACY)
        return VCU_ROOM_STREAMS + VGP_HANDLE_INDEX(vcu_thread_context(vcu_thread())) % VCU_ROOM_CONTEXTS;
    return VGP_HANDLE_INDEX(stream) % VCU_ROOM_STREAMS;
}

void vcu_stream_weigh(uint64_t stream, uint32_t weight)
{
    uint32_t at = place_of(stream), context = VGP_HANDLE_INDEX(vcu_thread_context(vcu_thread()));

    if (__builtin_expect(!vcu_room_add(at, stream, context, weight), 1) || vcu.worker_minor < 2 ||
        atomic_load_explicit(&vcu_captures, memory_order_relaxed) != 0)
        return;
    /* The thread that sends parked frees has their lock: the next work in this stream waits. */
    if (vcu_thread()->unparking)
        return;
    vcu_ahead->make_room(stream, at, context);
}

void vgp_stream_count(struct vgp_submit *s, uint64_t stream)
{
    s->intent.streamed = true;
    s->intent.stream = stream;
    vcu_stream_weigh(stream, 1);
}

/* Sends the parked frees before this call. */
static bool tells_of_parked(uint16_t call)
{
    if (vgp_tells_completion(call))
        return atomic_load_explicit(&vcu_parked_loose, memory_order_relaxed) != 0;
    switch (vgp_effect(call)) {
    case VGP_EFFECT_ORDERS:
        return false;
    case VGP_EFFECT_RUNS: /* a graph may allocate as it runs */
        return vgp_facts(call) & VGP_FACT_RUNS_GRAPH;
    case VGP_EFFECT_SIGNALS: /* may block for ever, and a free behind it as well */
    case VGP_EFFECT_CALLS:
        return true;
    default: /* the library's own call, which queries the room in a stream */
        return call != VGP_vgpStreamThrottle;
    }
}

CUresult vgp_submit_begin(struct vgp_submit *s, uint16_t call, uint32_t bytes, bool want_reply)
{
    struct vcu_thread *t = vcu_thread();
    struct submit *p = submit_state(s);
    uint64_t context;
    CUresult res;

    if (vcu_units_watch() && vgp_touches_memory(call))
        vcu_units_before_work();
    /* During a capture an error belongs to the call that caused it: every call then has a reply,
     * except those that only the provider could refuse. */
    p->answered = !want_reply && !s->intent.posted && needs_answer(call);
    want_reply |= p->answered;

    p->call.phase = LNK_CALL_NONE;
    p->number = call;
    /* During cuInit the state is still NEW, but the ring exists. */
    if (__builtin_expect(vcu.state != VCU_READY, 0) && !(vcu.state == VCU_NEW && vcu.connected))
        return vcu_check_init();
    if (__builtin_expect(t->in_callback, 0))
        return CUDA_ERROR_NOT_PERMITTED;
    if (__builtin_expect(vcu.worker_minor < VGP_VERSION_MINOR, 0)) {
        res = too_new(call);
        if (res != CUDA_SUCCESS)
            return res;
    }
    if (__builtin_expect(atomic_load_explicit(&vcu_parked, memory_order_relaxed) != 0, 0) &&
        tells_of_parked(call) && !t->unparking && !t->settling)
        vcu_ahead->send_parked();
    if (__builtin_expect(atomic_load(&vcu_wait_owed) || vgp_facts(call) & VGP_FACT_ENDS_CONTEXT, 0))
        vcu_wait_before(call, &s->intent);
    context = vcu_thread_context(t);
    res = lnk_ring_begin(&vcu.ring, &p->call, call, bytes, want_reply ? LNK_REPLY_WAIT : LNK_REPLY_NONE,
                         context, t->number);
    p->wait = (struct vcu_wait_token){0};
    if (res == CUDA_SUCCESS)
        p->wait = vcu_wait_note(call, &s->intent, context);
    s->args = p->call.args;
    return res;
}

/* Publishes the record. Its effect on queries is noted after publication: earlier query results may
 * predate it. */
static void publish_records(struct vgp_submit *s)
{
    struct submit *p = submit_state(s);
    uint64_t noted = vcu_query_noted(p->number, p->call.args);

    lnk_ring_publish(&p->call);
    if (__builtin_expect(noted != 0, 0))
        vcu_query_sent(noted, &p->wait);
}

CUresult vgp_submit_async(struct vgp_submit *s)
{
    const void *payload;
    uint32_t size;
    CUresult res;

    publish_records(s);
    if (!submit_state(s)->answered)
        return CUDA_SUCCESS;
    res = vgp_submit_collect(s, &payload, &size);
    vgp_submit_end(s);
    return res;
}

CUresult vgp_submit_publish(struct vgp_submit *s)
{
    publish_records(s);
    return CUDA_SUCCESS;
}

/* The error of the thread's context: what libcuda itself does in a stream, for example a wait for an external
 * semaphore, may have failed while the worker waited for that stream. */
static CUresult context_error(void)
{
    const struct vcu_context *c = vcu_handle_data(vcu_thread_context(vcu_thread()), VGP_H_CONTEXT);

    return c == NULL ? CUDA_SUCCESS : (CUresult)atomic_load(&c->base->sticky);
}

/* Remembers an error that the context will not recover from, so that launches report it at once. */
static void note_sticky(CUresult r)
{
    struct vcu_context *c;

    if (!cua_error_is_sticky(r))
        return;
    c = vcu_handle_data(vcu_thread_context(vcu_thread()), VGP_H_CONTEXT);
    if (c != NULL)
        atomic_store(&c->base->sticky, (int)r);
}

CUresult vgp_submit_collect(struct vgp_submit *s, const void **payload, uint32_t *size)
{
    struct submit *p = submit_state(s);
    const void *shared;
    uint8_t *copy = payload_small;
    CUresult res;
    uint32_t n;

    res = lnk_ring_collect(&p->call, &shared, &n);
    if (res != CUDA_ERROR_NOT_READY)
        vcu_query_evidence();
    if (vgp_effect(p->number) ==
        VGP_EFFECT_WAITS) /* before the payload is copied: this receives other replies */
        vcu_units_wait_answered();
    if (n > sizeof(payload_small)) {
        struct vcu_thread *t = vcu_thread();

        if (t->payload == NULL)
            t->payload = malloc(vcu.ring.slot_size);
        copy = t->payload;
        if (copy == NULL) {
            n = 0;
            res = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    if (n != 0)
        memcpy(copy, shared, n);
    *payload = copy;
    *size = n;
    if (vgp_effect(p->number) == VGP_EFFECT_WAITS) {
        CUresult earlier = lnk_ring_take_async_error(&vcu.ring);

        /* The cause, if the awaited work failed because of it. */
        if (earlier != CUDA_SUCCESS && !cua_error_is_sticky(res))
            res = earlier;
    }
    if (res == CUDA_SUCCESS && (p->wait.is_wait || vgp_tells_completion(p->number)))
        res = context_error();
    if (res == CUDA_SUCCESS && vgp_facts(p->number) & VGP_FACT_WAITS_ALL)
        vcu_room_context_idle(VGP_HANDLE_INDEX(vcu_thread_context(vcu_thread())));
    if (p->wait.is_wait && res == CUDA_SUCCESS)
        vcu_wait_done(&p->wait);
    if (vcu_units_watch() && res == CUDA_SUCCESS && vgp_tells_completion(p->number))
        vcu_units_after_wait(vgp_facts(p->number) & VGP_FACT_WAITS_ALL);
    if (__builtin_expect(res != CUDA_SUCCESS, 0)) {
        note_sticky(res);
        if (res != CUDA_ERROR_NOT_READY)
            vcu_capture_doubt();
    }
    return res;
}

void vgp_submit_end(struct vgp_submit *s)
{
    lnk_ring_end(&submit_state(s)->call);
}

bool vcu_submit_ready(struct vgp_submit *s)
{
    return lnk_ring_ready(&submit_state(s)->call);
}

/* ---- fills of memory ---- */

uint64_t vcu_fill_extent(uint64_t dst, uint64_t pitch, uint64_t width, uint64_t height, uint32_t element)
{
    uint64_t rows = 0, row;

    if (width == 0 || height == 0 || dst % element != 0 || pitch % element != 0 ||
        __builtin_mul_overflow(width, element, &row) ||
        (height > 1 && (pitch < row || __builtin_mul_overflow(height - 1, pitch, &rows))) ||
        __builtin_add_overflow(rows, row, &rows))
        return 0;
    return rows;
}

/*
 * Fills of device memory (cuMemset*) need no reply: CUDA lets them be asynchronous unless the
 * memory is the host's or managed ("API synchronization behavior", Memset), and the guest can check
 * everything that a driver checks at the call: the context, the stream and the range.
 */
bool vgp_submit_silent(struct vgp_submit *s, uint32_t since, uint64_t dst, uint64_t pitch, uint64_t width,
                       uint64_t height, uint32_t element, bool streamed, uint64_t stream)
{
    uint64_t bytes = vcu_fill_extent(dst, pitch, width, height, element);

    if (vcu.worker_minor < since || bytes == 0 || !vcu_units_memory_private(dst, bytes))
        return false;
    /* During a capture an error belongs to the call. */
    if (atomic_load_explicit(&vcu_captures, memory_order_relaxed) != 0) {
        s->intent.posted = streamed && vcu_capture_post((CUstream)(uintptr_t)stream);
        if (!s->intent.posted)
            return false;
    }
    s->intent.observed = bytes <= VCU_OWE_MAX ? VGP_OBSERVED_QUIET : VGP_OBSERVED_ANY;
    if (!streamed) /* work without a wait of the caller fills its stream */
        vgp_stream_count(s, (uintptr_t)CU_STREAM_LEGACY);
    return true;
}

CUresult vgp_blob_send(const void *data, uint64_t size, uint32_t *blob_id)
{
    return vcu_ahead->send_blob(data, size, blob_id);
}
