"""`split_module`: a graph as several, each a submodule of one that calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.fx.graph import Graph
from pullback.fx.graph_module import GraphModule
from pullback.fx.node import Node, map_arg
from pullback.nn.modules.module import Module

__all__ = ["split_module"]


class _Part:
    """One of the graphs being made."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.graph = Graph()
        self.nodes: dict[Node, Node] = {}  # of the whole graph -> of this one
        self.inputs: list[Node] = []
        self.outputs: list[Node] = []
        self.needs: set[str] = set()


def split_module(
    m: GraphModule,
    root_m: Module,
    split_callback: Callable[[Node], int],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool = False,
    **options: Any,
) -> GraphModule:
    """Split a graph by the number that `split_callback` gives each node.

    Nodes of one number become the submodule `submod_<number>`.

    Example:
        >>> import pullback as torch
        >>> from pullback import fx
        >>> from pullback.fx.passes.split_module import split_module
        >>> traced = fx.symbolic_trace(lambda x: torch.relu(x + 1) * 2)
        >>> split = split_module(traced, traced, lambda node: int(node.name == "mul"))
        >>> [name for name, _ in split.named_children()], split(torch.tensor(1.0))
        (['submod_0', 'submod_1'], tensor(4.))
    """
    if options.get("keep_original_node_name") or options.get("partition_affix"):
        raise NotImplementedError(f"split_module: {sorted(options)} is not supported.")
    parts: dict[str, _Part] = {}
    home: dict[Node, _Part] = {}
    for node in m.graph.nodes:
        if node.op in ("call_module", "call_method", "call_function"):
            name = str(split_callback(node))
            home[node] = parts.setdefault(name, _Part(name))
    _find_borders(m.graph, home)
    for part in parts.values():
        for node in part.inputs:
            part.nodes[node] = part.graph.placeholder(node.name, node.type)
            part.nodes[node].meta = dict(node.meta)
    _fill(m.graph, home)
    return _joined(m, root_m, _ordered(parts), home, qualname_map)


def _find_borders(graph: Graph, home: dict[Node, _Part]) -> None:
    for node in graph.nodes:
        part = home.get(node)
        for one in node._input_nodes:
            source = home.get(one)
            if one.op == "get_attr" or source is part:
                continue
            if part is not None and one not in part.inputs:
                part.inputs.append(one)
            if source is not None:
                if one not in source.outputs:
                    source.outputs.append(one)
                if part is not None:
                    part.needs.add(source.name)


def _fill(graph: Graph, home: dict[Node, _Part]) -> None:
    for node in graph.nodes:
        part = home.get(node)
        if part is None:
            continue

        def known(one: Node, part: _Part = part) -> Node:
            if one not in part.nodes:  # an attribute: each part reads its own
                part.nodes[one] = part.graph.node_copy(one)
            return part.nodes[one]

        args, kwargs = map_arg(node.args, known), map_arg(node.kwargs, known)
        made = part.graph.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = dict(node.meta)
        part.nodes[node] = made


def _ordered(parts: dict[str, _Part]) -> list[_Part]:
    """Parts before those that need them."""
    done: list[_Part] = []
    waiting = list(parts.values())
    names: set[str] = set()
    while waiting:
        ready = next((part for part in waiting if part.needs <= names), None)
        if ready is None:
            raise RuntimeError(
                "The parts need each other's results: "
                + ", ".join(f"{part.name} needs {sorted(part.needs - names)}" for part in waiting)
            )
        waiting.remove(ready)
        done.append(ready)
        names.add(ready.name)
    return done


def _joined(
    m: GraphModule,
    root_m: Module,
    parts: list[_Part],
    home: dict[Node, _Part],
    qualname_map: dict[str, str] | None,
) -> GraphModule:
    graph = Graph()
    values: dict[Node, Any] = {}
    targets: dict[str, Any] = {}
    for node in m.graph.nodes:
        if node.op == "placeholder" or (node.op == "get_attr" and _used_at_the_end(node)):
            values[node] = graph.node_copy(node)
            if node.op == "get_attr":
                targets[str(node.target)] = _attribute(m, str(node.target))
    for part in parts:
        outputs = [part.nodes[one] for one in part.outputs]
        part.graph.output(outputs[0] if len(outputs) == 1 else tuple(outputs))
        name = f"submod_{part.name}"
        targets[name] = GraphModule(m, part.graph, name)
        if qualname_map is not None:
            for one in part.graph.nodes:
                if one.op in ("call_module", "get_attr"):
                    qualname_map[f"{name}.{one.target}"] = str(one.target)
        call = graph.call_module(name, tuple(values[one] for one in part.inputs))
        if len(outputs) == 1:
            values[part.outputs[0]] = call
        else:
            import operator

            for at, one in enumerate(part.outputs):
                values[one] = graph.call_function(operator.getitem, (call, at))
    last = m.graph.output_node()
    graph.output(map_arg(last.args[0], lambda one: values[one]), last.type)
    return GraphModule(targets, graph)


def _used_at_the_end(node: Node) -> bool:
    return any(user.op == "output" for user in node.users)


def _attribute(module: Module, path: str) -> Any:
    place: Any = module
    for part in path.split("."):
        place = getattr(place, part)
    return place


__dir__ = _only_public(globals())
