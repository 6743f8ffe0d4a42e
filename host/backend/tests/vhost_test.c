/* SPDX-License-Identifier: MIT */
/* The vhost-user back end with a front end and a guest driver made for tests: no QEMU. */
#define _GNU_SOURCE
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
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "guest.h"
#include "proc.h"
#include "testprov.h"
#include "vgb_fd.h"
#include "vgp_calls.h"
#include "vu.h"

#define RAM_SIZE 0x400000u
#define RAM_GPA 0x40000000ull
#define RAM_UVA 0x7e0000000000ull
#define WINDOW (4u << 20)
#define CLIENTS 2u
#define NUM 16u
/* Guest RAM: rings of queue q at q * 0x4000; requests, responses and event buffers after them. */
#define REQUEST 0x100000u
#define RESPONSE 0x120000u
#define EVENTS 0x130000u

struct vm {
    struct broker b;
    int sock, ram_fd, win_fd;
    uint8_t *ram, *win;
    int kick[2 + CLIENTS], call[2];
    uint16_t seen[2]; /* used entries seen */
};

static int send_msg(struct vm *v, uint32_t request, const void *p, uint32_t size, const int *fds,
                    unsigned nfds, uint32_t flags)
{
    uint8_t buf[600];
    struct vu_header h = {.request = request, .flags = 1 | flags, .size = size};

    memcpy(buf, &h, sizeof(h));
    if (size)
        memcpy(buf + sizeof(h), p, size);
    return vgb_send_fds(v->sock, buf, sizeof(h) + size, fds, nfds, 0) ==
                   (ssize_t)(sizeof(h) + size) ? 0 : -1;
}

/* Reads an answer; its payload's first u64, or UINT64_MAX. */
static uint64_t get_reply(struct vm *v, void *payload, uint32_t size)
{
    struct vu_header h;
    struct pollfd p = {.fd = v->sock, .events = POLLIN};

    if (poll(&p, 1, 5000) != 1 || recv(v->sock, &h, sizeof(h), MSG_WAITALL) != sizeof(h) ||
        h.size > size || !(h.flags & VU_FLAG_REPLY))
        return UINT64_MAX;
    if (h.size && recv(v->sock, payload, h.size, MSG_WAITALL) != (ssize_t)h.size)
        return UINT64_MAX;
    uint64_t n = 0;
    memcpy(&n, payload, h.size < 8 ? h.size : 8);
    return n;
}

/* With REPLY_ACK: 0 when it was accepted. */
static uint64_t acked(struct vm *v, uint32_t request, const void *p, uint32_t size, const int *fds,
                      unsigned nfds)
{
    uint64_t r;

    if (send_msg(v, request, p, size, fds, nfds, VU_FLAG_NEED_REPLY))
        return UINT64_MAX;
    return get_reply(v, &r, sizeof(r));
}

static uint64_t ask(struct vm *v, uint32_t request)
{
    uint64_t r;

    return send_msg(v, request, NULL, 0, NULL, 0, 0) ? UINT64_MAX : get_reply(v, &r, sizeof(r));
}

static int connect_to(struct vm *v)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    snprintf(a.sun_path, sizeof(a.sun_path), "%s", v->b.sock);
    v->sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return connect(v->sock, (struct sockaddr *)&a, sizeof(a));
}

static void negotiate(struct vm *v)
{
    struct vu_payload_config c = {.size = sizeof(struct vgpu_config)};
    struct vgpu_config config;
    uint64_t f, pf;

    f = ask(v, VU_GET_FEATURES);
    assert_true(f >> VU_F_VERSION_1 & 1 && f >> VU_F_PROTOCOL_FEATURES & 1 && f >> VGPU_F_PIN & 1);
    pf = ask(v, VU_GET_PROTOCOL_FEATURES);
    assert_true(pf >> VU_PF_CONFIG & 1 && pf >> VU_PF_MQ & 1 && pf >> VU_PF_REPLY_ACK & 1);
    assert_int_equal(send_msg(v, VU_SET_PROTOCOL_FEATURES, &pf, 8, NULL, 0, 0), 0);
    assert_int_equal(acked(v, VU_SET_OWNER, NULL, 0, NULL, 0), 0);
    assert_int_equal(ask(v, VU_GET_QUEUE_NUM), 66);
    assert_int_equal(send_msg(v, VU_GET_CONFIG, &c, 12 + c.size, NULL, 0, 0), 0);
    get_reply(v, &c, sizeof(c));
    memcpy(&config, c.data, sizeof(config));
    assert_int_equal(config.magic, VGPU_CONFIG_MAGIC);
    assert_int_equal(config.max_clients, 64);
    config.max_clients = 65;
    memcpy(c.data, &config, sizeof(config));
    assert_int_equal(acked(v, VU_SET_CONFIG, &c, 12 + c.size, NULL, 0), 1);
    config.max_clients = CLIENTS;
    config.window_size = WINDOW;
    memcpy(c.data, &config, sizeof(config));
    assert_int_equal(acked(v, VU_SET_CONFIG, &c, 12 + c.size, NULL, 0), 0);
    f &= UINT64_C(1) << VU_F_VERSION_1 | UINT64_C(1) << VU_F_PROTOCOL_FEATURES | 1;
    assert_int_equal(acked(v, VU_SET_FEATURES, &f, 8, NULL, 0), 0);
}

static void start_queues(struct vm *v)
{
    struct vu_payload_mem mem = {
        .nregions = 2,
        .regions = {{.gpa = RAM_GPA, .size = RAM_SIZE, .uva = RAM_UVA},
                    {.gpa = 0x100000000, .size = WINDOW * CLIENTS, .uva = RAM_UVA + (1u << 30)}}};
    int fds[2] = {v->ram_fd, v->win_fd};

    assert_int_equal(acked(v, VU_SET_MEM_TABLE, &mem, 8 + 64, fds, 2), 0);
    memset(v->ram, 0, 0x100000);
    for (uint32_t q = 0; q < 2 + CLIENTS; q++) {
        struct vu_payload_state num = {q, NUM}, base = {q, 0}, on = {q, 1};
        uint64_t at = RAM_UVA + q * 0x4000, fd = q;
        struct vu_payload_addr addr = {
            .index = q, .desc = at, .avail = at + 0x1000, .used = at + 0x2000};

        assert_int_equal(acked(v, VU_SET_VRING_NUM, &num, 8, NULL, 0), 0);
        assert_int_equal(acked(v, VU_SET_VRING_BASE, &base, 8, NULL, 0), 0);
        assert_int_equal(acked(v, VU_SET_VRING_ADDR, &addr, 40, NULL, 0), 0);
        assert_int_equal(acked(v, VU_SET_VRING_KICK, &fd, 8, &v->kick[q], 1), 0);
        if (q < 2)
            assert_int_equal(acked(v, VU_SET_VRING_CALL, &fd, 8, &v->call[q], 1), 0);
        assert_int_equal(acked(v, VU_SET_VRING_ENABLE, &on, 8, NULL, 0), 0);
    }
    v->seen[0] = v->seen[1] = 0;
}

static int memfd(const char *name, uint64_t size, uint8_t **p)
{
    int fd = memfd_create(name, MFD_CLOEXEC);

    if (fd < 0 || ftruncate(fd, (off_t)size))
        return -1;
    *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return *p == MAP_FAILED ? -1 : fd;
}

static int setup(void **state)
{
    /* What is refused on purpose is logged as an error, as it should. */
    static const char *const extra[] = {"--vhost-user", "SOCKET", "--log", "/dev/null", NULL};
    struct vm *v = calloc(1, sizeof(*v));

    *state = v;
    if (broker_start(&v->b, extra) || connect_to(v))
        return -1;
    v->ram_fd = memfd("ram", RAM_SIZE, &v->ram);
    v->win_fd = memfd("vgpu-windows", WINDOW * CLIENTS, &v->win);
    for (unsigned i = 0; i < 2 + CLIENTS; i++)
        v->kick[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    v->call[0] = eventfd(0, EFD_CLOEXEC);
    v->call[1] = eventfd(0, EFD_CLOEXEC);
    negotiate(v);
    start_queues(v);
    return 0;
}

static int teardown(void **state)
{
    struct vm *v = *state;

    vgb_close(&v->sock);
    int r = broker_stop(&v->b);
    munmap(v->ram, RAM_SIZE);
    munmap(v->win, WINDOW * CLIENTS);
    for (unsigned i = 0; i < 2 + CLIENTS; i++)
        close(v->kick[i]);
    close(v->call[0]);
    close(v->call[1]);
    close(v->ram_fd);
    close(v->win_fd);
    free(v);
    return r;
}

struct vring_desc {
    uint64_t addr;
    uint32_t len;
    uint16_t flags, next;
};

static void queue_post(struct vm *v, unsigned q, uint16_t head)
{
    uint16_t *avail = (void *)(v->ram + q * 0x4000 + 0x1000);

    avail[2 + avail[1] % NUM] = head;
    __atomic_store_n(&avail[1], (uint16_t)(avail[1] + 1), __ATOMIC_RELEASE);
    vgb_eventfd_signal(v->kick[q]);
}

/* Waits for one more used entry of a queue; its length, or -1. */
static int queue_wait(struct vm *v, unsigned q, int ms, uint32_t *id)
{
    uint16_t *used = (void *)(v->ram + q * 0x4000 + 0x2000);

    while (__atomic_load_n(&used[1], __ATOMIC_ACQUIRE) == v->seen[q]) {
        struct pollfd p = {.fd = v->call[q], .events = POLLIN};

        if (poll(&p, 1, ms) != 1)
            return -1;
        vgb_eventfd_clear(v->call[q]);
    }
    uint32_t *e = (void *)(v->ram + q * 0x4000 + 0x2004 + 8 * (v->seen[q]++ % NUM));
    if (id)
        *id = e[0];
    return (int)e[1];
}

/* A control request; the status, -1: no answer, -2: returned with length 0. */
static int control(struct vm *v, const void *request, uint32_t size, uint64_t *va)
{
    struct vring_desc *d = (void *)v->ram;
    struct vgpu_resp_pin r;

    memcpy(v->ram + REQUEST, request, size);
    memset(v->ram + RESPONSE, 0xff, sizeof(r));
    d[0] = (struct vring_desc){RAM_GPA + REQUEST, size, 1, 1};
    d[1] = (struct vring_desc){RAM_GPA + RESPONSE, sizeof(r), 2, 0};
    queue_post(v, 0, 0);
    int n = queue_wait(v, 0, 5000, NULL);
    if (n <= 0)
        return n ? -1 : -2;
    memcpy(&r, v->ram + RESPONSE, sizeof(r));
    if (va)
        *va = r.worker_va;
    return (int)r.hdr.status;
}

static int create(struct vm *v, uint32_t slot)
{
    struct vgpu_cmd_client_create c = {.hdr = {.type = VGPU_CMD_CLIENT_CREATE, .client = slot},
                                       .label = "test"};

    return control(v, &c, sizeof(c), NULL);
}

static int destroy(struct vm *v, uint32_t slot)
{
    struct vgpu_cmd_client_destroy c = {.hdr = {.type = VGPU_CMD_CLIENT_DESTROY, .client = slot}};

    return control(v, &c, sizeof(c), NULL);
}

/* The window of a slot, as libcuda sees it. */
static void as_guest(struct vm *v, unsigned slot, struct guest *g)
{
    memset(g, 0, sizeof(*g));
    g->win = v->win + slot * WINDOW;
    g->s = (void *)g->win;
    g->window_size = WINDOW;
    g->doorbell = v->kick[2 + slot];
    g->sock = g->memfd = -1;
}

static int ping(struct guest *g)
{
    struct vgp_args_vgpPing a = {.value = 5};

    return guest_call(g, VGP_vgpPing, &a, sizeof(a), NULL, NULL);
}

static void post_event_buffer(struct vm *v, uint16_t i)
{
    struct vring_desc *d = (void *)(v->ram + 0x4000);

    d[i] = (struct vring_desc){RAM_GPA + EVENTS + i * 64, sizeof(struct vgpu_event), 2, 0};
    queue_post(v, 1, i);
}

static bool wait_event(struct vm *v, struct vgpu_event *e, int ms)
{
    uint32_t id = 0;

    if (queue_wait(v, 1, ms, &id) != sizeof(*e))
        return false;
    memcpy(e, v->ram + EVENTS + id * 64, sizeof(*e));
    return true;
}

/* ---- tests ---- */

static void test_life_of_a_client(void **state)
{
    struct vm *v = *state;
    struct guest g;

    assert_int_equal(destroy(v, 0), VGPU_S_NO_CLIENT);
    v->win[WINDOW - 1] = 0x77; /* left by somebody */
    assert_int_equal(create(v, 0), VGPU_S_OK);
    as_guest(v, 0, &g);
    assert_int_equal(g.s->magic, VGP_MAGIC);
    assert_int_equal(v->win[WINDOW - 1], 0);
    assert_int_equal(create(v, 0), VGPU_S_BUSY);
    assert_int_equal(create(v, 1), VGPU_S_OK);
    for (int i = 0; i < 100; i++)
        assert_int_equal(ping(&g), 0);
    usleep(5000);
    assert_int_equal(ping(&g), 0); /* by the doorbell */
    pid_t w[8];
    unsigned n = workers_of(v->b.pid, w, 8);
    assert_int_equal(destroy(v, 0), VGPU_S_OK);
    assert_true(n >= 2);
    assert_int_equal(v->win[0], 0); /* the memory is given back */
    as_guest(v, 1, &g);
    assert_int_equal(ping(&g), 0);
    assert_int_equal(destroy(v, 1), VGPU_S_OK);
    assert_int_equal(create(v, 0), VGPU_S_OK);
    as_guest(v, 0, &g);
    assert_int_equal(ping(&g), 0);
}

static void test_bad_requests(void **state)
{
    struct vm *v = *state;
    struct vgpu_cmd_client_create c = {.hdr = {.type = VGPU_CMD_CLIENT_CREATE}};

    assert_int_equal(create(v, CLIENTS), VGPU_S_INVALID);
    assert_int_equal(create(v, 0xffffffff), VGPU_S_INVALID);
    c.hdr.flags = 1;
    assert_int_equal(control(v, &c, sizeof(c), NULL), VGPU_S_INVALID);
    c.hdr.flags = 0;
    c.hdr.padding = 1;
    assert_int_equal(control(v, &c, sizeof(c), NULL), VGPU_S_INVALID);
    c.hdr.padding = 0;
    assert_int_equal(control(v, &c, sizeof(c) - 8, NULL), VGPU_S_INVALID);
    assert_int_equal(control(v, &c, sizeof(c.hdr) - 4, NULL), VGPU_S_INVALID);
    c.hdr.type = 99;
    assert_int_equal(control(v, &c, sizeof(c), NULL), VGPU_S_UNSUPPORTED);
    c.hdr.type = 0;
    assert_int_equal(control(v, &c, sizeof(c), NULL), VGPU_S_UNSUPPORTED);
    assert_int_equal(create(v, 0), VGPU_S_OK); /* nothing was harmed */
}

static void test_pin(void **state)
{
    struct vm *v = *state;
    struct {
        struct vgpu_cmd_pin pin;
        struct vgpu_pin_run runs[3];
    } q = {.pin = {.hdr = {.type = VGPU_CMD_PIN},
                   .region = 9,
                   .va = 0x7f1200000000,
                   .length = 0x3000,
                   .nruns = 2},
           .runs = {{RAM_GPA + 0x203000, 0x1000}, {RAM_GPA + 0x200000, 0x2000}}};
    struct vgpu_cmd_unpin u = {.hdr = {.type = VGPU_CMD_UNPIN}, .region = 9};
    const uint32_t size = sizeof(q.pin) + 2 * sizeof(q.runs[0]);
    struct guest g;
    uint64_t va = 0, dptr;

    assert_int_equal(control(v, &q, size, NULL), VGPU_S_NO_CLIENT);
    assert_int_equal(create(v, 0), VGPU_S_OK);
    assert_int_equal(control(v, &q, size - 16, NULL), VGPU_S_INVALID);
    q.runs[1].addr = 0x100000000; /* the windows are no guest RAM */
    assert_int_equal(control(v, &q, size, NULL), VGPU_S_INVALID);
    q.runs[1].addr = RAM_GPA + RAM_SIZE - 0x1000;
    assert_int_equal(control(v, &q, size, NULL), VGPU_S_INVALID);
    q.runs[1].addr = RAM_GPA + 0x200000;
    q.pin.length = 0x4000; /* not the sum */
    assert_int_equal(control(v, &q, size, NULL), VGPU_S_INVALID);
    q.pin.length = 0x3000;
    q.pin.pin_flags = 4;
    assert_int_equal(control(v, &q, size, NULL), VGPU_S_INVALID);
    q.pin.pin_flags = 0;
    assert_int_equal(control(v, &q, size, &va), VGPU_S_OK);
    assert_int_equal(va, q.pin.va);
    assert_int_equal(control(v, &q, size, NULL), VGPU_S_BUSY);
    /* The second page of the region is the first of the second run. */
    strcpy((char *)v->ram + 0x200010, "guest page");
    as_guest(v, 0, &g);
    assert_int_equal(guest_context(&g), 0);
    assert_int_equal(guest_alloc(&g, 64, &dptr), 0);
    struct vgp_args_vgpCopy c = {.srcKind = VGP_COPY_HOST,
                                 .src = q.pin.va + 0x1010,
                                 .dst = dptr,
                                 .widthBytes = 11,
                                 .when = VGP_WHEN_COMPLETE};
    assert_int_equal(guest_call(&g, VGP_vgpCopy, &c, sizeof(c), NULL, NULL), 0);
    c = (struct vgp_args_vgpCopy){.dstKind = VGP_COPY_HOST,
                                  .dst = q.pin.va + 0x20,
                                  .src = dptr,
                                  .widthBytes = 11,
                                  .when = VGP_WHEN_COMPLETE};
    assert_int_equal(guest_call(&g, VGP_vgpCopy, &c, sizeof(c), NULL, NULL), 0);
    assert_string_equal((char *)v->ram + 0x203020, "guest page");
    u.region = 8;
    assert_int_equal(control(v, &u, sizeof(u), NULL), VGPU_S_INVALID);
    u.region = 9;
    assert_int_equal(control(v, &u, sizeof(u), NULL), VGPU_S_OK);
    assert_int_equal(guest_call(&g, VGP_vgpCopy, &c, sizeof(c), NULL, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    /* In two requests. */
    q.pin.pin_flags = VGPU_PIN_MORE;
    q.pin.nruns = 1;
    assert_int_equal(control(v, &q, size - 16, &va), VGPU_S_OK);
    assert_int_equal(va, 0);
    q.pin.pin_flags = 0;
    q.pin.offset = 0x1000;
    q.runs[0] = q.runs[1];
    assert_int_equal(control(v, &q, size - 16, &va), VGPU_S_OK);
    assert_int_equal(va, q.pin.va);
    assert_int_equal(guest_call(&g, VGP_vgpCopy, &c, sizeof(c), NULL, NULL), 0);
}

/* More runs than one message to the worker holds, read-only, out of scattered pages. */
static void test_pin_many_runs(void **state)
{
    enum { RUNS = 300 };
    static struct {
        struct vgpu_cmd_pin pin;
        struct vgpu_pin_run runs[RUNS];
    } q;
    struct vm *v = *state;
    struct guest g;
    uint64_t va = 0, dptr;

    q.pin = (struct vgpu_cmd_pin){.hdr = {.type = VGPU_CMD_PIN},
                                  .region = 1,
                                  .pin_flags = VGPU_PIN_READONLY,
                                  .va = 0x7f2200000000,
                                  .length = RUNS * 0x1000,
                                  .nruns = RUNS};
    for (unsigned i = 0; i < RUNS; i++) {
        q.runs[i].addr = RAM_GPA + 0x140000 + i * 0x2000;
        q.runs[i].len = 0x1000;
        v->ram[0x140000 + i * 0x2000] = (uint8_t)(i % 251);
    }
    assert_int_equal(create(v, 0), VGPU_S_OK);
    assert_int_equal(control(v, &q, sizeof(q), &va), VGPU_S_OK);
    assert_int_equal(va, q.pin.va);
    as_guest(v, 0, &g);
    assert_int_equal(guest_context(&g), 0);
    assert_int_equal(guest_alloc(&g, RUNS, &dptr), 0);
    /* One byte of each page: a column. */
    struct vgp_args_vgpCopy c = {.srcKind = VGP_COPY_HOST,
                                 .src = q.pin.va,
                                 .srcPitch = 0x1000,
                                 .dst = dptr,
                                 .dstPitch = 1,
                                 .widthBytes = 1,
                                 .height = RUNS,
                                 .when = VGP_WHEN_COMPLETE};
    assert_int_equal(guest_call(&g, VGP_vgpCopy, &c, sizeof(c), NULL, NULL), 0);
    c = (struct vgp_args_vgpCopy){.dstKind = VGP_COPY_STAGING,
                                  .src = dptr,
                                  .widthBytes = RUNS,
                                  .when = VGP_WHEN_COMPLETE};
    assert_int_equal(guest_call(&g, VGP_vgpCopy, &c, sizeof(c), NULL, NULL), 0);
    for (unsigned i = 0; i < RUNS; i++)
        assert_int_equal(g.win[g.s->staging_offset + i], i % 251);
    c.dstKind = VGP_COPY_HOST; /* read-only */
    c.dst = q.pin.va;
    assert_int_equal(guest_call(&g, VGP_vgpCopy, &c, sizeof(c), NULL, NULL),
                     CUDA_ERROR_INVALID_VALUE);
}

static void test_events(void **state)
{
    struct vm *v = *state;
    struct vgpu_event e;
    struct guest g;

    assert_int_equal(create(v, 1), VGPU_S_OK);
    as_guest(v, 1, &g);
    post_event_buffer(v, 0);
    g.s->guest_sleeps = 1;
    assert_int_equal(ping(&g), 0);
    assert_true(wait_event(v, &e, 2000));
    assert_int_equal(e.type, VGPU_EV_WAKE);
    assert_int_equal(e.client, 1);
    /* Without a buffer the events wait, one of each kind. */
    g.s->guest_sleeps = 1;
    assert_int_equal(ping(&g), 0);
    pid_t w = 0, list[8];
    unsigned n = workers_of(v->b.pid, list, 8);
    for (unsigned i = 0; i < n; i++) {
        char path[64], line[400];
        snprintf(path, sizeof(path), "/proc/%d/maps", (int)list[i]);
        FILE *f = fopen(path, "r");
        while (f && fgets(line, sizeof(line), f))
            w = strstr(line, "vgpu-windows") ? list[i] : w;
        if (f)
            fclose(f);
    }
    assert_true(w > 0);
    kill(w, SIGKILL);
    assert_true(guest_wait_dead(&g, 2000));
    assert_false(wait_event(v, &e, 50));
    post_event_buffer(v, 1);
    post_event_buffer(v, 2);
    assert_true(wait_event(v, &e, 2000));
    assert_int_equal(e.type, VGPU_EV_WAKE);
    assert_true(wait_event(v, &e, 2000));
    assert_int_equal(e.type, VGPU_EV_CLIENT_DEAD);
    assert_int_equal(e.client, 1);
    assert_int_equal(e.arg, VGPU_DEAD_EXITED);
    assert_int_equal(create(v, 1), VGPU_S_BUSY); /* until it is destroyed */
    assert_int_equal(destroy(v, 1), VGPU_S_OK);
    assert_int_equal(create(v, 1), VGPU_S_OK);
}

static void test_reset_ends_clients(void **state)
{
    struct vm *v = *state;
    struct vu_payload_state st;
    struct guest g;

    assert_int_equal(create(v, 0), VGPU_S_OK);
    assert_int_equal(create(v, 1), VGPU_S_OK);
    pid_t w = worker_of_client(v->b.pid);
    assert_true(w > 0);
    for (uint32_t q = 0; q < 2 + CLIENTS; q++) {
        struct vu_payload_state off = {q, 0};

        assert_int_equal(acked(v, VU_SET_VRING_ENABLE, &off, 8, NULL, 0), 0);
        assert_int_equal(send_msg(v, VU_GET_VRING_BASE, &off, 8, NULL, 0, 0), 0);
        get_reply(v, &st, sizeof(st));
        if (!q) {
            assert_true(kill(w, 0) != 0); /* gone before the answer */
            assert_int_equal(st.num, 2);
            assert_int_equal(worker_of_client(v->b.pid), 0);
            assert_int_equal(v->win[0], 0);
        }
    }
    start_queues(v);
    assert_int_equal(create(v, 0), VGPU_S_OK);
    as_guest(v, 0, &g);
    assert_int_equal(ping(&g), 0);
}

static void test_qemu_ends_and_returns(void **state)
{
    struct vm *v = *state;

    assert_int_equal(create(v, 0), VGPU_S_OK);
    pid_t w = worker_of_client(v->b.pid);
    assert_true(w > 0);
    vgb_close(&v->sock);
    assert_true(gone_within(w, 3000));
    assert_int_equal(connect_to(v), 0);
    negotiate(v);
    start_queues(v);
    assert_int_equal(create(v, 0), VGPU_S_OK);
}

static void test_garbage(void **state)
{
    struct vm *v = *state;
    struct vu_payload_state bad = {200, 16};
    uint64_t kick = 1;
    struct vu_payload_mem mem = {.nregions = 1, .regions = {{.size = 0x1000}}};
    char c;

    assert_int_equal(acked(v, VU_SET_VRING_NUM, &bad, 8, NULL, 0), 1);
    bad.index = 0;
    bad.num = 3; /* not a power of two */
    assert_int_equal(acked(v, VU_SET_VRING_NUM, &bad, 8, NULL, 0), 1);
    assert_int_equal(acked(v, VU_SET_VRING_KICK, &kick, 8, NULL, 0), 1);
    assert_int_equal(acked(v, VU_SET_MEM_TABLE, &mem, 8 + 32, NULL, 0), 1);
    assert_int_equal(send_msg(v, 77, NULL, 0, NULL, 0, 0), 0);
    struct pollfd p = {.fd = v->sock, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 3000), 1);
    assert_int_equal(recv(v->sock, &c, 1, 0), 0); /* closed: not understood */
    vgb_close(&v->sock);
    assert_int_equal(connect_to(v), 0);
    negotiate(v);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_life_of_a_client),   T(test_bad_requests),          T(test_pin), T(test_events),
        T(test_pin_many_runs),
        T(test_reset_ends_clients), T(test_qemu_ends_and_returns), T(test_garbage),
    };

    return cmocka_run_group_tests_name("vhost-user", tests, NULL, NULL);
}
