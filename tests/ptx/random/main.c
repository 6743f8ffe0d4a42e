/* SPDX-License-Identifier: MIT */
/*
 * ptxgen [--edges] [--programs N] [--seed S] [--show]: random programs on the software GPU and in an
 * independent evaluator; every register, memory word and accumulator is compared bit by bit (NaN other than
 * of f32 as one pattern). A differing program is reduced as far as possible and printed with its seed; --seed
 * S runs only that program, --show prints it. --edges: programs with accesses at the ends of memory (edge.c).
 *
 * VGPU_SOFT_ISA selects the instruction set (base, avx2, avx512, avx512fp16), VGPU_SOFT_JIT=0 disables native
 * code. Last line: "ptxgen-ISA[-native]: N passed, M failed, 0 skipped".
 */
#include "device.h"
#include "edge.h"
#include "gen.h"
#include "exec/core.h"
#include "jit/jit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS (2 * THREADS_MAX)
#define BUDGET 20000000u

static char text[TEXT_MAX];
static u64 in[THREADS * NCLASS * REGS], want[THREADS * WORDS_OUT];
static u32 want_acc[ACCS * 3];
static char why[1024];

static const char *const names[] = {"h", "w", "d", "p", "f", "fd", "e", "ee", "g"};

/* NaN of a class as the kernel writes it: of f32 as it is. */
static u64 canonical(char cls, u64 v)
{
    switch (cls) {
    case 'F':
        return isnan(f64(v)) ? 0x7fffffffffffffff : v;
    case 'e':
        return isnan(from16(v)) ? 0x7fff : v;
    case 'g':
        return isnan(fromb16(v)) ? 0x7fff : v;
    case 'E':
        return canonical('e', v & 0xffff) | canonical('e', v >> 16) << 16;
    default:
        return v;
    }
}

static bool compare(const struct program *p, const u64 *got, const u32 *acc)
{
    for (unsigned i = 0; i < p->block * p->blocks; i++)
        for (int k = 0; k < WORDS_OUT; k++) {
            const bool is_reg = k < NCLASS * REGS;
            const char cls = is_reg ? CLASSES[k / REGS] : 'd';
            const u64 g = got[i * WORDS_OUT + (unsigned)k] & mask_of(cls);
            const u64 w = is_reg ? canonical(cls, want[i * WORDS_OUT + (unsigned)k])
                                 : want[i * WORDS_OUT + (unsigned)k];

            if (g == w)
                continue;
            snprintf(why, sizeof(why), "thread %u of block %u: %s%d is %llx, expected %llx", i % p->block,
                     i / p->block, is_reg ? names[k / REGS] : "memory word ",
                     is_reg ? k % REGS : k - NCLASS * REGS, (unsigned long long)g, (unsigned long long)w);
            return false;
        }
    for (unsigned k = 0; k < ACCS * (p->blocks + 1); k++)
        if (acc[k] != want_acc[k]) {
            snprintf(why, sizeof(why), "accumulator %u is %x, expected %x", k, acc[k], want_acc[k]);
            return false;
        }
    return true;
}

static bool launch(const struct program *p, struct sg_module *m)
{
    const unsigned n = p->block * p->blocks;
    u64 *d_in = fz_alloc(n * NCLASS * REGS * 8), *d_out = fz_alloc(n * WORDS_OUT * 8),
        *d_slots = fz_alloc(n * SLOT);
    u32 *d_acc = fz_alloc(sizeof(want_acc)), *d_table = fz_alloc(TABLE * 4);
    const u64 params[] = {(uintptr_t)d_in, (uintptr_t)d_out, (uintptr_t)d_slots, (uintptr_t)d_acc,
                          (uintptr_t)d_table};
    struct sg_launch l = {.kernel = sg_module_kernel(m, 0),
                          .grid = {p->blocks, 1, 1},
                          .block = {p->shape[0], p->shape[1], p->shape[2]},
                          .params = params,
                          .max_instructions = BUDGET};
    struct sg_fault f = {.message = ""};

    for (u32 i = 0; i < TABLE; i++)
        d_table[i] = table_word(i);
    memcpy(d_in, in, n * NCLASS * REGS * 8);
    for (int k = 0; k < ACCS; k++)
        d_acc[k] = red_start(k);
    if (sg_exec_launch(&l, &f)) {
        snprintf(why, sizeof(why), "%s", f.message);
        return false;
    }
    return compare(p, d_out, d_acc);
}

static bool run(const struct program *p)
{
    struct sg_diag d;
    struct sg_module *m;
    bool ok = false;
    const size_t n = write_text(p, text);

    rnd_seed(p->seed ^ 0xdada);
    for (unsigned i = 0; i < THREADS * NCLASS * REGS; i++)
        in[i] = random_value(CLASSES[i / REGS % NCLASS]) & mask_of(CLASSES[i / REGS % NCLASS]);
    for (int k = 0; k < ACCS; k++)
        want_acc[k] = red_start(k);
    evaluate(p, in, want, want_acc);
    if (!n || sg_module_parse(text, n, &m, &d)) {
        snprintf(why, sizeof(why), "not parsed: line %u: %s", d.line, d.message);
        return false;
    }
    if (sg_kernel_prepare(sg_module_kernel(m, 0), &d))
        snprintf(why, sizeof(why), "not decoded: line %u: %s", d.line, d.message);
    else
        ok = launch(p, m);
    sg_module_free(m);
    fz_free_all();
    return ok;
}

/* Leaves out statements, from the last to the first, as long as the program still fails. */
static void reduce(struct program *p)
{
    bool again = true;

    while (again) {
        again = false;
        for (int i = p->n - 1; i >= 0; i--) {
            if (p->s[i].off)
                continue;
            p->s[i].off = true;
            if (run(p))
                p->s[i].off = false;
            else
                again = true;
        }
    }
    run(p);
}

static void print_body(void)
{
    const char *start = strstr(text, "START:"), *line = start;

    /* the code that loads and writes out registers is the same each time */
    while (line && *line) {
        const char *end = strchr(line, '\n');

        if (!strncmp(line, ".reg .b16 %nh", 13))
            break;
        if (strncmp(line, "ld.global", 9) || !strstr(line, "[%in") || strstr(line, "[%in") > end)
            if (strncmp(line, "setp.ne.u32 %p", 14) || !strstr(line, "%t, 0;") ||
                strstr(line, "%t, 0;") > end)
                printf("    %.*s\n", (int)(end - line), line);
        line = end ? end + 1 : NULL;
    }
}

static bool run_program(u64 seed, bool small)
{
    static struct program p;

    build(&p, seed);
    if (run(&p))
        return true;
    printf("FAIL: ptxgen --seed %llu: %s\n", (unsigned long long)seed, why);
    if (small) {
        reduce(&p);
        printf("  made small (block of %u,%u,%u): %s\n", p.shape[0], p.shape[1], p.shape[2], why);
        print_body();
    }
    return false;
}

static bool run_edge(u64 seed, bool print)
{
    if (edge_run(seed, why, sizeof(why)))
        return true;
    printf("FAIL: ptxgen --edges --seed %llu: %s\n", (unsigned long long)seed, why);
    if (print)
        printf("%s", edge_text());
    return false;
}

int main(int argc, char **argv)
{
    u64 seed = 1, programs = 300;
    int passed = 0, failed = 0;
    bool single = false, show = false, edges = false;
    const char *isa;

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--programs") && i + 1 < argc) {
            programs = strtoull(argv[++i], NULL, 0);
        } else if (!strcmp(argv[i], "--seed") && i + 1 < argc) {
            seed = strtoull(argv[++i], NULL, 0);
            single = true;
        } else if (!strcmp(argv[i], "--show")) {
            show = true;
        } else if (!strcmp(argv[i], "--edges")) {
            edges = true;
        } else {
            fprintf(stderr, "usage: ptxgen [--edges] [--programs N] [--seed S] [--show]\n");
            return 2;
        }
    }
    if (single)
        programs = 1;
    isa = getenv("VGPU_SOFT_ISA");
    if (!isa || strcmp(isa, "avx512fp16") || strcmp(sg_op_isa(), "avx512"))
        isa = sg_op_isa();
    sg_exec_set_threads(1);
    for (u64 i = 0; i < programs; i++) {
        if (edges ? run_edge(seed + i, failed < 2) : run_program(seed + i, failed < 5))
            passed++;
        else
            failed++;
        if (show)
            fputs(edges ? edge_text() : text, stdout);
    }
    printf("ptxgen-%s%s%s: %d passed, %d failed, 0 skipped\n", edges ? "edges-" : "", isa,
           sg_jit_available() ? "-native" : "", passed, failed);
    return failed ? 1 : 0;
}
