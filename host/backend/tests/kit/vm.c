/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "vm.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
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

#include "vgb_fd.h"
#include "vgp_calls.h"

int vm_send_msg(struct vm *v, uint32_t request, const void *p, uint32_t size, const int *fds, unsigned nfds,
                uint32_t flags)
{
    uint8_t buf[600];
    struct brk_vu_header h = {.request = request, .flags = 1 | flags, .size = size};

    memcpy(buf, &h, sizeof(h));
    if (size)
        memcpy(buf + sizeof(h), p, size);
    return vgb_send_fds(v->sock, buf, sizeof(h) + size, fds, nfds, 0) == (ssize_t)(sizeof(h) + size) ? 0 : -1;
}

/* Reads an answer; its payload's first u64, or UINT64_MAX. */
uint64_t vm_get_reply(struct vm *v, void *payload, uint32_t size)
{
    struct brk_vu_header h;
    struct pollfd p = {.fd = v->sock, .events = POLLIN};

    if (poll(&p, 1, 20000) != 1 || recv(v->sock, &h, sizeof(h), MSG_WAITALL) != sizeof(h) || h.size > size ||
        !(h.flags & BRK_VU_FLAG_REPLY))
        return UINT64_MAX;
    if (h.size && recv(v->sock, payload, h.size, MSG_WAITALL) != (ssize_t)h.size)
        return UINT64_MAX;
    uint64_t n = 0;
    memcpy(&n, payload, h.size < 8 ? h.size : 8);
    return n;
}

/* With REPLY_ACK: 0 when it was accepted. */
uint64_t vm_acked(struct vm *v, uint32_t request, const void *p, uint32_t size, const int *fds, unsigned nfds)
{
    uint64_t r;

    if (vm_send_msg(v, request, p, size, fds, nfds, BRK_VU_FLAG_NEED_REPLY))
        return UINT64_MAX;
    return vm_get_reply(v, &r, sizeof(r));
}

uint64_t vm_ask(struct vm *v, uint32_t request)
{
    uint64_t r;

    return vm_send_msg(v, request, NULL, 0, NULL, 0, 0) ? UINT64_MAX : vm_get_reply(v, &r, sizeof(r));
}

int vm_connect(struct vm *v)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    snprintf(a.sun_path, sizeof(a.sun_path), "%s", v->b.sock);
    v->sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return connect(v->sock, (struct sockaddr *)&a, sizeof(a));
}

void vm_negotiate(struct vm *v)
{
    struct brk_vu_payload_config c = {.size = sizeof(struct vgpu_config)};
    struct vgpu_config config;
    uint64_t f, pf;

    f = vm_ask(v, BRK_VU_GET_FEATURES);
    assert_true(f >> BRK_VU_F_VERSION_1 & 1 && f >> BRK_VU_F_PROTOCOL_FEATURES & 1 && f >> VGPU_F_PIN & 1);
    pf = vm_ask(v, BRK_VU_GET_PROTOCOL_FEATURES);
    assert_true(pf >> BRK_VU_PF_CONFIG & 1 && pf >> BRK_VU_PF_MQ & 1 && pf >> BRK_VU_PF_REPLY_ACK & 1);
    assert_int_equal(vm_send_msg(v, BRK_VU_SET_PROTOCOL_FEATURES, &pf, 8, NULL, 0, 0), 0);
    assert_int_equal(vm_acked(v, BRK_VU_SET_OWNER, NULL, 0, NULL, 0), 0);
    assert_int_equal(vm_ask(v, BRK_VU_GET_QUEUE_NUM), 66);
    assert_int_equal(vm_send_msg(v, BRK_VU_GET_CONFIG, &c, 12 + c.size, NULL, 0, 0), 0);
    vm_get_reply(v, &c, sizeof(c));
    memcpy(&config, c.data, sizeof(config));
    assert_int_equal(config.magic, VGPU_CONFIG_MAGIC);
    assert_int_equal(config.max_clients, 64);
    config.max_clients = 65;
    memcpy(c.data, &config, sizeof(config));
    assert_int_equal(vm_acked(v, BRK_VU_SET_CONFIG, &c, 12 + c.size, NULL, 0), 1);
    config.max_clients = CLIENTS;
    config.window_size = WINDOW;
    memcpy(c.data, &config, sizeof(config));
    assert_int_equal(vm_acked(v, BRK_VU_SET_CONFIG, &c, 12 + c.size, NULL, 0), 0);
    f &= UINT64_C(1) << BRK_VU_F_VERSION_1 | UINT64_C(1) << BRK_VU_F_PROTOCOL_FEATURES | 1;
    assert_int_equal(vm_acked(v, BRK_VU_SET_FEATURES, &f, 8, NULL, 0), 0);
}

uint64_t vm_set_windows(struct vm *v, uint32_t clients, uint64_t size)
{
    struct brk_vu_payload_config c = {.size = sizeof(struct vgpu_config)};
    struct vgpu_config config;

    assert_int_equal(vm_send_msg(v, BRK_VU_GET_CONFIG, &c, 12 + c.size, NULL, 0, 0), 0);
    vm_get_reply(v, &c, sizeof(c));
    memcpy(&config, c.data, sizeof(config));
    config.max_clients = clients;
    config.window_size = size;
    memcpy(c.data, &config, sizeof(config));
    return vm_acked(v, BRK_VU_SET_CONFIG, &c, 12 + c.size, NULL, 0);
}

void vm_start_queues(struct vm *v)
{
    struct brk_vu_payload_mem mem = {
        .nregions = v->win_fd < 0 ? 1 : 2,
        .regions = {{.gpa = RAM_GPA, .size = RAM_SIZE, .uva = RAM_UVA},
                    {.gpa = 0x100000000, .size = WINDOW * CLIENTS, .uva = RAM_UVA + (1u << 30)}}};
    int fds[2] = {v->ram_fd, v->win_fd};

    assert_int_equal(vm_acked(v, BRK_VU_SET_MEM_TABLE, &mem, 8 + 32 * mem.nregions, fds, mem.nregions), 0);
    memset(v->ram, 0, 0x100000);
    for (uint32_t q = 0; q < 2 + CLIENTS; q++) {
        struct brk_vu_payload_state num = {q, NUM}, base = {q, 0}, on = {q, 1};
        uint64_t at = RAM_UVA + q * 0x4000, fd = q;
        struct brk_vu_payload_addr addr = {.index = q, .desc = at, .avail = at + 0x1000, .used = at + 0x2000};

        assert_int_equal(vm_acked(v, BRK_VU_SET_VRING_NUM, &num, 8, NULL, 0), 0);
        assert_int_equal(vm_acked(v, BRK_VU_SET_VRING_BASE, &base, 8, NULL, 0), 0);
        assert_int_equal(vm_acked(v, BRK_VU_SET_VRING_ADDR, &addr, 40, NULL, 0), 0);
        assert_int_equal(vm_acked(v, BRK_VU_SET_VRING_KICK, &fd, 8, &v->kick[q], 1), 0);
        if (q < 2)
            assert_int_equal(vm_acked(v, BRK_VU_SET_VRING_CALL, &fd, 8, &v->call[q], 1), 0);
        assert_int_equal(vm_acked(v, BRK_VU_SET_VRING_ENABLE, &on, 8, NULL, 0), 0);
    }
    v->seen[0] = v->seen[1] = 0;
}

int vm_memfd(const char *name, uint64_t size, uint8_t **p)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || ftruncate(fd, (off_t)size))
        return -1;
    if (strstr(name, "windows") && fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL))
        return -1;
    *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return *p == MAP_FAILED ? -1 : fd;
}

int vm_open(struct vm *v, const char *const *extra)
{
    return broker_start(&v->b, extra) || vm_connect(v) ? -1 : vm_run(v);
}

int vm_run(struct vm *v)
{
    v->ram_fd = vm_memfd("ram", RAM_SIZE, &v->ram);
    v->win_fd = vm_memfd("vgpu-windows", WINDOW * CLIENTS, &v->win);
    for (unsigned i = 0; i < 2 + CLIENTS; i++)
        v->kick[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    v->call[0] = eventfd(0, EFD_CLOEXEC);
    v->call[1] = eventfd(0, EFD_CLOEXEC);
    vm_negotiate(v);
    vm_start_queues(v);
    return 0;
}

int vm_setup(void **state)
{
    /* What is refused on purpose is logged as an error, as it should. */
    static const char *const extra[] = {"--vhost-user", "SOCKET", "--log", "/dev/null", NULL};
    struct vm *v = calloc(1, sizeof(*v));

    *state = v;
    return vm_open(v, extra);
}

int vm_teardown(void **state)
{
    struct vm *v = *state;
    int r = vm_close(v);

    free(v);
    return r;
}

int vm_close(struct vm *v)
{
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
    return r;
}

void vm_queue_post(struct vm *v, unsigned q, uint16_t head)
{
    uint16_t *avail = (void *)(v->ram + q * 0x4000 + 0x1000);

    avail[2 + avail[1] % NUM] = head;
    __atomic_store_n(&avail[1], (uint16_t)(avail[1] + 1), __ATOMIC_RELEASE);
    vgb_eventfd_signal(v->kick[q]);
}

/* Waits for one more used entry of a queue; its length, or -1. */
int vm_queue_wait(struct vm *v, unsigned q, int ms, uint32_t *id)
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
int vm_control(struct vm *v, const void *request, uint32_t size, uint64_t *va)
{
    struct vring_desc *d = (void *)v->ram;
    struct vgpu_resp_pin r;

    memcpy(v->ram + REQUEST, request, size);
    memset(v->ram + RESPONSE, 0xff, sizeof(r));
    d[0] = (struct vring_desc){RAM_GPA + REQUEST, size, 1, 1};
    d[1] = (struct vring_desc){RAM_GPA + RESPONSE, sizeof(r), 2, 0};
    vm_queue_post(v, 0, 0);
    int n = vm_queue_wait(v, 0, v->wait_ms ? v->wait_ms : 20000, NULL);
    if (n <= 0)
        return n ? -1 : -2;
    memcpy(&r, v->ram + RESPONSE, sizeof(r));
    if (va)
        *va = r.worker_va;
    return (int)r.hdr.status;
}

int vm_create(struct vm *v, uint32_t slot)
{
    struct vgpu_cmd_client_create c = {.hdr = {.type = VGPU_CMD_CLIENT_CREATE, .client = slot},
                                       .label = "test"};

    return vm_control(v, &c, sizeof(c), NULL);
}

int vm_destroy(struct vm *v, uint32_t slot)
{
    struct vgpu_cmd_client_destroy c = {.hdr = {.type = VGPU_CMD_CLIENT_DESTROY, .client = slot}};

    return vm_control(v, &c, sizeof(c), NULL);
}

/* The window of a slot, as libcuda sees it. */
void vm_as_guest(struct vm *v, unsigned slot, struct guest *g)
{
    memset(g, 0, sizeof(*g));
    g->win = v->win + slot * WINDOW;
    g->s = (void *)g->win;
    g->window_size = WINDOW;
    g->doorbell = v->kick[2 + slot];
    g->sock = g->memfd = -1;
}

int vm_ping(struct guest *g)
{
    struct vgp_args_vgpPing a = {.value = 5};

    return guest_call(g, VGP_vgpPing, &a, sizeof(a), NULL, NULL);
}

bool vm_given_back(const uint8_t *byte)
{
    for (int i = 0; i < 30000 && __atomic_load_n(byte, __ATOMIC_RELAXED); i++)
        usleep(1000);
    return __atomic_load_n(byte, __ATOMIC_RELAXED) == 0;
}

void vm_post_event_buffer(struct vm *v, uint16_t i)
{
    struct vring_desc *d = (void *)(v->ram + 0x4000);

    d[i] = (struct vring_desc){RAM_GPA + EVENTS + i * 64, sizeof(struct vgpu_event), 2, 0};
    vm_queue_post(v, 1, i);
}

bool vm_wait_event(struct vm *v, struct vgpu_event *e, int ms)
{
    uint32_t id = 0;

    if (vm_queue_wait(v, 1, ms, &id) != sizeof(*e))
        return false;
    memcpy(e, v->ram + EVENTS + id * 64, sizeof(*e));
    return true;
}
