/* SPDX-License-Identifier: MIT */
/*
 * What graphs name that came to their nodes without a call that looked it up: copies of child graphs, and
 * captures into a graph of the client. The test provider ends the worker when a stale pointer reaches it
 * (testprov_graph.c); naming_test.c has the rest.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <cuda.h>

#include "guest.h"
#include "proc.h"
#include "vgp_calls.h"

#define CALL(g, name, ...) \
    guest_call(g, VGP_##name, &(struct vgp_args_##name){__VA_ARGS__}, sizeof(struct vgp_args_##name), NULL, \
               NULL)
#define ASK(g, out, name, ...) \
    ask(g, VGP_##name, &(struct vgp_args_##name){__VA_ARGS__}, sizeof(struct vgp_args_##name), out)
#define STREAM VGP_HANDLE(VGP_H_STREAM, 1, 1)
#define EVENT(i) VGP_HANDLE(VGP_H_EVENT, 1, 2 + (i))
#define EXEC(i) VGP_HANDLE(VGP_H_GRAPH_EXEC, 1, 20 + (i))
#define MODULE VGP_HANDLE(VGP_H_MODULE, 1, 40)
#define FUNCTION VGP_HANDLE(VGP_H_FUNCTION, 1, 41)

static int setup(void **state)
{
    static struct broker b;
    const char *const options[] = {NULL};

    *state = &b;
    return broker_start(&b, options);
}

static int teardown(void **state)
{
    return broker_stop(*state);
}

static void connect_to(struct broker *b, struct guest *g)
{
    assert_int_equal(guest_connect(g, b->sock, "names"), 0);
    assert_int_equal(guest_context(g), 0);
    assert_int_equal(CALL(g, cuStreamCreate, .phStream = STREAM), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(CALL(g, cuEventCreate, .phEvent = EVENT(i)), 0);
}

/* A call whose first result has 64 bits. */
static int ask(struct guest *g, uint16_t number, const void *args, uint32_t size, uint64_t *out)
{
    const void *p = NULL;
    uint32_t n = 0;

    guest_submit(g, number, 0, args, size, NULL, 0);
    int r = guest_wait(g, 0, &p, &n, 60000);

    if (r == 0 && out && n >= 8)
        memcpy(out, p, 8);
    return r;
}

static uint64_t new_graph(struct guest *g)
{
    uint64_t graph = 0;

    assert_int_equal(ASK(g, &graph, vgpGraphCreate, 0), 0);
    return graph;
}

static int clone(struct guest *g, uint64_t graph, uint64_t *copy)
{
    return ASK(g, copy, vgpGraphClone, .graph = graph);
}

static int instantiate(struct guest *g, uint64_t graph, uint64_t exec)
{
    uint64_t status = 0;
    const int r = ASK(g, &status, vgpGraphInstantiate, .exec = exec, .graph = graph);

    return r ? r : (int)(uint32_t)status;
}

static void destroy(struct guest *g, uint64_t graph)
{
    assert_int_equal(CALL(g, vgpGraphDestroy, .graph = graph), 0);
}

/* Two children, one in the other, of the node of a graph: returns the graph, *child: the inner one. */
static uint64_t nested(struct guest *g, uint64_t innermost, uint64_t *child)
{
    const uint64_t middle = new_graph(g), outer = new_graph(g);
    uint64_t node = 0, first = 0, in = 0;
    const void *p = NULL;
    uint32_t n = 0;

    assert_int_equal(ASK(g, NULL, vgpGraphChildNode, .graph = middle, .child = innermost), 0);
    assert_int_equal(ASK(g, &node, vgpGraphChildNode, .graph = outer, .child = middle), 0);
    destroy(g, innermost);
    destroy(g, middle);
    assert_int_equal(ASK(g, &first, vgpGraphChild, .node = node), 0);
    struct vgp_args_vgpGraphList list = {.object = first, .what = VGP_LIST_NODES, .room = 1};
    guest_submit(g, VGP_vgpGraphList, 0, &list, sizeof(list), NULL, 0);
    assert_int_equal(guest_wait(g, 0, &p, &n, 60000), 0);
    assert_true(n >= sizeof(struct vgp_ret_vgpGraphList) + 8);
    memcpy(&in, (const uint8_t *)p + sizeof(struct vgp_ret_vgpGraphList), 8);
    assert_int_equal(ASK(g, child, vgpGraphChild, .node = in), 0);
    return outer;
}

/* The graph of a node is a copy: what was copied into it names what the copied graph named. */
static void test_copied_child(void **state)
{
    uint64_t inner, child = 0, outer, copy = 0, other = 0;
    struct guest g;

    connect_to(*state, &g);
    inner = new_graph(&g);
    assert_int_equal(ASK(&g, NULL, vgpGraphEventNode, .graph = inner, .event = EVENT(0)), 0);
    outer = nested(&g, inner, &child);
    other = new_graph(&g);
    assert_int_equal(ASK(&g, NULL, vgpGraphChildNode, .graph = other, .child = child), 0);
    assert_int_equal(clone(&g, child, &copy), 0);
    assert_int_equal(instantiate(&g, child, EXEC(0)), 0);
    destroy(&g, outer);
    assert_int_equal(CALL(&g, cuEventDestroy_v2, .hEvent = EVENT(0)), 0);
    assert_int_equal(instantiate(&g, copy, EXEC(1)), 0);
    assert_int_equal(instantiate(&g, other, EXEC(2)), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ASK(&g, NULL, vgpGraphLaunch, .exec = EXEC(i), .stream = STREAM), 0);
    guest_close(&g);
}

/* ... and it is of no use either once that has ended with its context. */
static void test_child_of_ended(void **state)
{
    struct vgp_args_vgpModuleLoad l = {.module = MODULE, .image_size = 5, .image_len = 5};
    struct vgp_args_vgpModuleGetFunction f = {.function = FUNCTION, .module = MODULE, .name_len = 2};
    uint64_t inner, child = 0, outer, copy = 0;
    struct guest g;

    connect_to(*state, &g);
    guest_submit(&g, VGP_vgpModuleLoad, 0, &l, sizeof(l), "quick", 5);
    assert_int_equal(guest_wait(&g, 0, NULL, NULL, 60000), 0);
    guest_submit(&g, VGP_vgpModuleGetFunction, 0, &f, sizeof(f), "f", 2);
    assert_int_equal(guest_wait(&g, 0, NULL, NULL, 60000), 0);
    inner = new_graph(&g);
    assert_int_equal(ASK(&g, NULL, vgpGraphKernelNode, .graph = inner, .func = FUNCTION, .gridX = 1,
                         .gridY = 1, .gridZ = 1, .blockX = 1, .blockY = 1, .blockZ = 1),
                     0);
    outer = nested(&g, inner, &child);
    assert_int_equal(CALL(&g, vgpPrimaryCtxReset, .device = 0), 0);
    assert_int_equal(guest_context(&g), 0);
    assert_int_equal(clone(&g, child, &copy), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_int_equal(instantiate(&g, child, EXEC(0)), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    destroy(&g, outer);
    guest_close(&g);
}

static int record(struct guest *g, int event)
{
    return CALL(g, cuEventRecordWithFlags, .hEvent = EVENT(event), .hStream = STREAM,
                .flags = CU_EVENT_RECORD_EXTERNAL);
}

/* Nodes that a capture has made in a graph of the client stay, however the capture ends. */
static void test_failed_capture(void **state)
{
    struct guest g;

    connect_to(*state, &g);
    for (int how = 0; how < 2; how++) {
        const uint64_t graph = new_graph(&g);

        assert_int_equal(ASK(&g, NULL, vgpStreamBeginCapture, .stream = STREAM, .graph = graph), 0);
        assert_int_equal(record(&g, how), 0);
        if (how == 0) {
            assert_int_equal(CALL(&g, vgpStreamInvalidateCapture, .stream = STREAM), 0);
            assert_int_equal(ASK(&g, NULL, vgpStreamEndCapture, .stream = STREAM),
                             CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        } else {
            assert_int_equal(CALL(&g, cuStreamDestroy_v2, .hStream = STREAM), 0);
        }
        assert_int_equal(CALL(&g, cuEventDestroy_v2, .hEvent = EVENT(how)), 0);
        assert_int_equal(instantiate(&g, graph, EXEC(how)), 0);
    }
    guest_close(&g);
}

/* A graph may be copied while a capture goes on into it, or into one below it. */
static void test_copied_during_capture(void **state)
{
    struct guest g;

    connect_to(*state, &g);
    for (int below = 0; below < 2; below++) {
        const uint64_t empty = new_graph(&g), other = new_graph(&g);
        uint64_t graph = new_graph(&g), into = graph, copy = 0;

        if (below)
            graph = nested(&g, empty, &into);
        assert_int_equal(ASK(&g, NULL, vgpStreamBeginCapture, .stream = STREAM, .graph = into), 0);
        assert_int_equal(record(&g, below), 0);
        assert_int_equal(clone(&g, graph, &copy), 0);
        assert_int_equal(ASK(&g, NULL, vgpGraphChildNode, .graph = other, .child = graph), 0);
        assert_int_equal(instantiate(&g, graph, EXEC(3 * below)), 0);
        assert_int_equal(ASK(&g, NULL, vgpStreamEndCapture, .stream = STREAM), 0);
        destroy(&g, graph);
        assert_int_equal(CALL(&g, cuEventDestroy_v2, .hEvent = EVENT(below)), 0);
        assert_int_equal(instantiate(&g, copy, EXEC(3 * below + 1)), 0);
        assert_int_equal(instantiate(&g, other, EXEC(3 * below + 2)), 0);
        assert_int_equal(ASK(&g, NULL, vgpGraphLaunch, .exec = EXEC(3 * below), .stream = STREAM), 0);
    }
    guest_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copied_child),
        cmocka_unit_test(test_child_of_ended),
        cmocka_unit_test(test_failed_capture),
        cmocka_unit_test(test_copied_during_capture),
    };

    return cmocka_run_group_tests_name("graph names", tests, setup, teardown);
}
