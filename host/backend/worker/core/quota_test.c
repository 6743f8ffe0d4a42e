/* SPDX-License-Identifier: MIT */
/* Bookkeeping of device memory and of blobs. */
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

static bool no_memory;

/* The linker puts these in front of the worker's own calls. */
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
    return no_memory ? NULL : __real_calloc(n, size);
}

static int setup(void **state)
{
    (void)state;
    memset(&w, 0, sizeof(w));
    memset(&memory, 0, sizeof(memory));
    w.memory = &memory;
    wrk_quota_init(&w, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(w.quota.table);
    for (unsigned i = 0; i < WRK_BLOBS_MAX; i++)
        free(memory.blobs.list[i].data);
    return 0;
}

static void allocate(uint64_t address, uint64_t bytes, CUcontext ctx)
{
    assert_true(wrk_quota_take(&w, bytes));
    assert_true(wrk_quota_remember(&w, address, bytes, ctx));
}

static void test_many(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= 5000; i++)
        allocate(i << 9, i, NULL);
    assert_int_equal(w.quota.used, 5000ull * 5001 / 2);
    for (uint64_t i = 1; i <= 5000; i += 2)
        wrk_quota_forget(&w, i << 9);
    assert_int_equal(w.quota.count, 2500);
    assert_int_equal(w.quota.used, 2500ull * 2501);
    wrk_quota_forget(&w, 1 << 9); /* again: nothing */
    wrk_quota_forget(&w, 0xdead000);
    assert_int_equal(w.quota.count, 2500);
    for (uint64_t i = 2; i <= 5000; i += 2)
        wrk_quota_forget(&w, i << 9);
    assert_int_equal(w.quota.count, 0);
    assert_int_equal(w.quota.used, 0);
}

/* What the provider refuses, however much it is, takes nothing away from what is counted. */
static void test_hopeless(void **state)
{
    (void)state;
    allocate(1 << 9, 1000, NULL);
    for (unsigned shift = 0; shift < 16; shift++) {
        assert_true(wrk_quota_take(&w, UINT64_MAX >> shift)); /* without a limit the provider decides */
        assert_true(w.quota.used > 1000);
        wrk_quota_give(&w, UINT64_MAX >> shift);
        assert_int_equal(w.quota.used, 1000);
    }
    wrk_quota_forget(&w, 1 << 9);
    assert_int_equal(w.quota.used, 0);
}

/* Without memory for its entry there is no allocation; what was there before is put back all the same. */
static void test_no_memory(void **state)
{
    struct wrk_freeing freeing[WRK_WAITERS_MAX];
    uint64_t n;

    (void)state;
    no_memory = true;
    assert_false(wrk_quota_take_for(&w, 10));
    no_memory = false;
    assert_true(wrk_quota_take_for(&w, 10));
    assert_true(wrk_quota_remember(&w, 1 << 9, 10, NULL));
    no_memory = true;
    for (n = 1; wrk_quota_take_for(&w, 10); n++)
        assert_true(wrk_quota_remember(&w, (n + 1) << 9, 10, NULL));
    assert_int_equal(w.quota.used, n * 10);
    for (unsigned i = 0; i < WRK_WAITERS_MAX; i++)
        assert_true(wrk_quota_free_begin(&w, (i + 1ull) << 9, &freeing[i]));
    while (wrk_quota_take_for(&w, 10))
        assert_true(wrk_quota_remember(&w, ++n << 9, 10, NULL));
    for (unsigned i = 0; i < WRK_WAITERS_MAX; i++)
        wrk_quota_free_end(&w, &freeing[i], false);
    assert_int_equal(w.quota.count, n);
    for (uint64_t i = 1; i <= n; i++)
        wrk_quota_forget(&w, i << 9);
    no_memory = false;
    assert_int_equal(w.quota.count, 0);
    assert_int_equal(w.quota.used, 0);
}

static void test_context(void **state)
{
    CUcontext a = (CUcontext)0x10, b = (CUcontext)0x20;

    (void)state;
    for (uint64_t i = 1; i <= 1000; i++)
        allocate(i << 12, 10, i % 3 ? a : b);
    wrk_quota_give(&w, wrk_quota_detach_context(&w, a));
    assert_int_equal(w.quota.count, 333);
    assert_int_equal(w.quota.used, 3330);
    wrk_quota_give(&w, wrk_quota_detach_context(&w, b));
    assert_int_equal(w.quota.used, 0);
}

/* What no reserve can hold is for the broker to refuse, which counts it. */
static void refused(int broker, uint64_t bytes)
{
    const struct vgb_msg grant = {.type = VGB_M_GRANT, .status = VGPU_S_NO_MEMORY, .value = 100};
    struct vgb_msg m;
    unsigned none = 0;

    assert_int_equal(vgb_msg_send(broker, &grant, NULL, 0, 0), 0);
    assert_false(wrk_quota_take(&w, bytes));
    assert_int_equal(vgb_msg_recv(broker, &m, NULL, &none, MSG_DONTWAIT), 1);
    assert_int_equal(m.type, VGB_M_RESERVE);
}

static void test_limit(void **state)
{
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    w.sock = pair[0];
    w.quota.limit = 100;
    w.quota.reserved = 100; /* granted: the broker need not be asked */
    assert_true(wrk_quota_take(&w, 60));
    refused(pair[1], 41);
    refused(pair[1], UINT64_MAX);
    assert_true(wrk_quota_take(&w, 40));
    close(pair[0]);
    close(pair[1]);
    wrk_quota_give(&w, 100);
    assert_int_equal(w.quota.used, 0);
    wrk_quota_give(&w, 1); /* never below zero */
    assert_int_equal(w.quota.used, 0);
}

/* Two threads free the same at once: what the provider refuses to one of them is not put back after the other. */
static void test_freed_twice(void **state)
{
    struct wrk_freeing one, two;

    (void)state;
    allocate(0x1000, 10, NULL);
    assert_true(wrk_quota_free_begin(&w, 0x1000, &one));
    assert_false(wrk_quota_free_begin(&w, 0x1000, &two));
    assert_true(wrk_quota_free_begin(&w, 0x2000, &two)); /* of which nothing is known */
    wrk_quota_free_end(&w, &two, false);
    wrk_quota_free_end(&w, &one, false);
    assert_int_equal(w.quota.count, 1);
    assert_int_equal(w.quota.used, 10);
    assert_true(wrk_quota_free_begin(&w, 0x1000, &one));
    allocate(0x1000, 7, NULL); /* the provider has given it out again before that one ends */
    assert_true(wrk_quota_free_begin(&w, 0x1000, &two));
    assert_int_equal(two.was.bytes, 7);
    wrk_quota_free_end(&w, &one, true);
    wrk_quota_free_end(&w, &two, true);
    assert_int_equal(w.quota.count, 0);
    assert_int_equal(w.quota.used, 0);
    assert_null(w.quota.freeing);
}

/* Memory is being freed while its context ends: it ends with it, whatever the provider says. */
static void test_freed_as_context_ends(void **state)
{
    CUcontext a = (CUcontext)0x10, b = (CUcontext)0x20;

    (void)state;
    for (unsigned freed = 0; freed < 2; freed++) {
        struct wrk_freeing one, two;
        uint64_t bytes;

        allocate(0x1000, 10, a);
        allocate(0x2000, 7, b);
        allocate(0x3000, 5, a);
        assert_true(wrk_quota_free_begin(&w, 0x1000, &one));
        assert_true(wrk_quota_free_begin(&w, 0x2000, &two));
        bytes = wrk_quota_detach_context(&w, a);
        assert_int_equal(bytes, 15);
        wrk_quota_free_end(&w, &one, freed);
        assert_int_equal(w.quota.used, 22); /* until the context has ended */
        assert_int_equal(w.quota.count, 0);
        wrk_quota_give(&w, bytes);
        wrk_quota_free_end(&w, &two, false);
        assert_int_equal(w.quota.count, 1);
        wrk_quota_forget(&w, 0x2000);
        assert_int_equal(w.quota.used, 0);
        assert_null(w.quota.freeing);
    }
}

static void test_blobs(void **state)
{
    struct wrk_call c = {.w = &w};
    char data[10] = "123456789";
    const void *p = NULL;

    (void)state;
    assert_int_equal(wrk_blob_append(&w, 1, 20, data, 10), CUDA_SUCCESS);
    assert_int_equal(wrk_blob_take(&c, 1, 20, &p), CUDA_ERROR_INVALID_VALUE); /* incomplete */
    assert_true(c.malformed);
    assert_int_equal(wrk_blob_append(&w, 1, 20, data, 10), CUDA_SUCCESS);
    c.malformed = false;
    assert_int_equal(wrk_blob_take(&c, 1, 19, &p), CUDA_ERROR_INVALID_VALUE); /* another size */
    c.malformed = false;
    assert_int_equal(wrk_blob_take(&c, 1, 20, &p), CUDA_SUCCESS);
    assert_memory_equal((const char *)p + 10, data, 10);
    assert_int_equal(((const char *)p)[20], 0);
    wrk_blob_call_done(&w);
    assert_int_equal(memory.blobs.bytes, 0);
    assert_int_equal(wrk_blob_take(&c, 1, 20, &p), CUDA_ERROR_INVALID_VALUE); /* used up */
    /* Too much, changed total, no size, too large. */
    assert_int_equal(wrk_blob_append(&w, 2, 5, data, 10), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(wrk_blob_append(&w, 3, 20, data, 10), CUDA_SUCCESS);
    assert_int_equal(wrk_blob_append(&w, 3, 30, data, 10), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(wrk_blob_append(&w, 4, 0, data, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(wrk_blob_append(&w, 4, (uint64_t)VGP_BLOB_MAX + 1, data, 10), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(memory.blobs.bytes, 0);
}

static void test_blob_limits(void **state)
{
    struct wrk_call c = {.w = &w};
    const void *p;

    (void)state;
    for (uint32_t i = 0; i < WRK_BLOBS_MAX; i++)
        assert_int_equal(wrk_blob_append(&w, 100 + i, 10, "x", 1), CUDA_SUCCESS);
    assert_int_equal(wrk_blob_append(&w, 7, 10, "x", 1), CUDA_ERROR_OUT_OF_MEMORY);
    /* The call that wanted it is told so, and the client lives. */
    assert_int_equal(wrk_blob_take(&c, 7, 10, &p), CUDA_ERROR_OUT_OF_MEMORY);
    assert_false(c.malformed);
    wrk_blob_drop(&w, 100);
    assert_int_equal(wrk_blob_append(&w, 8, 10, "x", 1), CUDA_SUCCESS);
    /* The refused one's number is as good as any, once its call has been answered. */
    assert_int_equal(wrk_blob_take(&c, 7, 10, &p), CUDA_ERROR_INVALID_VALUE); /* nothing is known of it */
    assert_true(c.malformed);
    wrk_blob_drop(&w, 101);
    assert_int_equal(wrk_blob_append(&w, 7, 1, "x", 1), CUDA_SUCCESS);
    c.malformed = false;
    assert_int_equal(wrk_blob_take(&c, 7, 1, &p), CUDA_SUCCESS);
    wrk_blob_call_done(&w);
}

/* What does not move is given up, when another client wants room: the broker's word, and a minute. */
static void test_blob_given_up(void **state)
{
    static struct vgp_window_shared shared;
    static uint8_t ring[4096];
    const struct vgb_msg wanted = {.type = VGB_M_BLOBS_WANTED};
    struct wrk_call c = {.w = &w};
    uint64_t now = vgb_now_ns();
    const void *p;
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    pthread_mutex_init(&w.notify_lock, NULL);
    w.wake_fd = -1;
    w.win.base = ring;
    w.win.shared = &shared;
    w.win.notify_size = sizeof(ring);
    w.sock = pair[0];
    assert_int_equal(wrk_blob_append(&w, 1, 2, "x", 1), CUDA_SUCCESS);
    assert_int_equal(wrk_blob_append(&w, 2, 1, "x", 1), CUDA_SUCCESS); /* complete, and no call comes */
    wrk_blobs_make_room(&w, now + 2 * WRK_BLOB_IDLE_NS);               /* nobody wants it */
    assert_int_equal(memory.blobs.bytes, 3);
    assert_int_equal(vgb_msg_send(pair[1], &wanted, NULL, 0, 0), 0);
    wrk_control_poll(&w);
    assert_true(w.blobs_wanted);
    wrk_blobs_make_room(&w, now + WRK_BLOB_IDLE_NS - 1);
    assert_false(w.blobs_wanted);
    assert_int_equal(memory.blobs.bytes, 3);
    w.blobs_wanted = true;
    wrk_blobs_make_room(&w, vgb_now_ns() + WRK_BLOB_IDLE_NS);
    assert_int_equal(memory.blobs.bytes, 0);
    w.blobs_wanted = true;
    wrk_blobs_make_room(&w, vgb_now_ns() + 2 * WRK_BLOB_IDLE_NS); /* once */
    assert_int_equal(memory.blobs.bytes, 0);
    /* The rest of it comes after all: its call gets an error, and the client lives. */
    assert_int_equal(wrk_blob_append(&w, 1, 2, "x", 1), CUDA_ERROR_OUT_OF_MEMORY);
    for (uint32_t id = 1; id <= 2; id++) {
        assert_int_equal(wrk_blob_take(&c, id, 3 - id, &p), CUDA_ERROR_OUT_OF_MEMORY);
        assert_false(c.malformed);
    }
    assert_int_equal(wrk_blob_append(&w, 1, 1, "x", 1), CUDA_SUCCESS);
    assert_int_equal(wrk_blob_take(&c, 1, 1, &p), CUDA_SUCCESS);
    wrk_blob_call_done(&w);
    assert_int_equal(memory.blobs.bytes, 0);
    close(pair[0]);
    close(pair[1]);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_many),          T(test_context),   T(test_limit),
        T(test_freed_twice),   T(test_blobs),     T(test_blob_limits),
        T(test_blob_given_up), T(test_no_memory), T(test_freed_as_context_ends),
        T(test_hopeless),
    };

    return cmocka_run_group_tests_name("quota", tests, NULL, NULL);
}
