"""Every operator that takes numbers of another type gives what it gives in float64, and no less.

Two laws run over all operators and their samples: fractions agree with floats, and long floats lose
no digits on the way: with 40 and with 60 digits the results are the same to 34.
"""

import warnings
from fractions import Fraction

import numpy
import pytest

import pullback as torch
from pullback.core.tensor import Tensor
from pullback.testing import SAMPLES, samples_for
from pullback.testing.samples import SampleInput, resolve

mpmath = pytest.importorskip("mpmath")
mp = mpmath.mp

# Give another dtype by their name.
CONVERSIONS = {"Tensor.double"}
NAMES = [name for name in SAMPLES if name not in CONVERSIONS and resolve(torch, name) is not None]
# Errors that say in a clear sentence what is not possible.
REFUSALS = (NotImplementedError, TypeError, RuntimeError, ZeroDivisionError, ValueError)
SAMPLES_OF_EACH = 2
# A test for each name would spend more time around the tests than in them.
GROUPS = [NAMES[first::24] for first in range(24)]


def as_numbers(value, kind):
    if isinstance(value, Tensor):
        if value.dtype is not torch.float64:
            return value
        return value.detach().to(kind).requires_grad_(value.requires_grad)
    if isinstance(value, tuple | list):
        return type(value)(as_numbers(one, kind) for one in value)
    if isinstance(value, dict):
        return {name: as_numbers(one, kind) for name, one in value.items()}
    return kind if value is torch.float64 else value


def samples(name):
    """Those of plain tensors with finite elements."""
    for sample, _ in zip(samples_for(name), range(SAMPLES_OF_EACH), strict=False):
        floats = [one for one in sample.tensors if one.dtype is torch.float64]
        plain = [one for one in floats if one._layout is None]
        if floats and plain == floats and all(numpy.isfinite(one._array).all() for one in floats):
            yield sample, floats


def round_to_short(floats):
    """To sixteenths: fractions of 53 bits grow large quickly."""
    for one in floats:
        array = one.detach()._array
        array[...] = numpy.round(array * 16) / 16 if array.flags.writeable else array


def tensors(result):
    if isinstance(result, Tensor):
        return [result]
    return [one for part in result for one in tensors(part)] if isinstance(
        result, tuple | list) else []  # fmt: skip


def results(function, sample):
    """Results, and gradients with small whole numbers for those of the results."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = tensors(sample.call(function))
        carrying = [one for one in made if one.requires_grad]
        if not carrying or not sample.differentiable:
            return made, []
        units = [torch.arange(1, one.numel() + 1).reshape(one.shape).to(one.dtype)
                 for one in carrying]  # fmt: skip
        found = torch.autograd.grad(carrying, sample.differentiable, units, allow_unused=True)
    return made, list(found)


def floats_of(tensor):
    tensor = tensor.detach()
    return (tensor if tensor.dtype.numpy.char != "#" else tensor.to(torch.float64)).numpy()


def converted(sample, kind):
    return SampleInput(*(as_numbers(one, kind) for one in (sample.input, sample.args,
                                                           sample.kwargs)))  # fmt: skip


def tried(function, sample, kind):
    """None for what is refused."""
    try:
        return results(function, converted(sample, kind))
    except REFUSALS:
        return None


@pytest.mark.parametrize("names", GROUPS)
def test_fractions_agree_with_float64(names):
    for name in names:
        check_fractions(name)


def check_fractions(name):
    function = resolve(torch, name)
    for sample, floats in samples(name):
        round_to_short(floats)
        try:
            wanted, slopes = results(function, sample)
        except REFUSALS:
            continue
        made = tried(function, sample, Fraction)
        if made is None:
            continue
        compare(name, wanted, slopes, made)


@pytest.mark.parametrize("names", GROUPS)
def test_long_floats_agree_with_float64_and_lose_no_digits(names):
    for name in names:
        check_long_floats(name)


def check_long_floats(name):
    function = resolve(torch, name)
    before = mp.dps
    try:
        for sample, _ in samples(name):
            mp.dps = 40
            fewer = tried(function, sample, mp.mpf)
            mp.dps = 60
            more = tried(function, sample, mp.mpf)
            assert (fewer is None) == (more is None)
            if more is None:
                continue
            try:
                wanted, slopes = results(function, sample)
            except REFUSALS:
                continue
            compare(name, wanted, slopes, more)
            same_digits(name, fewer, more)
    finally:
        mp.dps = before


def same_digits(name, fewer, more):
    near = mp.mpf(10) ** -34
    for a, b in zip([*fewer[0], *fewer[1]], [*more[0], *more[1]], strict=True):
        if a is None or a.dtype.numpy.char != "#":
            continue
        pairs = zip(a.detach().numpy().flat, b.detach().numpy().flat, strict=True)
        for one, other in pairs:
            nan = one != one and other != other
            assert nan or one == other or abs(one - other) <= near * max(1, abs(other)), name


def compare(name, wanted, slopes, made):
    assert len(wanted) == len(made[0])
    for one, other in zip(wanted, made[0], strict=True):
        assert (other.dtype.numpy.char == "#") == (one.dtype is torch.float64)
        assert one.requires_grad == other.requires_grad
        numpy.testing.assert_allclose(
            floats_of(other), floats_of(one), rtol=1e-9, atol=1e-10, err_msg=name
        )
    for one, other in zip(slopes, made[1], strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert other.dtype.numpy.char == "#"
            numpy.testing.assert_allclose(
                floats_of(other), floats_of(one), rtol=1e-8, atol=1e-9, err_msg=name
            )


def test_most_operators_take_such_numbers():
    """The laws above pass over what is refused: here that is held within bounds."""
    taken = {"Fraction": set(), "mpf": set()}
    kinds = {"Fraction": Fraction, "mpf": mp.mpf}
    for name in NAMES:
        function = resolve(torch, name)
        for sample, floats in list(samples(name))[:1]:
            round_to_short(floats)
            for kind, numbers in kinds.items():
                if tried(function, sample, numbers) is not None:
                    taken[kind].add(name)
    assert len(taken["Fraction"]) >= 340
    assert len(taken["mpf"]) >= 480
    assert {"matmul", "nn.functional.conv2d", "linalg.solve", "einsum"} <= taken["Fraction"]
    assert {"nn.functional.gelu", "softmax", "nn.functional.layer_norm", "lgamma"} <= taken["mpf"]
