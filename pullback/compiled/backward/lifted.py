"""The walk for compilers of the user's: all that a pass touches, as five lists of inputs.

Tensors, hooks and other objects, and what saved-tensor hooks packed are lifted out of the graph, so
one captured function serves every graph of the same key. Hooks are known by their place, which ones
they are is no part of the key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from pullback.autograd.function import capture
from pullback.autograd.function.saved import AsIs, Kept, OwnResult
from pullback.compiled.backward.graph import Graph, Unsupported, hooks_of, option_part
from pullback.compiled.backward.resized import factors_of
from pullback.core.dtype import dtype
from pullback.core.node import AccumulateGrad
from pullback.core.saved import Packed
from pullback.core.tensor import wrap
from pullback.core.version import UNWRITTEN

__all__ = ["Lifted", "Lifting", "hooks_at_node", "plan_of", "saved_by"]


@dataclass(frozen=True)
class Lifted:
    """What stands at a place of one of the five lists."""

    name: str
    place: int


def plan_of(node: Any) -> Any:
    """How a declared operator's node keeps what it needs; None for other nodes."""
    return getattr(type(node), "plan", None)


def hooks_at_node(node: Any) -> dict[Any, list[Any]]:
    """The hooks of a node or leaf by sort, each in its order."""
    found: dict[Any, list[Any]] = {}
    cold = node._cold
    if isinstance(node, AccumulateGrad):
        leaf = node.variable
        found["tensor", 0] = list((leaf._leaf_hooks or {}).values())
        found["accumulated"] = list((leaf._post_accumulate_grad_hooks or {}).values())
    elif cold is not None:
        for number, hooks in (cold.tensor_hooks or {}).items():
            found["tensor", number] = list(hooks.values())
        found["retained"] = list(cold.retained or ())
    if cold is not None:
        found["pre"] = list((cold.pre_hooks or {}).values())
        found["post"] = list((cold.post_hooks or {}).values())
    return {sort: hooks for sort, hooks in found.items() if hooks}


def saved_by(node: Any) -> list[tuple[Any, Any, Any, int]] | None:
    """What a custom Function saved: array, tensor or None, counter, version.

    None where that cannot be told without a user's code.
    """
    if not node._by_user:
        return None
    saved = node._saved
    if saved.__class__ is tuple:
        found = [
            (one._array, one, one._cell, v) for one, v in zip(saved, node._versions, strict=True)
        ]
    elif isinstance(saved, Kept) and not saved.once:
        found = []
        for one in saved:
            if isinstance(one, AsIs):
                found.append((one.tensor._array, one.tensor, one.tensor._cell, one.version))
            elif isinstance(one, OwnResult):
                found.append((one.array, None, one.cell, one.version))
            elif one is not None:
                return None
    else:
        return None
    return found if all(type(one[0]) is numpy.ndarray for one in found) else None


def _about(node: Any) -> list[Any] | None:
    """The rest of a Function's context, as parts of a key; None where it holds other objects."""
    rare = node._rare or {}
    plain = [*node.__dict__.items(), *rare.items(), *enumerate(capture.key(node))]
    if not all(_is_plain(value) for _, value in plain):
        return None
    kept = [(name, (type(value), value)) for name, value in plain]
    return [*kept, node._materializes, node._is_tensor, tuple(node.needs_input_grad)]


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | frozenset):
        return all(_is_plain(one) for one in value)
    return value is None or isinstance(value, int | float | complex | str | bytes | dtype)


class Lifting(Graph):
    """A graph with all of its nodes read, those at which a user's code runs too."""

    def __init__(
        self, roots: list[tuple[Any, Any]], wanted: list[Any] | None, *, accumulates: bool
    ) -> None:
        self._packs: list[Packed] | None = None  # while a node that keeps some is read
        self.packs: dict[int, list[Packed]] = {}
        self.function_saved: dict[int, list[int]] = {}
        self.inlined: set[int] = set()  # ids of custom Functions' nodes that are operators here
        super().__init__(roots, wanted)
        self.everything: list[Any] = [*self.nodes, *self.leaves]
        self.place_of = {id(one): place for place, one in enumerate(self.everything)}
        self.factors = factors_of(self)
        self.scalars = [getattr(node, slot) for node, slot in self.factors]
        self.hooks: list[Any] = []
        self.packed: list[Any] = []
        self.found: dict[tuple[int, Any], list[Lifted]] = {}  # id of a node, sort of hook
        self.tables: dict[int, dict[Any, list[Any]]] = {}
        for node in self.everything:
            if id(node) in self.stops:
                self._lift(node)
        if self.hooks:
            self.hooks.insert(0, None)  # where the pass itself will be
        self.inputs: list[Any] = [
            wrap(array) if tensor is None or not self._is_leaf(tensor) else tensor
            for array, tensor in zip(self.arrays, self.tensors, strict=True)
        ]
        self.leaf_inputs: dict[int, tuple[Lifted, Lifted]] = {}  # a leaf, and its .grad
        if accumulates:
            self._lift_leaves(wanted)
        shared = [one.place for pair in self.leaf_inputs.values() for one in pair]
        sorts = [tuple((sort, len(hooks)) for sort, hooks in self.tables.get(id(one), {}).items())
                 for one in self.everything]  # fmt: skip
        self.key = (*self.key, accumulates, tuple(shared), tuple(sorts))

    # Reading ----------------------------------------------------------------------------------

    def _stop(self, node: Any, parts: list[Any]) -> None:
        plan = plan_of(node)
        if plan is None:
            super()._stop(node, parts)
            self._read_function(node, parts)
            return
        self.stops[id(node)] = hooks_of(node._cold)
        parts += (type(node), len(node._edges))
        parts += [self.edge(edge) for edge in node._edges]
        self._packs = []
        for param in plan.inputs:
            name = f"s_{param.name}"
            parts.append(self.kept(getattr(node, name), getattr(node, f"{name}_v")))
        for output in plan.outputs:
            name = f"s_{output}"
            value = getattr(node, name)
            if isinstance(value, Packed):
                parts.append(self.kept(value, None))
                continue
            if value is not None and getattr(node, f"{name}_c")[0] != getattr(node, f"{name}_v"):
                self.changed(value)
            parts.append(None if value is None else self.array(value))
        for option in (*plan.options, *plan.derived):
            parts.append(option_part(getattr(node, f"s_{option}")))
        if self._packs:
            self.packs[id(node)] = self._packs
        self._packs = None

    def _read_function(self, node: Any, parts: list[Any]) -> None:
        """What a custom Function saved is given to its call, where that is plain tensors."""
        saved = saved_by(node)
        if saved is None:
            return
        places = []
        for array, tensor, cell, version in saved:
            if cell[0] != version:
                self.changed(array)
            places.append(self.array(array, tensor))
        self.function_saved[id(node)] = places
        parts.append(tuple(places))
        if (
            getattr(node._forward_cls, "allowed_in_graph", False)
            and (about := _about(node)) is not None
        ):
            self.inlined.add(id(node))
            parts += about

    def kept(self, value: Any, version: Any) -> Any:
        """As in every walk, but for what a hook packed in a node that is read as a stop."""
        if isinstance(value, Packed) and self._packs is not None:
            self._packs.append(value)
            return "packed"
        return super().kept(value, version)

    # Lifting ----------------------------------------------------------------------------------

    def _lift(self, node: Any) -> None:
        table = self.tables[id(node)] = hooks_at_node(node)
        for sort, hooks in table.items():
            if sort != "retained":
                self.found[id(node), sort] = [self._lifted(hook) for hook in hooks]
        for number, packed in enumerate(self.packs.get(id(node), ())):
            self.packed.append(packed.data)
            data = Lifted("packed_data", len(self.packed) - 1)
            self.found[id(node), ("unpack", number)] = [self._lifted(packed.unpack_hook), data]
        is_operators = plan_of(node) is not None or id(node) in self.inlined
        is_itself = "retained" in table or id(node) in self.packs
        if is_itself or not (is_operators or isinstance(node, AccumulateGrad)):
            self.found[id(node), "node"] = [self._lifted(node)]

    def _lifted(self, one: Any) -> Lifted:
        self.hooks.append(one)
        return Lifted("hooks", len(self.hooks))  # the pass stands before them

    @staticmethod
    def _is_leaf(tensor: Any) -> bool:
        """Whether a saved tensor is given as the object that it is."""
        return bool(tensor.requires_grad and tensor.is_leaf and not tensor._overrides)

    def _lift_leaves(self, wanted: list[Any] | None) -> None:
        chosen = None if wanted is None else {id(edge) for edge in wanted}
        cells = {id(one._cell) for one in self.tensors if one is not None}
        cells |= {id(cell) for node in self.nodes for cell in _output_cells(node)}
        for node in self.leaves:
            if chosen is not None and id(node) not in chosen:
                continue
            leaf = node.variable
            place = self.places.get(id(leaf._array))
            if place is None or self.inputs[place] is not leaf:
                place = len(self.inputs)
                self.inputs.append(leaf)
            stored = leaf._stored_grad
            if stored is not None and stored._cell is not UNWRITTEN and id(stored._cell) in cells:
                raise Unsupported("a .grad that the graph keeps for its backward")
            if stored is not None and id(stored._array) in self.places:
                raise Unsupported("a .grad that the graph keeps for its backward")
            self.inputs.append(stored)
            self.leaf_inputs[id(node)] = (
                Lifted("inputs", place),
                Lifted("inputs", len(self.inputs) - 1),
            )


def _output_cells(node: Any) -> list[Any]:
    plan = plan_of(node)
    return [] if plan is None else [getattr(node, f"s_{name}_c") for name in plan.outputs]
