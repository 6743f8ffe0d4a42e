/* SPDX-License-Identifier: MIT */
/*
 * Memory of a pool that the program has freed in a stream and that the worker has not heard of yet. An allocation of the same size
 * from the same pool in the same stream gets it back: in the order of that stream the memory is free, whatever still
 * runs in it. So a program that allocates and frees its temporary buffers around each kernel makes no round trip for them.
 *
 * The frees are sent before anything could tell the difference: before each record that does not only put work into a stream
 * (attributes of pools, other allocations, captures, ends of streams and contexts), and when more than VCU_PARKED_MAX
 * blocks or VCU_PARKED_BYTES wait. A wait makes a pool give memory back to the device, down to its release threshold (CUDA Driver API,
 * CU_MEMPOOL_ATTR_RELEASE_THRESHOLD): frees of a pool that keeps all (UINT64_MAX) outlast waits and queries, the others are sent
 * before them, and while one of these waits, no wait is answered ahead of the worker (wait.h). Not parked are memory of per-thread
 * default streams and of imported pools, anything while a stream captures, and anything with VGPU_PARK_FREES=0.
 */
#ifndef VCU_PARKED_H
#define VCU_PARKED_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define VCU_PARKED_MAX 32
#define VCU_PARKED_BYTES (UINT64_C(64) << 20)

/* How many wait; how many of them are to be sent before a wait. */
extern _Atomic unsigned vcu_parked, vcu_parked_loose;
/* Allocations that got parked memory; for VGPU_STATS. */
extern _Atomic uint64_t vcu_parked_reused;

/* Keeps memory of `size` bytes that was freed in `stream`, in place of sending that. pool: its handle. False: send it. */
bool vcu_parked_put(CUdeviceptr address, uint64_t size, uint64_t pool, CUstream stream);
/* Memory for an allocation; 0: there is none. */
CUdeviceptr vcu_parked_take(uint64_t size, uint64_t pool, CUstream stream);
/* The pool keeps all its memory when work is waited for, or not: its release threshold. Before that no pool does. */
void vcu_parked_pool(uint64_t pool, bool keeps);
/* Sends what waits. */
void vcu_parked_send(void);

/* Reads VGPU_PARK_FREES; once, when the library is loaded. */
void vcu_parked_init(void);

#endif
