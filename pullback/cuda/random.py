"""Seeds and states of CUDA generators: without a device, seeding waits for none and is harmless."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from pullback.core.device import HOLDERS
from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor, wrap
from pullback.cuda._running import index_of, is_there, needs_device

__all__ = [
    *("get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all"),
    *("seed", "seed_all", "set_rng_state", "set_rng_state_all"),
]


def _stream(device: Any = None) -> Any:
    from pullback.core.device import device as place
    from pullback.operators.cuda.drawing import stream_on

    return stream_on(place("cuda", index_of(device, "random")))


def manual_seed(seed: int) -> None:
    """Seed the current device's generator; nothing happens where there is none.

    >>> import pullback as torch
    >>> torch.cuda.manual_seed(0)
    """
    number = int(seed)
    if is_there():
        _stream().start(number % 2**64)


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices."""
    number = int(seed)
    if is_there():
        for device in range(_devices()):
            _stream(device).start(number % 2**64)


def seed() -> None:
    """Seed the current device's generator with a number that nobody can know before."""
    manual_seed(int.from_bytes(os.urandom(8), "little"))


def seed_all() -> None:
    """The same for all devices."""
    manual_seed_all(int.from_bytes(os.urandom(8), "little"))


@needs_device
def initial_seed() -> int:
    """The seed that the current device's generator began with."""
    return int(_stream().seed)


@needs_device
def get_rng_state(device: Any = "cuda") -> Tensor:
    """Seed and place of a device's generator, as a uint8 tensor of 16 bytes."""
    return wrap(_stream(device).state())


def get_rng_state_all() -> list[Tensor]:
    """The states of all devices: none without a device."""
    return [get_rng_state(number) for number in range(_devices())]


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Set a device's state; nothing happens where there is none.

    >>> import pullback as torch
    >>> torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())
    """
    if is_there():
        _stream(device).go_to(new_state._array)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Set the states of all devices."""
    for number, state in enumerate(new_states):
        set_rng_state(state, number)


def _devices() -> int:
    return HOLDERS["cuda"].devices if is_there() else 0


__dir__ = _only_public(globals())
