"""Switches of cuDNN, for convolutions and recurrent layers on a device; else without effect."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pullback.backends.switches import flags_of
from pullback.core.dtype import DTYPES
from pullback.core.listing import defined as _defined
from pullback.core.listing import only_public as _only_public
from pullback.core.ports import ports

enabled = True
deterministic = False
benchmark = False
benchmark_limit: int | None = None
allow_tf32 = True
fp32_precision = "none"
conv = SimpleNamespace(fp32_precision="tf32")
rnn = SimpleNamespace(fp32_precision="tf32")
CUDNN_TENSOR_DTYPES = {DTYPES[name] for name in ("float16", "float32", "float64")}

flags = flags_of(
    globals(),
    enabled=False,
    benchmark=False,
    benchmark_limit=10,
    deterministic=False,
    allow_tf32=True,
    fp32_precision="none",
)


def _library() -> Any:
    """The library, where a device and cuDNN are there."""
    from pullback.operators.cuda.found import found

    return found.library.cudnn.library() if found() else None


def is_available() -> bool:
    """Whether cuDNN is there.

    >>> import pullback as torch
    >>> torch.backends.cudnn.is_available() == (torch.backends.cudnn.version() is not None)
    True
    """
    return _library() is not None


def version() -> int | None:
    """Its version; None where it is not there."""
    library = _library()
    return None if library is None else int(library.cudnnGetVersion())


def is_acceptable(tensor: Any) -> bool:
    """Whether cuDNN would take a tensor: on a device, of one of its dtypes, where it is there."""
    usual = tensor.device.type == "cuda" and tensor.dtype in CUDNN_TENSOR_DTYPES
    return enabled and usual and is_available()


def _switches(kind: str = "conv") -> tuple[bool, bool, bool]:
    """What operators look at: whether it is on, deterministic, and in full precision."""
    exact = not allow_tf32 or (rnn if kind == "rnn" else conv).fp32_precision == "ieee"
    return enabled, deterministic, exact


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str = "none",
) -> tuple[Any, ...]:
    """Set switches, those that are not None; what they were before."""
    names = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32")
    before = tuple(globals()[name] for name in names)
    given = (_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32)
    wanted = {name: v for name, v in zip(names, given, strict=True) if v is not None}
    globals().update(wanted)
    return (*before, fp32_precision)


ports.fill(cudnn_switches=_switches)
__all__: list[str] = _defined(globals(), "Any DTYPES SimpleNamespace flags_of ports")
__dir__ = _only_public(globals())
