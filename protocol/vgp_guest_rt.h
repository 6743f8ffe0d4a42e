/* SPDX-License-Identifier: MIT */
/*
 * Functions called by the generated guest code (vgp_guest.c, vgp_entry.c, vgp_unsupported.c,
 * vgp_procaddr.c). Implemented by userspace/libcuda, or by a test. The entry points also call
 * functions of the library that compiles them, with the prototypes of its vgp_guest_steps.h.
 */
#ifndef VGP_GUEST_RT_H
#define VGP_GUEST_RT_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>
#include <cudaProfiler.h>

#include "vgp_ring.h"

/* What the host may observe of a record; tracked for each stream. */
enum vgp_observed {
    VGP_OBSERVED_ANY = 0, /* the host may observe the record's effect at any time */
    VGP_OBSERVED_QUIET,   /* the host can observe it only by waiting */
    VGP_OBSERVED_WAITS,   /* the reply comes when the stream is idle */
};

/* Properties of a record that its arguments do not carry. */
struct vgp_intent {
    uint8_t observed; /* enum vgp_observed */
    bool posted;      /* part of a capture, and certain to succeed: needs no reply */
    bool streamed;    /* set by the encoder: the record is put into `stream`, or waits for it */
    uint64_t stream;
};

/*
 * A call in progress: allocated on the stack by the generated code, which sets `intent`; filled by
 * vgp_submit_begin().
 */
struct vgp_submit {
    struct vgp_intent intent;
    /* buffer of `bytes` for the arguments; the first 512 bytes and the padding to a multiple of 16
     * are zeroed */
    void *args;
    uint64_t priv[8]; /* private to the ring client */
};

/* Called before sending a record that puts work into this stream: notes it in the intent; may wait
 * for room. */
void vgp_stream_count(struct vgp_submit *s, uint64_t stream);
/*
 * Reserves a record for `bytes` of arguments (at most VGP_RECORD_MAX minus the header) and, if
 * want_reply, a reply slot; sleeps while the ring or the slots are full. The thread must not begin
 * another call between begin and publish/async/wait. Returns 0, or the CUresult for the CUDA call
 * (NOT_INITIALIZED, DEINITIALIZED, the sticky error, ...), in which case nothing is held.
 */
CUresult vgp_submit_begin(struct vgp_submit *s, uint16_t call, uint32_t bytes, bool want_reply);
/*
 * Checks a fill about to be sent: `height` rows of `width` elements of `element` bytes, `pitch`
 * bytes apart, in stream `stream` if the call has one (`streamed`), else in the legacy stream.
 * True: no error that the guest can detect is possible, and the worker (version 1.`since` or later)
 * accepts the fill without a reply; the intent is set. To be called before vgp_stream_count().
 */
bool vgp_submit_silent(struct vgp_submit *s, uint32_t since, uint64_t dst, uint64_t pitch, uint64_t width,
                       uint64_t height, uint32_t element, bool streamed, uint64_t stream);
/* Publishes a record without reply and ends the submission. */
CUresult vgp_submit_async(struct vgp_submit *s);
/* Publishes a record with a reply and returns at once; a thread may have several outstanding. */
CUresult vgp_submit_publish(struct vgp_submit *s);
/* Waits for the reply to a published record. *payload (8-byte aligned, stable until vgp_submit_end)
 * holds *size bytes. Returns the reply's CUresult, or the result for a dead client. */
CUresult vgp_submit_collect(struct vgp_submit *s, const void **payload, uint32_t *size);
/* Releases the reply slot. Required after every publish or collect, including failed calls; no-op
 * if nothing is held. */
void vgp_submit_end(struct vgp_submit *s);

/* Sends data larger than a record ahead of its call, at most VGP_BLOB_MAX bytes. The call refers to
 * it by *blob_id and consumes it. */
CUresult vgp_blob_send(const void *data, uint64_t size, uint32_t *blob_id);

/*
 * Convert device ordinals between the application's numbering (CUDA_VISIBLE_DEVICES,
 * CUDA_DEVICE_ORDER) and the host's. An ordinal unknown to the application is sent as an ordinal
 * unknown to the host; a device hidden from the application is shown as CU_DEVICE_INVALID. Negative
 * ordinals are unchanged.
 */
int32_t vgp_device_sent(int32_t device);
int32_t vgp_device_got(int32_t device);
/*
 * The same for the id of a CUmemLocation, which is an ordinal for CU_MEM_LOCATION_TYPE_DEVICE only.
 */
static inline int32_t vgp_location_sent(uint32_t type, int32_t id)
{
    return type == CU_MEM_LOCATION_TYPE_DEVICE ? vgp_device_sent(id) : id;
}
static inline int32_t vgp_location_got(uint32_t type, int32_t id)
{
    return type == CU_MEM_LOCATION_TYPE_DEVICE ? vgp_device_got(id) : id;
}

/* Handles; the application sees the wire value. mint returns 0 if VGP_HANDLE_INDEX_MAX handles are
 * live. */
uint64_t vgp_handle_mint(enum vgp_handle_type type);
bool vgp_handle_live(uint64_t handle, enum vgp_handle_type type);
void vgp_handle_drop(uint64_t handle);

/* Position of a node to add, or the node to change: the first parameters of calls described with
 * `node`. */
struct vgp_where {
    uint32_t op; /* enum vgp_node_op */
    CUgraph graph;
    CUgraphNode target;
    CUgraphExec exec;
    const CUgraphNode *deps;
    const CUgraphEdgeData *edges;
    size_t ndeps;
};
#define VGP_WHERE(w) \
    (w)->op, (w)->graph, (w)->target, (w)->exec, (w)->deps, (uint32_t)(w)->ndeps, (w)->edges, \
        (w)->edges == NULL ? 0 : (uint32_t)((w)->ndeps * sizeof(CUgraphEdgeData))
static inline bool vgp_where_adds(const struct vgp_where *w)
{
    return w->op == VGP_NODE_ADD || w->op >= VGP_NODE_NAME;
}

/* Refuses a call that is not supported, once per name on the trace and each time in the error log:
 * NOT_SUPPORTED, or before cuInit NOT_INITIALIZED. */
CUresult vgp_unsupported(const char *name, const char *why);

/* Row of the cuGetProcAddress table (generated, vgp_procaddr.c), sorted by name, then version. */
struct vgp_proc {
    const char *name;    /* without version suffix, as cuGetProcAddress takes it */
    int version;         /* CUDA version of this variant, e.g. 12000 */
    void *fn;            /* exported function */
    void *fn_per_thread; /* per-thread variant (_ptsz/_ptds), or NULL */
    const char *symbol;  /* the exported name of fn */
    bool supported;      /* false: fn always fails */
};
extern const struct vgp_proc vgp_procs[];
extern const unsigned vgp_proc_count;

#endif
