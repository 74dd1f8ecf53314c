"""Writing values into a tensor as they are: copy_, fill_, zero_, and fill out of place.

Each is an operator like any other (what does a gradient of the written tensor mean for the
source?), of which only the in-place form is public.
"""

from __future__ import annotations

import numbers
import warnings
from typing import Any

from numpy import ndarray

from pullback.core import errors, origin
from pullback.core.arrays import F32, F64, LIBRARIES, Array
from pullback.core.layout import empty_like
from pullback.core.mode import fast, get_mode
from pullback.core.origin import getframe, internal
from pullback.core.tensor import Tensor, wrap
from pullback.core.version import MOST_WRITES, bump, shorten
from pullback.operators.arrays.strides import element_strides
from pullback.operators.declare import REQUIRED, Namespace, method, primitive, quick
from pullback.operators.options import missing, numpy_named, operand
from pullback.operators.pointwise.arithmetic import is_complex, zeros_of
from pullback.operators.running.overlap import check_no_partial_overlap, has_overlap
from pullback.operators.running.writes import (
    LARGE_SINGLE,
    is_plain_write,
    number_array,
    writing,
)
from pullback.operators.shape import batch as batch_shapes
from pullback.operators.shape.restriding import as_strided
from pullback.operators.shape.views import diagonal, slice_along

FOUND_IN = {
    "torch": "fill fill_ zero_",
}


# From another tensor -----------------------------------------------------------------------------


def _write_copy(xp: Namespace, input: Array, src: Array) -> None:
    if _are_alike(input, src):  # as buffers mostly are
        try:
            input[...] = src
        except ValueError:
            raise errors.read_only("copy_") from None
        return
    if src.ndim > input.ndim:
        raise errors.inplace_shape("copy_", input.shape, src.shape)
    check_no_partial_overlap("copy_", input, src)
    store(input, src)


def _are_alike(target: Array, source: Array) -> bool:
    """Whether both are NumPy's own arrays on memory of their own, of one shape and dtype."""
    return (
        target.__class__ is ndarray is source.__class__
        and target.base is None is source.base
        and target.dtype is source.dtype
        and target.shape == source.shape
    )


def store(target: Array, source: Array) -> None:
    """Write `source` over all of `target`, broadcast and cast; nothing is written if it fails."""
    if type(source) is not ndarray and type(target) is ndarray and hasattr(source, "_device"):
        raise errors.no_data("copy_()")
    if source.dtype.kind in "cW" and target.dtype.kind not in "cbW":
        warnings.warn(
            "Casting complex values to real discards the imaginary part.",
            UserWarning,
            stacklevel=origin.stacklevel(),
        )
        source = source.real
    try:
        target[...] = source
    except ValueError:
        if not getattr(target.flags, "writeable", True):
            raise errors.read_only("copy_") from None
        raise RuntimeError(
            f"values of shape {source.shape} cannot be broadcast to {target.shape}, the shape of "
            "what they are to be written to."
        ) from None


def _to_source(g: Any, src_dtype: Any) -> Any:
    """A real source written to a complex tensor gets the real part; the engine sums and casts."""
    return g.real if is_complex(g) and src_dtype.kind not in "cW" else g


def _copy_tangent(d_src: Any, input: Any) -> Any:
    return zeros_of(input) if d_src is None else _copy(input, d_src)


@primitive(
    batch=batch_shapes.copied,
    input=lambda g: zeros_of(g),
    src=_to_source,
    jvp=_copy_tangent,
    node="CopyBackwards",
    method=False,
    has_out=False,
    aten="copy.default(input src)",
)
def _copy(xp: Namespace, input: Array, src: Array) -> Array:
    out = xp.empty(input.shape, input.dtype)
    store(out, src)
    return out


copied_into = _copy  # the engine's name for it: the values of `src`, shaped and cast as `input`
_copy_into = writing(_copy, _write_copy, "copy_")


@method
@numpy_named
def copy_(input: Any, other: Any = REQUIRED, non_blocking: bool = False, x2: Any = None) -> Any:
    """Overwrite the tensor with the values of another, broadcast and cast; gradients go there.

    >>> import pullback as torch
    >>> torch.zeros(2).copy_(torch.tensor([1, 2]))
    tensor([1., 2.])
    """
    if x2 is not None:
        other = operand("copy_", "other", other, x2=x2)
    if not isinstance(other, Tensor):
        if other is REQUIRED:
            raise missing("copy_", "other")
        if not isinstance(other, numbers.Number):
            raise errors.not_a_tensor("copy_", "other", other)
        other = wrap(number_array("copy_", other, input._array.dtype))
    if LIBRARIES and other.device != input.device and other.device.type != "meta":
        other = other.to(input.device)
    if not is_plain_write(input, other):
        return _copy_into(input, other)
    if input is not other:
        _write_copy(None, input._array, other._array)
    bump(input, "copy_")
    return input


@method
def module_load(self: Any, other: Any, assign: bool = False) -> Any:
    """What `Module.load_state_dict` swaps in for this tensor; a subclass may have its own.

    Without `assign` the tensor itself is written to.

    Args:
        self: The tensor of the model.
        other: The tensor that was loaded.
        assign: Whether the loaded tensor takes this one's place, instead of its values.

    >>> import pullback as torch
    >>> torch.zeros(2).module_load(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    if not isinstance(other, Tensor):
        raise errors.not_a_tensor("module_load", "other", other)
    return other.detach() if assign else self.copy_(other).detach()


# One value for all -------------------------------------------------------------------------------


def _write_number(xp: Namespace, input: Array, value: Any) -> None:
    filler = number_array("fill_", value, input.dtype)
    try:
        input.fill(filler)
    except ValueError:
        raise errors.read_only("fill_") from None


def _write_filler(xp: Namespace, input: Array, value: Array) -> None:
    if value.ndim:
        raise RuntimeError(
            f"fill_: the value must be a number or a 0-d tensor, got shape {value.shape}; use "
            "copy_() for others."
        )
    store(input, value)


def _fill_operators(name: str, numbered: tuple[str, str]) -> tuple[Any, Any]:
    """The operators for a number and for a tensor; torch numbers the in-place ones differently."""

    @primitive(
        input=lambda g: zeros_of(g),
        jvp=lambda input: zeros_of(input),
        name=f"_{name}",
        node=f"FillBackward{numbered[0]}",
        has_out=False,
        aten="fill.Scalar",
    )
    def by_number(xp: Namespace, input: Array, value: Any) -> Array:
        out = empty_like(xp, input)
        _write_number(xp, out, value)
        return out

    @primitive(
        batch=batch_shapes.copied,
        input=lambda g: zeros_of(g),
        value=lambda g, value_dtype: _to_source(g, value_dtype),
        jvp=lambda d_value, input: zeros_of(input) if d_value is None else _copy(input, d_value),
        name=f"_{name}_with",
        node=f"FillBackward{numbered[1]}",
        has_out=False,
        aten="fill.Tensor",
    )
    def by_tensor(xp: Namespace, input: Array, value: Array) -> Array:
        out = empty_like(xp, input)
        _write_filler(xp, out, value)
        return out

    return by_number, by_tensor


_fill, _fill_with = _fill_operators("fill", ("0", "1"))
_refill, _refill_with = _fill_operators("refill", ("2", "3"))
_fill_into = writing(_refill, _write_number, "fill_")
_fill_into_with = writing(_refill_with, _write_filler, "fill_")


def fill(input: Any, value: Any) -> Any:
    """A tensor like `input` that holds `value`, a number or 0-d tensor, everywhere.

    >>> import pullback as torch
    >>> torch.fill(torch.zeros(2), 3)
    tensor([3., 3.])
    """
    return _fill_with(input, value) if isinstance(value, Tensor) else _fill(input, value)


@method
@quick
def fill_(input: Any, value: Any) -> Any:
    """Overwrite every element with `value`, a number or 0-d tensor.

    >>> import pullback as torch
    >>> torch.zeros(2).fill_(7)
    tensor([7., 7.])
    """
    if input.__class__ is not Tensor and not isinstance(input, Tensor):
        return _fill_into(input, value)  # which asks, and refuses
    if value.__class__ is float and is_plain_write(input):
        array = input._array
        dtype = array.dtype
        usual = dtype is F64 or (dtype is F32 and -LARGE_SINGLE < value < LARGE_SINGLE)
        filler = value if usual else number_array("fill_", value, dtype)
        try:
            array.fill(filler)
        except ValueError:
            raise errors.read_only("fill_") from None
    elif isinstance(value, Tensor):
        if not is_plain_write(input, value):
            return _fill_into_with(input, value)
        _write_filler(None, input._array, value._array)
    elif not isinstance(value, numbers.Number):
        raise TypeError(
            f"fill_(): argument `value` must be a number or a Tensor, got {type(value).__name__}."
        )
    elif not is_plain_write(input):
        _fill_into(_written_once(input), value)
        return input
    else:
        _write_number(None, input._array, value)
    bump(input, "fill_")
    return input


def _write_zeros(xp: Namespace, input: Array) -> None:
    input.fill(0)


@primitive(
    input=lambda g: zeros_of(g),
    jvp=lambda input: zeros_of(input),
    node="ZeroBackward0",
    has_out=False,
    aten="zero.default",
)
def _zero(xp: Namespace, input: Array) -> Array:
    return xp.zeros(input.shape, input.dtype)


_zero_into = writing(_zero, _write_zeros, "zero_")


@method
@quick
@numpy_named
def zero_(input: Any = REQUIRED, x: Any = None, a: Any = None, x1: Any = None) -> Any:
    """Overwrite every element with 0.

    >>> import pullback as torch
    >>> torch.ones(2).zero_()
    tensor([0., 0.])
    """
    if x is not None or a is not None or x1 is not None:
        input = operand("zero_", "input", input, x=x, a=a, x1=x1)
    try:
        cell = input._cell
        if (  # `is_plain_write` and `bump` in line: a loop does this to each of its buffers
            input._node is None
            and cell.__class__ is list
            and get_mode() is fast.plain
            and input.__class__ is Tensor
            and (array := input._array).base is None
        ):
            frame = getframe(1)
            if not internal[frame.f_code.co_filename]:
                array.fill(0)
                cell[0] += 1
                cell.append(("zero_", frame.f_code, frame.f_lasti))
                if len(cell) > MOST_WRITES:
                    shorten(cell)
                return input
        is_plain = is_plain_write(input)
    except ValueError:
        raise errors.read_only("zero_") from None
    except AttributeError:
        raise errors.not_a_tensor("zero_", "input", input) from None
    if is_plain:
        try:
            input._array.fill(0)
        except ValueError:
            raise errors.read_only("zero_") from None
        bump(input, "zero_")
        return input
    _zero_into(_written_once(input))
    return input


def _written_once(input: Any) -> Any:
    """The tensor, or what is left of an expanded one when each place in memory counts once.

    No other write accepts expanded memory; with one value for all, order does not matter.
    """
    if not isinstance(input, Tensor) or not has_overlap(input._array):
        return input
    for dim, stride in enumerate(input._array.strides):
        if stride == 0:
            input = slice_along(input, dim, 0, 1, 1)
    return input


@method
def fill_diagonal_(input: Any, fill_value: Any, wrap: bool = False) -> Any:
    """Overwrite the main diagonal; with `wrap`, a tall matrix gets one per square.

    >>> import pullback as torch
    >>> torch.zeros(2, 2).fill_diagonal_(5)
    tensor([[5., 0.],
            [0., 5.]])
    """
    shape = tuple(input.shape)
    if len(shape) < 2:
        raise RuntimeError(f"fill_diagonal_: needs at least 2 dimensions, got shape {shape}.")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise RuntimeError(
            f"fill_diagonal_: with more than 2 dimensions all sizes must be equal, got {shape}."
        )
    if len(shape) > 2:
        step = sum(element_strides(input._array))
        fill_(as_strided(input, (shape[0],), (step,)), fill_value)
        return input
    last = shape[0] if wrap else 1
    for start in range(0, last, shape[1] + 1):
        fill_(diagonal(input, -start), fill_value)
    return input
