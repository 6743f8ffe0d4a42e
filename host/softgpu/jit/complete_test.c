/* SPDX-License-Identifier: MIT */
/*
 * Native code is complete or discarded: a check without room in a stub, a stub without a way back, a
 * jump to a place that is no entry, and an invalid register each fail the compilation; so does reaching
 * any limit of the code or its tables: nothing is written behind the buffer.
 */
#include "exec/exec_test.h"
#include "exec/guard_test.h"
#include "jit/avx2/avx2.h"
#include "jit/late.h"
#include "jit/memory/affine.h"
#include "jit/memory/windows.h"

#ifdef SG_JIT

#include <stdlib.h>
#include <string.h>

#include "exec/verify_texts.h" /* included last, as the other headers use its names for parameters */

#define INSNS 4

/* A compilation of four instructions, of which the first begins a block. */
static void begin(struct jit *j, struct sg_code *c)
{
    memset(j, 0, sizeof(*j));
    memset(c, 0, sizeof(*c));
    c->ninsns = INSNS;
    j->code = c;
    j->b.max = 4096;
    j->table_room = 65536;
    j->entry = calloc(INSNS + 1, sizeof(size_t));
    j->leader = calloc(INSNS + 1, 1);
    if (!j->entry || !j->leader)
        abort();
    j->entry[0] = 16;
    j->leader[0] = 1;
    sg_jv_forget(j);
}

static void end(struct jit *j)
{
    free(j->entry);
    free(j->leader);
    free(j->stubs);
    free(j->jumps);
    free(j->b.p);
}

static void checks_of_stub(void)
{
    struct sg_code c;
    struct jit j;
    struct stub *s;
    u32 n = 0;

    begin(&j, &c);
    s = sg_jit_stub(&j);
    if (!s)
        abort();
    for (; n < sizeof(s->jumps) / sizeof(s->jumps[0]); n++)
        sg_jit_slow(&j, s, JNE);
    sg_jit_joined(&j, s);
    sg_jit_complete(&j);
    t_result("all checks that there is room for", !j.b.failed && s->njumps == n, "refused");
    sg_jit_slow(&j, s, JNE);
    t_result("one check more than there is room for", j.b.failed && s->njumps == n, "%u checks, compiled",
             s->njumps);
    end(&j);
}

/* A check saves the registers' contents at its first jump. */
static void state_of_stub(bool changes, const char *name)
{
    struct sg_code c;
    struct jit j;
    struct stub *s;

    begin(&j, &c);
    j.v.held = j.v.dirty = 3u << V_SCRATCH;
    s = sg_jit_stub(&j);
    if (!s)
        abort();
    j.v.dirty = 1u << V_SCRATCH; /* written back for the result */
    sg_jit_slow(&j, s, JNE);
    if (changes)
        j.v.dirty = 0;
    sg_jit_slow(&j, s, JNE);
    sg_jit_joined(&j, s);
    sg_jit_complete(&j);
    t_result(name, s->v.dirty == 1u << V_SCRATCH && j.b.failed == changes, "%s",
             j.b.failed ? "refused" : "compiled");
    end(&j);
}

/* A short jump over n bytes. */
static void short_jump(u32 n, bool good)
{
    struct avx2_fork forks[AVX2_FORKS] = {0};
    struct avx2 avx2 = {.forks = forks};
    struct sg_code c;
    struct jit j;
    char name[64];
    size_t at;

    begin(&j, &c);
    j.b.avx2 = &avx2;
    at = sg_avx2_if_bit(B(&j), R10, 0);
    for (u32 i = 0; i < n; i++)
        put8(B(&j), 0x90);
    sg_avx2_bit_end(B(&j), at);
    snprintf(name, sizeof(name), "a short jump over %u bytes", n);
    t_result(name, j.b.failed == !good, "%s", j.b.failed ? "refused" : "compiled");
    end(&j);
}

static void stubs(bool enter, bool join, const char *name)
{
    struct sg_code c;
    struct jit j;
    struct stub *s;

    begin(&j, &c);
    s = sg_jit_stub(&j);
    if (enter)
        sg_jit_slow(&j, s, JNE);
    if (join)
        sg_jit_joined(&j, s);
    sg_jit_complete(&j);
    t_result(name, j.b.failed == !(enter && join), "%s", j.b.failed ? "refused" : "compiled");
    end(&j);
}

/* late: in a version that is compiled when it first runs. */
static void jumps(u32 insn, u8 masked, bool late, bool good, const char *name)
{
    struct sg_code c;
    struct jit j;

    begin(&j, &c);
    j.masked = masked;
    j.late_block = late;
    if (late)
        j.entry[0] = 0;
    sg_jit_jump_to(&j, jmp(B(&j)), insn);
    sg_jit_complete(&j);
    t_result(name, j.b.failed == !good, "%s", j.b.failed ? "refused" : "compiled");
    end(&j);
}

static void registers(void)
{
    struct sg_code c;
    struct jit j;
    bool good = true;

    begin(&j, &c);
    for (u32 k = V_SCRATCH; k < V_COUNT; k++)
        good &= sg_jv_new(&j) >= V_SCRATCH && !j.b.failed;
    sg_jv_new(&j);
    t_result("one register more than there are", good && j.b.failed, "it got one");
    end(&j);
}

/* ---- bounds ---- */

/* A buffer of this size that ends at inaccessible memory. */
static struct buf bounded(size_t n)
{
    enum { MOST = 1 << 20 };
    static u8 *room;

    room = room ? room : tg_room(MOST, 1);
    return (struct buf){.p = room + MOST - n, .cap = n, .max = n};
}

static void bytes(void)
{
    bool good = true;

    for (size_t n = 0; n < 24; n++) {
        struct buf b = bounded(n);

        put64(&b, 1);
        put32(&b, 1);
        mov_imm64(&b, RAX, UINT64_MAX);
        patch(&b, jmp(&b), 0);
        good &= b.n == n && b.failed;
    }
    t_result("bytes that there is no room for", good, "not refused");
}

/* The code as decoded, with these limits. */
static bool make_within(struct sg_code *c, struct buf b, size_t *tables)
{
    struct avx2_fork forks[AVX2_FORKS] = {0};
    struct avx2 avx2 = {.forks = forks}; /* the code of this machine, which sg_jit_compile() makes, too */
    struct jit j = {.code = c, .b = b, .table_room = *tables};
    const size_t n = c->ninsns * sizeof(*c->insns);
    struct sg_insn *before = malloc(n);
    bool whole;

    if (!before)
        abort();
    memcpy(before, c->insns, n);
    j.b.avx2 = strcmp(sg_op_isa(), "avx2") ? NULL : &avx2;
    sg_jit_make(&j);
    *tables -= j.table_room;
    whole = c->jit != NULL;
    if (!whole &&
        (!j.b.failed || c->handlers || c->windows || c->affine || c->late || memcmp(before, c->insns, n)))
        abort();
    memcpy(c->insns, before, n); /* compiled or not, as it was */
    free(before);
    return whole;
}

/* Without native code again. */
static void unmake(struct sg_code *c)
{
    sg_jit_mem_free(c->jit, c->jit_bytes);
    sg_jit_late_free(c->late);
    c->late = NULL;
    sg_jit_windows_free(c->windows);
    sg_jit_affine_free(c->affine);
    free(c->handlers);
    c->windows = NULL;
    c->affine = NULL;
    c->native_bytes = 0;
    c->handlers = NULL;
    c->jit = NULL;
}

static void bounds(const char *text, const char *name, bool rows)
{
    size_t all = JIT_TABLES_MAX, code, refused = 0, tried = 0;
    bool exact;
    struct sg_code *c;
    struct tk t;
    char label[64];

    if (!tk_open(&t, text, "t"))
        abort();
    sg_kernel_code(t.k, (const u32[3]){rows ? 32 : 33, 1, 1});
    c = rows ? t.k->rows : &t.k->code;
    if (!c)
        abort();
    for (u32 i = 0; i < c->ninsns; i++)
        c->insns[i].fn = sg_code_handler(c, &c->insns[i]);
    code = c->jit_bytes;
    unmake(c);
    exact = make_within(c, bounded(code), &all);
    unmake(c);
    snprintf(label, sizeof(label), "%s: as much room as it takes", name);
    t_result(label, exact && code && all, "%zu bytes, %zu of tables", code, all);
    for (size_t n = 0; n < code; n += 1 + code / 997, tried++) {
        size_t room = all;

        refused += !make_within(c, bounded(n), &room);
        unmake(c);
    }
    snprintf(label, sizeof(label), "%s: code that there is no room for", name);
    t_result(label, tried && refused == tried, "%zu of %zu refused", refused, tried);
    refused = tried = 0;
    for (size_t n = 0; n < all; n += 1 + all / 997, tried++) {
        size_t room = n;

        refused += !make_within(c, bounded(code), &room);
        unmake(c);
    }
    snprintf(label, sizeof(label), "%s: tables that there is no room for", name);
    t_result(label, tried && refused == tried, "%zu of %zu refused", refused, tried);
    tk_close(&t);
    tm_free_all();
}

int main(void)
{
    checks_of_stub();
    state_of_stub(false, "a check after registers were written back");
    state_of_stub(true, "registers written back between two checks");
    short_jump(127, true);
    short_jump(128, false);
    stubs(true, true, "a checked way");
    stubs(true, false, "a checked way without an end");
    stubs(false, true, "a checked way that nothing enters");
    jumps(0, JIT_ALL, false, true, "a jump to a block");
    jumps(1, JIT_ALL, false, false, "a jump into a block");
    jumps(JIT_EXIT, JIT_ALL, false, true, "a jump to the way out");
    jumps(JIT_MISSING, JIT_ALL, false, true, "a jump to the last common place");
    jumps(JIT_MISSING - 1, JIT_ALL, false, false, "a jump to no common place");
    jumps(INSNS, JIT_ALL, false, false, "a jump behind the code");
    jumps(0, JIT_SOME, true, true, "a jump between blocks for some lanes");
    jumps(1, JIT_LOW, true, false, "a jump into a block for some lanes");
    jumps(0, JIT_SOME, false, false, "a jump from the version for all lanes to the one for some");
    jumps(0, JIT_ALL, true, false, "a jump from the version for some lanes to the one for all");
    registers();
    bytes();
    if (!sg_jit_available()) {
        t_skip("bounds of native code", "there is none on this machine");
        return t_end("softgpu native code");
    }
    bounds(plain, "plain", false);
    bounds(wide, "wide", false);
    bounds(in_rows, "rows", true);
    bounds(affine, "affine", false);
    return t_end("softgpu native code");
}

#else

int main(void)
{
    t_skip("native code is whole", "there is none on this machine");
    return t_end("softgpu native code");
}

#endif
