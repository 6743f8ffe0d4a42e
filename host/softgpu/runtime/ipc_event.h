/* SPDX-License-Identifier: MIT */
/* Events shared by several processes (CU_EVENT_INTERPROCESS): see runtime/ipc_event.c. */
#ifndef SG_IPC_EVENT_H
#define SG_IPC_EVENT_H

#include "runtime/runtime.h"

struct sg_ipc_event;

/* A new one of this process, or NULL: no memory. */
struct sg_ipc_event *sg_ipc_event_new(void);
/* That of another process; 400: no such, 205: cannot be mapped, or 63 have it already. */
CUresult sg_ipc_event_open(const uint8_t *token, struct sg_ipc_event **out);
void sg_ipc_event_end(struct sg_ipc_event *x); /* NULL is fine */
/* The token of one that this process has made; false: it was opened. */
bool sg_ipc_event_token(const struct sg_ipc_event *x, uint8_t *token);

/* Number of a new record, which is pending until it is completed; never 0. */
uint64_t sg_ipc_event_record(struct sg_ipc_event *x);
void sg_ipc_event_complete(struct sg_ipc_event *x, uint64_t n);
uint64_t sg_ipc_event_latest(struct sg_ipc_event *x); /* the latest record of anybody, 0: none */
bool sg_ipc_event_done(struct sg_ipc_event *x, uint64_t n);
/* Sleeps until record n has completed or its process has ended. */
void sg_ipc_event_wait(struct sg_ipc_event *x, uint64_t n);

#endif
