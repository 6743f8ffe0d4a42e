/* SPDX-License-Identifier: MIT */
/* Which caller sees which capability (vcu_caller.c). Needs test/libcublas.so.0 beside the program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core.h"

typedef CUresult attribute_fn(int *pi, CUdevice_attribute attrib, CUdevice dev);
typedef CUresult capability_fn(int *major, int *minor, CUdevice dev);

static CUresult (*lib_attribute)(attribute_fn *, int *, int, CUdevice);
static CUresult (*lib_capability)(capability_fn *, int *, int *, CUdevice);

/* Pretends to be connected to a worker with one device of capability 8.0. */
static int setup(void **state)
{
    char path[PATH_MAX], lib[PATH_MAX + 32];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    void *dl;

    (void)state;
    if (n < 0)
        return -1;
    path[n] = '\0';
    snprintf(lib, sizeof(lib), "%s/libcublas.so.0", dirname(path));
    dl = dlopen(lib, RTLD_NOW);
    if (!dl)
        return -1;
    *(void **)&lib_attribute = dlsym(dl, "ask_attribute");
    *(void **)&lib_capability = dlsym(dl, "ask_capability");
    vcu.devices[0].attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 8;
    vcu.devices[0].attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR] = 0;
    vcu.devices[0].attributes[CU_DEVICE_ATTRIBUTE_WARP_SIZE] = 32;
    vcu.device_count = 1;
    atomic_store(&vcu.state, VCU_READY);
    return lib_attribute && lib_capability ? 0 : -1;
}

static void ask(int *from_lib, int *from_here)
{
    int a, b, c, d;

    assert_int_equal(lib_attribute(cuDeviceGetAttribute, &a, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0),
                     CUDA_SUCCESS);
    assert_int_equal(lib_attribute(cuDeviceGetAttribute, &b, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0),
                     CUDA_SUCCESS);
    *from_lib = 10 * a + b;
    assert_int_equal(lib_capability(cuDeviceComputeCapability, &c, &d, 0), CUDA_SUCCESS);
    assert_int_equal(*from_lib, 10 * c + d);
    cuDeviceGetAttribute(&a, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
    cuDeviceGetAttribute(&b, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
    *from_here = 10 * a + b;
    assert_int_equal(cuDeviceComputeCapability(&c, &d, 0), CUDA_SUCCESS);
    assert_int_equal(*from_here, 10 * c + d);
}

static void test_library_told_its_own(void **state)
{
    int lib, here, warp = 0;

    (void)state;
    atomic_store(&vcu.devices[0].library_cc, 130);
    ask(&lib, &here);
    assert_int_equal(lib, 130);
    assert_int_equal(here, 80);
    /* nothing but the capability differs, and errors come first */
    assert_int_equal(lib_attribute(cuDeviceGetAttribute, &warp, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0),
                     CUDA_SUCCESS);
    assert_int_equal(warp, 32);
    assert_int_equal(lib_attribute(cuDeviceGetAttribute, &warp, 75, 1), CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(lib_attribute(cuDeviceGetAttribute, NULL, 75, 0), CUDA_ERROR_INVALID_VALUE);
}

static void test_none_announced(void **state)
{
    int lib, here;

    (void)state;
    atomic_store(&vcu.devices[0].library_cc, 0);
    ask(&lib, &here);
    assert_int_equal(lib, 80);
    assert_int_equal(here, 80);
}

static void test_names(void **state)
{
    (void)state;
    assert_true(vcu_caller_is_library("/usr/lib/libcublas.so.13"));
    assert_true(vcu_caller_is_library("libcublasLt.so.13.0.0.19"));
    assert_true(vcu_caller_is_library("/x/libcublas.so"));
    assert_false(vcu_caller_is_library("/x/libcublas.so.13/libfoo.so"));
    assert_false(vcu_caller_is_library("/x/mylibcublas.so"));
    assert_false(vcu_caller_is_library("/x/libcublas.sox"));
    assert_false(vcu_caller_is_library("/x/libcublasXt.so"));
    assert_false(vcu_caller_is_library("/x/libggml-cuda.so"));
    assert_false(vcu_caller_is_library(""));
    assert_false(vcu_caller_is_library(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_library_told_its_own),
        cmocka_unit_test(test_none_announced),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
