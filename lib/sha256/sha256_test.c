/* SPDX-License-Identifier: MIT */
/* It includes sha256.c, whose two ways to compute a block it compares. */
#include "sha256.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const char *hex(const void *data, size_t n)
{
    static char text[2 * SHA_256_BYTES + 1];
    uint8_t out[SHA_256_BYTES];

    sha_256(data, n, out);
    for (unsigned i = 0; i < SHA_256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", out[i]);
    return text;
}

/* The examples that NIST gives with FIPS 180-4. */
static void test_vectors(void **state)
{
    static const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    char *million = malloc(1000000);

    (void)state;
    assert_string_equal(hex("", 0), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_string_equal(hex("abc", 3), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_string_equal(hex(two, sizeof(two) - 1),
                        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_non_null(million);
    memset(million, 'a', 1000000);
    assert_string_equal(hex(million, 1000000),
                        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}

/* In pieces of any length it is the same. */
static void test_pieces(void **state)
{
    uint8_t bytes[300], whole[SHA_256_BYTES], out[SHA_256_BYTES];

    (void)state;
    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 7);
    for (size_t n = 0; n <= sizeof(bytes); n++) {
        sha_256(bytes, n, whole);
        for (size_t piece = 1; piece < 130; piece += 3) {
            struct sha_256 s;

            sha_256_begin(&s);
            for (size_t at = 0; at < n; at += piece)
                sha_256_add(&s, bytes + at, n - at < piece ? n - at : piece);
            sha_256_end(&s, out);
            assert_memory_equal(out, whole, sizeof(out));
        }
    }
}

/* A processor's instructions say what the portable way says. */
static void test_both_ways(void **state)
{
#if defined(__x86_64__)
    uint8_t bytes[64 * 5];
    uint32_t seed = 1;

    (void)state;
    if (!has_instructions())
        skip();
    for (unsigned round = 0; round < 200; round++) {
        uint32_t a[8], b[8];

        for (unsigned i = 0; i < sizeof(bytes); i++)
            bytes[i] = (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24);
        memcpy(a, bytes, sizeof(a));
        memcpy(b, bytes, sizeof(b));
        add_portably(a, bytes, 1 + round % 5);
        add_by_instructions(b, bytes, 1 + round % 5);
        assert_memory_equal(a, b, sizeof(a));
    }
#else
    (void)state;
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_both_ways),
    };

    return cmocka_run_group_tests_name("sha256", tests, NULL, NULL);
}
