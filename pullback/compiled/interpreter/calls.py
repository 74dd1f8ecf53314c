"""Calls: operators are steps, Python code is entered, C functions run where they are listed."""

from __future__ import annotations

import collections
import functools
import itertools
import math
import operator
import types
import weakref
from typing import Any

import numpy

from pullback.autograd.function import Function
from pullback.autograd.grad_mode import _ModeContext
from pullback.compiled.capture.known import check_pass
from pullback.compiled.capture.reasons import CannotCapture, refusals
from pullback.compiled.capture.traced import TracedArray
from pullback.compiled.interpreter import library, memory, polyfills
from pullback.compiled.interpreter.entering import Entering
from pullback.compiled.interpreter.frames import Walk
from pullback.compiled.interpreter.late import is_late
from pullback.compiled.interpreter.library import is_plain
from pullback.compiled.interpreter.lifting import lifted
from pullback.compiled.interpreter.natively import natively
from pullback.compiled.interpreter.outside import is_container, made_in_python
from pullback.compiled.interpreter.sources import MISSING
from pullback.compiled.interpreter.words import words
from pullback.compiled.sizes.sized import plain
from pullback.core.dtype import int64
from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import TreeSpec, tree_leaves

__all__ = ["Calls"]


# Operators that take a number as they take a tensor of no dimensions.
_OF_NUMBERS = frozenset({
    operator.add, operator.sub, operator.mul, operator.truediv, operator.lt, operator.le,
    operator.gt, operator.ge,
})  # fmt: skip
_DIVIDING = frozenset({operator.truediv})
_PASSING = words("backward _backward grad vjp jacobian hessian")
_ROOTED = words("backward _backward")  # which fill the .grad of whatever leaf they come to
_COUNTING = words("numel nelement nbytes")
_OF_SIZES = _COUNTING | words("stride storage_offset")
_MOST_ITEMS = 10_000  # of a generator that native code is given
_GETTERS = (operator.itemgetter, operator.attrgetter, operator.methodcaller)


class Calls(Entering):
    """Calls of whatever can be called."""

    run: Any  # of instructions.py
    shadow_classes: dict[Any, Any]
    asks: bool
    real_mode: Any  # that of the caller, in which nothing is traced
    stand_number: Any  # gives a number that is an input its tensor

    def call(self, function: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        """`function(*args, **kwargs)`."""
        kwargs = kwargs or {}
        kind = type(function)
        tail, self.tail = self.tail, False
        if kind is types.FunctionType:
            return self._call_function(function, args, kwargs, tail)
        if kind is types.MethodType:
            return self._call_method(function, args, kwargs, tail)
        if isinstance(function, type):
            return self.construct(function, args, kwargs)
        if kind is functools.partial:
            return self._call_partial(function, args, kwargs, tail)
        if isinstance(function, functools._lru_cache_wrapper):
            return self._call_cached(function, args, kwargs)
        if kind in _GETTERS:
            return self._call_getter(function, args)
        if isinstance(function, weakref.ref):
            return self._call_reference(function)
        if id(function) in library.PURE or id(function) in library.OPERATORS:
            return self._call_builtin(function, args, kwargs)
        if isinstance(function, types.BuiltinFunctionType | types.MethodWrapperType):
            return self._call_builtin(function, args, kwargs)
        if isinstance(function, types.MethodDescriptorType | types.WrapperDescriptorType):
            return self._call_descriptor(function, args, kwargs)
        return self._call_object(function, args, kwargs, tail)

    def _call_function(self, function: Any, args: Any, kwargs: Any, tail: bool) -> Any:
        if function.__globals__ is vars(polyfills):
            self.tail = tail
            return self.enter(function, args, kwargs)
        if id(function) in library.PURE:
            return self.pure(function, args, kwargs)
        place = library.where(function)
        if place == "native" and id(function) not in self.made:
            return self._call_library(function, args, kwargs)
        if place == "native":  # made by the library for this call
            return self.step(function, args, kwargs)
        if place == "entered" and function.__name__ in library.NATIVE_FUNCTIONS:
            return self.step(function, args, kwargs)
        if place == "entered" and function.__code__ in library.shortcuts():
            return self._weights_of(function, args)
        if place == "other":
            raise CannotCapture(f"a call of {function.__qualname__}, which no program repeats")
        self.tail = tail
        return self.enter(function, args, kwargs)

    def _weights_of(self, function: Any, args: Any) -> Any:
        """Parameters of a layer, which it finds by a shorter way: as Python finds them."""
        if function.__name__ == "parameter_table":
            return self.new({})
        both = [self.load_attr(args[0], name) for name in ("weight", "bias")]
        return self.new(tuple(both))

    def _call_method(self, function: Any, args: Any, kwargs: Any, tail: bool) -> Any:
        inner, owner = function.__func__, function.__self__
        source = self.source(function)
        if source is not None:
            inner = self.read(inner, source.attr("__func__"))
            owner = self.read(owner, source.attr("__self__"))
        if isinstance(owner, type) and inner is Function.apply.__func__:  # type: ignore[attr-defined]  # a classmethod
            return self._apply(owner, args, kwargs)
        if type(owner) in library.DRAWING or isinstance(owner, Walk):
            return self._native_method(owner, function.__name__, args, kwargs, function)
        self.tail = tail
        return self.call(inner, (owner, *args), kwargs)

    def _call_partial(self, function: Any, args: Any, kwargs: Any, tail: bool) -> Any:
        source = self.source(function)
        inner, first, words = function.func, function.args, function.keywords
        if source is not None:
            inner = self.read(inner, source.attr("func"))
            first = self.copied(self.read(first, source.attr("args"))) if first else ()
            words = self.copied(self.read(words, source.attr("keywords"))) if words else {}
            if not function.args:
                self.guards.add("len", source.attr("args"), 0)
            if not function.keywords:
                self.guards.add("len", source.attr("keywords"), 0)
        self.tail = tail
        return self.call(inner, (*first, *args), {**words, **kwargs})

    def _call_getter(self, function: Any, args: Any) -> Any:
        """`itemgetter`, `attrgetter` or `methodcaller` of a value."""
        what = function.__reduce__()[1]
        if (
            not all(map(is_plain, what))
            or len(args) != 1
            or type(function) is operator.methodcaller
        ):
            raise CannotCapture(
                f"a call of {type(function).__name__} in a form that is not followed"
            )
        found = []
        for one in what:
            value = args[0]
            for part in one.split(".") if type(function) is operator.attrgetter else (one,):
                by_name = type(function) is operator.attrgetter
                value = self.load_attr(value, part) if by_name else self._plain_item(value, part)
            found.append(value)
        return found[0] if len(found) == 1 else self.new(tuple(found))

    def _plain_item(self, value: Any, key: Any) -> Any:
        if isinstance(value, tuple) and self.source(value) is None:
            return tuple.__getitem__(value, key)  # a field of a result's own class
        return self.get_item(value, key)

    def _call_reference(self, function: Any) -> Any:
        source = self.source(function)
        if source is None:
            return self.admitted(function())
        return self.read(function(), source.call())

    def _call_descriptor(self, function: Any, args: Any, kwargs: Any) -> Any:
        if not args:
            raise TypeError("an unbound method needs an argument")
        if function is object.__setattr__:
            return self.store_attr(args[0], args[1], args[2], plainly=True)
        if function is object.__delattr__:
            return self.delete_plainly(args[0], args[1])
        if function is object.__init__:
            return None
        return self._native_method(args[0], function.__name__, args[1:], kwargs, function)

    def _call_object(self, function: Any, args: Any, kwargs: Any, tail: bool) -> Any:
        kind = type(function)
        if library.is_pure_ufunc(function):
            return self._call_ufunc(function, args, kwargs)
        if id(function) in library.SEEDED and args and all(map(is_plain, args)):
            return self.new(function(*args))
        inner = self.instance_dict(function) and vars(function).get("_torchdynamo_orig_callable")
        if inner is not None and library.is_own(kind):  # a compiled function: what it compiles
            source = self.source(function)
            assert source is not None
            inner = self.read(inner, source.attr("_torchdynamo_orig_callable"))
            self.tail = tail
            return self.call(inner, args, kwargs)
        found, _ = self.class_lookup(kind, "__call__")
        if isinstance(found, types.FunctionType):
            self.tail = tail
            return self.call(found, (function, *args), kwargs)
        name = getattr(function, "__name__", kind.__name__)
        raise CannotCapture(f"a call of {name}, which is not known to be pure")

    def _call_ufunc(self, function: Any, args: Any, kwargs: Any) -> Any:
        if any(isinstance(one, Tensor | TracedArray) for one in args):
            return self.step(function, args, kwargs)
        if "out" in kwargs:
            raise CannotCapture(f"numpy.{function.__name__} that writes to an array")
        return self.pure(function, args, kwargs)

    # The library ----------------------------------------------------------------------------------

    def _call_library(self, function: Any, args: Any, kwargs: Any) -> Any:
        if library.is_effect(function):
            if args and isinstance(args[0], Tensor):
                raise CannotCapture(f"{function.__name__} of a tensor, which needs its values")
            raise CannotCapture(f"a call of {function.__name__}, which changes settings")
        if args and isinstance(args[0], _ModeContext) and function.__name__ == "_again":
            return self._new_context(function, args[0])
        if args and self._is_foreign_owner(function, args[0]):
            name = f"{type(args[0]).__name__}.{function.__name__}"
            raise CannotCapture(f"{name} of an object from outside, which it may change")
        memory = [one for one in args if isinstance(one, numpy.ndarray | bytearray | memoryview)]
        shares = function.__name__ in library.SHARING
        if shares and any(self.source(one) is not None for one in memory):
            raise CannotCapture(
                f"{function.__name__} of an array from outside, whose memory it shares"
            )
        tensors = any(isinstance(one, Tensor) for one in (*args, *kwargs.values()))
        if library.is_query(function) and not tensors:
            if kwargs or not all(map(is_plain, args)):
                raise CannotCapture(f"{function.__name__} with an object")
            return self._asked(function, args)
        if function.__closure__:
            function = self._rebound(function)
        return self.step(function, args, kwargs)

    def _new_context(self, function: Any, context: Any) -> Any:
        """What `@no_grad()` enters at each call of the function: another context like it."""
        source = self.source(context)
        if source is not None and "mode" in vars(context):
            self.read(context.mode, source.attr("mode"))
        return self.admitted(function(context))

    def _is_foreign_owner(self, function: Any, owner: Any) -> bool:
        """Whether a function is a method of an object of the library's that was made elsewhere."""
        kind = type(owner)
        if isinstance(owner, (Tensor, library.Generator, *library.IDENTITY)) or is_plain(owner):
            return False
        if not library.is_own(kind) or self.source(owner) is None or isinstance(owner, tuple):
            return False
        return any(function in vars(base).values() for base in kind.__mro__)

    def _asked(self, function: Any, args: Any) -> Any:
        """A question about settings, asked again at each call, as the caller would."""
        if function.__name__ in library.SETTINGS:
            if self.later is not None and function.__name__ == "is_grad_enabled":
                raise CannotCapture("is_grad_enabled() in a backward pass, whose graph may be kept")
            return function(*args)
        return self.read(function(*args), self.root(function).call(args))

    def _rebound(self, function: Any) -> Any:
        """A function of the library that closes over the user's: with those interpreted."""
        cells = []
        for name, cell in zip(function.__code__.co_freevars, function.__closure__, strict=True):
            del name
            cells.append(types.CellType(self.handed(self.cell(cell))))
        made = types.FunctionType(function.__code__, function.__globals__, function.__name__,
                                  function.__defaults__, tuple(cells))  # fmt: skip
        made.__kwdefaults__ = function.__kwdefaults__
        made.__dict__.update(function.__dict__)
        return made

    def step(self, function: Any, args: Any, kwargs: Any = None) -> Any:
        """A native call: its operators are steps of the program."""
        kwargs = kwargs or {}
        why = library.needs_values(function, args)
        if why is not None:
            raise CannotCapture(why)
        name = getattr(function, "__name__", "")
        if name.startswith("register_") and args and self.source(args[0]) is not None:
            raise CannotCapture(f"{name} of a tensor from outside")
        memory.ask(self, name, args, kwargs)
        if name == "requires_grad_":
            self.check_flag(args[0], *args[1:], **kwargs)
        if name in _ROOTED:
            check_pass(
                self, [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
            )
        args = self._with_numbers(function, args)
        given = tuple([self.handed(one) for one in args])
        words = {word: self.handed(one) for word, one in kwargs.items()}
        before, self.asks = self.asks, name in library.DECIDING
        count, passed = refusals.count, self.passed()
        try:
            made = function(*given, **words)
        except CannotCapture:
            if name in _PASSING or self.passed() != passed:
                self.touched += 1  # a pass that has stopped may have freed a part of the graph
            raise
        except Exception as error:
            # With values it might not be raised, so nobody here may handle it.
            raise CannotCapture(
                f"{name or 'a call'} raises {type(error).__name__}: {error}"
            ) from error
        finally:
            self.asks = before
        if refusals.count != count:  # somebody there caught it, and went on without values
            raise CannotCapture(*refusals.last)
        if made is None or name.startswith(("register_", "__enter__", "__exit__")):
            self.touched += 1
        if name in _OF_SIZES and args and isinstance(args[0], Tensor):
            return self.of_sizes(name, args[0], made)
        return self.admitted(made)

    def check_flag(self, tensor: Any, requires_grad: Any = True) -> None:
        """Let Python change whether a tensor from outside requires grad: another leaf, then."""
        if self.source(tensor) is None:
            return
        has_history = self.originals[id(tensor)].grad_fn is not None  # which may refuse
        if has_history or tensor.requires_grad is not requires_grad:
            raise CannotCapture("requires_grad of a tensor from outside is changed")

    def of_sizes(self, name: str, tensor: Tensor, made: Any) -> Any:
        """A number that native code computes of a shape, and that remembers nothing then."""
        shape = natively(getattr, tensor, "shape")
        if not self.mentions_size(tuple(shape)):
            return self.admitted(made)
        if name not in _COUNTING:
            raise CannotCapture(f"{name} of a tensor whose size varies")
        count = math.prod(shape)
        return count * tensor.itemsize if name == "nbytes" else count

    def passed(self) -> int:
        """How many calls of backward passes were written down."""
        return 0 if self.tracer is None else self.tracer.passed

    def _with_numbers(self, function: Any, args: Any) -> Any:
        """Operands of an operator: a number that is an input is a tensor of no dimensions."""
        if len(args) != 2 or function not in _OF_NUMBERS:
            return args
        for place, one in enumerate(args):
            other = args[1 - place]
            if is_late(one) and isinstance(other, Tensor):
                kind = other.dtype.is_floating_point and other.dtype.itemsize > 2
                whole = type(plain(one)) is int and other.dtype is int64
                if kind or (whole and function not in _DIVIDING):
                    stand = self.stand_number(one, other.dtype)
                    return (stand, other) if place == 0 else (other, stand)
        return args

    def handed(self, value: Any) -> Any:
        """A value as native code may have it: Python functions are interpreted there too."""
        value = self.late.pinned(value)
        if is_plain(value) or isinstance(value, Tensor):
            return value
        if isinstance(value, Walk):  # which eager might not walk at all, or not to its end
            items = list(itertools.islice(value, _MOST_ITEMS + 1))
            if len(items) > _MOST_ITEMS:
                raise CannotCapture(f"a generator of more than {_MOST_ITEMS} items")
            return [self.handed(one) for one in items]
        if isinstance(value, types.FunctionType):
            if library.where(value) == "native" and not value.__closure__:
                return value
            return value if getattr(value, "_is_interpreted", False) else self.interpreted(value)
        if isinstance(value, types.MethodType | functools.partial):
            return self.interpreted(value)
        if is_container(value) and self.source(value) is not None:
            value = self.copied(value)
        kind = type(value)
        if kind in (list, tuple):
            return kind([self.handed(one) for one in value])
        if kind in (dict, collections.OrderedDict):
            return kind([(key, self.handed(one)) for key, one in value.items()])
        if is_container(value) or isinstance(value, numpy.ndarray | slice):
            return value
        if isinstance(value, type):
            return self._handed_class(value)
        if isinstance(value, (*library.IDENTITY, library.Generator)) or kind is object:
            return value
        if id(value) in self.native:
            return value
        if kind is TreeSpec:  # which nobody changes: another one is another object
            if (source := self.source(value)) is not None:
                self.guards.add("is", source, value)
            return value
        if self.source(value) is None and id(value) in self.made:
            if made_in_python(kind) and not library.is_own(kind):
                if callable(value):
                    return self.interpreted(value)
                raise CannotCapture(f"an object of class {kind.__name__} is handed to native code")
            return value
        if self.source(value) is not None and callable(value):
            return self.interpreted(value)
        raise CannotCapture(
            f"an object of class {kind.__name__} from outside is handed to native code"
        )

    def _handed_class(self, value: type) -> Any:
        if issubclass(value, Function) and not library.is_own(value):
            return self._shadow(value)
        known = library.is_own(value) or library.is_fixed_class(value)
        if made_in_python(value) and not known and not issubclass(value, BaseException | tuple):
            raise CannotCapture(f"the class {value.__name__} is handed to native code")
        return value

    def interpreted(self, function: Any) -> Any:
        """A Python function as native code may call it: interpreted here."""
        run = functools.partial(self._called_back, function)

        def stand_in(*args: Any, **kwargs: Any) -> Any:
            return run(args, kwargs)

        named = function.func if isinstance(function, functools.partial) else function
        for name in ("__name__", "__qualname__", "__doc__"):
            if isinstance(getattr(named, name, None), str):
                setattr(stand_in, name, getattr(named, name))
        stand_in.__wrapped__ = function  # type: ignore[attr-defined]  # for its signature
        stand_in._is_interpreted = True  # type: ignore[attr-defined]  # a mark
        return self.new(stand_in)

    def freed(self, function: Any) -> tuple[Any, list[Tensor]]:
        """A function for later calls, and tensors of this one that it closes over.

        With nothing of the capture in it: those tensors are its last arguments then.
        """
        function = getattr(function, "__wrapped__", function)
        if id(function) not in self.made or not isinstance(function, types.FunctionType):
            return function, []
        cells: list[Any] = []
        tensors: list[Tensor] = []
        for cell in function.__closure__ or ():
            found = cell.cell_contents
            source = self.source(found)
            if isinstance(found, Tensor) and (source is None or source.kind != "root"):
                cells.append(None)
                tensors.append(found)
                continue
            if not is_plain(found) and source is None:
                raise CannotCapture("a branch that closes over an object made by the function")
            cells.append(types.CellType(self.originals.get(id(found), found)))
        return lifted(function, cells, len(tensors)), tensors

    def _called_back(self, function: Any, args: Any, kwargs: Any) -> Any:
        for one in (*args, *kwargs.values()):
            self.admitted(one)
        before, self.asks = self.asks, False
        try:
            if self.later is None:
                return self.call(function, args, kwargs)
            with self.later.running():
                return self.call(function, args, kwargs)
        finally:
            self.asks = before

    def _apply(self, kind: Any, args: Any, kwargs: Any) -> Any:
        """A custom Function: forward and backward are interpreted."""
        if library.is_own(kind):
            return self.step(kind.apply, args, kwargs)
        return self.step(self._shadow(kind).apply, args, kwargs)

    def _shadow(self, kind: Any) -> Any:
        """A class like the user's Function, whose methods are interpreted."""
        known = self.shadow_classes.get(kind)
        if known is not None:
            return known
        methods: dict[str, Any] = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
        for name in ("forward", "backward", "vjp", "jvp", "setup_context", "vmap"):
            found, _ = self.class_lookup(kind, name)
            raw = found.__func__ if isinstance(found, staticmethod) else found
            # What the library wraps (once_differentiable, custom_bwd) is the user's, too.
            if isinstance(raw, types.FunctionType) and (raw.__closure__ or not library.where(raw)):
                self.constant(raw)
                methods[name] = staticmethod(self.interpreted(raw))
            elif found is not MISSING and type(raw) is not types.FunctionType:
                text = f"{name} of the Function {kind.__name__}, of class {type(raw).__name__}"
                raise CannotCapture(text)
        for name in ("generate_vmap_rule", "clear_saved_tensors_on_access", "once_differentiable"):
            self.class_lookup(kind, name)
        made = type(kind)(kind.__name__, (kind,), methods)
        self.shadow_classes[kind] = made
        return made
