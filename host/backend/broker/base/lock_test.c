/* SPDX-License-Identifier: MIT */
/* A lock ends with the process that took it, though another one has its descriptors. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"

static void test_alone(void **state)
{
    char dir[] = "/tmp/vgb-lock-XXXXXX";
    int fd, status;
    pid_t other;

    (void)state;
    assert_non_null(mkdtemp(dir));
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (unsigned i = 0; i < 200; i++) { /* often: the thread that held it has ended by the next take */
        assert_int_equal(brk_lock_take(fd), 0);
        assert_true(fcntl(fd, F_GETFD) >= 0); /* ours stays */
        other = fork();
        if (!other)
            _exit(brk_lock_take(open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) != -EWOULDBLOCK);
        assert_int_equal(waitpid(other, &status, 0), other);
        assert_int_equal(status, 0);
        brk_lock_drop();
    }
    close(fd);
    rmdir(dir);
}

/* Locks, and has a child with its descriptors, as system calls that do not return have. */
static void lock_and_share(const char *dir, int ready)
{
    int r = brk_lock_take(open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    pid_t child = r ? r : (pid_t)syscall(SYS_clone, CLONE_FILES, NULL, NULL, NULL, NULL);

    if (child && write(ready, &child, sizeof(child)) != sizeof(child))
        _exit(1);
    for (;;)
        pause();
}

static void test_holder_has_ended(void **state)
{
    char dir[] = "/tmp/vgb-lock-XXXXXX";
    pid_t broker, child = 0;
    int ready[2], fd;

    (void)state;
    assert_non_null(mkdtemp(dir));
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    broker = fork();
    if (!broker)
        lock_and_share(dir, ready[1]);
    assert_int_equal(read(ready[0], &child, sizeof(child)), sizeof(child));
    assert_true(child > 0);
    assert_int_equal(brk_lock_take(fd), -EWOULDBLOCK);
    assert_int_equal(kill(broker, SIGKILL), 0);
    assert_int_equal(waitpid(broker, NULL, 0), broker);
    assert_int_equal(kill(child, 0), 0); /* still there */
    assert_int_equal(brk_lock_take(fd), 0);
    brk_lock_drop();
    assert_int_equal(kill(child, SIGKILL), 0);
    close(ready[0]);
    close(ready[1]);
    close(fd);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_alone), cmocka_unit_test(test_holder_has_ended)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
