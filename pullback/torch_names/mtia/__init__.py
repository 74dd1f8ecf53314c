"""MTIA devices, under torch's names. There are none: questions get answers, work gets an error."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pullback.backends import accelerators as _found
from pullback.backends.accelerators import StreamContext as StreamContext
from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor as _Tensor

_kind = _found.Kind("mtia", RuntimeError)
is_available = _kind.is_available
device_count = _kind.device_count
device: Any = _kind.chooser(__name__)
memory_allocated = max_memory_allocated = _found.zero
manual_seed = manual_seed_all = seed = seed_all = _found.nothing
record_memory_history = reset_peak_memory_stats = set_stream = _found.nothing
globals().update(
    _kind.refusals(
        "attach_out_of_memory_observer current_device current_stream default_stream empty_cache "
        "get_device_capability get_device_properties graph_pool_handle set_device set_rng_state "
        "snapshot stream synchronize"
    )
)
globals().update(_kind.refusals("get_rng_state init initial_seed", AssertionError))


def is_initialized() -> bool:
    """Whether MTIA runs in this process."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether these devices know bfloat16: all of them do."""
    return True


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Counters of the allocator: none."""
    return {}


def get_rng_state_all() -> list[_Tensor]:
    """The states of all devices: none."""
    return []


def set_rng_state_all(new_states: Iterable[_Tensor]) -> None:
    """Set the states of all devices; there is none."""


__all__ = [
    name
    for name in globals()
    if not name.startswith("_") and name not in ("annotations", "Any", "Iterable")
]

__dir__ = _only_public(globals())
