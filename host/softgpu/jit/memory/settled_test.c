/* SPDX-License-Identifier: MIT */
/*
 * Settled versions of blocks (jit/late.h): warps whose lanes lie otherwise, memory that is freed or ends, launches at
 * once, no room for their code.
 */
#include "exec/exec_test.h"
#include "jit/jit.h"

#ifdef SG_JIT

#include "jit/late.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES 65536u
#define GRID 4u
#define BLOCK 96u
#define WORDS (GRID * BLOCK)
#define TURNS 8u
#define LAUNCHES 4u
#define ROUNDS 10u
#define CODE_BYTES (256u << 20) /* as in jit/sg_jit_code_memory.c */

/* A word, a pair of words and two halves from lanes in windows (warp 0), in a row (warp 1) and apart (warp 2); or, other, from
   lanes that are apart in warp 0. */
static const char text[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry t(.param .u64 data, .param .u64 out, .param .u32 other)\n{\n"
    ".reg .b64 %b, %u, %x, %l, %a, %z, %e; .reg .b32 %t, %w, %y, %c, %f, %j, %m<5>, %o<9>, %q, %v<4>, %s, %n, %r; .reg .b16 %h<2>;\n"
    ".reg .pred %p;\n"
    "ld.param.u64 %b, [data]; ld.param.u32 %f, [other]; mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x;\n"
    "shr.u32 %y, %t, 5; add.u32 %w, %y, %f; and.b32 %j, %t, 31; shr.u32 %o0, %j, 2; mul.lo.u32 %o1, %o0, 36; and.b32 %o2, %j, 3;\n"
    "mad.lo.u32 %o3, %o2, 8, %o1; shl.b32 %o4, %j, 2; shl.b32 %o5, %j, 8; min.u32 %m0, %w, 1; sub.u32 %m1, 1, %m0;\n"
    "shr.u32 %m2, %w, 1; min.u32 %m3, %m2, 1; sub.u32 %m4, %m0, %m3;\n"
    "mul.lo.u32 %o6, %m1, %o3; mad.lo.u32 %o7, %m4, %o4, %o6; mad.lo.u32 %o8, %m3, %o5, %o7; cvt.u64.u32 %l, %o8;\n"
    "mov.u32 %n, 0; mov.u32 %s, 0;\nLOOP:\nmul.lo.u32 %q, %n, 64; mad.lo.u32 %q, %c, 1024, %q; cvt.u64.u32 %u, %q;\n"
    "add.u64 %x, %b, %u; add.u64 %a, %x, %l; ld.global.u32 %v0, [%a+4];\n"
    "ld.global.u16 %h0, [%a+8]; ld.global.u16 %h1, [%a+10]; mov.b32 %v1, {%h1, %h0};\n"
    "ld.global.u32 %v2, [%a]; ld.global.u32 %v3, [%a+512];\n"
    "mad.lo.u32 %s, %s, 31, %v0; mad.lo.u32 %s, %s, 31, %v1; mad.lo.u32 %s, %s, 31, %v2; mad.lo.u32 %s, %s, 31, %v3;\n"
    "add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 8;\n@%p bra LOOP;\n"
    "ld.param.u64 %z, [out]; mad.lo.u32 %r, %c, 96, %t; mul.wide.u32 %e, %r, 4; add.u64 %z, %z, %e; st.global.u32 [%z], %s;\nret;\n}\n";

static uint8_t *data;
static uint32_t *out[LAUNCHES];

static uint32_t word(uint32_t at)
{
    uint32_t v;

    memcpy(&v, data + at, 4);
    return v;
}

static uint32_t offset(uint32_t warp, uint32_t lane)
{
    return warp == 0 ? lane / 4 * 36 + lane % 4 * 8 : warp == 1 ? lane * 4 : lane * 256;
}

static uint32_t expected(uint32_t block, uint32_t thread, uint32_t other)
{
    uint32_t s = 0;

    for (uint32_t n = 0; n < TURNS; n++) {
        const uint32_t a = block * 1024 + n * 64 + offset(thread / 32 + other, thread % 32);

        s = s * 31 + word(a + 4);
        s = s * 31 + (word(a + 8) << 16 | word(a + 8) >> 16);
        s = s * 31 + word(a);
        s = s * 31 + word(a + 512);
    }
    return s;
}

static bool same(struct tk *t, unsigned launch, uint32_t other)
{
    const uint64_t params[] = {(uintptr_t)data, (uintptr_t)out[launch], other};
    struct sg_fault f;

    memset(out[launch], 0x55, WORDS * 4);
    if (tk_run(t, GRID, BLOCK, params, &f))
        return false;
    for (uint32_t i = 0; i < WORDS; i++)
        if (out[launch][i] != expected(i / BLOCK, i % BLOCK, other))
            return false;
    return true;
}

static unsigned settled(const struct tk *t)
{
    const struct sg_code *const code = t->k->rows ? t->k->rows : &t->k->code;

    return code->late ? sg_jit_late_settled(code->late) : 0;
}

static void other_lanes(void)
{
    struct tk t;
    bool ok = tk_open(&t, text, "t") && same(&t, 0, 0);
    const unsigned n = ok ? settled(&t) : 0;

    t_result("three warps whose lanes lie differently", ok && n == sg_jit_available(), "%u settled blocks",
             n);
    ok = ok && same(&t, 0, 2);
    t_result("no warp's lanes lie as before", ok, "other results");
    ok = ok && same(&t, 0, 0) && settled(&t) == n;
    t_result("as before again", ok, "other results, or another version");
    tk_close(&t);
}

/* Runs the settled version on memory of `bytes`, after it was compiled on more. Returns the error. */
static int run_on(uint32_t bytes, bool freed, struct sg_fault *f)
{
    uint8_t *const mem = tm_alloc(bytes);
    const uint64_t params[] = {(uintptr_t)mem, (uintptr_t)out[0], 0};
    struct tk t;
    int r = -1;

    if (tk_open(&t, text, "t") && same(&t, 0, 0)) {
        memset(mem, 0, bytes);
        if (freed) {
            r = tk_run(&t, GRID, BLOCK, params, f);
            tm_free_last();
        }
        if (!freed || !r)
            r = tk_run(&t, GRID, BLOCK, params, f);
    }
    tk_close(&t);
    return r;
}

static void faults(void)
{
    /* the last word of warp 2's last lane in the last turn of the last block */
    const uint32_t reach = (GRID - 1) * 1024 + (TURNS - 1) * 64 + 31 * 256 + 512 + 4;
    struct sg_fault f = {0};
    int r = run_on(reach, false, &f);

    t_result("memory that ends with the last word", !r, "%d %s", r, f.message);
    r = run_on(reach - 4, false, &f);
    t_result("memory that ends before it",
             r == 700 && strstr(f.message, "thread (95,0,0)") && strstr(f.message, "block (3,"), "%d %s", r,
             f.message);
    f = (struct sg_fault){0};
    r = run_on(BYTES, true, &f);
    t_result("memory that was freed", r == 700 && strstr(f.message, "thread (0,0,0)"), "%d %s", r, f.message);
}

struct launch {
    struct tk *t;
    unsigned number;
    bool ok;
};

static void *launch_thread(void *arg)
{
    struct launch *l = arg;

    l->ok = same(l->t, l->number, l->number & 1);
    return NULL;
}

static void threads(void)
{
    unsigned good = 0;

    for (unsigned k = 0; k < ROUNDS; k++) {
        struct launch l[LAUNCHES];
        pthread_t thread[LAUNCHES];
        struct tk t;

        if (!tk_open(&t, text, "t"))
            abort();
        for (unsigned i = 0; i < LAUNCHES; i++) {
            l[i] = (struct launch){&t, i, false};
            if (pthread_create(&thread[i], NULL, launch_thread, &l[i]))
                abort();
        }
        for (unsigned i = 0; i < LAUNCHES; i++) {
            pthread_join(thread[i], NULL);
            good += l[i].ok;
        }
        tk_close(&t);
    }
    t_result("launches at once", good == ROUNDS * LAUNCHES, "%u of %u as expected", good, ROUNDS * LAUNCHES);
}

/* All memory for code is in use before the block is settled. */
static void no_room(void)
{
    static struct {
        void *at;
        size_t bytes;
    } pieces[4096];
    const uint64_t params[] = {(uintptr_t)data, (uintptr_t)out[0], 0};
    struct sg_fault f;
    unsigned n = 0;
    struct tk t;
    bool ok = tk_open(&t, text, "t") && !tk_run(&t, 1, 1, params, &f); /* compiles what all lanes run */

    for (size_t bytes = CODE_BYTES; bytes && sg_jit_available(); bytes /= 2) {
        void *p;

        while (n < sizeof(pieces) / sizeof(*pieces) && (p = sg_jit_mem_claim(bytes))) {
            pieces[n].at = p;
            pieces[n++].bytes = bytes;
        }
    }
    ok = ok && same(&t, 0, 0) && same(&t, 0, 2);
    t_result("no room for further code", ok && !settled(&t), "other results, or %u settled blocks",
             settled(&t));
    while (n--)
        sg_jit_mem_free(pieces[n].at, pieces[n].bytes);
    tk_close(&t);
}

#define SUMS 1000u     /* that lead to no address: each is followed to the end of its block */
#define FILLERS 70000u /* instructions of that block, which never runs */

/* The text with a block behind it that uses up the steps that compilations of the kernel may take (JIT_WALK_MAX). NULL:
   no memory. */
static char *text_with_long_block(void)
{
    const size_t size = sizeof(text) + 100 * SUMS + 20 * FILLERS + 256;
    char *const all = malloc(size), *p = all;

    if (!all)
        return NULL;
    p += sprintf(p, "%.*s", (int)(strstr(text, "ret;") - text), text);
    p += sprintf(
        p, ".reg .b64 %%k<%u>; .reg .pred %%g; setp.eq.u32 %%g, %%f, 12345;\n@%%g bra LONG;\nret;\nLONG:\n",
        SUMS);
    for (unsigned i = 0; i < SUMS; i++)
        p += sprintf(p, "add.u64 %%k%u, %%l, %%u;\n", i);
    for (unsigned i = 0; i < FILLERS; i++)
        p += sprintf(p, "xor.b32 %%s, %%s, %%t;\n");
    for (unsigned i = 0; i < SUMS; i++)
        p += sprintf(p, "xor.b64 %%z, %%z, %%k%u;\n", i);
    sprintf(p, "st.global.u32 [%%z], %%s;\nret;\n}\n");
    return all;
}

/* A settled version that finds fewer sums than the first compilation is not used. */
static void no_steps(void)
{
    char *const all = text_with_long_block();
    struct tk t;
    bool ok = all && tk_open(&t, all, "t");

    t_result("a kernel with a long block", ok, "not compiled");
    if (ok) {
        ok = same(&t, 0, 0) && same(&t, 0, 2);
        t_result("no steps left for a settled version", ok && !settled(&t),
                 "other results, or %u settled blocks", settled(&t));
        tk_close(&t);
    }
    free(all);
}

int main(int argc, char **argv)
{
    t_variant(argc, argv);
    data = tm_alloc(BYTES);
    for (unsigned i = 0; i < LAUNCHES; i++)
        out[i] = tm_alloc(WORDS * 4);
    for (uint32_t i = 0; i < BYTES; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 13);
    other_lanes();
    faults();
    threads();
    no_steps();
    no_room();
    tm_free_all();
    return t_end("softgpu settled code");
}

#else

int main(void)
{
    t_skip("settled", "no native code for this processor");
    return t_end("softgpu settled code");
}

#endif
