/* SPDX-License-Identifier: MIT */
/* Device memory: allocation, gaps, quota, the access check, and the table under threads. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "memory/arena.h"
#include "memory/grace.h"
#include "memory/table.h"

struct sg_config sg_config = {.ndevices = 1, .cc = {{8, 0}}, .memory = 64ull << 20, .threads = 1};

static struct sg_space space_a = {.id = 1}, space_b = {.id = 2};
#define CTX(space) ((struct sg_ctx *)(void *)&(space))

static int setup(void **state)
{
    (void)state;
    return sg_mem_init() == CUDA_SUCCESS ? 0 : -1;
}

static uint64_t take(struct sg_ctx *c, uint64_t size)
{
    uint64_t a = 0;

    assert_int_equal(sg_mem_alloc(c, SG_MEM_DEVICE, size, 0, &a), CUDA_SUCCESS);
    return a;
}

static void test_alignment_and_zero(void **state)
{
    static const uint64_t sizes[] = {1, 511, 512, 513, 4096, 100000, 3 << 20};
    uint64_t a[7];

    (void)state;
    for (int i = 0; i < 7; i++) {
        a[i] = take(CTX(space_a), sizes[i]);
        assert_int_equal(a[i] % 512, 0);
        for (uint64_t k = 0; k < sizes[i]; k += 97)
            assert_int_equal(((uint8_t *)a[i])[k], 0);
        memset((void *)a[i], 0xff, sizes[i]);
    }
    for (int i = 0; i < 7; i++)
        assert_true(sg_mem_release(a[i]));
    /* What comes next must not see what was there. */
    for (int i = 0; i < 7; i++) {
        a[i] = take(CTX(space_a), sizes[i]);
        for (uint64_t k = 0; k < sizes[i]; k++)
            assert_int_equal(((uint8_t *)a[i])[k], 0);
    }
    for (int i = 0; i < 7; i++)
        assert_true(sg_mem_release(a[i]));
}

static uint64_t released_at_once; /* 0: nothing is */

/* In place of the C library's: as if another thread had come between. */
int pthread_mutex_unlock(pthread_mutex_t *m)
{
    static int (*real)(pthread_mutex_t *);
    const uint64_t a = released_at_once;

    if (!real)
        real = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_unlock");
    const int r = real(m);

    if (a && m == &sg_mem_lock) {
        released_at_once = 0;
        assert_true(sg_mem_release(a));
    }
    return r;
}

/* Another thread releases memory as soon as it is there, before the call that allocates it has returned. */
static void test_released_at_once(void **state)
{
    const uint64_t a = take(CTX(space_a), 5000);

    (void)state;
    assert_true(sg_mem_release(a));
    mallopt(M_PERTURB, 0xa5); /* what is freed is no more what it was */
    released_at_once = a;
    assert_int_equal(take(CTX(space_a), 5000), a);
    mallopt(M_PERTURB, 0);
    assert_int_equal(released_at_once, 0);
    assert_false(sg_mem_release(a));
}

/* Its address is another allocation's since: that stays. */
static void test_release_by_id(void **state)
{
    const uint64_t a = take(CTX(space_a), 5000);
    struct sg_mem_info was, is;
    uint64_t b;

    (void)state;
    assert_true(sg_mem_find(a, &was));
    assert_true(sg_mem_release(a));
    assert_int_equal(take(CTX(space_a), 5000), a);
    assert_true(sg_mem_find(a, &is));
    assert_false(sg_mem_begin_free(a, was.id));
    assert_false(sg_mem_release_same(a, was.id));
    sg_mem_release_internal(a, space_a.id);
    assert_true(sg_mem_begin_free(a, is.id));
    assert_true(sg_mem_release_same(a, is.id));
    assert_int_equal(sg_mem_alloc_internal(CTX(space_a), space_a.id, SG_MEM_DEVICE, 512, 0, &b),
                     CUDA_SUCCESS);
    sg_mem_release_internal(b, space_b.id);
    assert_true(sg_mem_find(b, &is));
    sg_mem_release_internal(b, space_a.id);
    assert_false(sg_mem_find(b, &is));
}

static void test_bounds_are_exact(void **state)
{
    uint64_t a = take(CTX(space_a), 1000), b = take(CTX(space_a), 1000);
    struct sg_mem_range hit;

    (void)state;
    assert_true(sg_mem_check(CTX(space_a), a, 1000, true, &hit));
    assert_int_equal(hit.base, a);
    assert_int_equal(hit.end, a + 1000);
    assert_true(hit.writable);
    assert_true(sg_mem_check(CTX(space_a), a + 999, 1, false, &hit));
    assert_false(sg_mem_check(CTX(space_a), a + 999, 2, false, &hit));
    assert_false(sg_mem_check(CTX(space_a), a + 1000, 1, false, &hit));
    assert_false(sg_mem_check(CTX(space_a), a - 1, 1, false, &hit));
    assert_false(sg_mem_check(CTX(space_a), a, 1001, false, &hit));
    assert_false(sg_mem_check(CTX(space_a), a + 4, UINT64_MAX, false, &hit));
    assert_false(sg_mem_check(CTX(space_a), 0, 4, false, &hit));
    assert_false(sg_mem_check(CTX(space_a), UINT64_MAX - 3, 8, false, &hit));
    assert_true(b >= a + 1000 + 512 || a >= b + 1000 + 512); /* the gap */
    assert_true(sg_mem_release(a));
    assert_true(sg_mem_release(b));
    assert_false(sg_mem_release(b));
}

static void test_contexts_are_apart(void **state)
{
    uint64_t a = take(CTX(space_a), 64), m;
    struct sg_mem_range hit;

    (void)state;
    assert_true(sg_mem_check(CTX(space_a), a, 4, true, &hit));
    assert_false(sg_mem_check(CTX(space_b), a, 4, true, &hit));
    assert_int_equal(sg_mem_alloc(CTX(space_a), SG_MEM_MANAGED, 64, 0, &m), CUDA_SUCCESS);
    assert_true(sg_mem_check(CTX(space_b), m, 4, true, &hit));
    sg_mem_release_owned(CTX(space_a));
    assert_false(sg_mem_check(CTX(space_a), a, 4, true, &hit));
    assert_false(sg_mem_check(CTX(space_b), m, 4, true, &hit));
    /* Nothing releases what a thread that is late would add, until the context is there anew. */
    assert_int_equal(sg_mem_alloc(CTX(space_a), SG_MEM_DEVICE, 64, 0, &a), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_int_equal(sg_mem_add_host(CTX(space_a), SG_MEM_HOST, &hit, sizeof(hit), 0, true),
                     CUDA_ERROR_CONTEXT_IS_DESTROYED);
    space_a.id = 3;
    assert_true(sg_mem_release(take(CTX(space_a), 64)));
}

static void test_generation(void **state)
{
    uint64_t before, a = take(CTX(space_a), 64);
    struct sg_mem_range hit;

    (void)state;
    before = sg_mem_generation;
    assert_true(sg_mem_check(CTX(space_a), a, 4, true, &hit));
    assert_int_equal(hit.generation, before);
    assert_true(sg_mem_release(a));
    assert_true(sg_mem_generation != before);
}

/* Kernels access the memory of each enabled peer context, up to the maximum, until it is disabled. */
static void test_peers(void **state)
{
    static struct sg_space peer[SG_MAX_PEERS + 1], self = {.id = 2000};
    uint64_t at[SG_MAX_PEERS + 1], before;
    struct sg_mem_range hit;

    (void)state;
    for (unsigned i = 0; i <= SG_MAX_PEERS; i++) {
        peer[i].id = 1000 + i;
        at[i] = take(CTX(peer[i]), 64);
        assert_false(sg_mem_check(CTX(self), at[i], 4, true, &hit));
        assert_int_equal(sg_mem_add_peer(CTX(self), peer[i].id),
                         i < SG_MAX_PEERS ? CUDA_SUCCESS : CUDA_ERROR_TOO_MANY_PEERS);
    }
    for (unsigned i = 0; i < SG_MAX_PEERS; i++) {
        assert_int_equal(sg_mem_add_peer(CTX(self), peer[i].id), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
        assert_true(sg_mem_check(CTX(self), at[i], 4, true, &hit));
        assert_false(sg_mem_check(CTX(peer[i]), at[(i + 1) % SG_MAX_PEERS], 4, false, &hit)); /* one way */
    }
    assert_false(sg_mem_check(CTX(self), at[SG_MAX_PEERS], 4, true, &hit));
    for (unsigned i = 0; i < SG_MAX_PEERS; i++) {
        assert_true(sg_mem_check(CTX(self), at[i], 4, true, &hit));
        before = hit.generation;
        assert_true(sg_mem_drop_peer(CTX(self), peer[i].id));
        assert_true(sg_mem_generation != before); /* what a kernel has looked up is stale */
        assert_false(sg_mem_check(CTX(self), at[i], 4, true, &hit));
        assert_false(sg_mem_drop_peer(CTX(self), peer[i].id));
        /* The slot is reused by another peer. */
        assert_int_equal(sg_mem_add_peer(CTX(self), peer[SG_MAX_PEERS].id), CUDA_SUCCESS);
        assert_true(sg_mem_check(CTX(self), at[SG_MAX_PEERS], 4, true, &hit));
        assert_true(sg_mem_drop_peer(CTX(self), peer[SG_MAX_PEERS].id));
    }
    for (unsigned i = 0; i <= SG_MAX_PEERS; i++)
        assert_true(sg_mem_release(at[i]));
}

static void test_quota(void **state)
{
    uint64_t f0, f1, total, a, b, c = 0;

    (void)state;
    sg_mem_usage(0, &f0, &total);
    assert_int_equal(total, 64 << 20);
    assert_int_equal(f0, total);
    a = take(CTX(space_a), 40 << 20);
    assert_int_equal(sg_mem_alloc(CTX(space_a), SG_MEM_DEVICE, 25 << 20, 0, &c), CUDA_ERROR_OUT_OF_MEMORY);
    b = take(CTX(space_a), 24 << 20); /* exactly what is left */
    sg_mem_usage(0, &f1, &total);
    assert_int_equal(f1, 0);
    assert_int_equal(sg_mem_alloc(CTX(space_a), SG_MEM_DEVICE, 1, 0, &c), CUDA_ERROR_OUT_OF_MEMORY);
    assert_true(sg_mem_release(a));
    c = take(CTX(space_a), 25 << 20); /* the failure was not for ever */
    assert_true(sg_mem_release(b));
    assert_true(sg_mem_release(c));
    sg_mem_usage(0, &f1, &total);
    assert_int_equal(f1, f0);
    assert_int_equal(sg_mem_alloc(CTX(space_a), SG_MEM_DEVICE, UINT64_MAX, 0, &c), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(sg_mem_alloc(CTX(space_a), SG_MEM_DEVICE, 0, 0, &c), CUDA_ERROR_INVALID_VALUE);
}

static void test_host_ranges(void **state)
{
    static char buf[4096];
    struct sg_mem_range hit;
    uint64_t p = (uint64_t)(uintptr_t)buf;

    (void)state;
    assert_int_equal(sg_mem_add_host(CTX(space_a), SG_MEM_REGISTERED, buf, 1024, 0, false), CUDA_SUCCESS);
    assert_int_equal(sg_mem_add_host(CTX(space_a), SG_MEM_REGISTERED, buf + 1023, 10, 0, true),
                     CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    assert_int_equal(sg_mem_add_host(CTX(space_a), SG_MEM_REGISTERED, buf + 1024, 10, 0, true), CUDA_SUCCESS);
    assert_true(sg_mem_check(CTX(space_b), p, 1024, false, &hit));
    assert_false(hit.writable);
    assert_false(sg_mem_check(CTX(space_b), p, 4, true, &hit)); /* read-only */
    assert_true(sg_mem_check(CTX(space_b), p + 1024, 10, true, &hit));
    assert_false(sg_mem_check(CTX(space_b), p, 1025, false, &hit)); /* two allocations */
    assert_true(sg_mem_release(p));
    assert_true(sg_mem_release(p + 1024));
}

/* Private memory is in the table, and yet nobody's kernels reach it and no lookup finds it. */
static void test_private(void **state)
{
    static _Alignas(4096) uint8_t mine[8192];
    const uint64_t p = (uint64_t)(uintptr_t)mine;
    struct sg_mem_range hit;
    struct sg_mem_info info;

    (void)state;
    assert_int_equal(sg_host_register_private(mine, sizeof(mine)), CUDA_SUCCESS);
    for (int write = 0; write < 2; write++) {
        assert_false(sg_mem_check(CTX(space_a), p, 4, write, &hit));
        assert_false(sg_mem_check(CTX(space_b), p + 8000, 4, write, &hit));
        assert_false(sg_mem_check(NULL, p, 4, write, &hit));
    }
    assert_false(sg_mem_find(p, &info));
    assert_false(sg_mem_covers(p, 4, &info));
    assert_true(sg_mem_is_private(p, 8192));
    assert_false(sg_mem_is_private(p, 8193));
    assert_false(sg_mem_is_private(p - 1, 2));
}

static void test_many_and_reuse(void **state)
{
    enum { N = 3000 };
    static uint64_t a[N];
    struct sg_mem_info info;

    (void)state;
    for (int i = 0; i < N; i++)
        a[i] = take(CTX(space_a), 100 + (uint64_t)i);
    for (int i = 0; i < N; i += 2)
        assert_true(sg_mem_release(a[i]));
    for (int i = 1; i < N; i += 2) {
        assert_true(sg_mem_find(a[i] + 99, &info));
        assert_int_equal(info.base, a[i]);
        assert_int_equal(info.size, 100 + i);
    }
    for (int i = 0; i < N; i += 2) {
        a[i] = take(CTX(space_a), 100 + (uint64_t)i);
        for (int k = 0; k < 100; k++)
            assert_int_equal(((uint8_t *)a[i])[k], 0);
    }
    for (int i = 0; i < N; i++)
        assert_true(sg_mem_release(a[i]));
}

/* ---- what grows with the number of allocations ---- */

static double thread_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Processor time of freeing and allocating from all over n live allocations. */
static double churn_us(unsigned n)
{
    enum { TIMES = 2000 };
    uint64_t *a = malloc(n * sizeof(*a));

    assert_non_null(a);
    for (unsigned i = 0; i < n; i++)
        a[i] = take(CTX(space_a), 64);
    for (unsigned i = 0; i < n; i++)
        *(uint8_t *)a[i] = 1;
    const double start = thread_us();

    for (uint64_t i = 0; i < TIMES; i++) {
        uint64_t *at = &a[i * 7919 % n];

        assert_true(sg_mem_release(*at));
        *at = take(CTX(space_a), 64);
    }
    const double us = thread_us() - start;

    for (unsigned i = 0; i < n; i++)
        assert_true(sg_mem_release(a[i]));
    free(a);
    return us;
}

/* 100 times as many: caches are colder and trees deeper. With a sorted array it was more than 80
   times as much. */
static void test_cost_with_many(void **state)
{
    double few = churn_us(600), many = churn_us(60000), again = churn_us(600);

    (void)state;
    few = few > again ? few : again;
    if (many > 12 * few)
        fail_msg("%.0f us with 60000 allocations, %.0f with 600", many, few);
}

enum { UNITS = 2000 };
static bool model_taken[UNITS]; /* what the arena has given, beside it */

static bool model_free(uint64_t at, uint64_t len)
{
    for (uint64_t i = at; i < at + len; i++)
        if (i >= UNITS || model_taken[i])
            return false;
    return true;
}

static bool model_take(uint64_t len, uint64_t align, uint64_t *at)
{
    for (*at = 0; *at < UNITS; *at += align)
        if (model_free(*at, len))
            return true;
    return false;
}

/*
 * Takes the lowest place that fits, or the one that was asked for; gives back in any order. Behind
 * many holes that an alignment cannot use it may be a higher place.
 */
static void test_arena_beside_a_model(void **state)
{
    struct {
        uint64_t at, len;
    } piece[400];
    unsigned n = 0;
    struct sg_arena a;
    uint64_t at, want;

    (void)state;
    srandom(4);
    assert_true(sg_arena_init(&a, 0, UNITS));
    for (unsigned step = 0; step < 20000; step++) {
        const uint64_t len = 1 + (uint64_t)random() % 9, align = UINT64_C(1) << random() % 5;
        const bool there = random() % 4 == 0;
        bool got, due;

        if (n == 400 || (n && random() % 8 < (step / 4000 % 2 ? 5 : 3))) {
            const unsigned k = (unsigned)random() % n;

            sg_arena_give(&a, piece[k].at, piece[k].len);
            memset(&model_taken[piece[k].at], 0, piece[k].len);
            piece[k] = piece[--n];
            continue;
        }
        at = want = (uint64_t)random() % UNITS;
        due = there ? model_free(want, len) : model_take(len, align, &want);
        got = there ? sg_arena_take_at(&a, at, len) : sg_arena_take(&a, len, align, &at);
        assert_int_equal(got, due);
        if (!got)
            continue;
        assert_true(model_free(at, len) && (there || at % align == 0));
        assert_true(at == want || (!there && align > 1 && at > want));
        memset(&model_taken[at], 1, len);
        piece[n].at = at;
        piece[n++].len = len;
    }
    while (n--)
        sg_arena_give(&a, piece[n].at, piece[n].len);
    assert_int_equal(a.holes.count, 1);
    btr_fini(&a.holes);
}

static _Atomic bool stop;
static uint64_t steady;

static void *reader(void *arg)
{
    uint64_t *bad = arg;
    struct sg_mem_range hit;

    while (!stop) {
        if (!sg_mem_check(CTX(space_a), steady + 8, 8, true, &hit) || hit.base != steady)
            (*bad)++;
        if (sg_mem_check(CTX(space_a), steady - 1, 1, false, &hit) && hit.base <= steady && hit.end > steady)
            (*bad)++;
    }
    return NULL;
}

static void test_readers_during_changes(void **state)
{
    pthread_t t[2];
    uint64_t bad[2] = {0, 0}, a[16] = {0};

    (void)state;
    steady = take(CTX(space_a), 4096);
    stop = false;
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, reader, &bad[i]);
    for (int i = 0; i < 20000; i++) {
        if (a[i % 16])
            sg_mem_release(a[i % 16]);
        a[i % 16] = take(CTX(space_a), 64);
    }
    stop = true;
    for (int i = 0; i < 2; i++) {
        pthread_join(t[i], NULL);
        assert_int_equal(bad[i], 0);
    }
    sg_mem_release_owned(CTX(space_a));
}

/* ---- grace periods: many readers that look up and use, and one that takes away ---- */

static uint32_t *_Atomic shown; /* what may be used: a reader that finds a cell expects 1 in it */

static void *user(void *arg)
{
    uint64_t *bad = arg;

    sg_grace_enter();
    for (uint32_t i = 0; !stop; i++) {
        uint32_t *p = shown;

        for (int k = 0; k < 20 && p; k++)
            *bad += __atomic_load_n(p, __ATOMIC_RELAXED) != 1;
        if (i % 3) {
            sg_grace_pass();
        } else {
            sg_grace_leave();
            sg_grace_enter();
        }
        if (i % 7 == 0) { /* pairs inside of pairs end nothing */
            sg_grace_enter();
            p = shown;
            sg_grace_leave();
            *bad += p && __atomic_load_n(p, __ATOMIC_RELAXED) != 1;
        }
    }
    sg_grace_leave();
    return NULL;
}

static void test_grace(void **state)
{
    enum { THREADS = 4, CELLS = 64 };
    uint64_t bad[THREADS] = {0};
    pthread_t t[THREADS];
    uint32_t cells[CELLS];

    (void)state;
    for (int round = 0; round < 3; round++) { /* records of threads that ended are used again */
        stop = false;
        for (int i = 0; i < THREADS; i++)
            pthread_create(&t[i], NULL, user, &bad[i]);
        for (int i = 0; i < 5000; i++) {
            uint32_t *c = &cells[i % CELLS];

            __atomic_store_n(c, 1, __ATOMIC_RELAXED);
            shown = c;
            if (i % 2)
                sg_grace_enter(); /* of the waiting thread itself nothing is waited for */
            shown = NULL;
            sg_grace_wait();
            if (i % 2)
                sg_grace_leave();
            __atomic_store_n(c, 0, __ATOMIC_RELAXED);
        }
        stop = true;
        for (int i = 0; i < THREADS; i++) {
            pthread_join(t[i], NULL);
            assert_int_equal(bad[i], 0);
        }
    }
    sg_grace_wait(); /* nobody is there */
}

static _Atomic bool waited;

static void *waiter(void *arg)
{
    (void)arg;
    sg_grace_wait();
    waited = true;
    return NULL;
}

/* One reader that stays: who waits goes on when it leaves, and not before. */
static void test_grace_waits(void **state)
{
    pthread_t t;

    (void)state;
    sg_grace_enter();
    waited = false;
    pthread_create(&t, NULL, waiter, NULL);
    usleep(50000); /* time for a waiter that does not wait */
    assert_false(waited);
    sg_grace_leave();
    pthread_join(t, NULL);
    assert_true(waited);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alignment_and_zero),
        cmocka_unit_test(test_released_at_once),
        cmocka_unit_test(test_release_by_id),
        cmocka_unit_test(test_bounds_are_exact),
        cmocka_unit_test(test_contexts_are_apart),
        cmocka_unit_test(test_generation),
        cmocka_unit_test(test_peers),
        cmocka_unit_test(test_quota),
        cmocka_unit_test(test_host_ranges),
        cmocka_unit_test(test_private),
        cmocka_unit_test(test_many_and_reuse),
        cmocka_unit_test(test_cost_with_many),
        cmocka_unit_test(test_arena_beside_a_model),
        cmocka_unit_test(test_readers_during_changes),
        cmocka_unit_test(test_grace),
        cmocka_unit_test(test_grace_waits),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
