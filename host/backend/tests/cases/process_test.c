/* SPDX-License-Identifier: MIT */
/*
 * Broker and worker as processes, with a provider made for tests. Each test starts a broker of its
 * own: <dir>/vgpu-backend, <dir>/vgpu-worker, <dir>/tests/libtestprov.so; dir is BACKEND_DIR.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "guest.h"
#include "proc.h"
#include "testprov.h"
#include "vgb_fd.h"
#include "vgb_log.h"
#include "vgp_calls.h"
#include "vgp_sock.h"

static int setup(void **state)
{
    struct broker *b = calloc(1, sizeof(*b));

    *state = b;
    return broker_start(b, NULL);
}

static int teardown(void **state)
{
    struct broker *b = *state;

    broker_stop(b);
    free(b);
    return 0;
}

static int ping(struct guest *g, uint64_t value)
{
    struct vgp_args_vgpPing a = {.value = value};
    const void *p = NULL;
    int r = guest_call(g, VGP_vgpPing, &a, sizeof(a), &p, NULL);

    return r ? r : ((const struct vgp_ret_vgpPing *)p)->echo == value ? 0 : -3;
}

/* ---- tests ---- */

static void test_ping(void **state)
{
    struct broker *b = *state;
    struct guest g;

    assert_int_equal(guest_connect(&g, b->sock, "ping"), 0);
    for (uint64_t i = 0; i < 20000; i++) /* more than once round the ring */
        assert_int_equal(ping(&g, i), 0);
    usleep(5000); /* the worker sleeps */
    assert_int_equal(ping(&g, 7), 0);
    guest_close(&g);
}

static void test_hello(void **state)
{
    struct broker *b = *state;
    struct guest g;
    struct vgp_args_vgpHello a = {.versionMajor = VGP_VERSION_MAJOR, .label_len = 5};
    const void *p;

    assert_int_equal(guest_connect(&g, b->sock, "hello"), 0);
    guest_submit(&g, VGP_vgpHello, 0, &a, sizeof(a), "test", 5);
    assert_int_equal(guest_wait(&g, 0, &p, NULL, 60000), 0);
    assert_int_equal(((const struct vgp_ret_vgpHello *)p)->deviceCount, 1);
    assert_int_equal(((const struct vgp_ret_vgpHello *)p)->driverVersion, 13000);
    guest_close(&g);
}

static void test_copies(void **state)
{
    struct broker *b = *state;
    struct guest g;
    uint64_t dptr;
    char data[64] = "inline bytes", back[64];
    const void *p;

    assert_int_equal(guest_connect(&g, b->sock, "copies"), 0);
    assert_int_equal(guest_context(&g), 0);
    assert_int_equal(guest_alloc(&g, 4096, &dptr), 0);
    struct vgp_args_vgpCopy in = {.dstKind = VGP_COPY_DEVICE,
                                  .srcKind = VGP_COPY_INLINE,
                                  .dst = dptr,
                                  .widthBytes = sizeof(data),
                                  .height = 1,
                                  .depth = 1,
                                  .data_len = sizeof(data)};
    guest_submit(&g, VGP_vgpCopy, VGP_NO_REPLY, &in, sizeof(in), data, sizeof(data));
    struct vgp_args_vgpCopy out = {.dstKind = VGP_COPY_REPLY,
                                   .srcKind = VGP_COPY_DEVICE,
                                   .src = dptr,
                                   .widthBytes = sizeof(back),
                                   .height = 1,
                                   .depth = 1,
                                   .when = VGP_WHEN_COMPLETE};
    assert_int_equal(guest_call(&g, VGP_vgpCopy, &out, sizeof(out), &p, NULL), 0);
    assert_int_equal(((const struct vgp_ret_vgpCopy *)p)->result_len, sizeof(back));
    assert_memory_equal((const char *)p + sizeof(struct vgp_ret_vgpCopy), data, sizeof(data));
    /* Strided, through staging: two rows of 16 bytes, pitch 32. */
    out.dstKind = VGP_COPY_STAGING;
    out.dst = 4096;
    out.dstPitch = 32;
    out.srcPitch = 16;
    out.widthBytes = 16;
    out.height = 2;
    assert_int_equal(guest_call(&g, VGP_vgpCopy, &out, sizeof(out), &p, NULL), 0);
    assert_memory_equal(g.win + g.s->staging_offset + 4096, data, 16);
    assert_memory_equal(g.win + g.s->staging_offset + 4096 + 32, data + 16, 16);
    /* A guest address that was never shared. */
    out.dstKind = VGP_COPY_HOST;
    out.dst = 0x7f0000001000;
    assert_int_equal(guest_call(&g, VGP_vgpCopy, &out, sizeof(out), &p, NULL), CUDA_ERROR_INVALID_VALUE);
    guest_close(&g);
}

static void test_wait_does_not_block(void **state)
{
    struct broker *b = *state;
    struct guest g;
    struct vgp_args_cuStreamSynchronize a = {.hStream = 0};
    uint64_t t0;

    assert_int_equal(guest_connect(&g, b->sock, "wait"), 0);
    assert_int_equal(guest_context(&g), 0);
    assert_int_equal(guest_memset(&g, 0, VALUE_BUSY, 2000, 0), 0);
    t0 = vgb_now_ns();
    guest_submit(&g, VGP_cuStreamSynchronize, 1, &a, sizeof(a), NULL, 0);
    uint32_t seq = g.seq;
    assert_int_equal(ping(&g, 1), 0); /* answered while the other call waits */
    assert_true(vgb_now_ns() - t0 < 1900000000u);
    g.seq = seq;
    assert_int_equal(guest_wait(&g, 1, NULL, NULL, 60000), 0);
    assert_true(vgb_now_ns() - t0 > 1900000000u);
    guest_close(&g);
}

static void test_sticky_and_async(void **state)
{
    struct broker *b = *state;
    struct guest g;
    uint64_t cookie = 0;
    struct vgp_args_cuStreamDestroy_v2 d = {.hStream = VGP_HANDLE(VGP_H_STREAM, 1, 77)};

    assert_int_equal(guest_connect(&g, b->sock, "errors"), 0);
    assert_int_equal(guest_context(&g), 0);
    guest_submit(&g, VGP_cuStreamDestroy_v2, VGP_NO_REPLY, &d, sizeof(d), NULL, 0);
    assert_true(guest_notification(&g, VGP_NOTIFY_ASYNC_ERROR, &cookie, NULL, 2000));
    assert_int_equal(cookie, (uint64_t)VGP_cuStreamDestroy_v2 << 32 | CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(guest_memset(&g, 0, VALUE_FAULT, 0, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(g.s->sticky_result, CUDA_ERROR_ILLEGAL_ADDRESS);
    guest_close(&g);
}

static void test_print_and_host_func(void **state)
{
    struct broker *b = *state;
    struct guest g;
    char text[4096];
    uint64_t cookie = 0;
    struct vgp_args_vgpLaunchHostFunc a = {.stream = 0, .cookie = 0x1234};
    struct vgp_args_vgpHostFuncDone done = {.cookie = 0x1234};

    assert_int_equal(guest_connect(&g, b->sock, "print"), 0);
    assert_int_equal(guest_context(&g), 0);
    assert_int_equal(guest_memset(&g, 0, VALUE_PRINT, 0, 0), 0);
    assert_true(guest_notification(&g, VGP_NOTIFY_PRINT, NULL, text, 2000));
    assert_string_equal(text, "hello from the device\n");
    guest_submit(&g, VGP_vgpLaunchHostFunc, VGP_NO_REPLY, &a, sizeof(a), NULL, 0);
    assert_true(guest_notification(&g, VGP_NOTIFY_HOST_FUNC, &cookie, NULL, 2000));
    assert_int_equal(cookie, 0x1234);
    guest_submit(&g, VGP_vgpHostFuncDone, VGP_NO_REPLY, &done, sizeof(done), NULL, 0);
    assert_int_equal(ping(&g, 3), 0);
    /* One that is refused after its call has returned ends as well. */
    a = (struct vgp_args_vgpLaunchHostFunc){.stream = VGP_HANDLE(VGP_H_STREAM, 1, 77), .cookie = 0x1235};
    guest_submit(&g, VGP_vgpLaunchHostFunc, VGP_NO_REPLY, &a, sizeof(a), NULL, 0);
    assert_true(guest_notification(&g, VGP_NOTIFY_RELEASED, &cookie, NULL, 2000));
    assert_int_equal(cookie, 0x1235);
    guest_close(&g);
}

static void test_malformed_ends_only_itself(void **state)
{
    struct broker *b = *state;
    struct guest bad, good;
    struct vgp_record r = {.size = 48, .call = 0x7fff, .reply_slot = VGP_NO_REPLY};
    uint8_t bytes[48] = {0};

    assert_int_equal(guest_connect(&good, b->sock, "good"), 0);
    assert_int_equal(guest_connect(&bad, b->sock, "bad"), 0);
    memcpy(bytes, &r, sizeof(r));
    guest_raw(&bad, bytes, sizeof(bytes));
    assert_true(guest_wait_dead(&bad, 60000));
    assert_int_equal(bad.s->dead_reason, 2 /* VGPU_DEAD_PROTOCOL */);
    assert_non_null(strstr(bad.s->dead_text, "call number 0x7fff"));
    assert_int_equal(ping(&good, 5), 0);
    guest_close(&bad);
    guest_close(&good);
}

static void test_worker_killed(void **state)
{
    struct broker *b = *state;
    struct guest g;
    struct vgp_args_cuStreamSynchronize a = {.hStream = 0};

    assert_int_equal(guest_connect(&g, b->sock, "killed"), 0);
    assert_int_equal(guest_context(&g), 0);
    assert_int_equal(guest_memset(&g, 0, VALUE_BUSY, 20000, 0), 0);
    guest_submit(&g, VGP_cuStreamSynchronize, 0, &a, sizeof(a), NULL, 0);
    usleep(20000);
    pid_t w = worker_of_client(b->pid);
    assert_true(w > 0);
    uint64_t t0 = vgb_now_ns();
    kill(w, SIGKILL);
    assert_int_equal(guest_wait(&g, 0, NULL, NULL, 60000), -2);
    assert_true(vgb_now_ns() - t0 < 18000000000u); /* not when its work has ended */
    assert_int_equal(g.s->dead_reason, 1 /* VGPU_DEAD_EXITED */);
    assert_non_null(strstr(g.s->dead_text, "signal 9"));
    guest_close(&g);
    assert_int_equal(guest_connect(&g, b->sock, "next"), 0);
    assert_int_equal(ping(&g, 1), 0);
    guest_close(&g);
}

static void expect_death(struct broker *b, uint8_t value, const char *text)
{
    struct guest g;
    struct vgp_args_cuMemsetD8Async a = {.uc = value};

    assert_int_equal(guest_connect(&g, b->sock, "dies"), 0);
    assert_int_equal(guest_context(&g), 0);
    guest_submit(&g, VGP_cuMemsetD8Async, 0, &a, sizeof(a), NULL, 0);
    assert_int_equal(guest_wait(&g, 0, NULL, NULL, 60000), -2);
    assert_non_null(strstr(g.s->dead_text, text));
    guest_close(&g);
}

static void test_worker_crashes(void **state)
{
    expect_death(*state, VALUE_CRASH, "signal 11");
}

static void test_sandbox_kills(void **state)
{
    expect_death(*state, VALUE_SYSCALL, "sandbox");
}

static void test_broker_killed(void **state)
{
    struct broker *b = *state;
    struct guest g;
    pid_t list[16];

    assert_int_equal(guest_connect(&g, b->sock, "orphan"), 0);
    unsigned n = workers_of(b->pid, list, 16);
    assert_true(n >= 1 && n <= 16);
    kill(b->pid, SIGKILL);
    waitpid(b->pid, NULL, 0);
    b->pid = 0;
    for (unsigned i = 0; i < n; i++)
        assert_true(gone_within(list[i], 3000));
    guest_close(&g);
    unlink(b->sock);
    rmdir(b->dir);
}

static void test_client_vanishes(void **state)
{
    struct broker *b = *state;
    int ready[2];
    char c;

    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (!child) {
        struct guest g;

        c = guest_connect(&g, b->sock, "vanishes") || guest_context(&g) ? '-' : '+';
        if (write(ready[1], &c, 1) != 1)
            _exit(1);
        pause();
        _exit(0);
    }
    assert_int_equal(read(ready[0], &c, 1), 1);
    assert_int_equal(c, '+');
    pid_t w = worker_of_client(b->pid);
    assert_true(w > 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_true(gone_within(w, 3000));
    close(ready[0]);
    close(ready[1]);
}

static int request(struct guest *g, uint32_t type, uint32_t region, void *va, uint64_t length, int fd,
                   struct vgp_sock_mapped *answer)
{
    struct vgp_sock_map m = {.type = type, .region = region, .va = (uintptr_t)va, .length = length};
    unsigned nfds = 0;

    if (vgb_send_fds(g->sock, &m, sizeof(m), &fd, fd >= 0 ? 1 : 0, 0) < 0)
        return -1;
    return vgb_recv_fds(g->sock, answer, sizeof(*answer), NULL, &nfds, 0) == sizeof(*answer) ? 0 : -1;
}

static void test_map(void **state)
{
    struct broker *b = *state;
    struct guest g;
    struct vgp_sock_mapped m;
    const uint64_t size = 1 << 20;
    uint64_t dptr;
    int fd = memfd_create("client", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    /* Where the kernel puts neither this process's mappings nor the worker's: both are random. */
    char *p = mmap((void *)0x123400000000, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_int_equal(guest_connect(&g, b->sock, "map"), 0);
    assert_int_equal(guest_context(&g), 0);
    /* Not sealed against shrinking: refused. */
    assert_int_equal(request(&g, VGP_SOCK_MAP, 1, p, size, fd, &m), 0);
    assert_int_equal(m.status, 1);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    /* Longer than the file: refused. */
    assert_int_equal(request(&g, VGP_SOCK_MAP, 1, p, size + 4096, fd, &m), 0);
    assert_int_equal(m.status, 1);
    assert_int_equal(request(&g, VGP_SOCK_MAP, 1, p, size, fd, &m), 0);
    assert_int_equal(m.status, 0);
    assert_int_equal(m.worker_va, (uintptr_t)p); /* this process' ranges are free in the worker */
    assert_int_equal(request(&g, VGP_SOCK_MAP, 1, p, size, fd, &m), 0);
    assert_int_equal(m.status, 3 /* VGPU_S_BUSY */);
    strcpy(p + 5000, "in place");
    assert_int_equal(guest_alloc(&g, 4096, &dptr), 0);
    struct vgp_args_vgpCopy c = {.srcKind = VGP_COPY_HOST,
                                 .dst = dptr,
                                 .src = (uintptr_t)p + 5000,
                                 .widthBytes = 9,
                                 .when = VGP_WHEN_COMPLETE};
    assert_int_equal(guest_call(&g, VGP_vgpCopy, &c, sizeof(c), NULL, NULL), 0);
    struct vgp_args_vgpCopy back = {.srcKind = VGP_COPY_DEVICE,
                                    .dstKind = VGP_COPY_HOST,
                                    .src = dptr,
                                    .dst = (uintptr_t)p + 100,
                                    .widthBytes = 9,
                                    .when = VGP_WHEN_COMPLETE};
    assert_int_equal(guest_call(&g, VGP_vgpCopy, &back, sizeof(back), NULL, NULL), 0);
    assert_string_equal(p + 100, "in place");
    assert_int_equal(request(&g, VGP_SOCK_UNMAP, 1, NULL, 0, -1, &m), 0);
    assert_int_equal(m.status, 0);
    assert_int_equal(guest_call(&g, VGP_vgpCopy, &back, sizeof(back), NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    /* An address that cannot be had: another one, and it works. */
    assert_int_equal(request(&g, VGP_SOCK_MAP, 2, (void *)0x1000, size, fd, &m), 0);
    assert_int_equal(m.status, 0);
    assert_int_not_equal(m.worker_va, 0x1000);
    back.dst = 0x1000 + 300;
    assert_int_equal(guest_call(&g, VGP_vgpCopy, &back, sizeof(back), NULL, NULL), 0);
    assert_string_equal(p + 300, "in place");
    guest_close(&g);
    munmap(p, size);
    close(fd);
}

static void test_quotas(void **state)
{
    static const char *const extra[] = {"--max-clients", "2", "--vram-quota", "8M", NULL};
    struct broker b = {0};
    struct guest g1, g2, g3;
    uint64_t p1, p2;

    (void)state;
    assert_int_equal(broker_start(&b, extra), 0);
    assert_int_equal(guest_connect(&g1, b.sock, "one"), 0);
    assert_int_equal(guest_connect(&g2, b.sock, "two"), 0);
    assert_int_equal(guest_connect(&g3, b.sock, "three"), -1);
    assert_non_null(strstr(g3.refused, "--max-clients"));
    guest_close(&g3);
    assert_int_equal(guest_context(&g1), 0);
    assert_int_equal(guest_context(&g2), 0);
    assert_int_equal(guest_alloc(&g1, 6 << 20, &p1), 0);
    /* The quota is of both together; what the first does not use is there for the second. */
    assert_int_equal(guest_alloc(&g2, 4 << 20, &p2), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(guest_alloc(&g2, 1 << 20, &p2), 0);
    assert_int_equal(guest_free(&g1, p1), 0);
    for (int i = 0; i < 3000 && guest_alloc(&g2, 6 << 20, &p1); i++)
        usleep(10000); /* the first gives back what it reserved when it is idle */
    assert_int_equal(guest_free(&g2, p1), 0);
    assert_int_equal(guest_free(&g2, p2), 0);
    assert_int_equal(guest_alloc(&g2, 1 << 20, &p2), 0);
    assert_int_equal(guest_free(&g2, p2), 0);
    for (int i = 0; i < 3000 && guest_alloc(&g1, 6 << 20, &p1); i++)
        usleep(10000);
    guest_close(&g1); /* what it had is there for the other at once, and so is its place */
    assert_int_equal(guest_alloc(&g2, 4 << 20, &p2), 0);
    assert_int_equal(guest_connect(&g3, b.sock, "three"), 0);
    guest_close(&g3);
    assert_int_equal(guest_alloc(&g2, 3 << 20, &p2), 0);
    assert_int_equal(guest_alloc(&g2, 3 << 20, &p2), CUDA_ERROR_OUT_OF_MEMORY);
    guest_close(&g2);
    assert_int_equal(broker_stop(&b), 0);
}

/* A worker that was taken over: only its own client suffers. */
static void test_hostile_worker(void **state)
{
    static const char *const what[] = {"short", "fd",      "type",    "mapped", "ready",
                                       "dead",  "serving", "reserve", "layers", "work"};
    char path[600];
    const char *extra[] = {"--worker", path, "--log", "/dev/null", "--vram-quota", "1G", NULL};

    (void)state;
    snprintf(path, sizeof(path), "%s/tests/badworker", getenv("BACKEND_DIR"));
    for (unsigned i = 0; i < sizeof(what) / sizeof(what[0]); i++) {
        struct broker b = {0};
        struct guest g;
        struct pollfd p;

        setenv("VGPU_TEST_BADWORKER", what[i], 1);
        assert_int_equal(broker_start(&b, extra), 0);
        /* Refused, or welcomed (without a window header) and then ended. */
        assert_int_equal(guest_connect(&g, b.sock, what[i]), -1);
        p = (struct pollfd){.fd = g.sock, .events = POLLIN};
        assert_int_equal(poll(&p, 1, 60000), 1);
        guest_close(&g);
        assert_int_equal(kill(b.pid, 0), 0);
        assert_int_equal(broker_stop(&b), 0);
    }
    /* Its layers a second time, before it is ready: it never is. */
    struct broker b = {0};
    int status = 0;

    setenv("VGPU_TEST_BADWORKER", "twice", 1);
    assert_int_equal(broker_start(&b, extra), -1);
    waitpid(b.pid, &status, 0);
    unsetenv("VGPU_TEST_BADWORKER");
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 3);
    b.pid = 0;
    broker_stop(&b);
}

static void test_broken_provider(void **state)
{
    static const char *const extra[] = {"--log", "/dev/null", NULL};
    struct broker b = {0};

    (void)state;
    setenv("VGPU_TEST_BROKEN", "100", 1);
    assert_int_equal(broker_start(&b, extra), -1); /* never ready */
    int status = 0;
    waitpid(b.pid, &status, 0);
    unsetenv("VGPU_TEST_BROKEN");
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 3);
    b.pid = 0;
    broker_stop(&b);
}

static void test_bad_options(void **state)
{
    static const char *const cases[][4] = {
        {"--gpu", "fast", NULL},          {"--max-clients", "0", NULL},       {"--max-clients", "257", NULL},
        {"--window-size", "3M", NULL},    {"--window-size", "5000000", NULL}, {"--vram-quota", "1X", NULL},
        {"--protocol-minor", "99", NULL}, {"--client-threads", "3", NULL},    {"--client-memory", "1M", NULL},
        {"--client-streams", "-1", NULL}, {"--client-handles", "many", NULL}, {"--client-printf", "1", NULL},
        {"--blob-quota", "1X", NULL},     {"--start-rate", "20000", NULL},    {"--log-level", "loud", NULL},
        {"--pacing", "fast", NULL},       {"--client-queue", "2", NULL},      {"--client-image", "2G", NULL},
        {"--client-priority", "3", NULL}, {"--cgroup-weight", "20000", NULL}, {"--cgroup-cpu", "much", NULL}};
    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char exe[600];
        int status = 0;

        snprintf(exe, sizeof(exe), "%s/vgpu-backend", getenv("BACKEND_DIR"));
        pid_t pid = fork();
        if (!pid) {
            int null = open("/dev/null", O_WRONLY);

            dup2(null, 2);
            execl(exe, exe, "--listen", "/tmp/vgb-test-none", cases[i][0], cases[i][1], NULL);
            _exit(127);
        }
        waitpid(pid, &status, 0);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 2);
    }
}

/* A worker of an older protocol says so twice, and does not know the calls that came later. */
static void test_older_protocol(void **state)
{
    static const char *const extra[] = {"--protocol-minor", "0", NULL};
    struct vgp_args_vgpHello a = {
        .versionMajor = VGP_VERSION_MAJOR, .versionMinor = VGP_VERSION_MINOR, .label_len = 5};
    struct vgp_args_vgpGraphCreate graph = {0};
    struct broker b = {0};
    struct guest g;
    const void *p = NULL;

    (void)state;
    assert_int_equal(broker_start(&b, extra), 0);
    assert_int_equal(guest_connect(&g, b.sock, "older"), 0);
    assert_int_equal(g.s->version_minor, 0);
    guest_submit(&g, VGP_vgpHello, 0, &a, sizeof(a), "test", 5);
    assert_int_equal(guest_wait(&g, 0, &p, NULL, 60000), 0);
    assert_int_equal(((const struct vgp_ret_vgpHello *)p)->workerVersionMajor, VGP_VERSION_MAJOR);
    assert_int_equal(((const struct vgp_ret_vgpHello *)p)->workerVersionMinor, 0);
    assert_int_equal(((const struct vgp_ret_vgpHello *)p)->features, 0);
    assert_int_equal(ping(&g, 1), 0);
    guest_call(&g, VGP_vgpGraphCreate, &graph, sizeof(graph), &p, NULL);
    assert_int_equal(g.s->worker_state, VGP_WORKER_DEAD);
    assert_non_null(strstr(g.s->dead_text, "does not exist"));
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

static void test_idle_costs_nothing(void **state)
{
    struct broker *b = *state;
    struct guest g;
    char path[64], buf[512];
    unsigned long t[2][2];

    assert_int_equal(guest_connect(&g, b->sock, "idle"), 0);
    assert_int_equal(ping(&g, 1), 0);
    pid_t w = worker_of_client(b->pid);
    assert_true(w > 0);
    for (int i = 0; i < 2; i++) {
        usleep(i ? 500000 : 50000);
        snprintf(path, sizeof(path), "/proc/%d/stat", (int)w);
        int fd = open(path, O_RDONLY);
        ssize_t n = read(fd, buf, sizeof(buf) - 1);
        close(fd);
        assert_true(n > 0);
        buf[n] = 0;
        assert_int_equal(sscanf(strrchr(buf, ')') + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                                &t[i][0], &t[i][1]),
                         2);
    }
    assert_int_equal(t[1][0] + t[1][1] - t[0][0] - t[0][1], 0);
    assert_int_equal(g.s->worker_state, VGP_WORKER_IDLE);
    guest_close(&g);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_ping),
        T(test_hello),
        T(test_copies),
        T(test_wait_does_not_block),
        T(test_sticky_and_async),
        T(test_print_and_host_func),
        T(test_malformed_ends_only_itself),
        T(test_worker_killed),
        T(test_worker_crashes),
        T(test_sandbox_kills),
        T(test_broker_killed),
        T(test_client_vanishes),
        T(test_map),
        T(test_idle_costs_nothing),
        cmocka_unit_test(test_quotas),
        cmocka_unit_test(test_hostile_worker),
        cmocka_unit_test(test_broken_provider),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_older_protocol),
    };

    return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}
