"""Copies of a module that share its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["replicate"]


def replicate(network: Any, devices: Sequence[Any], detach: bool = False) -> list[Any]:
    """A copy for each device, on the same parameters and buffers (detached if asked for).

    >>> import pullback as torch
    >>> layer = torch.nn.Linear(1, 1)
    >>> first, second = torch.nn.parallel.replicate(layer, ["cpu", "cpu"])
    >>> first is not second and first.weight is layer.weight
    True
    """
    return [_copied(network, {}, detach=detach) for _ in devices]


def _copied(module: Any, known: dict[int, Any], *, detach: bool) -> Any:
    if id(module) in known:
        return known[id(module)]
    made = known[id(module)] = module._replicate_for_data_parallel()
    tables = made.__dict__
    for name in ("_parameters", "_buffers"):
        tables[name] = {
            key: one.detach() if detach and one is not None else one
            for key, one in module.__dict__[name].items()
        }
    tables["_modules"] = {
        key: None if child is None else _copied(child, known, detach=detach)
        for key, child in module._modules.items()
    }
    return made
