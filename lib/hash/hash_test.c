/* SPDX-License-Identifier: MIT */
#include "hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* The example of the paper on SipHash (SipHash-2-4, appendix A). */
static void test_paper(void **state)
{
    struct hsh_key key;
    uint8_t bytes[16];

    (void)state;
    for (unsigned i = 0; i < 16; i++)
        bytes[i] = (uint8_t)i;
    memcpy(&key, bytes, 16);
    struct hsh_state s = hsh_begin(&key);

    hsh_add_last(&s, bytes, 15, 15, 2);
    assert_true(hsh_end(&s, 4) == 0xa129ca6149be45e5u);
}

static void test_differs(void **state)
{
    (void)state;
    assert_true(hsh_bytes(0, "name", 4) == hsh_bytes(0, "name", 4));
    assert_true(hsh_bytes(0, "name", 4) != hsh_bytes(1, "name", 4));
    assert_true(hsh_bytes(0, "name", 4) != hsh_bytes(0, "name\0", 5));
    assert_true(hsh_bytes(0, "a name of more bytes", 20) != hsh_bytes(0, "a name of more bytez", 20));
    assert_true(hsh_number(0, 1) != hsh_number(0, 2));
    assert_true(hsh_number(0, 1) != hsh_number(1, 0));
}

/* Another process has another secret. */
static void test_secret(void **state)
{
    const struct hsh_key was = *hsh_secret();
    const uint64_t name = hsh_bytes(0, "name", 4);

    (void)state;
    assert_true(was.k[0] | was.k[1]);
    hsh_draw();
    assert_memory_not_equal(&was, hsh_secret(), sizeof(was));
    assert_true(hsh_bytes(0, "name", 4) != name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paper),
        cmocka_unit_test(test_differs),
        cmocka_unit_test(test_secret),
    };

    return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
