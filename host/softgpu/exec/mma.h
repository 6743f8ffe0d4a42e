/* SPDX-License-Identifier: MIT */
/* mma.sync: the supported shapes and types, as the decoder passes them to the handler. */
#ifndef SG_MMA_H
#define SG_MMA_H

#include <stdint.h>

enum sg_mma_type {
    SG_MMA_F16,
    SG_MMA_BF16,
    SG_MMA_TF32,
    SG_MMA_S8,
    SG_MMA_U8,
    SG_MMA_F64,
    SG_MMA_E4M3,
    SG_MMA_E5M2,
    SG_MMA_E3M2, /* this and below: in the lower 6 bits of a byte, of E2M1 without the lowest two */
    SG_MMA_E2M3,
    SG_MMA_E2M1,
    SG_MMA_S4, /* this and below: 4 bits, eight to a register */
    SG_MMA_U4,
    SG_MMA_E2M1_PACKED,
    SG_MMA_B1
};

/* A form; rows of a table in exec/sg_types.c. na, nb, nc: registers per lane of a, b, and
   of c and d. */
struct sg_mma_form {
    const char *shape;
    uint8_t a, b; /* enum sg_mma_type */
    uint8_t c;    /* 'f': f32, 'h': f16, 'i': s32, 'd': f64 */
    uint8_t m, k; /* number of rows, depth; n is always 8 */
    uint8_t na, nb, nc;
};
extern const struct sg_mma_form sg_mma_forms[];

/*
 * wmma: the fragment layout is implementation-defined. A matrix of rows x cols elements is
 * distributed row by row, (rows * cols / 32) elements to a lane, repeated if the registers have
 * more room (f16 a and b).
 */
struct sg_wmma {
    uint32_t rows, cols; /* size of this matrix */
    uint32_t nregs;      /* registers per lane: 1, 2, 4 or 8 */
    uint8_t type;        /* enum sg_mma_type, or 'f', 'h', 'i' for c and d */
};
/* Packed into in->aux: shape (0 m16n16k16, 1 m32n8k16, 2 m8n32k16, 3 m16n16k8), matrix 'a' 'b' 'c',
 * type, column-major, address space. */
#define SG_WMMA_AUX(shape, which, type, col, space) \
    ((uint32_t)(shape) | (uint32_t)((which) - 'a') << 4 | (uint32_t)(type) << 8 | (uint32_t)(col) << 16 | \
     (uint32_t)(space) << 20)
#define SG_WMMA_SHAPE(aux) ((aux)&15)
#define SG_WMMA_WHICH(aux) ((char)('a' + ((aux) >> 4 & 15)))
#define SG_WMMA_TYPE(aux) ((uint8_t)((aux) >> 8))
#define SG_WMMA_COL(aux) ((aux) >> 16 & 1)
#define SG_WMMA_SPACE(aux) ((aux) >> 20 & 7)

static inline uint32_t sg_wmma_bytes(uint8_t type)
{
    return type == SG_MMA_S8 || type == SG_MMA_U8                     ? 1
           : type == SG_MMA_F16 || type == SG_MMA_BF16 || type == 'h' ? 2
                                                                      : 4;
}

static inline struct sg_wmma sg_wmma_of(uint32_t shape, char which, uint8_t type)
{
    static const uint8_t m[] = {16, 32, 8, 16}, n[] = {16, 8, 32, 16}, k[] = {16, 16, 16, 8};
    struct sg_wmma x = {
        .rows = which == 'b' ? k[shape] : m[shape], .cols = which == 'a' ? k[shape] : n[shape], .type = type};

    x.nregs = type == SG_MMA_F16 ? 8 : x.rows * x.cols / 32 * sg_wmma_bytes(type) / 4;
    return x;
}

/* in->aux: index of the form; in->imm: 1: saturate (s32). The registers of a are in d a b c of
   the instruction; three "ext" instructions follow, with those of b, c and d in the same fields. */

/*
 * A form of mma.wide: products of a sparse a, and products with scales; rows of a table in exec/sg_types.c. m is 16, n 8.
 * Of a sparse a the registers hold the half that is not zero.
 */
struct sg_mma_wide {
    const char *shape;
    uint8_t a, b; /* enum sg_mma_type */
    uint8_t c;    /* 'f': f32, 'h': f16, 'i': s32 */
    uint8_t k, na, nb, nc;
    uint8_t lanes; /* of four lanes, the number whose metadata count: 1, 2, 4; 0: a is not sparse */
};
extern const struct sg_mma_wide sg_mma_wide_forms[];
const struct sg_mma_wide *sg_mma_wide_of(uint32_t aux); /* NULL: no such form */

/* in->aux: index of the form, sparsity selector, number of scales of a row (0: none), their type; in->imm: 1: saturate.
   Lists of registers: a, b, c, the metadata of a sparse a, scale, byte and lane selector of a and of b, d. */
#define SG_WIDE_AUX(form, selector, scales, ue4m3) \
    ((uint32_t)(form) | (uint32_t)(selector) << 8 | (uint32_t)(scales) << 10 | (uint32_t)(ue4m3) << 13)
#define SG_WIDE_SELECTOR(aux) ((aux) >> 8 & 3)
#define SG_WIDE_SCALES(aux) ((aux) >> 10 & 7)
#define SG_WIDE_UE4M3(aux) ((aux) >> 13 & 1)

/* Lists of registers of an mma, four to an instruction, by the rule of its row; the last list is written.
   Sets the number of registers of each list and returns the number of lists; 0: no such form. */
#define SG_MMA_LISTS 7
struct sg_opdef;
uint32_t sg_mma_lists(const struct sg_opdef *row, uint32_t aux, uint32_t n[SG_MMA_LISTS]);

/* aux of mma.sub: elements of 4 bits, or of 1 bit combined by and or by xor. */
#define SG_SUB_TALL 1u /* 16 rows, else 8 */
#define SG_SUB_DEEP 2u /* two registers of depth, else one */
#define SG_SUB_B1 4u
#define SG_SUB_XOR 8u
#define SG_SUB_A_SIGNED 16u
#define SG_SUB_B_SIGNED 32u

#endif
