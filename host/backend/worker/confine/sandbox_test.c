/* SPDX-License-Identifier: MIT */
/* The policies as they are built in: what they allow, what they refuse, what kills. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <pthread.h>
#include <seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "confine.h"
#include "in_sandbox.h"
#include "policy.h"

#define KILLED (-SIGSYS)

static int in_sandbox(bool soft, int (*fn)(void))
{
    return in_sandbox_with((struct wrk_sandbox){.provider = "libcuda.so.1"}, soft, NULL, fn);
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
    /* A large block grows by being copied. */
    unsigned char *block = malloc(8 << 20);
    if (!block)
        return 3;
    block[(8 << 20) - 1] = 7;
    unsigned char *longer = realloc(block, 16 << 20);
    if (!longer || longer[(8 << 20) - 1] != 7)
        return 4;
    free(longer);
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
    char *args[] = {(char *)(uintptr_t) "/bin/true", NULL};

    execve("/bin/true", args, NULL);
    return errno == EPERM || errno == EACCES ? 4 : 1;
}

static int do_read_home(void)
{
    /* Landlock: /etc is readable, /root and /home are not. No Landlock: nothing to see. */
    return open("/root", O_RDONLY | O_DIRECTORY) < 0 && open("/etc/passwd", O_RDONLY) >= 0 ? 6 : 1;
}

static char inner[64];

static int do_write_inside(void)
{
    char path[96];

    snprintf(path, sizeof(path), "%s/made", inner);
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) >= 0 ? 9 : 1;
}

/* The folder for compiled code in that of the provider, which is read-only: it can be written to all the same. */
static void test_inside(void **state)
{
    char outer[] = "/tmp/vgb-sandbox-XXXXXX", path[96];

    (void)state;
    assert_non_null(mkdtemp(outer));
    snprintf(inner, sizeof(inner), "%s/code", outer);
    assert_int_equal(mkdir(inner, 0777), 0);
    assert_int_equal(chmod(inner, 0777), 0); /* the worker is another user */
    assert_int_equal(chmod(outer, 0755), 0);
    snprintf(path, sizeof(path), "%s/libcuda.so.1", outer);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    const struct wrk_sandbox s = {.provider = path, .cache = inner};
    assert_int_equal(in_sandbox_with(s, false, NULL, do_write_inside), 9);
    unlink(path);
    snprintf(path, sizeof(path), "%s/made", inner);
    assert_int_equal(unlink(path), 0);
    rmdir(inner);
    assert_int_equal(rmdir(outer), 0);
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

/* ---- all system calls ---- */

#define NUMBERS 512 /* more than there are */
#define X32 0x40000000

enum verdict { ALLOWED, FAILS, KILLS };

/* What the text of a policy says of a call when its arguments fit no condition, found by other means
 * than the sandbox's own. `*conditional`: it is allowed for some arguments. */
static enum verdict verdict_of(const char *policy, const char *name, bool *conditional)
{
    enum verdict v = strstr(policy, "\ndefault errno ") ? FAILS : KILLS;
    const size_t n = strlen(name);

    *conditional = false;
    for (const char *p = policy; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
        char line[200];

        if (strncmp(p, name, n) || (p[n] != '\n' && p[n] != ' '))
            continue;
        snprintf(line, sizeof(line), "%.*s", (int)strcspn(p, "\n#"), p);
        if (strstr(line, " kill"))
            v = KILLS;
        else if (strstr(line, " arg"))
            *conditional = true; /* its "errno" lines too: what they leave is looked at below */
        else
            v = strstr(line, " errno ") ? FAILS : ALLOWED;
    }
    return v;
}

static const char *filter_policy;
static long filter_nr;
static long filter_args[6];

/* 1: was made or failed otherwise, 2: refused with an error of a policy, or minus the signal. */
static int in_filter(int (*fn)(void))
{
    int status;
    pid_t pid = fork();

    if (!pid) {
        char err[300];

        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (wrk_sandbox_filter(filter_policy, false, err, sizeof(err)))
            _exit(99);
        syscall(SYS_exit_group, fn());
    }
    if (waitpid(pid, &status, 0) != pid)
        return -1000;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static int do_filtered(void)
{
    const long *a = filter_args;
    long r = syscall(filter_nr, a[0], a[1], a[2], a[3], a[4], a[5]);

    return r == -1 && (errno == EPERM || errno == EACCES || errno == ENOSYS || errno == ENOMEM ||
                       errno == ENOENT)
               ? 2
               : 1;
}

/* Each number that the kernel could know; those that are allowed are not made. */
static void enumerate(const char *which, const char *policy)
{
    unsigned allowed = 0, conditional = 0, fails = 0, kills = 0;

    filter_policy = policy;
    memset(filter_args, 0, sizeof(filter_args));
    for (long nr = 0; nr < NUMBERS; nr++) {
        char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, (int)nr);
        bool some = false;
        enum verdict v = verdict_of(policy, name ? name : "?", &some);

        free(name);
        filter_nr = nr;
        /* uretprobe, uprobe: no filter is asked about these, which work in the kernel's own
         * trampolines alone. */
        if (nr == 335 || nr == 336)
            continue;
        if (some) {
            conditional++;
        } else if (v == ALLOWED) {
            allowed++;
        } else {
            int is = in_filter(do_filtered);

            if (is != (v == KILLS ? KILLED : 2))
                fail_msg("%s: call %ld gave %d", which, nr, is);
            *(v == KILLS ? &kills : &fails) += 1;
        }
    }
    print_message("%s: %u calls allowed, %u for some arguments, %u fail, %u kill\n", which, allowed,
                  conditional, fails, kills);
}

static void test_all_calls_soft(void **state)
{
    (void)state;
    enumerate("soft", wrk_policy_soft);
}

static void test_all_calls_nvidia(void **state)
{
    (void)state;
    enumerate("nvidia", wrk_policy_nvidia);
    enumerate("nvidia, at start", wrk_policy_nvidia_start);
    enumerate("mps", wrk_policy_mps);
    enumerate("mps, at start", wrk_policy_mps_start);
}

#if defined(__x86_64__)
static int do_compat(void)
{
    long r = filter_nr;

    /* The 32-bit interface: whatever the numbers mean there, the process ends. */
    __asm__ volatile("int $0x80" : "+a"(r) : "b"(0), "c"(0), "d"(0), "S"(0), "D"(0) : "memory");
    return 1;
}

/* Numbers of the other two interfaces of this processor. */
static void test_other_interfaces(void **state)
{
    const char *const policies[] = {wrk_policy_soft, wrk_policy_nvidia, wrk_policy_mps,
                                    wrk_policy_nvidia_start, wrk_policy_mps_start};
    unsigned n = 0;

    (void)state;
    for (unsigned i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
        filter_policy = policies[i];
        for (long nr = 0; nr < NUMBERS + 64; nr += i ? 7 : 1) {
            filter_nr = X32 | nr;
            assert_int_equal(in_filter(do_filtered), KILLED);
            filter_nr = nr;
            assert_int_equal(in_filter(do_compat), KILLED);
            n += 2;
        }
    }
    print_message("other interfaces: %u calls kill\n", n);
}
#endif

/* ---- arguments ---- */

#define OTHER (-1) /* replaced by the id of another process */
#define SELF (-2)  /* by that of the one that calls */

struct use {
    const char *what;
    long nr, args[6];
    int soft, nvidia; /* 1: made; 2: fails; KILLED */
};

static int do_use(void)
{
    for (unsigned i = 0; i < 6; i++) {
        if (filter_args[i] == SELF)
            filter_args[i] = getpid();
        else if (filter_args[i] == OTHER)
            filter_args[i] = getppid();
    }
    return do_filtered();
}

static void test_arguments(void **state)
{
    static char page[2 * 4096] __attribute__((aligned(4096)));
    static const struct use uses[] = {
        {"a signal 0 to itself", SYS_tgkill, {SELF, SELF, 0}, 1, 1},
        {"a signal 0 to another", SYS_tgkill, {OTHER, OTHER, 0}, KILLED, 2},
        {"F_GETFD", SYS_fcntl, {0, F_GETFD}, 1, 1},
        {"F_SETOWN", SYS_fcntl, {0, F_SETOWN, OTHER}, KILLED, 2},
        {"F_SETOWN_EX", SYS_fcntl, {0, 15, 0}, KILLED, 2},
        {"F_SETSIG", SYS_fcntl, {0, 10, 9}, KILLED, 2},
        {"F_NOTIFY", SYS_fcntl, {0, 1026, 0}, KILLED, 2},
        {"F_SETLEASE", SYS_fcntl, {0, 1024, 0}, KILLED, 2},
        {"F_SETPIPE_SZ", SYS_fcntl, {0, 1031, 0}, KILLED, 2},
        {"O_NONBLOCK", SYS_fcntl, {0, F_SETFL, O_NONBLOCK}, 1, 1},
        {"O_ASYNC", SYS_fcntl, {0, F_SETFL, 0x2000 | O_NONBLOCK}, KILLED, 2},
        {"without O_NONBLOCK", SYS_fcntl, {0, F_SETFL, O_APPEND}, KILLED, 2},
        {"own affinity", SYS_sched_setaffinity, {0, 0, 0}, 1, 1},
        {"another's affinity", SYS_sched_setaffinity, {OTHER, 0, 0}, KILLED, 2},
        {"another's limits", SYS_prlimit64, {OTHER, 7, 0, 0}, KILLED, 2},
        {"own limits", SYS_prlimit64, {0, 7, 0, 0}, KILLED, 1},
        {"a clock", SYS_clock_gettime, {CLOCK_MONOTONIC, (long)page}, 1, 1},
        {"the clock of process 1", SYS_clock_gettime, {-14, (long)page}, KILLED, 2},
        {"a process", SYS_clone, {SIGCHLD}, KILLED, 2},
        {"a thread in a namespace", SYS_clone, {0x10000000 | 0x10100}, KILLED, 2},
        {"clone3", SYS_clone3, {0, 0}, 2, 2},
        {"code", SYS_mmap, {0, 4096, PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -3, 0}, KILLED, 1},
        {"code later", SYS_mprotect, {(long)page, 0, PROT_EXEC}, KILLED, 1},
        {"MADV_DONTNEED", SYS_madvise, {(long)page, 4096, 4}, 1, 1},
        {"MADV_MERGEABLE", SYS_madvise, {(long)page, 4096, 12}, KILLED, 2},
        {"MADV_MERGEABLE in 32 bits", SYS_madvise, {(long)page, 4096, 0x10000000c}, KILLED, 2},
        {"MADV_PAGEOUT", SYS_madvise, {(long)page, 4096, 21}, KILLED, 2},
        {"MADV_REMOVE", SYS_madvise, {(long)page, 4096, 9}, KILLED, 2},
        {"MADV_REMOVE in 32 bits", SYS_madvise, {(long)page, 4096, 0x100000009}, KILLED, 2},
        {"a hole in its file", SYS_fallocate, {1000, 3, 0, 4096}, 1, 1},
        {"a hole in 32 bits", SYS_fallocate, {1000, 0x100000003, 0, 4096}, 1, 1},
        {"room in its file", SYS_fallocate, {1000, 0, 0, 4096}, KILLED, 1},
        {"a range of its file collapsed", SYS_fallocate, {1000, 8, 0, 4096}, KILLED, 1},
        {"where a file's pages are", SYS_mbind, {(long)page, 4096, 2, 0, 0, 0}, KILLED, 2},
        {"a longer mapping", SYS_mremap, {(long)page, 4096, 8192, 1}, 2, 2},
        {"a shorter mapping", SYS_mremap, {(long)page, 8192, 4096, 0}, 2, 2},
        {"more from nothing", SYS_mremap, {(long)page, 0, 8192, 1}, 2, 2},
        {"a page from nothing", SYS_mremap, {(long)page, 0, 4096, 1}, 2, 2},
        {"a mapping moved", SYS_mremap, {(long)page, 4096, 4096, 3, (long)page + 4096}, 2, 2},
        {"a second mapping", SYS_mremap, {(long)page, 4096, 4096, 5}, 2, 2},
        {"other pages of the file", SYS_remap_file_pages, {(long)page, 4096, 0, 1, 0}, KILLED, KILLED},
        {"PR_SET_NAME", SYS_prctl, {PR_SET_NAME, (long)page}, 1, 1},
        {"PR_SET_DUMPABLE", SYS_prctl, {PR_SET_DUMPABLE, 1}, KILLED, 2},
        {"PR_SET_PTRACER", SYS_prctl, {PR_SET_PTRACER, OTHER}, KILLED, 2},
        {"PR_SET_PDEATHSIG", SYS_prctl, {PR_SET_PDEATHSIG, 0}, KILLED, 2},
        {"another filter", SYS_seccomp, {1, 0, 0}, KILLED, 2},
        {"ioctl of the driver", SYS_ioctl, {0, 0xc00046c8, 0}, KILLED, 1},
        {"ioctl of nvidia-uvm", SYS_ioctl, {0, 0x30000001, 0}, KILLED, 1},
        {"FIOSETOWN", SYS_ioctl, {0, 0x8901, (long)page}, KILLED, 2},
        {"SIOCSPGRP", SYS_ioctl, {0, 0x8902, (long)page}, KILLED, 2},
        {"FIOASYNC", SYS_ioctl, {0, 0x5452, (long)page}, KILLED, 2},
        {"TIOCSTI", SYS_ioctl, {0, 0x5412, (long)page}, KILLED, 2},
    };
    unsigned n = 0;

    (void)state;
    for (unsigned i = 0; i < sizeof(uses) / sizeof(uses[0]); i++) {
        for (unsigned soft = 0; soft < 2; soft++, n++) {
            filter_policy = soft ? wrk_policy_soft : wrk_policy_nvidia;
            filter_nr = uses[i].nr;
            memcpy(filter_args, uses[i].args, sizeof(filter_args));
            int is = in_filter(do_use), want = soft ? uses[i].soft : uses[i].nvidia;

            if (is != want)
                fail_msg("%s, policy %s: %d, not %d", uses[i].what, soft ? "soft" : "nvidia", is, want);
        }
    }
    /* Every prctl() but the two for names; every ioctl() on a socket that sets an owner is above. */
    for (long option = 0; option < 80; option++, n++) {
        filter_policy = wrk_policy_nvidia;
        filter_nr = SYS_prctl;
        memset(filter_args, 0, sizeof(filter_args));
        filter_args[0] = option;
        if (option != PR_SET_NAME && option != PR_GET_NAME)
            assert_int_equal(in_filter(do_use), 2);
    }
    print_message("arguments: %u uses\n", n);
}

static int bad_policy(const char *text)
{
    char err[300] = "";

    return wrk_sandbox_filter(text, false, err, sizeof(err)) && strstr(err, "not understood") ? 5 : 1;
}

static int try_bad_policies(void)
{
    static const char *const bad[] = {
        "no_such_call\n",        "read errno EWHAT\n",      "read arg9 & 1 == 1\n",
        "read something else\n", "read arg1 & 1 == what\n", "read arg1 & 1 == 1 errno EWHAT\n",
        "read arg1 != 1 2\n",    "read arg1 != \n",         "read arg0 != 0 arg1 != 0 arg2 != 0 arg3 != 0\n"};

    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
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

/* What the build compiled is what libseccomp makes of the text, for this process. */
static void test_compiled(void **state)
{
    (void)state;
    assert_int_equal(wrk_policy_codes_n, 5);
    for (unsigned i = 0; i < wrk_policy_codes_n; i++) {
        const struct wrk_policy_code *p = &wrk_policy_codes[i];
        const struct wrk_policy_use use = {.self = (uint64_t)getpid(), .starting = p->starting};
        const size_t size = p->n * sizeof(struct sock_filter);
        struct sock_filter *compiled = wrk_policy_code_for(p, (uint32_t)getpid());
        char err[300], *exported = malloc(size + 1);
        scmp_filter_ctx ctx = wrk_policy_build(p->policy, &use, err, sizeof(err));
        int fd = memfd_create("policy", MFD_CLOEXEC);

        assert_non_null(ctx);
        assert_int_equal(seccomp_export_bpf(ctx, fd), 0);
        assert_int_equal(pread(fd, exported, size + 1, 0), size);
        assert_memory_equal(exported, compiled, size);
        assert_memory_not_equal(exported, p->code, size); /* the process id is in it */
        close(fd);
        seccomp_release(ctx);
        free(compiled);
        free(exported);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_soft),
        cmocka_unit_test(test_soft_files),
        cmocka_unit_test(test_nvidia),
        cmocka_unit_test(test_inside),
        cmocka_unit_test(test_all_calls_soft),
        cmocka_unit_test(test_all_calls_nvidia),
#if defined(__x86_64__)
        cmocka_unit_test(test_other_interfaces),
#endif
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_bad_policies),
        cmocka_unit_test(test_compiled),
    };

    return cmocka_run_group_tests_name("sandbox", tests, NULL, NULL);
}
