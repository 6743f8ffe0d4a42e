/* SPDX-License-Identifier: MIT */
/*
 * A hostile client against a worker over the software GPU. An input is a sequence of steps: calls of the
 * protocol with well-formed fields that mostly name live objects, answers to questions that were asked or
 * not, memory that is mapped and unmapped while work is in flight.
 *
 * Each input has a process of its own, with a worker's dispatcher in a thread; the first thread is the
 * guest and the broker. Counters of coverage are shared with the parent. The worker may end the client;
 * a report of a sanitizer, or a dispatcher that neither answers a ping nor ends the client, is a finding.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "main/main.h"
#include "dispatch.h"
#include "fork.h"
#include "vgb_fd.h"
#include "vgp_calls.h"
#include "vgp_fields.h"

#define STEPS_MAX 200
#define LIVE_MAX 64u
#define ADDRS_MAX 32u
#define QUESTIONS_MAX 16u
#define ANSWER_MS 60000 /* without an answer to a ping the dispatcher hangs; other work shares the machine */

/* ---- the input ---- */

static const uint8_t *in, *in_end;

uint32_t fz_byte(void)
{
    return in < in_end ? *in++ : 0;
}

uint64_t fz_number(unsigned bytes)
{
    static const uint64_t odd[] = {0,          1,          4096,       64,         16,         0x7fffffff,
                                   0x80000000, UINT32_MAX, UINT64_MAX, 1ull << 32, 1ull << 40, 1ull << 63,
                                   65536,      255,        0x1000001,  4095};
    uint32_t b = fz_byte();
    uint64_t v = 0;

    if (b < 128)
        return b % 16;
    if (b < 176)
        return (uint64_t)(b - 128) * 64;
    if (b < 240)
        return odd[b % 16];
    for (unsigned i = 0; i < bytes; i++)
        v = v << 8 | fz_byte();
    return v;
}

/* ---- live objects ---- */

static struct wrk_memory memory;
static struct wrk_worker worker = {.memory = &memory};
static const struct wrk_control_ops guest_memory_ops = {.map = wrk_region_map, .unmap = wrk_region_unmap};
static int broker, bell;
static volatile struct vgp_window_shared *win;
static uint64_t tail, notified;
static uint32_t seq;

static uint64_t live[VGP_H_TYPES][LIVE_MAX];
static unsigned nlive[VGP_H_TYPES];
static uint32_t next_index[VGP_H_TYPES];
static uint64_t addrs[ADDRS_MAX];
static unsigned naddrs;
static struct {
    uint32_t slot, sequence;
    uint64_t cookie;
} question[QUESTIONS_MAX];
static unsigned nquestions;
static int guest_memory;
static bool obliging; /* answers every host function at once */
bool fz_posting;      /* no call has a reply, as of a stream that is known to capture */

static void add_live(uint64_t h)
{
    unsigned t = VGP_HANDLE_TYPE(h);

    if (t < VGP_H_TYPES)
        live[t][nlive[t] < LIVE_MAX ? nlive[t]++ : h % LIVE_MAX] = h;
}

static void add_addr(uint64_t a)
{
    if (a)
        addrs[naddrs < ADDRS_MAX ? naddrs++ : a / 64 % ADDRS_MAX] = a;
}

uint64_t fz_pick(unsigned type, unsigned role)
{
    uint32_t b = fz_byte();

    if (type == VGP_H_FUNCTION && b & 1)
        type = VGP_H_KERNEL;
    if (role == ROLE_NEW && b < 240) {
        uint64_t h = VGP_HANDLE(type, 1, next_index[type]);

        next_index[type]++;
        add_live(h);
        return h;
    }
    if (!nlive[type] || b >= 250)
        return b % 3; /* none, the default streams */
    unsigned i = b % nlive[type];
    uint64_t h = live[type][i];

    if (role == ROLE_END && b & 8)
        live[type][i] = live[type][--nlive[type]];
    return h;
}

static uint64_t address(void)
{
    uint32_t b = fz_byte();

    if (b < 16)
        return FZ_REGION_VA + (uint64_t)(b % 8) * 65536 + (b & 8) * 512;
    if (!naddrs || b >= 248)
        return fz_number(8);
    return addrs[b % naddrs] + (b & 64 ? (uint64_t)fz_byte() * 16 : 0);
}

static const char image[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .global .align 4 .u32 word = 7;\n"
    ".visible .entry store(.param .u64 p)\n{\n .reg .b64 %rd1; .reg .b32 %r1;\n"
    " ld.param.u64 %rd1, [p]; mov.u32 %r1, 1; st.global.u32 [%rd1], %r1; ret;\n}\n"
    ".visible .entry spin(.param .u64 p)\n{\n .reg .b64 %rd1; .reg .b32 %r1; .reg .pred %p1;\n"
    " ld.param.u64 %rd1, [p];\nAGAIN:\n ld.volatile.global.u32 %r1, [%rd1];\n"
    " setp.eq.u32 %p1, %r1, 0; @%p1 bra AGAIN;\n ret;\n}\n"
    ".visible .entry none()\n{\n ret;\n}\n";

const char *const fz_image = image;

/* ---- the broker ---- */

static void answer(const struct vgb_msg *m)
{
    struct vgb_msg a = {.type = VGB_M_SHARED, .status = 1};

    switch (m->type) {
    case VGB_M_IMAGE_ASK:
        fz_answer_image(broker, m);
        return;
    case VGB_M_RESERVE:
        a = (struct vgb_msg){.type = VGB_M_GRANT,
                             .value = m->value <= 64u << 20 ? m->value : 0,
                             .status = m->value <= 64u << 20 ? 0 : 1};
        break;
    case VGB_M_ASK_USAGE:
        a = (struct vgb_msg){.type = VGB_M_USAGE};
        break;
    case VGB_M_SHARE_NEW:
    case VGB_M_SHARE_OPEN:
    case VGB_M_SHARE_DROP:
        break;
    default:
        return;
    }
    vgb_msg_send(broker, &a, NULL, 0, 0);
}

static void serve(int ms)
{
    struct pollfd p = {.fd = broker, .events = POLLIN};

    while (poll(&p, 1, ms) > 0) {
        struct vgb_msg m;
        int fds[VGB_MSG_FDS];
        unsigned n = VGB_MSG_FDS;

        if (vgb_msg_recv(broker, &m, fds, &n, 0) != 1)
            _exit(0);
        vgb_close_all(fds, n);
        answer(&m);
        ms = 0;
    }
}

/* ---- the guest ---- */

static void questions(void)
{
    const uint8_t *base = worker.win.base + worker.win.notify_offset;
    uint64_t to = __atomic_load_n(&win->notify_tail, __ATOMIC_ACQUIRE);

    while (notified < to) {
        const struct vgp_notify *n = (const void *)(base + (notified & (worker.win.notify_size - 1)));
        const uint32_t *w = (const void *)(n + 1);

        if (n->type == VGP_NOTIFY_HOST_FUNC && obliging)
            __atomic_store_n(&win->host_done[w[1] % 64], w[2], __ATOMIC_RELEASE);
        if (n->type == VGP_NOTIFY_HOST_FUNC && nquestions < QUESTIONS_MAX) {
            question[nquestions].cookie = n->cookie;
            question[nquestions].slot = w[1];
            question[nquestions++].sequence = w[2];
        }
        if (!n->size)
            break;
        notified += n->size;
    }
    __atomic_store_n(&win->notify_head, notified, __ATOMIC_RELEASE);
}

static void ring_bell(void)
{
    uint64_t one = 1;

    __atomic_store_n(&win->ring_tail, tail, __ATOMIC_RELEASE);
    if (write(bell, &one, sizeof(one)) < 0)
        _exit(0);
}

/* Waits until cond, or the time is over (false), in rounds of 1 ms as well: a paused machine's clock jumps. Serves. */
static bool await(bool (*done)(uint64_t), uint64_t arg, unsigned ms)
{
    struct timespec t0, t;

    clock_gettime(CLOCK_MONOTONIC, &t0);
    for (unsigned rounds = 1; !done(arg); rounds++) {
        serve(1);
        questions();
        clock_gettime(CLOCK_MONOTONIC, &t);
        if ((uint64_t)(t.tv_sec - t0.tv_sec) * 1000 + (uint64_t)(t.tv_nsec - t0.tv_nsec) / 1000000 > ms &&
            rounds > ms / 2)
            return false;
    }
    return true;
}

static bool consumed(uint64_t at)
{
    return __atomic_load_n(&win->ring_head, __ATOMIC_ACQUIRE) >= at;
}

static volatile struct vgp_reply *reply_of(uint32_t slot)
{
    return (void *)(worker.win.base + worker.win.reply_offset + (uint64_t)slot * win->reply_slot_size);
}

static bool replied(uint64_t slot)
{
    return __atomic_load_n(&reply_of((uint32_t)slot)->seq, __ATOMIC_ACQUIRE) == seq;
}

void fz_put(uint16_t call, const void *args, uint32_t size, uint32_t slot, uint64_t context)
{
    uint32_t total = (uint32_t)(sizeof(struct vgp_record) + ((size + 15) & ~15u));
    uint32_t room = worker.win.ring_size - (uint32_t)(tail & (worker.win.ring_size - 1));
    uint8_t *ring = worker.win.base + worker.win.ring_offset;

    if (tail + total + room - win->ring_head > worker.win.ring_size)
        await(consumed, tail, ANSWER_MS);
    if (room < total) {
        struct vgp_record pad = {.size = room, .call = VGP_CALL_PAD};

        memcpy(ring + (tail & (worker.win.ring_size - 1)), &pad, room < sizeof(pad) ? room : sizeof(pad));
        tail += room;
    }
    struct vgp_record r = {
        .size = total, .call = call, .reply_slot = slot, .reply_seq = ++seq, .context = context};
    uint8_t *at = ring + (tail & (worker.win.ring_size - 1));

    memcpy(at, &r, sizeof(r));
    memcpy(at + sizeof(r), args, size);
    memset(at + sizeof(r) + size, 0, total - sizeof(r) - size);
    tail += total;
    ring_bell();
}

static const char *const names[] = {"store", "spin", "none", "word", "missing"};

/* One variable part: its elements, after `at` bytes; new size. */
static uint32_t part(uint8_t *args, uint32_t at, uint32_t most, const struct vgp_field *f,
                     const struct handle_field *h)
{
    uint32_t n = fz_byte() % 5, bytes;

    if (f->form == VGP_FORM_BLOB) {
        n = fz_byte() < 200 ? sizeof(image) : fz_byte();
        memcpy(args + at, image, n < sizeof(image) ? n : sizeof(image));
    } else if (f->form == VGP_FORM_STR) {
        const char *s = names[fz_byte() % 5];

        n = (uint32_t)strlen(s) + 1;
        memcpy(args + at, s, n);
    } else if (f->size == 1 && fz_byte() < 128) {
        n = (uint32_t)fz_byte() * 8;
    }
    if (n > f->max)
        n = f->max;
    bytes = n * f->size;
    if (at + ((bytes + 7) & ~7u) > most)
        return at;
    for (uint32_t i = 0; f->form == VGP_FORM_ARRAY && i < n; i++) {
        uint64_t v = h                              ? fz_pick(h->type, h->role)
                     : f->meaning == VGP_MEANS_ADDR ? address()
                                                    : fz_number(f->size);

        if (f->size <= 8)
            memcpy(args + at + i * f->size, &v, f->size);
    }
    for (uint32_t i = 0; f->meaning == VGP_MEANS_WORDS && i + 8 <= bytes; i += 8) {
        uint64_t v = address();

        memcpy(args + at + i, &v, 8);
    }
    uint32_t count = n;
    uint64_t whole = n;

    if (f->form == VGP_FORM_BLOB) { /* in front of the count: u64 size of the whole, u32 number of a blob */
        const uint32_t blob = fz_byte() % 16 < 4 ? 1 + fz_byte() % 4 : 0;

        whole = blob ? FZ_IMAGE_SIZE : whole;
        memcpy(args + f->offset - 12, &whole, 8);
        memcpy(args + f->offset - 4, &blob, 4);
    }
    memcpy(args + f->offset, &count, 4);
    return at + ((bytes + 7) & ~7u);
}

/* Handles and addresses in a reply. */
void fz_learn(const struct vgp_call_fields *c, uint32_t slot)
{
    uint8_t *at = (uint8_t *)(uintptr_t)reply_of(slot) + sizeof(struct vgp_reply);

    if (reply_of(slot)->result != CUDA_SUCCESS)
        return;
    for (uint32_t i = 0; i < c->out_count; i++) {
        uint64_t v;

        if (c->out[i].form != VGP_FORM_FIXED || c->out[i].size != 8)
            continue;
        memcpy(&v, at + c->out[i].offset, 8);
        if (c->out[i].meaning == VGP_MEANS_ADDR)
            add_addr(v);
        else if (c->out[i].meaning == VGP_MEANS_HANDLE)
            add_live(v);
    }
}

void fz_call(uint16_t n)
{
    static uint8_t args[VGP_RECORD_MAX];
    const struct vgp_call_fields *c = vgp_fields_of(n);
    uint32_t slot = fz_byte() % 64, size;
    bool waits;

    if (!c)
        return;
    memset(args, 0, c->args_fixed);
    size = c->args_fixed;
    for (uint32_t i = 0; i < c->in_count; i++) {
        const struct vgp_field *f = &c->in[i];
        const struct handle_field *h = fz_handle_of(n, f->name);

        if (f->form >= VGP_FORM_ARRAY) {
            size = part(args, size, 60000, f, h);
            continue;
        }
        uint64_t v = h                              ? fz_pick(h->type, h->role)
                     : f->meaning == VGP_MEANS_ADDR ? address()
                                                    : fz_number(f->size);

        if (f->form == VGP_FORM_FLOAT || f->size > 8)
            continue;
        memcpy(args + f->offset, &v, f->size);
    }
    if (fz_byte() > 250)
        size = fz_byte(); /* of the wrong length */
    waits = fz_byte() < 96;
    fz_put(n, args, size, fz_byte() < 252 && !fz_posting ? slot : VGP_NO_REPLY,
           nlive[VGP_H_CONTEXT] ? live[VGP_H_CONTEXT][fz_byte() % 8 ? 0 : fz_byte() % nlive[VGP_H_CONTEXT]]
                                : 0);
    if (waits && !fz_posting && await(replied, slot, 20))
        fz_learn(c, slot);
}

static void host_answer(void)
{
    uint32_t b = fz_byte(), args[4] = {0};

    questions();
    if (!nquestions && b < 248)
        return; /* unasked answers end the client: not too often */
    if (nquestions && b < 240) {
        unsigned i = b % nquestions;

        args[0] = question[i].slot;
        args[1] = question[i].sequence;
        if (b & 8)
            question[i] = question[--nquestions];
    } else {
        args[0] = fz_byte() % 70; /* a question that was not asked */
        args[1] = (uint32_t)fz_number(4);
    }
    if (b & 16)
        __atomic_store_n(&win->host_done[args[0] % 64], args[1], __ATOMIC_RELEASE);
    fz_put(b & 32 ? VGP_vgpHostFuncDone : VGP_vgpHostFuncFinished, args, 16, VGP_NO_REPLY, 0);
}

bool fz_replied(uint32_t slot)
{
    return await(replied, slot, 20);
}

uint64_t fz_context(void)
{
    return nlive[VGP_H_CONTEXT] ? live[VGP_H_CONTEXT][0] : 0;
}

/* ---- a process ---- */

static void *dispatcher(void *arg)
{
    wrk_loop(arg);
}

static uint64_t now_handle(unsigned type)
{
    uint64_t h = VGP_HANDLE(type, 1, next_index[type]++);

    add_live(h);
    return h;
}

/* A program's beginning: context, module, functions, memory, stream, event. */
static void prologue(void)
{
    struct {
        struct vgp_args_vgpHello a;
        char label[8];
    } hello = {.a = {.versionMajor = VGP_VERSION_MAJOR, .versionMinor = VGP_VERSION_MINOR, .label_len = 4},
               .label = "fz"};
    static struct {
        struct vgp_args_vgpModuleLoad a;
        char image[(sizeof(image) + 7) & ~7u];
    } load;
    struct {
        struct vgp_args_vgpModuleGetFunction a;
        char name[8];
    } get = {.a = {.name_len = 6}};
    struct vgp_args_vgpPrimaryCtxRetain retain = {.context = now_handle(VGP_H_CONTEXT)};
    uint64_t ctx = retain.context;
    struct vgp_args_cuStreamCreate stream = {.phStream = now_handle(VGP_H_STREAM)};
    struct vgp_args_cuEventCreate event = {.phEvent = now_handle(VGP_H_EVENT)};
    struct vgp_args_cuMemAlloc_v2 alloc = {.bytesize = 65536};

    fz_put(VGP_vgpHello, &hello, sizeof(hello), 1, 0);
    fz_put(VGP_vgpPrimaryCtxRetain, &retain, sizeof(retain), 2, 0);
    load.a.module = now_handle(VGP_H_MODULE);
    load.a.image_size = load.a.image_len = sizeof(image);
    memcpy(load.image, image, sizeof(image));
    fz_put(VGP_vgpModuleLoad, &load, sizeof(load), 3, ctx);
    await(replied, 3, ANSWER_MS);
    for (unsigned i = 0; i < 2; i++) {
        get.a.function = now_handle(VGP_H_FUNCTION);
        get.a.module = load.a.module;
        strcpy(get.name, i ? "spin" : "store");
        get.a.name_len = (uint32_t)strlen(get.name) + 1;
        fz_put(VGP_vgpModuleGetFunction, &get, sizeof(get), 4, ctx);
    }
    fz_put(VGP_cuStreamCreate, &stream, sizeof(stream), 5, ctx);
    fz_put(VGP_cuEventCreate, &event, sizeof(event), 6, ctx);
    fz_put(VGP_cuMemAlloc_v2, &alloc, sizeof(alloc), 7, ctx);
    if (await(replied, 7, ANSWER_MS))
        fz_learn(vgp_fields_of(VGP_cuMemAlloc_v2), 7);
}

static void start(void)
{
    int pair[2], fd = memfd_create("window", MFD_CLOEXEC);
    char err[400];
    pthread_t t;

    alarm(0);
    signal(SIGALRM, SIG_DFL);
    alarm(ANSWER_MS / 1000 * 3);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) || fd < 0 ||
        ftruncate(fd, VGP_WINDOW_MIN))
        _exit(0);
    broker = pair[1];
    bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    guest_memory = memfd_create("guest", MFD_CLOEXEC);
    if (ftruncate(guest_memory, 1 << 20))
        _exit(0);
    worker.sock = pair[0];
    worker.minor = VGP_VERSION_MINOR;
    worker.images = true;
    worker.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    worker.doorbell = bell;
    pthread_mutex_init(&worker.notify_lock, NULL);
    wrk_waits_init(&worker.waits);
    wrk_regions_init(&worker);
    if (!wrk_ring_init(&worker.ring) || wrk_provider_open(NULL, false, err, sizeof(err)) ||
        !wrk_window_plan(&worker.win, VGP_WINDOW_MIN))
        _exit(FZ_BAD_EXIT);
    worker.win.base = mmap(NULL, VGP_WINDOW_MIN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    win = worker.win.shared = (void *)worker.win.base;
    wrk_quota_init(&worker, 32u << 20);
    wrk_limits_set(
        &worker,
        &(struct vgb_limits){
            .blobs = 8u << 20, .threads = 300, .streams = 64, .handles = 4096, .printf_fifo = 1u << 20});
    wrk_control_init(&guest_memory_ops);
    wrk_regions_init(&worker);
    wrk_filters_install(&worker);
    wrk_share_init(&worker);
    if (!wrk_layout_init())
        _exit(FZ_BAD_EXIT);
    wrk_window_map_aliases(&worker.win, wrk_layout_private(WRK_WINDOW_ALIASES * (size_t)VGP_PAGE), fd, 0);
    wrk_window_publish(&worker.win, worker.minor);
    if (pthread_create(&t, NULL, dispatcher, &worker))
        _exit(0);
}

static void step(void)
{
    uint32_t b = fz_byte();

    if (b < 200)
        fz_call(call_numbers[(fz_byte() | fz_byte() << 8) % n_call_numbers]);
    else if (b < 216)
        host_answer();
    else if (b < 230)
        fz_map(broker, guest_memory, b % 8, fz_byte());
    else if (b < 244) {
        struct vgb_msg m = {.type = VGB_M_UNMAP, .region = b % 8};

        vgb_msg_send(broker, &m, NULL, 0, 0);
    } else if (b < 246)
        fz_offer();
    else if (b < 250)
        fz_capture();
    else if (b < 253)
        await(consumed, tail, 20);
    else
        serve(0);
}

static void run(const uint8_t *data, size_t size)
{
    in = data;
    in_end = data + size;
    start();
    prologue();
    for (unsigned i = 0; i < STEPS_MAX && in < in_end; i++) {
        serve(0);
        step();
    }
    /* Work may rightly wait for a host function that the client does not answer, so from here on it
       answers. */
    obliging = true;
    for (unsigned i = 0; i < nquestions; i++)
        __atomic_store_n(&win->host_done[question[i].slot % 64], question[i].sequence, __ATOMIC_RELEASE);
    if (!await(consumed, tail, ANSWER_MS)) {
        fprintf(stderr, "fuzz_dispatch: the dispatcher neither goes on nor ends the client\n");
        fz_say_stacks(bell);
        abort();
    }
    _exit(0); /* wrk_die() may have come first */
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    /* Small, and without code that the sanitizers do not see; loops end by the watchdog. */
    setenv("VGPU_SOFT_MEMORY", "64M", 1);
    setenv("VGPU_SOFT_THREADS", "2", 1);
    setenv("VGPU_SOFT_JIT", "0", 1);
    setenv("VGPU_SOFT_WATCHDOG", "20000", 1);
    signal(SIGPIPE, SIG_IGN);
    if (!getenv("FZ_SAY"))
        vgb_log_init(2, VGB_ERROR, "worker");
    fz_share_counters();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fz_in_child("fuzz_dispatch", run, data, size);
}
