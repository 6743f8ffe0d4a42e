/* SPDX-License-Identifier: MIT */
/*
 * Sends a recording's calls to a worker in order, and waits for each reply at its place in the
 * recording. A single thread suffices: events follow all events that they depend on.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "replay/replay.h"
#include "base/vgpu_cli.h"
#include "../../../lib/clock/clock.h"

#define TEXT_MAX (16u << 20)
#define LATE_MAX 65536u
#define STUCK_NS 100000000 /* then a kernel may be waiting for data of the program */

/* ---- notifications of the worker ---- */

static void add_text(struct replay_run *r, int side, const uint8_t *data, uint32_t size)
{
    char *grown;

    if (size > TEXT_MAX - r->text_size[side])
        return;
    grown = realloc(r->text[side], r->text_size[side] + size + 1);
    if (grown == NULL)
        vgpu_cli_die("out of memory");
    memcpy(grown + r->text_size[side], data, size);
    r->text[side] = grown;
    r->text_size[side] += size;
    grown[r->text_size[side]] = '\0';
}

static void add_late(struct replay_run *r, int side, uint64_t cookie)
{
    uint64_t *grown;

    if (r->late_count[side] == LATE_MAX)
        return;
    grown = realloc(r->late[side], (r->late_count[side] + 1) * sizeof(*grown));
    if (grown == NULL)
        vgpu_cli_die("out of memory");
    r->late[side] = grown;
    grown[r->late_count[side]++] = cookie;
}

static void add_asked(struct replay_run *r, uint64_t cookie, const uint8_t *data, uint32_t size,
                      bool released)
{
    uint32_t words[3] = {0};

    if (!released)
        memcpy(words, data, size < sizeof(words) ? size : sizeof(words));
    if (r->asked_count == r->asked_room) {
        r->asked_room = r->asked_room == 0 ? 64 : 2 * r->asked_room;
        r->asked = realloc(r->asked, r->asked_room * sizeof(*r->asked));
        if (r->asked == NULL)
            vgpu_cli_die("out of memory");
    }
    r->asked[r->asked_count++] = (struct replay_host_run){
        .cookie = cookie, .slot = words[1], .sequence = words[2], .released = released};
}

/* True for the error of a call without a reply. */
static bool is_late(uint16_t type)
{
    return type == VGP_NOTIFY_ASYNC_ERROR || type == VGP_NOTIFY_CAPTURE_LOST ||
           type == VGP_NOTIFY_GRAPH_FAILED;
}

static void on_notify(void *arg, uint16_t type, uint64_t cookie, const uint8_t *data, uint32_t size)
{
    struct replay_run *r = arg;
    uint32_t n = size < sizeof(r->detail) - 1 ? size : (uint32_t)sizeof(r->detail) - 1;

    switch (type) {
    case VGP_NOTIFY_PRINT:
        add_text(r, 1, data, size);
        break;
    case VGP_NOTIFY_DETAIL:
        for (uint32_t i = 0; i < n; i++)
            r->detail[i] = data[i] >= 0x20 && data[i] < 0x7f ? (char)data[i] : ' ';
        r->detail[n] = '\0';
        break;
    case VGP_NOTIFY_HOST_FUNC:
    case VGP_NOTIFY_RELEASED:
        add_asked(r, cookie, data, size, type == VGP_NOTIFY_RELEASED);
        break;
    default:
        if (is_late(type))
            add_late(r, 1, cookie);
        break;
    }
}

static int64_t run_deadline(const struct replay_run *r)
{
    return (int64_t)clk_now_ns() + r->options.timeout_ms * 1000000;
}

/* Sleeps once, for a bounded time. False: the deadline has passed or the worker is gone. */
static bool rest_until(struct replay_run *r, uint64_t seen, int64_t until)
{
    if (lnk_ring_notified(&r->ring)) {
        lnk_ring_drain(&r->ring);
        return true;
    }
    if ((int64_t)clk_now_ns() >= until || lnk_ring_dead(&r->ring) != CUDA_SUCCESS)
        return false;
    lnk_ring_sleep(&r->ring, seen, 100000000);
    /* Bounded, and only to let a stuck kernel continue: the result does not depend on it. */
    if (r->either != NULL && until - (int64_t)clk_now_ns() < r->options.timeout_ms * 1000000 - STUCK_NS)
        replay_host_apply(r);
    return true;
}

static bool wait_reply(struct replay_run *r, struct lnk_call *c)
{
    int64_t until = run_deadline(r);

    for (int i = 0; i < 2000; i++) {
        if (lnk_ring_ready(c))
            return true;
        if (i % 16 == 15)
            sched_yield();
    }
    for (;;) {
        uint64_t seen = lnk_ring_announce_sleep(&r->ring);

        if (lnk_ring_ready(c))
            return true;
        if (!rest_until(r, seen, until))
            return lnk_ring_ready(c);
    }
}

/* ---- calls ---- */

/* Prepares the local side of a call before it is sent. False: it cannot be sent. */
static bool prepare_call(struct replay_run *r, const struct replay_event *e, uint8_t *args)
{
    switch (e->record->call) {
    case VGP_vgpRegionRegister:
        if (!replay_region_new(r, (struct vgp_args_vgpRegionRegister *)(void *)args))
            return false;
        break;
    case VGP_vgpRegionUnregister: {
        struct vgp_args_vgpRegionUnregister *a = (void *)args;
        struct replay_region *region = replay_region_find(r, a->region);

        if (region == NULL)
            return false;
        a->region = region->memory.region;
        break;
    }
    case VGP_vgpHostFuncFinished: {
        struct vgp_args_vgpHostFuncFinished *a = (void *)args;
        uint64_t to;

        if (!replay_pairs_find(&r->host_runs, (uint64_t)a->slot << 32 | a->sequence, &to))
            return false;
        a->slot = (uint32_t)(to >> 32);
        a->sequence = (uint32_t)to;
        break;
    }
    default:
        break;
    }
    return true;
}

static void note_freed(struct replay_run *r, const struct replay_event *e)
{
    struct vgp_place at = vgp_ends(e->record->call, VGP_KIND_MEMORY);

    if (at.where == 0)
        at = vgp_ends(e->record->call, VGP_KIND_RESERVATION);
    if (at.where != 0)
        replay_map_free(&r->map, vgp_place_get(at, e->args, NULL));
}

static void put_staging(struct replay_run *r, const struct replay_event *e)
{
    const struct vgp_args_vgpCopy *c = (const void *)e->args;

    for (uint64_t i = 0; i < c->height * c->depth; i++) {
        uint8_t *row = r->ring.staging + c->src + vgp_copy_row(i, c->srcPitch, c->srcHeight, c->height);

        memcpy(row, e->data + i * c->widthBytes, c->widthBytes);
        if (!r->options.keep_words && c->dstKind == VGP_COPY_DEVICE)
            r->map.data_words += replay_map_words(&r->map, row, c->widthBytes, replay_skew(c->dst));
    }
}

/* Drops a reply that the recorded program never read. */
static void forget_call(struct replay_run *r, struct replay_call *c)
{
    const void *payload;
    uint32_t size;

    if (!c->used)
        return;
    r->totals.unseen++;
    if (wait_reply(r, &c->call))
        lnk_ring_collect(&c->call, &payload, &size);
    lnk_ring_end(&c->call);
    c->used = false;
}

static CUresult send_call(struct replay_run *r, struct lnk_call *c, const struct vgp_record *record,
                          const uint8_t *args)
{
    uint32_t size = record->size - (uint32_t)sizeof(*record);
    CUresult res = lnk_ring_begin(&r->ring, c, record->call, size,
                                  record->reply_slot == VGP_NO_REPLY ? LNK_REPLY_NONE : LNK_REPLY_WAIT,
                                  record->context, record->thread);

    if (res != CUDA_SUCCESS)
        return res;
    memcpy(c->args, args, size);
    lnk_ring_publish(c);
    return CUDA_SUCCESS;
}

/* Allocates memory before the recorded program does, so that the program's memory moves. */
static void move_first(struct replay_run *r, const struct vgp_record *record)
{
    struct vgp_record own = {.size = sizeof(own) + 16,
                             .call = VGP_cuMemAlloc_v2,
                             .context = record->context,
                             .thread = record->thread};
    uint64_t args[2] = {r->options.move, 0};
    const void *payload;
    struct lnk_call c;
    uint32_t size;

    if (r->options.move == 0 || record->context == 0 ||
        (!vgp_makes(record->call, VGP_KIND_MEMORY) && !vgp_makes(record->call, VGP_H_MODULE) &&
         !vgp_makes(record->call, VGP_H_LIBRARY)))
        return;
    r->options.move = 0;
    if (send_call(r, &c, &own, (uint8_t *)args) != CUDA_SUCCESS)
        return;
    if (!wait_reply(r, &c) || lnk_ring_collect(&c, &payload, &size) != CUDA_SUCCESS)
        vgpu_cli_say("--move: the GPU does not give that much memory: nothing is moved");
    lnk_ring_end(&c);
}

static bool skip_event(struct replay_run *r, const struct replay_event *e, const char *why)
{
    r->totals.skipped++;
    fprintf(r->options.out, "not replayed: call %llu %s: %s\n", (unsigned long long)e->serial,
            vgp_fields_of(e->record->call)->name, why);
    return true;
}

static bool on_call(struct replay_run *r, const struct replay_event *e)
{
    static uint64_t buffer[VGP_RECORD_MAX / 8];
    uint8_t *args = (uint8_t *)buffer;
    struct replay_call once = {0}, *c = &once;

    if (e->record->reply_slot != VGP_NO_REPLY) {
        c = &r->open[e->record->reply_slot];
        forget_call(r, c);
        memset(c->fixed, 0, sizeof(c->fixed));
        memcpy(c->fixed, e->args, e->args_size < sizeof(c->fixed) ? e->args_size : sizeof(c->fixed));
    }
    memcpy(args, e->args, e->args_size);
    if (!prepare_call(r, e, args))
        return skip_event(r, e, "what it needs could not be made here");
    if (e->record->call != VGP_vgpRegionRegister && !replay_patch(r, e->record->call, args))
        return skip_event(r, e, "what it takes was given out by another process");
    if (e->data_size != 0)
        put_staging(r, e);
    move_first(r, e->record);
    r->totals.calls++;
    if (e->record->reply_slot == VGP_NO_REPLY)
        r->totals.silent++;
    if (send_call(r, &c->call, e->record, args) != CUDA_SUCCESS)
        return false;
    c->serial = e->serial;
    c->used = e->record->reply_slot != VGP_NO_REPLY;
    note_freed(r, e);
    return true;
}

/* ---- replies ---- */

static bool is_query(uint16_t call)
{
    return vgp_effect(call) == VGP_EFFECT_ASKS;
}

/*
 * Repeats a query: the recorded program saw the work complete and continued, so it must complete
 * here.
 */
static CUresult ask_again(struct replay_run *r, const struct replay_event *e, CUresult res)
{
    static uint64_t args[VGP_RECORD_MAX / 8];
    struct replay_call *c = &r->open[e->call->reply_slot];
    int64_t until = run_deadline(r);

    memcpy(args, c->fixed, sizeof(c->fixed));
    replay_patch(r, e->call->call, (uint8_t *)args);
    while (res == CUDA_ERROR_NOT_READY && (int64_t)clk_now_ns() < until) {
        const void *payload;
        struct lnk_call again;
        uint32_t size;

        sched_yield();
        if (until - (int64_t)clk_now_ns() < r->options.timeout_ms * 1000000 - STUCK_NS)
            replay_host_apply(r);
        res = send_call(r, &again, e->call, (uint8_t *)args);
        if (res == CUDA_SUCCESS && wait_reply(r, &again))
            res = lnk_ring_collect(&again, &payload, &size);
        lnk_ring_end(&again);
    }
    return res;
}

/* Compares the bytes that a copy has written to staging or registered memory. */
static void compare_data(struct replay_run *r, const struct replay_event *e)
{
    const struct vgp_args_vgpCopy *c = e->copy;
    uint64_t rows = c->height * c->depth;
    uint8_t *packed, *at;
    uint64_t extent = vgp_copy_row(rows - 1, c->dstPitch, c->dstHeight, c->height) + c->widthBytes;

    at = c->dstKind == VGP_COPY_STAGING ? r->ring.staging + c->dst : replay_host_at(r, c->dst, extent);
    packed = malloc(e->data_size);
    if (at == NULL || packed == NULL) {
        free(packed);
        return;
    }
    for (uint64_t i = 0; i < rows; i++)
        memcpy(packed + i * c->widthBytes, at + vgp_copy_row(i, c->dstPitch, c->dstHeight, c->height),
               c->widthBytes);
    if (!replay_compare_bytes(r, e->serial, e->call->call, "copied to the host", e->data, packed,
                              e->data_size))
        r->totals.equal--; /* only the reply itself was equal */
    for (uint64_t i = 0; i < rows && c->dstKind == VGP_COPY_HOST; i++)
        replay_host_known(r, c->dst + vgp_copy_row(i, c->dstPitch, c->dstHeight, c->height), c->widthBytes);
    free(packed);
}

static bool on_reply(struct replay_run *r, const struct replay_event *e)
{
    struct replay_call *c = &r->open[e->call->reply_slot];
    uint64_t before = r->totals.equal;
    const void *payload = NULL;
    uint32_t size = 0;
    CUresult res;

    if (!c->used || c->serial != e->serial)
        return true; /* the call was not sent */
    if (!wait_reply(r, &c->call)) {
        replay_differs(r, e->serial, e->call->call, "no reply within %lld ms (--timeout)",
                       (long long)r->options.timeout_ms);
        return false;
    }
    res = lnk_ring_collect(&c->call, &payload, &size);
    c->used = false;
    if (is_query(e->call->call) && e->reply->result == CUDA_ERROR_NOT_READY &&
        (res == CUDA_SUCCESS || res == CUDA_ERROR_NOT_READY)) {
        r->totals.timing++;
    } else {
        if (is_query(e->call->call) && e->reply->result == CUDA_SUCCESS)
            res = ask_again(r, e, res);
        replay_compare(r, e, res, payload, size);
        if (e->data_size != 0 && res == CUDA_SUCCESS && r->totals.equal != before)
            compare_data(r, e);
    }
    lnk_ring_end(&c->call);
    if (e->call->call == VGP_vgpRegionUnregister)
        replay_region_end(r, ((const struct vgp_args_vgpRegionUnregister *)(const void *)c->fixed)->region);
    return true;
}

/* ---- other events ---- */

static struct replay_host_run *find_asked(struct replay_run *r, uint64_t cookie, bool released)
{
    for (size_t i = 0; i < r->asked_count; i++) {
        if (r->asked[i].cookie == cookie && r->asked[i].released == released && !r->asked[i].taken)
            return &r->asked[i];
    }
    return NULL;
}

/* The recorded worker requested a host function, so the replay's worker must request it as well. */
static bool on_notified(struct replay_run *r, const struct replay_event *e)
{
    bool released = e->notify->type == VGP_NOTIFY_RELEASED;
    struct replay_host_run *run;
    int64_t until = run_deadline(r);
    uint32_t words[3] = {0};

    if (e->notify->type == VGP_NOTIFY_PRINT)
        add_text(r, 0, e->data, e->data_size);
    else if (is_late(e->notify->type))
        add_late(r, 0, e->notify->cookie);
    if (e->notify->type != VGP_NOTIFY_HOST_FUNC && !released)
        return true;
    while ((run = find_asked(r, e->notify->cookie, released)) == NULL) {
        uint64_t seen = lnk_ring_announce_sleep(&r->ring);

        if (!rest_until(r, seen, until) && find_asked(r, e->notify->cookie, released) == NULL) {
            replay_differs(r, 0, released ? VGP_vgpUserObjectDrop : VGP_vgpLaunchHostFunc,
                           "the worker never asked for host function %llu",
                           (unsigned long long)e->notify->cookie);
            return false;
        }
    }
    run->taken = true;
    if (released)
        return true;
    memcpy(words, e->data, e->data_size < sizeof(words) ? e->data_size : sizeof(words));
    if (words[2] != 0)
        replay_pairs_add(&r->host_runs, (uint64_t)words[1] << 32 | words[2],
                         (uint64_t)run->slot << 32 | run->sequence);
    return true;
}

static void on_done(struct replay_run *r, const struct vgp_event_done *done)
{
    uint64_t to;

    if (!replay_pairs_find(&r->host_runs, (uint64_t)done->slot << 32 | done->sequence, &to) ||
        to >> 32 >= VGP_HOST_RUNS)
        return;
    __atomic_store_n(&r->ring.shared->host_done[to >> 32], (uint32_t)to, __ATOMIC_RELEASE);
}

/* Processes all events once; `check`: only validates the file. */
static int walk_events(struct replay_run *r, bool check)
{
    uint64_t serial = 1;
    uint16_t call = VGP_vgpHello;
    struct replay_event e;
    bool go = true;
    int rc;

    while (go && (rc = replay_file_next(&r->file, &e, r->options.partial)) == 1) {
        if (e.type == VGP_EVENT_END && e.end->reason != VGP_END_EXIT && check)
            vgpu_cli_say("%s: the recording ended before the program: %s", r->file.path,
                         e.end->reason == VGP_END_LIMIT ? "it had reached its limit" : "an error");
        if (check)
            continue;
        switch (e.type) {
        case VGP_EVENT_CALL:
            replay_host_settle(r, e.serial, e.record->call);
            go = on_call(r, &e);
            serial = e.serial;
            call = e.record->call;
            break;
        case VGP_EVENT_REPLY:
            serial = e.serial;
            call = e.call->call;
            go = on_reply(r, &e);
            break;
        case VGP_EVENT_NOTIFY:
            go = on_notified(r, &e);
            break;
        case VGP_EVENT_HOST_DONE:
            on_done(r, e.done);
            break;
        case VGP_EVENT_HOST_WRITE:
        case VGP_EVENT_HOST_RESULT:
        case VGP_EVENT_HOST_EITHER:
            replay_host_event(r, &e, serial, call);
            break;
        default:
            break;
        }
        /* A worker that had ended in the recording as well sends nothing more. */
        if (lnk_ring_dead(&r->ring) != CUDA_SUCCESS && e.type == VGP_EVENT_REPLY && e.reply->dead)
            return 0;
    }
    if (!go && r->totals.different == 0)
        replay_differs(r, serial, call, "the worker has ended: %s",
                       r->detail[0] != '\0' ? r->detail : "it does not say why");
    if (!go)
        return 0;
    if (rc < 0)
        vgpu_cli_say("%s", r->file.why);
    return rc;
}

int replay_run(struct replay_run *r)
{
    const char *why = NULL;

    if (walk_events(r, true) < 0)
        return -1;
    if (!replay_file_rewind(&r->file)) {
        vgpu_cli_say("%s: cannot be read twice", r->file.path);
        return -1;
    }
    if (lnk_transport_open(&r->transport) != 0) {
        vgpu_cli_say("%s", r->transport.why);
        return -1;
    }
    if (lnk_ring_init(&r->ring, &r->transport, on_notify, r, &why) != 0) {
        vgpu_cli_say("the window of the %s transport: %s", r->transport.ops->name, why);
        return -1;
    }
    if (r->ring.staging_size < r->file.header.staging_size ||
        r->ring.slot_count < r->file.header.reply_slots) {
        vgpu_cli_say("%s: was recorded with a larger window (%llu bytes of staging, %u slots) than "
                     "this worker has (%llu, %u)",
                     r->file.path, (unsigned long long)r->file.header.staging_size,
                     r->file.header.reply_slots, (unsigned long long)r->ring.staging_size,
                     r->ring.slot_count);
        return -1;
    }
    if (walk_events(r, false) < 0)
        return -1;
    for (unsigned i = 0; i < REPLAY_SLOTS; i++)
        forget_call(r, &r->open[i]);
    if (lnk_ring_notified(&r->ring))
        lnk_ring_drain(&r->ring);
    replay_print(r);
    r->transport.ops->close(&r->transport);
    return r->totals.different != 0;
}
