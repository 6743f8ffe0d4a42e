/* SPDX-License-Identifier: MIT */
/* A front end that knows nothing of vgpu-cuda: it asks for regions of shared memory, and maps what the broker sends. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "testprov.h"
#include "vgb_fd.h"
#include "vgp_calls.h"
#include "vm.h"

#define SIZE ((uint64_t)WINDOW * CLIENTS)

struct front {
    struct vm vm;     /* win: the mapping, NULL: there is none */
    int channel;      /* own end, -1: none */
    int theirs;       /* the broker's end, until it is sent */
    uint64_t missing; /* protocol features that this front end does not know */
};

/* What the broker asks for on its channel. */
struct request {
    struct brk_vu_header h;
    struct brk_vu_payload_mmap m;
    int fd;
};

static void channel_new(struct front *f)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    f->channel = pair[0];
    f->theirs = pair[1];
}

static uint64_t channel_give(struct front *f)
{
    uint64_t r = vm_acked(&f->vm, BRK_VU_SET_BACKEND_REQ_FD, NULL, 0, &f->theirs, 1);

    vgb_close(&f->theirs);
    return r;
}

static void negotiate(struct front *f)
{
    uint64_t features = UINT64_C(1) << BRK_VU_F_VERSION_1 | UINT64_C(1) << BRK_VU_F_PROTOCOL_FEATURES |
                        UINT64_C(1) << VGPU_F_PIN | UINT64_C(1) << VGPU_F_PING;
    uint64_t pf = vm_ask(&f->vm, BRK_VU_GET_PROTOCOL_FEATURES);

    assert_true(pf >> BRK_VU_PF_SHMEM & 1 && pf >> BRK_VU_PF_BACKEND_REQ & 1);
    pf &= ~f->missing;
    assert_int_equal(vm_send_msg(&f->vm, BRK_VU_SET_PROTOCOL_FEATURES, &pf, 8, NULL, 0, 0), 0);
    assert_int_equal(vm_ask(&f->vm, BRK_VU_GET_QUEUE_NUM), 2 + CLIENTS);
    assert_int_equal(vm_send_msg(&f->vm, BRK_VU_SET_FEATURES, &features, 8, NULL, 0, 0), 0);
}

/* Bytes of the region of the windows, which is the only one; 0: the connection is closed instead. */
static uint64_t regions(struct front *f)
{
    struct brk_vu_payload_shmem c = {0};

    assert_int_equal(vm_send_msg(&f->vm, BRK_VU_GET_SHMEM_CONFIG, NULL, 0, NULL, 0, 0), 0);
    if (vm_get_reply(&f->vm, &c, sizeof(c)) == UINT64_MAX)
        return 0;
    assert_int_equal(c.nregions, 1);
    for (unsigned i = 0; i < BRK_VU_SHMEM_REGIONS; i++)
        assert_true(i == VGPU_SHMID_WINDOWS || !c.sizes[i]);
    return c.sizes[VGPU_SHMID_WINDOWS];
}

/* Nothing comes for a while. */
static bool quiet(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 100) == 0;
}

static void expect(struct front *f, uint32_t request, struct request *r)
{
    struct pollfd p = {.fd = f->channel, .events = POLLIN};
    uint8_t buf[52];
    unsigned nfds = 1;

    r->fd = -1;
    assert_int_equal(poll(&p, 1, 5000), 1);
    assert_int_equal(vgb_recv_fds(f->channel, buf, sizeof(buf), &r->fd, &nfds, 0), sizeof(buf));
    memcpy(&r->h, buf, sizeof(r->h));
    memcpy(&r->m, buf + sizeof(r->h), sizeof(r->m));
    assert_int_equal(r->h.request, request);
    assert_int_equal(r->h.flags, 1 | BRK_VU_FLAG_NEED_REPLY);
    assert_int_equal(r->h.size, sizeof(r->m));
    assert_int_equal(nfds, request == BRK_VU_BACKEND_SHMEM_MAP);
    assert_int_equal(r->m.shmid, VGPU_SHMID_WINDOWS);
    assert_int_equal(r->m.shm_offset, 0);
    assert_int_equal(r->m.len, SIZE);
}

static void answer(struct front *f, uint32_t request, uint64_t value)
{
    uint8_t buf[20];
    struct brk_vu_header h = {.request = request, .flags = 1 | BRK_VU_FLAG_REPLY, .size = 8};

    memcpy(buf, &h, sizeof(h));
    memcpy(buf + sizeof(h), &value, sizeof(value));
    assert_int_equal(send(f->channel, buf, sizeof(buf), 0), sizeof(buf));
}

static void map_drop(struct front *f)
{
    if (f->vm.win)
        munmap(f->vm.win, SIZE);
    f->vm.win = NULL;
}

static void map(struct front *f, struct request *r)
{
    struct stat st;

    assert_int_equal(r->m.fd_offset, 0);
    assert_int_equal(r->m.flags, BRK_VU_SHMEM_WRITABLE);
    assert_int_equal(fstat(r->fd, &st), 0);
    assert_int_equal(st.st_size, SIZE);
    assert_int_equal(fcntl(r->fd, F_GET_SEALS), F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW);
    map_drop(f);
    f->vm.win = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
    assert_true(f->vm.win != MAP_FAILED);
}

/* Serves one SHMEM_MAP: status 0 maps. */
static void serve_map(struct front *f, uint64_t status)
{
    struct request r;

    expect(f, BRK_VU_BACKEND_SHMEM_MAP, &r);
    if (!status)
        map(f, &r);
    close(r.fd);
    answer(f, BRK_VU_BACKEND_SHMEM_MAP, status);
}

static void stop_queues(struct front *f)
{
    for (uint32_t q = 0; q < 2 + CLIENTS; q++) {
        struct brk_vu_payload_state off = {q, 0}, st;

        assert_int_equal(vm_acked(&f->vm, BRK_VU_SET_VRING_ENABLE, &off, 8, NULL, 0), 0);
        assert_int_equal(vm_send_msg(&f->vm, BRK_VU_GET_VRING_BASE, &off, 8, NULL, 0, 0), 0);
        assert_true(vm_get_reply(&f->vm, &st, sizeof(st)) != UINT64_MAX);
    }
}

static int device_ping(struct front *f)
{
    struct vgpu_cmd_hdr h = {.type = VGPU_CMD_PING};

    return vm_control(&f->vm, &h, sizeof(h), NULL);
}

/* A client that makes a call with device memory. */
static void use(struct front *f, unsigned slot)
{
    struct guest g;
    uint64_t dptr;

    assert_int_equal(vm_create(&f->vm, slot), VGPU_S_OK);
    vm_as_guest(&f->vm, slot, &g);
    assert_int_equal(vm_ping(&g), 0);
    assert_int_equal(guest_context(&g), 0);
    assert_int_equal(guest_alloc(&g, 64, &dptr), 0);
    assert_int_equal(guest_memset(&g, dptr, 0x5a, 64, 0), 0);
    struct vgp_args_vgpCopy c = {
        .dstKind = VGP_COPY_STAGING, .src = dptr, .widthBytes = 64, .when = VGP_WHEN_COMPLETE};
    assert_int_equal(guest_call(&g, VGP_vgpCopy, &c, sizeof(c), NULL, NULL), 0);
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(g.win[g.s->staging_offset + i], 0x5a);
    assert_int_equal(vm_destroy(&f->vm, slot), VGPU_S_OK);
    assert_true(vm_given_back(&g.win[0]));
}

static int setup(void **state)
{
    static const char *const extra[] = {"--vhost-user",  "SOCKET", "--log", "/dev/null", "--max-clients", "2",
                                        "--window-size", "4M",     NULL};
    struct front *f = calloc(1, sizeof(*f));
    struct vm *v = &f->vm;

    *state = f;
    f->channel = f->theirs = -1;
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
    struct front *f = *state;
    struct vm *v = &f->vm;

    vgb_close(&v->sock);
    vgb_close(&f->channel);
    vgb_close(&f->theirs);
    map_drop(f);
    int r = broker_stop(&v->b);
    munmap(v->ram, RAM_SIZE);
    for (unsigned i = 0; i < 2 + CLIENTS; i++)
        close(v->kick[i]);
    close(v->call[0]);
    close(v->call[1]);
    close(v->ram_fd);
    vgb_close(&v->win_fd);
    free(f);
    return r;
}

/* As far as the driver's start; what the broker sends then is not read. */
static void begin(struct front *f)
{
    negotiate(f);
    assert_int_equal(regions(f), SIZE);
    channel_new(f);
    assert_int_equal(channel_give(f), 0);
    vm_start_queues(&f->vm);
}

static void test_windows(void **state)
{
    struct front *f = *state;
    struct request r;

    negotiate(f);
    channel_new(f);
    assert_int_equal(channel_give(f), 0);
    assert_int_equal(regions(f), SIZE);
    assert_int_equal(regions(f), SIZE);
    assert_true(quiet(f->channel)); /* QEMU has no device for a message before the driver starts it */
    vm_start_queues(&f->vm);
    expect(f, BRK_VU_BACKEND_SHMEM_MAP, &r);
    map(f, &r);
    answer(f, BRK_VU_BACKEND_SHMEM_MAP, 0);
    use(f, 0);
    use(f, 1);
    /* QEMU's memory table has the windows from now on. They are no memory of the guest. */
    f->vm.win_fd = r.fd;
    struct brk_vu_payload_mem mem = {
        .nregions = 2,
        .regions = {{.gpa = RAM_GPA, .size = RAM_SIZE, .uva = RAM_UVA},
                    {.gpa = 0x100000000, .size = SIZE, .uva = RAM_UVA + (1u << 30)}}};
    int fds[2] = {f->vm.ram_fd, f->vm.win_fd};
    assert_int_equal(vm_acked(&f->vm, BRK_VU_SET_MEM_TABLE, &mem, 8 + 64, fds, 2), 0);
    struct {
        struct vgpu_cmd_pin pin;
        struct vgpu_pin_run run;
    } q = {.pin = {.hdr = {.type = VGPU_CMD_PIN},
                   .region = 1,
                   .va = 0x7f1200000000,
                   .length = 0x1000,
                   .nruns = 1},
           .run = {0x100000000, 0x1000}};
    assert_int_equal(vm_create(&f->vm, 0), VGPU_S_OK);
    assert_int_equal(vm_control(&f->vm, &q, sizeof(q), NULL), VGPU_S_INVALID);
    q.run.addr = RAM_GPA + 0x200000;
    assert_int_equal(vm_control(&f->vm, &q, sizeof(q), NULL), VGPU_S_OK);
    assert_int_equal(vm_destroy(&f->vm, 0), VGPU_S_OK);
    use(f, 0);
    assert_true(quiet(f->channel));
}

/* What the guest writes into a configuration space that the front end passes on: the windows stay enough. */
static void test_config(void **state)
{
    struct front *f = *state;
    struct brk_vu_payload_config c = {.size = sizeof(struct vgpu_config)};
    struct vgpu_config config;

    begin(f);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(vm_send_msg(&f->vm, BRK_VU_GET_CONFIG, &c, 12 + c.size, NULL, 0, 0), 0);
        vm_get_reply(&f->vm, &c, sizeof(c));
        memcpy(&config, c.data, sizeof(config));
        assert_int_equal(config.max_clients, CLIENTS);
        assert_int_equal(config.window_size, WINDOW);
        config.window_size = 2 * WINDOW;
        memcpy(c.data, &config, sizeof(config));
        assert_int_equal(vm_acked(&f->vm, BRK_VU_SET_CONFIG, &c, 12 + c.size, NULL, 0), 1);
        if (!i)
            serve_map(f, 0);
    }
    use(f, 1);
}

/* The guest is faster than the front end: its request waits. */
static void test_create_before_the_map(void **state)
{
    struct front *f = *state;
    struct vgpu_cmd_client_create c = {.hdr = {.type = VGPU_CMD_CLIENT_CREATE}};
    struct vring_desc *d = (void *)f->vm.ram;
    struct vgpu_resp_hdr r;

    begin(f);
    memcpy(f->vm.ram + REQUEST, &c, sizeof(c));
    d[0] = (struct vring_desc){RAM_GPA + REQUEST, sizeof(c), 1, 1};
    d[1] = (struct vring_desc){RAM_GPA + RESPONSE, sizeof(r), 2, 0};
    vm_queue_post(&f->vm, 0, 0);
    assert_true(quiet(f->vm.call[0]));
    serve_map(f, 0);
    assert_true(vm_queue_wait(&f->vm, 0, 5000, NULL) > 0);
    memcpy(&r, f->vm.ram + RESPONSE, sizeof(r));
    assert_int_equal(r.status, VGPU_S_OK);
    assert_int_equal(vm_destroy(&f->vm, 0), VGPU_S_OK);
    use(f, 0);
}

/* A reset drops the mapping, with a new start it is asked for again; what was refused once, too. */
static void test_reset(void **state)
{
    struct front *f = *state;

    begin(f);
    serve_map(f, 0);
    assert_int_equal(vm_create(&f->vm, 0), VGPU_S_OK);
    stop_queues(f);
    assert_int_equal(worker_of_client(f->vm.b.pid), 0);
    assert_true(quiet(f->channel)); /* also no SHMEM_UNMAP: QEMU would fall over it */
    map_drop(f);
    vm_start_queues(&f->vm);
    serve_map(f, 0);
    use(f, 0);
}

/* The device stops before the answer, which comes before the next start, or after it. */
static void test_stop_early(void **state)
{
    struct front *f = *state;
    struct request r;

    begin(f);
    expect(f, BRK_VU_BACKEND_SHMEM_MAP, &r);
    stop_queues(f);
    map(f, &r);
    close(r.fd);
    answer(f, BRK_VU_BACKEND_SHMEM_MAP, 0);
    assert_true(quiet(f->channel));
    vm_start_queues(&f->vm);
    expect(f, BRK_VU_BACKEND_SHMEM_MAP, &r);
    close(r.fd);
    stop_queues(f);
    vm_start_queues(&f->vm);
    assert_true(quiet(f->channel)); /* one question at a time */
    answer(f, BRK_VU_BACKEND_SHMEM_MAP, 0);
    serve_map(f, 1); /* a pause has kept it */
    expect(f, BRK_VU_BACKEND_SHMEM_UNMAP, &r);
    answer(f, BRK_VU_BACKEND_SHMEM_UNMAP, 0);
    serve_map(f, 0);
    use(f, 1);
}

static void test_refused(void **state)
{
    struct front *f = *state;

    begin(f);
    serve_map(f, 1);
    assert_int_equal(device_ping(f), VGPU_S_OK);
    assert_int_equal(vm_create(&f->vm, 0), VGPU_S_INVALID);
    assert_true(quiet(f->channel)); /* once */
    stop_queues(f);
    vm_start_queues(&f->vm);
    serve_map(f, 0);
    use(f, 0);
}

/* A paused VM: the device stops and starts, and the mapping stays. */
static void test_pause(void **state)
{
    struct front *f = *state;
    struct request r;

    begin(f);
    serve_map(f, 0);
    use(f, 0);
    for (int i = 0; i < 2; i++) {
        stop_queues(f);
        vm_start_queues(&f->vm);
        serve_map(f, 1); /* it is mapped */
        expect(f, BRK_VU_BACKEND_SHMEM_UNMAP, &r);
        map_drop(f);
        answer(f, BRK_VU_BACKEND_SHMEM_UNMAP, 0);
        serve_map(f, 0);
        use(f, 1);
    }
    /* One that refuses everything from now on. */
    stop_queues(f);
    vm_start_queues(&f->vm);
    serve_map(f, 1);
    expect(f, BRK_VU_BACKEND_SHMEM_UNMAP, &r);
    answer(f, BRK_VU_BACKEND_SHMEM_UNMAP, 1);
    serve_map(f, 1);
    assert_int_equal(vm_create(&f->vm, 0), VGPU_S_INVALID);
    assert_true(quiet(f->channel));
}

/* No channel, one that is closed, and one that comes late. */
static void test_channel(void **state)
{
    struct front *f = *state;

    negotiate(f);
    assert_int_equal(regions(f), SIZE);
    vm_start_queues(&f->vm);
    assert_int_equal(vm_create(&f->vm, 0), VGPU_S_INVALID);
    channel_new(f);
    vgb_close(&f->channel);
    assert_int_equal(channel_give(f), 0);
    assert_int_equal(vm_create(&f->vm, 0), VGPU_S_INVALID);
    channel_new(f);
    assert_int_equal(channel_give(f), 0);
    vgb_close(&f->channel); /* with a message in it */
    channel_new(f);
    assert_int_equal(channel_give(f), 0);
    serve_map(f, 0);
    use(f, 0);
    vgb_close(&f->channel); /* its work is done */
    use(f, 1);
    assert_int_equal(device_ping(f), VGPU_S_OK);
}

/* An answer that never comes: the guest's request is refused in time, and the channel is given up. */
static void test_silent(void **state)
{
    struct front *f = *state;
    struct request r;
    char c;

    begin(f);
    f->vm.wait_ms = 10000; /* as long as the guest's driver has patience */
    assert_int_equal(vm_create(&f->vm, 0), VGPU_S_INVALID);
    f->vm.wait_ms = 0;
    expect(f, BRK_VU_BACKEND_SHMEM_MAP, &r);
    close(r.fd);
    assert_int_equal(recv(f->channel, &c, 1, 0), 0);
    assert_int_equal(device_ping(f), VGPU_S_OK);
    vgb_close(&f->channel);
    channel_new(f);
    assert_int_equal(channel_give(f), 0);
    serve_map(f, 0);
    use(f, 0);
}

/* Answers that are none: the channel is closed, and the device goes on. */
static void test_malformed(void **state)
{
    static const struct brk_vu_header bad[] = {
        {.request = BRK_VU_BACKEND_SHMEM_UNMAP, .flags = 1 | BRK_VU_FLAG_REPLY, .size = 8},
        {.request = BRK_VU_BACKEND_SHMEM_MAP, .flags = 1, .size = 8},
        {.request = BRK_VU_BACKEND_SHMEM_MAP, .flags = 2 | BRK_VU_FLAG_REPLY, .size = 8},
        {.request = BRK_VU_BACKEND_SHMEM_MAP, .flags = 1 | BRK_VU_FLAG_REPLY, .size = 0xffffffff},
        {.request = BRK_VU_BACKEND_SHMEM_MAP, .flags = 1 | BRK_VU_FLAG_REPLY, .size = 0},
    };
    struct front *f = *state;
    struct request r;
    uint8_t buf[20] = {0};
    char c;

    begin(f);
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int fds[BRK_VU_REGIONS + 1];

        expect(f, BRK_VU_BACKEND_SHMEM_MAP, &r);
        memcpy(buf, &bad[i], sizeof(bad[i]));
        for (unsigned k = 0; k < BRK_VU_REGIONS + 1; k++)
            fds[k] = r.fd;
        assert_int_equal(vgb_send_fds(f->channel, buf, 7, fds, i, 0), 7);
        assert_int_equal(vgb_send_fds(f->channel, buf + 7, 13, fds, 2 * i, 0), 13);
        close(r.fd);
        assert_int_equal(recv(f->channel, &c, 1, 0), 0);
        assert_int_equal(vm_create(&f->vm, 0), VGPU_S_INVALID);
        vgb_close(&f->channel);
        channel_new(f);
        assert_int_equal(channel_give(f), 0);
    }
    serve_map(f, 0);
    use(f, 0);
}

/* An answer in pieces, and one that nobody has asked for. */
static void test_pieces(void **state)
{
    struct front *f = *state;
    struct brk_vu_header h = {.request = BRK_VU_BACKEND_SHMEM_MAP, .flags = 1 | BRK_VU_FLAG_REPLY, .size = 8};
    uint8_t buf[20] = {0};
    struct request r;

    begin(f);
    expect(f, BRK_VU_BACKEND_SHMEM_MAP, &r);
    map(f, &r);
    close(r.fd);
    memcpy(buf, &h, sizeof(h));
    for (unsigned i = 0; i < sizeof(buf); i++)
        assert_int_equal(send(f->channel, buf + i, 1, 0), 1);
    use(f, 0);
    answer(f, BRK_VU_BACKEND_SHMEM_MAP, 1);
    use(f, 1);
}

/* What a front end may not do, on a new connection each. */
static void again(struct front *f, uint64_t missing)
{
    vgb_close(&f->vm.sock);
    assert_int_equal(vm_connect(&f->vm), 0);
    f->missing = missing;
    negotiate(f);
}

static void test_order(void **state)
{
    struct front *f = *state;
    int file = memfd_create("no socket", MFD_CLOEXEC), packets[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, packets), 0);
    assert_int_equal(regions(f), 0); /* nothing is negotiated */
    again(f, UINT64_C(1) << BRK_VU_PF_SHMEM);
    assert_int_equal(regions(f), 0);
    again(f, UINT64_C(1) << BRK_VU_PF_BACKEND_REQ);
    assert_int_equal(vm_acked(&f->vm, BRK_VU_SET_BACKEND_REQ_FD, NULL, 0, &file, 1), 1);
    assert_int_equal(regions(f), 0);
    again(f, UINT64_C(1) << BRK_VU_PF_REPLY_ACK);
    assert_int_equal(regions(f), 0);
    again(f, 0);
    assert_int_equal(vm_acked(&f->vm, BRK_VU_SET_BACKEND_REQ_FD, NULL, 0, &file, 1), 1);
    assert_int_equal(vm_acked(&f->vm, BRK_VU_SET_BACKEND_REQ_FD, NULL, 0, packets, 1), 1);
    close(file);
    close(packets[0]);
    close(packets[1]);
    /* Windows of both kinds. */
    uint8_t *p;
    f->vm.win_fd = vm_memfd("vgpu-windows", SIZE, &p);
    munmap(p, SIZE);
    vm_start_queues(&f->vm);
    assert_int_equal(vm_create(&f->vm, 0), VGPU_S_OK);
    assert_int_equal(vm_destroy(&f->vm, 0), VGPU_S_OK);
    assert_int_equal(regions(f), 0);
    vgb_close(&f->vm.win_fd);
    again(f, 0);
    assert_int_equal(regions(f), SIZE);
    channel_new(f);
    assert_int_equal(channel_give(f), 0);
    vm_start_queues(&f->vm);
    serve_map(f, 0);
    use(f, 0);
}

/* QEMU with a vgpu-cuda device, since it knows the messages: it never asks, and nothing is sent to it. */
static void test_never_asked(void **state)
{
    struct front *f = *state;

    negotiate(f);
    channel_new(f);
    assert_int_equal(channel_give(f), 0);
    f->vm.win_fd = vm_memfd("vgpu-windows", SIZE, &f->vm.win);
    vm_start_queues(&f->vm);
    use(f, 0);
    assert_true(quiet(f->channel));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_windows),    T(test_config),  T(test_create_before_the_map),
        T(test_reset),      T(test_refused), T(test_pause),
        T(test_channel),    T(test_silent),  T(test_malformed),
        T(test_pieces),     T(test_order),   T(test_never_asked),
        T(test_stop_early),
    };

    return cmocka_run_group_tests_name("vhost-shmem", tests, NULL, NULL);
}
