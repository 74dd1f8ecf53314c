"""Operators on tensors without data (device "meta"): only shapes, strides and dtypes come out.

The declaration's own forward tells them. A view runs as it is, since it reads nothing. An
elementwise operator, a product or a reduction runs on small arrays whose lengths stand for the real
ones. What is left runs on zeros of the real size, and its result is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import copy_context
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.memory.meta import MetaArray, grown, like, plain, tiny
from pullback.operators.arrays.native import makes_kernels
from pullback.operators.declare import Op

__all__ = ["among", "compute"]

_FEW = 1 << 17  # elements: NumPy is done with them before a kernel for them is compiled
_LABELS = (2, 3, 5, 7, 11, 13, 17, 19)


def among(arrays: dict[str, Any]) -> bool:
    """Whether any input has no data."""
    return any(
        type(one) is MetaArray
        or (type(one) is tuple and any(type(part) is MetaArray for part in one))
        for one in arrays.values()
    )


def compute(op: Op, arrays: dict[str, Any], options: dict[str, Any]) -> Any:
    """The forward's results, without data."""
    _check_devices(op, arrays)
    first = next(iter(arrays.values()))
    if op.function is not None and op.function.op is not op:
        return first  # it would write to its target
    if op.meta == "like first":
        return first.copy(order="K")
    if op.meta == "by values" or _has_mask(op, arrays):
        raise NotImplementedError(
            f"{op.name.strip('_')}: the shape of its result depends on the values of its input, "
            "and a tensor on device 'meta' has none. Run it on real data."
        )
    if op.makes_layout:
        return op.forward(numpy, **arrays, **options)
    if op.kind == "view":
        made = op.forward(numpy, **arrays, **options)
        if _is_single(op):
            return made.view(MetaArray)
        return [one.view(MetaArray) for one in made]
    if op.kind == "elementwise" and op.outputs == ("out",):
        return _elementwise(op, arrays, options)
    if op.meta == "lengths kept":
        return _labelled(op, arrays, options)
    return _real(op, arrays, options)


def _has_mask(op: Op, arrays: dict[str, Any]) -> bool:
    """Whether the number of elements that an index picks depends on values."""
    if op.name not in ("_index", "_index_many"):
        return False
    _, *indices = arrays.values()
    flat = [one for value in indices for one in (value if type(value) is tuple else (value,))]
    return any(one is not None and one.dtype.kind == "b" for one in flat)


def _real(op: Op, arrays: dict[str, Any], options: dict[str, Any]) -> Any:
    """The forward on zeros; on unit matrices where those of zeros are singular."""
    # A context of its own ends with the call, whatever raises and wherever it does.
    made = copy_context().run(_on_zeros, op, arrays, options)
    return like(made) if _is_single(op) else [like(one) for one in made]


def _on_zeros(op: Op, arrays: dict[str, Any], options: dict[str, Any]) -> Any:
    if _elements(arrays.values()) <= _FEW:
        makes_kernels.set(False)
    try:
        return op.forward(numpy, **_each(arrays, plain), **options)
    except (numpy.linalg.LinAlgError, RuntimeError):
        return op.forward(numpy, **_each(arrays, _unit), **options)


def _elements(arrays: Iterable[Any]) -> int:
    return sum(
        [_elements(one) if type(one) is tuple else getattr(one, "size", 0) for one in arrays]
    )


def _unit(array: MetaArray) -> Any:
    if array.ndim < 2 or array.dtype.kind not in "fc":
        return plain(array)
    return numpy.broadcast_to(numpy.eye(*array.shape[-2:], dtype=array.dtype), array.shape)


def _is_single(op: Op) -> bool:
    return len(op.outputs) == 1 and op.outputs != ("*",)


def _check_devices(op: Op, arrays: dict[str, Any]) -> None:
    """Refuse inputs from another device, but for numbers (0-d tensors), indices and masks."""
    for name, value in arrays.items():
        for one in value if type(value) is tuple else (value,):
            foreign = type(one) is numpy.ndarray and one.ndim and one.dtype.kind not in "biu"
            if foreign:
                raise errors.devices_differ(op.name, name)


def _each(arrays: dict[str, Any], change: Any) -> dict[str, Any]:
    return {name: _changed(value, change) for name, value in arrays.items()}


def _changed(value: Any, change: Any) -> Any:
    if type(value) is tuple:
        return tuple(_changed(one, change) for one in value)
    return change(value) if type(value) is MetaArray else value


def _elementwise(op: Op, arrays: dict[str, Any], options: dict[str, Any]) -> MetaArray:
    given = [one for one in arrays.values() if isinstance(one, numpy.ndarray)]
    shape = numpy.broadcast_shapes(*[one.shape for one in given])
    small = {
        name: tiny(one, {size: 2 for size in one.shape if size > 1}, 1)
        if isinstance(one, numpy.ndarray)
        else one
        for name, one in arrays.items()
    }
    return grown(op.forward(numpy, **small, **options), shape)


def _labelled(op: Op, arrays: dict[str, Any], options: dict[str, Any]) -> Any:
    """Each length of the inputs becomes a small prime, by which it is known in the result."""
    flat = [one for one in arrays.values() if isinstance(one, numpy.ndarray)]
    lengths = sorted({size for one in flat for size in one.shape if size > 1})
    if len(lengths) > len(_LABELS):
        return _real(op, arrays, options)
    labels = dict(zip(lengths, _LABELS, strict=False))
    small = {
        name: tiny(one, labels) if isinstance(one, numpy.ndarray) else one
        for name, one in arrays.items()
    }
    made = op.forward(numpy, **small, **_relabelled(op, options, labels))
    known = {label: size for size, label in labels.items()}
    results = [made] if _is_single(op) else list(made)
    shapes = [tuple(known.get(size, size) for size in numpy.shape(one)) for one in results]
    grown_ones = [grown(one, shape) for one, shape in zip(results, shapes, strict=True)]
    return grown_ones[0] if _is_single(op) else grown_ones


def _relabelled(op: Op, options: dict[str, Any], labels: dict[int, int]) -> dict[str, Any]:
    """Options that are shapes name lengths too."""
    shapes = {param.name for param in op.params if param.kind == "shape"}
    return {
        name: tuple(labels.get(size, size) for size in value) if name in shapes else value
        for name, value in options.items()
    }
