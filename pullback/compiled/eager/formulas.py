"""The formulas of eager kernels, in the array language: what compiled functions are lowered to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pullback.compiled.ir.builder import Builder, blas_takes
from pullback.compiled.ir.pooling import Pool, averages, maxima, put, spread_averages
from pullback.compiled.ir.values import Val
from pullback.compiled.ir.windows import Slide, convolved, input_of_windows, weight_of_windows
from pullback.compiled.llvm.machine import machine
from pullback.compiled.llvm.tiles import tiles_pay
from pullback.compiled.lower import program
from pullback.compiled.lower.rules import RULES, NotLowered, constant
from pullback.operators.arrays import programs
from pullback.operators.arrays.native import rows_of
from pullback.operators.nn.norm.layout import Over

__all__ = ["ADDING", "FORMULAS", "OVER"]

assert program  # imported for the lowerings that it registers
Formula = Callable[..., Any]
F = TypeVar("F", bound=Formula)
FORMULAS: dict[str, Formula] = {}
ADDING = frozenset({programs.GRADIENTS_OF_ROWS})  # those that add up over rows
# Results that are written over arrays, by the numbers of both.
OVER = {
    programs.LSTM_STEP: {0: 3, 1: 4, 2: 5},
    programs.LSTM_STEP_BACK: {0: 7},
    programs.ADAM: {0: 0, 1: 2, 2: 3},
}


def formula(name: programs.Program) -> Callable[[F], F]:
    """Make a function the formula of a program."""

    def enter(function: F) -> F:
        FORMULAS[name] = function
        return function

    return enter


# One operator as compiled functions have it -------------------------------------------------------

for _program in (
    *(programs.SOFTMAX, programs.SOFTMAX_ADJOINT, programs.LOG_SOFTMAX),
    *(programs.LOG_SOFTMAX_ADJOINT, programs.ATTENTION_WEIGHTS),
):
    FORMULAS[_program] = RULES[_program]


def _elementwise(rule: Formula) -> Formula:
    """A rule of operands of one shape, on rows, which threads share."""

    def made(b: Builder, first: Val, *rest: Any) -> Val:
        given = [first, *rest]
        lines = [b.reshape(x, rows_of(x.size)) if isinstance(x, Val) else x for x in given]
        return b.reshape(rule(b, *lines), first.shape)

    return made


FORMULAS[programs.ERF] = _elementwise(lambda b, x: b.ew("erf", x))


# Products -----------------------------------------------------------------------------------------


@formula(programs.DOT)
def _product(b: Builder, x: Val, y: Val) -> Val:
    """Where that is quicker than BLAS; else no formula, as NumPy's way chooses BLAS's order."""
    (rows, terms), columns = x.shape[-2:], y.shape[-1]
    if not tiles_pay(machine(), x.dtype, rows, terms, columns):
        raise NotLowered
    return b.dot(x, y)


@formula(programs.LINEAR)
def _linear(b: Builder, x: Val, weight: Val, bias: Val) -> Val:
    return b.ew("add", _product(b, x, b.permute(weight, (1, 0))), bias)


@formula(programs.MIXED_HEADS)
def _mixed_heads(b: Builder, weights: Val, value: Val) -> Val:
    """`weights @ value` of (batch, heads, rows, ...), as (batch, rows, heads, ...)."""
    batch, heads, rows, _ = weights.shape
    width = value.shape[3]
    x, y = (one if blas_takes(one) else b.copy(one) for one in (weights, value))
    lies = ((rows * heads * width, width), heads * width, (batch, heads), rows, width)
    return b.make("dot", (x, y), lies, (batch, rows, heads, width), x.dtype)


# Convolutions -------------------------------------------------------------------------------------


def _wide_vectors() -> None:
    """Convolutions are quicker than BLAS's by vectors of 32 bytes; shorter ones were not tried."""
    if machine().vector_bytes < 32:
        raise NotLowered


@formula(programs.CONVOLUTION)
def _convolution(b: Builder, x: Val, weight: Val, *more: Any) -> Val:
    """`more` is a bias, if there is one, and a slide."""
    _wide_vectors()
    bias = more[0] if len(more) == 2 else None
    return convolved(b, x, weight, bias, Slide(*more[-1]))


@formula(programs.CONVOLUTION_INPUT)
def _convolution_input(b: Builder, g: Val, weight: Val, *more: Any) -> Val:
    """`more` as above; the slide is that over the gradient."""
    _wide_vectors()
    bias = more[0] if len(more) == 2 else None
    return input_of_windows(b, g, weight, bias, Slide(*more[-1]))


@formula(programs.CONVOLUTION_WEIGHT)
def _convolution_weight(b: Builder, g: Val, x: Val, kernel: Any, slide: Any) -> Val:
    _wide_vectors()
    made = weight_of_windows(b, g, x, kernel, Slide(*slide))
    if made is None:
        raise NotLowered
    return made


# Pooling ------------------------------------------------------------------------------------------


@formula(programs.MAX_POOL)
def _max_pool(b: Builder, x: Val, kernel: Any, stride: Any, with_places: bool) -> list[Val]:
    return maxima(b, x, Pool(kernel, stride), with_places=with_places)


@formula(programs.AVERAGE_POOL)
def _average_pool(b: Builder, x: Val, kernel: Any, stride: Any, divisor: int) -> Val:
    return averages(b, x, Pool(kernel, stride, divisor))


@formula(programs.SPREAD_AVERAGE)
def _spread_average(b: Builder, g: Val, size: Any, kernel: Any, divisor: int) -> Val:
    return spread_averages(b, g, size, Pool(kernel, kernel, divisor))


@formula(programs.PUT_PLACES)
def _put_places(b: Builder, g: Val, places: Val, size: Any) -> Val:
    return put(b, g, places, size)


# Norms --------------------------------------------------------------------------------------------


@formula(programs.STANDARDISED_ROWS)
def _standardised_rows(b: Builder, x: Val, *rest: Any) -> Val:
    """Of rows `x`, then a weight and a bias if there are: eps, `centred`, whether there is one."""
    *given, eps, centred, has_weight = rest
    weight = given[0] if has_weight else None
    bias = given[-1] if len(given) > has_weight else None
    made: Val = RULES["layer_standardise"](b, x, weight, bias, Over((1,), eps, centred))
    return made


@formula(programs.GRADIENTS_OF_ROWS)
def _gradients_of_rows(b: Builder, g: Val, x: Val, *rest: Any) -> list[Val]:
    """Those of input, weight and bias of a layer norm, the last two if they are wanted."""
    *given, eps, centred, of_weight, of_bias = rest
    over, row = Over((1,), eps, centred), (x.shape[1],)
    made = [RULES["_standardise_adjoint"](b, g, x, given[0] if given else None, over)]
    made += [RULES["_weight_adjoint"](b, g, x, row, over)] if of_weight else []
    return [*made, b.reduce("sum", g, (0,))] if of_bias else made


@formula(programs.SUMS_OF_RUNS)
def _sums_of_runs(b: Builder, x: Val, y: Val) -> list[Val]:
    """Of each run the sum of the products, and of `x` alone."""
    return [b.reduce("sum", b.ew("mul", x, y), (1,)), b.reduce("sum", x, (1,))]


def _of_each(b: Builder, numbers: Val) -> Val:
    """Numbers of runs, to broadcast against their elements."""
    return b.reshape(numbers, (*numbers.shape, 1))


@formula(programs.SCALED_RUNS)
def _scaled_runs(b: Builder, x: Val, factor: Val, shift: Val) -> Val:
    return b.ew("add", b.ew("mul", x, _of_each(b, factor)), _of_each(b, shift))


@formula(programs.COMBINED_RUNS)
def _combined_runs(b: Builder, g: Val, x: Val, factor: Val, slope: Val, offset: Val) -> Val:
    """`factor * g - slope * x + offset`."""
    first, second = b.ew("mul", g, _of_each(b, factor)), b.ew("mul", x, _of_each(b, slope))
    return b.ew("add", b.ew("sub", first, second), _of_each(b, offset))


def _of_runs(b: Builder, x: Val) -> Val:
    """(examples, channels, elements of a run)."""
    return b.reshape(x, (x.shape[0], x.shape[1], x.size // (x.shape[0] * x.shape[1])))


def _beside(b: Builder, numbers: Val) -> Val:
    """Numbers of channels, to broadcast against their runs."""
    return b.reshape(numbers, (1, numbers.size, 1))


def _over_examples(b: Builder, x: Val) -> Val:
    """Sums over the first dimension, one for each channel: as rows, which no two threads share."""
    channels = b.permute(b.reshape(x, x.shape[:2]), (1, 0))
    return _beside(b, b.reduce("sum", channels, (1,)))


@formula(programs.CHANNEL_STATISTICS)
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
    mean = b.ew("mul", _over_examples(b, means), of_all)
    apart = b.ew("sub", means, mean)
    both = b.ew("add", inside, b.ew("mul", apart, apart))
    variance = b.ew("mul", _over_examples(b, both), of_all)
    rstd = b.ew("rsqrt", b.ew("add", variance, constant(b, eps, x)))
    return [b.reshape(b.copy(one), (1, channels)) for one in (mean, rstd, variance)]


@formula(programs.STANDARDISED_CHANNELS)
def _standardised_channels(b: Builder, x: Val, mean: Val, rstd: Val, weight: Val, bias: Val) -> Val:
    factor = b.ew("mul", _beside(b, rstd), _beside(b, weight))
    rest = b.ew("sub", _of_runs(b, x), _beside(b, mean))
    made = b.ew("add", b.ew("mul", rest, factor), _beside(b, bias))
    return b.reshape(made, x.shape)


@formula(programs.GRADIENTS_OF_CHANNELS)
def _gradients_of_channels(
    b: Builder, g: Val, x: Val, mean: Val, rstd: Val, weight: Val
) -> list[Val]:
    """Those of input, weight and bias of a batch norm."""
    runs, given = _of_runs(b, x), _of_runs(b, g)
    rstd, weight = _beside(b, rstd), _beside(b, weight)
    unit = b.ew("mul", b.ew("sub", runs, _beside(b, mean)), rstd)
    sums = [
        _over_examples(b, b.reduce("sum", one, (2,), keep=True))
        for one in (b.ew("mul", given, unit), given)
    ]
    share = constant(b, runs.shape[1] / runs.size, x)
    along, level = (b.ew("mul", one, share) for one in sums)
    rest = b.ew("sub", b.ew("sub", given, level), b.ew("mul", unit, along))
    made = b.ew("mul", rest, b.ew("mul", rstd, weight))
    shape = (runs.shape[1],)
    return [b.reshape(made, x.shape), *(b.reshape(one, shape) for one in sums)]


# Losses -------------------------------------------------------------------------------------------


@formula(programs.CLASS_LOSSES)
def _class_losses(b: Builder, scores: Val, target: Val, ignored: int) -> Val:
    """The cross entropy of each row of scores."""
    return b.copy(RULES["nn.functional.cross_entropy"](b, scores, target, None, ignored, "none"))


@formula(programs.CLASS_SLOPES)
def _class_slopes(b: Builder, g: Val, scores: Val, target: Val, ignored: int) -> Val:
    """The gradient of the scores, from that of the sum of the losses."""
    made: Val = RULES["_cross_entropy_adjoint"](b, g, scores, target, None, ignored, "sum")
    return made


# Recurrent layers ---------------------------------------------------------------------------------


def _quarters(b: Builder, x: Val) -> list[Val]:
    width = x.shape[0] // 4
    return [b.slice(x, 0, start, width) for start in range(0, 4 * width, width)]


def _gates(b: Builder, tanhs: Val) -> list[Val]:
    """Of leaving, entering and forgetting the sigmoid, by the tanh of half; then the candidate."""
    *halves, candidate = _quarters(b, tanhs)
    half = constant(b, 0.5, tanhs)
    return [*(b.ew("add", b.ew("mul", one, half), half) for one in halves), candidate]


@formula(programs.LSTM_STEP)
def _lstm_step(b: Builder, weights: Val, state: Val, cell: Val, *over: Val) -> list[Val]:
    """The tanh of what gates get, the cell and the hidden state, all as (features, batch)."""
    tanhs = b.ew("tanh", _product(b, weights, state))
    leaving, entering, forgetting, candidate = _gates(b, tanhs)
    after = b.ew("add", b.ew("mul", entering, candidate), b.ew("mul", forgetting, cell))
    return [tanhs, after, b.ew("mul", leaving, b.ew("tanh", after))]


@formula(programs.LSTM_STEP_BACK)
def _lstm_step_back(
    b: Builder, weights: Val, tanhs: Val, cell: Val, after: Val, h: Val, c: Val, g: Val, over: Val
) -> list[Val]:
    """Gradients of entering, forgetting, candidate and leaving; of the two states before."""
    leaving, entering, forgetting, candidate = _gates(b, tanhs)
    h, reached, one = b.ew("add", h, g), b.ew("tanh", after), constant(b, 1, h)

    def of_sigmoid(s: Val) -> Val:
        return b.ew("mul", s, b.ew("sub", one, s))

    def of_tanh(t: Val) -> Val:
        return b.ew("sub", one, b.ew("mul", t, t))

    c = b.ew("add", c, b.ew("mul", b.ew("mul", h, leaving), of_tanh(reached)))
    gates = [
        b.ew("mul", b.ew("mul", c, candidate), of_sigmoid(entering)),
        b.ew("mul", b.ew("mul", c, cell), of_sigmoid(forgetting)),
        b.ew("mul", b.ew("mul", c, entering), of_tanh(candidate)),
        b.ew("mul", b.ew("mul", h, reached), of_sigmoid(leaving)),
    ]
    joined = b.cat(gates, 0)
    before = _product(b, b.permute(weights, (1, 0)), joined)
    return [b.copy(joined), before, b.ew("mul", c, forgetting)]


@formula(programs.RECURRENT_WEIGHTS)
def _recurrent_weights(b: Builder, gates: Val, x: Val, states: Val, weights: Val) -> list[Val]:
    """Gradients of inputs as rows, of the weights of inputs and of states, and of the bias.

    `gates` and `states` are (times, features, batch), `x` is (times, batch, features).
    """

    def lines(one: Val) -> Val:
        turned = b.copy(b.permute(one, (1, 0, 2)))
        return b.reshape(turned, (one.shape[1], one.size // one.shape[1]))

    of_gates, of_states = lines(gates), lines(states)
    rows = b.reshape(x, (x.shape[0] * x.shape[1], x.shape[2]))
    return [
        _product(b, b.permute(of_gates, (1, 0)), weights),
        _product(b, of_gates, rows),
        _product(b, of_gates, b.permute(of_states, (1, 0))),
        b.reduce("sum", of_gates, (1,)),
    ]


# Optimizers ---------------------------------------------------------------------------------------


@formula(programs.ADAM)
def _adam(
    b: Builder, x: Val, g: Val, mean: Val, square: Val, numbers: Val, decay: str, maximize: bool
) -> list[Val]:
    """The parameters and both averages after a step; see `optim/adam.py` for the numbers."""
    kept, new, kept_square, new_square, smallest, rate, pull = (
        b.reshape(b.slice(numbers, 0, place, 1), (1, 1)) for place in range(7)
    )
    g = b.ew("neg", g) if maximize else g
    if decay == "apart":
        x = b.ew("mul", x, pull)
    elif decay:
        g = b.ew("add", g, b.ew("mul", x, pull))
    mean = b.ew("add", b.ew("mul", mean, kept), b.ew("mul", g, new))
    squares = b.ew("mul", b.ew("mul", g, g), new_square)
    square = b.ew("add", b.ew("mul", square, kept_square), squares)
    way = b.ew("div", mean, b.ew("add", b.ew("sqrt", square), smallest))
    x = b.ew("sub", x, b.ew("mul", way, rate))
    return [x, mean, square]
