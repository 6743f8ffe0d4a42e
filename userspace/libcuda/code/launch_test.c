/* SPDX-License-Identifier: MIT */
/* Which launches are refused at once, at each limit; packing of parameters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "launch.h"

static int device[VCU_MAX_ATTRIBUTES] = {
    [CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024, [CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X] = 1024,
    [CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y] = 1024,       [CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z] = 64,
    [CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X] = 2147483647,  [CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y] = 65535,
    [CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z] = 65535,       [CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK] = 65536,
};

static struct vcu_func *make_func(void)
{
    struct vcu_func *f = calloc(1, sizeof(*f) + 8);

    f->attribute_count = 16;
    f->attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 512;
    f->attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = 49152;
    return f;
}

static void test_limits(void **state)
{
    static const struct {
        uint32_t grid[3], block[3], shared;
        CUresult expect;
    } rows[] = {
        {{1, 1, 1}, {1, 1, 1}, 0, CUDA_SUCCESS},
        {{0, 1, 1}, {1, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 0, 1}, {1, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 1, 0}, {1, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 1, 1}, {0, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 1, 1}, {1, 0, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 1, 1}, {1, 1, 0}, 0, CUDA_ERROR_INVALID_VALUE},
        {{2147483647, 1, 1}, {1, 1, 1}, 0, CUDA_SUCCESS},
        {{2147483648u, 1, 1}, {1, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 65535, 65535}, {1, 1, 1}, 0, CUDA_SUCCESS},
        {{1, 65536, 1}, {1, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 1, 65536}, {1, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 1, 1}, {511, 1, 1}, 0, CUDA_SUCCESS},
        {{1, 1, 1}, {512, 1, 1}, 0, CUDA_SUCCESS},
        {{1, 1, 1}, {1025, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 1, 1}, {1, 1, 64}, 0, CUDA_SUCCESS},
        {{1, 1, 1}, {1, 1, 65}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 1, 1}, {64, 64, 64}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 1, 1}, {1, 1, 1}, 49151, CUDA_SUCCESS},
        {{1, 1, 1}, {1, 1, 1}, 49152, CUDA_SUCCESS},
        {{1, 1, 1}, {1, 1, 1}, 49153, CUDA_ERROR_INVALID_VALUE},
        {{1, 1, 1}, {1, 1, 1}, UINT32_MAX, CUDA_ERROR_INVALID_VALUE},
    };
    struct vcu_func *f = make_func();

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct vcu_launch l = {.shared = rows[i].shared};
        const char *why = NULL;
        CUresult r;

        memcpy(l.grid, rows[i].grid, sizeof(l.grid));
        memcpy(l.block, rows[i].block, sizeof(l.block));
        r = vcu_launch_check(device, f, true, &l, &why);
        if (rows[i].expect != CUDA_ERROR_INVALID_VALUE || rows[i].shared != 0)
            assert_int_equal(r, rows[i].expect);
        else
            assert_int_equal(r, 9); /* cudaErrorInvalidConfiguration */
        r = vcu_launch_check(device, f, false, &l, &why);
        if (r != rows[i].expect)
            fail_msg("row %zu: %d, expected %d (%s)", i, r, rows[i].expect, why);
        assert_true((r != CUDA_SUCCESS) == (why[0] != '\0'));
    }
    free(f);
}

/* Too many threads for the registers there are, or for what the function's text says. */
static void test_registers(void **state)
{
    struct vcu_func *f = make_func();
    struct vcu_launch l = {.grid = {1, 1, 1}, .block = {513, 1, 1}};
    const char *why = NULL;

    (void)state;
    assert_int_equal(vcu_launch_check(device, f, true, &l, &why), CUDA_ERROR_INVALID_VALUE);
    assert_non_null(strstr(why, "launch bounds"));
    f->attributes[CU_FUNC_ATTRIBUTE_NUM_REGS] = 120; /* 17 warps of 32 threads: 65280 */
    assert_int_equal(vcu_launch_check(device, f, false, &l, &why), CUDA_ERROR_INVALID_VALUE);
    f->attributes[CU_FUNC_ATTRIBUTE_NUM_REGS] = 121;
    assert_int_equal(vcu_launch_check(device, f, false, &l, &why), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    l.block[0] = 512;
    assert_int_equal(vcu_launch_check(device, f, false, &l, &why), CUDA_SUCCESS);
    free(f);
}

static void test_pack(void **state)
{
    struct vcu_func *f = make_func();
    struct vcu_param layout[3] = {{0, 1}, {8, 8}, {16, 12}};
    char c = 'x';
    uint64_t v = 0x1122334455667788ull;
    struct {
        int a[3];
    } s = {{1, 2, 3}};
    void *params[3] = {&c, &v, &s}, *with_hole[3] = {&c, NULL, &s};
    uint8_t buffer[64];
    const void *data;
    uint32_t size;

    (void)state;
    f->params = layout;
    f->param_count = 3;
    f->param_bytes = 28;
    memset(buffer, 0xaa, sizeof(buffer));
    assert_int_equal(vcu_launch_pack(f, params, NULL, buffer, &data, &size), CUDA_SUCCESS);
    assert_int_equal(size, 28);
    assert_ptr_equal(data, buffer);
    assert_memory_equal(buffer, "x\0\0\0\0\0\0\0", 8);
    assert_memory_equal(buffer + 8, &v, 8);
    assert_memory_equal(buffer + 16, &s, 12);
    assert_int_equal(buffer[28], 0xaa);
    assert_int_equal(vcu_launch_pack(f, NULL, NULL, buffer, &data, &size), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(vcu_launch_pack(f, with_hole, NULL, buffer, &data, &size), CUDA_ERROR_INVALID_VALUE);
    f->param_count = 0;
    f->param_bytes = 0;
    assert_int_equal(vcu_launch_pack(f, NULL, NULL, buffer, &data, &size), CUDA_SUCCESS);
    assert_int_equal(size, 0);
    free(f);
}

static void test_extra(void **state)
{
    struct vcu_func *f = make_func();
    uint8_t packed[100], buffer[8];
    size_t n = sizeof(packed), huge = VCU_MAX_PARAM_BYTES + 1, most = VCU_MAX_PARAM_BYTES;
    size_t padded = sizeof(packed) + 4, cut = sizeof(packed) - 1;
    void *good[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &n,
                    CU_LAUNCH_PARAM_END};
    void *no_size[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed, CU_LAUNCH_PARAM_END};
    void *no_buffer[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &n, CU_LAUNCH_PARAM_END};
    void *unknown[] = {(void *)9, packed, CU_LAUNCH_PARAM_END};
    void *params[1] = {&n};
    const void *data;
    uint32_t size;

    (void)state;
    f->param_bytes = sizeof(packed);
    assert_int_equal(vcu_launch_pack(f, NULL, good, buffer, &data, &size), CUDA_SUCCESS);
    assert_ptr_equal(data, packed);
    assert_int_equal(size, 100);
    assert_int_equal(vcu_launch_pack(f, params, good, buffer, &data, &size), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(vcu_launch_pack(f, NULL, no_size, buffer, &data, &size), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(vcu_launch_pack(f, NULL, no_buffer, buffer, &data, &size), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(vcu_launch_pack(f, NULL, unknown, buffer, &data, &size), CUDA_ERROR_INVALID_VALUE);
    good[3] = &padded;
    assert_int_equal(vcu_launch_pack(f, NULL, good, buffer, &data, &size),
                     CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    good[3] = &cut;
    assert_int_equal(vcu_launch_pack(f, NULL, good, buffer, &data, &size),
                     CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    good[3] = &most;
    f->param_bytes = (uint32_t)most;
    assert_int_equal(vcu_launch_pack(f, NULL, good, buffer, &data, &size), CUDA_SUCCESS);
    good[3] = &huge;
    f->param_bytes = (uint32_t)huge;
    assert_int_equal(vcu_launch_pack(f, NULL, good, buffer, &data, &size),
                     CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_registers),
        cmocka_unit_test(test_pack),
        cmocka_unit_test(test_extra),
    };

    return cmocka_run_group_tests_name("launch", tests, NULL, NULL);
}
