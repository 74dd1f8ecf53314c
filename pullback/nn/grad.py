"""Gradients of convolutions as functions, for those who write a backward of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.autograd import grad
from pullback.autograd.grad_mode import enable_grad, is_grad_enabled
from pullback.core.listing import only_public as _only_public
from pullback.nn import functional
from pullback.nn.base.fields import sized
from pullback.operators.create.sizes import zeros

__all__ = [
    *("conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input"),
    "conv3d_weight",
]


def _of_input(dims: int) -> Callable[..., Any]:
    transposed = getattr(functional, f"conv_transpose{dims}d")

    def conv_input(
        input_size: Any,
        weight: Any,
        grad_output: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        steps, pads, spread = (sized(one, dims) for one in (stride, padding, dilation))
        wanted, kernel = tuple(input_size)[-dims:], weight.shape[2:]
        # A transposed convolution, and the rows at the end that no window reached.
        rest = [
            wanted[d] - ((size - 1) * steps[d] - 2 * pads[d] + spread[d] * (kernel[d] - 1) + 1)
            for d, size in enumerate(grad_output.shape[-dims:])
        ]
        return transposed(grad_output, weight, None, steps, pads, rest, groups, spread)

    conv_input.__name__ = conv_input.__qualname__ = f"conv{dims}d_input"
    conv_input.__doc__ = f"""The gradient of conv{dims}d with respect to its input, of given size.

    >>> import pullback as torch
    >>> weight, grad = torch.ones(1, 1{", 2" * dims}), torch.ones(1, 1{", 3" * dims})
    >>> torch.nn.grad.conv{dims}d_input((1, 1{", 4" * dims}), weight, grad).shape
    torch.Size([1, 1{", 4" * dims}])
    """
    return conv_input


def _of_weight(dims: int) -> Callable[..., Any]:
    convolve = getattr(functional, f"conv{dims}d")

    def conv_weight(
        input: Any,
        weight_size: Any,
        grad_output: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        recorded = is_grad_enabled()
        with enable_grad():
            # The convolution is linear in its weight: which one does not matter.
            weight = zeros(tuple(weight_size), dtype=input.dtype, device=input.device)
            weight.requires_grad_()
            out = convolve(input, weight, None, stride, padding, dilation, groups)
        return grad(out, weight, grad_output, create_graph=recorded)[0]

    conv_weight.__name__ = conv_weight.__qualname__ = f"conv{dims}d_weight"
    conv_weight.__doc__ = f"""The gradient of conv{dims}d with respect to its weight, of given size.

    >>> import pullback as torch
    >>> x, grad = torch.ones(1, 1{", 4" * dims}), torch.ones(1, 1{", 3" * dims})
    >>> torch.nn.grad.conv{dims}d_weight(x, (1, 1{", 2" * dims}), grad).shape
    torch.Size([1, 1{", 2" * dims}])
    """
    return conv_weight


conv1d_input, conv2d_input, conv3d_input = map(_of_input, (1, 2, 3))
conv1d_weight, conv2d_weight, conv3d_weight = map(_of_weight, (1, 2, 3))

__dir__ = _only_public(globals())
