/* SPDX-License-Identifier: MIT */
/* Working state of the decoder of a kernel: text -> bytecode on virtual registers -> slots. */
#ifndef SG_PTX_DEC_H
#define SG_PTX_DEC_H

#include "ptx/module.h"

struct sg_family;
struct sg_family_ops;

/*
 * Register classes. A .b128 register (SG_C_PAIR) has no slot; its halves are the next two
 * registers, of class SG_C_64. It is an ordinary class in every array, but never an operand of an
 * instruction: sg_emit_x().
 */
enum { SG_C_PRED, SG_C_32, SG_C_64, SG_C_PAIR, SG_C_COUNT };

struct sg_vreg {
    uint8_t cls;
    uint8_t type; /* declared type, enum sg_type */
    bool temp;    /* created by the decoder: defined immediately before its uses */
    uint32_t slot;
};

/* Fields of an instruction, as a bit mask. */
#define SG_F_D 1u
#define SG_F_A 2u
#define SG_F_B 4u
#define SG_F_C 8u
#define SG_F_E 16u

enum { SG_CT_NONE, SG_CT_BRA, SG_CT_BRX, SG_CT_EXIT, SG_CT_LABEL, SG_CT_CALL };

struct sg_meta {
    uint8_t def, use; /* SG_F_* */
    uint8_t ctl;      /* SG_CT_* */
    bool partial;     /* predicated: a definition does not end the old value */
};

enum sg_opnd_kind {
    SG_O_NONE,
    SG_O_REG,
    SG_O_IMM,
    SG_O_F32,
    SG_O_F64,
    SG_O_ADDR,
    SG_O_VEC,
    SG_O_LIST, /* more than SG_MAX_VEC elements, in sg_dec.list */
    SG_O_SREG,
    SG_O_SYM,
    SG_O_SINK,
    SG_O_NAME
};

/* Special registers whose value changes while a warp runs; numbered after enum sg_sreg. */
enum {
    SG_SR_CLOCK = 100,
    SG_SR_CLOCK_HI,
    SG_SR_CLOCK64,
    SG_SR_GLOBALTIMER,
    SG_SR_GLOBALTIMER_LO,
    SG_SR_GLOBALTIMER_HI,
    SG_SR_GRAPH_EXEC,
    SG_SR_ZERO64
};

struct sg_opel {
    uint8_t kind; /* REG, IMM, F32, F64, SINK, SREG */
    uint32_t v;
    uint64_t imm;
};

struct sg_opnd {
    uint8_t kind;
    uint8_t base;    /* ADDR: REG, SYM or NONE */
    uint8_t symkind; /* SYM, or ADDR with base SYM: SG_K_* */
    bool neg;        /* !p */
    bool minus;      /* -r */
    bool has_pq;
    bool pq_sink;     /* p|_ */
    uint32_t v;       /* vreg, special register, or index of the symbol */
    uint32_t pq;      /* second register of p|q */
    uint64_t imm;     /* value; offset of an address */
    char part[6];     /* REG: suffix of the name, .b0 .h1 .h10 .b3210 ... (without the dot) */
    bool element;     /* SYM: a[i], which memory accesses use as an address */
    uint32_t index;   /* SYM: a[%r], register + 1; 0: none */
    uint64_t scale;   /* bytes per element of that array */
    bool coords;      /* ADDR: [a, {...}] or [a, b, {...}]; the vector is in el */
    bool bare;        /* ADDR: one coordinate, without braces */
    bool has_sampler; /* ADDR: b, in sampler */
    bool sampler_sym; /* the sampler is a symbol */
    uint32_t sampler; /* register, or index of the symbol */
    const char *name;
    uint32_t name_len;
    uint32_t nel; /* VEC, LIST */
    struct sg_opel el[SG_MAX_VEC];
};

struct sg_range {
    uint32_t count;
    uint32_t first; /* for a vector: the register of its first element */
    uint8_t type;
};

/* Memory of the body: local variables, call parameters (both in local memory), shared variables. */
struct sg_lvar {
    uint32_t offset, size;
    bool shared, is_param;
    uint64_t element; /* stride of an array index, bytes; 0: not an array */
};

struct sg_label {
    uint32_t insn; /* UINT32_MAX: not defined yet */
    uint32_t line;
    uint32_t alias; /* the label of an enclosing scope that it refers to, + 1; 0: none */
};

/* A scope of a body (ptx/sg_ptx_scope.c). Indexes of definitions are stored + 1, 0: none, here and
   below. */
struct sg_scope {
    uint32_t frame;  /* number of the scope, in order of opening */
    uint32_t defs;   /* list of definitions in the scope */
    uint32_t labels; /* list of labels and target lists defined in the scope */
};

/* A definition, on the stack of definitions of its name. */
struct sg_def {
    uint32_t sym;   /* entry in the symbol table */
    uint32_t below; /* outer definition of the same name */
    uint32_t next;  /* next definition of the scope */
    uint32_t depth; /* depth of its scope */
    uint32_t kind, index;
    uint32_t count, larger, jump, rank; /* for a range: see find_larger() */
};

/* A label or a target list, on the stack of its name. */
struct sg_named_label {
    uint32_t sym, below, next;
    uint32_t frame; /* scope in which it is first used, or defined */
    uint32_t kind;  /* SG_K_LABEL or SG_K_TARGETS */
    uint32_t index; /* index of the label or list */
    bool gone;      /* removed from the stack */
};

/* The result of looking up a name. */
struct sg_named {
    uint32_t kind, index;
};

struct sg_opcode {
    char full[SG_MAX_OPCODE];
    const char *base;
    uint32_t ntypes, nmods;
    uint8_t types[SG_MAX_TYPES];
    const char *mods[SG_MAX_MODS]; /* without the dot, NUL-terminated, pointing into text */
    bool used[SG_MAX_MODS];
    char text[SG_MAX_OPCODE];
};

/* A spelling that has been found in the table of forms. */
#define SG_FORMS_SEEN 128
struct sg_form_seen {
    char full[SG_MAX_OPCODE];
    uint32_t nops; /* + 1; 0: none */
    bool known;
    bool open; /* .target and .version are sufficient for it */
    const struct form *form;
};

/* The predicate of an instruction; reg SG_OPND_NONE: unpredicated. */
struct sg_pred {
    uint32_t reg;
    bool neg;
};

/* A function that is called instead of being expanded in place (ptx/sg_ptx_calls.c). */
struct sg_proc {
    uint32_t func, label;
    uint32_t frame_bytes; /* bytes for parameters, results, local variables */
    bool done;
};

/* An instruction to be completed once the frame sizes are known. */
struct sg_site {
    uint32_t insn;
    uint32_t caller; /* procs[] index + 1, 0: the kernel */
    uint32_t callee; /* procs[] index of a call; UINT32_MAX: an access to the callee's frame */
    uint32_t room;   /* call: the instruction that reserves stack */
};

#define SG_RET_CALL UINT32_MAX /* ret_label value: return through the caller's stack */

struct sg_dec {
    struct sg_module *m;
    struct sg_kernel *k;
    struct sg_code *code;
    struct sg_diag *diag;
    struct sg_lex l;
    int err; /* first error; later ones are not reported */

    struct sg_vreg *vregs;
    uint32_t nvregs, cap_vregs;
    struct sg_insn *insns;
    uint32_t ninsns, cap_insns;
    struct sg_meta *metas;
    uint32_t cap_metas;

    struct sg_symtab symtab;
    uint32_t next_frame;
    struct sg_scope scopes[SG_MAX_SCOPES];
    uint32_t nscopes, func_base;
    struct sg_def *defs;
    uint32_t ndefs, cap_defs;
    struct sg_named_label *named;
    uint32_t nnamed, cap_named;
    struct sg_range *ranges;
    uint32_t nranges, cap_ranges;
    char **names; /* allocated here: names of the variables declared by NAME<n> */
    uint32_t nnames, cap_names;
    struct sg_lvar *lvars;
    uint32_t nlvars, cap_lvars;
    struct sg_label *labels;
    uint32_t nlabels, cap_labels;
    uint32_t *lists; /* lists of branch targets: count, then labels */
    uint32_t nlists, cap_lists;

    uint32_t local_bytes, shared_bytes, shared_align;
    uint32_t *shared_offset; /* of module variables; UINT32_MAX: not used */

    uint32_t cap_pool, cap_relocs;
    uint32_t *pool_hash; /* offset + 1 */
    uint32_t pool_hash_size, pool_count;

    uint32_t nsregs;

    /* sg_dec_body(), for calls that expand a function or decode it: it comes after the selection of calls. */
    int (*read_body)(struct sg_dec *d, const char *p, const char *end, uint32_t line);

    /* The function being expanded. */
    uint32_t depth;
    uint32_t call_stack[SG_MAX_CALL_DEPTH];
    uint64_t parsed_bytes; /* bytes of expanded functions parsed so far */
    uint32_t ret_label;    /* 0: kernel (ret is exit); SG_RET_CALL; else label + 1 */
    uint32_t indirect;     /* nesting depth of expanded calls through pointers */
    uint32_t proc;         /* procs[] index + 1 of the function being decoded, 0: the kernel */
    struct sg_proc *procs;
    uint32_t nprocs, cap_procs;
    struct sg_site *sites;
    uint32_t nsites, cap_sites;

    /* The current instruction. */
    uint32_t line, col;
    struct sg_opcode oc;
    const struct sg_family *family;
    struct sg_opnd ops[SG_MAX_OPERANDS];
    uint32_t nops;
    struct sg_opel list[SG_MAX_LIST]; /* of its operand that is an SG_O_LIST */
    struct sg_form_seen forms[SG_FORMS_SEEN];
    bool in_span;        /* inside a predicated span */
    struct sg_pred pred; /* predicate, for families that handle it themselves */
    bool ftz;            /* the kernel's default */
    bool apart;          /* call functions instead of expanding them, wherever possible */
    bool large;          /* refused because its expansion is too large */
};

/* ---- errors: all return the CUresult and record it ---- */
int sg_dec_syntax(struct sg_dec *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int sg_dec_refuse(struct sg_dec *d, const char *why); /* 801, names the opcode */
int sg_dec_nomem(struct sg_dec *d);

/* ---- building blocks (ptx/sg_ptx_emit.c) ---- */
uint32_t sg_new_vreg(struct sg_dec *d, enum sg_type type, bool temp);
static inline uint32_t sg_temp(struct sg_dec *d, enum sg_type type)
{
    return sg_new_vreg(d, type, true);
}
uint32_t sg_const32(struct sg_dec *d, uint32_t v);
uint32_t sg_const64(struct sg_dec *d, uint64_t v);
uint32_t sg_const_sym(struct sg_dec *d, uint32_t global, int64_t addend);
/* The handle of a .texref, .surfref or .samplerref: index in the module's opaques. */
uint32_t sg_const_opaque(struct sg_dec *d, uint32_t opaque);
uint32_t sg_sreg(struct sg_dec *d, uint32_t sr);
/* Address of dynamic shared memory, patched when the size of the static part is known. */
uint32_t sg_const_dyn(struct sg_dec *d, bool wide, int64_t addend);
void sg_resolve_dyn(struct sg_dec *d);
uint32_t sg_shared_offset(struct sg_dec *d, uint32_t var); /* allocates the variable at first use */
/* Emits an instruction and returns its index. Unused fields are SG_OPND_NONE. Each field must
   match the table of operations (exec/core.h); otherwise the instruction is refused here,
   whichever emitter requested it. */
uint32_t sg_emit(struct sg_dec *d, enum sg_op op, uint32_t dd, uint32_t a, uint32_t b, uint32_t c);
/* The same with explicit sets of defined and used fields. */
uint32_t sg_emit_x(struct sg_dec *d, enum sg_op op, const uint32_t f[5], uint32_t def, uint32_t use);
uint32_t sg_new_label(struct sg_dec *d);
void sg_place_label(struct sg_dec *d, uint32_t label);
void sg_emit_bra(struct sg_dec *d, uint32_t label, uint32_t pred, bool neg);

/* ---- operands (ptx/sg_ptx_operands.c) ---- */
int sg_parse_operand(struct sg_dec *d, struct sg_opnd *o);
int sg_class_of(enum sg_type t);
/* Operand code of a source of this type (checks the class); the same for a destination. */
uint32_t sg_src(struct sg_dec *d, uint32_t i, enum sg_type t);
uint32_t sg_dst(struct sg_dec *d, uint32_t i, enum sg_type t);
uint32_t sg_src_el(struct sg_dec *d, const struct sg_opel *el, enum sg_type t);
uint32_t sg_dst_el(struct sg_dec *d, const struct sg_opel *el, enum sg_type t);
/* The two halves of operand i, a 128-bit register or {low, high}. */
int sg_halves128(struct sg_dec *d, uint32_t i, struct sg_opel el[2]);
uint32_t sg_sym_address(struct sg_dec *d, const struct sg_opnd *o, enum sg_type t);
/* The address of an offset in the frame, as an operand. */
uint32_t sg_frame_address(struct sg_dec *d, uint64_t offset, bool wide);
/* ---- names (ptx/sg_ptx_scope.c) ---- */
int sg_scope_open(struct sg_dec *d); /* the caller checks for room */
void sg_scope_close(struct sg_dec *d);
/* Ends the innermost scope, a function's, and its labels from d->named[first] on; the scope
   stays open. */
void sg_scope_end_function(struct sg_dec *d, uint32_t first);
/* Defines a name that the innermost scope does not define yet. */
int sg_scope_define(struct sg_dec *d, const char *s, uint32_t len, uint32_t kind, uint32_t index);
/* The definition in the innermost scope itself. NULL: none. */
const struct sg_def *sg_scope_find_here(const struct sg_dec *d, const char *s, uint32_t len);
/* True if a register range in the innermost scope declares the name. */
bool sg_scope_range_here(const struct sg_dec *d, const char *s, uint32_t len);
/* Returns false if the name is unknown, or on an error in d->err. */
bool sg_dec_find(struct sg_dec *d, const char *s, uint32_t len, struct sg_named *out);
/* A label belongs to the scope that defines it; a reference may name a label of an enclosing
   scope. */
uint32_t sg_dec_label(struct sg_dec *d, const char *s, uint32_t len);
int sg_dec_define_label(struct sg_dec *d, const char *s, uint32_t len); /* in the current scope */
int sg_dec_define_targets(struct sg_dec *d, const char *s, uint32_t len, uint32_t list);
bool sg_dec_find_targets(struct sg_dec *d, const char *s, uint32_t len, uint32_t *list);
/* The label that a reference resolves to, possibly itself; call after the body was read. */
uint32_t sg_dec_label_meant(const struct sg_dec *d, uint32_t label);
static inline enum sg_type sg_ty(const struct sg_dec *d, uint32_t i)
{
    return i < d->oc.ntypes ? (enum sg_type)d->oc.types[i] : SG_TY_NONE;
}
/* True if the modifier is present; marks it as used. */
bool sg_mod(struct sg_dec *d, const char *name);
int sg_opcode_parse(struct sg_opcode *oc, const char *text);

/* Checks that PTX defines the parsed instruction, with these operands, for the module's .target:
   0 or 218. (ptx/sg_ptx_forms.c) */
int sg_check_form(struct sg_dec *d);
/* The part of sg_check_form() that does not depend on operands: .target and .version. */
int sg_check_gates(struct sg_dec *d);

/* ---- one emitter per family of opcodes ---- */
typedef int (*sg_emit_fn)(struct sg_dec *d);
struct sg_family {
    const char *base;
    sg_emit_fn emit;
    uint8_t min_ops, max_ops;
    uint8_t flags;
    const struct sg_family_ops *ops; /* ptx/select/families.h; NULL: selected by the emitter alone */
};
#define SG_FAM_CTL 1u    /* changes the running lanes: a predicate becomes a branch around it */
#define SG_FAM_PRED 2u   /* handles the predicate itself */
#define SG_FAM_COORDS 4u /* accepts coordinates in an address */
#define SG_FAM_PARTS 16u /* accepts parts of registers (.b0, .h10) */
#define SG_FAM_MINUS 32u /* accepts negated registers */
#define SG_FAM_GROWS 8u  /* PTX has further operand forms, unsupported here: not a syntax error */
extern const struct sg_family sg_families_int[], sg_families_flt[], sg_families_mem[], sg_families_warp[],
    sg_families_ctl[], sg_families_mma[], sg_families_bulk[], sg_families_video[], sg_families_tex[];
int sg_dec_call(struct sg_dec *d, struct sg_pred p);
#define SG_MAX_ARGS 64
/* Operands of a call. */
struct sg_call {
    struct sg_opnd *rets, *args;
    uint32_t nrets, nargs;
};
/* A function of the device runtime library (ptx/select/sg_select_cdp.c). Returns false if it is unknown. */
bool sg_call_cdp(struct sg_dec *d, const char *name, const struct sg_call *c);
bool sg_call_graph(struct sg_dec *d, const char *name, const struct sg_call *c);
/* An argument as a register, wherever it is stored; the destination of a result
   (ptx/select/sg_select_arguments.c). */
uint32_t sg_call_arg(struct sg_dec *d, const struct sg_opnd *o, enum sg_type t);
int sg_call_ret(struct sg_dec *d, const struct sg_opnd *o, enum sg_type t, uint32_t reg);
/* The operation that copies a register of type t. */
enum sg_op sg_call_mov(enum sg_type t);
/* Loads or stores a scalar in local memory at an offset in the frame; returns the instruction. */
uint32_t sg_ldst_local(struct sg_dec *d, bool store, enum sg_type t, uint32_t reg, uint32_t offset);
/* ---- functions that are called, not expanded (ptx/sg_ptx_calls.c) ---- */
int sg_call_real(struct sg_dec *d, uint32_t func, const struct sg_call *c);
/* True if a parameter or result is a register, which only expanded functions support. */
bool sg_call_by_register(const struct sg_func *f);
/* Saves the alloca stack pointer to a register; restores it. */
uint32_t sg_stack_save(struct sg_dec *d);
void sg_stack_restore(struct sg_dec *d, uint32_t saved);
int sg_emit_alloca(struct sg_dec *d); /* alloca, stacksave, stackrestore */
int sg_call_bodies(struct sg_dec *d); /* emitted after the kernel's own code */
int sg_dec_body(struct sg_dec *d, const char *p, const char *end, uint32_t line);
int sg_dec_flow(struct sg_dec *d); /* liveness, slots, branch targets */
/* canonicalises NaNs whose bits are inspected (ptx/sg_ptx_canonical.c) */
int sg_dec_canonical(struct sg_dec *d);
int sg_dec_hoist(struct sg_dec *d); /* hoists block-invariant instructions (ptx/hoist/sg_ptx_hoist.c) */
/*
 * Sets the floating-point mode of the instructions emitted between begin and end: rounding "rn"
 * "rz" "rm" "rp" or NULL, flushing of denormals. Emits nothing if the mode is the kernel's.
 */
uint32_t sg_fp_begin(struct sg_dec *d, const char *round, bool ftz);
void sg_fp_end(struct sg_dec *d, uint32_t begin);

#endif
