"""`replace_pattern`: find a small graph in a large one, and put another in its place."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pullback.core.listing import only_public as _only_public
from pullback.fx._symbolic_trace import symbolic_trace
from pullback.fx.graph import Graph
from pullback.fx.graph_module import GraphModule
from pullback.fx.node import Node
from pullback.nn.modules.module import Module

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """Where a pattern was found: the pattern's output, and what stands for each of its nodes."""

    anchor: Node
    nodes_map: dict[Node, Any]


@dataclass
class ReplacedPatterns:
    """A match, and the nodes that were put in its place."""

    anchor: Node
    nodes_map: dict[Node, Any]
    replacements: list[Node] = field(default_factory=list)


def replace_pattern(
    gm: GraphModule,
    pattern: Callable[..., Any] | GraphModule,
    replacement: Callable[..., Any] | GraphModule,
) -> list[Match]:
    """Put `replacement` wherever `pattern` is found; both take the same arguments.

    Example:
        >>> import pullback as torch
        >>> from pullback import fx
        >>> traced = fx.symbolic_trace(lambda x: torch.relu(x) + torch.relu(x))
        >>> found = fx.replace_pattern(traced, lambda x: torch.relu(x), lambda x: torch.neg(x))
        >>> len(found), traced(torch.tensor(1.0))
        (2, tensor(-2.))
    """
    found = _replace(gm, pattern, replacement, ())
    return [Match(one.anchor, one.nodes_map) for one in found]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Any,
    replacement: Any = None,
    match_filters: list[Callable[..., bool]] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[..., Any] | None = None,
    **options: Any,
) -> list[ReplacedPatterns]:
    """As `replace_pattern`, where all filters agree: `filter(match, original, pattern)`."""
    if options:
        raise NotImplementedError(f"replace_pattern_with_filters: {sorted(options)} is not known.")
    return _replace(
        gm, pattern, replacement, tuple(match_filters or ()), ignore_literals, replacement_callback
    )


def _graph_of(program: Any) -> tuple[Graph, Any]:
    if isinstance(program, Graph):
        return program, None
    module = program if isinstance(program, GraphModule) else symbolic_trace(program)
    return module.graph, module


def _replace(
    gm: GraphModule,
    pattern: Any,
    replacement: Any,
    filters: tuple[Callable[..., bool], ...],
    ignore_literals: bool = False,
    callback: Callable[..., Any] | None = None,
) -> list[ReplacedPatterns]:
    wanted, _ = _graph_of(pattern)
    found = [
        match
        for match in _matches(gm.graph, wanted, ignore_literals)
        if all(agrees(match, gm.graph, wanted) for agrees in filters)
    ]
    replaced: list[ReplacedPatterns] = []
    moved: dict[Node, Node] = {}  # outputs of earlier matches -> what stands there now
    given, source = (None, None) if replacement is None else _graph_of(replacement)
    for match in found:
        if callback is not None:
            given, source = _graph_of(callback(match, gm.graph, wanted))
        if given is None:
            raise ValueError("A replacement is needed, or replacement_callback.")
        replaced.append(_put(gm.graph, wanted, given, match, moved))
        if source is not None:
            _take_targets(gm, source)
    gm.recompile()
    return replaced


def _take_targets(gm: GraphModule, source: GraphModule) -> None:
    """Attributes and modules that the replacement brings along."""
    for node in source.graph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        place: Any = gm
        for part in str(node.target).split("."):
            place = getattr(place, part, None)
        if place is None:
            value: Any = source
            for part in str(node.target).split("."):
                value = getattr(value, part)
            if isinstance(value, Module):
                gm.add_submodule(str(node.target), copy.deepcopy(value))
            else:
                setattr(gm, str(node.target), value)


def _matches(graph: Graph, wanted: Graph, ignore_literals: bool) -> list[Match]:
    """Matches that do not overlap, in the order of their outputs."""
    outputs = wanted.output_node().args[0]
    outputs = list(outputs) if isinstance(outputs, tuple | list) else [outputs]
    anchor = outputs[-1]
    taken: set[Node] = set()
    found: list[Match] = []
    inside = [node for node in wanted.nodes if node.op not in ("placeholder", "output")]
    for node in graph.nodes:
        pairs: dict[Node, Any] = {}
        if not isinstance(anchor, Node) or not _fits(anchor, node, pairs, ignore_literals):
            continue
        if not all(_attach(graph, one, pairs, ignore_literals) for one in outputs):
            continue
        used = {pairs[one] for one in inside if one in pairs}
        if len(used) < len(inside) or used & taken or _leaks(pairs, outputs):
            continue
        taken |= used
        found.append(Match(anchor, pairs))
    return found


def _attach(graph: Graph, output: Any, pairs: dict[Node, Any], ignore_literals: bool) -> bool:
    """Find another output of the pattern among the graph's nodes."""
    if not isinstance(output, Node) or output in pairs:
        return isinstance(output, Node)
    for node in graph.nodes:
        tried = dict(pairs)
        if _fits(output, node, tried, ignore_literals):
            pairs.update(tried)
            return True
    return False


def _leaks(pairs: dict[Node, Any], outputs: list[Any]) -> bool:
    """Whether something inside of the match is used outside of it."""
    inside = {value for key, value in pairs.items() if key.op != "placeholder"}
    for key, value in pairs.items():
        if key.op in ("placeholder", "output") or key in outputs or not isinstance(value, Node):
            continue
        if any(user not in inside for user in value.users):
            return True
    return False


def _fits(pattern: Any, value: Any, pairs: dict[Node, Any], ignore_literals: bool) -> bool:
    """Whether a value of the graph is what the pattern says; noted in `pairs`."""
    todo: list[tuple[Any, Any]] = [(pattern, value)]
    while todo:
        wanted, found = todo.pop()
        if isinstance(wanted, Node):
            if wanted in pairs:
                if pairs[wanted] is not found:
                    return False
                continue
            if wanted.op != "placeholder":
                if not isinstance(found, Node) or not _same_step(wanted, found):
                    return False
                if (
                    len(wanted.args) != len(found.args)
                    or wanted.kwargs.keys() != found.kwargs.keys()
                ):
                    return False
                todo += zip(wanted.args, found.args, strict=True)
                todo += [(wanted.kwargs[key], found.kwargs[key]) for key in wanted.kwargs]
            pairs[wanted] = found
        elif isinstance(wanted, tuple | list):
            if type(wanted) is not type(found) or len(wanted) != len(found):
                return False
            todo += zip(wanted, found, strict=True)
        elif isinstance(wanted, dict):
            if not isinstance(found, dict) or wanted.keys() != found.keys():
                return False
            todo += [(wanted[key], found[key]) for key in wanted]
        elif isinstance(found, Node) or not (ignore_literals or wanted == found):
            return False
    return True


def _same_step(wanted: Node, found: Node) -> bool:
    if wanted.op != found.op:
        return False
    if wanted.op == "call_module":
        return _kind(wanted) is _kind(found) or wanted.target == found.target
    return bool(wanted.target == found.target)


def _kind(node: Node) -> Any:
    owner = node.graph.owning_module
    return node if owner is None else type(owner.get_submodule(str(node.target)))


def _put(
    graph: Graph, wanted: Graph, given: Graph, match: Match, moved: dict[Node, Node]
) -> ReplacedPatterns:
    """The replacement in the place of a match."""
    inputs = [node for node in wanted.nodes if node.op == "placeholder"]
    new_inputs = [node for node in given.nodes if node.op == "placeholder"]
    if len(inputs) != len(new_inputs):
        raise AssertionError("The pattern and its replacement take different numbers of arguments.")
    values: dict[Node, Any] = {}
    for old, new in zip(inputs, new_inputs, strict=True):
        value = match.nodes_map.get(old)
        values[new] = moved.get(value, value) if isinstance(value, Node) else value
    inside = [
        match.nodes_map[one] for one in wanted.nodes if one.op not in ("placeholder", "output")
    ]
    last = max(inside, key=lambda node: sum(1 for other in inside if other <= node))
    before = list(graph.nodes)
    with graph.inserting_after(last):
        result = graph.graph_copy(given, values)
    made = [node for node in graph.nodes if node not in set(before)]
    _redirect(wanted.output_node().args[0], result, match, moved)
    for node in sorted(inside, key=before.index, reverse=True):
        if not node.users:
            graph.erase_node(node)
    return ReplacedPatterns(match.anchor, match.nodes_map, made)


def _redirect(old: Any, new: Any, match: Match, moved: dict[Node, Node]) -> None:
    olds = list(old) if isinstance(old, tuple | list) else [old]
    news = list(new) if isinstance(new, tuple | list) else [new]
    if len(olds) != len(news):
        raise AssertionError("The pattern and its replacement give different numbers of results.")
    for before, after in zip(olds, news, strict=True):
        target = match.nodes_map[before]
        target.replace_all_uses_with(after)
        moved[target] = after


__dir__ = _only_public(globals())
