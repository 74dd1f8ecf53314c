"""`torch.distributed.checkpoint.metadata`: what a checkpoint's `.metadata` file says.

Classes and fields are torch's, because the file is a pickle of them. Classes that hold sizes check
what they are given as a file's state: a file may say anything.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pullback.core.dtype import get_default_dtype
from pullback.core.layout import (
    channels_last,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    strided,
)
from pullback.core.listing import only_public as _only_public
from pullback.core.size import Size
from pullback.core.tensor import Tensor

__all__ = [
    "BytesStorageMetadata",
    "ChunkStorageMetadata",
    "Metadata",
    "MetadataIndex",
    "StorageMeta",
    "TensorProperties",
    "TensorStorageMetadata",
]


@dataclass
class ChunkStorageMetadata:
    """A box in a tensor: where it begins, and how large it is.

    >>> import pullback as torch
    >>> from pullback.distributed.checkpoint import ChunkStorageMetadata
    >>> ChunkStorageMetadata(torch.Size([2, 0]), torch.Size([2, 4])).sizes
    torch.Size([2, 4])
    """

    offsets: Size
    sizes: Size


class _MEM_FORMAT_ENCODING(Enum):  # noqa: N801  torch's name, which files have
    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


_FORMATS = (contiguous_format, channels_last, preserve_format)


@dataclass
class TensorProperties:
    """What is said of a tensor besides its shape. The dtype is what counts."""

    dtype: Any = field(default_factory=get_default_dtype)
    layout: layout = strided
    requires_grad: bool = False
    memory_format: memory_format = contiguous_format
    pin_memory: bool = False

    def __getstate__(self) -> tuple[Any, ...]:
        order = _MEM_FORMAT_ENCODING(_FORMATS.index(self.memory_format))
        return self.dtype, self.layout, self.requires_grad, order, self.pin_memory

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.dtype, self.layout, self.requires_grad, order, self.pin_memory = state
        self.memory_format = _FORMATS[order.value]

    @staticmethod
    def create_from_tensor(tensor: Tensor) -> TensorProperties:
        """The properties of a tensor.

        >>> import pullback as torch
        >>> from pullback.distributed.checkpoint.metadata import TensorProperties
        >>> TensorProperties.create_from_tensor(torch.ones(2)).dtype
        torch.float32
        """
        return TensorProperties(tensor.dtype, tensor.layout, tensor.requires_grad)


@dataclass
class TensorStorageMetadata:
    """A tensor of the checkpoint: of which boxes it is made."""

    properties: TensorProperties
    size: Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """Anything else: a pickle."""


STORAGE_TYPES = TensorStorageMetadata | BytesStorageMetadata
STATE_DICT_TYPE = dict[str, Any]


@dataclass
class StorageMeta:
    """Which save wrote the checkpoint, and which load reads it.

    Args:
        save_id: Identifies the save that wrote it.
        load_id: Identifies the load that reads it.
        modules: Names of the modules it belongs to.
    """

    checkpoint_id: str | os.PathLike[str] | None = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """What a checkpoint has, by flat names; `storage_data` says in which file, and where in it."""

    state_dict_metadata: dict[str, STORAGE_TYPES]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None


@dataclass(frozen=True)
class MetadataIndex:
    """A box of a tensor, or another value, by name. `index` is a hint and does not tell apart.

    Args:
        fqn: Name of the value in the flat state dict.

    >>> from pullback.distributed.checkpoint.metadata import MetadataIndex
    >>> MetadataIndex("weight", [2, 0], 1) == MetadataIndex("weight", [2, 0])
    True
    """

    fqn: str
    offset: Size | None = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __init__(
        self, fqn: str, offset: Sequence[int] | None = None, index: int | None = None
    ) -> None:
        object.__setattr__(self, "fqn", fqn)
        object.__setattr__(self, "index", index)
        if offset is not None:
            object.__setattr__(self, "offset", Size(offset))


__dir__ = _only_public(globals())
