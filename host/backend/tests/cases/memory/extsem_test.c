/* SPDX-License-Identifier: MIT */
/* External semaphores in real workers: the guest is asked, nothing goes on before it has answered, and
 * what no libcuda sends; as in process_test.c. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "guest.h"
#include "proc.h"
#include "testprov.h"
#include "vgp_calls.h"

static void begin(struct broker *b, struct guest *g)
{
    memset(b, 0, sizeof(*b));
    assert_int_equal(broker_start(b, NULL), 0);
    assert_int_equal(guest_connect(g, b->sock, "one"), 0);
    assert_int_equal(guest_context(g), 0);
}

/* A call; its first 64-bit result. */
static int call(struct guest *g, uint16_t number, const void *args, uint32_t size, uint64_t *out)
{
    const void *p = NULL;
    uint32_t n = 0;
    int r = guest_call(g, number, args, size, &p, &n);

    if (r == 0 && out) {
        assert_true(n >= 8);
        memcpy(out, p, 8);
    }
    return r;
}

static int op(struct guest *g, uint32_t what, uint32_t capture, uint64_t cookie)
{
    struct vgp_args_vgpExtSemOp a = {.what = what, .capture = capture, .cookie = cookie};

    return call(g, VGP_vgpExtSemOp, &a, sizeof(a), NULL);
}

static uint64_t new_graph(struct guest *g)
{
    struct vgp_args_vgpGraphCreate a = {0};
    uint64_t handle = 0;

    assert_int_equal(call(g, VGP_vgpGraphCreate, &a, sizeof(a), &handle), 0);
    return handle;
}

static int info(struct guest *g, uint64_t node, uint32_t what, uint64_t *cookie)
{
    struct vgp_args_vgpGraphExtSemNodeGet a = {.node = node, .what = what};

    return call(g, VGP_vgpGraphExtSemNodeGet, &a, sizeof(a), cookie);
}

static void test_asked(void **state)
{
    uint64_t cookie = 0;
    struct broker b;
    struct guest g;

    (void)state;
    begin(&b, &g);
    assert_int_equal(op(&g, VGP_EXTSEM_WAIT, 0, 41), 0);
    assert_true(guest_notification(&g, VGP_NOTIFY_HOST_FUNC, &cookie, NULL, 5000));
    assert_int_equal(cookie, 41);
    assert_int_equal(op(&g, VGP_EXTSEM_SIGNAL, 0, 42), 0);
    assert_true(guest_notification(&g, VGP_NOTIFY_HOST_FUNC, &cookie, NULL, 5000));
    assert_int_equal(cookie, 42);
    /* Not a stream that captures. */
    assert_int_equal(op(&g, VGP_EXTSEM_WAIT, 1, 43), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    guest_close(&g); /* with the wait outstanding */
    assert_int_equal(broker_stop(&b), 0);
}

static int ping(struct guest *g)
{
    struct vgp_args_vgpPing a = {.value = 1};

    return guest_call(g, VGP_vgpPing, &a, sizeof(a), NULL, NULL);
}

static void finished(struct guest *g, uint32_t slot, uint32_t sequence)
{
    struct vgp_args_vgpHostFuncFinished f = {.slot = slot, .sequence = sequence};

    guest_submit(g, VGP_vgpHostFuncFinished, VGP_NO_REPLY, &f, sizeof(f), NULL, 0);
}

/*
 * Slots and sequence numbers are counted from 0 and 1, so a guest can answer what it was not asked yet.
 * Such an answer must not free what the provider still holds: it ends the client.
 */
static void test_answers(void **state)
{
    const struct vgp_args_vgpHostFuncDone done = {.cookie = 41};
    uint64_t cookie = 0;
    struct broker b;
    struct guest g, bad;

    (void)state;
    begin(&b, &g);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(guest_connect(&bad, b.sock, "bad"), 0);
        assert_int_equal(guest_context(&bad), 0);
        if (i < 3) /* the provider holds it while the stream is busy */
            assert_int_equal(guest_memset(&bad, 0, VALUE_BUSY, 30000, 0), 0);
        assert_int_equal(op(&bad, VGP_EXTSEM_WAIT, 0, 41), 0);
        if (i >= 3)
            assert_true(guest_notification(&bad, VGP_NOTIFY_HOST_FUNC, &cookie, NULL, 5000));
        switch (i) {
        case 0: /* asked for, but not yet of the guest */
            finished(&bad, 0, 1);
            break;
        case 1: /* the way of protocol 1.0 */
            guest_submit(&bad, VGP_vgpHostFuncDone, VGP_NO_REPLY, &done, sizeof(done), NULL, 0);
            break;
        case 2: /* never given out, in time or in number */
            finished(&bad, 0, 2);
            break;
        case 3: /* another slot */
            finished(&bad, 1, 1);
            break;
        case 4:
            finished(&bad, VGP_HOST_RUNS, 1);
            break;
        case 5:
            finished(&bad, 0, 0);
            break;
        case 6: /* twice */
            finished(&bad, 0, 1);
            finished(&bad, 0, 1);
            break;
        case 7: /* in both ways */
            finished(&bad, 0, 1);
            guest_submit(&bad, VGP_vgpHostFuncDone, VGP_NO_REPLY, &done, sizeof(done), NULL, 0);
            break;
        }
        if (!guest_wait_dead(&bad, 60000))
            fail_msg("case %d: the client lives on", i);
        assert_int_equal(bad.s->dead_reason, 2 /* VGPU_DEAD_PROTOCOL */);
        guest_close(&bad);
        assert_int_equal(ping(&g), 0);
    }
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* The word of the window may be seen before the record, and a context may end before the question. */
static void test_answers_late(void **state)
{
    const struct vgp_args_vgpLaunchHostFunc launch = {.cookie = 5};
    struct vgp_args_vgpPrimaryCtxReset reset = {.device = 0};
    uint64_t cookie = 0;
    struct broker b;
    struct guest g;

    (void)state;
    begin(&b, &g);
    guest_submit(&g, VGP_vgpLaunchHostFunc, VGP_NO_REPLY, &launch, sizeof(launch), NULL, 0);
    assert_true(guest_notification(&g, VGP_NOTIFY_HOST_FUNC, &cookie, NULL, 5000));
    __atomic_store_n(&g.s->host_done[0], 1, __ATOMIC_RELEASE);
    for (int i = 2; i < 6; i++) { /* each ends by its word, in whatever slot it has */
        guest_submit(&g, VGP_vgpLaunchHostFunc, VGP_NO_REPLY, &launch, sizeof(launch), NULL, 0);
        assert_true(guest_notification(&g, VGP_NOTIFY_HOST_FUNC, &cookie, NULL, 5000));
        for (unsigned slot = 0; slot < 6; slot++)
            __atomic_store_n(&g.s->host_done[slot], i, __ATOMIC_RELEASE);
    }
    finished(&g, 0, 1);
    assert_int_equal(ping(&g), 0);
    /* The provider holds two; the context goes, and then it asks for them. */
    assert_int_equal(guest_memset(&g, 0, VALUE_BUSY, 200, 0), 0);
    assert_int_equal(op(&g, VGP_EXTSEM_WAIT, 0, 41), 0);
    assert_int_equal(op(&g, VGP_EXTSEM_WAIT, 0, 42), 0);
    assert_int_equal(guest_call(&g, VGP_vgpPrimaryCtxReset, &reset, sizeof(reset), NULL, NULL), 0);
    assert_int_equal(guest_context(&g), 0);
    assert_false(guest_notification(&g, VGP_NOTIFY_HOST_FUNC, &cookie, NULL, 400));
    assert_int_equal(ping(&g), 0);
    assert_int_equal(op(&g, VGP_EXTSEM_WAIT, 0, 43), 0);
    assert_true(guest_notification(&g, VGP_NOTIFY_HOST_FUNC, &cookie, NULL, 5000));
    assert_int_equal(cookie, 43);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

static uint64_t new_context(struct guest *g, uint32_t index)
{
    struct vgp_args_vgpCtxCreate a = {.context = VGP_HANDLE(VGP_H_CONTEXT, 1, index),
                                      .flags = LONG_CONTEXT | SAME_CONTEXT};
    int r = -1;

    for (int i = 0; i < 5000 && r; i++) {
        r = call(g, VGP_vgpCtxCreate, &a, sizeof(a), NULL);
        usleep(r ? 1000 : 0);
    }
    assert_int_equal(r, 0);
    return a.context;
}

/* A context has the address of one whose end is not complete: its functions are its own. */
static void test_address_again(void **state)
{
    struct vgp_args_vgpCtxDestroy destroy = {0};
    uint64_t cookie = 0;
    uint32_t asked, last;
    struct broker b;
    struct guest g;

    (void)state;
    begin(&b, &g);
    destroy.context = g.context = new_context(&g, 7);
    assert_int_equal(op(&g, VGP_EXTSEM_WAIT, 0, 41), 0);
    assert_true(guest_notification(&g, VGP_NOTIFY_HOST_FUNC, &cookie, NULL, 5000));
    guest_submit(&g, VGP_vgpCtxDestroy, 5, &destroy, sizeof(destroy), NULL, 0);
    asked = g.seq;
    g.context = new_context(&g, 8);
    assert_int_equal(guest_memset(&g, 0, VALUE_BUSY, 1000, 0), 0); /* the provider holds it so long */
    assert_int_equal(op(&g, VGP_EXTSEM_WAIT, 0, 42), 0);
    assert_int_equal(guest_memset(&g, 0, VALUE_RELEASE, 0, 0), 0);
    last = g.seq;
    g.seq = asked;
    assert_int_equal(guest_wait(&g, 5, NULL, NULL, 60000), 0);
    g.seq = last;
    assert_true(guest_notification(&g, VGP_NOTIFY_HOST_FUNC, &cookie, NULL, 5000));
    assert_int_equal(cookie, 42);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* A guest may ask for more than a worker keeps. */
static void test_many(void **state)
{
    struct broker b;
    struct guest g;
    int r = 0, n = 0;

    (void)state;
    begin(&b, &g);
    while (n < 3000 && r == 0) {
        r = op(&g, VGP_EXTSEM_WAIT, 0, (uint64_t)n + 1);
        n += r == 0;
    }
    assert_int_equal(r, CUDA_ERROR_OUT_OF_MEMORY);
    assert_true(n >= 256);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

static void test_nodes(void **state)
{
    struct vgp_args_vgpGraphExtSemNode a = {.what = VGP_EXTSEM_WAIT, .cookie = 7};
    struct vgp_args_vgpGraphHostNode h = {.op = VGP_NODE_SET, .cookie = 8};
    struct vgp_args_vgpGraphHostNodeGet hg = {0};
    struct vgp_args_vgpGraphNodeInfo i = {0};
    const struct vgp_ret_vgpGraphNodeInfo *ret = NULL;
    uint64_t node = 0, plain = 0, cookie = 0;
    uint32_t size = 0;
    struct broker b;
    struct guest g;

    (void)state;
    begin(&b, &g);
    a.graph = new_graph(&g);
    assert_int_equal(call(&g, VGP_vgpGraphExtSemNode, &a, sizeof(a), &node), 0);
    i.node = hg.node = node;
    assert_int_equal(guest_call(&g, VGP_vgpGraphNodeInfo, &i, sizeof(i), (const void **)&ret, &size), 0);
    assert_true(size >= sizeof(*ret));
    assert_int_equal(ret->type, CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT);
    assert_int_equal(info(&g, node, VGP_EXTSEM_WAIT, &cookie), 0);
    assert_int_equal(cookie, 7);
    assert_int_equal(info(&g, node, VGP_EXTSEM_SIGNAL, &cookie), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(info(&g, node, 99, &cookie), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(info(&g, node + 1, VGP_EXTSEM_WAIT, &cookie), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(call(&g, VGP_vgpGraphHostNodeGet, &hg, sizeof(hg), NULL), CUDA_ERROR_INVALID_VALUE);
    h.target = node; /* it does not become a plain one */
    assert_int_equal(call(&g, VGP_vgpGraphHostNode, &h, sizeof(h), NULL), CUDA_ERROR_INVALID_VALUE);
    h = (struct vgp_args_vgpGraphHostNode){.graph = a.graph, .cookie = 9};
    assert_int_equal(call(&g, VGP_vgpGraphHostNode, &h, sizeof(h), &plain), 0);
    a = (struct vgp_args_vgpGraphExtSemNode){
        .op = VGP_NODE_SET, .target = plain, .what = VGP_EXTSEM_WAIT, .cookie = 10};
    assert_int_equal(call(&g, VGP_vgpGraphExtSemNode, &a, sizeof(a), NULL), CUDA_ERROR_INVALID_VALUE);
    a.target = node; /* nor a signal */
    a.what = VGP_EXTSEM_SIGNAL;
    assert_int_equal(call(&g, VGP_vgpGraphExtSemNode, &a, sizeof(a), NULL), CUDA_ERROR_INVALID_VALUE);
    a.what = VGP_EXTSEM_WAIT;
    assert_int_equal(call(&g, VGP_vgpGraphExtSemNode, &a, sizeof(a), NULL), 0);
    assert_int_equal(info(&g, node, VGP_EXTSEM_WAIT, &cookie), 0);
    assert_int_equal(cookie, 10);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* Calls that no libcuda sends end their client, and no other. */
static void test_malformed(void **state)
{
    struct broker b;
    struct guest g, bad;

    (void)state;
    begin(&b, &g);
    for (uint32_t i = 0; i < 5; i++) {
        struct vgp_args_vgpExtSemOp o = {.what = i == 0 ? VGP_EXTSEM_NONE : 3, .cookie = 1};
        struct vgp_args_vgpGraphExtSemNode n = {.what = VGP_EXTSEM_WAIT, .cookie = 1};

        assert_int_equal(guest_connect(&bad, b.sock, "bad"), 0);
        assert_int_equal(guest_context(&bad), 0);
        n.graph = new_graph(&bad);
        if (i == 2)
            n.what = 77;
        if (i == 3)
            n.op = VGP_NODE_CAPTURE;
        if (i == 4)
            n.op = 9;
        if (i < 2)
            guest_submit(&bad, VGP_vgpExtSemOp, 0, &o, sizeof(o), NULL, 0);
        else
            guest_submit(&bad, VGP_vgpGraphExtSemNode, 0, &n, sizeof(n), NULL, 0);
        assert_true(guest_wait_dead(&bad, 60000));
        guest_close(&bad);
        new_graph(&g);
    }
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_asked),        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_answers_late), cmocka_unit_test(test_address_again),
        cmocka_unit_test(test_many),         cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_malformed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
