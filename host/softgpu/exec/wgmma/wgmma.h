/* SPDX-License-Identifier: MIT */
/* wgmma.mma_async: the forms, as the decoder passes them to the handler and the verifier checks them. */
#ifndef SG_WGMMA_H
#define SG_WGMMA_H

#include "exec/mma.h"

#include <stdbool.h>

/*
 * in->aux: types of a, b (enum sg_mma_type) and d ('f', 'h' or 'i' as 0, 1, 2), N / 8, flags.
 * Fields: d, the scale of d; a, the descriptor of b; b, that of a if a is in shared memory; c, the
 * metadata of a sparse a. Lists of registers in the "ext" behind: a, if it is in registers; d as it is
 * read, and as it is written.
 */
#define SG_WGMMA_AUX(a, b, d, n) \
    ((uint32_t)(a) | (uint32_t)(b) << 4 | (uint32_t)(d) << 8 | (uint32_t)(n) / 8 << 10)
#define SG_WGMMA_A_REGISTERS 0x10000u
#define SG_WGMMA_A_MN_MAJOR 0x20000u
#define SG_WGMMA_B_MN_MAJOR 0x40000u
#define SG_WGMMA_NEGATE_A 0x80000u
#define SG_WGMMA_NEGATE_B 0x100000u
#define SG_WGMMA_SPARSE 0x200000u
#define SG_WGMMA_SELECTOR 0x400000u
#define SG_WGMMA_SATURATE 0x800000u
#define SG_WGMMA_REPEATED 0x1000000u /* a register of d stands twice: all are read before any is written */
#define SG_WGMMA_FLAGS 0x1ff0000u

#define SG_WGMMA_A_REGS 4u       /* registers of a, 32 bytes of each row */
#define SG_WGMMA_MAX_REGS 128u   /* of d */
#define SG_WGMMA_MAX_WORDS_K 16u /* 32-bit words of the depth of b */

struct sg_wgmma {
    uint8_t a, b; /* enum sg_mma_type */
    uint8_t d;    /* 'f': f32, 'h': f16, 'i': s32 */
    uint32_t n;   /* columns: 8 to 256 */
    uint32_t nd;  /* registers of d per lane */
};

/* Bits of an element. */
static inline uint32_t sg_wgmma_bits(uint8_t type)
{
    return type == SG_MMA_B1                           ? 1
           : type == SG_MMA_TF32                       ? 32
           : type == SG_MMA_F16 || type == SG_MMA_BF16 ? 16
                                                       : 8;
}

static inline bool sg_wgmma_types_fit(uint8_t a, uint8_t b, uint8_t d)
{
    switch (a) {
    case SG_MMA_F16:
        return b == a && d != 'i';
    case SG_MMA_BF16:
    case SG_MMA_TF32:
        return b == a && d == 'f';
    case SG_MMA_E4M3:
    case SG_MMA_E5M2:
        return (b == SG_MMA_E4M3 || b == SG_MMA_E5M2) && d != 'i';
    case SG_MMA_S8:
    case SG_MMA_U8:
        return (b == SG_MMA_S8 || b == SG_MMA_U8) && d == 'i';
    case SG_MMA_B1:
        return b == a && d == 'i';
    default:
        return false;
    }
}

/* The columns that there are: of integers not every multiple of 8. */
static inline bool sg_wgmma_columns_fit(uint8_t d, uint32_t n)
{
    return n >= 8 && n <= 256 && n % 8 == 0 && (d != 'i' || n % 16 == 0 || n == 8 || n == 24);
}

/* False: no such form. */
static inline bool sg_wgmma_of(uint32_t aux, struct sg_wgmma *f)
{
    const bool half = sg_wgmma_bits(aux & 15) == 16;

    *f = (struct sg_wgmma){.a = aux & 15, .b = aux >> 4 & 15, .d = (uint8_t) "fhi?"[aux >> 8 & 3]};
    f->n = (aux >> 10 & 63) * 8;
    f->nd = f->d == 'h' ? f->n / 4 : f->n / 2;
    return !(aux & ~(SG_WGMMA_FLAGS | 0xffffu)) && f->d != '?' && sg_wgmma_types_fit(f->a, f->b, f->d) &&
           sg_wgmma_columns_fit(f->d, f->n) &&
           (half || !(aux & (SG_WGMMA_A_MN_MAJOR | SG_WGMMA_B_MN_MAJOR))) &&
           (f->d != 'i' || !(aux & (SG_WGMMA_NEGATE_A | SG_WGMMA_NEGATE_B))) &&
           ((f->d == 'i' && f->a != SG_MMA_B1) || !(aux & SG_WGMMA_SATURATE)) &&
           (f->a != SG_MMA_B1 || !(aux & SG_WGMMA_SPARSE)) &&
           ((aux & SG_WGMMA_SPARSE && sg_wgmma_bits(f->a) >= 16) || !(aux & SG_WGMMA_SELECTOR));
}

#endif
