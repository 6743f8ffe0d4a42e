/* SPDX-License-Identifier: MIT */
/* --log-format: every line is what it says, whatever a guest calls itself and whatever a worker prints. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/testing/range.h"
#include "guest.h"
#include "proc.h"
#include "vgb_log.h"

/* Passes one string of JSON; NULL: it is none. `to` gets its bytes, escapes undone. */
static const char *string(const char *p, char *to, size_t room)
{
    size_t n = 0;
    unsigned code;

    if (*p++ != '"')
        return NULL;
    for (; *p != '"'; p++) {
        unsigned char c = (unsigned char)*p;

        if (c < 0x20 || c >= 0x7f || n + 1 >= room)
            return NULL; /* the end of the text, too */
        if (c == '\\') {
            p++;
            if (*p == 'u') {
                if (sscanf(p + 1, "%4x", &code) != 1 || code > 0xff)
                    return NULL;
                c = (unsigned char)code;
                p += 4;
            } else if (*p == '"' || *p == '\\') {
                c = (unsigned char)*p;
            } else {
                return NULL;
            }
        }
        to[n++] = (char)c;
    }
    to[n] = '\0';
    return p + 1;
}

/* One flat object; the value of `name` goes to `value`. False: not JSON, or a name is there twice. */
static bool object(const char *p, const char *name, char *value, size_t room)
{
    char key[40], text[4096];
    unsigned found = 0;

    *value = '\0';
    if (*p++ != '{')
        return false;
    for (;;) {
        p = string(p, key, sizeof(key));
        if (!p || *p++ != ':')
            return false;
        if (*p == '"') {
            p = string(p, text, sizeof(text));
            if (!p)
                return false;
        } else {
            size_t n = strspn(p, "0123456789");

            if (!n || n > 20 || (*p == '0' && n > 1))
                return false;
            memcpy(text, p, n);
            text[n] = '\0';
            p += n;
        }
        if (!strcmp(key, name)) {
            found++;
            snprintf(value, room, "%s", text);
        }
        if (*p == '}')
            return !p[1] && found <= 1;
        if (*p++ != ',')
            return false;
    }
}

static void assert_line(const char *line, const char *name, const char *want)
{
    char value[4096];

    if (!object(line, name, value, sizeof(value)))
        fail_msg("not an object of JSON: %s", line);
    assert_string_equal(value, want);
}

static void test_checker(void **state)
{
    char value[100];

    (void)state;
    assert_true(object("{\"a\":\"b\\u000a\\\"\",\"n\":12}", "a", value, sizeof(value)));
    assert_string_equal(value, "b\n\"");
    assert_false(object("{\"a\":\"b\x1b\"}", "a", value, sizeof(value)));
    assert_false(object("{\"a\":\"b\"} ", "a", value, sizeof(value)));
    assert_false(object("{\"a\":\"b\",\"a\":\"c\"}", "a", value, sizeof(value)));
    assert_false(object("{\"a\":\"b", "a", value, sizeof(value)));
    assert_false(object("{\"a\":01}", "a", value, sizeof(value)));
}

/* What was written to the log, a line at a time. */
static int pipes[2];
static char *written(char *text, size_t room)
{
    ssize_t n = read(pipes[0], text, room - 1);

    assert_true(n > 0);
    text[n] = '\0';
    return text;
}

static int open_pipe(void **state)
{
    (void)state;
    if (pipe2(pipes, O_NONBLOCK | O_CLOEXEC))
        return -1;
    vgb_log_init(pipes[1], VGB_INFO, "test");
    return 0;
}

static int close_pipe(void **state)
{
    (void)state;
    vgb_log_init(2, VGB_INFO, "test");
    vgb_log_set_format(VGB_LOG_TEXT, "");
    return close(pipes[0]) || close(pipes[1]);
}

static void test_json(void **state)
{
    char text[8192], value[4096], all[256];
    unsigned hour;

    (void)state;
    vgb_log_set_format(VGB_LOG_JSON, "vm\"1\n");
    vgb_log(VGB_WARN, "client %u (%s): %s", 7u, "x\",\"level\":\"error\"}\n{", "gone");
    written(text, sizeof(text));
    assert_int_equal(text[strlen(text) - 1], '\n');
    text[strlen(text) - 1] = '\0';
    assert_line(text, "vm", "vm\"1\n");
    assert_line(text, "level", "warn");
    assert_line(text, "process", "test");
    assert_line(text, "client", "7");
    assert_line(text, "client_name", "x\",\"level\":\"error\"}\n{");
    assert_true(object(text, "time", value, sizeof(value)));
    assert_int_equal(sscanf(value, "%*4u-%*2u-%*2uT%2u:%*2u:%*2u.%*3uZ", &hour), 1);
    vgb_log(VGB_DEBUG, "not this one");
    assert_int_equal(read(pipes[0], text, sizeof(text)), -1);
    /* Any byte, as much of it as there is room for. */
    for (unsigned i = 0; i < 255; i++)
        all[i] = (char)(i + 1);
    all[255] = '\0';
    vgb_log(VGB_ERROR, "%s", all);
    written(text, sizeof(text));
    text[strlen(text) - 1] = '\0';
    assert_line(text, "message", all);
    for (unsigned n = 1; n < 3000; n += 97) {
        char *hostile = malloc(n + 1);

        memset(hostile, n & 1 ? 0xff : '"', n);
        hostile[n] = '\0';
        vgb_log(VGB_ERROR, "client 1 (%s): %s", hostile, hostile);
        written(text, sizeof(text));
        assert_true(strlen(text) <= 4096);
        text[strlen(text) - 1] = '\0';
        assert_line(text, "level", "error");
        free(hostile);
    }
}

/* No byte of a peer's moves anything on a terminal, in either form of its control characters; words of people stay. */
static void test_harmless(void **state)
{
    static const struct {
        const char *said, *written;
    } row[] = {
        {"a\nb\033[31m\177", "a?b?[31m?"},
        {"\x9b"
         "31m\x85",
         "?31m?"}, /* C1, as bytes */
        {"\xc2\x9b"
         "31m\xc2\x85\xc2\x80",
         "??31m????"}, /* as UTF-8 */
        {"\xe2\x80\xae"
         "a\xe2\x80\xa8",
         "???a???"},                                           /* right to left; a line */
        {"\xc0\x8a\xe0\x82\x9b\xf0\x80\x82\x9b", "?????????"}, /* longer than it need be */
        {"\xed\xa0\x80\xf4\x90\x80\x80\xff", "????????"},
        {"\xc3", "?"},
        {"\xe4\xb8", "??"},
        {"z\xc3\xbc\xc2\xa0\xe4\xb8\xad\xf0\x9f\x98\x80", "z\xc3\xbc\xc2\xa0\xe4\xb8\xad\xf0\x9f\x98\x80"},
    };
    char text[8192], want[200];

    (void)state;
    for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        vgb_log_set_format(VGB_LOG_TEXT, "");
        vgb_log(VGB_WARN, "%s", row[i].said);
        snprintf(want, sizeof(want), "test: warn: %s\n", row[i].written);
        assert_string_equal(written(text, sizeof(text)), want);
        vgb_log_set_format(VGB_LOG_JOURNAL, "vm1");
        vgb_log(VGB_WARN, "%s", row[i].said);
        snprintf(want, sizeof(want), "MESSAGE=%s\n", row[i].written);
        assert_non_null(strstr(written(text, sizeof(text)), want));
    }
}

static void test_foreign(void **state)
{
    struct vgb_ratelimit limit = {.used = 0};
    char text[8192];
    unsigned lines = 0;

    (void)state;
    vgb_log_foreign(&limit, "worker", 5, "worker: warn: client");
    assert_string_equal(written(text, sizeof(text)), "test: warn: worker: warn: client\n");
    vgb_log_set_format(VGB_LOG_JSON, "");
    vgb_log_foreign(&limit, "worker", 5, "worker: error: it \"ends\"");
    written(text, sizeof(text));
    text[strlen(text) - 1] = '\0';
    assert_line(text, "process", "worker");
    assert_line(text, "level", "error");
    assert_line(text, "client", "5");
    assert_line(text, "message", "it \"ends\"");
    /* Whatever it says it is, and whomever it says it is about. */
    vgb_log_foreign(&limit, "worker", -1, "vgpu-backend: error: client 3 (x): killed");
    written(text, sizeof(text));
    text[strlen(text) - 1] = '\0';
    assert_line(text, "process", "worker");
    assert_line(text, "level", "info");
    assert_line(text, "client", "");
    assert_line(text, "message", "vgpu-backend: error: client 3 (x): killed");
    vgb_log_foreign(&limit, "worker", 5, "libcuda says: what?");
    written(text, sizeof(text));
    text[strlen(text) - 1] = '\0';
    assert_line(text, "process", "worker");
    assert_line(text, "message", "libcuda says: what?");
    vgb_log_foreign(&limit, "worker", 5, "worker: debug: not this one");
    assert_int_equal(read(pipes[0], text, sizeof(text)), -1);
    limit = (struct vgb_ratelimit){.second = vgb_now_ns() / 1000000000u, .used = VGB_LOG_BURST};
    for (unsigned i = 0; i < 10 * VGB_LOG_BURST; i++)
        vgb_log_foreign(&limit, "worker", 5, "worker: info: again");
    /* At most what two or three seconds allow, each with a line that counts the dropped ones. */
    ssize_t n = read(pipes[0], text, sizeof(text));
    for (ssize_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    assert_true(lines <= 3 * (VGB_LOG_BURST + 1));
    /* Those that were dropped are told of once. */
    vgb_log_set_format(VGB_LOG_TEXT, "");
    limit = (struct vgb_ratelimit){.dropped = 7};
    vgb_log_limited(&limit, VGB_INFO, "one");
    assert_string_equal(written(text, sizeof(text)),
                        "test: info: 7 further lines of this source were dropped\ntest: info: one\n");
    vgb_log_limited(&limit, VGB_INFO, "two");
    assert_string_equal(written(text, sizeof(text)), "test: info: two\n");
}

/* What a peer provokes for hours: its reserve, then a trickle, and the number of those that were left out. */
static void test_hours(void **state)
{
    struct vgb_ratelimit limit = {.used = 0};
    unsigned lines = 0;

    (void)state;
    for (uint64_t second = 0; second < 2 * 3600; second++) {
        for (unsigned i = 0; i < 2 * VGB_LOG_BURST; i++)
            lines += vgb_ratelimit_take(&limit, second * 1000000000u);
    }
    assert_uint_in_range(lines, VGB_LOG_RESERVE, VGB_LOG_RESERVE + 2 * 3600 / VGB_LOG_FORGET_S);
    assert_int_equal(limit.dropped, 2 * 3600 * 2 * VGB_LOG_BURST - lines);
}

static void test_journal(void **state)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char dir[] = "/tmp/vgb-log-XXXXXX", text[8192];
    int journal, fd;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(a.sun_path, sizeof(a.sun_path), "%s/socket", dir);
    assert_int_equal(vgb_log_journal(a.sun_path), -ENOENT);
    memset(text, 'x', 200);
    text[200] = '\0';
    assert_int_equal(vgb_log_journal(text), -ENAMETOOLONG);
    journal = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(journal, (struct sockaddr *)&a, sizeof(a)), 0);
    fd = vgb_log_journal(a.sun_path);
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC); /* it is not a worker's */
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    vgb_log_init(fd, VGB_INFO, "vgpu-backend");
    vgb_log_set_format(VGB_LOG_JOURNAL, "vm1");
    vgb_log(VGB_INFO, "client 3 (a\nPRIORITY=0): it \x1b ends");
    ssize_t n = recv(journal, text, sizeof(text) - 1, 0);
    assert_true(n > 0);
    text[n] = '\0';
    assert_string_equal(text, "PRIORITY=6\nSYSLOG_IDENTIFIER=vgpu-backend\nVGPU_VM=vm1\nVGPU_CLIENT=3\n"
                              "VGPU_CLIENT_NAME=a?PRIORITY=0\nMESSAGE=client 3 (a?PRIORITY=0): it ? ends\n");
    /* Each level has its priority of syslog(3). */
    vgb_log_init(fd, VGB_DEBUG, "vgpu-backend");
    for (unsigned i = 0; i < 4; i++) {
        static const char *const want[] = {"PRIORITY=3\n", "PRIORITY=4\n", "PRIORITY=6\n", "PRIORITY=7\n"};

        vgb_log((enum vgb_log_level)(VGB_ERROR + i), "something");
        assert_true(recv(journal, text, sizeof(text) - 1, 0) > 0);
        assert_memory_equal(text, want[i], strlen(want[i]));
    }
    close(journal); /* a journal that is gone costs lines, nothing else */
    vgb_log(VGB_INFO, "nobody reads this");
    close(fd);
    unlink(a.sun_path);
    rmdir(dir);
}

/* A broker, its workers, a guest with a hostile name that breaks the protocol. */
static void test_broker(void **state)
{
    char path[64] = "/tmp/vgb-log-XXXXXX", line[8192], value[4096];
    int fd = mkstemp(path);
    const char *const extra[] = {"--log", path, "--log-format", "json", "--log-level", "debug", NULL};
    const uint8_t junk[64] = {64, 0, 0, 0, 0xfe, 0xfe};
    unsigned lines = 0, about = 0;
    struct broker b;
    struct guest g;
    FILE *f;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(broker_start(&b, extra), 0);
    assert_int_equal(guest_connect(&g, b.sock, "e\"\\\n\x1b\xff"), 0);
    guest_raw(&g, junk, sizeof(junk));
    assert_true(guest_wait_dead(&g, 30000));
    f = fopen(path, "r");
    assert_non_null(f);
    /* Until it has said what became of the worker. */
    for (unsigned i = 0; i < 600 && !about; i++) {
        rewind(f);
        while (fgets(line, sizeof(line), f))
            about += strstr(line, "\"client\":") != NULL;
        usleep(50000);
    }
    guest_close(&g);
    int status = broker_stop(&b);
    rewind(f);
    about = 0;
    while (fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\n")] = '\0';
        lines++;
        assert_line(line, "vm", "s");
        assert_true(object(line, "client", value, sizeof(value)));
        about += *value != '\0';
    }
    fclose(f);
    unlink(path);
    assert_int_equal(status, 0);
    assert_true(lines >= 3);
    assert_true(about >= 1);
}

static unsigned times_in(const char *path, const char *text)
{
    unsigned n = 0;
    char line[2048];
    FILE *f = fopen(path, "r");

    while (f && fgets(line, sizeof(line), f))
        n += strstr(line, text) != NULL;
    if (f)
        fclose(f);
    return n;
}

/* A broker whose workers are badworker, and its log. */
struct bad {
    char dir[32], log[64], mark[64];
    struct broker b;
};

/* what: VGPU_TEST_BADWORKER */
static void bad_begin(struct bad *t, const char *what)
{
    char worker[600];
    const char *const extra[] = {"--log", t->log, "--worker", worker, "--log-level", "info", NULL};

    *t = (struct bad){.dir = "/tmp/vgb-log-XXXXXX"};
    assert_non_null(mkdtemp(t->dir));
    snprintf(t->log, sizeof(t->log), "%s/log", t->dir);
    snprintf(t->mark, sizeof(t->mark), "%s/mark", t->dir);
    snprintf(worker, sizeof(worker), "%s/tests/badworker", getenv("BACKEND_DIR"));
    setenv("VGPU_TEST_BADWORKER", what, 1);
    setenv("VGPU_TEST_MARK", t->mark, 1);
    assert_int_equal(broker_start(&t->b, extra), 0);
    unsetenv("VGPU_TEST_BADWORKER");
    unsetenv("VGPU_TEST_MARK");
}

static void bad_end(struct bad *t)
{
    int status = broker_stop(&t->b);

    unlink(t->log);
    unlink(t->mark);
    rmdir(t->dir);
    assert_int_equal(status, 0);
}

/* A worker that was taken over neither takes nor spoils the lines of another one. */
static void test_own_output(void **state)
{
    struct guest listens, speaks;
    struct bad t;
    unsigned n = 0;

    (void)state;
    bad_begin(&t, "listens");
    assert_int_equal(guest_connect(&listens, t.b.sock, "listens"), -1); /* it has no window header */
    for (unsigned i = 0; i < 200 && access(t.mark, F_OK); i++)
        usleep(50000);
    assert_int_equal(guest_connect(&speaks, t.b.sock, "speaks"), -1);
    for (unsigned i = 0; i < 200 && (n = times_in(t.log, "worker: info: one line in two parts")) < 10; i++)
        usleep(50000);
    guest_close(&speaks);
    guest_close(&listens);
    bad_end(&t);
    assert_int_equal(n, 10);
}

/* A worker that prints without end leaves others their lines. */
static void test_flood(void **state)
{
    struct guest speaks;
    struct bad t;
    unsigned n = 0;

    (void)state;
    bad_begin(&t, "shouts");
    pid_t shouts = fork(); /* another program: each has lines of its own, however many clients it is */
    if (!shouts) {
        struct guest g;

        guest_connect(&g, t.b.sock, "shouts"); /* it has no window header */
        for (;;)
            pause();
    }
    /* The flood uses up its client's rate in each second; lines of other clients follow, in some seconds at least. */
    for (unsigned i = 0; i < 200 && times_in(t.log, "noise") < 2 * VGB_LOG_BURST; i++)
        usleep(50000);
    for (unsigned k = 0; k < 5; k++) {
        assert_int_equal(guest_connect(&speaks, t.b.sock, "speaks"), -1);
        for (unsigned i = 0; i < 3000 && (n = times_in(t.log, "a quiet line")) <= k; i++)
            usleep(50000);
        assert_int_equal(n, k + 1);
        guest_close(&speaks);
    }
    assert_true(times_in(t.log, "noise") >= 2 * VGB_LOG_BURST);
    kill(shouts, SIGKILL);
    assert_int_equal(waitpid(shouts, NULL, 0), shouts);
    bad_end(&t);
}

static void test_refused(void **state)
{
    const char *const form[] = {"--log-format", "xml", NULL}, *const both[] = {"--log-format", "journal",
                                                                               "--log", "/dev/null", NULL};
    struct broker b;

    (void)state;
    assert_int_not_equal(broker_start(&b, form), 0);
    assert_int_not_equal(broker_start(&b, both), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checker),
        cmocka_unit_test(test_hours),
        cmocka_unit_test_setup_teardown(test_json, open_pipe, close_pipe),
        cmocka_unit_test_setup_teardown(test_harmless, open_pipe, close_pipe),
        cmocka_unit_test_setup_teardown(test_foreign, open_pipe, close_pipe),
        cmocka_unit_test_setup_teardown(test_journal, open_pipe, close_pipe),
        cmocka_unit_test(test_broker),
        cmocka_unit_test(test_own_output),
        cmocka_unit_test(test_flood),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
