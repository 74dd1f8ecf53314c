"""Kernels launched by the driver's call find every argument where they look for it."""

import threading

import numpy
import pytest

from pullback.operators.cuda.launch import Kernel
from tests.cuda import stand_in
from tests.cuda.stand_in import devices, kernels

SOURCE = """
extern "C" __global__ void take(
        const float* x, int n, double a, float b, long long c, double* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] * a + b + c; }
"""


@pytest.fixture
def made(library):
    if hasattr(library.cupy, "RawKernel"):
        yield library.cupy, library.cupy.RawKernel(SOURCE, "take")
    elif kernels.HAS_COMPILER:
        with stand_in.with_kernels():
            yield library.cupy, library.cupy.RawKernel(SOURCE, "take")
    else:
        pytest.skip("needs a C++ compiler")


def launched(cupy, kernel, n, c):
    x, out = cupy.arange(n, dtype=numpy.float32), cupy.zeros(n, numpy.float64)
    given = x, numpy.int32(n), 0.5, numpy.float32(0.25), c, out
    kernel((-(-n // 32),), (32,), given)
    return out.get(), numpy.arange(n) * 0.5 + 0.25 + c


def test_numbers_of_all_sizes_lie_where_the_kernel_reads_them(made):
    cupy, function = made
    kernel = Kernel(cupy, function)
    for n, c in ((5, 1), (70, 1 << 40), (1, -3)):
        assert numpy.array_equal(*launched(cupy, kernel, n, c))


def test_threads_have_buffers_of_their_own(made):
    cupy, function = made
    kernel, wrong = Kernel(cupy, function), []

    def work(c):
        for _ in range(50):
            found, expected = launched(cupy, kernel, 40, c)
            if not numpy.array_equal(found, expected):
                wrong.append(c)

    threads = [threading.Thread(target=work, args=(c,)) for c in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong


def test_with_several_devices_cupy_launches(made, monkeypatch):
    cupy, function = made
    if cupy is not stand_in.module:
        pytest.skip("needs the stand-in's second device")
    monkeypatch.setattr(devices.current, "count", 2)
    kernel = Kernel(cupy, function)
    assert kernel._launch is None
    assert numpy.array_equal(*launched(cupy, kernel, 40, 7))
