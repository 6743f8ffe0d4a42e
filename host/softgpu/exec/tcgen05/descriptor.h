/* SPDX-License-Identifier: MIT */
/* Descriptors of matrices in shared memory, in the format of tcgen05 (PTX ISA, "Shared memory descriptor"). */
#ifndef SG_TCGEN05_DESCRIPTOR_H
#define SG_TCGEN05_DESCRIPTOR_H

#include "exec/wgmma/descriptor.h"

struct sg_tensor_layout {
    struct sg_matrix_layout m;
    bool wide; /* 128 bytes are swizzled in pieces of 32 bytes */
};

/* False: no such descriptor, or with an absolute leading address, which sm_103 alone has. */
static inline bool sg_matrix_of_tcgen05(uint64_t descriptor, bool mn_major, struct sg_tensor_layout *l)
{
    static const uint8_t swizzles[8] = {0, 3, 3, 255, 2, 255, 1, 255};
    const uint32_t mode = (uint32_t)(descriptor >> 61);

    *l = (struct sg_tensor_layout){.m = {.start = (uint32_t)(descriptor & 0x3fff) << 4,
                                         .leading = (uint32_t)(descriptor >> 16 & 0x3fff) << 4,
                                         .stride = (uint32_t)(descriptor >> 32 & 0x3fff) << 4,
                                         .base = (uint8_t)(descriptor >> 49 & 7),
                                         .swizzle = swizzles[mode],
                                         .mn_major = mn_major},
                                   .wide = mode == 1};
    return l->m.swizzle != 255 && (descriptor >> 46 & 7) == 1 && !(descriptor >> 52 & 1);
}

/* As sg_matrix_offset(). Wide: an atom has 8 rows (K-major), or 4 of the depth (MN-major). */
static inline uint32_t sg_tensor_offset(const struct sg_tensor_layout *l, uint32_t mn, uint32_t k)
{
    const struct sg_matrix_layout *m = &l->m;
    uint32_t at;

    if (!l->wide)
        return sg_matrix_offset(m, mn, k);
    at = m->start;
    if (m->mn_major)
        at += k % 4 * 128 + k / 4 * m->stride + mn % 8 * SG_MATRIX_ROW + mn / 8 * m->leading;
    else
        at += mn % 8 * 128 + mn / 8 * m->stride + k * SG_MATRIX_ROW;
    return at ^ (((at >> 7) - m->base) & 3) << 5;
}

#endif
