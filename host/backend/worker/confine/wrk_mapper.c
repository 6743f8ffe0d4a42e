/* SPDX-License-Identifier: MIT */
/*
 * The mapper: maps and unmaps guest memory in this process, supervised by the broker. It shares
 * this process's memory, so its mappings appear here, but not its descriptors, so the guest's RAM,
 * which the broker installs in its table, cannot be reached from here. Two system calls are left to
 * it, and the broker decides on each (seccomp user notification): getppid(), which waits for work
 * and returns the address of a struct vgb_job, and mmap(). All arguments are numbers, and the
 * kernel continues with those checked by the broker. Code and data of the mapper are in memory that
 * a compromised worker can write: it can have the mapper request other calls, which the broker
 * refuses.
 */
#define _GNU_SOURCE
#include "confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "vgb_plan.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif

#if defined(__x86_64__) && !defined(SANITIZED) && defined(SYS_close_range)

#define STACK 16384u
#define START_S 10

static inline long raw_syscall(long n, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long r;

    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return r;
}

#define LOAD(x) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, x))
#define IF(v, t, f) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, v, t, f)
#define END(v) BPF_STMT(BPF_RET | BPF_K, v)

/* The broker decides on these two calls; all others are unaffected. */
static struct sock_filter asks[] = {
    LOAD(arch),         IF(AUDIT_ARCH_X86_64, 1, 0), END(SECCOMP_RET_KILL_PROCESS), LOAD(nr),
    IF(SYS_mmap, 1, 0), IF(SYS_getppid, 0, 1),       END(SECCOMP_RET_USER_NOTIF),   END(SECCOMP_RET_ALLOW),
};
/* The second filter: nothing else is left but exit. */
static struct sock_filter leaves[] = {
    LOAD(nr),
    IF(SYS_mmap, 3, 0),
    IF(SYS_getppid, 2, 0),
    IF(SYS_exit_group, 1, 0),
    END(SECCOMP_RET_KILL_PROCESS),
    END(SECCOMP_RET_ALLOW),
};
/* Used to test whether this process could have a listener. */
static struct sock_filter nothing[] = {END(SECCOMP_RET_ALLOW)};

static struct sock_fprog ask_prog = {sizeof(asks) / sizeof(asks[0]), asks};
static struct sock_fprog leave_prog = {sizeof(leaves) / sizeof(leaves[0]), leaves};
static struct sock_fprog nothing_prog = {1, nothing};

/* Its announcement, prepared before it starts. */
static struct {
    int sock;
    pid_t broker;
    struct vgb_msg m;
    struct iovec iov;
    struct msghdr h;
    int *fds; /* in the control message: listener, maps */
    char control[CMSG_SPACE(2 * sizeof(int))] __attribute__((aligned(8)));
    _Atomic int state; /* 0: starting; 1: the broker has been told; else -errno */
} start;

static char stack[STACK] __attribute__((aligned(4096)));

_Noreturn static void mapper_end(void)
{
    for (;;)
        raw_syscall(SYS_exit_group, 0, 0, 0, 0, 0, 0);
}

static void mapper_state(int state)
{
    atomic_store(&start.state, state);
    raw_syscall(SYS_futex, (long)&start.state, FUTEX_WAKE, 1, 0, 0, 0);
}

static void mapper_do_job(struct vgb_job *job)
{
    for (uint32_t i = 0; i < job->n; i++) {
        uint64_t a[6];

        vgb_call_arguments(&job->calls[i], job->place, a);
        long r =
            raw_syscall(SYS_mmap, (long)a[0], (long)a[1], (long)a[2], (long)a[3], (long)a[4], (long)a[5]);

        if (r < 0 && r > -4096) {
            job->result = r;
            return;
        }
        job->done = i + 1;
    }
}

/* Announces itself to the broker and drops all but its two calls. */
static void mapper_confine(void)
{
    long r;

    raw_syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0, 0);
    raw_syscall(SYS_prctl, PR_SET_NAME, (long)"vgpu-mapper", 0, 0, 0, 0);
    if (start.broker && raw_syscall(SYS_getppid, 0, 0, 0, 0, 0, 0) != start.broker)
        mapper_end();
    start.m.value = (uint64_t)raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
    r = raw_syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, (long)&ask_prog,
                    0, 0, 0);
    if (r >= 0) {
        start.fds[0] = (int)r;
        r = raw_syscall(SYS_sendmsg, start.sock, (long)&start.h, MSG_NOSIGNAL, 0, 0, 0);
    }
    /* Closes all descriptors, including the listener. */
    if (r >= 0)
        r = raw_syscall(SYS_close_range, 0, (long)~0u, 0, 0, 0, 0);
    mapper_state(r < 0 ? (int)r : 1);
    if (r < 0 || raw_syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&leave_prog, 0, 0, 0))
        mapper_end();
}

static int mapper_main(void *arg)
{
    (void)arg;
    mapper_confine();
    for (;;) {
        long r = raw_syscall(SYS_getppid, 0, 0, 0, 0, 0, 0);
        if (r < 0 && r > -4096) /* the broker has exited */
            mapper_end();
        mapper_do_job((struct vgb_job *)(uintptr_t)r);
    }
    return 0;
}

static int filter_install(unsigned flags, struct sock_fprog *prog)
{
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, prog);
}

/* In a child that shares this process's memory, but not its descriptors. */
static int mapper_try_listener(void *arg)
{
    (void)arg;
    if (filter_install(SECCOMP_FILTER_FLAG_NEW_LISTENER, &nothing_prog) < 0)
        _exit(errno < 255 ? errno : 255);
    _exit(syscall(SYS_close_range, 0, ~0u, 0) ? ENOSYS : 0);
}

/*
 * Checks whether a child could have a listener: a process has a single listener for all its
 * filters, and if this process already runs under another listener, none is available. NULL, or the
 * reason.
 */
static const char *mapper_wanting(void)
{
    int status;
    /* Not fork(): copying the page tables, and a fault for each page written afterwards, cost 0.5 ms. */
    pid_t child = clone(mapper_try_listener, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);

    if (child < 0 || waitpid(child, &status, 0) != child)
        return "no process";
    if (WIFEXITED(status) && !WEXITSTATUS(status))
        return NULL;
    if (WIFEXITED(status) && WEXITSTATUS(status) == EBUSY)
        return "under another listener of seccomp";
    return "Linux 5.9 is needed";
}

static void mapper_prepare(int sock, pid_t broker, int maps)
{
    memset(&start, 0, sizeof(start));
    start.sock = sock;
    start.broker = broker;
    start.m.type = VGB_M_MAPPER;
    start.iov = (struct iovec){&start.m, sizeof(start.m)};
    start.h = (struct msghdr){.msg_iov = &start.iov,
                              .msg_iovlen = 1,
                              .msg_control = start.control,
                              .msg_controllen = sizeof(start.control)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&start.h);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(2 * sizeof(int));
    start.fds = (int *)(void *)CMSG_DATA(c);
    start.fds[1] = maps;
}

/* Waits for its announcement; returns its state, 0: never announced. */
static int mapper_await(void)
{
    struct timespec limit = {.tv_sec = START_S};
    int state;

    while (!(state = atomic_load(&start.state))) {
        if (syscall(SYS_futex, &start.state, FUTEX_WAIT, 0, &limit, NULL, 0) && errno == ETIMEDOUT)
            return atomic_load(&start.state);
    }
    return state;
}

int wrk_mapper_start(int sock, pid_t broker, char *err, size_t err_size)
{
    const char *why = mapper_wanting();
    sigset_t all, old;
    int state = 0;

    err[0] = '\0';
    if (why) {
        snprintf(err, err_size, "%s", why);
        return 1;
    }
    /* Read permission is checked on open. */
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

    if (maps < 0) {
        snprintf(err, err_size, "/proc/self/maps: %s", strerror(errno));
        return 1;
    }
    mapper_prepare(sock, broker, maps);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &old);
    pid_t pid = clone(mapper_main, stack + sizeof(stack), CLONE_VM | CLONE_PARENT | SIGCHLD, NULL);
    int e = errno;

    sigprocmask(SIG_SETMASK, &old, NULL);
    if (pid > 0)
        state = mapper_await();
    close(maps);
    if (state == 1)
        return 0;
    snprintf(err, err_size, "%s", strerror(pid < 0 ? e : state ? -state : ETIMEDOUT));
    return -1;
}

#else

int wrk_mapper_start(int sock, pid_t broker, char *err, size_t err_size)
{
    (void)sock, (void)broker;
    snprintf(err, err_size, "not in this build");
    return 1;
}

#endif
