"""Lets the user's modes take operator calls: dispatch modes below autograd, function modes above.

A mode object stands in `Mode.dispatch` or `Mode.functions`, so every operator leaves its fast path
while one is active and nothing is paid otherwise. While a handler runs, its own mode is off and
those outside of it are still on; a dispatch handler also runs below autograd: what it calls is not
recorded, the node is made around what it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, TypeAlias

from pullback.core import overriding
from pullback.core.forward import LEVELS
from pullback.core.mode import Mode, changed, current, get_mode
from pullback.core.ports import ports
from pullback.core.tensor import Tensor
from pullback.core.version import bump
from pullback.core.view import View
from pullback.operators.declare import REQUIRED, Op

# An overload object, its arguments, and what turns its result into that of the operator (or None).
Spelled: TypeAlias = tuple[Any, tuple[Any, ...], dict[str, Any], Callable[[Any], Any] | None]

# (overload, class of mode) -> what to call instead of the class's own __torch_dispatch__.
RULES: dict[tuple[Any, type], Callable[..., Any]] = {}


def hand_over(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the innermost dispatch mode makes of a call; some mode must be active."""
    mode = get_mode()
    known = _last.get()
    if known is not None and known[0] is mode:
        below = known[1]
    else:
        below = _below(mode)
        _last.set((mode, below))
    handler = mode.dispatch[-1]
    rule = RULES.get((func, type(handler))) if RULES else None
    try:
        current.set(below)
        if rule is not None:
            return rule(handler, func, (), args, kwargs)
        return handler.__torch_dispatch__(func, (), args, kwargs)
    finally:
        current.set(mode)


# The mode in which the last handler was called, and the one it ran in: making it takes 5 us.
_last: ContextVar[tuple[Mode, Mode] | None] = ContextVar("pullback_last_dispatch", default=None)


def forget() -> None:
    """Let go of the user's modes; called when one ends."""
    _last.set(None)


def _below(mode: Mode) -> Mode:
    """In which the handler of the innermost dispatch mode runs."""
    changes: dict[str, Any] = {"dispatch": mode.dispatch[:-1], "grad": False}
    if mode.saved_hooks:
        changes["saved_hooks"] = ()
    if LEVELS:
        changes["forward_ad"] = False
    return changed(mode, **changes)


def results(op: Op, bound: dict[str, Any]) -> list[Tensor]:
    """An operator's results as a dispatch mode gives them, ready to be recorded."""
    func, args, kwargs, finish = ports.overload_of(op, op.name, bound)
    made = hand_over(func, args, kwargs)
    if finish is not None:
        made = finish(made)
    single = len(op.outputs) == 1 and op.outputs != ("*",)
    listed = [made] if single else made
    if not isinstance(listed, tuple | list) or not all(isinstance(one, Tensor) for one in listed):
        wanted = "a Tensor" if single else "a tuple of Tensors"
        raise RuntimeError(
            f"{func}: the dispatch mode returned {type(made).__name__}, but this operator gives "
            f"{wanted}; return what func(*args, **kwargs) gives, or tensors in its place."
        )
    return [_unrecorded(op, one, args) for one in listed]


def _unrecorded(op: Op, result: Tensor, args: tuple[Any, ...]) -> Tensor:
    """The tensor itself where its history can be set, else another on the same memory."""
    given = any(
        one is result or (type(one) in (list, tuple) and any(part is result for part in one))
        for one in args
    )
    if given or (result._node is not None and not _is_view(op, result)):
        return result._alias()
    return result


def _is_view(op: Op, result: Tensor) -> bool:
    """Whether it was made by the view operator itself, which is about to say of what."""
    info = result._node
    return op.kind == "view" and info.__class__ is View and info.node is None


def write(op: Op, called: str, target: Tensor, bound: dict[str, Any]) -> None:
    """An in-place form, done by a dispatch mode; counted as one write whatever the mode did."""
    func, args, kwargs, _ = ports.overload_of(op, called, bound)
    version = target._cell[0]
    hand_over(func, args, kwargs)
    if target._cell[0] == version:
        bump(target, called)


# Above autograd ----------------------------------------------------------------------------------


def above(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the innermost function mode makes of a call of a public function."""
    mode = get_mode()
    handler = mode.functions[-1]
    try:
        current.set(changed(mode, functions=mode.functions[:-1]))
        return handler.__torch_function__(function, types_of(args, kwargs), args, kwargs)
    finally:
        current.set(mode)


def public_call(
    op: Op, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any = None, *, called: str = ""
) -> Any:
    """A declared operator's call, handed to the innermost function mode."""
    args, kwargs = as_passed(op, args, kwargs)
    if out is not None:
        kwargs["out"] = out
    return above(getattr(Tensor, called) if called else public_function(op), args, kwargs)


def overridden(
    op: Op, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any = None, *, called: str = ""
) -> tuple[bool, Any]:
    """As `overloaded`, for a declared operator whose arguments are filled in."""
    if not types_of(args, kwargs):
        return False, None
    args, kwargs = as_passed(op, args, kwargs)
    if out is not None:
        kwargs["out"] = out
    function = getattr(Tensor, called) if called else public_function(op)
    return overloaded(function, args, kwargs)


def public_function(op: Op) -> Any:
    """What users call: `sum` for the operator that sums everything."""
    return getattr(Tensor, op.name.partition(".")[0], op.function)


def types_of(args: Any, kwargs: Any) -> tuple[type, ...]:
    """Types of the arguments that have a `__torch_function__` of their own, each once."""
    return tuple(map(type, _candidates((args, kwargs))))


def overloaded(
    function: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    asked: tuple[Any, ...] | None = None,
) -> tuple[bool, Any]:
    """Whether an argument's `__torch_function__` took the call, and its answer."""
    candidates = _candidates((args, kwargs) if asked is None else asked)
    types = tuple(map(type, candidates))
    for one in candidates:
        answer = one.__torch_function__(function, types, args, kwargs)
        if answer is not NotImplemented:
            return True, answer
    return False, None


def refuse(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Say that nobody took a call, if one was asked who is no tensor."""
    types = [one for one in types_of(args, kwargs) if not issubclass(one, Tensor)]
    if types:
        names = ", ".join(one.__name__ for one in types)
        raise TypeError(
            f"{function.__name__}: __torch_function__ of {names} returned NotImplemented; it does "
            "not take this function."
        )


def _candidates(value: Any) -> list[Any]:
    """Who is asked: one of each type, in order, but subclasses before their bases."""
    found: list[Any] = []
    for one in _overriding(value):
        if all(type(one) is not type(other) for other in found):
            bases = (at for at, other in enumerate(found) if isinstance(one, type(other)))
            found.insert(next(bases, len(found)), one)
    return found


def _overriding(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple | list):
        for one in value:
            yield from _overriding(one)
    elif isinstance(value, dict):
        yield from _overriding(list(value.values()))
    elif _has_own_handler(value):
        yield value


# Classes whose instances need not be looked at.
QUIET: set[type] = {Tensor, int, float, bool, complex, str, type(None)}


def any_handler(value: Any) -> bool:
    """Whether a value, or one in a list of values, takes calls itself."""
    if isinstance(value, tuple | list):
        return any(type(one) not in QUIET and any_handler(one) for one in value)
    return _has_own_handler(value)


def _has_own_handler(value: Any) -> bool:
    """Whether a value's class takes calls itself; plain tensors and those of subclasses do not."""
    handler = getattr(type(value), "__torch_function__", None)
    if handler is None or isinstance(value, type):
        return False
    if not isinstance(value, Tensor):
        return not getattr(handler, "disables_torch_function", False)
    usual = Tensor.__torch_function__.__func__  # type: ignore[attr-defined]  # a class method
    return getattr(handler, "__func__", None) is not usual and not overriding.disabled.get()


def as_passed(
    op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments without those that stand at their defaults, which a written function fills in."""
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
