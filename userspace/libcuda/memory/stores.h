/* SPDX-License-Identifier: MIT */
/*
 * Choice of stores for staged copies: ordinary stores, or stores past the caches (lib/bulk), for
 * the pieces of the staging area, which libcuda fills for uploads and the worker for downloads, and
 * for the destination of large copies. Learnt for each direction and power of two of bytes.
 */
#ifndef VCU_STORES_H
#define VCU_STORES_H

#include <stdbool.h>
#include <stdint.h>

/* Of one copy. */
struct vcu_stores {
    uint32_t kind; /* BLK_TO_PIECE, BLK_FROM_PIECE */
    bool to_host, timed;
    uint64_t bytes; /* of the copy */
    uint64_t start_ns;
};

/* Reads VGPU_STREAM_COPIES; once per connection. */
void vcu_stores_init(void);
/* Chooses, and notifies the worker of its part. timed: the caller waits for the copy only. */
struct vcu_stores vcu_stores_plan(bool to_host, uint64_t bytes, bool timed);
/* Called when the copy has ended without an error. */
void vcu_stores_end(const struct vcu_stores *s);
/* True if the next such copy is to be measured. */
bool vcu_stores_unsure(bool to_host, uint64_t bytes);

#endif
