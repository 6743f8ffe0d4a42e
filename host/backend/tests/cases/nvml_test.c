/* SPDX-License-Identifier: MIT */
/* What a VM sees of a physical GPU's NVML: the device's values, its own processes by their own pids, no others'. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "guest.h"
#include "proc.h"
#include "testnvml.h"
#include "vgp_calls.h"

#define NOT_SUPPORTED 3
#define FUNCTION_NOT_FOUND 13

static char dir[64];
static const char *nvml = "testnvml.so"; /* the one beside the driver */

/* A folder with a driver: the test provider, and the test NVML beside it. */
static int setup(void **state)
{
    const char *const parts[][2] = {{"libtestprov.so", "libcuda.so.1"}, {nvml, "libnvidia-ml.so.1"}};
    char from[600], to[128];

    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/vgb-nvml-XXXXXX");
    if (!mkdtemp(dir) || chmod(dir, 0755))
        return -1;
    for (unsigned i = 0; i < 2; i++) {
        snprintf(from, sizeof(from), "%s/tests/%s", getenv("BACKEND_DIR"), parts[i][0]);
        snprintf(to, sizeof(to), "%s/%s", dir, parts[i][1]);
        if (symlink(from, to))
            return -1;
    }
    return setenv("VGPU_TEST_NVML_DEVICE", "1", 1);
}

static int teardown(void **state)
{
    char path[128];

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, i ? "libnvidia-ml.so.1" : "libcuda.so.1");
        unlink(path);
    }
    unsetenv("VGPU_TEST_NVML_DEVICE");
    unsetenv("VGPU_TEST_NVML_STRANGERS");
    return rmdir(dir);
}

static int start(struct broker *b, const char *option, const char *value)
{
    char provider[128];
    const char *extra[] = {"--provider", provider, option, value, NULL};

    snprintf(provider, sizeof(provider), "%s/libcuda.so.1", dir);
    memset(b, 0, sizeof(*b));
    return broker_start(b, extra);
}

/* A guest's process with that pid, which computes and has asked NVML something. */
static void process(struct guest *g, struct broker *b, uint32_t pid)
{
    const void *p;

    assert_int_equal(guest_connect(g, b->sock, "nvml"), 0);
    g->s->guest_pid = pid;
    assert_int_equal(guest_context(g), 0);
    g->s->has_context = 1;
    g->s->memory_used = 1;
    assert_int_equal(guest_call(g, VGP_vgpNvmlInfo, NULL, 0, &p, NULL), 0);
    assert_true(((const struct vgp_ret_vgpNvmlInfo *)p)->flags & VGP_NVML_HOST);
}

static int get(struct guest *g, uint32_t ordinal, uint32_t what, uint32_t argument,
               struct vgp_ret_vgpNvmlGet *out)
{
    struct vgp_args_vgpNvmlGet a = {.ordinal = ordinal, .what = what, .argument = argument};
    const void *p;

    assert_int_equal(guest_call(g, VGP_vgpNvmlGet, &a, sizeof(a), &p, NULL), 0);
    memcpy(out, p, sizeof(*out));
    return out->status;
}

static void test_values(void **state)
{
    static const struct {
        uint32_t ordinal, what, argument;
        int status;
        uint64_t first, second;
    } cases[] = {
        {0, VGP_NVML_UTILIZATION, 0, 0, 37, 12},
        {0, VGP_NVML_POWER_USAGE, 0, 0, 251000, 0},
        {0, VGP_NVML_TEMPERATURE, 0, 0, 55, 0},
        {0, VGP_NVML_TEMPERATURE, 3, 0, 58, 0},
        {0, VGP_NVML_ENERGY, 0, 0, 1ull << 40, 0},
        {0, VGP_NVML_FAN_SPEED, 0, NOT_SUPPORTED, 99, 0},
        {0, VGP_NVML_CLOCK, 0, FUNCTION_NOT_FOUND, 0, 0},
        {0, VGP_NVML_WHATS, 0, NOT_SUPPORTED, 0, 0},
        {0, 0xffffffff, 0, NOT_SUPPORTED, 0, 0},
        {1, VGP_NVML_POWER_USAGE, 0, NOT_SUPPORTED, 0, 0},
#define ONE(name, what) {0, VGP_NVML_##what, 0, 0, TESTNVML_##name, 0},
#define PAIR(name, what) {0, VGP_NVML_##what, 0, 0, TESTNVML_##name, TESTNVML_##name + 1000},
        TESTNVML_ONES(ONE) TESTNVML_PAIRS(PAIR){0xffffffff, VGP_NVML_POWER_USAGE, 0, NOT_SUPPORTED, 0, 0},
    };
    struct vgp_ret_vgpNvmlGet r;
    struct broker b;
    struct guest g;
    uint32_t size;
    const void *p;

    (void)state;
    assert_int_equal(start(&b, NULL, NULL), 0);
    process(&g, &b, 77);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(get(&g, cases[i].ordinal, cases[i].what, cases[i].argument, &r), cases[i].status);
        assert_int_equal(r.first, cases[i].first);
        assert_int_equal(r.second, cases[i].second);
    }
    struct vgp_args_vgpNvmlGet a = {.what = VGP_NVML_SERIAL};
    assert_int_equal(guest_call(&g, VGP_vgpNvmlGet, &a, sizeof(a), &p, &size), 0);
    assert_non_null(memmem(p, size, "0123456789", 11));
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

static bool in(pid_t pid, const pid_t *list, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (list[i] == pid)
            return true;
    }
    return false;
}

/* The processes that one guest sees: `want` in any order, each with what NVML says that its worker uses. */
static void check_processes(struct guest *g, struct broker *b, const uint32_t want[2])
{
    struct vgp_args_vgpNvmlUsage a = {.ordinal = 0};
    struct vgp_ret_vgpNvmlUsage r;
    uint64_t rows[6];
    pid_t workers[16];
    const void *p;
    unsigned n = workers_of(b->pid, workers, 16);
    uint32_t size;

    assert_int_equal(guest_call(g, VGP_vgpNvmlUsage, &a, sizeof(a), &p, &size), 0);
    memcpy(&r, p, sizeof(r));
    assert_int_equal(r.count, 2);
    assert_int_equal(r.processes_len, 6);
    assert_true(size >= sizeof(r) + sizeof(rows));
    memcpy(rows, (const char *)p + sizeof(r), sizeof(rows));
    assert_true((rows[0] == want[0] && rows[3] == want[1]) || (rows[0] == want[1] && rows[3] == want[0]));
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(rows[3 * i + 1] % 4096, 0);
        assert_true(in((pid_t)(rows[3 * i + 1] / 4096), workers, n < 16 ? n : 16));
    }
    assert_int_not_equal(rows[1], rows[4]);
    assert_int_equal(r.total, 80ull << 30);
    assert_int_equal(r.reserved,
                     strcmp(nvml, "testnvml.so") ? 0 : 1ull << 30); /* which the older call has not */
    assert_int_equal(r.used, 30ull << 30);
}

/* Two VMs, whose processes have the same pids there; NVML knows all workers and processes of the host. */
static void test_processes(void **state)
{
    static const uint32_t pids[2][2] = {{77, 78}, {77, 4242}};
    char strangers[200];
    struct broker b[2];
    struct guest g[2][2];
    pid_t workers[16];

    (void)state;
    assert_int_equal(start(&b[0], NULL, NULL), 0);
    unsigned n = workers_of(b[0].pid, workers, 16);
    int used = snprintf(strangers, sizeof(strangers), "1 %d %d", (int)getpid(), (int)b[0].pid);
    for (unsigned i = 0; i < n && i < 16; i++)
        used += snprintf(strangers + used, sizeof(strangers) - (size_t)used, " %d", (int)workers[i]);
    setenv("VGPU_TEST_NVML_STRANGERS", strangers, 1);
    assert_int_equal(start(&b[1], NULL, NULL), 0);
    for (unsigned i = 0; i < 4; i++)
        process(&g[i / 2][i % 2], &b[i / 2], pids[i / 2][i % 2]);
    for (unsigned i = 0; i < 4; i++)
        check_processes(&g[i / 2][i % 2], &b[i / 2], pids[i / 2]);
    for (unsigned i = 0; i < 4; i++)
        guest_close(&g[i / 2][i % 2]);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(broker_stop(&b[i]), 0);
}

static int setup_older(void **state)
{
    nvml = "testnvml_older.so";
    return setup(state);
}

static int teardown_older(void **state)
{
    nvml = "testnvml.so";
    return teardown(state);
}

/* With a quota the VM sees a device of that size, and what it uses itself: nothing of strangers. */
static void test_quota(void **state)
{
    struct vgp_args_vgpNvmlUsage a = {.ordinal = 0};
    const struct vgp_ret_vgpNvmlUsage *r;
    struct broker b;
    struct guest g;
    const void *p;

    (void)state;
    /* The test NVML says that a process uses a page for each number of its pid, which may be 4194304. */
    assert_int_equal(start(&b, "--vram-quota", "20G"), 0);
    process(&g, &b, 5);
    for (unsigned i = 0; i < 3; i++) { /* what a process says that it has: little, all, more than there is */
        g.s->memory_used = i ? UINT64_C(20) << (i == 1 ? 30 : 40) : 4096;
        assert_int_equal(guest_call(&g, VGP_vgpNvmlUsage, &a, sizeof(a), &p, NULL), 0);
        r = p;
        assert_true(r->total <= UINT64_C(20) << 30);
        assert_true(r->used <= r->total);
    }
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_values, setup, teardown),
        cmocka_unit_test_setup_teardown(test_processes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_processes, setup_older, teardown_older),
        cmocka_unit_test_setup_teardown(test_quota, setup, teardown),
    };

    return cmocka_run_group_tests_name("nvml", tests, NULL, NULL);
}
