/* SPDX-License-Identifier: MIT */
/* The control group of the workers, with files in place of the kernel's: what is written, and what is undone. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "workers/workers.h"

static char dir[] = "/tmp/vgb-cgroup-XXXXXX", group[64];

static void path_of(char *path, size_t size, const char *in, const char *name)
{
    assert_true(snprintf(path, size, "%s/%s", in, name) < (int)size);
}

static void make(const char *in, const char *name)
{
    char path[128];

    path_of(path, sizeof(path), in, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void expect(const char *in, const char *name, const char *want)
{
    char path[128], text[64] = "";

    path_of(path, sizeof(path), in, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_true(read(fd, text, sizeof(text) - 1) >= 0);
    close(fd);
    assert_string_equal(text, want);
}

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(group, sizeof(group), "%s/vgpu-workers.%ld", dir, (long)getpid());
    return 0;
}

static int teardown(void **state)
{
    static const char *const files[] = {"pids.max", "memory.max", "memory.current", "memory.stat",
                                        "cpu.max",  "cpu.weight", "cgroup.procs",   "cgroup.subtree_control"};
    char path[128];

    (void)state;
    for (const char *in = group; in; in = in == group ? dir : NULL) {
        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
            path_of(path, sizeof(path), in, files[i]);
            unlink(path);
        }
        if (rmdir(in))
            return -1;
    }
    return 0;
}

/* Each step that the kernel refuses leaves nothing. */
static void test_refused(void **state)
{
    struct stat st;

    (void)state;
    assert_non_null(brk_cgroup_make(dir, &(struct brk_cgroup_limits){.pids = 100})); /* no controllers */
    assert_int_equal(stat(group, &st), -1);
    make(dir, "cgroup.subtree_control");
    assert_non_null(brk_cgroup_make(dir, &(struct brk_cgroup_limits){.pids = 100})); /* no limits */
    assert_int_equal(stat(group, &st), -1);
    assert_true(brk_cgroup_add(getpid())); /* there is none: nothing to do */
}

static void test_made(void **state)
{
    char path[128];

    (void)state;
    assert_int_equal(mkdir(group, 0700), 0);
    make(group, "pids.max");
    make(group, "cgroup.procs");
    assert_null(brk_cgroup_make(dir, &(struct brk_cgroup_limits){.pids = 100}));
    expect(dir, "cgroup.subtree_control", "+pids");
    expect(group, "pids.max", "100");
    assert_true(brk_cgroup_add(4242));
    expect(group, "cgroup.procs", "4242");
    make(group, "memory.max");
    make(dir, "cgroup.subtree_control");
    assert_null(brk_cgroup_make(dir, &(struct brk_cgroup_limits){.pids = 7, .memory = 1u << 30}));
    expect(dir, "cgroup.subtree_control", "+pids +memory");
    expect(group, "memory.max", "1073741824");
    /* Processors: the controller is asked for, and without its files there is no group. */
    make(dir, "cgroup.subtree_control");
    make(group, "cpu.max");
    make(group, "cpu.weight");
    make(group, "pids.max");
    assert_null(brk_cgroup_make(dir, &(struct brk_cgroup_limits){.pids = 7, .cpu = 150, .weight = 300}));
    expect(dir, "cgroup.subtree_control", "+pids +cpu");
    expect(group, "cpu.max", "150000 100000");
    expect(group, "cpu.weight", "300");
    path_of(path, sizeof(path), group, "cgroup.procs");
    unlink(path);
    assert_false(brk_cgroup_add(4242)); /* such a worker is not used */
    brk_cgroup_stop();
    assert_true(brk_cgroup_add(4242));
}

static void write_to(const char *in, const char *name, const char *text)
{
    char path[128];
    FILE *f;

    path_of(path, sizeof(path), in, name);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* What is left is what the strictest of the groups leaves, not its limit. */
static void test_memory_left(void **state)
{
    (void)state;
    mkdir(group, 0700);
    make(dir, "cgroup.subtree_control");
    make(group, "pids.max");
    make(group, "memory.max");
    assert_null(brk_cgroup_make(dir, &(struct brk_cgroup_limits){.pids = 7, .memory = 1000}));
    assert_true(brk_cgroup_memory_left(dir) == UINT64_MAX); /* no memory.current: unknown */
    write_to(group, "memory.current", "700\n");
    assert_int_equal(brk_cgroup_memory_left(dir), 300);
    write_to(group, "memory.stat", "anon 500\ninactive_file 150\nactive_file 50\n");
    assert_int_equal(brk_cgroup_memory_left(dir), 450);
    write_to(group, "memory.current", "1200\n");
    assert_int_equal(brk_cgroup_memory_left(dir), 0);
    write_to(group, "memory.max", "max\n");
    assert_true(brk_cgroup_memory_left(dir) == UINT64_MAX);
    /* The group around it. */
    write_to(dir, "memory.max", "5000\n");
    write_to(dir, "memory.current", "4900\n");
    assert_int_equal(brk_cgroup_memory_left(dir), 100);
    write_to(group, "memory.max", "1250\n");
    write_to(group, "memory.stat", "inactive_file 9999\n");
    assert_int_equal(brk_cgroup_memory_left(dir), 100);
    assert_int_equal(brk_cgroup_memory_left(group), 1250);
    brk_cgroup_stop();
}

/* What was asked for and cannot be had is an error; else it is said, and goes on. */
static void test_options(void **state)
{
    (void)state;
    brk_opt.cgroup = "off";
    assert_true(brk_cgroup_start());
    assert_non_null(strstr(brk_cgroup_summary(), "off"));
    brk_opt.cgroup_memory = 1u << 30;
    assert_false(brk_cgroup_start());
    brk_opt.cgroup_memory = 0;
    brk_opt.cgroup_cpu = 100;
    assert_false(brk_cgroup_start());
    brk_opt.cgroup_cpu = 0;
    brk_opt.cgroup_weight = 10;
    assert_false(brk_cgroup_start());
    brk_opt.cgroup_weight = 0;
    brk_opt.cgroup = "/nonexistent/group";
    brk_opt.cgroup_memory = 0;
    assert_false(brk_cgroup_start());
    assert_non_null(strstr(brk_cgroup_summary(), "no cgroup"));
}

/* The broker lives long and may look for its own group again: nothing stays open. */
static void test_own_group(void **state)
{
    unsigned before = 0, after = 0;

    (void)state;
    brk_opt.cgroup = NULL;
    for (int fd = 0; fd < 1024; fd++)
        before += fcntl(fd, F_GETFD) >= 0;
    assert_true(brk_cgroup_start());
    assert_non_null(brk_cgroup_summary());
    brk_cgroup_stop();
    for (int fd = 0; fd < 1024; fd++)
        after += fcntl(fd, F_GETFD) >= 0;
    assert_int_equal(after, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused), cmocka_unit_test(test_made),      cmocka_unit_test(test_memory_left),
        cmocka_unit_test(test_options), cmocka_unit_test(test_own_group),
    };

    vgb_log_init(2, VGB_ERROR, "test");
    return cmocka_run_group_tests(tests, setup, teardown);
}
