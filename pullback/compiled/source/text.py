"""A graph as the text of a function in torch's words, with the user's lines as comments."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Any

import numpy

import pullback
from pullback.compiled.source.simplify import name_of
from pullback.compiled.source.tracing import Spelled
from pullback.core.device import device
from pullback.core.dtype import dtype
from pullback.core.layout import layout, memory_format
from pullback.core.tensor import Tensor
from pullback.fx.graph import Graph
from pullback.fx.node import Node

__all__ = ["lines_of", "written"]

_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "mm": "@", "bmm": "@", "mv": "@",
    "matmul": "@", "gt": ">", "lt": "<", "ge": ">=", "le": "<=", "eq": "==", "ne": "!=",
    "bitwise_and": "&", "bitwise_or": "|", "pow": "**",
}  # fmt: skip
_PUBLIC = ("special_", "linalg_", "fft_")


def lines_of(graph: Graph, names: dict[Node, str], *, copies: bool = False) -> Iterator[str]:
    """The statements of a function, the last of which returns; `names` are those of the nodes.

    With `copies` no two results share memory.
    """
    said: Any = None
    for node in graph.nodes:
        if node.op == "call_function":
            line = _comment(node)
            if line and line != said:
                said = line
                yield f"# {line}"
            yield f"{names[node]} = {_call(node, names)}"
        elif node.op == "output":
            yield f"return {_returned(node.args[0], names, copies=copies)}"


def _comment(node: Node) -> str:
    line = node.meta.get("line")
    if line is None:
        return ""
    way = "backward of " if node.meta.get("is_backward") else ""
    return f"{way}{line}: {line.source}" if line.source else f"{way}{line}"


def _returned(value: Any, names: dict[Node, str], *, copies: bool) -> str:
    """A result: what is an argument is copied, so that nobody writes to both."""
    if isinstance(value, Node):
        copies = copies or value.op in ("placeholder", "get_attr")
        return f"{names[value]}.clone()" if copies else names[value]
    if isinstance(value, tuple | list):
        inner = ", ".join(_returned(one, names, copies=copies) for one in value)
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, dict):
        pairs = ", ".join(
            f"{key!r}: {_returned(one, names, copies=copies)}" for key, one in value.items()
        )
        return "{" + pairs + "}"
    return written(value, names)


def _call(node: Node, names: dict[Node, str]) -> str:
    target, args = node.target, node.args
    if target is operator.getitem:
        return f"{names[args[0]]}[{args[1]}]"
    given = [written(one, names) for one in args]
    named = [f"{key}={written(one, names)}" for key, one in node.kwargs.items() if one is not None]
    if isinstance(target, Spelled):
        return f"{target.text}({', '.join([*given, *named])})"
    name = name_of(node)
    if name in _SIGNS and len(given) == 2 and not named:
        return f"{given[0]} {_SIGNS[name]} {given[1]}"
    if name == "neg":
        return f"-{given[0]}"
    if name == "convolution" and len(given) == 9:
        return _convolution(node, given)
    if name in ("slice", "index") and not named:
        return f"{given[0]}[{', '.join(_key(name, node, names))}]"
    if name in _RENAMED:
        name = _RENAMED[name]
        given = given[:2]
    if name in ("view", "_unsafe_view"):  # memory may lie otherwise where the text is run
        name = "reshape"
    if name.startswith("as_strided"):
        given[0] += ".contiguous()"
    if name == "_to_copy":
        return f"{given[0]}.to({', '.join(named)})"
    is_method = hasattr(pullback.Tensor, name) and args and isinstance(args[0], Node)
    if is_method and (not hasattr(pullback, name) or name in _METHODS) and name[0] != "_":
        return f"{given[0]}.{name}({', '.join([*given[1:], *named])})"
    whole = ", ".join([*given, *named])
    if hasattr(pullback, name) and not name.startswith("_"):
        return f"torch.{name}({whole})"
    for prefix in _PUBLIC:
        module = getattr(pullback, prefix.removesuffix("_"))
        if name.startswith(prefix) and hasattr(module, name.removeprefix(prefix)):
            return f"torch.{prefix.removesuffix('_')}.{name.removeprefix(prefix)}({whole})"
    return f"torch.ops.{target}({whole})"  # as `aten.index.Tensor` says itself


# Operators that torch has under another name, with the same leading arguments.
_RENAMED = {
    "_softmax": "softmax",
    "_log_softmax": "log_softmax",
    "_conj": "conj",
    "zero": "zeros_like",
}


def _convolution(node: Node, given: list[str]) -> str:
    """By the public name of the form that it is, whose arguments have another order."""
    *operands, stride, padding, dilation, _, beside, groups = given
    transposed = bool(node.args[6])
    form = f"conv{'_transpose' * transposed}{len(node.args[3])}d"
    rest = [beside, groups, dilation] if transposed else [dilation, groups]
    return f"torch.nn.functional.{form}({', '.join([*operands, stride, padding, *rest])})"


def _key(name: str, node: Node, names: dict[Node, str]) -> list[str]:
    """What stands in brackets: `:, 1:3` or `:, index`."""
    if name == "index":
        return [":" if one is None else written(one, names) for one in node.args[1]]
    given: list[Any] = [*node.args[1:], *[0, None, None, 1][len(node.args) - 1 :]]
    dim, start, stop, step = given
    dim %= node.args[0].meta["val"].ndim
    first = "" if start in (None, 0) else str(start)
    last = "" if stop is None or stop >= 2**63 - 1 else str(stop)
    return [*[":"] * dim, f"{first}:{last}" + ("" if step in (None, 1) else f":{step}")]


_METHODS = frozenset(["expand", "view", "reshape", "permute", "transpose", "sum", "t"])


def written(value: Any, names: dict[Node, str]) -> str:
    """An argument as text."""
    if isinstance(value, Node):
        return names[value]
    if isinstance(value, list | tuple):
        inner = ", ".join(written(one, names) for one in value)
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, dtype | memory_format | layout):
        return str(value)
    if isinstance(value, device):
        return f"torch.device({str(value)!r})"
    if isinstance(value, numpy.generic):  # a number like any other, to an operator
        value = value.item()
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f'float("{value}")'
    if value is None or isinstance(value, int | str | complex):
        return repr(value)
    if isinstance(value, Tensor):
        return literal(value)
    raise NotImplementedError(
        f"source(): an argument of type {type(value).__name__} cannot be written as text."
    )


def literal(tensor: Tensor) -> str:
    """A small tensor of numbers, as text."""
    numbers = tensor.tolist()
    if tensor.ndim == 0:
        return f"torch.tensor({written(numbers, {})}, dtype={tensor.dtype})"
    return f"torch.tensor({_nested(numbers)}, dtype={tensor.dtype})"


def _nested(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_nested(one) for one in value) + "]"
    return written(value, {})
