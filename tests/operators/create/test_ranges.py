"""arange, range, linspace, logspace."""

import math
from itertools import pairwise

import pytest

import pullback as torch


def test_arange_is_integral_if_all_three_are():
    assert torch.arange(3).dtype is torch.int64
    assert torch.arange(3.0).dtype is torch.float32
    assert torch.arange(0, 3, 0.5).dtype is torch.float32
    assert torch.arange(torch.tensor(3)).dtype is torch.int64


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((3,), [0, 1, 2]),
        ((1, 4), [1, 2, 3]),
        ((1, 6, 2), [1, 3, 5]),
        ((5, 1, -1), [5, 4, 3, 2]),
        ((10, 0, -3), [10, 7, 4, 1]),
        ((0,), []),
        ((2**62, 2**62 + 2), [2**62, 2**62 + 1]),
        ((1, 2.5, 0.5), [1, 1.5, 2]),
    ],
)
def test_arange_values(bounds, expected):
    assert torch.arange(*bounds).tolist() == expected


def test_arange_names():
    assert torch.arange(end=3).tolist() == [0, 1, 2]
    assert torch.arange(start=1, end=3).tolist() == [1, 2]
    assert torch.arange(1, end=3).tolist() == [1, 2]
    for wrong in ({"start": 2}, {}, {"step": 2}):
        with pytest.raises(TypeError, match=r"arange\(\) takes"):
            torch.arange(**wrong)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((5, 1), "change the sign of step"),
        ((1, 5, 0), "step must not be 0"),
        ((math.nan,), "no end"),
        ((math.inf,), "no end"),
        ((1j,), "must be real"),
        ((2**63,), "does not fit"),
    ],
)
def test_impossible_ranges(bounds, message):
    with pytest.raises(RuntimeError, match=message):
        torch.arange(*bounds)


def test_arange_in_other_dtypes():
    assert torch.arange(0.5, 4.7, 1.5, dtype=torch.int32).tolist() == [0, 1, 2]
    assert torch.arange(2.7, dtype=torch.int64).tolist() == [0, 1]
    for dtype in (torch.bool, torch.complex64):
        with pytest.raises(NotImplementedError, match="not possible"):
            torch.arange(2, dtype=dtype)


def test_range_includes_its_end_and_warns():
    with pytest.warns(UserWarning, match="use arange"):
        assert torch.range(0, 1, 0.5).tolist() == [0, 0.5, 1]


@pytest.mark.parametrize("steps", [0, 1, 2, 5, 6])
def test_linspace_reaches_both_ends(steps):
    values = torch.linspace(0.1, 0.7, steps, dtype=torch.float64).tolist()
    assert len(values) == steps
    assert values[:1] == [0.1][:steps]
    if steps > 1:
        assert values[-1] == 0.7
        gaps = [b - a for a, b in pairwise(values)]
        assert max(gaps) - min(gaps) < 1e-15


def test_linspace_of_integers_drops_fractions():
    assert torch.linspace(0, 10, 5, dtype=torch.int32).tolist() == [0, 2, 5, 7, 10]
    assert torch.linspace(0, 1j, 3).tolist() == [0, 0.5j, 1j]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((0, 1, -1), RuntimeError),
        ((0, 1, 3.0), TypeError),
        ((0, 1), TypeError),
    ],
)
def test_linspace_refuses(arguments, error):
    with pytest.raises(error):
        torch.linspace(*arguments)


def test_ends_may_be_tensors_without_dimensions():
    assert torch.linspace(torch.tensor(0.0), 1, 3).tolist() == [0, 0.5, 1]
    with pytest.raises(RuntimeError, match="0-d tensor"):
        torch.linspace(torch.tensor([0.0]), 1, 3)
    with pytest.raises(RuntimeError, match="complex ends"):
        torch.linspace(0, 1j, 3, dtype=torch.float32)


def test_logspace_is_a_power_of_linspace():
    assert torch.logspace(0, 2, 3).tolist() == [1, 10, 100]
    assert torch.logspace(0, 2, 3, base=2).tolist() == [1, 2, 4]
    with pytest.raises(TypeError, match="base` must be a real number"):
        torch.logspace(0, 2, 3, base=1j)
