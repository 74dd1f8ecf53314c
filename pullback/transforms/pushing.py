"""Forward derivatives of functions: func.jvp, each call with a perturbation of its own.

The inputs enter as duals on whole batches; a tangent may be batched at levels where its value is
not (jacfwd maps over tangents alone), and then stays wrapped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.core.captured import Scope
from pullback.core.forward import Inside
from pullback.core.mode import current, settle
from pullback.core.nesting import Derivative, running
from pullback.core.process.whole import Whole
from pullback.core.tensor import Tensor
from pullback.operators.create.sizes import zeros_like
from pullback.operators.shape.reshaping import view_as
from pullback.transforms.batched import (
    base_of,
    exposed,
    hidden,
    hidden_like,
    levels_of,
    with_levels,
)


class Pushing(Whole):
    """One forward derivative; as a context, the time while the function runs."""

    def __init__(
        self,
        transform: str,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        scope: Scope | None = None,
    ) -> None:
        self.transform = transform
        self.scope = scope
        self.primals = primals
        self.tangents = tangents

        self.before = settle()
        self._outside = running.get()
        self._inside = Inside(self.before)
        self.level = self._inside.level

    def _enter(self) -> list[Any]:
        """Open the level; the inputs, each with its tangent."""
        self._inside.open()
        derivative = Derivative(
            self.transform,
            len(self._outside) + 1,
            self.level,
            self.scope,
            levels=self.before.levels,
        )
        running.set((*self._outside, derivative))
        current.set(self._inside.mode)
        return [self._dual(p, t) for p, t in zip(self.primals, self.tangents, strict=True)]

    def _leave(self) -> None:
        current.set(self.before)
        running.set(self._outside)
        self._inside.close()

    def _dual(self, primal: Any, tangent: Any) -> Any:
        levels = sorted(levels_of(primal), key=lambda level: level.number)
        base = exposed(primal, levels)
        with with_levels(()):
            dual = view_as(base, base)
        if dual._is_view():  # inference tensors have none
            dual._node.change(forward=False)
        given = exposed(tangent, levels)
        if base_of(given).requires_grad:
            self.level.tracked = True
        if given.is_conj() and not base.is_conj():
            given = given.resolve_conj()  # views of another dtype reach tangents, too
        self.level.put(dual, given)
        return hidden(dual, levels)

    def tangent_of(self, output: Any) -> Any:
        """The tangent of an output, or None; to be asked for while the level is open."""
        if not isinstance(output, Tensor):
            return None
        tangent = self.level.get(base_of(output))
        return None if tangent is None else hidden_like(tangent, output)

    def tangent_or_zeros(self, output: Any) -> Any:
        """The tangent of an output, zeros where it has none."""
        tangent = self.tangent_of(output)
        return zeros_like(output) if tangent is None else tangent
