/* SPDX-License-Identifier: MIT */
/* wrk_slice.c: what the scheduler is asked for, and what is left as it was. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "slice.h"

struct seen {
    bool asked;
    struct wrk_sched_attr before, after, child;
};

static struct wrk_sched_attr now(void)
{
    struct wrk_sched_attr a = {.size = sizeof(a)};

    if (syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0))
        a.policy = UINT32_MAX;
    return a;
}

static void *child(void *arg)
{
    *(struct wrk_sched_attr *)arg = now();
    return NULL;
}

/* In threads of their own: scheduling attributes are a thread's. */
static void *ordinary(void *arg)
{
    struct seen *s = arg;
    pthread_t t;

    setpriority(PRIO_PROCESS, 0, 5);
    s->before = now();
    s->asked = wrk_slice_short();
    s->after = now();
    if (!pthread_create(&t, NULL, child, &s->child))
        pthread_join(t, NULL);
    return NULL;
}

static void *idle(void *arg)
{
    struct seen *s = arg;
    struct wrk_sched_attr a = {.size = sizeof(a), .policy = SCHED_IDLE};

    syscall(SYS_sched_setattr, 0, &a, 0);
    s->before = now();
    s->asked = wrk_slice_short();
    s->after = now();
    return NULL;
}

static struct seen in_thread(void *(*fn)(void *))
{
    struct seen s;
    pthread_t t;

    memset(&s, 0, sizeof(s));
    assert_int_equal(pthread_create(&t, NULL, fn, &s), 0);
    pthread_join(t, NULL);
    return s;
}

static void test_short(void **state)
{
    struct seen s = in_thread(ordinary);

    (void)state;
    assert_true(s.asked);
    assert_int_equal(s.after.policy, SCHED_OTHER);
    assert_int_equal(s.after.nice, s.before.nice);
    assert_int_equal(s.after.nice, 5);
    assert_int_equal(s.child.nice, s.before.nice);
    if (!s.before.runtime) {
        print_message("not run: this kernel (before 6.12) does not say how long a slice is\n");
        skip();
    }
    assert_int_equal(s.after.runtime, WRK_SLICE_NS);
    assert_int_equal(s.child.runtime, WRK_SLICE_NS); /* the threads that it creates, too */
    assert_true(s.before.runtime >= WRK_SLICE_NS);
}

static void test_other_class(void **state)
{
    struct seen s = in_thread(idle);

    (void)state;
    assert_int_equal(s.before.policy, SCHED_IDLE);
    assert_false(s.asked);
    assert_int_equal(s.after.policy, SCHED_IDLE);
    assert_int_equal(s.after.runtime, s.before.runtime);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short),
        cmocka_unit_test(test_other_class),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
