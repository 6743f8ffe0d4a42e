/* SPDX-License-Identifier: MIT */
/*
 * Usage of all clients of this broker, including past ones, for metrics. Calls and bytes are read
 * from the windows: a client can misreport its own, but not more than is physically possible, nor
 * less than before, because the VM's sums outlive it. Processor time comes from the kernel, the
 * rest from the broker.
 */
#include "clients.h"

#include "vgb_sum.h"

/* Upper bounds of what a client can do. */
#define CALLS_PER_MS 1000000u
#define BYTES_PER_MS UINT64_C(0x1000000000) /* 64 TiB a second */

struct brk_totals brk_totals;

static uint64_t credible_total(struct brk_client *c, unsigned which, uint64_t now, uint64_t per_ms)
{
    uint64_t ms = (vgb_now_ns() - c->begun_ns) / 1000000u + 1, most;

    if (now > c->said[which] && (__builtin_mul_overflow(ms, per_ms, &most) || now <= most))
        c->said[which] = now;
    return c->said[which];
}

void brk_totals_use(struct brk_client *c, struct brk_use *u)
{
    uint64_t cpu = c->proc && !c->stuck ? brk_usage_cpu(c->proc) : 0;

    if (cpu > c->cpu_ns)
        c->cpu_ns = cpu;
    *u = (struct brk_use){.cpu_ns = c->cpu_ns, .throttled_ns = c->throttled_ns};
    if (c->brake)
        u->throttled_ns = vgb_sum(u->throttled_ns, vgb_now_ns() - c->braked_ns);
    if (!c->shared)
        return;
    u->calls = credible_total(c, 0, __atomic_load_n(&c->shared->calls, __ATOMIC_RELAXED), CALLS_PER_MS);
    u->waits = credible_total(c, 1, __atomic_load_n(&c->shared->waits, __ATOMIC_RELAXED), CALLS_PER_MS);
    u->errors = credible_total(c, 2, __atomic_load_n(&c->shared->errors, __ATOMIC_RELAXED), CALLS_PER_MS);
    u->copied = credible_total(c, 3, __atomic_load_n(&c->shared->copied, __ATOMIC_RELAXED), BYTES_PER_MS);
}

void brk_totals_add(struct brk_use *sum, const struct brk_use *u)
{
    sum->calls = vgb_sum(sum->calls, u->calls);
    sum->waits = vgb_sum(sum->waits, u->waits);
    sum->errors = vgb_sum(sum->errors, u->errors);
    sum->copied = vgb_sum(sum->copied, u->copied);
    sum->cpu_ns = vgb_sum(sum->cpu_ns, u->cpu_ns);
    sum->throttled_ns = vgb_sum(sum->throttled_ns, u->throttled_ns);
}

void brk_totals_gone(struct brk_client *c)
{
    struct brk_use u;

    brk_totals_use(c, &u);
    brk_totals_add(&brk_totals.gone, &u);
}
