"""An exported program as a module that runs: its state in place, its conditions checked."""

from __future__ import annotations

from typing import Any

import pullback
from pullback.core.tensor import Tensor
from pullback.fx._codegen import PyTreeInfo, _PyTreeCodeGen
from pullback.fx.graph import Graph
from pullback.fx.graph_module import GraphModule
from pullback.fx.node import Node, map_arg
from pullback.nn.modules.module import Module
from pullback.nn.parameter import Parameter

from .graph_signature import ConstantArgument, InputKind, OutputKind

__all__ = ["GuardsFn", "unlifted"]


class GuardsFn(Module):
    """Checks that arguments are as those that a program was made for, in sizes and constants."""

    _is_impure = True

    def __init__(self, wanted: list[Any], sizes: Any) -> None:
        super().__init__()
        self.__dict__.update(_wanted=wanted, _sizes=sizes)

    def forward(self, *args: Any) -> None:
        """Raise AssertionError where a condition does not hold."""
        sizes: dict[str, int] = {}
        symbols = self.__dict__["_sizes"].symbols
        where = {place: name for name, one in symbols.items() for place in one.places}
        pairs = zip(args, self.__dict__["_wanted"], strict=True)
        for number, (one, (name, shape, what)) in enumerate(pairs):
            if shape is None:
                _compare_constant(one, name, what)
                continue
            _compare_tensor(one, name, shape, what)
            for dim, (size, wanted) in enumerate(zip(one.shape, shape, strict=True)):
                symbol = where.get((number, dim))
                wanted = wanted if symbol is None else sizes.setdefault(symbol, size)
                if size != wanted:
                    raise AssertionError(f"Guard failed: {name}.size()[{dim}] == {wanted}")
        broken = self.__dict__["_sizes"].broken(sizes) if sizes else None
        if broken is not None:
            raise AssertionError(f"Guard failed: {broken}")


def _compare_constant(one: Any, name: str, wanted: Any) -> None:
    if type(one) is not type(wanted) or one != wanted:
        raise AssertionError(f"Guard failed: {name} == {wanted!r}")


def _compare_tensor(one: Any, name: str, shape: Any, dtype: Any) -> None:
    if not isinstance(one, Tensor):
        raise AssertionError(f"Guard failed: {name} is a tensor, got {type(one).__name__}")
    if one.dtype != dtype:
        raise AssertionError(f"Guard failed: {name}.dtype == {dtype}")
    if one.ndim != len(shape):
        raise AssertionError(f"Guard failed: len({name}.size()) == {len(shape)}")


class _Called(_PyTreeCodeGen):
    """A forward with the arguments of the module, those by keyword too."""

    def __init__(self, positional: list[str], named: list[str], info: PyTreeInfo) -> None:
        super().__init__(info)
        self.positional, self.named = positional, named

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        head = f"def {self._func_name}({', '.join(['self', *self.positional, *self.named])}):"
        if not free_vars:
            return head
        names = "".join(f"{one}, " for one in free_vars)
        given = ", ".join(self.positional)
        more = ", ".join(f"{name!r}: {name}" for name in self.named)
        nested = f"(({given}{',' if given else ''}), {{{more}}})"
        return f"{head}\n    {names}= fx_pytree.tree_flatten_spec({nested}, self._in_spec)"

    def generate_output(self, output_args: Any, **options: Any) -> str:
        text = options.get("repr_fn", repr)
        return f"return pytree.tree_unflatten({text(list(output_args))}, self._out_spec)"


def unlifted(program: Any, *, check_guards: bool) -> GraphModule:
    """A module of a program's graph, with the program's own parameters, buffers and constants."""
    graph = Graph()
    known: dict[Node, Any] = {}
    user: list[Node] = []
    signature = program.graph_signature
    inputs = [node for node in program.graph.nodes if node.op == "placeholder"]
    targets: dict[str, Node] = {}
    for node, spec in zip(inputs, signature.input_specs, strict=True):
        if spec.kind is InputKind.USER_INPUT:
            known[node] = graph.placeholder(str(node.target))
            user.append(known[node])
            targets[spec.arg.name] = known[node]
    for node, spec in zip(inputs, signature.input_specs, strict=True):
        if spec.kind is not InputKind.USER_INPUT:
            name = spec.target.replace(".", "_")
            made = graph.create_node("get_attr", spec.target, name=name)
            known[node] = targets[spec.target] = made
    for node, made in known.items():
        made.meta = dict(node.meta)
    root = Module()
    if check_guards:
        root._guards_fn = GuardsFn(_wanted(program, inputs), program._sizes)
        graph.create_node("call_module", "_guards_fn", tuple(user), name="_guards_fn")
    for node in program.graph.nodes:
        if node.op == "call_function":
            known[node] = graph.node_copy(node, lambda one: known[one])
        elif node.op == "get_attr":
            setattr(root, str(node.target), getattr(program.graph_module, str(node.target)))
            known[node] = graph.node_copy(node, lambda one: known[one])
    _return(graph, program, known, targets)
    names, keywords = program._call_names
    info = PyTreeInfo([], program.call_spec.in_spec, program.call_spec.out_spec)
    graph.set_codegen(_Called(names, keywords, info))
    return _with_state(program, root, graph)


def _return(graph: Graph, program: Any, known: dict[Node, Any], targets: dict[str, Node]) -> None:
    """Write to what the program changes, and return the rest."""
    values = map_arg(tuple(program.graph.output_node().args[0]), lambda one: known[one])
    returned = []
    for value, spec in zip(values, program.graph_signature.output_specs, strict=True):
        if spec.kind is OutputKind.USER_OUTPUT:
            returned.append(value)
        else:
            args = (targets[str(spec.target)], value)
            graph.call_function(pullback.ops.aten.copy_.default, args, name="copy_")
    graph.output(returned)


def _wanted(program: Any, inputs: list[Node]) -> list[Any]:
    """Name, and shape and dtype or value, of each input of the caller's."""
    found: list[Any] = []
    for node, spec in zip(inputs, program.graph_signature.input_specs, strict=True):
        if spec.kind is not InputKind.USER_INPUT:
            continue
        if isinstance(spec.arg, ConstantArgument):
            found.append((spec.arg.name, None, spec.arg.value))
        else:
            value = node.meta["val"]
            found.append((spec.arg.name, tuple(value.shape), value.dtype))
    return found


def _with_state(program: Any, root: Module, graph: Graph) -> GraphModule:
    made = GraphModule(root, Graph())
    for name, one in vars(root)["_modules"].items():
        made.add_module(name, one)
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            continue
        *path, name = spec.target.split(".")
        place: Module = made
        for part in path:
            if part not in place._modules:
                place.add_module(part, Module())
            inner = place._modules[part]
            assert inner is not None  # all of them were put there
            place = inner
        if spec.target in program.state_dict:
            value = program.state_dict[spec.target]
        else:
            value = program.constants[spec.target]
        if spec.kind is InputKind.PARAMETER:
            place.register_parameter(name, value if isinstance(value, Parameter) else None)
        elif spec.kind is InputKind.BUFFER:
            place.register_buffer(name, value, persistent=bool(spec.persistent))
        else:
            place.__dict__[name] = value
    made.graph = graph
    return made
