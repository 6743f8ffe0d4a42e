/* SPDX-License-Identifier: MIT */
/* The checked ways of memory accesses, behind the blocks, and the test that compiled code is whole. */
#include "jit/avx2/avx2.h"
#include "jit/memory/sums.h"
#include "jit/memory/windows.h"
#include "jit/state.h"

#ifdef SG_JIT

#include <string.h>

/* The jumps to a stub. AVX2: each saves the values that only ymm registers hold, mostly the same for all
   jumps. */
static void stub_land(struct jit *j, const struct stub *s)
{
    struct buf *b = B(j);
    size_t to_common[16];
    u32 n = 0;

    for (u32 k = 0; k < s->njumps; k++) {
        land(b, s->jumps[k]);
        if (!b->avx2 ||
            (k + 1 < s->njumps && !memcmp(s->unsaved[k], s->unsaved[k + 1], sizeof(s->unsaved[k]))))
            continue;
        sg_avx2_save(b, s->unsaved[k]);
        if (k + 1 < s->njumps)
            to_common[n++] = jmp(b);
    }
    for (u32 k = 0; k < n; k++)
        land(b, to_common[k]);
}

/* The checked way of a memory access: everything to memory, the handler, everything back. */
static void stub_emit(struct jit *j, const struct stub *s)
{
    struct buf *b = B(j);

    j->masked = s->masked;
    if (b->avx2)
        sg_avx2_done(b, 0);
    stub_land(j, s);
    for (u32 i = V_SCRATCH; i < V_COUNT; i++)
        if (s->v.dirty >> i & 1)
            sg_jv_store(j, i, s->v.key[i]);
    sg_jit_sums_save(j, s->sums, s->nsums);
    if (s->leave) { /* behind the instruction: at a block's first one the interpreter would come back here */
        sg_jit_call_handler(j, s->insn, ": a lane wraps around");
        sg_jit_count(j, s->insn + 1 - s->begin);
        sg_jit_leave_at(j, s->insn + 1, SG_JUMP);
        return;
    }
    if (s->window) {
        sg_jit_call_begin(j, s->insn);
        mov_imm64(b, RDX, (u64)(uintptr_t)s->window);
        sg_jit_call_end(j, s->window->site ? (u64)(uintptr_t)sg_jit_sum_learn
                                           : (u64)(uintptr_t)sg_jit_window_learn);
    }
    for (u32 k = 0; k < s->n; k++) {
        sg_jit_call_handler(j, s->insn + k, ": not all in one place");
        alu_reg(b, false, 0x85, RAX, RAX);
        sg_jit_jump_to(j, jcc(b, JNE), JIT_EXIT);
    }
    for (u32 i = V_SCRATCH; i < V_COUNT; i++) {
        if (!(s->after.held >> i & 1) || (s->aliases >> i & 1))
            continue;
        if (b->avx2)
            sg_avx2_reload(b, i, s->after.key[i] >> 31 ? G_POOL : G_REGS,
                           (s32)(s->after.key[i] & 0x7fffffffu));
        else
            sg_jv_load(j, i, s->after.key[i]);
    }
    for (u32 i = 0; i < AVX2_YMM && b->avx2; i++) {
        const u32 half = s->kept[i] - 1u, v = half >> 1 & (V_COUNT - 1), key = s->after.key[v];

        if (s->kept[i] && (s->after.held >> v & 1))
            sg_avx2_fill(b, i, half, s->aliases >> v & 1, key >> 31 ? G_POOL : G_REGS,
                         (s32)(key & 0x7fffffffu));
    }
    patch(b, jmp(b), s->back);
}

void sg_jit_stubs(struct jit *j)
{
    for (u32 k = 0; k < j->nstubs && !j->b.failed; k++)
        stub_emit(j, &j->stubs[k]);
}

void sg_jit_complete(struct jit *j)
{
    bool whole = true;

    for (u32 k = 0; k < j->nstubs; k++)
        whole &= j->stubs[k].back && j->stubs[k].njumps;
    for (u32 k = 0; k < j->njumps; k++) {
        const struct jump *p = &j->jumps[k];

        if (p->insn >= j->code->ninsns)
            whole &= UINT32_MAX - p->insn < JIT_COMMON;
        else if (p->masked == JIT_ALL && !j->settled)
            whole &= j->entry && j->entry[p->insn];
        else /* its block is compiled when it runs first, or was, for all lanes */
            whole &= j->late_block && j->leader[p->insn] == 1;
    }
    j->b.failed |= !whole;
}

#endif
