/* SPDX-License-Identifier: MIT */
/*
 * Recording of what goes over the ring (VGPU_RECORD), for `vgpu replay`. Off, it costs a predictable
 * branch for each record and each reply.
 *
 * VGPU_RECORD=PATH: each process that connects writes a file of its own, %p = process id; where PATH
 * exists, PATH.PID is used. VGPU_RECORD_LIMIT=BYTES[K|M|G]: how large a file may become (default
 * 1G); a file that reaches the limit ends there and says so.
 */
#ifndef LNK_RECORD_H
#define LNK_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "ring.h"

/* True while this process records. */
extern _Atomic bool lnk_record_on;

/* Starts recording a ring that has just been opened, if VGPU_RECORD asks for it. */
void lnk_record_start(struct lnk_ring *r);
/* A notification, before anybody acts on it. */
void lnk_record_notify(uint16_t type, uint64_t cookie, const uint8_t *data, uint32_t size);
/* A host function has ended; called before the worker learns it. */
void lnk_record_host_done(uint32_t slot, uint32_t sequence);
/* The process ends: writes the last event. */
void lnk_record_end(void);
/* The child of a fork: the file is the parent's. */
void lnk_record_forked(void);

#endif
