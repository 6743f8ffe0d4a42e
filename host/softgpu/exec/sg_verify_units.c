/* SPDX-License-Identifier: MIT */
/* The verifier's view of special registers and hoisted values (exec/verify_units.h). */
#include "exec/verify_units.h"

#include <stdlib.h>

/* Content of a unit; 0: not used by any operand yet. */
enum { U_PRED = 1, U_32 = 2, U_64 = 4, U_TAIL = 8, U_KIND = 15, U_SPECIAL = 16 };

/*
 * Warps' register files follow each other, and native code moves whole units: each begins like the
 * first. Lanes' words of local memory alternate, so its size is in words. A block without dynamic
 * shared memory has the static part alone; memory is allocated up to dynamic_base.
 */
bool sg_verify_sizes(const struct sg_code *c)
{
    return c->ninsns && c->slots_begin <= c->slots32 && c->slots32 <= c->slots_end &&
           c->slots_end <= c->regfile_bytes && !(c->slots_begin & 127) && !(c->regfile_bytes & 127) &&
           c->local_bytes <= SG_WIN_LOCAL_SIZE && !(c->local_bytes & 3) &&
           c->static_shared <= c->dynamic_base && c->dynamic_base <= SG_WIN_SHARED_SIZE;
}

uint8_t *sg_verify_units_new(const struct sg_code *c)
{
    uint8_t *units = calloc((c->slots_begin >> 7) + 1, 1);

    for (uint32_t r = 0; r < SG_SR_COUNT && units; r++)
        if (sg_sreg_there(c, r))
            units[c->sreg_offset[r] >> 7] |= U_SPECIAL;
    return units;
}

bool sg_verify_units_claim(const struct sg_code *c, uint8_t *units, uint32_t op, uint8_t w)
{
    const uint8_t kind = w & SG_W_KIND, is = kind == SG_W_PRED ? U_PRED : kind == SG_W_32 ? U_32 : U_64;
    uint8_t *at;

    if ((op & SG_OPND_CONST) || op >= c->slots_begin)
        return true;
    at = &units[op >> 7];
    if ((at[0] & U_KIND & ~is) || ((w & SG_W_OUT) && (at[0] & U_SPECIAL)))
        return false;
    if (is == U_64 && (at[1] & ~U_TAIL))
        return false;
    at[0] |= is;
    if (is == U_64)
        at[1] |= U_TAIL;
    return true;
}

bool sg_verify_units_ahead(const struct sg_code *c, uint32_t op)
{
    return op < c->slots_begin && !(c->flat && op >> 7 < SG_FLAT_UNITS && c->flat[op >> 7]);
}

bool sg_verify_units_flat(const struct sg_code *c, const uint8_t *units)
{
    const uint32_t n = c->slots_begin >> 7;

    if (!c->flat)
        return true;
    if (n > SG_FLAT_UNITS)
        return false;
    for (uint32_t k = 0; k < n; k++) {
        const uint8_t is = c->flat[k] == 1 ? U_32 : U_64;

        if (!c->flat[k])
            continue;
        if (c->flat[k] > 2 || (units[k] & U_KIND & ~is))
            return false;
        if (is == U_64 && (k + 1 == n || c->flat[k + 1] || (units[k + 1] & ~U_TAIL)))
            return false;
    }
    for (uint32_t r = 0; r < SG_SR_COUNT; r++)
        if (sg_sreg_there(c, r) && c->flat[c->sreg_offset[r] >> 7] && !sg_code_sreg_flat(c, r))
            return false;
    return true;
}
