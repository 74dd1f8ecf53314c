"""Errors of plain functions that were given something else than a tensor, or what is too large.

Declared operators check their inputs. A plain function of operators would fail wherever it first
asks the argument for what only tensors have. It may; then the guard before it (dispatch/guards.py)
says which argument of which function it was. Public functions that no such guard stands before
(initialisers, windows) get one of this file.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from types import FunctionType
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.dtype import dtype
from pullback.core.home import home_of, is_ours
from pullback.core.tensor import Tensor
from pullback.operators.declare import OPERAND_NAMES

__all__ = ["REFUSALS", "explained", "guard_all", "guarded", "named"]


def _guard(*args: Any, **kwargs: Any) -> Any:
    """The code of every guard; its names are those of the scope that it is given."""
    try:
        return function(*args, **kwargs)  # noqa: F821 (in the scope it runs in)
    except REFUSALS as error:
        told = explain(error, args, kwargs)  # type: ignore[name-defined]  # noqa: F821 (in that scope)
        if told is None:
            raise
        raise told from None


REFUSALS = (AttributeError, MemoryError, OverflowError)
_guards: dict[Any, Any] = {}


def guarded(function: Any, *, of_self: bool = False) -> Any:
    """`function`, which says in a TypeError which argument was no tensor; the same each time.

    `of_self`: it is a method, whose tensor torch's functions call `input`, or by NumPy's names.
    Not a closure, so that modes can be shown its calls (see dispatch/intercept.py).
    """
    known = _guards.get(function)
    if known is not None:
        return known
    if hasattr(function, "op"):
        return function  # which checks its inputs
    scope = {
        "__name__": home_of(function),
        "function": _with_input(function) if of_self else function,
        "explain": lambda error, args, kwargs: explained(
            function, error, named(function, args, kwargs)
        ),
        "REFUSALS": REFUSALS,
    }
    made = FunctionType(_guard.__code__, scope, function.__name__)
    made.__qualname__, made.__doc__ = function.__qualname__, function.__doc__
    made.__module__ = function.__module__
    made.__wrapped__ = function  # type: ignore[attr-defined]  # what inspect follows
    _guards[function] = _guards[made] = made
    return made


def _with_input(method: Any) -> Any:
    def run(*args: Any, **kwargs: Any) -> Any:
        for name in ("input", *OPERAND_NAMES["input"]) if kwargs else ():
            if name in kwargs:
                args = (*args, kwargs.pop(name))
        return method(*args, **kwargs)

    return run


def guard_all(names: dict[str, Any], public: Iterable[str]) -> None:
    """Guard the plain functions among the public names of a module."""
    for name in public:
        value = names.get(name)
        if is_plain(value):
            names[name] = guarded(value)


def is_plain(value: Any) -> bool:
    """Whether this is a function of operators, written in this package, and no operator itself."""
    return (
        isinstance(value, FunctionType)
        and not hasattr(value, "op")
        and is_ours(value, "operators", "nn", "signal")
        and not is_ours(value, "operators.create")  # of no tensors
        and _guards.get(value) is not value  # a guard itself
    )


def explained(function: Any, error: Exception, arguments: dict[str, Any]) -> Exception | None:
    """The error in terms of the call; None where none of the arguments was asked."""
    if not isinstance(error, AttributeError):
        return errors.too_large(function.__name__, error)
    asked = error.obj
    for name, value in arguments.items():
        inside = isinstance(value, tuple | list) and any(one is asked for one in value)
        if value is not asked and not inside:
            continue
        if inside and name == "args":  # of a wrapper
            name = f"number {[one is asked for one in value].index(True) + 1}"
            value = asked
        got = asked.__name__ if isinstance(asked, type) else type(asked).__name__
        if isinstance(asked, Tensor) or not hasattr(Tensor, error.name or ""):
            return TypeError(f"{function.__name__}(): argument `{name}` must not be a {got}.")
        of = "a Tensor" if value is asked else "a sequence of Tensors"
        return TypeError(f"{function.__name__}(): argument `{name}` must be {of}, got {got}.")
    if sources := _sources(asked, error.name or "", arguments):
        return errors.not_a_tensor(function.__name__, "` or `".join(sources), arguments[sources[0]])
    if any(isinstance(one, Tensor | tuple | list) for one in arguments.values()):
        return None
    return TypeError(f"{function.__name__}(): needs a Tensor, and none was given.")


_NUMBERS = (bool, int, float, complex)
_NUMPYS = (numpy.ndarray, numpy.generic, numpy.dtype)


def _sources(asked: Any, attribute: str, arguments: dict[str, Any]) -> list[str]:
    """Arguments that are no tensors, of which came what was asked for an attribute of tensors.

    A sum of numbers is a number, one of texts a text, a part of a list a list, and what is an
    array's is NumPy's.
    """
    if not (hasattr(Tensor, attribute) or hasattr(dtype, attribute)):
        return []
    given = {name: value for name, value in arguments.items() if name != "args"}
    for kinds in (_NUMPYS, _NUMBERS, (list, tuple), (str, bytes)):
        if isinstance(asked, kinds):
            alike = [name for name, value in given.items() if type(value) is type(asked)]
            return alike or [name for name, value in given.items() if isinstance(value, kinds)]
    return []


def named(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by the names of their parameters."""
    try:
        return dict(inspect.signature(function).bind_partial(*args, **kwargs).arguments)
    except TypeError:  # a wrapper took other names than the function has
        return {f"number {i + 1}": one for i, one in enumerate(args)} | kwargs
