/* SPDX-License-Identifier: MIT */
/* Limits of code, of work in flight and of device memory: what they are without an option, and changed while met. */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/testing/range.h"
#include <cuda.h>

#include "guest.h"
#include "proc.h"
#include "testprov.h"
#include "vgp_calls.h"
#include <linux/types.h>

#include "vgpu_device.h"

static char folder[40], control[60];
static struct broker broker;
static struct guest guest;

static const char *ask(const char *text)
{
    const char *answer = control_ask(control, text, strlen(text));

    assert_non_null(answer);
    return answer;
}

static void begin(const char *option, const char *value)
{
    const char *args[] = {"--control", control, option, value, NULL};

    memset(&broker, 0, sizeof(broker));
    assert_int_equal(broker_start(&broker, args), 0);
    assert_int_equal(guest_connect(&guest, broker.sock, "changed"), 0);
    assert_int_equal(guest_context(&guest), 0);
}

static void finish(void)
{
    guest_close(&guest);
    assert_int_equal(broker_stop(&broker), 0);
}

/* Until a change has reached the worker. */
#define RETRY(r, want, call) \
    for (int tries_ = 0; tries_ < 600 && ((r) = (call)) != (want); tries_++) \
    usleep(50000)

static int load(uint32_t index, const char *image, uint32_t size)
{
    struct vgp_args_vgpModuleLoad a = {
        .module = VGP_HANDLE(VGP_H_MODULE, 1, index), .image_size = size, .image_len = size};

    guest_submit(&guest, VGP_vgpModuleLoad, 0, &a, sizeof(a), image, size);
    return guest_wait(&guest, 0, NULL, NULL, 60000);
}

static void test_image(void **state)
{
    static char image[8192] = "a module";
    uint32_t index = 1;
    int r = -1;

    (void)state;
    begin(NULL, NULL);
    assert_string_equal(ask("get client-image"), "ok\nclient-image 536870912\n");
    assert_int_equal(load(index++, image, 8000), 0);
    assert_string_equal(ask("set client-image 4096"), "ok\n");
    RETRY(r, CUDA_ERROR_OUT_OF_MEMORY, load(index++, image, 8000));
    assert_int_equal(r, CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(load(index++, image, 4096), 0);
    assert_string_equal(ask("set client-image 0"), "ok\n");
    RETRY(r, 0, load(index++, image, 8000));
    assert_int_equal(r, 0);
    finish();
}

static void test_compile_time(void **state)
{
    struct vgp_args_vgpModuleLoad a = {
        .module = VGP_HANDLE(VGP_H_MODULE, 1, 1), .image_size = 6, .image_len = 6};

    (void)state;
    begin(NULL, NULL);
    assert_string_equal(ask("get client-compile-time"), "ok\nclient-compile-time 600\n");
    guest_submit(&guest, VGP_vgpModuleLoad, 0, &a, sizeof(a), "burns", 6);
    assert_int_equal(guest_wait(&guest, 0, NULL, NULL, 300), -1);
    assert_string_equal(ask("set client-compile-time 1"), "ok\n");
    assert_true(guest_wait_dead(&guest, 60000));
    assert_int_equal(guest.s->dead_reason, VGPU_DEAD_KILLED);
    assert_non_null(strstr(guest.s->dead_text, "--client-compile-time"));
    finish();
}

/* Work that is not complete for an hour fills the queue; the call behind it goes on when there is no bound. */
static void test_queue(void **state)
{
    struct vgp_args_cuMemsetD8Async a = {.uc = VALUE_BUSY, .N = 3600000};
    int r = 0, n = 0;

    (void)state;
    begin(NULL, NULL);
    assert_string_equal(ask("get client-queue"), "ok\nclient-queue 65536\n");
    assert_string_equal(ask("set client-queue 64"), "ok\n");
    for (; n < 100000 && !r; n++) {
        guest_submit(&guest, VGP_cuMemsetD8Async, 0, &a, sizeof(a), NULL, 0);
        r = guest_wait(&guest, 0, NULL, NULL, n < 64 ? 10000 : 1000);
    }
    assert_int_equal(r, -1);
    assert_true(n > 64);
    assert_string_equal(ask("set client-queue 0"), "ok\n");
    assert_int_equal(guest_wait(&guest, 0, NULL, NULL, 60000), 0);
    finish();
}

/* Where no event can be made, work is in flight for as long as its stream says. */
static void test_queue_without_events(void **state)
{
    struct vgp_args_cuMemsetD8Async a = {.uc = VALUE_BUSY, .N = 3600000};
    struct vgp_args_vgpPing ping = {0};

    (void)state;
    setenv("VGPU_TEST_NO_EVENTS", "1", 1);
    begin("--client-queue", "64");
    unsetenv("VGPU_TEST_NO_EVENTS");
    for (unsigned n = 0; n < 200; n++)
        guest_submit(&guest, VGP_cuMemsetD8Async, VGP_NO_REPLY, &a, sizeof(a), NULL, 0);
    guest_submit(&guest, VGP_vgpPing, 0, &ping, sizeof(ping), NULL, 0);
    assert_int_equal(guest_wait(&guest, 0, NULL, NULL, 1000), -1);
    assert_string_equal(ask("set client-queue 0"), "ok\n");
    assert_int_equal(guest_wait(&guest, 0, NULL, NULL, 60000), 0);
    finish();
}

static void test_time_limit(void **state)
{
    (void)state;
    begin(NULL, NULL);
    assert_string_equal(ask("get client-time-limit"), "ok\nclient-time-limit 0\n");
    assert_int_equal(guest_memset(&guest, 0, VALUE_BUSY, 3600000, 0), 0);
    assert_false(guest_wait_dead(&guest, 300));
    assert_string_equal(ask("set client-time-limit 1"), "ok\n");
    assert_true(guest_wait_dead(&guest, 60000));
    assert_non_null(strstr(guest.s->dead_text, "--client-time-limit"));
    finish();
}

/* Fills that name no stream and have no reply are work in flight, too: none of a hundred thousand is beyond the bound. */
static void test_queue_of_silent_fills(void **state)
{
    struct vgp_args_cuMemsetD8_v2 a = {.uc = VALUE_BUSY, .N = 3600000};

    (void)state;
    begin("--client-queue", "64");
    for (unsigned n = 0; n < 200; n++)
        guest_submit(&guest, VGP_cuMemsetD8_v2, VGP_NO_REPLY, &a, sizeof(a), NULL, 0);
    struct vgp_args_vgpPing ping = {0};

    guest_submit(&guest, VGP_vgpPing, 0, &ping, sizeof(ping), NULL, 0);
    assert_int_equal(guest_wait(&guest, 0, NULL, NULL, 1000), -1);
    assert_string_equal(ask("set client-queue 0"), "ok\n");
    assert_int_equal(guest_wait(&guest, 0, NULL, NULL, 60000), 0);
    finish();
}

/* A stream that captures takes no mark; what it got before does not count as complete for that. */
static void test_time_limit_and_capture(void **state)
{
    const uint64_t stream = VGP_HANDLE(VGP_H_STREAM, 1, 1);
    struct vgp_args_cuStreamCreate create = {.phStream = stream};
    struct vgp_args_cuMemsetD8Async work = {.uc = VALUE_BUSY, .N = 3600000, .hStream = stream};
    struct vgp_args_vgpStreamBeginCapture capture = {.stream = stream};

    (void)state;
    begin("--client-time-limit", "1");
    assert_int_equal(guest_call(&guest, VGP_cuStreamCreate, &create, sizeof(create), NULL, NULL), 0);
    guest_submit(&guest, VGP_cuMemsetD8Async, VGP_NO_REPLY, &work, sizeof(work), NULL, 0);
    guest_submit(&guest, VGP_vgpStreamBeginCapture, 0, &capture, sizeof(capture), NULL, 0);
    assert_int_equal(guest_wait(&guest, 0, NULL, NULL, 60000), 0);
    assert_true(guest_wait_dead(&guest, 60000));
    assert_non_null(strstr(guest.s->dead_text, "--client-time-limit"));
    finish();
}

/* Without an option there is no quota: the GPU limits its own memory. */
static void test_device_memory(void **state)
{
    struct guest other;
    uint64_t p;
    int r = 0;

    (void)state;
    setenv("VGPU_TEST_MEMORY", "64", 1);
    begin(NULL, NULL);
    assert_string_equal(ask("get vram-quota"), "ok\nvram-quota 0\n");
    assert_int_equal(guest_connect(&other, broker.sock, "other"), 0);
    assert_int_equal(guest_context(&other), 0);
    assert_int_equal(guest_alloc(&other, 40 << 20, &p), 0);
    assert_string_equal(ask("set vram-quota 64M"), "ok\n");
    RETRY(r, CUDA_ERROR_OUT_OF_MEMORY, guest_alloc(&guest, 40 << 20, &p));
    assert_int_equal(r, CUDA_ERROR_OUT_OF_MEMORY);
    assert_string_equal(ask("set vram-quota 0"), "ok\n");
    assert_string_equal(ask("get vram-quota"), "ok\nvram-quota 0\n");
    RETRY(r, 0, guest_alloc(&guest, 40 << 20, &p));
    assert_int_equal(r, 0);
    guest_close(&other);
    finish();
    begin("--vram-quota", "0");
    assert_string_equal(ask("get vram-quota"), "ok\nvram-quota 0\n");
    assert_int_equal(guest_alloc(&guest, 100 << 20, &p), 0);
    finish();
    unsetenv("VGPU_TEST_MEMORY");
}

static int controller(void)
{
    const struct timeval bound = {.tv_sec = 20};
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(a.sun_path, sizeof(a.sun_path), "%s", control);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof(bound));
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    return fd;
}

static bool is_served(int fd)
{
    char answer[4096];

    return send(fd, "get", 3, MSG_NOSIGNAL) == 3 && recv(fd, answer, sizeof(answer), 0) > 3;
}

/* So many may be connected at a time; one more sees its end at once, and one that leaves makes room. */
static void test_controllers(void **state)
{
    enum { PEERS = 8 }; /* PEERS_MAX of broker/main/brk_control.c */
    int fd[PEERS], more;
    char byte;

    (void)state;
    begin(NULL, NULL);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < PEERS; i++)
            assert_true(is_served(fd[i] = controller()));
        more = controller();
        errno = 0;
        assert_int_equal(recv(more, &byte, 1, 0), 0); /* not: silence */
        close(more);
        for (int i = 0; i < PEERS; i++) {
            close(fd[i]);
            for (int tries = 0; !is_served(fd[i] = controller()); tries++) {
                close(fd[i]);
                assert_uint_in_range(tries, 0, 1000);
                usleep(5000);
            }
        }
        for (int i = 0; i < PEERS; i++)
            close(fd[i]);
        usleep(100000);
    }
    finish();
}

/* A limit that one of several clients cannot have is said, whichever of them it is: here the first, the last has it already. */
static void test_one_refuses(void **state)
{
    struct guest other;

    (void)state;
    if (no_data_limits("change_test: one refuses"))
        skip();
    begin("--client-memory", "0");
    assert_int_equal(strncmp(ask("set client-memory 512M"), "error: client-memory: ", 22), 0);
    assert_int_equal(guest_connect(&other, broker.sock, "limited"), 0);
    assert_int_equal(guest_context(&other), 0);
    assert_int_equal(strncmp(ask("set client-memory 512M"), "error: client-memory: ", 22), 0);
    guest_close(&other);
    finish();
}

static int setup(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/vgb-change-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(control, sizeof(control), "%s/c", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_image),
        cmocka_unit_test(test_compile_time),
        cmocka_unit_test(test_queue_without_events),
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_queue_of_silent_fills),
        cmocka_unit_test(test_time_limit),
        cmocka_unit_test(test_time_limit_and_capture),
        cmocka_unit_test(test_device_memory),
        cmocka_unit_test(test_controllers),
        cmocka_unit_test(test_one_refuses),
    };

    return cmocka_run_group_tests_name("change", tests, setup, teardown);
}
