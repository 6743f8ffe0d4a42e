/* SPDX-License-Identifier: MIT */
/*
 * How core calls into the folders above it. A unit is a part of a higher folder that must act on an
 * event of core: a context ends, work is about to be sent, the worker notifies. entry/vcu_library.c
 * lists the units; core calls them in that order and names none.
 */
#ifndef VCU_UNITS_H
#define VCU_UNITS_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct vcu_context;
struct vcu_copy;

/* Members that a unit does not need are NULL. */
struct vcu_unit_ops {
    /* The ring exists, the worker has not been greeted. cuInit returns an error of this
     * function. */
    CUresult (*connected)(void);
    /* A context is about to be reset, released or destroyed: the unit releases the objects that
     * belong to it. A green context owns streams and semaphores only; its other objects belong to
     * its primary context. */
    void (*context_ending)(struct vcu_context *c);
    /* The worker has ended it. */
    void (*context_gone)(struct vcu_context *c);
    /* A call that may make the device read or write memory is about to be sent. */
    void (*before_work)(void);
    /* The program has waited for work with success. everything: for the whole context. */
    void (*after_wait)(bool everything);
    /* The worker has answered a wait; the answer's payload is still in shared memory, and other
     * replies may be received. An error returned here becomes the wait's result. */
    void (*wait_answered)(void);
    /* A notification; called under the notify lock: must not use the ring. True: this unit handled
     * it. */
    bool (*notify)(uint16_t type, uint64_t cookie, const uint8_t *data, uint32_t size);
    /* A copy that touches pageable memory was made on a stream that captures. */
    CUresult (*capture_copy)(const char *call, const struct vcu_copy *c);
    /* True if [addr, addr + n) is device memory that only work of this process's streams can
     * reach. */
    bool (*memory_private)(uint64_t addr, uint64_t n);
};

/* Called once, before any other function here; the NULL-terminated list must stay valid. */
void vcu_units_set(const struct vcu_unit_ops *const *units);

CUresult vcu_units_connected(void);
void vcu_units_context_ending(struct vcu_context *c);
void vcu_units_context_gone(struct vcu_context *c);
void vcu_units_wait_answered(void);
void vcu_units_notify(uint16_t type, uint64_t cookie, const uint8_t *data, uint32_t size);
/* NOT_SUPPORTED when no unit handles it. */
CUresult vcu_units_capture_copy(const char *call, const struct vcu_copy *c);

/* False when no unit can tell. */
bool vcu_units_memory_private(uint64_t addr, uint64_t n);

/* Number of reasons to call units for work and waits; at 0 they are not called. */
extern _Atomic unsigned vcu_units_watching;
static inline bool vcu_units_watch(void)
{
    return __builtin_expect(atomic_load_explicit(&vcu_units_watching, memory_order_relaxed) != 0, 0);
}
void vcu_units_before_work(void);
void vcu_units_after_wait(bool everything);

#endif
