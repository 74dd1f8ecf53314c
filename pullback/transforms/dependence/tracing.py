"""Runs a function once, and finds which input elements each output element depends on.

A handler below autograd and all transforms is shown every call, those of backward passes and of
tangents too; inside of it a level meets the declared operators that the call consists of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from pullback.core.mode import changed, current, get_mode, settle
from pullback.core.tensor import Tensor
from pullback.operators import derive
from pullback.operators.declare import Op
from pullback.operators.dispatch import dispatch
from pullback.operators.running.inplace import call_inplace
from pullback.transforms.dependence.relations import places_in, related
from pullback.transforms.dependence.sets import Sets, union
from pullback.transforms.dependence.shadow import Shadow
from pullback.transforms.functional_level import FunctionalLevel

__all__ = ["traced"]


def traced(function: Callable[[], Any], inputs: Sequence[Tensor]) -> tuple[Any, Shadow]:
    """The result of a function, and what all memory depends on: elements of the inputs, counted on.

    The memory of the inputs must be theirs alone.
    """
    shadow = Shadow()
    first = 0
    for one in inputs:
        numbers = numpy.arange(first, first + one.numel())
        first += one.numel()
        shadow.write(one._array, Sets(numpy.arange(numbers.size + 1), numbers))
    before = settle()
    try:
        current.set(changed(before, dispatch=(*before.dispatch, _Handler(shadow))))
        return function(), shadow
    finally:
        current.set(before)
        dispatch.forget()


class _Handler:
    """Stands where the dispatch modes of users do."""

    takes_declared = True

    def __init__(self, shadow: Shadow) -> None:
        self.shadow = shadow

    def __torch_dispatch__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        before = get_mode()
        level = _Following(self.shadow)
        try:
            current.set(changed(before, levels=(*before.levels, level)))
            return func(*args, **kwargs)
        finally:
            current.set(before)
            level.open = False


class _Following(FunctionalLevel):
    """Meets the operators, and keeps the shadow up to date."""

    __slots__ = ("shadow",)

    transform = "sparsity"

    def __init__(self, shadow: Shadow) -> None:
        super().__init__(keeps_views=True)
        self.shadow = shadow

    def process(self, op: Op, bound: dict[str, Any]) -> Any:
        """Run an operator; its results depend on what their elements are made of."""
        made = self._run(lambda: op.function(**bound), shown=True)
        results = made if isinstance(made, tuple | list) else (made,)
        for one in results:
            if op.kind != "view" and isinstance(one, Tensor) and one.dtype.is_differentiable:
                array = _memory(one)
                found = self._sets(op, bound, one)
                if found is not None or not _shares(array, op, bound):
                    self.shadow.write(array, found)
        return made

    def process_inplace(self, op: Op, called: str, target: Tensor, bound: dict[str, Any]) -> Tensor:
        """Run a write; what was in that memory is replaced."""
        found = self._sets(op, bound, target)
        made: Tensor = self._run(lambda: call_inplace(op, called, (), bound), shown=True)
        if target.dtype.is_differentiable:
            self.shadow.write(_memory(target), found)
        return made

    def _sets(self, op: Op, bound: dict[str, Any], result: Tensor) -> Sets | None:
        if op.jvp is None and not op.rules:
            return None
        felt = derive.felt_inputs(op)
        moving = []
        for place in places_in(op, bound):
            if place.name not in felt or not place.tensor.dtype.is_differentiable:
                continue
            sets = self.shadow.read(_memory(place.tensor))
            if sets is not None:
                moving.append((place, sets))
        if not moving:
            return None
        ids = {id(place.tensor) for place, _ in moving}
        shape = tuple(result.shape)

        def united() -> Sets:
            parts = [related(op, bound, place, sets, shape, ids) for place, sets in moving]
            return union(result.numel(), parts)

        made: Sets = self._run(united, shown=False)
        return made


def _memory(tensor: Tensor) -> Any:
    array = tensor._raw
    if not isinstance(array, numpy.ndarray) or tensor._layout is not None:
        raise RuntimeError(
            f"sparsity: {type(tensor).__name__} of layout {tensor.layout} on {tensor.device} was "
            "met; patterns are found for dense tensors on the CPU. Give the pattern yourself, as "
            "pattern=SparsityPattern(...)."
        )
    return array


def _shares(array: Any, op: Op, bound: dict[str, Any]) -> bool:
    """Whether a result lies on memory of an input: what is known of that is right."""
    return any(
        numpy.may_share_memory(array, _memory(place.tensor)) for place in places_in(op, bound)
    )
