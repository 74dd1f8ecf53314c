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
from pullback.operators.reduce import sums

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
