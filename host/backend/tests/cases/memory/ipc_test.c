/* SPDX-License-Identifier: MIT */
/*
 * Handles of a driver that has its own (cuIpc*): they stay with the broker, the guest gets tokens;
 * with real brokers and workers, as in process_test.c.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "guest.h"
#include "proc.h"
#include "testprov.h"
#include "vgb_msg.h"
#include "vgb_log.h"
#include "vgp_calls.h"

struct token {
    uint8_t b[64];
};

static int setup(void **state)
{
    struct broker *b = calloc(1, sizeof(*b));

    *state = b;
    return broker_start(b, NULL);
}

static int teardown(void **state)
{
    struct broker *b = *state;

    broker_stop(b);
    free(b);
    return 0;
}

static void client(struct guest *g, const struct broker *b, const char *name)
{
    assert_int_equal(guest_connect(g, b->sock, name), 0);
    assert_int_equal(guest_context(g), 0);
}

static int get_mem(struct guest *g, uint64_t dptr, struct token *t)
{
    struct vgp_args_cuIpcGetMemHandle a = {.dptr = dptr};
    const struct vgp_ret_cuIpcGetMemHandle *ret = NULL;
    uint32_t size = 0;
    int r = guest_call(g, VGP_cuIpcGetMemHandle, &a, sizeof(a), (const void **)&ret, &size);

    if (r)
        return r;
    assert_int_equal(ret->pHandle_len, sizeof(*t));
    assert_true(size >= sizeof(*ret) + sizeof(*t));
    memcpy(t, ret + 1, sizeof(*t));
    return 0;
}

static int open_bytes(struct guest *g, const void *bytes, uint32_t n, uint32_t flags, uint64_t *dptr)
{
    struct vgp_args_vgpIpcOpenMem a = {.flags = flags, .handle_len = n};
    const struct vgp_ret_vgpIpcOpenMem *ret = NULL;
    uint32_t size;

    guest_submit(g, VGP_vgpIpcOpenMem, 0, &a, sizeof(a), bytes, n);
    int r = guest_wait(g, 0, (const void **)&ret, &size, 60000);

    if (!r)
        *dptr = ret->dptr;
    return r;
}

static int open_mem(struct guest *g, const struct token *t, uint64_t *dptr)
{
    return open_bytes(g, t, sizeof(*t), CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, dptr);
}

static int close_mem(struct guest *g, uint64_t dptr)
{
    struct vgp_args_cuIpcCloseMemHandle a = {.dptr = dptr};

    return guest_call(g, VGP_cuIpcCloseMemHandle, &a, sizeof(a), NULL, NULL);
}

static void test_driver_handles_stay(void **state)
{
    struct guest one, two;
    struct token t, again;
    uint64_t p = 0, q = 0, q2 = 0;
    unsigned marks = 0;

    client(&one, *state, "one");
    client(&two, *state, "two");
    assert_int_equal(guest_alloc(&one, 4096, &p), 0);
    assert_int_equal(get_mem(&one, p, &t), 0);
    assert_int_equal(get_mem(&one, p, &again), 0);
    assert_memory_equal(&t, &again, sizeof(t));
    for (unsigned i = 0; i < sizeof(t); i++)
        marks += t.b[i] == IPC_MARK;
    assert_true(marks < 8); /* nothing of the driver's own handle */
    assert_int_equal(open_mem(&two, &t, &q), 0);
    assert_int_equal(q, p); /* the driver got what it had given */
    assert_int_equal(open_mem(&two, &t, &q2), 0);
    assert_int_equal(close_mem(&two, q), 0);
    assert_int_equal(close_mem(&two, q), 0);
    /* Freed: the token is nothing, and the next memory has another one. */
    assert_int_equal(guest_free(&one, p), 0);
    assert_int_equal(open_mem(&two, &t, &q), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(guest_alloc(&one, 4096, &p), 0);
    assert_int_equal(get_mem(&one, p, &again), 0);
    assert_memory_not_equal(&t, &again, sizeof(t));
    guest_close(&one);
    for (int i = 0; i < 3000 && open_mem(&two, &again, &q) == 0; i++)
        usleep(10000); /* until the broker has seen its end */
    assert_int_equal(open_mem(&two, &again, &q), CUDA_ERROR_INVALID_HANDLE);
    guest_close(&two);
}

static unsigned clients_of(pid_t broker)
{
    static char text[131072];
    unsigned n = 0;
    const char *line;

    assert_true(broker_status(broker, text, sizeof(text)) > 0);
    line = strstr(text, "\nbooks clients ");
    assert_non_null(line);
    assert_int_equal(sscanf(line, "\nbooks clients %u", &n), 1);
    return n;
}

/* While memory is shared, and once its maker has gone while another one has it, the accounts are even. */
static void test_accounts(void **state)
{
    const struct broker *b = *state;
    struct guest one, two;
    uint64_t p = 0, q = 0;
    struct token t;

    client(&one, b, "one");
    client(&two, b, "two");
    assert_int_equal(guest_alloc(&one, 1 << 20, &p), 0);
    assert_int_equal(get_mem(&one, p, &t), 0);
    assert_int_equal(open_mem(&two, &t, &q), 0);
    assert_null(broker_books(b->pid));
    guest_close(&one);
    for (int i = 0; i < 1000 && clients_of(b->pid) > 1; i++)
        usleep(10000);
    assert_int_equal(clients_of(b->pid), 1);
    assert_null(broker_books(b->pid));
    assert_int_equal(close_mem(&two, q), 0);
    assert_null(broker_books(b->pid));
    guest_close(&two);
}

/* What the driver does not close is still open, and stays charged; what is being closed keeps its context. */
static void test_refused(void **state)
{
    const uint64_t other = VGP_HANDLE(VGP_H_CONTEXT, 1, 7), most = 64u << 20;
    const char *const options[] = {"--vram-quota", "64M", NULL};
    const struct vgp_args_vgpCtxCreate make = {.context = other};
    const struct vgp_args_vgpCtxDestroy end = {.context = other};
    struct broker b = {0};
    struct guest one, two;
    uint64_t p = 0, q = 0;
    struct token t;

    (void)state;
    assert_int_equal(broker_start(&b, options), 0);
    client(&one, &b, "one");
    client(&two, &b, "two");
    assert_int_equal(guest_alloc(&one, most / 2, &p), 0);
    assert_int_equal(get_mem(&one, p, &t), 0);
    const uint64_t primary = two.context;
    assert_int_equal(guest_call(&two, VGP_vgpCtxCreate, &make, sizeof(make), NULL, NULL), 0);
    two.context = other;
    assert_int_equal(open_mem(&two, &t, &q), 0);
    two.context = primary;
    assert_int_equal(close_mem(&two, q), CUDA_ERROR_INVALID_CONTEXT);
    guest_close(&one);
    for (int i = 0; i < 1000 && clients_of(b.pid) > 1; i++)
        usleep(10000);
    assert_int_equal(guest_alloc(&two, most - (1u << 20), &p), CUDA_ERROR_OUT_OF_MEMORY);

    const struct vgp_args_cuIpcCloseMemHandle a = {.dptr = q};
    const uint64_t since = vgb_now_ns();
    assert_int_equal(guest_memset(&two, 0, VALUE_BUSY, 500, 0), 0);
    guest_submit(&two, VGP_cuIpcCloseMemHandle, 5, &a, sizeof(a), NULL, 0);
    two.seq++;
    assert_int_equal(guest_call(&two, VGP_vgpCtxDestroy, &end, sizeof(end), NULL, NULL), 0);
    assert_true(vgb_now_ns() - since >= 500000000u);
    assert_null(broker_books(b.pid));
    assert_int_equal(guest_alloc(&two, most - (1u << 20), &p), 0);
    guest_close(&two);
    assert_int_equal(broker_stop(&b), 0);
}

/* Memory that is open in two contexts is still open, and charged, when one of them has ended. */
static void test_open_twice(void **state)
{
    const uint64_t other = VGP_HANDLE(VGP_H_CONTEXT, 1, 7), most = 64u << 20;
    const char *const options[] = {"--vram-quota", "64M", NULL};
    const struct vgp_args_vgpCtxCreate make = {.context = other};
    const struct vgp_args_vgpCtxDestroy end = {.context = other};
    struct broker b = {0};
    struct guest one, two;
    uint64_t p = 0, q = 0;
    struct token t;

    (void)state;
    assert_int_equal(broker_start(&b, options), 0);
    client(&one, &b, "one");
    client(&two, &b, "two");
    assert_int_equal(guest_alloc(&one, most / 2, &p), 0);
    assert_int_equal(get_mem(&one, p, &t), 0);
    const uint64_t primary = two.context;
    assert_int_equal(guest_call(&two, VGP_vgpCtxCreate, &make, sizeof(make), NULL, NULL), 0);
    two.context = other;
    assert_int_equal(open_mem(&two, &t, &q), 0);
    two.context = primary;
    assert_int_equal(open_mem(&two, &t, &q), 0);
    assert_int_equal(guest_call(&two, VGP_vgpCtxDestroy, &end, sizeof(end), NULL, NULL), 0);
    guest_close(&one);
    for (int i = 0; i < 1000 && clients_of(b.pid) > 1; i++)
        usleep(10000);
    assert_int_equal(guest_alloc(&two, most - (1u << 20), &p), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(close_mem(&two, q), 0);
    assert_null(broker_books(b.pid));
    assert_int_equal(guest_alloc(&two, most - (1u << 20), &p), 0);
    guest_close(&two);
    assert_int_equal(broker_stop(&b), 0);
}

/* Memory opened again in its context takes as many closes, and is charged until the last one. */
static void test_opened_again(void **state)
{
    const uint64_t most = 64u << 20;
    const char *const options[] = {"--vram-quota", "64M", NULL};
    struct guest one, two;
    uint64_t p, q = 0;
    struct token t;

    (void)state;
    for (unsigned opens = 1; opens <= 3; opens++) {
        struct broker b = {0};

        assert_int_equal(broker_start(&b, options), 0);
        client(&two, &b, "two");
        client(&one, &b, "one");
        assert_int_equal(guest_alloc(&one, most / 2, &p), 0);
        assert_int_equal(get_mem(&one, p, &t), 0);
        for (unsigned i = 0; i < opens; i++)
            assert_int_equal(open_mem(&two, &t, &q), 0);
        guest_close(&one);
        for (int i = 0; i < 1000 && clients_of(b.pid) > 1; i++)
            usleep(10000);
        for (unsigned i = 0; i < opens; i++) {
            assert_int_equal(guest_alloc(&two, most - (1u << 20), &p), CUDA_ERROR_OUT_OF_MEMORY);
            assert_int_equal(close_mem(&two, q), 0);
            assert_null(broker_books(b.pid));
        }
        assert_int_equal(guest_alloc(&two, most - (1u << 20), &p), 0);
        guest_close(&two);
        assert_int_equal(broker_stop(&b), 0);
    }
}

/* No bytes of the guest's reach the driver as a handle. */
static void test_invented(void **state)
{
    struct guest one, two;
    struct token t, bad;
    uint64_t p = 0, q = 0;

    client(&one, *state, "one");
    client(&two, *state, "two");
    assert_int_equal(guest_alloc(&one, 4096, &p), 0);
    assert_int_equal(get_mem(&one, p, &t), 0);
    /* Bytes that are no handle are INVALID_VALUE (driver 580); an unknown token is INVALID_HANDLE. */
    memset(&bad, IPC_MARK, sizeof(bad)); /* a driver's handle */
    assert_int_equal(open_mem(&two, &bad, &q), CUDA_ERROR_INVALID_VALUE);
    memset(&bad, 0, sizeof(bad));
    assert_int_equal(open_mem(&two, &bad, &q), CUDA_ERROR_INVALID_VALUE);
    for (unsigned bit = 0; bit < 8 * sizeof(t); bit++) {
        bad = t;
        bad.b[bit / 8] ^= (uint8_t)(1u << bit % 8);
        const bool token = bit / 8 >= 8 && bit / 8 < 8 + VGB_TOKEN;
        assert_int_equal(open_mem(&two, &bad, &q),
                         token ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE);
    }
    assert_int_equal(open_mem(&two, &t, &q), 0);
    assert_int_equal(open_bytes(&two, &t, sizeof(t), 7, &q), CUDA_ERROR_UNKNOWN); /* the driver's */
    assert_int_equal(open_bytes(&two, &t, 63, 1, &q), -2); /* no honest guest: the client ends */
    assert_int_equal(get_mem(&one, p, &t), 0);
    guest_close(&one);
    guest_close(&two);
}

/* A token of one broker is nothing to another one, nor to the same after a restart. */
static void test_other_brokers(void **state)
{
    struct broker other = {0};
    struct guest one, two;
    struct token t;
    uint64_t p = 0, q = 0;

    assert_int_equal(broker_start(&other, NULL), 0);
    client(&one, *state, "one");
    client(&two, &other, "two");
    assert_int_equal(guest_alloc(&one, 4096, &p), 0);
    assert_int_equal(get_mem(&one, p, &t), 0);
    assert_int_equal(open_mem(&two, &t, &q), CUDA_ERROR_INVALID_HANDLE);
    guest_close(&two);
    broker_stop(&other);
    assert_int_equal(broker_start(&other, NULL), 0);
    client(&two, &other, "two");
    assert_int_equal(open_mem(&two, &t, &q), CUDA_ERROR_INVALID_HANDLE);
    guest_close(&two);
    guest_close(&one);
    broker_stop(&other);
}

static int event_handle(struct guest *g, uint64_t event, struct token *t)
{
    struct vgp_args_vgpIpcGetEvent a = {.event = event};
    const struct vgp_ret_vgpIpcGetEvent *ret = NULL;
    int r = guest_call(g, VGP_vgpIpcGetEvent, &a, sizeof(a), (const void **)&ret, NULL);

    if (!r)
        memcpy(t, ret + 1, sizeof(*t));
    return r;
}

static int open_event(struct guest *g, const struct token *t, uint64_t event)
{
    struct vgp_args_vgpIpcOpenEvent a = {.handle_len = sizeof(*t), .event = event};
    const void *p;
    uint32_t size;

    guest_submit(g, VGP_vgpIpcOpenEvent, 0, &a, sizeof(a), t, sizeof(*t));
    return guest_wait(g, 0, &p, &size, 60000);
}

static void test_events(void **state)
{
    const uint64_t e = VGP_HANDLE(VGP_H_EVENT, 1, 1), e2 = VGP_HANDLE(VGP_H_EVENT, 1, 2);
    struct vgp_args_cuEventCreate create = {.phEvent = e,
                                            .Flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING};
    struct vgp_args_cuEventDestroy_v2 destroy = {.hEvent = e};
    struct guest one, two;
    struct token t, m;
    uint64_t p = 0, q;

    client(&one, *state, "one");
    client(&two, *state, "two");
    guest_submit(&one, VGP_cuEventCreate, VGP_NO_REPLY, &create, sizeof(create), NULL, 0);
    assert_int_equal(event_handle(&one, e, &t), 0);
    assert_int_equal(event_handle(&one, e2, &m), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(open_event(&two, &t, e), 0);
    assert_int_equal(open_mem(&two, &t, &q), CUDA_ERROR_INVALID_VALUE); /* not memory */
    assert_int_equal(guest_alloc(&one, 4096, &p), 0);
    assert_int_equal(get_mem(&one, p, &m), 0);
    assert_int_equal(open_event(&two, &m, e2), CUDA_ERROR_INVALID_HANDLE); /* not an event */
    guest_submit(&one, VGP_cuEventDestroy_v2, VGP_NO_REPLY, &destroy, sizeof(destroy), NULL, 0);
    assert_int_equal(get_mem(&one, p, &m), 0); /* so that it has happened */
    assert_int_equal(open_event(&two, &t, e2), CUDA_ERROR_INVALID_HANDLE);
    guest_close(&one);
    guest_close(&two);
}

/* A handle is made while another context is current: it ends with the context that its object is in, no other. */
static void test_other_context(void **state)
{
    const uint64_t contexts[] = {VGP_HANDLE(VGP_H_CONTEXT, 1, 7), VGP_HANDLE(VGP_H_CONTEXT, 1, 8)};
    struct vgp_args_vgpCtxCreate make = {.flags = 0};
    struct vgp_args_vgpCtxDestroy end = {.context = contexts[1]};
    struct vgp_args_cuEventCreate create = {.Flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING};
    struct token memory[2], event[2];
    uint64_t p[2] = {0}, q;
    struct guest one, two;

    client(&one, *state, "one");
    client(&two, *state, "two");
    for (unsigned i = 0; i < 2; i++) {
        make.context = one.context = contexts[i];
        assert_int_equal(guest_call(&one, VGP_vgpCtxCreate, &make, sizeof(make), NULL, NULL), 0);
        assert_int_equal(guest_alloc(&one, 4096, &p[i]), 0);
        create.phEvent = VGP_HANDLE(VGP_H_EVENT, 1, 1 + i);
        guest_submit(&one, VGP_cuEventCreate, VGP_NO_REPLY, &create, sizeof(create), NULL, 0);
    }
    for (unsigned i = 0; i < 2; i++) {
        one.context = contexts[!i];
        assert_int_equal(get_mem(&one, p[i], &memory[i]), 0);
        assert_int_equal(event_handle(&one, VGP_HANDLE(VGP_H_EVENT, 1, 1 + i), &event[i]), 0);
    }
    one.context = contexts[0];
    assert_int_equal(guest_call(&one, VGP_vgpCtxDestroy, &end, sizeof(end), NULL, NULL), 0);
    assert_int_equal(open_mem(&two, &memory[0], &q), 0);
    assert_int_equal(q, p[0]);
    assert_int_equal(open_event(&two, &event[0], VGP_HANDLE(VGP_H_EVENT, 1, 1)), 0);
    assert_int_equal(open_mem(&two, &memory[1], &q), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(open_event(&two, &event[1], VGP_HANDLE(VGP_H_EVENT, 1, 2)), CUDA_ERROR_INVALID_HANDLE);
    guest_close(&one);
    guest_close(&two);
}

/* The memory of a context whose end waits for a call: the driver still has it, but no handle of it would end with it. */
static void test_context_ends(void **state)
{
    enum { SLOT = 5 };
    const uint64_t contexts[] = {VGP_HANDLE(VGP_H_CONTEXT, 1, 7), VGP_HANDLE(VGP_H_CONTEXT, 1, 8)};
    static const char image[] = "slow";
    struct vgp_args_vgpCtxCreate make = {.flags = 0};
    const struct vgp_args_vgpCtxDestroy end = {.context = contexts[1]};
    const struct vgp_args_vgpModuleLoad load = {
        .module = VGP_HANDLE(VGP_H_MODULE, 1, 1), .image_size = sizeof(image), .image_len = sizeof(image)};
    uint32_t last, seq, next;
    int r = CUDA_ERROR_INVALID_VALUE;
    struct token t;
    struct guest g;
    uint64_t p = 0;

    client(&g, *state, "one");
    for (unsigned i = 0; i < 2; i++) {
        make.context = g.context = contexts[i];
        assert_int_equal(guest_call(&g, VGP_vgpCtxCreate, &make, sizeof(make), NULL, NULL), 0);
    }
    assert_int_equal(guest_alloc(&g, 4096, &p), 0);
    guest_submit(&g, VGP_vgpModuleLoad, SLOT, &load, sizeof(load), image, sizeof(image));
    seq = g.seq;
    g.context = contexts[0];
    guest_submit(&g, VGP_vgpCtxDestroy, SLOT + 1, &end, sizeof(end), NULL, 0);
    next = g.seq;
    assert_int_equal(get_mem(&g, p, &t), CUDA_ERROR_INVALID_VALUE);
    while (r == CUDA_ERROR_INVALID_VALUE)
        r = guest_memset(&g, 0, VALUE_RELEASE, 0, 0);
    assert_int_equal(r, 0);
    last = g.seq;
    g.seq = seq;
    assert_int_equal(guest_wait(&g, SLOT, NULL, NULL, 60000), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    g.seq = next;
    assert_int_equal(guest_wait(&g, SLOT + 1, NULL, NULL, 60000), 0);
    g.seq = last;
    assert_int_equal(get_mem(&g, p, &t), CUDA_ERROR_INVALID_VALUE);
    guest_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_driver_handles_stay, setup, teardown),
        cmocka_unit_test_setup_teardown(test_accounts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_open_twice, setup, teardown),
        cmocka_unit_test(test_opened_again),
        cmocka_unit_test_setup_teardown(test_invented, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_brokers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_events, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_context, setup, teardown),
        cmocka_unit_test_setup_teardown(test_context_ends, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
