"""make_tensor: a tensor of random numbers for tests, of any dtype, range and layout."""

from __future__ import annotations

import math
import warnings
from typing import Any

from pullback.core.dtype import as_dtype
from pullback.core.limits import finfo, iinfo
from pullback.operators.create.sizes import empty
from pullback.operators.pointwise.complex import view_as_real
from pullback.operators.random.tensors import randint

__all__ = ["make_tensor"]

_WHOLE, _REAL, _BOOL = (-9, 10), (-9, 9), (0, 2)  # torch's ranges


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Any:
    """Random numbers from `low` to below `high`; by default from -9 to 9, whole ones included 9.

    `noncontiguous` leaves a gap after each element, `exclude_zero` puts the smallest positive
    number (1 for whole ones) in the place of zeros.

    Example:
        >>> import pullback as torch
        >>> x = torch.testing.make_tensor(2, 3, dtype=torch.int64, device="cpu", low=5, high=6)
        >>> x.tolist()
        [[5, 5, 5], [5, 5, 5]]
    """
    kind = as_dtype(dtype)
    sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    whole = not (kind.is_floating_point or kind.is_complex)
    if requires_grad and whole:
        raise ValueError(f"make_tensor: a tensor of {kind} cannot require grad.")
    if noncontiguous and memory_format is not None:
        raise ValueError("make_tensor: give noncontiguous or memory_format, not both.")
    # Twice as long, and every second element taken; one element has no gaps to show.
    spread = noncontiguous and math.prod(sizes) > 1
    drawn_sizes = (*sizes[:-1], 2 * sizes[-1]) if spread else sizes
    result = _drawn(kind, drawn_sizes, device, low, high)
    if spread:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = 1 if whole else finfo(kind).tiny
    return result.requires_grad_() if requires_grad else result


def _drawn(kind: Any, sizes: Any, device: Any, low: Any, high: Any) -> Any:
    if not (kind.is_floating_point or kind.is_complex):
        start, end = _whole_range(kind, low, high)
        return randint(start, end, sizes, dtype=kind, device=device)
    largest = finfo(kind).max
    start, end = _range(low, high, _REAL, -largest, largest, may_be_one=True)
    if start == end:
        return empty(sizes, dtype=kind, device=device).fill_(start)
    made: Any = empty(sizes, dtype=kind, device=device)
    parts = view_as_real(made) if kind.is_complex else made
    parts.uniform_(start, end)
    return made


def _whole_range(kind: Any, low: Any, high: Any) -> tuple[int, int]:
    is_bool = kind.numpy.kind == "b"
    least, most = (0, 1) if is_bool else (iinfo(kind).min, iinfo(kind).max)
    defaults = _BOOL if is_bool else _WHOLE
    # The end is not among the numbers, so one more than the largest; int64 has no such end.
    end = min(most + 1, 2**63 - 1)
    start, stop = _range(low, high, defaults, least, end, may_be_one=False)
    return math.ceil(start), math.ceil(stop)


def _range(
    low: Any, high: Any, defaults: tuple[int, int], least: Any, most: Any, *, may_be_one: bool
) -> tuple[Any, Any]:
    start = defaults[0] if low is None else low
    end = defaults[1] if high is None else high
    if start != start or end != end:
        raise ValueError(f"make_tensor: low and high must be numbers, got {start} and {end}.")
    if may_be_one and start == end and low is not None:
        warnings.warn(
            "make_tensor: low equals high; use torch.full for a tensor of one number.",
            FutureWarning,
            stacklevel=5,
        )
    elif start >= end:
        raise ValueError(f"make_tensor: low must be less than high, got {start} and {end}.")
    return max(least, min(start, most)), max(least, min(end, most))
