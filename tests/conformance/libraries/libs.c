/* SPDX-License-Identifier: MIT */
#include "libs.h"

#include <stdarg.h>

static const char *running = "";

void libs_end(const char *result, const char *fmt, ...)
{
    va_list a;

    printf("%s\t%s\t%s\t", libs_name, running, result);
    va_start(a, fmt);
    vprintf(fmt, a);
    va_end(a);
    printf("\n");
    fflush(stdout);
    _Exit(strcmp(result, "right") ? strcmp(result, "refused") ? 1 : 3 : 0);
}

void libs_judge(double worst, double tolerated)
{
    cudaError_t e = cudaDeviceSynchronize();

    if (e != cudaSuccess)
        libs_end("refused", "%s", cudaGetErrorString(e));
    libs_end(worst <= tolerated ? "right" : "wrong", "largest error %.2g, tolerated %.2g", worst, tolerated);
}

void *libs_device(const void *from, size_t n)
{
    void *p = NULL;

    CALL(cudaMalloc(&p, n));
    if (from)
        CALL(cudaMemcpy(p, from, n, cudaMemcpyHostToDevice));
    else
        CALL(cudaMemset(p, 0, n));
    return p;
}

void libs_read(void *to, const void *from, size_t n)
{
    cudaError_t e = cudaMemcpy(to, from, n, cudaMemcpyDeviceToHost);

    if (e != cudaSuccess)
        libs_end("refused", "%s", cudaGetErrorString(e));
}

double libs_random(void)
{
    static uint32_t x = 12345;

    x = x * 1664525u + 1013904223u;
    return (double)(x >> 8) / (1 << 23) - 1.0;
}

int main(int argc, char **argv)
{
    for (const struct libs_case *c = libs_cases; c->name; c++) {
        if (argc > 1 && !strcmp(argv[1], "--list"))
            printf("%s\n", c->name);
        else if (argc > 1 && !strcmp(argv[1], c->name)) {
            running = c->name;
            c->run();
        }
    }
    return argc > 1 && !strcmp(argv[1], "--list") ? 0 : 2;
}
