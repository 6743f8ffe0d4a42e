/* SPDX-License-Identifier: MIT */
/*
 * library LIBCUDART nvrtc LIBNVRTC PTX_FILE: NVRTC compiles the kernel of client.c for compute
 * capability 8.0, writes its PTX to the file, loads it through the driver API and launches it; the
 * same with machine code for 8.0. library LIBCUDART cublas LIBCUBLAS: a matrix product in single
 * precision, compared with the processor's. Lines and status as for client.c.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char source[] = "__device__ unsigned step = 1;\n"
                             "extern \"C\" __global__ void advance(unsigned *out, unsigned n)\n"
                             "{\n"
                             "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                             "    if (i < n)\n"
                             "        out[i] += step;\n"
                             "}\n";

static void *runtime, *library, *driver;
static const char *part;

static void *fn(void *from, const char *name)
{
    void *p = dlsym(from, name);

    if (p == NULL) {
        printf("FAIL %s: %s: it is not exported\n", part, name);
        exit(1);
    }
    return p;
}

#define CALL(from, name, ...) (((int (*)())fn(from, name))(__VA_ARGS__))

/* Reports a step; ends the program at the first failure, as later steps depend on it. */
static void step(const char *name, int error)
{
    if (error != 0) {
        printf("FAIL %s: %s: %d\n", part, name, error);
        exit(1);
    }
    printf("ok %s: %s\n", part, name);
}

static void *open_library(const char *path)
{
    void *p = dlopen(path, RTLD_NOW | RTLD_GLOBAL);

    if (p == NULL) {
        printf("FAIL %s: dlopen: %s\n", part, dlerror());
        exit(1);
    }
    return p;
}

/*
 * Compiles the kernel: `step` is a global variable and the kernel is extern "C", so client.c can
 * use both.
 */
static char *compile(const char *architecture, const char *size_of, const char *text_of)
{
    void *program;
    size_t size;
    char *image;

    step("nvrtcCreateProgram",
         CALL(library, "nvrtcCreateProgram", &program, source, "advance.cu", 0, NULL, NULL));
    step("nvrtcCompileProgram", CALL(library, "nvrtcCompileProgram", program, 1, &architecture));
    step(size_of, CALL(library, size_of, program, &size));
    image = calloc(1, size + 1);
    if (image == NULL)
        exit(1);
    step(text_of, CALL(library, text_of, program, image));
    step("nvrtcDestroyProgram", CALL(library, "nvrtcDestroyProgram", &program));
    return image;
}

#define COUNT 1000u

static void launch(const char *image)
{
    uint32_t host[COUNT], n = COUNT, *device, wrong = 0;
    void *args[] = {&device, &n}, *module, *function;

    step("cudaMalloc", CALL(runtime, "cudaMalloc", &device, sizeof(host)));
    step("cudaMemset", CALL(runtime, "cudaMemset", device, 0, sizeof(host)));
    step("cuModuleLoadData", CALL(driver, "cuModuleLoadData", &module, image));
    step("cuModuleGetFunction", CALL(driver, "cuModuleGetFunction", &function, module, "advance"));
    step("cuLaunchKernel",
         CALL(driver, "cuLaunchKernel", function, 4u, 1u, 1u, 256u, 1u, 1u, 0u, NULL, args, NULL));
    step("cudaMemcpy", CALL(runtime, "cudaMemcpy", host, device, sizeof(host), 2));
    for (unsigned i = 0; i < COUNT; i++)
        wrong += host[i] != 1;
    step("result", wrong != 0);
    step("cuModuleUnload", CALL(driver, "cuModuleUnload", module));
    step("cudaFree", CALL(runtime, "cudaFree", device));
}

static void nvrtc(const char *path)
{
    int major = 0, minor = 0;
    char *image;
    FILE *f;

    step("nvrtcVersion", CALL(library, "nvrtcVersion", &major, &minor));
    printf("nvrtc %d.%d\n", major, minor);
    image = compile("--gpu-architecture=compute_80", "nvrtcGetPTXSize", "nvrtcGetPTX");
    f = fopen(path, "w");
    step("PTX file", f == NULL || fputs(image, f) < 0 || fclose(f) != 0);
    driver = open_library("libcuda.so.1");
    launch(image);
    free(image);
    /* The software GPU runs no machine code: `vgpu run` makes NVRTC output PTX. */
    part = "nvrtc: machine code";
    image = compile("--gpu-architecture=sm_80", "nvrtcGetCUBINSize", "nvrtcGetCUBIN");
    launch(image);
    free(image);
}

#define M 96
#define N 80
#define K 64

static float a[M * K], b[K * N], c[M * N];

static void cublas(void)
{
    float one = 1, zero = 0, *da, *db, *dc;
    void *handle;
    int version = 0, (*gemm)(void *, int, int, int, int, int, const float *, const float *, int,
                             const float *, int, const float *, float *, int);
    double worst = 0;

    for (int i = 0; i < M * K; i++)
        a[i] = (float)((i * 7 + 3) % 13 - 6) / 4;
    for (int i = 0; i < K * N; i++)
        b[i] = (float)((i * 5 + 1) % 11 - 5) / 4;
    step("cudaMalloc", CALL(runtime, "cudaMalloc", &da, sizeof(a)) |
                           CALL(runtime, "cudaMalloc", &db, sizeof(b)) |
                           CALL(runtime, "cudaMalloc", &dc, sizeof(c)));
    step("cudaMemcpy",
         CALL(runtime, "cudaMemcpy", da, a, sizeof(a), 1) | CALL(runtime, "cudaMemcpy", db, b, sizeof(b), 1));
    step("cublasCreate", CALL(library, "cublasCreate_v2", &handle));
    step("cublasGetVersion", CALL(library, "cublasGetVersion_v2", handle, &version));
    printf("cublas %d\n", version);
    *(void **)&gemm = fn(library, "cublasSgemm_v2");
    step("cublasSgemm", gemm(handle, 0, 0, M, N, K, &one, da, M, db, K, &zero, dc, M));
    step("cudaDeviceSynchronize", CALL(runtime, "cudaDeviceSynchronize"));
    step("cudaMemcpy", CALL(runtime, "cudaMemcpy", c, dc, sizeof(c), 2));
    for (int j = 0; j < N; j++) {
        for (int i = 0; i < M; i++) {
            double sum = 0;

            for (int k = 0; k < K; k++)
                sum += (double)a[k * M + i] * b[j * K + k];
            worst = fmax(worst, fabs(sum - c[j * M + i]));
        }
    }
    step("result", !(worst < 1e-3));
    step("cublasDestroy", CALL(library, "cublasDestroy_v2", handle));
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 4 || (strcmp(argv[2], "nvrtc") == 0) != (argc == 5))
        return 2;
    part = argv[2];
    runtime = open_library(argv[1]);
    library = open_library(argv[3]);
    if (argc == 5)
        nvrtc(argv[4]);
    else
        cublas();
    printf("all steps passed\n");
    return 0;
}
