/* SPDX-License-Identifier: MIT */
/*
 * Calls for which the software GPU would wait until earlier work of their stream has ended, with a real worker: more
 * operations than a stream takes, more bytes than are copied aside. The dispatcher must not wait: no other call, no time limit and
 * no message of the broker would be served until that work ends, which may be never.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "guest.h"
#include "proc.h"
#include "vgp_calls.h"

#define EVENT(i) VGP_HANDLE(VGP_H_EVENT, 1, i)
#define STREAM(i) VGP_HANDLE(VGP_H_STREAM, 1, i)
#define CALL(g, name, ...) \
    guest_call(g, VGP_##name, &(struct vgp_args_##name){__VA_ARGS__}, sizeof(struct vgp_args_##name), NULL, \
               NULL)
#define POST(g, slot, name, ...) \
    guest_submit(g, VGP_##name, slot, &(struct vgp_args_##name){__VA_ARGS__}, \
                 sizeof(struct vgp_args_##name), NULL, 0)

/* A function of the guest's in STREAM(1) does not end. */
static void begin(struct broker *b, struct guest *g, uint64_t *device)
{
    const char *const extra[] = {
        "--provider", soft_provider(), "--client-time-limit", "1", "--client-threads", "32", NULL};
    uint64_t cookie = 0;

    memset(b, 0, sizeof(*b));
    assert_int_equal(broker_start(b, extra), 0);
    assert_int_equal(guest_connect(g, b->sock, "blocked"), 0);
    assert_int_equal(guest_context(g), 0);
    assert_int_equal(guest_alloc(g, 1 << 20, device), 0);
    assert_int_equal(CALL(g, cuStreamCreate, .phStream = STREAM(1), .Flags = CU_STREAM_NON_BLOCKING), 0);
    POST(g, VGP_NO_REPLY, vgpLaunchHostFunc, .stream = STREAM(1), .cookie = 1);
    assert_true(guest_notification(g, VGP_NOTIFY_HOST_FUNC, &cookie, NULL, 5000));
}

static void must_end(struct broker *b, struct guest *g)
{
    assert_true(guest_wait_dead(g, 60000));
    assert_non_null(strstr(g->s->dead_text, "--client-time-limit"));
    guest_close(g);
    assert_int_equal(broker_stop(b), 0);
}

static void test_operations(void **state)
{
    struct broker b;
    struct guest g;
    uint64_t device;

    (void)state;
    begin(&b, &g, &device);
    for (int i = 0; i < 17000; i++)
        POST(&g, VGP_NO_REPLY, cuMemsetD8Async, .dstDevice = device, .uc = 1, .N = 1, .hStream = STREAM(1));
    must_end(&b, &g);
}

static void test_bytes(void **state)
{
    static uint8_t bytes[64 << 10];
    struct vgp_args_vgpCopy a = {.dstKind = VGP_COPY_DEVICE,
                                 .srcKind = VGP_COPY_INLINE,
                                 .when = VGP_WHEN_NEVER,
                                 .widthBytes = sizeof(bytes),
                                 .stream = STREAM(1),
                                 .data_len = sizeof(bytes)};
    struct broker b;
    struct guest g;

    (void)state;
    begin(&b, &g, &a.dst);
    for (unsigned i = 0; i < (64u << 20) / sizeof(bytes) + 4; i++)
        guest_submit(&g, VGP_vgpCopy, VGP_NO_REPLY, &a, sizeof(a), bytes, sizeof(bytes));
    must_end(&b, &g);
}

/* Streams for which no thread is left run their operations where these are issued. */
static void test_threads(void **state)
{
    struct broker b;
    struct guest g;
    uint64_t device;
    int r = 0;

    (void)state;
    begin(&b, &g, &device);
    assert_int_equal(CALL(&g, cuEventCreate, .phEvent = EVENT(1)), 0);
    assert_int_equal(CALL(&g, cuEventRecord, .hEvent = EVENT(1), .hStream = STREAM(1)), 0);
    for (uint32_t i = 2; i < 64 && !r; i++) {
        r = CALL(&g, cuStreamCreate, .phStream = STREAM(i), .Flags = CU_STREAM_NON_BLOCKING);
        POST(&g, VGP_NO_REPLY, cuStreamWaitEvent, .hStream = STREAM(i), .hEvent = EVENT(1));
    }
    assert_int_equal(r, -2); /* its worker has ended */
    must_end(&b, &g);
}

/* Of memory that is not the device's alone a fill without a stream is over when its call is. */
static void test_fill(void **state)
{
    struct vgp_args_cuMemAllocManaged a = {.bytesize = 4096, .flags = CU_MEM_ATTACH_GLOBAL};
    const struct vgp_ret_cuMemAllocManaged *managed = NULL;
    uint64_t device, address, cookie = 0;
    struct broker b;
    struct guest g;

    (void)state;
    begin(&b, &g, &device);
    assert_int_equal(guest_call(&g, VGP_cuMemAllocManaged, &a, sizeof(a), (const void **)&managed, NULL), 0);
    address = managed->dptr;
    POST(&g, VGP_NO_REPLY, vgpLaunchHostFunc, .cookie = 2);
    assert_true(guest_notification(&g, VGP_NOTIFY_HOST_FUNC, &cookie, NULL, 5000));
    POST(&g, VGP_NO_REPLY, cuMemsetD8_v2, .dstDevice = address, .uc = 1, .N = 4096);
    must_end(&b, &g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_operations), cmocka_unit_test(test_bytes),
                                       cmocka_unit_test(test_threads), cmocka_unit_test(test_fill)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
