"""Sample arguments for kernels of layers: softmax, losses, attention, convolutions, pools.

As in `samples_kernels`, whose other half this is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from pullback.operators.nn.activation import softmax
from pullback.operators.nn.attention import dot_product
from pullback.operators.nn.conv import operators as conv
from pullback.operators.nn.loss import classes
from pullback.operators.nn.norm import kernels, standardise
from pullback.operators.nn.norm.layout import Over, layout
from pullback.operators.nn.pool import average, maximum, places
from pullback.operators.nn.pool.shapes import Geometry
from pullback.testing.samples_kernels import SAMPLES, Sample, at, drawn, each_precision, in_layouts

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


@at(classes.nll_of_indices, classes.cross_entropy_of_indices)
def _class_losses(n: int) -> Iterator[Sample]:
    for shape in ((1, n), (n, 1), (5, 7), (64, 40)):
        for char in "fd":
            input = drawn(*shape, char=char) if shape[0] > 1 else drawn(*shape, char=char) / 2
            target = numpy.arange(shape[0]) % max(shape[1], 1)
            for reduction in ("mean", "sum"):
                options = {"weight": None, "ignore_index": -100, "reduction": reduction}
                if input.size:
                    yield {"input": input, "target": target, **options}
    yield {"input": drawn(5, 7) * 90, "target": numpy.arange(5), **options}
    yield {"input": drawn(64, 40), "target": numpy.arange(64) % 8, **options, "reduction": "none"}
    if n:
        target = numpy.zeros(n, numpy.int64)
        yield {"input": drawn(n, 1), "target": target, **options, "weight": abs(drawn(1))}
    yield {"input": drawn(64, 40), "target": numpy.arange(64) % 8, **options, "ignore_index": 3}


@at(classes._nll_adjoint)
def _class_places(n: int) -> Iterator[Sample]:
    for one in _class_losses(n):
        input = one.pop("input")
        rows = (len(input),) if one["reduction"] == "none" else ()
        yield {"gradient": drawn(*rows, char=input.dtype.char), "shape": input.shape, **one}


@at(classes._cross_entropy_adjoint)
def _class_slopes(n: int) -> Iterator[Sample]:
    for one, shaped in zip(_class_losses(n), _class_places(n), strict=True):
        yield {"gradient": shaped["gradient"], **one}


@at(dot_product._attention_weights)
def _attention_weights(n: int) -> Iterator[Sample]:
    for causal in (False, True):
        for shapes in (((1, n), (1, 1)), ((n, 1), (1, 1)), ((2, 2, 32, 16), (2, 2, 64, 16))):
            for one in each_precision(query=shapes[0], key=shapes[1][:-1] + shapes[0][-1:]):
                yield {**one, "factor": 0.25, "causal": causal}


@at(dot_product._mix)
def _mix(n: int) -> Iterator[Sample]:
    for queries, keys, width in ((1, 1, n), (64, 32, 32)):
        for char in "fd":  # a head out of several, as they lie when one product made all
            heads = drawn(2, keys, 3, width, char=char).swapaxes(1, 2)[:1, :1]
            yield {"weights": drawn(1, 1, queries, keys, char=char), "value": heads}
    yield {"weights": drawn(1, 1, n, 1), "value": drawn(1, 1, 1, 1)}


# Convolutions -------------------------------------------------------------------------------------


def _convolved(n: int) -> Iterator[tuple[Sample, dict[str, Any]]]:
    """Images and filters, and how windows lie."""
    shapes = [
        ((1, 1, 1, n), (1, 1, 1, 1), 1, 1),
        ((1, 2, 5, 6), (3, 2, 3, 3), 1, 1),
        ((3, 4, 7, 6), (4, 2, 3, 2), 2, 2),
        ((4, 16, 16, 16), (16, 16, 3, 3), 1, 1),
        ((8, 3, 20, 20), (64, 3, 3, 3), 1, 1),
        ((2, 16, 12, 12), (16, 8, 3, 3), 1, 2),
        ((1, 16, 16, 16, 16), (32, 16, 3, 3, 3), 1, 1),
        ((4, 16, 17, 17), (16, 16, 3, 3), 2, 1),
        ((4, 6, 16, 16), (128, 3, 3, 3), 1, 2),
    ]
    for images, filters, step, groups in shapes:
        dims = len(images) - 2
        pads = ((1, 1),) * dims if filters[-1] > 1 else ((0, 0),) * dims
        how: Sample = {"stride": (step,) * dims, "padding": pads, "dilation": (1,) * dims}
        for one in each_precision(input=images, weight=filters):
            yield one, {**how, "groups": groups}
    how = {"stride": (2, 2), "padding": ((0, 0), (0, 0)), "dilation": (2, 2), "groups": 1}
    for one in each_precision(input=(4, 8, 15, 15), weight=(64, 8, 3, 3)):
        yield one, how


def _forward(function: Any, *arrays: Any, **options: Any) -> Any:
    return function.op.forward(numpy, *arrays, **options)


@at(conv.convolution)
def _convolutions(n: int) -> Iterator[Sample]:
    for one, how in _convolved(n):
        yield {**one, "bias": None, **how}
        yield {**one, "bias": drawn(len(one["weight"]), char=one["input"].dtype.char), **how}


@at(conv.transposed_convolution)
def _transposed_convolutions(n: int) -> Iterator[Sample]:
    for one, how in _convolved(n):
        given = {"bias": None, **how}
        size = one["input"].shape[2:]
        made = _forward(conv.convolution, one["input"], one["weight"], **given)
        bias = drawn(one["input"].shape[1], char=made.dtype.char)
        yield {"input": made, "weight": one["weight"], "size": size, **given}
        yield {"input": made, "weight": one["weight"], "size": size, **given, "bias": bias}


@at(conv.convolution_weight)
def _filter_gradients(n: int) -> Iterator[Sample]:
    for one, how in _convolved(n):
        made = _forward(conv.convolution, one["input"], one["weight"], None, **how)
        yield {"gradient": made, "input": one["input"], "kernel": one["weight"].shape[2:], **how}


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
    if n > 10_000:  # many images, of few elements each
        yield drawn(n, 2, *(2,) * dims), _pairs(dims, 2)
        return
    for char in "fd":
        yield drawn(3, 2, *shape, char=char), _pairs(dims, n)
        yield drawn(3, 2, *shape[:-1], 8, char=char), _pairs(dims, 8)
    yield drawn(2, *shape, 3).transpose(0, dims + 1, *range(1, dims + 1)), _pairs(dims, n)


def _for_pools(pools: dict[int, Any], *more: str) -> None:
    for dims, pool in pools.items():

        def sampler(n: int, dims: int = dims) -> Iterator[Sample]:
            for input, geometry in _pooled(dims, n):
                if n > 10_000 and not more:  # which machine code takes no part in
                    yield {"input": (input * 9).astype("q"), "geometry": geometry}
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
    for gradient in (drawn(3, n), drawn(n, 3).T, drawn(3, n).astype("e")):
        spots = numpy.arange(3 * n).reshape(3, n) % n
        yield {"gradient": gradient, "places": spots, "size": (n + 2,), "apart": True}


# Norms --------------------------------------------------------------------------------------------


def _normed(input: Any, over: Over, *, known: bool = False) -> Iterator[Sample]:
    """With weights and without; by statistics that the caller has, where they are `known`."""
    shape = input.shape
    each = shape[1:2] if over.channel is not None else shape[-1:]
    weight, bias = (drawn(*each, char=input.dtype.char) for _ in range(2))
    found = None
    if known:
        found = kernels.channel_statistics(numpy, input, layout(shape, over), over)
    for given in ((None, None), (weight, bias), (weight, None), (None, bias)):
        yield {"input": input, "weight": given[0], "bias": given[1], "over": over, "known": found}


@at(standardise.layer_standardise, standardise.group_standardise, standardise.batch_standardise)
def _norms(n: int) -> Iterator[Sample]:
    """Layer, RMS, group, instance and batch norm, and norms over dimensions that are not last."""
    n = max(n, 2)
    by_channel = Over((0, 2), 1e-3, channel=1)
    for char in "fd":
        rows = drawn(max(n // 8, 1), 8, char=char) + 3
        for over in (Over((1,), 1e-3), Over((1,), 1e-3, centred=False)):
            for input in (rows, drawn(2, n, char=char), drawn(1, n, char=char), rows.T.copy().T):
                yield from _normed(input, over)
        wide = drawn(n, 1, 1, char=char)
        yield from _normed(wide, by_channel)
        yield from _normed(drawn(3, n, 2, char=char), by_channel)
        yield from _normed(drawn(1, 3, n, char=char), by_channel)
        yield from _normed(drawn(2, 4, n, char=char), Over((2, 3), 1e-3, channel=1, groups=2))
        yield from _normed(drawn(4, 2, n, char=char), Over((2,), 1e-3, channel=1))
        yield from _normed(drawn(3, 4 * n, char=char), Over((2,), 1e-3, channel=1, groups=2))
        yield from _normed(drawn(64, 48, char=char), Over((0,), 1e-3))
        yield from _normed(drawn(n, 40, char=char), Over((0,), 1e-3, channel=1))


def _norms_by_statistics(n: int) -> Iterator[Sample]:
    for char in "fd":
        for shape in ((1, 1, n), (8, 4, 70), (4, 3), (3, 2, 5)):
            if all(shape):
                over = Over((0, *range(2, len(shape))), 1e-3, channel=1)
                yield from _normed(drawn(*shape, char=char), over, known=True)


@at(standardise.batch_standardise)
def _batch_norms(n: int) -> Iterator[Sample]:
    yield from _norms(n)
    yield from _norms_by_statistics(n)
