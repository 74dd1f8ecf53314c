"""Gradients that torch has as operators of their own: each is the pullback of its forward.

Written with the forward itself, so that they have its conventions, and are differentiated, mapped
and traced as it is. Each stands with the schema that torch gives it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pullback
from pullback.library.builtin.losses import REDUCTIONS
from pullback.library.builtin.table import Table

__all__ = ["BACKWARD", "asked"]

BACKWARD = Table()
_aten = BACKWARD.enter


def _pulled(g: Any, function: Callable[[Any], Any], x: Any) -> Any:
    """The gradient of one input."""
    return pullback.func.vjp(function, x)[1](g)[0]


def _of_shape(g: Any, sizes: Any) -> Any:
    """Zeros to be read in the place of an input of which the size alone is known."""
    return g.new_zeros(tuple(sizes))


def _functional() -> Any:
    return pullback.nn.functional


# Activations: `(grad_output, self, options...)` ---------------------------------------------------

_ONE = {  # function of nn.functional: further arguments, and their names there
    "hardsigmoid": ("", ()),
    "hardswish": ("", ()),
    "mish": ("", ()),
    "hardtanh": (", Scalar min_val, Scalar max_val", ("min_val", "max_val")),
    "softplus": (", Scalar beta, Scalar threshold", ("beta", "threshold")),
    "softshrink": (", Scalar lambd", ("lambd",)),
    "glu": (", int dim", ("dim",)),
}


def _activation(name: str, options: tuple[str, ...]) -> Callable[..., Any]:
    def backward(g: Any, x: Any, *given: Any, **named: Any) -> Any:
        chosen = {**dict(zip(options, given, strict=False)), **named}
        function = getattr(_functional(), name)
        return _pulled(g, lambda x: function(x, **chosen), x)

    return backward


for _name, (_more, _options) in _ONE.items():
    _schema = f"{_name}_backward(Tensor grad_output, Tensor self{_more}) -> Tensor"
    _aten(_schema)(_activation(_name, _options))


@_aten("hardshrink_backward(Tensor grad_out, Tensor self, Scalar lambd) -> Tensor")
def _hardshrink(g: Any, x: Any, lambd: Any) -> Any:
    return _pulled(g, lambda x: _functional().hardshrink(x, lambd), x)


@_aten(
    "leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, "
    "bool self_is_result) -> Tensor"
)
def _leaky_relu(g: Any, x: Any, negative_slope: Any, self_is_result: bool) -> Any:
    return pullback.where(x > 0, g, g * negative_slope)  # of a result with its sign, the same


@_aten(
    "elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, "
    "bool is_result, Tensor self_or_result) -> Tensor"
)
def _elu(g: Any, alpha: Any, scale: Any, input_scale: Any, is_result: bool, x: Any) -> Any:
    below = (x + alpha * scale) if is_result else (x * input_scale).exp() * alpha * scale
    return pullback.where(x <= 0, g * input_scale * below, g * scale)


@_aten("log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor")
def _log_sigmoid(g: Any, x: Any, buffer: Any) -> Any:
    return _pulled(g, _functional().logsigmoid, x)


@_aten("logit_backward(Tensor grad_output, Tensor self, float? eps=None) -> Tensor")
def _logit(g: Any, x: Any, eps: float | None = None) -> Any:
    return _pulled(g, lambda x: pullback.logit(x, eps), x)


@_aten("_prelu_kernel_backward(Tensor grad_output, Tensor self, Tensor weight) -> (Tensor, Tensor)")
def _prelu(g: Any, x: Any, weight: Any) -> Any:
    zero = pullback.zeros_like(g)
    return pullback.where(x > 0, g, weight * g), pullback.where(x > 0, zero, x * g)


_OF_OUTPUT = "(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor"


@_aten(f"_softmax_backward_data{_OF_OUTPUT}")
def _softmax(g: Any, output: Any, dim: int, input_dtype: Any) -> Any:
    product = g * output
    return (product - output * product.sum(dim, keepdim=True)).to(input_dtype)


@_aten(f"_log_softmax_backward_data{_OF_OUTPUT}")
def _log_softmax(g: Any, output: Any, dim: int, input_dtype: Any) -> Any:
    return (g - output.exp() * g.sum(dim, keepdim=True)).to(input_dtype)


@_aten("native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor")
def _dropout(g: Any, mask: Any, scale: float) -> Any:
    return g * mask.to(g.dtype) * scale


# Losses -------------------------------------------------------------------------------------------

_LOSSES = {
    "mse_loss": ("", ()),
    "soft_margin_loss": ("", ()),
    "smooth_l1_loss": (", float beta", ("beta",)),
    "huber_loss": (", float delta", ("delta",)),
}


def _loss(name: str, options: tuple[str, ...]) -> Callable[..., Any]:
    def backward(g: Any, x: Any, target: Any, reduction: int, *given: Any) -> Any:
        chosen = dict(zip(options, given, strict=True))
        function = getattr(_functional(), name)
        how = REDUCTIONS[reduction]
        return _pulled(g, lambda x: function(x, target, reduction=how, **chosen), x)

    return backward


for _name, (_more, _options) in _LOSSES.items():
    _first = "Tensor grad_output, Tensor self, Tensor target, int reduction"
    _aten(f"{_name}_backward({_first}{_more}) -> Tensor")(_loss(_name, _options))


@_aten(
    "binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, "
    "Tensor? weight=None, int reduction=1) -> Tensor"
)
def _binary_cross_entropy(
    g: Any, x: Any, target: Any, weight: Any = None, reduction: int = 1
) -> Any:
    loss, how = _functional().binary_cross_entropy, REDUCTIONS[reduction]
    return _pulled(g, lambda x: loss(x, target, weight, reduction=how), x)


@_aten(
    "nll_loss_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, "
    "int reduction, SymInt ignore_index, Tensor total_weight) -> Tensor"
)
def _nll(
    g: Any, x: Any, target: Any, weight: Any, reduction: int, ignore_index: int, total: Any
) -> Any:
    loss, how = _functional().nll_loss, REDUCTIONS[reduction]
    return _pulled(
        g, lambda x: loss(x, target, weight, ignore_index=ignore_index, reduction=how), x
    )


# Images -------------------------------------------------------------------------------------------


@_aten("_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor")
def _adaptive_average(x: Any, output_size: Any) -> Any:
    return _functional().adaptive_avg_pool2d(x, tuple(output_size))


@_aten("_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self) -> Tensor")
def _adaptive_average_backward(g: Any, x: Any) -> Any:
    size = tuple(g.shape[-2:])
    return _pulled(g, lambda x: _functional().adaptive_avg_pool2d(x, size), x)


def _averaged(dims: int) -> Callable[..., Any]:
    def backward(g: Any, x: Any, kernel: Any, stride: Any, *rest: Any) -> Any:
        pool = getattr(_functional(), f"avg_pool{dims}d")
        return _pulled(g, lambda x: pool(x, kernel, stride or None, *rest), x)

    return backward


for _dims in (2, 3):
    _sizes = ", ".join(f"int[{_dims}] {one}" for one in ("kernel_size", "stride", "padding"))
    _aten(
        f"avg_pool{_dims}d_backward(Tensor grad_output, Tensor self, {_sizes}, bool ceil_mode, "
        "bool count_include_pad, int? divisor_override) -> Tensor"
    )(_averaged(_dims))


@_aten("adaptive_max_pool2d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor")
@_aten(
    "max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, "
    "int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor"
)
def _max_pool(g: Any, x: Any, *options_and_indices: Any) -> Any:
    indices = options_and_indices[-1]
    flat = x.new_zeros((*x.shape[:-2], x.shape[-2] * x.shape[-1]))
    return flat.scatter_add(-1, indices.flatten(-2), g.flatten(-2)).reshape(x.shape)


_UPSAMPLED = {"nearest1d": "nearest", "nearest2d": "nearest", "linear1d": "linear",
              "bilinear2d": "bilinear", "bicubic2d": "bicubic"}  # fmt: skip


def _upsampled(mode: str, dims: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """An image in another resolution, and the way back."""
    lines = mode != "nearest"

    def forward(x: Any, size: Any, *rest: Any, **scales: Any) -> Any:
        corners, given = (rest[0], rest[1:]) if lines else (False, rest)
        each = [*given, *scales.values(), *[None] * dims][:dims]
        from pullback.operators.nn.image.resample import resampled  # which few need

        return resampled(x, mode, size, corners, each)

    def backward(g: Any, output_size: Any, input_size: Any, *rest: Any, **scales: Any) -> Any:
        zeros = _of_shape(g, input_size)
        return _pulled(g, lambda x: forward(x, output_size, *rest, **scales), zeros)

    return forward, backward


for _name, _mode in _UPSAMPLED.items():
    _dims = int(_name[-2])
    _scales = ["scales_h", "scales_w"] if _dims == 2 else ["scales"]
    _rest = "bool align_corners, " if _mode != "nearest" else ""
    _rest += ", ".join(f"float? {one}=None" for one in _scales)
    _to = f"SymInt[{_dims}] output_size"
    _both = _upsampled(_mode, _dims)
    _aten(f"upsample_{_name}(Tensor self, {_to}, {_rest}) -> Tensor")(_both[0])
    _aten(
        f"upsample_{_name}_backward(Tensor grad_output, {_to}, SymInt[{_dims + 2}] input_size, "
        f"{_rest}) -> Tensor"
    )(_both[1])


def _padded(mode: str) -> Callable[..., Any]:
    def backward(g: Any, x: Any, padding: Any) -> Any:
        return _pulled(g, lambda x: _functional().pad(x, tuple(padding), mode), x)

    return backward


for _mode, _name, _dims in (("reflect", "reflection", 1), ("reflect", "reflection", 2),
                            ("replicate", "replication", 2)):  # fmt: skip
    _aten(
        f"{_name}_pad{_dims}d_backward(Tensor grad_output, Tensor self, "
        f"SymInt[{2 * _dims}] padding) -> Tensor"
    )(_padded(_mode))


@_aten(
    "col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, "
    "int[2] padding, int[2] stride) -> Tensor"
)
def _col2im(x: Any, output_size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    sizes = [tuple(one) for one in (output_size, kernel, dilation, padding, stride)]
    return _functional().fold(x, *sizes)


# Places -------------------------------------------------------------------------------------------


@_aten(
    "embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, "
    "SymInt padding_idx, bool scale_grad_by_freq) -> Tensor"
)
def _embedding(g: Any, indices: Any, num_weights: int, padding_idx: int, by_count: bool) -> Any:
    table = g.new_zeros((num_weights, g.shape[-1]))
    return _pulled(
        g, lambda table: pullback.embedding(table, indices, padding_idx, by_count), table
    )


@_aten(
    "slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, "
    "SymInt step) -> Tensor"
)
def _slice(g: Any, sizes: Any, dim: int, start: int, end: int, step: int) -> Any:
    return pullback.slice_scatter(_of_shape(g, sizes), g, dim, start, end, step)


@_aten("select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor")
def _select(g: Any, sizes: Any, dim: int, index: int) -> Any:
    return pullback.select_scatter(_of_shape(g, sizes), g, dim, index)


@_aten(
    "diagonal_backward(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int dim2) "
    "-> Tensor"
)
def _diagonal(g: Any, sizes: Any, offset: int, dim1: int, dim2: int) -> Any:
    return pullback.diagonal_scatter(_of_shape(g, sizes), g, offset, dim1, dim2)


@_aten(
    "unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) -> Tensor"
)
def _unfold(g: Any, sizes: Any, dim: int, size: int, step: int) -> Any:
    return _pulled(g, lambda x: x.unfold(dim, size, step), _of_shape(g, sizes))


@_aten("index_select_backward(Tensor grad, SymInt[] self_sizes, int dim, Tensor index) -> Tensor")
def _index_select(g: Any, sizes: Any, dim: int, index: Any) -> Any:
    return _of_shape(g, sizes).index_add(dim, index, g)


@_aten("trace_backward(Tensor grad, SymInt[] sizes) -> Tensor")
def _trace(g: Any, sizes: Any) -> Any:
    return _pulled(g, pullback.trace, _of_shape(g, sizes))


# Norms --------------------------------------------------------------------------------------------


def asked(mask: Any, function: Callable[..., Any], g: Any, given: list[Any]) -> tuple[Any, ...]:
    """The gradients that a mask asks for, of inputs that are there."""
    wanted = [n for n, one in enumerate(given) if mask[n] and one is not None]

    def of_wanted(*chosen: Any) -> Any:
        values = list(given)
        for n, one in zip(wanted, chosen, strict=True):
            values[n] = one
        return function(*values)

    made: list[Any] = [None] * len(given)
    if wanted:
        pull = pullback.func.vjp(of_wanted, *(given[n] for n in wanted))[1]
        for n, one in zip(wanted, pull(g), strict=True):
            made[n] = one
    return tuple(made)


@_aten(
    "native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor "
    "mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) "
    "-> (Tensor, Tensor, Tensor)"
)
def _layer_norm(
    g: Any, x: Any, shape: Any, mean: Any, rstd: Any, weight: Any, bias: Any, mask: Any
) -> Any:
    dims = tuple(range(-len(shape), 0))
    y = (x - mean) * rstd
    scaled = g if weight is None else g * weight
    inner = scaled - scaled.mean(dims, keepdim=True) - y * (scaled * y).mean(dims, keepdim=True)
    lead = tuple(range(x.ndim - len(shape)))

    def summed(one: Any) -> Any:
        return one.sum(lead) if lead else one

    return (
        inner * rstd if mask[0] else None,
        summed(g * y) if mask[1] and weight is not None else None,
        summed(g) if mask[2] and bias is not None else None,
    )


@_aten("linear_backward(Tensor self, Tensor grad_output, Tensor weight, bool[3] output_mask) "
       "-> (Tensor, Tensor, Tensor)")  # fmt: skip
def _linear(x: Any, g: Any, weight: Any, mask: Any) -> Any:
    bias = g.new_zeros((weight.shape[0],))
    return asked(mask, _functional().linear, g, [x, weight, bias])


@_aten("masked_scatter_backward(Tensor grad_output, Tensor mask, SymInt[] sizes) -> Tensor")
def _masked_scatter(g: Any, mask: Any, sizes: Any) -> Any:
    target = pullback.zeros_like(g)
    return _pulled(g, lambda source: target.masked_scatter(mask, source), _of_shape(g, sizes))
