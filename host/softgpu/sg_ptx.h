/* SPDX-License-Identifier: MIT */
/*
 * Inside the PTX front end: tokens, module symbols, and the decoder's working state.
 *
 * A module keeps a copy of its text. Parsing it finds kernels, functions and variables; a body is
 * decoded at first use, calls are expanded in place (so a return address needs no stack and the
 * lowest-instruction-first order of lanes stays right), registers are allocated to slots.
 */
#ifndef SG_PTX_H
#define SG_PTX_H

#include "sg_exec_core.h"

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
    SG_ERR_UNSUPPORTED = 801
};

/* Bounds on what hostile text can make us do. */
#define SG_MAX_VREGS (4u << 20)
#define SG_MAX_INSNS (2u << 20)     /* decoded instructions of one kernel, calls expanded */
#define SG_MAX_CALL_DEPTH 48
#define SG_MAX_SCOPES 256
#define SG_MAX_POOL (64u << 20)     /* bytes of the constant pool of one kernel */
#define SG_MAX_REGFILE (16u << 20)  /* bytes of registers of one warp */
#define SG_MAX_STATIC_SHARED (4u << 20)
#define SG_MAX_GLOBAL (1ull << 40)
#define SG_MAX_OPERANDS 8
#define SG_MAX_VEC 8
#define SG_MAX_MODS 16
#define SG_MAX_TYPES 6
#define SG_PTX_VERSION_MAX 91

/* ---- tokens ---- */
enum sg_tok_kind {
    SG_T_EOF,
    SG_T_ID,    /* identifier, with a leading %, $ or _ if written so */
    SG_T_DIR,   /* .name */
    SG_T_INT,   /* ival */
    SG_T_F32,   /* 0f........: bits in ival */
    SG_T_F64,   /* 0d................ or decimal: bits in ival */
    SG_T_STR,
    SG_T_PUNCT, /* one character, in ch */
    SG_T_BAD
};

struct sg_tok {
    enum sg_tok_kind kind;
    const char *s;
    uint32_t len;
    uint32_t line, col;
    uint64_t ival;
    char ch;
};

struct sg_lex {
    const char *p, *end;
    const char *line_start;
    uint32_t line;
    struct sg_tok tok; /* the current token */
};

void sg_lex_init(struct sg_lex *l, const char *p, const char *end, uint32_t line);
void sg_lex_next(struct sg_lex *l);
/* Reads an opcode with its modifiers, starting at the current identifier; then moves on. */
void sg_lex_opcode(struct sg_lex *l, char *buf, size_t size);
/* Current token must be '{': skips to behind the matching '}'. False: end of text. */
bool sg_lex_skip_block(struct sg_lex *l);
void sg_lex_skip_ws(struct sg_lex *l);
static inline bool sg_tok_is(const struct sg_lex *l, char c)
{
    return l->tok.kind == SG_T_PUNCT && l->tok.ch == c;
}
bool sg_tok_eq(const struct sg_tok *t, const char *s);

/* Fills diag from a token: always returns result. */
int sg_diag_at(struct sg_diag *diag, int result, uint32_t line, uint32_t col, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* ---- types ---- */
enum sg_type {
    SG_TY_NONE,
    SG_TY_B8, SG_TY_U8, SG_TY_S8,
    SG_TY_B16, SG_TY_U16, SG_TY_S16, SG_TY_F16, SG_TY_BF16,
    SG_TY_B32, SG_TY_U32, SG_TY_S32, SG_TY_F32, SG_TY_F16X2, SG_TY_BF16X2, SG_TY_TF32,
    SG_TY_B64, SG_TY_U64, SG_TY_S64, SG_TY_F64,
    SG_TY_B128,
    SG_TY_PRED,
    SG_TY_E4M3X2, SG_TY_E5M2X2, SG_TY_E4M3, SG_TY_E5M2,
    SG_TY_U16X2, SG_TY_S16X2,
    SG_TY_F32X2,
    SG_TY_COUNT
};
enum sg_type sg_type_of(const char *s, size_t len); /* without the dot; SG_TY_NONE: not a type */
uint32_t sg_type_size(enum sg_type t);              /* bytes; 0 for pred */
const char *sg_type_name(enum sg_type t);
bool sg_type_signed(enum sg_type t);
bool sg_type_float(enum sg_type t);

/* ---- symbols ---- */
struct sg_sym {
    const char *name; /* in the text */
    uint32_t len;
    uint32_t frame;   /* 0: module; else one per function body or scope */
    uint32_t kind;
    uint32_t index;
    uint32_t next;    /* hash chain, 1-based */
};

struct sg_symtab {
    struct sg_sym *syms;
    uint32_t n, cap;
    uint32_t *buckets;
    uint32_t nbuckets;
};
struct sg_sym *sg_sym_find(const struct sg_symtab *t, uint32_t frame, const char *s, uint32_t len);
struct sg_sym *sg_sym_add(struct sg_symtab *t, uint32_t frame, const char *s, uint32_t len,
                          uint32_t kind, uint32_t index); /* NULL: out of memory */
void sg_sym_free(struct sg_symtab *t);

enum sg_sym_kind { /* at module level and in bodies */
    SG_K_GLOBAL = 1, /* index: globals[] (.global and .const) */
    SG_K_SHARED,     /* index: shared variable table */
    SG_K_FUNC,       /* index: funcs[] */
    SG_K_ENTRY,
    SG_K_OPAQUE,     /* texture, surface, sampler; index: opaques[] */
    SG_K_REG,        /* bodies: virtual register */
    SG_K_RANGE,      /* bodies: %r<n>; index: ranges[] */
    SG_K_VECTOR,     /* bodies: .reg .v2 or .v4; index: ranges[], whose registers follow each other */
    SG_K_LOCAL,      /* bodies: local or call parameter; index: lvars[] */
    SG_K_PARAM,      /* bodies: kernel parameter; index */
    SG_K_LABEL,
    SG_K_TARGETS     /* bodies: .branchtargets; index: list */
};

struct sg_var {
    char *name;
    uint64_t size;
    uint32_t align;
    enum sg_type type;
    uint32_t dims[8], ndims;
    bool is_const, is_managed, is_extern, is_shared;
    bool unsized;
    uint64_t address;    /* global: where the driver put it */
    const char *init;    /* text of the initialiser or NULL */
    uint32_t init_line;
    bool has_data;       /* of a cubin: its initial value lies at m->text + data_at */
    uint64_t data_at;
};

/* A module-level texture, surface or sampler variable. */
struct sg_opaque {
    char *name;
    enum sg_opaque_kind kind;
    uint64_t handle;
    const char *init; /* text of the initialiser or NULL */
    uint32_t init_line;
};

/* A parameter as declared. */
struct sg_pdecl {
    const char *name;
    uint32_t len;
    enum sg_type type;
    uint32_t size, align, offset;
    bool is_reg;
};

struct sg_func {
    char *name;
    bool is_entry, is_extern;
    struct sg_pdecl *params;
    uint32_t nparams;
    struct sg_pdecl *rets;
    uint32_t nrets;
    const char *body; /* behind the '{', NULL: declaration only */
    const char *body_end;
    uint32_t body_line;
    uint32_t maxntid[3], reqntid[3];
    uint32_t maxnreg; /* 0: not said */
    int32_t alias; /* funcs[] index or -1 */
    uint32_t kernel; /* kernels[] index + 1, 0: none */
    bool taken;      /* its address is used somewhere; see sg_module_find_taken() */
};

#define SG_RELOC_OPAQUE 0x40000000u /* in sg_reloc.global: of the opaques; nothing has so many */
/* A place in the constant pool that holds the address of a global. */
struct sg_reloc {
    uint32_t offset, global;
    int64_t addend;
};

/* A place in the initial values of a cubin (m->text) that holds the address of a variable. */
struct sg_data_reloc {
    uint64_t at;
    int64_t addend;
    uint32_t var;
};

/* Instructions that are run before blocks are, for each warp (sg_ptx_hoist.c). */
enum { SG_AHEAD_LAUNCH, SG_AHEAD_ROW, SG_AHEAD_COUNT }; /* once a launch; once for each %ctaid.y and .z */
struct sg_ahead {
    struct sg_insn *insns;
    uint32_t n;
    sg_fn native; /* all of them; NULL: none */
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
    uint32_t *targets; /* branch target lists of brx.idx */
    uint32_t ntargets;
    uint32_t *calls; /* of each real call: see enum sg_call_word; NULL: none */
    uint32_t ncall_words;
    uint32_t regfile_bytes;
    uint32_t sreg_used[2];    /* bits of enum sg_sreg */
    uint32_t sreg_offset[64];
    uint32_t static_shared, dynamic_base; /* dynamic shared memory begins here */
    uint32_t local_bytes;
    uint32_t nranges; /* the instructions' idx are below it */
    uint32_t num_regs;
    uint32_t mxcsr;
    bool ordered; /* adds floating point numbers atomically: the order of blocks shows */
    bool launches; /* calls the device runtime: kernels that launch kernels */
    struct sg_ahead ahead[SG_AHEAD_COUNT];
    bool zero_regs; /* some register may be read before it is set */
    uint32_t hoisted_regs; /* registers of 32 bits that what is run ahead fills */
    /* for native code (sg_jit.h) */
    uint8_t *flat; /* of each 128 bytes below slots_begin: 1, 2: here begins a value of 32 or 64 bits
                    * that is the same in every lane; 0: none. NULL: no such */
    uint8_t *fields; /* of each instruction: SG_F_* defined (0x80: not in every lane), used */
    uint32_t slots_begin, slots_end; /* offsets of virtual registers that are not predicates */
    uint32_t slots32;                /* from here on they have 32 bits */
    void *jit;
    size_t jit_bytes;
    sg_fn *handlers; /* those of the instructions, where native code took their place */
};

/*
 * What a real call (sg_ptx_call.c) needs, in sg_code.calls from in->aux on: the frames' sizes in bytes,
 * the number of registers that live across it and of the 4-byte words that they have, then one word
 * for each: its class in the upper two bits, its byte offset in the register file below.
 */
enum sg_call_word { SG_CALL_CALLER, SG_CALL_CALLEE, SG_CALL_NREGS, SG_CALL_WORDS, SG_CALL_REGS };
enum { SG_CALL_PRED, SG_CALL_32, SG_CALL_64 }; /* the classes, as in sg_ptx_dec.h */
/* Bytes of stack per byte of CU_LIMIT_STACK_SIZE, for frames and again for saved registers: what is
 * kept in registers on a GPU takes more room here. */
#define SG_STACK_FACTOR 2u
#define SG_STACK_DEFAULT 1024u /* CUDA's default limit */

enum sg_sreg {
    SG_SR_TID_X, SG_SR_TID_Y, SG_SR_TID_Z,
    SG_SR_NTID_X, SG_SR_NTID_Y, SG_SR_NTID_Z,
    SG_SR_CTAID_X, SG_SR_CTAID_Y, SG_SR_CTAID_Z,
    SG_SR_NCTAID_X, SG_SR_NCTAID_Y, SG_SR_NCTAID_Z,
    SG_SR_LANEID, SG_SR_WARPID, SG_SR_NWARPID, SG_SR_SMID, SG_SR_NSMID,
    SG_SR_LANEMASK_EQ, SG_SR_LANEMASK_LE, SG_SR_LANEMASK_LT, SG_SR_LANEMASK_GE,
    SG_SR_LANEMASK_GT, SG_SR_ENVREG1, SG_SR_ENVREG2,
    SG_SR_FRAME, /* where the frame of the running function begins in local memory */
    SG_SR_TOP,   /* where the memory of alloca begins: it grows down from the end */
    SG_SR_DYN_SMEM, SG_SR_TOTAL_SMEM, SG_SR_ZERO, SG_SR_ONE, SG_SR_GRIDID,
    SG_SR_COUNT
};

/* Does the kernel use alloca? */
static inline bool sg_code_has_top(const struct sg_code *c)
{
    return c->sreg_used[SG_SR_TOP / 32] >> (SG_SR_TOP % 32) & 1;
}

struct sg_kernel {
    struct sg_module *module;
    uint32_t func; /* funcs[] */
    struct sg_param *params;
    uint32_t param_bytes;
    pthread_mutex_t lock;
    int state; /* 0: not decoded, 1: decoded, 2: refused (result, diag) */
    int result;
    bool relocated;
    struct sg_diag diag;
    struct sg_code code;
};

struct sg_module {
    char *text;
    size_t len;
    pthread_mutex_t lock;
    bool taken_known;
    uint32_t version, target; /* 90, 80 */
    bool target_suffix;
    uint32_t address_size;
    uint32_t max_registers; /* of every kernel; 0: no limit */
    struct sg_symtab symtab;
    struct sg_var *vars; /* globals and constants */
    uint32_t nvars, cap_vars;
    struct sg_opaque *opaques;
    uint32_t nopaques, cap_opaques;
    struct sg_var *shared; /* .shared at module level */
    uint32_t nshared, cap_shared;
    struct sg_func *funcs;
    uint32_t nfuncs, cap_funcs;
    struct sg_kernel **kernels;
    uint32_t nkernels, cap_kernels;
    bool is_sass; /* of a cubin: text holds initial values, kernels cannot be decoded */
    struct sg_data_reloc *data_relocs;
    uint32_t ndata_relocs, cap_data_relocs;
};

/* What a pointer to a function looks like: only compared, never followed. 0: too many. */
static inline uint64_t sg_func_address(uint32_t index)
{
    return index < SG_WIN_CODE_SIZE / 16 && sg_win.code ? sg_win.code + index * 16ull : 0;
}

/* Finds the functions whose address is taken, by an initialiser or a mov (sg_ptx_init.c). */
void sg_module_find_taken(struct sg_module *m);

/* Writes the initial values of a cubin's variables (sg_sass.c). */
void sg_sass_init_globals(struct sg_module *m);

/* Grows *p so that index n exists (cap doubled); false: out of memory. */
bool sg_grow(void *p, uint32_t *cap, uint32_t n, size_t elem);

/* ---- declarations, shared by module and bodies (sg_ptx_decl.c) ---- */

/* Does CUDA itself offer this function to device code? */
bool sg_is_builtin(const char *name);
struct sg_decl {
    struct sg_var v;
    const char *name;
    uint32_t name_len, line, col;
    uint32_t range; /* %r<range>; 0: none */
    uint32_t vec;   /* .v2 .v4: 2, 4; else 1 */
    bool opaque;
    enum sg_opaque_kind opaque_kind;
};
/* Parses qualifiers and type up to the first name; then one name with its dimensions. */
int sg_decl_head(struct sg_lex *l, struct sg_decl *d, struct sg_diag *diag);
int sg_decl_name(struct sg_lex *l, struct sg_decl *d, struct sg_diag *diag);
int sg_parse_params(struct sg_lex *l, struct sg_pdecl **out, uint32_t *n, struct sg_diag *diag);
int sg_init_count(struct sg_lex *l, uint64_t *n, struct sg_diag *diag);

/* Decodes the body of a kernel into k->code (sg_ptx_body.c). */
int sg_decode(struct sg_kernel *k, struct sg_diag *diag);
void sg_code_free(struct sg_code *c);
/* The address or handle that a place needs, without the addend; 0: not known yet. */
uint64_t sg_reloc_value(const struct sg_module *m, const struct sg_reloc *r);
void sg_code_relocate(struct sg_module *m, struct sg_code *c);

#endif
