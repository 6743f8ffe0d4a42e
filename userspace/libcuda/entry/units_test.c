/* SPDX-License-Identifier: MIT */
/* The calls of core into units: their order, members that are missing, errors, and when they are left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "entry.h"

static char said[64];
static CUresult first_result;

static CUresult a_connected(void)
{
    strcat(said, "a");
    return first_result;
}
static CUresult b_connected(void)
{
    strcat(said, "b");
    return CUDA_SUCCESS;
}
static void a_ending(struct vcu_context *c)
{
    (void)c;
    strcat(said, "a-");
}
static void b_ending(struct vcu_context *c)
{
    (void)c;
    strcat(said, "b-");
}
static void b_gone(struct vcu_context *c)
{
    (void)c;
    strcat(said, "b.");
}
static bool a_notify(uint16_t type, uint64_t cookie, const uint8_t *data, uint32_t size)
{
    (void)cookie;
    (void)data;
    (void)size;
    strcat(said, "a?");
    return type == 1;
}
static bool b_notify(uint16_t type, uint64_t cookie, const uint8_t *data, uint32_t size)
{
    (void)type;
    (void)cookie;
    (void)data;
    (void)size;
    strcat(said, "b?");
    return false;
}
static void b_before(void)
{
    strcat(said, "<");
}
static void b_after(bool everything)
{
    strcat(said, everything ? ">>" : ">");
}

static const struct vcu_unit_ops a = {
    .connected = a_connected, .context_ending = a_ending, .notify = a_notify};
static const struct vcu_unit_ops b = {.connected = b_connected,
                                      .context_ending = b_ending,
                                      .context_gone = b_gone,
                                      .notify = b_notify,
                                      .before_work = b_before,
                                      .after_wait = b_after};
static const struct vcu_unit_ops *const both[] = {&a, &b, NULL};
static const struct vcu_unit_ops *const none[] = {NULL};

static void expect(const char *want)
{
    assert_string_equal(said, want);
    said[0] = '\0';
}

static void test_order(void **state)
{
    (void)state;
    vcu_units_set(both);
    vcu_units_context_ending(NULL);
    expect("a-b-");
    vcu_units_context_gone(NULL); /* a has no such member */
    expect("b.");
    vcu_units_before_work();
    vcu_units_after_wait(false);
    vcu_units_after_wait(true);
    expect("<>>>");
}

static void test_connected(void **state)
{
    (void)state;
    vcu_units_set(both);
    first_result = CUDA_SUCCESS;
    assert_int_equal(vcu_units_connected(), CUDA_SUCCESS);
    expect("ab");
    first_result = CUDA_ERROR_OUT_OF_MEMORY; /* later units are not called */
    assert_int_equal(vcu_units_connected(), CUDA_ERROR_OUT_OF_MEMORY);
    expect("a");
}

static void test_notify(void **state)
{
    (void)state;
    vcu_units_set(both);
    vcu_units_notify(1, 0, NULL, 0); /* a's */
    expect("a?");
    vcu_units_notify(99, 0, NULL, 0); /* of no unit: from a newer worker */
    expect("a?b?");
}

static void test_none(void **state)
{
    (void)state;
    vcu_units_set(none);
    assert_int_equal(vcu_units_connected(), CUDA_SUCCESS);
    vcu_units_context_ending(NULL);
    vcu_units_notify(1, 0, NULL, 0);
    assert_int_equal(vcu_units_capture_copy("cuMemcpyAsync", NULL), CUDA_ERROR_NOT_SUPPORTED);
    assert_false(vcu_units_watch());
    expect("");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_connected),
        cmocka_unit_test(test_notify),
        cmocka_unit_test(test_none),
    };

    return cmocka_run_group_tests_name("units", tests, NULL, NULL);
}
