/* SPDX-License-Identifier: MIT */
/* Shared by record.c and record_memory.c. */
#ifndef LNK_RECORD_INT_H
#define LNK_RECORD_INT_H

#include "../../protocol/vgp_recording.h"
#include "record.h"

/*
 * Appends an event; `head` and `body` follow the event's header, the rest is padding. All of
 * this is under the recorder's lock, which is a leaf.
 */
void lnk_record_put(enum vgp_event_type type, uint64_t serial, const void *head, uint32_t head_size,
                    const void *body, uint32_t body_size);

/* ---- record_memory.c: memory that is shared with the worker and written by both sides ---- */

/* A call that is about to be published. Writes what the program changed since, keeps account of
 * which streams have work under way. */
void lnk_record_mem_call(const struct vgp_record *record);
/* A reply was seen: when no work is under way any more, writes what the device has changed. */
void lnk_record_mem_reply(const struct vgp_record *record, CUresult result);
/* A host function of the program is about to run, or has ended. */
void lnk_record_mem_function(bool ended);
/* The bytes at a host address are as the recording knows them now (they were written as part of a
 * reply). */
void lnk_record_mem_known(uint64_t address, uint64_t size);
/* True if all of this is inside registered memory. */
bool lnk_record_mem_holds(uint64_t address, uint64_t size);

#endif
