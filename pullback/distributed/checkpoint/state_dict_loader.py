"""`torch.distributed.checkpoint.state_dict_loader`: `load`, on any number of ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.distributed.checkpoint import _former, _metadata_file
from pullback.distributed.checkpoint.default_planner import (
    DefaultLoadPlanner,
    _EmptyStateDictLoadPlanner,
)
from pullback.distributed.checkpoint.filesystem import FileSystemReader
from pullback.distributed.checkpoint.per_rank import numbered, taken
from pullback.distributed.checkpoint.planner import LoadPlan, LoadPlanner
from pullback.distributed.checkpoint.stateful import Stateful
from pullback.distributed.checkpoint.storage import CheckpointId, StorageReader
from pullback.distributed.checkpoint.utils import Ranks

__all__ = ["load", "load_state_dict"]


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: CheckpointId | None = None,
    storage_reader: StorageReader | None = None,
    planner: LoadPlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Fill nested dicts from a checkpoint: tensors in place, other values are replaced.

    Objects with `load_state_dict()` are given what was loaded. Every rank reads what it needs: the
    checkpoint may have been written by any number of ranks, here or in torch, and tensors may have
    lain otherwise. Objects that are no data are refused; `serialization.add_safe_globals` allows
    them.

    >>> import tempfile
    >>> import pullback as torch
    >>> from pullback.distributed import checkpoint
    >>> x = torch.arange(3.0)
    >>> _ = checkpoint.save({"x": x, "step": 7}, checkpoint_id=(path := tempfile.mkdtemp()))
    >>> state = {"x": torch.zeros(3), "step": 0}
    >>> checkpoint.load(state, checkpoint_id=path)
    >>> state
    {'x': tensor([0., 1., 2.]), 'step': 7}
    """
    ranks = Ranks(process_group, alone=no_dist)
    keys = sorted(state_dict)
    states = {
        key: state_dict[key].state_dict()
        if isinstance(state_dict[key], Stateful)
        else state_dict[key]
        for key in keys
    }
    reader = _reader(storage_reader, checkpoint_id)
    if (former := _written_before(reader)) is not None:
        _former.load(states, former, ranks.rank, ranks.size)
    else:
        wanted = numbered(states, ranks.rank, ranks.size)
        _load(wanted, reader, ranks, planner or DefaultLoadPlanner())
        states = {key: taken(states[key], wanted[key], ranks.rank) for key in keys}
    for key in keys:
        if isinstance(state_dict[key], Stateful):
            state_dict[key].load_state_dict(states[key])
        else:
            state_dict[key] = states[key]


def load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: StorageReader,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: LoadPlanner | None = None,
) -> None:
    """`load`, as it was called before."""
    storage_reader.reset()
    ranks = Ranks(process_group, alone=no_dist, coordinator=coordinator_rank)
    _load(state_dict, storage_reader, ranks, planner or DefaultLoadPlanner())


def _reader(given: StorageReader | None, checkpoint_id: CheckpointId | None) -> StorageReader:
    if given is not None:
        if checkpoint_id is not None:
            given.reset(checkpoint_id)
        return given
    if checkpoint_id is None:
        raise RuntimeError("load: checkpoint_id= says where from, or storage_reader=.")
    if not FileSystemReader.validate_checkpoint_id(checkpoint_id):
        raise RuntimeError(f"load: {checkpoint_id!r} is no path; give a storage_reader=.")
    return FileSystemReader(checkpoint_id)


def _written_before(reader: StorageReader) -> Path | None:
    """The directory, if what is in it is of the format before torch's."""
    if type(reader) is not FileSystemReader:
        return None
    there = (reader.path / _former.INDEX).exists()
    return reader.path if there and not (reader.path / _metadata_file.NAME).exists() else None


def _load(
    state_dict: dict[str, Any], reader: StorageReader, ranks: Ranks, planner: LoadPlanner
) -> None:
    def local() -> LoadPlan:
        metadata = reader.read_metadata()
        planner.set_up_planner(state_dict, metadata, ranks.is_coordinator)
        reader.set_up_storage_reader(metadata, ranks.is_coordinator, rank=ranks.rank)
        return reader.prepare_local_plan(planner.create_local_plan())

    def central(plans: list[LoadPlan]) -> list[LoadPlan]:
        return reader.prepare_global_plan(planner.create_global_plan(plans))

    plan = ranks.share("Planning to load", local, central)
    ranks.all("Loading", lambda: reader.read_data(planner.finish_plan(plan), planner).wait())


def _load_state_dict_from_keys(
    keys: set[str] | str | None = None,
    *,
    checkpoint_id: CheckpointId | None = None,
    storage_reader: StorageReader | None = None,
    process_group: Any = None,
) -> dict[str, Any]:
    """What a checkpoint has by these names, or all of it, in a dict of its own."""
    found: dict[str, Any] = {}
    chosen = {keys} if isinstance(keys, str) else keys
    reader = _reader(storage_reader, checkpoint_id)
    _load(found, reader, Ranks(process_group), _EmptyStateDictLoadPlanner(chosen))
    return found


__dir__ = _only_public(globals())
