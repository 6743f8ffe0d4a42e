/* SPDX-License-Identifier: MIT */
/*
 * Loads from sums (jit/memory/sums.h): addresses of a uniform and a hoisted part, added in either order,
 * whose lanes lie in a row, in windows or apart, and differently in the next row of blocks; sums used as
 * values, sums that outlive their block, more sums than fit; the ends of memory.
 */
#include "exec/exec_test.h"
#include "jit/jit.h"

#ifdef SG_JIT

#include "jit/late.h"
#include "jit/memory/sums.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define BYTES 65536u
#define TURNS 3u
#define BLOCKS 3u
#define ROWS 2u

/* The offset of lane i: pattern, and its change between rows of blocks. */
static const struct {
    const char *name, *ptx; /* %t: lane, %y: row of blocks; the result in %o */
    bool rows;
} patterns[] = {
    {"a row", "shl.b32 %o, %t, 2;", false},
    {"windows of 8",
     "shr.u32 %o1, %t, 2; mul.lo.u32 %o2, %o1, 36; and.b32 %o3, %t, 3; mad.lo.u32 %o, %o3, 8, %o2;", false},
    {"windows of 4", "shl.b32 %o, %t, 4;", false},
    {"apart", "shl.b32 %o, %t, 8;", false},
    {"one address", "mul.hi.u32 %o, %t, 1;", false},
    {"backwards", "sub.u32 %o1, 31, %t; shl.b32 %o, %o1, 2;", false},
    {"a row, then apart", "mul.lo.u32 %o1, %y, 124; add.u32 %o2, %o1, 4; mul.lo.u32 %o, %t, %o2;", true},
    {"windows, then others", "mul.lo.u32 %o1, %y, 8; add.u32 %o2, %o1, 8; mul.lo.u32 %o, %t, %o2;", true},
};
#define WORDS_OF_FOUR 2u
#define APART 3u
#define PATTERNS (sizeof(patterns) / sizeof(patterns[0]))

static uint32_t offset(unsigned pattern, uint32_t t, uint32_t y)
{
    switch (pattern) {
    case 0:
        return 4 * t;
    case 1:
        return t / 4 * 36 + t % 4 * 8;
    case 2:
        return 16 * t;
    case 3:
        return 256 * t;
    case 4:
        return 0;
    case 5:
        return (31 - t) * 4;
    case 6:
        return t * (4 + 124 * y);
    default:
        return t * (8 + 8 * y);
    }
}

/* How the address %a comes to be: %b: the data, %u: uniform, %l: the lanes' offsets; `more` bytes behind their sum. */
static const struct {
    const char *name, *ptx;
    uint32_t more;
} forms[] = {
    {"data and turn, then lanes", "add.u64 %x, %b, %u; add.u64 %a, %x, %l;", 0},
    {"lanes first", "add.u64 %a, %l, %u; add.u64 %a, %a, %b;", 0},
    {"a sum of sums", "add.u64 %x, %b, %l; add.u64 %x, %x, %u; add.u64 %x1, %x, 64; add.u64 %a, %x1, 16;",
     80},
    {"into itself", "add.u64 %a, %l, %b; add.u64 %a, %u, %a; add.u64 %a, %a, 4; add.u64 %a, %a, 4;", 8},
    {"of other sums",
     "add.u64 %x, %u, %b; add.u64 %x1, %x, %l; add.u64 %x2, %x1, 512; add.u64 %a, %x1, %u; sub.u64 %a, %a, %u; "
     "ld.global.u32 %v, [%x2]; xor.b32 %s, %s, %v; add.u64 %a, %x1, 12;",
     12},
};
#define FORMS (sizeof(forms) / sizeof(forms[0]))
#define OTHER 4u /* the form that loads from another sum, too, 512 bytes behind */

/* Uses of the address. */
static const struct {
    const char *name, *ptx;
} uses[] = {
    {"a word", "ld.global.u32 %v, [%a];"},
    {"words of a group",
     "ld.global.u32 %v, [%a+4]; ld.global.u32 %w, [%a+8]; add.u32 %v, %v, %w; ld.global.u32 %w, [%a]; "
     "add.u32 %v, %v, %w;"},
    {"halves", "ld.global.u16 %h, [%a]; ld.global.u16 %h1, [%a+2]; mov.b32 %v, {%h1, %h};"},
    {"bytes", "ld.global.s8 %v, [%a+3]; ld.global.u8 %w, [%a+1]; mad.lo.u32 %v, %v, 3, %w;"},
    {"the address itself",
     "sub.u64 %x3, %a, %b; cvt.u32.u64 %v, %x3; ld.global.u32 %w, [%a]; add.u32 %v, %v, %w;"},
    {"in the next block", "setp.eq.u32 %p, %n, 77; @%p bra Q; mov.u32 %w, 1; bra R; Q: mov.u32 %w, 2; R: "
                          "ld.global.u32 %v, [%a]; mul.lo.u32 %v, %v, %w;"},
    {"under a predicate",
     "and.b32 %w, %t, 1; setp.eq.u32 %p, %w, 0; mov.u32 %v, 7; @%p ld.global.u32 %v, [%a];"},
    {"lanes part",
     "and.b32 %w, %t, 5; mov.u32 %v, 9; setp.eq.u32 %p, %w, 4; @%p bra Q; ld.global.u32 %v, [%a+4]; bra R; "
     "Q: ld.global.u32 %v, [%a]; R:"},
    {"volatile", "ld.volatile.global.u32 %v, [%a];"},
};
#define USES (sizeof(uses) / sizeof(uses[0]))

static uint8_t *data;
static uint32_t *out;

static uint32_t word(uint32_t at)
{
    uint32_t v;

    memcpy(&v, data + at, 4);
    return v;
}

static uint32_t used(unsigned use, uint32_t at, uint32_t t)
{
    switch (use) {
    case 1:
        return word(at) + word(at + 4) + word(at + 8);
    case 2:
        return word(at) << 16 | word(at) >> 16;
    case 3:
        return (uint32_t)(int8_t)data[at + 3] * 3 + data[at + 1];
    case 4:
        return at + word(at);
    case 6:
        return t & 1 ? 7 : word(at);
    case 7:
        return (t & 5) == 4 ? word(at) : word(at + 4);
    default:
        return word(at);
    }
}

static uint32_t expected(unsigned pattern, unsigned form, unsigned use, uint32_t x, uint32_t y, uint32_t t)
{
    uint32_t s = 0;

    for (uint32_t n = 0; n < TURNS; n++) {
        const uint32_t u = x * 1040 + n * 36, at = u + offset(pattern, t, y);

        if (form == OTHER)
            s ^= word(at + 512);
        s = s * 31 + used(use, at + forms[form].more, t);
    }
    return s;
}

#define HEAD \
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry t(.param .u64 data, .param .u64 out)\n{\n" \
    ".reg .b64 %b, %u, %l, %a, %x, %x1, %x2, %x3, %z, %k<40>;\n.reg .b32 %t, %y, %c, %o, %o1, %o2, %o3, %e, %v, %w, %s, %n, %q, %q1;\n" \
    ".reg .b16 %h, %h1;\n.reg .pred %p, %g;\nld.param.u64 %b, [data];\nmov.u32 %t, %tid.x;\nmov.u32 %y, %ctaid.y;\n"
#define BEGIN \
    "cvt.u64.u32 %l, %o;\nmov.u32 %c, %ctaid.x;\nmov.u32 %n, 0;\nmov.u32 %s, 0;\nLOOP:\nmul.lo.u32 %q, %n, 36;\n" \
    "mad.lo.u32 %q, %c, 1040, %q;\ncvt.u64.u32 %u, %q;\n"
#define END \
    "\nadd.u32 %n, %n, 1;\nsetp.lt.u32 %g, %n, 3;\n@%g bra LOOP;\nmov.u32 %e, %nctaid.x;\nmad.lo.u32 %e, %y, %e, %c;\n" \
    "mad.lo.u32 %e, %e, 32, %t;\nld.param.u64 %z, [out];\nmul.wide.u32 %x3, %e, 4;\nadd.u64 %z, %z, %x3;\n" \
    "st.global.u32 [%z], %s;\nret;\n}\n"
#define MIX "\nmul.lo.u32 %s, %s, 31;\nadd.u32 %s, %s, %v;\n"

static const uint32_t grid[3] = {BLOCKS, ROWS, 1}, block[3] = {32, 1, 1};

static int launch(struct tk *t, struct sg_fault *f)
{
    const uint64_t params[2] = {(uintptr_t)data, (uintptr_t)out};

    memset(out, 0x55, BLOCKS * ROWS * 32 * 4);
    return tk_run3(t, grid, block, 0, params, f);
}

/* The number of loads of a kernel from sums. */
static unsigned sites(const struct tk *t)
{
    const struct sg_code *const code = t->k->rows ? t->k->rows : &t->k->code;
    unsigned n = 0;

    for (const struct sg_window *x = code->windows; x; x = x->next)
        n += x->site != 0;
    return n;
}

/* The number of blocks of a kernel that run in versions for what was found of their lanes. */
static unsigned settled(const struct tk *t)
{
    const struct sg_code *const code = t->k->rows ? t->k->rows : &t->k->code;

    return code->late ? sg_jit_late_settled(code->late) : 0;
}

/* Outcomes of the uses of an address. */
struct outcomes {
    unsigned wrong, from_sums, settled;
};

static void one(unsigned pattern, unsigned form, unsigned use, struct outcomes *o)
{
    char text[4096];
    struct sg_fault f;
    struct tk t;
    bool ok;

    snprintf(text, sizeof(text), "%s%s\n%s%s\n%s%s%s", HEAD, patterns[pattern].ptx, BEGIN, forms[form].ptx,
             uses[use].ptx, MIX, END);
    ok = tk_open(&t, text, "t");
    for (int again = 0; again < 2 && ok; again++) {
        ok = !launch(&t, &f);
        for (uint32_t i = 0; i < BLOCKS * ROWS * 32 && ok; i++)
            ok = out[i] == expected(pattern, form, use, i / 32 % BLOCKS, i / 32 / BLOCKS, i % 32);
    }
    o->wrong += !ok;
    o->from_sums += ok ? sites(&t) : 0;
    o->settled += ok ? settled(&t) : 0;
    if (t.m)
        tk_close(&t);
}

/* True if the lanes lie in a row or in windows, which with AVX2 are smaller. */
static bool may_settle(unsigned pattern)
{
    return pattern != APART && !(pattern == WORDS_OF_FOUR && !strcmp(sg_op_isa(), "avx2"));
}

static void test_all(bool sums)
{
    char name[64];

    for (unsigned p = 0; p < PATTERNS; p++)
        for (unsigned form = 0; form < FORMS; form++) {
            struct outcomes o = {0};

            for (unsigned use = 0; use < USES; use++)
                one(p, form, use, &o);
            snprintf(name, sizeof(name), "%s: %s", patterns[p].name, forms[form].name);
            t_result(name,
                     !o.wrong && (o.from_sums > 0) == sums && (o.settled > 0) == (sums && may_settle(p)),
                     "%u of %u uses are wrong, %u loads from sums, %u settled blocks", o.wrong,
                     (unsigned)USES, o.from_sums, o.settled);
        }
}

/* Windows of lanes in a row are never written, as several warps read them concurrently. */
static void test_row(void)
{
    unsigned n = 0, written = 0;
    char text[4096];
    struct sg_fault f;
    struct tk t;

    snprintf(text, sizeof(text), "%s%s\n%s%s\n%s%s%s", HEAD, patterns[0].ptx, BEGIN, forms[0].ptx,
             uses[0].ptx, MIX, END);
    if (!tk_open(&t, text, "t") || launch(&t, &f)) {
        t_result("lanes in a row", false, "does not run");
        return;
    }
    for (const struct sg_window *x = t.k->code.windows; x; x = x->next) {
        n += x->site != 0;
        written += x->site && x->lanes;
    }
    t_result("lanes in a row", (n > 0) == sg_jit_available() && !written, "%u of %u windows are written",
             written, n);
    tk_close(&t);
}

static size_t put(char *text, size_t n, const char *fmt, ...)
{
    va_list ap;
    int len;

    va_start(ap, fmt);
    len = vsnprintf(text + n, 16384 - n, fmt, ap);
    va_end(ap);
    return n + (size_t)len;
}

/* As many addresses as there are, all of them used at the end. */
static void test_many(void)
{
    static char text[16384];
    struct sg_fault f;
    uint32_t bad = 0;
    struct tk t;
    size_t n = put(text, 0, "%s%s\n%sadd.u64 %%x, %%b, %%u;\n", HEAD, patterns[1].ptx, BEGIN);

    for (unsigned i = 0; i < 40; i++)
        n = put(text, n, "add.u64 %%x1, %%x, %u;\nadd.u64 %%k%u, %%x1, %%l;\n", 4 * i, i);
    for (unsigned i = 40; i--;)
        n = put(text, n, "ld.global.u32 %%v, [%%k%u];%s", i, MIX);
    put(text, n, "%s", END);
    if (!tk_open(&t, text, "t") || launch(&t, &f)) {
        t_result("more sums than there is room for", false, "does not run");
        return;
    }
    for (uint32_t i = 0; i < BLOCKS * ROWS * 32; i++) {
        uint32_t s = 0;

        for (uint32_t turn = 0; turn < TURNS; turn++)
            for (unsigned k = 40; k--;)
                s = s * 31 + word(i / 32 % BLOCKS * 1040 + turn * 36 + offset(1, i % 32, 0) + 4 * k);
        bad += out[i] != s;
    }
    t_result("more sums than there is room for", !bad, "%u values are wrong", bad);
    tk_close(&t);
}

/* Loads from a uniform address, by way of a register beside which a lane's value waits. */
static void test_beside(void)
{
    static char text[16384];
    struct sg_fault f;
    uint32_t bad = 0;
    struct tk t;
    size_t n = put(text, 0, "%s%s\n%sadd.u64 %%x, %%b, %%u;\n.reg .b32 %%m<8>, %%j<8>;\n", HEAD,
                   patterns[0].ptx, BEGIN);

    for (unsigned i = 0; i < 8; i++)
        n = put(text, n, "mad.lo.u32 %%m%u, %%t, %u, %%n;\n", i, 3 * i + 1);
    for (unsigned i = 0; i < 8; i++) /* the register that is free now is taken */
        n = put(text, n,
                "xor.b32 %%s, %%s, %%m%u;\nld.global.u32 %%j%u, [%%x+%u];\nadd.u32 %%s, %%s, %%j%u;\n", i, i,
                4 * i, i);
    put(text, n, "%s", END);
    if (!tk_open(&t, text, "t") || launch(&t, &f)) {
        t_result("uniform loads beside values of lanes", false, "does not run");
        return;
    }
    for (uint32_t i = 0; i < BLOCKS * ROWS * 32; i++) {
        uint32_t s = 0;

        for (uint32_t turn = 0; turn < TURNS; turn++)
            for (unsigned k = 0; k < 8; k++)
                s = (s ^ (i % 32 * (3 * k + 1) + turn)) + word(i / 32 % BLOCKS * 1040 + turn * 36 + 4 * k);
        bad += out[i] != s;
    }
    t_result("uniform loads beside values of lanes", !bad, "%u values are wrong", bad);
    tk_close(&t);
}

/* The highest lane ends `beyond` bytes behind the end of memory in the last turn of the last block. */
static void edge(unsigned pattern, unsigned use, int beyond)
{
    const uint32_t reach = (BLOCKS - 1) * 1040 + (TURNS - 1) * 36 + (use == 1 ? 12u : 4u),
                   lane = pattern == 5 ? 0 : 31;
    uint8_t *const all = data, *mem;
    char text[4096], name[96], want[64];
    struct sg_fault f = {0};
    struct tk t;
    int r = -1;

    mem = tm_alloc(reach + offset(pattern, lane, 0) - (uint32_t)beyond);
    snprintf(text, sizeof(text), "%s%s\n%s%s\n%s%s%s", HEAD, patterns[pattern].ptx, BEGIN, forms[0].ptx,
             uses[use].ptx, MIX, END);
    data = mem;
    if (tk_open(&t, text, "t")) {
        r = launch(&t, &f);
        tk_close(&t);
    }
    data = all;
    snprintf(want, sizeof(want), "thread (%u,0,0)", lane);
    snprintf(name, sizeof(name), "%s, %s, %d bytes behind the end", patterns[pattern].name, uses[use].name,
             beyond);
    t_result(name, beyond ? r == 700 && strstr(f.message, want) && strstr(f.message, "block (2,") : !r,
             "%d %s", r, f.message);
}

int main(int argc, char **argv)
{
    t_variant(argc, argv);
    data = tm_alloc(BYTES);
    out = tm_alloc(BLOCKS * ROWS * 32 * 4);
    for (uint32_t i = 0; i < BYTES; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 13);
    test_all(sg_jit_available());
    test_many();
    test_beside();
    test_row();
    for (unsigned p = 0; p < 6; p++)
        for (unsigned use = 0; use < 2; use++)
            for (int beyond = 0; beyond <= 4; beyond += 4)
                if (p != 4)
                    edge(p, use, beyond);
    tm_free_all();
    return t_end("softgpu sums");
}

#else

int main(void)
{
    t_skip("sums", "no native code for this processor");
    return t_end("softgpu sums");
}

#endif
