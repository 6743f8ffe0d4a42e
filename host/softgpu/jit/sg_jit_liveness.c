/* SPDX-License-Identifier: MIT */
/*
 * Liveness of the slots of the register file: dead values need not be written back, and
 * instructions with only dead results need not run.
 */
#include "jit/state.h"

#ifdef SG_JIT

#include <stdlib.h>
#include <string.h>

#define MAX_LIVE_BYTES (64u << 20) /* bit sets of liveness; beyond it everything counts as live */
#define MAX_SWEEPS 64

struct live {
    u32 words, nblocks;
    u32 *first; /* per block; first[nblocks] is the end */
    u32 *block_at;
    u64 *in;
};

static bool is_tracked(const struct sg_code *c, u32 op)
{
    return !(op & SG_OPND_CONST) &&
           op < c->slots_end; /* hoisted values are not written here: they never die */
}

static void scan_back(const struct sg_code *c, u32 i, u64 *live, u8 *kill)
{
    const u32 def = c->fields[2 * i], use = c->fields[2 * i + 1];
    const struct sg_insn *in = &c->insns[i];
    u32 k, out = 0, dead = (def & 31) && !(def & F_PARTIAL) ? F_DEAD : 0;

    for (k = 0; k < 5; k++) {
        const u32 op = *sg_jit_field(in, k), s = op >> 7;

        if (!(def >> k & 1))
            continue;
        if (!is_tracked(c, op) || (live[s >> 6] >> (s & 63) & 1))
            dead = 0;
        if (is_tracked(c, op) && !(def & F_PARTIAL))
            live[s >> 6] &= ~(1ull << (s & 63));
        if (is_tracked(c, op) && (def & F_PARTIAL))
            live[s >> 6] |= 1ull << (s & 63);
    }
    for (k = 0; k < 5; k++) {
        const u32 op = *sg_jit_field(in, k), s = op >> 7;

        if ((use >> k & 1) && is_tracked(c, op) && !(live[s >> 6] >> (s & 63) & 1))
            out |= 1u << k;
    }
    for (k = 0; k < 5; k++) {
        const u32 op = *sg_jit_field(in, k), s = op >> 7;

        if ((use >> k & 1) && is_tracked(c, op))
            live[s >> 6] |= 1ull << (s & 63);
    }
    if (kill)
        kill[i] = (u8)(out | dead);
}

static void live_out(const struct jit *j, const struct live *x, u32 blk, u64 *out)
{
    const struct sg_code *c = j->code;
    const u32 last = x->first[blk + 1] - 1;
    const struct sg_insn *in = &c->insns[last];
    const bool falls = in->fn != sg_jit_ctl.bra && in->fn != sg_jit_ctl.exit;

    memset(out, 0, (size_t)x->words * 8);
    if (in->fn == sg_jit_ctl.brx || (falls && last + 1 >= c->ninsns)) {
        memset(out, 0xff, (size_t)x->words * 8);
        return;
    }
    if (sg_jit_is_branch(in->fn))
        memcpy(out, x->in + (size_t)x->block_at[(u32)((s64)last + in->imm)] * x->words, (size_t)x->words * 8);
    if (falls)
        for (u32 w = 0; w < x->words; w++)
            out[w] |= x->in[(size_t)(blk + 1) * x->words + w];
}

void sg_jit_find_kills(struct jit *j)
{
    const struct sg_code *c = j->code;
    struct live x = {.words = ((c->slots_end >> 7) + 64) / 64};
    u64 *out = malloc((size_t)x.words * 8);
    bool changed = true;

    x.first = malloc(((size_t)c->ninsns + 2) * sizeof(u32));
    x.block_at = malloc(((size_t)c->ninsns + 1) * sizeof(u32));
    if (!x.first || !x.block_at || !out)
        goto end;
    for (u32 i = 0; i < c->ninsns; i++) {
        if (j->leader[i] == 1)
            x.first[x.nblocks++] = i;
        x.block_at[i] = x.nblocks - 1;
    }
    x.first[x.nblocks] = c->ninsns;
    if ((u64)x.nblocks * x.words * 8 > MAX_LIVE_BYTES)
        goto end;
    x.in = calloc((size_t)x.nblocks + 1, (size_t)x.words * 8);
    if (!x.in)
        goto end;
    for (u32 sweep = 0; changed && sweep < MAX_SWEEPS; sweep++) {
        changed = false;
        for (u32 k = x.nblocks; k-- > 0;) {
            live_out(j, &x, k, out);
            for (u32 i = x.first[k + 1]; i-- > x.first[k];)
                scan_back(c, i, out, NULL);
            if (memcmp(out, x.in + (size_t)k * x.words, (size_t)x.words * 8)) {
                memcpy(x.in + (size_t)k * x.words, out, (size_t)x.words * 8);
                changed = true;
            }
        }
    }
    if (!changed)
        for (u32 k = x.nblocks; k-- > 0;) {
            live_out(j, &x, k, out);
            for (u32 i = x.first[k + 1]; i-- > x.first[k];)
                scan_back(c, i, out, j->kill);
        }
end:
    free(x.first);
    free(x.block_at);
    free(x.in);
    free(out);
}

#endif
