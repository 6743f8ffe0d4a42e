/* SPDX-License-Identifier: MIT */
/* Waits for events that bring a time along; as in process_test.c. The test provider ends the worker when
 * it is called with an object that has ended. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "guest.h"
#include "proc.h"
#include "testprov.h"
#include "vgp_calls.h"

#define CALL(g, name, ...) \
    guest_call(g, VGP_##name, &(struct vgp_args_##name){__VA_ARGS__}, sizeof(struct vgp_args_##name), NULL, \
               NULL)

static int setup(void **state)
{
    static struct broker b;

    *state = &b;
    return broker_start(&b, NULL);
}

static int teardown(void **state)
{
    return broker_stop(*state);
}

static void connect_to(struct broker *b, struct guest *g)
{
    assert_int_equal(guest_connect(g, b->sock, "elapse"), 0);
    assert_int_equal(guest_context(g), 0);
}

enum way { OF_EVENT, OF_STREAM, OF_CONTEXT, WAYS };

static void submit_wait(struct guest *g, enum way way, uint64_t stream, uint64_t start, uint64_t end)
{
    const struct vgp_args_vgpEventElapse event = {.hEvent = end, .start = start};
    const struct vgp_args_vgpStreamElapse of_stream = {.hStream = stream, .start = start, .end = end};
    const struct vgp_args_vgpCtxElapse context = {.start = start, .end = end};

    if (way == OF_EVENT)
        guest_submit(g, VGP_vgpEventElapse, 3, &event, sizeof(event), NULL, 0);
    else if (way == OF_STREAM)
        guest_submit(g, VGP_vgpStreamElapse, 3, &of_stream, sizeof(of_stream), NULL, 0);
    else
        guest_submit(g, VGP_vgpCtxElapse, 3, &context, sizeof(context), NULL, 0);
}

/* A wait that brings a time along: of the events as they are when it ends, while either may be gone. */
static void test_elapse(void **state)
{
    const uint64_t stream = VGP_HANDLE(VGP_H_STREAM, 1, 3);
    struct guest g;

    connect_to(*state, &g);
    assert_int_equal(CALL(&g, cuStreamCreate, .phStream = stream), 0);
    for (uint32_t n = 0; n < 5 * WAYS; n++) {
        const uint64_t start = VGP_HANDLE(VGP_H_EVENT, 1, 1 + 2 * n), end = start + 1;
        const unsigned i = n % 5;
        const struct vgp_ret_vgpEventElapse *ret = NULL;
        uint32_t size = 0;

        assert_int_equal(CALL(&g, cuEventCreate, .phEvent = start), 0);
        assert_int_equal(CALL(&g, cuEventCreate, .phEvent = end), 0);
        assert_int_equal(guest_memset(&g, 0, VALUE_BUSY, 1, stream), 0);
        assert_int_equal(CALL(&g, cuEventRecord, .hEvent = start, .hStream = stream), 0);
        assert_int_equal(guest_memset(&g, 0, VALUE_BUSY, 300, stream), 0);
        assert_int_equal(CALL(&g, cuEventRecord, .hEvent = end, .hStream = stream), 0);
        submit_wait(&g, n / 5, stream, i == 4 ? stream : start, end);
        assert_int_equal(guest_wait(&g, 3, NULL, NULL, 100), -1); /* on a waiter by now */
        uint32_t seq = g.seq;
        if (i == 1)
            assert_int_equal(CALL(&g, cuEventDestroy_v2, .hEvent = start), 0);
        if (i == 2)
            assert_int_equal(CALL(&g, cuEventDestroy_v2, .hEvent = end), 0);
        if (i == 3) {
            assert_int_equal(guest_memset(&g, 0, VALUE_BUSY, 2000, stream), 0);
            assert_int_equal(CALL(&g, cuEventRecord, .hEvent = start, .hStream = stream), 0);
        }
        g.seq = seq;
        assert_int_equal(guest_wait(&g, 3, (const void **)&ret, &size, 60000), 0);
        assert_int_equal(size, sizeof(*ret));
        assert_int_equal(ret->result, i == 0   ? CUDA_SUCCESS
                                      : i == 3 ? CUDA_ERROR_NOT_READY
                                               : CUDA_ERROR_INVALID_HANDLE);
        if (i == 0)
            assert_true(ret->milliseconds >= 299 && ret->milliseconds < 60000);
        g.seq += 10;
        if (i == 3)
            assert_int_equal(CALL(&g, cuEventSynchronize, .hEvent = start), 0);
    }
    /* No wait for what is no event. */
    assert_int_equal(CALL(&g, vgpEventElapse, .hEvent = stream, .start = stream), CUDA_ERROR_INVALID_HANDLE);
    /* No wait in what is no stream; the context's is one, and its time an error. */
    assert_int_equal(
        CALL(&g, vgpStreamElapse, .hStream = VGP_HANDLE(VGP_H_EVENT, 1, 1), .start = 0, .end = 0),
        CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(CALL(&g, vgpCtxElapse, .start = 0, .end = stream), 0);
    assert_int_equal(CALL(&g, vgpPing, .value = 1), 0);
    guest_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elapse),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
