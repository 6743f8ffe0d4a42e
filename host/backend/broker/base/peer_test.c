/* SPDX-License-Identifier: MIT */
/* Who may connect: by user and by group, as the kernel says. */
#define _GNU_SOURCE
#include <grp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base.h"
#include "vgb_fd.h"

#define OTHER 4242u
#define GROUP 4343u
#define SECOND 4444u

/* Does brk_accept_peer() take a connection of a process of these? As they are set by root only. */
static bool taken(uid_t uid, gid_t gid, gid_t second)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    socklen_t size = sizeof(sa_family_t);
    struct brk_source s = {.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    int fd, status;

    assert_int_equal(bind(s.fd, (struct sockaddr *)&a, size),
                     0); /* an abstract address of the kernel's choice */
    size = sizeof(a);
    assert_int_equal(getsockname(s.fd, (struct sockaddr *)&a, &size), 0);
    assert_int_equal(listen(s.fd, 1), 0);
    pid_t pid = fork();
    if (!pid) {
        int c = socket(AF_UNIX, SOCK_STREAM, 0);

        _exit(setgroups(second != 0, &second) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid) ||
              connect(c, (struct sockaddr *)&a, size));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    fd = brk_accept_peer(&s);
    close(s.fd);
    if (fd < 0)
        return false;
    close(fd);
    return true;
}

static bool may_change_user(void)
{
    if (!geteuid())
        return true;
    print_message("not run: peer: programs of other users take root\n");
    return false;
}

static void test_users(void **state)
{
    (void)state;
    if (!may_change_user())
        skip();
    brk_opt.peer_uid = brk_opt.peer_gid = BRK_ANYBODY;
    assert_true(taken(OTHER, GROUP, 0)); /* the socket's file decides */
    brk_opt.peer_uid = OTHER;
    assert_true(taken(OTHER, GROUP, 0));
    assert_true(taken(0, 0, 0));
    assert_false(taken(OTHER + 1, 0, 0)); /* root's group is nobody's right */
    assert_false(taken(OTHER + 1, GROUP, SECOND));
}

static void test_groups(void **state)
{
    (void)state;
    if (!may_change_user())
        skip();
    brk_opt.peer_uid = BRK_ANYBODY;
    brk_opt.peer_gid = GROUP;
    assert_true(taken(OTHER, GROUP, 0));
    assert_true(taken(OTHER, SECOND, GROUP));
    assert_false(taken(OTHER, SECOND, 0));
    assert_false(taken(OTHER, SECOND, SECOND));
    brk_opt.peer_uid = OTHER; /* either suffices */
    assert_true(taken(OTHER, SECOND, 0));
    assert_true(taken(OTHER + 1, GROUP, 0));
    assert_false(taken(OTHER + 1, SECOND, 0));
}

static void test_names(void **state)
{
    uint32_t id = 7;

    (void)state;
    assert_true(brk_parse_user("root", &id) && id == 0);
    assert_true(brk_parse_group("root", &id) && id == 0);
    assert_true(brk_parse_user("4242", &id) && id == OTHER);
    assert_true(brk_parse_group("4343", &id) && id == GROUP);
    assert_false(brk_parse_user("", &id));
    assert_false(brk_parse_user("-1", &id));
    assert_false(brk_parse_user("42x", &id));
    assert_false(brk_parse_user("4294967295", &id)); /* -1: nobody's, and it would mean anybody */
    assert_false(brk_parse_user("99999999999999999999", &id));
    assert_false(brk_parse_group("no-such-group-here", &id));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_users),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests_name("peer", tests, NULL, NULL);
}
