/* SPDX-License-Identifier: MIT */
/*
 * Windows for front ends that know nothing of vgpu-cuda (VHOST_USER_PROTOCOL_F_SHMEM).
 *
 * The broker makes the memory; the front end maps it into the device's shared memory region, by
 * SHMEM_MAP on the channel for requests of the back end. The front end is blocked in a message of
 * its own when that is sent, and answers later: the loop never waits for it. Until it has, the
 * control queue rests, for VGB_SHMEM_MS at most.
 *
 * There is no SHMEM_UNMAP when the driver stops the device: QEMU knows no device then that the
 * message is about, and a reset drops the mapping in any case. A VM that is paused keeps it. So a
 * start asks for SHMEM_MAP; a refusal of what had been mapped before means that it still is, and
 * both are asked for, SHMEM_UNMAP and SHMEM_MAP.
 *
 * A front end gives its channel once, so a stop keeps it. The answer that is due then is waited for
 * as before, but says nothing about what is mapped after the stop: a start that comes meanwhile
 * asks when it is there.
 *
 * The front end may have a duplicate of the broker's end of the channel. A read(2) by which it waits
 * for its target page (userfaultfd, FUSE) keeps the lock that every read of a UNIX socket takes, also
 * with MSG_DONTWAIT. A thread therefore reads the channel, and the loop gets what it has read.
 */
#define _GNU_SOURCE
#include "vu.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "vgb_deadline.h"
#include "vgb_fd.h"

#define HEADER_BYTES 12u
#define REPLY_BYTES (HEADER_BYTES + 8u)
#define READS_MAX 8u /* reads under way, also of channels that were given up */

static struct vgb_ratelimit limit;

/* A read of the channel, beside the loop. */
struct channel_read {
    struct brk_task task;
    int fd; /* duplicate of the channel */
    uint8_t data[REPLY_BYTES];
    size_t want;
    ssize_t got; /* as vgb_recv_fds() */
    int fds[BRK_VU_REGIONS];
    unsigned nfds;
};

static unsigned nreads;

static struct {
    int windows;                     /* memfd, sealed; -1: the front end has not asked */
    struct brk_source channel;       /* watched only while an answer is due and no read is under way */
    const struct channel_read *read; /* under way; NULL: none */
    struct brk_source timer;
    uint32_t asked;  /* BRK_VU_BACKEND_*, 0: no answer is due */
    bool stopped;    /* the device was stopped since the request */
    bool tried;      /* tried since the device was started or a channel was set */
    bool was_mapped; /* the windows were mapped at some time in this connection */
    bool unmapped;   /* SHMEM_UNMAP was requested since */
    uint8_t reply[REPLY_BYTES];
    size_t have; /* bytes of the answer */
} shm = {.windows = -1, .channel = {.fd = -1}, .timer = {.fd = -1}};

/* A BAR's size is a power of two, and QEMU's is the sum of the regions. */
static uint64_t windows_size(const struct vgpu_config *c)
{
    uint64_t size = VGP_WINDOW_MIN;

    while (size < (uint64_t)c->max_clients * c->window_size)
        size *= 2;
    return size;
}

static bool make_windows(uint64_t size)
{
    int fd = memfd_create("vgpu-windows", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return false;
    if (ftruncate(fd, (off_t)size) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
        close(fd);
        return false;
    }
    shm.windows = fd;
    brk_vu_dev.shmem_size = size;
    return true;
}

const char *brk_vu_shmem_config(struct brk_vu_payload_shmem *c)
{
    if (shm.windows < 0 && brk_vu_dev.windows_fd >= 0)
        return "the memory table had windows already";
    if (shm.windows < 0 && !make_windows(windows_size(&brk_vu_dev.config)))
        return strerror(errno);
    memset(c, 0, sizeof(*c));
    c->nregions = 1;
    c->sizes[VGPU_SHMID_WINDOWS] = brk_vu_dev.shmem_size;
    return NULL;
}

/* Clears the pending request. */
static void wait_end(void)
{
    if (!shm.asked)
        return;
    shm.asked = 0;
    brk_vu_dev.shmem_waiting = false;
    shm.stopped = false;
    brk_loop_del(&shm.channel);
    brk_loop_del(&shm.timer);
    vgb_close(&shm.timer.fd);
}

static void channel_close(void)
{
    wait_end();
    if (shm.channel.fd >= 0)
        brk_foreign_close(shm.channel.fd);
    shm.channel.fd = -1;
    shm.read = NULL; /* what it reads is dropped */
}

static void vu_shmem_fail(const char *why)
{
    wait_end();
    vgb_log_limited(&limit, VGB_ERROR, "vhost-user: the front end has not mapped the windows: %s", why);
    brk_vu_device_control();
}

/* Handles a late or wrong answer: the channel is unusable, as later data could be mistaken for the
 * next answer. */
static void fail_for_good(const char *why)
{
    channel_close();
    vu_shmem_fail(why);
}

static void on_timer(struct brk_source *s, uint32_t events)
{
    (void)s;
    (void)events;
    fail_for_good("it does not answer");
}

static bool timer_start(void)
{
    struct itimerspec at = {.it_value = {.tv_sec = VGB_SHMEM_MS / 1000}};

    shm.timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    shm.timer.ready = on_timer;
    if (shm.timer.fd < 0)
        return false;
    if (timerfd_settime(shm.timer.fd, 0, &at, NULL) || brk_loop_add(&shm.timer, EPOLLIN)) {
        vgb_close(&shm.timer.fd);
        return false;
    }
    return true;
}

static void on_channel(struct brk_source *s, uint32_t events);

/* Begins to wait for the answer to a request. */
static bool wait_begin(uint32_t request)
{
    if (!timer_start())
        return false;
    shm.channel.ready = on_channel;
    if (brk_loop_add(&shm.channel, EPOLLIN)) {
        brk_loop_del(&shm.timer);
        vgb_close(&shm.timer.fd);
        return false;
    }
    shm.asked = request;
    brk_vu_dev.shmem_waiting = true;
    shm.have = 0;
    return true;
}

static void send_shmem_request(uint32_t request)
{
    struct {
        struct brk_vu_header h;
        uint8_t payload[sizeof(struct brk_vu_payload_mmap)];
    } m = {.h = {.request = request,
                 .flags = BRK_VU_VERSION | BRK_VU_FLAG_NEED_REPLY,
                 .size = sizeof(struct brk_vu_payload_mmap)}};
    struct brk_vu_payload_mmap map = {
        .shmid = VGPU_SHMID_WINDOWS, .len = brk_vu_dev.shmem_size, .flags = BRK_VU_SHMEM_WRITABLE};

    _Static_assert(sizeof(m) == HEADER_BYTES + sizeof(map), "message without padding");
    memcpy(m.payload, &map, sizeof(map));
    if (shm.channel.fd < 0) {
        vu_shmem_fail("it has given no channel for requests of the back end");
        return;
    }
    if (vgb_send_fds(shm.channel.fd, &m, sizeof(m), &shm.windows, request == BRK_VU_BACKEND_SHMEM_MAP,
                     MSG_DONTWAIT) != (ssize_t)sizeof(m))
        fail_for_good("its channel for requests of the back end takes none");
    else if (!wait_begin(request))
        fail_for_good("out of descriptors or memory");
}

static void shmem_mapped(void)
{
    shm.was_mapped = true;
    brk_vu_device_windows(fcntl(shm.windows, F_DUPFD_CLOEXEC, 3));
    if (brk_vu_dev.windows_fd < 0) {
        vu_shmem_fail("out of descriptors");
        return;
    }
    brk_vu_dev.windows_offset = 0;
    brk_vu_dev.windows_size = brk_vu_dev.shmem_size;
    brk_vu_device_control();
}

static void on_answer(uint32_t request, bool done)
{
    const bool stopped = shm.stopped;

    wait_end();
    if (stopped) {
        shm.was_mapped |= done && request == BRK_VU_BACKEND_SHMEM_MAP;
        if (brk_vu_device_started())
            brk_vu_shmem_start();
    } else if (request == BRK_VU_BACKEND_SHMEM_UNMAP) {
        send_shmem_request(BRK_VU_BACKEND_SHMEM_MAP);
    } else if (done) {
        shmem_mapped();
    } else if (shm.was_mapped && !shm.unmapped) {
        shm.unmapped = true;
        send_shmem_request(BRK_VU_BACKEND_SHMEM_UNMAP);
    } else {
        vu_shmem_fail("it refuses to");
    }
}

static void on_bytes(const uint8_t *data, size_t n)
{
    struct brk_vu_header h;
    uint32_t asked = shm.asked;
    uint64_t refused;

    memcpy(shm.reply + shm.have, data, n);
    shm.have += n;
    if (shm.have < REPLY_BYTES) {
        if (brk_loop_add(&shm.channel, EPOLLIN))
            fail_for_good("out of memory");
        return;
    }
    memcpy(&h, shm.reply, HEADER_BYTES);
    memcpy(&refused, shm.reply + HEADER_BYTES, sizeof(refused));
    if (h.request != asked || h.flags != (BRK_VU_VERSION | BRK_VU_FLAG_REPLY) || h.size != sizeof(refused))
        fail_for_good("its answer is malformed");
    else
        on_answer(asked, !refused);
}

static void channel_read(struct brk_task *t)
{
    struct channel_read *r = (struct channel_read *)t; /* its first member */

    r->nfds = BRK_VU_REGIONS;
    r->got = vgb_recv_fds(r->fd, r->data, r->want, r->fds, &r->nfds, MSG_DONTWAIT);
}

static void channel_read_end(struct brk_task *t)
{
    struct channel_read *r = (struct channel_read *)t;
    const bool current = r == shm.read;

    nreads--;
    brk_foreign_close(r->fd);
    if (r->got >= 0)
        brk_foreign_close_all(r->fds, r->nfds);
    if (current) {
        shm.read = NULL;
        if (r->got > 0 || r->got == -EAGAIN)
            on_bytes(r->data, r->got > 0 ? (size_t)r->got : 0);
        else
            fail_for_good("it has closed the channel for requests of the back end");
    }
    free(r);
}

static bool channel_read_begin(void)
{
    struct channel_read *r = nreads < READS_MAX ? calloc(1, sizeof(*r)) : NULL;

    if (!r)
        return false;
    r->task = (struct brk_task){.run = channel_read, .done = channel_read_end};
    r->want = REPLY_BYTES - shm.have;
    r->fd = fcntl(shm.channel.fd, F_DUPFD_CLOEXEC, 3);
    if (r->fd < 0 || !brk_task_start(&r->task)) {
        if (r->fd >= 0)
            brk_foreign_close(r->fd);
        free(r);
        return false;
    }
    nreads++;
    shm.read = r;
    return true;
}

static void on_channel(struct brk_source *s, uint32_t events)
{
    (void)events;
    brk_loop_del(s);
    if (!channel_read_begin())
        fail_for_good("out of memory or descriptors, or reads of its channels do not return");
}

/* Sockets of other families have queues of errors, which a read leaves there: the loop would spin. */
static bool is_unix_stream(int fd)
{
    int type = 0, family = AF_UNSPEC;
    socklen_t type_size = sizeof(type), family_size = sizeof(family);

    return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size) && type == SOCK_STREAM &&
           !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &family_size) && family == AF_UNIX;
}

bool brk_vu_shmem_channel(int fd)
{
    if (!is_unix_stream(fd)) {
        brk_foreign_close(fd);
        return false;
    }
    channel_close(); /* with any pending request */
    shm.channel.fd = fd;
    shm.tried = false;
    if (brk_vu_device_started())
        brk_vu_shmem_start();
    return true;
}

void brk_vu_shmem_start(void)
{
    if (shm.windows < 0 || shm.tried || brk_vu_dev.windows_fd >= 0 || shm.asked)
        return;
    shm.tried = true;
    shm.unmapped = false;
    send_shmem_request(BRK_VU_BACKEND_SHMEM_MAP);
}

void brk_vu_shmem_stop(void)
{
    if (shm.windows < 0)
        return;
    shm.stopped = shm.asked != 0;
    shm.tried = false;
    brk_vu_device_windows(-1);
}

void brk_vu_shmem_reset(void)
{
    channel_close();
    if (shm.windows >= 0)
        brk_foreign_close(shm.windows); /* may free the pages of all clients */
    shm.windows = -1;
    brk_vu_dev.shmem_size = 0;
    shm.tried = shm.was_mapped = false;
}
