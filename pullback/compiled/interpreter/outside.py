"""Reading what is outside: every read is a guard.

`Outside` holds what a capture knows of objects that it did not make: how each is reached, the
stand-in of each tensor, and what was written to them (writes.py). Nothing is written to the objects
themselves: reads look first at what the capture wrote. So a capture that is given up has changed
nothing.

An object is outside (it has a source), or made here (it is registered), or plain. What is none of
these came in by a way that nobody watches, and ends the capture.
"""

from __future__ import annotations

import array
import contextvars
import functools
import threading
import types
import weakref
from typing import Any

import numpy

from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.interpreter import library
from pullback.compiled.interpreter.frames import NULL
from pullback.compiled.interpreter.late import Late
from pullback.compiled.interpreter.library import is_plain
from pullback.compiled.interpreter.sources import DICTS, MISSING, SEQUENCES, SETS, Guards, Source
from pullback.core.tensor import Tensor

__all__ = ["BYTES", "Outside", "is_container", "is_named_tuple", "made_in_python"]

_TEXTS: tuple[type, ...] = (int, float, complex, str, bytes)
BYTES = (bytearray, memoryview, array.array)
_MOST_BYTES = 1 << 20  # of a NumPy array that is compared at each call
_WATCHED = (weakref.ref, contextvars.ContextVar, functools._lru_cache_wrapper, threading.local)


def made_in_python(kind: type) -> bool:
    """Whether a class was made by a class statement: its dictionary can change."""
    return bool(kind.__flags__ & (1 << 9))


def is_named_tuple(value: Any) -> bool:
    """Whether it is a tuple with names of its own for its items."""
    kind = type(value)
    return isinstance(value, tuple) and hasattr(kind, "_fields") and kind.__mro__[1] is tuple


def is_container(value: Any) -> bool:
    """Whether its items are read as items."""
    kind = type(value)
    return (
        kind in SEQUENCES or kind in DICTS or kind in SETS or kind in BYTES or is_named_tuple(value)
    )


class Outside:
    """What a capture knows of the objects that it did not make."""

    tracer: Any = None  # what writes operators down; None where values are real

    def __init__(self, stand: Any) -> None:
        """`stand` gives the stand-in of a tensor from outside, or refuses."""
        self.guards = Guards()
        self.later: Any = None  # the backward pass, while it runs (capture/later.py)
        self.stand = stand
        self.sources: dict[int, Source] = {}
        self.originals: dict[int, Any] = {}  # id of a stand-in: what it stands for
        self.stands: dict[int, Any] = {}  # id of a tensor or array from outside: its stand-in
        self.tensors: dict[int, Tensor] = {}  # those that are no arguments
        self.made: dict[int, Any] = {}
        self.native: dict[int, Any] = {}  # of these, objects that the library made
        self.kept: list[Any] = []  # objects whose ids are used above
        self.free: set[int] = set()  # containers among the arguments, whose items are guarded
        self.twins: list[tuple[Source, Source]] = []  # places of the arguments with one of them
        self.overlay: dict[Any, dict[Any, Any]] = {}  # id of a dict, cell or slot: what was written
        self.shadows: dict[int, Any] = {}  # id of a container: a copy that has the writes
        self.proxies: dict[type, Any] = {}  # class: the live view of its dictionary
        self.graded: set[int] = set()  # ids of tensors whose `.grad` the function sets
        self.identities = False  # whether it matters which tensor is which
        self.has_arrays = False  # whether NumPy arrays from outside were read
        # Places that the function itself writes anew at each call (by key of the source): a tensor
        # there is fetched by each call, a number is an input (late.py).
        self.fluid: frozenset[Any] = frozenset()
        self.found: dict[int, Source] = {}  # id of a tensor that is fetched: where
        self.late = Late()
        # What stands at sources, by key, where numbers vary: see sizes/generalise.py.
        self.numbers: dict[Any, Any] = {}

    def keep(self, value: Any) -> int:
        """The id of an object that lives as long as the capture."""
        self.kept.append(value)
        return id(value)

    def source(self, value: Any) -> Source | None:
        """How an object from outside is reached; None of what was made here."""
        return self.sources.get(id(self.originals.get(id(value), value)))

    def root(self, value: Any) -> Source:
        """A source that holds its object."""
        self.keep(value)
        return Source("root", None, value)

    def constant(self, value: Any) -> Any:
        """An object that the guards hold: a function's globals, a class, a cell."""
        if self.source(value) is None:
            source = self.sources[self.keep(value)] = self.root(value)
            kind = type(value)
            if made_in_python(kind) and not isinstance(value, type):
                self.guards.add("type", source, kind)  # which can be exchanged
        return value

    def again(self, value: Any) -> Any:
        """An object from outside that a part before this one held: read here anew."""
        if is_plain(value) or value is NULL:
            return value
        return self.read(value, self.root(value))

    def new(self, value: Any) -> Any:
        """An object that was made here."""
        self.made[id(value)] = value
        return value

    def admitted(self, value: Any) -> Any:
        """What native code gave, where each part is known or new; else the capture ends."""
        kind = type(value)
        if is_plain(value) or self.is_known(value) or isinstance(value, Tensor):
            return value
        if isinstance(value, types.FunctionType) and value.__closure__:
            return self.new(value)  # a transform of a function
        if isinstance(value, library.IDENTITY):
            return value
        if made_in_python(kind) and not library.is_own(kind) and not isinstance(value, tuple):
            raise CannotCapture(f"native code gives an object of class {kind.__name__}, which may "
                                "be known elsewhere")  # fmt: skip
        self.new(value)
        if library.is_own(kind) and not isinstance(value, list | tuple | dict | set):
            self.native[id(value)] = value
        if kind in (list, tuple, set, frozenset) or isinstance(value, list | tuple):
            for one in value:
                self.admitted(one)
        elif isinstance(value, dict):
            for key, one in value.items():
                self.admitted(key)
                self.admitted(one)
        return value

    def is_known(self, value: Any) -> bool:
        """Whether it is outside or made here."""
        return id(value) in self.made or self.source(value) is not None

    # Reading ----------------------------------------------------------------------------------

    def read(self, value: Any, source: Source) -> Any:
        """A value found outside: guarded by what it is, and what the interpreter goes on with."""
        if is_plain(value):
            if source.key in self.fluid and type(value) in (int, float):
                if self.later is not None:
                    self.later.check_read(value, source)
                return self.late.number(value, source)
            return self._read_plain(value, source)
        key = id(value)
        known = self.sources.get(key)
        if self.later is not None:
            self.later.check_read(value, source)
        if known is not None:
            if self.later is not None:
                self._read_later(value, source)
            if known.key != source.key:
                self._same(value, source, known)
            return self.stands.get(key, value)
        if isinstance(value, Tensor):
            return self._read_tensor(value, source)
        if isinstance(value, library.Generator):
            if self.tracer is not None:
                self.tracer.generators[self.keep(value)] = value
            self.guards.add("is", source, value)
        elif isinstance(value, numpy.ndarray):
            return self._read_array(value, source)
        else:
            self._read_object(value, source)
        self.sources[self.keep(value)] = source
        return value

    def _read_later(self, value: Any, source: Source) -> None:
        """The same in the backward pass, of what is known: asked again when a pass arrives."""
        if isinstance(value, numpy.ndarray):
            self.guards.add("array", source, self.stands[id(value)].copy(order="K"))
        elif isinstance(value, (Tensor, library.Generator)):
            self.guards.add("is", source, value)
        else:
            self._read_object(value, source)

    def _same(self, value: Any, source: Source, known: Source) -> None:
        if isinstance(value, library.IDENTITY) or known.kind == "root" or isinstance(value, Tensor):
            if known.kind == "leaf" or id(value) in self.found:
                self.guards.add("same", source, known)
            else:
                self.guards.add("is", source, value)
        elif id(value) not in self.free:
            self.guards.add("same", source, known)

    def _read_plain(self, value: Any, source: Source) -> Any:
        number = self.numbers.get(source.key)
        if number is not None and self.later is not None:
            raise CannotCapture(f"code that runs in the backward pass reads {source}, which varies")
        if number is not None:  # one that varies: a program for all of them is captured
            self.guards.add("number", source, value)
            return number
        singles = value is None or isinstance(value, bool) or value is Ellipsis
        if singles or value is NotImplemented:
            self.guards.add("is", source, value)
        else:
            self.guards.add("value", source, value)
        return value

    def _read_tensor(self, value: Tensor, source: Source) -> Any:
        """A tensor from outside: the guards hold it, facts are the entry's to compare."""
        stand = self.stand(value)
        if source.key in self.fluid:
            self.known_tensor(value, stand, source)
            self.found[id(value)] = source
            return stand
        self.guards.add("is", source, value)
        self.known_tensor(value, stand, self.root(value))
        self.tensors[id(value)] = value
        return stand

    def known_tensor(self, value: Tensor, stand: Tensor, source: Source) -> None:
        """Register a tensor from outside with its stand-in."""
        self.sources[self.keep(value)] = source
        self.stands[id(value)] = stand
        self.originals[self.keep(stand)] = value

    def _read_array(self, value: Any, source: Source) -> Any:
        """A NumPy array from outside: its elements are guarded, and a copy is handed out."""
        if value.nbytes > _MOST_BYTES:
            raise CannotCapture(
                f"a NumPy array of {value.nbytes} bytes, too large to be watched for changes; make "
                "it a tensor outside of the function (torch.from_numpy shares its memory)"
            )
        if value.dtype.hasobject or type(value) is not numpy.ndarray:
            raise CannotCapture("a NumPy array of Python objects, or of a class of its own")
        self.has_arrays = True
        copy = value.copy(order="K")
        self.guards.add("array", source, copy)
        stand = self.stands[id(value)] = value.copy(order="K")
        stand.flags.writeable = False  # a write through it ends the capture
        self.sources[self.keep(value)] = source
        self.originals[self.keep(stand)] = value
        return stand

    def _read_object(self, value: Any, source: Source) -> None:
        kind = type(value)
        meta: Any = kind if isinstance(value, type) else type(kind)
        if meta.__eq__ is not type.__eq__:  # nobody here may take it for another class
            raise CannotCapture(f"a class whose metaclass {meta.__name__} compares it")
        if isinstance(value, library.IDENTITY) or kind is object:
            self.guards.add("is", source, value)
        elif is_container(value) or kind in (types.MethodType, functools.partial):
            self.guards.add("type", source, kind)
        elif isinstance(value, _WATCHED):
            self.guards.add("is", source, value)
        elif made_in_python(kind) or kind is types.SimpleNamespace:
            self.guards.add("type", source, kind)
            for base in _TEXTS:
                if isinstance(value, base):  # a number or text, whose value C reads
                    written: Any = base.__repr__
                    self.guards.add("text", source, (written, written(value)))
                    break
        elif library.is_own(kind):
            self.guards.add("is", source, value)
        elif kind.__name__.startswith(("dict_", "odict_")):
            raise CannotCapture(f"{source}, a view of a dictionary, which may change behind it")
        else:  # of C, which cannot be watched: nothing but its class is looked at
            self.guards.add("type", source, kind)

    def cell(self, cell: Any) -> Any:
        """What a closure's variable is."""
        if id(cell) in self.made:
            return cell.cell_contents
        written = self.overlay.get(id(cell))
        if written is not None:
            return written["cell_contents"]
        return self.read(cell.cell_contents, self.root(cell).attr("cell_contents"))

    # Dictionaries ----------------------------------------------------------------------------

    def dict_get(self, table: Any, key: Any) -> Any:
        """An item of a dictionary, or MISSING where it is not there; both are guards."""
        key = self.originals.get(id(key), key)
        written = self.overlay.get(id(table))
        if written is not None and key in written:
            return written[key]
        if id(table) in self.shadows:
            return self.shadows[id(table)].get(key, MISSING)
        source = self.source(table)
        if source is None:
            return dict.get(table, key, MISSING)
        free = id(table) in self.free
        found = (
            table.get(key, MISSING)
            if isinstance(table, types.MappingProxyType)
            else dict.get(table, key, MISSING)
        )
        if found is not MISSING:
            return (
                self.stands.get(id(found), found) if free else self.read(found, source.value(key))
            )
        if not free:
            self.guards.add("absent", source, key)
        return MISSING

    def class_dict(self, one: type) -> Any:
        """The dictionary of a class."""
        proxy = self.proxies.get(one)
        if proxy is None:
            proxy = self.proxies[one] = one.__dict__
            source = self.sources[self.keep(proxy)] = self.root(proxy)
            source.key = ("root", "class", id(one))  # each look at it makes another view
            if made_in_python(one):
                self.guards.add("is", self.root(one).attr("__mro__"), one.__mro__)
        return proxy

    def class_lookup(self, one: type, name: str) -> tuple[Any, Any]:
        """What the classes of the order of resolution have under a name; each asked is a guard."""
        return self.lookup(one.__mro__, name)

    def lookup(self, order: tuple[type, ...], name: str) -> tuple[Any, Any]:
        """The same of these classes, in this order."""
        for base in order:
            if not made_in_python(base):  # written in C: it does not change
                if name in base.__dict__:
                    return base.__dict__[name], base
                continue
            table = self.class_dict(base)
            written = self.overlay.get(id(table), {})
            if name in written:
                if written[name] is not MISSING:
                    return written[name], base
                continue
            source = self.sources[id(table)]
            if name not in table:
                if not library.is_fixed_class(base):
                    self.guards.add("absent", source, name)
                continue
            found = table[name]
            if self.class_lookup(type(found), "__get__")[0] is MISSING:
                return self.read(found, source.value(name)), base
            self.guards.add("is", source.value(name), found)
            if self.source(found) is None and not isinstance(found, library.IDENTITY):
                self.sources[self.keep(found)] = source.value(name)
            return found, base
        return MISSING, None

    def instance_dict(self, value: Any) -> Any:
        """The `__dict__` of an object, known where the object is outside; None if there is none."""
        if isinstance(value, type):
            return None
        value = self.originals.get(id(value), value)
        try:
            table = object.__getattribute__(value, "__dict__")
        except AttributeError:
            return None
        source = self.source(value)
        if source is not None and id(table) not in self.sources:
            self.sources[self.keep(table)] = source.attr("__dict__")
        elif source is None:
            self.new(table)
        return table
