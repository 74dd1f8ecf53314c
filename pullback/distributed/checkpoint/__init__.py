"""Checkpoints that all ranks write together, a shard each, and that are complete or do not count.

What all ranks have alike is written once, by one of them, in turn by size; what each has for itself
is wrapped in `PerRank`. A file that says what is where is written last, when all shards are there:
a set without it is one that was interrupted.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pullback import serialization
from pullback.core.explain.absent import refuse_others as _refuse_others
from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.distributed.collectives import barrier
from pullback.distributed.objects import all_gather_object
from pullback.distributed.world import group_of, is_initialized

__all__ = ["PerRank", "latest", "load", "save"]

_INDEX = "index.json"


class PerRank:
    """Marks a value that every rank has for itself, such as its share of an optimizer's state."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _place(process_group: Any) -> tuple[int, int]:
    if not is_initialized():
        return 0, 1
    group = group_of(process_group)
    if group is None:
        raise ValueError("This rank is not in the process group.")
    return group.rank(), group.size()


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Name, value and holder of everything in nested dicts."""
    for key, inner in value.items():
        name = (*path, str(key))
        if isinstance(inner, dict) and inner:
            yield from _leaves(inner, name)
        else:
            yield "/".join(name), inner, value


def _shard(rank: int) -> str:
    return f"shard_{rank}.pt"


def save(
    state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str], process_group: Any = None
) -> Path:
    """Write nested dicts of tensors and other values to a directory. All ranks call this.

    >>> import tempfile
    >>> import pullback as torch
    >>> from pullback.distributed import checkpoint
    >>> model = torch.nn.Linear(1, 1)
    >>> path = checkpoint.save(model.state_dict(), checkpoint_id=tempfile.mkdtemp() + "/step_1")
    >>> checkpoint.load(state := model.state_dict(), checkpoint_id=path)
    """
    rank, size = _place(process_group)
    target = Path(checkpoint_id)
    if (target / _INDEX).exists():
        raise FileExistsError(f"{target} has a complete checkpoint; choose another directory.")
    target.mkdir(parents=True, exist_ok=True)
    mine, names = _share(state_dict, rank, size)
    unfinished = target / f"{_shard(rank)}.new"
    serialization.save(mine, unfinished)
    unfinished.replace(target / _shard(rank))
    if size > 1:
        barrier(process_group)  # all shards are there
    if rank == 0:
        index = target / f"{_INDEX}.new"
        index.write_text(json.dumps({"ranks": size, "where": names}))
        index.replace(target / _INDEX)
    if size > 1:
        barrier(process_group)
    return target


def _share(
    state_dict: dict[str, Any], rank: int, size: int
) -> tuple[dict[str, Any], dict[str, int]]:
    """What this rank writes, and who writes what of the values that all have."""
    mine: dict[str, Any] = {}
    where: dict[str, int] = {}
    loads = [0] * size
    common = []
    for name, value, _ in _leaves(state_dict):
        if isinstance(value, PerRank):
            mine[name] = value.value
            where[name] = -1
        else:
            weight = value._array.nbytes if isinstance(value, Tensor) else 1
            common.append((weight, name, value))
    for weight, name, value in sorted(common, key=lambda one: (-one[0], one[1])):
        writer = loads.index(min(loads))
        loads[writer] += weight
        where[name] = writer
        if writer == rank:
            mine[name] = value.detach() if isinstance(value, Tensor) else value
    return mine, where


def load(
    state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str], process_group: Any = None
) -> None:
    """Fill nested dicts from a directory: tensors in place, other values replaced."""
    rank, size = _place(process_group)
    source = Path(checkpoint_id)
    if not (source / _INDEX).exists():
        raise FileNotFoundError(f"{source} has no complete checkpoint.")
    index = json.loads((source / _INDEX).read_text())
    wanted = list(_leaves(state_dict))
    missing = [name for name, _, _ in wanted if name not in index["where"]]
    if missing:
        raise KeyError(f"The checkpoint {source} has no {', '.join(missing[:5])}.")
    if index["ranks"] != size and any(isinstance(value, PerRank) for _, value, _ in wanted):
        raise ValueError(
            f"{source} was written by {index['ranks']} ranks, this job has {size}: what each rank "
            "had for itself cannot be shared out anew."
        )
    shards: dict[int, Any] = {}
    for name, value, holder in wanted:
        writer = index["where"][name]
        number = rank if writer == -1 else writer
        if number not in shards:
            shards[number] = serialization.load(source / _shard(number), weights_only=False)
        _put(holder, name, value, shards[number][name])


def _put(holder: dict[str, Any], name: str, value: Any, stored: Any) -> None:
    if isinstance(value, PerRank):
        value.value = stored
    elif isinstance(value, Tensor):
        if tuple(value.shape) != tuple(stored.shape):
            raise ValueError(
                f"{name} has shape {tuple(value.shape)}, in the checkpoint {tuple(stored.shape)}."
            )
        value.detach().copy_(stored)
    else:
        key = name.rsplit("/", 1)[-1]
        holder[next(known for known in holder if str(known) == key)] = stored


def latest(directory: str | os.PathLike[str], process_group: Any = None, keep: int = 0) -> Any:
    """The newest complete checkpoint in a directory, the same on all ranks; None if there is none.

    With `keep`, older complete ones beyond so many are removed.
    """
    _, size = _place(process_group)
    known = sorted(
        (path.parent for path in Path(directory).glob(f"*/{_INDEX}")),
        key=lambda path: ((path / _INDEX).stat().st_mtime_ns, path.name),
    )
    names: list[Any] = [None] * size
    newest = known[-1].name if known else None
    if size > 1:
        all_gather_object(names, newest, process_group)
        newest = names[0]
    if keep and _place(process_group)[0] == 0:
        for old in known[:-keep]:
            shutil.rmtree(old)
    return None if newest is None else Path(directory) / newest


_refuse_others(globals())

__dir__ = _only_public(globals())
