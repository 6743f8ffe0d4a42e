/* SPDX-License-Identifier: MIT */
/*
 * Native code for processors without AVX-512: each vector instruction of jit/x86.h is lowered to
 * AVX2, FMA and F16C (Intel SDM volume 2, VEX 2.3) when it is emitted. A vector register of 64
 * bytes is two halves of 32. A half is in one of 12 ymm registers, or in memory: in its slot of
 * the frame, or (an alias) in the place of the register file that it was loaded from. Masks are
 * vectors of all-ones lanes, or bits.
 *
 * The allocation is decided while code is emitted, so it must be the same on all paths to a label:
 * a jump writes back what changed, a label empties the ymm registers. The jumps of fork_jcc() and
 * fork_jmp() write nothing back: the state is kept for join() (avx2/sg_avx2_fork.c), or for the code out of
 * line (struct stub). Scratch registers (0 to 7) and masks do not live across labels that several paths
 * reach, nor across instructions of the kernel; to use one that is not valid fails the compilation.
 */
#ifndef SG_JIT_AVX2_H
#define SG_JIT_AVX2_H

#include "jit/x86.h"

#define AVX2_MASKS 32u /* vector register of mask 0 */
#define AVX2_REGISTERS 40u
#define AVX2_HALVES (2 * AVX2_REGISTERS)
#define AVX2_YMM 12u /* the ymm registers above these are temporaries of a lowered instruction */
#define AVX2_SCRATCH 8u

#define AVX2_FORKS 16u /* jumps within an instruction of the kernel whose targets come later */

/* Where a mask is. */
enum avx2_mask { AVX2_NONE, AVX2_ZERO, AVX2_ONES, AVX2_BITS, AVX2_LANES };

struct avx2_memory {
    u32 base;
    s32 disp;
};

struct avx2 {
    u8 in[AVX2_HALVES]; /* 1 + the ymm register that holds this half; 0: none */
    u8 half[AVX2_YMM];  /* the half in this register */
    u32 held, dirty;    /* a bit per ymm register: holds a half; newer than memory */
    u32 locked;         /* used by the current instruction */
    u32 used[AVX2_YMM], clock;
    u64 alias[2];                          /* a bit per half: it is at `at` */
    u64 valid[2];                          /* scratch registers and masks */
    struct avx2_memory at[AVX2_REGISTERS]; /* of the lower half */
    struct {
        u8 state;              /* enum avx2_mask */
        u8 size;               /* bytes of a lane (AVX2_LANES), or of the bits in memory */
        struct avx2_memory at; /* of the bits */
    } mask[8];
    struct { /* the masks that the next conditional jump tests; 0 lanes: none */
        u8 a, b, lanes;
    } test;
    size_t dead_at;          /* offset behind the last jump of fork_jmp(): nothing falls through to it */
    struct avx2_fork *forks; /* AVX2_FORKS */
};

/* A jump of fork_jcc() or fork_jmp(). */
struct avx2_fork {
    size_t at; /* offset of its displacement; 0: free */
    struct avx2 state;
};

/* Frame: slots of the halves, bits of the masks, words for stores of lanes, saved RSP. */
#define AVX2_FRAME RBP      /* the shortest form of an operand: a third of the vector instructions has one */
#define AVX2_FRAME_BIAS 768 /* where it points: displacements of a byte reach the registers used most */
#define AVX2_SLOT(half) ((s32)(32 * (half)) - AVX2_FRAME_BIAS)
#define AVX2_BITS_AT(k) ((s32)(32 * AVX2_HALVES + 4 * (k)) - AVX2_FRAME_BIAS)
#define AVX2_WORDS_AT ((s32)(32 * AVX2_HALVES + 32) - AVX2_FRAME_BIAS)
#define AVX2_RSP_AT (AVX2_WORDS_AT + 32)
#define AVX2_FRAME_BYTES (AVX2_RSP_AT + AVX2_FRAME_BIAS + 64)

/* Makes and leaves the frame: behind the pushes, before the pops. Clobbers RAX. */
void sg_avx2_enter(struct buf *b);
void sg_avx2_leave(struct buf *b);

/* ---- for the emitters ---- */

/* Register v is loaded from [base + disp]: nothing is emitted until it is used. */
void sg_avx2_alias(struct buf *b, u32 v, u32 base, s32 disp);
/* Register v was stored to [base + disp], which may stand for it from now on. */
void sg_avx2_stored(struct buf *b, u32 v, u32 base, s32 disp);
/* Register v no longer depends on the memory that it was loaded from. */
void sg_avx2_own(struct buf *b, u32 v);
/* A bit per register that is an alias. */
u32 sg_avx2_aliases(const struct buf *b);
/* Writes [base + disp] to the slots of register v, whatever the ymm registers hold. */
void sg_avx2_reload(struct buf *b, u32 v, u32 base, s32 disp);
/* The end of an instruction of the kernel: only the registers in `held` keep their contents. */
void sg_avx2_done(struct buf *b, u32 held);
/* All ymm registers are empty: after a call; registers are in memory. */
void sg_avx2_lost(struct buf *b);
/* The halves that only ymm registers hold: 1 + the half, or 0, by ymm register. Code that writes these to their slots. */
void sg_avx2_unsaved(const struct buf *b, u8 halves[AVX2_YMM]);
void sg_avx2_save(struct buf *b, const u8 halves[AVX2_YMM]);
/* The end of an instruction with an out-of-line path: what the ymm registers hold. Scratch registers and masks are empty. */
void sg_avx2_kept(struct buf *b, u8 halves[AVX2_YMM]);
/* Loads a half to a ymm register: from its slot, or (alias) from [base + disp] of its register. */
void sg_avx2_fill(struct buf *b, u32 ymm, u32 half, bool alias, u32 base, s32 disp);
/* The even and the odd words of a, then of b: registers even and odd. */
void sg_avx2_deinterleave(struct buf *b, u32 even, u32 odd, u32 a, u32 c);
/* Register v: the 16 bytes, four times, at an address relative to RIP. Returns the offset of its
   32-bit displacement, to be patched. */
size_t sg_avx2_pattern(struct buf *b, u32 v);

/* ---- between the files of this folder ---- */

enum { T0 = 12, T1, T2, T3 }; /* T3: a word of memory in every lane (EV_B) */

/* A register or a memory operand. */
struct rm {
    bool memory;
    u32 reg; /* or base */
    s32 disp;
};

#define REG(r) ((struct rm){false, (r), 0})
#define MEM_AT(b, d) ((struct rm){true, (b), (d)})

static inline bool sg_avx2_half_bit(const u64 bits[2], u32 half)
{
    return bits[half >> 6 & 1] >> (half & 63) & 1;
}

/* Lives only within an instruction of the kernel. */
static inline bool sg_avx2_is_scratch(u32 v)
{
    return v < AVX2_SCRATCH || v >= AVX2_MASKS;
}

/* Where the half is in memory. */
static inline struct rm sg_avx2_place_of(const struct avx2 *a, u32 half)
{
    const struct avx2_memory *at = &a->at[half >> 1];

    if (sg_avx2_half_bit(a->alias, half))
        return MEM_AT(at->base, at->disp + (s32)(32 * (half & 1)));
    return MEM_AT(AVX2_FRAME, AVX2_SLOT(half));
}

/* o.w, o.map, o.pp as in VEX; l: 256 bits. */
void sg_avx2_vex(struct buf *b, struct vop o, bool l, u32 reg, u32 vv, struct rm x);
/* Index register: a ymm register; no_base: [index + disp]. */
void sg_avx2_vsib(struct buf *b, struct vop o, u32 reg, u32 mask, u32 base, u32 index, s32 disp,
                  bool no_base);
/* op reg, [x]: general registers; two: 0x0f op. */
void sg_avx2_general(struct buf *b, bool w, bool two, u32 op, u32 reg, struct rm x);
/* Sets a general register to an address. */
void sg_avx2_point(struct buf *b, u32 reg, const void *at);

static inline void v256(struct buf *b, struct vop o, u32 reg, u32 vv, struct rm x)
{
    sg_avx2_vex(b, o, true, reg, vv, x);
}

static inline void v256i(struct buf *b, struct vop o, u32 reg, u32 vv, struct rm x, u32 imm)
{
    sg_avx2_vex(b, o, true, reg, vv, x);
    put8(b, imm);
}

/* The ymm register with half h of v; it stays until the next instruction. */
u32 sg_avx2_get(struct buf *b, u32 v, u32 h);
/* The half where it is. */
struct rm sg_avx2_operand(struct buf *b, u32 v, u32 h);
/* The half in memory, up to date. */
struct rm sg_avx2_in_memory(struct buf *b, u32 v, u32 h);
/* 16 bytes of the half; those in the upper part of a register are extracted to ymm register t. */
struct rm sg_avx2_part(struct buf *b, u32 v, u32 h, bool upper, u32 t);
/* A ymm register for a new value of the half. */
u32 sg_avx2_put(struct buf *b, u32 v, u32 h);
void sg_avx2_unlock(struct buf *b);
/* Writes back the registers that live across labels. */
void sg_avx2_flush(struct buf *b);

/* Makes mask k a vector with lanes of `size` bytes in register AVX2_MASKS + k. Clobbers T2, R11. */
void sg_avx2_mask_lanes(struct buf *b, u32 k, u32 size);
/* Loads the bits of mask k to R10. Clobbers R11. */
void sg_avx2_mask_bits(struct buf *b, u32 k);
/* Jumps over the following code unless bit i of a general register is set. Returns the jump, to be
   closed by sg_avx2_bit_end(). */
size_t sg_avx2_if_bit(struct buf *b, u32 reg, u32 i);
void sg_avx2_bit_end(struct buf *b, size_t at);
void sg_avx2_mask_is(struct buf *b, u32 k, enum avx2_mask state, u32 size);

/* Lower instructions of one kind; false: not of this kind. */
bool sg_avx2_lanes_op(struct buf *b, const struct vinsn *x);
bool sg_avx2_compare_op(struct buf *b, const struct vinsn *x);
bool sg_avx2_width_op(struct buf *b, const struct vinsn *x);
bool sg_avx2_move_op(struct buf *b, const struct vinsn *x);
/* Operand rm of x, half h: (EV_B) T3. */
struct rm sg_avx2_rm(struct buf *b, const struct vinsn *x, u32 h);
/* Half h of register v, under mask x->k, becomes T0. */
void sg_avx2_merge(struct buf *b, const struct vinsn *x, u32 v, u32 h);

#define OP(map, pp, w, op) ((struct vop){map, pp, w, op})
#define IS(map, pp, op) ((u32)(map) << 16 | (u32)(pp) << 8 | (op))
static inline u32 sg_avx2_key(struct vop o)
{
    return IS(o.map, o.pp, o.op);
}

#define PXOR OP(M0F, P66, 0, 0xef)
#define POR OP(M0F, P66, 0, 0xeb)
#define PAND OP(M0F, P66, 0, 0xdb)
#define PANDN OP(M0F, P66, 0, 0xdf)
#define PCMPEQD OP(M0F, P66, 0, 0x76)
#define PCMPEQQ OP(M38, P66, 0, 0x29)
#define PCMPGTD OP(M0F, P66, 0, 0x66)
#define PCMPGTQ OP(M38, P66, 0, 0x37)
#define LOAD OP(M0F, PF3, 0, 0x6f)
#define STORE_OP OP(M0F, PF3, 0, 0x7f)
#define BLENDV(size) OP(M3A, P66, 0, (size) == 8 ? 0x4b : (size) == 4 ? 0x4a : 0x4c)
#define PERMQ OP(M3A, P66, 1, 0x00)
#define UPPER128 OP(M3A, P66, 0, 0x39) /* extract, imm 1 */
#define INSERT128 OP(M3A, P66, 0, 0x38)
#define SHIFT_QI OP(M0F, P66, 0, 0x73)
#define SHIFT_DI OP(M0F, P66, 0, 0x72)

static inline void sg_avx2_ones(struct buf *b, u32 t)
{
    v256(b, PCMPEQD, t, t, REG(t));
}

#endif
