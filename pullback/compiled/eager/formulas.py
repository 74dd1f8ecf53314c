"""The formulas of eager kernels, in the array language: what compiled functions are lowered to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.values import Val
from pullback.compiled.lower.program import RULES
from pullback.compiled.lower.rules import constant
from pullback.operators.nn.norm.layout import Over

__all__ = ["FORMULAS", "IN_ORDER"]

Formula = Callable[..., Any]
F = TypeVar("F", bound=Formula)
FORMULAS: dict[str, Formula] = {}
IN_ORDER = frozenset({"gradients_of_rows"})  # those that add up over rows


def formula(name: str) -> Callable[[F], F]:
    """Make a function the formula of this name."""

    def enter(function: F) -> F:
        FORMULAS[name] = function
        return function

    return enter


# One operator as compiled functions have it -------------------------------------------------------

for _name in ("softmax", "_softmax_adjoint", "log_softmax", "_log_softmax_adjoint"):
    FORMULAS[_name] = RULES[_name]
FORMULAS["_attention_weights"] = RULES["_attention_weights"]

_ROW = 4096  # elements


def _in_rows(b: Builder, *values: Val) -> list[Val]:
    """Elementwise operands as rows, which threads share, where their elements lie one by one."""
    size = values[0].size
    columns = min(size & -size, _ROW)
    return [b.reshape(one, (size // columns, columns)) if columns >= 64 else one for one in values]


@formula("gelu")
def _gelu(b: Builder, x: Val, approximate: str) -> Val:
    (rows,) = _in_rows(b, x)
    made: Val = RULES["nn.functional.gelu"](b, rows, approximate=approximate)
    return b.reshape(made, x.shape)


@formula("gelu_adjoint")
def _gelu_adjoint(b: Builder, g: Val, x: Val, approximate: str) -> Val:
    made: Val = RULES["_gelu_adjoint"](b, *_in_rows(b, g, x), approximate)
    return b.reshape(made, x.shape)


# Products -----------------------------------------------------------------------------------------


@formula("dot")
def _dot(b: Builder, x: Val, y: Val) -> Val:
    return b.dot(x, y)


@formula("linear")
def _linear(b: Builder, x: Val, weight: Val, bias: Val | None = None) -> Val:
    made: Val = RULES["nn.functional.linear"](b, x, weight, bias)
    return made


# Norms --------------------------------------------------------------------------------------------


@formula("standardised_rows")
def _standardised_rows(
    b: Builder, x: Val, weight: Val, bias: Val, eps: float, centred: bool
) -> Val:
    made: Val = RULES["layer_standardise"](b, x, weight, bias, Over((1,), eps, centred))
    return made


@formula("gradients_of_rows")
def _gradients_of_rows(
    b: Builder, g: Val, x: Val, weight: Val, eps: float, centred: bool
) -> list[Val]:
    """Those of input, weight and bias of a layer norm."""
    over = Over((1,), eps, centred)
    return [
        RULES["_standardise_adjoint"](b, g, x, weight, over),
        RULES["_weight_adjoint"](b, g, x, weight.shape, over),
        b.reduce("sum", g, (0,)),
    ]


def _of_runs(b: Builder, x: Val) -> Val:
    """(examples, channels, elements of a run)."""
    return b.reshape(x, (x.shape[0], x.shape[1], x.size // (x.shape[0] * x.shape[1])))


def _beside(b: Builder, numbers: Val) -> Val:
    """Numbers of channels, to broadcast against their runs."""
    return b.reshape(numbers, (1, numbers.size, 1))


@formula("channel_statistics")
def _channel_statistics(b: Builder, x: Val, eps: float) -> list[Val]:
    """Mean, inverse deviation and variance of each channel, as (1, channels).

    Runs are standardised while they are in cache; how far their means are apart comes on top.
    """
    x = _of_runs(b, x)
    examples, channels, run = x.shape
    of_run, of_all = constant(b, 1 / run, x), constant(b, 1 / examples, x)
    means = b.ew("mul", b.reduce("sum", x, (2,), keep=True), of_run)
    rest = b.ew("sub", x, means)
    inside = b.ew("mul", b.reduce("sum", b.ew("mul", rest, rest), (2,), keep=True), of_run)
    mean = b.ew("mul", b.reduce("sum", means, (0,), keep=True), of_all)
    apart = b.ew("sub", means, mean)
    both = b.ew("add", inside, b.ew("mul", apart, apart))
    variance = b.ew("mul", b.reduce("sum", both, (0,), keep=True), of_all)
    rstd = b.ew("rsqrt", b.ew("add", variance, constant(b, eps, x)))
    return [b.reshape(b.copy(one), (1, channels)) for one in (mean, rstd, variance)]


@formula("standardised_channels")
def _standardised_channels(
    b: Builder, x: Val, mean: Val, rstd: Val, weight: Val, bias: Val
) -> Val:
    factor = b.ew("mul", _beside(b, rstd), _beside(b, weight))
    rest = b.ew("sub", _of_runs(b, x), _beside(b, mean))
    made = b.ew("add", b.ew("mul", rest, factor), _beside(b, bias))
    return b.reshape(made, x.shape)


@formula("gradients_of_channels")
def _gradients_of_channels(
    b: Builder, g: Val, x: Val, mean: Val, rstd: Val, weight: Val
) -> list[Val]:
    """Those of input, weight and bias of a batch norm."""
    runs, given = _of_runs(b, x), _of_runs(b, g)
    rstd, weight = _beside(b, rstd), _beside(b, weight)
    unit = b.ew("mul", b.ew("sub", runs, _beside(b, mean)), rstd)
    sums = [
        b.reduce("sum", b.reduce("sum", one, (2,), keep=True), (0,), keep=True)
        for one in (b.ew("mul", given, unit), given)
    ]
    share = constant(b, runs.shape[1] / runs.size, x)
    along, level = (b.ew("mul", one, share) for one in sums)
    rest = b.ew("sub", b.ew("sub", given, level), b.ew("mul", unit, along))
    made = b.ew("mul", rest, b.ew("mul", rstd, weight))
    shape = (runs.shape[1],)
    return [b.reshape(made, x.shape), *(b.reshape(one, shape) for one in sums)]
