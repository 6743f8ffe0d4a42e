// SPDX-License-Identifier: MIT
/*
 * hostile_backend SOCKET SCENARIO: a backend that violates the protocol; serves clients in turn.
 * --list prints the scenarios. libcuda must react to each with an error: no crash, no hang, no
 * success.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "vgp_calls.h"
#include "vgp_ring.h"
#include "vgp_sock.h"

#define WINDOW (16u << 20)

static const char *const scenarios[] = {
    "close",
    "short_answer",
    "unknown_answer",
    "refused_no_end",
    "no_fds",
    "one_fd",
    "wrong_fds",
    "size_zero",
    "size_huge",
    "size_past_file",
    "no_magic",
    "version",
    "ring_size_odd",
    "ring_size_zero",
    "ring_past_window",
    "replies_past_window",
    "slots_zero",
    "slots_huge",
    "slot_size_zero",
    "notify_past_window",
    "notify_size_odd",
    "staging_past_window",
    "staging_wraps",
    "dead",
    "dead_no_text_end",
    "shrinks",
    "reply_size",
    "reply_result",
    "reply_zeros",
    "reply_ones",
    "notify_garbage",
    "notify_ahead",
    "head_ahead",
    "hello_names",
    NULL,
};

static const char *scenario;
static int is(const char *name)
{
    return !strcmp(scenario, name);
}

static void fill_header(struct vgp_window_shared *h)
{
    h->version_major = is("version") ? 9 : VGP_VERSION_MAJOR;
    h->version_minor = VGP_VERSION_MINOR;
    h->window_size = WINDOW;
    h->ring_offset = is("ring_past_window") ? WINDOW - 4096 : 4096;
    h->ring_size = is("ring_size_odd") ? 5000 : is("ring_size_zero") ? 0 : VGP_RING_SIZE;
    h->reply_offset = is("replies_past_window") ? 0xfffff000u : 4096 + VGP_RING_SIZE;
    h->reply_slots = is("slots_zero") ? 0 : is("slots_huge") ? 0x40000000u : VGP_REPLY_SLOTS;
    h->reply_slot_size = is("slot_size_zero") ? 0 : VGP_REPLY_SLOT_SIZE;
    h->notify_offset =
        is("notify_past_window") ? WINDOW : h->reply_offset + VGP_REPLY_SLOTS * VGP_REPLY_SLOT_SIZE;
    h->notify_size = is("notify_size_odd") ? 12345 : VGP_NOTIFY_SIZE;
    h->staging_offset = is("staging_past_window") ? WINDOW : is("staging_wraps") ? ~0ull - 4095 : 2u << 20;
    h->staging_size = is("staging_wraps") ? 8192 : WINDOW - (2u << 20);
    h->worker_state = is("dead") || is("dead_no_text_end") ? VGP_WORKER_DEAD : VGP_WORKER_RUNNING;
    if (is("dead_no_text_end"))
        memset(h->dead_text, 'x', sizeof(h->dead_text));
    if (is("notify_garbage") || is("notify_ahead"))
        h->notify_tail = is("notify_ahead") ? ~0ull << 20 : 4096;
    if (is("head_ahead"))
        h->ring_head = 1u << 30;
    h->magic = is("no_magic") ? 0 : VGP_MAGIC;
}

static void send_welcome(int s, int *fds, int n, uint64_t size)
{
    struct vgp_sock_welcome w = {.type = VGP_SOCK_WELCOME, .window_size = size};
    char control[CMSG_SPACE(2 * sizeof(int))] = {0};
    struct iovec iov = {&w, sizeof(w)};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

    if (n) {
        m.msg_control = control;
        m.msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
        memcpy(CMSG_DATA(c), fds, (size_t)n * sizeof(int));
    }
    sendmsg(s, &m, MSG_NOSIGNAL);
}

/* Answers every record with the scenario's false reply until the client disconnects. */
static void serve(int s, uint8_t *base)
{
    struct vgp_window_shared *h = (void *)base;
    struct pollfd p = {.fd = s, .events = POLLIN};
    uint64_t head = 0;

    while (poll(&p, 1, 1) == 0) {
        uint64_t tail = __atomic_load_n(&h->ring_tail, __ATOMIC_ACQUIRE);
        while (head != tail && tail - head <= VGP_RING_SIZE) {
            struct vgp_record *rec = (void *)(base + 4096 + (head & (VGP_RING_SIZE - 1)));
            if (rec->size < 16 || rec->size > VGP_RING_SIZE)
                break;
            if (rec->call != VGP_CALL_PAD && rec->reply_slot < VGP_REPLY_SLOTS) {
                struct vgp_reply *r =
                    (void *)(base + 4096 + VGP_RING_SIZE + rec->reply_slot * VGP_REPLY_SLOT_SIZE);
                int fill = is("reply_ones") || is("hello_names") ? 0xff : 0;
                memset(r + 1, fill, VGP_REPLY_SLOT_SIZE - sizeof(*r));
                if (is("hello_names") && rec->call == VGP_vgpHello) {
                    struct vgp_ret_vgpHello *ret = (void *)(r + 1);
                    memset(ret, 0, sizeof(*ret));
                    ret->workerVersionMajor = VGP_VERSION_MAJOR;
                    ret->driverVersion = 13000;
                    ret->deviceCount = 0x7fffffff;
                    ret->provider_len = 128;
                }
                r->result = is("reply_result") ? -123456 : 0;
                r->size = is("reply_size") ? 0xffffffffu : VGP_REPLY_SLOT_SIZE - sizeof(*r);
                r->flags = is("reply_ones") ? ~0u : 0;
                __atomic_store_n(&r->seq, rec->reply_seq, __ATOMIC_RELEASE);
            }
            head += rec->size;
            __atomic_store_n(&h->ring_head, head, __ATOMIC_RELEASE);
        }
    }
}

static void client(int s)
{
    char hello[512];
    struct vgp_sock_refused refused = {.type = VGP_SOCK_REFUSED, .status = 1};
    int fds[2] = {memfd_create("hostile_backend", MFD_CLOEXEC | MFD_ALLOW_SEALING), eventfd(0, EFD_CLOEXEC)};
    uint64_t size = is("size_zero") ? 0 : is("size_huge") ? 1ull << 60 : WINDOW;
    uint32_t unknown[8] = {99};

    (void)!read(s, hello, sizeof(hello));
    if (is("close"))
        return;
    if (is("short_answer") || is("unknown_answer")) {
        (void)!write(s, unknown, is("short_answer") ? 3 : sizeof(unknown));
        return;
    }
    if (is("refused_no_end")) {
        memset(refused.text, 'x', sizeof(refused.text));
        (void)!write(s, &refused, sizeof(refused));
        return;
    }
    if (ftruncate(fds[0], is("size_past_file") ? 4096 : WINDOW))
        return;
    uint8_t *base = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    if (base == MAP_FAILED)
        return;
    if (!is("size_past_file"))
        fill_header((void *)base);
    if (is("notify_garbage"))
        memset(base + ((struct vgp_window_shared *)(void *)base)->notify_offset, 0xa7, 4096);
    if (!is("shrinks"))
        fcntl(fds[0], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    if (is("wrong_fds"))
        fds[0] = open("/dev/null", O_RDWR | O_CLOEXEC);
    send_welcome(s, fds, is("no_fds") ? 0 : is("one_fd") ? 1 : 2, size);
    if (is("shrinks")) {
        usleep(3000);
        (void)!ftruncate(fds[0], 4096);
        sleep(2);
    } else if (!is("size_past_file")) {
        serve(s, base);
    }
    close(fds[0]);
    close(fds[1]);
    munmap(base, WINDOW);
}

int main(int argc, char **argv)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    if (argc == 2 && !strcmp(argv[1], "--list")) {
        for (int i = 0; scenarios[i]; i++)
            puts(scenarios[i]);
        return 0;
    }
    if (argc != 3)
        return 2;
    scenario = argv[2];
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", argv[1]);
    unlink(argv[1]);
    int l = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (l < 0 || bind(l, (struct sockaddr *)&a, sizeof(a)) || listen(l, 8)) {
        perror(argv[1]);
        return 1;
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        int s = accept(l, NULL, NULL);
        if (s < 0)
            return 1;
        client(s);
        close(s);
    }
}
