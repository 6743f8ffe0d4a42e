/* SPDX-License-Identifier: MIT */
/* Device memory of the client against the quota of the VM: quota.c. */
#ifndef WRK_QUOTA_H
#define WRK_QUOTA_H

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "vgb_holds.h"

struct wrk_worker;

/* What an address of device memory stands for. */
struct wrk_alloc {
    uint64_t address; /* 0 = free */
    uint64_t bytes;
    CUcontext ctx;
};

struct wrk_quota {
    uint64_t limit;    /* for the whole VM, 0 = none; changed by the dispatcher, atomic for others */
    bool report;       /* a limit is new: the broker does not know what there is */
    uint64_t reserved; /* granted by the broker */
    uint64_t used;
    uint64_t hidden; /* what the provider holds beyond `used`, when it was last looked at */
    pthread_t dispatcher;
    pthread_mutex_t lock;              /* waiters free memory too */
    VGB_OWNED struct wrk_alloc *table; /* open hash by address */
    uint64_t room, count;
    VGB_LISTED struct wrk_freeing *freeing; /* addresses that the provider is asked to free */
    /* Bytes of device memory that the provider holds for this process, called under the lock; NULL: what
     * was counted is all. */
    uint64_t (*held)(void);
};
void wrk_quota_init(struct wrk_worker *w, uint64_t limit);
/* Takes `bytes` before the provider allocates; false: over the quota. Dispatcher only. */
bool wrk_quota_take(struct wrk_worker *w, uint64_t bytes);
void wrk_quota_give(struct wrk_worker *w, uint64_t bytes);
/* The bytes that count now. */
uint64_t wrk_quota_held(struct wrk_worker *w);
/* Gives back what was reserved and is not used; the dispatcher only, which owns the channel. */
void wrk_quota_trim(struct wrk_worker *w);
/* Another limit; where there was none the broker hears later, by wrk_quota_report(), what there is. */
void wrk_quota_change(struct wrk_worker *w, uint64_t limit);
void wrk_quota_report(struct wrk_worker *w);
/* Remembers and forgets what an address stands for. */
bool wrk_quota_remember(struct wrk_worker *w, uint64_t address, uint64_t bytes, CUcontext ctx);
void wrk_quota_forget(struct wrk_worker *w, uint64_t address);
/* Forget in two steps: the entry first, while the address cannot be anybody else's yet; the bytes
 * (wrk_quota_give) when the provider has really freed them. */
bool wrk_quota_detach(struct wrk_worker *w, uint64_t address, struct wrk_alloc *out);
/*
 * The same for what several threads may be asked to free at once, and the provider may refuse: begin, then the provider's
 * answer. False: another thread is freeing just this. If the provider heard the second one first, the first one would put
 * back what has gone. On the stack of the thread that asks.
 */
struct wrk_freeing {
    VGB_LISTED struct wrk_freeing *next;
    uint64_t address;
    struct wrk_alloc was;
};
bool wrk_quota_free_begin(struct wrk_worker *w, uint64_t address, struct wrk_freeing *f);
void wrk_quota_free_end(struct wrk_worker *w, struct wrk_freeing *f, bool freed);
uint64_t wrk_quota_detach_context(struct wrk_worker *w, CUcontext ctx); /* the sum */

#endif
