/* SPDX-License-Identifier: MIT */
/* Which files may be guest memory. What they are on is what the test says (linked with --wrap). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "transport/vu.h"
#include "vgb_fd.h"

#define SIZE 0x10000u

static unsigned major_of_disk;
int __wrap_statx(int dir, const char *path, int flags, unsigned mask, struct statx *st);

int __wrap_statx(int dir, const char *path, int flags, unsigned mask, struct statx *st)
{
    (void)dir;
    (void)mask;
    assert_string_equal(path, "");
    assert_true(flags & AT_STATX_DONT_SYNC);
    *st = (struct statx){.stx_dev_major = major_of_disk};
    return 0;
}

static uint32_t page_size;
uint32_t __wrap_vgb_fd_page_size(int fd);

uint32_t __wrap_vgb_fd_page_size(int fd)
{
    (void)fd;
    return page_size;
}

static uint64_t uva;

static const char *set(int fd)
{
    static struct brk_vu_mem mem;
    struct brk_vu_payload_mem p = {.nregions = 1, .regions[0] = {.size = SIZE, .uva = uva}};
    int copy = dup(fd);
    const char *wrong = brk_vu_mem_set(&mem, &p, &copy);

    brk_vu_mem_clear(&mem);
    return wrong;
}

static void test_memory(void **state)
{
    int fd = memfd_create("ram", MFD_CLOEXEC);

    (void)state;
    major_of_disk = 0;
    assert_int_equal(ftruncate(fd, SIZE), 0);
    assert_null(set(fd));
    for (uva = 1; uva < 4096; uva *= 2)
        assert_non_null(set(fd)); /* a ring's indices would not be aligned */
    uva = 0;
    close(fd);
}

/* A program may serve what is on no block device, and need not answer. */
static void test_file(void **state)
{
    char path[] = "./vgb-mem-XXXXXX";
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    unlink(path);
    if (fcntl(fd, F_GET_SEALS) >= 0)
        skip(); /* the folder is in memory */
    assert_int_equal(ftruncate(fd, SIZE), 0);
    major_of_disk = 8;
    assert_null(set(fd));
    major_of_disk = 0;
    assert_non_null(set(fd));
    close(fd);
}

/* QEMU takes a huge page out of the file again, and the pool has no other: a SIGBUS of who looks into a
 * window. Memory in huge pages is the guest's, never the windows. */
static void test_windows_in_huge_pages(void **state)
{
    static struct brk_vu_mem mem;
    struct brk_vu_payload_mem p = {.nregions = 1, .regions[0] = {.size = SIZE}};
    int fd = memfd_create("vgpu-windows", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    (void)state;
    assert_int_equal(ftruncate(fd, SIZE), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL), 0);
    for (page_size = VGP_PAGE; page_size <= 2u << 20; page_size *= 512) {
        int copy = dup(fd);

        assert_null(brk_vu_mem_set(&mem, &p, &copy));
        assert_int_equal(brk_vu_mem_windows(&mem) != NULL, page_size == VGP_PAGE);
        brk_vu_mem_clear(&mem);
    }
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory), cmocka_unit_test(test_file),
                                       cmocka_unit_test(test_windows_in_huge_pages)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
