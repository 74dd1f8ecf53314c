"""Where random numbers come from: generators, their seeds and their states.

Its own file because seeds and states are the user's business, while `random.py` draws and
`stream.py` makes the numbers. A seed gives the numbers that torch's CPU generator gives.
"""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

import numpy

from pullback.core.arrays import LIBRARIES
from pullback.core.device import DeviceLike, as_device, require_available
from pullback.core.mode import get_mode
from pullback.core.ports import ports
from pullback.core.tensor import Tensor, wrap
from pullback.operators.dispatch.observers import observers, shown_draw
from pullback.operators.random.stream import BLOCK, Stream

T = TypeVar("T")

FOUND_IN = {
    "torch": """
        default_generator fork_rng Generator get_rng_state initial_seed manual_seed seed
        set_rng_state
    """
}

Sizes: TypeAlias = tuple[int, ...]

_DEFAULT_SEED = 67280421310721  # torch's, for a generator that was given none

# A state as torch writes it: seed, words left in the block (and one more), whether seeded, place in
# the block, the key in words of 64 bits, then the normal number kept for the next call.
_STATE = numpy.dtype(
    [
        *(("seed", "<u8"), ("left", "<i4"), ("seeded", "<i4"), ("place", "<u8")),
        *(("key", "<u8", BLOCK), ("x", "<f8"), ("spare", "<f8"), ("rho", "<f8")),
        *(("has_spare", "<i8"), ("float_spare", "<f4"), ("has_float_spare", "<i4")),
    ]
)


def drawn(op: str, draw: Callable[[], T], many: Callable[[Sizes], T] | None = None) -> T:
    """A tensor of random numbers: drawn once, or inside vmap as that says.

    `many` draws with dimensions in front, for all examples together; else each is drawn by itself.
    """
    mode = get_mode()
    if mode.levels:
        result: T = mode.levels[-1].random(op, draw, many)
        return result
    if observers.active is not None and mode.tracing is None:
        seen: T = shown_draw(op, draw, default_generator.get_state)
        return seen
    return draw() if mode.tracing is None else mode.tracing.draw(op, draw)


def drawn_like(op: str, like: Any, draw: Callable[[Any], T]) -> T:
    """Random numbers in the order in which the elements of `like` lie in memory.

    Inside vmap `draw` is given all examples, in front, as they lie: the memory of one does not say
    which numbers are next to which.
    """
    mode = get_mode()
    if mode.levels:
        result: T = mode.levels[-1].random_like(op, like, draw)
        return result
    return draw(like)


class Generator:
    """A stream of random numbers that a seed determines; safe to use from several threads.

    The numbers are those of torch's generator for the CPU, as far as docs/random.md says.

    Example:
        >>> import pullback as torch
        >>> g = torch.Generator().manual_seed(0)
        >>> torch.rand(3, generator=g)
        tensor([0.4963, 0.7682, 0.0885])
    """

    __slots__ = ("__weakref__", "_lock", "_seed", "_stream", "_there", "device")

    def __init__(self, device: DeviceLike | None = "cpu") -> None:
        try:
            self.device = require_available(as_device(device))
        except AssertionError as error:
            raise RuntimeError(f"Generator: {error}") from None
        self._lock = threading.Lock()
        self._seed = _DEFAULT_SEED
        self._stream: Stream | None = None
        self._there: Any = None  # the numbers on a device

    def draw_from(self) -> Stream:
        """The stream behind this generator; made from the seed when first needed."""
        tracing = get_mode().tracing
        if tracing is not None:
            # Numbers for the shapes of results are nobody's: other threads go on with theirs.
            scratch: Stream = tracing.draws(self)
            return scratch
        stream = self._stream
        if stream is not None:
            return stream
        with self._lock:
            if self._stream is None:
                self._stream = Stream(self._seed)
            return self._stream

    def device_stream(self) -> Any:
        """The numbers on the device of this generator; made from the seed when first needed."""
        if self.device.type == "cpu":
            raise RuntimeError(
                "A generator of the CPU draws no numbers on a device; make one there."
            )
        with self._lock:
            if self._there is None:
                self._there = ports.stream_there(self.device, self._seed)
            return self._there

    def manual_seed(self, seed: int) -> Generator:
        """Start anew from `seed`, an int of 64 bits; negative ones count down from 2**64.

        As in torch, the numbers depend on its low 32 bits alone.
        """
        if isinstance(seed, float) or not hasattr(seed, "__index__"):
            raise RuntimeError(f"manual_seed(): a seed must be an int, got {type(seed).__name__}.")
        number = operator.index(seed)
        if not -(2**63) <= number < 2**64:
            raise ValueError(f"manual_seed(): {number} does not fit 64 bits; use a smaller seed.")
        with self._lock:
            self._seed = number % 2**64
            if self._stream is not None:
                self._stream.start(self._seed)
            self._there = None
        if self is default_generator and LIBRARIES:
            ports.seeded_there(self._seed)
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
        """The place in the stream, as a uint8 tensor for `set_state`; torch's take it too."""
        if self.device.type != "cpu":
            return wrap(self.device_stream().state())
        state = numpy.zeros((), _STATE)
        stream = self.draw_from()
        with stream.lock:
            place = 0 if stream.fresh else stream.place
            state["seed"], state["seeded"], state["place"] = self._seed, 1, place
            state["left"] = 1 if stream.fresh else BLOCK - place + 1
            state["key"] = stream.key()
            if stream.spare is not None:
                state["spare"], state["has_spare"] = stream.spare, 1
        return wrap(state.reshape(1).view(numpy.uint8))

    def set_state(self, new_state: Tensor) -> Generator:
        """Go to a place in the stream that `get_state` gave, here or in torch."""
        if not isinstance(new_state, Tensor) or new_state._array.dtype != numpy.uint8:
            given = new_state.dtype if isinstance(new_state, Tensor) else type(new_state).__name__
            raise TypeError(f"set_state(): a state is a uint8 tensor, got {given}.")
        array = new_state._array
        if self.device.type != "cpu":
            there = self.device_stream()
            there.go_to(array)
            self._seed = there.seed
            return self
        if array.shape != (_STATE.itemsize,):
            raise RuntimeError(
                f"set_state(): a state has {_STATE.itemsize} bytes, this one has shape "
                f"{array.shape}."
            )
        state = numpy.ascontiguousarray(array).view(_STATE)[0]
        left, place = int(state["left"]), int(state["place"])
        if not (1 <= left <= BLOCK and place <= BLOCK and state["seeded"]):
            raise RuntimeError("set_state(): these bytes are no generator's state.")
        seed = int(state["seed"])
        spare = float(state["spare"]) if int(state["has_spare"]) & 0xFFFFFFFF else None
        stream = self.draw_from()
        with self._lock, stream.lock:
            # Nothing left in the block: the next draw twists.
            stream.go_to(state["key"], BLOCK if left == 1 else place, spare, fresh=place == 0)
            self._seed = seed
        return self

    def get_offset(self) -> int:
        """How many numbers a device's generator has drawn, by its own count."""
        if self.device.type == "cpu":
            raise RuntimeError(
                "get_offset(): a generator of the CPU has no offset; use get_state()."
            )
        return int(self.device_stream().place)

    def set_offset(self, offset: int) -> None:
        """Go to an offset that `get_offset` gave; a generator of the CPU has none."""
        if self.device.type == "cpu":
            raise RuntimeError(
                "set_offset(): a generator of the CPU has no offset; use set_state()."
            )
        self.device_stream().place = operator.index(offset)

    def clone_state(self) -> Generator:
        """Another generator at the same place in the same stream."""
        return Generator(self.device).set_state(self.get_state())

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return _restored, (str(self.device), self.get_state()._array)

    def __repr__(self) -> str:
        return f"<torch.Generator on {self.device}, seed {self._seed}>"


def _restored(place: str, state: Any) -> Generator:
    return Generator(place).set_state(wrap(state))


default_generator = Generator()
default_generator.seed()


def manual_seed(seed: Any) -> Generator:
    """Seed the default random number generator, and return it.

    Example:
        >>> import pullback as torch
        >>> _ = torch.manual_seed(0)
        >>> torch.randn(4)
        tensor([ 1.5410, -0.2934, -2.1788,  0.5684])
    """
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Start the default stream anew from a seed that nobody can know before, and return it.

    >>> import pullback as torch
    >>> torch.seed() == torch.initial_seed()
    True
    """
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that the default stream started from.

    >>> import pullback as torch
    >>> _ = torch.manual_seed(7)
    >>> torch.initial_seed()
    7
    """
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The place in the default stream, as a uint8 tensor.

    >>> import pullback as torch
    >>> torch.get_rng_state().dtype
    torch.uint8
    """
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Go to a place in the default stream that `get_rng_state` gave.

    >>> import pullback as torch
    >>> state = torch.get_rng_state()
    >>> first = torch.rand(1)
    >>> torch.set_rng_state(state)
    >>> torch.equal(first, torch.rand(1))
    True
    """
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
