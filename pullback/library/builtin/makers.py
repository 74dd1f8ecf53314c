"""Functions that make tensors from nothing, and others beside the operators, for dispatch modes.

They have no declaration to go by, so their calls are spelled here, as torch does.
"""

from __future__ import annotations

import weakref
from types import FunctionType
from typing import Any

import pullback
from pullback.core.mode import get_mode
from pullback.core.ports import ports
from pullback.core.tensor import Tensor
from pullback.core.version import UNWRITTEN, own_cell
from pullback.library.builtin.overloads import namespace
from pullback.operators.dispatch import dispatch
from pullback.operators.dispatch.intercept import Watched, makers, replaceable

__all__ = ["MAKERS"]

_SIZED = frozenset({"empty", "ones", "rand", "randn", "zeros"})
_NAMES = (
    *("arange", "empty", "empty_permuted", "empty_strided", "eye", "full", "linspace", "logspace"),
    *("normal", "ones", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like"),
    *("randperm", "scalar_tensor", "tensor", "tril_indices", "triu_indices", "unique_consecutive"),
    "zeros",
)
_TAKING = ("normal", "rand_like", "randint_like", "randn_like", "unique_consecutive")
_OTHER_ANSWERS = frozenset({"_local_scalar_dense", "equal", "unique_consecutive"})  # no tensors
_METHODS = {"detach": "detach", "item": "_local_scalar_dense", "equal": "equal"}


def _find() -> list[FunctionType]:
    made = [getattr(pullback, name) for name in _NAMES]
    made += [getattr(Tensor, name) for name in _METHODS]
    return [function for function in made if replaceable(function)]


def _make(function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The call as the innermost dispatch mode answers it."""
    name = function.__name__
    if name == "tensor":
        made = function(*args, **{**kwargs, "requires_grad": False})
        return _leaf(_handed("lift_fresh", "default", (made,), {}), kwargs)
    if name in _METHODS:
        if not get_mode().dispatch:  # a class answers, for which the method looks itself
            return function(*args, **kwargs)
        made = _handed(_METHODS[name], "default", args, kwargs)
        if name == "detach" and getattr(made, "_cell", None) is UNWRITTEN:  # new: of one memory
            made._cell = own_cell(args[0] if args else kwargs["self"])
        return made
    given = {key: value for key, value in kwargs.items() if value is not None}
    given.pop("requires_grad", None)
    overload, args = _overload(name, args, given)
    return _leaf(_handed(name, overload, args, given), kwargs)


def _handed(name: str, overload: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    packet: Any = getattr(namespace(), name)
    func = packet._with(overload)
    made = dispatch.hand_over(func, args, kwargs)
    # None stands for a result, as it does among those of operators.
    if made is not None and name not in _OTHER_ANSWERS and not isinstance(made, Tensor):
        raise dispatch.wrong_result(func, made, "a Tensor")
    return made


def _leaf(made: Any, kwargs: dict[str, Any]) -> Any:
    if kwargs.get("requires_grad") and made is not None:
        made._set_requires_grad(True)
    return made


def _overload(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[str, tuple[Any, ...]]:
    """Torch's overload for a call, and its arguments: a size is one list."""
    if name in _SIZED:
        size = kwargs.pop("size", None) or args
        if len(size) == 1 and isinstance(size[0], tuple | list):
            size = size[0]
        return "memory_format" if name == "empty" else "default", (list(size),)
    if name == "arange":
        return ("default", "default", "start", "start_step")[len(args)], args
    if name == "eye" and len(args) == 2:
        return "m", args
    if name == "randint" and len(args) == 3:
        return "low", args
    return "default", args


def _find_taking() -> list[FunctionType]:
    """Those that take tensors, whose class may want to answer."""
    return [getattr(pullback, name) for name in _TAKING]


def _class_answers(cls: type) -> None:
    entry = ("class", id(cls))
    TAKING.begin(entry)
    weakref.finalize(cls, TAKING.end, entry).atexit = False


MAKERS = Watched(_find)
TAKING = Watched(_find_taking)
ports.fill(class_answers=_class_answers)
makers.update(dict.fromkeys(_find(), _make))
