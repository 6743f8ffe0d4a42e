/* SPDX-License-Identifier: MIT */
/*
 * Changes of PTX text that keep more of it valid than changes of bytes do: whole lines are doubled,
 * moved, dropped or generated, registers replaced by registers of the same or another class.
 */
#include "mutate.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

static uint64_t state;
static uint32_t rnd(uint32_t n)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(state >> 33) % n;
}

/* %a 16-bit, %b 32-bit, %c 64-bit register, %f f32, %g f64, %p predicate, %i number, %s size type */
static const char *const lines[] = {
    "add.%s %b, %b, %b;",
    "sub.cc.u32 %b, %b, %i;",
    "addc.u32 %b, %b, %b;",
    "mul.lo.s32 %b, %b, %i;",
    "mul.hi.u64 %c, %c, %c;",
    "mad.wide.u32 %c, %b, %b, %c;",
    "div.s32 %b, %b, %b;",
    "rem.u64 %c, %c, %c;",
    "shl.b32 %b, %b, %b;",
    "shr.s64 %c, %c, %b;",
    "bfe.u32 %b, %b, %b, %i;",
    "bfi.b64 %c, %c, %c, %b, %b;",
    "prmt.b32 %b, %b, %b, %i;",
    "lop3.b32 %b, %b, %b, %b, 0x96;",
    "shf.l.wrap.b32 %b, %b, %b, %i;",
    "selp.b32 %b, %b, %i, %p;",
    "setp.lt.u32 %p, %b, %i;",
    "setp.gtu.f32 %p|%p, %f, %f;",
    "mov.b64 %c, {%b, %b};",
    "mov.b32 {%a, %a}, %b;",
    "cvt.rzi.s32.f32 %b, %f;",
    "cvt.rn.f16.f32 %a, %f;",
    "cvt.sat.u8.s32 %b, %b;",
    "cvt.u64.u32 %c, %b;",
    "fma.rn.f32 %f, %f, %f, %f;",
    "fma.rn.f16x2 %b, %b, %b, %b;",
    "sqrt.rn.f64 %g, %g;",
    "ex2.approx.f32 %f, %f;",
    "add.rm.f64 %g, %g, %g;",
    "ld.global.%s %b, [%rd1+%i];",
    "st.global.%s [%rd4+%i], %b;",
    "ld.global.v4.u32 {%b, %b, %b, %b}, [%rd1];",
    "st.global.v2.u64 [%rd2+%i], {%c, %c};",
    "ld.shared.%s %b, [%r6+%i];",
    "st.shared.%s [%b], %b;",
    "ld.local.u64 %c, [loc+%i];",
    "st.local.u32 [%rd5], %b;",
    "ld.u32 %b, [%c];",
    "st.u8 [%c+%i], %b;",
    "ld.const.u32 %b, [cst+%i];",
    "ld.param.u8 %a, [p4+%i];",
    "cvta.shared.u64 %c, %c;",
    "cvta.to.global.u64 %c, %c;",
    "isspacep.shared %p, %c;",
    "atom.global.add.u32 %b, [%rd1+%i], %b;",
    "atom.shared.cas.b32 %b, [%r4+%i], %b, %b;",
    "atom.global.exch.b128 %c, [%c], %c;",
    "red.global.max.s64 [%rd2+%i], %c;",
    "atom.add.noftz.f16x2 %b, [%c], %b;",
    "bar.sync %i;",
    "bar.sync %b, 32;",
    "barrier.cta.red.popc.u32 %b, 1, %p;",
    "bar.warp.sync %b;",
    "membar.gl;",
    "shfl.sync.bfly.b32 %b|%p, %b, %b, 0x1f, -1;",
    "shfl.sync.idx.b32 %b, %b, %i, %b, %b;",
    "vote.sync.ballot.b32 %b, %p, -1;",
    "vote.sync.any.pred %p, %p, %b;",
    "match.any.sync.b32 %b, %b, -1;",
    "redux.sync.add.s32 %b, %b, -1;",
    "activemask.b32 %b;",
    "elect.sync %b|%p, -1;",
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%b, %b, %b, %b}, [%r6];",
    "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%b}, [%b];",
    "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r4], {%b, %b};",
    "movmatrix.sync.aligned.m8n8.trans.b16 %b, %b;",
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f,%f,%f,%f}, {%b,%b}, {%b}, {%f,%f,%f,%f};",
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f,%f,%f,%f}, {%b,%b,%b,%b}, {%b,%b}, {%f,%f,%f,%f};",
    "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%b,%b,%b,%b}, {%b,%b,%b,%b}, {%b,%b}, {%b,%b,%b,%b};",
    "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%b,%b,%b,%b,%b,%b,%b,%b}, [%rd5], 16;",
    "cp.async.cg.shared.global [%r4+%i], [%rd1+%i], 16;",
    "cp.async.ca.shared.global [%b], [%c], 4, %b;",
    "cp.async.wait_all;",
    "cp.async.commit_group;",
    "mbarrier.init.shared.b64 [%r4+%i], %b;",
    "mbarrier.arrive.shared.b64 %c, [%r4+%i];",
    "mbarrier.test_wait.shared.b64 %p, [%r4+%i], %c;",
    "nanosleep.u32 %b;",
    "@%p bra LEND;",
    "@!%p bra L%i;",
    "bra.uni L%i;",
    "L%i:",
    "@%p exit;",
    "@%p ret;",
    "brx.idx %b, ts;",
    "ts: .branchtargets LEND, LEND;",
    "{ .reg .b32 q; mov.u32 q, %b; }",
    "{ .param .b32 a0; .param .b32 r0; st.param.b32 [a0], %b; call.uni (r0), f, (a0); ld.param.b32 %b, [r0]; }",
    "alloca.u64 %c, %c, 16;",
    "stacksave.u64 %c;",
    "stackrestore.u64 %c;",
    "trap;",
    "prefetch.global.L2 [%c];",
    "dp4a.s32.u32 %b, %b, %b, %b;",
    "vadd.s32.u32.s32.sat %b, %b, %b;",
    "bfind.shiftamt.u64 %b, %c;",
    "testp.normal.f32 %p, %f;",
    "copysign.f64 %g, %g, %g;",
    "cvt.rn.satfinite.e4m3x2.f32 %a, %f, %f;",
    "mov.u32 %b, %tid.y;",
    "mov.u64 %c, glob;",
    "mov.u64 %c, f;",
    "mov.u32 %b, %clock;",
    "mov.u32 %b, dyn;",
    "tex.1d.v4.f32.f32 {%f, %f, %f, %f}, [%c, {%f}];",
    "tex.1d.v4.u32.s32 {%b, %b, %b, %b}, [%c, {%b}];",
    "tex.2d.v4.s32.f32 {%b, %b, %b, %b}, [%c, {%f, %f}], {%b, %i};",
    "tex.level.3d.v4.f32.f32 {%f, %f, %f, %f}, [%c, {%f, %f, %f, %f}], %f;",
    "tex.grad.2d.v4.f32.f32 {%f, %f, %f, %f}, [%c, {%f, %f}], {%f, %f}, {%f, %f};",
    "tex.cube.v4.f32.f32 {%f, %f, %f, %f}, [%c, {%f, %f, %f, %f}];",
    "tex.acube.v4.f32.f32 {%f, %f, %f, %f}, [%c, {%b, %f, %f, %f}];",
    "tex.a1d.v4.f32.f32 {%f, %f, %f, %f}, [%c, {%b, %f}];",
    "tex.a2d.v4.u32.s32 {%b, %b, %b, %b}, [%c, {%b, %b, %b, %b}];",
    "tld4.g.2d.v4.f32.f32 {%f, %f, %f, %f}, [%c, {%f, %f}];",
    "txq.width.b32 %b, [%c];",
    "txq.level.height.b32 %b, [%c], %b;",
    "istypep.surfref %p, %c;",
    "suq.height.b32 %b, [%c];",
    "suld.b.1d.b32.clamp %b, [%c, {%b}];",
    "suld.b.2d.v4.b32.zero {%b, %b, %b, %b}, [%c, {%b, %b}];",
    "suld.b.3d.b64.trap %c, [%c, {%b, %b, %b, %b}];",
    "suld.b.a2d.v2.b16.clamp {%a, %a}, [%c, {%b, %b, %b, %b}];",
    "suld.b.a1d.b8.zero %a, [%c, {%b, %b}];",
    "sust.b.2d.b8.clamp [%c, {%b, %b}], %a;",
    "sust.b.3d.v2.b64.zero [%c, {%b, %b, %b, %b}], {%c, %c};",
    "sust.b.a2d.b16.trap [%c, {%b, %b, %b, %b}], %a;",
    "sust.p.2d.v4.b32.clamp [%c, {%b, %b}], {%b, %b, %b, %b};",
    "sust.p.1d.b32.zero [%c, {%b}], %b;",
    "sured.b.add.1d.u32.clamp [%c, {%b}], %b;",
    "sured.b.min.2d.s32.zero [%c, {%b, %b}], %b;",
    "sured.p.or.a2d.b32.clamp [%c, {%b, %b, %b, %b}], %b;",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4+%i], [%rd1+%i], %b, [%r6];",
    "cp.async.bulk.global.shared::cta.bulk_group [%rd1+%i], [%b], 32;",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u64 [%rd1], [%r4+%i], %b;",
    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%b], [%rd1, {%b, %b}], [%r6];",
    "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd1, {%b}], [%r4];",
    "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.bulk_group [%c, {%b, %b, %b}], [%b];",
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [%b], 128;",
    "wgmma.fence.sync.aligned;",
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f, %f, %f, %f}, %c, %c, %p, 1, 1, 0, 0;",
    "wgmma.mma_async.sync.aligned.m64n16k16.f16.f16.f16 {%b, %b, %b, %b}, {%b, %b, %b, %b}, %c, 1, 1, 1, 0;",
    "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8 {%b, %b, %b, %b}, {%b, %b, %b, %b}, %c, %p;",
    "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.bf16.bf16 {%f, %f, %f, %f}, %c, %c, %b, 0, %p, 1, 1, 0, 0;",
    "wgmma.commit_group.sync.aligned;",
    "wgmma.wait_group.sync.aligned 0;",
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r4+%i], 64;",
    "tcgen05.alloc.cta_group::1.sync.aligned.b32 [%c], %b;",
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %b, 64;",
    "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
    "tcgen05.ld.sync.aligned.16x64b.x2.b32 {%b, %b}, [%b];",
    "tcgen05.ld.sync.aligned.32x32b.x4.pack::16b.b32 {%b, %b, %b, %b}, [%b];",
    "tcgen05.ld.sync.aligned.16x32bx2.x2.b32 {%b, %b}, [%b], %i;",
    "tcgen05.st.sync.aligned.16x256b.x1.b32 [%b], {%b, %b, %b, %b};",
    "tcgen05.cp.cta_group::1.128x256b [%b], %c;",
    "tcgen05.cp.cta_group::1.32x128b.warpx4.b8x16.b6x16_p32 [%b], %c;",
    "tcgen05.mma.cta_group::1.kind::f16 [%b], %c, %c, %b, %p;",
    "tcgen05.mma.cta_group::1.kind::f8f6f4 [%b], [%b], %c, %b, {%b, %b, %b, %b}, %p;",
    "tcgen05.mma.cta_group::1.kind::i8 [%b], %c, %c, %b, 0;",
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r4], %a;",
    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%b], [%r6];",
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%b], {%b, %b}, [%r4];",
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.inc.u32 [%b], %b, [%r4+%i];",
    "mbarrier.arrive.expect_tx.shared.b64 %c, [%r4+%i], %b;",
    "barrier.cluster.arrive;",
    "barrier.cluster.wait;",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r11+%i], [%rd6+%i], %b, [%r6];",
    "cp.async.bulk.global.shared::cta.bulk_group [%rd6+%i], [%r11], %b;",
    "mov.u32 %r10, %i;",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.xor.b32 [%rd6+%i], [%r11], %b;",
    "ld.global.v2.u64 {%c, %c}, [%rd6+%i];",
    "st.v4.u32 [%rd6+%i], {%b, %b, %b, %b};",
    "atom.global.add.u64 %c, [%rd6+%i], %c;",
    "cp.async.cg.shared.global [%r11], [%rd6+%i], 16;",
    "mapa.shared::cluster.u32 %b, %b, %b;",
    "getctarank.shared::cluster.u32 %b, %b;",
    "mov.u32 %b, %envreg1;",
    "wmma.load.a.sync.aligned.row.m8n8k32.shared.s4 {%b}, [%c], 32;",
    "tanh.approx.f16x2 %b, %b;",
    "min.xorsign.abs.f32 %f, %f, %f;",
    "sin.approx.ftz.f32 %f, %f;",
    "mov.b128 %q1, {%c, %c};",
    "mov.b128 {%c, %c}, %q2;",
    "st.global.b128 [%rd1+%i], %q1;",
    "atom.global.exch.b128 %q3, [%rd1], %q1;",
    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%g,%g}, {%g}, {%g}, {%g,%g};",
    "wmma.store.d.sync.aligned.row.m16n16k16.f16 [%rd1], {%b,%b,%b,%b}, %b;",
};
static const char *const types[] = {"u8",  "s8",  "u16", "s16", "u32", "s32",   "b32",
                                    "u64", "s64", "b64", "f32", "f64", "f16x2", "b128"};
static const char *const numbers[] = {"0",
                                      "1",
                                      "2",
                                      "4",
                                      "8",
                                      "16",
                                      "31",
                                      "32",
                                      "33",
                                      "255",
                                      "256",
                                      "1020",
                                      "4092",
                                      "4095",
                                      "65535",
                                      "-1",
                                      "-4",
                                      "2147483647",
                                      "0x80000000",
                                      "0xffffffff",
                                      "9223372036854775807",
                                      "-9223372036854775808"};

/* A new line made of a pattern; its length. */
static size_t make_line(char *out, size_t cap)
{
    const char *p = lines[rnd(sizeof(lines) / sizeof(lines[0]))];
    size_t n = 0;

    for (; *p && n + 24 < cap; p++) {
        if (*p != '%' || !p[1] || !strchr("abcfgpis", p[1]) || (p[2] >= 'a' && p[2] <= 'z')) {
            out[n++] = *p;
            continue;
        }
        switch (*++p) {
        case 'a':
            n += (size_t)snprintf(out + n, cap - n, "%%h%u", rnd(16));
            break;
        case 'b':
            n += (size_t)snprintf(out + n, cap - n, "%%r%u", rnd(32));
            break;
        case 'c':
            n += (size_t)snprintf(out + n, cap - n, "%%rd%u", rnd(16));
            break;
        case 'f':
            n += (size_t)snprintf(out + n, cap - n, "%%f%u", rnd(16));
            break;
        case 'g':
            n += (size_t)snprintf(out + n, cap - n, "%%fd%u", rnd(8));
            break;
        case 'p':
            n += (size_t)snprintf(out + n, cap - n, "%%p%u", rnd(8));
            break;
        case 'i':
            n += (size_t)snprintf(out + n, cap - n, "%s", numbers[rnd(22)]);
            break;
        default:
            n += (size_t)snprintf(out + n, cap - n, "%s", types[rnd(14)]);
            break;
        }
    }
    out[n++] = '\n';
    return n;
}

/* The line around a random place. */
static size_t pick_line(const uint8_t *d, size_t size, size_t *len)
{
    size_t at = rnd((uint32_t)size), end;

    while (at && d[at - 1] != '\n')
        at--;
    for (end = at; end < size && d[end] != '\n'; end++)
        ;
    *len = (end < size ? end + 1 : end) - at;
    return at;
}

static size_t insert(uint8_t *d, size_t size, size_t max, size_t at, const void *what, size_t n)
{
    if (n > max - size)
        return size;
    memmove(d + at + n, d + at, size - at);
    memcpy(d + at, what, n);
    return size + n;
}

/* Changes a number in the line, of a register's name or elsewhere. */
static void change_digit(uint8_t *d, size_t len)
{
    size_t at = rnd((uint32_t)len);

    for (size_t i = 0; i < len; i++) {
        uint8_t *c = &d[(at + i) % len];

        if (*c >= '0' && *c <= '9') {
            *c = (uint8_t)('0' + rnd(10));
            return;
        }
    }
}

static bool of_register(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* Replaces a register of the line by a register of any class; returns the new length of the text. */
static size_t change_class(uint8_t *d, size_t size, size_t max, size_t at, size_t len)
{
    static const char *const names[] = {"%p1", "%p3", "%h1",      "%h2",    "%r1",    "%r4",  "%r9",
                                        "%f1", "%f4", "%fd1",     "%fd3",   "%rd1",   "%rd2", "%rd5",
                                        "%q1", "%q2", "%clock64", "%clock", "%tid.x", "_",    "7"};
    const char *to = names[rnd(sizeof(names) / sizeof(names[0]))];
    const size_t n = strlen(to), end = at + len;
    size_t from = at + rnd((uint32_t)len), last;

    while (from < end && d[from] != '%')
        from++;
    for (last = from + 1; last < end && of_register(d[last]); last++)
        ;
    if (from >= end || size - (last - from) + n > max)
        return size;
    memmove(d + from + n, d + last, size - last);
    memcpy(d + from, to, n);
    return size - (last - from) + n;
}

size_t fz_mutate(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    char line[400];
    size_t at, to, len, unused;

    state = seed;
    if (rnd(2) || !size)
        return LLVMFuzzerMutate(data, size, max);
    for (uint32_t k = 1 + rnd(3); k && size; k--) {
        at = pick_line(data, size, &len);
        switch (rnd(8)) {
        case 0:
        case 1:
            size = insert(data, size, max, at, line, make_line(line, sizeof(line)));
            break;
        case 2: /* doubled elsewhere */
            if (len <= sizeof(line)) {
                memcpy(line, data + at, len);
                to = pick_line(data, size, &unused);
                size = insert(data, size, max, to, line, len);
            }
            break;
        case 3:
            memmove(data + at, data + at + len, size - at - len);
            size -= len;
            break;
        case 4:
            size = insert(data, size, max, at, "@%p1 ", 5);
            break;
        case 5:
        case 6:
            if (len)
                size = change_class(data, size, max, at, len);
            break;
        default:
            if (len)
                change_digit(data + at, len);
            break;
        }
    }
    return size;
}
