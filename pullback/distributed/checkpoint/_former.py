"""Checkpoints as pullback wrote them before it wrote torch's: `index.json` and `shard_N.pt`.

They can be read still; nothing writes them any more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pullback import serialization
from pullback.core.tensor import Tensor
from pullback.distributed.checkpoint.per_rank import PerRank

__all__ = ["INDEX", "load"]

INDEX = "index.json"


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Name, value and holder of everything in nested dicts."""
    for key, inner in value.items():
        name = (*path, str(key))
        if isinstance(inner, dict) and inner:
            yield from _leaves(inner, name)
        else:
            yield "/".join(name), inner, value


def load(state_dict: dict[str, Any], source: Path, rank: int, size: int) -> None:
    """Fill nested dicts from a directory: tensors in place, other values replaced."""
    index = json.loads((source / INDEX).read_text())
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
        number = rank if writer == -1 else int(writer)
        if number not in shards:
            shards[number] = serialization.load(source / f"shard_{number}.pt", weights_only=True)
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
