"""Functions and methods written in C: those that run are known as pure."""

from __future__ import annotations

import collections
import contextvars
import functools
import itertools
import types
import weakref
from typing import Any

import numpy

from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.capture.traced import TracedArray
from pullback.compiled.interpreter import library, polyfills
from pullback.compiled.interpreter.containers import READS
from pullback.compiled.interpreter.frames import Walk
from pullback.compiled.interpreter.functions import Functions
from pullback.compiled.interpreter.library import is_plain
from pullback.compiled.interpreter.natively import natively
from pullback.compiled.interpreter.outside import is_container, is_named_tuple, made_in_python
from pullback.compiled.interpreter.sources import MISSING
from pullback.compiled.interpreter.words import words
from pullback.core.mode import current, get_mode
from pullback.core.size import Size
from pullback.core.tensor import Tensor

__all__ = ["COLLECTIONS", "POLYFILLS", "Natives"]


POLYFILLS: dict[Any, Any] = {
    sum: polyfills.sum_, any: polyfills.any_, all: polyfills.all_,
    enumerate: polyfills.enumerate_, zip: polyfills.zip_, map: polyfills.map_,
    filter: polyfills.filter_, functools.reduce: polyfills.reduce_,
    itertools.chain: polyfills.chain_, itertools.product: polyfills.product_,
    itertools.islice: polyfills.islice_, itertools.pairwise: polyfills.pairwise_,
    itertools.accumulate: polyfills.accumulate_, itertools.starmap: polyfills.starmap_,
    itertools.zip_longest: polyfills.zip_longest_, itertools.takewhile: polyfills.takewhile_,
    itertools.repeat: polyfills.repeat_, itertools.count: polyfills.count_,
    itertools.combinations: polyfills.combinations_,
    itertools.permutations: polyfills.permutations_,
}  # fmt: skip
_TEXT = frozenset({"__repr__", "__str__", "__format__", "join", "format", "__mod__"})
_COMPARING = frozenset(
    {"index", "count", "remove", "sort", "__eq__", "__ne__", "__lt__", "__contains__"}
)
_INDEXING = frozenset(
    {"pop", "insert", "rotate", "__getitem__", "__setitem__", "__delitem__", "__mul__"}
)
_KEEPING = words("append appendleft insert get setdefault pop __setitem__")
_HASHING = frozenset({"get", "pop", "add", "discard", "remove", "setdefault", "__contains__"})
COLLECTIONS = (
    collections.OrderedDict,
    collections.defaultdict,
    collections.deque,
    collections.Counter,
)
_FROM_ARRAYS = words("""
    astype copy sum mean item tolist max min __getitem__ reshape transpose ravel flatten prod any
    all argmax argmin cumsum std var round squeeze __len__ __iter__
""")


def _no_stand(tensor: Any) -> Any:
    raise CannotCapture("a cached function that uses a tensor from outside")


class Natives(Functions):
    """C functions, on values of the capture."""

    _check_lives_on: Any  # of objects.py
    real_mode: Any  # that of the caller, in which nothing is traced

    def _call_cached(self, function: Any, args: Any, kwargs: Any) -> Any:
        """A cached function runs before the program at each call, as it would by itself."""
        source = self.source(function)
        if source is None and id(function) not in self.made:
            source = self.source(self.constant(function))
        if source is None or kwargs:
            raise CannotCapture("a cached function with keywords, or made here")
        given = []
        for one in args:
            if isinstance(one, Tensor) or (not is_plain(one) and self.source(one) is None):
                raise CannotCapture("a cached function of a tensor, or of an object made here")
            if not is_plain(one):
                self.guards.add("is", self.source(one), one)  # type: ignore[arg-type]  # asked above
            if type(one) in library.SIZED:
                raise CannotCapture("a cached function of a size that varies")
            given.append(one)
        mode = get_mode()
        try:
            current.set(self.real_mode)  # in which nothing is traced
            self._check_harmless(function.__wrapped__, given)
            found = function(*given)
        finally:
            current.set(mode)
        return self.read(found, source.call(tuple(given)))

    def _check_harmless(self, function: Any, args: list[Any]) -> None:
        """Refuse a cached function that does more than give a result: it may run once too often."""
        if not isinstance(function, types.FunctionType):
            return
        trial = type(self)(_no_stand, self.real_mode)  # type: ignore[call-arg]  # the whole interpreter
        state = library.random_state()
        trial.begin(function, tuple(args), {})  # type: ignore[attr-defined]  # of entering.py
        if trial.log or library.random_state() != state:
            raise CannotCapture(f"{function.__name__}, a cached function that does more than look")

    def _call_builtin(self, function: Any, args: Any, kwargs: Any) -> Any:
        if library.looks_at_frame(function, args):
            why = CannotCapture(f"{function.__name__}() looks at the function that calls it")
            why.is_of_frame = True
            raise why
        try:
            polyfill = POLYFILLS.get(function)
        except TypeError:
            polyfill = None
        if polyfill is not None:
            return self.enter(polyfill, args, kwargs)
        name = function.__name__
        handler = getattr(self, "builtin_" + name, None)
        if handler is not None and library.BUILTIN.get(id(function)) == name:
            return handler(*args, **kwargs)
        if id(function) in library.OPERATORS:
            return self._call_operator(function, args)
        if id(function) in library.PURE:
            return self.pure(function, args, kwargs)
        if function is weakref.proxy and args:
            self._check_lives_on(args[0])
        owner = getattr(function, "__self__", None)
        if owner is not None and not isinstance(owner, types.ModuleType):
            if owner is itertools.chain and name == "from_iterable":
                return self.enter(polyfills.chain_, tuple(self.builtin_iter(args[0])), {})
            return self._native_method(owner, name, args, kwargs, function)
        raise CannotCapture(f"a call of {name}, which is not known to be pure")

    def _call_operator(self, function: Any, args: Any) -> Any:
        name = function.__name__
        if name == "getitem":
            return self.get_item(*args)
        if name == "contains":
            return self.is_in(*args)
        if name == "truth":
            return self.truth(*args)
        if name == "not_":
            return not self.truth(*args)
        if name in ("is_", "is_not"):
            return self.identical(*args) is (name == "is_")
        if name in ("length_hint", "indexOf", "countOf", "concat", "iconcat"):
            raise CannotCapture(f"operator.{name}")
        return self.binary(function, *args) if len(args) == 2 else self.unary(function, *args)

    def pure(self, function: Any, args: Any, kwargs: Any) -> Any:
        """A C function that only looks at its arguments: plain values, and containers of them."""
        if function in (list, tuple, dict, set, frozenset, types.SimpleNamespace):
            return self._build(function, args, kwargs)
        given = [self.late.pinned(self.inside(one)) for one in args]
        words = {name: self.late.pinned(self.inside(one)) for name, one in kwargs.items()}
        given = [self.new(self.walked(one)) if isinstance(one, Walk) else one for one in given]
        for one in (*given, *words.values()):
            self._check_pure(function, one)
        keeps = function in (slice, len, Size, int, float)
        if not keeps and any(map(self.mentions_size, given)):
            raise CannotCapture(f"a size that varies is used as {function.__name__}()")
        return self.admitted(natively(function, *given, **words))

    def _check_pure(self, function: Any, one: Any) -> None:
        name = function.__name__
        if isinstance(one, Tensor | TracedArray):
            raise CannotCapture(f"{name} of a tensor, which needs its values")
        if is_container(one):
            if not self.comparable(tuple(one)):
                raise CannotCapture(f"{name} of objects, which needs their values")
            return
        views = type(one).__name__.startswith(("dict_", "odict_"))
        usual = is_plain(one) or isinstance(one, (*library.IDENTITY, numpy.ndarray))
        if not (usual or views or type(one).__name__.endswith("iterator")):
            raise CannotCapture(f"{name} of an object of class {type(one).__name__}")

    def _build(self, function: Any, args: Any, kwargs: Any) -> Any:
        """A container made of the items of another one."""
        if function is types.SimpleNamespace or not args:
            return self.new(natively(function, *args, **kwargs))
        first = args[0]
        if function is dict and (
            is_container(first) and isinstance(first, dict | types.MappingProxyType)
        ):
            return self.new(dict(self.inside(first), **kwargs))
        if function is dict and self.own(first, "keys") is not None:
            keys = list(self.builtin_iter(self.call(self.load_attr(first, "keys"))))
            return self.new({**{key: self.get_item(first, key) for key in keys}, **kwargs})
        items = list(self.builtin_iter(first)) if not isinstance(first, Walk) else list(first)
        if function is dict:
            pairs = [tuple(self.builtin_iter(one)) for one in items]
            for key, _ in pairs:
                self.hashable(key)
            return self.new(natively(dict, pairs, **kwargs))
        if function in (set, frozenset):
            for one in items:
                self.hashable(one)
        return self.new(function(items))

    def _native_method(self, owner: Any, name: str, args: Any, kwargs: Any, function: Any) -> Any:
        """A method written in C, of a builtin object."""
        is_bound = getattr(function, "__self__", None) is owner
        bound = function if is_bound else functools.partial(function, owner)
        if isinstance(owner, Tensor):
            return self.step(function, args if is_bound else (owner, *args), kwargs)
        if is_container(owner) and self.source(owner) is not None:
            return self.method(owner, name, args, kwargs)
        if owner is current:
            return self.admitted(bound(*args))  # the mode, which every program is guarded by
        if isinstance(owner, contextvars.ContextVar):
            self.constant(owner)
            if name != "get":
                raise CannotCapture(f"ContextVar.{name}")
            asked = self.source(owner).attr("get").call((MISSING,))  # type: ignore[union-attr]
            found = owner.get(MISSING)
            if found is not MISSING:
                return self.read(found, asked)
            self.guards.add("is", asked, MISSING)
            if args:
                return args[0]
            return self.read(bound(), self.source(owner).attr("get").call())  # type: ignore[union-attr]
        if isinstance(owner, numpy.ndarray) and name in _FROM_ARRAYS:
            return self.admitted(natively(bound, *[self.inside(one) for one in args], **kwargs))
        owner = self.late.pinned(owner)
        if type(owner) in library.SIZED:
            raise CannotCapture(f"a size that varies is used as {name}()")
        if type(owner) in library.DRAWING and id(owner) in self.made:
            given = [self.inside(one) for one in args]
            if all(map(self.comparable, given)):
                self.touched += 1
                return self.admitted(natively(bound, *given, **kwargs))
        if isinstance(owner, Walk) and name in ("send", "close", "__next__", "__iter__"):
            self.touched += 1
            return self.admitted(bound(*args))
        if (self.source(owner) is None or isinstance(owner, type)) and self._is_builtin(owner):
            return self._method_of_made(owner, name, args, kwargs, bound)
        if (
            isinstance(owner, dict | list | set)
            and self.source(owner) is None
            and id(owner) in self.made
        ):
            return self._method_of_made(owner, name, args, kwargs, bound)
        if isinstance(owner, dict) and name in ("get", "__getitem__", "keys", "values", "items"):
            raise CannotCapture(f"{type(owner).__name__}.{name} of an object from outside")
        if isinstance(owner, numpy.ufunc) and name in ("reduce", "accumulate", "outer", "at"):
            raise CannotCapture(f"numpy.{owner.__name__}.{name}")
        quiet = name in ("__init__", "__enter__", "__init_subclass__", "__exit__", "__new__")
        if quiet and made_in_python(type(owner)) and id(owner) in self.made:
            return bound(*args, **kwargs)
        raise CannotCapture(
            f"a call of {type(owner).__name__}.{name}, which is not known to be pure"
        )

    def _is_builtin(self, owner: Any) -> bool:
        kinds = (list, dict, set, frozenset, tuple, bytearray, *COLLECTIONS)
        if is_plain(owner) or type(owner) in kinds or is_named_tuple(owner):
            return True
        return type(owner).__name__.startswith(("dict_", "odict_")) or isinstance(owner, type)

    def _method_of_made(self, owner: Any, name: str, args: Any, kwargs: Any, bound: Any) -> Any:
        # What is kept, or given back, stays what it is; what is looked at has its items read.
        given = list(args) if name in _KEEPING else [self.inside(one) for one in args]
        given = [self.new(self.walked(one)) if isinstance(one, Walk) else one for one in given]
        if not isinstance(owner, list | dict | set | collections.deque) or name in _INDEXING:
            given = [self.late.pinned(one) for one in given]
        words = {key: self.inside(one) for key, one in kwargs.items()}
        if isinstance(owner, type) and name not in (
            "fromkeys",
            "__new__",
            "fromhex",
            "maketrans",
            "mro",
            "from_bytes",
        ):
            raise CannotCapture(f"a call of {owner.__name__}.{name}, which is not known to be pure")
        if name in _COMPARING and not (self.comparable(owner) and all(map(self.comparable, given))):
            raise CannotCapture(f"{name} among objects, which compares them")
        if name in _INDEXING and given and not isinstance(owner, dict) and not is_plain(given[0]):
            raise CannotCapture(f"{name} at an object")
        if isinstance(owner, dict | set) and given and name in _HASHING:
            self.hashable(given[0])
        if isinstance(owner, str) or name in _TEXT:
            if not all(map(self.comparable, (*given, *words.values()))):
                raise CannotCapture("the text of an object")
            if any(map(self.mentions_size, given)):
                raise CannotCapture("the text of a size that varies")
        if name in ("__repr__", "__str__", "__format__") and not is_plain(owner):
            raise CannotCapture("the text of an object")
        if any(isinstance(one, types.FunctionType | types.MethodType) for one in words.values()):
            if name == "sort" and isinstance(owner, list):
                self.touched += 1
                owner[:] = self.builtin_sorted(owner, **words)
                return None
            raise CannotCapture(f"{name} with a Python function")
        walks = isinstance(owner, list | dict | set | collections.deque) and name in (
            "extend", "update", "__iadd__", "__ior__", "extendleft")  # fmt: skip
        if walks:
            given = [
                one if isinstance(one, dict) else list(self.builtin_iter(one)) for one in given
            ]
        if name not in READS:
            self.touched += 1
        made = natively(bound, *given, **words)
        return made if made is None else self.admitted(made)
