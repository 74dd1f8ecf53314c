"""Functions whose power series have a recurrence: quicker than by their rules, order by order.

Each takes the inputs by name, the coefficients of order 1 and up of the inputs that
have any (along the first dimension), and the result; it gives the coefficients of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.tensor import Tensor
from pullback.operators.shape.joining import stack

__all__ = ["RECURRENCES"]


def _aligned(rows: Any, out: Tensor) -> Any:
    """Coefficients with as many dimensions as those of the result, and its dtype."""
    missing = out.ndim - (rows.ndim - 1)
    if missing:
        rows = rows.reshape((rows.shape[0], *(1,) * missing, *rows.shape[1:]))
    return rows if rows.dtype is out.dtype else rows.to(out.dtype)


def _convolved(a: Any, b: list[Any]) -> Any:
    """`a[0] * b[-1] + a[1] * b[-2] + ...`, as many terms as `b` has."""
    return (a * stack(b[::-1])).sum(0)


def _riccati(constant: int, linear: int, square: int) -> Callable[..., Any]:
    """For y' = (constant + linear * y + square * y * y) * x'."""

    def recurrence(values: dict[str, Any], later: dict[str, Any], out: Tensor) -> Any:
        rows = _aligned(next(iter(later.values())), out)
        slopes = stack([row * (number + 1) for number, row in enumerate(rows)])
        ys: list[Any] = [out]
        factors: list[Any] = []
        for order in range(1, rows.shape[0] + 1):
            factor = linear * ys[-1] + (constant if order == 1 else 0)
            if square:
                factor = factor + square * _convolved(stack(ys), ys)
            factors.append(factor)
            ys.append(_convolved(slopes[:order], factors) / order)
        return stack(ys[1:])

    return recurrence


def _sqrt(values: dict[str, Any], later: dict[str, Any], out: Tensor) -> Any:
    """From y * y = x."""
    rows = _aligned(next(iter(later.values())), out)
    ys: list[Any] = []
    for row in rows:
        inner = row - _convolved(stack(ys), ys) if ys else row
        ys.append(inner / (2 * out))
    return stack(ys)


def _quotient(values: dict[str, Any], later: dict[str, Any], out: Tensor) -> Any:
    """From y * b = a."""
    above, below = later.get("input"), later.get("other")
    divisor = values["other"]
    if below is None:
        return _aligned(above, out) / divisor
    bs = _aligned(below, out)
    ys: list[Any] = [out]
    for order in range(1, bs.shape[0] + 1):
        known = _convolved(bs[:order], ys)
        inner = -known if above is None else above[order - 1] - known
        ys.append(inner / divisor)
    return stack([one.expand(out.shape) for one in ys[1:]])


RECURRENCES: dict[str, Callable[..., Any]] = {
    "exp": _riccati(0, 1, 0),
    "expm1": _riccati(1, 1, 0),
    "tanh": _riccati(1, 0, -1),
    "tan": _riccati(1, 0, 1),
    "sigmoid": _riccati(0, 1, -1),
    "reciprocal": _riccati(0, 0, -1),
    "sqrt": _sqrt,
    "true_divide": _quotient,
}
