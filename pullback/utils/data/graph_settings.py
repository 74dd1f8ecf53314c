"""What a loader tells all pipes of a graph: which part is theirs, whether to shuffle, the seed."""

from __future__ import annotations

import warnings
from typing import Any

from pullback.core import origin
from pullback.core.listing import only_public as _only_public
from pullback.operators.random.generator import Generator
from pullback.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES
from pullback.utils.data.graph import Graph, traverse_dps
from pullback.utils.data.sampler import fresh_seed

__all__ = [
    "apply_random_seed",
    "apply_sharding",
    "apply_shuffle_seed",
    "apply_shuffle_settings",
    "get_all_graph_pipes",
]


def get_all_graph_pipes(graph: Graph) -> list[Any]:
    """The pipes of a graph, each once, from the last of a chain to its beginning."""
    found: dict[int, Any] = {}

    def walk(graph: Graph) -> None:
        for key, (pipe, below) in graph.items():
            if key not in found:
                found[key] = pipe
                walk(below)

    walk(graph)
    return list(found.values())


def apply_sharding(
    datapipe: Any,
    num_of_instances: int,
    instance_id: int,
    sharding_group: SHARDING_PRIORITIES = SHARDING_PRIORITIES.DEFAULT,
) -> Any:
    """Tell each `sharding_filter` of a graph which items to give; one on each way is enough."""

    def walk(graph: Graph, above: Any) -> None:
        for pipe, below in graph.values():
            here = callable(getattr(pipe, "apply_sharding", None))
            if here and above is not None:
                raise RuntimeError(
                    f"{above!r} reads {pipe!r}, and both give each worker a part only, so items "
                    "would be lost. Use sharding_filter() once on each way."
                )
            if here:
                pipe.apply_sharding(num_of_instances, instance_id, sharding_group=sharding_group)
            walk(below, pipe if here else above)

    walk(traverse_dps(datapipe), None)
    return datapipe


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Let the pipes that shuffle do so, or not; None leaves them as they are."""
    if shuffle is None:
        return datapipe
    shufflers = [one for one in get_all_graph_pipes(traverse_dps(datapipe)) if _shuffles(one)]
    if not shufflers and shuffle:
        warnings.warn(
            "shuffle=True, but no pipe shuffles, so one is added at the end. It draws from a "
            "buffer of 10000 items; call shuffle(buffer_size=...) where the items are small.",
            UserWarning,
            stacklevel=origin.stacklevel(),
        )
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for one in shufflers:
        one.set_shuffle(shuffle)
    return datapipe


def _shuffles(pipe: Any) -> bool:
    """A pipe of ours, or a class of the user's with both of its methods."""
    return callable(getattr(pipe, "set_shuffle", None)) and callable(
        getattr(pipe, "set_seed", None)
    )


def apply_random_seed(datapipe: Any, rng: Generator) -> Any:
    """Give every pipe that draws numbers a seed of its own, from one generator."""
    for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
        if callable(getattr(pipe, "set_seed", None)):
            pipe.set_seed(fresh_seed(rng))
    return datapipe


apply_shuffle_seed = apply_random_seed  # its older name

__dir__ = _only_public(globals())
