"""Forward mode with dual tensors: a value and its directional derivative, computed together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy

from pullback.autograd.grad_mode import decorated
from pullback.core.arrays import Array
from pullback.core.dtype import dtype
from pullback.core.explain.absent import absent as _absent
from pullback.core.forward import Level, close_level, open_level
from pullback.core.listing import only_public as _only_public
from pullback.core.memory.narrow import held
from pullback.core.mode import change, get_mode
from pullback.core.process.whole import Whole
from pullback.core.tensor import Tensor, wrap
from pullback.operators.arrays.strides import geometry_of, may_overlap, on_storage, root
from pullback.operators.shape.reshaping import view_as
from pullback.transforms.batched import (
    base_of,
    exposed,
    hidden,
    hidden_like,
    levels_of,
    with_levels,
)

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]

# The one level that this interface may open; function transforms have their own.
_open: Level | None = None


class UnpackedDualTensor(NamedTuple):
    """What `unpack_dual` returns.

    >>> import pullback as torch
    >>> import pullback.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor(3.0), torch.tensor(1.0))
    ...     value, tangent = fwAD.unpack_dual(x**2)
    >>> value, tangent
    (tensor(9.), tensor(6.))
    """

    primal: Tensor
    tangent: Tensor | None


def _begin(level: Level) -> None:
    global _open
    if _open is not None:
        raise RuntimeError(
            "A dual level is open already, and nesting is not supported; use func.jvp for higher "
            "orders."
        )
    _open = level
    open_level(level)


def _end(level: Level | None) -> None:
    """Close a level as far as it is open."""
    global _open
    if level is not None:
        close_level(level)
        if _open is level:
            _open = None


def enter_dual_level() -> int:
    """Open the level in which tensors can carry tangents. Process-wide, not per thread.

    >>> import pullback as torch
    >>> import pullback.autograd.forward_ad as fwAD
    >>> level = fwAD.enter_dual_level()
    >>> x = fwAD.make_dual(torch.tensor(3.0), torch.tensor(1.0))
    >>> fwAD.unpack_dual(x * 5).tangent
    tensor(5.)
    >>> fwAD.exit_dual_level(level=level)
    """
    level = Level(everywhere=True)
    try:
        _begin(level)
        return 0  # noqa: TRY300 (what comes after it is taken back too)
    except BaseException:
        _end(level)
        raise


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level; every tangent is erased.

    >>> import pullback as torch
    >>> import pullback.autograd.forward_ad as fwAD
    >>> level = fwAD.enter_dual_level()
    >>> x = fwAD.make_dual(torch.tensor(3.0), torch.tensor(1.0))
    >>> fwAD.exit_dual_level(level=level)
    >>> fwAD.unpack_dual(x).tangent is None
    True
    """
    closing = _open
    if closing is None:
        raise RuntimeError("No dual level is open, so there is none to exit.")
    if level not in (None, 0):
        raise RuntimeError(f"Only the innermost dual level (0) can be exited, not {level}.")
    try:
        _end(closing)
    except BaseException:
        _end(closing)
        raise


class dual_level(Whole):
    """Context in which tensors can carry tangents; a decorator too.

    >>> import pullback as torch
    >>> import pullback.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor(3.0), torch.tensor(1.0))
    ...     fwAD.unpack_dual(x * x).tangent
    tensor(6.)
    """

    _level: Level | None = None

    def _enter(self) -> int:
        self._level = Level(everywhere=True)
        _begin(self._level)
        return 0

    def _leave(self) -> None:
        _end(self._level)

    def __call__(self, function: Any) -> Any:
        """A function that runs in a level of its own."""
        return decorated(dual_level, function)


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A new tensor on the memory of `tensor` that carries `tangent`."""
    opened = _level(level)
    for name, value in (("tensor", tensor), ("tangent", tangent)):
        if not value.dtype.is_differentiable:
            raise ValueError(
                f"make_dual: {name} must be floating point or complex, got {value.dtype}; convert "
                "it first."
            )
    if tensor._array.shape != tangent._array.shape:
        raise RuntimeError(
            f"make_dual: the tangent has shape {tuple(tangent.shape)}, the primal "
            f"{tuple(tensor.shape)}; they must be equal."
        )
    if tensor.__class__ is not Tensor and (levels := levels_of(tensor)):
        # Inside vmap: the dual is the whole batch, whose examples are seen.
        base, whole = exposed(tensor, levels), exposed(tangent, levels)
        with with_levels(()):
            seen: Tensor = hidden(make_dual(base, whole, level=level), levels)
            return seen
    if opened.get(tensor) is not None:
        raise RuntimeError("make_dual: the primal carries a tangent already; unpack it first.")
    if opened.get(tangent) is not None:
        raise RuntimeError("make_dual: the tangent itself carries a tangent; unpack it first.")
    return attach_tangent(tensor, tangent, opened)


def attach_tangent(tensor: Tensor, tangent: Tensor, level: Level) -> Tensor:
    """A backward view of `tensor` with a tangent of its own; `tensor` stays as it is."""
    dual: Tensor = view_as(tensor, tensor)
    if dual._is_view():  # inference tensors have none
        dual._node.change(forward=False)
    if base_of(tangent).requires_grad:
        level.tracked = True
    level.put(dual, laid_out_as(tangent, tensor))
    return dual


def laid_out_as(tangent: Any, tensor: Any) -> Any:
    """The tangent itself if its memory is laid out as the tensor's, else a copy that is."""
    if tangent._bits != tensor._bits:
        return _put_off_as(tensor, tangent)
    a, b = tangent._raw, tensor._raw
    if a.strides == b.strides and a.base is None and b.base is None:
        return tangent
    if type(a) is not numpy.ndarray or type(b) is not numpy.ndarray:  # examples, or no data
        if tensor._layout is not None:
            return tangent  # values, which their own kind lays out
        if a.flags.c_contiguous and b.flags.c_contiguous:
            return tangent
        if tangent.__class__ is not Tensor and levels_of(tangent):
            return tangent.clone()  # a batch of tangents has a layout of its own
        return tensor.detach().clone().to(tangent.dtype).copy_(tangent)
    if _is_laid_out_alike(a, b):
        return tangent
    return _on_memory_like(b, tangent.dtype).copy_(tangent)


def _put_off_as(tensor: Any, tangent: Any) -> Any:
    """A copy of the tangent of which as much is put off as of the tensor."""
    made = tangent.clone()
    if tensor.is_conj():
        made = made.conj_physical().conj()
    return made.neg()._neg_view() if tensor.is_neg() else made


def _is_laid_out_alike(a: Array, b: Array) -> bool:
    """Whether the same places of memories of the same size are used, in the same order."""
    ours, theirs = geometry_of(a), geometry_of(b)
    steps = zip(a.shape, ours[1], theirs[1], strict=True)
    return (
        ours[2] == theirs[2]
        and all(n < 2 or one == other for n, one, other in steps)
        and _elements_under(a) == _elements_under(b)
    )


def _elements_under(array: Array) -> int:
    count: int = root(array).nbytes // array.itemsize
    return count


def _on_memory_like(array: Array, dtype: dtype) -> Tensor:
    """Zeros that lie in memory as `array` does, with all that is beside it: views may reach it."""
    geometry = geometry_of(array)
    if may_overlap(geometry):
        return wrap(held(numpy.zeros(array.shape, dtype.numpy)))
    return wrap(on_storage(held(numpy.zeros(_elements_under(array), dtype.numpy)), geometry))


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The value without its tangent, and the tangent (None where there is none).

    >>> import pullback as torch
    >>> import pullback.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor(2.0), torch.tensor(1.0))
    ...     fwAD.unpack_dual(x.exp()).tangent
    tensor(7.3891)
    """
    if _open is None:
        return UnpackedDualTensor(tensor, None)
    opened = _level(level)
    tangent = opened.get(base_of(tensor)) if get_mode().forward_ad else None
    if tensor.__class__ is not Tensor and levels_of(tensor):
        primal = tensor._alias()
        return UnpackedDualTensor(primal, None if tangent is None else hidden_like(tangent, tensor))
    primal = view_as(tensor, tensor)
    if primal._is_view():  # inference tensors have none
        primal._node.change(forward=False)
    opened.put(primal, None)
    return UnpackedDualTensor(primal, tangent)


def _level(level: int | None) -> Level:
    if _open is None:
        raise RuntimeError(
            "No dual level is open; wrap the computation in forward_ad.dual_level()."
        )
    if level not in (None, 0):
        raise RuntimeError(f"Dual level {level} does not exist; the open one is 0.")
    return _open


class _set_fwd_grad_enabled(Whole):
    """Hide tangents (False) or show them again; at once, and as a context."""

    def __init__(self, mode: bool) -> None:
        self._before = change(forward_ad=mode).forward_ad

    def _enter(self) -> None:
        pass

    def _leave(self) -> None:
        change(forward_ad=self._before)


def _is_fwd_grad_enabled() -> bool:
    return get_mode().forward_ad


if not TYPE_CHECKING:  # to type checkers it would mean that every name is there

    def __getattr__(name: str) -> Any:
        if name == "_current_level":  # programs read it, so it says what is so now
            return -1 if _open is None else 0
        raise _absent(__name__, name)


__dir__ = _only_public(globals())
