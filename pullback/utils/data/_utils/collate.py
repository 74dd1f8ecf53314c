"""Collating: from a list of items to one batch of tensors, through nested containers."""

from __future__ import annotations

import contextlib
import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy

from pullback.core.dtype import float64
from pullback.core.tensor import Tensor
from pullback.operators.create.data import as_tensor, tensor
from pullback.operators.shape.joining import stack

__all__ = ["collate", "default_collate", "default_collate_fn_map", "default_convert"]

Kind = type | tuple[type, ...]
FunctionMap = dict[Any, Callable[..., Any]]
np_str_obj_array_pattern = re.compile(r"[SaUO]")  # dtypes, as NumPy spells them, of no tensor
_TEXT = "SUO"  # kinds of NumPy dtypes that no tensor can have


# Of one item ------------------------------------------------------------------------------------


def default_convert(data: Any) -> Any:
    """Arrays become tensors wherever they are in nested containers; all else stays.

    Example:
        >>> import numpy
        >>> from pullback.utils.data import default_convert
        >>> default_convert({"x": numpy.array([1, 2]), "name": "a"})
        {'x': tensor([1, 2]), 'name': 'a'}
    """
    if isinstance(data, Tensor):
        return data
    if isinstance(data, numpy.ndarray | numpy.generic):
        return data if data.dtype.kind in _TEXT else as_tensor(data)
    if isinstance(data, Mapping):
        return _like(data, {key: default_convert(value) for key, value in data.items()})
    if _is_namedtuple(data):
        return type(data)(*(default_convert(part) for part in data))
    if isinstance(data, tuple):
        return [default_convert(part) for part in data]
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return _like(data, [default_convert(part) for part in data])
    return data


def _is_namedtuple(data: Any) -> bool:
    return isinstance(data, tuple) and hasattr(data, "_fields")


def _like(container: Any, content: Any) -> Any:
    """The content in a container of the same class, or as it is where that cannot be."""
    kind = type(container)
    if kind is dict or kind is list:
        return content
    with contextlib.suppress(TypeError):
        if isinstance(container, MutableMapping):
            mapping = copy.copy(container)
            mapping.update(content)
            return mapping
        if isinstance(container, MutableSequence):
            other = copy.copy(container)
            for place, value in enumerate(content):
                other[place] = value
            return other
        return kind(content)
    return content


# Of a list of items -----------------------------------------------------------------------------


def collate(batch: Any, *, collate_fn_map: FunctionMap | None = None) -> Any:
    """One batch of a list of items, by the functions that a map has for their types.

    The map goes from a type, or a tuple of types, to `f(items, *, collate_fn_map)`. Dicts, named
    tuples and sequences are gone through, each place on its own.

    Example:
        >>> from pullback.utils.data._utils.collate import collate
        >>> collate([[1, 2], [3, 4]], collate_fn_map={int: lambda items, **_: max(items)})
        [3, 4]
    """
    item = batch[0]
    kind = type(item)
    if collate_fn_map is not None:
        function = collate_fn_map.get(kind) or _for_base(collate_fn_map, item)
        if function is not None:
            return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(item, Mapping):
        columns = {
            key: collate([other[key] for other in batch], collate_fn_map=collate_fn_map)
            for key in item
        }
        return _like(item, columns)
    if _is_namedtuple(item):
        parts = zip(*batch, strict=True)
        return kind(*(collate(part, collate_fn_map=collate_fn_map) for part in parts))
    if isinstance(item, Sequence):
        return _collated_sequences(batch, item, collate_fn_map)
    raise TypeError(
        f"default_collate: no rule for {kind.__name__}; items must be tensors, NumPy arrays, "
        "numbers, or dicts and lists of such. Give the loader a collate_fn for others."
    )


def _for_base(table: FunctionMap, item: Any) -> Callable[..., Any] | None:
    return next((function for kind, function in table.items() if isinstance(item, kind)), None)


def _collated_sequences(batch: Any, item: Any, table: FunctionMap | None) -> Any:
    lengths = {len(other) for other in batch}
    if len(lengths) > 1:
        raise RuntimeError(
            f"default_collate: items of one batch have lengths {sorted(lengths)}; they must be "
            "equal. Give the loader a collate_fn that pads them."
        )
    columns = [collate(part, collate_fn_map=table) for part in zip(*batch, strict=True)]
    return columns if isinstance(item, tuple) else _like(item, columns)


def collate_tensor_fn(batch: Any, *, collate_fn_map: FunctionMap | None = None) -> Any:
    """Tensors are stacked along a new first dimension."""
    try:
        return stack(list(batch), 0)
    except RuntimeError:
        first = tuple(batch[0].shape)
        for number, one in enumerate(batch):
            if tuple(one.shape) != first:
                raise RuntimeError(
                    f"default_collate: the items of a batch must have equal shapes; item 0 has "
                    f"{first}, item {number} has {tuple(one.shape)}. Give the loader a collate_fn "
                    "that pads them."
                ) from None
        raise


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: FunctionMap | None = None) -> Any:
    """Arrays become tensors, and are stacked."""
    if batch[0].dtype.kind in _TEXT:
        raise TypeError(
            f"default_collate: no tensor has elements of dtype {batch[0].dtype}; give the loader "
            "a collate_fn."
        )
    return collate([as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: FunctionMap | None = None) -> Any:
    """NumPy's numbers become one tensor of their dtype."""
    return as_tensor(list(batch))


def collate_float_fn(batch: Any, *, collate_fn_map: FunctionMap | None = None) -> Any:
    """Python's floats become a tensor of float64."""
    return tensor(list(batch), dtype=float64)


def collate_int_fn(batch: Any, *, collate_fn_map: FunctionMap | None = None) -> Any:
    """Python's ints and bools become a tensor of int64 or bool."""
    return tensor(list(batch))


def collate_str_fn(batch: Any, *, collate_fn_map: FunctionMap | None = None) -> Any:
    """Text stays as it came."""
    return batch


default_collate_fn_map: FunctionMap = {
    Tensor: collate_tensor_fn,
    numpy.ndarray: collate_numpy_array_fn,
    (numpy.bool_, numpy.number, numpy.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Any) -> Any:
    """One batch of a list of items, as a loader makes it: tensors stacked, numbers as tensors.

    Example:
        >>> from pullback.utils.data import default_collate
        >>> default_collate([{"x": 1, "y": 0.5}, {"x": 2, "y": 1.5}])
        {'x': tensor([1, 2]), 'y': tensor([0.5000, 1.5000], dtype=torch.float64)}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
