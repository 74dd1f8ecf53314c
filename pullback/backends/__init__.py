"""Devices: the libraries that torch computes with, and their switches. Here NumPy, or CuPy.

Programs read and set these switches; they are kept, and change nothing. `opt_einsum`, `native` and
the precision of products say so themselves. `kernels_used` says which kernels computed.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any

from pullback.core.explain.absent import absent as _absent
from pullback.core.listing import only_public as _only_public

__all__ = [
    *("cpu", "cuda", "cudnn", "cusparselt", "kleidiai", "mha", "miopen", "mkl", "mkldnn", "mps"),
    *("kernels_used", "native", "nnpack", "openmp", "opt_einsum", "quantized"),
]

fp32_precision = "none"


def flags_frozen() -> bool:
    """Whether switches may no longer be set: never here."""
    return False


def __getattr__(name: str) -> Any:
    if name == "kernels_used":
        from pullback.backends.used import kernels_used

        return kernels_used
    if name in __all__:
        return _import_module(f"pullback.backends.{name}")
    raise _absent(__name__, name)


__dir__ = _only_public(globals())
