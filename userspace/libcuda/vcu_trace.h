/* SPDX-License-Identifier: MIT */
/* The trace (vcu_trace.c), as libcuda and libnvidia-ml share it. */
#ifndef VCU_TRACE_H
#define VCU_TRACE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

enum vcu_trace_mode { VCU_TRACE_OFF = 0, VCU_TRACE_REFUSALS = 1, VCU_TRACE_ALL = 2 };
extern int vcu_trace_on; /* enum vcu_trace_mode; constant after the library was loaded */
/* Monotonic nanoseconds; 0 when tracing is off. */
uint64_t vcu_trace_now(void);
/* One line for a finished entry point: name(arguments) = RESULT time. */
void vcu_trace_result(const char *name, int result, uint64_t t0_ns, const char *fmt, va_list ap);
/* A call that this version does not serve: one line, once per name (by its address). */
void vcu_trace_refusal(const char *name, const char *why);
/* Why something failed; does nothing when tracing is off. */
void vcu_why(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The process ends: what it sent to its worker, how many replies it waited for, how often it slept
 * while it waited, and how often it had to wake the worker up. */
void vcu_trace_ring(uint64_t records, uint64_t round_trips, uint64_t sleeps, uint64_t doorbells);
/* Reads VGPU_TRACE and VGPU_TRACE_JSON; called once from the library's constructor. */
void vcu_trace_init(void);

/* Given by the library: the name of a result, or NULL; is it one that VGPU_TRACE=refusals shows? */
const char *vcu_trace_result_name(int result);
bool vcu_trace_is_failure(const char *name, int result);

#endif
