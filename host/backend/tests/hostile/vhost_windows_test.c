/* SPDX-License-Identifier: MIT */
/* A QEMU that keeps the lock of the windows' file: the broker goes on, and a slot is lost meanwhile. */
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

/* A write whose bytes are not there, at the end of the windows. */
static struct {
    int file, uffd;
    char *page;
    pthread_t thread;
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
}

static int late_status(struct vm *v, int ms)
{
    struct vgpu_resp_hdr r;

    if (vm_queue_wait(v, VGPU_VQ_CONTROL, ms, NULL) < (int)sizeof(r))
        return -1;
    memcpy(&r, v->ram + RESPONSE, sizeof(r));
    return (int)r.status;
}

/* Asked something else in between, which has its answer at once. False: no such kernel. */
static bool ask_while_locked(struct vm *v, bool create, int *status)
{
    bool answers;
    int at_once;

    if (!lock_windows(v))
        return false;
    v->wait_ms = SOON_MS;
    at_once = create ? vm_create(v, 0) : vm_destroy(v, 0);
    v->wait_ms = 0;
    answers = vm_ask(v, BRK_VU_GET_FEATURES) != UINT64_MAX;
    *status = answers ? late_status(v, VGB_GUEST_MS) : -1;
    if (at_once != -1 || !answers || *status < 0)
        unlock_windows(); /* else the broker does not end either */
    assert_int_equal(at_once, -1);
    assert_true(answers);
    assert_true(*status >= 0);
    return true;
}

static int create_again(struct vm *v)
{
    int r = VGPU_S_BUSY;

    for (int i = 0; i < 500 && (r = vm_create(v, 0)) == VGPU_S_BUSY; i++)
        usleep(10000);
    return r;
}

static void test_create(void **state)
{
    struct vm *v = *state;
    struct guest g;
    int status;

    if (!ask_while_locked(v, true, &status))
        skip();
    assert_int_equal(status, VGPU_S_STUCK);
    assert_int_equal(vm_create(v, 0), VGPU_S_BUSY);
    assert_int_equal(vm_destroy(v, 0), VGPU_S_STUCK);
    unlock_windows();
    assert_int_equal(create_again(v), VGPU_S_OK);
    vm_as_guest(v, 0, &g);
    assert_int_equal(vm_ping(&g), 0);
    assert_int_equal(vm_destroy(v, 0), VGPU_S_OK);
}

static void test_destroy(void **state)
{
    struct vm *v = *state;
    struct guest g;
    int status;

    assert_int_equal(vm_create(v, 0), VGPU_S_OK);
    if (!ask_while_locked(v, false, &status))
        skip();
    assert_int_equal(status, VGPU_S_STUCK);
    assert_int_equal(vm_create(v, 0), VGPU_S_BUSY);
    unlock_windows();
    /* Its late clearing has not met the next client. */
    assert_int_equal(create_again(v), VGPU_S_OK);
    vm_as_guest(v, 0, &g);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(vm_ping(&g), 0);
        usleep(1000);
    }
    assert_int_equal(vm_destroy(v, 0), VGPU_S_OK);
    for (unsigned i = 0; i < WINDOW; i++) /* its slice is given back */
        assert_int_equal(v->win[i], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_create, vm_setup, vm_teardown),
        cmocka_unit_test_setup_teardown(test_destroy, vm_setup, vm_teardown),
    };

    return cmocka_run_group_tests_name("vhost-windows", tests, NULL, NULL);
}
