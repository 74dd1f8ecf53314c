"""In-place forms, `out=` and what a write does to history.

The order of effects: check, keep the old value if a rule needs it, compute, write, count the write,
rebase the history. Whatever fails before the write leaves everything as it was.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy

from pullback.core import errors, origin, overriding
from pullback.core.arrays import Array, as_array, namespace
from pullback.core.captured import refuse_captured
from pullback.core.dtype import from_numpy_dtype
from pullback.core.explain.cause import adopt
from pullback.core.forward import LEVELS
from pullback.core.memory.narrow import held
from pullback.core.mode import Mode, current, get_mode, settle
from pullback.core.nesting import running
from pullback.core.node import QUIET, BuiltIn, Edge, Leaf, OperatorNode, Output, run_tensors
from pullback.core.overriding import DISPATCH
from pullback.core.ports import ports
from pullback.core.promotion import can_cast
from pullback.core.saved import Freed
from pullback.core.sequence import numbering
from pullback.core.tensor import Tensor, blanks, new, wrap
from pullback.core.version import UNWRITTEN, bump
from pullback.core.view import DEFAULT, View, edge_of, forbidden, move_retention, retains
from pullback.operators.arrays.strides import (
    Geometry,
    contiguous_strides,
    distance,
    element_strides,
    moved,
    on_bytes,
    on_storage,
)
from pullback.operators.declare import Op, unwritten
from pullback.operators.derive import give_tangents, keep_written, tangents_of_write, write_tangents
from pullback.operators.dispatch import dispatch, replaced
from pullback.operators.running import interpret, layouts, recording
from pullback.operators.running.declared_node import DeclaredNode
from pullback.operators.running.overlap import (
    check_apart,
    check_expanded,
    check_writable,
    has_overlap,
    store_expanded,
)
from pullback.operators.running.resizing import resized
from pullback.operators.writing.nodes import node_class


def inplace_of(
    function: Any, name: str | None = None, bail_out: Callable[..., Any] | None = None
) -> Callable[..., Tensor]:
    """The in-place form of an operator, `mul_` for `mul`; written on its first call.

    `bail_out` takes what is not plain, instead of `call_inplace`.
    """
    op: Op = function.op
    called = name or f"{op.name}_"
    write: Callable[..., Tensor] = unwritten(
        op, called, inplace=True, call_inplace=bail_out or call_inplace
    )
    write.__doc__ = (
        f"In-place form of `{op.name.removesuffix('_')}`: the result replaces the tensor's values."
    )
    return write


def call_inplace(op: Op, called: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """Run an operator and write its result into its first tensor."""
    interpret.check_given(op, called, args)
    bound = interpret.bind(op, args, kwargs)
    mode = settle()
    target_name = op.inputs[0].name
    target = bound[target_name]
    if not isinstance(target, Tensor):
        answer: Tensor
        taken, answer = ports.met(op, args, kwargs, called=called)
        if taken:
            return answer
        raise errors.not_a_tensor(called, target_name, target)
    if mode.functions:
        answer = dispatch.public_call(op, args, kwargs, called=called)
        return answer
    if replaced.kernels and (with_kernels := replaced.write(op, called, bound, mode)) is not mode:
        try:
            current.set(with_kernels)
            return call_inplace(op, called, args, kwargs)
        finally:
            current.set(mode)
    answers = bool(mode.dispatch)
    if overriding.classes and (found := dispatch.guests(args, kwargs)):
        functions = dispatch.with_functions(found)
        if functions:
            answer = dispatch.overridden(op, args, kwargs, None, functions, called=called)
            if answer is not NotImplemented:
                return answer
        answers = answers or bool(dispatch.answering(found))
    if layouts.HANDLERS:
        taken, answer = layouts.taken(op, called, bound)
        if taken:
            return answer
    if mode.levels:
        answer = mode.levels[-1].process_inplace(op, called, target, bound)
        return answer
    values = {p.name: bound[p.name] for p in op.inputs}
    options = {p.name: bound[p.name] for p in op.params if not p.is_tensor}
    duals = tangents_of_write(op, bound, values, _aside) if LEVELS else None
    recording = starts_write(called, target, values, mode) and bool(op.rules)
    if answers:
        interpret.normalise(op, options, values)
        history = _history(op, target, values, options, mode) if recording else None
        dispatch.write(op, called, target, bound)
        return _written(target, history, duals, mode)
    if op.kind == "elementwise":
        check_operands(called, target, values)
    try:
        arrays = interpret.input_arrays(op, values)
    except TypeError:
        taken, answer = ports.met(op, args, kwargs, called=called)
        if taken:
            return answer
        raise
    if op.apart:
        check_apart(called, *arrays.values())
    interpret.normalise(op, options, arrays)
    if mode.tracing is not None:
        history = _history(op, target, values, options, mode) if recording else None
        mode.tracing.write(op, called, target, values, options)
        return _written(target, history, duals, mode)
    result = as_array(interpret.compute(op, arrays, options))
    check_fit(called, target, result)
    history = _history(op, target, values, options, mode) if recording else None
    try:
        if 0 in target._array.strides and has_overlap(target._array):
            store_expanded(target._array, result)
        else:
            target._array[...] = result
    except ValueError:  # the shape was checked
        raise errors.read_only(called) from None
    bump(target, called)
    if history is None and mode.grad:
        adopt(target, *[one for name, one in values.items() if name != target_name])
    return _written(target, history, duals, mode)


def _written(
    target: Tensor, history: Callable[[Mode], OperatorNode] | None, duals: Any, mode: Mode
) -> Tensor:
    """A tensor just written, with its new tangents and history, which may save them."""
    if duals is not None:
        write_tangents(target, duals)
    if history is not None:
        node = history(mode)
        if duals is not None:
            keep_written(node, target)
    return target


def check_operands(op: str, target: Tensor, values: dict[str, Any]) -> None:
    """Refuse operands that share a part of the target's memory."""
    given = [value._array for value in values.values() if isinstance(value, Tensor)]
    check_writable(op, target._array, *given)


def starts_write(op: str, target: Tensor, values: dict[str, Any], mode: Mode) -> bool:
    """Check that `target` may be written; tell whether the write must be recorded."""
    array = target._array
    if array.size > 1 and 0 in array.strides and has_overlap(array):
        check_expanded(op)
    if mode.saved_hooks and before_write:
        announce_write(array)
    if target.is_inference() and not mode.inference:
        raise RuntimeError(
            f"{op}: an inference tensor cannot be changed in place outside inference_mode. Clone "
            "it to get a normal tensor."
        )
    if not mode.grad or mode.inference or array.dtype.kind not in "fcVW":
        return False
    tracked = target.requires_grad or any(requires_grad(value) for value in values.values())
    if tracked:
        check_history_can_change(op, target)
    return tracked


# What must happen before memory is written while saved-tensor hooks are on: functions of the array.
before_write: list[Callable[[Array], None]] = []


def announce_write(array: Array) -> None:
    """Tell those who keep values in this memory that it is about to change."""
    for listener in before_write:
        listener(array)


def requires_grad(value: Any) -> bool:
    """Whether a tensor, or any of several, requires grad."""
    if isinstance(value, Tensor):
        return value.requires_grad
    return isinstance(value, tuple | list) and any(requires_grad(one) for one in value)


def check_history_can_change(op: str, target: Tensor) -> None:
    """Refuse recorded writes to leaves, to views of leaves, and to views that forbid them."""
    info = target._node
    if info.__class__ is Leaf:
        raise errors.leaf_written(op)
    if info.__class__ is not View:
        return
    array = target._array
    if 0 in array.strides and has_overlap(array):  # no formula tells its elements apart
        raise errors.overlapping_write(op)
    if info.manner.creation is not DEFAULT:
        raise forbidden(target, info, written="is being")
    if info.node.__class__ is Leaf:
        raise errors.leaf_written(op)
    above = info.base._node
    # A view keeps its history when detach_() takes the leaf's.
    if above.__class__ is Leaf or (above is None and info.node is not None):
        raise errors.leaf_view_written(op)


def check_fit(op: str, target: Tensor, result: Array) -> None:
    """An in-place result must have the target's shape and a dtype that goes into it."""
    array = target._array
    if result.shape != array.shape:
        raise errors.inplace_shape(op, array.shape, result.shape)
    if result.dtype != array.dtype:
        source, into = from_numpy_dtype(result.dtype), target.dtype
        if not can_cast(source, into):
            raise errors.inplace_dtype(op, into, source)


def _history(
    op: Op, target: Tensor, values: dict[str, Any], options: dict[str, Any], mode: Mode
) -> Callable[[Mode], OperatorNode]:
    """Collect what the node needs before the write; the result makes the node after it."""
    edges = recording.input_edges(op, values)
    plan = node_class(op).plan  # type: ignore[attr-defined]  # written by node_class
    name = op.inputs[0].name
    if any(param.name == name for param in plan.inputs) and recording.needed(plan, name, edges):
        values = {**values, name: _aside(target)}

    # What is saved was read before the write: should it share the target's memory, backward must
    # find it changed.
    versions = {
        param.name: recording.version_of(values[param.name])
        for param in plan.inputs
        if isinstance(values[param.name], Tensor)
    }

    kept = recording.pack_inputs(op, values) if mode.saved_hooks else None

    def after_write(mode: Mode) -> OperatorNode:
        node = recording.make_node(op, edges, values, options, [target], mode, kept)
        for saved_name, version in versions.items():
            if getattr(node, f"s_{saved_name}_v") is not None:
                setattr(node, f"s_{saved_name}_v", version)
        rebase(target, node)
        if mode.saved_hooks:
            recording.pack_outputs(op, node, [target], mode)
        return node

    return after_write


def _aside(target: Tensor) -> Tensor:
    """A copy of what is about to be overwritten, with its place in the graph and its tangents."""
    kept = old_value(target, edge_of(target))
    if LEVELS:
        give_tangents(target, kept)
    return kept


def old_value(target: Tensor, edge: Edge | None) -> Tensor:
    """A private copy of what is about to be overwritten, in the target's place in the graph."""
    if target._overrides & DISPATCH & ~overriding.excluded.get():
        kept: Tensor = dispatch.unrecorded_call(target.clone)
        kept._node = edge
        return kept
    return kept_values(target._array, edge)


def kept_values(array: Array, edge: Edge | None) -> Tensor:
    """The same of a plain tensor, of whose array this is."""
    kept = next(blanks)
    kept._array = array.copy()
    kept._node = edge
    kept._cell = UNWRITTEN
    return kept


def rebase(target: Tensor, node: OperatorNode) -> None:
    """Make `node` the history of a tensor just written; through the base if it is a view."""
    if derivatives := running.get():
        refuse_captured(target, derivatives)
    info = target._node
    if info.__class__ is View:
        rebase_view(target, info, node)
        return
    if info is not None:
        move_retention(target, info, node)
    target._node = node


class CopySlices(OperatorNode, metaclass=BuiltIn):
    """A write to a view, seen from the base.

    The slice's gradient goes through the written operator, the rest passes.
    """

    __slots__ = ("inner", "position", "replay", "within")

    _prefix = "torch::autograd::"
    __call__ = DeclaredNode.__call__

    inner: Any  # the written operator's node, or what says that it was freed
    # Shape, strides and offset of the view, in bytes as NumPy has them, on a row-major copy of the
    # base: most writes are never asked for elements.
    within: Geometry
    replay: tuple[Callable[[Any], Any], ...] | None  # steps, where strides cannot say it
    position: int  # of the written tensor among the inner node's edges

    def _run(self, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        """Arrays: a copy of the base's gradient, its slice replaced."""
        whole = namespace(g).array(g, order="C")
        if self.replay:
            part = self._part(wrap(whole))._array
        elif whole.dtype is self._g_dtype:
            part = on_bytes(whole, *self.within)
        else:  # of elements of another size, it may be
            part = on_storage(whole, self._geometry())
        inner = self._inner()
        if inner._by_user:
            own, others = self._split(inner._run_written(part.copy(), self.position))  # type: ignore[attr-defined]  # of nodes by users
            if own is None:
                return (None, *others)
        else:
            own, *others = inner._run(part.copy(), edges)
        part[...] = 0 if own is None else own
        return (whole, *others)

    def _run_tensors(self, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        """Tensors: the same, recorded."""
        whole = g.clone().contiguous()
        part = self._part(whole)
        inner = self._inner()
        if inner._by_user:
            own, others = self._split(inner._run_written(part.clone(), self.position))  # type: ignore[attr-defined]  # of nodes by users
            if own is None:
                return (None, *others)
        else:
            # What the write's own gradient must fit is the part.
            fits = Output(inner, 0, part._array.shape, part._array.dtype)
            towards = edges if edges[0] is None else (fits, *edges[1:])
            own, *others = run_tensors(inner, part.clone(), towards)
        if own is None:
            part.zero_()
        else:
            part.copy_(own)
        return (whole, *others)

    def _inner(self) -> OperatorNode:
        inner: OperatorNode | Freed = self.inner
        if isinstance(inner, Freed):
            raise errors.graph_freed(self, inner)
        return inner

    def _split(self, results: Any) -> tuple[Any, list[Any]]:
        """The gradient of the written tensor, and those of the other inputs."""
        others = list(results)
        return others.pop(self.position), others

    def _part(self, whole: Tensor) -> Tensor:
        if self.replay is None:
            return whole.as_strided(*self._geometry())
        for step in self.replay:
            whole = step(whole)
        return whole

    def _geometry(self) -> Geometry:
        """Where the view is, in elements."""
        shape, steps, offset = self.within
        size = self._g_dtype.itemsize
        return shape, tuple([step // size for step in steps]), offset // size

    def _release(self, freed: Any) -> None:
        """Forget the written operator, and with it its values.

        It is not told to drop them: second derivatives through the result that it kept come to it
        on their own way, later in the same pass.
        """
        if isinstance(self.inner, OperatorNode):
            self.inner = freed


def rebase_view(target: Tensor, info: View, inner: OperatorNode, position: int = 0) -> None:
    """Enter a write to a view, input `position` of `inner`, in its base's history."""
    base = info.base
    node = new(CopySlices)
    node._cold = QUIET if inner._by_user else None
    node.inner = inner
    node.position = position
    node.replay = info.manner.replay
    # What is written to twenty views of one tensor comes here twenty times: most of what other
    # modules would say is in line.
    array, whole = target._array, base._array
    within = array.shape, array.strides, distance(array, whole)
    node.within = within if whole.flags.c_contiguous else _relaid(within, whole)
    edges, before, seen = inner._edges, base._node, info.node
    own = edge_of(base) if before is None or before._special else before
    node._edges = (
        (own, *edges[1:]) if not position else (own, *edges[:position], *edges[position + 1 :])
    )
    node._g_shape, node._g_dtype = whole.shape, whole.dtype
    node._code, node._lasti = inner._code, inner._lasti
    node._seq = next(numbering.numbers)
    kept = seen is not None and seen._cold is not None and retains(target, seen)
    if before is not None and before._cold is not None:
        move_retention(base, before, node)
    base._node = node
    # The view's own node is made from the new history when someone asks for it.
    info.node = None
    info.version = -1
    if kept:
        target.retain_grad()


def _relaid(within: Geometry, whole: Array) -> Geometry:
    """Where a view of a base in another order is on a row-major copy of it; in bytes."""
    size = whole.itemsize
    usual = tuple([step * size for step in contiguous_strides(whole.shape)])
    return moved(within, whole.shape, whole.strides, usual)


def geometry_on(target: Tensor, base: Tensor) -> Geometry:
    """Shape, strides and offset (in elements) of a view on its base."""
    array = target._array
    return array.shape, element_strides(array), distance(array, base._array) // int(array.itemsize)


def check_target(
    op: str, target: Any, array: Array, operands: dict[str, Any] | None = None
) -> None:
    """Refuse a tensor given as `out=` that cannot take a result.

    It must not overlap in part with the `operands` of an elementwise operator.
    """
    if not isinstance(target, Tensor):
        raise errors.not_a_tensor(op, "out", target)
    source = from_numpy_dtype(array.dtype)
    if not can_cast(source, target.dtype):
        raise errors.inplace_dtype(op, target.dtype, source)
    if target.is_inference() and not get_mode().inference:
        raise RuntimeError(f"{op}: out= is an inference tensor; clone it outside inference_mode.")
    if target._array.shape == array.shape:
        check_operands(op, target, operands or {})


def check_out_dtype(op: str, target: Any, array: Array) -> None:
    """Refuse an `out=` of another dtype than the result, where nothing is converted."""
    if isinstance(target, Tensor) and target._array.dtype != array.dtype:
        raise errors.inplace_dtype(op, target.dtype, from_numpy_dtype(array.dtype))


def write_out(op: str, target: Any, array: Array, operands: dict[str, Any] | None = None) -> None:
    """Put a result into the tensor given as `out=`, resizing it where its shape differs."""
    check_target(op, target, array, operands)
    if target._array.shape != array.shape:
        if target._array.size:
            warnings.warn(
                "An output with one or more elements was resized: out= of "
                f"{op} had shape {target._array.shape}, its result has {array.shape}. Pass an "
                "empty tensor, or one of the right shape.",
                UserWarning,
                stacklevel=origin.stacklevel(),
            )
        if type(target._array) is numpy.ndarray:
            target._array = resized(op, target, array.shape)
        else:
            target._array = held(numpy.empty(array.shape, target._array.dtype))
    if before_write:
        announce_write(target._array)
    try:
        target._array[...] = array
    except ValueError:  # the shape is its own
        raise errors.read_only(op) from None
    bump(target, op)
