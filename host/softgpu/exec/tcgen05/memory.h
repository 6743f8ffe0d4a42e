/* SPDX-License-Identifier: MIT */
/* Tensor memory of a block, for its handlers: what is allocated, and where a matrix lies. */
#ifndef SG_TCGEN05_MEMORY_H
#define SG_TCGEN05_MEMORY_H

#include "exec/code.h"
#include "exec/ops/handler.h"
#include "exec/tcgen05/descriptor.h"
#include "exec/tcgen05/tcgen05.h"

#define TENSOR_COLUMN(at) ((at)&0xffffu)
#define TENSOR_LANE(at) ((at) >> 16)

/* Word of a lane and column, which tensor_has() has checked. */
static inline u32 *tensor_word(const struct sg_cta *c, u32 lane, u32 column)
{
    return c->tensor + lane * SG_TENSOR_COLUMNS + column;
}

/* True if the block has allocated these columns. */
static inline bool tensor_has(const struct sg_cta *c, u32 column, u32 n)
{
    u32 units;

    if (!n || column >= SG_TENSOR_COLUMNS || n > SG_TENSOR_COLUMNS - column)
        return false;
    units = (2u << (column + n - 1) / SG_TENSOR_UNIT) - (1u << column / SG_TENSOR_UNIT);
    return (c->tensor_used & units) == units;
}

static inline int tensor_fault(struct sg_warp *w, const struct sg_insn *in, u32 lane)
{
    return sg_fault_set(w, in, lane, SG_ERR_ADDRESS, "tensor memory that the block has not allocated");
}

/* 16 bytes of a matrix in shared memory; NULL after a fault. */
static inline const u8 *tensor_shared(struct sg_warp *w, const struct sg_insn *in, u32 lane, u32 at)
{
    if (UNLIKELY(!sg_bytes_have(w->cta->shared_bytes, at, SG_MATRIX_ROW))) {
        sg_fault_addr(w, in, lane, SG_ERR_ADDRESS, SG_SP_SHARED, at, SG_MATRIX_ROW, false);
        return NULL;
    }
    return w->cta->shared + at;
}

/* Elements of 4 or 6 bits in 16 bytes, whose end is padding, to bytes: as ldmatrix does, e2m1 in bits 2 to 5. */
static inline void tensor_unpack(const u8 *from, u32 bits, u8 *to)
{
    u64 words[2];

    memcpy(words, from, sizeof(words));
    for (u32 i = 0; i < 16; i++) {
        const u32 at = i * bits, low = at % 64;
        u64 v = words[at / 64] >> low;

        if (low + bits > 64)
            v |= words[1] << (64 - low);
        to[i] = (u8)(bits == 4 ? (v & 15) << 2 : v & 63);
    }
}

#endif
