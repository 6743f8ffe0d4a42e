/* SPDX-License-Identifier: MIT */
/*
 * Graphs name functions, events and arrays, and the provider keeps raw pointers to them: the client destroys what
 * they name in every order, and no stale pointer may reach the provider. The test provider ends the worker when
 * one does (testprov_graph.c). As in process_test.c.
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
#define SLOTS 4
#define STREAM VGP_HANDLE(VGP_H_STREAM, 1, 1)

/* What a client has; 0: not now. */
struct world {
    struct guest g;
    uint32_t minted;
    uint64_t module[SLOTS], function[SLOTS], library[SLOTS], kernel[SLOTS], event[SLOTS], array[SLOTS];
    uint64_t graph[SLOTS], node[SLOTS], event_node[SLOTS], exec[SLOTS];
    bool capturing;
};

static int setup(void **state)
{
    static struct broker b;
    const char *const options[] = {"--client-handles", "200", NULL};

    *state = &b;
    return broker_start(&b, options);
}

static int teardown(void **state)
{
    return broker_stop(*state);
}

static void connect_to(struct broker *b, struct world *w)
{
    memset(w, 0, sizeof(*w));
    assert_int_equal(guest_connect(&w->g, b->sock, "naming"), 0);
    assert_int_equal(guest_context(&w->g), 0);
    assert_int_equal(CALL(&w->g, cuStreamCreate, .phStream = STREAM), 0);
}

static uint64_t mint(struct world *w, unsigned type)
{
    w->minted++;
    return VGP_HANDLE(type, 1 + w->minted / 1000, 2 + w->minted % 1000);
}

/* A call with variable parts, and the 64-bit result number `at`. */
static int call(struct world *w, uint16_t number, const void *args, uint32_t size, const void *var,
                uint32_t var_size, uint64_t *out, unsigned at)
{
    const void *p = NULL;
    uint32_t n = 0;

    guest_submit(&w->g, number, 0, args, size, var, var_size);
    int r = guest_wait(&w->g, 0, &p, &n, 60000);

    if (r == 0 && out && n >= (at + 1) * 8)
        memcpy(out, (const uint8_t *)p + at * 8, 8);
    return r;
}

static int make_module(struct world *w, int i)
{
    struct vgp_args_vgpModuleLoad l = {.module = mint(w, VGP_H_MODULE), .image_size = 5, .image_len = 5};
    struct vgp_args_vgpModuleGetFunction f = {
        .function = mint(w, VGP_H_FUNCTION), .module = l.module, .name_len = 2};
    int r = call(w, VGP_vgpModuleLoad, &l, sizeof(l), "quick", 5, NULL, 0);

    if (r)
        return r;
    w->module[i] = l.module;
    w->function[i] = f.function;
    return call(w, VGP_vgpModuleGetFunction, &f, sizeof(f), "f", 2, NULL, 0);
}

static int make_library(struct world *w, int i)
{
    struct vgp_args_vgpLibraryLoad l = {.library = mint(w, VGP_H_LIBRARY), .image_size = 5, .image_len = 5};
    struct vgp_args_vgpLibraryGetKernel k = {
        .kernel = mint(w, VGP_H_KERNEL), .library = l.library, .name_len = 2};
    int r = call(w, VGP_vgpLibraryLoad, &l, sizeof(l), "quick", 5, NULL, 0);

    if (r)
        return r;
    w->library[i] = l.library;
    w->kernel[i] = k.kernel;
    return call(w, VGP_vgpLibraryGetKernel, &k, sizeof(k), "k", 2, NULL, 0);
}

static int make_event(struct world *w, int i)
{
    uint64_t e = mint(w, VGP_H_EVENT);
    int r = CALL(&w->g, cuEventCreate, .phEvent = e);

    w->event[i] = r ? 0 : e;
    return r;
}

static int make_array(struct world *w, int i)
{
    uint64_t a = mint(w, VGP_H_ARRAY);
    int r = CALL(
        &w->g, cuArray3DCreate_v2, .pHandle = a,
        .pAllocateArray = {.Width = 64, .Height = 1, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1});

    w->array[i] = r ? 0 : a;
    return r;
}

static int make_graph(struct world *w, int i)
{
    struct vgp_args_vgpGraphCreate a = {0};

    w->graph[i] = w->node[i] = w->event_node[i] = 0;
    return call(w, VGP_vgpGraphCreate, &a, sizeof(a), NULL, 0, &w->graph[i], 0);
}

static int kernel_node(struct world *w, uint32_t op, uint64_t graph, uint64_t target, uint64_t exec,
                       uint64_t func, uint64_t *node)
{
    struct vgp_args_vgpGraphKernelNode a = {.op = op,
                                            .graph = graph,
                                            .target = target,
                                            .exec = exec,
                                            .func = func,
                                            .gridX = 1,
                                            .gridY = 1,
                                            .gridZ = 1,
                                            .blockX = 1,
                                            .blockY = 1,
                                            .blockZ = 1};

    return call(w, VGP_vgpGraphKernelNode, &a, sizeof(a), NULL, 0, node, 0);
}

static int event_node(struct world *w, uint32_t op, uint64_t graph, uint64_t target, uint64_t exec,
                      uint64_t event, uint64_t *node)
{
    struct vgp_args_vgpGraphEventNode a = {
        .op = op, .graph = graph, .target = target, .exec = exec, .event = event};

    return call(w, VGP_vgpGraphEventNode, &a, sizeof(a), NULL, 0, node, 0);
}

static int copy_node(struct world *w, uint64_t graph, uint64_t from, uint64_t to)
{
    struct vgp_args_vgpGraphCopyNode a = {.graph = graph,
                                          .dstKind = VGP_COPY_ARRAY,
                                          .srcKind = VGP_COPY_ARRAY,
                                          .dst = to,
                                          .src = from,
                                          .widthBytes = 8,
                                          .height = 1,
                                          .depth = 1};

    return call(w, VGP_vgpGraphCopyNode, &a, sizeof(a), NULL, 0, NULL, 0);
}

static int instantiate(struct world *w, int i, uint64_t graph)
{
    struct vgp_args_vgpGraphInstantiate a = {.exec = mint(w, VGP_H_GRAPH_EXEC), .graph = graph};
    uint64_t status = 0;
    int r = call(w, VGP_vgpGraphInstantiate, &a, sizeof(a), NULL, 0, &status, 0);

    if (r || (uint32_t)status)
        return r ? r : (int)(uint32_t)status;
    w->exec[i] = a.exec;
    return 0;
}

static int launch(struct world *w, uint64_t exec)
{
    struct vgp_args_vgpGraphLaunch a = {.exec = exec, .stream = STREAM};

    return call(w, VGP_vgpGraphLaunch, &a, sizeof(a), NULL, 0, NULL, 0);
}

static void ping(struct world *w)
{
    assert_int_equal(CALL(&w->g, vgpPing, .value = 1), 0);
}

/* Destroyed for the client, while graphs run it. */
static void test_function(void **state)
{
    uint64_t clone = 0;
    struct world w;

    connect_to(*state, &w);
    for (int library = 0; library < 2; library++) {
        assert_int_equal(library ? make_library(&w, 0) : make_module(&w, 0), 0);
        uint64_t f = library ? w.kernel[0] : w.function[0];

        assert_int_equal(make_graph(&w, 0), 0);
        assert_int_equal(kernel_node(&w, VGP_NODE_ADD, w.graph[0], 0, 0, f, &w.node[0]), 0);
        assert_int_equal(instantiate(&w, 0, w.graph[0]), 0);
        assert_int_equal(library ? CALL(&w.g, cuLibraryUnload, .library = w.library[0])
                                 : CALL(&w.g, cuModuleUnload, .hmod = w.module[0]),
                         0);
        assert_int_equal(kernel_node(&w, VGP_NODE_SET, 0, w.node[0], 0, f, NULL), CUDA_ERROR_INVALID_HANDLE);
        assert_int_equal(launch(&w, w.exec[0]), 0);
        struct vgp_args_vgpGraphClone c = {.graph = w.graph[0]};
        assert_int_equal(call(&w, VGP_vgpGraphClone, &c, sizeof(c), NULL, 0, &clone, 0), 0);
        assert_int_equal(CALL(&w.g, vgpGraphDestroy, .graph = w.graph[0]), 0);
        assert_int_equal(instantiate(&w, 1, clone), 0);
        assert_int_equal(CALL(&w.g, vgpGraphDestroy, .graph = clone), 0);
        assert_int_equal(CALL(&w.g, cuGraphExecDestroy, .hGraphExec = w.exec[0]), 0);
        assert_int_equal(launch(&w, w.exec[1]), 0);
        assert_int_equal(CALL(&w.g, cuGraphExecDestroy, .hGraphExec = w.exec[1]), 0);
        ping(&w);
    }
    guest_close(&w.g);
}

/* Names of a child reach the graph around it; an update and a change take the new ones on. */
static void test_children(void **state)
{
    struct world w;

    connect_to(*state, &w);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(make_graph(&w, i), 0);
        assert_int_equal(make_event(&w, i), 0);
        assert_int_equal(event_node(&w, VGP_NODE_ADD, w.graph[i], 0, 0, w.event[i], &w.event_node[i]), 0);
    }
    struct vgp_args_vgpGraphChildNode child = {.graph = w.graph[1], .child = w.graph[0]};
    assert_int_equal(call(&w, VGP_vgpGraphChildNode, &child, sizeof(child), NULL, 0, NULL, 0), 0);
    assert_int_equal(CALL(&w.g, cuEventDestroy_v2, .hEvent = w.event[0]), 0);
    assert_int_equal(CALL(&w.g, vgpGraphDestroy, .graph = w.graph[0]), 0);
    assert_int_equal(instantiate(&w, 0, w.graph[1]), 0);
    assert_int_equal(CALL(&w.g, vgpGraphDestroy, .graph = w.graph[1]), 0);
    assert_int_equal(CALL(&w.g, cuEventDestroy_v2, .hEvent = w.event[1]), 0);
    assert_int_equal(launch(&w, w.exec[0]), 0);

    assert_int_equal(instantiate(&w, 1, w.graph[2]), 0);
    assert_int_equal(make_event(&w, 3), 0);
    assert_int_equal(event_node(&w, VGP_NODE_EXEC, 0, w.event_node[2], w.exec[1], w.event[3], NULL), 0);
    assert_int_equal(CALL(&w.g, cuEventDestroy_v2, .hEvent = w.event[3]), 0);
    assert_int_equal(launch(&w, w.exec[1]), 0);
    struct vgp_args_vgpGraphExecUpdate update = {.exec = w.exec[0], .graph = w.graph[2]};
    assert_int_equal(call(&w, VGP_vgpGraphExecUpdate, &update, sizeof(update), NULL, 0, NULL, 0), 0);
    assert_int_equal(CALL(&w.g, cuEventDestroy_v2, .hEvent = w.event[2]), 0);
    assert_int_equal(CALL(&w.g, vgpGraphDestroy, .graph = w.graph[2]), 0);
    assert_int_equal(launch(&w, w.exec[0]), 0);
    assert_int_equal(launch(&w, w.exec[1]), 0);
    guest_close(&w.g);
}

static int begin(struct world *w)
{
    struct vgp_args_vgpStreamBeginCapture a = {.stream = STREAM};

    return call(w, VGP_vgpStreamBeginCapture, &a, sizeof(a), NULL, 0, NULL, 0);
}

static int end(struct world *w, int i)
{
    struct vgp_args_vgpStreamEndCapture a = {.stream = STREAM};

    return call(w, VGP_vgpStreamEndCapture, &a, sizeof(a), NULL, 0, &w->graph[i], 0);
}

static int run(struct world *w, uint64_t f)
{
    return CALL(&w->g, vgpLaunch, .func = f, .gridX = 1, .gridY = 1, .gridZ = 1, .blockX = 1, .blockY = 1,
                .blockZ = 1, .stream = STREAM);
}

/* What a capture names, and what the graph that is launched in it names. */
static void test_capture(void **state)
{
    struct world w;

    connect_to(*state, &w);
    assert_int_equal(make_module(&w, 0), 0);
    assert_int_equal(make_module(&w, 1), 0);
    assert_int_equal(make_event(&w, 0), 0);
    assert_int_equal(make_graph(&w, 1), 0);
    assert_int_equal(kernel_node(&w, VGP_NODE_ADD, w.graph[1], 0, 0, w.function[1], NULL), 0);
    assert_int_equal(instantiate(&w, 1, w.graph[1]), 0);
    assert_int_equal(begin(&w), 0);
    assert_int_equal(run(&w, w.function[0]), 0);
    assert_int_equal(CALL(&w.g, cuEventRecordWithFlags, .hEvent = w.event[0], .hStream = STREAM,
                          .flags = CU_EVENT_RECORD_EXTERNAL),
                     0);
    assert_int_equal(launch(&w, w.exec[1]), 0);
    assert_int_equal(CALL(&w.g, cuModuleUnload, .hmod = w.module[0]), 0); /* in the capture already */
    assert_int_equal(CALL(&w.g, cuGraphExecDestroy, .hGraphExec = w.exec[1]), 0);
    assert_int_equal(CALL(&w.g, vgpGraphDestroy, .graph = w.graph[1]), 0);
    assert_int_equal(CALL(&w.g, cuModuleUnload, .hmod = w.module[1]), 0);
    assert_int_equal(end(&w, 0), 0);
    assert_int_equal(CALL(&w.g, cuEventDestroy_v2, .hEvent = w.event[0]), 0);
    assert_int_equal(instantiate(&w, 0, w.graph[0]), 0);
    assert_int_equal(launch(&w, w.exec[0]), 0);
    guest_close(&w.g);
}

/* A node that names memory of the worker's that is another call's by the time of a launch: there is none. */
static void test_capture_of_passing_memory(void **state)
{
    static const uint32_t kinds[][2] = {{VGP_COPY_DEVICE, VGP_COPY_INLINE},
                                        {VGP_COPY_DEVICE, VGP_COPY_STAGING},
                                        {VGP_COPY_STAGING, VGP_COPY_DEVICE},
                                        {VGP_COPY_REPLY, VGP_COPY_DEVICE}};
    const uint64_t data[2] = {0};
    struct world w;

    connect_to(*state, &w);
    assert_int_equal(begin(&w), 0);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const bool is_inline = kinds[i][1] == VGP_COPY_INLINE;
        struct vgp_args_vgpCopy a = {.dstKind = kinds[i][0],
                                     .srcKind = kinds[i][1],
                                     .widthBytes = sizeof(data),
                                     .height = 1,
                                     .depth = 1,
                                     .stream = STREAM,
                                     .when = VGP_WHEN_COMPLETE,
                                     .data_len = is_inline ? sizeof(data) : 0};

        assert_int_equal(call(&w, VGP_vgpCopy, &a, sizeof(a), data, a.data_len, NULL, 0),
                         CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    assert_int_equal(end(&w, 0), 0); /* which spoils nothing */
    guest_close(&w.g);
}

/* What ends with its context cannot be kept. */
static void test_context_ends(void **state)
{
    struct vgp_args_vgpGraphClone c = {0};
    struct world w;

    connect_to(*state, &w);
    assert_int_equal(make_module(&w, 0), 0);
    assert_int_equal(make_graph(&w, 0), 0);
    assert_int_equal(make_graph(&w, 1), 0); /* names nothing: goes on */
    assert_int_equal(kernel_node(&w, VGP_NODE_ADD, w.graph[0], 0, 0, w.function[0], &w.node[0]), 0);
    assert_int_equal(instantiate(&w, 0, w.graph[0]), 0);
    assert_int_equal(make_module(&w, 1), 0);
    assert_int_equal(kernel_node(&w, VGP_NODE_SET, 0, w.node[0], 0, w.function[1], NULL), 0);
    assert_int_equal(CALL(&w.g, cuModuleUnload, .hmod = w.module[1]),
                     0); /* kept, and then ended by the reset */
    assert_int_equal(CALL(&w.g, vgpPrimaryCtxReset, .device = 0), 0);
    assert_int_equal(guest_context(&w.g), 0);
    c.graph = w.graph[0];
    assert_int_equal(instantiate(&w, 1, w.graph[0]), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_int_equal(call(&w, VGP_vgpGraphClone, &c, sizeof(c), NULL, 0, NULL, 0),
                     CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_int_not_equal(launch(&w, w.exec[0]), 0);
    assert_int_equal(instantiate(&w, 1, w.graph[1]), 0);
    assert_int_equal(CALL(&w.g, vgpGraphDestroy, .graph = w.graph[0]), 0);
    assert_int_equal(CALL(&w.g, vgpGraphDestroy, .graph = w.graph[1]), 0);
    ping(&w);
    guest_close(&w.g);
}

/* What is kept counts as the client's, and ends with the last graph that names it: 200 objects are allowed. */
static void test_kept_counts(void **state)
{
    struct world w;
    int r = 0, n = 0;

    connect_to(*state, &w);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(make_graph(&w, 0), 0);
        for (int i = 0; i < 90; i++) {
            assert_int_equal(make_event(&w, 0), 0);
            assert_int_equal(event_node(&w, VGP_NODE_ADD, w.graph[0], 0, 0, w.event[0], NULL), 0);
            assert_int_equal(CALL(&w.g, cuEventDestroy_v2, .hEvent = w.event[0]), 0);
        }
        assert_int_equal(CALL(&w.g, vgpGraphDestroy, .graph = w.graph[0]), 0);
    }
    assert_int_equal(make_graph(&w, 0), 0);
    assert_int_equal(make_event(&w, 0), 0);
    assert_int_equal(event_node(&w, VGP_NODE_ADD, w.graph[0], 0, 0, w.event[0], &w.event_node[0]), 0);
    for (; n < 1000 && r == 0; n++) {
        assert_int_equal(CALL(&w.g, cuEventDestroy_v2, .hEvent = w.event[0]), 0);
        r = make_event(&w, 0);
        if (r == 0)
            r = event_node(&w, VGP_NODE_SET, 0, w.event_node[0], 0, w.event[0], NULL);
    }
    assert_int_equal(r, CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(CALL(&w.g, vgpGraphDestroy, .graph = w.graph[0]), 0);
    assert_int_equal(make_event(&w, 0), 0);
    guest_close(&w.g);
}

/* ---- every order ---- */

static int destroy(struct world *w, unsigned what, int i)
{
    struct guest *g = &w->g;

    switch (what) {
    case 0:
        return CALL(g, cuModuleUnload, .hmod = w->module[i]);
    case 1:
        return CALL(g, cuLibraryUnload, .library = w->library[i]);
    case 2:
        return CALL(g, cuEventDestroy_v2, .hEvent = w->event[i]);
    case 3:
        return CALL(g, cuArrayDestroy, .hArray = w->array[i]);
    case 4:
        return CALL(g, vgpGraphDestroy, .graph = w->graph[i]);
    default:
        return CALL(g, cuGraphExecDestroy, .hGraphExec = w->exec[i]);
    }
}

static int make(struct world *w, unsigned what, int i, int k)
{
    switch (what) {
    case 0:
        return make_module(w, i);
    case 1:
        return make_library(w, i);
    case 2:
        return make_event(w, i);
    case 3:
        return make_array(w, i);
    case 4:
        return make_graph(w, i);
    default:
        return instantiate(w, i, w->graph[k]);
    }
}

/* One step of a client that does what it likes; handles that are gone are used, too. */
static int step(struct world *w, unsigned op, int i, int k)
{
    struct vgp_args_vgpGraphChildNode child = {.graph = w->graph[i], .child = w->graph[k]};
    struct vgp_args_vgpGraphClone clone = {.graph = w->graph[k]};
    struct vgp_args_vgpGraphExecUpdate update = {.exec = w->exec[i], .graph = w->graph[k]};
    uint64_t f = i & 1 ? w->function[k] : w->kernel[k];

    switch (op % 20) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
        return make(w, op % 20, i, k);
    case 6:
        return destroy(w, (unsigned)(i * SLOTS + k) % 6, i);
    case 7:
        return kernel_node(w, VGP_NODE_ADD, w->graph[i], 0, 0, f, &w->node[i]);
    case 8:
        return kernel_node(w, VGP_NODE_SET, 0, w->node[i], 0, f, NULL);
    case 9:
        return kernel_node(w, VGP_NODE_EXEC, 0, w->node[i], w->exec[k], f, NULL);
    case 10:
        return event_node(w, VGP_NODE_ADD, w->graph[i], 0, 0, w->event[k], &w->event_node[i]);
    case 11:
        return event_node(w, VGP_NODE_SET, 0, w->event_node[i], 0, w->event[k], NULL);
    case 12:
        return event_node(w, VGP_NODE_EXEC, 0, w->event_node[i], w->exec[k], w->event[k], NULL);
    case 13:
        return copy_node(w, w->graph[i], w->array[k], w->array[i]);
    case 14:
        return i == k ? 0 : call(w, VGP_vgpGraphChildNode, &child, sizeof(child), NULL, 0, NULL, 0);
    case 15:
        return call(w, VGP_vgpGraphClone, &clone, sizeof(clone), NULL, 0, &w->graph[i], 0);
    case 16:
        return call(w, VGP_vgpGraphExecUpdate, &update, sizeof(update), NULL, 0, NULL, 0);
    case 17:
        w->capturing = !w->capturing;
        return w->capturing ? begin(w) : end(w, i);
    case 18:
        return run(w, w->function[k]);
    default:
        return launch(w, w->exec[k]);
    }
}

static void test_every_order(void **state)
{
    struct world w;

    for (unsigned seed = 1; seed <= 12; seed++) {
        unsigned x = seed * 2654435761u;

        connect_to(*state, &w);
        for (int n = 0; n < 400; n++) {
            x = x * 1103515245u + 12345u;
            /* Small graphs: each clone doubles what children are in it. */
            if (n % 40 == 39) {
                for (int i = 0; i < SLOTS; i++) {
                    assert_true(destroy(&w, 4, i) >= 0);
                    assert_true(destroy(&w, n % 80 == 79 ? 5 : 2, i) >= 0);
                }
            }
            int r = step(&w, x >> 16, (int)(x >> 8 & 3), (int)(x >> 12 & 3));
            if (r < 0)
                fail_msg("seed %u, step %d: %d", seed, n, r);
        }
        ping(&w);
        guest_close(&w.g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_function),     cmocka_unit_test(test_children),
        cmocka_unit_test(test_capture),      cmocka_unit_test(test_capture_of_passing_memory),
        cmocka_unit_test(test_context_ends), cmocka_unit_test(test_kept_counts),
        cmocka_unit_test(test_every_order),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
