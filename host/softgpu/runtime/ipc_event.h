/* SPDX-License-Identifier: MIT */
/* Events shared by several processes (CU_EVENT_INTERPROCESS): see runtime/sg_ipc_event.c. */
#ifndef SG_IPC_EVENT_H
#define SG_IPC_EVENT_H

#include "runtime/runtime.h"

struct sg_ipc_event;

/* Creates an event owned by this process. NULL: out of memory. */
struct sg_ipc_event *sg_ipc_event_new(void);
/* Opens an event of another process. 400: no such event; 205: cannot be mapped, or already has
   63 holders. */
CUresult sg_ipc_event_open(const uint8_t *token, struct sg_ipc_event **out);
void sg_ipc_event_end(struct sg_ipc_event *x); /* x may be NULL */
/* The token of an event created by this process. Returns false if it was opened from another
   process. */
bool sg_ipc_event_token(const struct sg_ipc_event *x, uint8_t *token);

/* Starts a new record, pending until completed, and returns its number; never 0. */
uint64_t sg_ipc_event_record(struct sg_ipc_event *x);
void sg_ipc_event_complete(struct sg_ipc_event *x, uint64_t n);
/* Number of the latest record by any process; 0: none. */
uint64_t sg_ipc_event_latest(struct sg_ipc_event *x);
bool sg_ipc_event_done(struct sg_ipc_event *x, uint64_t n);
/* Sleeps until record n has completed or the process that made it has ended. */
void sg_ipc_event_wait(struct sg_ipc_event *x, uint64_t n);

#endif
