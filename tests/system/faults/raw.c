// SPDX-License-Identifier: MIT
#include "raw.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "vgpu_ioctl.h"

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

int raw_connect(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a))) {
        fprintf(stderr, "raw: %s: %s\n", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    return fd;
}

static bool is_device(const char *path)
{
    return !strncmp(path, "/dev/", 5);
}

static int open_device(struct raw *r, const char *path)
{
    struct vgpu_create_client c = {0};

    r->sock = open(path, O_RDWR | O_CLOEXEC);
    if (r->sock < 0 || ioctl(r->sock, VGPU_IOCTL_CREATE_CLIENT, &c)) {
        fprintf(stderr, "raw: %s: %s\n", path, strerror(errno));
        if (r->sock >= 0)
            close(r->sock);
        return -1;
    }
    r->window_size = c.window_size;
    r->base = mmap(NULL, c.window_size, PROT_READ | PROT_WRITE, MAP_SHARED, r->sock, (off_t)c.window_offset);
    uint8_t *page = mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, r->sock, (off_t)c.doorbell_offset);
    if (r->base == MAP_FAILED || page == MAP_FAILED) {
        perror("raw: mmap");
        return -1;
    }
    r->bell_page = (volatile uint16_t *)(void *)(page + c.doorbell_in_page);
    r->bell_value = (uint16_t)c.doorbell_value;
    return 0;
}

static void ring_bell(struct raw *r)
{
    uint64_t one = 1;

    if (r->bell_page)
        *r->bell_page = r->bell_value;
    else if (write(r->bell, &one, sizeof(one)) != sizeof(one))
        perror("raw: doorbell");
}

/* True if the broker has closed the connection or, with the device, the driver reports the end. */
static bool is_over(struct raw *r, uint64_t end_ms)
{
    struct pollfd p = {.fd = r->sock, .events = POLLIN};
    char buf[512];

    for (;;) {
        int left = (int)(end_ms - now_ms());
        if (left <= 0)
            return false;
        if (r->bell_page) {
            struct vgpu_wait w = {.seen = ~0ull, .deadline_ns = 0};
            if ((ioctl(r->sock, VGPU_IOCTL_WAIT, &w) == 0 || errno == ENODEV) && w.state)
                return true;
            usleep(1000);
        } else if (poll(&p, 1, left) != 1) {
            return false;
        } else if (recv(r->sock, buf, sizeof(buf), 0) <= 0) {
            return true;
        }
    }
}

static int welcome(struct raw *r, int *window)
{
    char control[CMSG_SPACE(2 * sizeof(int))];
    union {
        struct vgp_sock_welcome welcome;
        struct vgp_sock_refused refused;
    } m;
    struct iovec iov = {&m, sizeof(m)};
    struct msghdr h = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    struct pollfd p = {.fd = r->sock, .events = POLLIN};

    if (poll(&p, 1, RAW_WAIT_MS) != 1 || recvmsg(r->sock, &h, MSG_CMSG_CLOEXEC) < 8)
        return -1;
    struct cmsghdr *c = CMSG_FIRSTHDR(&h);
    if (m.welcome.type != VGP_SOCK_WELCOME || !c || c->cmsg_type != SCM_RIGHTS) {
        if (m.welcome.type == VGP_SOCK_REFUSED)
            fprintf(stderr, "raw: refused: %.255s\n", m.refused.text);
        return -1;
    }
    memcpy(window, CMSG_DATA(c), sizeof(int));
    memcpy(&r->bell, CMSG_DATA(c) + sizeof(int), sizeof(int));
    r->window_size = m.welcome.window_size;
    return 0;
}

int raw_open(struct raw *r, const char *path)
{
    struct vgp_sock_hello hello = {.type = VGP_SOCK_HELLO,
                                   .version_major = VGP_VERSION_MAJOR,
                                   .version_minor = VGP_VERSION_MINOR,
                                   .label = "raw"};
    int window = -1;

    memset(r, 0, sizeof(*r));
    r->bell = -1;
    if (is_device(path)) {
        if (open_device(r, path))
            return -1;
        goto mapped;
    }
    r->sock = raw_connect(path);
    if (r->sock < 0)
        return -1;
    if (send(r->sock, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello) || welcome(r, &window)) {
        fprintf(stderr, "raw: no welcome\n");
        close(r->sock);
        return -1;
    }
    r->base = mmap(NULL, r->window_size, PROT_READ | PROT_WRITE, MAP_SHARED, window, 0);
    close(window);
    if (r->base == MAP_FAILED) {
        perror("raw: mmap");
        return -1;
    }
mapped:
    r->w = (void *)r->base;
    r->ring = r->base + r->w->ring_offset;
    r->ring_size = r->w->ring_size;
    r->slots = r->w->reply_slots;
    r->slot_size = r->w->reply_slot_size;
    r->reply_offset = r->w->reply_offset;
    return 0;
}

void raw_close(struct raw *r)
{
    if (r->base)
        munmap(r->base, r->window_size);
    if (r->bell >= 0)
        close(r->bell);
    if (r->bell_page)
        munmap((void *)((uintptr_t)r->bell_page & ~(uintptr_t)4095), 4096);
    close(r->sock);
}

struct vgp_record *raw_put(struct raw *r, uint16_t call, const void *args, uint32_t args_size, uint32_t slot)
{
    uint32_t size = (uint32_t)sizeof(struct vgp_record) + ((args_size + 15) & ~15u);
    uint32_t at = (uint32_t)r->tail & (r->ring_size - 1);

    if (size > r->ring_size - at) {
        struct vgp_record *pad = (void *)(r->ring + at);
        uint32_t rest = r->ring_size - at;
        memset(pad, 0, rest < sizeof(*pad) ? rest : sizeof(*pad));
        pad->size = rest;
        pad->call = VGP_CALL_PAD;
        if (rest >= sizeof(*pad))
            pad->reply_slot = VGP_NO_REPLY;
        r->tail += rest;
        at = 0;
    }
    struct vgp_record *rec = (void *)(r->ring + at);
    memset(rec, 0, size);
    rec->size = size;
    rec->call = call;
    rec->reply_slot = slot;
    rec->reply_seq = ++r->seq;
    rec->context = r->context;
    if (args_size)
        memcpy(rec + 1, args, args_size);
    r->tail += size;
    return rec;
}

void raw_publish_tail(struct raw *r, uint64_t tail)
{
    atomic_thread_fence(memory_order_release);
    r->w->ring_tail = tail;
    atomic_thread_fence(memory_order_seq_cst);
    ring_bell(r);
}

void raw_publish(struct raw *r)
{
    raw_publish_tail(r, r->tail);
}

bool raw_is_dead(const struct raw *r)
{
    return r->w->worker_state == VGP_WORKER_DEAD;
}

int raw_call(struct raw *r, uint16_t call, const void *args, uint32_t size, void *payload,
             uint32_t payload_size)
{
    volatile struct vgp_reply *slot = (void *)(r->base + r->reply_offset);
    struct vgp_record *rec = raw_put(r, call, args, size, 0);
    uint32_t seq = rec->reply_seq;
    uint64_t end = now_ms() + RAW_WAIT_MS;

    raw_publish(r);
    while (slot->seq != seq) {
        if (raw_is_dead(r))
            return -1;
        if (now_ms() > end)
            return -2;
        usleep(50);
    }
    atomic_thread_fence(memory_order_acquire);
    if (payload)
        memcpy(payload, (const void *)(slot + 1), payload_size);
    return slot->result;
}

bool raw_ping(struct raw *r)
{
    struct vgp_args_vgpPing a = {.value = 0x1122334455667788ULL + r->seq};
    struct vgp_ret_vgpPing ret = {0};
    return raw_call(r, VGP_vgpPing, &a, sizeof(a), &ret, sizeof(ret)) == 0 && ret.echo == a.value;
}

bool raw_settle(struct raw *r)
{
    uint64_t end = now_ms() + RAW_WAIT_MS;
    while (!raw_is_dead(r) && r->w->ring_head != r->w->ring_tail) {
        if (now_ms() > end)
            return false;
        usleep(50);
    }
    return true;
}

const char *raw_wait_dead(struct raw *r)
{
    uint64_t end = now_ms() + RAW_WAIT_MS;

    while (!raw_is_dead(r)) {
        if (now_ms() > end)
            return "worker_state is not DEAD";
        usleep(100);
    }
    if (!is_over(r, end)) /* the broker may still be about to write the reason */
        return "the connection stays open";
    if (!r->w->dead_reason)
        return "no reason"; /* libcuda turns it into the sticky error */
    if (!r->w->dead_text[0] || !memchr((const char *)r->w->dead_text, 0, sizeof(r->w->dead_text)))
        return "no text";
    return NULL;
}
