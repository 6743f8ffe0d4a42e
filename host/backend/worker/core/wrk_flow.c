/* SPDX-License-Identifier: MIT */
/*
 * Work in flight. Calls that put work into streams are counted; at intervals an event (a mark) is
 * recorded behind them, and the work before a mark is complete when its event is. This provides
 * three functions: a bound on calls in flight (--client-queue); an end for a client whose work
 * never ends (--client-time-limit); and turns (--pacing ring), in which a worker takes work off the
 * ring while the broker permits, a bounded amount at a time.
 *
 * The cost of work is measured from the completion of the work before it to its own, so a client
 * cannot misreport it. Estimates, learnt per function and size, only bound the work in flight.
 */
#include "core.h"
#include "vgb_fd.h"
#include "vgpu_device.h"

#include <stdlib.h>
#include <string.h>

#include "vgp_facts.h"
#include "vgp_worker.h"

/* number of marks at which completed ones are collected; doubles with what remains */
#define REAP_MARKS 64u
#define SLOTS 256u           /* streams with work after their last mark */
#define EVENTS 64u           /* events kept for reuse by later marks */
#define CALLS_PER_MARK 1024u /* calls between marks where only the bound on calls needs marks */
#define CALLS_PER_TURN 64u   /* maximum calls in flight in a turn */
#define CALLS_ALONE 2048u    /* ... without other clients */
#define ALONE_NS 10000000u   /* bounds from this value on mean that there are no other clients */
#define MARK_NS 250000u      /* estimated work between marks in turns, ns */
#define UNKNOWN_NS 1000000u  /* assumed duration of unmarked work without an estimate, ns */
#define LOOK_MIN_NS 50000u
#define LOOK_MAX_NS 2000000u
#define LOOK_LIMIT_NS 250000000u

struct slot {
    CUstream stream;
    CUcontext ctx;
    uint64_t begun_ns, cost_ns;
    uint32_t key;
    unsigned calls; /* 0: free */
};

static struct {
    struct wrk_flow_mark marks[WRK_MARKS];
    struct slot slots[SLOTS];
    struct {
        CUcontext ctx;
        CUevent event;
    } events[EVENTS];
    unsigned nmarks, nslots, nevents, reap_at;
    uint64_t calls;               /* upper bound of calls in flight */
    uint64_t cost_ns;             /* their estimated cost */
    uint64_t unknown, unknown_ns; /* calls and cost of marks whose completion is unknown */
    uint64_t captured;            /* ... calls of those whose stream captures, at the last look */
    uint64_t done_ns;             /* completion of the latest mark */
    uint64_t progress_ns, looked_ns, stopped_ns; /* state of the time limit */
    bool held;                                   /* a call is held back */
    bool turns, open, answer;                    /* answer: the broker expects one */
    bool said_any;
    uint32_t said, number;
    uint64_t bound_ns;
    unsigned window; /* calls in flight in a bounded turn */
} flow = {.window = 2};

/* ---- marks ---- */

static CUstreamCaptureMode relax_capture(CUstreamCaptureMode mode)
{
    if (wrk_captures && wrk_provider.cuThreadExchangeStreamCaptureMode)
        wrk_provider.cuThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

static bool stream_captures(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    return wrk_captures && wrk_provider.cuStreamIsCapturing &&
           (wrk_provider.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
            status != CU_STREAM_CAPTURE_STATUS_NONE);
}

static CUevent take_event(CUcontext ctx)
{
    CUevent e = NULL;

    for (unsigned i = 0; i < flow.nevents; i++) {
        if (flow.events[i].ctx != ctx)
            continue;
        e = flow.events[i].event;
        flow.events[i] = flow.events[--flow.nevents];
        return e;
    }
    return wrk_provider.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS ? e : NULL;
}

static void give_event(const struct wrk_flow_mark *m)
{
    if (!m->event)
        return;
    if (m->of_green || flow.nevents == EVENTS) {
        wrk_provider.cuEventDestroy_v2(m->event);
        return;
    }
    flow.events[flow.nevents].ctx = m->ctx;
    flow.events[flow.nevents++].event = m->event;
}

/* Records a mark behind the stream's work and frees its slot. Without room the slot stays. */
static void mark_slot(struct wrk_worker *w, struct slot *s)
{
    struct wrk_flow_mark *m = &flow.marks[flow.nmarks];
    CUcontext was = w->current;
    CUstreamCaptureMode mode;

    if (flow.nmarks == WRK_MARKS)
        return;
    *m = (struct wrk_flow_mark){.ctx = s->ctx,
                                .begun_ns = s->begun_ns,
                                .cost_ns = s->cost_ns,
                                .until_ns = vgb_now_ns() + (s->cost_ns ? s->cost_ns : UNKNOWN_NS),
                                .key = s->key,
                                .calls = s->calls};
    mode = relax_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
    m->stream = s->stream;
    m->asked = wrk_set_context(w, s->ctx) == CUDA_SUCCESS && !stream_captures(s->stream);
    if (m->asked)
        m->event = take_event(s->ctx);
    if (m->event && wrk_provider.cuEventRecord(m->event, s->stream) != CUDA_SUCCESS) {
        wrk_provider.cuEventDestroy_v2(m->event);
        m->event = NULL;
    }
    relax_capture(mode);
    wrk_set_context(w, was == (CUcontext)-1 ? NULL : was);
    flow.nmarks++;
    flow.nslots--;
    s->calls = 0;
}

static void mark_all(struct wrk_worker *w)
{
    for (unsigned i = 0; i < SLOTS && flow.nslots; i++) {
        if (flow.slots[i].calls)
            mark_slot(w, &flow.slots[i]);
    }
}

static void forget_mark(const struct wrk_flow_mark *m)
{
    flow.calls -= m->calls;
    flow.cost_ns -= m->cost_ns;
    free(m->rest);
}

/* Completes a mark: charges the duration of its work not overlapping earlier work. */
static void flow_complete(const struct wrk_flow_mark *m, uint64_t now)
{
    uint64_t from = m->begun_ns > flow.done_ns ? m->begun_ns : flow.done_ns;
    uint64_t took = now > from ? now - from : 0;

    if (m->key && m->event)
        wrk_flow_learn(m->key, m->calls, took);
    /* A client whose work takes far longer than estimated restarts with little in flight. */
    if (m->cost_ns && took > 4 * m->cost_ns + 1000000u)
        flow.window = 2;
    else if (flow.window < CALLS_PER_TURN)
        flow.window++;
    flow.done_ns = flow.progress_ns = now;
    forget_mark(m);
}

/* If a client's events cannot be created because it has used up memory, its work is not assumed to
 * be short. */
static enum wrk_state state_of(struct wrk_worker *w, struct wrk_flow_mark *m, uint64_t now)
{
    CUcontext was = w->current;
    enum wrk_state is = WRK_UNKNOWN;

    if (m->merged)
        return WRK_UNKNOWN;
    if (m->ending)
        return WRK_RUNNING;
    if (m->event)
        return wrk_ask_event(&wrk_provider, m->event).state;
    if (!m->asked)
        return now < m->until_ns ? WRK_RUNNING : WRK_COMPLETE;
    m->captured = wrk_set_context(w, m->ctx) == CUDA_SUCCESS && stream_captures(m->stream);
    if (w->current == m->ctx && !m->captured) /* a query would end the capture */
        is = wrk_ask_stream(&wrk_provider, m->stream).state;
    wrk_set_context(w, was == (CUcontext)-1 ? NULL : was);
    return is;
}

/*
 * A fault in a stream is reported for the whole context, whatever still runs there: its marks stay
 * until the context ends, and the time limit continues. Other calls wait neither for these marks,
 * which might take forever, nor for their entries in the table (wrk_flow_merge_unknown()); the faulty
 * context accepts no more work.
 */
static void count_unknown(struct wrk_flow_mark *m, bool unknown)
{
    if (m->unknown == unknown)
        return;
    m->unknown = unknown;
    flow.unknown += unknown ? m->calls : -(uint64_t)m->calls;
    flow.unknown_ns += unknown ? m->cost_ns : -m->cost_ns;
}

/* Maximum calls of a mark. */
static unsigned calls_per_mark(void)
{
    const uint64_t most = wrk_stall_queue() / 16;

    return flow.turns ? 16 : most && most < CALLS_PER_MARK ? (unsigned)most : CALLS_PER_MARK;
}

static void reap_marks(struct wrk_worker *w, uint64_t now)
{
    CUstreamCaptureMode mode;
    unsigned left = 0;

    flow.captured = 0;
    if (!flow.nmarks)
        return;
    mode = relax_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
    for (unsigned i = 0; i < flow.nmarks; i++) {
        struct wrk_flow_mark m = flow.marks[i];

        enum wrk_state is = state_of(w, &m, now);
        unsigned parts = m.rest ? atomic_load(&m.rest->done) : 0;

        if (parts != m.seen)
            flow.progress_ns = now;
        m.seen = parts;
        count_unknown(&m, is == WRK_UNKNOWN);
        flow.captured += m.unknown && m.captured ? m.calls : 0;
        if (is != WRK_COMPLETE) {
            flow.marks[left++] = m;
            continue;
        }
        flow_complete(&m, now);
        give_event(&m);
    }
    flow.nmarks = left;
    if (flow.nmarks == WRK_MARKS && flow.unknown)
        flow.nmarks = wrk_flow_merge_unknown(flow.marks, flow.nmarks);
    if (flow.nmarks == WRK_MARKS)
        flow.nmarks = wrk_flow_merge_streams(flow.marks, flow.nmarks, calls_per_mark());
    relax_capture(mode);
}

static void look_for_ends(struct wrk_worker *w)
{
    if (flow.nmarks < flow.reap_at)
        return;
    reap_marks(w, vgb_now_ns());
    flow.reap_at = 2 * flow.nmarks > REAP_MARKS ? 2 * flow.nmarks : REAP_MARKS;
}

/* ---- calls ---- */

/* True if a stream may begin to capture by this call. */
static bool may_capture(uint16_t call)
{
    return call == VGP_vgpStreamBeginCapture || (wrk_captures && call == VGP_cuStreamWaitEvent);
}

static bool call_is_bounded(struct wrk_worker *w, uint16_t call)
{
    uint64_t cost = wrk_flow_cost(wrk_flow_key(call, w->ring.args, w->ring.args_size));

    if (!flow.bound_ns || !(flow.nmarks + flow.nslots))
        return false;
    return flow.calls - flow.unknown >= (flow.bound_ns < ALONE_NS ? flow.window : CALLS_ALONE) ||
           flow.cost_ns - flow.unknown_ns + (cost ? cost : UNKNOWN_NS) > flow.bound_ns;
}

/* True if another call would exceed the bound, or has no entry for its mark. Of streams that capture so
 * much again is let through: one stream's work never holds up its own capture, and more streams' is
 * bounded. */
static bool flow_is_full(void)
{
    const uint64_t most = wrk_stall_queue();

    return (most && (flow.calls - flow.unknown >= most || flow.captured > most)) || flow.nmarks == WRK_MARKS;
}

static bool call_may_run(struct wrk_worker *w, uint16_t call, uint32_t flags)
{
    /* A capturing stream takes no mark: its earlier work is marked before the capture. */
    if (may_capture(call) && flow.nslots) {
        mark_all(w);
        if (flow.nslots) { /* no room: later, when some work has completed */
            reap_marks(w, vgb_now_ns());
            return false;
        }
    }
    if (!(flags & VGP_F_FILLS))
        return true;
    if (flow_is_full()) {
        mark_all(w);
        reap_marks(w, vgb_now_ns());
        if (flow_is_full()) {
            if (!flow.held && wrk_stall_queue() == wrk_client_limits.queue)
                wrk_limit_hit("calls in flight", wrk_client_limits.queue, "--client-queue");
            return false;
        }
    }
    if (!flow.turns || vgp_effect(call) != VGP_EFFECT_RUNS)
        return true;
    if (flow.open && call_is_bounded(w, call)) {
        mark_all(w);
        reap_marks(w, vgb_now_ns());
        return !call_is_bounded(w, call);
    }
    return flow.open;
}

bool wrk_flow_may(struct wrk_worker *w, uint16_t call, uint32_t flags)
{
    flow.held = !call_may_run(w, call, flags);
    return !flow.held;
}

static void flow_say(struct wrk_worker *w, uint32_t state)
{
    flow.said = state;
    flow.said_any = true;
    flow.answer = false;
    wrk_control_work(w, state, flow.number);
}

void wrk_flow_issued(struct wrk_call *c)
{
    struct wrk_worker *w = c->w;
    CUstream stream = c->stream;
    struct slot *s = &flow.slots[((uintptr_t)stream * UINT64_C(0x9e3779b97f4a7c15)) >> 56];
    uint32_t key = 0; /* costs are learnt only in turns */
    uint64_t cost = 0;
    bool known = true, new_key;

    if (w->current == (CUcontext)-1 || !w->current || stream_captures(stream))
        return;
    if (flow.turns)
        key = wrk_flow_key(c->rec->call, c->args, c->args_size);
    if (flow.turns && vgp_effect(c->rec->call) == VGP_EFFECT_RUNS) {
        cost = wrk_flow_cost(key);
        known = cost != 0;
        cost = known ? cost : UNKNOWN_NS;
    }
    /* Work measured for learning gets a mark of its own. */
    new_key = flow.turns && s->calls && s->key != key && !known;
    if (s->calls && (s->stream != stream || s->ctx != w->current || new_key))
        mark_slot(w, s);
    if (s->calls && (s->stream != stream || s->ctx != w->current))
        return; /* no room for marks, handled by wrk_flow_may() */
    if (!s->calls) {
        *s = (struct slot){.stream = stream, .ctx = w->current, .key = key};
        if (flow.turns)
            s->begun_ns = vgb_now_ns();
        flow.nslots++;
    }
    if (!flow.calls)
        flow.progress_ns = vgb_now_ns();
    s->key = s->key == key ? key : 0;
    s->calls++;
    s->cost_ns += cost;
    flow.calls++;
    flow.cost_ns += cost;
    if (s->calls >= calls_per_mark() || (flow.turns && (!known || s->cost_ns >= MARK_NS))) {
        mark_slot(w, s);
        look_for_ends(w);
    }
    if (flow.turns && (!flow.said_any || flow.said != VGB_WORK_BUSY))
        flow_say(w, VGB_WORK_BUSY);
}

/* ---- ends ---- */

/* No room for a mark: its work counts as complete with the latest mark. */
static void join_latest(struct slot *s)
{
    struct wrk_flow_mark *m = &flow.marks[flow.nmarks - 1];

    count_unknown(m, false); /* until the next query */
    m->calls += s->calls;
    m->cost_ns += s->cost_ns;
    m->key = 0;
    flow.nslots--;
    s->calls = 0;
}

static void mark_or_join(struct wrk_worker *w, struct slot *s)
{
    mark_slot(w, s);
    if (s->calls)
        join_latest(s);
}

void wrk_flow_stream_ends(struct wrk_worker *w, CUstream stream)
{
    for (unsigned i = 0; i < SLOTS && flow.nslots; i++) {
        if (flow.slots[i].calls && flow.slots[i].stream == stream)
            mark_or_join(w, &flow.slots[i]);
    }
    for (unsigned i = 0; i < flow.nmarks; i++)
        flow.marks[i].asked &= flow.marks[i].stream != stream;
    look_for_ends(w); /* short-lived streams have no other marks */
}

static void drop_events(CUcontext ctx)
{
    unsigned left = 0;

    for (unsigned i = 0; i < flow.nevents; i++) {
        if (flow.events[i].ctx == ctx)
            wrk_provider.cuEventDestroy_v2(flow.events[i].event);
        else
            flow.events[left++] = flow.events[i];
    }
    flow.nevents = left;
}

static void mark_context(struct wrk_worker *w, CUcontext ctx)
{
    for (unsigned i = 0; i < SLOTS && flow.nslots; i++) {
        if (flow.slots[i].calls && flow.slots[i].ctx == ctx)
            mark_or_join(w, &flow.slots[i]);
    }
}

/* The work of the context is counted until the end has landed, which waits for it. */
void wrk_flow_context_ends(struct wrk_worker *w, CUcontext ctx, struct wrk_wait *end)
{
    struct wrk_flow_mark all = {.ending = end, .begun_ns = vgb_now_ns()};
    unsigned left = 0, had;

    mark_context(w, ctx);
    reap_marks(w, all.begun_ns);
    all.rest = end && wrk_client_limits.time_s ? wrk_rest_new(ctx, flow.nmarks) : NULL;
    had = flow.nmarks;
    for (unsigned i = 0; i < had; i++) {
        struct wrk_flow_mark m = flow.marks[i];

        if (m.ctx != ctx) {
            flow.marks[left++] = m;
            continue;
        }
        count_unknown(&m, false);
        all.calls += m.calls;
        all.cost_ns += m.cost_ns;
        if (m.event && all.rest)
            all.rest->events[all.rest->n++] = m.event;
        else if (m.event)
            wrk_provider.cuEventDestroy_v2(m.event);
    }
    flow.nmarks = left;
    drop_events(ctx);
    if (left < had && end) {
        end->rest = all.rest;
        flow.marks[flow.nmarks++] = all;
    } else {
        forget_mark(&all);
    }
}

void wrk_flow_context_gone(const struct wrk_wait *end)
{
    unsigned left = 0;

    for (unsigned i = 0; i < flow.nmarks; i++) {
        if (flow.marks[i].ending == end)
            flow_complete(&flow.marks[i], vgb_now_ns());
        else
            flow.marks[left++] = flow.marks[i];
    }
    flow.nmarks = left;
}

void wrk_flow_green_ends(struct wrk_worker *w, CUcontext ctx, CUcontext base)
{
    mark_context(w, ctx);
    for (unsigned i = 0; i < flow.nmarks; i++) {
        if (flow.marks[i].ctx != ctx)
            continue;
        flow.marks[i].ctx = base;
        flow.marks[i].of_green = true;
    }
    drop_events(ctx);
}

/* ---- what the loop asks ---- */

static void limit_time(struct wrk_worker *w, uint64_t now)
{
    uint64_t most = (uint64_t)wrk_client_limits.time_s * 1000000000u;
    uint64_t gap = flow.looked_ns && now > flow.looked_ns ? now - flow.looked_ns : 0, stopped;

    /* This process was stopped or had no processor, which is not the client's fault. A long call of the
     * dispatcher is. */
    if (wrk_stall_stopped(now, &stopped)) {
        flow.progress_ns += flow.looked_ns && stopped > flow.stopped_ns ? stopped - flow.stopped_ns : 0;
        flow.stopped_ns = stopped;
    } else if (gap > 2 * (uint64_t)LOOK_LIMIT_NS) {
        flow.progress_ns += gap - LOOK_LIMIT_NS;
    }
    flow.looked_ns = now;
    if (!most || !flow.nmarks || flow.progress_ns > now || now - flow.progress_ns <= most)
        return;
    wrk_limit_hit("seconds without an end of any work", wrk_client_limits.time_s, "--client-time-limit");
    wrk_die(w, VGPU_DEAD_KILLED, "none of its work has ended for %u s (--client-time-limit)",
            wrk_client_limits.time_s);
}

void wrk_flow_look(struct wrk_worker *w, bool idle)
{
    bool limited = wrk_client_limits.time_s != 0;
    uint32_t state;
    uint64_t now;

    if (!flow.turns && !limited && !flow.held)
        return;
    now = vgb_now_ns();
    if ((limited || flow.turns) && (idle || flow.held))
        mark_all(w);
    reap_marks(w, now);
    if (limited)
        limit_time(w, now);
    if (!flow.turns)
        return;
    state = flow.nmarks + flow.nslots ? VGB_WORK_BUSY : flow.held ? VGB_WORK_WAITS : VGB_WORK_NONE;
    if (flow.answer || !flow.said_any || (state != flow.said && (idle || flow.held || !flow.open)))
        flow_say(w, state);
}

uint64_t wrk_flow_patience(const struct wrk_worker *w)
{
    uint64_t left;

    (void)w;
    /* The cause of holding the call is gone: retry at once. */
    if (!flow.nmarks && !flow.nslots)
        return flow.held && (flow.open || !flow.turns) ? 0 : UINT64_MAX;
    if (flow.held || flow.turns) {
        left = flow.cost_ns / 4;
        return left < LOOK_MIN_NS ? LOOK_MIN_NS : left > LOOK_MAX_NS ? LOOK_MAX_NS : left;
    }
    return wrk_client_limits.time_s ? LOOK_LIMIT_NS : UINT64_MAX;
}

void wrk_flow_turn(struct wrk_worker *w, bool open, uint64_t bound_ns, uint32_t number)
{
    (void)w;
    flow.turns = true;
    flow.open = open;
    flow.bound_ns = bound_ns;
    flow.number = number;
    flow.answer = !open;
}

void wrk_flow_turns_end(void)
{
    flow.turns = flow.open = flow.answer = flow.said_any = false;
}
