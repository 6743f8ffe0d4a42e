# SPDX-License-Identifier: MIT
"""nvmath-python: matrix products (cuBLASLt), transforms (cuFFT), contractions (cuTENSOR)."""
import numpy
import nvmath
from common import near, run, test
from nvmath.linalg.advanced import MatmulEpilog, matmul

RANDOM = numpy.random.default_rng(0)
A = RANDOM.standard_normal((64, 48)).astype(numpy.float32)
B = RANDOM.standard_normal((48, 32)).astype(numpy.float32)
X = (RANDOM.standard_normal((16, 64)) + 1j * RANDOM.standard_normal((16, 64))).astype(numpy.complex64)


@test
def products():
    near(matmul(A, B), A @ B)
    near(matmul(A, B, epilog=MatmulEpilog.RELU), numpy.maximum(A @ B, 0))


@test
def transforms():
    near(nvmath.fft.fft(X, axes=[1], execution="cuda"), numpy.fft.fft(X, axis=1))
    near(nvmath.fft.ifft(X, axes=[1], execution="cuda") / X.shape[1], numpy.fft.ifft(X, axis=1))
    near(nvmath.fft.rfft(X.real.copy(), axes=[1], execution="cuda"), numpy.fft.rfft(X.real, axis=1))


@test
def contraction():
    near(nvmath.tensor.binary_contraction("ij,jk->ik", A, B), A @ B)


run()
