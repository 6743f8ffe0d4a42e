/* SPDX-License-Identifier: MIT */
/* The worker process: its start, its loop, and the parts that it is put together from. */
#ifndef WRK_MAIN_H
#define WRK_MAIN_H

#include "calls/calls.h"
#include "confine/confine.h"

/* ---- dispatch.c, loop.c ---- */

/* Makes the call in w->ring.rec. */
void wrk_dispatch_one(struct wrk_worker *w);
/* Serves the client until it ends. */
_Noreturn void wrk_loop(struct wrk_worker *w);

/* ---- audit.c ---- */

/* Looks after a call that succeeded whether what it made is there and what it ended is not. Off but in tests. */
void wrk_audit_init(void);
void wrk_audit(struct wrk_call *c);

/* ---- filters.c ---- */

extern const struct wrk_filter wrk_filters[];
extern const unsigned wrk_filters_count;
/* Puts them in front of the provider; once, when the client's limits are known. */
void wrk_filters_install(struct wrk_worker *w);

#endif
