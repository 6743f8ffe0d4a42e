/* SPDX-License-Identifier: MIT */
/*
 * A program with more rights than its user, set-id here, with the user's environment: no file is
 * written that it names, and no socket of its choice is the worker's. Needs root, which makes such
 * a program of this one.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "link.h"
#include "record.h"
#include "trace.h"
#include "vgp_ring.h"

#define USER 65534
#define SOCKET "/nowhere/of-the-user"

/* In the program: 0: it did nothing of what its environment says; 1: a socket; 77: the system
   gave it no rights. */
static int privileged(void)
{
    static struct vgp_window_shared window;
    static struct lnk_ring ring = {.shared = &window};
    struct lnk_place list[LNK_PLACES_MAX];

    if (!getauxval(AT_SECURE))
        return 77;
    lnk_trace_init(NULL);
    lnk_record_start(&ring);
    return lnk_places(list) && !strcmp(list[0].path, SOCKET);
}

static bool copy_self(const char *to)
{
    char bytes[1 << 16];
    int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_EXCL, 0700);
    ssize_t n;

    while ((n = read(in, bytes, sizeof(bytes))) > 0) {
        if (write(out, bytes, (size_t)n) != n)
            return false;
    }
    close(in);
    return !n && !fchmod(out, 04755) && !close(out);
}

/* The exit status of the copy, as another user; the files of its environment are in the folder,
   which is root's. */
static int run_as_user(const char *folder, char *program)
{
    static const char *const names[] = {"VGPU_TRACE", "VGPU_TRACE_JSON", "VGPU_RECORD"};
    char value[5][128], *env[5] = {0}, *argv[] = {program, "privileged", NULL};
    pid_t pid = fork();
    int status;

    if (!pid) {
        for (int i = 0; i < 3; i++) {
            snprintf(value[i], sizeof(value[i]), "%s=%s/%s", names[i], folder, names[i]);
            env[i] = value[i];
        }
        env[3] = "VGPU_SOCKET=" SOCKET;
        if (setresgid(USER, USER, USER) || setresuid(USER, USER, USER))
            _exit(78);
        execve(program, argv, env);
        _exit(78);
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_environment_of_a_user(void **state)
{
    char folder[] = "/tmp/vgpu-secure.XXXXXX", path[64], program[64];
    static const char *const files[] = {"VGPU_TRACE", "VGPU_TRACE_JSON", "VGPU_RECORD"};
    unsigned written = 0;
    int status = 77;

    (void)state;
    if (!geteuid() && mkdtemp(folder) && !chmod(folder, 0711)) {
        snprintf(program, sizeof(program), "%s/program", folder);
        status = copy_self(program) ? run_as_user(folder, program) : -1;
        for (unsigned i = 0; i < 3; i++) {
            snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
            written += !unlink(path);
        }
        unlink(program);
        rmdir(folder);
    }
    if (status == 77) {
        print_message("not run: secure: needs root, and a /tmp where programs may be set-id\n");
        skip();
    }
    assert_int_equal(status, 0);
    assert_int_equal(written, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_environment_of_a_user)};

    (void)argv;
    return argc == 2 ? privileged() : cmocka_run_group_tests_name("secure", tests, NULL, NULL);
}
