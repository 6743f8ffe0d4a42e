/* SPDX-License-Identifier: MIT */
/* Parts that need no worker: trace lines, error names, ranges, copy forms, and a missing worker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../core/core.h"
#include "../memory/memory.h"

#include "vgp_newer.h"

static char trace_path[] = "/tmp/vcu_trace_XXXXXX";

static void read_trace(char *text, size_t cap)
{
    FILE *file = fopen(trace_path, "r");
    size_t n;

    assert_non_null(file);
    n = fread(text, 1, cap - 1, file);
    text[n] = '\0';
    fclose(file);
    assert_int_equal(truncate(trace_path, 0), 0);
}

static void test_no_worker(void **state)
{
    int n = 5;
    CUcontext ctx;

    (void)state;
    setenv("VGPU_SOCKET", "/nonexistent/vgpu.sock", 1);
    assert_int_equal(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
    assert_int_equal(cuCtxGetCurrent(&ctx), CUDA_ERROR_NOT_INITIALIZED);
    assert_int_equal(cuDriverGetVersion(&n), CUDA_SUCCESS);
    assert_int_equal(n, VGP_API_VERSION);
    assert_int_equal(cuDriverGetVersion(NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuInit(1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuInit(0), CUDA_ERROR_NO_DEVICE);
    assert_int_equal(cuInit(0), CUDA_ERROR_NO_DEVICE); /* may be tried again */
    assert_int_equal(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
}

static void test_fork_before_init(void **state)
{
    int status;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) /* nothing was connected: the child may try as its own process */
        _exit(cuInit(0) == CUDA_ERROR_NO_DEVICE ? 0 : 1);
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

static void test_trace_lines(void **state)
{
    char text[8192];
    int n;
    const char *missing = "/nonexistent/vgpu.sock";

    (void)state;
    close(mkstemp(trace_path));
    setenv("VGPU_TRACE", trace_path, 1);
    lnk_trace_init(&lnk_trace_results);
    cuDriverGetVersion(&n);
    cuInit(0);
    read_trace(text, sizeof(text));
    assert_non_null(strstr(text, "cuDriverGetVersion("));
    assert_non_null(strstr(text, ") = CUDA_SUCCESS "));
    assert_non_null(strstr(text, " us\n"));
    assert_non_null(strstr(text, "why cuInit: "));
    assert_non_null(strstr(text, missing)); /* the places tried */
    assert_non_null(strstr(text, "cuInit("));
    assert_non_null(strstr(text, ") = CUDA_ERROR_NO_DEVICE "));
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        assert_memory_equal(line, "vgpu[", 5);

    lnk_trace_on = LNK_TRACE_REFUSALS;
    cuDriverGetVersion(&n);
    cuInit(0);
    read_trace(text, sizeof(text));
    assert_null(strstr(text, "cuDriverGetVersion"));
    assert_non_null(strstr(text, "CUDA_ERROR_NO_DEVICE"));

    lnk_trace_on = LNK_TRACE_OFF;
    cuInit(0);
    read_trace(text, sizeof(text));
    assert_string_equal(text, "");

    lnk_trace_on = LNK_TRACE_ALL; /* too long a line is cut, not overrun; the result survives */
    memset(text, 'x', 4000);
    text[4000] = '\0';
    vcu_trace_call("cuLong", CUDA_ERROR_INVALID_VALUE, 0, "%s", text);
    read_trace(text, sizeof(text));
    assert_true(strlen(text) < 2100);
    assert_non_null(strstr(text, "CUDA_ERROR_INVALID_VALUE"));
    lnk_trace_on = LNK_TRACE_OFF;
    unlink(trace_path);
}

/* Every byte of an argument reaches the reader of the JSON trace in printable form. */
static void test_trace_json(void **state)
{
    char path[] = "/tmp/vcu_json_XXXXXX", text[8192], longest[4000];
    ssize_t n;
    int fd = mkstemp(path);

    (void)state;
    setenv("VGPU_TRACE", "0", 1);
    setenv("VGPU_TRACE_JSON", path, 1);
    lnk_trace_init(&lnk_trace_results);
    vcu_trace_call("cuOdd", CUDA_ERROR_INVALID_VALUE, lnk_trace_now(), "%s", "a \"b\" \\ \n\xc3");
    lnk_why("cuOdd", "because of %d", 7);
    memset(longest, '"', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    vcu_trace_call("cuLong", CUDA_SUCCESS, lnk_trace_now(), "%s", longest);
    lnk_trace_on = LNK_TRACE_OFF;
    n = read(fd, text, sizeof(text) - 1);
    assert_true(n > 0);
    text[n] = '\0';
    assert_non_null(strstr(text, "\"call\":\"cuOdd\",\"args\":\"a \\\"b\\\" \\\\ \\u000a\\u00c3\","
                                 "\"result\":\"CUDA_ERROR_INVALID_VALUE\",\"code\":1,\"us\":"));
    assert_non_null(strstr(text, "{\"type\":\"why\",\"time\":"));
    assert_non_null(strstr(text, "\"call\":\"cuOdd\",\"text\":\"because of 7\"}\n"));
    assert_non_null(strstr(text, "...\",\"result\":\"CUDA_SUCCESS\",\"code\":0,\"us\":"));
    assert_memory_equal(text + n - 2, "}\n", 2);
    close(fd);
    unlink(path);
    unsetenv("VGPU_TRACE_JSON");
}

/* Every code of cuda.h has its name. */
static void test_error_names(void **state)
{
    const char *home = getenv("CUDA_HOME");
    char command[512], line[256];
    FILE *list;
    int rows = 0;
    const char *s;

    (void)state;
    snprintf(command, sizeof(command),
             "sed -n '/typedef enum cudaError_enum/,/} CUresult/p' %s/include/cuda.h | "
             "grep -oE '^ *CUDA_[A-Z0-9_]+ *= *[0-9]+' | tr -d ' '",
             home != NULL ? home : "/usr/local/cuda");
    list = popen(command, "r");
    assert_non_null(list);
    while (fgets(line, sizeof(line), list) != NULL) {
        char *value = strchr(line, '=');

        assert_non_null(value);
        *value++ = '\0';
        assert_int_equal(cuGetErrorName((CUresult)atoi(value), &s), CUDA_SUCCESS);
        assert_string_equal(s, line);
        assert_int_equal(cuGetErrorString((CUresult)atoi(value), &s), CUDA_SUCCESS);
        assert_true(strlen(s) > 3);
        rows++;
    }
    pclose(list);
    assert_true(rows > 90);
    assert_int_equal(cuGetErrorName((CUresult)12345, &s), CUDA_ERROR_INVALID_VALUE);
    assert_null(s);
    assert_int_equal(cuGetErrorName(CUDA_SUCCESS, NULL), CUDA_ERROR_INVALID_VALUE);
}

static bool is_odd(const struct vcu_range *range, void *arg)
{
    (void)arg;
    return (range->start / 0x1000) % 2 == 1;
}

static bool every(const struct vcu_range *range, void *arg)
{
    (void)range;
    (void)arg;
    return true;
}

static void test_ranges(void **state)
{
    struct vcu_range_set set = VCU_RANGE_SET_INIT;
    struct vcu_range r;

    (void)state;
    for (uint64_t i = 1; i <= 100; i++)
        assert_true(vcu_range_add(&set, i * 0x1000, 0x800, (void *)(uintptr_t)i));
    assert_false(vcu_range_add(&set, 0x1700, 0x200, NULL)); /* overlaps */
    assert_false(vcu_range_add(&set, 0x9000, 0, NULL));
    assert_false(vcu_range_add(&set, UINT64_MAX - 4, 10, NULL));
    assert_true(vcu_range_find(&set, 0x5000, &r));
    assert_int_equal((uintptr_t)r.data, 5);
    assert_true(vcu_range_find(&set, 0x57ff, &r));
    assert_false(vcu_range_find(&set, 0x5800, &r));
    assert_false(vcu_range_find(&set, 0x4fff, &r));
    assert_false(vcu_range_remove(&set, 0x5004, &r)); /* not its start */
    assert_true(vcu_range_remove(&set, 0x5000, &r));
    assert_false(vcu_range_find(&set, 0x5000, &r));
    vcu_range_remove_if(&set, is_odd, NULL);
    assert_false(vcu_range_find(&set, 0x7000, &r));
    assert_true(vcu_range_find(&set, 0x8000, &r));
    vcu_range_remove_if(&set, every, NULL);
    assert_null(set.tree.root);
}

struct hammer {
    struct vcu_range_set *set;
    uint64_t base;
    unsigned bad;
};

static bool count_data(const struct vcu_range *range, void *arg)
{
    *(uint64_t *)arg += *(uint64_t *)range->data;
    return true;
}

static bool free_data(const struct vcu_range *range, void *arg)
{
    (void)arg;
    free(range->data);
    return true;
}

/* Adds, reads and removes ranges of its own, which lie among those of the other threads. */
static void *hammer(void *arg)
{
    struct hammer *h = arg;

    for (unsigned round = 0; round < 40000; round++) {
        uint64_t at = h->base + round % 16 * 0x10000, sum = 0;
        uint64_t *data = malloc(sizeof(*data));

        *data = at;
        h->bad += !vcu_range_add(h->set, at, 0x1000, data);
        h->bad += !vcu_range_look(h->set, at + 0xfff, count_data, &sum) || sum != at;
        for (unsigned other = 0; other < 8; other++) /* may be there or not; is whole if it is */
            vcu_range_look(h->set, at - h->base + 0x1000 * (other + 1), count_data, &sum);
        h->bad += !vcu_range_edit(h->set, at, free_data, NULL);
    }
    return NULL;
}

static void test_ranges_threads(void **state)
{
    struct vcu_range_set set = VCU_RANGE_SET_INIT;
    struct hammer h[8];
    pthread_t thread[8];

    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        h[i] = (struct hammer){&set, 0x1000 * (uint64_t)(i + 1), 0};
        assert_int_equal(pthread_create(&thread[i], NULL, hammer, &h[i]), 0);
    }
    for (unsigned i = 0; i < 8; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(h[i].bad, 0);
    }
    assert_null(set.tree.root);
}

static void test_copy_forms(void **state)
{
    struct vcu_copy linear = {
        .dst = {true, 1, 100, 20}, .src = {false, 1, 100, 20}, .width = 100, .height = 20, .depth = 3};
    struct vcu_copy rows = {
        .dst = {true, 1, 128, 20}, .src = {false, 1, 100, 20}, .width = 100, .height = 20, .depth = 3};
    struct vcu_copy planes = {
        .dst = {true, 1, 100, 25}, .src = {false, 1, 100, 20}, .width = 100, .height = 20, .depth = 3};

    (void)state;
    vcu_copy_simplify(&linear);
    assert_int_equal(linear.width, 6000);
    assert_int_equal(linear.height * linear.depth, 1);
    vcu_copy_simplify(&rows);
    assert_int_equal(rows.width, 100);
    assert_int_equal(rows.height, 60);
    assert_int_equal(rows.depth, 1);
    vcu_copy_simplify(&planes);
    assert_int_equal(planes.height, 20);
    assert_int_equal(planes.depth, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_worker),   cmocka_unit_test(test_fork_before_init),
        cmocka_unit_test(test_trace_lines), cmocka_unit_test(test_trace_json),
        cmocka_unit_test(test_error_names), cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_copy_forms),  cmocka_unit_test(test_ranges_threads),
    };

    return cmocka_run_group_tests_name("local", tests, NULL, NULL);
}
