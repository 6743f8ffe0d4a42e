/* SPDX-License-Identifier: MIT */
/* Clients that wait for the device memory of a client that ends, and what it has pinned. The test provides the workers (linked
 * with --wrap). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "clients.h"
#include "vgb_fd.h"

#define QUOTA 1000u
#define WINDOW ((uint64_t)VGP_PAGE)

static struct one {
    struct brk_proc proc;
    int sock; /* the worker's end */
    struct brk_client *c;
} workers[8];
static unsigned started, ended;

struct brk_proc *__wrap_brk_pool_take(struct brk_client *c);
void __wrap_brk_proc_kill(struct brk_proc *p);

struct brk_proc *__wrap_brk_pool_take(struct brk_client *c)
{
    struct one *w = &workers[started++];
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    *w = (struct one){
        .proc = {.sock.fd = pair[0], .state = BRK_PROC_ASSIGNED, .client = c}, .sock = pair[1], .c = c};
    return &w->proc;
}

/* Leaves the worker unreaped: reaped() ends it. */
void __wrap_brk_proc_kill(struct brk_proc *p)
{
    (void)p;
}

static void on_status(struct brk_client *c, uint32_t status)
{
    (void)c;
    assert_int_equal(status, VGPU_S_OK);
}

static void on_client(struct brk_client *c)
{
    (void)c;
}

static void on_ended(struct brk_client *c)
{
    (void)c;
    ended++;
}

static void on_dead(struct brk_client *c, uint32_t reason)
{
    (void)c;
    (void)reason;
}

static const struct brk_client_ops ops = {
    .created = on_status, .wake = on_client, .dead = on_dead, .stuck = on_client, .ended = on_ended};

/* A client that is served. */
static struct one *client(void)
{
    const struct vgb_msg serving = {.type = VGB_M_SERVING};
    struct brk_client_setup s = {.ops = &ops, .label = "waits", .window_size = WINDOW, .create_ms = 60000};
    struct brk_client *c;
    uint32_t status;

    s.window_fd = memfd_create("window", MFD_CLOEXEC);
    s.doorbell = eventfd(0, EFD_CLOEXEC);
    assert_int_equal(ftruncate(s.window_fd, WINDOW), 0);
    c = brk_client_create(&s, &status);
    assert_non_null(c);
    close(s.window_fd);
    close(s.doorbell);
    brk_client_message(c, &serving);
    assert_int_equal(c->state, BRK_C_SERVING);
    return &workers[started - 1];
}

/* The status of the broker's answer to a request for memory; -1: none yet. */
static int granted(const struct one *w)
{
    struct vgb_msg m;
    int fds[VGB_MSG_FDS], status = -1;
    unsigned n = VGB_MSG_FDS;

    while (vgb_msg_recv(w->sock, &m, fds, &n, MSG_DONTWAIT) == 1) {
        vgb_close_all(fds, n);
        n = VGB_MSG_FDS;
        if (m.type == VGB_M_GRANT)
            status = (int)m.status;
    }
    return status;
}

static int reserve(const struct one *w, uint64_t bytes)
{
    const struct vgb_msg m = {
        .type = VGB_M_RESERVE, .flags = VGB_RESERVE_DEVICE, .value = bytes, .length = bytes};

    brk_client_message(w->c, &m);
    return granted(w);
}

static void reaped(struct one *w)
{
    brk_client_worker_gone(w->c, VGPU_DEAD_KILLED, "the worker was killed", true);
    close(w->sock);
    close(w->proc.sock.fd);
}

static void leave(struct one *w)
{
    brk_client_destroy(w->c);
    reaped(w);
}

static int setup(void **state)
{
    (void)state;
    brk_opt.max_clients = 8;
    brk_vram.limit = QUOTA;
    started = ended = 0;
    return 0;
}

static int teardown(void **state)
{
    struct brk_books b;

    (void)state;
    assert_int_equal(brk_client_count(), 0);
    assert_int_equal(brk_vram.used, 0);
    assert_null(brk_books_wrong(&b));
    return 0;
}

static void even(void)
{
    struct brk_books b;

    assert_null(brk_books_wrong(&b));
}

/* The program has exited, its worker is not reaped yet: a request for its memory is granted then. */
static void test_waits(void **state)
{
    struct one *a = client(), *b = client();

    (void)state;
    assert_int_equal(reserve(a, 800), VGPU_S_OK);
    assert_int_equal(reserve(b, 500), VGPU_S_QUOTA); /* no client is ending */
    brk_client_destroy(a->c);
    assert_int_equal(reserve(b, 500), -1);
    even();
    reaped(a);
    assert_int_equal(granted(b), VGPU_S_OK);
    assert_int_equal(b->c->vram, 500);
    leave(b);
    assert_int_equal(ended, 2);
}

/* A worker that wants more than it needs, while memory is about to be released: it waits for what it needs. */
static void test_waits_for_least(void **state)
{
    struct one *a = client(), *b = client();
    const struct vgb_msg m = {
        .type = VGB_M_RESERVE, .flags = VGB_RESERVE_DEVICE, .value = 1100, .length = 900};

    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        assert_int_equal(reserve(a, 800), VGPU_S_OK);
        brk_client_destroy(a->c);
        brk_client_message(b->c, &m);
        assert_int_equal(granted(b), -1);
        reaped(a);
        assert_int_equal(granted(b), VGPU_S_OK);
        assert_int_equal(b->c->vram, 900);
        assert_int_equal(reserve(b, 0), VGPU_S_OK);
        even();
        a = client();
    }
    leave(a);
    leave(b);
}

/* Requests for a client whose worker could not be ended at first: told apart before and after it has ended. */
static void test_stuck_and_gone(void **state)
{
    struct one *a = client();
    struct brk_map m = {.region = 1, .nruns = 1};

    (void)state;
    brk_client_stuck(a->c);
    assert_int_equal(brk_client_map(a->c, &m), VGPU_S_STUCK);
    assert_int_equal(brk_client_unmap(a->c, 1), VGPU_S_STUCK);
    reaped(a);
    assert_int_equal(brk_client_map(a->c, &m), VGPU_S_WORKER);
    assert_int_equal(brk_client_unmap(a->c, 1), VGPU_S_WORKER);
    brk_client_destroy(a->c);
    assert_int_equal(ended, 1);
}

/* A worker that the host cannot kill keeps its memory: requests do not wait for it. */
static void test_stuck(void **state)
{
    (void)state;
    for (unsigned destroyed = 0; destroyed < 2; destroyed++) {
        struct one *a = client(), *other = client(), *b = client();

        assert_int_equal(reserve(a, 600), VGPU_S_OK);
        assert_int_equal(reserve(other, 100), VGPU_S_OK);
        if (destroyed) {
            brk_client_destroy(a->c);
            assert_int_equal(reserve(b, 500), -1);
        }
        brk_client_stuck(a->c);
        if (destroyed)
            assert_int_equal(granted(b), VGPU_S_QUOTA);
        assert_int_equal(reserve(b, 500), VGPU_S_QUOTA);
        even();
        assert_int_equal(reserve(b, 300), VGPU_S_OK); /* within the quota */
        if (!destroyed)
            brk_client_destroy(a->c);
        assert_int_equal(reserve(b, 500), VGPU_S_QUOTA);
        reaped(a);
        assert_int_equal(reserve(b, 500), VGPU_S_OK);
        even();
        leave(other);
        leave(b);
        assert_int_equal(brk_vram.used, 0);
    }
}

/* One of two waiting clients dies: only the other one is granted its request. */
static void test_waiting_one_dies(void **state)
{
    struct one *a = client(), *b = client(), *other = client();

    (void)state;
    assert_int_equal(reserve(a, 1000), VGPU_S_OK);
    brk_client_destroy(a->c);
    assert_int_equal(reserve(b, 500), -1);
    assert_int_equal(reserve(other, 600), -1);
    reaped(b); /* the worker is reaped, the client remains, dead */
    assert_int_equal(b->c->state, BRK_C_DEAD);
    even();
    assert_int_equal(granted(other), -1);
    reaped(a);
    assert_int_equal(granted(other), VGPU_S_OK);
    assert_int_equal(brk_vram.used, 600);
    even();
    brk_client_destroy(b->c);
    leave(other);
}

static uint32_t pin(const struct one *w, uint32_t region, uint64_t pages)
{
    int fd = memfd_create("memory", MFD_CLOEXEC);
    struct brk_map_run run = {.fd = fd, .length = pages * VGP_PAGE};
    struct brk_map m = {
        .region = region, .va = 0x10000, .length = pages * VGP_PAGE, .runs = &run, .nruns = 1};
    uint32_t status = brk_client_map(w->c, &m);

    close(fd);
    return status;
}

/* Pages stay mapped until the worker is reaped, and count until then. Those of ending clients do not
 * keep the next program out, but are bounded, and those of a worker that cannot be ended count in full. */
static void test_pins(void **state)
{
    struct one *a = client(), *b = client(), *other = client();

    (void)state;
    brk_pins.limit = 8 * VGP_PAGE;
    assert_int_equal(pin(a, 1, 8), VGPU_S_OK);
    assert_int_equal(pin(b, 1, 1), VGPU_S_QUOTA);
    brk_client_destroy(a->c);
    assert_int_equal(brk_pins.used, 8 * VGP_PAGE);
    even();
    assert_int_equal(pin(b, 1, 9), VGPU_S_QUOTA);
    assert_int_equal(pin(b, 1, 8), VGPU_S_OK);
    assert_int_equal(brk_pins.used, 16 * VGP_PAGE);
    assert_int_equal(pin(other, 1, 1), VGPU_S_QUOTA);
    brk_client_destroy(b->c);
    assert_int_equal(pin(other, 1, 1), VGPU_S_QUOTA); /* and no further ones */
    even();
    reaped(a);
    assert_int_equal(brk_pins.used, 8 * VGP_PAGE);
    brk_client_stuck(b->c);
    assert_int_equal(pin(other, 1, 1), VGPU_S_QUOTA);
    reaped(b);
    assert_int_equal(pin(other, 1, 8), VGPU_S_OK);
    even();
    leave(other);
    assert_int_equal(brk_pins.used, 0);
    brk_pins.limit = 0;
}

/* The list of clients is whole, in their order, whichever of them has left before the next one comes. */
static void test_list(void **state)
{
    (void)state;
    for (unsigned gone = 0; gone < 3; gone++) {
        struct one *w[4] = {client(), client(), client(), NULL};
        const struct brk_client *c;
        unsigned n = 0;

        leave(w[gone]);
        w[3] = client();
        for (c = brk_client_first(); c && n < 4; c = c->next) {
            n += n == gone;
            assert_ptr_equal(c, w[n]->c);
            n++;
        }
        assert_null(c);
        assert_int_equal(n, 4);
        assert_int_equal(brk_client_count(), 3);
        even();
        for (unsigned i = 0; i < 4; i++) {
            if (i != gone)
                leave(w[i]);
        }
        started = 0;
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {T(test_waits),
                                       T(test_waits_for_least),
                                       T(test_stuck),
                                       T(test_stuck_and_gone),
                                       T(test_waiting_one_dies),
                                       T(test_pins),
                                       T(test_list)};

    if (brk_loop_init())
        return 1;
    return cmocka_run_group_tests_name("waiting", tests, NULL, NULL);
}
