/* SPDX-License-Identifier: MIT */
/* Elements of matrices of floating-point types, from the bits of a register. */
#ifndef SG_EXEC_MMA_ELEMENT_H
#define SG_EXEC_MMA_ELEMENT_H

#include "exec/ops/half_lanes.h"
#include "exec/mma.h"

static inline f32 from_e4m3(u32 v)
{
    const u32 e = v >> 3 & 15, m = v & 7;
    const f64 r = e ? ldexp(1.0 + m / 8.0, (int)e - 7) : ldexp(m / 8.0, -6);

    if ((v & 0x7f) == 0x7f)
        return __builtin_nanf("");
    return (f32)(v & 0x80 ? -r : r);
}

static inline f32 from_six_bits(u32 v, u32 mbits, int bias)
{
    const u32 e = (v & 31) >> mbits, m = v & ((1u << mbits) - 1);
    const f64 r = ldexp((f64)(e ? m | 1u << mbits : m), (int)(e ? e : 1) - bias - (int)mbits);

    return (f32)(v & 32 ? -r : r);
}

/* Element p of a register, for types with several elements per register. */
static inline f32 fragment_element(u32 v, int p, u8 type)
{
    f32 f;

    switch (type) {
    case SG_MMA_F16:
        return sg_f16_to_f32((u16)(v >> (16 * p)));
    case SG_MMA_BF16:
        return sg_bf16_to_f32((u16)(v >> (16 * p)));
    case SG_MMA_E4M3:
        return from_e4m3(v >> (8 * p) & 255);
    case SG_MMA_E5M2:
        return sg_f16_to_f32((u16)((v >> (8 * p) & 255) << 8));
    case SG_MMA_E3M2:
        return from_six_bits(v >> (8 * p), 2, 3);
    case SG_MMA_E2M3:
        return from_six_bits(v >> (8 * p), 3, 1);
    case SG_MMA_E2M1: /* as e2m3 */
        return from_six_bits(v >> (8 * p) & ~3u, 3, 1);
    default: /* tf32: the low bits are ignored */
        v &= 0xffffe000u;
        memcpy(&f, &v, 4);
        return f;
    }
}

#endif
