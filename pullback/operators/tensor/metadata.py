"""What a tensor says of itself: sizes, strides, kind of elements."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

from numpy import ndarray

from pullback.core import errors, origin
from pullback.core.arrays import Array
from pullback.core.dtype import dtype
from pullback.core.layout import (
    channels_last,
    contiguous_format,
    is_in_format,
    layout,
    memory_format,
    strided,
)
from pullback.core.ports import ports
from pullback.core.size import SIZES, Size
from pullback.core.tensor import CONJUGATED, NEGATED, Tensor
from pullback.operators.arrays.strides import contiguous_strides
from pullback.operators.declare import METHODS, REQUIRED, method, quick
from pullback.operators.options import as_dim, both_names, missing, numpy_named, operand
from pullback.operators.tensor.memory import element_size

FOUND_IN = {
    "torch": """
        is_complex is_conj is_floating_point is_neg is_same_size is_signed is_storage
        is_tensor numel
    """
}


def _checked(op: str, name: str, value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise errors.not_a_tensor(op, name, value)
    return value


# Sizes and strides ------------------------------------------------------------------------------


@method
def size(self: Tensor, dim: int | None = None, *, axis: int | None = None) -> Size | int:
    """The sizes of all dimensions, or of one.

    Example:
        >>> import pullback as torch
        >>> torch.ones(2, 3).size(), torch.ones(2, 3).size(-1)
        (torch.Size([2, 3]), 3)
    """
    if axis is not None:
        dim = _one_name("size", dim, axis)
    if dim is None:
        array = self._array
        plain = self.__class__ is Tensor and type(array) is ndarray
        return SIZES[array.shape] if plain else self.shape
    shape: tuple[int, ...] = self._array.shape
    if dim.__class__ is int and 0 <= dim < len(shape):  # as most are
        return shape[dim]
    return shape[_dim("size", dim, len(shape))]


def _one_name(called: str, dim: Any, axis: Any) -> Any:
    if dim is not None:
        raise both_names(called, "dim", "axis")
    return axis


def _dim(op: str, dim: Any, ndim: int) -> int:
    if ndim == 0:
        raise IndexError(f"{op}(): dim {dim} does not exist, the tensor has no dimensions.")
    return as_dim(dim, ndim, op)


@method
def dim(self: Tensor) -> int:
    """The number of dimensions.

    >>> import pullback as torch
    >>> torch.zeros(2, 3).dim()
    2
    """
    ndim: int = self._array.ndim
    return ndim


@method
@quick
@numpy_named
def numel(input: Tensor = REQUIRED, x: Any = None, a: Any = None, x1: Any = None) -> int:
    """The number of elements.

    >>> import pullback as torch
    >>> torch.numel(torch.zeros(2, 3))
    6
    """
    if x is not None or a is not None or x1 is not None:
        input = operand("numel", "input", input, x=x, a=a, x1=x1)
    if input.__class__ is not Tensor and not isinstance(input, Tensor):
        if input is REQUIRED:
            raise missing("numel", "input")
        taken, answer = ports.met_by("numel", (input,))
        if taken:
            return answer
        raise errors.not_a_tensor("numel", "input", input)
    count: int = input._array.size
    return count


@method
def stride(
    self: Tensor, dim: int | None = None, *, axis: int | None = None
) -> tuple[int, ...] | int:
    """How many elements of memory lie between neighbours, in all dimensions or in one.

    Example:
        >>> import pullback as torch
        >>> torch.ones(2, 3).stride()
        (3, 1)
    """
    array = self._array
    known = type(array) is ndarray
    steps = _STEPS.get((array.strides, array.itemsize)) if known else None
    if steps is None:
        steps = strides_of(array)
    if axis is not None:
        dim = _one_name("stride", dim, axis)
    if dim is None:
        return steps
    return steps[_dim("stride", dim, len(steps))]


def strides_of(array: Array) -> tuple[int, ...]:
    """Strides in elements, as torch gives them.

    NumPy's say nothing where a dimension has one element or an array was made empty; there they are
    what they would be in memory without gaps. An empty slice keeps those of what it was cut from.
    """
    shape, itemsize = array.shape, array.itemsize
    strides = array.strides
    if 0 not in strides:
        steps = tuple([step // itemsize for step in strides])
        if type(array) is ndarray:  # others may have sizes that are traced
            if len(_STEPS) >= _MOST_STEPS:
                _STEPS.clear()
            _STEPS[strides, itemsize] = steps
        return steps
    if 0 in shape and not any(strides):
        return contiguous_strides(shape)
    found = [step // itemsize for step in strides]
    for dim in reversed(range(len(shape) - 1)):
        if shape[dim] == 1 and not found[dim]:
            found[dim] = found[dim + 1] * shape[dim + 1]
    if shape and shape[-1] == 1 and not found[-1]:
        found[-1] = 1
    return tuple(found)


# Strides in bytes without a 0, and the size of an element -> strides in elements.
_STEPS: dict[tuple[tuple[int, ...], int], tuple[int, ...]] = {}
_MOST_STEPS = 1000


@method
def is_contiguous(self: Tensor, *, memory_format: memory_format = contiguous_format) -> bool:
    """Whether the elements lie in memory without gaps, the last dimension fastest.

    >>> import pullback as torch
    >>> torch.zeros(2, 3).is_contiguous(), torch.zeros(2, 3).T.is_contiguous()
    (True, False)
    """
    if memory_format is contiguous_format:
        contiguous: bool = self._array.flags.c_contiguous
        return contiguous
    if getattr(self, "level", None) is not None:
        raise RuntimeError(
            f"is_contiguous: inside vmap, {memory_format} has no meaning for one example; ask for "
            "torch.contiguous_format."
        )
    return is_in_format(self._array, memory_format)


@method
def dim_order(self: Tensor, *, ambiguity_check: bool | list[Any] = False) -> tuple[int, ...]:
    """The dimensions from slowest to fastest in memory.

    With `ambiguity_check`, an order that is not the only one (sizes of 1, expanded dimensions) is
    refused; a list of memory formats asks that the tensor be in exactly one of these.

    >>> import pullback as torch
    >>> torch.zeros(2, 3).T.dim_order()
    (1, 0)
    """
    if not _says_whether_to_check(ambiguity_check):
        raise TypeError(
            "dim_order(): ambiguity_check must be a bool or a list of memory formats, got "
            f"{ambiguity_check!r}."
        )
    order, is_only_one = _order_in_memory(self)
    if ambiguity_check and not is_only_one:
        raise _no_order(self, "elements share a place, or dimensions a stride")
    if ambiguity_check is not False and _may_change_places(self):
        formats = ambiguity_check if isinstance(ambiguity_check, list) else []
        fitting = [one for one in formats if self.is_contiguous(memory_format=one)]
        if len(fitting) != 1:
            raise _no_order(self, f"it is in {len(fitting)} of the {len(formats)} formats named")
    return order


def _says_whether_to_check(wish: Any) -> bool:
    return isinstance(wish, bool) or (
        isinstance(wish, list) and all(isinstance(one, memory_format) for one in wish)
    )


def _order_in_memory(self: Tensor) -> tuple[tuple[int, ...], bool]:
    """The dimensions by stride, and whether strides alone decide.

    Expanded dimensions stay where they are, and equal strides go by size: torch's results of
    element-wise operators lie in this order, too.
    """
    ndim = self.ndim
    plain = self.is_contiguous()
    last = ndim == 4 and self.is_contiguous(memory_format=channels_last)
    if plain and not last:
        return tuple(range(ndim)), True
    if last and not plain:
        return (0, 2, 3, 1), True
    shape, steps = self._array.shape, strides_of(self._array)
    order = list(range(ndim))
    is_only_one = True
    # Sorted by insertion, from the innermost dimension outwards.
    for start in reversed(range(ndim - 1)):
        at = start
        for inner in range(start + 1, ndim):
            a, b = order[at], order[inner]  # the outer, the inner one
            if not steps[a] or not steps[b]:
                is_only_one = False
                continue
            if steps[a] > steps[b]:
                break
            if steps[a] == steps[b] and shape[b] <= shape[a]:
                is_only_one = False
                continue
            order[at], order[inner] = b, a
            at = inner
    return tuple(order), is_only_one


def _may_change_places(self: Tensor) -> bool:
    steps = strides_of(self._array)
    return len(set(steps)) < len(steps) or 1 in self._array.shape


def _no_order(self: Tensor, reason: str) -> RuntimeError:
    shape, steps = tuple(self._array.shape), tuple(strides_of(self._array))
    return RuntimeError(
        f"dim_order(): a tensor of shape {shape} with strides {steps} has no single order of its "
        f"dimensions: {reason}."
    )


@method
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape.

    >>> import pullback as torch
    >>> torch.is_same_size(torch.zeros(2, 3), torch.ones(2, 3))
    True
    """
    _checked("is_same_size", "input", input)
    same: bool = _checked("is_same_size", "other", other)._array.shape == input._array.shape
    return same


# Kind of elements -------------------------------------------------------------------------------


def _dtype(op: str, input: Any) -> dtype:
    return _checked(op, "input", input).dtype


@method
def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are real floating-point numbers.

    >>> import pullback as torch
    >>> torch.is_floating_point(torch.tensor([1])), torch.is_floating_point(torch.tensor([1.0]))
    (False, True)
    """
    return _dtype("is_floating_point", input).is_floating_point


@method
def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex numbers.

    >>> import pullback as torch
    >>> torch.is_complex(torch.tensor([1j]))
    True
    """
    return _dtype("is_complex", input).is_complex


@method
def is_signed(input: Tensor) -> bool:
    """Whether the elements can be negative.

    >>> import pullback as torch
    >>> torch.is_signed(torch.tensor([1], dtype=torch.uint8))
    False
    """
    return _dtype("is_signed", input).is_signed


@method
def is_conj(input: Tensor) -> bool:
    """Whether conjugation is still to be done, when elements are read.

    >>> import pullback as torch
    >>> torch.is_conj(torch.tensor([1j])), torch.is_conj(torch.tensor([1j]).conj())
    (False, True)
    """
    return bool(_bits_of("is_conj", input) & CONJUGATED)


@method
def is_neg(input: Tensor) -> bool:
    """Whether negation is still to be done, when elements are read.

    >>> import pullback as torch
    >>> torch.is_neg(torch.tensor([1j]).imag), torch.is_neg(torch.tensor([1j]).conj().imag)
    (False, True)
    """
    return bool(_bits_of("is_neg", input) & NEGATED)


def _bits_of(op: str, input: Any) -> int:
    tensor: Any = _checked(op, "input", input)
    while hasattr(tensor, "bdim"):  # a batch inside vmap
        tensor = tensor.value
    return int(tensor._bits)


@method
def is_distributed(input: Tensor) -> bool:
    """Always False, as in torch.

    >>> import pullback as torch
    >>> torch.zeros(2).is_distributed()
    False
    """
    return False


def is_tensor(obj: Any) -> bool:
    """Whether `obj` is a tensor.

    Example:
        >>> import pullback as torch
        >>> torch.is_tensor(torch.ones(1)), torch.is_tensor([1.0])
        (True, False)
    """
    return isinstance(obj, Tensor)


def is_storage(obj: Any) -> bool:
    """Whether `obj` is the memory behind a tensor.

    >>> import pullback as torch
    >>> torch.is_storage(torch.tensor([1.0]).untyped_storage())
    True
    """
    loaded: Any = sys.modules.get("pullback.storage")
    if not hasattr(loaded, "TypedStorage"):  # not there, or being loaded by another thread
        return False
    return isinstance(obj, loaded.UntypedStorage | loaded.TypedStorage)


METHODS.update({"ndimension": dim, "nelement": numel})


# Properties, attached by methods.py: a getter, or a property with a setter ------------------------


def _layout(self: Tensor) -> layout:
    """How the elements are stored: `torch.strided`, or what a wrapper says of itself."""
    own: layout = vars(self).get("_own_layout", strided)
    return own


def _nbytes(self: Tensor) -> int:
    """Bytes of all elements, those of an expanded tensor counted as often as they appear."""
    count: int = self._array.size * self._array.itemsize
    return count


def _is_cpu(self: Tensor) -> bool:
    """Whether the memory is the host's."""
    return self.device.type == "cpu"


def _is_cuda(self: Tensor) -> bool:
    """Whether the memory is on a CUDA device."""
    return self.device.type == "cuda"


def _is_meta(self: Tensor) -> bool:
    """Whether the tensor has a shape but no data."""
    return self.device.type == "meta"


def _never(what: str) -> Callable[[Tensor], bool]:
    def answer(self: Tensor) -> bool:
        return False

    answer.__doc__ = f"Whether the tensor is {what}; here it never is."
    return answer


def _name(self: Tensor) -> None:
    """Always None, as in torch."""


def _warn_volatile() -> None:
    warnings.warn(
        "`volatile` has no effect; use torch.no_grad() to run without history.",
        UserWarning,
        stacklevel=origin.stacklevel(),
    )


def _volatile(self: Tensor) -> bool:
    """Always False; reading and assigning it warn."""
    _warn_volatile()
    return False


def _set_volatile(self: Tensor, value: Any) -> None:
    _warn_volatile()


PROPERTIES: dict[str, Any] = {
    "is_cpu": _is_cpu,
    "is_cuda": _is_cuda,
    "is_meta": _is_meta,
    "itemsize": element_size,
    "layout": _layout,
    "name": _name,
    "nbytes": _nbytes,
    "volatile": property(_volatile, _set_volatile),
    **{
        f"is_{what}": _never(what)
        for what in (
            *("ipu", "maia", "mkldnn", "mps", "mtia", "nested", "quantized", "sparse"),
            *("sparse_csr", "vulkan", "xla", "xpu"),
        )
    },
}
