/* SPDX-License-Identifier: MIT */
/*
 * Captures whose stream ends, or whose graph would, with a real worker and the software GPU. Other streams may have joined
 * the capture: once the worker forgets it, the provider must not go on capturing there. A function that is to run once
 * would become a node, which runs, and ends, with each launch.
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
#include "vgp_calls.h"

#define CONTEXT(i) VGP_HANDLE(VGP_H_CONTEXT, 1, i)
#define STREAM(i) VGP_HANDLE(VGP_H_STREAM, 1, i)
#define EVENT(i) VGP_HANDLE(VGP_H_EVENT, 1, i)
#define EXEC(i) VGP_HANDLE(VGP_H_GRAPH_EXEC, 1, i)
#define GRAPH(i) VGP_HANDLE(VGP_H_GRAPH, 1, VGP_HANDLE_GUEST_FIRST + (i))
#define NODE(i) VGP_HANDLE(VGP_H_GRAPH_NODE, 1, VGP_HANDLE_GUEST_FIRST + (i))
#define NODE_AGAIN(i) VGP_HANDLE(VGP_H_GRAPH_NODE, 2, VGP_HANDLE_GUEST_FIRST + (i))
#define CALL(g, name, ...) \
    guest_call(g, VGP_##name, &(struct vgp_args_##name){__VA_ARGS__}, sizeof(struct vgp_args_##name), NULL, \
               NULL)
#define POST(g, slot, name, ...) \
    guest_submit(g, VGP_##name, slot, &(struct vgp_args_##name){__VA_ARGS__}, \
                 sizeof(struct vgp_args_##name), NULL, 0)

static void begin(struct broker *b, struct guest *g)
{
    const char *const extra[] = {"--provider", soft_provider(), NULL};

    memset(b, 0, sizeof(*b));
    assert_int_equal(broker_start(b, extra), 0);
    assert_int_equal(guest_connect(g, b->sock, "capture"), 0);
    assert_int_equal(guest_context(g), 0);
}

static int new_stream(struct guest *g, uint64_t stream)
{
    return CALL(g, cuStreamCreate, .phStream = stream, .Flags = CU_STREAM_NON_BLOCKING);
}

/* A green context on the primary one, with STREAM(1) and STREAM(2). */
static void new_green(struct guest *g, uint64_t green)
{
    const uint64_t desc = VGP_HANDLE(VGP_H_RESOURCE_DESC, 1, 1);
    struct vgp_args_vgpResourceDesc d = {.desc = desc, .resources_len = 1};
    struct vgp_args_vgpDevResource a = {.what = VGP_RESOURCE_DEVICE, .type = CU_DEV_RESOURCE_TYPE_SM};
    const struct vgp_ret_vgpDevResource *r = NULL;
    uint64_t id;

    assert_int_equal(guest_call(g, VGP_vgpDevResource, &a, sizeof(a), (const void **)&r, NULL), 0);
    id = r->resource;
    guest_submit(g, VGP_vgpResourceDesc, 0, &d, sizeof(d), &id, sizeof(id));
    assert_int_equal(guest_wait(g, 0, NULL, NULL, 60000), 0);
    assert_int_equal(CALL(g, vgpGreenCtxCreate, .green = green, .context = CONTEXT(9), .desc = desc,
                          .flags = CU_GREEN_CTX_DEFAULT_STREAM),
                     0);
    for (uint32_t i = 1; i <= 2; i++)
        assert_int_equal(CALL(g, vgpGreenCtxStreamCreate, .stream = STREAM(i), .green = green,
                              .flags = CU_STREAM_NON_BLOCKING),
                         0);
}

/* A function of the guest's in STREAM(2) does not end, and a call waits for it: so does the end of its context. */
static void hold_end(struct guest *g)
{
    uint64_t cookie = 0;

    POST(g, VGP_NO_REPLY, vgpLaunchHostFunc, .stream = STREAM(2), .cookie = 1);
    assert_true(guest_notification(g, VGP_NOTIFY_HOST_FUNC, &cookie, NULL, 5000));
    POST(g, 1, cuStreamSynchronize, .hStream = STREAM(2));
}

static void test_context_ends(bool green)
{
    const uint64_t handle = VGP_HANDLE(VGP_H_GREEN, 1, 1);
    uint64_t primary, cookie = 0;
    struct broker b;
    struct guest g;

    begin(&b, &g);
    primary = g.context;
    POST(&g, VGP_NO_REPLY, vgpGraphNew, .graph = GRAPH(0));
    assert_int_equal(new_stream(&g, STREAM(3)), 0);
    assert_int_equal(CALL(&g, cuEventCreate, .phEvent = EVENT(2)), 0);
    if (green) {
        new_green(&g, handle);
        g.context = CONTEXT(9);
    } else {
        assert_int_equal(CALL(&g, vgpCtxCreate, .context = CONTEXT(9)), 0);
        g.context = CONTEXT(9);
        assert_int_equal(new_stream(&g, STREAM(1)), 0);
        assert_int_equal(new_stream(&g, STREAM(2)), 0);
    }
    hold_end(&g);
    assert_int_equal(CALL(&g, cuEventCreate, .phEvent = EVENT(1)), 0);
    assert_int_equal(CALL(&g, vgpStreamBeginCapture, .stream = STREAM(1), .graph = GRAPH(0)), 0);
    assert_int_equal(CALL(&g, cuEventRecord, .hEvent = EVENT(1), .hStream = STREAM(1)), 0);
    g.context = primary;
    assert_int_equal(CALL(&g, cuStreamWaitEvent, .hStream = STREAM(3), .hEvent = EVENT(1)), 0);
    if (green)
        POST(&g, 2, vgpGreenCtxDestroy, .green = handle);
    else
        POST(&g, 2, vgpCtxDestroy, .context = CONTEXT(9));
    POST(&g, VGP_NO_REPLY, vgpLaunchHostFunc, .stream = STREAM(3), .cookie = 2);
    assert_true(guest_notification(&g, VGP_NOTIFY_HOST_FUNC, &cookie, NULL, 5000));
    assert_int_equal(cookie, 2);
    /* No launch of the graph runs it. */
    assert_int_equal(guest_graph_instantiate(&g, GRAPH(0), EXEC(1)), 0);
    assert_int_equal(new_stream(&g, STREAM(4)), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(CALL(&g, cuGraphLaunch, .hGraphExec = EXEC(1), .hStream = STREAM(4)), 0);
    assert_false(guest_notification(&g, VGP_NOTIFY_HOST_FUNC, &cookie, NULL, 100));
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

static void test_context(void **state)
{
    (void)state;
    test_context_ends(false);
}

static void test_green(void **state)
{
    (void)state;
    test_context_ends(true);
}

/* The provider's graph of a capture ends with it: no handle of it stays. */
static void test_handle(void **state)
{
    const uint64_t green = VGP_HANDLE(VGP_H_GREEN, 1, 1);
    struct vgp_args_vgpStreamCaptureInfo a = {.stream = STREAM(1)};
    const struct vgp_ret_vgpStreamCaptureInfo *r = NULL;
    uint64_t primary, graph;
    struct broker b;
    struct guest g;

    (void)state;
    begin(&b, &g);
    primary = g.context;
    new_green(&g, green);
    g.context = CONTEXT(9);
    assert_int_equal(CALL(&g, vgpStreamBeginCapture, .stream = STREAM(1)), 0);
    assert_int_equal(guest_call(&g, VGP_vgpStreamCaptureInfo, &a, sizeof(a), (const void **)&r, NULL), 0);
    graph = r->graph;
    assert_int_not_equal(graph, 0);
    assert_int_equal(CALL(&g, vgpGraphEmptyNode, .op = VGP_NODE_NAME, .graph = graph, .target = NODE(1)), 0);
    g.context = primary;
    assert_int_equal(CALL(&g, vgpGreenCtxDestroy, .green = green), 0);
    /* The place of its node is free; a live one could not be named again. */
    assert_int_equal(
        CALL(&g, vgpGraphEmptyNode, .op = VGP_NODE_NAME, .graph = graph, .target = NODE_AGAIN(1)),
        CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(new_stream(&g, STREAM(3)), 0);
    assert_int_equal(CALL(&g, vgpStreamBeginCapture, .stream = STREAM(3)), 0);
    assert_int_equal(CALL(&g, vgpStreamEndCapture, .stream = STREAM(3)), 0);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* A node, or a graph, is not destroyed, nor moved, while a capture goes into a graph below it. */
static void test_below(void **state)
{
    struct vgp_args_vgpGraphConditionalHandle h = {.graph = GRAPH(0)};
    struct vgp_args_vgpGraphConditionalNamed a = {.op = VGP_NODE_NAME,
                                                  .graph = GRAPH(0),
                                                  .target = NODE(0),
                                                  .type = CU_GRAPH_COND_TYPE_IF,
                                                  .bodies_len = 1};
    const uint64_t body = GRAPH(1);
    const void *p = NULL;
    struct broker b;
    struct guest g;

    (void)state;
    begin(&b, &g);
    POST(&g, VGP_NO_REPLY, vgpGraphNew, .graph = GRAPH(0));
    assert_int_equal(guest_call(&g, VGP_vgpGraphConditionalHandle, &h, sizeof(h), &p, NULL), 0);
    memcpy(&a.handle, p, sizeof(a.handle));
    guest_submit(&g, VGP_vgpGraphConditionalNamed, 0, &a, sizeof(a), &body, sizeof(body));
    assert_int_equal(guest_wait(&g, 0, NULL, NULL, 60000), 0);
    assert_int_equal(new_stream(&g, STREAM(1)), 0);
    assert_int_equal(CALL(&g, vgpStreamBeginCapture, .stream = STREAM(1), .graph = body), 0);
    assert_int_equal(CALL(&g, vgpGraphDestroyNode, .node = NODE(0)), CUDA_ERROR_NOT_PERMITTED);
    assert_int_not_equal(guest_graph_destroy(&g, GRAPH(0)), 0);
    POST(&g, VGP_NO_REPLY, vgpGraphNew, .graph = GRAPH(2));
    assert_int_equal(CALL(&g, vgpGraphMoveNode, .graph = GRAPH(2), .child = GRAPH(0)),
                     CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(CALL(&g, vgpStreamEndCapture, .stream = STREAM(1)), 0);
    assert_int_equal(CALL(&g, vgpGraphDestroyNode, .node = NODE(0)), 0);
    assert_int_equal(guest_graph_destroy(&g, GRAPH(0)), 0);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* Work in a stream of another context than that of its calls, which has no events of the worker: when it
 * has ended, calls of a capture that wait for room (--client-queue) go on. */
static void test_room_while_capturing(void **state)
{
    const char *const extra[] = {"--provider", soft_provider(), "--client-queue", "64", NULL};
    uint64_t device, cookie = 0;
    struct broker b = {0};
    struct guest g;

    (void)state;
    assert_int_equal(broker_start(&b, extra), 0);
    assert_int_equal(guest_connect(&g, b.sock, "capture"), 0);
    assert_int_equal(guest_context(&g), 0);
    POST(&g, VGP_NO_REPLY, vgpGraphNew, .graph = GRAPH(0));
    assert_int_equal(new_stream(&g, STREAM(1)), 0);
    assert_int_equal(CALL(&g, vgpCtxCreate, .context = CONTEXT(9)), 0);
    g.context = CONTEXT(9);
    assert_int_equal(new_stream(&g, STREAM(2)), 0);
    assert_int_equal(guest_alloc(&g, 4096, &device), 0);
    for (uint64_t i = 0; i < 64; i++)
        assert_int_equal(CALL(&g, vgpLaunchHostFunc, .stream = STREAM(1), .cookie = i), 0);
    assert_int_equal(CALL(&g, vgpStreamBeginCapture, .stream = STREAM(2), .graph = GRAPH(0)), 0);
    for (uint64_t i = 0; i < 64; i++) {
        assert_true(guest_notification(&g, VGP_NOTIFY_HOST_FUNC, &cookie, NULL, 5000));
        POST(&g, VGP_NO_REPLY, vgpHostFuncDone, .cookie = cookie);
    }
    for (int i = 0; i < 70; i++)
        POST(&g, VGP_NO_REPLY, cuMemsetD8Async, .dstDevice = device, .uc = 1, .N = 1, .hStream = STREAM(2));
    assert_int_equal(CALL(&g, vgpStreamEndCapture, .stream = STREAM(2)), 0);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_context),
        cmocka_unit_test(test_green),
        cmocka_unit_test(test_handle),
        cmocka_unit_test(test_below),
        cmocka_unit_test(test_room_while_capturing),
    };

    if (access(soft_provider(), R_OK)) {
        print_error("%s: not built\n", soft_provider());
        return 1;
    }
    return cmocka_run_group_tests_name("capture", tests, NULL, NULL);
}
