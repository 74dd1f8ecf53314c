"""Classes of tensors that override calls, by `__torch_function__` or below `__torch_dispatch__`.

The fast path of an operator must not pay for them. It reads its operands' arrays as `_plain`,
which on usual tensors is the slot `_array` by another name, at no cost. On a class that overrides
calls it is a property that raises `Overridden`, so the call bails out to the interpreter, which
asks the class. All else reads `_array`, which every tensor has. Where handlers are off (`excluded`:
a handler has passed the call on) the property gives the array, and the call goes on as for usual
tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any
from weakref import ref

__all__ = [
    "ALL",
    "BAIL_OUTS",
    "DISPATCH",
    "FUNCTIONS",
    "Overridden",
    "answers",
    "arrive",
    "classes",
    "disabled_dispatch",
    "disabled_function",
    "enter",
    "excluded",
    "know",
    "living_nodes",
    "run",
    "unasked",
]

# Which handlers: bits of `Tensor._overrides` and of `excluded`.
FUNCTIONS, DISPATCH = 1, 2
ALL = FUNCTIONS | DISPATCH

# The handlers that are off in this context.
excluded: ContextVar[int] = ContextVar("pullback_excluded_handlers", default=0)


class Overridden(Exception):  # noqa: N818 (no error: the fast path is left)
    """The array was read of a tensor whose class overrides calls.

    No AttributeError: a class with a `__getattr__` would be asked for the array then.
    """


# What makes a fast path leave: an operand that is no tensor, or one that overrides calls.
BAIL_OUTS = (AttributeError, Overridden)

# Classes that override calls; while there is none, nobody looks for them. Weak, by id.
classes: dict[int, ref[type]] = {}

# Those among them that answer below autograd: a user's backward may return one of them.
answering: dict[int, ref[type]] = {}

# Nodes recorded around a `__torch_dispatch__`: a pass that comes to one computes with tensors.
# Weak references, which leave by themselves; a WeakSet does the same in Python, for 1.5 us a node.
living_nodes: set[ref[Any]] = set()
_leaves = living_nodes.discard


def know(node: Any) -> None:
    """Note that a node was recorded so."""
    living_nodes.add(ref(node, _leaves))


class _Disabled:
    """A handler that passes every call on, with handlers of its kind off.

    No function, so that a class may have it as it is: `__torch_function__ =
    torch._C._disabled_torch_function_impl`.
    """

    disables_torch_function = True

    def __init__(self, name: str, bits: int) -> None:
        self.__name__ = name
        self._bits = bits

    def __call__(
        self,
        func: Callable[..., Any],
        types: Any = (),
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        before = excluded.get()
        try:
            excluded.set(before | self._bits)
            return func(*args, **(kwargs or {}))
        finally:
            excluded.set(before)

    def __repr__(self) -> str:
        return f"<built-in handler {self.__name__}>"


disabled_function = _Disabled("_disabled_torch_function_impl", FUNCTIONS)
disabled_dispatch = _Disabled("_disabled_torch_dispatch_impl", DISPATCH)


def _guard(bits: int, array: Any) -> property:
    """`_plain` of a class with these handlers: the array where all of them are off."""
    read = array.__get__

    def plain(self: Any) -> Any:
        if excluded.get() & bits == bits:
            return read(self)
        raise Overridden

    return property(plain)


def enter(cls: type, base: Any) -> None:
    """Make operators ask instances of `cls`, a subclass of `base`, if it has handlers."""
    handler = cls.__torch_function__  # type: ignore[attr-defined]  # a class of tensors
    below = cls.__torch_dispatch__  # type: ignore[attr-defined]  # a class of tensors
    dispatches = below is not disabled_dispatch
    if dispatches and getattr(handler, "__func__", None) is base.__torch_function__.__func__:
        # Who answers below autograd has no use for results that are wrapped again above it.
        cls.__torch_function__ = handler = disabled_function  # type: ignore[attr-defined]  # a class of tensors
    takes = (FUNCTIONS if handler is not disabled_function else 0) | (DISPATCH * dispatches)
    cls._overrides = takes  # type: ignore[attr-defined]  # a class of tensors
    array = next(vars(one)["_array"] for one in cls.__mro__ if "_array" in vars(one))
    cls._plain = _guard(takes, array) if takes else array  # type: ignore[attr-defined]  # a class of tensors
    cls._raw = array  # type: ignore[attr-defined]  # a class of tensors
    if takes:
        number = id(cls)
        classes[number] = ref(cls, lambda _: classes.pop(number, None))
        if dispatches:
            answering[number] = ref(cls, lambda _: answering.pop(number, None))


def unasked(func: Callable[..., Any], *args: Any) -> Any:
    """Call a function with all handlers of classes off."""
    before = excluded.get()
    try:
        excluded.set(ALL)
        return func(*args)
    finally:
        excluded.set(before)


def answers(*tensors: Any) -> bool:
    """Whether one of these tensors is of a class that answers operators below autograd."""
    for one in tensors:
        if one._overrides & DISPATCH:
            return not excluded.get() & DISPATCH
    return False


# Called with a class when its first instance is made: compositions of operators begin to ask.
arrivals: list[Callable[[type], None]] = []


def arrive(cls: type) -> None:
    """An instance of `cls` is made."""
    if "_has_arrived" not in cls.__dict__:
        cls._has_arrived = True  # type: ignore[attr-defined]  # a class of tensors
        for announce in arrivals:
            announce(cls)


def run(
    cls: type,
    base: type,
    func: Callable[..., Any],
    types: tuple[type, ...],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
) -> Any:
    """Call a function with `__torch_function__` off; tensors that it makes become `cls`."""
    for kind in types:
        if kind is not cls and not issubclass(cls, kind):
            return NotImplemented
    before = excluded.get()
    try:
        excluded.set(before | FUNCTIONS)
        made = func(*args, **kwargs) if kwargs else func(*args)
        if cls is base or cls._overrides == 0 or func in unwrapped:  # type: ignore[attr-defined]  # a class of tensors
            return made
        if type(made) is base:
            return _converted(made, cls, args)
        return _all_converted(made, cls, base, args) if isinstance(made, tuple | list) else made
    finally:
        excluded.set(before)


# Functions whose results stay what they are: what a tensor holds is shown, nothing is made.
unwrapped: set[Any] = set()


def _converted(made: Any, cls: Any, args: tuple[Any, ...]) -> Any:
    for one in args:
        if one is made or (type(one) in (list, tuple) and any(part is made for part in one)):
            return made.as_subclass(cls)  # the caller's own tensor stays what it is
    return become(made, cls)


def become(made: Any, cls: Any) -> Any:
    """A tensor that nobody else has seen, as one of another class."""
    try:
        made.__class__ = cls
    except TypeError:  # a class with slots of its own is laid out otherwise
        before, made = made, object.__new__(cls)
        made._array, made._node, made._cell = before._array, before._node, before._cell
        vars(made).update(vars(before))
    return made


def _all_converted(made: Any, cls: Any, base: type, args: tuple[Any, ...]) -> Any:
    """The same for results in tuples and lists."""
    converted = [
        _converted(one, cls, args)
        if type(one) is base
        else _all_converted(one, cls, base, args)
        if isinstance(one, tuple | list)
        else one
        for one in made
    ]
    same = all(one is before for one, before in zip(converted, made, strict=True))
    return made if same else type(made)(converted)
