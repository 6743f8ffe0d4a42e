/* SPDX-License-Identifier: MIT */
/* A front end that keeps the lock of the broker's end of the channel for requests of the back end. */
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
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "vgb_deadline.h"
#include "vgb_fd.h"
#include "vm.h"

#define REQUEST_BYTES (12u + sizeof(struct brk_vu_payload_mmap))
#define READS 8u /* reads that do not return, of the broker */

/* A read whose target is not there. */
static struct reader {
    int sock, uffd;
    char *page;
    pthread_t thread;
} readers[READS];
static unsigned nreaders;

static void *read_nowhere(void *arg)
{
    struct reader *r = arg;

    return (void *)(uintptr_t)(recv(r->sock, r->page, 8, 0) == 8);
}

/* False: this kernel, or this user, has no userfaultfd that stops system calls. */
static bool reader_start(int sock)
{
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register reg = {.range.len = VGP_PAGE, .mode = UFFDIO_REGISTER_MODE_MISSING};
    struct reader *r = &readers[nreaders];
    struct pollfd p = {.events = POLLIN};

    r->sock = sock;
    p.fd = r->uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (r->uffd < 0)
        return false;
    nreaders++;
    assert_int_equal(ioctl(r->uffd, UFFDIO_API, &api), 0);
    r->page = mmap(NULL, VGP_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(r->page, MAP_FAILED);
    reg.range.start = (uintptr_t)r->page;
    assert_int_equal(ioctl(r->uffd, UFFDIO_REGISTER, &reg), 0);
    assert_int_equal(pthread_create(&r->thread, NULL, read_nowhere, r), 0);
    assert_int_equal(poll(&p, 1, -1), 1); /* it has asked for the page: it has the lock */
    return true;
}

static void readers_end(void)
{
    while (nreaders) {
        struct reader *r = &readers[--nreaders];
        struct uffdio_zeropage z = {.range = {(uintptr_t)r->page, VGP_PAGE}};
        void *got;

        assert_int_equal(ioctl(r->uffd, UFFDIO_ZEROPAGE, &z), 0);
        pthread_join(r->thread, &got);
        assert_non_null(got);
        munmap(r->page, VGP_PAGE);
        close(r->uffd);
        close(r->sock);
    }
}

static void negotiate(struct vm *v)
{
    uint64_t features = UINT64_C(1) << BRK_VU_F_VERSION_1 | UINT64_C(1) << BRK_VU_F_PROTOCOL_FEATURES |
                        UINT64_C(1) << VGPU_F_PIN | UINT64_C(1) << VGPU_F_PING;
    uint64_t pf = vm_ask(v, BRK_VU_GET_PROTOCOL_FEATURES);
    struct brk_vu_payload_shmem c = {0};

    assert_int_equal(vm_send_msg(v, BRK_VU_SET_PROTOCOL_FEATURES, &pf, 8, NULL, 0, 0), 0);
    assert_int_equal(vm_ask(v, BRK_VU_GET_QUEUE_NUM), 2 + CLIENTS);
    assert_int_equal(vm_send_msg(v, BRK_VU_SET_FEATURES, &features, 8, NULL, 0, 0), 0);
    assert_int_equal(vm_send_msg(v, BRK_VU_GET_SHMEM_CONFIG, NULL, 0, NULL, 0, 0), 0);
    assert_true(vm_get_reply(v, &c, sizeof(c)) != UINT64_MAX);
    assert_int_equal(c.sizes[VGPU_SHMID_WINDOWS], (uint64_t)WINDOW * CLIENTS);
}

/* Gives the broker a channel with 8 bytes in it, which a read of this process has begun to take. */
static bool give_locked(struct vm *v, int *own)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(send(pair[0], "12345678", 8, 0), 8);
    if (!reader_start(pair[1]))
        return false;
    assert_int_equal(vm_acked(v, BRK_VU_SET_BACKEND_REQ_FD, NULL, 0, &pair[1], 1), 0);
    *own = pair[0];
    return true;
}

/* Takes a SHMEM_MAP, and says that the windows are mapped. */
static void serve_map(int channel)
{
    struct brk_vu_header h = {.request = BRK_VU_BACKEND_SHMEM_MAP, .flags = 1 | BRK_VU_FLAG_REPLY, .size = 8};
    struct pollfd p = {.fd = channel, .events = POLLIN};
    uint8_t request[REQUEST_BYTES], reply[20] = {0};
    unsigned nfds = 1;
    int fd;

    assert_int_equal(poll(&p, 1, 5000), 1);
    assert_int_equal(vgb_recv_fds(channel, request, sizeof(request), &fd, &nfds, 0), sizeof(request));
    assert_int_equal(nfds, 1);
    close(fd);
    memcpy(reply, &h, sizeof(h));
    assert_int_equal(send(channel, reply, sizeof(reply), 0), sizeof(reply));
}

static int setup(void **state)
{
    static const char *const extra[] = {"--vhost-user",  "SOCKET", "--log", "/dev/null", "--max-clients", "2",
                                        "--window-size", "4M",     NULL};
    struct vm *v = calloc(1, sizeof(*v));

    *state = v;
    if (broker_start(&v->b, extra) || vm_connect(v))
        return -1;
    v->win_fd = -1;
    v->ram_fd = vm_memfd("ram", RAM_SIZE, &v->ram);
    for (unsigned i = 0; i < 2 + CLIENTS; i++)
        v->kick[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    v->call[0] = eventfd(0, EFD_CLOEXEC);
    v->call[1] = eventfd(0, EFD_CLOEXEC);
    return 0;
}

static int teardown(void **state)
{
    struct vm *v = *state;

    readers_end();
    vgb_close(&v->sock);
    int r = broker_stop(&v->b);
    munmap(v->ram, RAM_SIZE);
    for (unsigned i = 0; i < 2 + CLIENTS; i++)
        close(v->kick[i]);
    close(v->call[0]);
    close(v->call[1]);
    close(v->ram_fd);
    free(v);
    return r;
}

static void test_locked(void **state)
{
    struct vm *v = *state;
    int own[READS + 1], pair[2];

    alarm(100); /* ends this program should the broker be held */
    negotiate(v);
    if (!give_locked(v, &own[0])) {
        print_message("not run: vhost-channel: userfaultfd takes root\n");
        skip();
    }
    vm_start_queues(v); /* it asks, and sees the bytes */
    usleep(200000);
    assert_int_equal(vm_ask(v, BRK_VU_GET_QUEUE_NUM), 2 + CLIENTS);
    /* No more than so many threads wait. */
    for (unsigned i = 1; i < READS; i++) {
        assert_true(give_locked(v, &own[i]));
        usleep(50000);
        assert_int_equal(vm_ask(v, BRK_VU_GET_QUEUE_NUM), 2 + CLIENTS);
    }
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(vm_acked(v, BRK_VU_SET_BACKEND_REQ_FD, NULL, 0, &pair[1], 1), 0);
    close(pair[1]);
    serve_map(pair[0]);
    v->wait_ms = 10000;
    assert_int_equal(vm_create(v, 0), VGPU_S_INVALID);
    close(pair[0]);
    /* What the reads of channels that were given up return is nothing to the next one. */
    readers_end();
    usleep(200000);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(vm_acked(v, BRK_VU_SET_BACKEND_REQ_FD, NULL, 0, &pair[1], 1), 0);
    close(pair[1]);
    serve_map(pair[0]);
    assert_int_equal(vm_create(v, 0), VGPU_S_OK);
    assert_int_equal(vm_destroy(v, 0), VGPU_S_OK);
    for (unsigned i = 0; i < READS; i++)
        close(own[i]);
    close(pair[0]);
    alarm(0);
}

/* The broker ends although a read of the channel does not return. */
static void test_end(void **state)
{
    struct vm *v = *state;
    int own;

    negotiate(v);
    if (!give_locked(v, &own)) {
        print_message("not run: vhost-channel: userfaultfd takes root\n");
        skip();
    }
    vm_start_queues(v);
    usleep(200000);
    assert_int_equal(vm_ask(v, BRK_VU_GET_QUEUE_NUM), 2 + CLIENTS);
    assert_int_equal(broker_end(&v->b, VGB_EXIT_MS), 0);
    close(own);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {T(test_locked), T(test_end)};

    return cmocka_run_group_tests_name("vhost-channel", tests, NULL, NULL);
}
