/* SPDX-License-Identifier: MIT */
/* References to primary contexts: the worker's count and the provider's say the same of when one ends; as in process_test.c.
 * The test provider ends the worker when it is called with an object that has ended. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
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

/* For the provider. */
static bool is_active(struct guest *g)
{
    struct vgp_args_cuDevicePrimaryCtxGetState a = {.dev = 0};
    const struct vgp_ret_cuDevicePrimaryCtxGetState *r = NULL;

    assert_int_equal(guest_call(g, VGP_cuDevicePrimaryCtxGetState, &a, sizeof(a), (const void **)&r, NULL),
                     0);
    return r->active;
}

static void begin(struct broker *b, struct guest *g)
{
    memset(b, 0, sizeof(*b));
    assert_int_equal(broker_start(b, NULL), 0);
    assert_int_equal(guest_connect(g, b->sock, "primary"), 0);
    assert_int_equal(guest_context(g), 0);
}

/* A reset takes all references away: the context of the next retain ends with its release, and all that it has with it. */
static void resets_and_releases(void)
{
    struct broker b;
    struct guest g;
    uint64_t p;

    begin(&b, &g);
    assert_int_equal(guest_context(&g), 0); /* twice */
    for (unsigned i = 0; i < 3; i++) {
        const uint64_t stream = VGP_HANDLE(VGP_H_STREAM, 1, 1 + i);

        assert_int_equal(guest_alloc(&g, 4096, &p), 0);
        assert_int_equal(CALL(&g, vgpPrimaryCtxReset, .device = 0), 0);
        assert_false(is_active(&g));
        assert_int_equal(guest_alloc(&g, 4096, &p), CUDA_ERROR_CONTEXT_IS_DESTROYED);
        assert_int_equal(CALL(&g, vgpPrimaryCtxRelease, .device = 0), CUDA_ERROR_INVALID_CONTEXT);
        assert_int_equal(guest_context(&g), 0);
        assert_int_equal(CALL(&g, cuStreamCreate, .phStream = stream), 0);
        assert_int_equal(guest_alloc(&g, 4096, &p), 0);
        assert_int_equal(CALL(&g, vgpPrimaryCtxRelease, .device = 0), 0);
        assert_false(is_active(&g));
        assert_int_equal(g.s->memory_used, 0);
        assert_int_equal(guest_context(&g), 0);
        assert_int_equal(CALL(&g, cuStreamQuery, .hStream = stream), CUDA_ERROR_INVALID_HANDLE);
    }
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

static void test_after_reset(void **state)
{
    (void)state;
    resets_and_releases();
}

/* The same with a driver at whose reset the references stay. */
static void test_reset_keeps(void **state)
{
    (void)state;
    setenv("VGPU_TEST_RESET_KEEPS", "1", 1);
    resets_and_releases();
    unsetenv("VGPU_TEST_RESET_KEEPS");
}

/* What was never retained has no context; the address of one that has ended may be another's by now. */
static void test_reset_of_none(void **state)
{
    struct broker b;
    struct guest g;

    (void)state;
    begin(&b, &g);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(CALL(&g, vgpPrimaryCtxRelease, .device = 0), i ? CUDA_ERROR_INVALID_CONTEXT : 0);
        assert_int_equal(CALL(&g, vgpPrimaryCtxReset, .device = 0), 0);
    }
    assert_int_equal(CALL(&g, vgpPrimaryCtxReset, .device = 63), 0);
    assert_int_equal(CALL(&g, vgpPrimaryCtxReset, .device = 64), CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(guest_context(&g), 0);
    assert_true(is_active(&g));
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* A look-up without a context borrows one; not one that is ending, which would be taken away under it. */
static void test_borrowed_as_it_ends(void **state)
{
    const struct vgp_args_vgpPrimaryCtxRelease end = {.device = 0};
    const struct vgp_args_vgpCtxCreate other = {.context = VGP_HANDLE(VGP_H_CONTEXT, 1, 7)};
    struct {
        struct vgp_args_vgpLibraryLoad a;
        char image[8];
    } load = {.a = {.library = VGP_HANDLE(VGP_H_LIBRARY, 1, 1), .image_size = 6, .image_len = 6},
              .image = "quick"};
    struct {
        struct vgp_args_vgpLibraryGetKernel a;
        char name[8];
    } find = {.a = {.library = load.a.library, .name_len = 2}, .name = "k"};
    struct broker b;
    struct guest g;
    int r = CUDA_ERROR_INVALID_VALUE;

    (void)state;
    setenv("VGPU_TEST_LONG_PRIMARY", "1", 1);
    begin(&b, &g);
    unsetenv("VGPU_TEST_LONG_PRIMARY");
    assert_int_equal(guest_call(&g, VGP_vgpLibraryLoad, &load, sizeof(load), NULL, NULL), 0);
    guest_submit(&g, VGP_vgpPrimaryCtxRelease, 5, &end, sizeof(end), NULL, 0);
    const uint32_t ended = g.seq;

    g.context = 0;
    for (unsigned i = 0; i < 100; i++) { /* the waiter is on its way into the provider */
        find.a.kernel = VGP_HANDLE(VGP_H_KERNEL, 1, 1 + i);
        assert_int_equal(guest_call(&g, VGP_vgpLibraryGetKernel, &find, sizeof(find), NULL, NULL), 0);
        usleep(2000);
    }
    assert_int_equal(guest_call(&g, VGP_vgpCtxCreate, &other, sizeof(other), NULL, NULL), 0);
    g.context = other.context;
    for (int i = 0; i < 3000 && (r = guest_memset(&g, 0, VALUE_RELEASE, 0, 0)); i++)
        usleep(10000);
    assert_int_equal(r, 0);
    g.seq = ended;
    assert_int_equal(guest_wait(&g, 5, NULL, NULL, 60000), 0);
    g.seq += 2000;
    assert_false(is_active(&g));
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* A link that was begun in a green context is one of the primary context, also for the thread that its calls are made on. */
static void test_link_of_green(void **state)
{
    const uint64_t desc = VGP_HANDLE(VGP_H_RESOURCE_DESC, 1, 1), green = VGP_HANDLE(VGP_H_GREEN, 1, 1);
    const uint64_t inner = VGP_HANDLE(VGP_H_CONTEXT, 1, 9), link = VGP_HANDLE(VGP_H_LINK, 1, 1);
    const struct vgp_args_vgpDevResource ask = {.what = VGP_RESOURCE_DEVICE, .type = CU_DEV_RESOURCE_TYPE_SM};
    const struct vgp_args_vgpResourceDesc describe = {.desc = desc, .resources_len = 1};
    const struct {
        struct vgp_args_vgpLinkAdd a;
        char data[8], name[8];
    } add = {
        .a = {.state = link, .inputType = CU_JIT_INPUT_PTX, .data_size = 6, .data_len = 6, .name_len = 2},
        .data = "quick",
        .name = "n"};
    const struct vgp_ret_vgpDevResource *r = NULL;
    uint64_t id, primary;
    struct broker b;
    struct guest g;

    (void)state;
    begin(&b, &g);
    primary = g.context;
    assert_int_equal(guest_call(&g, VGP_vgpDevResource, &ask, sizeof(ask), (const void **)&r, NULL), 0);
    id = r->resource;
    guest_submit(&g, VGP_vgpResourceDesc, 0, &describe, sizeof(describe), &id, sizeof(id));
    assert_int_equal(guest_wait(&g, 0, NULL, NULL, 60000), 0);
    assert_int_equal(CALL(&g, vgpGreenCtxCreate, .green = green, .context = inner, .desc = desc,
                          .flags = CU_GREEN_CTX_DEFAULT_STREAM),
                     0);
    g.context = inner;
    assert_int_equal(CALL(&g, vgpLinkCreate, .state = link), 0);
    g.context = primary;
    assert_int_equal(CALL(&g, vgpGreenCtxDestroy, .green = green), 0);
    assert_int_equal(guest_call(&g, VGP_vgpLinkAdd, &add, sizeof(add), NULL, NULL), 0);
    assert_int_equal(CALL(&g, vgpLinkComplete, .state = link), 0);
    assert_int_equal(CALL(&g, cuLinkDestroy, .state = link), 0);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* A reset while the last release waits for a call under way in the context: it does not end the context before. */
static void test_reset_as_it_ends(void **state)
{
    const struct vgp_args_cuEventSynchronize wait = {.hEvent = VGP_HANDLE(VGP_H_EVENT, 1, 1)};
    const struct vgp_args_vgpPrimaryCtxRelease release = {.device = 0};
    const struct vgp_args_vgpPrimaryCtxReset reset = {.device = 0};
    struct broker b;
    struct guest g;

    (void)state;
    begin(&b, &g);
    assert_int_equal(CALL(&g, cuEventCreate, .phEvent = wait.hEvent), 0);
    assert_int_equal(guest_memset(&g, 0, VALUE_BUSY, 1000, 0), 0);
    assert_int_equal(CALL(&g, cuEventRecord, .hEvent = wait.hEvent), 0);
    guest_submit(&g, VGP_cuEventSynchronize, 3, &wait, sizeof(wait), NULL, 0);
    assert_int_equal(guest_wait(&g, 3, NULL, NULL, 100), -1);
    g.seq++;
    guest_submit(&g, VGP_vgpPrimaryCtxRelease, 4, &release, sizeof(release), NULL, 0);
    g.seq++;
    guest_submit(&g, VGP_vgpPrimaryCtxReset, 5, &reset, sizeof(reset), NULL, 0);
    assert_int_equal(guest_wait(&g, 5, NULL, NULL, 200), -1);
    assert_true(is_active(&g));
    while (is_active(&g))
        usleep(10000);
    assert_int_equal(guest_context(&g), 0);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_after_reset),   cmocka_unit_test(test_reset_keeps),
        cmocka_unit_test(test_reset_of_none), cmocka_unit_test(test_borrowed_as_it_ends),
        cmocka_unit_test(test_link_of_green), cmocka_unit_test(test_reset_as_it_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
