/* SPDX-License-Identifier: MIT */
/*
 * Internals of the PTX front end: tokens, module symbols, and the decoder's working state.
 *
 * A module keeps a copy of its text. Parsing finds kernels, functions and variables. A body is
 * decoded at first use: calls are expanded in place (so return addresses need no stack, and the
 * lowest-instruction-first order of lanes stays valid), and registers are allocated to slots.
 */
#ifndef SG_PTX_MODULE_H
#define SG_PTX_MODULE_H

#include "base/grow.h"
#include "base/size.h"
#include "exec/bytecode.h"
#include "ptx/ptx.h"

/* Limits on work and memory for hostile text. */
#define SG_MAX_VREGS (4u << 20)
#define SG_MAX_INSNS (2u << 20) /* decoded instructions of a kernel, with calls expanded */
#define SG_MAX_CALL_DEPTH 48
#define SG_MAX_SCOPES 256
#define SG_MAX_POOL (64u << 20)    /* bytes of a kernel's constant pool */
#define SG_MAX_REGFILE (16u << 20) /* bytes of registers per warp */
#define SG_MAX_STATIC_SHARED (4u << 20)
#define SG_MAX_GLOBAL (1ull << 40)
#define SG_MAX_CONST \
    65536u /* bytes of .const variables (CUDA C++ Programming Guide, "Technical Specifications") */
#define SG_MAX_OPERANDS 10
#define SG_MAX_OPCODE 160 /* bytes of a spelling, with its NUL */
#define SG_MAX_VEC 8
#define SG_MAX_LIST 128 /* registers in braces, of wgmma and tcgen05 */
#define SG_MAX_MODS 16
#define SG_MAX_TYPES 6
/* Within a major version, PTX only grows: known features keep their meaning in every 9.x, and
   features added by later versions are refused by name where they are used. */
#define SG_PTX_VERSION_MAX 99

/* ---- tokens ---- */
enum sg_tok_kind {
    SG_T_EOF,
    SG_T_ID,  /* identifier, including a leading %, $ or _ */
    SG_T_DIR, /* .name */
    SG_T_INT, /* ival */
    SG_T_F32, /* 0f........: bits in ival */
    SG_T_F64, /* 0d................ or decimal: bits in ival */
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
    bool over; /* BAD: an integer of more than 64 bits, of which ival has the low ones */
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
/* The current token must be '{': skips past the matching '}'. Returns false at the end of the
   text. */
bool sg_lex_skip_block(struct sg_lex *l);
void sg_lex_skip_ws(struct sg_lex *l);
static inline bool sg_tok_is(const struct sg_lex *l, char c)
{
    return l->tok.kind == SG_T_PUNCT && l->tok.ch == c;
}
bool sg_tok_eq(const struct sg_tok *t, const char *s);

/* Fills diag from a token. Always returns result. */
int sg_diag_at(struct sg_diag *diag, int result, uint32_t line, uint32_t col, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* A syntax error at the current token, with the token's first 40 characters. Always returns 218. */
int sg_lex_bad(const struct sg_lex *l, struct sg_diag *diag, const char *what);

/* ---- symbols ---- */
struct sg_sym {
    const char *name; /* points into the text */
    uint32_t len;
    uint32_t frame; /* 0: module; else a number per function body or scope */
    uint32_t kind;
    uint32_t index;
    uint32_t next; /* hash chain, 1-based */
};

struct sg_symtab {
    struct sg_sym *syms;
    uint32_t n, cap;
    uint32_t *buckets;
    uint32_t nbuckets;
};
struct sg_sym *sg_sym_find(const struct sg_symtab *t, uint32_t frame, const char *s, uint32_t len);
struct sg_sym *sg_sym_add(struct sg_symtab *t, uint32_t frame, const char *s, uint32_t len, uint32_t kind,
                          uint32_t index); /* NULL: out of memory */
void sg_sym_free(struct sg_symtab *t);

enum sg_sym_kind {                  /* at module level and in bodies */
                   SG_K_GLOBAL = 1, /* index: globals[] (.global and .const) */
                   SG_K_SHARED,     /* index: shared variable table */
                   SG_K_FUNC,       /* index: funcs[] */
                   SG_K_ENTRY,
                   SG_K_OPAQUE, /* texture, surface, sampler; index: opaques[] */
                   SG_K_REG,    /* bodies: virtual register */
                   SG_K_RANGE,  /* bodies: %r<n>; index: ranges[] */
                   /* bodies: .reg .v2 or .v4; index: ranges[] with consecutive registers */
                   SG_K_VECTOR,
                   SG_K_LOCAL, /* bodies: local or call parameter; index: lvars[] */
                   SG_K_PARAM, /* bodies: kernel parameter; index */
                   SG_K_LABEL,
                   SG_K_TARGETS /* bodies: .branchtargets; index: list */
};

struct sg_var {
    char *name;
    uint64_t size;
    uint32_t align;
    enum sg_type type;
    uint32_t dims[8], ndims;
    uint32_t vec; /* .v2 .v4: 2, 4; else 1 */
    bool is_const, is_managed, is_extern, is_shared;
    bool unsized;
    uint64_t address; /* global: address assigned by the driver */
    const char *init; /* text of the initialiser or NULL */
    uint32_t init_line;
    bool has_data; /* cubin: the initial value is at m->text + data_at */
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

/* A declared parameter. */
struct sg_pdecl {
    const char *name;
    uint32_t len;
    enum sg_type type;
    uint32_t size, align, offset;
    uint64_t element; /* see sg_var_element() */
    bool is_reg, unsized;
    uint8_t vec; /* 1: no vector */
};

struct sg_func {
    char *name;
    bool is_entry, is_extern, is_weak;
    struct sg_pdecl *params;
    uint32_t nparams;
    struct sg_pdecl *rets;
    uint32_t nrets;
    const char *body; /* text after the '{'; NULL: declaration only */
    const char *body_end;
    uint32_t body_line;
    uint32_t maxntid[3], reqntid[3];
    uint32_t maxnreg;                 /* 0: not specified */
    uint32_t cluster[3], max_cluster; /* .reqnctapercluster, .maxclusterrank; 0: not specified */
    bool explicit_cluster;
    int32_t alias;   /* funcs[] index or -1 */
    uint32_t kernel; /* kernels[] index + 1, 0: none */
    bool taken;      /* its address is taken somewhere; see module_find_taken() */
};

/* A place in a cubin's initial values (m->text) that holds the address of a variable. */
struct sg_data_reloc {
    uint64_t at;
    int64_t addend;
    uint32_t var;
};

struct sg_module {
    char *text;
    size_t len;
    pthread_mutex_t lock;
    bool taken_known;
    uint32_t version, target;        /* 90, 80 */
    _Atomic bool large;              /* a kernel was too large with all functions expanded */
    bool target_suffix, independent; /* sm_90a; texmode_independent */
    uint64_t const_bytes;
    uint32_t address_size;
    uint32_t max_registers; /* limit for every kernel; 0: none */
    struct sg_symtab symtab;
    struct sg_var *vars;                        /* globals and constants */
    struct sg_const_space *_Atomic const_space; /* owned; sg_ptx_kernel.c; NULL: not made */
    uint32_t nvars, cap_vars;
    struct sg_opaque *opaques;
    uint32_t nopaques, cap_opaques;
    struct sg_var *shared; /* .shared at module level */
    uint32_t nshared, cap_shared;
    struct sg_func *funcs;
    uint32_t nfuncs, cap_funcs;
    struct sg_kernel **kernels;
    uint32_t nkernels, cap_kernels;
    bool is_sass; /* from a cubin: text holds initial values, kernels cannot be decoded */
    struct sg_data_reloc *data_relocs;
    uint32_t ndata_relocs, cap_data_relocs;
};

/* Writes the initial values of a cubin's variables (ptx/sg_ptx_cubin.c). */
void sg_sass_init_globals(struct sg_module *m);

/* ---- declarations, shared by module and bodies (ptx/sg_ptx_declarations.c) ---- */

/* True if CUDA itself provides this device function. */
bool sg_is_builtin(const char *name);
struct sg_decl {
    struct sg_var v;
    const char *name;
    uint32_t name_len, line, col;
    uint32_t range; /* count of %r<count>; 0: none */
    uint32_t vec;   /* .v2 .v4: 2, 4; else 1 */
    bool opaque;
    bool attribute_only; /* the attributes of a function: no type */
    enum sg_opaque_kind opaque_kind;
};
/* Parses qualifiers and type, up to the first name; then a name with its dimensions. */
int sg_decl_head(struct sg_lex *l, struct sg_decl *d, struct sg_diag *diag);
int sg_decl_name(struct sg_lex *l, struct sg_decl *d, struct sg_diag *diag);
/* Read .version and .target into m, from the directive on (ptx/sg_ptx_header.c). 0, 218, or 222 for a
   version that is too new. */
int sg_parse_version(struct sg_lex *l, struct sg_module *m, struct sg_diag *diag);
int sg_parse_target(struct sg_lex *l, struct sg_module *m, struct sg_diag *diag);
/* Checks a .pragma and skips it with its ';'; the current token is the directive. 0 or 218. */
int sg_parse_pragma(struct sg_lex *l, struct sg_diag *diag);
/* Stride of an array index, bytes (PTX ISA, "Arrays as Operands"); 0: not an array. */
uint64_t sg_var_element(const struct sg_var *v);
int sg_parse_params(struct sg_lex *l, struct sg_pdecl **out, uint32_t *n, struct sg_diag *diag);
/* A parameter of a kernel is in .param space, has a size, and is neither a predicate nor a vector. */
int sg_check_entry_params(const struct sg_lex *l, const struct sg_func *f, struct sg_diag *diag);
/* True if parameters and results agree in number, type, size and space. */
bool sg_same_prototype(const struct sg_func *a, const struct sg_func *b);
int sg_init_count(struct sg_lex *l, uint64_t *n, struct sg_diag *diag);

/* Frees the function's members. */
void sg_func_clear(struct sg_func *f);

extern const struct sg_kernel_ops sg_kernel_ops;
void sg_code_free(struct sg_code *c);
/* The address or handle to store, without the addend; 0: not known yet. */
uint64_t sg_reloc_value(const struct sg_module *m, const struct sg_reloc *r);
void sg_code_relocate(struct sg_module *m, struct sg_code *c);

#endif
