"""Functions that take other arguments under `torch.ops.aten` than their public namesakes do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import pullback
from pullback.core.tensor import Tensor
from pullback.library.builtin.table import Table

__all__ = ["RAW"]

RAW = Table()
_aten = RAW.enter


@_aten("max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor")
def _max_unpool2d(self: Any, indices: Any, output_size: Sequence[int]) -> Any:
    return _unpooled(self, indices, tuple(output_size))


@_aten(
    "max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, "
    "int[3] padding) -> Tensor"
)
def _max_unpool3d(
    self: Any, indices: Any, output_size: Sequence[int], stride: Any, padding: Any
) -> Any:
    return _unpooled(self, indices, tuple(output_size))


def _unpooled(x: Any, indices: Any, size: tuple[int, ...]) -> Any:
    """Zeros of a size, with the elements of `x` at the places that `indices` counts there."""
    first = tuple(x.shape[: -len(size)])
    flat = x.new_zeros((*first, prod(size)))
    placed = flat.scatter(-1, indices.reshape((*first, -1)), x.reshape((*first, -1)))
    return placed.reshape((*first, *size))


def _fractional(dims: int) -> None:
    name = f"fractional_max_pool{dims}d"

    @_aten(
        f"{name}(Tensor self, int[{dims}] kernel_size, int[{dims}] output_size, "
        "Tensor random_samples) -> (Tensor, Tensor)"
    )
    def run(self: Any, kernel_size: Any, output_size: Any, random_samples: Any) -> Any:
        function = getattr(pullback.nn.functional, f"{name}_with_indices")
        return function(self, kernel_size, output_size, _random_samples=random_samples)


_fractional(2)
_fractional(3)


@_aten("tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor")
def _tensordot(self: Any, other: Any, dims_self: Any, dims_other: Any) -> Any:
    return pullback.tensordot(self, other, (list(dims_self), list(dims_other)))


@_aten("block_diag(Tensor[] tensors) -> Tensor")
def _block_diag(tensors: Sequence[Any]) -> Any:
    return pullback.block_diag(*tensors)


@_aten(
    "stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
    "bool normalized=False, bool? onesided=None, bool? return_complex=None, "
    "bool? align_to_window=None) -> Tensor"
)
def _stft(
    self: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Any:
    """Of a signal as it is: the public function pads it before."""
    return pullback.stft(
        self,
        n_fft,
        hop_length,
        win_length,
        window,
        center=False,
        normalized=normalized,
        onesided=onesided,
        return_complex=return_complex,
        align_to_window=align_to_window,
    )


def _with_factor(name: str, function: Callable[..., Any]) -> None:
    """The form for a number, whose factor `alpha` may come by position."""
    written = "(a!)" if name.endswith("_") else ""
    tensor = f"Tensor{written}"

    @_aten(f"{name}.Scalar({tensor} self, Scalar other, Scalar alpha=1) -> {tensor}")
    def run(self: Any, other: Any, alpha: Any = 1) -> Any:
        return function(self, other) if alpha == 1 else function(self, other, alpha=alpha)


for _name in ("add", "sub", "add_", "sub_"):
    _with_factor(_name, getattr(Tensor, _name))
_with_factor("rsub", pullback.rsub)
