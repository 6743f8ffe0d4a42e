/* SPDX-License-Identifier: MIT */
/* Contexts that end while work of theirs goes on: what the worker counts, gives up and waits for meanwhile; as in
 * process_test.c. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "guest.h"
#include "proc.h"
#include "testprov.h"
#include "vgb_fd.h"
#include "vgb_log.h"
#include "vgp_calls.h"
#include "vgp_sock.h"

#define CALL(g, name, ...) \
    guest_call(g, VGP_##name, &(struct vgp_args_##name){__VA_ARGS__}, sizeof(struct vgp_args_##name), NULL, \
               NULL)
#define SUBMIT(g, slot, name, ...) \
    guest_submit(g, VGP_##name, slot, &(struct vgp_args_##name){__VA_ARGS__}, \
                 sizeof(struct vgp_args_##name), NULL, 0)
#define OTHER VGP_HANDLE(VGP_H_CONTEXT, 1, 7)
#define STREAM VGP_HANDLE(VGP_H_STREAM, 1, 1)
#define GREEN VGP_HANDLE(VGP_H_GREEN, 1, 1)
#define HOUR 3600000 /* ms */
#define MEMORY (4u << 20)

static void begin(struct broker *b, struct guest *g, const char *option)
{
    const char *const extra[] = {option, "1", NULL};

    memset(b, 0, sizeof(*b));
    assert_int_equal(broker_start(b, option ? extra : NULL), 0);
    assert_int_equal(guest_connect(g, b->sock, "ends"), 0);
    assert_int_equal(guest_context(g), 0);
}

static void end(struct broker *b, struct guest *g)
{
    guest_close(g);
    assert_int_equal(broker_stop(b), 0);
}

static void region(struct guest *g, uint32_t id)
{
    const uint64_t va = 0x600000000000 + id * 0x10000;
    const struct vgp_sock_map map = {.type = VGP_SOCK_MAP, .region = id, .va = va, .length = 4096};
    int fd = memfd_create("client", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct vgp_sock_mapped m;
    unsigned none = 0;

    assert_int_equal(ftruncate(fd, 4096), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_true(vgb_send_fds(g->sock, &map, sizeof(map), &fd, 1, 0) >= 0);
    assert_int_equal(vgb_recv_fds(g->sock, &m, sizeof(m), NULL, &none, 0), sizeof(m));
    assert_int_equal(m.status, 0);
    assert_int_equal(CALL(g, vgpRegionRegister, .region = id, .va = va, .length = 4096), 0);
    close(fd);
}

/* Memory that is registered in one context may be used by work of another one, also by that of one that is ending. */
static void test_given_up_as_other_ends(void **state)
{
    const struct vgp_sock_map unmap = {.type = VGP_SOCK_UNMAP, .region = 2};
    struct vgp_sock_mapped m;
    uint32_t ended, given, settled;
    unsigned none = 0;
    struct broker b;
    struct guest g;

    (void)state;
    begin(&b, &g, NULL);
    region(&g, 1);
    region(&g, 2);
    assert_int_equal(CALL(&g, vgpCtxCreate, .context = OTHER, .flags = LONG_CONTEXT), 0);
    SUBMIT(&g, 5, vgpCtxDestroy, .context = OTHER);
    ended = g.seq++;
    SUBMIT(&g, 6, vgpRegionUnregister, .region = 1);
    given = g.seq++;
    SUBMIT(&g, 7, vgpSettle, .reserved = 0);
    settled = g.seq++;
    assert_int_equal(CALL(&g, vgpPing, .value = 1), 0); /* the worker has seen them */
    assert_true(vgb_send_fds(g.sock, &unmap, sizeof(unmap), NULL, 0, 0) >= 0);
    assert_int_equal(guest_result_of(&g, 6, given, 200), -1);
    assert_int_equal(guest_result_of(&g, 7, settled, 0), -1);
    assert_true(vgb_recv_fds(g.sock, &m, sizeof(m), NULL, &none, MSG_DONTWAIT) < 0);
    assert_int_equal(guest_release(&g), 0);
    assert_int_equal(guest_result_of(&g, 5, ended, 60000), 0);
    assert_int_equal(guest_result_of(&g, 6, given, 60000), 0);
    assert_int_equal(guest_result_of(&g, 7, settled, 60000), 0);
    assert_int_equal(vgb_recv_fds(g.sock, &m, sizeof(m), NULL, &none, 0), sizeof(m));
    assert_int_equal(m.status, 0);
    end(&b, &g);
}

/* A green context, with a stream of it that is made, and work put into it, while `current` is the current one. */
static void make_green(struct guest *g, uint64_t current)
{
    const uint64_t desc = VGP_HANDLE(VGP_H_RESOURCE_DESC, 1, 1);
    const struct vgp_args_vgpDevResource ask = {.what = VGP_RESOURCE_DEVICE, .type = CU_DEV_RESOURCE_TYPE_SM};
    const struct vgp_args_vgpResourceDesc describe = {.desc = desc, .resources_len = 1};
    const struct vgp_ret_vgpDevResource *r = NULL;
    uint64_t id;

    assert_int_equal(guest_call(g, VGP_vgpDevResource, &ask, sizeof(ask), (const void **)&r, NULL), 0);
    id = r->resource;
    guest_submit(g, VGP_vgpResourceDesc, 0, &describe, sizeof(describe), &id, sizeof(id));
    assert_int_equal(guest_wait(g, 0, NULL, NULL, 60000), 0);
    assert_int_equal(CALL(g, vgpGreenCtxCreate, .green = GREEN, .context = OTHER, .desc = desc,
                          .flags = CU_GREEN_CTX_DEFAULT_STREAM),
                     0);
    g->context = current;
    assert_int_equal(CALL(g, vgpGreenCtxStreamCreate, .stream = STREAM, .green = GREEN, .flags = 1), 0);
}

/* The streams of a green context stay with the provider, and their work goes on, when the green context has ended. */
static void test_work_of_ended_green(void **state)
{
    struct broker b;
    struct guest g;

    (void)state;
    begin(&b, &g, NULL);
    region(&g, 1);
    make_green(&g, g.context);
    const uint64_t since = vgb_now_ns();
    assert_int_equal(CALL(&g, cuMemsetD8Async, .uc = VALUE_BUSY, .N = 2500, .hStream = STREAM), 0);
    assert_int_equal(CALL(&g, vgpGreenCtxDestroy, .green = GREEN), 0);
    assert_true(vgb_now_ns() - since < 2500000000u);
    assert_int_equal(CALL(&g, vgpRegionUnregister, .region = 1), 0);
    assert_true(vgb_now_ns() - since >= 2500000000u);
    end(&b, &g);
}

/* A context that ends takes no work away from the limits while it waits for that work. */
static void test_time_limit(void **state)
{
    struct broker b;
    struct guest g;

    (void)state;
    begin(&b, &g, "--client-time-limit");
    assert_int_equal(CALL(&g, vgpCtxCreate, .context = OTHER, .flags = LONG_CONTEXT), 0);
    const uint64_t primary = g.context;
    g.context = OTHER;
    assert_int_equal(guest_memset(&g, 0, VALUE_BUSY, HOUR, 0), 0);
    g.context = primary;
    SUBMIT(&g, 5, vgpCtxDestroy, .context = OTHER);
    assert_true(guest_wait_dead(&g, 60000));
    assert_non_null(strstr(g.s->dead_text, "--client-time-limit"));
    end(&b, &g);
}

#define STREAMS 24

/* Puts work into streams of a context of its own, the last of which ends after STREAMS * `each` ms, and ends the context. */
static void end_with_work(struct guest *g, unsigned each)
{
    const uint64_t primary = g->context;

    assert_int_equal(CALL(g, vgpCtxCreate, .context = OTHER), 0);
    g->context = OTHER;
    for (unsigned i = 0; i < STREAMS; i++) {
        const uint64_t stream = VGP_HANDLE(VGP_H_STREAM, 1, 1 + i);

        assert_int_equal(CALL(g, cuStreamCreate, .phStream = stream), 0);
        assert_int_equal(CALL(g, cuMemsetD8Async, .uc = VALUE_BUSY, .N = (i + 1) * each, .hStream = stream),
                         0);
    }
    g->context = primary;
    SUBMIT(g, 5, vgpCtxDestroy, .context = OTHER);
}

/* The limit is once for all work of a context that ends, however many streams have some. */
static void test_time_limit_once(void **state)
{
    struct broker b;
    struct guest g;

    (void)state;
    begin(&b, &g, "--client-time-limit");
    end_with_work(&g, HOUR / STREAMS);
    assert_true(guest_wait_dead(&g, 60000));
    assert_non_null(strstr(g.s->dead_text, "--client-time-limit"));
    end(&b, &g);
}

/* Work that goes on while its context ends meets no limit, however much there is. */
static void test_time_limit_not_met(void **state)
{
    struct broker b;
    struct guest g;
    uint32_t seq;

    (void)state;
    begin(&b, &g, "--client-time-limit");
    const uint64_t since = vgb_now_ns();
    end_with_work(&g, 150);
    seq = g.seq++;
    assert_int_equal(guest_result_of(&g, 5, seq, 60000), 0);
    assert_true(vgb_now_ns() - since >= STREAMS * 150000000ull);
    end(&b, &g);
}

/* Nor does a green one, whose work is that of the context below. */
static void test_time_limit_of_green(void **state)
{
    struct broker b;
    struct guest g;

    (void)state;
    begin(&b, &g, "--client-time-limit");
    const uint64_t primary = g.context;
    make_green(&g, OTHER);
    assert_int_equal(CALL(&g, cuMemsetD8Async, .uc = VALUE_BUSY, .N = HOUR, .hStream = STREAM), 0);
    g.context = primary;
    assert_int_equal(CALL(&g, vgpGreenCtxDestroy, .green = GREEN), 0);
    assert_true(guest_wait_dead(&g, 60000));
    assert_non_null(strstr(g.s->dead_text, "--client-time-limit"));
    end(&b, &g);
}

/*
 * The handle of a primary context outlives the context. A call that names it gets no other one instead: nodes would be of the
 * calling context, and outlive that one.
 */
static void test_handle_of_ended(void **state)
{
    const struct vgp_args_vgpGraphCreate create = {0};
    const void *reply = NULL;
    struct broker b;
    struct guest g;
    uint64_t graph;

    (void)state;
    begin(&b, &g, NULL);
    const uint64_t primary = g.context;
    assert_int_equal(CALL(&g, vgpCtxCreate, .context = OTHER), 0);
    assert_int_equal(CALL(&g, vgpPrimaryCtxRelease, .device = 0), 0);
    g.context = OTHER;
    assert_int_equal(guest_call(&g, VGP_vgpGraphCreate, &create, sizeof(create), &reply, NULL), 0);
    memcpy(&graph, reply, sizeof(graph));
    assert_int_equal(CALL(&g, vgpGraphCopyNode, .graph = graph, .context = primary,
                          .dstKind = VGP_COPY_DEVICE, .srcKind = VGP_COPY_DEVICE, .widthBytes = 8,
                          .height = 1, .depth = 1),
                     CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_int_equal(CALL(&g, vgpCopyPeer, .dstContext = OTHER, .srcContext = primary, .widthBytes = 8,
                          .height = 1, .depth = 1),
                     CUDA_ERROR_CONTEXT_IS_DESTROYED);
    end(&b, &g);
}

/* A context that the driver does not end still has its memory, and what was registered in it. */
static void test_end_refused(void **state)
{
    const struct vgp_sock_map unmap = {.type = VGP_SOCK_UNMAP, .region = 1};
    struct broker b;
    struct guest g;
    uint64_t p;

    (void)state;
    begin(&b, &g, NULL);
    const uint64_t primary = g.context;
    assert_int_equal(CALL(&g, vgpCtxCreate, .context = OTHER, .flags = KEPT_CONTEXT), 0);
    g.context = OTHER;
    assert_int_equal(guest_alloc(&g, MEMORY, &p), 0);
    g.context = primary;
    assert_int_equal(CALL(&g, vgpCtxDestroy, .context = OTHER), CUDA_ERROR_NOT_PERMITTED);
    assert_true(g.s->memory_used >= MEMORY);
    assert_int_equal(
        CALL(&g, vgpCtxCreate, .context = VGP_HANDLE(VGP_H_CONTEXT, 1, 8), .flags = KEPT_CONTEXT), 0);
    g.context = VGP_HANDLE(VGP_H_CONTEXT, 1, 8);
    region(&g, 1);
    g.context = primary;
    SUBMIT(&g, 5, vgpCtxDestroy, .context = VGP_HANDLE(VGP_H_CONTEXT, 1, 8));
    assert_true(vgb_send_fds(g.sock, &unmap, sizeof(unmap), NULL, 0, 0) >= 0);
    assert_true(guest_wait_dead(&g, 60000));
    end(&b, &g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_given_up_as_other_ends),
        cmocka_unit_test(test_work_of_ended_green),
        cmocka_unit_test(test_time_limit),
        cmocka_unit_test(test_time_limit_once),
        cmocka_unit_test(test_time_limit_not_met),
        cmocka_unit_test(test_time_limit_of_green),
        cmocka_unit_test(test_handle_of_ended),
        cmocka_unit_test(test_end_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
