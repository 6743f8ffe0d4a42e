// SPDX-License-Identifier: MIT
/*
 * Generated input: arguments for every call of the protocol, changes to a valid stream, and memory
 * that changes while the worker reads it. After each the client is dead or answers.
 */
#include "fuzz.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

static char detail[200];

/* Sends a record for a call with these bytes; then the client must be dead or answer a ping. */
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
    *open = raw_open(r, fuzz_path) == 0;
    return *open;
}

/* Every call of the protocol with too few and too many bytes, zeros, ones, and random arguments. */
void fuzz_calls(void)
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
        for (unsigned s = 0; !what && s < fuzz_seeds / 4 && reopen(&r, &open); s++) {
            step = "random";
            fuzz_random = 88172645463325252ULL + i->number * 1000ULL + s;
            uint32_t n = i->args_fixed + (i->args_max > i->args_fixed ? (fuzz_rnd() % 8) * 16 : 0);
            for (uint32_t k = 0; k < n; k++)
                buf[k] = fuzz_rnd() % 3 ? 0 : (uint8_t)fuzz_rnd();
            what = send_and_look(&r, i, buf, n, false);
        }
        if (!open)
            what = "no client";
        if (what)
            snprintf(detail, sizeof(detail), "%s arguments: %s", step, what);
        snprintf(name, sizeof(name), "call_%s", i->name);
        fuzz_result(name, what ? detail : NULL);
        if (open)
            raw_close(&r);
    }
}

/* Writes the usual start of a program. */
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
    fuzz_ping(r, 4);
    raw_put(r, VGP_cuMemAlloc_v2, &alloc, sizeof(alloc), 5);
    raw_put(r, VGP_cuStreamCreate, &stream, sizeof(stream), VGP_NO_REPLY);
    fuzz_ping(r, 6);
}

/* Random changes to a valid stream, with fixed seeds: the client is dead or answers. */
void fuzz_mutations(void)
{
    struct raw r;
    bool open = false;
    const char *what = NULL;
    unsigned s, deaths = 0;

    for (s = 0; s < fuzz_seeds * 5 && !what; s++) {
        if (!reopen(&r, &open)) {
            what = "no client";
            break;
        }
        uint64_t from = r.tail;
        good_stream(&r);
        fuzz_random = 1234567 + s * 7919ULL;
        uint8_t *p = r.ring + (from & (r.ring_size - 1));
        uint32_t n = (uint32_t)(r.tail - from);
        if ((from & (r.ring_size - 1)) + n > r.ring_size)
            n = (uint32_t)(r.ring_size - (from & (r.ring_size - 1)));
        for (unsigned k = 0; k < 1 + s % 5; k++) {
            uint32_t at = fuzz_rnd() % n;
            p[at] = s & 1 ? (uint8_t)fuzz_rnd() : (uint8_t)(p[at] ^ 1u << fuzz_rnd() % 8);
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
    fuzz_result("mutations", what);
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
void fuzz_double_fetch(void)
{
    const char *what = NULL;
    for (unsigned round = 0; round < fuzz_seeds / 4 && !what; round++) {
        struct raw r;
        pthread_t t;
        if (raw_open(&r, fuzz_path)) {
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
    fuzz_result("double_fetch", what ? what : fuzz_alive());
}

/* The worker dies only from its own client's input: shared header fields are mere mailboxes. */
void fuzz_scribble(void)
{
    struct raw r;
    if (raw_open(&r, fuzz_path)) {
        fuzz_result("header_scribble", "no client");
        return;
    }
    raw_ping(&r);
    for (unsigned i = 0; i < sizeof(struct vgp_window_shared); i++)
        if (i < 128 || i >= 256)
            r.base[i] = (uint8_t)(i * 37 + 1);
    fuzz_ping(&r, 0);
    raw_publish(&r);
    usleep(200000);
    raw_close(&r);
    fuzz_result("header_scribble", fuzz_alive());
}
