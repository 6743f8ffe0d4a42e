/* SPDX-License-Identifier: MIT */
/*
 * Clusters: the blocks' positions, the barrier, every kind of access to other blocks' shared memory
 * and beyond it. With handlers and, on processors with AVX-512, native code.
 */
#include "exec/exec_test.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_MAX (4 << 20)
#define WORDS 16384

static uint32_t *mem; /* of the kernel */

/* %rd1: p, %r0: rank, %r1: blocks of the cluster, %r2: thread, %r3: s, %r4: bar, %r5: the
   block's number. */
#define BEGIN(directives) \
    ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry t(.param .u64 p)\n" directives "\n{\n" \
    ".reg .pred %p<6>;\n.reg .b16 %h<4>;\n.reg .b32 %r<30>;\n.reg .b64 %rd<20>;\n" \
    ".shared .align 16 .b8 s[1024];\n.shared .align 8 .b64 bar;\n" \
    "ld.param.u64 %rd1, [p];\nmov.u32 %r0, %cluster_ctarank;\nmov.u32 %r1, %cluster_nctarank;\n" \
    "mov.u32 %r2, %tid.x;\nmov.u32 %r3, s;\nmov.u32 %r4, bar;\nmov.u32 %r5, %ctaid.x;\n"
#define END "\nret;\n}\n"
#define TEXT(directives, body) BEGIN(directives) body END
#define KERNEL(body) TEXT("", body)
#define SYNC "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
/* %r6: the next block of the cluster; %r7, %rd2: its s, as an offset and as a generic address */
#define NEXT \
    "add.u32 %r6, %r0, 1;\nrem.u32 %r6, %r6, %r1;\nmapa.shared::cluster.u32 %r7, %r3, %r6;\n" \
    "cvta.shared.u64 %rd2, %rd15;\nmapa.u64 %rd2, %rd2, %r6;\n"
#define NEXT_READY "cvt.u64.u32 %rd15, %r3;\n" NEXT

static int go3(const char *text, const uint32_t grid[3], uint32_t block, const uint32_t cluster[3],
               struct sg_fault *f)
{
    struct tk t;
    int r;

    memset(f, 0, sizeof(*f));
    memset(mem, 0, WORDS * 4);
    if (!tk_open(&t, text, "t")) {
        snprintf(f->message, sizeof(f->message), "%s", t.diag.message);
        sg_module_free(t.m);
        return -1;
    }
    memcpy(t_cluster, cluster, sizeof(t_cluster));
    r = tk_run3(&t, grid, (uint32_t[3]){block, 1, 1}, 0, &mem, f);
    memset(t_cluster, 0, sizeof(t_cluster));
    tk_close(&t);
    return r;
}

static int go(const char *text, uint32_t grid, uint32_t block, uint32_t cluster, struct sg_fault *f)
{
    return go3(text, (uint32_t[3]){grid, 1, 1}, block, (uint32_t[3]){cluster, cluster != 0, cluster != 0}, f);
}

#define CHECK(name, text, grid, block, cluster, n, e) \
    do { \
        struct sg_fault f_; \
        int r_ = go(text, grid, block, cluster, &f_); \
        uint32_t i = 0, want = 0; \
        for (; i < (n); i++) { \
            want = (uint32_t)(e); \
            if (mem[i] != want) \
                break; \
        } \
        t_result(name, !r_ && i == (n), "result %d %s; word %u is %u, expected %u", r_, f_.message, i, \
                 i < (n) ? mem[i] : 0, want); \
    } while (0)

/* ---- where a block is ---- */

static const char places[] = KERNEL(
    "mov.u32 %r6, %ctaid.y;\nmov.u32 %r7, %ctaid.z;\nmov.u32 %r8, %nctaid.x;\nmov.u32 %r9, %nctaid.y;\n"
    "mad.lo.u32 %r7, %r7, %r9, %r6;\nmad.lo.u32 %r7, %r7, %r8, %r5;\nmul.lo.u32 %r7, %r7, 64;\n"
    "cvt.u64.u32 %rd2, %r7;\nadd.u64 %rd1, %rd1, %rd2;\nmov.u32 %r10, %clusterid.x;\n"
    "mov.u32 %r11, %clusterid.y;\nmov.u32 %r12, %clusterid.z;\nmov.u32 %r13, %cluster_ctaid.x;\n"
    "mov.u32 %r14, %cluster_ctaid.y;\nmov.u32 %r15, %cluster_ctaid.z;\nmov.u32 %r16, %nclusterid.x;\n"
    "mov.u32 %r17, %nclusterid.y;\nmov.u32 %r18, %nclusterid.z;\nmov.u32 %r19, %cluster_nctaid.x;\n"
    "mov.u32 %r20, %cluster_nctaid.y;\nmov.u32 %r21, %cluster_nctaid.z;\n"
    "mov.pred %p1, %is_explicit_cluster;\nselp.u32 %r22, 1, 0, %p1;\n"
    "st.global.v4.u32 [%rd1], {%r10, %r11, %r12, %r0};\nst.global.v4.u32 [%rd1+16], {%r13, %r14, %r15, %r1};\n"
    "st.global.v4.u32 [%rd1+32], {%r16, %r17, %r18, %r22};\n"
    "st.global.v4.u32 [%rd1+48], {%r19, %r20, %r21, %r21};\n");

static void place(const char *name, const uint32_t grid[3], const uint32_t cluster[3])
{
    const uint32_t size[3] = {cluster[0] ? cluster[0] : 1, cluster[0] ? cluster[1] : 1,
                              cluster[0] ? cluster[2] : 1};
    struct sg_fault f;
    uint32_t wrong = 0;
    int r = go3(places, grid, 33, cluster, &f);

    for (uint32_t b = 0; b < grid[0] * grid[1] * grid[2]; b++) {
        const uint32_t at[3] = {b % grid[0], b / grid[0] % grid[1], b / grid[0] / grid[1]};
        const uint32_t *got = mem + 16 * b;
        uint32_t in[3];

        for (int k = 0; k < 3; k++) {
            in[k] = at[k] % size[k];
            wrong += got[k] != at[k] / size[k] || got[4 + k] != in[k] || got[8 + k] != grid[k] / size[k] ||
                     got[12 + k] != size[k];
        }
        wrong += got[3] != (in[2] * size[1] + in[1]) * size[0] + in[0] ||
                 got[7] != size[0] * size[1] * size[2] || got[11] != (cluster[0] != 0);
    }
    t_result(name, !r && !wrong, "%d %s: %u words are wrong", r, f.message, wrong);
}

static void test_places(void)
{
    const uint32_t grid[3] = {6, 4, 4}, none[3] = {0, 0, 0};
    static const uint32_t sizes[][3] = {{1, 1, 1}, {2, 1, 1}, {3, 2, 1}, {1, 4, 2}, {2, 2, 4}, {1, 1, 4}};
    struct sg_fault f;
    int r;

    place("places without clusters", grid, none);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char name[64];

        snprintf(name, sizeof(name), "places in clusters of %u x %u x %u", sizes[i][0], sizes[i][1],
                 sizes[i][2]);
        place(name, grid, sizes[i]);
        t_cooperative = true;
        strcat(name, ", cooperative");
        place(name, grid, sizes[i]);
        t_cooperative = false;
    }
    CHECK("the kernel says it",
          TEXT(".explicitcluster\n.reqnctapercluster 4, 1, 1",
               "mul.wide.u32 %rd2, %r5, 4;\nadd.u64 %rd1, %rd1, %rd2;\n"
               "st.global.u32 [%rd1], %r0;"),
          8, 32, 0, 8, i % 4);
    r = go(KERNEL(""), 6, 32, 4, &f);
    t_result("a size that does not divide the grid", r == 912 && strstr(f.message, "4 x 1 x 1"), "%d %s", r,
             f.message);
    r = go(KERNEL(""), 34, 32, 17, &f);
    t_result("a size above 16", r == 912, "%d %s", r, f.message);
    r = go3(KERNEL(""), (uint32_t[3]){8, 8, 1}, 32, (uint32_t[3]){8, 4, 1}, &f);
    t_result("a size above 16 in two dimensions", r == 912, "%d %s", r, f.message);
    r = go3(KERNEL(""), (uint32_t[3]){8, 8, 1}, 32, (uint32_t[3]){8, 0, 1}, &f);
    t_result("a size with a 0", r == 912, "%d %s", r, f.message);
}

/* ---- the barrier ---- */

static void test_barrier(void)
{
    struct sg_fault f;
    int r;

    CHECK("rounds of a ring",
          KERNEL(NEXT_READY
                 "mov.u32 %r10, 0;\nst.shared.u32 [%r3], %r0;\nmov.u32 %r12, 0;\n"
                 "L: " SYNC "ld.shared::cluster.u32 %r11, [%r7];\nadd.u32 %r12, %r12, %r11;\n" SYNC
                 "setp.eq.u32 %p2, %r2, 0;\nadd.u32 %r13, %r11, 1;\n@%p2 st.shared.u32 [%r3], %r13;\n"
                 "add.u32 %r10, %r10, 1;\nsetp.lt.u32 %p1, %r10, 50;\n@%p1 bra L;\n"
                 "mad.lo.u32 %r14, %r5, 64, %r2;\nmul.wide.u32 %rd4, %r14, 4;\nadd.u64 %rd4, %rd4, %rd1;\n"
                 "st.global.u32 [%rd4], %r12;"),
          10, 64, 5, 640, ({
              uint32_t sum = 0;

              for (uint32_t k = 0; k < 50; k++)
                  sum += (i / 64 % 5 + 1 + k) % 5 + k;
              sum;
          }));
    CHECK("work between the two halves",
          KERNEL("st.shared.u32 [%r3], %r2;\nbarrier.cluster.arrive.release;\nmul.lo.u32 %r8, %r0, 2000;\n"
                 "mov.u32 %r9, 0;\nL: add.u32 %r9, %r9, 1;\nsetp.lt.u32 %p1, %r9, %r8;\n@%p1 bra L;\n"
                 "barrier.cluster.wait.acquire;\natom.shared.add.u32 %r10, [%r3+8], 1;\n" SYNC
                 "ld.shared.u32 %r11, [%r3+8];\nmad.lo.u32 %r14, %r5, 64, %r2;\nmul.wide.u32 %rd4, %r14, 4;\n"
                 "add.u64 %rd4, %rd4, %rd1;\nst.global.u32 [%rd4], %r11;"),
          4, 64, 4, 256, 64);
    CHECK(
        "blocks and threads that end early",
        KERNEL(
            "setp.eq.u32 %p1, %r0, 1;\n@%p1 exit;\nsetp.eq.u32 %p2, %r2, 5;\nbarrier.cluster.arrive;\n@%p2 exit;\n"
            "barrier.cluster.wait;\nsetp.lt.u32 %p3, %r2, 40;\n@%p3 exit;\n" SYNC SYNC
            "mad.lo.u32 %r14, %r5, 64, %r2;\nmul.wide.u32 %rd4, %r14, 4;\nadd.u64 %rd4, %rd4, %rd1;\n"
            "st.global.u32 [%rd4], 7;"),
        6, 64, 3, 384, i / 64 % 3 == 1 || i % 64 < 40 ? 0 : 7);
    CHECK("one warp exits as the last that is waited for",
          KERNEL("setp.ne.u32 %p1, %r0, 0;\n@%p1 bra W;\nmov.u32 %r9, 0;\n"
                 "L: add.u32 %r9, %r9, 1;\nsetp.lt.u32 %p2, %r9, 3000;\n@%p2 bra L;\nexit;\n"
                 "W: barrier.cluster.arrive;\nbarrier.cluster.wait;\nmul.wide.u32 %rd4, %r5, 4;\n"
                 "add.u64 %rd4, %rd4, %rd1;\nst.global.u32 [%rd4], 9;"),
          8, 32, 2, 8, i & 1 ? 9 : 0);
    t_watchdog = 200000;
    r = go(KERNEL("setp.eq.u32 %p1, %r0, 1;\n@%p1 bra L;\n" SYNC "exit;\nL: bra L;"), 2, 32, 2, &f);
    t_result("a block that never comes", r == 702, "%d %s", r, f.message);
    t_watchdog = 2000000000ull;
    r = go(KERNEL("setp.eq.u32 %p1, %r0, 1;\n@%p1 trap;\n" SYNC), 4, 32, 2, &f);
    t_result("a block that fails", r == 719 && f.block[0] == 1, "%d %s", r, f.message);
    t_cooperative = true;
    CHECK("clusters that wait for each other",
          KERNEL(
              NEXT_READY
              "st.shared.u32 [%r3], %r5;\n" SYNC "setp.ne.u32 %p1, %r2, 0;\n@%p1 bra E;\n"
              "atom.global.add.u32 %r8, [%rd1+4096], 1;\nL: ld.volatile.global.u32 %r9, [%rd1+4096];\n"
              "setp.lt.u32 %p2, %r9, 8;\n@%p2 bra L;\nld.shared::cluster.u32 %r10, [%r7];\n"
              "mul.wide.u32 %rd4, %r5, 4;\nadd.u64 %rd4, %rd4, %rd1;\nst.global.u32 [%rd4], %r10;\nE: " SYNC),
          8, 64, 2, 8, i ^ 1);
    t_cooperative = false;
}

/* ---- accesses to the next block's memory, as to the own block's ---- */

/* Each op is run on [A], which is s+64 of the next block, by an offset and by a generic address. */
static void test_accesses(void)
{
    static const struct {
        const char *op;
        uint64_t start, want, got; /* value before, value after, result in %rd8 */
    } ops[] = {
        {"ld{}.u8 %r8, [A];\ncvt.u64.u32 %rd8, %r8;", 0x1122334455667788, 0x1122334455667788, 0x88},
        {"ld{}.s8 %r8, [A];\ncvt.u64.u32 %rd8, %r8;", 0x88, 0x88, 0xffffff88},
        {"ld{}.u16 %h1, [A+2];\ncvt.u64.u16 %rd8, %h1;", 0x1122334455667788, 0x1122334455667788, 0x5566},
        {"ld{}.u32 %r8, [A+4];\ncvt.u64.u32 %rd8, %r8;", 0x1122334455667788, 0x1122334455667788, 0x11223344},
        {"ld{}.b64 %rd8, [A];", 0x1122334455667788, 0x1122334455667788, 0x1122334455667788},
        {"ld.relaxed.cluster{}.u32 %r8, [A];\ncvt.u64.u32 %rd8, %r8;", 7, 7, 7},
        {"ld{}.v2.u32 {%r8, %r9}, [A];\nmov.b64 %rd8, {%r9, %r8};", 0x100000002, 0x100000002, 0x200000001},
        {"ld{}.v4.u32 {%r8, %r9, %r10, %r11}, [A];\nmov.b64 %rd8, {%r9, %r8};", 0x100000002, 0x100000002,
         0x200000001},
        {"ld{}.v2.u64 {%rd8, %rd9}, [A];", 5, 5, 5},
        {"st{}.u8 [A+1], 0xab;", 0, 0xab00, 0},
        {"mov.u16 %h1, 0xabcd;\nst{}.u16 [A+6], %h1;", 0, 0xabcd000000000000, 0},
        {"st{}.u32 [A], 99;", 0, 99, 0},
        {"st{}.u64 [A], 1234567890123;", 0, 1234567890123, 0},
        {"st{}.v2.u32 [A], {3, 4};", 0, 0x400000003, 0},
        {"st.release.cluster{}.u32 [A], 5;", 0, 5, 0},
        {"atom{}.add.u32 %r8, [A], 5;\ncvt.u64.u32 %rd8, %r8;", 40, 45, 40},
        {"atom.relaxed.cluster{}.add.u64 %rd8, [A], 5;", 1ull << 40, (1ull << 40) + 5, 1ull << 40},
        {"atom{}.min.s32 %r8, [A], -5;\ncvt.u64.u32 %rd8, %r8;", 40, 0xfffffffb, 40},
        {"atom{}.max.u32 %r8, [A], 77;\ncvt.u64.u32 %rd8, %r8;", 40, 77, 40},
        {"atom{}.inc.u32 %r8, [A], 40;\ncvt.u64.u32 %rd8, %r8;", 40, 0, 40},
        {"atom{}.dec.u32 %r8, [A], 40;\ncvt.u64.u32 %rd8, %r8;", 0, 40, 0},
        {"atom{}.and.b32 %r8, [A], 12;\ncvt.u64.u32 %rd8, %r8;", 10, 8, 10},
        {"atom{}.or.b32 %r8, [A], 12;\ncvt.u64.u32 %rd8, %r8;", 10, 14, 10},
        {"atom{}.xor.b64 %rd8, [A], 12;", 10, 6, 10},
        {"atom{}.exch.b32 %r8, [A], 12;\ncvt.u64.u32 %rd8, %r8;", 10, 12, 10},
        {"atom{}.cas.b32 %r8, [A], 10, 12;\ncvt.u64.u32 %rd8, %r8;", 10, 12, 10},
        {"atom{}.cas.b64 %rd8, [A], 9, 12;", 10, 10, 10},
        {"atom{}.add.f32 %r8, [A], 0f3f800000;\ncvt.u64.u32 %rd8, %r8;", 0x40000000, 0x40400000, 0x40000000},
        {"red{}.add.u32 [A], 5;", 40, 45, 0},
        {"red.relaxed.cluster{}.xor.b32 [A], 5;", 40, 45, 0},
    };
    uint64_t *got = (uint64_t *)(void *)mem;

    for (size_t i = 0; i < 3 * sizeof(ops) / sizeof(ops[0]); i++) {
        static const char *const spaces[] = {".shared::cluster", "", ".shared::cluster"};
        static const char *const bases[] = {"%r7", "%rd2", "%rd16"};
        const uint32_t how = i % 3;
        const char *op = ops[i / 3].op;
        char body[512], text[4096], name[128], start[64];
        size_t n = 0;
        struct sg_fault f;
        bool ok = true;
        int r;

        for (; *op && n < sizeof(body) - 64; op++) {
            if (!strncmp(op, "{}", 2))
                n += (size_t)snprintf(body + n, sizeof(body) - n, "%s", spaces[how]), op++;
            else if (!strncmp(op, "[A", 2))
                n += (size_t)snprintf(body + n, sizeof(body) - n, "[%s", bases[how]), op++;
            else
                body[n++] = *op;
        }
        body[n] = 0;
        snprintf(start, sizeof(start), "mov.u64 %%rd6, %llu;\n", (unsigned long long)ops[i / 3].start);
        snprintf(
            text, sizeof(text), "%s%s%s%s%s",
            BEGIN("") NEXT_READY "add.u32 %r7, %r7, 64;\nadd.u64 %rd2, %rd2, 64;\ncvt.u64.u32 %rd16, %r7;\n"
                                 "mov.u64 %rd8, 0;\n",
            start, "st.shared.u64 [%r3+64], %rd6;\n" SYNC "setp.ne.u32 %p1, %r2, 0;\n@%p1 bra E;\n", body,
            "\nE: " SYNC "ld.shared.u64 %rd7, [%r3+64];\nmul.wide.u32 %rd4, %r5, 16;\n"
            "add.u64 %rd4, %rd4, %rd1;\n@%p1 bra X;\nst.global.v2.u64 [%rd4], {%rd7, %rd8};\nX:" END);
        r = go(text, 6, 32, 3, &f);
        for (int b = 0; b < 6; b++)
            ok &= got[2 * b] == ops[i / 3].want && got[2 * b + 1] == ops[i / 3].got;
        snprintf(name, sizeof(name), "%.*s %s", (int)strcspn(body, "\n"), body,
                 how == 0   ? "by an offset"
                 : how == 1 ? "generic"
                            : "by an offset of 64 bits");
        t_result(name, !r && ok, "%d %s: %llx %llx", r, f.message, (unsigned long long)got[0],
                 (unsigned long long)got[1]);
    }
}

/* Operations that count at a barrier object of another block. */
static void test_async(void)
{
#define INIT(n) \
    "setp.ne.u32 %p1, %r2, 0;\n@%p1 bra I;\nmbarrier.init.shared::cta.b64 [%r4], " n ";\n" \
    "fence.mbarrier_init.release.cluster;\nI: " SYNC "mapa.shared::cluster.u32 %r8, %r4, %r6;\n"
#define WAIT "W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r4], 0;\n@!%p2 bra W;\n"
#define OUT \
    "mad.lo.u32 %r14, %r5, 32, %r2;\nmul.wide.u32 %rd4, %r14, 4;\nadd.u64 %rd4, %rd4, %rd1;\n" \
    "mad.lo.u32 %r15, %r2, 4, %r3;\nld.shared.u32 %r16, [%r15];\nst.global.u32 [%rd4], %r16;\n"

    CHECK(
        "an arrival from another block",
        KERNEL(NEXT_READY INIT(
            "32") "mad.lo.u32 %r9, %r2, 4, %r7;\nmad.lo.u32 %r10, %r5, 100, %r2;\nst.shared::cluster.u32 [%r9], %r10;\n"
                  "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r8];\n" WAIT OUT SYNC),
        8, 32, 4, 256, (i / 128 * 4 + (i / 32 + 3) % 4) * 100 + i % 32);
    CHECK("st.async",
          KERNEL(NEXT_READY INIT(
              "1") "@%p1 bra A;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 128;\n"
                   "A: mad.lo.u32 %r9, %r2, 4, %r7;\nmad.lo.u32 %r10, %r5, 100, %r2;\n"
                   "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r9], %r10, [%r8];\n" WAIT
                       OUT SYNC),
          8, 32, 4, 256, (i / 128 * 4 + (i / 32 + 3) % 4) * 100 + i % 32);
    CHECK(
        "red.async",
        KERNEL(NEXT_READY "mad.lo.u32 %r15, %r2, 4, %r3;\nst.shared.u32 [%r15], 1000;\n" INIT(
            "1") "@%p1 bra A;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 128;\n"
                 "A: mad.lo.u32 %r9, %r2, 4, %r7;\nred.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 "
                 "[%r9], %r5, [%r8];\n" WAIT OUT SYNC),
        4, 32, 2, 128, 1000 + (i / 32 ^ 1));
    CHECK(
        "a bulk copy to another block",
        KERNEL(
            NEXT_READY
            "mad.lo.u32 %r15, %r2, 4, %r3;\nmad.lo.u32 %r10, %r5, 100, %r2;\nst.shared.u32 [%r15+512], %r10;\n"
            "bar.sync 0;\n" INIT(
                "1") "@%p1 bra W;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 128;\nadd.u32 %r11, %r3, 512;\n"
                     "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r7], [%r11], 128, [%r8];\n" WAIT
                         OUT SYNC),
        8, 32, 4, 256, (i / 128 * 4 + (i / 32 + 3) % 4) * 100 + i % 32);
    CHECK("a bulk copy to several blocks",
          KERNEL(
              NEXT_READY
              "mad.lo.u32 %r14, %r5, 32, %r2;\nmul.wide.u32 %rd4, %r14, 4;\nadd.u64 %rd4, %rd4, %rd1;\n"
              "mad.lo.u32 %r10, %r5, 100, %r2;\nst.global.u32 [%rd4+8192], %r10;\n" INIT(
                  "1") "@%p1 bra W;\nsetp.eq.u32 %p3, %r0, 1;\nmov.u16 %h1, 13;\n@%p3 bra B;\n"
                       "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 128;\nbra W;\n"
                       "B: mbarrier.arrive.shared::cta.b64 _, [%r4];\nadd.u64 %rd5, %rd4, 8192;\n"
                       "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                       "[%r3], [%rd5], 128, [%r4], %h1;\n" WAIT OUT SYNC),
          8, 32, 4, 256, i / 32 % 4 == 1 ? 0 : (i / 128 * 4 + 1) * 100 + i % 32);
#undef INIT
#undef WAIT
#undef OUT
}

/* ---- addresses ---- */

static void test_addresses(void)
{
    CHECK(
        "mapa and getctarank",
        KERNEL(
            "cvt.u64.u32 %rd15, %r3;\ncvta.shared.u64 %rd2, %rd15;\nmov.u32 %r20, 0;\nmov.u32 %r10, 0;\n"
            "L: mapa.shared::cluster.u32 %r7, s, %r10;\ngetctarank.shared::cluster.u32 %r11, %r7;\n"
            "mapa.u64 %rd3, %rd2, %r10;\ngetctarank.u64 %r12, %rd3;\nsub.u64 %rd4, %rd3, %rd2;\n"
            /* an address that was mapped is mapped again */
            "mapa.shared::cluster.u32 %r13, %r7, 0;\ngetctarank.shared::cluster.u32 %r13, %r13;\n"
            "cvta.to.shared.u64 %rd5, %rd3;\ncvt.u32.u64 %r14, %rd5;\nsetp.ne.u32 %p1, %r14, %r7;\n"
            "isspacep.shared::cluster %p2, %rd3;\nisspacep.shared::cta %p3, %rd3;\nsetp.eq.u32 %p4, %r10, %r0;\n"
            "xor.pred %p3, %p3, %p4;\nisspacep.global %p4, %rd3;\nor.pred %p3, %p3, %p4;\nnot.pred %p2, %p2;\n"
            "or.pred %p1, %p1, %p2;\nor.pred %p1, %p1, %p3;\nselp.u32 %r15, 1000, 0, %p1;\n"
            "add.u32 %r20, %r20, %r15;\nsub.u32 %r11, %r11, %r10;\nsub.u32 %r12, %r12, %r10;\n"
            "add.u32 %r20, %r20, %r11;\nadd.u32 %r20, %r20, %r12;\nadd.u32 %r20, %r20, %r13;\n"
            "add.u32 %r10, %r10, 1;\nsetp.lt.u32 %p1, %r10, %r1;\n@%p1 bra L;\n"
            "getctarank.shared::cluster.u32 %r16, %r3;\nsub.u32 %r16, %r16, %r0;\nadd.u32 %r20, %r20, %r16;\n"
            "getctarank.u64 %r16, %rd2;\nsub.u32 %r16, %r16, %r0;\nadd.u32 %r20, %r20, %r16;\n"
            "mul.wide.u32 %rd4, %r5, 4;\nadd.u64 %rd4, %rd4, %rd1;\nadd.u32 %r20, %r20, 1;\n"
            "st.global.u32 [%rd4], %r20;"),
        16, 32, 8, 16, 1);
}

/* Accesses outside the blocks' shared memory are refused, and adjacent memory of this process stays
   unchanged. */
static void hostile(const char *name, uint32_t cluster, const char *body, const char *says)
{
    char text[4096];
    struct sg_fault f;
    int r;

    snprintf(text, sizeof(text), "%s%s%s", BEGIN("") NEXT_READY SYNC, body, "\n" SYNC END);
    r = go(text, 4, 32, cluster, &f);
    t_result(name, (r == 700 || r == 716) && strstr(f.message, says), "%d %s", r, f.message);
}

static void test_hostile(void)
{
    static const char *const ranks[] = {"2",   "3",     "15",         "16",         "17",        "255",
                                        "256", "65536", "0x7fffffff", "0xffffffff", "0xfffffffe"};
    /* Behind shared memory, on its end, behind all blocks, where a sum wraps or is negative. */
    static const char *const offsets[] = {"1040",       "1036",       "65536",      "0xfffff0",
                                          "0x1000000",  "0x2000000",  "0x10000000", "0x11000000",
                                          "0x40000000", "0x7ffffff0", "0xfdfffff0"};
    char body[512], name[96];

    for (size_t i = 0; i < 2 * sizeof(ranks) / sizeof(ranks[0]); i++) {
        const bool wide = i & 1;

        snprintf(name, sizeof(name), "rank %s of 2, %s", ranks[i / 2], wide ? "generic" : "by an offset");
        snprintf(body, sizeof(body),
                 wide ? "mapa.u64 %%rd3, %%rd2, %s;\nst.u32 [%%rd3], 1;"
                      : "mapa.shared::cluster.u32 %%r8, %%r3, %s;\nst.shared::cluster.u32 [%%r8], 1;",
                 ranks[i / 2]);
        hostile(name, 2, body, "shared address");
    }
    for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
        snprintf(name, sizeof(name), "8 bytes at %s in the last block of two", offsets[i]);
        snprintf(body, sizeof(body),
                 "mapa.shared::cluster.u32 %%r8, %%r3, 1;\nadd.u32 %%r8, %%r8, %s;\n"
                 "st.shared::cluster.v2.u32 [%%r8], {1, 1};",
                 offsets[i]);
        hostile(name, 2, body, "shared address");
        snprintf(body, sizeof(body),
                 "mapa.shared::cluster.u32 %%r8, %%r3, 1;\nadd.u32 %%r8, %%r8, %s;\n"
                 "atom.shared::cluster.add.u64 %%rd3, [%%r8], 1;",
                 offsets[i]);
        strcat(name, ", atomic");
        hostile(name, 2, body, "shared address");
    }
    hostile("a negative offset of the instruction", 2,
            "mapa.shared::cluster.u32 %r8, %r3, 1;\nld.shared::cluster.u32 %r9, [%r8+-4];", "shared address");
    hostile(
        "an offset of 64 bits that wraps", 2,
        "mapa.shared::cluster.u32 %r8, %r3, 1;\ncvt.u64.u32 %rd3, %r8;\nadd.u64 %rd3, %rd3, 0x100000000;\n"
        "ld.shared::cluster.u32 %r9, [%rd3];",
        "shared address");
    hostile(
        "a generic address below the window", 2,
        "cvt.u64.u32 %rd3, %r3;\nsub.u64 %rd2, %rd2, %rd3;\nsub.u64 %rd2, %rd2, 0x3000000;\nld.u32 %r9, [%rd2];",
        "out of bounds");
    hostile("mapa of an address of no window", 2, "mapa.u64 %rd3, %rd1, 0;\nst.u32 [%rd3], 1;",
            "shared address");
    hostile(
        "mapa of local memory", 2,
        ".local .align 4 .b32 q[4];\nmov.u64 %rd3, q;\ncvta.local.u64 %rd3, %rd3;\nmapa.u64 %rd3, %rd3, 1;\n"
        "st.u32 [%rd3], 1;",
        "shared address");
    hostile("another block's window where a block is alone", 1,
            "add.u32 %r8, %r3, 0x1000000;\nld.shared::cluster.u32 %r9, [%r8];", "shared address");
    hostile("rank 1 where a block is alone", 1,
            "mapa.shared::cluster.u32 %r8, %r3, 1;\nld.shared::cluster.u32 %r9, [%r8];", "shared address");
    hostile(
        "a bulk copy across the end of another block's memory", 2,
        "mapa.shared::cluster.u32 %r8, %r3, 1;\nmapa.shared::cluster.u32 %r9, %r4, 1;\n"
        "add.u32 %r8, %r8, 768;\n"
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r8], [%r3], 512, [%r9];",
        "shared address");
    hostile("a bulk copy to a block that is not there", 2,
            "mov.u16 %h1, 4;\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
            ".multicast::cluster [%r3], [%rd1], 64, [%r4], %h1;",
            "shared address");
    hostile(
        "a barrier object of a block that is not there", 2,
        "mapa.shared::cluster.u32 %r9, %r4, 7;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r9];",
        "shared address");
    hostile("st.async whose barrier object is nowhere", 2,
            "mapa.shared::cluster.u32 %r9, %r4, 7;\n"
            "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r7], 1, [%r9];",
            "shared address");
    hostile("misaligned in another block", 2, "ld.shared::cluster.u32 %r9, [%r7+2];", "misaligned");
}

/* ---- code as emitted by nvcc ---- */

static void test_nvcc(const char *path)
{
    FILE *in = fopen(path, "rb");
    char *text = calloc(1, TEXT_MAX);
    struct sg_fault f = {0};
    uint32_t wrong = 0;
    struct tk t;
    int r;

    if (!in || !text || !fread(text, 1, TEXT_MAX - 1, in)) {
        t_skip("hopper_90.ptx", "no nvcc when the tests were built");
    } else if (!tk_open(&t, text, "sums")) {
        t_result("sums of clusters", false, "%s", t.diag.message);
        sg_module_free(t.m);
    } else {
        memset(mem, 0, WORDS * 4);
        r = tk_run(&t, 8, 64, &mem, &f);
        for (uint32_t b = 0; b < 8; b++) {
            const uint32_t own = 64 * b * 64 + 2016, first = b / 4 * 4;

            wrong += mem[3 * b] != 4 * (64 * 64 * first + 2016) + 64 * 64 * 6;
            wrong += mem[3 * b + 1] != own + 1000000 || mem[3 * b + 2] != b % 4 + 40 + 200;
        }
        t_result("sums of clusters", !r && !wrong, "%d %s: %u %u %u", r, f.message, mem[0], mem[1], mem[2]);
        tk_close(&t);
    }
    if (in)
        fclose(in);
    free(text);
}

int main(int argc, char **argv)
{
    const char *dir = argc ? strrchr(argv[0], '/') : NULL;
    char path[4096];

    t_variant(argc, argv);
    mem = tm_alloc(WORDS * 4);
    test_places();
    test_barrier();
    test_accesses();
    test_async();
    test_addresses();
    test_hostile();
    snprintf(path, sizeof(path), "%.*shopper_90.ptx", dir ? (int)(dir - argv[0] + 1) : 0, dir ? argv[0] : "");
    test_nvcc(argc > 1 ? argv[1] : path);
    tm_free_all();
    return t_end("softgpu clusters");
}
