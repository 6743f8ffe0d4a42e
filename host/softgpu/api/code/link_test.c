/* SPDX-License-Identifier: MIT */
/* The linker, by the driver API. */
#include "api/api_test.h"

void test_linker(void **state)
{
    CUcontext c = ctx_begin();
    CUlinkState l;
    size_t size;
    void *image;
    CUmodule m;

    (void)state;
    OK(cuLinkCreate_v2(0, NULL, NULL, &l));
    IS(cuLinkComplete(l, &image, &size), INVALID_VALUE);
    OK(cuLinkAddData_v2(l, CU_JIT_INPUT_PTX, (void *)(uintptr_t)test_ptx, strlen(test_ptx) + 1, "x", 0, NULL,
                        NULL));
    OK(cuLinkComplete(l, &image, &size));
    OK(cuModuleLoadData(&m, image));
    IS(cuLinkAddData_v2(l, CU_JIT_INPUT_PTX, (void *)(uintptr_t)test_ptx, strlen(test_ptx) + 1, "y", 0, NULL,
                        NULL),
       INVALID_VALUE);
    OK(cuLinkDestroy(l));
    IS(cuLinkDestroy(l), INVALID_HANDLE);
    IS(cuLinkComplete(l, &image, &size), INVALID_HANDLE);
    ctx_end(c);
}
