/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "guest.h"
#include "testprov.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cuda.h>

#include "vgb_fd.h"
#include "vgb_log.h"
#include "vgp_calls.h"
#include "vgp_sock.h"

int guest_connect(struct guest *g, const char *path, const char *label)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct vgp_sock_hello hello = {
        .type = VGP_SOCK_HELLO, .version_major = VGP_VERSION_MAJOR, .version_minor = VGP_VERSION_MINOR};
    union {
        struct vgp_sock_welcome w;
        struct vgp_sock_refused r;
    } m;
    int fds[4];
    unsigned nfds = 4;

    memset(g, 0, sizeof(*g));
    g->sock = g->doorbell = g->memfd = -1;
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    snprintf(hello.label, sizeof(hello.label), "%s", label);
    g->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connect(g->sock, (struct sockaddr *)&a, sizeof(a)) ||
        send(g->sock, &hello, sizeof(hello), MSG_NOSIGNAL) < 0)
        return -1;
    ssize_t n = vgb_recv_fds(g->sock, &m, sizeof(m), fds, &nfds, 0);
    if (n != sizeof(m.w) || m.w.type != VGP_SOCK_WELCOME || nfds != 2) {
        if (n == sizeof(m.r))
            memcpy(g->refused, m.r.text, sizeof(g->refused));
        return -1;
    }
    g->memfd = fds[0];
    g->doorbell = fds[1];
    g->window_size = m.w.window_size;
    g->win = mmap(NULL, g->window_size, PROT_READ | PROT_WRITE, MAP_SHARED, g->memfd, 0);
    g->s = (void *)g->win;
    return g->win == MAP_FAILED || g->s->magic != VGP_MAGIC ? -1 : 0;
}

void guest_close(struct guest *g)
{
    if (g->win)
        munmap(g->win, g->window_size);
    vgb_close(&g->sock);
    vgb_close(&g->doorbell);
    vgb_close(&g->memfd);
    g->win = NULL;
}

static void publish(struct guest *g, uint32_t size)
{
    g->tail += size;
    if (g->batch)
        return;
    __atomic_store_n(&g->s->ring_tail, g->tail, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&g->s->worker_state, __ATOMIC_RELAXED) == VGP_WORKER_IDLE)
        vgb_eventfd_signal(g->doorbell);
}

void guest_raw(struct guest *g, const void *bytes, uint32_t size)
{
    memcpy(g->win + g->s->ring_offset + (g->tail & (g->s->ring_size - 1)), bytes, size);
    publish(g, size);
}

void guest_submit(struct guest *g, uint16_t call, uint32_t slot, const void *args, uint32_t size,
                  const void *var, uint32_t var_size)
{
    uint32_t total = (uint32_t)sizeof(struct vgp_record) + size + ((var_size + 7) & ~7u);
    total = (total + 15) & ~15u;
    uint64_t pos = g->tail & (g->s->ring_size - 1);
    uint64_t room = g->s->ring_size - pos;
    uint8_t *ring = g->win + g->s->ring_offset;

    while (g->tail + total + VGP_RECORD_MAX - __atomic_load_n(&g->s->ring_head, __ATOMIC_ACQUIRE) >
           g->s->ring_size)
        usleep(50);
    if (room < total) {
        struct vgp_record pad = {.size = (uint32_t)room, .call = VGP_CALL_PAD};

        memcpy(ring + pos, &pad, room < sizeof(pad) ? room : sizeof(pad));
        g->tail += room;
        pos = 0;
    }
    struct vgp_record r = {
        .size = total, .call = call, .reply_slot = slot, .reply_seq = ++g->seq, .context = g->context};
    memset(ring + pos, 0, total);
    memcpy(ring + pos, &r, sizeof(r));
    memcpy(ring + pos + sizeof(r), args, size);
    if (var_size)
        memcpy(ring + pos + sizeof(r) + size, var, var_size);
    publish(g, total);
}

static bool sleep_once(struct guest *g, uint64_t end)
{
    uint64_t now = vgb_now_ns();
    uint32_t seq = __atomic_load_n(&g->s->wake_seq, __ATOMIC_SEQ_CST);
    struct timespec ts;

    if (now >= end)
        return false;
    __atomic_store_n(&g->s->guest_sleeps, 1, __ATOMIC_SEQ_CST);
    ts.tv_sec = (time_t)((end - now) / 1000000000u);
    ts.tv_nsec = (long)((end - now) % 1000000000u);
    if (ts.tv_sec || ts.tv_nsec > 20000000) { /* short sleeps: the condition is looked at again */
        ts.tv_sec = 0;
        ts.tv_nsec = 20000000;
    }
    syscall(SYS_futex, &g->s->wake_seq, FUTEX_WAIT, seq, &ts, NULL, 0);
    return true;
}

/* No broker is left to say that the worker is dead. */
static bool hung_up(const struct guest *g)
{
    char byte;

    return recv(g->sock, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

int guest_wait(struct guest *g, uint32_t slot, const void **payload, uint32_t *size, int ms)
{
    uint8_t *at = g->win + g->s->reply_offset + (size_t)slot * g->s->reply_slot_size;
    struct vgp_reply *r = (void *)at;
    uint64_t end = vgb_now_ns() + (uint64_t)ms * 1000000u;
    uint32_t want = g->seq;

    while (__atomic_load_n(&r->seq, __ATOMIC_ACQUIRE) != want) {
        if (__atomic_load_n(&g->s->worker_state, __ATOMIC_ACQUIRE) == VGP_WORKER_DEAD || hung_up(g))
            return -2;
        if (!sleep_once(g, end))
            return -1;
    }
    if (payload)
        *payload = at + sizeof(*r);
    if (size)
        *size = r->size;
    return r->result;
}

int guest_call(struct guest *g, uint16_t call, const void *args, uint32_t size, const void **payload,
               uint32_t *psize)
{
    guest_submit(g, call, 0, args, size, NULL, 0);
    return guest_wait(g, 0, payload, psize, 60000);
}

bool guest_wait_dead(struct guest *g, int ms)
{
    uint64_t end = vgb_now_ns() + (uint64_t)ms * 1000000u;

    while (__atomic_load_n(&g->s->worker_state, __ATOMIC_ACQUIRE) != VGP_WORKER_DEAD) {
        if (!sleep_once(g, end))
            return false;
    }
    return true;
}

bool guest_notification(struct guest *g, uint16_t type, uint64_t *cookie, char *text, int ms)
{
    uint64_t end = vgb_now_ns() + (uint64_t)ms * 1000000u;

    for (;;) {
        while (g->notify_head != __atomic_load_n(&g->s->notify_tail, __ATOMIC_ACQUIRE)) {
            uint8_t *at = g->win + g->s->notify_offset + (g->notify_head & (g->s->notify_size - 1));
            struct vgp_notify n;
            uint32_t len;

            memcpy(&n, at, sizeof(n));
            if (n.type == type) {
                if (cookie)
                    *cookie = n.cookie;
                if (text) {
                    memcpy(&len, at + sizeof(n), 4);
                    memcpy(text, at + sizeof(n) + 4, len);
                    text[len] = 0;
                }
            }
            g->notify_head += n.size;
            __atomic_store_n(&g->s->notify_head, g->notify_head, __ATOMIC_RELEASE);
            if (n.type == type)
                return true;
        }
        if (!sleep_once(g, end))
            return false;
    }
}

void guest_printed(struct guest *g, char *all, size_t size)
{
    char text[4096];

    all[0] = '\0';
    while (!strstr(all, "(end)") && guest_notification(g, VGP_NOTIFY_PRINT, NULL, text, 5000))
        snprintf(all + strlen(all), size - strlen(all), "%s", text);
}

int guest_context(struct guest *g)
{
    struct vgp_args_vgpPrimaryCtxRetain a = {.device = 0, .context = VGP_HANDLE(VGP_H_CONTEXT, 1, 0)};
    int r = guest_call(g, VGP_vgpPrimaryCtxRetain, &a, sizeof(a), NULL, NULL);

    if (!r)
        g->context = a.context;
    return r;
}

int guest_alloc(struct guest *g, uint64_t bytes, uint64_t *dptr)
{
    struct vgp_args_cuMemAlloc_v2 a = {.bytesize = bytes};
    const void *p;
    int r = guest_call(g, VGP_cuMemAlloc_v2, &a, sizeof(a), &p, NULL);

    if (!r)
        *dptr = ((const struct vgp_ret_cuMemAlloc_v2 *)p)->dptr;
    return r;
}

int guest_free(struct guest *g, uint64_t dptr)
{
    struct vgp_args_cuMemFree_v2 a = {.dptr = dptr};

    return guest_call(g, VGP_cuMemFree_v2, &a, sizeof(a), NULL, NULL);
}

int guest_memset(struct guest *g, uint64_t dst, uint8_t value, uint64_t n, uint64_t stream)
{
    struct vgp_args_cuMemsetD8Async a = {.dstDevice = dst, .uc = value, .N = n, .hStream = stream};

    return guest_call(g, VGP_cuMemsetD8Async, &a, sizeof(a), NULL, NULL);
}

int guest_vmm_create(struct guest *g, uint64_t handle, uint64_t size)
{
    struct vgp_args_vgpMemCreate a = {.handle = handle,
                                      .size = size,
                                      .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .locationType = CU_MEM_LOCATION_TYPE_DEVICE};

    return guest_call(g, VGP_vgpMemCreate, &a, sizeof(a), NULL, NULL);
}

int guest_vmm_release(struct guest *g, uint64_t handle)
{
    struct vgp_args_vgpMemRelease a = {.handle = handle};

    return guest_call(g, VGP_vgpMemRelease, &a, sizeof(a), NULL, NULL);
}

void guest_graph_new(struct guest *g, uint64_t graph)
{
    struct vgp_args_vgpGraphNew a = {.graph = graph};

    guest_submit(g, VGP_vgpGraphNew, VGP_NO_REPLY, &a, sizeof(a), NULL, 0);
}

int guest_graph_destroy(struct guest *g, uint64_t graph)
{
    struct vgp_args_vgpGraphDestroy a = {.graph = graph};

    return guest_call(g, VGP_vgpGraphDestroy, &a, sizeof(a), NULL, NULL);
}

int guest_graph_instantiate(struct guest *g, uint64_t graph, uint64_t exec)
{
    struct vgp_args_vgpGraphInstantiate a = {.exec = exec, .graph = graph};

    return guest_call(g, VGP_vgpGraphInstantiate, &a, sizeof(a), NULL, NULL);
}

int guest_release(struct guest *g)
{
    int r = CUDA_ERROR_INVALID_VALUE;

    for (int i = 0; i < 3000 && (r = guest_memset(g, 0, VALUE_RELEASE, 0, 0)); i++)
        usleep(10000); /* its waiter thread is on the way into the provider */
    return r;
}

int guest_result_of(struct guest *g, unsigned slot, uint32_t seq, int ms)
{
    const uint32_t last = g->seq;
    int r;

    g->seq = seq;
    r = guest_wait(g, slot, NULL, NULL, ms);
    g->seq = last + 1000;
    return r;
}
