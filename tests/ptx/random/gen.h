/* SPDX-License-Identifier: MIT */
/* A random program: generation (gen.c), output as PTX (text.c) and independent evaluation
 * (eval.c). */
#ifndef GEN_H
#define GEN_H

#include "ref.h"

#include <stddef.h>

/* Kinds of registers by their letters in a signature; each has REGS of them. */
#define CLASSES "hwdpfFeEg"
#define NCLASS 9
#define REGS 6
#define LOOPS 3  /* depth of nested loops */
#define SLOT 16  /* bytes of memory of a thread in each space */
#define SPACES 3 /* shared, global, local */
#define ACCS 8   /* words that all threads add to, in shared and in global memory */
#define THREADS_MAX 128
#define STMTS 256
#define UREGS 4  /* registers that few lanes set on their own: %u, and as many %v that are set once */
#define TABLE 64 /* words that every thread reads */
#define WORDS_OUT (NCLASS * REGS + SPACES * SLOT / 8)

enum kind {
    ST_OP,
    ST_IF,
    ST_LOOP,
    ST_BREAK,
    ST_STORE,
    ST_LOAD,
    ST_EXCHANGE,
    ST_RED,
    ST_ATOM,
    ST_SHFL,
    ST_VOTE,
    ST_MATCH,
    ST_REDUX,
    ST_UNIFORM,       /* %u from %u, %v, %tid and the table */
    ST_UNIFORM_OUT,   /* into a register of 32 bits */
    ST_UNIFORM_IF,    /* by two of them */
    ST_UNIFORM_BREAK, /* out of a loop */
    ST_CONTINUE,
    ST_UNIFORM_CONTINUE
};

struct operand {
    char cls; /* 'U': %u, from UREGS on %v */
    bool imm;
    u8 reg;
    u64 value;
};

struct stmt {
    enum kind kind;
    int op;       /* ST_OP: index of ops; otherwise the variant of the kind */
    u8 dst, dst2; /* registers; their kinds follow from the statement */
    struct operand src[3];
    int guard; /* predicate register, -1: none */
    bool guard_not;
    bool masked;           /* a warp operation inside ST_IF with a mask of its own */
    int body, other, next; /* statements, -1: none */
    int depth;             /* ST_LOOP: which counter */
    u8 space, width, offset;
    bool off; /* left out while a failing program is made smaller */
};

struct program {
    u64 seed;
    unsigned shape[3];
    unsigned block, blocks; /* threads of a block, blocks */
    bool loose;             /* %u is also set where lanes have parted */
    int once[UREGS];        /* how %v is set */
    int first, n;
    struct stmt s[STMTS];
};

struct op {
    const char *sig, *text;
};
extern const struct op ops[];
extern const int nops;
u64 eval_op(int op, u64 a, u64 b, u64 c);
/* True if the operation copies bits into an f32 unchanged. Not for registers set only by arithmetic,
 * where NaN has a single pattern. */
bool copies_bits(int op);
static inline bool is_number(int reg)
{
    return reg & 1;
}

int class_of(char letter); /* 's' counts as 'w' */
u64 mask_of(char letter);  /* bits that the register has */

void build(struct program *p, u64 seed);
/* PTX of the program; the buffer must have TEXT_MAX bytes. */
#define TEXT_MAX (1u << 18)
size_t write_text(const struct program *p, char *text);
/* in: NCLASS * REGS words per thread; out: WORDS_OUT words per thread; acc: ACCS words that all
 * blocks share and then ACCS per block, as the kernel leaves them. */
void evaluate(const struct program *p, const u64 *in, u64 *out, u32 *acc);
/* The word of the table. */
u32 table_word(u32 i);
#define INDICES 14 /* values computed from %tid */
extern const char *const index_texts[INDICES];
#define UNIFORMS 16 /* variants of ST_UNIFORM beside those */
/* Initial value of an accumulator, and the operation on it. */
extern const char *const red_names[ACCS];
u32 red_start(int k);
u32 red(int k, u32 x, u32 v);
extern const char *const atom_names[10];
#define SHFL_LOWEST 4 /* from the lowest lane of the mask: safe where other lanes may be inactive */
extern const char *const vote_names[4], *const shfl_names[4], *const redux_names[8];

u32 rnd(u32 n); /* below n */
void rnd_seed(u64 seed);
u64 rnd64(void);
/* Bits of a register of this kind: often an edge value. */
u64 random_value(char letter);

#endif
