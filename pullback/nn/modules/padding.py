"""Padding as modules."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn.base.fields import sized
from pullback.nn.modules.module import Module

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _PadNd(Module):
    """Padding at both ends of the last dimensions."""

    _dims: int
    _mode: str = "constant"

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = sized(padding, 2 * self._dims)

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        """The widths."""
        return f"{self.padding}"


class _ConstantPadNd(_PadNd):
    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """The widths and the number."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Pad the last dimension with a constant.

    >>> import pullback as torch
    >>> torch.nn.ConstantPad1d(1, 9.0)(torch.tensor([[[1.0, 2.0]]]))
    tensor([[[9., 1., 2., 9.]]])
    """

    _dims = 1


class ConstantPad2d(_ConstantPadNd):
    """Pad the last two dimensions with a constant.

    >>> import pullback as torch
    >>> torch.nn.ConstantPad2d(1, 9.0)(torch.tensor([[[1.0]]]))
    tensor([[[9., 9., 9.],
             [9., 1., 9.],
             [9., 9., 9.]]])
    """

    _dims = 2


class ConstantPad3d(_ConstantPadNd):
    """Pad the last three dimensions with a constant.

    >>> import pullback as torch
    >>> torch.nn.ConstantPad3d(1, 9.0)(torch.ones(1, 1, 1, 1)).shape
    torch.Size([1, 3, 3, 3])
    """

    _dims = 3


def _zeros(self: Any, padding: Any) -> None:
    _ConstantPadNd.__init__(self, padding, 0.0)


class ZeroPad1d(ConstantPad1d):
    """Zero padding of the last dimension.

    >>> import pullback as torch
    >>> torch.nn.ZeroPad1d(1)(torch.tensor([[1.0, 2.0]]))
    tensor([[0., 1., 2., 0.]])
    """

    __init__ = _zeros
    extra_repr = _PadNd.extra_repr


class ZeroPad2d(ConstantPad2d):
    """Zero padding of the last two dimensions.

    >>> import pullback as torch
    >>> torch.nn.ZeroPad2d((1, 0, 0, 1))(torch.tensor([[[1.0]]]))
    tensor([[[0., 1.],
             [0., 0.]]])
    """

    __init__ = _zeros
    extra_repr = _PadNd.extra_repr


class ZeroPad3d(ConstantPad3d):
    """Zero padding of the last three dimensions.

    >>> import pullback as torch
    >>> torch.nn.ZeroPad3d(1)(torch.ones(1, 1, 1, 1)).shape
    torch.Size([1, 3, 3, 3])
    """

    __init__ = _zeros
    extra_repr = _PadNd.extra_repr


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Reflection padding of the last dimension.

    >>> import pullback as torch
    >>> torch.nn.ReflectionPad1d(2)(torch.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 2., 1., 2., 3., 2., 1.]])
    """

    _dims = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Reflection padding of the last two dimensions.

    >>> import pullback as torch
    >>> torch.nn.ReflectionPad2d(1)(torch.randn(1, 1, 3, 3)).shape
    torch.Size([1, 1, 5, 5])
    """

    _dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Reflection padding of the last three dimensions.

    >>> import pullback as torch
    >>> torch.nn.ReflectionPad3d(1)(torch.randn(1, 1, 3, 3, 3)).shape
    torch.Size([1, 1, 5, 5, 5])
    """

    _dims = 3


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Replicate the outermost elements of the last dimension.

    >>> import pullback as torch
    >>> torch.nn.ReplicationPad1d(2)(torch.tensor([[1.0, 2.0, 3.0]]))
    tensor([[1., 1., 1., 2., 3., 3., 3.]])
    """

    _dims = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Replicate the outermost elements of the last two dimensions.

    >>> import pullback as torch
    >>> torch.nn.ReplicationPad2d(1)(torch.randn(1, 1, 3, 3)).shape
    torch.Size([1, 1, 5, 5])
    """

    _dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Replicate the outermost elements of the last three dimensions.

    >>> import pullback as torch
    >>> torch.nn.ReplicationPad3d(1)(torch.randn(1, 1, 3, 3, 3)).shape
    torch.Size([1, 1, 5, 5, 5])
    """

    _dims = 3


class _CircularPadNd(_PadNd):
    _mode = "circular"

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in (self._dims + 1, self._dims + 2):
            raise ValueError(
                f"{type(self).__name__}: {self._dims + 1} or {self._dims + 2} dimensions are "
                f"needed, got shape {tuple(input.shape)}."
            )

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        self._check_input_dim(input)
        return super().forward(input)


class CircularPad1d(_CircularPadNd):
    """Circular padding of the last dimension.

    >>> import pullback as torch
    >>> torch.nn.CircularPad1d(1)(torch.tensor([[[1.0, 2.0, 3.0]]]))
    tensor([[[3., 1., 2., 3., 1.]]])
    """

    _dims = 1


class CircularPad2d(_CircularPadNd):
    """Circular padding of the last two dimensions.

    >>> import pullback as torch
    >>> torch.nn.CircularPad2d(1)(torch.ones(1, 1, 2, 2)).shape
    torch.Size([1, 1, 4, 4])
    """

    _dims = 2


class CircularPad3d(_CircularPadNd):
    """Circular padding of the last three dimensions.

    >>> import pullback as torch
    >>> torch.nn.CircularPad3d(1)(torch.ones(1, 1, 2, 2, 2)).shape
    torch.Size([1, 1, 4, 4, 4])
    """

    _dims = 3
