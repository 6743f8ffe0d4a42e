# SPDX-License-Identifier: MIT
"""Numba: what its users do, each result compared with NumPy's. Prints a line per check."""
import math

import numpy as np
from numba import cuda, float32, guvectorize, vectorize

rng = np.random.default_rng(7)
bad = 0


def check(name, ok):
    global bad
    bad += not ok
    print(("ok " if ok else "wrong ") + name, flush=True)


@cuda.jit
def saxpy(a, x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@cuda.jit
def matmul_tiles(a, b, c):
    ta = cuda.shared.array((8, 8), float32)
    tb = cuda.shared.array((8, 8), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    s = float32(0.0)
    for t in range(a.shape[1] // 8):
        ta[tx, ty] = a[x, t * 8 + ty]
        tb[tx, ty] = b[t * 8 + tx, y]
        cuda.syncthreads()
        for k in range(8):
            s += ta[tx, k] * tb[k, ty]
        cuda.syncthreads()
    c[x, y] = s


@cuda.jit
def histogram(values, bins):
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(bins, values[i], 1)


@cuda.jit
def warp_sums(x, out):
    v = x[cuda.grid(1)]
    for d in (16, 8, 4, 2, 1):
        v += cuda.shfl_down_sync(0xffffffff, v, d)
    if cuda.laneid == 0:
        out[cuda.grid(1) // 32] = v


@vectorize(["float32(float32, float32)", "float64(float64, float64)"], target="cuda")
def hypotenuse(x, y):
    return math.sqrt(x * x + y * y)


@guvectorize(["void(float64[:], float64[:])"], "(n)->()", target="cuda")
def row_maximum(row, out):
    m = row[0]
    for v in row:
        m = max(m, v)
    out[0] = m


@cuda.reduce
def total(a, b):
    return a + b


@cuda.jit
def special(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = math.erf(x[i]) + math.lgamma(abs(x[i]) + 1.5) + math.sin(x[i]) * math.exp(-x[i])


x, y = rng.random(1000, np.float32), rng.random(1000, np.float32)
out = np.zeros_like(x)
saxpy[8, 128](np.float32(2), x, y, out)
check("kernel", np.allclose(out, 2 * x + y))

a, b = rng.random((32, 24), np.float32), rng.random((24, 40), np.float32)
c = cuda.device_array((32, 40), np.float32)
matmul_tiles[(4, 5), (8, 8)](a, b, c)
check("shared memory, barriers", np.allclose(c.copy_to_host(), a @ b, rtol=1e-4))

values, bins = rng.integers(0, 10, 5000), np.zeros(10, np.int32)
histogram[4, 64](values, bins)
check("atomics", (bins == np.bincount(values, minlength=10)).all())

v, sums = rng.random(256), np.zeros(8)
warp_sums[2, 128](v, sums)
check("shuffles of a warp", np.allclose(sums, v.reshape(8, 32).sum(1)))

check("vectorize", np.allclose(hypotenuse(x, y), np.hypot(x, y)) and
      np.allclose(hypotenuse(v, v), np.hypot(v, v)))
m = rng.random((50, 30))
check("guvectorize", np.allclose(row_maximum(m), m.max(1)))
check("reduce", math.isclose(total(v), v.sum(), rel_tol=1e-12))

special[8, 128](v, r := np.zeros_like(v))
check("libdevice", np.allclose(r, [math.erf(t) + math.lgamma(abs(t) + 1.5) + math.sin(t) * math.exp(-t)
                                   for t in v], rtol=1e-12))

streams = [cuda.stream() for _ in range(3)]
pinned = cuda.pinned_array(x.shape, x.dtype)
pinned[:] = x
results = []
for s in streams:
    d = cuda.to_device(pinned, stream=s)
    o = cuda.device_array_like(d, stream=s)
    saxpy[8, 128, s](np.float32(3), d, d, o)
    results.append(o.copy_to_host(stream=s))
for s in streams:
    s.synchronize()
check("streams, pinned memory", all(np.allclose(r, 4 * x) for r in results))

begin, done = cuda.event(), cuda.event()
begin.record()
saxpy[8, 128](np.float32(2), x, y, out)
done.record()
done.synchronize()
check("events", begin.elapsed_time(done) >= 0)

managed = cuda.managed_array(100, np.int64)
managed[:] = 1
histogram[1, 32](np.arange(100), managed)
cuda.synchronize()
check("managed memory", (managed == 2).all())
cuda.close()


@cuda.jit
def doubled(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]


doubled[8, 128](x, out)
check("a context after the end of the first", (out == 2 * x).all())
raise SystemExit(bad != 0)
