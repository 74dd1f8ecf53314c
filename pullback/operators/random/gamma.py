"""Draws of gamma and Dirichlet variables, which move with their parameters.

The derivative of a draw is that of its quantile (see arrays/gamma_paths.py). Second derivatives are
not known to torch, nor here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from pullback.core.arrays import F32, F64, Array
from pullback.core.dtype import from_numpy_dtype
from pullback.core.limits import finfo
from pullback.operators.arrays.gamma import in_double
from pullback.operators.arrays.gamma_paths import beta_path, gamma_path
from pullback.operators.declare import Namespace, elementwise, primitive
from pullback.operators.random.stream import Stream
from pullback.operators.random.tensors import needs, source_of
from pullback.operators.reduce.sums import sum

FOUND_IN = {"torch": "_dirichlet_grad _sample_dirichlet _standard_gamma _standard_gamma_grad"}


_TURN = 2 * math.pi


def _no_second_derivative(op: str) -> Any:
    raise NotImplementedError(
        f"{op}: the derivative of a draw by its parameters has no derivative itself; detach() it."
    )


_THIRD = float(F32.type(1 / 3))  # torch's third has single precision, whatever the dtype


def _gammas(op: str, concentration: Array, generator: Any) -> tuple[Array, Array]:
    """Draws in C order and their logarithms, in float64, by torch's numbers and precision.

    Marsaglia and Tsang (2000): cubes of normal numbers, of which few are refused and drawn again.
    Each draw has to wait for the one before, as for Poisson numbers.
    """
    needs(op, concentration.dtype, "fV")
    source = source_of(op, generator)
    # What is no concentration gives the smallest number, as in torch; validation is not done here.
    a = numpy.where(concentration > 0, concentration, 0)
    small = a < 1
    own = a.dtype.type if op == "_standard_gamma" and a.dtype == F32 else F64.type
    d = (numpy.where(small, a.astype(own) + own(1), a).astype(own) - own(_THIRD)).astype(F64)
    places, raised = d.reshape(-1).tolist(), small.reshape(-1).tolist()
    below, cubes = numpy.array(_drawn(source, places, raised)).reshape(-1, 2).T
    below, cubes = below.reshape(a.shape), cubes.reshape(a.shape)
    with numpy.errstate(divide="ignore", invalid="ignore"):
        power = numpy.where(small, (own(1) / a.astype(own)).astype(F64), 1.0)
        scale = numpy.where(power == numpy.inf, 0.0, below**power)
        # A power may be too small for float64; its logarithm is not.
        return scale * d * cubes, numpy.log(below) * power + numpy.log(d * cubes)


def _drawn(source: Stream, places: list[float], raised: list[bool]) -> list[tuple[float, float]]:
    """For each concentration less a third: the number whose power scales it, and the cube.

    A scale of its own have those below 1, which were raised by 1.
    """
    made = []
    with source.lock:
        draw = source.each_double().__next__
        for d, is_small in zip(places, raised, strict=True):
            below = 1 - draw() if is_small else 1.0
            c = 1 / math.sqrt(9 * d)
            while True:
                x = _normal(source, draw)
                y = 1 + c * x
                if y <= 0:
                    continue
                v = y * y * y
                u = 1 - draw()
                square = x * x
                if u < 1 - 0.0331 * square * square:
                    break
                if math.log(u) < 0.5 * square + d * (1 - v + math.log(v)):
                    break
            made.append((below, v))
    return made


def _normal(source: Stream, draw: Callable[[], float]) -> float:
    """The next normal number, of a pair whose second is kept."""
    if source.spare is not None:
        kept, source.spare = source.spare, None
        return kept
    angle, reach = _TURN * draw(), draw()
    radius = math.sqrt(-2 * math.log1p(-reach))
    source.spare = radius * math.sin(angle)
    return radius * math.cos(angle)


@elementwise(
    input=lambda g, input, out: g * _standard_gamma_grad(input, out),
    promote=None,
    method=False,
    has_out=False,
    aten="_standard_gamma.default",
)
def _standard_gamma(xp: Namespace, input: Array, generator: Any = None) -> Array:
    """Draws of the gamma distribution with these concentrations and rate 1."""
    drawn, _ = _gammas("_standard_gamma", input, generator)
    return numpy.maximum(drawn.astype(input.dtype), _smallest(input.dtype))


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
    drawn, logs = _gammas("_sample_dirichlet", input, generator)
    drawn = numpy.maximum(drawn, smallest := _smallest(F64))
    lost = (drawn == smallest).all(-1, keepdims=True)
    if lost.any():  # torch gives equal shares where all are too small; their logarithms know
        largest = logs.max(-1, keepdims=True, initial=-numpy.inf)
        drawn = numpy.where(lost & numpy.isfinite(largest), numpy.exp(logs - largest), drawn)
    shares = (drawn / drawn.sum(-1, keepdims=True)).astype(input.dtype)
    shares = numpy.maximum(shares, _smallest(input.dtype))
    return numpy.minimum(shares, _below_one(input.dtype))


def _below_one(dtype: Any) -> Any:
    """The largest number below 1; a share of 1 has no finite density."""
    return dtype.type(1 - finfo(from_numpy_dtype(dtype)).eps / 2)


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
