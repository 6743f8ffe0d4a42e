# SPDX-License-Identifier: MIT
"""cuda.bindings and cuda.core (cuda-python): driver, runtime, NVRTC, launch."""
import numpy
from common import equal, run, test
from cuda.bindings import driver, nvrtc, runtime
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = r"""
extern "C" __global__ void scale(float *x, float f, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] *= f;
}
"""
V = numpy.arange(1000, dtype=numpy.float32)


def ok(answer):
    """What a call of the bindings gave, without its status."""
    if int(answer[0]):
        raise RuntimeError(answer[0].name)
    return answer[1] if len(answer) == 2 else answer[1:]


def ptx():
    program = ok(nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"scale.cu", 0, [], []))
    ok(nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=compute_75"]))
    text = b" " * ok(nvrtc.nvrtcGetPTXSize(program))
    ok(nvrtc.nvrtcGetPTX(program, text))
    return text


@test
def driver_and_NVRTC():
    ok(driver.cuInit(0))
    context = ok(driver.cuDevicePrimaryCtxRetain(0))
    ok(driver.cuCtxSetCurrent(context))
    module = ok(driver.cuModuleLoadData(ptx()))
    function = ok(driver.cuModuleGetFunction(module, b"scale"))
    memory = ok(driver.cuMemAlloc(V.nbytes))
    ok(driver.cuMemcpyHtoD(memory, V.ctypes.data, V.nbytes))
    arguments = [numpy.array([int(memory)], numpy.uint64), numpy.array([3], numpy.float32), numpy.array([V.size], numpy.int32)]
    pointers = numpy.array([argument.ctypes.data for argument in arguments], numpy.uint64)
    ok(driver.cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, 0, pointers.ctypes.data, 0))
    back = numpy.empty_like(V)
    ok(driver.cuMemcpyDtoH(back.ctypes.data, memory, V.nbytes))
    equal(back, V * 3)
    ok(driver.cuMemFree(memory))
    ok(driver.cuModuleUnload(module))


@test
def runtime_calls():
    ok(runtime.cudaSetDevice(0))
    properties = ok(runtime.cudaGetDeviceProperties(0))
    equal(properties.warpSize, 32)
    memory = ok(runtime.cudaMalloc(V.nbytes))
    stream = ok(runtime.cudaStreamCreate())
    back = numpy.empty_like(V)
    kind = runtime.cudaMemcpyKind
    ok(runtime.cudaMemcpyAsync(memory, V.ctypes.data, V.nbytes, kind.cudaMemcpyHostToDevice, stream))
    ok(runtime.cudaMemcpyAsync(back.ctypes.data, memory, V.nbytes, kind.cudaMemcpyDeviceToHost, stream))
    ok(runtime.cudaStreamSynchronize(stream))
    equal(back, V)
    ok(runtime.cudaFree(memory))
    ok(runtime.cudaStreamDestroy(stream))


@test
def errors_have_names():
    status, = driver.cuMemFree(12345)
    equal(status.name, "CUDA_ERROR_INVALID_VALUE")
    equal(ok(driver.cuGetErrorName(status)), b"CUDA_ERROR_INVALID_VALUE")


@test
def cuda_core():
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    code = Program(SOURCE, "c++", ProgramOptions(arch="compute_75")).compile("ptx")
    buffer = device.allocate(V.nbytes, stream=stream)
    ok(driver.cuMemcpyHtoDAsync(buffer.handle, V.ctypes.data, V.nbytes, int(stream.handle)))
    launch(stream, LaunchConfig(grid=8, block=128), code.get_kernel("scale"), buffer, numpy.float32(2), numpy.int32(V.size))
    back = numpy.empty_like(V)
    ok(driver.cuMemcpyDtoHAsync(back.ctypes.data, buffer.handle, V.nbytes, int(stream.handle)))
    stream.sync()
    equal(back, V * 2)
    buffer.close()


run()
