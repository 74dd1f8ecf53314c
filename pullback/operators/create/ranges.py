"""Numbers in a row: arange, range, linspace, logspace."""

from __future__ import annotations

import builtins
import math
import operator
import warnings
from typing import Any

import numpy

from pullback.core import addresses, origin
from pullback.core.arrays import Array
from pullback.core.dtype import NARROW, OF_NUMBERS, NumpyDtype, default, from_numpy_dtype, int64
from pullback.core.mode import settle
from pullback.core.tensor import Tensor, wrap
from pullback.operators.arrays.values import number_argument
from pullback.operators.create.factory import (
    Options,
    Unpack,
    allocated,
    checked,
    made,
    plain_tensor,
    undisturbed,
)
from pullback.operators.create.numbers import number_range, numbers_dtype
from pullback.operators.declare import quick
from pullback.operators.options import as_int
from pullback.operators.running.by_example import each_example, level_reading

FOUND_IN = {"torch": "arange linspace logspace range"}

_UNSET: Any = object()


@quick
def arange(
    *bounds: Any,
    start: Any = _UNSET,
    end: Any = _UNSET,
    step: Any = _UNSET,
    out: Any = None,
    **options: Unpack[Options],
) -> Tensor:
    """Numbers from `start` (0 if only one is given) to `end` (excluded), `step` apart.

    int64 if all three are integers, else the default dtype.

    Example:
        >>> import pullback as torch
        >>> torch.arange(3), torch.arange(1, 2, 0.5)
        (tensor([0, 1, 2]), tensor([1.0000, 1.5000]))
    """
    named = not start is end is step is _UNSET
    if len(bounds) == 1 and type(bounds[0]) is int and not (named or options or out is not None):
        return _counted(bounds[0])  # the usual case
    start, end, step = _bounds(bounds, {"start": start, "end": end, "step": step})
    first, last, by = (_real("arange", *named) for named in _named(start, end, step))
    whole = all(isinstance(number, int) for number in (first, last, by))
    fallback = numbers_dtype({type(one) for one in (first, last, by)}) or default.numpy
    dtype = checked("arange", options, int64.numpy if whole else fallback, out)
    if dtype.char == OF_NUMBERS:
        return made("arange", number_range(first, last, by, dtype), options, out)
    if dtype.kind not in "iufV" or dtype in NARROW:
        raise NotImplementedError(f"arange(): not possible in {from_numpy_dtype(dtype)}.")
    if dtype == int64.numpy:  # exact, where double precision would not be
        if by != 0 and int(by) == 0:
            raise ValueError(f"arange(): a step of {by} is 0 in torch.int64.")
        # Whole numbers stay what they are: a compiled function's remember sizes.
        first, last, by = (one if isinstance(one, int) else int(one) for one in (first, last, by))
    _check_range("arange", first, last, by)
    if isinstance(first, int) and isinstance(last, int) and isinstance(by, int):
        count = -((first - last) // by)
    else:
        count = math.ceil((last - first) / by)
    return made("arange", _steps("arange", first, by, count, dtype), options, out)


def _counted(end: int) -> Tensor:
    if 0 <= end <= _MANY and undisturbed():
        return wrap(numpy.arange(end))
    dtype = checked("arange", {}, int64.numpy)
    _check_range("arange", 0, _real("arange", "end", end), 1)
    if dtype.metadata is not None:
        return made("arange", allocated("arange", numpy.empty, end, dtype), {})
    return wrap(allocated("arange", numpy.arange, 0, end, 1, dtype))


def _bounds(positional: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Start, end and step of `arange`; one number alone is the end."""
    given = {name: value for name, value in named.items() if value is not _UNSET}
    names = ("end",) if len(positional) == 1 and not given else ("start", "end", "step")
    taken = dict(zip(names, positional, strict=False))
    if (
        len(positional) > len(names)
        or taken.keys() & given.keys()
        or "end" not in taken | given
        or ("step" in given and "start" not in taken | given)
    ):
        raise TypeError("arange() takes (end), (start, end) or (start, end, step).")
    given |= taken
    return given.get("start", 0), given["end"], given.get("step", 1)


def _named(start: Any, end: Any, step: Any) -> tuple[tuple[str, Any], ...]:
    return ("start", start), ("end", end), ("step", step)


def _real(op: str, name: str, value: Any) -> Any:
    number = number_argument(op, name, value)
    if isinstance(number, complex):
        raise RuntimeError(f"{op}(): {name} must be real, got {number}.")
    if isinstance(number, int) and not -(2**63) <= number < 2**63:
        raise RuntimeError(f"{op}(): {name}={number} does not fit torch.int64.")
    return int(number) if isinstance(number, bool) else number


def _check_range(op: str, first: Any, last: Any, by: Any) -> None:
    if by == 0 or by != by:
        raise RuntimeError(f"{op}(): step must not be {by}.")
    if not (math.isfinite(first) and math.isfinite(last)):
        raise RuntimeError(f"{op}(): the range from {first} to {last} has no end.")
    if (last - first) * by < 0:
        raise RuntimeError(
            f"{op}(): steps of {by} do not lead from {first} to {last}; change the sign of step."
        )


def _steps(op: str, first: Any, by: Any, count: int, dtype: NumpyDtype) -> Array:
    """First + i * by for `count` values of i: integers exactly, floats in double precision."""
    settle()
    if dtype.kind in "iu":
        index = allocated(op, numpy.arange, 0, count, 1, int64.numpy)
        return (index * int(by) + int(first)).astype(dtype)
    return (allocated(op, numpy.arange, count) * float(by) + float(first)).astype(dtype)


def range(
    start: Any = 0, end: Any = _UNSET, step: Any = 1, *, out: Any = None, **options: Unpack[Options]
) -> Tensor:
    """As `arange`, but with the end, and in the default dtype; `arange` is what torch advises."""
    if end is _UNSET:
        raise TypeError("range() misses its argument `end`; it takes (start, end, step).")
    warnings.warn(
        "range includes its end, unlike Python's, and is deprecated in torch: use "
        "arange(start, end + step, step).",
        UserWarning,
        stacklevel=origin.stacklevel(),
    )
    first, last, by = (_real("range", *named) for named in _named(start, end, step))
    dtype = checked("range", options, default.numpy, out)
    _check_range("range", first, last, by)
    count = math.floor((last - first) / by) + 1
    return made("range", _steps("range", first, by, count, dtype), options, out)


@quick
def linspace(
    start: Any, end: Any, steps: int, *, out: Any = None, **options: Unpack[Options]
) -> Tensor:
    """`steps` evenly spaced numbers from `start` to `end`, both included.

    Example:
        >>> import pullback as torch
        >>> torch.linspace(0, 1, 5)
        tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    if (
        not options
        and out is None
        and type(steps) is int
        and 1 < steps <= _FEW
        and type(start) in _PLAIN
        and type(end) in _PLAIN
        and undisturbed()
    ):
        return plain_tensor(numpy.array(_few(float(start), float(end), steps), default.numpy))
    if (level := level_reading(start, end)) is not None:
        return each_example(level, linspace, start, end, steps, out=out, **options)
    first, last, dtype = _ends("linspace", start, end, steps, options, out)
    array = _spread("linspace", first, last, steps, dtype)
    return made("linspace", array.astype(dtype), options, out)


# Numbers that there is memory for; none where NumPy counts in 32 bits, as in a browser.
_MANY = -1 if addresses.SHORT else 1 << 20
_PLAIN = frozenset((int, float))
_FEW = 24  # up to so many Python counts faster than NumPy's ten calls


def _few(low: float, high: float, count: int) -> list[float]:
    """The numbers of `_spread`, one by one."""
    distance = (high - low) / (count - 1)
    half = count // 2
    first = [low + distance * place for place in builtins.range(half)]
    return first + [high - distance * place for place in builtins.range(count - 1 - half, -1, -1)]


def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    out: Any = None,
    **options: Unpack[Options],
) -> Tensor:
    """`base` to the powers `linspace(start, end, steps)`.

    Example:
        >>> import pullback as torch
        >>> torch.logspace(0, 2, 3)
        tensor([  1.,  10., 100.])
    """
    if (level := level_reading(start, end)) is not None:
        return each_example(level, logspace, start, end, steps, base, out=out, **options)
    base = number_argument("logspace", "base", base)
    if isinstance(base, complex):
        raise TypeError(f"logspace(): base must be a real number, got {base}.")
    first, last, dtype = _ends("logspace", start, end, steps, options, out)
    powers = _spread("logspace", first, last, steps, dtype)
    return made("logspace", (float(base) ** powers).astype(dtype), options, out)


def _ends(
    op: str, start: Any, end: Any, steps: Any, options: Options, out: Any
) -> tuple[Any, Any, NumpyDtype]:
    for name, value in (("start", start), ("end", end)):
        if getattr(value, "_array", None) is not None and value._array.ndim:
            raise RuntimeError(
                f"{op}(): {name} must be a number or a 0-d tensor, got shape {value._array.shape}."
            )
    first, last = (
        number_argument(op, name, value.detach() if hasattr(value, "detach") else value)
        for name, value in (("start", start), ("end", end))
    )
    if as_int(steps, op, "steps") < 0:
        raise RuntimeError(f"{op}(): steps must not be negative, got {steps}.")
    is_complex = isinstance(first, complex) or isinstance(last, complex)
    dtype = checked(op, options, default.complex_numpy if is_complex else default.numpy, out)
    if dtype in NARROW:
        raise NotImplementedError(f"{op}(): not possible in {from_numpy_dtype(dtype)}.")
    if is_complex and dtype.kind != "c":
        raise RuntimeError(f"{op}(): complex ends cannot become {from_numpy_dtype(dtype)}.")
    if dtype.kind == "b":
        raise NotImplementedError(f"{op}(): not possible in torch.bool.")
    return first, last, dtype


def _spread(op: str, first: Any, last: Any, steps: Any, dtype: NumpyDtype) -> Array:
    """Equal distances, counted from the nearer end so that both ends are exact."""
    settle()
    count = operator.index(steps)
    index = allocated(op, numpy.arange, count)
    kind = numpy.complex128 if dtype.kind == "c" else numpy.float64
    low, high = kind(first), kind(last)
    distance = (high - low) / max(count - 1, 1)
    half = count // 2 if count > 1 else 1
    values = numpy.empty(count, kind)
    values[:half] = low + distance * index[:half]
    values[half:] = high - distance * (count - 1 - index[half:])
    return values
