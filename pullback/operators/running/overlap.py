"""Memory that a write would reach twice: expanded targets, and operands that overlap in part.

NumPy buffers such operands and gives an answer; torch refuses, since on other devices the answer
would depend on the order of the writes. What costs more than a look at the strides to find out
(interleaved views) is let pass, as torch does.
"""

from __future__ import annotations

import warnings

from numpy import ndarray

from pullback.core import errors, origin
from pullback.core.arrays import Array
from pullback.operators.arrays.strides import address, contiguous_strides, root

__all__ = [
    "LENIENT",
    "check_apart",
    "check_expanded",
    "check_no_partial_overlap",
    "check_read_apart",
    "check_writable",
    "has_overlap",
    "store_expanded",
]


# What writes one number wherever it writes: the same whatever the order, and taken by torch.
LENIENT = frozenset(("index_fill_", "index_put_", "masked_fill_", "threshold_"))


def check_writable(op: str, target: Array, *sources: Array | None) -> None:
    """Refuse expanded targets, and sources that share a part of the target's memory."""
    if 0 in target.strides and has_overlap(target):
        check_expanded(op)
    owner = target if target.base is None else target.base
    for source in sources:
        if source is not None and source is not target:
            other = source if source.base is None else source.base
            if (  # as `_share` finds, in line
                other is owner
                or not (owner.__class__ is ndarray and other.__class__ is ndarray)
                or not (owner.base is None is other.base)
            ):
                check_no_partial_overlap(op, target, source)


def check_expanded(op: str) -> None:
    """Refuse to write to an expanded target, or warn where torch only warns."""
    if op not in LENIENT:
        raise errors.overlapping_write(op)
    if op != "threshold_":
        warnings.warn(
            f"Use of {op} on expanded tensors is deprecated: several elements of the written "
            "tensor share one memory location, and all of them change. `clone()` it before "
            "writing.",
            UserWarning,
            stacklevel=origin.stacklevel(),
        )


def store_expanded(target: Array, result: Array) -> None:
    """Write what differs alone: elements that stay would undo it, being on the same place."""
    changed = target != result
    target[changed] = result[changed]


def check_apart(op: str, target: Array, *sources: Array | None) -> None:
    """Refuse sources on any of the target's memory: they would be read after it was written to.

    As of indices, which say where to write next.
    """
    if 0 in target.strides and has_overlap(target):
        check_expanded(op)
    for source in sources:
        if source is not None and (source is target or _share(target, source)):
            check_no_partial_overlap(op, target, source)
            check_read_apart(op, target, source)


def check_read_apart(op: str, target: Array, *sources: Array | None) -> None:
    """The same where the target was looked at already."""
    for source in sources:
        if source is None or not source.size or not target.size:
            continue
        if source is target or (_share(target, source) and _is_dense(source) and _is_dense(target)):
            raise errors.written_while_read(op)


def has_overlap(array: Array) -> bool:
    """Whether a dimension of more than one element stands on one place in memory."""
    return array.size > 0 and any(
        size > 1 and stride == 0 for size, stride in zip(array.shape, array.strides, strict=True)
    )


def check_no_partial_overlap(op: str, target: Array, source: Array) -> None:
    """Refuse operands on dense memory that overlap in part; the very same memory is fine."""
    if source.size == 0 or target.size == 0 or not _share(target, source):
        return
    if not (_is_dense(source) and _is_dense(target)):
        return  # interleaved: whether elements meet is not worth finding out
    same = address(target) == address(source) and source.nbytes == target.nbytes
    if not same or _strides(source) != _strides(target):
        raise errors.partly_overlapping_write(op)


def _share(target: Array, source: Array) -> bool:
    """Whether the stretches of memory from first to last element have bytes in common."""
    owner, other = target.base, source.base
    if owner is None and other is None:
        return False
    owner, other = target if owner is None else owner, source if other is None else other
    if owner is not other:
        # Most views know their owner: NumPy lets none refer to another view of its class.
        both = owner.__class__ is ndarray and other.__class__ is ndarray
        if (both and owner.base is None is other.base) or root(source) is not root(target):
            return False
    start, other = address(target), address(source)
    return bool(start < other + source.nbytes and other < start + target.nbytes)


def _is_dense(array: Array) -> bool:
    """Whether the elements fill their stretch of memory, in any order of dimensions."""
    if array.flags.forc:
        return True
    sides = sorted(
        (stride, size) for stride, size in zip(array.strides, array.shape, strict=True) if size > 1
    )
    shape = tuple(size for _, size in reversed(sides))
    strides = tuple(stride // array.itemsize for stride, _ in reversed(sides))
    return strides == contiguous_strides(shape)


def _strides(array: Array) -> tuple[int, ...]:
    """Strides, where NumPy's are arbitrary (dimensions of one element) those of a dense array."""
    given: tuple[int, ...] = array.strides
    if 1 not in array.shape:
        return given
    strides = list(given)
    for dim in reversed(range(array.ndim)):
        if array.shape[dim] == 1:
            after = dim + 1 < array.ndim
            strides[dim] = strides[dim + 1] * array.shape[dim + 1] if after else array.itemsize
    return tuple(strides)
