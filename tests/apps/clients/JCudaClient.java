// SPDX-License-Identifier: MIT
import static jcuda.driver.JCudaDriver.*;

import java.util.Arrays;
import jcuda.CudaException;
import jcuda.Pointer;
import jcuda.Sizeof;
import jcuda.driver.*;
import jcuda.runtime.*;

/**
 * JCuda on the GPU: its bindings of the driver API, and of the runtime, which its library has inside. Each result is
 * compared with Java's. Prints {@code ok - NAME} or {@code FAIL: NAME: WHY} for each test.
 */
public class JCudaClient {
    /** y[i] += a * x[i] */
    private static final String AXPY = String.join("\n",
        ".version 7.0", ".target sm_60", ".address_size 64", ".global .align 4 .f32 bias;",
        ".visible .entry axpy(.param .u64 y, .param .u64 x, .param .f32 a, .param .u32 n)", "{",
        ".reg .pred %p;", ".reg .b32 %r<5>;", ".reg .f32 %f<6>;", ".reg .b64 %rd<6>;",
        "mov.u32 %r1, %ctaid.x;", "mov.u32 %r2, %ntid.x;", "mov.u32 %r3, %tid.x;", "mad.lo.u32 %r1, %r1, %r2, %r3;",
        "ld.param.u32 %r4, [n];", "setp.ge.u32 %p, %r1, %r4;", "@%p bra END;", "ld.param.u64 %rd1, [y];",
        "ld.param.u64 %rd2, [x];", "ld.param.f32 %f1, [a];", "mul.wide.u32 %rd3, %r1, 4;",
        "add.u64 %rd1, %rd1, %rd3;", "add.u64 %rd2, %rd2, %rd3;", "ld.global.f32 %f2, [%rd1];",
        "ld.global.f32 %f3, [%rd2];", "fma.rn.f32 %f2, %f1, %f3, %f2;", "ld.global.f32 %f4, [bias];",
        "add.f32 %f2, %f2, %f4;", "st.global.f32 [%rd1], %f2;", "END: ret;", "}", "");

    private interface Test {
        void run() throws Exception;
    }

    private static int failed;

    private static void test(String name, Test test) {
        try {
            test.run();
            System.out.println("ok - " + name);
        } catch (Exception | LinkageError e) {
            System.out.println("FAIL: " + name + ": " + e);
            failed++;
        }
    }

    private static void same(String what, boolean right) {
        if (!right)
            throw new IllegalStateException(what + " differs from Java's");
    }

    private static void driver() {
        CUmodule module = new CUmodule();
        CUfunction axpy = new CUfunction();
        CUdeviceptr x = new CUdeviceptr(), y = new CUdeviceptr(), bias = new CUdeviceptr();
        CUstream stream = new CUstream();
        CUevent event = new CUevent();
        long[] bytes = {0};
        int n = 10000;
        float[] host = new float[n], got = new float[n];

        for (int i = 0; i < n; i++)
            host[i] = i * 0.5f;
        cuModuleLoadData(module, AXPY);
        cuModuleGetFunction(axpy, module, "axpy");
        cuModuleGetGlobal(bias, bytes, module, "bias");
        same("the size of a variable", bytes[0] == 4);
        cuMemcpyHtoD(bias, Pointer.to(new float[] {1}), 4);
        cuStreamCreate(stream, CUstream_flags.CU_STREAM_NON_BLOCKING);
        cuEventCreate(event, 0);
        cuMemAlloc(x, n * 4L);
        cuMemAlloc(y, n * 4L);
        cuMemcpyHtoDAsync(x, Pointer.to(host), n * 4L, stream);
        cuMemsetD32Async(y, Float.floatToRawIntBits(2), n, stream);
        cuLaunchKernel(axpy, (n + 127) / 128, 1, 1, 128, 1, 1, 0, stream,
            Pointer.to(Pointer.to(y), Pointer.to(x), Pointer.to(new float[] {3}), Pointer.to(new int[] {n})), null);
        cuEventRecord(event, stream);
        cuEventSynchronize(event);
        cuMemcpyDtoH(Pointer.to(got), y, n * 4L);
        for (int i = 0; i < n; i++)
            same("axpy", got[i] == 3 * host[i] + 3);
        cuMemFree(x);
        cuMemFree(y);
        cuStreamDestroy(stream);
        cuModuleUnload(module);
    }

    private static void runtime() {
        cudaDeviceProp properties = new cudaDeviceProp();
        Pointer a = new Pointer(), b = new Pointer();
        int[] host = new int[5000], got = new int[5000];
        int[] count = {0};

        JCuda.cudaGetDeviceCount(count);
        same("the number of devices", count[0] == 1);
        JCuda.cudaGetDeviceProperties(properties, 0);
        same("the width of a warp", properties.warpSize == 32 && properties.getName().length() > 0);
        for (int i = 0; i < host.length; i++)
            host[i] = i * i;
        JCuda.cudaMalloc(a, host.length * 4L);
        JCuda.cudaMalloc(b, host.length * 4L);
        JCuda.cudaMemcpy(a, Pointer.to(host), host.length * 4L, cudaMemcpyKind.cudaMemcpyHostToDevice);
        JCuda.cudaMemcpy(b, a, host.length * 4L, cudaMemcpyKind.cudaMemcpyDeviceToDevice);
        JCuda.cudaMemcpy(Pointer.to(got), b, host.length * 4L, cudaMemcpyKind.cudaMemcpyDeviceToHost);
        same("a copy", Arrays.equals(host, got));
        JCuda.cudaMemset(b, 0, host.length * 4L);
        JCuda.cudaMemcpy(Pointer.to(got), b, host.length * 4L, cudaMemcpyKind.cudaMemcpyDeviceToHost);
        same("a memset", Arrays.equals(got, new int[host.length]));
        JCuda.cudaFree(a);
        JCuda.cudaFree(b);
    }

    private static void errors() {
        try {
            cuModuleLoadData(new CUmodule(), AXPY.replace(".visible .entry", "this is no PTX"));
            same("the refusal of a text", false);
        } catch (CudaException e) {
            same("the refusal of a text", e.getMessage().contains("CUDA_ERROR_INVALID_PTX"));
        }
        try {
            cuMemFree(new CUdeviceptr());
            cuMemAlloc(new CUdeviceptr(), 1L << 50);
            same("the refusal of memory", false);
        } catch (CudaException e) {
            same("the refusal of memory", e.getMessage().contains("CUDA_ERROR_OUT_OF_MEMORY"));
        }
    }

    public static void main(String[] args) {
        CUdevice device = new CUdevice();
        CUcontext context = new CUcontext();

        JCudaDriver.setExceptionsEnabled(true);
        JCuda.setExceptionsEnabled(true);
        try {
            cuInit(0);
            cuDeviceGet(device, 0);
            cuCtxCreate(context, 0, device);
        } catch (CudaException | LinkageError e) {
            System.out.println("FAIL: context: " + e);
            System.exit(1);
        }
        test("driver", JCudaClient::driver);
        test("runtime", JCudaClient::runtime);
        test("errors", JCudaClient::errors);
        cuCtxDestroy(context);
        System.exit(failed > 0 ? 1 : 0);
    }
}
