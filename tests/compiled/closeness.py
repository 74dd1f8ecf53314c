"""Compiled results against those of eager: the same but for rounding, or to the last bit."""

import numpy as np


def close(a, b):
    np.testing.assert_allclose(a.detach()._array, b.detach()._array, rtol=1e-5, atol=1e-6)


def assert_same_bits(a, b):
    """Signs of zeros and payloads of NaN too."""
    assert_same_arrays(a.detach()._array, b.detach()._array)


def assert_same_arrays(a, b):
    """The same of arrays."""
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    if a.tobytes() != b.tobytes():
        np.testing.assert_array_equal(a, b)  # shows where they differ
        raise AssertionError("the same numbers, but other signs of zeros or kinds of NaN")
