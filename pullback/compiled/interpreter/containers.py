"""Containers from outside: items are read one by one, and written to a copy (writes.py)."""

from __future__ import annotations

import array
import collections
import operator
import types
from typing import Any

from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.interpreter import library
from pullback.compiled.interpreter.library import is_plain
from pullback.compiled.interpreter.natively import natively
from pullback.compiled.interpreter.outside import BYTES, is_container, is_named_tuple
from pullback.compiled.interpreter.sources import DICTS, MISSING, SEQUENCES, SETS, Source
from pullback.compiled.interpreter.words import words
from pullback.compiled.interpreter.writes import Writes, is_same, items_of
from pullback.core.tensor import Tensor

__all__ = ["Containers"]

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
# Methods that give nothing and are right whatever the container holds: nothing is read for them.
_BLIND: dict[type, frozenset[str]] = {
    list: words("append extend __iadd__ insert clear reverse"),
    collections.deque: words("append appendleft extend extendleft __iadd__ rotate clear"),
    set: words("add discard update __ior__ clear"),
    bytearray: words("append extend __iadd__ clear"),
}
_HASH: Any = object.__hash__
_EQUAL: Any = object.__eq__


class Containers(Writes):
    """Items of containers."""

    call: Any  # of calls.py
    set_at: Any  # of operators.py
    builtin_iter: Any  # of functions.py

    def current(self, value: Any) -> tuple[Any, Source | None]:
        """A container as the capture sees it, and its source, or None if its items are free."""
        if id(value) in self.shadows:
            return self.shadows[id(value)], None
        source = self.source(value)
        if source is not None and (id(value) in self.overlay or id(value) in self.pending):
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
        written = self.overlay.pop(id(value), {})  # `before` is what is there without it
        copy = self._copy(value, source)
        self.shadows[self.keep(value)] = copy  # from now on read and written; views of it are live
        self.before[id(value)] = (value, items_of(copy))
        if not isinstance(copy, tuple | frozenset | memoryview):
            self.replicas[id(value)] = (copy.copy() if hasattr(copy, "copy") else copy[:], value)
        for key, one in written.items():
            if one is MISSING or (id(value), key) in self.reinserted:
                copy.pop(self.stands.get(id(key), key), None)
            if one is not MISSING:
                copy[self.stands.get(id(key), key)] = one
        for write in self.pending.pop(id(value), ()):
            getattr(copy, write.name)(*write.values)
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
        if kind in BYTES:
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
        is_blind = name in _BLIND.get(kind, ()) and id(value) not in self.shadows and not kwargs
        if is_blind and len(value) <= _MOST_ITEMS:
            given = [self._consumed(one) if name in CONSUMING else one for one in args]
            if kind is set:
                for one in given[0] if name in CONSUMING else given:
                    self.hashable(one)
            self.logged(value, name, given)
            self.pending.setdefault(self.keep(value), []).append(self.log[-1])
            return value if name in ("__iadd__", "__ior__") else None
        copy = self.copied(value)
        if name in ("index", "count", "remove", "__eq__", "sort") and not self.comparable(
            tuple(copy)
        ):
            raise CannotCapture(f"{kind.__name__}.{name}, which compares objects")
        functions = any(isinstance(one, types.FunctionType | types.MethodType) for one in args)
        if (kwargs or functions) and name not in READS:
            raise CannotCapture(f"{kind.__name__}.{name} of an object from outside")
        given = [self._consumed(one) if name in CONSUMING else one for one in args]
        if kind in DICTS and args:
            self.hashable(args[0]) if name in ("pop", "setdefault", "move_to_end") else None
        if name not in READS:
            self._check_writable(value)
            if kwargs:
                raise CannotCapture(f"{kind.__name__}.{name} of an object from outside")
        made = self.admitted(natively(getattr(copy, name), *given, **kwargs))
        if name not in READS:
            self.logged(value, name, given)
        return value if made is copy else made

    def _consumed(self, value: Any) -> Any:
        """What a method takes the items of: they are items then, whatever becomes of it."""
        value = self.inside(value)
        if isinstance(value, dict | types.MappingProxyType):
            return self.new(dict(value))
        if isinstance(value, set | frozenset):
            return self.new(set(value))
        return self.new(list(self.builtin_iter(value)))

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
            return self._missing_item(value, key)
        value, source = self.current(value)
        if source is None:
            return self.admitted(natively(operator.getitem, value, key))
        if kind in BYTES or isinstance(key, slice):
            return self.admitted(natively(operator.getitem, self.copied(value), key))
        if not isinstance(key, int):
            raise CannotCapture(f"a {kind.__name__} from outside with an index that is no number")
        if (key < 0 or key >= len(value)) and id(value) not in self.free:
            self.guards.add("len", source, len(value))
        natively(operator.getitem, value, key)  # raises as it would
        return self._item(value, source, int(key))

    def _missing_item(self, value: Any, key: Any) -> Any:
        if type(value) is collections.Counter:
            return 0
        if type(value) is not collections.defaultdict:
            raise KeyError(key)
        if self.source(value) is None:
            factory = value.default_factory
        else:
            factory = self.read(value.default_factory, self.source(value).attr("default_factory"))  # type: ignore[union-attr]
        if factory is None:
            raise KeyError(key)
        made = self.call(factory)
        self.set_at(value, key, made)
        return made

    def set_item(self, value: Any, key: Any, new: Any) -> None:
        """`value[key] = new` of a container from outside."""
        if not (is_plain(key) or isinstance(key, (*library.IDENTITY, Tensor, slice))):
            raise CannotCapture("an item of an object from outside is written under an object")
        if isinstance(key, slice):
            new = self._consumed(new)
        self._check_writable(value)
        if type(value) in DICTS and id(value) not in self.shadows:
            self.write(self.keep(value), ("dict", value), self.originals.get(id(key), key), new)
            return
        copy = self.copied(value)
        natively(operator.setitem, copy, key, new)
        self.logged(value, "__setitem__", (self.originals.get(id(key), key), new))

    def _check_writable(self, value: Any) -> None:
        """Refuse what a copy would allow, or would not."""
        if isinstance(value, types.MappingProxyType):
            raise TypeError("an item of a view of a dictionary cannot be written")
        if isinstance(value, memoryview):
            raise CannotCapture("memory behind a memoryview is written")

    def del_item(self, value: Any, key: Any) -> None:
        """`del value[key]` of a container from outside."""
        self._check_writable(value)
        if type(value) in DICTS and id(value) not in self.shadows:
            if self.dict_get(value, key) is MISSING:
                if type(value) is collections.Counter:
                    return
                raise KeyError(key)
            self.write(self.keep(value), ("dict", value), self.originals.get(id(key), key), MISSING)
            return
        natively(operator.delitem, self.copied(value), key)
        self.logged(value, "__delitem__", (self.originals.get(id(key), key),))

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
        return key in (self.late.pinned(list(inside)) if kind in SEQUENCES else inside)

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
            if len(copy) != len(value) or not all(map(is_same, items_of(copy), then)):
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
