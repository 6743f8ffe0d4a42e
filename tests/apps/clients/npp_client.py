# SPDX-License-Identifier: MIT
"""NPP (NVIDIA Performance Primitives) by ctypes: functions of images, each compared with what this program computes."""
import ctypes
import math
import random

WIDTH, HEIGHT = 37, 23
NEAREST = 1  # NPPI_INTER_NN
MIRROR = 0  # NPP_HORIZONTAL_AXIS: upside down


class Size(ctypes.Structure):
    _fields_ = [('width', ctypes.c_int), ('height', ctypes.c_int)]


class Rect(ctypes.Structure):
    _fields_ = [('x', ctypes.c_int), ('y', ctypes.c_int), ('width', ctypes.c_int), ('height', ctypes.c_int)]


runtime = ctypes.CDLL('libcudart.so.11.0')
runtime.cudaMemcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libraries = [ctypes.CDLL('libnpp%s.so.11' % name) for name in ('ial', 'idei', 'ist', 'ig')]
HALF = ctypes.c_float(0.5)


def cuda(status):
    if status:
        raise RuntimeError('the runtime gave %d' % status)


def call(name, *arguments):
    function = next(getattr(library, name) for library in libraries if hasattr(library, name))
    status = function(*arguments)
    if status:
        raise RuntimeError('%s gave %d' % (name, status))


class Memory:
    """An image or a buffer of the GPU, its rows without padding."""

    def __init__(self, kind, width, height=1, values=None):
        self.size, self.kind, self.pointer = width * height, kind, ctypes.c_void_p()
        self.bytes, self.step = self.size * ctypes.sizeof(kind), width * ctypes.sizeof(kind)
        cuda(runtime.cudaMalloc(ctypes.byref(self.pointer), ctypes.c_size_t(self.bytes)))
        if values is None:
            cuda(runtime.cudaMemset(self.pointer, 0, ctypes.c_size_t(self.bytes)))
        else:
            cuda(runtime.cudaMemcpy(self.pointer, (kind * self.size)(*values), self.bytes, 1))

    def get(self):
        values = (self.kind * self.size)()
        cuda(runtime.cudaMemcpy(values, self.pointer, self.bytes, 2))
        return list(values)


def byte_image(values=None, width=WIDTH, height=HEIGHT):
    return Memory(ctypes.c_uint8, width, height, values)


def float_image(values=None):
    return Memory(ctypes.c_float, WIDTH, HEIGHT, values)


def scratch(name, *arguments):
    """The buffer that a reduction needs, by its function that says how large."""
    size = ctypes.c_int()
    call(name, *arguments, ctypes.byref(size))
    return Memory(ctypes.c_uint8, size.value)


random.seed(11)
ROI = Size(WIDTH, HEIGHT)
A = [random.randrange(256) for _ in range(WIDTH * HEIGHT)]
B = [random.randrange(256) for _ in range(WIDTH * HEIGHT)]
F = [random.randrange(4096) / 16 for _ in range(WIDTH * HEIGHT)]  # exact in single precision, as are sums and halves
a, b, f = byte_image(A), byte_image(B), float_image(F)



def near(got, wanted):
    return all(abs(x - y) <= 1e-6 * abs(y) for x, y in zip(got, wanted))


def two_images(name, wanted, *more):
    def check():
        d = byte_image()
        call(name, a.pointer, a.step, b.pointer, b.step, d.pointer, d.step, ROI, *more)
        return d.get() == [wanted(x, y) for x, y in zip(A, B)]
    return check


def add_float():
    d = float_image()
    call('nppiAdd_32f_C1R', f.pointer, f.step, f.pointer, f.step, d.pointer, d.step, ROI)
    return d.get() == [2 * x for x in F]


def multiply_float():
    d = float_image()
    call('nppiMulC_32f_C1R', f.pointer, f.step, HALF, d.pointer, d.step, ROI)
    return d.get() == [x / 2 for x in F]


def root():
    d = float_image()
    call('nppiSqrt_32f_C1R', f.pointer, f.step, d.pointer, d.step, ROI)
    return near(d.get(), [math.sqrt(x) for x in F])


def scale():
    d = byte_image()
    call('nppiMulC_8u_C1RSfs', a.pointer, a.step, ctypes.c_uint8(3), d.pointer, d.step, ROI, 2)
    return d.get() == [min(255, round(3 * x / 4)) for x in A]


def convert():
    d = float_image()
    call('nppiConvert_8u32f_C1R', a.pointer, a.step, d.pointer, d.step, ROI)
    return d.get() == A


def border():
    width, height = WIDTH + 5, HEIGHT + 3
    d = byte_image(None, width, height)
    call('nppiCopyConstBorder_8u_C1R', a.pointer, a.step, ROI, d.pointer, d.step, Size(width, height), 1, 2,
         ctypes.c_uint8(9))
    wanted = [9] * (width * height)
    for y in range(HEIGHT):
        wanted[(y + 1) * width + 2:(y + 1) * width + 2 + WIDTH] = A[y * WIDTH:(y + 1) * WIDTH]
    return d.get() == wanted


def resize():
    width, height = 3 * WIDTH, 3 * HEIGHT
    d = byte_image(None, width, height)
    call('nppiResize_8u_C1R', a.pointer, a.step, ROI, Rect(0, 0, WIDTH, HEIGHT), d.pointer, d.step,
         Size(width, height), Rect(0, 0, width, height), NEAREST)
    return d.get() == [A[y // 3 * WIDTH + x // 3] for y in range(height) for x in range(width)]


def mirror():
    d = byte_image()
    call('nppiMirror_8u_C1R', a.pointer, a.step, d.pointer, d.step, ROI, MIRROR)
    return d.get() == [A[(HEIGHT - 1 - y) * WIDTH + x] for y in range(HEIGHT) for x in range(WIDTH)]


def total():
    d = Memory(ctypes.c_double, 1)
    buffer = scratch('nppiSumGetBufferHostSize_8u_C1R', ROI)
    call('nppiSum_8u_C1R', a.pointer, a.step, ROI, buffer.pointer, d.pointer)
    return d.get() == [sum(A)]


def extremes():
    low, high = Memory(ctypes.c_uint8, 1), Memory(ctypes.c_uint8, 1)
    buffer = scratch('nppiMinMaxGetBufferHostSize_8u_C1R', ROI)
    call('nppiMinMax_8u_C1R', b.pointer, b.step, ROI, low.pointer, high.pointer, buffer.pointer)
    return low.get() + high.get() == [min(B), max(B)]


def deviation():
    mean, spread = Memory(ctypes.c_double, 1), Memory(ctypes.c_double, 1)
    buffer = scratch('nppiMeanStdDevGetBufferHostSize_8u_C1R', ROI)
    call('nppiMean_StdDev_8u_C1R', a.pointer, a.step, ROI, buffer.pointer, mean.pointer, spread.pointer)
    middle = sum(A) / len(A)
    return near(mean.get() + spread.get(), [middle, math.sqrt(sum((x - middle) ** 2 for x in A) / len(A))])


def product():
    d = Memory(ctypes.c_double, 1)
    buffer = scratch('nppiDotProdGetBufferHostSize_8u64f_C1R', ROI)
    call('nppiDotProd_8u64f_C1R', a.pointer, a.step, b.pointer, b.step, ROI, d.pointer, buffer.pointer)
    return d.get() == [sum(x * y for x, y in zip(A, B))]


def histogram():
    levels = 17
    d = Memory(ctypes.c_int32, levels - 1)
    buffer = scratch('nppiHistogramEvenGetBufferSize_8u_C1R', ROI, levels)
    call('nppiHistogramEven_8u_C1R', a.pointer, a.step, ROI, d.pointer, levels, 0, 256, buffer.pointer)
    return d.get() == [sum(x // 16 == i for x in A) for i in range(levels - 1)]


CHECKS = {
    'sum of two images': two_images('nppiAdd_8u_C1RSfs', lambda x, y: min(255, round((x + y) / 2)), 1),
    'saturation': two_images('nppiAdd_8u_C1RSfs', lambda x, y: min(255, x + y), 0),
    'absolute difference': two_images('nppiAbsDiff_8u_C1R', lambda x, y: abs(x - y)),
    'and': two_images('nppiAnd_8u_C1R', lambda x, y: x & y),
    'sum in single precision': add_float,
    'product with a constant in single precision': multiply_float,
    'square root': root,
    'product with a constant, scaled': scale,
    'conversion': convert,
    'border': border,
    'resize, nearest': resize,
    'mirror': mirror,
    'total': total,
    'extremes': extremes,
    'mean and deviation': deviation,
    'scalar product': product,
    'histogram': histogram,
}
for title, check in CHECKS.items():
    print('ok' if check() else 'wrong', title, flush=True)
