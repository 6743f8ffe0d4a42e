/* SPDX-License-Identifier: MIT */
/*
 * The bounds check of kernels' memory accesses. Every instruction that reads or writes memory asks one of
 * these functions, on each path: the interpreter's loops over lanes, the lane by lane path, native code
 * (whose emitted instructions compute sg_native_has()), and what kernels have the runtime do for them.
 *
 * All are free of overflow for any address and any size, because both come from registers of a kernel.
 * memory/bounds_test.c states what each guarantees and has a model checker prove it.
 *
 * What the callers promise: [base, base + len) does not wrap, and spans are shorter than half of the
 * address space. Neither depends on a kernel.
 */
#ifndef SG_MEMORY_BOUNDS_H
#define SG_MEMORY_BOUNDS_H

#include <stdbool.h>
#include <stdint.h>

/* True if [addr, addr + size) is inside [base, base + len). An address below base becomes a distance
 * above len. */
static inline bool sg_span_has(uint64_t base, uint64_t len, uint64_t addr, uint64_t size)
{
    const uint64_t off = addr - base;

    return off <= len && size <= len - off;
}

/* The same for an offset into a memory of so many bytes. */
static inline bool sg_bytes_have(uint64_t bytes, uint64_t off, uint64_t size)
{
    return sg_span_has(0, bytes, off, size);
}

/*
 * The form for loops over lanes: bit 63 is set when ad is not in [base, last]. last is where an access of
 * the loop's size may begin at the latest, and not below base; results of several lanes are combined by or.
 */
static inline uint64_t sg_lane_bad64(uint64_t ad, uint64_t base, uint64_t last)
{
    return (ad - base) | (last - ad);
}

/* The same for offsets from 0 on into less than 2 GiB: bit 31. */
static inline uint32_t sg_lane_bad32(uint32_t ad, uint32_t last)
{
    return ad | (last - ad);
}

/*
 * What the emitted instructions of native code compute for one lane (range_of() and its callers in
 * jit/memory_ops.c): may bytes [ad + low, ad + high) of [base, end) be touched? align is a power of two;
 * the compared value is rotated, so that a remainder becomes a great number.
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
