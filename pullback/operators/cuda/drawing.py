"""Random numbers on a device: a seed and a place for each device and each `Generator`.

Uniform and normal numbers, integers, coin tosses and what follows from them are drawn on the device
(`philox.py`). The numbers are not torch's. What else there is (permutations, Poisson, gamma ...) is
drawn on the host, from a seed that place and seed tell, and brought over: so a state is two
numbers, whatever is drawn.

While a graph is captured, places are counted from a number in the device's memory, which each
replay sets to where the generator is by then.
"""

from __future__ import annotations

import functools
import math
import threading
from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.core.device import device
from pullback.core.ports import ports
from pullback.core.tensor import device_of
from pullback.operators.cuda.found import found
from pullback.operators.cuda.moving import found_number, placed
from pullback.operators.random import samplers
from pullback.operators.random.stream import Stream

__all__ = ["Captured", "DeviceStream", "fill", "host_seed", "seed_all", "stream_on"]

_STATE = numpy.dtype([("seed", "<u8"), ("place", "<u8")])


class DeviceStream:
    """The numbers of one generator on one device."""

    def __init__(self, place: device, seed: int) -> None:
        self.where = device("cuda", found_number(place))
        self.lock = threading.Lock()
        self.moved: Any = None  # on the device: how far a replay is from its capture
        self.start(seed)

    def start(self, seed: int) -> None:
        """Begin anew."""
        self.seed, self.place = seed, 0

    def state(self) -> Array:
        """Seed and place as bytes, in torch's order."""
        with self.lock:
            made = numpy.array([(self.seed, self.place)], _STATE)
        return made.view(numpy.uint8)

    def go_to(self, state: Array) -> None:
        """To the seed and place of a state; eight bytes alone are a seed."""
        if state.shape not in ((8,), (16,)):
            raise RuntimeError(
                f"set_state(): a state of a device has 16 bytes, this one has shape {state.shape}."
            )
        seed, *place = numpy.ascontiguousarray(state).view("<u8").tolist()
        with self.lock:
            self.seed, self.place = seed, place[0] if place else 0

    def take(self, count: int) -> tuple[int, int, Any]:
        """Seed, first place and the device's count, of as many places as a call needs."""
        with self.lock:
            first = self.place
            self.place += count
        captured = Captured.now
        return self.seed, first, None if captured is None else captured.moved(self, first)

    def uniform(self, array: Array, low: float = 0.0, high: float = 1.0) -> None:
        """Numbers from `low` up to but without `high`."""
        if array.dtype.kind == "c":
            self.uniform(array.real, low, high)
            self.uniform(array.imag, low, high)
            return
        philox = found.library.philox
        philox.uniform(array, self.take(philox.blocks("uniform", array)), low, high)

    def normal(self, array: Array, mean: Any = 0.0, std: Any = 1.0) -> None:
        """Normal numbers; each part of complex ones has half of the variance."""
        if array.dtype.kind == "c":
            self.normal(array.real, mean.real, std * math.sqrt(0.5))
            self.normal(array.imag, mean.imag, std * math.sqrt(0.5))
            return
        philox = found.library.philox
        philox.normal(array, self.take(philox.blocks("normal", array)), mean, std)

    def bernoulli(self, array: Array, p: Any) -> None:
        """1 with probability `p` (a number, or an array of the same shape), else 0."""
        philox = found.library.philox
        if not isinstance(p, found.cupy.ndarray):
            philox.tosses(array, self.take(philox.blocks("tosses", array)), float(p))
            return
        drawn = found.cupy.ndarray(array.shape, numpy.float64 if p.dtype.char == "d" else "f")
        self.uniform(drawn)
        array[...] = drawn < p

    def integers(self, array: Array, low: int, high: int) -> None:
        """Integers from `low` up to but without `high`."""
        count = high - low
        if high > 1 << 63 and low >= 0:  # they do not fit the device's signed integers
            _by_host(self, array, functools.partial(samplers.integers, low=low, high=high))
            return
        philox = found.library.philox
        count = count if count < 1 << 64 else 0
        philox.integers(array, self.take(philox.blocks("integers", array, count)), low, count)

    def bits(self, array: Array) -> None:
        """Integers of 31 bits."""
        self.integers(array, 0, 1 << 31)

    def _doubles(self, array: Array) -> Array:
        drawn = found.cupy.ndarray(array.shape, numpy.float64)
        self.uniform(drawn)
        return drawn

    def exponential(self, array: Array, rate: float) -> None:
        """Waiting times, 1 / rate on average."""
        array[...] = found.cupy.log1p(-self._doubles(array)) * (-1 / rate)

    def cauchy(self, array: Array, median: float, sigma: float) -> None:
        """The tangent of angles, scaled and shifted."""
        array[...] = found.cupy.tan((self._doubles(array) - 0.5) * math.pi) * sigma + median

    def geometric(self, array: Array, p: float) -> None:
        """Trials until the first success, counted from 1."""
        drawn = found.cupy.log1p(-self._doubles(array))
        array[...] = found.cupy.ceil(found.cupy.maximum(drawn / math.log1p(-p), 1e-300))

    def log_normal(self, array: Array, mean: float, std: float) -> None:
        """E to the power of normal numbers."""
        drawn = found.cupy.ndarray(array.shape, numpy.float64)
        self.normal(drawn, mean, std)
        array[...] = found.cupy.exp(drawn)


_OWN: dict[Any, Any] = {
    getattr(samplers, name): getattr(DeviceStream, name)
    for name in (
        *("uniform", "normal", "bernoulli", "integers", "bits"),
        *("exponential", "cauchy", "geometric", "log_normal"),
    )
}


class Captured:
    """What a graph draws: which streams, from where on and how far."""

    now: Captured | None = None  # while a graph is captured

    def __init__(self) -> None:
        self._begun: dict[DeviceStream, int] = {}
        self._taken: dict[DeviceStream, int] = {}

    def moved(self, stream: DeviceStream, first: int) -> Any:
        """The device's count of a stream that is drawn from."""
        self._begun.setdefault(stream, first)
        if stream.moved is None:
            cupy = found.cupy
            with cupy.cuda.using_allocator(cupy.get_default_memory_pool().malloc):
                stream.moved = cupy.ndarray((), numpy.uint64)
        return stream.moved

    def end(self) -> None:
        """Nothing was drawn yet: streams go back to where they were."""
        for stream, first in self._begun.items():
            self._taken[stream] = stream.place - first
            stream.place = first

    def begin_replay(self) -> None:
        """Let the graph draw what comes next."""
        for stream, first in self._begun.items():
            with stream.lock:
                stream.moved.fill(numpy.uint64((stream.place - first) % (1 << 64)))
                stream.place += self._taken[stream]


def stream_on(place: device, generator: Any = None) -> DeviceStream:
    """The numbers that are drawn on a device: a generator's, or the default ones."""
    if generator is not None:
        there: DeviceStream = generator.device_stream()
        return there
    number = found_number(place)
    known: DeviceStream | None = found.library.streams.get(number)
    if known is None:
        from pullback.operators.random.generator import default_generator

        known = found.library.streams[number] = DeviceStream(
            place, default_generator.initial_seed()
        )
    return known


def fill(array: Array, how: Any, generator: Any = None) -> None:
    """Fill a device array as one of the samplers would fill one of the host's."""
    stream = stream_on(device_of(array), generator)
    whole = how if isinstance(how, functools.partial) else functools.partial(how)
    own = _OWN.get(whole.func)
    if own is not None:
        own(stream, array, *whole.args, **whole.keywords)
    else:
        _by_host(stream, array, how)


def _by_host(stream: DeviceStream, array: Array, how: Any) -> None:
    host = numpy.empty(array.shape, array.dtype)
    how(Stream(host_seed(stream, getattr(how, "func", how).__name__)), host)
    array[...] = placed(host, device_of(array))


def host_seed(stream: DeviceStream, what: str) -> int:
    """A seed for numbers that are drawn on the host, from the next place of a device's stream."""
    seed, place, moved = stream.take(1)
    if moved is not None:
        raise RuntimeError(
            f"{what.lstrip('_')}: these numbers are drawn on the host, so that a replayed graph "
            "would have the same ones each time; draw them before."
        )
    return int(numpy.random.SeedSequence((seed, place)).generate_state(1, numpy.uint64)[0])


def seed_all(seed: int) -> None:
    """Begin anew on every device that has been drawn on."""
    for stream in found.library.streams.values():
        stream.start(seed)


ports.fill(filled_there=fill, seeded_there=seed_all, stream_there=DeviceStream)
