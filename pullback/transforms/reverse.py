"""Reverse derivatives of functions: func.grad and its relatives, on the ordinary graph.

No wrappers: what is differentiated enters as an alias of its own, the function runs and records as
always, and a pass from the outputs stops at the aliases. Inside vmap the aliases are made on whole
batches, so that one pass gives the gradients of all examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy

from pullback.core.arrays import beside
from pullback.core.captured import Scope
from pullback.core.forward import LEVELS, open_levels
from pullback.core.mode import changed, current, get_mode, settle, with_grad
from pullback.core.nesting import Derivative, pass_depth, running
from pullback.core.node import LEAF_SEQ, OperatorNode, Output, new_leaf_mark
from pullback.core.overriding import DISPATCH
from pullback.core.ports import ports
from pullback.core.process.whole import Whole
from pullback.core.sequence import numbering
from pullback.core.tensor import Tensor, class_for, new, wrap
from pullback.core.version import own_cell
from pullback.core.view import CreationMeta, attach, edge_of
from pullback.engine.backward import run_pass
from pullback.operators.create.sizes import ones_like, zeros_like
from pullback.operators.declare import Op, parameters_of
from pullback.operators.watching.dispatch import unrecorded_call
from pullback.transforms.batched import (
    Batched,
    base_of,
    batched,
    differentiated,
    exposed,
    hidden,
    hidden_like,
    is_batched_at,
    with_levels,
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
    """A detach() inside transforms: an end for passes of its depth and deeper ones alone."""

    __slots__ = ("depth",)

    _detaches = True
    depth: int

    def _run(self, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        return (None if pass_depth.get() >= self.depth else g,)

    _run_tensors = _run


def _node_like(cls: type[Any], tensor: Tensor, edge: Any) -> Any:
    node = cls()
    node._edges = (edge,)
    node._cold = None
    node._g_shape, node._g_dtype = tensor._array.shape, tensor._array.dtype
    node._code, node._lasti = None, 0
    node._seq = numbering.next()
    return node


def _alias_of(tensor: Tensor, depth: int) -> Tensor:
    """A tensor on the same memory that a transform can differentiate with respect to."""
    array = tensor._array
    if tensor._takes & DISPATCH:
        alias = tensor._same_kind()
    else:
        alias = new(Tensor if type(array) is numpy.ndarray else class_for(array))
    alias._array = array
    alias._cell = own_cell(tensor)
    edge = edge_of(tensor)
    if edge is None:
        alias._node = new_leaf_mark()
        alias._depth = depth  # see leads_outside
    else:
        node = _node_like(EnterBackward, tensor, edge)
        attach(alias, tensor, node, creation=CreationMeta.DIFFERENTIATED)
        alias._node.change(forward=False)
    for level in open_levels():
        level.put(alias, level.get(tensor))
    return alias


def exposed_dual(tensor: Any, levels: Sequence[Any]) -> Any:
    """`exposed`, and so its tangents: one that is mapped where its value is not goes along."""
    made = exposed(tensor, levels)
    if levels and LEVELS:
        for level in open_levels():
            tangent = level.get(base_of(tensor))
            if tangent is not None:
                level.put(made, exposed(hidden_like(tangent, tensor), levels))
    return made


def detached_inside(tensor: Tensor, derivative: Derivative) -> Tensor:
    """detach() for the innermost derivative alone: outer ones still see the tensor's history."""
    alias = tensor._alias()
    edge = edge_of(tensor)
    if edge is not None:
        if derivative.level is None:
            node = _node_like(DetachBackward, tensor, edge)
            node.depth = derivative.depth
        else:
            node = _node_like(_Passing, tensor, edge)
        alias._node = node
    for level in open_levels():
        if level is not derivative.level:
            level.put(alias, level.get(tensor))
    return alias


ports.fill(detached_inside=detached_inside)


def _filled_like(tensor: Tensor, value: int) -> Tensor:
    """A constant gradient for a tensor, of its class where that answers operators.

    Modes below autograd are shown the operator that makes it.
    """
    kind = tensor._kind is not None  # sparse or nested
    if kind or tensor._takes & DISPATCH or get_mode().dispatch:
        filled: Tensor = unrecorded_call(lambda: (ones_like if value else zeros_like)(tensor))
        return filled
    with beside(tensor._array):
        return wrap(numpy.full_like(tensor._array, value))


class Recording(Whole):
    """One reverse derivative: its inputs, and the pass from its outputs back to them.

    As a context it is the time while the function runs.
    """

    def __init__(self, transform: str, primals: Sequence[Any], scope: Scope | None = None) -> None:
        self.transform = transform
        self.scope = scope
        self.before = settle()
        # Levels that map the whole derivative. Those for tangents alone batch none of its values.
        self.levels = tuple(
            level
            for level in self.before.levels
            if not level.for_tangents or any(is_batched_at(primal, level) for primal in primals)
        )
        self._outside = running.get()
        self.depth = len(self._outside) + 1
        self._last_led: tuple[list[Any], bool] = ([], False)
        try:
            current.set(with_grad(self.before, grad=True))
            self.aliases = [
                _alias_of(exposed_dual(primal, self.levels), self.depth) for primal in primals
            ]
        finally:
            current.set(self.before)
        self.inputs = [hidden(alias, self.levels) for alias in self.aliases]
        self.edges = [edge_of(alias) for alias in self.aliases]

    def _enter(self) -> list[Any]:
        derivative = Derivative(
            self.transform, self.depth, None, self.scope, self.aliases, self.levels
        )
        running.set((*self._outside, derivative))
        current.set(changed(self.before, grad=True, inference=False))
        if self.levels:
            differentiated.update(id(alias) for alias in self.aliases)
        return self.inputs

    def _leave(self) -> None:
        differentiated.difference_update(id(alias) for alias in self.aliases)
        current.set(self.before)
        running.set(self._outside)

    def gradients(
        self, outputs: Sequence[Any], cotangents: Sequence[Any] | None, *, keep: bool
    ) -> list[Any]:
        """Gradients of the inputs; zeros for those that do not matter. None: cotangents of one."""
        mode = settle()
        inner = tuple(level for level in mode.levels if level not in self.levels)
        roots = [exposed(output, self.levels) for output in outputs]
        if cotangents is None:
            seeds: list[Any] = [_filled_like(root, 1) for root in roots]
        else:
            seeds = [exposed_dual(one, self.levels) for one in cotangents]
        pairs = [
            (edge, seed)
            for root, seed in zip(roots, seeds, strict=True)
            if (edge := edge_of(root)) is not None
        ]
        records = mode.grad and not mode.inference
        create = records and self._seen_outside(pairs)
        depth = pass_depth.get()
        try:
            pass_depth.set(self.depth)
            with with_levels(inner):
                results = run_pass(pairs, self.edges, retain_graph=keep, create_graph=create)
        finally:
            pass_depth.set(depth)
        return [
            hidden(_filled_like(alias, 0) if g is None else g, self.levels)
            for alias, g in zip(self.aliases, results, strict=True)
        ]

    def _seen_outside(self, pairs: list[tuple[Any, Any]]) -> bool:
        """Whether someone outside could differentiate the gradients."""
        return (
            any(base_of(seed).requires_grad for _, seed in pairs)
            or any(level.tracked for level in open_levels())  # by way of a tangent
            or self.leads_outside([edge for edge, _ in pairs])
        )

    def leads_outside(self, edges: list[Any]) -> bool:
        """Whether the graph ends at leaves other than inputs of this derivative or inner ones.

        Asked for what is released, and for the pass from it.
        """
        known, answer = self._last_led
        if known == edges:
            return answer
        answer = self._finds_others(edges)
        self._last_led = edges, answer
        return answer

    def _finds_others(self, edges: list[Any]) -> bool:
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
                elif seq == LEAF_SEQ and node.variable.__dict__.get("_depth", 0) < self.depth:
                    return True
        return False

    def released(self, output: Any) -> Any:
        """An output as others see it: with the history that is theirs, or none."""
        if not isinstance(output, Tensor):
            return output
        if output.__class__ is Batched:
            value = self.released(output.value)
            return output if value is output.value else batched(value, output.bdim, output.level)
        if not output.requires_grad:
            return output
        if self.before.grad and self.leads_outside([edge_of(output)]):
            return output
        alias = output._alias()
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
    probes = [_alias_of(wrap(numpy.zeros_like(r._array)), len(running.get()) + 1) for r in carrying]
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
    edges = [edge_of(probe) for probe in probes]
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
