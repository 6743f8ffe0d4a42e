/* SPDX-License-Identifier: MIT */
/* Descriptor chains and guest memory against a hostile guest. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/magic.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "vu.h"

#define RAM_GPA 0x100000u
#define RAM_SIZE 0x40000u
#define RAM_UVA 0x7f0000000000ull
#define WIN_GPA 0x80000000u
#define NUM 8u

struct desc {
    uint64_t addr;
    uint32_t len;
    uint16_t flags, next;
};

struct fixture {
    struct brk_vu_mem mem;
    struct brk_vu_queue q;
    struct brk_vu_chain c;
    uint8_t *ram; /* our view */
    struct desc *desc;
    uint16_t *avail, *used;
};

static int memfd(uint64_t size, const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0 && !ftruncate(fd, (off_t)size));
    if (strstr(name, "windows"))
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL), 0);
    return fd;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct brk_vu_payload_mem p = {
        .nregions = 2,
        .regions = {{.gpa = RAM_GPA, .size = RAM_SIZE, .uva = RAM_UVA},
                    {.gpa = WIN_GPA, .size = 0x10000, .uva = RAM_UVA + 0x10000000}}};
    int fds[2] = {memfd(RAM_SIZE, "ram"), memfd(0x10000, "vgpu-windows")};

    f->ram = mmap(NULL, RAM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    assert_null(brk_vu_mem_set(&f->mem, &p, fds));
    f->q.kick.fd = f->q.call = f->q.err = -1;
    f->q.num = NUM;
    f->q.addr =
        (struct brk_vu_payload_addr){.desc = RAM_UVA, .avail = RAM_UVA + 0x1000, .used = RAM_UVA + 0x2000};
    f->q.have_addr = f->q.started = f->q.enabled = true;
    brk_vu_queue_remap(&f->q, &f->mem);
    assert_non_null(f->q.used);
    f->desc = (void *)f->ram;
    f->avail = (void *)(f->ram + 0x1000);
    f->used = (void *)(f->ram + 0x2000);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    brk_vu_mem_clear(&f->mem);
    munmap(f->ram, RAM_SIZE);
    free(f);
    return 0;
}

static void set(struct fixture *f, unsigned i, uint64_t addr, uint32_t len, uint16_t flags, uint16_t next)
{
    f->desc[i] = (struct desc){.addr = addr, .len = len, .flags = flags, .next = next};
}

static void offer(struct fixture *f, uint16_t head)
{
    f->avail[2 + f->avail[1] % NUM] = head;
    f->avail[1]++;
}

static void test_chain(void **state)
{
    struct fixture *f = *state;
    char buf[64];
    uint64_t total;

    memcpy(f->ram + 0x3000, "hello world", 12);
    set(f, 3, RAM_GPA + 0x3000, 6, 1, 5);
    set(f, 5, RAM_GPA + 0x3006, 6, 1, 1);
    set(f, 1, RAM_GPA + 0x4000, 16, 2, 0);
    assert_int_equal(brk_vu_queue_pop(&f->q, &f->mem, &f->c), 0);
    offer(f, 3);
    assert_int_equal(brk_vu_queue_pop(&f->q, &f->mem, &f->c), 1);
    assert_int_equal(f->c.nread, 2);
    assert_int_equal(f->c.nwrite, 1);
    f->c.write[1].len = 1000; /* what a longer chain before it has left */
    assert_int_equal(brk_vu_chain_room(&f->c), 16);
    assert_int_equal(brk_vu_chain_read(&f->mem, &f->c, buf, sizeof(buf), &total), 12);
    assert_int_equal(total, 12);
    assert_string_equal(buf, "hello world");
    assert_int_equal(brk_vu_chain_read(&f->mem, &f->c, buf, 4, &total), 4);
    assert_int_equal(brk_vu_chain_write(&f->mem, &f->c, "0123456789abcdefXX", 18), 16);
    assert_memory_equal(f->ram + 0x4000, "0123456789abcdef", 16);
    assert_int_equal(f->ram[0x4010], 0);
    brk_vu_queue_push(&f->q, f->c.head, 16);
    assert_int_equal(f->used[1], 1);
    assert_int_equal(f->used[2], 3);
}

/* The chain is given back with length 0, and the queue goes on. */
static void expect_skipped(struct fixture *f, uint16_t head)
{
    uint16_t before = f->used[1];

    offer(f, head);
    assert_int_equal(brk_vu_queue_pop(&f->q, &f->mem, &f->c), 0);
    assert_int_equal(f->used[1], (uint16_t)(before + 1));
    assert_true(f->q.started);
}

static void test_malformed_chains(void **state)
{
    struct fixture *f = *state;

    set(f, 0, RAM_GPA, 8, 1, 0); /* to itself */
    expect_skipped(f, 0);
    set(f, 0, RAM_GPA, 8, 1, 1);
    set(f, 1, RAM_GPA, 8, 1, 0); /* a circle */
    expect_skipped(f, 0);
    set(f, 1, RAM_GPA, 8, 1, NUM); /* next outside of the table */
    expect_skipped(f, 0);
    set(f, 0, RAM_GPA, 8, 3, 1);
    set(f, 1, RAM_GPA, 8, 0, 0); /* readable after writable */
    expect_skipped(f, 0);
    set(f, 0, UINT64_MAX - 3, 8, 0, 0); /* wraps */
    expect_skipped(f, 0);
    set(f, 0, RAM_GPA + 0x5000, 24, 4, 0); /* indirect: not a multiple of 16 */
    expect_skipped(f, 0);
    set(f, 0, RAM_GPA + 0x5000, 0, 4, 0);
    expect_skipped(f, 0);
    set(f, 0, RAM_GPA + RAM_SIZE, 32, 4, 0); /* indirect outside of memory */
    expect_skipped(f, 0);
    set(f, 0, RAM_GPA + 0x5000, 16 * 2000, 4, 0); /* too long */
    expect_skipped(f, 0);
    set(f, 0, RAM_GPA + 0x5000, 32, 5, 1); /* indirect with next */
    expect_skipped(f, 0);
    set(f, 0, RAM_GPA + 0x5000, 32, 4, 0);
    *(struct desc *)(f->ram + 0x5000) = (struct desc){.addr = RAM_GPA, .len = 16, .flags = 4};
    expect_skipped(f, 0); /* indirect in indirect */
    *(struct desc *)(f->ram + 0x5000) = (struct desc){.addr = RAM_GPA, .len = 16, .flags = 1, .next = 2};
    expect_skipped(f, 0); /* next outside of the indirect table */
}

static void test_indirect(void **state)
{
    struct fixture *f = *state;
    struct desc *t = (void *)(f->ram + 0x5000);

    set(f, 0, RAM_GPA + 0x5000, 32, 4, 0);
    t[0] = (struct desc){.addr = RAM_GPA + 0x3000, .len = 8, .flags = 1, .next = 1};
    t[1] = (struct desc){.addr = RAM_GPA + 0x4000, .len = 8, .flags = 2};
    offer(f, 0);
    assert_int_equal(brk_vu_queue_pop(&f->q, &f->mem, &f->c), 1);
    assert_int_equal(f->c.nread, 1);
    assert_int_equal(f->c.nwrite, 1);
}

static void test_buffers_outside(void **state)
{
    struct fixture *f = *state;
    char buf[64] = {0};
    uint64_t total;

    /* Neither the windows nor what no region covers is guest RAM. */
    set(f, 0, WIN_GPA, 16, 1, 1);
    set(f, 1, RAM_GPA + RAM_SIZE - 8, 16, 2, 0);
    offer(f, 0);
    assert_int_equal(brk_vu_queue_pop(&f->q, &f->mem, &f->c), 1);
    assert_int_equal(brk_vu_chain_read(&f->mem, &f->c, buf, sizeof(buf), &total), 0);
    assert_int_equal(total, 16);
    assert_int_equal(brk_vu_chain_write(&f->mem, &f->c, buf, 16), 8);
}

static void test_broken_ring(void **state)
{
    struct fixture *f = *state;

    offer(f, NUM); /* a head that does not exist */
    assert_int_equal(brk_vu_queue_pop(&f->q, &f->mem, &f->c), -1);
    assert_false(f->q.started);
    assert_int_equal(brk_vu_queue_pop(&f->q, &f->mem, &f->c), 0);
    f->q.started = true;
    f->q.last_avail = 0;
    f->avail[1] = NUM + 1; /* more than the ring holds */
    assert_int_equal(brk_vu_queue_pop(&f->q, &f->mem, &f->c), -1);
}

static void test_addresses(void **state)
{
    struct fixture *f = *state;
    const uint64_t bad[] = {RAM_UVA + 8, RAM_UVA + RAM_SIZE - 16, 0, UINT64_MAX & ~UINT64_C(15)};

    for (unsigned i = 0; i < 4; i++) {
        f->q.addr.desc = bad[i];
        brk_vu_queue_remap(&f->q, &f->mem);
        assert_null(f->q.used);
        assert_int_equal(brk_vu_queue_pop(&f->q, &f->mem, &f->c), 0);
        brk_vu_queue_push(&f->q, 0, 0);
        brk_vu_queue_notify(&f->q, 0);
    }
}

static void test_runs(void **state)
{
    struct fixture *f = *state;
    struct brk_map_run runs[4];
    unsigned n = 0;

    assert_true(brk_vu_mem_run(&f->mem, RAM_GPA, 0x1000, runs, &n, 4));
    assert_true(brk_vu_mem_run(&f->mem, RAM_GPA + 0x1000, 0x1000, runs, &n, 4));
    assert_int_equal(n, 1); /* neighbours are one */
    assert_int_equal(runs[0].length, 0x2000);
    assert_true(brk_vu_mem_run(&f->mem, RAM_GPA + 0x4000, 0x1000, runs, &n, 4));
    assert_int_equal(n, 2);
    assert_false(brk_vu_mem_run(&f->mem, WIN_GPA, 0x1000, runs, &n, 4));
    assert_false(brk_vu_mem_run(&f->mem, RAM_GPA + RAM_SIZE - 0x1000, 0x2000, runs, &n, 4));
    assert_false(brk_vu_mem_run(&f->mem, 0, 0x1000, runs, &n, 4));
    assert_false(brk_vu_mem_run(&f->mem, RAM_GPA, 0, runs, &n, 4));
    assert_false(brk_vu_mem_run(&f->mem, RAM_GPA, 0x800, runs, &n, 4));
    assert_false(brk_vu_mem_run(&f->mem, RAM_GPA + 0x800, 0x1000, runs, &n, 4));
    assert_false(brk_vu_mem_run(&f->mem, RAM_GPA, UINT64_MAX & ~UINT64_C(4095), runs, &n, 4));
}

static void test_regions(void **state)
{
    struct brk_vu_mem m = {0};
    struct brk_vu_payload_mem p = {.nregions = 1, .regions = {{.gpa = 0, .size = 0x2000}}};
    int fd;

    (void)state;
    fd = memfd(0x1000, "short");
    assert_non_null(brk_vu_mem_set(&m, &p, &fd)); /* longer than the file */
    p.regions[0].offset = UINT64_MAX & ~UINT64_C(4095);
    fd = memfd(0x10000, "wraps");
    assert_non_null(brk_vu_mem_set(&m, &p, &fd));
    p.regions[0].offset = 0;
    p.regions[0].size = 0;
    fd = memfd(0x10000, "empty");
    assert_non_null(brk_vu_mem_set(&m, &p, &fd));
    p.regions[0].size = 0x1000;
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    fd = pipes[0];
    assert_non_null(brk_vu_mem_set(&m, &p, &fd)); /* not a file */
    close(pipes[1]);
    assert_int_equal(m.n, 0);
}

/* The windows are known by what they are, not by their size: RAM may be a file of any size and name. */
static void test_ram_in_a_file(void **state)
{
    static const char *const names[] = {"/ram", "/memfd:vgpu-windows (deleted)"};
    struct brk_vu_payload_mem p = {.nregions = 1, .regions = {{.gpa = RAM_GPA, .size = 0x10000}}};
    /* A file of overlayfs, as in a container, is none whose file system is known. */
    struct statfs fs;
    const bool overlay = !statfs("/tmp", &fs) && fs.f_type == OVERLAYFS_SUPER_MAGIC;
    char dir[100], path[200];
    struct brk_vu_mem m = {0};
    uint64_t n = 16;

    (void)state;
    snprintf(dir, sizeof(dir), "%s/vgb-test-XXXXXX", overlay ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(dir));
    for (unsigned i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s%s", dir, names[i]);
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fd >= 0 && !ftruncate(fd, 0x10000));
        assert_null(brk_vu_mem_set(&m, &p, &fd));
        assert_non_null(brk_vu_mem_gpa(&m, RAM_GPA, &n));
        assert_null(brk_vu_mem_windows(&m));
        unlink(path);
    }
    rmdir(dir);
    /* Nor by the name alone: a memory backend may have any. */
    int fd = memfd_create("vgpu-windows", MFD_CLOEXEC);
    assert_true(fd >= 0 && !ftruncate(fd, 0x10000));
    assert_null(brk_vu_mem_set(&m, &p, &fd));
    assert_null(brk_vu_mem_windows(&m));
    brk_vu_mem_clear(&m);
}

/* A table with the windows of another device, too, is refused, whichever comes first: they look alike. */
static void test_two_windows(void **state)
{
    struct brk_vu_payload_mem p = {
        .nregions = 2,
        .regions = {{.gpa = WIN_GPA, .size = 0x10000}, {.gpa = WIN_GPA + 0x10000, .size = 0x20000}}};
    struct brk_vu_mem m = {0};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        int fds[2] = {memfd(0x10000, "vgpu-windows"), memfd(0x20000, i ? "ram" : "vgpu-windows")};
        const char *wrong = brk_vu_mem_set(&m, &p, fds);

        if (i == 0) {
            assert_non_null(strstr(wrong, "two regions are windows"));
            assert_int_equal(m.n, 0);
        } else {
            assert_null(wrong);
            assert_ptr_equal(brk_vu_mem_windows(&m), &m.map[0]);
        }
    }
    brk_vu_mem_clear(&m);
}

static void test_event_idx(void **state)
{
    struct fixture *f = *state;
    const uint8_t *avail_event = f->ram + 0x2000 + 4 + 8 * NUM;

    f->q.event_idx = true;
    set(f, 0, RAM_GPA, 8, 0, 0);
    offer(f, 0);
    assert_int_equal(brk_vu_queue_pop(&f->q, &f->mem, &f->c), 1);
    assert_int_equal(brk_vu_queue_pop(&f->q, &f->mem, &f->c), 0);
    assert_int_equal(avail_event[0], 1); /* kick for the next one */
}

/* A table may be as long as the queue, each descriptor used once, and a chain as long as it has segments. */
static void test_longest(void **state)
{
    struct fixture *f = *state;
    struct desc *t = (void *)(f->ram + 0x5000);

    for (unsigned i = 0; i < NUM; i++)
        set(f, i, RAM_GPA + 0x3000, 8, i < NUM - 1, (uint16_t)(i + 1));
    offer(f, 0);
    assert_int_equal(brk_vu_queue_pop(&f->q, &f->mem, &f->c), 1);
    assert_int_equal(f->c.nread, NUM);
    for (unsigned n = BRK_VU_SEGMENTS; n <= BRK_VU_SEGMENTS + 1; n++) {
        for (unsigned write = 0; write <= 2; write += 2) {
            set(f, 0, RAM_GPA + 0x5000, 16 * n, 4, 0);
            for (unsigned i = 0; i < n; i++)
                t[i] = (struct desc){.addr = RAM_GPA + 0x3000,
                                     .len = 1,
                                     .flags = (uint16_t)((i < n - 1) | write),
                                     .next = (uint16_t)(i + 1)};
            offer(f, 0);
            assert_int_equal(brk_vu_queue_pop(&f->q, &f->mem, &f->c), n == BRK_VU_SEGMENTS);
            if (n == BRK_VU_SEGMENTS)
                assert_int_equal(write ? f->c.nwrite : f->c.nread, n);
        }
    }
    /* One descriptor in a table of its own. */
    set(f, 0, RAM_GPA + 0x5000, 16, 4, 0);
    t[0] = (struct desc){.addr = RAM_GPA, .len = 1};
    offer(f, 0);
    assert_int_equal(brk_vu_queue_pop(&f->q, &f->mem, &f->c), 1);
    assert_int_equal(f->c.nread, 1);
}

/* So many malformed chains in one call, and the rest in the next ones. */
static void test_many_malformed(void **state)
{
    struct fixture *f = *state;
    enum { LARGE = 64 };

    f->q.num = LARGE;
    f->q.addr.avail = RAM_UVA + 0x10000;
    f->q.addr.used = RAM_UVA + 0x20000;
    brk_vu_queue_remap(&f->q, &f->mem);
    uint16_t *avail = (void *)(f->ram + 0x10000), *used = (void *)(f->ram + 0x20000);
    set(f, 0, RAM_GPA, 8, 1, 0); /* to itself */
    avail[1] = 2 * BRK_VU_SKIP_MAX + 1;
    for (unsigned calls = 1; calls <= 2; calls++) {
        assert_int_equal(brk_vu_queue_pop(&f->q, &f->mem, &f->c), 2);
        assert_int_equal(used[1], calls * BRK_VU_SKIP_MAX);
    }
    assert_int_equal(brk_vu_queue_pop(&f->q, &f->mem, &f->c), 0);
    assert_int_equal(used[1], 2 * BRK_VU_SKIP_MAX + 1);
    /* A ring that is full of them, and one more than full. */
    avail[1] = (uint16_t)(avail[1] + LARGE);
    assert_int_equal(brk_vu_queue_pop(&f->q, &f->mem, &f->c), 2);
    assert_true(f->q.started);
    avail[1] = (uint16_t)(f->q.last_avail + LARGE + 1);
    assert_int_equal(brk_vu_queue_pop(&f->q, &f->mem, &f->c), -1);
}

int main(void)
{
    brk_opt.max_clients = 64;
    brk_opt.window_size = 16 << 20;
#define T(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_chain),
        T(test_malformed_chains),
        T(test_indirect),
        T(test_buffers_outside),
        T(test_broken_ring),
        T(test_addresses),
        T(test_runs),
        T(test_event_idx),
        T(test_longest),
        T(test_many_malformed),
        cmocka_unit_test(test_regions),
        cmocka_unit_test(test_ram_in_a_file),
        cmocka_unit_test(test_two_windows),
    };

    return cmocka_run_group_tests_name("virtqueue", tests, NULL, NULL);
}
