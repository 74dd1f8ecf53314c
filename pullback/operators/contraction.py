"""Sums of products over named dimensions: einsum, tensordot, inner.

Every such sum is made of contractions of two tensors, and each of those is a product of matrices
once its dimensions are in order. The gradient of a contraction is one too, with the names moved.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple, TypeAlias

from pullback.core.tensor import Tensor
from pullback.operators.arithmetic import conj
from pullback.operators.batch_products import contracted
from pullback.operators.declare import Array, Namespace, method, multilinear
from pullback.operators.options import as_dims
from pullback.operators.products import delivered, product
from pullback.operators.reduction import sum
from pullback.operators.shape import diagonal, permute

__all__ = ["einsum", "inner", "tensordot"]

Labels: TypeAlias = tuple[int, ...]

# Contraction of two -------------------------------------------------------------------------------


@multilinear(
    batch=contracted,
    input=lambda g, other, labels, others, kept: _contract(g, conj(other), kept, others, labels),
    other=lambda g, input, labels, others, kept: _contract(conj(input), g, labels, kept, others),
    node="EinsumBackward0",
)
def _contract(
    xp: Namespace, input: Array, other: Array, labels: Labels, others: Labels, kept: Labels
) -> Array:
    """Multiply and sum over the labels that are not kept; these are in both inputs."""
    plan = _plan_of_two(labels, others, kept)
    if plan.swapped:
        input, other = other, input
    first, second = input.transpose(plan.rows), other.transpose(plan.columns)
    end, middle = plan.batch, plan.batch + plan.left
    batch, outer = first.shape[:end], first.shape[end:middle]
    inner = second.shape[second.ndim - plan.right :]
    rows = first.reshape(*batch, math.prod(outer), math.prod(first.shape[middle:]))
    columns = second.reshape(*batch, rows.shape[-1], math.prod(inner))
    if plan.left or plan.right or not end:
        result = product(xp, "einsum", rows, columns)
    else:  # one BLAS call for each pair of vectors would be slow
        result = xp.einsum("...ij,...ji->...", rows, columns)
    return result.reshape(batch + outer + inner).transpose(plan.order)


class _Plan(NamedTuple):
    """How a contraction becomes a product of matrices: orders of dimensions, and their numbers."""

    swapped: bool
    rows: Labels  # dimensions of the left side: batch, left, summed
    columns: Labels  # of the right side: batch, summed, right
    order: Labels  # of the result, from batch, left, right to what is kept
    batch: int
    left: int
    right: int


@functools.lru_cache(maxsize=1024)
def _plan_of_two(labels: Labels, others: Labels, kept: Labels) -> _Plan:
    batch = [label for label in kept if label in labels and label in others]
    left = [label for label in kept if label in labels and label not in others]
    right = [label for label in kept if label in others and label not in labels]
    summed = [label for label in labels if label in others and label not in kept]
    # The result comes out in the order in which it is wanted, so that no copy is needed.
    swapped = bool(left and right and kept.index(right[0]) < kept.index(left[0]))
    if swapped:
        labels, others, left, right = others, labels, right, left
    made = (*batch, *left, *right)
    return _Plan(
        swapped,
        tuple(labels.index(label) for label in (*batch, *left, *summed)),
        tuple(others.index(label) for label in (*batch, *summed, *right)),
        tuple(made.index(label) for label in kept),
        len(batch),
        len(left),
        len(right),
    )


def _contracted(a: Any, b: Any, labels: Labels, others: Labels, kept: Labels) -> Any:
    """As `_contract`, for any labels: what only one side has and nobody keeps is summed first."""
    a, labels = _summed(a, labels, {*others, *kept})
    b, others = _summed(b, others, {*labels, *kept})
    if all(label in kept for label in labels if label in others):
        return _aligned(a, labels, kept) * _aligned(b, others, kept)
    return _contract(a, b, labels, others, kept)


def _summed(a: Any, labels: Labels, wanted: set[int]) -> tuple[Any, Labels]:
    dims = tuple(dim for dim, label in enumerate(labels) if label not in wanted)
    if not dims:
        return a, labels
    return sum(a, dims), tuple(label for label in labels if label in wanted)


def _aligned(a: Any, labels: Labels, kept: Labels) -> Any:
    """The dimensions in the order of `kept`, size 1 where there is none."""
    order = tuple(labels.index(label) for label in kept if label in labels)
    ordered = permute(a, order) if order != tuple(range(len(order))) else a
    if len(labels) == len(kept):
        return ordered
    return ordered[tuple(slice(None) if label in labels else None for label in kept)]


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
    if isinstance(args[0], str):
        tensors = args[1:]
        if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
            tensors = tuple(tensors[0])
        labels, output, sizes = _named(args[0], _shapes(tensors))
    else:
        tensors, inputs, kept = _from_sublists(args)
        labels, output, sizes = _spelt(inputs, kept, _shapes(tensors))
    operands = [_distinct(one, names, sizes) for one, names in zip(tensors, labels, strict=True)]
    return _reduced(operands, output, sizes)


def _shapes(tensors: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    for number, one in enumerate(tensors):
        if not isinstance(one, Tensor):
            raise TypeError(
                f"einsum(): operand {number} must be a Tensor, got {type(one).__name__}."
            )
    return tuple(tuple(one.shape) for one in tensors)


@functools.lru_cache(maxsize=1024)
def _named(equation: str, shapes: tuple[tuple[int, ...], ...]) -> Any:
    """Labels of each tensor and of the result, and the size of each label."""
    return _spelt(*_parsed(equation), shapes)


def _spelt(
    inputs: list[list[int]], kept: list[int] | None, shapes: tuple[tuple[int, ...], ...]
) -> Any:
    if len(shapes) != len(inputs):
        raise RuntimeError(
            f"einsum(): the equation names {len(inputs)} tensors, but {len(shapes)} are given."
        )
    pairs = enumerate(zip(inputs, shapes, strict=True))
    labels = [_filled(number, names, shape) for number, (names, shape) in pairs]
    return labels, _output(inputs, kept, labels), _label_sizes(labels, shapes)


_ELLIPSIS = -1  # in labels as the user wrote them; its dimensions become labels from 100 on
_FIRST_HIDDEN = 100


def _parsed(equation: str) -> tuple[list[list[int]], list[int] | None]:
    """The labels of each tensor, and of the result if they are given."""
    left, arrow, right = equation.partition("->")
    inputs = [_labels(part, f"operand {number}") for number, part in enumerate(left.split(","))]
    return inputs, _labels(right, "the output") if arrow else None


def _labels(part: str, where: str) -> list[int]:
    labels = []
    for character in part.replace(" ", "").replace("...", "\0"):
        if character == "\0":
            if _ELLIPSIS in labels:
                raise RuntimeError(f"einsum(): {where} has more than one ellipsis in {part!r}.")
            labels.append(_ELLIPSIS)
        elif character == ".":
            raise RuntimeError(f"einsum(): {where} has a '.' that is no part of '...' in {part!r}.")
        elif character.isascii() and character.isalpha():
            # Capital letters first, as they are ordered in an implicit output.
            labels.append(ord(character) - (65 if character.isupper() else 71))
        else:
            raise RuntimeError(
                f"einsum(): {where} has {character!r} in {part!r}; subscripts are letters (a-zA-Z)."
            )
    return labels


def _from_sublists(args: tuple[Any, ...]) -> tuple[Any, list[list[int]], list[int] | None]:
    kept = _sublist(args[-1]) if len(args) % 2 else None
    tensors = args[: len(args) - len(args) % 2 : 2]
    return tensors, [_sublist(part) for part in args[1 : 2 * len(tensors) : 2]], kept


def _sublist(part: Any) -> list[int]:
    labels = []
    for value in part:
        label = _ELLIPSIS if value is Ellipsis else operator.index(value)
        if value is not Ellipsis and not 0 <= label < 52:
            raise ValueError(f"einsum(): label {value} of a list is outside of 0 to 51.")
        labels.append(label)
    return labels


def _filled(number: int, labels: list[int], shape: tuple[int, ...]) -> Labels:
    """Labels with the ellipsis spelt out: its last dimension has the lowest hidden label."""
    named = len(labels) - (_ELLIPSIS in labels)
    hidden = len(shape) - named
    if hidden < 0 or (hidden and _ELLIPSIS not in labels):
        ellipsis = "and an ellipsis" if _ELLIPSIS in labels else "and no ellipsis"
        raise RuntimeError(
            f"einsum(): operand {number} has {len(shape)} dims (shape {shape}), "
            f"but {named} subscripts {ellipsis}."
        )
    if _ELLIPSIS not in labels:
        return tuple(labels)
    at = labels.index(_ELLIPSIS)
    spelt = range(_FIRST_HIDDEN + hidden - 1, _FIRST_HIDDEN - 1, -1)
    return (*labels[:at], *spelt, *labels[at + 1 :])


def _output(inputs: list[list[int]], kept: list[int] | None, labels: list[Labels]) -> Labels:
    most = max((label - _FIRST_HIDDEN + 1 for names in labels for label in names), default=0)
    hidden = tuple(range(_FIRST_HIDDEN + most - 1, _FIRST_HIDDEN - 1, -1)) if most > 0 else ()
    if kept is None:
        written = [label for names in inputs for label in names if label != _ELLIPSIS]
        return (*hidden, *sorted(label for label in set(written) if written.count(label) == 1))
    for label in kept:
        if label != _ELLIPSIS and kept.count(label) > 1:
            raise RuntimeError(
                f"einsum(): output subscript {_letter(label)!r} appears more than once."
            )
        if label != _ELLIPSIS and not any(label in names for names in labels):
            raise RuntimeError(
                f"einsum(): output subscript {_letter(label)!r} appears in no operand's subscripts."
            )
    if _ELLIPSIS not in kept:
        return tuple(kept)
    at = kept.index(_ELLIPSIS)
    return (*kept[:at], *hidden, *kept[at + 1 :])


def _letter(label: int) -> str:
    return chr(label + (65 if label < 26 else 71)) if label < _FIRST_HIDDEN else "..."


def _label_sizes(labels: list[Labels], shapes: tuple[tuple[int, ...], ...]) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for number, (names, shape) in enumerate(zip(labels, shapes, strict=True)):
        for label, size in zip(names, shape, strict=True):
            known = sizes.get(label, 1)
            if known != size and 1 not in (known, size):
                raise RuntimeError(
                    f"einsum(): subscript {_letter(label)!r} has size {size} in operand {number}, "
                    f"shape {shape}, but size {known} before."
                )
            sizes[label] = size if known == 1 else known
    return sizes


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
    a, labels = _summed(a, labels, set(output))
    return permute(a, tuple(labels.index(label) for label in output))


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
    """Multiply and sum over the last `dims` dimensions of `a` and first of `b`, or listed ones."""
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
    return delivered("tensordot", result, out)


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
    """Multiply and sum over the last dimensions of both; a 0-d tensor just multiplies."""
    if input.ndim == 0 or other.ndim == 0:
        return delivered("inner", input * other, out)
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"inner: the last sizes must be equal, shapes are {tuple(input.shape)} and "
            f"{tuple(other.shape)}."
        )
    return tensordot(input, other, ([-1], [-1]), out)
