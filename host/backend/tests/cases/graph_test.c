/* SPDX-License-Identifier: MIT */
/* Graphs in real workers: handles that are not the client's, malformed calls, memory against the
 * quota, host functions that end; as in process_test.c. */
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
#include "vgp_calls.h"

#define EXEC(i) VGP_HANDLE(VGP_H_GRAPH_EXEC, 1, i)

/* A call with variable parts; its 64-bit result number `at`. */
static int call(struct guest *g, uint16_t number, const void *args, uint32_t size, const void *var,
                uint32_t var_size, uint64_t *out, unsigned at)
{
    const void *p = NULL;
    uint32_t n = 0;

    guest_submit(g, number, 0, args, size, var, var_size);
    int r = guest_wait(g, 0, &p, &n, 60000);

    if (r == 0 && out) {
        assert_true(n >= (at + 1) * 8);
        memcpy(out, (const uint8_t *)p + at * 8, 8);
    }
    return r;
}

static uint64_t new_graph(struct guest *g)
{
    struct vgp_args_vgpGraphCreate a = {0};
    uint64_t handle = 0;

    assert_int_equal(call(g, VGP_vgpGraphCreate, &a, sizeof(a), NULL, 0, &handle, 0), 0);
    return handle;
}

static int empty(struct guest *g, uint64_t graph, const uint64_t *deps, uint32_t n, uint64_t *node)
{
    struct vgp_args_vgpGraphEmptyNode a = {.graph = graph, .dependencies_len = n};

    return call(g, VGP_vgpGraphEmptyNode, &a, sizeof(a), deps, n * 8, node, 0);
}

static int alloc(struct guest *g, uint64_t graph, uint64_t bytes, uint64_t *node)
{
    struct vgp_args_vgpGraphMemAllocNode a = {.graph = graph,
                                              .bytesize = bytes,
                                              .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                              .locationType = CU_MEM_LOCATION_TYPE_DEVICE};

    return call(g, VGP_vgpGraphMemAllocNode, &a, sizeof(a), NULL, 0, node, 0);
}

static int condition(struct guest *g, uint64_t graph, uint64_t handle, uint32_t size, uint64_t *node)
{
    struct vgp_args_vgpGraphConditionalNode a = {
        .graph = graph, .handle = handle, .type = CU_GRAPH_COND_TYPE_SWITCH, .size = size};

    return call(g, VGP_vgpGraphConditionalNode, &a, sizeof(a), NULL, 0, node, 0);
}

static uint64_t condition_handle(struct guest *g, uint64_t graph)
{
    struct vgp_args_vgpGraphConditionalHandle a = {.graph = graph};
    uint64_t handle = 0;

    assert_int_equal(call(g, VGP_vgpGraphConditionalHandle, &a, sizeof(a), NULL, 0, &handle, 0), 0);
    return handle;
}

static int move(struct guest *g, uint64_t graph, uint64_t child, uint64_t *node)
{
    struct vgp_args_vgpGraphMoveNode a = {.graph = graph, .child = child};

    return call(g, VGP_vgpGraphMoveNode, &a, sizeof(a), NULL, 0, node, 0);
}

static int bodies(struct guest *g, uint64_t node, uint32_t first, uint32_t *total, uint64_t *list)
{
    struct vgp_args_vgpGraphBodies a = {.node = node, .first = first};
    const void *p = NULL;
    uint32_t size = 0;
    int r = guest_call(g, VGP_vgpGraphBodies, &a, sizeof(a), &p, &size);

    if (r == 0) {
        const struct vgp_ret_vgpGraphBodies *ret = p;

        *total = ret->total;
        assert_true(ret->graphs_len <= 8);
        memcpy(list, (const uint8_t *)p + sizeof(*ret), ret->graphs_len * 8);
    }
    return r;
}

static int launch(struct guest *g, uint64_t exec)
{
    struct vgp_args_vgpGraphLaunch a = {.exec = exec};

    return guest_call(g, VGP_vgpGraphLaunch, &a, sizeof(a), NULL, NULL);
}

static void begin(struct broker *b, const char *const *extra, struct guest *g1, struct guest *g2)
{
    assert_int_equal(broker_start(b, extra), 0);
    assert_int_equal(guest_connect(g1, b->sock, "one"), 0);
    assert_int_equal(guest_connect(g2, b->sock, "two"), 0);
    assert_int_equal(guest_context(g1), 0);
    assert_int_equal(guest_context(g2), 0);
}

/* What is not this client's, not of this graph, not of this type, or not any more. */
static void test_handles(void **state)
{
    uint64_t list[8] = {0}, mine, other, parent, node = 0, strange = 0, cond, n = 0;
    uint32_t total = 0;
    struct broker b = {0};
    struct guest g1, g2;

    (void)state;
    begin(&b, NULL, &g1, &g2);
    mine = new_graph(&g1);
    other = new_graph(&g1);
    parent = new_graph(&g1);
    assert_int_equal(empty(&g1, mine, NULL, 0, &node), 0);
    assert_int_equal(empty(&g1, other, NULL, 0, &strange), 0);
    assert_int_equal(empty(&g1, mine, &node, 1, &n), 0);
    assert_int_equal(empty(&g1, mine, &strange, 1, &n), CUDA_ERROR_INVALID_VALUE);
    assert_int_not_equal(empty(&g1, node, NULL, 0, &n), 0); /* a node is no graph */
    assert_int_not_equal(empty(&g1, mine, &mine, 1, &n), 0);
    assert_int_not_equal(empty(&g1, 0, NULL, 0, &n), 0);
    assert_int_not_equal(empty(&g1, mine ^ 1ull << 33, NULL, 0, &n), 0);
    assert_int_not_equal(empty(&g2, mine, NULL, 0, &n), 0); /* the other client's */
    assert_int_not_equal(guest_graph_instantiate(&g2, mine, EXEC(1)), 0);
    assert_int_not_equal(launch(&g1, EXEC(7)), 0);
    assert_int_not_equal(launch(&g1, mine), 0);

    /* Numbers of conditional nodes reach the driver only if it gave them out for this graph. */
    cond = condition_handle(&g1, mine);
    assert_int_equal(condition(&g1, mine, cond + 1, 1, &n), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(condition(&g1, other, cond, 1, &n), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(condition(&g1, mine, 0xffffffffffffffff, 1, &n), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(condition(&g2, new_graph(&g2), cond, 1, &n), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(condition(&g1, mine, cond, 0xffffffff, &n), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(condition(&g1, mine, cond, 3, &n), 0);
    assert_int_equal(bodies(&g1, n, 0, &total, list), 0);
    assert_int_equal(total, 3);
    assert_int_equal(bodies(&g1, n, 0xffffffff, &total, list), 0);
    assert_int_equal(bodies(&g1, node, 0, &total, list), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(empty(&g1, list[2], NULL, 0, &strange), 0);
    assert_int_equal(guest_graph_destroy(&g1, list[2]), CUDA_ERROR_INVALID_VALUE); /* the node's */
    assert_int_equal(condition(&g1, list[0], cond, 1, &n), 0);                     /* of a graph around it */

    /* A moved child is the node's; it cannot come to contain itself. */
    assert_int_equal(move(&g1, parent, parent, &n), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(move(&g1, parent, list[1], &n), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(move(&g1, parent, other, &n), 0);
    assert_int_equal(move(&g1, parent, other, &n), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(move(&g1, other, parent, &n), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(guest_graph_destroy(&g1, other), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(guest_graph_destroy(&g1, parent), 0);
    assert_int_not_equal(empty(&g1, other, NULL, 0, &n), 0); /* gone with it */
    assert_int_equal(guest_graph_destroy(&g1, mine), 0);
    assert_int_not_equal(empty(&g1, list[2], NULL, 0, &n), 0);
    assert_int_not_equal(empty(&g1, mine, NULL, 0, &n), 0);
    assert_int_not_equal(guest_graph_destroy(&g1, mine), 0);
    assert_int_equal(bodies(&g1, node, 0, &total, list), CUDA_ERROR_INVALID_VALUE);
    guest_close(&g1);
    guest_close(&g2);
    assert_int_equal(broker_stop(&b), 0);
}

/* Calls that no libcuda sends end their client, and no other. */
static void test_malformed(void **state)
{
    static uint64_t many[2049];
    struct broker b = {0};
    struct guest g1, g2;
    uint64_t n = 0;

    (void)state;
    begin(&b, NULL, &g1, &g2);
    guest_close(&g2);
    for (int i = 0; i < 6; i++) {
        struct vgp_args_vgpGraphMemAllocNode a = {.bytesize = 1};
        struct vgp_args_vgpGraphEmptyNode e = {0};
        struct vgp_args_vgpGraphMoveNode m = {.op = 2};

        assert_int_equal(guest_connect(&g2, b.sock, "two"), 0);
        assert_int_equal(guest_context(&g2), 0);
        a.graph = e.graph = new_graph(&g2);
        switch (i) {
        case 0: /* more dependencies than the record has */
            e.dependencies_len = 5;
            guest_submit(&g2, VGP_vgpGraphEmptyNode, 0, &e, sizeof(e), many, 8);
            break;
        case 1: /* more than a call may have */
            e.dependencies_len = 2049;
            guest_submit(&g2, VGP_vgpGraphEmptyNode, 0, &e, sizeof(e), many, sizeof(many));
            break;
        case 2: /* edge data for other edges */
            e.edgeData_len = 16;
            guest_submit(&g2, VGP_vgpGraphEmptyNode, 0, &e, sizeof(e), many, 16);
            break;
        case 3: /* lists of unequal length */
            a.access_len = 2;
            a.accessIds_len = 1;
            guest_submit(&g2, VGP_vgpGraphMemAllocNode, 0, &a, sizeof(a), many, 16);
            break;
        case 4: /* no such operation */
            e.op = 9;
            guest_submit(&g2, VGP_vgpGraphEmptyNode, 0, &e, sizeof(e), NULL, 0);
            break;
        default: /* half a record */
            guest_submit(&g2, VGP_vgpGraphMoveNode, 0, &m, 8, NULL, 0);
            break;
        }
        assert_true(guest_wait_dead(&g2, 60000));
        guest_close(&g2);
        assert_int_equal(empty(&g1, new_graph(&g1), NULL, 0, &n), 0);
    }
    guest_close(&g1);
    assert_int_equal(broker_stop(&b), 0);
}

/* What launches allocate counts in the quota of all clients. */
static void test_quota(void **state)
{
    enum { M = 1 << 20 };
    static const char *const extra[] = {"--vram-quota", "8M", NULL};
    uint64_t small, big, huge, n = 0, p = 0;
    struct broker b = {0};
    struct guest g1, g2;

    (void)state;
    begin(&b, extra, &g1, &g2);
    small = new_graph(&g1);
    big = new_graph(&g1);
    huge = new_graph(&g1);
    assert_int_equal(alloc(&g1, small, 3 * M, &n), 0);
    assert_int_equal(alloc(&g1, big, 6 * M, &n), 0);
    assert_int_equal(alloc(&g1, huge, UINT64_MAX / 2 + 1, &n), 0);
    assert_int_equal(alloc(&g1, huge, UINT64_MAX / 2 + 1, &n), 0); /* their sum wraps around */
    assert_int_equal(guest_graph_instantiate(&g1, small, EXEC(1)), 0);
    assert_int_equal(guest_graph_instantiate(&g1, big, EXEC(2)), 0);
    assert_int_equal(guest_graph_instantiate(&g1, huge, EXEC(3)), 0);
    assert_int_equal(guest_alloc(&g2, 7 * M, &p), 0); /* nothing is launched yet */
    assert_int_equal(launch(&g1, EXEC(1)), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(guest_free(&g2, p), 0);
    int r = CUDA_ERROR_OUT_OF_MEMORY; /* when the other one has given its reservation back */
    for (int i = 0; i < 3000 && (r = launch(&g1, EXEC(1))); i++)
        usleep(10000);
    assert_int_equal(r, 0);
    assert_int_equal(launch(&g1, EXEC(2)), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(launch(&g1, EXEC(3)), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(guest_alloc(&g1, 6 * M, &p), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(guest_alloc(&g1, 4 * M, &p), 0);
    guest_close(&g1);
    guest_close(&g2);
    assert_int_equal(broker_stop(&b), 0);
}

/* A host function set in an executable graph ends when another takes its place, or with it. */
static void test_functions_end(void **state)
{
    struct broker b = {0};
    struct guest g1, g2;
    uint64_t graph, node = 0, cookie = 0;
    struct vgp_args_vgpGraphHostNode a = {.cookie = 100};
    struct vgp_args_cuGraphExecDestroy d = {.hGraphExec = EXEC(1)};

    (void)state;
    begin(&b, NULL, &g1, &g2);
    graph = a.graph = new_graph(&g1);
    assert_int_equal(call(&g1, VGP_vgpGraphHostNode, &a, sizeof(a), NULL, 0, &node, 0), 0);
    assert_int_equal(guest_graph_instantiate(&g1, graph, EXEC(1)), 0);
    a = (struct vgp_args_vgpGraphHostNode){
        .op = VGP_NODE_EXEC, .target = node, .exec = EXEC(1), .cookie = 101};
    assert_int_equal(guest_call(&g1, VGP_vgpGraphHostNode, &a, sizeof(a), NULL, NULL), 0);
    assert_int_equal(launch(&g1, EXEC(1)), 0);
    a.cookie = 102;
    assert_int_equal(guest_call(&g1, VGP_vgpGraphHostNode, &a, sizeof(a), NULL, NULL), 0);
    assert_true(guest_notification(&g1, VGP_NOTIFY_RELEASED, &cookie, NULL, 5000));
    assert_int_equal(cookie, 101);
    guest_submit(&g1, VGP_cuGraphExecDestroy, VGP_NO_REPLY, &d, sizeof(d), NULL, 0);
    assert_true(guest_notification(&g1, VGP_NOTIFY_RELEASED, &cookie, NULL, 5000));
    assert_int_equal(cookie, 102);
    assert_int_not_equal(launch(&g1, EXEC(1)), 0);
    guest_close(&g1);
    guest_close(&g2);
    assert_int_equal(broker_stop(&b), 0);
}

/* An error is no end: a function of a launch under way stays when the question for its event is answered with one. */
static void test_functions_stay(void **state)
{
    struct broker b = {0};
    struct guest g1, g2;
    uint64_t graph, node = 0, cookie = 0;
    struct vgp_args_vgpGraphHostNode a = {.cookie = 100};
    struct vgp_args_cuGraphExecDestroy d = {.hGraphExec = EXEC(1)};

    (void)state;
    begin(&b, NULL, &g1, &g2);
    graph = a.graph = new_graph(&g1);
    assert_int_equal(call(&g1, VGP_vgpGraphHostNode, &a, sizeof(a), NULL, 0, &node, 0), 0);
    assert_int_equal(guest_graph_instantiate(&g1, graph, EXEC(1)), 0);
    a = (struct vgp_args_vgpGraphHostNode){
        .op = VGP_NODE_EXEC, .target = node, .exec = EXEC(1), .cookie = 101};
    assert_int_equal(guest_call(&g1, VGP_vgpGraphHostNode, &a, sizeof(a), NULL, NULL), 0);
    assert_int_equal(guest_memset(&g1, 0, VALUE_BUSY, 600000, 0), 0);
    assert_int_equal(launch(&g1, EXEC(1)), 0);
    guest_memset(&g1, 0, VALUE_FAULT, 1, 0);
    a.cookie = 102;
    assert_int_equal(guest_call(&g1, VGP_vgpGraphHostNode, &a, sizeof(a), NULL, NULL), 0);
    assert_false(guest_notification(&g1, VGP_NOTIFY_RELEASED, &cookie, NULL, 300));
    guest_submit(&g1, VGP_cuGraphExecDestroy, VGP_NO_REPLY, &d, sizeof(d), NULL, 0);
    assert_false(guest_notification(&g1, VGP_NOTIFY_RELEASED, &cookie, NULL, 300));
    guest_close(&g1);
    guest_close(&g2);
    assert_int_equal(broker_stop(&b), 0);
}

/* A function that was set in an executable graph is released once the context with which the graph ends has ended. */
static void test_functions_end_with_context(void **state)
{
    const struct vgp_args_vgpCtxCreate make = {.context = VGP_HANDLE(VGP_H_CONTEXT, 1, 7)};
    const struct vgp_args_vgpCtxDestroy end = {.context = make.context};
    struct vgp_args_vgpGraphHostNode a = {.cookie = 100};
    struct broker b = {0};
    struct guest g1, g2;
    uint64_t node = 0, other, cookie = 0;

    (void)state;
    begin(&b, NULL, &g1, &g2);
    other = g1.context;
    assert_int_equal(guest_call(&g1, VGP_vgpCtxCreate, &make, sizeof(make), NULL, NULL), 0);
    g1.context = make.context;
    a.graph = new_graph(&g1);
    assert_int_equal(call(&g1, VGP_vgpGraphHostNode, &a, sizeof(a), NULL, 0, &node, 0), 0);
    assert_int_equal(guest_graph_instantiate(&g1, a.graph, EXEC(1)), 0);
    a = (struct vgp_args_vgpGraphHostNode){
        .op = VGP_NODE_EXEC, .target = node, .exec = EXEC(1), .cookie = 101};
    assert_int_equal(guest_call(&g1, VGP_vgpGraphHostNode, &a, sizeof(a), NULL, NULL), 0);
    assert_int_equal(guest_memset(&g1, 0, VALUE_BUSY, 600000, 0), 0);
    assert_int_equal(launch(&g1, EXEC(1)), 0);
    g1.context = other;
    assert_false(guest_notification(&g1, VGP_NOTIFY_RELEASED, &cookie, NULL, 100));
    assert_int_equal(guest_call(&g1, VGP_vgpCtxDestroy, &end, sizeof(end), NULL, NULL), 0);
    assert_true(guest_notification(&g1, VGP_NOTIFY_RELEASED, &cookie, NULL, 5000));
    assert_int_equal(cookie, 101);
    guest_close(&g1);
    guest_close(&g2);
    assert_int_equal(broker_stop(&b), 0);
}

/* A copy of two halves, for which no memory of the guest is needed. */
static uint64_t joined(struct guest *g, uint64_t graph, uint64_t cookie)
{
    struct vgp_args_vgpGraphCopyNode a = {.graph = graph,
                                          .cookie = cookie,
                                          .dstKind = VGP_COPY_DEVICE,
                                          .srcKind = VGP_COPY_DEVICE,
                                          .widthBytes = 8,
                                          .height = 1,
                                          .depth = 1};
    uint64_t node = 0;

    assert_int_equal(call(g, VGP_vgpGraphCopyNode, &a, sizeof(a), NULL, 0, &node, 0), 0);
    return node;
}

/*
 * What enabling a node puts into an executable graph that was updated from another graph is not among what the provider
 * keeps for it: the function stays although the graph that it is from is destroyed.
 */
static void test_functions_enabled(void **state)
{
    struct vgp_args_cuGraphExecDestroy d = {.hGraphExec = EXEC(1)};
    struct broker b = {0};
    struct guest g1, g2;
    uint64_t one, two, node, cookie = 0;

    (void)state;
    begin(&b, NULL, &g1, &g2);
    one = new_graph(&g1);
    two = new_graph(&g1);
    node = joined(&g1, one, 100);
    joined(&g1, two, 200);
    assert_int_equal(guest_graph_instantiate(&g1, one, EXEC(1)), 0);
    struct vgp_args_vgpGraphExecUpdate u = {.exec = EXEC(1), .graph = two};
    struct vgp_args_vgpGraphNodeEnabled e = {.exec = EXEC(1), .node = node, .set = 1, .value = 1};
    assert_int_equal(guest_call(&g1, VGP_vgpGraphExecUpdate, &u, sizeof(u), NULL, NULL), 0);
    assert_int_equal(guest_call(&g1, VGP_vgpGraphNodeEnabled, &e, sizeof(e), NULL, NULL), 0);
    assert_int_equal(guest_graph_destroy(&g1, one), 0);
    assert_false(guest_notification(&g1, VGP_NOTIFY_RELEASED, &cookie, NULL, 300));
    assert_int_equal(launch(&g1, EXEC(1)), 0);
    guest_submit(&g1, VGP_cuGraphExecDestroy, VGP_NO_REPLY, &d, sizeof(d), NULL, 0);
    assert_true(guest_notification(&g1, VGP_NOTIFY_RELEASED, &cookie, NULL, 5000));
    assert_int_equal(cookie, 100);
    assert_int_equal(guest_graph_destroy(&g1, two), 0);
    assert_true(guest_notification(&g1, VGP_NOTIFY_RELEASED, &cookie, NULL, 5000));
    assert_int_equal(cookie, 200);
    guest_close(&g1);
    guest_close(&g2);
    assert_int_equal(broker_stop(&b), 0);
}

/* ---- what is captured without a reply ---- */

#define STREAM(i) VGP_HANDLE(VGP_H_STREAM, 1, i)

static void post_memset(struct guest *g, uint64_t stream)
{
    /* Nothing is long: the provider refuses it. */
    struct vgp_args_cuMemsetD8Async a = {.uc = VALUE_RELEASE, .N = 1, .hStream = stream};

    guest_submit(g, VGP_cuMemsetD8Async, VGP_NO_REPLY, &a, sizeof(a), NULL, 0);
}

static void post_host_func(struct guest *g, uint64_t stream, uint64_t cookie)
{
    struct vgp_args_vgpCapturedHostFunc a = {.stream = stream, .cookie = cookie};

    guest_submit(g, VGP_vgpCapturedHostFunc, VGP_NO_REPLY, &a, sizeof(a), NULL, 0);
}

static void begin_capture(struct guest *g, uint64_t stream)
{
    struct vgp_args_vgpStreamBeginCapture a = {.stream = stream};

    assert_int_equal(guest_call(g, VGP_vgpStreamBeginCapture, &a, sizeof(a), NULL, NULL), 0);
}

static int end_capture(struct guest *g, uint64_t stream)
{
    struct vgp_args_vgpStreamEndCapture a = {.stream = stream};

    return guest_call(g, VGP_vgpStreamEndCapture, &a, sizeof(a), NULL, NULL);
}

static void told(struct guest *g, uint16_t type, uint64_t cookie)
{
    uint64_t got = 0;

    assert_true(guest_notification(g, type, &got, NULL, 5000));
    assert_int_equal(got, cookie);
}

static void told_nothing(struct guest *g, uint16_t type)
{
    uint64_t got = 0;

    assert_int_equal(guest_call(g, VGP_vgpPing, &(struct vgp_args_vgpPing){0}, 8, NULL, NULL), 0);
    assert_false(guest_notification(g, type, &got, NULL, 0));
}

static void new_streams(struct guest *g)
{
    for (uint32_t i = 1; i <= 2; i++) {
        struct vgp_args_cuStreamCreate a = {.phStream = STREAM(i)};

        guest_submit(g, VGP_cuStreamCreate, VGP_NO_REPLY, &a, sizeof(a), NULL, 0);
    }
}

/* The capture is lost and the guest hears of it, once; other streams' errors and captures have nothing to do with it. */
static void test_captured_error(void **state)
{
    const uint64_t lost = (uint64_t)VGP_cuMemsetD8Async << 32 | CUDA_ERROR_INVALID_VALUE;
    struct broker b;
    struct guest g;

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    assert_int_equal(guest_connect(&g, b.sock, "graph"), 0);
    assert_int_equal(guest_context(&g), 0);
    new_streams(&g);
    begin_capture(&g, STREAM(1));
    post_memset(&g, STREAM(1));
    told(&g, VGP_NOTIFY_CAPTURE_LOST, lost);
    told_nothing(&g, VGP_NOTIFY_ASYNC_ERROR);
    assert_int_equal(end_capture(&g, STREAM(1)), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    begin_capture(&g, STREAM(1));
    post_memset(&g, STREAM(2));
    told(&g, VGP_NOTIFY_ASYNC_ERROR, lost);
    assert_int_equal(end_capture(&g, STREAM(1)), 0);

    /* A stream that there is not: which capture it is for cannot be known. */
    begin_capture(&g, STREAM(1));
    post_memset(&g, STREAM(77));
    told(&g, VGP_NOTIFY_CAPTURE_LOST, (uint64_t)VGP_cuMemsetD8Async << 32 | CUDA_ERROR_INVALID_HANDLE);
    told(&g, VGP_NOTIFY_ASYNC_ERROR, (uint64_t)VGP_cuMemsetD8Async << 32 | CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(end_capture(&g, STREAM(1)), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    post_memset(&g, STREAM(1));
    told(&g, VGP_NOTIFY_ASYNC_ERROR, lost);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* A host function that does not become a node is given back. */
static void test_captured_host_func(void **state)
{
    const uint64_t call = (uint64_t)VGP_vgpCapturedHostFunc << 32;
    struct broker b;
    struct guest g;

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    assert_int_equal(guest_connect(&g, b.sock, "graph"), 0);
    assert_int_equal(guest_context(&g), 0);
    new_streams(&g);
    post_host_func(&g, STREAM(1), 7);
    told(&g, VGP_NOTIFY_RELEASED, 7);
    told(&g, VGP_NOTIFY_ASYNC_ERROR, call | CUDA_ERROR_ILLEGAL_STATE);
    post_host_func(&g, STREAM(77), 8);
    told(&g, VGP_NOTIFY_RELEASED, 8);
    begin_capture(&g, STREAM(1));
    post_memset(&g, STREAM(1));
    post_host_func(&g, STREAM(1), 9); /* the capture is lost already */
    told(&g, VGP_NOTIFY_RELEASED, 9);
    told_nothing(&g, VGP_NOTIFY_ASYNC_ERROR);
    assert_int_equal(end_capture(&g, STREAM(1)), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handles),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_quota),
        cmocka_unit_test(test_functions_end),
        cmocka_unit_test(test_functions_stay),
        cmocka_unit_test(test_functions_enabled),
        cmocka_unit_test(test_functions_end_with_context),
        cmocka_unit_test(test_captured_error),
        cmocka_unit_test(test_captured_host_func),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
