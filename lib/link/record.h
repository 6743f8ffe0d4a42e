/* SPDX-License-Identifier: MIT */
/*
 * Recording of ring traffic (VGPU_RECORD), for `vgpu replay`. When off, it costs a predictable
 * branch per record and per reply.
 *
 * VGPU_RECORD=PATH: each process that connects writes a file of its own, %p = process id; if PATH
 * exists, PATH.PID is used. VGPU_RECORD_LIMIT=BYTES[K|M|G]: maximum size of a file (default 1G); a
 * file that reaches the limit ends there with a note.
 */
#ifndef LNK_RECORD_H
#define LNK_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "ring.h"

/* True while this process records. */
extern _Atomic bool lnk_record_on;

/* Starts recording a newly opened ring if VGPU_RECORD is set. */
void lnk_record_start(struct lnk_ring *r);
/* Records a notification, before it is processed. */
void lnk_record_notify(uint16_t type, uint64_t cookie, const uint8_t *data, uint32_t size);
/* Records the end of a host function; called before the worker is notified. */
void lnk_record_host_done(uint32_t slot, uint32_t sequence);
/* Writes the last event, at process exit. */
void lnk_record_end(void);
/* Called in the child of a fork: the file belongs to the parent. */
void lnk_record_forked(void);

#endif
