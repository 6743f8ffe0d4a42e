/* SPDX-License-Identifier: MIT */
/* Callbacks of the worker pool about clients: waiting clients, and workers with overdue answers. */
#include "clients.h"

#include "vgb_deadline.h"

static struct brk_lines lines;

struct brk_client *brk_client_waiting(void)
{
    for (struct brk_client *c = brk_client_first(); c; c = c->next) {
        if (c->state == BRK_C_WAITING)
            return c;
    }
    return NULL;
}

/* An answer may be delayed by a provider call reported by the worker; the usual time begins when
 * the call has ended. The total is bounded by --long-call, whatever the worker reports. */
static bool request_unanswered(const struct brk_client *c, const struct brk_proc *p, uint64_t asked,
                               uint64_t now)
{
    uint64_t answer = VGB_MS_TO_NS(VGB_ANSWER_MS);
    uint64_t most = c->impatient ? 0 : VGB_MS_TO_NS(brk_opt.long_call_ms);
    uint64_t since = p->busy_until_ns > asked ? p->busy_until_ns : asked;

    if (now - asked <= answer)
        return false;
    if (now - asked > most)
        return true;
    return !p->busy && now - since > answer;
}

static bool worker_is_silent(const struct brk_client *c, const struct brk_proc *p, uint64_t now, bool *waits)
{
    *waits = true;
    if (c->state == BRK_C_STARTING)
        return now - p->since_ns > VGB_MS_TO_NS(VGB_CREATE_MS) || now > c->patience_ns;
    *waits = c->state == BRK_C_SERVING && (c->asked || brk_out_holds(p));
    if (*waits && c->asked && request_unanswered(c, p, c->asked_ns, now))
        return true;
    /* Unread descriptors in its socket are counted for all workers together (brk_out.c). */
    return *waits && brk_out_holds(p) && request_unanswered(c, p, p->unread_ns, now);
}

static bool worker_unreaped(struct brk_client *c, const struct brk_proc *p, uint64_t now)
{
    uint64_t ms = c->state == BRK_C_ENDING ? VGB_REAP_MS : VGB_GRACE_MS;
    uint64_t since = c->state == BRK_C_ENDING ? c->ending_ns : p->since_ns;

    if (c->stuck)
        return p->held;
    if (now - since > VGB_MS_TO_NS(ms)) {
        vgb_log_limited(brk_lines_of(&lines, c->lines), VGB_ERROR,
                        "worker %d was killed and does not end: client %u (%s) keeps "
                        "its slot and its memory until it does",
                        (int)p->pid, c->slot, c->label);
        brk_client_stuck(c);
    }
    return true;
}

static const char *set_provider(bool soft, uint64_t memory, const char *name)
{
    brk_status_provider(soft, name);
    brk_opt.gpu_memory = memory;
    brk_pace_provider(soft);
    if (brk_opt.memory != BRK_MEMORY_ALONE && !memory)
        return "--memory-policy: the provider does not say how much memory there is";
    return brk_opt.memory == BRK_MEMORY_PROMISE ? brk_adjust_promise(brk_opt.vram_quota) : NULL;
}

static unsigned slot_of(const struct brk_client *c)
{
    return c->slot;
}

static int lines_key(const struct brk_client *c)
{
    return c->lines;
}

const struct brk_pool_users brk_client_users = {
    .slot = slot_of,
    .lines = lines_key,
    .waiting = brk_client_waiting,
    .expire = brk_client_expire,
    .ready = brk_client_worker_ready,
    .message = brk_client_message,
    .mapper_done = brk_region_mapper_done,
    .gone = brk_client_worker_gone,
    .silent = worker_is_silent,
    .unreaped = worker_unreaped,
    .provider = set_provider,
};
