"""`Interpreter` and `Transformer`: run a graph node by node, to compute or to make another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.fx._symbolic_trace import Tracer
from pullback.fx.graph import Graph
from pullback.fx.graph_module import GraphModule
from pullback.fx.node import Node, map_aggregate, map_arg
from pullback.fx.proxy import Proxy
from pullback.nn.modules.module import Module

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a graph one node after the other; a method per kind of node can be overridden.

    Example:
        >>> import pullback as torch
        >>> from pullback import fx
        >>> class Loud(fx.Interpreter):
        ...     def run_node(self, n):
        ...         print(n.op, n.name)
        ...         return super().run_node(n)
        >>> Loud(fx.symbolic_trace(lambda x: x.relu())).run(torch.tensor([-1.0]))
        placeholder x
        call_method relu
        output output
        tensor([0.])
    """

    def __init__(
        self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = module.graph if graph is None else graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        if garbage_collect_values:
            seen: set[Node] = set()
            for node in reversed(self.graph.nodes):
                last = [one for one in node._input_nodes if one not in seen]
                seen.update(last)
                self.user_to_last_uses[node] = last

    def run(
        self,
        *args: Any,
        initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:
        """What the graph gives for these arguments."""
        self.env = dict(initial_env or {})
        given = self.graph.process_inputs(*args) if enable_io_processing else args
        self.args_iter: Iterator[Any] = iter(given)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    error.add_note(f"while running {node.format_node()}")
                raise
            for one in self.user_to_last_uses.get(node, ()):
                self.env.pop(one, None)
            if node.op == "output":
                out = self.env[node]
                self.env = {} if self.garbage_collect_values else self.env
                return self.graph.process_outputs(out) if enable_io_processing else out
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """As `run`, with the arguments in a list that is emptied."""
        args = list(args_list)
        args_list.clear()
        return self.run(*args, enable_io_processing=False)

    def run_node(self, n: Node) -> Any:
        """What one node gives."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The next argument."""
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(f"No value was given for the argument {target!r}.") from None

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An attribute of the module."""
        return self.fetch_attr(target)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a function gives."""
        return target(*args, **kwargs)

    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a method gives."""
        owner, *rest = args
        return getattr(owner, target)(*rest, **kwargs)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a submodule gives."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the graph gives."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """An attribute of the module, by its path."""
        place: Any = self.module
        parts = target.split(".")
        for at, part in enumerate(parts):
            if not hasattr(place, part):
                raise RuntimeError(f"The module has no {'.'.join(parts[: at + 1])}.")
            place = getattr(place, part)
        return place

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """A node's arguments, with values for nodes."""
        args = self.map_nodes_to_values(n.args, n)
        return args, self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Nested arguments, with values for nodes."""

        def value(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(f"{n} needs {node}, which has not been computed.")
            return self.env[node]

        return _plain(map_arg(args, value))


def _plain(value: Any) -> Any:
    """Ordinary lists and dicts instead of a node's."""
    if isinstance(value, tuple):
        items = [_plain(one) for one in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return value


class _TransformerTracer(Tracer):
    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.tensor_attrs = {}

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return True


class Transformer(Interpreter):
    """Runs a graph on proxies, which makes a new one; override a method to change what it does.

    Example:
        >>> import pullback as torch
        >>> from pullback import fx
        >>> class Negated(fx.Transformer):
        ...     def call_function(self, target, args, kwargs):
        ...         return torch.neg(super().call_function(target, args, kwargs))
        >>> traced = fx.symbolic_trace(lambda x: torch.relu(x))
        >>> Negated(traced).transform()(torch.tensor([2.0]))
        tensor([-2.])
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _TransformerTracer(self.new_graph)
        self.tracer.root = module

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An input of the new graph."""
        default = args[0] if args else ...
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An attribute, in the new graph."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a submodule, in the new graph."""
        module = self.fetch_attr(target)
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a function, in the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The new graph, as a module."""
        result = super().run(enable_io_processing=False)
        if result is not None:

            def node_of(value: Any) -> Any:
                return value.node if isinstance(value, Proxy) else value

            kind = self.graph.output_node().type
            made = self.new_graph.output(map_aggregate(result, node_of), kind)
            made.meta.update(self.graph.output_node().meta)
        name = type(self.module).__name__
        return _same_training(self.module, GraphModule(self.module, self.new_graph, name))


def _same_training(old: Module, new: GraphModule) -> GraphModule:
    new.training = old.training
    return new


__dir__ = _only_public(globals())
