/* SPDX-License-Identifier: MIT */
/* Replies stay in their slots. */
#include "core.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define SIZE VGP_REPLY_SLOT_SIZE
#define ROOM (SIZE - sizeof(struct vgp_reply))

static struct vgp_window_shared shared;
static uint8_t slots[(VGP_REPLY_SLOTS + 1) * SIZE] __attribute__((aligned(64)));
static struct wrk_worker w;

static int setup(void **state)
{
    (void)state;
    memset(slots, 0x55, sizeof(slots));
    memset(&w, 0, sizeof(w));
    w.wake_fd = -1;
    w.win.base = slots;
    w.win.shared = &shared;
    return 0;
}

static const struct vgp_reply *reply(uint32_t slot)
{
    return (const struct vgp_reply *)(const void *)(slots + (size_t)slot * SIZE);
}

/* Nothing is written outside of the slot. */
static void assert_alone(uint32_t slot)
{
    for (size_t i = 0; i < sizeof(slots); i++) {
        if (i / SIZE != slot)
            assert_int_equal(slots[i], 0x55);
    }
}

static void test_reply(void **state)
{
    (void)state;
    wrk_reply_send(&w, 3, 77, CUDA_ERROR_NOT_READY, "payload", 8, VGP_REPLY_DETAIL);
    assert_int_equal(reply(3)->seq, 77);
    assert_int_equal(reply(3)->result, CUDA_ERROR_NOT_READY);
    assert_int_equal(reply(3)->size, 8);
    assert_int_equal(reply(3)->flags, VGP_REPLY_DETAIL);
    assert_memory_equal(reply(3) + 1, "payload", 8);
    assert_int_equal(slots[3 * SIZE + sizeof(struct vgp_reply) + 8], 0x55);
    assert_alone(3);
}

/* What is as large as a slot's room fits; what is larger is cut. */
static void test_large(void **state)
{
    static uint8_t data[2 * SIZE];

    (void)state;
    memset(data, 0xaa, sizeof(data));
    for (size_t size = ROOM - 1; size <= ROOM + 2 * sizeof(struct vgp_reply); size++) {
        setup(NULL);
        wrk_reply_send(&w, 5, 1, CUDA_SUCCESS, data, (uint32_t)size, 0);
        assert_int_equal(reply(5)->size, size < ROOM ? size : ROOM);
        assert_int_equal(slots[6 * SIZE - 2], 0xaa);
        assert_int_equal(slots[6 * SIZE - 1], size < ROOM ? 0x55 : 0xaa);
        assert_alone(5);
    }
}

static void test_no_slot(void **state)
{
    const uint32_t none[] = {VGP_REPLY_SLOTS, VGP_NO_REPLY};

    (void)state;
    for (unsigned i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        wrk_reply_send(&w, none[i], 1, CUDA_SUCCESS, "x", 1, 0);
    assert_alone(VGP_REPLY_SLOTS + 1); /* nowhere */
    wrk_reply_send(&w, VGP_REPLY_SLOTS - 1, 9, CUDA_SUCCESS, NULL, 0, 0);
    assert_int_equal(reply(VGP_REPLY_SLOTS - 1)->seq, 9);
    assert_int_equal(reply(VGP_REPLY_SLOTS - 1)->size, 0);
}

/* A guest that sleeps is woken once. */
static void test_wake(void **state)
{
    uint32_t before = shared.wake_seq;

    (void)state;
    shared.guest_sleeps = 0;
    wrk_reply_send(&w, 0, 1, CUDA_SUCCESS, NULL, 0, 0);
    assert_int_equal(shared.wake_seq, before);
    shared.guest_sleeps = 1;
    wrk_reply_send(&w, 0, 2, CUDA_SUCCESS, NULL, 0, 0);
    wrk_reply_send(&w, 0, 3, CUDA_SUCCESS, NULL, 0, 0);
    assert_int_equal(shared.wake_seq, before + 1);
    assert_int_equal(shared.guest_sleeps, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_reply, setup),
        cmocka_unit_test_setup(test_large, setup),
        cmocka_unit_test_setup(test_no_slot, setup),
        cmocka_unit_test_setup(test_wake, setup),
    };

    return cmocka_run_group_tests_name("reply", tests, NULL, NULL);
}
