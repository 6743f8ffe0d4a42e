/* SPDX-License-Identifier: MIT */
/* The vhost-user back end with a front end and a guest driver made for tests: no QEMU. */
#define _GNU_SOURCE
#include <dirent.h>
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
#include <unistd.h>

#include <cmocka.h>

#include "lib/testing/range.h"
#include <cuda.h>

#include "testprov.h"
#include "vgb_fd.h"
#include "vgp_calls.h"
#include "vm.h"

/* ---- tests ---- */

static void test_life_of_a_client(void **state)
{
    struct vm *v = *state;
    struct guest g;

    assert_int_equal(vm_destroy(v, 0), VGPU_S_NO_CLIENT);
    v->win[WINDOW - 1] = 0x77; /* left by somebody */
    assert_int_equal(vm_create(v, 0), VGPU_S_OK);
    vm_as_guest(v, 0, &g);
    assert_int_equal(g.s->magic, VGP_MAGIC);
    assert_int_equal(v->win[WINDOW - 1], 0);
    assert_int_equal(vm_create(v, 0), VGPU_S_BUSY);
    assert_int_equal(vm_create(v, 1), VGPU_S_OK);
    for (int i = 0; i < 100; i++)
        assert_int_equal(vm_ping(&g), 0);
    usleep(5000);
    assert_int_equal(vm_ping(&g), 0); /* by the doorbell */
    pid_t w[8];
    unsigned n = workers_of(v->b.pid, w, 8);
    assert_int_equal(vm_destroy(v, 0), VGPU_S_OK);
    assert_true(n >= 2);
    assert_true(vm_given_back(&v->win[0]));
    vm_as_guest(v, 1, &g);
    assert_int_equal(vm_ping(&g), 0);
    assert_int_equal(vm_destroy(v, 1), VGPU_S_OK);
    assert_int_equal(vm_create(v, 0), VGPU_S_OK);
    vm_as_guest(v, 0, &g);
    assert_int_equal(vm_ping(&g), 0);
}

static void test_bad_requests(void **state)
{
    struct vm *v = *state;
    struct vgpu_cmd_client_create c = {.hdr = {.type = VGPU_CMD_CLIENT_CREATE}};

    assert_int_equal(vm_create(v, CLIENTS), VGPU_S_INVALID);
    assert_int_equal(vm_create(v, 0xffffffff), VGPU_S_INVALID);
    c.hdr.flags = 1;
    assert_int_equal(vm_control(v, &c, sizeof(c), NULL), VGPU_S_INVALID);
    c.hdr.flags = 0;
    c.hdr.padding = 1;
    assert_int_equal(vm_control(v, &c, sizeof(c), NULL), VGPU_S_INVALID);
    c.hdr.padding = 0;
    assert_int_equal(vm_control(v, &c, sizeof(c) - 8, NULL), VGPU_S_INVALID);
    assert_int_equal(vm_control(v, &c, sizeof(c.hdr) - 4, NULL), VGPU_S_INVALID);
    c.hdr.type = 99;
    assert_int_equal(vm_control(v, &c, sizeof(c), NULL), VGPU_S_UNSUPPORTED);
    c.hdr.type = 0;
    assert_int_equal(vm_control(v, &c, sizeof(c), NULL), VGPU_S_UNSUPPORTED);
    c.hdr.type = VGPU_CMD_PING;
    assert_int_equal(vm_control(v, &c, sizeof(c), NULL), VGPU_S_INVALID);
    assert_int_equal(vm_control(v, &c, sizeof(c.hdr), NULL), VGPU_S_OK);
    c.hdr.client = 1;
    assert_int_equal(vm_control(v, &c, sizeof(c.hdr), NULL), VGPU_S_INVALID);
    c.hdr.client = 0;
    c.hdr.flags = 1;
    assert_int_equal(vm_control(v, &c, sizeof(c.hdr), NULL), VGPU_S_INVALID);
    assert_int_equal(vm_create(v, 0), VGPU_S_OK); /* nothing was harmed */
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

    assert_int_equal(vm_control(v, &q, size, NULL), VGPU_S_NO_CLIENT);
    assert_int_equal(vm_create(v, 0), VGPU_S_OK);
    assert_int_equal(vm_control(v, &q, size - 16, NULL), VGPU_S_INVALID);
    q.runs[1].addr = 0x100000000; /* the windows are no guest RAM */
    assert_int_equal(vm_control(v, &q, size, NULL), VGPU_S_INVALID);
    q.runs[1].addr = RAM_GPA + RAM_SIZE - 0x1000;
    assert_int_equal(vm_control(v, &q, size, NULL), VGPU_S_INVALID);
    q.runs[1].addr = RAM_GPA + 0x200000;
    q.pin.length = 0x4000; /* not the sum */
    assert_int_equal(vm_control(v, &q, size, NULL), VGPU_S_INVALID);
    q.pin.length = 0x3000;
    q.pin.pin_flags = 4;
    assert_int_equal(vm_control(v, &q, size, NULL), VGPU_S_INVALID);
    q.pin.pin_flags = 0;
    assert_int_equal(vm_control(v, &q, size, &va), VGPU_S_OK);
    assert_int_equal(va, q.pin.va);
    assert_int_equal(vm_control(v, &q, size, NULL), VGPU_S_BUSY);
    /* The second page of the region is the first of the second run. */
    strcpy((char *)v->ram + 0x200010, "guest page");
    vm_as_guest(v, 0, &g);
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
    assert_int_equal(vm_control(v, &u, sizeof(u), NULL), VGPU_S_INVALID);
    u.region = 9;
    assert_int_equal(vm_control(v, &u, sizeof(u), NULL), VGPU_S_OK);
    assert_int_equal(guest_call(&g, VGP_vgpCopy, &c, sizeof(c), NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    /* In two requests. */
    q.pin.pin_flags = VGPU_PIN_MORE;
    q.pin.nruns = 1;
    assert_int_equal(vm_control(v, &q, size - 16, &va), VGPU_S_OK);
    assert_int_equal(va, 0);
    q.pin.pin_flags = 0;
    q.pin.offset = 0x1000;
    q.runs[0] = q.runs[1];
    assert_int_equal(vm_control(v, &q, size - 16, &va), VGPU_S_OK);
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
    assert_int_equal(vm_create(v, 0), VGPU_S_OK);
    assert_int_equal(vm_control(v, &q, sizeof(q), &va), VGPU_S_OK);
    assert_int_equal(va, q.pin.va);
    vm_as_guest(v, 0, &g);
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
    c = (struct vgp_args_vgpCopy){
        .dstKind = VGP_COPY_STAGING, .src = dptr, .widthBytes = RUNS, .when = VGP_WHEN_COMPLETE};
    assert_int_equal(guest_call(&g, VGP_vgpCopy, &c, sizeof(c), NULL, NULL), 0);
    for (unsigned i = 0; i < RUNS; i++)
        assert_int_equal(g.win[g.s->staging_offset + i], i % 251);
    c.dstKind = VGP_COPY_HOST; /* read-only */
    c.dst = q.pin.va;
    assert_int_equal(guest_call(&g, VGP_vgpCopy, &c, sizeof(c), NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

/* PIN and UNPIN of one region posted together: the UNPIN arrives while its worker and the mapper are at the PIN. */
static void test_unpin_crosses_pin(void **state)
{
    struct {
        struct vgpu_cmd_pin pin;
        struct vgpu_pin_run runs[2];
    } pin = {
        .pin =
            {.hdr = {.type = VGPU_CMD_PIN}, .region = 1, .va = 0x7f2300000000, .length = 0x2000, .nruns = 2},
        .runs = {{.addr = RAM_GPA + 0x140000, .len = 0x1000}, {.addr = RAM_GPA + 0x150000, .len = 0x1000}}};
    struct vgpu_cmd_unpin un = {.hdr = {.type = VGPU_CMD_UNPIN}, .region = 1};
    struct vm *v = *state;
    struct vring_desc *d = (void *)v->ram;

    assert_int_equal(vm_create(v, 0), VGPU_S_OK);
    for (unsigned i = 0; i < 50; i++) {
        struct vgpu_resp_pin pinned = {.hdr.status = 99};
        struct vgpu_resp_hdr unpinned = {.status = 99};

        memcpy(v->ram + REQUEST, &pin, sizeof(pin));
        memcpy(v->ram + REQUEST + 0x1000, &un, sizeof(un));
        d[0] = (struct vring_desc){RAM_GPA + REQUEST, sizeof(pin), 1, 1};
        d[1] = (struct vring_desc){RAM_GPA + RESPONSE, sizeof(pinned), 2, 0};
        d[2] = (struct vring_desc){RAM_GPA + REQUEST + 0x1000, sizeof(un), 1, 3};
        d[3] = (struct vring_desc){RAM_GPA + RESPONSE + 0x1000, sizeof(unpinned), 2, 0};
        vm_queue_post(v, 0, 0);
        vm_queue_post(v, 0, 2);
        assert_true(vm_queue_wait(v, 0, 5000, NULL) > 0 && vm_queue_wait(v, 0, 5000, NULL) > 0);
        memcpy(&pinned, v->ram + RESPONSE, sizeof(pinned));
        memcpy(&unpinned, v->ram + RESPONSE + 0x1000, sizeof(unpinned));
        assert_int_equal(pinned.hdr.status, VGPU_S_OK);
        assert_int_equal(unpinned.status, VGPU_S_OK);
    }
}

/* Runs that wait for the rest of their region, and for ever: so many and no more, and they can be given up. */
static void test_runs_without_end(void **state)
{
    enum { RUNS = 128, WAIT_MAX = 65536 };
    static struct {
        struct vgpu_cmd_pin pin;
        struct vgpu_pin_run runs[RUNS];
    } q;
    struct vgpu_cmd_unpin un = {.hdr = {.type = VGPU_CMD_UNPIN}, .region = 1};
    struct vm *v = *state;
    int status = VGPU_S_OK;
    unsigned n = 0;

    q.pin = (struct vgpu_cmd_pin){.hdr = {.type = VGPU_CMD_PIN},
                                  .region = 1,
                                  .pin_flags = VGPU_PIN_MORE,
                                  .va = 0x7f2400000000,
                                  .length = 4 * (uint64_t)WAIT_MAX * 0x1000,
                                  .nruns = RUNS};
    for (unsigned i = 0; i < RUNS; i++)
        q.runs[i] = (struct vgpu_pin_run){.addr = RAM_GPA + 0x140000 + i * 0x2000, .len = 0x1000};
    assert_int_equal(vm_create(v, 0), VGPU_S_OK);
    for (; n <= 2 * WAIT_MAX && status == VGPU_S_OK; n += RUNS) {
        q.pin.offset = n * UINT64_C(0x1000);
        status = vm_control(v, &q, sizeof(q), NULL);
    }
    assert_int_equal(status, VGPU_S_NO_MEMORY);
    assert_int_equal(n, WAIT_MAX + RUNS);
    assert_int_equal(vm_control(v, &un, sizeof(un), NULL), VGPU_S_OK);
    q.pin.offset = 0;
    assert_int_equal(vm_control(v, &q, sizeof(q), NULL), VGPU_S_OK);
    assert_int_equal(vm_control(v, &un, sizeof(un), NULL), VGPU_S_OK);
}

static void test_events(void **state)
{
    struct vm *v = *state;
    struct vgpu_event e;
    struct guest g;

    assert_int_equal(vm_create(v, 1), VGPU_S_OK);
    vm_as_guest(v, 1, &g);
    vm_post_event_buffer(v, 0);
    g.s->guest_sleeps = 1;
    assert_int_equal(vm_ping(&g), 0);
    assert_true(vm_wait_event(v, &e, 2000));
    assert_int_equal(e.type, VGPU_EV_WAKE);
    assert_int_equal(e.client, 1);
    /* Without a buffer the events wait, one of each kind. */
    g.s->guest_sleeps = 1;
    assert_int_equal(vm_ping(&g), 0);
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
    assert_true(guest_wait_dead(&g, 60000));
    assert_false(vm_wait_event(v, &e, 50));
    vm_post_event_buffer(v, 1);
    vm_post_event_buffer(v, 2);
    assert_true(vm_wait_event(v, &e, 2000));
    assert_int_equal(e.type, VGPU_EV_WAKE);
    assert_true(vm_wait_event(v, &e, 2000));
    assert_int_equal(e.type, VGPU_EV_CLIENT_DEAD);
    assert_int_equal(e.client, 1);
    assert_int_equal(e.arg, VGPU_DEAD_EXITED);
    assert_int_equal(vm_create(v, 1), VGPU_S_BUSY); /* until it is destroyed */
    assert_int_equal(vm_destroy(v, 1), VGPU_S_OK);
    assert_int_equal(vm_create(v, 1), VGPU_S_OK);
}

static void test_reset_ends_clients(void **state)
{
    struct vm *v = *state;
    struct brk_vu_payload_state st;
    struct guest g;

    assert_int_equal(vm_create(v, 0), VGPU_S_OK);
    assert_int_equal(vm_create(v, 1), VGPU_S_OK);
    pid_t w = worker_of_client(v->b.pid);
    assert_true(w > 0);
    for (uint32_t q = 0; q < 2 + CLIENTS; q++) {
        struct brk_vu_payload_state off = {q, 0};

        assert_int_equal(vm_acked(v, BRK_VU_SET_VRING_ENABLE, &off, 8, NULL, 0), 0);
        assert_int_equal(vm_send_msg(v, BRK_VU_GET_VRING_BASE, &off, 8, NULL, 0, 0), 0);
        vm_get_reply(v, &st, sizeof(st));
        if (!q) {
            assert_true(kill(w, 0) != 0); /* gone before the answer */
            assert_int_equal(st.num, 2);
            assert_int_equal(worker_of_client(v->b.pid), 0);
            assert_true(vm_given_back(&v->win[0]));
        }
    }
    vm_start_queues(v);
    assert_int_equal(vm_create(v, 0), VGPU_S_OK);
    vm_as_guest(v, 0, &g);
    assert_int_equal(vm_ping(&g), 0);
}

static void test_qemu_ends_and_returns(void **state)
{
    struct vm *v = *state;

    assert_int_equal(vm_create(v, 0), VGPU_S_OK);
    pid_t w = worker_of_client(v->b.pid);
    assert_true(w > 0);
    vgb_close(&v->sock);
    assert_true(gone_within(w, 3000));
    assert_int_equal(vm_connect(v), 0);
    vm_negotiate(v);
    vm_start_queues(v);
    assert_int_equal(vm_create(v, 0), VGPU_S_OK);
}

static void test_garbage(void **state)
{
    struct vm *v = *state;
    struct brk_vu_payload_state bad = {200, 16};
    uint64_t kick = 1;
    struct brk_vu_payload_mem mem = {.nregions = 1, .regions = {{.size = 0x1000}}};
    char c;

    assert_int_equal(vm_acked(v, BRK_VU_SET_VRING_NUM, &bad, 8, NULL, 0), 1);
    bad.index = 0;
    bad.num = 3; /* not a power of two */
    assert_int_equal(vm_acked(v, BRK_VU_SET_VRING_NUM, &bad, 8, NULL, 0), 1);
    assert_int_equal(vm_acked(v, BRK_VU_SET_VRING_KICK, &kick, 8, NULL, 0), 1);
    assert_int_equal(vm_acked(v, BRK_VU_SET_MEM_TABLE, &mem, 8 + 32, NULL, 0), 1);
    assert_int_equal(vm_send_msg(v, 77, NULL, 0, NULL, 0, 0), 0);
    struct pollfd p = {.fd = v->sock, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 60000), 1);
    assert_int_equal(recv(v->sock, &c, 1, 0), 0); /* closed: not understood */
    vgb_close(&v->sock);
    assert_int_equal(vm_connect(v), 0);
    vm_negotiate(v);
}

static unsigned descriptors_of(pid_t pid)
{
    char path[64];
    unsigned n = 0;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *d = opendir(path);
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

/* A request in pieces, each with as many descriptors as a whole one may have: none is kept, none of the broker's closed. */
static void test_too_many_descriptors(void **state)
{
    struct vm *v = *state;
    struct brk_vu_header h = {.request = BRK_VU_SET_MEM_TABLE,
                              .flags = 1 | BRK_VU_FLAG_NEED_REPLY,
                              .size = 8 + 32 * BRK_VU_REGIONS};
    uint32_t words[2 + 8 * BRK_VU_REGIONS];
    int fds[BRK_VU_REGIONS];
    unsigned before = descriptors_of(v->b.pid);

    for (unsigned i = 0; i < BRK_VU_REGIONS; i++)
        fds[i] = v->ram_fd;
    for (unsigned i = 0; i < sizeof(words) / 4; i++)
        words[i] = i ? 3 + i % 40 : BRK_VU_REGIONS; /* numbers that the broker's own may have */
    for (unsigned round = 0; round < 20; round++) {
        uint64_t refused = 0;

        assert_int_equal(vgb_send_fds(v->sock, &h, 12, fds, BRK_VU_REGIONS, 0), 12);
        assert_int_equal(vgb_send_fds(v->sock, words, sizeof(words), fds, round % BRK_VU_REGIONS + 1, 0),
                         sizeof(words));
        assert_int_equal(vm_get_reply(v, &refused, sizeof(refused)), 1);
    }
    /* Threads close them; workers come and go meanwhile. */
    for (int i = 0; i < 3000 && descriptors_of(v->b.pid) > before + 19; i++)
        usleep(10000);
    assert_uint_in_range(descriptors_of(v->b.pid), 5, before + 19);
    vgb_close(&v->sock); /* the memory that it had is gone with the refused table */
    assert_int_equal(vm_connect(v), 0);
    vm_negotiate(v);
    vm_start_queues(v);
    assert_int_equal(vm_create(v, 0), VGPU_S_OK);
}

/* The memory of the windows came first: a configuration that needs more of it is refused as the other way round. */
static void test_config_after_windows(void **state)
{
    struct vm *v = *state;

    assert_int_equal(vm_set_windows(v, CLIENTS, WINDOW), 0);
    assert_int_equal(vm_set_windows(v, CLIENTS + 1, WINDOW), 1);
    assert_int_equal(vm_set_windows(v, CLIENTS, 2 * WINDOW), 1);
    assert_int_equal(vm_set_windows(v, 1, 2 * WINDOW), 0); /* as much */
    assert_int_equal(vm_set_windows(v, CLIENTS, WINDOW), 0);
    assert_int_equal(vm_create(v, CLIENTS - 1), VGPU_S_OK);
}

/* ---- limits changed while QEMU runs ---- */

/* The configuration of a QEMU whose properties set these quotas. */
static void set_quotas(struct vm *v, uint64_t vram, uint64_t pins)
{
    struct brk_vu_payload_config c = {.size = sizeof(struct vgpu_config)};
    struct vgpu_config config;

    assert_int_equal(vm_send_msg(v, BRK_VU_GET_CONFIG, &c, 12 + c.size, NULL, 0, 0), 0);
    vm_get_reply(v, &c, sizeof(c));
    memcpy(&config, c.data, sizeof(config));
    config.max_clients = CLIENTS;
    config.window_size = WINDOW;
    config.vram_quota = vram;
    config.pin_quota = pins;
    memcpy(c.data, &config, sizeof(config));
    assert_int_equal(vm_acked(v, BRK_VU_SET_CONFIG, &c, 12 + c.size, NULL, 0), 0);
}

/* Whether a client gets so much device memory and so many pinned bytes. */
static void look_at_quotas(struct vm *v, uint64_t vram, bool has_vram, uint64_t pins, bool has_pins)
{
    struct {
        struct vgpu_cmd_pin pin;
        struct vgpu_pin_run run;
    } q = {
        .pin = {.hdr = {.type = VGPU_CMD_PIN}, .region = 9, .va = 0x7f1200000000, .length = pins, .nruns = 1},
        .run = {RAM_GPA + 0x200000, pins}};
    struct guest g;
    uint64_t dptr;

    assert_int_equal(vm_create(v, 0), VGPU_S_OK);
    assert_int_equal(vm_control(v, &q, sizeof(q), NULL), has_pins ? VGPU_S_OK : VGPU_S_QUOTA);
    vm_as_guest(v, 0, &g);
    assert_int_equal(guest_context(&g), 0);
    assert_int_equal(guest_alloc(&g, vram, &dptr), has_vram ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(vm_destroy(v, 0), VGPU_S_OK);
}

/* Each quota set at run time stays for the next QEMU, whose properties say what they said before. */
static void test_changed_quotas_stay(void **state)
{
    static const char *const set[] = {"set vram-quota 64M", "set pin-quota 1M"};
    char control[120] = "/tmp/vgb-control-XXXXXX";
    const char *extra[] = {"--vhost-user", "SOCKET", "--log", "/dev/null", "--control", control, NULL};
    struct vm v = {.sock = -1};

    (void)state;
    assert_non_null(mkdtemp(control));
    strcat(control, "/c");
    assert_int_equal(vm_open(&v, extra), 0);
    set_quotas(&v, 8 << 20, 64 << 10);
    look_at_quotas(&v, 16 << 20, false, 128 << 10, false);
    for (unsigned changed = 1; changed <= 2; changed++) {
        assert_string_equal(control_ask(control, set[changed - 1], strlen(set[changed - 1])), "ok\n");
        for (unsigned life = 0; life < 2; life++) {
            look_at_quotas(&v, 16 << 20, true, 128 << 10, changed == 2);
            vgb_close(&v.sock);
            assert_int_equal(vm_connect(&v), 0);
            vm_negotiate(&v);
            vm_start_queues(&v);
            set_quotas(&v, 8 << 20, 64 << 10);
        }
        look_at_quotas(&v, 16 << 20, true, 128 << 10, changed == 2);
    }
    assert_int_equal(vm_close(&v), 0);
    *strrchr(control, '/') = '\0';
    assert_int_equal(rmdir(control), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, vm_setup, vm_teardown)
    const struct CMUnitTest tests[] = {
        T(test_config_after_windows),
        T(test_life_of_a_client),
        T(test_bad_requests),
        T(test_pin),
        T(test_events),
        T(test_pin_many_runs),
        T(test_unpin_crosses_pin),
        T(test_runs_without_end),
        T(test_reset_ends_clients),
        T(test_qemu_ends_and_returns),
        T(test_garbage),
        T(test_too_many_descriptors),
        cmocka_unit_test(test_changed_quotas_stay),
    };

    return cmocka_run_group_tests_name("vhost-user", tests, NULL, NULL);
}
