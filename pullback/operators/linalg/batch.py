"""Batching rules of products: all become one product of stacked matrices; see batching.py."""

from __future__ import annotations

from typing import Any

from pullback.operators.batching import filled, front, ndim_of, padded
from pullback.operators.declare import Op

Split = dict[str, Any]
Options = dict[str, Any]


def _product(a: Any, b: Any) -> Any:
    """`a @ b` of every example, from pairs of tensor and dimension; the examples come in front."""
    rank_a, rank_b = ndim_of(a), ndim_of(b)
    if rank_a == 0 or rank_b == 0:
        raise RuntimeError("matmul: both tensors need at least 1 dimension; use mul for 0-d ones.")
    if rank_a == 1 and rank_b == 1:
        if a[1] is None:
            return front(*b) @ a[0]
        return front(*a) @ b[0] if b[1] is None else (front(*a) * front(*b)).sum(1)
    left = a[0] if a[1] is None else front(*a)
    right = b[0] if b[1] is None else front(*b)
    if rank_a == 1:
        left = left.unsqueeze(-2)
    if rank_b == 1:
        right = right.unsqueeze(-1)
    rank = max(rank_a, rank_b, 2)
    if a[1] is not None:
        left = padded(left, 0, rank)
    if b[1] is not None:
        right = padded(right, 0, rank)
    if a[1] is None and rank_a == 2 and rank_b == 1:
        return front(*b) @ a[0].mT  # one product of two matrices
    result = left @ right
    if rank_a == 1:
        return result.squeeze(-2)
    return result.squeeze(-1) if rank_b == 1 else result


def product(op: Op, size: int, split: Split, options: Options) -> Any:
    """Matmul and its special cases; what one example would be refused for is refused here too."""
    first, second = split.values()
    wanted = {"mm": (2, 2), "bmm": (3, 3), "mv": (2, 1), "dot": (1, 1), "vdot": (1, 1)}.get(op.name)
    got = (ndim_of(first), ndim_of(second))
    if wanted is not None and got != wanted:
        raise RuntimeError(
            f"{op.name}: needs tensors of {wanted[0]} and {wanted[1]} dimensions, got {got[0]} and "
            f"{got[1]}."
        )
    if first[0].dtype is not second[0].dtype:
        raise RuntimeError(
            f"{op.name}: both tensors must have the same dtype, got {first[0].dtype} and "
            f"{second[0].dtype}; convert one of them."
        )
    if op.name == "vdot":
        first = (first[0].conj(), first[1])
    return _product(first, second)


def contracted(op: Op, size: int, split: Split, options: Options) -> Any:
    """The examples are one more label."""
    (a, first), (b, second) = split["input"], split["other"]
    plan = options["plan"].with_examples(of_input=first is not None, of_other=second is not None)
    a = a if first is None else front(a, first)
    return op.function(a, b if second is None else front(b, second), plan)


def outer(op: Op, size: int, split: Split, options: Options) -> Any:
    """The vectors of each example, as columns and rows."""
    first, second = split.values()
    if (got := (ndim_of(first), ndim_of(second))) != (1, 1):
        raise RuntimeError(f"outer: needs two vectors, got tensors of {got[0]} and {got[1]} dims.")
    return _outer(first, second, size)


def _outer(first: Any, second: Any, size: int) -> Any:
    return filled(first, size).unsqueeze(2) * filled(second, size).unsqueeze(1)


def kron(op: Op, size: int, split: Split, options: Options) -> Any:
    """The dimensions of `input` and `other` of each example by turns, then made one."""
    pairs = split["input"], split["other"]
    rank = max(ndim_of(pair) for pair in pairs)
    a, b = (padded(filled(pair, size), 0, rank) for pair in pairs)
    sizes, others = tuple(a.shape[1:]), tuple(b.shape[1:])
    spread = (size, *(one for n in sizes for one in (n, 1)))
    copies = (size, *(one for n in others for one in (1, n)))
    shape = (size, *(n * m for n, m in zip(sizes, others, strict=True)))
    return (a.reshape(spread) * b.reshape(copies)).reshape(shape)


def plus_product(op: Op, size: int, split: Split, options: Options) -> Any:
    """`beta * input + alpha * product` for addmm and its relatives."""
    term, first, second = split.values()
    beta, alpha = options["beta"], options["alpha"]
    if op.name == "addr":
        made = _outer(first, second, size)
    elif first[1] is None and second[1] is None:
        made = (first[0] @ second[0]).unsqueeze(0)
    else:
        made = _product(first, second)
    if op.name == "addbmm":
        made = made.sum(1)
    if alpha != 1:
        made = made * alpha
    if beta == 0:
        return made if made.shape[0] == size else made.expand((size, *made.shape[1:]))
    value, bdim = term
    if bdim is not None:
        value = padded(value, bdim, made.ndim - 1)
    return made + (value if beta == 1 else value * beta)


def affine(op: Op, size: int, split: Split, options: Options) -> Any:
    """`linear`: examples of the input are further rows, as long as all share one weight."""
    input, weight, bias = split["input"], split["weight"], split["bias"]
    if weight[1] is None and bias[1] is None:
        return op.function(front(*input), weight[0], bias[0])
    matrix = (weight[0].mT, weight[1]) if weight[1] is None else (front(*weight).mT, 0)
    if ndim_of(weight) == 1:
        matrix = weight
    if input[1] is None and matrix[1] is None:
        made = (input[0] @ matrix[0]).unsqueeze(0)
    else:
        made = _product(input, matrix)
    if bias[0] is None:
        return made
    shift = bias[0] if bias[1] is None else padded(bias[0], bias[1], made.ndim - 1)
    return made + shift
