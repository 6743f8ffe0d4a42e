/* SPDX-License-Identifier: MIT */
/* The error log: lines kept, dumped, called back; needs no worker, as calls fail without one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../../../../lib/testing/range.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../core.h"

static int seen;
static char last[300];
static pthread_t seen_on;

static void CUDA_CB on_line(void *data, CUlogLevel level, char *message, size_t length)
{
    int n;

    assert_ptr_equal(data, last);
    assert_int_equal(level, CU_LOG_LEVEL_ERROR);
    assert_int_equal(strlen(message), length);
    snprintf(last, sizeof(last), "%s", message);
    seen_on = pthread_self();
    seen++;
    assert_int_equal(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED); /* not logged again */
}

static void fail_once(void)
{
    int n;

    assert_int_equal(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
}

static unsigned newlines(const char *text)
{
    unsigned n = 0;

    for (; *text != '\0'; text++)
        n += *text == '\n';
    return n;
}

static void test_nothing(void **state)
{
    char text[64] = "x";
    size_t size = sizeof(text);
    CUlogIterator it = 7;

    (void)state;
    assert_int_equal(cuLogsCurrent(&it, 0), CUDA_SUCCESS);
    assert_int_equal(cuLogsDumpToMemory(&it, text, &size, 0), CUDA_SUCCESS);
    assert_int_equal(size, 0);
    assert_string_equal(text, "");
}

static void test_line(void **state)
{
    char text[1024];
    size_t size = sizeof(text);
    CUlogIterator it, again;

    (void)state;
    assert_int_equal(cuLogsCurrent(&it, 0), CUDA_SUCCESS);
    again = it;
    fail_once();
    assert_int_equal(cuLogsDumpToMemory(&it, text, &size, 0), CUDA_SUCCESS);
    assert_int_equal(size, strlen(text));
    assert_int_equal(newlines(text), 1);
    assert_non_null(strstr(text, "][CUDA][E][cuDeviceGetCount] "));
    assert_non_null(strstr(text, "returning 3 (CUDA_ERROR_NOT_INITIALIZED)"));
    assert_int_equal(it, again + 1);
    size = sizeof(text); /* it advanced: nothing more */
    assert_int_equal(cuLogsDumpToMemory(&it, text, &size, 0), CUDA_SUCCESS);
    assert_int_equal(size, 0);
    /* The reason of a refusal. */
    assert_int_equal(cuLogsDumpToMemory(NULL, NULL, &size, 0), CUDA_ERROR_INVALID_VALUE);
    size = sizeof(text);
    assert_int_equal(cuLogsDumpToMemory(&it, text, &size, 0), CUDA_SUCCESS);
    assert_non_null(strstr(text, "[cuLogsDumpToMemory] buffer cannot be NULL; returning 1 "));
    /* A reason belongs to the call that gave it. */
    vcu_logs_reason("cuMemAlloc", "not this one");
    fail_once();
    size = sizeof(text);
    assert_int_equal(cuLogsDumpToMemory(&it, text, &size, 0), CUDA_SUCCESS);
    assert_null(strstr(text, "not this one"));
}

static void test_wrong(void **state)
{
    char text[64];
    size_t size = sizeof(text);
    CUlogIterator it = 0, ahead;

    (void)state;
    assert_int_equal(cuLogsCurrent(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLogsCurrent(&it, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLogsDumpToMemory(&it, text, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLogsDumpToMemory(&it, text, &size, 4), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLogsDumpToFile(NULL, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLogsDumpToFile(NULL, "/nonexistent/log", 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLogsRegisterCallback(NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLogsUnregisterCallback(NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLogsUnregisterCallback((CUlogsCallbackHandle)text), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLogsCurrent(&ahead, 0), CUDA_SUCCESS);
    ahead += 5;
    assert_int_equal(cuLogsDumpToMemory(&ahead, text, &size, 0), CUDA_ERROR_INVALID_VALUE);
    size = 20; /* not one line */
    assert_int_equal(cuLogsDumpToMemory(NULL, text, &size, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(size, 0);
}

static void test_truncated(void **state)
{
    char *text = malloc(40000);
    size_t size = 40000;
    CUlogIterator it;

    (void)state;
    assert_int_equal(cuLogsCurrent(&it, 0), CUDA_SUCCESS);
    for (int i = 0; i < 130; i++)
        fail_once();
    assert_int_equal(cuLogsDumpToMemory(&it, text, &size, 0), CUDA_SUCCESS);
    assert_int_equal(newlines(text), 101);
    assert_non_null(strstr(text, "30 older messages are not here\n"));
    it -= 10; /* ten lines, room for about three */
    size = 400;
    assert_int_equal(cuLogsDumpToMemory(&it, text, &size, 0), CUDA_SUCCESS);
    assert_uint_in_range(newlines(text), 2, 9);
    assert_non_null(strstr(text, "older messages are not here\n"));
    assert_int_equal(size, strlen(text));
    assert_true(size < 400);
    free(text);
}

static void *fail_there(void *arg)
{
    (void)arg;
    fail_once();
    return NULL;
}

static void test_callback(void **state)
{
    CUlogsCallbackHandle h = NULL, h2 = NULL;
    pthread_t t;

    (void)state;
    seen = 0;
    assert_int_equal(cuLogsRegisterCallback(on_line, last, &h), CUDA_SUCCESS);
    assert_non_null(h);
    fail_once();
    assert_int_equal(seen, 1);
    assert_non_null(strstr(last, "[cuDeviceGetCount] "));
    assert_true(pthread_equal(seen_on, pthread_self()));
    assert_int_equal(pthread_create(&t, NULL, fail_there, NULL), 0);
    pthread_join(t, NULL);
    assert_int_equal(seen, 2);
    assert_true(pthread_equal(seen_on, t));
    assert_int_equal(cuLogsRegisterCallback(on_line, last, &h2), CUDA_SUCCESS);
    fail_once();
    assert_int_equal(seen, 4);
    assert_int_equal(cuLogsUnregisterCallback(h), CUDA_SUCCESS);
    fail_once();
    assert_int_equal(seen, 5);
    assert_int_equal(cuLogsUnregisterCallback(h2), CUDA_SUCCESS);
    fail_once();
    assert_int_equal(seen, 5);
}

static void test_file(void **state)
{
    char path[] = "/tmp/vcu_logs_XXXXXX", text[400] = "";
    CUlogIterator it;
    FILE *f;

    (void)state;
    close(mkstemp(path));
    assert_int_equal(cuLogsCurrent(&it, 0), CUDA_SUCCESS);
    fail_once();
    assert_int_equal(cuLogsDumpToFile(&it, path, 0), CUDA_SUCCESS);
    f = fopen(path, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof(text) - 1, f) > 0);
    fclose(f);
    unlink(path);
    assert_int_equal(newlines(text), 1);
    assert_non_null(strstr(text, "[cuDeviceGetCount] "));
}

/* CUDA_LOG_FILE is read when the library is loaded: by another process of this program. */
static void test_environment(void **state)
{
    char path[] = "/tmp/vcu_logs_XXXXXX", self[512], command[1100], text[400] = "";
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    FILE *f;

    (void)state;
    assert_true(n > 0);
    self[n] = '\0';
    close(mkstemp(path));
    snprintf(command, sizeof(command), "CUDA_LOG_FILE=%s VCU_LOGS_FAIL=1 %s", path, self);
    assert_int_equal(system(command), 0);
    f = fopen(path, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof(text) - 1, f) > 0);
    fclose(f);
    unlink(path);
    assert_non_null(strstr(text, "[cuDeviceGetCount] "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing),     cmocka_unit_test(test_line),     cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_truncated),   cmocka_unit_test(test_callback), cmocka_unit_test(test_file),
        cmocka_unit_test(test_environment),
    };
    int n;

    if (getenv("VCU_LOGS_FAIL") != NULL)
        return cuDeviceGetCount(&n) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
