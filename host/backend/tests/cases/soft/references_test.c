/* SPDX-License-Identifier: MIT */
/* References to user objects that add up to more than a provider may count, with a real worker and the software GPU. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "guest.h"
#include "proc.h"
#include "vgp_calls.h"

#define OBJECT VGP_HANDLE(VGP_H_USER_OBJECT, 1, 1)
#define GRAPH VGP_HANDLE(VGP_H_GRAPH, 1, VGP_HANDLE_GUEST_FIRST)

static int retain(struct guest *g, uint32_t count)
{
    const struct vgp_args_cuUserObjectRetain a = {.object = OBJECT, .count = count};

    return guest_call(g, VGP_cuUserObjectRetain, &a, sizeof(a), NULL, NULL);
}

static int give(struct guest *g, uint32_t count, bool release)
{
    const struct vgp_args_vgpGraphUserObject a = {
        .graph = GRAPH, .object = OBJECT, .count = count, .release = release};

    return guest_call(g, VGP_vgpGraphUserObject, &a, sizeof(a), NULL, NULL);
}

static void test_sum(void **state)
{
    struct vgp_args_vgpUserObjectCreate a = {
        .object = OBJECT, .cookie = 9, .references = INT_MAX + 1u, .flags = 1};
    const char *const extra[] = {"--provider", soft_provider(), NULL};
    const struct vgp_args_cuUserObjectRelease own = {.object = OBJECT, .count = 1};
    struct broker b = {0};
    uint64_t cookie = 0;
    struct guest g;

    (void)state;
    assert_int_equal(broker_start(&b, extra), 0);
    assert_int_equal(guest_connect(&g, b.sock, "references"), 0);
    guest_graph_new(&g, GRAPH);
    assert_int_equal(guest_call(&g, VGP_vgpUserObjectCreate, &a, sizeof(a), NULL, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    a.object = OBJECT;
    a.references = 1;
    assert_int_equal(guest_call(&g, VGP_vgpUserObjectCreate, &a, sizeof(a), NULL, NULL), 0);
    assert_int_equal(retain(&g, INT_MAX), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(give(&g, INT_MAX, false), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(give(&g, INT_MAX - 1, false), 0);
    assert_int_equal(give(&g, 1, false), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(retain(&g, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(give(&g, 1, true), 0);
    assert_int_equal(retain(&g, 1), 0);
    assert_int_equal(guest_call(&g, VGP_cuUserObjectRelease, &own, sizeof(own), NULL, NULL), 0);
    assert_int_equal(guest_call(&g, VGP_cuUserObjectRelease, &own, sizeof(own), NULL, NULL), 0);
    assert_false(guest_notification(&g, VGP_NOTIFY_RELEASED, &cookie, NULL, 100));
    assert_int_equal(give(&g, INT_MAX - 2, true), 0);
    assert_true(guest_notification(&g, VGP_NOTIFY_RELEASED, &cookie, NULL, 5000));
    assert_int_equal(cookie, 9);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sum)};

    if (access(soft_provider(), R_OK)) {
        print_error("%s: not built\n", soft_provider());
        return 1;
    }
    return cmocka_run_group_tests_name("references", tests, NULL, NULL);
}
