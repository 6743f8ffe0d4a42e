/* SPDX-License-Identifier: MIT */
#include "broker.h"

struct vgb_quota_pool vgb_vram, vgb_pins;

bool vgb_quota_move(struct vgb_quota_pool *q, uint64_t from, uint64_t to)
{
    uint64_t others = q->used - from; /* from is part of used: our own bookkeeping */

    if (q->limit && to > from && !vgp_range_ok(others, to, q->limit))
        return false;
    if (to > UINT64_MAX - others)
        return false;
    q->used = others + to;
    return true;
}

void vgb_quota_force(struct vgb_quota_pool *q, uint64_t from, uint64_t to)
{
    q->used = q->used - from + to;
}
