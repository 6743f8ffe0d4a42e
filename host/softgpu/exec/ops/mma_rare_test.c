/* SPDX-License-Identifier: MIT */
/* Matrix instructions that are rare, as nvcc emits them, against plain loops. */
#include "exec/exec_test.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_MAX (1 << 20)

static char *text;

static bool open(struct tk *t, const char *name)
{
    if (tk_open(t, text, name))
        return true;
    t_result(name, false, "%s", t->diag.message);
    sg_module_free(t->m);
    return false;
}

static void wmma_f64(void)
{
    double *p = tm_alloc(192 * 8);
    struct sg_fault f = {0};
    struct tk t;
    bool ok = true;

    for (int i = 0; i < 192; i++)
        p[i] = i % 17 - 8.25;
    if (!open(&t, "wmma_f64"))
        return;
    int r = tk_run(&t, 1, 32, &p, &f);

    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) {
            double v = p[64 + i * 8 + j];

            for (int k = 0; k < 4; k++)
                v += p[i * 4 + k] * p[32 + j * 4 + k];
            ok &= p[128 + j * 8 + i] == v;
        }
    t_result("wmma of f64", ok && !r, "%d %s", r, f.message);
    tk_close(&t);
}

static void mma_f64(void)
{
    double *p = tm_alloc(512 * 8);
    struct sg_fault f = {0};
    struct tk t;
    bool ok = true;

    for (int i = 0; i < 512; i++)
        p[i] = i % 23 - 11.5;
    if (!open(&t, "mma_f64"))
        return;
    int r = tk_run(&t, 1, 32, &p, &f);

    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++) {
            double v = 1 + j % 2 + 2 * (i / 8);

            for (int k = 0; k < 16; k++)
                v += p[i * 16 + k] * p[256 + j * 16 + k];
            ok &= p[384 + i * 8 + j] == v;
        }
    t_result("mma of f64, 16 rows", ok && !r, "%d %s", r, f.message);
    tk_close(&t);
}

static void mma_bits(void)
{
    struct {
        uint32_t *a, *b;
        int32_t *d;
    } p = {tm_alloc(512), tm_alloc(256), tm_alloc(1536)};
    struct sg_fault f = {0};
    struct tk t;
    bool ok[3] = {true, true, true};

    for (int i = 0; i < 128; i++)
        p.a[i] = (uint32_t)i * 2654435761u;
    for (int i = 0; i < 64; i++)
        p.b[i] = (uint32_t)(i + 77) * 2246822519u;
    if (!open(&t, "mma_bits"))
        return;
    int r = tk_run(&t, 1, 32, &p, &f);

    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++) {
            int want[3] = {0};

            for (int k = 0; k < 8; k++) {
                uint32_t x = p.a[i * 8 + k], y = p.b[j * 8 + k];

                for (int e = 0; e < 8; e++) {
                    int s = (int)(x >> (4 * e) & 15);

                    want[0] += (s > 7 ? s - 16 : s) * (int)(y >> (4 * e) & 15);
                }
                want[1] += __builtin_popcount(x ^ y);
                want[2] += __builtin_popcount(x & y);
            }
            for (int k = 0; k < 3; k++)
                ok[k] &= p.d[k * 128 + i * 8 + j] == want[k];
        }
    t_result("mma of 4 bits", ok[0] && !r, "%d %s", r, f.message);
    t_result("mma of 1 bit, xor", ok[1] && !r, "%d %s", r, f.message);
    t_result("mma of 1 bit, and", ok[2] && !r, "%d %s", r, f.message);
    tk_close(&t);
}

static int nibble(uint32_t v, int e, bool sign)
{
    int x = (int)(v >> (4 * e) & 15);

    return sign && x > 7 ? x - 16 : x;
}

static void wmma_bits(void)
{
    struct {
        uint32_t *a, *b;
        int32_t *d;
    } p = {tm_alloc(128), tm_alloc(128), tm_alloc(768)};
    int32_t before[192];
    struct sg_fault f = {0};
    struct tk t;
    bool ok[3] = {true, true, true};

    for (int i = 0; i < 32; i++) {
        p.a[i] = (uint32_t)(i + 3) * 2654435761u;
        p.b[i] = (uint32_t)(i + 91) * 2246822519u;
    }
    for (int i = 0; i < 192; i++)
        before[i] = p.d[i] = i == 70 ? INT32_MAX - 5 : i * 1000 - 50;
    if (!open(&t, "wmma_bits"))
        return;
    int r = tk_run(&t, 1, 32, &p, &f);

    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) {
            int64_t s = before[i * 8 + j], u = before[64 + j * 8 + i], bits = 7;

            for (int k = 0; k < 4; k++) {
                uint32_t x = p.a[i * 4 + k], y = p.b[j * 4 + k];

                for (int e = 0; e < 8; e++) {
                    s += nibble(x, e, true) * nibble(y, e, true);
                    u += nibble(x, e, false) * nibble(y, e, false);
                }
                bits += __builtin_popcount(x ^ y) + __builtin_popcount(x & y);
            }
            ok[0] &= p.d[i * 8 + j] == s;
            ok[1] &= p.d[64 + j * 8 + i] == (u > INT32_MAX ? INT32_MAX : u);
            ok[2] &= p.d[128 + i * 8 + j] == bits;
        }
    t_result("wmma of s4", ok[0] && !r, "%d %s", r, f.message);
    t_result("wmma of u4, columns, saturating", ok[1] && !r, "%d %s", r, f.message);
    t_result("wmma of 1 bit", ok[2] && !r, "%d %s", r, f.message);
    p.b += 1; /* beyond the allocation by one word */
    r = tk_run(&t, 1, 32, &p, &f);
    t_result("wmma of 4 bits beyond the allocation", r == 700, "%d %s", r, f.message);
    tk_close(&t);
}

static void wide(void)
{
    struct {
        uint64_t (*p)[2], (*old)[2];
    } p = {tm_alloc(48), tm_alloc(512 * 16)};
    bool seen[4][128] = {{false}}, ok = true, first = false;
    struct sg_fault f = {0};
    struct tk t;

    if (!open(&t, "wide"))
        return;
    memset(p.p, 0, 48);
    p.p[0][0] = ~0ull - 100; /* the low half carries into the high one */
    p.p[1][0] = p.p[1][1] = 12345;
    int r = tk_run(&t, 4, 128, &p, &f);

    ok = p.p[0][0] == 512 * 3 - 101 && p.p[0][1] == 513;
    t_result("compare and exchange of 128 bits", ok && !r, "%d %s: %llx %llx", r, f.message,
             (unsigned long long)p.p[0][1], (unsigned long long)p.p[0][0]);
    ok = true;
    for (int i = 0; i < 512; i++) { /* every value but the last comes back once */
        uint64_t b = p.old[i][0], x = p.old[i][1];

        if (b == 12345 && x == 12345) {
            ok &= !first;
            first = true;
        } else {
            ok &= b < 4 && x < 128 && !seen[b & 3][x & 127];
            seen[b & 3][x & 127] = true;
        }
    }
    ok &= first && p.p[1][0] < 4 && p.p[1][1] < 128 && !seen[p.p[1][0] & 3][p.p[1][1] & 127];
    t_result("exchange of 128 bits", ok && !r, "%d %s", r, f.message);
    t_result("store of 128 bits", !r && p.p[2][0] < 4 && p.p[2][1] < 128, "%d %s", r, f.message);
    p.p = (void *)((char *)p.p + 8);
    r = tk_run(&t, 1, 1, &p, &f);
    t_result("128 bits misaligned", r == 716, "%d %s", r, f.message);
    tk_close(&t);
}

static void refused(void)
{
    static const char *const lines[][2] = {
        {"add.s64 %rd1, %q1, %rd2;", ".b128"},
        {"ld.global.u32 %r1, [%q1];", "address"},
        {"mov.b128 %q1, %rd1;", ".b128"},
        {"atom.add.b128 %q1, [%rd1], %q2;", "atom.add"},
        {"lop3.or.b32 %r1, %r1, %r2, 0, 1, %p1;", "operands"},
        {"lop3.b32 %r1|%p1, %r1, %r2, 0, 1;", "operands"},
        {"alloca.u64 %rd1, %rd2, 12;", "alignment"},
        {"alloca.b16 %rd1, %rd2;", ".u32 or .u64"},
        {"wmma.load.a.sync.aligned.col.m8n8k32.s4 {%r1}, [%rd1];", "wmma.load"},
        {"wmma.load.a.sync.aligned.row.m8n8k128.s4 {%r1}, [%rd1];", "wmma.load"},
        {"wmma.load.b.sync.aligned.col.m8n8k32.s4 {%r1, %r2}, [%rd1];", "registers"},
    };
    char buf[512];

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct tk t;
        bool open;

        snprintf(buf, sizeof(buf),
                 ".version 9.0\n.target sm_90\n.address_size 64\n.entry t()\n{\n"
                 ".reg .b32 %%r<3>;\n.reg .b64 %%rd<3>;\n.reg .b128 %%q<3>;\n.reg .pred %%p<3>;\n"
                 "%s\n}\n",
                 lines[i][0]);
        open = tk_open(&t, buf, "t");
        t_result(lines[i][0], !open && strstr(t.diag.message, lines[i][1]), "%s", t.diag.message);
        if (open)
            tk_close(&t);
        else
            sg_module_free(t.m);
    }
}

int main(int argc, char **argv)
{
    const char *dir = argc ? strrchr(argv[0], '/') : NULL;
    char path[4096];
    FILE *in;

    refused();
    snprintf(path, sizeof(path), "%.*srare_90.ptx", dir ? (int)(dir - argv[0] + 1) : 0, dir ? argv[0] : "");
    in = fopen(argc > 1 ? argv[1] : path, "rb");
    text = calloc(1, TEXT_MAX);
    if (in && text && fread(text, 1, TEXT_MAX - 1, in)) {
        wmma_f64();
        mma_f64();
        mma_bits();
        wmma_bits();
        wide();
    } else {
        t_skip("rare_90.ptx", "no nvcc when the tests were built");
    }
    if (in)
        fclose(in);
    free(text);
    tm_free_all();
    return t_end("softgpu rare matrices");
}
