/* SPDX-License-Identifier: MIT */
/*
 * Finds the affine values of a block (jit/memory/affine.h), and learns their distances.
 *
 * A value is affine if it is a root, a hoisted register, or the sum of affine and uniform values or a
 * constant's multiple of an affine one. The lanes' distances from lane 0 follow from the roots'
 * distances alone: a form. The block's beginning compares the roots' distances; while they are
 * unchanged, so are those of all forms. 32-bit values wrap around in each lane; a value that is
 * widened is checked not to have (jit/memory/sg_jit_affine_code.c).
 */
#include "jit/memory/affine.h"
#include "jit/memory/affine_block.h"
#include "jit/memory/memory_ops.h"
#include "jit/memory/sums.h"

#ifdef SG_JIT

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SLOT ((u32)(sizeof(struct sg_distances) + 127) & ~127u)
/* A term by the distances of a 32-bit value, whose index follows, until the distances have a place. */
#define BY_VALUE 0x40000000

static const struct sg_affine_op ops[] = {
    {SG_OP_add_b64, AFFINE_ADD, true, false},       {SG_OP_sub_b64, AFFINE_SUB, true, false},
    {SG_OP_mul_lo_b64, AFFINE_MUL, true, false},    {SG_OP_shl_b64, AFFINE_SHL, true, false},
    {SG_OP_add_b32, AFFINE_ADD, false, false},      {SG_OP_sub_b32, AFFINE_SUB, false, false},
    {SG_OP_mul_lo_b32, AFFINE_MUL, false, false},   {SG_OP_shl_b32, AFFINE_SHL, false, false},
    {SG_OP_mul_wide_u32, AFFINE_WIDE, true, false}, {SG_OP_mul_wide_s32, AFFINE_WIDE, true, true},
    {SG_OP_mad_wide_u32, AFFINE_MAD, true, false},  {SG_OP_mad_wide_s32, AFFINE_MAD, true, true},
    {SG_OP_cvt_u64_u32, AFFINE_CVT, true, false},   {SG_OP_cvt_u64_s32, AFFINE_CVT, true, true},
};
#define OPS (sizeof(ops) / sizeof(*ops))

static sg_fn handlers[OPS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find_handlers(void)
{
    for (u32 i = 0; i < OPS; i++)
        handlers[i] = sg_op_fn(ops[i].op);
}

const struct sg_affine_op *sg_affine_op_of(sg_fn fn)
{
    pthread_once(&once, find_handlers);
    for (u32 i = 0; i < OPS; i++)
        if (handlers[i] == fn)
            return &ops[i];
    return NULL;
}

/* ---- forms ---- */

/* Adds `times` times the distances of register op. False: there are too many terms. */
static bool add_term(struct sg_affine_form *f, s32 op, bool wide, u64 times)
{
    for (u32 i = 0; i < f->n; i++)
        if (f->term[i].op == op) {
            f->term[i].times += times;
            return true;
        }
    if (f->n == SG_AFFINE_TERMS)
        return false;
    f->term[f->n++] = (struct sg_affine_term){op, wide, times};
    return true;
}

static bool add_form(struct sg_affine_form *f, const struct sg_affine_form *x, u64 times)
{
    for (u32 i = 0; i < x->n; i++)
        if (!add_term(f, x->term[i].op, x->term[i].wide, x->term[i].times * times))
            return false;
    return true;
}

static bool same_form(const struct sg_affine_form *x, const struct sg_affine_form *y)
{
    u32 found = 0;

    if (x->n != y->n || x->wide != y->wide)
        return false;
    for (u32 i = 0; i < x->n; i++)
        for (u32 k = 0; k < y->n; k++)
            found += x->term[i].op == y->term[k].op && x->term[i].times == y->term[k].times;
    return found == x->n;
}

/* ---- a block ---- */

#define NONE AFFINE_NONE

static bool is_uniform(const struct jit *j, u32 op)
{
    return (op & SG_OPND_CONST) || sg_jit_flat(j, op);
}

/* Notes a value. */
static u32 add_value(struct affine_block *x, const struct affine_value *v)
{
    if (x->nvalues == AFFINE_VALUES) {
        x->full = true;
        return NONE;
    }
    x->value[x->nvalues] = *v;
    x->latest[v->op >> 7] = (u16)(x->nvalues + 1);
    return x->nvalues++;
}

/* The value that register op, of 64 bits or not, has at this point, as an index; NONE: it is not affine. */
static u32 value_of(const struct jit *j, struct affine_block *x, u32 op, bool wide)
{
    struct affine_value v = {.op = op, .insn = NONE, .from = {NONE, NONE}, .form.wide = wide};
    u32 i;

    if (is_uniform(j, op) || op >= j->code->slots_end)
        return NONE;
    i = x->latest[op >> 7];
    if (!i) { /* a root or a hoisted register */
        add_term(&v.form, (s32)op, wide, 1);
        return add_value(x, &v);
    }
    return x->value[i - 1].form.n && x->value[i - 1].form.wide == wide ? i - 1 : NONE;
}

/*
 * Adds operand op, `times` times, to the value v; uniform ones have no distances. widen: op has 32 bits and
 * v has 64, so it counts as it is after it wrapped around: not by its terms, unless it is one register.
 */
static bool add_operand(const struct jit *j, struct affine_block *x, struct affine_value *v, u32 op,
                        u64 times, bool widen)
{
    u32 i;

    if (is_uniform(j, op))
        return true;
    i = value_of(j, x, op, v->form.wide && !widen);
    if (i == NONE)
        return false;
    v->from[v->from[0] == NONE ? 0 : 1] = i;
    if (!widen || (x->value[i].form.n == 1 && x->value[i].form.term[0].times == 1))
        return add_form(&v->form, &x->value[i].form, times);
    for (u32 k = 0; k < i; k++) /* the first value with these distances represents all */
        if (x->value[k].form.n && same_form(&x->value[k].form, &x->value[i].form)) {
            v->from[1] = i = k;
            break;
        }
    return add_term(&v->form, BY_VALUE + (s32)i, false, times);
}

/* The form of the result of instruction i. False: it is not affine. */
static bool result_of(const struct jit *j, struct affine_block *x, u32 i, struct affine_value *v)
{
    const struct sg_insn *in = &j->code->insns[i];
    const struct sg_affine_op *o = sg_affine_op_of(in->fn);
    u64 by = 1;
    bool ok;

    if (!o || sg_jit_flat(j, in->d) || in->d >= j->code->slots_end)
        return false;
    v->form.wide = o->wide;
    if (o->kind == AFFINE_ADD || o->kind == AFFINE_SUB)
        return add_operand(j, x, v, in->a, 1, false) &&
               add_operand(j, x, v, in->b, o->kind == AFFINE_SUB ? UINT64_MAX : 1, false) && v->form.n;
    if (o->kind != AFFINE_CVT && !sg_jit_const(j, in->b, &by, o->kind == AFFINE_MUL && o->wide))
        return false;
    if (o->kind == AFFINE_SHL && by >= (o->wide ? 64 : 32))
        return false;
    if (o->kind == AFFINE_SHL)
        by = 1ull << by;
    else if ((o->kind == AFFINE_WIDE || o->kind == AFFINE_MAD) && o->sign)
        by = (u64)(s64)(s32)by;
    ok = !is_uniform(j, in->a) && add_operand(j, x, v, in->a, by, o->kind >= AFFINE_WIDE);
    if (o->kind == AFFINE_MAD)
        ok = ok && v->from[1] == NONE && add_operand(j, x, v, in->c, 1, false);
    v->times = by;
    return ok && v->form.n;
}

/* Marks the value, and its inputs, to be computed as numbers. */
static void want_number(struct affine_block *x, u32 v)
{
    if (v == NONE || x->value[v].wanted)
        return;
    x->value[v].wanted = true; /* they come before it: no circle */
    want_number(x, x->value[v].from[0]);
    want_number(x, x->value[v].from[1]);
}

/* True if in is a load that lanes' distances help. */
static bool is_load(struct jit *j, const struct sg_insn *in)
{
    const struct jop *o = sg_jit_find(in->fn, NULL);

    return o && o->load && !(in->aux & SG_AUX_SPIN) && (o->arg & 15) <= 4 && !is_uniform(j, in->a) &&
           sg_jit_fits(in, (o->arg & 15) * (o->arg >> 8 & 15));
}

/* Records the inputs and the result of instruction i. */
static void scan_instruction(struct jit *j, struct affine_block *x, u32 i)
{
    const struct sg_insn *in = &j->code->insns[i];
    struct affine_value v = {.insn = i, .from = {NONE, NONE}};
    const u32 address = is_load(j, in) ? value_of(j, x, in->a, true) : NONE;
    const bool affine = j->code->fields[2 * i] == F_D && result_of(j, x, i, &v);

    if (address != NONE) {
        x->value[address].loads++;
        want_number(x, address);
    }
    if (!affine)
        v.form.n = 0;
    for (u32 k = 0; k < 5; k++) {
        v.op = *sg_jit_field(in, k);
        if ((j->code->fields[2 * i] >> k & 1) && !is_uniform(j, v.op) && v.op < j->code->slots_end)
            add_value(x, &v);
    }
}

static bool is_root(const struct jit *j, const struct affine_value *v)
{
    return v->wanted && v->insn == NONE && v->op >= j->code->slots_begin;
}

/* A sum that jit/memory/sg_jit_sums.c handles by itself. */
static bool is_plain_sum(const struct jit *j, const struct affine_value *v)
{
    const struct sg_affine_term *t = &v->form.term[0];

    return v->form.wide && v->form.n == 1 && t->times == 1 && t->wide && t->op >= 0 &&
           (u32)t->op < j->code->slots_begin;
}

/* Approximate number of vector instructions saved, less those that compare roots. */
static s32 affine_gain(const struct jit *j, const struct affine_block *x)
{
    s32 sum = -8;

    for (u32 i = 0; i < x->nvalues; i++) {
        const struct affine_value *v = &x->value[i];

        if (is_root(j, v))
            sum -= v->form.wide ? 11 : 7;
        if (!v->wanted || is_plain_sum(j, v))
            continue;
        sum += v->loads ? 12 : 0;
        if (v->insn != NONE)
            sum += (v->form.wide ? 4 : 2) * (v->times > 1 && v->form.wide ? 3 : 1) - 1;
    }
    return sum;
}

/* Gives the value's form a place. False: there is no room. */
static bool place_form(struct jit *j, struct affine_block *x, struct affine_value *v)
{
    struct sg_affine_form *f = &v->form;
    struct sg_affine *a = x->a;

    for (u32 k = 0; k < f->n; k++)
        if (f->term[k].op >= BY_VALUE)
            f->term[k].op = x->value[f->term[k].op - BY_VALUE].form.at;
    for (u32 i = 0; i < a->nforms; i++)
        if (same_form(&a->form[i], f)) {
            f->at = a->form[i].at;
            return true;
        }
    if (j->settled || a->nforms == SG_AFFINE_FORMS || j->native_bytes + SLOT > SG_NATIVE_BYTES)
        return false;
    j->native_bytes += SLOT;
    f->at = -(s32)j->native_bytes;
    a->form[a->nforms++] = *f;
    return true;
}

/* Roots first, so that a form precedes the forms derived from it. */
static bool place_forms(struct jit *j, struct affine_block *x)
{
    for (u32 i = 0; i < x->nvalues; i++)
        if (is_root(j, &x->value[i])) {
            if (!j->settled && x->a->nroots++ == SG_AFFINE_ROOTS)
                return false;
            if (!place_form(j, x, &x->value[i]))
                return false;
        }
    for (u32 i = 0; i < x->nvalues; i++)
        if (x->value[i].wanted && x->value[i].insn != NONE && !place_form(j, x, &x->value[i]))
            return false;
    return true;
}

void sg_jit_affine_drop(struct jit *j, struct affine_block *x)
{
    if (x)
        free(x->latest);
    free(x);
    j->affine = NULL;
}

/* The values of the block. NULL: no memory. */
static struct affine_block *scan_block(struct jit *j, u32 first)
{
    const struct sg_code *c = j->code;
    struct affine_block *x = calloc(1, sizeof(*x));

    if (!x)
        return NULL;
    x->latest = calloc((c->slots_end >> 7) + 1, sizeof(*x->latest));
    if (!x->latest) {
        free(x);
        return NULL;
    }
    for (u32 i = first; i < c->ninsns && (i == first || j->leader[i] != 1) && !x->full; i++) {
        j->walked++;
        scan_instruction(j, x, i);
    }
    return x;
}

bool sg_jit_affine_find(struct jit *j, u32 first)
{
    const u32 bytes = j->native_bytes;
    struct affine_block *x;

    if (j->naffine == SG_NATIVE_AFFINE || j->walked >= JIT_WALK_MAX ||
        !sg_jit_claim(j, sizeof(struct sg_affine)))
        return false;
    x = scan_block(j, first);
    if (!x)
        return false;
    x->a = calloc(1, sizeof(*x->a));
    if (!x->a || x->full || affine_gain(j, x) <= 0 || !place_forms(j, x)) {
        j->native_bytes = bytes;
        free(x->a);
        sg_jit_affine_drop(j, x);
        return false;
    }
    x->a->number = j->naffine++;
    x->a->next = j->affines;
    j->affines = x->a;
    j->affine = x;
    return true;
}

bool sg_jit_affine_again(struct jit *j, u32 first, struct sg_affine *a)
{
    struct affine_block *x = scan_block(j, first);

    if (x)
        x->a = a;
    if (!x || x->full || !place_forms(j, x)) {
        sg_jit_affine_drop(j, x);
        return false;
    }
    j->affine = x;
    return true;
}

struct sg_affine *sg_jit_affine_of(const struct jit *j)
{
    return j->affine->a;
}

void sg_jit_affine_end(struct jit *j)
{
    sg_jit_affine_drop(j, j->affine);
}

void sg_jit_affine_free(struct sg_affine *a)
{
    while (a) {
        struct sg_affine *next = a->next;

        free(a->site);
        free(a);
        a = next;
    }
}

/* ---- at run time ---- */

/* Native code has at least AVX2. */
#if defined(__clang__)
#define VECTORS __attribute__((target("avx2"), noinline))
#else
#define VECTORS __attribute__((target("avx2"), optimize("O3"), noinline))
#endif

VECTORS static void add_wide(u64 *restrict sum, const u64 *restrict v, u64 times)
{
    const u64 first = v[0];

    for (u32 i = 0; i < SG_LANES; i++)
        sum[i] += v[i] - first;
    for (u32 i = 0; i < SG_LANES && times != 1; i++)
        sum[i] += (v[i] - first) * (times - 1);
}

VECTORS static void add_narrow(u64 *restrict sum, const u32 *restrict v, u64 times)
{
    const u32 first = v[0];

    for (u32 i = 0; i < SG_LANES; i++)
        sum[i] += (u64)(s64)(s32)(v[i] - first);
    for (u32 i = 0; i < SG_LANES && times != 1; i++)
        sum[i] += (u64)(s64)(s32)(v[i] - first) * (times - 1);
}

VECTORS static void put_narrow(struct sg_distances *d, const u64 *sum)
{
    s32 low = 0, high = 0;

    for (u32 i = 0; i < SG_LANES; i++)
        d->narrow[i] = (s32)(u32)sum[i];
    for (u32 i = 0; i < SG_LANES; i++) {
        low = d->narrow[i] < low ? d->narrow[i] : low;
        high = d->narrow[i] > high ? d->narrow[i] : high;
    }
    d->low = low;
    d->high = high;
}

static void distances_of(const struct sg_warp *w, const struct sg_affine_form *f)
{
    struct sg_distances *d = (struct sg_distances *)(void *)(w->base[0] + f->at);
    _Alignas(64) u64 sum[SG_LANES] = {0};

    for (u32 k = 0; k < f->n; k++) {
        const void *at = w->base[0] + f->term[k].op;

        if (f->term[k].wide)
            add_wide(sum, at, f->term[k].times);
        else
            add_narrow(sum, at, f->term[k].times);
    }
    if (f->wide)
        memcpy(d->wide, sum, sizeof(sum));
    else
        put_narrow(d, sum);
}

/* How the lanes of a load at these distances lie, if its window was learnt before. */
static u8 lie_of(const struct sg_window *x, const u64 *distance)
{
    bool row = x->row && distance[1] == x->row;

    for (u32 i = 2; i < SG_LANES && row; i++)
        row = distance[i] == (u64)x->row * i;
    if (row)
        return LIE_IN_ROW;
    if (__atomic_load_n(&x->state, __ATOMIC_ACQUIRE) < SG_WINDOW_NONE)
        return LIE_UNKNOWN;
    return x->state >= SG_WINDOW_FIRST && x->lanes == SG_FULL &&
                   !memcmp(x->offset, distance, sizeof(x->offset))
               ? LIE_IN_WINDOWS
               : LIE_APART;
}

u32 sg_jit_affine_learn(struct sg_warp *w, const struct sg_insn *in, const struct sg_affine *a)
{
    (void)in;
    if (w->affine[a->number] == AFFINE_KNOWN && w->affine_misses[a->number]++ == SG_AFFINE_MISSES) {
        w->affine_misses[a->number] = SG_AFFINE_MISSES;
        w->affine[a->number] = AFFINE_OFF;
        return false;
    }
    for (u32 i = 0; i < a->nforms; i++)
        distances_of(w, &a->form[i]);
    for (u32 i = 0; i < a->nsites; i++) {
        const struct sg_affine_site *x = &a->site[i];
        const struct sg_distances *d = (const void *)(w->base[0] + x->at);

        w->lie[x->site] = lie_of(x->window, d->wide);
    }
    w->affine[a->number] = AFFINE_KNOWN;
    return true;
}

#endif
