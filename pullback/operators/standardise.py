"""The arithmetic under all norm layers: take the mean away, divide by the deviation, scale, shift.

Layer, group, batch, instance and RMS norm differ in the dimensions over which they do that
(`dims`), and in whether the mean is taken away (`centred`). With x' the standardised input and r
the inverse deviation, everything follows from the symmetric derivative

    dx' = J dx,   J v = r (v - mean(v) - x' mean(x' v)),   dr = -r^2 mean(x' dx).

Mean and r are kept from the forward; the derivatives know that they depend on the input.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pullback.core.dtype import from_numpy_dtype
from pullback.operators.blocks import slices
from pullback.operators.declare import Array, Namespace, primitive
from pullback.operators.reduction import sum

__all__ = ["batch_standardise", "layer_standardise", "standardised"]


def _tangent(
    d_input: Any,
    d_weight: Any,
    d_bias: Any,
    input: Any,
    weight: Any,
    mean: Any,
    rstd: Any,
    dims: Any,
    centred: bool,
) -> tuple[Any]:
    total = 0
    if d_input is not None:
        total = _adjoint(d_input, input, None, mean, rstd, dims, centred)
        total = total if weight is None else total * weight
    if d_weight is not None:
        total = total + standardised(input, mean, rstd, dims, centred) * d_weight
    return (total if d_bias is None else total + d_bias,)


_RULES: dict[str, Any] = {
    "input": lambda g_out, input, weight, mean, rstd, dims, centred: _adjoint(
        g_out, input, weight, mean, rstd, dims, centred
    ),
    "weight": lambda g_out, input, mean, rstd, dims, centred, weight_shape: _weight_adjoint(
        g_out, input, mean, rstd, dims, centred, weight_shape
    ),
    "bias": lambda g_out: g_out,
    "jvp": _tangent,
    "outputs": "out mean rstd",
    "fixed": "mean rstd",
    "has_out": False,
    "method": False,
}


@primitive(**_RULES, node="NativeLayerNormBackward0")
def layer_standardise(
    xp: Namespace,
    input: Array,
    weight: Array | None,
    bias: Array | None,
    dims: Any,
    eps: float,
    centred: bool,
) -> Any:
    """`(input - mean) / deviation * weight + bias`, with mean and 1 / deviation over `dims`."""
    return _forward(xp, input, weight, bias, dims, eps, centred=centred)


@primitive(**_RULES, node="NativeBatchNormBackward0")
def batch_standardise(
    xp: Namespace,
    input: Array,
    weight: Array | None,
    bias: Array | None,
    dims: Any,
    eps: float,
    centred: bool,
) -> Any:
    """As `layer_standardise`, under the name that batch norm has in the graph."""
    return _forward(xp, input, weight, bias, dims, eps, centred=centred)


def check_floating(op: str, array: Array) -> None:
    """Refuse what has no fractions."""
    if array.dtype.kind not in "fV":
        raise NotImplementedError(
            f"{op}: not defined for {from_numpy_dtype(array.dtype)}; convert, e.g. with .float()."
        )


# Rows ---------------------------------------------------------------------------------------------
#
# Where the dimensions are the last ones, arrays are seen as rows and go through in blocks; if not
# (batch norm) they are one block, and the same steps reduce over the dimensions as they are.


def _rows(array: Array, dims: tuple[int, ...]) -> tuple[int, int] | None:
    """The array's shape as (rows, elements of a row), or None if `dims` are not its last ones."""
    if dims != tuple(range(array.ndim - len(dims), array.ndim)):
        return None
    size = math.prod(array.shape[array.ndim - len(dims) :])
    return (array.size // size if size else 0, size)


def _blocks(
    kernel: Callable[..., None], dims: tuple[int, ...], arrays: list[Any], stats: list[Any]
) -> None:
    """Call `kernel(dims, *arrays, *stats)` on blocks of rows, or once."""
    rows = _rows(arrays[0], dims)
    if rows is None:
        kernel(dims, *arrays, *stats)
        return
    flat = [array.reshape(rows) for array in arrays]
    column = [stat.reshape(rows[0], 1) for stat in stats]
    for block in slices(*rows):
        kernel((1,), *[array[block] for array in (*flat, *column)])


def _mean(xp: Namespace, dims: tuple[int, ...], a: Array, b: Array | None = None) -> Array:
    """The mean of `a`, or of `a * b`, over `dims`, which stay with size 1."""
    size = math.prod(a.shape[dim] for dim in dims)
    if b is None:
        return a.sum(dims, keepdims=True) / size
    if dims == (1,) and a.ndim == 2:
        return xp.einsum("ij,ij->i", a, b)[:, None] / size
    return (a * b).sum(dims, keepdims=True) / size


def _stat_shape(array: Array, dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 if dim in dims else size for dim, size in enumerate(array.shape))


def _fits_rows(weight: Array | None, array: Array, dims: tuple[int, ...]) -> bool:
    """Whether weights are those of a row, so that they can be applied block by block."""
    return weight is None or (
        _rows(array, dims) is not None and weight.shape == array.shape[array.ndim - len(dims) :]
    )


# Forward ------------------------------------------------------------------------------------------


def _forward(
    xp: Namespace,
    input: Array,
    weight: Array | None,
    bias: Array | None,
    dims: tuple[int, ...],
    eps: float,
    *,
    centred: bool,
) -> tuple[Array, Array, Array]:
    if input.dtype.itemsize == 2:  # half precision is computed in single
        single = [a if a is None else a.astype(xp.float32) for a in (input, weight, bias)]
        out, mean, rstd = _forward(xp, *single, dims, eps, centred=centred)
        return out.astype(input.dtype), mean.astype(input.dtype), rstd.astype(input.dtype)
    out = xp.empty(input.shape, input.dtype)
    mean = xp.zeros(_stat_shape(input, dims), input.dtype)
    rstd = xp.empty_like(mean)
    in_rows = _fits_rows(weight, input, dims) and _fits_rows(bias, input, dims)
    scale, shift = (weight, bias) if in_rows else (None, None)

    def standardise(dims: tuple[int, ...], out: Array, x: Array, mean: Array, rstd: Array) -> None:
        if centred:
            mean[...] = _mean(xp, dims, x)
            xp.subtract(x, mean, out=out)
            x = out
        rstd[...] = _mean(xp, dims, x, x)
        rstd += eps
        xp.sqrt(rstd, out=rstd)
        xp.reciprocal(rstd, out=rstd)
        xp.multiply(x, rstd, out=out)
        if scale is not None:
            out *= scale.reshape(-1)
        if shift is not None:
            out += shift.reshape(-1)

    if input.size:
        _blocks(standardise, dims, [out, input], [mean, rstd])
    if weight is not None and not in_rows:
        out *= weight
    if bias is not None and not in_rows:
        out += bias
    return out, mean, rstd


# Derivatives --------------------------------------------------------------------------------------


def _average(a: Any, input_shape: Any, dims: Any) -> Any:
    return sum(a, dims, keepdim=True) / math.prod(input_shape[dim] for dim in dims)


def _second_input(
    g: Any, gradient: Any, input: Any, weight: Any, mean: Any, rstd: Any, dims: Any, centred: Any
) -> Any:
    """The input's gradient of `<g, J v>`, where v is `gradient * weight`."""
    x = standardised(input, mean, rstd, dims, centred)
    v = gradient if weight is None else gradient * weight
    jv = _adjoint(gradient, input, weight, mean, rstd, dims, centred)
    jg = _adjoint(g, input, None, mean, rstd, dims, centred)
    shape = input.shape
    return -_inverse_deviation(input, mean, rstd, dims, centred) * (
        x * _average(g * jv, shape, dims)
        + jg * _average(v * x, shape, dims)
        + jv * _average(g * x, shape, dims)
    )


@primitive(
    gradient=lambda g, input, weight, mean, rstd, dims, centred: _scaled(
        _adjoint(g, input, None, mean, rstd, dims, centred), weight
    ),
    input=_second_input,
    weight=lambda g, gradient, input, mean, rstd, dims, centred: (
        gradient * _adjoint(g, input, None, mean, rstd, dims, centred)
    ),
    node="NativeLayerNormBackwardBackward0",
    has_out=False,
)
def _adjoint(
    xp: Namespace,
    gradient: Array,
    input: Array,
    weight: Array | None,
    mean: Array,
    rstd: Array,
    dims: Any,
    centred: bool,
) -> Array:
    """J applied to `gradient * weight`."""
    if gradient.dtype.itemsize == 2:
        single = [
            a if a is None else a.astype(xp.float32) for a in (gradient, input, weight, mean, rstd)
        ]
        return _adjoint.op.forward(xp, *single, dims, centred).astype(gradient.dtype)  # type: ignore[attr-defined]
    out = xp.empty(input.shape, gradient.dtype)
    if weight is not None and not _fits_rows(weight, input, dims):
        gradient, weight = gradient * weight, None

    def adjoint(
        dims: tuple[int, ...], out: Array, g: Array, x: Array, mean: Array, rstd: Array
    ) -> None:
        x = x - mean if centred else x
        x = xp.multiply(x, rstd, out=x if centred else None)
        v = g if weight is None else xp.multiply(g, weight.reshape(-1), out=out)
        # The mean first: `v` may be `out`.
        average = _mean(xp, dims, v) if centred else None
        x *= _mean(xp, dims, v, x)
        xp.subtract(v, x, out=out)
        if average is not None:
            out -= average
        out *= rstd

    if input.size:
        _blocks(adjoint, dims, [out, gradient, input], [mean, rstd])
    return out


def _scaled(a: Any, weight: Any) -> Any:
    return a if weight is None else a * weight


@primitive(
    gradient=lambda g, input, mean, rstd, dims, centred: (
        g * standardised(input, mean, rstd, dims, centred)
    ),
    input=lambda g, gradient, input, mean, rstd, dims, centred: _adjoint(
        gradient * g, input, None, mean, rstd, dims, centred
    ),
    has_out=False,
)
def _weight_adjoint(
    xp: Namespace,
    gradient: Array,
    input: Array,
    mean: Array,
    rstd: Array,
    dims: Any,
    centred: bool,
    shape: Any,
) -> Array:
    """The sum of `gradient * x'` over all that share a weight."""
    dtype = gradient.dtype
    if dtype.itemsize == 2:
        single = [a.astype(xp.float32) for a in (gradient, input, mean, rstd)]
        made = _weight_adjoint.op.forward(xp, *single, dims, centred, shape)  # type: ignore[attr-defined]
        return made.astype(dtype)
    rows = _rows(input, dims)
    if rows is None or shape != input.shape[input.ndim - len(dims) :]:
        product = standardised.op.forward(xp, input, mean, rstd, dims, centred)  # type: ignore[attr-defined]
        product *= gradient
        return _sum_to(product, shape)
    total = xp.zeros(rows[1], dtype)

    def add(dims: tuple[int, ...], g: Array, x: Array, mean: Array, rstd: Array) -> None:
        x = x - mean if centred else x
        x = xp.multiply(x, rstd, out=x if centred else None)
        x *= g
        xp.add(total, x.sum(0), out=total)

    _blocks(add, dims, [gradient, input], [mean, rstd])
    return total.reshape(shape)


def _sum_to(array: Array, shape: tuple[int, ...]) -> Array:
    extra = array.ndim - len(shape)
    dims = (*range(extra), *(d + extra for d, n in enumerate(shape) if n != array.shape[d + extra]))
    return array.sum(dims, keepdims=True).reshape(shape)


@primitive(
    input=lambda g, input, mean, rstd, dims, centred: _adjoint(
        g, input, None, mean, rstd, dims, centred
    ),
    jvp=lambda d_input, input, mean, rstd, dims, centred: _adjoint(
        d_input, input, None, mean, rstd, dims, centred
    ),
    has_out=False,
    method=False,
)
def standardised(
    xp: Namespace, input: Array, mean: Array, rstd: Array, dims: Any, centred: bool
) -> Array:
    """The standardised input, from the mean and inverse deviation that it is known to have."""
    out = input - mean if centred else input * rstd
    if centred:
        out *= rstd
    return out


def _deviation_gradient(g: Any, input: Any, mean: Any, rstd: Any, dims: Any, centred: Any) -> Any:
    r = _inverse_deviation(input, mean, rstd, dims, centred)
    x = standardised(input, mean, rstd, dims, centred)
    return -g * r * r * x / math.prod(input.shape[dim] for dim in dims)


@primitive(input=_deviation_gradient, has_out=False)
def _inverse_deviation(
    xp: Namespace, input: Array, mean: Array, rstd: Array, dims: Any, centred: bool
) -> Array:
    """The inverse deviation `rstd`, as a function of the input."""
    return rstd.copy()
