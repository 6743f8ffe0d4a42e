/* SPDX-License-Identifier: MIT */
/* Which thread closes descriptors in messages to a worker and from it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "vgb_fd.h"
#include "workers.h"

#define BYTES(i) ((64 << 20) + ((i) + 1) * 4096) /* of the file that a worker sends with message i */
#define MESSAGES 2

static pthread_t loop;
static unsigned by_loop[MESSAGES], by_thread[MESSAGES];

/* In the place of the C library's: notes which thread closes a worker's files. */
int close(int fd)
{
    struct stat st;

    for (int i = 0; !fstat(fd, &st) && i < MESSAGES; i++) {
        if (st.st_size == BYTES(i))
            __atomic_fetch_add(pthread_equal(pthread_self(), loop) ? &by_loop[i] : &by_thread[i], 1,
                               __ATOMIC_SEQ_CST);
    }
    return (int)syscall(SYS_close, fd);
}

void __real_brk_foreign_close(int fd);
void __wrap_brk_foreign_close(int fd);

static ino_t closed; /* by what waits for nobody and for no pages */
static unsigned times;

void __wrap_brk_foreign_close(int fd)
{
    struct stat st;

    if (!fstat(fd, &st))
        closed = st.st_ino;
    times++;
    __real_brk_foreign_close(fd);
}

/* A client's file waits in two messages: its last close may be the one here, and its pages may be many. */
static void test_last_close(void **state)
{
    struct brk_proc p = {.pid = 1};
    struct vgb_msg m = {.type = VGB_M_MAP};
    int fd = memfd_create("client", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct stat st;

    (void)state;
    assert_true(fd >= 0 && !fstat(fd, &st));
    assert_null(brk_out_push(&p, &m, &fd, 1));
    assert_null(brk_out_push(&p, &m, &fd, 1));
    close(fd);
    assert_int_equal(times, 0);
    brk_out_drop(&p);
    assert_int_equal(times, 1);
    assert_int_equal(closed, st.st_ino);
    assert_int_equal(p.nout, 0);
}

/* As a worker: sends files in memory, with a message that may have none and behind it, and ends. */
static int worker(void)
{
    struct vgb_msg m = {.type = VGB_M_BUSY};

    for (int i = 0; i < MESSAGES; i++) {
        int fd = memfd_create("worker", MFD_CLOEXEC);

        if (fd < 0 || fallocate(fd, 0, 0, BYTES(i)) || vgb_msg_send(3, &m, &fd, 1, 0))
            return 1;
    }
    return 0;
}

static struct brk_client *nobody(void)
{
    return NULL;
}

/* The last close of what a worker sends is the broker's. */
static void test_worker_sends(void **state)
{
    static const struct brk_pool_users users = {.waiting = nobody};
    siginfo_t si;

    (void)state;
    assert_true(readlink("/proc/self/exe", brk_opt.worker, sizeof(brk_opt.worker) - 1) > 0);
    brk_opt.sandbox = "off";
    brk_opt.shm_fd = brk_opt.cache_fd = -1;
    brk_opt.max_clients = 1;
    assert_int_equal(brk_loop_init(), 0);
    loop = pthread_self();
    assert_true(brk_pool_init(&users));
    assert_int_equal(waitid(P_ALL, 0, &si, WEXITED | WNOWAIT), 0);
    assert_int_equal(si.si_code, CLD_EXITED);
    assert_int_equal(si.si_status, 0);
    while (!waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT)) /* until it is reaped */
        assert_true(brk_loop_once(1000));
    for (int i = 0; i < MESSAGES; i++) {
        for (int k = 0; k < 60000 && !__atomic_load_n(&by_thread[i], __ATOMIC_SEQ_CST); k++)
            usleep(1000);
        assert_int_equal(by_thread[i], 1);
        assert_int_equal(by_loop[i], 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_last_close),
        cmocka_unit_test(test_worker_sends),
    };

    (void)argv;
    if (argc > 1)
        return worker();

    return cmocka_run_group_tests_name("out_close", tests, NULL, NULL);
}
