"""Expressions that make and convert tensors, each evaluated on torch and on pullback.

`creation.txt` holds one expression a line, in sections. Both sides must give the same value, dtype,
shape, strides and flags, or raise the same type of exception.
"""

import pathlib
import warnings

import numpy
import pytest

import pullback

torch = pytest.importorskip("torch")


def sections():
    found, current = {}, None
    for line in (pathlib.Path(__file__).parent / "creation.txt").read_text().splitlines():
        if line.startswith("# "):
            current = found.setdefault(line[2:], [])
        elif line:
            current.append(line)
    return found


def described(value, lib):
    if isinstance(value, lib.Tensor):
        flags = value.requires_grad, value.is_leaf
        return repr(value), str(value.dtype), tuple(value.shape), value.stride(), flags
    return repr(value)


def outcome(expression, lib):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return described(eval(expression, {"torch": lib, "np": numpy}), lib)
        except Exception as error:
            return type(error)


@pytest.mark.parametrize("name", sections())
def test_same_outcome(name):
    pytest.importorskip("ml_dtypes")
    different = []
    for expression in sections()[name]:
        theirs, ours = outcome(expression, torch), outcome(expression, pullback)
        if theirs != ours:
            different.append(f"{expression}\n  torch    {theirs}\n  pullback {ours}")
    assert not different, "\n".join(different)


@pytest.mark.parametrize("ends", [(0, 1), (0.1, 0.7), (-3, 10), (5, -5)])
@pytest.mark.parametrize("steps", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "float16"])
def test_linspace_and_logspace_are_close(ends, steps, dtype):
    tolerance = 2e-3 if dtype == "float16" else 1e-5
    for make in ("linspace", "logspace"):
        options = {} if make == "linspace" else {"base": 1.5}
        theirs = getattr(torch, make)(*ends, steps, dtype=getattr(torch, dtype), **options)
        ours = getattr(pullback, make)(*ends, steps, dtype=getattr(pullback, dtype), **options)
        numpy.testing.assert_allclose(ours.numpy(), theirs.numpy(), tolerance, tolerance)


@pytest.mark.parametrize("bounds", [(0, 1, 0.1), (1, 1.3, 0.1), (-2, 7, 0.37), (3, -3, -0.25)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_arange_has_equal_length_and_close_values(bounds, dtype):
    theirs = torch.arange(*bounds, dtype=getattr(torch, dtype))
    ours = pullback.arange(*bounds, dtype=getattr(pullback, dtype))
    assert ours.shape == tuple(theirs.shape)
    eps = torch.finfo(theirs.dtype).eps
    numpy.testing.assert_allclose(ours.numpy(), theirs.numpy(), 4 * eps, 4 * eps)


FROM = ["float32", "float64", "float16", "int64", "int16", "uint8", "bool", "complex64"]


@pytest.mark.parametrize("source", FROM)
@pytest.mark.parametrize("target", FROM)
def test_casts_are_equal(source, target):
    values = numpy.array([0, 1, 2.7, -2.7, 100, 0.3])
    if source in ("uint8", "bool") or target == "uint8":
        values = abs(values)
    array = values.astype(source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = torch.from_numpy(array).to(getattr(torch, target))
        ours = pullback.from_numpy(array).to(getattr(pullback, target))
    numpy.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_dlpack_shares_memory_with_torch():
    theirs = torch.zeros(3)
    ours = pullback.from_dlpack(theirs)
    ours.add_(1)
    assert theirs.tolist() == [1, 1, 1]
    torch.from_dlpack(ours).add_(1)
    assert ours.tolist() == [2, 2, 2]
    assert torch.as_tensor(ours.numpy()).data_ptr() == theirs.data_ptr()
