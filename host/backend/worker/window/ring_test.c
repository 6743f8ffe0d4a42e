/* SPDX-License-Identifier: MIT */
/* Every way in which a record can be malformed, at its limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "window.h"

struct fixture {
    struct wrk_window win;
    struct wrk_ring ring;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_true(wrk_window_plan(&f->win, VGP_WINDOW_MIN));
    f->win.base = aligned_alloc(4096, VGP_WINDOW_MIN);
    memset(f->win.base, 0, VGP_WINDOW_MIN);
    f->win.shared = (void *)f->win.base;
    assert_true(wrk_ring_init(&f->ring));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    wrk_ring_fini(&f->ring);
    free(f->win.base);
    free(f);
    return 0;
}

static uint8_t *at(struct fixture *f, uint64_t pos)
{
    return f->win.base + f->win.ring_offset + (pos & (f->win.ring_size - 1));
}

static struct vgp_record good(uint32_t size)
{
    return (struct vgp_record){.size = size, .call = 6, .reply_slot = VGP_NO_REPLY};
}

static void publish(struct fixture *f, const struct vgp_record *r, uint64_t bytes)
{
    memcpy(at(f, f->ring.head), r, sizeof(*r));
    f->win.shared->ring_tail = f->ring.head + bytes;
}

static void test_good(void **state)
{
    struct fixture *f = *state;
    struct vgp_record r = good(48);

    assert_int_equal(wrk_ring_next(&f->ring, &f->win), WRK_RING_EMPTY);
    publish(f, &r, 48);
    memset(at(f, 32), 0x5a, 16);
    assert_true(wrk_ring_pending(&f->ring, &f->win));
    assert_int_equal(wrk_ring_next(&f->ring, &f->win), WRK_RING_RECORD);
    assert_int_equal(f->ring.args_size, 16);
    assert_int_equal(f->ring.args[15], 0x5a);
    assert_int_equal(f->win.shared->ring_head, 48);
    memset(at(f, 32), 0, 16); /* the copy is private */
    assert_int_equal(f->ring.args[15], 0x5a);
    assert_int_equal(wrk_ring_next(&f->ring, &f->win), WRK_RING_EMPTY);
}

static void expect_bad(struct fixture *f, struct vgp_record r, uint64_t bytes, const char *text)
{
    f->ring.head = f->win.shared->ring_head = 0;
    publish(f, &r, bytes);
    assert_int_equal(wrk_ring_next(&f->ring, &f->win), WRK_RING_MALFORMED);
    assert_non_null(strstr(f->ring.error, text));
    assert_int_equal(f->ring.head, 0);
}

static void test_sizes(void **state)
{
    struct fixture *f = *state;
    const uint32_t bad[] = {0, 1, 15, 16, 31, 33, 40, 47};
    struct vgp_record r = good(32);

    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        expect_bad(f, good(bad[i]), 4096, "multiple of 16");
    expect_bad(f, good(64), 48, "longer than what was published");
    expect_bad(f, good(0xfffffff0), 4096, "longer than what was published");
    expect_bad(f, good(VGP_RECORD_MAX + 16), VGP_RECORD_MAX + 16, "VGP_RECORD_MAX");
    expect_bad(f, r, 16, "less than a record header");
    f->ring.head = 0;
    r = good(VGP_RECORD_MAX);
    publish(f, &r, VGP_RECORD_MAX);
    assert_int_equal(wrk_ring_next(&f->ring, &f->win), WRK_RING_RECORD);
}

static void test_fields(void **state)
{
    struct fixture *f = *state;
    struct vgp_record r = good(48);

    r.flags = 1;
    expect_bad(f, r, 48, "flags");
    r = good(48);
    r.padding = 1;
    expect_bad(f, r, 48, "padding is not zero");
    r = good(48);
    r.reply_slot = VGP_REPLY_SLOTS;
    expect_bad(f, r, 48, "reply slot");
    r.reply_slot = 0xfffffffe;
    expect_bad(f, r, 48, "reply slot");
    r.reply_slot = VGP_REPLY_SLOTS - 1;
    f->ring.head = 0;
    publish(f, &r, 48);
    assert_int_equal(wrk_ring_next(&f->ring, &f->win), WRK_RING_RECORD);
}

static void test_tails(void **state)
{
    struct fixture *f = *state;
    struct vgp_record r = good(48);

    expect_bad(f, r, 8, "tail");
    expect_bad(f, r, 1, "tail");
    expect_bad(f, r, (uint64_t)f->win.ring_size + 16, "tail");
    expect_bad(f, r, UINT64_MAX & ~UINT64_C(15), "tail"); /* jumped back */
    f->ring.head = 4096;
    f->win.shared->ring_tail = 4080;
    assert_int_equal(wrk_ring_next(&f->ring, &f->win), WRK_RING_MALFORMED);
}

static void test_end_of_ring(void **state)
{
    struct fixture *f = *state;
    struct vgp_record r = good(64), pad = {.size = 48, .call = VGP_CALL_PAD};

    /* A record that crosses the end. */
    f->ring.head = f->win.ring_size - 48;
    publish(f, &r, 64);
    assert_int_equal(wrk_ring_next(&f->ring, &f->win), WRK_RING_MALFORMED);
    /* A pad that does not fill the rest. */
    pad.size = 32;
    publish(f, &pad, 64);
    assert_int_equal(wrk_ring_next(&f->ring, &f->win), WRK_RING_MALFORMED);
    /* A good pad, then a record at the beginning. */
    pad.size = 48;
    publish(f, &pad, 48 + 64);
    memcpy(f->win.base + f->win.ring_offset, &r, sizeof(r));
    assert_int_equal(wrk_ring_next(&f->ring, &f->win), WRK_RING_RECORD);
    assert_int_equal(f->ring.head, f->win.ring_size + 64);
    /* The last 16 bytes: a pad header that is cut short, and a record header that is. */
    f->ring.head = f->win.ring_size - 16;
    pad.size = 16;
    memcpy(at(f, f->ring.head), &pad, 16);
    f->win.shared->ring_tail = f->ring.head + 16;
    assert_int_equal(wrk_ring_next(&f->ring, &f->win), WRK_RING_EMPTY);
    assert_int_equal(f->ring.head, f->win.ring_size);
    f->ring.head = f->win.ring_size - 16;
    r = good(32);
    memcpy(at(f, f->ring.head), &r, 16);
    f->win.shared->ring_tail = f->ring.head + 32;
    assert_int_equal(wrk_ring_next(&f->ring, &f->win), WRK_RING_MALFORMED);
}

static void test_window_plan(void **state)
{
    struct wrk_window win;

    (void)state;
    assert_false(wrk_window_plan(&win, 0));
    assert_false(wrk_window_plan(&win, VGP_WINDOW_MIN - 4096));
    assert_false(wrk_window_plan(&win, VGP_WINDOW_MIN + 1));
    assert_true(wrk_window_plan(&win, VGP_WINDOW_MIN));
    assert_true(win.staging_offset + win.staging_size == VGP_WINDOW_MIN);
    assert_true(win.staging_size > 1u << 20);
    assert_false(wrk_window_plan(&win, UINT64_MAX & ~UINT64_C(4095)));
}

/* What suits the provider is in the header; guests that do not know the field find the rest where it was. */
static void test_window_publish(void **state)
{
    static struct vgp_window_shared header;
    struct wrk_window win = {.shared = &header, .staging_piece = VGP_PIECE_LARGE};

    (void)state;
    assert_true(wrk_window_plan(&win, VGP_WINDOW_MIN));
    wrk_window_publish(&win, 7);
    assert_int_equal(header.staging_piece, VGP_PIECE_LARGE);
    assert_int_equal(__builtin_offsetof(struct vgp_window_shared, staging_piece), 52);
    assert_int_equal(__builtin_offsetof(struct vgp_window_shared, past_caches), 208);
    assert_int_equal(header.past_caches, 0);
}

/* As many mappings as were made beside the window, each to one user at a time. */
static void test_aliases(void **state)
{
    static uint8_t pages[WRK_WINDOW_ALIASES * VGP_PAGE];
    struct wrk_window win = {.aliases = NULL};
    void *at[WRK_WINDOW_ALIASES];

    (void)state;
    assert_null(wrk_window_alias_take(&win));
    win.aliases = pages;
    for (unsigned i = 0; i < WRK_WINDOW_ALIASES; i++) {
        at[i] = wrk_window_alias_take(&win);
        assert_non_null(at[i]);
        for (unsigned j = 0; j < i; j++)
            assert_ptr_not_equal(at[i], at[j]);
    }
    assert_null(wrk_window_alias_take(&win));
    wrk_window_alias_give(&win, at[7]);
    assert_ptr_equal(wrk_window_alias_take(&win), at[7]);
    assert_null(wrk_window_alias_take(&win));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_good),
        T(test_sizes),
        T(test_fields),
        T(test_tails),
        T(test_end_of_ring),
        cmocka_unit_test(test_window_plan),
        cmocka_unit_test(test_window_publish),
        cmocka_unit_test(test_aliases),
    };

    return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
