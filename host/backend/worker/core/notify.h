/* SPDX-License-Identifier: MIT */
/* Replies and notifications to the guest: reply.c, notify.c. */
#ifndef WRK_NOTIFY_H
#define WRK_NOTIFY_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

#include "vgp_ring.h"

struct wrk_worker;

/* Publishes a reply and wakes the guest; any thread. slot VGP_NO_REPLY: nothing happens. */
void wrk_reply_send(struct wrk_worker *w, uint32_t slot, uint32_t seq, CUresult result, const void *payload,
                    uint32_t size, uint32_t flags);
void wrk_wake_guest(struct wrk_worker *w, bool always);

/* Queues a notification; false when the guest does not make room. `wait_ms` > 0: waits that long
 * for room (never on the dispatcher). Any thread. */
bool wrk_notify(struct wrk_worker *w, enum vgp_notify_type type, uint64_t cookie, const void *text,
                uint32_t size, unsigned wait_ms);
void wrk_notify_detail(struct wrk_worker *w, const char *text);
/* Sends what the provider prints (device printf) to the guest. Before the sandbox. */
int wrk_notify_capture_output(struct wrk_worker *w);
/* What was printed so far is in the notification ring when this returns: before the reply of the
 * call that printed it, whose result is given (a success: only standard output is looked at). Any thread. */
void wrk_notify_drain_output(struct wrk_worker *w, CUresult result);

#endif
