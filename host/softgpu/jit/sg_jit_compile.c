/* SPDX-License-Identifier: MIT */
/*
 * Compiles a kernel, block by block (jit/sg_jit_block.c). Within a block, chunks of 64 bytes of the register file live in
 * vector registers (jit/sg_jit_registers.c); they are written back at its end unless no later instruction
 * reads them (jit/sg_jit_liveness.c).
 */
#include "jit/avx2/avx2.h"
#include "jit/late.h"
#include "jit/memory/affine.h"
#include "jit/memory/sums.h"
#include "jit/ops.h"

#include <cpuid.h>
#include <stdlib.h>
#include <string.h>

#ifdef SG_JIT

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool available, use_avx2, use_fp16;

/* gcc 12 and clang 14 do not both have a name for it. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;

    return __get_cpuid(1, &a, &b, &c, &d) && (c >> 29 & 1);
}

/* AVX512-FP16, unless VGPU_SOFT_ISA takes it away. clang 14 has no name for it. */
static bool has_fp16(void)
{
    const char *isa = getenv("VGPU_SOFT_ISA");
    unsigned a, b, c, d;

    return (!isa || strcmp(isa, "avx512")) && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 23 & 1);
}

static void init_compiler(void)
{
    const char *env = getenv("VGPU_SOFT_JIT");

    use_avx2 = !strcmp(sg_op_isa(), "avx2") && has_f16c();
    use_fp16 = !strcmp(sg_op_isa(), "avx512") && has_fp16();
    if ((env && !strcmp(env, "0")) || (!use_avx2 && strcmp(sg_op_isa(), "avx512")) || !sg_jit_mem_init())
        return;
    sg_jit_ctl.bra = sg_op_fn(SG_OP_bra);
    sg_jit_ctl.bra_if = sg_op_fn(SG_OP_bra_if);
    sg_jit_ctl.bra_not = sg_op_fn(SG_OP_bra_not);
    sg_jit_ctl.join = sg_op_fn(SG_OP_join);
    sg_jit_ctl.brx = sg_op_fn(SG_OP_brx);
    sg_jit_ctl.exit = sg_op_fn(SG_OP_exit);
    sg_jit_ctl.exit_if[0] = sg_op_fn(SG_OP_exit_if);
    sg_jit_ctl.exit_if[1] = sg_op_fn(SG_OP_exit_not);
    sg_jit_ctl.pred_if = sg_op_fn(SG_OP_pred_if);
    sg_jit_ctl.pred_not = sg_op_fn(SG_OP_pred_not);
    sg_jit_ctl.fpmode = sg_op_fn(SG_OP_fpmode);
    sg_jit_ctl.flat = sg_op_fn(SG_OP_flat);
    sg_jit_ctl.wsync = sg_op_fn(SG_OP_wsync);
    sg_jit_ctl.ext = sg_op_fn(SG_OP_ext);
    sg_jit_ctl.bar[0] = sg_op_fn(SG_OP_bar_sync);
    sg_jit_ctl.bar[1] = sg_op_fn(SG_OP_bar_arrive);
    sg_jit_ctl.bar[2] = sg_op_fn(SG_OP_bar_red_popc);
    sg_jit_ctl.bar[3] = sg_op_fn(SG_OP_bar_red_and);
    sg_jit_ctl.bar[4] = sg_op_fn(SG_OP_bar_red_or);
    sg_jit_table = sg_jit_natives;
    available = sg_native_on = true;
}

void sg_jit_init(void)
{
    pthread_once(&once, init_compiler);
}

bool sg_jit_available(void)
{
    sg_jit_init();
    return available;
}

/* ---- blocks ---- */

static bool is_exit_if(sg_fn fn)
{
    return fn == sg_jit_ctl.exit_if[0] || fn == sg_jit_ctl.exit_if[1];
}

/* Marks the starts of blocks with 1 and instructions inside a span with 2. */
static void find_leaders(struct jit *j)
{
    const struct sg_code *c = j->code;

    j->leader[0] = 1;
    for (u32 i = 0; i < c->ninsns; i++) {
        const struct sg_insn *in = &c->insns[i];

        if (sg_jit_is_branch(in->fn)) {
            j->leader[(u32)((s64)i + in->imm)] = 1;
            j->leader[i + 1] = 1;
        } else if (sg_jit_is_bar(in->fn) || is_exit_if(in->fn) || in->fn == sg_jit_ctl.brx ||
                   in->fn == sg_jit_ctl.exit) {
            j->leader[i + 1] = 1;
        } else if (sg_jit_is_span(in->fn)) {
            const bool native = sg_jit_is_native_span(c, i);

            for (u32 k = 1; k <= in->aux && i + k < c->ninsns; k++)
                j->leader[i + k] = 2;
            i += in->aux;
            if (native)
                j->leader[i + 1] = 1;
        }
    }
    for (u32 k = 0; k < c->ntargets;) {
        const u32 n = c->targets[k++];

        for (u32 e = k + n; k < e && k < c->ntargets; k++)
            j->leader[c->targets[k]] = 1;
    }
}

static void emit_entry(struct jit *j)
{
    /* the first one aligns RSP */
    static const u8 push[] = {0x50, 0x55, 0x53, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57};
    struct buf *b = B(j);
    const size_t begin = b->n;

    for (size_t k = 0; k < sizeof(push); k++)
        put8(b, push[k]);
    if (b->avx2)
        sg_avx2_enter(b);
    j->prologue = (u32)(b->n - begin);
    alu_reg(b, true, 0x89, G_WARP, RDI);
    alu_mem(b, true, 0x8b, G_REGS, G_WARP, offsetof(struct sg_warp, base));
    alu_mem(b, true, 0x8b, G_POOL, G_WARP, offsetof(struct sg_warp, base) + 8);
    alu_mem(b, true, 0x8b, G_CTA, G_WARP, offsetof(struct sg_warp, cta));
    mov_imm64(b, G_GEN, (u64)(uintptr_t)&sg_mem_generation);
}

/* The way in for the interpreter to block `number`, which begins at i. */
static void emit_outer_entry(struct jit *j, u32 i, u32 number)
{
    struct buf *b = B(j);

    emit_entry(j);
    alu_mem_imm8(b, false, 7, G_WARP, offsetof(struct sg_warp, mask), 0xff); /* all lanes? */
    j->masked = JIT_ALL;
    sg_jit_jump_to(j, jcc(b, JE), i);
    mov_imm64(b, RCX, number);
    sg_jit_jump_to(j, jmp(b), JIT_MASKED);
}

static void common_exit(struct jit *j)
{
    static const u8 pop[] = {0xc5, 0xf8, 0x77, /* vzeroupper */
                             0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5b, 0x5d, 0x59, 0xc3};

    if (j->b.avx2)
        sg_avx2_leave(B(j));
    for (size_t k = 0; k < sizeof(pop); k++)
        put8(B(j), pop[k]);
}

/* Compiles the code that runs ahead of blocks as a separate function. Returns its start. */
static size_t compile_ahead(struct jit *j, const struct sg_ahead *a)
{
    static const u8 none[] = {0x31, 0xc0}; /* xor eax, eax: SG_NEXT */
    const size_t at = j->b.n;
    struct sg_code *c = j->code, list = *c;
    u8 *kill = j->kill;

    list.insns = a->insns;
    list.ninsns = a->n;
    j->home = a->insns;
    j->kill = calloc((size_t)a->n + 1, 1); /* all that it gives is wanted */
    j->b.failed |= !j->kill;
    j->code = &list;
    j->masked = JIT_ALL;
    j->ahead_of = true;
    emit_entry(j);
    sg_jv_forget(j);
    for (u32 i = 0; i < a->n && !j->b.failed;)
        i += sg_jit_insn(j, i);
    sg_jit_set_mode(j, c->mxcsr);
    sg_jv_flush(j);
    for (size_t k = 0; k < sizeof(none); k++)
        put8(B(j), none[k]);
    sg_jit_jump_to(j, jmp(B(j)), JIT_EXIT);
    free(j->kill);
    j->kill = kill;
    j->code = c;
    j->home = c->insns;
    j->ahead_of = false;
    return at;
}

/* ---- a kernel ---- */

/* common: receives the offsets of the common places. */
static void compile_code(struct jit *j, size_t common[JIT_COMMON])
{
    struct sg_code *c = j->code;
    u32 number = 0;

    sg_jit_find_kills(j);
    for (u32 i = 0; i < c->ninsns && !j->b.failed; i++) {
        if (j->leader[i] != 1)
            continue;
        j->outside[i] = j->b.n + 1;
        emit_outer_entry(j, i, number++);
    }
    for (u32 i = 0; i < c->ninsns && !j->b.failed; i++) {
        if (j->leader[i] != 1)
            continue;
        j->masked = JIT_ALL;
        sg_jit_fall_through(j, i);
        j->entry[i] = j->b.n;
        sg_jit_block(j, i);
    }
    for (u32 k = 0; k < SG_AHEAD_COUNT && !j->b.failed; k++)
        j->ahead[k] = c->ahead[k].n ? compile_ahead(j, &c->ahead[k]) + 1 : 0;
    sg_jit_stubs(j);
    sg_jit_common(j, common);
    sg_jit_late_common(j, common);
    common[0] = j->b.n;
    common_exit(j);
    sg_jit_complete(j);
    if (j->b.failed)
        return;
    sg_jit_patterns(j);
    for (u32 k = 0; k < j->njumps; k++) {
        const struct jump *p = &j->jumps[k];

        patch(B(j), p->at, p->insn < c->ninsns ? j->entry[p->insn] : common[UINT32_MAX - p->insn]);
    }
}

void sg_jit_make(struct jit *j)
{
    struct sg_code *c = j->code;
    size_t common[JIT_COMMON];
    u8 *at = NULL;

    j->mode = j->mxcsr = c->mxcsr;
    j->home = c->insns;
    j->leader = calloc((size_t)c->ninsns + 1, 1);
    j->kill = calloc((size_t)c->ninsns + 1, 1);
    j->entry = calloc((size_t)c->ninsns + 1, sizeof(size_t));
    j->outside = calloc((size_t)c->ninsns + 1, sizeof(*j->outside));
    c->handlers = calloc(c->ninsns, sizeof(*c->handlers));
    j->addresses = sg_code_addresses(c);
    if (j->leader && j->addresses && j->kill && j->entry && j->outside && c->handlers) {
        find_leaders(j);
        j->late = sg_jit_late_new(j);
        if (j->late)
            compile_code(j, common);
        at = j->b.failed || !j->late ? NULL : sg_jit_mem_put(j->b.p, j->b.n);
    }
    if (at) {
        c->jit = at;
        c->jit_bytes = j->b.n;
        c->windows = j->windows;
        c->affine = j->affines;
        c->native_bytes = j->native_bytes;
        for (u32 k = 0; k < SG_AHEAD_COUNT; k++)
            c->ahead[k].native = j->ahead[k] ? (sg_fn)(uintptr_t)(at + j->ahead[k] - 1) : NULL;
        for (u32 i = 0; i < c->ninsns; i++) {
            c->handlers[i] = c->insns[i].fn;
            if (j->outside[i])
                c->insns[i].fn = (sg_fn)(uintptr_t)(at + j->outside[i] - 1);
        }
        sg_jit_late_begin(j, at, common);
        c->late = j->late;
    } else {
        sg_jit_late_free(j->late);
        free(c->handlers);
        c->handlers = NULL;
        free(j->leader);
        free(j->addresses);
        free(j->kill);
        sg_jit_windows_free(j->windows);
        sg_jit_affine_free(j->affines);
    }
    free(j->entry);
    free(j->outside);
    free(j->stubs);
    free(j->patterns);
    free(j->jumps);
}

void sg_jit_compile(struct sg_code *c)
{
    struct avx2_fork forks[AVX2_FORKS] = {0};
    struct avx2 avx2 = {.forks = forks};
    struct jit j = {.code = c,
                    .b.max = JIT_CODE_MAX,
                    .b.avx2 = use_avx2 ? &avx2 : NULL,
                    .fp16 = use_fp16,
                    .table_room = JIT_TABLES_MAX};

    /* branches do not show the targets of real calls, so such kernels are interpreted */
    if (!sg_jit_available() || !c->ninsns || !c->fields || c->jit || c->calls)
        return;
    sg_jit_make(&j);
    free(j.b.p);
}

void sg_jit_free(struct sg_code *c)
{
    sg_jit_mem_free(c->jit, c->jit_bytes);
    sg_jit_late_free(c->late);
    c->late = NULL;
    sg_jit_windows_free(c->windows);
    sg_jit_affine_free(c->affine);
    c->windows = NULL;
    c->affine = NULL;
    free(c->handlers);
    free(c->fields);
    c->jit = NULL;
    for (u32 k = 0; k < SG_AHEAD_COUNT; k++)
        c->ahead[k].native = NULL;
    c->handlers = NULL;
    c->fields = NULL;
}

#else

void sg_jit_init(void)
{
}

bool sg_jit_available(void)
{
    return false;
}

void sg_jit_compile(struct sg_code *c)
{
    (void)c;
}

void sg_jit_free(struct sg_code *c)
{
    free(c->fields);
    c->fields = NULL;
}

#endif
