/* SPDX-License-Identifier: MIT */
/* The device as its guest driver sees it: requests and events (vgpu_device.h). */
#define _GNU_SOURCE
#include "vu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "vgb_deadline.h"
#include "vgb_fd.h"

struct brk_vu_device brk_vu_dev;
static struct vgb_ratelimit limit;

#define REQUEST_MAX (sizeof(struct vgpu_cmd_pin) + VGPU_MAX_PIN_RUNS * sizeof(struct vgpu_pin_run))

/* Maximum requests handled at a time: a guest that refills its queue delays neither its other
 * clients nor QEMU, whose messages use the same loop. */
#define CONTROL_BUDGET 16u

/* A request whose answer comes later. */
struct brk_vu_request_state {
    struct brk_vu_request_state *next;
    uint32_t type, region;
    uint32_t generation; /* generation of the control queue */
    struct brk_vu_chain chain;
};

/* ---- configuration ---- */

void brk_vu_config_offer(struct vgpu_config *c)
{
    memset(c, 0, sizeof(*c));
    c->magic = VGPU_CONFIG_MAGIC;
    c->abi_version = VGPU_DEVICE_ABI_VERSION;
    c->max_clients = BRK_VU_CLIENTS_MAX < brk_opt.max_clients ? BRK_VU_CLIENTS_MAX : brk_opt.max_clients;
    c->max_pin_runs = VGPU_MAX_PIN_RUNS;
    c->window_size = brk_opt.window_size;
    c->vram_quota = brk_opt.vram_quota;
    c->pin_quota = brk_opt.pin_quota;
}

/* A quota of 0 means none, so any quota lowers it. */
static bool quota_lowered(uint64_t offer, uint64_t set)
{
    return !offer || (set && set <= offer);
}

const char *brk_vu_config_check(const struct vgpu_config *offer, const struct vgpu_config *set)
{
    if (set->magic != VGPU_CONFIG_MAGIC || set->abi_version != VGPU_DEVICE_ABI_VERSION)
        return "magic or version changed";
    if (!set->max_clients || set->max_clients > offer->max_clients)
        return "more clients than offered, or none";
    if (!set->max_pin_runs || set->max_pin_runs > offer->max_pin_runs)
        return "more runs in a PIN than offered, or none";
    if (set->window_size < VGP_WINDOW_MIN || set->window_size & (set->window_size - 1) ||
        set->window_size > 1u << 30)
        return "window size is not a power of two from 4 MiB to 1 GiB";
    if (!quota_lowered(offer->vram_quota, set->vram_quota) ||
        !quota_lowered(offer->pin_quota, set->pin_quota))
        return "a quota higher than offered";
    for (unsigned i = 0; i < 3; i++) {
        if (set->reserved[i])
            return "reserved fields are not zero";
    }
    return NULL;
}

/* ---- events ---- */

static bool send_event(uint32_t type, unsigned slot, uint32_t arg)
{
    struct brk_vu_queue *q = &brk_vu_dev.queue[VGPU_VQ_EVENT];
    struct vgpu_event e = {.type = type, .client = slot, .arg = arg};
    static struct brk_vu_chain c;
    uint16_t old = q->used_idx;

    int r = brk_vu_queue_pop(q, &brk_vu_dev.mem, &c);
    if (r == 2 && q->kick.fd >= 0)
        brk_eventfd_signal(q->kick.fd);
    if (r != 1)
        return false;
    uint32_t n =
        brk_vu_chain_room(&c) >= sizeof(e) ? brk_vu_chain_write(&brk_vu_dev.mem, &c, &e, sizeof(e)) : 0;
    brk_vu_queue_push(q, c.head, n);
    brk_vu_queue_notify(q, old);
    return true; /* a buffer too small loses the event, by the driver's fault */
}

void brk_vu_device_events(void)
{
    for (unsigned i = 0; i < brk_vu_dev.config.max_clients && i < BRK_VU_CLIENTS_MAX; i++) {
        struct brk_vu_slot *s = &brk_vu_dev.slot[i];

        if (s->wake) {
            if (!send_event(VGPU_EV_WAKE, i, 0))
                return;
            s->wake = false;
        }
        if (s->dead && !s->dead_sent) {
            if (!send_event(VGPU_EV_CLIENT_DEAD, i, s->dead_reason))
                return;
            s->dead_sent = true;
        }
    }
}

/* ---- answers ---- */

static void respond_chain(const struct brk_vu_chain *c, const void *resp, uint32_t size)
{
    struct brk_vu_queue *q = &brk_vu_dev.queue[VGPU_VQ_CONTROL];
    uint16_t old = q->used_idx;
    uint32_t n = brk_vu_chain_write(&brk_vu_dev.mem, c, resp, size);

    brk_vu_queue_push(q, c->head, n);
    brk_vu_queue_notify(q, old);
}

static void respond_status(const struct brk_vu_chain *c, uint32_t status)
{
    struct vgpu_resp_hdr r = {.status = status};

    respond_chain(c, &r, sizeof(r));
}

static void respond_pin(const struct brk_vu_chain *c, uint32_t status, uint64_t va)
{
    struct vgpu_resp_pin r = {.hdr = {.status = status}, .worker_va = va};

    respond_chain(c, &r, sizeof(r));
}

/* Keeps the chain for a later answer; false: no memory, or the driver reuses descriptors before
 * their answer. */
static bool keep_chain(struct brk_vu_slot *s, const struct brk_vu_chain *c, uint32_t type, uint32_t region)
{
    struct brk_vu_request_state *r = brk_vu_dev.npending < BRK_VU_PENDING_MAX ? malloc(sizeof(*r)) : NULL;

    if (!r)
        return false;
    brk_vu_dev.npending++;
    r->type = type;
    r->region = region;
    r->generation = brk_vu_dev.queue[VGPU_VQ_CONTROL].generation;
    r->chain = *c;
    r->next = s->pending;
    s->pending = r;
    return true;
}

/* Answers a pending request; drops it when the queue was reset. */
static void answer_at(struct brk_vu_request_state **at, uint32_t status, uint64_t va)
{
    struct brk_vu_request_state *r = *at;

    *at = r->next;
    if (r->generation == brk_vu_dev.queue[VGPU_VQ_CONTROL].generation) {
        if (r->type == VGPU_CMD_PIN)
            respond_pin(&r->chain, status, va);
        else
            respond_status(&r->chain, status);
    }
    brk_vu_dev.npending--;
    free(r);
}

/* Answers the oldest pending request of a type (and region). */
static void vu_device_answer(struct brk_vu_slot *s, uint32_t type, uint32_t region, uint32_t status,
                             uint64_t va)
{
    struct brk_vu_request_state **at = &s->pending, **found = NULL;

    for (; *at; at = &(*at)->next) {
        if ((*at)->type == type && (*at)->region == region)
            found = at;
    }
    if (found)
        answer_at(found, status, va);
}

/* Refuses the request kept last at once; an older request for the same region keeps waiting. */
static void answer_kept(struct brk_vu_slot *s, uint32_t status)
{
    answer_at(&s->pending, status, 0);
}

static void answer_all(struct brk_vu_slot *s, uint32_t status)
{
    while (s->pending)
        vu_device_answer(s, s->pending->type, s->pending->region, status, 0);
}

/* ---- what the clients report ---- */

static struct brk_vu_slot *slot_of(struct brk_client *c)
{
    return c->transport;
}

unsigned brk_vu_device_clients(void)
{
    unsigned n = brk_vu_dev.nclients;

    for (unsigned i = 0; i < BRK_VU_CLIENTS_MAX && n; i++)
        n -= brk_vu_dev.slot[i].client && brk_vu_dev.slot[i].client->stuck;
    return n;
}

static void client_left(struct brk_vu_slot *s)
{
    s->client = NULL;
    s->wake = s->dead = s->dead_sent = s->destroying = false;
    brk_vu_dev.nclients--;
    if (!brk_vu_device_clients() && brk_vu_dev.idle)
        brk_vu_dev.idle();
}

static void on_created(struct brk_client *c, uint32_t status)
{
    struct brk_vu_slot *s = slot_of(c);

    vu_device_answer(s, VGPU_CMD_CLIENT_CREATE, 0, status, 0);
    if (status) {
        answer_all(s, VGPU_S_WORKER);
        client_left(s);
    }
}

static void on_mapped(struct brk_client *c, uint32_t region, uint32_t status, uint64_t va)
{
    vu_device_answer(slot_of(c), VGPU_CMD_PIN, region, status, va);
}

static void on_unmapped(struct brk_client *c, uint32_t region, uint32_t status)
{
    vu_device_answer(slot_of(c), VGPU_CMD_UNPIN, region, status, 0);
}

static void on_wake(struct brk_client *c)
{
    slot_of(c)->wake = true;
    brk_vu_device_events();
}

static void on_dead(struct brk_client *c, uint32_t reason)
{
    struct brk_vu_slot *s = slot_of(c);

    s->dead = true;
    s->dead_reason = reason;
    answer_all(s, VGPU_S_WORKER);
    brk_vu_device_events();
}

static void on_stuck(struct brk_client *c)
{
    answer_all(slot_of(c), VGPU_S_STUCK);
    if (!brk_vu_device_clients() && brk_vu_dev.idle)
        brk_vu_dev.idle();
}

static void on_ended(struct brk_client *c)
{
    struct brk_vu_slot *s = slot_of(c);

    vu_device_answer(s, VGPU_CMD_CLIENT_DESTROY, 0, VGPU_S_OK, 0);
    answer_all(s, VGPU_S_NO_CLIENT);
    client_left(s);
}

static const struct brk_client_ops ops = {
    .created = on_created,
    .mapped = on_mapped,
    .unmapped = on_unmapped,
    .wake = on_wake,
    .dead = on_dead,
    .stuck = on_stuck,
    .ended = on_ended,
};

/* ---- requests ---- */

static bool is_same_file(int a, int b)
{
    struct stat as, bs;

    return fstat(a, &as) || fstat(b, &bs) || (as.st_dev == bs.st_dev && as.st_ino == bs.st_ino);
}

/*
 * True if a client of another slot has some of these bytes: the front end may place the windows anew,
 * and set another size of them beside clients whose workers cannot be ended. When such a client ends,
 * its slice is cleared.
 */
static bool slice_taken(const struct brk_client_setup *n)
{
    for (unsigned i = 0; i < BRK_VU_CLIENTS_MAX; i++) {
        const struct brk_client *c = brk_vu_dev.slot[i].client;

        if (c && c->window_fd >= 0 && n->window_offset < c->window_offset + c->window_size &&
            c->window_offset < n->window_offset + n->window_size && is_same_file(c->window_fd, n->window_fd))
            return true;
    }
    return false;
}

static void do_create(const struct vgpu_cmd_client_create *q, const struct brk_vu_chain *c)
{
    struct brk_vu_slot *s = &brk_vu_dev.slot[q->hdr.client];
    const struct brk_vu_queue *bell = &brk_vu_dev.queue[VGPU_VQ_DOORBELL + q->hdr.client];
    struct brk_client_setup setup = {
        .ops = &ops,
        .transport = s,
        .slot = q->hdr.client,
        .lines = (int)q->hdr.client,
        .label = (const char *)q->label,
        .window_fd = brk_vu_dev.windows_fd,
        .window_offset = brk_vu_dev.windows_offset + q->hdr.client * brk_vu_dev.config.window_size,
        .window_size = brk_vu_dev.config.window_size,
        .doorbell = bell->kick.fd,
        .events = true,
        .impatient = !(brk_vu_dev.features >> VGPU_F_PING & 1),
        .create_ms = VGB_CREATE_MS,
    };
    uint32_t status;

    if (s->client) {
        respond_status(c, VGPU_S_BUSY);
        return;
    }
    if (brk_vu_dev.windows_fd < 0 || bell->kick.fd < 0) {
        vgb_log_limited(&limit, VGB_WARN, "client %u: %s", q->hdr.client,
                        bell->kick.fd < 0       ? "its doorbell queue is not set up"
                        : brk_vu_dev.shmem_size ? "the front end has not mapped the windows"
                                                : "the windows are not in the memory table");
        respond_status(c, VGPU_S_INVALID);
        return;
    }
    if (slice_taken(&setup)) {
        respond_status(c, VGPU_S_BUSY);
        return;
    }
    if (!keep_chain(s, c, VGPU_CMD_CLIENT_CREATE, 0)) {
        respond_status(c, VGPU_S_NO_MEMORY);
        return;
    }
    brk_vu_dev.nclients++; /* before the call: it may answer at once */
    struct brk_client *client = brk_client_create(&setup, &status);
    if (!client) {
        vu_device_answer(s, VGPU_CMD_CLIENT_CREATE, 0, status, 0);
        brk_vu_dev.nclients--;
        return;
    }
    s->client = client;
}

static void do_destroy(unsigned i, const struct brk_vu_chain *c)
{
    struct brk_vu_slot *s = &brk_vu_dev.slot[i];

    if (!s->client || (s->destroying && !s->client->stuck)) {
        respond_status(c, VGPU_S_NO_CLIENT);
        return;
    }
    if (s->destroying) {
        respond_status(c, VGPU_S_STUCK);
        return;
    }
    s->destroying = true;
    if (!keep_chain(s, c, VGPU_CMD_CLIENT_DESTROY, 0))
        respond_status(c, VGPU_S_NO_MEMORY);
    brk_client_destroy(s->client);
}

static void do_pin(const struct vgpu_cmd_pin *q, uint32_t size, const struct brk_vu_chain *c)
{
    static struct brk_map_run runs[VGPU_MAX_PIN_RUNS + BRK_VU_REGIONS];
    struct brk_vu_slot *s = &brk_vu_dev.slot[q->hdr.client];
    struct brk_map m = {
        .region = q->region, .va = q->va, .length = q->length, .offset = q->offset, .runs = runs};
    uint32_t status = VGPU_S_INVALID;

    if (size < sizeof(*q) || !q->nruns || q->nruns > brk_vu_dev.config.max_pin_runs || q->padding ||
        size != sizeof(*q) + q->nruns * sizeof(q->runs[0]) ||
        q->pin_flags & ~(VGPU_PIN_READONLY | VGPU_PIN_MORE))
        goto out;
    status = VGPU_S_NO_CLIENT;
    if (!s->client || s->destroying)
        goto out;
    status = VGPU_S_INVALID;
    for (uint32_t i = 0; i < q->nruns; i++) {
        if (!brk_vu_mem_run(&brk_vu_dev.mem, q->runs[i].addr, q->runs[i].len, runs, &m.nruns,
                            VGPU_MAX_PIN_RUNS + BRK_VU_REGIONS))
            goto out;
    }
    m.flags = (q->pin_flags & VGPU_PIN_READONLY ? VGB_MAP_READONLY : 0) |
              (q->pin_flags & VGPU_PIN_MORE ? VGB_MAP_MORE : 0);
    if (q->pin_flags & VGPU_PIN_MORE) {
        status = brk_client_map(s->client, &m);
        goto out;
    }
    if (!keep_chain(s, c, VGPU_CMD_PIN, q->region)) {
        status = VGPU_S_NO_MEMORY;
        goto out;
    }
    status = brk_client_map(s->client, &m);
    if (status)
        answer_kept(s, status);
    return;
out:
    respond_pin(c, status, 0);
}

static void do_unpin(const struct vgpu_cmd_unpin *q, const struct brk_vu_chain *c)
{
    struct brk_vu_slot *s = &brk_vu_dev.slot[q->hdr.client];
    uint32_t status;

    if (q->padding) {
        respond_status(c, VGPU_S_INVALID);
        return;
    }
    if (!s->client || s->destroying) { /* the memory may be mapped until the worker has ended */
        respond_status(c, s->client ? VGPU_S_STUCK : VGPU_S_NO_CLIENT);
        return;
    }
    if (!keep_chain(s, c, VGPU_CMD_UNPIN, q->region)) {
        respond_status(c, VGPU_S_NO_MEMORY);
        return;
    }
    status = brk_client_unmap(s->client, q->region);
    if (status)
        answer_kept(s, status);
}

/* Handles a request. `buf` is a private copy. */
static void handle_request(const uint8_t *buf, uint32_t size, const struct brk_vu_chain *c)
{
    const struct vgpu_cmd_hdr *h = (const void *)buf;

    if (size < sizeof(*h) || brk_vu_chain_room(c) < sizeof(struct vgpu_resp_hdr)) {
        respond_status(c, VGPU_S_INVALID);
        return;
    }
    if (h->type == VGPU_CMD_PING) {
        /* Answered by the broker itself: no worker or pending request can delay it. */
        bool good = size == sizeof(struct vgpu_cmd_ping) && !h->flags && !h->padding && !h->client;

        respond_status(c, good ? VGPU_S_OK : VGPU_S_INVALID);
        return;
    }
    if (h->type < VGPU_CMD_CLIENT_CREATE || h->type > VGPU_CMD_UNPIN) {
        respond_status(c, VGPU_S_UNSUPPORTED);
        return;
    }
    if (h->flags || h->padding || h->client >= brk_vu_dev.config.max_clients ||
        h->client >= BRK_VU_CLIENTS_MAX) {
        respond_status(c, VGPU_S_INVALID);
        return;
    }
    if (h->type == VGPU_CMD_CLIENT_CREATE && size == sizeof(struct vgpu_cmd_client_create))
        do_create((const void *)buf, c);
    else if (h->type == VGPU_CMD_CLIENT_DESTROY && size == sizeof(struct vgpu_cmd_client_destroy))
        do_destroy(h->client, c);
    else if (h->type == VGPU_CMD_PIN && brk_vu_chain_room(c) >= sizeof(struct vgpu_resp_pin))
        do_pin((const void *)buf, size, c);
    else if (h->type == VGPU_CMD_UNPIN && size == sizeof(struct vgpu_cmd_unpin))
        do_unpin((const void *)buf, c);
    else
        respond_status(c, VGPU_S_INVALID);
}

void brk_vu_device_control(void)
{
    struct brk_vu_queue *q = &brk_vu_dev.queue[VGPU_VQ_CONTROL];
    static uint8_t buf[REQUEST_MAX] __attribute__((aligned(16)));
    static struct brk_vu_chain c;
    uint64_t total;
    int r = 2;

    if (brk_vu_dev.shmem_waiting)
        return; /* served when the front end has answered */
    for (unsigned i = 0; i < CONTROL_BUDGET; i++) {
        r = brk_vu_queue_pop(q, &brk_vu_dev.mem, &c);
        if (r != 1)
            break;
        uint32_t n = brk_vu_chain_read(&brk_vu_dev.mem, &c, buf, sizeof(buf), &total);

        handle_request(buf, n == total ? n : 0, &c);
    }
    if (r > 0 && q->kick.fd >= 0)
        brk_eventfd_signal(q->kick.fd);
}

void brk_vu_device_windows(int fd)
{
    if (brk_vu_dev.windows_fd >= 0)
        brk_foreign_close(brk_vu_dev.windows_fd);
    brk_vu_dev.windows_fd = fd;
}

bool brk_vu_device_started(void)
{
    const struct brk_vu_queue *q = &brk_vu_dev.queue[VGPU_VQ_CONTROL];

    return q->started && q->enabled;
}

void brk_vu_device_doorbell(unsigned i)
{
    if (brk_vu_dev.slot[i].client && brk_vu_dev.queue[VGPU_VQ_DOORBELL + i].kick.fd >= 0)
        brk_client_new_doorbell(brk_vu_dev.slot[i].client, brk_vu_dev.queue[VGPU_VQ_DOORBELL + i].kick.fd);
}

void brk_vu_device_end_clients(void)
{
    if (!brk_vu_device_clients()) {
        if (brk_vu_dev.idle)
            brk_vu_dev.idle();
        return;
    }
    for (unsigned i = 0; i < BRK_VU_CLIENTS_MAX; i++) {
        struct brk_vu_slot *s = &brk_vu_dev.slot[i];

        if (s->client && !s->destroying) {
            s->destroying = true;
            brk_client_destroy(s->client); /* s->client may be NULL after this */
        }
    }
}
