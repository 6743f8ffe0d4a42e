/* SPDX-License-Identifier: MIT */
/* Objects of others that a worker has open: their bound, and what they count for when their creator has gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "clients.h"
#include "share_test.h"
#include "vgb_fd.h"

static const struct brk_client_ops one_vm;

/* One client opens as many objects of others as HOLDS_MAX of brk_share.c says; one that it closes makes room, again ones take none. */
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

/* Memory of each kind that its creator drops while others hold it counts until the last of them has gone; an event has none. */
static void test_dropped_counts(void **state)
{
    static const struct {
        uint32_t kind;
        uint64_t length, counts;
    } rows[] = {{VGB_SHARE_MEMORY, 3 << 20, 3 << 20},
                {VGB_SHARE_FD, 2 << 20, 2 << 20},
                {VGB_SHARE_PAYLOAD, 5 << 20, 5 << 20},
                {VGB_SHARE_EVENT, VGP_PAGE, 0}};
    const uint64_t room = 8 << 20;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t t[VGB_TOKEN];
        struct worker a, b, c;
        int fd;

        start(&a, &one_vm, room);
        start(&b, &one_vm, 0);
        start(&c, &one_vm, 0);
        assert_int_equal(make(&a, rows[i].kind, rows[i].length, t, &fd), VGPU_S_OK);
        vgb_close(&fd);
        assert_int_equal(open_it(&b, rows[i].kind, t, &fd), VGPU_S_OK);
        vgb_close(&fd);
        assert_int_equal(open_it(&c, rows[i].kind, t, &fd), VGPU_S_OK);
        vgb_close(&fd);
        assert_int_equal(brk_vram.used, room);
        end(&a);
        assert_int_equal(brk_vram.used, rows[i].counts);
        end(&b);
        assert_int_equal(brk_vram.used, rows[i].counts);
        end(&c);
        assert_int_equal(brk_vram.used, 0);
        assert_int_equal(brk_share_count(), 0);
    }
}

/* Memory of each kind that its maker drops counts until the last other holder has gone; an event's page does not. */
static void test_each_kind_counts(void **state)
{
    static const struct {
        enum vgb_share_kind kind;
        uint64_t charged;
    } rows[] = {{VGB_SHARE_MEMORY, 16 * VGP_PAGE},
                {VGB_SHARE_FD, 16 * VGP_PAGE},
                {VGB_SHARE_PAYLOAD, 16 * VGP_PAGE},
                {VGB_SHARE_EVENT, 0}};

    (void)state;
    for (unsigned i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
        const enum vgb_share_kind kind = rows[i / 2].kind;
        const uint64_t before = brk_vram.used;
        uint8_t t[VGB_TOKEN];
        struct worker a, b;
        int fd = -1;

        start(&a, &one_vm, 0);
        start(&b, &one_vm, 0);
        assert_int_equal(make(&a, kind, kind == VGB_SHARE_EVENT ? VGP_PAGE : 16 * VGP_PAGE, t, &fd),
                         VGPU_S_OK);
        vgb_close(&fd);
        assert_int_equal(open_it(&b, kind, t, &fd), VGPU_S_OK);
        vgb_close(&fd);
        assert_int_equal(brk_vram.used, before);
        if (i % 2)
            assert_true(drop(&a, t));
        else
            end(&a);
        assert_int_equal(brk_vram.used - before, rows[i / 2].charged);
        end(&b);
        if (i % 2)
            end(&a);
        assert_int_equal(brk_vram.used, before);
        assert_int_equal(brk_share_count(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_holds), cmocka_unit_test(test_dropped_counts),
                                       cmocka_unit_test(test_each_kind_counts)};

    return cmocka_run_group_tests_name("holds", tests, NULL, NULL);
}
