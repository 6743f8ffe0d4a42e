/* SPDX-License-Identifier: MIT */
/* Events, and operations that record them or wait for them. */
#ifndef SG_EVENT_H
#define SG_EVENT_H

#include "runtime/runtime.h"

struct sg_event {
    struct sg_obj obj;
    unsigned flags;
    pthread_mutex_t lock;
    /* stream of the latest record, a reference; NULL: never recorded */
    SG_COUNTED struct sg_stream *stream;
    /* number of that record's operation; number of records so far */
    uint64_t seq, record;
    /* set if captured, see graph/graph.h; guarded by sg_graph_lock */
    SG_OWNED struct sg_front *front;
    uint64_t stamp_ns, stamp_record; /* completion time, ns; the record it belongs to */
    /* shared with other processes, see runtime/ipc_event.h; or NULL */
    SG_OWNED struct sg_ipc_event *ipc;
    /* number, in `ipc`, of the latest record made by this process */
    uint64_t ipc_record;
};

/* The event behind a handle, of any context. For an unknown handle, 400 requires a current
   context. */
CUresult sg_event_get(CUevent h, struct sg_event **out);
#define SG_EVENT(var, h) \
    SG_AUTO struct sg_event *var = NULL; \
    do { \
        CUresult sg_rc_ = sg_event_get((h), &(var)); \
        if (sg_rc_ != CUDA_SUCCESS) \
            return sg_rc_; \
    } while (0)

/* As cuEventCreate() with validated flags. Errors: 2. */
CUresult sg_event_new(struct sg_ctx *ctx, unsigned flags, CUevent *out);
/* The operation of the latest record, with a reference to its stream. Returns false if never
   recorded. */
bool sg_event_state(struct sg_event *e, struct sg_stream **s, uint64_t *seq);
/* True if another process made the latest record; *n is its number. */
bool sg_event_elsewhere(struct sg_event *e, uint64_t *n);
bool sg_event_elsewhere_done(struct sg_event *e, uint64_t n);
void sg_event_elsewhere_wait(struct sg_event *e, uint64_t n); /* sleeps */
/* The operation that records e. NULL: out of memory. */
struct sg_op *sg_event_record_op(struct sg_event *e);
/* Makes later work on s wait for e's latest record. */
CUresult sg_event_wait(struct sg_stream *s, struct sg_event *e);

/* ---- shared with other processes ---- */

/* Opens an event of another process in ctx and returns its handle (cuIpcOpenEventHandle). */
CUresult sg_event_open(struct sg_ctx *ctx, const uint8_t *token, unsigned flags, CUevent *out);
/* The data of cuIpcGetEventHandle. */
CUresult sg_event_token(CUevent event, uint8_t *token, unsigned *flags);
/* True if this process created the event behind the token. */
bool sg_ipc_event_is_ours(const uint8_t *token);

/* ---- nodes of graphs: the event stands for the launch that they are part of ---- */

CUresult sg_event_op(CUevent event, bool wait, struct sg_op **out);
CUevent sg_event_of(struct sg_op *op);
/* Under the issue lock, for a launch issued as op on s. Returns false if out of memory. */
bool sg_event_node_record(struct sg_op *node, struct sg_op *op, struct sg_stream *s);
bool sg_event_node_wait(struct sg_op *node, struct sg_op *op);
/* See vgp_provider_ext.h. */
bool sg_event_when(CUevent event, void (*fn)(void *arg, CUresult r), void *arg);

#endif
