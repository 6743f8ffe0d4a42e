# SPDX-License-Identifier: MIT
"""PyCUDA: what its users do, each result compared with NumPy's. Prints a line per check."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
import pycuda.gpuarray as gpuarray
from pycuda.compiler import SourceModule
from pycuda.cumath import exp, sqrt
from pycuda.elementwise import ElementwiseKernel
from pycuda.reduction import ReductionKernel
from pycuda.scan import InclusiveScanKernel
from pycuda.tools import DeviceMemoryPool, PageLockedMemoryPool

bad = 0
rng = np.random.default_rng(7)


def check(name, ok):
    global bad
    bad += not ok
    print(("ok " if ok else "wrong ") + name, flush=True)


module = SourceModule("""
__constant__ float factor;
__global__ void scale(float *to, const float *from, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = factor * from[i];
}

__global__ void transpose(float *to, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h) to[x * h + y] = x + 100 * y;
}
""")
x = rng.random(1000).astype(np.float32)
to = np.zeros_like(x)
address, size = module.get_global("factor")
drv.memcpy_htod(address, np.float32(2.5))
scale = module.get_function("scale")
scale(drv.Out(to), drv.In(x), np.int32(x.size), block=(128, 1, 1), grid=(8, 1))
check("SourceModule, constant memory", np.allclose(to, 2.5 * x) and size == 4)

scale.prepare("PPi")
da, db = gpuarray.to_gpu(x), gpuarray.empty(x.shape, x.dtype)
scale.prepared_call((8, 1), (128, 1, 1), db.gpudata, da.gpudata, x.size)
check("prepared call", np.allclose(db.get(), 2.5 * x))

wide = np.zeros((20, 30), np.float32)
module.get_function("transpose")(drv.Out(wide), np.int32(20), np.int32(30), block=(8, 8, 1), grid=(3, 4))
check("two dimensions", (wide == np.add.outer(np.arange(20), 100 * np.arange(30))).all())

check("arithmetic of arrays", np.allclose(((2 * da + 1) / da - da ** 2).get(), (2 * x + 1) / x - x ** 2, rtol=1e-4))
check("mathematics", np.allclose(exp(sqrt(da)).get(), np.exp(np.sqrt(x)), rtol=1e-5))
check("sums, dots, extremes", np.isclose(gpuarray.sum(da).get(), x.sum(), rtol=1e-5) and
      np.isclose(gpuarray.dot(da, da).get(), x @ x, rtol=1e-5) and gpuarray.max(da).get() == x.max())
scaled = ElementwiseKernel("float a, float *x, float *z", "z[i] = a * x[i] * x[i]", "scaled_square")
scaled(3, da, db)
check("ElementwiseKernel", np.allclose(db.get(), 3 * x * x))
dot = ReductionKernel(np.float32, neutral="0", reduce_expr="a+b", map_expr="x[i]*y[i]",
                      arguments="float *x, float *y")
check("ReductionKernel", np.isclose(dot(da, db).get(), (x * 3 * x * x).sum(), rtol=1e-4))
numbers = rng.integers(0, 100, 5000).astype(np.int32)
check("InclusiveScanKernel", (InclusiveScanKernel(np.int32, "a+b")(gpuarray.to_gpu(numbers)).get() ==
                              numbers.cumsum()).all())

stream, begin, end = drv.Stream(), drv.Event(), drv.Event()
host = drv.pagelocked_empty(1000, np.float32)
host[:] = x
begin.record(stream)
db.set_async(host, stream=stream)
drv.memcpy_dtoh_async(host, db.gpudata, stream)
end.record(stream)
end.synchronize()
check("streams, events, pinned memory", (host == x).all() and begin.time_till(end) >= 0)

pool, pinned = DeviceMemoryPool(), PageLockedMemoryPool()
kept = [gpuarray.to_gpu(x, allocator=pool.allocate) for _ in range(5)]
buffer = pinned.allocate((100,), np.float32)
check("pools", all((k.get() == x).all() for k in kept) and pool.active_blocks == 5 and buffer.nbytes == 400)
del kept

array = drv.np_to_array(wide, "C")
back = np.zeros_like(wide)
copy = drv.Memcpy2D()
copy.set_src_array(array)
copy.set_dst_host(back)
copy.width_in_bytes = copy.dst_pitch = wide.strides[0]
copy.height = wide.shape[0]
copy(aligned=False)
check("CUDA arrays", (back == wide).all())

managed = drv.managed_empty(1000, np.float32, mem_flags=drv.mem_attach_flags.GLOBAL)
managed[:] = x
scale(managed, managed, np.int32(1000), block=(128, 1, 1), grid=(8, 1))
pycuda.autoinit.context.synchronize()
check("managed memory", np.allclose(managed, 2.5 * x))

try:
    SourceModule("__global__ void k() { this is no code }")
    check("compiler errors", False)
except drv.CompileError:
    check("compiler errors", True)
try:
    scale(drv.In(x), block=(4096, 1, 1), grid=(1, 1))
    check("launch errors", False)
except drv.Error:
    check("launch errors", True)
raise SystemExit(bad != 0)
