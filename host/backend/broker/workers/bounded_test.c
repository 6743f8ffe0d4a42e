/* SPDX-License-Identifier: MIT */
/* A folder of its own file system, by root's rights and by those of a user namespace. And trees in it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/testing/range.h"
#include "workers/workers.h"

#define BYTES (256u << 10)
#define ENTRIES 20u

#define LARGE ((4 << 20) + 4096) /* bytes of a file whose close is noted */

static pthread_t loop;
static unsigned large_by_loop, large_by_thread;

/* In the place of the C library's. */
int close(int fd)
{
    struct stat st;

    if (!fstat(fd, &st) && st.st_size == LARGE)
        __atomic_fetch_add(pthread_equal(pthread_self(), loop) ? &large_by_loop : &large_by_thread, 1,
                           __ATOMIC_SEQ_CST);
    return (int)syscall(SYS_close, fd);
}

/* 0: all is as it should be; else the line that says what is not; -1: no such folder can be made. */
static int try_folder(void)
{
    static const char zeros[4096];
    int fd = brk_bounded_folder(BYTES, ENTRIES), file, line = 0;
    unsigned files = 1;
    size_t bytes = 0;
    char name[16];
    ssize_t n;

    if (fd < 0)
        return -1;
    file = openat(fd, "0", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    line = file < 0 ? __LINE__ : line;
    while ((n = write(file, zeros, sizeof(zeros))) > 0 && bytes <= BYTES)
        bytes += (size_t)n;
    line = bytes != BYTES || errno != ENOSPC ? __LINE__ : line;
    line = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0) != MAP_FAILED ? __LINE__
                                                                                      : line; /* noexec */
    close(file);
    for (;; files++) {
        snprintf(name, sizeof(name), "%u", files);
        file = openat(fd, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (file < 0)
            break;
        close(file);
    }
    line = files >= ENTRIES || errno != ENOSPC ? __LINE__ : line;
    assert_true(brk_tree_empty(fd, UINT_MAX));
    line = mkdirat(fd, "again", 0700) ? __LINE__ : line;
    close(fd);
    return line;
}

static void test_bounds(void **state)
{
    int line = try_folder();

    (void)state;
    if (line < 0) {
        print_message("not run: test_bounds: no such folder can be made here\n");
        skip();
    }
    assert_int_equal(line, 0);
}

static void test_as_user(void **state)
{
    pid_t child;
    int status;

    (void)state;
    if (geteuid()) {
        print_message("not run: test_as_user: test_bounds has done it\n");
        skip();
    }
    child = fork();
    if (child == 0)
        _exit(setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534) ? 254 : try_folder() & 255);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 255) {
        print_message("not run: test_as_user: users cannot have namespaces here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void put(int fd, const char *name, const char *text, off_t size)
{
    int file = openat(fd, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    if (size)
        assert_int_equal(ftruncate(file, size), 0);
    close(file);
}

static off_t size_of(int fd, const char *name)
{
    struct stat st;

    return fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) ? -1 : st.st_size;
}

/* The second is as the first afterwards, but for what is no file or folder, and what is too large. */
static void test_copy(void **state)
{
    const struct brk_tree_limits l = {.bytes = 100, .entries = 10, .owner = geteuid()};
    char a_path[] = "/tmp/vgb-tree-XXXXXX", b_path[] = "/tmp/vgb-tree-XXXXXX";
    int a, b;

    (void)state;
    assert_non_null(mkdtemp(a_path));
    assert_non_null(mkdtemp(b_path));
    a = open(a_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    b = open(b_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(a >= 0 && b >= 0);
    assert_int_equal(mkdirat(a, "d", 0700), 0);
    put(a, "d/file", "text", 0);
    put(a, "file", "words", 0);
    put(a, "sparse", "", 1L << 40);
    assert_int_equal(symlinkat("/etc/passwd", a, "link"), 0);
    assert_int_equal(mkfifoat(a, "pipe", 0600), 0);
    put(b, "old", "of another time", 0);
    put(b, "d", "a file where a folder comes", 0);
    assert_int_equal(mkdirat(b, "file", 0700), 0);
    put(b, "file/inside", "x", 0);
    for (int i = 0; i < 2; i++) {
        brk_tree_copy(a, b, &l);
        assert_int_equal(size_of(b, "d/file"), 4);
        assert_int_equal(size_of(b, "file"), 5);
        assert_int_equal(size_of(b, "old"), -1);
        assert_int_equal(size_of(b, "sparse"), -1);
        assert_int_equal(size_of(b, "link"), -1);
        assert_int_equal(size_of(b, "pipe"), -1);
        assert_int_equal(size_of(b, "vgpu.part"), -1);
    }
    put(a, "file", "other words", 0);
    /* A name of our own, for a folder: nothing would be copied beside it. */
    assert_int_equal(mkdirat(a, "vgpu.part", 0700), 0);
    put(a, "vgpu.part/inside", "x", 0);
    assert_int_equal(mkdirat(a, "d/vgpu.part", 0700), 0);
    put(a, "d/file", "more text", 0);
    assert_int_equal(mkdirat(b, "vgpu.part", 0700), 0); /* as one of an earlier time had it copied */
    put(b, "vgpu.part/inside", "x", 0);
    brk_tree_copy(a, b, &l);
    assert_int_equal(size_of(b, "file"), 11);
    assert_int_equal(size_of(b, "d/file"), 9);
    assert_int_equal(size_of(b, "vgpu.part"), -1);
    assert_int_equal(size_of(b, "d/vgpu.part"), -1);
    assert_true(brk_tree_empty(a, UINT_MAX));
    brk_tree_copy(a, b, &l);
    assert_int_equal(rmdir(a_path), 0);
    assert_int_equal(rmdir(b_path), 0);
    close(a);
    close(b);
}

/* Emptying looks at so many entries at once, and goes on where it was. */
static void test_in_parts(void **state)
{
    char path[] = "/tmp/vgb-tree-XXXXXX", name[40];
    unsigned rounds = 1;
    int fd, at;

    (void)state;
    assert_non_null(mkdtemp(path));
    fd = at = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (unsigned i = 0; i < 40; i++) { /* deeper than it goes at once */
        int below;

        for (unsigned k = 0; k < 5; k++) {
            snprintf(name, sizeof(name), "f%u", k);
            put(at, name, "", 0);
        }
        assert_int_equal(mkdirat(at, "d", 0700), 0);
        below = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(below >= 0);
        if (at != fd)
            close(at);
        at = below;
    }
    close(at);
    for (; rounds < 1000 && !brk_tree_empty(fd, 20); rounds++)
        continue;
    assert_uint_in_range(rounds, 240 / 20, 999);
    assert_int_equal(rmdir(path), 0);
    close(fd);
}

/* A few large files take as long as very many entries: emptying the folder does not wait for their pages. */
static void test_large(void **state)
{
    char path[] = "/tmp/vgb-tree-XXXXXX";
    int fd, file;

    (void)state;
    loop = pthread_self();
    assert_non_null(mkdtemp(path));
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(fd, "d", 0700), 0);
    file = openat(fd, "d/large", O_RDWR | O_CREAT | O_CLOEXEC, 0);
    assert_true(file >= 0);
    assert_int_equal(posix_fallocate(file, 0, LARGE), 0);
    syscall(SYS_close, file);
    assert_true(brk_tree_empty(fd, UINT_MAX));
    for (int i = 0; i < 60000 && !__atomic_load_n(&large_by_thread, __ATOMIC_SEQ_CST); i++)
        usleep(1000);
    assert_int_equal(large_by_thread, 1);
    assert_int_equal(large_by_loop, 0);
    assert_int_equal(rmdir(path), 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds),   cmocka_unit_test(test_as_user), cmocka_unit_test(test_copy),
        cmocka_unit_test(test_in_parts), cmocka_unit_test(test_large),
    };

    return cmocka_run_group_tests_name("bounded", tests, NULL, NULL);
}
