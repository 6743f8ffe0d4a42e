/* SPDX-License-Identifier: MIT */
/* The warps of a block: scheduling, barriers (PTX ISA, barrier), and the end of threads. */
#include "exec/core.h"
#include "exec/code.h"

#include <stdio.h>

/* ---- the barrier of a cluster ---- */

void sg_cluster_arrive(struct sg_cta *c, uint32_t threads)
{
    for (uint32_t r = 0; r < c->cluster_size; r++)
        sg_cluster_block(c, r)->cluster_arrived += threads;
}

void sg_cluster_check(struct sg_cta *c)
{
    uint32_t alive = 0;

    if (!c->cluster_arrived)
        return;
    for (uint32_t r = 0; r < c->cluster_size; r++)
        alive += sg_cluster_block(c, r)->alive;
    if (c->cluster_arrived < alive)
        return;
    for (uint32_t r = 0; r < c->cluster_size; r++) {
        struct sg_cta *x = sg_cluster_block(c, r);

        x->cluster_arrived = 0;
        for (uint32_t k = 0; k < x->nwarps; k++)
            x->warps[k].cluster_in = 0;
    }
}

void sg_cluster_leave(struct sg_cta *c, uint32_t threads)
{
    sg_cluster_arrive(c, 0 - threads);
}

/* ---- barriers of a block ---- */

/* Writes the result of bar.red to the lanes of mask. */
static void bar_result(struct sg_warp *w, const struct sg_insn *in, uint32_t mask, enum sg_bar_kind kind,
                       const struct sg_barrier *b)
{
    uint32_t *d = (uint32_t *)(void *)(w->base[0] + in->d);

    if (kind == SG_BAR_POPC) {
        for (uint32_t m = mask; m; m &= m - 1)
            d[__builtin_ctz(m)] = b->popc;
    } else if (kind == SG_BAR_AND || kind == SG_BAR_OR) {
        *d = (*d & ~mask) | ((kind == SG_BAR_AND ? b->all : b->any) ? mask : 0);
    }
}

static void bar_release(struct sg_cta *c, uint32_t id)
{
    struct sg_barrier *b = &c->bar[id];

    for (uint32_t k = 0; k < c->nwarps; k++) {
        struct sg_warp *w = &c->warps[k];
        bool any = false;

        if (w->at_bar == id + 1) { /* the whole warp waits here */
            bar_result(w, w->ip, w->mask, (enum sg_bar_kind)w->bar_kind, b);
            w->ip++;
            w->at_bar = 0;
            continue;
        }
        for (uint32_t i = 0; i < w->ngroups; i++) {
            struct sg_group *g = &w->groups[i];

            if (g->state != SG_G_BAR || g->bar != id)
                continue;
            bar_result(w, g->ip, g->mask, (enum sg_bar_kind)g->want, b);
            g->ip++;
            g->state = SG_G_RUN;
            any = true;
        }
        if (any)
            sg_warp_find_min(w);
    }
    b->active = false;
    b->arrived = 0;
    c->bars &= ~(1u << id);
}

/* Moves warps parked by native code at barrier 0 to the barrier's regular state. */
static void bar_unpark(struct sg_cta *c)
{
    struct sg_barrier *b = &c->bar[0];

    if (!b->active)
        *b = (struct sg_barrier){.active = true, .all = true};
    b->arrived += c->parked * SG_LANES;
    c->bars |= 1;
    c->parked = 0;
}

int sg_bar_arrive(struct sg_warp *w, const struct sg_insn *in, uint32_t id, uint32_t count,
                  enum sg_bar_kind kind)
{
    struct sg_cta *c = w->cta;
    struct sg_barrier *b = &c->bar[id & (SG_NBARRIERS - 1)];
    uint32_t lanes = w->mask == SG_FULL ? SG_LANES : (uint32_t)__builtin_popcount(w->mask), p;

    if (c->parked)
        bar_unpark(c);
    if (id >= SG_NBARRIERS)
        return sg_fault_set(w, in, (uint32_t)__builtin_ctz(w->mask), SG_ERR_ILLEGAL_INSN,
                            "barrier number is above 15");
    if (!b->active) {
        *b = (struct sg_barrier){.active = true, .all = true, .expected = count};
        c->bars |= 1u << id;
    }
    if (count && w->mask == w->alive)
        lanes = SG_LANES; /* CUDA counts whole warps */
    b->arrived += lanes;
    if (kind >= SG_BAR_POPC) {
        p = *(const uint32_t *)(const void *)(w->base[in->c >> 31] + (in->c & 0x7fffffffu));
        p &= w->mask;
        b->popc += (uint32_t)__builtin_popcount(p);
        b->all &= p == w->mask;
        b->any |= p != 0;
    }
    if (b->arrived >= (count ? count : c->alive)) {
        bar_result(w, in, w->mask, kind, b);
        bar_release(c, id);
        if (!w->ngroups)
            return SG_NEXT;
        w->ip = in + 1;
        return SG_RESCHED;
    }
    if (kind == SG_BAR_ARRIVE)
        return SG_NEXT;
    if (!w->ngroups && w->mask == w->alive) {
        w->ip = in;
        w->at_bar = (uint8_t)(id + 1);
        w->bar_kind = (uint8_t)kind;
        return SG_PARKED;
    }
    sg_warp_push(w, in, w->mask, SG_G_BAR);
    w->groups[w->ngroups - 1].bar = (uint8_t)id;
    w->groups[w->ngroups - 1].want = kind;
    return SG_BLOCKED;
}

void sg_bar_exit(struct sg_cta *c, uint32_t lanes)
{
    c->alive -= lanes;
    if (c->parked)
        bar_unpark(c);
    sg_cluster_check(c);
    for (uint32_t m = c->bars; m; m &= m - 1) {
        const uint32_t id = (uint32_t)__builtin_ctz(m);

        if (!c->bar[id].expected && c->bar[id].arrived >= c->alive)
            bar_release(c, id);
    }
}

static bool can_run(const struct sg_warp *w)
{
    if (w->at_bar)
        return false;
    if (w->mask)
        return true;
    for (uint32_t i = 0; i < w->ngroups; i++)
        if (w->groups[i].state != SG_G_BAR)
            return true;
    return false;
}

/* All warps wait. Releases lanes that wait for lanes at a barrier; otherwise it is a deadlock. */
static int release_stuck(struct sg_cta *c)
{
    struct sg_warp *w = NULL;

    for (uint32_t k = 0; k < c->nwarps; k++) {
        if (sg_warp_force(&c->warps[k]))
            return SG_YIELD;
        if (!w && c->warps[k].alive)
            w = &c->warps[k];
    }
    if (!w)
        return SG_NEXT;
    return sg_fault_set(w, w->at_bar ? w->ip : w->groups[0].ip,
                        (uint32_t)__builtin_ctz(w->at_bar ? w->mask : w->groups[0].mask), SG_ERR_FAILED,
                        "barrier deadlock: every thread waits at a barrier that nobody else can "
                        "reach");
}

bool sg_cta_fault(struct sg_cta *c, int result, const char *what)
{
    const struct sg_insn *ip = NULL;
    struct sg_warp *who = NULL;
    uint32_t mask = 0;

    for (uint32_t k = 0; k < c->nwarps; k++) {
        struct sg_warp *w = &c->warps[k];
        const bool run = can_run(w);

        if (!w->alive || (who && !run))
            continue;
        who = w;
        mask = w->mask;
        ip = w->ip;
        for (uint32_t i = 0; i < w->ngroups && !mask; i++) {
            if (run && w->groups[i].state == SG_G_BAR)
                continue;
            mask = w->groups[i].mask;
            ip = w->groups[i].ip;
        }
        if (run)
            break;
    }
    if (!who || !mask)
        return false;
    sg_fault_set(who, ip, (uint32_t)__builtin_ctz(mask), result, what);
    return true;
}

int sg_cta_slice(struct sg_cta *c)
{
    const uint64_t before = c->icount;
    int r;

    /* in turn, starting after the warp that ran last: native code does the same */
    for (uint32_t k = 0; k < c->nwarps; k++) {
        c->cur = c->cur + 1 < c->warps_end ? c->cur + 1 : c->warps;
        if (!c->cur->alive || !can_run(c->cur))
            continue;
        r = sg_warp_run(c->cur);
        if (r == SG_FAULTED)
            return r;
    }
    if (!c->alive)
        return SG_NEXT;
    return c->icount != before ? SG_YIELD : release_stuck(c);
}
