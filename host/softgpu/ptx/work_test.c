/* SPDX-License-Identifier: MIT */
/*
 * Work is linear in the length of the text. Texts whose time was once quadratic: unterminated comments,
 * each scanned to the end again; numbers rescanned from each digit; branches that share a long list of
 * targets; a search of the whole kernel for each register, of the block for a load's equal, of all
 * addresses for a constant; names and constants that collided in a table. Each is read at two lengths,
 * and the times are compared.
 */
#include "exec/exec_test.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TIMES 8u     /* as long */
#define MOST 28.0    /* times the work; by the square it would be 64 */
#define SCOPED 8000u /* names looked up from within 250 scopes ... */
#define DEEPER 4.0   /* largest allowed ratio to the time with a single scope */
#define TRIES 3      /* of which the best counts */

static char text[24u << 20];
static size_t len;

static void put(const char *fmt, unsigned a, unsigned b)
{
    len += (size_t)snprintf(text + len, sizeof(text) - len, fmt, a, b); /* NOLINT: of the table below */
}

static void digits(unsigned n, const char *end)
{
    put(".file 1 \"a\", ", 0, 0);
    memset(text + len, '1', n);
    len += n;
    text[len] = 0;
    put(end, 0, 0);
    put(".visible .entry t()\n{\nret;\n}\n", 0, 0);
}

static void integers(unsigned n)
{
    digits(n, "\n");
}

/* None of the comments ends, and the text before the ';' is skipped word by word. */
static void comments(unsigned n)
{
    put(".visible .entry t()\n.pragma ", 0, 0);
    for (unsigned i = 0; i < n; i++)
        put("/* ", 0, 0);
}

static void floats(unsigned n)
{
    digits(n * 16, ".5\n");
}

static void lists(unsigned n)
{
    put(".visible .entry t(.param .u64 p)\n{\n.reg .b32 %%r<4>;\n.reg .b64 %%rd;\nld.param.u64 %%rd, [p];\n"
        "ld.global.u32 %%r1, [%%rd];\nts: .branchtargets L0",
        0, 0);
    for (unsigned i = 1; i < n; i++)
        put(", L%u", i, 0);
    put(";\n", 0, 0);
    for (unsigned i = 0; i < n; i++)
        put("L%u: brx.idx %%r1, ts;\n", i, 0);
    put("ret;\n}\n", 0, 0);
}

/* Each is set in two places, and on one path in none. */
static void registers(unsigned n)
{
    put(".visible .entry t()\n{\n.reg .pred %%p;\n.reg .b32 %%q;\n.reg .b32 %%r<%u>;\nmov.u32 %%r0, %%ctaid.x;\n"
        "setp.eq.u32 %%p, %%r0, 5;\n@%%p bra E;\n",
        n, 0);
    for (unsigned k = 0; k < 2; k++)
        for (unsigned i = 1; i < n; i++)
            put("add.u32 %%r%u, %%r0, %u;\n", i, i + k);
    put("E:\n", 0, 0);
    for (unsigned i = 1; i < n; i++)
        put("add.u32 %%q, %%q, %%r%u;\n", i, 0);
    put("ret;\n}\n", 0, 0);
}

/* Loads in a block, each through a different register: the search for loads through the same register. */
static void loads(unsigned n)
{
    put(".visible .entry t(.param .u64 p)\n{\n.reg .b32 %%r;\n.reg .b64 %%rd, %%a<%u>;\nld.param.u64 %%rd, [p];\n"
        "ld.global.u64 %%rd, [%%rd];\n",
        n, 0);
    for (unsigned i = 0; i < n; i++)
        put("add.u64 %%a%u, %%rd, %u;\n", i, 8 * i);
    for (unsigned i = 0; i < n; i++)
        put("ld.global.u32 %%r, [%%a%u];\n", i, 0);
    put("ret;\n}\n", 0, 0);
}

/* Constants that are addresses, and as many that are not: which is which? */
static void addresses(unsigned n)
{
    put(".global .b8 g[1000000];\n.visible .entry t(.param .u64 p)\n{\n.reg .b32 %%r;\n.reg .b64 %%rd, %%a;\n"
        "ld.param.u64 %%rd, [p];\nld.global.u32 %%r, [%%rd];\n",
        0, 0);
    for (unsigned i = 0; i < n; i++)
        put("mov.u64 %%a, g+%u;\nst.global.u64 [%%rd], %%a;\n", i, 0);
    for (unsigned i = 0; i < n; i++)
        put("shl.b32 %%r, %%r, %u;\n", 1 + i % 31, 0);
    put("st.global.u32 [%%rd], %%r;\nret;\n}\n", 0, 0);
}

/* The same where the front end asks: operations that are ahead of all blocks, but for want of room. */
static void addresses_ahead(unsigned n)
{
    put(".global .b8 g[1000000];\n.visible .entry t(.param .u64 p)\n{\n.reg .b32 %%r, %%q;\n.reg .b64 %%rd, %%a;\n"
        "ld.param.u64 %%rd, [p];\nmov.u32 %%q, %%ntid.x;\n",
        0, 0);
    for (unsigned i = 0; i < n; i++)
        put("mov.u64 %%a, g+%u;\nst.global.u64 [%%rd], %%a;\n", i, 0);
    for (unsigned i = 0; i < 4 * n; i++)
        put("add.u32 %%r, %%q, %u;\n", 1 + i % 31, 0);
    put("st.global.u32 [%%rd], %%r;\nret;\n}\n", 0, 0);
}

#define DEEP 250u /* scopes around */

static void enter_scopes(bool enter)
{
    for (unsigned i = 0; i < DEEP; i++)
        put(enter ? "{\n" : "}\n", 0, 0);
}

/* Labels and registers of the outermost scope, in one scope or in many. */
static void labels(unsigned n, bool deep)
{
    put(".visible .entry t()\n{\n.reg .b32 %%r<%u>;\n", n, 0);
    if (deep)
        enter_scopes(true);
    for (unsigned i = 0; i < n; i++)
        put("bra L%u;\n", i, 0);
    if (deep)
        enter_scopes(false);
    for (unsigned i = 0; i < n; i++)
        put("L%u: ret;\n", i, 0);
    put("}\n", 0, 0);
}

static void labels_flat(unsigned n)
{
    labels(n, false);
}

static void labels_deep(unsigned n)
{
    labels(n, true);
}

static void symbols(unsigned n, bool deep)
{
    put(".visible .entry t()\n{\n.reg .b32 %%q;\n.reg .b32 %%r<%u>;\n", n, 0);
    if (deep)
        enter_scopes(true);
    for (unsigned i = 0; i < n; i++)
        put("mov.b32 %%q, %%r%u;\n", i, 0);
    if (deep)
        enter_scopes(false);
    put("ret;\n}\n", 0, 0);
}

static void symbols_flat(unsigned n)
{
    symbols(n, false);
}

static void symbols_deep(unsigned n)
{
    symbols(n, true);
}

/* Each of the scopes around has registers of the same name, few more than that within it. */
static void ranges_deep(unsigned n)
{
    put(".visible .entry t()\n{\n.reg .b32 %%q;\n.reg .b32 %%r<%u>;\n", DEEP + 1 + n, 0);
    for (unsigned i = 0; i < DEEP; i++)
        put("{\n.reg .b32 %%r<%u>;\n", DEEP - i, 0);
    for (unsigned i = 0; i < n; i++)
        put("mov.b32 %%q, %%r%u;\n", DEEP + i, 0);
    enter_scopes(false);
    put("ret;\n}\n", 0, 0);
}

/* ---- names that have one FNV-1a hash, as the table of symbols once had it ---- */

#define PIECES 14 /* of a name; each is one of two strings that leave the hash equal */
#define LETTERS 8

static char piece[PIECES][2][LETTERS];

static uint32_t fnv(uint32_t h, const char *s)
{
    for (unsigned i = 0; i < LETTERS; i++)
        h = (h ^ (unsigned char)s[i]) * 16777619u;
    return h;
}

static void spell(uint32_t n, char *to)
{
    uint64_t v = n * 0x9e3779b97f4a7c15u >> 16;

    for (unsigned i = 0; i < LETTERS; i++, v /= 26)
        to[i] = (char)('a' + v % 26);
}

/* Two texts after which a hash of h is the same; false: there are none among the first 2^20. */
static bool collide(uint32_t *h, char two[2][LETTERS])
{
    static uint32_t seen[1u << 20]; /* number of a text, + 1, by the low bits of the hash */

    memset(seen, 0, sizeof(seen));
    for (uint32_t n = 0; n < 1u << 20; n++) {
        uint32_t *at;

        spell(n, two[0]);
        at = &seen[fnv(*h, two[0]) & ((1u << 20) - 1)];
        if (*at) {
            spell(*at - 1, two[1]);
            if (fnv(*h, two[1]) == fnv(*h, two[0])) {
                *h = fnv(*h, two[0]);
                return true;
            }
        }
        *at = n + 1;
    }
    return false;
}

static bool find_pieces(void)
{
    uint32_t h = 2166136261u ^ 0x9e3779b1u; /* in the first scope of a kernel */

    for (unsigned i = 0; i < PIECES; i++)
        if (!collide(&h, piece[i]))
            return false;
    return true;
}

static void names(unsigned n)
{
    put(".visible .entry t()\n{\n", 0, 0);
    for (unsigned i = 0; i < n; i++) {
        put(".reg .b32 ", 0, 0);
        for (unsigned k = 0; k < PIECES; k++, len += LETTERS)
            memcpy(text + len, piece[k][i >> k & 1], LETTERS);
        put(";\n", 0, 0);
    }
    put("ret;\n}\n", 0, 0);
}

/* Values whose product with the factor of the table of constants once ended in as many zeros as
   it has places. */
static void constants(unsigned n)
{
    uint64_t inverse = 1;

    for (unsigned i = 0; i < 6; i++)
        inverse *= 2 - inverse * 0x9e3779b97f4a7c15u;
    put(".visible .entry t()\n{\n.reg .b64 %%rd;\n", 0, 0);
    for (uint64_t i = 1; i <= n; i++) {
        const uint64_t v = (i << 46) * inverse ^ 0x5bd1e9955bd1e995u;

        put("mov.b64 %%rd, 0x%08x%08x;\n", (unsigned)(v >> 32), (unsigned)v);
    }
    put("ret;\n}\n", 0, 0);
}

static double seconds(void (*make)(unsigned n), unsigned n, bool refused)
{
    struct timespec a, b;
    double best = 0;

    for (int i = 0; i < TRIES; i++) {
        struct tk t;
        double took;

        len = 0;
        put(".version 8.0\n.target sm_80\n.address_size 64\n", 0, 0);
        make(n);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
        const bool open = tk_open(&t, text, "t");
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
        tk_close(&t);
        if (open == refused)
            return -1;
        took = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
        best = !i || took < best ? took : best;
    }
    return best;
}

/* A width or precision of hundreds of millions, put together of several: the C library would be
   long at it. */
static void widths(void)
{
    const char *bar = NULL;
    struct sg_fault f = {0};
    struct tk t;
    bool open;

    len = 0;
    put(".version 8.0\n.target sm_80\n.address_size 64\n"
        ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
        ".global .b8 fmt[] = {37, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 100, 124, "
        "37, 46, 57, 57, 57, 57, 57, 57, 57, 57, 102, 10, 0};\n"
        ".visible .entry t()\n{\n.reg .b64 %%rd<4>;\n.local .align 8 .b8 d[64];\nmov.u64 %%rd1, d;\n"
        "cvta.local.u64 %%rd2, %%rd1;\nmov.u64 %%rd3, fmt;\n",
        0, 0);
    for (unsigned i = 0; i < 10; i++)
        put("st.local.u32 [%%rd1+%u], 999;\n", 4 * i, 0);
    put("st.local.u32 [%%rd1+40], 7;\nst.local.u64 [%%rd1+48], 0x3ff4000000000000;\n"
        "{ .param .b64 q0; .param .b64 q1; .param .b32 q2;\nst.param.b64 [q0], %%rd3;\n"
        "st.param.b64 [q1], %%rd2;\ncall.uni (q2), vprintf, (q0, q1);\n}\nret;\n}\n",
        0, 0);
    open = tk_open(&t, text, "t");
    if (open && !tk_run(&t, 1, 1, NULL, &f))
        bar = strchr(t_output, '|');
    t_result("printf with long widths",
             bar == t_output + 1023 && strspn(t_output, " ") == 1023 && !strncmp(bar, "|1.25000", 8) &&
                 strlen(bar) == 1 + 1023 + 1,
             "%s%s, %zu characters in front of '|'", open ? "" : t.diag.message, f.message,
             strcspn(t_output, "|"));
    tk_close(&t);
}

int main(void)
{
    static const struct {
        const char *name;
        void (*make)(unsigned n);
        unsigned n;
        bool refused;
    } texts[] = {
        {"comments without an end", comments, 3000, true},
        {"digits of an integer", integers, 5000, false},
        {"digits of a fraction", floats, 40000, false},
        {"branches with one long list", lists, 8000, false},
        {"registers that are set in several places", registers, 3000, false},
        {"loads through many registers", loads, 3000, false},
        {"addresses among constants", addresses, 3000, false},
        {"addresses among constants ahead of blocks", addresses_ahead, 6000, false},
        {"names that were in one place of a table", names, 2000, false},
        {"constants that were in one place of a table", constants, 2000, false},
    };

    static const struct {
        const char *name;
        void (*flat)(unsigned n), (*deep)(unsigned n);
    } scopes[] = {
        {"labels out of many scopes", labels_flat, labels_deep},
        {"registers out of many scopes", symbols_flat, symbols_deep},
        {"registers out of many scopes that have some", symbols_flat, ranges_deep},
    };

    t_result("names with one hash", find_pieces(), "none were found");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const double one = seconds(texts[i].make, texts[i].n, texts[i].refused);
        const double many = seconds(texts[i].make, texts[i].n * TIMES, texts[i].refused);

        t_result(texts[i].name, one > 0 && many > 0 && many < MOST * one, "%.1f ms and %.1f ms", one * 1e3,
                 many * 1e3);
    }
    for (size_t i = 0; i < sizeof(scopes) / sizeof(scopes[0]); i++) {
        const double flat = seconds(scopes[i].flat, SCOPED, false),
                     deep = seconds(scopes[i].deep, SCOPED, false);

        t_result(scopes[i].name, flat > 0 && deep > 0 && deep < DEEPER * flat, "%.1f ms and %.1f ms",
                 flat * 1e3, deep * 1e3);
    }
    widths();
    return t_end("softgpu work");
}
