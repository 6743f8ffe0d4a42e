/* SPDX-License-Identifier: MIT */
/*
 * Real kernels: nvcc_test [FILE.ptx...] runs the kernels of tests-ptx/basic.cu and matrix.cu, compiled
 * by nvcc, and compares their results with the CPU's. Default: basic_75.ptx ... beside the program.
 */
#include "exec/exec_test.h"

#include "base/half.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX (8 << 20)

static char *text;
static const char *label;

static void check(const char *name, bool ok, int r, const struct sg_fault *f, double err)
{
    char full[256];

    snprintf(full, sizeof(full), "%s: %s", label, name);
    t_result(full, ok && !r, "result %d %s, error %g", r, f->message, err);
}

#define OPEN(name) \
    struct tk t; \
    struct sg_fault f = {0}; \
    int r; \
    double err = 0; \
    if (!tk_open(&t, text, name)) { \
        check(name, false, -1, &f, 0); \
        sg_module_free(t.m); \
        return; \
    }
#define CLOSE(name) \
    check(name, err <= 0, r, &f, err); \
    tk_close(&t); \
    tm_free_all()

static void vector_add(void)
{
    const int n = 5000;
    float *a = tm_alloc(n * 4), *b = tm_alloc(n * 4), *c = tm_alloc(n * 4);
    struct {
        void *a, *b, *c;
        int n;
    } p = {a, b, c, n};
    OPEN("vectorAdd")

    for (int i = 0; i < n; i++) {
        a[i] = (float)i * 0.25f;
        b[i] = (float)(n - i) * 1.5f;
    }
    r = tk_run(&t, 20, 256, &p, &f);
    for (int i = 0; i < n; i++)
        err += c[i] != a[i] + b[i];
    CLOSE("vectorAdd");
}

static void matmul(void)
{
    const int n = 96;
    float *a = tm_alloc(n * n * 4), *b = tm_alloc(n * n * 4), *c = tm_alloc(n * n * 4);
    struct {
        void *a, *b, *c;
        int n;
    } p = {a, b, c, n};
    OPEN("matmul")

    for (int i = 0; i < n * n; i++) {
        a[i] = (float)(i % 11 - 5);
        b[i] = (float)(i % 7 - 3);
    }
    r = tk_run3(&t, (uint32_t[3]){6, 6, 1}, (uint32_t[3]){16, 16, 1}, 0, &p, &f);
    for (int y = 0; y < n; y++)
        for (int x = 0; x < n; x++) {
            float s = 0;

            for (int k = 0; k < n; k++)
                s += a[y * n + k] * b[k * n + x];
            err += c[y * n + x] != s;
        }
    CLOSE("matmul");
}

static void reduce(void)
{
    const int n = 100003;
    int *a = tm_alloc((size_t)n * 4), *o = tm_alloc(4), sum = 0;
    struct {
        void *a, *o;
        int n;
    } p = {a, o, n};
    OPEN("reduce")

    for (int i = 0; i < n; i++)
        sum += a[i] = i % 97 - 40;
    r = tk_run(&t, 7, 192, &p, &f);
    err = *o != sum;
    CLOSE("reduce");
}

static void histogram(void)
{
    const int n = 50000;
    unsigned char *a = tm_alloc((size_t)n);
    unsigned *h = tm_alloc(1024), want[256] = {0};
    struct {
        void *a, *h;
        int n;
    } p = {a, h, n};
    OPEN("histogram")

    for (int i = 0; i < n; i++)
        want[a[i] = (unsigned char)((unsigned)i * (unsigned)i >> 5)]++;
    r = tk_run(&t, 5, 128, &p, &f);
    for (int i = 0; i < 256; i++)
        err += h[i] != want[i];
    CLOSE("histogram");
}

#define MANDEL(name, T) \
    static int ref_##name(T cx, T cy) \
    { \
        T x = 0, y = 0; \
        int k = 0; \
        while (k < 200 && x * x + y * y < (T)4) { \
            T u = x * x - y * y + cx; \
            y = (T)2 * x * y + cy; \
            x = u; \
            k++; \
        } \
        return k; \
    }
MANDEL(mandelF, float)
MANDEL(mandelD, double)

/* nvcc contracts to fma, so a few points at the border differ by rounding */
static void mandel(const char *name, bool dbl)
{
    const int w = 75, h = 50;
    int *o = tm_alloc((size_t)w * h * 4), diff = 0;
    struct {
        void *o;
        int w, h;
    } p = {o, w, h};
    OPEN(name)

    r = tk_run3(&t, (uint32_t[3]){5, 7, 1}, (uint32_t[3]){16, 8, 1}, 0, &p, &f);
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            int want =
                dbl ? ref_mandelD(-2.0 + 3.0 * x / w, -1.5 + 3.0 * y / h)
                    : ref_mandelF(-2.0f + 3.0f * (float)x / (float)w, -1.5f + 3.0f * (float)y / (float)h);

            diff += o[y * w + x] != want;
        }
    err = diff > w * h / 50 ? diff : 0;
    CLOSE(name);
}

static void scan(void)
{
    const int n = 10000, blocks = (n + 127) / 128;
    int *a = tm_alloc((size_t)n * 4), *o = tm_alloc((size_t)n * 4), s = 0;
    struct {
        void *a, *o, *sum, *flag;
        int n;
    } p = {a, o, tm_alloc((size_t)blocks * 4), tm_alloc((size_t)blocks * 4), n};
    OPEN("scan")

    for (int i = 0; i < n; i++)
        a[i] = i % 13 - 3;
    r = tk_run(&t, (uint32_t)blocks, 128, &p, &f);
    for (int i = 0; i < n; i++) {
        err += o[i] != s;
        s += a[i];
    }
    CLOSE("scan");
}

struct particle {
    float pos[3];
    double mass;
    short kind;
};

static void structs(void)
{
    static const double kinds[4] = {0.5, 1.25, -3.0, 100.0};
    const int n = 96;
    double *o = tm_alloc((size_t)n * 8);
    struct {
        struct particle b;
        void *o;
        float step;
    } p = {{{1, 2, 3}, 2.5, 0}, o, 0.125f};
    OPEN("structs")

    r = tk_run(&t, 3, 32, &p, &f);
    for (int i = 0; i < n; i++) {
        struct particle q = p.b;
        int local[8];
        double e;

        for (int k = 0; k < 8; k++)
            local[k] = (i * 7 + k * 3) & 7;
        q.pos[local[i & 7] % 3] += p.step * (float)i;
        e = 0.5 * q.mass * (double)(q.pos[0] * q.pos[0] + q.pos[1] * q.pos[1] + q.pos[2] * q.pos[2]) +
            kinds[i & 3];
        if (fabs(o[i] - (e + local[local[3]])) > 1e-5 * fabs(o[i]))
            err++;
    }
    CLOSE("structs");
}

static void maths(void)
{
    const int n = 300;
    float *a = tm_alloc((size_t)n * 4), *o = tm_alloc((size_t)n * 4);
    double *d = tm_alloc((size_t)n * 8);
    struct {
        void *a, *o, *d;
        int n;
    } p = {a, o, d, n};
    OPEN("maths")

    for (int i = 0; i < n; i++)
        a[i] = (float)i * 0.017f;
    r = tk_run(&t, 3, 128, &p, &f);
    for (int i = 0; i < n; i++) {
        float x = a[i];
        double y = (double)x;
        double w = sin(y) + exp(-y) * log(y + 1.5) + pow(y + 1.0, 1.7) + tanh(y) + atan2(y, 2.0) +
                   (double)fmodf(x * 10.0f, 0.7f) + erf(y) + sin((double)(x * 100000.0f));
        double v = sin(y) + exp(-y) + log((double)x + 1.5) + pow((double)x + 1.0, 1.7) + tanh(y) +
                   cbrt(y + 2.0) + rint((double)x * 1000.0) + cos((double)x * 1e9);

        err += fabs((double)o[i] - w) > 1e-5 * (fabs(w) + 1);
        err += fabs(d[i] - v) > 1e-12 * (fabs(v) + 1);
    }
    CLOSE("maths");
}

static void printing(void)
{
    struct {
        int n;
    } p = {42};
    OPEN("_Z8printingi")

    t_output_len = 0;
    r = tk_run(&t, 1, 32, &p, &f);
    err = strcmp(t_output, "block 0 thread 3 n=42 2.500 text\n") != 0;
    check("printf", err <= 0, r, &f, err);
    t_output_len = 0;
    p.n = 1000;
    r = tk_run(&t, 1, 32, &p, &f);
    check("assert", r == 710 && strstr(t_output, "Assertion `n < 1000` failed."), 0, &f, r);
    tk_close(&t);
    tm_free_all();
}

static void gridsync(void)
{
    const unsigned n = 23, rounds = 9;
    unsigned *v = tm_alloc(n * 8), now[23], next[23];
    struct {
        void *v;
        int rounds;
    } p = {v, (int)rounds};
    OPEN("gridsync")

    for (unsigned i = 0; i < n; i++)
        v[i] = now[i] = i * i + 1;
    t_cooperative = true;
    r = tk_run(&t, n, 64, &p, &f);
    t_cooperative = false;
    for (unsigned k = 0; k < rounds; k++) {
        for (unsigned i = 0; i < n; i++)
            next[i] = now[i] + now[(i + 1) % n];
        memcpy(now, next, sizeof(now));
    }
    for (unsigned i = 0; i < n; i++)
        err += v[(rounds & 1) * n + i] != now[i];
    CLOSE("gridsync");
}

static void virtuals(void)
{
    int *o = tm_alloc(64 * 4);
    struct {
        void *o;
    } p = {o};
    OPEN("virtuals")

    r = tk_run(&t, 1, 64, &p, &f);
    for (int i = 0; i < 64; i++)
        err += o[i] != (i & 1 ? i * i : i + 100);
    CLOSE("virtuals");
}

static void pingpong(void)
{
    int *o = tm_alloc(32 * 4);
    struct {
        void *o;
        int rounds;
    } p = {o, 10};
    OPEN("pingpong")

    r = tk_run(&t, 1, 64, &p, &f);
    for (int i = 0; i < 32; i++)
        err += o[i] != (31 - i) * 45;
    CLOSE("pingpong");
}

/* ---- matrix instructions: small whole numbers, so every result is exact ---- */

static uint16_t half(int v)
{
    return sg_f32_to_f16((float)v, 0);
}

static int num(int i, int j)
{
    return (i * 7 + j * 5 + i * j) % 9 - 4;
}

/* kind 0: f32 c and d, b by columns; 1: f16 c and d, b by rows */
static void mma_f16(const char *name, int kind)
{
    uint16_t *a = tm_alloc(512), *b = tm_alloc(256);
    void *c = tm_alloc(512), *d = tm_alloc(512);
    struct {
        void *a, *b, *c, *d;
    } p = {a, b, c, d};
    OPEN(name)

    for (int i = 0; i < 16; i++) {
        for (int k = 0; k < 16; k++)
            a[i * 16 + k] = half(num(i, k));
        for (int j = 0; j < 8; j++) {
            b[kind ? i * 8 + j : j * 16 + i] = half(num(i + 3, j));
            if (kind)
                ((uint16_t *)c)[i * 8 + j] = half(i - j);
            else
                ((float *)c)[i * 8 + j] = (float)(i - j);
        }
    }
    r = tk_run(&t, 1, 32, &p, &f);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++) {
            int want = i - j;

            for (int k = 0; k < 16; k++)
                want += num(i, k) * num(k + 3, j);
            err += kind ? ((uint16_t *)d)[i * 8 + j] != half(want) : ((float *)d)[i * 8 + j] != (float)want;
        }
    CLOSE(name);
}

static void mma_s8(void)
{
    signed char *a = tm_alloc(512), *b = tm_alloc(256);
    int *d = tm_alloc(512);
    struct {
        void *a, *b, *d;
    } p = {a, b, d};
    OPEN("mma_s8")

    for (int i = 0; i < 512; i++)
        a[i] = (signed char)(i * 37);
    for (int i = 0; i < 256; i++)
        b[i] = (signed char)(i * 91 + 5);
    r = tk_run(&t, 1, 32, &p, &f);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++) {
            int want = 0;

            for (int k = 0; k < 32; k++)
                want += a[i * 32 + k] * b[j * 32 + k];
            err += d[i * 8 + j] != want;
        }
    CLOSE("mma_s8");
}

static void mma_tf32(void)
{
    float *a = tm_alloc(512), *b = tm_alloc(256), *d = tm_alloc(512);
    struct {
        void *a, *b, *d;
    } p = {a, b, d};
    OPEN("mma_tf32")

    for (int i = 0; i < 128; i++)
        a[i] = (float)num(i / 8, i % 8);
    for (int i = 0; i < 64; i++)
        b[i] = (float)num(i % 8 + 1, i / 8);
    r = tk_run(&t, 1, 32, &p, &f);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++) {
            float want = 0;

            for (int k = 0; k < 8; k++)
                want += a[i * 8 + k] * b[j * 8 + k];
            err += d[i * 8 + j] != want;
        }
    CLOSE("mma_tf32");
}

/* kind 0: f32, b by columns, result doubled; 1: f16 from shared memory, b by rows, d by columns */
static void wmma(const char *name, int kind)
{
    uint16_t *a = tm_alloc(512), *b = tm_alloc(512);
    float *c = tm_alloc(1024);
    void *d = tm_alloc(1024);
    struct {
        void *a, *b, *c, *d;
    } p = {a, b, kind ? d : c, d};
    OPEN(name)

    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) {
            a[i * 16 + j] = half(num(i, j));
            b[kind ? i * 16 + j : j * 16 + i] = half(num(i + 1, j));
            c[i * 16 + j] = (float)(i - j);
        }
    r = tk_run(&t, 1, 32, &p, &f);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) {
            int want = kind ? 1 : i - j;

            for (int k = 0; k < 16; k++)
                want += num(i, k) * num(k + 1, j);
            err += kind ? ((uint16_t *)d)[j * 16 + i] != half(want)
                        : ((float *)d)[i * 16 + j] != (float)(2 * want);
        }
    CLOSE(name);
}

static void matrices(void)
{
    mma_f16("mma_f16", 0);
    mma_f16("mma_f16_trans", 1);
    mma_s8();
    mma_tf32();
    wmma("wmma_f16", 0);
    wmma("wmma_f16_shared", 1);
}

static void one_file(const char *path)
{
    FILE *in = fopen(path, "rb");
    size_t n = 0;

    text = calloc(1, TEXT_MAX);
    if (in && text)
        n = fread(text, 1, TEXT_MAX - 1, in);
    if (in)
        fclose(in);
    label = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    if (!n) {
        t_skip(label, "no such file: nvcc was not there when the tests were built");
        free(text);
        return;
    }
    if (strstr(label, "matrix")) {
        matrices();
    } else {
        vector_add();
        matmul();
        reduce();
        histogram();
        mandel("mandelF", false);
        mandel("mandelD", true);
        scan();
        structs();
        maths();
        gridsync();
        virtuals();
        pingpong();
        printing();
    }
    free(text);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"basic_75.ptx", "basic_80.ptx", "basic_90.ptx", "matrix_80.ptx"};
    const char *dir = argc ? strrchr(argv[0], '/') : NULL;
    char path[4096];

    for (int i = 1; i < argc; i++)
        one_file(argv[i]);
    for (int i = 0; i < 4 && argc < 2; i++) {
        snprintf(path, sizeof(path), "%.*s%s", dir ? (int)(dir - argv[0] + 1) : 0, dir ? argv[0] : "",
                 names[i]);
        one_file(path);
    }
    return t_end("softgpu nvcc kernels");
}
