/* SPDX-License-Identifier: MIT */
/* Memory pools, shared by api/memory/pool.c and api/memory/pool_share.c. */
#ifndef SG_POOL_H
#define SG_POOL_H

#include "api/api.h"

struct sg_pool {
    struct sg_obj obj;
    bool is_default;
    int device;
    bool shareable;                /* other processes may have what is in it, and the pool by descriptor */
    bool imported;                 /* of another process: only what that one exports can be in it */
    uint8_t token[SG_SHARE_TOKEN]; /* shareable and made here */
    uint8_t id[16];                /* shareable or imported: the same in all processes */
    int fd;                        /* imported: to export it again; else -1 */
    pthread_mutex_t access_lock;   /* what is allocated has the rights that `access` says */
    uint32_t access;               /* SG_ACCESS_*: of its own device and of those that were given it */
    pthread_mutex_t lock;          /* guards the fields below; inside of access_lock */
    int reuse[3];                  /* CU_MEMPOOL_ATTR_REUSE_*, stored and without effect */
    /* Bytes. What is freed stays reserved until the next wait, and then as far as the threshold goes (CUDA driver API,
     * CU_MEMPOOL_ATTR_RELEASE_THRESHOLD): as an account, since memory is given back at once. */
    uint64_t threshold, used, used_high, reserved, reserved_high, max;
    uint64_t waits; /* sg_waits when `reserved` was settled last */
};

/* A pool that is registered, with one reference for the caller; NULL: no memory. */
struct sg_pool *sg_pool_new(int device, bool is_default, uint64_t max);
/* Makes a new pool one that other processes may have; false: no memory. */
bool sg_pool_share(struct sg_pool *p);

#endif
