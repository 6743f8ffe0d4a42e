/* SPDX-License-Identifier: MIT */
/*
 * Matrices in shared memory as the tensor cores read them: where the 16 bytes of a row of a core
 * matrix lie (PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout"). A core matrix has
 * 8 rows of 16 bytes. The formats of descriptors differ between generations; each has a function that
 * makes a struct sg_matrix_layout of one.
 */
#ifndef SG_MATRIX_DESCRIPTOR_H
#define SG_MATRIX_DESCRIPTOR_H

#include <stdbool.h>
#include <stdint.h>

#define SG_MATRIX_ROW 16u       /* bytes that are contiguous in every layout */
#define SG_MATRIX_ATOM_ROW 128u /* aligned bytes in which a swizzle moves rows */

struct sg_matrix_layout {
    uint32_t start, leading, stride; /* bytes; multiples of 16 */
    uint8_t swizzle;                 /* address bits that are swizzled: 0 to 3 (none, 32, 64, 128 bytes) */
    uint8_t base;                    /* bits 7 to 9 of the address at which the pattern begins */
    bool mn_major;                   /* contiguous along M or N, else along K */
};

/* The descriptor of wgmma. Every value is valid; unused bits are ignored. */
static inline struct sg_matrix_layout sg_matrix_of_wgmma(uint64_t descriptor, bool mn_major)
{
    static const uint8_t swizzles[4] = {0, 3, 2, 1};

    return (struct sg_matrix_layout){.start = (uint32_t)(descriptor & 0x3fff) << 4,
                                     .leading = (uint32_t)(descriptor >> 16 & 0x3fff) << 4,
                                     .stride = (uint32_t)(descriptor >> 32 & 0x3fff) << 4,
                                     .base = (uint8_t)(descriptor >> 49 & 7),
                                     .swizzle = swizzles[descriptor >> 62],
                                     .mn_major = mn_major};
}

/* The offset without the swizzle: sg_matrix_offset(). */
static inline uint32_t sg_matrix_linear(const struct sg_matrix_layout *m, uint32_t mn, uint32_t k)
{
    const uint32_t wide = 1u << m->swizzle, across = m->mn_major ? k : mn, along = m->mn_major ? mn : k;
    const uint32_t at = m->start + across % 8 * wide * SG_MATRIX_ROW;

    if (!m->mn_major) /* swizzled rows hold all of the depth; the leading offset has no meaning */
        return at + across / 8 * m->stride + along * (m->swizzle ? SG_MATRIX_ROW : m->leading);
    if (!m->swizzle)
        return at + across / 8 * m->leading + along * m->stride;
    return at + across / 8 * m->stride + along % wide * SG_MATRIX_ROW + along / wide * m->leading;
}

static inline uint32_t sg_matrix_swizzled(const struct sg_matrix_layout *m, uint32_t at)
{
    return at ^ (((at >> 7) - m->base) & ((1u << m->swizzle) - 1)) << 4;
}

/*
 * Offset in shared memory, a multiple of 16, of 16 bytes of a matrix. K-major: of row (column of b) mn,
 * k counts rows of core matrices. MN-major: k is the depth, mn counts rows of core matrices. mn below
 * 256 and k below 64 stay below the 16 MiB of the window of a block: the offset is not checked here.
 */
static inline uint32_t sg_matrix_offset(const struct sg_matrix_layout *m, uint32_t mn, uint32_t k)
{
    return sg_matrix_swizzled(m, sg_matrix_linear(m, mn, k));
}

#endif
