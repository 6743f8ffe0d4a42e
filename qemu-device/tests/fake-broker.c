/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Broker for tests of the QEMU device: a vhost-user back end without CUDA.
 *
 *   fake-broker SOCKET [magic=N] [abi=N] [clients=N] [runs=N] [window=N]
 *               [vram=N] [pin=N] [reserved=N] [lacks=N] [adds=N] [silent=N]
 *
 * Listens on SOCKET, accepts one connection and reports received messages, one
 * event per line on stdout. The values are the fields of the offered
 * configuration; lacks: mask of virtio features not offered, adds: of further
 * ones offered; silent: number of messages after which the broker stops reading. Every request on the control
 * queue is answered with VGPU_S_OK. Commands on stdin, answered by a line:
 *
 *   peek OFFSET         byte of the client windows -> "peek VALUE"
 *   poke OFFSET VALUE   -> "poked"
 *   event TYPE CLIENT   puts an event on queue 1 -> "event LENGTH"
 *   messages            messages so far -> "messages last=REQUEST N"
 *   deaf                stops reading from the connection -> "deaf"
 *   die                 exits at once, without an orderly close
 *
 * Built with QEMU's libvhost-user.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/types.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "libvhost-user.h"
#include "vgpu_device.h"

#define MAX_QUEUES (VGPU_VQ_DOORBELL + VGPU_MAX_CLIENTS)
#define MAX_WATCHES (MAX_QUEUES + 8)

static struct watch {
    int fd;
    vu_watch_cb cb;
    void *data;
} watches[MAX_WATCHES];
static struct vgpu_config offer;
static uint64_t lacks, adds;
static unsigned long silent;
static VuDev dev;
static uint64_t window_size; /* bytes, size of the memfd received */
static uint64_t window_gpa;
static unsigned long messages;
static int last_message;
static bool finished;
static bool deaf;

static void say(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    fflush(stdout);
}

static void set_watch(VuDev *d, int fd, int condition, vu_watch_cb cb,
                      void *data)
{
    for (int i = 0; i < MAX_WATCHES; i++) {
        if (watches[i].cb == NULL || watches[i].fd == fd) {
            watches[i] = (struct watch) { .fd = fd, .cb = cb, .data = data };
            return;
        }
    }
}

static void remove_watch(VuDev *d, int fd)
{
    for (int i = 0; i < MAX_WATCHES; i++) {
        if (watches[i].cb != NULL && watches[i].fd == fd) {
            watches[i] = (struct watch) { .fd = -1 };
        }
    }
}

static void panic(VuDev *d, const char *msg)
{
    say("panic %s", msg);
    finished = true;
}

static uint64_t get_features(VuDev *d)
{
    return (1ull << VIRTIO_F_VERSION_1 | 1ull << VGPU_F_PIN |
            1ull << VGPU_F_PING |
            1ull << VHOST_USER_F_PROTOCOL_FEATURES | adds) & ~lacks;
}

static uint64_t get_protocol_features(VuDev *d)
{
    return 1ull << VHOST_USER_PROTOCOL_F_CONFIG |
           1ull << VHOST_USER_PROTOCOL_F_MQ |
           1ull << VHOST_USER_PROTOCOL_F_REPLY_ACK;
}

static void set_features(VuDev *d, uint64_t features)
{
    say("features 0x%llx", (unsigned long long)features);
}

/*
 * Reports the memory region of the windows: its name, size and seals are part
 * of the contract.
 */
static void look_at_region(VhostUserMemoryRegion region, int fd)
{
    char path[64], name[256];
    struct stat st = { 0 };
    ssize_t len;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    len = readlink(path, name, sizeof(name) - 1);
    name[len < 0 ? 0 : len] = 0;
    if (strncmp(name, "/memfd:vgpu-windows", 19)) {
        return;
    }
    fstat(fd, &st);
    window_gpa = region.guest_phys_addr;
    window_size = st.st_size;
    say("window size=%llu region=%llu seals=0x%x",
        (unsigned long long)st.st_size, (unsigned long long)region.memory_size,
        fcntl(fd, F_GET_SEALS));
}

/*
 * libvhost-user always offers CONFIGURE_MEM_SLOTS, so regions arrive one by
 * one.
 */
static int process_msg(VuDev *d, VhostUserMsg *msg, int *do_reply)
{
    messages++;
    deaf |= messages == silent;
    last_message = msg->request;
    if (msg->request == VHOST_USER_ADD_MEM_REG && msg->fd_num == 1) {
        look_at_region(msg->payload.memreg.region, msg->fds[0]);
    } else if (msg->request == VHOST_USER_SET_MEM_TABLE) {
        for (int i = 0; i < msg->fd_num; i++) {
            look_at_region(msg->payload.memory.regions[i], msg->fds[i]);
        }
    } else if (msg->request == VHOST_USER_NONE) {
        say("disconnected");
        exit(0);
    }
    return 0;
}

static void handle_queue(VuDev *d, int qidx)
{
    VuVirtq *vq = vu_get_queue(d, qidx);
    struct vgpu_resp_hdr resp = { .status = VGPU_S_OK };
    VuVirtqElement *elem;

    say("kick %d", qidx);
    if (qidx != VGPU_VQ_CONTROL) {
        return;
    }
    while ((elem = vu_queue_pop(d, vq, sizeof(*elem)))) {
        struct vgpu_cmd_hdr hdr = { 0 };
        unsigned int len = 0;

        if (elem->out_num && elem->out_sg[0].iov_len >= sizeof(hdr)) {
            memcpy(&hdr, elem->out_sg[0].iov_base, sizeof(hdr));
        }
        if (elem->in_num && elem->in_sg[0].iov_len >= sizeof(resp)) {
            memcpy(elem->in_sg[0].iov_base, &resp, sizeof(resp));
            len = sizeof(resp);
        }
        say("request type=%u client=%u", hdr.type, hdr.client);
        vu_queue_push(d, vq, elem, len);
        vu_queue_notify(d, vq);
        free(elem);
    }
}

static void queue_set_started(VuDev *d, int qidx, bool started)
{
    say("%s %d", started ? "started" : "stopped", qidx);
    vu_set_queue_handler(d, vu_get_queue(d, qidx),
                         started ? handle_queue : NULL);
}

static bool in_order(VuDev *d, int qidx)
{
    return true;
}

static int get_config(VuDev *d, uint8_t *config, uint32_t len)
{
    if (len > sizeof(offer)) {
        return -1;
    }
    memcpy(config, &offer, len);
    return 0;
}

static int set_config(VuDev *d, const uint8_t *data, uint32_t offset,
                      uint32_t size, uint32_t flags)
{
    struct vgpu_config c;

    if (offset != 0 || size != sizeof(c)) {
        return -1;
    }
    memcpy(&c, data, sizeof(c));
    say("config clients=%u runs=%u window=%llu vram=%llu pin=%llu",
        c.max_clients, c.max_pin_runs, (unsigned long long)c.window_size,
        (unsigned long long)c.vram_quota, (unsigned long long)c.pin_quota);
    return 0;
}

static const VuDevIface iface = {
    .get_features = get_features,
    .set_features = set_features,
    .get_protocol_features = get_protocol_features,
    .process_msg = process_msg,
    .queue_set_started = queue_set_started,
    .queue_is_processed_in_order = in_order,
    .get_config = get_config,
    .set_config = set_config,
};

static int send_event(uint32_t type, uint32_t client)
{
    VuVirtq *vq = vu_get_queue(&dev, VGPU_VQ_EVENT);
    struct vgpu_event ev = { .type = type, .client = client };
    VuVirtqElement *elem = vu_queue_pop(&dev, vq, sizeof(*elem));

    if (!elem || !elem->in_num || elem->in_sg[0].iov_len < sizeof(ev)) {
        free(elem);
        return 0;
    }
    memcpy(elem->in_sg[0].iov_base, &ev, sizeof(ev));
    vu_queue_push(&dev, vq, elem, sizeof(ev));
    vu_queue_notify(&dev, vq);
    free(elem);
    return sizeof(ev);
}

static void command(char *line)
{
    unsigned long long a = 0, b = 0;
    uint64_t len = 1;
    uint8_t *p;

    if (sscanf(line, "peek %llu", &a) == 1) {
        p = a < window_size ? vu_gpa_to_va(&dev, &len, window_gpa + a) : NULL;
        say("peek %d", p ? *p : -1);
    } else if (sscanf(line, "poke %llu %llu", &a, &b) == 2) {
        p = a < window_size ? vu_gpa_to_va(&dev, &len, window_gpa + a) : NULL;
        if (p) {
            *p = b;
        }
        say(p ? "poked" : "not poked");
    } else if (sscanf(line, "event %llu %llu", &a, &b) == 2) {
        say("event %d", send_event(a, b));
    } else if (!strncmp(line, "messages", 8)) {
        say("messages last=%d %lu", last_message, messages);
    } else if (!strncmp(line, "deaf", 4)) {
        deaf = true;
        say("deaf");
    } else if (!strncmp(line, "die", 3)) {
        _exit(0);
    }
}

static bool parse_option(const char *arg)
{
    char name[32];
    unsigned long long v;

    if (sscanf(arg, "%31[a-z]=%lli", name, (long long *)&v) != 2) {
        return false;
    }
    if (!strcmp(name, "magic")) {
        offer.magic = v;
    } else if (!strcmp(name, "abi")) {
        offer.abi_version = v;
    } else if (!strcmp(name, "clients")) {
        offer.max_clients = v;
    } else if (!strcmp(name, "runs")) {
        offer.max_pin_runs = v;
    } else if (!strcmp(name, "window")) {
        offer.window_size = v;
    } else if (!strcmp(name, "vram")) {
        offer.vram_quota = v;
    } else if (!strcmp(name, "pin")) {
        offer.pin_quota = v;
    } else if (!strcmp(name, "reserved")) {
        offer.reserved[0] = v;
    } else if (!strcmp(name, "silent")) {
        silent = v;
    } else if (!strcmp(name, "lacks")) {
        lacks = v;
    } else if (!strcmp(name, "adds")) {
        adds = v;
    } else {
        return false;
    }
    return true;
}

/* "@NAME" is an abstract name of its own length, "@@NAME" a padded name. */
static socklen_t make_address(struct sockaddr_un *addr, const char *path)
{
    bool padded = path[0] == '@' && path[1] == '@';
    const char *name = path + padded;

    snprintf(addr->sun_path, sizeof(addr->sun_path), "%s", name);
    if (path[0] != '@') {
        unlink(path);
        return sizeof(*addr);
    }
    addr->sun_path[0] = '\0';
    return padded ? sizeof(*addr) : offsetof(struct sockaddr_un, sun_path) + strlen(name);
}

static int wait_for_qemu(const char *path)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = make_address(&addr, path);

    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, size) ||
        listen(fd, 1)) {
        perror(path);
        exit(1);
    }
    say("listening");
    return accept4(fd, NULL, NULL, SOCK_CLOEXEC);
}

/* Polls stdin, the connection, and the kick descriptors of the queues. */
static void serve(int conn)
{
    while (!finished) {
        struct pollfd fds[MAX_WATCHES + 2] = {
            { .fd = 0, .events = POLLIN },
            { .fd = deaf ? -1 : conn, .events = POLLIN },
        };

        for (int i = 0; i < MAX_WATCHES; i++) {
            fds[i + 2].fd = watches[i].cb ? watches[i].fd : -1;
            fds[i + 2].events = POLLIN;
        }
        if (poll(fds, MAX_WATCHES + 2, -1) < 0 && errno != EINTR) {
            return;
        }
        for (int i = 0; i < MAX_WATCHES; i++) {
            if (fds[i + 2].revents && watches[i].cb &&
                watches[i].fd == fds[i + 2].fd) {
                watches[i].cb(&dev, VU_WATCH_IN, watches[i].data);
            }
        }
        if (fds[1].revents && !vu_dispatch(&dev)) {
            finished = true;
        }
        if (fds[0].revents) {
            char line[128];
            ssize_t n = read(0, line, sizeof(line) - 1);

            if (n <= 0) {
                return;
            }
            line[n] = 0;
            command(line);
        }
    }
}

int main(int argc, char **argv)
{
    int conn;

    offer = (struct vgpu_config) {
        .magic = VGPU_CONFIG_MAGIC,
        .abi_version = VGPU_DEVICE_ABI_VERSION,
        .max_clients = VGPU_MAX_CLIENTS,
        .max_pin_runs = VGPU_MAX_PIN_RUNS,
        .window_size = 64 << 20,
    };
    for (int i = 2; i < argc; i++) {
        if (!parse_option(argv[i])) {
            fprintf(stderr, "unknown option %s\n", argv[i]);
            return 2;
        }
    }
    if (argc < 2) {
        fprintf(stderr, "usage: fake-broker SOCKET [field=value...]\n");
        return 2;
    }
    for (int i = 0; i < MAX_WATCHES; i++) {
        watches[i].fd = -1;
    }
    conn = wait_for_qemu(argv[1]);
    if (conn < 0 || !vu_init(&dev, MAX_QUEUES, conn, panic, NULL, set_watch,
                             remove_watch, &iface)) {
        return 1;
    }
    say("connected");
    serve(conn);
    say("disconnected");
    return 0;
}
