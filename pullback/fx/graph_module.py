"""`GraphModule`: a module whose forward is written from a graph."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.core.writer import define_once
from pullback.fx._codegen import _PyTreeCodeGen
from pullback.fx.graph import Graph
from pullback.fx.node import Node, map_arg
from pullback.nn.modules.container import ModuleDict, ModuleList, Sequential
from pullback.nn.modules.module import Module
from pullback.nn.parameter import Parameter

__all__ = ["GraphModule", "reduce_graph_module"]


class GraphModule(Module):
    """A module made of a graph and the attributes that its nodes name.

    After a change of `graph` call `recompile()`; assigning a graph does that itself.

    Example:
        >>> import pullback as torch
        >>> from pullback import fx
        >>> traced = fx.symbolic_trace(lambda x: torch.relu(x) + 1)
        >>> for node in traced.graph.nodes:
        ...     if node.target is torch.relu:
        ...         node.target = torch.neg
        >>> traced.recompile().src.count("torch.neg")
        1
        >>> traced(torch.tensor([1.0]))
        tensor([0.])
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Each gets a class of its own, to which its forward belongs."""
        for base in cls.__mro__:
            if base.__qualname__ == "GraphModule" or not getattr(base, "_graph_module_impl", False):
                own = type("GraphModuleImpl", (base,), {"_graph_module_impl": True})
                return super().__new__(own)
        raise AssertionError("GraphModule is among its own bases")

    def __init__(
        self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule"
    ) -> None:
        super().__init__()
        type(self).__name__ = class_name
        self.meta: dict[str, Any] = {}
        self._create_node_hooks: list[Callable[..., Any]] = []
        self._erase_node_hooks: list[Callable[..., Any]] = []
        self._replace_hooks: list[Callable[..., Any]] = []
        if isinstance(root, Module):
            self.training = root.training
            self.meta.update(getattr(root, "meta", {}) if isinstance(root, GraphModule) else {})
        elif not isinstance(root, dict):
            found = type(root).__name__
            raise RuntimeError(f"A graph's root is a module or a dict of targets, not {found}.")
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                _take_over(root, self, str(node.target))
        self.graph = graph
        self._tracer_cls = graph._tracer_cls
        self._tracer_extras = graph._tracer_extras

    # ------------------------------------------------------------------ graph and code

    @property
    def graph(self) -> Graph:
        """The graph that forward is written from."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"graph must be a Graph, got {type(g).__name__}.")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The source of forward."""
        return self._code

    def recompile(self) -> Any:
        """Write forward anew from the graph, after a change of it."""
        codegen = self._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self._in_spec = codegen.pytree_info.in_spec
            self._out_spec = codegen.pytree_info.out_spec
        written = self._graph.python_code("self")
        self._code = written.src
        name = codegen._func_name
        forward = define_once(self._code, dict(written.globals), "fx graph", name, ours=False)
        setattr(type(self), name, forward)
        return written

    # ------------------------------------------------------------------ submodules

    def add_submodule(self, target: str, m: Module) -> bool:
        """Put a module at a path, with plain modules on the way; False if one is no module."""
        *path, name = target.split(".")
        place: Module = self
        for part in path:
            inner = getattr(place, part, None)
            if inner is None:
                inner = Module()
                setattr(place, part, inner)
            if not isinstance(inner, Module):
                return False
            place = inner
        place.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Take a module away; False if there is none at that path."""
        *path, name = target.split(".")
        place: Any = self
        for part in path:
            place = getattr(place, part, None)
            if not isinstance(place, Module):
                return False
        if not isinstance(getattr(place, name, None), Module):
            return False
        delattr(place, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Take away every module that the graph does not name."""
        used: set[str] = set()
        for node in self._graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            parts = str(node.target).split(".")
            used.update(".".join(parts[:end]) for end in range(1, len(parts) + 1))
            if node.op == "call_module":
                inner = self.get_submodule(str(node.target))
                used.update(f"{node.target}.{name}" for name, _ in inner.named_modules() if name)
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # ------------------------------------------------------------------ copies and text

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        bare = {name: value for name, value in self.__dict__.items() if name != "_graph"}
        held = Module()
        copied_state = copy.deepcopy(bare, memo)
        held.__dict__.update(copied_state)
        made: GraphModule = GraphModule.__new__(type(self))
        memo[id(self)] = made
        made.__dict__.update(copied_state)
        type(made).__name__ = type(self).__name__
        made.__dict__["_graph"] = copy.deepcopy(self._graph, memo)
        made._graph.owning_module = made
        made.recompile()
        return made

    def __copy__(self) -> GraphModule:
        made = GraphModule(self, copy.deepcopy(self._graph), type(self).__name__)
        made.meta = dict(self.meta)
        return made

    def __reduce__(self) -> Any:
        state = dict(self.__dict__)
        nodes = state.pop("_graph")
        made = ("_graph_module_impl", "_original")  # classes of one instance, or scripted
        own = (one for one in type(self).__mro__ if issubclass(one, GraphModule))
        base = next(one for one in own if not any(name in vars(one) for name in made))
        impl = next(one for one in type(self).__mro__ if "_graph_module_impl" in vars(one))
        return reduce_graph_module, (base, impl.__name__, state, _frozen(nodes))

    def __str__(self) -> str:
        return "\n".join([super().__repr__(), self._code])

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        **options: Any,
    ) -> str:
        """Forward as the body of a class, with the modules inside; printed, and returned."""
        lines = [f"class {type(self).__name__}(torch.nn.Module):"]
        lines += [f"    {line}" for line in self._code.strip().splitlines()]
        for inner in self.children():
            if isinstance(inner, GraphModule):
                text = inner.print_readable(print_output=False)
                lines += ["", *(f"    {line}" for line in text.splitlines())]
        text = "\n".join(lines) + "\n"
        if print_output:
            print(text)
        return text

    def to_folder(self, folder: str | Path, module_name: str = "FxModule") -> None:
        """Not there: a graph module is kept by `torch.save` or `copy.deepcopy`."""
        raise NotImplementedError(
            "GraphModule.to_folder is not supported; keep the module with torch.save(module, "
            "path), or write `module.code` yourself."
        )

    # ------------------------------------------------------------------ who looks on

    def _register_create_node_hook(self, f: Callable[..., Any]) -> None:
        self._create_node_hooks.append(f)

    def _unregister_create_node_hook(self, f: Callable[..., Any]) -> None:
        self._create_node_hooks.remove(f)

    def _register_erase_node_hook(self, f: Callable[..., Any]) -> None:
        self._erase_node_hooks.append(f)

    def _unregister_erase_node_hook(self, f: Callable[..., Any]) -> None:
        self._erase_node_hooks.remove(f)

    def _register_replace_node_hook(self, f: Callable[..., Any]) -> None:
        self._replace_hooks.append(f)

    def _unregister_replace_node_hook(self, f: Callable[..., Any]) -> None:
        self._replace_hooks.remove(f)


def _take_over(root: Module | dict[str, Any], to: Module, target: str) -> None:
    """Give `to` the attribute of `root` that a node names, at the same path."""
    *path, name = target.split(".")
    source: Any = root
    for part in path:
        inner: Any = Module()
        if isinstance(source, Module):
            source = getattr(source, part)
            if isinstance(source, Sequential | ModuleList | ModuleDict):
                inner.training = source.training
        present = getattr(to, part, None)
        if present is source and isinstance(present, Module):
            return  # the whole of it was taken over
        if not isinstance(present, Module):
            setattr(to, part, inner)
        to = getattr(to, part)
    if isinstance(root, dict):
        if target not in root:
            raise RuntimeError(f"The graph uses {target!r}, which is not among the targets given.")
        value = root[target]
    else:
        value = getattr(source, name)
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        persistent = name not in getattr(source, "_non_persistent_buffers_set", ())
        if name not in to.__dict__.get("_buffers", {}):
            to.register_buffer(name, value, persistent=persistent)
    else:
        setattr(to, name, value)


# Pickling: nodes point at each other, so they are written as a list with numbers for inputs.


class _Number:
    """Stands for a node in a pickle."""

    def __init__(self, at: int) -> None:
        self.at = at


def _frozen(graph: Graph) -> Any:
    numbers = {node: _Number(at) for at, node in enumerate(graph.nodes)}
    rows = [
        (
            *(node.op, node.name, node.target, node.type),
            map_arg(node.args, numbers.__getitem__),
            map_arg(node.kwargs, numbers.__getitem__),
        )
        for node in graph.nodes
    ]
    return rows, graph._codegen, graph._tracer_cls


def _thawed(frozen: Any) -> Graph:
    from pullback.fx.node import map_aggregate

    rows, codegen, tracer_cls = frozen
    graph = Graph(tracer_cls=tracer_cls)
    made: list[Node] = []

    def known(value: Any) -> Any:
        return made[value.at] if isinstance(value, _Number) else value

    for op, name, target, kind, args, kwargs in rows:
        args, kwargs = map_aggregate(args, known), map_aggregate(kwargs, known)
        made.append(graph.create_node(op, target, args, kwargs, name, kind))
    graph.set_codegen(codegen)
    return graph


def reduce_graph_module(base: Any, name: str, state: dict[str, Any], frozen: Any) -> GraphModule:
    """A graph module from its pickle.

    Args:
        base: Class of the module that was traced.
        name: Name of the class of the result.
        state: Attributes of the module, its graph among them.
        frozen: What the pickle keeps beside the attributes.
    """
    made: GraphModule = GraphModule.__new__(base)
    made.__dict__.update(state)
    type(made).__name__ = name
    made.graph = _thawed(frozen)
    return made


__dir__ = _only_public(globals())
