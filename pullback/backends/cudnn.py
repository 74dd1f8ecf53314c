"""Switches of cuDNN: kept, and without effect where there is no device."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pullback.backends.switches import flags_of
from pullback.core.dtype import DTYPES
from pullback.core.listing import defined as _defined
from pullback.core.listing import only_public as _only_public

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


def is_available() -> bool:
    """Whether cuDNN is there.

    >>> import pullback as torch
    >>> torch.backends.cudnn.is_available(), torch.backends.cudnn.benchmark
    (False, False)
    """
    return False


def version() -> int | None:
    """Its version: None, as it is not there."""
    return None


def is_acceptable(tensor: Any) -> bool:
    """Whether cuDNN would take a tensor: none."""
    return False


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


__all__: list[str] = _defined(globals(), "Any DTYPES SimpleNamespace flags_of")
__dir__ = _only_public(globals())
