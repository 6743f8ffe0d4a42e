/* SPDX-License-Identifier: MIT */
/*
 * Limit of pending work beyond which a further call would block in the provider, and with it the
 * worker's dispatcher (vcu_room.c). A place identifies a stream; numbers are upper bounds, in launches.
 */
#ifndef VCU_ROOM_H
#define VCU_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#define VCU_ROOM_STREAMS 65536u
#define VCU_ROOM_CONTEXTS 256u
#define VCU_ROOM_THREADS 4096u
#define VCU_ROOM_PLACES (VCU_ROOM_STREAMS + VCU_ROOM_CONTEXTS + VCU_ROOM_THREADS)
/* Launches that may always pend in a stream, regardless of other streams: no stream waits for the
 * work of another. */
#define VCU_ROOM_FLOOR 32u

struct vcu_room {
    uint32_t stream;  /* limit of a single stream */
    uint32_t context; /* budget shared by all streams of a context; 0: not shared */
};
extern struct vcu_room vcu_room;

/* Adds `weight` for the stream of that place. True: its thread must wait (vcu_room_mark). */
bool vcu_room_add(uint32_t place, uint64_t stream, uint32_t context, uint32_t weight);
/*
 * Enclose a vgpStreamThrottle, which is answered when the work before the previous one is complete:
 * begin returns the work covered by the new mark, which is passed to end.
 */
uint32_t vcu_room_mark_begin(uint32_t place);
void vcu_room_mark_end(uint32_t place, uint32_t context, uint32_t marked);
/* Notes that the work of the stream, or of the context, is complete. */
void vcu_room_idle(uint32_t place, uint32_t context);
void vcu_room_context_idle(uint32_t context);
/* A stream of the context, other than `but`, whose count may exceed its pending work, when the
 * context is near its limit; UINT32_MAX: none. */
uint32_t vcu_room_suspect(uint32_t context, uint32_t but, uint64_t *stream);
/* Upper bound of pending work in the context. */
uint32_t vcu_room_pending(uint32_t context);

#endif
