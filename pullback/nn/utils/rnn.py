"""Sequences of different lengths: padded to one, or packed without padding.

A packed sequence has the first elements of all sequences, then the second ones of those that have
any, and so on; `batch_sizes` says how many there are at each time. The sequences come in order of
their lengths, the longest first, so that those that go on are always the first ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy

from pullback.core.addresses import as_indices
from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor, wrap
from pullback.operators.create.data import as_tensor
from pullback.operators.create.sizes import empty_like, full

__all__ = [
    *("PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence"),
    *("pad_packed_sequence", "pad_sequence", "unpack_sequence", "unpad_sequence"),
]


class PackedSequence_(NamedTuple):  # noqa: N801 (torch's name)
    """The fields of a packed sequence."""

    data: Any
    batch_sizes: Any
    sorted_indices: Any
    unsorted_indices: Any


class PackedSequence(PackedSequence_):
    """Sequences of different lengths without padding, as the pack functions make them.

    >>> import pullback as torch
    >>> from pullback.nn.utils.rnn import pack_sequence
    >>> pack_sequence([torch.tensor([1, 2]), torch.tensor([3])])[:2]
    (tensor([1, 3, 2]), tensor([2, 1]))
    """

    def __new__(
        cls,
        data: Any,
        batch_sizes: Any = None,
        sorted_indices: Any = None,
        unsorted_indices: Any = None,
    ) -> PackedSequence:
        """Take the parts; one order of the two follows from the other."""
        if batch_sizes is None:  # in the form (data, batch_sizes)
            data, batch_sizes = data
        if batch_sizes.device.type != "cpu":
            raise ValueError(f"batch_sizes must be on the CPU, not on {batch_sizes.device}.")
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def __getnewargs__(self) -> Any:
        return tuple(self)

    def _each(self, change: Callable[[Any], Any], *, orders: bool = False) -> PackedSequence:
        data = change(self.data)
        if data is self.data:
            return self
        order, back = self.sorted_indices, self.unsorted_indices
        if orders and order is not None:
            order, back = change(order), change(back)
        return type(self)(data, self.batch_sizes, order, back)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same with another dtype, or on another device."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        order, back = self.sorted_indices, self.unsorted_indices
        if order is not None:
            order, back = order.to(data.device), back.to(data.device)
        return type(self)(data, self.batch_sizes, order, back)

    def pin_memory(self) -> PackedSequence:
        """The same in pinned memory."""
        return self._each(lambda tensor: tensor.pin_memory(), orders=True)

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same on a GPU."""
        return self._each(lambda tensor: tensor.cuda(*args, **kwargs), orders=True)

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same on the host."""
        return self.to("cpu")

    def double(self) -> PackedSequence:
        """The same in float64."""
        return self._each(lambda tensor: tensor.double())

    def float(self) -> PackedSequence:
        """The same in float32."""
        return self._each(lambda tensor: tensor.float())

    def half(self) -> PackedSequence:
        """The same in float16."""
        return self._each(lambda tensor: tensor.half())

    def long(self) -> PackedSequence:
        """The same in int64."""
        return self._each(lambda tensor: tensor.long())

    def int(self) -> PackedSequence:
        """The same in int32."""
        return self._each(lambda tensor: tensor.int())

    def short(self) -> PackedSequence:
        """The same in int16."""
        return self._each(lambda tensor: tensor.short())

    def char(self) -> PackedSequence:
        """The same in int8."""
        return self._each(lambda tensor: tensor.char())

    def byte(self) -> PackedSequence:
        """The same in uint8."""
        return self._each(lambda tensor: tensor.byte())

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a GPU."""
        return bool(self.data.is_cuda)

    def is_pinned(self) -> bool:
        """Whether the data is in pinned memory."""
        return bool(self.data.is_pinned())


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes another.

    >>> import pullback as torch
    >>> from pullback.nn.utils.rnn import invert_permutation
    >>> invert_permutation(torch.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    inverse: Tensor = empty_like(permutation)
    places = as_indices(numpy.arange(permutation.numel()))
    inverse[permutation] = wrap(places).to(permutation.device)
    return inverse


def _numbers(lengths: Any) -> list[int]:
    listed = lengths.tolist() if isinstance(lengths, Tensor) else lengths
    return [int(one) for one in listed]


def batch_sizes_of(lengths: list[int]) -> list[int]:
    """How many sequences there are at each time, of lengths in order."""
    return [sum(length > time for length in lengths) for time in range(lengths[0])]


def _places(batch_sizes: list[int], batch: int) -> Tensor:
    """Where the elements of packed data stand in (time * batch)."""
    steps = [numpy.arange(count) + time * batch for time, count in enumerate(batch_sizes)]
    return wrap(numpy.concatenate(steps) if steps else numpy.empty(0, numpy.int64))


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a batch of padded sequences, (time, batch, ...), of these lengths.

    With `enforce_sorted=False` they may come in any order: they are sorted, and the order is kept.

    >>> import pullback as torch
    >>> from pullback.nn.utils.rnn import pack_padded_sequence
    >>> pack_padded_sequence(torch.tensor([[1, 3], [2, 0]]), [2, 1]).data
    tensor([1, 3, 2])
    """
    if not isinstance(lengths, Tensor):
        lengths = as_tensor(list(lengths))
    elif lengths.device.type != "cpu":
        raise RuntimeError(f"pack_padded_sequence: lengths must be on the CPU: {lengths.device}.")
    if lengths.ndim != 1:
        raise RuntimeError(
            "pack_padded_sequence: lengths must be a row of numbers, one for each sequence; got "
            f"shape {tuple(lengths.shape)}."
        )
    order = None
    if not enforce_sorted:
        order = wrap(as_indices(numpy.argsort(-lengths.numpy(), kind="stable"))).to(input.device)
        lengths = lengths[order.cpu()]
        input = input.index_select(0 if batch_first else 1, order)
    if batch_first:
        input = input.transpose(0, 1)
    listed = _numbers(lengths)
    _check_lengths(listed, input)
    counts = batch_sizes_of(listed)
    flat = input.reshape((input.shape[0] * input.shape[1], *input.shape[2:]))
    data = flat.index_select(0, _places(counts, input.shape[1]).to(input.device))
    return PackedSequence(data, wrap(numpy.array(counts, numpy.int64)), order, None)


def _check_lengths(lengths: list[int], input: Tensor) -> None:
    if not input.numel():
        raise RuntimeError("pack_padded_sequence: a sequence without elements cannot be packed.")
    time, batch = input.shape[:2]
    if len(lengths) != batch:
        raise RuntimeError(
            f"pack_padded_sequence: {len(lengths)} lengths were given for {batch} sequences."
        )
    if min(lengths) <= 0:
        raise RuntimeError(f"pack_padded_sequence: lengths must be positive, got {min(lengths)}.")
    if any(a < b for a, b in pairwise(lengths)):
        raise RuntimeError(
            "pack_padded_sequence: lengths must fall; pass enforce_sorted=False for any order."
        )
    if lengths[0] > time:
        raise RuntimeError(
            f"pack_padded_sequence: a length of {lengths[0]} is more than the {time} times given."
        )


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Packed sequences as a padded batch, and their lengths: in the order they had once.

    >>> import pullback as torch
    >>> from pullback.nn.utils.rnn import pack_sequence, pad_packed_sequence
    >>> packed = pack_sequence([torch.tensor([1, 2]), torch.tensor([3])])
    >>> pad_packed_sequence(packed, batch_first=True)
    (tensor([[1, 2],
            [3, 0]]), tensor([2, 1]))
    """
    counts = _numbers(sequence.batch_sizes)
    time, batch = len(counts), counts[0]
    if total_length is not None:
        if total_length < time:
            raise ValueError(
                f"pad_packed_sequence: total_length {total_length} is less than the longest "
                f"sequence, {time}."
            )
        time = total_length
    data = sequence.data
    shape = (time * batch, *data.shape[1:])
    empty = full(shape, padding_value, dtype=data.dtype, device=data.device)
    padded = empty.index_copy(0, _places(counts, batch).to(data.device), data)
    padded = padded.reshape((time, batch, *data.shape[1:]))
    lengths = wrap(numpy.array([sum(n > row for n in counts) for row in range(batch)], numpy.int64))
    if batch_first:
        padded = padded.transpose(0, 1)
    back = sequence.unsorted_indices
    if back is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, back), lengths[back.cpu()]


def pad_sequence(
    sequences: Any,
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences, (time, ...) each, as one batch that is padded to the longest.

    >>> import pullback as torch
    >>> from pullback.nn.utils.rnn import pad_sequence
    >>> pad_sequence([torch.tensor([1, 2]), torch.tensor([3])], batch_first=True)
    tensor([[1, 2],
            [3, 0]])
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: an iterable of tensors is needed, got {type(sequences).__name__}."
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f'pad_sequence: padding_side must be "left" or "right", got {padding_side!r}.'
        )
    listed = list(sequences.unbind(0) if isinstance(sequences, Tensor) else sequences)
    if not listed:
        raise RuntimeError("pad_sequence: at least one sequence is needed.")
    if not all(isinstance(one, Tensor) for one in listed):
        raise TypeError("pad_sequence: all sequences must be tensors.")
    longest = max(one.shape[0] for one in listed)
    first = listed[0]
    rest = tuple(first.shape[1:])
    outer = (len(listed), longest) if batch_first else (longest, len(listed))
    padded = full((*outer, *rest), padding_value, dtype=first.dtype, device=first.device)
    for number, one in enumerate(listed):
        length = one.shape[0]
        times = slice(longest - length, None) if padding_side == "left" else slice(length)
        padded[(number, times) if batch_first else (times, number)] = one
    return padded


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """The sequences of a padded batch, each of its own length.

    >>> import pullback as torch
    >>> from pullback.nn.utils import rnn
    >>> rnn.unpad_sequence(torch.tensor([[1, 3], [2, 0]]), torch.tensor([2, 1]))
    [tensor([1, 2]), tensor([3])]
    """
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [row[:length] for row, length in zip(padded_sequences, _numbers(lengths), strict=True)]


def pack_sequence(sequences: Any, enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences, (time, ...) each; the longest first unless `enforce_sorted=False`.

    >>> import pullback as torch
    >>> from pullback.nn.utils import rnn
    >>> rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])]).data
    tensor([1, 3, 2])
    """
    listed = list(sequences)
    lengths = as_tensor([one.shape[0] for one in listed])
    return pack_padded_sequence(pad_sequence(listed), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences that were packed.

    >>> import pullback as torch
    >>> from pullback.nn.utils import rnn
    >>> rnn.unpack_sequence(rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])]))
    [tensor([1, 2]), tensor([3])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


__dir__ = _only_public(globals(), "PackedSequence_")
