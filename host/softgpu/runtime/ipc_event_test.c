/* SPDX-License-Identifier: MIT */
/* Shared events over a transport of this test, which has the page as another holder has it. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "memory/share.h"
#include "runtime/ipc_event.h"

#define ME 7u
#define THIRD 9u
#define EVIL 11u

/* As runtime/sg_ipc_event.c has it. */
struct other_page {
    struct sg_share_head head;
    _Atomic uint64_t next, latest;
    struct {
        _Atomic uint64_t state;
        _Atomic uint32_t holder;
        uint32_t zero;
    } records[128];
};

static int file = -1;
static uint8_t last_token;

int sg_share_create(uint32_t kind, uint64_t bytes, uint8_t *token, uint32_t *holder)
{
    assert_int_equal(kind, SG_SHARE_EVENT);
    if (file >= 0)
        close(file);
    file = memfd_create("event", MFD_CLOEXEC);
    assert_int_equal(ftruncate(file, (off_t)bytes), 0);
    memset(token, ++last_token, SG_SHARE_TOKEN);
    *holder = ME;
    return dup(file);
}

int sg_share_open(uint32_t kind, const uint8_t *token, uint64_t *bytes, uint32_t *holder)
{
    assert_int_equal(kind, SG_SHARE_EVENT);
    assert_int_equal(token[0], last_token);
    *bytes = 4096;
    *holder = ME;
    return dup(file);
}

void sg_share_close(const uint8_t *token)
{
    (void)token;
}

bool sg_share_gone(uint32_t holder)
{
    (void)holder;
    return false;
}

static struct other_page *map(void)
{
    struct other_page *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

    assert_ptr_not_equal(p, MAP_FAILED);
    return p;
}

/* As a hostile holder does. */
static uint64_t record_as(struct other_page *p, uint32_t holder)
{
    const uint64_t n = ++p->next;

    p->records[n % 128].holder = holder;
    p->records[n % 128].state = 2 * n;
    p->latest = n;
    return n;
}

/* What another holder has entered in this process's name ends with that holder; what is this
   process's own does not. */
static void test_in_our_name(void **state)
{
    struct sg_ipc_event *x = sg_ipc_event_new();
    struct other_page *p;
    uint64_t own, false_one, of_third;
    uint32_t wake;

    (void)state;
    assert_non_null(x);
    p = map();
    p->head.holders[1] = THIRD;
    p->head.holders[2] = EVIL;
    own = sg_ipc_event_record(x);
    false_one = record_as(p, ME);
    of_third = record_as(p, THIRD);
    assert_false(sg_ipc_event_done(x, own));
    assert_false(sg_ipc_event_done(x, false_one));

    p->head.holders[2] = 0;
    wake = p->head.wake;
    sg_share_holder_gone();
    assert_true(sg_ipc_event_done(x, false_one));
    assert_int_not_equal(p->head.wake, wake);
    sg_ipc_event_wait(x, false_one);
    assert_false(sg_ipc_event_done(x, own));
    assert_false(sg_ipc_event_done(x, of_third)); /* the third one's to say */

    sg_ipc_event_complete(x, own);
    assert_true(sg_ipc_event_done(x, own));
    /* The number of a record that has completed, pending again. */
    p->records[own % 128].state = 2 * own;
    assert_false(sg_ipc_event_done(x, own));
    sg_share_holder_gone();
    assert_true(sg_ipc_event_done(x, own));
    munmap(p, 4096);
    sg_ipc_event_end(x);
}

/* A thread of another holder, asleep on the page for as long as nobody wakes it. */
struct sleeper {
    struct other_page *page;
    uint32_t seen;
    _Atomic pid_t tid;
    long result;
};

static void *sleeper_main(void *arg)
{
    const struct timespec long_time = {30, 0};
    struct sleeper *s = arg;

    s->tid = (pid_t)syscall(SYS_gettid);
    s->result = syscall(SYS_futex, &s->page->head.wake, FUTEX_WAIT, s->seen, &long_time, NULL, 0);
    return NULL;
}

static bool sleeper_sleeps(const struct sleeper *s)
{
    char path[64], state = 0;
    FILE *f;

    if (!s->tid)
        return false;
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)s->tid);
    f = fopen(path, "re");
    if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
        state = 0;
    if (f)
        fclose(f);
    return state == 'S';
}

/* The completion of a record wakes sleeping waiters of other processes, which need not poll. */
static void test_wakes(void **state)
{
    struct sg_ipc_event *x = sg_ipc_event_new();
    struct other_page *p;

    (void)state;
    assert_non_null(x);
    p = map();
    for (unsigned false_one = 0; false_one < 2; false_one++) {
        struct sleeper s = {.page = p, .seen = p->head.wake};
        uint64_t n = false_one ? record_as(p, ME) : sg_ipc_event_record(x);
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, sleeper_main, &s), 0);
        for (unsigned ms = 0; ms < 20000 && !sleeper_sleeps(&s); ms++)
            usleep(1000);
        assert_true(sleeper_sleeps(&s));
        if (false_one)
            sg_share_holder_gone();
        else
            sg_ipc_event_complete(x, n);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(s.result, 0); /* woken, neither timed out nor too late to sleep */
        assert_true(sg_ipc_event_done(x, n));
    }
    munmap(p, 4096);
    sg_ipc_event_end(x);
}

/* A process may have an event several times: each knows the records of all. */
static void test_twice(void **state)
{
    uint8_t token[SG_SHARE_TOKEN];
    struct sg_ipc_event *x = sg_ipc_event_new(), *y, *other;
    uint64_t n;

    (void)state;
    assert_non_null(x);
    assert_true(sg_ipc_event_token(x, token));
    assert_true(sg_ipc_event_is_ours(token));
    assert_int_equal(sg_ipc_event_open(token, &y), CUDA_SUCCESS);
    n = sg_ipc_event_record(y);
    sg_share_holder_gone();
    assert_false(sg_ipc_event_done(x, n));
    assert_false(sg_ipc_event_done(y, n));

    /* A pending record of another event with the same number is none of this one's. */
    other = sg_ipc_event_new();
    assert_non_null(other);
    assert_int_equal(record_as(map(), ME), n);
    sg_share_holder_gone();
    assert_true(sg_ipc_event_done(other, n));
    assert_false(sg_ipc_event_done(x, n));
    sg_ipc_event_complete(y, n);
    assert_true(sg_ipc_event_done(x, n));
    sg_ipc_event_end(other);
    sg_ipc_event_end(x);
    assert_false(sg_ipc_event_is_ours(token));
    sg_ipc_event_end(y);
}

/* The page has room for so many holders: who leaves makes room, however often the event is opened. */
static void test_comings(void **state)
{
    uint8_t token[SG_SHARE_TOKEN];
    struct sg_ipc_event *x = sg_ipc_event_new(), *more[SG_SHARE_HOLDERS], *none;
    struct other_page *p;

    (void)state;
    assert_non_null(x);
    assert_true(sg_ipc_event_token(x, token));
    p = map();
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 1; i < SG_SHARE_HOLDERS; i++)
            assert_int_equal(sg_ipc_event_open(token, &more[i]), CUDA_SUCCESS);
        assert_int_not_equal(sg_ipc_event_open(token, &none), CUDA_SUCCESS); /* full */
        for (unsigned i = 1; i < SG_SHARE_HOLDERS; i++)
            sg_ipc_event_end(more[i]);
    }
    sg_ipc_event_end(x);
    for (unsigned i = 0; i < SG_SHARE_HOLDERS; i++)
        assert_int_equal(p->head.holders[i], 0);
    munmap(p, 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_in_our_name), cmocka_unit_test(test_twice),
                                       cmocka_unit_test(test_wakes), cmocka_unit_test(test_comings)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
