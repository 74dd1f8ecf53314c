"""Sample arguments around the sizes at which kernels take over, for `tests/operators/test_kernels`.

A function here is given a number at which the condition of some kernel of its operators changes its
answer (`at_most(1024)`: 1023, 1024, 1025), and yields arguments by name for forwards on arrays, in
which whatever conditions compare is that number somewhere. Those of layers are in
`samples_kernels_nn`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy

from pullback.core.layout import preserve_format
from pullback.operators.create import sizes as create_sizes
from pullback.operators.declare import REQUIRED, Op
from pullback.operators.indexing import gather, rows, selection
from pullback.operators.linalg import affine, matrices, product_sums, products
from pullback.operators.nn.conv import fold
from pullback.operators.pointwise import arithmetic, direction, exponentials, extrema, powers
from pullback.operators.reduce import (
    extremes,
    norms,
    order_statistics,
    scan,
    sorting,
    statistics,
    sums,
    truth,
)
from pullback.operators.shape import joining, tiling
from pullback.operators.special import functions

__all__ = ["SAMPLES", "Sample", "at", "drawn", "each_precision", "in_layouts", "samples_of"]

Sample = dict[str, Any]
Sampler = Callable[[int], Iterator[Sample]]
SAMPLES: dict[Op, Sampler] = {}


def at(*functions: Callable[..., Any]) -> Callable[[Sampler], Sampler]:
    """Have a function make the samples of these operators."""

    def enter(sampler: Sampler) -> Sampler:
        for one in functions:
            SAMPLES[one.op] = sampler  # type: ignore[attr-defined]  # a declared operator
        return sampler

    return enter


def samples_of(op: Op, numbers: list[int]) -> list[Sample]:
    """All samples of an operator around these numbers, with defaults filled in."""
    made = []
    for number in numbers:
        for one in SAMPLES[op](number):
            defaults = {p.name: p.default for p in op.params if p.default is not REQUIRED}
            made.append({**defaults, **one})
    return made


@functools.cache
def _drawn(shape: tuple[int, ...], char: str) -> Any:
    made = numpy.random.default_rng(len(shape) + sum(shape)).standard_normal(shape).astype(char)
    made.flags.writeable = False
    return made


def drawn(*shape: int, char: str = "f") -> Any:
    """Numbers around 0, the same ones each time."""
    return _drawn(shape, char)


def in_layouts(*shape: int) -> Iterator[Any]:
    """Floats of both precisions, and such that do not lie row by row."""
    yield drawn(*shape)
    yield drawn(*shape, char="d")
    yield drawn(*[2 * n for n in shape])[tuple([slice(None, None, 2)] * len(shape))]


# Reductions ---------------------------------------------------------------------------------------


@at(sums._mean_full, sums._prod_full)
def _of_all(n: int) -> Iterator[Sample]:
    for input in (*in_layouts(n), *in_layouts(1, n), *in_layouts(n, 1), drawn(2, 3)):
        yield {"input": input}


@at(sums._mean_dims)
def _over_dims(n: int) -> Iterator[Sample]:
    yield from _of_all(n)
    for input in (*in_layouts(n, 3), *in_layouts(2, n)):
        for dim in ((0,), (1,), (0, 1), None):
            for keepdim in (False, True):
                yield {"input": input, "dim": dim, "keepdim": keepdim}


@at(sums._sum_full, sums._sum_dims)
def _sums(n: int) -> Iterator[Sample]:
    yield from _over_dims(n)
    yield {"input": drawn(n) > 0}


@at(sums._prod_dim)
def _along(n: int) -> Iterator[Sample]:
    yield {"input": drawn(), "dim": 0}
    for input in (*in_layouts(n), *in_layouts(2, n)):
        yield {"input": input, "dim": input.ndim - 1}
        yield {"input": input, "dim": 0, "keepdim": True}
    for input in in_layouts(2, 3, 2):
        yield {"input": input, "dim": 1}


@at(extremes._max_full, extremes._min_full)
def _extremes(n: int) -> Iterator[Sample]:
    for input in (*in_layouts(n), drawn(2, n)):
        yield {"input": input}


@at(order_statistics._median_full, order_statistics._nanmedian_full)
def _medians(n: int) -> Iterator[Sample]:
    for input in (*in_layouts(n), *in_layouts(1, n), drawn(n).round(), drawn(n, 1).T, drawn(2, 3)):
        yield {"input": input}
        yield {"input": numpy.where(input == input.max(initial=-9), numpy.nan, input)}


@at(norms.vector_norm)
def _norms(n: int) -> Iterator[Sample]:
    for input in (*in_layouts(n), *in_layouts(3, n)):
        for dim in (None, (0,)):
            for keepdim in (False, True):
                yield {"input": input, "dim": dim, "keepdim": keepdim}


@at(statistics._var, statistics._std, statistics._var_mean, statistics._std_mean)
def _spreads(n: int) -> Iterator[Sample]:
    for input in (*in_layouts(n), *in_layouts(3, n), *in_layouts(n, 1), drawn(5, 7).astype("e")):
        for dim in (None, (0,), *(((1,),) if input.ndim > 1 else ())):
            for keepdim in (False, True):
                yield {"input": input, "dim": dim, "keepdim": keepdim, "correction": 0}
                if input.size > 1:
                    yield {"input": input, "dim": None, "keepdim": keepdim}


# Scans and orders ---------------------------------------------------------------------------------


@at(scan.cumsum, scan.cumprod, scan.reverse_cumsum)
def _scans(n: int) -> Iterator[Sample]:
    near_one = {"f": 1 + drawn(512, 100) / 1000, "d": 1 + drawn(512, 100, char="d") / 1000}
    for input in (*in_layouts(n), *in_layouts(2, n), *in_layouts(3, n), *near_one.values()):
        for dim in range(input.ndim):
            yield {"input": input, "dim": dim}
    if n < 100:
        yield {"input": drawn(512, n), "dim": 1}


@at(scan.recurrence)
def _recurrences(n: int) -> Iterator[Sample]:
    for char in "fd":
        yield {"a": drawn(3, n, char=char), "b": drawn(3, n, char=char) + 1, "dim": 0}
        yield {"a": drawn(n, 3, char=char), "b": drawn(n, 3, char=char) + 1, "dim": 1}


@at(sorting._sort_default, sorting._sort_stable)
def _sorted(n: int) -> Iterator[Sample]:
    for input in (*in_layouts(n), drawn(n).round(), drawn(5, n // 4)):
        for descending in (False, True):
            yield {"input": input, "dim": input.ndim - 1, "descending": descending}


@at(sorting.argsort)
def _argsorted(n: int) -> Iterator[Sample]:
    for input in (*in_layouts(n), drawn(n).round(), drawn(5, n // 4), drawn(n).astype("i8")):
        for dim in range(input.ndim):
            for descending in (False, True):
                yield {"input": input, "dim": dim, "descending": descending}


@at(truth.all, truth.any)
def _truths(n: int) -> Iterator[Sample]:
    for input in (numpy.ones(n, "?"), numpy.zeros(n, "?"), drawn(n) > 0, drawn(2, n).T > 0):
        for dim, keepdim in ((None, False), (None, True), ((0,), False)):
            yield {"input": input, "dim": dim, "keepdim": keepdim}


@at(sorting._isin)
def _contained(n: int) -> Iterator[Sample]:
    for invert in (False, True):
        for test in (drawn(n)[:1], numpy.array([1, 2])):
            elements = drawn(n) if test.dtype.kind == "f" else numpy.arange(n)
            given = {"elements": elements, "test_elements": test}
            yield {**given, "assume_unique": False, "invert": invert}


# Elements -----------------------------------------------------------------------------------------


@at(arithmetic.add, arithmetic.sub)
def _with_factor(n: int) -> Iterator[Sample]:
    for one in each_precision(input=(n,), other=(n,)):
        for alpha in (1, 0.5, -2):
            yield {**one, "alpha": alpha}
        yield {"input": drawn(2, 1), "other": one["other"], "alpha": 3}


@at(direction.sgn, direction.sign)
def _signs(n: int) -> Iterator[Sample]:
    for input in (*in_layouts(n), *in_layouts(n, 2)):
        yield {"input": input}
        yield {"input": input * 0}


@at(arithmetic._lerp_number)
def _interpolated(n: int) -> Iterator[Sample]:
    for one in each_precision(input=(n,), end=(n,)):
        for weight in (0, 0.3, -0.7, 1):
            yield {**one, "weight": weight}


@at(arithmetic.lifted)
def _lifted(n: int) -> Iterator[Sample]:
    for input in in_layouts(n, 2):
        yield {"input": input, "bound": 0.25}


@at(extrema._clamp_numbers)
def _clamped(n: int) -> Iterator[Sample]:
    numbers = drawn(n) * 9
    for input in (numbers, numbers.astype("d"), numbers.astype("e"), numbers.astype("i4")):
        for min, max in ((-1, 2), (0.5, 0.25), (None, 1), (1, None)):
            yield {"input": input, "min": min, "max": max}


@at(exponentials.nan_to_num)
def _numbers(n: int) -> Iterator[Sample]:
    for input in in_layouts(n, 2):
        yield {"input": input}
    yield {"input": numpy.array([1, numpy.nan, numpy.inf], "f")}


@at(functions._polygamma)
def _polygammas(n: int) -> Iterator[Sample]:
    for char in "fd":
        for order in (0, 1, 3):
            yield {"input": numpy.asarray(abs(drawn(char=char)) + 1, char), "n": order}


@at(selection._where)
def _chosen_elements(n: int) -> Iterator[Sample]:
    condition = drawn(n, char="d") > 0
    for one in each_precision(input=(n,), other=(n,)):
        yield {"condition": condition, **one}
        yield {"condition": condition, "input": one["input"], "other": 0}
        yield {"condition": condition, "input": 0, "other": one["other"]}
        yield {"condition": condition, "input": one["input"][:1], "other": one["other"]}


@at(arithmetic.keep_where)
def _kept_elements(n: int) -> Iterator[Sample]:
    for input in (*in_layouts(n), numpy.arange(n), drawn(n).astype("e"), drawn(n, char="D")):
        yield {"input": input, "mask": drawn(n, char="d") > 0}
    yield {"input": drawn(2, n), "mask": drawn(n, char="d") > 0}


@at(selection.tril, selection.triu)
def _matrices(n: int) -> Iterator[Sample]:
    for shape in ((n, 3), (3, n), (n, n), (2, n, 3), (2, 3, n), (1, 2, 2)):
        for diagonal in (-n - 1, -1, 0, 2, n):
            yield {"input": drawn(*shape), "diagonal": diagonal}
            yield {"input": drawn(*shape[::-1], char="d").T, "diagonal": diagonal}


@at(gather.scatter_add)
def _added_elements(n: int) -> Iterator[Sample]:
    for one in each_precision(input=(4, 5), src=(3, 5)):
        index = numpy.arange(15).reshape(3, 5) % 4
        yield {**one, "dim": 0, "index": index}
        yield {**one, "dim": 0, "index": index[:, :2]}
    yield {"input": drawn(3), "src": drawn(n), "dim": 0, "index": numpy.arange(n) % 3}


@at(powers._pow_number)
def _powers(n: int) -> Iterator[Sample]:
    for input in (*in_layouts(n), numpy.arange(n)):
        for exponent in (2, 2.0, 3):
            yield {"input": input, "exponent": exponent}


@at(tiling._flip)
def _flipped(n: int) -> Iterator[Sample]:
    for input in (*in_layouts(n, 3), drawn(n, 3).T):
        yield {"input": input, "dims": (0,)}


@at(create_sizes._like)
def _like(n: int) -> Iterator[Sample]:
    for input in (*in_layouts(n, 3), drawn(n, 3).T):
        for number in (False, 2.5):
            options = {"dtype": input.dtype, "memory_format": preserve_format}
            yield {"input": input, "number": number, **options}


@at(fold._col2im)
def _columns(n: int) -> Iterator[Sample]:
    none = ((0, 0), (0, 0))
    for kernel, count, channels in (((2, 2), 2, 3), ((1, 1), n, 1)):
        step = {"stride": kernel, "padding": none, "dilation": (1, 1)}
        size = (kernel[0], kernel[1] * count)
        for one in each_precision(input=(channels * kernel[0] * kernel[1], count)):
            yield {**one, "size": size, "kernel": kernel, **step}


# Joins and rows -----------------------------------------------------------------------------------


@at(joining._stack)
def _stacks(n: int) -> Iterator[Sample]:
    for char in "fd":
        for dim in (0, 1):
            arrays = tuple(drawn(3, number + 1, char=char)[:, :1] for number in range(n))
            yield {"tensors": arrays, "dim": dim}


@at(rows.index_select)
def _selected(n: int) -> Iterator[Sample]:
    for dim in (0, 1):
        for index in (numpy.array([n - 1, 0, 0]), numpy.array(n - 1)):
            yield {"input": drawn(n, n), "dim": dim, "index": index}


# Products -----------------------------------------------------------------------------------------


def each_precision(**shapes: tuple[int, ...]) -> Iterator[Sample]:
    """Arrays of these shapes, in single and in double."""
    for char in "fd":
        yield {name: drawn(*shape, char=char) for name, shape in shapes.items()}


@at(products.mm)
def _mm(n: int) -> Iterator[Sample]:
    yield from each_precision(input=(2, n), mat2=(n, 1))
    yield from each_precision(input=(3, 4), mat2=(4, 20 * n))
    yield {"input": drawn(n, 2).T, "mat2": drawn(1, n).T}


@at(products.bmm)
def _bmm(n: int) -> Iterator[Sample]:
    yield from each_precision(input=(1, 2, n), mat2=(1, n, 3))
    yield from each_precision(input=(4, 2, n), mat2=(4, n, 3))


@at(products._matmul)
def _matmul(n: int) -> Iterator[Sample]:
    yield from each_precision(input=(4, 2, n), other=(4, n, 3))
    yield from each_precision(input=(4, 2, n), other=(n, 3))


@at(products.mv)
def _mv(n: int) -> Iterator[Sample]:
    yield from each_precision(input=(5, n), vec=(n,))


@at(products.dot)
def _dot(n: int) -> Iterator[Sample]:
    yield from each_precision(input=(n,), tensor=(n,))


@at(products.outer)
def _outer(n: int) -> Iterator[Sample]:
    yield from each_precision(input=(n,), vec2=(4,))


@at(product_sums.addmm)
def _addmm(n: int) -> Iterator[Sample]:
    yield from each_precision(input=(4,), mat1=(2, n), mat2=(n, 4))
    for one in each_precision(input=(2, 4), mat1=(2, n), mat2=(n, 4)):
        yield {**one, "beta": 0.5, "alpha": 2}


@at(matrices.trace)
def _trace(n: int) -> Iterator[Sample]:
    for input in (*in_layouts(1, n), *in_layouts(n, 1), *in_layouts(7, 5)):
        yield {"input": input}


@at(matrices._kron)
def _kron(n: int) -> Iterator[Sample]:
    yield from each_precision(input=(1, n), other=(1, 1))
    yield from each_precision(input=(8, 8), other=(8, 9))
    yield from each_precision(input=(n,), other=(1, 1))


@at(affine.linear)
def _linear(n: int) -> Iterator[Sample]:
    yield from each_precision(input=(1, n), weight=(1, n), bias=(1,))
    yield from each_precision(input=(1, n), weight=(1, n))
    yield from each_precision(input=(3, n), weight=(2, n))
    yield from each_precision(input=(5, 20), weight=(16, 20), bias=(16,))
    yield from each_precision(input=(128, 64), weight=(64, 64), bias=(64,))
    yield from each_precision(input=(4, 32, 64), weight=(64, 64), bias=(64,))
    yield from each_precision(input=(2, 3, 5), weight=(4, 5))
    yield from each_precision(input=(2, 3, 5), weight=(4, 5), bias=(4,))
    yield from each_precision(input=(1, 1, n), weight=(1, n))
