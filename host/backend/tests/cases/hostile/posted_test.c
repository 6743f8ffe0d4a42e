/* SPDX-License-Identifier: MIT */
/* Nodes of each type that are posted and cannot be added, or that no libcuda posts: real broker and workers. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/testing/range.h"
#include <cuda.h>

#include "guest.h"
#include "proc.h"
#include "vgp_calls.h"

#define GRAPH(i) VGP_HANDLE(VGP_H_GRAPH, 1, VGP_HANDLE_GUEST_FIRST + (i))
#define NODE(i) VGP_HANDLE(VGP_H_GRAPH_NODE, 1, VGP_HANDLE_GUEST_FIRST + (i))
#define EXEC(i) VGP_HANDLE(VGP_H_GRAPH_EXEC, 1, i)
#define CONTEXT(i) VGP_HANDLE(VGP_H_CONTEXT, 1, i)

/* What the calls of all types of nodes begin with. */
struct place {
    uint32_t op, pad;
    uint64_t graph, target, exec;
    uint32_t dependencies_len, edgeData_len;
};

static void submit(struct guest *g, uint16_t call, const void *args, uint32_t size)
{
    const struct place *p = args;

    guest_submit(g, call, p->op == VGP_NODE_POST ? VGP_NO_REPLY : 0, args, size, NULL, 0);
}

#define PLACE(G, N) .op = VGP_NODE_POST, .graph = (G), .target = (N)
#define SUBMIT(g, call, ...) \
    submit(g, VGP_##call, &(struct vgp_args_##call){__VA_ARGS__}, sizeof(struct vgp_args_##call))

/* A node that names what there is: by a context, an event, a graph. */
static void post_memset(struct guest *g, uint64_t graph, uint64_t node, uint64_t named)
{
    SUBMIT(g, vgpGraphMemsetNode, PLACE(graph, node), .context = named, .dst = 0x1000, .elementSize = 1,
           .width = 1, .height = 1);
}

#define PAGEABLE 0x77 /* the cookie of its host function */

/* On the device, and out of pageable memory: with a host function, whose memory is in no region. */
static void post_copy(struct guest *g, uint64_t graph, uint64_t node, uint64_t named)
{
    SUBMIT(g, vgpGraphCopyNode, PLACE(graph, node), .context = named, .dst = 0x1000, .src = 0x2000,
           .dstPitch = 1, .srcPitch = 1, .widthBytes = 1, .height = 1, .depth = 1);
}

static void post_pageable(struct guest *g, uint64_t graph, uint64_t node, uint64_t named)
{
    SUBMIT(g, vgpGraphCopyNode, PLACE(graph, node), .context = named, .cookie = PAGEABLE, .dst = 0x1000,
           .srcKind = VGP_COPY_HOST, .src = 0x2000, .dstPitch = 1, .srcPitch = 1, .widthBytes = 1,
           .height = 1, .depth = 1);
}

static void post_event(struct guest *g, uint64_t graph, uint64_t node, uint64_t named)
{
    SUBMIT(g, vgpGraphEventNode, PLACE(graph, node), .event = named, .wait = 1);
}

static void post_child(struct guest *g, uint64_t graph, uint64_t node, uint64_t named)
{
    SUBMIT(g, vgpGraphChildNode, PLACE(graph, node), .child = named);
}

/* With a number that the worker never gave out. The handle of its graph follows from that of the node. */
static void post_condition(struct guest *g, uint64_t graph, uint64_t node, uint64_t named)
{
    const uint64_t body = GRAPH(0x1000 + VGP_HANDLE_INDEX(node) % 0x1000);
    const struct vgp_args_vgpGraphConditionalNamed a = {PLACE(graph, node), .handle = 12345, .context = named,
                                                        .type = CU_GRAPH_COND_TYPE_IF, .bodies_len = 1};

    guest_submit(g, VGP_vgpGraphConditionalNamed, VGP_NO_REPLY, &a, sizeof(a), &body, sizeof(body));
}

#define SEMAPHORE 0x78 /* the cookie of its operation */

static void post_semaphore(struct guest *g, uint64_t graph, uint64_t node, uint64_t named)
{
    (void)named;
    SUBMIT(g, vgpGraphExtSemNode, PLACE(graph, node), .what = VGP_EXTSEM_WAIT, .cookie = SEMAPHORE);
}

static void post_memop(struct guest *g, uint64_t graph, uint64_t node, uint64_t named)
{
    SUBMIT(g, vgpGraphBatchMemOpNode, PLACE(graph, node), .context = named);
}

/* Out of an array, whose width and height only the provider knows. */
static void post_array(struct guest *g, uint64_t graph, uint64_t node, uint64_t named)
{
    SUBMIT(g, vgpGraphCopyNode, PLACE(graph, node), .dst = 0x1000, .dstPitch = 1, .srcKind = VGP_COPY_ARRAY,
           .src = named, .widthBytes = 1, .height = 1, .depth = 1);
}

static const struct kind {
    void (*post)(struct guest *g, uint64_t graph, uint64_t node, uint64_t named);
    uint16_t call;
    enum vgp_handle_type names; /* what `named` is a handle of */
    CUresult none;              /* there is none of that handle */
    CUresult refused;           /* by the test provider; CUDA_SUCCESS: it has such nodes */
    uint64_t cookie;            /* of its host function, which is released; 0: it has none */
} kinds[] = {
    {post_memset, VGP_vgpGraphMemsetNode, VGP_H_CONTEXT, CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_NOT_SUPPORTED,
     0},
    {post_copy, VGP_vgpGraphCopyNode, VGP_H_CONTEXT, CUDA_ERROR_INVALID_CONTEXT, CUDA_SUCCESS, 0},
    {post_pageable, VGP_vgpGraphCopyNode, VGP_H_CONTEXT, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE,
     PAGEABLE},
    {post_event, VGP_vgpGraphEventNode, VGP_H_EVENT, CUDA_ERROR_INVALID_HANDLE, CUDA_SUCCESS, 0},
    {post_semaphore, VGP_vgpGraphExtSemNode, 0, CUDA_SUCCESS, CUDA_SUCCESS, SEMAPHORE},
    {post_memop, VGP_vgpGraphBatchMemOpNode, VGP_H_CONTEXT, CUDA_ERROR_INVALID_CONTEXT,
     CUDA_ERROR_NOT_SUPPORTED, 0},
    {post_array, VGP_vgpGraphCopyNode, VGP_H_ARRAY, CUDA_ERROR_INVALID_VALUE, CUDA_SUCCESS, 0},
    {post_condition, VGP_vgpGraphConditionalNamed, VGP_H_CONTEXT, CUDA_ERROR_INVALID_CONTEXT,
     CUDA_ERROR_INVALID_VALUE, 0},
    {post_child, VGP_vgpGraphChildNode, VGP_H_GRAPH, CUDA_ERROR_INVALID_VALUE, CUDA_SUCCESS, 0},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* The graph has failed with r, of which the guest has heard once. */
static void failed(struct guest *g, const struct kind *k, uint64_t graph, CUresult r)
{
    uint64_t got = 0;

    if (k->cookie) {
        assert_true(guest_notification(g, VGP_NOTIFY_RELEASED, &got, NULL, 5000));
        assert_int_equal(got, k->cookie);
    }
    assert_true(guest_notification(g, VGP_NOTIFY_GRAPH_FAILED, &got, NULL, 5000));
    assert_int_equal(got, (uint64_t)k->call << 32 | r);
    assert_int_equal(guest_graph_instantiate(g, graph, EXEC(1)), r);
    assert_false(guest_notification(g, VGP_NOTIFY_GRAPH_FAILED, &got, NULL, 0));
    assert_int_equal(guest_graph_destroy(g, graph), 0);
}

static void connect_guest(struct broker *b, struct guest *g)
{
    assert_int_equal(guest_connect(g, b->sock, "posted"), 0);
    assert_int_equal(guest_context(g), 0);
}

/* What a node names was never there, or is of another type; the graph beside it has nothing to do with it. */
static void test_named(void **state)
{
    struct broker b = {0};
    struct guest g;

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    connect_guest(&b, &g);
    guest_graph_new(&g, GRAPH(99));
    for (uint32_t i = 0; i < KINDS; i++) {
        const struct kind *k = &kinds[i];

        if (!k->names)
            continue;
        guest_graph_new(&g, GRAPH(2 * i));
        k->post(&g, GRAPH(2 * i), NODE(2 * i), VGP_HANDLE(k->names, 1, 700));
        failed(&g, k, GRAPH(2 * i), k->none);
        guest_graph_new(&g, GRAPH(2 * i + 1));
        k->post(&g, GRAPH(2 * i + 1), NODE(2 * i + 1), VGP_HANDLE(VGP_H_STREAM, 1, 1));
        failed(&g, k, GRAPH(2 * i + 1), k->none);
    }
    assert_int_equal(guest_graph_instantiate(&g, GRAPH(99), EXEC(2)), 0);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* A node to a graph that is not there yet, or has ended, or is a handle of another kind: the guest is told, and what it kept for
 * the node is released. */
static void test_place(void **state)
{
    struct broker b = {0};
    struct guest g;

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    connect_guest(&b, &g);
    guest_graph_new(&g, GRAPH(99));
    SUBMIT(&g, vgpGraphEmptyNode, PLACE(GRAPH(99), NODE(99)));
    for (uint32_t i = 0; i < KINDS; i++) {
        const struct kind *k = &kinds[i];
        const uint64_t places[] = {GRAPH(2 * i), GRAPH(2 * i + 1), NODE(99)};
        uint64_t named = k->names == VGP_H_CONTEXT ? g.context : k->names == VGP_H_GRAPH ? GRAPH(99) : 0;

        guest_graph_new(&g, GRAPH(2 * i + 1));
        assert_int_equal(guest_graph_destroy(&g, GRAPH(2 * i + 1)), 0);
        for (uint32_t n = 0; n < 3; n++) {
            uint64_t got = 0;

            k->post(&g, places[n], NODE(3 * i + n), named);
            if (k->cookie) {
                assert_true(guest_notification(&g, VGP_NOTIFY_RELEASED, &got, NULL, 5000));
                assert_int_equal(got, k->cookie);
            }
            assert_true(guest_notification(&g, VGP_NOTIFY_GRAPH_FAILED, &got, NULL, 5000));
            assert_int_equal(got, (uint64_t)k->call << 32 | CUDA_ERROR_INVALID_VALUE);
        }
        guest_graph_new(&g, GRAPH(2 * i)); /* which has none of it */
        assert_int_equal(guest_graph_instantiate(&g, GRAPH(2 * i), EXEC(1 + i)), 0);
    }
    assert_int_equal(guest_graph_instantiate(&g, GRAPH(99), EXEC(99)), 0);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* Host functions and operations on semaphores of a graph that is not there, or has failed, and one that is left over when
 * the graph is full: all of them are released, and those of nodes with the graph. */
static void test_host(void **state)
{
    enum { ROOM = 256 }; /* testprov_graph.c: a graph has no more nodes */
    bool released[ROOM + 3] = {false};
    struct broker b = {0};
    struct guest g;

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    connect_guest(&b, &g);
    guest_graph_new(&g, GRAPH(0));
    for (uint32_t i = 0; i < ROOM + 2; i++) {
        if (i % 2)
            SUBMIT(&g, vgpGraphExtSemNode, PLACE(GRAPH(0), NODE(i)), .what = VGP_EXTSEM_SIGNAL,
                   .cookie = i + 1);
        else
            SUBMIT(&g, vgpGraphHostNode, PLACE(GRAPH(0), NODE(i)), .cookie = i + 1);
    }
    SUBMIT(&g, vgpGraphHostNode, PLACE(GRAPH(77), NODE(ROOM + 2)), .cookie = ROOM + 3);
    assert_int_equal(guest_graph_instantiate(&g, GRAPH(0), EXEC(1)), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(guest_graph_destroy(&g, GRAPH(0)), 0);
    for (unsigned left = ROOM + 3; left > 0;) {
        uint64_t cookie = 0;

        assert_true(guest_notification(&g, VGP_NOTIFY_RELEASED, &cookie, NULL, 5000));
        assert_uint_in_range(cookie, 1, ROOM + 3);
        left -= !released[cookie - 1];
        released[cookie - 1] = true;
    }
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* The graph of a node fails with its child, of which the guest has heard already; a child that has ended is none. */
static void test_child(void **state)
{
    struct broker b = {0};
    struct guest g;
    uint64_t got = 0;

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    connect_guest(&b, &g);
    for (uint32_t i = 0; i < 4; i++)
        guest_graph_new(&g, GRAPH(i));
    post_event(&g, GRAPH(0), NODE(0), 0); /* fails */
    post_child(&g, GRAPH(1), NODE(1), GRAPH(0));
    post_child(&g, GRAPH(2), NODE(2), GRAPH(3));
    failed(&g, &kinds[3], GRAPH(0), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(guest_graph_instantiate(&g, GRAPH(1), EXEC(1)), CUDA_ERROR_INVALID_HANDLE);
    assert_false(guest_notification(&g, VGP_NOTIFY_GRAPH_FAILED, &got, NULL, 0));
    assert_int_equal(guest_graph_instantiate(&g, GRAPH(2), EXEC(2)), 0);
    assert_int_equal(guest_graph_destroy(&g, GRAPH(3)), 0);
    post_child(&g, GRAPH(2), NODE(3), GRAPH(3));
    failed(&g, &kinds[KINDS - 1], GRAPH(2), CUDA_ERROR_INVALID_VALUE);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* Of nodes that the provider has not, the calls are named. */
static void test_provider(void **state)
{
    struct broker b = {0};
    struct guest g;

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    connect_guest(&b, &g);
    for (uint32_t i = 0; i < KINDS; i++) {
        if (kinds[i].refused == CUDA_SUCCESS)
            continue;
        guest_graph_new(&g, GRAPH(i));
        kinds[i].post(&g, GRAPH(i), NODE(i), kinds[i].names == VGP_H_CONTEXT ? g.context : 0);
        failed(&g, &kinds[i], GRAPH(i), kinds[i].refused);
    }
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* A name that is used already, an index of the worker's, a name of another type: each ends the client, and no other. */
static void test_malformed(void **state)
{
    const uint64_t names[] = {NODE(0), VGP_HANDLE(VGP_H_GRAPH_NODE, 2, VGP_HANDLE_GUEST_FIRST),
                              VGP_HANDLE(VGP_H_GRAPH_NODE, 1, 7), GRAPH(0), 0};
    struct broker b = {0};
    struct guest g, other;

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    connect_guest(&b, &other);
    guest_graph_new(&other, GRAPH(0));
    for (uint32_t i = 0; i < KINDS; i++) {
        for (uint32_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
            connect_guest(&b, &g);
            guest_graph_new(&g, GRAPH(0));
            SUBMIT(&g, vgpGraphEmptyNode, PLACE(GRAPH(0), NODE(0)));
            kinds[i].post(&g, GRAPH(0), names[n], kinds[i].names == VGP_H_CONTEXT ? g.context : 0);
            assert_true(guest_wait_dead(&g, 60000));
            guest_close(&g);
        }
    }
    assert_int_equal(guest_graph_instantiate(&other, GRAPH(0), EXEC(1)), 0);
    guest_close(&other);
    assert_int_equal(broker_stop(&b), 0);
}

/* Operations that there are not, and half a memory operation. */
static void test_operations(void **state)
{
    const struct vgp_args_vgpGraphBatchMemOpNode half = {PLACE(GRAPH(0), NODE(0)), .operations_len = 3};
    const uint64_t words[3] = {CU_STREAM_MEM_OP_WRITE_VALUE_32, 0, 0x1000};
    struct broker b = {0};
    struct guest g;

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    for (uint32_t i = 0; i < 4; i++) {
        connect_guest(&b, &g);
        guest_graph_new(&g, GRAPH(0));
        if (i < 3)
            SUBMIT(&g, vgpGraphExtSemNode, PLACE(GRAPH(0), NODE(0)), .what = i ? VGP_EXTSEM_WAIT + i : 0,
                   .cookie = 1);
        else
            guest_submit(&g, VGP_vgpGraphBatchMemOpNode, VGP_NO_REPLY, &half, sizeof(half), words,
                         sizeof(words));
        assert_true(guest_wait_dead(&g, 60000));
        guest_close(&g);
    }
    assert_int_equal(broker_stop(&b), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_named),      cmocka_unit_test(test_place),    cmocka_unit_test(test_host),
        cmocka_unit_test(test_child),      cmocka_unit_test(test_provider), cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_operations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
