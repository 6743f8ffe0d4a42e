/* SPDX-License-Identifier: MIT */
/* Kernels that exec/verify_test.c damages, and that jit/complete_test.c compiles with too little
   room. */
#ifndef SG_VERIFY_TEXTS_H
#define SG_VERIFY_TEXTS_H

#define HEAD ".version 9.0\n.target sm_90\n.address_size 64\n"
#define REGS \
    ".reg .pred %p<4>;\n.reg .b16 %h<4>;\n.reg .b32 %r<24>;\n.reg .b64 %rd<10>;\n.reg .f32 %f<12>;\n" \
    ".reg .f64 %d<20>;\n.reg .b128 %q<4>;\n"

/* Loads, stores, branches, modes, a target list, an expanded function, a block-invariant value. */
static const char plain[] = HEAD
    ".func (.reg .b32 z) ff(.reg .b32 x)\n{\nadd.u32 z, x, 1;\nret;\n}\n"
    ".visible .entry t(.param .u64 p, .param .u32 n)\n{\n" REGS
    ".reg .b32 %v<3>;\n.shared .align 16 .b8 s[512];\n.local .align 16 .b8 l[64];\nld.param.u64 %rd1, [p];\n"
    "mov.u32 %v1, %ctaid.x;\nor.b32 %v2, %v1, 5;\n"
    "mov.u32 %r1, %tid.x;\nmov.u32 %r2, s;\nmov.u64 %rd3, l;\nshl.b32 %r20, %r1, 2;\n"
    "add.u32 %r21, %r2, %r20;\nmul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd2, %rd1, %rd2;\n"
    "ld.global.u32 %r3, [%rd2];\nld.global.u32 %r4, [%rd2+256];\nld.global.v4.u32 {%r5,%r6,%r7,%r8}, [%rd1];\n"
    "ld.global.u64 %rd4, [%rd1+8];\nld.global.u16 %h1, [%rd2];\nld.global.u16 %h2, [%rd2+2];\n"
    "ld.global.s8 %r9, [%rd1];\nst.global.u32 [%rd2], %r3;\nst.shared.u32 [%r21], %r4;\nbar.sync 0;\n"
    "ld.shared.u32 %r10, [%r21];\nld.shared.v2.u32 {%r11,%r12}, [%r2];\nst.local.u64 [%rd3], %rd2;\n"
    "ld.local.u64 %rd5, [%rd3];\nld.u32 %r13, [%rd2];\nsetp.lt.u32 %p1|%p2, %r1, 7;\n"
    "@%p1 add.u32 %r13, %r13, %r3;\n@%p1 st.global.u32 [%rd2+4], %r13;\nmov.u32 %r14, 0;\n"
    "L1: add.u32 %r14, %r14, 1;\nadd.rz.f32 %f1, %f1, %f2;\nfma.rn.ftz.f32 %f3, %f1, %f2, %f3;\n"
    "setp.lt.u32 %p3, %r14, 3;\n@%p3 bra L1;\n@%p1 bra L2;\ncall (%r15), ff, (%r14);\n"
    "xor.b32 %r15, %r15, %r3;\nL2: and.b32 %r16, %r1, 1;\nts: .branchtargets L3, L4;\n"
    "brx.idx %r16, ts;\nL3: atom.global.add.u32 %r17, [%rd1], 1;\nL4: add.u32 %r17, %r17, %r16;\n"
    "vote.sync.ballot.b32 %r18, %p1, -1;\nshfl.sync.bfly.b32 %r19|%p2, %r1, 1, 0x1f, -1;\n"
    "cp.async.ca.shared.global [%r2], [%rd1], 16;\ncp.async.wait_all;\nmov.u32 %r20, %clock;\n"
    "cvt.rn.f16.f32 %h3, %f3;\nmov.b32 %r22, {%h1, %h3};\nmov.b64 {%r22, %r23}, %rd5;\n"
    "st.global.v2.u32 [%rd1+128], {%r19, %r22};\nbar.red.popc.u32 %r9, 1, %p1;\n"
    "st.global.u32 [%rd1+64], %r9;\n@%p2 exit;\nst.global.u32 [%rd1+96], %r17;\n"
    "st.global.u32 [%rd1+160], %v2;\nret;\n}\n";

/* Operands that span more than one instruction. */
static const char wide[] =
    ".version 9.0\n.target sm_120a\n.address_size 64\n"
    ".visible .entry t(.param .u64 p, .param .u32 n)\n{\n" REGS
    ".shared .align 16 .b8 s[1024];\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, s;\n"
    "mov.u32 %r20, 16;\nldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r3,%r4,%r5,%r6}, [%r2];\n"
    "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r2], {%r3,%r4};\n"
    "wmma.load.c.sync.aligned.row.m16n16k16.f16 {%r3,%r4,%r5,%r6}, [%rd1], %r20;\n"
    "wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r7,%r8,%r9,%r10,%r11,%r12,%r13,%r14}, [%rd1], %r20;\n"
    "wmma.mma.sync.aligned.row.row.m16n16k16.f16.f16 {%r3,%r4,%r5,%r6}, "
    "{%r7,%r8,%r9,%r10,%r11,%r12,%r13,%r14}, {%r7,%r8,%r9,%r10,%r11,%r12,%r13,%r14}, {%r3,%r4,%r5,%r6};\n"
    "wmma.store.d.sync.aligned.row.m16n16k16.f16 [%rd1], {%r3,%r4,%r5,%r6}, %r20;\n"
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r3,%r4}, {%r5}, {%f1,%f2,%f3,%f4};\n"
    "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r7,%r8}, {%r3,%r4,%r5,%r6}, {%r5,%r6}, {%r7,%r8};\n"
    "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r7,%r8,%r9,%r10}, {%r3,%r4,%r5,%r6}, {%r5,%r6}, {%r7,%r8,%r9,%r10};\n"
    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d1,%d2}, {%d3}, {%d1}, {%d1,%d2};\n"
    "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%d1,%d2,%d3,%d4}, {%d5,%d6,%d7,%d8}, {%d9,%d10}, {%d1,%d2,%d3,%d4};\n"
    "mma.sync.aligned.m16n8k32.row.col.s32.s4.s4.s32 {%r7,%r8,%r9,%r10}, {%r3,%r4}, {%r5}, {%r7,%r8,%r9,%r10};\n"
    "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e2m1.f32.ue8m0 {%f1,%f2,%f3,%f4}, "
    "{%r3,%r4,%r5,%r6}, {%r7,%r8,%r9,%r10}, {%f1,%f2,%f3,%f4}, %r1, 0, %r2, {%h1, 1}, %r20, {0, %h2};\n"
    "mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r7,%r8}, {%r3,%r4}, {%r5,%r6}, {%r7,%r8}, %r1, 3;\n"
    "wmma.load.c.sync.aligned.row.m8n8k4.f64 {%d1,%d2}, [%rd1], %r20;\n"
    "mov.b128 %q1, {%rd1, %rd2};\natom.global.exch.b128 %q2, [%rd1], %q1;\natom.global.cas.b128 %q2, [%rd1], %q1, %q2;\n"
    "mbarrier.init.shared.b64 [%r2+512], 1;\nmbarrier.arrive.shared.b64 %rd4, [%r2+512];\n"
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1], %r20, [%r2+512];\n"
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r2], %r20;\n"
    "mapa.shared::cluster.u32 %r11, %r2, 0;\nmov.b64 %rd5, 0;\n"
    "tex.2d.v4.f32.f32 {%f5,%f6,%f7,%f8}, [%rd5, {%f1,%f2}];\nsuld.b.2d.v2.b32.clamp {%r7,%r8}, [%rd5, {%r20,%r1}];\n"
    "sust.b.2d.v4.b32.zero [%rd5, {%r20,%r1}], {%r3,%r4,%r5,%r6};\nmov.u32 %r21, %envreg1;\n"
    "sured.b.add.2d.u32.zero [%rd5, {%r20,%r1}], %r3;\n"
    "alloca.u64 %rd6, %rd5, 16;\nstacksave.u64 %rd7;\nstackrestore.u64 %rd7;\n"
    "st.global.u32 [%rd1], %r3;\nst.global.u32 [%rd1+4], %r7;\nst.global.f64 [%rd1+8], %d1;\nret;\n}\n";

/* Products of a warpgroup: up to 128 registers in lists. */
#define LIST_32(r) \
    r "0," r "1," r "2," r "3," r "4," r "5," r "6," r "7," r "8," r "9," r "10," r "11," r "12," r "13," r \
      "14," r "15," r "16," r "17," r "18," r "19," r "20," r "21," r "22," r "23," r "24," r "25," r \
      "26," r "27," r "28," r "29," r "30," r "31"
static const char warpgroup[] __attribute__((unused)) =
    ".version 9.0\n.target sm_90a\n.address_size 64\n"
    ".visible .entry t(.param .u64 p, .param .u32 n)\n{\n" REGS
    ".reg .f32 %s<32>;\n.shared .align 1024 .b8 s[16384];\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\n"
    "mul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd2, %rd1, %rd2;\nld.global.v4.u32 {%r3,%r4,%r5,%r6}, [%rd1];\n"
    "mov.u32 %r2, s;\nst.shared.u32 [%r2], %r1;\nbar.sync 0;\nmov.b64 %rd3, 0x4000000800080000;\n"
    "mov.b64 %rd4, 0x4000000800080010;\nsetp.ne.u32 %p1, %r3, 0;\nwgmma.fence.sync.aligned;\n"
    "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {%s0,%s1,%s2,%s3,%s4,%s5,%s6,%s7,%s8,%s9,%s10,%s11,%s12,%s13,%s14,"
    "%s15}, {%r3,%r4,%r5,%r6}, %rd4, %p1, 1, -1, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" LIST_32(
        "%s") "}, %rd3, %rd4, 1, 1, 1, 1, 1;\n"
              "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8.satfinite {%r7,%r8,%r9,%r10}, %rd3, %rd4, %p1;\n"
              "wgmma.mma_async.sp.sync.aligned.m64n16k32.f16.f16.f16 {%r7,%r8,%r9,%r10}, %rd3, %rd4, %r3, 1, %p1, 1, 1, 0, 0;\n"
              "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc {%r11,%r12,%r13,%r14}, {%r3,%r4,%r5,%r6}, %rd4, %p1;\n"
              "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
              "st.global.f32 [%rd2], %s31;\nst.global.u32 [%rd2+1024], %r7;\nst.global.u32 [%rd2+2048], %r11;\nret;\n}\n";

/* Tensor memory: lists of registers that are written, and read. */
static const char tensor[] __attribute__((unused)) =
    ".version 9.0\n.target sm_100a\n.address_size 64\n"
    ".visible .entry t(.param .u64 p, .param .u32 n)\n{\n" REGS
    ".reg .b32 %s<32>;\n.shared .align 1024 .b8 s[16384];\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\n"
    "mul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd2, %rd1, %rd2;\nld.global.u32 %r12, [%rd1];\nmov.u32 %r2, s;\nshr.u32 %r3, %r1, 5;\n"
    "setp.ne.u32 %p1, %r3, 0;\n@%p1 bra L;\ntcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 64;\nL: bar.sync 0;\n"
    "ld.shared.u32 %r4, [%r2];\nshl.b32 %r5, %r3, 21;\nadd.u32 %r5, %r5, %r4;\nmov.b64 %rd3, 0x0000400800080010;\n"
    "setp.eq.u32 %p1, %r1, 0;\n@%p1 tcgen05.cp.cta_group::1.128x256b [%r4], %rd3;\n"
    "mov.u32 %r11, 0x04040010;\n@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r4], %rd3, %rd3, %r11, {%r3,%r3,%r3,%r3}, %p1;\n"
    "@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r4], [%r4], %rd3, %r11, 0, 2;\n"
    "tcgen05.ld.sync.aligned.16x64b.x4.b32 {%r7,%r8,%r9,%r10}, [%r5];\n"
    "tcgen05.st.sync.aligned.32x32b.x2.b32 [%r5], {%r7,%r9};\n"
    "tcgen05.ld.sync.aligned.32x32b.x32.b32 {" LIST_32(
        "%s") "}, [%r5];\ntcgen05.wait::ld.sync.aligned;\n"
              "st.global.u32 [%rd2], %s31;\nst.global.u32 [%rd2+1024], %r7;\nst.global.u32 [%rd2+2048], %r12;\nret;\n}\n";

/* Loops and loads that are uniform in blocks of whole rows. */
static const char in_rows[] __attribute__((unused)) = HEAD
    ".visible .entry t(.param .u64 p, .param .u32 n)\n{\n" REGS
    ".reg .b64 %a<9>;\nld.param.u64 %a1, [p];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %tid.y;\nmad.lo.u32 %r3, %r2, 32, %r1;\n"
    "shr.u32 %r4, %r3, 5;\nmul.wide.u32 %a2, %r3, 4;\nadd.u64 %a3, %a1, %a2;\nmov.u32 %r5, %r4;\nmov.u32 %r6, 0;\n"
    "L: shl.b32 %r7, %r5, 3;\nand.b32 %r8, %r7, 1016;\ncvt.u64.u32 %a4, %r8;\nadd.u64 %a5, %a1, %a4;\n"
    "ld.global.u32 %r9, [%a5];\nld.global.u64 %a6, [%a5+1024];\nld.global.s16 %r10, [%a5+6];\ncvt.u32.u64 %r11, %a6;\n"
    "add.u32 %r12, %r9, %r11;\nadd.u32 %r12, %r12, %r10;\nadd.u32 %r6, %r6, %r12;\nst.global.u32 [%a3+2048], %r6;\n"
    "add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p1, %r5, 6;\n@%p1 bra L;\nsetp.lt.u32 %p2, %r1, 7;\n@%p2 bra E;\n"
    "and.b32 %r13, %r9, 1020;\ncvt.u64.u32 %a7, %r13;\nadd.u64 %a8, %a1, %a7;\nld.global.u32 %r14, [%a8];\n"
    "add.u32 %r6, %r6, %r14;\nE: add.u32 %r6, %r6, %r5;\nst.global.u32 [%a3], %r6;\nret;\n}\n";

/* Loads, each twice, from the sum of a uniform value and a value computed ahead. More values than vector
   registers lie between them. */
#define MADS(k) "mad.wide.u32 %m" #k ", %r3, " #k ", %a6;\n"
#define SUMS(k) "add.u64 %a6, %a6, %m" #k ";\n"
static const char sums[] __attribute__((unused)) = HEAD
    ".visible .entry t(.param .u64 p, .param .u32 n)\n{\n" REGS
    ".reg .b64 %a<9>, %m<9>;\nld.param.u64 %a1, [p];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %a2, %r1, 8;\n"
    "mov.u32 %r2, %ctaid.x;\nmul.wide.u32 %a3, %r2, 64;\nadd.u64 %a4, %a1, %a3;\nmov.u32 %r7, 0;\n"
    "L: add.u64 %a5, %a4, %a2;\nld.global.u32 %r3, [%a5];\ncvt.u64.u32 %a6, %r3;\nshl.b64 %a7, %a6, 30;\n" MADS(
        1) MADS(2) MADS(3) MADS(4) MADS(5) MADS(6) MADS(7) MADS(8) "ld.global.u32 %r5, [%a5+4];\n" SUMS(1)
        SUMS(2) SUMS(3) SUMS(4) SUMS(5) SUMS(6) SUMS(7) SUMS(
            8) "add.u64 %a7, %a7, %a6;\n"
               "cvt.u32.u64 %r6, %a7;\nadd.u32 %r5, %r5, %r6;\nst.global.u32 [%a1+4096], %r5;\n"
               "st.global.u32 [%a4], -1;\nadd.u32 %r7, %r7, 1;\nsetp.lt.u32 %p1, %r7, 2;\n@%p1 bra L;\nret;\n}\n";

/* A loop over addresses whose lanes keep their distances, in all ways that 32 bits become 64. */
static const char affine[] __attribute__((unused)) = HEAD
    ".visible .entry t(.param .u64 p, .param .u32 n)\n{\n" REGS
    ".reg .b64 %a<12>;\nld.param.u64 %a1, [p];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %a2, %r1, 4;\n"
    "add.u64 %a3, %a1, %a2;\nld.global.u32 %r2, [%a3];\nand.b32 %r2, %r2, 63;\nadd.u32 %r2, %r2, %r1;\nmov.u32 %r7, 0;\n"
    "L: mul.wide.u32 %a4, %r2, 4;\nadd.u64 %a4, %a4, %a1;\nld.global.u32 %r3, [%a4];\nld.global.u32 %r4, [%a4+8];\n"
    "add.u32 %r8, %r2, 3;\nshl.b32 %r8, %r8, 3;\ncvt.u64.u32 %a5, %r8;\nadd.u64 %a5, %a5, %a1;\nld.global.u32 %r5, [%a5];\n"
    "sub.u32 %r9, %r2, 200;\nmad.wide.s32 %a6, %r9, -4, %a1;\nld.global.u16 %r10, [%a6];\n"
    "cvt.s64.s32 %a7, %r9;\nmul.lo.s64 %a7, %a7, -8;\nadd.u64 %a7, %a7, %a2;\nadd.u64 %a8, %a7, %a1;\n"
    "ld.global.u32 %r11, [%a8];\nsub.u64 %a9, %a8, %a2;\nld.global.u8 %r12, [%a9+1];\nshl.b64 %a10, %a7, 1;\n"
    "add.u64 %a10, %a10, %a1;\nld.global.u32 %r13, [%a10];\n"
    "add.u32 %r3, %r3, %r4;\nadd.u32 %r5, %r5, %r10;\nadd.u32 %r11, %r11, %r12;\nadd.u32 %r3, %r3, %r5;\n"
    "add.u32 %r3, %r3, %r11;\nadd.u32 %r3, %r3, %r13;\nst.global.u32 [%a1+4096], %r3;\n"
    "add.u32 %r2, %r2, 2;\nadd.u32 %r7, %r7, 1;\nsetp.lt.u32 %p1, %r7, 6;\n@%p1 bra L;\nret;\n}\n";

/* Calls that are not expanded in place. */
static const char calls[] __attribute__((unused)) = HEAD
    ".func (.param .b32 z) fac(.param .b32 x)\n{\n.reg .b32 %r<6>;\n.reg .pred %p;\n.reg .b64 %rd<3>;\n"
    ".local .align 8 .b8 l[16];\nld.param.b32 %r1, [x];\nmov.u32 %r4, 1;\nsetp.lt.u32 %p, %r1, 2;\n"
    "@%p bra E;\nsub.u32 %r2, %r1, 1;\nmov.u64 %rd1, l;\nst.local.u32 [%rd1], %r1;\n"
    "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r2; call (b), fac, (a); ld.param.b32 %r3, [b]; }\n"
    "ld.local.u32 %r5, [%rd1];\nmul.lo.u32 %r4, %r3, %r5;\nE: st.param.b32 [z], %r4;\nret;\n}\n"
    ".visible .entry t(.param .u64 p, .param .u32 n)\n{\n" REGS
    "ld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\nand.b32 %r1, %r1, 7;\n"
    "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), fac, (a); ld.param.b32 %r3, [b]; }\n"
    "setp.lt.u32 %p1, %r1, 3;\n@%p1 bra L;\nst.global.u32 [%rd1], %r3;\nL: st.global.u32 [%rd1+4], %r1;\nret;\n}\n";

#endif
