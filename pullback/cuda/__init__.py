"""Devices: CUDA devices, under torch's names, through CuPy.

Where CuPy or a device is missing, questions get answers and work gets an error: what torch without
CUDA allows is harmless here too (seeds, empty caches, counters of memory), what needs the device
raises what torch raises. docs/gpu.md is the page.
"""

from __future__ import annotations

from typing import Any

from pullback.backends import accelerators as _found
from pullback.backends.accelerators import AcceleratorError as AcceleratorError
from pullback.backends.accelerators import OutOfMemoryError as OutOfMemoryError
from pullback.core.device import HOLDERS as _HOLDERS
from pullback.core.explain.absent import as_imported as _as_imported
from pullback.core.listing import defined as _defined
from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor as _Tensor
from pullback.cuda import comm as comm
from pullback.cuda import graphs as graphs
from pullback.cuda import memory as memory
from pullback.cuda import nccl as nccl
from pullback.cuda import nvtx as nvtx
from pullback.cuda import profiler as profiler
from pullback.cuda import random as random
from pullback.cuda import streams as streams
from pullback.cuda.devices import *  # noqa: F403 (the names of its __all__)
from pullback.cuda.devices import get_device_capability
from pullback.cuda.graphs import *  # noqa: F403 (the names of its __all__)
from pullback.cuda.memory import *  # noqa: F403 (the names of its __all__)
from pullback.cuda.random import *  # noqa: F403 (the names of its __all__)
from pullback.cuda.streams import *  # noqa: F403 (the names of its __all__)

_kind = _found.Kind("cuda")

is_available = _kind.is_available
device_count = _kind.device_count
default_generators: tuple[Any, ...] = ()
has_half = True
has_magma = False

# What neither CuPy nor the runtime tells.
globals().update(
    _kind.refusals(
        "clock_rate current_blas_handle current_solver_handle device_memory_used "
        "get_sync_debug_mode ipc_collect memory_usage power_draw set_sync_debug_mode temperature "
        "utilization check_error"
    )
)


def _lazy_call(call: Any, **kwargs: Any) -> None:
    """Nothing waits for CUDA to start here."""


class CudaError(RuntimeError):
    """An error that CUDA reports."""


class DeferredCudaCallError(Exception):
    """An error of a call that waited for CUDA to start."""


def is_initialized() -> bool:
    """Whether a device was looked for and found.

    >>> import pullback as torch
    >>> torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.is_initialized()
    (False, 0, False)
    """
    return "cuda" in _HOLDERS


def _is_compiled() -> bool:
    return is_available()


def _is_in_bad_fork() -> bool:
    return False


def is_tf32_supported() -> bool:
    """Whether the current device has TF32."""
    return is_available() and get_device_capability()[0] >= 8


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the current device knows bfloat16."""
    return is_available() and (including_emulation or get_device_capability()[0] >= 8)


def get_arch_list() -> list[str]:
    """The architectures that kernels were compiled for: that of the device at hand."""
    return [f"sm_{a}{b}" for a, b in (get_device_capability(),)] if is_available() else []


def get_gencode_flags() -> str:
    """The compiler flags for these architectures."""
    flags = [
        f"-gencode compute={name.replace('sm', 'compute')},code={name}" for name in get_arch_list()
    ]
    return " ".join(flags)


class _CudaTensorType(type):
    """The type of `cuda.FloatTensor` and the like, to ask `isinstance`; made are they by dtype."""

    numpy_name: str

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"cuda.{cls.__name__}: tensors are made by dtype and device, as in torch.zeros(2, "
            f"dtype=..., device='cuda'); in the host's memory by torch.{cls.__name__}."
        )

    def __instancecheck__(cls, instance: Any) -> bool:
        there = isinstance(instance, _Tensor) and instance.is_cuda
        return there and instance.type() == f"torch.cuda.{cls.__name__}"


def _typed(name: str) -> _CudaTensorType:
    members = {"__module__": __name__, "__doc__": "Tensors on a CUDA device."}
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
        f"module {_as_imported(__name__)!r} has no attribute {name!r} here: there is no CUDA "
        "device, and this name does nothing without one."
    )


__all__: list[str] = _defined(globals(), "Any")
__dir__ = _only_public(globals(), "amp graphs memory nccl nvtx profiler random streams")
