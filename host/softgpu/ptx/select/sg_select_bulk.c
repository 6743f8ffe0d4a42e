/* SPDX-License-Identifier: MIT */
/*
 * Emitters: bulk copies, their byte counts, and clusters (PTX ISA 9.7.9.25, 9.7.13). A copy
 * completes when it is issued: its bytes are counted at the barrier object at once, and waiting for
 * a group of copies does nothing. Addresses of shared::cta and shared::cluster are offsets into the
 * same window.
 */
#include "ptx/select/select.h"

static enum sg_space shared_or_global(struct sg_dec *d)
{
    if (sg_mod(d, "global"))
        return SG_SP_GLOBAL;
    return sg_mod(d, "shared::cluster") || sg_mod(d, "shared::cta") || sg_mod(d, "shared") ? SG_SP_SHARED
                                                                                           : SG_SP_GENERIC;
}

static bool takes_barrier(struct sg_dec *d)
{
    return sg_mod(d, "mbarrier::complete_tx::bytes");
}

static bool any_mod(struct sg_dec *d, const char *const *names, size_t n, int *which)
{
    for (size_t i = 0; i < n; i++) {
        if (sg_mod(d, names[i])) {
            *which = (int)i;
            return true;
        }
    }
    return false;
}

/* The spaces as written, destination first: each word may occur once or twice. */
static bool two_spaces(struct sg_dec *d, enum sg_space *to, enum sg_space *from)
{
    enum sg_space sp[2];
    int n = 0;

    for (uint32_t i = 0; i < d->oc.nmods; i++) {
        const char *m = d->oc.mods[i];
        bool shared = !strcmp(m, "shared::cluster") || !strcmp(m, "shared::cta");

        if (!shared && strcmp(m, "global"))
            continue;
        if (n == 2)
            return false;
        sp[n++] = shared ? SG_SP_SHARED : SG_SP_GLOBAL;
        d->oc.used[i] = true;
    }
    if (n != 2)
        return false;
    *to = sp[0];
    *from = sp[1];
    return true;
}

/* cp{.reduce}.async.bulk.dst.src.completion{.multicast} [d], [a], size{, [mbar]}{, blocks}{, cache policy} */
int sg_emit_bulk(struct sg_dec *d)
{
    static const char *const groups[] = {"commit_group", "wait_group"};
    bool reduce = sg_mod(d, "reduce"), multicast = sg_mod(d, "multicast::cluster"), barrier;
    uint32_t f[5] = {NONE, NONE, NONE, NONE, NONE}, i;
    enum sg_space to, from;
    int op = 0, unused;

    sg_mod(d, "async");
    sg_mod(d, "bulk");
    if (sg_mod(d, "prefetch")) {
        sg_mod(d, "L2");
        shared_or_global(d);
        sg_mod(d, "L2::cache_hint");
        return d->err;
    }
    if (any_mod(d, groups, 2, &unused)) {
        sg_mod(d, "read");
        sg_emit(d, SG_OP_fence, NONE, NONE, NONE, NONE);
        return d->err;
    }
    sg_mod(d, "noftz");
    sg_mod(d, "L2::cache_hint"); /* an additional operand without effect */
    barrier = takes_barrier(d);
    if (!two_spaces(d, &to, &from) || (!barrier && !sg_mod(d, "bulk_group")) ||
        (reduce && !any_mod(d, sg_bulk_reductions, SG_BULK_REDUCTIONS, &op)))
        return sg_dec_refuse(d, NULL);
    if (d->nops < (barrier ? 4u : 3u) || (to == SG_SP_GLOBAL && from == SG_SP_GLOBAL) ||
        barrier != (to == SG_SP_SHARED) || (multicast && (reduce || from != SG_SP_GLOBAL || d->nops < 5)))
        return sg_dec_syntax(d, "%s: wrong operands", d->oc.full);
    f[0] = sg_flat_address(d, 0, to);
    f[1] = sg_flat_address(d, 1, from);
    f[2] = sg_src(d, 2, SG_TY_U32);
    f[3] = barrier ? sg_flat_address(d, 3, SG_SP_SHARED) : sg_const32(d, 0);
    f[4] = multicast ? sg_src(d, 4, SG_TY_U16) : NONE;
    i = sg_emit_x(d, reduce ? SG_OP_bulk_reduce : SG_OP_bulk_copy, f, 0,
                  SG_F_D | SG_F_A | SG_F_B | SG_F_C | (multicast ? SG_F_E : 0));
    if (d->err)
        return d->err;
    d->insns[i].imm = (to == SG_SP_SHARED ? SG_BULK_TO_SHARED : 0) |
                      (from == SG_SP_SHARED ? SG_BULK_FROM_SHARED : 0) | (barrier ? SG_BULK_BARRIER : 0) |
                      (multicast ? SG_BULK_MULTICAST : 0);
    if (reduce) {
        enum sg_type t = sg_ty(d, 0);

        if (sg_type_size(t) < 2 || sg_type_size(t) > 8 || (sg_type_float(t) && op > 2))
            return sg_dec_refuse(d, NULL);
        if (sg_type_float(t) && op == 0 && to == SG_SP_GLOBAL)
            d->code->ordered = true;
        d->insns[i].aux = (uint32_t)op | (uint32_t)t << 8;
    }
    return d->err;
}

/* st.async [a], b, [mbar]: a store whose bytes are counted */
int sg_emit_st_async(struct sg_dec *d)
{
    enum sg_type t = sg_ty(d, 0);
    uint32_t vec = sg_mod(d, "v2") ? 2 : sg_mod(d, "v4") ? 4 : 1, bytes = sg_type_size(t) * vec;

    sg_mod(d, "async");
    sg_mod(d, "weak");
    sg_mod(d, "shared::cluster");
    if (!takes_barrier(d) || d->nops != 3 || !bytes || bytes > 16)
        return sg_dec_refuse(d, NULL);
    if (sg_store_shared(d, 0, 1, t, vec))
        return d->err;
    return sg_mbar_op(d, SG_OP_mbar_complete, NONE, 2, sg_const32(d, bytes), SG_SP_SHARED);
}

/* red [a], b and red.async [a], b, [mbar]: the same, but red.async also counts the bytes */
int sg_emit_red(struct sg_dec *d)
{
    enum sg_type t = sg_ty(d, 0);
    const enum sg_space barrier = sg_mod(d, "shared::cluster") ? SG_SP_SHARED : SG_SP_GENERIC;
    int unused;

    if (!sg_mod(d, "async"))
        return sg_emit_atom(d);
    if (!takes_barrier(d) || d->nops != 3 || !any_mod(d, sg_bulk_reductions, SG_BULK_REDUCTIONS, &unused) ||
        sg_type_float(t) || (sg_type_size(t) != 4 && sg_type_size(t) != 8))
        return sg_dec_refuse(d, NULL);
    d->nops = 2;
    if (sg_emit_atom(d))
        return d->err;
    d->nops = 3;
    return sg_mbar_op(d, SG_OP_mbar_complete, NONE, 2, sg_const32(d, sg_type_size(t)), barrier);
}

/* barrier.cluster.arrive and .wait */
int sg_emit_cluster_barrier(struct sg_dec *d)
{
    static const char *const order[] = {"release", "acquire", "relaxed", "aligned"};
    bool arrive = sg_mod(d, "arrive");

    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
        sg_mod(d, order[i]);
    if (d->nops || (!arrive && !sg_mod(d, "wait")))
        return sg_dec_syntax(d, "%s: .arrive or .wait expected", d->oc.full);
    sg_emit(d, arrive ? SG_OP_cluster_arrive : SG_OP_cluster_wait, NONE, NONE, NONE, NONE);
    return d->err;
}

/* mapa d, a, rank: the address of a in that block of the cluster */
static int emit_mapa(struct sg_dec *d)
{
    const bool shared = sg_mod(d, "shared::cluster");
    enum sg_type t = sg_ty(d, 0);
    uint32_t a, rank;

    if (t != SG_TY_U32 && t != SG_TY_U64)
        return sg_dec_refuse(d, NULL);
    if (!shared && t == SG_TY_U32) /* a 32-bit generic address */
        return sg_dec_refuse(d, NULL);
    a = sg_src(d, 1, t);
    rank = sg_src(d, 2, SG_TY_U32);
    if (shared && t == SG_TY_U64) { /* an offset in a register of 64 bits */
        uint32_t narrow = sg_temp(d, SG_TY_U32), to = sg_temp(d, SG_TY_U32);

        sg_emit(d, SG_OP_narrow_address, narrow, a, NONE, NONE);
        sg_emit(d, SG_OP_mapa_shared, to, narrow, rank, NONE);
        sg_emit(d, SG_OP_cvt_u64_u32, sg_dst(d, 0, t), to, NONE, NONE);
        return d->err;
    }
    sg_emit(d, shared ? SG_OP_mapa_shared : SG_OP_mapa, sg_dst(d, 0, t), a, rank, NONE);
    return d->err;
}

static int emit_getctarank(struct sg_dec *d)
{
    const bool shared = sg_mod(d, "shared::cluster");
    enum sg_type t = sg_ty(d, 0);
    uint32_t a;

    if ((t != SG_TY_U32 && t != SG_TY_U64) || (!shared && t == SG_TY_U32))
        return sg_dec_refuse(d, NULL);
    a = sg_src(d, 1, t);
    if (shared && t == SG_TY_U64) {
        uint32_t narrow = sg_temp(d, SG_TY_U32);

        sg_emit(d, SG_OP_narrow_address, narrow, a, NONE, NONE);
        a = narrow;
    }
    sg_emit(d, shared ? SG_OP_ctarank_shared : SG_OP_ctarank, sg_dst(d, 0, SG_TY_U32), a, NONE, NONE);
    return d->err;
}

/* An address in shared::cta: an offset, or generic, in a register of 64 bits. */
static uint32_t cancel_address(struct sg_dec *d, uint32_t i, bool generic)
{
    const struct sg_opnd *o = &d->ops[i];
    uint32_t wide;

    if (o->kind == SG_O_ADDR && o->base != SG_O_REG && o->base != SG_O_SYM) {
        sg_dec_syntax(d, "%s: operand %u: a register or a symbol expected", d->oc.full, i + 1);
        return SG_OPND_CONST;
    }
    if (!generic || o->kind != SG_O_ADDR || o->base != SG_O_REG || d->vregs[o->v].cls != SG_C_32)
        return sg_flat_address(d, i, generic ? SG_SP_GENERIC : SG_SP_SHARED);
    wide = sg_temp(d, SG_TY_U64); /* as ptxas, which takes a register of 32 bits */
    sg_emit(d, SG_OP_cvt_u64_u32, wide, o->v, NONE, NONE);
    if (o->imm)
        sg_emit(d, SG_OP_add_b64, wide, wide, sg_const64(d, (uint64_t)o->imm), NONE);
    return wide;
}

/* try_cancel [response], [barrier] */
static int emit_try_cancel(struct sg_dec *d)
{
    const bool all = sg_mod(d, "multicast::cluster::all"), generic = !sg_mod(d, "shared::cta");
    uint32_t a, b, i;

    if (!sg_mod(d, "async") || !takes_barrier(d) || sg_ty(d, 0) != SG_TY_B128)
        return sg_dec_refuse(d, NULL);
    a = cancel_address(d, 0, generic);
    b = cancel_address(d, 1, generic);
    i = sg_emit(d, generic ? SG_OP_cluster_cancel_generic : SG_OP_cluster_cancel, NONE, a, b, NONE);
    if (!d->err)
        d->insns[i].imm = all;
    return d->err;
}

/* Word k of a response. */
static int emit_cancel_word(struct sg_dec *d, const struct sg_opel half[2], uint32_t k, uint32_t to)
{
    const struct sg_opel none = {SG_O_SINK, 0, 0};
    uint32_t f[5] = {NONE, NONE, NONE, NONE, NONE};

    f[1] = sg_src_el(d, &half[k / 2], SG_TY_B64);
    f[k % 2 ? 2 : 0] = to;
    f[k % 2 ? 0 : 2] = sg_dst_el(d, &none, SG_TY_B32);
    sg_emit_x(d, SG_OP_mov_unpack_2x32, f, SG_F_D | SG_F_B, SG_F_A);
    return d->err;
}

/* query_cancel d, response */
static int emit_query_cancel(struct sg_dec *d)
{
    static const char *const words[] = {"get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z"};
    const bool vector = sg_mod(d, "get_first_ctaid");
    struct sg_opel half[2];
    int k;

    if (d->ops[1].kind == SG_O_IMM) { /* as ptxas; its upper half is zero */
        half[0] = (struct sg_opel){SG_O_IMM, 0, d->ops[1].imm};
        half[1] = (struct sg_opel){SG_O_IMM, 0, 0};
    } else if (sg_halves128(d, 1, half)) {
        return d->err;
    }
    if (sg_mod(d, "is_canceled")) {
        const uint32_t done = sg_temp(d, SG_TY_B32);

        emit_cancel_word(d, half, SG_CANCEL_DONE, done);
        sg_emit(d, SG_OP_setp_ne_b32, sg_dst(d, 0, SG_TY_PRED), done, sg_const32(d, 0), NONE);
        return d->err;
    }
    if (any_mod(d, words, 3, &k))
        return emit_cancel_word(d, half, (uint32_t)k, sg_dst(d, 0, SG_TY_B32));
    if (!vector || !sg_mod(d, "v4") || d->ops[0].kind != SG_O_VEC || d->ops[0].nel != SG_CANCEL_WORDS)
        return sg_dec_refuse(d, NULL);
    for (uint32_t i = 0; i < SG_CANCEL_WORDS && !d->err; i++)
        emit_cancel_word(d, half, i, sg_dst_el(d, &d->ops[0].el[i], SG_TY_B32));
    return d->err;
}

/* clusterlaunchcontrol: a response is written, and counted at the barrier object, at once. */
static int emit_cluster_control(struct sg_dec *d)
{
    return sg_mod(d, "try_cancel")     ? emit_try_cancel(d)
           : sg_mod(d, "query_cancel") ? emit_query_cancel(d)
                                       : sg_dec_refuse(d, NULL);
}

const struct sg_family sg_families_bulk[] = {
    {"clusterlaunchcontrol", emit_cluster_control, 2, 2, 0, NULL},
    {"mapa", emit_mapa, 3, 3, 0, NULL},
    {"getctarank", emit_getctarank, 2, 2, 0, NULL},
    {"tensormap", sg_emit_tensormap, 2, 3, 0, NULL},
    {NULL, NULL, 0, 0, 0, NULL},
};
