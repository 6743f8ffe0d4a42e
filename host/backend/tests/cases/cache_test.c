/* SPDX-License-Identifier: MIT */
/* The folder for compiled code: of one broker's workers, bounded, removed or kept. Real broker, test provider. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/testing/range.h"
#include <cuda.h>

#include "guest.h"
#include "proc.h"
#include "testprov.h"
#include "vgp_ring.h"

static char tmp[64], log_name[80];
static bool no_place;

/* Temporary files of brokers are in a folder of the test's own, so that what is left behind is seen. */
static int setup(void **state)
{
    (void)state;
    snprintf(tmp, sizeof(tmp), "/tmp/vgb-cache-XXXXXX");
    if (!mkdtemp(tmp) || chmod(tmp, 0711))
        return -1;
    snprintf(log_name, sizeof(log_name), "%s/log", tmp);
    return setenv("TMPDIR", tmp, 1);
}

static int teardown(void **state)
{
    (void)state;
    unlink(log_name);
    unsetenv("TMPDIR");
    return rmdir(tmp); /* fails when a broker has left something */
}

static void need_place(const char *test)
{
    if (!no_place)
        return;
    print_message("not run: %s: this user cannot make a file system here\n", test);
    skip();
}

static int start(struct broker *b, const char *a, const char *a1, const char *c, const char *c1)
{
    const char *extra[] = {"--log-level", "info", "--log", log_name, a, a1, c, c1, NULL};

    memset(b, 0, sizeof(*b));
    return broker_start(b, extra);
}

/* A new client, whose provider does `what`, and what it prints. */
static void ask(struct broker *b, struct guest *g, unsigned what, char text[4096])
{
    assert_int_equal(guest_connect(g, b->sock, "cache"), 0);
    assert_int_equal(guest_context(g), 0);
    assert_int_equal(guest_memset(g, 0, VALUE_CACHE, what, 0), 0);
    assert_true(guest_notification(g, VGP_NOTIFY_PRINT, NULL, text, 60000));
}

/* Its worker has been reaped when this returns: the folder has been looked through after it. */
static void leave(struct broker *b, struct guest *g)
{
    pid_t w = worker_of_client(b->pid);

    assert_true(w > 0);
    guest_close(g);
    assert_true(gone_within(w, 60000));
}

/* The same, the client gone at the end; the folder's name is what is answered. */
static const char *counted(struct broker *b, char want, const char *size)
{
    static char text[4096], where[4096];
    char limit[32], c;
    struct guest g;

    ask(b, &g, CACHE_COUNT, text);
    assert_int_equal(sscanf(text, "cache %c %31s %4095s", &c, limit, where), 3);
    assert_int_equal(c, want);
    assert_string_equal(limit, size);
    leave(b, &g);
    return where;
}

static bool ends_with(struct broker *b, int status)
{
    int is = 0;

    waitpid(b->pid, &is, 0);
    b->pid = 0;
    broker_stop(b);
    return WIFEXITED(is) && WEXITSTATUS(is) == status;
}

#define HERE "/proc/self/fd/4"

/* One worker's code is there for the next; for those of another broker it is not, in no way. */
static void test_of_one_broker(void **state)
{
    struct broker b[2];
    struct guest g, h;
    char text[4096], path[64];

    (void)state;
    need_place(__func__);
    setenv("CUDA_CACHE_PATH", "/nonexistent", 1);
    setenv("CUDA_CACHE_MAXSIZE", "1", 1);
    assert_int_equal(start(&b[0], NULL, NULL, NULL, NULL), 0);
    assert_string_equal(counted(&b[0], '1', "268435456"), HERE);
    ask(&b[0], &h, CACHE_COUNT, text);
    snprintf(path, sizeof(path), "/proc/%d/fd/4", worker_of_client(b[0].pid));
    setenv("VGPU_TEST_OTHER_CACHE", path, 1);
    assert_int_equal(start(&b[1], "--jit-cache", "16M", NULL, NULL), 0);
    assert_string_equal(counted(&b[1], '1', "16777216"), HERE);
    ask(&b[1], &g, CACHE_OTHER, text);
    assert_string_equal(text, "other 0 0 0 0 0\n");
    guest_close(&g);
    guest_close(&h);
    counted(&b[0], '3', "268435456");
    for (int i = 0; i < 2; i++)
        assert_int_equal(broker_stop(&b[i]), 0);
    unsetenv("VGPU_TEST_OTHER_CACHE");
    unsetenv("CUDA_CACHE_PATH");
    unsetenv("CUDA_CACHE_MAXSIZE");
}

/* --jit-cache-path: a folder in the workers' /dev/shm, which all of them see. */
static void test_in_shm(void **state)
{
    char text[4096];
    struct broker b;
    struct guest g;

    (void)state;
    assert_int_equal(start(&b, "--jit-cache-path", "shm", NULL, NULL), 0);
    ask(&b, &g, CACHE_COUNT, text);
    guest_close(&g);
    if (strstr(text, "/dev/shm/jit")) {
        assert_string_equal(text, "cache 1 268435456 /dev/shm/jit\n");
        assert_string_equal(counted(&b, '2', "268435456"), "/dev/shm/jit");
    } else {
        print_message("not run: in_shm: this host gives workers no /dev/shm of their own\n");
    }
    assert_int_equal(broker_stop(&b), 0);
    memset(&b, 0, sizeof(b));
    assert_int_not_equal(start(&b, "--jit-cache-path", "tree", NULL, NULL), 0);
    broker_stop(&b);
}

static void test_off(void **state)
{
    struct broker b;
    struct guest g;
    char text[4096];

    (void)state;
    for (int i = 0; i < 2; i++) {
        if (i)
            setenv("CUDA_CACHE_DISABLE", "1", 1);
        assert_int_equal(start(&b, i ? NULL : "--jit-cache", i ? NULL : "0", NULL, NULL), 0);
        ask(&b, &g, CACHE_COUNT, text);
        assert_string_equal(text, "cache none, disabled 1\n");
        guest_close(&g);
        assert_int_equal(broker_stop(&b), 0);
    }
    unsetenv("CUDA_CACHE_DISABLE");
}

/* Programs of a VM share no code unless they are told to: one that has its worker would choose what the others run. */
static void test_of_a_machine(void **state)
{
    static const char *const asked[] = {"--jit-cache", "1M"};
    struct broker b;

    (void)state;
    need_place(__func__);
    for (int i = 0; i < 2; i++) {
        const char *extra[] = {"--vhost-user",      "SOCKET", "--log-level", "info", "--log", log_name,
                               i ? asked[0] : NULL, asked[1], NULL};
        char path[64], text[32768] = "";
        pid_t workers[16];

        unlink(log_name);
        memset(&b, 0, sizeof(b));
        assert_int_equal(broker_start(&b, extra), 0);
        assert_int_equal(file_has(log_name, "each program of the VM compiles its own code"), !i);
        /* What a worker that was started ahead is told; only root may look. */
        if (!geteuid()) {
            bool told = false, disabled = false;

            assert_true(workers_of(b.pid, workers, 16) > 0);
            snprintf(path, sizeof(path), "/proc/%d/environ", workers[0]);
            FILE *f = fopen(path, "re");
            assert_non_null(f);
            size_t n = fread(text, 1, sizeof(text) - 1, f);
            fclose(f);
            for (const char *p = text; p < text + n; p += strlen(p) + 1) {
                told |= !strncmp(p, "CUDA_CACHE_PATH=", 16);
                disabled |= !strcmp(p, "CUDA_CACHE_DISABLE=1");
            }
            assert_int_equal(told, i);
            assert_int_equal(disabled, !i);
        }
        assert_int_equal(broker_stop(&b), 0);
    }
    /* A folder to keep it in says that it is wanted, but not by whom it is written. */
    const char *kept[] = {"--vhost-user", "SOCKET", "--jit-cache-dir", "/nonexistent/folder", NULL};
    memset(&b, 0, sizeof(b));
    assert_int_equal(broker_start(&b, kept), -1);
    assert_true(ends_with(&b, 2));
}

/* Bytes and entries of a tree, which goes. */
static void taken(const char *path, uint64_t *bytes, unsigned *entries)
{
    DIR *d = opendir(path);
    struct dirent *e;

    while (d && (e = readdir(d))) {
        char sub[4200];
        struct stat st;

        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        snprintf(sub, sizeof(sub), "%s/%s", path, e->d_name);
        assert_int_equal(lstat(sub, &st), 0);
        assert_true(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode));
        *bytes += (uint64_t)st.st_size;
        ++*entries;
        if (S_ISDIR(st.st_mode))
            taken(sub, bytes, entries);
        assert_int_equal(remove(sub), 0);
    }
    if (d)
        closedir(d);
}

/* A folder that is given has the code for the next broker; two at once do not get it; what else is in there stays. */
static void test_kept(void **state)
{
    struct broker b[2];
    char dir[128], file[240], path[200];
    uint64_t bytes = 0;
    unsigned entries = 0;

    (void)state;
    need_place(__func__);
    snprintf(dir, sizeof(dir), "%s/kept", tmp);
    snprintf(file, sizeof(file), "%s/letter", dir);
    snprintf(path, sizeof(path), "%s/vgpu-jit", dir);
    assert_int_equal(start(&b[0], "--jit-cache-dir", dir, NULL, NULL), 0);
    assert_string_equal(counted(&b[0], '1', "268435456"), HERE);
    close(open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    assert_int_equal(start(&b[1], "--jit-cache-dir", dir, NULL, NULL), -1);
    assert_true(ends_with(&b[1], 1));
    assert_true(file_has(log_name, "another vgpu-backend uses it"));
    counted(&b[0], '2', "268435456");
    assert_int_equal(broker_stop(&b[0]), 0);
    for (char c = '3'; c < '5'; c++) {
        assert_int_equal(start(&b[1], "--jit-cache-dir", dir, "--jit-cache", "1M"), 0);
        counted(&b[1], c, "1048576");
        assert_int_equal(broker_stop(&b[1]), 0);
    }
    assert_int_equal(unlink(file), 0);
    taken(path, &bytes, &entries);
    assert_int_equal(bytes > 0, 1);
    assert_int_equal(entries, 2); /* a folder, a file */
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

/* What a worker that was taken over writes: bytes and files, some of them seen by nobody, are bounded by the kernel. */
static void flooded(struct broker *b, struct guest *g)
{
    char text[4096];
    long bytes, files;

    ask(b, g, CACHE_FLOOD, text);
    assert_int_equal(sscanf(text, "flooded %ld %ld", &bytes, &files), 2);
    assert_uint_in_range(bytes, 1 << 20, 2 << 20);
    assert_uint_in_range(files, 1000, 16384);
}

/* A worker that writes without measure, folders that its owner may not enter and very deep ones. */
static void test_bounded(void **state)
{
    struct broker b;
    struct guest g;

    (void)state;
    need_place(__func__);
    assert_int_equal(start(&b, "--jit-cache", "1M", NULL, NULL), 0);
    counted(&b, '1', "1048576");
    flooded(&b, &g);
    leave(&b, &g);
    for (int i = 0; i < 6000 && !file_has(log_name, "emptied"); i++)
        usleep(10000);
    assert_true(file_has(log_name, "emptied"));
    counted(&b, '1', "1048576");
    /* And at the end, with all of that in it. */
    flooded(&b, &g);
    assert_int_equal(broker_stop(&b), 0);
    guest_close(&g);
}

/* All of that in the folder that stays, too: no more of it than was allowed, and none of what only looks large. */
static void test_bounded_kept(void **state)
{
    struct broker b;
    struct guest g;
    char dir[128], path[200];
    uint64_t bytes = 0;
    unsigned entries = 0;

    (void)state;
    need_place(__func__);
    snprintf(dir, sizeof(dir), "%s/kept", tmp);
    snprintf(path, sizeof(path), "%s/vgpu-jit", dir);
    assert_int_equal(start(&b, "--jit-cache-dir", dir, "--jit-cache", "1M"), 0);
    flooded(&b, &g);
    assert_int_equal(broker_stop(&b), 0);
    guest_close(&g);
    assert_int_equal(start(&b, "--jit-cache-dir", dir, "--jit-cache", "1M"), 0);
    assert_int_equal(broker_stop(&b), 0);
    taken(path, &bytes, &entries);
    assert_uint_in_range(bytes, 0, (2 << 20) + (16 << 20)); /* folders have a size, too */
    assert_uint_in_range(entries, 0, 16384);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

static void test_bad_options(void **state)
{
    static const char *const bad[][3] = {{"--jit-cache", "5", "2"},
                                         {"--jit-cache", "5G", "2"},
                                         {"--jit-cache", "much", "2"},
                                         {"--jit-cache-dir", "/dev/null", "2"},
                                         {"--jit-cache-dir", "/nonexistent/folder", "2"}};
    struct broker b;

    (void)state;
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(start(&b, bad[i][0], bad[i][1], NULL, NULL), -1);
        assert_true(ends_with(&b, atoi(bad[i][2])));
    }
}

/* Nothing else can be tried where no file system can be made. */
static void test_there_is_a_place(void **state)
{
    struct broker b;

    (void)state;
    assert_int_equal(start(&b, NULL, NULL, NULL, NULL), 0);
    assert_int_equal(broker_stop(&b), 0);
    no_place = file_has(log_name, "no file system for compiled code");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_there_is_a_place, setup, teardown),
        cmocka_unit_test_setup_teardown(test_of_one_broker, setup, teardown),
        cmocka_unit_test_setup_teardown(test_off, setup, teardown),
        cmocka_unit_test_setup_teardown(test_of_a_machine, setup, teardown),
        cmocka_unit_test_setup_teardown(test_in_shm, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bounded_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_options, setup, teardown),
    };

    return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
