/* SPDX-License-Identifier: MIT */
/*
 * Figures and shares as users read and set them: each number of the status is the one that its name says, in its unit;
 * what the control socket sets for one client is what it and the status then say, and what is enforced.
 */
#define _GNU_SOURCE
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
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/testing/range.h"
#include <cuda.h>

#include "guest.h"
#include "proc.h"
#include "vgb_fd.h"
#include "vgp_calls.h"
#include "vgp_sock.h"
#include <linux/types.h>

#include "vgpu_device.h"

static char text[131072];

/* The number behind the words, in a line of the status that begins with `line`. */
static unsigned long long figure(struct broker *b, const char *line, const char *name)
{
    char want[64], row[4500];
    unsigned long long value = 0;
    const char *at;

    assert_true(broker_status(b->pid, text, sizeof(text)) > 0);
    snprintf(want, sizeof(want), " %s ", name);
    for (at = text; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
        snprintf(row, sizeof(row), "%.*s ", (int)strcspn(at, "\n"), at);
        if (!strncmp(row, line, strlen(line)) && strstr(row, want) &&
            sscanf(strstr(row, want) + strlen(want), "%llu", &value) == 1)
            return value;
    }
    fail_msg("no '%s' in a line '%s' of: %s", name, line, text);
    return 0;
}

/* Until the figure is one of these: workers and broker tell each other between two calls. */
static void await_range(struct broker *b, const char *name, unsigned long long low, unsigned long long high)
{
    unsigned long long is = figure(b, "vm ", name);

    for (int i = 0; i < 3000 && (is < low || is > high); i++, is = figure(b, "vm ", name))
        usleep(10000);
    if (is < low || is > high)
        fail_msg("%s is %llu, not from %llu to %llu", name, is, low, high);
}

static void await(struct broker *b, const char *name, unsigned long long want)
{
    await_range(b, name, want, want);
}

/* Shares memory of this process; the broker's answer. */
static uint32_t share(struct guest *g, uint32_t region, uint64_t bytes)
{
    struct vgp_sock_map m = {.type = VGP_SOCK_MAP,
                             .region = region,
                             .va = 0x123400000000 + region * 0x10000000ull,
                             .length = bytes};
    struct vgp_sock_mapped answer = {0};
    int fd = memfd_create("client", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    unsigned nfds = 0;

    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_int_equal(vgb_send_fds(g->sock, &m, sizeof(m), &fd, 1, 0), sizeof(m));
    assert_int_equal(vgb_recv_fds(g->sock, &answer, sizeof(answer), NULL, &nfds, 0), sizeof(answer));
    close(fd);
    return answer.status;
}

static void test_amounts(void **state)
{
    const char *extra[] = {"--vram-quota", "64M", "--max-clients", "2", NULL};
    struct vgp_args_vgpBlobAppend a = {.blobId = 1, .totalSize = 24 << 20, .data_len = 16};
    static const uint8_t bytes[16];
    struct guest g[3];
    struct broker b;
    uint64_t p;

    (void)state;
    assert_int_equal(broker_start(&b, extra), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(guest_connect(&g[i], b.sock, "one"), 0);
    assert_int_equal(guest_context(&g[0]), 0);
    await(&b, "clients-started", 2);
    await(&b, "clients-refused", 0);
    for (unsigned i = 1; i <= 3; i++) {
        assert_int_equal(guest_connect(&g[2], b.sock, "more"), -1);
        guest_close(&g[2]);
        await(&b, "clients-refused", i);
    }
    await(&b, "clients-started", 2);
    assert_int_equal(guest_alloc(&g[0], 8 << 20, &p), 0);
    assert_int_equal(share(&g[0], 1, 2 << 20), VGPU_S_OK);
    guest_submit(&g[0], VGP_vgpBlobAppend, VGP_NO_REPLY, &a, sizeof(a), bytes, sizeof(bytes));
    await(&b, "vram-used", 8 << 20);
    await(&b, "pin-used", 2 << 20);
    await_range(&b, "blob-used", 24 << 20, 48 << 20); /* a worker reserves in larger steps */
    assert_int_equal(figure(&b, "limit ", "vram-quota"), 64 << 20);
    assert_int_equal(figure(&b, "limit ", "max-clients"), 2);
    await(&b, "workers-lost", 0);
    kill(worker_of_client(b.pid), SIGKILL);
    await(&b, "workers-lost", 1);
    for (int i = 0; i < 2; i++)
        guest_close(&g[i]);
    assert_int_equal(broker_stop(&b), 0);
}

static unsigned long long clock_ms(pid_t pid)
{
    struct timespec t;
    clockid_t clock;

    assert_int_equal(clock_getcpuclockid(pid, &clock), 0);
    assert_int_equal(clock_gettime(clock, &t), 0);
    return (unsigned long long)t.tv_sec * 1000 + (unsigned long long)t.tv_nsec / 1000000;
}

/* Milliseconds of the worker and its mapper, as the kernel has them. */
static void test_processor_time(void **state)
{
    unsigned long long low, high, said[2];
    struct guest g;
    struct broker b;
    pid_t w, mapper[8];
    char line[40];

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    assert_int_equal(guest_connect(&g, b.sock, "one"), 0);
    assert_int_equal(guest_context(&g), 0);
    w = worker_of_client(b.pid);
    snprintf(line, sizeof(line), "use %d ", (int)w);
    low = clock_ms(w);
    said[0] = figure(&b, line, "cpu-ms");
    said[1] = figure(&b, "vm ", "cpu-ms");
    high = clock_ms(w);
    unsigned n = mappers_of(b.pid, mapper, 8);
    for (unsigned i = 0; i < n && i < 8; i++)
        high += clock_ms(mapper[i]) + 1;
    assert_true(high > 1);
    for (int i = 0; i < 2; i++)
        assert_uint_in_range(said[i], low, high + 1);
    assert_int_equal(figure(&b, line, "throttled-ms"), 0);
    assert_int_equal(figure(&b, "vm ", "throttled-ms"), 0);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* What NVML gets: processor time and memory of all processes together, and each process's own. */
static void test_usage(void **state)
{
    unsigned long long low = 0;
    struct vgp_args_vgpNvmlUsage a = {.ordinal = 0};
    struct vgp_ret_vgpNvmlUsage r;
    struct guest g[3];
    struct broker b;
    pid_t w[8];
    const void *p;

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(guest_connect(&g[i], b.sock, "uses"), 0);
        assert_int_equal(guest_context(&g[i]), 0);
        g[i].s->has_context = 1;
        g[i].s->guest_pid = 100 + i;
        g[i].s->memory_used = (i + 1) << 20;
    }
    assert_true(broker_status(b.pid, text, sizeof(text)) > 0);
    unsigned n = 0;
    for (const char *at = strstr(text, "\nclient "); at && n < 3; at = strstr(at + 1, "\nclient "))
        n += sscanf(at, "\nclient %d", &w[n]) == 1;
    assert_int_equal(n, 3);
    for (unsigned i = 0; i < n; i++)
        low += clock_ms(w[i]);
    assert_int_equal(guest_call(&g[0], VGP_vgpNvmlUsage, &a, sizeof(a), &p, NULL), 0);
    memcpy(&r, p, sizeof(r));
    assert_int_equal(r.count, 3);
    assert_int_equal(r.processes_len, 9);
    assert_true(r.cpuNs / 1000000 >= low);
    assert_int_equal(r.used, 6 << 20);
    for (unsigned i = 0; i < 3; i++)
        guest_close(&g[i]);
    assert_int_equal(broker_stop(&b), 0);
}

static char control[64];
#define CONTROLLED(...) \
    { \
        "--control", control, __VA_ARGS__, NULL \
    }

static void begin(struct broker *b, const char *const *extra)
{
    strcpy(control, "/tmp/vgb-figures-XXXXXX");
    assert_non_null(mkdtemp(control));
    strcat(control, "/c");
    assert_int_equal(broker_start(b, extra), 0);
}

static void finish(struct broker *b)
{
    assert_int_equal(broker_stop(b), 0);
    *strrchr(control, '/') = '\0';
    assert_int_equal(rmdir(control), 0);
}

static void assert_answer(const char *request, const char *want)
{
    const char *answer = control_ask(control, request, strlen(request));

    assert_non_null(answer);
    assert_string_equal(answer, want);
}

/* Weight, cap and priority of one client, of three values, are set and read each on its own; the other client's stay. */
static void test_client_shares(void **state)
{
    static const char *const names[] = {"client-weight", "client-cap", "client-priority"};
    static const char *const values[] = {"300", "40", "2"}, *const before[] = {"100", "0", "0"};
    const char *extra[] = CONTROLLED("--pace");
    char request[100], want[100];
    struct guest g[2];
    struct broker b;
    pid_t w[2];

    (void)state;
    begin(&b, extra);
    assert_int_equal(guest_connect(&g[0], b.sock, "one"), 0);
    w[0] = worker_of_client(b.pid);
    assert_int_equal(guest_connect(&g[1], b.sock, "two"), 0);
    assert_true(broker_status(b.pid, text, sizeof(text)) > 0);
    for (const char *at = strstr(text, "\nclient "); at; at = strstr(at + 1, "\nclient "))
        if (sscanf(at, "\nclient %d", &w[1]) == 1 && w[1] != w[0])
            break;
    assert_int_not_equal(w[0], w[1]);
    for (unsigned i = 0; i < 3; i++) {
        snprintf(request, sizeof(request), "set %s %s client %d", names[i], values[i], (int)w[0]);
        assert_answer(request, "ok\n");
        for (unsigned k = 0; k < 3; k++) {
            snprintf(request, sizeof(request), "get %s client %d", names[k], (int)w[0]);
            snprintf(want, sizeof(want), "ok\n%s %s\n", names[k], k <= i ? values[k] : before[k]);
            assert_answer(request, want);
            snprintf(request, sizeof(request), "get %s client %d", names[k], (int)w[1]);
            snprintf(want, sizeof(want), "ok\n%s %s\n", names[k], before[k]);
            assert_answer(request, want);
        }
    }
    assert_true(broker_status(b.pid, text, sizeof(text)) > 0);
    snprintf(want, sizeof(want), "\nshare %d 300 40 ", (int)w[0]);
    assert_non_null(strstr(text, want));
    snprintf(want, sizeof(want), "\nshare %d 100 0 ", (int)w[1]);
    assert_non_null(strstr(text, want));
    guest_close(&g[0]);
    guest_close(&g[1]);
    finish(&b);
}

/* A changed limit of shared memory holds for the next that is shared, in both directions. */
static void test_pin_quota(void **state)
{
    const char *extra[] = CONTROLLED("--pin-quota", "1M");
    struct guest g;
    struct broker b;

    (void)state;
    begin(&b, extra);
    assert_int_equal(guest_connect(&g, b.sock, "one"), 0);
    assert_int_equal(share(&g, 1, 2 << 20), VGPU_S_QUOTA);
    assert_answer("set pin-quota 4M", "ok\n");
    assert_int_equal(share(&g, 1, 2 << 20), VGPU_S_OK);
    assert_int_equal(share(&g, 2, 2 << 20), VGPU_S_OK); /* to the last byte */
    assert_int_equal(share(&g, 3, 4096), VGPU_S_QUOTA);
    assert_answer("set pin-quota 8M", "ok\n");
    assert_answer("set pin-quota 4M", "ok\n");
    assert_int_equal(share(&g, 3, 4096), VGPU_S_QUOTA);
    guest_close(&g);
    finish(&b);
}

/* --memory-wait is of each allocation: after one that waited in vain the next waits again. */
static void test_each_waits(void **state)
{
    const char *extra[] = {"--vram-quota", "64M", "--memory-wait", "6", NULL};
    struct vgp_args_cuMemAlloc_v2 a = {.bytesize = 32 << 20};
    struct guest g[2];
    struct broker b;
    uint64_t p;

    (void)state;
    assert_int_equal(broker_start(&b, extra), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(guest_connect(&g[i], b.sock, "waits"), 0);
        assert_int_equal(guest_context(&g[i]), 0);
    }
    assert_int_equal(guest_alloc(&g[0], 48 << 20, &p), 0);
    for (int i = 0; i < 2; i++) {
        guest_submit(&g[1], VGP_cuMemAlloc_v2, 0, &a, sizeof(a), NULL, 0);
        assert_int_equal(guest_wait(&g[1], 0, NULL, NULL, 500), -1); /* it waits */
        if (i == 0)
            assert_int_equal(guest_wait(&g[1], 0, NULL, NULL, 60000), CUDA_ERROR_OUT_OF_MEMORY);
    }
    assert_int_equal(guest_free(&g[0], p), 0);
    assert_int_equal(guest_wait(&g[1], 0, NULL, NULL, 60000), 0);
    for (int i = 0; i < 2; i++)
        guest_close(&g[i]);
    assert_int_equal(broker_stop(&b), 0);
}

/* A libcuda of another version is told both versions, each as its own. */
static void test_versions(void **state)
{
    static const uint16_t versions[] = {VGP_VERSION_MAJOR + 1, VGP_VERSION_MAJOR - 1, 0, 999};
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct broker b = {0};

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", b.sock);
    for (unsigned i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        const struct vgp_sock_hello hello = {.type = VGP_SOCK_HELLO, .version_major = versions[i]};
        struct vgp_sock_refused r = {0};
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        char want[100];

        assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
        assert_int_equal(send(fd, &hello, sizeof(hello), MSG_NOSIGNAL), sizeof(hello));
        assert_int_equal(recv(fd, &r, sizeof(r), 0), sizeof(r));
        assert_int_equal(r.type, VGP_SOCK_REFUSED);
        assert_int_equal(r.status, VGPU_S_UNSUPPORTED);
        snprintf(want, sizeof(want), "libcuda speaks version %u, the broker version %u", versions[i],
                 VGP_VERSION_MAJOR);
        assert_non_null(strstr(r.text, want));
        assert_int_equal(recv(fd, &r, sizeof(r), 0), 0);
        close(fd);
    }
    assert_int_equal(broker_stop(&b), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_amounts),   cmocka_unit_test(test_processor_time),
        cmocka_unit_test(test_usage),     cmocka_unit_test(test_client_shares),
        cmocka_unit_test(test_pin_quota), cmocka_unit_test(test_each_waits),
        cmocka_unit_test(test_versions),
    };

    return cmocka_run_group_tests_name("figures", tests, NULL, NULL);
}
