"""Random numbers on a device: CuPy's generators, one for each device and each `Generator`.

Uniform and normal numbers and coin tosses are drawn on the device, by counter (Philox). The numbers
are not torch's. What else there is (permutations, Poisson, gamma ...) is drawn on the host from the
same seed and brought over.
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

__all__ = ["DeviceStream", "fill", "seed_all", "stream_on"]


class DeviceStream:
    """The numbers of one generator on one device; the host's stream beside it has the same seed."""

    def __init__(self, place: device, seed: int) -> None:
        self.place = device("cuda", found_number(place))
        self.lock = threading.Lock()
        self.start(seed)

    def start(self, seed: int) -> None:
        """Begin anew."""
        self.seed = seed
        self.host = Stream(seed)
        self.own: Any = None  # made when first needed

    def generator(self) -> Any:
        """CuPy's generator."""
        if self.own is None:
            random = found.cupy.random
            with found.cupy.cuda.Device(self.place.index):
                self.own = random.Generator(random.Philox4x3210(self.seed))
        return self.own

    def uniform(self, array: Array, low: float = 0.0, high: float = 1.0) -> None:
        """Numbers from `low` up to but without `high`."""
        if array.dtype.kind == "c":
            self.uniform(array.real, low, high)
            self.uniform(array.imag, low, high)
            return
        dtype = numpy.float64 if array.dtype.char == "d" else numpy.float32
        drawn = self.generator().random(array.shape, dtype=dtype)
        # CuPy's are above 0 and up to 1; torch's may be 0 and never 1.
        array[...] = ((1 - drawn) * (high - low) + low).astype(array.dtype, copy=False)

    def normal(self, array: Array, mean: Any = 0.0, std: Any = 1.0) -> None:
        """Normal numbers; each part of complex ones has half of the variance."""
        if array.dtype.kind == "c":
            self.normal(array.real, mean.real, std * math.sqrt(0.5))
            self.normal(array.imag, mean.imag, std * math.sqrt(0.5))
            return
        dtype = numpy.float64 if array.dtype.char == "d" else numpy.float32
        drawn = self.generator().standard_normal(array.shape, dtype=dtype)
        array[...] = (drawn * std + mean).astype(array.dtype, copy=False)

    def bernoulli(self, array: Array, p: Any) -> None:
        """1 with probability `p`, else 0."""
        drawn = self.generator().random(array.shape, dtype=numpy.float32)
        array[...] = drawn <= p


_OWN: dict[Any, Any] = {
    samplers.uniform: DeviceStream.uniform,
    samplers.normal: DeviceStream.normal,
    samplers.bernoulli: DeviceStream.bernoulli,
}


def stream_on(place: device, generator: Any = None) -> DeviceStream:
    """The numbers that are drawn on a device: a generator's, or the default ones."""
    if generator is not None:
        own: DeviceStream = generator.device_stream()
        return own
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
        return
    host = numpy.empty(array.shape, array.dtype)
    how(stream.host, host)
    array[...] = placed(host, device_of(array))


def seed_all(seed: int) -> None:
    """Begin anew on every device that has been drawn on."""
    for stream in found.library.streams.values():
        stream.start(seed)


ports.fill(filled_there=fill, seeded_there=seed_all, stream_there=DeviceStream)
