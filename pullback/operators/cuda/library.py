"""CuPy as the layers below see it: where arrays are, windows on their memory, operators on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from sys import getrefcount
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.arrays import F32, F64, I64, LOOSE, Array, Library, numbers
from pullback.core.device import device
from pullback.core.explain import anomaly
from pullback.core.faults import device_fault
from pullback.core.promotion import is_half
from pullback.operators.choice import is_choice
from pullback.operators.cuda import backward_streams, overrides
from pullback.operators.cuda.along import Along
from pullback.operators.cuda.attention import Attention
from pullback.operators.cuda.biased import Biased
from pullback.operators.cuda.blas import Blas
from pullback.operators.cuda.channels import Channels, grouping
from pullback.operators.cuda.cudnn import Cudnn
from pullback.operators.cuda.filters import Filters
from pullback.operators.cuda.fused import Fused, fused_rule, fused_ufunc
from pullback.operators.cuda.kernel_overrides import copied, on_device, unbound_forward
from pullback.operators.cuda.lacking import LACKING
from pullback.operators.cuda.namespace import Space
from pullback.operators.cuda.philox import Philox
from pullback.operators.cuda.pool import Pool
from pullback.operators.cuda.recurrence import Recurrence
from pullback.operators.cuda.rows import Rows
from pullback.operators.cuda.updates import Updates
from pullback.operators.cuda.windows import Windows
from pullback.operators.nn.norm.layout import layout
from pullback.operators.running import interpret
from pullback.operators.running.on_arrays import array_call
from pullback.operators.writing.nodes import blank_nodes, rules_apart, written_class

__all__ = ["CudaLibrary"]


class CudaLibrary(Library):
    """Arrays of CuPy."""

    def __init__(self, cupy: Any, cupyx: Any, count: int) -> None:
        overrides.load()
        self.cupy, self.cupyx = cupy, cupyx
        self.xp = Space(cupy, cupyx, LACKING)
        self.space = self.xp.second()
        self._devices: dict[int, device] = {}
        self._forwards: dict[Any, Any] = {}
        self._nodes: dict[Any, type] = {}
        self._lines: dict[Any, Any] = {}
        self._originals: dict[Any, Any] = {}
        self.expressions: dict[str, Fused] = {}  # of kernels that are one expression
        self.blas = Blas(cupy)
        self.biased = Biased(cupy, self.blas)
        self.rows, self.windows = Rows(cupy), Windows(cupy)
        self.channels, self.cudnn = Channels(cupy), Cudnn(cupy)
        self.along = Along(cupy)
        alone = cupy.ndarray((1,), "f4")
        self._holders = _holders(alone)
        self.attention, self.filters = Attention(cupy), Filters(cupy)
        self.philox, self.pool = Philox(cupy), Pool(cupy, count)
        self.updates, self.recurrence = Updates(cupy), Recurrence(cupy)
        self.count = count
        self.streams: dict[int, Any] = {}  # random numbers by device
        self._add = fused_ufunc(cupy, "add", cupy.add)
        ndarray = cupy.ndarray
        # In a node's code: such arrays are the usual ones, and numbers stay Python's.
        self._names = {
            "ndarray": ndarray,
            "HOST": numpy.ndarray,
            "numbers32": {},
            "numbers64": {},
            "numpy": self.space,
        }

    def device(self, array: Array) -> device:
        """Where an array is."""
        number = array.device.id
        known = self._devices.get(number)
        if known is None:
            known = self._devices[number] = device("cuda", number)
        return known

    def address(self, array: Array) -> int:
        """Where its first element is."""
        return int(array.data.ptr)

    def window(self, array: Array, shape: Any, strides: Any, offset: int) -> Array:
        """A view of its memory: strides in bytes, offset from its first element."""
        return self.cupy.ndarray(tuple(shape), array.dtype, array.data + offset, tuple(strides))

    def forward(self, op: Any) -> Any:
        """An operator's forward as it runs here."""
        known = self._forwards.get(op)
        if known is None:
            known = self._forwards[op] = unbound_forward(op, self.space)
        return known

    def compute(self, op: Any, arrays: dict[str, Any], options: dict[str, Any]) -> Any:
        """The results of an operator's forward, on arrays of one device and numbers."""
        given = {name: self._taken(op, name, one) for name, one in arrays.items()}
        if self.count > 1:
            with self.cupy.cuda.Device(self._device_of(op, given)):
                return self._computed(op, given, options)
        return self._computed(op, given, options)

    def _device_of(self, op: Any, given: dict[str, Any]) -> int:
        """The one device of all arrays."""
        ndarray = self.cupy.ndarray
        numbers = {int(one.device.id) for one in _flat(given.values()) if type(one) is ndarray}
        if len(numbers) > 1:
            raise errors.two_devices(op.name, sorted(numbers))
        return numbers.pop()

    def _computed(self, op: Any, given: dict[str, Any], options: dict[str, Any]) -> Any:
        made = self.forward(op)(self.xp, **given, **options)
        if anomaly.state.enabled:
            self.settle(op.name)
        return made

    def on_device_of(self, array: Array) -> AbstractContextManager[Any]:
        """Inside, new arrays are on the device of `array`."""
        if self.count == 1:
            return nullcontext()
        there: AbstractContextManager[Any] = self.cupy.cuda.Device(array.device.id)
        return there

    def settle(self, what: str) -> None:
        """Wait for what the current stream has, so that a fault is found where it belongs."""
        stream = self.cupy.cuda.get_current_stream()
        if stream.is_capturing():
            return
        try:
            stream.synchronize()
        except self.cupy.cuda.runtime.CUDARuntimeError as error:
            raise device_fault(what, error) from error

    def block(self, array: Array) -> tuple[Any, int]:
        """What is the same for all arrays on one block of memory, and the bytes of it."""
        memory = array.data.mem
        return memory.ptr, int(memory.size)

    def _taken(self, op: Any, name: str, value: Any) -> Any:
        """An operand: a number for a host array of no dimensions; other host arrays are refused."""
        if type(value) is tuple:
            return tuple([self._taken(op, name, one) for one in value])
        if not isinstance(value, numpy.ndarray):
            return value
        if value.ndim == 0:
            return value[()]
        # Indices may come from the host, as in torch.
        if value.dtype.kind in "biu" and op.name.startswith(("_index", "_place")):
            return self.cupy.asarray(value)
        raise errors.devices_mixed(op.name, name)

    def specialised(self, value: Any) -> Any:
        """A kernel of the package as it runs here."""
        return on_device(value, self.space)

    def original(self, value: Any) -> Any:
        """The same, whatever took its place."""
        known = self._originals.get(value)
        if known is None:
            meaning = value.__wrapped__ if is_choice(value) else value
            known = self._originals[value] = copied(meaning, self.space)
        return known

    def _specialised(self, value: Any) -> Any:
        return value if isinstance(value, Fused) else on_device(value, self.space)

    def call(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A plain call: by the fast path, unless streams or devices are to be noted."""
        if backward_streams.several.used or self.count > 1:
            return interpret.call(op, args, kwargs)
        line = self._lines.get(op)
        return (line or self.line(op))(*args, **kwargs)

    def line(self, op: Any) -> Any:
        """The operator's fast path for arrays of this library; written when first needed."""
        known = self._lines.get(op)
        if known is None:
            known = self._lines[op] = self._written(op)
        return known

    def _written(self, op: Any) -> Any:
        from pullback.operators.writing.build import written_elsewhere

        direct = array_call(op)
        own: Any = None if direct is None else getattr(self.xp, direct)
        names = {
            **self._names,
            "numpy": self.xp,
            "forward": self.forward(op),
            "ufunc": None if direct is None else fused_ufunc(self.cupy, direct, own.own),
            "of_floats": partial(self.forward(op), self.xp),
            "numbers": _BesideDevice(),
            "blank_nodes": blank_nodes(self.node_class(op)) if op.rules else None,
        }
        return written_elsewhere(op, names)

    def summed(self, array: Array, dims: tuple[int, ...]) -> Array:
        """The sums over dimensions, which go."""
        leading = dims == tuple(range(array.ndim - 1))
        if leading and array.ndim > 1 and self.rows.fits(array):
            return self.rows.column_sums(array)
        if is_half(array.dtype):
            return array.sum(dims, numpy.float32).astype(array.dtype)
        return array.sum(dims)

    def added(self, total: Array, one: Array, *, into: bool) -> Array:
        """The sum of two arrays, in one launch."""
        if self.count > 1:
            with self.on_device_of(total):
                return self._add(total, one, total) if into else self._add(total, one)
        return self._add(total, one, total) if into else self._add(total, one)

    def is_alone(self, array: Array) -> bool:
        """Whether no other array lies on its memory, which no other stream may read either."""
        if array.base is not None or backward_streams.several.crossed:
            return False
        return _holders(array) == self._holders

    def channel_statistics(self, array: Array, over: Any) -> Any:
        """Mean, inverse deviation and variance of channels; None where there is no kernel."""
        if self.count > 1 or not array.size or not self.channels.fits(array):
            return None
        of = grouping(array.shape, layout(array.shape, over), over)
        return None if of is None else self.channels.statistics(array, of, over.eps)

    def follow_statistics(self, known: Any, mean: Array, variance: Array, parts: Any) -> bool:
        """Move running statistics, which are in the type that known ones were computed in."""
        if not self.channels.fits(known[0], mean, variance) or mean is variance:
            return False
        self.channels.follow(mean, variance, known, parts)
        return True

    def recorded(self, node: Any, inputs: Iterable[Any] = ()) -> None:
        """Note stream and device of a node's forward, where there are several."""
        if self.count > 1:
            arrays = [getattr(one, "_raw", one) for one in _flat(inputs)]
            numbers = [int(one.device.id) for one in arrays if type(one) is self.cupy.ndarray]
            backward_streams.noted(node, numbers[0] if numbers else int(self.cupy.cuda.Device().id))
        elif backward_streams.several.used:
            backward_streams.noted(node)

    def node_class(self, op: Any) -> type:
        """The class of an operator's nodes, whose rules run on such arrays."""
        known = self._nodes.get(op)
        if known is None:
            fuse = partial(fused_rule, self.cupy, specialise=self._specialised)
            known = written_class(op, self._names, self._specialised, fuse)
            known._make_zeros = staticmethod(self.cupy.zeros)  # type: ignore[attr-defined]  # for several outputs
            self._nodes[op] = known
        return known

    def rules(self, op: Any) -> Any:
        """What an operator's nodes run on such arrays, as a function of what they keep."""
        return rules_apart(op, self._names, self._specialised)


def _holders(array: Any) -> tuple[int, int]:
    """How many hold an array's pointer, and the memory that it points to."""
    pointer = array.data
    memory = pointer.mem
    return getrefcount(pointer), getrefcount(memory)


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for one in values:
        if type(one) in (tuple, list):
            yield from one
        else:
            yield one


class _BesideDevice(dict[Any, Any]):
    """Numbers beside device arrays, in their dtype: as `numbers` of core/arrays.py."""

    def __missing__(self, dtype: Any) -> Any:
        held = dtype in (F32, F64) or dtype == I64
        self[dtype] = made = _OfDtype(dtype) if held else numbers[dtype]
        return made


class _OfDtype:
    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype

    def __getitem__(self, value: float) -> Any:
        if self.dtype == I64 and numbers[I64][value] is LOOSE:  # no int, or beyond int64
            return LOOSE
        return self.dtype.type(value)
