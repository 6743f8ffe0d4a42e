/* SPDX-License-Identifier: MIT */
/* The mapper alone: what it shows its broker, and what is left to one that was taken over. */
#define wrk_mapper_start mapper_start_here /* the worker's own is linked, too */
#include "wrk_mapper.c"
#undef wrk_mapper_start

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "vgb_fd.h"

#ifdef SANITIZED

int main(void)
{
    printf("not run: mapper: there is none in a build with a sanitizer\n");
    return 0;
}

#else

#define PAGE 4096u

/* In memory that the worker, its mapper and the test see. */
static struct {
    struct vgb_job job;
    struct vgb_call call;
    long number; /* of a system call that a mapper which was taken over makes */
} * shared;

static struct {
    pid_t worker, mapper;
    int sock, listener, maps;
} t;

/* The same start; then what the worker's memory has been changed to make of it. */
static int taken_over(void *arg)
{
    (void)arg;
    mapper_confine();
    raw_syscall(SYS_getppid, 0, 0, 0, 0, 0, 0);
    raw_syscall(shared->number, 0, 0, 0, 0, 0, 0);
    mapper_end();
}

static int worker_main(int sock, pid_t broker, bool over)
{
    char why[100];

    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (over) {
        int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

        mapper_prepare(sock, broker, maps);
        if (clone(taken_over, stack + sizeof(stack), CLONE_VM | CLONE_PARENT | SIGCHLD, NULL) < 0)
            return 1;
        if (mapper_await() != 1)
            return 1;
    } else if (mapper_start_here(sock, broker, why, sizeof(why))) {
        return 1;
    }
    for (;;)
        pause();
}

/* A worker, and its mapper in its first question. */
static void begin(bool over)
{
    struct vgb_msg m;
    int pair[2], fds[2];
    unsigned nfds = 2;

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    t.worker = fork();
    if (!t.worker) {
        pid_t broker = getppid();

        close(pair[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(worker_main(pair[1], broker, over));
    }
    close(pair[1]);
    t.sock = pair[0];
    assert_int_equal(vgb_msg_recv(t.sock, &m, fds, &nfds, 0), 1);
    assert_int_equal(m.type, VGB_M_MAPPER);
    assert_int_equal(nfds, 2);
    t.mapper = (pid_t)m.value;
    t.listener = fds[0];
    t.maps = fds[1];
}

static void end(void)
{
    kill(t.worker, SIGKILL);
    kill(t.mapper, SIGKILL);
    waitpid(t.worker, NULL, 0);
    waitpid(t.mapper, NULL, 0);
    close(t.sock);
    close(t.listener);
    close(t.maps);
}

static void question(struct seccomp_notif *q)
{
    memset(q, 0, sizeof(*q));
    assert_int_equal(ioctl(t.listener, SECCOMP_IOCTL_NOTIF_RECV, q), 0);
    assert_int_equal(q->pid, t.mapper);
}

static void answer(const struct seccomp_notif *q, uint64_t value, int error, uint32_t flags)
{
    struct seccomp_notif_resp r = {.id = q->id, .val = (int64_t)value, .error = error, .flags = flags};

    assert_int_equal(ioctl(t.listener, SECCOMP_IOCTL_NOTIF_SEND, &r), 0);
}

static unsigned descriptors_of(pid_t pid)
{
    char path[40];
    struct dirent *e;
    unsigned n = 0;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *d = opendir(path);
    assert_non_null(d);
    while ((e = readdir(d)))
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* It asks for what its job says, with the numbers that the broker works out, and hears what the kernel says. */
static void test_asks(void **state)
{
    struct seccomp_notif q;
    uint64_t args[6];

    (void)state;
    begin(false);
    question(&q);
    assert_int_equal(q.data.nr, SYS_getppid);
    assert_int_equal(descriptors_of(t.mapper), 0);
    shared->call =
        (struct vgb_call){.at = PAGE, .length = PAGE, .offset = 3 * PAGE, .file = 9, .prot = PROT_READ};
    shared->job = (struct vgb_job){.place = 0x200000000000, .calls = &shared->call, .n = 1};
    answer(&q, (uintptr_t)&shared->job, 0, 0);
    question(&q);
    assert_int_equal(q.data.nr, SYS_mmap);
    vgb_call_arguments(&shared->call, shared->job.place, args);
    assert_memory_equal(q.data.args, args, sizeof(args));
    answer(&q, 0, -EPERM, 0);
    question(&q);
    assert_int_equal(q.data.nr, SYS_getppid);
    assert_int_equal(shared->job.result, -EPERM);
    assert_int_equal(shared->job.done, 0);
    /* The next one is made. */
    shared->call = (struct vgb_call){.length = PAGE, .file = VGB_CALL_NO_FILE, .prot = PROT_NONE};
    shared->job.result = 0;
    answer(&q, (uintptr_t)&shared->job, 0, 0);
    question(&q);
    vgb_call_arguments(&shared->call, shared->job.place, args);
    assert_memory_equal(q.data.args, args, sizeof(args));
    answer(&q, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
    question(&q);
    assert_int_equal(shared->job.result, 0);
    assert_int_equal(shared->job.done, 1);
    end();
}

/* When the broker lets go of the listener the mapper ends by itself. */
static void test_ends(void **state)
{
    struct seccomp_notif q;
    int status = 0;

    (void)state;
    begin(false);
    question(&q);
    close(t.listener);
    assert_int_equal(waitpid(t.mapper, &status, 0), t.mapper);
    assert_true(WIFEXITED(status));
    t.listener = dup(t.sock);
    end();
}

/* Its code and stack can be written by a worker that was taken over: no other call is left to it. */
static void test_taken_over(void **state)
{
    static const long calls[] = {SYS_sendmsg, SYS_recvmsg,  SYS_read,   SYS_openat,
                                 SYS_clone,   SYS_seccomp,  SYS_mremap, SYS_mprotect,
                                 SYS_dup,     SYS_fcntl,    SYS_ptrace, SYS_kill,
                                 SYS_munmap,  SYS_vmsplice, SYS_execve, SYS_mmap | 0x40000000};

    (void)state;
    for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        struct seccomp_notif q;
        int status = 0;

        shared->number = calls[i];
        begin(true);
        question(&q);
        answer(&q, 0, 0, 0);
        assert_int_equal(waitpid(t.mapper, &status, 0), t.mapper);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGSYS);
        assert_int_equal(kill(t.worker, 0), 0);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_asks),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_taken_over),
    };

    alarm(100); /* what waits for a mapper waits for ever, should that not do as it is told */
    shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    return cmocka_run_group_tests_name("mapper", tests, NULL, NULL);
}

#endif
