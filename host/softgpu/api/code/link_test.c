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

/* A broken input is refused where it is added (the manual's errors of cuLinkAddData), with a
   line in the log. */
void test_linker_inputs(void **state)
{
#define TOP ".target sm_80\n.address_size 64\n.visible .entry k()\n{\n"
    static const struct {
        const char *text, *log;
        CUresult want;
    } bad[] = {
        {".version 7.0\n" TOP "bogus; ret;\n}\n", "bogus", CUDA_ERROR_INVALID_PTX},
        {".version 7.0\n" TOP "add.s32 %r1, %r2, %r3; ret;\n}\n", "%r1", CUDA_ERROR_INVALID_PTX},
        {".version 99.0\n" TOP "ret;\n}\n", "99.0", CUDA_ERROR_UNSUPPORTED_PTX_VERSION},
    };
    CUcontext c = ctx_begin();
    CUlinkState l;
    size_t size;
    void *image;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char log[512] = "";
        CUjit_option option[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
        void *value[] = {log, (void *)sizeof(log)};

        OK(cuLinkCreate_v2(2, option, value, &l));
        assert_int_equal(cuLinkAddData_v2(l, CU_JIT_INPUT_PTX, (void *)(uintptr_t)bad[i].text,
                                          strlen(bad[i].text) + 1, "x", 0, NULL, NULL),
                         bad[i].want);
        assert_non_null(strstr(log, bad[i].log));
        IS(cuLinkComplete(l, &image, &size), INVALID_VALUE);
        OK(cuLinkDestroy(l));
    }
    ctx_end(c);
}

/* The inputs of one link have together what one image may have. */
void test_linker_sum(void **state)
{
    static const char head[] = ".version 8.0\n.target sm_80\n.address_size 64\n";
    const size_t n = ((size_t)128 << 20) + 4096; /* half of that, and a little */
    char log[512] = "", *text = malloc(n);
    CUjit_option option[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *value[] = {log, (void *)sizeof(log)};
    CUcontext c = ctx_begin();
    CUlinkState l;

    (void)state;
    assert_non_null(text);
    memset(text, '\n', n);
    memcpy(text, head, sizeof(head) - 1);
    text[n - 1] = '\0';
    OK(cuLinkCreate_v2(2, option, value, &l));
    OK(cuLinkAddData_v2(l, CU_JIT_INPUT_PTX, text, n, "x", 0, NULL, NULL));
    IS(cuLinkAddData_v2(l, CU_JIT_INPUT_PTX, text, n, "y", 0, NULL, NULL), INVALID_IMAGE);
    assert_non_null(strstr(log, "all inputs together"));
    OK(cuLinkAddData_v2(l, CU_JIT_INPUT_PTX, (void *)(uintptr_t)test_ptx, strlen(test_ptx) + 1, "z", 0, NULL,
                        NULL));
    OK(cuLinkDestroy(l));
    free(text);
    ctx_end(c);
}
