/* SPDX-License-Identifier: MIT */
/*
 * Hostile text: pseudo-random changes of good PTX must be refused or accepted, never crash, and text
 * that still decodes must run into nothing worse than a fault.
 *
 * fuzz_test [rounds [registers | FILE.ptx...]]: without files, a built-in text with all kinds of
 * instructions; registers: only exchanges registers. The sequence is the same each time.
 */
#include "exec/exec_test.h"
#include "memory/texture.h"

#include <stdlib.h>
#include <string.h>

static const char sample[] =
    ".version 8.3\n.target sm_80\n.address_size 64\n"
    ".global .f32 dat[4] = {1.0, 0f3F800000};\n.global .align 8 .u64 tab[3] = {1, generic(dat), 0x10};\n"
    ".extern .shared .align 16 .b8 dyn[];\n.const .align 4 .b8 by[] = {1, 0xff(dat), 3};\n"
    ".func (.param .b32 r) f(.param .b32 a)\n{\n.reg .b32 %x<3>;\nld.param.b32 %x1, [a];\n"
    "add.s32 %x2, %x1, 1;\nst.param.b32 [r], %x2;\nret;\n}\n"
    ".visible .entry t(.param .u64 p0, .param .align 8 .b8 p1[16])\n.maxntid 256, 1, 1\n{\n"
    ".reg .pred %p<4>;\n.reg .b16 %h<4>;\n.reg .b32 %r<12>;\n.reg .b64 %rd<6>;\n.reg .f32 %f<4>;\n"
    ".shared .align 4 .b8 s[64];\n.local .align 8 .b8 l[32];\n.loc 1 2 3\n"
    "ld.param.u64 %rd1, [p0];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\n"
    "add.s64 %rd3, %rd1, %rd2;\nmov.u32 %r2, s;\nL1: ld.global.v2.u32 {%r3, %r4}, [%rd1+8];\n"
    "setp.lt.and.s32 %p1|%p2, %r3, %r4, !%p3;\n@%p1 bra L2;\nst.shared.u32 [%r2+4], %r3;\n"
    "{ .reg .b32 %q; .param .b32 a0; .param .b32 r0;\nst.param.b32 [a0], %r1;\n"
    "call.uni (r0), f, (a0);\nld.param.b32 %q, [r0];\nst.global.u32 [%rd3], %q;\n}\n"
    "bar.sync 0;\nshfl.sync.bfly.b32 %r5|%p2, %r1, 16, 0x1f, -1;\nL2: add.u32 %r6, %r6, 1;\n"
    "setp.lt.u32 %p3, %r6, 3;\n@%p3 bra L1;\nts: .branchtargets L3, L4;\nand.b32 %r7, %r1, 1;\n"
    "brx.idx %r7, ts;\nL3: mov.u64 %rd4, l;\nst.local.u32 [%rd4+4], %r1;\nld.local.u32 %r8, [%rd4+4];\n"
    "cvt.rn.f32.s32 %f1, %r8;\nfma.rn.ftz.f32 %f2, %f1, 0f40000000, %f1;\n"
    "cvt.rn.f16.f32 %h1, %f2;\nmov.b32 %r9, {%h1, %h2};\nL4: atom.global.add.u32 %r10, [%rd1], 1;\n"
    "ld.const.u8 %h3, [by+1];\nld.global.u64 %rd5, [tab+8];\nld.f32 %f3, [%rd5];\n"
    "vote.sync.ballot.b32 %r11, %p1, -1;\nst.global.f32 [%rd3], %f3;\nret;\n}\n";

/* Textures and surfaces: a handle names one of two small objects, or none. */
static const char textures[] =
    ".version 8.3\n.target sm_80, texmode_independent\n.address_size 64\n.global .texref tr;\n"
    ".global .surfref sr;\n.global .samplerref sm = { addr_mode_0 = clamp_to_edge, filter_mode = linear };\n"
    ".visible .entry t(.param .u64 h)\n{\n.reg .pred %p<4>;\n.reg .f32 %f<12>;\n.reg .b32 %r<12>;\n"
    ".reg .b64 %rd<4>;\n.reg .b16 %h<6>;\nld.param.u64 %rd1, [h];\nmov.u32 %r1, %tid.x;\n"
    "cvt.rn.f32.u32 %f1, %r1;\nmov.f32 %f2, 0f3F000000;\nshl.b32 %r2, %r1, 2;\nmov.u64 %rd2, tr;\n"
    "tex.1d.v4.f32.s32 {%f3, %f4, %f5, %f6}, [%rd1, {%r1}];\n"
    "tex.2d.v4.f32.f32 {%f3, %f4, %f5, %f6}|%p1, [%rd1, sm, {%f1, %f2}], {1, -3};\n"
    "tex.level.3d.v4.s32.f32 {%r3, %r4, %r5, %r6}, [tr, {%f1, %f2, %f1, %f1}], %f2;\n"
    "tex.grad.a2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [%rd1, {%r1, %f1, %f2, %f2}], {%f1, %f2}, {%f2, %f1};\n"
    "tex.cube.v4.f32.f32 {%f7, %f8, %f9, _}, [%rd2, {%f1, %f2, %f3, %f3}];\n"
    "tex.a1d.v2.f16x2.f32 {%r3, %r4}, [%rd1, {%r1, %f1}];\n"
    "tld4.g.2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [%rd1, {%f1, %f2}], {3, 2};\n"
    "txq.width.b32 %r7, [%rd1];\ntxq.level.height.b32 %r8, [tr], %r7;\nistypep.texref %p2, %rd2;\n"
    "suld.b.2d.v2.b32.clamp {%r3, %r4}, [%rd1, {%r2, %r1}];\nsuq.width.b32 %r8, [sr];\n"
    "sust.b.2d.v4.b16.zero [%rd1, {%r2, %r1}], {%h1, %h2, %h3, %h4};\n"
    "sust.p.a2d.v4.b32.clamp [sr, {%r1, %r2, %r1, %r1}], {%r3, %r4, %r5, %r6};\n"
    "sured.b.add.3d.u32.zero [%rd1, {%r2, %r1, %r1, %r1}], %r3;\nret;\n}\n";

static float texels[8 * 8 * 6 * 4];

static const struct sg_texture *some_texture(void *unused, uint64_t handle, bool surface)
{
    static struct sg_texture t[2];

    (void)unused;
    for (uint32_t i = 0; i < 2 && !t[i].nlevels; i++) {
        t[i] = (struct sg_texture){.kind = i ? SG_TEXEL_UINT : SG_TEXEL_FLOAT,
                                   .bytes = i ? 1 : 4,
                                   .channels = 4,
                                   .elem = i ? 4 : 16,
                                   .dims = 2 + i,
                                   .nlevels = 1,
                                   .cube = !i,
                                   .address = {SG_WRAP, SG_MIRROR, SG_BORDER},
                                   .linear = !i,
                                   .normalized = i,
                                   .seamless = !i};
        t[i].level[0] = (struct sg_tex_level){(uintptr_t)texels, 8, 8, 6, 8 * t[i].elem, 64 * t[i].elem};
    }
    t[0].surface = surface;
    return handle % 5 == 4 ? NULL : &t[handle % 2];
}

static uint64_t rng = 0x9e3779b97f4a7c15ull;
static uint32_t rnd(uint32_t n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)(rng >> 32) % n;
}

static const char *const words[] = {"{",
                                    "}",
                                    "[",
                                    "]",
                                    "(",
                                    ")",
                                    ";",
                                    ",",
                                    "4294967295",
                                    "-1",
                                    "0x7fffffffffffffff",
                                    "%r1",
                                    "%rd1",
                                    "%p1",
                                    "@%p1 ",
                                    ".u64",
                                    ".b16",
                                    ".v4",
                                    ".align 64",
                                    "<99999999>",
                                    "[1000000]",
                                    "bra L1;",
                                    "ret;",
                                    "%tid.x",
                                    "1e999",
                                    "0f7FC00000",
                                    "/*",
                                    "*/",
                                    "//",
                                    "\"",
                                    ".param",
                                    ".reg .b32 %r<4>;",
                                    "t",
                                    "f",
                                    "L1:",
                                    ":",
                                    "exit;",
                                    "call f;",
                                    ".shared",
                                    ".global",
                                    "dyn",
                                    "0",
                                    "call.uni (r0), f, (a0);",
                                    "{%f1, %f2}",
                                    "[tr, {%f1}]",
                                    ".v4",
                                    "sm",
                                    ".cube",
                                    ".a2d"};

static size_t mutate(char *buf, size_t n, size_t max, const char *src, size_t len)
{
    memcpy(buf, src, len);
    n = len;
    for (uint32_t k = 1 + rnd(4); k; k--) {
        size_t at = rnd((uint32_t)n), cut;
        const char *w;

        switch (rnd(5)) {
        case 0: /* a byte */
            buf[at] = (char)rnd(256);
            break;
        case 1: /* a word in */
            w = words[rnd(sizeof(words) / sizeof(words[0]))];
            if (n + strlen(w) < max) {
                memmove(buf + at + strlen(w), buf + at, n - at);
                memcpy(buf + at, w, strlen(w));
                n += strlen(w);
            }
            break;
        case 2: /* a piece out */
            cut = 1 + rnd(12);
            if (at + cut < n) {
                memmove(buf + at, buf + at + cut, n - at - cut);
                n -= cut;
            }
            break;
        case 3: /* a piece doubled */
            cut = 1 + rnd(60);
            if (at + cut < n && n + cut < max) {
                memmove(buf + at + cut, buf + at, n - at);
                n += cut;
            }
            break;
        default: /* the end missing, rarely */
            if (!rnd(20))
                n = at + 1;
            break;
        }
    }
    return n;
}

/* Each kind of instruction that takes registers, with a register of every class at hand. */
static const char classes[] =
    ".version 9.0\n.target sm_90\n.address_size 64\n"
    ".func (.reg .b32 z) ff(.reg .b32 x)\n{\nmov.b32 z, x;\nret;\n}\n"
    ".func (.param .b64 z) fm(.param .b64 x)\n{\n.reg .b64 %y<2>;\nld.param.u64 %y1, [x];\n"
    "st.param.u64 [z], %y1;\nret;\n}\n"
    ".visible .entry t(.param .u64 p)\n{\n.reg .pred %p<4>;\n.reg .b16 %h<4>;\n.reg .b32 %r<12>;\n"
    ".reg .f32 %f<12>;\n.reg .f64 %d<4>;\n.reg .b64 %rd<6>;\n.reg .b128 %q<4>;\n"
    ".shared .align 16 .b8 s[1024];\n.local .align 8 .b8 l[64];\nld.param.u64 %rd1, [p];\n"
    "mov.u32 %r1, %tid.x;\nmov.u64 %rd2, %clock64;\nmov.u32 %r2, s;\nmov.u64 %rd3, l;\n"
    "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r3, %r4}, [%r2];\n"
    "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2], {%r3};\n"
    "movmatrix.sync.aligned.m8n8.trans.b16 %r5, %r4;\n"
    "wmma.load.c.sync.aligned.row.m16n16k16.f16 {%r3,%r4,%r5,%r6}, [%rd1];\n"
    "wmma.store.d.sync.aligned.row.m16n16k16.f16 [%rd1], {%r3,%r4,%r5,%r6}, %r1;\n"
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r3,%r4}, {%r5}, {%f1,%f2,%f3,%f4};\n"
    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d1,%d2}, {%d3}, {%d1}, {%d1,%d2};\n"
    "call (%r7), ff, (%r1);\n{ .param .b64 a; .param .b64 b;\nst.param.b64 [a], %rd2;\n"
    "call (b), fm, (a);\nld.param.b64 %rd4, [b];\n}\nmov.b128 %q1, {%rd1, %rd2};\n"
    "mov.b128 {%rd4, %rd5}, %q1;\nst.global.b128 [%rd1], %q1;\natom.global.exch.b128 %q2, [%rd1], %q1;\n"
    "setp.lt.u32 %p1|%p2, %r1, %r2;\nselp.b64 %rd4, %rd1, %rd2, %p1;\n@%p1 add.f64 %d1, %d1, %d2;\n"
    "shfl.sync.bfly.b32 %r5|%p2, %r1, 16, 0x1f, -1;\nmatch.all.sync.b64 %r6|%p3, %rd2, -1;\n"
    "bar.red.popc.u32 %r7, 0, %p1;\ncvt.rn.f16.f32 %h1, %f1;\nmov.b32 %r8, {%h1, %h2};\n"
    "mov.b64 {%r9, %r10}, %rd2;\nst.local.u64 [%rd3], %rd2;\nld.shared.v4.u32 {%r3,%r4,%r5,%r6}, [%r2];\n"
    "cp.async.ca.shared.global [%r2], [%rd1], 16, %r11;\nmapa.shared::cluster.u32 %r11, %r2, 0;\n"
    "mbarrier.init.shared.b64 [%r2], 1;\nmbarrier.arrive.shared.b64 %rd4, [%r2];\n"
    "mbarrier.test_wait.shared.b64 %p1, [%r2], %rd4;\nst.global.u32 [%rd1], %r3;\nret;\n}\n";

/* Replaces one to three registers by registers of any class. */
static size_t swap_registers(char *buf, size_t max, const char *src, size_t len)
{
    static const char *const names[] = {"%p1", "%p3", "%h1", "%h2", "%r1",      "%r2",    "%r3",    "%r9",
                                        "%f1", "%f4", "%d1", "%d3", "%rd1",     "%rd2",   "%rd5",   "%q1",
                                        "%q2", "%q3", "_",   "7",   "%clock64", "%clock", "%tid.x", "%r11"};
    size_t n = len;

    memcpy(buf, src, len);
    for (uint32_t k = 1 + rnd(3); k; k--) {
        const char *to = names[rnd(sizeof(names) / sizeof(names[0]))];
        size_t at = rnd((uint32_t)n), end;

        while (at < n && buf[at] != '%')
            at++;
        for (end = at + 1; end < n && (strchr("pqrhfd", buf[end]) || (buf[end] >= '0' && buf[end] <= '9'));
             end++)
            ;
        if (at >= n || buf[end] == '<' || n + strlen(to) >= max)
            continue;
        memmove(buf + at + strlen(to), buf + end, n - end);
        memcpy(buf + at, to, strlen(to));
        n = n - (end - at) + strlen(to);
    }
    return n;
}

static unsigned accepted, ran;

static void one(const char *text, size_t n)
{
    static uint64_t *room;
    struct sg_module *m;
    struct sg_diag d;

    if (sg_module_parse(text, n, &m, &d))
        return;
    accepted++;
    for (uint32_t i = 0; i < sg_module_global_count(m); i++) {
        struct sg_global_info g;

        sg_module_get_global(m, i, &g);
        if (g.size > 1 << 20)
            goto out;
        sg_module_set_global_address(m, i, (uintptr_t)tm_alloc(g.size + 1));
    }
    if (sg_module_init_globals(m, &d))
        goto out;
    for (uint32_t i = 0; i < sg_module_opaque_count(m); i++) {
        struct sg_sampler_init unused;

        sg_module_get_sampler(m, i, &unused, &d);
        sg_module_set_opaque_handle(m, i, 5 + i);
    }
    room = tm_alloc(4096);
    for (uint32_t i = 0; i < sg_module_kernel_count(m) && i < 40; i++) {
        struct tk t = {.m = m, .k = sg_module_kernel(m, i)};
        struct sg_kernel_info info;
        struct sg_fault f;
        uint64_t params[SG_MAX_PARAM_BYTES / 8 + 1];

        if (sg_kernel_prepare(t.k, &d))
            continue;
        sg_kernel_get_info(t.k, &info);
        for (size_t k = 0; k < sizeof(params) / 8; k++)
            params[k] = (uintptr_t)room;
        tk_run(&t, 2, 48, params, &f);
        ran++;
    }
out:
    sg_module_free(m);
    tm_free_all();
}

static void fuzz(const char *name, const char *src, size_t len, unsigned rounds, bool swap)
{
    size_t max = len + 4096;
    char *buf = malloc(max);

    accepted = ran = 0;
    for (unsigned i = 0; i < rounds; i++)
        one(buf, swap ? swap_registers(buf, max, src, len) : mutate(buf, 0, max, src, len));
    printf("%s: %u texts, %u accepted, %u kernels ran\n", name, rounds, accepted, ran);
    t_result(name, accepted && ran, "nothing was accepted, or nothing ran");
    free(buf);
}

int main(int argc, char **argv)
{
    unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 3000;

    const bool registers = argc == 3 && !strcmp(argv[2], "registers");

    t_watchdog = 20000;
    if (argc < 3)
        fuzz("changed text", sample, strlen(sample), rounds, false);
    if (argc < 3 || registers)
        fuzz("exchanged registers", classes, strlen(classes), rounds, true);
    t_texture = some_texture;
    if (argc < 3)
        fuzz("changed textures", textures, strlen(textures), rounds, false);
    for (int i = 2; i < argc && !registers; i++) {
        FILE *f = fopen(argv[i], "rb");
        char *text = malloc(4 << 20);
        size_t n = f && text ? fread(text, 1, 4 << 20, f) : 0;

        if (f)
            fclose(f);
        if (n)
            fuzz(argv[i], text, n, rounds, false);
        free(text);
    }
    return t_end("softgpu fuzz");
}
