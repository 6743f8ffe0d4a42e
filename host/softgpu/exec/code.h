/* SPDX-License-Identifier: MIT */
/* A decoded kernel: produced by the front end, executed by the interpreter, compiled to native code. */
#ifndef SG_CODE_H
#define SG_CODE_H

#include "exec/core.h"

#include <stdlib.h>

/* CUresult values used here, so that cuda.h is not needed. */
enum {
    SG_OK = 0,
    SG_ERR_VALUE = 1,
    SG_ERR_NOMEM = 2,
    SG_ERR_IMAGE = 200,
    SG_ERR_NO_BINARY = 209,
    SG_ERR_PTX = 218,
    SG_ERR_PTX_VERSION = 222,
    SG_ERR_ADDRESS = 700,
    SG_ERR_RESOURCES = 701,
    SG_ERR_TIMEOUT = 702,
    SG_ERR_ASSERT = 710,
    SG_ERR_STACK = 714,
    SG_ERR_ILLEGAL_INSN = 715,
    SG_ERR_MISALIGNED = 716,
    SG_ERR_ADDRESS_SPACE = 717,
    SG_ERR_FAILED = 719,
    SG_ERR_UNSUPPORTED = 801,
    SG_ERR_CLUSTER = 912
};

/* ---- types ---- */
enum sg_type {
    SG_TY_NONE,
    SG_TY_B8,
    SG_TY_U8,
    SG_TY_S8,
    SG_TY_B16,
    SG_TY_U16,
    SG_TY_S16,
    SG_TY_F16,
    SG_TY_BF16,
    SG_TY_B32,
    SG_TY_U32,
    SG_TY_S32,
    SG_TY_F32,
    SG_TY_F16X2,
    SG_TY_BF16X2,
    SG_TY_TF32,
    SG_TY_B64,
    SG_TY_U64,
    SG_TY_S64,
    SG_TY_F64,
    SG_TY_B128,
    SG_TY_PRED,
    SG_TY_E4M3X2,
    SG_TY_E5M2X2,
    SG_TY_E4M3,
    SG_TY_E5M2,
    SG_TY_U16X2,
    SG_TY_S16X2,
    SG_TY_F32X2, /* from here on: of instructions only, not of variables */
    SG_TY_E2M1X2,
    SG_TY_E2M3X2,
    SG_TY_E3M2X2,
    SG_TY_UE8M0X2,
    SG_TY_E4M3X4,
    SG_TY_E5M2X4,
    SG_TY_E2M1X4,
    SG_TY_E2M3X4,
    SG_TY_E3M2X4,
    SG_TY_E2M1,
    SG_TY_E2M3,
    SG_TY_E3M2,
    SG_TY_COUNT
};
enum sg_type sg_type_of(const char *s, size_t len); /* without the dot; SG_TY_NONE: not a type */
uint32_t sg_type_size(enum sg_type t);              /* bytes; 0 for pred */
const char *sg_type_name(enum sg_type t);
bool sg_type_signed(enum sg_type t);
bool sg_type_float(enum sg_type t);

/* In sg_reloc.global: index into opaques; higher than any index of globals. */
#define SG_RELOC_OPAQUE 0x40000000u
/* A place in the constant pool that holds the address of a global. */
struct sg_reloc {
    uint32_t offset, global;
    int64_t addend;
};

/* Instructions that run ahead of blocks, for each warp (ptx/hoist/sg_ptx_hoist.c). */
enum { SG_AHEAD_LAUNCH, SG_AHEAD_ROW, SG_AHEAD_COUNT }; /* once per launch; per %ctaid.y and .z */
struct sg_ahead {
    struct sg_insn *insns;
    uint32_t n;
    sg_fn native; /* native code for all of them; NULL: none */
};

#define SG_FLAT_UNITS 512u /* of 128 bytes: upper bound for special registers and hoisted values */

/* Addresses of the constant variables of a module: ascending, without overlaps. */
struct sg_const_space {
    uint32_t n;
    struct sg_const_range {
        uint64_t start, size; /* bytes */
    } at[];
};

/* A decoded kernel. */
struct sg_code {
    const char *name;
    struct sg_insn *insns;
    uint32_t ninsns;
    uint8_t *pool;
    uint32_t pool_bytes;
    struct sg_reloc *relocs;
    uint32_t nrelocs;
    uint32_t *targets; /* target lists of brx.idx */
    uint32_t ntargets;
    uint32_t *calls; /* data of each real call: see enum sg_call_word; NULL: none */
    uint32_t ncall_words;
    uint32_t regfile_bytes;
    uint32_t sreg_used[2]; /* bit mask of enum sg_sreg */
    uint32_t sreg_offset[64];
    uint32_t static_shared, dynamic_base; /* dynamic_base: start of dynamic shared memory */
    uint32_t local_bytes;
    uint32_t nranges; /* upper bound of the instructions' idx */
    uint32_t num_regs;
    uint32_t mxcsr;
    bool tensor;     /* uses tensor memory */
    bool ordered;    /* adds floating-point numbers atomically: the result depends on block order */
    bool launches;   /* calls the device runtime: kernels that launch kernels */
    bool prints;     /* calls printf() */
    bool allocates;  /* calls malloc() or free() */
    bool asks_const; /* has an isspacep of .const or .global, for which const_space is set */
    const struct sg_const_space *const_space; /* the module's */
    struct sg_ahead ahead[SG_AHEAD_COUNT];
    bool zero_regs;        /* some register may be read before it is written */
    bool rows;             /* only for blocks whose rows are whole warps: sg_block_in_rows() */
    bool rows_help;        /* code for such blocks would have more uniform values */
    bool column;           /* only for blocks that are one thread wide: sg_block_is_column() */
    bool column_help;      /* code for such blocks would have more uniform values */
    uint32_t hoisted_regs; /* 32-bit registers written by the code that runs ahead */
    /* For native code (jit/jit.h). flat: per 128 bytes below slots_begin: 1, 2: start of a value of
       32 or 64 bits that is the same in every lane; 0: none. SG_FLAT_UNITS entries; NULL: no such
       values. */
    uint8_t *flat;
    uint8_t *fields;                 /* per instruction: SG_F_* defined (0x80: some lanes), used */
    uint32_t slots_begin, slots_end; /* range of the virtual registers that are not predicates */
    uint32_t slots32;                /* start of the 32-bit registers */
    void *jit;
    struct sg_window *windows; /* windows read by native code (jit/memory/windows.h) */
    struct sg_affine *affine;  /* its knowledge of addresses (jit/memory/affine.h) */
    uint32_t native_bytes;     /* bytes of each warp before its registers, a multiple of 128 */
    size_t jit_bytes;
    sg_fn *handlers;      /* handlers of the instructions that native code replaced */
    struct sg_late *late; /* native code that is compiled when it first runs (jit/late.h) */
};

/*
 * Data of a real call (ptx/sg_ptx_calls.c), in sg_code.calls from in->aux on: the frame sizes in bytes,
 * the number of registers live across the call and of their 4-byte words, then one word per
 * register: its class in the upper two bits, its byte offset in the register file below.
 */
enum sg_call_word { SG_CALL_CALLER, SG_CALL_CALLEE, SG_CALL_NREGS, SG_CALL_WORDS, SG_CALL_REGS };
enum { SG_CALL_PRED, SG_CALL_32, SG_CALL_64 }; /* register classes, as in ptx/decode.h */
/* Bytes of stack per byte of CU_LIMIT_STACK_SIZE, for frames and again for saved registers:
   values that a GPU keeps in registers take more room here. */
#define SG_STACK_FACTOR 2u
#define SG_STACK_DEFAULT 1024u /* CUDA's default limit */

enum sg_sreg {
    SG_SR_TID_X,
    SG_SR_TID_Y,
    SG_SR_TID_Z,
    SG_SR_NTID_X,
    SG_SR_NTID_Y,
    SG_SR_NTID_Z,
    SG_SR_CTAID_X,
    SG_SR_CTAID_Y,
    SG_SR_CTAID_Z,
    SG_SR_NCTAID_X,
    SG_SR_NCTAID_Y,
    SG_SR_NCTAID_Z,
    SG_SR_LANEID,
    SG_SR_WARPID,
    SG_SR_NWARPID,
    SG_SR_SMID,
    SG_SR_NSMID,
    SG_SR_LANEMASK_EQ,
    SG_SR_LANEMASK_LE,
    SG_SR_LANEMASK_LT,
    SG_SR_LANEMASK_GE,
    SG_SR_LANEMASK_GT,
    SG_SR_ENVREG1,
    SG_SR_ENVREG2,
    SG_SR_FRAME, /* offset of the running function's frame in local memory */
    SG_SR_TOP,   /* start of alloca memory, which grows down from the end of local memory */
    SG_SR_DYN_SMEM,
    SG_SR_TOTAL_SMEM,
    SG_SR_ZERO,
    SG_SR_ONE,
    SG_SR_GRIDID,
    /* per block */
    SG_SR_CLUSTERID_X,
    SG_SR_CLUSTERID_Y,
    SG_SR_CLUSTERID_Z,
    SG_SR_CLUSTER_CTAID_X,
    SG_SR_CLUSTER_CTAID_Y,
    SG_SR_CLUSTER_CTAID_Z,
    SG_SR_CLUSTER_CTARANK,
    /* per launch */
    SG_SR_NCLUSTERID_X,
    SG_SR_NCLUSTERID_Y,
    SG_SR_NCLUSTERID_Z,
    SG_SR_CLUSTER_NCTAID_X,
    SG_SR_CLUSTER_NCTAID_Y,
    SG_SR_CLUSTER_NCTAID_Z,
    SG_SR_CLUSTER_NCTARANK,
    SG_SR_EXPLICIT_CLUSTER, /* 0 or 1 */
    SG_SR_COUNT
};

/* True if the kernel uses the special register. */
static inline bool sg_sreg_there(const struct sg_code *c, uint32_t r)
{
    return c->sreg_used[r / 32] >> (r & 31) & 1;
}

/* True if the special register is the same in every lane of a warp. */
static inline bool sg_sreg_flat(uint32_t r)
{
    return r > SG_SR_TID_Z && r != SG_SR_LANEID && r != SG_SR_FRAME && r != SG_SR_TOP &&
           (r < SG_SR_LANEMASK_EQ || r > SG_SR_LANEMASK_GT) && r < SG_SR_COUNT;
}

/* As sg_sreg_flat(), in the code of a kernel. */
static inline bool sg_code_sreg_flat(const struct sg_code *c, uint32_t r)
{
    return (c->rows && (r == SG_SR_TID_Y || r == SG_SR_TID_Z)) || (c->column && r == SG_SR_TID_X) ||
           sg_sreg_flat(r);
}

/* True if the threads of each warp of such a block lie in one row, in the order of %tid.x. */
static inline bool sg_block_in_rows(const uint32_t block[3])
{
    return block[0] % SG_LANES == 0;
}

/* True if %tid.x is 0 in all threads of such a block, and there are several. */
static inline bool sg_block_is_column(const uint32_t block[3])
{
    return block[0] == 1 && (block[1] > 1 || block[2] > 1);
}

/* True if the kernel reads its block's position in the cluster, or the cluster's position. */
static inline bool sg_code_has_cluster(const struct sg_code *c)
{
    const uint64_t used = c->sreg_used[0] | (uint64_t)c->sreg_used[1] << 32;

    return used >> SG_SR_CLUSTERID_X & ((1u << (SG_SR_CLUSTER_CTARANK - SG_SR_CLUSTERID_X + 1)) - 1);
}

/* True if the kernel uses alloca. */
static inline bool sg_code_has_top(const struct sg_code *c)
{
    return c->sreg_used[SG_SR_TOP / 32] >> (SG_SR_TOP % 32) & 1;
}

/* Which constants are addresses, which may still change: a bit per 128 bytes of the pool, to be
   freed. NULL: out of memory. */
static inline uint8_t *sg_code_addresses(const struct sg_code *c)
{
    uint8_t *bits = (uint8_t *)calloc((c->pool_bytes >> 10) + 1, 1);

    for (uint32_t i = 0; i < c->nrelocs && bits; i++)
        bits[c->relocs[i].offset >> 10] |= (uint8_t)(1u << (c->relocs[i].offset >> 7 & 7));
    return bits;
}

/* True if the constant at this offset of the pool is one of them. */
static inline bool sg_addresses_have(const uint8_t *bits, uint32_t offset)
{
    return bits[offset >> 10] >> (offset >> 7 & 7) & 1;
}

/* Front-end operations on a kernel that the front end created. */
struct sg_kernel_ops {
    /* Decodes the kernel if that has not been done: sg_kernel_prepare(). */
    int (*prepare)(struct sg_kernel *k, struct sg_diag *diag);
    /* The code of a prepared kernel for blocks of that size: sg_kernel_code(). */
    const struct sg_code *(*code)(struct sg_kernel *k, const uint32_t block[3]);
    /* The kernel of the same module at an address used by device code. NULL: no kernel. */
    struct sg_kernel *(*at)(const struct sg_kernel *k, uint64_t address);
};

struct sg_kernel {
    const struct sg_kernel_ops *ops;
    struct sg_module *module;
    uint32_t func; /* index into funcs[] */
    struct sg_param *params;
    uint32_t param_bytes;
    uint32_t cluster[3]; /* .reqnctapercluster; 0,0,0: none */
    pthread_mutex_t lock;
    int state; /* 0: not decoded, 1: decoded, 2: refused (result, diag) */
    int result;
    bool relocated;
    struct sg_diag diag;
    struct sg_code code;
    /* native code of `code`, and the two below, have been attempted */
    _Atomic bool compiled;
    bool rows_tried, column_tried;
    struct sg_code *rows;   /* for blocks of whole rows (`code.rows_help`); NULL: none */
    struct sg_code *column; /* for blocks that are one thread wide (`code.column_help`); NULL: none */
};

/*
 * Verifies that the finished instructions of a kernel with param_bytes of parameters are safe to
 * run. Returns SG_OK, or an error with the reason in why. Call before native code is generated
 * (exec/sg_verify.c).
 */
int sg_code_verify(const struct sg_code *c, uint32_t param_bytes, char *why, size_t size);

/* The value of a function pointer: compared, never dereferenced. 0: too many functions. */
static inline uint64_t sg_func_address(uint32_t index)
{
    return index < SG_WIN_CODE_SIZE / 16 && sg_win.code ? sg_win.code + index * 16ull : 0;
}

/* The handler of an instruction as decoded, even where native code has replaced it. */
static inline sg_fn sg_code_handler(const struct sg_code *c, const struct sg_insn *in)
{
    return c->handlers ? c->handlers[in - c->insns] : in->fn;
}

#endif
