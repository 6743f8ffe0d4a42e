// SPDX-License-Identifier: MIT
/*
 * insn-bench [--quick] [--cpu-time] [--json FILE] --provider LIBRARY
 *
 * Nanoseconds of one core for a warp instruction (32 lanes) of the software GPU: a kernel of one
 * warp with a loop of UNROLL copies of the instruction, minus the same loop without them. Launches
 * of the rows are interleaved and the best round counts. --cpu-time: processor time of the kernel,
 * for a machine with other load. Exit status 1: a failure.
 */
#include "bench.h"
#include "cpu_time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNROLL 64
#define KERNEL_ROOM 16384

#define FOUR(x) x x x x
#define SIXTEEN(x) FOUR(FOUR(x))

/*
 * Body of the loop; %d is 128 times the number of the copy. r0 and f0 form a dependency chain over
 * the copies.
 */
static const struct row {
    const char *name, *text;
} rows[] = {
    {"empty loop", ""},
    {"add.s32", "add.s32 %%r0, %%r0, %%r1;"},
    {"mad.lo.s32", "mad.lo.s32 %%r0, %%r0, %%r1, %%r2;"},
    {"shl.b32, and.b32", "shl.b32 %%r3, %%r0, 3; and.b32 %%r0, %%r3, %%r1;"},
    {"fma.rn.f32", "fma.rn.f32 %%f0, %%f0, %%f1, %%f1;"},
    {"div.approx.f32", "div.approx.f32 %%f0, %%f0, %%f1;"},
    {"mul.f32, st.global.f32, contiguous", "mul.f32 %%f0, %%f1, %%f1; st.global.f32 [%%d1+%d], %%f0;"},
    {"fma.rn.f16x2", "fma.rn.f16x2 %%m0, %%m0, %%m1, %%m2;"},
    {"fma.rn.f64", "fma.rn.f64 %%g0, %%g0, %%g1, %%g1;"},
    {"add.rz.f32", "add.rz.f32 %%f0, %%f0, %%f1;"},
    {"fma.rm.f32", "fma.rm.f32 %%f0, %%f0, %%f1, %%f1;"},
    {"mul.rp.f64", "mul.rp.f64 %%g0, %%g0, %%g1;"},
    {"16 fma.rn.f32 beside an add.ftz.f32",
     "add.ftz.f32 %%f1, %%f1, %%f1;" SIXTEEN("fma.rn.f32 %%f0, %%f0, %%f1, %%f1;")},
    {"add.ftz.f32, fma.rn.f64", "add.ftz.f32 %%f0, %%f0, %%f1; fma.rn.f64 %%g0, %%g0, %%g1, %%g1;"},
    {"prmt.b32, signs", "prmt.b32 %%r0, %%r0, %%r1, 0xba98;"},
    {"dp4a.s32.s32", "dp4a.s32.s32 %%r0, %%r1, %%r2, %%r0;"},
    {"ex2.approx.f32", "ex2.approx.f32 %%f0, %%f0;"},
    {"lg2.approx.f32", "lg2.approx.f32 %%f0, %%f0;"},
    {"sin.approx.f32", "sin.approx.f32 %%f0, %%f0;"},
    {"cos.approx.f32", "cos.approx.f32 %%f0, %%f0;"},
    {"rcp.approx.f32", "rcp.approx.f32 %%f0, %%f0;"},
    {"cvt.rni.s32.f32, cvt.rn.f32.s32", "cvt.rni.s32.f32 %%r0, %%f0; cvt.rn.f32.s32 %%f0, %%r0;"},
    {"cvt.rzi.f32.f32", "cvt.rzi.f32.f32 %%f0, %%f0;"},
    {"copysign.f32", "copysign.f32 %%f0, %%f1, %%f0;"},
    {"ld.global.u32, contiguous", "ld.global.u32 %%r3, [%%d1+%d];"},
    {"ld.global.u32, every 16th word", "ld.global.u32 %%r3, [%%d2+%d];"},
    {"ld.global.u32, blocks of 36 bytes", "ld.global.u32 %%r3, [%%d3+%d];"},
    {"ld.global.u32, one address", "ld.global.u32 %%r3, [%%d0+%d];"},
    {"@p ld.global.u32, all lanes", "@%%p1 ld.global.u32 %%r3, [%%d1+%d];"},
    {"@p ld.global.u32, 24 lanes", "@%%p2 ld.global.u32 %%r3, [%%d1+%d];"},
    {"@p add.s32, 24 lanes", "@%%p2 add.s32 %%r0, %%r0, %%r1;"},
    {"@p ld.global.u32, no lane", "@!%%p1 ld.global.u32 %%r3, [%%d1+%d];"},
    {"st.global.u32, contiguous", "st.global.u32 [%%d1+%d], %%r1;"},
    {"ld.shared.u32, contiguous", "ld.shared.u32 %%r3, [%%r5+%d];"},
    {"st.shared.u32, contiguous", "st.shared.u32 [%%r5+%d], %%r1;"},
    {"shfl.sync.bfly.b32", "shfl.sync.bfly.b32 %%r0, %%r0, 1, 31, -1;"},
    {"bar.sync", "bar.sync 0;"},
    {"atom.global.add.u32, one address", "atom.global.add.u32 %%r3, [%%d0], 1;"},
    {"red.shared.add.u32, contiguous", "red.shared.add.u32 [%%r5+%d], 1;"},
    {"ldmatrix.x4", "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%%m0, %%m1, %%m2, %%m3}, [%%r6];"},
    {"mma m16n8k16 f16, f32", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%%h0, %%h1, %%h2, %%h3}, "
                              "{%%m0, %%m1, %%m2, %%m3}, {%%m0, %%m1}, {%%h0, %%h1, %%h2, %%h3};"},
    {"mma m16n8k16 f16, f16", "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%%n0, %%n1}, "
                              "{%%m0, %%m1, %%m2, %%m3}, {%%m0, %%m1}, {%%n0, %%n1};"},
    {"mma m16n8k16 bf16, f32",
     "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%%h0, %%h1, %%h2, %%h3}, "
     "{%%m0, %%m1, %%m2, %%m3}, {%%m0, %%m1}, {%%h0, %%h1, %%h2, %%h3};"},
    {"mma m16n8k32 s8, s32", "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%%n0, %%n1, %%n2, %%n3}, "
                             "{%%m0, %%m1, %%m2, %%m3}, {%%m0, %%m1}, {%%n0, %%n1, %%n2, %%n3};"},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static const char head[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry k(.param .u64 p, .param .u32 n)\n{\n"
    ".reg .u32 %r<10>; .reg .b32 %m<4>; .reg .s32 %n<4>; .reg .f32 %f<2>, %h<4>; .reg .f64 %g<2>;\n"
    ".reg .u64 %d<5>; .reg .pred %q, %p<3>;\n.shared .align 16 .b8 s[12288];\n"
    "ld.param.u64 %d0, [p]; ld.param.u32 %r8, [n]; mov.u32 %r9, %tid.x;\n"
    "mul.wide.u32 %d1, %r9, 4; add.u64 %d1, %d1, %d0;\n"
    "mul.wide.u32 %d2, %r9, 64; add.u64 %d2, %d2, %d0;\n"
    "shr.u32 %r0, %r9, 2; mul.wide.u32 %d3, %r0, 36; and.b32 %r0, %r9, 3; mul.wide.u32 %d4, %r0, 8;\n"
    "add.u64 %d3, %d3, %d4; add.u64 %d3, %d3, %d0;\n"
    "mov.u32 %r5, s; mad.lo.u32 %r5, %r9, 4, %r5; mov.u32 %r6, s; mad.lo.u32 %r6, %r9, 16, %r6;\n"
    "ld.global.u32 %r0, [%d1]; add.u32 %r1, %r0, 3; add.u32 %r2, %r0, 5;\n"
    "cvt.rn.f32.u32 %f0, %r0; mov.f32 %f1, %f0; cvt.f64.f32 %g0, %f0; mov.f64 %g1, %g0;\n"
    "mov.b32 %m0, %r0; mov.b32 %m1, %r0; mov.b32 %m2, %r0; mov.b32 %m3, %r0;\n"
    "mov.u32 %n0, 0; mov.u32 %n1, 0; mov.u32 %n2, 0; mov.u32 %n3, 0;\n"
    "mov.f32 %h0, 0f00000000; mov.f32 %h1, %h0; mov.f32 %h2, %h0; mov.f32 %h3, %h0;\n"
    "mov.u32 %r3, 0; setp.lt.u32 %p1, %r9, 32; setp.lt.u32 %p2, %r9, 24;\nL:\n";
/* uses every result at the end, so that no instruction is eliminated */
static const char tail[] =
    "sub.u32 %r8, %r8, 1; setp.ne.u32 %q, %r8, 0; @%q bra L;\n"
    "add.u32 %r0, %r0, %r3; cvt.rn.f32.f64 %f1, %g0; add.f32 %f0, %f0, %f1; add.f32 %f0, %f0, %h0;\n"
    "add.f32 %f0, %f0, %h1; add.f32 %f0, %f0, %h2; add.f32 %f0, %f0, %h3;\n"
    "add.s32 %r0, %r0, %n0; add.s32 %r0, %r0, %n1; add.s32 %r0, %r0, %n2; add.s32 %r0, %r0, %n3;\n"
    "mov.b32 %r3, %f0; add.u32 %r0, %r0, %r3; mov.b32 %r3, %m2; add.u32 %r0, %r0, %r3;\n"
    "mov.b32 %r3, %m3; add.u32 %r0, %r0, %r3; st.global.u32 [%d1+16384], %r0;\nret;\n}\n";

static bool build(struct api *a, const struct row *r, CUfunction *f)
{
    static char text[KERNEL_ROOM + UNROLL * 1024];
    size_t n = (size_t)snprintf(text, sizeof(text), "%s", head);
    CUmodule m;

    for (int i = 0; i < UNROLL && *r->text; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        n += (size_t)snprintf(text + n, sizeof(text) - n, r->text, 128 * i);
#pragma GCC diagnostic pop
        n += (size_t)snprintf(text + n, sizeof(text) - n, "\n");
    }
    snprintf(text + n, sizeof(text) - n, "%s", tail);
    return !a->cuModuleLoadData(&m, text) && !a->cuModuleGetFunction(f, m, "k");
}

/* File in which the software GPU in this process reports kernel times; removed at exit. */
static char profile[] = "/tmp/insn-bench-XXXXXX/profile";

static void profile_end(void)
{
    unlink(profile);
    *strrchr(profile, '/') = '\0';
    rmdir(profile);
}

static bool profile_begin(void)
{
    char *slash = strrchr(profile, '/');

    *slash = '\0';
    if (!mkdtemp(profile))
        return false;
    *slash = '/';
    return !atexit(profile_end) && !setenv("VGPU_SOFT_PROFILE", profile, 1);
}

/* Returns nanoseconds; below 0: no kernel times reported. */
static double clock_of(bool cpu)
{
    return cpu ? cpu_time_kernels() * 1e9 : (double)now_ns();
}

int main(int argc, char **argv)
{
    static struct api a;
    const char *provider = NULL, *json_file = NULL;
    unsigned loops = 5000, rounds = 5, failed = 0;
    CUfunction f[ROWS] = {0};
    double best[ROWS];
    bool cpu = false;
    CUdeviceptr p;
    FILE *json = NULL;

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--quick"))
            loops = 20, rounds = 2;
        else if (!strcmp(argv[i], "--cpu-time"))
            cpu = true;
        else if (i + 1 < argc && !strcmp(argv[i], "--provider"))
            provider = argv[++i];
        else if (i + 1 < argc && !strcmp(argv[i], "--json"))
            json_file = argv[++i];
    }
    if (cpu && !profile_begin()) {
        perror("insn-bench: --cpu-time");
        return 1;
    }
    if (!provider || !api_open(&a, provider) || a.cuMemAlloc(&p, 65536) || a.cuMemsetD8(p, 0, 65536)) {
        fprintf(stderr, "insn-bench: no device, or --provider is missing\n");
        return 1;
    }
    for (size_t k = 0; k < ROWS; k++) {
        best[k] = 1e30;
        if (!build(&a, &rows[k], &f[k]))
            f[k] = NULL;
    }
    for (unsigned r = 0; r < rounds; r++)
        for (size_t k = 0; k < ROWS; k++) {
            void *args[] = {&p, &loops};
            double t = clock_of(cpu);

            if (!f[k] || a.cuLaunchKernel(f[k], 1, 1, 1, 32, 1, 1, 0, NULL, args, NULL) ||
                a.cuCtxSynchronize()) {
                f[k] = NULL;
                continue;
            }
            t = clock_of(cpu) - (t < 0 ? 0 : t);
            best[k] = t < best[k] ? t : best[k];
        }
    printf("one warp instruction, 32 lanes, nanoseconds of one core%s\n", cpu ? " (CPU time)" : "");
    if (json_file && !(json = fopen(json_file, "w")))
        failed++;
    if (json)
        fputs("{", json);
    for (size_t k = 1; k < ROWS; k++) {
        const double ns = (best[k] - best[0]) / loops / UNROLL;

        if (!f[k] || !f[0]) {
            printf("  %-40s failed\n", rows[k].name);
            failed++;
            continue;
        }
        printf("  %-40s %8.2f\n", rows[k].name, ns);
        if (json)
            fprintf(json, "%s\n  \"warp instruction %s\": {\"value\": %.4g, \"unit\": \"ns\"}",
                    k > 1 ? "," : "", rows[k].name, ns);
    }
    if (json) {
        fputs("\n}\n", json);
        fclose(json);
    }
    printf("insn-bench: %zu passed, %u failed\n", ROWS - 1 - failed, failed);
    return failed != 0;
}
