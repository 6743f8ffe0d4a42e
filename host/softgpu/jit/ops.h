/* SPDX-License-Identifier: MIT */
/* Shared by the emitters of native operations; for sg_jit_ops*.c. */
#ifndef SG_JIT_OPS_H
#define SG_JIT_OPS_H

#include "jit/natives.h"
#include "jit/state.h"

/* arg: opcode, prefix << 8, map << 10, W << 12, 64-bit operands << 13. */
#define ARG(map, pp, w, op) ((u32)(op) | (u32)(pp) << 8 | (u32)(map) << 10 | (u32)(w) << 12)
#define WIDE (1u << 13)
#define IMM(x) ((u32)(x) << 16) /* an immediate byte after the instruction */
/* same result in every rounding and denormal mode except rz, rm, rp */
#define NO_MODE 0x80000000u
/*
 * MODAL: produces the handler's results under any MXCSR. FIXED: also with the rounding of jit.round
 * instead of MXCSR's, or does not round; never refuses.
 */
#define MODAL 0x40000000u
#define FIXED (MODAL | 0x20000000u)
#define ARG_MASK 0x1fffffffu

/*
 * Defines the native code `name`, which is in jit/natives.def: an emitter and its argument. NATIVE_MODELESS: with
 * neither MODAL nor NO_MODE it does not read MXCSR. NATIVE_LOAD: a load of global memory. NATIVE_AVX512: rows name it as avx512(name).
 */
#define NATIVE(name, emit, arg) const struct jop sg_native_##name = {emit, arg, false, false, false}
#define NATIVE_MODELESS(name, emit, arg) \
    const struct jop sg_native_##name = {emit, arg, !((arg) & (MODAL | NO_MODE)), false, false}
#define NATIVE_LOAD(name, arg) \
    const struct jop sg_native_##name = {sg_jit_load_global, arg, false, false, true}
#define NATIVE_AVX512(name, emit, arg) \
    const struct jop sg_native_avx512_##name = {emit, arg, false, true, false}

static inline struct vop sg_vop_of(u32 arg)
{
    return (struct vop){(u8)(arg >> 10 & 3), (u8)(arg >> 8 & 3), (u8)(arg >> 12 & 1), (u8)arg};
}

/* Broadcasts an immediate to every lane of v. */
static inline void sg_jit_broadcast(struct jit *j, u32 v, u32 value)
{
    mov_imm64(B(j), RAX, value);
    ev(B(j), (struct vop){M38, P66, 0, 0x7c}, v, 0, RAX, 0, 0);
}

/* Makes the result of a 64-bit addition a sum (jit/memory/sums.h). Returns false, with nothing
   emitted, if that does not help. */
bool sg_jit_add_sum(struct jit *j, const struct sg_insn *in);

/*
 * True if the three instructions behind in, a load of two f32, convert them to a pair of halves, the first one the lower, and
 * nothing else reads them or the single halves; in code for all lanes.
 */
bool sg_jit_halves_follow(const struct jit *j, const struct sg_insn *in);
/* The pairs of such a load: its lanes in a row from [RAX + disp] on, to the registers d, a chunk each. Clobbers registers 0 to 3,
   RAX, masks 1 to 6. */
void sg_jit_halves_load(struct jit *j, const u32 *d, s32 disp);
/* The same from chunks of f32: high halves, which get the pairs, and low ones. */
void sg_jit_halves(struct jit *j, const u32 *high, const u32 *low);

static inline void sg_jit_finish(struct jit *j, const struct sg_insn *in, u32 h, u32 hs, u32 rd)
{
    sg_jv_kill(j, in, hs);
    sg_jv_bind(j, in->d, h, rd);
    sg_jv_unpin(j);
}

#endif
