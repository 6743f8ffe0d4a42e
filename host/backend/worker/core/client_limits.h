/* SPDX-License-Identifier: MIT */
/* What one client may have of the host (client_limits.c). */
#ifndef WRK_LIMITS_H
#define WRK_LIMITS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "handle.h"
#include "provider.h"
#include "vgb_msg.h"

/* All zero, no limits, until the broker has said them. */
extern struct vgb_limits wrk_client_limits;

/* Applies the broker's limits. After the provider is loaded, before the sandbox; dispatcher. */
void wrk_limits_set(struct wrk_worker *w, const struct vgb_limits *l);
/* Other ones, while the client is served; dispatcher. */
void wrk_limits_change(const struct vgb_limits *l);
/* A filter: the limit of the printf buffer, in front of cuCtxSetLimit(). */
void wrk_limits_filter(struct wrk_worker *w, struct vgp_provider *table, const struct vgp_provider *below);
/* Whether one more handle of this type may be made; a false is logged. */
bool wrk_limits_handle(const struct wrk_handles *t, unsigned type);
/* After an error for want of memory: says so when it is the limit of this process. Any thread. */
void wrk_limits_look_at_memory(void);
/* Logs, and says to the guest, that a limit was met: "threads", 64, "--client-threads". Any thread. */
void wrk_limit_hit(const char *what, uint64_t limit, const char *option);

int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);

/* Around a call of the provider that compiles or links, on any thread: its processor time is limited. */
void wrk_compile_begin(struct wrk_worker *w);
void wrk_compile_end(void);
/* Code of so many bytes is given to the provider: NULL, or why it is not. */
const char *wrk_image_refused(uint64_t bytes);

#endif
