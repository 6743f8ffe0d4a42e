/* SPDX-License-Identifier: MIT */
/* Each option that makes a socket's file: what is there already, and is no socket, stays and is named. */
#define _GNU_SOURCE
#include <fcntl.h>
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

#include "proc.h"

enum kind { FILE_OF_TEXT, EMPTY_FILE, FOLDER, LINK, PIPE, OLD_SOCKET, KINDS };

static char folder[40], path[60], target[60];

static void make(enum kind kind)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = -1;

    switch (kind) {
    case FOLDER:
        assert_int_equal(mkdir(path, 0700), 0);
        return;
    case PIPE:
        assert_int_equal(mkfifo(path, 0600), 0);
        return;
    case OLD_SOCKET: /* nobody listens on it any more */
        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
        assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
        break;
    default:
        fd = open(kind == LINK ? target : path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (kind != EMPTY_FILE)
            assert_int_equal(write(fd, "text", 4), 4);
        if (kind == LINK)
            assert_int_equal(symlink(target, path), 0);
        break;
    }
    close(fd);
}

static void test_kept(void **state)
{
    static const char *const options[] = {"--control", "--status", "--listen", "--vhost-user"};

    (void)state;
    for (unsigned o = 0; o < sizeof(options) / sizeof(options[0]); o++) {
        for (enum kind kind = 0; kind < KINDS; kind++) {
            const char *const extra[] = {options[o], path, "--log", "/dev/null", NULL};
            struct stat before, after;
            struct broker b = {0};
            int r;

            make(kind);
            assert_int_equal(lstat(path, &before), 0);
            r = broker_start(&b, extra);
            if (kind == OLD_SOCKET) {
                assert_int_equal(r, 0); /* it is replaced */
                assert_int_equal(broker_stop(&b), 0);
                assert_int_equal(access(path, F_OK), -1);
                continue;
            }
            if (r == 0 || lstat(path, &after) || before.st_ino != after.st_ino ||
                before.st_size != after.st_size)
                fail_msg("%s: file of kind %d was replaced", options[o], (int)kind);
            assert_int_equal(waitpid(b.pid, NULL, 0), b.pid);
            rmdir(b.dir);
            assert_int_equal(kind == FOLDER ? rmdir(path) : unlink(path), 0);
            unlink(target);
        }
    }
}

static int setup(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/vgb-paths-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/s", folder);
    snprintf(target, sizeof(target), "%s/target", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kept)};

    return cmocka_run_group_tests_name("paths", tests, setup, teardown);
}
