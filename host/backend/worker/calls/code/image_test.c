/* SPDX-License-Identifier: MIT */
/* The linker is given no more bytes of an image than there are where it is told that they are. */
#define _GNU_SOURCE
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "calls/calls.h"

#define FATBIN_MAGIC 0xba55ed50u
#define BODY 65536u
#define ONE (16u + BODY)

/* n fat binaries without entries, one after the other, and a NUL. */
static uint8_t *fat_binaries(unsigned n)
{
    const struct {
        uint32_t magic;
        uint16_t version, head;
        uint64_t body;
    } header = {FATBIN_MAGIC, 1, 16, BODY};
    uint8_t *p = calloc(n, ONE + 1);

    for (unsigned i = 0; p && i < n; i++)
        memcpy(p + (size_t)i * ONE, &header, sizeof(header));
    return p;
}

static void test_sizes(void **state)
{
    struct wrk_worker w = {0};
    struct wrk_call c = {.w = &w};

    (void)state;
    for (unsigned n = 1; n <= 3; n++) {
        for (int blob = 0; blob < 2; blob++) {
            uint8_t *const sent = fat_binaries(n);
            const void *image = sent;
            const uint8_t *end;
            uint64_t size = (uint64_t)n * ONE;
            void *copy = NULL;

            assert_non_null(sent);
            assert_int_equal(wrk_image_take(&c, &image, &size, blob, &copy), CUDA_SUCCESS);
            end = copy ? (uint8_t *)copy + malloc_usable_size(copy) : sent + (uint64_t)n * ONE;
            assert_true(size <= (uint64_t)(end - (const uint8_t *)image));
            assert_true(size >= 32); /* the pointers, at least */
            if (n == 1)
                assert_int_equal(size, ONE);
            free(copy);
            free(sent);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
