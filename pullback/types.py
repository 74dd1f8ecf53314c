"""Names for annotations: what torch's `torch.types` calls numbers, devices and sizes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

from pullback.core.device import device
from pullback.core.dtype import dtype
from pullback.core.listing import only_public as _only_public
from pullback.core.size import Size
from pullback.core.tensor import Tensor

__all__ = ["Device", "FileLike", "Number", "Storage"]

Number: TypeAlias = int | float | bool
Device: TypeAlias = device | str | int | None
Storage: TypeAlias = Any
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]

_int: TypeAlias = int
_float: TypeAlias = float
_bool: TypeAlias = bool
_complex: TypeAlias = complex
_dtype: TypeAlias = dtype
_device: TypeAlias = device
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]

__dir__ = _only_public(globals(), "Size")
