/* SPDX-License-Identifier: MIT */
/* The bound of objects of others that one worker has open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "share_test.h"

static const struct brk_client_ops one_vm;

/* One client opens as many objects of others as HOLDS_MAX of share.c says; one that it closes makes room, again ones take none. */
static void test_holds(void **state)
{
    enum { HOLDS = 4096, MAKERS = 5, EACH = 1000 };
    static uint8_t tokens[MAKERS * EACH][VGB_TOKEN];
    struct worker makers[MAKERS], w;
    int fd;

    (void)state;
    start(&w, &one_vm, 0);
    for (unsigned i = 0; i < MAKERS; i++) {
        start(&makers[i], &one_vm, 0);
        for (unsigned k = 0; k < EACH; k++)
            assert_int_equal(make(&makers[i], VGB_SHARE_PAYLOAD, 0, tokens[i * EACH + k], &fd), VGPU_S_OK);
    }
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < HOLDS; i++)
            assert_int_equal(open_it(&w, VGB_SHARE_PAYLOAD, tokens[i], &fd), VGPU_S_OK);
        assert_int_equal(open_it(&w, VGB_SHARE_PAYLOAD, tokens[HOLDS], &fd), VGPU_S_QUOTA);
        assert_int_equal(open_it(&w, VGB_SHARE_PAYLOAD, tokens[7], &fd), VGPU_S_OK);
        assert_true(drop(&w, tokens[7]));
        assert_int_equal(open_it(&w, VGB_SHARE_PAYLOAD, tokens[HOLDS], &fd), VGPU_S_QUOTA);
        assert_true(drop(&w, tokens[7]));
        assert_int_equal(open_it(&w, VGB_SHARE_PAYLOAD, tokens[HOLDS], &fd), VGPU_S_OK);
        for (unsigned i = 0; i <= HOLDS; i++)
            assert_int_equal(drop(&w, tokens[i]), i != 7);
    }
    for (unsigned i = 0; i < MAKERS; i++)
        end(&makers[i]);
    end(&w);
    assert_int_equal(brk_share_count(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_holds)};

    return cmocka_run_group_tests_name("holds", tests, NULL, NULL);
}
