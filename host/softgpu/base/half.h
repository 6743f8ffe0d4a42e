/* SPDX-License-Identifier: MIT */
/* f16 and bf16 by integer arithmetic: every rounding mode, independent of MXCSR. */
#ifndef SG_HALF_H
#define SG_HALF_H

#include <stdint.h>
#include <string.h>

/* Flags of operations on halves (struct sg_insn.imm). */
#define SG_H_FTZ 1
#define SG_H_SAT 2  /* clamp to [0, 1], NaN gives 0 */
#define SG_H_RELU 4 /* negative gives 0, NaN stays */
#define SG_H_RZ 8
#define SG_H_RM 16
#define SG_H_RP 32
#define SG_H_SATFINITE 64 /* the largest finite number instead of infinity */
#define SG_H_RNA 128      /* ties away from zero */
#define SG_H_OOB 256      /* of fma: 0 where a or b is the NaN of elements outside a tensor */

static inline float sg_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, e = h >> 10 & 31, m = h & 0x3ffu, u;
    float f;

    if (e == 31) {
        u = sign | 0x7f800000u | m << 13;
    } else if (e) {
        u = sign | (e + 112) << 23 | m << 13;
    } else if (!m) {
        u = sign;
    } else {
        int shift = __builtin_clz(m) - 21;

        u = sign | (uint32_t)(113 - shift) << 23 | (m << shift & 0x3ffu) << 13;
    }
    memcpy(&f, &u, 4);
    return f;
}

static inline float sg_bf16_to_f32(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;

    memcpy(&f, &u, 4);
    return f;
}

/*
 * Rounds sign * m * 2^e (m with up to 64 bits) to a format of ebits and mbits and returns the bits.
 * flags selects the rounding. Handles overflow; the caller handles infinity and NaN.
 */
static inline uint32_t sg_round_to(uint32_t sign, uint64_t m, int e, int ebits, int mbits, int64_t flags)
{
    const int bias = (1 << (ebits - 1)) - 1, emax = (1 << ebits) - 1;
    uint32_t r, up;
    int drop, top;
    uint64_t rest, half;

    if (!m)
        return sign << (ebits + mbits);
    top = 63 - __builtin_clzll(m); /* value is in [2^(e+top), 2^(e+top+1)) */
    drop = top - mbits;
    if (e + top + bias < 1) /* denormal: fewer bits */
        drop = 1 - bias - mbits - e;
    if (drop > 0) {
        rest = drop > 63 ? m : m & ((1ull << drop) - 1);
        half = drop > 64 ? 0 : 1ull << (drop - 1);
        m = drop > 63 ? 0 : m >> drop;
        if (flags & SG_H_RZ)
            up = 0;
        else if (flags & SG_H_RM)
            up = sign && rest;
        else if (flags & SG_H_RP)
            up = !sign && rest;
        else if (drop > 64)
            up = 0;
        else if (flags & SG_H_RNA)
            up = rest >= half;
        else
            up = rest > half || (rest == half && (m & 1));
        m += up;
    } else {
        m <<= -drop;
    }
    if (e + drop + mbits + bias < 1 || m < 1ull << mbits) { /* denormal or became normal */
        r = (uint32_t)m;
    } else {
        int ex = e + drop + mbits + bias;

        if (m >> (mbits + 1)) {
            m >>= 1;
            ex++;
        }
        if (ex >= emax) {
            int max = (flags & (SG_H_RZ | SG_H_SATFINITE)) || ((flags & SG_H_RM) && !sign) ||
                      ((flags & SG_H_RP) && sign);

            r = max ? ((uint32_t)emax << mbits) - 1 : (uint32_t)emax << mbits;
        } else {
            r = (uint32_t)ex << mbits | (uint32_t)(m & ((1ull << mbits) - 1));
        }
    }
    return sign << (ebits + mbits) | r;
}

static inline uint32_t sg_f64_to_small(double d, int ebits, int mbits, uint32_t nan, int64_t flags)
{
    uint64_t u, m;
    uint32_t sign;
    int e;

    memcpy(&u, &d, 8);
    sign = (uint32_t)(u >> 63);
    e = (int)(u >> 52 & 2047);
    m = u & 0xfffffffffffffull;
    if (e == 2047 && m)
        return flags & SG_H_SAT ? 0 : nan;
    if ((flags & SG_H_SAT) && !(d > 0.0))
        return 0;
    if ((flags & SG_H_SAT) && d > 1.0)
        return ((1u << (ebits - 1)) - 1) << mbits;
    if ((flags & SG_H_RELU) && sign)
        return 0;
    if (e == 2047)
        return sign << (ebits + mbits) |
               (((uint32_t)((1 << ebits) - 1) << mbits) - ((flags & SG_H_SATFINITE) ? 1 : 0));
    if (e)
        m |= 1ull << 52;
    else
        e = 1;
    return sg_round_to(sign, m, e - 1075, ebits, mbits, flags);
}

static inline uint16_t sg_f64_to_f16(double d, int64_t flags)
{
    uint32_t r = sg_f64_to_small(d, 5, 10, 0x7fffu, flags);

    if ((flags & SG_H_FTZ) && !(r & 0x7c00u))
        r &= 0x8000u;
    return (uint16_t)r;
}

static inline uint16_t sg_f64_to_bf16(double d, int64_t flags)
{
    return (uint16_t)sg_f64_to_small(d, 8, 7, 0x7fffu, flags);
}

static inline uint16_t sg_f32_to_f16(float f, int64_t flags)
{
    return sg_f64_to_f16((double)f, flags);
}

static inline uint16_t sg_f32_to_bf16(float f, int64_t flags)
{
    return sg_f64_to_bf16((double)f, flags);
}

#endif
