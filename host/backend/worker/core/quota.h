/* SPDX-License-Identifier: MIT */
/* Device memory of the client against the quota of the VM: wrk_quota.c. */
#ifndef WRK_QUOTA_H
#define WRK_QUOTA_H

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "vgb_holds.h"

struct wrk_worker;

/* Allocation at an address of device memory. */
struct wrk_alloc {
    uint64_t address; /* 0 = free */
    uint64_t bytes;
    CUcontext ctx;
};

struct wrk_quota {
    /* limit of the whole VM, 0 = none; written by the dispatcher, read atomically elsewhere */
    uint64_t limit;
    bool report;       /* a limit was newly set: usage is to be reported to the broker */
    uint64_t reserved; /* bytes granted by the broker */
    uint64_t used;
    uint64_t hidden; /* bytes held by the provider beyond `used`, at the last check */
    pthread_t dispatcher;
    pthread_mutex_t lock;              /* also taken by waiters, which free memory */
    VGB_OWNED struct wrk_alloc *table; /* open-addressed hash table by address */
    uint64_t room, count;
    VGB_LISTED struct wrk_freeing *freeing; /* frees in progress in the provider */
    /* Returns the bytes of device memory that the provider holds for this process; called under the
     * lock. NULL: `used` is complete. */
    uint64_t (*held)(void);
};
void wrk_quota_init(struct wrk_worker *w, uint64_t limit);
/* Charges `bytes` before the provider allocates; false: over the quota. Dispatcher only. */
bool wrk_quota_take(struct wrk_worker *w, uint64_t bytes);
/* The same for an allocation, with room for its entry: wrk_quota_remember() then succeeds. False also: no memory. */
bool wrk_quota_take_for(struct wrk_worker *w, uint64_t bytes);
void wrk_quota_give(struct wrk_worker *w, uint64_t bytes);
/* Bytes charged now. */
uint64_t wrk_quota_held(struct wrk_worker *w);
/* Returns unused reservation to the broker. Dispatcher only, which owns the channel. */
void wrk_quota_trim(struct wrk_worker *w);
/*
 * Changes the limit. If there was none before, wrk_quota_report() later tells the broker the usage.
 */
void wrk_quota_change(struct wrk_worker *w, uint64_t limit);
void wrk_quota_report(struct wrk_worker *w);
/* Add and remove the allocation at an address. */
bool wrk_quota_remember(struct wrk_worker *w, uint64_t address, uint64_t bytes, CUcontext ctx);
void wrk_quota_forget(struct wrk_worker *w, uint64_t address);
/* Context of the allocation at an address; false: none is known there, or it is being freed, or its context ends. */
bool wrk_quota_context(struct wrk_worker *w, uint64_t address, CUcontext *ctx);
/* Removal in two steps: the entry first, before the address can be reused; the bytes
 * (wrk_quota_give) once the provider has freed them. */
bool wrk_quota_detach(struct wrk_worker *w, uint64_t address, struct wrk_alloc *out);
/*
 * The same for allocations that several threads may free concurrently and whose free the provider
 * may refuse: begin, then end with the provider's answer. False: another thread is freeing the same
 * address. Without this, if the provider handled the second free first, the failing first one would
 * restore an entry that is gone. Lives on the stack of the freeing thread.
 */
struct wrk_freeing {
    VGB_LISTED struct wrk_freeing *next;
    uint64_t address;
    struct wrk_alloc was;
};
bool wrk_quota_free_begin(struct wrk_worker *w, uint64_t address, struct wrk_freeing *f);
void wrk_quota_free_end(struct wrk_worker *w, struct wrk_freeing *f, bool freed);
/* returns the sum of bytes */
uint64_t wrk_quota_detach_context(struct wrk_worker *w, CUcontext ctx);

#endif
