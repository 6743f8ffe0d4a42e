/* SPDX-License-Identifier: MIT */
/* The output of the trace: each format, every byte value in a text, long texts, threads. A child
 * process makes each trace. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "trace.h"

#define THREADS 4
#define LINES 200

static char folder[] = "/tmp/vgpu-trace.XXXXXX", path[64], json[64];

static const char *name_of(int result)
{
    return result == 0 ? "GOOD" : result == 7 ? "BAD" : NULL;
}

static bool is_failure(const char *call, int result)
{
    return result != 0 && strcmp(call, "query") != 0;
}

static const struct lnk_trace_results results = {name_of, is_failure};

static void traced(const char *call, int result, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    lnk_trace_result(call, result, lnk_trace_now(), fmt, ap);
    va_end(ap);
}

/* What the body writes with these settings, as `file` has it; NULL: standard error. */
static char *written(const char *text, const char *machine, const char *file, void (*body)(void))
{
    static char out[1 << 20];
    int fd, status;
    ssize_t n;
    pid_t pid;

    unlink(path);
    unlink(json);
    pid = fork();
    if (pid == 0) {
        text ? setenv("VGPU_TRACE", text, 1) : unsetenv("VGPU_TRACE");
        machine ? setenv("VGPU_TRACE_JSON", machine, 1) : unsetenv("VGPU_TRACE_JSON");
        if (text == NULL || strcmp(text, path) != 0)
            dup2(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
        lnk_trace_init(&results);
        errno = EXDEV;
        body();
        _exit(errno == EXDEV ? 0 : 3); /* a program's errno stays */
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    fd = open(file == NULL ? path : file, O_RDONLY);
    assert_true(fd >= 0);
    n = read(fd, out, sizeof(out) - 1);
    assert_true(n >= 0);
    close(fd);
    out[n] = '\0';
    return out;
}

static unsigned count(const char *text, const char *what)
{
    unsigned n = 0;

    for (; (text = strstr(text, what)) != NULL; text++)
        n++;
    return n;
}

static void some(void)
{
    traced("call", 0, "%d, %s", 5, "x");
    traced("call", 7, "six");
    traced("query", 7, "seven");
    traced("call", 9, "eight");
    lnk_why("call", "because of %d", 3);
    for (unsigned i = 0; i < 3; i++) {
        lnk_trace_refusal("one", "no");
        lnk_trace_refusal("two", "never");
    }
    lnk_trace_ring(1, 2, 3, 4);
}

static void test_all(void **state)
{
    static const char *const forms[] = {"1", "stderr"};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        const char *out = written(forms[i], NULL, NULL, some);

        assert_int_equal(count(out, "\n"), 8);
        assert_int_equal(count(out, "] call(5, x) = GOOD "), 1);
        assert_int_equal(count(out, "] call(six) = BAD "), 1);
        assert_int_equal(count(out, "] query(seven) = BAD "), 1);
        assert_int_equal(count(out, "] call(eight) = 9 "), 1);
        assert_int_equal(count(out, "] why call: because of 3\n"), 1);
        assert_int_equal(count(out, "] one: not supported: no\n"), 1);
        assert_int_equal(count(out, "] two: not supported: never\n"), 1);
        assert_int_equal(count(out, "] end: records=1 round_trips=2 sleeps=3 doorbells=4\n"), 1);
    }
}

static void test_refusals(void **state)
{
    const char *out = written("refusals", NULL, NULL, some);

    (void)state;
    assert_int_equal(count(out, "\n"), 5);
    assert_int_equal(count(out, "GOOD") + count(out, "query") + count(out, "records"), 0);
    /* For machines all is written nevertheless, and the readable form stays as it is. */
    out = written("refusals", json, json, some);
    assert_int_equal(count(out, "\n"), 8);
    assert_int_equal(count(out, "\"type\":\"call\""), 4);
    assert_int_equal(count(out, "\"type\":\"ring\""), 1);
    out = written("refusals", json, NULL, some);
    assert_int_equal(count(out, "\n"), 5);
    assert_int_equal(count(written(NULL, json, NULL, some), "\n"), 0);
}

static void test_off(void **state)
{
    static const char *const forms[] = {NULL, "", "0"};

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        assert_string_equal(written(forms[i], forms[i] != NULL && *forms[i] == '\0' ? "" : NULL, NULL, some),
                            "");
}

/* Each process appends to its file; without a file the trace goes to stderr, after the reason. */
static void test_files(void **state)
{
    char pattern[96], own[192], *at;

    (void)state;
    snprintf(pattern, sizeof(pattern), "%s/%%p-%%p%%.txt", folder);
    written(pattern, NULL, NULL, some);
    snprintf(own, sizeof(own), "cd %s && ls *-*%%.txt", folder);
    FILE *f = popen(own, "r");
    assert_non_null(f);
    at = fgets(pattern, sizeof(pattern), f);
    assert_non_null(at);
    pclose(f);
    unsigned long a = strtoul(at, &at, 10), b = strtoul(at + 1, &at, 10);
    assert_true(a == b && a > 1);
    assert_string_equal(at, "%.txt\n");
    pattern[strcspn(pattern, "\n")] = '\0';
    snprintf(own, sizeof(own), "%s/%s", folder, pattern);
    assert_int_equal(count(written(own, NULL, own, some), "\n"), 16);
    unlink(own);
    at = written("/nowhere/trace", "/nowhere/json", NULL, some);
    assert_int_equal(count(at, "cannot open /nowhere/trace: No such file"), 1);
    assert_int_equal(count(at, "cannot open /nowhere/json: No such file"), 1);
    assert_int_equal(count(at, "\n"), 10);
}

static char every[256];

static void bytes(void)
{
    for (unsigned i = 1; i < 256; i++)
        every[i - 1] = (char)i;
    traced("call", 0, "%s", every);
}

/* JSON's strings: quotes and backslashes escaped, all else that is not printable ASCII by its number. */
static void test_every_byte(void **state)
{
    const char *out = written(NULL, json, json, bytes), *at = strstr(out, "\"args\":\"");
    char want[8];

    (void)state;
    assert_non_null(at);
    at += strlen("\"args\":\"");
    for (unsigned i = 1; i < 256; i++) {
        if (i == '"' || i == '\\')
            snprintf(want, sizeof(want), "\\%c", i);
        else if (i >= 0x20 && i < 0x7f)
            snprintf(want, sizeof(want), "%c", i);
        else
            snprintf(want, sizeof(want), "\\u%04x", i);
        assert_memory_equal(at, want, strlen(want));
        at += strlen(want);
    }
    assert_memory_equal(
        at, "\",\"result\":\"GOOD\",\"code\":0,\"us\":", strlen("\",\"result\":\"GOOD\",\"code\":0,\"us\":"));
}

/* What the trace cannot write is lost, and the program does not notice. */
static void test_full(void **state)
{
    (void)state;
    assert_string_equal(written("/dev/full", "/dev/full", NULL, some), "");
}

static size_t length;
static char fill;

static void longer(void)
{
    char *text = malloc(length + 1);

    memset(text, fill, length);
    text[length] = '\0';
    traced(
        "call_of_a_name_that_is_very_much_longer_than_any_other_of_the_interface_and_takes_more_than_half_of_what_is_kept_for_the_"
        "result_so_that_with_arguments_as_long_as_they_may_be_the_line_has_to_be_cut_before_the_result_of_the_call",
        7, "%s", text);
    lnk_why("call", "%s", text);
    free(text);
}

/* A text of any length: a line of at most 2048 bytes, whose result is there; JSON stays JSON. */
static void test_lengths(void **state)
{
    (void)state;
    for (fill = 'a'; fill != 0; fill = fill == 'a' ? '"' : fill == '"' ? '\x80' : 0) {
        for (length = 250; length < 2600; length += length < 1700 ? 50 : 7) {
            char *out = written("1", json, NULL, longer), *end = strchr(out, '\n');

            assert_non_null(end);
            assert_true(end - out < 2048 && strlen(end + 1) <= 2048);
            *end = '\0';
            assert_int_equal(count(out, ") = BAD "), 1);
            assert_string_equal(end - 3, " us");
            assert_int_equal(count(end + 1, "\n"), 1);
            out = written("1", json, json, longer);
            for (unsigned i = 0; i < 2; i++, out = end + 1) {
                end = strchr(out, '\n');
                assert_non_null(end);
                assert_true(end - out < 2048 && end[-1] == '}');
                *end = '\0';
                assert_int_equal(
                    count(out, i == 0 ? "\",\"result\":\"BAD\",\"code\":7,\"us\":" : ",\"text\":\""), 1);
                if (i == 1)
                    assert_int_equal(end[-2], '"');
            }
        }
    }
}

static void *lines(void *arg)
{
    for (unsigned i = 0; i < LINES; i++)
        traced("call", 0, "%s%0500u", (const char *)arg, i);
    return NULL;
}

static void threads(void)
{
    static const char *const names[THREADS] = {"a", "b", "c", "d"};
    pthread_t t[THREADS];

    for (unsigned i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, lines, (void *)(uintptr_t)names[i]);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    errno = EXDEV;
}

/* Lines are whole, whoever else writes. */
static void test_threads(void **state)
{
    char *out = written(path, NULL, path, threads), *end;
    unsigned n = 0;

    (void)state;
    for (; (end = strchr(out, '\n')) != NULL; out = end + 1, n++) {
        *end = '\0';
        assert_memory_equal(out, "vgpu[", 5);
        assert_int_equal(count(out, "vgpu["), 1);
        assert_string_equal(end - 3, " us");
    }
    assert_string_equal(out, "");
    assert_int_equal(n, THREADS * LINES);
}

static void refusals(void)
{
    static char names[2000];

    for (unsigned k = 0; k < 2; k++) {
        for (unsigned i = 0; i < 1000; i++)
            lnk_trace_refusal(&names[2 * i], "no"); /* names that share their place in the table */
    }
}

/* Each name once, however many there are. */
static void test_once(void **state)
{
    (void)state;
    assert_int_equal(count(written("refusals", NULL, NULL, refusals), "\n"), 1000);
}

static int setup(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/text", folder);
    snprintf(json, sizeof(json), "%s/json", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    unlink(json);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all),     cmocka_unit_test(test_refusals),   cmocka_unit_test(test_off),
        cmocka_unit_test(test_files),   cmocka_unit_test(test_every_byte), cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_threads), cmocka_unit_test(test_once),       cmocka_unit_test(test_full)};

    return cmocka_run_group_tests_name("trace", tests, setup, teardown);
}
