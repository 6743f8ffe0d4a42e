/* SPDX-License-Identifier: MIT */
/* What vcu_record.c and vcu_record_mem.c share. */
#ifndef VCU_RECORD_INT_H
#define VCU_RECORD_INT_H

#include "../../protocol/vgp_recording.h"
#include "vcu_record.h"

/*
 * Appends an event; `head` and `body` follow the event's header, the rest is padding. All of
 * this is under the recorder's lock, which is a leaf.
 */
void vcu_record_put(enum vgp_event_type type, uint64_t serial, const void *head, uint32_t head_size,
                    const void *body, uint32_t body_size);

/* ---- vcu_record_mem.c: memory that is shared with the worker and written by both sides ---- */

/* A call that is about to be published. Writes what the program changed since, keeps account of
 * which streams have work under way. */
void vcu_record_mem_call(const struct vgp_record *record);
/* A reply was seen: when no work is under way any more, writes what the device has changed. */
void vcu_record_mem_reply(const struct vgp_record *record, CUresult result);
/* A host function of the program is about to run, or has ended. */
void vcu_record_mem_function(bool ended);
/* The bytes at a host address are as the recording knows them now (they were written as part of a
 * reply). */
void vcu_record_mem_known(uint64_t address, uint64_t size);
/* Is all of this inside registered memory? */
bool vcu_record_mem_holds(uint64_t address, uint64_t size);

#endif
