/* SPDX-License-Identifier: MIT */
/* See wait.h. Lock order: owe_lock, the ring's lock. */
#include "../core.h"

#include <stdlib.h>
#include <string.h>

#include "vgp_calls.h"
#include "../../../../protocol/vgp_facts.h"

_Atomic bool vcu_wait_owed;
_Atomic uint64_t vcu_waits_answered;
_Atomic unsigned vcu_parked, vcu_parked_loose;

/*
 * Outstanding work, under the ring's lock: for each of a few streams, the number of the latest work
 * put into it. A wait that ends makes a stream idle unless later work has been put into it.
 */
enum kind { IDLE, QUIET, BUSY };
#define OWNER_MANY 0xffffffu /* any stream, or a stream without an entry */
#define STREAMS 4u
static struct {
    uint32_t owner;
    enum kind kind;
    uint64_t latest;
} streams[STREAMS];
static uint64_t work;      /* numbers given out */
static uint64_t elsewhere; /* the latest work outside these streams; 0: all of it is complete */

/* Streams by the index of their handle; 0 is the legacy stream; then per-thread streams, by thread
 * number. */
#define OWNER_THREADS (VGP_HANDLE_INDEX_MAX + 2)
static uint32_t owner_id(uint64_t stream)
{
    uint32_t thread;

    if (stream != (uintptr_t)CU_STREAM_PER_THREAD)
        return stream <= (uintptr_t)CU_STREAM_LEGACY ? 0 : VGP_HANDLE_INDEX(stream) + 1;
    thread = vcu_thread()->number;
    return thread < OWNER_MANY - OWNER_THREADS ? OWNER_THREADS + thread : OWNER_MANY;
}
_Static_assert(OWNER_THREADS < OWNER_MANY, "an index has a number");

/* The latest work covered by a wait: of all streams, and of individual streams. A later stream of
 * the same number has later work. */
#define COVERED 32
static pthread_mutex_t covered_lock = PTHREAD_MUTEX_INITIALIZER; /* inside all others */
static struct covered {
    uint32_t owner;
    uint64_t work;
} covered_all, covered[COVERED];

#define LOOK_EVERY 1024u /* answered waits between two questions to the transport */

static bool off;
static _Atomic bool two_contexts;
static uint64_t the_context; /* under the ring's lock */

/* The owed wait. */
static pthread_mutex_t owe_lock = PTHREAD_MUTEX_INITIALIZER;
static struct vcu_owed owed;

/* ---- what is outstanding -------------------------------------------------------------------- */

static void note_context(uint16_t call, uint64_t context)
{
    if (the_context == 0)
        the_context = context;
    /* A primary context is the same one each time. */
    if ((context != 0 && context != the_context) ||
        (vgp_facts(call) & VGP_FACT_MAKES_CONTEXT && call != VGP_vgpPrimaryCtxRetain))
        atomic_store(&two_contexts, true);
}

/* The stream's place; -1: it is idle. */
static int place_of(uint32_t owner)
{
    for (unsigned i = 0; i < STREAMS; i++) {
        if (streams[i].kind != IDLE && streams[i].owner == owner)
            return (int)i;
    }
    return -1;
}

static enum kind kind_of(uint32_t owner)
{
    int at = place_of(owner);

    return elsewhere != 0 || owner == OWNER_MANY ? BUSY : at < 0 ? IDLE : streams[at].kind;
}

/* True if no work is outstanding except in the stream. */
static bool others_idle(uint32_t owner)
{
    for (unsigned i = 0; i < STREAMS; i++) {
        if (streams[i].kind != IDLE && streams[i].owner != owner)
            return false;
    }
    return elsewhere == 0;
}

static struct vcu_wait_token note_work(const struct vgp_intent *in)
{
    uint32_t owner = in->streamed ? owner_id(in->stream) : OWNER_MANY;
    struct vcu_wait_token token = {.owner = owner, .work = work + 1};
    int at = place_of(owner);

    work++;
    for (unsigned i = 0; at < 0 && i < STREAMS && owner != OWNER_MANY; i++) {
        if (streams[i].kind == IDLE)
            at = (int)i;
    }
    if (at < 0) {
        elsewhere = work;
        return token;
    }
    if (in->observed != VGP_OBSERVED_QUIET)
        streams[at].kind = BUSY;
    else if (streams[at].kind == IDLE)
        streams[at].kind = QUIET;
    streams[at].owner = owner;
    streams[at].latest = work;
    return token;
}

/* Remaining work of a destroyed stream belongs to no stream: the next stream may have the same
 * number. */
static void note_destroyed(void)
{
    if (!others_idle(OWNER_MANY))
        elsewhere = ++work;
}

struct vcu_wait_token vcu_wait_note(uint16_t call, const struct vgp_intent *in, uint64_t context)
{
    const struct vcu_wait_token none = {0};

    if (vgp_effect(call) == VGP_EFFECT_NONE || (vcu_thread()->settling && in->observed != VGP_OBSERVED_WAITS))
        return none;
    note_context(call, context);
    if (vgp_facts(call) & VGP_FACT_WAITS_ALL)
        return (struct vcu_wait_token){.is_wait = true, .everything = true, .work = work};
    if (in->observed == VGP_OBSERVED_WAITS && in->streamed)
        return (struct vcu_wait_token){.is_wait = true, .owner = owner_id(in->stream), .work = work};
    if (vgp_facts(call) & VGP_FACT_ENDS_STREAM)
        note_destroyed();
    else if (!vgp_leaves_nothing(call))
        return note_work(in);
    return none;
}

static void note_covered(const struct vcu_wait_token *token)
{
    struct covered *c = token->everything ? &covered_all : &covered[token->owner % COVERED];

    pthread_mutex_lock(&covered_lock);
    if (c->owner != token->owner || c->work < token->work)
        *c = (struct covered){token->owner, token->work};
    pthread_mutex_unlock(&covered_lock);
}

bool vcu_wait_covered(const struct vcu_wait_token *sent)
{
    const struct covered *c = &covered[sent->owner % COVERED];
    bool yes;

    pthread_mutex_lock(&covered_lock);
    yes =
        sent->work != 0 && (sent->work <= covered_all.work ||
                            (sent->owner != OWNER_MANY && c->owner == sent->owner && sent->work <= c->work));
    pthread_mutex_unlock(&covered_lock);
    return yes;
}

void vcu_wait_done(const struct vcu_wait_token *token)
{
    bool owe = !vcu_thread()->settling && atomic_load(&vcu_wait_owed);

    note_covered(token);
    if (owe)
        pthread_mutex_lock(&owe_lock);
    pthread_mutex_lock(&vcu.ring.lock);
    for (unsigned i = 0; i < STREAMS; i++) {
        if (streams[i].latest <= token->work && (token->everything || streams[i].owner == token->owner))
            streams[i].kind = IDLE;
    }
    if (token->everything && elsewhere <= token->work)
        elsewhere = 0;
    if (owe && kind_of(owed.owner) == IDLE)
        atomic_store(&vcu_wait_owed, false);
    pthread_mutex_unlock(&vcu.ring.lock);
    if (owe)
        pthread_mutex_unlock(&owe_lock);
}

/* ---- what is owed --------------------------------------------------------------------------- */

void vcu_wait_before(uint16_t call, const struct vgp_intent *in)
{
    if (vcu_thread()->settling || vgp_effect(call) == VGP_EFFECT_NONE)
        return;
    pthread_mutex_lock(&owe_lock);
    if (atomic_load(&vcu_wait_owed)) {
        bool same = in->streamed && owner_id(in->stream) == owed.owner;

        /* Quiet copies need no mark: waiting for them too is harmless, as they wait for no other
         * work. */
        if (!same || (in->observed == VGP_OBSERVED_ANY && !owed.recorded && !vcu_ahead->mark_wait(&owed))) {
            owed.context = the_context;
            vcu_ahead->settle_wait(&owed);
            atomic_store(&vcu_wait_owed, false);
        }
    }
    /* The event ends with its context, whether it marks an owed wait now or did earlier. */
    if (vgp_facts(call) & VGP_FACT_ENDS_CONTEXT)
        owed.event = NULL;
    pthread_mutex_unlock(&owe_lock);
}

static bool may_answer(void)
{
    return !off && atomic_load_explicit(&vcu_parked_loose, memory_order_relaxed) == 0 &&
           !atomic_load_explicit(&two_contexts, memory_order_relaxed) &&
           atomic_load_explicit(&vcu_captures, memory_order_relaxed) == 0 && !vcu_units_watch() &&
           atomic_load_explicit(&vcu.ring.async_error, memory_order_relaxed) == 0 &&
           lnk_ring_dead(&vcu.ring) == CUDA_SUCCESS && !vcu_thread()->in_callback;
}

bool vcu_wait_idle(void)
{
    bool idle;

    if (!may_answer())
        return false;
    pthread_mutex_lock(&vcu.ring.lock);
    idle = others_idle(OWNER_MANY);
    pthread_mutex_unlock(&vcu.ring.lock);
    return idle;
}

bool vcu_wait_legacy_alone(void)
{
    bool alone;

    pthread_mutex_lock(&vcu.ring.lock);
    alone = others_idle(owner_id((uintptr_t)CU_STREAM_LEGACY));
    pthread_mutex_unlock(&vcu.ring.lock);
    return alone;
}

bool vcu_wait_may_owe(CUstream stream)
{
    uint32_t owner = owner_id((uintptr_t)stream);
    bool may;

    if (!may_answer())
        return false;
    pthread_mutex_lock(&vcu.ring.lock);
    may = kind_of(owner) != BUSY && others_idle(owner);
    pthread_mutex_unlock(&vcu.ring.lock);
    return may;
}

/* The default stream waits for other streams and they for it: it may be treated alone only while
 * they are idle, and so may every stream, as the blocking streams are not tracked. */
bool vcu_wait_owe(CUstream stream)
{
    uint32_t owner = owner_id((uintptr_t)stream);
    enum kind kind;
    bool yes, answered;

    pthread_mutex_lock(&owe_lock);
    pthread_mutex_lock(&vcu.ring.lock);
    kind = kind_of(owner);
    yes = kind == QUIET && others_idle(owner);
    answered =
        yes || (kind == IDLE && (owner != 0 || others_idle(0))); /* the legacy stream waits for others */
    if (yes) {
        owed.stream = (uintptr_t)stream;
        owed.owner = owner;
        owed.thread = vcu_thread()->number;
        owed.recorded = false;
        atomic_store(&vcu_wait_owed, true);
    }
    pthread_mutex_unlock(&vcu.ring.lock);
    pthread_mutex_unlock(&owe_lock);
    return answered;
}

bool vcu_wait_in_stream(const struct vcu_wait_token *sent, CUstream stream)
{
    const uint32_t owner = owner_id((uintptr_t)stream);

    return sent->work != 0 && owner != OWNER_MANY && sent->owner == owner;
}

struct vcu_wait_latest vcu_wait_latest(CUstream stream)
{
    struct vcu_wait_latest l;
    int at;

    pthread_mutex_lock(&vcu.ring.lock);
    at = place_of(owner_id((uintptr_t)stream));
    l = (struct vcu_wait_latest){at < 0 ? 0 : streams[at].latest, elsewhere};
    pthread_mutex_unlock(&vcu.ring.lock);
    return l;
}

/*
 * Fills without a stream are work of the legacy stream, for which many programs never wait: it would
 * keep the waits of every other stream from being owed. Only the worker knows when it is complete: a
 * wait of another stream cannot tell, since a call may leave nothing in that stream that waited.
 */
#define LEGACY_LOOKS 4u
static struct {
    uint64_t latest; /* the legacy stream's latest work when the worker was asked */
    uint32_t looks;
} legacy_asked; /* under the ring's lock */

/* True if the legacy stream alone keeps a wait of the stream from being owed, and the worker has not
 * been asked too often. */
static bool legacy_holds_up(uint32_t owner, uint64_t *latest)
{
    const uint32_t legacy = owner_id((uintptr_t)CU_STREAM_LEGACY);
    bool yes = false;
    int at;

    pthread_mutex_lock(&vcu.ring.lock);
    at = place_of(legacy);
    if (owner != legacy && at >= 0 && kind_of(owner) != BUSY) {
        *latest = streams[at].latest;
        if (legacy_asked.latest != *latest) {
            legacy_asked.latest = *latest;
            legacy_asked.looks = 0;
        }
        yes = legacy_asked.looks < LEGACY_LOOKS;
        for (unsigned i = 0; i < STREAMS; i++)
            yes &= streams[i].kind == IDLE || streams[i].owner == owner || streams[i].owner == legacy;
        legacy_asked.looks += yes;
    }
    pthread_mutex_unlock(&vcu.ring.lock);
    return yes;
}

/* Asks the worker. True if the legacy stream is complete; another error is for the wait that follows. */
static bool legacy_completed(CUstream stream)
{
    uint64_t latest;
    CUresult r;
    int at, none = 0;

    if (!legacy_holds_up(owner_id((uintptr_t)stream), &latest))
        return false;
    r = vcu_ahead->ask_legacy();
    if (r != CUDA_SUCCESS && r != CUDA_ERROR_NOT_READY)
        atomic_compare_exchange_strong(&vcu.ring.async_error, &none, (int)r);
    if (r != CUDA_SUCCESS)
        return false;
    pthread_mutex_lock(&vcu.ring.lock);
    at = place_of(owner_id((uintptr_t)CU_STREAM_LEGACY));
    if (at >= 0 && streams[at].latest == latest)
        streams[at].kind = IDLE;
    pthread_mutex_unlock(&vcu.ring.lock);
    return true;
}

bool vcu_wait_told(void)
{
    if (lnk_ring_notified(&vcu.ring))
        lnk_ring_drain(&vcu.ring);
    vcu_units_wait_answered();
    /* A call that is made reports the error learnt just now. */
    if (atomic_load_explicit(&vcu.ring.async_error, memory_order_relaxed) != 0)
        return false;
    /* A killed broker does not write to the window, and only a sleep would notice. */
    if (atomic_fetch_add_explicit(&vcu_waits_answered, 1, memory_order_relaxed) % LOOK_EVERY ==
        LOOK_EVERY - 1)
        return lnk_ring_lost(&vcu.ring) == CUDA_SUCCESS;
    return true;
}

bool vcu_wait_answered(CUstream stream, bool everything)
{
    if (!may_answer())
        return false;
    if (everything ? !vcu_wait_idle()
                   : !vcu_wait_owe(stream) && !(legacy_completed(stream) && vcu_wait_owe(stream)))
        return false;
    return vcu_wait_told();
}

void vcu_wait_init(void)
{
    const char *value = getenv("VGPU_OWE_WAITS");

    off = value != NULL && !strcmp(value, "0");
}
