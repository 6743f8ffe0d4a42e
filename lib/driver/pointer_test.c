/* SPDX-License-Identifier: MIT */
/* Attributes of pointers: which member each is, and what memory lacks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pointer.h"

static CUresult pointer_decompress(const struct cua_pointer *p, bool *capable)
{
    *capable = p->device == 1;
    return p->device == 2 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static void test_pointer(void **state)
{
    struct cua_pointer p = {
        .known = true, .address = 24, .base = 16, .size = 32, .on_device = 24, .device = 1};
    CUpointer_attribute asked[3] = {CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                    CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE};
    uint64_t host = UINT64_MAX, start = UINT64_MAX;
    uint8_t capable[5] = {0xee, 0xee, 0xee, 0xee, 0xee};
    int device = 0;
    void *out[3] = {&host, &device, capable};

    (void)state;
    p.decompress = pointer_decompress;
    assert_int_equal(cua_pointer_attribute(&p, &host, CU_POINTER_ATTRIBUTE_HOST_POINTER),
                     CUDA_ERROR_INVALID_VALUE);
    assert_true(host == 0); /* written all the same */
    assert_int_equal(cua_pointer_attributes(&p, 3, asked, out), CUDA_SUCCESS);
    assert_true(host == 0 && device == 1 && capable[0] == 1 && capable[3] == 0 && capable[4] == 0xee);
    p.device = 2; /* its driver fails */
    assert_int_equal(cua_pointer_attribute(&p, capable, asked[2]), CUDA_ERROR_UNKNOWN);
    assert_int_equal(cua_pointer_attributes(&p, 3, asked, out), CUDA_SUCCESS);
    assert_int_equal(capable[0], 0);
    p.known = false;
    assert_int_equal(cua_pointer_attributes(&p, 3, asked, out), CUDA_SUCCESS);
    assert_int_equal(device, -2);
    assert_int_equal(cua_pointer_attribute(&p, &start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR),
                     CUDA_ERROR_INVALID_VALUE);
    p.reserved = (struct cua_reserved){.base = 8, .size = 64}; /* nothing mapped at the address */
    assert_int_equal(cua_pointer_attribute(&p, &start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR),
                     CUDA_ERROR_INVALID_VALUE);
    assert_true(start == UINT64_MAX); /* not written */
    p.reserved.map_base = 16;
    p.reserved.map_size = 16;
    assert_int_equal(cua_pointer_attribute(&p, &start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR), CUDA_SUCCESS);
    assert_true(start == 8);
    assert_int_equal(cua_pointer_attribute(&p, &start, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR), CUDA_SUCCESS);
    assert_true(start == 16);
    p.known = p.no_access = true;
    p.on_device = 0;
    assert_int_equal(cua_pointer_attribute(&p, &start, CU_POINTER_ATTRIBUTE_DEVICE_POINTER),
                     CUDA_ERROR_INVALID_VALUE);
    assert_true(start == 0);
}

/* Each attribute is the member that it is named after: all differ. */
static void test_pointer_members(void **state)
{
    static const struct {
        CUpointer_attribute attribute;
        uint64_t known, reserved;
    } cases[] = {
        {CU_POINTER_ATTRIBUTE_CONTEXT, 1001, 1001},
        {CU_POINTER_ATTRIBUTE_DEVICE_POINTER, 1002, 1002},
        {CU_POINTER_ATTRIBUTE_HOST_POINTER, 1003, 1003},
        {CU_POINTER_ATTRIBUTE_BUFFER_ID, 1004, 1004},
        {CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, 1004, 1004},
        {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 1005, 2001},
        {CU_POINTER_ATTRIBUTE_RANGE_SIZE, 1006, 2002},
        {CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, 1005, 2003},
        {CU_POINTER_ATTRIBUTE_MAPPING_SIZE, 1006, 2004},
        {CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, 1007, 1007},
        {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 3, 3},
        {CU_POINTER_ATTRIBUTE_IS_MANAGED, 1, 1},
    };
    struct cua_pointer p = {.known = true,
                            .managed = true,
                            .context = 1001,
                            .on_device = 1002,
                            .address = 1003,
                            .id = 1004,
                            .base = 1005,
                            .size = 1006,
                            .pool = 1007,
                            .device = 3};

    (void)state;
    for (unsigned with = 0; with < 2; with++) {
        if (with)
            p.reserved =
                (struct cua_reserved){.base = 2001, .size = 2002, .map_base = 2003, .map_size = 2004};
        for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            uint64_t value = 0;

            assert_int_equal(cua_pointer_attribute(&p, &value, cases[i].attribute), CUDA_SUCCESS);
            assert_int_equal(value, with ? cases[i].reserved : cases[i].known);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pointer),
                                       cmocka_unit_test(test_pointer_members)};

    return cmocka_run_group_tests_name("pointer", tests, NULL, NULL);
}
