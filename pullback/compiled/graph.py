"""Captured calls as an `fx.GraphModule`: for partitioners, and for back ends of the user's.

The module takes and gives tensors. Its nodes call overloads of `ops.aten` where a call has one, and
else a function that runs the captured call; so it can be printed, changed and run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from pullback.compiled.capture.steps import Call, Value, live
from pullback.core.memory import meta
from pullback.core.mode import NO_GRAD, current, settle
from pullback.core.ports import ports
from pullback.core.tensor import Tensor, wrap
from pullback.core.trees.pytree import tree_map

__all__ = [
    "GraphProgram",
    "compiled_by",
    "enter_as",
    "enter_calls",
    "example_of",
    "graph_module",
    "overload_of",
    "read_by",
    "step_of",
    "tensor_program",
]


def graph_module(
    calls: list[Call],
    inputs: Sequence[Value],
    outputs: Sequence[Value | None],
    *,
    names: Sequence[str] | None = None,
    constants: Sequence[tuple[Value, Any]] = (),
) -> Any:
    """A module of the calls that `outputs` need; `constants` are values with their arrays."""
    from pullback.fx.graph import Graph
    from pullback.fx.graph_module import GraphModule

    graph = Graph()
    named = names or [f"primals_{place}" for place in range(1, len(inputs) + 1)]
    nodes: dict[int, Any] = {}
    root: dict[str, Any] = {}
    for one, name in zip(inputs, named, strict=True):
        nodes[one.number] = graph.placeholder(name)
    for number, (one, array) in enumerate(constants):
        root[f"_tensor_constant{number}"] = wrap(array)
        nodes[one.number] = graph.get_attr(f"_tensor_constant{number}")
    for one in (*inputs, *(value for value, _ in constants)):
        nodes[one.number].meta["val"] = one
    enter_calls(graph, live(calls, [one for one in outputs if one is not None]), nodes)
    graph.output(tuple(None if one is None else nodes[one.number] for one in outputs))
    return GraphModule(root, graph)


def enter_calls(graph: Any, calls: list[Call], nodes: dict[int, Any]) -> None:
    """Calls as nodes of a graph; `nodes` has those of their inputs, and gets those of results."""
    for call in calls:
        _enter(graph, call, nodes)


def _enter(graph: Any, call: Call, nodes: dict[int, Any]) -> None:
    """One call as a node, and as many more as it has results."""
    enter_as(graph, call, nodes, *_spelled(call, nodes))


def enter_as(graph: Any, call: Call, nodes: dict[int, Any], target: Any, args: Any,
             kwargs: Any) -> None:  # fmt: skip
    """A call as a node with this target and these arguments."""
    made = graph.call_function(target, args, kwargs, name=_name(call))
    made.meta.update(call=call, stack_trace=str(call.origin or ""))
    for place, one in enumerate(call.results):
        node = made if call.single else graph.call_function(_item, (made, place))
        node.meta["val"] = one
        nodes[one.number] = node


def _item(several: Any, place: int) -> Any:
    return several[place]


def _name(call: Call) -> str:
    name = call.name.strip("_").replace(".", "_")
    return name if name.isidentifier() else "step"


def _spelled(call: Call, nodes: dict[int, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """An overload and its arguments; where there is none, a function of the tensors read."""
    found = overload_of(call, nodes)
    if found is not None:
        target, args, kwargs = found
        return target, args, kwargs
    read = read_by(call)
    step = step_of(call, [one.number for one in read])
    return step, tuple(nodes[one.number] for one in read), {}


def read_by(call: Call) -> list[Value]:
    """The values that a call reads, each once."""
    return list({one.number: one for one in call.inputs}.values())


def overload_of(call: Call, nodes: dict[int, Any]) -> Any:
    """An overload and its arguments, nodes in place of values; None where there is none."""
    found = _overload(call)
    if found is None:
        return None
    target, args, kwargs, stand_ins = found
    known = {id(tensor): nodes[number] for number, tensor in stand_ins.items()}

    def node_of(one: Any) -> Any:
        return known[id(one)] if isinstance(one, Tensor) else one

    try:
        return target, tuple(tree_map(node_of, list(args))), tree_map(node_of, kwargs)
    except KeyError:
        return None  # a tensor that the spelling made itself


def _overload(call: Call) -> Any:
    """The call as torch spells it, on tensors without values; None where it has no spelling."""
    if call.op is None or call.random:
        return None
    stand_ins: dict[int, Tensor] = {}

    def tensor_of(one: Any) -> Any:
        if one.__class__ is Value:
            if one.number not in stand_ins:
                array = meta.strided(one.shape, one.dtype, one.strides)
                stand_ins[one.number] = wrap(meta.plain(array))
            return stand_ins[one.number]
        if one.__class__ is tuple:
            return tuple(tensor_of(part) for part in one)
        if isinstance(one, numpy.ndarray) and one.ndim == 0:
            return one.item()  # it stands for a number
        return one

    bound = {name: tensor_of(one) for name, one in call.kwargs.items()}
    try:
        target, args, kwargs, finish = ports.overload_of(call.op, call.op.name, bound)
    except (LookupError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return None  # torch has no spelling of such a call: it stays one of ours
    if finish is not None or any(isinstance(one, numpy.ndarray) for one in args):
        return None
    return target, args, kwargs, stand_ins


def step_of(call: Call, numbers: list[int]) -> Any:
    """A function of a call's tensors, by the operator's name: the eager kernel."""

    def step(*tensors: Tensor) -> Any:
        made = call.run(dict(zip(numbers, [one._array for one in tensors], strict=True)))
        return wrap(made[0]) if call.single else tuple(map(wrap, made))

    # Written code knows functions by their names.
    step.__name__ = step.__qualname__ = f"{_name(call)}_{call.results[0].number}"
    step.__doc__ = call.name
    return step


def tensor_program(run: Any, arrays: list[Any]) -> list[Any]:
    """A compiler's function, called with arrays below autograd; `_boxed_call` ones take a list."""
    before = settle()
    try:
        current.set(NO_GRAD)
        given = [wrap(array) for array in arrays]
        made = run(given) if getattr(run, "_boxed_call", False) else run(*given)
    finally:
        current.set(before)
    listed = made if isinstance(made, tuple | list) else (made,)
    return [one._array if isinstance(one, Tensor) else one for one in listed]


def compiled_by(compiler: Any, module: Any, examples: list[Any]) -> Any:
    """What a compiler makes of a module; RuntimeError where that cannot be called."""
    run = compiler(module, examples)
    if not callable(run):
        raise RuntimeError(
            f"The back end {compiler!r} returned {type(run).__name__}; it has to return "
            "a function of the graph's inputs."
        )
    return run


def example_of(one: Value) -> Tensor:
    """A tensor of a value's shape and dtype."""
    return wrap(numpy.zeros(one.shape, one.dtype))


class GraphProgram:
    """A program by a back end of the user's."""

    backend = "user"

    def __init__(
        self, compiler: Any, calls: list[Call], inputs: Sequence[Value], outputs: Sequence[Value]
    ) -> None:
        self.module = graph_module(calls, inputs, outputs)
        self.calls = live(calls, outputs)
        self.run = compiled_by(compiler, self.module, [example_of(one) for one in inputs])

    @property
    def source(self) -> str:
        """The module's code."""
        return str(self.module.code)

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """The program's outputs."""
        return tensor_program(self.run, arrays)
