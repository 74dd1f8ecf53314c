"""Norms within one example: layer, group, root mean square, local response."""

from __future__ import annotations

import numbers
from typing import Any

from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn import init
from pullback.nn.base.fields import Layer
from pullback.nn.base.weights import weight_and_bias
from pullback.nn.modules.module import Module
from pullback.nn.parameter import Parameter
from pullback.operators.create.sizes import empty

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


def _shape(value: Any) -> tuple[int, ...]:
    return (int(value),) if isinstance(value, numbers.Integral) else tuple(value)


class _Scaled(Module):
    """A trained scale and shift, or either of them, or none."""

    weight: Parameter | None
    bias: Parameter | None

    def _make(
        self, shape: tuple[int, ...], device: Any, dtype: Any, *, weight: bool, bias: bool
    ) -> None:
        for name, wanted in (("weight", weight), ("bias", bias)):
            made = Parameter(empty(shape, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale 1, shift 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class LayerNorm(_Scaled):
    """Normalise each example over its last dimensions.

    `y = (x - mean) / sqrt(var + eps) * weight + bias`

    Mean and (biased) variance are taken over the dimensions of `normalized_shape`; training and
    evaluation are the same.

    Args:
        normalized_shape: Sizes of the last dimensions to normalise over; one number means the last.
        eps: Added to the variance, against division by zero.
        elementwise_affine: Whether to learn `weight` (first 1) and `bias` (first 0), each of shape
            `normalized_shape`.
        bias: Whether, if so, to learn `bias` too.
        device, dtype: Device and data type of the parameters.

    Shape:
        Input: (*, *normalized_shape). Output: that of the input.

    >>> import pullback as torch
    >>> torch.nn.LayerNorm(4)(torch.randn(2, 4)).shape
    torch.Size([2, 4])
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        shifted = elementwise_affine and bias
        self._make(self.normalized_shape, device, dtype, weight=elementwise_affine, bias=shifted)

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        weight, bias = weight_and_bias(self)
        return F.layer_norm(input, self.normalized_shape, weight, bias, self.eps)

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
            f", bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divide by the root mean square over the last dimensions.

    >>> import pullback as torch
    >>> torch.nn.RMSNorm(2)(torch.tensor([3.0, 4.0])).detach()
    tensor([0.8485, 1.1314])
    """

    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        made = None
        if elementwise_affine:
            made = Parameter(empty(self.normalized_shape, device=device, dtype=dtype))
        self.register_parameter("weight", made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Any:
        """Apply it."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(_Scaled):
    """Normalise groups of channels to mean 0 and variance 1.

    >>> import pullback as torch
    >>> torch.nn.GroupNorm(2, 4)(torch.randn(3, 4, 5)).shape
    torch.Size([3, 4, 5])
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(
                f"GroupNorm: {num_channels} channels cannot be cut into {num_groups} groups."
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._make((num_channels,), device, dtype, weight=affine, bias=affine and bias)

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        weight, bias = weight_and_bias(self)
        return F.group_norm(input, self.num_groups, weight, bias, self.eps)

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(Layer):
    """Divide by a power of the mean square over neighbouring channels.

    >>> import pullback as torch
    >>> torch.nn.LocalResponseNorm(2)(torch.randn(1, 4, 3)).shape
    torch.Size([1, 4, 3])
    """

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """The settings."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Layer):
    """As LocalResponseNorm, for images, under an older name.

    Sums are those of the window. (Torch's own never takes the first channel out of its running
    sum again; where that is zero both agree.)

    >>> import pullback as torch
    >>> torch.nn.CrossMapLRN2d(3)(torch.ones(1, 4, 2, 2)).shape
    torch.Size([1, 4, 2, 2])
    """

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """The settings."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
