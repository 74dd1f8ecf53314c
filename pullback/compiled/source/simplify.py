"""Makes a graph without writes shorter: one of equal calls, no zeros and ones, no steps in place.

Results are the same bits, but for the sign of zeros that are added.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

import pullback
from pullback.core.tensor import Tensor
from pullback.fx.graph import Graph
from pullback.fx.node import Node

__all__ = ["simplify"]

# What gives a tensor with the same values in each place as its first argument has.
_MOVES = frozenset(
    {
        *("expand", "view", "reshape", "_reshape_alias", "_unsafe_view", "permute", "transpose"),
        *("t", "unsqueeze", "squeeze", "select", "slice", "narrow", "flip", "clone", "detach"),
        *("alias", "contiguous", "diagonal", "swapaxes"),
    }
)
# Of these, what gives the argument itself if the shape is the same.
_RESHAPES = frozenset(["expand", "view", "reshape", "_unsafe_view", "squeeze", "slice", "narrow"])
_COPIES = frozenset(["clone", "detach", "alias", "contiguous", "lift_fresh_copy", "lift_fresh"])
_FILLED = {"zeros": 0, "zeros_like": 0, "new_zeros": 0, "zero": 0, "ones": 1, "ones_like": 1,
           "new_ones": 1}  # fmt: skip
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": numpy.add,
    "sub": numpy.subtract,
    "mul": numpy.multiply,
    "div": numpy.true_divide,
}
_INVERSES = frozenset(["neg", "t", "conj"])
_RANDOM = ("rand", "bernoulli", "dropout", "normal", "multinomial", "poisson", "uniform")


def simplify(graph: Graph) -> None:
    """Simplify a graph in place until nothing changes."""
    while _pass(graph):
        graph.eliminate_dead_code(_stays)
    graph.eliminate_dead_code(_stays)


def _stays(node: Node) -> bool:
    return node.op in ("placeholder", "output")


def name_of(node: Node) -> str:
    """The operator of a node, without its overload; empty for what is no call of one."""
    return getattr(node.target, "_opname", "") if node.op == "call_function" else ""


def _pass(graph: Graph) -> bool:
    known: dict[Any, Node] = {}
    values: dict[Node, Any] = {}
    changed = False
    for node in list(graph.nodes):
        if node.op == "get_attr" and node.meta.get("is_number"):
            values[node] = node.meta["val"].item()
        if node.op != "call_function":
            continue
        value = _uniform(node, values)
        if value is not None:
            values[node] = value
        other = _same_as(node, values)
        if other is None:
            key = _key(node)
            other = known.setdefault(key, node) if key is not None else node
        if other is not node:
            node.replace_all_uses_with(other)
            graph.erase_node(node)
            changed = True
        elif _with_numbers(node, values) or (value is not None and _filled(node, values)):
            changed = True
    return changed


def _key(node: Node) -> Any:
    """What equal calls have in common; None for what draws random numbers."""
    if any(word in name_of(node) for word in _RANDOM):
        return None
    return getattr(node.target, "text", node.target), _frozen(node.args), _frozen(node.kwargs)


def _frozen(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return tuple(_frozen(one) for one in value)
    if isinstance(value, dict):
        return tuple((name, _frozen(one)) for name, one in sorted(value.items()))
    if isinstance(value, Node):
        return value
    return type(value), repr(value)


# Tensors whose elements are one number ------------------------------------------------------------


def _uniform(node: Node, values: dict[Node, Any]) -> Any:
    """The number that all elements are, in the tensor's dtype; None where that is not known."""
    result = node.meta.get("val")
    if not isinstance(result, Tensor) or result.is_complex():
        return None
    name, dtype = name_of(node), result._array.dtype
    if dtype.kind not in "f" or dtype.itemsize < 4:
        return None
    if name in _FILLED:
        return dtype.type(_FILLED[name])
    if name in ("full", "full_like", "new_full", "fill"):
        given = node.args[-1]
        return dtype.type(given) if isinstance(given, int | float) else None
    first = values.get(node.args[0]) if node.args and isinstance(node.args[0], Node) else None
    if name in _MOVES or name == "_to_copy":
        return None if first is None else dtype.type(first)
    if name == "neg":
        return None if first is None else -first
    if name in _ARITHMETIC and len(node.args) == 2 and not node.kwargs:
        left, right = (values.get(one) if isinstance(one, Node) else one for one in node.args)
        if left is None or right is None or isinstance(left, complex):
            return None
        with numpy.errstate(all="ignore"):
            return _ARITHMETIC[name](dtype.type(left), dtype.type(right))
    scatters = name in ("select_scatter", "slice_scatter", "diagonal_scatter", "add", "copy")
    if scatters and first is not None and values.get(node.args[1]) == first:
        return first
    return None


def _filled(node: Node, values: dict[Node, Any]) -> bool:
    """Make a uniform tensor at once, where it is computed in steps."""
    is_made = name_of(node) in _FILLED or name_of(node) in ("full", "new_full", "full_like")
    if is_made and not any(one in values for one in node.all_input_nodes):
        return False
    result = node.meta["val"]
    options = {"dtype": result.dtype}
    if result.device.type not in ("cpu", "meta"):
        options["device"] = result.device
    node.target = pullback.ops.aten.full.default
    node.args, node.kwargs = (list(result.shape), float(values[node])), options
    return True


def _like(node: Any, other: Node) -> bool:
    """Whether two nodes have tensors of the same shape and dtype."""
    a, b = (one.meta.get("val") if isinstance(one, Node) else None for one in (node, other))
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
        return False
    return tuple(a.shape) == tuple(b.shape) and a.dtype == b.dtype


def _same_as(node: Node, values: dict[Node, Any]) -> Node | None:
    """The argument that a call gives back as it is."""
    name = name_of(node)
    if not node.args or not isinstance(node.args[0], Node | int | float):
        return None
    first = node.args[0]
    if not isinstance(first, Node):
        return None
    if name in _COPIES or (name in _RESHAPES and _like(first, node)):
        return first
    if name == "_to_copy" and _like(first, node) and set(node.kwargs) <= {"dtype"}:
        return first
    if name == "copy" and isinstance(node.args[1], Node) and _like(node.args[1], node):
        return node.args[1]
    if name in _INVERSES and name_of(first) == name:
        inner = first.args[0]
        return inner if _like(inner, node) else None
    if name == "transpose" and name_of(first) == name and node.args[1:] == first.args[1:]:
        inner = first.args[0]
        return inner if isinstance(inner, Node) else None
    if name in _ARITHMETIC and len(node.args) == 2 and not node.kwargs:
        neutral = 1 if name in ("mul", "div") else 0
        sides = [(first, node.args[1])]
        if name in ("mul", "add"):
            sides.append((node.args[1], first))
        for kept, other in sides:
            number = values.get(other) if isinstance(other, Node) else other
            if number is not None and number == neutral and _like(kept, node):
                return kept
    return None


def _with_numbers(node: Node, values: dict[Node, Any]) -> bool:
    """Put a number in the place of a tensor that is full of it."""
    name = name_of(node)
    if name == "fill" and node.args[1] in values and node.meta.get("val") is not None:
        node.args = (node.args[0], values[node.args[1]])
        return True
    if (name not in _ARITHMETIC and name != "where") or node in values or node.kwargs:
        return False
    places = (1, 2) if name == "where" else (0, 1)
    given = list(node.args)
    if len(given) != places[-1] + 1:
        return False
    for at, other in (places, places[::-1]):
        one = given[at]
        if isinstance(one, Node) and one in values and _like(given[other], node):
            if at == 0 and name in ("sub", "div"):
                continue  # a number on the left of these is another function
            number = values[one]
            given[at] = number if type(number) is int else float(number)
            node.args = tuple(given)
            return True
    return False
