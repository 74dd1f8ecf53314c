"""Arguments and results on their way: pickled, with tensors taken out for autograd to see."""

from __future__ import annotations

import io
import pickle
import types
from typing import Any

from pullback.core.tensor import Tensor

__all__ = ["pack", "unpack"]


class _Packer(pickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.tensors: list[Tensor] = []
        self.others: list[Any] = []

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            self.tensors.append(obj)
            return ("tensor", len(self.tensors) - 1)
        if getattr(type(obj), "_travels_whole", False) or isinstance(obj, types.FunctionType):
            self.others.append(obj)  # workers share a process: these need no copy
            return ("other", len(self.others) - 1)
        return None


class _Unpacker(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, tensors: list[Any], others: list[Any]) -> None:
        super().__init__(file)
        self._known = {"tensor": tensors, "other": others}

    def persistent_load(self, pid: Any) -> Any:
        kind, number = pid
        return self._known[kind][number]


def pack(value: Any) -> tuple[bytes, list[Tensor], list[Any]]:
    """A value as bytes, its tensors, and what travels as it is."""
    file = io.BytesIO()
    packer = _Packer(file)
    packer.dump(value)
    return file.getvalue(), packer.tensors, packer.others


def unpack(data: bytes, tensors: list[Any], others: list[Any]) -> Any:
    """The value again, with these tensors in it."""
    return _Unpacker(io.BytesIO(data), tensors, others).load()
