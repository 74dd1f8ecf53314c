"""Torch's names in pickles, and what they are here: what a file may name, and what it may call."""

from __future__ import annotations

import _compat_pickle
import codecs
import importlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable
from typing import Any

from pullback.core.device import device
from pullback.core.dtype import DTYPES, LATE, named_dtype
from pullback.core.size import Size
from pullback.core.tensor import Tensor
from pullback.serialization import rebuild
from pullback.serialization.budget import Budget, refuse
from pullback.serialization.storages import storage_type

__all__ = ["CALLS", "known_global", "torch_unpickler"]

_UTILS = "torch._utils"
_NESTED = "torch.nested._internal.nested_tensor"
_GLOBALS: dict[tuple[str, str], Any] = {
    (_UTILS, "_rebuild_tensor"): rebuild.rebuild_tensor,
    (_UTILS, "_rebuild_tensor_v2"): rebuild.rebuild_tensor_v2,
    (_UTILS, "_rebuild_tensor_v3"): rebuild.rebuild_tensor_v3,
    (_UTILS, "_rebuild_meta_tensor_no_storage"): rebuild.rebuild_meta_tensor,
    (_UTILS, "_rebuild_sparse_tensor"): rebuild.rebuild_sparse_tensor,
    (_UTILS, "_rebuild_nested_tensor"): rebuild.rebuild_nested_tensor,
    (_NESTED, "_rebuild_njt"): rebuild.rebuild_jagged_tensor,
    (_UTILS, "_rebuild_parameter"): rebuild.rebuild_parameter,
    (_UTILS, "_rebuild_parameter_with_state"): rebuild.rebuild_parameter,
    ("torch._tensor", "_rebuild_from_type_v2"): rebuild.rebuild_with_state,
    ("torch", "Tensor"): Tensor,
    ("torch", "Size"): Size,
    ("torch", "device"): device,
    ("torch.serialization", "_get_layout"): rebuild.get_layout,
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "Counter"): Counter,
    ("_codecs", "encode"): codecs.encode,
}
_BUILTINS = {
    "set": set,
    "frozenset": frozenset,
    "complex": complex,
    "bytearray": bytearray,
    "slice": slice,
    "range": range,
}


def known_global(module: str, name: str) -> Any:
    """What a file means by a name that every file may use; None for others."""
    if (module, name) in _GLOBALS:
        return _GLOBALS[module, name]
    if module in ("builtins", "__builtin__"):
        return _BUILTINS.get(name)
    if (module, name) == ("torch.nn.parameter", "Parameter"):
        return importlib.import_module("pullback.nn").Parameter
    if (module, name) == (_NESTED, "NestedTensor"):
        return importlib.import_module("pullback.operators.nested.tensor").NestedTensor
    if module == "torch" and (name in DTYPES or name in LATE):
        return named_dtype(name)
    return storage_type(module, name)


def todays_name(module: str, name: str) -> tuple[str, str]:
    """Module and name today: pickles before protocol 3 use those of Python 2.

    >>> todays_name("__builtin__", "getattr")
    ('builtins', 'getattr')
    """
    if (module, name) in _compat_pickle.NAME_MAPPING:
        return _compat_pickle.NAME_MAPPING[module, name]
    return _compat_pickle.IMPORT_MAPPING.get(module, module), name


class _TorchNames:
    """Before an unpickler: torch's names read as ours, storages from where the file has them."""

    def __init__(self, file: Any, storage: Callable[[Any], Any], **options: Any) -> None:
        super().__init__(file, **options)  # type: ignore[call-arg]  # of the unpickler behind it
        self._storage = storage

    def persistent_load(self, pid: Any) -> Any:
        """A storage, or in old files a class that came with its source."""
        if isinstance(pid, tuple) and len(pid) == 4 and pid[0] == "module":
            return pid[1]
        return self._storage(pid)

    def find_class(self, module: str, name: str) -> Any:
        """Ours for torch's; anything else as pickle finds it."""
        known = None if module in ("builtins", "_codecs") else known_global(module, name)
        if known is not None:
            return known
        if module != "torch" and not module.startswith("torch."):
            return self._found(module, name)
        try:
            return self._found("pullback" + module.removeprefix("torch"), name)
        except (ModuleNotFoundError, AttributeError):
            found = None
            if module.startswith("torch.nn.modules."):  # ours may stand in another file
                found = getattr(importlib.import_module("pullback.nn"), name, None)
            if found is None:
                raise
            return found

    def _found(self, module: str, name: str) -> Any:
        return super().find_class(module, name)  # type: ignore[misc]  # of the unpickler behind it


def torch_unpickler(base: type) -> Any:
    """For files that the user trusts: all that `base`, pickle's or another's, can read."""
    return type("TorchUnpickler", (_TorchNames, base), {})


# What a file that nobody vouches for may call ---------------------------------------------------


def _items(budget: Budget, args: tuple[Any, ...]) -> Iterable[Any]:
    """The one container among the arguments, paid for."""
    if not args:
        return ()
    items: Collection[Any]
    (items,) = args
    if type(items) not in (list, tuple, dict, set, frozenset, OrderedDict, Counter):
        raise refuse(f"a container is to be made of a {type(items).__name__}")
    budget.spend(100 * len(items))
    return items


def check_key(key: Any) -> None:
    """Refuse keys whose hash would take long or deep: tuples that hold themselves many times."""
    waiting, seen = [key], 0
    while waiting:
        one = waiting.pop()
        seen += 1
        if seen > 1000:
            raise refuse("a key of a dict or set is made of more than a thousand parts")
        if isinstance(one, tuple | frozenset):
            waiting.extend(one)


def _set(budget: Budget, *args: Any) -> set[Any]:
    items = list(_items(budget, args))
    for one in items:
        check_key(one)
    return set(items)


def _frozenset(budget: Budget, *args: Any) -> frozenset[Any]:
    return frozenset(_set(budget, *args))


def _pairs(kind: Callable[[], Any]) -> Callable[..., Any]:
    def made(budget: Budget, *args: Any) -> Any:
        items = _items(budget, args)
        result = kind()
        for pair in items.items() if isinstance(items, dict) else items:
            if type(pair) not in (list, tuple) or len(pair) != 2:
                raise refuse("a dict is to be made of something else than pairs")
            check_key(pair[0])
            result[pair[0]] = pair[1]
        return result

    return made


def _complex(budget: Budget, *args: Any) -> complex:
    if not 1 <= len(args) <= 2 or any(type(one) not in (int, float, complex) for one in args):
        raise refuse("a complex number is to be made of something else than numbers")
    return complex(*args)


def _bytearray(budget: Budget, *args: Any) -> bytearray:
    if not args:
        return bytearray()
    if len(args) == 2 and type(args[0]) is str:
        return bytearray(_encode(budget, *args))
    if len(args) != 1 or type(args[0]) not in (bytes, bytearray):
        raise refuse("a bytearray is to be made of something else than bytes")
    budget.spend(len(args[0]))
    return bytearray(args[0])


def _encode(budget: Budget, text: Any, encoding: Any = "utf-8") -> bytes:
    """What pickles before protocol 3 call to make bytes."""
    if type(text) is not str or encoding not in ("latin1", "latin-1", "utf-8", "utf8", "ascii"):
        raise refuse("bytes are to be made of something else than text")
    budget.spend(4 * len(text))
    return text.encode(encoding)


def _whole(kind: type) -> Callable[..., Any]:
    def made(budget: Budget, *args: Any) -> Any:
        if any(type(one) not in (int, type(None)) for one in args):
            raise refuse(f"a {kind.__name__} is to be made of something else than whole numbers")
        return kind(*args)

    return made


def _size(budget: Budget, *args: Any) -> Size:
    numbers = tuple(_items(budget, args))
    if any(type(one) is not int for one in numbers):
        raise refuse("a Size is to be made of something else than whole numbers")
    return Size(numbers)


def _device(budget: Budget, *args: Any) -> device:
    if not 1 <= len(args) <= 2 or type(args[0]) is not str:
        raise refuse("a device has no name")
    return device(*args)


# By what the name stands for; each takes the budget first.
CALLS: dict[Any, Callable[..., Any]] = {
    set: _set,
    frozenset: _frozenset,
    OrderedDict: _pairs(OrderedDict),
    Counter: _pairs(Counter),
    complex: _complex,
    bytearray: _bytearray,
    slice: _whole(slice),
    range: _whole(range),
    codecs.encode: _encode,
    Size: _size,
    device: _device,
    rebuild.get_layout: lambda budget, name: rebuild.get_layout(name),
}
