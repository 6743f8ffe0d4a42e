/* SPDX-License-Identifier: MIT */
/* The unix-socket transport (protocol/vgp_sock.h): a connection is a client. */
#define _GNU_SOURCE
#include "transport.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "vgb_deadline.h"
#include "vgb_fd.h"
#include "vgp_sock.h"

/* Connections without a client yet: each costs a descriptor, so they are few. */
#define GREETINGS_MAX 64u

struct conn {
    struct brk_source s;
    /* list of connections without a request; before NULL: not in it */
    struct conn *next, **before;
    struct brk_client *client;
    int window; /* until the WELCOME was sent */
    int doorbell;
    bool closing;
    bool greeting; /* counted in greetings */
};

static struct brk_source listener = {.fd = -1};
static const char *listen_path;
static unsigned greetings, next_slot;
static struct vgb_ratelimit limit;

static void conn_free(struct conn *k)
{
    if (k->s.fd >= 0)
        brk_loop_del(&k->s);
    brk_foreign_end(&k->s.fd);
    vgb_close(&k->window);
    vgb_close(&k->doorbell);
    if (k->greeting)
        greetings--;
    free(k);
}

/* Connections without a client, the oldest first. */
static struct conn *mute, **mute_end = &mute;

static void mute_add(struct conn *k)
{
    k->next = NULL;
    k->before = mute_end;
    *mute_end = k;
    mute_end = &k->next;
}

static void mute_remove(struct conn *k)
{
    if (!k->before)
        return;
    *k->before = k->next;
    if (k->next)
        k->next->before = k->before;
    else
        mute_end = k->before;
    k->before = NULL;
}

/* Ends the connection, at once or when its worker is gone. */
static void conn_close(struct conn *k)
{
    if (k->closing)
        return;
    k->closing = true;
    mute_remove(k);
    brk_loop_del(&k->s);
    brk_foreign_end(&k->s.fd);
    if (k->client) {
        brk_client_destroy(k->client);
        return; /* on_ended() frees it */
    }
    conn_free(k);
}

static void sock_refuse(struct conn *k, uint32_t status, const char *text)
{
    struct vgp_sock_refused m = {.type = VGP_SOCK_REFUSED, .status = status};

    snprintf(m.text, sizeof(m.text), "%s", text);
    vgb_send_fds(k->s.fd, &m, sizeof(m), NULL, 0, MSG_DONTWAIT);
}

static const char *status_reason(uint32_t status)
{
    switch (status) {
    case VGPU_S_QUOTA:
        return "the broker serves as many clients as it may; raise --max-clients or end one";
    case VGPU_S_WORKER:
        return "no worker could be started in time; the broker's log says why";
    case VGPU_S_NO_MEMORY:
        return "the host has no memory for another client";
    default:
        return "the request was not understood";
    }
}

static void on_created(struct brk_client *c, uint32_t status)
{
    struct conn *k = c->transport;
    struct vgp_sock_welcome m = {.type = VGP_SOCK_WELCOME, .window_size = c->window_size};
    int fds[2] = {k->window, k->doorbell};

    if (status) {
        k->client = NULL;
        if (!k->closing)
            sock_refuse(k, status, status_reason(status));
        conn_free(k);
        return;
    }
    k->greeting = false;
    greetings--;
    ssize_t n = vgb_send_fds(k->s.fd, &m, sizeof(m), fds, 2, MSG_DONTWAIT);
    vgb_close(&k->window);
    vgb_close(&k->doorbell);
    if (n < 0)
        conn_close(k);
}

static void sock_answer(struct brk_client *c, uint32_t region, uint32_t status, uint64_t va)
{
    struct conn *k = c->transport;
    struct vgp_sock_mapped m = {.type = VGP_SOCK_MAPPED, .region = region, .status = status, .worker_va = va};

    /* A client that does not read its answers is ended: nothing is queued for it. */
    if (!k->closing && vgb_send_fds(k->s.fd, &m, sizeof(m), NULL, 0, MSG_DONTWAIT) < 0)
        conn_close(k);
}

static void on_mapped(struct brk_client *c, uint32_t region, uint32_t status, uint64_t va)
{
    sock_answer(c, region, status, va);
}

static void on_unmapped(struct brk_client *c, uint32_t region, uint32_t status)
{
    sock_answer(c, region, status, 0);
}

static void on_wake(struct brk_client *c)
{
    (void)c; /* the worker wakes by futex */
}

static void on_dead(struct brk_client *c, uint32_t reason)
{
    (void)reason; /* the reason is in the window */
    conn_close(c->transport);
}

static void on_stuck(struct brk_client *c)
{
    struct conn *k = c->transport;

    if (!k->closing && k->greeting)
        sock_refuse(k, VGPU_S_STUCK, status_reason(VGPU_S_WORKER));
    conn_close(k);
}

static void on_ended(struct brk_client *c)
{
    struct conn *k = c->transport;

    k->client = NULL;
    conn_free(k);
}

static const struct brk_client_ops ops = {
    .created = on_created,
    .mapped = on_mapped,
    .unmapped = on_unmapped,
    .wake = on_wake,
    .dead = on_dead,
    .stuck = on_stuck,
    .ended = on_ended,
};

static int make_window(uint64_t size)
{
    int fd = memfd_create("vgpu-window", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return -1;
    /* Sealed, so that neither side can fault the other by resizing it. */
    if (ftruncate(fd, (off_t)size) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
        close(fd);
        return -1;
    }
    return fd;
}

static void on_hello(struct conn *k, const struct vgp_sock_hello *h)
{
    struct brk_client_setup s = {
        .ops = &ops, .transport = k, .label = h->label, .create_ms = VGB_LOCAL_CREATE_MS};
    char text[200];
    uint32_t status;

    if (h->version_major != VGP_VERSION_MAJOR) {
        snprintf(text, sizeof(text), "libcuda speaks version %u, the broker version %u: update one",
                 h->version_major, VGP_VERSION_MAJOR);
        sock_refuse(k, VGPU_S_UNSUPPORTED, text);
        conn_close(k);
        return;
    }
    mute_remove(k);
    k->window = make_window(brk_opt.window_size);
    /* Non-blocking: a compromised worker could fill it, and the program would wait in its write. Its
     * sandbox lets no worker clear the flag. */
    k->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s.slot = next_slot++;
    s.lines = brk_lines_key_of_peer(k->s.fd);
    s.window_fd = k->window;
    s.window_size = brk_opt.window_size;
    s.doorbell = k->doorbell;
    if (k->window < 0 || k->doorbell < 0)
        status = VGPU_S_NO_MEMORY;
    else
        k->client = brk_client_create(&s, &status);
    if (!k->client) {
        sock_refuse(k, status, status_reason(status));
        conn_close(k);
    }
}

/* The client's memfd: it cannot shrink under the worker, and it covers the range. */
static bool memfd_ok(int fd, uint64_t offset, uint64_t length)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);

    return seals >= 0 && seals & F_SEAL_SHRINK && !fstat(fd, &st) && st.st_size >= 0 &&
           vgp_range_ok(offset, length, (uint64_t)st.st_size);
}

static void on_map(struct conn *k, const struct vgp_sock_map *q, int fd)
{
    struct brk_map_run run = {.fd = fd, .offset = q->offset, .length = q->length};
    struct brk_map m = {.region = q->region, .va = q->va, .length = q->length, .runs = &run, .nruns = 1};
    uint32_t status = memfd_ok(fd, q->offset, q->length) ? brk_client_map(k->client, &m) : VGPU_S_INVALID;

    if (status)
        sock_answer(k->client, q->region, status, 0);
}

static void on_info(struct conn *k)
{
    struct vgp_sock_info m = {.type = VGP_SOCK_INFO};

    snprintf(m.sandbox, sizeof(m.sandbox), "%s", brk_pool_sandbox());
    vgb_send_fds(k->s.fd, &m, sizeof(m), NULL, 0, MSG_DONTWAIT);
}

/* True: a valid request, with exactly the size and descriptors of its type. */
static bool on_request(struct conn *k, const void *buf, size_t n, const int *fds, unsigned nfds)
{
    uint32_t type;

    if (n < sizeof(type))
        return false;
    memcpy(&type, buf, sizeof(type));
    bool serving = k->client && k->client->state == BRK_C_SERVING;
    if (type == VGP_SOCK_HELLO && n == sizeof(struct vgp_sock_hello) && !nfds && !k->client) {
        on_hello(k, buf);
        return true;
    }
    if (type == VGP_SOCK_INFO && n == sizeof(type) && !nfds && !k->client) {
        on_info(k);
        return true;
    }
    if (type == VGP_SOCK_MAP && n == sizeof(struct vgp_sock_map) && nfds == 1 && serving) {
        on_map(k, buf, fds[0]);
        return true;
    }
    if (type == VGP_SOCK_UNMAP && n == sizeof(struct vgp_sock_map) && !nfds && serving) {
        const struct vgp_sock_map *q = buf;
        uint32_t status = brk_client_unmap(k->client, q->region);

        if (status)
            sock_answer(k->client, q->region, status, 0);
        return true;
    }
    return false;
}

/* False: descriptors that may have to wait for their close, while as many wait as may. */
static bool descriptors_ok(const int *fds, unsigned nfds)
{
    for (unsigned i = 0; i < nfds; i++) {
        if (!brk_foreign_is_memory(fds[i]) && brk_foreign_full())
            return false;
    }
    return true;
}

static void on_conn(struct brk_source *s, uint32_t events)
{
    struct conn *k = (struct conn *)s; /* its first member */
    union {
        struct vgp_sock_hello hello;
        struct vgp_sock_map map;
        uint8_t bytes[256];
    } buf;
    int fds[4];
    unsigned nfds = 4;

    (void)events;
    ssize_t n = vgb_recv_fds(s->fd, &buf, sizeof(buf), fds, &nfds, MSG_DONTWAIT);
    if (n == -EAGAIN)
        return;
    if (n <= 0) {
        conn_close(k);
        return;
    }
    bool ok = descriptors_ok(fds, nfds) && on_request(k, &buf, (size_t)n, fds, nfds);
    brk_foreign_close_all(fds, nfds);
    if (!ok) {
        /* k may still be in use: only valid requests can have ended it. */
        vgb_log_limited(&limit, VGB_WARN, "a client sent a request that it may not: connection closed");
        conn_close(k);
    }
}

static void on_accept(struct brk_source *s, uint32_t events)
{
    struct conn *k;
    int fd;

    (void)events;
    if (brk_foreign_full()) {
        brk_loop_rest(s);
        return;
    }
    fd = brk_accept_peer(s);
    if (fd < 0)
        return;
    /* Connections without a request do not keep other clients out. */
    if (greetings >= GREETINGS_MAX && mute)
        conn_close(mute);
    k = greetings < GREETINGS_MAX ? calloc(1, sizeof(*k)) : NULL;
    if (!k) {
        brk_foreign_end(&fd); /* the client sees the end of file and may try again */
        return;
    }
    k->s.fd = fd;
    k->s.ready = on_conn;
    k->window = k->doorbell = -1;
    if (brk_loop_add(&k->s, EPOLLIN)) {
        k->s.fd = -1;
        brk_foreign_end(&fd);
        conn_free(k);
        return;
    }
    k->greeting = true;
    greetings++;
    mute_add(k);
}

int brk_sock_start(const char *path, int fd)
{
    if (fd < 0) {
        fd = brk_listen_unix(path, SOCK_SEQPACKET, BRK_LISTEN_OWNER);
        if (fd < 0) {
            vgb_log(VGB_ERROR, "cannot listen on %s: %s", path, strerror(-fd));
            return BRK_EXIT_ERROR;
        }
        listen_path = path;
    }
    listener.fd = fd;
    listener.ready = on_accept;
    if (brk_loop_add(&listener, EPOLLIN)) {
        vgb_log(VGB_ERROR, "cannot wait on the listening socket");
        return BRK_EXIT_ERROR;
    }
    return 0;
}

void brk_sock_stop(void)
{
    vgb_close(&listener.fd);
    if (listen_path)
        unlink(listen_path);
}
