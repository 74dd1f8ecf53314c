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
from pullback.operators.random.tensors import needs, source_of
from pullback.operators.reduce.sums import sum

__all__ = ["_dirichlet_grad", "_sample_dirichlet", "_standard_gamma", "_standard_gamma_grad"]


def _no_second_derivative(op: str) -> Any:
    raise NotImplementedError(
        f"{op}: the derivative of a draw by its parameters has no derivative itself; detach() it."
    )


def _gammas(op: str, concentration: Array, generator: Any) -> Array:
    """Float64 draws; none is 0, whose logarithm nobody wants."""
    needs(op, concentration.dtype, "fV")
    # What is no concentration gives the smallest number, as in torch; validation is not done here.
    usable = numpy.where(concentration > 0, concentration, 0).astype(F64)
    drawn = numpy.asarray(source_of(op, generator).standard_gamma(usable))
    return numpy.maximum(drawn, numpy.finfo(F64).tiny)


@elementwise(
    input=lambda g, input, out: g * _standard_gamma_grad(input, out),
    promote=None,
    method=False,
    has_out=False,
)
def _standard_gamma(xp: Namespace, input: Array, generator: Any = None) -> Array:
    """Draws of the gamma distribution with these concentrations and rate 1."""
    drawn = _gammas("_standard_gamma", input, generator).astype(input.dtype)
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


@primitive(input=_dirichlet_adjoint, jvp=_dirichlet_tangent, method=False, has_out=False)
def _sample_dirichlet(xp: Namespace, input: Array, generator: Any = None) -> Array:
    """Draws of the Dirichlet distribution, whose concentrations are the last dimension."""
    drawn = _gammas("_sample_dirichlet", input, generator)
    shares = (drawn / drawn.sum(-1, keepdims=True)).astype(input.dtype)
    return numpy.maximum(shares, _smallest(input.dtype))


@elementwise(
    x=lambda g: _no_second_derivative("_dirichlet_grad"),
    alpha=lambda g: _no_second_derivative("_dirichlet_grad"),
    total=lambda g: _no_second_derivative("_dirichlet_grad"),
    promote=None,
    method=False,
    has_out=False,
)
def _dirichlet_grad(xp: Namespace, x: Array, alpha: Array, total: Array) -> Array:
    """How each share `x` moves with its own concentration `alpha`, over 1 - x."""
    return in_double(xp, beta_path, *xp.broadcast_arrays(x, alpha, total))
