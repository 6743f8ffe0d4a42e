/* SPDX-License-Identifier: MIT */
/* Streams: host functions, memory operations, captures, external semaphores. */
#ifndef VCU_STREAM_H
#define VCU_STREAM_H

#include "../core/core.h"

/* ---- vcu_host_function.c ------------------------------------------------------------------------- */

/* A run of a host function, as identified by a HOST_FUNC notification. */
struct vcu_host_run {
    uint64_t cookie;
    uint32_t status; /* CUresult of the stream */
    bool numbered;   /* slot and sequence are valid (protocol 1.1) */
    uint32_t slot, sequence;
};
/* Queues the callbacks that the worker requests. */
extern const struct vcu_unit_ops vcu_hostfunc_unit;
/*
 * Each function below that registers returns a cookie, 0: see *why. Whoever registers makes the
 * call that tells the worker, then reports its result: vcu_hostfunc_sent() or
 * vcu_hostfunc_cancel(), or both in vcu_hostfunc_kept(). Only what was sent is ended here when the
 * worker dies. The first one: a function, or a callback of a stream, that runs once.
 */
uint64_t vcu_hostfunc_once(CUhostFn fn, CUstreamCallback stream_fn, CUstream stream, void *user,
                           CUresult *why);
/* Registers a function that runs at every launch of a graph. `gone` (or NULL) gets `user` when no
 * further run is possible. */
uint64_t vcu_hostfunc_keep(CUhostFn fn, void *user, void (*gone)(void *user), CUresult *why);
/* Runs that the runner's thread does not serve: `arg` is counted by references. post takes one over;
 * it is called under the notify lock and does not block. */
struct vcu_host_service {
    void (*get)(void *arg);
    void (*put)(void *arg);
    void (*post)(void *arg, const struct vcu_host_run *run);
};
/* Registers an argument, to be served when the worker requests it; once: by a call on a stream, else
 * by a graph. Takes over the reference, also on failure. */
uint64_t vcu_hostfunc_keep_service(const struct vcu_host_service *service, void *arg, bool once,
                                   CUresult *why);
/* The argument registered for that service, with a reference; NULL: unknown cookie. */
void *vcu_hostfunc_service(uint64_t cookie, const struct vcu_host_service *service);
/* Notifies the worker that a run has ended. */
void vcu_hostfunc_finish(const struct vcu_host_run *run);
/* Registers a user object's destructor, to be run once, on behalf of that handle. */
uint64_t vcu_hostfunc_keep_object(CUhostFn destroy, void *user, uint64_t handle, CUresult *why);
/* Counts the references of a user object that the program has; what it gives to graphs is not
 * counted. */
void vcu_hostfunc_own(uint64_t cookie, int64_t references);
/* The call succeeded. */
void vcu_hostfunc_sent(uint64_t cookie);
/* Unregisters after a failed call; `gone` is not called. False: it is released already, or about to
 * run. */
bool vcu_hostfunc_cancel(uint64_t cookie);
/* Either of the two, by the call's result. */
void vcu_hostfunc_kept(uint64_t cookie, CUresult res);
/* The registered function; false: unknown cookie. */
bool vcu_hostfunc_find(uint64_t cookie, CUhostFn *fn, void **user);
/* Announces a number of expected runs: a thread listens until they have happened. */
void vcu_hostfunc_expect(uint32_t runs);

/* ---- vcu_stream.c ---- */

/* cuStreamQuery, which needs no current context. */
CUresult vcu_stream_query(CUstream stream);
/* cuStreamSynchronize in a live context. */
CUresult vcu_stream_wait(CUstream stream);

/* ---- vcu_stream_fact.c ---- */

/*
 * Flags, priority and id of a valid stream, without the worker once they are known: flags and the
 * default priority since creation, the rest since the first query, also for the default streams of
 * contexts that are not green. Streams created in a green context, whose flags the driver may
 * complete, are queried. NAME_known() gives what is known, NAME_learn() keeps an answer and is
 * always CUDA_SUCCESS.
 */
bool vcu_stream_flags_known(CUstream stream, unsigned int *flags);
CUresult vcu_stream_flags_learn(CUstream stream, unsigned int flags);
/* State before the query: an answer older than a change is not kept. */
uint64_t vcu_stream_settings(CUstream stream);
bool vcu_stream_priority_known(CUstream stream, int *priority);
CUresult vcu_stream_priority_learn(CUstream stream, uint64_t before, int priority);
bool vcu_stream_id_known(CUstream stream, unsigned long long *id);
CUresult vcu_stream_id_learn(CUstream stream, unsigned long long id);
/* A stream was created in the current context. Always CUDA_SUCCESS. */
CUresult vcu_stream_created(CUstream stream, unsigned flags, int priority);
/* The worker has answered a call that changes attributes of the stream; returns its result. */
CUresult vcu_stream_changed(CUstream stream, CUresult r);

/* ---- vcu_capture.c ---- */

/* Into a new graph, or (graph) behind these dependencies of an existing one. */
CUresult vcu_capture_begin(const char *call, CUstream stream, CUstreamCaptureMode mode, CUgraph graph,
                           const CUgraphNode *dependencies, const CUgraphEdgeData *edges, size_t n);
/* A captured event has a separate error, which the worker returns. */
CUresult vcu_capture_check_event(const char *call, CUevent hEvent);
/* All outputs but the status may be NULL. LOSSY_QUERY: the dependencies have edge data, which the caller does not ask for. */
CUresult vcu_capture_info(CUstream stream, CUstreamCaptureStatus *status_out, cuuint64_t *id_out,
                          CUgraph *graph_out, const CUgraphNode **dependencies_out,
                          const CUgraphEdgeData **edges_out, size_t *n_out);

/* ---- vcu_memory_operation.c ---- */

/* One wait or write (a CU_STREAM_MEM_OP_*_VALUE_*): with a reply unless the worker cannot refuse it. */
CUresult vcu_memop_issue(CUstream stream, uint32_t operation, CUdeviceptr addr, uint64_t value,
                         unsigned flags);

/* ---- vcu_external_semaphore.c ---- */

/* params: CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS or _SIGNAL_PARAMS, n of them. */
CUresult vcu_semaphore_issue(const char *call, bool wait, const CUexternalSemaphore *handles,
                             const void *params, unsigned n, CUstream stream);

#include "external_semaphore.h"

#endif
