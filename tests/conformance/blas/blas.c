/* SPDX-License-Identifier: MIT */
/*
 * blas [--table | --list] [CASE...]: cuBLAS and cuBLASLt compared with the CPU. Each case runs in a
 * separate process, since an error of the device is sticky for the process. Prints a line per case
 * and at the end "blas: N passed, M failed, 0 skipped"; a call refused by cuBLAS is a failure,
 * except in cases marked as known to be refused. With --table each line is "CASE
 * right|wrong|refused DETAIL", separated by tabs, and the exit status is 0.
 */
#include "blas.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CASE_SECONDS 300

cublasHandle_t blas;
int calls, wrong;
double worst;
char refused[400];

static uint64_t rng = 88172645463325252ull;

size_t type_size(cudaDataType_t type)
{
    switch (type) {
    case CUDA_R_64F:
        return 8;
    case CUDA_R_32F:
    case CUDA_R_32I:
        return 4;
    case CUDA_R_8I:
        return 1;
    default:
        return 2;
    }
}

double type_epsilon(cudaDataType_t type)
{
    switch (type) {
    case CUDA_R_64F:
        return 0x1p-53;
    case CUDA_R_32F:
        return 0x1p-24;
    case CUDA_R_16F:
        return 0x1p-11;
    case CUDA_R_16BF:
        return 0x1p-8;
    default:
        return 0;
    }
}

/* f16 has 5 bits of exponent and 10 of fraction, bf16 8 and 7; values here are exact in both. */
static uint16_t to_half(double x, int fraction, int bias)
{
    int e;
    const double m = frexp(fabs(x), &e); /* 0.5 <= m < 1 */
    const uint16_t sign = signbit(x) ? 0x8000 : 0;

    if (x == 0)
        return sign;
    return (uint16_t)(sign | (e - 1 + bias) << fraction | (int)ldexp(2 * m - 1, fraction));
}

static double from_half(uint16_t v, int fraction, int bias)
{
    const int top = (0x8000 >> fraction) - 1, e = v >> fraction & top, f = v & ((1 << fraction) - 1);
    double x;

    if (e == top)
        x = f ? NAN : INFINITY;
    else
        x = e ? ldexp(1 + ldexp(f, -fraction), e - bias) : ldexp(f, 1 - bias - fraction);
    return v & 0x8000 ? -x : x;
}

static void put(cudaDataType_t type, void *p, double x)
{
    const float f = (float)x;
    const int32_t i = (int32_t)x;
    const int8_t b = (int8_t)x;
    uint16_t h;

    switch (type) {
    case CUDA_R_64F:
        memcpy(p, &x, 8);
        return;
    case CUDA_R_32F:
        memcpy(p, &f, 4);
        return;
    case CUDA_R_32I:
        memcpy(p, &i, 4);
        return;
    case CUDA_R_8I:
        memcpy(p, &b, 1);
        return;
    default:
        break;
    }
    h = type == CUDA_R_16F ? to_half(x, 10, 15) : to_half(x, 7, 127);
    memcpy(p, &h, 2);
}

static double get(cudaDataType_t type, const void *p)
{
    double x;
    float f;
    int32_t i;
    uint16_t h;

    switch (type) {
    case CUDA_R_64F:
        memcpy(&x, p, 8);
        return x;
    case CUDA_R_32F:
        memcpy(&f, p, 4);
        return (double)f;
    case CUDA_R_32I:
        memcpy(&i, p, 4);
        return i;
    case CUDA_R_8I:
        return *(const int8_t *)p;
    default:
        break;
    }
    memcpy(&h, p, 2);
    return type == CUDA_R_16F ? from_half(h, 10, 15) : from_half(h, 7, 127);
}

static void end_case(void)
{
    exit(refused[0] ? 2 : wrong ? 1 : 0);
}

bool good(cublasStatus_t status, const char *what)
{
    const cudaError_t e = status ? cudaSuccess : cudaDeviceSynchronize();

    if (!status && !e)
        return true;
    snprintf(refused, sizeof(refused), "%s: %s", what,
             status ? cublasGetStatusString(status) : cudaGetErrorString(e));
    end_case();
    return false;
}

static void cuda(cudaError_t e, const char *what)
{
    if (e) {
        snprintf(refused, sizeof(refused), "%s: %s", what, cudaGetErrorString(e));
        end_case();
    }
}

struct array array_new(cudaDataType_t type, size_t n)
{
    struct array a = {.type = type, .n = n, .h = malloc(n * sizeof(double))};

    if (!a.h)
        abort();
    for (size_t i = 0; i < n; i++) {
        rng ^= rng << 13;
        rng ^= rng >> 7;
        rng ^= rng << 17;
        if (type == CUDA_R_64F)
            a.h[i] = ((double)(rng >> 11) - 0x1p52) / 0x1p52;
        else if (type == CUDA_R_32F)
            a.h[i] = ((double)(rng >> 40) - 0x1p23) / 0x1p23;
        else if (type_epsilon(type) > 0)
            a.h[i] = ((double)(rng >> 57) - 64) / 64;
        else
            a.h[i] = (double)(rng >> 60) - 8;
    }
    cuda(cudaMalloc(&a.d, n * type_size(type)), "cudaMalloc");
    array_upload(&a);
    return a;
}

void array_free(struct array *a)
{
    free(a->h);
    cudaFree(a->d);
}

void array_upload(const struct array *a)
{
    uint8_t *raw = malloc(a->n * type_size(a->type));

    if (!raw)
        abort();
    for (size_t i = 0; i < a->n; i++)
        put(a->type, raw + i * type_size(a->type), a->h[i]);
    cuda(cudaMemcpy(a->d, raw, a->n * type_size(a->type), cudaMemcpyHostToDevice), "cudaMemcpy");
    free(raw);
}

void array_download(const struct array *a, double *out)
{
    uint8_t *raw = malloc(a->n * type_size(a->type));

    if (!raw)
        abort();
    cuda(cudaMemcpy(raw, a->d, a->n * type_size(a->type), cudaMemcpyDeviceToHost), "cudaMemcpy");
    for (size_t i = 0; i < a->n; i++)
        out[i] = get(a->type, raw + i * type_size(a->type));
    free(raw);
}

void compare(double got, double want, double tolerated)
{
    const double share = fabs(got - want) / (tolerated > 0 ? tolerated : 0x1p-149);

    if (!(share <= worst)) /* also true for a NaN */
        worst = isnan(share) ? INFINITY : share;
}

void finished(void)
{
    calls++;
    if (!(worst <= 1))
        wrong++;
}

static int child(const struct blas_case *c, int out)
{
    dup2(out, STDOUT_FILENO); /* standard output is for the table only */
    alarm(CASE_SECONDS);
    if (good(cublasCreate(&blas), "cublasCreate"))
        c->run();
    return refused[0] ? 2 : wrong ? 1 : 0;
}

static int pipe_end = -1;

static void tell(void)
{
    char line[600];
    int n = snprintf(line, sizeof(line), "%s%s%d calls, largest error %.2g of what is tolerated", refused,
                     refused[0] ? " after " : "", calls, worst);

    if (write(pipe_end, line, (size_t)n) < 0)
        _exit(3);
}

/* Runs a case. 0 right, 1 wrong, 2 refused, 3 any other end. */
static int one(const struct blas_case *c, char *detail, size_t cap)
{
    int p[2], status;
    ssize_t n;
    pid_t pid;

    if (pipe(p))
        return 3;
    fflush(stdout);
    pid = fork();
    if (!pid) {
        close(p[0]);
        pipe_end = p[1];
        atexit(tell);
        exit(child(c, STDERR_FILENO));
    }
    close(p[1]);
    n = read(p[0], detail, cap - 1);
    detail[n > 0 ? n : 0] = '\0';
    close(p[0]);
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return 3;
    if (WIFSIGNALED(status)) {
        snprintf(detail, cap, "ended by signal %d", WTERMSIG(status));
        return 3;
    }
    return WEXITSTATUS(status) < 3 ? WEXITSTATUS(status) : 3;
}

static bool chosen(const char *name, int argc, char **argv, int first)
{
    for (int i = first; i < argc; i++)
        if (!strcmp(argv[i], name))
            return true;
    return first >= argc;
}

int main(int argc, char **argv)
{
    static const struct blas_case *const lists[] = {gemm_cases, vector_cases, lt_cases};
    static const char *const words[] = {"right", "wrong", "refused", "died"};
    const bool table = argc > 1 && !strcmp(argv[1], "--table");
    const bool list = argc > 1 && !strcmp(argv[1], "--list");
    int passed = 0, failed = 0;

    for (size_t l = 0; l < sizeof(lists) / sizeof(lists[0]); l++)
        for (const struct blas_case *c = lists[l]; c->name; c++) {
            char detail[600];
            bool bad;
            int r;

            if (!chosen(c->name, argc, argv, table || list ? 2 : 1))
                continue;
            if (list) {
                puts(c->name);
                continue;
            }
            r = one(c, detail, sizeof(detail));
            bad = r && !(r == 2 && c->known_refused);
            if (table)
                printf("%s\t%s\t%s\n", c->name, words[r], detail);
            else
                printf("%s %s: %s%s: %s\n", bad ? "FAIL:" : "ok", c->name, words[r],
                       r && !bad ? ", as is known" : "", detail);
            fflush(stdout);
            *(bad ? &failed : &passed) += 1;
        }
    if (table || list)
        return 0;
    printf("blas: %d passed, %d failed, 0 skipped\n", passed, failed);
    return failed ? 1 : 0;
}
