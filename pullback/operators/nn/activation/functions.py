"""Activations as torch calls them: with `inplace`, and with names for the in-place forms.

Their arithmetic is in `smooth.py`, `gelu.py`, `piecewise.py` and the families of plain functions.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy

from pullback.core import errors, origin
from pullback.core.arrays import LIBRARIES
from pullback.core.layout import contiguous_format
from pullback.core.mode import get_mode
from pullback.core.tensor import Tensor, wrap
from pullback.operators.arrays.blocks import ONES
from pullback.operators.create.sizes import empty_like, zeros_like
from pullback.operators.declare import Array, Dim, Namespace, method, primitive
from pullback.operators.indexing.selection import where
from pullback.operators.nn.activation import softmax as exponentials
from pullback.operators.nn.activation.piecewise import (
    hardsigmoid_kernel,
    hardswish_kernel,
    hardtanh_kernel,
    leaky_relu_kernel,
    prelu_kernel,
    threshold_kernel,
)
from pullback.operators.nn.activation.smooth import (
    celu_kernel,
    check_floating,
    elu_kernel,
    mish_kernel,
    silu_kernel,
)
from pullback.operators.pointwise.arithmetic import in_single, mul, sub
from pullback.operators.pointwise.direction import abs
from pullback.operators.pointwise.exponentials import sigmoid
from pullback.operators.pointwise.extrema import relu as relu_kernel
from pullback.operators.pointwise.trigonometry import tanh
from pullback.operators.random.generator import default_generator
from pullback.operators.random.samplers import multiplied_and_added
from pullback.operators.random.tensors import rand_like
from pullback.operators.running.inplace import inplace_of
from pullback.operators.running.naming import shown_as
from pullback.operators.shape.joining import cat
from pullback.operators.shape.reshaping import contiguous, reshape

FOUND_IN = {
    "torch": "celu celu_ prelu relu_ rrelu rrelu_ selu selu_ threshold threshold_",
    "nn.functional": """
        celu celu_ elu elu_ gumbel_softmax hardsigmoid hardswish hardtanh hardtanh_
        leaky_relu leaky_relu_ log_softmax mish prelu relu relu6 relu_ rrelu rrelu_ selu
        selu_ silu softmax softmin softsign tanhshrink threshold threshold_
    """,
}

_celu_ = inplace_of(celu_kernel, "celu_")
_elu_ = inplace_of(elu_kernel, "elu_")
_hardsigmoid_ = inplace_of(hardsigmoid_kernel, "hardsigmoid_")
_hardswish_ = inplace_of(hardswish_kernel, "hardswish_")
_hardtanh_ = inplace_of(hardtanh_kernel, "hardtanh_")
_leaky_relu_ = inplace_of(leaky_relu_kernel, "leaky_relu_")
_mish_ = inplace_of(mish_kernel, "mish_")
_mul_ = inplace_of(mul, "rrelu_")
_silu_ = inplace_of(silu_kernel, "silu_")
_threshold_ = inplace_of(threshold_kernel, "threshold_")
relu_ = inplace_of(relu_kernel, "relu_")


def relu(input: Any, inplace: bool = False) -> Any:
    """Each element, or 0 where it is negative.

    >>> import pullback as torch
    >>> torch.nn.functional.relu(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return relu_(input) if inplace else relu_kernel(input)


# Exponential at the left --------------------------------------------------------------------------

_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """`x`, or `alpha * (exp(x) - 1)` where it is negative.

    >>> import pullback as torch
    >>> torch.nn.functional.elu(torch.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return (_elu_ if inplace else elu_kernel)(input, alpha, 1.0, 1.0)


def elu_(input: Any, alpha: float = 1.0) -> Any:
    """In-place form of `elu`."""
    return _elu_(input, alpha, 1.0, 1.0)


def selu(input: Any, inplace: bool = False) -> Any:
    """`elu`, scaled so that it keeps mean 0 and variance 1.

    >>> import pullback as torch
    >>> torch.selu(torch.tensor([-1.0, 1.0]))
    tensor([-1.1113,  1.0507])
    """
    return (_elu_ if inplace else elu_kernel)(input, _SELU_ALPHA, _SELU_SCALE, 1.0)


def selu_(input: Any) -> Any:
    """In-place form of `selu`."""
    return _elu_(input, _SELU_ALPHA, _SELU_SCALE, 1.0)


def celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """`x`, or `alpha * (exp(x / alpha) - 1)` where it is negative: its slope has no jump.

    >>> import pullback as torch
    >>> torch.celu(torch.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return (_celu_ if inplace else celu_kernel)(input, alpha)


def celu_(input: Any, alpha: float = 1.0) -> Any:
    """In-place form of `celu`."""
    return _celu_(input, alpha)


def silu(input: Any, inplace: bool = False) -> Any:
    """`x * sigmoid(x)`.

    >>> import pullback as torch
    >>> torch.nn.functional.silu(torch.tensor([-1.0, 2.0]))
    tensor([-0.2689,  1.7616])
    """
    return (_silu_ if inplace else silu_kernel)(input)


def mish(input: Any, inplace: bool = False) -> Any:
    """`x * tanh(softplus(x))`.

    >>> import pullback as torch
    >>> torch.nn.functional.mish(torch.tensor([-1.0, 2.0]))
    tensor([-0.3034,  1.9440])
    """
    return (_mish_ if inplace else mish_kernel)(input)


# Straight pieces ----------------------------------------------------------------------------------


def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """`x`, or `negative_slope * x` where it is negative.

    >>> import pullback as torch
    >>> torch.nn.functional.leaky_relu(torch.tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1000,  2.0000])
    """
    return (_leaky_relu_ if inplace else leaky_relu_kernel)(input, negative_slope)


def leaky_relu_(input: Any, negative_slope: float = 0.01) -> Any:
    """In-place form of `leaky_relu`."""
    return _leaky_relu_(input, negative_slope)


@method
def prelu(input: Any, weight: Any) -> Any:
    """`x`, or `weight * x` where it is negative; one weight, or one for each channel (dim 1).

    >>> import pullback as torch
    >>> torch.prelu(torch.tensor([-2.0, 3.0]), torch.tensor([0.25]))
    tensor([-0.5000,  3.0000])
    """
    if weight._array.dtype != input._array.dtype:
        raise RuntimeError(
            f"prelu: input and weight must have one dtype, got {input.dtype} and {weight.dtype}."
        )
    count = weight._array.size
    channels = input.shape[1] if input.ndim > 1 else 1
    if count not in (1, channels) or weight.ndim > 1:
        raise RuntimeError(
            f"prelu: weight must have 1 element, or one for each of the {channels} channels of "
            f"input (shape {tuple(input.shape)}), got shape {tuple(weight.shape)}."
        )
    if input.ndim < 2 or count == 1:
        return prelu_kernel(input, reshape(weight, (1,) * input.ndim))
    return prelu_kernel(input, reshape(weight, (count,) + (1,) * (input.ndim - 2)))


def rrelu(
    input: Any,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Any:
    """`leaky_relu` with random slopes; where not in training, with the mean of the limits.

    >>> import pullback as torch
    >>> torch.rrelu(torch.tensor([-8.0, 1.0]), 0.25, 0.25)
    tensor([-2.,  1.])
    """
    if not (math.isfinite(lower) and math.isfinite(upper)):
        raise RuntimeError(f"rrelu: the limits must be finite, got {lower} and {upper}.")
    if lower > upper:
        raise RuntimeError(f"rrelu: lower ({lower}) must not be above upper ({upper}).")
    # How many numbers it draws depends on the values; for mapped tangents alone that is known.
    if any(not level.for_tangents for level in get_mode().levels):
        raise RuntimeError(
            "rrelu: cannot be used inside vmap; use leaky_relu, or torch.rand for the slopes."
        )
    if not training:
        made = leaky_relu(input, (lower + upper) / 2, inplace)
        return shown_as("RreluWithNoiseBackward0", made if inplace else contiguous(made))
    check_floating("rrelu", input._array)
    array = input._array
    # A slope for each element, where how many are below 0 is not asked: of a device, nor of who
    # takes operators, and may run them again on others.
    if type(array) in LIBRARIES or get_mode().dispatch:
        drawn = rand_like(input.detach()) * (upper - lower) + lower
        slopes = where(input.detach() > 0, 1.0, drawn)
        return _mul_(input, slopes) if inplace else contiguous(mul(input, slopes))
    below = ~(array > 0)
    uniform = default_generator.draw_from().doubles(int(numpy.count_nonzero(below)))
    slopes_array = numpy.ones(array.shape, array.dtype)
    slopes_array[below] = multiplied_and_added(uniform, upper - lower, lower)
    slopes = wrap(slopes_array)
    return _mul_(input, slopes) if inplace else contiguous(mul(input, slopes))


def rrelu_(input: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Any:
    """In-place form of `rrelu`."""
    return rrelu(input, lower, upper, training, inplace=True)


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """`x`, clamped to `min_val` and `max_val`.

    >>> import pullback as torch
    >>> torch.nn.functional.hardtanh(torch.tensor([-4.0, 0.5, 4.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val ({min_val}) must not be above max_val ({max_val}).")
    return (_hardtanh_ if inplace else hardtanh_kernel)(input, min_val, max_val)


def hardtanh_(input: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    """In-place form of `hardtanh`."""
    return hardtanh(input, min_val, max_val, inplace=True)


def relu6(input: Any, inplace: bool = False) -> Any:
    """`x`, clamped to 0 and 6.

    >>> import pullback as torch
    >>> torch.nn.functional.relu6(torch.tensor([-1.0, 3.0, 9.0]))
    tensor([0., 3., 6.])
    """
    return hardtanh(input, 0.0, 6.0, inplace)


def hardsigmoid(input: Any, inplace: bool = False) -> Any:
    """A straight line from 0 at -3 to 1 at 3.

    >>> import pullback as torch
    >>> torch.nn.functional.hardsigmoid(torch.tensor([-4.0, 0.0, 4.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    return (_hardsigmoid_ if inplace else hardsigmoid_kernel)(input)


def hardswish(input: Any, inplace: bool = False) -> Any:
    """`x * hardsigmoid(x)`.

    >>> import pullback as torch
    >>> torch.nn.functional.hardswish(torch.tensor([-4.0, 1.0, 4.0]))
    tensor([-0.0000, 0.6667, 4.0000])
    """
    return (_hardswish_ if inplace else hardswish_kernel)(input)


def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    """`x` where it is above `threshold`, `value` elsewhere.

    >>> import pullback as torch
    >>> torch.threshold(torch.tensor([1.0, 3.0]), 2, 0)
    tensor([0., 3.])
    """
    return (_threshold_ if inplace else threshold_kernel)(input, threshold, value)


def threshold_(input: Any, threshold: float, value: float) -> Any:
    """In-place form of `threshold`."""
    return _threshold_(input, threshold, value)


# Quotients, differences, gates --------------------------------------------------------------------


def softsign(input: Any) -> Any:
    """`x / (1 + |x|)`.

    >>> import pullback as torch
    >>> torch.nn.functional.softsign(torch.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """
    size: Any = abs(input)
    return input / (size + 1)


def tanhshrink(input: Any) -> Any:
    """`x - tanh(x)`.

    >>> import pullback as torch
    >>> torch.nn.functional.tanhshrink(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.2384])
    """
    return sub(input, tanh(input))


def _halves(input: Any, dim: int) -> tuple[Any, Any]:
    size = input.shape[dim] // 2
    before = (slice(None),) * dim
    return input[(*before, slice(size))], input[(*before, slice(size, None))]


def _glu_gradient(g: Any, input: Any, dim: int) -> Any:
    value, gate = _halves(input, dim)
    opened: Any = sigmoid(gate)
    through = g * opened
    return cat([through, through * value * (1 - opened)], dim)


def _glu_tangent(d_input: Any, input: Any, dim: int) -> Any:
    value, gate = _halves(input, dim)
    d_value, d_gate = _halves(d_input, dim)
    opened: Any = sigmoid(gate)
    return opened * (d_value + value * (1 - opened) * d_gate)


@primitive(input=_glu_gradient, jvp=_glu_tangent, space="nn.functional", has_out=False)
def glu(xp: Namespace, input: Array, dim: Dim = -1) -> Array:
    """One half of `dim` times the sigmoid of the other.

    >>> import pullback as torch
    >>> torch.nn.functional.glu(torch.tensor([1.0, 2.0, 0.0, 0.0]))
    tensor([0.5000, 1.0000])
    """
    if input.ndim == 0:
        raise RuntimeError("glu: a 0-d tensor has no dimension to halve.")
    check_floating("glu", input)
    if input.shape[dim] % 2:
        raise RuntimeError(
            f"glu: dimension {dim} must have an even size to be halved, got shape {input.shape}."
        )
    if input.dtype.itemsize == 2:  # in single, rounded once
        return in_single(xp, glu, input, dim=dim)
    value, gate = _halves(input, dim)
    out = xp.negative(gate)
    xp.exp(out, out)
    xp.add(out, ONES.get(input.dtype, 1), out)
    return xp.divide(value, out, out)


# Softmax, with the dimension guessed --------------------------------------------------------------


def _guessed(op: str, input: Any, dim: int | None) -> int:
    """The dimension that torch once took where none is named; it warns."""
    if dim is not None:
        return dim
    if not isinstance(input, Tensor):
        raise errors.not_a_tensor(op, "input", input)
    dim = 0 if input.ndim in (0, 1, 3) else 1
    warnings.warn(
        f"{op} without dim guesses one (here {dim}), which is deprecated; pass dim.",
        UserWarning,
        stacklevel=origin.stacklevel(),
    )
    return dim


def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """Exponentials of the elements, normalised to sum to 1 along `dim`.

    >>> import pullback as torch
    >>> torch.nn.functional.softmax(torch.tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    return exponentials.softmax(input, _guessed("softmax", input, dim), dtype)


def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """The logarithm of `softmax`, without its rounding to 0.

    >>> import pullback as torch
    >>> torch.nn.functional.log_softmax(torch.tensor([0.0, 0.0]), dim=0)
    tensor([-0.6931, -0.6931])
    """
    return exponentials.log_softmax(input, _guessed("log_softmax", input, dim), dtype)


def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """The softmax of the negative elements.

    >>> import pullback as torch
    >>> torch.nn.functional.softmin(torch.tensor([1.0, 2.0]), dim=0)
    tensor([0.7311, 0.2689])
    """
    return exponentials.softmax(-input, _guessed("softmin", input, dim), dtype)


def gumbel_softmax(
    logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Any:
    """The softmax of the logits with Gumbel noise, over `tau`; `hard` rounds it to a choice.

    The gradient of a hard choice is that of the soft one.

    >>> import pullback as torch
    >>> torch.nn.functional.gumbel_softmax(torch.randn(2, 3), hard=True).sum(-1)
    tensor([1., 1.])
    """
    noise: Any = empty_like(logits, memory_format=contiguous_format).exponential_()
    soft: Any = exponentials.softmax((logits - noise.log()) / tau, dim)
    if not hard:
        return soft
    chosen = zeros_like(soft).scatter_(dim, soft.argmax(dim, keepdim=True), 1.0)
    return chosen - soft.detach() + soft
