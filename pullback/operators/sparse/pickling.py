"""Sparse tensors in pickles: a module that a process without sparse tensors can begin with."""

from __future__ import annotations

from typing import Any

from pullback.core.layout import sparse_coo
from pullback.core.tensor import Tensor, wrap
from pullback.operators.sparse.array import SparseArray, pattern_of
from pullback.operators.sparse.pattern import compressed, coordinates, declared
from pullback.operators.tensor.pickling import attributes_of, warn_of_hooks

__all__ = ["rebuilt", "reduce"]


def rebuilt(
    layout: Any,
    parts: tuple[Any, ...],
    values: Any,
    size: tuple[int, ...],
    coalesced: bool,
    requires_grad: bool,
    attributes: dict[str, Any],
) -> Tensor:
    """What a pickle calls to make the tensor again."""
    from pullback.operators.sparse import convert  # noqa: F401 (lets operators take the tensor)

    if layout is sparse_coo:
        places = coordinates(parts[0], size, values.ndim - 1)
        pattern = declared(places, coalesced=coalesced)
    else:
        batch = parts[0].ndim - 1
        block = values.shape[batch + 1 : batch + 3] if layout._name[7] == "b" else ()
        pattern = compressed(layout, parts[0], parts[1], size, tuple(block))
    made = wrap(SparseArray(pattern, values))
    if requires_grad:
        made.requires_grad_()
    vars(made).update(attributes)
    return made


def reduce(self: Any, protocol: Any) -> tuple[Any, ...]:
    """What a pickle keeps of a sparse tensor."""
    warn_of_hooks(self)
    pattern = pattern_of(self)
    state = pattern.shape, pattern.coalesced, self.requires_grad, attributes_of(self)
    return rebuilt, (self.layout, pattern.index_arrays, self._array.values, *state)
