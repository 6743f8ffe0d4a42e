// SPDX-License-Identifier: MIT
/*
 * attack SOCKET KIND [N]: clients without CUDA that misbehave for a long time rather than once
 * (fuzz.c).
 *
 *   boundaries    every plain field of every call at the limits of its type, other fields valid
 *   order [N]     N random calls on streams and events in any state, against a model of live
 *                 objects
 *   wrap [N]      N calls whose sequence numbers pass 2^32, eight in flight
 *   forge [N]     N calls while a thread writes random words to replies, notifications, wake-up
 *                 words
 *   bells [N]     16 clients ring the doorbell N times each with an empty ring
 *   deaths [N]    N clients in turn that end with a malformed record
 *   knocks [N]    N connections with another version in HELLO
 *   retype        handles of each type given to calls for each other type, own and another client's
 *
 * A line gives the result; status 0: all as required.
 */
#include "raw.h"
#include "vgp_fields.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *path;
static uint64_t rng = 88172645463325252ull;

static uint32_t rnd(void)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)(rng >> 16);
}

static int bad(const char *what)
{
    printf("attack: %s\n", what);
    return 1;
}

static bool with_context(struct raw *r)
{
    struct vgp_args_vgpPrimaryCtxRetain retain = {.context = VGP_HANDLE(VGP_H_CONTEXT, 1, 1)};

    if (raw_open(r, path))
        return false;
    if (raw_call(r, VGP_vgpPrimaryCtxRetain, &retain, sizeof(retain), NULL, 0)) {
        raw_close(r);
        return false;
    }
    r->context = retain.context;
    return true;
}

static uint64_t some_memory(struct raw *r)
{
    struct vgp_args_cuMemAlloc_v2 alloc = {.bytesize = 65536};
    struct vgp_ret_cuMemAlloc_v2 got = {0};

    raw_call(r, VGP_cuMemAlloc_v2, &alloc, sizeof(alloc), &got, sizeof(got));
    return got.dptr;
}

/* ---- boundaries ---- */

/* These calls end or block the client by design, so their arguments are not varied. */
static bool left_out(const char *name)
{
    return !strcmp(name, "vgpHostFuncDone") || !strcmp(name, "vgpHostFuncFinished") ||
           strstr(name, "CtxReset") || strstr(name, "CtxDestroy") || strstr(name, "CtxRelease");
}

/* Fills in plausible arguments: device memory addresses, small numbers, no handles. */
static void fill(const struct vgp_call_fields *f, uint8_t *args, uint64_t memory)
{
    const uint64_t one = 1, mem = memory;

    memset(args, 0, f->args_fixed);
    for (uint32_t i = 0; i < f->in_count; i++) {
        const struct vgp_field *x = &f->in[i];

        if (x->form != VGP_FORM_FIXED || x->size > 8)
            continue;
        if (x->meaning == VGP_MEANS_ADDR)
            memcpy(args + x->offset, &mem, x->size);
        else if (x->meaning == VGP_MEANS_PLAIN)
            memcpy(args + x->offset, &one, x->size);
    }
}

static int boundaries(void)
{
    static const uint64_t edges[] = {0,
                                     1,
                                     0x7fffffff,
                                     0x80000000,
                                     0x80000001,
                                     0xffffffff,
                                     0x100000000,
                                     0x100000001,
                                     0x7fffffffffffffff,
                                     0x8000000000000000,
                                     0xfffffffffffffff0,
                                     0xffffffffffffffff};
    static uint8_t args[VGP_RECORD_MAX];
    unsigned sent = 0, deaths = 0, fields = 0;
    struct raw r;
    bool open = false;
    uint64_t memory = 0;

    for (const struct vgp_call_info *c = vgp_call_infos; c->name; c++) {
        const struct vgp_call_fields *f = vgp_fields_of(c->number);

        if (!f || left_out(c->name))
            continue;
        for (uint32_t i = 0; i < f->in_count; i++) {
            const struct vgp_field *x = &f->in[i];

            if (x->form != VGP_FORM_FIXED || x->size < 4 || x->size > 8 || x->meaning == VGP_MEANS_HANDLE)
                continue;
            fields++;
            for (unsigned e = 0; e < sizeof(edges) / sizeof(edges[0]); e++) {
                if (x->size == 4 && edges[e] > 0xffffffff)
                    break;
                if (open && raw_is_dead(&r)) {
                    raw_close(&r);
                    open = false;
                    deaths++;
                }
                if (!open && !(open = with_context(&r)))
                    return bad("no client");
                if (!memory)
                    memory = some_memory(&r);
                fill(f, args, memory);
                memcpy(args + x->offset, &edges[e], x->size);
                raw_put(&r, c->number, args, f->args_fixed, strcmp(c->cls, "async") ? 1 : VGP_NO_REPLY);
                raw_publish(&r);
                sent++;
                if (!raw_settle(&r)) {
                    printf("attack: %s.%s = %#llx: neither consumed nor dead\n", c->name, x->name,
                           (unsigned long long)edges[e]);
                    return 1;
                }
            }
        }
        if (open && !raw_is_dead(&r) && !raw_ping(&r) && !raw_is_dead(&r)) {
            printf("attack: %s: no answer to a ping afterwards\n", c->name);
            return 1;
        }
        /* A crash is never a valid answer to a number. */
        if (open && raw_is_dead(&r) && strstr((const char *)r.w->dead_text, "signal")) {
            printf("attack: %s: %s\n", c->name, (const char *)r.w->dead_text);
            return 1;
        }
        if (open) {
            raw_close(&r);
            deaths += 0;
            open = false;
            memory = 0;
        }
    }
    printf("attack: %u fields, %u records, %u clients ended\n", fields, sent, deaths);
    return sent < 1000;
}

/* ---- order ---- */

#define OBJECTS 24u

struct object {
    uint64_t handle;
    bool alive, event;
    uint32_t generation;
};

/* Compares a handle with the model: the result of a call that only queries it. */
static bool look(struct raw *r, const struct object *o)
{
    struct vgp_args_cuStreamQuery q = {.hStream = o->handle};
    int rc = raw_call(r, o->event ? VGP_cuEventQuery : VGP_cuStreamQuery, &q, sizeof(q), NULL, 0);

    return rc == (o->alive ? 0 : 400);
}

static int order(unsigned n)
{
    struct object o[OBJECTS] = {0};
    unsigned refused = 0;
    struct raw r;

    if (!with_context(&r))
        return bad("no client");
    for (unsigned i = 0; i < OBJECTS; i++) {
        o[i].event = i & 1;
        o[i].handle = VGP_HANDLE(o[i].event ? VGP_H_EVENT : VGP_H_STREAM, 1, 1 + i);
    }
    for (unsigned i = 0; i < n; i++) {
        unsigned at = rnd() % OBJECTS;
        struct object *x = &o[at], *y = &o[rnd() % OBJECTS];
        struct vgp_args_cuEventRecord record = {.hEvent = x->handle, .hStream = y->handle};

        switch (rnd() % 4) {
        case 0: /* create; a live handle is not minted again */
            if (!x->alive) {
                x->generation++;
                x->handle = VGP_HANDLE(x->event ? VGP_H_EVENT : VGP_H_STREAM, x->generation, 1 + at);
                struct vgp_args_cuStreamCreate c = {.phStream = x->handle};
                raw_put(&r, x->event ? VGP_cuEventCreate : VGP_cuStreamCreate, &c, sizeof(c), VGP_NO_REPLY);
                x->alive = true;
            }
            break;
        case 1: { /* destroy, whether alive or not */
            struct vgp_args_cuStreamDestroy_v2 d = {.hStream = x->handle};
            raw_put(&r, x->event ? VGP_cuEventDestroy_v2 : VGP_cuStreamDestroy_v2, &d, sizeof(d),
                    VGP_NO_REPLY);
            x->alive = false;
            break;
        }
        case 2: /* any handle as event and as stream, including dead ones and wrong types */
            raw_put(&r, VGP_cuEventRecord, &record, sizeof(record), VGP_NO_REPLY);
            break;
        default:
            refused += !x->alive;
            if (!look(&r, x)) {
                printf("attack: step %u: handle %#llx, %s, is seen otherwise%s\n", i,
                       (unsigned long long)x->handle, x->alive ? "alive" : "not alive",
                       raw_is_dead(&r) ? " (the client is dead)" : "");
                raw_close(&r);
                return 1;
            }
        }
        if (raw_is_dead(&r)) {
            printf("attack: step %u: dead: %s\n", i, (const char *)r.w->dead_text);
            return 1;
        }
    }
    raw_publish(&r);
    bool ok = raw_settle(&r) && raw_ping(&r);
    raw_close(&r);
    printf("attack: %u calls in any order, %u refused as they must be\n", n, refused);
    return !ok;
}

/* Handles of each type where every other type belongs; also those of another client. */
static int retype(void)
{
    static const uint16_t calls[] = {VGP_cuStreamQuery, VGP_cuEventQuery, VGP_cuModuleUnload};
    static const uint8_t type_of[] = {VGP_H_STREAM, VGP_H_EVENT, VGP_H_MODULE};
    struct vgp_args_cuStreamCreate c = {.phStream = VGP_HANDLE(VGP_H_STREAM, 1, 1)};
    struct raw a, b;
    unsigned tried = 0;

    if (!with_context(&a))
        return bad("no client");
    if (!with_context(&b)) {
        raw_close(&a);
        return bad("no second client");
    }
    raw_put(&a, VGP_cuStreamCreate, &c, sizeof(c), VGP_NO_REPLY);
    c.phStream = VGP_HANDLE(VGP_H_EVENT, 1, 2);
    raw_put(&a, VGP_cuEventCreate, &c, sizeof(c), VGP_NO_REPLY);
    for (unsigned type = 0; type < VGP_H_TYPES; type++) {
        for (unsigned k = 0; k < 3; k++) {
            for (unsigned generation = 1; generation < 3; generation++) {
                for (unsigned index = 1; index < 4; index++) {
                    struct vgp_args_cuStreamQuery q = {.hStream = VGP_HANDLE(type, generation, index)};
                    bool own = type == type_of[k] && generation == 1 && index == k + 1 && k < 2;
                    int mine = raw_call(&a, calls[k], &q, sizeof(q), NULL, 0);
                    int other = raw_call(&b, calls[k], &q, sizeof(q), NULL, 0);

                    tried += 2;
                    if ((mine == 0) != own || other == 0 || mine < 0 || other < 0) {
                        printf("attack: call %#x, handle %#llx: %d, and %d for another client\n", calls[k],
                               (unsigned long long)q.hStream, mine, other);
                        return 1;
                    }
                }
            }
        }
    }
    raw_close(&a);
    raw_close(&b);
    printf("attack: %u uses of handles, 2 accepted\n", tried);
    return 0;
}

/* ---- wrap, forge ---- */

static int wrap(unsigned n)
{
    struct raw r;

    if (raw_open(&r, path))
        return bad("no client");
    r.seq = 0xfffffff0u - n / 2;
    for (unsigned i = 0; i < n; i++) {
        struct vgp_args_vgpPing a[8];
        uint32_t seq[8];

        for (unsigned k = 0; k < 8; k++) {
            a[k] = (struct vgp_args_vgpPing){.value = (uint64_t)rnd() << 32 | (i * 8 + k)};
            seq[k] = raw_put(&r, VGP_vgpPing, &a[k], sizeof(a[k]), 7 - k)->reply_seq;
        }
        raw_publish(&r);
        if (!raw_settle(&r) || raw_is_dead(&r))
            return bad("not consumed");
        /* After the answer to the last, all eight are answered, each with its own value. */
        for (unsigned k = 8; k-- > 0;) {
            volatile struct vgp_reply *slot = (void *)(r.base + r.reply_offset + (7 - k) * r.slot_size);
            unsigned spins = 0;

            while (slot->seq != seq[k] && spins++ < RAW_WAIT_MS * 10)
                usleep(100);
            if (slot->seq != seq[k] || slot->result ||
                memcmp((const void *)(slot + 1), &a[k].value, sizeof(a[k].value)))
                return bad("a reply is lost, or another's");
        }
    }
    printf("attack: %u calls, the sequence passed 2^32: %s\n", n * 8, r.seq < 0x80000000u ? "yes" : "no");
    raw_close(&r);
    return 0;
}

static volatile bool forging;

static void *forger(void *p)
{
    struct raw *r = p;
    const uint32_t header = sizeof(struct vgp_window_shared), notify = r->w->notify_offset,
                   notify_size = r->w->notify_size;
    uint64_t x = 4711;

    while (forging) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        uint32_t to = (uint32_t)(x >> 8) & ~3u, value = (uint32_t)(x >> 40);

        switch (x & 3) {
        case 0: /* wake-up words, head and state of the worker, host function runs */
            to = 192 + to % (header - 192);
            break;
        case 1:
            to = r->reply_offset + to % (r->slots * r->slot_size);
            break;
        default:
            to = notify + to % notify_size;
        }
        *(volatile uint32_t *)(void *)(r->base + to) = value;
    }
    return NULL;
}

static int forge(unsigned n)
{
    unsigned opened = 0;

    for (unsigned done = 0; done < n;) {
        struct raw r;
        pthread_t t;

        if (!with_context(&r))
            return bad("no client");
        opened++;
        forging = true;
        pthread_create(&t, NULL, forger, &r);
        for (unsigned k = 0; k < 2000 && done < n; k++, done++) {
            struct vgp_args_vgpPing a = {.value = k};
            struct vgp_args_cuMemAlloc_v2 alloc = {.bytesize = 4096};

            raw_put(&r, VGP_vgpPing, &a, sizeof(a), k % 8);
            if (!(k % 64))
                raw_put(&r, VGP_cuMemAlloc_v2, &alloc, sizeof(alloc), 9);
            raw_publish(&r);
            if (!(k % 32))
                usleep(1000); /* the worker's position is unknown: avoids an overrun */
        }
        forging = false;
        pthread_join(t, NULL);
        raw_close(&r);
    }
    printf("attack: %u calls of %u clients beside forged completions\n", n, opened);
    return 0;
}

/* ---- storms ---- */

static int bells(unsigned n)
{
    enum { CLIENTS = 16 };
    struct raw r[CLIENTS];
    unsigned opened = 0;

    for (; opened < CLIENTS && !raw_open(&r[opened], path); opened++)
        ;
    if (opened < CLIENTS)
        return bad("no client");
    for (unsigned i = 0; i < n; i++) {
        for (unsigned k = 0; k < CLIENTS; k++)
            raw_publish_tail(&r[k], r[k].tail);
    }
    bool ok = true;
    for (unsigned k = 0; k < CLIENTS; k++) {
        ok = ok && raw_ping(&r[k]);
        raw_close(&r[k]);
    }
    printf("attack: %u doorbells of %u clients\n", n * CLIENTS, opened);
    return !ok;
}

static int deaths(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct raw r;

        if (raw_open(&r, path))
            return bad("no client");
        memset(r.ring, 0xff, 64);
        raw_publish_tail(&r, 64);
        const char *what = raw_wait_dead(&r);
        raw_close(&r);
        if (what)
            return bad(what);
    }
    printf("attack: %u clients ended by a malformed record\n", n);
    return 0;
}

static int knocks(unsigned n)
{
    struct vgp_sock_hello h = {.type = VGP_SOCK_HELLO, .version_major = VGP_VERSION_MAJOR + 1};
    unsigned refused = 0;

    for (unsigned i = 0; i < n; i++) {
        struct vgp_sock_refused answer = {0};
        int fd = raw_connect(path);

        if (fd < 0)
            return bad("no connection");
        send(fd, &h, sizeof(h), MSG_NOSIGNAL);
        refused += recv(fd, &answer, sizeof(answer), 0) > 0 && answer.type == VGP_SOCK_REFUSED;
        close(fd);
    }
    printf("attack: %u connections, %u refused\n", n, refused);
    return refused != n;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 2 ? argv[2] : "";
    unsigned n = argc > 3 ? (unsigned)atoi(argv[3]) : 1000;

    path = argc > 1 ? argv[1] : "";
    if (!strcmp(kind, "boundaries"))
        return boundaries();
    if (!strcmp(kind, "order"))
        return order(n);
    if (!strcmp(kind, "retype"))
        return retype();
    if (!strcmp(kind, "wrap"))
        return wrap(n);
    if (!strcmp(kind, "forge"))
        return forge(n);
    if (!strcmp(kind, "bells"))
        return bells(n);
    if (!strcmp(kind, "deaths"))
        return deaths(n);
    if (!strcmp(kind, "knocks"))
        return knocks(n);
    fprintf(stderr, "usage: attack SOCKET boundaries|order|retype|wrap|forge|bells|deaths|knocks [N]\n");
    return 2;
}
