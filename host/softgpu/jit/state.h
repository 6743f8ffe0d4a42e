/* SPDX-License-Identifier: MIT */
/* Working state of the compilation of a kernel; for the files of this folder. */
#ifndef SG_JIT_INT_H
#define SG_JIT_INT_H

#include "jit/x86.h"

#include <stddef.h>

/* General registers reserved throughout native code. */
#define G_WARP R14
#define G_REGS RBX /* w->base[0] */
#define G_POOL R13 /* w->base[1] */
#define G_CTA R12
#define G_GEN R15 /* &sg_mem_generation */

/* Vector registers 0 to 7 are scratch registers of an instruction; the others cache 64-byte
   chunks. */
#define V_SCRATCH 8
#define V_COUNT 32
#define V_CACHES (~((1u << V_SCRATCH) - 1))
#define NO_KEY UINT32_MAX

/* Contents of the vector registers; a bit per register. */
struct vregs {
    u32 key[V_COUNT]; /* operand code of the cached chunk (SG_OPND_CONST: pool), if held */
    u32 held;
    u32 dirty;     /* of those held: not yet in memory */
    u32 low_bytes; /* of those held: all bytes are known to be below 128 */
};

/* A register that is a sum (jit/memory/sg_jit_sums.c) or affine (jit/memory/affine.h). */
struct sum {
    u32 key;     /* operand code of the register */
    u32 base;    /* operand code of its hoisted part, or where its lanes' distances lie */
    u32 place;   /* index of its uniform part, or its value in lane 0, in the warp's `sums` */
    bool valid;  /* the register still has this value */
    u8 unsaved;  /* a bit per chunk: neither in a vector register nor in memory */
    bool narrow; /* 32-bit values; a hoisted part has 64 */
    u8 fixed; /* the value is the same in each block of a launch, as far as is known (sums are compared byte by byte) */
};

/* Out-of-line path of a memory access that must be checked lane by lane. */
struct stub {
    size_t jumps[16]; /* jumps to patch */
    u32 njumps;
    size_t back;
    u32 insn, n; /* first handler to call, number of handlers */
    u32 begin;   /* first instruction of the block */
    u8 masked;
    bool leave;               /* does not return: the interpreter continues behind `insn` */
    struct sg_window *window; /* pattern to learn first, see jit/memory/windows.h; NULL: none */
    struct vregs v;           /* at the first jump; later jumps must have the same registers to save */
    struct vregs after;
    struct sum sums[SG_NATIVE_SUMS]; /* as v */
    u32 nsums;
    u32 aliases; /* AVX2: registers of `after` whose value is in its place in memory */
    /* AVX2, by ymm register, 1 + the half that it holds: those to be saved at each jump; all at the end */
    u8 unsaved[16][12], kept[12];
};

struct jump {
    size_t at;
    u32 insn; /* target block's first instruction */
    u8 masked;
};

/* A pattern of 16 bytes behind the code. */
struct pattern {
    size_t at; /* offset of the 32-bit displacement to patch */
    u8 bytes[16];
};

/* Loads of a block through the same register, whose addresses are checked together. */
struct group {
    u32 a;         /* the address register; NO_KEY: none */
    u32 last;      /* the last instruction of the group */
    s32 low, high; /* accessed range relative to the register's value */
    u32 align;
    u32 flag;                 /* index into native_ok: GROUP_* */
    u32 row;                  /* bytes between lanes in GROUP_IN_ROW */
    u64 fetched;              /* prefetched so far: a bit per 64 bytes from `low` on */
    struct sg_window *window; /* of the first load; NULL: none */
};

/* Knowledge of a group at run time: none; all may be loaded; its lanes lie as in the window of its
   first load; or in a row. */
enum { GROUP_UNCHECKED, GROUP_CHECKED, GROUP_MATCHES, GROUP_IN_ROW };

/* Version of the code, by running lanes: all, some, or only some of the lower 16. */
enum { JIT_ALL, JIT_SOME, JIT_LOW, JIT_VERSIONS };

/* A load from a sum, in a block for all lanes. */
struct site {
    struct sg_window *window;
    u32 insn;
};

/* A byte that a settled version prefetches. */
struct fetched {
    u32 root; /* number of an address register's value, the same for all loads from it */
    s32 at;   /* from that value on */
};

struct jit {
    struct buf b;
    struct sg_code *code;
    const struct sg_insn *home; /* where the instructions of `code`, which may be a copy, are when they run */
    struct sg_late *late;       /* versions of blocks that are compiled when they first run (jit/late.h) */
    bool late_block;            /* compiling one of these */
    bool fp16;                  /* the processor has AVX512-FP16 */
    struct vregs v;
    u32 pinned; /* a bit per register: not to be replaced before sg_jv_unpin() */
    u32 used[V_COUNT], clock;
    u8 guess[64];                 /* by chunk: the register that held it last */
    u8 *leader;                   /* per instruction */
    size_t *entry;                /* per block: its version for all lanes */
    size_t ahead[SG_AHEAD_COUNT]; /* + 1; 0: none */
    size_t *outside;              /* entry points from the interpreter */
    u8 *kill; /* per instruction: fields (SG_F_*) whose value dies here; bit 7: result unused */
    struct stub *stubs;
    u32 nstubs, cap_stubs;
    struct jump *jumps;
    u32 njumps, cap_jumps;
    struct pattern *patterns;
    u32 npatterns, cap_patterns;
    /* compiling code that runs ahead of blocks: no stubs; the instructions belong to the kernel */
    bool ahead_of;
    u32 cur;  /* instruction being compiled */
    u32 skip; /* number of following instructions compiled together with it */
    struct group groups[SG_NATIVE_GROUPS];
    u32 ngroups; /* number of groups begun in this block */
    struct sum sums[SG_NATIVE_SUMS];
    u32 nsums;
    u32 begin;  /* the block's first instruction */
    u32 sincos; /* sin or cos of this block that is computed by now, at [G_REGS + sincos_at]; NO_KEY: none */
    s32 sincos_at;               /* 0: no place yet */
    struct affine_block *affine; /* of the block, if its code is for affine values; or NULL */
    struct sg_affine *affines;   /* list of the distances that blocks with such code learn */
    u32 naffine;                 /* their number */
    u32 native_bytes;            /* see struct sg_code */
    u32 nsites;                  /* number of loads from sums */
    u32 nmma;                    /* number of native mma instructions */
    struct sg_window *windows;   /* list of all windows */
    u8 masked;                   /* version being compiled: JIT_* */
    u32 mode;                    /* MXCSR required by the current instruction */
    u32 mxcsr;                   /* MXCSR at this point: a mode stays until another is needed */
    u32 round;                   /* rounding flags of vector instructions, EV_ROUND() or 0 */
    u8 *addresses;               /* sg_code_addresses() */
    size_t table_room;           /* bytes left for stubs, jumps, patterns and windows */
    u32 walked;                  /* instructions visited in search of groups */
    u32 prologue;                /* bytes at the way in for the interpreter that save registers */

    /* Settled versions (jit/late.h). */
    struct site *sites; /* by number of the site, SG_NATIVE_SITES; or NULL */
    const u8 *settled;  /* by site: w->lie for which such a version is compiled; NULL: it is another one */
    const u8 *moves;    /* by 128 bytes of registers: not 0: other values in other blocks; NULL: not known */
    struct fetched fetched[128];
    u32 nfetched;
};

/*
 * Limits for the compilation of a kernel; above them the kernel is interpreted. The code of the
 * whole process has twice the room (jit/sg_jit_code_memory.c).
 */
#define JIT_CODE_MAX ((size_t)128 << 20)
#define JIT_TABLES_MAX ((size_t)256 << 20)
#define JIT_WALK_MAX (64u << 20) /* steps; above, no more groups are opened */

/* Compiles j->code into the buffer j->b, which stays the caller's and has only its limits set. */
void sg_jit_make(struct jit *j);
/* Claims bytes for table entries. Returns false if the compilation has failed. */
bool sg_jit_claim(struct jit *j, size_t bytes);

#define F_D 1u
#define F_A 2u
#define F_B 4u
#define F_C 8u
#define F_E 16u
#define F_DEAD 0x80u
#define F_PARTIAL 0x80u

typedef bool (*emit_fn)(struct jit *j, const struct sg_insn *in, u32 arg);
/* The native code of an operation (jit/natives.h). */
struct jop {
    emit_fn emit; /* false: nothing was emitted, call the handler */
    u32 arg;
    bool modeless; /* does not read MXCSR or leave the code */
    bool avx512;   /* not for AVX2 */
    bool load;     /* sg_jit_load_global(): a load of global memory */
};

/* Handlers of control-flow instructions; filled by sg_jit_init(). */
struct jit_ctl {
    sg_fn bra, bra_if, bra_not, join, brx, exit, pred_if, pred_not, fpmode, flat, wsync, ext, bar[5],
        exit_if[2];
};
extern struct jit_ctl sg_jit_ctl;

static inline bool sg_jit_is_branch(sg_fn fn)
{
    return fn == sg_jit_ctl.bra || fn == sg_jit_ctl.bra_if || fn == sg_jit_ctl.bra_not;
}

/* sg_jit_natives, once sg_jit_init() has found that there is native code. */
extern const struct jop *const *sg_jit_table;
/* The native implementation of fn. NULL: call the handler. *pure (unless NULL): has no effect
   but its result. */
const struct jop *sg_jit_find(sg_fn fn, bool *pure);

/* Operand k, in the order of F_D to F_E. */
static inline const u32 *sg_jit_field(const struct sg_insn *in, u32 k)
{
    const u32 *f[5] = {&in->d, &in->a, &in->b, &in->c, &in->e};

    return f[k];
}

/* True if instruction i writes register op. */
static inline bool sg_jit_writes(const struct jit *j, u32 i, u32 op)
{
    for (u32 k = 0; k < 5; k++)
        if ((j->code->fields[2 * i] >> k & 1) && *sg_jit_field(&j->code->insns[i], k) == op)
            return true;
    return false;
}

/* True if the operand is the same in every lane, so that one chunk stands for all. */
static inline bool sg_jit_flat(const struct jit *j, u32 op)
{
    const struct sg_code *c = j->code;

    return (op & SG_OPND_CONST) || (op < c->slots_begin && c->flat && c->flat[op >> 7]);
}

/* True if this is the last read of operand f (F_*), so that the result may reuse its register. */
static inline bool sg_jit_dies(const struct jit *j, const struct sg_insn *in, u32 f)
{
    const u32 op = *sg_jit_field(in, (u32)__builtin_ctz(f));

    for (u32 k = 1; k < 5; k++) /* not if another operand is the same register */
        if (1u << k != f && *sg_jit_field(in, k) == op)
            return false;
    return (j->kill[j->cur] & f) && !sg_jit_flat(j, op);
}

/* Number of chunks of an operand. */
static inline u32 sg_jit_n(const struct jit *j, bool wide)
{
    return (wide ? 4u : 2u) >> (j->masked == JIT_LOW);
}

/* Number of chunks of a result that are computed. */
static inline u32 sg_jit_chunks(const struct jit *j, const struct sg_insn *in, bool wide)
{
    return sg_jit_flat(j, in->d) ? 1 : sg_jit_n(j, wide);
}

/* Compiles the block that begins at `first` in version j->masked; for all lanes twice, if that helps: for lanes
   whose distances stay the same, then for all others. */
void sg_jit_block(struct jit *j, u32 first);
/* Compiles its settled version, for j->settled: with affine values if `affine` is not NULL. */
void sg_jit_block_settled(struct jit *j, u32 first, struct sg_affine *affine);
void sg_jit_stubs(struct jit *j);    /* emits all stubs */
void sg_jit_patterns(struct jit *j); /* emits all patterns */
/* Compiles instruction i, which is neither a branch nor an exit. Returns the number of
   instructions compiled. */
u32 sg_jit_insn(struct jit *j, u32 i);
bool sg_jit_is_bar(sg_fn fn); /* a barrier, which ends a block */
#define JIT_SPAN_MAX 96 /* instructions that are compiled again at a branch over them, or under a predicate */

/* ---- calls, branches, ways out (jit/sg_jit_flow.c) ---- */

/* Targets other than instructions. */
#define JIT_EXIT UINT32_MAX          /* back to the run loop, with its return value in RAX */
#define JIT_TURN (UINT32_MAX - 1)    /* continue with the next warp of the block */
#define JIT_RELEASE (UINT32_MAX - 2) /* called by the last warp to reach barrier 0 */
/* continue with the warp at w->ip, whichever lanes run there */
#define JIT_RESUME (UINT32_MAX - 3)
#define JIT_RESCHED (UINT32_MAX - 4) /* the same after selecting the lanes: enum sg_step */
#define JIT_BLOCKED (UINT32_MAX - 5) /* switch to other lanes of the warp, or to other warps */
#define JIT_MASKED (UINT32_MAX - 6)  /* a block whose number is in ECX, for the lanes that run */
#define JIT_MISSING (UINT32_MAX - 7) /* the same, not compiled yet: its place in struct sg_late is in ECX */
#define JIT_COMMON 8
/* The address of an instruction where it runs. */
static inline u64 sg_jit_place(const struct jit *j, u32 insn)
{
    return (u64)(uintptr_t)&j->home[insn];
}
bool sg_jit_is_span(sg_fn fn); /* marks a sequence of instructions that run as a unit */
/*
 * True if i is a predicate over instructions that all have native forms; the instruction behind
 * them begins a block. It is compiled at the end of a block, with registers
 * written back: the lanes whose predicate holds run these instructions.
 */
bool sg_jit_is_native_span(const struct sg_code *c, u32 i);
/* Makes the jump at `at` go to the block at insn. */
void sg_jit_jump_to(struct jit *j, size_t at, u32 insn);
/* The block of instruction insn begins here: removes a jump to it that stands just before. */
void sg_jit_fall_through(struct jit *j, u32 insn);
/* A call of fn(warp, instruction, ...): begin and end enclose the code that sets further
   arguments (RDX, ...). */
void sg_jit_call_begin(struct jit *j, u32 insn);
void sg_jit_call_end(struct jit *j, u64 fn);
/* why: reason that VGPU_SOFT_PROFILE prints after the handler's name. */
void sg_jit_call_handler(struct jit *j, u32 insn, const char *why);
/* Loads MXCSR unless it already has that value. Code that leaves a block, or may leave it, uses
   the kernel's MXCSR. */
void sg_jit_set_mode(struct jit *j, u32 mode);
/* Emits the native form of an instruction in j->mode. Returns false if the handler must be
   called. */
bool sg_jit_emit(struct jit *j, const struct sg_insn *in, const struct jop *o);
/* Calls the handler with all registers written back; leaves the code unless it returns good. */
void sg_jit_generic(struct jit *j, u32 i, u32 good);
/* After an instruction that may add lanes: leaves to instruction insn if a lane of the upper
   half runs. */
void sg_jit_still_low(struct jit *j, u32 insn);
void sg_jit_count(struct jit *j, u32 n); /* counts n executed instructions */
/* Returns step with w->ip at an instruction. */
void sg_jit_leave_at(struct jit *j, u32 insn, u32 step);
/* With lanes waiting elsewhere: switches to lanes that wait below insn. */
void sg_jit_check_waiting(struct jit *j, u32 insn);
void sg_jit_go_to(struct jit *j, u32 from, u32 to);

/*
 * Fails the compilation unless every checked path is joined and entered, and every jump targets the
 * entry of a block or a JIT_* target: code with a missing check or jump never runs.
 */
void sg_jit_complete(struct jit *j);

/* ---- warp scheduling (jit/sg_jit_schedule.c) ---- */

/* With registers written back and instructions counted: the barrier at i, which ends a block;
   the end of a thread. */
void sg_jit_barrier(struct jit *j, u32 i);
void sg_jit_exit(struct jit *j, u32 i);
/* Emits the code for JIT_TURN to JIT_BLOCKED; at[UINT32_MAX - JIT_...] receives the start of
   each. */
void sg_jit_common(struct jit *j, size_t at[JIT_COMMON]);
/* A call of fn, or with 0 of the address in RAX, whose argument is a register. */
void sg_jit_call_function(struct jit *j, u32 arg, u64 fn);

/* ---- liveness (jit/sg_jit_liveness.c) ---- */

/* Fills j->kill. Leaves it all 0, which is always correct, if memory is short or the work too
   large. */
void sg_jit_find_kills(struct jit *j);

/* ---- registers (jit/sg_jit_registers.c) ---- */

/* Loads chunk `key` of the register file or the pool into vector register v; stores v to its
   place. */
void sg_jv_load(struct jit *j, u32 v, u32 key);
void sg_jv_store(struct jit *j, u32 v, u32 key);
/* Writes back modified registers, which keep their chunks. */
void sg_jv_flush(struct jit *j);
/* The vector register that holds chunk h of an operand; 0: none. */
u32 sg_jv_held(struct jit *j, u32 op, u32 h);
/* Drops the knowledge of register op, which gets another value. */
void sg_jv_lose(struct jit *j, u32 op);
/* Marks all registers as empty. */
void sg_jv_forget(struct jit *j);
/* The vector register that holds chunk h of an operand; pinned until unpin. */
u32 sg_jv_get(struct jit *j, u32 op, u32 h);
/* For operations that look at other lanes: register v has the values of the lanes that do not run, too,
   as each register does that is not dirty. */
void sg_jv_settle(struct jit *j, u32 v);
/* Allocates a register for a result. It is empty until bound. */
u32 sg_jv_new(struct jit *j);
void sg_jv_bind(struct jit *j, u32 op, u32 h, u32 v);
/* Allocates register v, which held an operand, for a result: the operand is dropped. */
void sg_jv_take(struct jit *j, u32 v);
void sg_jv_unpin(struct jit *j);
/* Frees the registers of chunks of operands that die in the current instruction. */
void sg_jv_kill(struct jit *j, const struct sg_insn *in, u32 h_mask);
void sg_jv_kill_flat(struct jit *j);                               /* call after the instruction */
bool sg_jit_const(const struct jit *j, u32 op, u64 *v, bool wide); /* true if it is an immediate */
struct stub *sg_jit_stub(struct jit *j);
/* join() of n jumps within an instruction, or of a single jump; jumps of 0 are skipped. */
void sg_jit_join(struct jit *j, const size_t *at, u32 n);
static inline void sg_jit_join_at(struct jit *j, size_t at)
{
    sg_jit_join(j, &at, 1);
}
/* Sets mask register k to the running lanes of chunk h, of 32-bit or (wide) 64-bit values. */
void sg_jit_lanes(struct jit *j, u32 k, u32 h, bool wide);
/* Sets the flags: zero if none of the upper 16 lanes runs. */
void sg_jit_cmp_upper(struct jit *j);
/* Stores the predicate at offset d from RAX. */
void sg_jit_put_pred(struct jit *j, u32 d);
/* Sets each 32-bit lane of register v to `bytes` plus 4 times the lane's number in its group of
   16 bytes, per byte; bytes of 0x80 stay. Returns v. */
u32 sg_jit_pattern(struct jit *j, u32 v, u32 bytes);

static inline struct buf *B(struct jit *j)
{
    return &j->b;
}

#endif
