"""assert_close: are two tensors, or nested collections of them, equal up to rounding?"""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from pullback.core.dtype import OF_NUMBERS, from_numpy_dtype
from pullback.core.tensor import Tensor
from pullback.operators.create.data import as_tensor

# dtype -> relative and absolute tolerance; everything else must be equal.
_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


@dataclass(frozen=True)
class _Rules:
    """What counts as close."""

    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_stride: bool
    check_layout: bool = True


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere.

    Takes tensors, arrays, numbers, None, and sequences or mappings of such. Tolerances follow from
    the dtype unless both are given; integers and bools must be equal.

    >>> import pullback as torch
    >>> torch.testing.assert_close(torch.tensor(1.0), torch.tensor(1.0 + 1e-7))
    >>> torch.testing.assert_close(torch.tensor([1, 2]), torch.tensor([1, 3]))
    Traceback (most recent call last):
    ...
    AssertionError: 1 of 2 elements differ, by 1 at most, at [1]: got 2, expected 3.
    """
    if (rtol is None) != (atol is None):
        raise ValueError("assert_close: give rtol and atol, or neither of them.")
    rules = _Rules(rtol, atol, equal_nan, check_device, check_dtype, check_stride, check_layout)
    for place, problem in _problems(actual, expected, "", rules, allow_subclasses):
        text = f"{problem} (in {place})" if place else problem
        raise AssertionError(msg(text) if callable(msg) else msg or text)


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """An older `assert_close`: takes what can become tensors, of any dtype; NaN equals NaN.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", FutureWarning)
    ...     assert_allclose([1.0, 2.0], numpy.array([1.0, 2.0]))
    """
    warnings.warn(
        "assert_allclose is deprecated in favour of assert_close.", FutureWarning, stacklevel=2
    )
    given = [one if isinstance(one, Tensor) else as_tensor(one) for one in (actual, expected)]
    if (rtol is None) != (atol is None):
        raise ValueError("assert_allclose: give rtol and atol, or neither of them.")
    assert_close(
        *given,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=True,
        check_dtype=False,
        check_stride=False,
        msg=msg or None,
    )


def _problems(
    actual: Any, expected: Any, place: str, rules: _Rules, subclasses: bool
) -> Iterator[tuple[str, str]]:
    """Places in the collections and what is wrong there, the first one first."""
    if _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            yield place, f"{len(actual)} items, expected {len(expected)}."
            return
        for number, pair in enumerate(zip(actual, expected, strict=True)):
            yield from _problems(*pair, f"{place}[{number}]", rules, subclasses)
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            missing, extra = expected.keys() - actual.keys(), actual.keys() - expected.keys()
            yield place, f"keys differ: missing {sorted(missing)}, unexpected {sorted(extra)}."
            return
        for key, value in actual.items():
            yield from _problems(value, expected[key], f"{place}[{key!r}]", rules, subclasses)
    elif actual is None or expected is None:
        if actual is not expected:
            yield place, f"got {actual}, expected {expected}."
    else:
        problem = _problem(actual, expected, rules, subclasses)
        if problem is not None:
            yield place, problem


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _problem(actual: Any, expected: Any, rules: _Rules, subclasses: bool) -> str | None:
    """What is wrong with two leaves of the collections."""
    kinds = (Tensor, numpy.ndarray, numbers.Number)
    related = any(isinstance(actual, k) and isinstance(expected, k) for k in kinds)
    exact = type(actual) is type(expected)
    is_tensor = isinstance(actual, Tensor)
    if not related or not (subclasses or exact or not is_tensor):
        raise TypeError(
            f"assert_close: no comparison of {type(actual).__name__} and {type(expected).__name__};"
            " both must be tensors, arrays, numbers, or collections of such."
        )
    if isinstance(actual, numbers.Number) and rules.check_dtype and not exact:
        return f"got a {type(actual).__name__}, expected a {type(expected).__name__}."
    if is_tensor and rules.check_device and actual.device != expected.device:
        return f"device is {actual.device}, expected {expected.device}."
    if is_tensor and (actual._layout is not None or expected._layout is not None):
        if rules.check_layout and actual.layout is not expected.layout:
            return f"layout is {actual.layout}, expected {expected.layout}."
        actual, expected = (one.detach().to_dense() for one in (actual, expected))
    a, b = (numpy.asanyarray(getattr(one, "_array", one)) for one in (actual, expected))
    if a.shape != b.shape:
        return f"shape is {a.shape}, expected {b.shape}."
    if rules.check_dtype and a.dtype != b.dtype:
        return f"dtype is {from_numpy_dtype(a.dtype)}, expected {from_numpy_dtype(b.dtype)}."
    if rules.check_stride and a.strides != b.strides:
        return f"strides are {a.strides} bytes, expected {b.strides}."
    return _difference(a, b, rules)


def _difference_of_numbers(a: Any, b: Any, rules: _Rules) -> str | None:
    """Of fractions and other numbers: equal, unless a tolerance is given."""
    tolerances = [a.dtype.type(one or 0) for one in (rules.rtol, rules.atol)]
    for place in numpy.ndindex(a.shape):
        one, other = a[place].item(), b[place].item()
        if not (one == other or abs(one - other) <= tolerances[1] + tolerances[0] * abs(other)):
            return f"elements differ at {list(place)}: got {one}, expected {other}."
    return None


def _difference(a: Any, b: Any, rules: _Rules) -> str | None:
    if OF_NUMBERS in (a.dtype.char, b.dtype.char):
        return _difference_of_numbers(a, b.astype(a.dtype), rules)
    if rules.rtol is None or rules.atol is None:
        pairs = [_TOLERANCES.get(str(from_numpy_dtype(x.dtype)).split(".")[-1]) for x in (a, b)]
        known = [pair for pair in pairs if pair is not None]
        rtol = max((pair[0] for pair in known), default=0.0)
        atol = max((pair[1] for pair in known), default=0.0)
    else:
        rtol, atol = rules.rtol, rules.atol
    whole = a.dtype.kind in "biu" and b.dtype.kind in "biu"
    wide = object if whole else numpy.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else float
    a, b = a.astype(wide), b.astype(wide)
    with numpy.errstate(all="ignore"):
        apart = numpy.asarray(abs(a - b))
        near = (a == b) | (apart <= atol + rtol * abs(b)) & (whole or numpy.isfinite(b))
        if rules.equal_nan and not whole:
            near |= numpy.isnan(a) & numpy.isnan(b)
    wrong = ~numpy.asarray(near, bool)
    if not wrong.any():
        return None
    places = numpy.argwhere(wrong)
    worst = tuple(max(places.tolist(), key=lambda at: _size(apart[tuple(at)])))
    at = f", at {list(worst)}" if worst else ""
    return (
        f"{len(places)} of {a.size} elements differ, by {apart[worst]:.6g} at most{at}: "
        f"got {a[worst]}, expected {b[worst]}" + (f" (rtol {rtol}, atol {atol})." if atol else ".")
    )


def _size(value: Any) -> float:
    return float("inf") if value != value else float(value)
