/* SPDX-License-Identifier: MIT */
/* Turns at a GPU: their owner, and the time of a handover. The test provides clock and clients (linked
 * with --wrap). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "worker_test.h"

#define MS UINT64_C(1000000)

static const struct brk_client_ops vm;
static struct worker a, b;
static struct brk_client *first;
static uint64_t now = 1000 * MS;

struct brk_client *__wrap_brk_client_first(void);
uint64_t __wrap_vgb_now_ns(void);

struct brk_client *__wrap_brk_client_first(void)
{
    return first;
}

uint64_t __wrap_vgb_now_ns(void)
{
    return now;
}

/* Status of the last TURN that the worker got: 1 open, 0 over; -1: none. */
static int told(struct worker *w)
{
    struct vgb_msg m;
    unsigned none = 0;
    int last = -1;

    while (vgb_msg_recv(w->sock, &m, NULL, &none, MSG_DONTWAIT) == 1) {
        assert_int_equal(m.type, VGB_M_TURN);
        assert_int_equal(m.flags, w->client.turn.number);
        last = (int)m.status;
    }
    return last;
}

static void says_of(struct worker *w, uint32_t work, uint32_t number)
{
    const struct vgb_msg m = {.type = VGB_M_WORK, .status = work, .flags = number};

    assert_true(brk_turns_message(&w->client, &m));
}

static void says(struct worker *w, uint32_t work)
{
    says_of(w, work, w->client.turn.number);
}

/* Some time later. */
static void tick(uint64_t ns)
{
    now += ns;
    brk_turns_client_set(&a.client, a.client.fair.weight, 0);
}

/* Two clients without work. */
static int setup(void **state)
{
    (void)state;
    brk_opt.weight = brk_opt.client_weight = BRK_WEIGHT_DEFAULT;
    worker_open(&a, &vm);
    worker_open(&b, &vm);
    a.client.state = b.client.state = BRK_C_SERVING;
    a.client.next = &b.client;
    first = &a.client;
    if (brk_turns_work()) {
        brk_turns_client(&a.client);
        brk_turns_client(&b.client);
    }
    brk_turns_changed();
    assert_true(brk_turns_work());
    assert_int_equal(told(&a), 0);
    assert_int_equal(told(&b), 0);
    says(&a, VGB_WORK_NONE);
    says(&b, VGB_WORK_NONE);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    first = NULL;
    now += 1000 * MS;
    worker_close(&a);
    worker_close(&b);
    return 0;
}

/* `a` has had its time, and is told to end its turn while `b` waits. */
static void a_is_to_end(void)
{
    says(&a, VGB_WORK_WAITS);
    assert_int_equal(told(&a), 1);
    says(&a, VGB_WORK_BUSY);
    says(&b, VGB_WORK_WAITS);
    assert_int_equal(told(&b), -1);
    tick(1 * MS);
    assert_int_equal(told(&a), -1);
    tick(20 * MS);
    assert_int_equal(told(&a), 0);
    assert_int_equal(told(&b), -1); /* not beside the other's work */
}

/* The next turn begins when the worker reports that no work is in flight, without waiting for a tick. */
static void test_handed_over(void **state)
{
    (void)state;
    a_is_to_end();
    says_of(&a, VGB_WORK_NONE, a.client.turn.number - 1); /* of the turn before: work may have begun since */
    assert_int_equal(told(&b), -1);
    says(&a, VGB_WORK_BUSY);
    assert_int_equal(told(&b), -1);
    says(&a, VGB_WORK_WAITS);
    assert_int_equal(told(&b), 1);
    assert_int_equal(told(&a), -1);
}

/* Work that does not end delays the next turn for a bounded time. */
static void test_overrun(void **state)
{
    (void)state;
    a_is_to_end();
    tick(40 * MS);
    assert_int_equal(told(&b), -1);
    tick(20 * MS);
    assert_int_equal(told(&b), 1);
}

/* The turn of a client that ends, with or without work in flight, goes to the next client at once. */
static void test_gone(void **state)
{
    (void)state;
    a_is_to_end();
    a.client.state = BRK_C_ENDING;
    brk_turns_gone(&a.client);
    assert_int_equal(told(&b), 1);
}

static void test_gone_in_turn(void **state)
{
    (void)state;
    says(&a, VGB_WORK_WAITS);
    says(&a, VGB_WORK_BUSY);
    says(&b, VGB_WORK_WAITS);
    assert_int_equal(told(&a), 1);
    assert_int_equal(told(&b), -1);
    a.client.state = BRK_C_ENDING;
    brk_turns_gone(&a.client);
    assert_int_equal(told(&b), 1);
}

/* A client of a higher priority takes the turn from the other, and does not wait for its work. */
static void test_priority(void **state)
{
    (void)state;
    says(&a, VGB_WORK_WAITS);
    assert_int_equal(told(&a), 1);
    says(&a, VGB_WORK_BUSY);
    b.client.priority = 1;
    says(&b, VGB_WORK_WAITS);
    assert_int_equal(told(&a), 0);
    assert_int_equal(told(&b), 1);
    b.client.priority = 0;
}

/* Some time later, with such a cap of the client or of the VM, %. */
static void tick_capped(uint64_t ns, bool of_vm, uint32_t cap)
{
    now += ns;
    brk_opt.cap = of_vm ? cap : 0;
    brk_turns_changed();
    brk_turns_client_set(&a.client, a.client.fair.weight, of_vm ? 0 : cap);
}

/* Under a cap of 50 % a client that was idle works for 200 ms, half of them saved up before. Then its
 * turn ends until its average is below the cap. */
static void capped(bool of_vm)
{
    tick_capped(0, of_vm, 50);
    tick_capped(5000 * MS, of_vm, 50);
    says(&a, VGB_WORK_WAITS);
    assert_int_equal(told(&a), 1);
    says(&a, VGB_WORK_BUSY);
    tick_capped(199 * MS, of_vm, 50);
    assert_int_equal(told(&a), -1);
    tick_capped(2 * MS, of_vm, 50);
    assert_int_equal(told(&a), 0);
    says(&a, VGB_WORK_WAITS);
    assert_int_equal(told(&a), -1);
    tick_capped(2 * MS, of_vm, 50);
    assert_int_equal(told(&a), 1);
    tick_capped(0, of_vm, 0);
}

static void test_cap_of_client(void **state)
{
    (void)state;
    capped(false);
}

static void test_cap_of_vm(void **state)
{
    (void)state;
    capped(true);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {T(test_handed_over),  T(test_overrun),  T(test_gone),
                                       T(test_gone_in_turn), T(test_priority), T(test_cap_of_client),
                                       T(test_cap_of_vm)};

    if (brk_loop_init())
        return 1;
    return cmocka_run_group_tests_name("turn_handover", tests, NULL, NULL);
}
