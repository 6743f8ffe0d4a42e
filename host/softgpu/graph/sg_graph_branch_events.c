/* SPDX-License-Identifier: MIT */
/*
 * Events between the branches of a graph: a unit that waits for an event waits for all earlier
 * units that record the event (see issue_events() in sg_graph_launch.c for the reason). The records of an
 * event are chained in step order, and a unit waits for the last record before it in the chain, so
 * the cost is linear in the number of records and waits.
 */
#include <stdlib.h>

#include "graph/graph.h"

struct record {
    CUevent event;
    uint32_t unit;
    /* pending records: this record and the previous record of the same event */
    uint32_t missing;
    uint32_t first, end; /* in `waits` */
};

/* A unit waits for a record, or is over with it. */
struct wait {
    uint32_t record, unit;
};

struct sg_branch_events {
    SG_OWNED struct record *records; /* by event, then unit */
    SG_OWNED struct wait *waits;     /* by record */
    SG_OWNED struct wait *ends;      /* the records themselves, by unit */
    size_t nrecords, nwaits;
};

static int by_event(const void *pa, const void *pb)
{
    const struct record *a = pa, *b = pb;

    if (a->event != b->event)
        return (uintptr_t)a->event < (uintptr_t)b->event ? -1 : 1;
    return (a->unit > b->unit) - (a->unit < b->unit);
}

static int by_record(const void *pa, const void *pb)
{
    const struct wait *a = pa, *b = pb;

    return (a->record > b->record) - (a->record < b->record);
}

static int by_unit(const void *pa, const void *pb)
{
    const struct wait *a = pa, *b = pb;

    return (a->unit > b->unit) - (a->unit < b->unit);
}

static void find_records(const struct sg_level *l, struct sg_branch_events *e)
{
    const struct sg_program *p = l->p;
    size_t n = 0;

    for (size_t u = l->from; u < l->to; u += 1 + p->step[u].child) {
        for (size_t i = u; i <= u + p->step[u].child; i++) {
            if (p->step[i].type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
                e->records[n++] =
                    (struct record){.event = sg_event_of(p->step[i].gop->op), .unit = (uint32_t)u};
        }
    }
    qsort(e->records, n, sizeof(*e->records), by_event);
    for (size_t i = 0; i < n; i++) {
        e->records[i].missing = 1 + (i && e->records[i - 1].event == e->records[i].event);
        e->ends[i] = (struct wait){(uint32_t)i, e->records[i].unit};
    }
    qsort(e->ends, n, sizeof(*e->ends), by_unit);
    e->nrecords = n;
}

/* The last record of the event by a unit before this one; SIZE_MAX: none. */
static size_t last_record(const struct sg_branch_events *e, CUevent event, uint32_t unit)
{
    const struct record key = {.event = event, .unit = unit};
    size_t lo = 0, hi = e->nrecords;

    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;

        if (by_event(&e->records[mid], &key) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo && e->records[lo - 1].event == event ? lo - 1 : SIZE_MAX;
}

static void find_waits(const struct sg_level *l, struct sg_branch_events *e, uint32_t *left)
{
    const struct sg_program *p = l->p;
    size_t n = 0;

    for (size_t u = l->from; u < l->to; u += 1 + p->step[u].child) {
        for (size_t i = u; p->step[u].waits && i <= u + p->step[u].child; i++) {
            size_t at = SIZE_MAX;

            if (p->step[i].type == CU_GRAPH_NODE_TYPE_WAIT_EVENT)
                at = last_record(e, sg_event_of(p->step[i].gop->op), (uint32_t)u);
            if (at == SIZE_MAX)
                continue;
            e->waits[n++] = (struct wait){(uint32_t)at, (uint32_t)u};
            left[u - l->from]++;
        }
    }
    qsort(e->waits, n, sizeof(*e->waits), by_record);
    for (size_t i = 0; i < n; i++) {
        struct record *r = &e->records[e->waits[i].record];

        r->first = r->end ? r->first : (uint32_t)i;
        r->end = (uint32_t)i + 1;
    }
    e->nwaits = n;
}

bool sg_branch_events_new(const struct sg_level *l, uint32_t *left, struct sg_branch_events **out)
{
    const size_t n = l->to - l->from;
    struct sg_branch_events *e = calloc(1, sizeof(*e));

    *out = e;
    if (!e)
        return false;
    e->records = malloc((n + 1) * sizeof(*e->records));
    e->ends = malloc((n + 1) * sizeof(*e->ends));
    e->waits = malloc((n + 1) * sizeof(*e->waits));
    if (!e->records || !e->ends || !e->waits)
        return false;
    find_records(l, e);
    find_waits(l, e, left);
    return true;
}

void sg_branch_events_free(struct sg_branch_events *e)
{
    if (!e)
        return;
    free(e->records);
    free(e->ends);
    free(e->waits);
    free(e);
}

/* Called when a record, or the previous record of the same event, has ended: also releases the
   records that were waiting only for it. */
static void record_over(struct sg_branch_events *e, size_t i, void (*go)(void *arg, uint32_t unit), void *arg)
{
    while (--e->records[i].missing == 0) {
        for (uint32_t k = e->records[i].first; k < e->records[i].end; k++)
            go(arg, e->waits[k].unit);
        if (i + 1 == e->nrecords || e->records[i + 1].event != e->records[i].event)
            return;
        i++;
    }
}

void sg_branch_events_over(struct sg_branch_events *e, uint32_t unit, void (*go)(void *arg, uint32_t unit),
                           void *arg)
{
    size_t lo = 0, hi = e->nrecords;

    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;

        if (e->ends[mid].unit < unit)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < e->nrecords && e->ends[lo].unit == unit; lo++)
        record_over(e, e->ends[lo].record, go, arg);
}
