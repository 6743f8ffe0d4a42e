/* SPDX-License-Identifier: MIT */
/*
 * Answers about events and streams that the guest keeps; see answers.h. The results of queries are
 * kept in a table by handle; of two handles with the same place the later is kept. Lock order: the
 * table's lock is taken alone, except for the innermost lock of vcu_wait.c; the ring's lock is not
 * taken under it. elapsed_lock is taken outside it.
 */
#include "answers.h"

#include <stdlib.h>
#include <string.h>

#include "vgp_calls.h"
#include "../../../../protocol/vgp_facts.h"
#include "../../../../lib/clock/clock.h"

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
_Atomic bool vcu_answers_graphs_record;

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

CUresult vcu_answer_look(uint64_t handle, const struct vcu_wait_latest *latest)
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

bool vcu_answer_complete(uint64_t event)
{
    struct known *k = query_place(event);
    bool yes = false;

    pthread_mutex_lock(&lock);
    if (k->handle == event) {
        if ((k->state == RECORDED && vcu_wait_covered(&k->record)) ||
            (k->state == WATCHED && look_at_word(k) == CUDA_SUCCESS))
            k->state = DONE;
        yes = k->state == DONE;
    }
    pthread_mutex_unlock(&lock);
    return yes;
}

struct vcu_question vcu_answer_begin(uint64_t handle, const struct vcu_wait_latest *latest)
{
    struct known *k = query_place(handle);
    uint64_t evidence = atomic_load_explicit(&vcu_query_evidences, memory_order_acquire);
    struct vcu_question q = {.word = word_of(k)};

    pthread_mutex_lock(&lock);
    q.number = ++questions;
    q.sequence = (uint32_t)(q.number % (VGP_WATCH_ASK - 1)) + 1;
    *k = (struct known){.handle = handle,
                        .asked = q.number,
                        .state = ASKED,
                        .sequence = q.sequence,
                        .evidence = evidence,
                        .latest = *latest};
    pthread_mutex_unlock(&lock);
    return q;
}

void vcu_answer_end(uint64_t handle, const struct vcu_question *question, CUresult r)
{
    struct known *k = query_place(handle);

    pthread_mutex_lock(&lock);
    if (k->asked == question->number) {
        k->until_ns = clk_now_ns() + BELIEVE_NS;
        if (r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_READY)
            k->state = r == CUDA_SUCCESS ? DONE : WATCHED;
        else
            memset(k, 0, sizeof(*k));
    }
    pthread_mutex_unlock(&lock);
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

bool vcu_elapsed_look(uint64_t start, uint64_t end, float *milliseconds, uint64_t *changes)
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

void vcu_elapsed_learn(uint64_t start, uint64_t end, uint64_t changes, float milliseconds)
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

/* The first pair of which this is true, unless the latest answer about it was of no use. */
static bool elapsed_next(bool (*is)(const struct pair *p, const void *arg), const void *arg,
                         struct vcu_elapsed_pair *out)
{
    bool found = false;

    if (!atomic_load_explicit(&any_pair, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&elapsed_lock);
    for (unsigned i = 0; i < PAIRS && !found; i++) {
        struct pair *p = &pairs[i];

        if (p->end == 0 || p->known || !is(p, arg))
            continue;
        if (p->unused) {
            *p = (struct pair){0};
            continue;
        }
        p->unused = true;
        *out = (struct vcu_elapsed_pair){p->start, p->end, p->changes};
        found = true;
    }
    pthread_mutex_unlock(&elapsed_lock);
    return found;
}

static bool pair_ends(const struct pair *p, const void *end)
{
    return p->end == *(const uint64_t *)end;
}

bool vcu_elapsed_expected(uint64_t end, struct vcu_elapsed_pair *pair)
{
    return elapsed_next(pair_ends, &end, pair);
}

static bool pair_in_stream(const struct pair *p, const void *stream)
{
    const struct known *k = query_place(p->end);
    bool yes;

    pthread_mutex_lock(&lock);
    yes = k->handle == p->end && k->state == RECORDED &&
          (stream == NULL || vcu_wait_in_stream(&k->record, *(const CUstream *)stream));
    pthread_mutex_unlock(&lock);
    return yes;
}

bool vcu_elapsed_awaited(const CUstream *stream, struct vcu_elapsed_pair *pair)
{
    return elapsed_next(pair_in_stream, stream, pair);
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

/* ---- what changes the answers ---------------------------------------------------------------- */

#define EVERYTHING UINT64_MAX

uint64_t vcu_query_noted(uint16_t call, const void *args)
{
    unsigned facts = vgp_facts(call);
    const struct vgp_call_facts *f;

    if (facts & VGP_FACT_ENDS_CONTEXT)
        return EVERYTHING;
    if (__builtin_expect(call == VGP_vgpGraphEventNode, 0)) { /* launches of its graph record the event */
        atomic_store(&vcu_answers_graphs_record, true);
        return EVERYTHING;
    }
    if (!(facts & VGP_FACT_RECORDS))
        return 0;
    f = vgp_call_facts(call);
    if (vgp_place_get(f->external, args, NULL) != 0)
        atomic_store(&vcu_answers_graphs_record, true);
    return vgp_place_get(f->records, args, NULL);
}

void vcu_query_sent(uint64_t noted, const struct vcu_wait_token *sent)
{
    struct known *k = query_place(noted);

    pthread_mutex_lock(&lock);
    if (noted == EVERYTHING)
        memset(table, 0, sizeof(table));
    else if (atomic_load_explicit(&vcu_captures, memory_order_relaxed) != 0)
        memset(k, 0,
               sizeof(*k)); /* it may be a captured event, of which only the driver knows what a wait says */
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
