"""A batch norm in evaluation is a scale and a shift: the layer before can do both."""

from __future__ import annotations

import copy
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.nn.parameter import Parameter
from pullback.operators.create.sizes import ones_like, zeros_like

__all__ = [
    *("fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval"),
    "fuse_linear_bn_weights",
]


def _check(layer: Any, bn: Any) -> None:
    if layer.training or bn.training:
        raise AssertionError("Fusion: both modules must be in evaluation mode; call eval().")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("Fusion: the batch norm must have running statistics.")


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A convolution that does what `conv` and then `bn` do in evaluation.

    >>> import pullback as torch
    >>> conv, bn = torch.nn.Conv2d(2, 3, 1).eval(), torch.nn.BatchNorm2d(3).eval()
    >>> x = torch.ones(1, 2, 4, 4)
    >>> torch.allclose(torch.nn.utils.fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)))
    True
    """
    _check(conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight,
        fused.bias,
        bn.running_mean,
        bn.running_var,
        bn.eps,
        bn.weight,
        bn.bias,
        transpose,
    )
    return fused


def fuse_conv_bn_weights(
    conv_w: Any,
    conv_b: Any,
    bn_rm: Any,
    bn_rv: Any,
    bn_eps: float,
    bn_w: Any,
    bn_b: Any,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the one convolution.

    >>> import pullback as torch
    >>> conv, bn = torch.nn.Conv2d(2, 3, 1), torch.nn.BatchNorm2d(3).eval()
    >>> weight, bias = torch.nn.utils.fuse_conv_bn_weights(
    ...     conv.weight, conv.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    ... )
    >>> x = torch.ones(1, 2, 4, 4)
    >>> torch.allclose(torch.conv2d(x, weight, bias), bn(conv(x)), atol=1e-5)
    True
    """
    kind, bias_kind = conv_w.dtype, (conv_w if conv_b is None else conv_b).dtype
    needs = conv_w.requires_grad, False if conv_b is None else conv_b.requires_grad
    shift = zeros_like(bn_rm) if conv_b is None else conv_b
    scale = (ones_like(bn_rm) if bn_w is None else bn_w) * (bn_rv + bn_eps).rsqrt()
    added = zeros_like(bn_rm) if bn_b is None else bn_b
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    weight = (conv_w * scale.reshape(shape)).to(kind)
    bias = ((shift - bn_rm) * scale + added).to(bias_kind)
    return Parameter(weight.detach(), needs[0]), Parameter(bias.detach(), needs[1])


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A linear layer that does what `linear` and then `bn` do in evaluation.

    >>> import pullback as torch
    >>> linear, norm = torch.nn.Linear(3, 4).eval(), torch.nn.BatchNorm1d(4).eval()
    >>> fused = torch.nn.utils.fuse_linear_bn_eval(linear, norm)
    >>> x = torch.randn(2, 3)
    >>> torch.allclose(fused(x), norm(linear(x)), atol=1e-5)
    True
    """
    _check(linear, bn)
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError(
            f"Fusion: {linear.out_features} features and a batch norm of {bn.num_features}."
        )
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Any, linear_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the one linear layer.

    >>> import pullback as torch
    >>> linear, bn = torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4).eval()
    >>> weight, bias = torch.nn.utils.fuse_linear_bn_weights(
    ...     linear.weight, linear.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    ... )
    >>> x = torch.ones(2, 3)
    >>> torch.allclose(x @ weight.T + bias, bn(linear(x)), atol=1e-5)
    True
    """
    kind, bias_kind = linear_w.dtype, (linear_w if linear_b is None else linear_b).dtype
    needs = linear_w.requires_grad, False if linear_b is None else linear_b.requires_grad
    shift = zeros_like(bn_rm) if linear_b is None else linear_b
    scale = bn_w * (bn_rv + bn_eps).rsqrt()
    weight = (linear_w * scale.unsqueeze(-1)).to(kind)
    bias = ((shift - bn_rm) * scale + bn_b).to(bias_kind)
    return Parameter(weight.detach(), needs[0]), Parameter(bias.detach(), needs[1])


__dir__ = _only_public(globals())
