/* SPDX-License-Identifier: MIT */
/*
 * How a region of guest memory is mapped: the calls of mmap(2) that its runs come to, worked out by the same code in
 * the worker, whose mapper makes them, and in the broker, which lets the mapper make these calls and no others.
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
    uint64_t at; /* from the beginning of the region's place */
    uint64_t length, offset;
    uint32_t file; /* its descriptor's number where the call is made */
    uint32_t prot;
};

/* The registers of that call, for a place at this address. */
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

/* Job of a mapper: the answer to its question is this address, in the worker's memory. The broker checks the calls alone. */
struct vgb_job {
    uint64_t place;
    const struct vgb_call *calls;
    uint32_t n;
    uint32_t done;        /* by the mapper: calls that have succeeded, */
    int64_t result;       /* ... and -errno of the next one, if that failed */
    struct vgb_call away; /* for a job that is this call alone */
};

struct vgb_plan {
    uint64_t length;      /* bytes of the region */
    uint64_t planned;     /* bytes that the calls below are about */
    uint32_t page, phase; /* bytes of a page of the file; where in its first page the region begins */
    struct vgb_call *list;
    uint32_t n, room;
};

enum vgb_plan_result {
    VGB_PLAN_OK,
    VGB_PLAN_BAD,    /* a run that no honest broker sends */
    VGB_PLAN_PAGES,  /* its parts do not lie in huge pages as the region's do */
    VGB_PLAN_MEMORY, /* no memory for one more call */
};
/* False: the numbers make no sense. */
bool vgb_plan_begin(struct vgb_plan *p, uint64_t length, const struct vgb_run *first);
/* Bytes of the place: whole pages around the region. */
uint64_t vgb_plan_place(const struct vgb_plan *p);
/* Adds the next run; what lies behind the last one in its file makes the last call longer. */
enum vgb_plan_result vgb_plan_add(struct vgb_plan *p, const struct vgb_run *run, uint32_t prot);
/* Forgets the calls, not what they were about. */
void vgb_plan_drop(struct vgb_plan *p);

#endif
