/* SPDX-License-Identifier: MIT */
/* What a broker says of itself to its own user (`vgpu smi --host`), and to nobody else. */
#define _GNU_SOURCE
#include <grp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "guest.h"
#include "proc.h"

/* The length of what it says, 0: nothing; -1: there is no such socket. */
static ssize_t ask(pid_t broker, char *text, size_t room)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int n = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "vgpu-backend.status.%d", (int)broker);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ssize_t got = -1;

    if (!connect(fd, (struct sockaddr *)&a,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)))
        got = recv(fd, text, room - 1, 0);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    return got;
}

static void test_processes(void **state)
{
    char text[65536], want[200];
    struct guest g[2];
    struct broker b;

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    assert_true(ask(b.pid, text, sizeof(text)) > 0);
    snprintf(want, sizeof(want), "backend %d %s\n", (int)b.pid, b.sock);
    assert_int_equal(strncmp(text, want, strlen(want)), 0);
    assert_non_null(strstr(text, "\nlimit max-clients 64\n"));
    assert_null(strstr(text, "\nclient "));
    assert_int_equal(guest_connect(&g[0], b.sock, "one"), 0);
    g[0].s->guest_pid = 4711;
    g[0].s->memory_used = 5;
    assert_int_equal(guest_connect(&g[1], b.sock, "tw\x1b[o"), 0);
    g[1].s->guest_pid = 4712;
    assert_true(ask(b.pid, text, sizeof(text)) > 0);
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
    assert_int_equal(ask(pid, text, sizeof(text)), -1);
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
        _exit(ask(b.pid, text, sizeof(text)) > 0 ? 1 : 0);
    }
    waitpid(child, &is, 0);
    assert_true(WIFEXITED(is));
    assert_int_equal(WEXITSTATUS(is), 0);
    assert_int_equal(broker_stop(&b), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processes),
        cmocka_unit_test(test_other_user),
    };

    return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
