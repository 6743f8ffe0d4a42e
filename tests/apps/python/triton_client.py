# SPDX-License-Identifier: MIT
"""Triton's kernels, as its tutorials write them, and torch.compile, which makes such.

PyTorch of the package index has machine code only: on the software GPU it allocates and copies, and its own kernels
do not run. So tensors are made on the processor here, and copied.
"""
import os

import torch
import triton
import triton.language as tl

from common import near, run, test

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def softmax_kernel(out, x, stride, n, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + column, mask=column < n, other=-float("inf"))
    power = tl.exp(value - tl.max(value, axis=0))
    tl.store(out + row * stride + column, power / tl.sum(power, axis=0), mask=column < n)


@triton.jit
def matmul_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    sum_ = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + row[:, None] * K + (k + inner)[None, :], mask=(row[:, None] < M) & ((k + inner)[None, :] < K), other=0.0)
        y = tl.load(b + (k + inner)[:, None] * N + column[None, :], mask=((k + inner)[:, None] < K) & (column[None, :] < N), other=0.0)
        sum_ = tl.dot(x, y, sum_)
    tl.store(c + row[:, None] * N + column[None, :], sum_, mask=(row[:, None] < M) & (column[None, :] < N))


@triton.jit
def norm_kernel(x, out, weight, bias, n, eps, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * n + column, mask=column < n, other=0.0)
    mean = tl.sum(value, axis=0) / n
    centred = tl.where(column < n, value - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / n + eps)
    w, b = tl.load(weight + column, mask=column < n), tl.load(bias + column, mask=column < n)
    tl.store(out + row * n + column, centred * scale * w + b, mask=column < n)


@triton.jit
def dropout_kernel(x, out, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, at) > p
    tl.store(out + at, tl.where(keep, tl.load(x + at, mask=at < n) / (1 - p), 0.0), mask=at < n)


@triton.jit
def attention_kernel(q, k, v, out, scale, L, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    row, inner = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    query = tl.load(q + row[:, None] * D + inner[None, :])
    most = tl.full((BM,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    sum_ = tl.zeros((BM, D), dtype=tl.float32)
    for n in range(0, L, BN):
        at = n + tl.arange(0, BN)
        key = tl.load(k + at[None, :] * D + inner[:, None])
        score = tl.dot(query, key) * scale
        score = tl.where(row[:, None] >= at[None, :], score, -1.0e6)
        new = tl.maximum(most, tl.max(score, 1))
        power = tl.exp(score - new[:, None])
        shrink = tl.exp(most - new)
        total = total * shrink + tl.sum(power, 1)
        value = tl.load(v + at[:, None] * D + inner[None, :])
        sum_ = tl.dot(power.to(value.dtype), value, sum_ * shrink[:, None])
        most = new
    tl.store(out + row[:, None] * D + inner[None, :], sum_ / total[:, None])


@triton.jit
def histogram_kernel(x, bins, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0)
    tl.atomic_add(bins + value, 1, mask=at < n)


@triton.jit
def scan_kernel(x, out, order, n: tl.constexpr):
    at = tl.arange(0, n)
    value = tl.load(x + at)
    tl.store(out + at, tl.cumsum(value, 0))
    tl.store(order + at, tl.sort(value))


def gpu(tensor):
    return tensor.to("cuda")


@test
def vector_add():
    x, y = torch.randn(5000), torch.randn(5000)
    out = torch.empty(5000, device="cuda")
    add_kernel[(triton.cdiv(5000, 1024),)](gpu(x), gpu(y), out, 5000, BLOCK=1024)
    near(out.cpu(), x + y, 1e-6)


@test
def fused_softmax():
    x = torch.randn(37, 781)
    out = torch.empty(37, 781, device="cuda")
    softmax_kernel[(37,)](out, gpu(x), 781, 781, BLOCK=1024)
    near(out.cpu(), torch.softmax(x, 1), 1e-6)


@test
def matrix_products():
    for kind, tolerance in ((torch.float32, 2e-3), (torch.float16, 2e-3), (torch.bfloat16, 1e-2)):
        a, b = torch.randn(96, 80).to(kind), torch.randn(80, 112).to(kind)
        out = torch.empty(96, 112, device="cuda")
        matmul_kernel[(3, 2)](gpu(a), gpu(b), out, 96, 112, 80, BM=32, BN=64, BK=32, num_stages=3)
        near(out.cpu(), a.float() @ b.float(), tolerance)


@test
def layer_norm():
    x, weight, bias = torch.randn(13, 300), torch.randn(300), torch.randn(300)
    out = torch.empty(13, 300, device="cuda")
    norm_kernel[(13,)](gpu(x), out, gpu(weight), gpu(bias), 300, 1e-5, BLOCK=512)
    near(out.cpu(), torch.nn.functional.layer_norm(x, (300,), weight, bias), 1e-5)


@test
def seeded_dropout():
    x = torch.rand(10000) + 1
    outs = []
    for seed in (1, 1, 2):
        out = torch.empty(10000, device="cuda")
        dropout_kernel[(10,)](gpu(x), out, 10000, 0.3, seed, BLOCK=1024)
        outs.append(out.cpu())
    kept = outs[0] != 0
    near(outs[0][kept], x[kept] / 0.7, 1e-5)
    assert 0.65 < kept.float().mean() < 0.75 and torch.equal(outs[0], outs[1]) and not torch.equal(outs[0], outs[2])


@test
def causal_attention():
    q, k, v = (torch.randn(128, 64).half() for _ in range(3))
    out = torch.empty(128, 64, device="cuda")
    attention_kernel[(4,)](gpu(q), gpu(k), gpu(v), out, 0.125, 128, D=64, BM=32, BN=32)
    wanted = torch.nn.functional.scaled_dot_product_attention(*(t.float()[None] for t in (q, k, v)), is_causal=True)[0]
    near(out.cpu(), wanted, 5e-3)


@test
def atomics():
    x = torch.randint(0, 16, (3000,), dtype=torch.int32)
    bins = gpu(torch.zeros(16, dtype=torch.int32))
    histogram_kernel[(3,)](gpu(x), bins, 3000, BLOCK=1024)
    near(bins.cpu(), torch.bincount(x, minlength=16), 0)


@test
def scan_and_sort():
    x = torch.randn(256)
    out, order = torch.empty(256, device="cuda"), torch.empty(256, device="cuda")
    scan_kernel[(1,)](gpu(x), out, order, n=256)
    near(out.cpu(), torch.cumsum(x, 0), 1e-5)
    near(order.cpu(), torch.sort(x).values, 0)


@test
def compiled_by_torch():
    def function(a, b):
        return torch.nn.functional.gelu(a * b + 1).softmax(-1), (a - b).square().sum(1)

    x, y = torch.randn(33, 200), torch.randn(33, 200)
    for got, wanted in zip(torch.compile(function)(gpu(x), gpu(y)), function(x, y)):
        near(got.cpu(), wanted, 1e-5)


@test
def compiled_gradient():
    def loss(a, w):
        return torch.tanh(a * w).square().sum()

    x, w = torch.randn(64, 65), torch.randn(65)
    wanted = torch.autograd.functional.vjp(lambda v: loss(x, v), w)[1]
    ours = gpu(w).requires_grad_()
    got, = torch.autograd.grad(torch.compile(loss)(gpu(x), ours), ours, grad_outputs=gpu(torch.tensor(1.0)))
    near(got.cpu(), wanted, 1e-4)


run()
