"""Forward derivatives of functions: func.jvp, each call with a perturbation of its own.

The inputs enter as duals on whole batches; a tangent may be batched at levels where its value is
not (jacfwd maps over tangents alone), and then stays wrapped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy import ndarray

from pullback.core.captured import Scope
from pullback.core.forward import Inside, Level
from pullback.core.mode import FRESH, Mode, current, get_mode, settle
from pullback.core.nesting import Derivative, running
from pullback.core.process.whole import Whole
from pullback.core.tensor import Tensor, blanks
from pullback.core.version import INFERENCE_CELL
from pullback.core.view import DEFAULT, CreationMeta, Manner, View
from pullback.operators import derive
from pullback.operators.create.sizes import zeros_like
from pullback.operators.shape.reshaping import view_as
from pullback.transforms.batched import (
    Batched,
    base_of,
    exposed,
    hidden,
    hidden_like,
    levels_of,
    with_levels,
)


class Pushing(Whole):
    """One forward derivative; as a context, the time while the function runs."""

    listed = True  # among the derivatives that this thread takes

    def __init__(
        self,
        transform: str,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        scope: Scope | None = None,
        level: Level | None = None,
    ) -> None:
        self.transform = transform
        self.scope = scope
        self.primals = primals
        self.tangents = tangents

        before = get_mode()
        self.before = before if before is not FRESH else settle()
        self._outside = running.get()
        self._inside = Inside(self.before, level)
        self.level = self._inside.level

    def _enter(self) -> list[Any]:
        """Open the level; the inputs, each with its tangent."""
        self._inside.open()
        before = self.before
        if self.listed:
            place = len(self._outside) + 1
            made = (self.transform, place, self.level, self.scope, (), before.levels)
            running.set((*self._outside, tuple.__new__(Derivative, made)))
        current.set(self._inside.mode)
        duals = []
        alone = len(self._inside.seen) == 1  # a tangent of an outer derivative goes along, too
        for primal, tangent in zip(self.primals, self.tangents, strict=True):
            dual = _plain_dual(primal, tangent, self.level, before) if alone else None
            duals.append(self._dual(primal, tangent) if dual is None else dual)
        return duals

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
        given = derive.owned(given, base, shared=False)  # and those that lay memory out anew
        self.level.put(dual, given)
        return hidden(dual, levels)

    def tangent_of(self, output: Any) -> Any:
        """The tangent of an output, or None; to be asked for while the level is open."""
        if output.__class__ is Tensor:
            return self.level.get(output)
        if not isinstance(output, Tensor):
            return None
        tangent = self.level.get(base_of(output))
        return None if tangent is None else hidden_like(tangent, output)

    def tangent_or_zeros(self, output: Any) -> Any:
        """The tangent of an output, zeros where it has none."""
        tangent = self.tangent_of(output)
        return zeros_like(output) if tangent is None else tangent


class Within(Pushing):
    """A perturbation inside of an operator's own rule: not a derivative that the user takes.

    So `detach_()` in a rule, which is for the innermost derivative alone, does not mean this one.
    """

    listed = False


# A dual is a view of its value, but its tangent has nothing to do with its base's.
_DUAL, _DUAL_UNRECORDED = Manner(DEFAULT, False), Manner(CreationMeta.NO_GRAD_MODE, False)


def _plain_dual(primal: Any, tangent: Any, level: Level, before: Mode) -> Any:
    """The dual of two tensors of real numbers without history; None: there is more to look at."""
    held = tangent.value if tangent.__class__ is Batched else tangent
    if not (primal.__class__ is Tensor is held.__class__ and primal._node is None is held._node):
        return None
    array, cell = primal._array, primal._cell
    if array.__class__ is not ndarray or array.dtype.kind != "f" or cell is INFERENCE_CELL:
        return None
    if held._array.dtype.kind != "f" or before.inference:
        return None
    if not (array.flags.c_contiguous and held._array.flags.c_contiguous):
        return None
    if held is not tangent and tangent.bdim:
        return None
    if cell.__class__ is tuple:
        cell = primal._cell = [*cell]
    dual = next(blanks)
    dual._array = array.view()
    info = View()
    info.base, info.node, info.version = primal, None, cell[0]
    info.manner = _DUAL if before.grad else _DUAL_UNRECORDED
    info.cell = dual._cell = cell
    dual._node = info
    level.put(dual, tangent)
    return dual
