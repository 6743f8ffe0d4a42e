/* SPDX-License-Identifier: MIT */
/* Matrix instructions that are rare, as nvcc emits them, against plain loops. */
#include "sg_exec_test.h"

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
    struct { uint32_t *a, *b; int32_t *d; } p = {tm_alloc(512), tm_alloc(256), tm_alloc(1536)};
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

int main(int argc, char **argv)
{
    const char *dir = argc ? strrchr(argv[0], '/') : NULL;
    char path[4096];
    FILE *in;

    snprintf(path, sizeof(path), "%.*srare_90.ptx", dir ? (int)(dir - argv[0] + 1) : 0,
             dir ? argv[0] : "");
    in = fopen(argc > 1 ? argv[1] : path, "rb");
    text = calloc(1, TEXT_MAX);
    if (in && text && fread(text, 1, TEXT_MAX - 1, in)) {
        wmma_f64();
        mma_f64();
        mma_bits();
    } else {
        t_skip("rare_90.ptx", "no nvcc when the tests were built");
    }
    if (in)
        fclose(in);
    free(text);
    tm_free_all();
    return t_end("softgpu rare matrices");
}
