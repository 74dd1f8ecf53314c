"""Switches of CUDA's libraries: kept, and without effect where there is no device."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pullback.backends import precision
from pullback.backends.accelerators import Kind
from pullback.core.listing import only_public as _only_public
from pullback.core.origin import stacklevel

__all__ = [
    *("allow_fp16_bf16_reduction_math_sdp", "cufft_plan_cache", "cudnn_sdp_enabled"),
    *("enable_cudnn_sdp", "enable_flash_sdp", "enable_math_sdp", "enable_mem_efficient_sdp"),
    *("flash_sdp_enabled", "fp16_bf16_reduction_math_sdp_allowed", "is_built"),
    *("is_ck_sdpa_available", "is_flash_attention_available", "math_sdp_enabled", "matmul"),
    *("mem_efficient_sdp_enabled", "preferred_blas_library", "preferred_linalg_library"),
    *("sdp_kernel",),
]

_kind = Kind("cuda")


class _Matmul:
    """How exact products of matrices are on CUDA devices."""

    __slots__ = (
        *("allow_bf16_reduced_precision_reduction", "allow_fp16_accumulation"),
        "allow_fp16_reduced_precision_reduction",
    )

    def __init__(self) -> None:
        self.allow_fp16_reduced_precision_reduction = True
        self.allow_bf16_reduced_precision_reduction = True
        self.allow_fp16_accumulation = False

    @property
    def allow_tf32(self) -> bool:
        """Whether float32 products may use TF32; the same as their precision not being highest."""
        return precision.get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        precision.set_float32_matmul_precision("high" if value else "highest")

    @property
    def fp32_precision(self) -> str:
        """The same by another name: "tf32" or "none"."""
        return "tf32" if self.allow_tf32 else "none"

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        self.allow_tf32 = value == "tf32"


class _PlanCache:
    """Plans of cuFFT, one cache for each device: there is none."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what tools ask of any object
            raise AttributeError(name)
        raise _kind.missing(f"cufft_plan_cache.{name}")

    def __getitem__(self, index: Any) -> Any:
        raise _kind.missing(f"cufft_plan_cache[{index}]", RuntimeError)


matmul = _Matmul()
cufft_plan_cache = _PlanCache()
# Which implementations of attention may be chosen.
_allowed = {"flash": True, "math": True, "mem_efficient": True, "cudnn": True, "half math": False}


def is_built() -> bool:
    """Whether CUDA can be used at all."""
    return _kind.is_available()


def _switch(name: str, key: str) -> Callable[[bool], None]:
    def enable(enabled: bool) -> None:
        _allowed[key] = bool(enabled)

    enable.__name__ = enable.__qualname__ = name
    enable.__doc__ = f"Allow or forbid the {key} implementation of attention on CUDA devices."
    return enable


def _question(name: str, key: str) -> Callable[[], bool]:
    def enabled() -> bool:
        return _allowed[key]

    enabled.__name__ = enabled.__qualname__ = name
    enabled.__doc__ = f"Whether the {key} implementation of attention is allowed."
    return enabled


enable_flash_sdp = _switch("enable_flash_sdp", "flash")
enable_math_sdp = _switch("enable_math_sdp", "math")
enable_mem_efficient_sdp = _switch("enable_mem_efficient_sdp", "mem_efficient")
enable_cudnn_sdp = _switch("enable_cudnn_sdp", "cudnn")
flash_sdp_enabled = _question("flash_sdp_enabled", "flash")
math_sdp_enabled = _question("math_sdp_enabled", "math")
mem_efficient_sdp_enabled = _question("mem_efficient_sdp_enabled", "mem_efficient")
cudnn_sdp_enabled = _question("cudnn_sdp_enabled", "cudnn")
allow_fp16_bf16_reduction_math_sdp = _switch("allow_fp16_bf16_reduction_math_sdp", "half math")
fp16_bf16_reduction_math_sdp_allowed = _question(
    "fp16_bf16_reduction_math_sdp_allowed", "half math"
)


def is_flash_attention_available() -> bool:
    """Whether attention has that implementation: not without a device."""
    return False


def is_ck_sdpa_available() -> bool:
    """Whether attention has that implementation: not without a device."""
    return False


def preferred_linalg_library(backend: str | None = None) -> str:
    """Which library decomposes matrices on CUDA devices: the default, whatever is asked for."""
    return "default"


def preferred_blas_library(backend: str | None = None) -> str:
    """Which library multiplies matrices on CUDA devices: the default, whatever is asked for."""
    return "default"


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[dict[str, Any]]:
    """Allow some implementations of attention within a block; an old form of `sdpa_kernel`."""
    warnings.warn(
        "backends.cuda.sdp_kernel() is the old form of nn.attention.sdpa_kernel().",
        FutureWarning,
        stacklevel=stacklevel(),
    )
    before = dict(_allowed)
    _allowed.update(
        flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn
    )
    try:
        yield {}
    finally:
        _allowed.update(before)


__dir__ = _only_public(globals())
