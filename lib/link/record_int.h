/* SPDX-License-Identifier: MIT */
/* Shared by lnk_record.c and lnk_record_memory.c. */
#ifndef LNK_RECORD_INT_H
#define LNK_RECORD_INT_H

#include "../../protocol/vgp_recording.h"
#include "record.h"

/* lnk_record_memory.c: memory shared with the worker, written by both sides. All functions here run
   under the recorder's lock, which is a leaf. */

/* Appends an event; `head` and `body` follow the event's header, then padding. */
typedef void (*lnk_record_put_fn)(enum vgp_event_type type, uint64_t serial, const void *head,
                                  uint32_t head_size, const void *body, uint32_t body_size);

/* Called before the first of the other functions: changes are written by `put`. */
void lnk_record_mem_start(lnk_record_put_fn put);

/* Called when a call is about to be published. Writes the program's changes since the last call
   and tracks which streams have work pending. */
void lnk_record_mem_call(const struct vgp_record *record);
/* Called on a reply: writes the device's changes once no work is pending. */
void lnk_record_mem_reply(const struct vgp_record *record, CUresult result);
/* Called before a host function of the program runs, and after it has ended. */
void lnk_record_mem_function(bool ended);
/* Marks the bytes at a host address as recorded (they were written as part of a reply). */
void lnk_record_mem_known(uint64_t address, uint64_t size);
/* True if the whole range is inside registered memory. */
bool lnk_record_mem_holds(uint64_t address, uint64_t size);

#endif
