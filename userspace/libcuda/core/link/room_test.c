/* SPDX-License-Identifier: MIT */
/* The budget of launches: limits of a stream and of a context, and the waiting threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../../../../lib/testing/range.h"
#include "room.h"

#define QUEUE 960u /* of the provider: pending work before it blocks */

/* Issues to `place` until its thread has to wait for work that does not end; returns how much pends there. */
static uint32_t fill(uint32_t place, uint32_t context, uint32_t weight)
{
    uint32_t sum = 0, marked = 0;

    for (int marks = 0; marks < 2;) {
        sum += weight;
        if (!vcu_room_add(place, place, context, weight))
            continue;
        marked = vcu_room_mark_begin(place);
        if (marks++ == 0) /* no work before it: answered at once */
            vcu_room_mark_end(place, context, marked);
    }
    return sum; /* the second mark waits for the work before the first */
}

static void test_one_stream(void **state)
{
    uint32_t n;

    (void)state;
    vcu_room = (struct vcu_room){.stream = QUEUE, .context = QUEUE};
    n = fill(1, 1, 1);
    assert_uint_in_range(n, 200, QUEUE);
    vcu_room_context_idle(1);
    assert_int_equal(vcu_room_pending(1), 0);
}

/* Many streams that are full at once: the sum stays below the queue, but for the floor of each. */
static void test_many_streams(void **state)
{
    uint32_t sum = 0;

    (void)state;
    vcu_room = (struct vcu_room){.stream = QUEUE, .context = QUEUE};
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t n = fill(100 + i, 2, 1);

        assert_uint_in_range(n, VCU_ROOM_FLOOR, QUEUE); /* each may always go on a little */
        sum += n;
    }
    assert_uint_in_range(sum, 0, QUEUE + 64 * VCU_ROOM_FLOOR);
    vcu_room_context_idle(2);
    assert_uint_in_range(fill(300, 2, 1), 200, QUEUE); /* idle: all of it again */
    assert_uint_in_range(fill(301, 3, 1), 200, QUEUE); /* another context has a budget of its own */
    vcu_room_context_idle(2);
    vcu_room_context_idle(3);
}

/* A graph counts by its nodes; a graph larger than the queue does not block for ever. */
static void test_weights(void **state)
{
    (void)state;
    vcu_room = (struct vcu_room){.stream = QUEUE, .context = QUEUE};
    assert_uint_in_range(fill(400, 4, 100), 100, QUEUE + 100); /* the last one may go over the budget */
    vcu_room_context_idle(4);
    assert_uint_in_range(fill(401, 4, 1u << 20), 1u << 20, 6u << 20);
    assert_uint_in_range(vcu_room_pending(4), 0, QUEUE);
    vcu_room_context_idle(4);
}

/* Streams that became idle without a mark are found, and give their part back. */
static void test_idle(void **state)
{
    uint64_t stream = 0;
    uint32_t place;

    (void)state;
    vcu_room = (struct vcu_room){.stream = QUEUE, .context = QUEUE};
    for (uint32_t i = 0; i < 700; i++)
        vcu_room_add(500 + i % 100, 500 + i % 100, 5, 1);
    assert_int_equal(vcu_room_pending(5), 700);
    for (int i = 0; i < 1000 && (place = vcu_room_suspect(5, 500, &stream)) != UINT32_MAX; i++) {
        assert_int_equal(stream, place);
        assert_int_not_equal(place, 500);
        vcu_room_idle(place, 5);
    }
    assert_uint_in_range(vcu_room_pending(5), 0, QUEUE / 2);
    for (uint32_t i = 0; i < 100; i++)
        vcu_room_idle(500 + i, 5);
    assert_int_equal(vcu_room_pending(5), 0);
    for (uint32_t i = 0; i < 100; i++) /* again: an idle place has nothing to give back */
        vcu_room_idle(500 + i, 5);
    vcu_room_add(700, 700, 5, QUEUE);
    assert_int_equal(vcu_room_pending(5), QUEUE / 4); /* the largest weight of one launch */
    for (uint32_t i = 0; i < 100; i++)
        vcu_room_idle(500 + i, 5);
    assert_int_equal(vcu_room_pending(5), QUEUE / 4);
    vcu_room_context_idle(5);
    assert_uint_in_range(fill(900, 5, 1), 100, QUEUE);
    vcu_room_context_idle(5);
}

/* The software GPU: each stream has a queue of its own. */
static void test_own_queues(void **state)
{
    (void)state;
    vcu_room = (struct vcu_room){.stream = 15360, .context = 0};
    for (uint32_t i = 0; i < 64; i++)
        assert_uint_in_range(fill(800 + i, 6, 1), 7680, 15360);
    assert_int_equal(vcu_room_suspect(6, 0, &(uint64_t){0}), UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_stream), cmocka_unit_test(test_many_streams),
        cmocka_unit_test(test_weights),    cmocka_unit_test(test_idle),
        cmocka_unit_test(test_own_queues),
    };

    return cmocka_run_group_tests_name("room", tests, NULL, NULL);
}
