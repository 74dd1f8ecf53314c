"""Sums of products over named dimensions: einsum, tensordot, inner.

Every such sum is made of contractions of two tensors, and each of those is a product of matrices
once its dimensions are in order. The gradient of a contraction is one too, with the names moved.
What an equation comes to on given shapes is worked out once; `equations.py` reads it.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from pullback.core import errors
from pullback.core.tensor import Tensor
from pullback.operators.declare import Array, Namespace, method, multilinear
from pullback.operators.linalg.batch import contracted
from pullback.operators.linalg.equations import (
    Labels,
    Shapes,
    Spelling,
    from_sublists,
    parsed,
    spelt,
)
from pullback.operators.linalg.products import delivered, in_one_dtype, product
from pullback.operators.options import as_dims
from pullback.operators.pointwise.arithmetic import conj
from pullback.operators.reduce.sums import sum
from pullback.operators.running.naming import shown_as
from pullback.operators.shape.reshaping import contiguous, diagonal, permute
from pullback.operators.tensor.convert import astype

FOUND_IN = {"torch": "einsum inner tensordot"}

# Contraction of two -------------------------------------------------------------------------------


class Plan:
    """How two tensors are multiplied and summed over the labels that are not kept.

    Orders of dimensions are None where they are right as they are.
    """

    def __init__(self, labels: Labels, others: Labels, kept: Labels) -> None:
        self.labels, self.others, self.kept = labels, others, kept
        batch = [label for label in kept if label in labels and label in others]
        left = [label for label in kept if label in labels and label not in others]
        right = [label for label in kept if label in others and label not in labels]
        summed = [label for label in labels if label in others and label not in kept]
        self.sums = bool(summed)
        # The result comes out in the order in which it is wanted, so that no copy is needed.
        self.swapped = bool(left and right and kept.index(right[0]) < kept.index(left[0]))
        if self.swapped:
            labels, others, left, right = others, labels, right, left
        self.batch, self.left, self.right = len(batch), len(left), len(right)
        self.rows = _order(labels, (*batch, *left, *summed))
        self.columns = _order(others, (*batch, *summed, *right))
        self.order = _order((*batch, *left, *right), kept)
        # Whether the two are matrices or vectors then, so that no dimensions must become one.
        self.plain = len(summed) == 1 and max(self.left, self.right) <= 1
        self.plain &= not batch or self.left == self.right == 1

    def of_input(self) -> Plan:
        """From the gradient of the result, and `other`, to the gradient of `input`."""
        return plan_of(self.kept, self.others, self.labels)

    def of_other(self) -> Plan:
        """The same for `other`."""
        return plan_of(self.labels, self.kept, self.others)

    def with_examples(self, *, of_input: bool, of_other: bool) -> Plan:
        """For a batch of examples, in front of either tensor and of the result."""
        examples = max((*self.labels, *self.others, *self.kept, 0)) + 1
        labels = (examples, *self.labels) if of_input else self.labels
        others = (examples, *self.others) if of_other else self.others
        return plan_of(labels, others, (examples, *self.kept))


plan_of = functools.lru_cache(maxsize=4096)(Plan)


def _order(labels: Sequence[int], wanted: Sequence[int]) -> Labels | None:
    order = tuple(labels.index(label) for label in wanted)
    return None if order == tuple(range(len(order))) else order


def _of_two(a: Any, b: Any, plan: Plan) -> Any:
    return _contract(a, b, plan) if plan.sums else _multiply(a, b, plan)


@multilinear(
    batch=contracted,
    input=lambda g, other, plan: _of_two(g, conj(other), plan.of_input()),
    other=lambda g, input, plan: _of_two(conj(input), g, plan.of_other()),
    node="ViewBackward0",
    meta="lengths kept",
)
def _contract(xp: Namespace, input: Array, other: Array, plan: Plan) -> Array:
    """Multiply, and sum over labels that both have; what else they have is kept."""
    if plan.swapped:
        input, other = other, input
    rows = input if plan.rows is None else input.transpose(plan.rows)
    columns = other if plan.columns is None else other.transpose(plan.columns)
    result = (
        product(xp, "einsum", rows, columns) if plan.plain else _folded(xp, rows, columns, plan)
    )
    return result if plan.order is None else result.transpose(plan.order)


def _folded(xp: Namespace, first: Array, second: Array, plan: Plan) -> Array:
    """The product, with the dimensions left, summed and right each made one before."""
    end, middle = plan.batch, plan.batch + plan.left
    batch, left = first.shape[:end], first.shape[end:middle]
    right = second.shape[second.ndim - plan.right :]
    size = math.prod(first.shape[middle:])
    if end and not left and not right:  # a BLAS call for each pair of vectors would be slow
        return _dots(xp, first.reshape(*batch, size), second.reshape(*batch, size))
    rows = first.reshape(*batch, math.prod(left), size)
    columns = second.reshape(*batch, size, math.prod(right))
    return product(xp, "einsum", rows, columns).reshape(batch + left + right)


def _dots(xp: Namespace, first: Array, second: Array) -> Array:
    if first.dtype.char in "fd" and first.dtype is second.dtype:
        return xp.vecdot(first, second)
    return product(xp, "einsum", first[..., None, :], second[..., :, None])[..., 0, 0]


@multilinear(
    batch=contracted,
    input=lambda g, other, plan: _of_two(g, astype(conj(other), g.dtype), plan.of_input()),
    other=lambda g, input, plan: _of_two(astype(conj(input), g.dtype), g, plan.of_other()),
    promote="same",
    numbers=False,
    node="MulBackward0",
)
def _multiply(xp: Namespace, input: Array, other: Array, plan: Plan) -> Array:
    """Multiply element by element: every label is kept."""
    return _aligned(input, plan.labels, plan.kept) * _aligned(other, plan.others, plan.kept)


def _aligned(a: Array, labels: Labels, kept: Labels) -> Array:
    """The dimensions in the order of `kept`, size 1 where there is none."""
    order, index = _alignment(labels, kept)
    ordered = a if order is None else a.transpose(order)
    return ordered if index is None else ordered[index]


@functools.lru_cache(maxsize=4096)
def _alignment(labels: Labels, kept: Labels) -> Any:
    order = _order(labels, [label for label in kept if label in labels])
    index = tuple(slice(None) if label in labels else None for label in kept)
    return order, None if len(labels) == len(kept) else index


def _contracted(a: Any, b: Any, labels: Labels, others: Labels, kept: Labels) -> Any:
    """As `_of_two`, for any labels: what only one side has and nobody keeps is summed first."""
    summed = {*labels, *others} - {*kept}
    a, labels = _summed(a, labels, {*others, *kept})
    b, others = _summed(b, others, {*labels, *kept})
    if a.dtype is not b.dtype and not (labels and others):  # 0-d tensors count as much as others
        a, b = in_one_dtype(a, b)
    result = _of_two(a, b, plan_of(labels, others, kept))
    return shown_as("ViewBackward0", result) if summed else result


def _summed(a: Any, labels: Labels, wanted: set[int]) -> tuple[Any, Labels]:
    dims = tuple(dim for dim, label in enumerate(labels) if label not in wanted)
    if not dims:
        return a, labels
    return sum(a, dims), tuple(label for label in labels if label in wanted)


# einsum -------------------------------------------------------------------------------------------


def einsum(*args: Any) -> Any:
    """Sum products of tensors over the dimensions that the equation does not keep.

    Takes an equation and tensors, or tensors each followed by a list of labels.

    >>> import pullback as torch
    >>> torch.einsum("ij,kj->ik", torch.ones(2, 3), torch.ones(4, 3)).shape
    torch.Size([2, 4])
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): give an equation and tensors, or tensors each followed by its labels."
        )
    if not isinstance(args[0], str):
        tensors, inputs, kept = from_sublists(args)
        return _computed(tensors, spelt(inputs, kept, _shapes(tensors)))
    tensors = args[1:]
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        tensors = tuple(tensors[0])
    spelling, function, option = _named(args[0], _shapes(tensors))
    if function is None:
        return _computed(tensors, spelling)
    return function(*tensors, option)


def _shapes(tensors: Sequence[Any]) -> Shapes:
    try:
        return tuple([one._array.shape for one in tensors])
    except AttributeError:
        pass
    wrong = next(i for i, one in enumerate(tensors) if not isinstance(one, Tensor))
    raise TypeError(
        f"einsum(): operand {wrong} must be a Tensor, got {type(tensors[wrong]).__name__}."
    )


@functools.lru_cache(maxsize=1024)
def _named(equation: str, shapes: Shapes) -> tuple[Spelling, Any, Any]:
    """What an equation says, and the one operator that does it, with its option, if one does."""
    spelling = spelt(*parsed(equation), shapes)
    labels, output, sizes = spelling
    for names, shape in zip(labels, shapes, strict=True):
        if len({*names}) < len(names) or [sizes[label] for label in names] != [*shape]:
            return spelling, None, None
    if len(labels) == 1 and len(labels[0]) == len(output):
        return spelling, permute, tuple(labels[0].index(label) for label in output)
    alone = {*labels[0]} ^ {*labels[-1]}
    if len(labels) != 2 or not all(labels) or not alone <= {*output}:
        return spelling, None, None
    plan = plan_of(*labels, output)
    return spelling, _contract if plan.sums else _multiply, plan


def _computed(tensors: Sequence[Any], spelling: Spelling) -> Any:
    labels, output, sizes = spelling
    operands = [_distinct(one, names, sizes) for one, names in zip(tensors, labels, strict=True)]
    return _reduced(operands, output, sizes)


def _distinct(tensor: Any, labels: Labels, sizes: dict[int, int]) -> tuple[Any, Labels]:
    """Diagonals for repeated labels, and no dimension of size 1 whose label is larger elsewhere."""
    stretched = tuple(d for d, label in enumerate(labels) if tensor.shape[d] == 1 != sizes[label])
    if stretched:
        tensor = tensor.squeeze(stretched)
        labels = tuple(label for d, label in enumerate(labels) if d not in stretched)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            tensor = diagonal(tensor, 0, first, second)
            labels = (*(one for d, one in enumerate(labels) if d not in (first, second)), label)
    return tensor, labels


def _reduced(operands: list[tuple[Any, Labels]], output: Labels, sizes: dict[int, int]) -> Any:
    while len(operands) > 2:
        i, j = _next_pair(operands, output, sizes)
        (b, others), (a, labels) = operands.pop(j), operands.pop(i)
        needed = {*output, *(label for _, names in operands for label in names)}
        kept = tuple(label for label in dict.fromkeys((*labels, *others)) if label in needed)
        operands.append((_contracted(a, b, labels, others, kept), kept))
    a, labels = operands[0]
    if len(operands) == 2:
        b, others = operands[1]
        return _contracted(a, b, labels, others, output)
    rest = tuple(label for label in labels if label not in output)
    if rest and tuple(label for label in labels if label in output) == output:
        return _summed(a, labels, {*output})[0]
    a = permute(a, tuple(labels.index(label) for label in (*output, *rest)))
    return sum(a, tuple(range(len(output), len(labels)))) if rest else a


def _next_pair(
    operands: list[tuple[Any, Labels]], output: Labels, sizes: dict[int, int]
) -> tuple[int, int]:
    """The two operands whose contraction leaves least behind, compared with what it takes away."""

    def growth(pair: tuple[int, int]) -> int:
        first, second = ({*operands[n][1]} for n in pair)
        rest = {label for n, (_, names) in enumerate(operands) if n not in pair for label in names}
        result = (first | second) & (rest | {*output})
        return _elements(result, sizes) - _elements(first, sizes) - _elements(second, sizes)

    return min(combinations(range(len(operands)), 2), key=growth)


def _elements(labels: set[int], sizes: dict[int, int]) -> int:
    return math.prod(sizes[label] for label in labels)


# tensordot ----------------------------------------------------------------------------------------


def tensordot(a: Any, b: Any, dims: Any = 2, out: Any = None) -> Any:
    """Multiply and sum over the last `dims` dimensions of `a` and first of `b`, or listed ones.

    >>> import pullback as torch
    >>> torch.tensordot(torch.ones(2, 3), torch.ones(3, 4), dims=1).shape
    torch.Size([2, 4])
    """
    mine, theirs = _paired_dims(a, b, dims)
    shapes = tuple(a.shape), tuple(b.shape)
    labels = list(range(a.ndim))
    others = list(range(a.ndim, a.ndim + b.ndim))
    for i, j in zip(mine, theirs, strict=True):
        if 1 == shapes[0][i] != shapes[1][j] or 1 == shapes[1][j] != shapes[0][i]:
            continue  # one size is 1: each side sums its own
        if shapes[0][i] != shapes[1][j]:
            raise RuntimeError(
                f"tensordot: sizes must be equal where dimensions meet, but dimension {i} of shape "
                f"{shapes[0]} meets dimension {j} of shape {shapes[1]}."
            )
        others[j] = labels[i]
    kept = [label for d, label in enumerate(labels) if d not in mine]
    kept += [label for d, label in enumerate(others) if d not in theirs]
    result = _contracted(a, b, tuple(labels), tuple(others), tuple(kept))
    if out is not None and result.requires_grad:
        # As in torch, which copies here: `out` gets a history, and no error.
        return out.resize_(result.shape).copy_(result)
    return delivered("tensordot", shown_as("ViewBackward0", contiguous(result)), out)


def _paired_dims(a: Any, b: Any, dims: Any) -> tuple[Labels, Labels]:
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, Sequence):
        first, second = (([one] if isinstance(one, int) else list(one)) for one in dims)
        if len(first) != len(second):
            raise RuntimeError(
                f"tensordot: dimensions of a and b come in pairs, got {first} and {second}."
            )
        return as_dims(first, a.ndim, "tensordot") or (), as_dims(second, b.ndim, "tensordot") or ()
    count = operator.index(dims)
    if count < 0:
        raise RuntimeError(f"tensordot: dims must not be negative, got {count}.")
    if count > min(a.ndim, b.ndim):
        raise RuntimeError(
            f"tensordot: {count} dimensions to sum over, but shapes are {tuple(a.shape)} and "
            f"{tuple(b.shape)}."
        )
    return tuple(range(a.ndim - count, a.ndim)), tuple(range(count))


@method
def inner(input: Any, other: Any, *, out: Any = None) -> Any:
    """Multiply and sum over the last dimensions of both; a 0-d tensor just multiplies.

    >>> import pullback as torch
    >>> torch.inner(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    tensor(11.)
    """
    if not isinstance(other, Tensor):
        raise errors.not_a_tensor("inner", "other", other)
    if not isinstance(input, Tensor):
        raise errors.not_a_tensor("inner", "input", input)
    if input.ndim == 0 or other.ndim == 0:
        return delivered("inner", input * other, out)
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"inner: the last sizes must be equal, shapes are {tuple(input.shape)} and "
            f"{tuple(other.shape)}."
        )
    return tensordot(input, other, ([-1], [-1]), out)
