/* SPDX-License-Identifier: MIT */
/*
 * The verifier. Handlers and native code trust instructions: operands are offsets that are not
 * checked again, targets are where execution continues. This file checks the finished instructions
 * of a kernel, after all passes of the front end, without knowing how they were produced:
 *
 *   operands   lie in the register file, among registers of their width, or in the constant pool
 *   targets    are instructions of the same function, never inside a span
 *   functions  end with a jump, an exit or a return; only called functions return
 *   calls      have an entry in the table, and a request for room in front of them
 *   values     hoisted values and special registers do not overlap or change; flat[] has their widths
 *   the rest   further requirements of an operation's handler: enum sg_rule
 *
 * A kernel that fails is the result of a bug here and is refused, never run. The work is linear.
 */
#include "exec/bytecode.h"
#include "exec/verify_units.h"

#include <stdio.h>
#include <stdlib.h>

#define MXCSR_MASKED 0x1f80u
#define MXCSR_MODES (0x6000u | 0x8040u) /* rounding, flushing */
#define MAX_SPANS 4u
#define ANY_FUNCTION UINT32_MAX
#define NO_LIST (UINT32_MAX - 1)

/* Marks of an instruction. */
#define M_TARGET 1u
#define M_INSIDE 2u /* inside a span */
#define M_CALLEE 4u

struct verify {
    const struct sg_code *c;
    const struct sg_insn *insns; /* checked code: the kernel's, or code that runs ahead */
    uint32_t n, at;
    uint32_t param_bytes;
    uint8_t *marks;
    uint8_t *units;     /* exec/verify_units.h */
    uint32_t *function; /* per instruction: number of functions that begin up to it */
    uint32_t *list;     /* per word of targets: function of the list that begins there */
    sg_fn ext;
    char *why;
    size_t size;
};

static bool not_ok(struct verify *v, const char *what)
{
    const struct sg_insn *in = v->at < v->n ? &v->insns[v->at] : NULL;

    snprintf(v->why, v->size, "instruction %u (%s, line %u): %s", v->at, in ? sg_op_name(in->fn) : "none",
             in ? in->line : 0, what);
    return false;
}

static uint32_t operand_field(const struct sg_insn *in, unsigned k)
{
    const uint32_t f[SG_FIELDS] = {in->d, in->a, in->b, in->c, in->e};

    return f[k];
}

/* Valid offsets of a value: [begin, end), in steps of step, a power of two, from begin. */
static bool lies_in(uint32_t at, uint32_t begin, uint32_t end, uint32_t size, uint32_t step)
{
    return at >= begin && at <= end && end - at >= size && !((at - begin) & (step - 1));
}

static bool check_place(const struct sg_code *c, uint32_t op, uint8_t w)
{
    const uint32_t kind = w & SG_W_KIND, size = kind == SG_W_PRED ? 4 : kind == SG_W_32 ? 128 : 256;

    if (op & SG_OPND_CONST)
        return !(w & SG_W_OUT) && lies_in(op & ~SG_OPND_CONST, 0, c->pool_bytes, size, 128);
    if (op < c->slots_begin) /* special registers and hoisted values */
        return lies_in(op, 0, c->slots_begin, size, 128);
    switch (kind) {
    case SG_W_PRED:
        return lies_in(op, c->slots_end, c->regfile_bytes, size, size);
    case SG_W_32:
        return lies_in(op, c->slots32, c->slots_end, size, size);
    default:
        return lies_in(op, c->slots_begin, c->slots32, size, size);
    }
}

static bool check_operand(struct verify *v, uint32_t i, unsigned k, uint8_t w)
{
    char outside[] = "operand d is outside its registers";
    const uint8_t *said = v->insns == v->c->insns ? v->c->fields : NULL;
    const uint32_t op = operand_field(&v->insns[i], k);

    outside[8] = "dabce"[k];
    if (!check_place(v->c, op, w) || !sg_verify_units_claim(v->c, v->units, op, w))
        return not_ok(v, check_place(v->c, op, w) ? "an operand overlaps another value" : outside);
    if ((w & SG_W_OUT) && v->insns == v->c->insns && sg_verify_units_ahead(v->c, op))
        return not_ok(v, "it writes a value that is computed ahead");
    /* native code relies on them: the check of an address holds until the register's next definition or
       last use */
    if (!said || (op & SG_OPND_CONST))
        return true;
    if (w & SG_W_OUT)
        return (said[2 * i] >> k & 1) || not_ok(v, "it writes what it is not said to define");
    return (said[2 * i + 1] >> k & 1) || not_ok(v, "it reads what it is not said to use");
}

/* n registers from instruction i on, four each in d a b c; after the first they are "ext". */
static bool check_registers(struct verify *v, uint32_t i, uint32_t n, uint8_t w)
{
    for (uint32_t r = 0; r < n; r++) {
        const uint32_t at = i + r / 4;

        if (at >= v->n || (at != v->at && v->insns[at].fn != v->ext))
            return not_ok(v, "the operands behind are missing");
        if (!check_operand(v, at, r % 4, w))
            return false;
    }
    return true;
}

static uint32_t lists_of(uint32_t n)
{
    return (n + 3) / 4;
}

/* Elements in d b c e, the first n of four. */
static bool check_vector(struct verify *v, uint32_t n, uint8_t w)
{
    static const uint8_t at[] = {0, 2, 3, 4};

    if (n != 1 && n != 2 && n != 4)
        return not_ok(v, "so many elements there are not");
    for (uint32_t k = 0; k < n; k++)
        if (!check_operand(v, v->at, at[k], w))
            return false;
    return true;
}

/* A load or store: aux, which the checked path uses, must agree with the operation. */
static bool access_fits(struct verify *v, const struct sg_opdef *row, bool store)
{
    static const uint8_t at[] = {0, 2, 3, 4};
    const uint32_t aux = v->insns[v->at].aux, n = SG_AUX_VEC(aux);
    const uint8_t w = (SG_AUX_ELEM(aux) == 8 ? SG_W_64 : SG_W_32) | (store ? 0 : SG_W_OUT);
    const uint8_t a = aux & SG_AUX_ADDR32 ? SG_W_32 : SG_W_64;

    if (SG_AUX_SPACE(aux) > SG_SP_CONST || (row->field[1] != SG_W_ADDRESS && row->field[1] != a))
        return not_ok(v, "its address is another than the operation's");
    for (uint32_t k = 0; k < 4; k++)
        if (row->field[at[k]] != SG_W_VARIES && row->field[at[k]] != (k < n ? w : SG_W_NONE))
            return not_ok(v, "its elements are others than the operation's");
    return check_operand(v, v->at, 1, a) && check_vector(v, n, w);
}

static bool check_parameter(struct verify *v, uint32_t bytes)
{
    const int64_t at = v->insns[v->at].imm;

    return (at >= 0 && bytes <= v->param_bytes && (uint64_t)at <= v->param_bytes - bytes) ||
           not_ok(v, "outside the parameters");
}

/* ---- matrices ---- */

/* Lists of registers from instruction i on, n[] of each; the last is written. */
static bool check_lists(struct verify *v, uint32_t i, const uint32_t *n, uint32_t lists, uint8_t w)
{
    for (uint32_t k = 0; k < lists; i += lists_of(n[k]), k++)
        if (!check_registers(v, i, n[k], w | (k + 1 == lists ? SG_W_OUT : 0)))
            return false;
    return true;
}

static bool check_mma(struct verify *v, const struct sg_opdef *row)
{
    const bool f64 = row->rule == SG_R_MMA_F64 || row->rule == SG_R_MMA_F64_16;
    uint32_t n[SG_MMA_LISTS];
    const uint32_t lists = sg_mma_lists(row, v->insns[v->at].aux, n);

    return lists ? check_lists(v, v->at, n, lists, f64 ? SG_W_64 : SG_W_32)
                 : not_ok(v, "no form of the operation");
}

/* Number of registers of a matrix; 0: unknown shape or type. */
static uint32_t matrix_regs(uint32_t shape, char which, uint8_t type)
{
    const bool sum = type == 'f' || type == 'h' || type == 'i';

    if (shape > 3 || which < 'a' || which > 'c' || (which == 'c') != sum ||
        (!sum && (type > SG_MMA_E5M2 || type == SG_MMA_F64)))
        return 0;
    return sg_wmma_of(shape, which, type).nregs;
}

static bool wmma_move(struct verify *v, bool load)
{
    const uint32_t aux = v->insns[v->at].aux;
    const uint32_t n = matrix_regs(SG_WMMA_SHAPE(aux), SG_WMMA_WHICH(aux), SG_WMMA_TYPE(aux));

    if (!n || SG_WMMA_SPACE(aux) > SG_SP_CONST)
        return not_ok(v, "no matrix that there is");
    return check_registers(v, v->at + 1, n, SG_W_32 | (load ? SG_W_OUT : 0));
}

static bool check_wmma(struct verify *v)
{
    const uint32_t shape = v->insns[v->at].aux & 15, types = (uint32_t)v->insns[v->at].imm;
    uint32_t n[4];

    for (uint32_t k = 0; k < 4; k++) {
        n[k] = matrix_regs(shape, k > 1 ? 'c' : (char)('a' + k), (uint8_t)(types >> (8 * k)));
        if (!n[k])
            return not_ok(v, "no matrix that there is");
    }
    return check_lists(v, v->at + 1, n, 4, SG_W_32);
}

/* The handler writes the first sums before it reads the last ones. */
static bool check_wgmma_in_place(struct verify *v, uint32_t from, uint32_t nd)
{
    const struct sg_insn *x = &v->insns[from], *y = x + (nd + 3) / 4;

    for (uint32_t r = 0; r < nd; r++) {
        const struct sg_insn *i = &x[r / 4], *o = &y[r / 4];

        if (r % 4 == 0 ? i->d != o->d : r % 4 == 1 ? i->a != o->a : r % 4 == 2 ? i->b != o->b : i->c != o->c)
            return not_ok(v, "sums in other registers than they are added to");
    }
    return true;
}

static bool check_wgmma(struct verify *v)
{
    const uint32_t aux = v->insns[v->at].aux, in_registers = aux & SG_WGMMA_A_REGISTERS ? 1 : 0;
    const uint32_t list = v->at + 1 + in_registers;
    struct sg_wgmma f;

    if (!sg_wgmma_of(aux, &f))
        return not_ok(v, "no form of the operation");
    if (in_registers ? !check_registers(v, v->at + 1, SG_WGMMA_A_REGS, SG_W_32)
                     : !check_operand(v, v->at, 2, SG_W_64))
        return false;
    return (!(aux & SG_WGMMA_SPARSE) || check_operand(v, v->at, 3, SG_W_32)) &&
           check_lists(v, list, (const uint32_t[]){f.nd, f.nd}, 2, SG_W_32) &&
           check_wgmma_in_place(v, list, f.nd);
}

/* Instructions of tensor memory: of ld and st, the registers behind. */
static bool check_tcgen05(struct verify *v, const struct sg_opdef *row)
{
    const int64_t imm = v->insns[v->at].imm;
    const uint32_t n = row->rule == SG_R_TCGEN05_MOVE ? sg_tensor_move_registers(imm) : 0;

    if (!v->c->tensor)
        return not_ok(v, "a kernel without tensor memory");
    if ((row->rule == SG_R_TCGEN05_MOVE && !n) || (row->rule == SG_R_TCGEN05_CP && !sg_tensor_cp_fits(imm)))
        return not_ok(v, "no form of the operation");
    if (row->rule == SG_R_TCGEN05_MMA) {
        const uint32_t aux = v->insns[v->at].aux;

        return (sg_tensor_product_fits(aux) || not_ok(v, "no form of the operation")) &&
               check_operand(v, v->at, 1, aux & SG_TENSOR_A ? SG_W_32 : SG_W_64) &&
               check_registers(v, v->at + 1, aux & SG_TENSOR_KEEP ? 4 : 0, SG_W_32);
    }
    return check_registers(v, v->at + 1, n, SG_W_32 | (row->arg ? SG_W_OUT : 0));
}

/* A part of each lane in c, and in e if it has two registers. */
static bool wmma_lane(struct verify *v, const struct sg_opdef *row)
{
    const uint32_t aux = v->insns[v->at].aux;

    if (SG_WMMA_SPACE(aux) > SG_SP_CONST)
        return not_ok(v, "no matrix that there is");
    return SG_WMMA_WHICH(aux) != 'c' || check_operand(v, v->at, 4, row->field[3]);
}

static bool atom128(struct verify *v)
{
    const uint32_t i = v->at + 1;

    if (i >= v->n || v->insns[i].fn != v->ext)
        return not_ok(v, "the operands behind are missing");
    return check_operand(v, i, 1, SG_W_64) && check_operand(v, i, 2, SG_W_64);
}

static bool check_bulk(struct verify *v, bool reduce)
{
    const struct sg_insn *in = &v->insns[v->at];
    const bool multi = !reduce && (in->imm & SG_BULK_MULTICAST);
    const uint32_t type = in->aux >> 8, size = type < SG_TY_COUNT ? sg_type_size((enum sg_type)type) : 0;

    if (reduce && size != 2 && size != 4 && size != 8)
        return not_ok(v, "no type that can be added");
    return check_operand(v, v->at, 0, multi || (in->imm & SG_BULK_TO_SHARED) ? SG_W_32 : SG_W_64) &&
           check_operand(v, v->at, 1, in->imm & SG_BULK_FROM_SHARED ? SG_W_32 : SG_W_64) &&
           (!(multi || (in->imm & SG_BULK_BARRIER)) || check_operand(v, v->at, 3, SG_W_32)) &&
           (!multi || check_operand(v, v->at, 4, SG_W_32));
}

/* ---- functions ---- */

/* The entry of a real call in the table. */
static bool call_entry(struct verify *v, uint32_t at)
{
    const struct sg_code *c = v->c;
    uint64_t words = 0;

    if (!c->calls || at > c->ncall_words || c->ncall_words - at < SG_CALL_REGS ||
        c->calls[at + SG_CALL_NREGS] > c->ncall_words - at - SG_CALL_REGS)
        return not_ok(v, "no such entry in the table of calls");
    for (uint32_t k = 0; k < c->calls[at + SG_CALL_NREGS]; k++) {
        static const uint8_t widths[] = {SG_W_PRED, SG_W_32, SG_W_64, SG_W_NONE};
        const uint32_t r = c->calls[at + SG_CALL_REGS + k], cls = r >> 30;

        if (cls > SG_CALL_64 || !check_place(c, r & 0x3fffffffu, widths[cls] | SG_W_OUT) ||
            !sg_verify_units_claim(c, v->units, r & 0x3fffffffu, widths[cls] | SG_W_OUT))
            return not_ok(v, "a saved register is outside its registers");
        words += cls == SG_CALL_64 ? 2 : 1;
    }
    if (words != c->calls[at + SG_CALL_WORDS] || c->calls[at + SG_CALL_CALLER] > SG_MAX_LOCAL ||
        c->calls[at + SG_CALL_CALLEE] > SG_MAX_LOCAL)
        return not_ok(v, "an entry in the table of calls has wrong sizes");
    return sg_sreg_there(c, SG_SR_FRAME) || not_ok(v, "a call without a frame");
}

static bool rule_ends(uint8_t rule)
{
    return rule == SG_R_BRA || rule == SG_R_BRX || rule == SG_R_EXIT || rule == SG_R_RETURN;
}

/* Changes which lanes run, or where: forbidden in a span, which runs as a unit. */
static bool rule_controls(uint8_t rule)
{
    return rule_ends(rule) || rule == SG_R_BRA_IF || rule == SG_R_EXIT_IF || rule == SG_R_SYNC ||
           rule == SG_R_ROOM || rule == SG_R_CALL;
}

/* True if the instruction at distance imm exists; marks it. */
static bool check_target(struct verify *v, uint8_t mark)
{
    const int64_t imm = v->insns[v->at].imm, n = v->n;

    if (imm <= -n || imm >= n || v->at + imm < 0 || v->at + imm >= n)
        return not_ok(v, "its target is outside the code");
    v->marks[v->at + imm] |= mark;
    return true;
}

/* First pass: spans, and targets of branches and calls. */
static bool find_targets(struct verify *v)
{
    uint32_t end[MAX_SPANS], depth = 0;
    const struct sg_code *c = v->c;

    for (v->at = 0; v->at < v->n; v->at++) {
        const struct sg_insn *in = &v->insns[v->at];
        const struct sg_opdef *row = sg_op_def_of(in->fn);

        if (!row)
            return not_ok(v, "no operation");
        while (depth && end[depth - 1] == v->at)
            depth--;
        v->marks[v->at] |= depth ? M_INSIDE : 0;
        if (depth && rule_controls(row->rule))
            return not_ok(v, "inside of a span");
        if ((row->rule == SG_R_BRA || row->rule == SG_R_BRA_IF) && !check_target(v, M_TARGET))
            return false;
        if (row->rule == SG_R_CALL && !check_target(v, M_CALLEE))
            return false;
        if (row->rule != SG_R_SPAN && row->rule != SG_R_FPMODE && row->rule != SG_R_FLAT)
            continue;
        if (in->aux >= v->n - v->at - 1 || (row->rule == SG_R_FLAT && in->aux != 1) ||
            (depth && v->at + 1 + in->aux > end[depth - 1]) || depth == MAX_SPANS)
            return not_ok(v, "a span that goes too far");
        end[depth++] = v->at + 1 + in->aux;
    }
    for (uint32_t k = 0; k < c->ntargets; k++)
        v->list[k] = NO_LIST;
    for (uint32_t k = 0; k < c->ntargets;) {
        const uint32_t n = c->targets[k];

        v->at = v->n;
        v->list[k++] = ANY_FUNCTION;
        if (n > c->ntargets - k)
            return not_ok(v, "a list of targets goes too far");
        for (uint32_t e = k + n; k < e; k++) {
            if (c->targets[k] >= v->n)
                return not_ok(v, "a target of a list is outside the code");
            v->marks[c->targets[k]] |= M_TARGET;
        }
    }
    return true;
}

/* Second pass: functions. The first is the kernel; the others begin at the targets of calls. */
static bool find_functions(struct verify *v)
{
    const struct sg_code *c = v->c;
    uint32_t n = 0;

    for (v->at = 0; v->at < v->n; v->at++) {
        const uint8_t m = v->marks[v->at];

        if ((m & M_INSIDE) && (m & (M_TARGET | M_CALLEE)))
            return not_ok(v, "a target inside of a span");
        if (m & M_CALLEE) {
            if (!v->at || !rule_ends(sg_op_def_of(v->insns[v->at - 1].fn)->rule))
                return not_ok(v, "a function that is also reached from in front");
            n++;
        }
        v->function[v->at] = n;
    }
    v->at = v->n - 1;
    if (!rule_ends(sg_op_def_of(v->insns[v->at].fn)->rule))
        return not_ok(v, "the code goes on behind its end");
    v->at = v->n;
    for (uint32_t k = 0; k < c->ntargets;) {
        const uint32_t first = k, e = ++k + c->targets[first];

        for (; k < e; k++) {
            if (k == first + 1)
                v->list[first] = v->function[c->targets[k]];
            if (v->list[first] != v->function[c->targets[k]])
                return not_ok(v, "a list of targets in two functions");
        }
    }
    return true;
}

/* ---- an instruction ---- */

static bool float_mode(uint64_t mode)
{
    return (mode & MXCSR_MASKED) == MXCSR_MASKED && !(mode & ~(uint64_t)(MXCSR_MASKED | MXCSR_MODES));
}

/* Allowed only in the kernel's own code; *room: 1 + the entry that room is requested for. */
static bool check_control(struct verify *v, const struct sg_opdef *row, uint64_t *room)
{
    const struct sg_insn *in = &v->insns[v->at];
    const uint64_t asked = *room;
    const uint32_t here = v->function[v->at];

    if (v->marks[v->at] & (M_TARGET | M_CALLEE) || rule_controls(row->rule))
        *room = 0;
    switch (row->rule) {
    case SG_R_BRA:
    case SG_R_BRA_IF:
        return v->function[v->at + in->imm] == here || not_ok(v, "a branch to another function");
    case SG_R_BRX:
        if (in->imm < 0 || in->imm >= v->c->ntargets || v->list[in->imm] == NO_LIST)
            return not_ok(v, "no such list of targets");
        return v->list[in->imm] == ANY_FUNCTION || v->list[in->imm] == here ||
               not_ok(v, "a branch to another function");
    case SG_R_ROOM:
        *room = (uint64_t)in->aux + 1;
        return call_entry(v, in->aux);
    case SG_R_CALL:
        if ((v->marks[v->at] & (M_TARGET | M_CALLEE)) || asked != (uint64_t)in->aux + 1)
            return not_ok(v, "a call that no room was asked for");
        return call_entry(v, in->aux);
    case SG_R_RETURN:
        return here || not_ok(v, "a return from the kernel");
    case SG_R_FLAT: {
        const struct sg_opdef *next = sg_op_def_of(in[1].fn);

        return sg_op_is_pure(next) || not_ok(v, "it does not go with the next");
    }
    case SG_R_FPMODE:
        return float_mode((uint64_t)in->imm) || not_ok(v, "no mode of floating point");
    default:
        return true;
    }
}

static bool rule_holds(struct verify *v, const struct sg_opdef *row)
{
    const struct sg_insn *in = &v->insns[v->at];
    const struct sg_code *c = v->c;

    switch (row->rule) {
    case SG_R_INDEX:
        return (in->imm >= 0 && in->imm < row->arg) || not_ok(v, "its number is too high");
    case SG_R_ALLOCA:
        if (!in->aux || in->aux > 128 || (in->aux & (in->aux - 1)) || in->imm < 0 || in->imm > SG_MAX_LOCAL)
            return not_ok(v, "no size or alignment of a frame");
        /* fallthrough */
    case SG_R_STACK:
        return (sg_sreg_there(c, SG_SR_FRAME) && sg_code_has_top(c)) || not_ok(v, "alloca without a frame");
    case SG_R_LOAD:
        return access_fits(v, row, false);
    case SG_R_STORE:
        return access_fits(v, row, true);
    case SG_R_LOAD_P:
        return check_parameter(v, row->arg);
    case SG_R_CP_ASYNC:
        return in->aux == 4 || in->aux == 8 || in->aux == 16 || not_ok(v, "a size that there is not");
    case SG_R_BULK:
    case SG_R_BULK_REDUCE:
        return check_bulk(v, row->rule == SG_R_BULK_REDUCE);
    case SG_R_CDP:
        return c->launches || not_ok(v, "a kernel that launches none");
    case SG_R_SURFACE:
        return (SG_TX_VEC(in->aux) >= 1 && SG_TX_VEC(in->aux) <= 4 &&
                (!row->arg || (SG_TX_VEC(in->aux) == 1 && SG_TX_BYTES(in->aux) >= 4))) ||
               not_ok(v, "so many elements there are not");
    case SG_R_MATRIX: /* a matrix of 16 rows has two registers */
        return (in->aux & 16 && (in->aux & 15) < row->arg) ? not_ok(v, "half a matrix")
                                                           : check_vector(v, in->aux & 15, row->field[0]);
    case SG_R_ATOM128:
        return atom128(v);
    case SG_R_MMA:
    case SG_R_MMA_F64:
    case SG_R_MMA_F64_16:
    case SG_R_MMA_SUB:
    case SG_R_MMA_WIDE:
        return check_mma(v, row);
    case SG_R_WMMA:
        return check_wmma(v);
    case SG_R_WGMMA:
        return check_wgmma(v);
    case SG_R_TCGEN05:
    case SG_R_TCGEN05_MOVE:
    case SG_R_TCGEN05_CP:
    case SG_R_TCGEN05_MMA:
        return check_tcgen05(v, row);
    case SG_R_WMMA_MOVE:
        return wmma_move(v, row->arg != 0);
    case SG_R_WMMA_LANE:
        return wmma_lane(v, row);
    default:
        return true;
    }
}

static bool check_instruction(struct verify *v, const struct sg_opdef *row)
{
    for (unsigned k = 0; k < SG_FIELDS; k++) {
        uint8_t w = row->field[k];
        const uint32_t kind = w & SG_W_KIND;

        if (kind == SG_W_NONE || kind == SG_W_VARIES || (w & SG_W_OPTIONAL))
            continue; /* the rule knows */
        if (kind == SG_W_ADDRESS) {
            w = (w & SG_W_OUT) | (v->insns[v->at].aux & SG_AUX_ADDR32 ? SG_W_32 : SG_W_64);
            if (SG_AUX_SPACE(v->insns[v->at].aux) > SG_SP_CONST)
                return not_ok(v, "its address is in no space that there is");
        }
        if (!check_operand(v, v->at, k, w))
            return false;
    }
    return rule_holds(v, row);
}

/* Code that runs ahead of blocks: straight-line, computing only values. */
static bool check_ahead(struct verify *v, const struct sg_ahead *a)
{
    v->insns = a->insns;
    v->n = a->n;
    for (v->at = 0; v->at < v->n; v->at++) {
        const struct sg_opdef *row = sg_op_def_of(v->insns[v->at].fn);

        if (!row || !sg_op_is_pure(row))
            return not_ok(v, "no value that can be computed ahead");
        if (!check_instruction(v, row))
            return false;
    }
    return true;
}

static bool check_layout(struct verify *v)
{
    const struct sg_code *c = v->c;

    v->at = v->n;
    if (!sg_verify_sizes(c) || !float_mode(c->mxcsr))
        return not_ok(v, "the kernel's sizes do not go together");
    for (uint32_t r = 0; r < SG_SR_COUNT; r++)
        if (sg_sreg_there(c, r) && !lies_in(c->sreg_offset[r], 0, c->slots_begin, 128, 128))
            return not_ok(v, "a special register is outside its registers");
    for (uint32_t k = 0; k < c->nrelocs; k++)
        if (!check_place(c, c->relocs[k].offset | SG_OPND_CONST, SG_W_64))
            return not_ok(v, "an address is outside the constants");
    return true;
}

static bool check_code(struct verify *v)
{
    uint64_t room = 0;

    if (!find_targets(v) || !find_functions(v))
        return false;
    for (v->at = 0; v->at < v->n; v->at++) {
        const struct sg_opdef *row = sg_op_def_of(v->insns[v->at].fn);

        if (!check_instruction(v, row) || !check_control(v, row, &room))
            return false;
    }
    for (unsigned k = 0; k < SG_AHEAD_COUNT; k++)
        if (!check_ahead(v, &v->c->ahead[k]))
            return false;
    return sg_verify_units_flat(v->c, v->units) || not_ok(v, "what is the same in all lanes does not fit");
}

int sg_code_verify(const struct sg_code *c, uint32_t param_bytes, char *why, size_t size)
{
    struct verify v = {.c = c,
                       .insns = c->insns,
                       .n = c->ninsns,
                       .param_bytes = param_bytes,
                       .ext = sg_op_fn(SG_OP_ext),
                       .why = why,
                       .size = size};
    int r = SG_ERR_NOMEM;

    if (!check_layout(&v))
        return SG_ERR_PTX;
    snprintf(why, size, "out of memory");
    v.units = sg_verify_units_new(c);
    v.marks = calloc((size_t)c->ninsns + 1, 1);
    v.function = calloc((size_t)c->ninsns + 1, sizeof(*v.function));
    v.list = calloc((size_t)c->ntargets + 1, sizeof(*v.list));
    if (v.units && v.marks && v.function && v.list)
        r = check_code(&v) ? SG_OK : SG_ERR_PTX;
    free(v.units);
    free(v.marks);
    free(v.function);
    free(v.list);
    return r;
}
