/* SPDX-License-Identifier: MIT */
/*
 * Instructions whose effect is on memory or on order: atomics of floating point and of extremes,
 * asynchronous copies, fences, dependencies between grids, votes in their older spelling.
 */
#include "exec/exec_test.h"

#include <stdlib.h>
#include <string.h>

#define LANES 64
#define HEAD \
    ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry t(.param .u64 p)\n{\n" \
    ".reg .pred %p<4>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.reg .f32 %f<4>;\n.reg .f64 %fd<4>;\n" \
    ".shared .align 16 .b8 sh[1024];\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\n" \
    "mul.wide.u32 %rd2, %r1, 16;\nadd.u64 %rd3, %rd1, %rd2;\nand.b32 %r2, %r1, 1;\n" \
    "setp.eq.u32 %p1, %r2, 1;\nmov.u32 %r4, sh;\nshl.b32 %r5, %r1, 4;\nadd.u32 %r4, %r4, %r5;\n"

static bool launch(const char *name, const char *body, void *mem)
{
    static char text[8192];
    const uint64_t params[] = {(uintptr_t)mem};
    struct sg_fault f = {.message = ""};
    struct tk t;
    int r;

    snprintf(text, sizeof(text), "%s%s\nret;\n}\n", HEAD, body);
    if (!tk_open(&t, text, "t")) {
        t_result(name, false, "not decoded");
        return false;
    }
    r = tk_run(&t, 1, LANES, params, &f);
    sg_module_free(t.m);
    if (r)
        t_result(name, false, "%s", f.message);
    return !r;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Every lane (or every odd one) adds 1.5: the old values are 0, 1.5, 3, ... in some order. */
static void test_float_add(bool dbl, bool pred)
{
    const char *op = dbl ? "atom.global.add.f64" : "atom.global.add.f32";
    char body[512], name[64];
    uint8_t *mem = tm_alloc(16 * LANES + 16);
    double old[LANES];
    int n = 0;
    bool ok = true;

    snprintf(name, sizeof(name), "%s%s", pred ? "@p " : "", op);
    if (dbl)
        snprintf(body, sizeof(body),
                 "mov.f64 %%fd1, 1.5;\nmov.f64 %%fd2, -1.0;\n%s%s %%fd2, [%%rd1+%d], %%fd1;\n"
                 "st.global.f64 [%%rd3], %%fd2;",
                 pred ? "@%p1 " : "", op, 16 * LANES);
    else
        snprintf(body, sizeof(body),
                 "mov.f32 %%f1, 1.5;\nmov.f32 %%f2, -1.0;\n%s%s %%f2, [%%rd1+%d], %%f1;\n"
                 "st.global.f32 [%%rd3], %%f2;",
                 pred ? "@%p1 " : "", op, 16 * LANES);
    if (launch(name, body, mem)) {
        for (int i = 0; i <= LANES; i++) {
            float f;
            double d;

            memcpy(&f, mem + i * 16, 4);
            memcpy(&d, mem + i * 16, 8);
            d = dbl ? d : (double)f;
            if (i == LANES)
                ok = ok && d == 1.5 * n;
            else if (!pred || (i & 1))
                old[n++] = d;
            else
                ok = ok && d == -1.0;
        }
        qsort(old, (size_t)n, sizeof(old[0]), compare);
        for (int i = 0; i < n; i++)
            ok = ok && old[i] == 1.5 * i;
        t_result(name, ok, "a sum or an old value is wrong");
    }
    tm_free_all();
}

/* Extremes: the final word, and old values that never go back. */
static void test_extreme(const char *op, bool max)
{
    char body[512];
    uint32_t *mem = tm_alloc(16 * LANES + 16);
    const uint32_t start = max ? 0xfffffff0u : 40u; /* -16, or 40 */
    bool ok = true;

    mem[4 * LANES] = start;
    snprintf(body, sizeof(body),
             "mul.lo.u32 %%r3, %%r1, 37;\nand.b32 %%r3, %%r3, 63;\nsub.s32 %%r3, %%r3, %d;\n"
             "%s %%r6, [%%rd1+%d], %%r3;\nst.global.u32 [%%rd3], %%r6;",
             max ? 32 : 0, op, 16 * LANES);
    if (launch(op, body, mem)) {
        ok = (int32_t)mem[4 * LANES] == (max ? 31 : 0);
        for (int i = 0; i < LANES; i++) {
            const int32_t v = (int32_t)mem[4 * i];

            ok = ok && (max ? v >= -16 && v <= 31 : v >= 0 && v <= 40);
        }
        t_result(op, ok, "an extreme or an old value is wrong");
    }
    tm_free_all();
}

/* cp.async of size bytes; source >= 0: number of bytes that come from memory, the rest is zero. */
static void test_copy(const char *op, int size, int source)
{
    char body[1024], name[96], extra[16] = "";
    uint8_t *mem = tm_alloc(32 * LANES);
    bool ok = true;

    snprintf(name, sizeof(name), "%s of %d bytes%s", op, size, source >= 0 ? ", some of them zero" : "");
    for (int i = 0; i < 16 * LANES; i++)
        mem[i] = (uint8_t)(i * 7 + 1);
    if (source >= 0)
        snprintf(extra, sizeof(extra), ", %d", source);
    snprintf(
        body, sizeof(body),
        "mov.u64 %%rd4, -1;\nst.shared.v2.u64 [%%r4], {%%rd4, %%rd4};\n@%%p1 %s [%%r4], [%%rd3], %d%s;\n"
        "cp.async.commit_group;\ncp.async.wait_all;\nbar.sync 0;\nld.shared.v2.u64 {%%rd4, %%rd5}, [%%r4];\n"
        "st.global.v2.u64 [%%rd3+%d], {%%rd4, %%rd5};",
        op, size, extra, 16 * LANES);
    if (launch(name, body, mem)) {
        for (int i = 0; i < LANES; i++)
            for (int k = 0; k < 16; k++) {
                const int want = !(i & 1) || k >= size        ? 0xff
                                 : source >= 0 && k >= source ? 0
                                                              : mem[i * 16 + k];

                ok = ok && mem[16 * LANES + i * 16 + k] == want;
            }
        t_result(name, ok, "a byte differs");
    }
    tm_free_all();
}

/* With ignore-src lane by lane: zeroes, and an address that is none is not read. */
static void test_ignore(const char *op, int size)
{
    char body[1024], name[96];
    uint8_t *mem = tm_alloc(32 * LANES);
    bool ok = true;

    snprintf(name, sizeof(name), "%s of %d bytes, ignore-src", op, size);
    for (int i = 0; i < 16 * LANES; i++)
        mem[i] = (uint8_t)(i * 7 + 1);
    snprintf(body, sizeof(body),
             "mov.u64 %%rd4, -1;\nst.shared.v2.u64 [%%r4], {%%rd4, %%rd4};\n"
             "selp.b64 %%rd5, 64, %%rd3, %%p1;\n%s [%%r4], [%%rd5], %d, %%p1;\n"
             "cp.async.wait_all;\nld.shared.v2.u64 {%%rd4, %%rd5}, [%%r4];\n"
             "st.global.v2.u64 [%%rd3+%d], {%%rd4, %%rd5};",
             op, size, 16 * LANES);
    if (launch(name, body, mem)) {
        for (int i = 0; i < LANES; i++)
            for (int k = 0; k < 16; k++)
                ok = ok && mem[16 * LANES + i * 16 + k] == (k >= size ? 0xff : i & 1 ? 0 : mem[i * 16 + k]);
        t_result(name, ok, "a byte differs");
    }
    tm_free_all();
}

/* Instructions that order memory or grids change no register and no memory. */
static void test_nothing(const char *op)
{
    char body[512], name[64];
    uint32_t *mem = tm_alloc(16 * LANES);
    bool ok = true;

    for (int pred = 0; pred < 2; pred++) {
        snprintf(name, sizeof(name), "%s%s", pred ? "@p " : "", op);
        snprintf(
            body, sizeof(body),
            "add.u32 %%r3, %%r1, 5;\nst.global.u32 [%%rd3], %%r3;\n%s%s;\n"
            "ld.global.u32 %%r6, [%%rd3];\nst.global.u32 [%%rd3+4], %%r6;\nst.global.u32 [%%rd3+8], %%r3;",
            pred ? "@%p1 " : "", op);
        if (!launch(name, body, mem))
            continue;
        for (uint32_t i = 0; i < LANES; i++)
            ok = ok && mem[4 * i] == i + 5 && mem[4 * i + 1] == i + 5 && mem[4 * i + 2] == i + 5;
        t_result(name, ok, "memory or a register differs");
    }
    tm_free_all();
}

static void test_ballot(void)
{
    uint32_t *mem = tm_alloc(16 * LANES);
    bool ok = true;

    if (launch(
            "vote.ballot.sync.b32",
            "setp.lt.u32 %p2, %r1, 37;\nvote.ballot.sync.b32 %r3, %p2, -1;\n"
            "st.global.u32 [%rd3], %r3;\nmov.u32 %r6, 0;\n@%p1 vote.ballot.sync.b32 %r6, %p2, 0xaaaaaaaa;\n"
            "st.global.u32 [%rd3+4], %r6;",
            mem)) {
        for (int i = 0; i < LANES; i++) {
            const uint32_t all = i < 32 ? 0xffffffffu : 0x1fu;

            ok = ok && mem[4 * i] == all && mem[4 * i + 1] == (i & 1 ? all & 0xaaaaaaaau : 0);
        }
        t_result("vote.ballot.sync.b32", ok, "a ballot differs");
    }
    tm_free_all();
}

int main(void)
{
    for (int v = 0; v < 4; v++)
        test_float_add(v & 1, v >> 1);
    test_extreme("atom.global.max.s32", true);
    test_extreme("atom.global.min.u32", false);
    test_copy("cp.async.ca.shared.global", 4, -1);
    test_copy("cp.async.ca.shared.global", 8, -1);
    test_copy("cp.async.ca.shared.global", 16, -1);
    test_copy("cp.async.ca.shared.global", 8, 3);
    test_copy("cp.async.ca.shared.global.L2::128B", 16, -1);
    test_copy("cp.async.ca.shared.global.L2::128B", 16, 0);
    test_copy("cp.async.cg.shared.global", 16, -1);
    test_ignore("cp.async.ca.shared.global", 4);
    test_ignore("cp.async.cg.shared.global", 16);
    test_copy("cp.async.cg.shared.global", 16, 5);
    test_copy("cp.async.cg.shared.global.L2::64B", 16, 16);
    test_copy("cp.async.cg.shared.global.L2::128B", 16, -1);
    test_copy("cp.async.cg.shared.global.L2::256B", 16, 12);
    test_nothing("membar.cta");
    test_nothing("membar.gl");
    test_nothing("membar.sys");
    test_nothing("griddepcontrol.wait");
    test_nothing("griddepcontrol.launch_dependents");
    test_ballot();
    return t_end("softgpu memory order");
}
