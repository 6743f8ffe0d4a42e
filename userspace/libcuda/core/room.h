/* SPDX-License-Identifier: MIT */
/*
 * How much work may be pending before a further call would block in the provider, and with it the
 * worker's dispatcher (room.c). A place stands for a stream; numbers are upper bounds, in launches.
 */
#ifndef VCU_ROOM_H
#define VCU_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#define VCU_ROOM_STREAMS 65536u
#define VCU_ROOM_CONTEXTS 256u
#define VCU_ROOM_THREADS 4096u
#define VCU_ROOM_PLACES (VCU_ROOM_STREAMS + VCU_ROOM_CONTEXTS + VCU_ROOM_THREADS)
/* So much may always pend in a stream, whatever the others hold: none waits for the work of another. */
#define VCU_ROOM_FLOOR 32u

struct vcu_room {
    uint32_t stream;  /* a stream's own: at most so much */
    uint32_t context; /* all streams of a context share that; 0: they share nothing */
};
extern struct vcu_room vcu_room;

/* `weight` more for the stream of that place. True: its thread must wait (vcu_room_mark). */
bool vcu_room_add(uint32_t place, uint64_t stream, uint32_t context, uint32_t weight);
/*
 * Around a vgpStreamThrottle, which is answered when the work before the last one is complete: begin returns
 * what the new mark stands for, end takes it.
 */
uint32_t vcu_room_mark_begin(uint32_t place);
void vcu_room_mark_end(uint32_t place, uint32_t context, uint32_t marked);
/* The work of the stream, or of the context, is complete. */
void vcu_room_idle(uint32_t place, uint32_t context);
void vcu_room_context_idle(uint32_t context);
/* A stream of the context, other than `but`, that more may be counted for than pends, when the context runs
   short; UINT32_MAX: none. */
uint32_t vcu_room_suspect(uint32_t context, uint32_t but, uint64_t *stream);
/* The upper bound of what pends in the context. */
uint32_t vcu_room_pending(uint32_t context);

#endif
