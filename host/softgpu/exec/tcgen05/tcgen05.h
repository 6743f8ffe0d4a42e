/* SPDX-License-Identifier: MIT */
/* tcgen05: the forms, as the decoder passes them to the handlers and the verifier checks them. */
#ifndef SG_TCGEN05_H
#define SG_TCGEN05_H

#include <stdbool.h>
#include <stdint.h>

/* Tensor memory of a block: lanes of columns of 32 bits. Addresses: column, and the lane from bit 16 on. */
#define SG_TENSOR_LANES 128u
#define SG_TENSOR_COLUMNS 512u
#define SG_TENSOR_UNIT 32u /* columns that are allocated together */
#define SG_TENSOR_BYTES (SG_TENSOR_LANES * SG_TENSOR_COLUMNS * 4)

/* imm of ld and st: shape, logarithm of .num, packing, the second half's columns behind the first */
enum sg_tensor_shape {
    SG_TS_32X32B,
    SG_TS_16X64B,
    SG_TS_16X128B,
    SG_TS_16X256B,
    SG_TS_16X32BX2,
    SG_TS_COUNT
};
#define SG_TENSOR_MOVE(shape, log, pack, half) \
    ((int64_t)(shape) | (int64_t)(log) << 3 | (int64_t)(pack) << 6 | (int64_t)((half)&0xffffu) << 8)
#define SG_TENSOR_SHAPE(imm) ((uint32_t)(imm)&7u)
#define SG_TENSOR_LOG(imm) ((uint32_t)(imm) >> 3 & 7u)
#define SG_TENSOR_PACKED(imm) ((uint32_t)(imm) >> 6 & 1u)
#define SG_TENSOR_HALF(imm) ((uint32_t)(imm) >> 8 & 0xffffu)

/* Registers of a thread; 0: no such form. */
static inline uint32_t sg_tensor_move_registers(int64_t imm)
{
    static const uint8_t each[] = {1, 1, 2, 4, 1};
    const uint32_t n =
        SG_TENSOR_SHAPE(imm) < SG_TS_COUNT ? each[SG_TENSOR_SHAPE(imm)] << SG_TENSOR_LOG(imm) : 0;

    return n > 128 || imm >> 24 ? 0 : n;
}

/* imm of cp: the shape, then the size of elements in shared memory, if they are unpacked to 8 bits */
enum sg_tensor_cp {
    SG_TC_128X256B,
    SG_TC_4X256B,
    SG_TC_128X128B,
    SG_TC_64X128B_02_13,
    SG_TC_64X128B_01_23,
    SG_TC_32X128B,
    SG_TC_COUNT
};
#define SG_TC_SHAPE(imm) ((uint32_t)(imm)&7u)
#define SG_TC_4BIT 8
#define SG_TC_6BIT 16

static inline bool sg_tensor_cp_fits(int64_t imm)
{
    return SG_TC_SHAPE(imm) < SG_TC_COUNT && !(imm & ~(int64_t)31) && (imm & 24) != 24;
}

/*
 * mma. Fields: d, the address of d; a, that of a or its descriptor; b, the descriptor of b; c, the descriptor of
 * the instruction; e, whether d is added to. aux: kind, flags, exponent that d is scaled down by. The lanes of
 * tensor memory that keep their d are in an "ext" behind.
 */
enum sg_tensor_kind { SG_TK_F16, SG_TK_TF32, SG_TK_F8F6F4, SG_TK_I8, SG_TK_COUNT };
#define SG_TENSOR_KIND(aux) ((aux)&7u)
#define SG_TENSOR_A 8u     /* a is in tensor memory */
#define SG_TENSOR_KEEP 16u /* some lanes keep their d */
#define SG_TENSOR_SCALE(aux) ((aux) >> 5 & 15u)

static inline bool sg_tensor_product_fits(uint32_t aux)
{
    return SG_TENSOR_KIND(aux) < SG_TK_COUNT && !(aux >> 9) &&
           (!SG_TENSOR_SCALE(aux) || SG_TENSOR_KIND(aux) <= SG_TK_TF32);
}

/* The product that an instruction's descriptor describes. */
struct sg_tensor_product {
    uint32_t m, n;
    uint8_t a, b;    /* enum sg_mma_type */
    uint8_t d;       /* 'f': f32, 'h': f16, 'i': s32 */
    bool mn_a, mn_b; /* contiguous along M or N */
    bool negate_a, negate_b, saturate;
};

#endif
