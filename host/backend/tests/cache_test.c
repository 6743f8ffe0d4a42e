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
#include <cuda.h>

#include "guest.h"
#include "proc.h"
#include "testprov.h"
#include "vgp_ring.h"

static char tmp[64], log_name[80];

/* Brokers make their folders in one of the test's own, so that what is left behind is seen. */
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

static int start(struct broker *b, const char *a, const char *a1, const char *c, const char *c1)
{
    const char *extra[] = {"--log-level", "info", "--log", log_name, a, a1, c, c1, NULL};

    memset(b, 0, sizeof(*b));
    return broker_start(b, extra);
}

static bool log_has(const char *text)
{
    FILE *f = fopen(log_name, "r");
    char line[900];
    bool found = false;

    while (f && fgets(line, sizeof(line), f))
        found |= strstr(line, text) != NULL;
    if (f)
        fclose(f);
    return found;
}

/* A new client, whose provider does `what`, and what it prints. */
static void ask(struct broker *b, struct guest *g, unsigned what, char text[4096])
{
    assert_int_equal(guest_connect(g, b->sock, "cache"), 0);
    assert_int_equal(guest_context(g), 0);
    assert_int_equal(guest_memset(g, 0, VALUE_CACHE, what, 0), 0);
    assert_true(guest_notification(g, VGP_NOTIFY_PRINT, NULL, text, 10000));
}

/* Its worker has been reaped when this returns: the folder has been looked through after it. */
static void leave(struct broker *b, struct guest *g)
{
    pid_t w = worker_of_client(b->pid);

    assert_true(w > 0);
    guest_close(g);
    assert_true(gone_within(w, 10000));
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

/* One worker's code is there for the next; for those of another broker it is not, in no way. */
static void test_of_one_broker(void **state)
{
    struct broker b[2];
    struct guest g;
    char text[4096], path[2][4096];

    (void)state;
    setenv("CUDA_CACHE_PATH", "/nonexistent", 1);
    setenv("CUDA_CACHE_MAXSIZE", "1", 1);
    assert_int_equal(start(&b[0], NULL, NULL, NULL, NULL), 0);
    snprintf(path[0], sizeof(path[0]), "%s", counted(&b[0], '1', "268435456"));
    assert_memory_equal(path[0], tmp, strlen(tmp));
    counted(&b[0], '2', "268435456");
    setenv("VGPU_TEST_OTHER_CACHE", path[0], 1);
    assert_int_equal(start(&b[1], "--jit-cache", "16M", NULL, NULL), 0);
    snprintf(path[1], sizeof(path[1]), "%s", counted(&b[1], '1', "16777216"));
    assert_string_not_equal(path[0], path[1]);
    ask(&b[1], &g, CACHE_OTHER, text);
    assert_string_equal(text, "other 0 0 0 0 0\n");
    guest_close(&g);
    counted(&b[0], '3', "268435456");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(broker_stop(&b[i]), 0);
        assert_int_not_equal(access(path[i], F_OK), 0);
    }
    unsetenv("VGPU_TEST_OTHER_CACHE");
    unsetenv("CUDA_CACHE_PATH");
    unsetenv("CUDA_CACHE_MAXSIZE");
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

/* A folder that is given stays for the next broker; two at once do not get it; what else is in there stays. */
static void test_kept(void **state)
{
    struct broker b[2];
    char dir[128], file[240], path[200];

    (void)state;
    snprintf(dir, sizeof(dir), "%s/kept", tmp);
    snprintf(file, sizeof(file), "%s/letter", dir);
    assert_int_equal(start(&b[0], "--jit-cache-dir", dir, NULL, NULL), 0);
    snprintf(path, sizeof(path), "%s", counted(&b[0], '1', "268435456"));
    close(open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    assert_int_equal(start(&b[1], "--jit-cache-dir", dir, NULL, NULL), -1);
    assert_true(ends_with(&b[1], 1));
    assert_true(log_has("another vgpu-backend uses it"));
    counted(&b[0], '2', "268435456");
    assert_int_equal(broker_stop(&b[0]), 0);
    assert_int_equal(start(&b[1], "--jit-cache-dir", dir, "--jit-cache", "1M"), 0);
    assert_string_equal(counted(&b[1], '3', "1048576"), path);
    assert_int_equal(broker_stop(&b[1]), 0);
    assert_int_equal(unlink(file), 0);
    snprintf(file, sizeof(file), "%s/a/entry", path);
    assert_int_equal(unlink(file), 0);
    *strrchr(file, '/') = '\0';
    assert_int_equal(rmdir(file), 0);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

/* A worker that writes without measure, folders that its owner may not enter and very deep ones. */
static void test_bounded(void **state)
{
    struct broker b;
    struct guest g;
    char text[4096];

    (void)state;
    assert_int_equal(start(&b, "--jit-cache", "1M", NULL, NULL), 0);
    counted(&b, '1', "1048576");
    ask(&b, &g, CACHE_FLOOD, text);
    assert_string_equal(text, "flooded\n");
    leave(&b, &g);
    for (int i = 0; i < 1000 && !log_has("emptied"); i++)
        usleep(10000);
    assert_true(log_has("emptied"));
    counted(&b, '1', "1048576");
    /* And at the end, with all of that in it. */
    ask(&b, &g, CACHE_FLOOD, text);
    assert_int_equal(broker_stop(&b), 0);
    guest_close(&g);
}

/* What a killed broker has left is removed by the next one, what a living one has is not. */
static void test_stale(void **state)
{
    struct broker b[3];
    char path[2][4096];

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(start(&b[i], NULL, NULL, NULL, NULL), 0);
        snprintf(path[i], sizeof(path[i]), "%s", counted(&b[i], '1', "268435456"));
    }
    kill(b[0].pid, SIGKILL);
    broker_stop(&b[0]);
    assert_int_equal(access(path[0], F_OK), 0);
    assert_int_equal(start(&b[2], NULL, NULL, NULL, NULL), 0);
    assert_int_not_equal(access(path[0], F_OK), 0);
    counted(&b[1], '2', "268435456");
    assert_int_equal(broker_stop(&b[1]), 0);
    assert_int_equal(broker_stop(&b[2]), 0);
}

static void test_bad_options(void **state)
{
    static const char *const bad[][3] = {{"--jit-cache", "5", "2"}, {"--jit-cache", "5G", "2"},
                                         {"--jit-cache", "much", "2"}, {"--jit-cache-dir", "/dev/null", "1"},
                                         {"--jit-cache-dir", "/nonexistent/folder", "1"}};
    struct broker b;

    (void)state;
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(start(&b, bad[i][0], bad[i][1], NULL, NULL), -1);
        assert_true(ends_with(&b, atoi(bad[i][2])));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_of_one_broker, setup, teardown),
        cmocka_unit_test_setup_teardown(test_off, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stale, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_options, setup, teardown),
    };

    return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
