/* SPDX-License-Identifier: MIT */
/*
 * Reports of failed launches: each error has its CUresult, and a line that names kernel, block,
 * thread, line of the PTX and, for memory errors, the address; interpreted and native.
 */
#include "exec/run_test.h"

#include <stdlib.h>
#include <string.h>

/* True if the line names kernel, block, thread, line of the text and, for memory errors, the
   address. */
static bool says_where(const struct sg_fault *f)
{
    char where[128], addr[64] = "";

    snprintf(where, sizeof(where), ", block (%u,%u,%u) thread (%u,%u,%u), PTX line %u", f->block[0],
             f->block[1], f->block[2], f->thread[0], f->thread[1], f->thread[2], f->line);
    if (f->access_size)
        snprintf(addr, sizeof(addr), "%s address 0x%llx ", f->space, (unsigned long long)f->address);
    return f->line && !strncmp(f->message, "t: ", 3) && strstr(f->message, where) && strstr(f->message, addr);
}

static void expect_fault(const char *name, const char *text, uint32_t block, int result, uint32_t thread,
                         const char *word)
{
    struct sg_fault f;
    int r = go(text, 1, block, &f);

    t_result(name, r == result && f.thread[0] == thread && strstr(f.message, word) && says_where(&f),
             "result %d (expected %d), thread %u (expected %u): %s", r, result, f.thread[0], thread,
             f.message);
}

static void test_faults(void)
{
    struct sg_fault f;
    int r;

    expect_fault("read outside global memory",
                 KERNEL("", "mul.wide.u32 %rd3, %r1, 512;\nadd.u64 %rd3, %rd3, %rd0;\n"
                            "ld.global.u32 %r9, [%rd3];"),
                 64, SG_ERR_ADDRESS, 32, "read of 4 bytes");
    expect_fault(
        "the third of three reads outside",
        KERNEL(
            "",
            "mul.wide.u32 %rd3, %r1, 512;\nadd.u64 %rd3, %rd3, %rd0;\nld.global.u32 %r9, [%rd3];\n"
            "ld.global.u32 %r10, [%rd3+4];\nld.global.u32 %r11, [%rd3+8192];\nst.global.u32 [%rd1], %r11;"),
        32, SG_ERR_ADDRESS, 16, "read of 4 bytes");
    expect_fault(
        "the same with lanes missing",
        KERNEL(
            "",
            "mul.wide.u32 %rd3, %r1, 512;\nadd.u64 %rd3, %rd3, %rd0;\nsetp.lt.u32 %p1, %r1, 18;\n@%p1 bra E;\n"
            "ld.global.u32 %r9, [%rd3];\nld.global.u32 %r10, [%rd3+8192];\nst.global.u32 [%rd1], %r10;\nE:"),
        32, SG_ERR_ADDRESS, 18, "read of 4 bytes");
    expect_fault("the second of two halves outside",
                 KERNEL("", ".reg .b16 %h<2>;\nmul.wide.u32 %rd3, %r1, 2;\nadd.u64 %rd3, %rd3, %rd0;\n"
                            "ld.global.u16 %h0, [%rd3+16320];\nld.global.u16 %h1, [%rd3+16322];\n"
                            "st.global.u16 [%rd1], %h1;"),
                 32, SG_ERR_ADDRESS, 31, "read of 2 bytes");
    expect_fault("misaligned among others",
                 KERNEL("",
                        "mul.wide.u32 %rd3, %r1, 2;\nadd.u64 %rd3, %rd3, %rd0;\nld.global.u8 %r9, [%rd3];\n"
                        "ld.global.u32 %r10, [%rd3+4];\nst.global.u32 [%rd1], %r10;"),
                 32, SG_ERR_MISALIGNED, 1, "misaligned");
    expect_fault("one address for all lanes, outside",
                 KERNEL("", "ld.global.v2.u32 {%r9, %r10}, [%rd0+16384];\nst.global.u32 [%rd1], %r10;"), 32,
                 SG_ERR_ADDRESS, 0, "read of 8 bytes");
    expect_fault("a row of words read across the end",
                 KERNEL("", "ld.global.u32 %r9, [%rd1+16320];\nst.global.u32 [%rd1], %r9;"), 32,
                 SG_ERR_ADDRESS, 16, "read of 4");
    expect_fault(
        "a row of pairs read across the end",
        KERNEL(
            "",
            "mul.wide.u32 %rd3, %r1, 8;\nadd.u64 %rd3, %rd3, %rd0;\nld.global.v2.u32 {%r9, %r10}, [%rd3+16256];\n"
            "st.global.u32 [%rd1], %r10;"),
        32, SG_ERR_ADDRESS, 16, "read of 8");
    expect_fault("a row of words written across the end", KERNEL("", "st.global.u32 [%rd1+16320], %r1;"), 32,
                 SG_ERR_ADDRESS, 16, "write of 4");
    expect_fault("a row of words across the end of shared memory",
                 KERNEL(".shared .b32 s[20];\n",
                        "mov.u32 %r9, s;\nmad.lo.u32 %r9, %r1, 4, %r9;\nst.shared.u32 [%r9], %r1;"),
                 32, SG_ERR_ADDRESS, 20, "shared");
    expect_fault(
        "the same, read",
        KERNEL(
            ".shared .b32 s[40];\n",
            "mov.u32 %r9, s;\nmad.lo.u32 %r9, %r1, 4, %r9;\nld.shared.u32 %r10, [%r9+80];\nst.global.u32 [%rd1], %r10;"),
        32, SG_ERR_ADDRESS, 20, "shared");
    expect_fault(
        "a misaligned row of shared memory",
        KERNEL(
            ".shared .b32 s[40];\n",
            "mov.u32 %r9, s;\nmad.lo.u32 %r9, %r1, 4, %r9;\nld.shared.u32 %r10, [%r9+2];\nst.global.u32 [%rd1], %r10;"),
        32, SG_ERR_MISALIGNED, 0, "misaligned");
    expect_fault("write outside global memory",
                 KERNEL("", "setp.eq.u32 %p1, %r1, 3;\nmov.u64 %rd3, 16;\n@%p1 st.global.u32 [%rd3], %r9;"),
                 32, SG_ERR_ADDRESS, 3, "write of 4 bytes at global address 0x10");
    expect_fault("a write across the end",
                 KERNEL("", "st.global.v4.u32 [%rd0+16376], "
                            "{%r1, %r1, %r1, %r1};"),
                 1, SG_ERR_MISALIGNED, 0, "misaligned");
    expect_fault("misaligned", KERNEL("", "st.global.u32 [%rd1+2], %r1;"), 8, SG_ERR_MISALIGNED, 0,
                 "misaligned");
    /* vectors that are accessed in two halves */
#define WIDE(body) \
    ".version 8.8\n.target sm_100\n.address_size 64\n.visible .entry t(.param .u64 p0)\n{\n" \
    ".reg .b32 %r<8>;\n.reg .b64 %rd<4>;\nld.param.u64 %rd0, [p0];\n" body "\nret;\n}\n"
    expect_fault("8 words aligned to 16 bytes",
                 WIDE("ld.global.v8.b32 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%rd0+16];"), 4,
                 SG_ERR_MISALIGNED, 0, "read of 32 bytes");
    expect_fault("8 words to such an address",
                 WIDE("st.global.v8.f32 [%rd0+48], {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7};"), 4,
                 SG_ERR_MISALIGNED, 0, "write of 32 bytes");
    expect_fault("4 double words aligned to 16 bytes",
                 WIDE("ld.global.v4.b64 {%rd0, %rd1, %rd2, %rd3}, [%rd0+16];"), 4, SG_ERR_MISALIGNED, 0,
                 "read of 32 bytes");
    expect_fault("outside shared memory",
                 KERNEL(".shared .b32 s[4];\n",
                        "mov.u32 %r9, s;\nmad.lo.u32 %r9, %r1, 4, %r9;\nst.shared.u32 [%r9], %r1;"),
                 8, SG_ERR_ADDRESS, 4, "shared");
    expect_fault("beyond 32 bits of local memory",
                 KERNEL("",
                        ".local .align 4 .b8 d[8];\nmov.u64 %rd3, d;\nadd.s64 %rd3, %rd3, 0x10000000000;\n"
                        "st.local.u32 [%rd3+4], %r1;"),
                 8, SG_ERR_ADDRESS, 0, "local");
    expect_fault("outside local memory",
                 KERNEL("", ".local .b32 l[4];\nmov.u32 %r9, l;\n"
                            "mad.lo.u32 %r9, %r1, 4, %r9;\nst.local.u32 [%r9], %r1;"),
                 8, SG_ERR_ADDRESS, 4, "local");
    expect_fault("negative shared address",
                 KERNEL(".shared .b32 s[4];\n", "mov.u32 %r9, s;\nld.shared.u32 %r10, [%r9+-4];"), 1,
                 SG_ERR_ADDRESS, 0, "shared");
    expect_fault("atomic outside memory", KERNEL("", "red.global.add.u32 [%rd0+20000], 1;"), 1,
                 SG_ERR_ADDRESS, 0, "out of bounds");
    expect_fault("a pointer of the host",
                 KERNEL("", "mov.u64 %rd3, 0x400000;\n"
                            "ld.u32 %r9, [%rd3];"),
                 1, SG_ERR_ADDRESS, 0, "out of bounds");
    expect_fault("a shared window address in ld.global",
                 KERNEL(".shared .b32 s[4];\n",
                        "mov.u64 %rd3, s;\ncvta.shared.u64 %rd3, %rd3;\nld.global.u32 %r9, [%rd3];"),
                 1, SG_ERR_ADDRESS, 0, "global");
    expect_fault("trap", KERNEL("", "setp.eq.u32 %p1, %r1, 9;\n@%p1 trap;"), 32, SG_ERR_FAILED, 9, "trap");
    expect_fault("barrier deadlock",
                 KERNEL("", "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra A;\n"
                            "bar.sync 1;\nA: bar.sync 2, 128;"),
                 64, SG_ERR_FAILED, 0, "deadlock");
    expect_fault("cp.async from outside",
                 KERNEL(".shared .align 16 .b8 s[16];\n",
                        "mov.u32 %r9, s;\ncp.async.cg.shared.global [%r9], [%rd0+16384], 16;"),
                 1, SG_ERR_ADDRESS, 0, "out of bounds");
    expect_fault("cp.async to outside",
                 KERNEL(".shared .align 16 .b8 s[16];\n",
                        "mov.u32 %r9, s;\ncp.async.cg.shared.global [%r9+16], [%rd0], 16;"),
                 1, SG_ERR_ADDRESS, 0, "shared");
    expect_fault("ldmatrix outside",
                 KERNEL(".shared .align 16 .b8 s[64];\n",
                        "mov.u32 %r9, s;\nmad.lo.u32 %r9, %r1, 16, %r9;\n"
                        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r9];"),
                 32, SG_ERR_ADDRESS, 4, "shared");
    expect_fault("ldmatrix of global memory",
                 KERNEL("", "mul.wide.u32 %rd3, %r1, 16;\nadd.u64 %rd3, %rd3, %rd0;\n"
                            "ldmatrix.sync.aligned.m8n8.x1.b16 {%r10}, [%rd3];"),
                 32, SG_ERR_ADDRESS, 0, "shared");
    expect_fault("call through a bad pointer", KERNEL("", "call %rd0, ();"), 32, 718, 0, "pointer");
    expect_fault("parameters by a computed address",
                 KERNEL("", "mov.b64 %rd3, p0;\n"
                            "mul.wide.u32 %rd4, %r1, 4;\nadd.u64 %rd3, %rd3, %rd4;\n"
                            "ld.param.u32 %r9, [%rd3];"),
                 32, SG_ERR_ADDRESS, 2, "param");
    expect_fault("constants behind the last one",
                 KERNEL(".const .align 4 .u32 k[4];\n",
                        "mov.u64 %rd3, k;\nmul.wide.u32 %rd4, %r1, 4;\nadd.u64 %rd3, %rd3, %rd4;\n"
                        "ld.const.u32 %r9, [%rd3];"),
                 32, SG_ERR_ADDRESS, 4, "out of bounds");
    expect_fault("shared memory by a generic address",
                 KERNEL(".shared .align 4 .b32 s[4];\n",
                        "mov.u64 %rd3, s;\ncvta.shared.u64 %rd3, %rd3;\nmul.wide.u32 %rd4, %r1, 4;\n"
                        "add.u64 %rd3, %rd3, %rd4;\nst.u32 [%rd3], %r1;"),
                 8, SG_ERR_ADDRESS, 4, "shared");
    expect_fault("local memory by a generic address",
                 KERNEL("", ".local .align 4 .b32 l[4];\n"
                            "mov.u64 %rd3, l;\ncvta.local.u64 %rd3, %rd3;\nmul.wide.u32 %rd4, %r1, 4;\n"
                            "add.u64 %rd3, %rd3, %rd4;\nst.u32 [%rd3], %r1;"),
                 8, SG_ERR_ADDRESS, 4, "local");
    expect_fault(
        "misaligned shared address",
        KERNEL(".shared .align 8 .b32 s[4];\n", "mov.u32 %r9, s;\nld.shared.v2.u32 {%r10, %r11}, [%r9+4];"),
        1, SG_ERR_MISALIGNED, 0, "shared");
    expect_fault("misaligned atomic", KERNEL("", "atom.global.add.u32 %r9, [%rd0+2], 1;"), 1,
                 SG_ERR_MISALIGNED, 0, "misaligned");
    expect_fault("an atomic on local memory",
                 KERNEL("", ".local .align 4 .b32 l[4];\n"
                            "mov.u64 %rd3, l;\ncvta.local.u64 %rd3, %rd3;\natom.add.u32 %r9, [%rd3], 1;"),
                 1, SG_ERR_ADDRESS_SPACE, 0, "local");
    expect_fault("barrier 16", KERNEL("", "mov.u32 %r9, 16;\nbar.sync %r9;"), 1, SG_ERR_ILLEGAL_INSN, 0,
                 "barrier");
    expect_fault("branch to no target",
                 KERNEL("", "T: .branchtargets A, B;\nA: add.u32 %r9, %r1, 0;\n"
                            "brx.idx %r9, T;\nB:"),
                 8, 718, 2, "outside the list");
    t_watchdog = 1000000;
    r = go(KERNEL("", "L: bra L;"), 2, 64, &f);
    t_result("watchdog", r == SG_ERR_TIMEOUT && says_where(&f), "result %d %s", r, f.message);
    r = go(KERNEL("", "setp.ne.u32 %p1, %r1, 37;\n@%p1 bra E;\nL: bra L;\nE: bar.sync 0;"), 2, 64, &f);
    t_result("watchdog, threads waiting", r == SG_ERR_TIMEOUT && says_where(&f) && f.thread[0] == 37,
             "result %d %s", r, f.message);
    r = go(KERNEL("", "L: bar.sync 0;\nbra L;"), 2, 128, &f);
    t_result("watchdog, round a barrier", r == SG_ERR_TIMEOUT && says_where(&f), "result %d %s", r,
             f.message);
    t_watchdog = 2000000000;
    t_abort = 1;
    r = go(KERNEL("", "L: add.u32 %r9, %r9, 1;\nbra L;"), 2, 64, &f);
    t_result("abort", r == SG_ERR_FAILED && strstr(f.message, "t: the launch was aborted"), "result %d %s", r,
             f.message);
    r = go(KERNEL("", "L: bar.sync 0;\nadd.u32 %r9, %r9, 1;\nbra L;"), 2, 128, &f);
    t_result("abort, round a barrier", r == SG_ERR_FAILED && strstr(f.message, "t: the launch was aborted"),
             "result %d %s", r, f.message);
    t_abort = 0;
    r = go(KERNEL(".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, "
                  ".param .b64 e);\n.global .align 1 .b8 m[6] = {120,32,62,32,49,0};\n",
                  "mov.u64 %rd6, m;\nsetp.ne.u32 %p1, %r1, 4;\n@%p1 bra E;\n{ .param .b64 q0; "
                  ".param .b64 q1; .param .b32 q2; .param .b64 q3; .param .b64 q4;\n"
                  "st.param.b64 [q0], %rd6;\nst.param.b64 [q1], %rd6;\nst.param.b32 [q2], 12;\n"
                  "st.param.b64 [q3], %rd6;\nst.param.b64 [q4], 1;\n"
                  "call.uni __assertfail, (q0, q1, q2, q3, q4);\n}\nE:"),
           1, 32, &f);
    t_result("assert",
             r == SG_ERR_ASSERT && f.thread[0] == 4 && says_where(&f) &&
                 strstr(t_output, ":12: x > 1: block: [0,0,0], thread: [4,0,0] Assertion `x > 1` failed."),
             "result %d thread %u: %s", r, f.thread[0], t_output);
}

/* Thread (3,1,2) of block (1,2,3) continues, all other threads exit. */
#define ONLY_3_1_2_OF_1_2_3 \
    ".reg .b32 %q<6>;\n.reg .pred %s<6>;\n" \
    "mov.u32 %q0, %tid.y;\nmov.u32 %q1, %tid.z;\nmov.u32 %q2, %ctaid.y;\nmov.u32 %q3, %ctaid.z;\n" \
    "setp.ne.u32 %s0, %r1, 3;\nsetp.ne.or.u32 %s1, %q0, 1, %s0;\nsetp.ne.or.u32 %s2, %q1, 2, %s1;\n" \
    "setp.ne.or.u32 %s3, %r2, 1, %s2;\nsetp.ne.or.u32 %s4, %q2, 2, %s3;\nsetp.ne.or.u32 %s5, %q3, 3, %s4;\n" \
    "@%s5 bra E;\n"

static bool is_3_1_2_of_1_2_3(const struct sg_fault *f)
{
    return f->thread[0] == 3 && f->thread[1] == 1 && f->thread[2] == 2 && f->block[0] == 1 &&
           f->block[1] == 2 && f->block[2] == 3;
}

/* Launches of three dimensions, of different sizes: each place that names block and thread names all three. */
static void test_three_dimensions(void)
{
    static const char address[] = KERNEL("", ONLY_3_1_2_OF_1_2_3 "mov.u64 %rd3, 16;\n"
                                                                 "st.global.u32 [%rd3], %r1;\nE:");
    static const char assertion[] =
        KERNEL(".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, "
               ".param .b64 e);\n.global .align 1 .b8 m[6] = {120,32,62,32,49,0};\n",
               ONLY_3_1_2_OF_1_2_3 "mov.u64 %rd6, m;\n"
                                   "{ .param .b64 q0; .param .b64 q1; .param .b32 q2; .param .b64 q3; "
                                   ".param .b64 q4;\nst.param.b64 [q0], %rd6;\nst.param.b64 [q1], %rd6;\n"
                                   "st.param.b32 [q2], 12;\nst.param.b64 [q3], %rd6;\nst.param.b64 [q4], 1;\n"
                                   "call.uni __assertfail, (q0, q1, q2, q3, q4);\n}\nE:");
    const uint32_t grid[3] = {2, 3, 5}, block[3] = {4, 3, 3};
    struct sg_fault f;
    int r;

    r = go3(address, grid, block, &f);
    t_result("an address in three dimensions", r == SG_ERR_ADDRESS && is_3_1_2_of_1_2_3(&f) && says_where(&f),
             "result %d: %s", r, f.message);
    r = go3(assertion, grid, block, &f);
    t_result("an assertion in three dimensions",
             r == SG_ERR_ASSERT && is_3_1_2_of_1_2_3(&f) && says_where(&f) &&
                 strstr(t_output, ": block: [1,2,3], thread: [3,1,2] Assertion `x > 1` failed."),
             "result %d: %s; %s", r, f.message, t_output);
}

int main(int argc, char **argv)
{
    t_variant(argc, argv);
    mem = tm_alloc(COUNT * 4);
    test_faults();
    test_three_dimensions();
    return t_end("softgpu faults");
}
