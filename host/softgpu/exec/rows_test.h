/* SPDX-License-Identifier: MIT */
/* Kernels with values that are uniform in blocks whose rows are whole warps; for exec/rows_test.c. */
#ifndef SG_ROWS_TEST_H
#define SG_ROWS_TEST_H

/*
 * %r1 to %r3: %tid; %r4 to %r6: %ntid; %r7: %ctaid.x; %r8: index of the thread in its block; %r20:
 * the result, initially 0; %rd2: constant table of 1024 words; %rd3: 256 bytes for the lanes of a
 * block with this %tid.y, %tid.z and %tid.x / 32.
 */
#define ROWS_HEAD \
    ".version 9.0\n.target sm_80\n.address_size 64\n.visible .entry t(.param .u64 p0, .param .u64 p1, .param .u64 p2)\n{\n" \
    ".reg .pred %p<20>;\n.reg .b16 %h<10>;\n.reg .b32 %r<60>;\n.reg .b64 %rd<40>;\n.local .align 8 .b8 loc[64];\n" \
    "mov.u32 %r1, %tid.x;\nmov.u32 %r2, %tid.y;\nmov.u32 %r3, %tid.z;\nmov.u32 %r4, %ntid.x;\nmov.u32 %r5, %ntid.y;\n" \
    "mov.u32 %r6, %ntid.z;\nmov.u32 %r7, %ctaid.x;\nmad.lo.u32 %r50, %r3, %r5, %r2;\nmad.lo.u32 %r8, %r50, %r4, %r1;\n" \
    "mul.lo.u32 %r51, %r4, %r5;\nmul.lo.u32 %r9, %r51, %r6;\nmad.lo.u32 %r10, %r7, %r9, %r8;\nld.param.u64 %rd0, [p0];\n" \
    "mul.wide.u32 %rd30, %r10, 4;\nadd.u64 %rd1, %rd0, %rd30;\nld.param.u64 %rd2, [p1];\nshr.u32 %r11, %r1, 5;\n" \
    "mad.lo.u32 %r52, %r7, 4, %r3;\nmad.lo.u32 %r53, %r52, 8, %r2;\nmad.lo.u32 %r12, %r53, 8, %r11;\n" \
    "ld.param.u64 %rd31, [p2];\nmul.wide.u32 %rd32, %r12, 256;\nadd.u64 %rd3, %rd31, %rd32;\nmov.u32 %r20, 0;\n"
#define ROWS_TAIL "\nE: st.global.u32 [%rd1], %r20;\nret;\n}\n"

/* %r21 = the loop's counter from `from` to `to`, with the body. */
#define LOOP(name, from, to, body) \
    "mov.u32 %r21, " from ";\n" name ": setp.ge.s32 %p1, %r21, " to ";\n@%p1 bra " name "_E;\n" body \
    "\nadd.u32 %r21, %r21, 1;\nbra " name ";\n" name "_E:\n"
/* The result takes in %r22. */
#define TAKE "\nmad.lo.u32 %r20, %r20, 31, %r22;\n"
/* %rd5 = address of table[i % 1024], with %r30, %rd6 */
#define TABLE(i) "and.b32 %r30, " i ", 1023;\nmul.wide.u32 %rd6, %r30, 4;\nadd.u64 %rd5, %rd2, %rd6;\n"

#define ANY 0   /* in blocks of every shape */
#define WARPS 1 /* uses %rd3: not where lanes of several warps share it */
#define FAULTS 2

/* clang-format off */
static const struct rows_case {
    const char *name;
    unsigned kind;
    const char *body;
} rows_cases[] = {
    {"tid.y and tid.z", ANY, "mad.lo.u32 %r22, %r3, 100, %r2;" TAKE "shl.b32 %r22, %r2, 3;\nadd.u32 %r22, %r22, %r1;" TAKE},
    {"from tid.x and ctaid.x", ANY,
     "mad.lo.u32 %r23, %r7, %r4, %r1;\nmul.lo.u32 %r24, %r23, 3;\ndiv.u32 %r25, %r24, %r4;\nrem.s32 %r26, %r24, 5;\n"
     "mad.lo.u32 %r22, %r25, %r2, %r26;" TAKE LOOP("L", "%r25", "9", TABLE("%r23") "ld.global.u32 %r22, [%rd5];" TAKE)},
    {"f32 from tid.y, ahead of blocks", ANY,
     ".reg .f32 %f<9>;\ncvt.rn.f32.s32 %f1, %r2;\ncvt.rn.f32.u32 %f2, %r5;\nlg2.approx.ftz.f32 %f3, %f2;\n"
     "div.approx.ftz.f32 %f4, %f1, %f2;\nmul.ftz.f32 %f5, %f4, %f3;\nex2.approx.ftz.f32 %f6, %f5;\nrcp.approx.ftz.f32 %f7, %f6;\n"
     "sqrt.approx.ftz.f32 %f8, %f4;\nadd.ftz.f32 %f7, %f7, %f8;\nmov.b32 %r22, %f7;" TAKE},
    {"a loop from tid.y", ANY, LOOP("L", "%r2", "9", "add.u32 %r22, %r21, %r1;" TAKE)},
    {"a loop to tid.z", ANY, LOOP("L", "-2", "%r3", "add.u32 %r22, %r21, %r1;" TAKE)},
    {"the warp's index, unsigned", ANY,
     "mad.lo.u32 %r23, %r2, 32, %r1;\nshr.u32 %r24, %r23, 5;\n" LOOP("L", "%r24", "40", "xor.b32 %r22, %r21, %r23;" TAKE)},
    {"the warp's index, signed and rounded", ANY,
     "mad.lo.u32 %r23, %r2, 32, %r1;\nshr.s32 %r24, %r23, 31;\nshr.u32 %r25, %r24, 27;\nadd.u32 %r26, %r23, %r25;\n"
     "shr.s32 %r27, %r26, 5;\nand.b32 %r28, %r26, -32;\nsub.u32 %r29, %r23, %r28;\n" LOOP("L", "%r27", "40", "mad.lo.u32 %r22, %r21, %r29, 1;" TAKE)},
    {"less 1000 the sign differs not", ANY,
     "mad.lo.u32 %r23, %r2, 32, %r1;\nsub.u32 %r23, %r23, 64;\nshr.s32 %r24, %r23, 5;\nshr.u32 %r25, %r23, 28;\n" LOOP(
         "L", "%r24", "6", "add.u32 %r22, %r21, %r25;" TAKE)},
    {"less 40 the sign differs", ANY,
     "mad.lo.u32 %r23, %r2, 32, %r1;\nsub.u32 %r23, %r23, 40;\nshr.s32 %r24, %r23, 5;\nshr.u32 %r22, %r23, 28;" TAKE LOOP(
         "L", "%r24", "6", "add.u32 %r22, %r21, %r1;" TAKE)},
    {"tid.x from a multiple of 32 on", ANY,
     "and.b32 %r23, %r1, -32;\nshr.u32 %r24, %r23, 4;\n" LOOP("L", "%r24", "20", "add.u32 %r22, %r21, %r23;" TAKE)},
    {"halves of a warp", ANY,
     "shr.u32 %r22, %r1, 4;" TAKE "and.b32 %r22, %r1, -16;" TAKE "shl.b32 %r23, %r2, 4;\nadd.u32 %r23, %r23, %r1;\n"
     "shr.u32 %r22, %r23, 5;" TAKE "shr.u32 %r24, %r1, 4;\n" LOOP("L", "%r24", "9", "add.u32 %r22, %r21, %r2;" TAKE)},
    {"in 64 bits", ANY,
     "cvt.u64.u32 %rd10, %r1;\nand.b64 %rd11, %rd10, -32;\nshr.u64 %rd12, %rd10, 5;\nshl.b64 %rd13, %rd12, 40;\n"
     "add.u64 %rd14, %rd13, %rd11;\nshr.s64 %rd15, %rd14, 3;\ncvt.u32.u64 %r22, %rd15;" TAKE "shr.u64 %rd16, %rd15, 30;\n"
     "cvt.u32.u64 %r22, %rd16;" TAKE "cvt.s64.s32 %rd17, %r1;\nshl.b64 %rd18, %rd17, 27;\nshr.u64 %rd19, %rd18, 32;\n"
     "cvt.u32.u64 %r22, %rd19;" TAKE},
    {"constants of more than 32 bits", ANY,
     "mov.u64 %rd10, 0x100000000;\nshr.u64 %rd11, %rd10, 1;\ncvt.u64.u32 %rd12, %r1;\nmul.lo.u64 %rd13, %rd12, %rd11;\n"
     "shr.u64 %rd14, %rd13, 10;\ncvt.u32.u64 %r22, %rd14;" TAKE},
    {"a shifted constant of more than 32 bits", ANY,
     "mov.u64 %rd10, 0x100000000;\nshl.b64 %rd11, %rd10, 3;\ncvt.u64.u32 %rd12, %r1;\nshl.b64 %rd13, %rd12, 33;\n"
     "add.u64 %rd14, %rd13, %rd11;\nshr.u64 %rd15, %rd14, 38;\ncvt.u32.u64 %r22, %rd15;" TAKE
     "shr.u64 %rd15, %rd14, 36;\ncvt.u32.u64 %r22, %rd15;" TAKE},
    {"a copy of what a loop changes", ANY,
     "mov.u32 %r40, 99;\n" LOOP("L", "0", "5",
                               "mad.lo.u32 %r41, %r21, 7, %r7;\nsetp.eq.s32 %p2, %r21, 0;\n@%p2 bra S;\n"
                               "mad.lo.u32 %r20, %r20, 31, %r42;\nS: mov.u32 %r42, %r41;")},
    {"a copy of what a loop loads", ANY,
     LOOP("L", "%r7", "9",
          TABLE("%r21") "ld.global.u32 %r41, [%rd5];\nsetp.eq.s32 %p2, %r21, %r7;\n@%p2 bra S;\n"
                        "mad.lo.u32 %r20, %r20, 31, %r42;\nS: mov.u32 %r42, %r41;")},
    {"the last but one, behind the loop", ANY,
     "mov.u32 %r21, 0;\nL: add.u32 %r41, %r21, %r7;\nsetp.gt.s32 %p1, %r21, 6;\n@%p1 bra O;\nmov.u32 %r42, %r41;\n"
     "add.u32 %r21, %r21, 1;\nbra L;\nO: mad.lo.u32 %r20, %r42, 100, %r41;"},
    {"a copy of a counter", ANY,
     LOOP("L", "0", "6", "mov.u32 %r41, %r21;\nadd.u32 %r21, %r21, 1;\nmad.lo.u32 %r22, %r41, 10, %r21;" TAKE)},
    {"values of the turn before", ANY,
     "mov.u32 %r40, 3;\n" LOOP("L", "0", "6", "mad.lo.u32 %r22, %r40, 10, %r21;" TAKE "add.u32 %r43, %r21, %r7;\nmov.u32 %r40, %r43;")},
    {"two counters that change places", ANY,
     "mov.u32 %r40, 1;\nmov.u32 %r41, 2;\n" LOOP("L", "0", "7",
                                               "mov.u32 %r42, %r40;\nmov.u32 %r40, %r41;\nadd.u32 %r41, %r42, %r41;\n"
                                               "mad.lo.u32 %r22, %r40, 100, %r41;" TAKE)},
    {"a counter with itself as operand", ANY,
     "mov.u32 %r40, 1;\nadd.u32 %r40, %r40, %r7;\nshl.b32 %r40, %r40, 2;\nshl.b32 %r40, %r40, 2;\nadd.u32 %r40, %r40, %r40;\n"
     "mad.lo.u32 %r40, %r40, %r40, %r40;\nmov.u64 %rd10, 5;\nshl.b64 %rd10, %rd10, 2;\nmad.lo.u64 %rd10, %rd10, %rd10, %rd10;\n"
     "mov.b64 %rd10, %rd10;\ncvt.u32.u64 %r22, %rd10;" TAKE "add.u32 %r20, %r20, %r40;\nadd.u32 %r20, %r20, %r1;"},
    {"shifted in a loop", ANY,
     "mov.u32 %r40, 1;\nmov.u64 %rd10, 3;\n" LOOP("L", "%r2", "8",
                                                "shl.b32 %r40, %r40, 2;\nshl.b64 %rd10, %rd10, 7;\nxor.b64 %rd10, %rd10, 1;\n"
                                                "cvt.u32.u64 %r23, %rd10;\nadd.u32 %r22, %r23, %r40;" TAKE)},
    {"a loop left early by some lanes", ANY,
     LOOP("L", "0", "12", "add.u32 %r22, %r21, %r1;" TAKE "and.b32 %r23, %r1, 7;\nsetp.eq.s32 %p2, %r23, %r21;\n@%p2 bra E;")},
    {"... and its counter behind it", ANY,
     LOOP("L", "0", "12", "and.b32 %r23, %r1, 15;\nsetp.eq.s32 %p2, %r23, %r21;\n@%p2 bra O;") "O: mad.lo.u32 %r20, %r21, 3, %r2;"},
    {"lanes that go on with the next turn", ANY,
     "mov.u32 %r21, -1;\nL: add.u32 %r21, %r21, 1;\nsetp.ge.s32 %p1, %r21, 9;\n@%p1 bra E;\nadd.u32 %r22, %r21, %r1;" TAKE
     "xor.b32 %r23, %r21, %r1;\nand.b32 %r23, %r23, 1;\nsetp.eq.u32 %p2, %r23, 0;\n@%p2 bra L;\n"
     "mad.lo.u32 %r22, %r21, 5, %r2;" TAKE "bra L;"},
    {"a divergent backward branch at the end", ANY,
     "mov.u32 %r21, 0;\nL: mad.lo.u32 %r22, %r21, 3, 1;" TAKE "add.u32 %r21, %r21, 1;\nand.b32 %r23, %r1, 7;\n"
     "setp.lt.s32 %p1, %r21, %r23;\n@%p1 bra L;\nmov.u32 %r22, %r21;" TAKE},
    {"a uniform loop, then a divergent one, then a uniform one", ANY,
     LOOP("L", "0", "4", "add.u32 %r22, %r21, %r1;" TAKE) "and.b32 %r31, %r1, 3;\n" LOOP("M", "0", "%r31", "mov.u32 %r22, %r21;" TAKE)
         LOOP("N", "%r2", "9", "add.u32 %r22, %r21, 1;" TAKE)},
    {"other counters behind a divergent loop", ANY,
     "mov.u32 %r31, %r1;\nM: shr.u32 %r31, %r31, 1;\nadd.u32 %r20, %r20, 1;\nsetp.ne.u32 %p3, %r31, 0;\n@%p3 bra M;\n"
     "mov.u32 %r40, 0;\nN: mad.lo.u32 %r22, %r40, %r40, %r1;" TAKE "add.u32 %r40, %r40, 1;\nsetp.lt.u32 %p4, %r40, 6;\n@%p4 bra N;"},
    {"under a predicate", ANY,
     "mov.u32 %r40, 5;\nand.b32 %r23, %r1, 1;\nsetp.eq.u32 %p2, %r23, 0;\n@%p2 mov.u32 %r40, 9;\nsetp.eq.u32 %p3, %r7, 1;\n"
     "@%p3 add.u32 %r40, %r40, 100;\n@!%p3 mov.u32 %r41, 4;\n@%p3 mov.u32 %r41, 8;\nadd.u32 %r20, %r40, %r41;"},
    {"under a uniform predicate, in a loop", ANY,
     "mov.u32 %r40, 0;\n" LOOP("L", "%r2", "9",
                              "and.b32 %r23, %r21, 1;\nsetp.eq.u32 %p2, %r23, 0;\n@%p2 add.u32 %r40, %r40, 3;\n"
                              "mad.lo.u32 %r22, %r40, %r1, %r21;" TAKE)},
    {"in one branch only", ANY,
     "mov.u32 %r40, 5;\nsetp.gt.u32 %p2, %r1, 9;\n@%p2 bra S;\nmov.u32 %r40, 6;\nS: mov.u32 %r22, %r40;" TAKE
     "mov.u32 %r41, 7;\nsetp.gt.u32 %p3, %r2, 1;\n@%p3 bra T;\nadd.u32 %r41, %r41, %r7;\nT: mov.u32 %r22, %r41;" TAKE},
    {"in one uniform branch, by whole rows", ANY,
     "mov.u32 %r41, 7;\nshr.u32 %r42, %r1, 5;\nand.b32 %r42, %r42, 1;\nsetp.eq.u32 %p3, %r42, 0;\n@%p3 bra T;\nadd.u32 %r41, %r2, 2;\n"
     "T: mov.u32 %r43, %r41;\n@!%p3 bra U;\nmad.lo.u32 %r41, %r41, 3, %r7;\nU: mad.lo.u32 %r20, %r41, 10, %r43;"},
    {"nested loops", ANY,
     "mov.u32 %r40, 0;\nA: setp.ge.s32 %p5, %r40, 4;\n@%p5 bra E;\n" LOOP("L", "%r40", "6", "mad.lo.u32 %r22, %r21, %r40, %r1;" TAKE)
         "add.u32 %r40, %r40, 1;\nbra A;"},
    {"nested loops, the inner one divergent", ANY,
     "mov.u32 %r40, 0;\nA: setp.ge.s32 %p5, %r40, 4;\n@%p5 bra E;\nand.b32 %r31, %r1, 3;\n" LOOP(
         "L", "%r40", "%r31", "mad.lo.u32 %r22, %r21, %r40, 1;" TAKE) "add.u32 %r40, %r40, 1;\nbra A;"},
    {"nested loops, the outer one divergent", ANY,
     "mov.u32 %r40, 0;\nand.b32 %r31, %r1, 3;\nA: setp.gt.s32 %p5, %r40, %r31;\n@%p5 bra E;\n" LOOP(
         "L", "0", "3", "mad.lo.u32 %r22, %r21, %r40, 1;" TAKE) "add.u32 %r40, %r40, 1;\nbra A;"},
    {"brx by tid.y", ANY,
     "and.b32 %r23, %r2, 3;\nmov.u32 %r40, 1;\nts: .branchtargets A, B, C, D;\nbrx.idx %r23, ts;\nA: mov.u32 %r40, 10;\nbra F;\n"
     "B: add.u32 %r40, %r40, 4;\nC: mul.lo.u32 %r40, %r40, 5;\nD: add.u32 %r40, %r40, 6;\nF: add.u32 %r20, %r40, %r1;"},
    {"brx in a loop", ANY,
     "mov.u32 %r40, 1;\nts: .branchtargets A, B, C, A;\n" LOOP(
         "L", "0", "8", "add.u32 %r23, %r21, %r1;\nand.b32 %r23, %r23, 3;\nbrx.idx %r23, ts;\nA: add.u32 %r40, %r40, 10;\nbra F;\n"
                        "B: add.u32 %r40, %r40, 4;\nC: mul.lo.u32 %r40, %r40, 5;\nF: mad.lo.u32 %r22, %r40, 3, %r21;" TAKE)},
    {"exit of the lower lanes before the loop", ANY,
     "st.global.u32 [%rd1], 77;\nand.b32 %r23, %r1, 31;\nsetp.lt.u32 %p2, %r23, 17;\n@%p2 exit;\n" LOOP(
         "L", "%r2", "9", TABLE("%r21") "ld.global.u32 %r22, [%rd5];" TAKE "add.u32 %r20, %r20, %r1;")},
    {"exit of the upper lanes before the loop", ANY,
     "st.global.u32 [%rd1], 77;\nand.b32 %r23, %r1, 31;\nsetp.gt.u32 %p2, %r23, 12;\n@%p2 exit;\n" LOOP(
         "L", "%r2", "9", TABLE("%r21") "ld.global.u32 %r22, [%rd5];" TAKE "add.u32 %r20, %r20, %r1;")},
    {"exit of lanes inside of the loop", ANY,
     "st.global.u32 [%rd1], 77;\nand.b32 %r23, %r1, 7;\n" LOOP(
         "L", "%r2", "9", TABLE("%r21") "ld.global.u32 %r22, [%rd5];" TAKE "setp.eq.s32 %p2, %r23, %r21;\n@%p2 exit;")},
    {"loads from uniform addresses", ANY,
     TABLE("%r2") "ld.global.u32 %r22, [%rd5];" TAKE "ld.global.s32 %r22, [%rd5+4];" TAKE "ld.global.u16 %r22, [%rd5+8];" TAKE
                  "ld.global.s16 %r22, [%rd5+10];" TAKE "ld.global.u8 %r22, [%rd5+13];" TAKE "ld.global.s8 %r22, [%rd5+15];" TAKE
                  "ld.global.u8 %h1, [%rd5+17];\ncvt.u32.u16 %r22, %h1;" TAKE "ld.global.s8 %h1, [%rd5+18];\ncvt.s32.s16 %r22, %h1;" TAKE
                  "ld.global.u16 %h2, [%rd5+20];\nld.global.s16 %h3, [%rd5+22];\nmov.b32 %r22, {%h3, %h2};" TAKE
                  "and.b64 %rd7, %rd5, -8;\nld.global.u64 %rd8, [%rd7+24];\ncvt.u32.u64 %r22, %rd8;" TAKE
                  "shr.u64 %rd8, %rd8, 32;\ncvt.u32.u64 %r22, %rd8;" TAKE "ld.global.s8 %rd9, [%rd5+7];\nshr.u64 %rd9, %rd9, 20;\n"
                  "cvt.u32.u64 %r22, %rd9;" TAKE "ld.global.s32 %rd9, [%rd5+32];\nshr.u64 %rd9, %rd9, 20;\ncvt.u32.u64 %r22, %rd9;" TAKE
                  "ld.global.u16 %rd9, [%rd5+2];\ncvt.u32.u64 %r22, %rd9;" TAKE "ld.global.v2.u32 {%r22, %r23}, [%rd7+40];" TAKE
                  "mov.u32 %r22, %r23;" TAKE "ld.global.nc.u32 %r22, [%rd5+48];" TAKE "ld.global.f32 %r22, [%rd5+52];" TAKE},
    {"loads from uniform addresses in a loop", ANY,
     LOOP("L", "%r2", "12",
          TABLE("%r21") "ld.global.u32 %r22, [%rd5];" TAKE "ld.global.s16 %r22, [%rd5+2];" TAKE
                        "and.b64 %rd7, %rd5, -8;\nld.global.u64 %rd8, [%rd7];\nshr.u64 %rd8, %rd8, 13;\ncvt.u32.u64 %r22, %rd8;" TAKE)},
    {"loads in divergent code", ANY,
     "setp.gt.u32 %p2, %r1, 9;\n@%p2 bra S;\n" TABLE("%r2") "ld.global.u32 %r22, [%rd5];" TAKE "bra E;\nS: " TABLE("%r7")
         "ld.global.u32 %r22, [%rd5+4];" TAKE},
    {"volatile and relaxed loads", ANY,
     TABLE("%r2") "ld.volatile.global.u32 %r22, [%rd5];" TAKE "ld.relaxed.gpu.global.u32 %r22, [%rd5+4];" TAKE
                  "ld.acquire.gpu.global.u32 %r22, [%rd5+8];" TAKE LOOP("L", "%r2", "5", "ld.volatile.global.u16 %r23, [%rd5];\n"
                                                                       "add.u32 %r22, %r23, %r21;" TAKE)},
    {"generic loads", ANY,
     "mov.u64 %rd10, loc;\ncvta.local.u64 %rd10, %rd10;\nst.u32 [%rd10+8], %r8;\nld.u32 %r22, [%rd10+8];" TAKE TABLE("%r2")
         "ld.u32 %r22, [%rd5];" TAKE "setp.eq.u32 %p2, %r7, 1;\nselp.b64 %rd11, %rd10, %rd5, %p2;\nst.local.u32 [loc], %r1;\n"
         "ld.u32 %r22, [%rd11];" TAKE "ld.local.u32 %r22, [loc+8];" TAKE},
    {"a generic load of each lane's own memory", ANY,
     "mov.u64 %rd10, loc;\ncvta.local.u64 %rd11, %rd10;\nst.local.u32 [loc+8], %r8;\nst.local.u32 [loc+12], %r1;\n"
     "ld.u32 %r41, [%rd11+8];\nld.u64 %rd12, [%rd11+8];\nshr.u64 %rd13, %rd12, 32;\ncvt.u32.u64 %r42, %rd13;\n"
     "ld.volatile.u16 %r43, [%rd11+8];\nmad.lo.u32 %r44, %r41, 7, %r42;\nmad.lo.u32 %r20, %r44, 7, %r43;"},
    {"a loaded value as address and counter", ANY,
     TABLE("%r2") "ld.global.u32 %r23, [%rd5];\n" TABLE("%r23") "ld.global.u32 %r24, [%rd5];\n" TABLE("%r24")
         "ld.global.u8 %r25, [%rd5];\nand.b32 %r25, %r25, 7;\n" LOOP("L", "0", "%r25", TABLE("%r21") "ld.global.u32 %r22, [%rd5];" TAKE
                                                                    "add.u32 %r20, %r20, %r1;")},
    {"a chain of loads", ANY,
     "mov.u32 %r40, %r2;\n" LOOP("L", "0", "9", TABLE("%r40") "ld.global.u32 %r40, [%rd5];\nadd.u32 %r22, %r40, %r1;" TAKE)},
    {"a loop until a loaded value is found", ANY,
     "mov.u32 %r40, %r2;\nL: " TABLE("%r40") "ld.global.u8 %r41, [%rd5];\nadd.u32 %r40, %r40, 1;\nadd.u32 %r20, %r20, %r41;\n"
                                             "setp.gt.u32 %p1, %r41, 40;\n@%p1 bra L;\nmad.lo.u32 %r20, %r40, 1000, %r20;"},
    {"each group sees its own order of stores", WARPS,
     "st.global.u32 [%rd3], 5;\nbar.warp.sync -1;\nand.b32 %r23, %r1, 1;\nsetp.eq.u32 %p2, %r23, 0;\n@%p2 bra S;\n"
     "ld.global.u32 %r22, [%rd3];" TAKE "bra F;\nS: st.global.u32 [%rd3], 9;\nld.global.u32 %r22, [%rd3];" TAKE
     "F: ld.volatile.global.u32 %r22, [%rd3];\nsetp.eq.u32 %p3, %r22, 9;\nselp.u32 %r22, 1, 2, %p2;" TAKE},
    {"a load between stores of all lanes", WARPS,
     LOOP("L", "0", "6", "st.global.u32 [%rd3], %r21;\nld.global.u32 %r22, [%rd3];" TAKE "mul.lo.u32 %r23, %r21, 77;\n"
                         "st.global.u16 [%rd3+2], %r23;\nld.global.u32 %r22, [%rd3];" TAKE)},
    {"a store under a predicate before a load", WARPS,
     "and.b32 %r23, %r1, 31;\nsetp.eq.u32 %p2, %r23, 3;\nst.global.u32 [%rd3], 0;\n" LOOP(
         "L", "0", "6", "@%p2 st.global.u32 [%rd3], %r21;\nld.global.u32 %r22, [%rd3];" TAKE)},
    {"lanes that left a loop keep what they loaded", WARPS,
     "st.global.u32 [%rd3], 0;\nbar.warp.sync -1;\nand.b32 %r31, %r1, 7;\nmov.u32 %r21, 0;\n"
     "L: ld.global.u32 %r41, [%rd3];\nadd.u32 %r42, %r41, 3;\nst.global.u32 [%rd3], %r42;\nadd.u32 %r21, %r21, 1;\n"
     "setp.lt.u32 %p1, %r21, %r31;\n@%p1 bra L;\nmad.lo.u32 %r20, %r41, 100, %r42;"},
    {"an atomic before a load", WARPS,
     "st.global.u32 [%rd3], 0;\nbar.warp.sync -1;\n" LOOP("L", "0", "3", "red.global.add.u32 [%rd3], %r21;\nld.global.u32 %r22, [%rd3];" TAKE)},
    {"a value set by some lanes, read by others later", ANY,
     "mul.lo.u32 %r40, %r2, 3;\nsetp.lt.u32 %p2, %r1, 13;\n@!%p2 bra S;\nadd.u32 %r41, %r40, %r7;\nadd.u32 %r42, %r41, %r1;\n"
     "S: @%p2 bra T;\nmad.lo.u32 %r43, %r40, %r7, 5;\nadd.u32 %r42, %r43, %r1;\nT: add.u32 %r20, %r42, %r40;"},
    {"votes of what is uniform", ANY,
     LOOP("L", "%r2", "7", "setp.gt.s32 %p2, %r21, 4;\nactivemask.b32 %r24;\nvote.sync.ballot.b32 %r23, %p2, %r24;\npopc.b32 %r22, %r23;\n"
                           "setp.ne.u32 %p3, %r22, 0;\nselp.u32 %r22, %r21, 0, %p3;" TAKE)},
    {"a loop with a barrier", WARPS,
     LOOP("L", "0", "5", "st.global.u32 [%rd3], %r21;\nbar.sync 0;\nld.global.u32 %r22, [%rd3];" TAKE "bar.sync 0;")},
    {"selp and min of counters", ANY,
     "mov.u32 %r40, 8;\n" LOOP("L", "%r2", "9", "setp.gt.s32 %p2, %r40, %r21;\nselp.b32 %r41, %r40, %r21, %p2;\nmin.s32 %r40, %r40, %r21;\n"
                                              "max.s32 %r40, %r40, 3;\nmad.lo.u32 %r22, %r41, %r40, %r1;" TAKE)},
    {"read before it is set", ANY,
     "setp.eq.u32 %p2, %r7, 77;\n@%p2 bra S;\nmov.u32 %r40, 4;\nS: add.u32 %r41, %r40, 1;\nmov.u32 %r40, %r41;\nadd.u32 %r20, %r40, %r1;"},
    {"in a loop by 64 bits", ANY,
     "mov.u64 %rd10, 0;\ncvt.u64.u32 %rd12, %r2;\nL: add.u64 %rd11, %rd10, %rd12;\nshl.b64 %rd13, %rd11, 2;\nadd.u64 %rd13, %rd2, %rd13;\n"
     "ld.global.u32 %r22, [%rd13];" TAKE "add.u64 %rd10, %rd10, 3;\nsetp.lt.u64 %p1, %rd10, 40;\n@%p1 bra L;\ncvt.u32.u64 %r22, %rd10;" TAKE},
    {"pointers that advance", ANY,
     "mul.wide.u32 %rd10, %r2, 64;\nadd.u64 %rd10, %rd10, %rd2;\nadd.u64 %rd11, %rd10, 64;\nL: ld.global.u32 %r22, [%rd10];" TAKE
     "add.u64 %rd10, %rd10, 4;\nsetp.ne.u64 %p1, %rd10, %rd11;\n@%p1 bra L;"},
    {"a read outside, for all lanes", FAULTS,
     "mul.wide.u32 %rd10, %r2, 0x7ffffff0;\nadd.u64 %rd10, %rd10, %rd2;\nld.global.u32 %r22, [%rd10];" TAKE},
    {"a read outside in a loop", FAULTS, LOOP("L", "%r2", "2000", "mul.wide.u32 %rd10, %r21, 64;\nadd.u64 %rd10, %rd10, %rd2;\n"
                                             "ld.global.u32 %r22, [%rd10];" TAKE)},
    {"a read outside, lower lanes gone", FAULTS,
     "setp.lt.u32 %p2, %r1, 19;\n@%p2 exit;\nmul.wide.u32 %rd10, %r2, 0x7ffffff0;\nadd.u64 %rd10, %rd10, %rd2;\nld.global.u64 %rd11, [%rd10];\n"
     "cvt.u32.u64 %r22, %rd11;" TAKE},
    {"a misaligned read", FAULTS,
     "mad.lo.u32 %r23, %r2, 8, %r7;\ncvt.u64.u32 %rd10, %r23;\nadd.u64 %rd10, %rd10, %rd2;\nld.global.u16 %r22, [%rd10];" TAKE},
    {"a read of the last bytes and behind", FAULTS,
     "mul.wide.u32 %rd10, %r7, 2;\nadd.u64 %rd10, %rd10, %rd2;\nld.global.s8 %r22, [%rd10+4094];" TAKE},
    {"a read outside in divergent code", FAULTS,
     "setp.lt.u32 %p2, %r1, 9;\n@%p2 bra E;\nmul.wide.u32 %rd10, %r2, 0x7ffffff0;\nadd.u64 %rd10, %rd10, %rd2;\nld.global.u32 %r22, [%rd10];" TAKE},
    {"a trap by tid.y", FAULTS, "setp.ne.u32 %p2, %r2, 1;\n@%p2 bra E;\nsetp.lt.u32 %p3, %r1, 3;\n@%p3 bra E;\ntrap;"},
};
/* clang-format on */
#define ROWS_CASES (sizeof(rows_cases) / sizeof(rows_cases[0]))

#endif
