"""`torch.distributed.checkpoint.state_dict_saver`: `save`, now or while the program goes on."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass
from enum import Enum
from typing import Any
from weakref import WeakKeyDictionary

from pullback.core.listing import only_public as _only_public
from pullback.distributed.checkpoint.default_planner import DefaultSavePlanner
from pullback.distributed.checkpoint.filesystem import FileSystemWriter
from pullback.distributed.checkpoint.metadata import Metadata
from pullback.distributed.checkpoint.per_rank import numbered
from pullback.distributed.checkpoint.planner import SavePlan, SavePlanner
from pullback.distributed.checkpoint.staging import staged
from pullback.distributed.checkpoint.stateful import Stateful
from pullback.distributed.checkpoint.storage import CheckpointId, StorageWriter
from pullback.distributed.checkpoint.utils import Ranks
from pullback.distributed.group import ProcessGroup
from pullback.distributed.groups import new_group
from pullback.distributed.world import need_world

__all__ = ["AsyncCheckpointerType", "AsyncSaveResponse", "async_save", "save", "save_state_dict"]


class AsyncCheckpointerType(Enum):
    """Who writes while the program goes on: a thread."""

    THREAD = "thread"
    PROCESS = "process"


@dataclass
class AsyncSaveResponse:
    """When the copy is there, and when the checkpoint is.

    Args:
        staging_completion: Future that is done when the copy has been made.
        upload_completion: Future that is done when the checkpoint has been written.
    """

    staging_completion: Any
    upload_completion: Any


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: CheckpointId | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Metadata:
    """Write nested dicts of tensors, values and objects with `state_dict()`. All ranks call this.

    Files are torch's. Of what several ranks have, one writes it; of tensors that lie over ranks,
    each writes its part. A checkpoint that stands there already counts until this one is complete.

    >>> import tempfile
    >>> import pullback as torch
    >>> from pullback.distributed import checkpoint
    >>> model = torch.nn.Linear(2, 1)
    >>> _ = checkpoint.save({"model": model}, checkpoint_id=(path := tempfile.mkdtemp()))
    >>> checkpoint.load({"model": model}, checkpoint_id=path)
    """
    if not use_collectives:
        raise NotImplementedError("save: ranks agree on who writes what; use_collectives=True.")
    ranks = Ranks(process_group, alone=no_dist)
    writer = _writer(storage_writer, checkpoint_id)
    return _save(_asked(state_dict), writer, ranks, planner or DefaultSavePlanner())


def save_state_dict(
    state_dict: dict[str, Any],
    storage_writer: StorageWriter,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: SavePlanner | None = None,
) -> Metadata:
    """`save`, as it was called before."""
    storage_writer.reset()
    ranks = Ranks(process_group, alone=no_dist, coordinator=coordinator_rank)
    return _save(dict(state_dict), storage_writer, ranks, planner or DefaultSavePlanner())


def _writer(given: StorageWriter | None, checkpoint_id: CheckpointId | None) -> StorageWriter:
    if given is not None:
        if checkpoint_id is not None:
            given.reset(checkpoint_id)
        return given
    if checkpoint_id is None:
        raise RuntimeError("save: checkpoint_id= says where to, or storage_writer=.")
    if not FileSystemWriter.validate_checkpoint_id(checkpoint_id):
        raise RuntimeError(f"save: {checkpoint_id!r} is no path; give a storage_writer=.")
    return FileSystemWriter(checkpoint_id)


def _asked(state_dict: dict[str, Any]) -> dict[str, Any]:
    """With the state of whatever has some."""
    return {
        key: value.state_dict() if isinstance(value, Stateful) else value
        for key, value in state_dict.items()
    }


def _save(
    state_dict: dict[str, Any], writer: StorageWriter, ranks: Ranks, planner: SavePlanner
) -> Metadata:
    found: list[Metadata] = []

    def local() -> SavePlan:
        mine = numbered(state_dict, ranks.rank, ranks.size)
        planner.set_up_planner(mine, writer.storage_meta(), ranks.is_coordinator)
        writer.set_up_storage_writer(ranks.is_coordinator, rank=ranks.rank, use_collectives=True)
        return writer.prepare_local_plan(planner.create_local_plan())

    def central(plans: list[SavePlan]) -> list[SavePlan]:
        made, metadata = planner.create_global_plan(plans)
        found.append(metadata)
        return writer.prepare_global_plan(made)

    plan = ranks.share("Planning to save", local, central)
    results = ranks.all(
        "Saving", lambda: writer.write_data(planner.finish_plan(plan), planner).wait()
    )

    def finish() -> Metadata:
        writer.finish(found[0], results)
        return found[0]

    return ranks.first("Finishing to save", finish)


class _Background:
    """Saves for a group, over a group of its own: its calls do not mix with others'.

    Saves come one after the other, in the program's order, which is the same on all ranks.
    """

    def __init__(self, group: ProcessGroup | None) -> None:
        self.group: Any = None
        if group is not None and group.size() > 1:
            whole = group is need_world().default
            self.group = new_group(group.ranks, use_local_synchronization=not whole)
        self._last: threading.Thread | None = None

    def save(self, *args: Any) -> Future[Metadata]:
        saving: Future[Metadata] = Future()
        before, context = self._last, copy_context()

        def run() -> None:
            if before is not None:
                before.join()
            try:
                saving.set_result(context.run(_save, *args))
            except BaseException as error:  # whatever it is, result() raises it
                saving.set_exception(error)

        self._last = threading.Thread(target=run, name="async_save")
        self._last.start()
        return saving


_background: WeakKeyDictionary[ProcessGroup, _Background] = WeakKeyDictionary()
_alone: list[_Background] = []


def _background_of(ranks: Ranks) -> _Background:
    if ranks.group is None:
        if not _alone:
            _alone.append(_Background(None))
        return _alone[0]
    if ranks.group not in _background:
        _background[ranks.group] = _Background(ranks.group)
    return _background[ranks.group]


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: CheckpointId | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    async_checkpointer_type: AsyncCheckpointerType = AsyncCheckpointerType.THREAD,
    async_stager: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Any:
    """Copy the state, and save the copy while the program goes on. All ranks call this.

    What it returns has `result()`, which waits, and raises what befell the save.

    >>> import tempfile
    >>> import pullback as torch
    >>> from pullback.distributed import checkpoint
    >>> x = torch.ones(2)
    >>> saving = checkpoint.async_save({"x": x}, checkpoint_id=(path := tempfile.mkdtemp()))
    >>> _ = x.zero_(), saving.result()
    >>> checkpoint.load({"x": x}, checkpoint_id=path)
    >>> x
    tensor([1., 1.])
    """
    if not use_collectives:
        raise NotImplementedError("async_save: ranks agree on who writes what.")
    ranks = Ranks(process_group, alone=no_dist)
    writer = _writer(storage_writer, checkpoint_id)
    given = _asked(state_dict)
    copied = staged(given) if async_stager is None else async_stager.stage(given)
    if isinstance(copied, Future):
        copied = copied.result()
    thread = _background_of(ranks)
    ranks.group = thread.group or ranks.group
    saving = thread.save(copied, writer, ranks, planner or DefaultSavePlanner())
    if async_stager is None:
        return saving
    done: Future[None] = Future()
    done.set_result(None)
    return AsyncSaveResponse(done, saving)


__dir__ = _only_public(globals())
