"""Arrays without data that know how their values come about.

While a function is captured, its tensors stand on these. Shape, strides and dtype are right, memory
is pages of zeros that nobody can reach by accident: whatever would look at a value (a decision, a
conversion, a NumPy function that gives no array) raises `CannotCapture`, and arithmetic that does
not come by way of an operator is written down like one.

A `Storage` is memory that may be written. Since programs are functional, a write gives the storage
another value; arrays that look at a part of it find theirs anew when next asked.
"""

from __future__ import annotations

import operator
from threading import get_ident
from typing import Any

import numpy

from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.capture.steps import Value
from pullback.compiled.sizes.sized import refuse_users_len
from pullback.core.device import CPU
from pullback.core.memory import meta
from pullback.core.mode import get_mode

__all__ = ["Storage", "TracedArray", "standing_for"]

_descriptor: Any = numpy.ndarray.shape
_shape_of, _set_shape = _descriptor.__get__, _descriptor.__set__


class Storage:
    """Memory of a captured program: its present value, and how often it was written."""

    __slots__ = ("address", "is_picked", "shape", "strides", "tracer", "value", "version")

    value: Any  # a Value, or None where nobody wrote yet

    def __init__(self, tracer: Any, value: Value | None, array: Any) -> None:
        self.tracer = tracer
        self.value = value
        self.version = 0
        # Whether an index tensor named a part of it, or it is that part: a copy here, the same
        # memory in eager. So nobody may write to either.
        self.is_picked = False
        self.address = array.__array_interface__["data"][0]
        self.shape, self.strides = array.shape, array.strides


class TracedArray(numpy.ndarray[Any, Any]):
    """An array of the program that is being captured."""

    storage: Any = None  # a Storage
    value: Any = None  # a Value: of this array, while `seen` is the storage's version
    seen = -1

    def __array_finalize__(self, source: Any) -> None:
        # A view that NumPy makes belongs to the same storage; its value is found when asked for.
        if source.__class__ is TracedArray:
            self.storage = source.storage

    @property
    def _device(self) -> Any:
        value = None if self.storage is None else self.storage.value
        return CPU if value is None or value.place is None else value.place

    def refuse_text(self) -> None:
        """End the capture for whoever writes a tensor's elements, however that was asked for."""
        if get_mode().tracing is not None:  # later, errors tell what they hold
            raise CannotCapture("the text of a tensor, which needs its values")

    # Sizes ----------------------------------------------------------------------------------

    @property
    def shape(self) -> Any:
        """Sizes; those that vary remember it, while a capture is generalised."""
        storage = self.storage
        if storage is None or storage.tracer.sizes is None:
            return _shape_of(self)
        return storage.tracer.sizes.shown(self, _shape_of(self))

    @shape.setter
    def shape(self, value: Any) -> None:
        _set_shape(self, value)

    def __len__(self) -> int:
        if self.storage is not None and self.storage.tracer.sizes is not None:
            refuse_users_len(self)
        return super().__len__()

    # Data -----------------------------------------------------------------------------------

    def __bool__(self) -> bool:
        return bool(_tracer_of(self, ()).answer(self, "a decision by the value of a tensor"))

    def __int__(self) -> int:
        return int(_tracer_of(self, ()).answer(self, "__int__ of a tensor, which needs its values"))

    def __index__(self) -> int:
        why = "__index__ of a tensor, which needs its values"
        return operator.index(_tracer_of(self, ()).answer(self, why))

    def item(self, *args: Any) -> Any:
        """The one element, where it decides."""
        why = "item of a tensor, which needs its values"
        if args:
            raise CannotCapture(why)
        return _tracer_of(self, ()).answer(self, why).item()

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any
    ) -> Any:
        return _tracer_of(self, inputs).ufunc(ufunc, method, inputs, out, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _tracer_of(self, args).function(func, args, kwargs)

    def __getitem__(self, key: Any) -> Any:
        if any(isinstance(one, numpy.ndarray | list) for one in _listed(key)):
            return _tracer_of(self, ()).picked(self, key)
        made = super().__getitem__(key)
        if not isinstance(made, numpy.ndarray):
            one = super().__getitem__((*_listed(key), ...))
            return _tracer_of(self, ()).answer(one, "a look at one element of a tensor")[()]
        return made

    def __iter__(self) -> Any:
        if self.ndim < 2:
            raise CannotCapture("a loop over the elements of a tensor")
        return (self[number] for number in range(len(self)))

    def __setitem__(self, key: Any, value: Any) -> None:
        tracer = _tracer_of(self, ())
        if key is Ellipsis:
            tracer.assign(self, value)
            return
        tracer.assign_at(self, key, value)

    def fill(self, value: Any) -> None:
        """A write of one value."""
        _tracer_of(self, ()).assign(self, numpy.array(value, self.dtype))

    def copy(self, order: Any = "C") -> TracedArray:
        """Another array of the same value: nobody can tell it from a copy."""
        made: TracedArray = _tracer_of(self, ()).copied(self, order)
        return made

    def astype(self, dtype: Any, order: Any = "K", *args: Any, **kwargs: Any) -> TracedArray:
        """The same values in another dtype."""
        made: TracedArray = _tracer_of(self, ()).cast(self, numpy.dtype(dtype), order)
        return made

    def __reduce__(self) -> Any:
        raise CannotCapture("pickling or copying a tensor deeply")


def _listed(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def _tracer_of(array: TracedArray, others: Any) -> Any:
    for one in (array, *others):
        if one.__class__ is TracedArray and one.storage is not None:
            tracer = one.storage.tracer
            if tracer.is_open and tracer.thread != get_ident():
                raise CannotCapture(
                    "a tensor of what another thread is capturing now, for which it has no values. "
                    "Let that be captured before other threads use the tensor, or give each "
                    "thread a copy"
                )
            if tracer.is_open:
                return tracer
            break
    raise CannotCapture(
        "a tensor left over from a call that is compiled now: it never had values. Return it from "
        "the compiled function instead of storing it somewhere"
    )


def _refusal(name: str) -> Any:
    def refuse(self: TracedArray, *args: Any, **kwargs: Any) -> Any:
        raise CannotCapture(f"{name} of a tensor, which needs its values")

    refuse.__name__ = name
    return refuse


# What looks at values behind the back of ufuncs and array functions.
_DATA = """
    __complex__ __contains__ __dlpack__ __float__ argmax argmin
    argpartition argsort byteswap choose compress dot dump dumps itemset nonzero partition
    put repeat resize searchsorted setfield sort take tobytes tofile tolist tostring trace
"""
for _name in _DATA.split():
    setattr(TracedArray, _name, _refusal(_name))


def standing_for(
    shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...], offset: int = 0
) -> TracedArray:
    """An array without data of this geometry, `offset` bytes into memory that nobody has."""
    if any(stride < 0 for stride in strides):
        raise CannotCapture("an array with negative strides")
    dtype = numpy.dtype(dtype.type) if dtype.metadata else dtype
    try:
        return TracedArray(shape, dtype, meta.reserved_memory(), offset, strides)
    except (TypeError, ValueError):
        raise CannotCapture("tensors larger than the address space") from None
