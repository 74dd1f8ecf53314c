"""CuPy under NumPy's names, for kernels that were written for NumPy.

What differs: NumPy arrays of no dimensions and plans made on the host may meet device arrays here
(they become numbers, or are brought over), functions on Python's numbers stay on the host, and what
CuPy lacks is in `lacking`. There are two objects of it: `xp`, which kernels are given, and `space`,
which stands where a kernel names `numpy` itself; so `xp is numpy` is as false in a copy as in the
original.
"""

from __future__ import annotations

import weakref
from contextlib import nullcontext
from typing import Any

import numpy

__all__ = ["Space", "Ufunc"]

# Make arrays, whatever they are given.
_CREATING = (
    "empty zeros ones full arange eye identity linspace logspace tri asarray array asanyarray "
    "ascontiguousarray asfortranarray indices meshgrid frombuffer empty_like zeros_like ones_like "
    "full_like tril_indices triu_indices"
)
CREATING = frozenset(_CREATING.split())
# Questions about dtypes and shapes, answered by NumPy; a device array stands for its dtype.
_ABOUT = (
    "promote_types result_type can_cast finfo iinfo dtype broadcast_shapes issubdtype isscalar "
    "ndindex shape ndim size"
)
ABOUT = frozenset(_ABOUT.split())


class Space:
    """The functions of an array library on a device, under NumPy's names."""

    def __init__(self, cupy: Any, cupyx: Any, lacking: dict[str, Any]) -> None:
        self.cupy, self.cupyx = cupy, cupyx
        self.ndarray = cupy.ndarray
        self._lacking = lacking
        self._constants: dict[int, Any] = {}
        self.copies: dict[int, tuple[Any, Any]] = {}  # what `kernel_overrides` made, by what it was
        self.masks: dict[tuple[int, int], Any] = {}  # of causal attention
        self.xp: Any = self

    def second(self) -> Space:
        """Another object with the same functions, for `numpy` in kernels; its `xp` is this one."""
        made = Space(self.cupy, self.cupyx, self._lacking)
        made._constants = self._constants
        made.xp = self
        return made

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = self._find(name)
        setattr(self, name, found)
        return found

    def _find(self, name: str) -> Any:
        if name in self._lacking:
            own = self._lacking[name]
            return own(self) if getattr(own, "of_space", False) else own
        theirs = getattr(numpy, name)  # AttributeError for what NumPy has not either
        if isinstance(theirs, numpy.ufunc):
            return Ufunc(self, theirs)
        if name in ABOUT:
            return _asking(theirs, self.ndarray)
        if isinstance(theirs, type) or not callable(theirs):
            return theirs if type(theirs).__name__ != "module" else Part(self, name, theirs)
        own = getattr(self.cupy, name, None)
        if own is None:
            return theirs  # takes no arrays, or says so
        return self._creating(own) if name in CREATING else self._choosing(own, theirs)

    def _creating(self, own: Any) -> Any:
        def create(*args: Any, **kwargs: Any) -> Any:
            return own(*args, **kwargs)

        return create

    def _choosing(self, own: Any, theirs: Any) -> Any:
        """CuPy's function where a device array is among the arguments, else NumPy's."""
        ndarray, brought = self.ndarray, self.brought

        def choose(*args: Any, **kwargs: Any) -> Any:
            if not _any(args, ndarray) and not _any(tuple(kwargs.values()), ndarray):
                return theirs(*args, **kwargs)
            for one in args:
                if isinstance(one, numpy.ndarray) or type(one) in (tuple, list):
                    args = tuple([brought(one) for one in args])
                    break
            for one in kwargs.values():
                if isinstance(one, numpy.ndarray):
                    kwargs = {name: brought(one) for name, one in kwargs.items()}
                    break
            return own(*args, **kwargs)

        return choose

    def brought(self, value: Any) -> Any:
        """An operand as CuPy takes it: of no dimensions a number, else on the device."""
        if isinstance(value, numpy.ndarray):
            return self.constant(value)
        if type(value) in (tuple, list):
            return type(value)([self.brought(one) for one in value])
        return value

    def constant(self, array: Any) -> Any:
        """A host array on the device, remembered as long as the host array lives."""
        if array.ndim == 0:
            return array[()]
        known = self._constants.get(id(array))
        if known is not None and known[0]() is array:
            return known[1]
        made = self.cupy.asarray(array)
        if not array.flags.writeable or array.base is None:
            key, table = id(array), self._constants
            table[key] = (weakref.ref(array, lambda _: table.pop(key, None)), made)
        return made

    def errstate(self, **kwargs: Any) -> Any:
        """A device reports no floating-point errors."""
        return nullcontext()


def _any(values: tuple[Any, ...], kind: type) -> bool:
    for one in values:
        if isinstance(one, kind):
            return True
        if type(one) in (tuple, list) and any(isinstance(part, kind) for part in one):
            return True
    return False


def _asking(theirs: Any, ndarray: Any) -> Any:
    def ask(*args: Any, **kwargs: Any) -> Any:
        if theirs in (numpy.shape, numpy.ndim, numpy.size):
            attribute = theirs.__name__
            return getattr(args[0], attribute) if isinstance(args[0], ndarray) else theirs(*args)
        return theirs(*[one.dtype if isinstance(one, ndarray) else one for one in args], **kwargs)

    return theirs if isinstance(theirs, type) else ask


class Part:
    """A part of the library: `linalg`, `fft`, `lib`."""

    def __init__(self, space: Space, name: str, theirs: Any) -> None:
        self._space, self._name, self._theirs = space, name, theirs

    def __getattr__(self, name: str) -> Any:
        full = f"{self._name}.{name}"
        space = self._space
        theirs = getattr(self._theirs, name)
        if full in space._lacking:
            own = space._lacking[full]
            found: Any = own(space) if getattr(own, "of_space", False) else own
        elif isinstance(theirs, type) or not callable(theirs):
            module = type(theirs).__name__ == "module"
            found = Part(space, full, theirs) if module else theirs
        else:
            own = space.cupy
            for part in full.split("."):
                own = getattr(own, part)
            found = space._choosing(own, theirs)
        setattr(self, name, found)
        return found


class Ufunc:
    """A ufunc that chooses by its operands, with all the methods that NumPy's has."""

    def __init__(self, space: Space, theirs: Any) -> None:
        self._space, self._theirs = space, theirs
        self.__name__ = theirs.__name__
        self.nin, self.nout, self.types = theirs.nin, theirs.nout, theirs.types
        name = theirs.__name__
        self.own: Any = space._lacking.get(f"ufunc {name}") or getattr(space.cupy, name, None)
        if self.own is None:
            self.own = getattr(space.cupy, _OTHER_NAMES.get(name, name), None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """CuPy's where a device array is among the operands, else NumPy's."""
        ndarray = self._space.ndarray
        found = False
        for one in args:
            if type(one) is ndarray:
                found = True
            elif isinstance(one, numpy.ndarray):
                args = tuple([self._space.brought(one) for one in args])
        if not found and not _any(args, ndarray) and not isinstance(kwargs.get("out"), ndarray):
            return self._theirs(*args, **kwargs)
        if kwargs:
            kwargs.pop("casting", None)
            if isinstance(kwargs.get("out"), tuple):
                kwargs["out"] = kwargs["out"][0]
            where = kwargs.pop("where", True)
            if where is not True:
                return self._where(where, *args, **kwargs)
        return self.own(*args, **kwargs)

    def _where(self, where: Any, *args: Any, out: Any = None) -> Any:
        """The call at some places; CuPy has no `where=`."""
        if out is None and len(args) > self.nin:
            args, out = args[: self.nin], args[self.nin]
        result = self.own(*args)
        if out is None:
            return result
        out[...] = self._space.cupy.where(where, result.astype(out.dtype, copy=False), out)
        return out

    def _method(self, method: str, *args: Any, **kwargs: Any) -> Any:
        if not _any(args, self._space.ndarray):
            return getattr(self._theirs, method)(*args, **kwargs)
        args = tuple(self._space.brought(one) for one in args)
        own = self._space._lacking.get(f"{method} {self.__name__}")
        if own is None:
            own = self._space._lacking[f"every {method}"]
            return own(self._space, self, *args, **kwargs)
        return own(self._space, *args, **kwargs)

    def reduce(self, *args: Any, **kwargs: Any) -> Any:
        """Combine along dimensions."""
        return self._method("reduce", *args, **kwargs)

    def accumulate(self, *args: Any, **kwargs: Any) -> Any:
        """Combine along a dimension, keeping each step."""
        return self._method("accumulate", *args, **kwargs)

    def at(self, *args: Any, **kwargs: Any) -> None:
        """Combine into places, each as often as it is named."""
        self._method("at", *args, **kwargs)

    def reduceat(self, *args: Any, **kwargs: Any) -> Any:
        """Combine stretches."""
        return self._method("reduceat", *args, **kwargs)

    def outer(self, *args: Any, **kwargs: Any) -> Any:
        """Combine each with each."""
        return self._method("outer", *args, **kwargs)


_OTHER_NAMES = {"absolute": "absolute", "conjugate": "conj"}
