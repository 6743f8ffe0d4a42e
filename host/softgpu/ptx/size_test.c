/* SPDX-License-Identifier: MIT */
/*
 * Sizes that a text declares: variables that do not fit are refused by name, and no product or sum
 * wraps. A row of the unsized array below has 2^64 - 1 elements: with its size wrapped, the second
 * brace once began one byte in front of the variable, and its value was written there.
 */
#include "base/size.h"
#include "exec/exec_test.h"

#include <string.h>

/* The factors of 2^64 - 1; one element more is 2^64. */
#define ROW "[3][5][17][257][641][65537][6700417]"

static const struct {
    const char *name, *module, *body;
    const char *want; /* NULL: accepted */
} texts[] = {
    {"a row of an unsized array wraps", ".global .b8 v[]" ROW " = {{1}, 2};", "", "array too large"},
    {"the same without values", ".extern .global .b8 v[]" ROW ";", "", "array too large"},
    {"the same behind no elements", ".global .b8 v[0]" ROW ";", "", "array too large"},
    {"the same in shared memory", ".extern .shared .b8 v[]" ROW ";", "", "array too large"},
    {"the same in the body", "", ".local .b8 v[]" ROW ";", "array too large"},
    {"the same as a parameter", "", "{ .param .b8 v[]" ROW "; }", "array too large"},
    {"dimensions wrap to nothing", ".global .b8 v[4294967295][4294967295][4294967295];", "",
     "array too large"},
    {"elements wrap", ".global .v2 .b64 v[1099511627776];", "", "array"},
    {"elements wrap beside dimensions", ".global .v2 .b64 v[4294967295][512];", "", "array too large"},
    {"a dimension of 2^32", ".global .b8 v[4294967296];", "", "dimension too large"},
    {"a dimension of 2^64 - 1", ".global .b8 v[18446744073709551615];", "", "array too large"},
    {"rows as many as braces", ".global .b8 v[][1024][1024] = {{{1}}, {{2}}};", "", NULL},
    {"a row that is as large as it may be", ".extern .global .b8 v[][1073741824][1024];", "", NULL},
    {"a larger row", ".extern .global .b8 v[][1073741824][1025];", "", "array too large"},
    {"a row of wide elements", ".extern .global .b64 v[][1073741824][129];", "", "array too large"},
    {"empty braces beyond the end", ".global .b8 v[3][2] = {{}, {}, {}, {}};", "", "initial values"},
    {"braces beyond the end", ".global .b32 v[2][2] = {{1}, {2}, {3}};", "", "initial values"},
    {"rows that are filled in part", ".global .b32 v[2][2] = {{1}, {2}};", "", NULL},
    {"values in place of rows", ".global .b32 v[][2] = {1, 2, 3};", "", "'{' expected"},
    {"braces around values", ".global .b32 v[2] = {{1}, {2}};", "", "constant expected"},
    {"shared memory of 2^32 + 4 bytes", ".shared .b8 v[65537][65536];", "mov.u32 %r1, v;", "shared memory"},
    {"a sum of shared memory wraps", ".shared .b8 u[8];\n.shared .b8 v[4294967295];",
     "mov.u32 %r1, u;\nmov.u32 %r1, v;", "shared memory"},
    {"a sum of shared memory", ".shared .b8 u[4194300];\n.shared .b8 v[5];",
     "mov.u32 %r1, u;\nmov.u32 %r1, v;", "shared memory"},
    {"alignment beyond shared memory", ".shared .b8 u[4190209];\n.shared .align 4096 .b8 v[4096];",
     "mov.u32 %r1, u;\nmov.u32 %r1, v;", "shared memory"},
    {"as much shared memory as there is", ".shared .b8 u[4190208];\n.shared .align 4096 .b8 v[4096];",
     "mov.u32 %r1, u;\nmov.u32 %r1, v;", NULL},
    {"shared memory of the body", "", ".shared .b8 u[4194300]; .shared .b8 v[5];", "too much memory"},
    {"local memory of 2^32 bytes", "", ".local .b8 v[65536][65536];", "too much memory"},
    {"a sum of local memory", "", ".local .b8 u[524284]; .local .b8 v[5];", "too much memory"},
    {"alignment beyond local memory", "", ".local .b8 u[520193]; .local .align 4096 .b8 v[4096];",
     "too much memory"},
    {"parameters of a call", "", "{ .param .b8 u[524284]; .param .b8 v[5]; }", "too much memory"},
    {"a parameter of 2^32 bytes", ".visible .entry k(.param .b8 v[65536][65536])\n{\nret;\n}", "",
     "parameter too large"},
    {"a sum of parameters", ".visible .entry k(.param .b8 u[32760], .param .b8 v[5])\n{\nret;\n}", "",
     "parameters too large"},
    {"alignment beyond parameters",
     ".visible .entry k(.param .b8 u[28673], .param .align 4096 .b8 v[1])\n{\nret;\n}", "",
     "parameters too large"},
    {"as many constants as there may be", ".const .b8 u[65532];\n.const .b32 v;", "", NULL},
    {"a sum of constants", ".const .b8 u[65533];\n.const .b32 v;", "", "bytes of .const"},
    {"a sum of constants that were declared",
     ".extern .const .b8 u[65533];\n.extern .const .b32 v;\n"
     ".const .b8 u[65533];\n.const .b32 v;",
     "", "bytes of .const"},
    {"constants that were declared",
     ".extern .const .b8 u[65532];\n.const .b8 u[65532];\n.const .b32 v;\n"
     ".extern .const .b8 u[65532];",
     "", NULL},
    {"no alignment", ".global .align 3 .b8 v[4];", "", "power of two"},
    {"a greater alignment than there is", ".global .align 8192 .b8 v[4];", "", "power of two"},
};

static bool open_text(struct tk *t, const char *module, const char *body)
{
    char text[1024];

    snprintf(
        text, sizeof(text),
        ".version 8.0\n.target sm_80\n.address_size 64\n%s\n.visible .entry t()\n{\n.reg .b32 %%r<4>;\n%s\n"
        "ret;\n}\n",
        module, body);
    return tk_open(t, text, "t");
}

static void each_text(void)
{
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const char *want = texts[i].want;
        struct tk t;
        const bool open = open_text(&t, texts[i].module, texts[i].body);

        t_result(texts[i].name, want ? !open && strstr(t.diag.message, want) : open, "%s",
                 open ? "accepted" : t.diag.message);
        tk_close(&t);
        tm_free_all();
    }
}

static void arithmetic(void)
{
    uint64_t v = 3;
    uint32_t top = 5, at = 77;
    bool ok;

    ok = sg_size_mul(&v, 4, 12) && v == 12 && !sg_size_mul(&v, 2, 23) && v == 12 &&
         !sg_size_mul(&v, UINT64_MAX / 2, UINT64_MAX) && v == 12 && sg_size_mul(&v, 0, 0) && !v;
    t_result("products", ok, "%llu", (unsigned long long)v);
    v = 3;
    ok = sg_size_add(&v, 4, 7) && v == 7 && !sg_size_add(&v, 1, 7) && v == 7 &&
         !sg_size_add(&v, UINT64_MAX, UINT64_MAX) && v == 7;
    t_result("sums", ok, "%llu", (unsigned long long)v);
    ok = sg_size_place(&top, 8, 8, 16, &at) && at == 8 && top == 16 && !sg_size_place(&top, 1, 1, 16, &at) &&
         !sg_size_place(&top, 16, UINT64_MAX - 8, UINT32_MAX, &at) && at == 8 && top == 16 &&
         sg_size_place(&top, 16, 0, 31, &at) && at == 16 && top == 16;
    t_result("places", ok, "%u, %u", at, top);
}

int main(void)
{
    arithmetic();
    each_text();
    return t_end("softgpu sizes");
}
