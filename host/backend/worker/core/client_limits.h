/* SPDX-License-Identifier: MIT */
/* Limits on host resources of one client (wrk_client_limits.c). */
#ifndef WRK_LIMITS_H
#define WRK_LIMITS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "handle.h"
#include "provider.h"
#include "vgb_msg.h"

/* Limits set by the broker; all zero (no limits) before. */
extern struct vgb_limits wrk_client_limits;

/* Applies the broker's limits, after the provider is loaded and before the sandbox. Dispatcher. */
void wrk_limits_set(struct wrk_worker *w, const struct vgb_limits *l);
/* Changes the limits while the client is served. Dispatcher. */
void wrk_limits_change(const struct vgb_limits *l);
/* Filter in front of cuCtxSetLimit() that limits the printf buffer. */
void wrk_limits_filter(struct wrk_worker *w, struct vgp_provider *table, const struct vgp_provider *below);
/* True if another handle of this type may be created; refusals are logged. */
bool wrk_limits_handle(const struct wrk_handles *t, unsigned type);
/* The same of an object without a handle; the caller counts it in t->unnamed. */
bool wrk_limits_unnamed(const struct wrk_handles *t);
/* The same of a stream, with a handle or a thread's default one, which the caller counts in t->thread_streams, too. */
bool wrk_limits_stream(const struct wrk_handles *t);
/*
 * To be called after an out-of-memory error: logs it if this process is at its limit. Any thread.
 */
void wrk_limits_look_at_memory(void);
/*
 * Logs that a limit was reached and tells the guest: "threads", 64, "--client-threads". Any thread.
 */
void wrk_limit_hit(const char *what, uint64_t limit, const char *option);

/* Bracket a provider call that compiles or links, to limit its processor time. Any thread. */
void wrk_compile_begin(struct wrk_worker *w);
void wrk_compile_end(void);
/* Checks whether an image of `bytes` may go to the provider. NULL, or the reason for refusal. */
const char *wrk_image_refused(uint64_t bytes);

#endif
