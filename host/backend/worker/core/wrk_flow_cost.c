/* SPDX-License-Identifier: MIT */
/*
 * What calls cost, and room in a full table of marks, for wrk_flow.c.
 *
 * The hash has no secret and needs none: each key has one place, so no look-up takes longer for keys that a client chose, and
 * the table is that of its own worker. A collision makes an estimate worse, which a client can also do with one kernel whose
 * time depends on its data; what is charged is measured.
 */
#include "core.h"

#include <string.h>

#include "vgp_facts.h"

#define COSTS 512u

static struct cost {
    uint32_t key, seen;
    uint64_t ns;
} costs[COSTS];

uint64_t wrk_flow_cost(uint32_t key)
{
    const struct cost *c = &costs[key % COSTS];

    return c->key == key && c->seen ? c->ns : 0;
}

void wrk_flow_learn(uint32_t key, unsigned calls, uint64_t ns)
{
    struct cost *c = &costs[key % COSTS];
    uint64_t each = ns / (calls ? calls : 1);

    each = each ? each : 1;
    if (c->key != key) {
        c->key = key;
        c->seen = 0;
    }
    /* Raised at once, lowered slowly: little is gained by cheap calls ahead of expensive ones. */
    c->ns = !c->seen || each > c->ns ? each : c->ns - (c->ns - each) / 8;
    c->seen = 1;
}

uint32_t wrk_flow_key(uint16_t call, const uint8_t *args, uint32_t size)
{
    const struct vgp_call_facts *f = vgp_call_facts(call);
    uint64_t h = call;

    for (unsigned i = 0; f && i < VGP_SCALES_MAX && f->scales[i].where; i++) {
        if (f->scales[i].offset + f->scales[i].size <= size) /* the record is not checked yet */
            h = (h ^ vgp_place_get(f->scales[i], args, NULL)) * UINT64_C(0xff51afd7ed558ccd);
        h ^= h >> 32;
    }
    h *= UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32) | 1u;
}

/* ---- room in a full table of marks ---- */

#define SEATS (2 * WRK_MARKS)
#define SEAT_MERGED 0x8000u

/* The call that ends a context cannot overtake a call waiting for an entry, so all marks of a context
 * with an error become one. */
unsigned wrk_flow_merge_unknown(struct wrk_flow_mark *marks, unsigned n)
{
    unsigned left = 0;

    for (unsigned i = 0; i < n; i++) {
        const struct wrk_flow_mark m = marks[i];
        struct wrk_flow_mark *into = NULL;

        for (unsigned k = 0; m.unknown && !m.captured && k < left && !into; k++) {
            into = &marks[k];
            into = into->unknown && !into->captured && into->ctx == m.ctx ? into : NULL;
        }
        if (!into) {
            marks[left++] = m;
            continue;
        }
        into->calls += m.calls;
        into->cost_ns += m.cost_ns;
        into->merged = true;
        if (m.event)
            wrk_provider.cuEventDestroy_v2(m.event);
        if (into->event)
            wrk_provider.cuEventDestroy_v2(into->event);
        into->event = NULL;
    }
    return left;
}

/* True if the event tells the completion of the stream's earlier work too. */
static bool mark_is_in_order(const struct wrk_flow_mark *m)
{
    return m->event && m->asked && !m->unknown && !m->merged && !m->ending && !m->of_green;
}

/* Seat of the stream's latest mark: its index + 1, with SEAT_MERGED if it was merged; 0: it has none. */
static uint16_t *seat_of(uint16_t *seats, const struct wrk_flow_mark *marks, const struct wrk_flow_mark *m)
{
    unsigned at =
        (unsigned)((((uintptr_t)m->stream + (uintptr_t)m->ctx) * UINT64_C(0x9e3779b97f4a7c15)) >> 32) % SEATS;
    const struct wrk_flow_mark *of;

    for (; seats[at]; at = (at + 1) % SEATS) {
        of = &marks[(seats[at] & ~SEAT_MERGED) - 1];
        if (of->stream == m->stream && of->ctx == m->ctx)
            break;
    }
    return &seats[at];
}

static void mark_absorb(struct wrk_flow_mark *into, const struct wrk_flow_mark *later)
{
    wrk_provider.cuEventDestroy_v2(into->event);
    into->event = later->event;
    into->until_ns = later->until_ns;
    into->calls += later->calls;
    into->cost_ns += later->cost_ns;
    into->key = into->key == later->key ? into->key : 0;
}

/* Streams whose marks alternate, more than there are slots, make a mark with each call. In pairs, as the
 * time limit and turns go by the completion of marks. */
unsigned wrk_flow_merge_streams(struct wrk_flow_mark *marks, unsigned n, unsigned calls_max)
{
    static uint16_t seats[SEATS];
    unsigned left = 0;

    memset(seats, 0, sizeof(seats));
    for (unsigned i = 0; i < n; i++) {
        const struct wrk_flow_mark m = marks[i];
        uint16_t *seat = mark_is_in_order(&m) ? seat_of(seats, marks, &m) : NULL;
        struct wrk_flow_mark *into = seat && *seat && !(*seat & SEAT_MERGED) ? &marks[*seat - 1] : NULL;

        if (into && into->calls + m.calls <= calls_max) {
            mark_absorb(into, &m);
            *seat |= SEAT_MERGED;
            continue;
        }
        marks[left++] = m;
        if (seat)
            *seat = (uint16_t)left;
    }
    return left;
}
