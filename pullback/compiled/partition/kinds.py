"""What a partitioner must know of a node: its bytes, its cost, and whether it may run twice."""

from __future__ import annotations

import math
from typing import Any

from pullback.compiled.partition import config
from pullback.core.tensor import Tensor
from pullback.operators.declare import Op

__all__ = ["bytes_of", "cost_of", "is_random", "is_view", "may_run_twice"]

_MOVES = frozenset({
    "_to_copy", "astype", "broadcast_to", "cat", "clone", "contiguous", "copy", "expand",
    "full_like", "getitem", "laid_out", "masked_fill", "ones_like", "pad", "part", "squeeze",
    "stack", "to", "unsqueeze", "where", "with_part", "zeros_like",
})  # fmt: skip
_CASTS = frozenset({"astype", "to", "_to_copy"})
_PRODUCTS = ("mm", "matmul", "dot", "mv", "einsum", "conv", "attention", "linear", "fft", "linalg")


def _op(node: Any) -> Op | None:
    call = node.meta.get("call")
    if call is not None:
        found: Op | None = call.op
        return found
    return getattr(getattr(node.target, "_declared", None), "op", None)


def _name(node: Any) -> str:
    call = node.meta.get("call")
    if call is not None:
        return str(call.name)
    packet = getattr(node.target, "overloadpacket", node.target)
    return str(getattr(packet, "__name__", None) or node.name).rpartition(".")[2]


def _values(node: Any) -> list[Any]:
    """What a node makes, with `shape` and `dtype`."""
    value = node.meta.get("val")
    if value is None:
        call = node.meta.get("call")
        return [] if call is None else list(call.results)
    return list(value) if isinstance(value, tuple | list) else [value]


def _size(value: Any) -> int:
    return math.prod(value.shape)


def bytes_of(node: Any) -> int:
    """Memory of what a node makes."""
    total = 0
    for one in _values(node):
        width = one.element_size() if isinstance(one, Tensor) else one.dtype.itemsize
        total += _size(one) * int(width)
    return total


def cost_of(node: Any) -> int:
    """An estimate of the work: elements, times the common dimension of a product."""
    elements = sum(_size(one) for one in _values(node)) or 1
    read = [one for node in node.all_input_nodes for one in _values(node)]
    if is_product(node) and read:
        common: int = max([one.shape[-1] for one in read[:1] if one.shape] or [1])
        return 2 * elements * common
    return max([elements, *map(_size, read)])


def is_product(node: Any) -> bool:
    """Whether it is a matrix product, convolution, transform or decomposition."""
    name = _name(node)
    return any(word in name for word in _PRODUCTS)


def is_view(node: Any) -> bool:
    """Whether its result lies in the memory of its input."""
    op = _op(node)
    return (op is not None and op.kind == "view") or _name(node) in ("part", "getitem", "_item")


def is_cast(node: Any) -> bool:
    """Whether it changes the dtype alone."""
    return _name(node) in _CASTS


def is_random(node: Any) -> bool:
    """Whether it draws random numbers."""
    call = node.meta.get("call")
    return call is not None and bool(call.random)


def is_reduction(node: Any) -> bool:
    """Whether it makes fewer elements than it reads."""
    made = max([_size(one) for one in _values(node)], default=0)
    read = max([_size(one) for n in node.all_input_nodes for one in _values(n)], default=0)
    return not is_view(node) and read > made


def may_run_twice(node: Any) -> bool:
    """Whether computing it again in backward is cheap enough, and gives the same."""
    if is_random(node):
        return False
    if is_view(node) or is_cast(node):
        return True
    if config.aggressive_recomputation:
        return not is_product(node)
    if is_product(node) or (config.ban_recompute_reductions and is_reduction(node)):
        return False
    op = _op(node)
    return _name(node) in _MOVES or (op is not None and op.kind == "elementwise")
