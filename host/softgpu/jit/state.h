/* SPDX-License-Identifier: MIT */
/* The working state of compiling one kernel; for the files of this folder. */
#ifndef SG_JIT_INT_H
#define SG_JIT_INT_H

#include "jit/x86.h"

#include <stddef.h>

/* General registers that keep their value in native code. */
#define G_WARP RBP
#define G_REGS RBX /* w->base[0] */
#define G_POOL R13 /* w->base[1] */
#define G_CTA R14
#define G_GEN R15 /* &sg_mem_generation */

/* Vector registers 0 to 7 are scratch within one instruction, the others cache 64-byte chunks. */
#define V_SCRATCH 8
#define V_COUNT 32
#define NO_KEY UINT32_MAX

struct vreg {
    u32 key; /* operand code of the chunk (SG_OPND_CONST: pool), NO_KEY: none */
    bool dirty, pinned;
    bool low_bytes; /* every byte is known to be below 128 */
    u32 used;
};

/* Out of line: a memory access that has to be checked lane by lane. */
struct stub {
    size_t jumps[16]; /* places to patch */
    u32 njumps;
    size_t back;
    u32 insn, n; /* the first handler that is called, and how many */
    u8 masked;
    struct sg_window *window; /* learns first, see jit/windows.h; NULL: none */
    struct vreg v[V_COUNT];   /* before the instruction */
    struct vreg after[V_COUNT];
};

struct jump {
    size_t at;
    u32 insn; /* goes to the entry of the block that begins there */
    u8 masked;
};

/* 16 bytes behind the code. */
struct pattern {
    size_t at; /* the distance to it */
    u8 bytes[16];
};

/* Loads of one block through one register, whose addresses are checked together. */
struct group {
    u32 a;         /* the register; NO_KEY: none */
    u32 last;      /* the last instruction of the group */
    s32 low, high; /* what they touch, from the register's value on */
    u32 align;
    u32 flag; /* which of native_ok */
};

/* The lanes that a version of the code runs with: all, some, or some of the lower 16 only. */
enum { JIT_ALL, JIT_SOME, JIT_LOW, JIT_VERSIONS };

struct jit {
    struct buf b;
    struct sg_code *code;
    struct vreg v[V_COUNT];
    u32 clock;
    u8 *leader;                   /* of each instruction */
    size_t *entry[JIT_VERSIONS];  /* of each block */
    size_t ahead[SG_AHEAD_COUNT]; /* + 1; 0: none */
    size_t *outside;              /* where the interpreter enters */
    u8 *kill; /* fields (SG_F_*) whose value ends at this instruction; bit 7: result unused */
    struct stub *stubs;
    u32 nstubs, cap_stubs;
    struct jump *jumps;
    u32 njumps, cap_jumps;
    struct pattern *patterns;
    u32 npatterns, cap_patterns;
    bool ahead_of; /* what runs before blocks: no stubs, whose instructions are those of the kernel */
    u32 cur;       /* the instruction being compiled */
    u32 skip;      /* how many behind it were compiled with it */
    struct group groups[SG_NATIVE_GROUPS];
    u32 ngroups;               /* begun in this block */
    u32 nmma;                  /* that are native */
    struct sg_window *windows; /* all of them */
    u8 masked;                 /* which version of the code this is: JIT_* */
    u32 mode;                  /* MXCSR that the instruction being compiled is to have */
    u32 mxcsr;                 /* that the code has there: a mode lasts until another one is needed */
    u32 round;                 /* flags of vector instructions that round, EV_ROUND() or 0 */
    u8 *addresses;             /* of each constant, one bit: may it still change? */
    size_t table_room;         /* bytes that stubs, jumps, patterns and windows may still take */
    u32 walked;                /* instructions looked at for groups */
};

/*
 * What a kernel's compilation may take; beyond it the kernel is interpreted. All code of the process has twice
 * the room (jit/code_memory.c).
 */
#define JIT_CODE_MAX ((size_t)128 << 20)
#define JIT_TABLES_MAX ((size_t)256 << 20)
#define JIT_WALK_MAX (64u << 20) /* steps; then no more groups are opened */

/* Compiles j->code into the buffer j->b, which stays the caller's; with nothing set but its bounds. */
void sg_jit_make(struct jit *j);
/* Room in tables for so many bytes more. False: the compilation has failed. */
bool sg_jit_claim(struct jit *j, size_t bytes);

#define F_D 1u
#define F_A 2u
#define F_B 4u
#define F_C 8u
#define F_E 16u
#define F_DEAD 0x80u
#define F_PARTIAL 0x80u

typedef bool (*emit_fn)(struct jit *j, const struct sg_insn *in, u32 arg);
struct jop {
    const char *name;
    emit_fn emit; /* false: nothing was written, call the handler */
    u32 arg;
};
extern const struct jop sg_jit_ops_alu[], sg_jit_ops_cmp[], sg_jit_ops_half[], sg_jit_ops_float[],
    sg_jit_ops_approx[], sg_jit_ops_mem[], sg_jit_ops_shm[], sg_jit_ops_matrix[];

/* The handlers of instructions that steer; filled by sg_jit_init(). */
struct jit_ctl {
    sg_fn bra, bra_if, bra_not, join, brx, exit, pred_if, pred_not, fpmode, flat, wsync, ext, bar[5],
        exit_if[2];
};
extern struct jit_ctl sg_jit_ctl;

static inline bool sg_jit_is_branch(sg_fn fn)
{
    return fn == sg_jit_ctl.bra || fn == sg_jit_ctl.bra_if || fn == sg_jit_ctl.bra_not;
}

/* How fn is compiled; NULL: it is called. *pure (or NULL): it does nothing but give its result. */
const struct jop *sg_jit_find(sg_fn fn, bool *pure);
bool sg_jit_modeless(const struct jop *o); /* neither reads MXCSR nor leaves the code */

/* Operand k, in the order of F_D to F_E. */
static inline const u32 *sg_jit_field(const struct sg_insn *in, u32 k)
{
    const u32 *f[5] = {&in->d, &in->a, &in->b, &in->c, &in->e};

    return f[k];
}

/* The same in every lane: one chunk stands for all. */
static inline bool sg_jit_flat(const struct jit *j, u32 op)
{
    const struct sg_code *c = j->code;

    return (op & SG_OPND_CONST) || (op < c->slots_begin && c->flat && c->flat[op >> 7]);
}

/* True if this is the last read of operand f (F_*), so that the result may reuse its register. */
static inline bool sg_jit_dies(const struct jit *j, const struct sg_insn *in, u32 f)
{
    const u32 op = *sg_jit_field(in, (u32)__builtin_ctz(f));

    for (u32 k = 1; k < 5; k++) /* not if it is another operand, too */
        if (1u << k != f && *sg_jit_field(in, k) == op)
            return false;
    return (j->kill[j->cur] & f) && !sg_jit_flat(j, op);
}

/* Number of chunks of a value that are operands. */
static inline u32 sg_jit_n(const struct jit *j, bool wide)
{
    return (wide ? 4u : 2u) >> (j->masked == JIT_LOW);
}

/* Number of chunks of a result that are computed. */
static inline u32 sg_jit_chunks(const struct jit *j, const struct sg_insn *in, bool wide)
{
    return sg_jit_flat(j, in->d) ? 1 : sg_jit_n(j, wide);
}

/* Compiles instruction i, which is no branch and no exit; how many it and those compiled with it are. */
u32 sg_jit_insn(struct jit *j, u32 i);

/* ---- calls, branches, ways out (jit/flow.c) ---- */

/* As instructions: */
#define JIT_EXIT UINT32_MAX          /* back to the run loop, with its return value in RAX */
#define JIT_TURN (UINT32_MAX - 1)    /* on with the next warp of the block */
#define JIT_RELEASE (UINT32_MAX - 2) /* called by the last warp that comes to barrier 0 */
#define JIT_RESUME (UINT32_MAX - 3)  /* on with the warp at w->ip, whichever lanes run there */
#define JIT_RESCHED (UINT32_MAX - 4) /* the same after choosing which: enum sg_step */
#define JIT_BLOCKED (UINT32_MAX - 5) /* other lanes of the warp, or other warps */
#define JIT_COMMON 6
bool sg_jit_is_span(sg_fn fn); /* a mark in front of instructions that run as one */
/* The jump at `at` goes to the block at insn. */
void sg_jit_jump_to(struct jit *j, size_t at, u32 insn);
/* Around the setting of further arguments (RDX, ...): a call of fn(warp, instruction, ...). */
void sg_jit_call_begin(struct jit *j, u32 insn);
void sg_jit_call_end(struct jit *j, u64 fn);
/* why: what VGPU_SOFT_PROFILE says behind the handler's name. */
void sg_jit_call_handler(struct jit *j, u32 insn, const char *why);
/* Code that loads MXCSR, unless it has that value. Code that leaves a block, or may, has that of the kernel. */
void sg_jit_set_mode(struct jit *j, u32 mode);
/* The native form of an instruction, in j->mode; false: the handler is to be called. */
bool sg_jit_emit(struct jit *j, const struct sg_insn *in, const struct jop *o);
/* Compiles "fpmode" at i and its instructions; false: nothing was written, one of them does not obey modes natively. */
bool sg_jit_mode(struct jit *j, u32 i);
/* Calls the handler with everything in memory; out unless it says good. */
void sg_jit_generic(struct jit *j, u32 i, u32 good);
/* Behind something that may bring further lanes: out, to instruction insn, if one of the upper half came. */
void sg_jit_still_low(struct jit *j, u32 insn);
void sg_jit_count(struct jit *j, u32 n); /* n instructions were run */
/* Returns step with w->ip at an instruction. */
void sg_jit_leave_at(struct jit *j, u32 insn, u32 step);
/* With lanes waiting elsewhere: those that wait lower than insn go first. */
void sg_jit_check_waiting(struct jit *j, u32 insn);
void sg_jit_go_to(struct jit *j, u32 from, u32 to);
/* The conditional branch at the end of a block. */
void sg_jit_branch(struct jit *j, u32 i);

/*
 * Fails the compilation unless every checked way is joined and entered, and every jump goes to the entry of a
 * block or to one of JIT_*: code in which a check or a jump is missing never runs.
 */
void sg_jit_complete(struct jit *j);

/* ---- warp scheduling (jit/schedule.c) ---- */

/* With everything in memory and counted: the barrier at i, which ends a block; the end of a thread. */
void sg_jit_barrier(struct jit *j, u32 i);
void sg_jit_exit(struct jit *j, u32 i);
/* What JIT_TURN to JIT_BLOCKED stand for; where they begin goes to at[UINT32_MAX - JIT_...]. */
void sg_jit_common(struct jit *j, size_t at[JIT_COMMON]);

/* ---- liveness (jit/liveness.c) ---- */

/* Fills j->kill; leaves it all 0, which is always right, when there is no memory or too much to do. */
void sg_jit_find_kills(struct jit *j);

/* ---- registers (jit/registers.c) ---- */

/* Chunk `key` of the register file or the pool to vector register v, and v to where it belongs. */
void sg_jv_load(struct jit *j, u32 v, u32 key);
void sg_jv_store(struct jit *j, u32 v, u32 key);
/* Writes back what is newer than memory; the registers keep their chunks. */
void sg_jv_flush(struct jit *j);
/* No register holds anything. */
void sg_jv_forget(struct jit *j);
/* The vector register with chunk h of an operand; stays until unpin. */
u32 sg_jv_get(struct jit *j, u32 op, u32 h);
/* A register for a result. It holds nothing until bound. */
u32 sg_jv_new(struct jit *j);
void sg_jv_bind(struct jit *j, u32 op, u32 h, u32 v);
void sg_jv_unpin(struct jit *j);
/* Chunks of dying operands of the current instruction: free their registers. */
void sg_jv_kill(struct jit *j, const struct sg_insn *in, u32 h_mask);
void sg_jv_kill_flat(struct jit *j);                               /* behind the instruction */
bool sg_jit_const(const struct jit *j, u32 op, u64 *v, bool wide); /* an immediate? */
struct stub *sg_jit_stub(struct jit *j);
/* Mask register k: the running lanes of chunk h, of 32-bit or (wide) 64-bit values. */
void sg_jit_lanes(struct jit *j, u32 k, u32 h, bool wide);
/* Flags: zero if none of the upper 16 lanes runs. */
void sg_jit_cmp_upper(struct jit *j);
/* RAX has the new value of the predicate at offset d. */
void sg_jit_put_pred(struct jit *j, u32 d);
/* Register v gets, in each 32-bit lane, the bytes of `bytes` plus 4 for each lane of its 16 bytes;
 * bytes of 0x80 stay. Returns v. */
u32 sg_jit_pattern(struct jit *j, u32 v, u32 bytes);

static inline struct buf *B(struct jit *j)
{
    return &j->b;
}

#endif
