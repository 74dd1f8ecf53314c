"""Integers and truth values in machine code: eager's bits, at the ends of each type too."""

from __future__ import annotations

import warnings

import numpy
import pytest

import pullback as torch
from pullback.compiled.backends import is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="machine code needs llvmlite")

KINDS = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
REAL = [torch.float32, torch.float64]


def _compiled(function):
    return torch.compile(function, options={"never_slower": False})


def _kernels(compiled):
    """Names of calls that stayed eager kernels."""
    found = set()
    for entry in compiled.entries:
        for program in entry.programs():
            found |= {name for name, way in program.how.items() if way == "kernel"}
    return found


def _numbers(dtype, count=75):
    """Numbers of a dtype, its first and last ones among them."""
    rng = numpy.random.default_rng(3)
    if dtype is torch.bool:
        return torch.tensor(rng.integers(0, 2, count) > 0)
    info = numpy.iinfo(dtype.numpy)
    low, high = max(info.min, -(2**40)), min(info.max, 2**40)
    made = rng.integers(low, high, count, endpoint=True)
    made[:6] = [info.min, info.max, info.min + 1, info.max - 1, 0, 1]
    return torch.tensor(made.astype(dtype.numpy))


def _same(function, *args, lowered=True):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = function(*args)
        compiled = _compiled(function)
        for _ in range(2):
            ours = compiled(*args)
    if isinstance(theirs, torch.Tensor):
        ours, theirs = (ours,), (theirs,)
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype is other.dtype
        numpy.testing.assert_array_equal(one.numpy(), other.numpy())
    if lowered:
        assert _kernels(compiled) == set()


@pytest.mark.parametrize("source", [*KINDS, *REAL])
def test_casts_give_numpys_bits(source):
    if source in REAL:
        large = [
            2.0**31,
            -(2.0**31),
            2.0**63,
            -(2.0**63),
            1e30,
            -1e30,
            numpy.inf,
            -numpy.inf,
            numpy.nan,
        ]
        x = torch.tensor([0.0, -0.0, 0.5, -0.9, 1.5, -2.5, 254.9, 255.0, 256.0, -129.0, *large])
        x = torch.cat([x, torch.linspace(-300, 300, 40)]).to(source)
    else:
        x = _numbers(source)
    others = [one for one in (*KINDS, *REAL) if one is not source]
    _same(lambda x: tuple([x.to(to) for to in others]), x)
    _same(lambda x: tuple([x[0].to(to) for to in others]), x)


ARITHMETIC = [
    lambda x, y: (x + y) * x,
    lambda x, y: x - y,
    lambda x, y: 3 - x,
    lambda x, y: torch.sub(x, y, alpha=2),
    lambda x, y: -x,
    lambda x, y: x.abs(),
    lambda x, y: torch.maximum(x, y) - torch.minimum(x, y),
    lambda x, y: (x & y) | (x ^ y),
    lambda x, y: ~x,
    lambda x, y: x // 7,
    lambda x, y: x % 7,
    lambda x, y: torch.where(x > y, x, y),
    lambda x, y: (x < y) | (x == y),
    lambda x, y: (x >= y) & (x != 3),
    lambda x, y: x.masked_fill(x > 5, 7),
    lambda x, y: torch.zeros_like(x) + y,
    lambda x, y: x[:10].float() * 2 + y[:10],
    lambda x, y: x.sum() + y.sum(),
    lambda x, y: x.reshape(5, 15).sum(1),
    lambda x, y: x.reshape(5, 15).sum(0, keepdim=True),
    lambda x, y: torch.cat([x, y]) + 1,
]


@pytest.mark.parametrize("dtype", KINDS[1:])
def test_arithmetic_wraps_as_eagers(dtype):
    x = _numbers(dtype)
    _same(lambda x, y: tuple([one(x, y) for one in ARITHMETIC]), x, x.flip(0).contiguous())


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64])
@pytest.mark.parametrize("divisor", [-7, -2, 3, 100])
def test_quotients_are_rounded_down(dtype, divisor):
    x = _numbers(dtype)
    _same(lambda x: x // divisor + x % divisor, x)


@pytest.mark.parametrize("divisor", [0, -1])
def test_divisors_without_a_quotient_are_eagers(divisor):
    x = torch.tensor([5, -7])

    def function(x):
        return x // divisor

    found = []
    for one in (function, _compiled(function)):
        try:
            found.append(one(x).tolist())
        except (ZeroDivisionError, RuntimeError) as error:
            found.append((type(error), str(error)))
    assert found[0] == found[1]


@pytest.mark.parametrize("limits", [(3, 50), (None, 7), (-5, None), (9, 2), (2.5, 7.5)])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8])
def test_limits_of_integers(limits, dtype):
    _same(lambda x: x.clamp(*limits), _numbers(dtype), lowered=False)


def test_truth_values():
    x, y = _numbers(torch.bool), _numbers(torch.bool).flip(0).contiguous()
    _same(lambda x, y: (x & ~y) | (x ^ y), x, y)
    _same(lambda x, y: x.sum() - y.sum(), x, y)
    _same(lambda x, y: x.float() * 2 - y.to(torch.int16), x, y)
    _same(lambda x, y: torch.where(x, 1, 2) + y, x, y)
    _same(lambda x, y: x < y, x, y)
    _same(lambda x, y: (x + y) * x, x, y, lowered=False)


def test_an_image_of_bytes_is_one_native_program():
    def function(image, mean):
        return (image.permute(2, 0, 1).float() / 255 - mean) * 2

    image = torch.tensor(numpy.random.default_rng(0).integers(0, 256, (5, 6, 3)).astype("u1"))
    compiled = _compiled(function)
    made = compiled(image, torch.ones(3, 1, 1))
    assert torch.allclose(made, function(image, torch.ones(3, 1, 1)))
    assert _kernels(compiled) == set()
