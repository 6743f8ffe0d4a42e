/* SPDX-License-Identifier: MIT */
/* Functions that are called instead of expanded: recursion of every kind, and its limits. */
#include "exec/exec_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX (4 << 20)

static char *text;

static void check(const char *name, bool ok, int r, const struct sg_fault *f)
{
    t_result(name, ok && !r, "result %d %s", r, f->message);
}

static bool open(struct tk *t, const char *name)
{
    if (tk_open(t, text, name))
        return true;
    t_result(name, false, "%s", t->diag.message);
    sg_module_free(t->m);
    return false;
}

static int fib(int n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

static void fibs(void)
{
    int *out = tm_alloc(256 * 4);
    struct sg_fault f = {0};
    struct tk t;
    bool ok = true;

    if (!open(&t, "fibs"))
        return;
    int r = tk_run(&t, 4, 64, &out, &f);

    for (int i = 0; i < 256; i++)
        ok &= out[i] == fib(i % 13);
    check("fib, diverging", ok, r, &f);
    tk_close(&t);
}

static void parity(void)
{
    int *out = tm_alloc(64 * 4);
    struct {
        int *out;
        int add;
    } p = {out, 0};
    struct sg_fault f = {0};
    struct tk t;
    bool ok = true;

    if (!open(&t, "parity"))
        return;
    int r = tk_run(&t, 1, 20, &p, &f);

    for (int i = 0; i < 20; i++)
        ok &= out[i] == (i % 2 == 0);
    check("two functions that call each other", ok, r, &f);
    p.add = 2000;
    t_stack = 256 << 10;
    r = tk_run(&t, 1, 64, &p, &f);
    t_stack = 0;
    for (int i = 0; i < 64; i++)
        ok &= out[i] == (i % 2 == 0);
    check("deep, with more stack", ok, r, &f);
    tk_close(&t);
}

static void sorts(void)
{
    enum { N = 37 };
    int *a = tm_alloc(64 * N * 4);
    struct {
        int *a;
        int n;
    } p = {a, N};
    struct sg_fault f = {0};
    struct tk t;
    bool ok = true;

    if (!open(&t, "sorts"))
        return;
    srand(3);
    for (int i = 0; i < 64 * N; i++)
        a[i] = rand() % 1000;
    int r = tk_run(&t, 1, 64, &p, &f);

    for (int i = 1; i < 64 * N; i++)
        ok &= i % N == 0 || a[i - 1] <= a[i];
    check("quicksort", ok, r, &f);
    tk_close(&t);
}

static void chains(void)
{
    int *out = tm_alloc(64 * 4);
    struct sg_fault f = {0};
    struct tk t;
    bool ok = true;

    if (!open(&t, "chains"))
        return;
    int r = tk_run(&t, 1, 64, &out, &f);

    for (int i = 0; i < 64; i++) {
        int want = 0;

        for (int d = 0; d <= i % 10; d++)
            want += 2 * d * 3;
        ok &= out[i] == want;
    }
    check("pointers to variables of callers", ok, r, &f);
    tk_close(&t);
}

struct large {
    int x[9];
    char tail;
};

static struct large change(struct large b, int n)
{
    if (n == 0)
        return b;
    for (int i = 0; i < 9; i++)
        b.x[i] += n * i;
    b.tail++;
    struct large c = change(b, n - 1);

    c.x[n % 9]++;
    return c;
}

static void larges(void)
{
    int *out = tm_alloc(64 * 4);
    struct sg_fault f = {0};
    struct tk t;
    bool ok = true;

    if (!open(&t, "larges"))
        return;
    int r = tk_run(&t, 1, 64, &out, &f);

    for (int i = 0; i < 64; i++) {
        struct large b;
        unsigned sum;

        for (int k = 0; k < 9; k++)
            b.x[k] = i * k;
        b.tail = (char)i;
        b = change(b, i % 7);
        sum = (unsigned)b.tail;
        for (int k = 0; k < 9; k++)
            sum = sum * 7 + (unsigned)b.x[k];
        ok &= out[i] == (int)sum;
    }
    check("structures by value", ok, r, &f);
    tk_close(&t);
}

static int steps(int second, int n)
{
    if (!second)
        return n <= 0 ? 1 : 2 * steps(n & 1, n - 1) + 1;
    return n <= 0 ? 2 : 3 * steps(n & 1, n - 2) + steps(0, n - 3);
}

static void pointers(void)
{
    int *out = tm_alloc(64 * 4);
    struct sg_fault f = {0};
    struct tk t;
    bool ok = true;

    if (!open(&t, "pointers"))
        return;
    int r = tk_run(&t, 1, 64, &out, &f);

    for (int i = 0; i < 64; i++)
        ok &= out[i] == steps(i & 1, i % 12);
    check("recursion through pointers", ok, r, &f);
    tk_close(&t);
}

static void trees(void)
{
    double *out = tm_alloc(64 * 8);
    struct sg_fault f = {0};
    struct tk t;
    bool ok = true;

    if (!open(&t, "trees"))
        return;
    int r = tk_run(&t, 1, 64, &out, &f);

    for (int i = 0; i < 64; i++)
        ok &= out[i] == (2.0 + i) * (2.0 + i) + (i & 1 ? 2 : 0);
    check("tree of virtual functions", ok, r, &f);
    tk_close(&t);
}

static void meets(void)
{
    int *out = tm_alloc(64 * 4);
    struct sg_fault f = {0};
    struct tk t;
    bool ok = true;

    if (!open(&t, "meets"))
        return;
    int r = tk_run(&t, 1, 64, &out, &f);

    for (int i = 0; i < 64; i++)
        ok &= out[i] == (2 * i + (i & 1 ? -1 : 1)) * 32 + 5;
    check("barriers and shuffles inside", ok, r, &f);
    tk_close(&t);
}

static int spread(int n, int seed)
{
    int s = 0;

    for (int i = 0; i < n; i++)
        s += (i * seed + n) * (i + 1);
    return n <= 1 ? s : s + spread(n / 2, seed) + spread(n - 2, seed + 1);
}

static void allocas(void)
{
    int *out = tm_alloc(64 * 4);
    struct {
        int *out;
        int n;
    } p = {out, 5};
    struct sg_fault f = {0};
    struct tk t;
    bool ok = true;
    int r;

    if (!open(&t, "allocas"))
        return;
    r = tk_run(&t, 1, 64, &p, &f);
    for (int i = 0; i < 64; i++) { /* eight times: what a function allocates ends with it */
        int want = 0;

        for (int k = 0; k < 100; k++)
            want += 3 * (i % 5 + 1) + k;
        ok &= out[i] == want;
    }
    check("alloca in an expanded function", ok, r, &f);
    p.n = 1 << 20;
    r = tk_run(&t, 1, 64, &p, &f);
    t_result("alloca of too much", r == 714 && strstr(f.message, "CU_LIMIT_STACK_SIZE"), "result %d %s", r,
             f.message);
    tk_close(&t);
    if (!open(&t, "spreads"))
        return;
    t_stack = 4096;
    r = tk_run(&t, 1, 64, &out, &f);
    t_stack = 0;
    ok = true;
    for (int i = 0; i < 64; i++)
        ok &= out[i] == spread(i % 7, i);
    check("alloca in a recursive function", ok, r, &f);
    tk_close(&t);
}

static void overflow(void)
{
    int *out = tm_alloc(16), depth[2];
    struct sg_fault f = {0};
    struct tk t;
    int r[2];

    if (!open(&t, "overflow"))
        return;
    for (int i = 0; i < 2; i++) {
        t_stack = i ? 8192 : 0;
        r[i] = tk_run(&t, 1, 1, &out, &f);
        depth[i] = out[0];
    }
    t_stack = 0;
    t_result("stack overflow",
             r[0] == 714 && r[1] == 714 && f.line && strstr(f.message, "CU_LIMIT_STACK_SIZE") &&
                 strstr(f.message, "block (0,0,0)"),
             "results %d %d: %s", r[0], r[1], f.message);
    t_result("the limit decides where", depth[0] >= 8 && depth[1] > 6 * depth[0], "depths %d %d", depth[0],
             depth[1]);
    tk_close(&t);
}

/* Without nvcc. */
static void by_hand(void)
{
    static const char *const head = ".version 8.0\n.target sm_80\n.address_size 64\n";
    char buf[2048];
    struct sg_fault f = {0};
    uint32_t *out = tm_alloc(64 * 4);
    struct tk t;

    snprintf(buf, sizeof(buf),
             "%s.func f()\n{\ncall f;\nret;\n}\n"
             ".entry t()\n{\ncall f;\nret;\n}\n",
             head);
    if (tk_open(&t, buf, "t")) {
        int r = tk_run(&t, 1, 64, NULL, &f);

        t_result("endless recursion", r == 714, "result %d %s", r, f.message);
        tk_close(&t);
    }
    /* a predicate, a 64-bit and a 32-bit register live across; the predicated return */
    snprintf(buf, sizeof(buf),
             "%s.func (.param .b32 r) f(.param .b32 n, .param .b64 w)\n{\n"
             ".reg .pred %%p<3>;\n.reg .b32 %%r<6>;\n.reg .b64 %%rd<4>;\n"
             "ld.param.u32 %%r1, [n];\nld.param.u64 %%rd1, [w];\n"
             "setp.eq.u32 %%p1, %%r1, 0;\nst.param.b32 [r+0], 100;\n@%%p1 ret;\n"
             "and.b32 %%r2, %%r1, 1;\nsetp.eq.u32 %%p2, %%r2, 1;\n"
             "sub.u32 %%r3, %%r1, 1;\nadd.u64 %%rd2, %%rd1, 3;\n{\n"
             ".param .b32 a;\nst.param.b32 [a+0], %%r3;\n.param .b64 b;\nst.param.b64 [b+0], %%rd2;\n"
             ".param .b32 q;\ncall (q), f, (a, b);\nld.param.b32 %%r4, [q+0];\n}\n"
             "cvt.u32.u64 %%r5, %%rd1;\nadd.u32 %%r4, %%r4, %%r5;\n@%%p2 add.u32 %%r4, %%r4, 1000;\n"
             "st.param.b32 [r+0], %%r4;\nret;\n}\n"
             ".entry t(.param .u64 o)\n{\n.reg .b32 %%r<4>;\n.reg .b64 %%rd<4>;\n"
             "ld.param.u64 %%rd1, [o];\nmov.u32 %%r1, %%tid.x;\nmul.wide.u32 %%rd2, %%r1, 4;\n"
             "add.u64 %%rd1, %%rd1, %%rd2;\nmov.u64 %%rd3, 5;\nand.b32 %%r2, %%r1, 7;\n{\n"
             ".param .b32 a;\nst.param.b32 [a+0], %%r2;\n.param .b64 b;\nst.param.b64 [b+0], %%rd3;\n"
             ".param .b32 q;\ncall (q), f, (a, b);\nld.param.b32 %%r3, [q+0];\n}\n"
             "st.global.u32 [%%rd1], %%r3;\nret;\n}\n",
             head);
    if (tk_open(&t, buf, "t")) {
        int r = tk_run(&t, 1, 64, &out, &f);
        bool ok = true;

        for (unsigned i = 0; i < 64; i++) {
            unsigned n = i & 7, want = 100, w = 5;

            for (; n; n--, w += 3)
                want += w + (n & 1 ? 1000 : 0);
            ok &= out[i] == want;
        }
        t_result("registers of every class survive", ok && !r, "result %d %s", r, f.message);
        tk_close(&t);
    } else {
        t_result("registers of every class survive", false, "%s", t.diag.message);
    }
    snprintf(buf, sizeof(buf),
             "%s.func (.reg .u32 r) f(.reg .u32 n)\n{\ncall (r), f, (n);\nret;\n}\n"
             ".entry t()\n{\n.reg .u32 a;\ncall (a), f, (a);\n}\n",
             head);
    if (tk_open(&t, buf, "t")) {
        int r = tk_run(&t, 1, 64, NULL, &f);

        t_result("endless recursion, arguments in registers", r == 714, "result %d %s", r, f.message);
        tk_close(&t);
    } else {
        t_result("endless recursion, arguments in registers", false, "%s", t.diag.message);
    }
    snprintf(buf, sizeof(buf),
             "%s.func (.reg .u32 r) f(.reg .pred n)\n{\ncall (r), f, (n);\nret;\n}\n"
             ".entry t()\n{\n.reg .u32 a;\n.reg .pred p;\ncall (a), f, (p);\n}\n",
             head);
    struct sg_module *m = NULL;
    struct sg_diag d = {0};
    int r = sg_module_parse(buf, strlen(buf), &m, &d);

    if (!r)
        r = sg_kernel_prepare(sg_module_kernel(m, 0), &d);
    t_result("a recursive function of predicates is refused", r == 801 && strstr(d.message, "predicates"),
             "result %d %s", r, d.message);
    sg_module_free(m);
}

/* Each function calls the one before it in two places: expanded, they would be a million copies. */
static void many_copies(void)
{
    enum { LEVELS = 21 };
    static char buf[LEVELS * 512 + 2048];
    uint32_t *out = tm_alloc(32 * 4);
    struct sg_fault f = {0};
    size_t n = 0;
    struct tk t;
    bool ok = true;
    int r;

    n += (size_t)snprintf(
        buf, sizeof(buf),
        ".version 8.0\n.target sm_80\n.address_size 64\n"
        ".func (.param .b32 q) f0(.param .b32 x)\n{\n.reg .b32 %%r1;\nld.param.u32 %%r1, [x];\n"
        "st.param.b32 [q], %%r1;\nret;\n}\n");
    for (int i = 1; i < LEVELS; i++)
        n += (size_t)snprintf(
            buf + n, sizeof(buf) - n,
            ".func (.param .b32 q) f%d(.param .b32 x)\n{\n.reg .b32 %%r<4>;\n.reg .pred %%p;\n"
            "ld.param.u32 %%r1, [x];\nadd.u32 %%r1, %%r1, 1;\n"
            "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %%r1; call.uni (b), f%d, (a); ld.param.b32 %%r2, [b]; }\n"
            "setp.ne.u32 %%p, %%r1, 0;\n@%%p bra DONE;\n"
            "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %%r2; call.uni (b), f%d, (a); ld.param.b32 %%r2, [b]; }\n"
            "DONE:\nst.param.b32 [q], %%r2;\nret;\n}\n",
            i, i - 1, i - 1);
    snprintf(
        buf + n, sizeof(buf) - n,
        ".visible .entry k(.param .u64 out)\n{\n.reg .b32 %%r<4>;\n.reg .b64 %%d<4>;\n"
        "ld.param.u64 %%d0, [out];\nmov.u32 %%r0, %%tid.x;\nmul.wide.u32 %%d1, %%r0, 4;\nadd.u64 %%d0, %%d0, %%d1;\n"
        "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %%r0; call.uni (b), f%d, (a); ld.param.b32 %%r1, [b]; }\n"
        "st.global.u32 [%%d0], %%r1;\nret;\n}\n",
        LEVELS - 1);
    if (!tk_open(&t, buf, "k")) {
        t_result("functions that are too large to expand are called", false, "%s", t.diag.message);
        return;
    }
    r = tk_run(&t, 1, 32, &out, &f);
    for (uint32_t i = 0; i < 32; i++)
        ok &= out[i] == i + LEVELS - 1;
    check("functions that are too large to expand are called", ok, r, &f);
    tk_close(&t);
}

/* f1 calls f2 through a pointer in turn, and f3 itself, with parameters in registers: both are called, not
   expanded. */
static void pointers_by_register(void)
{
    static const char source[] =
        ".version 8.0\n.target sm_80\n.address_size 64\n"
        ".func (.reg .b32 r) f1(.reg .b32 a, .reg .b64 t);\n.func (.reg .b32 r) f2(.reg .b32 a, .reg .b64 t);\n"
        ".func (.reg .b32 r) f3(.reg .b32 a, .reg .b64 t);\n.global .align 8 .u64 tab[3] = {f1, f2, f3};\n"
        ".func (.reg .b32 r) f1(.reg .b32 a, .reg .b64 t)\n{\n.reg .b64 %x;\nld.global.u64 %x, [t+8];\n"
        "L: .calltargets f2, f3;\ncall (r), %x, (a, t), L;\nadd.u32 r, r, a;\nret;\n}\n"
        ".func (.reg .b32 r) f2(.reg .b32 a, .reg .b64 t)\n{\n.reg .pred %p;\nsetp.gt.u32 %p, a, 20;\n"
        "mul.lo.u32 r, a, 3;\n@%p ret;\nadd.u32 r, r, 1;\nret;\n}\n"
        ".func (.reg .b32 r) f3(.reg .b32 a, .reg .b64 t)\n{\n.reg .pred %p;\n.reg .b32 %b;\n.reg .b64 %x;\n"
        "mov.u32 r, 0;\nsetp.eq.u32 %p, a, 0;\n@%p ret;\nsub.u32 %b, a, 1;\nld.global.u64 %x, [t+16];\n"
        "L: .callprototype (.reg .b32 _) _ (.reg .b32 _, .reg .b64 _);\ncall (r), %x, (%b, t), L;\n"
        "add.u32 r, r, a;\nret;\n}\n"
        ".visible .entry k(.param .u64 out)\n{\n.reg .b32 %r<4>;\n.reg .b64 %rd<6>;\nld.param.u64 %rd1, [out];\n"
        "mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd1, %rd1, %rd2;\nrem.u32 %r2, %r1, 3;\n"
        "mul.wide.u32 %rd3, %r2, 8;\nmov.u64 %rd4, tab;\nadd.u64 %rd3, %rd4, %rd3;\nld.global.u64 %rd5, [%rd3];\n"
        "P: .callprototype (.reg .b32 _) _ (.reg .b32 _, .reg .b64 _);\n"
        "call (%r3), %rd5, (%r1, %rd4), P;\nst.global.u32 [%rd1], %r3;\nret;\n}\n";
    uint32_t *out = tm_alloc(50 * 4);
    struct sg_fault f = {0};
    struct tk t;
    bool ok = true;
    int r;

    if (!tk_open(&t, source, "k")) {
        t_result("pointers, parameters in registers", false, "%s", t.diag.message);
        return;
    }
    r = tk_run(&t, 1, 50, &out, &f);
    for (uint32_t i = 0; i < 50; i++)
        ok &= out[i] == (i % 3 == 2 ? i * (i + 1) / 2 : 3 * i + (i <= 20) + (i % 3 ? 0 : i));
    check("pointers, parameters in registers", ok, r, &f);
    tk_close(&t);
}

int main(int argc, char **argv)
{
    const char *dir = argc ? strrchr(argv[0], '/') : NULL;
    char path[4096];
    FILE *in;

    by_hand();
    pointers_by_register();
    many_copies();
    snprintf(path, sizeof(path), "%.*srecursion_80.ptx", dir ? (int)(dir - argv[0] + 1) : 0,
             dir ? argv[0] : "");
    in = fopen(argc > 1 ? argv[1] : path, "rb");
    text = calloc(1, TEXT_MAX);
    if (in && text && fread(text, 1, TEXT_MAX - 1, in)) {
        fibs();
        parity();
        sorts();
        chains();
        larges();
        pointers();
        trees();
        meets();
        allocas();
        overflow();
    } else {
        t_skip("recursion_80.ptx", "no nvcc when the tests were built");
    }
    if (in)
        fclose(in);
    free(text);
    tm_free_all();
    return t_end("softgpu calls");
}
