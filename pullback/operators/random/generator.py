"""Where random numbers come from: generators, their seeds and their states.

Its own file because seeds and states are the user's business, while `random.py` draws. NumPy's
random module is loaded when the first number is drawn: its import takes 16 ms.
"""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy

from pullback.core.device import DeviceLike, as_device, require_available
from pullback.core.mode import get_mode
from pullback.core.tensor import Tensor, wrap

__all__ = [
    *("Generator", "default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed"),
    *("seed", "set_rng_state"),
]

_DEFAULT_SEED = 67280421310721  # torch's, for a generator that was given none
_WORDS = 7  # of a state: seed, four of SFC64, its half-used word and whether there is one


def drawn(op: str, draw: Callable[[], Any]) -> Any:
    """A tensor of random numbers: drawn once, or inside vmap as that says."""
    levels = get_mode().levels
    return levels[-1].random(op, draw) if levels else draw()


class Generator:
    """A stream of random numbers that a seed determines; safe to use from several threads.

    The numbers are not torch's: the same seed gives the same numbers here, on every machine.

    Example:
        >>> import pullback as torch
        >>> g = torch.Generator().manual_seed(7)
        >>> a = torch.rand(2, generator=g)
        >>> b = torch.rand(2, generator=g.manual_seed(7))
        >>> bool((a == b).all())
        True
    """

    __slots__ = ("__weakref__", "_lock", "_seed", "_source", "device")

    def __init__(self, device: DeviceLike | None = "cpu") -> None:
        self.device = require_available(as_device(device))
        self._lock = threading.Lock()
        self._seed = _DEFAULT_SEED
        self._source: Any = None

    def draw_from(self) -> Any:
        """The NumPy generator behind this one; made from the seed when first needed."""
        source = self._source
        if source is not None:
            return source
        with self._lock:
            if self._source is None:
                self._source = _source(self._seed)
            return self._source

    def manual_seed(self, seed: int) -> Generator:
        """Start anew from `seed`, an int of 64 bits; negative ones count down from 2**64."""
        if isinstance(seed, float) or not hasattr(seed, "__index__"):
            raise RuntimeError(f"manual_seed(): a seed must be an int, got {type(seed).__name__}.")
        number = operator.index(seed)
        if not -(2**63) <= number < 2**64:
            raise ValueError(f"manual_seed(): {number} does not fit 64 bits; use a smaller seed.")
        with self._lock:
            self._seed, self._source = number % 2**64, None
        return self

    def seed(self) -> int:
        """Start anew from a seed that nobody can know before, and return it."""
        number = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(number)
        return number

    def initial_seed(self) -> int:
        """The seed that this stream started from."""
        return self._seed

    def get_state(self) -> Tensor:
        """The place in the stream, as a uint8 tensor for `set_state`."""
        bits = self.draw_from().bit_generator
        with bits.lock:
            state = bits.state
        words = numpy.empty(_WORDS, numpy.uint64)
        words[0] = self._seed
        words[1:5] = state["state"]["state"]
        words[5:] = state["has_uint32"], state["uinteger"]
        return wrap(words.view(numpy.uint8))

    def set_state(self, new_state: Tensor) -> Generator:
        """Go to a place in the stream that `get_state` gave."""
        if not isinstance(new_state, Tensor) or new_state._array.dtype != numpy.uint8:
            given = new_state.dtype if isinstance(new_state, Tensor) else type(new_state).__name__
            raise TypeError(f"set_state(): a state is a uint8 tensor, got {given}.")
        array = new_state._array
        if array.shape != (8 * _WORDS,):
            raise RuntimeError(
                f"set_state(): a state has {8 * _WORDS} bytes, this one has shape {array.shape}. "
                "States of torch's generators do not fit."
            )
        words = numpy.ascontiguousarray(array).view(numpy.uint64).tolist()
        source = _source(words[0])
        source.bit_generator.state = {
            "bit_generator": "SFC64",
            "state": {"state": numpy.array(words[1:5], numpy.uint64)},
            "has_uint32": words[5],
            "uinteger": words[6],
        }
        with self._lock:
            self._seed, self._source = words[0], source
        return self

    def clone_state(self) -> Generator:
        """Another generator at the same place in the same stream."""
        return Generator(self.device).set_state(self.get_state())

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return _restored, (str(self.device), self.get_state()._array)

    def __repr__(self) -> str:
        return f"<torch.Generator on {self.device}, seed {self._seed}>"


def _source(seed: int) -> Any:
    # SFC64 is the fastest of NumPy's generators: 2.4 ms for a million float32, PCG64DXSM 4.6.
    from numpy.random import SFC64
    from numpy.random import Generator as Source

    return Source(SFC64(seed))


def _restored(place: str, state: Any) -> Generator:
    return Generator(place).set_state(wrap(state))


default_generator = Generator()
default_generator.seed()


def manual_seed(seed: Any) -> Generator:
    """Start the stream that functions draw from by default anew; returns its generator.

    Example:
        >>> import pullback as torch
        >>> _ = torch.manual_seed(0)
        >>> a = torch.rand(3)
        >>> _ = torch.manual_seed(0)
        >>> bool((a == torch.rand(3)).all())
        True
    """
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Start the default stream anew from a seed that nobody can know before, and return it."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that the default stream started from."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The place in the default stream, as a uint8 tensor."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Go to a place in the default stream that `get_rng_state` gave."""
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(
    devices: Any = None, enabled: bool = True, device_type: str = "cuda", **_names: Any
) -> Iterator[None]:
    """Leave the default stream where it was, whatever is drawn within the block.

    Example:
        >>> import pullback as torch
        >>> before = torch.get_rng_state()
        >>> with torch.random.fork_rng():
        ...     _ = torch.rand(3)
        >>> bool((before == torch.get_rng_state()).all())
        True
    """
    if not enabled:
        yield
        return
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)
