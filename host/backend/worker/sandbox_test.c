/* SPDX-License-Identifier: MIT */
/* The policies as they are built in: what they allow, what they refuse, what kills. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sandbox.h"
#include "worker.h"

#define KILLED (-SIGSYS)

/* Runs fn in a sandboxed child: its return value, or minus the signal that ended it. */
static int in_sandbox(bool soft, int (*fn)(void))
{
    int status;
    pid_t pid = fork();

    if (!pid) {
        char err[300];

        if (vgb_sandbox_enter(soft, err, sizeof(err))) {
            fprintf(stderr, "%s\n", err);
            _exit(99);
        }
        syscall(SYS_exit_group, fn());
    }
    if (waitpid(pid, &status, 0) != pid)
        return -1000;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static int do_nothing(void)
{
    return 7;
}

static void *in_thread(void *arg)
{
    *(volatile int *)arg = 1;
    return NULL;
}

static int use_what_is_needed(void)
{
    volatile int seen = 0;
    pthread_t t;
    void *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED || pthread_create(&t, NULL, in_thread, (void *)(uintptr_t)&seen) ||
        pthread_join(t, NULL) || !seen)
        return 1;
    memset(p, 1, 1 << 20);
    munmap(p, 1 << 20);
    free(malloc(64 << 20));
    return getpid() > 0 ? 0 : 2;
}

static int do_open(void)
{
    return open("/etc/passwd", O_RDONLY) < 0 && errno == EACCES ? 0 : 1;
}

static int do_exec_memory(void)
{
    mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return 1;
}

static int do_fork(void)
{
    syscall(SYS_fork);
    return 1;
}

static int do_socket(void)
{
    int r = socket(AF_INET, SOCK_STREAM, 0);

    return r < 0 && errno == EPERM ? 3 : 1;
}

/* A thread may choose among the processors for itself, for nobody else. */
static int do_affinity(void)
{
    unsigned long cpus[16];
    long n = syscall(SYS_sched_getaffinity, 0, sizeof(cpus), cpus);

    return n > 0 && !syscall(SYS_sched_setaffinity, 0, n, cpus) ? 8 : 1;
}

static int do_affinity_of_another(void)
{
    unsigned long cpus[16] = {1};

    syscall(SYS_sched_setaffinity, getppid(), sizeof(cpus), cpus);
    return 1;
}

/* A file that was open before does not grow, unless it is the log. */
static int file;
static int do_write_file(void)
{
    return write(file, "x", 1) == 1 ? 2 : errno == EFBIG ? 3 : 1;
}

static int do_nr(long nr)
{
    syscall(nr, 0, 0, 0, 0, 0, 0);
    return 1;
}

static long forbidden_nr;
static int do_forbidden(void)
{
    return do_nr(forbidden_nr);
}

static void test_runs(void **state)
{
    (void)state;
    assert_int_equal(in_sandbox(true, do_nothing), 7);
    assert_int_equal(in_sandbox(false, do_nothing), 7);
    assert_int_equal(in_sandbox(true, use_what_is_needed), 0);
    assert_int_equal(in_sandbox(false, use_what_is_needed), 0);
}

static void test_soft(void **state)
{
    (void)state;
    assert_int_equal(in_sandbox(true, do_open), 0);
    assert_int_equal(in_sandbox(true, do_exec_memory), KILLED);
    assert_int_equal(in_sandbox(true, do_fork), KILLED);
    assert_int_equal(in_sandbox(true, do_socket), KILLED);
    assert_int_equal(in_sandbox(true, do_affinity), 8);
    assert_int_equal(in_sandbox(true, do_affinity_of_another), KILLED);
}

static void test_soft_files(void **state)
{
    char name[] = "/tmp/vgb-sandbox-test.XXXXXX";

    (void)state;
    file = mkstemp(name);
    assert_true(file >= 0);
    unlink(name);
    unsetenv("VGPU_SOFT_LOG");
    assert_int_equal(in_sandbox(true, do_write_file), 3);
    setenv("VGPU_SOFT_LOG", "stderr", 1);
    assert_int_equal(in_sandbox(true, do_write_file), 3);
    setenv("VGPU_SOFT_LOG", name, 1);
    assert_int_equal(in_sandbox(true, do_write_file), 2);
    unsetenv("VGPU_SOFT_LOG");
    close(file);
}

static int do_exec(void)
{
    char *args[] = {(char *)(uintptr_t)"/bin/true", NULL};

    execve("/bin/true", args, NULL);
    return errno == EPERM || errno == EACCES ? 4 : 1;
}

static int do_read_home(void)
{
    /* Landlock: /etc is readable, /root and /home are not. No Landlock: nothing to see. */
    return open("/root", O_RDONLY | O_DIRECTORY) < 0 && open("/etc/passwd", O_RDONLY) >= 0 ? 6 : 1;
}

static void test_nvidia(void **state)
{
    (void)state;
    assert_int_equal(in_sandbox(false, do_exec), 4);
    if (syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) > 0)
        assert_int_equal(in_sandbox(false, do_read_home), 6);
    else
        fprintf(stderr, "not run: landlock: this kernel has none\n");
    assert_int_equal(in_sandbox(false, do_socket), 3);
}

static void test_forbidden_in_both(void **state)
{
    static const long list[] = {
        SYS_ptrace,      SYS_process_vm_readv, SYS_mount,     SYS_setuid,      SYS_init_module,
        SYS_bpf,         SYS_perf_event_open,  SYS_keyctl,    SYS_unshare,     SYS_setns,
        SYS_kexec_load,  SYS_reboot,           SYS_io_uring_setup, SYS_userfaultfd,
        SYS_pidfd_getfd, SYS_accept4,          SYS_listen,    SYS_chroot,      SYS_kill};

    (void)state;
    for (unsigned i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        forbidden_nr = list[i];
        assert_int_equal(in_sandbox(true, do_forbidden), KILLED);
        assert_int_equal(in_sandbox(false, do_forbidden), KILLED);
    }
}

static int bad_policy(const char *text)
{
    char err[300] = "";

    return vgb_sandbox_filter(text, err, sizeof(err)) && strstr(err, "not understood") ? 5 : 1;
}

static int try_bad_policies(void)
{
    static const char *const bad[] = {"no_such_call\n", "read errno EWHAT\n",
                                      "read arg9 & 1 == 1\n", "read something else\n"};

    for (unsigned i = 0; i < 4; i++) {
        if (bad_policy(bad[i]) != 5)
            return 1;
    }
    return 5;
}

static void test_bad_policies(void **state)
{
    (void)state;
    assert_int_equal(try_bad_policies(), 5); /* refused before anything is installed */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_soft), cmocka_unit_test(test_soft_files),
        cmocka_unit_test(test_nvidia),
        cmocka_unit_test(test_forbidden_in_both),
        cmocka_unit_test(test_bad_policies),
    };

    return cmocka_run_group_tests_name("sandbox", tests, NULL, NULL);
}
