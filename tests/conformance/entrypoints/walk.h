/* SPDX-License-Identifier: MIT */
/*
 * The walk: every entry point of cuda.h called with bad arguments. walk_table.c (generated) has the
 * table of calls, walk_live.c creates valid arguments, walk_vectors.c invalidates one at a time,
 * walk_capture.c captures during the calls, walk_judge.c has the expected results, walk.c runs the
 * walk in child processes.
 */
#ifndef WALK_H
#define WALK_H

#include <cuda.h>
#include <cudaProfiler.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum wk_what {
    WK_INT,
    WK_FLOAT,
    WK_ENUM,   /* extra: the largest value that cuda.h names; sub_extra: a valid value */
    WK_DEVICE, /* an ordinal */
    WK_DEVPTR,
    WK_HANDLE, /* extra: index of wk_kinds */
    WK_CALLBACK,
    WK_STRUCT, /* by value; extra: index of wk_structs */
    WK_PTR,    /* to `sub` */
    WK_VOID,   /* only as sub */
    WK_STRING, /* only as sub */
};

struct wk_param {
    const char *name;
    uint8_t what, sub;
    bool is_const;     /* the pointer's target is only read */
    bool out;          /* pointer to data written but not read by the call */
    uint32_t size;     /* bytes of the parameter or field */
    uint32_t sub_size; /* bytes of its target */
    uint32_t extra, sub_extra;
    uint32_t offset; /* of a field in its struct */
};

struct wk_struct {
    const char *name;
    uint32_t size;
    const struct wk_param *fields; /* no field is a struct itself */
    uint32_t n_fields;
};

/* Data of the description about an entry point. */
enum wk_state { WK_REFUSED, WK_LOCAL, WK_FORWARD, WK_FORWARD_NOCTX };

struct wk_entry {
    const char *name;
    CUresult (*call)(void *fn, const uint64_t *args);
    const struct wk_param *params;
    uint32_t n_params;
    enum wk_state state;
    bool beyond;           /* of a display API in a separate header: called with zeroes only */
    const int *documented; /* results listed in cuda.h's comment; ends in -1; may be empty */
};

extern const struct wk_entry wk_entries[];
extern const unsigned wk_entry_count;
extern const struct wk_struct wk_structs[];
extern const char *const wk_kinds[];
extern const unsigned wk_kind_count;

static inline float wk_float(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float f;

    memcpy(&f, &low, sizeof(f));
    return f;
}

/* State of the process when a vector is called. */
enum wk_phase { WK_BEFORE_INIT, WK_NO_CONTEXT, WK_CONTEXT, WK_CAPTURE, WK_PHASES };

#define WK_ARGS 16
#define WK_BUFFER (64u << 10) /* size of host memory behind each pointer argument, bytes */

struct wk_vector {
    uint64_t args[WK_ARGS];
    char label[96];               /* `hStream=destroyed`; no addresses */
    const struct wk_param *where; /* the invalid parameter or field; NULL: none */
    const char *how;              /* "NULL", "garbage", "destroyed", "another kind", "0", "huge", ... */
    bool in_struct;               /* `where` is a field */
};

/* ---- walk_live.c: valid arguments ---- */

/*
 * Makes device 0's primary context current and prepares common objects. False: the library no
 * longer works.
 */
bool wk_live_start(void);
/* Makes the context of wk_live_start() current again. */
void wk_live_enter(void);
/*
 * Subsequent objects are for a call of this entry point: graphs, nodes and memory have the kinds it
 * expects.
 */
void wk_live_begin(const char *entry);
/* Returns pinned host memory, of cuMemHostAlloc or registered. */
uint64_t wk_pinned_memory(bool registered);
/* Returns the bus id of device 0. */
const char *wk_bus_id(void);
#define WK_MAPPING ((size_t)2 << 20) /* bytes of a mapping of cuMemMap */
/* Writes a CUdevResource of device 0; unchanged if there is none. */
void wk_resource(void *out);
/* Returns a new object of a kind; 0 if this library cannot create one. */
uint64_t wk_live_handle(unsigned kind);
/* Returns a handle of a destroyed object of a kind; 0 as for wk_live_handle(). */
uint64_t wk_destroyed_handle(unsigned kind);
/* Returns a handle of another kind. */
uint64_t wk_other_handle(unsigned kind);
/*
 * Returns an object of a kind that belongs to a context, created in a second context of device 0; 0
 * as for wk_live_handle().
 */
uint64_t wk_foreign_handle(unsigned kind);
/* True if objects of the kind belong to a context. */
bool wk_of_context(unsigned kind);
/* Return 64 KiB of device memory that holds the words 1, 1, ..., and freed memory. */
uint64_t wk_live_memory(void);
uint64_t wk_freed_memory(void);
/* Returns zeroed host memory, valid until wk_arena_reset(). */
void *wk_arena(size_t bytes);
void wk_arena_reset(void);
bool wk_arena_holds(uint64_t address);
/* Returns an empty host function, usable as any callback type. */
uint64_t wk_callback(void);
/* True if memory can be allocated, and a kernel runs with correct results. */
bool wk_works(void);
extern const char wk_ptx[];

/* ---- walk_vectors.c ---- */

/* String arguments: the name of a kernel, and an unknown name. As paths they are relative. */
#define wk_name "k_none"
#define wk_unknown_name "no_such_name"

/* Makes the n-th vector of an entry point in a phase; false after the last. */
bool wk_vector_make(const struct wk_entry *e, enum wk_phase phase, unsigned n, struct wk_vector *v);

/* ---- walk_capture.c: the calling thread captures a stream during the call ---- */

/* Ways to begin a capture; NULL after the last. "blocking": relaxed, of a stream that the legacy
 * stream waits for. */
extern const char *const wk_captures[];
/* Begins a capture on a separate stream, and records an event in it. False: refused by the
 * library. */
bool wk_capture_begin(unsigned capture);
/* Returns the capturing stream, or the event recorded in it, by kind. */
uint64_t wk_captured_handle(unsigned kind);
/* Ends the capture and returns its result: "capture:invalidated", "capture:+1" (nodes), "". */
const char *wk_capture_end(const struct wk_entry *e, const struct wk_vector *v);

/* ---- walk_written.c ---- */

/* Fills the outputs of a vector with a byte and saves the contents behind all its pointers. */
void wk_written_fill(const struct wk_entry *e, const struct wk_vector *v, unsigned char byte);
/*
 * Adds bytes that differ now to those found before; false if no output needs a second call with
 * another fill.
 */
bool wk_written_look(const struct wk_entry *e, const struct wk_vector *v);
/* " wrote pi:0-3 name:0-4+8-11", "" where no byte was written; resets the findings. */
const char *wk_written_text(const struct wk_entry *e);

/* ---- walk_judge.c ---- */

/* NULL if the result is expected, else the expectation. */
const char *wk_judge(const struct wk_entry *e, enum wk_phase phase, const struct wk_vector *v, CUresult r);
/* True if the library is the one described by the description, not a provider alone. */
extern bool wk_ours;
/* "CUDA_ERROR_INVALID_VALUE"; never asks the library; NULL: no result of cuda.h. */
const char *wk_result_name(CUresult r);

#endif
