/* SPDX-License-Identifier: MIT */
/*
 * Queries of events and streams, and times between events, that need no answer of the worker; see
 * wait.h. The results of queries are kept in a table by handle; of two handles with the same place
 * the later is kept. Lock order: the table's lock is taken alone, except for the innermost lock of
 * vcu_wait.c; the ring's lock is not taken under it. elapsed_lock is taken alone.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vgp_calls.h"
#include "vgp_guest.h"
#include "../../../protocol/vgp_facts.h"
#include "../../../protocol/vgp_guest_rt.h"
#include "../../../lib/clock/clock.h"

#define PLACES 256u
/* Time for which "not ready" is returned without a query. Shorter than the worker polls, so that it
 * is awake for the next query. */
#define BELIEVE_NS 60000u
/* Number of queries after which a program that only queries reads the clock and yields its
 * processor. */
#define POLLS 16u

_Atomic uint64_t vcu_query_evidences, vcu_queries_answered;

enum state { ASKED, DONE, WATCHED, RECORDED };
struct known {
    uint64_t handle; /* 0: nothing */
    uint64_t asked;  /* number of the query: an answer to another query is not kept */
    enum state state;
    uint32_t sequence; /* of the word */
    unsigned polls;
    uint64_t evidence, until_ns;
    struct vcu_wait_latest latest; /* of a stream */
    struct vcu_wait_token record;  /* RECORDED: of an event */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct known table[PLACES];
static uint64_t questions;
static bool off;
static _Atomic bool graphs_record; /* launches of graphs record unknown events */

static struct known *query_place(uint64_t handle)
{
    return &table[(VGP_HANDLE_INDEX(handle) * 2 + (VGP_HANDLE_TYPE(handle) == VGP_H_STREAM)) % PLACES];
}

static uint32_t word_of(const struct known *k)
{
    return (uint32_t)(k - table) % VGP_WATCHES;
}

bool vcu_query_may_answer(uint64_t context)
{
    const struct vcu_context *c;

    if (off || vcu.worker_minor < 4 || vcu.ring.tap != NULL || vcu_units_watch() ||
        vcu_thread()->in_callback || atomic_load_explicit(&vcu_captures, memory_order_relaxed) != 0 ||
        atomic_load_explicit(&vcu.ring.async_error, memory_order_relaxed) != 0 ||
        __atomic_load_n(&vcu.ring.shared->sticky_result, __ATOMIC_RELAXED) != 0 ||
        lnk_ring_dead(&vcu.ring) != CUDA_SUCCESS)
        return false;
    c = vcu_handle_data(context, VGP_H_CONTEXT);
    return c != NULL && atomic_load_explicit(&c->base->sticky, memory_order_relaxed) == 0;
}

static bool query_same(const struct vcu_wait_latest *a, const struct vcu_wait_latest *b)
{
    return a->in_stream == b->in_stream && a->elsewhere == b->elsewhere;
}

/* The worker's answer since then, under the lock; CUDA_ERROR_UNKNOWN if not known. */
static CUresult look_at_word(struct known *k)
{
    uint32_t word = __atomic_load_n(&vcu.ring.shared->watch[word_of(k)], __ATOMIC_ACQUIRE);

    if (word == k->sequence) {
        k->state = DONE;
        vcu_query_evidence();
        return CUDA_SUCCESS;
    }
    if (atomic_load_explicit(&vcu_query_evidences, memory_order_acquire) != k->evidence)
        return CUDA_ERROR_UNKNOWN;
    if ((++k->polls % POLLS == 0 || word == (k->sequence | VGP_WATCH_ASK)) && clk_now_ns() > k->until_ns)
        return CUDA_ERROR_UNKNOWN;
    return CUDA_ERROR_NOT_READY;
}

static CUresult query_look(uint64_t handle, const struct vcu_wait_latest *latest)
{
    struct known *k = query_place(handle);
    CUresult r = CUDA_ERROR_UNKNOWN;
    bool tired = false;

    pthread_mutex_lock(&lock);
    if (k->handle == handle && k->state == RECORDED && vcu_wait_covered(&k->record))
        k->state = DONE;
    if (k->handle == handle && k->state == WATCHED) {
        r = look_at_word(k);
        tired = r == CUDA_ERROR_NOT_READY && k->polls % POLLS == 0;
    } else if (k->handle == handle && k->state == DONE) {
        r = CUDA_SUCCESS;
    }
    if (r == CUDA_SUCCESS && !query_same(&k->latest, latest))
        r = CUDA_ERROR_UNKNOWN; /* work has been put into the stream since */
    pthread_mutex_unlock(&lock);
    if (r == CUDA_ERROR_UNKNOWN)
        return r;
    if (lnk_ring_notified(&vcu.ring))
        lnk_ring_drain(&vcu.ring);
    if (tired)
        lnk_ring_pause(&vcu.ring); /* without a spare core, the awaited work needs this one */
    atomic_fetch_add_explicit(&vcu_queries_answered, 1, memory_order_relaxed);
    return r;
}

static CUresult query_ask(uint64_t handle, const struct vcu_wait_latest *latest)
{
    struct known *k = query_place(handle);
    uint64_t evidence = atomic_load_explicit(&vcu_query_evidences, memory_order_acquire), mine;
    uint32_t word = word_of(k), sequence;
    CUresult r;

    pthread_mutex_lock(&lock);
    mine = ++questions;
    sequence = (uint32_t)(mine % (VGP_WATCH_ASK - 1)) + 1;
    *k = (struct known){.handle = handle,
                        .asked = mine,
                        .state = ASKED,
                        .sequence = sequence,
                        .evidence = evidence,
                        .latest = *latest};
    pthread_mutex_unlock(&lock);
    if (VGP_HANDLE_TYPE(handle) == VGP_H_EVENT)
        r = vgp_call_vgpEventWatch((CUevent)(uintptr_t)handle, word, sequence);
    else
        r = vgp_call_vgpStreamWatch((CUstream)(uintptr_t)handle, word, sequence);
    pthread_mutex_lock(&lock);
    if (k->asked == mine) {
        k->until_ns = clk_now_ns() + BELIEVE_NS;
        if (r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_READY)
            k->state = r == CUDA_SUCCESS ? DONE : WATCHED;
        else
            memset(k, 0, sizeof(*k));
    }
    pthread_mutex_unlock(&lock);
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
    if (atomic_load_explicit(&graphs_record, memory_order_relaxed) ||
        !vcu_query_may_answer((uintptr_t)vcu_handle_data(handle, VGP_H_EVENT)))
        return vgp_call_cuEventQuery(event);
    r = query_look(handle, &none);
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
    r = query_look(handle, &latest);
    return still_unknown(r, (uintptr_t)vcu_handle_data(handle, VGP_H_STREAM)) ? query_ask(handle, &latest)
                                                                              : r;
}

/*
 * ---- times between events ----
 *
 * The answer for two complete events stays the same until one of them is recorded again, so the
 * latest pairs are kept.
 */
#define PAIRS 16u

struct pair {
    uint64_t start, end; /* handles; 0: no pair */
    uint64_t changes;    /* number of the latest recording of either event */
    bool known;          /* `milliseconds` is of the present recordings */
    bool unused;         /* a wait has brought the answer along, and the program has not asked since */
    float milliseconds;
};

static pthread_mutex_t elapsed_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pair pairs[PAIRS];
static unsigned next_pair;
static uint64_t recordings;
static _Atomic bool any_pair; /* false: no recording matters */

static struct pair *pair_find(uint64_t start, uint64_t end)
{
    for (unsigned i = 0; i < PAIRS; i++) {
        if (pairs[i].end == end && pairs[i].start == start)
            return &pairs[i];
    }
    return NULL;
}

/* Makes the pair if it is new. True: `milliseconds` is the answer; false: ask, then elapsed_learn(). */
static bool elapsed_look(uint64_t start, uint64_t end, float *milliseconds, uint64_t *changes)
{
    struct pair *p;
    bool known;

    pthread_mutex_lock(&elapsed_lock);
    p = pair_find(start, end);
    if (p == NULL) {
        p = &pairs[next_pair++ % PAIRS];
        *p = (struct pair){.start = start, .end = end, .changes = ++recordings};
        atomic_store(&any_pair, true);
    }
    p->unused = false;
    *changes = p->changes;
    known = p->known;
    *milliseconds = p->milliseconds;
    pthread_mutex_unlock(&elapsed_lock);
    return known;
}

static void elapsed_learn(uint64_t start, uint64_t end, uint64_t changes, float milliseconds)
{
    struct pair *p;

    pthread_mutex_lock(&elapsed_lock);
    p = pair_find(start, end);
    if (p != NULL && p->changes == changes) { /* else the answer may be older than a recording */
        p->known = true;
        p->milliseconds = milliseconds;
    }
    pthread_mutex_unlock(&elapsed_lock);
}

/* The event with which the program will ask for the time until `end`; 0: none that is worth asking for. */
static uint64_t elapsed_expected(uint64_t end, uint64_t *changes)
{
    uint64_t start = 0;

    if (!atomic_load_explicit(&any_pair, memory_order_relaxed))
        return 0;
    pthread_mutex_lock(&elapsed_lock);
    for (unsigned i = 0; i < PAIRS && start == 0; i++) {
        struct pair *p = &pairs[i];

        if (p->end != end || p->known)
            continue;
        if (p->unused) { /* the latest answer was of no use */
            *p = (struct pair){0};
            continue;
        }
        p->unused = true;
        *changes = p->changes;
        start = p->start;
    }
    pthread_mutex_unlock(&elapsed_lock);
    return start;
}

static void elapsed_recorded(uint64_t event)
{
    if (!atomic_load_explicit(&any_pair, memory_order_relaxed))
        return;
    pthread_mutex_lock(&elapsed_lock);
    for (unsigned i = 0; i < PAIRS; i++) {
        if (pairs[i].start == event || pairs[i].end == event) {
            pairs[i].known = false;
            pairs[i].changes = ++recordings;
        }
    }
    pthread_mutex_unlock(&elapsed_lock);
}

static void elapsed_forget(void)
{
    pthread_mutex_lock(&elapsed_lock);
    memset(pairs, 0, sizeof(pairs));
    pthread_mutex_unlock(&elapsed_lock);
}

/* True if answers about the event are known to last: none to learn from the worker, no recording unseen. */
static bool event_answers(CUevent event)
{
    return vcu_query_may_answer((uintptr_t)vcu_handle_data((uintptr_t)event, VGP_H_EVENT)) &&
           !atomic_load_explicit(&graphs_record, memory_order_relaxed);
}

CUresult vcu_event_elapsed(float *milliseconds, CUevent start, CUevent end)
{
    uint64_t changes;
    float answer = 0;
    CUresult r;

    if (!event_answers(start) || !event_answers(end))
        return vgp_call_cuEventElapsedTime_v2(milliseconds, start, end);
    if (!elapsed_look((uintptr_t)start, (uintptr_t)end, &answer, &changes)) {
        r = vgp_call_cuEventElapsedTime_v2(&answer, start, end);
        if (r != CUDA_SUCCESS)
            return r;
        elapsed_learn((uintptr_t)start, (uintptr_t)end, changes, answer);
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
        start = elapsed_expected((uintptr_t)event, &changes);
    if (start == 0 || !vgp_handle_live(start, VGP_H_EVENT))
        return vgp_call_cuEventSynchronize(event);
    r = vgp_call_vgpEventElapse(event, (CUevent)(uintptr_t)start, &result, &milliseconds);
    if (r == CUDA_SUCCESS && result == CUDA_SUCCESS)
        elapsed_learn(start, (uintptr_t)event, changes, milliseconds);
    return r;
}

/* ---- what changes the answers ---------------------------------------------------------------- */

#define EVERYTHING UINT64_MAX

uint64_t vcu_query_noted(uint16_t call, const void *args)
{
    unsigned facts = vgp_facts(call);
    const struct vgp_call_facts *f;

    if (facts & VGP_FACT_ENDS_CONTEXT)
        return EVERYTHING;
    if (__builtin_expect(call == VGP_vgpGraphEventNode, 0)) { /* launches of its graph record the event */
        atomic_store(&graphs_record, true);
        return EVERYTHING;
    }
    if (!(facts & VGP_FACT_RECORDS))
        return 0;
    f = vgp_call_facts(call);
    if (vgp_place_get(f->external, args, NULL) != 0)
        atomic_store(&graphs_record, true);
    return vgp_place_get(f->records, args, NULL);
}

void vcu_query_sent(uint64_t noted, const struct vcu_wait_token *sent)
{
    struct known *k = query_place(noted);

    pthread_mutex_lock(&lock);
    if (noted == EVERYTHING)
        memset(table, 0, sizeof(table));
    else if (VGP_HANDLE_TYPE(noted) == VGP_H_EVENT)
        *k = (struct known){.handle = noted, .state = RECORDED, .record = *sent};
    pthread_mutex_unlock(&lock);
    if (noted == EVERYTHING)
        elapsed_forget();
    else
        elapsed_recorded(noted);
}

void vcu_query_init(void)
{
    const char *value = getenv("VGPU_ANSWER_QUERIES");

    off = value != NULL && !strcmp(value, "0");
}
