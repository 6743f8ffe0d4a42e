/* SPDX-License-Identifier: MIT */
/* Events, and operations that record them or wait for them. */
#ifndef SG_EVENT_H
#define SG_EVENT_H

#include "runtime/runtime.h"

struct sg_event {
    struct sg_obj obj;
    unsigned flags;
    pthread_mutex_t lock;
    SG_COUNTED struct sg_stream *stream; /* of the latest record, a reference; NULL: never recorded */
    uint64_t seq, record;                /* its operation; number of records so far */
    SG_OWNED struct sg_front *front;   /* of a captured stream, see graph/graph.h; guarded by sg_graph_lock */
    uint64_t stamp_ns, stamp_record;   /* time, and which record it belongs to */
    SG_OWNED struct sg_ipc_event *ipc; /* other processes may have it too, see runtime/ipc_event.h; or NULL */
    uint64_t ipc_record;               /* number there of the latest record that was made here */
};

/* The event behind a handle, of any context; without one a context must be current for the error to be 400. */
CUresult sg_event_get(CUevent h, struct sg_event **out);
#define SG_EVENT(var, h) \
    SG_AUTO struct sg_event *var = NULL; \
    do { \
        CUresult sg_rc_ = sg_event_get((h), &(var)); \
        if (sg_rc_ != CUDA_SUCCESS) \
            return sg_rc_; \
    } while (0)

/* As cuEventCreate(), with flags that are valid. 2. */
CUresult sg_event_new(struct sg_ctx *ctx, unsigned flags, CUevent *out);
/* The operation of the latest record; false: never recorded. The stream comes with a reference. */
bool sg_event_state(struct sg_event *e, struct sg_stream **s, uint64_t *seq);
/* True when another process made the latest record, which is *n. */
bool sg_event_elsewhere(struct sg_event *e, uint64_t *n);
bool sg_event_elsewhere_done(struct sg_event *e, uint64_t n);
void sg_event_elsewhere_wait(struct sg_event *e, uint64_t n); /* sleeps */
/* The operation that records e; NULL: no memory. */
struct sg_op *sg_event_record_op(struct sg_event *e);
/* Later work on s waits for e's latest record. */
CUresult sg_event_wait(struct sg_stream *s, struct sg_event *e);

/* ---- shared with other processes ---- */

/* An event of ctx for what another process has made; the handle of cuIpcOpenEventHandle. */
CUresult sg_event_open(struct sg_ctx *ctx, const uint8_t *token, unsigned flags, CUevent *out);
/* The data for cuIpcGetEventHandle. */
CUresult sg_event_token(CUevent event, uint8_t *token, unsigned *flags);
/* True when this process has made the event behind the token. */
bool sg_ipc_event_is_ours(const uint8_t *token);

/* ---- nodes of graphs: the event stands for the launch that they are part of ---- */

CUresult sg_event_op(CUevent event, bool wait, struct sg_op **out);
CUevent sg_event_of(struct sg_op *op);
/* Under the issue lock, for a launch that is issued as op of s; false: no memory. */
bool sg_event_node_record(struct sg_op *node, struct sg_op *op, struct sg_stream *s);
bool sg_event_node_wait(struct sg_op *node, struct sg_op *op);

#endif
