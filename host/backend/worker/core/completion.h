/* SPDX-License-Identifier: MIT */
/*
 * Whether work is complete. The only place where the provider is asked (scripts/lint_completion.py).
 *
 * A question has three answers. An error is no end: a fault in one stream is the answer for all events of the context,
 * also for those of a stream whose host function runs. What WRK_UNKNOWN was answered for lives on until its context,
 * its stream or the client has ended, or a later question is answered with WRK_COMPLETE. The type keeps a caller from
 * comparing results and taking what is left for "complete".
 */
#ifndef WRK_COMPLETION_H
#define WRK_COMPLETION_H

#include <cuda.h>

struct vgp_provider;

enum wrk_state { WRK_UNKNOWN, WRK_RUNNING, WRK_COMPLETE };
struct wrk_answer {
    enum wrk_state state;
    CUresult result; /* as the client is told */
};

/* What a result of the provider's says. */
struct wrk_answer wrk_answer_of(CUresult result);

/* Of the functions in `from`: wrk_provider, or what a filter found. They do not block. */
struct wrk_answer wrk_ask_event(const struct vgp_provider *from, CUevent event);
struct wrk_answer wrk_ask_stream(const struct vgp_provider *from, CUstream stream);
/* These block; for waiters, or behind a question that was answered with WRK_COMPLETE. Never WRK_RUNNING. */
struct wrk_answer wrk_await_event(const struct vgp_provider *from, CUevent event);
struct wrk_answer wrk_await_stream(const struct vgp_provider *from, CUstream stream);
struct wrk_answer wrk_await_context(const struct vgp_provider *from); /* the thread's current one */

#endif
