/* SPDX-License-Identifier: MIT */
/*
 * All untrusted peers against the broker: the guest on its control queue, QEMU over vhost-user, workers on
 * their sockets. An input is a sequence of steps of these three, after an honest QEMU's set-up (most inputs)
 * or without it.
 *
 * Each input has its own process, since the broker keeps its state in variables. Its workers are sleeping
 * processes, whose messages come from the input. A sanitizer's report, death by a signal, or a broker that
 * does not return from an event is a finding.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clients/clients.h"
#include "fork.h"
#include "lib/sha256/sha256.h"
#include "transport/transport.h"
#include "transport/vu.h"
#include "vgb_fd.h"

#define CLIENTS 4u
#define WINDOW (4u << 20)
#define RAM_GPA 0x100000u
#define RAM_SIZE (1u << 20)
#define RAM_UVA 0x7f0000000000ull
#define WIN_GPA 0x100000000ull
#define NUM 16u
#define WORKERS_MAX 32u
#define STEPS_MAX 120
#define LIMIT_S 120 /* of one input; generous, as the machine is shared */
#define IMAGES 4u
#define IMAGE_SIZE (VGP_BLOB_OFFER + 4096u)

/* ---- the input ---- */

static const uint8_t *in, *in_end;

static uint32_t byte(void)
{
    return in < in_end ? *in++ : 0;
}

static uint64_t number(void)
{
    static const uint64_t odd[] = {0,          1,       4095,    4096,    1u << 31,  UINT32_MAX,
                                   UINT64_MAX, RAM_GPA, RAM_UVA, WIN_GPA, INT64_MAX, RAM_SIZE};
    uint32_t b = byte();

    if (b < 100)
        return odd[b % (sizeof(odd) / sizeof(odd[0]))];
    if (b < 180)
        return b % 8;
    return (uint64_t)byte() << (b % 8 * 8) | byte();
}

static void bytes(void *to, size_t n)
{
    for (uint8_t *p = to; n--; p++)
        *p = (uint8_t)byte();
}

/* ---- workers, as started by the pool ---- */

static struct {
    int sock;    /* the worker's end */
    int filling; /* memory for an image, the latest that it was given; -1: none */
    uint64_t number;
} worker[WORKERS_MAX];
static unsigned nworkers;
static int last_pair = -1;

/* Overrides the C library's function: keeps the other ends of the sockets that the pool gives its workers. */
int socketpair(int domain, int type, int protocol, int pair[2])
{
    int r = (int)syscall(SYS_socketpair, domain, type, protocol, pair);

    if (!r && (type & 0xff) == SOCK_SEQPACKET)
        last_pair = dup(pair[1]);
    return r;
}

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *fa,
                const posix_spawnattr_t *at, char *const argv[], char *const env[])
{
    int (*real)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                char *const[], char *const[]) = NULL;
    static char *const sleeper[] = {(char *)"sleep", (char *)"150", NULL}; /* longer than an input may take */
    void *sym = dlsym(RTLD_NEXT, "posix_spawn");

    (void)path, (void)fa, (void)at, (void)argv;
    memcpy(&real, &sym, sizeof(real));
    if (nworkers == WORKERS_MAX || !real || real(pid, "/bin/sleep", NULL, NULL, sleeper, env))
        return EAGAIN;
    worker[nworkers].filling = -1;
    worker[nworkers++].sock = last_pair;
    return 0;
}

static void say(unsigned i, const struct vgb_msg *m)
{
    /* As it comes: without the descriptors that a broker never takes. */
    if (worker[i].sock >= 0)
        vgb_msg_send(worker[i].sock, m, NULL, 0, MSG_DONTWAIT);
}

static void honest_start(unsigned i)
{
    struct vgb_msg layers = {.type = VGB_M_SANDBOX, .text = "a sandbox"},
                   ready = {.type = VGB_M_READY, .value = 1};

    say(i, &layers);
    say(i, &ready);
}

static void worker_step(void)
{
    unsigned i = nworkers ? byte() % nworkers : 0;
    struct vgb_msg m = {.type = byte() % 32};

    if (!nworkers)
        return;
    m.status = (uint32_t)number();
    m.region = byte() % 8;
    m.flags = byte() % 6;
    m.reason = byte();
    m.nruns = (uint32_t)number();
    m.va = number();
    m.length = number();
    m.offset = number();
    m.value = number();
    bytes(m.text, byte() % 32);
    if (m.type >= VGB_M_SHARE_NEW && m.type <= VGB_M_SHARE_DROP)
        bytes(&m.share, byte() % 64);
    switch (byte() % 16) {
    case 0:
        honest_start(i);
        break;
    case 1:
        vgb_close(&worker[i].sock);
        break;
    case 2: /* not a message */
        if (worker[i].sock >= 0)
            send(worker[i].sock, &m, byte(), MSG_DONTWAIT | MSG_NOSIGNAL);
        break;
    case 3:
        for (int k = 0; k < 40; k++)
            say(i, &m);
        break;
    default:
        say(i, &m);
    }
}

/* ---- images ---- */

/* Image k and its hash: the same for all workers, so that they find each other's images. */
static const uint8_t *image(unsigned k, uint8_t hash[SHA_256_BYTES])
{
    static uint8_t bytes_of[IMAGE_SIZE];

    memset(bytes_of, (int)(k + 1), sizeof(bytes_of));
    sha_256(bytes_of, sizeof(bytes_of), hash);
    return bytes_of;
}

/* Requests an image, fills its memory, correctly or not, and reports it complete, correctly or not. */
static void image_step(void)
{
    unsigned i = nworkers ? byte() % nworkers : 0, what = byte();
    uint8_t hash[SHA_256_BYTES];
    const uint8_t *data = image(what % IMAGES, hash);
    struct vgb_msg ask = {.type = VGB_M_IMAGE_ASK, .length = IMAGE_SIZE},
                   filled = {.type = VGB_M_IMAGE_FILLED, .status = what % 16 == 15};

    if (!nworkers)
        return;
    if (what < 128) {
        memcpy(ask.image.hash, hash, sizeof(hash));
        ask.length = what % 32 == 31 ? number() : IMAGE_SIZE;
        say(i, &ask);
        return;
    }
    if (worker[i].filling >= 0) {
        size_t n = what % 32 == 30 ? byte() : IMAGE_SIZE;

        if (pwrite(worker[i].filling, data, n, 0) < 0 || (what % 32 == 29 && ftruncate(worker[i].filling, 0)))
            vgb_close(&worker[i].filling);
    }
    filled.value = what % 32 == 28 ? number() : worker[i].number;
    say(i, &filled);
}

/* ---- QEMU ---- */

static int qemu = -1, ram_fd, win_fd, kick[2 + CLIENTS];
static int channel = -1; /* for requests of the broker */
static uint8_t *ram;
static uint16_t next_avail[2];

static void turn(unsigned n)
{
    static char sink[4096];

    while (n--) {
        brk_loop_once(brk_images_tick(0));
        brk_pool_tick();
    }
    if (qemu >= 0)
        recv(qemu, sink, sizeof(sink), MSG_DONTWAIT);
    for (unsigned i = 0; i < nworkers; i++) {
        int fds[VGB_MSG_FDS];
        unsigned nfds = VGB_MSG_FDS;
        struct vgb_msg m;

        if (worker[i].sock >= 0 && vgb_msg_recv(worker[i].sock, &m, fds, &nfds, MSG_DONTWAIT) == 1) {
            if (m.type == VGB_M_IMAGE && m.value && nfds == 1) {
                vgb_close(&worker[i].filling);
                worker[i].filling = fds[0];
                worker[i].number = m.value;
                nfds = 0;
            }
            vgb_close_all(fds, nfds);
            if (m.type == VGB_M_START) {
                struct vgb_msg serving = {.type = VGB_M_SERVING};

                say(i, &serving);
            }
        }
    }
}

static void tell(uint32_t request, const void *p, uint32_t size, uint32_t flags, const int *fds,
                 unsigned nfds)
{
    uint8_t buf[sizeof(struct brk_vu_header) + sizeof(union brk_vu_payload)];
    struct brk_vu_header h = {request, BRK_VU_VERSION | flags, size};

    memcpy(buf, &h, sizeof(h));
    if (size)
        memcpy(buf + sizeof(h), p, size);
    if (qemu >= 0)
        vgb_send_fds(qemu, buf, sizeof(h) + size, fds, nfds, MSG_DONTWAIT | MSG_NOSIGNAL);
    turn(3);
}

/* Opens another channel, or sends an answer, mostly well formed, on the present one. */
static void channel_step(bool anew)
{
    struct {
        struct brk_vu_header h;
        uint32_t value[2];
    } answer = {.h = {9 + byte() % 2, byte() % 16 ? BRK_VU_VERSION | BRK_VU_FLAG_REPLY : byte(), 8},
                .value = {byte() % 3 == 0, 0}};
    int pair[2];

    if (anew || channel < 0) {
        if (channel >= 0)
            close(channel);
        channel = -1;
        if (!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
            channel = pair[0];
            tell(BRK_VU_SET_BACKEND_REQ_FD, NULL, 0, BRK_VU_FLAG_NEED_REPLY, &pair[1], 1);
            close(pair[1]);
        }
        return;
    }
    vgb_send_fds(channel, &answer, byte() % 8 ? sizeof(answer) : byte() % sizeof(answer), kick, byte() % 3,
                 MSG_DONTWAIT | MSG_NOSIGNAL);
    turn(3);
}

/* `alone`: without the windows. */
static void mem_table(bool odd, bool alone)
{
    struct brk_vu_payload_mem mem = {
        .nregions = 2,
        .regions = {{.gpa = RAM_GPA, .size = RAM_SIZE, .uva = RAM_UVA},
                    {.gpa = WIN_GPA, .size = WINDOW * CLIENTS, .uva = RAM_UVA + (1u << 30)}}};
    int fds[2] = {ram_fd, win_fd};
    unsigned n = alone ? 1 : 2;

    mem.nregions = n;
    if (odd) {
        struct brk_vu_region *r = &mem.regions[byte() % 2];

        switch (byte() % 5) {
        case 0:
            r->gpa = number();
            break;
        case 1:
            r->size = number();
            break;
        case 2:
            r->uva = number();
            break;
        case 3:
            r->offset = number();
            break;
        default:
            n = byte() % 3;
            mem.nregions = byte() % 10;
        }
    }
    tell(BRK_VU_SET_MEM_TABLE, &mem, 8 + 32 * (mem.nregions < 9 ? mem.nregions : 8), BRK_VU_FLAG_NEED_REPLY,
         fds, n);
}

static void start_queue(uint32_t q)
{
    struct brk_vu_payload_state num = {q, NUM}, base = {q, 0}, on = {q, 1};
    uint64_t at = RAM_UVA + q * 0x4000, fd = q;
    struct brk_vu_payload_addr addr = {.index = q, .desc = at, .avail = at + 0x1000, .used = at + 0x2000};

    tell(BRK_VU_SET_VRING_NUM, &num, 8, 0, NULL, 0);
    tell(BRK_VU_SET_VRING_BASE, &base, 8, 0, NULL, 0);
    tell(BRK_VU_SET_VRING_ADDR, &addr, 40, 0, NULL, 0);
    tell(BRK_VU_SET_VRING_KICK, &fd, 8, 0, &kick[q], 1);
    tell(BRK_VU_SET_VRING_ENABLE, &on, 8, 0, NULL, 0);
}

/* `generic`: a front end that has its windows from the broker. */
static void honest_qemu(bool generic)
{
    uint64_t f = UINT64_C(1) << BRK_VU_F_VERSION_1 | UINT64_C(1) << BRK_VU_F_PROTOCOL_FEATURES | 3;
    uint64_t pf = 1u << BRK_VU_PF_MQ | 1u << BRK_VU_PF_REPLY_ACK | 1u << BRK_VU_PF_CONFIG |
                  1u << BRK_VU_PF_BACKEND_REQ | 1u << BRK_VU_PF_SHMEM;
    struct brk_vu_payload_config c = {.size = sizeof(struct vgpu_config)};
    struct vgpu_config config;

    brk_vu_config_offer(&config);
    config.max_clients = CLIENTS;
    config.window_size = WINDOW;
    memcpy(c.data, &config, sizeof(config));
    tell(BRK_VU_SET_PROTOCOL_FEATURES, &pf, 8, 0, NULL, 0);
    tell(BRK_VU_SET_OWNER, NULL, 0, 0, NULL, 0);
    tell(BRK_VU_SET_CONFIG, &c, 12 + c.size, 0, NULL, 0);
    tell(BRK_VU_SET_FEATURES, &f, 8, 0, NULL, 0);
    if (generic) {
        tell(BRK_VU_GET_SHMEM_CONFIG, NULL, 0, 0, NULL, 0);
        channel_step(true);
    }
    mem_table(false, generic);
    for (uint32_t q = 0; q < 2 + CLIENTS; q++)
        start_queue(q);
}

static void qemu_step(void)
{
    union brk_vu_payload p;
    uint32_t b = byte(), request = byte() % 28, size = byte() % 64;
    int fds[2] = {ram_fd, kick[byte() % (2 + CLIENTS)]};

    memset(&p, 0, sizeof(p));
    switch (b % 8) {
    case 0:
        mem_table(true, false);
        return;
    case 1:
        start_queue(byte() % (2 + CLIENTS));
        return;
    case 2: /* a request of the right form */
        p.state = (struct brk_vu_payload_state){byte() % 8, (uint32_t)number()};
        size = request == BRK_VU_SET_VRING_ADDR ? 40 : 8;
        p.addr.desc = number(), p.addr.avail = number(), p.addr.used = number();
        break;
    case 3:
        p.state = (struct brk_vu_payload_state){byte() % 8, 0};
        request = BRK_VU_GET_VRING_BASE;
        size = 8;
        break;
    case 4:
        request = BRK_VU_SET_CONFIG;
        p.config.offset = byte();
        p.config.size = byte();
        bytes(p.config.data, byte() % 80);
        size = 12 + p.config.size;
        break;
    case 5:
        channel_step(byte() % 4 == 0);
        return;
    case 6:
        request = byte() % 2 ? BRK_VU_GET_SHMEM_CONFIG : request;
        size = request == BRK_VU_GET_SHMEM_CONFIG ? 0 : size;
        bytes(&p, size);
        break;
    default:
        bytes(&p, size);
    }
    tell(request, &p, size, byte() & 1 ? BRK_VU_FLAG_NEED_REPLY : byte() & 12, fds, byte() % 3);
}

/* ---- the guest ---- */

struct desc {
    uint64_t addr;
    uint32_t len;
    uint16_t flags, next;
};

/* A chain on the control or event queue: a request that is mostly well formed, and room for the answer. */
static void guest_step(void)
{
    uint32_t q = byte() % 8 == 0 ? VGPU_VQ_EVENT : VGPU_VQ_CONTROL;
    uint8_t *base = ram + q * 0x4000, *request = ram + 0x40000 + (next_avail[q] % NUM) * 0x2000;
    struct desc *desc = (void *)base;
    uint16_t *avail = (void *)(base + 0x1000), head = (uint16_t)(next_avail[q] % (NUM / 2) * 2);
    struct vgpu_cmd_pin *pin = (void *)request;
    uint32_t len = sizeof(struct vgpu_cmd_client_create);

    memset(request, 0, 0x1000);
    pin->hdr.type = byte() % 16 ? 1 + byte() % 4 : (uint32_t)number();
    pin->hdr.client = byte() % 16 ? byte() % CLIENTS : (uint32_t)number();
    if (pin->hdr.type == VGPU_CMD_PIN) {
        unsigned n = 1 + byte() % 3;
        uint64_t pages = 0;

        pin->region = byte() % 8;
        pin->va = 0x7e0000000000ull + byte() % 16 * 65536;
        for (unsigned i = 0; i < n; i++) {
            uint64_t at = RAM_GPA + 0x80000 + byte() % 64 * 4096ull, run = (1 + byte() % 3) * 4096ull;

            pin->runs[i].addr = byte() % 16 ? at : number();
            pin->runs[i].len = byte() % 16 ? run : number();
            pages += run;
        }
        pin->nruns = byte() % 16 ? n : (uint32_t)number();
        pin->length = byte() % 16 ? pages : number();
        pin->offset = byte() % 16 ? 0 : number();
        pin->pin_flags = byte() % 4;
        len = (uint32_t)(sizeof(*pin) + n * sizeof(pin->runs[0]));
    } else if (pin->hdr.type == VGPU_CMD_UNPIN) {
        pin->region = byte() % 8;
        len = sizeof(struct vgpu_cmd_unpin);
    } else if (pin->hdr.type == VGPU_CMD_CLIENT_DESTROY || pin->hdr.type == VGPU_CMD_PING) {
        len = sizeof(struct vgpu_cmd_hdr);
    }
    desc[head] = (struct desc){RAM_GPA + (uint64_t)(request - ram), byte() % 16 ? len : (uint32_t)number(), 1,
                               (uint16_t)(head + 1)};
    desc[head + 1] = (struct desc){RAM_GPA + (uint64_t)(request - ram) + 0x1000,
                                   byte() % 16 ? 64 : (uint32_t)number(), 2, 0};
    if (byte() % 12 == 0) { /* loops, wrong directions, addresses that are nowhere */
        struct desc *d = &desc[head + byte() % 2];

        d->flags = (uint16_t)byte();
        d->next = (uint16_t)number();
        d->addr = number();
    }
    avail[2 + next_avail[q] % NUM] = byte() % 16 ? head : (uint16_t)number();
    next_avail[q]++;
    avail[1] = byte() % 32 ? next_avail[q] : (uint16_t)number();
    uint64_t one = 1;
    if (write(kick[q], &one, 8) != 8)
        return;
    turn(4);
}

/* ---- a process ---- */

static void start(void)
{
    int pair[2];

    alarm(LIMIT_S);
    if (syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        _exit(0);
    brk_opt.max_clients = CLIENTS;
    brk_opt.window_size = WINDOW;
    brk_opt.pool = 2;
    brk_opt.limits.threads = 100;
    brk_opt.long_call_ms = 1;
    brk_opt.image_cache = 4 * IMAGE_SIZE; /* half may be in use at a time, so some requests are refused */
    brk_opt.sandbox = "enforce";
    brk_opt.log_level = getenv("FZ_SAY") ? VGB_DEBUG : VGB_ERROR;
    snprintf(brk_opt.worker, sizeof(brk_opt.worker), "/nonexistent");
    ram_fd = memfd_create("ram", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    win_fd = memfd_create("vgpu-windows", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (ram_fd < 0 || win_fd < 0 || ftruncate(ram_fd, RAM_SIZE) || ftruncate(win_fd, WINDOW * CLIENTS))
        _exit(0);
    fcntl(win_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    ram = mmap(NULL, RAM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, ram_fd, 0);
    for (unsigned i = 0; i < 2 + CLIENTS; i++)
        kick[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    qemu = pair[1];
    if (brk_loop_init() || brk_vu_start(NULL, pair[0], true) || !brk_pool_init(&brk_client_users))
        _exit(0);
}

static void run(const uint8_t *data, size_t size)
{
    in = data;
    in_end = data + size;
    start();
    uint32_t start = byte() % 8;
    if (start) {
        honest_start(0);
        turn(4);
        honest_qemu(start == 1);
    }
    for (unsigned i = 0; i < STEPS_MAX && in < in_end; i++) {
        switch (byte() % 8) {
        case 0:
        case 1:
            worker_step();
            break;
        case 2:
            qemu_step();
            break;
        case 3:
            if (nworkers)
                honest_start(byte() % nworkers);
            break;
        case 4:
            image_step();
            break;
        default:
            guest_step();
        }
        turn(3);
    }
    vgb_close(&qemu);
    turn(20);
    brk_images_stop();
    brk_pool_fini();
}

/* Checks that the honest set-up yields a guest with a client; otherwise the code behind it would silently
   stay untested. */
static void honest(const uint8_t *data, size_t size)
{
    in = data;
    in_end = data + size;
    start();
    honest_start(0);
    turn(4);
    honest_qemu(false);
    guest_step();
    if (!brk_client_count()) {
        fprintf(stderr, "fuzz_broker: the broker refuses an honest QEMU and guest\n");
        abort();
    }
    _exit(0);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    signal(SIGPIPE, SIG_IGN);
    vgb_log_init(getenv("FZ_SAY") ? 2 : open("/dev/null", O_WRONLY | O_CLOEXEC),
                 getenv("FZ_SAY") ? VGB_DEBUG : VGB_ERROR, "broker");
    fz_share_counters();
    return fz_in_child("fuzz_broker", honest, (const uint8_t[]){1, 1, 0, 1, 0, 1, 1, 1, 1, 1}, 10);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fz_in_child("fuzz_broker", run, data, size);
}
