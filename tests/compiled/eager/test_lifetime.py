"""A kernel's function keeps all that it needs: whoever holds it may outlive the kernel."""

import subprocess
import sys

import numpy
import pytest

from pullback.operators.arrays import native

pytest.importorskip("llvmlite")


def test_a_function_outlives_its_kernel():
    x = numpy.random.default_rng(0).standard_normal((64, 64)).astype("f")
    run = native.kernel_of("softmax", (x,), 1).run
    (expected,) = run(x)
    native.forget()
    assert (run(x)[0] == expected).all()


def test_freeing_kernels_reads_no_freed_memory():
    # In a process of its own: what it would read says whether it crashes.
    program = """
import ctypes
import numpy
import pullback
from pullback.operators.arrays import native

for size in range(64, 72):
    x = numpy.ones((size, 64), "f")
    run = native.kernel_of("softmax", (x,), 1).run
    native.forget()
    filled = [(ctypes.c_char * 32)(*[b"\\xff"] * 32) for _ in range(2000)]
    filled += [b"\\xff" * size for size in range(16, 200) for _ in range(20)]
    del run
print("freed")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.strip() == "freed", done.stderr
