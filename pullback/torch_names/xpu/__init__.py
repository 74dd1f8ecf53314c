"""Intel GPUs, under torch's names. There are none: questions get answers, work gets an error."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from pullback.backends import accelerators as _found
from pullback.backends.accelerators import StreamContext as StreamContext
from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor as _Tensor

_kind = _found.Kind("xpu")

is_available = _kind.is_available
device_count = _kind.device_count
device: Any = _kind.chooser(__name__)
memory_allocated = memory_reserved = max_memory_allocated = max_memory_reserved = _found.zero
manual_seed = manual_seed_all = seed = seed_all = _found.nothing
set_stream = empty_cache = set_rng_state = _found.nothing
default_generators: tuple[Any, ...] = ()

globals().update(
    _kind.refusals(
        "can_device_access_peer clock_rate current_device current_stream device_memory_used "
        "get_device_capability get_device_name get_device_properties "
        "get_per_process_memory_fraction get_rng_state get_stream_from_external init initial_seed "
        "mem_get_info memory_usage power_draw reset_accumulated_memory_stats "
        "reset_peak_memory_stats set_device set_per_process_memory_fraction synchronize "
        "temperature utilization change_current_allocator use_mem_pool"
    )
)
globals().update(
    _kind.refusals("graph_pool_handle is_current_stream_capturing make_graphed_callables")
)
Stream: Any = _kind.refusing_class("Stream", __name__, RuntimeError)
Event: Any = _kind.refusing_class("Event", __name__, RuntimeError)
MemPool: Any = _kind.refusing_class("MemPool", __name__, RuntimeError)
XPUGraph: Any = _kind.refusing_class("XPUGraph", __name__, RuntimeError)


def is_initialized() -> bool:
    """Whether XPU runs in this process.

    >>> import pullback as torch
    >>> torch.xpu.is_available(), torch.xpu.is_initialized()
    (False, False)
    """
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the current device knows bfloat16: there is none."""
    return False


def is_tf32_supported() -> bool:
    """Whether the current device has TF32: there is none."""
    return False


def get_arch_list() -> list[str]:
    """The architectures that kernels were compiled for: none."""
    return []


def get_gencode_flags() -> str:
    """The compiler flags for these architectures: none."""
    return ""


def memory_stats(device: Any = None) -> OrderedDict[str, Any]:
    """Counters of the allocator: none."""
    return OrderedDict()


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """Counters of the allocator: none."""
    return {}


def memory_snapshot(mempool_id: Any = None) -> list[dict[str, Any]]:
    """What the allocator holds: nothing."""
    return []


def get_rng_state_all() -> list[_Tensor]:
    """The states of all devices: none."""
    return []


def set_rng_state_all(new_states: Iterable[_Tensor]) -> None:
    """Set the states of all devices; there is none."""


class device_of(device):  # type: ignore[misc]  # noqa: N801 (torch's name)
    """Inside, the device of a tensor is the current one; nothing happens for others."""

    def __init__(self, obj: Any) -> None:
        super().__init__(-1)


def stream(stream: Any) -> StreamContext:
    """Inside, work goes to a stream; None changes nothing."""
    return StreamContext(stream)


__all__ = [
    name
    for name in globals()
    if not name.startswith("_") and name not in ("annotations", "Any", "Iterable", "OrderedDict")
]

__dir__ = _only_public(globals())
