/* SPDX-License-Identifier: MIT */
/* The trace (lnk_trace.c), shared by libcuda and libnvidia-ml. */
#ifndef LNK_TRACE_H
#define LNK_TRACE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

enum lnk_trace_mode { LNK_TRACE_OFF = 0, LNK_TRACE_REFUSALS = 1, LNK_TRACE_ALL = 2 };
extern int lnk_trace_on; /* enum lnk_trace_mode; constant after the library is loaded */
/* Monotonic nanoseconds; 0 when tracing is off. */
uint64_t lnk_trace_now(void);
/* Prints a line for a finished entry point: name(arguments) = RESULT time. */
void lnk_trace_result(const char *name, int result, uint64_t t0_ns, const char *fmt, va_list ap);
/* Prints a line for an unsupported call, once per name (by its address). */
void lnk_trace_refusal(const char *name, const char *why);
/* Prints the reason of a failure; does nothing if tracing is off. */
void lnk_why(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Prints totals at process exit: records sent to the worker, replies waited for, sleeps during
   these waits, wake-ups of the worker. */
void lnk_trace_ring(uint64_t records, uint64_t round_trips, uint64_t sleeps, uint64_t doorbells);

/* A library's interpretation of its results. */
struct lnk_trace_results {
    const char *(*name)(int result); /* a constant; NULL: not a result of this library */
    /* True if VGPU_TRACE=refusals shows this result of that entry point. */
    bool (*is_failure)(const char *call, int result);
};
/* Reads VGPU_TRACE and VGPU_TRACE_JSON; called once by the library's constructor, before the
   first traced call. `results` must stay valid. */
void lnk_trace_init(const struct lnk_trace_results *results);

#endif
