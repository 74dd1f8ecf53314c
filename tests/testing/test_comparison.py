"""assert_close finds what differs, and says where."""

import math

import numpy as np
import pytest

import pullback as torch

assert_close = torch.testing.assert_close
NAN = torch.tensor([1.0, math.nan])


@pytest.mark.parametrize(
    ("actual", "expected", "options"),
    [
        (torch.ones(3), torch.ones(3) + 1e-6, {}),
        (torch.ones(3, dtype=torch.bfloat16), torch.ones(3, dtype=torch.bfloat16) + 0.01, {}),
        (torch.ones(3), torch.ones(3, dtype=torch.float64), {"check_dtype": False}),
        (1.0, 1.0 + 1e-8, {}),
        (1, 1.0, {"check_dtype": False}),
        (None, None, {}),
        ([1.0, torch.ones(1)], (1.0, torch.ones(1)), {}),
        ({"a": torch.ones(1)}, {"a": torch.ones(1)}, {}),
        (NAN, NAN, {"equal_nan": True}),
        (np.ones(2), np.ones(2), {}),
        (torch.ones(2), torch.zeros(2), {"rtol": 0, "atol": 1}),
        (torch.tensor([math.inf]), torch.tensor([math.inf]), {}),
        (torch.ones(2, 0), torch.ones(2, 0), {}),
        (torch.tensor(2 + 3j), torch.tensor(2 + 3j), {}),
    ],
)
def test_what_is_close_passes(actual, expected, options):
    assert_close(actual, expected, **options)


@pytest.mark.parametrize(
    ("actual", "expected", "options", "message"),
    [
        (
            torch.ones(3),
            torch.tensor([1, 1, 1.5]),
            {},
            r"1 of 3 .* at \[2\]: got 1.0, expected 1.5",
        ),
        (torch.ones(3), torch.ones(3, dtype=torch.float64), {}, "dtype is torch.float32"),
        (torch.ones(3), torch.ones(2), {}, r"shape is \(3,\), expected \(2,\)"),
        (torch.ones(2, 2).t(), torch.ones(2, 2), {"check_stride": True}, "strides"),
        (1.0, 1.1, {}, "got 1.0, expected 1.1"),
        (1, 1.0, {}, "got a int, expected a float"),
        (True, False, {}, "1 of 1"),
        (NAN, NAN, {}, "got nan"),
        (torch.tensor([math.inf]), torch.tensor([1.0]), {}, "got inf"),
        (torch.tensor([1.0]), torch.tensor([math.inf]), {}, "expected inf"),
        ([1.0], [1.0, 2.0], {}, "1 items, expected 2"),
        ({"a": 1}, {"b": 1}, {}, r"missing \['b'\]"),
        ({"a": [torch.ones(1)]}, {"a": [torch.zeros(1)]}, {}, r"\(in \['a'\]\[0\]\)"),
        (torch.ones(1), None, {}, "expected None"),
        (torch.tensor([2**62]), torch.tensor([2**62 + 1]), {}, "by 1 at most"),
    ],
)
def test_what_is_not_close_is_named(actual, expected, options, message):
    with pytest.raises(AssertionError, match=message):
        assert_close(actual, expected, **options)


def test_the_callers_message_replaces_or_wraps_ours():
    with pytest.raises(AssertionError, match=r"^mine$"):
        assert_close(torch.ones(1), torch.zeros(1), msg="mine")
    with pytest.raises(AssertionError, match=r"^after step 3: 1 of 1"):
        assert_close(torch.ones(1), torch.zeros(1), msg=lambda text: f"after step 3: {text}")


def test_tolerances_come_in_pairs():
    with pytest.raises(ValueError, match="rtol and atol"):
        assert_close(1.0, 1.0, rtol=1e-3)


@pytest.mark.parametrize(
    "pair", [("a", "a"), (torch.ones(2), [1.0, 1.0]), (np.ones(1), torch.ones(1))]
)
def test_what_cannot_be_compared_is_refused(pair):
    with pytest.raises(TypeError, match="no comparison"):
        assert_close(*pair)
