/* SPDX-License-Identifier: MIT */
/*
 * Pairs of f32 that are loaded and become pairs of halves, natively and by handlers: in a row, in windows, apart, where a lane's
 * address is bad; alone, in a group, and where the values are read again.
 */
#define _GNU_SOURCE
#include "exec/exec_test.h"
#include "exec/code.h"
#include "jit/jit.h"

#include <string.h>

#define WORDS 2048u

/* %p0: the lane's address, %p1: 16 bytes for its results */
static const char text[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry t(.param .u64 in, .param .u64 off, .param .u64 out)\n{\n"
    ".reg .b32 %%d<4>, %%r0; .reg .f32 %%f<4>; .reg .b64 %%p<4>; .reg .b16 %%h<4>;\n"
    "ld.param.u64 %%p0, [in]; ld.param.u64 %%p1, [out]; ld.param.u64 %%p2, [off]; mov.u32 %%r0, %%tid.x;\n"
    "mul.wide.u32 %%p3, %%r0, 4; add.u64 %%p2, %%p2, %%p3; ld.global.u32 %%d0, [%%p2]; cvt.u64.u32 %%p3, %%d0; add.u64 %%p0, %%p0, %%p3;\n"
    "mul.wide.u32 %%p3, %%r0, 16; add.u64 %%p1, %%p1, %%p3; mov.u32 %%d1, 0; mov.u32 %%d2, 0; mov.u32 %%d3, 0;\n"
    "%s\nst.global.v4.u32 [%%p1], {%%d0, %%d1, %%d2, %%d3};\nret;\n}\n";

#define LOAD(at) "ld.global.v2.f32 {%f0, %f1}, [%p0+" at "];\n"
#define CONVERT(d) "cvt.rn.f16.f32 %h1, %f1; cvt.rn.f16.f32 %h0, %f0; mov.b32 " d ", {%h0, %h1};\n"

static const char *const bodies[] = {
    LOAD("0")
        CONVERT("%d0") "ld.global.u32 %d1, [%p0+256]; ld.global.u32 %d2, [%p0+4];\n", /* in a row, and not */
    LOAD("0") CONVERT("%d0"),
    LOAD("0") "cvt.rn.f16.f32 %h0, %f0; cvt.rn.f16.f32 %h1, %f1; mov.b32 %d0, {%h0, %h1};\n",
    LOAD("0") CONVERT("%d0") LOAD("256") CONVERT("%d1") LOAD("512") CONVERT("%d2") LOAD("8") CONVERT("%d3"),
    "ld.global.u32 %d3, [%p0+4];\n" LOAD("0") CONVERT("%d0") "ld.global.u32 %d2, [%p0+128];\n" LOAD("512")
        CONVERT("%d1"),
    LOAD("0") CONVERT("%d0") "mov.b32 %d1, %f0; mov.b32 %d2, %f1;\n",         /* read again: values, */
    LOAD("0") CONVERT("%d0") "cvt.u32.u16 %d1, %h0; cvt.u32.u16 %d2, %h1;\n", /* halves */
    LOAD(
        "0") "cvt.rn.f16.f32 %h1, %f1; cvt.rn.f16.f32 %h0, %f0; mov.b32 %d0, {%h1, %h0};\n", /* the other way round */
    LOAD("0") "cvt.rn.f16.f32 %h0, %f0; mov.b32 %d0, {%h0, %h0}; mov.b32 %d1, %f1;\n",
    LOAD("0") "cvt.rz.f16.f32 %h1, %f1; cvt.rn.f16.f32 %h0, %f0; mov.b32 %d0, {%h0, %h1};\n",
};

static uint32_t *in, *off, *out;

/* Sets off to pattern p. */
static void place(unsigned p)
{
    for (uint32_t i = 0; i < 32; i++)
        off[i] = p == 0   ? 8 * i
                 : p == 1 ? 8 * (31 - i)
                 : p == 2 ? 16 * i
                 : p == 3 ? 64
                 : p == 4 ? 8 * (i * 37 % 128)
                 : p == 5 ? 8 * i + 1024 * (i == 31)
                 : p == 6 ? 8 * i + 4 * (i == 9)    /* not aligned */
                 : p == 7 ? 4 * WORDS - 256 + 8 * i /* at the end, with loads at 256 beyond it */
                          : 8 * i + 4 * WORDS * (i == 30) /* beyond the end */;
}
#define PATTERNS 9u

struct result {
    int rc;
    char message[sizeof(((struct sg_fault *)NULL)->message)];
    uint32_t words[32 * 4];
};

static struct result run(struct tk *t)
{
    const uint64_t params[] = {(uintptr_t)in, (uintptr_t)off, (uintptr_t)out};
    struct result r = {0};
    struct sg_fault f = {0};

    memset(out, 0x55, sizeof(r.words));
    r.rc = tk_run(t, 1, 32, params, &f);
    memcpy(r.message, f.message, sizeof(r.message));
    memcpy(r.words, out, sizeof(r.words));
    return r;
}

static void body(unsigned k)
{
    struct result native[2 * PATTERNS];
    char full[4096], name[32];
    bool ok = true;
    struct tk t;

    snprintf(full, sizeof(full), text, bodies[k]);
    if (!tk_open(&t, full, "t"))
        return t_result("open", false, "%u", k);
    for (unsigned p = 0; p < 2 * PATTERNS; p++) { /* each twice: windows are known the second time */
        place(p / 2);
        native[p] = run(&t);
    }
    ok = t.k->code.handlers != NULL;
    for (uint32_t i = 0; ok && i < t.k->code.ninsns; i++)
        t.k->code.insns[i].fn = t.k->code.handlers[i];
    for (unsigned p = 0; p < 2 * PATTERNS; p++) {
        struct result want;

        place(p / 2);
        want = run(&t);
        snprintf(name, sizeof(name), "body %u, lanes %u, run %u", k, p / 2, p % 2);
        t_result(name, ok && !memcmp(&want, &native[p], sizeof(want)), "native %d %s, handlers %d %s",
                 native[p].rc, native[p].message, want.rc, want.message);
    }
    tk_close(&t);
}

int main(int argc, char **argv)
{
    static const uint32_t special[] = {0x7fc00000, 0x7f800001, 0xffffffff, 0x7f800000, 0xff800000,
                                       0x80000000, 1,          0x33000000, 0x33000001, 0x387fffff,
                                       0x477fefff, 0x477ff000, 0xc7800000};

    t_variant(argc, argv);
    if (!sg_jit_available()) {
        t_skip("halves", "no native code on this machine");
        return t_end("softgpu loads of halves");
    }
    in = tm_alloc(4 * WORDS);
    off = tm_alloc(4 * 32);
    out = tm_alloc(16 * 32);
    for (uint32_t i = 0; i < WORDS; i++) /* in every second stretch of 128 words no NaN */
        in[i] = i & 128 || i % 7 ? (0x3f800000u ^ i * 2654435761u) & 0xc7ffffffu : special[i / 7 % 13];
    for (unsigned k = 0; k < sizeof(bodies) / sizeof(bodies[0]); k++)
        body(k);
    tm_free_all();
    return t_end("softgpu loads of halves");
}
