"""Sparse inputs of gradcheck: which of their elements are moved.

Specified ones with `masked=True`, each once: sums stand for values at one place. Without, all:
while the function is evaluated beside the input, that has every place specified.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.core.tensor import Tensor

__all__ = ["all_specified", "movable", "refuse_sparse"]


def movable(input: Tensor) -> tuple[Array, Sequence[int]]:
    """The values of a sparse tensor without their dense dimensions, and the number of each."""
    array = input._array
    pattern = array.pattern
    array.values = numpy.ascontiguousarray(array.values)  # to be moved where they are
    width = int(numpy.prod(pattern.dense_shape))
    rows = pattern.keys[:, None] * width + numpy.arange(width)
    return array.values.reshape(-1), rows.reshape(-1).tolist()


@contextmanager
def all_specified(inputs: dict[int, Tensor], *, masked: bool) -> Iterator[None]:
    """Specify every place of the sparse inputs for a while; if `masked`, each of theirs once."""
    from pullback.operators.sparse.array import SparseArray, values_at
    from pullback.operators.sparse.layouts import full_pattern

    before: list[tuple[Any, ...]] = []
    for one in inputs.values():
        if one._layout is None or (masked and one._array.pattern.is_unique):
            continue
        array = one._array
        pattern = array.pattern.merging[0] if masked else full_pattern(array.pattern)
        values = values_at(array, pattern).reshape(pattern.values_shape)
        before.append((array, array.pattern, array.values, array.shown))
        array.become(SparseArray(pattern, values))
    try:
        yield
    finally:
        for array, own, old, shown in before:
            array.pattern, array.values, array.shown = own, old, shown


def refuse_sparse(outputs: Sequence[Tensor]) -> None:
    """Sparse outputs have no elements to compare."""
    for one in outputs:
        if one._layout is not None:
            raise ValueError(
                f"gradcheck: an output has layout {one.layout}; let the function end with "
                "to_dense(masked_grad=...)."
            )
