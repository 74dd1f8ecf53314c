"""Objects of classes: made as the language makes them."""

from __future__ import annotations

import collections
import enum
import functools
import inspect
import types
import weakref
from typing import Any

from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.interpreter import library
from pullback.compiled.interpreter.frames import Walk
from pullback.compiled.interpreter.library import is_plain
from pullback.compiled.interpreter.natively import natively
from pullback.compiled.interpreter.natives import COLLECTIONS, POLYFILLS, Natives
from pullback.compiled.interpreter.outside import made_in_python
from pullback.compiled.interpreter.sources import MISSING
from pullback.core.tensor import Tensor

__all__ = ["Objects"]


_WRAPPERS = (
    property,
    staticmethod,
    classmethod,
    functools.partial,
    types.MethodType,
    types.CellType,
)


class Objects(Natives):
    """Constructs objects."""

    interpreted: Any  # of calls.py
    frames: list[Any]  # of running.py

    def construct(self, kind: Any, args: Any, kwargs: Any) -> Any:
        """An object of a class."""
        if kind is type and len(args) == 1:
            if isinstance(args[0], Walk):
                raise CannotCapture("the class of a generator")
            found = type(self.originals.get(id(args[0]), args[0]))
            return found.__mro__[1] if found in library.SIZED else found
        if kind is super:
            if len(args) != 2:
                raise CannotCapture("super() in a form that is not followed")
            return self.new(super(*args))
        polyfill = POLYFILLS.get(kind)
        if polyfill is not None:
            return self.enter(polyfill, args, kwargs)
        if issubclass(kind, weakref.ref) and args:
            self._check_lives_on(args[0])
        if id(kind) in library.PURE:
            handler = getattr(self, "builtin_" + kind.__name__, None)
            is_builtin = library.BUILTIN.get(id(kind)) == kind.__name__
            if handler is not None and is_builtin:
                return handler(*args, **kwargs)
            return self.pure(kind, args, kwargs)
        if id(kind) in library.SEEDED and args and all(map(is_plain, args)):
            return self.new(kind(*args))
        if kind is types.FunctionType and isinstance(args[0], types.CodeType):
            return self.new(kind(*args[:2], *[self.inside(one) for one in args[2:]]))
        if kind is functools.partial and args and type(args[0]) is functools.partial:
            args = (self.interpreted(args[0]), *args[1:])  # else C takes it apart unseen
        if kind in _WRAPPERS:
            return self.new(natively(kind, *args, **kwargs))
        if issubclass(kind, property) and library.is_own(kind):
            return self.new(kind(*args, **kwargs))
        if isinstance(kind, type) and issubclass(kind, BaseException):
            return self._exception(kind, args, kwargs)
        if issubclass(kind, Tensor) or (library.is_own(kind) and library.native_class(kind)):
            for one in (*args, *kwargs.values()):
                if isinstance(one, dict | list) and self.source(one) is not None:
                    raise CannotCapture(f"{kind.__name__} of a {type(one).__name__} from outside")
            return self.step(kind, args, kwargs)
        if kind in COLLECTIONS:
            return self._collection(kind, args, kwargs)
        if isinstance(kind, enum.EnumMeta):
            return self.read(natively(kind, *args), self.root(kind).call(tuple(args)))
        plain_meta = type(kind) is type or library.is_fixed_class(type(kind))
        if not plain_meta and not library.is_own(type(kind)):
            call, _ = self.class_lookup(type(kind), "__call__")
            if isinstance(call, types.FunctionType):
                raise CannotCapture(f"a class with a metaclass {type(kind).__name__}")
        if not made_in_python(kind):
            raise CannotCapture(f"an object of class {kind.__name__} is made by C code")
        return self._instance(kind, args, kwargs)

    def _check_lives_on(self, value: Any) -> None:
        """Refuse to ask whether an object of the function's own lives: programs keep it longer."""
        source = self.source(value)
        passes_by = source is None or source.kind == "leaf"
        if passes_by and not (self.frames and self.frames[-1].ours):
            raise self._half_done("a weak reference to an object that the function made")

    def _half_done(self, reason: str) -> CannotCapture:
        """What ends the capture for good: with a part behind it, too, it would be otherwise."""
        self.touched += 1
        return CannotCapture(reason)

    def _exception(self, kind: Any, args: Any, kwargs: Any) -> Any:
        init, _ = self.class_lookup(kind, "__init__") if made_in_python(kind) else (None, None)
        if not isinstance(init, types.FunctionType):
            return self.new(natively(kind, *args, **kwargs))
        made = self.new(kind.__new__(kind, *args, **kwargs))
        self.call(init, (made, *args), kwargs)
        return made

    def _collection(self, kind: Any, args: Any, kwargs: Any) -> Any:
        if kind is collections.defaultdict and args:
            if not isinstance(args[0], type) or len(args) > 1:
                raise CannotCapture("a defaultdict whose factory is a function")
            return self.new(kind(args[0], **kwargs))
        given = [self.walked(one) if isinstance(one, Walk) else self.inside(one) for one in args]
        return self.new(natively(kind, *given, **kwargs))

    def _instance(self, kind: Any, args: Any, kwargs: Any) -> Any:
        if self.class_lookup(kind, "__del__")[0] is not MISSING:
            raise self._half_done(
                "an object of a class with __del__, which runs when nobody has it"
            )
        new, base = self.class_lookup(kind, "__new__")
        if isinstance(new, staticmethod):
            new = new.__func__
        if isinstance(new, types.FunctionType):
            if kind.__mro__[1] is tuple and hasattr(kind, "_fields"):
                return self._named_tuple(kind, args, kwargs)
            made = self.enter(self.constant(new), (kind, *args), kwargs)
            if not isinstance(made, kind):
                return made
        elif base is object:
            made = object.__new__(kind)
        elif base in (dict, list, set, collections.OrderedDict):
            made = base.__new__(kind)
        elif base is tuple:
            made = tuple.__new__(kind, list(self.builtin_iter(args[0])) if args else ())
        else:
            raise CannotCapture(f"an object of class {kind.__name__} is made by C code")
        self.new(made)
        init, owner = self.class_lookup(kind, "__init__")
        if isinstance(init, types.FunctionType):
            self.call(init, (made, *args), kwargs)
        elif owner in (dict, list, set, collections.OrderedDict):
            natively(init, made, *[self._items_of(one) for one in args], **kwargs)
        elif owner is not object and base is not tuple:
            raise CannotCapture(f"an object of class {kind.__name__} is made by C code")
        return made

    def _named_tuple(self, kind: Any, args: Any, kwargs: Any) -> Any:
        bound = natively(inspect.signature(kind.__new__).bind, kind, *args, **kwargs)
        bound.apply_defaults()
        return self.new(tuple.__new__(kind, bound.args[1:]))
