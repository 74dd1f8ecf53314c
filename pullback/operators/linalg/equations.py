"""The language of einsum: equations and lists of labels, and what each says of given shapes."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple, TypeAlias

__all__ = ["Labels", "Spelling", "from_sublists", "parsed", "spelt"]

Labels: TypeAlias = tuple[int, ...]
Shapes: TypeAlias = tuple[tuple[int, ...], ...]


class Spelling(NamedTuple):
    """Labels of each tensor and of the result, and the size of each label."""

    labels: list[Labels]
    output: Labels
    sizes: dict[int, int]


def spelt(inputs: list[list[int]], kept: list[int] | None, shapes: Shapes) -> Spelling:
    """What labels as the user wrote them come to."""
    if len(shapes) != len(inputs):
        raise RuntimeError(
            f"einsum(): the equation names {len(inputs)} tensors, but {len(shapes)} are given."
        )
    pairs = enumerate(zip(inputs, shapes, strict=True))
    labels = [_filled(number, names, shape) for number, (names, shape) in pairs]
    return Spelling(labels, _output(inputs, kept, labels), _label_sizes(labels, shapes))


_ELLIPSIS = -1  # in labels as the user wrote them; its dimensions become labels from 100 on
_FIRST_HIDDEN = 100


def parsed(equation: str) -> tuple[list[list[int]], list[int] | None]:
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


def from_sublists(args: tuple[Any, ...]) -> tuple[Any, list[list[int]], list[int] | None]:
    """The tensors, and their labels and those of the result, from tensors each before its list."""
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
            f"einsum(): operand {number} has {len(shape)} dims (shape {shape}), but {named} "
            f"subscripts {ellipsis}."
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


def _label_sizes(labels: list[Labels], shapes: Shapes) -> dict[int, int]:
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
