/* SPDX-License-Identifier: MIT */
/*
 * Loads in blocks that use all vector registers: a value that is written back to make room for the
 * result of a load stays the same on the checked path of the load, which saves registers once more.
 * Shuffles under masks: lanes that do not run are seen with their registers' values.
 */
#include "exec/code.h"
#include "exec/exec_test.h"
#include "jit/jit.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK 32u
#define INPUTS 32u /* words that a lane reads */
#define WORDS 8u   /* that it writes */
#define TEXT 16384u
#define JUNK_MAX 5u
#define MORE_MAX 13u

/* Loads from the lane's place (%pl, %sl) or from one for all lanes (%pf, %sf) into %d0 to %d3. */
static const char *const loads[] = {
    "ld.global.u32 %d0, [%pl];",
    "ld.global.u16 %d0, [%pl];",
    "ld.global.s8 %d0, [%pl+1];",
    "ld.global.u64 %w, [%pl]; mov.b64 {%d0, %d1}, %w;",
    "ld.global.v2.u32 {%d0, %d1}, [%pl];",
    "ld.global.v4.u32 {%d0, %d1, %d2, %d3}, [%pl];",
    "ld.global.u32 %d0, [%pl]; ld.global.u32 %d1, [%pl+4];",
    "ld.global.u32 %d0, [%pf];",
    "ld.global.v4.u32 {%d0, %d1, %d2, %d3}, [%pf];",
    "ld.shared.u32 %d0, [%sl];",
    "ld.shared.u16 %d0, [%sl];",
    "ld.shared.u8 %d0, [%sl];",
    "ld.shared.v2.u32 {%d0, %d1}, [%sl];",
    "ld.shared.v4.u32 {%d0, %d1, %d2, %d3}, [%sl];",
    "ld.shared.u32 %d0, [%sf];",
    "ld.shared.v4.u32 {%d0, %d1, %d2, %d3}, [%sf];",
    "lg2.approx.f32 %d0, %v;",
};
#define NLOADS (sizeof(loads) / sizeof(loads[0]))

static const char begin[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.shared .align 16 .b8 s[1024];\n"
    ".visible .entry t(.param .u64 in, .param .u64 out, .param .u32 lanes)\n{\n"
    ".reg .b32 %x<32>, %d<4>, %t<4>, %v, %u, %acc, %sl, %sf; .reg .b64 %p<4>, %pl, %pf, %w; .reg .pred %q;\n"
    "ld.param.u64 %p0, [in]; ld.param.u64 %p1, [out]; ld.param.u32 %t0, [lanes]; mov.u32 %t1, %tid.x;\n"
    "mul.wide.u32 %p2, %t1, 128; add.u64 %p2, %p0, %p2; mul.wide.u32 %p3, %t1, 32; add.u64 %p1, %p1, %p3;\n"
    "mul.wide.u32 %p3, %t1, 16; add.u64 %pl, %p0, %p3; add.u64 %pf, %p0, 64; mov.u32 %sf, s; mad.lo.u32 %sl, %t1, 16, %sf;\n"
    "mov.u32 %d0, 0; mov.u32 %d1, 0; mov.u32 %d2, 0; mov.u32 %d3, 0; mov.u32 %v, 0; mov.u32 %u, 0; mov.u32 %acc, 0;\n";
static const char end[] =
    "st.global.u32 [%p1], %v; st.global.u32 [%p1+4], %acc; st.global.u32 [%p1+8], %d0; st.global.u32 [%p1+12], %d1;\n"
    "st.global.u32 [%p1+16], %d2; st.global.u32 [%p1+20], %d3; st.global.u32 [%p1+24], %u;\nret;\n}\n";

/*
 * Values in this order of use: `junk` values, %v, which is only in registers, and `more` values that are
 * read from their places.
 */
static void write_text(char *text, const char *load, unsigned junk, unsigned more)
{
    size_t n = (size_t)snprintf(text, TEXT, "%s", begin);
    unsigned x = 4;

    for (unsigned i = 0; i < INPUTS; i++)
        n += (size_t)snprintf(text + n, TEXT - n, "ld.global.u32 %%x%u, [%%p2+%u];\n", i, 4 * i);
    n += (size_t)snprintf(text + n, TEXT - n,
                          "st.shared.v4.u32 [%%sl], {%%x0, %%x1, %%x2, %%x3};\nbar.sync 0;\n"
                          "setp.ge.u32 %%q, %%t1, %%t0;\n@%%q bra END;\nbra BODY;\nBODY:\n");
    for (unsigned i = 0; i < junk; i++)
        n += (size_t)snprintf(text + n, TEXT - n, "add.u32 %%acc, %%acc, %%x%u;\n", x++);
    n += (size_t)snprintf(text + n, TEXT - n, "add.u32 %%v, %%acc, %%x0;\n");
    for (unsigned i = 0; i < more; i++)
        n += (size_t)snprintf(text + n, TEXT - n, "add.u32 %%acc, %%acc, %%x%u;\n", x++);
    n += (size_t)snprintf(text + n, TEXT - n, "%s\nEND:\n", load);
    for (unsigned i = 0; i < INPUTS; i++) /* they all live until here */
        n += (size_t)snprintf(text + n, TEXT - n, "xor.b32 %%u, %%u, %%x%u;\n", i);
    snprintf(text + n, TEXT - n, "%s", end);
}

static uint32_t *in, *got;

/* With native code, then with the handlers; the first launch has nothing in its caches. */
static bool same(const char *load, unsigned junk, unsigned more, uint32_t lanes)
{
    static uint32_t native[BLOCK * WORDS];
    const uint64_t params[] = {(uintptr_t)in, (uintptr_t)got, lanes};
    static char text[TEXT];
    struct sg_fault f;
    struct tk t;
    bool ok;

    write_text(text, load, junk, more);
    memset(got, 0, sizeof(native));
    ok = tk_open(&t, text, "t") && !tk_run(&t, 1, BLOCK, params, &f) && t.k->code.handlers;
    memcpy(native, got, sizeof(native));
    memset(got, 0, sizeof(native));
    for (uint32_t i = 0; ok && i < t.k->code.ninsns; i++)
        t.k->code.insns[i].fn = t.k->code.handlers[i];
    ok = ok && !tk_run(&t, 1, BLOCK, params, &f) && !memcmp(native, got, sizeof(native));
    tk_close(&t);
    return ok;
}

static void pressure(const char *load, uint32_t lanes)
{
    unsigned bad = 0, first = 0;
    char name[128];

    for (unsigned junk = 0; junk <= JUNK_MAX; junk++)
        for (unsigned more = 0; more <= MORE_MAX; more++)
            if (!same(load, junk, more, lanes) && !bad++)
                first = junk << 8 | more;
    snprintf(name, sizeof(name), "%u lanes: %.64s", lanes, load);
    t_result(name, !bad, "%u blocks give other results than the handlers, first with %u and %u values", bad,
             first >> 8, first & 255);
}

/*
 * Inactive lanes keep their values, also for an active lane that reads them. Results of the active lanes
 * are in registers whose other lanes are undefined.
 */
static const char shuffle_text[] =
    ".version 8.0\n.target sm_60\n.address_size 64\n.visible .entry t(.param .u64 in, .param .u64 out, .param .u32 lanes)\n{\n"
    ".reg .b32 %%d<4>, %%t<4>, %%i; .reg .b64 %%p<4>, %%pl; .reg .pred %%q, %%go, %%s;\n"
    "ld.param.u64 %%p0, [in]; ld.param.u64 %%p1, [out]; ld.param.u32 %%t0, [lanes]; mov.u32 %%t1, %%tid.x;\n"
    "mul.wide.u32 %%p3, %%t1, 32; add.u64 %%p1, %%p1, %%p3; mul.wide.u32 %%p3, %%t1, 128; add.u64 %%pl, %%p0, %%p3;\n"
    "add.u32 %%d0, %%t1, 100; add.u32 %%d1, %%t1, 200; mov.u32 %%d2, 0; mov.u32 %%i, 0;\n"
    "shr.u32 %%t2, %%t0, %%t1; and.b32 %%t2, %%t2, 1; setp.eq.u32 %%go, %%t2, 0;\n"
    "LOOP:\n@%%go bra END;\n%s\nshfl.bfly.b32 %%d1|%%s, %%d0, %u, 31;\nadd.u32 %%d2, %%d2, %%d1;\n"
    "END:\nadd.u32 %%i, %%i, 1; setp.lt.u32 %%q, %%i, 4;\n@%%q bra LOOP;\n"
    "st.global.u32 [%%p1], %%d0; st.global.u32 [%%p1+4], %%d1; st.global.u32 [%%p1+8], %%d2;\nret;\n}\n";
static const char *const changes[] = {"add.u32 %d0, %d0, 1000;", "ld.global.u32 %d0, [%pl];",
                                      "ld.global.v2.u32 {%d0, %d3}, [%pl];", ""};

static void shuffle(const char *change, unsigned distance, uint32_t lanes)
{
    static uint32_t native[BLOCK * WORDS];
    const uint64_t params[] = {(uintptr_t)in, (uintptr_t)got, lanes};
    char name[128];
    static char text[TEXT];
    struct sg_fault f;
    unsigned bad = 0;
    struct tk t;
    bool ok;

    snprintf(text, sizeof(text), shuffle_text, change, distance);
    memset(got, 0, sizeof(native));
    ok = tk_open(&t, text, "t") && !tk_run(&t, 1, BLOCK, params, &f) && t.k->code.handlers;
    memcpy(native, got, sizeof(native));
    for (uint32_t i = 0; ok && i < t.k->code.ninsns; i++)
        t.k->code.insns[i].fn = t.k->code.handlers[i];
    ok = ok && !tk_run(&t, 1, BLOCK, params, &f);
    for (uint32_t i = 0; i < BLOCK * WORDS; i++)
        bad += native[i] != got[i];
    snprintf(name, sizeof(name), "lanes %08x, at distance %u: %.40s", lanes, distance, change);
    t_result(name, ok && !bad, "%u words differ from the handlers", bad);
    tk_close(&t);
}

static void shuffles(void)
{
    static const uint32_t lanes[] = {0xffffffffu, 0xaaaaaaaau, 0x0000ffffu,
                                     0x00005555u, 0xff00ff00u, 0x80000001u};

    for (size_t k = 0; k < sizeof(lanes) / sizeof(lanes[0]); k++)
        for (unsigned distance = 1; distance < BLOCK; distance *= 2)
            for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
                shuffle(changes[i], distance, lanes[k]);
}

int main(int argc, char **argv)
{
    static const uint32_t lanes[] = {32, 24, 9};

    t_variant(argc, argv);
    if (!sg_jit_available()) {
        t_skip("register pressure", "no native code on this machine");
        return t_end("softgpu register pressure");
    }
    in = tm_alloc(BLOCK * INPUTS * 4);
    got = tm_alloc(BLOCK * WORDS * 4);
    for (uint32_t i = 0; i < BLOCK * INPUTS; i++)
        in[i] = i * 2654435761u ^ 0x5bd1e995u;
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < NLOADS; i++)
            pressure(loads[i], lanes[k]);
    shuffles();
    tm_free_all();
    return t_end("softgpu register pressure");
}
