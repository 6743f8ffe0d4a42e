/* SPDX-License-Identifier: MIT */
/* Ends of what other contexts may still use: code, memory, guest memory. As in process_test.c. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
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
#define MODULE VGP_HANDLE(VGP_H_MODULE, 1, 1)
#define LIBRARY VGP_HANDLE(VGP_H_LIBRARY, 1, 1)
#define HOUR 3600000 /* ms */

static void begin(struct broker *b, struct guest *g)
{
    memset(b, 0, sizeof(*b));
    assert_int_equal(broker_start(b, NULL), 0);
    assert_int_equal(guest_connect(g, b->sock, "users"), 0);
    assert_int_equal(guest_context(g), 0);
}

static void end(struct broker *b, struct guest *g)
{
    guest_close(g);
    assert_int_equal(broker_stop(b), 0);
}

static int load(struct guest *g, bool library)
{
    static const char image[16] = "stays";
    const struct vgp_args_vgpModuleLoad m = {
        .module = MODULE, .image_size = sizeof(image), .image_len = sizeof(image)};
    const struct vgp_args_vgpLibraryLoad l = {
        .library = LIBRARY, .image_size = sizeof(image), .image_len = sizeof(image)};

    if (library)
        guest_submit(g, VGP_vgpLibraryLoad, 0, &l, sizeof(l), image, sizeof(image));
    else
        guest_submit(g, VGP_vgpModuleLoad, 0, &m, sizeof(m), image, sizeof(image));
    return guest_wait(g, 0, NULL, NULL, 60000);
}

/*
 * The provider waits for the work that may use what ends, in whichever context that is. The worker does other things
 * meanwhile, and no context that may be waited for ends.
 */
static void ends_behind(struct guest *g, uint32_t seq)
{
    uint32_t ended;

    assert_int_equal(CALL(g, vgpPing, .value = 1), 0);
    assert_int_equal(guest_result_of(g, 5, seq, 100), -1);
    SUBMIT(g, 6, vgpCtxDestroy, .context = OTHER);
    ended = g->seq++;
    assert_int_equal(guest_result_of(g, 6, ended, 200), -1);
    assert_int_equal(guest_release(g), 0);
    assert_int_equal(guest_result_of(g, 5, seq, 60000), 0);
    assert_int_equal(guest_result_of(g, 6, ended, 60000), 0);
}

static void test_library(void **state)
{
    struct broker b;
    struct guest g;

    (void)state;
    begin(&b, &g);
    assert_int_equal(CALL(&g, vgpCtxCreate, .context = OTHER), 0);
    assert_int_equal(load(&g, true), 0);
    SUBMIT(&g, 5, cuLibraryUnload, .library = LIBRARY);
    ends_behind(&g, g.seq++);
    end(&b, &g);
}

static void test_module_of_other(void **state)
{
    struct broker b;
    struct guest g;

    (void)state;
    begin(&b, &g);
    const uint64_t primary = g.context;
    assert_int_equal(CALL(&g, vgpCtxCreate, .context = OTHER), 0);
    g.context = OTHER;
    assert_int_equal(load(&g, false), 0);
    g.context = primary;
    SUBMIT(&g, 5, cuModuleUnload, .hmod = MODULE);
    ends_behind(&g, g.seq++);
    end(&b, &g);
}

/* Nor does the worker stand still while it unloads a module again that is beyond the quota. */
static void test_module_beyond_quota(void **state)
{
    static const char *const quota[] = {"--vram-quota", "16M", NULL};
    struct broker b = {0};
    struct guest g;

    (void)state;
    setenv("VGPU_TEST_NVML", "1", 1);
    assert_int_equal(broker_start(&b, quota), 0);
    unsetenv("VGPU_TEST_NVML");
    assert_int_equal(guest_connect(&g, b.sock, "users"), 0);
    assert_int_equal(guest_context(&g), 0);
    assert_int_equal(guest_memset(&g, 0, VALUE_NVML, 17, 0), 0);
    assert_int_equal(load(&g, false), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(CALL(&g, vgpPing, .value = 1), 0);
    assert_int_equal(guest_release(&g), 0);
    end(&b, &g);
}

static void test_memory_of_other(void **state)
{
    struct broker b;
    struct guest g;
    uint64_t p;

    (void)state;
    begin(&b, &g);
    const uint64_t primary = g.context;
    assert_int_equal(CALL(&g, vgpCtxCreate, .context = OTHER), 0);
    g.context = OTHER;
    assert_int_equal(guest_alloc(&g, LONG_BYTES, &p), 0);
    g.context = primary;
    SUBMIT(&g, 5, cuMemFree_v2, .dptr = p);
    ends_behind(&g, g.seq++);
    end(&b, &g);
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

/* What a context had registered may be used by the work of other contexts, also when the context has ended. */
static void test_registered_in_ended(void **state)
{
    const struct vgp_sock_map unmap = {.type = VGP_SOCK_UNMAP, .region = 1};
    struct vgp_sock_mapped m;
    unsigned none = 0;
    struct broker b;
    struct guest g;

    (void)state;
    begin(&b, &g);
    const uint64_t primary = g.context;
    assert_int_equal(CALL(&g, vgpCtxCreate, .context = OTHER), 0);
    g.context = OTHER;
    region(&g, 1);
    g.context = primary;
    const uint64_t since = vgb_now_ns();
    assert_int_equal(CALL(&g, cuStreamCreate, .phStream = STREAM), 0);
    assert_int_equal(CALL(&g, cuMemsetD8Async, .uc = VALUE_BUSY, .N = 2500, .hStream = STREAM), 0);
    assert_int_equal(CALL(&g, vgpCtxDestroy, .context = OTHER), 0);
    assert_true(vgb_now_ns() - since < 2500000000u); /* which waits for no work of others */
    assert_true(vgb_send_fds(g.sock, &unmap, sizeof(unmap), NULL, 0, 0) >= 0);
    assert_int_equal(vgb_recv_fds(g.sock, &m, sizeof(m), NULL, &none, 0), sizeof(m));
    assert_int_equal(m.status, 0);
    assert_true(vgb_now_ns() - since >= 2500000000u);
    end(&b, &g);
}

/* A green context. */
static void make_green(struct guest *g)
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
    assert_int_equal(CALL(g, vgpGreenCtxCreate, .green = VGP_HANDLE(VGP_H_GREEN, 1, 1), .context = OTHER,
                          .desc = desc, .flags = CU_GREEN_CTX_DEFAULT_STREAM),
                     0);
}

/* The page through which the streams of a green context see the guest's answers is registered in the context below. */
static void test_page_of_green(void **state)
{
    struct broker b;
    struct guest g;

    (void)state;
    begin(&b, &g);
    const uint64_t primary = g.context;
    make_green(&g);
    g.context = OTHER;
    assert_int_equal(CALL(&g, vgpExtSemOp, .what = VGP_EXTSEM_WAIT, .cookie = 41), 0);
    g.context = primary;
    assert_int_equal(CALL(&g, vgpGreenCtxDestroy, .green = VGP_HANDLE(VGP_H_GREEN, 1, 1)), 0);
    assert_int_equal(CALL(&g, vgpPing, .value = 1), 0);
    end(&b, &g);
}

/* The default stream of a green context goes by the names of the legacy stream, and may take part in a capture. */
static void test_capture_of_green(void **state)
{
    static const uint8_t data[64];
    const struct vgp_args_vgpCopy copy = {.dstKind = VGP_COPY_DEVICE,
                                          .srcKind = VGP_COPY_INLINE,
                                          .widthBytes = sizeof(data),
                                          .height = 1,
                                          .depth = 1,
                                          .when = VGP_WHEN_COMPLETE,
                                          .data_len = sizeof(data)};
    struct broker b;
    struct guest g;

    (void)state;
    begin(&b, &g);
    make_green(&g);
    assert_int_equal(CALL(&g, cuStreamCreate, .phStream = STREAM), 0);
    g.context = OTHER;
    assert_int_equal(CALL(&g, vgpStreamBeginCapture, .stream = 0), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(CALL(&g, vgpStreamBeginCapture, .stream = 1), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(CALL(&g, vgpStreamBeginCapture, .stream = STREAM), 0);
    guest_submit(&g, VGP_vgpCopy, 0, &copy, sizeof(copy), data, sizeof(data));
    assert_int_equal(guest_wait(&g, 0, NULL, NULL, 60000), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end(&b, &g);
}

#define FUNCTIONS 16384 /* HOST_FUNCS_MAX of wrk_host_function.c */

/* Functions that a stream never comes to are not counted when its context has ended, and count until then. */
static void test_functions_never_run(void **state)
{
    struct broker b;
    struct guest g;

    (void)state;
    begin(&b, &g);
    const uint64_t primary = g.context;
    for (int i = 0; i < 3; i++) {
        const uint64_t context = VGP_HANDLE(VGP_H_CONTEXT, 1, 7 + i);
        const uint64_t stream = VGP_HANDLE(VGP_H_STREAM, 1, 1 + i);

        assert_int_equal(CALL(&g, vgpCtxCreate, .context = context), 0);
        g.context = context;
        assert_int_equal(CALL(&g, cuStreamCreate, .phStream = stream), 0);
        assert_int_equal(CALL(&g, cuMemsetD8Async, .uc = VALUE_BUSY, .N = HOUR, .hStream = stream), 0);
        for (int k = 0; k < FUNCTIONS; k++)
            assert_int_equal(
                i == 2 ? CALL(&g, vgpExtSemOp, .stream = stream, .what = VGP_EXTSEM_WAIT, .cookie = 41)
                       : CALL(&g, vgpLaunchHostFunc, .stream = stream, .cookie = 41),
                0);
        g.context = primary;
        assert_int_equal(CALL(&g, vgpLaunchHostFunc, .cookie = 42), CUDA_ERROR_OUT_OF_MEMORY);
        assert_int_equal(CALL(&g, vgpCtxDestroy, .context = context), 0);
    }
    assert_int_equal(CALL(&g, vgpLaunchHostFunc, .cookie = 42), 0);
    end(&b, &g);
}

/* Memory of a pool outlives the context in which it was allocated, and stays charged. */
static void test_pool_memory(void **state)
{
    const struct vgp_args_cuMemAllocAsync args = {.bytesize = 4u << 20};
    const void *reply = NULL;
    struct broker b;
    struct guest g;
    uint64_t p;

    (void)state;
    begin(&b, &g);
    const uint64_t primary = g.context;
    assert_int_equal(CALL(&g, vgpCtxCreate, .context = OTHER), 0);
    g.context = OTHER;
    assert_int_equal(guest_call(&g, VGP_cuMemAllocAsync, &args, sizeof(args), &reply, NULL), 0);
    memcpy(&p, reply, sizeof(p));
    g.context = primary;
    assert_int_equal(CALL(&g, vgpCtxDestroy, .context = OTHER), 0);
    assert_int_equal(g.s->memory_used, 4u << 20);
    assert_int_equal(CALL(&g, cuMemFreeAsync, .dptr = p), 0);
    assert_int_equal(g.s->memory_used, 0);
    end(&b, &g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_library),
        cmocka_unit_test(test_module_of_other),
        cmocka_unit_test(test_module_beyond_quota),
        cmocka_unit_test(test_memory_of_other),
        cmocka_unit_test(test_registered_in_ended),
        cmocka_unit_test(test_page_of_green),
        cmocka_unit_test(test_capture_of_green),
        cmocka_unit_test(test_functions_never_run),
        cmocka_unit_test(test_pool_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
