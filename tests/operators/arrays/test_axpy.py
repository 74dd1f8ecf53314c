"""Large sums with a scaled term, by BLAS: what they give, and what is left to NumPy."""

import numpy
import pytest

import pullback as torch
from pullback.operators.arrays import axpy
from pullback.operators.arrays.axpy import LARGE, add_multiple, combine


def drawn(*shape, dtype="f"):
    return numpy.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("scale", [0.3, -2, 1])
def test_a_multiple_is_added_with_one_rounding(dtype, scale):
    y, x = drawn(LARGE + 7, dtype=dtype), drawn(LARGE + 7, dtype=dtype)[::-1].copy()
    wide = y.astype("g") + y.dtype.type(scale).astype("g") * x.astype("g")
    assert add_multiple(y, x, scale) == (axpy._found("axpy", y.dtype) is not None)
    if axpy._found("axpy", y.dtype) is not None:
        numpy.testing.assert_allclose(y.astype("g"), wide, rtol=0, atol=numpy.finfo(dtype).eps * 4)


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize(("kept", "scale"), [(0.9, 1), (0.999, 0.001), (-2, 3)])
def test_a_multiple_of_both_is_their_sum(dtype, kept, scale):
    y, x = drawn(LARGE + 7, dtype=dtype), drawn(LARGE + 7, dtype=dtype)[::-1].copy()
    one = y.dtype.type
    wide = one(kept).astype("g") * y.astype("g") + one(scale).astype("g") * x.astype("g")
    assert combine(y, kept, x, scale) == (axpy._found("axpby", y.dtype) is not None)
    if axpy._found("axpby", y.dtype) is not None:
        numpy.testing.assert_allclose(y.astype("g"), wide, rtol=0, atol=numpy.finfo(dtype).eps * 8)


@pytest.mark.parametrize(("kept", "scale"), [(0.0, 0.5), (0.5, 0.0)])
def test_what_is_kept_or_taken_not_at_all_is_left_to_numpy(kept, scale):
    y = drawn(LARGE)
    before = y.copy()
    assert not combine(y, kept, drawn(LARGE), scale)
    numpy.testing.assert_array_equal(y, before)


@pytest.mark.parametrize(
    ("y", "x", "scale"),
    [
        (drawn(8), drawn(8), 0.5),
        (drawn(LARGE), drawn(LARGE), 0.0),
        (drawn(LARGE), drawn(LARGE), 10**400),
        (drawn(LARGE), drawn(LARGE, dtype="d"), 0.5),
        (drawn(LARGE, dtype="e"), drawn(LARGE, dtype="e"), 0.5),
        (drawn(2, LARGE), drawn(LARGE), 0.5),
        (drawn(2 * LARGE)[::2], drawn(LARGE), 0.5),
        (drawn(LARGE), drawn(2 * LARGE)[::2], 0.5),
    ],
)
def test_what_is_no_work_for_blas_is_left_as_it_is(y, x, scale):
    before = y.copy()
    assert not add_multiple(y, x, scale)
    numpy.testing.assert_array_equal(y, before)


def test_memory_that_overlaps_or_cannot_be_written_is_left_to_numpy():
    whole = drawn(LARGE + 1)
    assert not add_multiple(whole[1:], whole[:-1], 0.5)
    fixed = drawn(LARGE)
    fixed.flags.writeable = False
    assert not add_multiple(fixed, drawn(LARGE), 0.5)


@pytest.mark.parametrize("name", ["add", "sub"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("number", [2, 0.3, -0.7, 0.0, float("inf")])
def test_in_place_and_apart_agree_to_the_last_digit_with_and_without_blas(
    monkeypatch, name, dtype, number
):
    x, y = (torch.tensor(drawn(LARGE, dtype="d") + shift, dtype=dtype) for shift in (0, 1))
    apart = getattr(torch, name)(x, y, alpha=number)
    inside = getattr(x.clone(), f"{name}_")(y, alpha=number)
    numpy.testing.assert_array_equal(inside._array, apart._array)
    monkeypatch.setattr(axpy, "_found", lambda called, dtype: None)
    plain = getattr(torch, name)(x, y, alpha=number)
    eps = torch.finfo(dtype).eps
    numpy.testing.assert_allclose(apart._array, plain._array, rtol=0, atol=8 * eps)


def test_infinity_times_no_rate_is_not_a_number():
    x, y = torch.zeros(LARGE), torch.full((LARGE,), torch.inf)
    assert x.add_(y, alpha=0.0).isnan().all()
