"""Linear layers as functions: one matrix product and a bias, and the bilinear form."""

from __future__ import annotations

import math
from typing import Any

from numpy import ndarray

from pullback.core.dtype import from_numpy_dtype
from pullback.operators.arrays import mkl, programs
from pullback.operators.arrays.native import by_machine_code
from pullback.operators.arrays.products import LEAST, MOST
from pullback.operators.conditions import at_least, below, floating, given, has_dims, host, says
from pullback.operators.declare import Array, Namespace, kernel, primitive
from pullback.operators.linalg import batch as batch_products
from pullback.operators.linalg.contraction import einsum
from pullback.operators.linalg.products import (
    LARGE,
    are_halves,
    expands,
    has_blas,
    matmul,
    mm,
    mv,
    product,
    times_transposed,
    total,
)
from pullback.operators.linalg.revealed import reveal
from pullback.operators.pointwise.arithmetic import conj, in_single
from pullback.operators.shape.reshaping import reshape

FOUND_IN = {"torch": "bilinear", "nn.functional": "bilinear"}


def _input_gradient(g: Any, weight: Any) -> Any:
    if g.ndim == 2 == weight.ndim:
        return mm(g, conj(weight))
    return matmul(g, conj(weight)) if weight.ndim == 2 else g[..., None] * conj(weight)


def _weight_gradient(g: Any, input: Any, weight_shape: Any) -> Any:
    if input.ndim == 2 == len(weight_shape):
        return mm(g.mT, conj(input))
    rows = math.prod(input.shape[:-1])
    columns = conj(reshape(input, (rows, input.shape[-1])))
    if len(weight_shape) == 1:
        return mv(columns.mT, reshape(g, (rows,)))
    return mm(reshape(g, (rows, g.shape[-1])).mT, columns)


def _tangent(d_input: Any, d_weight: Any, d_bias: Any, input: Any, weight: Any) -> Any:
    return total(
        d_input is not None and linear(d_input, weight),
        d_weight is not None and linear(input, d_weight),
        d_bias,
    )


@primitive(
    batch=batch_products.affine,
    input=_input_gradient,
    weight=_weight_gradient,
    bias=lambda g: g,
    jvp=_tangent,
    space="nn.functional",
    node="AddmmBackward0",
    meta="lengths kept",
    shows=reveal,
)
def linear(xp: Namespace, input: Array, weight: Array, bias: Array | None = None) -> Array:
    """`input @ weight.T + bias`, over the last dimension of `input`.

    >>> import pullback as torch
    >>> torch.nn.functional.linear(torch.ones(5, 2), torch.ones(3, 2), torch.zeros(3)).shape
    torch.Size([5, 3])
    """
    if weight.ndim not in (1, 2) or (weight.ndim == 1 and bias is not None):
        raise RuntimeError(
            f"linear: weight must be a matrix, or a vector without bias; got shape {weight.shape}."
        )
    if input.ndim == 0:
        raise RuntimeError("linear: input needs at least 1 dimension, got a 0-d tensor.")
    if bias is not None and are_halves(xp, input, weight, bias):
        return in_single(xp, linear, input, weight, bias)
    matrix = weight.T
    if input.shape[-1] != weight.shape[-1]:
        raise RuntimeError(
            f"linear: a weight of shape {weight.shape} takes {weight.shape[-1]} features in the "
            f"last dimension; the input has {input.shape[-1]} (shape {input.shape})."
        )
    result = product(xp, "linear", input, matrix)
    return result if bias is None else _shifted(result, bias)


_steps = "input_size * weight_shape[0]"  # of multiplications
_like_weight = says("input_dtype is weight_dtype")
_with_bias = says("bias is not None", "weight_ndim == 2")
_fitting = says("bias_dtype is input_dtype", "bias_shape == weight_shape[:1]")
_plain = says("input.__class__ is ndarray", "input_shape[-1] == weight_shape[1]", ndarray=ndarray)
_matrices = says("input_ndim == 2", "weight_ndim == 2") & _like_weight & has_blas
_biased = says("bias_dtype is input_dtype")


@kernel(
    linear,
    when=_with_bias
    & at_least(LEAST, _steps)
    & has_dims
    & _like_weight
    & floating
    & _fitting
    & _plain,
    machine_code=True,
)
def _product_and_bias_at_once(
    input: Array, weight: Array, bias: Array, input_ndim: int
) -> Array | None:
    if input.size * len(weight) > MOST and mkl.is_wanted():  # quicker, bias and all
        return None
    rows = input if input_ndim == 2 else input.reshape(-1, input.shape[-1])
    made = by_machine_code(programs.LINEAR, (rows, weight, bias))
    if made is None:
        return None
    return made[0] if rows is input else made[0].reshape(*input.shape[:-1], len(weight))


_small = below(LARGE, "weight_size")


@kernel(linear, when=host & _matrices & given(bias=None) & _small, tries=True)
def _product_alone(input: Array, weight: Array) -> Array:
    return input.dot(weight.T)


@kernel(linear, when=host & _matrices & says("bias is not None") & _biased & _small, tries=True)
def _product_then_bias(input: Array, weight: Array, bias: Array) -> Array:
    made = input.dot(weight.T)
    made += bias
    return made


_rows = says("input_ndim == 3", "weight_ndim == 2") & _like_weight & has_blas & _small
_rows = _rows & below(LEAST, _steps)


@kernel(linear, when=host & _rows & given(bias=None), tries=True)
def _rows_alone(input: Array, weight: Array, input_shape: Any) -> Array:
    one, two, width = input_shape
    return input.reshape(one * two, width).dot(weight.T).reshape(one, two, len(weight))


@kernel(linear, when=host & _rows & says("bias is not None") & _fitting, tries=True)
def _rows_then_bias(input: Array, weight: Array, bias: Array, input_shape: Any) -> Array:
    one, two, width = input_shape
    made = input.reshape(one * two, width).dot(weight.T)
    made += bias
    return made.reshape(one, two, len(weight))


@kernel(linear, when=host & _matrices & given(bias=None), tries=True)
def _large_product(input: Array, weight: Array) -> Array:
    return times_transposed(input, weight)


@kernel(linear, when=host & _matrices & says("bias is not None") & _biased, tries=True)
def _large_product_then_bias(input: Array, weight: Array, bias: Array) -> Array:
    made = times_transposed(input, weight)
    made += bias
    return made


def _shifted(result: Array, bias: Array) -> Array:
    """The bias added to a product that nobody else has."""
    if bias.dtype is result.dtype and bias.shape == result.shape[-1:]:
        result += bias
        return result
    if bias.dtype != result.dtype:
        raise RuntimeError(
            f"linear: bias has dtype {from_numpy_dtype(bias.dtype)}, input has "
            f"{from_numpy_dtype(result.dtype)}; convert one of them."
        )
    if not expands(bias.shape, result.shape):
        raise RuntimeError(
            f"linear: bias of shape {bias.shape} does not expand to the result's {result.shape}."
        )
    result += bias
    return result


def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """`input1 @ weight[k] @ input2` for each k, plus a bias.

    >>> import pullback as torch
    >>> torch.bilinear(torch.ones(1, 2), torch.ones(1, 3), torch.ones(1, 2, 3), None)
    tensor([[6.]])
    """
    shapes = tuple(input1.shape), tuple(input2.shape), tuple(weight.shape)
    if shapes[0][:-1] != shapes[1][:-1]:
        raise RuntimeError(
            f"bilinear: all but the last sizes of the inputs must be equal, shapes are {shapes[0]} "
            f"and {shapes[1]}."
        )
    if len(shapes[2]) != 3 or shapes[2][1:] != (shapes[0][-1], shapes[1][-1]):
        raise RuntimeError(
            f"bilinear: weight of shape {shapes[2]} does not fit inputs of shapes {shapes[0]} and "
            f"{shapes[1]}; it must be (outputs, {shapes[0][-1]}, {shapes[1][-1]})."
        )
    result = einsum("...i,kij,...j->...k", input1, weight, input2)
    return result if bias is None else result + bias
