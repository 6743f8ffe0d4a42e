/* SPDX-License-Identifier: MIT */
/* Constants of sin and cos, shared by the handlers (exec/ops/sg_op_float.c) and native code
   (jit/sg_jit_ops_approx.c). */
#ifndef SG_BASE_TRIG_H
#define SG_BASE_TRIG_H

#define SG_TRIG_END 0x49800000u /* 2^20 as bits of f32: libm is called for arguments from here on */
#define SG_TRIG_PER_QUARTER 0x1.45f306dc9c883p-1
/* pi / 2, split into its first 33 bits, so that integer multiples are exact, and the remainder */
#define SG_TRIG_QUARTER 0x1.921fb544p0
#define SG_TRIG_REST 0x1.0b4611a626331p-34
/* Taylor series up to pi / 4; the truncation error is below 2^-32 */
#define SG_TRIG_S3 (-1.0 / 6)
#define SG_TRIG_S5 (1.0 / 120)
#define SG_TRIG_S7 (-1.0 / 5040)
#define SG_TRIG_S9 (1.0 / 362880)
#define SG_TRIG_S11 (-1.0 / 39916800)
#define SG_TRIG_C2 (-1.0 / 2)
#define SG_TRIG_C4 (1.0 / 24)
#define SG_TRIG_C6 (-1.0 / 720)
#define SG_TRIG_C8 (1.0 / 40320)
#define SG_TRIG_C10 (-1.0 / 3628800)

#endif
