/* SPDX-License-Identifier: MIT */
/*
 * The handlers of the driver API, by area: context/, code/, memory/ and what lies beside this file. Their
 * prototypes are generated (vgp_worker.h); here is what the areas use of each other, and the filters.
 */
#ifndef WRK_CALLS_H
#define WRK_CALLS_H

#include "graph/graph.h"
#include "vgp_worker.h"

/* ---- the filters of this floor ---- */

/* Counts device memory in front of the provider's allocating functions, also without a limit: NVML shows
 * what a client uses. */
void wrk_memory_filter(struct wrk_worker *w, struct vgp_provider *table, const struct vgp_provider *below);
/* Keeps the bookkeeping of interprocess handles in front of the calls that end what they stand for. */
void wrk_ipc_filter(struct wrk_worker *w, struct vgp_provider *table, const struct vgp_provider *below);
/* The same for pools that processes share. */
void wrk_pool_filter(struct wrk_worker *w, struct vgp_provider *table, const struct vgp_provider *below);

/* ---- context/ ---- */

/* The primary context of a device as the guest names it, while it is retained; 0: it is not. */
uint64_t wrk_primary(int device, CUcontext *ctx);
/*
 * The green contexts of a primary context that is about to end: the client's no more from here on. What the provider has
 * of them, which ends on the waiter that ends the primary context: _end() before that, _gone() after it. To be freed;
 * NULL: there are none, or no memory.
 */
struct wrk_greens_left;
struct wrk_greens_left *wrk_greens_leave(struct wrk_worker *w, uint64_t base);
void wrk_greens_end(const struct wrk_greens_left *left);
void wrk_greens_gone(const struct wrk_greens_left *left);
/* The streams, events, modules, ... of a context that ends; context handle. */
void wrk_drop_owned(struct wrk_worker *w, uint64_t context);

/* ---- memory/ ---- */

/* A call may have taken memory that no call names: the next look is a fresh one. */
void wrk_provider_took(void);
/* What the context had opened or given out is gone. */
void wrk_ipc_context_gone(struct wrk_worker *w, CUcontext ctx);
/* A pool has been made that can be exported; without memory for that it cannot. */
void wrk_share_note_pool(CUmemoryPool pool);

/* ---- nvml.c ---- */

/* What the host's NVML says that this process has of all devices; 0: nothing. */
uint64_t wrk_nvml_own_memory(void);

/* ---- code/ ---- */

/* The context ends: the provider does not know the numbers of its texture objects any more. */
void wrk_textures_end(uint64_t context);
/* The link states of a context that ends, which is current. */
void wrk_links_end(struct wrk_worker *w, uint64_t context);

/* Launch attributes from the wire; NOT_SUPPORTED for those that are not plain data. */
#define WRK_LAUNCH_ATTRIBUTES_MAX 33u /* 32 on the wire and one that a flag stands for */
CUresult wrk_launch_attributes(struct wrk_call *c, CUlaunchAttribute *attrs, const uint32_t *ids, uint32_t n,
                               const void *values, uint32_t value_bytes);

/* JIT options as the provider takes them, with room for the two logs. */
#define WRK_JIT_OPTIONS 32u
struct wrk_jit {
    unsigned n;
    CUjit_option options[WRK_JIT_OPTIONS + 4];
    void *values[WRK_JIT_OPTIONS + 4];
};
/* Takes options over that are plain numbers; INVALID_VALUE for others. */
CUresult wrk_jit_options(struct wrk_call *c, struct wrk_jit *j, const uint32_t *ids, uint32_t n,
                         const uint64_t *values, uint32_t nvalues);
/* Adds a log buffer, which must live as long as the provider may write it. */
void wrk_jit_log(struct wrk_jit *j, bool error, char *buffer, uint32_t size);

/* Checks an image from the wire and puts room behind it; *copy is the caller's to
 * free. INVALID_IMAGE, with a detail for the trace, when it claims more than was sent. */
CUresult wrk_image_take(struct wrk_call *c, const void **image, uint64_t size, bool is_blob, void **copy);

/* ---- context/watch.c: events and streams that the guest has asked for; dispatcher ---- */

/* How many there are that were not complete when they were looked at last. */
extern unsigned wrk_watches;
/* When that was. */
extern uint64_t wrk_watched_ns;
/* Looks at them, and tells the guest of those that are complete. True while some are left. */
bool wrk_watches_poll(struct wrk_worker *w, uint64_t now);
/* Before sleeping: the guest has to ask again for what is left. */
void wrk_watches_end(struct wrk_worker *w);

#endif
