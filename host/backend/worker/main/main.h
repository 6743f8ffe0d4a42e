/* SPDX-License-Identifier: MIT */
/* The worker process: start, main loop, and the assembly of its parts. */
#ifndef WRK_MAIN_H
#define WRK_MAIN_H

#include "calls/calls.h"
#include "confine/confine.h"

/* ---- wrk_dispatch.c, wrk_loop.c ---- */

/* Executes the call in w->ring.rec. */
void wrk_dispatch_one(struct wrk_worker *w);
/* Serves the client until it ends. */
_Noreturn void wrk_loop(struct wrk_worker *w);

/* ---- wrk_audit.c ---- */

/* After a successful call, checks that objects it creates exist and objects it ends do not. Enabled
 * in tests only. */
void wrk_audit_init(void);
void wrk_audit(struct wrk_call *c);

/* ---- wrk_filters.c ---- */

extern const struct wrk_filter wrk_filters[];
extern const unsigned wrk_filters_count;
/* Installs them in front of the provider; called once, when the client's limits are known. */
void wrk_filters_install(struct wrk_worker *w);

#endif
