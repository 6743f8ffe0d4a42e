/* SPDX-License-Identifier: MIT */
/* Images of several threads that are refused at a time, and used again; the age of an image on its way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <linux/types.h>

#include "memory/memory.h"
#include "vgb_msg.h"
#include "vgpu_device.h"

static struct wrk_memory memory;
static struct wrk_worker w;
static struct wrk_call c;
static struct vgp_window_shared shared;
static uint8_t ring[4096];

static int setup(void **state)
{
    (void)state;
    memset(&w, 0, sizeof(w));
    memset(&memory, 0, sizeof(memory));
    memset(&shared, 0, sizeof(shared));
    wrk_client_limits = (struct vgb_limits){0};
    c = (struct wrk_call){.w = &w};
    w.memory = &memory;
    w.wake_fd = -1;
    w.win.base = ring;
    w.win.shared = &shared;
    w.win.notify_size = sizeof(ring);
    pthread_mutex_init(&w.notify_lock, NULL);
    wrk_quota_init(&w, 0);
    return 0;
}

/* Nothing is left of what the test did: no entry, no bytes, no memory of a refusal. */
static int teardown(void **state)
{
    (void)state;
    assert_int_equal(memory.blobs.bytes, 0);
    for (unsigned i = 0; i < WRK_BLOBS_MAX; i++)
        assert_false(memory.blobs.list[i].used);
    for (unsigned i = 0; i < WRK_BLOBS_REFUSED; i++)
        assert_int_equal(memory.blobs.refused[i], 0);
    wrk_client_limits = (struct vgb_limits){0};
    return 0;
}

static CUresult send_piece(uint32_t id, uint64_t total)
{
    return wrk_blob_append(&w, id, total, "piece", 5);
}

static CUresult take(uint32_t id, uint64_t total)
{
    const void *p;
    CUresult r = wrk_blob_take(&c, id, total, &p);

    wrk_blob_call_done(&w);
    return r;
}

/* Threads that send too large images at a time, piece by piece, in the order of `first`: each gets an error. */
static void refuse_all(uint32_t n, uint32_t first)
{
    for (unsigned piece = 0; piece < 2; piece++) {
        for (uint32_t i = 0; i < n; i++)
            assert_int_equal(send_piece(first + i, 10), CUDA_ERROR_OUT_OF_MEMORY);
    }
    assert_int_equal(send_piece(first + n, 9), CUDA_SUCCESS); /* one that is small enough, among them */
    assert_true(wrk_blob_known(&w, first));
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(take(first + (i + n / 2) % n, 10), CUDA_ERROR_OUT_OF_MEMORY);
        assert_false(c.malformed);
    }
    assert_int_equal(wrk_blob_append(&w, first + n, 9, "rest", 4), CUDA_SUCCESS);
    assert_int_equal(take(first + n, 9), CUDA_SUCCESS);
}

/* By the limit: 1 image, 2, as many as are remembered, twice. */
static void test_refused_at_a_time(void **state)
{
    static const uint32_t counts[] = {1, 2, 3, WRK_BLOBS_REFUSED, 2};

    (void)state;
    wrk_client_limits.image = 9;
    for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        refuse_all(counts[i], 7);
        /* Each refusal is told once. */
        assert_int_equal(take(7, 10), CUDA_ERROR_INVALID_VALUE);
        assert_true(c.malformed);
        c.malformed = false;
    }
    refuse_all(2, UINT32_MAX - 2);
    refuse_all(2, UINT32_MAX); /* numbers come round */
}

/* With more than are remembered, the client still lives. */
static void test_refused_many(void **state)
{
    (void)state;
    wrk_client_limits.image = 9;
    refuse_all(WRK_BLOBS_REFUSED + 1, 7);
    refuse_all(3 * WRK_BLOBS_REFUSED, 7);
}

/* For want of an entry: later pieces of a refused image begin none, whatever was given back meanwhile. */
static void test_refused_in_the_middle(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < WRK_BLOBS_MAX; i++)
        assert_int_equal(send_piece(100 + i, 10), CUDA_SUCCESS);
    for (uint32_t id = 1; id <= 3; id++)
        assert_int_equal(send_piece(id, 10), CUDA_ERROR_OUT_OF_MEMORY);
    for (uint32_t i = 0; i < WRK_BLOBS_MAX; i++)
        wrk_blob_drop(&w, 100 + i);
    for (uint32_t id = 1; id <= 3; id++)
        assert_int_equal(send_piece(id, 10), CUDA_ERROR_OUT_OF_MEMORY);
    /* The guest gives the first up: its number is as good as any. */
    wrk_blob_drop(&w, 1);
    assert_false(wrk_blob_known(&w, 1));
    for (unsigned piece = 0; piece < 2; piece++)
        assert_int_equal(send_piece(1, 10), CUDA_SUCCESS);
    assert_int_equal(take(1, 10), CUDA_SUCCESS);
    for (uint32_t id = 2; id <= 3; id++)
        assert_int_equal(take(id, 10), CUDA_ERROR_OUT_OF_MEMORY);
    assert_false(c.malformed);
}

/* Room is taken from an image that has not moved for so long: it counts from its latest piece, not from its first. */
static void test_idle_since_latest_piece(void **state)
{
    uint64_t first, latest;

    (void)state;
    first = vgb_now_ns();
    assert_int_equal(send_piece(1, 20), CUDA_SUCCESS);
    do {
        usleep(1000);
        latest = vgb_now_ns();
    } while (latest - first < 5000000);
    assert_int_equal(send_piece(1, 20), CUDA_SUCCESS);
    w.blobs_wanted = true;
    wrk_blobs_make_room(&w, latest + WRK_BLOB_IDLE_NS - 1);
    assert_int_equal(memory.blobs.bytes, 20);
    assert_int_equal(send_piece(1, 20), CUDA_SUCCESS);
    w.blobs_wanted = true;
    wrk_blobs_make_room(&w, vgb_now_ns() + WRK_BLOB_IDLE_NS);
    assert_int_equal(memory.blobs.bytes, 0);
    assert_int_equal(take(1, 20), CUDA_ERROR_OUT_OF_MEMORY);
    assert_false(c.malformed);
}

/* The room that the worker asks for with the next call, which the broker grants. Returned: what was asked. */
static uint64_t asked_by(int broker, uint32_t id, uint64_t total)
{
    struct vgb_msg m = {.type = VGB_M_GRANT, .value = (total + (16 << 20) - 1) / (16 << 20) * (16 << 20)};
    unsigned nfds = 0;

    assert_int_equal(vgb_msg_send(broker, &m, NULL, 0, 0), 0);
    if (total)
        assert_int_equal(send_piece(id, total), CUDA_SUCCESS);
    else
        wrk_blob_drop(&w, id);
    assert_int_equal(vgb_msg_recv(broker, &m, NULL, &nfds, MSG_DONTWAIT), 1);
    assert_int_equal(m.type, VGB_M_RESERVE);
    assert_int_equal(m.flags, VGB_RESERVE_BLOBS);
    return m.value;
}

/* Room of images that are given up goes back to the other clients, each time. */
static void test_room_comes_back(void **state)
{
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    w.sock = pair[0];
    wrk_client_limits.blobs = UINT64_C(1) << 30;
    for (uint32_t round = 0; round < 3; round++) {
        assert_int_equal(asked_by(pair[1], 1, 40 << 20), 48 << 20);
        assert_int_equal(memory.blobs.reserved, 48 << 20);
        assert_int_equal(asked_by(pair[1], 1, 0), 0);
        assert_int_equal(memory.blobs.reserved, 0);
    }
    close(pair[0]);
    close(pair[1]);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {T(test_refused_at_a_time), T(test_refused_many),
                                       T(test_refused_in_the_middle), T(test_idle_since_latest_piece),
                                       T(test_room_comes_back)};

    return cmocka_run_group_tests_name("blob", tests, NULL, NULL);
}
