"""What operators say about batches: rules for `batch=`, by which vmap makes one call of many.

A rule takes `(op, size, split, options)`: the number of examples, for each input `(tensor,
dimension of
the examples or None)` (a list of these for a sequence), and the options as given for one example.
It
returns results with the examples in front. Written in methods of tensors, so that every family can
use this file.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from pullback.core.dtype import from_numpy_dtype
from pullback.core.promotion import promote_to_float, result_dtype
from pullback.core.tensor import Tensor
from pullback.operators.declare import Op
from pullback.operators.options import NORMALISE

__all__ = [
    "aligned",
    "filled",
    "front",
    "moving",
    "per_dim",
    "shifted",
    "shifted_options",
    "together",
]

Rule = Callable[[Op, int, dict[str, Any], dict[str, Any]], Any]


# Options by what becomes of them in a call with one tensor, its examples in front: "dim" and "dims"
# (move by one, as checked on an example), "new dim" (counted on the result), "known dim" (the same,
# and not checked), "shape" (gets the examples in front), "known shape", "full shape" (only if the
# example has as many dimensions).
Moved = dict[str, str]


def moving(**moved: str) -> Callable[[Rule], Rule]:
    """Say that a rule does no more than move options in a call with one tensor in front."""

    def say(rule: Rule) -> Rule:
        rule.moved = moved  # type: ignore[attr-defined]  # an attribute of ours
        return rule

    return say


def front(value: Any, bdim: int) -> Any:
    """`value` with the dimension of its examples first."""
    return value if bdim == 0 else value.movedim(bdim, 0)


def filled(pair: Any, size: int) -> Any:
    """A tensor with its examples in front; what all share is expanded, a sequence one by one."""
    if isinstance(pair, list):
        return [filled(one, size) for one in pair]
    value, bdim = pair
    if not isinstance(value, Tensor):
        return value
    if bdim is not None:
        return front(value, bdim)
    return value.unsqueeze(0).expand((size, *value.shape))


def ndim_of(pair: Any) -> int:
    """The number of dimensions of one example."""
    value, bdim = pair
    return value.ndim - (bdim is not None) if isinstance(value, Tensor) else 0


def padded(value: Any, bdim: int, rank: int) -> Any:
    """Examples in front, then ones, so that each example has `rank` dimensions."""
    moved = front(value, bdim)
    missing = rank - (moved.ndim - 1)
    if missing <= 0:
        return moved
    shape = tuple(moved.shape)
    return moved.reshape((shape[0], *(1,) * missing, *shape[1:]))


def aligned(op: Op, size: int, split: dict[str, Any], options: dict[str, Any]) -> Any:
    """Inputs that broadcast: ranks are made equal behind the examples."""
    tensors = [pair for pair in split.values() if isinstance(pair[0], Tensor)]
    rank = max(ndim_of(pair) for pair in tensors)
    wanted = _dtype_of_example(op, split)
    arguments = {}
    for name, (value, bdim) in split.items():
        if isinstance(value, Tensor):
            if wanted is not None and value.dtype is not wanted:
                value = value.to(wanted)
            arguments[name] = value if bdim is None else padded(value, bdim, rank)
        else:
            arguments[name] = value
    return op.function(**arguments, **options)


def _dtype_of_example(op: Op, split: dict[str, Any]) -> Any:
    """The dtype of one example: 0-d ones do not widen others, though their batch would."""
    values = [pair for pair in split.values() if pair[0] is not None]
    if op.promote is None or len(values) < 2:
        return None
    first = getattr(values[0][0], "_array", None)
    if first is not None and first.dtype.kind in "fcVW":
        others = [getattr(value, "_array", None) for value, _ in values]
        if all(one is not None and one.dtype is first.dtype for one in others):
            return None  # all of one dtype, which is theirs
    dtype = result_dtype([_example(value, bdim) for value, bdim in values])
    return from_numpy_dtype(promote_to_float(dtype) if op.promote == "float" else dtype)


def _example(value: Any, bdim: int | None) -> Any:
    """An array of one example's dtype and number of dimensions; numbers as they are."""
    if not isinstance(value, Tensor):
        return value
    return numpy.empty((0,) * (value.ndim - (bdim is not None)), value._array.dtype)


def together(op: Op, size: int, split: dict[str, Any], options: dict[str, Any]) -> Any:
    """Every tensor gets the examples in front, and options that name dimensions move by one."""
    first = split[op.inputs[0].name]
    ndim = ndim_of(first[0] if isinstance(first, list) else first)
    arguments = {name: filled(pair, size) for name, pair in split.items()}
    if ndim == 0 and any(param.kind == "dim" for param in op.params):
        # A 0-d tensor has a dimension 0 of size 1, as far as options are concerned.
        lines = {
            name: value.unsqueeze(1) if isinstance(value, Tensor) and value.ndim == 1 else value
            for name, value in arguments.items()
        }
        return _points(op.function(**lines, **shifted_options(op, options, 1, size)))
    return op.function(**arguments, **shifted_options(op, options, ndim, size))


def _points(results: Any) -> Any:
    """Examples of size 1 as 0-d examples."""
    if isinstance(results, tuple | list):
        return [_points(one) for one in results]
    return results.squeeze(1) if results.ndim == 2 and results.shape[1] == 1 else results


def one_tensor(op: Op, size: int, split: dict[str, Any], options: dict[str, Any]) -> Any:
    """The one batched tensor with its examples in front; annotated options move by one."""
    name = next(name for name, pair in split.items() if pair[1] is not None)
    value = front(*split[name])
    others = {other: pair[0] for other, pair in split.items() if other != name}
    ndim = value.ndim - 1
    kinds = {param.name: param.kind for param in op.params}
    whole = [n for n, value in options.items() if kinds[n] == "dim" and value is None]
    if whole:
        return _flattened(op, size, {name: value, **others}, name, options, whole[0])
    if ndim == 0 and op.kind != "view" and {"dim", "dims"} & set(kinds.values()):
        line = {name: value.unsqueeze(1), **others}
        return _points(op.function(**line, **shifted_options(op, options, 1, size)))
    return op.function(**{name: value}, **others, **shifted_options(op, options, ndim, size))


def _flattened(
    op: Op, size: int, arguments: dict[str, Any], name: str, options: dict[str, Any], dim: str
) -> Any:
    """No dimension given, so all of the example's: they become one."""
    value = arguments[name]
    ndim = value.ndim - 1
    lines = {**arguments, name: value.reshape((size, math.prod(value.shape[1:])))}
    results = op.function(**lines, **{**options, dim: 1})
    if not options.get("keepdim"):
        return results
    shape = (size, *(1,) * ndim)
    if isinstance(results, tuple | list):
        return [one.reshape(shape) for one in results]
    return results.reshape(shape)


def refused(op: Op, size: int, split: dict[str, Any], options: dict[str, Any]) -> Any:
    """The rule of operators whose result has a size that depends on the values."""
    raise RuntimeError(
        f"vmap: the size of what {op.name.strip('_')} returns depends on the values of a mapped "
        "tensor, so the examples could not be stacked. Use torch.where, or do it outside of vmap."
    )


def shifted(dims: tuple[str, ...] = (), shapes: tuple[str, ...] = ()) -> Rule:
    """A rule for operators that only rules call, which check no dims.

    Dims are counted on the result; they move by one, shapes get the examples in front.
    """

    def rule(op: Op, size: int, split: dict[str, Any], options: dict[str, Any]) -> Any:
        options = dict(options)
        for name in dims:
            value = options[name]
            options[name] = (
                tuple(dim + 1 for dim in value) if isinstance(value, tuple | list) else value + 1
            )
        for name in shapes:
            options[name] = (size, *options[name])
        tensors = {name: filled(pair, size) for name, pair in split.items()}
        if not shapes and all(ndim_of(pair) == 0 for pair in split.values()):
            return _points(
                op.function(**{n: t.unsqueeze(1) for n, t in tensors.items()}, **options)
            )
        return op.function(**tensors, **options)

    if not shapes:
        return rule
    return moving(**dict.fromkeys(dims, "known dim"), **dict.fromkeys(shapes, "known shape"))(rule)


def per_dim(*names: str) -> Rule:
    """As `one_tensor`, where no dims mean none of them and not all."""

    def rule(op: Op, size: int, split: dict[str, Any], options: dict[str, Any]) -> Any:
        ((name, (value, bdim)),) = split.items()
        value = front(value, bdim)
        ndim = value.ndim - 1
        options = dict(options)
        for option in names:
            given = options[option]
            dims = given if isinstance(given, tuple | list) else (given,)
            options[option] = tuple(NORMALISE["dim"](dim, ndim, op.name) + 1 for dim in dims)
            if ndim == 0:
                options[option] = ()
        return op.function(**{name: value}, **options)

    return rule


def shifted_options(op: Op, options: dict[str, Any], ndim: int, size: int) -> dict[str, Any]:
    """Options of one example as options of the batch: annotated dimensions move by one."""
    moved = dict(options)
    for param in op.params:
        value = options.get(param.name)
        if param.kind == "dim" and value is not None:
            moved[param.name] = NORMALISE["dim"](value, ndim, op.name) + 1
        elif param.kind == "dims":
            dims = NORMALISE["dims"](value, ndim, op.name)
            everything = tuple(range(ndim))
            moved[param.name] = tuple(dim + 1 for dim in dims or everything)
        elif param.kind == "shape" and value is not None:
            moved[param.name] = (size, *NORMALISE["shape"](value, ndim, op.name))
    return moved
