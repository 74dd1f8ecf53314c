"""Operators that torch has under `torch.ops.aten` and nowhere else: adjoints, and a few parts.

Adjoints of formulas are the rules that follow from them; the others are compositions of public
operators: all are differentiated through, mapped and pushed forward as they are. Each stands with
the schema that torch gives it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

import pullback
from pullback.core.tensor import Tensor, wrap
from pullback.library.builtin.backward import BACKWARD, asked
from pullback.library.builtin.calls import run_convolution
from pullback.library.builtin.kept import KEPT
from pullback.library.builtin.losses import LOSSES, REDUCTIONS
from pullback.library.builtin.raw import RAW
from pullback.library.builtin.table import Table
from pullback.operators.create.sizes import zeros_like
from pullback.operators.nn.activation.gelu import gelu
from pullback.operators.nn.activation.piecewise import threshold_kernel
from pullback.operators.nn.activation.smooth import silu_kernel
from pullback.operators.pointwise.exponentials import sigmoid
from pullback.operators.pointwise.trigonometry import tanh

__all__ = ["WRITTEN"]

WRITTEN = Table({**LOSSES, **RAW, **BACKWARD, **KEPT})
_aten = WRITTEN.enter


# Activations -------------------------------------------------------------------------------------


def _adjoint(operator: Any) -> Callable[..., Any]:
    """The rule of an operator, which its formula gives."""
    rule: Callable[..., Any] = operator.op.rules["input"]
    return rule


_aten("silu_backward(Tensor grad_output, Tensor self) -> Tensor")(_adjoint(silu_kernel))
_aten("sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor")(_adjoint(sigmoid))
_aten("tanh_backward(Tensor grad_output, Tensor output) -> Tensor")(_adjoint(tanh))


@_aten("threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor")
def _threshold(g: Any, x: Any, threshold: Any) -> Any:
    return _adjoint(threshold_kernel)(g, x, threshold, 0)


@_aten("gelu_backward(Tensor grad_output, Tensor self, *, str approximate='none') -> Tensor")
def _gelu(g: Any, x: Any, *, approximate: str = "none") -> Any:
    return _adjoint(gelu)(g, x, approximate)


# Convolutions ------------------------------------------------------------------------------------


def _convolved(options: tuple[Any, ...]) -> Callable[..., Any]:
    return lambda input, weight, bias: run_convolution(input, weight, bias, *options)


@_aten(
    "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, "
    "SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] "
    "output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)"
)
def _convolution(
    g: Any, x: Any, weight: Any, bias_sizes: Any, *options_and_mask: Any, output_mask: Any = None
) -> Any:
    options, mask = _split(options_and_mask, output_mask)
    channels = weight.shape[1] * options[-1] if options[3] else weight.shape[0]
    sizes = list(bias_sizes) if bias_sizes and bias_sizes != [0] else [channels]
    bias = x.new_zeros(sizes)
    return asked(mask, _convolved(options), g, [x, weight, bias])


def _split(given: tuple[Any, ...], mask: Any) -> tuple[tuple[Any, ...], Any]:
    return (given, mask) if mask is not None else (given[:-1], given[-1])


@_aten(
    "_convolution_double_backward(Tensor? ggI, Tensor? ggW, Tensor? ggb, Tensor gO, Tensor "
    "weight, Tensor self, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, "
    "SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)"
)
def _convolution_double(
    of_input: Any, of_weight: Any, of_bias: Any, g: Any, weight: Any, x: Any, *rest: Any
) -> Any:
    options, mask = rest[:-1], rest[-1]
    seeds = [of_input, of_weight, of_bias]
    wanted = [seed is not None for seed in seeds]
    channels = weight.shape[1] * options[-1] if options[3] else weight.shape[0]
    bias = x.new_zeros(channels)

    def gradients(g: Any, x: Any, weight: Any) -> Any:
        made = asked(wanted, _convolved(options), g, [x, weight, bias])
        return tuple(one for one in made if one is not None)

    if not any(wanted):
        return (None, None, None)
    _, pull = pullback.func.vjp(gradients, g, x, weight)
    made = pull(tuple(seed for seed in seeds if seed is not None))
    return tuple(one if given else None for one, given in zip(made, mask, strict=True))


# Losses -------------------------------------------------------------------------------------------


@_aten(
    "nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt "
    "ignore_index) -> (Tensor output, Tensor total_weight)"
)
def _nll(x: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    nll = pullback.nn.functional.nll_loss
    output = nll(x, target, weight, ignore_index=ignore_index, reduction=REDUCTIONS[reduction])
    counted = target != ignore_index
    if reduction == 0 and x.ndim > 1:
        return output, x.new_zeros(())
    if weight is None:
        return output, counted.sum().to(x.dtype)
    at = pullback.where(counted, target, zeros_like(target))
    return output, (weight[at] * counted).sum()


# Parts of others ---------------------------------------------------------------------------------


@_aten("_linalg_check_errors(Tensor info, str api_name, *, bool is_matrix) -> ()")
def _check_errors(info: Any, api_name: str, *, is_matrix: bool) -> None:
    failed = numpy.flatnonzero(info._array)
    if not failed.size:
        return
    number = int(info._array.reshape(-1)[failed[0]])
    where = "" if is_matrix else f" (element {failed[0]} of the batch)"
    raise pullback.linalg.LinAlgError(
        f"{api_name}{where}: the computation failed at position {number}: the matrix is singular, "
        "or what was looked for did not converge."
    )


@_aten(
    "slice_inverse(Tensor(a) self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, "
    "SymInt step=1) -> Tensor(a)"
)
def _slice_inverse(
    x: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    """The tensor that `x` would be a slice of: shaped as `src`, on the memory of `x`."""
    dim %= src.ndim
    first = slice(start, end, step).indices(src.shape[dim])[0]
    strides = list(x.stride())
    strides[dim] //= step
    return x.as_strided(src.shape, strides, x.storage_offset() - first * strides[dim])


@_aten("sym_size.int(Tensor self, int dim) -> SymInt")
def _sym_size(x: Any, dim: int) -> int:
    """One size of a tensor."""
    return int(x.shape[dim])


@_aten(
    "_new_zeros_with_same_feature_meta(Tensor self, Tensor other, *, int self_num_batch_dims=0) "
    "-> Tensor"
)
def _new_zeros(x: Any, other: Any, *, self_num_batch_dims: int = 0) -> Tensor:
    """Zeros with the shape and strides of `other`, and the first dims of `x` in front."""
    first = tuple(x.shape[:self_num_batch_dims])
    array = other._array
    strides = array.strides
    reach = sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True))
    length = 1 + reach // array.itemsize if array.size else 0
    flat = numpy.zeros((*first, length), array.dtype)
    shape = (*first, *array.shape)
    return wrap(numpy.lib.stride_tricks.as_strided(flat, shape, (*flat.strides[:-1], *strides)))


@_aten("where.default(Tensor condition) -> Tensor[]")
def _where(condition: Any) -> Any:
    return list(pullback.where(condition))


@_aten("_is_all_true(Tensor self) -> Tensor")
def _all(x: Any) -> Any:
    return pullback._is_all_true(x)


@_aten("_is_any_true(Tensor self) -> Tensor")
def _any(x: Any) -> Any:
    return pullback._is_any_true(x)


@_aten("_pin_memory(Tensor self, Device? device=None) -> Tensor")
def _pinned(x: Any, device: Any = None) -> Any:
    return x.pin_memory(device)


@_aten(
    "_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
    "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool benchmark, "
    "bool deterministic, bool cudnn_enabled, bool allow_tf32) -> Tensor"
)
def _convolved_as_wished(*args: Any) -> Any:
    """A convolution with the wishes of torch's libraries for it, which mean nothing here."""
    return run_convolution(*args[:9])


@_aten("_assert_async(Tensor self) -> ()")
def _asserted(x: Any) -> None:
    _asserted_with(x, "a tensor that must be true is false")


@_aten("_assert_async.msg(Tensor self, str assert_msg) -> ()")
def _asserted_with(x: Any, assert_msg: str) -> None:
    if not x.item():
        raise RuntimeError(assert_msg)


@_aten("_assert_scalar(Scalar self, str assert_msg) -> ()")
def _asserted_number(number: Any, assert_msg: str) -> None:
    if not number:
        raise RuntimeError(assert_msg)


_LATE = "bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)"


@_aten(f"to.device(Tensor(a) self, Device device, ScalarType dtype, {_LATE}")
@_aten(f"to.dtype(Tensor(a) self, ScalarType dtype, {_LATE}")
@_aten(f"to.other(Tensor(a) self, Tensor other, {_LATE}")
@_aten(
    "to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, "
    f"Device? device=None, bool? pin_memory=None, {_LATE}"
)
def _to(x: Any, *args: Any, layout: Any = None, pin_memory: Any = None, **kwargs: Any) -> Any:
    if layout not in (None, x.layout) or pin_memory:
        raise RuntimeError("to: another layout and pinned memory are asked for by their own names.")
    return x.to(*args, **kwargs)


@_aten(
    "_sparse_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) "
    "-> Tensor"
)
def _sparse_addmm(x: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return pullback.sparse.addmm(x, mat1, mat2, beta=beta, alpha=alpha)


@_aten("_sparse_mm_reduce_impl(Tensor self, Tensor other, str reduce) -> (Tensor, Tensor)")
def _sparse_mm_reduce(x: Any, other: Any, reduce: str) -> Any:
    """The product, and where its largest or smallest parts were, which nobody here needs."""
    return pullback.sparse.mm(x, other, reduce), other.new_empty((0,), dtype=pullback.int64)
