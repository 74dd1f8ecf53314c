"""Numbers that are written to tensors."""

import numpy
import pytest

import pullback as torch
from pullback.operators.running.writes import number_array

DTYPES = [torch.bool, torch.uint8, torch.int16, torch.int64, torch.float16, torch.bfloat16]
DTYPES += [torch.float32, torch.float64, torch.complex64, torch.complex128]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("value", [0, 5, True, 2.0, -0.0, 3 + 0j])
def test_a_number_as_an_array_is_that_number_in_the_dtype(value, dtype):
    made = number_array("fill_", value, dtype.numpy)
    assert made.dtype == dtype.numpy
    assert made.shape == ()
    wanted = bool(value) if dtype is torch.bool else value
    assert made == wanted
    if dtype.is_floating_point:
        assert numpy.signbit(made.astype(numpy.float64)) == (str(value) == "-0.0")
