// SPDX-License-Identifier: MIT
/*
 * fuzz SOCKET|DEVICE [--seeds N] [attack...]: malformed input of every kind, each from a client of its own.
 * What must hold: that client is dead with an error and a text, or, where the input is merely a bad
 * CUDA argument, it gets an error and lives; nothing hangs; the next client works.
 */
#include "raw.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *path;
static unsigned passed, failed, seeds = 40;
static char detail[200];

static uint64_t rng;
static uint32_t rnd(void)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)(rng >> 16);
}

/* The attacks on a record header: change a good ping record, or the tail. */
#define PING_BYTES ((uint32_t)(sizeof(struct vgp_record) + 16))
static struct vgp_record *ping(struct raw *r, uint32_t slot)
{
    struct vgp_args_vgpPing a = {.value = 7};
    return raw_put(r, VGP_vgpPing, &a, sizeof(a), slot);
}

#define HEADER(ident, statement) \
    static void a_##ident(struct raw *r) \
    { \
        struct vgp_record *rec = ping(r, 0); \
        statement; \
        raw_publish(r); \
    }
HEADER(size_zero, rec->size = 0)
HEADER(size_below_header, rec->size = 16)
HEADER(size_header_only, rec->size = sizeof(*rec))
HEADER(size_misaligned, rec->size = PING_BYTES + 4)
HEADER(size_past_tail, rec->size = PING_BYTES + 16)
HEADER(size_past_maximum, rec->size = VGP_RECORD_MAX + 16)
HEADER(size_past_ring, rec->size = r->ring_size + 16)
HEADER(size_all_ones, rec->size = ~0u)
HEADER(size_top_bit, rec->size = 0x80000000u)
HEADER(call_zero, rec->call = 0)
HEADER(call_unknown, rec->call = VGP_CALL_LIMIT)
HEADER(call_unknown_high, rec->call = 0xfffe)
HEADER(flags, rec->flags = 1)
HEADER(padding, rec->padding = 1)
HEADER(slot_past, rec->reply_slot = r->slots)
HEADER(slot_high, rec->reply_slot = 0x7fffffff)
HEADER(slot_missing, rec->reply_slot = VGP_NO_REPLY)
HEADER(pad_in_the_middle, rec->call = VGP_CALL_PAD)

static void a_tail_back(struct raw *r)
{
    raw_ping(r);
    raw_publish_tail(r, r->tail - 16);
}
static void a_tail_zero(struct raw *r)
{
    raw_ping(r);
    raw_publish_tail(r, 0);
}
static void a_tail_beyond(struct raw *r)
{
    ping(r, 0);
    raw_publish_tail(r, r->tail + r->ring_size);
}
static void a_tail_all_ones(struct raw *r)
{
    raw_publish_tail(r, ~0ull);
}
static void a_tail_misaligned(struct raw *r)
{
    ping(r, 0);
    raw_publish_tail(r, r->tail + 8);
}
static void a_tail_half_header(struct raw *r)
{
    ping(r, 0);
    raw_publish_tail(r, 16);
}
static void a_wraps_inside_record(struct raw *r)
{
    /* A record that begins 16 bytes before the end of the ring and claims to go on at its start. */
    while (((uint32_t)r->tail & (r->ring_size - 1)) != r->ring_size - PING_BYTES && !raw_is_dead(r)) {
        ping(r, 0);
        if ((r->tail & 0xffff) < PING_BYTES) {
            raw_publish(r);
            raw_settle(r);
        }
        if (((uint32_t)r->tail & (r->ring_size - 1)) > r->ring_size - PING_BYTES)
            break;
    }
    raw_publish(r);
    raw_settle(r);
    uint32_t at = (uint32_t)r->tail & (r->ring_size - 1);
    struct vgp_record *rec = (void *)(r->ring + at);
    uint32_t left = r->ring_size - at;
    memset(rec, 0, left < sizeof(*rec) ? left : sizeof(*rec));
    rec->size = left + 64;
    rec->call = VGP_vgpPing;
    raw_publish_tail(r, r->tail + left + 64);
}
static void a_zeros(struct raw *r)
{
    memset(r->ring, 0, 4096);
    raw_publish_tail(r, 4096);
}
static void a_ones(struct raw *r)
{
    memset(r->ring, 0xff, 4096);
    raw_publish_tail(r, 4096);
}
static void a_args_padding(struct raw *r)
{
    struct vgp_args_vgpDeviceInfo a = {.ordinal = 0};
    a.pad4[2] = 1;
    raw_put(r, VGP_vgpDeviceInfo, &a, sizeof(a), 0);
    raw_publish(r);
}
static void a_string_length(struct raw *r)
{
    struct vgp_args_vgpHello a = {.versionMajor = 1, .label_len = 64};
    raw_put(r, VGP_vgpHello, &a, sizeof(a), 0);
    raw_publish(r);
}
static void a_string_unterminated(struct raw *r)
{
    struct {
        struct vgp_args_vgpHello a;
        char label[16];
    } m = {.a = {.versionMajor = 1, .label_len = 16}};
    memset(m.label, 'x', sizeof(m.label));
    raw_put(r, VGP_vgpHello, &m, sizeof(m), 0);
    raw_publish(r);
}
static void a_blob_total(struct raw *r)
{
    struct {
        struct vgp_args_vgpBlobAppend a;
        uint8_t data[16];
    } m = {.a = {.blobId = 1, .totalSize = ~0ull, .data_len = 16}};
    raw_put(r, VGP_vgpBlobAppend, &m, sizeof(m), VGP_NO_REPLY);
    raw_publish(r);
}
static void a_blob_more_than_total(struct raw *r)
{
    struct {
        struct vgp_args_vgpBlobAppend a;
        uint8_t data[16];
    } m = {.a = {.blobId = 1, .totalSize = 8, .data_len = 16}};
    raw_put(r, VGP_vgpBlobAppend, &m, sizeof(m), VGP_NO_REPLY);
    raw_publish(r);
}

static const struct attack {
    const char *name;
    void (*run)(struct raw *r);
} attacks[] = {
#define A(x) \
    { \
#x, a_##x \
    }
    A(size_zero),
    A(size_below_header),
    A(size_header_only),
    A(size_misaligned),
    A(size_past_tail),
    A(size_past_maximum),
    A(size_past_ring),
    A(size_all_ones),
    A(size_top_bit),
    A(call_zero),
    A(call_unknown),
    A(call_unknown_high),
    A(flags),
    A(padding),
    A(slot_past),
    A(slot_high),
    A(slot_missing),
    A(pad_in_the_middle),
    A(tail_back),
    A(tail_zero),
    A(tail_beyond),
    A(tail_all_ones),
    A(tail_misaligned),
    A(tail_half_header),
    A(wraps_inside_record),
    A(zeros),
    A(ones),
    A(args_padding),
    A(string_length),
    A(string_unterminated),
    A(blob_total),
    A(blob_more_than_total),
};

static void result(const char *name, const char *what)
{
    if (what) {
        printf("fuzz.%s FAIL %s\n", name, what);
        failed++;
    } else {
        passed++;
    }
    fflush(stdout);
}

/* NULL when a new client can ping. */
static const char *alive(void)
{
    struct raw r;
    if (raw_open(&r, path))
        return "the backend takes no new client";
    bool ok = raw_ping(&r);
    raw_close(&r);
    return ok ? NULL : "a new client gets no answer";
}

static const char *one_attack(const struct attack *a)
{
    struct raw r;
    if (raw_open(&r, path))
        return "no client";
    a->run(&r);
    const char *what = raw_wait_dead(&r);
    if (!what)
        printf("fuzz.%s dead: %.200s\n", a->name, (const char *)r.w->dead_text);
    raw_close(&r);
    return what;
}

/* Sends one record for `call` with these bytes; then the client must be dead or answer a ping. */
static const char *send_and_look(struct raw *r, const struct vgp_call_info *i, const void *args,
                                 uint32_t size, bool must_die)
{
    bool async = !strcmp(i->cls, "async");
    raw_put(r, i->number, args, size, async ? VGP_NO_REPLY : 1);
    raw_publish(r);
    if (must_die)
        return raw_wait_dead(r);
    if (!raw_settle(r))
        return "neither consumed nor dead";
    if (!raw_is_dead(r) && !raw_ping(r) && !raw_is_dead(r))
        return "alive but no answer to a ping";
    return NULL;
}

static bool reopen(struct raw *r, bool *open)
{
    if (*open && !raw_is_dead(r))
        return true;
    if (*open)
        raw_close(r);
    *open = raw_open(r, path) == 0;
    return *open;
}

/* Every call of the protocol with too few and too many bytes, zeros, ones, and random arguments. */
static void all_calls(void)
{
    static uint8_t buf[VGP_RECORD_MAX + 64];
    char name[128];

    for (const struct vgp_call_info *i = vgp_call_infos; i->name; i++) {
        struct raw r;
        bool open = false;
        const char *what = NULL, *step = "short";
        memset(buf, 0, sizeof(buf));
        if (i->args_fixed > 16 && reopen(&r, &open))
            what = send_and_look(&r, i, buf, (i->args_fixed - 1) & ~15u, true);
        uint32_t over = ((i->args_max + 15) & ~15u) + 16;
        if (!what && over + sizeof(struct vgp_record) <= VGP_RECORD_MAX && reopen(&r, &open)) {
            step = "long";
            what = send_and_look(&r, i, buf, over, true);
        }
        if (!what && reopen(&r, &open)) {
            step = "zeros";
            what = send_and_look(&r, i, buf, i->args_fixed, false);
        }
        if (!what && reopen(&r, &open)) {
            step = "ones";
            memset(buf, 0xff, i->args_fixed);
            what = send_and_look(&r, i, buf, i->args_fixed, false);
        }
        for (unsigned s = 0; !what && s < seeds / 4 && reopen(&r, &open); s++) {
            step = "random";
            rng = 88172645463325252ULL + i->number * 1000ULL + s;
            uint32_t n = i->args_fixed + (i->args_max > i->args_fixed ? (rnd() % 8) * 16 : 0);
            for (uint32_t k = 0; k < n; k++)
                buf[k] = rnd() % 3 ? 0 : (uint8_t)rnd();
            what = send_and_look(&r, i, buf, n, false);
        }
        if (!open)
            what = "no client";
        if (what)
            snprintf(detail, sizeof(detail), "%s arguments: %s", step, what);
        snprintf(name, sizeof(name), "call_%s", i->name);
        result(name, what ? detail : NULL);
        if (open)
            raw_close(&r);
    }
}

/* A good start of a program; returns the bytes it put. */
static void good_stream(struct raw *r)
{
    struct {
        struct vgp_args_vgpHello a;
        char label[8];
    } hello = {.a = {.versionMajor = VGP_VERSION_MAJOR, .label_len = 4}, .label = "raw"};
    struct vgp_args_vgpDeviceInfo info = {.ordinal = 0};
    struct vgp_args_cuMemAlloc_v2 alloc = {.bytesize = 4096};
    struct vgp_args_cuStreamCreate stream = {0};

    raw_put(r, VGP_vgpHello, &hello, sizeof(hello), 2);
    raw_put(r, VGP_vgpDeviceInfo, &info, sizeof(info), 3);
    ping(r, 4);
    raw_put(r, VGP_cuMemAlloc_v2, &alloc, sizeof(alloc), 5);
    raw_put(r, VGP_cuStreamCreate, &stream, sizeof(stream), VGP_NO_REPLY);
    ping(r, 6);
}

/* Random changes to a good stream, with fixed seeds: dead or alive, but never neither. */
static void mutations(void)
{
    struct raw r;
    bool open = false;
    const char *what = NULL;
    unsigned s, deaths = 0;

    for (s = 0; s < seeds * 5 && !what; s++) {
        if (!reopen(&r, &open)) {
            what = "no client";
            break;
        }
        uint64_t from = r.tail;
        good_stream(&r);
        rng = 1234567 + s * 7919ULL;
        uint8_t *p = r.ring + (from & (r.ring_size - 1));
        uint32_t n = (uint32_t)(r.tail - from);
        if ((from & (r.ring_size - 1)) + n > r.ring_size)
            n = (uint32_t)(r.ring_size - (from & (r.ring_size - 1)));
        for (unsigned k = 0; k < 1 + s % 5; k++) {
            uint32_t at = rnd() % n;
            p[at] = s & 1 ? (uint8_t)rnd() : (uint8_t)(p[at] ^ 1u << rnd() % 8);
        }
        raw_publish(&r);
        if (!raw_settle(&r))
            what = "neither consumed nor dead";
        else if (!raw_is_dead(&r) && !raw_ping(&r) && !raw_is_dead(&r))
            what = "alive but no answer to a ping";
        deaths += raw_is_dead(&r);
    }
    if (open)
        raw_close(&r);
    printf("fuzz.mutations %u streams, %u of them deadly\n", s, deaths);
    if (what) {
        snprintf(detail, sizeof(detail), "seed %u: %s", s - 1, what);
        what = detail;
    }
    result("mutations", what);
}

static volatile bool flip;

static void *flipper(void *p)
{
    struct raw *r = p;
    uint64_t x = 99;
    while (flip) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        uint32_t at = (uint32_t)(x >> 20) & (r->ring_size - 1);
        r->ring[at & 0xfff] ^= (uint8_t)(1u << (x & 7));
    }
    return NULL;
}

/* Another thread changes the records while the worker reads them. */
static void double_fetch(void)
{
    const char *what = NULL;
    for (unsigned round = 0; round < seeds / 4 && !what; round++) {
        struct raw r;
        pthread_t t;
        if (raw_open(&r, path)) {
            what = "no client";
            break;
        }
        flip = true;
        pthread_create(&t, NULL, flipper, &r);
        for (unsigned k = 0; k < 20 && !raw_is_dead(&r); k++) {
            good_stream(&r);
            raw_publish(&r);
            raw_settle(&r);
        }
        flip = false;
        pthread_join(t, NULL);
        raw_close(&r);
    }
    result("double_fetch", what ? what : alive());
}

/* What may come over the socket before and after the greeting. */
static void socket_messages(void)
{
    static uint8_t big[65536];
    struct vgp_sock_hello h = {.type = VGP_SOCK_HELLO, .version_major = VGP_VERSION_MAJOR};
    struct vgp_sock_map m = {.type = VGP_SOCK_MAP, .region = 1, .va = 0x10000000, .length = 4096};
    union {
        struct vgp_sock_refused refused;
        struct vgp_sock_mapped mapped;
    } answer;
    struct raw r;
    int fd = raw_connect(path);

    h.version_major = VGP_VERSION_MAJOR + 1;
    send(fd, &h, sizeof(h), MSG_NOSIGNAL);
    memset(&answer, 0, sizeof(answer));
    ssize_t n = recv(fd, &answer, sizeof(answer), 0);
    result("hello_version", n > 0 && answer.refused.type == VGP_SOCK_REFUSED && answer.refused.text[0]
                                ? NULL
                                : "not refused with a text");
    close(fd);
    h.version_major = VGP_VERSION_MAJOR;
    for (uint32_t size = 0; size <= sizeof(h) + 8; size += 8) {
        if (size == sizeof(h))
            continue;
        fd = raw_connect(path);
        memcpy(big, &h, sizeof(h));
        send(fd, big, size, MSG_NOSIGNAL);
        close(fd);
    }
    for (int i = 0; i < 20; i++) {
        fd = raw_connect(path);
        rng = 777 + (unsigned)i;
        for (size_t k = 0; k < sizeof(big); k++)
            big[k] = (uint8_t)rnd();
        send(fd, big, i & 1 ? 600 : 60000, MSG_NOSIGNAL);
        close(fd);
    }
    result("hello_garbage", alive());

    /* MAP without a descriptor, and with one that is no sealed memfd. */
    if (raw_open(&r, path)) {
        result("map", "no client");
        return;
    }
    memset(&answer, 0, sizeof(answer));
    send(r.sock, &m, sizeof(m), MSG_NOSIGNAL);
    n = recv(r.sock, &answer, sizeof(answer), 0);
    result("map_no_fd",
           n <= 0 || (answer.mapped.type == VGP_SOCK_MAPPED && answer.mapped.status) ? NULL : "accepted");
    raw_close(&r);
    if (raw_open(&r, path))
        return;
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec iov = {&m, sizeof(m)};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    int memfd = memfd_create("unsealed", MFD_CLOEXEC);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &memfd, sizeof(int));
    memset(&answer, 0, sizeof(answer));
    sendmsg(r.sock, &msg, MSG_NOSIGNAL);
    n = recv(r.sock, &answer, sizeof(answer), 0);
    result("map_unsealed",
           n <= 0 || (answer.mapped.type == VGP_SOCK_MAPPED && answer.mapped.status) ? NULL : "accepted");
    close(memfd);
    raw_close(&r);
    result("after_map", alive());
}

/* The worker kills itself over nothing that is in reach: shared header fields are only a mailbox. */
static void header_scribble(void)
{
    struct raw r;
    if (raw_open(&r, path)) {
        result("header_scribble", "no client");
        return;
    }
    raw_ping(&r);
    for (unsigned i = 0; i < sizeof(struct vgp_window_shared); i++)
        if (i < 128 || i >= 256)
            r.base[i] = (uint8_t)(i * 37 + 1);
    ping(&r, 0);
    raw_publish(&r);
    usleep(200000);
    raw_close(&r);
    result("header_scribble", alive());
}

/* A client with the primary context of device 0 current. */
static const char *with_context(struct raw *r)
{
    struct vgp_args_vgpPrimaryCtxRetain retain = {.context = VGP_HANDLE(VGP_H_CONTEXT, 1, 1)};

    if (raw_open(r, path))
        return "no client";
    if (raw_call(r, VGP_vgpPrimaryCtxRetain, &retain, sizeof(retain), NULL, 0))
        return "no context";
    r->context = retain.context;
    return NULL;
}

/* Addresses of the worker's own memory, given as device memory: never read, never written. */
static const char *wild_copies(void)
{
    static const uint64_t wild[] = {0x400000, 0x401000, 0x600000, 0x7fffffffe000, 0x7ffff7ff0000, 8};
    struct vgp_args_cuMemAlloc_v2 alloc = {.bytesize = 65536};
    struct vgp_ret_cuMemAlloc_v2 got = {0};
    struct raw r;
    const char *what = with_context(&r);

    if (!what && raw_call(&r, VGP_cuMemAlloc_v2, &alloc, sizeof(alloc), &got, sizeof(got)))
        what = "no memory";
    for (unsigned i = 0; !what && i < sizeof(wild) / sizeof(wild[0]); i++) {
        struct vgp_args_vgpCopy k = {.dstKind = VGP_COPY_DEVICE,
                                     .srcKind = VGP_COPY_DEVICE,
                                     .dst = got.dptr,
                                     .src = wild[i],
                                     .widthBytes = 64,
                                     .height = 1,
                                     .depth = 1,
                                     .when = VGP_WHEN_COMPLETE};
        if (raw_call(&r, VGP_vgpCopy, &k, sizeof(k), NULL, 0) == 0)
            what = "read from an address that is not device memory";
        k.dst = wild[i];
        k.src = got.dptr;
        if (!what && raw_call(&r, VGP_vgpCopy, &k, sizeof(k), NULL, 0) == 0)
            what = "write to an address that is not device memory";
        if (!what && raw_is_dead(&r))
            what = "the worker died of it";
    }
    raw_close(&r);
    return what;
}

/* Images that point elsewhere or claim more than they have: refused, and the worker lives. */
static const char *wild_images(void)
{
    static const char *const names[] = {"wrapper", "fatbin", "elf", "second fatbin"};
    struct raw r;
    const char *what = with_context(&r);

    for (unsigned i = 0; !what && i < 4; i++) {
        struct {
            struct vgp_args_vgpModuleLoad a;
            uint8_t image[64];
        } load = {.a = {.module = VGP_HANDLE(VGP_H_MODULE, 1, 1 + i), .image_size = 64, .image_len = 64}};
        const uint64_t wrapper[] = {0x1466243b1ull, 0x400000, 0};
        const uint64_t fatbin[] = {0x00100001ba55ed50ull, 1ull << 40};
        const uint64_t elf[] = {0x10102464c457full, 0, 0, 0, 0, 1ull << 40, 0, 0x40ull << 48 | 4ull << 32};
        const uint64_t list[] = {0x00100001ba55ed50ull, 0, 0x00100001ba55ed50ull, 1ull << 40};
        const void *const image[] = {wrapper, fatbin, elf, list};
        const size_t size[] = {sizeof(wrapper), sizeof(fatbin), sizeof(elf), sizeof(list)};

        memcpy(load.image, image[i], size[i]);
        if (raw_call(&r, VGP_vgpModuleLoad, &load, sizeof(load), NULL, 0) != 200) {
            snprintf(detail, sizeof(detail), "%s: not refused as an invalid image", names[i]);
            what = detail;
        }
    }
    raw_close(&r);
    return what;
}

/* Texture references that are of another type, another's to destroy, or gone with their module. */
static const char *wild_texrefs(void)
{
    static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n.global .texref t;\n"
                              ".visible .entry k()\n{\nret;\n}\n";
    const uint64_t module = VGP_HANDLE(VGP_H_MODULE, 1, 1), ref = VGP_HANDLE(VGP_H_TEXTURE, 1, 1);
    struct {
        struct vgp_args_vgpModuleLoad a;
        uint8_t image[160];
    } load = {.a = {.module = module, .image_size = sizeof(ptx), .image_len = sizeof(ptx)}};
    struct {
        struct vgp_args_vgpModuleGetTexRef a;
        char name[8];
    } get = {.a = {.ref = ref, .module = module, .name_len = 2}, .name = "t"};
    struct vgp_args_cuTexRefSetArray bind = {.hTexRef = ref, .hArray = module, .Flags = 1};
    struct vgp_args_cuTexRefDestroy destroy = {.hTexRef = ref};
    struct vgp_args_cuTexRefGetFlags flags = {.hTexRef = module};
    struct vgp_args_cuModuleUnload unload = {.hmod = module};
    struct vgp_ret_cuTexRefGetFlags got;
    struct raw r;
    const char *what = with_context(&r);
    const size_t load_size = (sizeof(load.a) + sizeof(ptx) + 15) / 16 * 16;

    memcpy(load.image, ptx, sizeof(ptx));
    if (!what && raw_call(&r, VGP_vgpModuleLoad, &load, (uint32_t)load_size, NULL, 0))
        what = "no module";
    if (!what && raw_call(&r, VGP_vgpModuleGetTexRef, &get, sizeof(get), NULL, 0))
        what = "no reference";
    if (!what && raw_call(&r, VGP_cuTexRefSetArray, &bind, sizeof(bind), NULL, 0) != 400)
        what = "a module bound as an array";
    if (!what && raw_call(&r, VGP_cuTexRefDestroy, &destroy, sizeof(destroy), NULL, 0) != 1)
        what = "a module's reference destroyed";
    if (!what && raw_call(&r, VGP_cuTexRefGetFlags, &flags, sizeof(flags), &got, sizeof(got)) != 1)
        what = "a module taken for a reference";
    if (!what && raw_call(&r, VGP_cuModuleUnload, &unload, sizeof(unload), NULL, 0))
        what = "the module is not unloaded";
    flags.hTexRef = ref;
    if (!what && raw_call(&r, VGP_cuTexRefGetFlags, &flags, sizeof(flags), &got, sizeof(got)) != 1)
        what = "a reference outlives its module";
    if (!what && raw_is_dead(&r))
        what = "the worker died of it";
    raw_close(&r);
    return what;
}

static bool wanted(const char *name, int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (!strcmp(argv[i], name))
            return true;
    return argc == 0;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: fuzz SOCKET|DEVICE [--seeds N] [attack | calls | mutations | double_fetch | "
                        "socket | scribble | wild]...\n");
        return 2;
    }
    path = argv[1];
    argc -= 2;
    argv += 2;
    if (argc >= 2 && !strcmp(argv[0], "--seeds")) {
        seeds = (unsigned)atoi(argv[1]);
        argc -= 2;
        argv += 2;
    }
    result("first", alive());
    for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++)
        if (wanted(attacks[i].name, argc, argv))
            result(attacks[i].name, one_attack(&attacks[i]));
    if (wanted("calls", argc, argv))
        all_calls();
    if (wanted("mutations", argc, argv))
        mutations();
    if (wanted("double_fetch", argc, argv))
        double_fetch();
    if (strncmp(path, "/dev/", 5) && wanted("socket", argc, argv))
        socket_messages();
    if (wanted("scribble", argc, argv))
        header_scribble();
    if (wanted("wild", argc, argv)) {
        result("wild_copies", wild_copies());
        result("wild_images", wild_images());
        result("wild_texrefs", wild_texrefs());
    }
    result("last", alive());
    printf("fuzz: %u passed, %u failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
