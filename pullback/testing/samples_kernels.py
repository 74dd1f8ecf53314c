"""Sample arguments around the sizes at which kernels take over, for `tests/operators/test_kernels`.

A function here is given a number at which the condition of some kernel of its operators changes its
answer (`at_most(1024)`: 1023, 1024, 1025), and yields arguments by name for forwards on arrays, in
which whatever conditions compare is that number somewhere.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy

from pullback.operators.declare import REQUIRED, Op
from pullback.operators.indexing import rows
from pullback.operators.linalg import affine, matrices, product_sums, products
from pullback.operators.nn.activation import softmax
from pullback.operators.nn.attention import dot_product
from pullback.operators.nn.pool import average, maximum, places
from pullback.operators.nn.pool.shapes import Geometry
from pullback.operators.reduce import extremes, norms, statistics, sums
from pullback.operators.shape import joining

__all__ = ["SAMPLES", "Sample", "samples_of"]

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


def _each_precision(**shapes: tuple[int, ...]) -> Iterator[Sample]:
    for char in "fd":
        yield {name: drawn(*shape, char=char) for name, shape in shapes.items()}


@at(products.mm)
def _mm(n: int) -> Iterator[Sample]:
    yield from _each_precision(input=(2, n), mat2=(n, 1))
    yield from _each_precision(input=(3, 4), mat2=(4, 20 * n))
    yield {"input": drawn(n, 2).T, "mat2": drawn(1, n).T}


@at(products.bmm)
def _bmm(n: int) -> Iterator[Sample]:
    yield from _each_precision(input=(1, 2, n), mat2=(1, n, 3))
    yield from _each_precision(input=(4, 2, n), mat2=(4, n, 3))


@at(products._matmul)
def _matmul(n: int) -> Iterator[Sample]:
    yield from _each_precision(input=(4, 2, n), other=(4, n, 3))
    yield from _each_precision(input=(4, 2, n), other=(n, 3))


@at(products.mv)
def _mv(n: int) -> Iterator[Sample]:
    yield from _each_precision(input=(5, n), vec=(n,))


@at(products.dot)
def _dot(n: int) -> Iterator[Sample]:
    yield from _each_precision(input=(n,), tensor=(n,))


@at(products.outer)
def _outer(n: int) -> Iterator[Sample]:
    yield from _each_precision(input=(n,), vec2=(4,))


@at(product_sums.addmm)
def _addmm(n: int) -> Iterator[Sample]:
    yield from _each_precision(input=(4,), mat1=(2, n), mat2=(n, 4))
    for one in _each_precision(input=(2, 4), mat1=(2, n), mat2=(n, 4)):
        yield {**one, "beta": 0.5, "alpha": 2}


@at(matrices.trace)
def _trace(n: int) -> Iterator[Sample]:
    for input in (*in_layouts(1, n), *in_layouts(n, 1), *in_layouts(7, 5)):
        yield {"input": input}


@at(matrices._kron)
def _kron(n: int) -> Iterator[Sample]:
    yield from _each_precision(input=(1, n), other=(1, 1))
    yield from _each_precision(input=(8, 8), other=(8, 9))
    yield from _each_precision(input=(n,), other=(1, 1))


@at(affine.linear)
def _linear(n: int) -> Iterator[Sample]:
    yield from _each_precision(input=(1, n), weight=(1, n), bias=(1,))
    yield from _each_precision(input=(1, n), weight=(1, n))
    yield from _each_precision(input=(3, n), weight=(2, n))
    yield from _each_precision(input=(5, 20), weight=(16, 20), bias=(16,))
    yield from _each_precision(input=(128, 64), weight=(64, 64), bias=(64,))
    yield from _each_precision(input=(4, 32, 64), weight=(64, 64), bias=(64,))


# Rows ---------------------------------------------------------------------------------------------


@at(softmax.softmax, softmax.log_softmax)
def _softmax(n: int) -> Iterator[Sample]:
    for input in (*in_layouts(1, n), drawn(n, 1), drawn(2, 3, 4), drawn(n), drawn(n, char="d")):
        for dim in range(input.ndim):
            yield {"input": input, "dim": dim}
    yield {"input": drawn(2, n).astype("e"), "dim": 1}
    yield {"input": drawn(n, 3) * 50, "dim": 1}


def _softmax_gradients(n: int, function: Any) -> Iterator[Sample]:
    for one in _softmax(n):
        input, dim = one["input"], one["dim"]
        output = function.op.meaning(numpy, input, dim)
        gradient = drawn(*input.shape[::-1]).reshape(input.shape).astype(input.dtype)
        yield {"gradient": gradient, "output": output, "dim": dim}


SAMPLES[softmax._softmax_adjoint.op] = lambda n: _softmax_gradients(n, softmax.softmax)  # type: ignore[attr-defined]  # declared
SAMPLES[softmax._log_softmax_adjoint.op] = lambda n: _softmax_gradients(n, softmax.log_softmax)  # type: ignore[attr-defined]  # declared


@at(dot_product._attention_weights)
def _attention_weights(n: int) -> Iterator[Sample]:
    for causal in (False, True):
        for shapes in (((1, n), (1, 1)), ((n, 1), (1, 1)), ((2, 2, 32, 16), (2, 2, 64, 16))):
            for one in _each_precision(query=shapes[0], key=shapes[1][:-1] + shapes[0][-1:]):
                yield {**one, "factor": 0.25, "causal": causal}


@at(dot_product._mix)
def _mix(n: int) -> Iterator[Sample]:
    for queries, keys, width in ((1, 1, n), (64, 32, 32)):
        for char in "fd":  # a head out of several, as they lie when one product made all
            heads = drawn(2, keys, 3, width, char=char).swapaxes(1, 2)[:1, :1]
            yield {"weights": drawn(1, 1, queries, keys, char=char), "value": heads}
    yield {"weights": drawn(1, 1, n, 1), "value": drawn(1, 1, 1, 1)}


# Pooling ------------------------------------------------------------------------------------------


def _pairs(dims: int, n: int) -> Geometry:
    """Windows of two side by side, along each of so many dimensions; the last one has n places."""
    two = (2,) * dims
    return Geometry(two, two, ((0, 0),) * dims, (1,) * dims, (*(1,) * (dims - 1), n // 2))


def _pooled(dims: int, n: int) -> Iterator[tuple[Any, Geometry]]:
    shape = (*(2,) * (dims - 1), n)
    # One image of n places and more: whatever is compared with n is the number of elements.
    yield (
        drawn(1, 1, *(1,) * (dims - 1), n),
        _pairs(dims, n)._replace(kernel=(*(1,) * (dims - 1), 2), stride=(*(1,) * (dims - 1), 2)),
    )
    for char in "fd":
        yield drawn(3, 2, *shape, char=char), _pairs(dims, n)
        yield drawn(3, 2, *shape[:-1], 8, char=char), _pairs(dims, 8)
    yield drawn(2, *shape, 3).transpose(0, dims + 1, *range(1, dims + 1)), _pairs(dims, n)


def _for_pools(pools: dict[int, Any], *more: str) -> None:
    for dims, pool in pools.items():

        def sampler(n: int, dims: int = dims) -> Iterator[Sample]:
            for input, geometry in _pooled(dims, n):
                numbers = {"divisor": 2**dims} if "divisor" in more else {}
                yield {"input": input, "geometry": geometry, **numbers}
            if more:
                yield {
                    "input": drawn(1, 2, *(2,) * (dims - 1), 6).astype("e"),
                    "geometry": _pairs(dims, 6),
                    "divisor": 2,
                }

        SAMPLES[pool.op] = sampler


_for_pools(average._POOLS, "divisor")
_for_pools(average._ADAPTIVE_POOLS, "divisor")
_for_pools({2: average._average}, "divisor")
_for_pools(maximum._POOLS)
_for_pools(maximum._ADAPTIVE_POOLS)
_for_pools({2: maximum._bare_max_pool})


@at(average._spread_average)
def _spread_average(n: int) -> Iterator[Sample]:
    for dims, lead, width in ((1, (n, 1), 2), (2, (3, 2), n), (2, (3, 2), 8)):
        geometry = _pairs(dims, width)
        for char in "fd":
            given = drawn(*lead, *geometry.number, char=char)
            size = tuple(2 * one for one in geometry.number)
            yield {"input": given, "size": size, "geometry": geometry, "divisor": 4}
    half = drawn(3, 2, 1, 3).astype("e")
    yield {"input": half, "size": (2, 6), "geometry": _pairs(2, 6), "divisor": 2}


@at(places.put_places)
def _put_places(n: int) -> Iterator[Sample]:
    for char in "fd":
        spots = numpy.arange(n)[::-1].copy().reshape(1, n)
        for apart in (False, True):
            given = {"gradient": drawn(1, n, char=char), "places": spots, "size": (n + 2,)}
            yield {**given, "apart": apart}
