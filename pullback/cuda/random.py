"""Seeds and states of CUDA generators: without a device, seeding waits for none and is harmless."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pullback.accelerator.found import Kind, nothing
from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor

__all__ = [
    *("get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all"),
    *("seed", "seed_all", "set_rng_state", "set_rng_state_all"),
]

_kind = Kind("cuda")
globals().update(_kind.refusals("get_rng_state initial_seed"))
seed = seed_all = nothing


def manual_seed(seed: int) -> None:
    """Seed the current device's generator; nothing happens where there is none.

    >>> import pullback as torch
    >>> torch.cuda.manual_seed(0)
    """
    int(seed)


manual_seed_all = manual_seed


def get_rng_state_all() -> list[Tensor]:
    """The states of all devices: none."""
    return []


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Set a device's state; nothing happens where there is none."""


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Set the states of all devices."""
    for state in new_states:
        set_rng_state(state)


__dir__ = _only_public(globals())
