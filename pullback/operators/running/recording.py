"""Gives results their history: nodes with what their rules will ask for, views with their base.

Step by step, for calls that are not plain; `writing/record.py` writes the same as a fast path.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from pullback.core import overriding, saved
from pullback.core.arrays import LIBRARIES, Array, as_array
from pullback.core.dtype import OF_NUMBERS
from pullback.core.explain import anomaly
from pullback.core.mode import Mode
from pullback.core.node import Edge, OperatorNode
from pullback.core.origin import getframe, user_frame
from pullback.core.overriding import DISPATCH
from pullback.core.ports import ports
from pullback.core.sequence import numbering
from pullback.core.tensor import Tensor, new
from pullback.core.version import own_cell
from pullback.core.view import NOWHERE, CreationMeta, attach, edge_of
from pullback.operators.arrays.strides import root
from pullback.operators.declare import Op
from pullback.operators.running.outputs import SeveralOutputs
from pullback.operators.writing.nodes import node_class


def input_edges(op: Op, values: dict[str, Any]) -> tuple[Edge | None, ...]:
    """Where the gradients of the differentiable inputs go."""
    edges: list[Edge | None] = []
    for param in op.differentiable:
        value = values[param.name]
        listed = value if param.kind == "tensors" else (value,)
        edges.extend(edge_of(one) if isinstance(one, Tensor) else None for one in listed)
    return tuple(edges)


def record(
    op: Op,
    values: dict[str, Any],
    options: dict[str, Any],
    results: list[Tensor],
    mode: Mode,
    kept: KeptInputs | None = None,
) -> None:
    """Give the results their history, and views their base."""
    recording = mode.grad and not mode.inference
    if kept is not None:
        edges = kept.edges
    else:
        edges = input_edges(op, values) if recording and op.differentiable else ()
    tracked = any(edge is not None for edge in edges)
    node = make_node(op, edges, values, options, results, mode, kept) if tracked else None
    carries = [r._raw.dtype.kind in "fcVW" for r in results]  # V, W: of ml_dtypes
    for number, result in enumerate(results):
        fixed = len(op.outputs) > number and op.outputs[number] in op.fixed_outputs
        edge = None if node is None or fixed or not carries[number] else _edge(op, node, number)
        if op.kind == "view":
            _attach_view(op, values, options, result, edge, mode, number)
        else:
            result._node = edge
    if node is not None and mode.saved_hooks:
        pack_outputs(op, node, results, mode)


def _edge(op: Op, node: OperatorNode, number: int) -> Edge:
    return node._output(number) if isinstance(node, SeveralOutputs) else node


def _attach_view(
    op: Op,
    values: dict[str, Any],
    options: dict[str, Any],
    result: Tensor,
    edge: Edge | None,
    mode: Mode,
    number: int,
) -> None:
    source = next(iter(values.values()))
    answered = result._overrides & DISPATCH
    if not answered and not shares_memory(result._raw, source._raw):
        result._node = edge
        return
    creation = CreationMeta.DEFAULT
    if mode.inference:
        creation = CreationMeta.INFERENCE_MODE
    elif not mode.grad:
        creation = CreationMeta.NO_GRAD_MODE
    elif op.outputs == ("*",):
        creation = CreationMeta.MULTI_OUTPUT_NODE
    replay = None
    if not op.strided or mode.view_replay or answered or source._bits:
        several = len(op.outputs) > 1 or op.outputs == ("*",)
        replay = view_step(op.function, options, number if several else None)
    attach(result, source, edge, replay, creation)


class OneOf(partial[Any]):
    """A step of a view's replay by an operator with several results, of which it takes one."""

    number: int

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Make them all, and give that one."""
        return super().__call__(*args, **kwargs)[self.number]


def view_step(function: Any, options: dict[str, Any], number: int | None) -> partial[Any]:
    """What makes the view of another base; `number` says which, where there are several."""
    if number is None:
        return partial(function, **options)
    step = OneOf(function, **options)
    step.number = number
    return step


def shares_memory(a: Array, b: Array) -> bool:
    """Whether `a` is made on the memory of `b` (as view operators do, or fail to and copy)."""
    return a is b or (a.base is not None and root(a) is root(b))


def make_node(
    op: Op,
    edges: tuple[Edge | None, ...],
    values: dict[str, Any],
    options: dict[str, Any],
    results: list[Tensor],
    mode: Mode,
    kept: KeptInputs | None = None,
) -> OperatorNode:
    """A node with what its rules will ask for; `kept` has the inputs that hooks packed.

    With hooks on, outputs are left to `pack_outputs`: a hook sees them with their history.
    """
    cls = node_class(op, type(results[0]._array))
    plan = cls.plan  # type: ignore[attr-defined]  # written by node_class
    node = new(cls)
    # What requires grad but leads nowhere is no reason to keep the other operand.
    edges = tuple(None if edge is NOWHERE else edge for edge in edges)
    node._edges = edges
    node._cold = None
    node._g_shape, node._g_dtype = results[0]._raw.shape, results[0]._raw.dtype
    if isinstance(node, SeveralOutputs):
        node._g_sizes = tuple((r._raw.shape, r._raw.dtype) for r in results)
    frame = user_frame(getframe(2))
    node._code, node._lasti = (None, 0) if frame is None else (frame.f_code, frame.f_lasti)
    for param in plan.inputs:
        wanted = needed(plan, param.name, edges)
        if wanted and kept is not None:
            value, version = kept.values[param.name]
            setattr(node, "s_" + param.name, value)
            setattr(node, "s_" + param.name + "_v", version)
        else:
            keep_input(node, param.name, values[param.name] if wanted else None, mode)
    for name in plan.options:
        setattr(node, "s_" + name, options[name])
    for name in plan.derived:
        setattr(node, "s_" + name, derived_value(name, values))
    if not mode.saved_hooks:
        for name in plan.outputs:
            keep_output(node, name, results[op.outputs.index(name)], mode)
    node._seq = numbering.next()
    if LIBRARIES and (library := LIBRARIES.get(type(results[0]._array))) is not None:
        library.recorded(node, values.values())
    if overriding.classes and _any_answers(values, results):
        overriding.know(node)
    if (
        node._g_dtype.char != OF_NUMBERS
        and op.name == "_to_copy"
        and values["input"].dtype.numpy.char == OF_NUMBERS
    ):
        overriding.know(node)  # behind it are objects, whose gradients are tensors all the way
    if anomaly.state.enabled:
        anomaly.remember(node)
    return node


def _any_answers(values: dict[str, Any], results: list[Tensor]) -> bool:
    """Whether a class of tensors had a part in a call below autograd."""
    for one in (*values.values(), *results):
        if isinstance(one, Tensor):
            if one._overrides & DISPATCH:
                return True
        elif type(one) in (tuple, list) and _any_answers({}, list(one)):
            return True
    return False


class KeptInputs(NamedTuple):
    """What hooks made of a call's inputs."""

    # Not to be found anew: leaves know their accumulators weakly, and hooked values remember them.
    edges: tuple[Edge | None, ...]
    values: dict[str, tuple[Any, Any]]  # by name: the kept value (or tuple of such) and its version


def pack_inputs(op: Op, values: dict[str, Any]) -> KeptInputs | None:
    """Give the inputs that a node will save to the user's hooks.

    Before anything is computed or written: a hook that raises leaves all as it was, and one that
    has seen enough saves the work.
    """
    edges = input_edges(op, values) if op.differentiable else ()
    if all(edge is None for edge in edges):
        return None
    plan = node_class(op).plan  # type: ignore[attr-defined]  # written by node_class
    packed = {
        param.name: _packed(values[param.name])
        for param in plan.inputs
        if needed(plan, param.name, edges)
    }
    return KeptInputs(edges, packed)


def _packed(value: Any) -> tuple[Any, Any]:
    if isinstance(value, tuple | list):
        return tuple(_packed(one)[0] for one in value), tuple(version_of(one) for one in value)
    is_tensor = isinstance(value, Tensor)
    return saved.pack(value, output=False) if is_tensor else value, version_of(value)


def needed(plan: Any, name: str, edges: tuple[Any, ...]) -> bool:
    """Whether an edge that leads somewhere has a rule that asks for `name`."""
    return any(i < len(edges) and edges[i] is not None for i in plan.users(name))


def pack_outputs(op: Op, node: OperatorNode, results: list[Tensor], mode: Mode) -> None:
    """Give the outputs that a node saves to the user's hooks, now that they have their history."""
    for name in type(node).plan.outputs:  # type: ignore[attr-defined]  # written by node_class
        keep_output(node, name, results[op.outputs.index(name)], mode)


def keep_input(node: OperatorNode, name: str, value: Any, mode: Mode) -> None:
    """Save an input: the object and its version, or what the user's pack hook made of it."""
    if mode.saved_hooks:
        kept, version = _packed(value)
    elif isinstance(value, tuple | list):
        kept, version = tuple(value), tuple(version_of(v) for v in value)
    else:
        kept, version = value, version_of(value)
    setattr(node, "s_" + name, kept)
    setattr(node, "s_" + name + "_v", version)


def version_of(value: Any) -> int | None:
    """The version of a tensor; None of anything else."""
    return value._cell[0] if isinstance(value, Tensor) else None


def keep_output(node: OperatorNode, name: str, result: Tensor, mode: Mode) -> None:
    """Save an output without its owner, which holds the node."""
    packed = saved.pack(result, output=True) if mode.saved_hooks else None
    kept: Any = result._array
    if mode.dispatch and not packed:
        detached = ports.detached_below(result)  # which the user's mode is shown
        kept = detached if detached._overrides & DISPATCH else detached._array
    elif not packed and result._overrides & DISPATCH:
        kept = result.detach()
    setattr(node, "s_" + name, packed or kept)
    setattr(node, "s_" + name + "_c", packed._cell if packed else own_cell(result))
    setattr(node, "s_" + name + "_v", result._cell[0])


def derived_value(name: str, values: dict[str, Any]) -> Any:
    """`input_shape` and the like."""
    owner, _, what = name.rpartition("_")
    value = values[owner]
    of_array = attrgetter("flags.f_contiguous" if what == "turned" else what)
    if isinstance(value, tuple | list):
        return tuple(of_array(as_array(getattr(v, "_raw", v))) for v in value)
    if value is None:
        return None
    return of_array(as_array(getattr(value, "_raw", value)))
