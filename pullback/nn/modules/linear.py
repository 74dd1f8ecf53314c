"""Linear layers."""

from __future__ import annotations

import math
from typing import Any

from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn import init
from pullback.nn.base.weights import weight_and_bias
from pullback.nn.modules.lazy import LazyModuleMixin
from pullback.nn.modules.module import Module
from pullback.nn.parameter import Parameter, UninitializedParameter
from pullback.operators.create.sizes import empty

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Returns its input; takes and ignores any arguments.

    >>> import pullback as torch
    >>> torch.nn.Identity(54, unused=True)(torch.ones(1))
    tensor([1.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Any:
        """The same."""
        return input


class Linear(Module):
    """Apply a linear map to the last dimension: `y = x @ weight.T + bias`.

    All other dimensions are batch dimensions. Weight and bias are initialized uniformly
    within `1 / sqrt(in_features)`.

    Args:
        in_features: Size of the last dimension of the input.
        out_features: Size of the last dimension of the output.
        bias: Whether to add a learned bias.
        device, dtype: Device and data type of the parameters.

    Shape:
        Input: (*, in_features). Output: (*, out_features).
        weight: (out_features, in_features); bias: (out_features,).

    >>> import pullback as torch
    >>> torch.nn.Linear(3, 2)(torch.ones(4, 3)).shape
    torch.Size([4, 2])
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty((out_features,), device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        weight, bias = weight_and_bias(self)
        return F.linear(input, weight, bias)

    def extra_repr(self) -> str:
        """The sizes."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear, under the name that torch gives the last projection of an attention."""


class LazyLinear(LazyModuleMixin, Linear):
    """Linear that takes the number of features from its first input.

    >>> import pullback as torch
    >>> layer = torch.nn.LazyLinear(4)
    >>> layer(torch.randn(2, 3)).shape
    torch.Size([2, 4])
    >>> layer.in_features
    3
    """

    cls_to_become = Linear
    weight: Any
    bias: Any

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, once they are there."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Take the features of the input."""
        if not self.has_uninitialized_params():
            if self.in_features == 0:  # the weight was loaded, and told nothing but its shape
                assert input.shape[-1] == self.weight.shape[-1], (
                    f"LazyLinear: a weight for {self.weight.shape[-1]} features was loaded, and "
                    f"the input has {input.shape[-1]}."
                )
                self.in_features = input.shape[-1]
            return
        self.in_features = input.shape[-1]
        self.weight.materialize((self.out_features, self.in_features))
        if self.bias is not None:
            self.bias.materialize((self.out_features,))
        self.reset_parameters()


class Bilinear(Module):
    """`x1 @ weight @ x2 + bias`.

    >>> import pullback as torch
    >>> torch.nn.Bilinear(2, 3, 4)(torch.ones(1, 2), torch.ones(1, 3)).shape
    torch.Size([1, 4])
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"Bilinear: in1_features must be positive, got {in1_features}.")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        self.weight = Parameter(empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty((out_features,), device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Any:
        """Apply it."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
