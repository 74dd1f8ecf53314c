"""Reading and writing what is outside: every read is a guard, every write is kept for later.

`Outside` holds what a capture knows of objects that it did not make: how each is reached, the
stand-in of each tensor, and what was written to them. Nothing is written to the objects themselves:
reads look first at what the capture wrote. So a capture that is given up has changed nothing.

An object is outside (it has a source), or made here (it is registered), or plain. What is none of
these came in by a way that nobody watches, and ends the capture.
"""

from __future__ import annotations

import array
import collections
import contextvars
import functools
import threading
import types
import weakref
from typing import Any

import numpy

from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.interpreter import library
from pullback.compiled.interpreter.library import is_plain
from pullback.compiled.interpreter.sources import DICTS, MISSING, SEQUENCES, SETS, Guards, Source
from pullback.compiled.interpreter.words import words
from pullback.core.tensor import Tensor

__all__ = ["Outside", "is_container", "is_named_tuple", "made_in_python"]

_TEXTS: tuple[type, ...] = (int, float, complex, str, bytes)
_BYTES = (bytearray, memoryview, array.array)
_MOST_BYTES = 1 << 20  # of a NumPy array that is compared at each call
_MOST_ITEMS = 50_000
READS = words("""
    index count copy get keys values items union intersection difference issubset issuperset
    isdisjoint symmetric_difference __contains__ __len__ __getitem__ __iter__ tobytes tolist hex
    decode startswith endswith most_common elements __eq__ __reversed__
""")
# Methods of containers that take what another container holds.
CONSUMING = words("""
    update extend __iadd__ __ior__ extendleft intersection_update difference_update subtract
    symmetric_difference_update
""")


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
        kind in SEQUENCES
        or kind in DICTS
        or kind in SETS
        or kind in _BYTES
        or is_named_tuple(value)
    )


class Outside:
    """What a capture knows of the objects that it did not make."""

    def __init__(self, stand: Any) -> None:
        """`stand` gives the stand-in of a tensor from outside, or refuses."""
        self.guards = Guards()
        self.stand = stand
        self.sources: dict[int, Source] = {}
        self.originals: dict[int, Any] = {}  # id of a stand-in: what it stands for
        self.stands: dict[int, Any] = {}  # id of a tensor or array from outside: its stand-in
        self.generators: dict[int, tuple[Any, Any]] = {}  # with the state that each was found in
        self.tensors: dict[int, Tensor] = {}  # those that are no arguments
        self.made: dict[int, Any] = {}
        self.native: dict[int, Any] = {}  # of these, objects that the library made
        self.kept: list[Any] = []  # objects whose ids are used above
        self.free: set[int] = set()  # containers among the arguments, whose items are guarded
        self.overlay: dict[Any, dict[Any, Any]] = {}  # id of a dict, cell or slot: what was written
        self.owners: dict[Any, tuple[str, Any]] = {}  # the same keys: what was written to
        self.shadows: dict[int, Any] = {}  # id of a container: a copy that has the writes
        self.before: dict[int, tuple[Any, Any]] = {}  # the container, its items when copied
        self.proxies: dict[type, Any] = {}  # class: the live view of its dictionary
        self.identities = False  # whether it matters which tensor is which
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
            self.sources[self.keep(value)] = self.root(value)
        return value

    def new(self, value: Any) -> Any:
        """An object that was made here."""
        self.made[id(value)] = value
        return value

    def admitted(self, value: Any) -> Any:
        """What native code gave, where each part is known or new; else the capture ends."""
        kind = type(value)
        if is_plain(value) or self.is_known(value) or isinstance(value, library.IDENTITY):
            return value
        if isinstance(value, Tensor):
            return value
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
            return self._read_plain(value, source)
        key = id(value)
        known = self.sources.get(key)
        if known is not None:
            if known.key != source.key:
                self._same(value, source, known)
            return self.stands.get(key, value)
        if isinstance(value, Tensor):
            return self._read_tensor(value, source)
        if isinstance(value, library.Generator):
            self.generators[self.keep(value)] = (value, value.get_state())
            self.guards.add("is", source, value)
        elif isinstance(value, numpy.ndarray):
            return self._read_array(value, source)
        else:
            self._read_object(value, source)
        self.sources[self.keep(value)] = source
        return value

    def _same(self, value: Any, source: Source, known: Source) -> None:
        if isinstance(value, library.IDENTITY) or known.kind == "root" or isinstance(value, Tensor):
            if known.kind == "leaf":
                self.guards.add("same", source, known)
            else:
                self.guards.add("is", source, value)
        elif id(value) not in self.free:
            self.guards.add("same", source, known)

    def _read_plain(self, value: Any, source: Source) -> Any:
        number = self.numbers.get(source.key)
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
        copy = value.copy(order="K")
        self.guards.add("array", source, copy)
        stand = self.stands[id(value)] = value.copy(order="K")
        stand.flags.writeable = False  # a write through it ends the capture
        self.sources[self.keep(value)] = source
        self.originals[self.keep(stand)] = value
        return stand

    def _read_object(self, value: Any, source: Source) -> None:
        kind = type(value)
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
        else:
            raise CannotCapture(
                f"{source}, an object of class {kind.__name__}, which cannot be watched for changes"
            )

    def cell(self, cell: Any) -> Any:
        """What a closure's variable is."""
        if id(cell) in self.made:
            return cell.cell_contents
        written = self.overlay.get(id(cell))
        if written is not None:
            return written["cell_contents"]
        return self.read(cell.cell_contents, self.root(cell).attr("cell_contents"))

    def set_cell(self, cell: Any, value: Any) -> None:
        """Write a closure's variable."""
        if id(cell) in self.made:
            cell.cell_contents = value
            return
        self._write(self.keep(cell), ("cell", cell), "cell_contents", value)

    def _write(self, key: Any, owner: tuple[str, Any], name: Any, value: Any) -> None:
        self.owners[key] = owner
        self.overlay.setdefault(key, {})[name] = value

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
            self.sources[self.keep(proxy)] = self.root(proxy)
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

    # Containers --------------------------------------------------------------------------------

    def current(self, value: Any) -> tuple[Any, Source | None]:
        """A container as the capture sees it, and its source, or None if its items are free."""
        if id(value) in self.shadows:
            return self.shadows[id(value)], None
        source = self.source(value)
        if source is not None and id(value) in self.overlay:
            return self.copied(value), None
        return value, source

    def copied(self, value: Any) -> Any:
        """A copy of a container from outside with everything in it read, and the writes so far."""
        if id(value) in self.shadows:
            return self.shadows[id(value)]
        source = self.source(value)
        assert source is not None
        if len(value) > _MOST_ITEMS:
            raise CannotCapture(f"{source} has more than {_MOST_ITEMS} items to be watched")
        copy = self._copy(value, source)
        self.shadows[self.keep(value)] = copy  # from now on read and written; views of it are live
        self.before[id(value)] = (value, _items(copy))
        for key, one in self.overlay.pop(id(value), {}).items():
            if one is MISSING:
                copy.pop(key, None)
            else:
                copy[key] = one
        return self.new(copy)

    def _copy(self, value: Any, source: Source) -> Any:
        kind = type(value)
        if kind in DICTS:
            return self._copied_dict(value, source)
        if kind in SETS:
            if not all(is_plain(one) or isinstance(one, library.IDENTITY) for one in value):
                raise CannotCapture(f"{source}, a set of objects from outside, is walked")
            self.guards.add("keys", source, tuple(value))
            return kind(value)
        if kind in _BYTES:
            self.guards.add("bytes", source, bytes(value))
            if kind is array.array:
                return array.array(value.typecode, value)
            return value.toreadonly() if kind is memoryview else kind(value)
        if id(value) not in self.free:
            self.guards.add("len", source, len(value))
        items = [self._item(value, source, n) for n in range(len(value))]
        if is_named_tuple(value):
            return tuple.__new__(kind, items)
        return collections.deque(items, value.maxlen) if kind is collections.deque else kind(items)

    def _copied_dict(self, value: Any, source: Source) -> Any:
        keys = tuple(value)
        for key in keys:
            if not (is_plain(key) or isinstance(key, (*library.IDENTITY, Tensor))):
                raise CannotCapture(f"{source}, a dictionary whose keys are objects, is walked")
        if id(value) not in self.free:
            self.guards.add("keys", source, keys)
        copy: Any = {}
        for key in keys:
            copy[self._key(key, source)] = self.dict_get(value, key)
        kind = type(value)
        if kind is collections.OrderedDict:
            return collections.OrderedDict(copy)
        if kind is collections.defaultdict:
            return collections.defaultdict(value.default_factory, copy)
        return collections.Counter(copy) if kind is collections.Counter else copy

    def _key(self, key: Any, source: Source) -> Any:
        if not isinstance(key, Tensor):
            return key
        if self.source(key) is None:
            self.known_tensor(key, self.stand(key), self.root(key))
            self.tensors[id(key)] = key
        return self.stands[id(key)]

    def _item(self, value: Any, source: Source, number: int) -> Any:
        found = value[number]
        if id(value) in self.free:
            return self.stands.get(id(found), found)
        return self.read(found, source.item(number))

    def method(self, value: Any, name: str, args: Any, kwargs: Any) -> Any:
        """A method of a container from outside."""
        kind = type(value)
        if name == "get" and kind in DICTS and not kwargs:
            self.hashable(args[0])
            found = self.dict_get(value, args[0])
            return (args[1] if len(args) > 1 else None) if found is MISSING else found
        if name == "__contains__":
            return self.contains(value, args[0])
        if name == "__getitem__":
            return self.item(value, args[0])
        if name in ("index", "count", "remove", "__eq__") and not all(map(self.comparable, args)):
            raise CannotCapture(f"{kind.__name__}.{name}, which compares objects")
        if (
            name in ("pop", "insert", "rotate")
            and kind not in DICTS
            and args
            and not is_plain(args[0])
        ):
            raise CannotCapture(f"{kind.__name__}.{name} at an object")
        copy = self.copied(value)
        if name in ("index", "count", "remove", "__eq__", "sort") and not self.comparable(
            tuple(copy)
        ):
            raise CannotCapture(f"{kind.__name__}.{name}, which compares objects")
        functions = any(isinstance(one, types.FunctionType | types.MethodType) for one in args)
        if (kwargs or functions) and name not in READS:
            raise CannotCapture(f"{kind.__name__}.{name} of an object from outside")
        given = [self.inside(one) if name in CONSUMING else one for one in args]
        if kind in DICTS and args:
            self.hashable(args[0]) if name in ("pop", "setdefault", "move_to_end") else None
        return self.admitted(getattr(copy, name)(*given, **kwargs))

    def inside(self, value: Any) -> Any:
        """A container with its present items, which native code may walk."""
        if is_container(value) and self.source(value) is not None:
            return self.copied(value)
        return value

    def item(self, value: Any, key: Any) -> Any:
        """`value[key]` of a container."""
        kind = type(value)
        if kind in DICTS:
            self.hashable(key)
            found = self.dict_get(value, key)
            if found is not MISSING:
                return found
            if hasattr(kind, "__missing__"):
                if self.source(value) is not None and id(value) not in self.shadows:
                    raise CannotCapture(f"a missing key of a {kind.__name__} from outside")
                return self.current(value)[0][key]
            raise KeyError(key)
        value, source = self.current(value)
        if source is None:
            return self.admitted(value[key])
        if kind in _BYTES or isinstance(key, slice):
            return self.admitted(self.copied(value)[key])
        if not isinstance(key, int):
            raise CannotCapture(f"a {kind.__name__} from outside with an index that is no number")
        if (key < 0 or key >= len(value)) and id(value) not in self.free:
            self.guards.add("len", source, len(value))
        value[key]  # raises as it would
        return self._item(value, source, int(key))

    def set_item(self, value: Any, key: Any, new: Any) -> None:
        """`value[key] = new` of a container from outside."""
        if not (is_plain(key) or isinstance(key, (*library.IDENTITY, Tensor, slice))):
            raise CannotCapture("an item of an object from outside is written under an object")
        if type(value) is dict and id(value) not in self.shadows:
            self._write(self.keep(value), ("dict", value), self.originals.get(id(key), key), new)
            return
        self._check_writable(value)
        self.copied(value)[key] = new

    def _check_writable(self, value: Any) -> None:
        """Refuse what a copy would allow, or would not."""
        if isinstance(value, types.MappingProxyType):
            raise TypeError("an item of a view of a dictionary cannot be written")
        if isinstance(value, memoryview):
            raise CannotCapture("memory behind a memoryview is written")

    def del_item(self, value: Any, key: Any) -> None:
        """`del value[key]` of a container from outside."""
        if type(value) is dict and id(value) not in self.shadows:
            if self.dict_get(value, key) is MISSING:
                raise KeyError(key)
            self._write(
                self.keep(value), ("dict", value), self.originals.get(id(key), key), MISSING
            )
            return
        self._check_writable(value)
        del self.copied(value)[key]

    def contains(self, value: Any, key: Any) -> bool:
        """`key in value` of a container."""
        kind = type(value)
        if kind in DICTS:
            self.hashable(key)
            return self.dict_present(value, self.originals.get(id(key), key))
        value, source = self.current(value)
        if source is not None and kind in SETS and is_plain(key):
            if id(value) not in self.free:
                self.guards.add("present" if key in value else "absent", source, key)
            return key in value
        inside = value if source is None else self.copied(value)
        if kind in SETS:
            self.hashable(key)
        elif not self.comparable(key) or not self.comparable(tuple(inside)):
            raise CannotCapture("whether an object is in a container, which compares objects")
        return key in inside

    def dict_present(self, value: Any, key: Any) -> bool:
        """Whether a dictionary has a key."""
        written = self.overlay.get(id(value), {})
        if key in written:
            return written[key] is not MISSING
        if id(value) in self.shadows:
            return self.stands.get(id(key), key) in self.shadows[id(value)]
        source = self.source(value)
        if source is None:
            return self.stands.get(id(key), key) in value or key in value
        if id(value) not in self.free:
            self.guards.add("present" if key in value else "absent", source, key)
        return key in value

    def length(self, value: Any) -> int:
        """The number of items of a container."""
        value, source = self.current(value)
        if source is not None and id(value) not in self.free:
            self.guards.add("len", source, len(value))
        return len(value)

    # Comparing --------------------------------------------------------------------------------

    def comparable(self, value: Any) -> bool:
        """Whether native code that compares this, or writes its text, meets plain values only."""
        if is_container(value) and self.source(value) is not None:
            copy = self.copied(value)
            then = self.before[id(value)][1]
            if len(copy) != len(value) or not all(map(_is_same, _items(copy), then)):
                return False  # native code would see what it was before
        if type(value) in (list, tuple, set, frozenset) or is_named_tuple(value):
            return all(map(self.comparable, value))
        if type(value) is dict:
            return all(map(self.comparable, value.values())) and all(map(self.comparable, value))
        return is_plain(value) or isinstance(value, library.IDENTITY)

    def hashable(self, key: Any) -> None:
        """Refuse a key whose hash or equality runs Python code of the user's."""
        if type(key) is tuple:
            for one in key:
                self.hashable(one)
            return
        kind = type(key)
        plain = is_plain(key) or isinstance(key, (*library.IDENTITY, Tensor, frozenset))
        usual = kind.__hash__ is _HASH and kind.__eq__ is _EQUAL
        if not (plain or usual):
            raise CannotCapture(f"an object of class {kind.__name__} as a key")
        source = self.source(key)
        if not is_plain(key) and source is not None and not isinstance(key, library.IDENTITY):
            self.guards.add("is", source, self.originals.get(id(key), key))

    # Writes -----------------------------------------------------------------------------------

    def changes(self) -> list[tuple[str, Any, Any, Any]]:
        """What is otherwise than it was outside: (kind, owner, name, new value)."""
        found: list[tuple[str, Any, Any, Any]] = []
        for key, written in self.overlay.items():
            kind, owner = self.owners[key]
            for name, value in written.items():
                now = self.originals.get(id(value), value)
                if not _is_same(_present(kind, owner, name), now):
                    found.append((kind, owner, name, value))
                else:
                    self._unchanged(kind, owner, name, now)
        for key, (owner, items) in self.before.items():
            now = _items(self.shadows[key])
            if len(now) != len(items) or not all(map(_is_same, now, items)):
                found.append(("items", owner, None, self.shadows[key]))
        return found

    def _unchanged(self, kind: str, owner: Any, name: Any, now: Any) -> None:
        """A write of what is there already: it is nothing only as long as that is there."""
        if kind == "cell":
            source = self.root(owner).attr("cell_contents")
        elif kind == "attr":
            source = self.sources[id(owner)].attr(name)
        else:
            source = self.sources[id(owner)].value(name)
        if now is not MISSING:
            self.guards.add("value" if is_plain(now) else "is", source, now)


_HASH: Any = object.__hash__
_EQUAL: Any = object.__eq__
_WATCHED = (weakref.ref, contextvars.ContextVar, functools._lru_cache_wrapper, threading.local)


def _items(container: Any) -> list[Any]:
    if isinstance(container, dict):
        return [one for pair in container.items() for one in pair]
    if isinstance(container, set):
        return sorted(container, key=id)
    return list(container)


def _present(kind: str, owner: Any, name: Any) -> Any:
    if kind in ("dict", "class"):
        return owner.get(name, MISSING)
    if kind == "cell":
        try:
            return owner.cell_contents
        except ValueError:
            return MISSING
    return getattr(owner, name, MISSING)


def _is_same(one: Any, other: Any) -> bool:
    from pullback.compiled.interpreter.sources import same_value

    return one is other or (is_plain(one) and is_plain(other) and same_value(one, other))
