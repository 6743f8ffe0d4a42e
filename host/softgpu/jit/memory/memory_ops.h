/* SPDX-License-Identifier: MIT */
/* Shared by the files with loads and stores. */
#ifndef SG_JIT_MEM_OPS_H
#define SG_JIT_MEM_OPS_H

#include "jit/state.h"

#define VPADDD ((struct vop){M0F, P66, 0, 0xfe})
#define VPADDQ ((struct vop){M0F, P66, 1, 0xd4})
#define VPSUBD ((struct vop){M0F, P66, 0, 0xfa})
#define VPSUBQ ((struct vop){M0F, P66, 1, 0xfb})
#define VPORQ ((struct vop){M0F, P66, 1, 0xeb})
#define VPORD ((struct vop){M0F, P66, 0, 0xeb})
#define TERNLOGQ ((struct vop){M3A, P66, 1, 0x25})
#define SHIFT_D ((struct vop){M0F, P66, 0, 0x72})
#define ROTATE_Q ((struct vop){M0F, P66, 1, 0x72})
#define SHIFT_Q ((struct vop){M0F, P66, 1, 0x73})
#define BCAST_R32 ((struct vop){M38, P66, 0, 0x7c})
#define BCAST_R64 ((struct vop){M38, P66, 1, 0x7c})
#define BCAST_M32 ((struct vop){M38, P66, 0, 0x58}) /* also from the first lane of a register */
#define BCAST_M64 ((struct vop){M38, P66, 1, 0x59})
#define CMPUQ ((struct vop){M3A, P66, 1, 0x1e})
#define CMPUD ((struct vop){M3A, P66, 0, 0x1e})
#define TESTNMQ ((struct vop){M38, PF3, 1, 0x27})
#define TESTNMD ((struct vop){M38, PF3, 0, 0x27})
#define TESTMQ ((struct vop){M38, P66, 1, 0x27})
#define TESTMD ((struct vop){M38, P66, 0, 0x27})
#define GATHERQD ((struct vop){M38, P66, 0, 0x91})
#define GATHERQQ ((struct vop){M38, P66, 1, 0x91})
#define GATHERDD ((struct vop){M38, P66, 0, 0x90})
#define SCATTERQD ((struct vop){M38, P66, 0, 0xa1})
#define SCATTERDD ((struct vop){M38, P66, 0, 0xa0})
#define EXTRACT4 ((struct vop){M3A, P66, 1, 0x3b})
#define INSERT4 ((struct vop){M3A, P66, 1, 0x3a})
#define MOVQD ((struct vop){M38, PF3, 0, 0x35})
#define MOVD_R ((struct vop){M0F, P66, 0, 0x7e})   /* from the first lane to a general register */
#define MOVD_M MOVD_R                              /* or to memory */
#define EXTRACT2 ((struct vop){M3A, P66, 0, 0x39}) /* 4 words of 16 */
#define EXTRACTD ((struct vop){M3A, P66, 0, 0x16}) /* one of 4 words, to memory */
#define MOVQ_R ((struct vop){M0F, P66, 1, 0x7e})
#define PERMT2D ((struct vop){M38, P66, 0, 0x7e})
#define VMOV ((struct vop){M0F, P66, 1, 0x6f})
#define VMOVU ((struct vop){M0F, PF3, 1, 0x6f}) /* unaligned */
#define VMOVU_STORE ((struct vop){M0F, PF3, 1, 0x7f})

/* arg: element size in bytes, elements << 8, sign << 12, store << 13, 32-bit addresses << 14. */
#define MEM(size, n) ((u32)(size) | (u32)(n) << 8)
#define SIGN (1u << 12)
#define STORE (1u << 13)
#define NARROW (1u << 14)

/* Register k of a load or store. */
static inline u32 dest(const struct sg_insn *in, u32 k)
{
    return k == 0 ? in->d : k == 1 ? in->b : k == 2 ? in->c : in->e;
}

/* The range to check: [value + low, value + high) per lane, in the allocation of entry idx. */
struct check {
    u32 idx, align;
    s64 low, high;
    bool write;
    const struct sum *sum; /* the address of lane 0 is the sum's; NULL: in a register */
};
/* Jumps to the slow path unless every lane may perform the access k. Clobbers registers 0 to 4. */
void sg_jit_check_global(struct jit *j, struct stub *s, const struct check *k, const u32 ad[4]);
/* The same for one address that all lanes share and that stays in RAX. */
void sg_jit_check_flat(struct jit *j, struct stub *s, const struct check *k, u32 ad);
/* Leaves in RAX where in shared memory the first lane's address, in register ad, points to.
   Jumps to the slow path unless `bytes` bytes lie there. */
void sg_jit_place_shared(struct jit *j, struct stub *s, const struct sg_insn *in, u32 ad, u32 bytes,
                         u32 align);
/* Loads of global memory (jit/memory/sg_jit_global_loads.c). */
bool sg_jit_load_global(struct jit *j, const struct sg_insn *in, u32 arg);
/* Stores of 8 and 16 bits (jit/memory/sg_jit_small_stores.c). */
bool sg_jit_store_small(struct jit *j, const struct sg_insn *in, u32 arg);

/* Tests that the lanes' addresses are consecutive, n words each. Returns the jump to patch for
   other patterns. */
size_t sg_jit_row_test(struct jit *j, const u32 ad[4], u32 n);
/* Missing lanes are often the upper half: jumps over the code of that half, to the place where
   sg_jit_skipped() is called with the result. */
size_t sg_jit_skip_upper(struct jit *j, u32 h);
void sg_jit_skipped(struct jit *j, size_t at);
/* True if the displacement can be encoded, and keeps the alignment. */
static inline bool sg_jit_fits(const struct sg_insn *in, u32 align)
{
    return in->imm >= INT32_MIN / 2 && in->imm <= INT32_MAX / 2 && !(in->imm & (align - 1));
}

/* Jumps to the out-of-line path if the condition holds; also the point where that path rejoins,
   with the current register contents. */
void sg_jit_slow(struct jit *j, struct stub *s, u32 cond);
void sg_jit_joined(struct jit *j, struct stub *s);
/* the instruction may be part of a spin loop */
void sg_jit_spin(struct jit *j, const struct sg_insn *in);
/* Extends the low 8 or 16 bits of each lane (size in bytes) and drops the rest. */
void sg_jit_cut(struct jit *j, u32 v, u32 size, bool sign);

#endif
