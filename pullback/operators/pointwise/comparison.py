"""Questions that bools answer: comparisons, logic, kinds of numbers; and bits."""

from __future__ import annotations

import math
from typing import Any

from pullback.core.dtype import from_numpy_dtype
from pullback.core.errors import unsupported
from pullback.operators.declare import METHODS, Array, Namespace, elementwise
from pullback.operators.pointwise.arithmetic import zeros_of
from pullback.operators.running.inplace import inplace_of

FOUND_IN = {"torch": "gcd_ greater=gt greater_equal=ge lcm_ less=lt less_equal=le not_equal=ne"}


# Comparisons ------------------------------------------------------------------------------------


@elementwise(inplace=False, numbers="other", aten="eq.Tensor|Scalar:other")
def eq(xp: Namespace, input: Array, other: Array) -> Array:
    """Whether elements are equal.

    >>> import pullback as torch
    >>> torch.eq(torch.tensor([1, 2]), torch.tensor([1, 3]))
    tensor([ True, False])
    """
    return xp.equal(input, other)


@elementwise(inplace=False, numbers="other", aten="ne.Tensor|Scalar:other")
def ne(xp: Namespace, input: Array, other: Array) -> Array:
    """Whether elements differ.

    >>> import pullback as torch
    >>> torch.ne(torch.tensor([1, 2]), torch.tensor([1, 3]))
    tensor([False,  True])
    """
    return xp.not_equal(input, other)


# NumPy orders complex numbers by their real parts first; nobody who compares them means that.


@elementwise(inplace=False, numbers="other", aten="lt.Tensor|Scalar:other")
def lt(xp: Namespace, input: Array, other: Array) -> Array:
    """Whether elements of `input` are less than those of `other`.

    >>> import pullback as torch
    >>> torch.lt(torch.tensor([1, 2, 3]), 2)
    tensor([ True, False, False])
    """
    if input.dtype.kind == "c":
        raise unsupported("lt", input)
    return xp.less(input, other)


@elementwise(inplace=False, numbers="other", aten="le.Tensor|Scalar:other")
def le(xp: Namespace, input: Array, other: Array) -> Array:
    """Whether elements of `input` are less than those of `other`, or equal.

    >>> import pullback as torch
    >>> torch.le(torch.tensor([1, 2, 3]), 2)
    tensor([ True,  True, False])
    """
    if input.dtype.kind == "c":
        raise unsupported("le", input)
    return xp.less_equal(input, other)


@elementwise(inplace=False, numbers="other", aten="gt.Tensor|Scalar:other")
def gt(xp: Namespace, input: Array, other: Array) -> Array:
    """Whether elements of `input` are greater than those of `other`.

    >>> import pullback as torch
    >>> torch.gt(torch.tensor([1, 2, 3]), 2)
    tensor([False, False,  True])
    """
    if input.dtype.kind == "c":
        raise unsupported("gt", input)
    return xp.greater(input, other)


@elementwise(inplace=False, numbers="other", aten="ge.Tensor|Scalar:other")
def ge(xp: Namespace, input: Array, other: Array) -> Array:
    """Whether elements of `input` are greater than those of `other`, or equal.

    >>> import pullback as torch
    >>> torch.ge(torch.tensor([1, 2, 3]), 2)
    tensor([False,  True,  True])
    """
    if input.dtype.kind == "c":
        raise unsupported("ge", input)
    return xp.greater_equal(input, other)


@elementwise(promote=None, inplace=False, has_out=False)
def isclose(
    xp: Namespace,
    input: Array,
    other: Array,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """Whether elements differ by no more than `atol + rtol * abs(other)`.

    >>> import pullback as torch
    >>> torch.isclose(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.1]))
    tensor([ True, False])
    """
    if input.dtype != other.dtype:
        raise RuntimeError(
            f"isclose: {from_numpy_dtype(input.dtype)} cannot be compared with "
            f"{from_numpy_dtype(other.dtype)}; convert one first."
        )
    if rtol < 0 or atol < 0:
        raise RuntimeError(f"isclose: rtol={rtol} and atol={atol} must not be negative.")
    close = xp.equal(input, other)
    if equal_nan:
        close |= (input != input) & (other != other)
    if rtol == 0 and atol == 0:
        return close
    if input.dtype.kind in "biu":
        input, other = input.astype(xp.float64), other.astype(xp.float64)
    distance = xp.absolute(input - other)
    return close | (xp.isfinite(distance) & (distance <= atol + rtol * xp.absolute(other)))


# Logic ------------------------------------------------------------------------------------------


@elementwise(promote=None, inplace=False)
def logical_and(xp: Namespace, input: Array, other: Array) -> Array:
    """Whether both elements are other than 0.

    >>> import pullback as torch
    >>> torch.logical_and(torch.tensor([True, True]), torch.tensor([True, False]))
    tensor([ True, False])
    """
    return xp.logical_and(input, other)


@elementwise(promote=None, inplace=False)
def logical_or(xp: Namespace, input: Array, other: Array) -> Array:
    """Whether at least one of two elements is other than 0.

    >>> import pullback as torch
    >>> torch.logical_or(torch.tensor([0, 0]), torch.tensor([0, 3]))
    tensor([False,  True])
    """
    return xp.logical_or(input, other)


@elementwise(promote=None, inplace=False)
def logical_xor(xp: Namespace, input: Array, other: Array) -> Array:
    """Whether exactly one of two elements is other than 0.

    >>> import pullback as torch
    >>> torch.logical_xor(torch.tensor([True, True]), torch.tensor([True, False]))
    tensor([False,  True])
    """
    return xp.logical_xor(input, other)


@elementwise(promote=None, inplace=False)
def logical_not(xp: Namespace, input: Array) -> Array:
    """Whether each element is 0.

    >>> import pullback as torch
    >>> torch.logical_not(torch.tensor([0, 3]))
    tensor([ True, False])
    """
    return xp.logical_not(input)


# Kinds of numbers -------------------------------------------------------------------------------


@elementwise(inplace=False, has_out=False)
def isnan(xp: Namespace, input: Array) -> Array:
    """Whether each element is NaN.

    >>> import pullback as torch
    >>> torch.isnan(torch.tensor([1.0, float("nan")]))
    tensor([False,  True])
    """
    return xp.isnan(input)


@elementwise(inplace=False, has_out=False)
def isinf(xp: Namespace, input: Array) -> Array:
    """Whether each element is infinite, in either direction.

    >>> import pullback as torch
    >>> torch.isinf(torch.tensor([1.0, float("-inf")]))
    tensor([False,  True])
    """
    return xp.isinf(input)


@elementwise(inplace=False, has_out=False)
def isfinite(xp: Namespace, input: Array) -> Array:
    """Whether each element is neither infinite nor NaN.

    >>> import pullback as torch
    >>> torch.isfinite(torch.tensor([1.0, float("inf")]))
    tensor([ True, False])
    """
    return xp.isfinite(input)


def _is_infinity(xp: Namespace, op: str, input: Array, infinity: float) -> Array:
    if input.dtype.kind == "c":
        raise RuntimeError(f"{op}: complex numbers have no sign; ask for their parts.")
    if input.dtype.kind in "biu":
        return xp.not_equal(input, input)
    return xp.equal(input, infinity)


@elementwise(casts_out=False, inplace=False)
def isposinf(xp: Namespace, input: Array) -> Array:
    """Whether each element is positive infinity.

    >>> import pullback as torch
    >>> torch.isposinf(torch.tensor([1.0, float("inf")]))
    tensor([False,  True])
    """
    return _is_infinity(xp, "isposinf", input, math.inf)


@elementwise(casts_out=False, inplace=False)
def isneginf(xp: Namespace, input: Array) -> Array:
    """Whether each element is negative infinity.

    >>> import pullback as torch
    >>> torch.isneginf(torch.tensor([1.0, float("-inf")]))
    tensor([False,  True])
    """
    return _is_infinity(xp, "isneginf", input, -math.inf)


@elementwise(casts_out=False, inplace=False)
def signbit(xp: Namespace, input: Array) -> Array:
    """Whether the sign bit is set: for negative numbers, and for -0.0.

    >>> import pullback as torch
    >>> torch.signbit(torch.tensor([-0.0, 0.0]))
    tensor([ True, False])
    """
    kind = input.dtype.kind
    if kind == "c":
        raise unsupported("signbit", input)
    if kind in "fV":
        return xp.signbit(input)
    return xp.zeros(input.shape, bool) if kind == "b" else xp.less(input, 0)


# Whole numbers and their bits -------------------------------------------------------------------


def _check_whole(op: str, input: Array, kinds: str = "biu") -> None:
    if input.dtype.kind not in kinds:
        raise NotImplementedError(
            f"{op}: {from_numpy_dtype(input.dtype)} has no bits to work on; the tensors must be of "
            "integer dtype."
        )


@elementwise(aten="bitwise_and.Tensor|Scalar:other")
def bitwise_and(xp: Namespace, input: Array, other: Array) -> Array:
    """The bits that both elements have; for bools, both.

    >>> import pullback as torch
    >>> torch.bitwise_and(torch.tensor([12, 10]), 6)
    tensor([4, 2])
    """
    _check_whole("bitwise_and", input)
    return xp.bitwise_and(input, other)


@elementwise(aten="bitwise_or.Tensor|Scalar:other")
def bitwise_or(xp: Namespace, input: Array, other: Array) -> Array:
    """The bits that either element has; for bools, either.

    >>> import pullback as torch
    >>> torch.bitwise_or(torch.tensor([12, 10]), 1)
    tensor([13, 11])
    """
    _check_whole("bitwise_or", input)
    return xp.bitwise_or(input, other)


@elementwise(aten="bitwise_xor.Tensor|Scalar:other")
def bitwise_xor(xp: Namespace, input: Array, other: Array) -> Array:
    """The bits that exactly one of two elements has; for bools, exactly one.

    >>> import pullback as torch
    >>> torch.bitwise_xor(torch.tensor([12, 10]), 6)
    tensor([10, 12])
    """
    _check_whole("bitwise_xor", input)
    return xp.bitwise_xor(input, other)


@elementwise(casts_out=False)
def bitwise_not(xp: Namespace, input: Array) -> Array:
    """The other bits; for bools, not.

    >>> import pullback as torch
    >>> torch.bitwise_not(torch.tensor([0, 5]))
    tensor([-1, -6])
    """
    _check_whole("bitwise_not", input)
    return xp.invert(input)


@elementwise(aten="bitwise_left_shift.Tensor|Tensor_Scalar:other")
def bitwise_left_shift(xp: Namespace, input: Array, other: Array) -> Array:
    """Move bits up: `input * 2 ** other`.

    >>> import pullback as torch
    >>> torch.bitwise_left_shift(torch.tensor([1, 3]), 2)
    tensor([ 4, 12])
    """
    _check_whole("bitwise_left_shift", input, "iu")
    return xp.left_shift(input, other)


@elementwise(aten="bitwise_right_shift.Tensor|Tensor_Scalar:other")
def bitwise_right_shift(xp: Namespace, input: Array, other: Array) -> Array:
    """Move bits down: `input / 2 ** other`, rounded down.

    >>> import pullback as torch
    >>> torch.bitwise_right_shift(torch.tensor([8, 12]), 2)
    tensor([2, 3])
    """
    _check_whole("bitwise_right_shift", input, "iu")
    return xp.right_shift(input, other)


@elementwise(numbers=False)
def gcd(xp: Namespace, input: Array, other: Array) -> Array:
    """The greatest common divisor; not negative.

    >>> import pullback as torch
    >>> torch.gcd(torch.tensor([12, 18]), torch.tensor([8, 27]))
    tensor([4, 9])
    """
    _check_whole("gcd", input, "iu")
    return xp.gcd(input, other)


@elementwise(numbers=False)
def lcm(xp: Namespace, input: Array, other: Array) -> Array:
    """The least common multiple; not negative.

    >>> import pullback as torch
    >>> torch.lcm(torch.tensor([4, 6]), torch.tensor([6, 15]))
    tensor([12, 30])
    """
    _check_whole("lcm", input, "iu")
    return xp.lcm(input, other)


# Other names ------------------------------------------------------------------------------------


# In place ---------------------------------------------------------------------------------------


def _written(function: Any) -> None:
    """Give a question its in-place form: an answer written over a number is constant thereafter."""
    op = function.op
    forward = op.forward

    @elementwise(
        input=lambda g: zeros_of(g),
        other=lambda g: zeros_of(g),
        name=f"{op.name}_",
        promote=op.promote,
        method=False,
        aten=op.aten,
    )
    def written(xp: Namespace, input: Array, other: Array) -> Array:
        return forward(xp, input, other)

    METHODS[f"{op.name}_"] = inplace_of(written, f"{op.name}_")


for _question in (eq, ne, lt, le, gt, ge, logical_and, logical_or, logical_xor):
    _written(_question)


@elementwise(
    input=lambda g: zeros_of(g),
    name="logical_not_",
    promote=None,
    method=False,
    aten="logical_not.default",
)
def _logical_not_written(xp: Namespace, input: Array) -> Array:
    return xp.logical_not(input)


METHODS["logical_not_"] = inplace_of(_logical_not_written, "logical_not_")
