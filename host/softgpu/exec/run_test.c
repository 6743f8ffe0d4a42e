/* SPDX-License-Identifier: MIT */
/*
 * Lanes, warps and blocks together: divergence, barriers, exchange, atomics, printf; and refusals of
 * the parser. Failing launches: exec/fault_test.c.
 */
#include "exec/run_test.h"
#include "exec/heap.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Each case has a name, its PTX in columns, and its expected output. */
/* clang-format off */

/* Compares the first n words with e (in terms of i). */
#define CHECK(name, text, grid, block, n, e)                                 \
    do {                                                                     \
        struct sg_fault f_;                                                  \
        int r_ = go(text, grid, block, &f_);                                 \
        uint32_t i = 0, want = 0;                                            \
        for (; i < (n); i++) {                                               \
            want = (uint32_t)(e);                                            \
            if (mem[i] != want)                                              \
                break;                                                       \
        }                                                                    \
        t_result(name, !r_ && i == (n), "result %d %s; word %u is %u, expected %u", r_, \
                 f_.message, i, i < (n) ? mem[i] : 0, want);                 \
    } while (0)

static uint32_t collatz(uint32_t n)
{
    uint32_t k = 0;

    while (n > 1) {
        n = n & 1 ? 3 * n + 1 : n / 2;
        k++;
    }
    return k;
}

/* Values computed once per launch, once per row of blocks, and in each block; lanes differ, too. */
static void test_rows(void)
{
    const uint32_t grid[3] = {5, 3, 2}, block[3] = {48, 1, 1};
    struct { void *p; } prm = {mem};
    struct sg_fault f = {0};
    struct tk t;
    uint32_t i = 0;
    int r = -1;

    memset(mem, 0, COUNT * 4);
    if (tk_open(&t, KERNEL("",
            "mov.u32 %r9, %ctaid.y;\nmov.u32 %r10, %ctaid.z;\nmov.u32 %r11, %nctaid.x;\nmov.u32 %r12, %nctaid.y;\n"
            "mad.lo.u32 %r13, %r10, %r12, %r9;\nmad.lo.u32 %r14, %r13, %r1, %r9;\nmul.lo.u32 %r15, %r13, %r11;\n"
            "add.u32 %r16, %r15, %r2;\nmad.lo.u32 %r17, %r16, %r4, %r1;\nmul.wide.u32 %rd3, %r17, 4;\n"
            "add.u64 %rd3, %rd0, %rd3;\nmad.lo.u32 %r18, %r14, 100, %r2;\nst.global.u32 [%rd3], %r18;"), "t")) {
        r = tk_run3(&t, grid, block, 0, &prm, &f);
        tk_close(&t);
    }
    for (; i < 30 * 48; i++) {
        const uint32_t row = i / 48 / 5;

        if (mem[i] != (row * (i % 48) + row % 3) * 100 + i / 48 % 5)
            break;
    }
    t_result("rows of blocks", !r && i == 30 * 48, "result %d %s; word %u is %u", r, f.message, i, mem[i]);
}

static uint32_t several(uint32_t block, uint32_t thread)
{
    const uint32_t first = block & 1 ? block + 100 : 3 * block, second = block & 1 ? first + 7 : first;

    return thread < 10 ? first : second * 1000 + first;
}

static void test_divergence(void)
{
    CHECK("nested if", KERNEL("",
          "setp.lt.u32 %p1, %r1, 20;\n@%p1 bra A;\nsetp.lt.u32 %p2, %r1, 26;\n@%p2 bra B;\n"
          "mov.u32 %r9, 3;\nbra E;\nB: mov.u32 %r9, 2;\nbra E;\nA: setp.lt.u32 %p3, %r1, 7;\n"
          "@%p3 bra C;\nmov.u32 %r9, 1;\nbra E;\nC: mov.u32 %r9, 0;\nE: st.global.u32 [%rd1], %r9;"),
          3, 61, 3 * 61, i % 61 < 7 ? 0 : i % 61 < 20 ? 1 : i % 61 < 26 ? 2 : 3);
    CHECK("loops of different length", KERNEL("",
          "mov.u32 %r9, 0;\nmov.u32 %r10, %r5;\nL: setp.le.u32 %p1, %r10, 1;\n@%p1 bra E;\n"
          "and.b32 %r11, %r10, 1;\nsetp.eq.u32 %p2, %r11, 0;\n@%p2 bra H;\n"
          "mad.lo.u32 %r10, %r10, 3, 1;\nbra N;\nH: shr.u32 %r10, %r10, 1;\n"
          "N: add.u32 %r9, %r9, 1;\nbra L;\nE: st.global.u32 [%rd1], %r9;"), 4, 128, 512,
          collatz(i));
    CHECK("a value of the block, set in several places", KERNEL("",
          "and.b32 %r10, %r2, 1;\nsetp.eq.u32 %p1, %r10, 0;\n@%p1 bra A;\nadd.u32 %r11, %r2, 100;\nbra B;\n"
          "A: mul.lo.u32 %r11, %r2, 3;\nB: mov.u32 %r12, %r11;\n@%p1 bra C;\nadd.u32 %r11, %r12, 7;\n"
          "C: setp.lt.u32 %p2, %r1, 10;\n@%p2 bra D;\nmad.lo.u32 %r13, %r11, 1000, %r12;\n"
          "st.global.u32 [%rd1], %r13;\nbra E;\nD: st.global.u32 [%rd1], %r12;\nE:"), 9, 61, 9 * 61,
          several(i / 61, i % 61));
    CHECK("a value of the block that is not set on every way", KERNEL("",
          "mov.u32 %r11, 5;\nsetp.gt.u32 %p1, %r1, 40;\n@%p1 bra A;\nadd.u32 %r11, %r2, 100;\n"
          "A: st.global.u32 [%rd1], %r11;"), 5, 64, 320, i % 64 > 40 ? 5 : i / 64 + 100);
    CHECK("early exit before a barrier", KERNEL(".shared .align 4 .b32 s[128];\n",
          "setp.gt.u32 %p1, %r1, 99;\n@%p1 exit;\nmov.u32 %r9, s;\nshl.b32 %r10, %r1, 2;\n"
          "add.u32 %r11, %r9, %r10;\nst.shared.u32 [%r11], %r1;\nbar.sync 0;\n"
          "sub.u32 %r12, 99, %r1;\nshl.b32 %r12, %r12, 2;\nadd.u32 %r12, %r12, %r9;\n"
          "ld.shared.u32 %r13, [%r12];\nst.global.u32 [%rd1], %r13;"), 1, 128, 100, 99 - i);
    CHECK("exit of half a warp, then a barrier", KERNEL("",
          "and.b32 %r9, %r1, 1;\nsetp.eq.u32 %p1, %r9, 1;\n@%p1 bra X;\nbar.sync 0;\n"
          "st.global.u32 [%rd1], 7;\nX: ret;"), 1, 96, 96, i & 1 ? 0 : 7);
    CHECK("lanes wait for a lane of their warp", KERNEL("",
          "setp.eq.u32 %p1, %r1, 5;\n@%p1 bra S;\nL: ld.volatile.global.u32 %r9, [%rd0+64];\n"
          "setp.eq.u32 %p2, %r9, 0;\n@%p2 bra L;\nst.global.u32 [%rd1+4096], %r9;\nbra E;\n"
          "S: mov.u32 %r10, 0;\nM: add.u32 %r10, %r10, 1;\nsetp.lt.u32 %p3, %r10, 2000;\n"
          "@%p3 bra M;\nst.volatile.global.u32 [%rd0+64], 9;\nE:"), 1, 32, 1024 + 32,
          i == 16 || (i >= 1024 && i != 1024 + 5) ? 9 : 0);
    CHECK("a lock taken by every lane in turn", KERNEL("",
          "L: atom.global.cas.b32 %r9, [%rd0], 0, 1;\nsetp.ne.u32 %p1, %r9, 0;\n@%p1 bra L;\n"
          "ld.volatile.global.u32 %r10, [%rd0+4];\nadd.u32 %r10, %r10, 1;\n"
          "st.volatile.global.u32 [%rd0+4], %r10;\nmembar.gl;\n"
          "atom.global.exch.b32 %r9, [%rd0], 0;"), 4, 64, 2, i ? 256 : 0);
    CHECK("labels of scopes", KERNEL("",
          "mov.u32 %r9, 0;\n{ .reg .pred p;\nW: add.u32 %r9, %r9, 1;\nsetp.ge.u32 p, %r9, %r1;\n"
          "@p bra D;\nbra W;\nD: }\n{ .reg .pred p;\nW: add.u32 %r9, %r9, 3;\n"
          "setp.ge.u32 p, %r9, 40;\n@p bra D;\n{ { bra W; } }\nD: }\n"
          "setp.gt.u32 %p1, %r1, 20;\n{ { @%p1 bra O; } }\nadd.u32 %r9, %r9, 1000;\n"
          "O: st.global.u32 [%rd1], %r9;"), 1, 32, 32,
          (i ? i : 1) + (40 - (i ? i : 1) + 2) / 3 * 3 + (i > 20 ? 0 : 1000));
    CHECK("values of the block, set by some lanes only", KERNEL("",
          "setp.lt.u32 %p1, %r1, 20;\nmul.wide.u32 %rd3, %r2, %r4;\nshl.b64 %rd3, %rd3, 2;\nadd.u64 %rd3, %rd3, %rd0;\n"
          "mul.wide.u32 %rd4, %r1, 4;\nadd.u64 %rd4, %rd4, %rd3;\n@%p1 bra A;\nmul.lo.u32 %r9, %r2, 7;\n"
          "add.u32 %r10, %r9, 5;\ncvt.u64.u32 %rd5, %r10;\nmin.u32 %r15, %r10, 40;\nbra E;\n"
          "A: mad.lo.u32 %r11, %r4, %r2, 1;\nmul.hi.u32 %r12, %r11, 0xc0000000;\nadd.u32 %r13, %r11, %r12;\n"
          "E: @%p1 bra B;\ncvt.u32.u64 %r14, %rd5;\nadd.u32 %r14, %r14, %r15;\nst.global.u32 [%rd4], %r14;\nbra F;\n"
          "B: st.global.u32 [%rd4], %r13;\nF:"), 9, 61, 9 * 61,
          i % 61 < 20 ? i / 61 * 61 + 1 + (uint32_t)((i / 61 * 61 + 1) * 0xc0000000ull >> 32)
                      : i / 61 * 7 + 5 + (i / 61 * 7 + 5 < 40 ? i / 61 * 7 + 5 : 40));
    CHECK("pairs of halves, up to the end of memory", KERNEL("",
          ".reg .b16 %h<4>;\nst.global.u32 [%rd1], %r5;\nbar.sync 0;\nand.b32 %r9, %r5, 31;\nmul.wide.u32 %rd3, %r9, 4;\n"
          "add.u64 %rd3, %rd3, %rd0;\nld.global.u16 %h0, [%rd3];\nld.global.u16 %h1, [%rd3+2];\nld.global.u16 %h2, [%rd3+16256];\n"
          "ld.global.u16 %h3, [%rd3+16258];\nmov.b32 %r10, {%h1, %h0};\nmov.b32 %r11, {%h2, %h3};\nadd.u32 %r10, %r10, %r11;\n"
          "bar.sync 0;\nst.global.u32 [%rd1], %r10;"), 1, 32, 32, i << 16);
    CHECK("a loop around values of the block", KERNEL("",
          "mov.u32 %r9, 0;\nmov.u32 %r10, 0;\nL: setp.ge.u32 %p1, %r9, %r3;\n@%p1 bra E;\nadd.u32 %r11, %r2, 3;\n"
          "mul.lo.u32 %r12, %r4, 10;\nadd.u32 %r13, %r11, %r12;\nadd.u32 %r10, %r10, %r13;\nadd.u32 %r9, %r9, 1;\nbra L;\n"
          "E: st.global.u32 [%rd1], %r10;"), 5, 64, 320, (i & 31) * (i / 64 + 3 + 640));
    /* written by GCC's OpenMP offloading */
    CHECK("registers that are vectors", KERNEL("",
          ".reg .v2 .u32 %v;\n.reg .v4 .b32 %w;\n.reg .v2 .u64 %x;\nmov.v2.u32 %v, {5, %r1};\n"
          "mov.u32 %w.x, %v.y;\nmov.u32 %w.g, %v.x;\nadd.u32 %w.z, %w.x, %w.y;\nmov.u32 %w.a, 7;\n"
          "and.b64 %rd3, %rd2, 0;\nadd.u64 %rd3, %rd0, %rd3;\nshl.b32 %r6, %r5, 4;\n"
          "cvt.u64.u32 %rd4, %r6;\nadd.u64 %rd3, %rd3, %rd4;\nst.global.v4.u32 [%rd3], %w;\n"
          "ld.global.v2.u64 %x, [%rd3];\ncvt.u32.u64 %r7, %x.y;\nadd.u32 %r7, %r7, 1;\n"
          "st.global.u32 [%rd3+12], %r7;"),
          1, 64, 256, i % 4 == 0 ? i / 4 : i % 4 == 1 ? 5 : i % 4 == 2 ? i / 4 + 5 : i / 4 + 6);
    CHECK("parameters that are a range", KERNEL(
          ".func (.param .u32 q) f(.param .u32 a, .param .u32 b)\n{\n.reg .u32 %x<3>;\n"
          "ld.param.u32 %x0, [a];\nld.param.u32 %x1, [b];\nsub.u32 %x2, %x0, %x1;\n"
          "st.param.u32 [q], %x2;\nret;\n}\n",
          "{\n.param .u32 %P<2>;\n.param .u32 q;\nst.param.u32 [%P0], %r1;\nst.param.u32 [%P1], 3;\n"
          "call.uni (q), f, (%P0, %P1);\nld.param.u32 %r6, [q];\n}\nst.global.u32 [%rd1], %r6;"),
          1, 64, 64, i - 3);
    CHECK("brx.idx", KERNEL("",
          "and.b32 %r9, %r1, 3;\nts: .branchtargets A, B, C, A;\nbrx.idx %r9, ts;\n"
          "A: mov.u32 %r10, 10;\nbra E;\nB: mov.u32 %r10, 11;\nbra E;\nC: mov.u32 %r10, 12;\n"
          "E: st.global.u32 [%rd1], %r10;"), 1, 40, 40,
          (i & 3) == 1 ? 11 : (i & 3) == 2 ? 12 : 10);
}

static void test_warp(void)
{
    CHECK("shfl.bfly sum", KERNEL("",
          "mov.u32 %r9, %r1;\nmov.u32 %r10, 16;\nL: shfl.sync.bfly.b32 %r11, %r9, %r10, 31, -1;\n"
          "add.u32 %r9, %r9, %r11;\nshr.u32 %r10, %r10, 1;\nsetp.ne.u32 %p1, %r10, 0;\n"
          "@%p1 bra L;\nst.global.u32 [%rd1], %r9;"), 1, 64, 64, i < 32 ? 496 : 1520);
    CHECK("shfl.up with predicate", KERNEL("",
          "shfl.sync.up.b32 %r9|%p1, %r1, 3, 0, -1;\nselp.u32 %r10, %r9, 100, %p1;\n"
          "st.global.u32 [%rd1], %r10;"), 1, 32, 32, i >= 3 ? i - 3 : 100);
    CHECK("shfl.down in segments of 8", KERNEL("",
          "shfl.sync.down.b32 %r9|%p1, %r1, 2, 0x181f, -1;\nselp.u32 %r10, %r9, 100, %p1;\n"
          "st.global.u32 [%rd1], %r10;"), 1, 32, 32, (i & 7) < 6 ? i + 2 : 100);
    CHECK("shfl.idx in segments of 16", KERNEL("",
          "shfl.sync.idx.b32 %r9, %r1, 5, 0x101f, -1;\nst.global.u32 [%rd1], %r9;"), 1, 32, 32,
          (i & 16) + 5);
    CHECK("vote and match", KERNEL("",
          "setp.gt.u32 %p1, %r1, 10;\nvote.sync.ballot.b32 %r9, %p1, -1;\n"
          "vote.sync.any.pred %p2, %p1, 0xff;\nvote.sync.all.pred %p3, !%p1, 0xff;\n"
          "selp.u32 %r10, 1, 0, %p2;\nselp.u32 %r11, 2, 0, %p3;\nshr.u32 %r12, %r1, 2;\n"
          "match.any.sync.b32 %r13, %r12, -1;\nadd.u32 %r14, %r10, %r11;\n"
          "setp.eq.u32 %p4, %r9, 0xfffff800;\nselp.u32 %r15, 4, 0, %p4;\n"
          "add.u32 %r14, %r14, %r15;\nmul.lo.u32 %r13, %r13, 8;\nxor.b32 %r14, %r14, %r13;\n"
          "st.global.u32 [%rd1], %r14;"), 1, 32, 8, 6 ^ (0xfu << (i / 4 * 4)) * 8);
    CHECK("redux", KERNEL("",
          "redux.sync.add.s32 %r9, %r1, -1;\nredux.sync.max.u32 %r10, %r1, -1;\n"
          "mad.lo.u32 %r9, %r10, 1000, %r9;\nst.global.u32 [%rd1], %r9;"), 1, 32, 32, 31496);
    CHECK("lanes meet again at a shfl", KERNEL("",
          "and.b32 %r9, %r1, 1;\nsetp.eq.u32 %p1, %r9, 1;\nmov.u32 %r10, %r1;\n@%p1 bra A;\n"
          "add.u32 %r10, %r10, 100;\nA: shfl.sync.bfly.b32 %r11, %r10, 1, 31, -1;\n"
          "st.global.u32 [%rd1], %r11;"), 1, 32, 32, i & 1 ? i - 1 + 100 : i + 1);
    CHECK("activemask", KERNEL("",
          "setp.lt.u32 %p1, %r1, 7;\n@!%p1 bra E;\nactivemask.b32 %r9;\n"
          "st.global.u32 [%rd1], %r9;\nE:"), 1, 32, 32, i < 7 ? 0x7f : 0);
    CHECK("special registers", KERNEL("",
          "mov.u32 %r9, %warpid;\nmov.u32 %r10, %lanemask_lt;\npopc.b32 %r10, %r10;\n"
          "mov.u32 %r11, %nctaid.x;\nmad.lo.u32 %r9, %r9, 100, %r10;\n"
          "mad.lo.u32 %r9, %r11, 10000, %r9;\nst.global.u32 [%rd1], %r9;"), 2, 64, 128,
          20000 + i / 32 % 2 * 100 + i % 32);
}

/* Warps that wait, exit and diverge at barriers; results must not depend on the warp scheduling. */
static void test_turns(void)
{
    CHECK("a loop round two barriers", KERNEL(".shared .align 4 .b32 s[256];\n",
        "mov.u32 %r9, s;\nmov.u32 %r10, 0;\nmov.u32 %r11, 0;\n"
        "L: bar.sync 0;\nmad.lo.u32 %r12, %r1, 4, %r9;\nadd.u32 %r13, %r1, %r10;\nst.shared.u32 [%r12], %r13;\n"
        "bar.sync 0;\nadd.u32 %r14, %r1, 33;\nsetp.ge.u32 %p1, %r14, %r4;\n@%p1 sub.u32 %r14, %r14, %r4;\n"
        "mad.lo.u32 %r12, %r14, 4, %r9;\nld.shared.u32 %r13, [%r12];\nadd.u32 %r11, %r11, %r13;\n"
        "add.u32 %r10, %r10, 1;\nsetp.lt.u32 %p2, %r10, 700;\n@%p2 bra L;\nst.global.u32 [%rd1], %r11;"), 3, 128, 384,
        700 * ((i + 33) % 128) + 699 * 350);
    CHECK("warps leave while others wait", KERNEL(".shared .align 4 .b32 s[4];\n",
          "mov.u32 %r9, s;\nshr.u32 %r10, %r1, 5;\nsetp.eq.u32 %p1, %r10, 1;\n@%p1 ret;\n"
          "mad.lo.u32 %r11, %r10, 4, %r9;\nadd.u32 %r12, %r1, %r2;\nst.shared.u32 [%r11], %r12;\nbar.sync 0;\n"
          "setp.eq.u32 %p2, %r10, 3;\n@%p2 ret;\nbar.sync 0;\nxor.b32 %r10, %r10, 2;\n"
          "mad.lo.u32 %r11, %r10, 4, %r9;\nld.shared.u32 %r13, [%r11];\nst.global.u32 [%rd1], %r13;"), 9, 128, 1152,
          i / 32 % 4 == 0 ? 95 + i / 128 : i / 32 % 4 == 2 ? 31 + i / 128 : 0);
    CHECK("a part of a warp waits", KERNEL(".shared .align 4 .b32 s[2];\n",
          "mov.u32 %r9, s;\nsetp.ge.u32 %p1, %r1, 40;\n@%p1 ret;\nsetp.eq.u32 %p2, %r1, 39;\n"
          "@%p2 st.shared.u32 [%r9], 5;\nbar.sync 0;\nld.shared.u32 %r10, [%r9];\nbar.sync 0;\n"
          "setp.eq.u32 %p2, %r1, 0;\n@%p2 st.shared.u32 [%r9], 7;\nbar.sync 0;\nld.shared.u32 %r11, [%r9];\n"
          "mad.lo.u32 %r10, %r10, 10, %r11;\nst.global.u32 [%rd1], %r10;"), 3, 64, 192, i % 64 < 40 ? 57 : 0);
    CHECK("48 threads", KERNEL(".shared .align 4 .b32 s[48];\n",
          "mov.u32 %r9, s;\nmad.lo.u32 %r10, %r1, 4, %r9;\nst.shared.u32 [%r10], %r5;\nbar.sync 0;\n"
          "sub.u32 %r11, 47, %r1;\nmad.lo.u32 %r10, %r11, 4, %r9;\nld.shared.u32 %r12, [%r10];\n"
          "st.global.u32 [%rd1], %r12;"), 5, 48, 240, i / 48 * 48 + 47 - i % 48);
    CHECK("lanes part and meet in a loop with a barrier", KERNEL(".shared .align 4 .b32 s[1];\n",
          "mov.u32 %r9, 0;\nmov.u32 %r10, 0;\nL: and.b32 %r11, %r1, 7;\nmov.u32 %r12, 0;\n"
          "setp.lt.u32 %p1, %r11, 3;\n@%p1 bra M;\nK: add.u32 %r10, %r10, 1;\nadd.u32 %r12, %r12, 1;\n"
          "setp.lt.u32 %p1, %r12, %r11;\n@%p1 bra K;\nM: bar.sync 0;\nadd.u32 %r9, %r9, 1;\n"
          "setp.lt.u32 %p1, %r9, 5;\n@%p1 bra L;\nst.global.u32 [%rd1], %r10;"), 2, 96, 192,
          i % 96 % 8 < 3 ? 0 : 5 * (i % 96 % 8));
    CHECK("all lanes store to one shared address", KERNEL(".shared .align 4 .b32 s[4];\n",
          "mov.u32 %r9, s;\nshr.u32 %r10, %r1, 5;\nmad.lo.u32 %r11, %r10, 4, %r9;\n"
          "st.shared.u32 [%r11], %r5;\nbar.sync 0;\nxor.b32 %r10, %r10, 1;\nmad.lo.u32 %r11, %r10, 4, %r9;\n"
          "ld.shared.u32 %r12, [%r11];\nst.global.u32 [%rd1], %r12;"), 2, 128, 256,
          i / 128 * 128 + (i / 32 % 4 ^ 1) * 32 + 31);
    CHECK("the first lane stores alone", KERNEL("",
          "setp.ne.u32 %p1, %r3, 0;\n@%p1 bra E;\nst.global.u32 [%rd1], %r5;\nst.global.u32 [%rd1+8], %r5;\nE:"),
          2, 64, 128, i % 32 == 0 ? i : i % 32 == 2 ? i - 2 : 0);
}

static void test_blocks(void)
{
    CHECK("bar.red", KERNEL("",
          "setp.lt.u32 %p1, %r1, 10;\nbar.red.popc.u32 %r9, 0, %p1;\nbar.red.or.pred %p2, 0, %p1;\n"
          "bar.red.and.pred %p3, 0, %p1;\nselp.u32 %r10, 100, 0, %p2;\nselp.u32 %r11, 1000, 0, %p3;\n"
          "add.u32 %r9, %r9, %r10;\nadd.u32 %r9, %r9, %r11;\nst.global.u32 [%rd1], %r9;"),
          2, 96, 192, 110);
    CHECK("named barriers, arrive", KERNEL(".shared .align 4 .b32 s[2];\n",
          "mov.u32 %r9, s;\nsetp.lt.u32 %p1, %r1, 32;\n@%p1 bra P;\nbar.sync 1, 64;\n"
          "ld.shared.u32 %r10, [%r9];\nst.global.u32 [%rd1], %r10;\nbra E;\n"
          "P: st.shared.u32 [%r9], 77;\nbar.arrive 1, 64;\nE:"), 1, 64, 64, i < 32 ? 0 : 77);
    CHECK("atomics of many blocks", KERNEL("",
          "atom.global.add.u32 %r9, [%rd0], 1;\nred.global.max.u32 [%rd0+4], %r5;\n"
          "red.global.or.b32 [%rd0+8], %r2;\natom.global.inc.u32 %r9, [%rd0+12], 9;\n"
          "cvt.rn.f32.u32 %f1, %r1;\nred.global.add.f32 [%rd0+16], %f1;\n"
          "red.global.min.s32 [%rd0+20], -5;"), 16, 64, 6,
          i == 0 ? 1024 : i == 1 ? 1023 : i == 2 ? 15 : i == 3 ? 4 : i == 4 ? 0x46fc0000u
                                                                            : 0xfffffffbu);
    CHECK("shared atomics", KERNEL(".shared .align 4 .b32 h[8];\n",
          "mov.u32 %r9, h;\nsetp.lt.u32 %p1, %r1, 8;\nshl.b32 %r10, %r1, 2;\n"
          "add.u32 %r10, %r10, %r9;\n@%p1 st.shared.u32 [%r10], 0;\nbar.sync 0;\n"
          "and.b32 %r11, %r1, 7;\nshl.b32 %r11, %r11, 2;\nadd.u32 %r11, %r11, %r9;\n"
          "atom.shared.add.u32 %r12, [%r11], 1;\nbar.sync 0;\n@!%p1 bra E;\n"
          "ld.shared.u32 %r13, [%r10];\nst.global.u32 [%rd1], %r13;\nE:"), 1, 200, 8, 25);
    CHECK("a 64-bit address before a local variable, with an offset into it", KERNEL("",
          ".local .align 4 .b8 d[8];\nmov.u64 %rd3, d;\nadd.s64 %rd4, %rd3, -12;\n"
          "st.local.u32 [%rd4+12], %r1;\nst.local.u32 [%rd4+16], 7;\n"
          "ld.local.u32 %r6, [%rd3];\nld.local.u32 %r7, [%rd3+4];\nadd.u32 %r8, %r6, %r7;\n"
          "st.global.u32 [%rd1], %r8;"), 1, 32, 32, i + 7);
    CHECK("local memory and generic addresses", KERNEL("",
          ".local .align 8 .b8 d[64];\nmov.u64 %rd3, d;\ncvta.local.u64 %rd4, %rd3;\n"
          "and.b32 %r9, %r1, 15;\nmul.wide.u32 %rd5, %r9, 4;\nadd.u64 %rd6, %rd4, %rd5;\n"
          "st.u32 [%rd6], %r1;\nadd.u64 %rd7, %rd3, %rd5;\nld.local.u32 %r10, [%rd7];\n"
          "st.local.v2.u32 [%rd3], {%r10, 5};\nld.u64 %rd8, [%rd4];\nshr.u64 %rd9, %rd8, 32;\n"
          "cvt.u32.u64 %r11, %rd9;\ncvt.u32.u64 %r12, %rd8;\nmad.lo.u32 %r12, %r12, 10, %r11;\n"
          "st.global.u32 [%rd1], %r12;"), 1, 70, 70, i * 10 + 5);
    CHECK("shared through a generic address", KERNEL(".shared .align 8 .b32 s[64];\n",
          "mov.u64 %rd3, s;\ncvta.shared.u64 %rd4, %rd3;\nmul.wide.u32 %rd5, %r1, 4;\n"
          "add.u64 %rd6, %rd4, %rd5;\nst.u32 [%rd6], %r1;\nbar.sync 0;\n"
          "cvta.to.shared.u64 %rd7, %rd6;\nld.shared.u32 %r9, [%rd7];\n"
          "isspacep.shared %p1, %rd6;\nisspacep.global %p2, %rd1;\nselp.u32 %r10, 100, 0, %p1;\n"
          "selp.u32 %r11, 200, 0, %p2;\nadd.u32 %r9, %r9, %r10;\nadd.u32 %r9, %r9, %r11;\n"
          "st.global.u32 [%rd1], %r9;"), 1, 64, 64, i + 300);
    CHECK("cp.async", KERNEL(".shared .align 16 .b8 s[640];\n",
          "st.global.u32 [%rd1], %r1;\nmov.u32 %r9, s;\nmul.lo.u32 %r10, %r1, 16;\n"
          "add.u32 %r9, %r9, %r10;\nand.b32 %r11, %r1, 7;\nmul.wide.u32 %rd3, %r11, 16;\n"
          "add.u64 %rd3, %rd3, %rd0;\nand.b32 %r12, %r1, 1;\nmul.lo.u32 %r12, %r12, 12;\n"
          "sub.u32 %r12, 16, %r12;\nbar.sync 0;\n"
          "cp.async.cg.shared.global [%r9], [%rd3], 16, %r12;\ncp.async.commit_group;\n"
          "cp.async.wait_group 0;\nbar.sync 0;\nld.shared.v4.u32 {%r13, %r14, %r15, %r16}, [%r9];\n"
          "add.u32 %r13, %r13, %r14;\nadd.u32 %r13, %r13, %r15;\nadd.u32 %r13, %r13, %r16;\n"
          "st.global.u32 [%rd1], %r13;"), 1, 40, 40,
          i & 1 ? (i & 7) * 4 : (i & 7) * 16 + 6);
    CHECK("vectors", KERNEL("",
          "mul.wide.u32 %rd3, %r1, 32;\nadd.u64 %rd3, %rd3, %rd0;\n"
          "st.global.v8.b32 [%rd3], {%r1, 1, 2, 3, 4, 5, 6, 7};\n"
          "ld.global.v8.b32 {%r9, %r10, %r11, %r12, %r13, %r14, %r15, %r16}, [%rd3];\n"
          "add.u32 %r16, %r16, %r10;\nst.global.u32 [%rd3+28], %r16;\n"
          "ld.global.v4.u8 {%r9, %r10, %r11, %r12}, [%rd3+4];\nadd.u32 %r9, %r9, %r10;\n"
          "st.global.v2.u16 [%rd3+8], {%r9, %r16};\nld.global.v2.b64 {%rd4, %rd5}, [%rd3+16];\n"
          "st.global.v2.b64 [%rd3+16], {%rd4, %rd5};"), 1, 40, 320,
          i % 8 == 0 ? i / 8 : i % 8 == 7 ? 8 : i % 8 == 2 ? 0x80001 : i % 8);
    t_cooperative = true;
    CHECK("a barrier of the whole grid", KERNEL("",
          "atom.global.add.u32 %r9, [%rd0+8192], 1;\nL: ld.acquire.gpu.global.u32 %r10, [%rd0+8192];\n"
          "setp.lt.u32 %p1, %r10, 640;\n@%p1 bra L;\nst.global.u32 [%rd1], %r10;"), 20, 32, 640,
          640);
    t_cooperative = false;
}

static void test_calls(void)
{
    CHECK("functions", KERNEL(
          ".func (.param .b32 r) sq(.param .b32 a)\n{\n.reg .b32 %x<3>;\n.reg .pred %p<2>;\n"
          "ld.param.b32 %x1, [a];\nsetp.gt.u32 %p1, %x1, 9;\n@%p1 bra BIG;\n"
          "mul.lo.u32 %x2, %x1, %x1;\nst.param.b32 [r], %x2;\nret;\nBIG: st.param.b32 [r], 1;\n"
          "ret;\n}\n.func (.reg .u32 o) inc(.reg .u32 i)\n{\nadd.u32 o, i, 1;\nret;\n}\n",
          "{ .param .b32 q0; .param .b32 q1;\nst.param.b32 [q0], %r1;\n"
          "call.uni (q1), sq, (q0);\nld.param.b32 %r9, [q1];\n}\ncall (%r10), inc, (%r9);\n"
          "st.global.u32 [%rd1], %r10;"), 1, 32, 32, i > 9 ? 2 : i * i + 1);
    CHECK("calls through a pointer", KERNEL(
          ".func (.param .b32 r) f1(.param .b32 a);\n.func (.param .b32 r) f2(.param .b32 a);\n"
          ".global .align 8 .u64 tab[2] = {f1, f2};\n"
          ".func (.param .b32 r) f1(.param .b32 a)\n{\n.reg .b32 %x<3>;\nld.param.b32 %x1, [a];\n"
          "add.u32 %x1, %x1, 1000;\nst.param.b32 [r], %x1;\nret;\n}\n"
          ".func (.param .b32 r) f2(.param .b32 a)\n{\n.reg .b32 %x<3>;\nld.param.b32 %x1, [a];\n"
          "mul.lo.u32 %x1, %x1, 3;\nst.param.b32 [r], %x1;\nret;\n}\n",
          "and.b32 %r9, %r1, 1;\nmul.wide.u32 %rd3, %r9, 8;\nmov.u64 %rd4, tab;\n"
          "add.u64 %rd4, %rd4, %rd3;\nld.global.u64 %rd5, [%rd4];\n"
          "{ .param .b32 q0; .param .b32 q1;\nst.param.b32 [q0], %r1;\n"
          "proto: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
          "call (q1), %rd5, (q0), proto;\nld.param.b32 %r10, [q1];\n}\n"
          "st.global.u32 [%rd1], %r10;"), 1, 50, 50, i & 1 ? 3 * i : 1000 + i);
    CHECK("initialisers", KERNEL(
          ".global .align 4 .u32 tab[4] = {10, 0x14, 036, -1};\n"
          ".const .align 8 .u64 ptr = tab+4;\n.global .align 1 .b8 by[5] = {1, 2, 3};\n"
          ".global .f32 fl[2] = {1.5, 0f40000000};\n.global .u16 grid[2][2] = {{1}, {2, 3}};\n"
          ".global .align 8 .u64 gp[] = {generic(by), 0};\n",
          "ld.const.u64 %rd3, [ptr];\nld.global.u32 %r9, [%rd3];\nld.global.u32 %r10, [tab+8];\n"
          "add.u32 %r9, %r9, %r10;\nld.global.u64 %rd4, [gp];\nld.u8 %r11, [%rd4+2];\n"
          "add.u32 %r9, %r9, %r11;\nld.global.f32 %f1, [fl];\ncvt.rzi.u32.f32 %r12, %f1;\n"
          "add.u32 %r9, %r9, %r12;\nld.global.u16 %r13, [grid+6];\nadd.u32 %r9, %r9, %r13;\n"
          "ld.global.u8 %r14, [by+4];\nadd.u32 %r9, %r9, %r14;\nst.global.u32 [%rd1], %r9;"),
          1, 8, 8, 20 + 30 + 3 + 1 + 3);
}

struct job {
    struct tk *t;
    uint32_t *counter;
    int result;
};

static void *job_main(void *arg)
{
    struct job *j = arg;

    for (int i = 0; i < 50 && !j->result; i++) {
        struct { void *p; } prm = {j->counter};
        struct sg_fault f;

        j->result = tk_run(j->t, 8, 64, &prm, &f);
    }
    return NULL;
}

/* Concurrent launches of one kernel, from threads of the caller. */
static void test_threads(void)
{
    pthread_t th[4];
    struct job jobs[4];
    struct tk t;
    bool ok = true;

    memset(mem, 0, COUNT * 4);
    if (!tk_open(&t, KERNEL(".shared .align 4 .b32 s[64];\n",
                 "mov.u32 %r9, s;\nmad.lo.u32 %r10, %r1, 4, %r9;\nst.shared.u32 [%r10], %r1;\n"
                 "bar.sync 0;\nxor.b32 %r11, %r1, 33;\nmad.lo.u32 %r11, %r11, 4, %r9;\n"
                 "ld.shared.u32 %r12, [%r11];\nred.global.add.u32 [%rd0], %r12;"), "t")) {
        t_result("launches at once", false, "decode");
        return;
    }
    for (int i = 0; i < 4; i++) {
        jobs[i] = (struct job){&t, mem + i * 64, 0};
        pthread_create(&th[i], NULL, job_main, &jobs[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(th[i], NULL);
        ok &= !jobs[i].result && mem[i * 64] == 50 * 8 * 2016;
    }
    t_result("launches at once", ok, "%d %u", jobs[0].result, mem[0]);
    tk_close(&t);
}

static void test_heap(void)
{
    uint64_t a, b, c;
    struct sg_fault f;
    int r;

    CHECK("malloc and free", KERNEL(
          ".extern .func (.param .b64 r) malloc(.param .b64 n);\n"
          ".extern .func free(.param .b64 p);\n",
          "{ .param .b64 q0; .param .b64 q1;\nst.param.b64 [q0], 100;\n"
          "call.uni (q1), malloc, (q0);\nld.param.b64 %rd3, [q1];\n}\n"
          "st.u32 [%rd3+96], %r5;\nbar.sync 0;\nld.u32 %r9, [%rd3+96];\n"
          "{ .param .b64 q0;\nst.param.b64 [q0], %rd3;\ncall.uni free, (q0);\n}\n"
          "st.global.u32 [%rd1], %r9;"), 4, 64, 256, i);
    r = go(KERNEL(".extern .func free(.param .b64 p);\n",
           "{ .param .b64 q0;\nst.param.b64 [q0], %rd0;\ncall.uni free, (q0);\n}"), 1, 1, &f);
    t_result("free of something else", r == SG_ERR_FAILED, "result %d", r);
    a = sg_heap_alloc(SG_HEAP_SIZE - 64);
    b = sg_heap_alloc(64);
    c = sg_heap_alloc(1);
    t_result("a full heap", a && b && !c && !sg_heap_alloc(0) && !sg_heap_alloc(UINT64_MAX),
             "%llx %llx %llx", (unsigned long long)a, (unsigned long long)b, (unsigned long long)c);
    t_result("blocks go back once", sg_heap_free(a) && sg_heap_free(b) && !sg_heap_free(b) &&
             sg_heap_free(0), "no");
    a = sg_heap_alloc(SG_HEAP_SIZE);
    t_result("an empty heap again", a && sg_heap_free(a), "%llx", (unsigned long long)a);
}

static void test_output(void)
{
    struct sg_fault f;
    int r;
    static const char *const want = "t 2: -7 x=00ff 1.250 [str] c % 12345678901 -1\n";

    r = go(KERNEL(
           ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
           ".global .align 1 .b8 fmt[] = {116,32,37,117,58,32,37,100,32,120,61,37,48,52,120,32,37,"
           "46,51,102,32,91,37,115,93,32,37,99,32,37,37,32,37,108,108,117,32,37,108,100,10,0};\n"
           ".global .align 1 .b8 str[4] = {115,116,114,0};\n",
           ".local .align 8 .b8 d[64];\nmov.u64 %rd3, d;\ncvta.local.u64 %rd4, %rd3;\n"
           "setp.ne.u32 %p1, %r1, 2;\n@%p1 bra E;\nst.local.u32 [%rd3], %r1;\n"
           "st.local.u32 [%rd3+4], -7;\nst.local.u32 [%rd3+8], 255;\n"
           "st.local.u64 [%rd3+16], 0x3ff4000000000000;\nmov.u64 %rd5, str;\n"
           "st.local.u64 [%rd3+24], %rd5;\nst.local.u32 [%rd3+32], 99;\n"
           "st.local.u64 [%rd3+40], 12345678901;\nst.local.u64 [%rd3+48], -1;\n"
           "mov.u64 %rd6, fmt;\n{ .param .b64 q0; .param .b64 q1; .param .b32 q2;\n"
           "st.param.b64 [q0], %rd6;\nst.param.b64 [q1], %rd4;\ncall.uni (q2), vprintf, (q0, q1);\n"
           "ld.param.b32 %r9, [q2];\n}\nst.global.u32 [%rd0], %r9;\nE:"), 1, 32, &f);
    t_result("printf", !r && !strcmp(t_output, want) && mem[0] == 8, "result %d %s, %u: %s", r,
             f.message, mem[0], t_output);
}

/* Offsets of parameters; .ptr .align is about the target of the pointer. */
static void test_params(void)
{
    struct sg_module *m = NULL;
    struct sg_kernel_info k;
    struct sg_diag d;
    const char *text = HEAD
        ".entry t(.param .u32 a, .param .u64 .ptr .global .align 16 b, .param .u8 c,\n"
        ".param .align 8 .b8 s[12], .param .f32 e)\n.maxntid 128, 2, 1\n.minnctapersm 2\n{\n"
        ".shared .align 8 .b8 x[24];\n.local .align 4 .b8 y[20];\n.reg .b32 %r<2>;\n"
        "ld.param.f32 %r1, [e];\nret;\n}\n";
    static const uint32_t at[] = {0, 8, 16, 24, 36}, size[] = {4, 8, 1, 12, 4};
    bool ok = !sg_module_parse(text, strlen(text), &m, &d);

    if (ok) {
        sg_kernel_get_info(sg_module_kernel(m, 0), &k);
        ok = k.nparams == 5 && k.param_bytes == 40 && k.max_threads == 256 &&
             k.static_shared == 24 && k.local_bytes >= 20 && k.ptx_target == 100 &&
             k.ptx_version == 90 && !strcmp(k.name, "t") && sg_module_find_kernel(m, "t") &&
             !sg_module_find_kernel(m, "u");
        for (int i = 0; ok && i < 5; i++)
            ok = k.params[i].offset == at[i] && k.params[i].size == size[i];
    }
    t_result("what is told of a kernel", ok, "%s", d.message);
    sg_module_free(m);
}

static void expect_diag(const char *name, const char *text, int result, uint32_t line,
                        const char *word)
{
    struct sg_module *m = NULL;
    struct sg_diag d;
    int r = sg_module_parse(text, strlen(text), &m, &d);

    if (!r)
        r = sg_kernel_prepare(sg_module_kernel(m, 0), &d);
    t_result(name, r == result && d.line == line && strstr(d.message, word),
             "result %d (expected %d), line %u (expected %u): %s", r, result, d.line, line,
             d.message);
    sg_module_free(m);
}

#define BODY(x) HEAD ".entry t()\n{\n.reg .b32 %r<3>;\n.reg .b64 %rd<3>;\n" x "\n}\n"

static void test_refusals(void)
{
    char *big;
    size_t n = 0;

    expect_diag("empty text", "", SG_ERR_PTX, 1, "begin with .version");
    expect_diag("version too new", ".version 12.0\n.target sm_80\n", SG_ERR_PTX_VERSION, 1, "newer");
    expect_diag("next major version", ".version 10.0\n.target sm_80\n", SG_ERR_PTX_VERSION, 1, "newer");
    expect_diag("new instruction of a newer version",
                ".version 9.5\n.target sm_80\n.visible .entry k()\n{\n\tnoveltyy.b32 %r1, 1;\n\tret;\n}\n",
                SG_ERR_UNSUPPORTED, 5, "noveltyy");
    expect_diag("no target", ".version 8.0\n.entry t() { ret; }\n", SG_ERR_PTX, 1, ".target");
    expect_diag("nonsense at module level", HEAD "hello\n", SG_ERR_PTX, 4, "hello");
    expect_diag("body without end", HEAD ".entry t() { ret;\n", SG_ERR_PTX, 4, "no end");
    expect_diag("defined twice", HEAD ".global .u32 a;\n.global .u32 a;\n", SG_ERR_PTX, 5, "twice");
    expect_diag("unknown register", BODY("mov.u32 %r1, %zz;"), SG_ERR_PTX, 8, "%zz");
    expect_diag("register beyond the range", BODY("mov.u32 %r1, %r3;"), SG_ERR_PTX, 8, "%r3");
    expect_diag("wrong operand type", BODY("add.u32 %r1, %r2, %rd1;"), SG_ERR_PTX, 8, ".b64");
    expect_diag("too few operands", BODY("add.u32 %r1, %r2;"), SG_ERR_PTX, 8, "operands");
    expect_diag("missing semicolon",
                BODY("add.u32 %r1, %r2, %r1\nret;"),
                SG_ERR_PTX, 8, "expected");
    expect_diag("an element that no vector has",
                BODY(".reg .v2 .u32 %v;\nmov.u32 %v.q, 1;"),
                SG_ERR_PTX, 9, "expected");
    expect_diag("vectors of another length",
                BODY(".reg .v2 .u32 %v;\nmov.v4.u32 %v, {1, 2, 3, 4};"),
                SG_ERR_PTX, 9, "4 elements");
    expect_diag("a vector in a vector",
                BODY(".reg .v2 .u32 %v;\nmov.v2.u32 %v, {%v, 1};"),
                SG_ERR_PTX, 9, "register expected");
    expect_diag("a range of vectors", BODY(".reg .v2 .u32 %v<2>;"), SG_ERR_PTX, 8, "vector");
    expect_diag("a range of too many parameters",
                BODY(".param .u32 %P<65>;"),
                SG_ERR_PTX, 8, "too many");
    expect_diag("undefined label", BODY("bra X;"), SG_ERR_PTX, 8, "label");
    expect_diag("label defined twice", BODY("X: ret;\nX: ret;"), SG_ERR_PTX, 9, "twice");
    expect_diag("label of another scope", BODY("{ X: ret; }\nbra X;"), SG_ERR_PTX, 9, "label");
    /* found by fuzzing: the number of a list was used as a label's */
    expect_diag("branch to a list of targets", BODY("s: .branchtargets A;\nA: bra s;"), SG_ERR_PTX,
                9, "not a label");
    expect_diag("label with the name of a list", BODY("s: .branchtargets A;\ns: ret;\nA: ret;"),
                SG_ERR_PTX, 9, "not a label");
    expect_diag("branch to a list of the scope around",
                BODY("s: .branchtargets A;\n{ bra s; }\nA: ret;"), SG_ERR_PTX, 9, "not a label");
    expect_diag("list with the name of a label", BODY("A: ret;\nA: .branchtargets A;"),
                SG_ERR_PTX, 9, "name of a label");
    expect_diag("unknown opcode", BODY("frobnicate.u32 %r1, %r2;"), SG_ERR_UNSUPPORTED, 8,
                "frobnicate.u32");
    expect_diag("unknown modifier", BODY("add.sideways.u32 %r1, %r2, %r2;"), SG_ERR_PTX, 8,
                "add.sideways.u32");
    expect_diag("an opcode that is not available",
                BODY("multimem.red.relaxed.gpu.global.add.u32 [%rd0], %r1;"), SG_ERR_UNSUPPORTED, 8, "multimem");
    expect_diag("a parameter behind the last one",
                HEAD ".entry t(.param .u64 p)\n{\n.reg .b32 r;\nld.param.u32 r, [p+6];\n}\n",
                SG_ERR_PTX, 7, "outside");
    expect_diag("function without body", HEAD ".extern .func f();\n.entry t()\n{\ncall f;\n}\n",
                SG_ERR_UNSUPPORTED, 7, "call f");
    expect_diag("too much shared memory", BODY(".shared .b8 s[1000000000];"), SG_ERR_UNSUPPORTED,
                8, "memory");
    expect_diag("an array without bounds", HEAD ".global .b8 a[99999999999999];\n", SG_ERR_PTX, 4,
                "too large");
    /* hostile text: deep braces, deep calls */
    big = malloc(1 << 20);
    n = (size_t)sprintf(big, HEAD ".entry t()\n{\n");
    memset(big + n, '{', 100000);
    n += 100000;
    memset(big + n, '}', 100001);
    big[n + 100001] = 0;
    expect_diag("deep scopes", big, SG_ERR_PTX, 6, "nested");
    /* in registers: such functions can only be expanded */
    n = (size_t)sprintf(big, HEAD ".func f0(.reg .b32 x) { ret; }\n");
    for (int i = 1; i < 40; i++)
        n += (size_t)sprintf(big + n, ".func f%d(.reg .b32 x) { call f%d, (x); call f%d, (x); ret; }\n", i, i - 1,
                             i - 1);
    sprintf(big + n, ".entry t()\n{\n.reg .b32 %%r;\nmov.u32 %%r, 1;\ncall f39, (%%r);\n}\n");
    expect_diag("calls that double 39 times", big, SG_ERR_UNSUPPORTED, 5, "too");
    free(big);
}

int main(int argc, char **argv)
{
    t_variant(argc, argv);
    mem = tm_alloc(COUNT * 4);
    test_divergence();
    test_rows();
    test_warp();
    test_turns();
    test_blocks();
    test_calls();
    test_threads();
    test_heap();
    test_output();
    test_params();
    test_refusals();
    return t_end("softgpu execution");
}
