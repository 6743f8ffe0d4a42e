/* SPDX-License-Identifier: MIT */
/* JIT options, as cuModuleLoadDataEx, cuLibraryLoadData and the linker take them. */
#ifndef VCU_JIT_H
#define VCU_JIT_H

#include "../core/core.h"

#define VCU_JIT_OPTIONS_MAX 32

/* The application's buffer for a log. */
struct vcu_jit_log {
    char *text;
    uint32_t size;   /* bytes of the buffer */
    void **size_out; /* the option's value: number of bytes written */
};

struct vcu_jit {
    struct vcu_jit_log info, error;
    void **wall_time; /* CU_JIT_WALL_TIME: milliseconds, as a float */
    uint64_t started; /* monotonic nanoseconds: when the options were read */
    uint32_t n;       /* options that are plain numbers: they go to the host's compiler */
    uint32_t ids[VCU_JIT_OPTIONS_MAX];
    uint64_t values[VCU_JIT_OPTIONS_MAX];
};

/*
 * Parses the options. `values` must stay valid as long as *jit is used. INVALID_VALUE: an option
 * that cuda.h does not know, or NULL arrays; NOT_SUPPORTED: host symbols for the device linker.
 */
CUresult vcu_jit_parse(const char *call, struct vcu_jit *jit, unsigned n, const CUjit_option *options,
                       void **values);
/* Size in bytes of the log that the host keeps; 0: no log requested. */
uint32_t vcu_jit_log_room(const struct vcu_jit_log *log);
/* Writes a log of n bytes (without a NUL) into the application's buffer, if any. */
void vcu_jit_give(const struct vcu_jit_log *log, const char *text, size_t n);
/* Writes CU_JIT_WALL_TIME, if requested. */
void vcu_jit_done(const struct vcu_jit *jit);

#endif
