/* SPDX-License-Identifier: MIT */
/* Emitters: matrix instructions of a warp (PTX ISA 9.7.14). */
#include "ptx/select/select.h"

/* n registers of operand i, four per instruction: the first instruction is op, further ones "ext". */
static uint32_t emit_many(struct sg_dec *d, enum sg_op op, uint32_t i, uint32_t n, enum sg_type t, bool dst)
{
    struct sg_opnd whole = d->ops[i];
    uint32_t first = 0;

    if (n <= 4)
        return sg_mma_registers(d, op, i, n, t, dst);
    if (whole.kind != SG_O_VEC || whole.nel != n) {
        sg_dec_syntax(d, "%s: operand %u: %u registers expected", d->oc.full, i + 1, n);
        return 0;
    }
    for (uint32_t k = 0; k < n; k += 4) {
        uint32_t at;

        d->ops[i].nel = 4;
        memcpy(d->ops[i].el, whole.el + k, 4 * sizeof(whole.el[0]));
        at = sg_mma_registers(d, k ? SG_OP_ext : op, i, 4, t, dst);
        first = k ? first : at;
    }
    d->ops[i] = whole;
    return first;
}

/* mma.m16n8k4, k8 and k16 of f64 */
static int emit_mma_f64(struct sg_dec *d, uint32_t k)
{
    uint32_t i;

    sg_emit(d, SG_OP_wsync, NONE, sg_const32(d, SG_FULL), NONE, NONE);
    i = emit_many(d, SG_OP_mma_f64_m16, 1, k / 2, SG_TY_F64, false);
    sg_mma_registers(d, SG_OP_ext, 2, k / 4, SG_TY_F64, false);
    sg_mma_registers(d, SG_OP_ext, 3, 4, SG_TY_F64, false);
    sg_mma_registers(d, SG_OP_ext, 0, 4, SG_TY_F64, true);
    if (!d->err)
        d->insns[i].aux = k;
    return d->err;
}

/* A type of at most 8 bits; all: includes types of .kind::f8f6f4 only. */
static bool is_eighth(enum sg_type t, bool all)
{
    return t == SG_TY_E4M3 || t == SG_TY_E5M2 ||
           (all && (t == SG_TY_E3M2 || t == SG_TY_E2M3 || t == SG_TY_E2M1));
}

/* Refuses layouts and combinations of types that no GPU multiplies. m8n8k4 of f16 has its own rules. */
static int check_mma(struct sg_dec *d)
{
    const enum sg_type a = sg_ty(d, 1), b = sg_ty(d, 2);
    const bool bytes = (a == SG_TY_S8 || a == SG_TY_U8) && (b == SG_TY_S8 || b == SG_TY_U8);
    const bool kind = sg_mod(d, "kind::f8f6f4");
    const bool eighths = is_eighth(a, kind) && is_eighth(b, kind);

    if (sg_mod(d, "m8n8k4") && a == SG_TY_F16)
        return 0;
    if (!sg_mod(d, "row") || !sg_mod(d, "col"))
        return sg_dec_syntax(d, "%s: .row.col expected", d->oc.full);
    if (kind && !eighths)
        return sg_dec_syntax(d, "%s: types that do not go with .kind::f8f6f4", d->oc.full);
    if (((is_eighth(a, true) || is_eighth(b, true)) && !eighths) || (kind && !sg_mod(d, "m16n8k32")))
        return sg_dec_syntax(d, "%s: no such shape of these types", d->oc.full);
    if ((a != b && !bytes && !eighths) || sg_ty(d, 0) != sg_ty(d, 3))
        return sg_dec_syntax(d, "%s: types that do not go together", d->oc.full);
    return 0;
}

/* No mma of PTX 9.0 has this shape and these types; m8n8k4 of f16 exists but is not available. */
static int no_such_mma(struct sg_dec *d)
{
    bool other = d->m->version > 90 || (sg_ty(d, 1) == SG_TY_F16 && sg_mod(d, "m8n8k4"));

    return other ? sg_dec_refuse(d, NULL) : sg_dec_syntax(d, "%s: no such shape and types", d->oc.full);
}

/* Elements of 4 bits and of 1 bit, which are not types of registers. */
static int emit_mma_sub(struct sg_dec *d)
{
    static const struct {
        const char *shape;
        bool b1;
        uint32_t aux;
    } forms[] = {{"m8n8k32", false, 0},
                 {"m16n8k32", false, SG_SUB_TALL},
                 {"m16n8k64", false, SG_SUB_TALL | SG_SUB_DEEP},
                 {"m8n8k128", true, 0},
                 {"m16n8k128", true, SG_SUB_TALL},
                 {"m16n8k256", true, SG_SUB_TALL | SG_SUB_DEEP}};
    uint32_t aux = 0, n = 0, i, f;
    bool b1 = false, sat;

    for (i = 0; i < d->oc.nmods; i++) {
        const char *m = d->oc.mods[i];
        bool s4 = !strcmp(m, "s4"), one = !strcmp(m, "b1");

        if (!s4 && !one && strcmp(m, "u4"))
            continue;
        aux |= s4 ? n ? SG_SUB_B_SIGNED : SG_SUB_A_SIGNED : 0;
        b1 |= one;
        n++;
        d->oc.used[i] = true;
    }
    if (n != 2 || d->oc.ntypes != 2 || sg_ty(d, 0) != SG_TY_S32 || sg_ty(d, 1) != SG_TY_S32 || d->nops != 4)
        return no_such_mma(d);
    if (!sg_mod(d, "row") || !sg_mod(d, "col"))
        return sg_dec_syntax(d, "%s: .row.col expected", d->oc.full);
    sat = sg_mod(d, "satfinite");
    if (b1)
        aux |= SG_SUB_B1 | (sg_mod(d, "xor") ? SG_SUB_XOR : 0);
    if (b1 && ((!(aux & SG_SUB_XOR) && !sg_mod(d, "and")) || !sg_mod(d, "popc")))
        return sg_dec_syntax(d, "%s: .xor.popc or .and.popc expected", d->oc.full);
    for (f = 0; f < sizeof(forms) / sizeof(forms[0]); f++)
        if (forms[f].b1 == b1 && sg_mod(d, forms[f].shape))
            break;
    if (f == sizeof(forms) / sizeof(forms[0]))
        return no_such_mma(d);
    aux |= forms[f].aux;
    sg_emit(d, SG_OP_wsync, NONE, sg_const32(d, SG_FULL), NONE, NONE);
    n = aux & SG_SUB_TALL ? 4 : 2;
    i = sg_mma_registers(d, SG_OP_mma_sub, 1, (aux & SG_SUB_TALL ? 2 : 1) * (aux & SG_SUB_DEEP ? 2 : 1),
                         SG_TY_B32, false);
    sg_mma_registers(d, SG_OP_ext, 2, aux & SG_SUB_DEEP ? 2 : 1, SG_TY_B32, false);
    sg_mma_registers(d, SG_OP_ext, 3, n, SG_TY_B32, false);
    sg_mma_registers(d, SG_OP_ext, 0, n, SG_TY_B32, true);
    if (!d->err) {
        d->insns[i].aux = aux;
        d->insns[i].imm = sat;
    }
    return d->err;
}

static int emit_mma(struct sg_dec *d)
{
    int ta = sg_mma_type_of(sg_ty(d, 1)), tb = sg_mma_type_of(sg_ty(d, 2));
    enum sg_type td = sg_ty(d, 0), tc = sg_ty(d, 3), tr;
    uint8_t c = td == SG_TY_F32   ? 'f'
                : td == SG_TY_F16 ? 'h'
                : td == SG_TY_S32 ? 'i'
                : td == SG_TY_F64 ? 'd'
                                  : 0;
    const struct sg_mma_form *f;
    bool sat;
    uint32_t i;

    for (i = 0; i < d->oc.nmods; i++)
        if (!strcmp(d->oc.mods[i], "sp") || !strncmp(d->oc.mods[i], "sp::", 4) ||
            !strcmp(d->oc.mods[i], "block_scale"))
            return sg_emit_mma_wide(d);
    if (d->oc.ntypes == 2 && sg_mod(d, "sync")) {
        sg_mod(d, "aligned");
        return emit_mma_sub(d);
    }
    if (d->oc.ntypes == 4 && ta >= 0 && tb >= 0 && c && d->nops == 4 && check_mma(d))
        return d->err;
    if (d->oc.ntypes != 4 || ta < 0 || tb < 0 || !c || td != tc || d->nops != 4)
        return no_such_mma(d);
    if (!sg_mod(d, "sync") || !sg_mod(d, "row") || !sg_mod(d, "col"))
        return no_such_mma(d);
    sg_mod(d, "aligned");
    sat = sg_mod(d, "satfinite");
    if (c == 'd')
        sg_mod(d, "rn");
    for (i = 4; c == 'd' && ta == SG_MMA_F64 && tb == SG_MMA_F64 && i <= 16; i *= 2)
        if (sg_mod(d, i == 4 ? "m16n8k4" : i == 8 ? "m16n8k8" : "m16n8k16"))
            return d->m->target >= 90 ? emit_mma_f64(d, i)
                                      : sg_dec_syntax(d, "%s needs .target sm_90 or higher", d->oc.full);
    for (f = sg_mma_forms; f->shape; f++)
        if (f->a == ta && f->b == tb && f->c == c && sg_mod(d, f->shape))
            break;
    if (!f->shape && ta == SG_MMA_F16 && sg_mod(d, "m8n8k4"))
        return no_such_mma(d);
    if (!f->shape)
        return sg_dec_syntax(d, "%s: no such shape of these types", d->oc.full);
    sg_emit(d, SG_OP_wsync, NONE, sg_const32(d, SG_FULL), NONE, NONE);
    tr = c == 'd' ? SG_TY_F64 : SG_TY_B32;
    i = sg_mma_registers(d,
                         c == 'i'   ? SG_OP_mma_int
                         : c == 'd' ? SG_OP_mma_f64
                                    : SG_OP_mma_float,
                         1, f->na, tr, false);
    sg_mma_registers(d, SG_OP_ext, 2, f->nb, tr, false);
    sg_mma_registers(d, SG_OP_ext, 3, f->nc, tr, false);
    sg_mma_registers(d, SG_OP_ext, 0, f->nc, tr, true);
    if (!d->err) {
        d->insns[i].aux = (uint32_t)(f - sg_mma_forms);
        d->insns[i].imm = sat;
    }
    return d->err;
}

/* The shape and elements of ldmatrix and stmatrix of 8 bits. Returns flags for aux, or UINT32_MAX. */
static uint32_t matrix_b8(struct sg_dec *d, bool load, bool trans)
{
    const bool packed = sg_mod(d, "b8x16"), tall = sg_mod(d, "m16n16"), wide = sg_mod(d, "m8n16"),
               narrow = sg_mod(d, "m16n8");
    const uint32_t source = sg_mod(d, "b4x16_p64")   ? SG_MATRIX_4BIT
                            : sg_mod(d, "b6x16_p32") ? SG_MATRIX_6BIT
                                                     : 0;

    if (packed != (source != 0) || (!packed && sg_ty(d, 0) != SG_TY_B8))
        return UINT32_MAX;
    if (load ? tall != trans || tall == wide || (wide && !packed) : !narrow || !trans || packed)
        return UINT32_MAX;
    return source | (tall ? 16 : 0);
}

/* ldmatrix d, [a] and stmatrix [a], d */
static int emit_ldst_matrix(struct sg_dec *d)
{
    bool load = d->oc.base[0] == 'l', trans = sg_mod(d, "trans");
    bool generic, halves;
    uint32_t aux;
    uint32_t at = load ? 1 : 0, reg = load ? 0 : 1, n, i, addr;
    uint64_t from;
    uint32_t f[5] = {NONE, NONE, NONE, NONE, NONE};
    uint32_t *const r[4] = {&f[0], &f[2], &f[3], &f[4]};
    struct sg_opnd *o = &d->ops[at], *v = &d->ops[reg];

    n = sg_mod(d, "x1") ? 1 : sg_mod(d, "x2") ? 2 : sg_mod(d, "x4") ? 4 : 0;
    halves = sg_mod(d, "m8n8");
    aux = halves ? trans ? 16 : 0 : matrix_b8(d, load, trans);
    if (!n || !sg_mod(d, "sync") || (halves && sg_ty(d, 0) != SG_TY_B16) || aux == UINT32_MAX)
        return sg_dec_refuse(d, NULL);
    if (!halves && load && (aux & 16)) /* two registers for each matrix of 16 rows */
        n *= 2;
    if (n > 4)
        return sg_dec_refuse(d, NULL);
    sg_mod(d, "aligned");
    generic = !sg_mod(d, "shared") && !sg_mod(d, "shared::cta");
    if (o->kind != SG_O_ADDR || o->base == SG_O_NONE || v->kind != SG_O_VEC || v->nel != n)
        return sg_dec_syntax(d, "%s: wrong operands", d->oc.full);
    if (o->base == SG_O_SYM) {
        addr = sg_sym_address(d, o, SG_TY_U32);
        o->imm = 0;
    } else if (d->vregs[o->v].cls == SG_C_64) {
        addr = sg_temp(d, SG_TY_U32);
        /* An address outside the window of shared memory becomes an invalid offset, which
           faults. */
        from = (uint64_t)o->imm - (generic ? sg_win.shared : 0);
        if (from)
            sg_emit(d, SG_OP_add_sat_u32_u64, addr, o->v, sg_const64(d, from), NONE);
        else
            sg_emit(d, SG_OP_narrow_address, addr, o->v, NONE, NONE);
        o->imm = 0;
    } else {
        addr = o->v;
    }
    for (uint32_t k = 0; k < n; k++) {
        struct sg_opel el = {v->kind, v->v, v->imm};

        if (v->kind == SG_O_VEC)
            el = v->el[k];
        *r[k] = load ? sg_dst_el(d, &el, SG_TY_B32) : sg_src_el(d, &el, SG_TY_B32);
    }
    f[1] = addr;
    sg_emit(d, SG_OP_wsync, NONE, sg_const32(d, SG_FULL), NONE, NONE);
    i = sg_emit_x(d,
                  halves ? load ? SG_OP_ldmatrix : SG_OP_stmatrix
                  : load ? SG_OP_ldmatrix_b8
                         : SG_OP_stmatrix_b8,
                  f, load ? SG_F_D | SG_F_B | SG_F_C | SG_F_E : 0,
                  load ? SG_F_A : SG_F_D | SG_F_A | SG_F_B | SG_F_C | SG_F_E);
    if (!d->err) {
        d->insns[i].aux = n | aux;
        d->insns[i].imm = (int64_t)o->imm;
    }
    return d->err;
}

static int emit_movmatrix(struct sg_dec *d)
{
    sg_mod(d, "sync");
    sg_mod(d, "aligned");
    if (!sg_mod(d, "m8n8") || !sg_mod(d, "trans") || sg_ty(d, 0) != SG_TY_B16)
        return sg_dec_refuse(d, NULL);
    sg_emit(d, SG_OP_wsync, NONE, sg_const32(d, SG_FULL), NONE, NONE);
    sg_emit(d, SG_OP_movmatrix, sg_dst(d, 0, SG_TY_B32), sg_src(d, 1, SG_TY_B32), NONE, NONE);
    return d->err;
}

/* ---- wmma ---- */

/* n registers of operand i, four to an "ext" */
static void emit_exts(struct sg_dec *d, uint32_t i, uint32_t n, bool dst)
{
    struct sg_opnd whole = d->ops[i];

    if (n <= 4) {
        sg_mma_registers(d, SG_OP_ext, i, n, SG_TY_B32, dst);
        return;
    }
    if (whole.kind != SG_O_VEC || whole.nel != n) {
        sg_dec_syntax(d, "%s: operand %u: %u registers expected", d->oc.full, i + 1, n);
        return;
    }
    for (uint32_t k = 0; k < n; k += 4) {
        d->ops[i].nel = 4;
        memcpy(d->ops[i].el, whole.el + k, 4 * sizeof(whole.el[0]));
        sg_mma_registers(d, SG_OP_ext, i, 4, SG_TY_B32, dst);
    }
    d->ops[i] = whole;
}

static int wmma_shape(struct sg_dec *d)
{
    static const char *const s[] = {"m16n16k16", "m32n8k16", "m8n32k16", "m16n16k8"};

    for (int i = 0; i < 4; i++)
        if (sg_mod(d, s[i]))
            return i;
    return -1;
}

static int wmma_type(enum sg_type t, bool acc)
{
    if (acc)
        return t == SG_TY_F32 ? 'f' : t == SG_TY_F16 ? 'h' : t == SG_TY_S32 ? 'i' : -1;
    return t == SG_TY_F64 ? -1 : sg_mma_type_of(t);
}

/* wmma.load.x d, [p]{, stride} and wmma.store.d [p], c{, stride} */
static int wmma_ldst(struct sg_dec *d, bool load, int shape)
{
    char which = sg_mod(d, "a") ? 'a' : sg_mod(d, "b") ? 'b' : 'c';
    bool col = sg_mod(d, "col");
    int type = wmma_type(sg_ty(d, 0), which == 'c');
    enum sg_space sp = sg_mod(d, "global")                               ? SG_SP_GLOBAL
                       : sg_mod(d, "shared") || sg_mod(d, "shared::cta") ? SG_SP_SHARED
                                                                         : SG_SP_GENERIC;
    struct sg_opnd *o = &d->ops[load ? 1 : 0];
    struct sg_wmma x;
    uint32_t f[5] = {NONE, NONE, NONE, NONE, NONE}, i;

    sg_mod(d, "c");
    sg_mod(d, "d");
    sg_mod(d, "row");
    if (sg_mod(d, "const") || sg_mod(d, "local") || sg_mod(d, "param"))
        return sg_dec_syntax(d, "%s: global or shared memory expected", d->oc.full);
    if (which != 'c' && (sg_ty(d, 0) == SG_TY_F32 || sg_ty(d, 0) == SG_TY_S32))
        return sg_dec_syntax(d, "%s: the type of an accumulator", d->oc.full);
    if (type < 0 || d->nops < 2)
        return sg_dec_refuse(d, NULL);
    if (o->kind != SG_O_ADDR || o->base == SG_O_NONE)
        return sg_dec_syntax(d, "%s: an address expected", d->oc.full);
    x = sg_wmma_of((uint32_t)shape, which, (uint8_t)type);
    if (o->base == SG_O_SYM) {
        f[1] = sg_sym_address(d, o, SG_TY_U64);
        o->imm = 0;
    } else if (d->vregs[o->v].cls == SG_C_32) {
        f[1] = sg_temp(d, SG_TY_U64);
        sg_emit(d, SG_OP_cvt_u64_u32, f[1], o->v, NONE, NONE);
    } else {
        f[1] = o->v;
    }
    f[2] = d->nops > 2 ? sg_src(d, 2, SG_TY_U32) : sg_const32(d, col ? x.rows : x.cols);
    i = sg_emit_x(d, load ? SG_OP_wmma_load : SG_OP_wmma_store, f, 0, SG_F_A | SG_F_B);
    emit_exts(d, load ? 0 : 1, x.nregs, load);
    if (!d->err) {
        d->insns[i].imm = (int64_t)o->imm;
        d->insns[i].aux = SG_WMMA_AUX(shape, which, type, col, sp);
    }
    return d->err;
}

/* wmma.mma d, a, b, c */
static int wmma_mma(struct sg_dec *d, int shape)
{
    int td = wmma_type(sg_ty(d, 0), true), tc, ta = SG_MMA_F16, tb = SG_MMA_F16;
    uint32_t i, n = d->oc.ntypes;

    tc = wmma_type(sg_ty(d, n - 1), true);
    if (n == 4) {
        ta = wmma_type(sg_ty(d, 1), false);
        tb = wmma_type(sg_ty(d, 2), false);
    }
    sg_mod(d, "row");
    sg_mod(d, "col");
    if ((n != 2 && n != 4) || ta < 0 || tb < 0 || td < 0 || tc < 0 || d->nops != 4)
        return sg_dec_refuse(d, NULL);
    i = sg_emit(d, SG_OP_wmma_mma, NONE, NONE, NONE, NONE);
    emit_exts(d, 1, sg_wmma_of((uint32_t)shape, 'a', (uint8_t)ta).nregs, false);
    emit_exts(d, 2, sg_wmma_of((uint32_t)shape, 'b', (uint8_t)tb).nregs, false);
    emit_exts(d, 3, sg_wmma_of((uint32_t)shape, 'c', (uint8_t)tc).nregs, false);
    emit_exts(d, 0, sg_wmma_of((uint32_t)shape, 'c', (uint8_t)td).nregs, true);
    if (!d->err) {
        d->insns[i].aux = (uint32_t)shape | (sg_mod(d, "satfinite") ? 16 : 0);
        d->insns[i].imm =
            (int64_t)((uint32_t)ta | (uint32_t)tb << 8 | (uint32_t)tc << 16 | (uint32_t)td << 24);
    }
    return d->err;
}

/* Operand i as a 64-bit address, and its state space. */
static uint32_t wmma_address(struct sg_dec *d, uint32_t i, uint32_t *space)
{
    enum sg_space sp = sg_mod(d, "global")                               ? SG_SP_GLOBAL
                       : sg_mod(d, "shared") || sg_mod(d, "shared::cta") ? SG_SP_SHARED
                                                                         : SG_SP_GENERIC;
    uint32_t a = sg_flat_address(d, i, sp), wide;

    *space = sp;
    if (sp != SG_SP_SHARED)
        return a;
    wide = sg_temp(d, SG_TY_U64);
    sg_emit(d, SG_OP_cvt_u64_u32, wide, a, NONE, NONE);
    return wide;
}

/* m8n8k4 of f64: the registers are those of mma.m8n8k4. */
static int wmma_f64(struct sg_dec *d, bool load, bool store)
{
    char which = sg_mod(d, "a") ? 'a' : sg_mod(d, "b") ? 'b' : 'c';
    uint32_t n = which == 'c' ? 2 : 1, f[5] = {NONE, NONE, NONE, NONE, NONE}, i;
    uint32_t sp;
    bool col;

    if (!load && !store) {
        sg_mod(d, "rn");
        sg_mod(d, "row");
        sg_mod(d, "col");
        if (!sg_mod(d, "mma") || d->nops != 4 || d->oc.ntypes != 4)
            return sg_dec_refuse(d, NULL);
        i = sg_mma_registers(d, SG_OP_mma_f64, 1, 1, SG_TY_F64, false);
        sg_mma_registers(d, SG_OP_ext, 2, 1, SG_TY_F64, false);
        sg_mma_registers(d, SG_OP_ext, 3, 2, SG_TY_F64, false);
        sg_mma_registers(d, SG_OP_ext, 0, 2, SG_TY_F64, true);
        return d->err;
    }
    sg_mod(d, "c");
    sg_mod(d, "d");
    col = sg_mod(d, "col");
    sg_mod(d, "row");
    const struct sg_opnd *v = &d->ops[load ? 0 : 1];

    if ((v->kind == SG_O_VEC ? v->nel : 1) != n)
        return sg_dec_syntax(d, "%s: %u registers expected", d->oc.full, n);
    f[1] = wmma_address(d, load ? 1 : 0, &sp);
    f[2] =
        d->nops > 2 ? sg_src(d, 2, SG_TY_U32) : sg_const32(d, which == 'c' || (which == 'b') != col ? 8 : 4);
    for (uint32_t k = 0; k < n; k++) {
        struct sg_opel el = {v->kind, v->v, v->imm};

        if (v->kind == SG_O_VEC)
            el = v->el[k];
        f[3 + k] = load ? sg_dst_el(d, &el, SG_TY_F64) : sg_src_el(d, &el, SG_TY_F64);
    }
    i = sg_emit_x(d, load ? SG_OP_wmma_load_f64 : SG_OP_wmma_store_f64, f, load ? SG_F_C | SG_F_E : 0,
                  SG_F_A | SG_F_B | (load ? 0 : SG_F_C | SG_F_E));
    if (!d->err)
        d->insns[i].aux = SG_WMMA_AUX(0, which, 0, col, sp);
    return d->err;
}

/* m8n8k32 of 4 bits and m8n8k128 of 1 bit: the registers are those of mma of the same shape. */
static int wmma_sub(struct sg_dec *d, bool load, bool store)
{
    static const char *const elements[] = {"s4", "u4", "b1"};
    bool a = sg_mod(d, "a"), b = sg_mod(d, "b"), b1, col, shape;
    uint32_t n = a || b ? 1 : 2, f[5] = {NONE, NONE, NONE, NONE, NONE}, i, have = 0;
    struct sg_opel el[2];
    const struct sg_opnd *v;

    if (!load && !store)
        return sg_mod(d, "mma") ? emit_mma_sub(d) : sg_dec_refuse(d, NULL);
    b1 = sg_mod(d, "m8n8k128");
    shape = b1 || sg_mod(d, "m8n8k32");
    for (i = 0; i < 3; i++)
        have |= sg_mod(d, elements[i]) ? 1u << i : 0;
    sg_mod(d, "c");
    sg_mod(d, "d");
    col = sg_mod(d, "col");
    if (!shape || d->nops < 2 ||
        (n == 1 ? have != (b1 ? 4u : have & 3u) || !have || col != b : have || sg_ty(d, 0) != SG_TY_S32) ||
        col == sg_mod(d, "row"))
        return sg_dec_refuse(d, NULL);
    v = &d->ops[load ? 0 : 1];
    if ((v->kind == SG_O_VEC ? v->nel : 1) != n)
        return sg_dec_syntax(d, "%s: %u registers expected", d->oc.full, n);
    el[0] = (struct sg_opel){v->kind, v->v, v->imm};
    if (v->kind == SG_O_VEC)
        memcpy(el, v->el, n * sizeof(el[0]));
    f[1] = wmma_address(d, load ? 1 : 0, &i);
    f[2] = d->nops > 2 ? sg_src(d, 2, SG_TY_U32) : sg_const32(d, n == 2 ? 8 : b1 ? 128 : 32);
    for (uint32_t k = 0; k < n; k++)
        f[3 + k] = load ? sg_dst_el(d, &el[k], SG_TY_B32) : sg_src_el(d, &el[k], SG_TY_B32);
    have = i;
    i = sg_emit_x(d, load ? SG_OP_wmma_load_sub : SG_OP_wmma_store_sub, f, load ? SG_F_C | SG_F_E : 0,
                  SG_F_A | SG_F_B | (load ? 0 : SG_F_C | SG_F_E));
    if (!d->err)
        d->insns[i].aux = SG_WMMA_AUX(0, a ? 'a' : b ? 'b' : 'c', b1, col, have);
    return d->err;
}

static int emit_wmma(struct sg_dec *d)
{
    bool load = sg_mod(d, "load"), store = sg_mod(d, "store"), f64 = sg_mod(d, "m8n8k4"), sub = false;
    int shape = wmma_shape(d);

    for (uint32_t i = 0; i < d->oc.nmods; i++)
        sub |= !strcmp(d->oc.mods[i], "m8n8k32") || !strcmp(d->oc.mods[i], "m8n8k128");
    if (!sg_mod(d, "sync") || (f64 ? sg_ty(d, 0) != SG_TY_F64 : !sub && shape < 0))
        return sg_dec_refuse(d, NULL);
    sg_mod(d, "aligned");
    sg_emit(d, SG_OP_wsync, NONE, sg_const32(d, SG_FULL), NONE, NONE);
    if (sub)
        return wmma_sub(d, load, store);
    if (f64)
        return wmma_f64(d, load, store);
    if (load || store)
        return wmma_ldst(d, load, shape);
    return sg_mod(d, "mma") ? wmma_mma(d, shape) : sg_dec_refuse(d, NULL);
}

const struct sg_family sg_families_mma[] = {
    {"wmma", emit_wmma, 2, 4, SG_FAM_CTL, NULL},
    {"mma", emit_mma, 4, 10, SG_FAM_CTL | SG_FAM_GROWS, NULL},
    {"wgmma", sg_emit_wgmma, 0, 10, SG_FAM_CTL, NULL},
    {"tcgen05", sg_emit_tcgen05, 0, 10, SG_FAM_CTL, NULL},
    {"ldmatrix", emit_ldst_matrix, 2, 2, SG_FAM_CTL, NULL},
    {"stmatrix", emit_ldst_matrix, 2, 2, SG_FAM_CTL, NULL},
    {"movmatrix", emit_movmatrix, 2, 2, SG_FAM_CTL, NULL},
    {NULL, NULL, 0, 0, 0, NULL},
};
