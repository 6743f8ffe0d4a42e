/* SPDX-License-Identifier: MIT */
/*
 * Vectors of 2 and 4 elements of 16 bits are loaded and stored as 1 and 2 words, which native code
 * supports; the elements are extracted from words or packed into them. Vectors of 2 and 4 bytes are
 * packed when they are stored.
 */
#include "ptx/select/select.h"

bool sg_pair_words(struct sg_dec *d, enum sg_type t, uint32_t vec, const struct sg_opel *el,
                   struct sg_opel words[2])
{
    if (sg_type_size(t) != 2 || (vec != 2 && vec != 4))
        return false;
    for (uint32_t k = 0; k < vec; k++) /* a wider register wants an extended value */
        if (el[k].kind == SG_O_REG && sg_type_size((enum sg_type)d->vregs[el[k].v].type) != 2)
            return false;
    for (uint32_t k = 0; k < vec / 2; k++)
        words[k] = (struct sg_opel){.kind = SG_O_REG, .v = sg_temp(d, SG_TY_B32)};
    return true;
}

int sg_pair_split(struct sg_dec *d, enum sg_type t, uint32_t vec, const struct sg_opel *el,
                  const struct sg_opel *words)
{
    for (uint32_t k = 0; k < vec; k += 2) {
        uint32_t f[5] = {SG_OPND_NONE, words[k / 2].v, SG_OPND_NONE, SG_OPND_NONE, SG_OPND_NONE};

        f[0] = sg_dst_el(d, &el[k], t);
        f[2] = sg_dst_el(d, &el[k + 1], t);
        sg_emit_x(d, SG_OP_mov_unpack_2x16, f, SG_F_D | SG_F_B, SG_F_A);
    }
    return d->err;
}

int sg_pair_join(struct sg_dec *d, enum sg_type t, uint32_t vec, const struct sg_opel *el,
                 const struct sg_opel *words)
{
    for (uint32_t k = 0; k < vec; k += 2) {
        const uint32_t low = sg_src_el(d, &el[k], t), high = sg_src_el(d, &el[k + 1], t);

        sg_emit(d, SG_OP_mov_pack_2x16, words[k / 2].v, low, high, SG_OPND_NONE);
    }
    return d->err;
}

/* The low byte of element k of 8 bits. */
static uint32_t byte_of(struct sg_dec *d, enum sg_type t, const struct sg_opel *el)
{
    uint32_t low;

    if (el->kind != SG_O_REG || d->vregs[el->v].cls != SG_C_64)
        return sg_src_el(d, el, t);
    low = sg_temp(d, SG_TY_U32);
    sg_emit(d, SG_OP_cvt_u32_u64, low, el->v, SG_OPND_NONE, SG_OPND_NONE);
    return low;
}

bool sg_bytes_join(struct sg_dec *d, enum sg_type t, uint32_t vec, const struct sg_opel *el,
                   struct sg_opel *word)
{
    uint32_t pair[2];

    if (sg_type_size(t) != 1 || (vec != 2 && vec != 4))
        return false;
    for (uint32_t k = 0; k < vec; k += 2) {
        const uint32_t low = byte_of(d, t, &el[k]), high = byte_of(d, t, &el[k + 1]);

        pair[k / 2] = sg_temp(d, SG_TY_B32);
        sg_emit(d, SG_OP_prmt_b32, pair[k / 2], low, high, sg_const32(d, 0x0040));
    }
    *word = (struct sg_opel){.kind = SG_O_REG, .v = pair[0]};
    if (vec == 4) {
        word->v = sg_temp(d, SG_TY_B32);
        sg_emit(d, SG_OP_mov_pack_2x16, word->v, pair[0], pair[1], SG_OPND_NONE);
    }
    return true;
}

uint32_t sg_unwritten_register(struct sg_dec *d, uint32_t v, const struct sg_opel *written, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        bool wide;
        uint32_t copy;

        if (written[k].kind != SG_O_REG || written[k].v != v)
            continue;
        wide = d->vregs[v].cls == SG_C_64;
        copy = sg_temp(d, wide ? SG_TY_B64 : SG_TY_B32);
        sg_emit(d, wide ? SG_OP_mov_b64 : SG_OP_mov_b32, copy, v, SG_OPND_NONE, SG_OPND_NONE);
        return copy;
    }
    return v;
}
