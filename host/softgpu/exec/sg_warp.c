/* SPDX-License-Identifier: MIT */
/*
 * Selection of the running lanes of a warp. Lanes at the same instruction form a group; the group
 * at the lowest instruction runs, which rejoins lanes after branches in the layout that compilers
 * use. When a time slice ends inside a potential spin loop, another group is scheduled, so that
 * lanes may wait for each other (independent thread scheduling).
 */
#include "exec/core.h"
#include "exec/code.h"

#include <string.h>

#define FORCE_ROTATE 4096 /* slices without a spin hint before groups are rotated anyway */
#define NO_WAIT ((const struct sg_insn *)UINTPTR_MAX)

void sg_warp_set_mask(struct sg_warp *w, uint32_t mask)
{
    w->mask = mask;
    w->wmask = mask | ~w->alive;
}

void sg_warp_push(struct sg_warp *w, const struct sg_insn *ip, uint32_t mask, enum sg_gstate st)
{
    if (!mask)
        return;
    for (uint32_t i = 0; i < w->ngroups; i++)
        if (w->groups[i].ip == ip && w->groups[i].state == st && st == SG_G_RUN) {
            w->groups[i].mask |= mask;
            return;
        }
    w->groups[w->ngroups++] = (struct sg_group){.ip = ip, .mask = mask, .state = (uint8_t)st};
    if (st == SG_G_RUN && ip < w->min_wait && !w->hold)
        w->min_wait = ip;
}

static void remove_group(struct sg_warp *w, uint32_t i)
{
    w->groups[i] = w->groups[--w->ngroups];
}

void sg_warp_find_min(struct sg_warp *w)
{
    w->hold = false;
    w->min_wait = NO_WAIT;
    for (uint32_t i = 0; i < w->ngroups; i++)
        if (w->groups[i].state == SG_G_RUN && w->groups[i].ip < w->min_wait)
            w->min_wait = w->groups[i].ip;
}

bool sg_warp_force(struct sg_warp *w)
{
    struct sg_group *best = NULL;

    for (uint32_t i = 0; i < w->ngroups; i++)
        if (w->groups[i].state == SG_G_SYNC && (!best || w->groups[i].ip < best->ip))
            best = &w->groups[i];
    if (!best)
        return false;
    best->state = SG_G_RUN;
    w->sync_force = true;
    return true;
}

/* Nothing can run, but lanes wait for others of the warp: releases the lowest group as it is. */
static bool release_sync(struct sg_warp *w)
{
    for (uint32_t i = 0; i < w->ngroups; i++)
        if (w->groups[i].state == SG_G_BAR)
            return false; /* the barrier may release the missing lanes */
    return sg_warp_force(w);
}

bool sg_warp_pick(struct sg_warp *w)
{
    for (;;) {
        uint32_t best = UINT32_MAX, mask;

        for (uint32_t i = 0; i < w->ngroups; i++)
            if (w->groups[i].state == SG_G_RUN &&
                (best == UINT32_MAX || w->groups[i].ip < w->groups[best].ip))
                best = i;
        if (best == UINT32_MAX) {
            if (release_sync(w))
                continue;
            return false;
        }
        w->ip = w->groups[best].ip;
        mask = w->groups[best].mask;
        remove_group(w, best);
        for (uint32_t i = 0; i < w->ngroups;) {
            if (w->groups[i].state == SG_G_RUN && w->groups[i].ip == w->ip) {
                mask |= w->groups[i].mask;
                remove_group(w, i);
            } else {
                i++;
            }
        }
        sg_warp_set_mask(w, mask);
        sg_warp_find_min(w);
        return true;
    }
}

/* Gives another group its turn and lets it keep it for a slice. */
static void next_group(struct sg_warp *w)
{
    const struct sg_insn *ip = w->ip;
    uint32_t mask = w->mask, next = UINT32_MAX, first = UINT32_MAX;

    for (uint32_t i = 0; i < w->ngroups; i++) {
        const struct sg_group *g = &w->groups[i];

        if (g->state != SG_G_RUN)
            continue;
        if (g->ip > ip && (next == UINT32_MAX || g->ip < w->groups[next].ip))
            next = i;
        if (first == UINT32_MAX || g->ip < w->groups[first].ip)
            first = i;
    }
    if (next == UINT32_MAX)
        next = first;
    if (next == UINT32_MAX)
        return;
    w->ip = w->groups[next].ip;
    sg_warp_set_mask(w, w->groups[next].mask);
    remove_group(w, next);
    sg_warp_push(w, ip, mask, SG_G_RUN);
    w->min_wait = NO_WAIT; /* no switch until the slice ends */
    w->hold = true;
}

int sg_warp_sync(struct sg_warp *w, const struct sg_insn *in, uint32_t want)
{
    want &= w->alive;
    if (w->sync_force) {
        w->sync_force = false;
        return SG_NEXT;
    }
    if (!(want & ~w->mask))
        return SG_NEXT;
    /* lanes that already wait here, or are about to start here */
    for (uint32_t i = 0; i < w->ngroups;) {
        if (w->groups[i].ip == in && w->groups[i].state != SG_G_BAR) {
            sg_warp_set_mask(w, w->mask | w->groups[i].mask);
            want |= w->groups[i].want & w->alive;
            remove_group(w, i);
        } else {
            i++;
        }
    }
    if (!(want & ~w->mask)) {
        sg_warp_find_min(w);
        return SG_NEXT;
    }
    sg_warp_push(w, in, w->mask, SG_G_SYNC);
    w->groups[w->ngroups - 1].want = want;
    return SG_BLOCKED;
}

int sg_run_span(struct sg_warp *w, const struct sg_insn *in, const struct sg_insn *end)
{
    while (in < end) {
        int r = in->fn(w, in);

        if (r == SG_NEXT)
            in++;
        else if (r == SG_JUMP)
            in = w->ip;
        else
            return r;
    }
    return SG_NEXT;
}

void sg_warp_resched(struct sg_warp *w)
{
    w->hold = false;
    sg_warp_push(w, w->ip, w->mask, SG_G_RUN);
    w->mask = 0;
    sg_warp_pick(w);
}

bool sg_warp_blocked(struct sg_warp *w)
{
    w->mask = 0;
    return w->ngroups && sg_warp_pick(w);
}

int sg_warp_run(struct sg_warp *w)
{
    const struct sg_insn *in, *start;
    struct sg_cta *c = w->cta;

    c->cur = w;
    w->budget = SG_SLICE;
    w->spin = false;
    if (!w->mask && !sg_warp_pick(w))
        return SG_BLOCKED;
    in = start = w->ip;
    for (;;) {
        int r = in->fn(w, in);

        if (__builtin_expect(r == SG_NEXT, 1)) {
            in++;
            continue;
        }
        c->icount += (uint64_t)(in - start) + 1;
        w = c->cur;
        switch (r) {
        case SG_PARKED:
            return SG_BLOCKED;
        case SG_BLOCKED:
            if (!sg_warp_blocked(w))
                return SG_BLOCKED;
            break;
        case SG_RESCHED:
            sg_warp_resched(w);
            break;
        case SG_YIELD:
            w->slices++;
            if (w->ngroups && (w->spin || w->slices % FORCE_ROTATE == 0))
                next_group(w);
            else if (w->ngroups)
                sg_warp_find_min(w);
            return SG_YIELD;
        case SG_FAULTED:
            return SG_FAULTED;
        default:
            break;
        }
        in = start = w->ip;
    }
}
