/* SPDX-License-Identifier: MIT */
/* cuGetProcAddress: every request that libcudart 13.0 makes gets the export that it means. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../protocol/vgp_guest_rt.h"
#include "../core/core.h"

/* Names that need a display library's header: not in the table of cudaTypedefs.h's other headers.
 */
static const char *name_of(const void *fn)
{
    for (unsigned i = 0; i < vgp_proc_count; i++) {
        if (vgp_procs[i].fn == fn)
            return vgp_procs[i].symbol;
    }
    return NULL;
}

static bool is_twin_of(const void *fn, const char *base_symbol)
{
    for (unsigned i = 0; i < vgp_proc_count; i++) {
        if (vgp_procs[i].fn_per_thread == fn && strcmp(vgp_procs[i].symbol, base_symbol) == 0)
            return true;
    }
    return false;
}

static void test_cudart_requests(void **state)
{
    FILE *file = fopen("testdata/cudart13_getprocaddress.tsv", "r");
    char line[512];
    int rows = 0;

    (void)state;
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        char *field[5] = {0}, *p = line;
        void *fn = (void *)1;
        CUresult r;

        if (line[0] == '#')
            continue;
        line[strcspn(line, "\n")] = '\0';
        for (int i = 0; i < 5 && p != NULL; i++)
            field[i] = strsep(&p, "\t");
        r = cuGetProcAddress_v2(field[1], &fn, atoi(field[2]), (cuuint64_t)atoi(field[3]), NULL);
        rows++;
        if (field[1][0] == '\0') { /* the probe: any error but 34 */
            assert_int_equal(r, CUDA_ERROR_NOT_FOUND);
            assert_null(fn);
            continue;
        }
        if (r != CUDA_SUCCESS)
            fail_msg("%s@%s: %d", field[1], field[2], r);
        if (atoi(field[3]) == 2 && (strstr(field[4], "_ptsz") || strstr(field[4], "_ptds"))) {
            char base[128];

            snprintf(base, sizeof(base), "%.*s", (int)strlen(field[4]) - 5, field[4]);
            if (!is_twin_of(fn, base))
                fail_msg("%s@%s flags 2: not the per-thread variant of %s", field[1], field[2], base);
        } else if (name_of(fn) == NULL || strcmp(name_of(fn), field[4]) != 0) {
            fail_msg("%s@%s: %s, expected %s", field[1], field[2], name_of(fn), field[4]);
        }
    }
    fclose(file);
    assert_int_equal(rows, 440);
}

static void test_versions(void **state)
{
    CUdriverProcAddressQueryResult status = 77;
    void *fn;

    (void)state;
    assert_int_equal(cuGetProcAddress_v2("cuMemAlloc", &fn, 3020, 0, &status), CUDA_SUCCESS);
    assert_ptr_equal(fn, (void *)cuMemAlloc_v2);
    assert_int_equal(status, CU_GET_PROC_ADDRESS_SUCCESS);
    assert_int_equal(cuGetProcAddress_v2("cuMemAlloc", &fn, 2000, 0, &status), CUDA_SUCCESS);
    assert_ptr_equal(fn, (void *)cuMemAlloc);
    assert_int_equal(cuGetProcAddress_v2("cuMemAlloc", &fn, 99999, 0, &status), CUDA_SUCCESS);
    assert_ptr_equal(fn, (void *)cuMemAlloc_v2);
    assert_int_equal(cuGetProcAddress_v2("cuMemAlloc", &fn, 1000, 0, &status), CUDA_SUCCESS);
    assert_int_equal(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    assert_null(fn);
    assert_int_equal(cuGetProcAddress_v2("cuNoSuchCall", &fn, 13000, 0, &status), CUDA_SUCCESS);
    assert_null(fn);
    assert_int_equal(cuGetProcAddress_v2("cuNoSuchCall", &fn, 13000, 0, NULL), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    assert_int_equal(cuGetProcAddress("cuGetProcAddress", &fn, 11030, 0), CUDA_SUCCESS);
    assert_ptr_equal(fn, (void *)cuGetProcAddress);
    assert_int_equal(cuGetProcAddress("cuGetProcAddress", &fn, 12000, 0), CUDA_SUCCESS);
    assert_ptr_equal(fn, (void *)cuGetProcAddress_v2);
}

static void test_streams(void **state)
{
    void *fn;

    (void)state;
    assert_int_equal(
        cuGetProcAddress("cuStreamSynchronize", &fn, 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
        CUDA_SUCCESS);
    assert_ptr_equal(fn, (void *)cuStreamSynchronize_ptsz);
    assert_int_equal(cuGetProcAddress("cuStreamSynchronize", &fn, 13000, CU_GET_PROC_ADDRESS_LEGACY_STREAM),
                     CUDA_SUCCESS);
    assert_ptr_equal(fn, (void *)cuStreamSynchronize);
    assert_int_equal(
        cuGetProcAddress("cuMemAlloc", &fn, 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
        CUDA_SUCCESS); /* no per-thread variant: the plain one */
    assert_ptr_equal(fn, (void *)cuMemAlloc_v2);
}

static void test_bad_arguments(void **state)
{
    void *fn;

    (void)state;
    assert_int_equal(cuGetProcAddress(NULL, &fn, 13000, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGetProcAddress("cuInit", NULL, 13000, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGetProcAddress("cuInit", &fn, 13000, 64), CUDA_ERROR_INVALID_VALUE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cudart_requests),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_bad_arguments),
    };

    return cmocka_run_group_tests_name("getproc", tests, NULL, NULL);
}
