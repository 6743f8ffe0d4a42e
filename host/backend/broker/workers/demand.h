/* SPDX-License-Identifier: MIT */
/* How many workers are kept waiting for clients. Part of workers/; no clock and no process of its own. */
#ifndef BRK_DEMAND_H
#define BRK_DEMAND_H

#include "base/base.h"

/* What the recent clients were like. Zeroed: none came. */
struct brk_demand {
    uint64_t came_ns[BRK_POOL_LEARNT_MAX]; /* arrival of the latest clients, a ring */
    unsigned next;                         /* index of the oldest */
    unsigned learnt;                       /* most clients within a window; halves while fewer come */
    uint64_t learnt_ns;                    /* when it was last reached or halved */
    uint64_t start_ns;                     /* time a worker takes from exec to ready, smoothed; 0: unknown */
    uint64_t refill_ns;                    /* no worker is started ahead before; 0: now */
};

struct brk_demand_bounds {
    unsigned low, high; /* --pool, --pool-max */
    unsigned free;      /* clients that may still come (--max-clients) */
    uint64_t worker;    /* memory of an idle worker, bytes; 0: none was ready yet */
    uint64_t available; /* memory of the host that is free, bytes */
};

/* Clients that come within it are taken to come at once. */
uint64_t brk_demand_window_ns(const struct brk_demand *d);
/* A client came. `left`: workers that still wait ready. */
void brk_demand_came(struct brk_demand *d, unsigned left, const struct brk_demand_bounds *b, uint64_t now_ns);
/* A worker got ready after this time. */
void brk_demand_started(struct brk_demand *d, uint64_t took_ns);
/* Workers to be kept, ready or starting. */
unsigned brk_demand_target(struct brk_demand *d, const struct brk_demand_bounds *b, uint64_t now_ns);
struct brk_demand_stock {
    unsigned spare, starting; /* workers without a client; those of them that are not ready yet */
    bool waiting;             /* a client waits for a worker */
    unsigned processors;      /* beyond --pool no more are started at a time */
    bool starts_left;         /* --start-rate leaves more than clients may soon need */
};
/* True if a worker is to be started ahead. */
bool brk_demand_wants(struct brk_demand *d, const struct brk_demand_bounds *b,
                      const struct brk_demand_stock *s, uint64_t now_ns);
/* Nanoseconds until the target may fall below `spare` workers, or may start the next; UINT64_MAX: never by itself. */
uint64_t brk_demand_next_ns(const struct brk_demand *d, const struct brk_demand_bounds *b, uint64_t now_ns);

#endif
