/* SPDX-License-Identifier: MIT */
/* Handles of graphs and nodes that the guest mints, and calls that build graphs without a reply: real broker and workers. */
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

#define GRAPH(gen, i) VGP_HANDLE(VGP_H_GRAPH, gen, VGP_HANDLE_GUEST_FIRST + (i))
#define NODE(gen, i) VGP_HANDLE(VGP_H_GRAPH_NODE, gen, VGP_HANDLE_GUEST_FIRST + (i))
#define EXEC(i) VGP_HANDLE(VGP_H_GRAPH_EXEC, 1, i)
#define STREAM VGP_HANDLE(VGP_H_STREAM, 1, 1)
#define PROVIDER_NODES 256u /* testprov_graph.c: a graph has no more */

static void send_node(struct guest *g, uint32_t op, uint32_t slot, uint64_t graph, uint64_t node,
                      uint64_t after)
{
    struct vgp_args_vgpGraphEmptyNode a = {
        .op = op, .graph = graph, .target = node, .dependencies_len = after != 0};

    guest_submit(g, VGP_vgpGraphEmptyNode, slot, &a, sizeof(a), &after, after ? 8 : 0);
}

static void post_node(struct guest *g, uint64_t graph, uint64_t node, uint64_t after)
{
    send_node(g, VGP_NODE_POST, VGP_NO_REPLY, graph, node, after);
}

/* Answered; op ADD: the worker mints. */
static int add_node(struct guest *g, uint32_t op, uint64_t graph, uint64_t node, uint64_t *handle)
{
    const void *p = NULL;
    int r;

    send_node(g, op, 0, graph, node, 0);
    r = guest_wait(g, 0, &p, NULL, 60000);
    if (r == 0)
        memcpy(handle, p, sizeof(*handle));
    return r;
}

static void post_edge(struct guest *g, uint64_t graph, uint64_t from, uint64_t to)
{
    struct vgp_args_vgpGraphEdges a = {.graph = graph, .from_len = 1, .to_len = 1};
    const uint64_t ends[2] = {from, to};

    guest_submit(g, VGP_vgpGraphEdges, VGP_NO_REPLY, &a, sizeof(a), ends, sizeof(ends));
}

static void post_end(struct guest *g, uint64_t node)
{
    struct vgp_args_vgpGraphDestroyNode a = {.node = node};

    guest_submit(g, VGP_vgpGraphDestroyNode, VGP_NO_REPLY, &a, sizeof(a), NULL, 0);
}

/* The number of nodes; a negative number: the error. */
static int nodes_of(struct guest *g, uint64_t graph, uint64_t list[8])
{
    struct vgp_args_vgpGraphList a = {.what = VGP_LIST_NODES, .room = 8, .object = graph};
    const struct vgp_ret_vgpGraphList *ret;
    const void *p = NULL;
    int r = guest_call(g, VGP_vgpGraphList, &a, sizeof(a), &p, NULL);

    if (r != 0)
        return -r;
    ret = p;
    assert_true(ret->from_len <= 8);
    memcpy(list, ret + 1, ret->from_len * sizeof(*list));
    return (int)ret->total;
}

static void told(struct guest *g, uint16_t call, CUresult r)
{
    uint64_t got = 0;

    assert_true(guest_notification(g, VGP_NOTIFY_GRAPH_FAILED, &got, NULL, 5000));
    assert_int_equal(got, (uint64_t)call << 32 | r);
}

static void told_nothing(struct guest *g)
{
    uint64_t got = 0;

    assert_int_equal(guest_call(g, VGP_vgpPing, &(struct vgp_args_vgpPing){0}, 8, NULL, NULL), 0);
    assert_false(guest_notification(g, VGP_NOTIFY_GRAPH_FAILED, &got, NULL, 0));
}

static void connect_guest(struct broker *b, struct guest *g)
{
    assert_int_equal(guest_connect(g, b->sock, "names"), 0);
    assert_int_equal(guest_context(g), 0);
}

/* What is posted is there, by the names that it was given, beside nodes that the worker has named. */
static void test_posted(void **state)
{
    uint64_t list[8] = {0}, minted = 0, named = 0;
    struct broker b = {0};
    struct guest g;

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    connect_guest(&b, &g);
    guest_graph_new(&g, GRAPH(1, 0));
    post_node(&g, GRAPH(1, 0), NODE(1, 0), 0);
    post_node(&g, GRAPH(1, 0), NODE(1, 1), NODE(1, 0));
    assert_int_equal(add_node(&g, VGP_NODE_NAME, GRAPH(1, 0), NODE(1, 2), &named), 0);
    assert_int_equal(named, NODE(1, 2));
    assert_int_equal(add_node(&g, VGP_NODE_ADD, GRAPH(1, 0), 0, &minted), 0);
    assert_true(VGP_HANDLE_INDEX(minted) < VGP_HANDLE_GUEST_FIRST);
    assert_int_equal(nodes_of(&g, GRAPH(1, 0), list), 4);
    assert_int_equal(list[0], NODE(1, 0));
    assert_int_equal(list[1], NODE(1, 1));
    assert_int_equal(list[2], NODE(1, 2));
    assert_int_equal(list[3], minted);
    assert_int_equal(guest_graph_instantiate(&g, GRAPH(1, 0), EXEC(1)), 0);
    assert_int_equal(guest_graph_destroy(&g, GRAPH(1, 0)), 0);
    /* The names may be given again, in another generation. */
    guest_graph_new(&g, GRAPH(2, 0));
    post_node(&g, GRAPH(2, 0), NODE(2, 0), 0);
    assert_int_equal(nodes_of(&g, GRAPH(2, 0), list), 1);
    assert_int_equal(list[0], NODE(2, 0));
    /* Those that the worker mints stay below, however high the guest's are. */
    assert_int_equal(add_node(&g, VGP_NODE_ADD, GRAPH(2, 0), 0, &minted), 0);
    assert_true(VGP_HANDLE_INDEX(minted) < VGP_HANDLE_GUEST_FIRST);
    told_nothing(&g);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* An error that only the provider gives: named once, and what asks about the graph fails with it. */
static void test_failed(void **state)
{
    uint64_t list[8] = {0}, n = 0;
    struct broker b = {0};
    struct guest g;

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    connect_guest(&b, &g);
    guest_graph_new(&g, GRAPH(1, 0));
    for (uint32_t i = 0; i <= PROVIDER_NODES; i++)
        post_node(&g, GRAPH(1, 0), NODE(1, i), 0);
    told(&g, VGP_vgpGraphEmptyNode, CUDA_ERROR_OUT_OF_MEMORY);
    post_node(&g, GRAPH(1, 0), NODE(1, 1000), NODE(1, PROVIDER_NODES)); /* after the one that failed */
    post_end(&g, NODE(1, 3));
    post_end(&g, NODE(1, PROVIDER_NODES));
    told_nothing(&g);
    assert_int_equal(nodes_of(&g, GRAPH(1, 0), list), -CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(add_node(&g, VGP_NODE_NAME, GRAPH(1, 0), NODE(1, 1001), &n), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(guest_graph_instantiate(&g, GRAPH(1, 0), EXEC(1)), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(guest_graph_destroy(&g, GRAPH(1, 0)), 0);
    /* Another graph has nothing to do with it. */
    guest_graph_new(&g, GRAPH(1, 1));
    post_node(&g, GRAPH(1, 1), NODE(2, 0), 0);
    assert_int_equal(guest_graph_instantiate(&g, GRAPH(1, 1), EXEC(1)), 0);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* Names that do not fit: the graph fails, or, where there is none, only the guest is told. */
static void test_foreign(void **state)
{
    struct broker b = {0};
    struct guest g;

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    connect_guest(&b, &g);
    for (uint32_t i = 0; i < 5; i++)
        guest_graph_new(&g, GRAPH(1, i));
    post_node(&g, GRAPH(1, 0), NODE(1, 0), 0);
    post_node(&g, GRAPH(1, 1), NODE(1, 1), NODE(1, 0)); /* after a node of another graph */
    told(&g, VGP_vgpGraphEmptyNode, CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(guest_graph_instantiate(&g, GRAPH(1, 1), EXEC(1)), CUDA_ERROR_INVALID_VALUE);
    post_node(&g, GRAPH(1, 2), NODE(1, 2), GRAPH(1, 0)); /* after what is no node */
    told(&g, VGP_vgpGraphEmptyNode, CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(guest_graph_instantiate(&g, GRAPH(1, 2), EXEC(1)), CUDA_ERROR_INVALID_VALUE);
    post_node(&g, GRAPH(1, 77), NODE(1, 3), 0); /* to a graph that there is not */
    told(&g, VGP_vgpGraphEmptyNode, CUDA_ERROR_INVALID_VALUE);
    post_node(&g, NODE(1, 0), NODE(1, 4), 0); /* to a node */
    told(&g, VGP_vgpGraphEmptyNode, CUDA_ERROR_INVALID_VALUE);
    post_edge(&g, GRAPH(1, 3), NODE(1, 0), NODE(1, 0));    /* edges of another graph */
    told(&g, VGP_vgpGraphEdges, CUDA_ERROR_NOT_SUPPORTED); /* the test provider adds none */
    assert_int_equal(guest_graph_instantiate(&g, GRAPH(1, 3), EXEC(1)), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(guest_graph_destroy(&g, GRAPH(1, 4)), 0);
    post_node(&g, GRAPH(1, 4), NODE(1, 5), 0); /* after its end */
    told(&g, VGP_vgpGraphEmptyNode, CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(guest_graph_instantiate(&g, GRAPH(1, 0), EXEC(1)), 0); /* none of it was this one's */
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* One record that no libcuda sends, after a graph with two nodes, one of them destroyed. */
static void send_bad(struct guest *g, int what)
{
    struct vgp_args_vgpGraphEmptyNode set = {.op = VGP_NODE_SET, .target = NODE(1, 0)};

    switch (what) {
    case 0: /* twice */
        post_node(g, GRAPH(1, 0), NODE(1, 0), 0);
        break;
    case 1: /* live, in another generation */
        post_node(g, GRAPH(1, 0), NODE(2, 0), 0);
        break;
    case 2: /* after its end, in the same generation */
        post_node(g, GRAPH(1, 0), NODE(1, 1), 0);
        break;
    case 3: /* of another type */
        post_node(g, GRAPH(1, 0), GRAPH(1, 1), 0);
        break;
    case 4: /* out of range */
        post_node(g, GRAPH(1, 0), VGP_HANDLE(VGP_H_GRAPH_NODE, 1, VGP_HANDLE_INDEX_MAX), 0);
        break;
    case 5: /* an index that the worker mints */
        post_node(g, GRAPH(1, 0), VGP_HANDLE(VGP_H_GRAPH_NODE, 1, VGP_HANDLE_GUEST_FIRST - 1), 0);
        break;
    case 6: /* no generation */
        post_node(g, GRAPH(1, 0), NODE(0, 9), 0);
        break;
    case 7: /* no name */
        post_node(g, GRAPH(1, 0), 0, 0);
        break;
    case 8: /* the reply would be lost */
        send_node(g, VGP_NODE_ADD, VGP_NO_REPLY, GRAPH(1, 0), 0, 0);
        break;
    case 9:
        send_node(g, VGP_NODE_NAME, VGP_NO_REPLY, GRAPH(1, 0), NODE(1, 9), 0);
        break;
    case 10:
        guest_submit(g, VGP_vgpGraphEmptyNode, VGP_NO_REPLY, &set, sizeof(set), NULL, 0);
        break;
    case 11: /* a graph twice */
        guest_graph_new(g, GRAPH(1, 0));
        break;
    case 12: /* by an index that the worker mints */
        guest_graph_new(g, VGP_HANDLE(VGP_H_GRAPH, 1, 1));
        break;
    default: /* by a name that is a node's */
        guest_graph_new(g, NODE(1, 9));
        break;
    }
}

static void test_malformed(void **state)
{
    struct broker b = {0};
    struct guest g, other;
    uint64_t n = 0;

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    connect_guest(&b, &other);
    guest_graph_new(&other, GRAPH(1, 0));
    for (int i = 0; i < 14; i++) {
        connect_guest(&b, &g);
        guest_graph_new(&g, GRAPH(1, 0));
        post_node(&g, GRAPH(1, 0), NODE(1, 0), 0);
        post_node(&g, GRAPH(1, 0), NODE(1, 1), 0);
        post_end(&g, NODE(1, 1));
        told_nothing(&g);
        send_bad(&g, i);
        assert_true(guest_wait_dead(&g, 60000));
        guest_close(&g);
        assert_int_equal(add_node(&other, VGP_NODE_NAME, GRAPH(1, 0), NODE(1, (uint32_t)i), &n), 0);
    }
    guest_close(&other);
    assert_int_equal(broker_stop(&b), 0);
}

/* A worker that knows no more than 1.7 does not take them. */
static void test_older(void **state)
{
    static const char *const extra[] = {"--protocol-minor", "7", NULL};
    struct broker b = {0};
    struct guest g;
    uint64_t n = 0;

    (void)state;
    assert_int_equal(broker_start(&b, extra), 0);
    for (int i = 0; i < 2; i++) {
        struct vgp_args_vgpGraphCreate a = {0};
        const void *p = NULL;

        connect_guest(&b, &g);
        assert_int_equal(guest_call(&g, VGP_vgpGraphCreate, &a, sizeof(a), &p, NULL), 0);
        memcpy(&n, p, sizeof(n));
        if (i == 0)
            guest_graph_new(&g, GRAPH(1, 0));
        else
            post_node(&g, n, NODE(1, 0), 0);
        assert_true(guest_wait_dead(&g, 60000));
        guest_close(&g);
    }
    assert_int_equal(broker_stop(&b), 0);
}

static int set_dependencies(struct guest *g, const uint64_t *nodes, uint32_t n)
{
    struct vgp_args_vgpStreamUpdateCaptureDependencies a = {
        .stream = STREAM, .flags = CU_STREAM_SET_CAPTURE_DEPENDENCIES, .dependencies_len = n};

    guest_submit(g, VGP_vgpStreamUpdateCaptureDependencies, 0, &a, sizeof(a), nodes, n * 8);
    return guest_wait(g, 0, NULL, NULL, 60000);
}

/* What a capture goes on from are nodes of its graph, whatever the provider would take. */
static void test_capture(void **state)
{
    const struct vgp_args_cuStreamCreate stream = {.phStream = STREAM};
    const struct vgp_args_vgpStreamBeginCapture begin = {.stream = STREAM, .graph = GRAPH(1, 0)};
    const struct vgp_args_vgpStreamEndCapture end = {.stream = STREAM};
    const uint64_t nodes[2] = {NODE(1, 0), NODE(1, 1)};
    struct broker b = {0};
    struct guest g;

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    connect_guest(&b, &g);
    assert_int_equal(guest_call(&g, VGP_cuStreamCreate, &stream, sizeof(stream), NULL, NULL), 0);
    for (uint32_t i = 0; i < 2; i++) {
        guest_graph_new(&g, GRAPH(1, i));
        post_node(&g, GRAPH(1, i), nodes[i], 0);
    }
    assert_int_equal(guest_call(&g, VGP_vgpStreamBeginCapture, &begin, sizeof(begin), NULL, NULL), 0);
    assert_int_equal(set_dependencies(&g, nodes, 1), 0);
    assert_int_equal(set_dependencies(&g, nodes, 2), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(set_dependencies(&g, nodes + 1, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(set_dependencies(&g, nodes, 0), 0);
    assert_int_equal(guest_call(&g, VGP_vgpStreamEndCapture, &end, sizeof(end), NULL, NULL), 0);
    assert_int_equal(set_dependencies(&g, nodes, 1), CUDA_ERROR_ILLEGAL_STATE);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_posted),    cmocka_unit_test(test_failed), cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_malformed), cmocka_unit_test(test_older),  cmocka_unit_test(test_capture),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
