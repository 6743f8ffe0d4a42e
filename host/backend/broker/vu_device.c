/* SPDX-License-Identifier: MIT */
/* The device as its guest driver sees it: requests and events (vgpu_device.h). */
#define _GNU_SOURCE
#include "vu.h"

#include <stdlib.h>
#include <string.h>

#include "vgb_fd.h"

struct vu_device vu_dev;
static struct vgb_ratelimit limit;

#define REQUEST_MAX                                                                                \
    (sizeof(struct vgpu_cmd_pin) + VGPU_MAX_PIN_RUNS * sizeof(struct vgpu_pin_run))

/* A request whose answer comes later. */
struct vu_request_state {
    struct vu_request_state *next;
    uint32_t type, region;
    uint32_t generation; /* of the control queue */
    struct vu_chain chain;
};

/* ---- configuration ---- */

void vu_config_offer(struct vgpu_config *c)
{
    memset(c, 0, sizeof(*c));
    c->magic = VGPU_CONFIG_MAGIC;
    c->abi_version = VGPU_DEVICE_ABI_VERSION;
    c->max_clients = VU_CLIENTS_MAX < vgb_opt.max_clients ? VU_CLIENTS_MAX : vgb_opt.max_clients;
    c->max_pin_runs = VGPU_MAX_PIN_RUNS;
    c->window_size = vgb_opt.window_size;
    c->vram_quota = vgb_opt.vram_quota;
    c->pin_quota = vgb_opt.pin_quota;
}

/* A quota of 0 means none: lowering is from none to some, or from more to less. */
static bool quota_lowered(uint64_t offer, uint64_t set)
{
    return !offer || (set && set <= offer);
}

const char *vu_config_check(const struct vgpu_config *offer, const struct vgpu_config *set)
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
    struct vu_queue *q = &vu_dev.queue[VGPU_VQ_EVENT];
    struct vgpu_event e = {.type = type, .client = slot, .arg = arg};
    static struct vu_chain c;
    uint16_t old = q->used_idx;

    if (vu_queue_pop(q, &vu_dev.mem, &c) != 1)
        return false;
    uint32_t n = vu_chain_room(&c) >= sizeof(e)
                     ? vu_chain_write(&vu_dev.mem, &c, &e, sizeof(e)) : 0;
    vu_queue_push(q, c.head, n);
    vu_queue_notify(q, old);
    return true; /* a buffer that is too small loses the event: the driver's doing */
}

void vu_device_events(void)
{
    for (unsigned i = 0; i < vu_dev.config.max_clients && i < VU_CLIENTS_MAX; i++) {
        struct vu_slot *s = &vu_dev.slot[i];

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

static void respond(const struct vu_chain *c, const void *resp, uint32_t size)
{
    struct vu_queue *q = &vu_dev.queue[VGPU_VQ_CONTROL];
    uint16_t old = q->used_idx;
    uint32_t n = vu_chain_write(&vu_dev.mem, c, resp, size);

    vu_queue_push(q, c->head, n);
    vu_queue_notify(q, old);
}

static void respond_status(const struct vu_chain *c, uint32_t status)
{
    struct vgpu_resp_hdr r = {.status = status};

    respond(c, &r, sizeof(r));
}

static void respond_pin(const struct vu_chain *c, uint32_t status, uint64_t va)
{
    struct vgpu_resp_pin r = {.hdr = {.status = status}, .worker_va = va};

    respond(c, &r, sizeof(r));
}

/* Keeps the chain for later; false: no memory. */
static bool keep(struct vu_slot *s, const struct vu_chain *c, uint32_t type, uint32_t region)
{
    struct vu_request_state *r = malloc(sizeof(*r));

    if (!r)
        return false;
    r->type = type;
    r->region = region;
    r->generation = vu_dev.queue[VGPU_VQ_CONTROL].generation;
    r->chain = *c;
    r->next = s->pending;
    s->pending = r;
    return true;
}

/* Answers the oldest pending request of a type (and region); drops it when the queue was reset. */
static void answer(struct vu_slot *s, uint32_t type, uint32_t region, uint32_t status, uint64_t va)
{
    struct vu_request_state **at = &s->pending, **found = NULL;

    for (; *at; at = &(*at)->next) {
        if ((*at)->type == type && (*at)->region == region)
            found = at;
    }
    if (!found)
        return;
    struct vu_request_state *r = *found;
    *found = r->next;
    if (r->generation == vu_dev.queue[VGPU_VQ_CONTROL].generation) {
        if (type == VGPU_CMD_PIN)
            respond_pin(&r->chain, status, va);
        else
            respond_status(&r->chain, status);
    }
    free(r);
}

static void answer_all(struct vu_slot *s, uint32_t status)
{
    while (s->pending)
        answer(s, s->pending->type, s->pending->region, status, 0);
}

/* ---- what the clients report ---- */

static struct vu_slot *slot_of(struct vgb_client *c)
{
    return c->transport;
}

static void client_left(struct vu_slot *s)
{
    s->client = NULL;
    s->wake = s->dead = s->dead_sent = s->destroying = false;
    vu_dev.nclients--;
    if (!vu_dev.nclients && vu_dev.idle)
        vu_dev.idle();
}

static void on_created(struct vgb_client *c, uint32_t status)
{
    struct vu_slot *s = slot_of(c);

    answer(s, VGPU_CMD_CLIENT_CREATE, 0, status, 0);
    if (status) {
        answer_all(s, VGPU_S_WORKER);
        client_left(s);
    }
}

static void on_mapped(struct vgb_client *c, uint32_t region, uint32_t status, uint64_t va)
{
    answer(slot_of(c), VGPU_CMD_PIN, region, status, va);
}

static void on_unmapped(struct vgb_client *c, uint32_t region, uint32_t status)
{
    answer(slot_of(c), VGPU_CMD_UNPIN, region, status, 0);
}

static void on_wake(struct vgb_client *c)
{
    slot_of(c)->wake = true;
    vu_device_events();
}

static void on_dead(struct vgb_client *c, uint32_t reason)
{
    struct vu_slot *s = slot_of(c);

    s->dead = true;
    s->dead_reason = reason;
    answer_all(s, VGPU_S_WORKER);
    vu_device_events();
}

static void on_ended(struct vgb_client *c)
{
    struct vu_slot *s = slot_of(c);

    answer(s, VGPU_CMD_CLIENT_DESTROY, 0, VGPU_S_OK, 0);
    answer_all(s, VGPU_S_NO_CLIENT);
    client_left(s);
}

static const struct vgb_client_ops ops = {
    .created = on_created,
    .mapped = on_mapped,
    .unmapped = on_unmapped,
    .wake = on_wake,
    .dead = on_dead,
    .ended = on_ended,
};

/* ---- requests ---- */

static void do_create(const struct vgpu_cmd_client_create *q, const struct vu_chain *c)
{
    struct vu_slot *s = &vu_dev.slot[q->hdr.client];
    const struct vu_queue *bell = &vu_dev.queue[VGPU_VQ_DOORBELL + q->hdr.client];
    struct vgb_client_setup setup = {
        .ops = &ops,
        .transport = s,
        .slot = q->hdr.client,
        .label = (const char *)q->label,
        .window_fd = vu_dev.windows_fd,
        .window_offset = vu_dev.windows_offset + q->hdr.client * vu_dev.config.window_size,
        .window_size = vu_dev.config.window_size,
        .doorbell = bell->kick.fd,
        .events = true,
    };
    uint32_t status;

    if (s->client) {
        respond_status(c, VGPU_S_BUSY);
        return;
    }
    if (vu_dev.windows_fd < 0 || bell->kick.fd < 0) {
        vgb_log_limited(&limit, VGB_WARN, "client %u: %s", q->hdr.client,
                        bell->kick.fd < 0 ? "its doorbell queue is not set up"
                                          : "the windows are not in the memory table");
        respond_status(c, VGPU_S_INVALID);
        return;
    }
    if (!keep(s, c, VGPU_CMD_CLIENT_CREATE, 0)) {
        respond_status(c, VGPU_S_NO_MEMORY);
        return;
    }
    vu_dev.nclients++; /* before the call: it may answer at once */
    struct vgb_client *client = vgb_client_create(&setup, &status);
    if (!client) {
        answer(s, VGPU_CMD_CLIENT_CREATE, 0, status, 0);
        vu_dev.nclients--;
        return;
    }
    s->client = client;
}

static void do_destroy(unsigned i, const struct vu_chain *c)
{
    struct vu_slot *s = &vu_dev.slot[i];

    if (!s->client || s->destroying) {
        respond_status(c, VGPU_S_NO_CLIENT);
        return;
    }
    s->destroying = true;
    if (!keep(s, c, VGPU_CMD_CLIENT_DESTROY, 0))
        respond_status(c, VGPU_S_NO_MEMORY);
    vgb_client_destroy(s->client);
}

static void do_pin(const struct vgpu_cmd_pin *q, uint32_t size, const struct vu_chain *c)
{
    static struct vgb_map_run runs[VGPU_MAX_PIN_RUNS + VU_REGIONS];
    struct vu_slot *s = &vu_dev.slot[q->hdr.client];
    struct vgb_map m = {.region = q->region,
                        .va = q->va,
                        .length = q->length,
                        .offset = q->offset,
                        .runs = runs};
    uint32_t status = VGPU_S_INVALID;

    if (size < sizeof(*q) || !q->nruns || q->nruns > vu_dev.config.max_pin_runs || q->padding ||
        size != sizeof(*q) + q->nruns * sizeof(q->runs[0]) ||
        q->pin_flags & ~(VGPU_PIN_READONLY | VGPU_PIN_MORE))
        goto out;
    status = VGPU_S_NO_CLIENT;
    if (!s->client || s->destroying)
        goto out;
    status = VGPU_S_INVALID;
    for (uint32_t i = 0; i < q->nruns; i++) {
        if (!vu_mem_run(&vu_dev.mem, q->runs[i].addr, q->runs[i].len, runs, &m.nruns,
                        VGPU_MAX_PIN_RUNS + VU_REGIONS))
            goto out;
    }
    m.flags = (q->pin_flags & VGPU_PIN_READONLY ? VGB_MAP_READONLY : 0) |
              (q->pin_flags & VGPU_PIN_MORE ? VGB_MAP_MORE : 0);
    if (q->pin_flags & VGPU_PIN_MORE) {
        status = vgb_client_map(s->client, &m);
        goto out;
    }
    if (!keep(s, c, VGPU_CMD_PIN, q->region)) {
        status = VGPU_S_NO_MEMORY;
        goto out;
    }
    status = vgb_client_map(s->client, &m);
    if (status)
        answer(s, VGPU_CMD_PIN, q->region, status, 0);
    return;
out:
    respond_pin(c, status, 0);
}

static void do_unpin(const struct vgpu_cmd_unpin *q, const struct vu_chain *c)
{
    struct vu_slot *s = &vu_dev.slot[q->hdr.client];
    uint32_t status;

    if (q->padding) {
        respond_status(c, VGPU_S_INVALID);
        return;
    }
    if (!s->client || s->destroying) {
        respond_status(c, VGPU_S_NO_CLIENT);
        return;
    }
    if (!keep(s, c, VGPU_CMD_UNPIN, q->region)) {
        respond_status(c, VGPU_S_NO_MEMORY);
        return;
    }
    status = vgb_client_unmap(s->client, q->region);
    if (status)
        answer(s, VGPU_CMD_UNPIN, q->region, status, 0);
}

/* One request. `buf` is a private copy. */
static void handle(const uint8_t *buf, uint32_t size, const struct vu_chain *c)
{
    const struct vgpu_cmd_hdr *h = (const void *)buf;

    if (size < sizeof(*h) || vu_chain_room(c) < sizeof(struct vgpu_resp_hdr)) {
        respond_status(c, VGPU_S_INVALID);
        return;
    }
    if (h->type < VGPU_CMD_CLIENT_CREATE || h->type > VGPU_CMD_UNPIN) {
        respond_status(c, VGPU_S_UNSUPPORTED);
        return;
    }
    if (h->flags || h->padding || h->client >= vu_dev.config.max_clients ||
        h->client >= VU_CLIENTS_MAX) {
        respond_status(c, VGPU_S_INVALID);
        return;
    }
    if (h->type == VGPU_CMD_CLIENT_CREATE && size == sizeof(struct vgpu_cmd_client_create))
        do_create((const void *)buf, c);
    else if (h->type == VGPU_CMD_CLIENT_DESTROY && size == sizeof(struct vgpu_cmd_client_destroy))
        do_destroy(h->client, c);
    else if (h->type == VGPU_CMD_PIN && vu_chain_room(c) >= sizeof(struct vgpu_resp_pin))
        do_pin((const void *)buf, size, c);
    else if (h->type == VGPU_CMD_UNPIN && size == sizeof(struct vgpu_cmd_unpin))
        do_unpin((const void *)buf, c);
    else
        respond_status(c, VGPU_S_INVALID);
}

void vu_device_control(void)
{
    struct vu_queue *q = &vu_dev.queue[VGPU_VQ_CONTROL];
    static uint8_t buf[REQUEST_MAX] __attribute__((aligned(16)));
    static struct vu_chain c;
    uint64_t total;

    while (vu_queue_pop(q, &vu_dev.mem, &c) == 1) {
        uint32_t n = vu_chain_read(&vu_dev.mem, &c, buf, sizeof(buf), &total);

        handle(buf, n == total ? n : 0, &c);
    }
}

void vu_device_doorbell(unsigned i)
{
    if (vu_dev.slot[i].client && vu_dev.queue[VGPU_VQ_DOORBELL + i].kick.fd >= 0)
        vgb_client_new_doorbell(vu_dev.slot[i].client, vu_dev.queue[VGPU_VQ_DOORBELL + i].kick.fd);
}

void vu_device_end_clients(void)
{
    if (!vu_dev.nclients) {
        if (vu_dev.idle)
            vu_dev.idle();
        return;
    }
    for (unsigned i = 0; i < VU_CLIENTS_MAX; i++) {
        struct vu_slot *s = &vu_dev.slot[i];

        if (s->client && !s->destroying) {
            s->destroying = true;
            vgb_client_destroy(s->client); /* s->client may be NULL after this */
        }
    }
}
