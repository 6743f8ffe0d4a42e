/* SPDX-License-Identifier: MIT */
/* What the window is told of a watched event: complete when the provider says so, and never for an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../calls.h"

#define EVENT VGP_HANDLE(VGP_H_EVENT, 1, 3)
#define WORD 5u
#define SEQUENCE 9u

static struct wrk_worker w;
static struct vgp_window_shared shared;
static int object;
static CUresult on_query;

static CUresult query(CUevent e)
{
    assert_ptr_equal(e, &object);
    return on_query;
}

static int setup(void **state)
{
    (void)state;
    memset(&w, 0, sizeof(w));
    memset(&shared, 0, sizeof(shared));
    w.win.shared = &shared;
    memset(&wrk_provider, 0, sizeof(wrk_provider));
    wrk_provider.cuEventQuery = query;
    assert_int_equal(wrk_handles_reserve(&w.handles, EVENT, VGP_H_EVENT), CUDA_SUCCESS);
    wrk_handles_put(&w.handles, EVENT, VGP_H_EVENT, &object, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    wrk_handles_fini(&w.handles);
    return 0;
}

static CUresult watch_in(uint32_t word, uint32_t sequence, CUresult answer)
{
    struct vgp_record rec = {0};
    struct wrk_call c = {.w = &w, .rec = &rec};

    on_query = answer;
    return wrk_watch_begin(&c, EVENT, word, sequence, wrk_ask_event(&wrk_provider, (CUevent)(void *)&object));
}

static CUresult watch(CUresult answer)
{
    return watch_in(WORD, SEQUENCE, answer);
}

static void test_answers(void **state)
{
    static const struct {
        CUresult then;
        uint32_t said;
    } cases[] = {
        {CUDA_SUCCESS, SEQUENCE},
        {CUDA_ERROR_LAUNCH_FAILED, SEQUENCE | VGP_WATCH_ASK},
        {CUDA_ERROR_CONTEXT_IS_DESTROYED, SEQUENCE | VGP_WATCH_ASK},
        {CUDA_ERROR_NOT_SUPPORTED, SEQUENCE | VGP_WATCH_ASK},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        shared.watch[WORD] = 0;
        assert_int_equal(watch(CUDA_ERROR_NOT_READY), CUDA_ERROR_NOT_READY);
        assert_true(wrk_watches_poll(&w, 0));
        assert_int_equal(shared.watch[WORD], 0);
        on_query = cases[i].then;
        assert_false(wrk_watches_poll(&w, 0));
        assert_int_equal(shared.watch[WORD], cases[i].said);
    }
}

/* An error at once is the call's own answer, and nothing is watched; so is a provider that cannot be asked. */
static void test_at_once(void **state)
{
    (void)state;
    assert_int_equal(watch(CUDA_ERROR_LAUNCH_FAILED), CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(wrk_watches, 0);
    wrk_provider.cuEventQuery = NULL;
    assert_int_equal(watch(CUDA_SUCCESS), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(wrk_watches, 0);
    assert_int_equal(shared.watch[WORD], 0);
}

/* Before the dispatcher sleeps, what is still watched is given back. */
static void test_end(void **state)
{
    (void)state;
    assert_int_equal(watch(CUDA_ERROR_NOT_READY), CUDA_ERROR_NOT_READY);
    wrk_watches_end(&w);
    assert_int_equal(shared.watch[WORD], SEQUENCE | VGP_WATCH_ASK);
    assert_int_equal(wrk_watches, 0);
}

/* Each word of the window is watched, the first and the last one too, and each for itself. */
static void test_all_words(void **state)
{
    (void)state;
    for (unsigned how = 0; how < 2; how++) {
        memset(&shared, 0, sizeof(shared));
        for (uint32_t i = 0; i < VGP_WATCHES; i++)
            assert_int_equal(watch_in(i, 100 + i, CUDA_ERROR_NOT_READY), CUDA_ERROR_NOT_READY);
        assert_int_equal(wrk_watches, VGP_WATCHES);
        assert_true(wrk_watches_poll(&w, 0));
        if (how) {
            wrk_watches_end(&w);
        } else {
            on_query = CUDA_SUCCESS;
            assert_false(wrk_watches_poll(&w, 0));
        }
        for (uint32_t i = 0; i < VGP_WATCHES; i++)
            assert_int_equal(shared.watch[i], (100 + i) | (how ? VGP_WATCH_ASK : 0));
        assert_int_equal(wrk_watches, 0);
    }
}

/* A word that gets another watch: the client of the first one is asked again, and one watch is left. */
static void test_word_again(void **state)
{
    (void)state;
    assert_int_equal(watch(CUDA_ERROR_NOT_READY), CUDA_ERROR_NOT_READY);
    assert_int_equal(watch_in(WORD, SEQUENCE + 1, CUDA_ERROR_NOT_READY), CUDA_ERROR_NOT_READY);
    assert_int_equal(shared.watch[WORD], SEQUENCE | VGP_WATCH_ASK);
    assert_int_equal(wrk_watches, 1);
    on_query = CUDA_SUCCESS;
    assert_false(wrk_watches_poll(&w, 0));
    assert_int_equal(shared.watch[WORD], SEQUENCE + 1);
    /* Also where the second query has its answer at once. */
    assert_int_equal(watch(CUDA_ERROR_NOT_READY), CUDA_ERROR_NOT_READY);
    assert_int_equal(watch_in(WORD, SEQUENCE + 1, CUDA_SUCCESS), CUDA_SUCCESS);
    assert_int_equal(shared.watch[WORD], SEQUENCE | VGP_WATCH_ASK);
    assert_int_equal(wrk_watches, 0);
}

/* A watch that takes too long, or whose event has ended, is given back to the client. */
static void test_given_back(void **state)
{
    (void)state;
    assert_int_equal(watch(CUDA_ERROR_NOT_READY), CUDA_ERROR_NOT_READY);
    assert_false(wrk_watches_poll(&w, UINT64_MAX));
    assert_int_equal(shared.watch[WORD], SEQUENCE | VGP_WATCH_ASK);
    assert_int_equal(wrk_watches, 0);
    shared.watch[WORD] = 0;
    assert_int_equal(watch(CUDA_ERROR_NOT_READY), CUDA_ERROR_NOT_READY);
    assert_true(wrk_handles_remove(&w.handles, EVENT, VGP_H_EVENT));
    assert_false(wrk_watches_poll(&w, 0));
    assert_int_equal(shared.watch[WORD], SEQUENCE | VGP_WATCH_ASK);
    assert_int_equal(wrk_watches, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_all_words, setup, teardown),
        cmocka_unit_test_setup_teardown(test_word_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_given_back, setup, teardown),
    };

    return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
