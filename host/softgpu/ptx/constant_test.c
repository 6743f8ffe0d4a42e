/* SPDX-License-Identifier: MIT */
/*
 * Constant expressions where PTX allows them, and elements of arrays as operands. Accepts the same
 * as ptxas 13.0, except for dimensions and subtracted offsets, which ptxas accepts as plain numbers
 * only.
 */
#include "exec/run_test.h"

#include <stdlib.h>

static const struct {
    const char *text; /* declares x */
    uint32_t n;       /* bytes of it; 0: refused */
    const char *bytes;
} initials[] = {
    {".global .u32 x = 1<<4;", 4, "\x10\0\0\0"},
    {".global .u32 x = 7-2;", 4, "\5\0\0\0"},
    {".global .u32 x[4] = {8-3, 1};", 16, "\5\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0"},
    {".global .u32 x[2] = {2*3,(4)};", 8, "\6\0\0\0\4\0\0\0"},
    {".global .u32 x[2] = {-1, ~3};", 8, "\xff\xff\xff\xff\xfc\xff\xff\xff"},
    {".global .u32 x = 5 > 3 ? 7 : 9;", 4, "\7\0\0\0"},
    {".global .u32 x = WARP_SZ;", 4, "\x20\0\0\0"},
    {".global .u32 x = 10U;", 4, "\x0a\0\0\0"},
    {".global .u8 x = 300;", 1, "\x2c"},
    {".global .u64 x = (.s64)-9223372036854775808 / -1;", 8, "\0\0\0\0\0\0\0\x80"},
    {".global .u64 x = (.u64)-1 / 3;", 8, "\x55\x55\x55\x55\x55\x55\x55\x55"},
    {".global .u64 x = -1 >> 1;", 8, "\xff\xff\xff\xff\xff\xff\xff\xff"},
    {".global .u64 x = (.u64)-1 >> 63;", 8, "\1\0\0\0\0\0\0\0"},
    /* an unsigned alternative makes both unsigned, regardless of the choice */
    {".global .u64 x = (1 ? -8 : 1) >> 1;", 8, "\xfc\xff\xff\xff\xff\xff\xff\xff"},
    {".global .u64 x = (1 ? -8 : (.u64)1) >> 1;", 8, "\xfc\xff\xff\xff\xff\xff\xff\x7f"},
    {".global .u64 x = (0 ? (.u64)1 : -8) >> 1;", 8, "\xfc\xff\xff\xff\xff\xff\xff\x7f"},
    {".global .u64 x = (1 ? (.u64)-8 : 1) >> 1;", 8, "\xfc\xff\xff\xff\xff\xff\xff\x7f"},
    {".global .u64 x = (1 ? -8 : (.u64)1) / 2;", 8, "\xfc\xff\xff\xff\xff\xff\xff\x7f"},
    {".global .u64 x = (1 ? -8 : (.u64)1) > 0;", 8, "\1\0\0\0\0\0\0\0"},
    {".global .u64 x = 1 << 64;", 8, "\1\0\0\0\0\0\0\0"}, /* modulo 64 */
    {".global .u64 x = 1 << -1;", 8, "\0\0\0\0\0\0\0\x80"},
    {".global .u64 x = -8 >> 65;", 8, "\xfc\xff\xff\xff\xff\xff\xff\xff"},
    {".global .u32 x[4*2-7] = {3};", 0, ""}, /* as ptxas */
    {".global .f32 x = 1.5*2.0;", 4, "\0\0\x40\x40"},
    {".global .f32 x = - -1.5;", 4, "\0\0\xc0\x3f"},
    {".global .f32 x = .5;", 4, "\0\0\0\x3f"},
    {".global .f32 x = 0d3ff0000000000000;", 4, "\0\0\x80\x3f"},
    {".global .f32 x = 0f7fc12345;", 4, "\x45\x23\xc1\x7f"},
    {".global .f64 x = 0f3f800000;", 8, "\0\0\0\0\0\0\xf0\x3f"},
    {".global .b32 x = 1.5;", 4, "\0\0\xc0\x3f"},
    {".global .b16 x = 1.0;", 2, "\0\x3c"},
    {".global .u8 x[2][2] = {{1},{3,4}};", 4, "\1\0\3\4"},
    {".global .u8 x[][2] = {{1,2},{3}};", 4, "\1\2\3\0"},
    {".global .v2 .u8 x[2] = {{1,2},{3,4}};", 4, "\1\2\3\4"},
    {".global .u8 x[2] = {1,2}, y = 3;", 2, "\1\2"},
    {".global .u32 x[2] = {1 2};", 0, ""},
    {".global .u32 x[2] = {1,2,};", 0, ""},
    {".global .u32 x[2] = {,1};", 0, ""},
    {".global .u32 x[2] = {1,2} 3;", 0, ""},
    {".global .u32 x = 1 2;", 0, ""},
    {".global .u32 x = {1};", 0, ""},
    {".global .u32 x[2] = 1;", 0, ""},
    {".global .u32 x[2][2] = {1,2,3,4};", 0, ""},
    {".global .u32 x[2][2] = {{1,2},3,4};", 0, ""},
    {".global .v2 .f32 x = {1.0};", 0, ""},
    {".global .u32 x[] = {};", 0, ""},
    {".global .u32 x = 1.5;", 0, ""},
    {".global .f32 x = 1;", 0, ""},
    {".global .f32 x = 1.0+2;", 0, ""},
    {".global .u32 x = ~1.0;", 0, ""},
    {".global .u32 x = (.u32)5;", 0, ""},
    {".global .u32 x = 5/0;", 0, ""},
    {".global .u32 x = 5%(3-3);", 0, ""},
    {".global .u32 x = 08;", 0, ""},
    {".global .u32 x = 0b12;", 0, ""},
    {".global .u32 x = 10u;", 0, ""},
    {".global .u64 x = 0xFFFFFFFFFFFFFFFFF;", 0, ""},
    {".global .u64 x = 99999999999999999999;", 0, ""},
    {".global .f64 x = 1.5e400;", 0, ""},
    {".global .f64 x = 1.e;", 0, ""},
    {".global .u32 x[2*];", 0, ""},
    {".global .u32 x[1.5];", 0, ""},
    {".global .u32 x = -x;", 0, ""},
    {".global .u32 x = (1;", 0, ""},
    {".global .u32 x = 1 ? 2;", 0, ""},
};

/* %r0 afterwards; g = {10..13}, c = {20..23}, %r9 = 1, %rd9 = 1. */
static const struct {
    const char *body;
    int64_t value; /* -1: refused */
} operands[] = {
    {"mov.u32 %r0, 1+2*3;", 7},
    {"mov.u32 %r0, (1<<4)|3;", 19},
    {"mov.u32 %r0, 1 | 2 ^ 3 & 4;", 3},
    {"mov.u32 %r0, 4 >> 1 + 1;", 1},
    {"mov.u32 %r0, 10 % 3;", 1},
    {"mov.u32 %r0, 5 != 5 || 2 <= 3;", 1},
    {"mov.u32 %r0, 1.0 < 2.0;", 1},
    {"mov.u32 %r0, !0;", 1},
    {"mov.u32 %r0, 7 - -2;", 9},
    {"mov.u32 %r0, WARP_SZ-1;", 31},
    {"mov.u32 %r0, (.s64)5;", 5},
    {"mov.u32 %r0, 1 ? 0 ? 3 : 4 : 5;", 4},
    {"shr.u32 %r0, 0x80000000, 32-5;", 16},
    {"ld.global.u32 %r0, [g+4*2];", 12},
    {"mov.u64 %rd3, g+4+4; ld.global.u32 %r0, [%rd3];", 12},
    {"mov.u64 %rd3, g; ld.global.u32 %r0, [%rd3+(4*2)];", 12},
    {"mov.u64 %rd3, g+12; ld.global.u32 %r0, [%rd3+-4];", 12},
    {"ld.global.u32 %r0, g[1+1];", 12},
    {"ld.global.u32 %r0, g[%r9];", 11},
    {"ld.global.u32 %r0, g[%rd9+2];", 13},
    {".reg .s32 %i; mov.s32 %i, -1; ld.global.u32 %r0, g[%i+2];", 11},
    {"ld.const.u32 %r0, c[3];", 23},
    {"mov.u64 %rd3, g[3]; ld.global.u32 %r0, [%rd3];", 13},
    {"mov.u64 %rd3, g[%r9]; ld.global.u32 %r0, [%rd3];", 11},
    {"st.global.u32 g[2], 99; ld.global.u32 %r0, [g+8];", 99},
    {"st.shared.u32 s[1], 5; ld.shared.u32 %r0, [s+4];", 5},
    {"st.shared.u32 [s+4], 6; ld.shared.u32 %r0, s[%r9];", 6},
    {"mov.u64 %rd3, s[2]; st.shared.u32 [%rd3], 7; ld.shared.u32 %r0, [s+8];", 7},
    {".local .u32 l[4]; st.local.u32 l[3], 8; ld.local.u32 %r0, l[%r9+2];", 8},
    {"ld.global.u32 %r0, rows[1];", 33},
    {"ld.global.u32 %r0, g;", -1},
    {"ld.global.u32 %r0, [g[1]];", -1},
    {"ld.global.u32 %r0, rows[1][1];", -1},
    {"mov.u64 %rd3, one[0];", -1},
    {"mov.u64 %rd3, g[1]+4;", -1},
    {"mov.u32 %r0, 5/0;", -1},
    {"mov.f32 %f1, 1.5+2;", -1},
    {"mov.u32 %r0, 1 +;", -1},
    {"mov.u32 %r0, ~1.0;", -1},
};

static void check_initial(size_t i)
{
    struct sg_module *m = NULL;
    struct sg_global_info g = {.size = 0};
    struct sg_diag diag;
    uint8_t at[64];
    char text[512];
    int r;

    snprintf(text, sizeof(text), HEAD "%s\n", initials[i].text);
    r = sg_module_parse(text, strlen(text), &m, &diag);
    if (!r) {
        sg_module_get_global(m, 0, &g);
        memset(at, 0x5a, sizeof(at));
        if (g.size <= sizeof(at)) {
            sg_module_set_global_address(m, 0, (uintptr_t)at);
            r = sg_module_init_globals(m, &diag);
        }
    }
    if (initials[i].n)
        t_result(initials[i].text, !r && g.size == initials[i].n && !memcmp(at, initials[i].bytes, g.size),
                 "%d, %llu bytes", r, (unsigned long long)g.size);
    else
        t_result(initials[i].text, r == SG_ERR_PTX, "accepted");
    sg_module_free(m);
}

/* The body goes to '@'. */
static const char around[] =
    KERNEL(".global .align 4 .u32 g[4] = {10,11,12,13};\n.const .align 4 .u32 c[4] = {20,21,22,23};\n"
           ".global .align 4 .u32 rows[2][3] = {{30,31,32},{33,34,35}};\n.global .u32 one;\n"
           ".shared .align 4 .u32 s[8];\n",
           "mov.u32 %r9, 1;\nmov.u64 %rd9, 1;\n@\nst.global.u32 [%rd0], %r0;");

static void check_operand(size_t i)
{
    const char *at = strchr(around, '@');
    char text[2048];
    struct sg_fault f;
    int r;

    snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - around), around, operands[i].body, at + 1);
    r = go(text, 1, 1, &f);
    if (operands[i].value >= 0)
        t_result(operands[i].body, !r && mem[0] == (uint64_t)operands[i].value, "%d, %u", r, mem[0]);
    else
        t_result(operands[i].body, r != 0, "accepted");
}

/* Too many levels are an error, not the end of the stack. */
static void check_depth(void)
{
    static const char *const opens[] = {"(", "-", "~", "1?"};
    struct sg_module *m;
    struct sg_diag diag;

    for (size_t i = 0; i < sizeof(opens) / sizeof(opens[0]); i++) {
        size_t n = 1000000, unit = strlen(opens[i]);
        char *text = malloc(n * unit + 256), *p = text;

        p += sprintf(p, HEAD ".global .u32 x[");
        for (size_t k = 0; k < n; k++, p += unit)
            memcpy(p, opens[i], unit);
        strcpy(p, "1];\n");
        t_result("depth", sg_module_parse(text, strlen(text), &m, &diag) == SG_ERR_PTX, "accepted");
        free(text);
    }
}

int main(void)
{
    mem = tm_alloc(COUNT * 4);
    for (size_t i = 0; i < sizeof(initials) / sizeof(initials[0]); i++)
        check_initial(i);
    for (size_t i = 0; i < sizeof(operands) / sizeof(operands[0]); i++)
        check_operand(i);
    check_depth();
    return t_end("softgpu constants");
}
