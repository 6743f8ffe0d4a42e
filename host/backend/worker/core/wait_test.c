/* SPDX-License-Identifier: MIT */
/* The events of waits: taken, kept for the next wait of the same context, forgotten with it. */
#include "core.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define CONTEXT(n) ((CUcontext)(uintptr_t)(0x1000 + (n)))
#define STREAM ((CUstream)(uintptr_t)0x2000)
#define KEPT (sizeof(((struct wrk_event_pool *)0)->free) / sizeof(CUevent))

static struct wrk_worker *w; /* another for each test: a waiter thread of the last one's still uses that */
/* The provider: what it answers, and what it was asked for. */
static CUresult on_query, on_create, on_record, on_event;
static unsigned queries, created, recorded, destroyed;
static CUevent last_destroyed;

static CUresult query(CUstream s)
{
    (void)s;
    queries++;
    return on_query;
}

static CUresult create(CUevent *e, unsigned flags)
{
    assert_true(flags & CU_EVENT_DISABLE_TIMING);
    assert_true(flags & CU_EVENT_BLOCKING_SYNC); /* a waiter sleeps in it */
    if (on_create == CUDA_SUCCESS)
        *e = (CUevent)(uintptr_t)(0x3000 + created++);
    return on_create;
}

static CUresult record(CUevent e, CUstream s)
{
    (void)e;
    assert_ptr_equal(s, STREAM);
    recorded++;
    return on_record;
}

static CUresult destroy(CUevent e)
{
    destroyed++;
    last_destroyed = e;
    return CUDA_SUCCESS;
}

static CUresult event_query(CUevent e)
{
    (void)e;
    return on_event;
}

static CUresult set_current(CUcontext c)
{
    (void)c;
    return CUDA_SUCCESS;
}

static int setup(void **state)
{
    (void)state;
    w = calloc(1, sizeof(*w));
    if (!w)
        return -1;
    wrk_waits_init(&w->waits);
    memset(&wrk_provider, 0, sizeof(wrk_provider));
    wrk_provider.cuStreamQuery = query;
    wrk_provider.cuEventCreate = create;
    wrk_provider.cuEventRecord = record;
    wrk_provider.cuEventDestroy_v2 = destroy;
    wrk_provider.cuEventQuery = event_query;
    wrk_provider.cuCtxSetCurrent = set_current;
    w->quota.dispatcher = pthread_self();
    on_query = CUDA_ERROR_NOT_READY;
    on_create = on_record = CUDA_SUCCESS;
    queries = created = recorded = destroyed = 0;
    return 0;
}

static struct wrk_wait *wait_for(unsigned context, unsigned events)
{
    struct wrk_wait *wait = wrk_wait_internal(w, CONTEXT(context));

    assert_non_null(wait);
    for (unsigned i = 0; i < events; i++)
        assert_int_equal(wrk_wait_add_stream(w, wait, STREAM), CUDA_SUCCESS);
    assert_int_equal(wait->nevents, events);
    return wait;
}

static void test_kept(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 100; i++) {
        wrk_wait_free(w, wait_for(0, 3));
        assert_int_equal(created, 3);
        assert_int_equal(recorded, 3 * (i + 1));
    }
    /* Those of one context are not for another. */
    wrk_wait_free(w, wait_for(1, 1));
    assert_int_equal(created, 4);
    wrk_wait_free(w, wait_for(0, 3));
    wrk_wait_free(w, wait_for(1, 1));
    assert_int_equal(created, 4);
    assert_int_equal(destroyed, 0);
}

static CUresult stream_context(CUstream stream, CUcontext *ctx)
{
    (void)stream;
    *ctx = CONTEXT(1);
    return CUDA_SUCCESS;
}

static CUcontext made_in;
static CUresult set_made_in(CUcontext c)
{
    made_in = c;
    return CUDA_SUCCESS;
}

static CUresult record_in_1(CUevent event, CUstream stream)
{
    return made_in == CONTEXT(1) ? record(event, stream) : CUDA_ERROR_INVALID_HANDLE;
}

/* A stream of another context: the event, and so the wait, is of that one; the pools stay each for their own. */
static void test_other_context(void **state)
{
    struct wrk_wait *wait;

    (void)state;
    wrk_provider.cuCtxSetCurrent = set_made_in;
    wrk_provider.cuStreamGetCtx = stream_context;
    wrk_provider.cuEventRecord = record_in_1;
    w->current = CONTEXT(0);
    wait = wrk_wait_internal(w, CONTEXT(0));
    assert_int_equal(wrk_wait_add_stream(w, wait, STREAM), CUDA_SUCCESS);
    assert_int_equal(wait->nevents, 1);
    assert_ptr_equal(wait->ctx, CONTEXT(1));
    assert_ptr_equal(wait->uses[0], CONTEXT(1));
    assert_ptr_equal(wait->uses[3], CONTEXT(0)); /* whose memory the call may be about */
    assert_ptr_equal(w->current, CONTEXT(0));
    wrk_wait_free(w, wait);
    assert_int_equal(created, 2);
    wrk_provider.cuEventRecord = record;
    wrk_wait_free(w, wait_for(0, 1));
    wrk_wait_free(w, wait_for(1, 1));
    assert_int_equal(created, 2);
    /* It is in the context: the handle is bad for another reason. */
    on_record = CUDA_ERROR_INVALID_HANDLE;
    wait = wrk_wait_internal(w, CONTEXT(1));
    assert_int_equal(wrk_wait_add_stream(w, wait, STREAM), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(wait->nevents, 0);
    wrk_wait_free(w, wait);
}

/* What no pool has room for is destroyed, and nothing is in two pools. */
static void test_bounds(void **state)
{
    struct wrk_wait *waits[8];
    unsigned n = 0;

    (void)state;
    while (n * WRK_WAIT_EVENTS < KEPT + 5)
        waits[n++] = wait_for(0, WRK_WAIT_EVENTS);
    assert_int_equal(created, n * WRK_WAIT_EVENTS);
    for (unsigned i = 0; i < n; i++)
        wrk_wait_free(w, waits[i]);
    assert_int_equal(destroyed, n * WRK_WAIT_EVENTS - KEPT);
    for (unsigned i = 1; i < WRK_EVENT_POOLS; i++)
        wrk_wait_free(w, wait_for(i, 1));
    assert_int_equal(destroyed, n * WRK_WAIT_EVENTS - KEPT);
    wrk_wait_free(w, wait_for(WRK_EVENT_POOLS, 1));
    assert_int_equal(destroyed, n * WRK_WAIT_EVENTS - KEPT + 1);
    assert_int_equal((uintptr_t)last_destroyed, 0x3000 + created - 1);
}

/* A context ends: its events go with it, once, and one that a wait still has is not kept for whoever is next there. */
static void test_forgotten(void **state)
{
    struct wrk_wait *late;

    (void)state;
    wrk_wait_free(w, wait_for(0, 4));
    wrk_wait_free(w, wait_for(1, 1));
    late = wait_for(0, 1);
    wrk_waits_forget_context(w, CONTEXT(0));
    assert_int_equal(destroyed, 3);
    wrk_waits_forget_context(w, CONTEXT(0));
    wrk_waits_forget_context(w, CONTEXT(7));
    assert_int_equal(destroyed, 3);
    wrk_wait_free(w, late); /* it ended with its context: neither destroyed nor kept */
    assert_int_equal(destroyed, 3);
    assert_int_equal(created, 5);
    wrk_wait_free(w, wait_for(0, 1));
    assert_int_equal(created, 6);
    wrk_wait_free(w, wait_for(1, 1)); /* that of the other context is there */
    assert_int_equal(created, 6);
}

/* The end of one context takes no event from another: what was made is in a pool, or was destroyed. */
static void test_conserved(void **state)
{
    enum { ROUNDS = 100, EVENTS = 3 };
    struct wrk_wait *late;

    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        late = wait_for(0, EVENTS);
        wrk_wait_free(w, wait_for(1, 1));
        wrk_waits_forget_context(w, CONTEXT(1)); /* destroys its event */
        wrk_wait_free(w, late);
    }
    assert_int_equal(created, EVENTS + ROUNDS);
    assert_int_equal(destroyed, ROUNDS);
    /* Also of a wait that was for another context first, and of one that has no room in the pool. */
    wrk_provider.cuStreamGetCtx = stream_context;
    wrk_provider.cuCtxSetCurrent = set_made_in;
    wrk_provider.cuEventRecord = record_in_1;
    w->current = made_in = CONTEXT(0);
    late = wait_for(0, 1);
    assert_ptr_equal(late->ctx, CONTEXT(1));
    wrk_waits_forget_context(w, CONTEXT(0));
    assert_int_equal(created - destroyed, 1);
    wrk_wait_free(w, late);
    wrk_waits_forget_context(w, CONTEXT(1));
    assert_int_equal(created, destroyed);
    assert_null(w->waits.holders);
}

/* Events made in a green context are of the context below: destroyed after the green one, gone after both. */
static void test_green(void **state)
{
    struct wrk_green_base green = {.ctx = CONTEXT(2), .base_ctx = CONTEXT(0)};

    (void)state;
    for (unsigned both = 0; both < 2; both++) {
        struct wrk_wait *late;

        wrk_green_base_add(&green);
        w->current = CONTEXT(2);
        late = wrk_wait_internal(w, CONTEXT(2));
        late->uses[1] = CONTEXT(0);
        assert_int_equal(wrk_wait_add_stream(w, late, STREAM), CUDA_SUCCESS);
        wrk_waits_forget_context(w, CONTEXT(2));
        wrk_green_base_remove(&green);
        if (both)
            wrk_waits_forget_context(w, CONTEXT(0));
        wrk_wait_free(w, late);
        assert_int_equal(created, both + 1);
        assert_int_equal(destroyed, 1);
        assert_null(w->waits.holders);
    }
    for (unsigned i = 0; i < WRK_EVENT_POOLS; i++)
        assert_ptr_not_equal(w->waits.pools[i].ctx, CONTEXT(2)); /* an address that may be used anew */
}

static bool gone;

static CUresult land(struct wrk_worker *worker, struct wrk_wait *wait, CUresult r)
{
    assert_ptr_equal(worker, w);
    gone = wait->context_gone;
    return r;
}

/* A call that has ended on its thread, and is not in the books yet: it hears of the end of its context, and of no other. */
static void test_ends_before_landing(void **state)
{
    (void)state;
    w->doorbell = eventfd(0, EFD_CLOEXEC);
    assert_true(w->doorbell >= 0);
    for (unsigned i = 0; i < 2; i++) {
        struct wrk_wait *wait = wrk_wait_internal(w, CONTEXT(0));

        assert_non_null(wait);
        wait->land = land;
        wrk_wait_start_internal(w, wait);
        wrk_waits_hand_over(w);
        for (unsigned ms = 0; ms < 10000 && !atomic_load(&w->waits.to_land); ms++)
            usleep(1000);
        assert_null(w->waits.flight);
        wrk_waits_context_ends(w, CONTEXT(i));
        wrk_waits_land(w);
        assert_int_equal(w->waits.landings, i + 1);
        assert_int_equal(gone, !i);
    }
    /* the threads that wait keep it */
}

static struct wrk_wait *late;

static CUresult destroy_and_end(CUevent e)
{
    struct wrk_wait *wait = late;

    late = NULL;
    if (wait)
        wrk_flight_leave(w, wait); /* another thread's, meanwhile */
    return destroy(e);
}

/* Of two events that were destroyed while they were waited for one wait is over, the other ends while the context's end looks
 * for them: none is destroyed after its context. */
static void test_borrowed_as_context_ends(void **state)
{
    struct wrk_wait *early = wrk_wait_internal(w, CONTEXT(0));
    unsigned before;

    (void)state;
    late = wrk_wait_internal(w, CONTEXT(0));
    assert_non_null(early);
    assert_non_null(late);
    for (unsigned i = 0; i < 2; i++) {
        struct wrk_wait *wait = i ? late : early;
        CUevent e = (CUevent)(uintptr_t)(0x4000 + i);

        wrk_wait_borrow(w, wait, e, CONTEXT(0));
        wrk_flight_enter(w, wait);
        assert_int_equal(wrk_event_destroy(w, e), CUDA_SUCCESS);
    }
    wrk_flight_leave(w, early);
    wrk_provider.cuEventDestroy_v2 = destroy_and_end;
    wrk_waits_context_ends(w, CONTEXT(0));
    assert_null(late);
    before = destroyed;
    assert_true(before >= 1);
    wrk_destroy_borrowed(w); /* the context has ended */
    assert_int_equal(destroyed, before);
    assert_int_equal(atomic_load(&w->waits.to_land), 0);
}

/* Nothing is recorded where nothing pends; errors are passed on and leave nothing behind. */
static void test_results(void **state)
{
    struct wrk_wait *wait = wait_for(0, 0);

    (void)state;
    on_query = CUDA_SUCCESS;
    assert_int_equal(wrk_wait_add_stream(w, wait, STREAM), CUDA_SUCCESS);
    on_query = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    assert_int_equal(wrk_wait_add_stream(w, wait, STREAM), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    on_query = CUDA_ERROR_NOT_READY;
    on_create = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(wrk_wait_add_stream(w, wait, STREAM), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(wait->nevents, 0);
    on_create = CUDA_SUCCESS;
    on_record = CUDA_ERROR_LAUNCH_FAILED;
    assert_int_equal(wrk_wait_add_stream(w, wait, STREAM), CUDA_ERROR_LAUNCH_FAILED);
    on_record = CUDA_SUCCESS;
    while (wait->nevents < WRK_WAIT_EVENTS)
        assert_int_equal(wrk_wait_add_stream(w, wait, STREAM), CUDA_SUCCESS);
    recorded = 0;
    assert_int_equal(wrk_wait_add_stream(w, wait, STREAM), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(recorded, 0);
    assert_int_equal(wait->nevents, WRK_WAIT_EVENTS);
    wrk_wait_free(w, wait);
    assert_int_equal(destroyed, 0);
    wrk_wait_free(w, wait_for(0, WRK_WAIT_EVENTS)); /* also that whose record failed is there again */
    assert_int_equal(created, WRK_WAIT_EVENTS);
}

/* A legacy stream beside others waits for them, which the provider is not asked about. */
static void test_legacy(void **state)
{
    (void)state;
    on_query = CUDA_SUCCESS;
    assert_int_equal(wrk_stream_query(w, NULL).state, WRK_COMPLETE);
    assert_int_equal(wrk_stream_query(w, CU_STREAM_LEGACY).state, WRK_COMPLETE);
    assert_int_equal(queries, 2);
    for (unsigned thread = 0; thread < 2; thread++) {
        w->handles.live[VGP_H_STREAM] = !thread;
        w->nthread_streams = thread;
        assert_int_equal(wrk_stream_query(w, NULL).state, WRK_RUNNING);
        assert_int_equal(wrk_stream_query(w, CU_STREAM_LEGACY).state, WRK_RUNNING);
        assert_int_equal(queries, 2 + thread);
        assert_int_equal(wrk_stream_query(w, STREAM).state, WRK_COMPLETE);
    }
}

static CUresult ended;
static unsigned ends;

static CUresult note_end(struct wrk_worker *of, struct wrk_wait *wait, CUresult r)
{
    (void)of;
    (void)wait;
    ends++;
    ended = r;
    return r;
}

/* An event that the provider gives an error for ends the wait with that error, and no other. */
static void test_unknown(void **state)
{
    static const CUresult errors[] = {CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_NOT_SUPPORTED};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct wrk_wait *wait = wait_for(0, 2);

        wait->blocking = false; /* as the wait of a call */
        wait->finish = note_end;
        ends = 0;
        on_event = CUDA_ERROR_NOT_READY;
        wrk_wait_start_internal(w, wait);
        assert_true(wrk_waits_poll(w));
        assert_int_equal(ends, 0);
        on_event = errors[i];
        assert_false(wrk_waits_poll(w));
        assert_int_equal(ends, 1);
        assert_int_equal(ended, errors[i]);
        assert_null(w->waits.flight);
        assert_int_equal(created, 2); /* its events are there for the next one */
    }
    assert_int_equal(destroyed, 0);
}

/* A stream that the provider gives an error for is not in the wait, which finish is told. */
static void test_context_unknown(void **state)
{
    struct vgp_record rec = {0};
    struct wrk_call c = {.w = w, .rec = &rec};
    struct wrk_wait *wait = wait_for(0, 0);

    (void)state;
    wait->blocking = false;
    on_query = CUDA_SUCCESS;
    assert_int_equal(wrk_wait_add_context(&c, wait), CUDA_SUCCESS);
    assert_false(wait->blocking);
    on_query = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    assert_int_equal(wrk_wait_add_context(&c, wait), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_true(wait->blocking);
    wrk_wait_free(w, wait);
}

static sem_t go_on;
static atomic_uint finished;

static CUresult finish_later(struct wrk_worker *of, struct wrk_wait *wait, CUresult r)
{
    (void)of;
    (void)wait;
    while (sem_wait(&go_on))
        continue;
    atomic_fetch_add(&finished, 1);
    return r;
}

static void hand_over_one(void)
{
    struct wrk_wait *wait = wrk_wait_internal(w, CONTEXT(0));

    assert_non_null(wait);
    wait->finish = finish_later;
    wrk_wait_start_internal(w, wait);
    wrk_waits_hand_over(w);
}

static atomic_bool over;

static CUresult finish_end(struct wrk_worker *of, struct wrk_wait *wait, CUresult r)
{
    (void)of;
    (void)wait;
    atomic_store(&over, true);
    return r;
}

static bool over_within(unsigned ms)
{
    while (ms-- && !atomic_load(&over))
        usleep(1000);
    return atomic_load(&over);
}

/* The end of a context waits for calls in it and for calls about its objects or those of its green
 * contexts, and for no other calls. */
static void test_context_ends_behind(void **state)
{
    struct vgp_record rec = {.reply_slot = VGP_NO_REPLY};
    struct wrk_call c = {.w = w, .rec = &rec, .other = {CONTEXT(3), CONTEXT(4)}};
    static const struct {
        unsigned context;
        bool many, behind;
    } ends_of[] = {{0, false, true}, {3, false, true}, {4, false, true}, {5, false, false}, {5, true, true}};

    (void)state;
    w->current = CONTEXT(0);
    w->sock = w->doorbell = -1;
    assert_int_equal(sem_init(&go_on, 0, 0), 0);
    for (unsigned i = 0; i < sizeof(ends_of) / sizeof(ends_of[0]); i++) {
        c.many = ends_of[i].many;
        struct wrk_wait *call = wrk_wait_new(&c), *end = wrk_wait_internal(w, NULL);

        assert_non_null(call);
        assert_non_null(end);
        call->blocking = true;
        call->finish = finish_later;
        end->ends = CONTEXT(ends_of[i].context);
        end->finish = finish_end;
        atomic_store(&finished, 0);
        atomic_store(&over, false);
        wrk_wait_start_internal(w, call);
        wrk_wait_start_internal(w, end);
        wrk_waits_hand_over(w);
        assert_int_equal(over_within(ends_of[i].behind ? 50 : 20000), !ends_of[i].behind);
        assert_int_equal(atomic_load(&finished), 0);
        sem_post(&go_on);
        assert_true(over_within(20000));
        for (unsigned ms = 0; ms < 20000 && !atomic_load(&finished); ms++)
            usleep(1000);
        assert_int_equal(atomic_load(&finished), 1);
    }
}

/* Without any waiter thread the worker exits with a message: the call would have no answer. */
static void test_no_waiter(void **state)
{
    int status = 0;
    pid_t child;

    (void)state;
    w->sock = w->doorbell = -1;
    child = fork();
    assert_true(child >= 0);
    if (!child) {
        wrk_client_limits.threads = 1;
        hand_over_one();
        _exit(99);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
}

/* When no further waiter can be started, calls queue for the existing one; each later call tries again. */
static void test_few_waiters(void **state)
{
    enum { CALLS = 2 * WRK_WAITERS_MAX };

    (void)state;
    w->sock = w->doorbell = -1;
    assert_int_equal(sem_init(&go_on, 0, 0), 0);
    atomic_store(&finished, 0);
    hand_over_one();
    assert_int_equal(w->waits.threads, 1);
    wrk_client_limits.threads = 1;
    for (unsigned i = 1; i < CALLS; i++)
        hand_over_one();
    assert_int_equal(w->waits.threads, 1);
    wrk_client_limits.threads = 0;
    hand_over_one();
    assert_int_equal(w->waits.threads, 2);
    for (unsigned i = 0; i <= CALLS; i++)
        sem_post(&go_on);
    for (unsigned ms = 0; ms < 20000 && atomic_load(&finished) <= CALLS; ms++)
        usleep(1000);
    assert_int_equal(atomic_load(&finished), CALLS + 1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup(f, setup)
    const struct CMUnitTest tests[] = {T(test_kept),
                                       T(test_other_context),
                                       T(test_bounds),
                                       T(test_forgotten),
                                       T(test_conserved),
                                       T(test_green),
                                       T(test_results),
                                       T(test_legacy),
                                       T(test_unknown),
                                       T(test_context_unknown),
                                       T(test_ends_before_landing),
                                       T(test_context_ends_behind),
                                       T(test_no_waiter),
                                       T(test_few_waiters),
                                       T(test_borrowed_as_context_ends)};

    return cmocka_run_group_tests_name("waits", tests, NULL, NULL);
}
