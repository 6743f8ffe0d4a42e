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
    static const char *const modes[] = {"up", "down", "bfly", "idx"};
    const char *mode = NULL;
    uint32_t f[5];
    char op[32];

    for (int i = 0; i < 4; i++)
        if (sg_mod(d, modes[i]))
            mode = modes[i];
    if (!mode)
        return sg_dec_syntax(d, "shfl: a mode expected");
    if (sg_mod(d, "sync")) {
        if (d->nops != 5)
            return sg_dec_syntax(d, "shfl.sync: 5 operands expected");
        emit_sync(d, 4);
    } else if (d->nops != 4) {
        return sg_dec_syntax(d, "shfl: 4 operands expected");
    }
    snprintf(op, sizeof(op), "shfl.%s", mode);
    f[1] = sg_src(d, 1, SG_TY_B32);
    f[2] = sg_src(d, 2, SG_TY_B32);
    f[3] = sg_src(d, 3, SG_TY_B32);
    f[0] = sg_dst(d, 0, SG_TY_B32);
    f[4] = d->ops[0].has_pq ? d->ops[0].pq : sg_temp(d, SG_TY_PRED);
    sg_emit_x(d, sg_op_named(op), f, SG_F_D | SG_F_E, SG_F_A | SG_F_B | SG_F_C);
    return d->err;
}

static int emit_vote(struct sg_dec *d)
{
    static const char *const modes[] = {"all", "any", "uni", "ballot"};
    const char *mode = NULL;
    uint32_t m, a;
    char op[32];

    for (int i = 0; i < 4; i++)
        if (sg_mod(d, modes[i]))
            mode = modes[i];
    if (!mode)
        return sg_dec_syntax(d, "vote: a mode expected");
    if (sg_mod(d, "sync")) {
        if (d->nops != 3)
            return sg_dec_syntax(d, "vote.sync: 3 operands expected");
        m = emit_sync(d, 2);
    } else {
        m = sg_const32(d, SG_FULL);
    }
    snprintf(op, sizeof(op), "vote.%s", mode);
    a = sg_src(d, 1, SG_TY_PRED);
    sg_emit(d, sg_op_named(op), sg_dst(d, 0, mode[0] == 'b' ? SG_TY_B32 : SG_TY_PRED), a, m, NONE);
    return d->err;
}

static int emit_match(struct sg_dec *d)
{
    enum sg_type t = sg_ty(d, 0);
    bool all = sg_mod(d, "all");
    uint32_t f[5] = {NONE, NONE, NONE, NONE, NONE};
    char op[32];

    if ((!all && !sg_mod(d, "any")) || !sg_mod(d, "sync") || !sg_type_size(t))
        return sg_dec_syntax(d, "%s: match.any.sync or match.all.sync expected", d->oc.full);
    f[2] = emit_sync(d, 2);
    snprintf(op, sizeof(op), "match.%s.%s", all ? "all" : "any", sg_bt(t));
    f[1] = sg_src(d, 1, t);
    f[0] = sg_dst(d, 0, SG_TY_B32);
    if (all)
        f[4] = d->ops[0].has_pq ? d->ops[0].pq : sg_temp(d, SG_TY_PRED);
    else if (d->ops[0].has_pq)
        return sg_dec_syntax(d, "%s: match.any has no predicate", d->oc.full);
    sg_emit_x(d, sg_op_named(op), f, SG_F_D | (all ? SG_F_E : 0), SG_F_A | SG_F_B);
    return d->err;
}

static int emit_redux(struct sg_dec *d)
{
    static const char *const ops[] = {"add", "min", "max", "and", "or", "xor"};
    enum sg_type t = sg_ty(d, 0);
    uint32_t m, a;
    char op[32] = "redux";

    sg_mod(d, "sync");
    m = emit_sync(d, 2);
    for (int i = 0; i < 6; i++)
        if (sg_mod(d, ops[i]))
            snprintf(op, sizeof(op), "redux.%s.%s", ops[i], i == 1 || i == 2 ? sg_su(t) : "b32");
    a = sg_src(d, 1, t);
    if (sg_type_float(t)) {
        snprintf(op, sizeof(op), "redux.%s%s.f32", sg_mod(d, "min") ? "min" : "max",
                 sg_mod(d, "NaN") ? ".nan" : "");
        if (sg_mod(d, "abs")) {
            uint32_t x = sg_temp(d, t);

            sg_emit(d, SG_OP_abs_f32, x, a, NONE, NONE);
            a = x;
        }
    }
    sg_emit(d, sg_op_named(op), sg_dst(d, 0, t), a, m, NONE);
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
    {"shfl", emit_shfl, 4, 5, SG_FAM_CTL},
    {"vote", emit_vote, 2, 3, SG_FAM_CTL},
    {"match", emit_match, 3, 3, SG_FAM_CTL},
    {"redux", emit_redux, 3, 3, SG_FAM_CTL},
    {"activemask", emit_activemask, 1, 1, SG_FAM_CTL},
    {"elect", emit_elect, 2, 2, SG_FAM_CTL},
    {NULL, NULL, 0, 0, 0},
};
