/* SPDX-License-Identifier: MIT */
/* Emitters: exchange between the lanes of a warp (PTX ISA 9.7.9 shfl, 9.7.13 vote, match, ...). */
#include "ptx/select/select.h"

/* Gathers the lanes named by operand i, and returns that operand. */
static uint32_t emit_sync(struct sg_dec *d, uint32_t i)
{
    uint32_t m = sg_src(d, i, SG_TY_B32);

    sg_emit(d, SG_OP_wsync, NONE, m, NONE, NONE);
    return m;
}

static int emit_shfl(struct sg_dec *d)
{
    static const struct {
        const char *mod;
        enum sg_op op;
    } modes[] = {
        {"up", SG_OP_shfl_up}, {"down", SG_OP_shfl_down}, {"bfly", SG_OP_shfl_bfly}, {"idx", SG_OP_shfl_idx}};
    enum sg_op op = SG_OP_NONE;
    uint32_t f[5];

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        if (sg_mod(d, modes[i].mod))
            op = modes[i].op;
    if (!op)
        return sg_dec_syntax(d, "shfl: a mode expected");
    if (sg_mod(d, "sync")) {
        if (d->nops != 5)
            return sg_dec_syntax(d, "shfl.sync: 5 operands expected");
        emit_sync(d, 4);
    } else if (d->nops != 4) {
        return sg_dec_syntax(d, "shfl: 4 operands expected");
    }
    f[1] = sg_src(d, 1, SG_TY_B32);
    f[2] = sg_src(d, 2, SG_TY_B32);
    f[3] = sg_src(d, 3, SG_TY_B32);
    f[0] = sg_dst(d, 0, SG_TY_B32);
    f[4] = d->ops[0].has_pq ? d->ops[0].pq : sg_temp(d, SG_TY_PRED);
    sg_emit_x(d, op, f, SG_F_D | SG_F_E, SG_F_A | SG_F_B | SG_F_C);
    return d->err;
}

static int emit_vote(struct sg_dec *d)
{
    static const struct {
        const char *mod;
        enum sg_op op;
    } modes[] = {{"all", SG_OP_vote_all},
                 {"any", SG_OP_vote_any},
                 {"uni", SG_OP_vote_uni},
                 {"ballot", SG_OP_vote_ballot}};
    enum sg_op op = SG_OP_NONE;
    uint32_t m, a;

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        if (sg_mod(d, modes[i].mod))
            op = modes[i].op;
    if (!op)
        return sg_dec_syntax(d, "vote: a mode expected");
    if (sg_mod(d, "sync")) {
        if (d->nops != 3)
            return sg_dec_syntax(d, "vote.sync: 3 operands expected");
        m = emit_sync(d, 2);
    } else {
        m = sg_const32(d, SG_FULL);
    }
    a = sg_src(d, 1, SG_TY_PRED);
    sg_emit(d, op, sg_dst(d, 0, op == SG_OP_vote_ballot ? SG_TY_B32 : SG_TY_PRED), a, m, NONE);
    return d->err;
}

static int emit_match(struct sg_dec *d)
{
    enum sg_type t = sg_ty(d, 0);
    bool all = sg_mod(d, "all");
    uint32_t f[5] = {NONE, NONE, NONE, NONE, NONE};

    if ((!all && !sg_mod(d, "any")) || !sg_mod(d, "sync") || !sg_type_size(t))
        return sg_dec_syntax(d, "%s: match.any.sync or match.all.sync expected", d->oc.full);
    f[2] = emit_sync(d, 2);
    f[1] = sg_src(d, 1, t);
    f[0] = sg_dst(d, 0, SG_TY_B32);
    if (all)
        f[4] = d->ops[0].has_pq ? d->ops[0].pq : sg_temp(d, SG_TY_PRED);
    else if (d->ops[0].has_pq)
        return sg_dec_syntax(d, "%s: match.any has no predicate", d->oc.full);
    sg_emit_x(d, sg_own_op(d, all ? SG_V_ALL : SG_V_ANY, sg_bt(t)), f, SG_F_D | (all ? SG_F_E : 0),
              SG_F_A | SG_F_B);
    return d->err;
}

static int emit_redux(struct sg_dec *d)
{
    static const struct {
        const char *mod;
        enum sg_variant plain, nan; /* SG_V_COUNT: not of floats */
    } ops[] = {{"add", SG_V_ADD, SG_V_COUNT},   {"min", SG_V_MIN, SG_V_MIN_NAN},
               {"max", SG_V_MAX, SG_V_MAX_NAN}, {"and", SG_V_AND, SG_V_COUNT},
               {"or", SG_V_OR, SG_V_COUNT},     {"xor", SG_V_XOR, SG_V_COUNT}};
    enum sg_type t = sg_ty(d, 0);
    enum sg_op op = SG_OP_NONE;
    uint32_t m, a;

    sg_mod(d, "sync");
    m = emit_sync(d, 2);
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        if (sg_mod(d, ops[i].mod)) {
            const bool ordered = ops[i].nan != SG_V_COUNT, nan = sg_type_float(t) && sg_mod(d, "NaN");

            op = ordered ? sg_own_op(d, nan ? ops[i].nan : ops[i].plain, sg_type_float(t) ? t : sg_su(t))
                         : sg_own_op(d, ops[i].plain, SG_TY_B32);
        }
    a = sg_src(d, 1, t);
    if (sg_type_float(t) && sg_mod(d, "abs")) {
        uint32_t x = sg_temp(d, t);

        sg_emit(d, SG_OP_abs_f32, x, a, NONE, NONE);
        a = x;
    }
    sg_emit(d, op, sg_dst(d, 0, t), a, m, NONE);
    return d->err;
}

static int emit_activemask(struct sg_dec *d)
{
    sg_emit(d, SG_OP_activemask, sg_dst(d, 0, SG_TY_B32), NONE, NONE, NONE);
    return d->err;
}

static int emit_elect(struct sg_dec *d)
{
    uint32_t f[5] = {NONE, NONE, NONE, NONE, NONE};

    sg_mod(d, "sync");
    if (d->ops[0].pq_sink)
        return sg_dec_syntax(d, "elect: a predicate expected");
    f[1] = emit_sync(d, 1);
    f[0] = sg_dst(d, 0, SG_TY_B32);
    f[4] = d->ops[0].has_pq ? d->ops[0].pq : sg_temp(d, SG_TY_PRED);
    sg_emit_x(d, SG_OP_elect, f, SG_F_D | SG_F_E, SG_F_A);
    return d->err;
}

const struct sg_family sg_families_warp[] = {
    {"shfl", emit_shfl, 4, 5, SG_FAM_CTL, NULL},
    {"vote", emit_vote, 2, 3, SG_FAM_CTL, NULL},
    {"match", emit_match, 3, 3, SG_FAM_CTL, &sg_fam_match},
    {"redux", emit_redux, 3, 3, SG_FAM_CTL, &sg_fam_redux},
    {"activemask", emit_activemask, 1, 1, SG_FAM_CTL, NULL},
    {"elect", emit_elect, 2, 2, SG_FAM_CTL, NULL},
    {NULL, NULL, 0, 0, 0, NULL},
};
