/* SPDX-License-Identifier: MIT */
/* Emitters: tensor memory and its matrix products (PTX ISA 9.7.16). */
#include "ptx/select/select.h"

/* .cta_group::1; pairs of blocks of a cluster are refused. */
static bool take_group(struct sg_dec *d)
{
    if (sg_mod(d, "cta_group::2")) {
        sg_dec_refuse(d, "pairs of blocks (.cta_group::2) are not available");
        return false;
    }
    if (!sg_mod(d, "cta_group::1"))
        sg_dec_syntax(d, "%s: .cta_group expected", d->oc.full);
    return !d->err;
}

/* .sync{.aligned}: the threads of a warp meet. must: .aligned may not be missing, as for ptxas. */
static bool take_sync(struct sg_dec *d, bool must)
{
    const bool sync = sg_mod(d, "sync"), aligned = sg_mod(d, "aligned");

    if (!sync || (must && !aligned))
        sg_dec_syntax(d, "%s: .%s expected", d->oc.full, sync ? "aligned" : "sync");
    else
        sg_emit(d, SG_OP_wsync, NONE, sg_const32(d, SG_FULL), NONE, NONE);
    return !d->err;
}

static bool take_type(struct sg_dec *d, enum sg_type t)
{
    if (d->oc.ntypes != (t == SG_TY_NONE ? 0u : 1u) || (t != SG_TY_NONE && sg_ty(d, 0) != t))
        sg_dec_syntax(d, "%s: another type expected", d->oc.full);
    return !d->err;
}

/* Refuses unknown modifiers, as ptxas does; those of later versions are refused by name by the caller. */
static bool take_end(struct sg_dec *d, uint32_t nops)
{
    for (uint32_t i = 0; i < d->oc.nmods && d->m->version <= 90; i++) {
        bool odd = !d->oc.used[i];

        for (uint32_t k = 0; k < i; k++)
            odd |= !strcmp(d->oc.mods[i], d->oc.mods[k]);
        if (odd)
            return sg_dec_syntax(d, "%s: no such modifier: .%s", d->oc.full, d->oc.mods[i]), false;
    }
    if (!d->err && d->nops != nops)
        sg_dec_syntax(d, "%s: %u operands, %u expected", d->oc.full, d->nops, nops);
    return !d->err;
}

/* The modifier among names[n] that is there; -1: none. */
static int take_word(struct sg_dec *d, const char *const *names, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (sg_mod(d, names[i]))
            return (int)i;
    return -1;
}

/* An address in tensor memory: a register of 32 bits in brackets. */
static uint32_t tensor_address(struct sg_dec *d, uint32_t i)
{
    const struct sg_opnd *o = &d->ops[i];

    if (o->kind != SG_O_ADDR || o->base != SG_O_REG || d->vregs[o->v].cls != SG_C_32 ||
        sg_type_size((enum sg_type)d->vregs[o->v].type) != 4) {
        sg_dec_syntax(d, "%s: operand %u: an address of tensor memory expected", d->oc.full, i + 1);
        return NONE;
    }
    return sg_flat_address(d, i, SG_SP_SHARED);
}

/* A register of 32 bits, or a constant. */
static uint32_t word_operand(struct sg_dec *d, uint32_t i)
{
    return sg_src(d, i, SG_TY_U32);
}

static int emit_alloc(struct sg_dec *d)
{
    const struct sg_opnd *n = &d->ops[1];
    enum sg_space sp;

    if (!take_group(d) || !take_sync(d, true) || !take_type(d, SG_TY_B32))
        return d->err;
    sp = sg_mod(d, "shared::cta") ? SG_SP_SHARED : SG_SP_GENERIC;
    if (!take_end(d, 2))
        return d->err;
    if (n->kind == SG_O_IMM &&
        (n->imm < SG_TENSOR_UNIT || n->imm > SG_TENSOR_COLUMNS || (n->imm & (n->imm - 1))))
        return sg_dec_syntax(d, "%s: a power of two from 32 to 512 expected", d->oc.full);
    return sg_mbar_op(d, SG_OP_tcgen05_alloc, NONE, 0, word_operand(d, 1), sp);
}

static int emit_dealloc(struct sg_dec *d)
{
    uint32_t f[5] = {NONE, NONE, NONE, NONE, NONE};
    const struct sg_opnd *n = &d->ops[1];

    if (!take_group(d) || !take_sync(d, true) || !take_type(d, SG_TY_B32) || !take_end(d, 2))
        return d->err;
    if (n->kind == SG_O_IMM &&
        (n->imm < SG_TENSOR_UNIT || n->imm > SG_TENSOR_COLUMNS || n->imm % SG_TENSOR_UNIT))
        return sg_dec_syntax(d, "%s: a multiple of 32 to 512 expected", d->oc.full);
    f[1] = word_operand(d, 0);
    f[2] = word_operand(d, 1);
    sg_emit_x(d, SG_OP_tcgen05_dealloc, f, 0, SG_F_A | SG_F_B);
    return d->err;
}

static int emit_relinquish(struct sg_dec *d)
{
    if (take_group(d) && take_sync(d, true) && take_type(d, SG_TY_NONE) && take_end(d, 0))
        sg_emit(d, SG_OP_tcgen05_relinquish, NONE, NONE, NONE, NONE);
    return d->err;
}

static const char *const shapes[] = {[SG_TS_32X32B] = "32x32b",
                                     [SG_TS_16X64B] = "16x64b",
                                     [SG_TS_16X128B] = "16x128b",
                                     [SG_TS_16X256B] = "16x256b",
                                     [SG_TS_16X32BX2] = "16x32bx2"};
static const char *const numbers[] = {"x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128"};

/* The vector of a ld or st: n elements; of a ld, registers. */
static const struct sg_opel *move_vector(struct sg_dec *d, uint32_t i, uint32_t n, bool load)
{
    const struct sg_opnd *o = &d->ops[i];
    const struct sg_opel *el = o->kind == SG_O_LIST ? d->list : o->el;
    bool fits = (o->kind == SG_O_LIST || o->kind == SG_O_VEC) && o->nel == n;

    for (uint32_t k = 0; fits && k < n; k++)
        fits = el[k].kind == SG_O_REG ? d->vregs[el[k].v].cls == SG_C_32 &&
                                            sg_type_size((enum sg_type)d->vregs[el[k].v].type) == 4
                                      : !load && (el[k].kind == SG_O_IMM || el[k].kind == SG_O_F32);
    if (!fits)
        sg_dec_syntax(d, "%s: operand %u: %u registers of 32 bits expected", d->oc.full, i + 1, n);
    return el;
}

static int emit_move(struct sg_dec *d, bool load)
{
    uint32_t f[5] = {NONE, NONE, NONE, NONE, NONE}, n, i, half = 0;
    const uint32_t at = load ? 1 : 0;
    const struct sg_opel *el;
    int shape, number;
    bool pack, split;

    if (load && sg_mod(d, "red"))
        return sg_dec_refuse(d, "reductions of a load are not available");
    shape = take_word(d, shapes, SG_TS_COUNT);
    number = take_word(d, numbers, sizeof(numbers) / sizeof(numbers[0]));
    pack = sg_mod(d, load ? "pack::16b" : "unpack::16b");
    n = shape < 0 || number < 0 ? 0 : sg_tensor_move_registers(SG_TENSOR_MOVE(shape, number, pack, 0));
    if (!n)
        return sg_dec_syntax(d, "%s: no such shape", d->oc.full);
    split = shape == SG_TS_16X32BX2;
    if (!take_sync(d, false) || !take_type(d, SG_TY_B32) || !take_end(d, split ? 3 : 2))
        return d->err;
    i = split && !load ? 2 : 1 - at;
    if (split) {
        const struct sg_opnd *o = &d->ops[load ? 2 : 1];

        if (o->kind != SG_O_IMM)
            return sg_dec_syntax(d, "%s: a constant expected", d->oc.full);
        half = (uint32_t)o->imm;
    }
    el = move_vector(d, i, n, load);
    f[1] = tensor_address(d, at);
    if (d->err)
        return d->err;
    i = sg_emit_x(d, load ? SG_OP_tcgen05_ld : SG_OP_tcgen05_st, f, 0, SG_F_A);
    sg_emit_list(d, el, n, load);
    if (!d->err)
        d->insns[i].imm = SG_TENSOR_MOVE(shape, number, pack, half);
    return d->err;
}

static int emit_cp(struct sg_dec *d)
{
    static const char *const names[] = {"128x256b", "4x256b", "128x128b", "64x128b", "32x128b"};
    static const uint8_t codes[] = {SG_TC_128X256B, SG_TC_4X256B, SG_TC_128X128B, SG_TC_64X128B_02_13,
                                    SG_TC_32X128B};
    uint32_t f[5] = {NONE, NONE, NONE, NONE, NONE}, code, i;
    int shape, format;

    if (!take_group(d))
        return d->err;
    shape = take_word(d, names, sizeof(names) / sizeof(names[0]));
    if (shape < 0)
        return sg_dec_syntax(d, "%s: no such shape", d->oc.full);
    code = codes[shape];
    if (code == SG_TC_64X128B_02_13 && !sg_mod(d, "warpx2::02_13")) {
        code = SG_TC_64X128B_01_23;
        if (!sg_mod(d, "warpx2::01_23"))
            return sg_dec_syntax(d, "%s: .warpx2 expected", d->oc.full);
    }
    if (code == SG_TC_32X128B && !sg_mod(d, "warpx4"))
        return sg_dec_syntax(d, "%s: .warpx4 expected", d->oc.full);
    if (sg_mod(d, "b8x16")) {
        static const char *const formats[] = {"b4x16_p64", "b6x16_p32"};

        format = take_word(d, formats, 2);
        if (format < 0)
            return sg_dec_syntax(d, "%s: the format in shared memory expected", d->oc.full);
        code |= format ? SG_TC_6BIT : SG_TC_4BIT;
    }
    if (!take_type(d, SG_TY_NONE) || !take_end(d, 2))
        return d->err;
    f[1] = tensor_address(d, 0);
    f[2] = sg_src(d, 1, SG_TY_B64);
    i = sg_emit_x(d, SG_OP_tcgen05_cp, f, 0, SG_F_A | SG_F_B);
    if (!d->err)
        d->insns[i].imm = code;
    return d->err;
}

/* A commit of no operations that are under way arrives at once. */
static int emit_commit(struct sg_dec *d)
{
    enum sg_space sp;
    bool multicast;

    if (!take_group(d) || !take_type(d, SG_TY_B64))
        return d->err;
    if (!sg_mod(d, "mbarrier::arrive::one"))
        return sg_dec_syntax(d, "%s: .mbarrier::arrive::one expected", d->oc.full);
    sp = sg_mod(d, "shared::cluster") ? SG_SP_SHARED : SG_SP_GENERIC;
    multicast = sg_mod(d, "multicast::cluster");
    if (!take_end(d, multicast ? 2 : 1))
        return d->err;
    if (!multicast)
        return sg_mbar_op(d, SG_OP_mbar_arrive, sg_temp(d, SG_TY_B64), 0, sg_const32(d, 1), sp);
    if (d->ops[1].kind != SG_O_REG || sg_type_size((enum sg_type)d->vregs[d->ops[1].v].type) != 2)
        return sg_dec_syntax(d, "%s: operand 2: a register of 16 bits expected", d->oc.full);
    return sg_mbar_op(d, SG_OP_tcgen05_commit, NONE, 0, sg_src(d, 1, SG_TY_U16), sp);
}

/* Operands of a product from i on: whether d is added to, a predicate or a constant. */
static uint32_t added_operand(struct sg_dec *d, uint32_t i)
{
    const struct sg_opnd *o = &d->ops[i];

    if (o->kind != SG_O_IMM && (o->kind != SG_O_REG || d->vregs[o->v].cls != SG_C_PRED))
        sg_dec_syntax(d, "%s: operand %u: a predicate expected", d->oc.full, i + 1);
    return o->kind == SG_O_IMM ? sg_const32(d, o->imm ? SG_FULL : 0) : sg_src(d, i, SG_TY_PRED);
}

/* mma.cta_group.kind [d], a or [a], b, descriptor{, lanes that keep d}, added to d{, scale of d} */
static int emit_mma(struct sg_dec *d)
{
    static const char *const kinds[] = {[SG_TK_F16] = "kind::f16",
                                        [SG_TK_TF32] = "kind::tf32",
                                        [SG_TK_F8F6F4] = "kind::f8f6f4",
                                        [SG_TK_I8] = "kind::i8"},
                             *const others[] = {"ws",
                                                "sp",
                                                "block_scale",
                                                "ashift",
                                                "kind::mxf8f6f4",
                                                "kind::mxf4",
                                                "kind::mxf4nvf4"},
                             *const collectors[] = {"collector::a::fill", "collector::a::use",
                                                    "collector::a::lastuse", "collector::a::discard"};
    uint32_t f[5] = {NONE, NONE, NONE, NONE, NONE}, aux, next = 4, i;
    const struct sg_opnd *keep;
    int kind;

    if (!take_group(d))
        return d->err;
    if (take_word(d, others, sizeof(others) / sizeof(others[0])) >= 0)
        return sg_dec_refuse(d, "this product in tensor memory is not available");
    kind = take_word(d, kinds, SG_TK_COUNT);
    if (kind < 0)
        return sg_dec_syntax(d, "%s: .kind expected", d->oc.full);
    take_word(d, collectors, sizeof(collectors) / sizeof(collectors[0])); /* hints */
    keep = d->nops > 4 && d->ops[4].kind == SG_O_VEC ? &d->ops[next++] : NULL;
    if (d->nops < next + 1 || d->nops > next + 2 || !take_type(d, SG_TY_NONE) || !take_end(d, d->nops))
        return sg_dec_syntax(d, "%s: wrong operands", d->oc.full);
    aux = (uint32_t)kind | (d->ops[1].kind == SG_O_ADDR ? SG_TENSOR_A : 0) | (keep ? SG_TENSOR_KEEP : 0);
    if (keep && keep->nel != 4)
        return sg_dec_syntax(d, "%s: operand 5: four registers expected", d->oc.full);
    f[0] = tensor_address(d, 0);
    f[1] = aux & SG_TENSOR_A ? tensor_address(d, 1) : sg_src(d, 1, SG_TY_B64);
    f[2] = sg_src(d, 2, SG_TY_B64);
    f[3] = word_operand(d, 3);
    f[4] = added_operand(d, next);
    if (d->nops == next + 2) {
        const struct sg_opnd *o = &d->ops[next + 1];

        if (o->kind != SG_O_IMM || o->imm > 15 || kind > SG_TK_TF32)
            return sg_dec_syntax(d, "%s: operand %u: no scale of d", d->oc.full, next + 2);
        aux |= (uint32_t)o->imm << 5;
    }
    if (d->err)
        return d->err;
    i = sg_emit_x(d, SG_OP_tcgen05_mma, f, 0, SG_F_D | SG_F_A | SG_F_B | SG_F_C | SG_F_E);
    if (keep)
        sg_emit_list(d, keep->el, 4, false);
    if (!d->err)
        d->insns[i].aux = aux;
    return d->err;
}

static bool is_word(const char *word, const char *const *names)
{
    while (*names && strcmp(word, *names))
        names++;
    return *names != NULL;
}

/* Fences and waits: every operation is complete when it is issued (exec/tcgen05/sg_tcgen05_memory.c). */
int sg_emit_tcgen05(struct sg_dec *d)
{
    static const char *const waits[] = {"wait::ld", "wait::st", NULL}, *const fences[] = {
                                                                           "fence::before_thread_sync",
                                                                           "fence::after_thread_sync", NULL};
    const char *what = d->oc.nmods ? d->oc.mods[0] : "";

    sg_mod(d, what);
    d->code->tensor = true;
    if (!strcmp(what, "alloc"))
        return emit_alloc(d);
    if (!strcmp(what, "dealloc"))
        return emit_dealloc(d);
    if (!strcmp(what, "relinquish_alloc_permit"))
        return emit_relinquish(d);
    if (!strcmp(what, "ld") || !strcmp(what, "st"))
        return emit_move(d, !strcmp(what, "ld"));
    if (!strcmp(what, "cp"))
        return emit_cp(d);
    if (!strcmp(what, "mma"))
        return emit_mma(d);
    if (!strcmp(what, "commit"))
        return emit_commit(d);
    if (is_word(what, waits)) {
        if (take_sync(d, true) && take_type(d, SG_TY_NONE))
            take_end(d, 0);
        return d->err;
    }
    if (is_word(what, fences)) {
        if (take_type(d, SG_TY_NONE) && take_end(d, 0))
            sg_emit(d, SG_OP_fence, NONE, NONE, NONE, NONE);
        return d->err;
    }
    return sg_dec_refuse(d, NULL);
}
