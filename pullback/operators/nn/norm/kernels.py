"""Norm layers on arrays: the forward and the two adjoints, for each way to see the input.

    few       means come from a product with a small matrix: only the number of calls counts
    rows      the last dimensions, weights of a row's shape (layer norm): blocks of rows
    runs      the elements of a channel (batch, group, instance norm): each run is a row, and what
              runs have in common is worked out on their sums
    anything  reductions as they are

NumPy takes half as long again for what broadcasts a column as for arrays of one shape. So a column
is first written to all places, or comes with the weights from a product of a column and a row.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.arrays import F32, Array, Namespace, number_array, numbers32, numbers64
from pullback.operators.arrays import programs
from pullback.operators.arrays.blocks import BLOCK, pieces
from pullback.operators.arrays.native import MANY, by_machine_code
from pullback.operators.arrays.rows import FEW, MEANS, SHORT, column
from pullback.operators.arrays.sums import column_totals, sums, totals
from pullback.operators.arrays.threads import each
from pullback.operators.nn.norm.layout import Layout, Over


def is_row(shape: tuple[int, ...] | None, seen: Layout) -> bool:
    """Whether weights of this shape, if any, are those of a row.

    Those of channels never are, though there may be as many channels as places in a row.
    """
    if shape is None:
        return seen.order is None
    return seen.order is None and seen.weights is None and shape == seen.row


def shape_of(weight: Array | None) -> tuple[int, ...] | None:
    """The shape of a weight, None where there is none."""
    return None if weight is None else weight.shape


# Statistics ---------------------------------------------------------------------------------------


def _inverse_root(xp: Namespace, variance: Array, eps: float) -> Array:
    """1 / sqrt(variance + eps), in place."""
    variance += number(eps, variance.dtype)
    xp.sqrt(variance, variance)
    return xp.reciprocal(variance, variance)


def _loses_digits(square: Array, variance: Array) -> bool:
    """Whether mean(x^2) - mean(x)^2 is too far from the variance: not unless the mean is large."""
    return not (square <= 4 * variance).all()  # nor is what is not a number


def row_rests(xp: Namespace, x: Array, over: Over, out: Array | None = None) -> tuple[Array, Array]:
    """Rows less their means (as they are if those stay), and the inverse deviation of each row.

    The former in `out`, if that is given and they are not `x`.
    """
    count = x.shape[1]
    rest = x
    if over.centred:
        mean = totals(xp, x)
        mean *= number(1 / count, x.dtype)
        rest = column(mean, x.shape, out)
        xp.subtract(x, rest, rest)
    variance = totals(xp, rest, rest)
    variance *= number(1 / count, x.dtype)
    return rest, _inverse_root(xp, variance, over.eps)


def run_sums(xp: Namespace, seen: Layout, *factors: tuple[Array, Array | None]) -> list[Array]:
    """For each pair, the sum of each run of `a`, or of `a * b`.

    Large ones go through the cache together, and to other threads once.
    """
    runs = (-1, seen.run)
    pairs = [(a.reshape(runs), b if b is None else b.reshape(runs)) for a, b in factors]
    first = pairs[0][0]
    if len(pairs) == 2 and first.size >= MANY and _are_of_one(*factors):
        made = by_machine_code(programs.SUMS_OF_RUNS, (first, pairs[0][1]))
        if made is not None:
            return [one.reshape(seen.lead) for one in made]
    if first.size <= 2 * BLOCK:
        return [totals(xp, a, b).reshape(seen.lead) for a, b in pairs]
    whole = xp.empty((len(pairs), len(first)), first.dtype)

    def work(block: slice) -> None:
        for made, (a, b) in zip(whole, pairs, strict=True):
            made[block] = totals(xp, a[block], b if b is None else b[block])

    each(work, pieces(len(first), seen.run))
    return [made.reshape(seen.lead) for made in whole]


def _are_of_one(first: Any, second: Any) -> bool:
    """Whether they are `(a, b), (a, None)`: both sums are taken in one go."""
    return first[0] is second[0] and first[1] is not None and second[1] is None


def shared(of_runs: Array, seen: Layout) -> Array:
    """Sums of runs, added up where runs share a statistic."""
    return sums(numpy, of_runs, seen.lead_dims, keepdim=True) if seen.lead_dims else of_runs


def run_statistics(xp: Namespace, x: Array, seen: Layout, over: Over) -> tuple[Array | None, Array]:
    """Mean (None if it is not taken away) and inverse deviation, in the shape of the runs."""
    mean, variance = run_moments(xp, x, seen, over)
    return mean, _inverse_root(xp, variance, over.eps)


def run_moments(xp: Namespace, x: Array, seen: Layout, over: Over) -> tuple[Array | None, Array]:
    """Mean (None if it is not taken away) and variance of each run."""
    inverse = 1 / seen.size
    wanted = [(x, x), (x, None)] if over.centred else [(x, x)]
    variance, *means = [shared(one, seen) * inverse for one in run_sums(xp, seen, *wanted)]
    if not over.centred:
        return None, variance
    mean = means[0]
    square = mean * mean
    variance -= square
    if _loses_digits(square, variance):
        rest = x.reshape(*seen.lead, seen.run) - mean[..., None]
        variance = shared(run_sums(xp, seen, (rest, rest))[0], seen) * inverse
    return mean, variance


def statistics(xp: Namespace, x: Array, seen: Layout, over: Over) -> tuple[Array | None, Array]:
    """As `run_statistics`, for any layout; dimensions stay, with size 1."""
    x = x.reshape(seen.shape)
    mean = None
    if over.centred:
        mean = sums(xp, x, seen.dims, keepdim=True) / x.dtype.type(seen.size)
        x = x - mean
    variance = sums(xp, x * x, seen.dims, keepdim=True) / x.dtype.type(seen.size)
    return mean, _inverse_root(xp, variance, over.eps)


def channel_statistics(
    xp: Namespace, x: Array, seen: Layout, over: Over
) -> tuple[Array, Array, Array]:
    """Mean, inverse deviation and variance of each channel over the batch, as (1, channels)."""
    if seen.run > 1 and x.size >= MANY:
        made = by_machine_code(programs.CHANNEL_STATISTICS, (x,), over.eps)
        if made is not None:
            return tuple(made)
    if seen.run > 1:
        moments = run_moments(xp, x, seen, over)
        assert moments[0] is not None  # as statistics of channels are centred
        mean, variance = moments[0], moments[1]
    else:
        x = x.reshape(seen.shape[:2])
        mean = column_means(xp, x)
        rest = x - mean
        rest *= rest
        variance = column_means(xp, rest)
    rstd = variance + number(over.eps, variance.dtype)
    xp.sqrt(rstd, rstd)
    xp.reciprocal(rstd, rstd)
    return mean.reshape(1, -1), rstd.reshape(1, -1), variance.reshape(1, -1)


def column_means(xp: Namespace, x: Array) -> Array:
    """Means over dimension 0 of a matrix, as a row."""
    count = len(x)
    if count <= SHORT:
        return MEANS[count, x.dtype.char][:1].dot(x)
    made = column_totals(xp, x)
    made *= 1 / count
    return made


def number(value: float, dtype: Any) -> Array:
    """A number as an array of no dimensions, which NumPy takes half as long to look at."""
    known = (numbers32 if dtype is F32 else numbers64).get(value)
    return number_array(value, dtype) if known is None else known


# Forward ------------------------------------------------------------------------------------------


def standardise(
    xp: Namespace,
    x: Array,
    weight: Array | None,
    bias: Array | None,
    seen: Layout,
    over: Over,
    known: tuple[Array, Array, Array] | None = None,
) -> Array:
    """`(x - mean) / deviation * weight + bias`; by statistics of channels if they are known."""
    if known is None:
        mean, rstd = statistics(xp, x, seen, over)
    else:
        mean, rstd = (seen.broadcast(one) for one in known[:2])
    whole = xp.ascontiguousarray(x).reshape(seen.shape)
    full = (whole if mean is None else whole - mean) * rstd
    return weighted(full, weight, bias, seen).reshape(x.shape)


def weighted(full: Array, weight: Array | None, bias: Array | None, seen: Layout) -> Array:
    """Scaled and shifted in place, in the shape of the layout."""
    if weight is not None:
        full *= seen.broadcast(weight)
    if bias is not None:
        full += seen.broadcast(bias)
    return full


def standardised_few(
    x: Array, weight: Array | None, bias: Array | None, seen: Layout, over: Over
) -> Array:
    """The same of few elements, by rows."""
    rows = few_rows(numpy, seen.in_rows(x), over)[0]
    if weight is not None:
        rows *= seen.weights_in_rows(weight)
    if bias is not None:
        rows += seen.weights_in_rows(bias)
    return seen.from_rows(rows, x.shape)


def are_rows(weight: Array | None, bias: Array | None, seen: Layout) -> bool:
    """Whether statistics are those of rows in order, and weights belong to places in a row."""
    return is_row(shape_of(weight), seen) and is_row(shape_of(bias), seen)


def few_rows(xp: Namespace, x: Array, over: Over) -> tuple[Array, Array]:
    """Standardised rows, and in each place of them the deviation."""
    dtype = x.dtype
    means = MEANS[x.shape[1], dtype.char]
    if over.centred:
        x = x - x.dot(means)
    deviation = (x * x).dot(means)
    deviation += number(over.eps, dtype)
    xp.sqrt(deviation, deviation)
    return x / deviation, deviation


def rows_by_machine_code(
    x: Array, weight: Array | None, bias: Array | None, seen: Layout, over: Over
) -> Array | None:
    """Rows in one go; None where NumPy should do it."""
    given = [one.reshape(seen.size) for one in (weight, bias) if one is not None]
    rows, options = x.reshape(seen.rows, seen.size), (over.eps, over.centred, weight is not None)
    made = by_machine_code(programs.STANDARDISED_ROWS, (rows, *given), *options)
    return None if made is None else made[0].reshape(x.shape)


def standardised_rows(
    xp: Namespace, x: Array, weight: Array | None, bias: Array | None, seen: Layout, over: Over
) -> Array:
    """Rows in blocks that stay in cache."""
    shape = (seen.rows, seen.size)
    row = None if weight is None else weight.reshape(seen.size)
    added = None if bias is None else bias.reshape(seen.size)
    rows = x.reshape(shape)
    if x.size <= BLOCK:
        return _standardised(xp, rows, row, added, over).reshape(x.shape)
    out = xp.empty(shape, x.dtype)

    def work(block: slice) -> None:
        _standardised(xp, rows[block], row, added, over, out[block])

    each(work, pieces(seen.rows, seen.size))
    return out.reshape(x.shape)


def _standardised(
    xp: Namespace,
    x: Array,
    weight: Array | None,
    bias: Array | None,
    over: Over,
    out: Array | None = None,
) -> Array:
    """A block of rows, in `out` or in a new array."""
    rest, rstd = row_rests(xp, x, over, out)
    made = outer(xp, rstd, weight, x.shape)
    made = xp.multiply(made, rest, made if out is None else out)
    if bias is not None:
        made += bias
    return made


def outer(xp: Namespace, values: Array, row: Array | None, shape: Any) -> Array:
    """A number for each row, times `row` if there is one, in a new array of rows.

    By a product with a column of zeros beside it: BLAS takes half as long again without, and
    NumPy by itself three times as long.
    """
    if row is None:
        return column(values, shape)
    pair = xp.zeros((2, shape[0]), values.dtype)
    pair[0] = values
    rows = xp.empty((2, shape[1]), values.dtype)
    rows[...] = row
    return xp.matmul(pair.T, rows)


def scaled_channels(
    xp: Namespace,
    x: Array,
    weight: Array | None,
    bias: Array | None,
    seen: Layout,
    known: tuple[Array | None, Array],
) -> Array:
    """`(x - mean) * rstd * weight + bias`, by the mean and inverse deviation of runs."""
    mean, factor = known
    if weight is not None:
        factor = factor * weight.reshape(seen.lead_weights)
    shift = None if mean is None else mean * factor
    if bias is not None:
        added = bias.reshape(seen.lead_weights)
        shift = added if shift is None else xp.subtract(added, shift)
    elif shift is not None:
        xp.negative(shift, shift)
    return scaled_runs(xp, x, factor, shift, seen)


def scaled_runs(xp: Namespace, x: Array, factor: Array, shift: Array | None, seen: Layout) -> Array:
    """`x * factor + shift`, with numbers for each run, or what broadcasts against runs."""
    if x.size <= FEW or seen.run < 2:
        factor, shift = seen.beside_runs(factor), None if shift is None else seen.beside_runs(shift)
        out = xp.ascontiguousarray(x).reshape(seen.shape) * factor
        if shift is not None:
            out += shift
        return out.reshape(x.shape)
    if shift is not None and x.size >= MANY and x.flags.c_contiguous:
        runs = x.reshape(*seen.lead, seen.run)
        made = by_machine_code(programs.SCALED_RUNS, (runs, factor, shift))
        if made is not None:
            return made[0].reshape(x.shape)
    if are_shared(seen, factor, shift):
        return _scaled_examples(xp, x, factor, shift, seen)
    factors = of_each_run(xp, factor, seen)
    shifts = None if shift is None else of_each_run(xp, shift, seen)
    out = xp.empty(x.shape, x.dtype)
    runs, result = x.reshape(-1, seen.run), out.reshape(-1, seen.run)

    def work(block: slice) -> None:
        made = result[block]
        made[...] = factors[block]
        made *= runs[block]
        if shifts is not None:
            made += shifts[block]

    each(work, pieces(len(runs), seen.run))
    return out


# Elements of an example up to which numbers of its channels, in all places, stay in cache: then a
# few large loops do instead of one for each run. 16 x 32 x 16 x 16: 40 us and not 56.
_ROW = 32768


def are_shared(seen: Layout, *numbers: Array | None) -> bool:
    """Whether these are numbers of channels, the same for several small examples."""
    return (
        len(seen.lead) == 2
        and seen.lead[0] > 3
        and seen.run * seen.lead[1] <= _ROW
        and all(one is None or one.size == seen.lead[1] for one in numbers)
    )


def of_an_example(values: Array, seen: Layout) -> Array:
    """Numbers of channels, in all places of an example."""
    return values.reshape(-1).repeat(seen.run)


def _scaled_examples(
    xp: Namespace, x: Array, factor: Array, shift: Array | None, seen: Layout
) -> Array:
    factors = of_an_example(factor, seen)
    shifts = None if shift is None else of_an_example(shift, seen)
    out = xp.empty(x.shape, x.dtype)
    examples, result = x.reshape(-1, factors.size), out.reshape(-1, factors.size)

    def work(block: slice) -> None:
        made = result[block]
        xp.multiply(examples[block], factors, made)
        if shifts is not None:
            made += shifts

    each(work, pieces(len(examples), factors.size))
    return out


def of_each_run(xp: Namespace, values: Array, seen: Layout) -> Array:
    """A column: what runs share, for each of them."""
    if values.shape != seen.lead:
        whole = xp.empty(seen.lead, values.dtype)
        whole[...] = values
        values = whole
    return values.reshape(-1, 1)
