"""CUDA devices, under torch's names. There are none yet: questions get answers, work gets an error.

`accelerator/found.py` knows which devices there are. What torch without CUDA allows is harmless
here too (seeds, empty caches, counters of memory); what needs the device raises what torch raises.
"""

from __future__ import annotations

from typing import Any

from pullback.accelerator import found as _found
from pullback.accelerator.found import (
    AcceleratorError as AcceleratorError,
)
from pullback.accelerator.found import (
    OutOfMemoryError as OutOfMemoryError,
)
from pullback.accelerator.found import (
    StreamContext as StreamContext,
)
from pullback.core.listing import defined as _defined
from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor as _Tensor
from pullback.cuda import (
    comm as comm,
)
from pullback.cuda import (
    graphs as graphs,
)
from pullback.cuda import (
    memory as memory,
)
from pullback.cuda import (
    nccl as nccl,
)
from pullback.cuda import (
    nvtx as nvtx,
)
from pullback.cuda import (
    profiler as profiler,
)
from pullback.cuda import (
    random as random,
)
from pullback.cuda import (
    streams as streams,
)
from pullback.cuda.graphs import *  # noqa: F403 (the names of its __all__)
from pullback.cuda.memory import *  # noqa: F403 (the names of its __all__)
from pullback.cuda.random import *  # noqa: F403 (the names of its __all__)
from pullback.cuda.streams import *  # noqa: F403 (the names of its __all__)

_kind = _found.Kind("cuda")

is_available = _kind.is_available
device_count = _kind.device_count
device: Any = _kind.chooser(__name__)
set_stream = _lazy_call = _found.nothing
default_generators: tuple[Any, ...] = ()
has_half = True
has_magma = False

globals().update(
    _kind.refusals(
        "can_device_access_peer clock_rate cudart current_blas_handle current_device "
        "current_solver_handle current_stream default_stream device_memory_used "
        "get_device_capability get_device_name get_device_properties get_stream_from_external "
        "get_sync_debug_mode init ipc_collect memory_usage power_draw set_sync_debug_mode "
        "synchronize temperature utilization check_error _lazy_init"
    )
)


class CudaError(RuntimeError):
    """An error that CUDA reports."""


class DeferredCudaCallError(Exception):
    """An error of a call that waited for CUDA to start."""


def is_initialized() -> bool:
    """Whether CUDA runs in this process.

    >>> import pullback as torch
    >>> torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.is_initialized()
    (False, 0, False)
    """
    return False


def _is_compiled() -> bool:
    return is_available()


def _is_in_bad_fork() -> bool:
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


def set_device(device: Any) -> None:
    """Make a device the current one; nothing happens for -1."""
    if _kind.index_of(device, "set_device") >= 0:
        raise _kind.missing("set_device()")


class device_of(device):  # type: ignore[misc]  # noqa: N801 (torch's name)
    """Inside, the device of a tensor is the current one; nothing happens for others."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if isinstance(obj, _Tensor) else -1)


def stream(stream: Any) -> StreamContext:
    """Inside, work goes to a stream; None changes nothing.

    >>> import pullback as torch
    >>> with torch.cuda.stream(None):
    ...     pass
    """
    return StreamContext(stream)


class _CudaTensorType(type):
    """The type of `cuda.FloatTensor` and the like: no tensor is one, and none can be made."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"cuda.{cls.__name__}: there is no CUDA device to hold such tensors; use "
            f"torch.{cls.__name__}."
        )

    def __instancecheck__(cls, instance: Any) -> bool:
        return False


def _typed(name: str) -> _CudaTensorType:
    members = {"__module__": __name__, "__doc__": "Tensors on a CUDA device: there are none."}
    return _CudaTensorType(name, (), members)


_KINDS = ("Bool", "Byte", "Char", "Short", "Int", "Long", "Half", "BFloat16", "Float", "Double")
globals().update({f"{name}Tensor": _typed(f"{name}Tensor") for name in _KINDS})
globals().update(
    {
        f"{name}Storage": _kind.refusing_class(f"{name}Storage", __name__, AssertionError)
        for name in (*_KINDS, "ComplexFloat", "ComplexDouble")
    }
)


def __getattr__(name: str) -> Any:
    if name == "amp":  # loads autocast, which few programs on the CPU need
        import pullback.cuda.amp as amp

        return amp
    raise AttributeError(
        f"module 'torch.cuda' has no attribute {name!r} here: there is no CUDA device, and this "
        "name does nothing without one."
    )


__all__: list[str] = _defined(globals(), "Any")
__dir__ = _only_public(globals(), "amp graphs memory nccl nvtx profiler random streams")
