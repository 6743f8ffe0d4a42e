# SPDX-License-Identifier: MIT
"""NVIDIA Warp against NumPy."""
import numpy
import warp
from common import near, run, test

warp.config.quiet = True
rng = numpy.random.default_rng(1)
V = rng.standard_normal((1000, 3)).astype(numpy.float32)
GPU = "cuda:0"


@warp.kernel
def length_of(points: warp.array(dtype=warp.vec3), out: warp.array(dtype=float)):
    at = warp.tid()
    out[at] = warp.length(points[at])


@warp.kernel
def sum_of(points: warp.array(dtype=warp.vec3), out: warp.array(dtype=float)):
    warp.atomic_add(out, 0, warp.dot(points[warp.tid()], points[warp.tid()]))


@test
def kernel_with_vectors():
    out = warp.zeros(1000, dtype=float, device=GPU)
    warp.launch(length_of, dim=1000, inputs=[warp.array(V, dtype=warp.vec3, device=GPU), out], device=GPU)
    near(out.numpy(), numpy.linalg.norm(V, axis=1))


@test
def gradient():
    points = warp.array(V, dtype=warp.vec3, device=GPU, requires_grad=True)
    out = warp.zeros(1, dtype=float, device=GPU, requires_grad=True)
    with warp.Tape() as tape:
        warp.launch(sum_of, dim=1000, inputs=[points, out], device=GPU)
    tape.backward(loss=out)
    near(out.numpy(), [(V * V).sum(dtype=numpy.float64)], 1e-4)
    near(points.grad.numpy(), 2 * V)


@test
def captured_graph():
    points = warp.array(V, dtype=warp.vec3, device=GPU)
    out = warp.zeros(1, dtype=float, device=GPU)
    with warp.ScopedCapture(device=GPU) as capture:
        warp.launch(sum_of, dim=1000, inputs=[points, out], device=GPU)
    for _ in range(3):
        warp.capture_launch(capture.graph)
    near(out.numpy(), [3 * (V * V).sum(dtype=numpy.float64)], 1e-4)


@test
def sort_and_scan():
    values = warp.array(numpy.arange(1000, dtype=numpy.int32), device=GPU)
    out = warp.zeros(1000, dtype=int, device=GPU)
    warp.utils.array_scan(values, out, inclusive=True)
    near(out.numpy(), numpy.cumsum(numpy.arange(1000)))


run()
