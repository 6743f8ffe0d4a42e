/* SPDX-License-Identifier: MIT */
/*
 * Work in flight: what was put into streams and is not complete, what it costs, and when more may be taken off the
 * ring. flow.c, compile.c. Dispatcher only, but for wrk_compile_*.
 */
#ifndef WRK_FLOW_H
#define WRK_FLOW_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

struct wrk_worker;
struct wrk_call;

/* May the call that waits in w->ring be made now? False: it waits, and what is behind it. */
bool wrk_flow_may(struct wrk_worker *w, uint16_t call, uint32_t flags);
/* The call, which puts work into its stream, has succeeded. */
void wrk_flow_issued(struct wrk_call *c);
/* A context ends, with its streams. */
void wrk_flow_context_ends(struct wrk_worker *w, CUcontext ctx);
/* Sees what has completed, and tells the broker what it needs to know. `idle`: the ring has nothing. */
void wrk_flow_look(struct wrk_worker *w, bool idle);
/* How long the dispatcher may sleep before the next look; nanoseconds, UINT64_MAX: for ever. */
uint64_t wrk_flow_patience(const struct wrk_worker *w);
/* The broker shares the GPU by turns; this worker's begins (open) or ends. `bound_ns` of work at once, 0: no matter
 * how much. `number`: of this message, to be said in answers. */
void wrk_flow_turn(struct wrk_worker *w, bool open, uint64_t bound_ns, uint32_t number);
/* Shares are not by turns any more. */
void wrk_flow_turns_end(void);
/* A stream is about to be destroyed; its work goes on. */
void wrk_flow_stream_ends(struct wrk_worker *w, CUstream stream);

/* Around a call of the provider that compiles or links, on any thread: its processor time is limited. */
void wrk_compile_begin(struct wrk_worker *w);
void wrk_compile_end(void);
/* Code of so many bytes is given to the provider: NULL, or why it is not. */
const char *wrk_image_refused(uint64_t bytes);

/* ---- costs.c: what calls cost, learnt from when they were complete ---- */

/* What the next call with this key is likely to take; 0: not known. */
uint64_t wrk_cost_of(uint32_t key);
/* `calls` of it have taken ns together. */
void wrk_cost_learn(uint32_t key, unsigned calls, uint64_t ns);

#endif
