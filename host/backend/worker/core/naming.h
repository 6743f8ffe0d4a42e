/* SPDX-License-Identifier: MIT */
/* What graphs name: objects that the provider keeps raw pointers to, in graphs and in what is made of them. */
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
struct wrk_name; /* an object of the client's that a namer has; its handle may be gone */

/* A graph, an executable graph, or all captures under way. It only ever gains names: a launch under way may use
 * what a node named before it was changed. */
struct wrk_namer {
    VGB_LISTED struct wrk_namer *up;    /* what it is part of: has its names, too */
    VGB_COUNTED struct wrk_name **slot; /* an open hash */
    size_t room, count;
    uint64_t looked; /* when `stale` was found */
    bool stale;
};

/* The captures under way; their names go to the graph that one becomes. */
extern struct wrk_namer wrk_capturing;

/* Before a call: during a capture, any call may name what it looks up. */
void wrk_naming_begin(struct wrk_call *c);
/* What the call looks up from here on is named by n; its handler's business. */
void wrk_naming_for(struct wrk_call *c, struct wrk_namer *n);
/* wrk_handle_get() has found it. */
CUresult wrk_naming_found(struct wrk_call *c, unsigned type, struct wrk_handle_entry *e, uint64_t handle);
/* The calling context is named, too. */
CUresult wrk_naming_context(struct wrk_call *c);

/* `to` (and what it is part of) names what `from` does. False: no memory. */
bool wrk_namer_copy(struct wrk_namer *to, const struct wrk_namer *from);
/* It is no more: what was kept for it alone ends. */
void wrk_namer_clear(struct wrk_worker *w, struct wrk_namer *n);
/* It names something that has ended with its context: the provider must not see it again. */
bool wrk_namer_stale(struct wrk_namer *n);

typedef void wrk_name_end(struct wrk_worker *w, void *object, CUcontext ctx);
/* The client destroys the object of a handle. True: something names it, so the handle is dropped and `end` is
 * called with the last namer's end, unless its context ends before. False: it is not, the caller destroys it. */
bool wrk_name_keep(struct wrk_call *c, uint64_t handle, unsigned type, wrk_name_end *end);
/* The handle has been removed: unless it is kept, who names it is stale. */
void wrk_name_removed(struct wrk_handle_entry *e);
/* A context has ended, and all that was kept of it. */
void wrk_names_context_ends(struct wrk_worker *w, uint64_t context);
/* Objects without a handle that are kept: they count as if they had one. */
uint64_t wrk_names_kept(void);

#endif
