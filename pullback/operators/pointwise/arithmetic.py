"""Sums, products and quotients: what Python's operators call, and what rules are made of."""

from __future__ import annotations

import numbers
from typing import Any

import numpy
from numpy import ndarray

from pullback.core.arrays import F32, F64
from pullback.core.dtype import NumpyDtype, from_numpy_dtype
from pullback.core.errors import not_a_tensor, unsupported
from pullback.core.promotion import is_half, result_dtype
from pullback.core.tensor import Tensor
from pullback.operators.arrays import scaled
from pullback.operators.arrays.choosing import FEW, choose, kept
from pullback.operators.arrays.reductions import number
from pullback.operators.arrays.strides import lie_alike
from pullback.operators.conditions import at_least, floating, has_dims, host, says
from pullback.operators.declare import (
    REQUIRED,
    Array,
    Namespace,
    Number,
    elementwise,
    kernel,
    linear,
    method,
    quick,
)
from pullback.operators.options import as_number, numpy_named, operand
from pullback.operators.running.inplace import inplace_of
from pullback.operators.running.writes import finite_array, scalar_of

FOUND_IN = {
    "torch": """
        conj_physical conj_physical_ lerp multiply=mul neg_ negative=neg negative_=neg_
        positive reciprocal_ rsub subtract=sub
    """
}


# What rules are made of -------------------------------------------------------------------------


def is_complex(input: Any) -> bool:
    """Whether a number, array or tensor is complex."""
    if isinstance(input, Tensor):
        return bool(input._array.dtype.kind in "cW")
    dtype = getattr(input, "dtype", None)
    return isinstance(input, complex) if dtype is None else bool(dtype.kind in "cW")


@elementwise(input=lambda g: conj(g), method=False, node="ConjBackward0", aten="_conj.default")
def _conj(xp: Namespace, input: Array) -> Array:
    return xp.conjugate(input)


def conj(input: Any) -> Any:
    """The conjugate; what is real comes back as it is. Takes numbers and arrays too, for rules.

    >>> import pullback as torch
    >>> torch.conj(torch.tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    if type(input) is ndarray:  # first, since nearly every rule of the plain backward asks
        return numpy.conjugate(input) if input.dtype.kind in "cW" else input
    if isinstance(input, int | float) or not is_complex(input):
        return input
    return input.conjugate() if type(input) is complex else _conj(input)


@elementwise(
    casts_out=False,
    input=lambda g: conj(g),
    method=False,
    node="ConjPhysicalBackward0",
    aten="conj_physical.default",
)
def _conj_physical(xp: Namespace, input: Array) -> Array:
    return xp.conjugate(input)


@method
def conj_physical(input: Any, *, out: Tensor | None = None) -> Any:
    """The conjugate in memory of its own; what is real comes back as it is.

    >>> import pullback as torch
    >>> torch.conj_physical(torch.tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    if out is None and not is_complex(input):
        return as_it_is("conj_physical", input)
    return _conj_physical(input, out=out)


def as_it_is(op: str, input: Any) -> Any:
    """What is real already: a tensor, or in a rule an array or a number; nothing else."""
    if isinstance(input, Tensor | numbers.Number) or hasattr(input, "dtype"):
        return input
    raise not_a_tensor(op, "input", input)


_conj_physical_ = inplace_of(_conj_physical, "conj_physical_")


@method
def conj_physical_(input: Tensor) -> Tensor:
    """In-place form of `conj_physical`."""
    if isinstance(input, Tensor) and input._array.dtype.kind == "b":  # NumPy has no such function
        return input
    return _conj_physical_(input)


@elementwise(
    input=lambda g, mask: keep_where(g, mask), promote=None, method=False, has_out=False, aten=""
)
def keep_where(xp: Namespace, input: Array, mask: Array) -> Array:
    """`input` where `mask` holds, 0 elsewhere. Not a product: infinities and NaN vanish, too."""
    return xp.where(mask, input, 0)


_alike = says("input_shape == mask.shape", "input_dtype.kind != 'b'")


@kernel(keep_where, when=at_least(FEW) & _alike)
def _by_bits(xp: Namespace, input: Array, mask: Array) -> Array:
    return kept(xp, mask, input)


@linear(method=False, has_out=False, aten="")
def zeros_of(xp: Namespace, input: Array) -> Array:
    """Zeros like `input`: the gradient of what is constant almost everywhere."""
    return xp.zeros_like(input)  # in its order, so that what is added to it keeps its own


@elementwise(
    input=lambda g: g, node="CloneBackward0", promote=None, method=False, has_out=False, aten=""
)
def lifted(xp: Namespace, input: Array, bound: float) -> Array:
    """Each element, or the bound where that is larger; for derivatives, the element itself."""
    return xp.maximum(input, bound).astype(input.dtype, copy=False)


@kernel(lifted, when=floating & has_dims)  # Python's own numbers take 0.6 us
def _to_number(xp: Namespace, input: Array, input_dtype: Any, bound: float) -> Array:
    return xp.maximum(input, number(bound, input_dtype))


# Half precision ---------------------------------------------------------------------------------


def in_single(xp: Namespace, function: Any, *arrays: Array, **options: Any) -> Array:
    """An operator on arrays of half precision: computed in float32, rounded once."""
    wide = [array.astype(F32) for array in arrays]
    made: Array = xp.asarray(function.op.forward(xp, *wide, **options))
    return made.astype(arrays[0].dtype)


# Sums -------------------------------------------------------------------------------------------


def check_factor(op: str, name: str, factor: Any, dtype: NumpyDtype) -> None:
    """Refuse a number of another kind than a result of this dtype."""
    kind = dtype.kind
    if (
        (isinstance(factor, float) and kind in "biu")
        or (isinstance(factor, complex) and kind not in "cW")
        or (isinstance(factor, bool) and kind != "b")
    ):
        raise RuntimeError(
            f"{op}: {name}={factor} does not fit a result of {from_numpy_dtype(dtype)}; pass "
            f"{name} of its kind, or convert an operand first."
        )


def _scaled(op: str, other: Array, alpha: Any) -> Array:
    """`other * alpha` in the dtype of `other`; of half precision, in single."""
    alpha = as_number(alpha, op, "alpha")
    check_factor(op, "alpha", alpha, other.dtype)
    if is_half(other.dtype):
        return other.astype(F32) * finite_array(op, alpha, other.dtype).astype(F32)
    return other * scalar_of(op, alpha, other.dtype)


def _combined(ufunc: Any, op: str, input: Array, other: Array, alpha: Any) -> Array:
    """The sum or difference of `input` and `alpha * other`."""
    if alpha.__class__ is int and alpha == 1:  # not True, nor a tensor
        return ufunc(input, other)
    return ufunc(input, _scaled(op, other, alpha)).astype(other.dtype, copy=False)


@elementwise(
    input=lambda g: g,
    other=lambda g, alpha: g if alpha == 1 else g * conj(alpha),
    aten="add.Tensor",
    of_numbers=True,
    once_positional="alpha",
    out_kernel=scaled.add_scaled,
)
def add(xp: Namespace, input: Array, other: Array, *, alpha: Any = 1) -> Array:
    """Add element by element, with broadcasting: `input + alpha * other`.

    >>> import pullback as torch
    >>> torch.add(torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0]), alpha=2)
    tensor([21., 42.])
    """
    return _combined(xp.add, "add", input, other, alpha)


def _refuse_bools(op: str, arrays: dict[str, Any]) -> None:
    """NumPy refuses two bools only; torch each that would be subtracted."""
    kinds = [getattr(getattr(value, "dtype", None), "kind", "") for value in arrays.values()]
    if "b" in kinds or any(isinstance(value, bool) for value in arrays.values()):
        raise RuntimeError(
            f"{op}: bools cannot be subtracted. Use `^` or logical_xor() for their difference, `~` "
            "or logical_not() to invert a mask, or convert them with .to() first."
        )


@elementwise(
    input=lambda g: g,
    other=lambda g, alpha: -g if alpha == 1 else g * conj(-alpha),
    check_inputs=_refuse_bools,
    aten="sub.Tensor",
    of_numbers=True,
    once_positional="alpha",
    out_kernel=scaled.subtract_scaled,
)
def sub(xp: Namespace, input: Array, other: Array, *, alpha: Any = 1) -> Array:
    """Subtract element by element, with broadcasting: `input - alpha * other`.

    >>> import pullback as torch
    >>> torch.sub(torch.tensor([5.0, 7.0]), torch.tensor([1.0, 2.0]), alpha=2)
    tensor([3., 3.])
    """
    return _combined(xp.subtract, "sub", input, other, alpha)


# A factor becomes an array that is kept, which NumPy takes sooner than a number.
_scales = says("(alpha.__class__ is float or alpha.__class__ is int)", "alpha != 1")
_scales &= floating.of("other")
_large = _scales & host & at_least(scaled.LARGE, "other_size")


@kernel(add, when=_large, declines=True)
def _large_sum(input: Array, other: Array, alpha: float) -> Array | None:
    return scaled.large_sum(input, other, alpha)


@kernel(sub, when=_large, declines=True)
def _large_difference(input: Array, other: Array, alpha: float) -> Array | None:
    return scaled.large_sum(input, other, -alpha)


@kernel(add, when=_scales)
def _sum(xp: Namespace, input: Array, other: Array, other_dtype: Any, alpha: float) -> Array:
    return xp.add(input, xp.multiply(other, number(alpha, other_dtype)))


@kernel(sub, when=_scales)
def _difference(xp: Namespace, input: Array, other: Array, other_dtype: Any, alpha: float) -> Array:
    return xp.subtract(input, xp.multiply(other, number(alpha, other_dtype)))


@elementwise(
    input=lambda g, alpha: -g if alpha == 1 else g * conj(-alpha),
    other=lambda g: g,
    method=False,
    node="RsubBackward1",
    check_inputs=_refuse_bools,
    aten="rsub.Tensor|Scalar:other",
    numbers="other",
)
def rsub(xp: Namespace, input: Array, other: Array, *, alpha: Any = 1) -> Array:
    """Subtract the other way round: `other - alpha * input`.

    >>> import pullback as torch
    >>> torch.rsub(torch.tensor([1.0, 2.0]), 10)
    tensor([9., 8.])
    """
    return _combined(xp.subtract, "rsub", other, input, alpha)


@elementwise(input=lambda g: -g, exact_out=True)
def neg(xp: Namespace, input: Array) -> Array:
    """Change the sign of each element.

    >>> import pullback as torch
    >>> torch.neg(torch.tensor([1.0, -2.0]))
    tensor([-1.,  2.])
    """
    return xp.negative(input)


@method
def positive(input: Tensor) -> Tensor:
    """The tensor itself; what `+x` means.

    >>> import pullback as torch
    >>> torch.positive(torch.tensor([1.0, -2.0]))
    tensor([ 1., -2.])
    """
    if input._array.dtype.kind == "b":
        raise RuntimeError("positive: a bool tensor has no sign; convert it first, e.g. by .int().")
    return input


# Products ---------------------------------------------------------------------------------------


@elementwise(
    input=lambda g, other: g * conj(other),
    other=lambda g, input: g * conj(input),
    aten="mul.Tensor",
    of_numbers=True,
    wide_numbers=True,
)
def mul(xp: Namespace, input: Array, other: Array) -> Array:
    """Multiply element by element, with broadcasting.

    >>> import pullback as torch
    >>> torch.mul(torch.tensor([1.0, 2.0]), 3)
    tensor([3., 6.])
    """
    return xp.multiply(input, other)


@elementwise(
    input=lambda g, other: g / conj(other),
    other=lambda g, input, other: g * conj(input / other) / conj(-other),
    promote="float",
    node="DivBackward0",
    aten="div.Tensor",
    of_numbers=True,
    wide_numbers=True,
)
def true_divide(xp: Namespace, input: Array, other: Array) -> Array:
    """Divide element by element; integers give floating-point results.

    >>> import pullback as torch
    >>> torch.true_divide(torch.tensor([7]), 2)
    tensor([3.5000])
    """
    return xp.true_divide(input, other)


@elementwise(input=lambda g, out: -g * conj(out * out), promote="float")
def reciprocal(xp: Namespace, input: Array) -> Array:
    """One divided by each element.

    >>> import pullback as torch
    >>> torch.reciprocal(torch.tensor([2.0, 4.0]))
    tensor([0.5000, 0.2500])
    """
    return xp.reciprocal(input)


def divide_number(input: Any, other: Any) -> Any:
    """`other / input` for a number `other`: what Python calls when the divisor is the tensor."""
    return reciprocal(input) * other


@elementwise(
    input=lambda g: g,
    tensor1=lambda g, tensor2, value: g * conj(tensor2 if value == 1 else tensor2 * value),
    tensor2=lambda g, tensor1, value: g * conj(tensor1 if value == 1 else tensor1 * value),
    numbers=False,
    once_positional="value",
    out_kernel=scaled.add_product,
)
def addcmul(
    xp: Namespace, input: Array, tensor1: Array, tensor2: Array, *, value: Number = 1
) -> Array:
    """`input + value * tensor1 * tensor2`.

    >>> import pullback as torch
    >>> torch.addcmul(torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([3.0]), value=10)
    tensor([61.])
    """
    if input.dtype is not F32 and is_half(input.dtype):
        return in_single(xp, addcmul, input, tensor1, tensor2, value=value)
    return _plus_scaled(xp, input, xp.multiply(tensor1, tensor2), value)


def _plus_scaled(xp: Namespace, input: Array, part: Array, value: Any) -> Array:
    """`input + value * part`, written over `part` where that lies in memory as `input` does."""
    out = part if part.ndim and part.shape == input.shape else None
    if out is not None and not lie_alike(out, input):
        out = None  # of operands in unlike orders the result is row by row, as in torch
    if value != 1:
        dtype = part.dtype
        is_plain = value.__class__ is float or value.__class__ is int
        if is_plain and (dtype is F32 or dtype is F64):
            scale = number(value, dtype)
        else:
            op = "addcmul, addcdiv"
            scale = scalar_of(op, as_number(value, op, "value"), dtype)
        part = xp.multiply(part, scale, out)
    return xp.add(input, part, out)


@elementwise(
    input=lambda g: g,
    tensor1=lambda g, tensor2, value: g * conj(value / tensor2),
    tensor2=lambda g, tensor1, tensor2, value: g * conj(tensor1 * -value / (tensor2 * tensor2)),
    numbers=False,
    once_positional="value",
    out_kernel=scaled.add_quotient,
)
def addcdiv(
    xp: Namespace, input: Array, tensor1: Array, tensor2: Array, *, value: Number = 1
) -> Array:
    """`input + value * tensor1 / tensor2`; for floating-point and complex tensors.

    >>> import pullback as torch
    >>> torch.addcdiv(torch.tensor([1.0]), torch.tensor([6.0]), torch.tensor([3.0]), value=10)
    tensor([21.])
    """
    if input.dtype is not F32 and input.dtype.kind in "biu":
        raise RuntimeError(
            "addcdiv: whole numbers only (integers or bools), and a quotient of them is not whole; "
            "convert an operand first, e.g. with .float()."
        )
    if input.dtype is not F32 and is_half(input.dtype):
        return in_single(xp, addcdiv, input, tensor1, tensor2, value=value)
    return _plus_scaled(xp, input, xp.true_divide(tensor1, tensor2), value)


# Interpolation ----------------------------------------------------------------------------------


def _check_lerp(input: Array, *others: Array) -> None:
    if input.dtype.kind in "biu":
        raise unsupported("lerp", input)
    for other in others:
        if other.dtype != input.dtype:
            raise RuntimeError(
                f"lerp: all tensors must have one dtype, got {from_numpy_dtype(input.dtype)} and "
                f"{from_numpy_dtype(other.dtype)}; convert one first."
            )


@elementwise(
    input=lambda g, weight: g * conj(1 - weight),
    end=lambda g, weight: g * conj(weight),
    name="lerp.Scalar",
    promote=None,
    method=False,
    node="LerpBackward0",
    aten="lerp.Scalar",
    out_kernel=scaled.interpolate,
)
def _lerp_number(xp: Namespace, input: Array, end: Array, weight: Any) -> Array:
    _check_lerp(input, end)
    if isinstance(weight, complex) and input.dtype.kind not in "cW":
        raise RuntimeError(f"lerp: the weight {weight} is complex, the tensors are not.")
    if is_half(input.dtype):
        return in_single(xp, _lerp_number, input, end, weight=weight)
    # From the nearer end: at weight 1 the result is `end`, to the last digit.
    if abs(weight) < 0.5:
        return input + (end - input) * weight
    return end - (end - input) * (1 - weight)


_weighs = says("input_dtype is end_dtype", "(weight.__class__ is float or weight.__class__ is int)")


@kernel(_lerp_number, when=floating & _weighs & says("-0.5 < weight < 0.5"))
def _from_start(input: Array, input_dtype: Any, end: Array, weight: float) -> Array:
    return input + (end - input) * number(weight, input_dtype)


@kernel(_lerp_number, when=floating & _weighs)
def _from_end(input: Array, input_dtype: Any, end: Array, weight: float) -> Array:
    return end - (end - input) * number(1 - weight, input_dtype)


@elementwise(
    input=lambda g, weight: g * conj(1 - weight),
    end=lambda g, weight: g * conj(weight),
    weight=lambda g, input, end: g * conj(end - input),
    name="lerp.Tensor",
    promote=None,
    method=False,
    node="LerpBackward1",
    aten="lerp.Tensor",
)
def _lerp_tensor(xp: Namespace, input: Array, end: Array, weight: Array) -> Array:
    if weight.dtype != input.dtype and not weight.ndim:
        # A single weight may have any dtype, as a number may.
        _check_lerp(input, end)
        dtype = result_dtype((input, end, weight))
        input, end, weight = (one.astype(dtype) for one in (input, end, weight))
    _check_lerp(input, end, weight)
    if is_half(input.dtype):
        return in_single(xp, _lerp_tensor, input, end, weight)
    way = end - input
    nearer = xp.abs(weight) < 0.5
    return choose(xp, nearer, input + weight * way, end - way * (1 - weight))


@method
@quick
@numpy_named
def lerp(
    input: Any = REQUIRED,
    end: Any = REQUIRED,
    weight: Any = REQUIRED,
    x: Any = None,
    a: Any = None,
    x1: Any = None,
    *,
    out: Tensor | None = None,
) -> Any:
    """Go from `input` to `end` by `weight`, a number or a tensor: 0 is `input`, 1 is `end`.

    >>> import pullback as torch
    >>> torch.lerp(torch.tensor([0.0, 10.0]), torch.tensor([10.0, 20.0]), 0.3)
    tensor([ 3., 13.])
    """
    if x is not None or a is not None or x1 is not None:
        input = operand("lerp", "input", input, x=x, a=a, x1=x1)
    function = _lerp_number if isinstance(weight, _NUMBERS) else _lerp_tensor
    return function(input, end, weight, out=out)


_NUMBERS = (int, float, complex)  # not `int | float`, which would be made anew each time
_lerp_number_ = inplace_of(_lerp_number, "lerp_")
_lerp_tensor_ = inplace_of(_lerp_tensor, "lerp_")


@method
def lerp_(input: Tensor, end: Any, weight: Any) -> Tensor:
    """In-place form of `lerp`."""
    function = _lerp_number_ if isinstance(weight, _NUMBERS) else _lerp_tensor_
    return function(input, end, weight)
