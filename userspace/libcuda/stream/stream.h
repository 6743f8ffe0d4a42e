/* SPDX-License-Identifier: MIT */
/* Streams: host functions, memory operations, captures, external semaphores. */
#ifndef VCU_STREAM_H
#define VCU_STREAM_H

#include "../core/core.h"

/* ---- host_function.c ------------------------------------------------------------------------- */

/* One run of a host function, as a HOST_FUNC notification names it. */
struct vcu_host_run {
    uint64_t cookie;
    uint32_t status; /* CUresult of the stream */
    bool numbered;   /* slot and sequence are there (protocol 1.1) */
    uint32_t slot, sequence;
};
/* Queues the callbacks that the worker asks for. */
extern const struct vcu_unit_ops vcu_hostfunc_unit;
/* A function that a graph runs as often as it is launched; 0: see *why. `gone` (or NULL) gets `user`
   when nothing will run it any more. */
uint64_t vcu_hostfunc_keep(CUhostFn fn, void *user, void (*gone)(void *user), CUresult *why);
/* External semaphores (external_semaphore.h), to be served when the worker asks; once: by a call on a stream,
   else by a graph. Takes over the reference, also on failure. */
struct vcu_semas;
uint64_t vcu_hostfunc_keep_semas(struct vcu_semas *s, bool once, CUresult *why);
/* What was kept so, with a reference; NULL: nothing of that cookie. */
struct vcu_semas *vcu_hostfunc_semas(uint64_t cookie);
/* Tells the worker that a run has ended. */
void vcu_hostfunc_finish(const struct vcu_host_run *run);
/* A user object's destructor, to be run once, on behalf of that handle. */
uint64_t vcu_hostfunc_keep_object(CUhostFn destroy, void *user, uint64_t handle, CUresult *why);
/* Takes one back after a call that failed; `gone` is not called. False: it is released already. */
bool vcu_hostfunc_cancel(uint64_t cookie);
/* What was kept; false: nothing of that cookie. */
bool vcu_hostfunc_find(uint64_t cookie, CUhostFn *fn, void **user);
/* So many runs are to come: a thread listens until they were. */
void vcu_hostfunc_expect(uint32_t runs);

#include "external_semaphore.h"

#endif
