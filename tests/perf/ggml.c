// SPDX-License-Identifier: MIT
/*
 * ggml-bench --dir DIR [--cuda DIR] [--only TEXT] [--quick] [--json FILE] [--loop N] [--cpu-time]
 *
 * Times operations of a language model through ggml's prebuilt CUDA backend (libggml-cuda.so in
 * --dir, its libraries below --cuda) beside ggml's own CPU backend, on the same cores and
 * interleaved in one run, and compares the results. Run under `vgpu run`. The declarations below
 * are the required part of ggml's stable C interface; its headers are not needed. --only runs the
 * rows with TEXT in their names, --loop repeats the device's side N times (for a profiler).
 * --cpu-time: CPU time of the kernels, which requires VGPU_SOFT_PROFILE, beside that of the CPU
 * backend with one thread: figures independent of other programs on the machine. Exit status 1: a
 * failure, or the results of the backends differ.
 */
#define _GNU_SOURCE
#include "cpu_time.h"

#include <dirent.h>
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct tensor *T;
struct init_params {
    size_t mem_size;
    void *mem_buffer;
    bool no_alloc;
};
enum { F32 = 0, F16 = 1, Q4_0 = 2, Q8_0 = 8, Q4_K = 12, Q6_K = 14, I32 = 26 }; /* enum ggml_type */

#define GGML(X) \
    X(void *, ggml_init, (struct init_params)) \
    X(void, ggml_free, (void *)) \
    X(T, ggml_new_tensor_4d, (void *, int, int64_t, int64_t, int64_t, int64_t)) \
    X(T, ggml_mul_mat, (void *, T, T)) \
    X(T, ggml_rms_norm, (void *, T, float)) \
    X(T, ggml_soft_max, (void *, T)) \
    X(T, ggml_add, (void *, T, T)) \
    X(T, ggml_rope, (void *, T, T, int, int)) \
    X(T, ggml_flash_attn_ext, (void *, T, T, T, T, float, float, float)) \
    X(void *, ggml_new_graph, (void *)) \
    X(void, ggml_build_forward_expand, (void *, T)) \
    X(size_t, ggml_nbytes, (T)) \
    X(int64_t, ggml_nelements, (T)) \
    X(size_t, ggml_quantize_chunk, (int, const float *, void *, int64_t, int64_t, int64_t, const float *)) \
    X(void *, ggml_backend_reg_dev_get, (void *, size_t)) \
    X(void *, ggml_backend_reg_get_proc_address, (void *, const char *)) \
    X(void *, ggml_backend_dev_init, (void *, const char *)) \
    X(void *, ggml_backend_alloc_ctx_tensors, (void *, void *)) \
    X(void, ggml_backend_buffer_free, (void *)) \
    X(void, ggml_backend_tensor_set, (T, const void *, size_t, size_t)) \
    X(void, ggml_backend_tensor_get, (T, void *, size_t, size_t)) \
    X(int, ggml_backend_graph_compute, (void *, void *))

#define X(ret, name, args) static ret(*name) args;
GGML(X)
#undef X

static const char *dir, *only, *cuda_home = "/usr/local/cuda";
static bool quick, cpu_time;
static long loops;
static FILE *json;
static const char *separator = "";
static unsigned passed, failed;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what)
{
    fprintf(stderr, "ggml-bench: %s: %s\n", what, dlerror());
    exit(1);
}

static void *load(const char *folder, const char *name)
{
    char path[8192];
    void *lib;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    lib = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!lib)
        die(path);
    return lib;
}

/* Returns the first device of a library's backend. */
static void *backend(void *lib, void **reg)
{
    void *(*init)(void) = (void *(*)(void))dlsym(lib, "ggml_backend_init"), *dev;

    *reg = init ? init() : NULL;
    if (!*reg)
        return NULL;
    dev = ggml_backend_reg_dev_get(*reg, 0);
    return dev ? ggml_backend_dev_init(dev, NULL) : NULL;
}

/* Returns the CPU backend with the best score for this processor. */
static void *cpu_backend(void)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    char best[256] = "";
    int best_score = 0;
    void *lib, *reg, *b;
    void (*threads)(void *, int);

    while (d && (e = readdir(d))) {
        char path[8192];
        int (*score)(void);

        if (strncmp(e->d_name, "libggml-cpu-", 12))
            continue;
        snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        score = lib ? (int (*)(void))dlsym(lib, "ggml_backend_score") : NULL;
        if (score && score() > best_score) {
            best_score = score();
            snprintf(best, sizeof(best), "%s", e->d_name);
        }
        if (lib)
            dlclose(lib);
    }
    if (d)
        closedir(d);
    if (!best[0])
        return NULL;
    printf("ggml-bench: CPU backend %s\n", best);
    lib = load(dir, best);
    b = backend(lib, &reg);
    threads =
        reg ? (void (*)(void *, int))ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads")
            : NULL;
    if (b && threads)
        threads(b, cpu_time ? 1 : (int)sysconf(_SC_NPROCESSORS_ONLN));
    return b;
}

/* ---- a row: the same graph on both sides ---- */

struct side {
    void *ctx, *buffer, *graph, *backend;
    T in[4], out;
    double best;
};

struct row {
    const char *name;
    int kind, type;  /* of the weights */
    int64_t k, m, n; /* multiplication: columns, rows, vectors; else sizes of the operation */
    int chain;       /* consecutive repetitions of the operation in the graph */
};
enum { MUL_MAT, RMS_NORM, SOFT_MAX, ADD, ROPE, ATTENTION };

static const struct row rows[] = {
    {"mmvq Q4_K 4096x4096", MUL_MAT, Q4_K, 4096, 4096, 1, 1},
    {"mmvq Q8_0 4096x4096", MUL_MAT, Q8_0, 4096, 4096, 1, 1},
    {"mmvq Q4_0 4096x4096", MUL_MAT, Q4_0, 4096, 4096, 1, 1},
    {"mmvq Q6_K 4096x4096", MUL_MAT, Q6_K, 4096, 4096, 1, 1},
    {"mmvf F16 4096x4096", MUL_MAT, F16, 4096, 4096, 1, 1},
    {"mmvq Q4_K 256x1024", MUL_MAT, Q4_K, 256, 1024, 1, 1},
    {"mmq Q4_K 2048x2048, 64 columns", MUL_MAT, Q4_K, 2048, 2048, 64, 1},
    {"mmq Q8_0 2048x2048, 64 columns", MUL_MAT, Q8_0, 2048, 2048, 64, 1},
    {"rms_norm 4096", RMS_NORM, F32, 4096, 1, 1, 8},
    {"add 4096", ADD, F32, 4096, 1, 1, 8},
    {"rope 128x32", ROPE, F32, 128, 32, 1, 8},
    {"soft_max 512x32", SOFT_MAX, F32, 512, 32, 1, 8},
    {"attention 64, 8 heads, 256 keys, 1 query", ATTENTION, F16, 64, 256, 1, 1},
    {"attention 64, 8 heads, 256 keys, 64 queries", ATTENTION, F16, 64, 256, 64, 1},
};

static bool build(struct side *s, const struct row *r)
{
    struct init_params p = {1 << 20, NULL, true};
    void *c = s->ctx = ggml_init(p);
    int64_t heads = 8;

    switch (r->kind) {
    case MUL_MAT:
        s->in[0] = ggml_new_tensor_4d(c, r->type, r->k, r->m, 1, 1);
        s->in[1] = ggml_new_tensor_4d(c, F32, r->k, r->n, 1, 1);
        s->out = ggml_mul_mat(c, s->in[0], s->in[1]);
        break;
    case ATTENTION:
        s->in[0] = ggml_new_tensor_4d(c, F32, r->k, r->n, heads, 1);
        s->in[1] = ggml_new_tensor_4d(c, F16, r->k, r->m, heads, 1);
        s->in[2] = ggml_new_tensor_4d(c, F16, r->k, r->m, heads, 1);
        s->in[3] = ggml_new_tensor_4d(c, F16, r->m, (r->n + 63) / 64 * 64, 1, 1);
        s->out = ggml_flash_attn_ext(c, s->in[0], s->in[1], s->in[2], s->in[3], 0.125f, 0, 0);
        break;
    case ROPE:
        s->out = s->in[0] = ggml_new_tensor_4d(c, F32, r->k, r->m, r->n, 1);
        s->in[1] = ggml_new_tensor_4d(c, I32, r->n, 1, 1, 1);
        for (int i = 0; i < r->chain; i++)
            s->out = ggml_rope(c, s->out, s->in[1], (int)r->k, 0);
        break;
    default:
        s->out = s->in[0] = ggml_new_tensor_4d(c, F32, r->k, r->m, r->n, 1);
        for (int i = 0; i < r->chain; i++)
            s->out = r->kind == RMS_NORM   ? ggml_rms_norm(c, s->out, 1e-5f)
                     : r->kind == SOFT_MAX ? ggml_soft_max(c, s->out)
                                           : ggml_add(c, s->out, s->in[0]);
        break;
    }
    s->graph = ggml_new_graph(c);
    ggml_build_forward_expand(s->graph, s->out);
    s->buffer = ggml_backend_alloc_ctx_tensors(c, s->backend);
    s->best = 1e30;
    return s->buffer != NULL;
}

/* Fills both sides with the same pseudo-random numbers in -1..1, in the type of the tensor. */
static void fill(struct side *sides, int which, int type, int64_t rows_of)
{
    int64_t n = ggml_nelements(sides[0].in[which]);
    size_t bytes = ggml_nbytes(sides[0].in[which]);
    float *f = malloc((size_t)n * sizeof(*f));
    void *q = calloc(1, bytes);
    uint64_t x = 88172645463325252ull + (uint64_t)which;

    if (!f || !q)
        abort();
    for (int64_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        f[i] = (float)(int32_t)x / 2147483648.0f;
    }
    if (type == F32)
        memcpy(q, f, bytes);
    else if (type == I32)
        ((int32_t *)q)[0] = 7;
    else
        ggml_quantize_chunk(type, f, q, 0, rows_of, n / rows_of, NULL);
    for (int k = 0; k < 2; k++)
        ggml_backend_tensor_set(sides[k].in[which], q, 0, bytes);
    free(f);
    free(q);
}

/* Normalised mean square difference of the two results. */
static double difference(struct side *s)
{
    int64_t n = ggml_nelements(s[0].out);
    float *a = malloc((size_t)n * sizeof(*a)), *b = malloc((size_t)n * sizeof(*b));
    double d = 0, sum = 0;

    if (!a || !b)
        abort();
    ggml_backend_tensor_get(s[0].out, a, 0, (size_t)n * sizeof(*a));
    ggml_backend_tensor_get(s[1].out, b, 0, (size_t)n * sizeof(*b));
    for (int64_t i = 0; i < n; i++) {
        d += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        sum += (double)b[i] * b[i];
    }
    free(a);
    free(b);
    return d / (sum > 0 ? sum : 1);
}

static double clock_of(int side)
{
    const double t = !cpu_time ? now() : side ? cpu_time_own() : cpu_time_kernels();

    return t < 0 ? 0 : t;
}

/* side: 0 the device, 1 the CPU */
static bool compute(struct side *s, int side)
{
    double t = clock_of(side);

    if (ggml_backend_graph_compute(s->backend, s->graph))
        return false;
    t = clock_of(side) - t;
    s->best = t < s->best ? t : s->best;
    return true;
}

static void report(const struct row *r, struct side *s)
{
    double nmse = difference(s), ratio = s[0].best / s[1].best;
    bool good = nmse < 5e-4;
    double weights = r->kind == MUL_MAT ? (double)r->k * (double)r->m * (double)r->n : 0;

    printf("  %-44s %10.1f %10.1f %8.2f", r->name, s[0].best * 1e6, s[1].best * 1e6, ratio);
    if (weights > 0)
        printf("  %7.3f", weights / s[0].best * 1e-9);
    printf("%s\n", good ? "" : "  WRONG");
    if (!good)
        printf("    the results differ: normalised mean square error %g\n", nmse);
    if (json)
        fprintf(json, "%s\n  \"ggml %s\": {\"ours_us\": %.6g, \"cpu_us\": %.6g, \"ratio\": %.4g}", separator,
                r->name, s[0].best * 1e6, s[1].best * 1e6, ratio);
    separator = ",";
    *(good ? &passed : &failed) += 1;
}

static void run_row(const struct row *r, void *device, void *cpu)
{
    struct side s[2] = {{.backend = device}, {.backend = cpu}};
    int rounds = quick ? 2 : 10;

    if (only && !strstr(r->name, only))
        return;
    for (int k = 0; k < 2; k++)
        if (!build(&s[k], r)) {
            printf("  %s: no memory\n", r->name);
            failed++;
            return;
        }
    for (int i = 0; i < 4 && s[0].in[i]; i++) {
        int type = r->kind == MUL_MAT     ? (i ? F32 : r->type)
                   : r->kind == ATTENTION ? (i ? F16 : F32)
                   : r->kind == ROPE && i ? I32
                                          : F32;

        fill(s, i, type, r->kind == MUL_MAT && !i ? r->m : 1);
    }
    for (int i = 0; i < rounds; i++)
        for (int k = 0; k < 2; k++)
            if (!compute(&s[k], k)) {
                printf("  %s: failed on the %s\n", r->name, k ? "CPU" : "device");
                failed++;
                return;
            }
    for (long i = 0; i < loops; i++)
        compute(&s[0], 0);
    report(r, s);
    for (int k = 0; k < 2; k++) {
        ggml_backend_buffer_free(s[k].buffer);
        ggml_free(s[k].ctx);
    }
}

int main(int argc, char **argv)
{
    static const char *const needs[] = {"libcudart.so.13", "libcublasLt.so.13", "libcublas.so.13"};
    const char *json_file = NULL;
    void *base, *reg, *device, *cpu;
    char lib64[4096];

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--quick"))
            quick = true;
        else if (!strcmp(argv[i], "--cpu-time"))
            cpu_time = true;
        else if (i + 1 == argc)
            die("an option lacks its value");
        else if (!strcmp(argv[i], "--dir"))
            dir = argv[++i];
        else if (!strcmp(argv[i], "--cuda"))
            cuda_home = argv[++i];
        else if (!strcmp(argv[i], "--only"))
            only = argv[++i];
        else if (!strcmp(argv[i], "--loop"))
            loops = strtol(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--json"))
            json_file = argv[++i];
        else
            die(argv[i]);
    }
    if (!dir)
        die("--dir is missing");
    if (cpu_time && !getenv("VGPU_SOFT_PROFILE")) {
        fputs("ggml-bench: --cpu-time: VGPU_SOFT_PROFILE is not set\n", stderr);
        return 1;
    }
    base = load(dir, "libggml-base.so");
#define X(ret, name, args) \
    name = (ret(*) args)dlsym(base, #name); \
    if (!name) \
        die(#name);
    GGML(X)
#undef X
    snprintf(lib64, sizeof(lib64), "%s/lib64", cuda_home);
    for (size_t i = 0; i < sizeof(needs) / sizeof(*needs); i++)
        load(lib64, needs[i]);
    device = backend(load(dir, "libggml-cuda.so"), &reg);
    cpu = cpu_backend();
    if (!device || !cpu) {
        printf("ggml-bench: no %s backend\n", device ? "CPU" : "CUDA");
        return 1;
    }
    if (json_file && !(json = fopen(json_file, "w")))
        die(json_file);
    if (json)
        fputs("{", json);
    printf("ggml, microseconds%s: CUDA backend, CPU backend, ratio; CUDA: Gweight/s\n",
           cpu_time ? " of CPU time, one thread" : "");
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        run_row(&rows[i], device, cpu);
    if (json) {
        fputs("\n}\n", json);
        fclose(json);
    }
    printf("ggml-bench: %u passed, %u failed\n", passed, failed);
    fflush(stdout);
    return failed != 0;
}
