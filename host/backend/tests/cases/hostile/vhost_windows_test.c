/* SPDX-License-Identifier: MIT */
/*
 * A QEMU that keeps the lock of the windows' file: the broker goes on, clients end, and what comes next
 * in a slot waits until its window is cleared.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/testing/range.h"
#include "vgb_deadline.h"
#include "vgb_fd.h"
#include "vgb_log.h"
#include "vm.h"

#define SOON_MS 200

/* Descriptors, request and response of requests beside that of vm_control(), which has 0 and 1. */
#define CREATE 2
#define DESTROY 4
#define OTHER 6
#define REQUEST_OF(head) (REQUEST + (head)*0x1000u)
#define RESPONSE_OF(head) (RESPONSE + (head)*64u)

/* A write whose bytes are not there, at the end of the windows. */
static struct {
    int file, uffd;
    char *page;
    pthread_t thread;
    bool locked;
} writer;

static void *write_windows(void *arg)
{
    (void)arg;
    return (void *)(uintptr_t)(pwrite(writer.file, writer.page, 64, CLIENTS * WINDOW - 64) == 64);
}

/* False: this kernel, or this user, has no userfaultfd that stops system calls. */
static bool lock_windows(const struct vm *v)
{
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register r = {.range.len = VGP_PAGE, .mode = UFFDIO_REGISTER_MODE_MISSING};
    struct pollfd p = {.events = POLLIN};

    p.fd = writer.uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (writer.uffd < 0)
        return false;
    writer.file = v->win_fd;
    assert_int_equal(ioctl(writer.uffd, UFFDIO_API, &api), 0);
    writer.page = mmap(NULL, VGP_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(writer.page, MAP_FAILED);
    r.range.start = (uintptr_t)writer.page;
    assert_int_equal(ioctl(writer.uffd, UFFDIO_REGISTER, &r), 0);
    assert_int_equal(pthread_create(&writer.thread, NULL, write_windows, NULL), 0);
    assert_int_equal(poll(&p, 1, -1), 1); /* it has asked for the page: it has the lock */
    assert_int_equal(p.revents, POLLIN);
    writer.locked = true;
    return true;
}

static void unlock_windows(void)
{
    struct uffdio_zeropage z = {.range = {(uintptr_t)writer.page, VGP_PAGE}};
    void *wrote;

    assert_int_equal(ioctl(writer.uffd, UFFDIO_ZEROPAGE, &z), 0);
    pthread_join(writer.thread, &wrote);
    assert_non_null(wrote);
    munmap(writer.page, VGP_PAGE);
    close(writer.uffd);
    writer.locked = false;
}

static int teardown(void **state)
{
    if (writer.locked)
        unlock_windows();
    return vm_teardown(state);
}

static int late_status(struct vm *v, int ms)
{
    struct vgpu_resp_hdr r;

    if (vm_queue_wait(v, VGPU_VQ_CONTROL, ms, NULL) < (int)sizeof(r))
        return -1;
    memcpy(&r, v->ram + RESPONSE, sizeof(r));
    return (int)r.status;
}

static void post(struct vm *v, uint16_t head, const void *request, uint32_t size)
{
    struct vring_desc *d = (void *)v->ram;

    memcpy(v->ram + REQUEST_OF(head), request, size);
    d[head] = (struct vring_desc){RAM_GPA + REQUEST_OF(head), size, 1, head + 1};
    d[head + 1] = (struct vring_desc){RAM_GPA + RESPONSE_OF(head), sizeof(struct vgpu_resp_pin), 2, 0};
    vm_queue_post(v, VGPU_VQ_CONTROL, head);
}

static void post_about(struct vm *v, uint16_t head, uint32_t type, uint32_t slot)
{
    const struct vgpu_cmd_client_create c = {.hdr = {.type = type, .client = slot}, .label = "test"};

    post(v, head, &c, type == VGPU_CMD_CLIENT_CREATE ? sizeof(c) : sizeof(struct vgpu_cmd_client_destroy));
}

/* The status that the next answer gives; -1: none comes, or to another request. */
static int answer(struct vm *v, uint16_t head, int ms)
{
    struct vgpu_resp_hdr r;
    uint32_t id;

    if (vm_queue_wait(v, VGPU_VQ_CONTROL, ms, &id) < (int)sizeof(r) || id != head)
        return -1;
    memcpy(&r, v->ram + RESPONSE_OF(head), sizeof(r));
    return (int)r.status;
}

static int pin(struct vm *v, uint32_t slot)
{
    const struct {
        struct vgpu_cmd_pin p;
        struct vgpu_pin_run run;
    } q = {.p = {.hdr = {.type = VGPU_CMD_PIN, .client = slot},
                 .region = 1,
                 .nruns = 1,
                 .va = 0x10000,
                 .length = VGP_PAGE},
           .run = {.addr = RAM_GPA, .len = VGP_PAGE}};

    post(v, OTHER, &q, sizeof(q.p) + sizeof(q.run));
    return answer(v, OTHER, VGB_GUEST_MS);
}

static int unpin(struct vm *v, uint32_t slot)
{
    const struct vgpu_cmd_unpin q = {.hdr = {.type = VGPU_CMD_UNPIN, .client = slot}, .region = 1};

    post(v, OTHER, &q, sizeof(q));
    return answer(v, OTHER, VGB_GUEST_MS);
}

/* A request for a client that waits, and something else that has its answer at once. */
static void create_waits(struct vm *v)
{
    v->wait_ms = SOON_MS;
    assert_int_equal(vm_create(v, 0), -1);
    v->wait_ms = 0;
    assert_true(vm_ask(v, BRK_VU_GET_FEATURES) != UINT64_MAX);
}

static int create_again(struct vm *v)
{
    int r = VGPU_S_BUSY;

    for (int i = 0; i < 3000 && (r = vm_create(v, 0)) == VGPU_S_BUSY; i++)
        usleep(10000);
    return r;
}

/* A late clearing of the slot does not meet its client. */
static void is_served(struct vm *v, uint64_t window)
{
    struct guest g;

    vm_as_guest(v, 0, &g);
    g.window_size = window;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(vm_ping(&g), 0);
        usleep(1000);
    }
    assert_int_equal(vm_destroy(v, 0), VGPU_S_OK);
}

static bool is_zero(const struct vm *v)
{
    for (unsigned i = 0; i < WINDOW; i++) {
        if (v->win[i])
            return false;
    }
    return true;
}

static void test_create(void **state)
{
    struct vm *v = *state;

    if (!lock_windows(v))
        skip();
    create_waits(v);
    assert_int_equal(late_status(v, VGB_GUEST_MS), VGPU_S_STUCK);
    assert_int_equal(vm_create(v, 0), VGPU_S_BUSY);
    assert_int_equal(vm_destroy(v, 0), VGPU_S_STUCK);
    unlock_windows();
    assert_int_equal(create_again(v), VGPU_S_OK);
    is_served(v, WINDOW);
}

/* A driver that sends PING waits for a clearing that takes longer than a worker may, and hears from the
 * device meanwhile. */
static void test_create_patient(void **state)
{
    const struct vgpu_cmd_client_create ping = {.hdr = {.type = VGPU_CMD_PING}};
    uint64_t f = UINT64_C(1) << BRK_VU_F_VERSION_1 | UINT64_C(1) << BRK_VU_F_PROTOCOL_FEATURES |
                 UINT64_C(1) << VGPU_F_PIN | UINT64_C(1) << VGPU_F_PING;
    struct vm *v = *state;

    assert_int_equal(vm_acked(v, BRK_VU_SET_FEATURES, &f, 8, NULL, 0), 0);
    if (!lock_windows(v))
        skip();
    post_about(v, CREATE, VGPU_CMD_CLIENT_CREATE, 0);
    for (int ms = 0; ms < VGB_CREATE_MS + 1000; ms += 500) {
        usleep(500000);
        post(v, OTHER, &ping, sizeof(ping.hdr));
        assert_int_equal(answer(v, OTHER, SOON_MS), VGPU_S_OK);
    }
    unlock_windows();
    assert_int_equal(answer(v, CREATE, VGB_GUEST_MS), VGPU_S_OK);
    is_served(v, WINDOW);
}

/* The end of a client does not wait; its slot's next client does. */
static void test_destroy(void **state)
{
    struct vm *v = *state;

    assert_int_equal(vm_create(v, 0), VGPU_S_OK);
    if (!lock_windows(v))
        skip();
    assert_int_equal(vm_destroy(v, 0), VGPU_S_OK);
    assert_int_equal(vm_destroy(v, 0), VGPU_S_NO_CLIENT);
    create_waits(v);
    assert_int_equal(late_status(v, VGB_GUEST_MS), VGPU_S_STUCK);
    assert_int_equal(vm_create(v, 0), VGPU_S_BUSY);
    unlock_windows();
    assert_int_equal(create_again(v), VGPU_S_OK);
    is_served(v, WINDOW);
    for (int i = 0; i < 3000 && !is_zero(v); i++) /* its slice is given back */
        usleep(10000);
    assert_true(is_zero(v));
}

/* A client whose window is being cleared has no worker yet: what names it is refused at once, and its end is bounded. */
static void test_ends_before_it_is_served(void **state)
{
    struct vm *v = *state;
    uint64_t kick = 2;

    if (!lock_windows(v))
        skip();
    post_about(v, CREATE, VGPU_CMD_CLIENT_CREATE, 0);
    assert_int_equal(vm_create(v, 0), VGPU_S_BUSY);
    assert_int_equal(pin(v, 0), VGPU_S_NO_CLIENT);
    assert_int_equal(unpin(v, 0), VGPU_S_NO_CLIENT);
    assert_int_equal(vm_acked(v, BRK_VU_SET_VRING_KICK, &kick, 8, &v->kick[2], 1), 0);
    post_about(v, DESTROY, VGPU_CMD_CLIENT_DESTROY, 0);
    assert_int_equal(vm_destroy(v, 0), VGPU_S_NO_CLIENT);
    assert_int_equal(vm_create(v, 0), VGPU_S_BUSY);
    assert_int_equal(pin(v, 0), VGPU_S_NO_CLIENT);
    assert_int_equal(unpin(v, 0), VGPU_S_STUCK);
    assert_int_equal(answer(v, DESTROY, VGB_GUEST_MS), VGPU_S_STUCK);
    assert_int_equal(answer(v, CREATE, SOON_MS), VGPU_S_STUCK);
    assert_int_equal(vm_destroy(v, 0), VGPU_S_STUCK);
    unlock_windows();
    assert_int_equal(create_again(v), VGPU_S_OK);
    is_served(v, WINDOW);
}

/* Windows of another size while slices of the former size are being cleared: a window that has bytes of both waits for both. */
static void test_other_size(void **state)
{
    struct vm *v = *state;

    for (uint32_t i = 0; i < CLIENTS; i++)
        assert_int_equal(vm_create(v, i), VGPU_S_OK);
    if (!lock_windows(v))
        skip();
    for (uint32_t i = 0; i < CLIENTS; i++)
        assert_int_equal(vm_destroy(v, i), VGPU_S_OK);
    assert_int_equal(vm_set_windows(v, 1, CLIENTS * WINDOW), 0);
    create_waits(v);
    assert_int_equal(vm_set_windows(v, CLIENTS, WINDOW), 1); /* a client is there */
    unlock_windows();
    assert_int_equal(late_status(v, VGB_GUEST_MS), VGPU_S_OK);
    is_served(v, CLIENTS * WINDOW);
}

/* Neither a reset nor the end of the connection waits for clients whose workers are gone. */
static void test_reset(void **state)
{
    const struct brk_vu_payload_state control = {.index = VGPU_VQ_CONTROL};
    struct vm *v = *state;
    uint64_t since, answered;

    for (uint32_t i = 0; i < CLIENTS; i++)
        assert_int_equal(vm_create(v, i), VGPU_S_OK);
    if (!lock_windows(v))
        skip();
    since = vgb_now_ns();
    assert_int_equal(vm_send_msg(v, BRK_VU_GET_VRING_BASE, &control, sizeof(control), NULL, 0, 0), 0);
    assert_int_equal(vm_get_reply(v, &answered, sizeof(answered)) & UINT32_MAX, VGPU_VQ_CONTROL);
    assert_true(vgb_now_ns() - since < VGB_MS_TO_NS(VGB_CLEAR_MS));
    vgb_close(&v->sock);
    assert_int_equal(vm_connect(v), 0);
    vm_negotiate(v);
    vm_start_queues(v);
    create_waits(v);
    unlock_windows();
    assert_int_equal(late_status(v, VGB_GUEST_MS), VGPU_S_OK);
    is_served(v, WINDOW);
}

/* The broker ends although clearings do not return. */
static void test_end(void **state)
{
    struct vm *v = *state;

    for (uint32_t i = 0; i < CLIENTS; i++)
        assert_int_equal(vm_create(v, i), VGPU_S_OK);
    if (!lock_windows(v))
        skip();
    for (uint32_t i = 0; i < CLIENTS; i++)
        assert_int_equal(vm_destroy(v, i), VGPU_S_OK);
    create_waits(v);
    assert_int_equal(broker_end(&v->b, VGB_EXIT_MS), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, vm_setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_create),     T(test_create_patient), T(test_destroy), T(test_ends_before_it_is_served),
        T(test_other_size), T(test_reset),          T(test_end)};

    return cmocka_run_group_tests_name("vhost-windows", tests, NULL, NULL);
}
