/* SPDX-License-Identifier: MIT */
/* Objects named by graphs: the provider keeps raw pointers to them in graphs and in executable
 * graphs. */
#ifndef WRK_NAMING_H
#define WRK_NAMING_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vgb_holds.h"

struct wrk_worker;
struct wrk_call;
struct wrk_handle_entry;

typedef void wrk_name_end(struct wrk_worker *w, void *object, CUcontext ctx);

/* Named object of the client; its handle may be gone. */
struct wrk_name {
    VGB_LISTED struct wrk_name *next, **at;    /* list of all names */
    VGB_LISTED struct wrk_handle_entry *entry; /* entry, while the handle is live */
    void *object;
    uint64_t context; /* handle of its context, or its own for a context; 0: none */
    CUcontext ctx;    /* provider context of a kept object */
    uint64_t namers;
    wrk_name_end *end; /* ends the kept object; NULL: not kept */
    bool gone;
};

/* Incremented whenever a name is removed; wrk_handle.c has it. */
extern uint64_t wrk_names_epoch;

/* A graph, an executable graph, or all captures in progress. Names are only added: a running launch
 * may use an object that a node named before it was changed. */
struct wrk_namer {
    VGB_LISTED struct wrk_namer *up;    /* the namer it is part of, which also has its names */
    VGB_COUNTED struct wrk_name **slot; /* open-addressed hash table */
    size_t room, count;
    uint64_t looked; /* when `stale` was last computed */
    bool stale;
};

/* All captures in progress; their names pass to the graph that a capture becomes. */
extern struct wrk_namer wrk_capturing;

/* To be called before each call: during a capture any call may name the objects it looks up. */
void wrk_naming_begin(struct wrk_call *c);
/* Makes n the namer of the objects that the call looks up from here on. For handlers. */
void wrk_naming_for(struct wrk_call *c, struct wrk_namer *n);
/* Names an object found by wrk_handle_get(). */
CUresult wrk_naming_found(struct wrk_call *c, unsigned type, struct wrk_handle_entry *e, uint64_t handle);
/* Names the calling context, too. */
CUresult wrk_naming_context(struct wrk_call *c);

/* Adds the names of `from` to `to` and the namers it is part of. False: no memory. */
bool wrk_namer_copy(struct wrk_namer *to, const struct wrk_namer *from);
/* Ends a namer, and objects kept for it alone. */
void wrk_namer_clear(struct wrk_worker *w, struct wrk_namer *n);
/* True if it, or a namer that it is part of, names an object that ended with its context: the namer must not reach the
 * provider again. */
bool wrk_namer_stale(struct wrk_namer *n);

/*
 * The client destroys an object. True: it is named, so the handle is dropped and `end` is called
 * when the last namer ends, unless the object's context ends before. False: the caller destroys it.
 */
bool wrk_name_keep(struct wrk_call *c, uint64_t handle, unsigned type, wrk_name_end *end);
/* wrk_handle.c, called when a handle was removed: unless the object is kept, its namers are stale. */
void wrk_name_removed(struct wrk_handle_entry *e);
/* Called when a context has ended with all kept objects of it. */
void wrk_names_context_ends(struct wrk_worker *w, uint64_t context);

/* Unloads a module on a waiter: the provider waits for the work of its context, which is not ending. */
void wrk_module_end(struct wrk_worker *w, void *object, CUcontext ctx);

#endif
