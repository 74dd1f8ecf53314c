"""Gradients of norm layers on arrays, all in one go: what they share is worked out once.

The ways to see the input are those of kernels.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy

from pullback.core.arrays import Array, Namespace
from pullback.operators.arrays import programs
from pullback.operators.arrays.blocks import BLOCK, pieces
from pullback.operators.arrays.native import MANY, by_machine_code
from pullback.operators.arrays.rows import MEANS, column
from pullback.operators.arrays.sums import column_totals, ones, totals
from pullback.operators.arrays.sums import sums as summed
from pullback.operators.arrays.threads import each, in_order
from pullback.operators.nn.norm.kernels import (
    are_shared,
    few_rows,
    is_row,
    number,
    of_an_example,
    of_each_run,
    outer,
    row_rests,
    run_statistics,
    run_sums,
    shape_of,
    shared,
    statistics,
)
from pullback.operators.nn.norm.layout import Layout, Over


class Wanted(NamedTuple):
    """Which gradients are to be computed: the input's, and those of weights of some shape."""

    input: bool = False
    weight: tuple[int, ...] | None = None
    bias: tuple[int, ...] | None = None

    def all(self) -> bool:
        """Whether none is left out."""
        return self.input and self.weight is not None and self.bias is not None


Gradients = tuple[Array | None, Array | None, Array | None]
Statistics = tuple[Array, Array, Array] | None  # mean, inverse deviation and variance


def gradients(
    xp: Namespace,
    g: Array,
    x: Array,
    weight: Array | None,
    seen: Layout,
    over: Over,
    wanted: Wanted,
    known: Statistics = None,
) -> Gradients:
    """Those of input, weight and bias, None for what is not wanted.

    The input's is the derivative, which is symmetric, applied to `g * weight`; the weight's is the
    sum of `g * x'` over all that share a weight. `known` are statistics of channels, see
    `kernels.channel_statistics`.
    """
    if known is None and seen.few and xp is numpy:
        return _gradients_of_few(xp, g, x, weight, seen, over, wanted)
    if known is not None and seen.run == 1:
        return _gradients_of_columns(xp, g, x, weight, seen, known, wanted)
    if x.size:
        if all(is_row(one, seen) for one in (shape_of(weight), wanted.weight, wanted.bias)):
            return _gradients_of_rows(xp, g, x, weight, seen, over, wanted)
        if seen.run > 1:
            if known is not None and x.size >= MANY and weight is not None and wanted.all():
                made = by_machine_code(programs.GRADIENTS_OF_CHANNELS, (g, x, *known[:2], weight))
                if made is not None:
                    return made[0], made[1], made[2]
            return _gradients_of_runs(xp, g, x, weight, seen, over, wanted, known)
    return _gradients_of_anything(xp, g, x, weight, seen, over, wanted)


def _gradients_of_rows(
    xp: Namespace, g: Array, x: Array, weight: Any, seen: Layout, over: Over, wanted: Wanted
) -> Gradients:
    shape = (seen.rows, seen.size)
    row = None if weight is None else weight.reshape(seen.size)
    gradients, rows = g.reshape(shape), x.reshape(shape)
    found = _by_machine_code(gradients, rows, row, over, wanted) if x.size >= MANY else None
    if found is not None:
        made = found
    elif x.size <= BLOCK:
        made = _of_rows(xp, gradients, rows, row, over, wanted)
    else:
        out = xp.empty(shape, x.dtype) if wanted.input else None

        def work(block: slice) -> Gradients:
            into = None if out is None else out[block]
            return _of_rows(xp, gradients[block], rows[block], row, over, wanted, into)

        parts = list(in_order(work, pieces(seen.rows, seen.size)))
        made = out, _added([part[1] for part in parts]), _added([part[2] for part in parts])
    return (
        None if made[0] is None else made[0].reshape(x.shape),
        None if made[1] is None else made[1].reshape(seen.row),
        None if made[2] is None else made[2].reshape(seen.row),
    )


def _by_machine_code(
    g: Array, x: Array, row: Array | None, over: Over, wanted: Wanted
) -> Gradients | None:
    if not wanted.input:
        return None
    given = (g, x) if row is None else (g, x, row)
    asked = wanted.weight is not None, wanted.bias is not None
    found = by_machine_code(programs.GRADIENTS_OF_ROWS, given, over.eps, over.centred, *asked)
    if found is None:
        return None
    of_input, *others = found
    of_weight, of_bias = (others.pop(0) if one else None for one in asked)
    return of_input, of_weight, of_bias


def _added(sums: list[Array | None]) -> Array | None:
    """The sum of arrays of one dimension, or None of Nones."""
    return None if sums[0] is None else column_totals(numpy, numpy.stack(sums))  # type: ignore[arg-type]  # then none is


def _of_rows(
    xp: Namespace,
    g: Array,
    x: Array,
    row: Array | None,
    over: Over,
    wanted: Wanted,
    out: Array | None = None,
) -> Gradients:
    """Of a block of rows; the input's in `out` if given, those of the weights are sums over it."""
    of_weight = of_bias = None
    rest, rstd = row_rests(xp, x, over)
    products = None
    if wanted.weight is not None:
        products = g * rest
        of_weight = column_totals(xp, products, rstd)
    if wanted.bias is not None:
        of_bias = column_totals(xp, g)
    if wanted.input:
        out = _adjoint_of_rows(xp, g, rest, rstd, products, row, over, out)
    return out, of_weight, of_bias


def _adjoint_of_rows(
    xp: Namespace,
    g: Array,
    rest: Array,
    rstd: Array,
    products: Any,
    row: Any,
    over: Over,
    out: Array | None,
) -> Array:
    """`r (v - mean(v) - x' mean(x' v))`, for v = g * row, x' = r * rest; `products`: g * rest."""
    of_rows = number(1 / g.shape[1], g.dtype) * rstd
    if row is None:
        slope = totals(xp, g, rest)
    elif products is None:
        slope = (g * rest).dot(row)
    else:
        slope = products.dot(row)
    slope *= of_rows
    slope *= rstd
    slope *= rstd
    made = outer(xp, rstd, row, g.shape)
    out = xp.multiply(made, g, made if out is None else out)
    moved = column(slope, g.shape)
    moved *= rest
    out -= moved
    if over.centred:
        offset = totals(xp, g) if row is None else g.dot(row)
        offset *= of_rows
        out -= column(offset, g.shape)
    return out


def _gradients_of_runs(
    xp: Namespace,
    g: Array,
    x: Array,
    weight: Array | None,
    seen: Layout,
    over: Over,
    wanted: Wanted,
    known: Statistics,
) -> Gradients:
    out = of_weight = of_bias = None
    mean, rstd = run_statistics(xp, x, seen, over) if known is None else known[:2]
    asked = [(g, x), (g, None)] if over.centred or wanted.bias is not None else [(g, x)]
    products, *more = run_sums(xp, seen, *asked)
    sums = more[0] if more else None
    if wanted.input:
        scale = None if weight is None else weight.reshape(seen.lead_weights)
        slope, offset = _weighted_mean(products, scale, seen), None
        if mean is not None:
            of_v = _weighted_mean(sums, scale, seen)
            slope -= mean * of_v
        slope *= rstd * rstd * rstd
        if mean is not None:
            offset = mean * slope - of_v * rstd
        factor = rstd if scale is None else rstd * scale
        out = _combined(xp, factor, g, slope, x, offset, seen)
    if wanted.weight is not None:
        products = products if mean is None else products - sums * mean
        of_weight = sum_to(products * rstd, seen.lead_weights).reshape(wanted.weight)
    if wanted.bias is not None:
        of_bias = sum_to(sums, seen.lead_weights).reshape(wanted.bias)
    return out, of_weight, of_bias


def _gradients_of_columns(
    xp: Namespace,
    g: Array,
    x: Array,
    weight: Array | None,
    seen: Layout,
    known: tuple[Array, Array, Array],
    wanted: Wanted,
) -> Gradients:
    """Channels of one element per example: all sums are products with a row of ones."""
    mean, rstd, _ = known
    matrix = seen.shape[:2]
    g, unit = g.reshape(matrix), x.reshape(matrix) - mean
    unit *= rstd
    products, sums = column_totals(xp, g * unit), column_totals(xp, g)
    out = None
    if wanted.input:  # weight * r * (g - mean(g) - x' mean(x' g))
        unit *= products
        unit += sums
        unit *= 1 / seen.size
        out = xp.subtract(g, unit, unit)
        out *= rstd if weight is None else rstd * weight
        out = out.reshape(x.shape)
    return (
        out,
        None if wanted.weight is None else products.reshape(wanted.weight),
        None if wanted.bias is None else sums.reshape(wanted.bias),
    )


def _weighted_mean(sums: Any, scale: Array | None, seen: Layout) -> Array:
    """The mean over all runs that share it, from sums of runs and the weights of runs."""
    return shared(sums if scale is None else sums * scale, seen) * (1 / seen.size)


def _combined(
    xp: Namespace, factor: Array, g: Array, slope: Array, x: Array, offset: Any, seen: Layout
) -> Array:
    """`factor * g - slope * x + offset`, with numbers for each run."""
    if offset is not None and x.size >= MANY and x.flags.c_contiguous and g.flags.c_contiguous:
        runs = [one.reshape(*seen.lead, seen.run) for one in (g, x)]
        made = by_machine_code(programs.COMBINED_RUNS, (*runs, factor, slope, offset))
        if made is not None:
            return made[0].reshape(x.shape)
    out = xp.empty(x.shape, x.dtype)
    if are_shared(seen, factor, slope, offset):
        _combine_examples(xp, out, (factor, g), (slope, x), offset, seen)
        return out
    factors, slopes = of_each_run(xp, factor, seen), of_each_run(xp, slope, seen)
    offsets = None if offset is None else of_each_run(xp, offset, seen)
    gradients, runs, result = (a.reshape(-1, seen.run) for a in (g, x, out))

    def work(block: slice) -> None:
        made, part = result[block], runs[block]
        buffer = xp.empty(part.shape, part.dtype)
        buffer[...] = slopes[block]
        buffer *= part
        made[...] = factors[block]
        made *= gradients[block]
        made -= buffer
        if offsets is not None:
            made += offsets[block]

    each(work, pieces(len(runs), seen.run))
    return out


def _combine_examples(
    xp: Namespace,
    out: Array,
    first: tuple[Array, Array],
    second: tuple[Array, Array],
    offset: Any,
    seen: Layout,
) -> None:
    """The same with numbers for each channel, into `out`."""
    factors, slopes = of_an_example(first[0], seen), of_an_example(second[0], seen)
    offsets = None if offset is None else of_an_example(offset, seen)
    gradients, given, result = (a.reshape(-1, factors.size) for a in (first[1], second[1], out))

    def work(block: slice) -> None:
        made = result[block]
        xp.multiply(gradients[block], factors, made)
        made -= given[block] * slopes
        if offsets is not None:
            made += offsets

    each(work, pieces(len(given), factors.size))


def _gradients_of_anything(
    xp: Namespace, g: Array, x: Array, weight: Any, seen: Layout, over: Over, wanted: Wanted
) -> Gradients:
    out = of_weight = of_bias = None
    g = g.reshape(seen.shape)
    mean, rstd = statistics(xp, x, seen, over)
    unit = x.reshape(seen.shape)
    unit = (unit if mean is None else unit - mean) * rstd
    if wanted.weight is not None:
        of_weight = _added_up(xp, g * unit, wanted.weight, seen)
    if wanted.bias is not None:
        of_bias = _added_up(xp, g, wanted.bias, seen)
    if wanted.input:
        v = g if weight is None else g * seen.broadcast(weight)
        out = _adjoint_of_anything(v, unit, rstd, seen, over.centred).reshape(x.shape)
    return out, of_weight, of_bias


def _gradients_of_few(
    xp: Namespace, g: Array, x: Array, weight: Any, seen: Layout, over: Over, wanted: Wanted
) -> Gradients:
    """The same, all by rows."""
    out = of_weight = of_bias = None
    rows, deviation = few_rows(xp, seen.in_rows(x), over)
    given = seen.in_rows(g)
    if wanted.weight is not None:
        of_weight = _few_added_up(xp, given * rows, wanted.weight, seen)
    if wanted.bias is not None:
        of_bias = _few_added_up(xp, given, wanted.bias, seen)
    if wanted.input:
        v = given if weight is None else given * seen.weights_in_rows(weight)
        out = seen.from_rows(_adjoint_of_few(v, rows, deviation, over.centred), x.shape)
    return out, of_weight, of_bias


def _adjoint_of_few(v: Array, unit: Array, deviation: Array, centred: bool) -> Array:
    """(v - mean(v) - x' mean(x' v)) / deviation, of rows."""
    means = MEANS[v.shape[1], v.dtype.char]
    out = (unit * v).dot(means)
    out *= unit
    if centred:
        out += v.dot(means)
    out = v - out
    out /= deviation
    return out


def _adjoint_of_anything(v: Array, unit: Array, rstd: Array, seen: Layout, centred: bool) -> Array:
    inverse = v.dtype.type(1 / max(seen.size, 1))
    out = v - unit * (summed(numpy, v * unit, seen.dims, keepdim=True) * inverse)
    if centred:
        out -= summed(numpy, v, seen.dims, keepdim=True) * inverse
    out *= rstd
    return out


def _added_up(xp: Namespace, array: Array, shape: tuple[int, ...], seen: Layout) -> Array:
    """What weights of some shape get of a gradient."""
    if is_row(shape, seen):
        rows = array.reshape(seen.rows, seen.size)
        return column_totals(xp, rows).reshape(shape)
    return sum_to(array, shape if seen.weights is None else seen.weights).reshape(shape)


def _few_added_up(xp: Namespace, rows: Array, shape: tuple[int, ...], seen: Layout) -> Array:
    """The same of few, in rows: one or two products take 1.2 us, NumPy's sum 4."""
    if shape != seen.weight:
        full = seen.from_rows(rows, seen.shape)
        return sum_to(full, shape if seen.weights is None else seen.weights).reshape(shape)
    if not seen.run:
        sums = ones(xp, seen.rows, rows.dtype).dot(rows)
    elif len(seen.dims) == len(seen.shape) - 1:  # a channel is a row, as in batch norm
        sums = rows.dot(ones(xp, seen.size, rows.dtype))
    else:
        sums = rows.reshape(-1, seen.run).dot(ones(xp, seen.run, rows.dtype))
        if (examples := sums.size // shape[0]) > 1:
            sums = ones(xp, examples, sums.dtype).dot(sums.reshape(examples, -1))
    return sums if len(shape) == 1 else sums.reshape(shape)


def sum_to(array: Any, shape: tuple[int, ...]) -> Array:
    """Added up over what broadcasting `shape` to the array's repeats."""
    extra = array.ndim - len(shape)
    dims = (*range(extra), *(d + extra for d, n in enumerate(shape) if n != array.shape[d + extra]))
    if not dims:
        return array.reshape(shape)
    if type(array) is not numpy.ndarray:  # on a device
        return array.sum(dims, keepdims=True).reshape(shape)
    return summed(numpy, array, dims, keepdim=True).reshape(shape)
