/* SPDX-License-Identifier: MIT */
/*
 * Waits that need no answer of the worker. A program that copies a few inputs to the device and
 * waits after each of them would sleep for each copy, although it can observe nothing that depends
 * on the end of these copies. The library therefore tracks, for each of a few streams, whether the
 * work put into it since it was last complete is visible to the host:
 *
 *   idle     nothing is outstanding: a wait returns at once
 *   quiet    outstanding are only copies of staged bytes to device memory that only this process
 *            can reach: while all other streams are idle, a wait of that stream returns at once, and the
 *            library owes the wait
 *   busy     anything else: a wait goes to the worker
 *
 * An owed wait is performed before any operation that could reveal the difference: before work in
 * another stream, a query, a free, a context call. Work in the same stream keeps its order anyway;
 * an event recorded before it lets the owed wait end before that work does.
 *
 * Each thread's per-thread default stream counts as a separate stream. Disabled in a process that
 * uses a second context, while a stream captures, while managed memory is watched, and with
 * VGPU_OWE_WAITS=0.
 */
#ifndef VCU_WAIT_H
#define VCU_WAIT_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Maximum size in bytes of copies to the device and fills that may complete without a wait. A
 * program may measure the time of larger ones, of which the wait is a small part. */
#define VCU_OWE_MAX (256u << 10)

/* ---- called by vcu_submit.c --------------------------------------------------------------------- */

/* True while a wait is owed. */
extern _Atomic bool vcu_wait_owed;
struct vcu_owed {
    uint64_t stream;
    uint64_t context;
    uint32_t owner;
    uint32_t thread; /* whose per-thread stream it is, if it is one */
    bool recorded;   /* `event` marks its end: other work has been put behind it */
    CUevent event;   /* of the process's only context; kept for the next time */
};
/* Called before a record is begun while a wait is owed. */
void vcu_wait_before(uint16_t call, const struct vgp_intent *in);
/* The work that a wait in progress will have waited for. */
struct vcu_wait_token {
    uint64_t work;  /* the latest record sent before the wait; for work, the record itself */
    uint32_t owner; /* the stream */
    bool is_wait, everything;
};
/* True if a successful wait has covered the work of the token. False: not known. */
bool vcu_wait_covered(const struct vcu_wait_token *sent);
/* True if the token is of work of that stream. */
bool vcu_wait_in_stream(const struct vcu_wait_token *sent, CUstream stream);
/* Called under the ring's lock, for every record in order. The token of a wait goes to
 * vcu_wait_done(). */
struct vcu_wait_token vcu_wait_note(uint16_t call, const struct vgp_intent *in, uint64_t context);
/* Called when the reply to a wait has arrived with success. Takes the ring's lock. */
void vcu_wait_done(const struct vcu_wait_token *token);

/* ---- called by entry points ----------------------------------------------------------------- */

/* True: a wait for the stream (or, with everything, for the context) may return success now. */
bool vcu_wait_answered(CUstream stream, bool everything);
/* A wait is about to be answered in the guest: receives what has arrived meanwhile. False: it has to
 * be made. */
bool vcu_wait_told(void);
/* True if nothing is outstanding: queries of streams and events then report completion. */
bool vcu_wait_idle(void);
/* True while only legacy streams have work: omitting a call in them then changes no order of work
 * in other streams. */
bool vcu_wait_legacy_alone(void);
/* True if no work before a copy into the stream requires a wait, so that the copy may complete by
 * itself: the caller sends it with VGP_OBSERVED_QUIET, and calls vcu_wait_owe(); false: the caller
 * must wait now. */
bool vcu_wait_may_owe(CUstream stream);
bool vcu_wait_owe(CUstream stream);

/* Token of the latest work that the stream may have: while it is unchanged, no work has been put
 * into the stream. */
struct vcu_wait_latest {
    uint64_t in_stream, elsewhere;
};
struct vcu_wait_latest vcu_wait_latest(CUstream stream);

/* ---- vcu_query.c, vcu_answers.c: queries of events and streams ---- */

/*
 * The result of a successful query stays valid until work is put into the stream, or the event is
 * recorded again; so does the coverage of a wait, for an event that is queried for the first time.
 * An incomplete object is not queried again until the worker reports completion in a word of the
 * window (VGP_WATCHES), the program may have learnt of it otherwise (any reply, any notification),
 * or some time has passed, so that errors surface. Disabled while a stream captures, with managed
 * memory, events of other processes or of graphs, default streams, a pending error, a worker older
 * than 1.4, and with VGPU_ANSWER_QUERIES=0.
 */
CUresult vcu_event_query(CUevent event);
/* True if queries of objects of that context may be answered in the guest. */
bool vcu_query_may_answer(uint64_t context);
/* cuStreamQuery of a stream that is not known to be idle. */
CUresult vcu_stream_query_sent(CUstream stream);
/*
 * cuEventElapsedTime of live events. The provider's answer is returned again until either event is
 * recorded again. A program that measures repeatedly waits for the second event and then asks: once
 * it has asked about a pair, the next wait that covers the second event brings the answer along,
 * unless the previous one was not asked for. Disabled under the same conditions as the queries above.
 * True: *milliseconds is the answer; false: the worker is asked, and the answer learnt with *changes.
 */
bool vcu_event_elapsed_known(float *milliseconds, CUevent start, CUevent end, uint64_t *changes);
CUresult vcu_event_elapsed_learn(CUevent start, CUevent end, uint64_t changes, float milliseconds);
/* True: cuEventSynchronize may return success now, since a query or a wait has told that the event is
 * complete. Otherwise the worker waits: vcu_event_asked() before, vcu_event_waited() after success. */
bool vcu_event_covered(CUevent event);
uint64_t vcu_event_asked(CUevent event);
CUresult vcu_event_wait(CUevent event);
CUresult vcu_event_waited(CUevent event, uint64_t question);
/* cuStreamSynchronize and cuCtxSynchronize by the worker. */
CUresult vcu_stream_wait_sent(CUstream stream);
CUresult vcu_context_wait_sent(void);
/* vcu_submit.c: a record is sent. vcu_query_noted() reads `args` before publication and returns the
 * value that vcu_query_sent() needs after it. */
uint64_t vcu_query_noted(uint16_t call, const void *args);
void vcu_query_sent(uint64_t noted, const struct vcu_wait_token *sent);
/* Number of messages of the worker so far that may imply completion. */
extern _Atomic uint64_t vcu_query_evidences;
static inline void vcu_query_evidence(void)
{
    atomic_fetch_add_explicit(&vcu_query_evidences, 1, memory_order_release);
}
/* Number of queries answered in the guest; for VGPU_STATS. */
extern _Atomic uint64_t vcu_queries_answered;
/* Reads VGPU_ANSWER_QUERIES; once, when the library is loaded. */
void vcu_query_init(void);

/* Numbers of waits answered in the guest, and of owed waits performed; for VGPU_STATS and the
 * trace. */
extern _Atomic uint64_t vcu_waits_answered, vcu_waits_owed;

/* Reads VGPU_OWE_WAITS; once, when the library is loaded. */
void vcu_wait_init(void);

/* ---- vcu_parked.c: frees that need no record ---- */

/*
 * Pool memory that the program has freed in a stream, of which the worker has not been notified. An
 * allocation of the same size from the same pool in the same stream gets it back: in the order of
 * that stream the memory is free, whatever still runs in it. A program that allocates and frees its
 * temporary buffers around each kernel thus makes no round trip for them.
 *
 * The frees are sent before any operation that could reveal the difference: before each record that
 * does not only put work into a stream (attributes of pools, other allocations, captures, ends of
 * streams and contexts), before work that may allocate during execution or block indefinitely
 * (graphs, host functions, waits for values), and when more than VCU_PARKED_MAX blocks or
 * VCU_PARKED_BYTES are parked. The only difference is CU_MEMPOOL_ATTR_USED_MEM_HIGH, by the size of
 * the parked memory while other memory is allocated. A wait makes a pool give memory back to the
 * device, down to its release threshold (CUDA Driver API, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD): frees
 * of a pool that keeps all memory (UINT64_MAX) outlast waits, other frees are sent before waits,
 * and while one of these is parked, no wait is answered ahead of the worker (above). Not parked:
 * memory of per-thread default streams and of imported pools, memory of legacy streams while there
 * is work in another stream, which these calls would order, any memory while a stream captures, and
 * any memory with VGPU_PARK_FREES=0.
 */
#define VCU_PARKED_MAX 32
#define VCU_PARKED_BYTES (UINT64_C(64) << 20)

/* Number of parked frees; number of those to be sent before a wait. vcu_wait.c has them: its answers
 * depend on them. */
extern _Atomic unsigned vcu_parked, vcu_parked_loose;
/* Number of allocations served from parked memory; for VGPU_STATS. */
extern _Atomic uint64_t vcu_parked_reused;

/* Parks memory of `size` bytes that was freed in `stream`, instead of sending the free. pool: its
 * handle. False: send it. */
bool vcu_parked_put(CUdeviceptr address, uint64_t size, uint64_t pool, CUstream stream);
/* Parked memory for an allocation; 0: none. */
CUdeviceptr vcu_parked_take(uint64_t size, uint64_t pool, CUstream stream);
/* Sets whether the pool keeps all its memory across waits, by its release threshold. Initially no
 * pool does. */
void vcu_parked_pool(uint64_t pool, bool keeps);
/* Sends the parked frees. */
void vcu_parked_send(void);

/* Reads VGPU_PARK_FREES; once, when the library is loaded. */
void vcu_parked_init(void);

#endif
