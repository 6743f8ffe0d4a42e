/* SPDX-License-Identifier: MIT */
/* Which thread closes the windows that QEMU has given. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "vgb_fd.h"
#include "vu.h"

#define TABLES 2
#define BYTES(i) ((64u << 20) + ((i) + 1) * 4096u) /* of the windows in table i */
#define CLOSES 2                                   /* of each: the table's descriptor and the device's */

static pthread_t loop;
static unsigned by_loop[TABLES], by_thread[TABLES];
static bool counts;

/* In the place of the C library's: notes which thread closes the windows. */
int close(int fd)
{
    struct stat st;

    for (int i = 0; counts && i < TABLES && !fstat(fd, &st); i++) {
        if (st.st_size == BYTES(i))
            __atomic_fetch_add(pthread_equal(pthread_self(), loop) ? &by_loop[i] : &by_thread[i], 1,
                               __ATOMIC_SEQ_CST);
    }
    return (int)syscall(SYS_close, fd);
}

/* A table with nothing but windows, all of whose pages exist. */
static void send_windows(int sock, int i)
{
    struct {
        struct brk_vu_header h;
        uint8_t table[8 + sizeof(struct brk_vu_region)];
    } m = {.h = {BRK_VU_SET_MEM_TABLE, BRK_VU_VERSION, sizeof(m.table)}};
    const struct brk_vu_payload_mem p = {.nregions = 1,
                                         .regions = {{.gpa = 1u << 30, .size = BYTES(i), .uva = 1u << 30}}};
    int fd = memfd_create("vgpu-windows", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    memcpy(m.table, &p, sizeof(m.table));
    assert_true(fd >= 0 && !fallocate(fd, 0, 0, BYTES(i)));
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL), 0);
    assert_int_equal(vgb_send_fds(sock, &m, sizeof(m), &fd, 1, 0), sizeof(m));
    syscall(SYS_close, fd);
}

static void wait_closed(int i)
{
    for (int k = 0; k < 60000 && __atomic_load_n(&by_thread[i], __ATOMIC_SEQ_CST) < CLOSES &&
                    !__atomic_load_n(&by_loop[i], __ATOMIC_SEQ_CST);
         k++)
        usleep(1000);
    assert_int_equal(by_loop[i], 0);
    assert_int_equal(by_thread[i], CLOSES);
}

/* QEMU has closed its own descriptors: the pages end with those of the broker. */
static void test_windows(void **state)
{
    int pair[2];

    (void)state;
    brk_opt.max_clients = 1;
    brk_opt.window_size = VGP_WINDOW_MIN;
    assert_int_equal(brk_loop_init(), 0);
    loop = pthread_self();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(brk_vu_start(NULL, pair[0], true), 0);
    counts = true;
    send_windows(pair[1], 0);
    while (brk_vu_dev.windows_size != BYTES(0))
        assert_true(brk_loop_once(10000));
    send_windows(pair[1], 1); /* others in their place */
    while (brk_vu_dev.windows_size != BYTES(1))
        assert_true(brk_loop_once(10000));
    wait_closed(0);
    syscall(SYS_close, pair[1]); /* QEMU ends */
    while (brk_loop_once(10000))
        ;
    assert_int_equal(brk_vu_dev.windows_fd, -1);
    wait_closed(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_windows)};

    return cmocka_run_group_tests_name("vu_close", tests, NULL, NULL);
}
