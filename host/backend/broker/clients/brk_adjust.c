/* SPDX-License-Identifier: MIT */
/*
 * Changes of limits while clients are served. The broker's own limits apply from the next request
 * on. Limits enforced by a worker are sent to it; its memory limit is changed from outside, by
 * prlimit(2). A limit below present usage takes nothing away: it refuses new requests.
 */
#define _GNU_SOURCE
#include "clients.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

static bool client_is_reachable(const struct brk_client *c)
{
    return c->proc && (c->state == BRK_C_STARTING || c->state == BRK_C_SERVING);
}

struct brk_client *brk_adjust_find(pid_t pid)
{
    for (struct brk_client *c = brk_client_first(); c; c = c->next) {
        if (c->proc && c->state == BRK_C_SERVING && c->proc->pid == pid)
            return c;
    }
    return NULL;
}

static void send_limits(struct brk_client *c)
{
    struct vgb_msg m = {.type = VGB_M_LIMITS, .value = brk_vram.limit};

    m.limits = c->limits;
    brk_proc_send(c->proc, &m, NULL, 0);
}

/* The present RLIMIT_DATA minus the old limit is the uncharged memory of an idle worker. */
static const char *not_changed(void)
{
    return errno == EPERM
               ? "for new clients only: a running worker's limit is changed with CAP_SYS_RESOURCE alone"
               : strerror(errno);
}

static const char *change_memory(struct brk_client *c, uint64_t value)
{
    struct rlimit r;
    uint64_t base;

    if (value == c->limits.memory)
        return NULL;
    if (prlimit(c->proc->pid, RLIMIT_DATA, NULL, &r))
        return not_changed();
    if (!c->limits.memory || r.rlim_cur == RLIM_INFINITY || r.rlim_cur < c->limits.memory)
        return "for new clients only: a worker runs without this limit";
    base = r.rlim_cur - c->limits.memory;
    r.rlim_cur = value && value < UINT64_MAX - base ? base + value : RLIM_INFINITY;
    r.rlim_max = r.rlim_cur;
    if (prlimit(c->proc->pid, RLIMIT_DATA, &r, NULL))
        return not_changed();
    return NULL;
}

static const char *adjust_client(struct brk_client *c, enum brk_limit_id id, uint64_t value)
{
    const char *wrong;

    /* Its worker may be about to set the limit that START named: brk_adjust_serves() goes on. */
    if (id == BRK_L_MEMORY && c->state == BRK_C_STARTING)
        return NULL;
    wrong = id == BRK_L_MEMORY ? change_memory(c, value) : NULL;
    if (wrong)
        return wrong;
    if (id == BRK_L_CLIENT_WEIGHT) {
        brk_pace_client_set(c, (uint32_t)value, c->fair.cap);
    } else if (id == BRK_L_CLIENT_CAP) {
        brk_pace_client_set(c, c->fair.weight, (uint32_t)value);
    } else if (id == BRK_L_CLIENT_PRIORITY) {
        brk_pace_priority(c, (uint32_t)value);
    } else {
        brk_limit_to_client(&c->limits, id, value);
        send_limits(c);
    }
    return NULL;
}

void brk_adjust_serves(struct brk_client *c)
{
    const uint64_t memory = brk_opt.limits.memory;
    const char *wrong = memory == c->limits.memory ? NULL : adjust_client(c, BRK_L_MEMORY, memory);

    if (wrong)
        vgb_log(VGB_WARN, "client %u (%s): client-memory is changed %s", c->slot, c->label, wrong);
}

static const char *adjust_clients(enum brk_limit_id id, uint64_t value)
{
    const char *wrong = NULL;

    for (struct brk_client *c = brk_client_first(); c; c = c->next) {
        const char *w = client_is_reachable(c) ? adjust_client(c, id, value) : NULL;

        wrong = w ? w : wrong;
    }
    return wrong;
}

static void change_vram(uint64_t value)
{
    bool is_new = value && !brk_vram.limit;

    brk_vram.limit = value;
    brk_vram.adjusted = true;
    for (struct brk_client *c = brk_client_first(); c; c = c->next) {
        if (!client_is_reachable(c))
            continue;
        c->reports += is_new;
        send_limits(c);
    }
}

const char *brk_adjust_promise(uint64_t bytes)
{
    return brk_arbiter_commit(bytes, brk_opt.gpu_memory)
               ? NULL
               : "the promises of the VMs on this host (--memory-policy promise, --vram-quota) would be more than the "
                 "GPU's memory";
}

/* Starts pacing, which the first change of a share needs. False: it cannot work, and is not started. */
static bool start_pacing(void)
{
    const bool was = brk_opt.pace;

    brk_opt.pace = true;
    brk_pace_changed();
    if (brk_pace_works())
        return true;
    brk_opt.pace = was;
    return false;
}

const char *brk_adjust(enum brk_limit_id id, uint64_t value, pid_t pid)
{
    struct brk_client *one = pid ? brk_adjust_find(pid) : NULL;

    if (pid && !one)
        return "no such client: `vgpu smi --host` lists their workers";
    if (pid && !brk_limit_is_client(id))
        return "not a limit of one client";
    if (brk_limit_is_share(id) && !start_pacing())
        return "--pacing stop: only the software GPU's time can be shared so";
    if (one)
        return adjust_client(one, id, value);
    if (id == BRK_L_VRAM && brk_opt.memory != BRK_MEMORY_ALONE) {
        const char *wrong = !value                                 ? "a VM with a memory policy has a quota"
                            : brk_opt.memory == BRK_MEMORY_PROMISE ? brk_adjust_promise(value)
                                                                   : NULL;

        if (wrong)
            return wrong;
    }
    brk_limit_put(&brk_opt, id, value);
    switch (id) {
    case BRK_L_VRAM:
        change_vram(value);
        return NULL;
    case BRK_L_PIN:
        brk_pins.limit = value;
        brk_pins.adjusted = true;
        return NULL;
    case BRK_L_BLOBS:
        brk_blobs.limit = value;
        for (struct brk_client *c = brk_client_first(); c; c = c->next) {
            c->limits.blobs = value;
            if (client_is_reachable(c))
                send_limits(c);
        }
        return NULL;
    case BRK_L_CLIENTS:
    case BRK_L_RATE:
        brk_pool_rate_changed();
        return NULL;
    case BRK_L_WEIGHT:
    case BRK_L_CAP:
        brk_pace_changed();
        return NULL;
    default:
        return adjust_clients(id, value);
    }
}
