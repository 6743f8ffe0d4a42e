/* SPDX-License-Identifier: MIT */
/*
 * The connection to QEMU, a single one at a time. All clients end with it; QEMU may connect again.
 */
#define _GNU_SOURCE
#include "vu.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vgb_fd.h"

#define HEADER_BYTES 12u

static struct brk_source listener = {.fd = -1};
static const char *listen_path;
static bool only_one; /* the connection was inherited: no other follows */
/* QEMU and its guest can cause each line as often as they like */
static struct vgb_ratelimit limit;

static struct {
    struct brk_source s;
    struct brk_vu_header h;
    union brk_vu_payload p;
    size_t have; /* bytes of header, then payload */
    int fds[BRK_VU_REGIONS];
    unsigned nfds;
    bool waiting; /* GET_VRING_BASE of queue 0 waits for the end of all clients */
    bool closing;
    uint64_t protocol_features;
} conn = {.s = {.fd = -1}};

static uint64_t offered_features(void)
{
    return UINT64_C(1) << BRK_VU_F_VERSION_1 | UINT64_C(1) << BRK_VU_F_PROTOCOL_FEATURES |
           UINT64_C(1) << BRK_VU_F_INDIRECT_DESC | UINT64_C(1) << BRK_VU_F_EVENT_IDX |
           UINT64_C(1) << VGPU_F_PIN | UINT64_C(1) << VGPU_F_PING;
}

static uint64_t protocol_features(void)
{
    return UINT64_C(1) << BRK_VU_PF_MQ | UINT64_C(1) << BRK_VU_PF_REPLY_ACK |
           UINT64_C(1) << BRK_VU_PF_CONFIG | UINT64_C(1) << BRK_VU_PF_BACKEND_REQ |
           UINT64_C(1) << BRK_VU_PF_SHMEM;
}

/* The loop does not wait for the close of a descriptor from QEMU. */
static void queue_close(int *fd)
{
    if (*fd >= 0)
        brk_foreign_close(*fd);
    *fd = -1;
}

static void queue_reset(struct brk_vu_queue *q)
{
    if (q->kick.fd >= 0 && q->kick.ready)
        brk_loop_del(&q->kick);
    queue_close(&q->kick.fd);
    queue_close(&q->call);
    queue_close(&q->err);
    uint32_t generation = q->generation + 1;
    memset(q, 0, sizeof(*q));
    q->generation = generation;
    q->kick.fd = q->call = q->err = -1;
}

static void device_reset(void)
{
    for (unsigned i = 0; i < BRK_VU_QUEUES; i++)
        queue_reset(&brk_vu_dev.queue[i]);
    brk_vu_mem_clear(&brk_vu_dev.mem);
    brk_vu_shmem_reset();
    brk_vu_device_windows(-1);
    brk_vu_dev.features = 0;
    brk_vu_dev.configured = false;
    brk_vu_config_offer(&brk_vu_dev.config);
}

static void send_reply(const void *payload, uint32_t size)
{
    uint8_t buf[HEADER_BYTES + sizeof(union brk_vu_payload)];
    struct brk_vu_header h = {
        .request = conn.h.request, .flags = BRK_VU_VERSION | BRK_VU_FLAG_REPLY, .size = size};

    memcpy(buf, &h, HEADER_BYTES);
    memcpy(buf + HEADER_BYTES, payload, size);
    if (vgb_send_fds(conn.s.fd, buf, HEADER_BYTES + size, NULL, 0, MSG_DONTWAIT) !=
        (ssize_t)(HEADER_BYTES + size))
        vgb_log_limited(&limit, VGB_WARN, "vhost-user: the answer to %s was not taken",
                        brk_vu_request_name(conn.h.request));
}

static void reply_u64(uint64_t v)
{
    send_reply(&v, sizeof(v));
}

static void on_idle(void);

static void conn_close(void)
{
    if (conn.closing || conn.s.fd < 0)
        return;
    vgb_log_limited(&limit, VGB_INFO, "vhost-user: QEMU has disconnected");
    conn.closing = true;
    brk_loop_del(&conn.s);
    brk_foreign_end(&conn.s.fd);
    brk_foreign_close_all(conn.fds, conn.nfds);
    conn.nfds = 0;
    brk_vu_dev.queue[VGPU_VQ_CONTROL].started = false;
    brk_vu_dev.idle = on_idle;
    brk_vu_device_end_clients();
}

/* Called when the last client has ended; answers a pending request. */
static void on_idle(void)
{
    brk_vu_dev.idle = NULL;
    if (conn.closing) {
        conn.closing = false;
        conn.waiting = false;
        device_reset();
        if (only_one)
            brk_loop_stop();
        return;
    }
    if (conn.waiting) {
        struct brk_vu_queue *q = &brk_vu_dev.queue[VGPU_VQ_CONTROL];
        struct brk_vu_payload_state st = {.index = VGPU_VQ_CONTROL, .num = q->last_avail};

        conn.waiting = false;
        brk_loop_change(&conn.s, EPOLLIN);
        send_reply(&st, sizeof(st));
    }
}

/*
 * Edge-triggered, and never read: one that stays readable whatever is read of it (a semaphore's full
 * counter) would have the loop return here for ever, and QEMU, which shares the description, can
 * make a read block.
 */
static void on_kick(struct brk_source *s, uint32_t events)
{
    (void)events;
    if (s == &brk_vu_dev.queue[VGPU_VQ_CONTROL].kick)
        brk_vu_device_control();
    else
        brk_vu_device_events();
}

static void queue_serve(unsigned i)
{
    if (i == VGPU_VQ_CONTROL && brk_vu_device_started())
        brk_vu_shmem_start();
    if (i == VGPU_VQ_CONTROL)
        brk_vu_device_control();
    else if (i == VGPU_VQ_EVENT)
        brk_vu_device_events();
}

static bool set_kick(unsigned i)
{
    struct brk_vu_queue *q = &brk_vu_dev.queue[i];

    if (q->kick.fd >= 0 && q->kick.ready)
        brk_loop_del(&q->kick);
    queue_close(&q->kick.fd);
    q->kick.ready = NULL;
    if (!conn.nfds)
        return true; /* polling is not offered: the queue is not served */
    q->kick.fd = conn.fds[0];
    conn.nfds = 0;
    q->started = true;
    if (i >= VGPU_VQ_DOORBELL) {
        brk_vu_device_doorbell(i - VGPU_VQ_DOORBELL);
        return true;
    }
    q->kick.ready = on_kick;
    if (brk_loop_add(&q->kick, EPOLLIN | EPOLLET))
        return false;
    queue_serve(i);
    return true;
}

/* The windows hold a slice per client: checked whenever their memory or number is set, in either
 * order. */
static bool windows_suffice(const struct vgpu_config *c, uint64_t size)
{
    uint64_t want;

    if (!__builtin_mul_overflow((uint64_t)c->max_clients, (uint64_t)c->window_size, &want) && size >= want)
        return true;
    vgb_log_limited(&limit, VGB_ERROR, "vhost-user: the windows have %llu bytes, too few for %llu clients",
                    (unsigned long long)size, (unsigned long long)c->max_clients);
    return false;
}

static bool set_mem_table(void)
{
    unsigned n = conn.nfds;
    const struct brk_vu_map *w;

    conn.nfds = 0;
    const char *wrong = brk_vu_mem_set(&brk_vu_dev.mem, &conn.p.mem, conn.fds);
    for (unsigned i = 0; i < BRK_VU_QUEUES; i++)
        brk_vu_queue_remap(&brk_vu_dev.queue[i], &brk_vu_dev.mem);
    if (wrong) {
        vgb_log_limited(&limit, VGB_ERROR, "vhost-user: memory table of %u regions: %s", n, wrong);
        return false;
    }
    /* The broker's own windows reappear as guest memory, without new information. */
    w = brk_vu_dev.shmem_size ? NULL : brk_vu_mem_windows(&brk_vu_dev.mem);
    if (w && !windows_suffice(&brk_vu_dev.config, w->r.size))
        return false;
    if (w) { /* kept when it leaves the table: the guest may turn the BAR off for a while */
        brk_vu_device_windows(fcntl(w->fd, F_DUPFD_CLOEXEC, 3));
        brk_vu_dev.windows_offset = w->r.offset;
        brk_vu_dev.windows_size = w->r.size;
    }
    queue_serve(VGPU_VQ_CONTROL);
    return true;
}

static bool feature_negotiated(unsigned feature)
{
    return conn.protocol_features >> feature & 1;
}

static bool get_shmem_config(void)
{
    static struct brk_vu_payload_shmem c;
    const char *wrong = feature_negotiated(BRK_VU_PF_SHMEM) && feature_negotiated(BRK_VU_PF_BACKEND_REQ) &&
                                feature_negotiated(BRK_VU_PF_REPLY_ACK)
                            ? brk_vu_shmem_config(&c)
                            : "the protocol features SHMEM, BACKEND_REQ and REPLY_ACK belong together";

    if (wrong) {
        vgb_log_limited(&limit, VGB_ERROR, "vhost-user: no windows for the front end to map: %s", wrong);
        return false;
    }
    send_reply(&c, sizeof(c));
    return true;
}

static bool set_backend_channel(void)
{
    int fd = conn.fds[0];

    if (!feature_negotiated(BRK_VU_PF_BACKEND_REQ))
        return false;
    conn.nfds = 0;
    return brk_vu_shmem_channel(fd);
}

static void get_config(void)
{
    struct brk_vu_payload_config c = conn.p.config;

    memcpy(c.data, (const uint8_t *)&brk_vu_dev.config + c.offset, c.size);
    send_reply(&c, 12 + c.size);
}

static bool set_config(void)
{
    struct vgpu_config next = brk_vu_dev.config, offer;
    const char *wrong;

    memcpy((uint8_t *)&next + conn.p.config.offset, conn.p.config.data, conn.p.config.size);
    brk_vu_config_offer(&offer);
    wrong = brk_vu_device_clients() ? "clients are running" : brk_vu_config_check(&offer, &next);
    if (wrong) {
        vgb_log_limited(&limit, VGB_ERROR, "vhost-user: configuration refused: %s", wrong);
        return false;
    }
    uint64_t windows = brk_vu_dev.windows_fd >= 0 ? brk_vu_dev.windows_size : brk_vu_dev.shmem_size;
    if (windows && !windows_suffice(&next, windows))
        return false;
    brk_vu_dev.config = next;
    brk_vu_dev.configured = true;
    if (!brk_vram.adjusted)
        brk_vram.limit = next.vram_quota;
    if (!brk_pins.adjusted)
        brk_pins.limit = next.pin_quota;
    return true;
}

static bool get_vring_base(unsigned i)
{
    struct brk_vu_queue *q = &brk_vu_dev.queue[i];
    struct brk_vu_payload_state st = {.index = i, .num = q->last_avail};

    q->started = false;
    q->generation++; /* pending answers belong to the old ring */
    if (q->kick.fd >= 0 && q->kick.ready)
        brk_loop_del(&q->kick);
    if (i < VGPU_VQ_DOORBELL || !brk_vu_dev.slot[i - VGPU_VQ_DOORBELL].client)
        queue_close(&q->kick.fd);
    q->kick.ready = NULL;
    if (i != VGPU_VQ_CONTROL) {
        send_reply(&st, sizeof(st));
        return true;
    }
    /* Stopping the control queue is a reset: no worker may access guest memory after the answer. */
    brk_vu_shmem_stop();
    conn.waiting = true;
    brk_vu_dev.idle = on_idle;
    brk_loop_change(&conn.s, 0);
    brk_vu_device_end_clients();
    return true;
}

/*
 * Of other files poll(2) and epoll_ctl(2) ask whoever is behind them: a program that serves a file system (FUSE) and does not
 * answer holds the caller, and nothing ends that, not even SIGKILL.
 */
static bool signals_fit(void)
{
    if (!conn.nfds || brk_is_eventfd(conn.fds[0]))
        return true;
    vgb_log_limited(&limit, VGB_ERROR, "vhost-user: a queue's kick, call or error is no eventfd");
    return false;
}

static bool queue_message(void)
{
    const union brk_vu_payload *p = &conn.p;
    unsigned i = conn.h.request == BRK_VU_SET_VRING_ADDR ? p->addr.index : p->state.index;
    struct brk_vu_queue *q;

    if (conn.h.request >= BRK_VU_SET_VRING_KICK && conn.h.request <= BRK_VU_SET_VRING_ERR)
        i = p->u64 & 0xff;
    if (i >= BRK_VU_QUEUES || i >= brk_vu_dev.config.max_clients + VGPU_VQ_DOORBELL || !signals_fit())
        return false;
    q = &brk_vu_dev.queue[i];
    switch (conn.h.request) {
    case BRK_VU_SET_VRING_NUM:
        if (!p->state.num || p->state.num > BRK_VU_QUEUE_SIZE_MAX || p->state.num & (p->state.num - 1))
            return false;
        brk_vu_queue_resize(q, &brk_vu_dev.mem, p->state.num);
        return true;
    case BRK_VU_SET_VRING_ADDR:
        q->addr = p->addr;
        q->have_addr = true;
        q->event_idx = brk_vu_dev.features >> BRK_VU_F_EVENT_IDX & 1;
        brk_vu_queue_remap(q, &brk_vu_dev.mem);
        if (!q->used)
            return false;
        /* continues at the ring's position */
        q->used_idx = (uint16_t)(q->used[2] | q->used[3] << 8);
        return true;
    case BRK_VU_SET_VRING_BASE:
        q->last_avail = (uint16_t)p->state.num;
        return true;
    case BRK_VU_GET_VRING_BASE:
        return get_vring_base(i);
    case BRK_VU_SET_VRING_ENABLE:
        q->enabled = p->state.num != 0;
        queue_serve(i);
        return true;
    case BRK_VU_SET_VRING_KICK:
        return set_kick(i);
    case BRK_VU_SET_VRING_CALL:
        queue_close(&q->call);
        q->call = conn.nfds ? conn.fds[0] : -1;
        conn.nfds = 0;
        return true;
    default: /* BRK_VU_SET_VRING_ERR */
        queue_close(&q->err);
        q->err = conn.nfds ? conn.fds[0] : -1;
        conn.nfds = 0;
        return true;
    }
}

/* Handles a complete message. False: refused. *replied: the handler sent its own answer. */
static bool dispatch_message(bool *replied)
{
    *replied = true;
    switch (conn.h.request) {
    case BRK_VU_GET_FEATURES:
        reply_u64(offered_features());
        return true;
    case BRK_VU_GET_PROTOCOL_FEATURES:
        reply_u64(protocol_features());
        return true;
    case BRK_VU_GET_QUEUE_NUM:
        reply_u64(brk_vu_dev.config.max_clients + VGPU_VQ_DOORBELL);
        return true;
    case BRK_VU_GET_CONFIG:
        get_config();
        return true;
    case BRK_VU_GET_SHMEM_CONFIG:
        return get_shmem_config();
    case BRK_VU_GET_VRING_BASE:
        return queue_message();
    default:
        break;
    }
    *replied = false;
    switch (conn.h.request) {
    case BRK_VU_SET_FEATURES:
        brk_vu_dev.features = conn.p.u64;
        return !(conn.p.u64 & ~offered_features());
    case BRK_VU_SET_PROTOCOL_FEATURES:
        conn.protocol_features = conn.p.u64;
        return !(conn.p.u64 & ~protocol_features());
    case BRK_VU_SET_OWNER:
        return true;
    case BRK_VU_SET_MEM_TABLE:
        return set_mem_table();
    case BRK_VU_SET_CONFIG:
        return set_config();
    case BRK_VU_SET_BACKEND_REQ_FD:
        return set_backend_channel();
    case BRK_VU_RESET_OWNER:
        brk_vu_shmem_stop();
        for (unsigned i = 0; i < BRK_VU_QUEUES; i++)
            brk_vu_dev.queue[i].enabled = false;
        brk_vu_dev.queue[VGPU_VQ_CONTROL].generation++;
        brk_vu_device_end_clients();
        return true;
    default:
        return queue_message();
    }
}

static void on_complete(void)
{
    bool replied = false;
    /* Checks the header again: further descriptors may have come with the payload. */
    const char *wrong = brk_vu_header_check(&conn.h, conn.nfds);

    wrong = wrong ? wrong : brk_vu_payload_check(&conn.h, &conn.p, conn.nfds);
    bool ok = !wrong && dispatch_message(&replied);
    bool ack = conn.h.flags & BRK_VU_FLAG_NEED_REPLY && feature_negotiated(BRK_VU_PF_REPLY_ACK) && !replied;

    brk_foreign_close_all(conn.fds, conn.nfds);
    conn.nfds = 0;
    conn.have = 0;
    if (!ok)
        vgb_log_limited(&limit, VGB_ERROR, "vhost-user: %s refused%s%s", brk_vu_request_name(conn.h.request),
                        wrong ? ": " : "", wrong ? wrong : "");
    if (ack)
        reply_u64(!ok);
    else if (!ok)
        conn_close(); /* otherwise QEMU would assume success */
}

static void on_qemu(struct brk_source *s, uint32_t events)
{
    size_t want =
        conn.have < HEADER_BYTES ? HEADER_BYTES - conn.have : HEADER_BYTES + conn.h.size - conn.have;
    uint8_t *to = conn.have < HEADER_BYTES ? (uint8_t *)&conn.h + conn.have
                                           : (uint8_t *)&conn.p + conn.have - HEADER_BYTES;
    int fds[BRK_VU_REGIONS];
    unsigned nfds = BRK_VU_REGIONS;
    ssize_t n;

    (void)events;
    n = vgb_recv_fds(s->fd, to, want, fds, &nfds, MSG_DONTWAIT);
    if (n == -EAGAIN)
        return;
    if (n <= 0) {
        conn_close();
        return;
    }
    for (unsigned i = 0; i < nfds; i++) {
        if (conn.nfds < BRK_VU_REGIONS)
            conn.fds[conn.nfds++] = fds[i];
        else
            brk_foreign_close(fds[i]);
    }
    conn.have += (size_t)n;
    if (conn.have == HEADER_BYTES) {
        const char *wrong = brk_vu_header_check(&conn.h, conn.nfds);

        if (wrong) {
            vgb_log_limited(&limit, VGB_ERROR, "vhost-user: request %u: %s", conn.h.request, wrong);
            conn_close();
            return;
        }
        memset(&conn.p, 0, sizeof(conn.p));
    }
    if (conn.have >= HEADER_BYTES && conn.have == HEADER_BYTES + conn.h.size)
        on_complete();
}

static bool conn_start(int fd)
{
    memset(&conn, 0, sizeof(conn));
    conn.s.fd = fd;
    conn.s.ready = on_qemu;
    if (brk_loop_add(&conn.s, EPOLLIN)) {
        vgb_close(&conn.s.fd);
        return false;
    }
    vgb_log_limited(&limit, VGB_INFO, "vhost-user: QEMU has connected");
    return true;
}

static void on_accept(struct brk_source *s, uint32_t events)
{
    int fd = brk_accept_peer(s);

    (void)events;
    if (fd < 0)
        return;
    if (conn.s.fd >= 0 || conn.closing) {
        if (conn.s.fd >= 0)
            vgb_log_limited(&limit, VGB_WARN, "vhost-user: a second QEMU wants to connect: refused");
        brk_foreign_end(&fd); /* one broker per VM; QEMU tries again after a loss */
        return;
    }
    conn_start(fd);
}

/* Its workers have the memory mapped, too. */
static void on_mem_lost(void)
{
    vgb_log_limited(&limit, VGB_ERROR, "vhost-user: a file of the guest's memory became shorter");
    conn_close();
}

int brk_vu_start(const char *path, int fd, bool connected)
{
    if (fd < 0) {
        fd = brk_listen_unix(path, SOCK_STREAM, BRK_LISTEN_OWNER);
        listen_path = path;
    }
    if (fd < 0) {
        listen_path = NULL; /* it is not ours to remove */
        vgb_log(VGB_ERROR, "cannot listen on %s: %s", path, strerror(-fd));
        return BRK_EXIT_ERROR;
    }
    brk_vu_dev.windows_fd = -1;
    if (!brk_vu_mem_guard(&brk_vu_dev.mem, on_mem_lost)) {
        vgb_log(VGB_ERROR, "vhost-user: no descriptor or memory: %s", strerror(errno));
        return BRK_EXIT_ERROR;
    }
    for (unsigned i = 0; i < BRK_VU_QUEUES; i++)
        brk_vu_dev.queue[i].kick.fd = brk_vu_dev.queue[i].call = brk_vu_dev.queue[i].err = -1;
    brk_vu_config_offer(&brk_vu_dev.config);
    if (connected) {
        only_one = true;
        return conn_start(fd) ? 0 : BRK_EXIT_ERROR;
    }
    listener.fd = fd;
    listener.ready = on_accept;
    return brk_loop_add(&listener, EPOLLIN) ? BRK_EXIT_ERROR : 0;
}

void brk_vu_stop(void)
{
    vgb_close(&listener.fd);
    if (listen_path)
        unlink(listen_path);
}
