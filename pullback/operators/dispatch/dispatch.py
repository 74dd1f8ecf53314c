"""Lets the user's modes take operator calls: dispatch modes below autograd, function modes above.

A mode object stands in `Mode.dispatch` or `Mode.functions`, so every operator leaves its fast path
while one is active and nothing is paid otherwise. While a handler runs, its own mode is off and
those outside of it are still on; a dispatch handler also runs below autograd: what it calls is not
recorded, the node is made around what it returns.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from types import FunctionType
from typing import Any, TypeAlias, TypeVar
from weakref import WeakSet

from numpy import ndarray

from pullback.core import overriding
from pullback.core.forward import LEVELS
from pullback.core.mode import NO_GRAD, PLAIN, Mode, changed, current, get_mode, with_grad
from pullback.core.overriding import DISPATCH, FUNCTIONS, excluded
from pullback.core.ports import ports
from pullback.core.tensor import Tensor
from pullback.core.version import bump
from pullback.core.view import View
from pullback.operators.declare import QUICK, REQUIRED, Op

T = TypeVar("T")

# An overload object, its arguments, and what turns its result into that of the operator (or None).
Spelled: TypeAlias = tuple[Any, tuple[Any, ...], dict[str, Any], Callable[[Any], Any] | None]

# (overload, class of mode) -> what to call instead of the class's own __torch_dispatch__.
RULES: dict[tuple[Any, type], Callable[..., Any]] = {}


def hand_over(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], asked: list[Any] | None = None
) -> Any:
    """What handlers below autograd make of a call: the innermost mode, then classes of arguments.

    Some mode must be active, or some argument of a class that answers: `asked`, where it is known.
    """
    mode = get_mode()
    if asked is None and overriding.classes:
        asked = answering(guests(args, kwargs))
    if not asked:
        types: tuple[Any, ...] = ()
    else:  # a comprehension is a frame of its own
        types = (type(asked[0]),) if len(asked) == 1 else tuple([type(one) for one in asked])
    if (mode is PLAIN or mode is NO_GRAD) and not LEVELS:
        below = NO_GRAD
    else:
        known = _last.get()
        if known is not None and known[0] is mode:
            below = known[1]
        else:
            below = _below(mode)
            if below is not mode and mode is not PLAIN:
                _last.set((mode, below))
    try:
        current.set(below)
        if mode.dispatch:
            handler = mode.dispatch[-1]
            rule = RULES.get((func, type(handler))) if RULES else None
            if rule is not None:
                return rule(handler, func, types, args, kwargs)
            answer = handler.__torch_dispatch__(func, types, args, kwargs)
            if answer is not NotImplemented:
                return answer
        for kind in types:
            rule = RULES.get((func, kind)) if RULES else None
            if rule is not None:
                return rule(None, func, types, args, kwargs)
            answer = kind.__torch_dispatch__(func, types, args, kwargs)
            if answer is not NotImplemented:
                return answer
    finally:
        current.set(mode)
    raise _nobody(func, (*map(type, mode.dispatch[-1:]), *types))


def _nobody(func: Any, kinds: tuple[type, ...]) -> TypeError:
    names = ", ".join(kind.__name__ for kind in kinds)
    return TypeError(
        f"{func}: every __torch_dispatch__ that was asked returned NotImplemented ({names}); let "
        "one of them answer this operator."
    )


def overrides_of(args: Any, kwargs: dict[str, Any]) -> int:
    """Which handlers arguments have that are not off: bits of core/overriding.py."""
    takes = 0
    for one in guests(args, kwargs):
        takes |= one._overrides if isinstance(one, Tensor) else FUNCTIONS
    return takes & ~excluded.get()


def guests(args: Any, kwargs: dict[str, Any], out: Any = None) -> list[Any]:
    """Arguments of classes with handlers: one of each class, subclasses before their bases."""
    found: list[Any] = []
    for one in args:
        kind = type(one)
        if kind in QUIET or (found and kind is type(found[0])):
            continue
        if isinstance(one, Tensor):
            if one._overrides:
                _enter(one, found)
        else:
            _guests_in(one, found)
    if kwargs:
        _guests_in(tuple(kwargs.values()), found)
    if out is not None:
        _guests_in(out, found)
    return found


def _guests_in(value: Any, found: list[Any]) -> None:
    if isinstance(value, tuple | list):
        for one in value:
            if type(one) not in QUIET:
                _guests_in(one, found)
    elif isinstance(value, dict):
        _guests_in(tuple(value.values()), found)
    elif isinstance(value, Tensor):
        if value._overrides:
            _enter(value, found)
    elif _is_duck(value):
        _enter(value, found)


def _enter(value: Any, found: list[Any]) -> None:
    """Add one of a class that is not there yet, before those of its bases."""
    kind, at = type(value), len(found)
    for place, other in enumerate(found):
        if type(other) is kind:
            return
        if at == len(found) and issubclass(kind, type(other)):
            at = place
    found.insert(at, value)


def _is_duck(value: Any) -> bool:
    """Whether something that is no tensor overrides calls as one."""
    handler = getattr(type(value), "__torch_function__", None)
    if handler is None or isinstance(value, type) or _is_of_torch(value):
        return False
    return not getattr(handler, "disables_torch_function", False)


def _is_of_torch(value: Any) -> bool:
    """Whether it is a tensor of torch itself, where that is loaded too: it would ask us in turn."""
    kind = getattr(sys.modules.get("torch"), "Tensor", Tensor)
    return kind is not Tensor and isinstance(value, kind)


def apart(found: list[Any]) -> tuple[list[Any], list[Any]]:
    """Guests who are asked above autograd, and those who are asked below."""
    if len(found) == 1 and isinstance(found[0], Tensor):
        takes = found[0]._overrides & ~excluded.get()
        return found if takes & FUNCTIONS else [], found if takes & DISPATCH else []
    return with_functions(found), answering(found)


def with_functions(found: list[Any]) -> list[Any]:
    """Those among guests whose `__torch_function__` is to be asked."""
    off = excluded.get()
    return [
        one
        for one in found
        if not isinstance(one, Tensor) or (one._overrides & FUNCTIONS and not off & FUNCTIONS)
    ]


def answering(found: list[Any]) -> list[Any]:
    """Those among guests whose `__torch_dispatch__` is to be asked."""
    if excluded.get() & DISPATCH:
        return []
    return [one for one in found if isinstance(one, Tensor) and one._overrides & DISPATCH]


# The mode in which the last handler was called, and the one it ran in: making it takes 5 us.
_last: ContextVar[tuple[Mode, Mode] | None] = ContextVar("pullback_last_dispatch", default=None)


def caller_mode() -> Mode | None:
    """The mode in which the handler that runs now was called: it runs below autograd itself."""
    known = _last.get()
    return None if known is None else known[0]


class _LookedAt:
    """The last mode that `answered.shortly` looked at, and what it found; replaced whole."""

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: tuple[Mode | None, bool] = (None, False)


looked_at = _LookedAt()


def forget() -> None:
    """Let go of the user's modes; called when one ends."""
    _last.set(None)
    looked_at.known = (None, False)


def _below(mode: Mode) -> Mode:
    """In which handlers below autograd run: not recorded, the innermost mode off."""
    changes: dict[str, Any] = {"dispatch": mode.dispatch[:-1], "grad": False}
    if mode.saved_hooks:
        changes["saved_hooks"] = ()
    if LEVELS:
        changes["forward_ad"] = False
    return changed(mode, **changes)


def results(op: Op, bound: dict[str, Any], asked: list[Any] | None = None) -> list[Any]:
    """An operator's results as handlers below autograd give them, ready to be recorded.

    In place of a single one a handler may give None, of which there is nothing to record.
    """
    handlers = get_mode().dispatch
    if handlers and getattr(handlers[-1], "takes_declared", False):
        # One of ours, who is to see the very tensors: torch's spelling may copy some.
        func, args, finish = op.function, tuple(bound.values()), None
        made = hand_over(func, (), bound, asked)
    else:
        func, args, kwargs, finish = ports.overload_of(op, op.name, bound)
        made = hand_over(func, args, kwargs, asked)
    if finish is not None:
        made = finish(made)
    if len(op.outputs) == 1 and op.outputs != ("*",):
        if isinstance(made, Tensor):
            return [unrecorded(op, made, args)]
        if made is None:
            return [None]
        raise wrong_result(func, made, "a Tensor")
    if not isinstance(made, tuple | list) or not all(isinstance(one, Tensor) for one in made):
        raise wrong_result(func, made, "a tuple of Tensors")
    if op.outputs != ("*",) and len(made) != len(op.outputs):
        wanted = f"a tuple of {len(op.outputs)} Tensors"
        raise wrong_result(func, made, wanted, f"{len(made)} of them")
    return [unrecorded(op, one, args) for one in made]


def wrong_result(func: Any, made: Any, wanted: str, found: str = "") -> RuntimeError:
    """A handler's answer that cannot stand for an operator's result."""
    returned = type(made).__name__ + (f" ({found})" if found else "")
    return RuntimeError(
        f"{func}: __torch_dispatch__ returned {returned}, but this operator gives "
        f"{wanted}; return what func(*args, **kwargs) gives, or tensors in its place."
    )


def unrecorded(op: Op, result: Tensor, args: tuple[Any, ...]) -> Tensor:
    """The tensor itself where its history can be set, else another on the same memory."""
    for one in args:
        if one is result or (type(one) in (list, tuple) and any(part is result for part in one)):
            return result._alias()
    if result._node is not None and not _is_view(op, result):
        return result._alias()
    return result


def _is_view(op: Op, result: Tensor) -> bool:
    """Whether it was made by the view operator itself, which is about to say of what."""
    info = result._node
    return op.kind == "view" and info.__class__ is View and info.node is None


def unrecorded_call(function: Callable[[], T]) -> T:
    """What a function gives with nothing recorded; classes of tensors answer all the same."""
    mode = get_mode()
    try:
        current.set(with_grad(mode, grad=False))
        return function()
    finally:
        current.set(mode)


def write(op: Op, called: str, target: Tensor, bound: dict[str, Any]) -> None:
    """An in-place form, done by a dispatch mode; counted as one write whatever the mode did."""
    func, args, kwargs, _ = ports.overload_of(op, called, bound)
    version = target._cell[0]
    hand_over(func, args, kwargs)
    if target._cell[0] == version:
        bump(target, called)


# Above autograd ----------------------------------------------------------------------------------


def above(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the innermost function mode makes of a call of a public function.

    If it has no answer, the classes of arguments are asked; modes outside of it are not, as torch
    has it.
    """
    mode = get_mode()
    handler = mode.functions[-1]
    asked = with_functions(guests(args, kwargs))
    types = tuple([type(one) for one in asked])
    try:
        current.set(changed(mode, functions=mode.functions[:-1]))
        answer = handler.__torch_function__(function, types, args, kwargs)
        for one in asked if answer is NotImplemented else ():
            answer = one.__torch_function__(function, types, args, kwargs)
            if answer is not NotImplemented:
                break
    finally:
        current.set(mode)
    if answer is NotImplemented:
        raise unanswered(function, (type(handler), *types))
    return answer


def public_call(
    op: Op, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any = None, *, called: str = ""
) -> Any:
    """A declared operator's call, handed to the innermost function mode."""
    args, kwargs = as_passed(op, args, kwargs)
    if out is not None:
        kwargs["out"] = out
    return above(getattr(Tensor, called) if called else public_function(op), args, kwargs)


def overridden(
    op: Op,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    out: Any,
    asked: list[Any],
    *,
    called: str = "",
) -> Any:
    """What those `asked` make of a declared operator's call, whose arguments are filled in."""
    for one in asked:
        if not isinstance(one, Tensor) and type(one) not in _known_ducks:
            _known_ducks.add(type(one))
            taken, answer = ports.met(op, args, kwargs, out, called=called)
            return answer if taken else NotImplemented
    args, kwargs = as_passed(op, args, kwargs)
    if out is not None:
        kwargs["out"] = out
    function = getattr(Tensor, called) if called else public_function(op)
    return _offered(function, args, kwargs, asked)


# Classes that are no tensors and were met: from then on all public functions ask.
_known_ducks: WeakSet[type] = WeakSet()


def public_function(op: Op) -> Any:
    """What users call: `sum` for the operator that sums everything."""
    known = _public.get(op)
    if known is None:
        name = _DUNDERS_OF_OPERATORS.get(op.name, op.name.partition(".")[0])
        known = getattr(Tensor, name, None)
        if known is None:  # no method: a quick function of that name, or what is declared
            face = op.meaning.__globals__.get(name)
            known = face if isinstance(face, FunctionType) and face in QUICK else op.function
        _public[op] = known
    return known


_public: dict[Op, Any] = {}
# Operators that few call by name: the signs that they stand for, as torch reports them.
_DUNDERS_OF_OPERATORS = {"rsub": "__rsub__", "true_divide": "div", "pow.Scalar": "__rpow__"}


def types_of(args: Any, kwargs: Any) -> tuple[type, ...]:
    """Types of the arguments that have a `__torch_function__` of their own, each once."""
    return tuple(map(type, with_functions(guests(args, kwargs))))


def overloaded(
    function: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    asked: tuple[Any, ...] | None = None,
) -> tuple[bool, Any]:
    """Whether an argument's `__torch_function__` took the call, and its answer."""
    found = with_functions(guests(args, kwargs) if asked is None else guests(asked, {}))
    if not found:
        return False, None
    answer = _offered(function, args, kwargs, found)
    return answer is not NotImplemented, answer


def offered(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bool, Any]:
    """Whether a function mode or an argument's `__torch_function__` took a call, and its answer."""
    if get_mode().functions:
        return True, above(function, args, kwargs)
    return overloaded(function, args, kwargs)


def _offered(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], asked: list[Any]) -> Any:
    """What the first makes of a call that takes it; NotImplemented if things refuse it."""
    types = tuple([type(one) for one in asked])
    for one in asked:
        answer = one.__torch_function__(function, types, args, kwargs)
        if answer is not NotImplemented:
            return answer
    if any(issubclass(kind, Tensor) for kind in types):
        raise unanswered(function, types)
    return NotImplemented


class Unanswered(TypeError):  # noqa: N818  (users see a TypeError)
    """Everybody who was asked returned NotImplemented; Python's operators do so too, then."""


# Functions that Python calls for a sign: where nobody takes the call, the other operand is asked.
DUNDERS: set[Any] = set()


def unanswered(function: Any, types: Iterable[type]) -> TypeError:
    """Everybody who was asked refused."""
    names = ", ".join(kind.__name__ for kind in types)
    return Unanswered(
        f"{getattr(function, '__name__', function)}: no __torch_function__ takes this call; all of "
        f"{names} returned NotImplemented."
    )


def refuse(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Say that nobody took a call, if one was asked who is no tensor."""
    types = [one for one in types_of(args, kwargs) if not issubclass(one, Tensor)]
    if types:
        raise unanswered(function, types)


class _Classes(set[type]):
    """A set that stands in code as a constant, which must have a hash."""

    __hash__ = object.__hash__  # type: ignore[assignment]  # of this one set, as it is never compared


# Classes whose instances need not be looked at; `nn` adds that of parameters.
QUIET = _Classes((Tensor, int, float, bool, complex, str, type(None), ndarray, slice, type(...)))


def any_handler(value: Any) -> bool:
    """Whether a value, or one in a list of values, overrides calls itself."""
    if isinstance(value, _SEVERAL):
        for one in value:  # noqa: SIM110  a generator costs each call of a public function 0.4 us
            if type(one) not in QUIET and any_handler(one):
                return True
        return False
    return _has_own_handler(value)


def any_thing(values: tuple[Any, ...]) -> bool:
    """Whether one of the values overrides calls itself and is no tensor."""
    return any(not isinstance(one, Tensor) and any_handler(one) for one in values)


_SEVERAL = (tuple, list)  # not `tuple | list`, which would be made anew each time


def _has_own_handler(value: Any) -> bool:
    """Whether a value's class overrides calls above autograd."""
    kind = type(value)  # a stand-in may claim to be a Tensor
    if issubclass(kind, Tensor):
        return bool(kind._overrides & FUNCTIONS & ~excluded.get())
    return _is_duck(value)


def as_passed(
    op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments without those that stand at their defaults, which a written function fills in."""
    if not op.has_defaults:
        return args, dict(kwargs)
    positional = [param for param in op.params if not param.keyword_only]
    count = len(args)
    while count and is_default(args[count - 1], positional[count - 1].default):
        count -= 1
    defaults = {param.name: param.default for param in op.params}
    kept = {
        name: value for name, value in kwargs.items() if not is_default(value, defaults.get(name))
    }
    return args[:count], kept


def is_default(value: Any, default: Any) -> bool:
    """Whether an argument says nothing: the default itself, or an equal plain value."""
    if default is REQUIRED:
        return False
    if value is default:
        return True
    return type(value) is type(default) and not isinstance(value, Tensor) and bool(value == default)
