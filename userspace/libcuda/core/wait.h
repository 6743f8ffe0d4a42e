/* SPDX-License-Identifier: MIT */
/*
 * Waits that need no answer of the worker. A program that copies a few inputs to the device and waits
 * after each of them would sleep once for each; yet nothing that it can see depends on when these copies
 * end. So the library keeps, for each of a few streams, whether what was put into it since it was last
 * complete is visible to the host:
 *
 *   idle     nothing is outstanding: a wait returns at once
 *   quiet    outstanding are only copies of staged bytes to device memory that nobody but this process
 *            can reach: while all other streams are idle, a wait of that stream returns at once, and the
 *            library owes the wait
 *   busy     anything else: a wait goes to the worker
 *
 * A wait that is owed is made up for before anything could tell the difference: before work in another
 * stream, a query, a free, a context call. Work in the same stream keeps its order anyway; an event that
 * is recorded before it lets the wait that is owed end before that work does.
 *
 * A per-thread default stream is a stream of its own for each thread. Off in a process that uses a second context, while a
 * stream captures, while managed memory is watched, and with VGPU_OWE_WAITS=0.
 */
#ifndef VCU_WAIT_H
#define VCU_WAIT_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum vcu_effect {
    VCU_EFFECT_ANY = 0, /* the host may see what the record does */
    VCU_EFFECT_QUIET,   /* it cannot, but by waiting */
    VCU_EFFECT_WAITS,   /* the reply comes when the stream is idle */
};

/* Copies to the device and fills up to this size (bytes) may be left to complete by themselves (core/wait.h). Of larger
   ones a program may measure the time; the wait is a small part of it. */
#define VCU_OWE_MAX (256u << 10)

/* Of the next record that the calling thread sends. */
struct vcu_intent {
    bool streamed; /* it goes into `stream`, or waits for it */
    uint8_t effect;
    bool posted; /* captured, and not to be answered: capture_state.c */
    uint64_t stream;
};

/* Says what the next record of this thread does to the host; the stream is counted apart, or given. */
void vcu_wait_effect(enum vcu_effect effect);
void vcu_wait_intend(CUstream stream, enum vcu_effect effect);

/* ---- submit.c asks -------------------------------------------------------------------------- */

/* True while a wait is owed. */
extern _Atomic bool vcu_wait_owed;
/* Before a record is begun while a wait is owed. */
void vcu_wait_before(uint16_t call, const struct vcu_intent *in);
/* What a wait that is being made will have waited for. */
struct vcu_wait_token {
    uint64_t work;  /* the latest that was sent before the wait; of work, itself */
    uint32_t owner; /* the stream */
    bool is_wait, everything;
};
/* Has a wait that ended with success covered what was sent then? False: not known. */
bool vcu_wait_covered(const struct vcu_wait_token *sent);
/* Under the ring's lock, for every record in its order. A token that is of a wait goes to vcu_wait_done(). */
struct vcu_wait_token vcu_wait_note(uint16_t call, const struct vcu_intent *in, uint64_t context);
/* The reply to a wait has come, with success. Takes the ring's lock. */
void vcu_wait_done(const struct vcu_wait_token *token);

/* ---- entry points ask ----------------------------------------------------------------------- */

/* True: a wait for the stream (or, with everything, for the context) may return success now. */
bool vcu_wait_answered(CUstream stream, bool everything);
/* True if nothing is outstanding: queries of streams and events then report completion. */
bool vcu_wait_idle(void);
/* True while only legacy streams have work: a call left out of them then changes no order of work in other streams. */
bool vcu_wait_legacy_alone(void);
/* True if nothing before a copy into the stream has to be waited for, so that the copy may complete by itself:
   the caller sends it with VCU_EFFECT_QUIET, and calls vcu_wait_owe(); false: it must wait now. */
bool vcu_wait_may_owe(CUstream stream);
bool vcu_wait_owe(CUstream stream);

/* The latest work that the stream may have: while it is the same, nothing has been put into the stream. */
struct vcu_wait_latest {
    uint64_t in_stream, elsewhere;
};
struct vcu_wait_latest vcu_wait_latest(CUstream stream);

/* ---- query.c: queries of events and streams ---- */

/*
 * What a query has found stays so until work is put into the stream, or the event is recorded again; so does what a wait
 * has covered, for an event that is queried for the first time. And what is not
 * complete is not asked for again until the worker says so in a word of the window (VGP_WATCHES), the program may
 * have learnt otherwise that it is (any reply, any notification), or some time has passed, so that errors come out.
 * Not while a stream captures, with managed memory, events of other processes or of graphs, default streams, an error
 * that is pending, a worker older than 1.4, and with VGPU_ANSWER_QUERIES=0.
 */
CUresult vcu_event_query(CUevent event);
/* cuStreamQuery of a stream that is not known to be idle. */
CUresult vcu_stream_query_sent(CUstream stream);
/* submit.c: a record was sent. `args`: before it was published; what is needed of them for vcu_query_sent(). */
uint64_t vcu_query_noted(uint16_t call, const void *args);
void vcu_query_sent(uint64_t noted, const struct vcu_wait_token *sent);
/* Something came from the worker that may tell of completion. */
extern _Atomic uint64_t vcu_query_evidences;
static inline void vcu_query_evidence(void)
{
    atomic_fetch_add_explicit(&vcu_query_evidences, 1, memory_order_release);
}
/* Queries that were answered here; for VGPU_STATS. */
extern _Atomic uint64_t vcu_queries_answered;
/* Reads VGPU_ANSWER_QUERIES; once, when the library is loaded. */
void vcu_query_init(void);

/* Waits that were answered here, and that were made up for; for VGPU_STATS and the trace. */
extern _Atomic uint64_t vcu_waits_answered, vcu_waits_owed;

/* Reads VGPU_OWE_WAITS; once, when the library is loaded. */
void vcu_wait_init(void);

/* ---- parked.c: frees that need no record ---- */

/*
 * Memory of a pool that the program has freed in a stream and that the worker has not heard of yet. An allocation of the same size
 * from the same pool in the same stream gets it back: in the order of that stream the memory is free, whatever still
 * runs in it. So a program that allocates and frees its temporary buffers around each kernel makes no round trip for them.
 *
 * The frees are sent before anything could tell the difference: before each record that does not only put work into a stream
 * (attributes of pools, other allocations, captures, ends of streams and contexts), before work that may allocate as it runs or
 * stand for ever (graphs, host functions, waits for values), and when more than VCU_PARKED_MAX blocks or VCU_PARKED_BYTES wait.
 * What differs is CU_MEMPOOL_ATTR_USED_MEM_HIGH, by the size of what waits while something else is allocated. A wait makes a pool give memory back to the device, down to its release threshold (CUDA Driver API,
 * CU_MEMPOOL_ATTR_RELEASE_THRESHOLD): frees of a pool that keeps all (UINT64_MAX) outlast waits, the others are sent
 * before them, and while one of these waits, no wait is answered ahead of the worker (above). Not parked are memory of per-thread
 * default streams and of imported pools, that of legacy streams while there is work in another stream, which these calls would
 * order, anything while a stream captures, and anything with VGPU_PARK_FREES=0.
 */
#define VCU_PARKED_MAX 32
#define VCU_PARKED_BYTES (UINT64_C(64) << 20)

/* How many wait; how many of them are to be sent before a wait. */
extern _Atomic unsigned vcu_parked, vcu_parked_loose;
/* Allocations that got parked memory; for VGPU_STATS. */
extern _Atomic uint64_t vcu_parked_reused;

/* Keeps memory of `size` bytes that was freed in `stream`, in place of sending that. pool: its handle. False: send it. */
bool vcu_parked_put(CUdeviceptr address, uint64_t size, uint64_t pool, CUstream stream);
/* Memory for an allocation; 0: there is none. */
CUdeviceptr vcu_parked_take(uint64_t size, uint64_t pool, CUstream stream);
/* The pool keeps all its memory when work is waited for, or not: its release threshold. Before that no pool does. */
void vcu_parked_pool(uint64_t pool, bool keeps);
/* Sends what waits. */
void vcu_parked_send(void);

/* Reads VGPU_PARK_FREES; once, when the library is loaded. */
void vcu_parked_init(void);

#endif
