/* SPDX-License-Identifier: MIT */
/* The layers of the sandbox on hosts that have less of them: what starts, what is refused, what is said. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "confine.h"

/* As on a kernel without Landlock, in a container that forbids namespaces, on Linux before 5.12. */
static int refuse_calls(bool landlock, bool namespaces, bool setattr)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
    int r = ctx ? 0 : -1;

    if (ctx && landlock)
        r |= seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(landlock_create_ruleset), 0);
    if (ctx && namespaces)
        r |= seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(unshare), 0);
    if (ctx && setattr)
        r |= seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(mount_setattr), 0);
    r = r ? r : seccomp_load(ctx);
    seccomp_release(ctx);
    return r;
}

/* 1: refused with the reason, 0: it runs. */
static int on_a_host_without(bool landlock, bool namespaces, bool setattr, enum wrk_sandbox_mode mode)
{
    int status;
    pid_t pid = fork();

    if (!pid) {
        struct wrk_sandbox s = {.provider = "libcuda.so.1", .broker = getpid(), .mode = mode};
        char err[300] = "";
        int r;

        if (refuse_calls(landlock, namespaces, setattr))
            _exit(98);
        r = wrk_sandbox_begin(&s, err, sizeof(err));
        if (!r &&
            (!!strstr(s.layers, "Landlock") == landlock ||
             !!strstr(s.layers, "mount namespace") == namespaces) &&
            mode == WRK_SANDBOX_ENFORCE)
            _exit(97);
        if (r && !strstr(err, "Landlock"))
            _exit(96);
        syscall(SYS_exit_group, r ? 1 : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void test_without_layers(void **state)
{
    (void)state;
    if (syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) <= 0) {
        fprintf(stderr, "not run: without_layers: this kernel has no Landlock\n");
        skip();
    }
    assert_int_equal(on_a_host_without(false, true, false, WRK_SANDBOX_ENFORCE), 0);
    assert_int_equal(on_a_host_without(true, true, false, WRK_SANDBOX_ENFORCE), 1);
    assert_int_equal(on_a_host_without(true, true, false, WRK_SANDBOX_LOG), 0);
    if (on_a_host_without(true, false, false, WRK_SANDBOX_ENFORCE))
        fprintf(stderr, "not run: without_layers: this host gives no mount namespace\n");
    else
        assert_int_equal(on_a_host_without(true, false, true, WRK_SANDBOX_ENFORCE), 0);
    assert_int_equal(on_a_host_without(true, true, false, WRK_SANDBOX_OFF), 0);
}

/* A host's file is out of sight if and only if that layer is named: the process that asks for the layers relies on it. */
static void test_private_files(void **state)
{
    char name[] = "/tmp/vgb-sandbox-XXXXXX";
    int fd = mkstemp(name), status;
    pid_t pid = fork();

    (void)state;
    if (!pid) {
        struct wrk_sandbox s = {.provider = "libcuda.so.1", .broker = getpid()};
        char err[300] = "";
        struct stat st;

        if (wrk_sandbox_begin(&s, err, sizeof(err)))
            _exit(98);
        bool hidden = stat(name, &st) && errno == ENOENT, said = strstr(s.layers, "private files") != NULL;
        syscall(SYS_exit_group, hidden != said ? 1 : said ? 0 : 2);
    }
    assert_true(fd >= 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    unlink(name);
    close(fd);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 2)
        fprintf(stderr, "not run: private_files: this host gives no mount namespace\n");
    else
        assert_int_equal(WEXITSTATUS(status), 0);
}

/* A client of MPS that could reach other services is refused. */
static void test_mps_without_namespaces(void **state)
{
    int status;
    pid_t pid = fork();

    (void)state;
    if (!pid) {
        struct wrk_sandbox s = {.provider = "libcuda.so.1", .broker = getpid(), .mps = "/tmp"};
        char err[400] = "";

        if (refuse_calls(false, true, false))
            _exit(98);
        int r = wrk_sandbox_begin(&s, err, sizeof(err));
        syscall(SYS_exit_group, !r ? 1
                                : strstr(err, "connect to other services") || strstr(err, "neither Landlock")
                                    ? 0
                                    : 2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* A worker with a user id of its own gets the file of the log, and no device, such as /dev/null. */
static void test_log_on_a_device(void **state)
{
    char dir[] = "/tmp/vgb-sandbox-XXXXXX", name[40];
    struct stat st;
    int status;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(name, sizeof(name), "%s/null", dir);
    if (mknod(name, S_IFCHR | 0666, makedev(1, 3))) {
        rmdir(dir);
        fprintf(stderr, "not run: log_on_a_device: no device can be made\n");
        skip();
    }
    pid_t pid = fork();

    if (!pid) {
        struct wrk_sandbox s = {.provider = "libcuda.so.1", .broker = getpid()};

        setenv("VGPU_SOFT_LOG", name, 1);
        wrk_confine(&s);
        _exit(geteuid() ? 0 : 2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(stat(name, &st), 0);
    unlink(name);
    rmdir(dir);
    assert_int_equal(st.st_uid, geteuid());
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_layers),
        cmocka_unit_test(test_private_files),
        cmocka_unit_test(test_mps_without_namespaces),
        cmocka_unit_test(test_log_on_a_device),
    };

    return cmocka_run_group_tests_name("layers", tests, NULL, NULL);
}
