/* SPDX-License-Identifier: MIT */
/* Replies and notifications to the guest: wrk_reply.c, wrk_notify.c. */
#ifndef WRK_NOTIFY_H
#define WRK_NOTIFY_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

#include "vgp_ring.h"

struct wrk_worker;

/* Publishes a reply and wakes the guest; no-op for slot VGP_NO_REPLY. Any thread. */
void wrk_reply_send(struct wrk_worker *w, uint32_t slot, uint32_t seq, CUresult result, const void *payload,
                    uint32_t size, uint32_t flags);
void wrk_wake_guest(struct wrk_worker *w, bool always);

/* Queues a notification, waiting up to `wait_ms` for room (0 on the dispatcher). False: no room.
 * Any thread. */
bool wrk_notify(struct wrk_worker *w, enum vgp_notify_type type, uint64_t cookie, const void *text,
                uint32_t size, unsigned wait_ms);
void wrk_notify_detail(struct wrk_worker *w, const char *text);
/* Starts forwarding the provider's output (device printf) to the guest. To be called before the
 * sandbox. */
int wrk_notify_capture_output(struct wrk_worker *w);
/* Flushes printed output to the notification ring, so that it precedes the reply of the call that
 * printed it. r: the call's result; on success only standard output is read. Any thread. */
void wrk_notify_drain_output(struct wrk_worker *w, CUresult result);

#endif
