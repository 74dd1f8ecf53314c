"""Built-in operators whose calls torch spells with other arguments, and how to call them so.

`CALLS` turns the arguments of a declared operator into a call in torch's spelling; `RUNS` has the
functions behind torch's names where no public function takes the same arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

from pullback.core.dtype import from_numpy_dtype, numpy_dtype
from pullback.core.layout import preserve_format
from pullback.core.mode import get_mode
from pullback.core.overriding import answers
from pullback.core.tensor import Tensor, wrap
from pullback.operators.dispatch.dispatch import unrecorded_call
from pullback.operators.indexing.advanced import index, index_put_at, index_put_at_
from pullback.operators.indexing.selection import where
from pullback.operators.nn.activation.functions import _elu_
from pullback.operators.nn.activation.piecewise import prelu_kernel
from pullback.operators.nn.activation.smooth import elu_kernel
from pullback.operators.nn.activation.softmax import log_softmax, softmax
from pullback.operators.nn.conv.operators import convolution as convolution_kernel
from pullback.operators.nn.conv.operators import transposed_convolution
from pullback.operators.shape import reshaping as shape
from pullback.operators.shape.views import slice_along

__all__ = ["CALLS", "RUNS", "Call"]

Bound = dict[str, Any]


class Call(NamedTuple):
    """A call in torch's spelling."""

    name: str
    overload: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    # Gives the operator's result from that of this call, where shapes differ.
    finish: Callable[[Any], Any] | None = None


def _call(name: str, *args: Any, **kwargs: Any) -> Call:
    base, _, overload = name.partition(".")
    return Call(base, overload or "default", args, kwargs)


def _trimmed(args: tuple[Any, ...], defaults: tuple[Any, ...]) -> tuple[Any, ...]:
    """`args` without the last ones that equal `defaults`, which belong to the end of `args`."""
    count = len(args)
    while count and defaults and args[count - 1] == defaults[-1]:
        count, defaults = count - 1, defaults[:-1]
    return args[:count]


# Products ----------------------------------------------------------------------------------------


def _matmul(bound: Bound) -> Call:
    """As torch: one product of matrices, or of stacks of them, and views around it."""
    a, b = bound["input"], bound["other"]
    left, right = a._array, b._array
    if left.ndim > 2 and right.ndim == 2:
        rows = _in_shape(a, (math.prod(left.shape[:-1]), left.shape[-1]))
        return _reshaped(_call("mm", rows, b), (*left.shape[:-1], right.shape[-1]))
    if left.ndim == 3 and right.ndim == 3 and left.shape[0] == right.shape[0]:
        return _call("bmm", a, b)
    return _call("matmul", a, b)


def _linear(bound: Bound) -> Call:
    x, weight, bias = bound["input"], bound["weight"], bound["bias"]
    if weight._array.ndim != 2 or (bias is None and x._array.ndim == 1):
        return _call("linear", *_trimmed((x, weight, bias), (None,)))
    size = x._array.shape
    rows = x  # with a bias first, and else last, as torch does it
    if len(size) != 2 and bias is not None:
        rows = _in_shape(x, (math.prod(size[:-1]), size[-1]))
    columns = _watched(weight, weight.t, lambda: weight._array.T)
    if len(size) != 2 and bias is None:
        rows = _in_shape(x, (math.prod(size[:-1]), size[-1]))
    made = _call("mm", rows, columns) if bias is None else _call("addmm", bias, rows, columns)
    return made if len(size) == 2 else _reshaped(made, (*size[:-1], weight._array.shape[0]))


def _reshaped(call: Call, size: tuple[int, ...]) -> Call:
    def finish(made: Tensor) -> Tensor:
        return _in_shape(made, size)

    return call._replace(finish=finish)


def _in_shape(x: Tensor, size: tuple[int, ...]) -> Tensor:
    """A tensor in another shape: as its class or a mode answers, or unseen."""
    return _watched(x, lambda: x.reshape(size), lambda: x._array.reshape(size))


def _watched(x: Tensor, make: Callable[[], Tensor], unseen: Callable[[], Any]) -> Tensor:
    """What is made of a tensor, by operators where its class or a mode is to see it.

    A mode that writes graphs would hold it as a constant, if it is a copy. It is told whether the
    user records, so that is left as it is: nobody uses what is recorded here.
    """
    if answers(x):
        return unrecorded_call(make)
    return make() if get_mode().dispatch else wrap(unseen())


def _convolution(bound: Bound) -> Call:
    pads = bound["padding"]
    if any(before != after for before, after in pads):
        return Call("convolution", "padded", tuple(bound.values()), {})
    stride, dilation = list(bound["stride"]), list(bound["dilation"])
    padding = [before for before, _ in pads]
    own = bound["input"], bound["weight"], bound["bias"], stride, padding, dilation
    none = [0] * len(stride)
    return _call("convolution", *own, False, none, bound["groups"])


def _transposed(bound: Bound) -> Call:
    x, weight, pads = bound["input"], bound["weight"], bound["padding"]
    stride, dilation = list(bound["stride"]), list(bound["dilation"])
    padding = [before for before, _ in pads]
    least = _transposed_size(x, weight, stride, padding, dilation)
    more = [wanted - size for wanted, size in zip(bound["size"], least, strict=True)]
    own = x, weight, bound["bias"], stride, padding, dilation
    return _call("convolution", *own, True, more, bound["groups"])


def _transposed_size(x: Any, weight: Any, stride: Any, padding: Any, dilation: Any) -> list[int]:
    sizes = zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    return [(n - 1) * step - 2 * pad + gap * (k - 1) + 1 for n, k, step, pad, gap in sizes]


def run_convolution(
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Any:
    """A convolution by torch's arguments, transposed or not."""
    stride, dilation = tuple(stride), tuple(dilation)
    pads = tuple((one, one) for one in padding)
    if not transposed:
        return convolution_kernel(input, weight, bias, stride, pads, dilation, groups)
    least = _transposed_size(input, weight, stride, padding, dilation)
    size = tuple(one + more for one, more in zip(least, output_padding, strict=True))
    return transposed_convolution(input, weight, bias, size, stride, pads, dilation, groups)


def _run_padded(*args: Any) -> Any:
    return convolution_kernel(*args)


# Dimensions and shapes ---------------------------------------------------------------------------


def _over_dims(name: str) -> Callable[[Bound], Call]:
    """`all` and `any`: over everything, one dimension, or several."""

    def spelled(bound: Bound) -> Call:
        x, dim, keepdim = bound["input"], bound["dim"], bound["keepdim"]
        if dim is None:
            return _call(name, x)
        one = not isinstance(dim, tuple | list)
        given = dim if one else list(dim)
        return _call(f"{name}.{'dim' if one else 'dims'}", *_trimmed((x, given, keepdim), (False,)))

    return spelled


def _squeeze(bound: Bound) -> Call:
    return _call("squeeze.dim", bound["input"], bound["dim"])


def _squeeze_dims(bound: Bound) -> Call:
    return _call("squeeze.dims", bound["input"], list(bound["dim"]))


def _split(bound: Bound) -> Call:
    given = bound["input"], bound["split_size"], bound["dim"]
    return _call("split.Tensor", *_trimmed(given, (0,)))


_END = 2**63 - 1  # how torch writes that a slice goes on to the end


def _slice(bound: Bound) -> Call:
    start = 0 if bound["start"] is None else bound["start"]
    stop = _END if bound["stop"] is None else bound["stop"]
    given = bound["input"], bound["dim"], start, stop, bound["step"]
    return _call("slice.Tensor", *_trimmed(given, (1,)))


def _run_slice(input: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return slice_along(input, dim, start, end, step)


def _as_strided(bound: Bound) -> Call:
    size, stride, offset = bound["geometry"]
    given = bound["input"], list(size), list(stride), offset
    return _call("as_strided", *_trimmed(given, (bound["source"][2],)))


def _clone(bound: Bound) -> Call:
    if bound["memory_format"] is None:
        return _call("clone", bound["input"])
    return _call("clone", bound["input"], memory_format=bound["memory_format"])


def _run_clone(input: Any, *, memory_format: Any = None) -> Any:
    return shape.clone(input, memory_format=memory_format)


# Values ------------------------------------------------------------------------------------------


def _round(bound: Bound) -> Call:
    decimals = bound["decimals"]
    if decimals == 0:
        return _call("round", bound["input"])
    return _call("round.decimals", bound["input"], decimals=decimals)


def _remainder(bound: Bound) -> Call:
    a, b = bound["input"], bound["other"]
    if not isinstance(a, Tensor):
        return _call("remainder.Scalar_Tensor", a, b)
    return _call(f"remainder.{'Tensor' if isinstance(b, Tensor) else 'Scalar'}", a, b)


def _isin(bound: Bound) -> Call:
    kind = "Tensor" if isinstance(bound["test_elements"], Tensor) else "Scalar"
    first = "Tensor" if isinstance(bound["elements"], Tensor) else "Scalar"
    options = {key: True for key in ("assume_unique", "invert") if bound[key]}
    given = bound["elements"], bound["test_elements"]
    return Call("isin", f"{first}_{kind}", given, options)


def _softmax(name: str) -> Callable[[Bound], Call]:
    def spelled(bound: Bound) -> Call:
        x, dim, dtype = bound["input"], bound["dim"], bound["dtype"]
        if dtype is None:
            return _call(f"_{name}", x, dim, False)
        return _call(f"{name}.int", x, dim, dtype)

    return spelled


def _run_softmax(function: Any) -> Callable[..., Any]:
    return lambda input, dim, half_to_float: function(input, dim)


def _to_copy(bound: Bound) -> Call:
    kwargs = {"dtype": from_numpy_dtype(numpy_dtype(bound["dtype"]))}
    if bound["memory_format"] is not preserve_format:
        kwargs["memory_format"] = bound["memory_format"]
    return Call("_to_copy", "default", (bound["input"],), kwargs)


def _run_to_copy(input: Any, *, dtype: Any = None, memory_format: Any = None, **rest: Any) -> Any:
    # What else torch passes (layout, device, pin_memory, non_blocking) has one value here.
    kwargs = {} if memory_format is None else {"memory_format": memory_format}
    return input.to(dtype or input.dtype, copy=True, **kwargs)


_FILLED = {True: "ones", False: "zeros"}


def _like(bound: Bound) -> Call:
    x, number = bound["input"], bound["number"]
    kwargs: Bound = {}
    if numpy_dtype(bound["dtype"]) != x._array.dtype:
        kwargs["dtype"] = from_numpy_dtype(numpy_dtype(bound["dtype"]))
    if bound["memory_format"] is not preserve_format:
        kwargs["memory_format"] = bound["memory_format"]
    if number is None:
        return Call("empty_like", "default", (x,), kwargs)
    if isinstance(number, bool):
        return Call(f"{_FILLED[number]}_like", "default", (x,), kwargs)
    return Call("full_like", "default", (x, number), kwargs)


def _new(bound: Bound) -> Call:
    x, number, size = bound["input"], bound["number"], list(bound["size"])
    kwargs: Bound = {}
    if numpy_dtype(bound["dtype"]) != x._array.dtype:
        kwargs["dtype"] = from_numpy_dtype(numpy_dtype(bound["dtype"]))
    if number is None:
        return Call("new_empty", "default", (x, size), kwargs)
    if isinstance(number, bool):
        return Call(f"new_{_FILLED[number]}", "default", (x, size), kwargs)
    return Call("new_full", "default", (x, size, number), kwargs)


def _mse_loss(bound: Bound) -> Call:
    reduction = ("none", "mean", "sum").index(bound["reduction"])
    args = (bound["input"], bound["target"])
    return Call("mse_loss", "default", args if reduction == 1 else (*args, reduction), {})


def _polynomial(name: str, option: str, overload: str) -> Callable[[Bound], Call]:
    def spelled(bound: Bound) -> Call:
        x, other = bound["input" if "input" in bound else "x"], bound[option]
        if isinstance(x, Tensor) and isinstance(other, Tensor):
            return _call(name, x, other)
        first = {"n_scalar": "x_scalar", "other_scalar": "self_scalar"}[overload]
        return _call(f"{name}.{overload if isinstance(x, Tensor) else first}", x, other)

    return spelled


def _run_elu(input: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Any:
    return elu_kernel(input, float(alpha), float(scale), float(input_scale))


def _run_elu_(input: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Any:
    return _elu_(input, float(alpha), float(scale), float(input_scale))


def _run_prelu(input: Any, weight: Any) -> Any:
    if input._overrides or weight._overrides:  # who would be asked about the public function
        return where(input > 0, input, weight * input)
    return prelu_kernel(input, weight)


# Layers ------------------------------------------------------------------------------------------


def _first(made: Any) -> Any:
    return made[0]


def _rows_normed(bound: Bound) -> Call | None:
    """A norm of each example: over its last dimensions, or those of each channel."""
    over, shape = bound["over"], tuple(bound["input"].shape)
    if over.channel is not None:
        return _groups_normed(bound, shape[1])
    if not over.centred:  # which torch has as several operators
        return None
    sizes = [shape[dim] for dim in over.dims]
    given = bound["input"], sizes, bound["weight"], bound["bias"], over.eps
    return _call("native_layer_norm", *given)._replace(finish=_first)


def _groups_normed(bound: Bound, groups: int | None = None) -> Call:
    x, over = bound["input"], bound["over"]
    examples, channels, *rest = x.shape
    given = x, bound["weight"], bound["bias"], examples, channels, math.prod(rest)
    made = _call("native_group_norm", *given, groups or over.groups, over.eps)
    return made._replace(finish=_first)


def _batch_normed(bound: Bound) -> Call:
    """By the statistics of the batch; the running ones are moved by operators of their own."""
    given = bound["input"], bound["weight"], bound["bias"], None, None, True, 0.0
    return _call("native_batch_norm", *given, bound["over"].eps)._replace(finish=_first)


def _given_normed(bound: Bound) -> Call | None:
    if bound["average"] is None:
        return None
    names = "input", "weight", "bias", "average", "variance"
    made = _call("native_batch_norm", *[bound[name] for name in names], False, 0.0, bound["eps"])
    return made._replace(finish=_first)


def _windows(bound: Bound) -> tuple[Any, ...]:
    """Kernel, stride, padding, dilation and ceil_mode of a pooling.

    Behind the input, windows may need less padding than is asked for, or more in `ceil_mode`.
    """
    kernel, stride, pads, dilation, number = bound["geometry"]
    size = bound["input"].shape[-len(kernel) :]
    padding = [before for before, _ in pads]
    reach = [gap * (k - 1) + 1 for gap, k in zip(dilation, kernel, strict=True)]
    least = [
        (n + 2 * pad - r) // step + 1
        for n, pad, r, step in zip(size, padding, reach, stride, strict=True)
    ]
    return list(kernel), list(stride), padding, list(dilation), least != list(number)


def _max_pooled(dims: int) -> Callable[[Bound], Call]:
    def spelled(bound: Bound) -> Call:
        kernel, stride, padding, dilation, ceil = _windows(bound)
        given = bound["input"], kernel, stride, padding, dilation, ceil
        none, one = [0] * dims, [1] * dims
        return _call(f"max_pool{dims}d_with_indices", *_trimmed(given, (kernel, none, one, False)))

    return spelled


def _avg_pooled(dims: int) -> Callable[[Bound], Call | None]:
    def spelled(bound: Bound) -> Call | None:
        kernel, stride, padding, _, ceil = _windows(bound)
        divisor = bound["divisor"]
        if ceil or isinstance(divisor, Tensor) or not isinstance(divisor, int):
            return None
        override = None if divisor == math.prod(kernel) else divisor
        given = bound["input"], kernel, stride, padding, False, True, override
        none = [0] * dims
        return _call(f"avg_pool{dims}d", *_trimmed(given, (kernel, none, False, True, None)))

    return spelled


def _adaptive_average(bound: Bound) -> Call:
    return _call("_adaptive_avg_pool2d", bound["input"], list(bound["geometry"].number))


_REDUCTIONS = ("none", "mean", "sum")


def _nll_loss(bound: Bound) -> Call | None:
    x = bound["input"]
    if x.ndim > 2:
        return None
    reduction = _REDUCTIONS.index(bound["reduction"])
    given = x, bound["target"], bound["weight"], reduction, bound["ignore_index"]
    return _call("nll_loss_forward", *given)._replace(finish=_first)


def _bce_logits(bound: Bound) -> Call:
    given = bound["input"], bound["target"], None, bound["pos_weight"], 0
    return _call("binary_cross_entropy_with_logits", *given)


def _upsampled(name: str, dims: int) -> Callable[[Bound], Call | None]:
    """An image in another resolution, where its tables know what they were made for."""

    def spelled(bound: Bound) -> Call | None:
        tables = bound["tables"]
        known = [one.made_for for one in tables if one is not None]
        if not known or None in known:
            return None
        sizes = bound["input"].shape[-dims:]
        size = [n if one is None else one.number for n, one in zip(sizes, tables, strict=True)]
        scales = [None if one is None else one.made_for[2] for one in tables]
        corners = () if name.startswith("nearest") else (known[0][1],)
        args = (bound["input"], size, *corners, *scales)
        return _call(f"upsample_{name}", *_trimmed(args, (None,) * dims))

    return spelled


def _loss_of_elements(name: str, *options: str) -> Callable[[Bound], Call]:
    def spelled(bound: Bound) -> Call:
        given = bound["input"], bound["target"], 0, *[bound[one] for one in options]
        return _call(name, *_trimmed(given, (1.0,) * len(options)))

    return spelled


# Index tensors -----------------------------------------------------------------------------------


def _indices(bound: Bound) -> list[Any]:
    """A list with the index tensors at their dimensions and None before and between."""
    given = bound.get("indices")
    if given is None:
        given = [bound[name] for name in ("first", "second") if bound.get(name) is not None]
    placed: list[Any] = [None] * (max(bound["dims"]) + 1)
    for dim, one in zip(bound["dims"], given, strict=True):
        placed[dim] = one
    return placed


def _index(bound: Bound) -> Call:
    return _call("index.Tensor", bound["input"], _indices(bound))


def _run_index(input: Any, indices: Any) -> Any:
    dims = [dim for dim, one in enumerate(indices) if one is not None]
    if any(one._array.dtype.kind == "b" for one in indices if one is not None):
        return input[tuple(slice(None) if one is None else one for one in indices)]
    return index(input, [one for one in indices if one is not None], dims)


def _index_put(bound: Bound) -> Call:
    given = bound["input"], _indices(bound), bound["values"], bound["accumulate"]
    return _call("index_put", *_trimmed(given, (False,)))


def _drawing(bound: Bound) -> Call:
    """A random fill: what it draws from is all in the function that fills."""
    fill = bound["fill"]
    kwargs = {} if fill.generator is None else {"generator": fill.generator}
    given = tuple(fill.keywords.values())
    if fill.func.__name__ in ("normal", "uniform", "cauchy"):
        given = _trimmed(given, (0, 1))
    overload = _DRAWING.get(fill.func.__name__, "default")
    if fill.func.__name__ == "bernoulli" and isinstance(given[0], numpy.ndarray):
        given, overload = (wrap(given[0]),), "Tensor"
    return Call("", overload, (bound["input"], *given), kwargs)


_DRAWING = {"bernoulli": "float", "integers": "from"}  # by what draws; others have one overload


CALLS: dict[str, Callable[[Bound], Call | None]] = {
    "_adaptive_avg_pool2d": _adaptive_average,
    "_avg_pool2d": _avg_pooled(2),
    "_avg_pool3d": _avg_pooled(3),
    "_bce_logits": _bce_logits,
    "_upsample_bicubic2d": _upsampled("bicubic2d", 2),
    "_upsample_bilinear2d": _upsampled("bilinear2d", 2),
    "_upsample_linear1d": _upsampled("linear1d", 1),
    "_upsample_nearest1d": _upsampled("nearest1d", 1),
    "_upsample_nearest2d": _upsampled("nearest2d", 2),
    "_given_standardise": _given_normed,
    "_huber": _loss_of_elements("huber_loss", "delta"),
    "_max_pool2d": _max_pooled(2),
    "_max_pool3d": _max_pooled(3),
    "batch_standardise": _batch_normed,
    "group_standardise": _groups_normed,
    "layer_standardise": _rows_normed,
    "nn.functional.nll_loss": _nll_loss,
    "_as_strided": _as_strided,
    "_index": _index,
    "_index_many": _index,
    "_index_put": _index_put,
    "_index_put_many": _index_put,
    "_isin": _isin,
    "_like": _like,
    "_matmul": _matmul,
    "_new": _new,
    "_smooth_l1": _loss_of_elements("smooth_l1_loss", "beta"),
    "_soft_margin": _loss_of_elements("soft_margin_loss"),
    "_split": _split,
    "_squeeze": _squeeze,
    "_squeeze_dims": _squeeze_dims,
    "_to_copy": _to_copy,
    "_to_fixed": _to_copy,
    "all": _over_dims("all"),
    "any": _over_dims("any"),
    "clone": _clone,
    "convolution": _convolution,
    "log_softmax": _softmax("log_softmax"),
    "nn.functional.linear": _linear,
    "nn.functional.mse_loss": _mse_loss,
    "remainder": _remainder,
    "round": _round,
    "slice_along": _slice,
    "softmax": _softmax("softmax"),
    "transposed_convolution": _transposed,
    "special.xlog1py": _polynomial("special_xlog1py", "other", "other_scalar"),
    "special.zeta": _polynomial("special_zeta", "other", "other_scalar"),
    "fill": _drawing,
    **{
        f"special.{name}": _polynomial(f"special_{name}", "n", "n_scalar")
        for name in (
            *(f"chebyshev_polynomial_{kind}" for kind in "tuvw"),
            *(f"shifted_chebyshev_polynomial_{kind}" for kind in "tuvw"),
            *("hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l"),
            "legendre_polynomial_p",
        )
    },
}

RUNS: dict[str, Callable[..., Any]] = {
    "_log_softmax": _run_softmax(log_softmax),
    "_prelu_kernel": _run_prelu,
    "_softmax": _run_softmax(softmax),
    "_to_copy": _run_to_copy,
    "clone": _run_clone,
    "convolution": run_convolution,
    "convolution.padded": _run_padded,
    "elu": _run_elu,
    "elu_": _run_elu_,
    "index": _run_index,
    "index_put": index_put_at,
    "index_put_": index_put_at_,
    "slice": _run_slice,
}
