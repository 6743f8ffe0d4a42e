/* SPDX-License-Identifier: MIT */
/*
 * Which stores a staged copy uses: ordinary ones, or those past the caches (lib/bulk), for the pieces of the staging area,
 * which libcuda fills on the way to the device and the worker on the way back, and for the destination of large copies.
 * Learnt for each direction and power of two of bytes.
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
/* Decides, and tells the worker its part. timed: the caller waits for the copy, and for nothing else. */
struct vcu_stores vcu_stores_plan(bool to_host, uint64_t bytes, bool timed);
/* The copy has ended without an error. */
void vcu_stores_end(const struct vcu_stores *s);
/* Is the next copy like this wanted as a measurement? */
bool vcu_stores_unsure(bool to_host, uint64_t bytes);

#endif
