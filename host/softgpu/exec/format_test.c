/* SPDX-License-Identifier: MIT */
/* printf of device code: each conversion, flag and length prints the same text as the C library. */
#include "exec/run_test.h"

#include <stdint.h>
#include <stdio.h>

static char want[2048];

static uint64_t bits_of(double d)
{
    uint64_t bits;

    memcpy(&bits, &d, sizeof(bits));
    return bits;
}

/* Prints by a kernel whose arguments are these two words, and compares the output with `want`. */
static void expect(const char *format, uint64_t first, uint64_t second, int length)
{
    static char text[8192];
    struct sg_fault f;
    size_t n;
    int r;

    n = (size_t)snprintf(text, sizeof(text), "%s",
                         HEAD ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
                              ".global .align 1 .b8 fmt[] = {");
    for (const char *p = format; *p; p++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%d,", *p);
    n += (size_t)snprintf(text + n, sizeof(text) - n, "0};\n.visible .entry t(.param .u64 p0)\n{\n");
    n +=
        (size_t)snprintf(text + n, sizeof(text) - n, "%s",
                         ".reg .b32 %r1;\n.reg .b64 %rd<3>;\nld.param.u64 %rd0, [p0];\nmov.u64 %rd1, fmt;\n");
    n += (size_t)snprintf(text + n, sizeof(text) - n,
                          "mov.u64 %%rd2, 0x%llx;\nst.global.u64 [%%rd0], %%rd2;\n",
                          (unsigned long long)first);
    n += (size_t)snprintf(text + n, sizeof(text) - n,
                          "mov.u64 %%rd2, 0x%llx;\nst.global.u64 [%%rd0+8], %%rd2;\n",
                          (unsigned long long)second);
    snprintf(text + n, sizeof(text) - n, "%s",
             "{ .param .b64 q0; .param .b64 q1; .param .b32 q2;\nst.param.b64 [q0], %rd1;\n"
             "st.param.b64 [q1], %rd0;\ncall.uni (q2), vprintf, (q0, q1);\n}\nret;\n}\n");
    r = go(text, 1, 1, &f);
    t_result(format, !r && length >= 0 && !strcmp(t_output, want), "result %d %s: '%s' instead of '%s'", r,
             f.message, t_output, want);
}

/* One argument, of 4 bytes, of 8 bytes, or a double; also with a width or precision. */
#define WORD(format, v) expect(format, (uint32_t)(v), 0, snprintf(want, sizeof(want), format, v))
#define LONG(format, v) expect(format, (uint64_t)(v), 0, snprintf(want, sizeof(want), format, v))
#define REAL(format, v) expect(format, bits_of(v), 0, snprintf(want, sizeof(want), format, v))
#define STAR_WORD(format, n, v) \
    expect(format, (uint32_t)(n) | (uint64_t)(uint32_t)(v) << 32, 0, \
           snprintf(want, sizeof(want), format, n, v))
#define STAR_REAL(format, n, v) \
    expect(format, (uint32_t)(n), bits_of(v), snprintf(want, sizeof(want), format, n, v))

static void test_words(void)
{
    WORD("%d|", -7);
    WORD("%i|", INT32_MIN);
    WORD("%u|", UINT32_MAX);
    WORD("%x|", 0xbeefu);
    WORD("%X|", UINT32_MAX);
    WORD("%o|", 8u);
    WORD("%c|", 'c');
    WORD("%3c|", 'c');
    WORD("%-3c|", 'c');
    WORD("%6d|", -42);
    WORD("%-6d|", -42);
    WORD("%06d|", -42);
    WORD("%+d|", 42);
    WORD("% d|", 42);
    WORD("%#x|", 42u);
    WORD("%.5d|", 42);
    WORD("%9.5d|", 42);
    WORD("%%%d|", 1);
    WORD("%hd|", 70000);
    WORD("%hi|", -32769);
    WORD("%hu|", -1);
    WORD("%hx|", 0x12345);
    WORD("%hhd|", 300);
    WORD("%hhu|", 511);
    WORD("%hhX|", -2);
    WORD("%-8hho|", 0x1ff);
}

/* Lengths below an int's: values are truncated, and the sign is that of the truncated value. */
static void test_shorts(void)
{
    static const int values[] = {0, 7, -7, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0x12345, -0x12345};

    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        const int v = values[i];

        expect("%hd|", (uint32_t)v, 0, snprintf(want, sizeof(want), "%d|", (short)v));
        expect("%hu|", (uint32_t)v, 0, snprintf(want, sizeof(want), "%u|", (unsigned short)v));
        expect("%hhd|", (uint32_t)v, 0, snprintf(want, sizeof(want), "%d|", (signed char)v));
        expect("%hhx|", (uint32_t)v, 0, snprintf(want, sizeof(want), "%x|", (unsigned char)v));
        expect("%6hd|", (uint32_t)v, 0, snprintf(want, sizeof(want), "%6d|", (short)v));
        expect("%hX|", (uint32_t)v, 0, snprintf(want, sizeof(want), "%X|", (unsigned short)v));
        expect("%-4hhi|", (uint32_t)v, 0, snprintf(want, sizeof(want), "%-4d|", (signed char)v));
    }
}

/* Each length that makes an argument 8 bytes wide, with values that do not fit into 4. */
static void test_longs(void)
{
    LONG("%ld|", INT64_MIN + 1);
    LONG("%li|", -1l);
    LONG("%lu|", UINT64_MAX);
    LONG("%lx|", 0x123456789aul);
    LONG("%lX|", 0xabcdef0123ul);
    LONG("%lo|", 1ul << 40);
    LONG("%lld|", -(1ll << 40));
    LONG("%llu|", 1ull << 63);
    LONG("%llx|", 1ull << 63);
    LONG("%zu|", (size_t)1 << 40);
    LONG("%zx|", (size_t)1 << 40);
    LONG("%jd|", -((intmax_t)1 << 40));
    LONG("%ju|", (uintmax_t)1 << 40);
    LONG("%td|", -((ptrdiff_t)1 << 40));
    LONG("%20ld|", 1l << 40);
    LONG("%-20ld|", 1l << 40);
    LONG("%p|", (void *)(uintptr_t)0x7f0012345678);
}

static void test_reals(void)
{
    REAL("%f|", 1.25);
    REAL("%F|", -0.0);
    REAL("%e|", 12345.678);
    REAL("%E|", 1e-300);
    REAL("%g|", 1e20);
    REAL("%G|", 1e-20);
    REAL("%a|", 0.1);
    REAL("%A|", 0.1);
    REAL("%.0f|", 2.5);
    REAL("%12.3f|", 3.14159);
    REAL("%-12.3f|", 3.14159);
    REAL("%+.1e|", 3.14159);
    REAL("%f|", 1.0 / 0.0);
}

static void test_stars(void)
{
    STAR_WORD("%*d|", 6, 42);
    STAR_WORD("%*d|", -6, 42);
    STAR_WORD("%0*d|", 6, 42);
    STAR_WORD("%*d|", 999, 42);
    STAR_WORD("%*d|", -999, 42);
    STAR_WORD("%.*d|", 4, 42);
    STAR_REAL("%.*f|", 3, 3.14159);
    STAR_REAL("%*f|", 14, 3.14159);
    STAR_REAL("%.*f|", -1, 2.5);
    STAR_REAL("%.*f|", -1000, 2.5);
    /* digits behind a precision that is none are not the width's */
    expect("%12.*34d|", (uint32_t)-1 | 7ull << 32, 0, snprintf(want, sizeof(want), "%12d|", 7));
}

/* The result: the number of arguments read, including those of stars; at most 32. */
static void test_count(void)
{
    static const struct {
        const char *what, *format;
        int repeat;
        uint32_t count;
        size_t length; /* of the output */
    } rows[] = {{"no argument", "a%%|", 1, 0, 3},
                {"two arguments", "%d%x|", 1, 2, 3},
                {"a star", "%*d|", 1, 2, 2},
                {"a star as precision", "%.*d|", 1, 2, 1},
                {"32 arguments", "%d", 32, 32, 32},
                {"33 arguments", "%d", 33, 32, 34},
                {"what follows the 32nd", "%d.", 34, 32, 70},
                {"a star beyond the 32nd", "%*d", 17, 32, 19},
                {"a star as the 32nd, its value beyond", "%d%*d%*d", 7, 31, 25}};
    static char text[8192];
    struct sg_fault f;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t n =
            (size_t)snprintf(text, sizeof(text), "%s",
                             HEAD ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
                                  ".global .align 4 .b8 words[512];\n.global .align 1 .b8 fmt[] = {");
        int r;

        for (int k = 0; k < rows[i].repeat; k++)
            for (const char *p = rows[i].format; *p; p++)
                n += (size_t)snprintf(text + n, sizeof(text) - n, "%d,", *p);
        snprintf(text + n, sizeof(text) - n, "%s",
                 "0};\n.visible .entry t(.param .u64 p0)\n{\n.reg .b32 %r1;\n.reg .b64 %rd<3>;\n"
                 "ld.param.u64 %rd0, [p0];\nmov.u64 %rd1, fmt;\nmov.u64 %rd2, words;\n"
                 "{ .param .b64 q0; .param .b64 q1; .param .b32 q2;\nst.param.b64 [q0], %rd1;\n"
                 "st.param.b64 [q1], %rd2;\ncall.uni (q2), vprintf, (q0, q1);\nld.param.b32 %r1, [q2];\n}\n"
                 "st.global.u32 [%rd0], %r1;\nret;\n}\n");
        r = go(text, 1, 1, &f);
        t_result(rows[i].what, !r && mem[0] == rows[i].count && strlen(t_output) == rows[i].length,
                 "result %d %s: %u arguments, '%s'", r, f.message, mem[0], t_output);
    }
}

int main(int argc, char **argv)
{
    t_variant(argc, argv);
    mem = tm_alloc(COUNT * 4);
    test_words();
    test_shorts();
    test_longs();
    test_reals();
    test_stars();
    test_count();
    return t_end("softgpu formats");
}
