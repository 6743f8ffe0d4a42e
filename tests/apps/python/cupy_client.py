# SPDX-License-Identifier: MIT
"""CuPy against NumPy."""
import cupy
import cupyx
import numpy
from common import equal, near, run, test
from cupyx import jit

rng = numpy.random.default_rng(1)
A = rng.standard_normal((48, 40)).astype(numpy.float32)
B = rng.standard_normal((40, 32)).astype(numpy.float32)
V = rng.standard_normal(5000).astype(numpy.float32)


@test
def arrays_and_elementwise_functions():
    a = cupy.asarray(A)
    near((cupy.sin(a) * 2 + a.T.T ** 2).get(), numpy.sin(A) * 2 + A ** 2)
    equal((a > 0).get(), A > 0)
    equal(cupy.where(a > 0, a, 0).get(), numpy.where(A > 0, A, 0))
    equal(cupy.concatenate([a, a[::-1]])[::3, 1:].get(), numpy.concatenate([A, A[::-1]])[::3, 1:])


@test
def reductions():
    a = cupy.asarray(V)
    near(a.sum().get(), V.sum(dtype=numpy.float64), 1e-4)
    near(cupy.asarray(A).mean(axis=1).get(), A.mean(axis=1))
    equal([int(a.argmax()), float(a.max()), float(a.min())], [int(V.argmax()), float(V.max()), float(V.min())])
    near(cupy.cumsum(a).get(), numpy.cumsum(V, dtype=numpy.float64), 1e-4)


@test
def sorting_and_searching():
    a = cupy.asarray(V)
    equal(cupy.sort(a).get(), numpy.sort(V))
    equal(cupy.argsort(a).get(), numpy.argsort(V, kind="stable"))
    equal(cupy.unique(cupy.asarray(V * 10).astype(int)).get(), numpy.unique((V * 10).astype(int)))
    equal(cupy.nonzero(a > 1)[0].get(), numpy.nonzero(V > 1)[0])
    equal(cupy.bincount(cupy.asarray([1, 2, 2, 5])).get(), [0, 1, 2, 0, 0, 1])


@test
def raw_kernel():
    kernel = cupy.RawKernel(r"""
    extern "C" __global__ void saxpy(float f, const float* x, float* y, int n)
    {
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
            y[i] = f * x[i] + y[i];
    }""", "saxpy")
    x, y = cupy.asarray(V), cupy.ones(V.size, cupy.float32)
    kernel((4,), (128,), (cupy.float32(3), x, y, cupy.int32(V.size)))
    near(y.get(), 3 * V + 1)


@test
def elementwise_and_reduction_kernel():
    square = cupy.ElementwiseKernel("T x, T y", "T z", "z = (x - y) * (x - y)", "square")
    near(square(cupy.asarray(A), cupy.float32(1)).get(), (A - 1) ** 2)
    norm = cupy.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "length_of")
    near(norm(cupy.asarray(A), axis=1).get(), numpy.sqrt((A * A).sum(axis=1)))


@test
def just_in_time_kernel():
    @jit.rawkernel()
    def twice_of(x, y, size):
        at = jit.blockIdx.x * jit.blockDim.x + jit.threadIdx.x
        if at < size:
            y[at] = x[at] * 2

    x = cupy.asarray(V)
    y = cupy.empty_like(x)
    twice_of[V.size // 128 + 1, 128](x, y, V.size)
    equal(y.get(), V * 2)


@test
def fft():
    near(cupy.fft.fft(cupy.asarray(V[:1024])).get(), numpy.fft.fft(V[:1024]))
    near(cupy.fft.irfft2(cupy.fft.rfft2(cupy.asarray(A))).get(), A)


@test
def matrix_product():
    near((cupy.asarray(A) @ cupy.asarray(B)).get(), A @ B)
    near(cupy.einsum("ij,jk->ki", cupy.asarray(A), cupy.asarray(B)).get(), (A @ B).T)


@test
def linear_algebra():
    square = (A[:40] + 8 * numpy.eye(40)).astype(numpy.float64)
    near(cupy.linalg.solve(cupy.asarray(square), cupy.asarray(V[:40], dtype=float)).get(),
         numpy.linalg.solve(square, V[:40].astype(float)))
    near(cupy.linalg.inv(cupy.asarray(square)).get(), numpy.linalg.inv(square))
    near(cupy.linalg.svd(cupy.asarray(A, dtype=float), compute_uv=False).get(), numpy.linalg.svd(A.astype(float), compute_uv=False))
    near(cupy.linalg.eigh(cupy.asarray(square @ square.T))[0].get(), numpy.linalg.eigh(square @ square.T)[0])
    near(cupy.linalg.cholesky(cupy.asarray(square @ square.T)).get(), numpy.linalg.cholesky(square @ square.T))


@test
def random_numbers():
    cupy.random.seed(1)
    first = cupy.random.standard_normal(20000)
    cupy.random.seed(1)
    equal(first.get(), cupy.random.standard_normal(20000).get())
    near([float(first.mean()), float(first.std())], [0, 1], 0.05)
    new = cupy.random.default_rng(1).integers(0, 10, 5000).get()
    equal(numpy.unique(new), range(10))


@test
def streams_and_events():
    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        start.record()
        a = cupy.asarray(V) * 2
        end.record()
    stream.synchronize()
    equal(a.get(), V * 2)
    if not cupy.cuda.get_elapsed_time(start, end) >= 0:
        raise ValueError("no time has passed")


@test
def memory_pools():
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    used = pool.used_bytes()
    a = cupy.zeros(1 << 20, cupy.uint8)
    if pool.used_bytes() < used + (1 << 20):
        raise ValueError("the pool does not count")
    del a
    equal(pool.used_bytes(), used)
    pinned = cupyx.empty_pinned((1000,), numpy.float32)
    pinned[:] = V[:1000]
    equal(cupy.asarray(pinned).get(), V[:1000])
    with cupy.cuda.using_allocator(cupy.cuda.MemoryAsyncPool().malloc):
        equal(cupy.arange(1000).get(), numpy.arange(1000))


@test
def sparse_matrices():
    import cupyx.scipy.sparse as sparse

    dense = numpy.where(A > 1, A, 0)
    near((sparse.csr_matrix(cupy.asarray(dense)) @ cupy.asarray(B)).get(), dense @ B)


@test
def graph_of_a_stream():
    x = cupy.asarray(V)
    y = cupy.zeros_like(x)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        cupy.multiply(x, 2, out=y)
        stream.synchronize()
        y.fill(0)
        stream.begin_capture()
        cupy.multiply(x, 2, out=y)
        cupy.add(y, 1, out=y)
        graph = stream.end_capture()
        graph.launch(stream)
        stream.synchronize()
    equal(y.get(), V * 2 + 1)


run()
