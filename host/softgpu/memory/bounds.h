/* SPDX-License-Identifier: MIT */
/*
 * The bounds check of kernels' memory accesses. Every instruction that reads or writes memory calls
 * one of these functions, on each path: the interpreter's loops over lanes, the lane-by-lane path,
 * native code (whose emitted instructions compute sg_native_has()), and runtime services called by
 * kernels.
 *
 * No function overflows for any address or size; both come from registers of a kernel.
 * memory/bounds_test.c states what each function guarantees and has a model checker prove it.
 *
 * Callers guarantee that [base, base + len) does not wrap and that spans are shorter than half of
 * the address space. Neither depends on a kernel.
 */
#ifndef SG_MEMORY_BOUNDS_H
#define SG_MEMORY_BOUNDS_H

#include <stdbool.h>
#include <stdint.h>

/* True if [addr, addr + size) is inside [base, base + len). For addr below base the difference
   wraps to a distance above len. */
static inline bool sg_span_has(uint64_t base, uint64_t len, uint64_t addr, uint64_t size)
{
    const uint64_t off = addr - base;

    return off <= len && size <= len - off;
}

/* The same for an offset into a memory of `bytes` bytes. */
static inline bool sg_bytes_have(uint64_t bytes, uint64_t off, uint64_t size)
{
    return sg_span_has(0, bytes, off, size);
}

/*
 * The form for loops over lanes: bit 63 is set if ad is not in [base, last]. last is the highest
 * valid start address of an access of the loop's size, and not below base. The results of several
 * lanes are combined with or.
 */
static inline uint64_t sg_lane_bad64(uint64_t ad, uint64_t base, uint64_t last)
{
    return (ad - base) | (last - ad);
}

/* The same for offsets from 0 into less than 2 GiB: bit 31 is set. */
static inline uint32_t sg_lane_bad32(uint32_t ad, uint32_t last)
{
    return ad | (last - ad);
}

/*
 * Computed by the emitted instructions of native code for one lane (range_of() and its callers in
 * jit/memory/sg_jit_memory_ops.c): are bytes [ad + low, ad + high) inside [base, end)? align is a power of two;
 * the compared value is rotated, so that a misaligned address becomes a large number.
 */
static inline bool sg_native_has(uint64_t base, uint64_t end, int64_t low, int64_t high, uint32_t align,
                                 uint64_t ad)
{
    const uint32_t k = (uint32_t)__builtin_ctz(align);
    uint64_t room = end - base, off;

    if (room < (uint64_t)(high - low))
        return false;
    room = (room - (uint64_t)(high - low)) >> k;
    off = ad - (base - (uint64_t)low);
    off = k ? off >> k | off << (64 - k) : off;
    return off <= room;
}

#endif
