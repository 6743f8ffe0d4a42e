# SPDX-License-Identifier: MIT
"""numba-cuda against NumPy."""
import math

import numpy
from common import equal, near, run, test
from numba import cuda, float32, vectorize

rng = numpy.random.default_rng(1)
V = rng.standard_normal(4096).astype(numpy.float32)


@test
def kernel():
    @cuda.jit
    def scale(x, y):
        at = cuda.grid(1)
        if at < x.size:
            y[at] = x[at] * 2 + math.sin(x[at])

    y = numpy.zeros_like(V)
    scale[V.size // 128, 128](V, y)
    near(y, V * 2 + numpy.sin(V))


@test
def shared_memory_and_barriers():
    @cuda.jit
    def turn(x):
        part = cuda.shared.array(128, float32)
        at = cuda.threadIdx.x
        part[at] = x[cuda.grid(1)]
        cuda.syncthreads()
        x[cuda.grid(1)] = part[127 - at]

    x = cuda.to_device(V)
    turn[V.size // 128, 128](x)
    equal(x.copy_to_host(), V.reshape(-1, 128)[:, ::-1].ravel())


@test
def atomics():
    @cuda.jit
    def count(x, total):
        cuda.atomic.add(total, x[cuda.grid(1)] & 7, 1)

    values = rng.integers(0, 1000, 4096).astype(numpy.int32)
    total = cuda.to_device(numpy.zeros(8, numpy.int32))
    count[32, 128](values, total)
    equal(total.copy_to_host(), numpy.bincount(values & 7))


@test
def warps():
    @cuda.jit
    def shuffle(x):
        at = cuda.grid(1)
        x[at] = cuda.shfl_xor_sync(0xFFFFFFFF, x[at], 1)

    x = cuda.to_device(V)
    shuffle[V.size // 128, 128](x)
    equal(x.copy_to_host(), V.reshape(-1, 2)[:, ::-1].ravel())


@test
def vectorized_function():
    @vectorize(["float32(float32, float32)"], target="cuda")
    def both(a, b):
        return a * b + a

    near(both(V, V), V * V + V)


@test
def reduction():
    add = cuda.reduce(lambda a, b: a + b)
    near(add(V.astype(float)), V.astype(float).sum())


@test
def streams_events_and_pinned_memory():
    stream = cuda.stream()
    start, end = cuda.event(), cuda.event()
    pinned = cuda.pinned_array(V.size, V.dtype)
    pinned[:] = V
    start.record(stream)
    x = cuda.to_device(pinned, stream)
    back = x.copy_to_host(stream=stream)
    end.record(stream)
    stream.synchronize()
    equal(back, V)
    if not cuda.event_elapsed_time(start, end) >= 0:
        raise ValueError("no time has passed")


@test
def device_function():
    equal(cuda.current_context().device.compute_capability >= (7, 5), True)

    @cuda.jit(device=True)
    def cube(x):
        return x * x * x

    @cuda.jit
    def all_cubes(x):
        x[cuda.grid(1)] = cube(x[cuda.grid(1)])

    x = cuda.to_device(V)
    all_cubes[V.size // 128, 128](x)
    near(x.copy_to_host(), V ** 3)


run()
