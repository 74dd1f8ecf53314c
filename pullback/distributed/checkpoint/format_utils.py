"""`torch.distributed.checkpoint.format_utils`: a checkpoint as one file, and back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pullback import serialization
from pullback.core.listing import only_public as _only_public
from pullback.distributed.checkpoint.default_planner import (
    DefaultSavePlanner,
    _EmptyStateDictLoadPlanner,
)
from pullback.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from pullback.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from pullback.distributed.checkpoint.state_dict_loader import _load
from pullback.distributed.checkpoint.state_dict_saver import _save
from pullback.distributed.checkpoint.utils import Ranks

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]


def dcp_to_torch_save(
    dcp_checkpoint_dir: str | os.PathLike[str], torch_save_path: str | os.PathLike[str]
) -> None:
    """Put all of a checkpoint in one file, whole. One process does it, and needs the memory.

    >>> import tempfile
    >>> import pullback as torch
    >>> from pullback.distributed import checkpoint
    >>> from pullback.distributed.checkpoint.format_utils import dcp_to_torch_save
    >>> here = tempfile.mkdtemp()
    >>> _ = checkpoint.save({"x": torch.ones(2)}, checkpoint_id=f"{here}/parts")
    >>> dcp_to_torch_save(f"{here}/parts", f"{here}/whole.pt")
    >>> torch.load(f"{here}/whole.pt")
    {'x': tensor([1., 1.])}
    """
    reader = FileSystemReader(dcp_checkpoint_dir)
    _check_sizes(reader.path, reader.read_metadata())
    found: dict[str, Any] = {}
    _load(found, reader, Ranks(alone=True), _EmptyStateDictLoadPlanner())
    serialization.save(found, torch_save_path)


def _check_sizes(path: Path, metadata: Metadata) -> None:
    """Memory is taken for what the files have, not for what `.metadata` claims."""
    claimed = 0
    for stored in metadata.state_dict_metadata.values():
        if isinstance(stored, TensorStorageMetadata):
            claimed += stored.size.numel() * int(stored.properties.dtype.itemsize)
    names = {place.relative_path for place in metadata.storage_data.values()}
    there = sum((path / name).stat().st_size for name in names)
    if claimed > there:
        raise ValueError(
            f"{path} claims tensors of {claimed} bytes, and its files have {there}: it is damaged."
        )


def torch_save_to_dcp(
    torch_save_path: str | os.PathLike[str], dcp_checkpoint_dir: str | os.PathLike[str]
) -> None:
    """Make a checkpoint of a file with a state dict, to be loaded by any number of ranks.

    >>> import tempfile
    >>> import pullback as torch
    >>> from pullback.distributed import checkpoint
    >>> from pullback.distributed.checkpoint.format_utils import torch_save_to_dcp
    >>> here = tempfile.mkdtemp()
    >>> torch.save({"x": torch.ones(2)}, f"{here}/whole.pt")
    >>> torch_save_to_dcp(f"{here}/whole.pt", f"{here}/parts")
    >>> checkpoint.load(state := {"x": torch.zeros(2)}, checkpoint_id=f"{here}/parts")
    >>> state
    {'x': tensor([1., 1.])}
    """
    given = serialization.load(torch_save_path, weights_only=True)
    _save(given, FileSystemWriter(dcp_checkpoint_dir), Ranks(alone=True), DefaultSavePlanner())


__dir__ = _only_public(globals())
