/* SPDX-License-Identifier: MIT */
/*
 * An encoder for x86-64 instructions (Intel SDM volume 2: EVEX 2.7, VEX 2.3). Vector registers are
 * 0 to 31, general registers RAX to R15, mask registers 0 to 7. For the files of this folder.
 * Instructions with vectors or masks are for AVX-512; with buf.avx2 they are lowered to AVX2
 * (jit/avx2/avx2.h).
 */
#ifndef SG_JIT_X86_H
#define SG_JIT_X86_H

#include "base/grow.h"
#include "exec/bytecode.h"
#include "jit/jit.h"

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 };
enum { M0F = 1, M38 = 2, M3A = 3 };
enum { PNONE = 0, P66 = 1, PF3 = 2, PF2 = 3 };
enum { JB = 2, JAE = 3, JE = 4, JNE = 5, JLE = 14, JNC = 3, JA = 7 };

/* A vector instruction: opcode map, prefix, W, opcode byte. */
struct vop {
    u8 map, pp, w, op;
};

struct avx2;

struct buf {
    u8 *p;
    size_t n, cap, max; /* bytes used, allocated, allowed */
    bool failed;        /* out of memory or above the limit: later bytes are dropped */
    struct avx2 *avx2;  /* NULL: the processor has AVX-512 */
};

/* A vector instruction with its operands, to be lowered. */
struct vinsn {
    struct vop o;
    u32 reg, vv, rm;   /* rm: a register, or the base of a memory operand, */
    bool memory;       /* if set */
    s32 disp, scale;   /* scale: bytes of a broadcast word (EV_B) */
    u32 k, flags, imm; /* mask, EV_* */
    bool no_base;      /* gathers and scatters, whose index is vv: [index + disp] */
};
/* jit/avx2/. An instruction that is not known fails the compilation. */
void sg_avx2_insn(struct buf *b, const struct vinsn *x);
void sg_avx2_mask_insn(struct buf *b, u32 pp, bool w, u32 op, u32 reg, u32 vv, u32 rm);
void sg_avx2_mask_memory(struct buf *b, u32 pp, bool w, u32 op, u32 k, u32 base, s32 disp);
/* A jump is about to be emitted. Returns the condition to use for cond (0: none). */
u32 sg_avx2_jump(struct buf *b, u32 cond);
void sg_avx2_label(struct buf *b);
/* The same without writing registers back. */
u32 sg_avx2_test(struct buf *b, u32 cond);
/* Keeps the state for the jump whose displacement is at `at`. always: the jump is unconditional. */
void sg_avx2_fork(struct buf *b, size_t at, bool always);
void sg_avx2_join(struct buf *b, u32 held, const size_t *at, u32 n);

/* Makes room for one more byte. Returns false and sets failed if there is none. */
bool sg_jit_room(struct buf *b);

static inline void put8(struct buf *b, u32 v)
{
    if (b->n == b->cap && !sg_jit_room(b))
        return;
    b->p[b->n++] = (u8)v;
}

static inline void put32(struct buf *b, u32 v)
{
    for (int i = 0; i < 4; i++)
        put8(b, v >> (8 * i));
}

static inline void put64(struct buf *b, u64 v)
{
    put32(b, (u32)v);
    put32(b, (u32)(v >> 32));
}

/* ---- vectors ---- */

#define EV_B 1u   /* embedded broadcast */
#define EV_YMM 2u /* 32 bytes instead of 64 */
#define EV_Z 4u   /* lanes outside the mask are zeroed */
#define EV_XMM 8u
#define EV_ROUND(rc) (16u | (u32)(rc) << 5) /* registers only: rounding mode rc, as in MXCSR.RC */

/* May be the target of jumps: the offset of the next instruction. */
static inline size_t here(struct buf *b)
{
    if (b->avx2)
        sg_avx2_label(b);
    return b->n;
}

static inline void evex_head(struct buf *b, struct vop o, u32 reg, u32 vv, bool x, bool bb, u32 k, u32 flags,
                             bool v_high_index)
{
    put8(b, 0x62);
    put8(b, (u32)(!(reg & 8)) << 7 | (u32)x << 6 | (u32)bb << 5 | (u32)(!(reg & 16)) << 4 | o.map);
    put8(b, (u32)o.w << 7 | (~vv & 15) << 3 | 4 | o.pp);
    put8(b, (flags & EV_Z ? 0x80u : 0) |
                (flags & EV_ROUND(0) ? flags & EV_ROUND(3) & 0x60u
                 : flags & EV_XMM    ? 0
                 : flags & EV_YMM    ? 0x20u
                                     : 0x40u) |
                (flags & (EV_B | EV_ROUND(0)) ? 0x10u : 0) | (u32)(!v_high_index) << 3 | k);
    put8(b, o.op);
}

/* False: not lowered, to be encoded. */
static inline bool lowered(struct buf *b, struct vinsn x)
{
    if (!b->avx2)
        return false;
    sg_avx2_insn(b, &x);
    return true;
}

/* reg, vv, rm are registers; k 0: all lanes */
static inline void ev(struct buf *b, struct vop o, u32 reg, u32 vv, u32 rm, u32 k, u32 flags)
{
    if (lowered(b, (struct vinsn){.o = o, .reg = reg, .vv = vv, .rm = rm, .k = k, .flags = flags}))
        return;
    evex_head(b, o, reg, vv, !(rm & 16), !(rm & 8), k, flags, vv & 16);
    put8(b, 0xc0 | (reg & 7) << 3 | (rm & 7));
}

/* With an immediate byte. */
static inline void evi(struct buf *b, struct vop o, u32 reg, u32 vv, u32 rm, u32 k, u32 flags, u32 imm)
{
    if (lowered(b,
                (struct vinsn){.o = o, .reg = reg, .vv = vv, .rm = rm, .k = k, .flags = flags, .imm = imm}))
        return;
    ev(b, o, reg, vv, rm, k, flags);
    put8(b, imm);
}

/* The operand [base + disp]. scale: unit of disp8, bytes. */
static inline void mem_operand(struct buf *b, u32 reg, u32 base, s32 disp, s32 scale)
{
    const bool small = disp % scale == 0 && disp / scale >= -128 && disp / scale < 128;

    put8(b, (small ? 0x40 : 0x80) | (reg & 7) << 3 | (base & 7));
    if ((base & 7) == RSP)
        put8(b, 0x24); /* RSP and R12 have a SIB byte */
    if (small)
        put8(b, (u32)(disp / scale) & 255);
    else
        put32(b, (u32)disp);
}

static inline void evm(struct buf *b, struct vop o, u32 reg, u32 vv, u32 base, s32 disp, s32 scale, u32 k,
                       u32 flags)
{
    if (lowered(b, (struct vinsn){.o = o,
                                  .reg = reg,
                                  .vv = vv,
                                  .rm = base,
                                  .memory = true,
                                  .disp = disp,
                                  .scale = scale,
                                  .k = k,
                                  .flags = flags}))
        return;
    evex_head(b, o, reg, vv, true, !(base & 8), k, flags, vv & 16);
    mem_operand(b, reg, base, disp, scale);
}

static inline void evmi(struct buf *b, struct vop o, u32 reg, u32 vv, u32 base, s32 disp, s32 scale, u32 k,
                        u32 flags, u32 imm)
{
    if (lowered(b, (struct vinsn){.o = o,
                                  .reg = reg,
                                  .vv = vv,
                                  .rm = base,
                                  .memory = true,
                                  .disp = disp,
                                  .scale = scale,
                                  .k = k,
                                  .flags = flags,
                                  .imm = imm}))
        return;
    evm(b, o, reg, vv, base, disp, scale, k, flags);
    put8(b, imm);
}

/* [base + index], both general registers; base must not be RBP or R13, index not RSP. */
static inline void evx(struct buf *b, struct vop o, u32 reg, u32 vv, u32 base, u32 index, u32 k, u32 flags)
{
    b->failed |= b->avx2 != NULL;
    evex_head(b, o, reg, vv, !(index & 8), !(base & 8), k, flags, vv & 16);
    put8(b, 0x04 | (reg & 7) << 3);
    put8(b, (index & 7) << 3 | (base & 7));
}

/* [base + index * 1 + disp], index a vector: gathers and scatters. */
static inline void evsib(struct buf *b, struct vop o, u32 reg, u32 base, u32 index, s32 disp, u32 k,
                         u32 flags)
{
    if (lowered(b, (struct vinsn){.o = o,
                                  .reg = reg,
                                  .vv = index,
                                  .rm = base,
                                  .memory = true,
                                  .disp = disp,
                                  .k = k,
                                  .flags = flags}))
        return;
    evex_head(b, o, reg, 0, !(index & 8), !(base & 8), k, flags, index & 16);
    put8(b, 0x84 | (reg & 7) << 3);
    put8(b, (index & 7) << 3 | (base & 7));
    put32(b, (u32)disp);
}

/* [index * 1 + disp], without a base */
static inline void evsib0(struct buf *b, struct vop o, u32 reg, u32 index, s32 disp, u32 k, u32 flags)
{
    if (lowered(b, (struct vinsn){.o = o,
                                  .reg = reg,
                                  .vv = index,
                                  .memory = true,
                                  .disp = disp,
                                  .k = k,
                                  .flags = flags,
                                  .no_base = true}))
        return;
    evex_head(b, o, reg, 0, !(index & 8), true, k, flags, index & 16);
    put8(b, 0x04 | (reg & 7) << 3);
    put8(b, (index & 7) << 3 | 5);
    put32(b, (u32)disp);
}

/* ---- masks: VEX, only registers below 8, general registers RAX..RDI ---- */
static inline void vex(struct buf *b, u32 pp, bool l, bool w, u32 op, u32 reg, u32 vv, u32 rm)
{
    if (b->avx2) {
        sg_avx2_mask_insn(b, pp, w, op, reg, vv, rm);
        return;
    }
    put8(b, 0xc4);
    put8(b, 0xe0 | M0F);
    put8(b, (u32)w << 7 | (~vv & 15) << 3 | (u32)l << 2 | pp);
    put8(b, op);
    put8(b, 0xc0 | (reg & 7) << 3 | (rm & 7));
}

static inline void vexm(struct buf *b, u32 pp, bool l, bool w, u32 op, u32 reg, u32 base, s32 disp)
{
    if (b->avx2) {
        sg_avx2_mask_memory(b, pp, w, op, reg, base, disp);
        return;
    }
    put8(b, 0xc4);
    put8(b, 0x80 | 0x40 | (u32)(!(base & 8)) << 5 | M0F);
    put8(b, (u32)w << 7 | 15 << 3 | (u32)l << 2 | pp);
    put8(b, op);
    mem_operand(b, reg, base, disp, 1);
}
#define KMOVW_LOAD(b, k, base, disp) vexm(b, PNONE, 0, 0, 0x90, k, base, disp)
#define KMOVB_LOAD(b, k, base, disp) vexm(b, P66, 0, 0, 0x90, k, base, disp)
#define KMOVD_STORE(b, k, base, disp) vexm(b, P66, 0, 1, 0x91, k, base, disp)
#define KMOVW_STORE(b, k, base, disp) vexm(b, PNONE, 0, 0, 0x91, k, base, disp)
#define KMOVB_STORE(b, k, base, disp) vexm(b, P66, 0, 0, 0x91, k, base, disp)
#define KONES(b, k) vex(b, PNONE, 1, 0, 0x46, k, k, k) /* kxnorw */
#define KZERO(b, k) vex(b, PNONE, 1, 0, 0x47, k, k, k) /* kxorw */
#define KORW(b, k, x, y) vex(b, PNONE, 1, 0, 0x45, k, x, y)
#define KORTESTW(b, k) vex(b, PNONE, 0, 0, 0x98, k, 0, k)
#define KORTESTB(b, k) vex(b, P66, 0, 0, 0x98, k, 0, k)

/* ---- general registers, 64 bits unless noted ---- */

/* Not for bytes in RSP to RDI, which have the prefix always. */
static inline void rex(struct buf *b, bool w, u32 reg, u32 rm)
{
    const u32 bits = (u32)w << 3 | (reg >> 3) << 2 | rm >> 3;

    if (bits)
        put8(b, 0x40 | bits);
}

/* op reg, [base + disp] (0x8b load, 0x89 store, 0x3b cmp, 0x2b sub, 0x03 add) */
static inline void alu_mem(struct buf *b, bool w, u32 op, u32 reg, u32 base, s32 disp)
{
    rex(b, w, reg, base);
    put8(b, op);
    mem_operand(b, reg, base, disp, 1);
}

/* op rm, reg (0x89 mov, 0x01 add, 0x29 sub, 0x39 cmp, 0x85 test) */
static inline void alu_reg(struct buf *b, bool w, u32 op, u32 rm, u32 reg)
{
    rex(b, w, reg, rm);
    put8(b, op);
    put8(b, 0xc0 | (reg & 7) << 3 | (rm & 7));
}

/* op rm, imm32 (sub-opcode 0 add, 5 sub, 7 cmp) */
static inline void alu_imm(struct buf *b, bool w, u32 sub, u32 rm, u32 imm)
{
    rex(b, w, 0, rm);
    put8(b, 0x81);
    put8(b, 0xc0 | sub << 3 | (rm & 7));
    put32(b, imm);
}

/* op [base + disp], imm8, of 1 or 4 bytes: sub 7 compares */
static inline void alu_mem_imm8(struct buf *b, bool byte, u32 sub, u32 base, s32 disp, u32 imm)
{
    rex(b, false, 0, base);
    put8(b, byte ? 0x80 : 0x83);
    mem_operand(b, sub, base, disp, 1);
    put8(b, imm);
}

static inline void store_imm8(struct buf *b, u32 base, s32 disp, u32 imm)
{
    rex(b, false, 0, base);
    put8(b, 0xc6);
    mem_operand(b, 0, base, disp, 1);
    put8(b, imm);
}

static inline void mov_imm64(struct buf *b, u32 reg, u64 v)
{
    if (v <= UINT32_MAX) {
        rex(b, false, 0, reg);
        put8(b, 0xb8 | (reg & 7));
        put32(b, (u32)v);
        return;
    }
    rex(b, true, 0, reg);
    put8(b, 0xb8 | (reg & 7));
    put64(b, v);
}

/* The bytes of a conditional jump. Returns the offset of the 32-bit displacement to be patched. */
static inline size_t put_jcc(struct buf *b, u32 cond)
{
    put8(b, 0x0f);
    put8(b, 0x80 | cond);
    put32(b, 0);
    return b->n - 4;
}

/* Returns as put_jcc(). */
static inline size_t jcc(struct buf *b, u32 cond)
{
    return put_jcc(b, b->avx2 ? sg_avx2_jump(b, cond) : cond);
}

static inline size_t jmp(struct buf *b)
{
    if (b->avx2)
        sg_avx2_jump(b, 0);
    put8(b, 0xe9);
    put32(b, 0);
    return b->n - 4;
}

/* The same for jumps whose targets are join(), within an instruction of the kernel. */
static inline size_t fork_jcc(struct buf *b, u32 cond)
{
    const size_t at = put_jcc(b, b->avx2 ? sg_avx2_test(b, cond) : cond);

    if (b->avx2)
        sg_avx2_fork(b, at, false);
    return at;
}

static inline size_t fork_jmp(struct buf *b)
{
    put8(b, 0xe9);
    put32(b, 0);
    if (b->avx2)
        sg_avx2_fork(b, b->n - 4, true);
    return b->n - 4;
}

static inline void patch(struct buf *b, size_t at, size_t target)
{
    u32 v = (u32)(target - (at + 4));

    if (b->failed)
        return;
    for (int i = 0; i < 4; i++)
        b->p[at + (size_t)i] = (u8)(v >> (8 * i));
}

/* The jump at `at` goes to the next instruction. */
static inline void land(struct buf *b, size_t at)
{
    patch(b, at, here(b));
}

/*
 * The n jumps of fork_jcc() and fork_jmp() go to the next instruction; at[0]: the jump of the most frequent
 * path. held: a bit per vector register whose value is needed.
 */
static inline void join(struct buf *b, u32 held, const size_t *at, u32 n)
{
    if (b->avx2)
        sg_avx2_join(b, held, at, n);
    for (u32 k = 0; k < n && !b->avx2; k++)
        land(b, at[k]);
}

#endif
