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

#endif
