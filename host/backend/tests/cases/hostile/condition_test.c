/* SPDX-License-Identifier: MIT */
/* Conditional nodes whose graphs have handles that the guest minted: real broker and workers. */
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
#include "vgp_calls.h"

#define GRAPH(i) VGP_HANDLE(VGP_H_GRAPH, 1, VGP_HANDLE_GUEST_FIRST + (i))
#define NODE(i) VGP_HANDLE(VGP_H_GRAPH_NODE, 1, VGP_HANDLE_GUEST_FIRST + (i))
#define EXEC(i) VGP_HANDLE(VGP_H_GRAPH_EXEC, 1, i)

#define BODIES_MAX 256u /* of the call */

static uint64_t new_condition(struct guest *g, uint64_t graph)
{
    struct vgp_args_vgpGraphConditionalHandle a = {.graph = graph};
    const void *p = NULL;
    uint64_t handle;

    assert_int_equal(guest_call(g, VGP_vgpGraphConditionalHandle, &a, sizeof(a), &p, NULL), 0);
    memcpy(&handle, p, sizeof(handle));
    return handle;
}

static void send_condition(struct guest *g, uint32_t op, uint32_t slot, uint64_t graph, uint64_t node,
                           uint64_t condition, const uint64_t *bodies, uint32_t n)
{
    struct vgp_args_vgpGraphConditionalNamed a = {.op = op,
                                                  .graph = graph,
                                                  .target = node,
                                                  .handle = condition,
                                                  .type = CU_GRAPH_COND_TYPE_SWITCH,
                                                  .bodies_len = n};

    guest_submit(g, VGP_vgpGraphConditionalNamed, slot, &a, sizeof(a), bodies, n * 8);
}

static void post_condition(struct guest *g, uint64_t graph, uint64_t node, uint64_t condition,
                           const uint64_t *bodies, uint32_t n)
{
    send_condition(g, VGP_NODE_POST, VGP_NO_REPLY, graph, node, condition, bodies, n);
}

static int add_empty(struct guest *g, uint64_t graph, uint64_t node)
{
    struct vgp_args_vgpGraphEmptyNode a = {.op = VGP_NODE_NAME, .graph = graph, .target = node};

    return guest_call(g, VGP_vgpGraphEmptyNode, &a, sizeof(a), NULL, NULL);
}

/* The node has these graphs. */
static void has_bodies(struct guest *g, uint64_t node, const uint64_t *bodies, uint32_t n)
{
    struct vgp_args_vgpGraphBodies a = {.node = node};
    const struct vgp_ret_vgpGraphBodies *ret;
    const void *p = NULL;

    assert_int_equal(guest_call(g, VGP_vgpGraphBodies, &a, sizeof(a), &p, NULL), 0);
    ret = p;
    assert_int_equal(ret->total, n);
    assert_int_equal(ret->graphs_len, n);
    assert_memory_equal((const uint8_t *)p + sizeof(*ret), bodies, n * 8);
}

static void failed(struct guest *g, CUresult r)
{
    uint64_t got = 0;

    assert_true(guest_notification(g, VGP_NOTIFY_GRAPH_FAILED, &got, NULL, 5000));
    assert_int_equal(got, (uint64_t)VGP_vgpGraphConditionalNamed << 32 | r);
}

static void not_told(struct guest *g)
{
    uint64_t got = 0;

    assert_false(guest_notification(g, VGP_NOTIFY_GRAPH_FAILED, &got, NULL, 0));
}

static void connect_guest(struct broker *b, struct guest *g)
{
    assert_int_equal(guest_connect(g, b->sock, "condition"), 0);
    assert_int_equal(guest_context(g), 0);
}

/* The graphs have the handles of the guest until their node ends with its graph; an answered call is the same. */
static void test_bodies(void **state)
{
    const uint64_t bodies[3] = {GRAPH(10), GRAPH(11), GRAPH(12)}, more[2] = {GRAPH(14), GRAPH(13)};
    const uint64_t again = VGP_HANDLE(VGP_H_GRAPH, 2, VGP_HANDLE_GUEST_FIRST + 10);
    struct broker b = {0};
    struct guest g;

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    connect_guest(&b, &g);
    guest_graph_new(&g, GRAPH(0));
    guest_graph_new(&g, GRAPH(1));
    post_condition(&g, GRAPH(0), NODE(0), new_condition(&g, GRAPH(0)), bodies, 3);
    has_bodies(&g, NODE(0), bodies, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(add_empty(&g, bodies[i], NODE(10 + i)), 0);
    assert_int_equal(guest_graph_destroy(&g, bodies[0]), CUDA_ERROR_INVALID_VALUE); /* the node's */
    send_condition(&g, VGP_NODE_NAME, 0, GRAPH(1), NODE(1), new_condition(&g, GRAPH(1)), more, 2);
    assert_int_equal(guest_wait(&g, 0, NULL, NULL, 60000), 0);
    has_bodies(&g, NODE(1), more, 2);
    /* Within another's graph, with the number of the outermost. */
    post_condition(&g, bodies[1], NODE(2), new_condition(&g, GRAPH(0)), &(uint64_t){GRAPH(15)}, 1);
    assert_int_equal(add_empty(&g, GRAPH(15), NODE(15)), 0);
    assert_int_equal(guest_graph_instantiate(&g, GRAPH(0), EXEC(1)), 0);
    assert_int_equal(guest_graph_destroy(&g, GRAPH(0)), 0);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(add_empty(&g, bodies[i], NODE(20 + i)), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(add_empty(&g, GRAPH(15), NODE(24)), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(add_empty(&g, more[0], NODE(25)), 0);
    /* Their places are free. */
    guest_graph_new(&g, again);
    assert_int_equal(guest_graph_destroy(&g, again), 0);
    not_told(&g);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* The graphs end with their node, at any depth; another one may have their places, and the number once more. */
static void test_end(void **state)
{
    struct vgp_args_vgpGraphDestroyNode end = {.node = NODE(0)};
    const uint64_t bodies[2] = {GRAPH(10), GRAPH(11)};
    struct broker b = {0};
    struct guest g;
    uint64_t condition;

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    connect_guest(&b, &g);
    guest_graph_new(&g, GRAPH(0));
    condition = new_condition(&g, GRAPH(0));
    post_condition(&g, GRAPH(0), NODE(0), condition, bodies, 2);
    post_condition(&g, bodies[1], NODE(1), new_condition(&g, GRAPH(0)), &(uint64_t){GRAPH(12)}, 1);
    assert_int_equal(add_empty(&g, GRAPH(12), NODE(2)), 0);
    assert_int_equal(guest_call(&g, VGP_vgpGraphDestroyNode, &end, sizeof(end), NULL, NULL), 0);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(add_empty(&g, GRAPH(10 + i), NODE(10 + i)), CUDA_ERROR_INVALID_VALUE);
    post_condition(&g, GRAPH(0), NODE(20), condition, (uint64_t[]){GRAPH(20), GRAPH(21)}, 2);
    has_bodies(&g, NODE(20), (uint64_t[]){GRAPH(20), GRAPH(21)}, 2);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* Before its graph, or before its number; with the number of another graph, or of another client. The graph fails
 * and says so once, and calls about the node's graphs fail in the same way. */
static void test_order(void **state)
{
    uint64_t foreign, strange;
    struct broker b = {0};
    struct guest g, other;

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    connect_guest(&b, &g);
    connect_guest(&b, &other);
    guest_graph_new(&other, GRAPH(0));
    guest_graph_new(&other, GRAPH(50));
    foreign = new_condition(&other, GRAPH(0));
    guest_graph_new(&g, GRAPH(9));
    strange = new_condition(&g, GRAPH(9));
    for (uint32_t i = 0; i < 5; i++) {
        const uint64_t body = GRAPH(20 + i);

        if (i > 0)
            guest_graph_new(&g, GRAPH(i));
        /* 4: the other client's graph, which this one has none of */
        post_condition(&g, i == 4 ? GRAPH(50) : GRAPH(i), NODE(i),
                       i == 0   ? strange
                       : i == 1 ? strange + 1000
                       : i == 2 ? strange
                                : foreign,
                       &body, 1);
        failed(&g, CUDA_ERROR_INVALID_VALUE);
        assert_int_equal(add_empty(&g, body, NODE(20 + i)), CUDA_ERROR_INVALID_VALUE);
        not_told(&g);
        if (i > 0)
            assert_int_equal(guest_graph_instantiate(&g, GRAPH(i), EXEC(i)),
                             i == 4 ? 0 : CUDA_ERROR_INVALID_VALUE);
    }
    assert_int_equal(guest_graph_instantiate(&other, GRAPH(0), EXEC(1)), 0);
    assert_int_equal(guest_graph_instantiate(&other, GRAPH(50), EXEC(2)), 0);
    assert_int_equal(guest_graph_instantiate(&g, GRAPH(9), EXEC(9)), 0);
    guest_close(&g);
    guest_close(&other);
    assert_int_equal(broker_stop(&b), 0);
}

/* After a failure with another result: that one, for the graph, for the node's graphs and in later nodes' calls. */
static void test_failed_before(void **state)
{
    const uint64_t bodies[2] = {GRAPH(10), GRAPH(11)};
    struct vgp_args_vgpGraphEventNode event = {
        .op = VGP_NODE_POST, .graph = GRAPH(0), .target = NODE(0), .event = VGP_HANDLE(VGP_H_EVENT, 1, 700)};
    struct broker b = {0};
    struct guest g;
    uint64_t got = 0, condition;

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    connect_guest(&b, &g);
    guest_graph_new(&g, GRAPH(0));
    condition = new_condition(&g, GRAPH(0));
    guest_submit(&g, VGP_vgpGraphEventNode, VGP_NO_REPLY, &event, sizeof(event), NULL, 0);
    post_condition(&g, GRAPH(0), NODE(1), condition, bodies, 2);
    assert_true(guest_notification(&g, VGP_NOTIFY_GRAPH_FAILED, &got, NULL, 5000));
    assert_int_equal(got, (uint64_t)VGP_vgpGraphEventNode << 32 | CUDA_ERROR_INVALID_HANDLE);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(add_empty(&g, bodies[i], NODE(10 + i)), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(guest_graph_instantiate(&g, GRAPH(0), EXEC(1)), CUDA_ERROR_INVALID_HANDLE);
    not_told(&g);
    assert_int_equal(guest_graph_destroy(&g, GRAPH(0)), 0);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* Where handles are missing for some of its graphs the node goes again: none of its graphs stays, and the graph
 * fails. */
static void test_room(void **state)
{
    enum { HANDLES = 64, GRAPHS = 58 }; /* besides: the context, the node */
    static const char *const extra[] = {"--client-handles", "64", NULL};
    uint64_t bodies[8], condition;
    struct broker b = {0};
    struct guest g;

    (void)state;
    for (uint32_t i = 0; i < 8; i++)
        bodies[i] = GRAPH(100 + i);
    assert_int_equal(broker_start(&b, extra), 0);
    connect_guest(&b, &g);
    for (uint32_t i = 0; i < GRAPHS; i++)
        guest_graph_new(&g, GRAPH(i));
    condition = new_condition(&g, GRAPH(0));
    post_condition(&g, GRAPH(0), NODE(0), condition, bodies, 8);
    failed(&g, CUDA_ERROR_OUT_OF_MEMORY);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_not_equal(add_empty(&g, bodies[i], NODE(100 + i)), 0);
    assert_int_equal(guest_graph_instantiate(&g, GRAPH(0), EXEC(1)), CUDA_ERROR_OUT_OF_MEMORY);
    for (uint32_t i = 0; i < GRAPHS; i++)
        assert_int_equal(guest_graph_destroy(&g, GRAPH(i)), 0);
    /* All handles but that of the context are free again. */
    for (uint32_t i = 0; i < HANDLES - 1; i++)
        guest_graph_new(&g, GRAPH(200 + i));
    for (uint32_t i = 0; i < HANDLES - 1; i++)
        assert_int_equal(guest_graph_destroy(&g, GRAPH(200 + i)), 0);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

enum bad {
    NODE_AGAIN,     /* the same record twice */
    BODY_AGAIN,     /* the graphs of another node */
    BODY_TWICE,     /* a handle for two graphs */
    BODY_IS_GRAPH,  /* that of a live graph */
    BODY_WAS_GRAPH, /* that of a graph that has ended */
    BODY_OF_WORKER, /* an index that the worker mints */
    BODY_IS_NODE,   /* another type */
    BODY_IS_PARENT, /* the graph of the node */
    BODY_NULL,
    TOO_MANY,        /* more than the call may have */
    MORE_THAN_SENT,  /* more than the record has */
    CHANGED,         /* of a node that is there */
    CHANGED_IN_EXEC, /* of an executable graph */
    NO_OPERATION,
    NO_SLOT, /* an answered call without a slot for the answer */
    BADS
};

static void send_bad(struct guest *g, enum bad bad, uint64_t condition)
{
    uint64_t bodies[BODIES_MAX + 1] = {GRAPH(20), GRAPH(21)};
    struct vgp_args_vgpGraphConditionalNamed a = {.op = VGP_NODE_POST,
                                                  .graph = GRAPH(0),
                                                  .target = NODE(1),
                                                  .handle = condition,
                                                  .type = CU_GRAPH_COND_TYPE_SWITCH,
                                                  .bodies_len = 2};
    uint32_t sent = 2, slot = VGP_NO_REPLY;

    switch (bad) {
    case NODE_AGAIN:
        a.target = NODE(0);
        break;
    case BODY_AGAIN:
        bodies[1] = GRAPH(11);
        break;
    case BODY_TWICE:
        bodies[1] = bodies[0];
        break;
    case BODY_IS_GRAPH:
        bodies[1] = GRAPH(1);
        break;
    case BODY_WAS_GRAPH:
        bodies[0] = GRAPH(2);
        break;
    case BODY_OF_WORKER:
        bodies[1] = VGP_HANDLE(VGP_H_GRAPH, 1, 7);
        break;
    case BODY_IS_NODE:
        bodies[1] = NODE(3);
        break;
    case BODY_IS_PARENT:
        bodies[0] = GRAPH(0);
        break;
    case BODY_NULL:
        bodies[1] = 0;
        break;
    case TOO_MANY:
        for (uint32_t i = 0; i <= BODIES_MAX; i++)
            bodies[i] = GRAPH(20 + i);
        a.bodies_len = sent = BODIES_MAX + 1;
        break;
    case MORE_THAN_SENT:
        a.bodies_len = 8;
        break;
    case CHANGED:
    case CHANGED_IN_EXEC:
        a.op = bad == CHANGED ? VGP_NODE_SET : VGP_NODE_EXEC;
        a.target = NODE(0);
        a.exec = EXEC(1);
        slot = 0;
        break;
    case NO_OPERATION:
        a.op = VGP_NODE_POST + 1;
        slot = 0;
        break;
    default:
        a.op = VGP_NODE_NAME;
        break;
    }
    guest_submit(g, VGP_vgpGraphConditionalNamed, slot, &a, sizeof(a), bodies, sent * 8);
}

/* Each ends the client, and no other. */
static void test_malformed(void **state)
{
    const uint64_t bodies[2] = {GRAPH(10), GRAPH(11)};
    struct broker b = {0};
    struct guest g, other;
    uint64_t condition;

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    connect_guest(&b, &other);
    guest_graph_new(&other, GRAPH(0));
    post_condition(&other, GRAPH(0), NODE(0), new_condition(&other, GRAPH(0)), bodies, 2);
    for (enum bad bad = 0; bad < BADS; bad++) {
        connect_guest(&b, &g);
        guest_graph_new(&g, GRAPH(0));
        guest_graph_new(&g, GRAPH(1));
        guest_graph_new(&g, GRAPH(2));
        assert_int_equal(guest_graph_destroy(&g, GRAPH(2)), 0);
        post_condition(&g, GRAPH(0), NODE(0), new_condition(&g, GRAPH(0)), bodies, 2);
        assert_int_equal(guest_graph_instantiate(&g, GRAPH(0), EXEC(1)), 0);
        condition = new_condition(&g, GRAPH(0));
        send_bad(&g, bad, condition);
        assert_true(guest_wait_dead(&g, 60000));
        guest_close(&g);
    }
    has_bodies(&other, NODE(0), bodies, 2);
    assert_int_equal(guest_graph_instantiate(&other, GRAPH(0), EXEC(1)), 0);
    guest_close(&other);
    assert_int_equal(broker_stop(&b), 0);
}

/* A worker that knows no more than 1.9 does not take the call. */
static void test_older(void **state)
{
    static const char *const extra[] = {"--protocol-minor", "9", NULL};
    const uint64_t body = GRAPH(10);
    struct broker b = {0};
    struct guest g;

    (void)state;
    assert_int_equal(broker_start(&b, extra), 0);
    connect_guest(&b, &g);
    guest_graph_new(&g, GRAPH(0));
    post_condition(&g, GRAPH(0), NODE(0), new_condition(&g, GRAPH(0)), &body, 1);
    assert_true(guest_wait_dead(&g, 60000));
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bodies),        cmocka_unit_test(test_end),  cmocka_unit_test(test_order),
        cmocka_unit_test(test_failed_before), cmocka_unit_test(test_room), cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_older),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
