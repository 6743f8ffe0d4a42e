/* SPDX-License-Identifier: MIT */
/* The linker of PTX texts: shared names, private names, refusals. */
#include "exec/exec_test.h"

#include <stdlib.h>
#include <string.h>

#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"

static struct sg_diag diag;
static uint32_t optional; /* bits: texts of the next links that are linked only where they are needed */

static char *link_texts(const char *const *texts, uint32_t n)
{
    static const char *const names[] = {"first", "second", "third", "fourth"};
    struct sg_ptx_input in[4];
    char *out = NULL;
    size_t len = 0;

    for (uint32_t i = 0; i < n; i++)
        in[i] = (struct sg_ptx_input){texts[i], strlen(texts[i]), names[i], optional >> i & 1};
    if (sg_ptx_link(in, n, &out, &len, &diag))
        return NULL;
    if (strlen(out) != len) {
        free(out);
        return NULL;
    }
    return out;
}

/* Links, runs kernel "k" with a pointer to one number and compares it. */
static void runs(const char *name, const char *const *texts, uint32_t n, int want)
{
    char *text = link_texts(texts, n);
    struct sg_fault f = {0};
    int *out = tm_alloc(4);
    struct tk t;
    int r = -1;

    if (text && tk_open(&t, text, "k")) {
        r = tk_run(&t, 1, 1, &out, &f);
        tk_close(&t);
    }
    t_result(name, text && !r && *out == want, "%s: result %d, %d: %s", text ? "linked" : diag.message, r,
             *out, f.message);
    free(text);
    tm_free_all();
}

static void refused(const char *name, const char *const *texts, uint32_t n, const char *says)
{
    char *text = link_texts(texts, n);

    t_result(name, !text && strstr(diag.message, says), "%s", text ? "linked" : diag.message);
    free(text);
}

#define KERNEL(call) \
    ".visible .entry k(.param .u64 p)\n{\n.reg .b64 %rd<4>;\n.reg .b32 %r<4>;\n" \
    "ld.param.u64 %rd1, [p];\ncvta.to.global.u64 %rd1, %rd1;\n" call "st.global.u32 [%rd1], %r1;\nret;\n}\n"
#define CALL(f) "{ .param .b32 q; call.uni (q), " f "; ld.param.b32 %r1, [q]; }\n"
#define FUNC(linkage, name, value) \
    linkage " .func (.param .b32 r) " name "()\n{\n.reg .b32 %r<2>;\nmov.u32 %r1, " value ";\n" \
            "st.param.b32 [r], %r1;\nret;\n}\n"

static void names(void)
{
    const char *call[] = {HEAD ".extern .func (.param .b32 r) f();\n" KERNEL(CALL("f")),
                          HEAD FUNC(".visible", "f", "7")};
    const char *swapped[] = {call[1], call[0]};
    /* Both texts have a function g of their own, and one of them is called add as an
       instruction. */
    const char *local[] = {
        HEAD ".extern .func (.param .b32 r) f();\n" FUNC("", "g", "1") FUNC("", "add", "10")
            KERNEL(CALL("g") "mov.u32 %r2, %r1;\n" CALL("add") "add.u32 %r2, %r2, %r1;\n" CALL(
                "f") "add.u32 %r1, %r1, %r2;\n"),
        HEAD FUNC("", "g", "100")
            FUNC("", "add", "1000") ".visible .func (.param .b32 r) f()\n{\n.reg .b32 %r<4>;\n" CALL(
                "g") "mov.u32 %r2, %r1;\n" CALL("add") "add.u32 %r1, %r1, %r2;\nst.param.b32 [r], %r1;\nret;\n}\n"};
    const char *weak[] = {HEAD ".extern .func (.param .b32 r) f();\n" KERNEL(CALL("f")),
                          HEAD FUNC(".weak", "f", "3"), HEAD FUNC(".weak", "f", "4")};
    const char *strong[] = {weak[0], weak[1], HEAD FUNC(".visible", "f", "5")};
    const char *both[] = {weak[0], strong[2], strong[2]};

    runs("a function of another text", call, 2, 7);
    runs("the order does not matter", swapped, 2, 7);
    runs("names without linkage", local, 2, 1111);
    runs("of two weak functions the first", weak, 3, 3);
    runs("a strong function before a weak one", strong, 3, 5);
    refused("two strong functions", both, 3, "'f' is defined in second and in third");
}

static void variables(void)
{
    const char *v[] = {HEAD ".extern .global .align 4 .u32 v;\n" KERNEL(
                           "ld.global.u32 %r1, [v];\nld.global.u32 %r2, [v+4];\n"
                           "add.u32 %r1, %r1, %r2;\n"),
                       HEAD ".visible .global .align 4 .u32 v[2] = {40, 2};\n"};
    /* A table of functions, one of which is renamed; two variables of one declaration. */
    const char *table[] = {
        HEAD FUNC("", "g", "1") ".extern .global .u64 t[1];\n.global .u32 a = 5, b = 6;\n" KERNEL(
            "{ .param .b32 q; ld.global.u64 %rd2, [t];\nP: .callprototype (.param .b32 _) _ ();\n"
            "call (q), %rd2, (), P; ld.param.b32 %r1, [q]; }\n"
            "ld.global.u32 %r2, [b];\nadd.u32 %r1, %r1, %r2;\n"),
        HEAD FUNC("", "g", "20") ".visible .global .u64 t[1] = {g};\n.global .u32 a, b = 9;\n"};
    const char *two[] = {v[1], v[1]};

    runs("a variable of another text", v, 2, 42);
    runs("names without linkage in initial values", table, 2, 26);
    refused("two strong variables", two, 2, "'v' is defined in first and in second");
}

static void headers(void)
{
    const char *t[] = {".version 7.0\n.target sm_75\n.address_size 64\n" KERNEL("mov.u32 %r1, 1;\n"),
                       ".version 8.3\n.target sm_90a, debug // x\n.address_size 64\n"
                       ".file 1 \"a.cu\"\n.section .debug_str { L: .b8 1 }\n"};
    const char *bad[] = {t[0], "hello"}, *open[] = {HEAD ".func f() { {"};
    const char *none[] = {".version 7.0\n.func f() { ret; }\n"};
    char *text = link_texts(t, 2);

    t_result("the highest version and target",
             text && !strncmp(text, ".version 8.3\n.target sm_90a, debug\n", 35), "%s",
             text ? text : diag.message);
    free(text);
    refused("not PTX", bad, 2, "the text must begin with .version near 'hello' (second)");
    refused("a body without an end", open, 1, "a body has no end");
    refused("no target", none, 1, "no .target");
}

/* Texts for a newer device beside machine code for this one. */
static void optionals(void)
{
    static const char newer[] = ".version 8.7\n.target sm_120\n.address_size 64\n";
    const char *program[] = {HEAD ".extern .func (.param .b32 r) f();\n" KERNEL(CALL("f")),
                             HEAD FUNC(".visible", "f", "7")};
    /* It defines f, but is no part of the program: f is in another text. */
    char runtime[1024], unused[512];
    const char *with_runtime[] = {program[0], program[1], runtime};
    const char *unneeded[] = {program[0], program[1], unused};
    char *text;

    snprintf(runtime, sizeof(runtime), "%s%s", newer,
             FUNC(".visible", "f", "9")
                 FUNC(".visible", "__cudaCDP2GetLastError", "0") ".visible .global .u32 count = 6;\n");
    snprintf(unused, sizeof(unused), "%s%s", newer, FUNC(".visible", "h", "9"));
    optional = 3;
    runs("a program of optional texts", program, 2, 7);
    optional = 2;
    runs("an optional text that is needed", program, 2, 7);
    optional = 4;
    runs("the runtime library, of which nothing is needed", with_runtime, 3, 7);
    text = link_texts(unneeded, 3);
    t_result("a text of which nothing is needed has no part in the target",
             text && strstr(text, ".target sm_80"), "%s", text ? text : diag.message);
    free(text);
    with_runtime[1] = unused;
    optional = 6;
    text = link_texts(with_runtime, 3);
    t_result("the runtime library, where something is needed",
             text && strstr(text, ".target sm_120") && strstr(text, "mov.u32 %r1, 9"), "%s",
             text ? text : diag.message);
    free(text);
    optional = 0;
}

int main(void)
{
    names();
    variables();
    headers();
    optionals();
    return t_end("softgpu link");
}
