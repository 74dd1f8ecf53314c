"""Draws of gamma and Dirichlet variables, which move with their parameters.

The derivative of a draw is that of its quantile (see arrays/gamma_paths.py). Second derivatives are
not known to torch, nor here.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.arrays import F64, Array
from pullback.operators.arrays.gamma import in_double
from pullback.operators.arrays.gamma_paths import beta_path, gamma_path
from pullback.operators.declare import Namespace, elementwise, primitive
from pullback.operators.random import samplers as draw
from pullback.operators.random.tensors import needs, source_of
from pullback.operators.reduce.sums import sum

FOUND_IN = {
    "torch": "_dirichlet_grad _sample_dirichlet _standard_gamma _standard_gamma_grad",
}


def _no_second_derivative(op: str) -> Any:
    raise NotImplementedError(
        f"{op}: the derivative of a draw by its parameters has no derivative itself; detach() it."
    )


def _log_gammas(op: str, concentration: Array, generator: Any) -> Array:
    """Logarithms of draws, in float64: those of small concentrations are too small themselves.

    Marsaglia and Tsang (2000): cubes of normal numbers, of which few are refused and drawn again.
    """
    needs(op, concentration.dtype, "fV")
    source = source_of(op, generator)
    # What is no concentration gives the smallest number, as in torch; validation is not done here.
    a = numpy.where(concentration > 0, concentration, 0).astype(F64).reshape(-1)
    small = a < 1
    d = numpy.where(small, a + 1, a) - 1 / 3
    result = numpy.empty_like(d)
    waiting = numpy.arange(d.size)
    while waiting.size:
        x, u = numpy.empty((2, waiting.size))
        draw.normal(source, x)
        draw.uniform(source, u)
        here = d[waiting]
        v = (1 + x / numpy.sqrt(9 * here)) ** 3
        log_v = numpy.log(numpy.where(v > 0, v, 1.0))
        taken = (v > 0) & (numpy.log(u) < 0.5 * x * x + here * (1 - v + log_v))
        result[waiting[taken]] = numpy.log(here[taken]) + log_v[taken]
        waiting = waiting[~taken]
    if small.any():
        u = numpy.empty(int(small.sum()))
        draw.uniform(source, u)
        result[small] += numpy.log(u) / a[small]
    return result.reshape(concentration.shape)


@elementwise(
    input=lambda g, input, out: g * _standard_gamma_grad(input, out),
    promote=None,
    method=False,
    has_out=False,
    aten="_standard_gamma.default",
)
def _standard_gamma(xp: Namespace, input: Array, generator: Any = None) -> Array:
    """Draws of the gamma distribution with these concentrations and rate 1."""
    drawn = numpy.exp(_log_gammas("_standard_gamma", input, generator)).astype(input.dtype)
    return numpy.maximum(drawn, _smallest(input.dtype))


def _smallest(dtype: Any) -> Any:
    known = numpy.float32 if dtype.kind == "V" else dtype  # bfloat16 has the range of float32
    return dtype.type(numpy.finfo(known).tiny)


@elementwise(
    input=lambda g: _no_second_derivative("_standard_gamma_grad"),
    output=lambda g: _no_second_derivative("_standard_gamma_grad"),
    promote=None,
    method=False,
    has_out=False,
    aten="_standard_gamma_grad.default",
)
def _standard_gamma_grad(xp: Namespace, input: Array, output: Array) -> Array:
    """How draws `output` of `_standard_gamma(input)` move with `input`."""
    return in_double(xp, gamma_path, *xp.broadcast_arrays(input, output))


def _dirichlet_adjoint(g: Any, input: Any, out: Any) -> Any:
    paths = _dirichlet_grad(out, input, sum(input, -1, True))
    return paths * (g - sum(out * g, -1, True))


def _dirichlet_tangent(d_input: Any, input: Any, out: Any) -> Any:
    moved = d_input * _dirichlet_grad(out, input, sum(input, -1, True))
    return moved - out * sum(moved, -1, True)


@primitive(
    input=_dirichlet_adjoint,
    jvp=_dirichlet_tangent,
    method=False,
    has_out=False,
    aten="_sample_dirichlet.default",
)
def _sample_dirichlet(xp: Namespace, input: Array, generator: Any = None) -> Array:
    """Draws of the Dirichlet distribution, whose concentrations are the last dimension."""
    drawn = _log_gammas("_sample_dirichlet", input, generator)
    largest = numpy.max(drawn, -1, keepdims=True, initial=-numpy.inf)
    weights = numpy.exp(drawn - numpy.where(numpy.isfinite(largest), largest, 0.0))
    shares = (weights / weights.sum(-1, keepdims=True)).astype(input.dtype)
    return numpy.maximum(shares, _smallest(input.dtype))


@elementwise(
    x=lambda g: _no_second_derivative("_dirichlet_grad"),
    alpha=lambda g: _no_second_derivative("_dirichlet_grad"),
    total=lambda g: _no_second_derivative("_dirichlet_grad"),
    promote=None,
    method=False,
    has_out=False,
    aten="_dirichlet_grad.default",
)
def _dirichlet_grad(xp: Namespace, x: Array, alpha: Array, total: Array) -> Array:
    """How each share `x` moves with its own concentration `alpha`, over 1 - x."""
    return in_double(xp, beta_path, *xp.broadcast_arrays(x, alpha, total))
