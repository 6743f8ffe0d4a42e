/* SPDX-License-Identifier: MIT */
/* Memory pools, shared by api/memory/sgd_pool.c and api/memory/sgd_pool_share.c. */
#ifndef SG_POOL_H
#define SG_POOL_H

#include "api/api.h"

#define SG_POOL_MAGIC "sgPOOL01" /* 8 bytes of it, in the descriptor of a pool: sg_share_create_fd() */

struct sg_pool {
    struct sg_obj obj;
    bool is_default;
    int device;
    bool shareable; /* the pool and its allocations can be exported to other processes */
    /* imported pool: holds only allocations exported by the process that owns it */
    bool imported;
    uint8_t token[SG_SHARE_TOKEN]; /* valid if shareable and not imported */
    /* if shareable or imported: id of the pool, the same in all processes */
    uint8_t id[16];
    /* descriptor of an imported pool, for exporting it again; else -1 */
    int fd;
    /* keeps `access` and the rights of the pool's allocations consistent */
    pthread_mutex_t access_lock;
    /* SG_ACCESS_* of the pool's own device and of devices granted access */
    uint32_t access;
    pthread_mutex_t lock; /* guards the fields below; taken inside access_lock */
    int reuse[3];         /* CU_MEMPOOL_ATTR_REUSE_*; stored, without effect */
    /* Bytes. Freed memory counts as reserved until the next wait and is then trimmed to the
       threshold (CUDA driver API, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD). This is accounting only:
       the memory itself is released at once. */
    uint64_t threshold, used, used_high, reserved, reserved_high, max;
    uint64_t waits; /* value of sg_waits when `reserved` was last settled */
};

/* Creates and registers a pool, with one reference for the caller. NULL: out of memory. */
struct sg_pool *sg_pool_new(int device, bool is_default, uint64_t max);

#endif
