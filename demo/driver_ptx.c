/* SPDX-License-Identifier: MIT */
/* The driver API by itself, with no runtime: loads a kernel from PTX text and launches it. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define N 1000

#define CHECK(call) \
    do { \
        CUresult check_err_ = (call); \
        const char *check_text_ = "?"; \
        if (check_err_ != CUDA_SUCCESS) { \
            cuGetErrorName(check_err_, &check_text_); \
            printf("%s:%d: %s: %s: FAIL\n", __FILE__, __LINE__, #call, check_text_); \
            exit(1); \
        } \
    } while (0)

/* saxpy(float a, const float *x, float *y, unsigned n): y[i] += a * x[i] */
static const char ptx[] =
    ".version 7.0\n"
    ".target sm_80\n"
    ".address_size 64\n"
    ".visible .entry saxpy(.param .f32 pa, .param .u64 px, .param .u64 py, .param .u32 pn)\n"
    "{\n"
    "    .reg .pred %p<2>;\n"
    "    .reg .f32 %f<5>;\n"
    "    .reg .b32 %r<6>;\n"
    "    .reg .b64 %rd<8>;\n"
    "    ld.param.f32 %f1, [pa];\n"
    "    ld.param.u64 %rd1, [px];\n"
    "    ld.param.u64 %rd2, [py];\n"
    "    ld.param.u32 %r1, [pn];\n"
    "    mov.u32 %r2, %ctaid.x;\n"
    "    mov.u32 %r3, %ntid.x;\n"
    "    mov.u32 %r4, %tid.x;\n"
    "    mad.lo.s32 %r5, %r2, %r3, %r4;\n"
    "    setp.ge.u32 %p1, %r5, %r1;\n"
    "    @%p1 bra DONE;\n"
    "    cvta.to.global.u64 %rd3, %rd1;\n"
    "    cvta.to.global.u64 %rd4, %rd2;\n"
    "    mul.wide.u32 %rd5, %r5, 4;\n"
    "    add.s64 %rd6, %rd3, %rd5;\n"
    "    add.s64 %rd7, %rd4, %rd5;\n"
    "    ld.global.f32 %f2, [%rd6];\n"
    "    ld.global.f32 %f3, [%rd7];\n"
    "    fma.rn.f32 %f4, %f1, %f2, %f3;\n"
    "    st.global.f32 [%rd7], %f4;\n"
    "DONE:\n"
    "    ret;\n"
    "}\n";

int main(void)
{
    static float x[N], y[N];
    float a = 2.0f;
    unsigned n = N;
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction saxpy;
    CUdeviceptr dx, dy;
    void *args[] = {&a, &dx, &dy, &n};
    int wrong = 0;

    for (int i = 0; i < N; i++) {
        x[i] = (float)i;
        y[i] = 10.0f;
    }
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, ptx));
    CHECK(cuModuleGetFunction(&saxpy, module, "saxpy"));
    CHECK(cuMemAlloc(&dx, sizeof(x)));
    CHECK(cuMemAlloc(&dy, sizeof(y)));
    CHECK(cuMemcpyHtoD(dx, x, sizeof(x)));
    CHECK(cuMemcpyHtoD(dy, y, sizeof(y)));
    CHECK(cuLaunchKernel(saxpy, (N + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, args, NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH(y, dy, sizeof(y)));
    for (int i = 0; i < N; i++)
        wrong += y[i] != 2.0f * (float)i + 10.0f;
    CHECK(cuMemFree(dx));
    CHECK(cuMemFree(dy));
    CHECK(cuModuleUnload(module));
    CHECK(cuDevicePrimaryCtxRelease(device));
    printf("driverPtx: PTX text through the driver API, 1000 elements: %s\n",
           wrong ? "FAIL: results differ from the CPU's" : "PASS");
    return wrong != 0;
}
