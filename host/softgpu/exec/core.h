/* SPDX-License-Identifier: MIT */
/*
 * The interpreter's bytecode and the state that it operates on.
 *
 * A virtual register is a slot of 32 lanes: 128 bytes for types of up to 32 bits (8- and 16-bit
 * values use the low bits; the bits above are never read), 256 bytes for 64-bit types, and one
 * 32-bit word, one bit per lane, for a predicate. An operand is a byte offset into the warp's
 * register file or, with SG_OPND_CONST set, into the kernel's constant pool, so immediates cost
 * nothing per warp and handlers have a single form.
 */
#ifndef SG_EXEC_CORE_H
#define SG_EXEC_CORE_H

#include "exec/exec.h"
#include "exec/table/ops.h"
#include "memory/bounds.h"

#include <pthread.h>
#include <setjmp.h>

#define SG_LANES SG_WARP_SIZE
#define SG_FULL 0xffffffffu
#define SG_OPND_CONST 0x80000000u /* the operand lies in the constant pool */
#define SG_OPND_FIXED 0x40000000u /* during decoding only: a final offset, not a virtual register */
#define SG_OPND_NONE 0x3fffffffu  /* during decoding only: unused field */

/* Return values of a handler to the run loop. */
enum sg_step {
    SG_NEXT = 0, /* continue with the next instruction */
    SG_JUMP,     /* continue at w->ip */
    SG_RESCHED,  /* w->ip is set; select the running lanes again */
    SG_BLOCKED,  /* the lanes were suspended (barrier, sync, exit); w->mask is invalid */
    SG_PARKED,   /* all lanes wait, as they are, at the barrier of w->ip: w->at_bar */
    SG_YIELD,    /* w->ip is set; the time slice has expired */
    SG_FAULTED   /* cta->fault is filled */
};

enum sg_space { SG_SP_GENERIC, SG_SP_GLOBAL, SG_SP_SHARED, SG_SP_LOCAL, SG_SP_PARAM, SG_SP_CONST };

struct sg_warp;
struct sg_insn;
typedef int (*sg_fn)(struct sg_warp *w, const struct sg_insn *in);

#define SG_FIELDS 5
/* A decoded instruction. Fields d..e are operands; the handler defines their meaning. */
struct sg_insn {
    sg_fn fn;
    uint32_t d, a, b, c, e;
    uint32_t line; /* line of the PTX text */
    int64_t imm;
    uint32_t aux; /* memory: SG_AUX_* bits; control: span or count */
    uint32_t idx; /* key of the range cache */
};

/* imm of video instructions on bytes and halves; bits 8 and up: mask of the lanes that are summed. */
#define SG_SIMD_ADD 1 /* the sum is added to c */
#define SG_SIMD_SAT 2
#define SG_SIMD_SA 4 /* a, b, the result: signed */
#define SG_SIMD_SB 8
#define SG_SIMD_SD 16
/* imm of vmad; from bit 8 on the shift to the right. */
#define SG_VMAD_SA 1 /* a, b, the result: signed */
#define SG_VMAD_SB 2
#define SG_VMAD_SD 4
#define SG_VMAD_PO 8
#define SG_VMAD_NEG_AB 16
#define SG_VMAD_NEG_C 32
#define SG_VMAD_SAT 64

/* aux of ldmatrix.b8: size of an element in memory, if it is not 8 bits. */
#define SG_MATRIX_4BIT 32u
#define SG_MATRIX_6BIT 64u

/* imm of bulk.copy and bulk.reduce. */
#define SG_BULK_TO_SHARED 1
#define SG_BULK_FROM_SHARED 2
#define SG_BULK_BARRIER 4
#define SG_BULK_MULTICAST 8 /* to each block of the cluster whose bit in e is set */

/* imm of tensor copies: number of dimensions, mode; SG_TENSOR_PAIR: .cta_group::2. aux of reductions: the
   number in sg_bulk_reductions[]. */
#define SG_TENSOR_MODE_SHIFT 3
#define SG_TENSOR_DIMS(x) ((uint32_t)(x)&7u)
#define SG_TENSOR_MODE(x) ((uint32_t)(x) >> SG_TENSOR_MODE_SHIFT & 3u)
#define SG_TENSOR_PAIR 32
enum sg_tensor_mode { SG_TENSOR_TILE, SG_TENSOR_FOUR_ROWS, SG_TENSOR_IM2COL };
/* imm of tensor.map.replace: the field, then the dimension from bit 8 on. */
enum sg_tensor_field {
    SG_TF_GLOBAL_ADDRESS,
    SG_TF_RANK,
    SG_TF_BOX_DIM,
    SG_TF_GLOBAL_DIM,
    SG_TF_GLOBAL_STRIDE,
    SG_TF_ELEMENT_STRIDE,
    SG_TF_ELEMTYPE,
    SG_TF_INTERLEAVE_LAYOUT,
    SG_TF_SWIZZLE_MODE,
    SG_TF_SWIZZLE_ATOMICITY,
    SG_TF_FILL_MODE
};

/* aux of ld/st/atom: describes the access for the slow path. */
#define SG_AUX_SPACE(x) ((x)&7u)                 /* enum sg_space */
#define SG_AUX_ELEM(x) (1u << (((x) >> 3) & 3u)) /* element size in bytes: 1, 2, 4, 8 */
#define SG_AUX_SIGNED 0x20u                      /* elements are sign-extended to the register */
#define SG_AUX_VEC(x) (((x) >> 6) & 15u)         /* elements: 1, 2, 4 */
#define SG_AUX_WRITE 0x400u
#define SG_AUX_SPIN 0x800u    /* volatile, relaxed or acquire: may be part of a spin loop */
#define SG_AUX_ADDR32 0x1000u /* the address register is 32 bits wide */

/*
 * The meaning of an instruction's field to its handler: the width of the access. The rows of the
 * handlers' tables are the only source of this. sg_emit_x() checks each new instruction against
 * them, sg_code_verify() each instruction before it runs.
 */
enum sg_width {
    SG_W_NONE, /* ignored */
    SG_W_PRED, /* a 4-byte word */
    SG_W_32,
    SG_W_64,
    SG_W_ADDRESS, /* 32 bits if aux has SG_AUX_ADDR32, else 64 */
    SG_W_VARIES   /* depends on aux and imm: exec/sg_verify.c */
};
#define SG_W_KIND 7u
#define SG_W_OUT 8u       /* written: not a constant */
#define SG_W_OPTIONAL 16u /* presence depends on aux and imm */
/* An f32. Read: all NaNs are equivalent. Written: a NaN may not be canonical. */
#define SG_W_F32 32u
#define SG_W_CLEAN 64u /* written: an f32 whose NaNs are canonical (ptx/sg_ptx_canonical.c) */

/* Further conditions for an operation's handler to be safe (exec/sg_verify.c). */
enum sg_rule {
    /* computes its result from its operands without side effects: may run ahead of blocks */
    SG_R_PLAIN,
    SG_R_EFFECT, /* accesses only its operands, but has side effects */
    SG_R_INDEX,  /* imm is below arg */
    SG_R_BRA,
    SG_R_BRA_IF,
    SG_R_BRX,
    SG_R_EXIT,
    SG_R_EXIT_IF,
    SG_R_SPAN, /* the next aux instructions are part of it */
    SG_R_FPMODE,
    SG_R_FLAT,
    SG_R_SYNC,
    SG_R_ROOM,
    SG_R_CALL,
    SG_R_RETURN,
    SG_R_ALLOCA,
    SG_R_STACK,
    SG_R_LOAD,
    SG_R_STORE,
    SG_R_LOAD_P, /* arg: number of bytes */
    SG_R_CP_ASYNC,
    SG_R_BULK,
    SG_R_BULK_REDUCE,
    SG_R_CDP,
    SG_R_SURFACE, /* arg: a reduction of one element of 4 or 8 bytes */
    SG_R_MATRIX,
    /* the operands continue in the following "ext" */
    SG_R_ATOM128,
    SG_R_MMA, /* arg: types of c and d */
    SG_R_MMA_F64,
    SG_R_MMA_F64_16,
    SG_R_MMA_SUB,
    SG_R_MMA_WIDE,
    SG_R_WMMA,
    SG_R_WGMMA,
    SG_R_TCGEN05,      /* the block has tensor memory; also of the following */
    SG_R_TCGEN05_MOVE, /* arg: set for a load */
    SG_R_TCGEN05_CP,
    SG_R_TCGEN05_MMA,
    SG_R_WMMA_MOVE, /* arg: set for a load */
    SG_R_WMMA_LANE
};

/* An operation, identified by its canonical name, which all instruction-set variants share. */
struct sg_opdef {
    const char *name;
    sg_fn fn;
    uint8_t field[SG_FIELDS]; /* per field d, a, b, c, e: enum sg_width and flags */
    uint8_t rule, arg;
    uint16_t op; /* enum sg_op */
};
/* True if the results depend on the operands alone and nothing else changes: it may run early, and repeatedly. */
static inline bool sg_op_is_pure(const struct sg_opdef *row)
{
    return row->rule == SG_R_PLAIN || row->rule == SG_R_LOAD_P;
}
const struct sg_opdef *sg_op_row(enum sg_op op);         /* for the processor; NULL: SG_OP_NONE */
sg_fn sg_op_fn(enum sg_op op);                           /* its handler */
enum sg_op sg_op_of(sg_fn fn);                           /* SG_OP_NONE: not a handler */
const struct sg_opdef *sg_op_def_of(sg_fn fn);           /* NULL: fn is not a handler */
void sg_op_each(void (*fn)(const struct sg_opdef *def)); /* for all operations; used by tests */
const char *sg_op_name(sg_fn fn);
const char *sg_op_isa(void); /* "base", "avx2" or "avx512"; VGPU_SOFT_ISA lowers it */

/* ---- windows: address ranges that contain no allocation ---- */
#define SG_WIN_SHARED_SIZE (16u << 20)
/*
 * shared::cluster: the block's own shared memory, then that of each block of the cluster by rank,
 * then a range of the same size without a block, the result of mapa for an invalid rank.
 */
#define SG_WIN_CLUSTER_SLOTS (1u + SG_CLUSTER_MAX + 1u)
#define SG_WIN_CLUSTER_SIZE (SG_WIN_CLUSTER_SLOTS * SG_WIN_SHARED_SIZE)
#define SG_WIN_LOCAL_SIZE (16u << 20)
#define SG_WIN_PARAM_SIZE (1u << 20)
#define SG_WIN_CODE_SIZE (64u << 20) /* function addresses, 16 bytes each; no memory lies there */
/* The barrier of a cooperative launch: every launch sees its own barrier at this address. */
#define SG_WIN_GRID_SIZE (64u << 10)
#define SG_GRID_WORKSPACE 64u     /* bytes: the size, then the barrier word of cooperative groups */
#define SG_MAX_LOCAL (512u << 10) /* CUDA: local memory per thread */
struct sg_windows {
    uint64_t shared, local, param, code, grid;
};
extern struct sg_windows sg_win; /* zero until sg_windows_init() */
bool sg_windows_init(void);
/*
 * Reserves addresses visible to kernels, with mmap's protection. MAP_FAILED: none. They lie in a
 * range of their own, so that they reveal nothing about the location of the process's code, stacks
 * and heap.
 */
void *sg_guest_reserve(size_t size, int prot);

#define SG_NOWHERE 0xffffffe0u /* stays outside its window whatever displacement is added */

/* ---- lanes ---- */
enum sg_gstate { SG_G_RUN, SG_G_BAR, SG_G_SYNC };

/* Lanes of a warp at the same instruction. */
struct sg_group {
    const struct sg_insn *ip;
    uint32_t mask;
    uint32_t want; /* SG_G_SYNC: lanes that the group waits for */
    uint8_t state;
    uint8_t bar;
};

struct sg_cta;

#define SG_NATIVE_GROUPS 16
#define SG_NATIVE_SUMS 20    /* sums of native code (jit/memory/sg_jit_sums.c) at a time */
#define SG_NATIVE_SITES 255  /* loads from them, in all of a kernel */
#define SG_NATIVE_AFFINE 16  /* blocks with affine values (jit/memory/affine.h) */
#define SG_NATIVE_BYTES 8192 /* a warp's storage for their distances */

struct sg_warp {
    uint8_t *base[2]; /* registers, constant pool */
    uint32_t mask;    /* lanes that execute */
    uint32_t wmask;   /* lanes that results may be written to: mask and lanes that have exited */
    uint32_t alive;
    uint32_t cc; /* carry flag per lane */
    const struct sg_insn *ip;
    const struct sg_insn *min_wait; /* lowest instruction at which other lanes wait */
    struct sg_cta *cta;
    uint8_t *local; /* words of 4 bytes, interleaved by lane */
    int32_t budget; /* back edges left in the time slice */
    uint32_t slices;
    bool spin;      /* this slice ran an instruction that may be part of a spin loop */
    bool hold;      /* a group other than the lowest is scheduled */
    uint8_t at_bar; /* 1 + number of the barrier at which the whole warp waits; 0: none */
    uint8_t bar_kind;
    /* native code: lanes that resume after a branch over a few instructions */
    uint32_t native_mask;
    /* native code: knowledge of the addresses of a group of loads (jit/state.h) */
    uint8_t native_ok[SG_NATIVE_GROUPS];
    /* native code: uniform parts of sums; how the lanes of loads from them lie (jit/memory/sums.h) */
    uint64_t sums[SG_NATIVE_SUMS];
    uint8_t lie[SG_NATIVE_SITES];
    /* native code, for each block with affine values: whether their distances are known, how often
       they changed in the launch */
    uint8_t affine[SG_NATIVE_AFFINE], affine_misses[SG_NATIVE_AFFINE];
    /* no other lane can arrive: run the synchronising instruction now */
    bool sync_force;
    uint32_t ngroups; /* number of suspended groups */
    struct sg_group groups[SG_LANES];
    uint32_t index;   /* index in the CTA */
    uint32_t threads; /* number of threads */
    /* lanes that have arrived at barrier.cluster before the others */
    uint32_t cluster_in;
    /* stack of real calls: 4-byte words, interleaved by lane */
    uint32_t *stack;
    uint32_t sp[SG_LANES];                   /* words in use, per lane */
    const struct sg_insn *lane_ip[SG_LANES]; /* valid while lanes return to different places */
    uint32_t tid[3][SG_LANES];
};

/* A named barrier of a CTA. */
struct sg_barrier {
    uint32_t arrived;  /* arrived lanes, including lanes that have exited */
    uint32_t expected; /* 0: every thread of the CTA */
    uint32_t popc;
    bool all, any;
    bool active;
};

/*
 * Texture and surface instructions have more operands than an instruction has fields. tex.arg and
 * tex.val store operands here just before, and results are read just behind. Only one warp of a
 * block runs at a time, with nothing in between, so one copy per block suffices.
 */
enum sg_tex_arg {
    SG_TA_LAYER,
    SG_TA_COORD,
    SG_TA_LOD = 4,
    SG_TA_DX = 4,
    SG_TA_DY = 7,
    SG_TA_OFFSET = 10,
    SG_TA_COUNT = 13
};
/* Tensor copies store their coordinates and im2col offsets there. */
enum sg_tensor_arg { SG_TN_COORD, SG_TN_OFFSET = 5, SG_TN_OFFSETS = 3 };
struct sg_tex_scratch {
    uint32_t arg[SG_TA_COUNT][SG_LANES];
    uint64_t val[4][SG_LANES];
};
#define SG_TEX_CACHE 8 /* power of two */
struct sg_tex_cached {
    uint64_t handle;
    bool surface;
    const struct sg_texture *t; /* NULL: empty */
};

/* aux of texture and surface operations. */
#define SG_TX_DIMS(x) ((x)&3u)
#define SG_TX_CUBE 0x4u
#define SG_TX_LAYERED 0x8u
#define SG_TX_INT 0x10u /* coordinates are integers */
#define SG_TX_GRAD 0x20u
#define SG_TX_F16 0x40u               /* results are halves */
#define SG_TX_F16X2 0x80u             /* results are pairs of halves in a register */
#define SG_TX_COMP(x) ((x) >> 8 & 3u) /* tld4 */
/* Surfaces: vector elements, bytes per element, out-of-bounds mode, formatted. */
#define SG_TX_VEC(x) ((x) >> 10 & 7u)
#define SG_TX_BYTES(x) (1u << ((x) >> 13 & 3u))
#define SG_TX_MODE(x) ((x) >> 15 & 3u)
#define SG_TX_FORMATTED 0x20000u
#define SG_TX_OP(x) ((x) >> 18 & 7u) /* sured */
#define SG_TX_SIGNED 0x200000u
enum sg_tx_mode { SG_TX_TRAP, SG_TX_CLAMP, SG_TX_ZERO };
enum sg_tx_op { SG_TX_ADD, SG_TX_MIN, SG_TX_MAX, SG_TX_AND, SG_TX_OR };
/* imm of tex.query. */
enum sg_tx_query {
    SG_TQ_WIDTH,
    SG_TQ_HEIGHT,
    SG_TQ_DEPTH,
    SG_TQ_CHANNEL_DATA_TYPE,
    SG_TQ_CHANNEL_ORDER,
    SG_TQ_NORMALIZED_COORDS,
    SG_TQ_ARRAY_SIZE,
    SG_TQ_NUM_MIPMAP_LEVELS,
    SG_TQ_NUM_SAMPLES,
    SG_TQ_FORCE_UNNORMALIZED_COORDS,
    SG_TQ_FILTER_MODE,
    SG_TQ_ADDR_MODE_0,
    SG_TQ_ADDR_MODE_1,
    SG_TQ_ADDR_MODE_2,
    SG_TQ_MEMORY_LAYOUT
};

#define SG_NBARRIERS 16
#define SG_RANGE_CACHE 256 /* power of two */

/* The response of clusterlaunchcontrol.try_cancel: the position of a block; whether it was cancelled. */
#define SG_CANCEL_WORDS 4
#define SG_CANCEL_DONE 3

struct sg_code; /* ptx/module.h */
struct sg_run;  /* a launch: exec/sg_pool.c */

struct sg_cta {
    struct sg_run *run;
    const struct sg_code *code;
    void *mem;
    uint8_t *shared;
    uint32_t shared_bytes;
    uint32_t *tensor;       /* tensor memory (exec/tcgen05); NULL: the kernel has no instruction of it */
    uint16_t tensor_used;   /* units of columns that are allocated */
    uint16_t tensor_starts; /* first units of allocations */
    bool tensor_closed;     /* the block allocates no more */
    uint32_t local_bytes;   /* per thread, including the frames of real calls */
    uint32_t stack_words;   /* per thread, for saved registers */
    const uint8_t *params;
    uint32_t param_bytes;
    uint32_t ctaid[3], ntid[3], nctaid[3];
    uint32_t nthreads, alive; /* threads that have not exited */
    uint32_t nwarps;
    uint32_t parked; /* warps of 32 threads waiting at barrier 0, not in bar[0] (jit/sg_jit_schedule.c) */
    /* Lets native code begin this thread's next block. NULL: all blocks run concurrently. */
    bool (*next_block)(struct sg_cta *c);
    uint64_t block;                   /* linear index of this block */
    uint64_t blocks_next, blocks_end; /* the blocks that this thread has taken and not begun */
    /* the launch has run a block here: special registers are initialised */
    bool started;
    struct sg_warp *warps, *warps_end;
    struct sg_warp *cur; /* running warp, or the last that ran: native code switches warps */
    struct sg_barrier bar[SG_NBARRIERS];
    uint32_t bars; /* bit mask of active barriers */
    /* A block outside any cluster is its own cluster. One thread runs all blocks of a cluster. */
    struct sg_cta *cluster; /* block of rank 0 */
    size_t cluster_stride;  /* bytes between consecutive blocks */
    uint32_t cluster_size, cluster_rank;
    uint32_t clusterid[3], cluster_ctaid[3];
    uint32_t cluster_arrived; /* threads of all blocks that have arrived at barrier.cluster */
    struct sg_mem_range cache[SG_RANGE_CACHE];
    uint64_t icount;
    uint32_t worker;    /* %smid */
    uint8_t *workspace; /* grid barrier of a cooperative launch (SG_GRID_WORKSPACE bytes) or NULL */
    struct sg_fault *fault;
    const struct sg_launch *launch;
    struct sg_tex_cached tex_cache[SG_TEX_CACHE];
    struct sg_tex_scratch tex;
};

/* ---- exec/cdp/sg_cdp_tree.c: kernels that launch kernels ---- */
typedef int sg_run_grid(const struct sg_launch *l, struct sg_fault *fault);
/* Adds the instructions of a grid: the watchdog limits a launch together with all grids it
   causes. */
void sg_tree_count(const struct sg_launch *l, uint64_t instructions);
/* Runs a grid and the grids launched by its threads; returns the result of the first that fails. */
int sg_run_tree(const struct sg_launch *l, struct sg_fault *fault, sg_run_grid *grid);

#define SG_SLICE 512       /* back edges that a warp may take before other warps are scheduled */
#define SG_EDGE_BYTES 4096 /* bytes moved by one instruction that count as one of them */

/* Charges an instruction whose cost grows with its operands: it ends a time slice as a loop does, and sees that the
   launch has ended as soon. Returns what the instruction's handler is to return; under a predicate, the last
   instruction alone may be charged. */
static inline int sg_charge(struct sg_warp *w, const struct sg_insn *in, uint64_t bytes)
{
    const uint64_t edges = bytes / SG_EDGE_BYTES;

    if (w->budget > 0)
        w->budget -= (int32_t)(edges < SG_SLICE ? edges : SG_SLICE);
    if (w->budget > 0)
        return SG_NEXT;
    w->ip = in + 1;
    return SG_YIELD;
}

/* ---- exec/sg_warp.c: selection of lanes ---- */
void sg_warp_set_mask(struct sg_warp *w, uint32_t mask);
void sg_warp_push(struct sg_warp *w, const struct sg_insn *ip, uint32_t mask, enum sg_gstate st);
bool sg_warp_pick(struct sg_warp *w);    /* false: no lane can run */
void sg_warp_resched(struct sg_warp *w); /* SG_RESCHED: selects the running lanes again */
/* SG_BLOCKED: returns whether other lanes of the warp can run */
bool sg_warp_blocked(struct sg_warp *w);
void sg_warp_find_min(struct sg_warp *w); /* call after groups changed from outside */
bool sg_warp_force(struct sg_warp *w);    /* releases lanes that wait for others of the warp */
/*
 * Runs w, and the warps that native code switches to: cta->cur is the last warp, whose state is
 * returned: SG_YIELD, SG_BLOCKED (nothing can run) or SG_FAULTED.
 */
int sg_warp_run(struct sg_warp *w);
int sg_run_span(struct sg_warp *w, const struct sg_insn *in, const struct sg_insn *end);
/* Joins lanes for a synchronising instruction. SG_NEXT: run it; otherwise return the result. */
int sg_warp_sync(struct sg_warp *w, const struct sg_insn *in, uint32_t want);

/* ---- exec/sg_cta.c ---- */
enum sg_bar_kind { SG_BAR_SYNC, SG_BAR_ARRIVE, SG_BAR_POPC, SG_BAR_AND, SG_BAR_OR };
/* The running lanes arrive at barrier id; in->c is the predicate and in->d the result of
   bar.red. */
int sg_bar_arrive(struct sg_warp *w, const struct sg_insn *in, uint32_t id, uint32_t count,
                  enum sg_bar_kind kind);
void sg_bar_exit(struct sg_cta *c, uint32_t lanes);
/* arrive: adds threads to the number of arrived threads in all blocks of the cluster; each block stores
   the sum for native code. check: releases the cluster if all its live threads have arrived. leave: takes
   back the arrival of threads that have exited. */
void sg_cluster_arrive(struct sg_cta *c, uint32_t threads);
void sg_cluster_check(struct sg_cta *c);
void sg_cluster_leave(struct sg_cta *c, uint32_t threads);
/*
 * Offset in the window at which the block of that rank sees offset `at` of a block. For an invalid
 * rank, or for an offset outside the window: the range without a block.
 */
uint64_t sg_cluster_map(const struct sg_cta *c, uint64_t at, uint32_t rank);
static inline struct sg_cta *sg_cluster_block(const struct sg_cta *c, uint32_t rank)
{
    return (struct sg_cta *)(void *)((uint8_t *)c->cluster + rank * c->cluster_stride);
}
/* The value of a barrier object after n arrivals and tx announced (or, if negative, completed)
   bytes. */
uint64_t sg_mbar_step(uint64_t v, uint32_t n, int32_t tx);
/* Records a fault from outside, at a running thread or, if none runs, a waiting thread. Returns
   false, with nothing recorded, if no thread is left. */
bool sg_cta_fault(struct sg_cta *c, int result, const char *what);
int sg_cta_slice(struct sg_cta *c); /* SG_NEXT: done; SG_YIELD: unfinished; SG_FAULTED */

/* ---- exec/sg_access.c: the checked, lane-by-lane path ---- */
int sg_fault_set(struct sg_warp *w, const struct sg_insn *in, uint32_t lane, int result, const char *what);
int sg_fault_addr(struct sg_warp *w, const struct sg_insn *in, uint32_t lane, int result, enum sg_space sp,
                  uint64_t addr, uint32_t size, bool write);
/*
 * Host address of size bytes at addr for that lane, or NULL with the fault recorded. Local memory
 * is not contiguous: for it *local receives the offset + 1, and the result is not NULL but must not
 * be used.
 */
void *sg_resolve(struct sg_warp *w, const struct sg_insn *in, uint32_t lane, enum sg_space sp, uint64_t addr,
                 uint32_t size, uint32_t align, bool write, uint32_t *local);
bool sg_lane_read(struct sg_warp *w, const struct sg_insn *in, uint32_t lane, enum sg_space sp, uint64_t addr,
                  void *buf, uint32_t size);
/* Caches the allocation accessed by the first running lane as the one to check first. Returns
   false, with nothing recorded, if that lane may not access it. */
bool sg_range_refill(struct sg_warp *w, const struct sg_insn *in, uint32_t size, bool write);
int sg_ld_slow(struct sg_warp *w, const struct sg_insn *in);
int sg_st_slow(struct sg_warp *w, const struct sg_insn *in);

#define SG_GENERATION() __atomic_load_n(&sg_mem_generation, __ATOMIC_ACQUIRE)

static inline uint8_t *sg_local_word(const struct sg_warp *w, uint32_t lane, uint32_t off)
{
    return w->local + (uint64_t)(off >> 2) * (4 * SG_LANES) + lane * 4 + (off & 3);
}

#endif
