/* SPDX-License-Identifier: MIT */
/*
 * nvJitLink: a kernel in one input and its callee in another, linked for compute capability 8.0 and
 * launched. On the software GPU `vgpu run` makes it output PTX. The inputs come from NVRTC.
 */
#include "libs.h"

#include <nvJitLink.h>
#include <nvrtc.h>

const char libs_name[] = "nvJitLink";

enum { N = 256 };

static const char kernel_text[] =
    "extern __device__ int f(int);\n"
    "extern \"C\" __global__ void k(int *p) { p[threadIdx.x] = f(threadIdx.x); }\n";
static const char function_text[] = "__device__ int f(int x) { return x * 3 + 1; }\n";

static void add_text(nvJitLinkHandle link, const char *text, nvJitLinkInputType type,
                     nvJitLinkInputType called)
{
    const char *options[] = {"--gpu-architecture=compute_80", "-rdc=true", "-dlto"};
    const bool lto = type == NVJITLINK_INPUT_LTOIR;
    nvrtcProgram program;
    size_t size;
    char *data;

    CALL(nvrtcCreateProgram(&program, text, "text.cu", 0, NULL, NULL));
    CALL(nvrtcCompileProgram(program, lto ? 3 : 2, options));
    CALL(lto ? nvrtcGetLTOIRSize(program, &size) : nvrtcGetPTXSize(program, &size));
    data = malloc(size);
    CALL(lto ? nvrtcGetLTOIR(program, data) : nvrtcGetPTX(program, data));
    CALL(nvrtcDestroyProgram(&program));
    CALL(nvJitLinkAddData(link, called, data, size, "text.cu"));
    free(data);
}

static void launch(nvJitLinkHandle link)
{
    int got[N], *p = libs_device(NULL, sizeof(got));
    void *arguments[] = {&p};
    cudaLibrary_t library;
    cudaKernel_t kernel;
    double worst = 0;
    size_t size;
    char *cubin;

    CALL(nvJitLinkComplete(link));
    CALL(nvJitLinkGetLinkedCubinSize(link, &size));
    cubin = malloc(size);
    CALL(nvJitLinkGetLinkedCubin(link, cubin));
    CALL(nvJitLinkDestroy(&link));
    CALL(cudaLibraryLoadData(&library, cubin, NULL, NULL, 0, NULL, NULL, 0));
    free(cubin);
    CALL(cudaLibraryGetKernel(&kernel, library, "k"));
    CALL(cudaLaunchKernel(kernel, (dim3){1, 1, 1}, (dim3){N, 1, 1}, arguments, 0, NULL));
    libs_read(got, p, sizeof(got));
    for (int i = 0; i < N; i++)
        worst = fmax(worst, fabs(got[i] - (i * 3.0 + 1)));
    libs_judge(worst, 0);
}

static void both(nvJitLinkInputType kernel, nvJitLinkInputType function, bool any)
{
    const char *options[] = {"-arch=sm_80", "-lto"};
    nvJitLinkHandle link;

    CALL(nvJitLinkCreate(&link, kernel == NVJITLINK_INPUT_LTOIR || function == NVJITLINK_INPUT_LTOIR ? 2 : 1,
                         options));
    add_text(link, kernel_text, kernel, any ? NVJITLINK_INPUT_ANY : kernel);
    add_text(link, function_text, function, any ? NVJITLINK_INPUT_ANY : function);
    launch(link);
}

static void ptx(void)
{
    both(NVJITLINK_INPUT_PTX, NVJITLINK_INPUT_PTX, false);
}

static void ltoir(void)
{
    both(NVJITLINK_INPUT_LTOIR, NVJITLINK_INPUT_LTOIR, false);
}

static void ltoir_any(void)
{
    both(NVJITLINK_INPUT_LTOIR, NVJITLINK_INPUT_LTOIR, true);
}

static void ltoir_calls_ptx(void)
{
    both(NVJITLINK_INPUT_LTOIR, NVJITLINK_INPUT_PTX, false);
}

static void ptx_calls_ltoir(void)
{
    both(NVJITLINK_INPUT_PTX, NVJITLINK_INPUT_LTOIR, false);
}

/* Errors are reported by the same calls as by NVIDIA's nvJitLink. */
static void errors(void)
{
    static const char wrong[] =
        ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { bogus.u32 %r1; ret; }\n";
    const char *option = "-arch=sm_80";
    nvJitLinkHandle link;
    char log[8192];
    size_t size;

    CALL(nvJitLinkCreate(&link, 1, &option));
    if (nvJitLinkAddData(link, NVJITLINK_INPUT_PTX, wrong, sizeof(wrong), "wrong") !=
        NVJITLINK_ERROR_PTX_COMPILE)
        libs_end("wrong", "an instruction that does not exist is taken");
    CALL(nvJitLinkGetErrorLogSize(link, &size) || size > sizeof(log));
    CALL(nvJitLinkGetErrorLog(link, log));
    if (!strstr(log, "bogus"))
        libs_end("wrong", "log: %s", log);
    CALL(nvJitLinkDestroy(&link));
    CALL(nvJitLinkCreate(&link, 1, &option));
    add_text(link, kernel_text, NVJITLINK_INPUT_PTX, NVJITLINK_INPUT_PTX);
    if (nvJitLinkComplete(link) == NVJITLINK_SUCCESS)
        libs_end("wrong", "a function that is missing is not missed");
    CALL(nvJitLinkDestroy(&link));
    libs_judge(0, 0);
}

const struct libs_case libs_cases[] = {
    {"ptx", ptx},
    {"ltoir", ltoir},
    {"ltoir-any", ltoir_any},
    {"ltoir-calls-ptx", ltoir_calls_ptx},
    {"ptx-calls-ltoir", ptx_calls_ltoir},
    {"errors", errors},
    {NULL, NULL},
};
