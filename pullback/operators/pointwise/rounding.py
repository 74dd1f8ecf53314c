"""To whole numbers: rounding, division without a rest, and the rest."""

from __future__ import annotations

from typing import Any

from pullback.core.arrays import is_wrong, namespace
from pullback.core.errors import unsupported
from pullback.core.tensor import Tensor
from pullback.operators.arrays.formats import copy_kept
from pullback.operators.declare import REQUIRED, Array, Namespace, elementwise, method
from pullback.operators.options import missing, numpy_named, operand
from pullback.operators.pointwise.arithmetic import in_single, true_divide, zeros_of
from pullback.operators.running.inplace import inplace_of

FOUND_IN = {
    "torch": "ceil_ div divide=div fix=trunc fix_=trunc_ floor_ frac_ round_ trunc_",
    "special": "round",
}


def _rounded(op: str, function: Any, input: Array) -> Array:
    kind = input.dtype.kind
    if kind in "fV":
        return function(input)
    if kind in "iu":
        return copy_kept(namespace(input), input)
    raise unsupported(op, input)


@elementwise(casts_out=False, input=lambda g: zeros_of(g))
def floor(xp: Namespace, input: Array) -> Array:
    """The largest whole number not above each element.

    >>> import pullback as torch
    >>> torch.floor(torch.tensor([1.7, -1.2]))
    tensor([ 1., -2.])
    """
    return _rounded("floor", xp.floor, input)


@elementwise(casts_out=False, input=lambda g: zeros_of(g))
def ceil(xp: Namespace, input: Array) -> Array:
    """The smallest whole number not below each element.

    >>> import pullback as torch
    >>> torch.ceil(torch.tensor([1.2, -1.2]))
    tensor([ 2., -1.])
    """
    return _rounded("ceil", xp.ceil, input)


@elementwise(casts_out=False, input=lambda g: zeros_of(g))
def trunc(xp: Namespace, input: Array) -> Array:
    """Each element without what follows the point.

    >>> import pullback as torch
    >>> torch.trunc(torch.tensor([1.7, -1.7]))
    tensor([ 1., -1.])
    """
    return _rounded("trunc", xp.trunc, input)


@elementwise(casts_out=False, input=lambda g: zeros_of(g))
def round(xp: Namespace, input: Array, *, decimals: int = 0) -> Array:
    """The nearest whole number, the even one of two; or that many `decimals`.

    >>> import pullback as torch
    >>> torch.round(torch.tensor([0.5, 1.5, 2.345]), decimals=1)
    tensor([0.5000, 1.5000, 2.3000])
    """
    if decimals == 0:
        return _rounded("round", xp.rint, input)
    if input.dtype.kind not in "fV":
        raise unsupported("round", input)
    if input.dtype.itemsize == 2:
        return in_single(xp, round, input, decimals=decimals)
    scale = input.dtype.type(10.0 ** abs(decimals))
    if decimals < 0:
        return xp.rint(input / scale) * scale
    return xp.rint(input * scale) / scale


@elementwise(casts_out=False, input=lambda g: g)
def frac(xp: Namespace, input: Array) -> Array:
    """What follows the point, with the sign of the element.

    >>> import pullback as torch
    >>> torch.frac(torch.tensor([1.5, -1.25]))
    tensor([ 0.5000, -0.2500])
    """
    if input.dtype.kind not in "fV":
        raise unsupported("frac", input)
    return xp.subtract(input, xp.trunc(input))


# Division ---------------------------------------------------------------------------------------


def _check_divisor(xp: Namespace, op: str, input: Array, other: Array) -> str:
    """Refuse zeros among integers, which have no infinity to answer with; tell the kind."""
    array = input if hasattr(input, "dtype") else other  # rules may have a number on either side
    kind: str = array.dtype.kind
    if kind in "bc":
        raise unsupported(op, array)
    wrong = kind in "iu" and is_wrong(xp.equal(other, 0))
    if wrong and 0 not in getattr(input, "shape", ()):  # of nothing, nothing is divided
        raise RuntimeError(
            f"{op}: ZeroDivisionError: an integer is divided by zero; convert to floating point "
            "for an infinite result, or replace the zeros."
        )
    return kind


def _divided(xp: Namespace, op: str, input: Array, other: Array, rounding_mode: str) -> Array:
    kind = _check_divisor(xp, op, input, other)
    if rounding_mode == "floor":
        return xp.floor_divide(input, other)
    if kind not in "iu":
        return xp.trunc(xp.true_divide(input, other))
    quotient = xp.floor_divide(input, other)
    below = (quotient < 0) & (quotient * other != input)
    return quotient + below.astype(quotient.dtype)


@elementwise(
    input=lambda g: zeros_of(g),
    other=lambda g: zeros_of(g),
    name="div.Tensor_mode",
    method=False,
    node="DivBackward2",
    aten="div.Tensor_mode",
    aten_defaults={"rounding_mode": REQUIRED},
    of_numbers=True,
    wide_numbers=True,
)
def _div_rounded(
    xp: Namespace, input: Array, other: Array, *, rounding_mode: str = "floor"
) -> Array:
    if rounding_mode not in ("floor", "trunc"):
        raise RuntimeError(
            f"div: rounding_mode must be None, 'trunc' or 'floor', got {rounding_mode!r}."
        )
    return _divided(xp, "div", input, other, rounding_mode)


@method
def div(
    input: Any, other: Any, *, rounding_mode: str | None = None, out: Tensor | None = None
) -> Any:
    """Divide element by element; `rounding_mode` "trunc" or "floor" gives whole numbers.

    >>> import pullback as torch
    >>> torch.div(torch.tensor([7, -7]), 2)
    tensor([ 3.5000, -3.5000])
    >>> torch.div(torch.tensor([7, -7]), 2, rounding_mode="trunc")
    tensor([ 3, -3])
    """
    if rounding_mode is None:
        return true_divide(input, other, out=out)
    return _div_rounded(input, other, rounding_mode=rounding_mode, out=out)


_true_divide_ = inplace_of(true_divide, "div_")
_div_rounded_ = inplace_of(_div_rounded, "div_")


@method
@numpy_named
def div_(
    input: Tensor, other: Any = REQUIRED, x2: Any = None, *, rounding_mode: str | None = None
) -> Tensor:
    """In-place form of `div`."""
    if x2 is not None:
        other = operand("div_", "other", other, x2=x2)
    if other is REQUIRED:
        raise missing("div_", "other")
    if rounding_mode is None:
        return _true_divide_(input, other)
    return _div_rounded_(input, other, rounding_mode=rounding_mode)


def no_derivative(op: str) -> Any:
    """What a rule does that cannot be: torch records such operators and refuses in the backward."""
    raise NotImplementedError(
        f"{op}: its derivative is not implemented. Detach its inputs if no gradient is to flow."
    )


@elementwise(
    input=lambda g: no_derivative("floor_divide"),
    other=lambda g: no_derivative("floor_divide"),
    node="NotImplemented",
    of_numbers=True,
    wide_numbers=True,
)
def floor_divide(xp: Namespace, input: Array, other: Array) -> Array:
    """Divide and round down; integers stay integers.

    >>> import pullback as torch
    >>> torch.floor_divide(torch.tensor([7, -7]), 2)
    tensor([ 3, -4])
    """
    return _divided(xp, "floor_divide", input, other, "floor")


# The rest ---------------------------------------------------------------------------------------


@elementwise(
    input=lambda g: g,
    other=lambda g, input, other: -g * _div_rounded(input, other, rounding_mode="floor"),
)
def remainder(xp: Namespace, input: Array, other: Array) -> Array:
    """The rest of a division that rounds down; it has the sign of the divisor, as Python's `%`.

    >>> import pullback as torch
    >>> torch.remainder(torch.tensor([7, -7]), 3)
    tensor([1, 2])
    """
    if _check_divisor(xp, "remainder", input, other) in "iu":
        return xp.remainder(input, other)
    # As torch; xp.remainder takes four times as long.
    rest = xp.fmod(input, other)
    wrong = (rest != 0) & ((rest < 0) != (other < 0))
    return xp.where(wrong, rest + other, rest)  # never -0.0 + 0


@elementwise(
    input=lambda g: g,
    other=lambda g, input, other: -g * _div_rounded(input, other, rounding_mode="trunc"),
    aten="fmod.Tensor|Scalar:other",
    numbers="other",
)
def fmod(xp: Namespace, input: Array, other: Array) -> Array:
    """The rest of a division that cuts off; it has the sign of the dividend, as in C.

    >>> import pullback as torch
    >>> torch.fmod(torch.tensor([7, -7]), 3)
    tensor([ 1, -1])
    """
    _check_divisor(xp, "fmod", input, other)
    return xp.fmod(input, other)
