/* SPDX-License-Identifier: MIT */
/* What a broker says of itself to its own user (`vgpu smi --host`), and to nobody else. */
#define _GNU_SOURCE
#include <grp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/testing/range.h"
#include "guest.h"
#include "proc.h"

static void test_processes(void **state)
{
    char text[131072], want[200];
    struct guest g[2];
    struct broker b;

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    assert_true(broker_status(b.pid, text, sizeof(text)) > 0);
    snprintf(want, sizeof(want), "backend %d %s\n", (int)b.pid, b.sock);
    assert_int_equal(strncmp(text, want, strlen(want)), 0);
    assert_non_null(strstr(text, "\nname s\n")); /* of the socket */
    assert_non_null(strstr(text, "\nlimit max-clients 64\n"));
    assert_null(strstr(text, "\nclient "));
    assert_int_equal(guest_connect(&g[0], b.sock, "one"), 0);
    g[0].s->guest_pid = 4711;
    g[0].s->memory_used = 5;
    assert_int_equal(guest_connect(&g[1], b.sock, "tw\x1b[o"), 0);
    g[1].s->guest_pid = 4712;
    assert_true(broker_status(b.pid, text, sizeof(text)) > 0);
    assert_non_null(strstr(text, " 4711 5 one\n"));
    assert_non_null(strstr(text, " 4712 0 tw?[o\n")); /* a guest's words control no terminal */
    pid_t pid = 0, list[16];
    unsigned n = workers_of(b.pid, list, 16);
    assert_int_equal(sscanf(strstr(text, "\nclient "), "\nclient %d", &pid), 1);
    bool found = false;
    for (unsigned i = 0; i < n && i < 16; i++)
        found |= list[i] == pid;
    assert_true(found);
    guest_close(&g[0]);
    guest_close(&g[1]);
    pid = b.pid;
    assert_int_equal(broker_stop(&b), 0);
    assert_int_equal(broker_status(pid, text, sizeof(text)), -1);
}

/* What clients have used, and what stays of it when they are gone; the second socket says the same. */
static void test_use(void **state)
{
    char text[131072], other[131072], path[] = "/tmp/vgb-status-XXXXXX", sock[64];
    const char *extra[] = {"--status", sock, "--vram-quota", "1M", NULL};
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct guest g;
    struct broker b;
    uint64_t dptr;
    int fd;

    (void)state;
    assert_non_null(mkdtemp(path));
    snprintf(sock, sizeof(sock), "%s/status", path);
    assert_int_equal(broker_start(&b, extra), 0);
    assert_true(broker_status(b.pid, text, sizeof(text)) > 0);
    assert_non_null(strstr(text, "\nvm calls 0 waits 0 errors 0 copied 0 cpu-ms 0 throttled-ms 0\n"));
    assert_non_null(strstr(text, " clients-refused 0 memory-refused 0 workers-lost 0\n"));
    assert_int_equal(guest_connect(&g, b.sock, "one"), 0);
    assert_int_equal(guest_context(&g), 0);
    assert_int_equal(guest_alloc(&g, 4096, &dptr), 0);
    assert_int_not_equal(guest_alloc(&g, 4u << 20, &dptr), 0);
    assert_true(broker_status(b.pid, text, sizeof(text)) > 0);
    unsigned long long calls = 0, waits = 0, errors = 0, more;
    assert_int_equal(sscanf(strstr(text, "\nuse "), "\nuse %*d calls %llu waits %llu errors %llu", &calls,
                            &waits, &errors),
                     3);
    assert_true(calls >= 3 && waits >= 3 && waits <= calls && errors >= 1);
    assert_int_equal(sscanf(strstr(text, "\nvm calls "), "\nvm calls %llu", &more), 1);
    assert_true(more == calls);
    /* Milliseconds of a worker with a few threads, which has lived for less than a minute. */
    assert_int_equal(sscanf(strstr(strstr(text, "\nvm calls "), " cpu-ms "), " cpu-ms %llu", &more), 1);
    assert_uint_in_range(more, 0, 600000);
    assert_non_null(strstr(text, " memory-refused 1 ")); /* a request that alone is more than the quota */
    assert_non_null(strstr(text, "clients-started 1 "));
    memcpy(a.sun_path, sock, strlen(sock) + 1);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    ssize_t n = recv(fd, other, sizeof(other) - 1, 0);
    assert_true(n > 0);
    other[n] = '\0';
    assert_int_equal(strncmp(text, other, (size_t)(strchr(text, '\n') - text)), 0);
    close(fd);
    guest_close(&g);
    for (int i = 0; i < 600 && strstr(text, "\nuse "); i++) {
        usleep(50000);
        assert_true(broker_status(b.pid, text, sizeof(text)) > 0);
    }
    assert_int_equal(sscanf(strstr(text, "\nvm calls "), "\nvm calls %llu", &more), 1);
    assert_true(more >= calls); /* it is gone, what it did is not */
    assert_int_equal(broker_stop(&b), 0);
    assert_int_not_equal(access(sock, F_OK), 0);
    rmdir(path);
}

static bool brokers_clients(struct broker *b)
{
    char text[131072];

    assert_true(broker_status(b->pid, text, sizeof(text)) > 0);
    return strstr(text, "\nclient ") != NULL;
}

static unsigned long long vm_value(struct broker *b, const char *name)
{
    char text[131072], want[40];
    unsigned long long value = 0;
    const char *at;

    assert_true(broker_status(b->pid, text, sizeof(text)) > 0);
    snprintf(want, sizeof(want), " %s ", name);
    at = strstr(text, "\nvm calls ");
    assert_non_null(at);
    at = strstr(at, want);
    assert_non_null(at);
    assert_int_equal(sscanf(at + strlen(want), "%llu", &value), 1);
    return value;
}

/* What a client says of itself spoils no sum: neither while it is there nor for good. */
static void test_lies(void **state)
{
    static const char *const names[] = {"calls", "waits", "errors", "copied"};
    struct guest g;
    struct broker b;

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    assert_int_equal(guest_connect(&g, b.sock, "liar"), 0);
    assert_int_equal(guest_context(&g), 0);
    g.s->calls = g.s->waits = g.s->errors = g.s->copied = 1000;
    for (unsigned i = 0; i < 4; i++)
        assert_uint_in_range(vm_value(&b, names[i]), 1000, 1100);
    g.s->calls = g.s->waits = g.s->errors = UINT64_MAX;
    g.s->copied = UINT64_MAX - 5;
    for (unsigned i = 0; i < 4; i++)
        assert_uint_in_range(vm_value(&b, names[i]), 1000, 1100);
    g.s->calls = g.s->waits = g.s->errors = g.s->copied = 0; /* a counter does not go back */
    for (unsigned i = 0; i < 4; i++)
        assert_uint_in_range(vm_value(&b, names[i]), 1000, 1100);
    g.s->calls = UINT64_MAX;
    guest_close(&g);
    for (int i = 0; i < 600 && brokers_clients(&b); i++)
        usleep(50000);
    assert_uint_in_range(vm_value(&b, "calls"), 1000, 1100);
    assert_int_equal(broker_stop(&b), 0);
}

/* Whether a process of this user is told anything at the path. */
static bool told(const char *sock, uid_t uid)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    pid_t child = fork();
    int is = 0;

    if (!child) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        char text[4096];

        snprintf(a.sun_path, sizeof(a.sun_path), "%s", sock);
        if (setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
            _exit(77);
        _exit(!connect(fd, (struct sockaddr *)&a, sizeof(a)) && recv(fd, text, sizeof(text), 0) > 0);
    }
    waitpid(child, &is, 0);
    assert_true(WIFEXITED(is) && WEXITSTATUS(is) <= 1);
    return WEXITSTATUS(is);
}

/* --status-user: that user reads the socket at the path, not the abstract one; others read neither. */
static void test_status_user(void **state)
{
    char path[] = "/tmp/vgb-status-XXXXXX", sock[64];
    const char *extra[] = {"--status", sock, "--status-user", "4242", NULL};
    struct broker b;

    (void)state;
    if (geteuid()) {
        print_message("not run: status_user: this test is not root\n");
        skip();
    }
    assert_non_null(mkdtemp(path));
    assert_int_equal(chmod(path, 0755), 0);
    snprintf(sock, sizeof(sock), "%s/status", path);
    for (int with = 0; with < 2; with++) {
        extra[2] = with ? "--status-user" : NULL;
        assert_int_equal(broker_start(&b, extra), 0);
        bool user = told(sock, 4242), other = told(sock, 4343), root = told(sock, 0);
        assert_int_equal(broker_stop(&b), 0);
        assert_int_equal(user, with);
        assert_false(other);
        assert_true(root);
    }
    rmdir(path);
}

static void test_other_user(void **state)
{
    struct broker b;
    int is = 0;

    (void)state;
    if (geteuid()) {
        print_message("not run: other_user: this test is not root\n");
        skip();
    }
    assert_int_equal(broker_start(&b, NULL), 0);
    pid_t child = fork();
    if (!child) {
        char text[4096];

        if (setgroups(0, NULL) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
            _exit(77);
        _exit(broker_status(b.pid, text, sizeof(text)) > 0 ? 1 : 0);
    }
    waitpid(child, &is, 0);
    assert_true(WIFEXITED(is));
    assert_int_equal(WEXITSTATUS(is), 0);
    assert_int_equal(broker_stop(&b), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processes),   cmocka_unit_test(test_use),        cmocka_unit_test(test_lies),
        cmocka_unit_test(test_status_user), cmocka_unit_test(test_other_user),
    };

    return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
