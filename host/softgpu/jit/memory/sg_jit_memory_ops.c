/* SPDX-License-Identifier: MIT */
/*
 * Native stores of global memory. All 32 addresses
 * are checked together against the allocation last used by the instruction, as in the handlers;
 * other cases call the handler, out of line. All operands are in registers before the check, so the
 * out-of-line path knows the state to save. If all lanes run, consecutive addresses are detected.
 */
#include "jit/avx2/avx2.h"
#include "jit/memory/windows.h"
#include "jit/ops.h"

#ifdef SG_JIT

/* Results are often stored by the first lane alone. Returns the jump to patch for other cases. */
static size_t first_alone(struct jit *j)
{
    alu_mem_imm8(B(j), false, 7, G_WARP, offsetof(struct sg_warp, mask), 1);
    return fork_jcc(B(j), JNE);
}

static bool e_st_g(struct jit *j, const struct sg_insn *in, u32 arg)
{
    const u32 n = arg >> 8 & 15, bytes = 4 * n;
    struct buf *b = B(j);
    size_t others, end = 0;
    struct stub *s;
    u32 ad[4], v[4][2];

    if (!sg_jit_fits(in, bytes) || (in->a & SG_OPND_CONST))
        return false;
    if (n > 1 && (in->aux & SG_AUX_SPIN))
        return false; /* spin loops need a single access: sg_write_whole */
    for (u32 h = 0; h < sg_jit_n(j, true); h++)
        ad[h] = sg_jv_get(j, in->a, h);
    for (u32 k = 0; k < n; k++)
        for (u32 h = 0; h < sg_jit_n(j, false); h++)
            v[k][h] = sg_jv_get(j, dest(in, k), h);
    s = sg_jit_stub(j);
    if (n == 1 && !j->masked) {
        others = sg_jit_row_test(j, ad, 1);
        sg_jit_check_flat(
            j, s,
            &(struct check){.idx = in->idx, .align = 4, .low = in->imm, .high = in->imm + 128, .write = true},
            ad[0]);
        for (u32 h = 0; h < sg_jit_n(j, false); h++)
            evm(b, VMOVU_STORE, v[0][h], 0, RAX, (s32)(in->imm + 64 * h), 64, 0, 0);
        end = fork_jmp(b);
        sg_jit_join_at(j, others);
    } else if (j->masked == JIT_LOW) {
        others = first_alone(j);
        sg_jit_check_flat(
            j, s,
            &(struct check){
                .idx = in->idx, .align = bytes, .low = in->imm, .high = in->imm + bytes, .write = true},
            ad[0]);
        for (u32 k = 0; k < n; k++)
            evm(b, MOVD_M, v[k][0], 0, RAX, (s32)(in->imm + 4 * k), 4, 0, EV_XMM);
        end = fork_jmp(b);
        sg_jit_join_at(j, others);
    }
    sg_jit_check_global(
        j, s,
        &(struct check){
            .idx = in->idx, .align = bytes, .low = in->imm, .high = in->imm + bytes, .write = true},
        ad);
    for (u32 k = 0; k < n; k++) /* lanes in ascending order: the last of equal addresses wins */
        for (u32 h = 0; h < sg_jit_n(j, false); h++) {
            const size_t skip = sg_jit_skip_upper(j, h);

            evi(b, EXTRACT4, v[k][h], 0, 2, 0, 0, 1);
            sg_jit_lanes(j, 1, 2 * h, true);
            sg_jit_lanes(j, 2, 2 * h + 1, true);
            evsib0(b, SCATTERQD, v[k][h], ad[2 * h], (s32)(in->imm + 4 * k), 1, 0);
            evsib0(b, SCATTERQD, 2, ad[2 * h + 1], (s32)(in->imm + 4 * k), 2, 0);
            sg_jit_skipped(j, skip);
        }
    sg_jit_join_at(j, end);
    sg_jv_unpin(j);
    sg_jit_joined(j, s);
    return true;
}

NATIVE_LOAD(ld_g_b32, MEM(4, 1));
NATIVE_LOAD(ld_g_u16, MEM(2, 1));
NATIVE_LOAD(ld_g_s16, MEM(2, 1) | SIGN);
NATIVE_LOAD(ld_g_u8, MEM(1, 1));
NATIVE_LOAD(ld_g_s8, MEM(1, 1) | SIGN);
NATIVE_LOAD(ld_g_b64, MEM(8, 1));
NATIVE_LOAD(ld_g_v2_b32, MEM(4, 2));
NATIVE_LOAD(ld_g_v4_b32, MEM(4, 4));
NATIVE(st_g_b32, e_st_g, MEM(4, 1) | STORE);
NATIVE(st_g_u16, sg_jit_store_small, MEM(2, 1) | STORE);
NATIVE(st_g_u8, sg_jit_store_small, MEM(1, 1) | STORE);
NATIVE(st_g_v2_b32, e_st_g, MEM(4, 2) | STORE);
NATIVE(st_g_v4_b32, e_st_g, MEM(4, 4) | STORE);

#endif
