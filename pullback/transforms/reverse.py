"""Reverse derivatives of functions: func.grad and its relatives, on the ordinary graph.

No wrappers: what is differentiated enters as an alias of its own, the function runs and records as
always, and a pass from the outputs stops at the aliases. Inside vmap the aliases are made on whole
batches, so that one pass gives the gradients of all examples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy

from pullback.core.arrays import on_device_of
from pullback.core.captured import Scope
from pullback.core.forward import LEVELS, open_levels
from pullback.core.mode import FRESH, Mapped, changed, current, get_mode, settle, with_grad
from pullback.core.nesting import Derivative, pass_depth, running
from pullback.core.node import LEAF_SEQ, AccumulateGrad, OperatorNode, Output
from pullback.core.overriding import DISPATCH
from pullback.core.ports import ports
from pullback.core.process.whole import Whole
from pullback.core.sequence import numbering
from pullback.core.tensor import Tensor, class_for, new, wrap
from pullback.core.version import own_cell
from pullback.core.view import CreationMeta, attach, edge_of
from pullback.engine.arguments import constant_gradient
from pullback.engine.backward import run_pass
from pullback.engine.fast_path import quick_pass
from pullback.operators.create.sizes import ones_like, zeros_like
from pullback.operators.declare import Op, parameters_of
from pullback.operators.dispatch.dispatch import unrecorded_call
from pullback.transforms.batched import (
    Batched,
    base_of,
    batched,
    differentiated,
    exposed,
    hidden,
    hidden_like,
    is_batched_at,
)

_edges = attrgetter("_edges")


class _Passing(OperatorNode):
    """A node of one edge that changes nothing."""

    __slots__ = ()

    def _run(self, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        return (g,)

    _run_tensors = _run


class EnterBackward(_Passing):
    """Where a tensor with a history entered a transform: a leaf inside, no end outside."""

    __slots__ = ()

    _enters = True


class DetachBackward(_Passing):
    """A detach_() inside transforms: an end for passes of its depth and deeper ones alone."""

    __slots__ = ("depth",)

    _detaches = True
    depth: int

    def _run(self, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        return (None if pass_depth.get() >= self.depth else g,)

    _run_tensors = _run


def node_like(cls: type[Any], tensor: Tensor, edge: Any) -> Any:
    """A node of one edge, for a tensor that looks like this one."""
    node = cls()
    node._edges = (edge,)
    node._cold = None
    node._g_shape, node._g_dtype = tensor._array.shape, tensor._array.dtype
    node._code, node._lasti = None, 0
    node._seq = numbering.next()
    return node


def _alias_of(tensor: Tensor, depth: int) -> tuple[Tensor, Any]:
    """A tensor on the same memory that a transform can differentiate by, and where it leads."""
    array = tensor._array
    if tensor._overrides & DISPATCH:
        alias = tensor._same_kind()
    else:
        alias = new(Tensor if type(array) is numpy.ndarray else class_for(array))
    alias._array = array
    cell = tensor._cell
    alias._cell = cell if cell.__class__ is list else own_cell(tensor)
    edge = None if tensor._node is None else edge_of(tensor)
    if edge is None:
        # What is recorded with it keeps the node, and so does the derivative.
        node: Any = AccumulateGrad.first(alias)
        alias._depth = depth  # see leads_outside
    else:
        node = node_like(EnterBackward, tensor, edge)
        attach(alias, tensor, node, creation=CreationMeta.DIFFERENTIATED)
        alias._node.change(forward=False)
    if LEVELS:
        for level in open_levels():
            level.put(alias, level.get(tensor))
    return alias, node


def exposed_dual(tensor: Any, levels: Sequence[Any]) -> Any:
    """`exposed`, and so its tangents: one that is mapped where its value is not goes along."""
    made = exposed(tensor, levels)
    if levels and LEVELS:
        for level in open_levels():
            tangent = level.get(base_of(tensor))
            if tangent is not None:
                level.put(made, exposed(hidden_like(tangent, tensor), levels))
    return made


def detach_inside(tensor: Tensor, derivative: Derivative) -> None:
    """detach_() for the innermost derivative alone: outer ones still see the tensor's history."""
    if derivative.level is not None:
        derivative.level.put(tensor, None)
    elif (edge := edge_of(tensor)) is not None:
        node = node_like(DetachBackward, tensor, edge)
        node.depth = derivative.depth
        tensor._node = node


ports.fill(detach_inside=detach_inside)


def _filled_like(tensor: Tensor, value: int) -> Tensor:
    """A constant gradient for a tensor, of its class where that answers operators.

    Modes below autograd are shown the operator that makes it.
    """
    array = tensor._array
    plain = tensor.__class__ is Tensor and type(array) is numpy.ndarray
    if plain and array.dtype.kind in "fc" and array.flags.c_contiguous and not get_mode().dispatch:
        return constant_gradient(array, value)
    kind = tensor._layout is not None  # sparse or nested
    if kind or tensor._overrides & DISPATCH or get_mode().dispatch:
        filled: Tensor = unrecorded_call(lambda: (ones_like if value else zeros_like)(tensor))
        return filled
    with on_device_of(array):
        return wrap(numpy.full_like(array, value))


def _mapping(levels: tuple[Any, ...], primals: Sequence[Any]) -> tuple[Any, ...]:
    """The levels that map a whole derivative; those for tangents alone batch none of its values."""
    found = []
    for level in levels:
        mapping = not level.for_tangents
        for primal in primals:
            mapping = mapping or (primal.__class__ is Batched and is_batched_at(primal, level))
        if mapping:
            found.append(level)
    return levels if len(found) == len(levels) else tuple(found)


def finds_others(edges: list[Any], depth: int) -> bool:
    """Whether a graph ends at leaves other than inputs of derivatives so deep or deeper."""
    seen: set[Any] = {None}
    nodes: list[Any] = []
    # Goes on to what is added to the list on the way.
    for targets in chain((edges,), map(_edges, nodes)):
        for edge in targets:
            node: Any = edge.node if edge.__class__ is Output else edge
            if node in seen:
                continue
            seen.add(node)
            seq = node._seq
            if seq < LEAF_SEQ:
                nodes.append(node)
            elif seq == LEAF_SEQ and node.variable.__dict__.get("_depth", 0) < depth:
                return True
    return False


class Recording(Whole):
    """One reverse derivative: its inputs, and the pass from its outputs back to them.

    As a context it is the time while the function runs.
    """

    def __init__(self, transform: str, primals: Sequence[Any], scope: Scope | None = None) -> None:
        self.transform = transform
        self.scope = scope
        before = get_mode()
        self.before = before = before if before is not FRESH else settle()
        self.levels = _mapping(before.levels, primals) if before.levels else ()
        self._outside = running.get()
        self.depth = len(self._outside) + 1
        self._last_led: tuple[list[Any], bool] = ([], False)
        self.aliases: list[Any] = []
        self.edges: list[Any] = []
        try:
            if not before.grad:
                current.set(with_grad(before, grad=True))
            for primal in primals:
                alias, edge = _alias_of(self._exposed(primal), self.depth)
                self.aliases.append(alias)
                self.edges.append(edge)
        finally:
            current.set(before)
        self.inputs = self._hidden(self.aliases)

    def _exposed(self, tensor: Any, expose: Callable[..., Any] = exposed_dual) -> Any:
        """A tensor outside of the levels that map this derivative, their dimensions in front."""
        levels = self.levels
        if not levels:
            return tensor
        if len(levels) == 1 and tensor.__class__ is Batched and not LEVELS:
            value = tensor.value
            level = tensor.level if tensor.level.open else None
            if level is levels[0] and not tensor.bdim and value.__class__ is Tensor:
                return value
        return expose(tensor, levels)

    def _hidden(self, tensors: list[Any]) -> list[Any]:
        """The same inside of these levels again."""
        levels = self.levels
        if not levels:
            return tensors
        made = []
        for one in tensors:
            plain = len(levels) == 1 and one.__class__ is Tensor
            made.append(batched(one, 0, levels[0]) if plain else hidden(one, levels))
        return made

    def _enter(self) -> list[Any]:
        made = (self.transform, self.depth, None, self.scope, self.aliases, self.levels)
        running.set((*self._outside, tuple.__new__(Derivative, made)))
        before = self.before
        usual = before.grad and not before.inference
        current.set(before if usual else changed(before, grad=True, inference=False))
        if self.levels:
            differentiated.update(map(id, self.aliases))
        return self.inputs

    def _leave(self) -> None:
        if self.levels:
            differentiated.difference_update(map(id, self.aliases))
        current.set(self.before)
        running.set(self._outside)

    def gradients(
        self, outputs: Sequence[Any], cotangents: Sequence[Any] | None, *, keep: bool
    ) -> list[Any]:
        """Gradients of the inputs; zeros for those that do not matter. None: cotangents of one."""
        mode = get_mode()
        mode = mode if mode is not FRESH else settle()
        pairs = []
        for place, output in enumerate(outputs):
            root = self._exposed(output, exposed)
            edge = root._node
            if edge is not None and edge._special:
                edge = edge_of(root)
            if edge is None:
                continue
            if cotangents is None:
                pairs.append((edge, _filled_like(root, 1)))
            else:
                pairs.append((edge, self._exposed(cotangents[place])))
        records = mode.grad and not mode.inference
        create = records and self._seen_outside(pairs, given=cotangents is not None)
        inner = self._inner(mode)
        depth = pass_depth.get()
        try:
            pass_depth.set(self.depth)
            if inner is not mode:
                current.set(inner)
            results = quick_pass(pairs, self.edges, create_graph=create)
            if results is None:
                results = run_pass(pairs, self.edges, retain_graph=keep, create_graph=create)
        finally:
            pass_depth.set(depth)
            current.set(mode)
        made = []
        for alias, g in zip(self.aliases, results, strict=True):
            made.append(_filled_like(alias, 0) if g is None else g)
        return self._hidden(made)

    def _inner(self, mode: Any) -> Any:
        """The mode of a pass: without the levels that map this derivative as a whole."""
        if not self.levels:
            return mode
        if mode.__class__ is Mapped and mode.levels == self.levels:
            while mode.__class__ is Mapped:
                mode = mode.below
            return mode
        levels = tuple(level for level in mode.levels if level not in self.levels)
        return changed(mode, levels=levels)

    def _seen_outside(self, pairs: list[tuple[Any, Any]], *, given: bool) -> bool:
        """Whether someone outside could differentiate the gradients; by cotangents, if `given`."""
        edges = []
        for edge, seed in pairs:
            edges.append(edge)
            if given and base_of(seed).requires_grad:
                return True
        if LEVELS:
            for level in open_levels():
                if level.tracked:  # by way of a tangent
                    return True
        return self.leads_outside(edges)

    def leads_outside(self, edges: list[Any]) -> bool:
        """Whether the graph ends at leaves other than inputs of this derivative or inner ones.

        Asked for what is released, and for the pass from it.
        """
        known, answer = self._last_led
        if known == edges:
            return answer
        answer = finds_others(edges, self.depth)
        self._last_led = edges, answer
        return answer

    def released(self, output: Any) -> Any:
        """An output as others see it: with the history that is theirs, or none."""
        if not isinstance(output, Tensor):
            return output
        if output.__class__ is Batched:
            value = self.released(output.value)
            return output if value is output.value else batched(value, output.bdim, output.level)
        if output._node is None or not output.requires_grad:
            return output
        if self.before.grad and self.leads_outside([edge_of(output)]):
            return output
        alias = output._alias()
        if LEVELS:
            for level in open_levels():
                level.put(alias, self.released(level.get(output)))
        return alias


# Forward mode by reverse rules
# ----------------------------------------------------------------------


def transposed(
    op: Op, known: dict[str, Any], results: list[Tensor], tangents: dict[str, Any]
) -> list[Any]:
    """The tangents of an operator's results, by a pass through its reverse rules.

    Rules are linear in the gradient `g`. Run on a `g` of zeros they record that linear function,
    and a pass from its result back to `g` transposes it.
    """
    mode = settle()
    names = op.gradient_names
    carrying = [r for n, r in zip(op.outputs, results, strict=False) if n not in op.fixed_outputs]
    if op.outputs == ("*",):
        raise NotImplementedError(
            f"{op.name} has no forward-mode rule; use reverse mode (autograd.grad) for it."
        )
    depth = len(running.get()) + 1
    entered = [_alias_of(wrap(numpy.zeros_like(r._array)), depth) for r in carrying]
    probes, edges = [alias for alias, _ in entered], [edge for _, edge in entered]
    given = {**known, **dict(zip(names, probes, strict=True))}
    roots: list[tuple[Any, Any]] = []
    try:
        current.set(with_grad(mode, grad=True))
        for name, tangent in tangents.items():
            if (rule := op.rules.get(name)) is not None:
                made = rule(**{asked: given[asked] for asked in parameters_of(rule)})
                roots += _roots_of(made, tangent)
    finally:
        current.set(mode)
    made = run_pass(roots, edges, retain_graph=True, create_graph=mode.grad)
    by_name = dict(zip(names, made, strict=True))
    return [by_name.get(f"g_{name}", by_name.get("g")) if name not in op.fixed_outputs else None
            for name in op.outputs]  # fmt: skip


def _roots_of(made: Any, tangent: Any) -> list[tuple[Any, Any]]:
    if isinstance(made, tuple | list):
        pairs = zip(made, tangent, strict=True)
        return [root for one, t in pairs if t is not None for root in _roots_of(one, t)]
    edge = None if made is None else edge_of(made)
    if edge is None:
        return []
    if made._array.shape != tangent._array.shape:
        tangent = tangent.expand(made._array.shape)
    if made.dtype is not tangent.dtype:
        tangent = tangent.to(made.dtype)
    return [(edge, tangent)]


ports.fill(transposed=transposed)
