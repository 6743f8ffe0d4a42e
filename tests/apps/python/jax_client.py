# SPDX-License-Identifier: MIT
"""JAX with its CUDA 13 plugin: XLA's kernels, NVIDIA's libraries behind it, against NumPy."""
import jax
import jax.numpy as jnp
import numpy

from common import near, run, test

X = numpy.linspace(-2, 2, 4096, dtype=numpy.float32).reshape(64, 64)


@test
def device():
    assert jax.default_backend() == "gpu", jax.devices()
    assert [d.platform for d in jax.devices()] == ["gpu"]
    assert jax.devices()[0].memory_stats()["bytes_limit"] > 0


@test
def jit():
    near(jax.jit(lambda a: jnp.tanh(a) * 2 + jnp.sin(a) / jnp.exp(a))(X), numpy.tanh(X) * 2 + numpy.sin(X) / numpy.exp(X))


@test
def reductions():
    near(jax.jit(lambda a: a.sum(0))(X), X.sum(0), 1e-4)
    near(jnp.argmax(jnp.asarray(X), axis=1), X.argmax(1), 0)
    near(jax.nn.softmax(X), numpy.exp(X) / numpy.exp(X).sum(1, keepdims=True))
    near(jnp.cumsum(jnp.asarray(X), axis=1), numpy.cumsum(X, axis=1), 1e-4)


@test
def products():
    with jax.default_matmul_precision("highest"):
        near(jax.jit(jnp.matmul)(X, X.T), X @ X.T, 1e-5)
    near(jax.jit(jnp.matmul)(X, X.T), X @ X.T, 2e-3)
    half = jnp.asarray(X, jnp.bfloat16)
    near(jnp.matmul(half, half.T, preferred_element_type=jnp.float32), numpy.asarray(half, numpy.float32) @ numpy.asarray(half, numpy.float32).T, 2e-3)


@test
def grad():
    near(jax.grad(lambda a: jnp.sin(a).sum())(X), numpy.cos(X))
    near(jax.jit(jax.hessian(lambda a: (a ** 3).sum()))(X[0, :5]), numpy.diag(6 * X[0, :5]))


@test
def vmap():
    near(jax.vmap(jnp.dot)(X, X[::-1]), (X * X[::-1]).sum(1))
    near(jax.jit(jax.vmap(jax.grad(lambda a: (a ** 2).sum())))(X), 2 * X)


@test
def pmap_on_one_device():
    near(jax.pmap(lambda a: jax.lax.psum(a * 2, "i"), axis_name="i")(X[None])[0], 2 * X)


@test
def loops_and_conditions():
    assert int(jax.lax.while_loop(lambda c: c < 100, lambda c: c + 7, 0)) == 105
    near(jax.lax.scan(lambda c, a: (c + a.sum(), c), 0.0, X)[1], numpy.concatenate([[0], numpy.cumsum(X.sum(1))[:-1]]), 1e-4)
    assert [float(jax.jit(lambda p: jax.lax.cond(p > 0, lambda: 1.0, lambda: 2.0))(p)) for p in (1, -1)] == [1, 2]


@test
def sort_and_gather():
    near(jnp.sort(X[::-1].ravel()), numpy.sort(X.ravel()), 0)
    near(jax.lax.top_k(jnp.asarray(X), 3)[0], numpy.sort(X, 1)[:, :-4:-1], 0)
    near(jnp.asarray(X)[jnp.array([3, 1, 60])], X[[3, 1, 60]], 0)
    near(jnp.zeros(8).at[jnp.array([1, 1, 5])].add(2.0), [0, 4, 0, 0, 0, 2, 0, 0], 0)


@test
def fft():
    near(jnp.abs(jnp.fft.fft(X)), numpy.abs(numpy.fft.fft(X)), 1e-4)
    near(jnp.fft.irfft2(jnp.fft.rfft2(X)), X, 1e-5)


@test
def linear_algebra():
    a = X @ X.T + 5 * numpy.eye(64, dtype=numpy.float32)
    with jax.default_matmul_precision("highest"):
        near(jnp.linalg.solve(a, X), numpy.linalg.solve(a, X), 1e-4)
        factor = jnp.linalg.cholesky(a)
        near(factor @ factor.T, a, 1e-4)
        q, r = jnp.linalg.qr(X)
        near(q @ r, X, 1e-4)
    near(jnp.linalg.eigvalsh(a), numpy.linalg.eigvalsh(a), 1e-4)


@test
def convolution():
    image, kernel = X.reshape(1, 1, 64, 64), X[:3, :3].reshape(1, 1, 3, 3)
    got = jax.lax.conv_with_general_padding(image, kernel, (1, 1), [(0, 0), (0, 0)], (1, 1), (1, 1), precision="highest")
    wanted = sum(X[i:62 + i, j:62 + j] * X[i, j] for i in range(3) for j in range(3))
    near(got[0, 0], wanted, 1e-4)


@test
def random_numbers():
    a = jax.random.normal(jax.random.key(1), (20000,))
    assert abs(float(a.mean())) < 0.05 and 0.95 < float(a.std()) < 1.05
    with jax.default_device(jax.devices("cpu")[0]):
        near(numpy.asarray(a), jax.random.normal(jax.random.key(1), (20000,)), 1e-5)


@test
def training():
    keys = jax.random.split(jax.random.key(0), 2)
    weights = [0.5 * jax.random.normal(keys[0], (64, 32)), 0.5 * jax.random.normal(keys[1], (32, 1))]
    target = numpy.sin(X.sum(1, keepdims=True))

    def loss(w):
        return ((jnp.tanh(X @ w[0]) @ w[1] - target) ** 2).mean()

    @jax.jit
    def step(w):
        return jax.tree.map(lambda p, g: p - 0.02 * g, w, jax.grad(loss)(w))
    first = float(loss(weights))
    for _ in range(30):
        weights = step(weights)
    assert float(loss(weights)) < 0.7 * first, (first, float(loss(weights)))


@test
def pallas():
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton as plt

    def twice(x, out):
        out[...] = x[...] * 2 + 1
    near(pl.pallas_call(twice, out_shape=jax.ShapeDtypeStruct((64, 64), jnp.float32), grid=(4,),
                        in_specs=[pl.BlockSpec((16, 64), lambda i: (i, 0))], out_specs=pl.BlockSpec((16, 64), lambda i: (i, 0)),
                        compiler_params=plt.CompilerParams(num_warps=4))(X), X * 2 + 1)


run()
