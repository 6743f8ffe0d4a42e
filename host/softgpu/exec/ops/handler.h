/* SPDX-License-Identifier: MIT */
/*
 * Conventions for handlers. A handler file is compiled once per instruction set (SG_ISA is base,
 * avx2 or avx512) and exports one table. Each handler has a loop over 32 lanes that the compiler
 * vectorises, once for all lanes and once with a blend. The rows of its .def file give the
 * operations: a row with an expression is also the handler, others name one of the source.
 */
#ifndef SG_EXEC_OP_H
#define SG_EXEC_OP_H

#include "exec/core.h"

#include <math.h>
#include <string.h>

#ifndef SG_ISA
#define SG_ISA base
#endif
#define SG_CAT2(a, b) a##_##b
#define SG_CAT1(a, b) SG_CAT2(a, b)
#define SG_TABLE(x) SG_CAT1(sg_ops_##x, SG_ISA)

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef float f32;
typedef double f64;

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#if defined(__clang__)
#define SG_VECTOR _Pragma("clang loop vectorize(assume_safety)")
#else
#define SG_VECTOR _Pragma("GCC ivdep")
#endif
#define LANES SG_VECTOR for (int i = 0; i < SG_LANES; i++)

static const u32 sg_bit32[SG_LANES] = {1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,
                                       1u << 7,  1u << 8,  1u << 9,  1u << 10, 1u << 11, 1u << 12, 1u << 13,
                                       1u << 14, 1u << 15, 1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20,
                                       1u << 21, 1u << 22, 1u << 23, 1u << 24, 1u << 25, 1u << 26, 1u << 27,
                                       1u << 28, 1u << 29, 1u << 30, 1u << 31};
static const u64 sg_bit64[SG_LANES] = {1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,
                                       1u << 7,  1u << 8,  1u << 9,  1u << 10, 1u << 11, 1u << 12, 1u << 13,
                                       1u << 14, 1u << 15, 1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20,
                                       1u << 21, 1u << 22, 1u << 23, 1u << 24, 1u << 25, 1u << 26, 1u << 27,
                                       1u << 28, 1u << 29, 1u << 30, 1u << 31};

#define LANE_ON(T, m, i) (sizeof(T) == 8 ? ((u64)(m)&sg_bit64[i]) != 0 : ((m)&sg_bit32[i]) != 0)

static inline void *sg_src_ptr(const struct sg_warp *w, u32 op)
{
    return w->base[op >> 31] + (op & 0x7fffffffu);
}
#define DST(T, f) ((T *)(void *)(w->base[0] + in->f))
#define SRC(T, f) ((const T *)sg_src_ptr(w, in->f))
#define PREDV(f) (*(const u32 *)sg_src_ptr(w, in->f))

#define HANDLER(name) static int h_##name(struct sg_warp *w, const struct sg_insn *in)

/* Stores value e (in terms of i) to all writable lanes of d. */
#define STORE(TD, e) \
    do { \
        TD *d_ = DST(TD, d); \
        const u32 m_ = w->wmask; \
        if (LIKELY(m_ == SG_FULL)) { \
            LANES d_[i] = (TD)(e); \
        } else { \
            LANES \
            { \
                const TD r_ = (TD)(e); \
                d_[i] = LANE_ON(TD, m_, i) ? r_ : d_[i]; \
            } \
        } \
    } while (0)

extern const uint64_t sg_without_sign; /* 0x7fffffff, which a compiler must not know (sg_op_float.c) */

#define OP1(id, name, native, TD, TA, e) \
    HANDLER(id) \
    { \
        const TA *pa_ = SRC(TA, a); \
        STORE(TD, ({ \
                  const TA a = pa_[i]; \
                  (e); \
              })); \
        return SG_NEXT; \
    }
#define OP2(id, name, native, TD, TA, TB, e) \
    HANDLER(id) \
    { \
        const TA *pa_ = SRC(TA, a); \
        const TB *pb_ = SRC(TB, b); \
        STORE(TD, ({ \
                  const TA a = pa_[i]; \
                  const TB b = pb_[i]; \
                  (e); \
              })); \
        return SG_NEXT; \
    }
#define OP3(id, name, native, TD, TA, TB, TC, e) \
    HANDLER(id) \
    { \
        const TA *pa_ = SRC(TA, a); \
        const TB *pb_ = SRC(TB, b); \
        const TC *pc_ = SRC(TC, c); \
        STORE(TD, ({ \
                  const TA a = pa_[i]; \
                  const TB b = pb_[i]; \
                  const TC c = pc_[i]; \
                  (e); \
              })); \
        return SG_NEXT; \
    }

/* Stores the result of a comparison: one bit per lane. */
static inline void sg_set_pred(struct sg_warp *w, u32 off, u32 v)
{
    u32 *p = (u32 *)(void *)(w->base[0] + off);

    *p = (*p & ~w->wmask) | (v & w->wmask);
}
#define CMP(id, name, native, TA, e) \
    HANDLER(id) \
    { \
        const TA *pa_ = SRC(TA, a); \
        const TA *pb_ = SRC(TA, b); \
        u32 r_ = 0; \
        SG_VECTOR for (int i = 0; i < SG_LANES; i++) \
        { \
            const TA a = pa_[i], b = pb_[i]; \
            r_ |= (e) ? sg_bit32[i] : 0; \
        } \
        sg_set_pred(w, in->d, r_); \
        return SG_NEXT; \
    }

/* A .def file is included for its handlers first; these are in the source. Then rows.h. */
#define ROW(...)
#define ROWE(...)
#define ROWR(...)
#define ROWF(...)
#define OP1_CLEAN OP1
#define OP2_CLEAN OP2

#endif
