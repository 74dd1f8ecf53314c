"""What stages hand to one another: tensors of any shapes, or word that a stage has failed.

Each microbatch comes with a header of its shapes, so that the last batch may be smaller than the
others. Sends do not wait: each edge between stages has a line of messages of its own, in order.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.dtype import DTYPES, LATE, dtype, named_dtype
from pullback.core.tensor import Tensor
from pullback.distributed.group import ProcessGroup, Work
from pullback.distributed.messages import isend, recv
from pullback.operators.create.data import as_tensor
from pullback.operators.create.sizes import empty

__all__ = ["Edge", "StageError"]

_HEADER = 32  # numbers; longer ones go on in a second message
_FIRST_TAG = 20_000  # beyond those that programs use
_NAMES = tuple(sorted({*DTYPES, *LATE}))  # alike on all ranks, whatever they have loaded
_FAILED = -1


class StageError(RuntimeError):
    """A stage on another rank has failed, and this one cannot go on."""


class Edge:
    """One way between two neighbouring stages on different ranks."""

    def __init__(self, group: ProcessGroup, peer: int, number: int, *, device: Any) -> None:
        self._group, self._peer, self._tag = group, peer, _FIRST_TAG + number
        self._device = device

    def _put(self, tensor: Tensor) -> Work:
        work = isend(tensor, group=self._group, group_dst=self._peer, tag=self._tag)
        assert work is not None
        return work

    def _got(self, shape: tuple[int, ...], kind: dtype, device: Any = "cpu") -> Tensor:
        tensor: Tensor = empty(shape, dtype=kind, device=device)
        recv(tensor, group=self._group, group_src=self._peer, tag=self._tag)
        return tensor

    def _put_numbers(self, step: int, kind: int, numbers: list[int]) -> list[Work]:
        every = numpy.array([len(numbers), step, kind, *numbers], numpy.int64)
        header = numpy.zeros(_HEADER, numpy.int64)
        header[: len(every)] = every[:_HEADER]
        works = [self._put(as_tensor(header))]
        if len(every) > _HEADER:
            works.append(self._put(as_tensor(every[_HEADER:].copy())))
        return works

    def send(self, step: int, tensors: list[Tensor | None]) -> list[Work]:
        """Begin to send what a microbatch has; None for what has no gradient."""
        numbers = []
        for one in tensors:
            if one is None:
                numbers += [-1]
            else:
                numbers += [
                    _NAMES.index(one.dtype._name),
                    int(one.requires_grad),
                    one.ndim,
                    *one.shape,
                ]
        works = self._put_numbers(step, len(tensors), numbers)
        return works + [self._put(one.detach().contiguous()) for one in tensors if one is not None]

    def fail(self, step: int, told: str) -> None:
        """Tell the other stage that nothing more comes in this step."""
        self._put_numbers(step, _FAILED, list(told.encode()))

    def receive(self, step: int) -> list[Tensor | None]:
        """Wait for what a microbatch has; what is left of an earlier step is passed over."""
        int64 = DTYPES["int64"]
        while True:
            header = self._got((_HEADER,), int64).tolist()
            count, sent_in, kind = header[:3]
            numbers = header[3 : 3 + count]
            if count + 3 > _HEADER:
                numbers += self._got((count + 3 - _HEADER,), int64).tolist()
            tensors = [] if kind == _FAILED else self._tensors(kind, numbers)
            if sent_in != step:
                continue
            if kind == _FAILED:
                raise StageError(bytes(numbers).decode())
            return tensors

    def _tensors(self, count: int, numbers: list[int]) -> list[Tensor | None]:
        made: list[Tensor | None] = []
        for _ in range(count):
            name, *numbers = numbers
            if name < 0:
                made.append(None)
                continue
            needs_grad, dims, *numbers = numbers
            shape, numbers = tuple(numbers[:dims]), numbers[dims:]
            one = self._got(shape, named_dtype(_NAMES[name]), self._device)
            made.append(one.requires_grad_(bool(needs_grad)))
        return made
