/* SPDX-License-Identifier: MIT */
/*
 * Plan of the mmap(2) calls that map a region of guest memory. The same code computes it in the
 * worker, whose mapper makes the calls, and in the broker, which allows the mapper these calls and
 * no others.
 */
#ifndef VGB_PLAN_H
#define VGB_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "vgb_msg.h"

#define VGB_CALL_NO_FILE UINT32_MAX /* inaccessible address space instead */

struct vgb_call {
    uint64_t at; /* offset from the start of the region's place */
    uint64_t length, offset;
    uint32_t file; /* descriptor number in the calling process */
    uint32_t prot;
};

/* Arguments of the mmap(2) call for a place at this address. */
static inline void vgb_call_arguments(const struct vgb_call *c, uint64_t place, uint64_t args[6])
{
    args[0] = place + c->at;
    args[1] = c->length;
    args[2] = c->prot;
    if (c->file == VGB_CALL_NO_FILE) {
        args[3] = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
        args[4] = UINT64_MAX;
        args[5] = 0;
    } else {
        args[3] = MAP_SHARED | MAP_FIXED;
        args[4] = c->file;
        args[5] = c->offset;
    }
}

/* Job of a mapper, in the worker's memory; the mapper gets its address in answer to its request for
 * work. The broker checks only the resulting calls. */
struct vgb_job {
    uint64_t place;
    const struct vgb_call *calls;
    uint32_t n;
    uint32_t done;        /* written by the mapper: number of successful calls, */
    int64_t result;       /* ... and -errno of the next call if it failed */
    struct vgb_call away; /* the only call of an unmapping job */
};

struct vgb_plan {
    uint64_t length;  /* bytes of the region */
    uint64_t planned; /* bytes covered by the calls below */
    /* page size of the file, and offset of the region in its first page, bytes */
    uint32_t page, phase;
    struct vgb_call *list;
    uint32_t n, room;
};

enum vgb_plan_result {
    VGB_PLAN_OK,
    VGB_PLAN_BAD,    /* invalid run, never sent by an intact broker */
    VGB_PLAN_PAGES,  /* the runs' offsets within huge pages do not match the region's */
    VGB_PLAN_MEMORY, /* no memory for another call */
};
/* False: inconsistent length or run. */
bool vgb_plan_begin(struct vgb_plan *p, uint64_t length, const struct vgb_run *first);
/* Size of the place, bytes: the whole pages around the region. */
uint64_t vgb_plan_place(const struct vgb_plan *p);
/* Adds the next run; a run that continues the last in its file extends the last call. */
enum vgb_plan_result vgb_plan_add(struct vgb_plan *p, const struct vgb_run *run, uint32_t prot);
/* Frees the calls but keeps the lengths. */
void vgb_plan_drop(struct vgb_plan *p);

#endif
