/* SPDX-License-Identifier: MIT */
/* Bulk copies, barriers that count bytes, clusters of one block; their faults. */
#include "exec/code.h"
#include "exec/exec_test.h"
#include "exec/heap.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_MAX (4 << 20)

static char *text;

static bool open(struct tk *t, const char *name)
{
    if (tk_open(t, text, name))
        return true;
    t_result(name, false, "%s", t->diag.message);
    sg_module_free(t->m);
    return false;
}

static void bulk(void)
{
    struct {
        int *in, *out;
    } p = {tm_alloc(16384), tm_alloc(16384)};
    struct sg_fault f = {0};
    struct tk t;
    bool ok = true;

    for (int i = 0; i < 4096; i++)
        p.in[i] = i;
    if (!open(&t, "bulk"))
        return;
    int r = tk_run(&t, 4, 128, &p, &f);

    for (int i = 0; i < 4096; i++)
        ok &= p.out[i] == i + 3;
    t_result("bulk copies in and out", ok && !r, "%d %s", r, f.message);
    r = tk_run(&t, 5, 128, &p, &f);
    t_result("bulk copy beyond the allocation", r == 700 && strstr(f.message, "4096 bytes"), "%d %s", r,
             f.message);
    tk_close(&t);
    if (!open(&t, "copies"))
        return;
    r = tk_run(&t, 1, 256, &p, &f);
    for (int i = 0; i < 256; i++)
        ok &= p.out[i] == 255 - i;
    t_result("cuda::memcpy_async", ok && !r, "%d %s", r, f.message);
    tk_close(&t);
}

static void cluster(void)
{
    int *out = tm_alloc(3 * 256);
    struct sg_fault f = {0};
    struct tk t;
    bool ok = true;

    if (!open(&t, "cluster"))
        return;
    int r = tk_run(&t, 3, 64, &out, &f);

    for (int i = 0; i < 3 * 64; i++)
        ok &= out[i] == 63 - i % 64 + 1000 + (i % 64 != 5);
    t_result("clusters of one block", ok && !r, "%d %s", r, f.message);
    tk_close(&t);
}

static void vectors(void)
{
    static const float want[6] = {320, 640, 960, 1280, 160, 80};
    float *out = tm_alloc(32);
    struct sg_fault f = {0};
    struct tk t;

    if (!open(&t, "vectors"))
        return;
    memset(out, 0, 32);
    int r = tk_run(&t, 10, 32, &out, &f);

    t_result("atomics on vectors", !r && !memcmp(out, want, sizeof(want)) && out[6] == 0, "%d %s", r,
             f.message);
    tk_close(&t);
}

/* ---- by hand ---- */

#define KERNEL(body) BEGIN body END
#define END "\nret;\n}\n"
#define BEGIN \
    ".version 8.4\n.target sm_90\n.address_size 64\n.visible .entry t(.param .u64 p)\n{\n" \
    ".reg .pred %p<4>;\n.reg .b32 %r<20>;\n.reg .b64 %rd<10>;\n" \
    ".shared .align 16 .b8 s[1024];\n.shared .align 8 .b64 bar;\n" \
    "ld.param.u64 %rd1, [p];\nmov.u32 %r1, s;\nmov.u32 %r2, bar;\nmov.u32 %r3, %tid.x;\n"

static int go(const char *code, uint32_t block, void *mem, struct sg_fault *f)
{
    struct tk t;
    int r;

    memset(f, 0, sizeof(*f));
    if (!tk_open(&t, code, "t")) {
        snprintf(f->message, sizeof(f->message), "%s", t.diag.message);
        sg_module_free(t.m);
        return -1;
    }
    r = tk_run(&t, 1, block, &mem, f);
    tk_close(&t);
    return r;
}

static void by_hand(void)
{
    uint32_t *mem = tm_alloc(4096);
    struct sg_fault f;
    int r;

    memset(mem, 0, 4096);
    r = go(KERNEL("mbarrier.init.shared::cta.b64 [%r2], 1;\n"
                  "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r2], 48;\n" /* may come first */
                  "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 64;\n"
                  "mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r2], 0;\n"
                  "selp.u32 %r4, 1, 0, %p1;\nst.global.u32 [%rd1], %r4;\n"
                  "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r2], 16;\n"
                  "mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r2], 0;\n"
                  "selp.u32 %r4, 1, 0, %p1;\nst.global.u32 [%rd1+4], %r4;\n"
                  /* the next phase: only arrivals */
                  "mbarrier.arrive.shared::cta.b64 %rd3, [%r2];\n"
                  "mbarrier.test_wait.shared::cta.b64 %p1, [%r2], %rd3;\n"
                  "selp.u32 %r4, 1, 0, %p1;\nst.global.u32 [%rd1+8], %r4;\n"
                  "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r2], 8;\n"
                  "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%r1+16], {7, 9}, [%r2];\n"
                  "ld.shared.u32 %r5, [%r1+20];\nst.global.u32 [%rd1+12], %r5;"),
           1, mem, &f);
    t_result("a barrier counts bytes", !r && !mem[0] && mem[1] == 1 && mem[2] == 1 && mem[3] == 9,
             "%d %s: %u %u %u %u", r, f.message, mem[0], mem[1], mem[2], mem[3]);
    for (int i = 0; i < 16; i++)
        mem[i] = (unsigned)i;
    r = go(KERNEL("st.shared.v4.u32 [%r1], {1, 2, 3, 4};\n"
                  "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r1], 16;\n"
                  "cp.reduce.async.bulk.global.shared::cta.bulk_group.max.s32 [%rd1+16], [%r1], 16;\n"
                  "cp.reduce.async.bulk.global.shared::cta.bulk_group.xor.b32 [%rd1+32], [%r1], 16;\n"
                  "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;"),
           2, mem, &f);
    t_result("bulk reductions", !r && mem[0] == 2 && mem[3] == 11 && mem[4] == 4 && mem[8] == 8,
             "%d %s: %u %u %u %u", r, f.message, mem[0], mem[3], mem[4], mem[8]);
    r = go(KERNEL("mov.u32 %r4, 20;\ncp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], %r4;"), 1,
           mem, &f);
    t_result("a size that is no multiple of 16", r == 716, "%d %s", r, f.message);
    r = go(KERNEL("cp.async.bulk.global.shared::cta.bulk_group [%rd1+8], [%r1], 16;"), 1, mem, &f);
    t_result("a misaligned bulk copy", r == 716, "%d %s", r, f.message);
    r = go(KERNEL("cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 2048;"), 1, mem, &f);
    t_result("a bulk copy beyond shared memory", r == 700 && strstr(f.message, "shared"), "%d %s", r,
             f.message);
    r = go(KERNEL("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], "
                  "16, [%r1+100000];"),
           1, mem, &f);
    t_result("a bulk copy with a bad barrier", r == 700, "%d %s", r, f.message);
    r = go(KERNEL("cp.async.ca.shared.global [%r1], [%rd1, {%r3}], 16;"), 1, mem, &f);
    t_result("coordinates elsewhere", r == -1 && strstr(f.message, "syntax error"), "%d %s", r, f.message);
    r = go(KERNEL("setp.lt.u32 %p1, %r3, 32;\nbarrier.cluster.arrive;\n@%p1 bra W;\n"
                  "L: ld.volatile.global.u32 %r4, [%rd1+64];\nsetp.eq.u32 %p2, %r4, 0;\n@%p2 bra L;\n"
                  "W: barrier.cluster.wait;\nst.volatile.global.u32 [%rd1+64], 1;"),
           96, memset(mem, 0, 4096), &f);
    t_result("who waits does not hold up who has arrived", !r && mem[16] == 1, "%d %s", r, f.message);
}

/* red.async: its effect on 40 by the first thread, then by the second, and its byte count. */
static void reductions(void)
{
    static const struct {
        const char *op;
        uint64_t start, by[2], want;
    } ops[] = {{"add.u32", 40, {5, 0xfffffff0u}, 29},
               {"add.s32", 40, {5, 0xfffffff0u}, 29},
               {"add.u64", 1ull << 63, {1ull << 63, 7}, 7},
               {"min.u32", 40, {50, 0xfffffff0u}, 40},
               {"min.s32", 40, {50, 0xfffffff0u}, 0xfffffff0u},
               {"max.u32", 40, {50, 0xfffffff0u}, 0xfffffff0u},
               {"max.s32", 40, {50, 0xfffffff0u}, 50},
               {"inc.u32", 40, {41, 41}, 0},
               {"dec.u32", 1, {9, 9}, 9},
               {"and.b32", 0xff, {0x3c, 0x66}, 0x24},
               {"or.b32", 1, {2, 8}, 11},
               {"xor.b32", 0xf, {3, 0x30}, 0x3c}};
    uint64_t *mem = tm_alloc(4096);
    char code[4096];
    struct sg_fault f;
    size_t n;

    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        const bool wide = strstr(ops[i].op, "64");
        const char *reg = wide ? "%rd3" : "%r5", *b = wide ? "b64" : "b32";
        int r;

        memset(mem, 0, 64);
        mem[0] = ops[i].start;
        mem[1] = ops[i].by[0];
        mem[2] = ops[i].by[1];
        n = (size_t)snprintf(code, sizeof(code), "%s", BEGIN);
        snprintf(code + n, sizeof(code) - n,
                 "setp.eq.u32 %%p2, %%r3, 0;\n@!%%p2 bra A;\nmbarrier.init.shared::cta.b64 [%%r2], 1;\n"
                 "ld.global.%s %s, [%%rd1];\nst.shared.%s [%%r1+8], %s;\n"
                 "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%r2], %d;\n"
                 "A: bar.sync 0;\ncvt.u64.u32 %%rd4, %%r3;\nshl.b64 %%rd4, %%rd4, 3;\n"
                 "add.u64 %%rd4, %%rd4, %%rd1;\nld.global.%s %s, [%%rd4+8];\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 %%p1, [%%r2], 0;\n"
                 "selp.u32 %%r6, 1, 0, %%p1;\nst.global.u32 [%%rd4+40], %%r6;\nbar.sync 0;\n"
                 "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.%s [%%r1+8], "
                 "%s, [%%r2];\nbar.sync 0;\n@!%%p2 bra E;\nld.shared.%s %s, [%%r1+8];\n"
                 "st.global.%s [%%rd1+24], %s;\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 %%p1, [%%r2], 0;\n"
                 "selp.u32 %%r6, 1, 0, %%p1;\nst.global.u32 [%%rd1+32], %%r6;\nE:" END,
                 b, reg, b, reg, wide ? 16 : 8, b, reg, ops[i].op, reg, b, reg, b, reg);
        r = go(code, 2, mem, &f);
        t_result(ops[i].op, !r && mem[3] == ops[i].want && mem[4] == 1 && !mem[5], "%d %s: %llx, %d, %d", r,
                 f.message, (unsigned long long)mem[3], (int)mem[4], (int)mem[5]);
    }
    t_result("red.async without a barrier",
             go(KERNEL("red.async.relaxed.cluster.shared::cluster.add.u32 [%r1], %r3, [%r2];"), 1, mem, &f) ==
                     -1 &&
                 strstr(f.message, "red.async"),
             "%s", f.message);
    t_result(
        "red.async of floats",
        go(KERNEL(
               "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.f32 [%r1], %r3, "
               "[%r2];"),
           1, mem, &f) == -1 &&
            strstr(f.message, "red.async"),
        "%s", f.message);
    t_result(
        "red.async with a bad barrier",
        go(KERNEL(
               "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r1], %r3, "
               "[%r1+100000];"),
           1, mem, &f) == 700,
        "%s", f.message);
}

/*
 * A cooperative launch gives its kernel the address of the grid's barrier. Accesses from there on, with
 * sizes and offsets of the kernel's choice, reach only the 64 bytes of the barrier, nothing around them
 * and nothing of the process; and the address reveals nothing about the process.
 */
#define WORKSPACE "mov.u32 %r4, %envreg1;\nmov.u32 %r5, %envreg2;\nmov.b64 %rd2, {%r5, %r4};\n"

static int in_grid(const char *code, void *mem, struct sg_fault *f)
{
    int r;

    t_cooperative = true;
    r = go(code, 1, mem, f);
    t_cooperative = false;
    return r;
}

static void beyond(const char *name, const char *code, uint32_t *mem)
{
    struct sg_fault f;
    int r = in_grid(code, mem, &f);

    t_result(name, r == 700 && mem[15] == 7, "%d %s", r, f.message);
}

static void workspace(void)
{
    uint32_t *mem = tm_alloc(4096);
    /* From 80 on a difference to 64 is negative; shared memory has more than that. */
    static const struct {
        unsigned size, from;
        bool out;
    } bulk[] = {{80, 0, false},          {80, 0, true},          {64, 16, false},
                {64, 16, true},          {1024, 0, false},       {1024, 48, true},
                {512, 4096, false},      {512, 1u << 20, true},  {512, 1u << 31, false},
                {0x80000000u, 0, false}, {0xfffffff0u, 16, true}};
    char code[2048], name[80];
    struct sg_fault f;
    uint64_t at;
    int r;

    mem[15] = 7;
    r = in_grid(KERNEL(WORKSPACE
                       "ld.global.u32 %r6, [%rd2];\nst.global.u32 [%rd1], %r6;\n"
                       "st.u32 [%rd2+60], 5;\nld.u32 %r7, [%rd2+60];\nst.global.u32 [%rd1+4], %r7;\n"
                       "st.global.u64 [%rd1+8], %rd2;\natom.add.u32 %r8, [%rd2+8], 1;"),
                mem, &f);
    memcpy(&at, mem + 2, sizeof(at));
    t_result("the barrier of a grid", !r && mem[0] == 64 && mem[1] == 5 && at, "%d %s: %u %u", r, f.message,
             mem[0], mem[1]);
    /* Code, stacks and heap of a process lie in the same 16 TiB. */
    t_result("its address is not of the process",
             at >> 44 != (uintptr_t)&f >> 44 && at >> 44 != (uintptr_t)mem >> 44 &&
                 at >> 44 != (uintptr_t)&stdout >> 44,
             "%llx", (unsigned long long)at);
    for (size_t i = 0; i < sizeof(bulk) / sizeof(bulk[0]); i++) {
        snprintf(name, sizeof(name), "a bulk copy %s, %u bytes from %u on", bulk[i].out ? "to it" : "from it",
                 bulk[i].size, bulk[i].from);
        snprintf(code, sizeof(code),
                 "%s"
                 "mov.u32 %%r4, %%envreg1;\nmov.u32 %%r5, %%envreg2;\nmov.b64 %%rd2, {%%r5, %%r4};\n"
                 "mov.u32 %%r6, %u;\nadd.u64 %%rd2, %%rd2, %u;\n%s" END,
                 BEGIN, bulk[i].size, bulk[i].from,
                 bulk[i].out
                     ? "cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], %r6;"
                     : "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd2], "
                       "%r6, [%r2];");
        beyond(name, code, mem);
    }
    beyond("a read behind it", KERNEL(WORKSPACE "ld.global.u32 %r6, [%rd2+64];"), mem);
    beyond("a read across its end",
           KERNEL(WORKSPACE "add.u64 %rd2, %rd2, 56;\nld.u32 %r6, [%rd2+4];\n"
                            "ld.v2.u64 {%rd3, %rd4}, [%rd2+8];"),
           mem);
    beyond("a write before it", KERNEL(WORKSPACE "st.global.u32 [%rd2+-4], 1;"), mem);
    beyond("an atomic behind it", KERNEL(WORKSPACE "atom.global.add.u64 %rd3, [%rd2+64], 1;"), mem);
    beyond("cp.async across its end", KERNEL(WORKSPACE "cp.async.cg.shared.global [%r1], [%rd2+56], 16;"),
           mem);
}

/*
 * A loop of 400 rounds is within one time slice, so that a limit of 200 instructions is noticed only if the
 * instruction in it counts as several back edges.
 */
static bool ends_slices(const char *declared, const char *body, struct sg_fault *f)
{
    char code[4096];
    int r;

    snprintf(code, sizeof(code),
             ".version 8.4\n.target sm_90\n.address_size 64\n%s.visible .entry t(.param .u64 p)\n{\n"
             ".reg .pred %%p<4>;\n.reg .b32 %%r<20>;\n.reg .b64 %%rd<10>;\n.shared .align 16 .b8 s[1024];\n"
             ".local .align 8 .b8 d[64];\n"
             "ld.param.u64 %%rd1, [p];\nmov.u32 %%r1, s;\nmov.u32 %%r3, %%tid.x;\nmov.u32 %%r5, 0;\n"
             "L:\n%s\nadd.u32 %%r5, %%r5, 1;\nsetp.lt.u32 %%p1, %%r5, 400;\n@%%p1 bra L;\nret;\n}\n",
             declared, body);
    t_watchdog = 200;
    r = go(code, 32, tm_alloc(4096), f);
    t_watchdog = 2000000000ull;
    if (r && r != SG_ERR_TIMEOUT)
        t_result("loops of long instructions", false, "%d %s", r, f->message);
    return r == SG_ERR_TIMEOUT;
}

static void slices(void)
{
    static const char copy[] = "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], ",
                      reduce[] = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r1], ";
    uint32_t *mem = tm_alloc(4096);
    struct sg_fault f;
    char body[512];
    uint64_t blocks[2000];

    snprintf(body, sizeof(body), "%s1024;", copy);
    t_result("a time slice counts what bulk copies move", ends_slices("", body, &f), "it does not");
    snprintf(body, sizeof(body), "%s16;", copy);
    t_result("small ones count little", !ends_slices("", body, &f), "%s", f.message);
    snprintf(body, sizeof(body), "%s256;", reduce);
    t_result("a time slice counts what bulk reductions move", ends_slices("", body, &f), "it does not");

    static const char heap[] = ".extern .func (.param .b64 r) malloc(.param .b64 n);\n",
                      none[] = "{ .param .b64 q0; .param .b64 q1;\nst.param.b64 [q0], 0;\n"
                               "call.uni (q1), malloc, (q0);\n}",
                      full[] = "{ .param .b64 q0; .param .b64 q1;\nst.param.b64 [q0], 34000000000;\n"
                               "call.uni (q1), malloc, (q0);\n}";

    for (unsigned i = 0; i < 2000; i++)
        blocks[i] = sg_heap_alloc(64);
    t_result("a time slice counts the search of malloc()", ends_slices(heap, full, &f), "it does not");
    t_result("malloc(0) searches nothing", !ends_slices(heap, none, &f), "%s", f.message);
    for (unsigned i = 0; i < 2000; i++)
        sg_heap_free(blocks[i]);

    static const char print[] = ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
                                ".global .align 1 .b8 fmt[] = {37,53,48,48,100,10,0};\n",
                      wide[] = "mov.u64 %rd3, fmt;\ncvta.global.u64 %rd3, %rd3;\n"
                               "mov.u64 %rd4, d;\ncvta.local.u64 %rd4, %rd4;\n"
                               "{ .param .b64 q0; .param .b64 q1; .param .b32 q2;\nst.param.b64 [q0], %rd3;\n"
                               "st.param.b64 [q1], %rd4;\ncall.uni (q2), vprintf, (q0, q1);\n}";

    t_result("a time slice counts what printf() writes", ends_slices(print, wide, &f), "it does not");

    /* without a loop: also under a predicate, where the copy is the end of a span */
    char *code = malloc(1 << 16);
    size_t n = (size_t)snprintf(code, 1 << 16, "%s", BEGIN "mov.u32 %r5, 0;\nsetp.lt.u32 %p1, %r3, 31;\n");

    for (unsigned i = 0; i < 300; i++)
        n += (size_t)snprintf(code + n, (1 << 16) - n, "%s%s1024;\nadd.u32 %%r5, %%r5, 1;\n",
                              i % 2 ? "@%p1 " : "", copy);
    /* all lanes count at the end: none was left in a predicated copy */
    snprintf(code + n, (1 << 16) - n,
             "st.global.u32 [%%rd1], 0;\nbar.sync 0;\nred.global.add.u32 [%%rd1], %%r5;" END);
    t_watchdog = 200;
    t_result("a time slice ends in code without loops", go(code, 32, mem, &f) == SG_ERR_TIMEOUT, "%s",
             f.message);
    t_watchdog = 2000000000ull;
    t_result("which goes on after it", !go(code, 32, mem, &f) && mem[0] == 32 * 300, "%s %u", f.message,
             mem[0]);
    free(code);
}

int main(int argc, char **argv)
{
    const char *dir = argc ? strrchr(argv[0], '/') : NULL;
    char path[4096];
    FILE *in;

    by_hand();
    reductions();
    workspace();
    slices();
    snprintf(path, sizeof(path), "%.*shopper_90.ptx", dir ? (int)(dir - argv[0] + 1) : 0, dir ? argv[0] : "");
    in = fopen(argc > 1 ? argv[1] : path, "rb");
    text = calloc(1, TEXT_MAX);
    if (in && text && fread(text, 1, TEXT_MAX - 1, in)) {
        bulk();
        cluster();
        vectors();
    } else {
        t_skip("hopper_90.ptx", "no nvcc when the tests were built");
    }
    if (in)
        fclose(in);
    free(text);
    tm_free_all();
    return t_end("softgpu bulk copies");
}
