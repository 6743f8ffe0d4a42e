/* SPDX-License-Identifier: MIT */
/* The socket file of --status, in a folder where others may replace it (linked with --wrap). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "clients.h"

static char dir[] = "/tmp/vgb-status-XXXXXX";
static char path[64], file[64];
static bool replaced;

int __real_listen(int fd, int backlog);
int __wrap_listen(int fd, int backlog);

int __wrap_listen(int fd, int backlog)
{
    int r = __real_listen(fd, backlog);

    /* The abstract socket listens, too, and has no file. */
    if (replaced && !access(path, F_OK)) {
        assert_int_equal(unlink(path), 0);
        assert_int_equal(symlink(file, path), 0);
    }
    return r;
}

static mode_t mode_of(const char *name)
{
    struct stat st;

    assert_int_equal(lstat(name, &st), 0);
    return st.st_mode & 0777;
}

/* The file goes with the broker, each time, and stopping twice takes no file of another broker. */
static void test_mode(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        brk_opt.status_uid = BRK_ANYBODY;
        assert_true(brk_status_start());
        assert_int_equal(mode_of(path), 0600);
        brk_status_stop();
        assert_int_equal(access(path, F_OK), -1);
        brk_opt.status_uid = 12345;
        assert_true(brk_status_start());
        assert_int_equal(mode_of(path), 0666);
        brk_status_stop();
        assert_int_equal(access(path, F_OK), -1);
    }
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    brk_status_stop();
    assert_int_equal(unlink(path), 0);
}

/* A link in place of the socket: the file that it names keeps its mode. */
static void test_link_in_its_place(void **state)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    (void)state;
    assert_true(fd >= 0);
    brk_opt.status_uid = 12345;
    replaced = true;
    assert_true(brk_status_start());
    replaced = false;
    assert_int_equal(mode_of(file), 0600);
    brk_status_stop();
    assert_int_equal(unlink(file), 0); /* it is still there */
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mode), cmocka_unit_test(test_link_in_its_place)};
    int r;

    if (brk_loop_init() || !mkdtemp(dir))
        return 1;
    snprintf(path, sizeof(path), "%s/status", dir);
    snprintf(file, sizeof(file), "%s/file", dir);
    brk_opt.status = path;
    r = cmocka_run_group_tests_name("status-path", tests, NULL, NULL);
    rmdir(dir);
    return r;
}
