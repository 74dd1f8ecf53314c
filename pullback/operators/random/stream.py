"""The Mersenne Twister's words, and the uniform and normal numbers that torch makes of them.

A generator draws from one of these. NumPy twists; here its words are kept in blocks of 624 as the
algorithm makes them, so that a small draw is a slice, and the place in the stream can be told at
any time. The number of words per draw is torch's: what one program draws, the next finds gone.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import Any

import numpy

from pullback.core.arrays import F32, F64, Array

BLOCK = 624  # words between two twists
_WORD = numpy.dtype("<u4")
_HALF = numpy.uint64(32)
_LOW_53 = numpy.uint64(2**53 - 1)
_NO_WORDS = numpy.empty(0, _WORD)
_NO_NUMBERS = numpy.empty(0)
_TURN = 2 * numpy.pi
# From here on NumPy's randint() is faster than random_raw(), which makes words of 64 bits.
_MANY = 16 * BLOCK
_MANY_BITS = 256  # draws below a probability: from here on comparing words is faster


class Stream:
    """The words of mt19937 from one seed of 32 bits; safe to use from several threads."""

    __slots__ = (
        *("_bits", "_block", "_doubles", "_floats", "_key", "_normals", "_source"),
        *("fresh", "lock", "place", "spare"),
    )

    def __init__(self, seed: int) -> None:
        # Loaded here and not above: the import takes 16 ms.
        from numpy.random import MT19937, RandomState

        self._bits = MT19937(0)
        self._source = RandomState(self._bits)
        self.lock = threading.Lock()
        self.start(seed)

    def start(self, seed: int) -> None:
        """Begin anew, from the low 32 bits of a seed."""
        with self.lock:
            self._source.seed(seed & 0xFFFFFFFF)
            self.fresh = True  # nothing drawn since the seed was set
            self.place = BLOCK  # in the block; at its end, the next draw twists
            self.spare: float | None = None  # the second half of a pair of normal numbers
            self._new_block(_NO_WORDS)

    def _new_block(self, words: Array) -> None:
        self._block = words
        self._key: Array | None = None  # of this block, once somebody asked: reading it takes 40 us
        self._floats: Array | None = None
        self._doubles: list[Array | None] = [None, None]  # from an even place, from an odd one
        self._normals: list[Array | None] = [None] * 4

    # Words ----------------------------------------------------------------------------------------

    def words(self, count: int) -> Array:
        """The next words, of 32 bits; not to be written to."""
        with self.lock:
            end = self.place + count
            if end <= BLOCK:
                words = self._block[self.place : end]
                self.place = end
                return words
            return self._across(count)

    def _across(self, count: int) -> Array:
        """The next words, past the end of the block."""
        rest = self._block[self.place :]
        missing = count - len(rest)
        blocks = -(-missing // BLOCK)
        self.fresh = False
        made: Array
        if blocks * BLOCK < _MANY:
            made = self._bits.random_raw(blocks * BLOCK).astype(_WORD)
        else:
            made = self._source.randint(0, 1 << 32, blocks * BLOCK, _WORD)
        self._new_block(made[-BLOCK:] if blocks == 1 else made[-BLOCK:].copy())
        self.place = missing - (blocks - 1) * BLOCK
        return numpy.concatenate((rest, made[:missing])) if len(rest) else made[:missing]

    def long_words(self, count: int) -> Array:
        """Words of 64 bits: two at a time, the high half first."""
        return _paired(self.words(2 * count))

    # Uniform numbers ------------------------------------------------------------------------------

    def floats(self, count: int) -> Array:
        """Numbers of 24 bits from 0 to 1, one word each; not to be written to."""
        with self.lock:
            end = self.place + count
            if end <= BLOCK:
                if self._floats is None:
                    self._floats = as_floats(self._block)
                numbers = self._floats[self.place : end]
                self.place = end
                return numbers
            words = self._across(count)
        return as_floats(words)

    def few_floats(self, shape: tuple[int, ...]) -> Array | None:
        """Numbers of `floats` in memory of their own; None if they go past the block's end."""
        with self.lock:
            start = self.place
            end = start + math.prod(shape)
            if end > BLOCK:
                return None
            if self._floats is None:
                self._floats = as_floats(self._block)
            self.place = end
            numbers = self._floats[start:end]
        return (numbers if len(shape) == 1 else numbers.reshape(shape)).copy()

    def doubles(self, count: int) -> Array:
        """Numbers of 53 bits from 0 to 1, two words each; not to be written to."""
        with self.lock:
            end = self.place + 2 * count
            if end <= BLOCK:
                numbers = self._double_block()[self.place >> 1 : end >> 1]
                self.place = end
                return numbers
            words = self._across(2 * count)
        return as_doubles(words)

    def _double_block(self) -> Array:
        odd = self.place & 1
        known = self._doubles[odd]
        if known is None:
            known = as_doubles(self._block[odd : BLOCK - odd])
            self._doubles[odd] = known
        return known

    def each_double(self) -> Iterator[float]:
        """The numbers of `doubles` one by one, for who cannot say how many; hold the lock."""
        while True:
            ready = (BLOCK - self.place) >> 1
            if not ready:  # at the end of a block, or one word before it
                yield float(as_doubles(self._across(2))[0])
                continue
            start = self.place >> 1
            for number in self._double_block()[start : start + ready].tolist():
                self.place += 2
                yield number

    def below(self, count: int, p: float) -> Array:
        """Which of the next `doubles` are below `p`: the same, without making them."""
        if count <= _MANY_BITS:  # those of a block are made once
            few: Array = self.doubles(count) < p
            return few
        limit = int(numpy.ceil(p * 2.0**53))
        pairs = self.words(2 * count)
        high = pairs[0::2] & 0x1FFFFF
        below: Array = high < (limit >> 32)
        undecided = high == (limit >> 32)
        if undecided.any():
            below |= undecided & (pairs[1::2] < (limit & 0xFFFFFFFF))
        return below

    # Normal numbers -------------------------------------------------------------------------------

    def normals(self, count: int) -> Array:
        """Normal numbers in pairs; an odd one stays for the next call. Not to be written to."""
        with self.lock:
            spare = self.spare
            if spare is None and not count & 1:
                place = self.place
                known, end = self._normals[place & 3], place + 2 * count
                if known is None or end > BLOCK:
                    return self._pairs(count)
                self.place = end  # `_pairs` in line
                return known[place >> 2 << 1 : (place >> 2 << 1) + count]
            if not count:
                return _NO_NUMBERS
            wanted = count if spare is None else count - 1
            made = self._pairs(wanted + (wanted & 1))
            self.spare = float(made[-1]) if wanted & 1 else None
        return made[:wanted] if spare is None else numpy.concatenate(((spare,), made[:wanted]))

    def _pairs(self, count: int) -> Array:
        """An even number of normal numbers."""
        place = self.place
        end = place + 2 * count
        if end > BLOCK:
            return in_pairs(as_doubles(self._across(2 * count)))
        phase = place & 3
        known = self._normals[phase]
        if known is None:
            whole = self._block[phase : phase + (BLOCK - phase) // 4 * 4]
            known = self._normals[phase] = in_pairs(as_doubles(whole))
        self.place = end
        return known[(place - phase) >> 1 : (end - phase) >> 1]

    # States ---------------------------------------------------------------------------------------

    def key(self) -> Array:
        """The 624 numbers that the next twist starts from."""
        if self._key is None:
            self._key = self._bits.state["state"]["key"]
        return self._key

    def go_to(self, key: Array, place: int, spare: float | None, *, fresh: bool) -> None:
        """Continue from another stream's key and place."""
        known = self._key
        if known is not None and len(self._block) + place >= BLOCK and (known == key).all():
            self.fresh, self.place, self.spare = fresh, place, spare  # within the same block
            return
        known = key.astype(_WORD)
        state: Any = {"key": known, "pos": 0}
        self._bits.state = {"bit_generator": "MT19937", "state": state}
        self.fresh, self.place, self.spare = fresh, place, spare
        if place < BLOCK:
            # The words of this block, read from the key; the twister then stands at its end.
            self._new_block(self._bits.random_raw(BLOCK).astype(_WORD))
            self._key = known
            return
        state["pos"] = BLOCK
        self._bits.state = {"bit_generator": "MT19937", "state": state}
        self._new_block(_NO_WORDS)
        self._key = known


def as_floats(words: Array) -> Array:
    """The low 24 bits of words, as float32 from 0 to 1."""
    low = numpy.bitwise_and(words, 0xFFFFFF).view(numpy.int32).astype(F32)  # from int32: faster
    low *= F32.type(2.0**-24)
    return low


def as_doubles(words: Array) -> Array:
    """The low 53 bits of pairs of words, as float64 from 0 to 1."""
    numbers = _paired(words)
    numbers &= _LOW_53
    doubles = numbers.view(numpy.int64).astype(F64)
    doubles *= 2.0**-53
    return doubles


def _paired(words: Array) -> Array:
    """Pairs of words as words of 64 bits, the first being the high half."""
    swapped = words.view("<u8")
    numbers: Array = swapped << _HALF
    numbers |= swapped >> _HALF
    return numbers


def in_pairs(uniform: Array) -> Array:
    """Box and Muller's normal numbers: of two uniform ones the first turns, the second reaches."""
    made = numpy.empty_like(uniform)
    radius = numpy.log1p(-uniform[1::2])
    radius *= -2
    numpy.sqrt(radius, out=radius)
    angle = uniform[0::2] * _TURN
    numpy.multiply(radius, numpy.cos(angle), out=made[0::2])
    numpy.multiply(radius, numpy.sin(angle, out=angle), out=made[1::2])
    return made
