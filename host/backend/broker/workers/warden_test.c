/* SPDX-License-Identifier: MIT */
/* How the broker sees whether guest memory is mapped in a worker: here, in itself. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
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
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/testing/range.h"
#include "vgb_fd.h"
#include "workers.h"

#define PAGE 4096u
#define ROUNDS 1000u
#define PAGES 3000u /* their lines do not fit into one read */

static int maps, file;
static uint8_t *place;

static int setup(void **state)
{
    (void)state;
    maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    file = memfd_create("ram", MFD_CLOEXEC);
    place = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return maps < 0 || file < 0 || ftruncate(file, PAGES * PAGE) || place == MAP_FAILED;
}

static void put(unsigned page, unsigned n, int prot)
{
    assert_ptr_equal(mmap(place + page * PAGE, n * PAGE, prot, MAP_SHARED | MAP_FIXED, file, 0),
                     place + page * PAGE);
}

static void take(unsigned page, unsigned n)
{
    assert_ptr_equal(mmap(place + page * PAGE, n * PAGE, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0),
                     place + page * PAGE);
}

static unsigned parts; /* of the last look */

static int by_text(int fd, uint64_t at, uint64_t length)
{
    static struct brk_look look;
    int have = BRK_LOOK_MORE;

    brk_look_begin(&look, fd, at, length);
    for (parts = 0; have == BRK_LOOK_MORE; parts++)
        have = brk_look_on(&look);
    return have;
}

/* By both ways the same, where the kernel has both. */
static int seen(unsigned page, unsigned n)
{
    uint64_t at = (uintptr_t)place + page * PAGE;
    int asked = brk_maps_ask(maps, at, n * PAGE), text = by_text(maps, at, n * PAGE);

    assert_true(asked == text || asked == BRK_LOOK_MORE);
    return text;
}

static void test_edges(void **state)
{
    (void)state;
    assert_int_equal(seen(0, PAGES), 0);
    put(10, 4, PROT_READ);
    assert_int_equal(seen(0, 10), 0);
    assert_int_equal(seen(0, 11), 1);
    assert_int_equal(seen(11, 1), 1);
    assert_int_equal(seen(13, 5), 1);
    assert_int_equal(seen(14, 5), 0);
    assert_int_equal(seen(0, PAGES), 1);
    take(10, 3);
    assert_int_equal(seen(10, 4), 1); /* a page was left */
    assert_int_equal(seen(10, 3), 0);
    take(13, 1);
    assert_int_equal(seen(0, PAGES), 0);
    put(10, 1, PROT_NONE); /* what cannot be read now can be made readable */
    assert_int_equal(seen(10, 1), 1);
    take(10, 1);
}

/* The last one of many. */
static void test_many(void **state)
{
    (void)state;
    for (unsigned i = 0; i + 2 < PAGES; i += 2)
        assert_int_equal(mprotect(place + i * PAGE, PAGE, PROT_READ), 0);
    assert_int_equal(seen(0, PAGES), 0);
    /* None of its parts is longer than what one look reads at once. */
    assert_uint_in_range(parts, PAGES / 600, PAGES);
    put(PAGES - 1, 1, PROT_READ | PROT_WRITE);
    assert_int_equal(seen(0, PAGES), 1);
    assert_int_equal(seen(0, PAGES - 1), 0);
    take(PAGES - 1, 1);
    assert_int_equal(seen(0, PAGES), 0);
}

/* A list that cannot be read says nothing: the worker is ended. */
static void test_unreadable(void **state)
{
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

    (void)state;
    assert_int_equal(brk_maps_ask(fd, (uintptr_t)place, PAGE), BRK_LOOK_MORE);
    assert_int_equal(by_text(fd, (uintptr_t)place, PAGE), -1);
    close(fd);
}

static unsigned bad, gone;

static void on_bad(void *arg, const char *why)
{
    (void)why;
    bad++;
    brk_warden_kill(*(struct brk_warden **)arg);
}

static void on_done(void *arg, uint32_t region, bool taken)
{
    (void)arg;
    (void)region;
    (void)taken;
}

static void on_gone(void *arg)
{
    (void)arg;
    gone++;
}

/* A mapper that asks for work: the descriptors that the broker gets of it. */
static pid_t start_mapper(int fds[2])
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
    int pair[2];
    unsigned n = 2;
    char byte;

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    pid_t pid = fork();

    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        fds[1] = open("/proc/self/maps", O_RDONLY);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
            _exit(1);
        fds[0] =
            (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
        vgb_send_fds(pair[1], "", 1, fds, fds[0] >= 0 ? 2 : 0, 0);
        for (;;)
            syscall(SYS_getppid);
    }
    assert_int_equal(vgb_recv_fds(pair[0], &byte, 1, fds, &n, 0), 1);
    close(pair[0]);
    close(pair[1]);
    if (n == 2)
        return pid;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return -1;
}

/* poll() refuses where the limit of descriptors is lower than what it is asked for: the mapper is ended, the loop rests. */
static void test_poll_refuses(void **state)
{
    static const struct brk_warden_ops ops = {on_bad, on_done, on_gone};
    struct brk_warden *w = NULL;
    struct rlimit was, none;
    int fds[2];

    (void)state;
    assert_int_equal(brk_loop_init(), 0);
    pid_t pid = start_mapper(fds);

    if (pid < 0)
        skip(); /* under another listener */
    w = brk_warden_new(&ops, &w, pid, fds);
    assert_non_null(w);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    none = (struct rlimit){0, was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    for (unsigned i = 0; i < ROUNDS && !gone; i++)
        assert_true(brk_loop_once(i ? 10 : -1));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    assert_int_equal(bad, 1);
    assert_int_equal(gone, 1);
    brk_warden_free(w);
}

/* The owner of the guest's memory, a file of tmpfs, has a lease: opening it again for reading waits for nobody. */
static void test_lease(void **state)
{
    static const struct brk_warden_ops ops = {on_bad, on_done, on_gone};
    char path[] = "/dev/shm/vgpu-warden.XXXXXX";
    struct brk_warden *w = NULL;
    int fds[2], ram = mkstemp(path);

    (void)state;
    assert_true(ram >= 0 && !unlink(path));
    if (fcntl(ram, F_SETLEASE, F_WRLCK))
        skip();
    signal(SIGIO, SIG_IGN);
    bad = gone = 0;
    assert_int_equal(brk_loop_init(), 0);
    pid_t pid = start_mapper(fds);

    if (pid < 0)
        skip(); /* under another listener */
    w = brk_warden_new(&ops, &w, pid, fds);
    assert_non_null(w);
    alarm(10); /* less than /proc/sys/fs/lease-break-time */
    assert_int_equal(brk_warden_file(w, ram, true), -1);
    alarm(0);
    assert_int_equal(fcntl(ram, F_SETLEASE, F_UNLCK), 0);
    assert_true(brk_warden_file(w, ram, true) >= 0);
    brk_warden_kill(w);
    while (!gone)
        assert_true(brk_loop_once(1000));
    brk_warden_free(w);
    close(ram);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edges),        cmocka_unit_test(test_many),  cmocka_unit_test(test_unreadable),
        cmocka_unit_test(test_poll_refuses), cmocka_unit_test(test_lease),
    };

    return cmocka_run_group_tests_name("warden", tests, setup, NULL);
}
