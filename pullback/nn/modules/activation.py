"""Activations as modules; the functions are those of nn.functional."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn.base.fields import Layer
from pullback.nn.base.old_names import warn_of_old
from pullback.nn.layers.attention import MultiheadAttention
from pullback.nn.modules.module import Module
from pullback.nn.parameter import Parameter
from pullback.operators.create.sizes import full

__all__ = [
    *("CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh"),
    *("LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SELU"),
    *("SiLU", "Sigmoid", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign"),
    *("Tanh", "Tanhshrink", "Threshold"),
    "MultiheadAttention",
]


class ReLU(Layer):
    """`max(x, 0)`.

    >>> import pullback as torch
    >>> torch.nn.ReLU()(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    inplace: bool = False

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.relu_(input) if self.inplace else F.relu(input)


class SELU(Layer):
    """ELU, scaled so that it keeps mean 0 and variance 1.

    >>> import pullback as torch
    >>> torch.nn.SELU()(torch.tensor([-1.0, 1.0]))
    tensor([-1.1113,  1.0507])
    """

    inplace: bool = False

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.selu_(input) if self.inplace else F.selu(input)


class SiLU(Layer):
    """`x * sigmoid(x)`.

    >>> import pullback as torch
    >>> torch.nn.SiLU()(torch.tensor([-1.0, 2.0]))
    tensor([-0.2689,  1.7616])
    """

    inplace: bool = False

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.silu(input, self.inplace)


class Mish(Layer):
    """`x * tanh(softplus(x))`.

    >>> import pullback as torch
    >>> torch.nn.Mish()(torch.tensor([-1.0, 2.0]))
    tensor([-0.3034,  1.9440])
    """

    inplace: bool = False

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.mish(input, self.inplace)


class Hardsigmoid(Layer):
    """A piecewise linear sigmoid.

    >>> import pullback as torch
    >>> torch.nn.Hardsigmoid()(torch.tensor([-4.0, 0.0, 4.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """

    inplace: bool = False
    _shown = ()

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.hardsigmoid(input, self.inplace)


class Hardswish(Layer):
    """`x * hardsigmoid(x)`.

    >>> import pullback as torch
    >>> torch.nn.Hardswish()(torch.tensor([-4.0, 1.0, 4.0]))
    tensor([-0.0000, 0.6667, 4.0000])
    """

    inplace: bool = False
    _shown = ()

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.hardswish(input, self.inplace)


class ELU(Layer):
    """Exponential linear unit: `x`, or `alpha * (exp(x) - 1)` where it is negative.

    >>> import pullback as torch
    >>> torch.nn.ELU()(torch.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    alpha: float = 1.0
    inplace: bool = False

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.elu(input, self.alpha, self.inplace)


class CELU(Layer):
    """As ELU, `alpha * (exp(x / alpha) - 1)` where `x` is negative: its slope has no jump.

    >>> import pullback as torch
    >>> torch.nn.CELU()(torch.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    alpha: float = 1.0
    inplace: bool = False

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.celu(input, self.alpha, self.inplace)


class LeakyReLU(Layer):
    """`x`, or `negative_slope * x` where it is negative.

    >>> import pullback as torch
    >>> torch.nn.LeakyReLU(0.1)(torch.tensor([-1.0, 2.0]))
    tensor([-0.1000,  2.0000])
    """

    negative_slope: float = 0.01
    inplace: bool = False

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class RReLU(Layer):
    """A leaky ReLU whose slope is random in training.

    >>> import pullback as torch
    >>> torch.nn.RReLU(0.25, 0.25)(torch.tensor([-8.0, 1.0]))
    tensor([-2.,  1.])
    """

    lower: float = 1 / 8
    upper: float = 1 / 3
    inplace: bool = False

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class Threshold(Layer):
    """`x` above the threshold, else `value`.

    >>> import pullback as torch
    >>> torch.nn.Threshold(2.0, 0.0)(torch.tensor([1.0, 3.0]))
    tensor([0., 3.])
    """

    threshold: float
    value: float
    inplace: bool = False

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.threshold(input, self.threshold, self.value, self.inplace)


class Hardtanh(Layer):
    """`x` between `min_val` and `max_val`.

    >>> import pullback as torch
    >>> torch.nn.Hardtanh()(torch.tensor([-4.0, 0.5, 4.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """

    min_val: float = -1.0
    max_val: float = 1.0
    inplace: bool = False
    min_value: float | None = None
    max_value: float | None = None

    def __post_init__(self) -> None:
        """Older names of the bounds count too."""
        for old, name in (("min_value", "min_val"), ("max_value", "max_val")):
            value = self.__dict__.pop(old)
            if value is not None:
                warn_of_old(f"Hardtanh's {old}", name)
                setattr(self, name, value)
        if not self.max_val > self.min_val:
            raise AssertionError(
                f"Hardtanh: max_val {self.max_val} must be above min_val {self.min_val}."
            )

    def extra_repr(self) -> str:
        """The bounds."""
        return f"min_val={self.min_val}, max_val={self.max_val}" + (
            ", inplace=True" if self.inplace else ""
        )

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


class ReLU6(Hardtanh):
    """`min(max(x, 0), 6)`.

    >>> import pullback as torch
    >>> torch.nn.ReLU6()(torch.tensor([-1.0, 3.0, 9.0]))
    tensor([0., 3., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        """Whether it writes into its input."""
        return "inplace=True" if self.inplace else ""


class Hardshrink(Layer):
    """`x`, or 0 where it is within `lambd` of 0.

    >>> import pullback as torch
    >>> torch.nn.Hardshrink()(torch.tensor([-1.0, 0.3, 2.0]))
    tensor([-1.,  0.,  2.])
    """

    lambd: float = 0.5

    def extra_repr(self) -> str:
        """The bound."""
        return f"{self.lambd}"

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.hardshrink(input, self.lambd)


class Softshrink(Layer):
    """`x`, moved by `lambd` towards 0.

    >>> import pullback as torch
    >>> torch.nn.Softshrink()(torch.tensor([-1.0, 0.3, 2.0]))
    tensor([-0.5000,  0.0000,  1.5000])
    """

    lambd: float = 0.5

    def extra_repr(self) -> str:
        """The bound."""
        return f"{self.lambd}"

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.softshrink(input, self.lambd)


class Softplus(Layer):
    """A smooth ReLU: `log(1 + exp(beta * x)) / beta`.

    >>> import pullback as torch
    >>> torch.nn.Softplus()(torch.tensor([0.0, 2.0]))
    tensor([0.6931, 2.1269])
    """

    beta: float = 1.0
    threshold: float = 20.0

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.softplus(input, self.beta, self.threshold)


class GELU(Layer):
    """Gaussian error linear unit: `x * Phi(x)`, Phi the normal distribution function.

    >>> import pullback as torch
    >>> torch.nn.GELU()(torch.tensor([-1.0, 2.0]))
    tensor([-0.1587,  1.9545])
    """

    approximate: str = "none"

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.gelu(input, approximate=self.approximate)


class GLU(Layer):
    """Gated linear unit: one half of a dimension times the sigmoid of the other.

    >>> import pullback as torch
    >>> torch.nn.GLU()(torch.tensor([1.0, 2.0, 0.0, 0.0]))
    tensor([0.5000, 1.0000])
    """

    dim: int = -1

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.glu(input, self.dim)


class _OfAnything(Module):
    """Takes and ignores arguments, as torch's do."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()


class Sigmoid(_OfAnything):
    """`1 / (1 + exp(-x))`.

    >>> import pullback as torch
    >>> torch.nn.Sigmoid()(torch.tensor([0.0, 2.0]))
    tensor([0.5000, 0.8808])
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.sigmoid(input)


class Tanh(_OfAnything):
    """Hyperbolic tangent.

    >>> import pullback as torch
    >>> torch.nn.Tanh()(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.tanh(input)


class LogSigmoid(_OfAnything):
    """Logarithm of the sigmoid.

    >>> import pullback as torch
    >>> torch.nn.LogSigmoid()(torch.tensor([0.0, 2.0]))
    tensor([-0.6931, -0.1269])
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.logsigmoid(input)


class Softsign(_OfAnything):
    """`x / (1 + |x|)`.

    >>> import pullback as torch
    >>> torch.nn.Softsign()(torch.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.softsign(input)


class Tanhshrink(_OfAnything):
    """`x - tanh(x)`.

    >>> import pullback as torch
    >>> torch.nn.Tanhshrink()(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.2384])
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.tanhshrink(input)


class Softmax(Layer):
    """Softmax: exponentials, scaled to sum to 1 along a dimension.

    >>> import pullback as torch
    >>> torch.nn.Softmax(dim=0)(torch.tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """

    dim: int | None = None

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.softmax(input, self.dim)


class Softmin(Layer):
    """Softmax of `-x`.

    >>> import pullback as torch
    >>> torch.nn.Softmin(dim=0)(torch.tensor([1.0, 2.0]))
    tensor([0.7311, 0.2689])
    """

    dim: int | None = None

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.softmin(input, self.dim)


class LogSoftmax(Layer):
    """Logarithm of softmax.

    >>> import pullback as torch
    >>> torch.nn.LogSoftmax(dim=0)(torch.tensor([0.0, 0.0]))
    tensor([-0.6931, -0.6931])
    """

    dim: int | None = None

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.log_softmax(input, self.dim)


class Softmax2d(_OfAnything):
    """Softmax over the channels of images.

    >>> import pullback as torch
    >>> torch.nn.Softmax2d()(torch.zeros(1, 2, 1, 1)).flatten()
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        if input.ndim not in (3, 4):
            raise ValueError(
                "Softmax2d: images of 3 or 4 dimensions are needed, got shape "
                f"{tuple(input.shape)}."
            )
        return F.softmax(input, -3)


class PReLU(Module):
    """`x`, or `weight * x` where it is negative; the weight is learned.

    >>> import pullback as torch
    >>> torch.nn.PReLU()(torch.tensor([-4.0, 2.0]))
    tensor([-1.,  2.], grad_fn=<PreluKernelBackward0>)
    """

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(full((num_parameters,), init, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Start with the initial slope again."""
        self.weight.data.fill_(self.init)

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """How many slopes."""
        return f"num_parameters={self.num_parameters}"
