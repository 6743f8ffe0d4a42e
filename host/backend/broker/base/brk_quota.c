/* SPDX-License-Identifier: MIT */
#include "base.h"

struct brk_quota_pool brk_vram, brk_pins, brk_blobs;

/* Reports usage to the other VMs of the host. */
static bool pool_is_reported(const struct brk_quota_pool *q)
{
    return q == &brk_vram && brk_opt.memory == BRK_MEMORY_CEILING;
}

bool brk_quota_move(struct brk_quota_pool *q, uint64_t from, uint64_t to)
{
    /* `from` is part of `used`, by the broker's own accounting */
    uint64_t others = q->used - from;

    if (to > from && to > BRK_PART_MAX)
        return false;
    if (q->limit && to > from && !vgp_range_ok(others, to, q->limit))
        return false;
    if (pool_is_reported(q) && to > from && !brk_arbiter_commit(others + to, brk_opt.gpu_memory))
        return false;
    q->used = others + to;
    if (pool_is_reported(q) && to <= from)
        brk_arbiter_commit_force(q->used);
    return true;
}

void brk_quota_force(struct brk_quota_pool *q, uint64_t from, uint64_t to)
{
    q->used = q->used - from + to;
    if (pool_is_reported(q))
        brk_arbiter_commit_force(q->used);
}

void brk_bucket_init(struct brk_bucket *b, unsigned rate, unsigned burst)
{
    b->rate = rate;
    b->burst = burst ? burst : 1;
    b->at_ns = 0;
    b->tokens = rate ? b->burst * (UINT64_C(1000000000) / rate) : 0;
}

/* Adds the tokens of the time that has passed; a rate is set. */
static void bucket_fill(struct brk_bucket *b, uint64_t now_ns)
{
    uint64_t full = UINT64_C(1000000000) / b->rate * b->burst;
    uint64_t passed = b->at_ns && now_ns > b->at_ns ? now_ns - b->at_ns : 0;

    b->at_ns = now_ns;
    b->tokens = passed > full - b->tokens ? full : b->tokens + passed;
}

bool brk_bucket_half(struct brk_bucket *b, uint64_t now_ns)
{
    if (!b->rate)
        return true;
    bucket_fill(b, now_ns);
    return b->tokens >= UINT64_C(1000000000) / b->rate * b->burst / 2;
}

uint64_t brk_bucket_take(struct brk_bucket *b, uint64_t now_ns)
{
    if (!b->rate)
        return 0;
    uint64_t one = UINT64_C(1000000000) / b->rate;

    bucket_fill(b, now_ns);
    if (b->tokens < one)
        return one - b->tokens;
    b->tokens -= one;
    return 0;
}
