"""Norms whose squares leave the range of their dtype, and bounds below which nothing falls."""

import math

import numpy
import pytest

import pullback as torch
from pullback.operators.pointwise.arithmetic import lifted


@pytest.mark.parametrize("rows", [1, 2, 8, 9, 40])
@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e30])
@pytest.mark.parametrize("keepdim", [False, True])
def test_squares_may_leave_the_range_in_one_row_of_few_or_many(rows, scale, keepdim):
    values = torch.ones(rows, 4)
    values[rows // 2] = scale
    norms = torch.linalg.vector_norm(values, dim=1, keepdim=keepdim)
    expected = torch.full((rows,), 2.0)
    expected[rows // 2] = 2 * scale
    torch.testing.assert_close(norms.reshape(-1), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("values", [[math.nan, 1.0], [1.0, math.nan], [math.inf, 1.0]])
@pytest.mark.parametrize("copies", [1, 10])
def test_a_norm_that_is_no_number_leaves_the_others_right(values, copies):
    rows = torch.tensor(values * copies)[:, None] * torch.ones(2)
    norms = torch.linalg.vector_norm(rows, dim=1)
    expected = torch.tensor(values * copies) * math.sqrt(2)
    torch.testing.assert_close(norms, expected, equal_nan=True)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,)])
def test_what_is_lifted_to_a_bound_keeps_dtype_shape_and_gradient(dtype, shape):
    values = numpy.linspace(-1, 1, math.prod(shape)).astype(dtype).reshape(shape)
    x = torch.from_numpy(values).requires_grad_()
    made = lifted(x, 0.25)
    expected = numpy.maximum(numpy.asarray(0.25, dtype), values)
    assert made.shape == shape
    assert made.detach().numpy().dtype == dtype
    assert (made.detach().numpy() == expected).all()
    made.sum().backward()
    assert (x.grad == 1).all()


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("scale", [1, 1e-30, 1e30])
def test_norms_of_rows_are_real_and_right_whatever_their_scale(dtype, scale):
    rows = numpy.random.default_rng(0).standard_normal((3, 5)).astype(dtype)
    rows = rows * 1j if dtype[0] == "c" else rows
    rows = (rows * scale).astype(dtype)
    found = torch.linalg.vector_norm(torch.from_numpy(rows), dim=1).numpy()
    assert found.dtype == rows.real.dtype
    wide = rows.astype("c16")
    numpy.testing.assert_allclose(found, (numpy.abs(wide) ** 2).sum(1) ** 0.5, rtol=1e-6)


def test_many_slices_have_gradients():
    x = torch.rand(1500, 3, dtype=torch.float64, requires_grad=True)
    torch.renorm(x, 2, 0, 0.5).sum().backward()
    few = x.detach()[:10].clone().requires_grad_()
    torch.renorm(few, 2, 0, 0.5).sum().backward()
    assert torch.allclose(x.grad[:10], few.grad, rtol=1e-12)


@pytest.mark.parametrize("ord", [0.5, 1, 2, 3, torch.inf])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("other", [0.0, 0.5, 1e30])
def test_a_complex_infinity_is_infinitely_long(ord, dtype, other):
    """A part divided by the largest is NaN where the division is that of complex numbers."""
    rows = torch.tensor([[1 + 1j, 2.0], [complex(torch.inf, other), 1.0], [3.0, 4j]], dtype=dtype)
    norm = torch.linalg.vector_norm
    assert norm(rows, ord) == torch.inf
    assert norm(rows, ord, dim=1).isinf().tolist() == [False, True, False]
    assert norm(rows.T, ord, dim=0, keepdim=True).isinf().tolist() == [[False, True, False]]
