"""The operators that are written in others: activations, their gradients, losses, small algebra.

Arguments have the names and order of the schemas. What is here computes in the dtype of its
arguments, as the operators do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import pullback as torch
from pullback._decomp.tables import register_decomposition  # type: ignore[import-not-found]

Tensor = torch.Tensor
_aten: Any = torch.ops.aten
_F = TypeVar("_F", bound=Callable[..., Any])


def _of(*overloads: str) -> Callable[[_F], _F]:
    """Register the function below it, for overloads such as "relu6.default"."""
    found = [
        getattr(getattr(_aten, name), kind)
        for name, _, kind in (o.partition(".") for o in overloads)
    ]
    put: Callable[[_F], _F] = register_decomposition(found)
    return put


# Activations.


@_of("hardsigmoid.default")
def hardsigmoid(self: Tensor) -> Tensor:
    return (self + 3).clamp(min=0, max=6) / 6


@_of("hardswish.default")
def hardswish(self: Tensor) -> Tensor:
    return self * (self + 3).clamp(min=0, max=6) / 6


@_of("hardtanh.default")
def hardtanh(self: Tensor, min_val: float = -1, max_val: float = 1) -> Tensor:
    return self.clamp(min=min_val, max=max_val)


@_of("relu6.default")
def relu6(self: Tensor) -> Tensor:
    return self.clamp(min=0, max=6)


@_of("leaky_relu.default")
def leaky_relu(self: Tensor, negative_slope: float = 0.01) -> Tensor:
    return torch.where(self > 0, self, self * negative_slope)


@_of("elu.default")
def elu(self: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    below = alpha * scale * torch.expm1(self * input_scale)
    return torch.where(self > 0, self * scale, below)


@_of("celu.default")
def celu(self: Tensor, alpha: float = 1.0) -> Tensor:
    return torch.where(self > 0, self, alpha * torch.expm1(self / alpha))


@_of("selu.default")
def selu(self: Tensor) -> Any:
    alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    return elu(self, alpha, scale)


@_of("silu.default")
def silu(self: Tensor) -> Tensor:
    return self * torch.sigmoid(self)


@_of("mish.default")
def mish(self: Tensor) -> Tensor:
    return self * torch.tanh(softplus(self))


@_of("softplus.default")
def softplus(self: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    scaled = self * beta
    return torch.where(scaled > threshold, self, torch.log1p(torch.exp(scaled)) / beta)


@_of("hardshrink.default")
def hardshrink(self: Tensor, lambd: float = 0.5) -> Tensor:
    return torch.where(self.abs() <= lambd, 0.0, self)


@_of("softshrink.default")
def softshrink(self: Tensor, lambd: float = 0.5) -> Tensor:
    return torch.where(self > lambd, self - lambd, torch.where(self < -lambd, self + lambd, 0.0))


@_of("glu.default")
def glu(self: Tensor, dim: int = -1) -> Tensor:
    first, second = self.chunk(2, dim)
    return first * torch.sigmoid(second)


@_of("logit.default")
def logit(self: Tensor, eps: float | None = None) -> Tensor:
    inside = self if eps is None else self.clamp(min=eps, max=1 - eps)
    return torch.log(inside / (1 - inside))


# Gradients of activations.


@_of("sigmoid_backward.default")
def sigmoid_backward(grad_output: Tensor, output: Tensor) -> Tensor:
    return grad_output * (output * (1 - output)).conj()


@_of("tanh_backward.default")
def tanh_backward(grad_output: Tensor, output: Tensor) -> Tensor:
    return grad_output * (1 - output * output).conj()


@_of("silu_backward.default")
def silu_backward(grad_output: Tensor, self: Tensor) -> Tensor:
    gate = torch.sigmoid(self)
    return grad_output * (gate * (1 + self * (1 - gate)))


@_of("threshold_backward.default")
def threshold_backward(grad_output: Tensor, self: Tensor, threshold: float) -> Tensor:
    return torch.where(self <= threshold, 0, grad_output)


@_of("gelu_backward.default")
def gelu_backward(grad_output: Tensor, self: Tensor, *, approximate: str = "none") -> Tensor:
    if approximate != "tanh":
        share = 0.5 * (1 + torch.erf(self * math.sqrt(0.5)))
        density = torch.exp(-0.5 * self * self) / math.sqrt(2 * math.pi)
        return grad_output * (share + self * density)
    inner = math.sqrt(2 / math.pi) * (self + 0.044715 * self**3)
    slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * self * self)
    bent = torch.tanh(inner)
    return grad_output * (0.5 * (1 + bent) + 0.5 * self * (1 - bent * bent) * slope)


# Losses.


def _reduced(loss: Tensor, reduction: int) -> Tensor:
    """As the schemas number it: 0 not at all, 1 the mean, 2 the sum."""
    if reduction == 0:
        return loss
    return loss.mean() if reduction == 1 else loss.sum()


@_of("mse_loss.default")
def mse_loss(self: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    return _reduced((self - target) ** 2, reduction)


@_of("smooth_l1_loss.default")
def smooth_l1_loss(self: Tensor, target: Tensor, reduction: int = 1, beta: float = 1.0) -> Tensor:
    distance = (self - target).abs()
    if beta == 0:
        return _reduced(distance, reduction)
    near = 0.5 * distance * distance / beta
    return _reduced(torch.where(distance < beta, near, distance - 0.5 * beta), reduction)


@_of("huber_loss.default")
def huber_loss(self: Tensor, target: Tensor, reduction: int = 1, delta: float = 1.0) -> Tensor:
    distance = (self - target).abs()
    near = 0.5 * distance * distance
    far = delta * (distance - 0.5 * delta)
    return _reduced(torch.where(distance <= delta, near, far), reduction)


@_of("l1_loss.default")
def l1_loss(self: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    return _reduced((self - target).abs(), reduction)


@_of("soft_margin_loss.default")
def soft_margin_loss(self: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    return _reduced(torch.log1p(torch.exp(-self * target)), reduction)


@_of("binary_cross_entropy.default")
def binary_cross_entropy(
    self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1
) -> Tensor:
    # Logarithms are bounded, so that a sure and wrong answer costs 100 and not infinity.
    missed = torch.log1p(-self).clamp(min=-100)
    loss = (target - 1) * missed - target * torch.log(self).clamp(min=-100)
    return _reduced(loss if weight is None else loss * weight, reduction)


# Small algebra.


@_of("addmm.default")
def addmm(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    product = _scaled(mat1 @ mat2, alpha)
    return product if beta == 0 else _scaled(self, beta) + product  # 0: even NaN is not read


@_of("addmv.default")
def addmv(self: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return addmm(self, mat, vec, beta=beta, alpha=alpha)


@_of("addr.default")
def addr(self: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    product = _scaled(torch.outer(vec1, vec2), alpha)
    return product if beta == 0 else _scaled(self, beta) + product


@_of("baddbmm.default")
def baddbmm(
    self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    product = _scaled(torch.bmm(batch1, batch2), alpha)
    return product if beta == 0 else _scaled(self, beta) + product


def _scaled(x: Tensor, factor: Any) -> Tensor:
    return x if factor == 1 else x * factor


@_of("addcmul.default")
def addcmul(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Any:
    return self + value * tensor1 * tensor2


@_of("addcdiv.default")
def addcdiv(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Any:
    return self + value * (tensor1 / tensor2)


@_of("dot.default")
def dot(self: Tensor, tensor: Tensor) -> Tensor:
    return (self * tensor).sum()


@_of("mv.default")
def mv(self: Tensor, vec: Tensor) -> Tensor:
    return (self * vec).sum(1)


@_of("lerp.Scalar", "lerp.Tensor")
def lerp(self: Tensor, end: Tensor, weight: Any) -> Any:
    return self + weight * (end - self)


@_of("rsub.Tensor", "rsub.Scalar")
def rsub(self: Tensor, other: Any, alpha: Any = 1) -> Any:
    return other - alpha * self


@_of("trace.default")
def trace(self: Tensor) -> Tensor:
    return torch.diagonal(self).sum()


@_of("frac.default")
def frac(self: Tensor) -> Tensor:
    return self - torch.trunc(self)


@_of("deg2rad.default")
def deg2rad(self: Tensor) -> Tensor:
    return self * (math.pi / 180)


@_of("heaviside.default")
def heaviside(self: Tensor, values: Tensor) -> Tensor:
    step = torch.where(self == 0, values, (self > 0).to(self.dtype))
    return torch.where(self.isnan(), 0, step) if self.is_floating_point() else step


@_of("xlogy.Tensor")
def xlogy(self: Tensor, other: Tensor) -> Tensor:
    product = torch.where(self == 0, 0, self * torch.log(other))
    return torch.where(torch.isnan(other), float("nan"), product)


@_of("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(self: Tensor, mask: Tensor, value: Any) -> Tensor:
    return torch.where(mask, value, self)


@_of("is_same_size.default")
def is_same_size(self: Tensor, other: Tensor) -> bool:
    return self.shape == other.shape


@_of("native_layer_norm.default")
def native_layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    dims = list(range(-len(normalized_shape), 0))
    mean = input.mean(dims, keepdim=True)
    rstd = torch.rsqrt(input.var(dims, correction=0, keepdim=True) + eps)
    out = (input - mean) * rstd
    out = out if weight is None else out * weight
    return out if bias is None else out + bias, mean, rstd


@_of("_softmax.default")
def _softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    raised = torch.exp(self - self.amax(dim, keepdim=True))
    return raised / raised.sum(dim, keepdim=True)


@_of("_log_softmax.default")
def _log_softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    lowered = self - self.amax(dim, keepdim=True)
    return lowered - torch.log(torch.exp(lowered).sum(dim, keepdim=True))
