/* SPDX-License-Identifier: MIT */
/* Types and registers of the operands of matrix products. */
#include "ptx/select/select.h"

int sg_mma_type_of(enum sg_type t)
{
    switch (t) {
    case SG_TY_F16:
        return SG_MMA_F16;
    case SG_TY_BF16:
        return SG_MMA_BF16;
    case SG_TY_TF32:
        return SG_MMA_TF32;
    case SG_TY_S8:
        return SG_MMA_S8;
    case SG_TY_U8:
        return SG_MMA_U8;
    case SG_TY_F64:
        return SG_MMA_F64;
    case SG_TY_E4M3:
        return SG_MMA_E4M3;
    case SG_TY_E5M2:
        return SG_MMA_E5M2;
    case SG_TY_E3M2:
        return SG_MMA_E3M2;
    case SG_TY_E2M3:
        return SG_MMA_E2M3;
    case SG_TY_E2M1:
        return SG_MMA_E2M1;
    default:
        return -1;
    }
}

uint32_t sg_mma_registers(struct sg_dec *d, enum sg_op op, uint32_t i, uint32_t n, enum sg_type t, bool dst)
{
    uint32_t f[5] = {NONE, NONE, NONE, NONE, NONE}, mask = 0;
    struct sg_opel one = {d->ops[i].kind, d->ops[i].v, d->ops[i].imm};
    const struct sg_opel *el = d->ops[i].kind == SG_O_VEC ? d->ops[i].el : &one;
    uint32_t have = d->ops[i].kind == SG_O_VEC ? d->ops[i].nel : 1;

    if (have != n) {
        sg_dec_syntax(d, "%s: operand %u has %u registers, %u expected", d->oc.full, i + 1, have, n);
        return 0;
    }
    for (uint32_t k = 0; k < n; k++) {
        f[k] = dst ? sg_dst_el(d, &el[k], t) : sg_src_el(d, &el[k], t);
        mask |= 1u << k;
    }
    return sg_emit_x(d, op, f, dst ? mask : 0, dst ? 0 : mask);
}

void sg_emit_list(struct sg_dec *d, const struct sg_opel *el, uint32_t n, bool out)
{
    for (uint32_t k = 0; k < n; k += 4) {
        uint32_t f[5] = {NONE, NONE, NONE, NONE, NONE}, mask = 0;

        for (uint32_t i = 0; i < 4 && k + i < n; i++) {
            f[i] = out ? sg_dst_el(d, &el[k + i], SG_TY_B32) : sg_src_el(d, &el[k + i], SG_TY_B32);
            mask |= 1u << i;
        }
        sg_emit_x(d, SG_OP_ext, f, out ? mask : 0, out ? 0 : mask);
    }
}
