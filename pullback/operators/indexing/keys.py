"""What stands between the brackets of `t[key]`, brought to a few plain forms.

A key becomes a list of ints, slices, None, `...`, bools and index tensors (int32, int64 or masks).
Here because reading and assignment take the same keys, and mistakes in them are the user's most
frequent.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Sequence
from typing import Any

import numpy
from numpy import ndarray

from pullback.core import origin
from pullback.core.dtype import from_numpy_dtype
from pullback.core.tensor import Tensor, wrap
from pullback.operators.arrays.scatter import INT64

__all__ = [
    "BASIC",
    "as_index",
    "check_count",
    "check_masks",
    "items_of",
    "numbered",
    "numpy_key",
    "plain_slice",
    "spans",
]

# Types of the items that need no look, in a NumPy key as in ours.
BASIC = frozenset((int, slice, type(None), type(Ellipsis)))
_PLAIN = BASIC | {bool}


def items_of(key: Any) -> list[Any]:
    """The items of a key, each in a plain form."""
    if type(key) is not tuple:
        key = _as_tuple(key)
    return [item if type(item) in _PLAIN else _plain(item) for item in key]


def _as_tuple(key: Any) -> tuple[Any, ...]:
    """One item, but for lists that hold more than numbers: torch still reads those as tuples."""
    if not isinstance(key, list) or len(key) >= 32:
        return (key,)
    if not any(item is None or isinstance(item, _NESTED) for item in key):
        return (key,)
    warnings.warn(
        "A list that holds slices, sequences or tensors is read as a tuple of indices, "
        "x[tuple(key)]; this is deprecated in torch. Write x[tuple(key)], or x[torch.tensor(key)] "
        "for one index.",
        UserWarning,
        stacklevel=origin.stacklevel(),
    )
    return tuple(key)


_NESTED = (slice, type(Ellipsis), Tensor, list, tuple, range, numpy.ndarray)


def _plain(item: Any) -> Any:
    if isinstance(item, Tensor):
        return _plain_tensor(item)
    if isinstance(item, numpy.ndarray):
        return _plain_array(item)
    if isinstance(item, numpy.bool_ | float | complex | str | bytes):
        raise _not_an_index(item)
    if isinstance(item, Sequence):
        return from_list(_without_tensors(item))
    try:
        return operator.index(item)
    except TypeError:
        raise _not_an_index(item) from None


def _plain_tensor(item: Tensor) -> Any:
    array = item._array
    # An example of vmap has no value to read: it stays a tensor, whose values differ.
    if array.ndim == 0 and array.dtype.kind in "biu" and not hasattr(item, "bdim"):
        as_index(item, warn=False)  # refuses what is no index
        value = array if type(array) is numpy.ndarray and not item._overrides else item.item()
        return bool(value) if array.dtype.char in "?B" else int(value)
    return as_index(item)


def _plain_array(array: Any) -> Any:
    """Of lists and arrays torch takes any numbers, and cuts floats to integers."""
    if array.dtype.kind not in "biuf":
        raise TypeError(f"an index cannot consist of {array.dtype} values; use integers or bools.")
    if array.ndim == 0 and array.dtype.kind in "iuf":
        return int(array)
    return wrap(array if array.dtype.kind == "b" else array.astype("i8"))


def from_list(items: Any) -> Any:
    """An index that was written as a list; a function of its own for those who watch constants."""
    return _plain_array(numpy.array(items))


def _without_tensors(items: Any) -> Any:
    if isinstance(items, Tensor):
        return items.tolist()
    if isinstance(items, str | bytes) or not isinstance(items, Sequence):
        return items
    return [_without_tensors(item) for item in items]


def _not_an_index(item: Any) -> Exception:
    kind = TypeError if isinstance(item, str | bytes) else IndexError
    return kind(
        f"a tensor cannot be indexed by {item!r} ({type(item).__name__}); valid are integers, "
        "slices (`:`), ellipsis (`...`), None, and tensors, lists or arrays of integers or bools."
    )


def as_index(index: Any, *, warn: bool = True) -> Any:
    """An index tensor, checked; a uint8 one is a mask, as torch has it still."""
    char = index._array.dtype.char
    if char in "?liq":
        return index
    if char in "bh" and not index._array.ndim:
        return index.long()  # one number, whatever it is kept in
    if char != "B":
        raise IndexError(
            f"a tensor of {from_numpy_dtype(index._array.dtype)} cannot be an index; use int64, "
            "int32 or bool (convert with .long() or .bool())."
        )
    if not warn:
        return index
    warnings.warn(
        "Indexing with a torch.uint8 tensor reads it as a mask, which is deprecated; use "
        "torch.bool.",
        UserWarning,
        stacklevel=origin.stacklevel(),
    )
    return index.bool()


def numpy_key(key: Any) -> tuple[Any, ...] | None:
    """A basic key as NumPy takes it, ending so that it always gives a view; None for other keys."""
    kind = type(key)
    if kind is int:
        return (key, ...)
    if kind is slice:
        if key.step is None:  # NumPy checks the ends
            return (key, ...)
        key = (key,)
    elif kind is not tuple:
        return None
    return numpy_tuple(key)


def numpy_tuple(key: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """As `numpy_key`, of a tuple."""
    found = False
    for item in key:
        if item is None or type(item) is int:
            continue
        if type(item) is slice:
            if item.step is not None and plain_slice(item)[2] != item.step:
                return None
        elif item is ... and not found:
            found = True
        else:
            return None
    return key if found else (*key, ...)


def numbered(key: Any) -> Any:
    """A key with ints in the place of its 0-d tensors; the same object where it has others too.

    Such a key is basic, and takes the way of one: `z[tuple(places[i])]` reads its numbers here, and
    makes no more of them. Tensors that may answer for themselves are left to `items_of`.
    """
    if key.__class__ is Tensor:
        array = key._array
        single = array.ndim == 0 and array.dtype is INT64 and array.__class__ is ndarray
        return array.item() if single else key
    items = []
    for item in key:
        if item.__class__ is Tensor:
            array = item._array
            if array.ndim or array.dtype is not INT64 or array.__class__ is not ndarray:
                return key
            item = array.item()
        elif item.__class__ not in BASIC:
            return key
        items.append(item)
    return tuple(items)


def spans(item: Any) -> int:
    """How many dimensions of the tensor an item takes up."""
    if item is None or item is Ellipsis or item.__class__ is bool:
        return 0
    if isinstance(item, Tensor) and item._array.dtype.kind == "b":
        ndim: int = item._array.ndim
        return ndim
    return 1


def plain_slice(item: slice) -> tuple[int | None, int | None, int]:
    """Start, stop and step of a slice as ints."""
    start, stop, step = item.start, item.stop, item.step
    if step is None:
        step = 1
    elif type(step) is not int:
        step = _slice_int(step)
    if step <= 0:
        raise ValueError(
            f"the step of a slice must be greater than zero, got {item.step}; use flip() to "
            "reverse."
        )
    if start is not None and type(start) is not int:
        start = _slice_int(start)
    if stop is not None and type(stop) is not int:
        stop = _slice_int(stop)
    return start, stop, step


def _slice_int(value: Any) -> int:
    if not isinstance(value, Tensor):
        return operator.index(value)
    return operator.index(value.item() if value._overrides else value._array)


def check_count(input: Any, named: int) -> None:
    """Refuse a key that names more dimensions than there are."""
    if named > input._array.ndim:
        raise IndexError(
            f"too many indices: {named} dimensions are named, but the tensor has "
            f"{input._array.ndim} (shape {input._array.shape})."
        )


def check_masks(input: Any, indices: Any, dims: Any) -> None:
    """Refuse masks that do not have the sizes of the dimensions they cover."""
    for index, dim in zip(indices, dims, strict=True):
        array, shape = index._array, input._array.shape
        if array.dtype.kind == "b" and array.shape != shape[dim : dim + array.ndim]:
            raise IndexError(
                f"a mask of shape {array.shape} at dimension {dim} does not match the indexed "
                f"tensor of shape {shape}; a mask must have the sizes of the dimensions it covers."
            )
