/* SPDX-License-Identifier: MIT */
/* Barrier objects in shared memory. */
#include "ptx/select/select.h"

static int mbar_op(struct sg_dec *d, enum sg_op op, uint32_t dst, uint32_t at, uint32_t value)
{
    return sg_mbar_op(d, op, dst, at, value, sg_take_space(d));
}

/* mbarrier (PTX ISA 9.7.13.15); waiting never suspends, it polls. */
int sg_emit_mbarrier(struct sg_dec *d)
{
    bool wait = sg_mod(d, "test_wait"), parity = sg_mod(d, "parity");
    bool expect = sg_mod(d, "expect_tx"), arrive = sg_mod(d, "arrive");
    bool drop = sg_mod(d, "arrive_drop");
    uint32_t n, at;

    wait |= sg_mod(d, "try_wait");
    sg_take_hints(d);
    sg_mod(d, "noComplete");
    if (sg_mod(d, "inval")) {
        sg_take_space(d);
        return d->err;
    }
    if (sg_mod(d, "pending_count"))
        return sg_emit(d, SG_OP_mbar_pending, sg_dst(d, 0, SG_TY_U32), sg_src(d, 1, SG_TY_B64), NONE, NONE),
               d->err;
    if (sg_mod(d, "init"))
        return mbar_op(d, SG_OP_mbar_init, NONE, 0, sg_src(d, 1, SG_TY_U32));
    if (wait && d->nops >= 3)
        return mbar_op(d, parity ? SG_OP_mbar_parity : SG_OP_mbar_test, sg_dst(d, 0, SG_TY_PRED), 1,
                       sg_src(d, 2, parity ? SG_TY_U32 : SG_TY_B64));
    if (d->nops < 2 && !arrive && !drop)
        return sg_dec_refuse(d, NULL);
    if (sg_mod(d, "complete_tx"))
        return mbar_op(d, SG_OP_mbar_complete, NONE, 0, sg_src(d, 1, SG_TY_U32));
    if (expect && !arrive && !drop)
        return mbar_op(d, SG_OP_mbar_expect, NONE, 0, sg_src(d, 1, SG_TY_U32));
    if (!arrive && !drop)
        return sg_dec_refuse(d, NULL);
    /* the state operand is absent if the barrier may be in another block */
    at = d->ops[0].kind == SG_O_ADDR ? 0 : 1;
    n = d->nops > at + 1 ? sg_src(d, at + 1, SG_TY_U32) : sg_const32(d, 1);
    if (expect) {
        enum sg_space sp = sg_take_space(d);

        if (sg_mbar_op(d, SG_OP_mbar_expect, NONE, at, n, sp))
            return d->err;
        n = sg_const32(d, 1);
        return sg_mbar_op(d, arrive ? SG_OP_mbar_arrive : SG_OP_mbar_drop,
                          at ? sg_dst(d, 0, SG_TY_B64) : sg_temp(d, SG_TY_B64), at, n, sp);
    }
    return mbar_op(d, arrive ? SG_OP_mbar_arrive : SG_OP_mbar_drop,
                   at ? sg_dst(d, 0, SG_TY_B64) : sg_temp(d, SG_TY_B64), at, n);
}
