"""The backward graph as plain data: what the page, the SVG and the DOT file are drawn from.

Everything is read here and nothing of the graph is kept, so a page outlives its graph and costs no
memory of tensors.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pullback.autograd.answers.modules import ModuleNames
from pullback.autograd.graph.memory import saved_values
from pullback.core.dtype import from_numpy_dtype
from pullback.core.node import AccumulateGrad, Node, node_and_number, walk
from pullback.core.origin import Origin
from pullback.core.saved import Freed
from pullback.core.sequence import shown
from pullback.operators.running.inplace import CopySlices

# In the order of the legend.
KINDS = ("operator", "view", "in-place", "function", "leaf", "parameter", "unreached")


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's program."""

    file: str
    line: int
    function: str
    text: str  # the whole line


@dataclass(slots=True)
class Value:
    """A tensor that a node saved, or the tensor whose gradient it takes."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}"


@dataclass(slots=True)
class Described:
    """One node."""

    name: str
    kind: str
    sequence: int  # of the forward call that made it; -1 for a leaf
    label: str = ""  # the user's name of a leaf
    outputs: list[Value] = field(default_factory=list)  # of the forward: what gradients arrive for
    saved: list[Value] = field(default_factory=list)
    freed: bool = False
    edges: list[tuple[int, int] | None] = field(default_factory=list)  # node, number of its output
    place: Place | None = None
    expression: str = ""  # the call itself, where the line has several
    hooks: int = 0
    time: int | None = None  # nanoseconds in the last profiled backward
    memory: int | None = None
    root: bool = False
    steps: list[str] = field(default_factory=list)  # of a compiled call: what its program does
    module: str = ""  # the path of the module that it belongs to
    norm: float | None = None  # of the gradient that arrives, where that was asked for
    why: str = ""  # of a parameter that the graph does not reach

    @property
    def bytes(self) -> int:
        """Of all that it saved."""
        return sum(value.bytes for value in self.saved)


@dataclass(slots=True)
class Graph:
    """Nodes; the operators' in the order of the forward, then the leaves."""

    nodes: list[Described]
    modules: dict[str, str] = field(default_factory=dict)  # path -> `Linear(9, 2)`

    @property
    def counts(self) -> dict[str, int]:
        """How many nodes there are of each kind that occurs."""
        found = [node.kind for node in self.nodes]
        return {kind: found.count(kind) for kind in KINDS if kind in found}


def describe(
    roots: Iterable[Any],
    names: Mapping[int, str],
    modules: ModuleNames | None = None,
    norms: Mapping[Any, float] | None = None,
) -> Graph:
    """The graph that `roots` (edges) lead to; `names` are the user's, by the id of a tensor.

    `modules` says what belongs to which module, `norms` how large the gradient at a node is.
    """
    edges = list(roots)
    # What leads nowhere, as a view made under no_grad, is no node.
    found = [node for node in walk(iter(edges)) if isinstance(node, Node)]
    leaves = [node for node in found if isinstance(node, AccumulateGrad)]
    others = sorted((n for n in found if not isinstance(n, AccumulateGrad)), key=lambda n: -n._seq)
    order: list[Any] = [*others, *leaves]
    number = {node: index for index, node in enumerate(order)}
    costs = _costs()
    top = {node_and_number(edge)[0] for edge in edges}
    places: _Places = {}
    made = [_described(node, number, names, costs, top, places) for node in order]
    paths = modules.paths(order) if modules else {}
    for node, one in zip(order, made, strict=True):
        one.module = paths.get(node, "")
        one.norm = (norms or {}).get(node)
    return Graph(made, modules.labels if modules else {})


def unreached(graph: Graph, missing: Iterable[Any]) -> None:
    """Add the parameters that the graph does not reach, as boxes without edges."""
    for one in missing:
        place = None
        if one.origin is not None:
            at = one.origin
            place = Place(at.file, at.line, at.function, at.source)
        graph.nodes.append(
            Described(
                "not reached",
                "unreached",
                -1,
                label=one.name,
                outputs=[Value("", one.shape, one.dtype, 0)],
                place=place,
                module=one.name.rpartition(".")[0],
                why=one.why,
            )
        )


def _described(
    node: Any,
    number: Mapping[Node, int],
    names: Mapping[int, str],
    costs: Mapping[Any, tuple[int, int]],
    top: set[Any],
    places: _Places,
) -> Described:
    leaf = isinstance(node, AccumulateGrad)
    made = Described(
        name=type(node).name(node).removeprefix("torch::autograd::"),
        kind=_kind(node),
        sequence=-1 if leaf else node._sequence_nr(),
        root=node in top,
    )
    for edge in node._edges:
        target, output = node_and_number(edge)
        made.edges.append(None if target is None else (number[target], output))
    made.outputs = [
        _value("", shape, dtype) for shape, dtype in (size for size in _sizes(node) if size)
    ]
    if leaf:
        made.label = names.get(id(node.variable), "")
    else:
        made.saved = [_value(n, a.shape, a.dtype) for n, a, _ in saved_values(node)]
        made.freed = _is_freed(node)
        made.steps = list(node._steps())
    if node._origin is not None:
        made.place, made.expression, writes = _place(node._origin, places)
        if made.kind == "operator" and writes:
            made.kind = "in-place"
    cold = node._cold
    if cold is not None:
        tables = [*(cold.tensor_hooks or {}).values(), cold.pre_hooks or (), cold.post_hooks or ()]
        made.hooks = sum(map(len, tables))
    if leaf:
        made.hooks += len(node.variable._leaf_hooks or ())
    made.time, made.memory = costs.get(node if leaf else node._seq, (None, None))
    return made


def _sizes(node: Any) -> Any:
    if node._g_sizes is not None:
        return node._g_sizes
    return [(node._g_shape, node._g_dtype)] if hasattr(node, "_g_shape") else []


def _value(name: str, shape: tuple[int, ...], dtype: Any) -> Value:
    size = int(dtype.itemsize)
    for length in shape:
        size *= length
    shown = str(from_numpy_dtype(dtype)).removeprefix("torch.")
    return Value(name, tuple(map(int, shape)), shown, size)


def _kind(node: Any) -> str:
    if isinstance(node, AccumulateGrad):
        # Parameters are of a layer above; what makes one is its class.
        classes = type(node.variable).__mro__
        return "parameter" if any(c.__name__ == "Parameter" for c in classes) else "leaf"
    if node._by_user:
        return "function"
    if isinstance(node, CopySlices):
        return "in-place"
    op = getattr(type(node), "op", None)
    return "view" if op is not None and op.kind == "view" else "operator"


def _is_freed(node: Any) -> bool:
    slots = [name for base in type(node).__mro__ for name in vars(base).get("__slots__", ())]
    kept = (getattr(node, name, None) for name in slots if name.startswith(("s_", "_saved")))
    return any(type(value) is Freed for value in kept)


def _costs() -> dict[Any, tuple[int, int]]:
    """What the last profiled backward took, by `_seq` or leaf; empty without a profiler."""
    import sys

    profiler = sys.modules.get("pullback.autograd.profiler")
    if profiler is None:
        return {}
    known = profiler.last_costs
    return {key if type(key) is int else key(): cost for key, cost in known.items()}


# A call in the user's code -> its line, its own text, and whether that is an in-place call.
_Places = dict[tuple[Any, int], tuple[Place, str, bool]]


def costs_by_number() -> dict[int, tuple[int, int]]:
    """The same by sequence number, for nodes that were described before they ran."""
    return {shown(key): cost for key, cost in _costs().items() if type(key) is int}


def _place(origin: Origin, places: _Places) -> tuple[Place, str, bool]:
    key = origin.code, origin.lasti
    if key not in places:
        place = Place(origin.file, origin.line, origin.function, origin.source)
        expression = _expression(origin)
        places[key] = place, expression, _writes(expression)
    return places[key]


def _expression(origin: Origin) -> str:
    """The text of the very call, from the positions that the compiler left."""
    positions = list(origin.code.co_positions())
    index = origin.lasti // 2
    if index >= len(positions):
        return ""
    line, end_line, start, end = positions[index]
    if line is None or line != end_line or start is None or end is None:
        return ""
    text = linecache.getline(origin.file, line).encode()  # columns count bytes
    return text[start:end].decode(errors="replace").strip()


def _writes(expression: str) -> bool:
    """Whether a call is an in-place one: `y.add_(1)`, `y += 1`, `relu(y, inplace=True)`."""
    try:
        parsed = ast.parse(expression).body
    except SyntaxError:
        return False
    if not parsed:
        return False
    if isinstance(parsed[0], ast.AugAssign):
        return True
    call = parsed[0].value if isinstance(parsed[0], ast.Expr) else None
    if not isinstance(call, ast.Call):
        return False
    called = call.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    if name.endswith("_") and not name.endswith("__"):
        return True
    return any(k.arg == "inplace" and getattr(k.value, "value", 0) is True for k in call.keywords)
