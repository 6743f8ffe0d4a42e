/* SPDX-License-Identifier: MIT */
/* Handles must not outlive what they stand for in the provider; as in process_test.c. The test provider
 * ends the worker when it is called with an object that has ended. */
#define _GNU_SOURCE
#include <elf.h>
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

#define CALL(g, name, ...) \
    guest_call(g, VGP_##name, &(struct vgp_args_##name){__VA_ARGS__}, sizeof(struct vgp_args_##name), NULL, \
               NULL)

/* ... and the first 64 bits of its answer. */
#define ASK(g, name, out, ...) \
    ask(g, VGP_##name, &(struct vgp_args_##name){__VA_ARGS__}, sizeof(struct vgp_args_##name), out)
#define STREAM VGP_HANDLE(VGP_H_STREAM, 1, 1)
#define EXEC VGP_HANDLE(VGP_H_GRAPH_EXEC, 1, 1)

static const uint64_t mip = VGP_HANDLE(VGP_H_MIPMAPPED_ARRAY, 1, 1);
static const uint64_t level = VGP_HANDLE(VGP_H_ARRAY, 1, 1), plane = VGP_HANDLE(VGP_H_ARRAY, 1, 2);

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
    assert_int_equal(guest_connect(g, b->sock, "stale"), 0);
    assert_int_equal(guest_context(g), 0);
}

static void make_arrays(struct guest *g)
{
    assert_int_equal(CALL(g, cuMipmappedArrayCreate, .pHandle = mip, .numMipmapLevels = 2), 0);
    assert_int_equal(CALL(g, cuMipmappedArrayGetLevel, .pLevelArray = level, .hMipmappedArray = mip), 0);
    assert_int_equal(CALL(g, cuArrayGetPlane, .pPlaneArray = plane, .hArray = level), 0);
    assert_int_equal(CALL(g, cuArray3DGetDescriptor_v2, .hArray = plane), 0);
}

/* Levels and planes end with what they are part of. */
static void test_levels(void **state)
{
    struct guest g;

    connect_to(*state, &g);
    make_arrays(&g);
    assert_int_equal(CALL(&g, cuMipmappedArrayDestroy, .hMipmappedArray = mip), 0);
    assert_int_equal(CALL(&g, cuArray3DGetDescriptor_v2, .hArray = level), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(CALL(&g, cuArray3DGetDescriptor_v2, .hArray = plane), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(CALL(&g, cuMipmappedArrayDestroy, .hMipmappedArray = mip), CUDA_ERROR_INVALID_HANDLE);
    guest_close(&g);
}

static void work_on(struct guest *g, uint64_t stream)
{
    struct vgp_args_cuMemsetD8Async a = {.uc = VALUE_BUSY, .N = 3600000, .hStream = stream};

    guest_submit(g, VGP_cuMemsetD8Async, VGP_NO_REPLY, &a, sizeof(a), NULL, 0);
}

/* Until the worker sleeps: it has looked at the work in flight then. */
static void let_sleep(struct guest *g)
{
    assert_int_equal(CALL(g, vgpPing, 0), 0);
    for (int i = 60000; i-- && __atomic_load_n(&g->s->worker_state, __ATOMIC_SEQ_CST) == VGP_WORKER_RUNNING;)
        usleep(1000);
}

/* Looks at work in flight find no stream that has ended, with its context or by itself. */
static void looks_find(struct guest *g)
{
    for (int i = 0; i < 5; i++) {
        work_on(g, 0);
        let_sleep(g);
    }
    assert_false(guest_wait_dead(g, 600));
    guest_close(g);
}

static const char *const looks[] = {"--client-time-limit", "3600", NULL}; /* the worker marks as it sleeps */

/* A stream may be named in calls of another context than its own; it ends with its own. */
static void streams_of_other_context(bool events, bool marked)
{
    const uint64_t other = VGP_HANDLE(VGP_H_CONTEXT, 1, 200), stream = VGP_HANDLE(VGP_H_STREAM, 1, 200);
    struct broker b;
    struct guest g;
    uint64_t own;

    if (!events)
        setenv("VGPU_TEST_NO_EVENTS", "1", 1);
    assert_int_equal(broker_start(&b, looks), 0);
    unsetenv("VGPU_TEST_NO_EVENTS");
    connect_to(&b, &g);
    own = g.context;
    assert_int_equal(CALL(&g, vgpCtxCreate, .context = other), 0);
    g.context = other;
    assert_int_equal(CALL(&g, cuStreamCreate, .phStream = stream), 0);
    g.context = own;
    work_on(&g, stream);
    if (marked)
        let_sleep(&g);
    assert_int_equal(CALL(&g, vgpCtxDestroy, .context = other), 0);
    looks_find(&g);
    assert_int_equal(broker_stop(&b), 0);
}

static void test_stream_of_other_context(void **state)
{
    (void)state;
    streams_of_other_context(true, false);
    streams_of_other_context(true, true);
    streams_of_other_context(false, true);
}

/* A stream is destroyed while there is no room to mark its work: it is not looked at later. */
static void test_stream_without_mark(void **state)
{
    const uint64_t other = VGP_HANDLE(VGP_H_CONTEXT, 1, 200), long_one = VGP_HANDLE(VGP_H_STREAM, 1, 200);
    const uint64_t one = VGP_HANDLE(VGP_H_STREAM, 1, 201), two = VGP_HANDLE(VGP_H_STREAM, 1, 202);
    struct broker b;
    struct guest g;

    (void)state;
    assert_int_equal(broker_start(&b, looks), 0);
    connect_to(&b, &g);
    const uint64_t own = g.context;
    assert_int_equal(CALL(&g, cuStreamCreate, .phStream = one), 0);
    assert_int_equal(CALL(&g, cuStreamCreate, .phStream = two), 0);
    assert_int_equal(CALL(&g, vgpCtxCreate, .context = other), 0);
    g.context = other;
    assert_int_equal(CALL(&g, cuStreamCreate, .phStream = long_one), 0);
    for (unsigned i = 0; i < 2047; i++) {
        work_on(&g, long_one);
        let_sleep(&g);
    }
    g.context = own;
    g.batch = true; /* no sleep in between: there is one place left for the marks of these two */
    work_on(&g, one);
    g.batch = false;
    work_on(&g, two);
    let_sleep(&g);
    assert_int_equal(CALL(&g, cuStreamDestroy_v2, .hStream = one), 0);
    assert_int_equal(CALL(&g, cuStreamDestroy_v2, .hStream = two), 0);
    guest_submit(&g, VGP_vgpCtxDestroy, 5, &(struct vgp_args_vgpCtxDestroy){.context = other},
                 sizeof(struct vgp_args_vgpCtxDestroy), NULL, 0); /* which waits for its work */
    looks_find(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* What belongs to a context ends with it. */
static void test_context(void **state)
{
    struct guest g;

    connect_to(*state, &g);
    make_arrays(&g);
    assert_int_equal(CALL(&g, vgpPrimaryCtxReset, .device = 0), 0);
    assert_int_equal(guest_context(&g), 0);
    assert_int_equal(CALL(&g, cuMipmappedArrayGetLevel, .pLevelArray = VGP_HANDLE(VGP_H_ARRAY, 1, 3),
                          .hMipmappedArray = mip),
                     CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(CALL(&g, cuMipmappedArrayDestroy, .hMipmappedArray = mip), CUDA_ERROR_INVALID_HANDLE);
    guest_close(&g);
}

/* A second handle for the same context would outlive it. */
static void test_primary(void **state)
{
    struct vgp_args_vgpPrimaryCtxRetain again = {.context = VGP_HANDLE(VGP_H_CONTEXT, 1, 5)};
    struct guest g;

    connect_to(*state, &g);
    assert_int_equal(guest_context(&g), 0); /* the same one, twice */
    assert_int_equal(CALL(&g, vgpPrimaryCtxRelease, .device = 0), 0);
    assert_int_equal(CALL(&g, vgpPrimaryCtxRelease, .device = 0), 0);
    assert_int_equal(guest_context(&g), 0); /* and again, when it has ended */
    guest_submit(&g, VGP_vgpPrimaryCtxRetain, 0, &again, sizeof(again), NULL, 0);
    assert_true(guest_wait_dead(&g, 60000));
    guest_close(&g);
}

/* What comes while the context ends and a retain waits: another handle for the context, or a context for its handle. */
static void retain_as_it_ends(struct broker *b, uint16_t call, uint64_t context)
{
    struct vgp_args_vgpPrimaryCtxRetain again[2] = {{.context = VGP_HANDLE(VGP_H_CONTEXT, 1, 5)},
                                                    {.context = context}}; /* of that form, whichever call */
    struct vgp_args_vgpPrimaryCtxRelease release = {0};
    struct vgp_args_cuEventSynchronize wait = {.hEvent = VGP_HANDLE(VGP_H_EVENT, 1, 1)};
    struct guest g;

    connect_to(b, &g);
    assert_int_equal(CALL(&g, cuEventCreate, .phEvent = wait.hEvent), 0);
    assert_int_equal(guest_memset(&g, 0, VALUE_BUSY, 400, 0), 0);
    assert_int_equal(CALL(&g, cuEventRecord, .hEvent = wait.hEvent), 0);
    guest_submit(&g, VGP_cuEventSynchronize, 3, &wait, sizeof(wait), NULL, 0);
    assert_int_equal(guest_wait(&g, 3, NULL, NULL, 100), -1); /* the context ends after this */
    g.seq++;
    guest_submit(&g, VGP_vgpPrimaryCtxRelease, 4, &release, sizeof(release), NULL, 0);
    g.seq++;
    guest_submit(&g, VGP_vgpPrimaryCtxRetain, 5, &again[0], sizeof(again[0]), NULL, 0);
    g.seq++;
    guest_submit(&g, call, 6, &again[1], sizeof(again[1]), NULL, 0);
    assert_true(guest_wait_dead(&g, 60000));
    guest_close(&g);
}

static void test_primary_as_it_ends(void **state)
{
    retain_as_it_ends(*state, VGP_vgpPrimaryCtxRetain, VGP_HANDLE(VGP_H_CONTEXT, 1, 6));
    retain_as_it_ends(*state, VGP_vgpCtxCreate, VGP_HANDLE(VGP_H_CONTEXT, 1, 5));
}

/* An ELF image, whose size the provider is not told: what it says of itself is all there. */
static void test_image_sizes(void **state)
{
    static const uint8_t magic[] = {0x7f, 'E', 'L', 'F', 2, 1, 1, 0x33};
    struct guest g;

    connect_to(*state, &g);
    for (uint32_t i = 0; i < 5; i++) {
        Elf64_Ehdr eh = {.e_machine = 190, .e_ehsize = sizeof(eh)};
        struct vgp_args_vgpModuleLoad a = {
            .module = VGP_HANDLE(VGP_H_MODULE, 1, 1 + i), .image_size = sizeof(eh), .image_len = sizeof(eh)};

        memcpy(eh.e_ident, magic, sizeof(magic));
        if (i == 1)
            eh.e_ehsize = UINT16_MAX;
        if (i == 2)
            eh.e_ehsize = 0;
        if (i == 3)
            eh.e_shoff = 16; /* the first section would say how many there are */
        if (i == 4)
            eh.e_phnum = PN_XNUM;
        guest_submit(&g, VGP_vgpModuleLoad, 0, &a, sizeof(a), &eh, sizeof(eh));
        assert_int_equal(guest_wait(&g, 0, NULL, NULL, 60000), i ? CUDA_ERROR_INVALID_IMAGE : 0);
    }
    guest_close(&g);
}

/* An event that is destroyed while a thread waits for it, and a context while a thread waits in it. */
static void test_event(void **state)
{
    struct vgp_args_cuEventDestroy_v2 destroy;
    struct vgp_args_cuEventSynchronize wait;
    struct vgp_args_vgpPrimaryCtxReset reset = {0};
    struct guest g;

    connect_to(*state, &g);
    for (int i = 0; i < 2; i++) {
        uint64_t handle = VGP_HANDLE(VGP_H_EVENT, 1 + i, 1);

        assert_int_equal(CALL(&g, cuEventCreate, .phEvent = handle), 0);
        assert_int_equal(guest_memset(&g, 0, VALUE_BUSY, 400, 0), 0);
        assert_int_equal(CALL(&g, cuEventRecord, .hEvent = handle), 0);
        wait.hEvent = destroy.hEvent = handle;
        guest_submit(&g, VGP_cuEventSynchronize, 3, &wait, sizeof(wait), NULL, 0);
        assert_int_equal(guest_wait(&g, 3, NULL, NULL, 100), -1); /* on a waiter by now */
        uint32_t seq = g.seq;
        if (i == 0) {
            assert_int_equal(guest_call(&g, VGP_cuEventDestroy_v2, &destroy, sizeof(destroy), NULL, NULL), 0);
            assert_int_equal(CALL(&g, cuEventQuery, .hEvent = handle), CUDA_ERROR_INVALID_HANDLE);
        } else {
            assert_int_equal(guest_call(&g, VGP_vgpPrimaryCtxReset, &reset, sizeof(reset), NULL, NULL), 0);
        }
        g.seq = seq;
        assert_int_equal(guest_wait(&g, 3, NULL, NULL, 60000), 0);
        g.seq += 10;
    }
    assert_int_equal(CALL(&g, vgpPing, .value = 1), 0);
    guest_close(&g);
}

/* The word of a watch; 0: neither value has come in 5 s. */
static uint32_t watched(const struct guest *g, unsigned word, uint32_t sequence)
{
    for (int i = 0; i < 5000; i++) {
        uint32_t v = __atomic_load_n(&g->s->watch[word], __ATOMIC_ACQUIRE);

        if (v == sequence || v == (sequence | VGP_WATCH_ASK))
            return v;
        usleep(1000);
    }
    return 0;
}

/* Events that are asked for: what is complete is said, what is gone is not looked at, and words are bounded. */
static void test_watch(void **state)
{
    uint64_t handle = VGP_HANDLE(VGP_H_EVENT, 1, 2), stream = VGP_HANDLE(VGP_H_STREAM, 1, 2);
    struct guest g;
    uint32_t v = 0;

    connect_to(*state, &g);
    assert_int_equal(CALL(&g, cuEventCreate, .phEvent = handle), 0);
    assert_int_equal(CALL(&g, cuStreamCreate, .phStream = stream), 0);
    assert_int_equal(CALL(&g, vgpEventWatch, .event = handle, .word = 63, .sequence = 5), 0);
    assert_int_equal(CALL(&g, vgpEventWatch, .event = handle + 1, .word = 63, .sequence = 5),
                     CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(CALL(&g, vgpStreamWatch, .stream = handle, .word = 63, .sequence = 5),
                     CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(g.s->watch[63], 0); /* nothing was to be said */
    /* Looked for until it is complete, though the dispatcher may stop looking before. */
    assert_int_equal(guest_memset(&g, 0, VALUE_BUSY, 20, stream), 0);
    assert_int_equal(CALL(&g, cuEventRecord, .hEvent = handle, .hStream = stream), 0);
    for (uint32_t i = 1; v != i; i++) {
        int r = CALL(&g, vgpEventWatch, .event = handle, .word = 1, .sequence = i);

        assert_true(r == 0 || r == CUDA_ERROR_NOT_READY);
        if (r == 0)
            break;
        v = watched(&g, 1, i);
        assert_int_not_equal(v, 0);
    }
    assert_int_equal(CALL(&g, cuEventQuery, .hEvent = handle), 0);
    /* Destroyed while it is looked for. */
    assert_int_equal(guest_memset(&g, 0, VALUE_BUSY, 400, stream), 0);
    assert_int_equal(CALL(&g, cuEventRecord, .hEvent = handle, .hStream = stream), 0);
    assert_int_equal(CALL(&g, vgpEventWatch, .event = handle, .word = 2, .sequence = 7),
                     CUDA_ERROR_NOT_READY);
    assert_int_equal(CALL(&g, vgpStreamWatch, .stream = stream, .word = 3, .sequence = 8),
                     CUDA_ERROR_NOT_READY);
    assert_int_equal(CALL(&g, cuEventDestroy_v2, .hEvent = handle), 0);
    assert_int_equal(CALL(&g, cuStreamDestroy_v2, .hStream = stream), 0);
    assert_int_equal(watched(&g, 2, 7), 7 | VGP_WATCH_ASK);
    assert_int_equal(watched(&g, 3, 8), 8 | VGP_WATCH_ASK);
    guest_close(&g);
    for (int i = 0; i < 3; i++) {
        struct vgp_args_vgpEventWatch bad = {.event = handle,
                                             .word = i == 0 ? VGP_WATCHES : 0,
                                             .sequence = i == 1   ? 0
                                                         : i == 2 ? VGP_WATCH_ASK
                                                                  : 1};

        connect_to(*state, &g);
        assert_int_equal(CALL(&g, cuEventCreate, .phEvent = handle), 0);
        guest_submit(&g, VGP_vgpEventWatch, 0, &bad, sizeof(bad), NULL, 0);
        assert_true(guest_wait_dead(&g, 60000));
        assert_non_null(strstr(g.s->dead_text, "vgpEventWatch: word"));
        guest_close(&g);
    }
}

/* A user object is the provider's only while somebody is known to hold it. */
static void test_user_object(void **state)
{
    const uint64_t o = VGP_HANDLE(VGP_H_USER_OBJECT, 1, 1), p = VGP_HANDLE(VGP_H_USER_OBJECT, 1, 2);
    const struct vgp_args_vgpUserObjectDrop drop = {.object = p};
    struct vgp_args_vgpGraphCreate gc = {0};
    const void *ret;
    uint64_t graph, cookie;
    struct guest g;

    connect_to(*state, &g);
    assert_int_equal(guest_call(&g, VGP_vgpGraphCreate, &gc, sizeof(gc), &ret, NULL), 0);
    memcpy(&graph, ret, sizeof(graph));
    assert_int_equal(CALL(&g, vgpUserObjectCreate, .object = o, .cookie = 9, .references = 1, .flags = 1), 0);
    assert_int_equal(CALL(&g, cuUserObjectRelease, .object = o, .count = 2), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(CALL(&g, vgpGraphUserObject, .graph = graph, .object = o, .count = 1, .release = 1),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(CALL(&g, vgpGraphUserObject, .graph = graph, .object = o, .count = 1,
                          .flags = CU_GRAPH_USER_OBJECT_MOVE),
                     0);
    assert_int_equal(CALL(&g, cuUserObjectRetain, .object = o, .count = 1), 0); /* the graph keeps it */
    assert_int_equal(CALL(&g, cuUserObjectRelease, .object = o, .count = 1), 0);
    assert_int_equal(CALL(&g, vgpGraphUserObject, .graph = graph, .object = o, .count = 1, .release = 1), 0);
    assert_true(guest_notification(&g, VGP_NOTIFY_RELEASED, &cookie, NULL, 5000));
    assert_int_equal(cookie, 9);
    /* The destructor has run, and the handle is still there. */
    assert_int_equal(CALL(&g, cuUserObjectRetain, .object = o, .count = 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(CALL(&g, cuUserObjectRelease, .object = o, .count = 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(CALL(&g, vgpGraphUserObject, .graph = graph, .object = o, .count = 1),
                     CUDA_ERROR_INVALID_VALUE);
    /* A handle that is dropped too early: the destructor still finds its record. */
    assert_int_equal(CALL(&g, vgpUserObjectCreate, .object = p, .cookie = 11, .references = 2, .flags = 1),
                     0);
    assert_int_equal(CALL(&g, vgpGraphUserObject, .graph = graph, .object = p, .count = 2,
                          .flags = CU_GRAPH_USER_OBJECT_MOVE),
                     0);
    guest_submit(&g, VGP_vgpUserObjectDrop, VGP_NO_REPLY, &drop, sizeof(drop), NULL, 0);
    assert_int_equal(CALL(&g, cuUserObjectRetain, .object = p, .count = 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(CALL(&g, vgpGraphDestroy, .graph = graph), 0);
    assert_int_equal(CALL(&g, vgpPing, .value = 1), 0);
    guest_close(&g);
}

/* ---- captures: what ends with them, what they forbid ---- */

static int ask(struct guest *g, uint16_t call, const void *args, uint32_t size, uint64_t *out)
{
    const void *p = NULL;
    uint32_t n = 0;
    int r = guest_call(g, call, args, size, &p, &n);

    if (r == 0) {
        assert_true(n >= sizeof(*out));
        memcpy(out, p, sizeof(*out));
    }
    return r;
}

/* The handle of the graph that the stream is captured into. */
static uint64_t captured_graph(struct guest *g)
{
    const struct vgp_args_vgpStreamCaptureInfo a = {.stream = STREAM};
    const void *p = NULL;
    uint32_t n = 0;

    assert_int_equal(guest_call(g, VGP_vgpStreamCaptureInfo, &a, sizeof(a), &p, &n), 0);
    assert_true(n >= sizeof(struct vgp_ret_vgpStreamCaptureInfo));
    return ((const struct vgp_ret_vgpStreamCaptureInfo *)p)->graph;
}

static int list_nodes(struct guest *g, uint64_t graph)
{
    return CALL(g, vgpGraphList, .what = VGP_LIST_NODES, .object = graph, .room = 8);
}

static uint64_t begin_capture(struct guest *g)
{
    uint64_t graph;

    assert_int_equal(CALL(g, cuStreamCreate, .phStream = STREAM), 0);
    assert_int_equal(CALL(g, vgpStreamBeginCapture, .stream = STREAM), 0);
    graph = captured_graph(g);
    assert_int_not_equal(graph, 0);
    assert_int_equal(list_nodes(g, graph), 0);
    return graph;
}

/* The provider's graph of a capture ends with the stream that it began in, and so does its handle. */
static void test_capture_stream(void **state)
{
    uint64_t graph, other = 0, node = 0;
    struct guest g;

    connect_to(*state, &g);
    graph = begin_capture(&g);
    assert_int_equal(CALL(&g, cuStreamDestroy_v2, .hStream = STREAM), 0);
    assert_int_equal(list_nodes(&g, graph), CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; i < 8; i++) { /* also when another graph is where it was */
        assert_int_equal(ASK(&g, vgpGraphCreate, &other, .flags = 0), 0);
        assert_int_not_equal(other, graph);
        assert_int_equal(ASK(&g, vgpGraphEmptyNode, &node, .graph = other), 0);
    }
    assert_int_equal(list_nodes(&g, graph), CUDA_ERROR_INVALID_VALUE);
    guest_close(&g);
}

/* ... and with the stream's context. */
static void test_capture_context(void **state)
{
    const uint64_t context = VGP_HANDLE(VGP_H_CONTEXT, 1, 1);
    struct guest g;
    uint64_t graph, primary;

    connect_to(*state, &g);
    primary = g.context;
    assert_int_equal(CALL(&g, vgpCtxCreate, .context = context), 0);
    g.context = context;
    graph = begin_capture(&g);
    g.context = primary;
    assert_int_equal(CALL(&g, vgpCtxDestroy, .context = context), 0);
    assert_int_equal(list_nodes(&g, graph), CUDA_ERROR_INVALID_VALUE);
    guest_close(&g);
}

/* A graph and its nodes stay while a stream captures into it; the graph of a conditional node is that node's after it. */
static void test_capture_stays(void **state)
{
    uint64_t graph = 0, node = 0, condition = 0, bodies[2] = {0};
    const void *p = NULL;
    uint32_t n = 0;
    struct guest g;

    connect_to(*state, &g);
    assert_int_equal(CALL(&g, cuStreamCreate, .phStream = STREAM), 0);
    assert_int_equal(ASK(&g, vgpGraphCreate, &graph, .flags = 0), 0);
    assert_int_equal(ASK(&g, vgpGraphEmptyNode, &node, .graph = graph), 0);
    assert_int_equal(CALL(&g, vgpStreamBeginCapture, .stream = STREAM, .graph = graph), 0);
    assert_int_equal(captured_graph(&g), graph);
    assert_int_equal(CALL(&g, vgpGraphDestroy, .graph = graph), CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(CALL(&g, vgpGraphDestroyNode, .node = node), CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(CALL(&g, vgpStreamEndCapture, .stream = STREAM), 0);

    assert_int_equal(ASK(&g, vgpGraphConditionalHandle, &condition, .graph = graph), 0);
    assert_int_equal(ASK(&g, vgpGraphConditionalNode, &node, .graph = graph, .handle = condition, .size = 1),
                     0);
    struct vgp_args_vgpGraphBodies a = {.node = node};
    assert_int_equal(guest_call(&g, VGP_vgpGraphBodies, &a, sizeof(a), &p, &n), 0);
    assert_true(n >= sizeof(struct vgp_ret_vgpGraphBodies) + 8);
    memcpy(bodies, (const uint8_t *)p + sizeof(struct vgp_ret_vgpGraphBodies), 8);
    assert_int_equal(CALL(&g, vgpStreamBeginCapture, .stream = STREAM, .graph = bodies[0]), 0);
    assert_int_equal(CALL(&g, vgpStreamEndCapture, .stream = STREAM), 0);
    assert_int_equal(list_nodes(&g, bodies[0]), 0);
    assert_int_equal(CALL(&g, vgpGraphDestroy, .graph = bodies[0]), CUDA_ERROR_INVALID_VALUE);

    /* The client's own stays when the capture into it ends with the stream. */
    assert_int_equal(CALL(&g, vgpStreamBeginCapture, .stream = STREAM, .graph = graph), 0);
    assert_int_equal(CALL(&g, cuStreamDestroy_v2, .hStream = STREAM), 0);
    assert_int_equal(list_nodes(&g, graph), 0);
    assert_int_equal(CALL(&g, vgpGraphDestroy, .graph = graph), 0);
    guest_close(&g);
}

/* A node that an error names is in a child graph: it gets no handle as one of the graph around it. */
static void test_error_in_child(void **state)
{
    uint64_t graph[2] = {0}, child[2] = {0}, node = 0;
    const void *p = NULL;
    uint32_t n = 0;
    struct guest g;

    connect_to(*state, &g);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ASK(&g, vgpGraphCreate, &graph[i], .flags = 0), 0);
        assert_int_equal(ASK(&g, vgpGraphCreate, &child[i], .flags = 0), 0);
        if (i)
            assert_int_equal(ASK(&g, vgpGraphHostNode, &node, .graph = child[i], .cookie = 1), 0);
        else
            assert_int_equal(ASK(&g, vgpGraphEmptyNode, &node, .graph = child[i]), 0);
        assert_int_equal(ASK(&g, vgpGraphChildNode, &node, .graph = graph[i], .child = child[i]), 0);
    }
    assert_int_equal(CALL(&g, vgpGraphInstantiate, .exec = EXEC, .graph = graph[0]), 0);
    struct vgp_args_vgpGraphExecUpdate u = {.exec = EXEC, .graph = graph[1]};
    assert_int_equal(guest_call(&g, VGP_vgpGraphExecUpdate, &u, sizeof(u), &p, &n), 0);
    const struct vgp_ret_vgpGraphExecUpdate *ret = p;
    assert_int_equal(ret->result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
    assert_int_equal(ret->errorNode, 0);
    guest_close(&g);
}

/* A captured copy would use bytes of a record, or a place for a reply, at each launch of the graph. */
static void test_capture_record(void **state)
{
    struct vgp_args_vgpCopy in = {.srcKind = VGP_COPY_INLINE,
                                  .widthBytes = 8,
                                  .stream = STREAM,
                                  .when = VGP_WHEN_ISSUED,
                                  .data_len = 8};
    struct vgp_args_vgpCopy out = {
        .dstKind = VGP_COPY_REPLY, .widthBytes = 8, .stream = STREAM, .when = VGP_WHEN_COMPLETE};
    const uint64_t data = 0;
    struct guest g;

    connect_to(*state, &g);
    assert_int_equal(guest_alloc(&g, 4096, &in.dst), 0);
    out.src = in.dst;
    begin_capture(&g);
    guest_submit(&g, VGP_vgpCopy, 0, &in, sizeof(in), &data, sizeof(data));
    assert_int_equal(guest_wait(&g, 0, NULL, NULL, 60000), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(guest_call(&g, VGP_vgpCopy, &out, sizeof(out), NULL, NULL),
                     CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(CALL(&g, vgpStreamEndCapture, .stream = STREAM), 0);
    guest_submit(&g, VGP_vgpCopy, 0, &in, sizeof(in), &data, sizeof(data));
    assert_int_equal(guest_wait(&g, 0, NULL, NULL, 60000), 0);
    guest_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_stream_of_other_context),
        cmocka_unit_test(test_stream_without_mark),
        cmocka_unit_test(test_context),
        cmocka_unit_test(test_primary),
        cmocka_unit_test(test_primary_as_it_ends),
        cmocka_unit_test(test_image_sizes),
        cmocka_unit_test(test_event),
        cmocka_unit_test(test_user_object),
        cmocka_unit_test(test_watch),
        cmocka_unit_test(test_capture_stream),
        cmocka_unit_test(test_capture_context),
        cmocka_unit_test(test_capture_stays),
        cmocka_unit_test(test_error_in_child),
        cmocka_unit_test(test_capture_record),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
