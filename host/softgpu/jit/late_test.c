/* SPDX-License-Identifier: MIT */
/*
 * Versions of blocks for some of the lanes are compiled when they first run, in whichever thread comes there first;
 * without room for them the handlers run, with the same results.
 */
#include "exec/code.h"
#include "exec/exec_test.h"
#include "jit/late.h"

#ifdef SG_JIT

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define GRID 64u
#define BLOCK 64u
#define WORDS (GRID * BLOCK)
#define LAUNCHES 4
#define ROUNDS 25
#define CODE_BYTES (256u << 20) /* as in jit/sg_jit_code_memory.c */

/* Loops whose number of rounds differs between lanes by `parts`, with a long branch. */
static const char text[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry t(.param .u64 out, .param .u32 parts)\n{\n"
    ".reg .b32 %x, %n, %i, %t<8>; .reg .b64 %o, %p; .reg .pred %q;\n"
    "ld.param.u64 %o, [out]; ld.param.u32 %t0, [parts]; mov.u32 %t1, %tid.x; mov.u32 %t2, %ctaid.x;\n"
    "mad.lo.u32 %t3, %t2, 64, %t1; mul.wide.u32 %p, %t3, 4; add.u64 %p, %p, %o; and.b32 %n, %t1, %t0; mov.u32 %i, 0;\n"
    "mad.lo.u32 %x, %t2, 2654435761, 12345;\n"
    "LOOP:\nmul.lo.u32 %x, %x, 1664525; add.u32 %x, %x, %i;\nand.b32 %t4, %n, 2; setp.ne.u32 %q, %t4, 0;\n@%q bra ODD;\n"
    "xor.b32 %x, %x, 0x5bd1e995;\nbra.uni BOTH;\nODD:\nshr.u32 %t5, %x, 7; add.u32 %x, %x, %t5;\nBOTH:\n"
    "add.u32 %i, %i, 1; setp.le.u32 %q, %i, %n;\n@%q bra LOOP;\n"
    "and.b32 %t6, %n, 16; setp.eq.u32 %q, %t6, 0;\n@%q bra END;\nld.global.u32 %t7, [%p]; add.u32 %x, %x, %t7;\n"
    "END:\nst.global.u32 [%p], %x;\nret;\n}\n";

static uint32_t *out[LAUNCHES], expected[WORDS];

/* The code that launches run. */
static struct sg_code *code_of(struct tk *t)
{
    sg_kernel_code(t->k, (const uint32_t[3]){BLOCK, 1, 1});
    return t->k->rows ? t->k->rows : &t->k->code;
}

/* A launch has the handlers' results. */
static bool same(struct tk *t, unsigned launch, uint32_t parts)
{
    const uint64_t params[] = {(uintptr_t)out[launch], parts};
    struct sg_fault f;

    memset(out[launch], 0, sizeof(expected));
    return !tk_run(t, GRID, BLOCK, params, &f) && !memcmp(out[launch], expected, sizeof(expected));
}

static void by_handlers(uint32_t parts)
{
    const uint64_t params[] = {(uintptr_t)out[0], parts};
    struct sg_code *c;
    struct sg_fault f;
    struct tk t;

    memset(out[0], 0, sizeof(expected));
    if (!tk_open(&t, text, "t"))
        abort();
    c = code_of(&t);
    for (uint32_t i = 0; i < c->ninsns; i++)
        c->insns[i].fn = sg_code_handler(c, &c->insns[i]);
    if (tk_run(&t, GRID, BLOCK, params, &f))
        abort();
    memcpy(expected, out[0], sizeof(expected));
    tk_close(&t);
}

static void only_what_runs(void)
{
    uint32_t none, some;
    struct tk t;
    bool ok;

    by_handlers(0);
    ok = tk_open(&t, text, "t") && same(&t, 0, 0) && code_of(&t)->late;
    none = ok ? sg_jit_late_count(code_of(&t)->late) : 0;
    t_result("all lanes run: nothing is compiled for some", ok && !none, "%u versions", none);
    by_handlers(31);
    ok = ok && same(&t, 0, 31);
    some = ok ? sg_jit_late_count(code_of(&t)->late) : 0;
    t_result("lanes part: versions for some are compiled", ok && some, "%u versions, or other results", some);
    ok = ok && same(&t, 0, 31);
    t_result("a second launch compiles none", ok && sg_jit_late_count(code_of(&t)->late) == some, "it does");
    tk_close(&t);
}

struct launch {
    struct tk *t;
    unsigned number;
    bool ok;
};

static void *launch_thread(void *arg)
{
    struct launch *l = arg;

    l->ok = same(l->t, l->number, 31);
    return NULL;
}

static void threads(void)
{
    unsigned good = 0;

    by_handlers(31);
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

/* All memory for code is in use when the lanes first part. */
static void no_room(void)
{
    struct piece {
        struct piece *next;
        void *at;
        size_t bytes;
    } *pieces = NULL;
    struct tk t;
    bool ok, before;
    void *p;

    by_handlers(0);
    before = tk_open(&t, text, "t") && same(&t, 0, 0) && code_of(&t)->late;
    for (size_t n = CODE_BYTES; n; n /= 2) {
        while ((p = sg_jit_mem_claim(n))) {
            struct piece *x = malloc(sizeof(*x));

            if (!x)
                abort();
            *x = (struct piece){pieces, p, n};
            pieces = x;
        }
    }
    by_handlers(31);
    ok = before && same(&t, 0, 31) && same(&t, 0, 31) && !sg_jit_late_count(code_of(&t)->late);
    t_result("no room for further code", ok, "other results");
    while (pieces) {
        struct piece *x = pieces;

        pieces = x->next;
        sg_jit_mem_free(x->at, x->bytes);
        free(x);
    }
    tk_close(&t);
    p = sg_jit_mem_claim(CODE_BYTES);
    t_result("all memory for code is free again", p != NULL, "some is still in use");
    sg_jit_mem_free(p, CODE_BYTES);
}

int main(int argc, char **argv)
{
    t_variant(argc, argv);
    if (!sg_jit_available()) {
        t_skip("versions compiled when they run", "no native code on this machine");
        return t_end("softgpu late code");
    }
    for (unsigned k = 0; k < LAUNCHES; k++)
        out[k] = tm_alloc(sizeof(expected));
    only_what_runs();
    threads();
    no_room();
    tm_free_all();
    return t_end("softgpu late code");
}

#else

int main(void)
{
    t_skip("versions compiled when they run", "no native code on this machine");
    return t_end("softgpu late code");
}

#endif
