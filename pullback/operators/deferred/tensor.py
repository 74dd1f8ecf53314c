"""The class of tensors whose elements are to be conjugated or negated when they are read."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core import overriding
from pullback.core.arrays import Array
from pullback.core.tensor import CONJUGATED, NEGATED, Tensor, new, wrap

__all__ = ["OWN", "Deferred", "apply", "lazily"]

# The operators that put something off (views.py), and what.
OWN: dict[Any, int] = {}

_slot: Any = Tensor.__dict__["_array"]


def apply(bits: int, array: Array) -> Array:
    """An array with what is put off done to it; the array itself where there is nothing."""
    if bits & CONJUGATED:
        array = numpy.asarray(numpy.conjugate(array))
    return numpy.asarray(numpy.negative(array)) if bits & NEGATED else array


class Deferred(Tensor):
    """A tensor on another's memory, with bits that say what its elements still need."""

    __slots__ = ("_bits",)

    # No class of a user's: results are plain tensors.
    __torch_function__ = overriding.disabled_function

    def _same_kind(self) -> Tensor:
        return lazily(_slot.__get__(self), self._bits)


def _read(self: Deferred) -> Array:
    """The elements as they are to everybody, in memory that nobody can write by mistake."""
    made = apply(self._bits, _slot.__get__(self))
    if self._bits:
        made.flags.writeable = False
    return made


def _assign(self: Deferred, array: Array) -> None:
    """Another array, as it is."""
    self._bits = 0
    _slot.__set__(self, array)


def _bail_out(self: Deferred) -> Array:
    """What fast paths read: they leave for the interpreter, which knows views and writes."""
    raise overriding.Overridden


Deferred._array = property(_read, _assign)  # made when read
Deferred._plain = property(_bail_out)  # see core/overriding.py


def lazily(memory: Array, bits: int) -> Tensor:
    """A tensor without history on memory whose elements need what `bits` say."""
    if not bits:
        return wrap(memory)
    made = new(Deferred)
    _slot.__set__(made, memory)
    made._bits = bits
    made._node = None
    made._cell = wrap(memory)._cell  # an inference tensor's where the mode says so
    return made
