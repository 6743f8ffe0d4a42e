/* SPDX-License-Identifier: MIT */
/* QEMU shortens the file of its memory, which the broker then reads: the connection ends, and nothing else. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "vgb_fd.h"
#include "vu.h"

#define RAM_BYTES 0x10000u
#define RAM_UVA UINT64_C(0x7f0000000000)

static int qemu, ram;

static void nothing(void)
{
}

static void send_message(uint32_t request, const void *payload, uint32_t size, const int *fds, unsigned nfds)
{
    struct {
        struct brk_vu_header h;
        uint8_t payload[64];
    } m = {.h = {request, BRK_VU_VERSION, size}};

    assert_true(size <= sizeof(m.payload));
    memcpy(m.payload, payload, size);
    assert_int_equal(vgb_send_fds(qemu, &m, sizeof(m.h) + size, fds, nfds, 0), sizeof(m.h) + size);
}

static void start(void)
{
    struct brk_vu_payload_mem table = {.nregions = 1, .regions = {{.size = RAM_BYTES, .uva = RAM_UVA}}};
    int pair[2];

    brk_opt.max_clients = 1;
    brk_opt.window_size = VGP_WINDOW_MIN;
    assert_int_equal(brk_loop_init(), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(brk_vu_start(NULL, pair[0], true), 0);
    qemu = pair[1];
    ram = memfd_create("ram", MFD_CLOEXEC);
    assert_true(ram >= 0 && !ftruncate(ram, RAM_BYTES));
    send_message(BRK_VU_SET_MEM_TABLE, &table, 8 + sizeof(table.regions[0]), &ram, 1);
    while (!brk_vu_dev.mem.n)
        assert_true(brk_loop_once(10000));
}

/* The used ring is read when its address comes. */
static void test_shortened(void **state)
{
    const struct brk_vu_payload_state num = {VGPU_VQ_CONTROL, 4};
    const struct brk_vu_payload_addr addr = {
        .index = VGPU_VQ_CONTROL, .desc = RAM_UVA, .avail = RAM_UVA + 0x1000, .used = RAM_UVA + 0x2000};

    (void)state;
    start();
    assert_int_equal(ftruncate(ram, 0), 0);
    send_message(BRK_VU_SET_VRING_NUM, &num, sizeof(num), NULL, 0);
    send_message(BRK_VU_SET_VRING_ADDR, &addr, sizeof(addr), NULL, 0);
    while (brk_loop_once(10000)) /* until the connection has ended */
        ;
    assert_int_equal(brk_vu_dev.mem.n, 0);
    assert_int_equal(read(qemu, &(uint8_t){0}, 1), 0);
}

/* Elsewhere SIGBUS ends the process, as it did. */
static void test_elsewhere(void **state)
{
    volatile uint8_t *p;
    int status, fd = memfd_create("other", MFD_CLOEXEC);
    pid_t child;

    (void)state;
    assert_true(fd >= 0 && !ftruncate(fd, VGP_PAGE));
    p = mmap(NULL, VGP_PAGE, PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    assert_int_equal(ftruncate(fd, 0), 0);
    child = fork();
    if (!child) {
        brk_vu_mem_guard(&brk_vu_dev.mem, nothing); /* in the place of the test library's */
        (void)p[0];
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGBUS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shortened), cmocka_unit_test(test_elsewhere)};

    return cmocka_run_group_tests_name("vu_short", tests, NULL, NULL);
}
