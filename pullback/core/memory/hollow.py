"""Arrays of tensors that have a shape, strides, a dtype and a device, but no data of their own.

They stand in `_make_wrapper_subclass`'s tensors, whose class answers every operator by its
`__torch_dispatch__`. Metadata is read as of any array; who reads data is refused, since it went
past the class.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NoReturn

import numpy

from pullback.core import arrays
from pullback.core.device import CPU, device
from pullback.core.memory.meta import reserved_memory
from pullback.core.ports import ports

__all__ = ["Hollow", "hollow"]


class Hollow(numpy.ndarray[Any, Any]):
    """An array whose data nobody may read."""

    _device = CPU
    _offset = 0  # in elements, in a storage that is not there

    def _refused(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            "This tensor is a wrapper without data of its own, and the call went past its "
            "__torch_dispatch__. Compute with the tensors that it wraps, or let its class answer."
        )

    __array_ufunc__ = __array_function__ = __setitem__ = __bool__ = _refused
    item = tolist = tobytes = tofile = copy = astype = fill = sort = argsort = _refused
    # These read in C, past the two above.
    argmax = argmin = argpartition = byteswap = choose = compress = dot = dump = dumps = _refused
    nonzero = partition = put = repeat = searchsorted = take = trace = _refused
    __complex__ = __contains__ = __float__ = __index__ = __int__ = _refused

    def __getitem__(self, key: Any) -> Any:
        found = numpy.ndarray.__getitem__(self, key)
        return found if isinstance(found, numpy.ndarray) else self._refused()


arrays.NAMESPACES[Hollow] = numpy


@cache
def _on(place: device) -> type[Hollow]:
    """The class of such arrays on a device."""
    if place == CPU:
        return Hollow
    kind = type("Hollow", (Hollow,), {"_device": place})
    arrays.NAMESPACES[kind] = numpy
    return kind


def hollow(
    shape: tuple[int, ...],
    dtype: numpy.dtype[Any],
    strides: tuple[int, ...] | None = None,
    offset: int = 0,
    place: device = CPU,
) -> Hollow:
    """An array without data; strides and offset in elements, None for one without gaps.

    Nobody writes to it, so all of one geometry are the same object.
    """
    key = (shape, dtype, strides, offset, place)
    known = _known.get(key)
    if known is None:
        if len(_known) >= _MOST:
            _known.clear()
        known = _known[key] = _made(*key)
    return known


_known: dict[Any, Hollow] = {}
_MOST = 1000


def _made(
    shape: tuple[int, ...],
    dtype: numpy.dtype[Any],
    strides: tuple[int, ...] | None,
    offset: int,
    place: device,
) -> Hollow:
    size = dtype.itemsize
    steps = None if strides is None else tuple([stride * size for stride in strides])
    made = _on(place)(shape, dtype, reserved_memory(), offset * size, steps)
    if offset:
        made._offset = offset
    return made


ports.fill(hollow=hollow)
