/* SPDX-License-Identifier: MIT */
/*
 * clusterlaunchcontrol: blocks that take the work of blocks that have not begun. Whatever the number of threads,
 * each block's work must be done once: by the block, or by the block that cancelled it.
 */
#include "exec/exec_test.h"

#include <string.h>

#define WORDS 16384
#define BEGUN 16000 /* word: blocks that have run */
#define WRONG 16001 /* word: responses that differ from themselves */

static uint32_t *mem; /* of the kernel; a word for each block of the grid */

/* %rd1: p, %r0: rank, %r1: blocks of the cluster, %r2: thread, %r3: s, %r4: bar; %r10 to %r12: the position of
   a block, %r13: its number */
#define HEAD \
    ".version 8.7\n.target sm_100a\n.address_size 64\n.visible .entry t(.param .u64 p)\n{\n" \
    ".reg .pred %p<9>;\n.reg .b32 %r<40>;\n.reg .b64 %rd<20>;\n.reg .f32 %f<4>;\n.reg .b128 %q<3>;\n" \
    ".shared .align 16 .b8 s[1024];\n.shared .align 8 .b64 bar;\n" \
    "ld.param.u64 %rd1, [p];\nmov.u32 %r0, %cluster_ctarank;\nmov.u32 %r1, %cluster_nctarank;\n" \
    "mov.u32 %r2, %tid.x;\nmov.u32 %r3, s;\nmov.u32 %r4, bar;\nmov.u32 %r10, %ctaid.x;\n" \
    "mov.u32 %r11, %ctaid.y;\nmov.u32 %r12, %ctaid.z;\nsetp.ne.u32 %p1, %r2, 0;\nmov.u32 %r20, 0;\n" \
    "mov.u64 %rd10, s;\ncvta.shared.u64 %rd10, %rd10;\nmov.u64 %rd11, bar;\ncvta.shared.u64 %rd11, %rd11;\n"
#define NUMBER \
    "mov.u32 %r14, %nctaid.y;\nmad.lo.u32 %r13, %r12, %r14, %r11;\nmov.u32 %r14, %nctaid.x;\n" \
    "mad.lo.u32 %r13, %r13, %r14, %r10;\nmul.wide.u32 %rd2, %r13, 4;\nadd.u64 %rd2, %rd1, %rd2;\n"
#define INIT \
    "@%p1 bra I;\nmbarrier.init.shared.b64 [%r4], 1;\natom.global.add.u32 %r15, [%rd1+64000], 1;\nI: bar.sync 0;\n"
#define DONE "red.global.add.u32 [%rd2], 1;\n"
#define WAIT \
    "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r4], %r20;\n@!%p2 bra W;\nxor.b32 %r20, %r20, 1;\n" \
    "ld.shared.b128 %q1, [%r3];\n"
#define EXPECT "mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 16;\n"
#define CANCEL "clusterlaunchcontrol.try_cancel.async."
#define TX "mbarrier::complete_tx::bytes"
#define IS_CANCELED "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q1;\n"
/* The position in both forms, which must be the same. */
#define POSITION \
    "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r10,%r11,%r12,_}, %q1;\n" \
    "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r16, %q1;\nsub.u32 %r16, %r16, %r10;\n" \
    "clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 %r17, %q1;\nsub.u32 %r17, %r17, %r11;\n" \
    "clusterlaunchcontrol.query_cancel.get_first_ctaid::z.b32.b128 %r18, %q1;\nsub.u32 %r18, %r18, %r12;\n" \
    "or.b32 %r16, %r16, %r17;\nor.b32 %r16, %r16, %r18;\nsetp.ne.u32 %p4, %r16, 0;\n" \
    "@%p4 red.global.add.u32 [%rd1+64004], 1;\n"
#define END "E: ret;\n}\n"

/* A block that does the work of blocks that it cancels until none is left. between: part of the work. */
#define BLOCKS(between, cancel) \
    HEAD INIT "L: " NUMBER "@%p1 bra N;\n" DONE between EXPECT cancel "N: " WAIT "bar.sync 0;\n" IS_CANCELED \
              "@!%p3 bra E;\n" POSITION "bra L;\n" END
#define OFFSETS CANCEL "shared::cta." TX ".b128 [%r3], [%r4];\n"
#define GENERIC CANCEL TX ".b128 [%rd10], [%rd11];\n"
#define LONG "mov.u32 %r30, 3000;\nS: sub.u32 %r30, %r30, 1;\nsetp.ne.u32 %p5, %r30, 0;\n@%p5 bra S;\n"

/* The first block of a cluster asks for all; each works for its own rank. %r21: its place in the cluster. */
#define SYNC "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
#define CLUSTERS \
    HEAD INIT "mov.u32 %r21, %cluster_ctaid.x;\nmov.u32 %r22, %cluster_ctaid.y;\nsetp.ne.u32 %p6, %r0, 0;\n" \
              "L: " NUMBER "@%p1 bra N;\n" DONE EXPECT "N: " SYNC \
              "or.pred %p7, %p1, %p6;\n@%p7 bra M;\n" CANCEL "shared::cta." TX \
              ".multicast::cluster::all.b128 [%r3], [%r4];\nM: " WAIT SYNC IS_CANCELED \
              "@!%p3 bra E;\n" POSITION "add.u32 %r10, %r10, %r21;\nadd.u32 %r11, %r11, %r22;\nbra L;\n" END

/* Every lane asks, often, and goes on when it was refused. */
#define ALL_LANES \
    HEAD INIT NUMBER "@%p1 bra N;\n" DONE "N: mov.u32 %r30, 20;\nmad.lo.u32 %r3, %r2, 16, %r3;\n" \
                     "L: " OFFSETS "ld.shared.b128 %q1, [%r3];\n" IS_CANCELED \
                     "@!%p3 bra F;\n" POSITION NUMBER DONE \
                     "F: sub.u32 %r30, %r30, 1;\nsetp.ne.u32 %p5, %r30, 0;\n@%p5 bra L;\n" END

static int run(struct tk *t, const uint32_t grid[3], uint32_t block, struct sg_fault *f)
{
    const uint32_t threads[3] = {block, 1, 1};

    memset(f, 0, sizeof(*f));
    memset(mem, 0, WORDS * 4);
    return tk_run3(t, grid, threads, 0, &mem, f);
}

static bool open_kernel(struct tk *t, const char *name, const char *text)
{
    if (tk_open(t, text, "t"))
        return true;
    t_result(name, false, "%s", t->diag.message);
    return false;
}

/* some: at least one block is cancelled if a single thread runs all; else none may be. */
static void check_once(const char *name, const char *text, const uint32_t grid[3], uint32_t block,
                       const uint32_t cluster[3], bool some)
{
    static const unsigned threads[] = {1, 2, 7};
    const uint32_t n = grid[0] * grid[1] * grid[2];
    struct tk t;

    if (!open_kernel(&t, name, text))
        return;
    for (size_t i = 0; i < sizeof(threads) / sizeof(threads[0]); i++) {
        struct sg_fault f;
        uint32_t bad = 0;
        char full[128];
        int r;

        sg_exec_set_threads(threads[i]);
        memcpy(t_cluster, cluster, sizeof(t_cluster));
        r = run(&t, grid, block, &f);
        memset(t_cluster, 0, sizeof(t_cluster));
        for (uint32_t k = 0; k < n; k++)
            bad += mem[k] != 1;
        snprintf(full, sizeof(full), "%s, %u threads", name, threads[i]);
        t_result(full,
                 !r && !bad && !mem[WRONG] && mem[BEGUN] <= n && (some || mem[BEGUN] == n) &&
                     (!some || threads[i] > 1 || mem[BEGUN] < n),
                 "%d %s: %u of %u blocks not done once, %u have run, %u wrong", r, f.message, bad, n,
                 mem[BEGUN], mem[WRONG]);
    }
    sg_exec_set_threads(0);
    tk_close(&t);
}

static void test_blocks(void)
{
    static const uint32_t line[3] = {700, 1, 1}, space[3] = {5, 7, 9}, one[3] = {1, 1, 1}, none[3];
    static const uint32_t pairs[3] = {2, 1, 1}, squares[3] = {2, 2, 1}, plane[3] = {12, 8, 3};

    check_once("blocks of a line", BLOCKS("", OFFSETS), line, 64, none, true);
    check_once("blocks of a space", BLOCKS("", OFFSETS), space, 32, none, true);
    check_once("a block of a thread", BLOCKS("", OFFSETS), line, 1, none, true);
    check_once("generic addresses", BLOCKS("", GENERIC), space, 64, none, true);
    check_once("work of several time slices", BLOCKS(LONG, OFFSETS), space, 64, none, true);
    check_once("sums of floats in order", BLOCKS("red.global.add.f32 [%rd1+64008], 0f3f800000;\n", OFFSETS),
               line, 32, none, true);
    check_once("a grid of one block", BLOCKS("", OFFSETS), one, 32, none, false);
    check_once("clusters of two", CLUSTERS, line, 32, pairs, true);
    check_once("clusters of four", CLUSTERS, plane, 64, squares, true);
    check_once("clusters of one block", CLUSTERS, space, 32, one, true);
    check_once("a block of a cluster", BLOCKS("", OFFSETS), space, 32, one, true);
    check_once("every lane, often", ALL_LANES, line, 32, none, true);
    t_cooperative = true;
    check_once("a cooperative launch", BLOCKS("", OFFSETS), (const uint32_t[3]){24, 1, 1}, 32, none, false);
    t_cooperative = false;
}

/* The fault names the first byte that the response or the count would write outside of shared memory. */
static void test_faults(void)
{
    static const struct {
        const char *name, *text;
        int result;
        bool shared;
        uint32_t address; /* in shared memory: s at 0 and bar at 1024 */
    } cases[] = {
        {"a response that is not aligned", HEAD INIT CANCEL "shared::cta." TX ".b128 [%r3+8], [%r4];\n" END,
         716, true, 8},
        {"a response across the end of shared memory",
         HEAD INIT CANCEL "shared::cta." TX ".b128 [%r3+1024], [%r4];\n" END, 700, true, 1024},
        {"a response far away", HEAD INIT CANCEL "shared::cta." TX ".b128 [%r3+1048576], [%r4];\n" END, 700,
         true, 1048576},
        {"a barrier object that is not aligned",
         HEAD INIT CANCEL "shared::cta." TX ".b128 [%r3], [%r4+4];\n" END, 716, true, 1028},
        {"a barrier object behind shared memory",
         HEAD INIT CANCEL "shared::cta." TX ".b128 [%r3], [%r4+8];\n" END, 700, true, 1032},
        {"a generic address of global memory", HEAD INIT CANCEL TX ".b128 [%rd1], [%rd11];\n" END, 717, false,
         0},
        {"a barrier object in global memory", HEAD INIT CANCEL TX ".b128 [%rd10], [%rd1];\n" END, 717, false,
         0},
        {"a generic address behind shared memory", HEAD INIT CANCEL TX ".b128 [%rd10+4096], [%rd11];\n" END,
         700, true, 4096},
        {"a response to all, not aligned",
         HEAD INIT CANCEL "shared::cta." TX ".multicast::cluster::all.b128 [%r3+4], [%r4];\n" END, 716, true,
         4},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (unsigned threads = 1; threads < 4; threads += 2) {
            struct sg_fault f;
            struct tk t;
            int r;

            if (!open_kernel(&t, cases[i].name, cases[i].text))
                break;
            sg_exec_set_threads(threads);
            r = run(&t, (const uint32_t[3]){300, 1, 1}, 32, &f);
            t_result(cases[i].name,
                     r == cases[i].result &&
                         (cases[i].shared ? f.address == cases[i].address : f.address == (uintptr_t)mem),
                     "%d at 0x%llx: %s", r, (unsigned long long)f.address, f.message);
            tk_close(&t);
        }
    sg_exec_set_threads(0);
}

/* Words that no try_cancel has written: the result is whatever they are, and no fault. */
static void test_queries(void)
{
    struct sg_fault f;
    struct tk t;
    int r;

    if (!open_kernel(&t, "queries",
                     HEAD "mov.u64 %rd2, 0x123456789abcdef0;\nmov.u64 %rd3, 0;\n"
                          "mov.b128 %q1, {%rd2, %rd3};\n" IS_CANCELED "selp.u32 %r5, 1, 0, %p3;\n"
                          "st.global.u32 [%rd1], %r5;\nnot.b64 %rd3, %rd3;\n"
                          "mov.b128 %q1, {%rd2, %rd3};\n" IS_CANCELED "selp.u32 %r5, 1, 0, %p3;\n"
                          "st.global.u32 [%rd1+4], %r5;\n" POSITION END))
        return;
    r = run(&t, (const uint32_t[3]){1, 1, 1}, 32, &f);
    t_result("a response that the kernel made", !r && !mem[0] && mem[1] == 1 && !mem[WRONG], "%d %s: %u %u",
             r, f.message, mem[0], mem[1]);
    tk_close(&t);
}

int main(int argc, char **argv)
{
    t_variant(argc, argv);
    mem = tm_alloc(WORDS * 4);
    test_blocks();
    test_faults();
    test_queries();
    tm_free_all();
    return t_end("softgpu cancelled blocks");
}
