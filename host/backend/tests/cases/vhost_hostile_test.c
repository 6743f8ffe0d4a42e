/* SPDX-License-Identifier: MIT */
/* A QEMU, a guest and workers that misbehave: the broker goes on, and answers in time. */
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
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/testing/range.h"
#include "vgb_deadline.h"
#include "vgb_fd.h"
#include "vgb_log.h"
#include "vm.h"

/* The debuggers that hold killed workers of this broker; ends them when told to. How many. */
static unsigned debuggers(pid_t broker, bool end)
{
    DIR *d = opendir("/proc");
    struct dirent *e;
    unsigned n = 0;

    while (d && (e = readdir(d))) {
        char path[300], line[200];
        long tracer = 0, ppid = 0;

        snprintf(path, sizeof(path), "/proc/%.20s/status", e->d_name);
        FILE *f = atol(e->d_name) > 0 ? fopen(path, "r") : NULL;
        while (f && fgets(line, sizeof(line), f)) {
            sscanf(line, "PPid: %ld", &ppid);
            sscanf(line, "TracerPid: %ld", &tracer);
        }
        if (f)
            fclose(f);
        if (ppid != broker || !tracer)
            continue;
        n++;
        if (end)
            kill((pid_t)tracer, SIGKILL);
    }
    if (d)
        closedir(d);
    return n;
}

static int open_bad(struct vm *v, const char *what)
{
    static char path[600];
    static const char *const extra[] = {"--vhost-user", "SOCKET", "--log", "/dev/null",
                                        "--worker",     path,     NULL};

    snprintf(path, sizeof(path), "%s/tests/badworker", getenv("BACKEND_DIR"));
    setenv("VGPU_TEST_BADWORKER", what, 1);
    v->wait_ms = VGB_GUEST_MS; /* as long as the guest's driver has patience */
    return vm_open(v, extra);
}

static int device_ping(struct vm *v)
{
    struct vgpu_cmd_hdr h = {.type = VGPU_CMD_PING};

    return vm_control(v, &h, sizeof(h), NULL);
}

/* A worker that the kernel does not end: its slot is lost for a while, and nothing else. */
static void test_stuck_worker(void **state)
{
    struct vm v = {0};
    struct vgpu_cmd_hdr bad = {.type = VGPU_CMD_PING, .client = 1};

    (void)state;
    assert_int_equal(open_bad(&v, "held"), 0);
    assert_int_equal(vm_create(&v, 0), VGPU_S_OK);
    assert_int_equal(vm_destroy(&v, 0), VGPU_S_STUCK);
    assert_int_equal(debuggers(v.b.pid, false), 1);
    assert_int_equal(device_ping(&v), VGPU_S_OK);
    assert_int_equal(vm_control(&v, &bad, sizeof(bad), NULL), VGPU_S_INVALID);
    assert_int_equal(vm_create(&v, 0), VGPU_S_BUSY);
    assert_int_equal(vm_destroy(&v, 0), VGPU_S_STUCK);
    assert_int_equal(vm_create(&v, 1), VGPU_S_OK); /* the other slot */
    /* A reset, which stops QEMU's main loop until it is answered. */
    struct brk_vu_payload_state st, off = {0, 0};
    uint64_t begun = vgb_now_ns();
    assert_int_equal(vm_send_msg(&v, BRK_VU_GET_VRING_BASE, &off, 8, NULL, 0, 0), 0);
    for (int i = 0; i < 2 && vm_get_reply(&v, &st, sizeof(st)) == UINT64_MAX; i++)
        assert_int_equal(i, 0);
    assert_true(vgb_now_ns() - begun < VGB_MS_TO_NS(VGB_GUEST_MS));
    vm_start_queues(&v);
    assert_int_equal(vm_create(&v, 0), VGPU_S_BUSY);
    /* Once it can be reaped all is as before. */
    assert_int_equal(debuggers(v.b.pid, true), 2);
    for (int i = 0; i < 3000 && debuggers(v.b.pid, false); i++)
        usleep(10000);
    int r = VGPU_S_BUSY;
    for (int i = 0; i < 3000 && (r = vm_create(&v, 0)) == VGPU_S_BUSY; i++)
        usleep(10000);
    assert_int_equal(r, VGPU_S_OK);
    /* QEMU goes and comes back while one is stuck. */
    vgb_close(&v.sock);
    r = -1;
    for (int i = 0; i < 1000 && r; i++) {
        vgb_close(&v.sock);
        /* Refused while the old connection still ends. */
        r = vm_connect(&v) || vm_ask(&v, BRK_VU_GET_FEATURES) == UINT64_MAX;
        usleep(r ? 10000 : 0);
    }
    assert_int_equal(r, 0);
    vm_negotiate(&v);
    vm_start_queues(&v);
    assert_int_equal(device_ping(&v), VGPU_S_OK);
    assert_int_equal(vm_create(&v, 1), VGPU_S_OK);
    debuggers(v.b.pid, true);
    assert_int_equal(vm_close(&v), 0);
    unsetenv("VGPU_TEST_BADWORKER");
}

/* One that never serves, and cannot be ended either: the request has its answer in time. */
static void test_silent_worker(void **state)
{
    struct vm v = {0};

    (void)state;
    assert_int_equal(open_bad(&v, "held-silent"), 0);
    assert_int_equal(vm_create(&v, 0), VGPU_S_STUCK);
    assert_int_equal(vm_create(&v, 0), VGPU_S_BUSY);
    debuggers(v.b.pid, true);
    int r = VGPU_S_STUCK;
    for (int i = 0; i < 3000 && (r = vm_destroy(&v, 0)) == VGPU_S_STUCK; i++)
        usleep(10000);
    assert_int_equal(r, VGPU_S_NO_CLIENT);
    assert_int_equal(vm_close(&v), 0);
    unsetenv("VGPU_TEST_BADWORKER");
}

/* The same for a program of this host: it is told, and does not wait for an end that does not come. */
static void test_silent_worker_of_a_program(void **state)
{
    char path[600];
    const char *extra[] = {"--worker", path, "--log", "/dev/null", NULL};
    struct broker b = {0};
    struct guest g;

    (void)state;
    snprintf(path, sizeof(path), "%s/tests/badworker", getenv("BACKEND_DIR"));
    setenv("VGPU_TEST_BADWORKER", "held-silent", 1);
    assert_int_equal(broker_start(&b, extra), 0);
    assert_int_equal(guest_connect(&g, b.sock, "program"), -1);
    assert_non_null(strstr(g.refused, "no worker could be started"));
    assert_true(debuggers(b.pid, false) >= 1); /* its worker is still there */
    guest_close(&g);
    debuggers(b.pid, true);
    assert_int_equal(broker_stop(&b), 0);
    unsetenv("VGPU_TEST_BADWORKER");
}

/* Flags of a description are shared: a worker can make the eventfd that it wakes the broker by a blocking one. */
static void test_worker_takes_wakes(void **state)
{
    struct vm v = {0};

    (void)state;
    assert_int_equal(open_bad(&v, "takes-wakes"), 0);
    assert_int_equal(vm_create(&v, 0), VGPU_S_OK);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(device_ping(&v), VGPU_S_OK);
        usleep(10000);
    }
    assert_int_equal(vm_destroy(&v, 0), VGPU_S_OK);
    assert_int_equal(vm_close(&v), 0);
    unsetenv("VGPU_TEST_BADWORKER");
}

static unsigned lines_of(const char *path)
{
    FILE *f = fopen(path, "r");
    unsigned n = 0;
    int c;

    while (f && (c = getc(f)) != EOF)
        n += c == '\n';
    if (f)
        fclose(f);
    return n;
}

/* What QEMU can cause again and again fills no disk. */
static void test_log(void **state)
{
    char log[] = "/tmp/vgb-log-XXXXXX";
    const char *extra[] = {"--vhost-user", "SOCKET", "--log", log, "--log-level", "info", NULL};
    struct brk_vu_payload_state bad = {200, 16};
    struct vm v = {0};
    uint64_t begun = vgb_now_ns();

    (void)state;
    int fd = mkstemp(log);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(vm_open(&v, extra), 0);
    for (int i = 0; i < 500; i++)
        assert_int_equal(vm_acked(&v, BRK_VU_SET_VRING_NUM, &bad, 8, NULL, 0), 1);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(vm_send_msg(&v, 77, NULL, 0, NULL, 0, 0), 0);
        char c;
        assert_true(recv(v.sock, &c, 1, 0) <= 0);
        vgb_close(&v.sock);
        assert_int_equal(vm_connect(&v), 0);
        vm_negotiate(&v);
    }
    /* Two sources of lines, and what is logged before. */
    uint64_t seconds = (vgb_now_ns() - begun) / 1000000000u + 2;
    assert_true(lines_of(log) <= 20 + 2 * (VGB_LOG_BURST + 1) * seconds);
    assert_int_equal(vm_close(&v), 0);
    unlink(log);
}

/* ---- guest memory ---- */

#define PIN_VA 0x7f2200000000ull

static int pin_two_pages(struct vm *v, uint32_t flags)
{
    struct {
        struct vgpu_cmd_pin pin;
        struct vgpu_pin_run runs[2];
    } q = {
        .pin = {.hdr = {.type = VGPU_CMD_PIN},
                .region = 1,
                .pin_flags = flags,
                .va = PIN_VA,
                .length = 0x2000,
                .nruns = 2},
        .runs = {{.addr = RAM_GPA + 0x140000, .len = 0x1000}, {.addr = RAM_GPA + 0x150000, .len = 0x1000}}};

    return vm_control(v, &q, sizeof(q), NULL);
}

static int unpin(struct vm *v)
{
    struct vgpu_cmd_unpin u = {.hdr = {.type = VGPU_CMD_UNPIN}, .region = 1};

    return vm_control(v, &u, sizeof(u), NULL);
}

static bool no_mapper(const char *test)
{
#ifdef __SANITIZE_ADDRESS__
    printf("not run: %s: a build with AddressSanitizer has no mapper\n", test);
    return true;
#else
    (void)test;
    return false;
#endif
}

/* What a worker that was taken over may have its mapper do: nothing but what its client has pinned. */
static void test_mapper(void **state)
{
    static const struct {
        const char *what;
        uint32_t flags;
        bool pins, unpins;
    } cases[] = {
        {"mapper-honest", 0, true, true},
        {"mapper-reads", VGPU_PIN_READONLY, true, true}, /* and finds that it stays so */
        {"mapper-writes", VGPU_PIN_READONLY, false, false},
        {"mapper-other", 0, false, false},
        {"mapper-more", 0, false, false},
        {"mapper-alias", 0, false, false},
        {"mapper-crash", 0, false, false},
        {"mapper-odd", 0, false, false},
        {"mapper-early", 0, false, false}, /* says so before the mapper has */
        {"mapper-keeps", 0, true, false},
        {"mapper-keeps-a-page", 0, true, false},
        {"mapper-takes-another", 0, true, false},
        {"mapper-unasked", 0, true, false},
    };

    (void)state;
    if (no_mapper("mapper"))
        return;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct vm v = {0};

        assert_int_equal(open_bad(&v, cases[i].what), 0);
        assert_int_equal(vm_create(&v, 0), VGPU_S_OK);
        int pinned = pin_two_pages(&v, cases[i].flags), unpinned = unpin(&v);
        /* What it says may come after UNPIN: then it was asked, and the broker has looked. */
        bool late = unpinned == VGPU_S_OK && !strcmp(cases[i].what, "mapper-unasked");

        if ((pinned == VGPU_S_OK) != cases[i].pins || (unpinned == VGPU_S_OK && !late) != cases[i].unpins)
            fail_msg("%s: PIN %d, UNPIN %d", cases[i].what, pinned, unpinned);
        assert_true(cases[i].unpins || late || unpinned == VGPU_S_WORKER);
        assert_int_equal(device_ping(&v), VGPU_S_OK);
        assert_int_equal(vm_destroy(&v, 0), VGPU_S_OK);
        assert_int_equal(vm_close(&v), 0);
    }
    unsetenv("VGPU_TEST_BADWORKER");
}

/* A region that could not be mapped is taken away before its PIN is answered, and its number is free. */
static void test_mapper_fails(void **state)
{
    struct vm v = {0};

    (void)state;
    if (no_mapper("mapper_fails"))
        return;
    assert_int_equal(open_bad(&v, "mapper-fails"), 0);
    assert_int_equal(vm_create(&v, 0), VGPU_S_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pin_two_pages(&v, 0), VGPU_S_NO_MEMORY);
        assert_int_equal(unpin(&v), VGPU_S_INVALID);
    }
    assert_int_equal(vm_destroy(&v, 0), VGPU_S_OK);
    assert_int_equal(vm_close(&v), 0);
    unsetenv("VGPU_TEST_BADWORKER");
}

/* Without its mapper a worker is of no use; and it is gone when both are. */
static void test_mapper_killed(void **state)
{
    static const char *const extra[] = {"--vhost-user", "SOCKET", "--log", "/dev/null", "--pool", "1", NULL};
    struct vm v = {0};
    pid_t list[8];

    (void)state;
    if (no_mapper("mapper_killed"))
        return;
    assert_int_equal(vm_open(&v, extra), 0);
    assert_int_equal(vm_create(&v, 0), VGPU_S_OK);
    assert_int_equal(pin_two_pages(&v, 0), VGPU_S_OK);
    unsigned n = mappers_of(v.b.pid, list, 8);
    assert_uint_in_range(n, 1, 8);
    for (unsigned i = 0; i < n; i++)
        kill(list[i], SIGKILL);
    int r = VGPU_S_OK;
    for (int i = 0; i < 3000 && (r = pin_two_pages(&v, 0)) != VGPU_S_WORKER; i++)
        usleep(10000);
    assert_int_equal(r, VGPU_S_WORKER);
    assert_int_equal(device_ping(&v), VGPU_S_OK);
    assert_int_equal(vm_destroy(&v, 0), VGPU_S_OK);
    assert_int_equal(vm_create(&v, 0), VGPU_S_OK); /* by another one */
    assert_int_equal(pin_two_pages(&v, 0), VGPU_S_OK);
    assert_int_equal(unpin(&v), VGPU_S_OK);
    assert_int_equal(vm_close(&v), 0);
}

/* A worker that cannot be ended has the guest's memory still, whenever it is asked for: the guest keeps the pages. */
static void test_stuck_with_memory(void **state)
{
    struct vm v = {0};

    (void)state;
    assert_int_equal(open_bad(&v, "held"), 0);
    assert_int_equal(vm_create(&v, 0), VGPU_S_OK);
    assert_int_equal(pin_two_pages(&v, 0), VGPU_S_STUCK); /* it never says that it has mapped it */
    assert_int_equal(debuggers(v.b.pid, false), 1);
    assert_int_equal(unpin(&v), VGPU_S_STUCK);
    assert_int_equal(pin_two_pages(&v, 0), VGPU_S_STUCK);
    assert_int_equal(vm_destroy(&v, 0), VGPU_S_STUCK);
    assert_int_equal(unpin(&v), VGPU_S_STUCK);
    debuggers(v.b.pid, true);
    int r = VGPU_S_STUCK;
    for (int i = 0; i < 3000 && (r = unpin(&v)) == VGPU_S_STUCK; i++)
        usleep(10000);
    assert_int_equal(r, VGPU_S_NO_CLIENT);
    /* The same of a client that the guest has not destroyed: what is given back is counted at once. */
    assert_int_equal(vm_create(&v, 0), VGPU_S_OK);
    assert_int_equal(pin_two_pages(&v, 0), VGPU_S_STUCK);
    assert_null(broker_books(v.b.pid));
    debuggers(v.b.pid, true);
    for (int i = 0; i < 3000 && (r = pin_two_pages(&v, 0)) == VGPU_S_STUCK; i++)
        usleep(10000);
    assert_int_equal(r, VGPU_S_WORKER);
    assert_null(broker_books(v.b.pid));
    assert_int_equal(vm_close(&v), 0);
    unsetenv("VGPU_TEST_BADWORKER");
}

/* A mapper of which the broker has not heard goes with its worker, and leaves no zombie. */
static void test_strays(void **state)
{
    struct vm v = {0};
    unsigned n = 0;

    (void)state;
    assert_int_equal(open_bad(&v, "strays"), 0);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(vm_create(&v, 0), VGPU_S_OK);
        for (int i = 0; i < 3000 && (n = strays_of(v.b.pid)) != 2; i++)
            usleep(10000);
        assert_int_equal(n, 2);
        assert_int_equal(vm_destroy(&v, 0), VGPU_S_OK);
        for (int i = 0; i < 3000 && (n = strays_of(v.b.pid)); i++)
            usleep(10000);
        assert_int_equal(n, 0);
    }
    assert_int_equal(vm_close(&v), 0);
    unsetenv("VGPU_TEST_BADWORKER");
}

/* Windows of another size beside a client that cannot be ended: its slice is cleared when it ends, and
 * no other client has it until then. */
static void test_stuck_with_window(void **state)
{
    struct vm v = {0};
    int r = VGPU_S_BUSY;

    (void)state;
    assert_int_equal(open_bad(&v, "held"), 0);
    assert_int_equal(vm_create(&v, 1), VGPU_S_OK);
    assert_int_equal(vm_set_windows(&v, 1, 2 * WINDOW), 1); /* it is served */
    assert_int_equal(vm_destroy(&v, 1), VGPU_S_STUCK);
    assert_int_equal(vm_set_windows(&v, 1, 2 * WINDOW), 0);
    assert_int_equal(vm_create(&v, 0), VGPU_S_BUSY);
    debuggers(v.b.pid, true);
    for (int i = 0; i < 3000 && (r = vm_create(&v, 0)) == VGPU_S_BUSY; i++)
        usleep(10000);
    assert_int_equal(r, VGPU_S_OK);
    debuggers(v.b.pid, true);
    assert_int_equal(vm_close(&v), 0);
    unsetenv("VGPU_TEST_BADWORKER");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stuck_worker),
        cmocka_unit_test(test_silent_worker),
        cmocka_unit_test(test_silent_worker_of_a_program),
        cmocka_unit_test(test_worker_takes_wakes),
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_mapper),
        cmocka_unit_test(test_mapper_fails),
        cmocka_unit_test(test_mapper_killed),
        cmocka_unit_test(test_strays),
        cmocka_unit_test(test_stuck_with_memory),
        cmocka_unit_test(test_stuck_with_window),
    };

    return cmocka_run_group_tests_name("vhost-hostile", tests, NULL, NULL);
}
